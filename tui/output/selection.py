"""The rows and columns of a table that a command prints: filter, order, columns and limit, as on a screen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tui.model.errors import ProftuiError
from tui.model.forest import build_forest
from tui.model.table_spec import TableState
from tui.output.json_document import row_keys

if TYPE_CHECKING:
    import polars as pl

    from tui.model.forest import Flags, Forest
    from tui.model.table_spec import Sort, TableSpec
    from tui.query.apply import Applied


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested rows and columns of a table."""

    filter: str = ""
    """The filter; rows that do not match are omitted."""
    sort: str = ""
    """Columns with commas between, ``-`` before one for largest first; empty: as the table comes."""
    columns: tuple[str, ...] = ()
    """These columns alone, in this order; none: all."""
    limit: int | None = None
    """The number of rows, from the first in the shown order."""
    hides_small: bool = False
    """The smallest rows, which together hold next to nothing of the time, are omitted."""
    depth: int | None = None
    """The number of levels of a tree; None for all."""
    unfolded: tuple[str, ...] = ()
    """The keys or paths of unfolded rows of a tree, with their ancestors; empty if all are unfolded."""

    @property
    def is_all(self) -> bool:
        """Whether no filter, order or columns are requested, only a limit at most."""
        return self == Selection(limit=self.limit)


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected rows and columns of a table."""

    rows: pl.DataFrame
    spec: TableSpec
    """Its columns, those that are wanted."""
    total: int
    """How many rows match, also beyond the limit."""
    columns: tuple[str, ...] = ()
    """The columns that are wanted; none: all of the rows."""


def select(
    frame: pl.DataFrame, spec: TableSpec, selection: Selection, *, excluded_sessions: Collection[int] = ()
) -> Selected:
    """Return the selected rows of a table.

    Args:
        frame: All rows.
        spec: The table.
        selection: The requested rows and columns.
        excluded_sessions: Sessions that are excluded from sums over sessions.

    Raises:
        ProftuiError: A column is unknown, or the filter is invalid.
    """
    columns = tuple(column_name(name, spec, frame, "--columns") for name in selection.columns)
    shown = (*columns, spec.pinned) if columns else tuple(column.name for column in spec.columns)
    state = TableState(
        filter=selection.filter,
        sort=sort_columns(selection.sort, spec, frame) if selection.sort else None,
        hidden=frozenset(column.name for column in spec.columns if column.name not in shown),
        hides_small=selection.hides_small,
    )
    if not frame.width:
        return Selected(frame, spec, 0)
    is_tree = {"parent", "level"} <= set(frame.columns)
    from tui.query.apply import apply  # Imported here: most reports select nothing, and the parser is slow to import.

    applied = apply(frame, spec, replace(state, sort=None) if is_tree else state, excluded_sessions=excluded_sessions)
    if applied.error is not None:
        raise ProftuiError(f"--filter {selection.filter}: {applied.error.message}")
    if is_tree and frame.height:
        applied = _select_from_tree(frame, spec, state, selection, applied)
    rows = applied.take(frame, 0, selection.limit)
    if columns:
        columns_by_name = {column.name: column for column in spec.columns}
        spec = replace(spec, columns=tuple(columns_by_name[name] for name in columns))
    return Selected(rows, spec, applied.shown, columns)


def _select_from_tree(
    frame: pl.DataFrame, spec: TableSpec, state: TableState, selection: Selection, flat: Applied
) -> Applied:
    forest = build_forest(frame["parent"].to_numpy().astype(np.int64))
    from tui.query.apply import apply_tree, tree_order

    order, unfolded = tree_order(frame, forest, spec, state), _unfolded(frame, spec, forest, selection)
    return apply_tree(frame, forest, order, unfolded, spec, flat)


def _unfolded(frame: pl.DataFrame, spec: TableSpec, forest: Forest, selection: Selection) -> Flags:
    """Return the rows of a tree that are unfolded."""
    flags = np.full(frame.height, not selection.unfolded or selection.depth is not None)
    if selection.depth is not None:
        for level in forest.levels[selection.depth - 1 :]:
            flags[level] = False
    if not selection.unfolded:
        return flags
    keys = row_keys(frame, spec.key)
    paths = tree_paths(keys)
    is_named = keys.is_in(selection.unfolded) | paths.is_in(selection.unfolded)
    missing = sorted(set(selection.unfolded) - set(keys) - set(paths))
    if missing:
        raise ProftuiError(f"--unfold {missing[0]}: no such row", "the JSON of the table has the key of each row")
    shown: Flags = flags | is_named.to_numpy()
    for level in forest.levels[:0:-1]:
        parents = forest.parent[level][shown[level]]
        shown[parents] = True
    return shown


def tree_paths(keys: pl.Series) -> pl.Series:
    """Return the paths that ``--unfold`` accepts for the rows of a tree: without session and kind.

    >>> import polars as pl
    >>> tree_paths(pl.Series(["0/backward/aten::relu/group", "0//group"])).to_list()
    ['backward/aten::relu', '']
    """
    return keys.str.extract("^[^/]*/(.*)/[^/]*$").fill_null(keys)


def column_name(text: str, spec: TableSpec, frame: pl.DataFrame, option: str) -> str:
    """Return the column with a name, title or alias.

    Raises:
        ProftuiError: The table has none.
    """
    lowered = text.strip().lower()
    names = [column.name for column in spec.columns if column.name in frame.columns or not frame.width]
    for column in spec.columns:
        if column.name in names and lowered in (column.name, column.title.lower(), *column.aliases):
            return column.name
    raise ProftuiError(f"{option} {text}: no such column", f"columns: {', '.join(names)}")


def sort_columns(text: str, spec: TableSpec, frame: pl.DataFrame) -> Sort:
    """Parse a sort order such as ``-total_ns,name``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple((column_name(name.removeprefix("-"), spec, frame, "--sort"), name.startswith("-")) for name in names)


def parent_row(frame: pl.DataFrame, spec: TableSpec, key: str) -> dict[str, object]:
    """Return the row with a key.

    Raises:
        ProftuiError: There is none.
    """
    rows = frame.filter(row_keys(frame, spec.key) == key)
    if rows.is_empty():
        raise ProftuiError(f"--row {key}: no such row in {spec.title}", "the JSON of the table has the key of each row")
    return rows.row(0, named=True)
