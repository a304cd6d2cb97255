from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from tui.state import notes as notes_module
from tui.state.notes import MAX_CHARACTERS, MAX_LINES, Notes, RowPlace, length_error
from tui.state.store import DocumentFolder, Files, files

FILES = Files("a" * 32, "stamp")
HOSTILE = "\x1b[31m../../etc/passwd\x00'; DROP TABLE notes; [red]\u202e"


def place(name: str = "gemm") -> RowPlace:
    return RowPlace("kernels", "kernels", (("kernels", "kernels", (0, "kernel", name)),))


def test_a_note_is_restored_by_the_values_of_its_row(state_directory: Path) -> None:
    notes = Notes(FILES)
    assert notes.keep(place(HOSTILE), HOSTILE, f"  {HOSTILE}\nline ") == ""
    notes.write()
    found = Notes(FILES).get(place(HOSTILE))
    assert found is not None
    assert (found.text, found.words, found.stamp) == (f"{HOSTILE}\nline", HOSTILE, "stamp")
    assert Notes(FILES).get(place()) is None
    assert Notes(Files("b" * 32, "stamp")).by_name == {}
    written = [path for path in state_directory.rglob("*") if path.is_file()]
    assert [path.relative_to(state_directory) for path in written] == [Path("notes") / f"{'a' * 32}.json"]
    assert stat.S_IMODE(written[0].stat().st_mode) == 0o600


def test_file_modes_do_not_depend_on_existing_files(state_directory: Path) -> None:
    before = os.umask(0)
    try:
        notes = Notes(FILES)
        notes.keep(place(), "gemm", "text")
        notes.write()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [state_directory, *state_directory.rglob("*")]}
    assert modes == {"proftui": 0o700, "notes": 0o700, f"{'a' * 32}.json": 0o600}


def test_existing_folders_are_restricted_to_the_user(state_directory: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "notes").mkdir(parents=True)
    state_directory.symlink_to(elsewhere)
    for folder in (elsewhere, elsewhere / "notes"):
        folder.chmod(0o755)
    notes = Notes(FILES)
    assert notes.keep(place(), "gemm", "text") == ""
    notes.write()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [elsewhere, *elsewhere.rglob("*")]}
    assert modes == {"elsewhere": 0o700, "notes": 0o700, f"{'a' * 32}.json": 0o600}


def test_two_runs_are_merged_and_the_last_writer_of_a_note_wins() -> None:
    first, second = Notes(FILES), Notes(FILES)
    assert first.by_name == second.by_name == {}
    first.keep(place("a"), "a", "one")
    second.keep(place("b"), "b", "two")
    second.keep(place("a"), "a", "two")
    first.write()
    second.write()
    first.keep(place("c"), "c", "one")
    first.write()
    assert {note.words: note.text for note in first.by_name.values()} == {"a": "two", "b": "two", "c": "one"}


def test_too_long_notes_are_refused_with_the_reason() -> None:
    notes = Notes(FILES)
    assert "at most 2,000 characters" in notes.keep(place(), "gemm", "x" * (MAX_CHARACTERS + 1))
    assert "at most 40 lines" in length_error("x\n" * MAX_LINES + "x")
    assert notes.keep(place("x" * 20_000), "gemm", "text").startswith("no note possible: this row has no stable key")
    assert notes.by_name == {}
    assert notes.keep(place(), "w" * 1_000, "text") == ""
    assert len(next(iter(notes.by_name.values())).words) == 400


def test_the_last_note_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MAX_NOTES", 2)
    notes = Notes(FILES)
    assert [notes.keep(place(name), name, "text") for name in "ab"] == ["", ""]
    assert notes.keep(place("c"), "c", "text").startswith("this file has 2 notes")
    assert notes.keep(place("a"), "a", "other") == ""


@pytest.mark.parametrize(
    "damage",
    [
        {"at": -1},
        {"at": 2**60},
        {"at": 2**38},  # in the year 10680, which no calendar here has
        {"at": "now"},
        {"text": ""},
        {"text": "x" * 3_000},
        {"words": 5},
        {"place": {"view": "kernels", "level": "", "trail": []}},
        {"place": {"view": "kernels", "level": "", "trail": [["kernels", "kernels", [[1], {}]]]}},
        {"place": {"view": "other", "level": "", "trail": [["kernels", "kernels", [1]]]}},
    ],
)
def test_invalid_entries_are_ignored(state_directory: Path, damage: dict[str, object]) -> None:
    notes = Notes(FILES)
    notes.keep(place("a"), "a", "good")
    notes.keep(place("b"), "b", "bad")
    notes.write()
    path = state_directory / "notes" / f"{FILES.name}.json"
    content = json.loads(path.read_text())
    content["entries"][place("b").name].update(damage)
    path.write_text(json.dumps(content))
    read = Notes(FILES)
    assert [note.text for note in read.by_name.values()] == ["good"]
    assert read.warning == ""


