"""The paths to the ops of a trace: of modules, of ranges and ops, and of the Python functions that called them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.kineto.categories import mapped, matching, no_names
from tui.loaders.kineto.order import outer_first
from tui.loaders.kineto.tree import paths
from tui.loaders.linking.launches import SLACK_NS, nest, rows_around, thread_codes
from tui.loaders.linking.nesting import NONE, nested
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.kineto.events import Events
    from tui.loaders.kineto.tree import Paths
    from tui.loaders.linking.nesting import Nesting

    Ints = npt.NDArray[np.int64]

_MODULE: Final = "nn.Module: "


@dataclass(frozen=True, slots=True)
class Texts:
    """A path for each op."""

    texts: pl.Series
    """Categorical, null where there is none."""
    cut: bool
    """Whether one lacks a part, because it was too long."""


def groups_of(events: Events, marks: pl.Series) -> Texts:
    """What each op ran in, outermost first: modules where they are recorded, else ranges and other ops.

    Args:
        events: Of the trace.
        marks: For each of ``events.ranges`` whether it is left out of the paths.
    """
    is_module = matching(events.python["name"], rf"^{re.escape(_MODULE)}")
    modules = _paths_around(events.python.filter(is_module), events.ops, "/", strip=_MODULE)
    listed = mapped(events.ops["modules"], lambda told: "/".join(reversed(told.strip(";").split(";"))) or None)
    around = _ranges_and_ops(events.ops, events.ranges.filter(~marks))
    texts = pl.select(pl.coalesce(modules.texts, listed, around.texts)).to_series()
    return Texts(texts, modules.cut or around.cut)


def stacks_of(events: Events) -> Texts:
    """The Python functions that called each op, innermost first: those around it, else those that its args name."""
    around = _paths_around(events.python, events.ops, ";", innermost_first=True)
    listed = mapped(events.ops["call_stack"], lambda told: told.rstrip(";") or None)
    return Texts(pl.select(pl.coalesce(around.texts, listed)).to_series(), around.cut)


def _ranges_and_ops(ops: pl.DataFrame, ranges: pl.DataFrame) -> Texts:
    """The path to each op through the ranges and ops around it."""
    columns = ("start_ns", "duration_ns", "external_id", "pid", "tid", "name")
    rows = pl.concat([ranges.select(columns), ops.select(columns)])
    # Where an op and a range begin and end together, the one whose id came first is around the other.
    order = outer_first(rows)
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
