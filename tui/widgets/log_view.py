"""The input itself, line by line, with the lines marked that rows came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rich.cells import set_cell_size
from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.fitting import ELLIPSIS, cell_width
from tui.keys import Scope, bindings_for
from tui.text import plain

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.style import Style
    from textual import events
    from textual.binding import BindingType

    from tui.model.profile import LogText

MAX_WIDTH = 5_000
"""Cells of a line that can be scrolled to; the rest is said to be there."""


class LogView(ScrollView, can_focus=True):
    """Any number of lines, of which only those on the screen are read.

    The gutter holds the line's number and ``•`` where a row came from it, ``!`` where it is in the list of issues.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for(Scope.LOG)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "logview--gutter",
        "logview--parsed",
        "logview--issue",
        "logview--cursor",
        "logview--match",
        "logview--foreign",
    }
    DEFAULT_CSS = """
    LogView {
        background: $background;
        scrollbar-size-horizontal: 0;
        & > .logview--gutter { color: $text-muted; }
        & > .logview--parsed { color: $foreground; }
        & > .logview--foreign { color: $text-muted; }
        & > .logview--issue { color: $warning; text-style: bold; }
        & > .logview--match { text-style: bold underline; color: $accent; }
        & > .logview--cursor { text-style: reverse; }
    }
    """

    cursor_line: reactive[int] = reactive(1)
    """The line under the cursor, from 1."""

    class LineHighlighted(Message):
        """The cursor came to a line."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._text: LogText | None = None
        self._parsed: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        self._issues: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        self._needle = ""
        self._page: tuple[int, list[str]] = (0, [])

    def show(self, text: LogText, parsed: npt.NDArray[np.uint32], issues: npt.NDArray[np.uint32]) -> None:
        """Show a text.

        Args:
            text: Its lines.
            parsed: Lines that rows came from, in order.
            issues: Lines that issues are about, in order.
        """
        self._text, self._parsed, self._issues = text, parsed, issues
        self._page = (0, [])
        self._gutter = len(f"{text.line_count:,}") + 3
        self.virtual_size = Size(MAX_WIDTH, text.line_count)
        self.cursor_line = min(self.cursor_line, max(1, text.line_count))
        self.refresh()

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        return self._text.line_count if self._text is not None else 0

    @property
    def parsed_lines(self) -> npt.NDArray[np.uint32]:
        """Lines that rows came from, in order."""
        return self._parsed

    @property
    def issue_lines(self) -> npt.NDArray[np.uint32]:
        """Lines that issues are about, in order."""
        return self._issues

    def highlight_matches(self, needle: str) -> None:
        """Underline a text wherever it stands; empty: nowhere."""
        self._needle = needle
        self.refresh()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def _line_text(self, number: int) -> str:
        """A line of the text, read a page at a time."""
        first, page = self._page
        if not first <= number < first + len(page):
            assert self._text is not None
            first = max(1, number - 50)
            page = self._text.lines(first, max(150, self.size.height * 3))
            self._page = (first, page)
        index = number - first
        return page[index] if index < len(page) else ""

    @staticmethod
    def _is_in(lines: npt.NDArray[np.uint32], number: int) -> bool:
        index = int(np.searchsorted(lines, number))
        return index < len(lines) and int(lines[index]) == number

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number = int(self.scroll_offset.y) + y + 1
        width = self.size.width
        if self._text is None or number > self._text.line_count:
            return Strip.blank(width, self.rich_style)
        parsed, issue = self._is_in(self._parsed, number), self._is_in(self._issues, number)
        mark = "!" if issue else "•" if parsed else " "
        base = self.get_component_rich_style("logview--parsed" if parsed or issue else "logview--foreign", partial=True)
        cursor = number == self.cursor_line
        gutter = self.get_component_rich_style("logview--gutter", partial=True)
        mark_style = self.get_component_rich_style("logview--issue" if issue else "logview--parsed", partial=True)
        head = [Segment(f"{number:>{self._gutter - 3},} ", gutter), Segment(mark + " ", mark_style)]
        goes_on = Segment(ELLIPSIS, gutter)
        strip = Strip.join([Strip(head, self._gutter), self._visible(number, width - self._gutter, base, goes_on)])
        if cursor:
            strip = strip.apply_style(self.get_component_rich_style("logview--cursor", partial=True))
        return strip.apply_style(self.rich_style) if not cursor else strip

    def _visible(self, number: int, room: int, base: Style, goes_on: Segment) -> Strip:
        """What there is room for of a line, with a sign at each end beyond which it goes on."""
        room, left = max(0, room), int(self.scroll_offset.x)
        line = plain(self._line_text(number).expandtabs(8))
        text = line[left:]
        strip = Strip(self._with_matches(set_cell_size(text, room), base), room)
        sign = Strip([goes_on], 1)
        if cell_width(text) > room > 0:
            strip = Strip.join([strip.crop(0, room - 1), sign])
        if left and line and room > 1:
            strip = Strip.join([sign, strip.crop(1, room)])
        return strip

    def _with_matches(self, text: str, base: Style) -> list[Segment]:
        needle = self._needle
        if not needle:
            return [Segment(text, base)]
        hay = text if needle != needle.lower() else text.lower()
        match = base + self.get_component_rich_style("logview--match", partial=True)
        segments, position = [], 0
        while (found := hay.find(needle, position)) >= 0:
            segments += [Segment(text[position:found], base), Segment(text[found : found + len(needle)], match)]
            position = found + len(needle)
        return [*segments, Segment(text[position:], base)]

    # --- moving ------------------------------------------------------------------------------------------------------

    def validate_cursor_line(self, line: int) -> int:
        """Keep the cursor within the text."""
        return max(1, min(line, max(1, self.line_count)))

    def watch_cursor_line(self, _old: int, line: int) -> None:
        """Bring the line into view and tell of it."""
        top, height = int(self.scroll_offset.y), max(1, self.size.height)
        if line <= top:
            self.scroll_to(y=line - 1, animate=False)
        elif line > top + height:
            self.scroll_to(y=line - height, animate=False)
        self.refresh()
        self.post_message(self.LineHighlighted(line))

    def go_to(self, line: int) -> None:
        """Put the cursor on a line, a third from the top."""
        self.cursor_line = line
        self.call_after_refresh(self.scroll_to, y=max(0, line - 1 - self.size.height // 3), animate=False)

    def show_match(self, line: int) -> None:
        """Bring the first match in a line into view, sideways."""
        text = plain(self._line_text(line).expandtabs(8))
        at = (text if self._needle != self._needle.lower() else text.lower()).find(self._needle)
        # The last cell, and the first where it is scrolled, may say that the line goes on.
        room, left = self.size.width - self._gutter - 1, int(self.scroll_offset.x)
        if at < left + bool(left) or at + len(self._needle) > left + room:
            fits_at_the_start = at + len(self._needle) <= room
            self.call_after_refresh(self.scroll_to, x=0 if fits_at_the_start else at - room // 3, animate=False)

    def action_cursor_down(self) -> None:
        """One line down."""
        self.cursor_line += 1

    def action_cursor_up(self) -> None:
        """One line up."""
        self.cursor_line -= 1

    def action_cursor_top(self) -> None:
        """The first line."""
        self.cursor_line = 1

    def action_cursor_bottom(self) -> None:
        """The last line."""
        self.cursor_line = self.line_count

    def action_move_page(self, pages: float) -> None:
        """Some pages down, or up where negative."""
        self.cursor_line += round(pages * max(2, self.size.height - 1))

    def action_pan(self, cells: int) -> None:
        """Sideways."""
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse points."""
        self.cursor_line = int(self.scroll_offset.y) + event.y + 1
