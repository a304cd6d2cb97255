"""The GPU work of each device in order of time, as arrays: what all figures about time are worked out from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The activities of one device whose start and duration are known, by start."""

    session: int
    device: int | None
    """None: the input does not name it."""
    resolution_ns: int
    """The coarsest step of its start times, at least 1: nothing shorter can be told."""
    rows: Ints
    """The row of each in ``activities``."""
    starts: Ints
    ends: Ints

    def reached(self) -> Ints:
        """The latest end of each and all before it."""
        ends: Ints = np.maximum.accumulate(self.ends)
        return ends


@once_per_profile("activities", "sessions")
def timelines(profile: Profile) -> tuple[Timeline, ...]:
    """One for each device of each session that has work with known times, by session and device."""
    told = dict(profile["sessions"].select("session", "start_resolution_ns").iter_rows())
    timed = (
        profile["activities"]
        .lazy()
        .select("session", "device", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .with_row_index("row")
        .drop_nulls(["start_ns", "end_ns"])
        .collect()
    )
    found = []
    for (session, device), part in _parts(timed):
        starts, ends, rows = (part[name].to_numpy() for name in ("start_ns", "end_ns", "row"))
        rows = rows.astype(np.int64)
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends, rows = starts[order], ends[order], rows[order]
        found.append(Timeline(session, device, max(1, told.get(session) or 1), rows, starts, ends))
    return tuple(sorted(found, key=lambda line: (line.session, -1 if line.device is None else line.device)))


def _parts(timed: pl.DataFrame) -> list[tuple[tuple[int, int | None], pl.DataFrame]]:
    gpus = timed.select("session", "device").unique()
    if gpus.height == 1:
        return [(gpus.row(0), timed)]
    return list(timed.partition_by("session", "device", as_dict=True).items())


def classes_of(names: pl.Series, classify: Callable[[pl.Series], npt.NDArray[np.int8]]) -> npt.NDArray[np.int8]:
    """A number for each name of a column, told from the distinct ones.

    Args:
        names: A categorical column.
        classify: From distinct names, as texts, to one number each; a missing name is an empty text.
    """
    distinct = names.unique()
    if distinct.is_empty():
        return np.zeros(0, np.int8)
    numbers = classify(distinct.cast(pl.String).fill_null(""))
    codes = distinct.to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
    table = np.zeros(int(codes.max()) + 1, np.int8)
    table[codes] = numbers
    found: npt.NDArray[np.int8] = table[names.to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1]
    return found
