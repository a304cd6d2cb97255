"""A table of a tree: names are indented, with a sign for folded and unfolded rows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import polars as pl
from textual.binding import Binding

from tui.keys import Scope, bindings_for
from tui.model.forest import NONE, Forest, build_forest
from tui.query.apply import apply_tree, tree_order
from tui.query.facts import ColumnFacts, frame_facts
from tui.text_width import PREFIXES, cell_width, clip, clip_middle, without_prefix
from tui.widgets.table.cells import CellWriter
from tui.widgets.table.model import TableModel, TableRows
from tui.widgets.table.pane import TablePane
from tui.widgets.table.view import MOVE_IDS, FrameTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.binding import BindingType

    from tui.model.columns import Column
    from tui.model.forest import Flags, Ints
    from tui.model.table_spec import Sort, TableSpec, TableState
    from tui.query.apply import Applied
    from tui.widgets.table.model import Key


OTHER_LINES: Final = 6
"""Lines of a screen around the rows of its tree: path, tabs, a note, headings, status line and footer."""
MIN_UNFOLDED_SHARE: Final = 0.01
"""Groups with a smaller share of the time are folded when a tree is first shown."""
INDENT_CELLS: Final = 2
"""The indentation of each level, if there is room."""
MIN_NAME_CELLS: Final = 16
"""The minimum width of a name at any depth."""


MAX_INDENTED_CELLS: Final = 40
"""The most room that indentation takes beside short names."""
MIN_NAME_SHARE: Final = 0.45
"""Names have this part of a line before less important columns have theirs, if they need it."""

TAIL_SHARE: Final = 0.75
"""The share of a cut name that its end gets: many names begin with ``autograd::engine::evaluate_function: ``."""


def _without_prefixes(names: pl.Series) -> pl.Series:
    """Return `without_prefix` of all names."""
    for prefix, short in PREFIXES.items():
        names = names.str.replace(f"^{re.escape(prefix)}", short)
    return names


class TreeText(str):
    """The name of a row with its indentation and sign."""

    __slots__ = ("depth", "sign")

    depth: int
    """The depth of the row, from 0."""
    sign: str
    """The sign of an unfolded row, a folded row or a leaf."""


def tree_text(name: str, depth: int, sign: str) -> TreeText:
    """Return a name with its indentation and sign."""
    text = TreeText(name)
    text.depth, text.sign = depth, sign
    return text


class TreeWriter(CellWriter):
    """Writes the indented names of a tree.

    Args:
        column: The column of the names.
        facts: The facts of the names.
        state: The user's arrangement of the table.
        max_depth: The maximum depth, from 0.
    """

    def __init__(self, column: Column, facts: ColumnFacts, state: TableState, *, max_depth: int) -> None:
        super().__init__(column, facts, state, is_pinned=True)
        self._deepest = max_depth
        self.width += INDENT_CELLS * max_depth + 2

    def fitted(self, value: object, width: int) -> str:
        """Return the indented name; the indentation is smaller if there is little room."""
        if not isinstance(value, TreeText):
            return super().fitted(value, width)
        step = INDENT_CELLS if INDENT_CELLS * self._deepest + MIN_NAME_CELLS <= width else 1
        indent = max(0, min(step * value.depth, width - MIN_NAME_CELLS))
        prefix = " " * indent + value.sign + " "
        name, available_lines = self.full_text(str(value)), max(1, width - cell_width(prefix))
        if cell_width(name) > available_lines:
            name = without_prefix(name)
        # Names of ops begin alike: keep their ends, except those of "(unattributed: ...)".
        return prefix + (
            clip(name, available_lines) if name.startswith("(") else clip_middle(name, available_lines, tail=TAIL_SHARE)
        )


class TreeRows(TableRows):
    """The rows of a tree, whose names have an indentation and a sign."""

    def __init__(self, rows: TableRows, forest: Forest, depth: Ints, column: str) -> None:
        super().__init__(rows.frame, rows.order)
        height = rows.frame.height
        shown = np.arange(height) if rows.order is None else rows.order.to_numpy()
        self._depth = depth
        self._has_children = _parents(forest, np.arange(height))
        self._has_shown_children = _parents(forest, shown)
        self._name_index = rows.frame.columns.index(column)
        self._signs = ("▸", "▾", " ")

    def row(self, row: int) -> tuple[object, ...]:
        """Return the values of a shown row; its name has an indentation and a sign."""
        values = super().row(row)
        source = self.source_row(row)
        folded, unfolded, none = self._signs
        sign = none if not self._has_children[source] else unfolded if self._has_shown_children[source] else folded
        name = tree_text(str(values[self._name_index]), int(self._depth[source]), sign)
        return (*values[: self._name_index], name, *values[self._name_index + 1 :])

    def record(self, row: int) -> dict[str, object]:
        """Return a shown row as a dictionary, with the plain name."""
        return dict(zip(self.frame.columns, super().row(row), strict=True))


def _parents(forest: Forest, rows: Ints) -> Flags:
    """Return the parents of rows."""
    flags = np.zeros(len(forest.parent), np.bool_)
    above = forest.parent[rows]
    flags[above[above != NONE]] = True
    return flags


def _arrow_bindings() -> list[BindingType]:
    """Return the bindings with arrow keys only for moving the cursor; h and l fold and unfold."""
    keys = {"table.left": "left", "table.right": "right"}
    return [
        replace(binding, key=keys.get(binding.id or "", binding.key), key_display=None)
        for binding in bindings_for(Scope.TABLE)
        if isinstance(binding, Binding) and binding.id in MOVE_IDS
    ]


class TreeModel(TableModel):
    """The model of a tree; its frame has the columns ``parent`` (a row of the frame, or -1) and those of the key.

    Args:
        spec: The table; its weight is that of a row without its descendants.
    """

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self.forest = build_forest(np.zeros(0, np.int64))
        """The parent of each row."""
        self.depth: Ints = np.zeros(0, np.int64)
        """The depth of each row, from 0."""
        self.unfolded: Flags = np.zeros(0, np.bool_)
        """The unfolded rows."""
        self.available_lines = 0
        """The number of lines for rows: a new tree is unfolded as far as they suffice."""
        self._subtree_weights: Ints = np.zeros(0, np.int64)
        """The weight of each row with all of its descendants."""
        self._order: tuple[pl.DataFrame, Sort | None, Ints] | None = None

    def load(self, frame: pl.DataFrame) -> None:
        """Replace the tree; groups that both trees have stay folded or unfolded."""
        if frame is not self.frame:
            before, unfolded, height = self.frame, self.unfolded, frame.height
            self.forest = build_forest(frame["parent"].to_numpy().astype(np.int64) if height else np.zeros(0, np.int64))
            self.depth = np.zeros(height, np.int64)
            for depth, level in enumerate(self.forest.levels):
                self.depth[level] = depth
            weight = self.spec.weight
            values = (
                frame[weight].fill_null(0).to_numpy().astype(np.int64)
                if weight in frame.columns
                else self._subtree_weights
            )
            self._subtree_weights = self.forest.subtree_sums(values) if height else np.zeros(0, np.int64)
            self.unfolded = self._restored_unfolding(before, unfolded, frame, self.spec.key)
        super().load(frame)

    def _restored_unfolding(
        self, before: pl.DataFrame, unfolded: Flags, frame: pl.DataFrame, key: tuple[str, ...]
    ) -> Flags:
        """Return the groups to unfold: as before, or down to the first branching if the tree is another one."""
        if before.height and all(name in before.columns for name in key):
            unfolded_rows = before.filter(pl.Series(unfolded)).select(key)
            same = (
                frame.select(key).with_row_index("row").join(unfolded_rows, on=list(key), how="semi", nulls_equal=True)
            )
            if same.height:
                flags = np.zeros(frame.height, np.bool_)
                flags[same["row"].to_numpy()] = True
                return flags
        flags = np.zeros(frame.height, np.bool_)
        for root in self.forest.levels[0].tolist() if frame.height else ():
            self.unfold_to_branching(flags, root)
        self._unfold_to_fit(flags)
        return flags

    def _unfold_to_fit(self, flags: Flags) -> None:
        """Unfold the heaviest folded groups, one after the other, as long as their rows fit.

        A group with more than half of the total is always unfolded; one with negligible rows never.
        """
        sizes = self.forest.child_sums(np.ones(len(flags), np.int64))
        whole = int(self._subtree_weights[self.forest.levels[0]].sum()) if len(flags) else 0
        inside = self.forest.child_sums(self._subtree_weights)
        heavy = (sizes > 0) & (inside > whole * MIN_UNFOLDED_SHARE)
        while self.available_lines:
            visible = self.forest.visible(flags)
            left = self.available_lines - int(visible.sum())
            fits = (sizes <= left) | (inside * 2 > whole)
            candidates = np.flatnonzero(heavy & visible & ~flags & fits)
            if left <= 0 or not len(candidates):
                return
            row = int(candidates[inside[candidates].argmax()])
            opened = flags.copy()
            self.unfold_to_branching(opened, row)
            if int(self.forest.visible(opened).sum()) <= self.available_lines or inside[row] * 2 > whole:
                flags[:] = opened
            heavy[row] = False

    def apply(self, frame: pl.DataFrame, state: TableState, units: Mapping[str, str], global_filter: str) -> Applied:
        """Filter, search and sort rows, each among its siblings."""
        forest, unfolded = self.forest, self.unfolded
        flat = super().apply(frame, replace(state, sort=None), units, global_filter)
        if not frame.height:
            return flat
        if self._order is None or self._order[0] is not frame or self._order[1] != state.sort:
            self._order = (frame, state.sort, tree_order(frame, forest, self.spec, state))
        shown = apply_tree(frame, forest, self._order[2], unfolded, self.spec, flat)
        return replace(shown, sort=state.sort if state.sort is not None else self.spec.sort)

    def show_rows(self, rows: TableRows, *, cursor_row: int = 0) -> None:
        """Show these rows, as a tree."""
        if rows.frame.height:
            rows = TreeRows(rows, self.forest, self.depth, self.spec.pinned)
        super().show_rows(rows, cursor_row=cursor_row)

    def make_writers(self) -> dict[str, CellWriter]:
        """Return a writer for each column; names are indented."""
        made = super().make_writers()
        column = next((column for column in self.columns() if column.name == self.spec.pinned), None)
        if column is not None:
            facts = frame_facts(self.rows.frame)[column.name]
            max_depth = int(self.depth.max(initial=0))
            made[column.name] = TreeWriter(column, facts, self.shown_state, max_depth=max_depth)
        return made

    def widths_shown(self) -> dict[str, int]:
        """Return the width of the names of unfolded rows; names within folded groups are not on the screen."""
        frame, name = self.rows.frame, self.spec.pinned
        if not frame.height or name not in frame.columns:
            return {}
        lengths = _without_prefixes(frame[name]).str.len_chars().to_numpy() + INDENT_CELLS * self.depth + 2
        shown = lengths if self.rows.order is None else lengths[self.rows.order.to_numpy()]
        # If there is less room, rows are not indented.
        indented = min(INDENT_CELLS * int(self.depth.max(initial=0)) + MIN_NAME_CELLS, MAX_INDENTED_CELLS)
        return {name: max(indented, int(shown.max(initial=0)))}

    def preferred_pinned_cells(self, width: int) -> int:
        """Return the width of whole names, because cut names are hard to read in a tree."""
        return round(width * MIN_NAME_SHARE)

    # --- folding -----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> int | None:
        """The frame's row number of the selected row."""
        return self.rows.source_row(self.cursor_row) if len(self.rows) else None

    def children(self, row: int) -> Ints:
        """Return the children of a row."""
        return np.flatnonzero(self.forest.parent == row)

    def unfold_to_branching(self, flags: Flags, row: int) -> None:
        """Unfold a row, and its descendants as long as a single child has most of the weight, and not as self time."""
        while True:
            flags[row] = True
            children = self.children(row)
            heavy = children[self._subtree_weights[children] > 0]
            if len(heavy) != 1 and len(children) != 1:
                return
            inner = int(heavy[0] if len(heavy) else children[0])
            within = int(self._subtree_weights[self.children(inner)].sum())
            if (
                self._subtree_weights[inner] * 2 < self._subtree_weights[row]
                or within * 2 < self._subtree_weights[inner]
            ):
                return
            row = inner

    def fold_to(self, unfolded: Flags, row: int | None) -> None:
        """Set the unfolded rows; the cursor goes to a row or to its nearest shown ancestor."""
        self.unfolded = unfolded
        visible = self.forest.visible(unfolded)
        while row is not None and not visible[row]:
            above = int(self.forest.parent[row])
            row = above if above != NONE else None
        self.cursor_source_row = row


