"""Dialogs of one text: the whole of a cell, and a note to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.fmt import count, format_value
from tui.labels import distinct_symbols
from tui.model.columns import ColumnKind
from tui.query.values import BASE_UNIT
from tui.state.notes import length_error
from tui.text import plain
from tui.text_width import bar, cell_width, clip_middle, pad
from tui.widgets.app_services import copy_text
from tui.widgets.details import wrap_names
from tui.widgets.dialogs.base import Dialog, MenuLines
from tui.widgets.input_bars import PlainEditor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size

    from tui.model.columns import Column
    from tui.query.distribution import Distribution, Pivot


class DistributionDialog(Dialog[str]):
    """The distribution of the values of a column, as bars; ``enter`` returns the filter of a line.

    Args:
        column: The column.
        distribution: Its values.
        weight: The column of the sums; None: rows are counted.
    """

    KEYS: ClassVar[str] = "enter filter  X copy command  esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,D", "leave", "Leave"),
        ("X", "app.copy_command", "Copy command"),
        ("j", "step(True)", "Down"),
        ("k", "step(False)", "Up"),
    ]
    DEFAULT_CSS = """
    DistributionDialog {
        & #distribution-summary { padding: 0 0 1 0; height: auto; }
        & MenuLines { height: auto; max-height: 100%; border: none; background: $background; padding: 0; }
        & MenuLines:focus { border: none; }
    }
    """

    def __init__(self, column: Column, distribution: Distribution, weight: Column | None) -> None:
        super().__init__()
        self._column, self._distribution, self._weight = column, distribution, weight
        self.command_options = [f"--values={column.name}"]
        """Options that the command line adds to that of the table, to print this."""

    def compose_body(self) -> ComposeResult:
        """Yield the percentiles, and a line for each value or bin."""
        yield Static(Content(self._distribution.summary), id="distribution-summary")
        lines = distribution_lines(
            self._distribution, self._weight, _line_cells(self.app.size.width), self._column.kind
        )
        yield MenuLines(*(Content.assemble(text, (bar_text, "$bar")) for text, bar_text in lines))

    def on_mount(self) -> None:
        """Show the column on the border."""
        suffix = f", {self._weight.title} of each" if self._weight is not None else ""
        self.query_one(".dialog--box").border_title = Content(f"{self._column.title}: rows{suffix}")

    def on_option_list_option_selected(self, event: MenuLines.OptionSelected) -> None:
        """Return the filter of the chosen line."""
        self.dismiss(self._distribution.bins[event.option_index].query)

    def action_step(self, is_down: bool) -> None:
        """Move down or up."""
        lines = self.query_one(MenuLines)
        (lines.action_cursor_down if is_down else lines.action_cursor_up)()


def _line_cells(screen_width: int) -> int:
    """Return the width of a line within the border and scroll bar of a dialog."""
    return max(30, min(100, screen_width * 9 // 10) - 6)


def _labels(texts: Sequence[str], kind: ColumnKind, width: int) -> list[str]:
    """Fit texts to a width; similar C++ names stay distinct."""
    plain_texts = [plain(text) for text in texts]
    symbols = distinct_symbols(plain_texts, width) if kind is ColumnKind.SYMBOL else {}
    return [pad(symbols.get(text) or clip_middle(text, width), width) for text in plain_texts]


def distribution_lines(
    distribution: Distribution, weight: Column | None, width: int, kind: ColumnKind = ColumnKind.TEXT
) -> list[tuple[str, str]]:
    """Return a line for each value or bin: the value, the rows, the sum of the weight, and a bar.

    Args:
        distribution: The values.
        weight: The column of the sums; None: there are none.
        width: Cells.
        kind: The kind of the values.
    """
    sums = [
        format_value(weight.kind, value_bin.weight) if weight is not None else "" for value_bin in distribution.bins
    ]
    numbers = [count(value_bin.rows) for value_bin in distribution.bins]
    sum_cells, count_cells = max(map(len, sums), default=0), max(map(len, numbers), default=0)
    label_width = min(
        max((cell_width(plain(value_bin.label)) for value_bin in distribution.bins), default=0), max(12, width // 2)
    )
    bar_width = width - label_width - sum_cells - count_cells - 6
    amounts = [value_bin.weight or 0 if weight is not None else value_bin.rows for value_bin in distribution.bins]
    largest = max(amounts, default=0)
    lines = []
    names = _labels([value_bin.label for value_bin in distribution.bins], kind, label_width)
    for name, number, total, amount in zip(names, numbers, sums, amounts, strict=True):
        bar_text = bar(amount / largest, bar_width) if largest > 0 and bar_width > 0 else ""
        lines.append((f"{name}  {number:>{count_cells}}  {total:>{sum_cells}}  ", bar_text))
    return lines


class ColumnDialog(Dialog[str]):
    """Choose one of several columns.

    Args:
        title: The purpose of the choice.
        columns: The columns.
    """

    KEYS: ClassVar[str] = "enter choose  esc cancel"
    BINDINGS: ClassVar[list[BindingType]] = [*DistributionDialog.BINDINGS[:1], *DistributionDialog.BINDINGS[2:]]
    DEFAULT_CSS = """
    ColumnDialog {
        & MenuLines { height: auto; max-height: 100%; border: none; background: $background; padding: 0; }
        & MenuLines:focus { border: none; }
    }
    """

    def __init__(self, title: str, columns: Sequence[Column]) -> None:
        super().__init__()
        self._title_text, self._columns = title, columns

    def compose_body(self) -> ComposeResult:
        """Yield a line for each column."""
        yield MenuLines(*(Content(plain(column.title)) for column in self._columns))

    def on_mount(self) -> None:
        """Show the title on the border."""
        self.query_one(".dialog--box").border_title = Content(self._title_text)

    def on_option_list_option_selected(self, event: MenuLines.OptionSelected) -> None:
        """Return the chosen column."""
        self.dismiss(self._columns[event.option_index].name)

    def action_step(self, is_down: bool) -> None:
        """Move down or up."""
        lines = self.query_one(MenuLines)
        (lines.action_cursor_down if is_down else lines.action_cursor_up)()


class PivotDialog(Dialog[str]):
    """Sums over the values of two columns; ``enter`` returns the filter of a row.

    Args:
        rows_column: The column whose values are the rows.
        columns_column: The column whose values are the columns.
        pivot: The sums.
        weight: The summed column; None: rows are counted.
    """

    KEYS: ClassVar[str] = "enter filter  X copy command  esc close"
    BINDINGS: ClassVar[list[BindingType]] = DistributionDialog.BINDINGS
    DEFAULT_CSS = """
    PivotDialog {
        & #pivot-heading { height: 1; text-style: bold; }
        & MenuLines { height: auto; max-height: 100%; border: none; background: $background; padding: 0; }
        & MenuLines:focus { border: none; }
    }
    """

    def __init__(self, rows_column: Column, columns_column: Column, pivot: Pivot, weight: Column | None) -> None:
        super().__init__()
        self._by, self._across, self._distribution, self._weight = rows_column, columns_column, pivot, weight
        self.command_options = [f"--values={rows_column.name}", f"--across={columns_column.name}"]
        """Options that the command line adds to that of the table, to print this."""

    def compose_body(self) -> ComposeResult:
        """Yield the headings, then a line for each row."""
        width = _line_cells(self.app.size.width)
        heading, *lines = pivot_lines(self._distribution, self._weight, width, self._by.kind)
        yield Static(Content(heading), id="pivot-heading")
        yield MenuLines(*map(Content, lines))

    def on_mount(self) -> None:
        """Show both columns and the sum on the border."""
        subject = "rows" if self._weight is None else self._weight.title
        title = f"{subject} by {self._by.title} and {self._across.title}"
        self.query_one(".dialog--box").border_title = Content(title)

    def on_option_list_option_selected(self, event: MenuLines.OptionSelected) -> None:
        """Return the filter of the chosen row."""
        self.dismiss(self._distribution.rows[event.option_index].query or None)

    def action_step(self, is_down: bool) -> None:
        """Move down or up."""
        lines = self.query_one(MenuLines)
        (lines.action_cursor_down if is_down else lines.action_cursor_up)()


PIVOT_CELLS: Final = 11
"""The width of a column of a pivot table, with a blank before it."""


def pivot_lines(pivot: Pivot, weight: Column | None, width: int, row_kind: ColumnKind = ColumnKind.TEXT) -> list[str]:
    """Return the headings and rows of a pivot; columns that do not fit are counted in the heading.

    Args:
        pivot: The sums.
        weight: The summed column; None: rows are counted.
        width: Cells.
        row_kind: The kind of the values of the rows.
    """
    # Names take the remaining width.
    max_label_width = max(10, width // 3, width - PIVOT_CELLS * (len(pivot.across) + 1))
    label_width = min(max(cell_width(plain(row.label)) for row in pivot.rows), max_label_width)
    if width < label_width + PIVOT_CELLS * (len(pivot.across) + 1):
        label_width = max(label_width, cell_width(f"+{len(pivot.across)} columns"))
    max_columns = max(1, (width - label_width) // PIVOT_CELLS - 1)
    shown = min(max_columns, len(pivot.across))
    omitted = len(pivot.across) - shown
    kind = ColumnKind.COUNT if weight is None else weight.kind

    def cell(text: str) -> str:
        return pad(clip_middle(plain(text), PIVOT_CELLS - 1), PIVOT_CELLS, right=True)

    head = pad(f"+{omitted} columns" if omitted else "", label_width)
    lines = [head + "".join(map(cell, ("all", *pivot.across[:shown])))]
    for name, row in zip(_labels([row.label for row in pivot.rows], row_kind, label_width), pivot.rows, strict=True):
        figures = (format_value(kind, number) for number in (row.total, *row.sums[:shown]))
        lines.append(name + "".join(map(cell, figures)))
    return lines


class NameText(Static):
    """A text of the profile: names that are longer than a line break after a separator, not within a word."""

    def get_content_height(self, _container: Size, _viewport: Size, width: int) -> int:
        """Return the lines that it takes."""
        return len(self._wrapped(width))

    def render(self) -> Content:
        """Return the wrapped lines."""
        return Content("\n").join(self._wrapped(self.content_size.width))

    def _wrapped(self, width: int) -> list[Content]:
        content = self.content
        lines = content.split("\n", allow_blank=True) if isinstance(content, Content) else []
        return [part for line in lines for part in wrap_names(line, max(width, 1))]


class CellDialog(Dialog[None]):
    """Shows the full value of a cell, wrapped, and the meaning of its column.

    Args:
        column: The column.
        text: Its value as it is copied: in full precision and base units.
        displayed: The displayed value, if that differs.
    """

    KEYS: ClassVar[str] = "y copy  esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,v,enter", "leave", "Leave"),
        ("y", "copy", "Copy"),
        ("j,down", "scroll(1)", "Down"),
        ("k,up", "scroll(-1)", "Up"),
    ]
    DEFAULT_CSS = """
    CellDialog {
        & VerticalScroll { height: auto; max-height: 100%; }
        & #cell-help { color: $text-muted; padding: 1 0 0 0; height: auto; }
    }
    """

    def __init__(self, column: Column, text: str, *, displayed: str = "") -> None:
        super().__init__()
        self._column = column
        self._text = text
        self._shown = displayed

    def compose_body(self) -> ComposeResult:
        """Yield the text, then the column's definition."""
        with VerticalScroll():
            if self._shown and self._shown != self._text:
                yield Static(Content(self._shown), id="cell-shown")
            # Line ends of the text are kept here.
            lines = [plain(line) for line in self._text.splitlines()]
            unit = BASE_UNIT.get(self._column.kind, "") if self._text else ""
            yield NameText(Content(f"{chr(10).join(lines)} {unit}".rstrip() or " "), id="cell-text")
        if self._column.help:
            yield Static(Content(f"{self._column.title}: {self._column.help}"), id="cell-help")

    def on_mount(self) -> None:
        """Show the column on the border."""
        self.query_one(".dialog--box").border_title = Content(self._column.title)

    def action_copy(self) -> None:
        """Copy the text as it is in the input."""
        self.notify(copy_text(self.app, self._text), markup=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class NoteEditor(PlainEditor):
    """An editor of a few lines; ``enter`` accepts them.

    Args:
        text: The initial text.
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "keep", priority=True),
        # Terminals distinguish ctrl+j from enter, unlike enter with any other modifier.
        Binding("ctrl+j", "new_line", "new line", priority=True),
    ]
    DEFAULT_CSS = """
    NoteEditor { height: auto; min-height: 4; max-height: 14; border: none; padding: 0; }
    NoteEditor:focus { border: none; }
    """

    class Accepted(Message):
        """The user accepted the text."""

    def __init__(self, text: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(text, placeholder="type a note", id=id)

    def on_mount(self) -> None:
        """Put the cursor at the end of the text."""
        self.move_cursor(self.document.end)

    def action_keep(self) -> None:
        """Accept the text."""
        self.post_message(self.Accepted())

    def action_new_line(self) -> None:
        """Begin a new line."""
        self.insert("\n")


class NoteDialog(Dialog[str]):
    """Asks for the text of a note; an empty text deletes it.

    Args:
        row_title: The title of the row.
        text: The current note.
        message: A sentence about the current note.
    """

    TITLE_TEXT: ClassVar[str] = "Note"
    KEYS: ClassVar[str] = "enter save  ctrl+j new line  esc cancel"
    DEFAULT_CSS = """
    NoteDialog {
        & #note-row { color: $text-muted; height: auto; max-height: 3; padding: 0 0 1 0; }
        & #note-about { color: $text-muted; height: auto; padding: 1 0 0 0; }
        & #note-about.-wrong { color: $error; text-style: bold; }
    }
    """

    def __init__(self, row_title: str, text: str, message: str) -> None:
        super().__init__()
        self._row = row_title
        self._text = text
        self._about = message

    def compose_body(self) -> ComposeResult:
        """Yield the row, the text, and a sentence about it."""
        yield NameText(Content(plain(self._row)), id="note-row")
        # The text may contain control characters if another program wrote it.
        yield NoteEditor("\n".join(plain(line) for line in self._text.splitlines()), id="note-text")
        yield Static(Content(plain(self._about)), id="note-about")

    @on(NoteEditor.Accepted)
    def _keep(self) -> None:
        text = self.query_one(NoteEditor).text
        if error := length_error(text.strip()):
            message = self.query_one("#note-about", Static)
            message.add_class("-wrong")
            message.update(Content(error))
            return
        self.dismiss(text)
