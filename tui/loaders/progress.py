"""Progress of loading: bytes and rows read, and a preview of the rows so far.

Nothing of it is a total. It costs a sum over the rows that came since the last look, and nothing where nobody looks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

TOP: Final = 12
"""So many names are shown at most."""
_EVERY_S: Final = 0.4
"""Between two looks: often enough to be seen to grow, seldom enough to cost nothing."""
_NAME_LIMIT: Final = 10_000
"""Characters of a name that are passed on: no screen is wider."""

_SUMS: Final = pl.Schema({"name": pl.String, "calls": pl.Int64, "total_ns": pl.Float64})
"""No sum of impossible times, which are not left out yet, is too large for a float."""


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """GPU work of one name, as far as it has been read."""

    name: str
    calls: int
    total_ns: float


@dataclass(frozen=True, slots=True)
class LoadPreview:
    """What has been read of the GPU work of one input."""

    names: tuple[PreviewRow, ...]
    """Those that took most of the GPU time that was read, at most `TOP`."""
    distinct: int
    """How many names there are."""
    calls: int
    """Kernels, copies and memsets."""
    total_ns: float
    """Their durations, added up."""
    span_ns: int | None
    """From the first start to the last; None where there are several clocks."""
    others: tuple[tuple[str, int], ...]
    """How much else has been read: what it is, in the plural, and how many."""


def summed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of GPU work by name, as `Preview.add` takes them.

    Args:
        rows: With ``name`` (of any type), ``start_ns`` and ``duration_ns``; null where it is not known.
    """
    return rows.group_by("name").agg(
        calls=pl.len(),
        total_ns=pl.col("duration_ns").cast(pl.Float64).sum(),
        first_ns=pl.col("start_ns").min(),
        last_ns=pl.col("start_ns").max(),
    )


class PreviewBuilder:
    """Adds up what a loader reads; all of it is called in the thread that reads."""

    def __init__(self) -> None:
        self.is_wanted = False
        """Somebody looks; else nothing is added up."""
        self._feeds: list[Callable[[], None]] = []
        self._new: list[pl.DataFrame] = []
        self._sums = pl.DataFrame(schema=_SUMS)
        self._spans: dict[object, tuple[int, int]] = {}
        self._others: Counter[str] = Counter()
        self._looked = time.monotonic()
        self.latest: LoadPreview | None = None
        """What the last look gave."""

    def watch(self, feed: Callable[[], None]) -> None:
        """Have something called before each look: it adds what came since the last one."""
        self._feeds.append(feed)

    def add(self, sums: pl.DataFrame, *, clock: object = None) -> None:
        """Add GPU work that was read.

        Args:
            sums: From `summed`, with names as text.
            clock: What start times count from: of different ones there is no span.
        """
        if not self.is_wanted or sums.is_empty():
            return
        first, last = sums["first_ns"].min(), sums["last_ns"].max()
        if isinstance(first, int) and isinstance(last, int):
            before = self._spans.get(clock, (first, last))
            self._spans[clock] = min(first, before[0]), max(last, before[1])
        self._new.append(sums.select(pl.col(name).cast(dtype) for name, dtype in _SUMS.items()))

    def count(self, what: str, number: int) -> None:
        """Count what is no GPU work; ``what`` is it in the plural."""
        if number:
            self._others[what] += number

    def look(self) -> LoadPreview | None:
        """What has been read so far; None where nobody looks, or there is nothing yet."""
        now = time.monotonic()
        if not self.is_wanted or now - self._looked < _EVERY_S:
            return self.latest
        for feed in self._feeds:
            feed()
        if self._new:
            self._sums = pl.concat([self._sums, *self._new]).group_by("name").agg(pl.col("calls", "total_ns").sum())
            self._new.clear()
        if self._sums.height or self._others:
            self.latest = self._so_far()
        self._looked = time.monotonic()
        return self.latest

    def _so_far(self) -> LoadPreview:
        top = self._sums.top_k(TOP, by="total_ns").sort("total_ns", "name", descending=[True, False])
        spans = list(self._spans.values())
        return LoadPreview(
            names=tuple(
                PreviewRow((name or "")[:_NAME_LIMIT], calls, total_ns) for name, calls, total_ns in top.iter_rows()
            ),
            distinct=self._sums.height,
            calls=int(self._sums["calls"].sum()),
            total_ns=float(self._sums["total_ns"].sum()),
            span_ns=spans[0][1] - spans[0][0] if len(spans) == 1 else None,
            others=tuple(self._others.items()),
        )


WAITING, READING, DONE, LEFT_OUT, STOPPED = "waiting", "reading", "done", "left out", "not read"
"""How far one of several files can be: left out are those that cannot be read and those that hold no profile, not read
those that were waiting when the reading was stopped."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far one of several files has come."""

    path: str
    bytes_total: int
    """As it lies on the disk."""
    state: str = WAITING
    """One of the five above."""
    bytes_read: int = 0
    rank: int | None = None
    """Of what was read of it, once that is known."""
    why: str = ""
    """Why it is left out."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a loader has come."""

    source: str
    """The path as given."""
    bytes_read: int
    """Of the input as it lies on the disk, compressed or not."""
    bytes_total: int | None
    """Size of the file; None where there is none (a pipe)."""
    rows: int
    """How many have been read, over all frames."""
    preview: LoadPreview | None = None
    """What they hold, where the loader can tell before it has come to the end."""
    files: Sequence[FileProgress] = ()
    """Each of several files, in the order in which they are shown; the figures above are then of all together."""


Report = Callable[[LoadProgress], bool]
"""Told of progress at most a few times a second; returns False to stop: the loader then keeps what it has."""


def keep_going(_progress: LoadProgress) -> bool:
    """A `Report` that never stops a loader."""
    return True
