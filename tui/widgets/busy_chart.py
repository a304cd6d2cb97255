"""How busy the GPUs were over time: a line or a few of columns for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widget import Widget

from tui.fitting import cell_width, pad
from tui.fmt import duration, percent
from tui.text import plain
from tui.widgets.spark import ASCII_LEVELS, LEVELS

if TYPE_CHECKING:
    from textual.geometry import Size

MOST_GPUS: Final = 8
TALL: Final = 3
"""Lines of the chart of a single GPU where there is room."""


@dataclass(frozen=True, slots=True)
class BusyLane:
    """One GPU of the chart."""

    label: str
    busy_pct: float | None
    shares: Callable[[int], Sequence[float]]
    """For a number of steps, the share of each in which the GPU was busy."""


class BusyChart(Widget):
    """Lanes of columns from idle (empty) to busy (full), from the first activity to the last."""

    DEFAULT_CSS = """
    BusyChart { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lanes: tuple[BusyLane, ...] = ()
        self._span_ns = 0

    def show(self, lanes: Sequence[BusyLane], span_ns: int) -> None:
        """Show other lanes, all over the same span of time."""
        self._lanes = tuple(lanes)
        self._span_ns = span_ns
        self.display = bool(lanes)
        self.refresh(layout=True)

    @property
    def _lines(self) -> int:
        return TALL if len(self._lanes) == 1 and self.screen.has_class("-tall") else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The lanes, and a line of time below."""
        return min(len(self._lanes), MOST_GPUS) * self._lines + 1

    def render(self) -> Content:
        """Draw the lanes and the time below them."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        lanes = self._lanes[:MOST_GPUS]
        heads = [self._head(lane, ascii_only=ascii_only) for lane in lanes]
        label = max((cell_width(part) for head in heads for part in head), default=0)
        room = max(8, self.content_size.width - label - 1)
        drawn = []
        for lane, head in zip(lanes, heads, strict=True):
            for place, line in enumerate(area(lane.shares(room), self._lines, ascii_only=ascii_only)):
                text = pad(head[place] if place < len(head) else "", label)
                drawn.append(Content.assemble((text, "$text-muted"), " ", (line, "$primary")))
        more = len(self._lanes) - len(lanes)
        note = f"busy over time{f', {more} more GPUs not drawn' if more else ''}"
        end = duration(self._span_ns, ascii_only=ascii_only)
        axis = "0" + note.center(max(0, room - 1 - cell_width(end))) + end
        return Content("\n").join([*drawn, Content.styled(" " * (label + 1) + axis, "$text-muted")])

    def _head(self, lane: BusyLane, *, ascii_only: bool) -> list[str]:
        """What stands before the lines of a lane: name and share, below each other where there is room."""
        parts = [plain(lane.label), percent(lane.busy_pct, ascii_only=ascii_only)]
        return parts if self._lines > 1 else [" ".join(parts)]


def area(shares: Sequence[float], lines: int, *, ascii_only: bool = False) -> list[str]:
    """Columns of a few lines each, the top line first.

    >>> area([0, 0.5, 1], 2)
    ['  █', ' ██']
    """
    levels = ASCII_LEVELS if ascii_only else LEVELS
    steps = len(levels)
    heights = [0 if share <= 0 else max(1, round(share * steps * lines)) for share in shares]
    drawn = []
    for line in reversed(range(lines)):
        base = line * steps
        drawn.append("".join(" " if height <= base else levels[min(steps, height - base) - 1] for height in heights))
    return drawn
