"""What the dialogs have in common: a titled box in the middle of the screen, and lines to choose values on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size
    from textual.visual import Visual

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A box with a title, a body and a line that names the keys; ``esc`` leaves it without a result."""

    TITLE_TEXT: ClassVar[str] = ""
    KEYS: ClassVar[str] = "esc leave"
    KEYS_IN_ASCII: ClassVar[str] = ""
    """The same without arrows, where there are any."""
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]
    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
        & > .dialog--box {
            width: 90%; max-width: 100; height: auto; max-height: 90%;
            border: round $primary; border-title-color: $accent; border-title-style: bold;
            border-subtitle-color: $text-muted; padding: 0 1;
            &.-ascii { border: ascii $primary; }
        }
    }
    """

    def compose(self) -> ComposeResult:
        """The box around the body."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        with Vertical(classes="dialog--box -ascii" if ascii_only else "dialog--box") as box:
            box.border_title = Content(self.TITLE_TEXT)
            box.border_subtitle = Content(self.KEYS_IN_ASCII or self.KEYS if ascii_only else self.KEYS)
            yield from self.compose_body()

    def compose_body(self) -> ComposeResult:
        """What the box holds."""
        yield Static()

    def action_leave(self) -> None:
        """Leave without a result."""
        self.dismiss(None)


class ChoiceLine(Widget, can_focus=True):
    """One of a few values beside each other: ``←`` and ``→`` choose.

    Args:
        label: What is chosen.
        choices: Value and words of each choice.
        chosen: The value that stands at first.
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("left,h", "choose(-1)", "Left"),
        ("right,l,space", "choose(1)", "Right"),
        ("down,j", "app.focus_next", "Down"),
        ("up,k", "app.focus_previous", "Up"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choiceline--label", "choiceline--chosen", "choiceline--current"}
    LABEL_WIDTH: ClassVar = 11
    DEFAULT_CSS = """
    ChoiceLine {
        height: auto;
        & > .choiceline--label { color: $text-muted; }
        & > .choiceline--chosen { color: $accent; text-style: bold underline; }
        & > .choiceline--current { color: $primary; text-style: bold; }
    }
    """

    class Chosen(Message):
        """Another value was chosen."""

        def __init__(self, line: ChoiceLine) -> None:
            super().__init__()
            self.line = line

    def __init__(self, label: str, choices: Sequence[tuple[str, str]], chosen: str, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._label = label
        self._choices = choices
        self._index = max(0, next((place for place, (value, _) in enumerate(choices) if value == chosen), 0))

    @property
    def value(self) -> str:
        """The value that is chosen."""
        return self._choices[self._index][0]

    def render(self) -> Visual:
        """Label and choices; the chosen one stands out, and more so with the focus."""
        current = "choiceline--current" if self.has_focus else "choiceline--chosen"
        label = f"{'>' if self.has_focus else ' '} {self._label}"
        parts = [Content.styled(label.ljust(self.LABEL_WIDTH), self.get_visual_style("choiceline--label"))]
        line = 0
        for place, (_, y, words) in enumerate(self._places(self.content_size.width)):
            if y > line:
                line = y
                parts.append(Content("\n" + " " * self.LABEL_WIDTH))
            is_chosen = place == self._index
            style = self.get_visual_style(current) if is_chosen else ""
            parts += [Content.styled(f"[{words}]" if is_chosen else f" {words} ", style), Content(" ")]
        return Content("").join(parts)

    def _places(self, width: int) -> list[tuple[int, int, str]]:
        """Where each choice stands (cell and line), with its words: what does not fit goes below the first one."""
        places = []
        x, y = self.LABEL_WIDTH, 0
        for _, words in self._choices:
            needed = len(words) + 2
            if x > self.LABEL_WIDTH and x + needed > width:
                x, y = self.LABEL_WIDTH, y + 1
            places.append((x, y, words))
            x += needed + 1
        return places

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the choices need."""
        return self._places(width)[-1][1] + 1

    def action_choose(self, step: int) -> None:
        """Choose the next (1) or the previous (-1) value."""
        self._index = (self._index + step) % len(self._choices)
        self.refresh()
        self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Choose the value that was clicked."""
        for place, (x, y, words) in enumerate(self._places(self.content_size.width)):
            if y == event.y and x <= event.x < x + len(words) + 2:
                self._index = place
                self.refresh()
                self.post_message(self.Chosen(self))
