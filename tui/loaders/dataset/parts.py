"""Reading the parts of a dataset batch by batch, each checked: whoever wrote the files, nothing of them is believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.dataset.manifest import ROW_GROUP_ROWS, faults, path_of
from tui.loaders.dataset.store import UNREADABLE, first_line
from tui.loaders.possible_times import DURATIONS, LONGEST_NS, LONGEST_SUM_NS
from tui.model.schema import FRAMES, KINDS, OP_COLUMNS, conform

if TYPE_CHECKING:
    from tui.loaders.dataset.manifest import Part, PartFile
    from tui.loaders.dataset.store import Store

_FEW_ROWS: Final = 1 << 20
_ROWS_A_BYTE: Final = 16
"""Rows that differ from one to the next do not pack better than this: what says it does is not believed."""


class DamagedPartError(Exception):
    """A part is not what was written, or cannot be.

    Args:
        part: Its name.
        why: What is wrong, in words.
    """

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part = part
        self.why = why


def files_in_order(part: Part) -> list[PartFile]:
    """The files of a part: frames that others refer to first, runs in their order."""
    first = ("sessions", "devices", "ops", "activities")
    places = {name: place for place, name in enumerate((*first, *(name for name in FRAMES if name not in first)))}
    return sorted(part.files, key=lambda file: (places[file.frame], file.run))


def check(store: Store, part: Part) -> None:
    """See whether the files of a part are there and are those that were written.

    Raises:
        DamagedPartError: One is not.
    """
    if fault := faults(part):
        raise DamagedPartError(part.name, fault)
    for file in part.files:
        name = path_of(part, file)
        if fault := store.fault(name, file):
            raise DamagedPartError(part.name, f"{name} {fault}")
        if file.rows > max(_FEW_ROWS, _ROWS_A_BYTE * file.size):
            raise DamagedPartError(part.name, f"{name} claims {file.rows:,} rows in {file.size:,} bytes")


def batches(store: Store, part: Part, file: PartFile) -> Iterator[pl.DataFrame]:
    """The rows of a file in their order, about as many at a time as one of its row groups has.

    Raises:
        DamagedPartError: It is not what the manifest says, or holds what cannot be.
    """
    name = path_of(part, file)
    try:
        # Names of folders and files are taken as they are: no patterns, no columns from ``key=value``.
        scan = pl.scan_parquet(store.address(name), glob=False, hive_partitioning=False)
        schema = scan.collect_schema()
        if wrong := [name for name, dtype in schema.items() if FRAMES[file.frame].get(name) != dtype]:
            raise DamagedPartError(part.name, f"{name} has a column that no such frame has: {wrong[0][:40]}")
        if (rows := scan.select(pl.len()).collect().item()) != file.rows:
            raise DamagedPartError(part.name, f"{name} has {rows:,} rows, not {file.rows:,}")
        seen = _Seen(part, file)
        for first in range(0, rows, ROW_GROUP_ROWS):
            data = conform(file.frame, scan.slice(first, ROW_GROUP_ROWS).collect())
            if data.height != min(ROW_GROUP_ROWS, rows - first):
                raise DamagedPartError(part.name, f"{name} ends before its time")
            if fault := seen.fault(data):
                raise DamagedPartError(part.name, f"{name} {fault}")
            yield data
    except UNREADABLE as error:
        raise DamagedPartError(part.name, f"{name} cannot be read ({first_line(error)})") from error


class _Seen:
    """What was seen of a file, and what in it cannot be."""

    def __init__(self, part: Part, file: PartFile) -> None:
        self._part = part
        self._frame = file.frame
        self._starts: dict[int, tuple[int, int]] = {}

    def fault(self, data: pl.DataFrame) -> str:
        """What cannot be in further rows; empty where all can."""
        session = data["session"]
        last = session.max()
        if (isinstance(last, int) and last >= self._part.sessions) or (
            session.null_count() and self._frame != "issues"
        ):
            return "has rows of a session that is not there"
        if self._frame == "sessions" and session.n_unique() < data.height:
            return "has a session twice"
        for column in OP_COLUMNS.get(self._frame, ()):
            last = data[column].max()
            if isinstance(last, int) and last >= self._part.rows.get("ops", 0):
                return "has rows of an op that is not there"
        longest = LONGEST_SUM_NS if self._frame == "summary" else LONGEST_NS
        columns = DURATIONS.get(self._frame, ())
        if columns and not all(data.select(pl.col(columns).is_between(0, longest).all()).row(0)):
            return "has times that cannot be"
        if self._frame == "activities" and not set(data["kind"].unique().drop_nulls()) <= set(KINDS):
            return "has GPU work of an unknown kind"
        return "has times that lie too far apart" if self._is_far_apart(data) else ""

    def _is_far_apart(self, data: pl.DataFrame) -> bool:
        if "start_ns" not in data.columns:
            return False
        start = pl.col("start_ns")
        for session, first, last in (
            data.drop_nulls("start_ns").group_by("session").agg(start.min(), start.max().alias("last")).iter_rows()
        ):
            before = self._starts.get(session, (first, last))
            self._starts[session] = min(first, before[0]), max(last, before[1])
        return any(last - first > 2 * LONGEST_NS for first, last in self._starts.values())
