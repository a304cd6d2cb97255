"""The line to type a search or a filter into."""

from __future__ import annotations

import asyncio
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text
    from textual.binding import BindingType

from tui.fitting import cell_width
from tui.keys import Scope, bindings_for
from tui.widgets.app_services import later
from tui.widgets.text_input import EnteredLine

SETTLE_S: Final = 0.01
"""Seconds without a key before what is typed takes effect."""
MAX_HISTORY: Final = 100
ANSWER_STEP: Final = 12


class QueryMode(StrEnum):
    """What the text in the bar does."""

    FIND = "find"
    FILTER = "filter"

    @property
    def other(self) -> QueryMode:
        """The mode that ``tab`` switches to."""
        return QueryMode.FILTER if self is QueryMode.FIND else QueryMode.FIND


class _FaultHighlighter(Highlighter):
    """Underlines the part of the text that cannot be read."""

    def __init__(self) -> None:
        self.span: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        if self.span is not None:
            start, end = self.span
            text.stylize("underline bold", min(start, max(0, len(text) - 1)), max(end, start + 1))


class _Completion(Suggester):
    def __init__(self, complete: Callable[[str], str | None]) -> None:
        # What completes a text depends on the rows shown, so nothing is cached.
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        # Counting the values of a million rows would hold up the keys.
        return await asyncio.to_thread(self._complete, value)


class _QueryInput(EnteredLine):
    # The footer names the key that keeps the text; Textual's own binding of it is hidden.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "keep", key_display="enter")]

    offered: str = ""
    """A text to go on with; its last character makes way ..."""
    others: frozenset[str] = frozenset()
    """... for one of these, where that is the first that is typed."""

    def insert_text_at_cursor(self, text: str) -> None:
        end = len(self.value)
        if text[:1] in self.others and self.value == self.offered and self.cursor_position == end:
            self.replace(text, end - 1, end)
        else:
            super().insert_text_at_cursor(text)
        self.others = frozenset()


class QueryBar(Horizontal):
    """Hidden until it is opened; what is typed takes effect at once, ``enter`` keeps it, ``esc`` undoes it.

    Args:
        complete: The whole text that a beginning could become, or None.
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
        """What is typed has come to rest, or the mode has changed."""

        def __init__(self, mode: QueryMode, text: str) -> None:
            super().__init__()
            self.mode = mode
            self.text = text

    class Accepted(Changed):
        """The user keeps the text."""

    class Cancelled(Message):
        """The user wants the text back that stood before the bar was opened."""

        def __init__(self, mode: QueryMode) -> None:
            super().__init__()
            self.mode = mode

    class Switched(Changed):
        """The text now does the other thing; ``mode`` is the new one."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__()
        self.mode = QueryMode.FIND
        self._highlighter = _FaultHighlighter()
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
        """Whether the bar is on the screen."""
        return self.has_class("-open")

    @property
    def text(self) -> str:
        """What is typed."""
        return self._input.value

    def open(self, mode: QueryMode, text: str, *, others: frozenset[str] = frozenset()) -> None:
        """Show the bar, which has been mounted, with a text to go on with.

        Args:
            mode: What the text does.
            text: What stands in it.
            others: Characters that, typed first, take the place of the last one in the text: it is only offered.
        """
        if not self._input.is_attached:
            # Here rather than in `compose`, which comes too late for a key that follows at once.
            self.mount(self._label, self._input, self._answer)
        self._input.begin()
        self._set_mode(mode)
        self.answer("")
        self._recalled = None
        with self._input.prevent(Input.Changed):
            self._input.value = text
        self._input.cursor_position = len(text)
        self._input.offered, self._input.others = text, others
        self.add_class("-open")
        self.screen.set_focus(self._input)

    def close(self) -> None:
        """Hide the bar."""
        self._stop_settle_timer()
        self.remove_class("-open")

    def type_on(self) -> None:
        """What was accepted is not carried out: go on to type here."""
        self._input.begin()

    def entry_done(self) -> None:
        """What was accepted has been carried out: what was typed since goes to the rows."""
        self._input.entry.done()

    def answer(self, words: str, *, fault: tuple[int, int] | None = None, wrong: bool = False) -> None:
        """Say how the text is read, or what is wrong with it.

        Args:
            words: A few words, or nothing.
            fault: Which characters are at fault.
            wrong: Whether the words are an error.
        """
        self._highlighter.span = fault
        self._answer.set_class(wrong, "-wrong")
        answer_text = f"! {words}" if wrong else words
        if answer_text != self._answer_text:
            self._answer_text = answer_text
            self._answer.update(Content(answer_text), layout=False)
            # Its width follows the words in steps, so that most of them do not lay out the screen again.
            self._answer.styles.width = -(-cell_width(answer_text) // ANSWER_STEP) * ANSWER_STEP + 2
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
        self._settle_timer = later(self, SETTLE_S, self._settle)

    def _settle(self) -> None:
        if self.is_open:
            self.post_message(self.Changed(self.mode, self.text))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        """Keep the text and go back to the table."""
        self._stop_settle_timer()
        self.remember(self.text)
        self.post_message(self.Accepted(self.mode, self.text))

    def action_cancel(self) -> None:
        """Undo what was typed."""
        self._stop_settle_timer()
        self.post_message(self.Cancelled(self.mode))

    def action_switch_mode(self) -> None:
        """Find instead of filter, or the other way round, with the same text."""
        self._stop_settle_timer()
        self._set_mode(self.mode.other)
        self.post_message(self.Switched(self.mode, self.text))

    def action_history_back(self) -> None:
        """The text before this one in the history."""
        self._recall(-1)

    def action_history_forward(self) -> None:
        """The text after this one in the history."""
        self._recall(1)

    def _recall(self, step: int) -> None:
        if self._recalled is None:
            self._typed = self.text
        place = (len(self._history) if self._recalled is None else self._recalled) + step
        if not 0 <= place <= len(self._history):
            return
        self._recalled = place
        text = self._typed if place == len(self._history) else self._history[place]
        self._input.value = text
        self._input.cursor_position = len(text)
