"""Assembles the packed batches of a trace to frames."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.loaders.chrome_trace.event_batches import NO_TEXT, PLACE, WHOLE, Arg, ArgKind, PackedBatch, PackedRows, Trace
from tui.loaders.chrome_trace.microseconds import NULL
from tui.loaders.worker_process import run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.chrome_trace.event_batches import Split
    from tui.loaders.input_issues import Note

    Codes = npt.NDArray[np.int32]
    Ints = npt.NDArray[np.int64]

_AXES: Final = ("x", "y", "z")
_PART_ROWS: Final = 1 << 18
"""Events of a part of the frames: large enough for what is done once a part, small against a large file."""
_WATCHED_ROWS: Final = 1 << 16
"""The same where somebody watches."""


class Assembly:
    """Takes the batches of a trace in their order and makes its frames, part by part as they come."""

    def __init__(
        self,
        args: Sequence[Arg],
        split: Split | None = None,
        watch: Callable[[str, pl.DataFrame], None] | None = None,
    ) -> None:
        """Begin without a batch.

        Args:
            args: Which arguments are wanted.
            split: What the batches are told apart by.
            watch: Called with each stretch of a part of ``split`` as it comes.
        """
        self._texts = _TextTable()
        own = [arg.column for arg in args]
        timed = (*PLACE, "start_ns", "duration_ns", "line")
        every = {WHOLE: (*timed, *own)} if split is None else split.columns
        kinds = {arg.column: arg.kind for arg in args}
        self._complete = {
            part: _Frame(self._texts, [name for name in (*timed, *own) if name in columns], kinds, part, watch)
            for part, columns in every.items()
        }
        self._instants = _Frame(self._texts, [*PLACE, "start_ns", "line", *own], kinds)
        self._flows = _Frame(self._texts, ["phase", *PLACE, "number", "start_ns"], {})
        self._names: list[tuple[str | None, str | None, str, str]] = []
        self._codes: dict[object, Codes] = {}
        self._categories: Counter[str | None] = Counter()
        self._seen: set[str] = set()
        self._first_ns: int | None = None
        """The earliest start of events that have a duration."""
        self.rows = 0
        """How many events have been taken."""
        self.events = 0
        """The same, with those left out."""

    def add(self, batch: PackedBatch, lines_before: int, packer: object = None) -> None:
        """Take the next batch, which is used up.

        Args:
            batch: Of which ``lines_before`` newlines stand before the text.
            lines_before: How many.
            packer: Whose codes it has: those of one go on from batch to batch.
        """
        codes = self._texts.codes_of(batch.new_texts)
        if not batch.is_first:
            codes = np.concatenate([self._codes[packer], codes])
        self._codes[packer] = codes
        # As an index, that of no text is the last.
        codes = np.append(codes, np.int32(NO_TEXT))
        self.rows += batch.rows
        self.events += batch.events
        self._categories.update(batch.categories)
        self._seen |= batch.seen
        if batch.first_ns is not None:
            self._first_ns = batch.first_ns if self._first_ns is None else min(self._first_ns, batch.first_ns)
        for rows, frame in (
            *((rows, self._complete[part]) for part, rows in batch.complete.items()),
            (batch.instants, self._instants),
            (batch.flows, self._flows),
        ):
            if rows.height:
                frame.add(rows, codes, lines_before)
        self._names += batch.names

    def trace(self, metadata: Mapping[str, Any], notes: Sequence[Note], partial: str) -> Trace:
        """All that was taken, and what else a `Trace` has."""
        self._texts.make_categories()
        frames = (*self._complete.values(), self._instants, self._flows)
        *whole, instants, flows = run_together(*(frame.whole for frame in frames))
        complete = dict(zip(self._complete, whole, strict=True))
        flows = flows.rename({"phase": "ph", "number": "id"})
        others = [frame.first_ns for frame in (self._instants, self._flows) if frame.first_ns is not None]
        origin_ns = min(others, default=0) if self._first_ns is None else self._first_ns
        schema = {"pid": pl.Categorical, "tid": pl.Categorical, "name": pl.String, "value": pl.String}
        return Trace(
            metadata=metadata,
            complete=_counted_from(origin_ns, complete.pop(WHOLE, pl.DataFrame())),
            parts={part: _counted_from(origin_ns, rows) for part, rows in complete.items()},
            categories=self._categories,
            seen=self._seen,
            instants=_counted_from(origin_ns, instants),
            flows=_counted_from(origin_ns, flows),
            names=pl.DataFrame(self._names, schema=schema, orient="row"),
            origin_ns=origin_ns,
            notes=notes,
            partial=partial,
        )


def _counted_from(origin_ns: int, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns") - origin_ns) if "start_ns" in frame.columns else frame


class _TextTable:
    """All distinct texts, and what codes they have."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._new: list[str] = []
        self._categories = pl.Series([], dtype=pl.Categorical)

    def codes_of(self, texts: Sequence[str]) -> Codes:
        """The code of each text."""
        known = len(self._code)
        codes = [self._code.setdefault(text, len(self._code)) for text in texts]
        self._new += [text for text, code in zip(texts, codes, strict=True) if code >= known]
        return np.array(codes, np.int32)

    def make_categories(self) -> None:
        """Make what `categorical` needs of all texts so far; afterwards several threads can ask for theirs."""
        if self._new:
            self._categories.append(pl.Series(self._new, dtype=pl.Categorical))
            self._new = []

    def categorical(self, name: str, codes: Codes) -> pl.Series:
        """The texts of codes."""
        self.make_categories()
        return self._categories.gather(_null_where(name, codes, NO_TEXT).cast(pl.UInt32)).alias(name)

    def triples(self, codes: Codes) -> Ints:
        """Three numbers for each code; each distinct text is parsed once."""
        is_used = np.zeros(len(self._code) + 1, np.bool_)
        is_used[codes] = True
        used = np.flatnonzero(is_used[:-1])
        table = np.full((len(is_used), 3), NULL, np.int64)
        texts = self.categorical("", used.astype(np.int32)).cast(pl.String)
        for code, text in zip(used.tolist(), texts, strict=True):
            table[code] = _numbers(text)
        return table[codes]


