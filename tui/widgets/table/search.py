"""Find and filter: the query bar and its controller."""

from __future__ import annotations

import asyncio
import re
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from rich.highlighter import Highlighter
from textual import on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from tui.keys import Scope, bindings_for
from tui.model.aggregation import phase_filter
from tui.query.compile import as_global_filter
from tui.query.complete import best_completion, column_term
from tui.query.parse import equals_filter, narrow, parse
from tui.query.text_search import smart_case
from tui.query.values import And, Compare, Contains, Node, Operator, Or, QueryError
from tui.text import plain
from tui.text_width import cell_width
from tui.widgets.app_services import call_after, services_of
from tui.widgets.input_bars import EnteredLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.text import Text
    from textual.binding import BindingType

    from tui.query.apply import Applied
    from tui.widgets.table.pane import TablePane


TYPING_DELAY_S: Final = 0.01
"""Seconds without a key before the typed text is applied."""
MAX_HISTORY: Final = 100
ANSWER_STEP_CELLS: Final = 12


class QueryMode(StrEnum):
    """The use of the text in the bar."""

    FIND = "find"
    FILTER = "filter"

    @property
    def other(self) -> QueryMode:
        """The mode that ``tab`` switches to."""
        return QueryMode.FILTER if self is QueryMode.FIND else QueryMode.FIND


class _ErrorHighlighter(Highlighter):
    """Underlines the invalid part of the text."""

    def __init__(self) -> None:
        self.span: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        if self.span is not None:
            start, end = self.span
            text.stylize("underline bold", min(start, max(0, len(text) - 1)), max(end, start + 1))


class _Completion(Suggester):
    def __init__(self, complete: Callable[[str], str | None]) -> None:
        # Completions depend on the shown rows, so nothing is cached.
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        # Counting the values of a million rows would delay keys.
        return await asyncio.to_thread(self._complete, value)


class _QueryInput(EnteredLine):
    # The footer shows the key that accepts the text; Textual's own binding of it is hidden.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "keep", key_display="enter")]

    proposal: str = ""
    """The initial text; its last character is replaced ..."""
    replacing: frozenset[str] = frozenset()
    """... if the first typed character is one of these."""

    def insert_text_at_cursor(self, text: str) -> None:
        end = len(self.value)
        if text[:1] in self.replacing and self.value == self.proposal and self.cursor_position == end:
            self.replace(text, end - 1, end)
        else:
            super().insert_text_at_cursor(text)
        self.replacing = frozenset()


