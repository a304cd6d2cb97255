"""Paths to the ops of a trace: modules, ranges, calling ops and Python functions around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import SLACK_NS, nest, rows_around, thread_codes
from tui.correlation.nesting import NONE, levels, nested
from tui.loaders.kineto.events import by_nesting_order, map_names, matching, no_names
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.correlation.nesting import Nesting

    Ints = npt.NDArray[np.int64]
    import numpy.typing as npt

    from tui.loaders.kineto.events import KinetoEvents


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


_MODULE: Final = "nn.Module: "


@dataclass(frozen=True, slots=True)
class Texts:
    """A path for each op."""

    texts: pl.Series
    """Categorical, null where there is none."""
    cut: bool
    """Whether one lacks a part, because it was too long."""


def groups_of(events: KinetoEvents, marks: pl.Series) -> Texts:
    """What each op ran in, outermost first: modules where they are recorded, else ranges and other ops.

    Args:
        events: Of the trace.
        marks: For each of ``events.ranges`` whether it is left out of the paths.
    """
    is_module = matching(events.python["name"], rf"^{re.escape(_MODULE)}")
    modules = _paths_around(events.python.filter(is_module), events.ops, "/", strip=_MODULE)
    listed = map_names(events.ops["modules"], lambda told: "/".join(reversed(told.strip(";").split(";"))) or None)
    around = _ranges_and_ops(events.ops, events.ranges.filter(~marks))
    texts = pl.select(pl.coalesce(modules.texts, listed, around.texts)).to_series()
    return Texts(texts, modules.cut or around.cut)


def stacks_of(events: KinetoEvents) -> Texts:
    """The Python functions that called each op, innermost first: those around it, else those that its args name."""
    around = _paths_around(events.python, events.ops, ";", innermost_first=True)
    listed = map_names(events.ops["call_stack"], lambda told: told.rstrip(";") or None)
    return Texts(pl.select(pl.coalesce(around.texts, listed)).to_series(), around.cut)


def _ranges_and_ops(ops: pl.DataFrame, ranges: pl.DataFrame) -> Texts:
    """The path to each op through the ranges and ops around it."""
    columns = ("start_ns", "duration_ns", "external_id", "pid", "tid", "name")
    rows = pl.concat([ranges.select(columns), ops.select(columns)])
    # Where an op and a range begin and end together, the one whose id came first is around the other.
    order = by_nesting_order(rows)
    of_rows = rows["name"]
    nesting = _nested(rows, order)
    del rows
    codes, names = _codes(of_rows)
    codes = codes if order is None else codes[order]
    found = paths(nesting, codes, max(len(names), 1))
    parent = np.full(len(codes), NONE, np.int64)
    inner = nesting.parent != NONE
    parent[inner] = found.code[nesting.parent[inner]]
    if order is not None:
        in_input = np.empty(len(codes), np.int64)
        in_input[order] = parent
        parent = in_input
    return _texts(found, names, parent[ranges.height :], "/", innermost_first=False)


def _nested(rows: pl.DataFrame, order: Ints | None) -> Nesting:
    """The nesting of rows in another order; what it is made of is held by nobody else, and so not for long."""

    def placed(values: Ints) -> Ints:
        return values if order is None else values[order]

    return nested(
        placed(thread_codes(rows["pid"], rows["tid"])),
        placed(rows["start_ns"].to_numpy()),
        placed(rows["start_ns"].to_numpy() + rows["duration_ns"].to_numpy()),
        slack=SLACK_NS,
    )


def _paths_around(
    frames: pl.DataFrame, ops: pl.DataFrame, separator: str, *, strip: str = "", innermost_first: bool = False
) -> Texts:
    """The path through ``frames`` to each op, null where none is around it."""
    if frames.is_empty() or ops.is_empty():
        return Texts(no_names(ops.height), False)
    nesting = nest(frames)
    codes, names = _codes(frames["name"])
    found = paths(nesting, codes, len(names))
    row = rows_around(nesting, ops["pid"], ops["tid"], ops["start_ns"]).cast(pl.Int64).fill_null(NONE).to_numpy()
    wanted = np.where(row == NONE, NONE, found.code[row])
    return _texts(found, names.str.strip_prefix(strip), wanted, separator, innermost_first=innermost_first)


def _codes(names: pl.Series) -> tuple[Ints, pl.Series]:
    """For each name a number, and the names that the numbers stand for."""
    known = names.fill_null("")
    distinct = known.unique()
    categories = distinct.to_physical().to_numpy()
    number = np.zeros(int(categories.max(initial=0)) + 1, np.int64)
    number[categories] = np.arange(len(categories))
    return number[known.to_physical().to_numpy()], distinct.cast(pl.String)


def _texts(found: Paths, names: pl.Series, wanted: Ints, separator: str, *, innermost_first: bool) -> Texts:
    """The texts of the paths wanted, null for `NONE`."""
    is_wanted = np.zeros(len(found.parent), np.bool_)
    is_wanted[wanted[wanted != NONE]] = True
    distinct = np.flatnonzero(is_wanted)
    texts, cut = found.texts(names, distinct, separator, innermost_first=innermost_first)
    # The last place is that of `NONE`.
    place = np.full(len(is_wanted) + 1, len(distinct), np.uint32)
    place[distinct] = np.arange(len(distinct))
    return Texts(texts.cast(NAME).extend_constant(None, 1).gather(place[wanted]), cut)
