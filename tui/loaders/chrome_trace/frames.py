"""Assembles the batches of a trace to frames."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.loaders.chrome_trace.event_batches import NO_TEXT, Arg, ArgKind, EventBatch, EventRows, Trace, Values
from tui.loaders.chrome_trace.microseconds import NULL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.chrome_trace.event_batches import Split
    from tui.loaders.input_issues import Note

    Codes = npt.NDArray[np.int32]
    Ints = npt.NDArray[np.int64]

_AXES: Final = ("x", "y", "z")
_WHOLE: Final = ""
"""The key of a frame that is not split."""
_PART_ROWS: Final = 1 << 16
"""Events of a part of the frames: large enough for what is done once a part, small against a large file."""


class Assembly:
    """Takes the pieces of a trace in their order and makes its frames, part by part as they come."""

    def __init__(
        self, args: Sequence[Arg], split: Split | None = None, flow_categories: Collection[str] | None = None
    ) -> None:
        self._flow_categories = flow_categories
        self._texts = _TextTable()
        self._complete = _Frame(self._texts, args, ("start_ns", "duration_ns"), split=split)
        self._instants = _Frame(self._texts, args, ("start_ns",))
        self._flows = _Frame(self._texts, (), ("start_ns",), is_flow=True)
        self._names: list[tuple[str | None, str | None, str, str]] = []
        self.rows = 0
        """How many events have been taken."""
        self.events = 0
        """The same, with those left out."""

    def add(self, batch: EventBatch, lines_before: int) -> None:
        """Take the next piece, which is used up; ``lines_before`` newlines stand before its text."""
        codes = self._texts.codes_of(batch.texts)
        self.rows += len(batch.complete) + len(batch.instants) + len(batch.flows)
        self.events += batch.events
        for rows, frame in (
            (batch.complete, self._complete),
            (batch.instants, self._instants),
            (self._wanted(batch.flows, batch.texts), self._flows),
        ):
            if len(rows):
                frame.add(rows, codes, lines_before)
        self._names += batch.names

    def _wanted(self, flows: EventRows, texts: Sequence[str]) -> EventRows:
        if self._flow_categories is None or not len(flows):
            return flows
        # The last is that of `NO_TEXT`.
        wanted = np.array([*(text in self._flow_categories for text in texts), False])
        return flows.only(wanted[flows.cat])

    def trace(self, metadata: Mapping[str, Any], notes: Sequence[Note], partial: str) -> Trace:
        """All that was taken, and what else a `Trace` has."""
        every = (self._complete, self._instants, self._flows)
        complete, instants, flows = (one.whole() for one in every)
        first = [one.first_ns for one in every if one.first_ns is not None]
        origin_ns = min(first, default=0) if self._complete.first_ns is None else self._complete.first_ns
        schema = {"pid": pl.Categorical, "tid": pl.Categorical, "name": pl.String, "value": pl.String}
        return Trace(
            metadata=metadata,
            complete=_counted_from(origin_ns, complete.pop(_WHOLE, pl.DataFrame())),
            parts={key: _counted_from(origin_ns, part) for key, part in complete.items()},
            instants=_counted_from(origin_ns, instants[_WHOLE]),
            flows=_counted_from(origin_ns, flows[_WHOLE]),
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
        """The code of each text, and behind them `NO_TEXT` for itself, which as an index is the last."""
        known = len(self._code)
        codes = [self._code.setdefault(text, len(self._code)) for text in texts]
        self._new += [text for text, code in zip(texts, codes, strict=True) if code >= known]
        return np.array([*codes, NO_TEXT], np.int32)

    def categorical(self, name: str, codes: Codes) -> pl.Series:
        """The texts of codes."""
        if self._new:
            self._categories.append(pl.Series(self._new, dtype=pl.Categorical))
            self._new = []
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
        args: Sequence[Arg],
        times: Sequence[str],
        *,
        is_flow: bool = False,
        split: Split | None = None,
    ) -> None:
        self.first_ns: int | None = None
        """The earliest start, of what has become frames."""
        self._split = split
        self._texts = texts
        self._args = args
        self._times = times
        self._is_flow = is_flow
        self._waiting: list[EventRows] = []
        self._height = 0
        self._parts: dict[str, list[pl.DataFrame]] = {}

    def add(self, rows: EventRows, codes: Codes, lines_before: int) -> None:
        """Take some rows, which are used up.

        Args:
            rows: Any number of them.
            codes: The code of each of their codes.
            lines_before: What is added to their lines.
        """
        for column in ("cat", "name", "pid", "tid", "phase"):
            if (own := getattr(rows, column)) is not None:
                setattr(rows, column, codes[own])
        for one in rows.args:
            if self._args[one.column].kind in (ArgKind.TEXT, ArgKind.TRIPLE):
                one.values = codes[one.values]
        if rows.line is not None:
            rows.line = rows.line + lines_before
        self._waiting.append(rows)
        self._height += len(rows)
        if self._height >= _PART_ROWS:
            self._build()

    def whole(self) -> dict[str, pl.DataFrame]:
        """All rows, as they are split or under `_WHOLE`."""
        if self._height or not self._parts:
            self._build()
        return {key: pl.concat(parts, rechunk=False) for key, parts in self._parts.items()}

    def _build(self) -> None:
        parts, height = self._waiting, self._height
        self._waiting, self._height = [], 0
        columns = [self._texts.categorical("ph", _joined(parts, "phase", np.int32))] if self._is_flow else []
        columns += [
            self._texts.categorical(column, _joined(parts, column, np.int32))
            for column in ("cat", "name", "pid", "tid")
        ]
        if self._is_flow:
            columns.append(_null_where("id", _joined(parts, "number", np.int64), NULL))
        columns += [pl.Series(column, _joined(parts, column, np.int64)) for column in self._times]
        if not self._is_flow:
            columns.append(_lines(parts))
        frame = pl.DataFrame(columns)
        del columns
        if not self._is_flow:
            frame = frame.with_columns(self._arguments(parts, height))
        self.first_ns = min(
            (start for start in (self.first_ns, frame["start_ns"].min()) if isinstance(start, int)), default=None
        )
        for key, part in ({_WHOLE: frame} if self._split is None else self._split(frame)).items():
            self._parts.setdefault(key, []).append(part)

    def _arguments(self, parts: Sequence[EventRows], height: int) -> Iterator[pl.Series | pl.Expr]:
        values: list[list[tuple[int, Values]]] = [[] for _ in self._args]
        begin = 0
        for part in parts:
            for one in part.args:
                values[one.column].append((begin, one))
            begin += len(part)
            part.args = []
        for arg, own in zip(self._args, values, strict=True):
            yield from self._argument(arg, own, height)
            own.clear()

    def _argument(
        self, arg: Arg, values: Sequence[tuple[int, Values]], height: int
    ) -> Sequence[pl.Series] | Sequence[pl.Expr]:
        if not values:  # one value for all rows takes no memory, nor does a part of them
            names = [f"{arg.column}_{axis}" for axis in _AXES] if arg.kind is ArgKind.TRIPLE else [arg.column]
            return [pl.lit(None, _DTYPES[arg.kind]).alias(name) for name in names]
        if arg.kind is ArgKind.INTEGER:
            return [_null_where(arg.column, _scattered(values, height, NULL, np.int64), NULL)]
        if arg.kind is ArgKind.NUMBER:
            return [pl.Series(arg.column, _scattered(values, height, np.nan, np.float64), nan_to_null=True)]
        codes = _scattered(values, height, NO_TEXT, np.int32)
        if arg.kind is ArgKind.TEXT:
            return [self._texts.categorical(arg.column, codes)]
        triples = self._texts.triples(codes)
        return [_null_where(f"{arg.column}_{axis}", triples[:, index], NULL) for index, axis in enumerate(_AXES)]


_DTYPES: Final = {
    ArgKind.INTEGER: pl.Int64,
    ArgKind.NUMBER: pl.Float64,
    ArgKind.TEXT: pl.Categorical,
    ArgKind.TRIPLE: pl.Int64,
}


def _joined(parts: Sequence[EventRows], column: str, dtype: type[np.int64 | np.int32]) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(getattr(part, column) for part in parts)], dtype=dtype)


def _lines(parts: Sequence[EventRows]) -> pl.Series:
    lines = [np.zeros(len(part), np.uint32) if part.line is None else part.line for part in parts]
    whole = np.concatenate([np.empty(0, np.uint32), *lines], dtype=np.uint32, casting="unsafe")
    return _null_where("line", whole, 0)


def _scattered(
    values: Sequence[tuple[int, Values]], height: int, null: float, dtype: type[np.int64 | np.float64 | np.int32]
) -> npt.NDArray[Any]:
    whole = np.full(height, null, dtype)
    for begin, one in values:
        whole[begin + one.rows] = one.values
    return whole


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
