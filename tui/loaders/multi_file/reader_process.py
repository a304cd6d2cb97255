"""A worker process that reads whole files: its messages, and the transfer of a profile as files in a folder."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tui.cache.frame_files import FrameReader, FrameWriter
from tui.cache.secure_files import DamagedError, EntryFile, StoredFrame, new_file
from tui.loaders.temp_folders import Scratch
from tui.loaders.text.stored_text import LineRange, StoredText
from tui.loaders.worker_process import WorkerLostError, WorkerProcess
from tui.model.profile import Profile
from tui.model.schema import FRAMES, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.model.profile import LogText


_SERVE: Final = "tui.loaders.multi_file.serve_files:serve"


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to the process."""

    root: str
    """A folder for the frames, which the process removes when the program ends."""
    cores: int
    """The number of cores that it may use."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A file to read."""

    path: str
    format_in: str | None
    may_be_none: bool
    """Whether it is skipped if it does not begin like a profile."""
    folder: str
    """An empty folder for the frames."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop reading the current file and return a partial profile."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress within the current file."""

    bytes_read: int
    rows: int


@dataclass(frozen=True, slots=True)
class Done:
    """The frames are in the folder."""

    packed: PackedProfile


@dataclass(frozen=True, slots=True)
class Failed:
    """The file cannot be read."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class NoProfile:
    """The file holds no profile."""


Answer = Progress | Done | Failed | NoProfile


class ReaderProcess:
    """One worker process. One thread gives it files; any may stop or kill it."""

    def __init__(self, cores: int, command: Sequence[str] | None = None) -> None:
        """Start it.

        Args:
            cores: The number of cores that it may use.
            command: The command that runs the worker; tests replace it.

        Raises:
            OSError: The process cannot be started, or its folder not made.
        """
        self._scratch = Scratch()
        self._number = 0
        try:
            self.process = WorkerProcess(_SERVE, command=command, env={"POLARS_MAX_THREADS": str(cores)})
        except OSError:
            self._scratch.close()
            raise
        with suppress(WorkerLostError):  # the next read reports it
            self.process.send(Setup(str(self._scratch.path), cores))

    def read(
        self, path: str, format_in: str | None, *, may_be_none: bool, on_progress: Callable[[Progress], object]
    ) -> tuple[Answer, Path]:
        """Read a file in the process.

        Args:
            path: The file.
            format_in: The name of the format, if the user chose it.
            may_be_none: Whether it is skipped if it does not begin like a profile.
            on_progress: Gets the progress.

        Returns:
            The final answer, and the folder with the frames, which is valid until the next file is read.

        Raises:
            WorkerLostError: The process ended before it answered.
        """
        self._number += 1
        folder = self._scratch.path / str(self._number)
        # Mapped files of the last profile stay valid after removal.
        shutil.rmtree(self._scratch.path / str(self._number - 1), ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise WorkerLostError(str(error)) from error
        self.process.send(ReadRequest(path, format_in, may_be_none, str(folder)))
        while isinstance(answer := self.process.receive(), Progress):
            on_progress(answer)
        final: Answer = answer
        return final, folder

    def stop(self) -> None:
        """Stop reading the current file; the process returns a partial profile."""
        with suppress(WorkerLostError):
            self.process.send(Stop())

    def kill(self) -> None:
        """Kill the process; `read` raises `WorkerLostError`."""
        self.process.kill()

    def close(self) -> None:
        """Kill the process and remove its folder; no thread may be in `read`."""
        self.process.close()
        self._scratch.close()


_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PackedText(msgspec.Struct, frozen=True):
    """The position of the lines of a text."""

    source: str
    name: str
    ranges: tuple[LineRange, ...]
    copy: str
    """The file with a copy of the text; empty if the lines are in the input itself."""
    not_copied: str


class PackedProfile(msgspec.Struct, frozen=True):
    """The content of the folder."""

    sources: tuple[str, ...]
    partial: str
    frames: dict[str, StoredFrame]
    names: EntryFile | None
    texts: tuple[PackedText, ...]


def pack(profile: Profile, folder: Path) -> PackedProfile:
    """Write a profile into an empty folder.

    Raises:
        OSError: It cannot be written.
        polars.exceptions.PolarsError: It cannot be written.
    """
    folder_fd = os.open(folder, _FOLDER_FLAGS)
    try:
        writer = FrameWriter(folder_fd, lambda: False)
        frames = {name: writer.write_frame(name, data) for name, data in profile.frames.items() if data.height}
        texts = tuple(_packed_text(folder_fd, number, *item) for number, item in enumerate(profile.texts.items()))
        return PackedProfile(tuple(profile.sources), profile.partial, frames, writer.write_names(), texts)
    finally:
        os.close(folder_fd)


def _packed_text(folder_fd: int, number: int, source: str, text: LogText) -> PackedText:
    assert isinstance(text, StoredText), "what loaders make"
    copy = ""
    if text.is_copy:
        copy = f"text.{number}"
        with os.fdopen(new_file(folder_fd, copy), "wb") as file:
            file.writelines(text.copied_chunks())
    return PackedText(source, text.name, tuple(text.ranges), copy, text.not_copied)


def unpack(packed: PackedProfile, folder: Path) -> Profile:
    """Read the profile that was packed; its folder may be removed afterwards.

    Raises:
        OSError: It cannot be read.
        DamagedError: It differs from what was packed.
        polars.exceptions.PolarsError: A file is no frame.
    """
    if not set(packed.frames) <= set(FRAMES):
        raise DamagedError("an unknown frame")
    folder_fd = os.open(folder, _FOLDER_FLAGS)
    try:
        reader = FrameReader(folder_fd, packed.names)
        frames = {
            name: reader.read_frame(packed.frames[name], schema) if name in packed.frames else empty(name)
            for name, schema in FRAMES.items()
        }
        texts = {text.source: _unpacked_text(folder_fd, text) for text in packed.texts}
        return Profile(frames, packed.sources, texts, packed.partial)
    finally:
        os.close(folder_fd)


def _unpacked_text(folder_fd: int, text: PackedText) -> StoredText:
    text_fd = os.open(text.copy, os.O_RDONLY, dir_fd=folder_fd) if text.copy else os.open(text.source, os.O_RDONLY)
    stored_text = StoredText.from_ranges(text.name, text_fd, text.ranges, is_copy=bool(text.copy))
    stored_text.not_copied = text.not_copied
    return stored_text
