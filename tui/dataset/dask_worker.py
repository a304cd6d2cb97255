"""What a Dask worker runs: a check of its versions, and the conversion of one file at a time."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

import tui
from tui.dataset.write_dataset import part_name, write_part
from tui.loaders.chrome_trace.decoder_pool import share_cores
from tui.loaders.dataset.manifest import LAYOUT, PARTS, Part
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Iterable

CORES_EACH: Final = 1
"""A worker has as many threads as it may use cores, and each converts a file."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What must be the same wherever parts of one dataset are written: the same bytes come of the same file then."""

    proftui: str
    layout: int
    polars: str

    def other_than(self, wanted: Versions) -> str:
        """How they differ, in words; empty where they are the same."""
        pairs = (
            ("proftui", self.proftui, wanted.proftui),
            ("layout of datasets", self.layout, wanted.layout),
            ("polars", self.polars, wanted.polars),
        )
        return ", ".join(f"{what} {there} (here {here})" for what, there, here in pairs if there != here)


@dataclass(frozen=True, slots=True)
class Converted:
    """A file of which a part is in the dataset."""

    part: Part
    was_there: bool
    """Whether it had been converted before."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of which nothing is in the dataset."""

    reason: str


class UnableError(Exception):
    """This worker cannot convert the file; another one may."""


def versions() -> Versions:
    """Of what runs here."""
    return Versions(tui.__version__, LAYOUT, pl.__version__)


def unseen(paths: Iterable[str]) -> str | None:
    """The first path that is not there for this machine, or None."""
    return next((path for path in paths if not os.path.exists(path)), None)  # noqa: PTH110 (a name may be no text)


def convert_one(path: str, out_dir: str, format_in: str | None, wanted: Versions) -> Converted | LeftOut:
    """Convert a file, in one process.

    Args:
        path: The file, which is there for the one that asks.
        out_dir: The folder of the dataset.
        format_in: As for `tui.dataset.write_dataset.write_part`.
        wanted: The versions of the one that asks.

    Raises:
        UnableError: The versions are others here, or the paths lead nowhere.
        OSError: The part cannot be written.
    """
    if differs := versions().other_than(wanted):
        raise UnableError(f"{socket.gethostname()} has {differs}")
    parts = os.path.join(out_dir, PARTS)  # noqa: PTH118
    if (missing := unseen((parts, path))) is not None:
        raise UnableError(f"{socket.gethostname()} does not see {out_dir if missing == parts else missing}")
    share_cores(CORES_EACH)
    told = os.path.join(parts, f"{part_name(path)}.json")  # noqa: PTH118
    before = _written_at(told)
    try:
        part = write_part(path, out_dir, format_in=format_in)
    except ProftuiError as error:
        return LeftOut(str(error))
    return Converted(part, was_there=before is not None and before == _written_at(told))


def _written_at(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
