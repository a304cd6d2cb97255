"""Details of things as text: labels at the left, values at the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content

from tui.fmt import column_unit, format_value, metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tui.model.view import TableSpec

Line = tuple[str, str, str]
"""Label, value, note (dim)."""


def sections(parts: Iterable[tuple[str, Sequence[Line]]]) -> Content:
    """Headed blocks of lines, labels aligned throughout."""
    blocks = [(heading, list(lines)) for heading, lines in parts if lines]
    width = max((len(label) for _, lines in blocks for label, _, _ in lines), default=0)
    pieces: list[Content | str | tuple[str, str]] = []
    for number, (heading, lines) in enumerate(blocks):
        if heading:
            pieces.append((("\n\n" if number else "") + plain(heading), "bold $accent"))
        for position, (label, value, note) in enumerate(lines):
            if heading or number or position:
                pieces.append("\n")
            pieces += [(label.ljust(width + 2), "$text-muted"), plain(value)]
            if note:
                pieces.append((f"  {plain(note)}", "$text-muted"))
    return Content.assemble(*pieces)


def whole_value(kind: ColumnKind, value: object) -> str:
    """A value by itself, with all the digits that its kind is told apart by."""
    largest = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    return format_value(kind, value, unit=column_unit(kind, largest) if kind is ColumnKind.TIME else None)


def row_details(spec: TableSpec, row: Mapping[str, Any], *, frame_columns: Sequence[str]) -> Content:
    """Every value of a row, whole, with the columns that the table does not show after those that it does."""
    shown = [column.name for column in spec.columns]
    others = [name for name in frame_columns if name not in shown and not name.startswith("_")]
    lines: list[Line] = []
    for name in [*shown, *others]:
        column = COLUMNS.get(name)
        value = row.get(name)
        if name in others and value is None:
            continue
        kind = column.kind if column is not None else ColumnKind.TEXT
        text = metric(value, row.get("unit")) if kind is ColumnKind.MEASURE else whole_value(kind, value)
        lines.append((column.title if column is not None else name, text, ""))
    return sections([("", lines)])
