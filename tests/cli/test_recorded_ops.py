"""Reports and exports of inputs that record their ops: the same numbers everywhere."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from tests.screens.training_trace import NAME, write_training_trace
from tui.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

GPU_NS = 2_275_000


@pytest.fixture(autouse=True)
def trace_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_training_trace(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("COLUMNS", "160")


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capfd.readouterr().out


def exported_frame(capfd: pytest.CaptureFixture[str], frame: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run(capfd, "export", NAME, "--frame", frame))))


def test_the_report_of_ops(capfd: pytest.CaptureFixture[str]) -> None:
    lines = run(capfd, "report", NAME, "--view", "ops").splitlines()
    assert lines[0] == "Ops (11 rows, 2.2750 ms)"
    assert lines[2].startswith("Ops recorded; ")
    assert lines[4].split()[:7] == ["Op", "GPU", "self", "ms", "Time%", "Calls", "TFLOP/s"]
    assert lines[5].split()[:6] == ["aten::mm", "1.200", "52.75", "4", "0.22", "1.200"]
    assert lines[8].startswith("(unattributed: launched outside any op)")
    markdown = run(capfd, "report", NAME, "--view", "ops", "--format", "markdown")
    assert "| aten::mm |" in markdown
    rows = json.loads(run(capfd, "report", NAME, "--view", "ops", "--format", "json"))["rows"]
    assert sum(row["gpu_self_ns"] for row in rows) == GPU_NS


def test_the_dashboard_states_the_source_of_ops(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "report", NAME)
    assert "Top ops (recorded; GPU self time)" in text
    content = json.loads(run(capfd, "report", NAME, "--format", "json"))
    assert sum(row["total_ns"] for row in content["top_ops"]) == GPU_NS
    assert sum(row["total_ns"] for row in content["split"]) == GPU_NS


@pytest.mark.parametrize(
    ("frame", "column", "rows"),
    [("ops_by_name", "gpu_self_ns", 11), ("op_types", "total_ns", 8), ("op_kernels", "total_ns", 6)],
)
def test_exported_ops_add_up_to_the_gpu_time(
    capfd: pytest.CaptureFixture[str], frame: str, column: str, rows: int
) -> None:
    exported_rows = exported_frame(capfd, frame)
    assert len(exported_rows) == rows
    assert sum(int(row[column] or 0) for row in exported_rows) == GPU_NS


def test_op_instances_are_exported_as_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    rows = exported_frame(capfd, "ops")
    assert len(rows) == 20
    inner = next(row for row in rows if row["name"] == "aten::addmm")
    assert rows[int(inner["parent"])]["name"] == "aten::linear"
    assert inner["input_shapes"] == "[[64, 512], [1024, 512], [1024]]"
