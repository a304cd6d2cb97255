"""Lines of the dashboard's panels: what each shows, where it leads, and its details."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.analysis.dashboard_facts import definition
from tui.fmt import metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.widgets.details.pane import Details, sections, whole_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.screens.dashboard.links import Link
    from tui.widgets.charts.bars import BarRow
    from tui.widgets.details.pane import Line


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a panel."""

    row: BarRow
    link: Link | None = None
    """Where it leads; None: there are no rows behind it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, by the names of columns, for the details."""
    metric: str = ""
    """The figure that it is, where that is not the panel's own."""


def fraction(value: float | None, most: object) -> float | None:
    """The length of a bar; None where it is unknown."""
    return value / most if value is not None and isinstance(most, int | float) and most else None


def aligned(*columns: Sequence[str]) -> list[str]:
    """Figures of several columns as one text a line, each column as wide as its widest."""
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        "  ".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
        for texts in zip(*columns, strict=True)
    ]


def meaning(name: str) -> list[Line]:
    """What a figure means, for the details."""
    known = definition(name)
    return [
        ("Means", known.means, ""),
        ("Formula", known.formula, ""),
        *([("Unit", known.unit, "when exported")] if known.unit else []),
        ("Defined by", known.source, ""),
    ]


def entry_details(entry: Entry, name: str) -> Details:
    """Every value of a line, whole, and what its figure means."""
    lines: list[Line] = [("", entry.row.label, "")]
    for column, value in entry.values.items():
        if value is None:
            continue
        known = COLUMNS.get(column)
        kind = known.kind if known is not None else ColumnKind.TEXT
        text = metric(value, entry.values.get("unit")) if kind is ColumnKind.MEASURE else whole_value(kind, value)
        lines.append((known.title if known is not None else column, text, ""))
    of = entry.metric or name
    return sections([("", lines), *([(definition(of).title, meaning(of))] if of else [])])
