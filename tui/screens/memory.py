"""Memory: copies and memsets by direction, kind of memory and size; unified memory; the allocator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual.content import Content

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities
from tui.analysis.allocator import (
    ALLOCATION_EVENTS,
    ALLOCATOR_ITERATIONS,
    ALLOCATORS,
    AT_THE_END,
    MEMORY_ALLOCATIONS,
    MEMORY_BLOCKS,
    MEMORY_DEVICES,
    MEMORY_PEAK,
    MEMORY_SEGMENTS,
    allocations,
    allocator_iterations,
    allocator_segments,
    allocators,
    is_memory,
    iteration_starts,
    memory_allocations,
    memory_curve,
    memory_devices,
    memory_peak,
    peak_words,
    segment_blocks,
)
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.copies import (
    SINGLE_TRANSFERS,
    TINY_RUNS,
    TRANSFER_SIZES,
    TRANSFERS,
    UNIFIED,
    single_transfers,
    tiny_runs,
    transfer_share,
    transfer_sizes,
    transfers,
    unified_memory,
)
from tui.analysis.needs import ALLOCATIONS, COPIES, SNAPSHOT, START_TIMES, UNIFIED_MEMORY
from tui.fmt import brief_duration, brief_percent, count, size
from tui.keys import Scope, bindings_for
from tui.screens.base import ViewScreen
from tui.screens.kernels import details_of_launch, work_details
from tui.screens.linked_tables import NO_ROW_ABOVE, Level, Row
from tui.screens.tabs import Tab, TabbedView
from tui.text import begin_sentence, plain
from tui.text_width import cell_width, pad
from tui.widgets.charts.bars import area_lines
from tui.widgets.panel import sentence_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.panel import Draw
    from tui.widgets.table.pane import TablePane


TALL_CURVE_LINES: Final = 4
"""The height of the curve of a single memory."""
MAX_CURVES: Final = 6
"""More memories are listed only in the table below."""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """The allocated memory of one device over time."""

    label: str
    peak_bytes: int
    first_ns: int | None
    last_ns: int | None
    """None: the input has the order of events, no times."""
    maxima: Callable[[int], npt.NDArray[np.float64]]
    """A function from a number of steps to the maximum allocated bytes in each."""
    marks: tuple[tuple[int, int], ...]
    """Number and start of each iteration."""


def memory_lines(curves: Sequence[MemoryCurve], width: int) -> list[Content]:
    """Return the curves, each scaled to its own peak; below a single one the starts of iterations.

    Args:
        curves: The memories.
        width: Cells of a line.
    """
    shown = curves[:MAX_CURVES]
    lines = TALL_CURVE_LINES if len(shown) == 1 else 1
    heads = [[plain(curve.label), size(curve.peak_bytes)] for curve in shown]
    texts = [head if lines > 1 else [" ".join(head)] for head in heads]
    label_width = max((cell_width(text) for head in texts for text in head), default=0)
    curve_width = max(8, width - label_width - 1)
    contents: list[Content] = []
    for curve, head in zip(shown, texts, strict=True):
        shares = curve.maxima(curve_width) / max(1, curve.peak_bytes)
        for index, curve_line in enumerate(area_lines(shares.tolist(), lines)):
            text = pad(head[index] if index < len(head) else "", label_width)
            contents.append(Content.assemble((text, "$text-muted"), " ", (curve_line, "$kind-memory")))
    if len(shown) == 1:
        contents.append(Content.styled(" " * (label_width + 1) + _axis(shown[0], curve_width), "$text-muted"))
    elif len(curves) > MAX_CURVES:
        contents.append(Content.styled(f"and {len(curves) - MAX_CURVES} more below", "$text-muted"))
    return contents


def _axis(curve: MemoryCurve, width: int) -> str:
    """Return the starts of iterations, as far as their numbers fit; else the duration."""
    if curve.first_ns is None or curve.last_ns is None:
        note = "in event order, times not recorded"
        return note.rjust(width) if len(note) <= width else ""
    span = curve.last_ns - curve.first_ns
    cells = [" "] * width
    free = 0
    for number, start_ns in curve.marks:
        position = max(0, round((start_ns - curve.first_ns) / span * width)) if span else 0
        text = f"╵{number}"
        if free <= position and position + len(text) <= width:
            cells[position : position + len(text)] = text
            free = position + len(text) + 1
    note = f" iterations; {brief_duration(span)} in all" if curve.marks else brief_duration(span)
    line = "".join(cells).rstrip()
    if len(line) + cell_width(note) <= width:
        return line + " " * (width - len(line) - cell_width(note)) + note
    return line


def _equals(row: Row, *names: str) -> list[pl.Expr]:
    """Return the condition for rows with the values of a row in some columns."""
    return [
        pl.col(name).cast(pl.String).eq_missing(pl.lit(row[name], pl.String))
        if isinstance(row[name], str) or name in ("copy_kind", "src_memory", "dst_memory", "kind", "name")
        else pl.col(name).eq_missing(pl.lit(row[name]))
        for name in names
    ]


NO_ROWS: Final = pl.lit(False)


def copies_of_transfer(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the single copies behind a direction and kinds of memory."""
    row = selected.get("transfers")
    if row is None:
        return single_transfers(profile, NO_ROWS)
    return single_transfers(
        profile, *_equals(row, "session", "device", "kind", "copy_kind", "src_memory", "dst_memory")
    )