class QueryBar(Horizontal):
    """The query bar: hidden until opened; a typed text takes effect at once, ``enter`` keeps it, ``esc`` undoes it.

    Args:
        complete: Returns the completion of a text, or None.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.BAR)]
    DEFAULT_CSS = """
    QueryBar {
        height: 1; display: none; background: $panel;
        &.-open { display: block; }
        & > #query-mode { width: 8; padding: 0 1; color: $accent; text-style: bold; }
        & > Input { width: 1fr; min-width: 12; height: 1; border: none; padding: 0; background: $panel; }
        & > Input:focus { border: none; background: $panel; }
        & > #query-answer {
            width: 2; max-width: 60%; padding: 0 1; color: $text-muted;
            text-align: right; text-wrap: nowrap; text-overflow: ellipsis;
        }
        & > #query-answer.-wrong { color: $error; text-style: bold; max-width: 75%; }
    }
    """

    class Changed(Message):
        """The typed text or the mode changed."""

        def __init__(self, mode: QueryMode, text: str) -> None:
            super().__init__()
            self.mode = mode
            self.text = text

    class Accepted(Changed):
        """The user accepted the text."""

    class Cancelled(Message):
        """The user cancelled: restore the text from before the bar was opened."""

        def __init__(self, mode: QueryMode) -> None:
            super().__init__()
            self.mode = mode

    class Switched(Changed):
        """The mode was switched; ``mode`` is the new one."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__()
        self.mode = QueryMode.FIND
        self._highlighter = _ErrorHighlighter()
        self._input = _QueryInput(
            compact=True, select_on_focus=False, highlighter=self._highlighter, suggester=_Completion(complete)
        )
        self._label = Static(id="query-mode")
        self._answer = Static(id="query-answer")
        self._answer_text = ""
        self._settle_timer: asyncio.TimerHandle | None = None
        self._history: list[str] = []
        self._recalled: int | None = None
        self._typed = ""

    @property
    def is_open(self) -> bool:
        """Whether the bar is shown."""
        return self.has_class("-open")

    @property
    def text(self) -> str:
        """The typed text."""
        return self._input.value

    def open(self, mode: QueryMode, text: str, *, replacing: frozenset[str] = frozenset()) -> None:
        """Show the bar, which has been mounted, with a text.

        Args:
            mode: The effect of the text.
            text: The initial text.
            replacing: Characters that, typed first, replace the last character of the text, a proposal.
        """
        if not self._input.is_attached:
            # Not in `compose`, which would be too late for a key that follows immediately.
            self.mount(self._label, self._input, self._answer)
        self._input.start_typing()
        self._set_mode(mode)
        self.answer("")
        self._recalled = None
        with self._input.prevent(Input.Changed):
            self._input.value = text
        self._input.cursor_position = len(text)
        self._input.proposal, self._input.replacing = text, replacing
        self.add_class("-open")
        self.screen.set_focus(self._input)

    def close(self) -> None:
        """Hide the bar."""
        self._stop_settle_timer()
        self.remove_class("-open")

    def resume_typing(self) -> None:
        """Return to typing: the accepted text was not applied."""
        self._input.start_typing()

    def entry_done(self) -> None:
        """Let the keys typed since act on the rows: the accepted text was applied."""
        self._input.entry.release_keys()

    def answer(self, text: str, *, error_span: tuple[int, int] | None = None, is_error: bool = False) -> None:
        """Show how the text was understood, or an error.

        Args:
            text: A short text, or empty.
            error_span: The range of invalid characters.
            is_error: Whether the text is an error.
        """
        self._highlighter.span = error_span
        self._answer.set_class(is_error, "-wrong")
        answer_text = f"! {text}" if is_error else text
        if answer_text != self._answer_text:
            self._answer_text = answer_text
            self._answer.update(Content(answer_text), layout=False)
            # Its width grows in steps, so that most texts need no new layout of the screen.
            self._answer.styles.width = -(-cell_width(answer_text) // ANSWER_STEP_CELLS) * ANSWER_STEP_CELLS + 2
        self._input.refresh()

    def remember(self, text: str) -> None:
        """Add a text to the history."""
        if text:
            self._history = [*[earlier for earlier in self._history if earlier != text][-MAX_HISTORY + 1 :], text]

    def _set_mode(self, mode: QueryMode) -> None:
        self.mode = mode
        self._label.update(Content(mode.value), layout=False)

    def _stop_settle_timer(self) -> None:
        if self._settle_timer is not None:
            self._settle_timer.cancel()
            self._settle_timer = None

    @on(Input.Changed)
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        self._stop_settle_timer()
        self._settle_timer = call_after(self, TYPING_DELAY_S, self._settle)

    def _settle(self) -> None:
        if self.is_open:
            self.post_message(self.Changed(self.mode, self.text))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        """Accept the text and return to the table."""
        self._stop_settle_timer()
        self.remember(self.text)
        self.post_message(self.Accepted(self.mode, self.text))

    def action_cancel(self) -> None:
        """Undo what was typed."""
        self._stop_settle_timer()
        self.post_message(self.Cancelled(self.mode))

    def action_switch_mode(self) -> None:
        """Switch between find and filter, with the same text."""
        self._stop_settle_timer()
        self._set_mode(self.mode.other)
        self.post_message(self.Switched(self.mode, self.text))

    def action_history_back(self) -> None:
        """Show the previous text of the history."""
        self._recall(-1)

    def action_history_forward(self) -> None:
        """Show the next text of the history."""
        self._recall(1)

    def _recall(self, step: int) -> None:
        if self._recalled is None:
            self._typed = self.text
        index = (len(self._history) if self._recalled is None else self._recalled) + step
        if not 0 <= index <= len(self._history):
            return
        self._recalled = index
        text = self._typed if index == len(self._history) else self._history[index]
        self._input.value = text
        self._input.cursor_position = len(text)


def hit_pattern(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the words of a query; None if it has no plain words.

    Negated words, numbers and regular expressions are not included: for these the whole row is highlighted.

    >>> hit_pattern("gemm | name:conv !relu").findall("Gemm conv relu")
    ['Gemm', 'conv']
    """
    if not query:
        return None
    try:
        words = sorted(set(_search_words(parse(query))), key=len, reverse=True)
    except QueryError:
        return None
    if not words:
        return None
    # A capital letter makes only its own word case-sensitive.
    return re.compile("|".join(re.escape(word) if smart_case(word) else f"(?i:{re.escape(word)})" for word in words))


def _search_words(node: Node) -> Iterator[str]:
    match node:
        case Contains(text=text) if text:
            yield text
        case Compare(operator=Operator.CONTAINS | Operator.EQUAL, value=value) if value:
            yield value
        case And(terms=terms) | Or(terms=terms):
            for term in terms:
                yield from _search_words(term)
        case _:
            return


class SearchController:
    """Searches and filters a table by the text of its query bar.

    Args:
        pane: The table.
    """

    def __init__(self, pane: TablePane) -> None:
        self._pane = pane
        self._model = pane.model
        self._bar: QueryBar | None = None
        self._former_texts = {QueryMode.FIND: "", QueryMode.FILTER: ""}
        """The text of each mode before the bar was opened."""
        self._origin: int | None = None
        """The position of the cursor when the bar was opened."""
        self._goes_to_match = False
        self._should_close = False
        """Whether the bar closes once the accepted text is known to be valid."""

    @property
    def bar(self) -> QueryBar:
        """The query bar, created on first use: most tables are never searched."""
        if self._bar is None:
            self._bar = QueryBar(self._complete)
        return self._bar

    @property
    def is_open(self) -> bool:
        """Whether the bar is open."""
        return self._bar is not None and self._bar.is_open

    # --- texts -------------------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Keep the rows that match; an empty text keeps all. The query bar shows errors."""
        self._set(QueryMode.FILTER, text)
        self.bar.remember(text)

    def set_find(self, text: str) -> None:
        """Highlight the rows that match and go to the first of them."""
        self._goes_to_match = True
        self._set(QueryMode.FIND, text)
        self.bar.remember(text)

    # --- the bar -----------------------------------------------------------------------------------------------------

    def open_find(self) -> None:
        """Open the bar in find mode."""
        self._open(QueryMode.FIND)

    def open_filter(self) -> None:
        """Open the bar in filter mode."""
        self._open(QueryMode.FILTER)

    def open_filter_of_column(self) -> None:
        """Open the bar to add a filter on the selected column."""
        column = self._model.current_column()
        if column is None:
            return
        term, hint, replacing = column_term(column, self._model.spec.columns, self._model.frame)
        try:
            text = narrow(self._model.state.filter, term)
        except QueryError:
            # The current filter is invalid and must be corrected first.
            self.open_filter()
            return
        self._open(QueryMode.FILTER)
        self.bar.open(QueryMode.FILTER, text, replacing=replacing)
        self.bar.answer(plain(f"{column.title}: {hint}"))

    def toggle_global_filter(self) -> None:
        """Apply the filter of this table to every view; without one, remove the filter of all views."""
        services = services_of(self._pane)
        own_filter, global_filter = self._model.state.filter, self._pane.global_filter
        if not own_filter:
            if not services.set_global_filter(""):
                return
            message = "Filter removed from all views." if global_filter else "No filter to apply: f sets one."
            self._pane.notify(message, markup=False)
            return
        try:
            portable_filter = as_global_filter(own_filter, columns=self._model.spec.columns, units=self._model.units())
            if not services.set_global_filter(
                narrow(global_filter, portable_filter) if global_filter else portable_filter
            ):
                return
            if phase_filter(portable_filter) is not None:
                self._pane.change(filter="")
                return
        except QueryError as error:
            self._pane.notify(plain(f"Incomplete filter: {error}"), severity="warning", markup=False)
            return
        # It is removed from this table: C then removes it everywhere.
        self._pane.change(filter="")
        self._pane.notify(
            plain(f"Every view is filtered by {self._pane.global_filter}. C removes the filter."), markup=False
        )

    def _open(self, mode: QueryMode) -> None:
        if not self.bar.is_attached:
            self._pane.mount(self.bar, after=self._pane.table)
        if not self.bar.is_open:
            self._former_texts = {QueryMode.FIND: self._model.state.find, QueryMode.FILTER: self._model.state.filter}
            self._origin = self._model.cursor_source_row
        self.bar.open(mode, self._former_texts[mode])

    def _set(self, mode: QueryMode, text: str) -> None:
        if (self._model.state.find if mode is QueryMode.FIND else self._model.state.filter) == text:
            return
        if mode is QueryMode.FIND:
            self._pane.change(find=text)
        else:
            self._pane.change(filter=text)

    def typed(self, event: QueryBar.Changed) -> None:
        """Apply the changed text immediately."""
        if not self.is_open:
            # Typed before the bar closed.
            return
        self._goes_to_match = event.mode is QueryMode.FIND
        self._set(event.mode, event.text)

    def switched(self, event: QueryBar.Switched) -> None:
        """Move the text from find to filter, or back."""
        self._goes_to_match = event.mode is QueryMode.FIND
        self._set(event.mode.other, self._former_texts[event.mode.other])
        self._set(event.mode, event.text)

    def accepted(self, event: QueryBar.Accepted) -> None:
        """Close the bar once the text is known to be valid."""
        if event.mode is QueryMode.FILTER and self._chose_phase(event.text):
            return
        self._goes_to_match = event.mode is QueryMode.FIND
        self._should_close = True
        self._set(event.mode, event.text)
        if self._should_close and not self._pane.is_pending:
            self._close_if_valid(self._model.applied)

    def _chose_phase(self, text: str) -> bool:
        """Return whether a filter names a phase in a table without phases; all views then show the phase."""
        has_column = any(column.name == "phase" for column in self._model.spec.columns)
        if has_column or phase_filter(text) is None:
            return False
        self.cancelled()
        services_of(self._pane).set_global_filter(text)
        return True

    def cancelled(self) -> None:
        """Close the bar and restore the previous search and filter."""
        self._goes_to_match = False
        self._model.cursor_source_row = self._origin
        self.bar.close()
        former = self._former_texts
        self._pane.change(find=former[QueryMode.FIND], filter=former[QueryMode.FILTER])
        self._pane.focus_table()

    def answer(self, applied: Applied) -> None:
        """Show in the bar how the text was understood or an error; an error opens the bar."""
        if self._bar is None and not applied.error and not applied.find_error:
            return
        bar = self.bar
        if not bar.is_open and (applied.error or applied.find_error):
            self._open(QueryMode.FILTER if applied.error else QueryMode.FIND)
            bar.open(bar.mode, self._model.state.filter if applied.error else self._model.state.find)
            # The text was not typed into the bar: esc restores the last valid one.
            self._former_texts = {
                QueryMode.FIND: "" if applied.find_error else self._model.state.find,
                QueryMode.FILTER: self._model.valid_filter,
            }
        error = applied.error if bar.mode is QueryMode.FILTER else applied.find_error
        if error is not None:
            bar.answer(plain(str(error)), error_span=(error.start, error.end), is_error=True)
        else:
            bar.answer(plain(applied.reading if bar.mode is QueryMode.FILTER else applied.find_reading))
        if self._should_close:
            self._close_if_valid(applied)

    def _close_if_valid(self, applied: Applied | None) -> None:
        self._should_close = False
        mode = self.bar.mode
        if applied is None or (applied.error if mode is QueryMode.FILTER else applied.find_error) is None:
            self.bar.close()
            self._pane.focus_table()
            self.bar.entry_done()
        else:
            self.bar.resume_typing()

    def work_cancelled(self) -> None:
        """Return to typing after the work was cancelled."""
        if self.is_open:
            self._should_close = False
            self.bar.resume_typing()

    def rows_applied(self) -> None:
        """Underline the matches, and go to the first one at or after the row where the search began."""
        self._pane.table.show_hits(hit_pattern(self._model.state.find))
        if not self._goes_to_match or not self._model.state.find:
            return
        self._goes_to_match = False
        origin = self._model.rows.shown_row(self._origin) if self._origin is not None else None
        row = self._model.next_found((origin or 0) - 1, 1)
        if row is not None:
            self._pane.table.move_to(row)

    def _complete(self, text: str) -> str | None:
        return best_completion(text, columns=self._model.spec.columns, frame=self._model.frame)

    # --- matches and equal values ------------------------------------------------------------------------------------

    def next_match(self) -> None:
        """Go to the next match."""
        self._go_to_match(1)

    def previous_match(self) -> None:
        """Go to the previous match."""
        self._go_to_match(-1)

    def _go_to_match(self, step: int) -> None:
        cursor_row = self._model.cursor_row
        row = self._model.next_found(cursor_row, step)
        if row is None:
            message = "no match" if self._model.state.find else "no search text: / starts a search"
            self._pane.notify(message, markup=False)
            return
        self._pane.table.move_to(row)
        if (row <= cursor_row) if step > 0 else (row >= cursor_row):
            self._pane.notify(f"Search wrapped to the {'first' if step > 0 else 'last'} match.", markup=False)

    def filter_equal(self) -> None:
        """Keep the rows with the selected value."""
        self._filter_by_cell(keep=True)

    def filter_not_equal(self) -> None:
        """Exclude the rows with the selected value."""
        self._filter_by_cell(keep=False)

    def _filter_by_cell(self, *, keep: bool) -> None:
        column = self._model.current_column()
        row = self._model.current_row
        if column is None or row is None:
            return
        term = equals_filter(column.name, row[column.name], column.kind)
        self.narrow(term if keep else f"!{term}")

    def narrow(self, term: str) -> None:
        """Add a term to the filter."""
        try:
            text = narrow(self._model.state.filter, term)
        except QueryError as error:
            self._pane.notify(f"Incomplete filter: {error}", severity="warning", markup=False)
            return
        self._pane.change(keep_row=True, filter=text)
