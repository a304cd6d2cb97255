"""A finding with everything that speaks for it: figures, thresholds, cost, rows, and what to do."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.expert.findings import OURS
from tui.analysis.expert.findings_table import FOLDED, gap_of
from tui.analysis.expert.rule import State
from tui.analysis.expert.words import duration as brief_duration
from tui.analysis.expert.words import percent as brief_percent
from tui.fitting import clip_middle
from tui.fmt import duration, percent, rate, size
from tui.model.columns import COLUMNS
from tui.model.names import short_name
from tui.views import view
from tui.widgets.details.pane import Details, sections, whole_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.widgets.details.pane import Line

NAME_SHOWN: Final = 60
"""Cells of a name among the rows."""
FILTER_SHOWN: Final = 100
"""Cells of a filter: where it is used, it is there in full."""

_BY_ENDING: Final[tuple[tuple[str, Callable[[Any], str]], ...]] = (
    ("_ns", duration),
    ("_pct", percent),
    ("bytes", lambda value: size(int(value))),
    ("rate", rate),
    ("ceiling", rate),
    ("bandwidth", rate),
)
"""How a figure is written, by the end of its name."""


def finding_details(row: Mapping[str, Any]) -> Details:
    """What is known of a row of the Expert Systems view.

    Args:
        row: Of `tui.analysis.expert.findings_table.expert_rows`.
    """
    if row["state"] == State.FOUND.value:
        return sections(_found(row))
    if row["state"] == FOLDED:
        told: list[Line] = [
            (row["verdict"].capitalize(), row["all_rules"], ""),
            ("Enter", "shows or hides each of them", ""),
        ]
        return sections([("", told)])
    state = "Not applicable" if row["state"] == State.NOT_APPLICABLE.value else "Clean"
    about: list[Line] = [(state, row["message"], ""), ("Rules", row.get("all_rules") or row["rules"], "")]
    if row["title"] and row["state"] == State.CLEAN.value:
        about.append(("Looks for", row["title"], ""))
    return sections([("", [*about, *_figures(row["numbers"])]), ("Thresholds", _thresholds(row))])


def _found(row: Mapping[str, Any]) -> list[tuple[str, list[Line]]]:
    ours = row["tool"] == OURS
    about: list[Line] = [("Problem", row["problem"] or "", ""), ("Do", row["recommendation"] or "", "")]
    if row["cost_ns"] is not None:
        share = f" ({brief_percent(row['cost_pct'])} of the time)" if row["cost_pct"] is not None else ""
        about.append(("Costs", f"at most {duration(row['cost_ns'])}{share}", row["cost_basis"] or ""))
    elif row["cost_basis"]:
        about.append(("Costs", "unknown", row["cost_basis"]))
    if row["cause"]:
        about.append(("Cause", row["cause"], ""))
    if not ours:
        about.append(("Says", row["tool"] or "", "the recording tool's own advisor"))
    rule = f"{row['rule']} {row['name']}" if row["rule"] else ""
    about += [*_figures(row["numbers"]), *_ways(row)]
    more: list[Line] = [("Rule", rule, row["title"] or "")] if rule else []
    more += [("Read more", row["link"], "")] if row["link"] else []
    return [
        ("", about),
        ("Thresholds", _thresholds(row)),
        ("Evidence", _evidence(row["evidence"])),
        ("The rule", more),
    ]


def _ways(row: Mapping[str, Any]) -> list[Line]:
    """Where keys lead to."""
    ways: list[Line] = []
    if gap_of(row) is not None:
        ways.append(("enter", "goes to the longest on the Timeline", ""))
    if row["view"]:
        key = "enter" if gap_of(row) is None else "t"
        ways.append((key, f"goes to {view(row['view']).title}", clip_middle(row["filter"] or "", FILTER_SHOWN)))
    return ways


def _figures(numbers: str | None) -> list[Line]:
    """One after the other: what is read below them would else have no room."""
    told = [f"{_label(name)} {written(name, value)}" for name, value in json.loads(numbers or "{}").items()]
    return [("Figures", ", ".join(told), "")] if told else []


def _thresholds(row: Mapping[str, Any]) -> list[Line]:
    return [
        (_label(limit["name"]), _threshold(limit["name"], limit["value"]), f"{limit['says']}; {limit['source']}")
        for limit in json.loads(row["thresholds"] or "[]")
    ]


def _evidence(evidence: str | None) -> list[Line]:
    lines: list[Line] = []
    for number, row in enumerate(json.loads(evidence or "[]"), 1):
        named = [
            f"{said}{clip_middle(short_name(str(row[key])), NAME_SHOWN)}"
            for key, said in (("name", ""), ("after", "before "))
            if row.get(key)
        ]
        others = [
            f"{_label(key)} {written(key, value)}"
            for key, value in row.items()
            if key not in ("name", "after") and value is not None
        ]
        lines.append((str(number), "  ".join([*named, ", ".join(others)]), ""))
    return lines


def _label(name: str) -> str:
    """The name of a figure in words.

    >>> _label("busy_pct"), _label("share_pct"), _label("longest_ns")
    ('busy share', 'share', 'longest')
    """
    for ending in ("_ns", "_bytes"):
        name = name.removesuffix(ending)
    return re.sub("(_share)?_pct$", "_share", f"_{name}").replace("_", " ").strip()


def _threshold(name: str, value: float) -> str:
    """A threshold as people write it: ``50%``, ``1 ms``."""
    if name.endswith("_ns"):
        return brief_duration(value)
    return f"{value:g}%" if name.endswith("_pct") else written(name, value)


def written(name: str, value: object) -> str:
    """A figure in the unit that the end of its name tells.

    >>> written("busy_pct", 73.16), written("idle_ns", 1500), written("copies", 1678), written("compute", None)
    ('73.16%', '1.500 µs', '1,678', '?')
    """
    if value is None:
        return "?"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in COLUMNS and not name.endswith(("_ns", "_pct")):
            return whole_value(COLUMNS[name].kind, value)
        for ending, write in _BY_ENDING:
            if name.endswith(ending):
                return write(value)
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    return str(value)
