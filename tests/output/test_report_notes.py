"""Notes in reports and exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui.cli.main import main
from tui.model.aggregation import Aggregation
from tui.model.history import Place
from tui.model.table_spec import TableState
from tui.state import workspace
from tui.state.notes import Notes, RowPlace
from tui.state.store import files

CAFFE = str(Path(__file__).parents[2] / "sample_logs" / "caffe_conv1.nvprof.log")


@pytest.fixture
def sample_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two notes on the sample."""
    monkeypatch.setattr("tui.state.notes.time.time", lambda: 1_767_323_045.0)
    notes = Notes(files([CAFFE]))
    notes.keep(RowPlace("kernels", "", (("kernels", "kernels", (0, "kernel", "a")),)), "a", "slow\n| \x1b[31mask Kim")
    notes.keep(RowPlace("gpus", "", (("gpus", "gpus", (0, 0)),)), "K40", "throttled?")
    notes.write()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("sample_notes")
def test_a_report_has_the_notes_of_its_view_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    without_notes = run(capsys, "report", "--view", "kernels", CAFFE)
    with_notes = run(capsys, "report", "--view", "kernels", "--notes", CAFFE)
    expected = "\nNotes (1 note)\n\na (2026-01-02 03:04)\n    slow\n    | ·[31mask Kim\n"
    assert with_notes == without_notes + expected
    assert run(capsys, "report", "--view", "memory", "--notes", CAFFE) == run(
        capsys, "report", "--view", "memory", CAFFE
    )
    dashboard = run(capsys, "report", "--notes", CAFFE)
    assert "Kernels: a (2026-01-02 03:04)\n    slow" in dashboard
    assert "GPUs: K40 (2026-01-02 03:04)\n    throttled?" in dashboard


@pytest.mark.usefixtures("sample_notes")
def test_markdown_and_json_contain_notes(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "report", "--view", "gpus", "--notes", "--format", "markdown", CAFFE)
    assert "### Notes (1 note)" in text
    assert "| throttled? | K40 | GPUs | now | 2026-01-02 03:04 |" in text
    without_notes = json.loads(run(capsys, "report", "--view", "kernels", "--format", "json", CAFFE))
    content = json.loads(run(capsys, "report", "--view", "kernels", "--notes", "--format", "json", CAFFE))
    [note] = content.pop("notes")
    assert [content.pop(name) for name in ("marked", "marked_elsewhere", "marked_of")] == [[], 0, "now"]
    assert content.pop("total_rows") == {**without_notes.pop("total_rows"), "notes": 1}
    assert content == without_notes
    assert (note["note"], note["row"], note["view"]) == ("slow\n| \x1b[31mask Kim", "a", "Kernels")


@pytest.mark.usefixtures("sample_notes")
def test_notes_are_a_view_and_a_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "report", "--view", "notes", CAFFE).startswith("Notes (2 notes)\n\nKernels: a (")
    rows = json.loads(run(capsys, "report", "--view", "notes", "--format", "json", CAFFE))["rows"]
    assert json.loads(run(capsys, "export", "--frame", "notes", "--format", "json", CAFFE))["rows"] == rows
    assert [row["view"] for row in rows] == ["Kernels", "GPUs"]


def test_marked_rows_are_listed_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "report", "--view", "kernels", "--format", "json", CAFFE))["rows"]
    keys = [(row["session"], row["kind"], row["name"]) for row in rows]
    states = (
        ("kernels", TableState(marks=frozenset([keys[4], keys[1], (0, "kernel", "gone")]))),
        ("launches", TableState(marks=frozenset([(0, 3)]))),
    )
    identified_files = files([CAFFE])
    assert identified_files is not None
    marked_rows = workspace.current_workspace(
        identified_files, [Place("kernels", states=states)], session=None, aggregation=Aggregation(), global_filter=""
    )
    assert workspace.save(identified_files, marked_rows) == ""
    content = json.loads(run(capsys, "report", "--view", "kernels", "--notes", "--format", "json", CAFFE))
    assert content["marked"] == [{"view": "kernels", "table": "kernels", "rows": [rows[1], rows[4]]}]
    assert content["marked_elsewhere"] == 2
    text = run(capsys, "report", "--view", "kernels", "--notes", CAFFE)
    assert text.startswith(run(capsys, "report", "--view", "kernels", CAFFE))
    assert f"\nMarked in Kernels (2 of {len(rows)} rows)\n" in text
    assert "2 more marked rows are in tables outside this report: export them" in text
    # The dashboard lists those of all views.
    assert "### Marked in Kernels (2 of" in run(capsys, "report", "--notes", "--format", "markdown", CAFFE)
    assert "Marked" not in run(capsys, "report", "--view", "memory", "--notes", CAFFE)


def test_a_changed_file_is_reported_with_marked_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(Path(CAFFE).read_bytes())
    identified_files = files([str(path)])
    assert identified_files is not None
    states = (("kernels", TableState(marks=frozenset([(0, "kernel", "gone")]))),)
    marked_rows = workspace.current_workspace(
        identified_files, [Place("kernels", states=states)], session=None, aggregation=Aggregation(), global_filter=""
    )
    assert workspace.save(identified_files, marked_rows) == ""
    message = "The file has changed since these rows were marked."
    arguments = ("report", "--view", "kernels", "--notes", str(path))
    assert message not in run(capsys, *arguments)
    path.write_bytes(path.read_bytes() + b"the end\n")
    assert f"\n{message}\n\n1 more marked row is in tables outside" in run(capsys, *arguments)
    assert f"\n{message}\n\n1 more marked row is" in run(capsys, *arguments, "--format", "markdown")
    assert json.loads(run(capsys, *arguments, "--format", "json"))["marked_of"] == "before it changed"
    assert message not in run(capsys, "report", "--view", "memory", "--notes", str(path))


def test_a_report_without_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "report", "--view", "notes", CAFFE) == "Notes (0 notes)\n\nnone\n"
    assert run(capsys, "report", "--view", "kernels", "--notes", CAFFE) == run(
        capsys, "report", "--view", "kernels", CAFFE
    )
    content = json.loads(run(capsys, "report", "--view", "kernels", "--notes", "--format", "json", CAFFE))
    assert content["notes"] == []
