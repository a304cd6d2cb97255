"""The answers of a worker process that reads whole files."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from threading import Event

import pytest

from tests.cli.running import TOTAL_NS, TRACE
from tui.loaders.multi_file import serve_files
from tui.loaders.multi_file.reader_process import Answer, Done, Failed, NoProfile, ReadRequest, unpack
from tui.loaders.multi_file.serve_files import _read
from tui.loaders.worker_process import Channel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder for the frames."""
    path = tmp_path / "frames"
    path.mkdir()
    return path


def answer(path: Path, folder: Path, *, may_be_none: bool = False) -> Answer:
    request = ReadRequest(str(path), None, may_be_none, str(folder))
    return _read(request, Channel(io.BytesIO(), io.BytesIO()), Event())


def test_a_profile_arrives_in_the_folder(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(TRACE)
    reply = answer(path, folder, may_be_none=True)
    assert isinstance(reply, Done)
    profile = unpack(reply.packed, folder)
    assert profile.sources == (str(path),)
    assert profile["activities"]["duration_ns"].sum() == TOTAL_NS


def test_files_without_a_profile_are_skipped_or_reported(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, bread\n")
    assert answer(path, folder, may_be_none=True) == NoProfile()
    failed = answer(path, folder)
    assert isinstance(failed, Failed)
    assert failed.message == f"{path}: no profile found; it begins with “milk, bread”"
    assert list(folder.iterdir()) == []


def test_a_file_that_cannot_be_read_is_not_blamed_on_the_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(serve_files, "load_input", fail)
    path = tmp_path / "run.log"
    assert answer(path, folder) == Failed(f"{path}: cannot be read (input/output error)", "")


def test_an_unwritable_folder_is_reported_with_a_remedy(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(TRACE)
    folder.rmdir()
    failed = answer(path, folder)
    assert failed == Failed(
        f"{path}: the profile cannot be written to a temporary folder "
        f"([Errno 2] No such file or directory: {str(folder)!r})",
        "set TMPDIR to a folder with free space",
    )