class _Frame:
    """A frame that grows part by part."""

    def __init__(
        self,
        texts: _TextTable,
        columns: Sequence[str],
        kinds: Mapping[str, ArgKind],
        part: str = WHOLE,
        watch: Callable[[str, pl.DataFrame], None] | None = None,
    ) -> None:
        self.first_ns: int | None = None
        """The earliest start, of what has become frames."""
        self._texts = texts
        self._columns = columns
        self._kinds = kinds
        self._part = part
        self._watch = watch
        self._most_rows = _PART_ROWS if watch is None else _WATCHED_ROWS
        self._waiting: list[PackedRows] = []
        self._height = 0
        self._parts: list[pl.DataFrame] = []

    def add(self, rows: PackedRows, codes: Codes, lines_before: int) -> None:
        """Take some rows, which are used up.

        Args:
            rows: Any number of them.
            codes: The code of each of their codes.
            lines_before: What is added to their lines.
        """
        for name, values in rows.columns.items():
            if values.dtype == np.int32:
                rows.columns[name] = codes[values]
        if "line" in rows.columns:
            rows.columns["line"] = rows.columns["line"] + np.uint32(lines_before & 0xFFFFFFFF)
        self._waiting.append(rows)
        self._height += rows.height
        if self._height >= self._most_rows:
            self._build()

    def whole(self) -> pl.DataFrame:
        """All rows."""
        if self._height or not self._parts:
            self._build()
        return pl.concat(self._parts, rechunk=False)

    def _build(self) -> None:
        waiting, height = self._waiting, self._height
        self._waiting, self._height = [], 0
        columns: list[pl.Series] = []
        missing: list[pl.Expr] = []
        for name in self._columns:
            if any(name in rows.columns for rows in waiting):
                columns += self._column(name, waiting, height)
            else:  # one value for all rows takes no memory
                kind = self._kinds.get(name)
                dtype = _BASE[name] if kind is None else _DTYPES[kind]
                missing += [pl.lit(None, dtype).alias(one) for one in self._names_of(name)]
        order = [one for name in self._columns for one in self._names_of(name)]
        if columns:
            frame = pl.DataFrame(columns).with_columns(missing).select(order)
        else:
            frame = pl.select(missing).clear().select(order)
        first = frame["start_ns"].min() if "start_ns" in order else None
        self.first_ns = min((one for one in (self.first_ns, first) if isinstance(one, int)), default=None)
        if self._watch is not None and frame.height:
            self._watch(self._part, frame)
        self._parts.append(frame)

    def _names_of(self, name: str) -> list[str]:
        return _axes(name) if self._kinds.get(name) is ArgKind.TRIPLE else [name]

    def _column(self, name: str, waiting: Sequence[PackedRows], height: int) -> list[pl.Series]:
        dtype = next(rows.columns[name].dtype for rows in waiting if name in rows.columns)
        null = _NULLS[dtype.type]
        values = np.empty(height, dtype)
        begin = 0
        for rows in waiting:
            values[begin : begin + rows.height] = rows.columns.pop(name, null)
            begin += rows.height
        if dtype == np.float64:
            return [pl.Series(name, values, nan_to_null=True)]
        if dtype != np.int32:
            return [_null_where(name, values, null)]
        if self._kinds.get(name) is not ArgKind.TRIPLE:
            return [self._texts.categorical(name, values)]
        triples = self._texts.triples(values)
        return [_null_where(axis, triples[:, index], NULL) for index, axis in enumerate(_axes(name))]


_NULLS: Final[dict[type, Any]] = {np.int32: NO_TEXT, np.int64: NULL, np.float64: np.nan, np.uint32: 0}
_BASE: Final = {
    **dict.fromkeys(("phase", *PLACE), pl.Categorical),
    **dict.fromkeys(("start_ns", "duration_ns", "number"), pl.Int64),
    "line": pl.UInt32,
}
_DTYPES: Final = {
    ArgKind.INTEGER: pl.Int64,
    ArgKind.NUMBER: pl.Float64,
    ArgKind.TEXT: pl.Categorical,
    ArgKind.TRIPLE: pl.Int64,
}


def _axes(name: str) -> list[str]:
    return [f"{name}_{axis}" for axis in _AXES]


def _null_where(name: str, values: npt.NDArray[Any], null: int) -> pl.Series:
    series = pl.Series(name, values)
    has = values != null
    if has.all():
        return series
    return pl.select(pl.when(pl.Series(has)).then(series).alias(name)).to_series()


def _numbers(text: str | None) -> tuple[int, int, int]:
    """Up to three whole numbers of a JSON list; missing ones are 1.

    >>> _numbers("[128]")
    (128, 1, 1)
    """
    nothing = (NULL, NULL, NULL)
    if text is None:
        return nothing
    try:
        values = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return nothing
    if not isinstance(values, list) or not 1 <= len(values) <= len(_AXES):
        return nothing
    if not all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 for value in values):
        return nothing
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
