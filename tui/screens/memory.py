"""Memory: copies and sets by direction, kind of memory and size; unified memory; what the allocator gave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.gpu_work import GPU_WORK, gpu_work
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import ALLOCATIONS, COPIES, START_TIMES, UNIFIED_MEMORY
from tui.analysis.transfers.allocations import (
    ALLOCATION_EVENTS,
    ALLOCATOR_ITERATIONS,
    ALLOCATORS,
    allocations,
    allocator_iterations,
    allocators,
    iteration_marks,
    memory_curve,
    memory_of,
)
from tui.analysis.transfers.copy_runs import TINY_RUNS, tiny_runs
from tui.analysis.transfers.moves import SINGLE_TRANSFERS, single_transfers
from tui.analysis.transfers.tables import TRANSFER_SIZES, TRANSFERS, transfer_share, transfer_sizes, transfers
from tui.analysis.transfers.unified import UNIFIED, unified_memory
from tui.fmt import count, duration, percent
from tui.screens.detailed import NOTHING_ABOVE
from tui.screens.linked import Level, Row
from tui.screens.parts import Part, PartsScreen
from tui.widgets.head_lines import said_lines
from tui.widgets.memory_lines import MemoryCurve, memory_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.head_lines import Draw
    from tui.widgets.table_pane import TablePane


def _same(row: Row, *names: str) -> list[pl.Expr]:
    """The rows that have the values of a row in some columns."""
    return [
        pl.col(name).cast(pl.String).eq_missing(pl.lit(row[name], pl.String))
        if isinstance(row[name], str) or name in ("copy_kind", "src_memory", "dst_memory", "kind", "name")
        else pl.col(name).eq_missing(pl.lit(row[name]))
        for name in names
    ]


NOTHING: Final = pl.lit(False)


def copies_of_transfer(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The single copies behind a direction and kinds of memory."""
    row = above.get("transfers")
    if row is None:
        return single_transfers(profile, NOTHING)
    return single_transfers(profile, *_same(row, "session", "device", "kind", "copy_kind", "src_memory", "dst_memory"))


