"""The tables of a view without its screen, for `proftui report --table`, and the command that prints a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import EVERY_FINDING, EXPERT, FOLDED_TABLE, UNFOLDED, expert_rows, spec_for
from tui.analysis.ops import op_trees
from tui.analysis.ops.groupings import GROUPINGS
from tui.model.errors import ProftuiError
from tui.output.selection import parent_row
from tui.screens.linked_tables import Level
from tui.tables import tables_of_report, view_of_report
from tui.views import VIEWS, view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec

ONLY_TABLE: Final = "table"
"""The name of the only table of a view."""


@dataclass(frozen=True, slots=True)
class ViewTable:
    """A table of a view."""

    name: str
    """The name, as ``launches``."""
    spec: TableSpec
    rows: pl.DataFrame


def view_table(
    profile: Profile, report: str, name: str | None = None, keys: Sequence[str] = (), group_by: str | None = None
) -> ViewTable:
    """Return a table of a view, below the chosen rows.

    Args:
        profile: The profile.
        report: One of `tui.tables.ALL_REPORTS`.
        name: The table; None: the first one, or that below the chosen rows.
        keys: The keys of the chosen rows of the tables above it, the first table's first.
        group_by: The grouping of the first table, if it has any.

    Raises:
        ProftuiError: There is no such table, row or grouping, or the rows above are not chosen.
    """
    chains = _chains(profile, report, group_by)
    if not chains:
        hint = "remove --table, --filter, --sort, --columns and --limit"
        raise ProftuiError(f"--view {report} has several tables", hint)
    if report == "flame" and len(keys) == 1:
        return _flame_around(profile, chains[0][0], keys[0])
    chain, index = _chain_of(chains, report, name, len(keys))
    if len(keys) != index:
        names_above = ", ".join(level.name for level in chain[:index])
        raise ProftuiError(
            f"--table {chain[index].name} requires one --row KEY for each table above it: {names_above}"
            if index
            else f"--table {chain[index].name} is below no other table: --row does not apply",
            "the JSON of each table has the key of each row",
        )
    rows_above: dict[str, dict[str, Any]] = {}
    for level, key in zip(chain, keys, strict=False):
        rows_above[level.name] = parent_row(level.rows(profile, rows_above), _spec(level, profile), key)
    level = chain[index]
    return ViewTable(level.name, _spec(level, profile), level.rows(profile, rows_above))


def _flame_around(profile: Profile, level: Level, key: str) -> ViewTable:
    """Return a node of the flame with its ancestors and descendants."""
    from tui.analysis.ops.flame import nodes_around
    from tui.output.json_document import row_keys

    rows, spec = level.rows(profile, {}), _spec(level, profile)
    matches = (row_keys(rows, spec.key) == key).arg_true()
    if matches.is_empty():
        raise ProftuiError(f"--row {key}: no such row in {spec.title}", "the JSON of the table has the key of each row")
    return ViewTable(level.name, spec, nodes_around(rows, matches[0]))


def table_names(profile: Profile, report: str) -> list[list[str]]:
    """Return the names of the tables of a view: each list is a table and those below it.

    Args:
        profile: The profile.
        report: One of `tui.tables.ALL_REPORTS`.
    """
    return [[level.name for level in chain] for chain in _chains(profile, report, None)]


def _chain_of(
    chains: Sequence[tuple[Level, ...]], report: str, name: str | None, depth: int
) -> tuple[tuple[Level, ...], int]:
    """Return the chain of a table, and its index there."""
    if name is None:
        if depth >= len(chains[0]):
            raise ProftuiError(f"--row: {chains[0][-1].name} is the last table of {report}", "remove a --row")
        return chains[0], depth
    for chain in chains:
        for index, level in enumerate(chain):
            if name in (level.name, level.spec.name):
                return chain, index
    names = dict.fromkeys(level.name for chain in chains for level in chain)
    raise ProftuiError(f"--table {name}: no such table in {report}", f"tables: {', '.join(names)}")


def _spec(level: Level, profile: Profile) -> TableSpec:
    return level.spec if level.spec_for is None else level.spec_for(profile)


def _chains(profile: Profile, report: str, group_by: str | None) -> Sequence[tuple[Level, ...]]:
    """Return the tables of a view: each chain is a table and those that follow from its rows."""
    if group_by is not None and report not in ("ops", "group-ops", "flame"):
        raise ProftuiError(f"--group-by does not apply to {report}", "it applies to ops, group-ops and flame")
    if report == "ops":
        return [_op_levels(profile, group_by)]
    if report == "group-ops":
        return [(_tree_level(profile, group_by),)]
    if report == "flame":
        return [(_flame_level(profile, group_by),)]
    if report == "findings":
        return [
            (_level(name, EXPERT, partial(_findings, table_shown=name), spec_for),)
            for name in (FOLDED_TABLE, EVERY_FINDING, UNFOLDED)
        ]
    if report == "ranks":
        # Tabs of the view of GPUs, after the GPUs themselves.
        return _chains(profile, "gpus", None)[1:]
    screen_name = view_of_report(report)
    if screen_name in {listed.name for listed in VIEWS}:
        module, _, class_name = view(screen_name).screen.partition(":")
        screen = getattr(import_module(module), class_name)
        if hasattr(screen, "TABS"):
            return [tab.levels for tab in screen.TABS]
        if hasattr(screen, "LEVELS"):
            return [screen.LEVELS]
    tables = [registered for registered in tables_of_report(report)[:1] if registered.spec]
    return [
        (
            _level(
                ONLY_TABLE,
                registered.table_spec(profile),
                lambda chosen, _selected, registered=registered: registered.rows(chosen),
            ),
        )
        for registered in tables
    ]


def _level(name: str, spec: TableSpec, rows: Any, spec_of: Any = None) -> Level:
    return Level(name, spec, rows, lambda _row: "", lambda _profile: "", 1, spec_of)


def _findings(profile: Profile, _selected: Mapping[str, Any], *, table_shown: str) -> pl.DataFrame:
    return expert_rows(findings(profile), every_finding=table_shown == EVERY_FINDING, unfolded=table_shown == UNFOLDED)


def _op_levels(profile: Profile, group_by: str | None) -> tuple[Level, ...]:
    from tui.screens.ops_and_kernels import BY_NAME, GROUPING_TABS, NAME_LEVELS, levels_of

    if group_by in (None, BY_NAME.name):
        return NAME_LEVELS
    chosen = next((grouping for grouping in GROUPINGS if grouping.name == group_by), None)
    if chosen is None:
        names = ", ".join(candidate.name for candidate in GROUPING_TABS)
        raise ProftuiError(f"--group-by {group_by}: no such grouping of ops", f"groupings: {names}")
    if reason := chosen.unavailable_reason(profile):
        raise ProftuiError(f"--group-by {group_by}: {reason}")
    return levels_of(chosen)


def _tree_level(profile: Profile, group_by: str | None) -> Level:
    tree = op_trees.first_tree(profile) if group_by is None else op_trees.find_grouping(group_by, op_trees.TREES)
    if tree is None:
        names = ", ".join(listed.name for listed in op_trees.TREES)
        raise ProftuiError(f"--group-by {group_by}: no such tree", f"trees: {names}")
    if reason := tree.unavailable_reason(profile):
        raise ProftuiError(f"--group-by {group_by}: {reason}")
    return _level("tree", op_trees.OP_FOREST, lambda shown_profile, _above: tree.tree(shown_profile))


def _flame_level(profile: Profile, group_by: str | None) -> Level:
    from tui.analysis.ops import flame

    name = op_trees.first_tree(profile).name if group_by is None else group_by
    chosen = next((grouping for grouping in flame.GROUPINGS if grouping.name == name), None)
    if chosen is None:
        names = ", ".join(grouping.name for grouping in flame.GROUPINGS)
        raise ProftuiError(f"--group-by {group_by}: no such grouping of the flame graph", f"groupings: {names}")
    if reason := chosen.unavailable_reason(profile):
        raise ProftuiError(f"--group-by {group_by}: {reason}")
    return _level("flame", flame.FLAME, lambda shown_profile, _above: flame.flame_by(shown_profile, chosen.name))
