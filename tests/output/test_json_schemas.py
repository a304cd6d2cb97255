"""The JSON of every command and view matches its published schema."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from tests.parameters import others_slow
from tests.profiles import SAMPLES, load, load_one
from tui.analysis import found_profiles
from tui.analysis.capabilities import OK, inspect
from tui.cli.main import main
from tui.tables import ALL_REPORTS, COMPUTED, MODEL_FRAMES, view_of_report

SCHEMAS: Final = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in (Path(__file__).parents[2] / "docs" / "json").glob("*.json")
}
LOG, CAFFE, TORCH, NCU, RANKS = (
    str(SAMPLES / name)
    for name in (
        "resnet50_training.nvprof.log",
        "caffe_conv1.nvprof.log",
        "resnet50_training.pt.trace.json.gz",
        "gemm.ncu.csv",
        "ddp_ranks",
    )
)


pytestmark = pytest.mark.usefixtures("cached_samples")


class Commands:
    """Runs commands, and checks their output."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def run(self, command: str, *arguments: str, status: int = 0, schema: str = "") -> dict[str, Any]:
        """Return the JSON of a command, checked by its schema; keys of rows are unique."""
        assert main([*command.split(), *arguments, "--format", "json"]) == status
        content: dict[str, Any] = json.loads(self._capfd.readouterr().out)
        name, _, version = content["schema"].removeprefix("proftui.").partition("/")
        assert (name, version) == (schema or command, "1")
        Draft202012Validator(SCHEMAS[name]).validate(content)
        for table, total in content.get("total_rows", {}).items():
            keys = [row["key"] for row in content[table]]
            assert len(keys) == total or content["truncated"]
            assert len(set(keys)) == len(keys), (command, arguments, table)
        return content


@pytest.fixture
def commands(capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capfd)


def test_the_schemas_are_valid() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert SCHEMAS.keys() == {
        "report",
        "check",
        "export",
        "sql",
        "diff",
        "inspect",
        "cache",
        "explain",
        "baseline-diff",
        "baselines",
        "formats",
    }


def check_all_views(commands: Commands, file: str) -> None:
    views = inspect(load_one(file) if Path(file).is_file() else load([file])[0])["views"]  # type: ignore[arg-type]
    for report in ALL_REPORTS:
        if views.get(view_of_report(report), OK) == OK:
            commands.run("check" if report == "findings" else "report", file, *view_arguments(report))


def view_arguments(report: str) -> list[str]:
    return [] if report == "findings" else ["--view", report]


def test_every_command_matches_its_schema(commands: Commands, tmp_path: Path) -> None:
    for frame in ("kernels", "activities", "notes"):
        commands.run("export", CAFFE, "--frame", frame, "--limit", "5")
    commands.run("sql", CAFFE, "SELECT name, calls FROM kernels")
    commands.run("inspect", CAFFE)
    commands.run("inspect", "nowhere.log", status=2)
    commands.run("cache", "list")
    commands.run("diff", CAFFE, LOG)
    commands.run("diff", CAFFE, LOG, "--frame", "kernels")
    folder = str(tmp_path / "baselines")
    assert main(["baseline", "save", "--dir", folder, "main", LOG]) == 0
    commands.run("diff", "--baseline", "main", "--dir", folder, LOG, schema="baseline-diff")
    (baseline,) = commands.run("baseline list", "--dir", folder, schema="baselines")["rows"]
    assert (baseline["name"], baseline["runs"], baseline["files"]) == ("main", 1, [Path(LOG).name])
    assert len(commands.run("formats")["rows"]) > 20
    profiles = commands.run(
        "report", str(SAMPLES), "--view", "profiles", "--filter", "caffe", "--columns", "file,format"
    )
    assert [(row["file"], row["format"]) for row in profiles["rows"]] == [("caffe_conv1.nvprof.log", "nvprof-text")]


def test_a_list_of_profiles_says_which_were_not_searched(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.log", "b.log"):
        shutil.copy(SAMPLES / "caffe_conv1.nvprof.log", tmp_path / name)
    assert commands.run("report", str(tmp_path), "--view", "profiles")["left_out"] is None
    monkeypatch.setattr(found_profiles, "MAX_FILES", 1)
    found = commands.run("report", str(tmp_path), "--view", "profiles")
    assert found["left_out"] == "only the newest 1 of 2 files were searched"
    assert len(found["rows"]) == 1


def test_documents_have_at_most_the_requested_size(commands: Commands, capfd: pytest.CaptureFixture[str]) -> None:
    content = commands.run("report", LOG, "--view", "kernels", "--limit", "3")
    assert (len(content["rows"]), content["total_rows"], content["truncated"]) == (3, {"rows": 80}, True)
    for arguments in (["report", LOG, "--view", "kernels"], ["export", LOG, "--frame", "kernels"], ["report", LOG]):
        assert main([*arguments, "--format", "json", "--max-bytes", "9000"]) == 0
        text = capfd.readouterr().out
        assert 4_000 < len(text) <= 9_000
        assert json.loads(text)["truncated"]
    assert main(["report", LOG, "--format", "json", "--max-bytes", "100"]) == 2
    assert "the document without rows needs" in capfd.readouterr().err
    assert main(["report", LOG, "--max-bytes", "100"]) == 2
    assert "--max-bytes does not apply to text" in capfd.readouterr().err


def test_sources_have_size_and_hash(commands: Commands) -> None:
    (source,) = commands.run("report", CAFFE, "--view", "kernels")["sources"]
    assert source == {"file": CAFFE, "bytes": Path(CAFFE).stat().st_size, "xxh3_128": source["xxh3_128"]}
    assert len(source["xxh3_128"]) == 32


@pytest.mark.parametrize("file", others_slow((CAFFE, LOG, TORCH, NCU, RANKS), (NCU,)))
def test_every_view_matches_its_schema(commands: Commands, file: str) -> None:
    check_all_views(commands, file)


@pytest.mark.slow
def test_every_exported_table_matches_its_schema(commands: Commands) -> None:
    for frame in (*MODEL_FRAMES, *COMPUTED, "notes"):
        commands.run("export", CAFFE, "--frame", frame, "--limit", "5")
