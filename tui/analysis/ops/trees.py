"""The trees that ops can be put into, and which of them an input feeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.analysis.ops.inferred_instances import inferred_instances
from tui.analysis.ops.places import by_caller, by_layer, by_path, by_range, by_type

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class TreeGrouping:
    """A tree that ops can be put into."""

    name: str
    """As ``module``: what the command line takes."""
    title: str
    """As ``by module or range``."""
    tree: Callable[[Profile], pl.DataFrame]
    """As `op_forest`."""
    why_not: Callable[[Profile], str]
    """Why it says nothing here, in words; empty where it does."""


def _no_ops(profile: Profile) -> str:
    return "" if profile["ops"].height else "no ops are recorded"


def _no_callers(profile: Profile) -> str:
    parents = profile["ops"]["parent"]
    return "" if parents.len() > parents.null_count() else "it is not recorded which op called which"


def _no_ranges(profile: Profile) -> str:
    launched = profile["api_calls"].height > 0 and profile["activities"]["correlation"].count() > 0
    if profile["ranges"].is_empty():
        return "no ranges are recorded"
    return "" if launched else "it is not recorded in which range work was launched"


def _no_layers(profile: Profile) -> str:
    if profile["layers"].is_empty():
        return "no layers are recorded"
    return "" if inferred_instances(profile)["layer"].count() else "no op is surely a layer's"


TREES: Final = (
    TreeGrouping("module", "by module or range", by_path, _no_ops),
    TreeGrouping("caller", "by caller", by_caller, _no_callers),
    TreeGrouping("range", "by NVTX range", by_range, _no_ranges),
    TreeGrouping("layer", "by layer", by_layer, _no_layers),
    TreeGrouping("type", "by type", by_type, lambda _profile: ""),
)
"""What ops can be grouped by in a tree; the first that says something is shown first."""


def find_tree(text: str) -> TreeGrouping | None:
    """The tree that a person means by the beginning of its name or of its title.

    >>> [tree.name for tree in map(find_tree, ("module or range", "Range", "nvtx", "t")) if tree]
    ['module', 'range', 'range', 'type']
    >>> find_tree("") is None
    True
    """
    wanted = text.lower()
    names = ((name, tree) for tree in TREES for name in (tree.name, tree.title.removeprefix("by ").lower()))
    return next((tree for name, tree in names if wanted and name.startswith(wanted)), None)


def first_tree(profile: Profile) -> TreeGrouping:
    """The tree that a profile is shown in first."""
    return next(tree for tree in TREES if not tree.why_not(profile))


def group_ops(profile: Profile) -> pl.DataFrame:
    """The tree that a profile is shown in first."""
    return first_tree(profile).tree(profile)