class TreeTable(FrameTable, inherit_bindings=False):
    """The table of a `TreePane`."""

    BINDINGS: ClassVar = _arrow_bindings()


class TreePane(TablePane):
    """A tree as a table, of a `TreeModel`."""

    BINDINGS: ClassVar = bindings_for(Scope.TREE)

    def make_model(self, spec: TableSpec) -> TableModel:
        """Return the model of the tree."""
        self.tree_model = TreeModel(spec)
        return self.tree_model

    def make_table(self) -> FrameTable:
        """Return the view of the model."""
        return TreeTable(self.tree_model)

    def show(
        self, frame: pl.DataFrame, *, empty: str = "", is_loading: bool = False, spec: TableSpec | None = None
    ) -> None:
        """Show the rows of a tree; the first time, it is unfolded as far as the screen has room."""
        self.tree_model.available_lines = self.app.size.height - OTHER_LINES
        super().show(frame, empty=empty, is_loading=is_loading, spec=spec)

    def _fold_to(self, unfolded: Flags, row: int | None) -> None:
        self.tree_model.fold_to(unfolded, row)
        self.filtering.apply(keep_row=True)
        self.state_changed()

    def action_fold(self) -> None:
        """Fold the group; from a folded one, or an op, go to its parent."""
        row = self.tree_model.current
        if row is None:
            return
        if self.tree_model.unfolded[row] and len(self.tree_model.children(row)):
            unfolded = self.tree_model.unfolded.copy()
            unfolded[row] = False
            self._fold_to(unfolded, row)
            return
        above = int(self.tree_model.forest.parent[row])
        place = self.tree_model.rows.shown_row(above) if above != NONE else None
        if place is not None:
            self.table.move_to(place)

    def action_unfold(self) -> None:
        """Unfold the group, down to the first branching; from an unfolded one, go to its first child."""
        row = self.tree_model.current
        if row is None or not len(self.tree_model.children(row)):
            return
        if self.tree_model.unfolded[row]:
            self.table.move_to(self.tree_model.cursor_row + 1)
            return
        unfolded = self.tree_model.unfolded.copy()
        self.tree_model.unfold_to_branching(unfolded, row)
        self._fold_to(unfolded, row)

    def action_fold_level(self) -> None:
        """Fold the whole tree by one level."""
        depth = self.tree_model.depth
        shown = self.tree_model.forest.visible(self.tree_model.unfolded)
        self._show_levels(int(depth[shown].max(initial=0)))

    def action_unfold_level(self) -> None:
        """Unfold the whole tree by one level."""
        forest, depth = self.tree_model.forest, self.tree_model.depth
        holds = np.zeros(len(depth), np.bool_)
        holds[forest.parent[forest.parent != NONE]] = True
        closed = holds & ~self.tree_model.unfolded & forest.visible(self.tree_model.unfolded)
        max_depth = int(depth.max(initial=0))
        self._show_levels(int(depth[closed].min()) + 2 if closed.any() else max_depth + 1)

    def _show_levels(self, levels: int) -> None:
        """Show a number of levels of the whole tree, at least one."""
        depth = self.tree_model.depth
        levels = max(1, min(levels, int(depth.max(initial=0)) + 1))
        self._fold_to(depth < levels - 1, self.tree_model.current)
        shown = "Level 1" if levels == 1 else f"Levels 1 to {levels}"
        self.notify(f"{shown} of {int(depth.max(initial=0)) + 1}.", markup=False)

    def reveal(self, row: int) -> None:
        """Select a row of the frame and unfold its ancestors; filter and search are removed."""
        flags = np.zeros(self.frame.height, np.bool_)
        flags[row] = True
        around = self.tree_model.forest.with_ancestors(flags)
        around[row] = self.tree_model.unfolded[row]
        self.tree_model.state = replace(self.tree_model.state, filter="", find="")
        self._fold_to(self.tree_model.unfolded | around, row)

    def reach(self, key: Key) -> bool | None:
        """Select the row of a key, and unfold its ancestors."""
        is_selected = super().reach(key)
        rows = self.tree_model.find_keys([key]) if is_selected is None else []
        if not rows or self.state.filter or self.global_filter:
            return is_selected
        self.reveal(rows[0])
        return True

    def undo_smallest(self) -> bool:
        """Undo the smallest change; after a search, the found row stays visible."""
        current_row = self.tree_model.current
        searched = bool(self.tree_model.state.find or self.tree_model.state.filter)
        undone = super().undo_smallest()
        if (
            undone
            and searched
            and current_row is not None
            and not (self.tree_model.state.find or self.tree_model.state.filter)
        ):
            self.reveal(current_row)
        return undone
