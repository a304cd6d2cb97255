"""Dialogs on terminals with sixteen colors or none: the view below them is dimmed, not blank.

Reason: Textual 8.2.8 mixes the colors of the view below with that of the dialog, and blanks it where the terminal's own
colors are used, which cannot be mixed.

Gain: what a dialog is about stays in sight.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual._context import visible_screen_stack
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

DIM = Style(dim=True)


class DimScreen(BackgroundScreen):
    """The screen below, dim, and without what a click on it would do."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        """Dim each segment."""
        for segment in segments:
            text, style, control = segment
            yield segment if control else Segment(text, (style or Style()).clear_meta_and_links() + DIM)


def dimmed_background() -> RenderableType:
    """The background of a dialog that is being drawn."""
    try:
        below = visible_screen_stack.get().pop()
    except LookupError:
        below = None
    color = Color(0, 0, 0, ansi=-1)
    return Text() if below is None else DimScreen(below, color)
