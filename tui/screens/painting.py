"""Draws only what can be seen of what has changed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from textual._compositor import Compositor
from textual.geometry import Region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from textual.strip import Strip


class SparingCompositor(Compositor):
    """Draws no widget that another hides, and of the others only the lines that have changed.

    Textual draws all lines of every widget that has a part in the rectangle around all that has changed: below a table
    that is each of the empty containers that it fills, and between a row and the status line it is the whole table.
    Whoever is drawn first wins each cell, so what lies wholly behind others cannot be seen.
    """

    _has_changed: Callable[[int], bool] | None = None
    """Tells of a line of the screen whether it is drawn; None: all are."""

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        self._has_changed = is_rendered_line
        try:
            return super()._render_chops(crop, is_rendered_line)
        finally:
            self._has_changed = None

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        for band in self._bands(self.size.region if crop is None else crop):
            covered: list[Region] = []
            for widget, (region, clip) in self.visible_widgets.items():
                shown = region.intersection(clip)
                top, bottom = max(shown.y, band.y), min(shown.bottom, band.bottom)
                lines = Region(shown.x, top, shown.width, max(bottom - top, 0))
                seen = lines.intersection(band)
                if not seen or any(one.contains_region(seen) for one in covered):
                    continue
                covered.append(lines)
                yield lines, lines, widget.render_lines(lines.translate((-region.x, -region.y)))

    def _bands(self, crop: Region) -> Iterator[Region]:
        """The parts of a rectangle that are drawn: neighbouring lines together."""
        if self._has_changed is None:
            yield crop
            return
        for is_drawn, lines in groupby(crop.line_range, self._has_changed):
            if is_drawn:
                first, *others = lines
                yield Region(crop.x, first, crop.width, 1 + len(others))
