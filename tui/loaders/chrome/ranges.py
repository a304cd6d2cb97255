"""A plain file cut into ranges of whole events, so that whoever decodes one reads it by himself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.loaders.chrome.file_range import Range
from tui.loaders.chrome.scanning import BOUNDARY_IN_BYTES

if TYPE_CHECKING:
    from tui.loaders.source import Source

_FIRST_LOOK: Final = 1 << 14
_LAST_LOOK: Final = 1 << 22
"""Bytes in which the end of an event is looked for, at first and at most."""


class Ranges:
    """Cuts what is left of a file, from its end of what has been read on."""

    def __init__(self, source: Source, begin: int, *, seam: int) -> None:
        """Cut from a place on, which is the beginning of an event.

        Args:
            source: Of which `Source.position` is known.
            begin: The place.
            seam: How many bytes before the size that is wanted a range may end.
        """
        self._source = source
        self._seam = seam
        self.end = begin
        """Where the next range begins."""

    def next(self, size: int) -> Range | None:
        """The next range, of about so many bytes; None where the rest has to be read otherwise, from `end` on."""
        status = self._source.status
        if status is None or self.end + size > status.st_size:
            return None
        look = self.end + size - self._seam
        width = _FIRST_LOOK
        while width <= _LAST_LOOK:
            found = BOUNDARY_IN_BYTES.search(self._source.read_at(look, look + width))
            if found is not None:
                begin, self.end = self.end, look + found.end()
                return Range(self._source.name, status.st_dev, status.st_ino, begin, self.end)
            width *= 4
        return None
