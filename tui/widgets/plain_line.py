"""A line to type in, as every dialog and bar has it."""

from __future__ import annotations

from textual.reactive import Reactive
from textual.widgets import Input


class PlainLine(Input):
    """Textual's own, with a cursor that stands still: a blinking one sends bytes for ever, over slow lines too."""

    cursor_blink = Reactive(False, init=False)
