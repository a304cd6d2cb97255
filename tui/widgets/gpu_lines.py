"""What each GPU's time went for, as a bar a GPU, and what is to be said of several of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.fitting import cell_width, clip, pad
from tui.fmt import duration, percent
from tui.text import plain
from tui.widgets.bars import stacked_bar
from tui.widgets.head_lines import said_lines
from tui.widgets.part_looks import look_of

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = ("compute", "exposed communication", "exposed copies", "idle")
"""What the parts of a bar are."""
SHORT_PARTS: Final = ("compute", "exposed comm", "exposed copies", "idle")
LOOKS: Final[tuple[int | str, ...]] = (0, 1, "memory", "idle")
"""How they look: idle time as in the other charts, by no colour that warns."""
SPAN_FROM: Final = 70
"""In so many cells there is room to say what a share is of."""
MOST: Final = 8
"""More GPUs than this are in the table below alone."""


@dataclass(frozen=True, slots=True)
class GpuBar:
    """One GPU."""

    label: str
    parts_ns: tuple[int, int, int, int]
    """As `PARTS`: they add up to its span."""
    busy_pct: float | None


def gpu_lines(
    bars: Sequence[GpuBar], said: Sequence[tuple[str, str]], width: int, *, ascii_only: bool
) -> list[Content]:
    """A bar a GPU, the legend, and what is said of them.

    Args:
        bars: The GPUs.
        said: Sentences and their styles.
        width: Cells of a line.
        ascii_only: ASCII characters alone.
    """
    labels = [plain(bar.label, ascii_only=ascii_only) for bar in bars]
    label = min(max((cell_width(text) for text in labels), default=0), max(8, width // 3))
    lines = []
    for text, bar in list(zip(labels, bars, strict=True))[:MOST]:
        span = duration(sum(bar.parts_ns), ascii_only=ascii_only)
        of = "of its span of" if width >= SPAN_FROM else "of"
        figure = f"busy {percent(bar.busy_pct, ascii_only=ascii_only)} {of} {span}"
        room = max(0, width - label - cell_width(figure) - 2)
        lines.append(
            Content.assemble(
                (pad(clip(text, label), label), "$text-muted"),
                " ",
                stacked_bar(bar.parts_ns, room, parts=LOOKS, ascii_only=ascii_only),
                f" {figure}",
            )
        )
    if bars:
        names = PARTS if width >= 100 else SHORT_PARTS
        swatches = [
            piece
            for part, name in zip(LOOKS, names, strict=True)
            for piece in (
                (look_of(part).sign(ascii_only=ascii_only), look_of(part).color),
                (f" {name}  ", "$text-muted"),
            )
        ]
        more = f"and {len(bars) - MOST} more below" if len(bars) > MOST else ""
        lines.append(Content.assemble(" " * (label + 1), *swatches, (more, "$text-muted")))
    return [*lines, *said_lines(said, width, ascii_only=ascii_only)]
