"""Transfers a profile between processes: its frames as files in a folder of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from tui.cache.frame_files import FrameReader, FrameWriter
from tui.cache.secure_files import DamagedError, File, Frame, new_file
from tui.loaders.text.stored_text import StoredText, Stretch
from tui.model.profile import Profile
from tui.model.schema import FRAMES, empty

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import LogText


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
