"""A line above a view of which something could not be worked out."""

from __future__ import annotations

from tui.widgets.note_line import NoteLine


class LackLine(NoteLine):
    """What is lacking, and what to do about it; without any it takes no line."""

    DEFAULT_CSS = """
    LackLine { color: $text-error; }
    """
