"""Log: the lines of the input, and the rows and issues that came from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from rich.cells import set_cell_size
from rich.segment import Segment
from textual import on, work
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static
from textual.worker import get_current_worker

from tui.keys import Scope, bindings_for
from tui.model.columns import COLUMNS, ColumnKind
from tui.model.history import Place
from tui.model.schema import FRAMES
from tui.screens.base import ViewScreen
from tui.text import plain, plural
from tui.text_width import ELLIPSIS, cell_width, clip_parts
from tui.widgets.app_services import copy_text
from tui.widgets.details import DetailPane, Details, Line, full_value, sections
from tui.widgets.input_bars import FindBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    from rich.style import Style
    from textual import events
    from textual.binding import BindingType
    from textual.widget import Widget

    from tui.model.profile import LogText
    from tui.state.notes import RowPlace


MAX_LINE_CELLS = 5_000
"""Longer lines are cut, with a sign at the cut."""


class LogView(ScrollView, can_focus=True):
    """Any number of lines; only those on the screen are read.

    The gutter has the line's number, ``•`` if a row came from it, and ``!`` if it has an issue.
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
        & > .logview--issue { color: $warning-ink; background: $warning-background; text-style: bold; }
        & > .logview--match { text-style: bold underline; color: $accent; }
        & > .logview--cursor { background: $selection; }
        &:ansi > .logview--cursor { background: ansi_default; text-style: reverse; }
    }
    """

    cursor_line: reactive[int] = reactive(1)
    """The line under the cursor, from 1."""

    class LineHighlighted(Message):
        """The cursor moved to a line."""

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
        self.virtual_size = Size(MAX_LINE_CELLS, text.line_count)
        self.cursor_line = min(self.cursor_line, max(1, text.line_count))
        self.refresh()

    @property
    def line_count(self) -> int:
        """The number of lines."""
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
        """Underline a text in all lines; empty: nothing."""
        self._needle = needle
        self.refresh()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def _line_text(self, number: int) -> str:
        """Return a line of the text, read a page at a time."""
        first, page = self._page
        if not first <= number < first + len(page):
            assert self._text is not None
            first = max(1, number - 50)
            page = self._text.lines(first, max(150, self.size.height * 3))
            self._page = (first, page)
        index = number - first
        return page[index] if index < len(page) else ""

    @staticmethod
    def _contains(lines: npt.NDArray[np.uint32], number: int) -> bool:
        index = int(np.searchsorted(lines, number))
        return index < len(lines) and int(lines[index]) == number

    def render_line(self, y: int) -> Strip:
        """Render one line of the screen."""
        number = int(self.scroll_offset.y) + y + 1
        width = self.size.width
        if self._text is None or number > self._text.line_count:
            return Strip.blank(width, self.rich_style)
        parsed, issue = self._contains(self._parsed, number), self._contains(self._issues, number)
        mark = "!" if issue else "•" if parsed else " "
        base = self.get_component_rich_style("logview--parsed" if parsed or issue else "logview--foreign", partial=True)
        has_cursor = number == self.cursor_line
        gutter = self.get_component_rich_style("logview--gutter", partial=True)
        mark_style = self.get_component_rich_style("logview--issue" if issue else "logview--parsed", partial=True)
        head = [Segment(f"{number:>{self._gutter - 3},} ", gutter), Segment(mark + " ", mark_style)]
        ellipsis = Segment(ELLIPSIS, gutter)
        strip = Strip.join(
            [Strip(head, self._gutter), self._visible_part(number, width - self._gutter, base, ellipsis)]
        )
        if has_cursor:
            strip = strip.apply_style(self.get_component_rich_style("logview--cursor", partial=True))
        return strip.apply_style(self.rich_style) if not has_cursor else strip

    def _visible_part(self, number: int, width: int, base: Style, ellipsis: Segment) -> Strip:
        """Return the part of a line that fits, with symbols where it continues."""
        width, scrolled = max(0, width), int(self.scroll_offset.x)
        line = plain(self._line_text(number).expandtabs(8))
        text = line[scrolled:]
        strip = Strip(self._with_matches(set_cell_size(text, width), base), width)
        ellipsis_strip = Strip([ellipsis], 1)
        if cell_width(text) > width > 0:
            strip = Strip.join([strip.crop(0, width - 1), ellipsis_strip])
        if scrolled and line and width > 1:
            strip = Strip.join([ellipsis_strip, strip.crop(1, width)])
        return strip

    def _with_matches(self, text: str, base: Style) -> list[Segment]:
        needle = self._needle
        if not needle:
            return [Segment(text, base)]
        searched_text = text if needle != needle.lower() else text.lower()
        match = base + self.get_component_rich_style("logview--match", partial=True)
        segments, position = [], 0
        while (start := searched_text.find(needle, position)) >= 0:
            segments += [Segment(text[position:start], base), Segment(text[start : start + len(needle)], match)]
            position = start + len(needle)
        return [*segments, Segment(text[position:], base)]

    # --- moving ------------------------------------------------------------------------------------------------------

    def validate_cursor_line(self, line: int) -> int:
        """Keep the cursor within the text."""
        return max(1, min(line, max(1, self.line_count)))

    def watch_cursor_line(self, _old: int, line: int) -> None:
        """Bring the line into view and post a message."""
        top, height = int(self.scroll_offset.y), max(1, self.size.height)
        if line <= top:
            self.scroll_to(y=line - 1, animate=False)
        elif line > top + height:
            self.scroll_to(y=line - height, animate=False)
        self.refresh()
        self.post_message(self.LineHighlighted(line))

    def go_to(self, line: int) -> None:
        """Move the cursor to a line, a third from the top."""
        self.cursor_line = line
        self.call_after_refresh(self.scroll_to, y=max(0, line - 1 - self.size.height // 3), animate=False)

    def show_match(self, line: int) -> None:
        """Scroll horizontally to the first match in a line."""
        text = plain(self._line_text(line).expandtabs(8))
        match = (text if self._needle != self._needle.lower() else text.lower()).find(self._needle)
        # The last cell, and the first if scrolled, may show that the line continues.
        visible_cells, scrolled = self.size.width - self._gutter - 1, int(self.scroll_offset.x)
        if match < scrolled + bool(scrolled) or match + len(self._needle) > scrolled + visible_cells:
            fits_unscrolled = match + len(self._needle) <= visible_cells
            self.call_after_refresh(
                self.scroll_to, x=0 if fits_unscrolled else match - visible_cells // 3, animate=False
            )

    def action_cursor_down(self) -> None:
        """Move down one line."""
        self.cursor_line += 1

    def action_cursor_up(self) -> None:
        """Move up one line."""
        self.cursor_line -= 1

    def action_cursor_top(self) -> None:
        """Go to the first line."""
        self.cursor_line = 1

    def action_cursor_bottom(self) -> None:
        """Go to the last line."""
        self.cursor_line = self.line_count

    def action_move_page(self, pages: float) -> None:
        """Move by pages, up if negative."""
        self.cursor_line += round(pages * max(2, self.size.height - 1))

    def action_pan(self, cells: int) -> None:
        """Scroll horizontally."""
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line."""
        self.cursor_line = int(self.scroll_offset.y) + event.y + 1


