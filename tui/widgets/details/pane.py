"""The details pane: everything about the row under the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.fmt import column_unit, format_value, metric
from tui.model.columns import COLUMNS, ColumnKind
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size

    from tui.model.table_spec import TableSpec


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
        return Content("\n").join(self._details.wrapped(self.content_size.width))


def whole_value(kind: ColumnKind, value: object) -> str:
    """A value by itself, with all the digits that its kind is distinguished by."""
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
        more: Further lines, right below its first value.
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


class DetailPane(VerticalScroll):
    """Beside the table on a wide screen, below it on a normal one, instead of it on a narrow one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll_down", ""),
        ("k", "scroll_up", ""),
        ("g", "scroll_home", ""),
        ("G", "scroll_end", ""),
        ("i", "app.undo_smallest", "close"),
    ]

    DEFAULT_CSS = """
    DetailPane { display: none; padding: 0 1; background: $surface; }
    DetailPane.-open { display: block; }
    """

    class Uncovered(Message):
        """The pane hides the tables no longer: they can have the keys again."""

    def compose(self) -> ComposeResult:
        """One block of text."""
        yield DetailText(id="detail-text")

    def on_resize(self) -> None:
        """Take the keys where the pane hides now what had them, and give them back where it no longer does."""
        if self.is_open:
            # What is hidden loses the focus after this.
            self.call_after_refresh(self._pass_focus)

    def _pass_focus(self) -> None:
        if self.screen.has_class("-narrow"):
            if self.screen.focused is None:
                self.focus()
        elif self.screen.focused in (None, self):
            self.post_message(self.Uncovered())

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def open(self, details: Details) -> None:
        """Show the pane."""
        self.show(details)
        self.add_class("-open")
        self._mark_screen(is_open=True)
        self.scroll_home(animate=False)
        if self.screen.has_class("-narrow"):
            self.focus()

    def show(self, details: Details) -> None:
        """Show another text."""
        self.query_one("#detail-text", DetailText).show(details)

    def close(self) -> None:
        """Hide the pane."""
        self.remove_class("-open")
        self._mark_screen(is_open=False)

    def _mark_screen(self, *, is_open: bool) -> None:
        # Textual would look up the styles of all widgets of the screen: only these have others beside details.
        self.screen.set_class(is_open, "-detail", update=False)
        self.app.stylesheet.update_nodes(self.screen.query("#body, TablePane.linked"))
