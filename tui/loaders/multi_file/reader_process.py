"""A worker process that reads whole files, one after the other, and the messages that it exchanges with the program."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tui.cache.frame_files import FrameReader, FrameWriter
from tui.cache.secure_files import DamagedError, File, Frame, new_file
from tui.loaders.text.stored_text import StoredText, Stretch
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
    """How many it may use."""


@dataclass(frozen=True, slots=True)
class Order:
    """A file to read."""

    path: str
    format_in: str | None
    may_be_none: bool
    """Whether it is passed over where it does not begin as a profile does."""
    folder: str
    """Where the frames go: an empty folder."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The present file is to end here; what was read of it is kept."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come."""

    bytes_read: int
    rows: int


@dataclass(frozen=True, slots=True)
class Done:
    """The frames are in the folder."""

    parcel: Parcel


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
            cores: How many it may use.
            command: What runs the worker; tests give another one.

        Raises:
            OSError: It cannot be started, or has no folder to write to.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="proftui-read-"))
        self._number = 0
        try:
            self.process = WorkerProcess(_SERVE, command=command, env={"POLARS_MAX_THREADS": str(cores)})
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        with suppress(WorkerLostError):  # whoever gives it a file learns so
            self.process.send(Setup(str(self._folder), cores))

    def read(
        self, path: str, format_in: str | None, *, may_be_none: bool, report: Callable[[Progress], None]
    ) -> tuple[Answer, Path]:
        """Have it read a file.

        Args:
            path: The file.
            format_in: The name of the format to read it as, where that is not to be recognized.
            may_be_none: Whether it is passed over where it does not begin as a profile does.
            report: Told how far it has come.

        Returns:
            Its final answer, and the folder with the frames, which is there until it reads the next file.

        Raises:
            WorkerLostError: It ended before.
        """
        self._number += 1
        folder = self._folder / str(self._number)
        # What is in use of the one before is mapped, and stays.
        shutil.rmtree(self._folder / str(self._number - 1), ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise WorkerLostError(str(error)) from error
        self.process.send(Order(path, format_in, may_be_none, str(folder)))
        while isinstance(answer := self.process.receive(), Progress):
            report(answer)
        final: Answer = answer
        return final, folder

    def stop(self) -> None:
        """Let it keep what it has of the present file."""
        with suppress(WorkerLostError):
            self.process.send(Stop())

    def kill(self) -> None:
        """End it; who waits for its answer learns so."""
        self.process.kill()

    def close(self) -> None:
        """End it and remove what it left; nobody may be waiting for it."""
        self.process.close()
        shutil.rmtree(self._folder, ignore_errors=True)


_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SentText(msgspec.Struct, frozen=True):
    """Where the lines of a text lie."""

    source: str
    name: str
    stretches: tuple[Stretch, ...]
    copy: str
    """The file with the copy that was made of the text; empty where they lie in the input itself."""
    not_kept: str


class Parcel(msgspec.Struct, frozen=True):
    """What lies in the folder."""

    sources: tuple[str, ...]
    partial: str
    frames: dict[str, Frame]
    names: File | None
    texts: tuple[SentText, ...]


def pack(profile: Profile, folder: Path) -> Parcel:
    """Write a profile into an empty folder.

    Raises:
        OSError: It cannot be written.
        polars.exceptions.PolarsError: It cannot be written.
    """
    within = os.open(folder, _FOLDER_FLAGS)
    try:
        writer = FrameWriter(within, lambda: False)
        frames = {name: writer.frame(name, data) for name, data in profile.frames.items() if data.height}
        texts = tuple(_packed_text(within, number, *item) for number, item in enumerate(profile.texts.items()))
        return Parcel(tuple(profile.sources), profile.partial, frames, writer.names(), texts)
    finally:
        os.close(within)


def _packed_text(within: int, number: int, source: str, text: LogText) -> SentText:
    assert isinstance(text, StoredText), "what loaders make"
    copy = ""
    if text.is_copy:
        copy = f"text.{number}"
        with os.fdopen(new_file(within, copy), "wb") as file:
            file.writelines(text.copied())
    return SentText(source, text.name, tuple(text.stretches), copy, text.not_kept)


def unpack(parcel: Parcel, folder: Path) -> Profile:
    """The profile that was packed; its folder may go afterwards.

    Raises:
        OSError: It cannot be read.
        DamagedError: It is not what was packed.
        polars.exceptions.PolarsError: It is no frame.
    """
    if not set(parcel.frames) <= set(FRAMES):
        raise DamagedError("a frame that the model lacks")
    within = os.open(folder, _FOLDER_FLAGS)
    try:
        reader = FrameReader(within, parcel.names)
        frames = {
            name: reader.frame(parcel.frames[name], schema) if name in parcel.frames else empty(name)
            for name, schema in FRAMES.items()
        }
        texts = {text.source: _unpacked_text(within, text) for text in parcel.texts}
        return Profile(frames, parcel.sources, texts, parcel.partial)
    finally:
        os.close(within)


def _unpacked_text(within: int, text: SentText) -> StoredText:
    where = os.open(text.copy, os.O_RDONLY, dir_fd=within) if text.copy else os.open(text.source, os.O_RDONLY)
    found = StoredText.again(text.name, where, text.stretches, is_copy=bool(text.copy))
    found.not_kept = text.not_kept
    return found
