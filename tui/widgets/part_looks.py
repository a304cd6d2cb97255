"""How the uses of time look: the same fill and colour wherever one is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PartLook:
    """What a part is told apart by, with colours and without."""

    fill: str
    ascii_fill: str
    color: str

    def sign(self, *, ascii_only: bool) -> str:
        """The fill that the terminal can show."""
        return self.ascii_fill if ascii_only else self.fill

    @property
    def tone(self) -> int:
        """How much of a cell the fill covers, in percent: a cell that is filled in part has no pattern, but its tone.

        >>> LOOKS["tensor"].tone, LOOKS["idle"].tone
        (100, 25)
        """
        return _TONES.get(self.fill, HALF)


HALF: Final = 50
_TONES: Final = {"█": 100, "▓": 75, "░": 25}
TONES: Final = (25, HALF, 75)
"""Those of patterns."""


LOOKS: Final = {
    "tensor": PartLook("█", "#", "$primary"),
    "other": PartLook("▓", "=", "$secondary"),
    "unknown": PartLook("▞", "%", "$accent"),
    "memory": PartLook("▒", "+", "$warning"),
    "memset": PartLook("▦", "s", "$warning"),
    "um": PartLook("▩", "u", "$warning"),
    "dataloader": PartLook("▤", "d", "$error"),
    "io": PartLook("▧", "f", "$secondary"),
    "cpu": PartLook("▚", "c", "$foreground"),
    "idle": PartLook("░", ".", "$text-muted"),
    "whole": PartLook("▥", "n", "$foreground"),
}
"""The uses of time, with and without tensor cores first; ``memory`` is copies where sets of memory are apart, and
``whole`` is time of which nothing else is known."""

_FILLS: Final = ("█", "▓", "▒", "░", "▚", "▤", "▥", "▞")
_ASCII_FILLS: Final = ("#", "=", "+", "-", ":", ".", "%", "o")
_COLORS: Final = (
    "$primary",
    "$secondary",
    "$warning",
    "$error",
    "$accent",
    "$text-muted",
    "$primary",
    "$secondary",
)
_IN_ORDER: Final = tuple(PartLook(*each) for each in zip(_FILLS, _ASCII_FILLS, _COLORS, strict=True))


def look_of(part: int | str) -> PartLook:
    """How a part looks: one of `LOOKS` by its name, of any other whole by its place in it.

    >>> look_of("cpu").fill, look_of(0).fill, look_of(8).fill
    ('▚', '█', '█')
    """
    return LOOKS[part] if isinstance(part, str) else _IN_ORDER[part % len(_IN_ORDER)]
