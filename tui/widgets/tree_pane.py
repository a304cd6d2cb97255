"""A table of rows within rows with all that can be done in a table, and folding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from tui.keys import Scope, bindings_for
from tui.model.forest import NONE, Forest, forest_of
from tui.query.tree import apply_tree, tree_order
from tui.widgets.table_pane import TablePane
from tui.widgets.table_rows import TableRows
from tui.widgets.tree_table import TreeTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.forest import Flags, Ints
    from tui.model.view import Sort, TableSpec, TableState
    from tui.query.apply import Applied
    from tui.widgets.table_rows import Key


class TreePane(TablePane):
    """A tree as a table; a frame of it has the columns ``parent`` (a row of the frame, or -1) and those of the key.

    Args:
        spec: What the table shows; its weight is what a row has without the rows in it.
        id: The widget's id.
        title: What it holds, for the status line, where several tables stand on one screen.
    """

    BINDINGS: ClassVar = bindings_for(Scope.TREE)

    def __init__(self, spec: TableSpec, *, id: str | None = None, title: str = "") -> None:  # noqa: A002
        super().__init__(spec, id=id, title=title)
        self.tree_table = TreeTable(spec)
        self.table = self.tree_table
        self._unfolded: Flags = np.zeros(0, np.bool_)
        self._within: Ints = np.zeros(0, np.int64)
        """What each row has of the weight, with all rows in it."""
        self._order: tuple[pl.DataFrame, Sort | None, Ints] | None = None

    # --- rows --------------------------------------------------------------------------------------------------------

    def show(
        self, frame: pl.DataFrame, *, empty: str = "", is_coming: bool = False, spec: TableSpec | None = None
    ) -> None:
        """Show a tree; groups that it has in common with the one before stay as they are folded."""
        if frame is not self.frame:
            before, unfolded = self.frame, self._unfolded
            forest = forest_of(frame["parent"].to_numpy().astype(np.int64)) if frame.height else self._none()
            self.tree_table.forest = forest
            self.tree_table.depth = np.zeros(frame.height, np.int64)
            for depth, level in enumerate(forest.levels):
                self.tree_table.depth[level] = depth
            weight = (spec or self.spec).weight
            values = frame[weight].fill_null(0).to_numpy().astype(np.int64) if weight in frame.columns else self._within
            self._within = forest.sums(values) if frame.height else np.zeros(0, np.int64)
            self._unfolded = self._as_before(before, unfolded, frame, (spec or self.spec).key)
        super().show(frame, empty=empty, is_coming=is_coming, spec=spec)

    @staticmethod
    def _none() -> Forest:
        return forest_of(np.zeros(0, np.int64))

    def _as_before(self, before: pl.DataFrame, unfolded: Flags, frame: pl.DataFrame, key: tuple[str, ...]) -> Flags:
        """The groups that were unfolded, or down to where the tree first branches where it is another one."""
        if before.height and all(name in before.columns for name in key):
            kept = before.filter(pl.Series(unfolded)).select(key)
            same = frame.select(key).with_row_index("row").join(kept, on=list(key), how="semi", nulls_equal=True)
            if same.height:
                flags = np.zeros(frame.height, np.bool_)
                flags[same["row"].to_numpy()] = True
                return flags
        flags = np.zeros(frame.height, np.bool_)
        for root in self.tree_table.forest.levels[0].tolist() if frame.height else ():
            self._unfold_to_branching(flags, root)
        return flags

    def _applied(self, frame: pl.DataFrame, state: TableState, units: Mapping[str, str], carried: str) -> Applied:
        forest, unfolded = self.tree_table.forest, self._unfolded
        flat = super()._applied(frame, replace(state, sort=None), units, carried)
        if not frame.height:
            return flat
        if self._order is None or self._order[0] is not frame or self._order[1] != state.sort:
            self._order = (frame, state.sort, tree_order(frame, forest, self.spec, state))
        shown = apply_tree(frame, forest, self._order[2], unfolded, self.spec, flat)
        return replace(shown, sort=state.sort if state.sort is not None else self.spec.sort)

    # --- folding -----------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int | None:
        """The row of the frame under the cursor."""
        return self.table.rows.source_row(self.table.cursor_row) if len(self.table.rows) else None

    def _children(self, row: int) -> Ints:
        return np.flatnonzero(self.tree_table.forest.parent == row)

    def _unfold_to_branching(self, flags: Flags, row: int) -> None:
        """Unfold a row, and what is in it as long as a single row holds all of the weight there."""
        while True:
            flags[row] = True
            children = self._children(row)
            heavy = children[self._within[children] > 0]
            if len(heavy) != 1 and len(children) != 1:
                return
            row = int(heavy[0] if len(heavy) else children[0])

    def _fold_changed(self, unfolded: Flags, row: int | None) -> None:
        """Show the tree with other rows unfolded, the cursor on a row or on what is left of what it lies in."""
        self._unfolded = unfolded
        visible = self.tree_table.forest.visible(unfolded)
        while row is not None and not visible[row]:
            above = int(self.tree_table.forest.parent[row])
            row = above if above != NONE else None
        self.table.kept_row = row
        self.apply_state(keep_row=True)
        self.state_changed()

    def action_fold(self) -> None:
        """Fold the group; on a folded one, or an op, go to the group around it."""
        row = self._here
        if row is None:
            return
        if self._unfolded[row] and len(self._children(row)):
            unfolded = self._unfolded.copy()
            unfolded[row] = False
            self._fold_changed(unfolded, row)
            return
        above = int(self.tree_table.forest.parent[row])
        place = self.table.rows.shown_row(above) if above != NONE else None
        if place is not None:
            self.table.move_to(place)

    def action_unfold(self) -> None:
        """Unfold the group, down to where it first branches; on an unfolded one, go to its first row."""
        row = self._here
        if row is None or not len(self._children(row)):
            return
        if self._unfolded[row]:
            self.table.move_to(self.table.cursor_row + 1)
            return
        unfolded = self._unfolded.copy()
        self._unfold_to_branching(unfolded, row)
        self._fold_changed(unfolded, row)

    def action_fold_level(self) -> None:
        """Fold the whole tree by one level."""
        depth = self.tree_table.depth
        shown = self.tree_table.forest.visible(self._unfolded)
        self._show_levels(int(depth[shown].max(initial=0)))

    def action_unfold_level(self) -> None:
        """Unfold the whole tree by one level."""
        forest, depth = self.tree_table.forest, self.tree_table.depth
        holds = np.zeros(len(depth), np.bool_)
        holds[forest.parent[forest.parent != NONE]] = True
        closed = holds & ~self._unfolded & forest.visible(self._unfolded)
        deepest = int(depth.max(initial=0))
        self._show_levels(int(depth[closed].min()) + 2 if closed.any() else deepest + 1)

    def _show_levels(self, levels: int) -> None:
        """Show so many levels of the whole tree, at least one."""
        depth = self.tree_table.depth
        levels = max(1, min(levels, int(depth.max(initial=0)) + 1))
        self._fold_changed(depth < levels - 1, self._here)
        said = "level 1" if levels == 1 else f"levels 1 to {levels}"
        self.notify(f"{said} of {int(depth.max(initial=0)) + 1}", markup=False)

    def reveal(self, row: int) -> None:
        """Put the cursor on a row of the frame, with what it lies in unfolded; filter and search are left."""
        flags = np.zeros(self.frame.height, np.bool_)
        flags[row] = True
        around = self.tree_table.forest.around(flags)
        around[row] = self._unfolded[row]
        self._state = replace(self._state, filter="", find="")
        self._fold_changed(self._unfolded | around, row)

    def reach(self, key: Key) -> bool | None:
        """As in every table; what it lies in is unfolded."""
        reached = super().reach(key)
        found = TableRows(self.frame).find_keys([key], self._key_columns()) if reached is None else []
        if not found or self.state.filter or self.carried:
            return reached
        self.reveal(found[0])
        return True

    def undo_smallest(self) -> bool:
        """As in every table; after a search the row that was found stays in sight."""
        here = self._here
        searched = bool(self._state.find or self._state.filter)
        undone = super().undo_smallest()
        if undone and searched and here is not None and not (self._state.find or self._state.filter):
            self.reveal(here)
        return undone
