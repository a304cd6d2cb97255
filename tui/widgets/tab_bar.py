"""The parts of a view on one line, the one that is shown in brackets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.fitting import cell_width, clip
from tui.widgets.app_services import services_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

HINT: Final = ", . parts"
"""The keys that go from part to part."""
LEAST: Final = 6
"""Cells that a title keeps."""
MORE: Final = 5
"""Cells of the number of parts that are left out."""


class TabBar(Widget):
    """Titles of parts; one that the input cannot feed is dim, and in parentheses where no color is sent.

    Args:
        titles: Of the parts.
        hint: The keys that go from part to part.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    TabBar { height: 1; padding: 0 1; }
    """

    class Chosen(Message):
        """A part was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, titles: Sequence[str], *, hint: str = HINT, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._hint = hint
        self._titles = tuple(titles)
        self._fed: tuple[bool, ...] = tuple(True for _ in titles)
        self._current = 0

    def show(self, current: int, fed: Sequence[bool]) -> None:
        """Show another part as the present one.

        Args:
            current: Its place.
            fed: For each part whether there is anything in it.
        """
        self._current, self._fed = current, tuple(fed)
        self.refresh()

    def _shown_hint(self) -> str:
        """The hint, but for the usual one where the titles need its room: keys alone would say nothing."""
        return "" if self._hint == HINT and self._wanted() > self._room(HINT) else self._hint

    def _wanted(self) -> int:
        return sum(cell_width(title) + 3 for title in self._titles)

    def _room(self, hint: str) -> int:
        return self.content_size.width - cell_width(hint) - 1

    def _shown(self, room: int) -> list[int]:
        """The places of the titles: those without data give way, the ones furthest from the present part first."""
        shown = list(range(len(self._titles)))
        unfed = [place for place in shown if not self._fed[place] and place != self._current]
        for place in sorted(unfed, key=lambda place: (-abs(place - self._current), -place)):
            if sum(cell_width(self._titles[one]) + 3 for one in shown) <= room - MORE:
                break
            shown.remove(place)
        return shown

    def _parts(self) -> list[tuple[int | None, str, str]]:
        """Place, text and style of each part; at last how many are left out."""
        room = self._room(self._shown_hint())
        shown = list(range(len(self._titles))) if self._wanted() <= room else self._shown(room)
        left_out = len(self._titles) - len(shown)
        room -= MORE if left_out else 0
        widths = [cell_width(self._titles[place]) for place in shown]
        most = max(widths)
        # The longest titles give way first.
        while most > LEAST and sum(min(width, most) + 3 for width in widths) > room:
            most -= 1
        # Dim twice, it could hardly be read; the sixteen colors have no gray, and some terminals show nothing as dim.
        unfed_style = "dim" if self.app.native_ansi_color else "$text-muted"
        unfed_signs = "()" if services_of(self).color == "none" else "  "
        parts: list[tuple[int | None, str, str]] = []
        for place in shown:
            title = self._titles[place]
            if place == self._current:
                (left, right), style = "[]", "bold $accent"
            else:
                (left, right), style = ("  ", "") if self._fed[place] else (unfed_signs, unfed_style)
            parts.append((place, f"{left}{clip(title, most)}{right}", style))
        return [*parts, (None, f" +{left_out}", unfed_style)] if left_out else parts

    def render(self) -> Content:
        """The titles, and the keys at the right."""
        pieces: list[Content] = []
        used = 0
        for _, text, style in self._parts():
            pieces += [Content.styled(text, style), Content(" ")]
            used += cell_width(text) + 1
        hint = self._shown_hint()
        gap = max(1, self.content_size.width - used - cell_width(hint))
        return Content("").join([*pieces, Content.styled(" " * gap + hint, "$text-muted")])

    def on_click(self, event: events.Click) -> None:
        """Choose the part under the pointer."""
        at = event.get_content_offset(self)
        if at is None:
            return
        left = 0
        for place, text, _style in self._parts():
            left += cell_width(text) + 1
            if at.x < left:
                if place is not None:
                    self.post_message(self.Chosen(place))
                return
