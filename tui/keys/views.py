"""Keys of single views: parts, comparison, ops and their trees."""

from __future__ import annotations

from typing import Final

from tui.keys.action import FIND, GO, MOVE, WORK, Action, Scope

VIEWS: Final = (
    Action(
        "parts.next",
        "full_stop",
        "next_part",
        "next part",
        "The next part of a view that has several.",
        Scope.PARTS,
        GO,
        shown_keys=".",
    ),
    Action(
        "parts.previous",
        "comma",
        "previous_part",
        "previous part",
        "The part before this one.",
        Scope.PARTS,
        GO,
        shown_keys=",",
    ),
    Action(
        "ops.group-by",
        "b",
        "next_grouping",
        "group",
        "Group by the next thing: name, shapes, launch config, class, instance; "
        "in the tree: module or range, type, ...",
        Scope.OPS,
        FIND,
        footer=1,
    ),
    Action("ops.group-back", "B", "previous_grouping", "group back", "Group by the thing before.", Scope.OPS, FIND),
    Action("ops.tree", "t", "show_in_tree", "in the tree", "The op's place in the tree of groups.", Scope.OPS, GO),
    Action(
        "types.figures",
        "z",
        "fold_figures",
        "fold",
        "Fold or unfold average, least and most of the time under the cursor; on another column: of all times.",
        Scope.TYPES,
        FIND,
        footer=1,
    ),
    Action(
        "tree.fold", "h", "fold", "fold", "Fold the group; on a folded one: to the group around it.", Scope.TREE, MOVE
    ),
    Action(
        "tree.unfold",
        "l",
        "unfold",
        "unfold",
        "Unfold the group, down to where it first branches; then to its first row.",
        Scope.TREE,
        MOVE,
    ),
    Action(
        "tree.fold-level",
        "z",
        "fold_level",
        "fold",
        "Fold the whole tree by one level.",
        Scope.TREE,
        FIND,
        footer=1,
    ),
    Action(
        "tree.unfold-level",
        "Z",
        "unfold_level",
        "unfold a level",
        "Unfold the whole tree by one level.",
        Scope.TREE,
        FIND,
    ),
    Action("expert.rows", "t", "show_rows", "rows", "To the table of the rows behind the finding.", Scope.EXPERT, GO),
    Action(
        "compare.families",
        "a",
        "match_families",
        "alike",
        "Match also names that differ by version, library or GPU.",
        Scope.COMPARE,
        WORK,
    ),
    Action("compare.swap", "o", "swap_sides", "swap", "What was before becomes what is now.", Scope.COMPARE, WORK),
)