def copies_of_size(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The single copies of a direction and size."""
    row = above.get("transfer_sizes")
    if row is None:
        return single_transfers(profile, NOTHING)
    return single_transfers(profile, *_same(row, "session", "copy_kind"), size_class=row["size_class"])


def copies_of_run(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The copies of a run of tiny ones."""
    row = above.get("tiny_runs")
    if row is None:
        return single_transfers(profile, NOTHING)
    within = pl.col("start_ns").is_between(row["start_ns"], row["start_ns"] + row["duration_ns"])
    return single_transfers(profile, *_same(row, "session", "device", "stream", "copy_kind"), within)


def unified_work(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The single migrations and faults of a name."""
    row = above.get("unified")
    if row is None:
        return gpu_work(profile)
    return gpu_work(profile, pl.col("kind") == "um", *_same(row, "session", "device", "name"))


def iterations_of_memory(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """What the allocator did in each iteration."""
    row = above.get("allocators")
    if row is None:
        return allocator_iterations(profile, session=-1)
    return allocator_iterations(profile, session=row["session"], place=row["place"], device=row["device"])


def events_of_iteration(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The single allocations and releases of an iteration."""
    row = above.get("allocator_iterations")
    if row is None:
        return allocations(profile).clear()
    iteration = pl.col("iteration").eq_missing(pl.lit(row["iteration"], pl.Int32))
    return allocations(profile).filter(memory_of(row["session"], row["place"], row["device"]), iteration)


def no_copies(profile: Profile) -> str:
    """Why there are no copies."""
    return why_none(profile, COPIES)


def no_single_copies(profile: Profile) -> str:
    """Why there are no single copies."""
    if profile["activities"].is_empty():
        return f"this input holds totals, not single copies: {how_to_record(profile, START_TIMES)}"
    return NOTHING_ABOVE


def no_runs(profile: Profile) -> str:
    """Why there are no runs of tiny copies."""
    if profile["activities"].is_empty():
        return no_single_copies(profile)
    return "no three copies smaller than 64 KiB follow each other on a stream"


def lacks_unified(profile: Profile) -> str:
    """Why there is no unified memory."""
    held = (profile["activities"]["kind"] == "um").any() or (profile["summary"]["section"] == "um").any()
    return "" if held else why_none(profile, UNIFIED_MEMORY)


def lacks_allocations(profile: Profile) -> str:
    """Why there is nothing of an allocator."""
    return "" if profile["memory_events"].height else why_none(profile, ALLOCATIONS)


def copies_head(profile: Profile) -> Draw | None:
    """How much of the GPU time copies take, a line a session."""
    rows = transfer_share(profile)
    several = rows.height > 1
    said = [
        (f"session {row['session']}: " if several else "")
        + f"copies {duration(row['copies_ns'])}, {percent(row['copies_pct'])} of the GPU time"
        + (f"; sets {duration(row['sets_ns'])}" if row["sets_ns"] else "")
        for row in rows.head(4).iter_rows(named=True)
        if row["gpu_ns"] is not None
    ]
    if rows.height > 4:
        said.append(f"and {count(rows.height - 4)} more sessions")
    muted = [(text, "$text-muted") for text in said]
    return (lambda width, ascii_only: said_lines(muted, width, ascii_only=ascii_only)) if said else None


def allocator_head(profile: Profile) -> Draw | None:
    """The curve of each GPU's memory; of the CPU's where there is none of a GPU."""
    rows = allocators(profile).drop_nulls("peak_bytes")
    of_gpus = rows.filter(pl.col("place") == "GPU")
    rows = of_gpus if of_gpus.height else rows
    several = rows["session"].n_unique() > 1
    curves = [_curve(profile, row, several=several) for row in rows.iter_rows(named=True)]
    if not curves:
        return None
    return lambda width, ascii_only: memory_lines(curves, width, ascii_only=ascii_only)


def _curve(profile: Profile, row: Row, *, several: bool) -> MemoryCurve:
    which = {"session": row["session"], "place": row["place"], "device": row["device"]}
    times = profile["memory_events"].filter(memory_of(**which))["start_ns"]
    name = " ".join(str(part) for part in (row["place"] or "memory", row["device"]) if part is not None)
    return MemoryCurve(
        f"session {row['session']} {name}" if several else name,
        row["peak_bytes"],
        times[0],
        times[-1],
        lambda steps: memory_curve(profile, steps=steps, **which),
        tuple(iteration_marks(profile, session=row["session"])),
    )


def copy_crumb(row: Row) -> str:
    """A copy in the path."""
    return f"copy {row['activity']}"


def direction(row: Row) -> str:
    """A direction in the path."""
    return str(row["copy_kind"] or "unknown direction")


class MemoryScreen(PartsScreen):
    """Copies by direction, by size and in runs; unified memory; the allocator."""

    VIEW = "memory"
    PARTS: ClassVar = (
        Part(
            "copies",
            "Copies and sets",
            (
                Level("transfers", TRANSFERS, lambda profile, _: transfers(profile), direction, no_copies),
                Level("copies_of_transfer", SINGLE_TRANSFERS, copies_of_transfer, copy_crumb, no_single_copies),
            ),
            head=copies_head,
        ),
        Part(
            "sizes",
            "By size",
            (
                Level(
                    "transfer_sizes",
                    TRANSFER_SIZES,
                    lambda profile, _: transfer_sizes(profile),
                    lambda row: f"{direction(row)} {row['size_class']}",
                    no_single_copies,
                ),
                Level("copies_of_size", SINGLE_TRANSFERS, copies_of_size, copy_crumb, no_single_copies),
            ),
        ),
        Part(
            "runs",
            "Tiny, in runs",
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
        ),
        Part(
            "unified",
            "Unified memory",
            (
                Level(
                    "unified",
                    UNIFIED,
                    lambda profile, _: unified_memory(profile),
                    lambda row: str(row["name"]),
                    lacks_unified,
                ),
                Level("unified_work", GPU_WORK, unified_work, copy_crumb, no_single_copies),
            ),
            lacks_unified,
        ),
        Part(
            "allocator",
            "Allocator",
            (
                Level(
                    "allocators",
                    ALLOCATORS,
                    lambda profile, _: allocators(profile),
                    lambda row: str(row["place"] or "memory"),
                    lacks_allocations,
                ),
                Level(
                    "allocator_iterations",
                    ALLOCATOR_ITERATIONS,
                    iterations_of_memory,
                    lambda row: "outside" if row["iteration"] is None else f"iteration {row['iteration']}",
                    lacks_allocations,
                    2,
                ),
                Level(
                    "allocation_events",
                    ALLOCATION_EVENTS,
                    events_of_iteration,
                    lambda row: f"#{row['number']}",
                    lacks_allocations,
                    2,
                ),
            ),
            lacks_allocations,
            allocator_head,
        ),
    )
    HELP: ClassVar = (
        "Copies and sets by direction and kind of memory, by size, and tiny ones that follow each other; . goes on.\n"
        "Rates faster than the GPU's memory are marked and left out of what was achieved; no ceiling says why.\n"
        "Allocator is what PyTorch's own memory events say: the curve is what was allocated, on the CPU's clock."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Of a single copy its launch."""
        return self.launch(row["activity"]) if pane.spec is SINGLE_TRANSFERS else super().details(pane, row)
