"""What the details of a kernel, an op or a launch say beyond its figures: slow launches, variants, what if, ncu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from textual.content import Content

from tui.analysis.durations import SLOW
from tui.fmt import count, duration, percent
from tui.model.columns import COLUMNS
from tui.widgets.details.pane import Details, sections, whole_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from tui.analysis.durations import DurationSpread, SlowPart
    from tui.analysis.estimated_savings import Saving
    from tui.analysis.launch_config import ProfilingCommand
    from tui.analysis.occupancy import OccupancyAdvice
    from tui.analysis.ops.op_instances import ArgumentValues, OpCalls
    from tui.model.table_spec import TableSpec
    from tui.widgets.details.pane import Line


PARTS_SHOWN: Final = 4
"""Iterations and streams with slow launches, and GPUs with a gain."""
VARIANTS_SHOWN: Final = 5
SHAPES_SHOWN: Final = 80
"""Characters of input shapes."""


def below(first: Details, blocks: Sequence[tuple[str, Sequence[Line]]]) -> Details:
    """Details with further blocks below them."""
    more = sections(blocks)
    return Details((*first.lines, (0, Content("")), *more.lines)) if more.lines else first


def slow_lines(known: DurationSpread | None) -> list[Line]:
    """Where the slow launches are; nothing where there are none."""
    if known is None or not known.slow:
        return []
    lines: list[Line] = [
        (
            "slow",
            f"{count(known.slow)} of {count(known.launches)}",
            f"took more than {SLOW:g} times the median, {duration(known.slow_ns)} beyond it in all",
        )
    ]
    if known.slow_iterations:
        lines.append(("in iterations", _parts(known.slow_iterations, "in none"), "slow ones of each"))
    if len(known.slow_streams) > 1 or known.slow_streams[0].launches < known.launches:
        lines.append(("on streams", _parts(known.slow_streams, "of no known stream"), "slow ones of each"))
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


def gain_lines(gains: Sequence[Saving]) -> list[Line]:
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


def _each(gain: Saving, gained_ns: int, each_ns: float | None) -> str:
    """What that is for each iteration, else of the time that the GPU was busy."""
    if each_ns is not None and gain.iterations is not None and gain.iterations > 1:
        return f"{duration(round(each_ns))} in each of {count(gain.iterations)} iterations"
    return f"{percent(100 * gained_ns / gain.busy_ns)} of the busy time" if gain.busy_ns else ""


def next_lines(known: ProfilingCommand | None) -> list[Line]:
    """The command that profiles a launch, or why there is none."""
    if known is None:
        return []
    if known.command is None:
        return [("none", known.note, "")]
    return [("command", known.command, ""), ("", known.note, "")]


def advice_lines(advice: Sequence[OccupancyAdvice], waves: float | None = None) -> list[Line]:
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


TEXT_SHOWN: Final = 300
"""Characters of a value; the shapes of an op on hundreds of tensors take thousands."""

FRAMES_SHOWN: Final = 6
"""Source lines of a stack, the innermost ones; module and file show the rest."""

_WHERE_FROM: Final = {
    "recorded": "recorded by the profiler",
    "nvtx": "an NVTX range of the program",
    "inferred": "inferred from the names of kernels",
}


def op_details(spec: TableSpec, row: Mapping[str, Any], calls: OpCalls, *, kernels_ns: int | None) -> Details:
    """What an op cost, what it was called with, and what is around it.

    Args:
        spec: The table of ops.
        row: Its row there.
        calls: What its calls were like.
        kernels_ns: GPU time of the launches in it, each counted once.
    """
    costs = [
        (column.title, whole_value(column.kind, row[column.name]), "")
        for column in spec.columns
        if row[column.name] is not None and column.name != "op_source"
    ]
    if kernels_ns is not None and row["gpu_total_ns"] is not None and kernels_ns != row["gpu_total_ns"]:
        note = "it runs within itself: GPU total has the time of inner calls in both"
        costs.insert(_after(costs, "gpu_total_ns"), ("  each once", duration(kernels_ns), note))
    source = [_WHERE_FROM.get(value.text, value.text) for value in calls.op_source.most]
    around: list[Line] = [("Op from", ", ".join(source), "")] if source else []
    around += _told("Called by", calls.parent)
    around += _told("Calls", calls.children)
    around += _told("Forward op", calls.forward)
    around += _told("Backward op", calls.backward)
    around += _told("Direction", calls.direction)
    around += _told("Thread", calls.thread)
    return sections(
        [
            ("", costs),
            ("Input shapes", _told("", calls.input_shapes)),
            ("Data type", _told("", calls.dtype)),
            ("Ran in", _told("", calls.group)),
            ("Around it", around),
            ("Called from", _stacks(calls.stack)),
        ]
    )


def _after(lines: Sequence[Line], column: str) -> int:
    titles = [label for label, _value, _note in lines]
    return titles.index(COLUMNS[column].title) + 1


def _cut(text: str) -> str:
    """A text, with the number of characters that are left out where it is too long."""
    left = len(text) - TEXT_SHOWN
    return text if left <= 0 else f"{text[:TEXT_SHOWN]}… and {count(left)} characters more"


def _calls(number: int) -> str:
    return f"{count(number)} call{'' if number == 1 else 's'}"


def _told(label: str, values: ArgumentValues) -> list[Line]:
    """One line a value, with the number of its calls; the label stands at the first."""
    lines = [
        (label if not index else "", _cut(value.text), _calls(value.calls)) for index, value in enumerate(values.most)
    ]
    if values.others:
        lines.append(("", f"and {count(values.others)} more", ""))
    return lines


def _stacks(stacks: ArgumentValues) -> list[Line]:
    """The innermost source lines of each stack, one a line."""
    lines: list[Line] = []
    for value in stacks.most:
        frames = [frame.strip() for frame in value.text.split(";") if frame.strip()]
        shown = [_cut(frame) for frame in frames[:FRAMES_SHOWN]] or [""]
        lines += [(_calls(value.calls) if not index else "", frame, "") for index, frame in enumerate(shown)]
        if len(frames) > FRAMES_SHOWN:
            lines.append(("", f"and {len(frames) - FRAMES_SHOWN} further out", ""))
    if stacks.others:
        lines.append(("", f"and {count(stacks.others)} more stacks", ""))
    return lines
