"""Frames on the command line: contents of inputs and exports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.running import TOTAL_NS, run
from tests.profiles import SAMPLES
from tui.model.schema import FRAMES
from tui.tables import COMPUTED, MODEL_FRAMES

if TYPE_CHECKING:
    import pytest


def test_inspect_prints_one_object_a_line_and_continues_after_a_bad_file(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty.log").touch()
    status, out, err = run(capfd, "inspect", "--format", "json", tmp_path / "empty.log", log)
    first, second = (json.loads(line) for line in out.splitlines())
    assert status == 2
    assert err == ""
    assert set(first) == {"schema", "proftui", "source", "sources", "error"}
    assert first["source"] == str(tmp_path / "empty.log")
    assert second["source"] == str(log)
    assert second["sessions"][0]["frames"]["activities"] == {
        "rows": 3,
        "duration_ns": TOTAL_NS,
        "by_kind": {"kernel": {"rows": 2, "duration_ns": 354_004_576}, "memcpy": {"rows": 1, "duration_ns": 1_440}},
    }


def test_inspect_as_text(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, _err = run(capfd, "inspect", log)
    assert status == 0
    assert "session 0: nvprof-text, process 7412, lines 1 to" in out
    assert "command: ./train --epochs 1\n" in out
    assert "    activities    3 rows, 354.01 ms\n" in out
    assert "  not available: api-calls (no API calls: record with nvprof --print-api-trace)\n" in out


def test_every_frame_of_the_model_can_be_exported(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    assert tuple(FRAMES) == MODEL_FRAMES
    for name, schema in FRAMES.items():
        status, out, _err = run(capfd, "export", log, "--frame", name)
        assert status == 0
        assert out.splitlines()[0] == ",".join(schema)


def test_export_has_the_launch_configuration_in_base_units(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, err = run(capfd, "export", log, "--frame", "activities", "--format", "ndjson")
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert sum(row["duration_ns"] for row in rows) == TOTAL_NS
    gemm = rows[2]
    assert gemm["name"] == "sgemm_sm35_ldg_nt_128x8x128x16x16"
    assert [gemm[f"grid_{axis}"] for axis in "xyz"] == [27848, 1, 1]
    assert [gemm[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (gemm["registers"], gemm["static_shared_bytes"], gemm["dynamic_shared_bytes"]) == (40, 8448, 0)
    assert (gemm["correlation"], gemm["line"], gemm["size_bytes"]) == (115, 8, None)
    assert rows[0]["size_bytes"] == 4096


def test_exported_kernels_have_the_promised_columns(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    _status, out, _err = run(capfd, "export", log, "--frame", "kernels")
    lines = out.splitlines()
    assert lines[0] == (
        "session,kind,name,calls,total_ns,avg_ns,min_ns,max_ns,median_ns,p90_ns,p99_ns,std_ns,time_pct,uses_tensor_core"
    )
    assert lines[1].startswith("0,kernel,sgemm_sm35_ldg_nt_128x8x128x16x16,1,353980000,353980000,")
    assert [line.split(",")[1] for line in lines[1:]] == ["kernel", "kernel", "memcpy"]


def test_export_to_a_file_reports_it_and_never_replaces_one(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kernels.tsv"
    assert run(capfd, "export", log, "--frame", "kernels", "-o", target) == (
        0,
        "",
        f"proftui: wrote 3 rows of kernels to {target}\n",
    )
    content = target.read_bytes()
    assert content.startswith(b"session\tkind\tname\t")
    status, _out, err = run(capfd, "export", log, "--frame", "kernels", "-o", target)
    assert status == 2
    assert f"proftui: {target} exists\n" in err
    assert run(capfd, "export", log, "--frame", "api", "-o", target, "--overwrite")[0] == 0
    assert target.read_bytes() != content


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    status, out, err = run(capfd, "export", tmp_path / "gone.log", log, "--frame", "sessions")
    assert status == 2
    assert len(out.splitlines()) == 2
    assert err.startswith(f"proftui: {tmp_path / 'gone.log'}")
    assert len(err.splitlines()) == 1


def test_all_launches_of_a_real_log_are_exported(capfd: pytest.CaptureFixture[str]) -> None:
    sample = Path(__file__).parents[2] / "sample_logs" / "caffe_conv1.nvprof.log"
    _status, out, _err = run(capfd, "export", sample, "--frame", "activities", "--format", "ndjson")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (len(rows), sum(row["duration_ns"] for row in rows)) == (32, 753_580_086)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    assert len(kernels) == 20
    config = ["grid_x", "block_x", "registers", "static_shared_bytes", "dynamic_shared_bytes", "stream", "correlation"]
    assert not [row for row in kernels for name in config if row[name] is None]


def test_the_extension_of_the_path_gives_the_format(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    for extension, signature in (
        ("parquet", b"PAR1"),
        ("xlsx", b"PK"),
        ("md", b"| session |"),
        ("json", b'{"schema": "proftui.export/1"'),
    ):
        target = tmp_path / f"kernels.{extension}"
        assert run(capfd, "export", log, "--frame", "kernels", "-o", target)[0] == 0
        assert target.read_bytes().startswith(signature)


RANK_FRAMES = (
    "slowest_ranks",
    "op_type_ranks",
    "op_ranks",
    "collective_kinds",
    "collectives",
    "collective_ranks",
    "collective_sizes",
)
"""Frames of several ranks, which are empty for one log."""


def test_every_aggregate_can_be_exported(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    rows = {}
    for name in COMPUTED:
        status, out, _err = run(capfd, "export", log, "--frame", name, "--gpu", "Tesla K40c")
        assert status == 0
        rows[name] = len(out.splitlines()) - 1
    assert rows.pop("findings") > 0
    assert rows == {
        "kernels": 3,
        "api": 0,
        "ops_by_name": 3,
        "op_types": 3,
        "op_type_summary": 3,
        "op_instances": 3,
        "measured_kernels": 0,
        "op_forest": 7,
        "flame": 10,
        "op_kernels": 3,
        "op_work": 0,
        "kernel_rates": 0,
        "op_work_unknown": 0,
        "op_work_by_shape": 0,
        "critical_paths": 1,
        "critical_path": 5,
        "path_segments": 5,
        "occupancy": 2,
        "iterations": 1,
        "iteration_work": 1,
        "iteration_times": 1,
        "key_choices": 0,
        "phases": 0,
        "ranges_by_name": 0,
        "cuda_graphs": 0,
        "graph_replays": 0,
        "range_instances": 0,
        "gpus": 1,
        "layer_times": 0,
        "layer_totals": 0,
        "breakdown": 7,
        "idle_time": 1,
        "gaps": 2,
        "gap_summary": 1,
        "overlap": 1,
        "launch_delays": 0,
        "delays_by_name": 0,
        "op_overheads": 0,
        "transfers": 1,
        "transfer_sizes": 1,
        "tiny_runs": 0,
        "timeline_lanes": 1,
        "single_transfers": 1,
        "memory_devices": 0,
        "memory_peak": 0,
        "memory_allocations": 0,
        "segments_held": 0,
        "unified_memory": 0,
        "allocators": 0,
        "allocator_iterations": 0,
        "streams": 1,
        "ranks": 0,
        "rank_iterations": 0,
        "ranks_of_op": 3,
        **dict.fromkeys(RANK_FRAMES, 0),
        "api_threads": 0,
        "api_errors": 0,
        "ranges_by_depth": 0,
    }


def test_several_files_are_several_sessions(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    other = shutil.copy(log, log.with_name("other.log"))
    _status, out, _err = run(capfd, "export", log, other, "--frame", "kernels", "--session", "1")
    assert {line.split(",")[0] for line in out.splitlines()[1:]} == {"1"}
    status, _out, err = run(capfd, "export", log, other, "--frame", "kernels", "--session", "2")
    assert (status, err) == (2, "proftui: no session 2\n         sessions: 0 to 1\n")


def test_distributions_and_pivots_add_up(capfd: pytest.CaptureFixture[str]) -> None:
    """Distributions contain all rows, and pivots add up in both directions."""
    log = str(SAMPLES / "caffe_conv1.nvprof.log")
    rows = json.loads(run(capfd, "report", log, "--view", "kernels", "--format", "json")[1])["rows"]
    total = sum(row["total_ns"] for row in rows)
    distribution = json.loads(
        run(capfd, "report", log, "--view", "kernels", "--values", "calls", "--format", "json")[1]
    )
    assert sum(row["rows"] for row in distribution["rows"]) == len(rows)
    assert sum(row["total_ns"] for row in distribution["rows"]) == total
    assert distribution["values_summary"].startswith("min ")
    options = ["--view", "kernels", "--values", "kind", "--across", "name", "--filter", "!memset"]
    pivot = json.loads(run(capfd, "report", log, *options, "--format", "json")[1])
    *rows_by_kind, total_row = pivot["rows"]
    assert total_row["all"] == sum(row["all"] for row in rows_by_kind) < total
    for row in pivot["rows"]:
        assert sum(row[f"sum_{index}"] for index in range(len(pivot["values_across"]))) == row["all"]
    text = run(capfd, "report", log, "--view", "kernels", "--values", "kind")[1]
    assert text.startswith("3 values in 11 rows\n\nKind of Kernels (3 rows)\n")
    assert run(capfd, "report", log, "--across", "kind")[0] == 2
    assert "no such column" in run(capfd, "report", log, "--view", "kernels", "--values", "shade")[2]