ROW_FRAMES: Final = tuple(name for name, schema in FRAMES.items() if "line" in schema and name != "issues")
SEARCH_PAGE: Final = 5_000
"""Lines searched before the thread checks whether it should stop."""

PADDING: Final = 2
"""Blanks at the sides of the line below the text."""


class LogScreen(ViewScreen):
    """The lines of a text input; of several inputs, the one that was requested last."""

    VIEW = "log"
    HELP: ClassVar = (
        "The input file, line by line.\n• marks a parsed line, ! a line with an issue; dim lines are other "
        "output.\ni shows the values read from the line under the cursor."
    )

    def __init__(self) -> None:
        super().__init__()
        self._source = ""
        self._session: int | None = None
        """The session that was chosen when the source was."""
        self._needle = ""
        self._blocks: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        """Lines that rows came from and that follow other text, in order."""

    def compose_body(self) -> Iterable[Widget]:
        """Yield the lines and the search bar."""
        yield LogView(id="log")
        yield Static(id="log-status")
        yield FindBar(id="find-bar")

    @property
    def log_view(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def populate(self) -> None:
        """Show the text of the chosen session's source, or the first text there is."""
        texts = self.profile.texts
        sources = self.profile["sessions"]["source"].to_list()
        session = self.explorer.profile_session.session
        if self._source not in texts or (session != self._session and self._source not in sources):
            self._source = next((source for source in (*sources, *texts) if source in texts), "")
        self._session = session
        if not self._source:
            self._show_status(0)
            return
        whole_profile = self.explorer.profile_session.whole_profile or self.profile
        is_of_source = pl.col("session").is_in(
            whole_profile["sessions"].filter(pl.col("source") == self._source)["session"].implode()
        )
        parsed = [whole_profile[name].filter(is_of_source)["line"].drop_nulls().to_numpy() for name in ROW_FRAMES]
        issues = (
            whole_profile["issues"].filter(is_of_source | pl.col("session").is_null())["line"].drop_nulls().to_numpy()
        )
        lines = np.unique(np.concatenate(parsed))
        self._blocks = lines[np.diff(lines.astype(np.int64), prepend=-1) > 1]
        self.log_view.show(texts[self._source], lines, np.unique(issues))
        self.log_view.focus()
        self._show_status(self.log_view.cursor_line)

    @property
    def shown_lines(self) -> tuple[str, int, int]:
        """The source, and the first and the last line on the screen."""
        top = int(self.log_view.scroll_offset.y)
        return self._source, top + 1, min(top + max(1, self.log_view.size.height), self.log_view.line_count)

    def show_line(self, line: int, session: int | None) -> None:
        """Go to a line of the source that a session came from."""
        whole_profile = self.explorer.profile_session.whole_profile
        if session is not None and whole_profile is not None:
            source = whole_profile["sessions"].filter(pl.col("session") == session)["source"].item()
            if source != self._source:
                self._source = source
                self.populate()
        self.log_view.go_to(line)
        self.log_view.focus()

    def focus_table(self) -> None:
        """Focus the lines."""
        self.log_view.focus()

    def path(self) -> list[str]:
        """Return the name of the text, if there are several."""
        return [self._source] if len(self.profile.texts) > 1 else []

    # --- the line under the cursor -----------------------------------------------------------------------------------

    @on(LogView.LineHighlighted)
    def _line_highlighted(self, event: LogView.LineHighlighted) -> None:
        self._show_status(event.line)
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.show(self._values_of_line(event.line))

    def _show_status(self, line: int, note: str = "") -> None:
        if not self._source:
            self.query_one("#log-status", Static).update(Content("This input is not text: it has no lines."))
            return
        text = f"line {line:,} of {self.log_view.line_count:,}"
        user_note = self.explorer.notes.note_at(self._note_place(line))
        if user_note is not None and not note:
            note = f"note: {user_note.text.splitlines()[0]}"
        note = note or self._parsed_text()
        status = plain(f"{text} · {note}")
        status = clip_parts(status, self.app.size.width - PADDING)
        self.query_one("#log-status", Static).update(Content(status))

    def _parsed_text(self) -> str:
        """Return the number of parsed lines, and the keys for them and for horizontal scrolling."""
        parsed = len(self.log_view.parsed_lines)
        text = f"{plural(parsed, 'line')} parsed" if parsed else "Nothing was parsed from this text."
        if parsed:
            text += "  p: next block" if len(self._blocks) > 1 else "  p: first parsed line"
        if len(self.log_view.issue_lines):
            text += "  E: next issue"
        return f"{text}  left right: scroll"

    def action_toggle_line_detail(self) -> None:
        """Show or hide what was read from the line."""
        detail = self.query_one(DetailPane)
        if detail.is_open:
            detail.close()
            self.log_view.focus()
        else:
            detail.open(self._values_of_line(self.log_view.cursor_line))

    def _values_of_line(self, line: int) -> Details:
        """Return every row that came from a line, and every issue about it."""
        whole_profile = self.explorer.profile_session.whole_profile or self.profile
        source_sessions = whole_profile["sessions"].filter(pl.col("source") == self._source)["session"].implode()
        blocks: list[tuple[str, list[Line]]] = []
        for name in (*ROW_FRAMES, "issues"):
            rows = whole_profile[name].filter(
                (pl.col("line") == line) & (pl.col("session").is_in(source_sessions) | pl.col("session").is_null())
            )
            for row in rows.head(5).iter_rows(named=True):
                lines: list[Line] = []
                for column, value in row.items():
                    if value is None:
                        continue
                    known_column = COLUMNS.get(column)
                    kind = known_column.kind if known_column else ColumnKind.TEXT
                    lines.append((known_column.title if known_column else column, full_value(kind, value), ""))
                blocks.append((f"{name}", lines))
        if not blocks:
            return Details(((0, Content.styled("No values were read from this line.", "$text-muted")),))
        return sections(blocks)

    def action_copy_line(self) -> None:
        """Copy the line to the terminal's clipboard."""
        text = self.profile.texts.get(self._source)
        if text is not None:
            lines = text.lines(self.log_view.cursor_line, 1)
            self.explorer.say(copy_text(self.app, "".join(lines)))

    # --- notes -------------------------------------------------------------------------------------------------------

    def _note_place(self, line: int) -> RowPlace:
        return self.explorer.notes.place_of_item("lines", (self._source, line))

    def action_write_note(self) -> None:
        """Ask for a note on the line."""
        if self._source:
            line = self.log_view.cursor_line
            source = f"{self._source}, " if len(self.profile.texts) > 1 else ""
            self.explorer.notes.write_note(self._note_place(line), f"{source}line {line:,}")

    def show_item(self, _kind: str, key: Sequence[object]) -> None:
        """Go to the line of a note."""
        source, line = key
        if source in self.profile.texts and source != self._source:
            self._source = str(source)
            self.populate()
        if self._source == source and isinstance(line, int) and 0 < line <= self.log_view.line_count:
            self.log_view.go_to(line)
        else:
            self.explorer.say("The line is no longer in the file.", severity="warning")

    def show_details_again(self) -> None:
        """Update the note on the line."""
        self._show_status(self.log_view.cursor_line)

    # --- finding -----------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open the search bar."""
        self.query_one(FindBar).open(self._needle)

    def find_in_table(self, text: str) -> None:
        """Find a text, starting at the cursor."""
        self._needle = text
        self.log_view.highlight_matches(text)
        if text and self._source:
            self._search(self.log_view.cursor_line, 1, include_start=True)
        else:
            self.query_one(FindBar).entry_done()

    @on(FindBar.Entered)
    def _find_entered(self, event: FindBar.Entered) -> None:
        self.log_view.focus()
        self.find_in_table(event.text)

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.log_view.focus()

    def action_step_match(self, direction: int) -> None:
        """Go to the next match, or the previous one."""
        if not self._needle or not self._source:
            self.explorer.say("Nothing searched yet. Press /.")
            return
        self._search(self.log_view.cursor_line, direction, include_start=False)

    @work(thread=True, exclusive=True, group="log-search", description="log-search")
    def _search(self, start: int, direction: int, *, include_start: bool) -> None:
        """Search the text in a thread, page by page, wrapping around."""
        worker = get_current_worker()
        text, needle = self.profile.texts[self._source], self._needle
        ignores_case = needle == needle.lower()
        count = text.line_count
        offset = 0 if include_start else direction
        for first, last in _pages(start + offset, direction, count):
            if worker.is_cancelled:
                return
            page = text.lines(first, last - first + 1)
            hits = [index for index, line in enumerate(page) if needle in (line.lower() if ignores_case else line)]
            if hits:
                match = first + (hits[0] if direction > 0 else hits[-1])
                wrapped = match < start if direction > 0 else match > start
                self.app.call_from_thread(self._show_match, match, wrapped)
                return
        self.app.call_from_thread(self._show_no_match, start, needle)

    def _show_match(self, line: int, wrapped: bool) -> None:
        self.log_view.go_to(line)
        self.log_view.show_match(line)
        self._show_status(line, "search wrapped" if wrapped else "")
        self.query_one(FindBar).entry_done()

    def _show_no_match(self, line: int, needle: str) -> None:
        self._show_status(line, f"no match for {needle!r}")
        self.query_one(FindBar).entry_done()

    def action_next_issue(self) -> None:
        """Go to the next line that an issue is about."""
        self._go_to_next_of(self.log_view.issue_lines, "No line of this text has an issue.")

    def action_next_parsed(self) -> None:
        """Go to the next line that a row came from and that follows other text."""
        self._go_to_next_of(self._blocks, "Nothing was parsed from this text.")

    def _go_to_next_of(self, lines: Any, message: str) -> None:
        if not len(lines):
            self.explorer.say(message)
            return
        index = int(np.searchsorted(lines, self.log_view.cursor_line, side="right"))
        self.log_view.go_to(int(lines[index % len(lines)]))

    # --- place -------------------------------------------------------------------------------------------------------

    def undo_smallest(self) -> bool:
        """Close the search bar, then clear the search text."""
        if super().undo_smallest():
            return True
        bar = self.query_one(FindBar)
        if bar.is_open:
            bar.close()
            return True
        if self._needle:
            self._needle = ""
            self.log_view.highlight_matches("")
            return True
        return False

    def place(self) -> Place:
        """Return the source and the line under the cursor."""
        return Place(self.VIEW, self._source, line=self.log_view.cursor_line if self.is_mounted else None)

    def restore(self, place: Place) -> None:
        """Return to a line of a source."""
        if place.level in self.profile.texts and place.level != self._source:
            self._source = place.level
            self.populate()
        if place.line is not None:
            self.log_view.go_to(place.line)


def _pages(start: int, direction: int, count: int) -> Iterable[tuple[int, int]]:
    """Return first and last lines of the pages to search, from the start, wrapping around."""
    if direction > 0:
        for start_line, end in ((start, count), (1, min(start - 1, count))):
            for first in range(start_line, end + 1, SEARCH_PAGE):
                yield first, min(first + SEARCH_PAGE - 1, end)
    else:
        for start_line, end in ((min(start, count), 1), (count, max(1, start + 1))):
            for last in range(start_line, end - 1, -SEARCH_PAGE):
                yield max(last - SEARCH_PAGE + 1, end), last
