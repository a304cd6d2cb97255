"""Lines to choose from, the one under the cursor in reverse."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widgets import OptionList

from tui.fitting import ellipsis


class MenuLines(OptionList):
    """Lines of several colours; the one under the cursor is of one alone: the others cannot be read on its ground.

    It is in reverse, as the rows of tables are: without colours there is nothing else to tell it by.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"menulines--cursor"}
    DEFAULT_CSS = """
    MenuLines {
        & > .menulines--cursor { color: $primary; text-style: reverse; }
    }
    """

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        strip = super().render_line(y)
        if getattr(self.app, "ascii_only", False):
            cut = ((segment, segment.text.replace("…", ellipsis(ascii_only=True))) for segment in strip)
            strip = Strip([Segment(text, segment.style) for segment, text in cut], strip.cell_length)
        metas = [segment.style.meta for segment in strip if segment.style is not None]
        option = metas[0].get("option") if metas else None
        if option is None or option != self.highlighted or not self.has_focus or self.options[option].disabled:
            return strip
        cursor = self.get_component_rich_style("menulines--cursor")
        bold = Style(bold=True)
        return Strip(
            [
                Segment(segment.text, cursor + bold if segment.style and segment.style.bold else cursor)
                for segment in strip
            ],
            strip.cell_length,
        ).apply_meta({"option": option})
