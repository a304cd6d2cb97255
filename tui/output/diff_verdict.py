"""PASS, FAIL or NO CHANGE in sentences, with the reason: what was judged, what else is longer, what grew most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui.analysis.compare.changes import CHANGED_API, CHANGED_KERNELS, CHANGED_OPS
from tui.analysis.compare.verdict import LEAST_SPREAD, OF_ITERATIONS, Judgment, spread
from tui.fitting import shorten_symbol
from tui.fmt import count, duration, format_value, signed
from tui.model.columns import ColumnKind
from tui.model.errors import ProftuiError
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.compare.headline import Figure
    from tui.analysis.compare.sides import Sides
    from tui.model.view import TableSpec

NAME_MOST: Final = 60
"""Cells of a name in a sentence, and in Markdown, which does not cut it."""
_GROWING: Final = {CHANGED_KERNELS.name: "kernel", CHANGED_OPS.name: "op", CHANGED_API.name: "API call"}


def no_judgment(sides: Sides) -> ProftuiError:
    """What is said where nothing can be judged."""
    if sides.in_part and not sides.per_iteration:
        return ProftuiError(
            "no verdict: a part of one run is missing, so times of whole runs do not compare",
            f"{sides.in_part} Record again, or compare iterations",
        )
    return ProftuiError(
        "no verdict: the profiles have no time in common to compare",
        "both need iterations, a span or GPU time; inspect says what each holds",
    )


def verdict(judgment: Judgment, sides: Sides, tables: Sequence[tuple[TableSpec, pl.DataFrame]]) -> tuple[str, ...]:
    """Lines on what was judged and how; on other times that are longer; on what grew, however the figure is.

    Args:
        judgment: From `tui.analysis.compare.verdict.judged`.
        sides: What is compared.
        tables: What changed, by kind of thing.
    """
    than = f"than {judgment.than_pct:g}%"
    before, now, _, share = figure_cells(judgment.figure)
    change = f"{judgment.outcome}: {judgment.figure.words} {before} to {now} ({share})"
    limit = f"slower by more {than}" if judgment.fails else f"not slower by more {than}"
    lines = [f"{change}, {limit}"]
    if judgment.figure.name == OF_ITERATIONS:
        lines.append(_spread(judgment, sides))
    if judgment.others:
        longer = ", ".join(f"{figure.words} ({figure_cells(figure)[3]})" for figure in judgment.others)
        lines.append(f"also longer by more {than}: {longer}")
    return (*lines, *filter(None, (_grown(sides, tables), _evened_out(sides, tables))))


def figure_cells(figure: Figure, *, ascii_only: bool = False) -> tuple[str, str, str, str]:
    """Baseline, candidate, their difference, and this as a share; the last is empty where there is none."""
    pct = figure.delta_pct
    share = "" if pct is None else signed(format_value(ColumnKind.PERCENT, pct), pct)
    texts = (text.replace("µ", "u") if ascii_only else text for text in (*figure.texts, share))
    before, now, delta, share = (plain(text, ascii_only=ascii_only) for text in texts)
    return before, now, delta, share


def _spread(judgment: Judgment, sides: Sides) -> str:
    """How far iterations lie apart on each side, and whether the difference may be that alone."""
    both = {"baseline": spread(sides.a), "candidate": spread(sides.b)}
    few = [f"{count(one.iterations)} {when}" for when, one in both.items() if one.low_ns is None]
    if few:
        return f"too few iterations to estimate noise ({', '.join(few)}; {LEAST_SPREAD} needed)"
    halves = ", ".join(f"{when} {duration(one.low_ns)} to {duration(one.high_ns)}" for when, one in both.items())
    noise = both["baseline"].overlaps(both["candidate"]) and judgment.figure.delta != 0
    return f"middle half of the iterations: {halves}{'; the difference may be noise' if noise else ''}"


def _evened_out(sides: Sides, tables: Sequence[tuple[TableSpec, pl.DataFrame]]) -> str:
    """How much longer and shorter GPU work took in all, where one hides the other."""
    changed = next(rows["delta_ns"].drop_nulls().to_list() for spec, rows in tables if spec is CHANGED_KERNELS)
    longer, shorter = [one for one in changed if one > 0], [one for one in changed if one < 0]
    if not longer or not shorter:
        return ""
    per = " per iteration" * sides.per_iteration
    more, less = (f"{count(len(some))} took {duration(abs(sum(some)))}" for some in (longer, shorter))
    return f"of kernels, copies and memsets {more} more{per}, {less} less"


def _grown(sides: Sides, tables: Sequence[tuple[TableSpec, pl.DataFrame]]) -> str:
    """What takes longest of what takes longer, of each kind; empty where nothing does."""
    words = []
    for spec, rows in tables:
        if spec.name in _GROWING:
            for row in rows.filter(rows["delta_ns"] > 0).head(1).iter_rows(named=True):
                name = shorten_symbol(plain(row[spec.pinned]), NAME_MOST)
                of = row["change"] or f"{format_value(ColumnKind.PERCENT, row['delta_pct'])} more"
                what = row.get("kind") or _GROWING[spec.name]
                words.append(f"{what} {name} by {duration(row['delta_ns'])} ({of})")
    return f"grew most{' per iteration' * sides.per_iteration}: {'; '.join(words)}" if words else ""