def test_the_oldest_documents_are_evicted(state_directory: Path) -> None:
    documents = DocumentFolder("few", version=1, max_entries=9, max_files=3, max_bytes=10_000)
    for number in range(5):
        assert documents.change(f"file{number}", {"a": "x" * 100}) == ""
        os.utime(documents.folder / f"file{number}.json", ns=(number, number))
    assert sorted(path.name for path in documents.folder.iterdir()) == ["file2.json", "file3.json", "file4.json"]
    assert documents.change("large", {"a": "x" * 9_900}) == ""
    assert [path.name for path in documents.folder.iterdir()] == ["large.json"]


def test_files_are_identified_by_path_and_change_by_content(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("one")
    first = files([str(path)])
    assert first == files([str(path)])
    (tmp_path / "link.log").symlink_to(path)
    assert first == files([str(tmp_path / "link.log")])
    assert first is not None
    path.write_text("longer")
    second = files([str(path)])
    assert second is not None
    assert (second.name, second.stamp != first.stamp) == (first.name, True)
    both = files([str(path), str(tmp_path / "other.log")])
    assert both is not None
    assert both.name != first.name
    folder = files([str(tmp_path)])
    assert folder is not None
    (tmp_path / "rank1.log").write_text("new")
    changed = files([str(tmp_path)])
    assert changed is not None
    assert (changed.name, changed.stamp != folder.stamp) == (folder.name, True)
    assert files(["\udcff.log"]) is not None


def test_notes_stay_for_the_run_if_the_directory_is_not_writable(state_directory: Path) -> None:
    state_directory.parent.mkdir(parents=True, exist_ok=True)
    state_directory.write_text("a file where the folder should be")
    notes = Notes(FILES)
    assert notes.keep(place(), "gemm", "text") == ""
    notes.write()
    assert "cannot be" in notes.warning
    assert len(notes.by_name) == 1


def test_unwritten_notes_are_written_with_the_next_note(state_directory: Path) -> None:
    state_directory.parent.mkdir(parents=True, exist_ok=True)
    state_directory.write_text("in the way")
    notes = Notes(FILES)
    notes.keep(place("a"), "a", "first")
    notes.keep(place("b"), "b", "before")
    notes.write()
    assert "cannot be" in notes.warning
    state_directory.unlink()
    notes.keep(place("b"), "b", "after")
    notes.keep(place("c"), "c", "third")
    notes.write()
    expected = {"a": "first", "b": "after", "c": "third"}
    assert {note.words: note.text for note in notes.by_name.values()} == expected
    assert {note.words: note.text for note in Notes(FILES).by_name.values()} == expected


def test_a_note_changed_during_a_failed_write_keeps_its_newest_text(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes(FILES)

    def fail(_folder: DocumentFolder, _name: str, _changes: dict[str, object]) -> str:
        notes.keep(place(), "gemm", "newer")
        return "the disk is full"

    notes.keep(place(), "gemm", "older")
    with monkeypatch.context() as failing:
        failing.setattr(DocumentFolder, "change", fail)
        notes.write()
    assert notes.warning == "the disk is full"
    notes.write()
    assert [note.text for note in Notes(FILES).by_name.values()] == ["newer"]


def test_notes_that_cannot_be_deleted_are_kept(state_directory: Path) -> None:
    notes = Notes(FILES)
    notes.keep(place(), "gemm", "text")
    notes.write()
    written = state_directory / "notes" / f"{FILES.name}.json"
    written.unlink()
    (written / "something").mkdir(parents=True)
    assert "cannot be changed" in notes.forget()
    assert [note.text for note in notes.by_name.values()] == ["text"]


def test_places_survive_json() -> None:
    row_place = place(HOSTILE)
    assert msgspec.json.decode(msgspec.json.encode(row_place), type=RowPlace) == row_place
