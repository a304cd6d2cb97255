"""Expert Systems: findings with cost and advice, rules that do not apply and why, and clean rules."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual import on, work
from textual.content import Content
from textual.widgets import Static

from tui.analysis.critical_path import critical_paths
from tui.analysis.critical_path_slack import critical_path, half_as_long
from tui.analysis.expert.finding_text import duration as brief_duration
from tui.analysis.expert.finding_text import percent as sentence_percent
from tui.analysis.expert.findings import OURS, findings, names_in_evidence
from tui.analysis.expert.findings_table import (
    EVERY_FINDING,
    EXPERT,
    FOLDED,
    FOLDED_TABLE,
    IDLE_RULES,
    SAME_CAUSE,
    UNFOLDED,
    expert_rows,
    longest_finding_gap,
    spec_for,
)
from tui.analysis.expert.rule import State
from tui.fmt import duration, percent, rate, size
from tui.keys import Scope, bindings_for
from tui.model.columns import COLUMNS
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.critical_path import path_sentence
from tui.screens.dashboard.entries import Link
from tui.screens.tabs import TabbedTables
from tui.text import plain
from tui.text_width import clip_middle
from tui.views import view
from tui.widgets.details import DetailPane, Details, full_value, sections
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual.widget import Widget

    from tui.model.profile import Profile
    from tui.widgets.details import Details, Line


NAME_CELLS: Final = 60
"""The width of a name among the rows."""
MAX_SAVINGS: Final = 3
"""The number of kernels or ops whose savings are listed."""
FILTER_CELLS: Final = 100
"""The maximum width of a filter in a message; the filter line shows it whole."""

_FORMATS_BY_SUFFIX: Final[tuple[tuple[str, Callable[[Any], str]], ...]] = (
    ("_ns", duration),
    ("_pct", percent),
    ("bytes", lambda value: size(int(value))),
    ("rate", rate),
    ("ceiling", rate),
    ("bandwidth", rate),
)
"""The format of a figure, by the suffix of its name."""


def finding_details(row: Mapping[str, Any], path: Sequence[Line] = ()) -> Details:
    """Return the details of a row of Expert Systems.

    Args:
        row: A row of `tui.analysis.expert.findings.expert_rows`.
        path: The result of `path_lines`.
    """
    if row["state"] == State.FOUND.value:
        # Last, because it may arrive later: no line that is being read moves.
        return sections([*_finding_sections(row), ("Critical path", list(path))])
    if row["state"] == FOLDED:
        lines: list[Line] = [
            (row["verdict"].capitalize(), row["all_rules"], ""),
            ("Enter", "shows or hides them", ""),
        ]
        return sections([("", lines)])
    state = "Not applicable" if row["state"] == State.NOT_APPLICABLE.value else "Clean"
    lines_about: list[Line] = [(state, row["message"], ""), ("Rules", row.get("all_rules") or row["rules"], "")]
    if row["title"] and row["state"] == State.CLEAN.value:
        lines_about.append(("Looks for", row["title"], ""))
    return sections([("", [*lines_about, *_figures(row["numbers"])]), ("Thresholds", _thresholds(row))])


def _finding_sections(row: Mapping[str, Any]) -> list[tuple[str, list[Line]]]:
    ours = row["tool"] == OURS
    summary: list[Line] = [("Problem", row["problem"] or "", ""), ("Fix", row["recommendation"] or "", "")]
    if row["cost_ns"] is not None:
        share = f" ({sentence_percent(row['cost_pct'])} of {row['cost_of']})" if row["cost_pct"] is not None else ""
        summary.append(("Costs", f"at most {duration(row['cost_ns'])}{share}", row["cost_basis"] or ""))
    elif row["cost_basis"] not in (None, "", "none"):
        summary.append(("Costs", "unknown", row["cost_basis"]))
    if row["cause"]:
        other_rules = (row.get("all_rules") or "").split()[1:]
        summary.append(("Cause", row["cause"], f"also found by {', '.join(other_rules)}" if other_rules else ""))
    if not ours:
        summary.append(("Source", row["tool"] or "", "the advisor of the profiler"))
    rule = f"{row['rule']} {row['name']}" if row["rule"] else ""
    summary += [*_figures(row["numbers"]), *_key_lines(row)]
    rule_lines: list[Line] = [("Rule", rule, row["title"] or "")] if rule else []
    rule_lines += [("Documentation", row["link"], "")] if row["link"] else []
    return [
        ("", summary),
        ("Thresholds", _thresholds(row)),
        ("Evidence", _evidence(row["evidence"])),
        ("Rule", rule_lines),
    ]


def path_lines(profile: Profile, row: Mapping[str, Any], work: pl.DataFrame) -> list[Line]:
    """Return the time that an iteration would save if the work of a finding took half as long, by its critical path.

    Args:
        profile: The shown profile.
        row: A finding of a rule.
        work: The result of `critical_path` for the finding's session.
    """
    if work.is_empty():
        return []
    iteration = (pl.col(name) == work[name][0] for name in ("session", "iteration"))
    lines: list[Line] = [
        ("Step", path_sentence(profile, critical_paths(profile).filter(*iteration).row(0, named=True)), "")
    ]
    halved = half_as_long(work, names_in_evidence(row))
    if halved.height and not halved["path_ns"].sum():
        lines.append(("Half of it", "saves nothing in this iteration: the work is not on its critical path", ""))
    for name, saved, work_ns in (
        halved.filter(pl.col("path_ns") > 0, pl.col("half_saves_ns") > 0)
        .head(MAX_SAVINGS)
        .select("name", "half_saves_ns", "work_ns")
        .iter_rows()
    ):
        label = clip_middle(short_name(name), NAME_CELLS)
        lines.append(("Half of it", f"{label}: saves {brief_duration(saved)} of its {brief_duration(work_ns)}", ""))
    return lines


def _key_lines(row: Mapping[str, Any]) -> list[Line]:
    """Return the keys of the row, with their targets."""
    lines: list[Line] = []
    is_idle = row["rule"] in IDLE_RULES
    if is_idle:
        lines.append(("enter", "opens the longest gaps in the timeline", ""))
    if row["view"]:
        title = view(row["view"]).title
        lines.append(("t" if is_idle else "enter", f"opens {title}", clip_middle(row["filter"] or "", FILTER_CELLS)))
    return lines


def _figures(numbers: str | None) -> list[Line]:
    """Return the figures one after the other, which leaves room for the lines below."""
    lines = [f"{_label(name)} {figure_text(name, value)}" for name, value in json.loads(numbers or "{}").items()]
    return [("Metrics", ", ".join(lines), "")] if lines else []


def _thresholds(row: Mapping[str, Any]) -> list[Line]:
    return [
        (_label(limit["name"]), _threshold(limit["name"], limit["value"]), f"{limit['meaning']}; {limit['source']}")
        for limit in json.loads(row["thresholds"] or "[]")
    ]


def _evidence(evidence: str | None) -> list[Line]:
    lines: list[Line] = []
    for number, row in enumerate(json.loads(evidence or "[]"), 1):
        named = [
            f"{prefix}{clip_middle(short_name(str(row[key])), NAME_CELLS)}"
            for key, prefix in (("name", ""), ("after", "before "))
            if row.get(key)
        ]
        figures = [
            f"{_label(key)} {figure_text(key, value)}"
            for key, value in row.items()
            if key not in ("name", "after") and value is not None
        ]
        lines.append((str(number), "  ".join([*named, ", ".join(figures)]), ""))
    return lines


_ABBREVIATIONS: Final = frozenset({"api", "cpu", "dram", "gpu", "pid", "sm", "tc", "tid"})


def _label(name: str) -> str:
    """Return the label of a figure.

    >>> _label("busy_pct"), _label("share_pct"), _label("longest_ns"), _label("dram_pct")
    ('busy share', 'share', 'longest', 'DRAM share')
    """
    for suffix in ("_ns", "_bytes"):
        name = name.removesuffix(suffix)
    words = re.sub("(_share)?_pct$", "_share", f"_{name}").strip("_").split("_")
    return " ".join(word.upper() if word in _ABBREVIATIONS else word for word in words)


def _threshold(name: str, value: float) -> str:
    """Format a threshold, as ``50%`` or ``1 ms``."""
    if name.endswith("_ns"):
        return brief_duration(value)
    return f"{value:g}%" if name.endswith("_pct") else figure_text(name, value)


def figure_text(name: str, value: object) -> str:
    """Format a figure by the unit at the end of its name.

    >>> figure_text("busy_pct", 73.16), figure_text("idle_ns", 1500), figure_text("compute", None)
    ('73.16%', '1.500 µs', '?')
    """
    if value is None:
        return "?"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in COLUMNS and not name.endswith(("_ns", "_pct")):
            return full_value(COLUMNS[name].kind, value)
        for suffix, write in _FORMATS_BY_SUFFIX:
            if name.endswith(suffix):
                return write(value)
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    return str(value)


NO_RULE: Final = "no rule applies to this input"


class ExpertSystemsScreen(ViewScreen):
    """One row per cause; other findings, inapplicable rules and clean rules are one row each."""

    VIEW = "expert-systems"
    BINDINGS: ClassVar = bindings_for(Scope.EXPERT)
    HELP: ClassVar = (
        "One finding per cause, the largest possible saving first. Other findings, clean rules and rules that do not "
        "apply are folded.\nCosts are upper bounds, and overlap. i shows metrics, thresholds and evidence.\nenter "
        "opens the rows behind a finding; for idle time, the longest gaps in the timeline (t: the rows).\nYou can "
        "change thresholds and severities in rules.toml."
    )

    DEFAULT_CSS = """
    ExpertSystemsScreen #whole-finding { display: none; height: 5; padding: 0 1; background: $surface; }
    ExpertSystemsScreen.-narrow #whole-finding { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._table_shown = FOLDED_TABLE
        self._paths: dict[int | None, pl.DataFrame] = {}
        """The critical path that findings of `_paths_profile` are about, by session."""
        self._paths_profile: Profile | None = None

    def compose_body(self) -> Iterable[Widget]:
        """Yield the table, and below it the finding under the cursor if there is no room for all details."""
        pane = TablePane(EXPERT, id="table")
        # The severity comes first; the sentence has the remaining width.
        pane.model.state = replace(pane.model.state, name_last=True)
        yield pane
        yield Static(id="whole-finding")

    @property
    def table_shown(self) -> str:
        """The shown table: a row for each cause, each finding or each rule."""
        return self._table_shown

    def rows(self) -> pl.DataFrame:
        """Return the findings."""
        return expert_rows(
            findings(self.profile),
            every_finding=self._table_shown == EVERY_FINDING,
            unfolded=self._table_shown == UNFOLDED,
        )

    def populate(self) -> None:
        """Fill the table."""
        pane = self.query_one("#table", TablePane)
        rows = self.rows()
        pane.show(rows, empty=NO_RULE if rows.is_empty() else "", spec=spec_for(self.profile))
        pane.focus_table()

    def show_only(self, query: str) -> None:
        """Show only the rows of a filter, also those that are folded."""
        if query and self._table_shown != UNFOLDED:
            self._table_shown = UNFOLDED
            self.populate()
        super().show_only(query)

    @on(TablePane.RowHighlighted)
    def _show_full_finding(self, event: TablePane.RowHighlighted) -> None:
        row = event.row or {}
        parts = [Content(plain(str(row.get("message") or "")))]
        if advice := row.get("recommendation"):
            parts.append(Content.assemble(("Do: ", "$text-muted"), plain(str(advice))))
        # Its height is fixed.
        self.query_one("#whole-finding", Static).update(Content("\n").join(parts), layout=False)

    def opens_details(self, pane: TablePane) -> bool:
        """Return True: details explain the findings."""
        return True

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return everything about a finding; the result of the critical path follows when it is known."""
        if row["state"] != State.FOUND.value or row["tool"] != OURS or row["cost_ns"] is None:
            return finding_details(row)
        if self._paths_profile is not self.profile:
            self._paths, self._paths_profile = {}, self.profile
        path = self._paths.get(row["session"])
        if path is None:
            # After the picture of the details, which a working thread would delay.
            self.call_after_refresh(self._find_path, self.profile, row["session"])
        return finding_details(row, () if path is None else path_lines(self.profile, row, path))

    @work(thread=True, exclusive=True, group="path", description="path")
    def _find_path(self, profile: Profile, session: int | None) -> None:
        self.app.call_from_thread(self._show_path, profile, session, critical_path(profile, session))

    def _show_path(self, profile: Profile, session: int | None, path: pl.DataFrame) -> None:
        if self.is_attached and profile is self._paths_profile:
            self._paths[session] = path
            if path.height:
                self.show_details_again()

    def open_row(self, pane: TablePane, row: dict[str, Any]) -> None:
        """Go to the rows behind a finding, or show the clean rules; else open the details."""
        if row["state"] == FOLDED:
            unfolded = EVERY_FINDING if row["verdict"] == SAME_CAUSE else UNFOLDED
            self._table_shown = (
                unfolded
                if self._table_shown in (FOLDED_TABLE, EVERY_FINDING) and self._table_shown != unfolded
                else FOLDED_TABLE
            )
            self.populate()
        elif row["rule"] in IDLE_RULES and row["state"] == State.FOUND.value and self._is_available("timeline"):
            self._go_to_gaps(row)
        elif row["state"] == State.FOUND.value and self._is_available(row["view"]):
            self._go_to_rows(row)
        elif not self.query_one(DetailPane).is_open:
            super().open_row(pane, row)

    def action_show_rows(self) -> None:
        """Go to the rows behind a finding."""
        row: dict[str, Any] | None = self.query_one("#table", TablePane).current_row
        if row is not None and row["state"] == State.FOUND.value and self._is_available(row["view"]):
            self._go_to_rows(row)
        else:
            self.explorer.say("This finding has no rows. i shows details.")

    @on(TablePane.TimelineRequested)
    def _show_on_timeline(self, event: TablePane.TimelineRequested) -> None:
        """Show the first row behind a finding in the timeline."""
        event.prevent_default()
        row: dict[str, Any] = event.row
        gap = longest_finding_gap(row)
        if not self._is_available("timeline"):
            self.explorer.say("Start times are not recorded.")
        elif row["state"] != State.FOUND.value:
            self.explorer.say("Only findings are shown in the timeline.")
        elif gap is not None:
            Link("timeline", gap=gap).go(self.explorer)
        elif row["rule"] in IDLE_RULES:
            self._go_to_gaps(row)
        else:
            self.explorer.say("This finding has no single place in time. Enter opens its rows.")

    def _go_to_rows(self, row: Mapping[str, Any]) -> None:
        self.explorer.go(row["view"], lambda screen: _show_only(screen, row["part"], row["filter"] or ""))

    def _go_to_gaps(self, row: Mapping[str, Any]) -> None:
        self.explorer.go("timeline", lambda screen: _list_gaps(screen, row))

    def _is_available(self, view: str | None) -> bool:
        return view is not None and self.explorer.navigator.availability.get(view, "ok") == "ok"


def _list_gaps(screen: ViewScreen, row: Mapping[str, Any]) -> None:
    from tui.screens.timeline import TimelineScreen

    assert isinstance(screen, TimelineScreen)
    screen.show_longest_gaps(row["session"], longest_finding_gap(row))


def _show_only(screen: ViewScreen, part: str | None, query: str) -> None:
    """Show the first table of a view or part with the rows of a filter."""
    if part is not None and isinstance(screen.body, TabbedTables):
        screen.show_only("")
        screen.body.show_tab(part)
        screen.body.tables.pane(0).set_filter(query)
    elif screen.table is not None:
        screen.show_only(query)