def copies_of_size(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the single copies of a direction and size."""
    row = selected.get("transfer_sizes")
    if row is None:
        return single_transfers(profile, NO_ROWS)
    return single_transfers(profile, *_equals(row, "session", "copy_kind"), size_class=row["size_class"])


def copies_of_run(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the copies of a run of tiny ones."""
    row = selected.get("tiny_runs")
    if row is None:
        return single_transfers(profile, NO_ROWS)
    within = pl.col("start_ns").is_between(row["start_ns"], row["start_ns"] + row["duration_ns"])
    return single_transfers(profile, *_equals(row, "session", "device", "stream", "copy_kind"), within)


def unified_work(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the single migrations and faults of a name."""
    row = selected.get("unified")
    if row is None:
        return filtered_activities(profile)
    return filtered_activities(profile, pl.col("kind") == "um", *_equals(row, "session", "device", "name"))


def iterations_of_memory(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the activity of the allocator in each iteration."""
    row = selected.get("allocators")
    if row is None:
        return allocator_iterations(profile, session=-1)
    return allocator_iterations(profile, session=row["session"], place=row["place"], device=row["device"])


def events_of_iteration(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the single allocations and releases of an iteration."""
    row = selected.get("allocator_iterations")
    if row is None:
        return allocations(profile).clear()
    iteration = pl.col("iteration").eq_missing(pl.lit(row["iteration"], pl.Int32))
    return allocations(profile).filter(is_memory(row["session"], row["place"], row["device"]), iteration)


def no_copies(profile: Profile) -> str:
    """Return why there are no copies."""
    return missing_data_text(profile, COPIES)


def no_single_copies(profile: Profile) -> str:
    """Return why there are no single copies."""
    if profile["activities"].is_empty():
        totals = f"this profile has totals, not individual copies: {recording_advice(profile, START_TIMES)}"
        return why_no_copies(profile) or totals
    return NO_ROW_ABOVE


def no_runs(profile: Profile) -> str:
    """Return why there are no runs of tiny copies."""
    if profile["activities"].is_empty():
        return no_single_copies(profile)
    return "No bursts of at least three consecutive copies smaller than 64 KiB on a stream."


def why_no_unified_memory(profile: Profile) -> str:
    """Return why there is no unified memory."""
    has_rows = (profile["activities"]["kind"] == "um").any() or (profile["summary"]["section"] == "um").any()
    return "" if has_rows else missing_data_text(profile, UNIFIED_MEMORY)


def why_no_allocations(profile: Profile) -> str:
    """Return why there is no data of an allocator."""
    return "" if profile["memory_events"].height else missing_data_text(profile, ALLOCATIONS)


def why_no_copies(profile: Profile) -> str:
    """Return why a memory snapshot has no copies; empty for other inputs."""
    return no_copies(profile) if profile["memory_segments"].height and profile["activities"].is_empty() else ""


def why_no_snapshot(profile: Profile) -> str:
    """Return why there is no snapshot of the allocator."""
    return "" if profile["memory_segments"].height else missing_data_text(profile, SNAPSHOT)


def allocations_of_stack(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the allocations of a stack at the peak."""
    row, rows = selected.get("memory_peak"), memory_allocations(profile)
    if row is None:
        return rows.clear()
    is_same_stack = (
        pl.col(name).cast(pl.String).eq_missing(pl.lit(row[name], pl.String)) for name in ("call_site", "stack")
    )
    return rows.filter(
        "at_peak", pl.col("session") == row["session"], pl.col("device").eq_missing(row["device"]), *is_same_stack
    )


def blocks_of_segment(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the blocks of a segment."""
    row = selected.get("segments_held")
    return segment_blocks(profile, row["session"] if row else -1, row["segment"] if row else -1)


def segments_of_device(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the segments of a GPU."""
    row, rows = selected.get("memory_devices"), allocator_segments(profile)
    if row is None:
        return rows.clear()
    return rows.filter(pl.col("session") == row["session"], pl.col("device").eq_missing(row["device"]))


def stack_crumb(row: Row) -> str:
    """Return a stack for the path."""
    return str(row["call_site"] or "no call site")


def _transfer_sentence(row: Mapping[str, Any], unified_ns: int) -> str:
    """Return a sentence about copies, memsets and unified memory, as far as there are any."""
    parts = []
    if row["copies_ns"]:
        parts.append(f"copies {brief_duration(row['copies_ns'])}, {brief_percent(row['copies_pct'])} of the GPU time")
    if unified_ns and row["gpu_ns"]:
        share = brief_percent(100 * unified_ns / row["gpu_ns"])
        parts.append(f"unified memory {brief_duration(unified_ns)} with page faults, {share} of the GPU time")
    if row["sets_ns"]:
        parts.append(f"memsets {brief_duration(row['sets_ns'])}")
    return begin_sentence("; ".join(parts))


def copies_head(profile: Profile) -> Draw | None:
    """Return sentences about the share of copies in the GPU time, one per session."""
    rows = transfer_share(profile)
    has_several_sessions = rows.height > 1
    unified = dict(unified_memory(profile).group_by("session").agg(pl.col("total_ns").sum()).iter_rows())
    sentences = [
        (f"Session {row['session']}: " if has_several_sessions else "")
        + _transfer_sentence(row, unified.get(row["session"]) or 0)
        for row in rows.head(4).iter_rows(named=True)
        if row["gpu_ns"] is not None and (row["copies_ns"] or row["sets_ns"] or unified.get(row["session"]))
    ]
    if rows.height > 4:
        sentences.append(f"and {count(rows.height - 4)} more sessions")
    muted = [(text, "$text-muted") for text in sentences]
    return (lambda width: sentence_lines(muted, width)) if sentences else None


def allocator_head(profile: Profile) -> Draw | None:
    """Return a function that draws the memory curve of each GPU, else of the CPU."""
    rows = allocators(profile).drop_nulls("peak_bytes")
    gpu_rows = rows.filter(pl.col("place") == "GPU")
    rows = gpu_rows if gpu_rows.height else rows
    has_several_sessions = rows["session"].n_unique() > 1
    curves = [_curve(profile, row, has_several_sessions=has_several_sessions) for row in rows.iter_rows(named=True)]
    if not curves:
        return None
    return lambda width: memory_lines(curves, width)


def live_memory_head(profile: Profile) -> Draw | None:
    """Return a function that draws the memory curves, and below them when the listed allocations are live."""
    curves = allocator_head(profile)
    if why_no_snapshot(profile):
        return curves
    moment = peak_words(profile)
    note = "; no trace is recorded, so the peak is unknown" if moment == AT_THE_END else ""
    text = f"Allocations live {moment}, by call stack{note}"
    return lambda width: [*(curves(width) if curves else ()), *sentence_lines([(text, "$text-muted")], width)]


def _curve(profile: Profile, row: Row, *, has_several_sessions: bool) -> MemoryCurve:
    memory = {"session": row["session"], "place": row["place"], "device": row["device"]}
    times = profile["memory_events"].filter(is_memory(**memory))["start_ns"]
    name = " ".join(str(part) for part in (row["place"] or "memory", row["device"]) if part is not None)
    return MemoryCurve(
        f"session {row['session']} {name}" if has_several_sessions else name,
        row["peak_bytes"],
        times[0],
        times[-1],
        lambda steps: memory_curve(profile, steps=steps, **memory),
        tuple(iteration_starts(profile, session=row["session"])),
    )


def copy_crumb(row: Row) -> str:
    """Return a copy for the path."""
    return f"copy {row['activity']}"


def direction_crumb(row: Row) -> str:
    """Return a direction for the path."""
    return str(row["copy_kind"] or "unknown direction")


def _allocations_by_site(profile: Profile, _selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return single allocations; those without a line of Python last."""
    return memory_allocations(profile).sort(pl.col("call_site").is_null(), maintain_order=True)


class MemoryScreen(TabbedView, ViewScreen):
    """Copies by direction, by size and in runs; unified memory; the allocator."""

    VIEW = "memory"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "copies",
            "Memcpy and memset",
            (
                Level("transfers", TRANSFERS, lambda profile, _: transfers(profile), direction_crumb, no_copies),
                Level("copies_of_transfer", SINGLE_TRANSFERS, copies_of_transfer, copy_crumb, no_single_copies),
            ),
            why_no_copies,
            copies_head,
        ),
        Tab(
            "sizes",
            "By size",
            (
                Level(
                    "transfer_sizes",
                    TRANSFER_SIZES,
                    lambda profile, _: transfer_sizes(profile),
                    lambda row: f"{direction_crumb(row)} {row['size_class']}",
                    no_single_copies,
                ),
                Level("copies_of_size", SINGLE_TRANSFERS, copies_of_size, copy_crumb, no_single_copies),
            ),
            why_no_copies,
        ),
        Tab(
            "runs",
            "Small-copy bursts",
            (
                Level(
                    "tiny_runs",
                    TINY_RUNS,
                    lambda profile, _: tiny_runs(profile),
                    lambda row: f"{row['calls']} copies",
                    no_runs,
                ),
                Level("copies_of_run", SINGLE_TRANSFERS, copies_of_run, copy_crumb, no_runs),
            ),
            why_no_copies,
        ),
        Tab(
            "unified",
            "Unified memory",
            (
                Level(
                    "unified",
                    UNIFIED,
                    lambda profile, _: unified_memory(profile),
                    lambda row: str(row["name"]),
                    why_no_unified_memory,
                ),
                Level("unified_work", ACTIVITY_TABLE, unified_work, copy_crumb, no_single_copies),
            ),
            why_no_unified_memory,
        ),
        Tab(
            "allocator",
            "Allocator",
            (
                Level(
                    "allocators",
                    ALLOCATORS,
                    lambda profile, _: allocators(profile),
                    lambda row: str(row["place"] or "memory"),
                    why_no_allocations,
                ),
                Level(
                    "allocator_iterations",
                    ALLOCATOR_ITERATIONS,
                    iterations_of_memory,
                    lambda row: "outside" if row["iteration"] is None else f"iteration {row['iteration']}",
                    why_no_allocations,
                    2,
                ),
                Level(
                    "allocation_events",
                    ALLOCATION_EVENTS,
                    events_of_iteration,
                    lambda row: f"#{row['number']}",
                    why_no_allocations,
                    2,
                ),
            ),
            why_no_allocations,
            allocator_head,
        ),
        Tab(
            "peak",
            "Live memory",
            (
                Level(
                    "memory_peak", MEMORY_PEAK, lambda profile, _: memory_peak(profile), stack_crumb, why_no_snapshot
                ),
                Level(
                    "allocations_of_stack",
                    MEMORY_ALLOCATIONS,
                    allocations_of_stack,
                    lambda row: f"allocation {row['allocation']}",
                    why_no_snapshot,
                ),
            ),
            why_no_snapshot,
            live_memory_head,
        ),
        Tab(
            "held",
            "Segments",
            (
                Level(
                    "memory_devices",
                    MEMORY_DEVICES,
                    lambda profile, _: memory_devices(profile),
                    lambda row: f"GPU {row['device']}",
                    why_no_snapshot,
                ),
                Level(
                    "segments_held",
                    MEMORY_SEGMENTS,
                    segments_of_device,
                    lambda row: f"segment {row['segment']}",
                    why_no_snapshot,
                ),
                Level(
                    "segment_blocks",
                    MEMORY_BLOCKS,
                    blocks_of_segment,
                    lambda row: f"block {row['address']:#x}",
                    why_no_snapshot,
                ),
            ),
            why_no_snapshot,
        ),
        Tab(
            "lifetimes",
            "Lifetimes",
            (
                Level(
                    "memory_allocations",
                    MEMORY_ALLOCATIONS,
                    _allocations_by_site,
                    lambda row: f"allocation {row['allocation']}",
                    why_no_snapshot,
                ),
            ),
            why_no_snapshot,
        ),
    )
    HELP: ClassVar = (
        "Memcpy and memset by direction and memory kind, by size, and bursts of small copies. . switches "
        "tabs.\nRates above the GPU's peak are marked and excluded from achieved rates.\nAllocator: PyTorch's "
        "memory events. The curve is allocated memory over time, on the CPU clock.\nLive memory: "
        "allocations that are live at the peak of active memory (without a trace: at the end), by call stack."
        "\nSegments: memory that the allocator holds at the end, with its free blocks.\nLifetimes: allocations, "
        "largest first; those without a recorded Python line last."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the launch of a single copy."""
        if pane.spec is SINGLE_TRANSFERS:
            return details_of_launch(self, row["activity"], pane.frame)
        return work_details(self, pane, row)
