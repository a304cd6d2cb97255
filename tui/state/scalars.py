"""Values of rows as JSON can hold them, and as they are trusted when they come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

Scalar = str | int | float | bool | None
"""What a value of a row's key can be."""
Key = tuple[Scalar, ...]
"""What tells a row from others, by value: `tui.model.view.TableSpec.key`."""

MOST_TEXT: Final = 16_384
"""Characters of a text in a key; C++ names of some thousand exist."""
MOST_VALUES: Final = 32
"""Values of a key; tables have up to eleven."""


def is_sane(key: Sequence[object]) -> bool:
    """Whether a key can be kept and, where it was read, be used.

    >>> is_sane((0, "kernel", None)), is_sane((float("nan"),)), is_sane((["list"],)), is_sane(("x" * 20_000,))
    (True, False, False, False)
    """
    return len(key) <= MOST_VALUES and all(map(_is_sane, key))


def _is_sane(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, str):
        return len(value) <= MOST_TEXT
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return isinstance(value, float) and abs(value) < float("inf")
