"""The base class of dialogs, choices of values, and the lines of menus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, Static

from tui.textual_patches import dimmed_background, skip_small_layouts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from textual import events
    from textual.app import App, ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size
    from textual.visual import Visual


Result = TypeVar("Result")


@skip_small_layouts
class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A box with a title, a body and a line of keys; ``esc`` closes it without a result."""

    TITLE_TEXT: ClassVar[str] = ""
    KEYS: ClassVar[str] = "esc close"
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    _is_dismissed = False
    _result_later: tuple[Result | None] | None = None
    """The result of a dialog that closes as soon as nothing covers it."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
        & > .dialog--box {
            width: 90%; max-width: 100; height: auto; max-height: 90%;
            border: round $primary; border-title-color: $accent; border-title-style: bold;
            border-subtitle-color: $text-muted; padding: 0 1;
        }
    }
    """

    @property
    def keys_line(self) -> str:
        """The line of keys; `KEYS`, unless they depend on the content."""
        return self.KEYS

    def compose(self) -> ComposeResult:
        """Yield the box around the body."""
        with Vertical(classes="dialog--box") as box:
            box.border_title = Content(self.TITLE_TEXT)
            box.border_subtitle = Content(self.keys_line)
            yield from self.compose_body()

    def compose_body(self) -> ComposeResult:
        """Yield the widgets in the box."""
        yield Static()

    def render(self) -> RenderableType:
        """Render the view below, dimmed; with the terminal's own colors by the dim attribute."""
        return dimmed_background() if self.app.native_ansi_color else super().render()

    def action_leave(self) -> None:
        """Close the dialog without a result."""
        self.dismiss(None)

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close the dialog; further calls have no effect.

        Args:
            result: What the callback of `open_dialog` is called with.
        """
        if self._is_dismissed:
            return AwaitComplete()
        if self.app.screen is not self:
            # The request for a larger terminal covers it; it closes afterwards.
            self._result_later = (result,)
            return AwaitComplete()
        self._is_dismissed = True
        return super().dismiss(result)

    def on_screen_resume(self) -> None:
        """Close if a result came while the dialog was covered."""
        if self._result_later is not None:
            (result,), self._result_later = self._result_later, None
            self.dismiss(result)


def open_dialog(
    app: App[Any], dialog: Screen[Result | None], callback: Callable[[Result | None], None] | None = None
) -> None:
    """Open a dialog over a view, unless another dialog is open.

    Args:
        app: The application.
        dialog: The dialog.
        callback: Called with its result; None if it was left without one.
    """
    if not isinstance(app.screen, ModalScreen):
        # A message about the view would cover the dialog.
        app.clear_notifications()
        app.push_screen(dialog, callback)


class ChoiceLine(Widget, can_focus=True):
    """A choice of one of a few values on a line, with ``←`` and ``→``.

    Args:
        label: The label of the line.
        choices: Value and label of each choice.
        chosen: The initial value.
        id: The widget's id.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("left", "choose(-1)", "Left"),
        ("right,space", "choose(1)", "Right"),
        ("down", "app.focus_next", "Down"),
        ("up", "app.focus_previous", "Up"),
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
        self._index = max(0, next((index for index, (value, _) in enumerate(choices) if value == chosen), 0))

    @property
    def value(self) -> str:
        """The chosen value."""
        return self._choices[self._index][0]

    @value.setter
    def value(self, value: str) -> None:
        self._index = next(index for index, (choice, _) in enumerate(self._choices) if choice == value)
        self.refresh()

    def render(self) -> Visual:
        """Render the label and the choices; the chosen one is highlighted."""
        current = "choiceline--current" if self.has_focus else "choiceline--chosen"
        label = f"{'>' if self.has_focus else ' '} {self._label}"
        parts = [Content.styled(label.ljust(self.LABEL_WIDTH), self.get_visual_style("choiceline--label"))]
        current_line = 0
        for index, (_, y, choice) in enumerate(self._positions(self.content_size.width)):
            if y > current_line:
                current_line = y
                parts.append(Content("\n" + " " * self.LABEL_WIDTH))
            is_chosen = index == self._index
            style = self.get_visual_style(current) if is_chosen else ""
            parts += [Content.styled(f"[{choice}]" if is_chosen else f" {choice} ", style), Content(" ")]
        return Content("").join(parts)

    def _positions(self, width: int) -> list[tuple[int, int, str]]:
        """Return the cell, line and text of each choice; those that do not fit go below the first one."""
        positions = []
        x, y = self.LABEL_WIDTH, 0
        for _, label in self._choices:
            label_cells = len(label) + 2
            if x > self.LABEL_WIDTH and x + label_cells > width:
                x, y = self.LABEL_WIDTH, y + 1
            positions.append((x, y, label))
            x += label_cells + 1
        return positions

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the choices."""
        return self._positions(width)[-1][1] + 1

    def action_choose(self, step: int) -> None:
        """Choose the next (1) or the previous (-1) value."""
        self._index = (self._index + step) % len(self._choices)
        self.refresh()
        self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked value."""
        for index, (x, y, label) in enumerate(self._positions(self.content_size.width)):
            if y == event.y and x <= event.x < x + len(label) + 2:
                self._index = index
                self.refresh()
                self.post_message(self.Chosen(self))


SCROLL_LINES: Final = 3
"""Lines that a menu scrolls when the cursor cannot move further."""


BAR_CHARACTERS: Final = frozenset("█▉▊▋▌▍▎▏ ")
"""The characters that bars consist of."""


class MenuLines(OptionList):
    """Lines in several colors; the selected one is in a single color, except its bar.

    As in tables it has its own background, and is in reverse video if colors are few or none.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"menulines--cursor"}
    DEFAULT_CSS = """
    MenuLines {
        & > .menulines--cursor { background: $selection; text-style: bold; }
        &:ansi > .menulines--cursor { background: ansi_default; text-style: reverse; }
    }
    """

    def action_cursor_down(self) -> None:
        """Move down; after the last line that can be chosen, scroll."""
        if self.highlighted == self._last_enabled_index and self.scroll_offset.y < self.max_scroll_y:
            self.scroll_relative(y=SCROLL_LINES, animate=False)
        else:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Move up; from lines that cannot be chosen to the last one that can."""
        if self.highlighted == self._last_enabled_index and not self._shows_cursor:
            self.scroll_relative(y=-SCROLL_LINES, animate=False)
        else:
            super().action_cursor_up()

    @property
    def _last_enabled_index(self) -> int | None:
        return max((index for index, option in enumerate(self.options) if not option.disabled), default=None)

    @property
    def _shows_cursor(self) -> bool:
        first_line = self.scroll_offset.y
        lines = self._lines[first_line : first_line + self.scrollable_content_region.height]
        return any(option == self.highlighted for option, _ in lines)

    def render_line(self, y: int) -> Strip:
        """Render one line."""
        strip = super().render_line(y)
        metas = [segment.style.meta for segment in strip if segment.style is not None]
        option = metas[0].get("option") if metas else None
        if option is None or option != self.highlighted or not self.has_focus or self.options[option].disabled:
            return strip
        cursor = self.get_component_rich_style("menulines--cursor")

        def under_cursor(segment: Segment) -> Style:
            style = segment.style or Style()
            if not cursor.reverse and BAR_CHARACTERS.issuperset(segment.text):
                return cursor + Style(color=style.color)
            return cursor + Style(bold=True) if style.bold else cursor

        segments = [Segment(segment.text, under_cursor(segment)) for segment in strip]
        return Strip(segments, strip.cell_length).apply_meta({"option": option})
