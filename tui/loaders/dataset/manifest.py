"""What a Parquet dataset of profiles is: its files, and the manifest that tells which of them belong to it.

::

    DIR/proftui-dataset.json                            the manifest, written last
    DIR/proftui-parts/PART.json                         a part: what came of one input, written after its files
    DIR/activities/rank=0/part-PART.0.parquet           rows of a frame, of one rank
    DIR/sessions/rank=__HIVE_DEFAULT_PARTITION__/...    those of sessions without a rank

The rows of a part whose neighbouring sessions have the same rank are one file, a *run*; the runs of a part one after
the other are its frame, with sessions, activities and ops numbered from 0 within the part. A file that neither the
manifest nor a part names does not belong to the dataset.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tui.model.schema import FRAMES

LAYOUT: Final = 1
"""Another for datasets that are laid out otherwise."""

MANIFEST: Final = "proftui-dataset.json"
PARTS: Final = "proftui-parts"
"""The folder of what tells of each part; it is there before the manifest is."""

WITHOUT_RANK: Final = "__HIVE_DEFAULT_PARTITION__"
"""What readers of partitioned folders take for null."""

ROW_GROUP_ROWS: Final = 1 << 17
"""Rows that a reader can pass over at once, by the smallest and largest value of each column that stand before them.

Files are sorted by session and time, so a stretch of time is a few neighbouring groups: about a second of a busy GPU
each. Smaller ones would pack worse (each has dictionaries of its own), and of larger ones more is read than is used.
"""

MOST_BYTES: Final = 256 << 20
"""A larger manifest was not written by this program: it has about a kilobyte for each part."""

PART_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
RANK_NAME: Final = re.compile(rf"rank=(\d{{1,10}}|{WITHOUT_RANK})")


class PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a part: the rows that one frame has of a run of sessions."""

    frame: str
    rank: int | None
    run: int
    """Its place among the runs of the part, from 0."""
    rows: int
    size: int
    digest: str
    """XXH3 of its bytes, of 128 bits."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one input."""

    name: str
    source: str
    """The input, as it was given."""
    size: int | None
    """Its bytes; None of what has no size (a pipe)."""
    modified_ns: int | None
    digest: str | None
    """Of its first and last 64 KiB, or of the names, sizes and times of a folder's files."""
    format_in: str | None
    """The format that it was to be read as, where that was not to be recognised."""
    program: str
    """The version of proftui that read it."""
    formats: tuple[str, ...]
    sessions: int
    rows: dict[str, int]
    """Of each frame that is not empty."""
    has_text: bool
    """Whether the input is a text, whose lines the dataset does not hold."""
    files: tuple[PartFile, ...]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a dataset holds."""

    layout: int
    program: str
    """The version of proftui that wrote it."""
    sessions: int
    formats: tuple[str, ...]
    rows: dict[str, int]
    """Of each frame that is not empty, over all parts."""
    parts: tuple[Part, ...]


class Layout(msgspec.Struct, frozen=True):
    """Of a manifest of any version, the part that never changes."""

    layout: int
    program: str


def path_of(part: Part, file: PartFile) -> str:
    """Where a file of a part lies in the dataset.

    >>> file = PartFile("ops", 3, 0, 10, 100, "")
    >>> path_of(Part("a-1", "a", 1, 1, "", None, "1", (), 1, {}, False, (file,)), file)
    'ops/rank=3/part-a-1.0.parquet'
    """
    rank = WITHOUT_RANK if file.rank is None else file.rank
    return f"{file.frame}/rank={rank}/part-{part.name}.{file.run}.parquet"


def faults(part: Part) -> str:
    """What of a part cannot be, in words; empty where nothing is: no path leaves the folder, all rows are told of."""
    if not PART_NAME.fullmatch(part.name):
        return "has an impossible name"
    if not {file.frame for file in part.files} <= set(FRAMES):
        return "has a frame that no profile has"
    if any(file.rows <= 0 or file.run < 0 or (file.rank is not None and file.rank < 0) for file in part.files):
        return "has files with impossible numbers"
    if len({(file.frame, file.run) for file in part.files}) < len(part.files):
        return "has a file twice"
    rows: dict[str, int] = {}
    for file in part.files:
        rows[file.frame] = rows.get(file.frame, 0) + file.rows
    if rows != part.rows or part.sessions != rows.get("sessions") or max(rows.values()) >= 1 << 32:
        return "counts rows that its files do not have"
    return ""
