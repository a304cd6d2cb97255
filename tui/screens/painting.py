"""Draws only what can be seen of what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual._compositor import Compositor
from textual.geometry import Region

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.strip import Strip


class SparingCompositor(Compositor):
    """Draws no widget that another hides, and of the others only the lines that are asked for.

    Textual draws all lines of every widget that has a part in the rectangle around what has changed: below a table
    that is each of the empty containers that it fills. Whoever is drawn first wins each cell, so what lies wholly
    behind others cannot be seen.
    """

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        asked = self.size.region if crop is None else crop
        covered: list[Region] = []
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            top, bottom = max(shown.y, asked.y), min(shown.bottom, asked.bottom)
            lines = Region(shown.x, top, shown.width, max(bottom - top, 0))
            seen = lines.intersection(asked)
            if not seen or any(one.contains_region(seen) for one in covered):
                continue
            covered.append(lines)
            yield lines, lines, widget.render_lines(lines.translate((-region.x, -region.y)))
