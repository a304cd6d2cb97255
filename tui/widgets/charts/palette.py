"""How kinds of work look: the same fill and color wherever one is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KindLook:
    """How a kind of work is told from others: by color, and where colors are few by a pattern too."""

    fill: str
    """A pattern; `tui.widgets.output_filters` draws it as a solid block, or in ASCII, where that is better."""
    color: str
    """A variable of the theme."""


LOOKS: Final = {
    "tensor": KindLook("█", "$kind-tensor"),
    "other": KindLook("▓", "$kind-other"),
    "unknown": KindLook("▞", "$kind-unknown"),
    "memory": KindLook("▒", "$kind-memory"),
    "memset": KindLook("▦", "$kind-memset"),
    "um": KindLook("▩", "$kind-um"),
    "communication": KindLook("▨", "$kind-communication"),
    "dataloader": KindLook("▤", "$kind-dataloader"),
    "io": KindLook("▧", "$kind-io"),
    "cpu": KindLook("▚", "$kind-cpu"),
    "idle": KindLook("░", "$kind-idle"),
    "whole": KindLook("▥", "$kind-whole"),
}
"""Kinds of work; ``memory`` is copies where sets of memory are apart, and ``whole`` is time of which nothing else is
known."""

_IN_ORDER: Final = tuple(KindLook(fill, f"$group-{place}") for place, fill in enumerate("█▓▒░▚▤▥▞"))
"""For parts of a whole that are no kinds of work, as types of op: from light to dark, as they are from large to small.
"""


def look_of(part: int | str) -> KindLook:
    """How a part looks: one of `LOOKS` by its name, of any other whole by its place in it.

    >>> look_of("cpu").fill, look_of(0).fill, look_of(8).fill
    ('▚', '█', '█')
    """
    return LOOKS[part] if isinstance(part, str) else _IN_ORDER[part % len(_IN_ORDER)]
