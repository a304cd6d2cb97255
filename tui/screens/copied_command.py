"""The command that prints what is on the screen."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.compare.headline import HEADLINE
from tui.analysis.ops.flame import FLAME
from tui.analysis.ops.op_trees import first_tree
from tui.model.errors import CommandError
from tui.model.forest import NONE
from tui.output.json_document import row_keys
from tui.output.report import tables_for
from tui.output.selection import tree_paths
from tui.query.compile import as_global_filter
from tui.query.values import QueryError
from tui.screens.compare import CompareScreen
from tui.screens.expert_systems import ExpertSystemsScreen
from tui.screens.flame import FlameScreen
from tui.screens.group_ops import GroupOpsScreen
from tui.screens.linked_tables import LinkedTables
from tui.screens.log import LogScreen
from tui.screens.ops_and_kernels import OpsAndKernelsScreen
from tui.screens.sql import SqlScreen
from tui.screens.tabs import TabbedTables
from tui.screens.timeline import TimelineScreen
from tui.screens.view_tables import table_names
from tui.tables import ALL_REPORTS, REPORTS, report_of_view
from tui.text import plain
from tui.widgets.table.tree import TreePane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.screens.base import ViewScreen
    from tui.widgets.table.pane import TablePane
    from tui.widgets.table.tree import TreeModel

_DECOMPRESSORS: Final = {
    b"\x1f\x8b": "gzip -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ": "xz -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p",
}
"""The first bytes of a compressed log, and the command that decompresses it."""


def copied_command(screen: ViewScreen, values: Sequence[str] = ()) -> str:
    """Return the shell command that prints what a view shows.

    Args:
        screen: The view.
        values: The options that print values of its table's columns instead, as in the dialog above it.

    Raises:
        CommandError: There is no such command.
    """
    if values:
        return _check(shlex.join(["proftui", *_values(screen, values)]))
    if isinstance(screen, LogScreen):
        return _check(_log_lines(screen))
    if isinstance(screen, CompareScreen):
        arguments = _diff(screen)
    elif isinstance(screen, TimelineScreen) and screen.visible_range is not None:
        arguments = _window(screen, *screen.visible_range)
    elif isinstance(screen, SqlScreen):
        arguments = ["sql", *_files(screen), screen.shown_query, *_selection(screen.first_table), *_input(screen)]
    else:
        arguments = _report(screen)
    return _check(shlex.join(["proftui", *arguments]))


def _values(screen: ViewScreen, values: Sequence[str]) -> list[str]:
    """Return the options that print the values of columns of the shown table."""
    if isinstance(screen, (CompareScreen, SqlScreen)):
        raise CommandError(
            "No command prints the values of this table. Close the dialog; X then copies the command for its rows."
        )
    arguments = _report(screen)
    if "--limit" in arguments:
        raise CommandError("No command: the table shows only its first rows.")
    return [*arguments, *values]


def _window(screen: TimelineScreen, first_ns: int, last_ns: int) -> list[str]:
    """Return the command that exports the visible time range as trace events."""
    shown = screen.lanes.shown
    needs_session = shown is not None and len(shown.sessions) > len(shown.shifts) == 1
    session = ["--session", str(next(iter(shown.shifts)))] if shown is not None and needs_session else []
    times = [f"--from={first_ns}ns", f"--to={last_ns}ns"]
    has_session = screen.explorer.profile_session.session is not None
    return ["export", *_files(screen), "--format", "chrome", *times, *([] if has_session else session), *_input(screen)]


def _check(command: str) -> str:
    """Return the command if nothing in it can act on a terminal.

    Raises:
        CommandError: A name in it has control characters.
    """
    if plain(command) != command:
        raise CommandError("No command: a name in it has control characters.")
    return command


def _report(screen: ViewScreen) -> list[str]:
    report = report_of_view(screen.VIEW)
    if report not in ALL_REPORTS:
        raise CommandError("No command prints this view.")
    arguments = ["report", *_files(screen)]
    if report != "dashboard":
        arguments += ["--view", report]
    if isinstance(screen, FlameScreen):
        if screen.compares:
            raise CommandError("No command prints the change colors of the flame view.")
        if screen.grouping.name != first_tree(screen.profile).name:
            arguments += ["--group-by", screen.grouping.name]
        rows = screen.chart.rows
        if rows is not None and screen.chart.zoomed != NONE:
            arguments.append(f"--row={row_keys(rows.slice(screen.chart.zoomed, 1), FLAME.key)[0]}")
    if report in (*REPORTS, "findings", "notes") and report != "timeline":
        arguments += _table(screen, report)
    return [*arguments, *_input(screen)]


def _table(screen: ViewScreen, report: str) -> list[str]:
    """Return the options for the table of the view and its parent rows."""
    pane = screen.table
    if pane is None:
        return []
    arguments: list[str] = []
    chains = table_names(screen.profile, report) if report != "notes" else []
    body = screen.body.tables if isinstance(screen.body, TabbedTables) else screen.body
    name = pane.id or ""
    if isinstance(screen, ExpertSystemsScreen):
        arguments = ["--table", screen.table_shown]
    elif chains and (len(tables_for(screen.profile, report)) > 1 or name != chains[0][0]):
        arguments = ["--table", name]
    if isinstance(screen, GroupOpsScreen) and screen.grouping.name != first_tree(screen.profile).name:
        arguments += ["--group-by", screen.grouping.name]
    if isinstance(screen, OpsAndKernelsScreen) and screen.grouping is not None:
        arguments += ["--group-by", screen.grouping.name]
    if isinstance(body, LinkedTables):
        for index, level in enumerate(body.levels):
            if level.name == name:
                break
            arguments.append(f"--row={_key_of_cursor(body.pane(index))}")
    if isinstance(pane, TreePane):
        arguments += _unfolded(pane.tree_model)
    return [*arguments, *_selection(pane)]


def _key_of_cursor(pane: TablePane) -> str:
    """Return the key of the row whose rows are shown below."""
    if pane.current_row is None:
        raise CommandError("No command: no row is selected above this table.")
    return str(row_keys(pane.model.rows.slice(pane.model.cursor_row, 1), pane.spec.key)[0])


def _unfolded(model: TreeModel) -> list[str]:
    """Return the keys of the unfolded rows of a tree, as far as the screen shows rows below them."""
    forest, rows = model.forest, model.rows
    if not len(rows):
        return []
    shown_rows = np.arange(model.frame.height) if rows.order is None else rows.order.to_numpy()
    parents = forest.parent[shown_rows]
    is_unfolded = np.zeros(model.frame.height, np.bool_)
    is_unfolded[parents[parents != NONE]] = True
    has_children = np.zeros(model.frame.height, np.bool_)
    has_children[forest.parent[forest.parent != NONE]] = True
    if (is_unfolded == has_children).all():
        return []
    levels = 1
    for depth in range(1, int(model.depth.max()) + 1):
        unfolded = has_children & (model.depth < depth - 1)
        if (forest.visible(unfolded) == forest.visible(is_unfolded)).all():
            return ["--depth", str(depth)]
        levels = depth if not (unfolded & ~is_unfolded).any() else levels
    # The ancestors of an unfolded row are unfolded, too.
    inner = is_unfolded & (model.depth >= levels - 1)
    inner[forest.parent[np.flatnonzero(is_unfolded & (forest.parent != NONE))]] = False
    keys = row_keys(model.frame, model.spec.key)
    names = tree_paths(keys)
    names = pl.select(pl.when(names.is_unique() & (names != "")).then(names).otherwise(keys)).to_series()
    return [
        *(["--depth", str(levels)] if levels > 2 else []),
        *(f"--unfold={name}" for name in names.filter(list(inner))),
    ]


def _selection(pane: TablePane | None) -> list[str]:
    """Return the options for filter, order, columns and limit of a table."""
    if pane is None:
        return []
    model, state = pane.model, pane.model.shown_state
    arguments: list[str] = []
    if filters := _filters(pane):
        arguments += [f"--filter={filters}"]
    if state.sort is not None and model.sort:
        arguments += ["--sort=" + ",".join(f"{'-' * descending}{name}" for name, descending in model.sort)]
    if state.hidden & {column.name for column in pane.spec.columns} or state.order:
        arguments += ["--columns", ",".join(column.name for column in model.columns())]
    if state.hides_small:
        arguments.append("--hide-small")
    if state.max_rows is not None:
        arguments += ["--limit", str(state.max_rows)]
    return arguments


def _filters(pane: TablePane) -> str:
    """Return the filters of the table and of all views, with units that do not depend on the screen."""
    model = pane.model
    texts = [model.shown_state.filter]
    applied = model.applied
    if applied is not None and not applied.global_filter_reason:
        texts.append(pane.global_filter)
    filters = []
    for text in filter(None, texts):
        try:
            filters.append(as_global_filter(text, columns=pane.spec.columns, units=model.units()))
        except QueryError:
            # It is not applied on the screen either.
            continue
    return filters[0] if len(filters) == 1 else " ".join(f"({text})" for text in filters)


def _files(screen: ViewScreen) -> list[str]:
    return [_file(path) for path in screen.explorer.options.paths]


def _file(path: str) -> str:
    """Return a path that is not mistaken for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


