"""The interfaces of loaders and of the cache, the declaration of a format, and progress reports.

The figures of a preview are not totals: it sums the rows that are new since the last one, and only on request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.cache.entry import FileFingerprint
    from tui.cache.frame_files import FrameSpool
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

TOP: Final = 12
"""The maximum number of names of a preview."""
_EVERY_S: Final = 0.4
"""Seconds between two previews."""
_NAME_LIMIT: Final = 10_000
"""The longest name of a preview, in characters; no screen is wider."""

_SUMS: Final = pl.Schema({"name": pl.String, "calls": pl.Int64, "total_ns": pl.Float64})
"""Implausible times are not dropped yet: no sum of them exceeds a float."""


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """GPU work of one name, as read so far."""

    name: str
    calls: int
    total_ns: float


@dataclass(frozen=True, slots=True)
class LoadPreview:
    """GPU work of one input, as read so far."""

    names: tuple[PreviewRow, ...]
    """The names with the most GPU time, at most `TOP`."""
    distinct: int
    """The number of names."""
    calls: int
    """Kernels, copies and memsets."""
    total_ns: float
    """The sum of their durations."""
    span_ns: int | None
    """The time from the first start to the last; None if there are several clocks."""
    others: tuple[tuple[str, int], ...]
    """Counts of other rows: a plural noun and the number."""


def sum_by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Return sums of GPU work by name, for `PreviewBuilder.add`.

    Args:
        rows: With ``name`` (of any type), ``start_ns`` and ``duration_ns``; null if unknown.
    """
    return rows.group_by("name").agg(
        calls=pl.len(),
        total_ns=pl.col("duration_ns").cast(pl.Float64).sum(),
        first_ns=pl.col("start_ns").min(),
        last_ns=pl.col("start_ns").max(),
    )


class PreviewBuilder:
    """Sums the rows that a loader reads; only the loader's thread uses it."""

    def __init__(self) -> None:
        self.is_wanted = False
        """Whether previews are requested; otherwise nothing is summed."""
        self._feeds: list[Callable[[], None]] = []
        self._new: list[pl.DataFrame] = []
        self._sums = pl.DataFrame(schema=_SUMS)
        self._spans: dict[object, tuple[int, int]] = {}
        self._others: Counter[str] = Counter()
        self._looked = time.monotonic()
        self.latest: LoadPreview | None = None
        """The last preview."""

    def watch(self, feed: Callable[[], None]) -> None:
        """Register a function to call before each preview; it adds the rows since the last one."""
        self._feeds.append(feed)

    def add(self, sums: pl.DataFrame, *, clock: object = None) -> None:
        """Add GPU work.

        Args:
            sums: From `sum_by_name`, with names as text.
            clock: The clock of the start times; with several clocks there is no span.
        """
        if not self.is_wanted or sums.is_empty():
            return
        first_ns, last_ns = sums["first_ns"].min(), sums["last_ns"].max()
        if isinstance(first_ns, int) and isinstance(last_ns, int):
            span = self._spans.get(clock, (first_ns, last_ns))
            self._spans[clock] = min(first_ns, span[0]), max(last_ns, span[1])
        self._new.append(sums.select(pl.col(name).cast(dtype) for name, dtype in _SUMS.items()))

    def count(self, label: str, number: int) -> None:
        """Count other rows; ``label`` is a plural noun."""
        if number:
            self._others[label] += number

    def current(self) -> LoadPreview | None:
        """Return the current preview; None if none is requested or there are no rows yet."""
        now = time.monotonic()
        if not self.is_wanted or now - self._looked < _EVERY_S:
            return self.latest
        for feed in self._feeds:
            feed()
        if self._new:
            self._sums = pl.concat([self._sums, *self._new]).group_by("name").agg(pl.col("calls", "total_ns").sum())
            self._new.clear()
        if self._sums.height or self._others:
            self.latest = self._preview()
        self._looked = time.monotonic()
        return self.latest

    def _preview(self) -> LoadPreview:
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


WAITING, READING, DONE, SKIPPED, STOPPED = "waiting", "reading", "done", "skipped", "not read"
"""The states of one of several files.

A file that is unreadable or no profile is skipped; one that was waiting when loading was stopped is not read.
"""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The progress of one of several files."""

    path: str
    bytes_total: int
    """Its size on disk."""
    state: str = WAITING
    """One of the five above."""
    bytes_read: int = 0
    rank: int | None = None
    """Its rank, once known."""
    reason: str = ""
    """Why it was omitted."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a loader."""

    source: str
    """The path as given."""
    bytes_read: int
    """Bytes of the input read, as stored on disk (compressed or not)."""
    bytes_total: int | None
    """The size of the file; None for a pipe."""
    rows: int
    """The number of rows in all frames."""
    preview: LoadPreview | None = None
    """A preview, if the loader supports it."""
    files: Sequence[FileProgress] = ()
    """Each of several files, in display order; the other figures are then their sums."""


ProgressCallback = Callable[[LoadProgress], bool]
"""Called with the progress a few times a second; if it returns False, loading stops and the profile is partial."""


def keep_going(_progress: LoadProgress) -> bool:
    """Return a `ProgressCallback` that never stops a loader."""
    return True


@dataclass(frozen=True, slots=True)
class Format:
    """The description of a format, for `proftui formats` and the README."""

    name: str
    """The value of ``sessions.format`` and of ``--format-in``, as ``nvprof-text``."""

    title: str
    """The name for people, as ``nvprof text output``."""

    recognized_by: str
    """The content by which it is recognized."""

    feeds: tuple[str, ...]
    """Frames of the model that it fills."""

    record_with: str
    """A command that records it."""


class ProfileCache(Protocol):
    """The cache of profiles, as loaders see it."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """Return the profile of a file, from the cache or from ``load``.

        Args:
            path: The file.
            format_in: The name of the format, if the user chose it.
            load: Reads the file; its exceptions are passed on.
        """

    def large_frames(
        self, path: str, fingerprint: FileFingerprint, rows: Mapping[str, int], fill: Callable[[FrameSpool], bool]
    ) -> Mapping[str, pl.DataFrame]:
        """Return the frames of an input larger than memory, mapped from the cache or from a new spool.

        Args:
            path: The input.
            fingerprint: The fingerprint of its content.
            rows: The maximum number of rows of each frame.
            fill: Adds the rows; its exceptions are passed on. It returns whether the input is complete.
        """


class Loader(Protocol):
    """Reads files of one kind (text, database, JSON document) into a profile."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that this loader recognizes."""

    def probe(self, head: bytes, name: str) -> float:
        """Return the confidence, 0 to 1, that it can read an input with these first bytes (64 KiB, decompressed)."""

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the input.

        Raises:
            ProftuiError: The input holds no profile that can be read.
        """
