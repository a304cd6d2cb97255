"""Pieces of a trace put together as frames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.loaders.chrome.pieces import NO_TEXT, Piece, Rows, Values
from tui.loaders.chrome.times import NULL
from tui.loaders.chrome.trace import Arg, ArgKind

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_AXES: Final = ("x", "y", "z")


class Assembly:
    """Takes the pieces of a trace in their order and makes its frames."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = args
        self._codes: dict[str, int] = {}
        self._complete: list[Rows] = []
        self._instants: list[Rows] = []
        self._flows: list[Rows] = []
        self._names: list[tuple[str | None, str | None, str, str]] = []
        self.rows = 0
        """How many events have been taken."""
        self.events = 0
        """The same, with those left out."""

    def add(self, piece: Piece, lines_before: int | None) -> None:
        """Take the next piece.

        Args:
            piece: Is used up.
            lines_before: Newlines before its text; None where it is not known.
        """
        known = self._codes
        codes = np.array([known.setdefault(text, len(known)) for text in piece.texts] + [NO_TEXT], np.int32)
        for rows, kept in (
            (piece.complete, self._complete),
            (piece.instants, self._instants),
            (piece.flows, self._flows),
        ):
            if not len(rows):
                continue
            for column in ("cat", "name", "pid", "tid", "phase"):
                if (own := getattr(rows, column)) is not None:
                    setattr(rows, column, codes[own])
            for one in rows.args:
                if self._args[one.column].kind in (ArgKind.TEXT, ArgKind.TRIPLE):
                    one.values = codes[one.values]
            if rows.line is not None:
                rows.line = None if lines_before is None else rows.line + lines_before
            kept.append(rows)
            self.rows += len(rows)
        self._names += piece.names
        self.events += piece.events

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame, int]:
        """complete, instants, flows, names and origin_ns of a `Trace`; the pieces are used up."""
        texts = pl.Series(list(self._codes), dtype=pl.String)
        self._codes = {}
        categories = texts.cast(pl.Categorical)
        origin_ns = min((int(rows.start_ns.min()) for rows in self._complete), default=0)
        if not self._complete:
            others = (int(rows.start_ns.min()) for rows in (*self._instants, *self._flows))
            origin_ns = min(others, default=0)
        complete = self._frame(self._complete, origin_ns, texts, categories, with_duration=True)
        instants = self._frame(self._instants, origin_ns, texts, categories)
        return complete, instants, self._arrows(origin_ns, categories), self._called(), origin_ns

    def _frame(
        self, parts: list[Rows], origin_ns: int, texts: pl.Series, categories: pl.Series, *, with_duration: bool = False
    ) -> pl.DataFrame:
        columns = [
            _categorical(column, _taken(parts, column, np.int32), categories)
            for column in ("cat", "name", "pid", "tid")
        ]
        columns.append(pl.Series("start_ns", _taken(parts, "start_ns", np.int64) - origin_ns))
        if with_duration:
            columns.append(pl.Series("duration_ns", _taken(parts, "duration_ns", np.int64)))
        columns.append(_lines(parts))
        starts = np.concatenate([[0], np.cumsum([len(part.start_ns) for part in parts], dtype=np.int64)])
        by_column: dict[int, list[tuple[int, Values]]] = {}
        for start, part in zip(starts.tolist(), parts, strict=False):
            for one in part.args:
                by_column.setdefault(one.column, []).append((start, one))
            part.args = []
        parts.clear()
        for index, arg in enumerate(self._args):
            columns += _argument(arg, by_column.pop(index, []), int(starts[-1]), texts, categories)
        return pl.DataFrame(columns)

    def _arrows(self, origin_ns: int, categories: pl.Series) -> pl.DataFrame:
        parts = self._flows
        columns = [_categorical("ph", _taken(parts, "phase", np.int32), categories)]
        columns += [
            _categorical(column, _taken(parts, column, np.int32), categories)
            for column in ("cat", "name", "pid", "tid")
        ]
        columns.append(_integers("id", _taken(parts, "number", np.int64)))
        columns.append(pl.Series("start_ns", _taken(parts, "start_ns", np.int64) - origin_ns))
        parts.clear()
        return pl.DataFrame(columns)

    def _called(self) -> pl.DataFrame:
        schema = {"pid": pl.Categorical, "tid": pl.Categorical, "name": pl.String, "value": pl.String}
        return pl.DataFrame(self._names, schema=schema, orient="row")


def _taken(parts: Sequence[Rows], column: str, dtype: type[np.int64 | np.int32]) -> npt.NDArray[Any]:
    """A column of all parts, which do not keep theirs."""
    if not parts:
        return np.empty(0, dtype)
    whole = np.concatenate([getattr(part, column) for part in parts], dtype=dtype)
    if column != "start_ns":  # len() of the parts is needed to the end
        for part in parts:
            setattr(part, column, None)
    return whole


def _lines(parts: Sequence[Rows]) -> pl.Series:
    lines = [np.zeros(len(part.start_ns), np.uint32) if part.line is None else part.line for part in parts]
    whole = np.concatenate([np.empty(0, np.uint32), *lines], dtype=np.uint32, casting="unsafe")
    return _null_where("line", whole, 0)


def _argument(
    arg: Arg, parts: Sequence[tuple[int, Values]], height: int, texts: pl.Series, categories: pl.Series
) -> list[pl.Series]:
    if arg.kind is ArgKind.INTEGER:
        return [_integers(arg.column, _scattered(parts, height, NULL, np.int64))]
    if arg.kind is ArgKind.NUMBER:
        return [pl.Series(arg.column, _scattered(parts, height, np.nan, np.float64), nan_to_null=True)]
    codes = _scattered(parts, height, NO_TEXT, np.int32)
    if arg.kind is ArgKind.TEXT:
        return [_categorical(arg.column, codes, categories)]
    return _triple(arg.column, codes, texts)


def _scattered(
    parts: Sequence[tuple[int, Values]], height: int, null: float, dtype: type[np.int64 | np.float64 | np.int32]
) -> npt.NDArray[Any]:
    whole = np.full(height, null, dtype)
    for start, one in parts:
        whole[start + one.rows] = one.values
    return whole


def _integers(name: str, values: Ints) -> pl.Series:
    return _null_where(name, values, NULL)


def _null_where(name: str, values: npt.NDArray[Any], null: int) -> pl.Series:
    series = pl.Series(name, values)
    if not len(values) or not bool((values == null).any()):
        return series
    return series.to_frame().select(pl.when(pl.col(name) != null).then(pl.col(name)))[name]


def _categorical(name: str, codes: npt.NDArray[np.int32], categories: pl.Series) -> pl.Series:
    return categories.gather(_null_where(name, codes, NO_TEXT).cast(pl.UInt32)).alias(name)


def _triple(name: str, codes: npt.NDArray[np.int32], texts: pl.Series) -> list[pl.Series]:
    """Three columns of the numbers that distinct texts hold, each of which is parsed once."""
    distinct, which = np.unique(codes, return_inverse=True)
    table = np.array([_numbers(None if code == NO_TEXT else texts[int(code)]) for code in distinct], np.int64)
    table = table.reshape(-1, 3)
    return [_integers(f"{name}_{axis}", table[which, index]) for index, axis in enumerate(_AXES)]


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
