"""What the status line of a table says of its rows: how they are sorted, what is marked, what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.fmt import count, format_value, percent
from tui.model.columns import ColumnKind
from tui.query.shares import weight_pct

if TYPE_CHECKING:
    from tui.model.view import Sort, TableSpec
    from tui.query.apply import Applied


def sorted_by(spec: TableSpec, sort: Sort, *, ascii_only: bool = False, in_words: bool = False) -> str:
    """The columns that rows are sorted by, with their directions as signs or in words."""
    titles = {column.name: column.title for column in spec.columns}
    down, up = ("descending", "ascending") if in_words else ("v", "^") if ascii_only else ("▼", "▲")
    return ", ".join(f"{titles.get(name, name)} {down if falls else up}" for name, falls in sort)


def weight_title(spec: TableSpec) -> str:
    """What the weight of the rows is called: ``time`` for durations."""
    kind = weight_kind(spec)
    return "time" if kind is ColumnKind.DURATION else _title(spec).lower()


def weight_kind(spec: TableSpec) -> ColumnKind:
    """What the rows are weighed in."""
    return next((column.kind for column in spec.columns if column.name == spec.weight), ColumnKind.COUNT)


def _title(spec: TableSpec) -> str:
    return next((column.title for column in spec.columns if column.name == spec.weight), spec.weight)


def marks_in_words(
    frame: pl.DataFrame,
    marks: Collection[int],
    spec: TableSpec,
    apart: Collection[int],
    of_all: Callable[[], int | float | None],
    *,
    ascii_only: bool,
) -> tuple[str, str]:
    """How many rows are marked with the sum of their weight and its share of all; and their average.

    Args:
        frame: All rows.
        marks: Row numbers of the marked ones.
        spec: What the table is.
        apart: Sessions whose weight is added to that of no other.
        of_all: The weight of all rows, where there are none of those.
        ascii_only: Use ASCII characters only.
    """
    if not marks:
        return "", ""
    said = f"{count(len(marks))} marked"
    if spec.weight not in frame.columns:
        return said, ""
    picked = pl.Series(sorted(marks), dtype=pl.UInt32)
    values = frame[spec.weight][picked].drop_nulls().to_list()
    if not values:
        return said, ""
    kind = weight_kind(spec)
    total, average = (
        format_value(kind, value, ascii_only=ascii_only) for value in (sum(values), sum(values) / len(values))
    )
    share = _share(frame, picked, spec.weight, apart) if apart else _part(sum(values), of_all())
    in_percent = f", {percent(share)} of all" if share is not None else ""
    return f"{said}: {total}{in_percent}", average if len(values) > 1 else ""


def _part(held: float, whole: float | None) -> float | None:
    return 100 * held / whole if whole else None


def _share(frame: pl.DataFrame, picked: pl.Series, weight: str, apart: Collection[int]) -> float | None:
    mask = np.zeros(frame.height, dtype=bool)
    mask[picked.to_numpy()] = True
    return weight_pct(frame, weight, pl.Series(mask), apart)


def small_in_words(applied: Applied, spec: TableSpec, *, ascii_only: bool) -> str:
    """How many rows are hidden as small, and what they hold together; empty where none are."""
    if not applied.small:
        return ""
    held = format_value(weight_kind(spec), applied.small_weight, ascii_only=ascii_only)
    return f"{count(applied.small)} small ({held})"