def _input(screen: ViewScreen, *, with_iterations: bool = True) -> list[str]:
    """Return the options for the session, the iterations, and how the files were read."""
    options, profile_session = screen.explorer.options, screen.explorer.profile_session
    arguments = [] if profile_session.session is None else ["--session", str(profile_session.session)]
    if with_iterations:
        # The view of iterations shows all of them.
        if profile_session.aggregation.is_part and screen.VIEW != "iterations":
            arguments += ["--iterations", profile_session.aggregation.text.partition(" ")[2]]
        if profile_session.aggregation.key:
            arguments += [f"--key={profile_session.aggregation.key}"]
    option_values = (
        ("--format-in", options.format_in),
        ("--gpu", options.gpu),
        *(("--peak", peak) for peak in options.peaks),
    )
    for option, value in option_values:
        arguments += [option, value] if value else []
    return arguments


def _diff(screen: CompareScreen) -> list[str]:
    """Return the command that compares the same sides."""
    comparison, profile_session = screen.explorer.comparison, screen.explorer.profile_session
    if comparison.sides is None:
        raise CommandError("No comparison yet. Press d.")
    files = _files(screen)
    if len(files) != 1:
        raise CommandError("No command: several files are open, and proftui diff compares two.")
    request, is_swapped = comparison.request, comparison.is_swapped
    kind, *numbers = request.split()
    shown_range = profile_session.aggregation.text.partition(" ")[2]
    if kind in ("session", "sessions"):
        first, second = [str(profile_session.session or 0), *numbers][-2:]
        sides = _swapped((["--session", first], ["--session-b", second]), ("--session", "--session-b"), is_swapped)
        arguments = [*files, *sides, *(["--iterations", shown_range] if shown_range else [])]
    elif kind in ("iteration", "iterations"):
        first, second = [shown_range, *numbers][-2:]
        if not first:
            raise CommandError("No command: one side has all iterations, the other only some.")
        pair = (["--iterations", first], ["--iterations-b", second])
        arguments = [*files, *_swapped(pair, ("--iterations", "--iterations-b"), is_swapped)]
        arguments += [] if profile_session.session is None else ["--session", str(profile_session.session)]
    else:
        if is_swapped and (profile_session.session is not None or shown_range):
            raise CommandError("No command for this order: press o to swap the sides.")
        arguments = [_file(request), *files]
        arguments = arguments[::-1] if is_swapped else arguments
        arguments += [] if profile_session.session is None else ["--session-b", str(profile_session.session)]
        arguments += ["--iterations-b", shown_range] if shown_range else []
    if profile_session.aggregation.key:
        arguments.append(f"--key={profile_session.aggregation.key}")
    pane = screen.first_table
    selection = _selection(pane)
    if pane is not None and (pane.spec is not HEADLINE or selection):
        name = "figures" if pane.spec is HEADLINE else pane.spec.name.removeprefix("changed_")
        arguments += ["--frame", name, *selection]
    arguments += ["--tolerant"] if screen.is_tolerant else []
    options = screen.explorer.options
    peaks = [kind for peak in options.peaks for kind in ("--peak", peak)]
    return ["diff", *arguments, *(["--gpu", options.gpu] if options.gpu else []), *peaks]


def _swapped(pair: tuple[list[str], list[str]], names: tuple[str, str], is_swapped: bool) -> list[str]:
    (_, first), (_, second) = pair
    first, second = (second, first) if is_swapped else (first, second)
    return [names[0], first, names[1], second]


def _log_lines(screen: LogScreen) -> str:
    """Return the shell command that prints the visible lines: the log is the file itself."""
    source, first, last = screen.shown_lines
    path = Path(source)
    if not path.is_file():
        raise CommandError("No command: this log is not a file that can be read again.")
    with path.open("rb") as file:
        first_bytes = file.read(6)
    if first_bytes.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CommandError("No command: this log is UTF-16.")
    decompressor = next((name for magic, name in _DECOMPRESSORS.items() if first_bytes.startswith(magic)), "")
    lines = shlex.quote(f"{first},{last}p")
    if decompressor:
        return f"{decompressor} {shlex.quote(_file(source))} | sed -n {lines}"
    return f"sed -n {lines} {shlex.quote(_file(source))}"
