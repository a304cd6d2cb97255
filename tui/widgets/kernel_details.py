"""What the details of a kernel, an op or a launch say beyond its figures: slow launches, variants, what if, ncu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.analysis.duration_spread import SLOW
from tui.fmt import count, duration, percent
from tui.widgets.details import Details, sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tui.analysis.duration_spread import SlowPart, Spread
    from tui.analysis.launches.profile_next import ProfileNext
    from tui.analysis.occupancy.advice import Advice
    from tui.analysis.what_if import Gain
    from tui.widgets.details import Line

PARTS_SHOWN: Final = 4
"""Iterations and streams with slow launches, and GPUs with a gain."""
VARIANTS_SHOWN: Final = 5
SHAPES_SHOWN: Final = 80
"""Characters of input shapes."""


def below(first: Details, blocks: Sequence[tuple[str, Sequence[Line]]]) -> Details:
    """Details with further blocks below them."""
    more = sections(blocks)
    return Details((*first.lines, (0, Content("")), *more.lines)) if more.lines else first


def slow_lines(told: Spread | None) -> list[Line]:
    """Where the slow launches are; nothing where there are none."""
    if told is None or not told.slow:
        return []
    lines: list[Line] = [
        (
            "slow",
            f"{count(told.slow)} of {count(told.launches)}",
            f"took more than {SLOW:g} times the median, {duration(told.slow_ns)} beyond it in all",
        )
    ]
    if told.slow_iterations:
        lines.append(("in iterations", _parts(told.slow_iterations, "in none"), "slow ones of each"))
    if len(told.slow_streams) > 1 or told.slow_streams[0].launches < told.launches:
        lines.append(("on streams", _parts(told.slow_streams, "of no known stream"), "slow ones of each"))
    return lines


def _parts(parts: Sequence[SlowPart], none: str) -> str:
    shown = [
        f"{none if part.number is None else part.number}: {count(part.slow)} of {count(part.launches)}"
        for part in parts[:PARTS_SHOWN]
    ]
    left = len(parts) - len(shown)
    return ", ".join(shown) + (f", and {count(left)} more" if left else "")


def variant_lines(table: pl.DataFrame) -> list[Line]:
    """The variants with most time; nothing where there is one only."""
    if table.height < 2:
        return []
    lines: list[Line] = []
    for row in table.head(VARIANTS_SHOWN).iter_rows(named=True):
        shape = f"{row['grid'] or 'unknown grid'} x {row['block'] or 'unknown block'}"
        calls = f"{count(row['calls'])} call{'' if row['calls'] == 1 else 's'}"
        shapes = row["input_shapes"]
        cut = shapes if shapes is None or len(shapes) <= SHAPES_SHOWN else f"{shapes[:SHAPES_SHOWN]}…"
        note = f"{calls}, median {duration(row['median_ns'])}, longest {duration(row['max_ns'])}"
        lines.append((duration(row["total_ns"]), shape, f"{note}; input {cut}" if cut else note))
    if table.height > VARIANTS_SHOWN:
        lines.append(("", f"and {count(table.height - VARIANTS_SHOWN)} more", ""))
    return lines


def gain_lines(gains: Sequence[Gain]) -> list[Line]:
    """What each GPU would gain, and what that rests on; nothing where no start times are known."""
    lines: list[Line] = []
    for gain in gains[:PARTS_SHOWN]:
        where = f" on GPU {gain.device if gain.device is not None else '?'}" if len(gains) > 1 else ""
        lines += [
            (f"gone{where}", duration(gain.alone_ns), _each(gain, gain.alone_ns, gain.alone_per_iteration_ns)),
            (f"2x faster{where}", duration(gain.half_ns), _each(gain, gain.half_ns, gain.half_per_iteration_ns)),
        ]
    if gains:
        hidden = sum(gain.time_ns - gain.alone_ns for gain in gains)
        beside = f"{duration(hidden)} of it ran beside other work or itself" if hidden > 0 else ""
        lines.append(("basis", "time in which nothing else ran on the GPU; all else as it was", beside))
    return lines


def _each(gain: Gain, gained_ns: int, each_ns: float | None) -> str:
    """What that is for each iteration, else of the time that the GPU was busy."""
    if each_ns is not None and gain.iterations is not None and gain.iterations > 1:
        return f"{duration(round(each_ns))} in each of {count(gain.iterations)} iterations"
    return f"{percent(100 * gained_ns / gain.busy_ns)} of the busy time" if gain.busy_ns else ""


def next_lines(told: ProfileNext | None) -> list[Line]:
    """The command that profiles a launch, or why there is none."""
    if told is None:
        return []
    if told.command is None:
        return [("none", told.note, "")]
    return [("command", told.command, ""), ("", told.note, "")]


def advice_lines(advice: Sequence[Advice], waves: float | None = None) -> list[Line]:
    """What would raise the occupancy of a launch; nothing does whose blocks are all on the GPU at once."""
    if advice and waves is not None and waves <= 1:
        return [("", "only a larger grid would: all blocks of this one are on the GPU at once", "")]
    lines: list[Line] = []
    for change in advice:
        parts = []
        if change.threads_per_block is not None:
            parts.append(f"{change.threads_per_block} threads per block")
        if change.registers is not None:
            parts.append(f"at most {change.registers} registers per thread")
        if change.shared_bytes is not None:
            parts.append(f"at most {count(change.shared_bytes)} B of shared memory per block")
        same = "registers and shared memory as they are" if change.threads_per_block is not None else ""
        blocks = f"{change.blocks_per_sm} block{'' if change.blocks_per_sm == 1 else 's'} per SM"
        lines.append((percent(change.occupancy_pct), " and ".join(parts), "; ".join(filter(None, (blocks, same)))))
    return lines
