"""Facts that go down a tree of nested events, and the paths through it; all events of a level at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.linking.nesting import NONE, levels

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.linking.nesting import Nesting

    Ints = npt.NDArray[np.int64]

LONGEST_PATH: Final = 16384
"""Bytes of a path, more than Python's deepest stacks take; what would be longer lacks its innermost parts."""
MOST_LEVELS: Final = 1000
"""Names of a path, as many as Python's own limit; what lies deeper has the path to the deepest of them."""
_MOST_TEXT: Final = 1 << 28
"""Bytes of all paths together: no more memory than that, whatever the input."""

_LARGE_TABLE: Final = 1 << 16
"""Numbers below it are looked up faster than sorted, however few there are."""


def inherited(nesting: Nesting, own: Ints) -> Ints:
    """For each interval its own value, or that of the nearest one around it which has one, or `NONE`."""
    values = own.copy()
    for rows in islice(levels(nesting.depth), 1, None):
        parent = nesting.parent[rows]
        around = np.where(parent == NONE, NONE, values[parent])
        values[rows] = np.where(values[rows] == NONE, around, values[rows])
    return values


@dataclass(frozen=True, slots=True)
class Paths:
    """The distinct paths from the outermost interval to others."""

    code: Ints
    """For each interval the number of the path that ends with it."""
    parent: Ints
    """For each path the path without its last name, or `NONE`."""
    name: Ints
    """For each path its last name, as an index of the names given."""
    depth: Ints
    """For each path how many names come before the last."""
    cut: bool
    """Whether there are intervals deeper than `MOST_LEVELS`."""

    def texts(self, names: pl.Series, wanted: Ints, separator: str, *, innermost_first: bool) -> tuple[pl.Series, bool]:
        """The texts of paths.

        Args:
            names: What ``name`` is the index of.
            wanted: The paths of which the text is needed, any number of times.
            separator: Stands between the names.
            innermost_first: Whether the last name comes first.

        Returns:
            A text for each of ``wanted``, and whether some lack a part because they would be too long.
        """
        by_level = list(levels(self.depth))
        needed = np.zeros(len(self.parent), np.bool_)
        needed[wanted] = True
        for codes in reversed(by_level[1:]):
            needed[self.parent[codes[needed[codes]]]] = True
        parts: list[pl.Series] = []
        place = np.full(len(self.parent), NONE, np.int64)
        size = count = 0
        cut = self.cut
        above_at = 0
        for level, of_level in enumerate(by_level):
            codes = of_level[needed[of_level]]
            if not len(codes):
                break
            last = names.gather(self.name[codes])
            if level:
                before = parts[-1].gather(place[self.parent[codes]] - above_at)
                joined = last + separator + before if innermost_first else before + separator + last
                fits = (joined.str.len_bytes() <= LONGEST_PATH) & (size < _MOST_TEXT)
                cut = cut or not fits.all()
                last = joined.zip_with(fits, before)
            place[codes] = count + np.arange(len(codes))
            above_at = count
            count += len(codes)
            size += int(last.str.len_bytes().sum())
            parts.append(last)
        texts = pl.concat(parts) if parts else pl.Series([], dtype=pl.String)
        return texts.gather(place[wanted]), cut


def paths(nesting: Nesting, name: Ints, names: int) -> Paths:
    """Number the distinct paths to intervals.

    Args:
        nesting: Of the intervals.
        name: For each interval its name, as a number below ``names``.
        names: How many names there are.
    """
    code = np.full(len(name), NONE, np.int64)
    parents, lasts, depths = [], [], []
    begin = end = 0
    for level, rows in enumerate(levels(nesting.depth)):
        # All that has a parent has it one level up: its path is one of those from `begin` to `end`.
        around = nesting.parent[rows]
        if level >= MOST_LEVELS:
            code[rows] = code[around]
            continue
        key = name[rows] if not level else (code[around] - begin) * names + name[rows]
        distinct, which = _distinct(key, max(end - begin, 1) * names)
        parents.append(distinct // names + begin if level else np.full(len(distinct), NONE))
        lasts.append(distinct % names)
        depths.append(np.full(len(distinct), level))
        begin, end = end, end + len(distinct)
        code[rows] = begin + which
    cut = bool(nesting.depth.max(initial=0) >= MOST_LEVELS)
    return Paths(code, np.concatenate(parents), np.concatenate(lasts), np.concatenate(depths), cut)


def _distinct(keys: Ints, below: int) -> tuple[Ints, Ints]:
    """The distinct keys, sorted, and for each key which of them it is; all are from 0 and below a number."""
    if below > _LARGE_TABLE + len(keys):
        distinct, which = np.unique(keys, return_inverse=True)
        return distinct, which
    place = np.zeros(below, np.int64)
    place[keys] = 1
    distinct = np.flatnonzero(place)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[keys]
