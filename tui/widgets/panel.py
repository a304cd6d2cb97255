"""A titled panel of a screen, and lines of text above a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.geometry import NULL_OFFSET, Region, Size
from textual.layout import Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from tui.text import begin_sentence, plain
from tui.text_width import ELLIPSIS, cell_width, clip

if TYPE_CHECKING:
    from textual.layout import ArrangeResult


class EdgePassed(Message):
    """The cursor was moved beyond the last or the first line of a panel.

    Args:
        step: 1 downwards, -1 upwards.
    """

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step


class Panel(Vertical):
    """A title on a rule, with widgets below it.

    Args:
        title: A text of the program.
        children: The widgets below the title.
        subtitle: A muted text after the title.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    Panel {
        height: auto;
        border-top: solid $panel;
        border-title-color: $accent;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        margin: 0 0 1 0;
        &:focus-within { border-top: solid $primary; }
    }
    """

    def __init__(self, title: str, *children: Widget, subtitle: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        self.title = title
        """The title; not from the profile."""
        self._subtitle = subtitle
        self._note = ""
        """The first line of the user's note on the panel."""
        self._show_title()

    def change_title(self, title: str) -> None:
        """Change the title.

        Args:
            title: The text, already without control characters.
        """
        self.title = title
        self._show_title()

    def change_subtitle(self, subtitle: str) -> None:
        """Change the text after the title."""
        self._subtitle = subtitle
        self._show_title()

    def show_note(self, text: str) -> None:
        """Show the user's note on the panel, or none.

        Args:
            text: A line.
        """
        if text != self._note:
            self._note = text
            self._show_title()

    def on_resize(self) -> None:
        """Fit the subtitle into the new width."""
        self._show_title()

    def _show_title(self) -> None:
        note_cells = cell_width(plain(self._note)) + 4 if self._note else 0
        cells = self.size.width - cell_width(self.title) - 2 - note_cells
        subtitle = fit_parts(self._subtitle, cells) if self.size.width else self._subtitle
        parts = [(f"  {subtitle}", "not bold $text-muted")] if subtitle else []
        # The mark of rows with a note.
        parts += [(f"  # {plain(self._note)}", "not bold $warning-ink on $warning-background")] if self._note else []
        self.border_title = Content.assemble(self.title, *parts)


def fit_parts(text: str, cells: int) -> str:
    """Shorten a list of facts to a number of cells: the last facts are dropped as a whole.

    >>> fit_parts("of 8 ms; 3 warnings, 50 clean", 29), fit_parts("of 8 ms; 3 warnings, 50 clean", 28)
    ('of 8 ms; 3 warnings, 50 clean', 'of 8 ms; 3 warnings, …')
    """
    parts = re.split(r"(?<=[,;]) ", text)
    shortened = text
    while cell_width(shortened) > cells and len(parts) > 1:
        parts.pop()
        shortened = " ".join([*parts, ELLIPSIS])
    return shortened


MIN_COLUMN_CELLS: Final = 56
"""The minimum width of a column if there are several."""
MAX_COLUMNS: Final = 3
"""More columns would be too narrow to read."""
COLUMN_GAP: Final = 1
"""Blanks between columns."""


def column_widths(width: int) -> list[int]:
    """Return the width of each column.

    >>> column_widths(78), column_widths(118), column_widths(198)
    ([78], [59, 58], [66, 65, 65])
    """
    number = max(1, min(MAX_COLUMNS, (width + COLUMN_GAP) // (MIN_COLUMN_CELLS + COLUMN_GAP)))
    total_width = width - COLUMN_GAP * (number - 1)
    return [total_width // number + (1 if index < total_width % number else 0) for index in range(number)]


class ColumnsLayout(Layout):
    """Places each widget, in order, in the shortest column."""

    name = "columns"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Return the position of each widget."""
        parent.pre_layout(self)
        viewport = parent.app.viewport_size
        widths = column_widths(size.width)
        heights = [0] * len(widths)
        placements = []
        for child in children:
            column = heights.index(min(heights))
            width = widths[column]
            box = child._get_box_model(
                Size(width, size.height), viewport, Fraction(width), Fraction(size.height), greedy=greedy
            )
            left = sum(widths[:column]) + COLUMN_GAP * column
            height = int(box.height)
            region = Region(left + box.margin.left, heights[column] + box.margin.top, int(box.width), height)
            placements.append(WidgetPlacement(region, NULL_OFFSET, box.margin, child))
            heights[column] += height + box.margin.height
        return placements


class Columns(Widget):
    """A container as high as its longest column."""

    DEFAULT_CSS = """
    Columns { height: auto; width: 1fr; }
    """

    def __init__(self, *children: Widget, id: str | None = None) -> None:  # noqa: A002
        super().__init__(*children, id=id)
        # Textual's CSS can only name its own layouts.
        self._columns = ColumnsLayout()

    @property
    def layout(self) -> Layout:
        """The layout in columns."""
        return self._columns


class NoteLine(Static):
    """A text, wrapped if necessary; an empty text takes no line."""

    DEFAULT_CSS = """
    NoteLine { height: auto; max-height: 2; padding: 0 1; color: $text-muted; display: none; }
    """

    def show(self, text: str) -> None:
        """Change the text."""
        self.display = bool(text)
        self.update(Content(plain(text)))


class WarningLine(NoteLine):
    """What is missing and what to do about it; an empty text takes no line."""

    DEFAULT_CSS = """
    WarningLine { color: $text-error; }
    """


class OfferLine(Static):
    """A text on one line; it is cut before the key that accepts the offer.

    Args:
        offer: The text.
        key_hint: The key that accepts the offer.
    """

    DEFAULT_CSS = """
    OfferLine {
        dock: bottom; layer: offer; height: 1; margin: 0 0 1 0; padding: 0 1;
        background: $panel; color: $accent; text-style: bold;
    }
    """

    def __init__(self, offer: str, key_hint: str) -> None:
        super().__init__()
        self._offer = offer
        self._key_hint = key_hint

    def render(self) -> Content:
        """Render the line."""
        key_hint = f": {self._key_hint}"
        offer = plain(self._offer)
        offer_width = max(1, self.content_size.width - len(key_hint))
        return Content(clip(offer, offer_width) + key_hint)


Draw = Callable[[int], Sequence[Content]]
"""Returns the lines for a width in cells."""


def sentence_lines(sentences: Sequence[tuple[str, str]], width: int) -> list[Content]:
    """Wrap sentences with their styles; each begins with a capital letter."""
    contents = [Content.styled(begin_sentence(plain(text)), style) for text, style in sentences]
    return [line for content in contents for line in content.wrap(max(20, width))]


class HeadLines(Widget):
    """Lines that a function returns; hidden if there are none."""

    DEFAULT_CSS = """
    HeadLines { height: auto; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw: Draw | None = None

    def show(self, draw: Draw | None) -> None:
        """Show other lines."""
        self._draw = draw
        self.display = draw is not None
        self.refresh(layout=True)

    def _lines(self, width: int) -> Sequence[Content]:
        return self._draw(width) if self._draw is not None and width > 0 else ()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._lines(width))

    def render(self) -> Content:
        """Render the lines."""
        return Content("\n").join(self._lines(self.content_size.width))
