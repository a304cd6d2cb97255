"""Details of things as text: labels at the left, values at the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from textual.content import Content
from textual.widget import Widget

from tui.fmt import column_unit, format_value, metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.text import plain
from tui.widgets.ascii_text import in_ascii

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.geometry import Size

    from tui.model.view import TableSpec

Line = tuple[str, str, str]
"""Label, value, note (dim)."""
LABEL_GAP: Final = 2
"""Cells between the longest label and the values."""
VALUE_LEAST: Final = 20
"""With fewer cells than this beside the labels, what does not fit goes on below them."""


@dataclass(frozen=True, slots=True)
class Details:
    """Lines of text, each with the cells that its continuation is indented by where it has to be wrapped."""

    lines: tuple[tuple[int, Content], ...]

    def wrapped(self, width: int) -> list[Content]:
        """The lines in so many cells.

        >>> sections([("", [("name", "a long value", "")])]).wrapped(26)[0].plain
        'name  a long value'
        >>> [line.plain for line in sections([("", [("name", "some words and more words", "")])]).wrapped(26)]
        ['name  some words and more', '      words']
        """
        wrapped: list[Content] = []
        for indent, line in self.lines:
            if width - indent < VALUE_LEAST:
                wrapped += line.wrap(max(1, width))
                continue
            first, *rest = line[indent:].wrap(width - indent)
            wrapped += [line[:indent] + first, *(part.pad_left(indent) for part in rest)]
        return wrapped


def sections(parts: Iterable[tuple[str, Sequence[Line]]]) -> Details:
    """Headed blocks of lines, labels aligned throughout."""
    blocks = [(heading, list(lines)) for heading, lines in parts if lines]
    width = max((len(label) for _, lines in blocks for label, _, _ in lines), default=0) + LABEL_GAP
    text: list[tuple[int, Content]] = []
    for number, (heading, lines) in enumerate(blocks):
        if heading:
            text += [(0, Content(""))] if number else []
            text.append((0, Content.styled(plain(heading), "bold $accent")))
        for label, value, note in lines:
            beside = [(f"  {plain(note)}", "$text-muted")] if note else []
            text.append((width, Content.assemble((label.ljust(width), "$text-muted"), plain(value), *beside)))
    return Details(tuple(text))


def below_note(text: str, origin: str, details: Details) -> Details:
    """Details below what the user wrote.

    Args:
        text: What they wrote, of one line or more.
        origin: When they did.
        details: The details.
    """
    first, *rest = text.splitlines() or [""]
    note = sections([("", [("Note", first, ""), *(("", line, "") for line in rest), ("Written", origin, "")])])
    return Details((*note.lines, (0, Content("")), *details.lines))


class DetailText(Widget):
    """Shows details; what has to be wrapped stays in the column of the values."""

    DEFAULT_CSS = """
    DetailText { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._details = Details(())

    def show(self, details: Details) -> None:
        """Show other details."""
        self._details = details
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as it takes."""
        return len(self._details.wrapped(width))

    def render(self) -> Content:
        """The lines."""
        lines = self._details.wrapped(self.content_size.width)
        if getattr(self.app, "ascii_only", False):
            lines = [in_ascii(line) for line in lines]
        return Content("\n").join(lines)


def whole_value(kind: ColumnKind, value: object) -> str:
    """A value by itself, with all the digits that its kind is told apart by."""
    largest = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    return format_value(kind, value, unit=column_unit(kind, largest) if kind is ColumnKind.TIME else None)


def row_details(
    spec: TableSpec, row: Mapping[str, Any], *, frame_columns: Sequence[str], more: Sequence[Line] = ()
) -> Details:
    """Every value of a row, whole, with the columns that the table does not show after those that it does.

    What is no column for people, as the number of the row around a row, is left out.

    Args:
        spec: The table.
        row: The row.
        frame_columns: All columns of its frame.
        more: What else is to be said of it, right below its first value.
    """
    titled = {**COLUMNS, **{column.name: column for column in spec.columns}}
    shown = [column.name for column in spec.columns]
    others = [name for name in frame_columns if name not in shown and name in titled]
    lines: list[Line] = []
    for name in [*shown, *others]:
        column = titled[name]
        value = row.get(name)
        if name in others and value is None:
            continue
        if value is None and column.absent:
            text = column.absent
        elif column.kind is ColumnKind.MEASURE:
            text = metric(value, row.get("unit"))
        else:
            text = whole_value(column.kind, value)
        lines.append((column.title, text, ""))
    return sections([("", [*lines[:1], *more, *lines[1:]])])
