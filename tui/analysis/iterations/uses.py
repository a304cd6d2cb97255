"""What the time of each iteration was used for: kernels with and without tensor cores, memory work, the host, idle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.breakdown import HOST_CATEGORIES, host_times, tells_memory
from tui.analysis.gpu_time.gpu_uses import GpuUse, gpu_uses
from tui.analysis.gpu_time.interval_sets import union_of
from tui.analysis.gpu_time.placed import placed_timelines
from tui.analysis.iterations.tables import ITERATIONS, iterations
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.analysis.gpu_time.breakdown import Category
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile

GPU_USES: Final = ("tensor_core_ns", "other_kernel_ns", "unknown_kernel_ns", "memory_ns")
"""The parts of the time in which a GPU had work."""
HOST_USES: Final = ("dataloader_ns", "io_ns", "cpu_ns")
"""The parts of the rest in which the host is known to have done something; null where the input does not tell it."""
USES: Final = (*GPU_USES, *HOST_USES, "other_ns")
"""The parts of the time of an iteration in the order in which an instant counts as one of them; last the rest."""

_KEYS: Final = ("session", "iteration", "piece")
_NONE: Final = np.zeros(0, np.int64)
_OF_USE: Final = dict(zip(GpuUse, GPU_USES, strict=True))
_OF_HOST: Final = dict(zip(HOST_CATEGORIES, HOST_USES, strict=True))

ITERATIONS_WITH_USES: Final = TableSpec(
    ITERATIONS.name,
    ITERATIONS.title,
    (
        *ITERATIONS.columns,
        *columns(*USES),
        replace(columns("aggregated")[0], absent=""),
    ),
    key=ITERATIONS.key,
    weight=ITERATIONS.weight,
    pinned=ITERATIONS.pinned,
    pinned_least=ITERATIONS.pinned_least,
)
"""The table of the view of iterations, and of its report."""


def iterations_with_uses(profile: Profile, chosen: Aggregation | None = None) -> pl.DataFrame:
    """The rows of `iterations`, each with what its time was used for.

    Columns: those of `iterations`, tensor_core_ns, other_kernel_ns, unknown_kernel_ns (kernels of which nothing says
    whether they use tensor cores) and memory_ns, which add up to busy_ns; dataloader_ns, io_ns and cpu_ns (the host, as
    in `gpu_time.breakdown`) and other_ns, which add up to idle_ns; aggregated (whether it is one of those chosen; null
    where no range is chosen).

    Each instant from the start of an iteration to its end belongs to the first of these that is on then, on any GPU of
    the session and of whatever iteration; they are null where busy_ns is. What the input does not tell is null, too:
    what the host did, whose time is in other_ns; copies, where kernels alone are recorded; whether kernels use tensor
    cores, in an iteration where that is known of none.

    Args:
        profile: With the iterations that are to be told.
        chosen: Those that the other views show.
    """
    rows, whole = iterations(profile), profile.all_iterations or profile
    if whole is profile:
        rows = rows.hstack(_uses(profile))
    else:
        of_all = iterations(whole).select(_KEYS).hstack(_uses(whole))
        rows = rows.join(of_all, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    if chosen is None or not chosen.is_part:
        inside = pl.lit(None, pl.Boolean)
    else:
        number = pl.col("iteration")
        inside = number.is_not_null()
        inside &= True if chosen.first is None else number >= chosen.first
        inside &= True if chosen.last is None else number <= chosen.last
    return rows.with_columns(inside.alias("aggregated"))


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "ranges")
def _uses(profile: Profile) -> pl.DataFrame:
    """Time of each use of the GPUs, for each row of `iterations`."""
    rows = iterations(profile).select("session", "start_ns", "duration_ns", "busy_ns")
    use = gpu_uses(profile)
    lines: dict[int, list[Timeline]] = {}
    for line in placed_timelines(profile):
        lines.setdefault(line.session, []).append(line)
    host, memory_told = host_times(profile), tells_memory(profile)
    # Rows of a session stand one after the other.
    parts = [
        _of_session(part, lines.get(session, []), use, host.get(session, {}), told_memory=session in memory_told)
        for (session,), part in rows.group_by("session", maintain_order=True)
    ]
    schema = dict.fromkeys(USES, pl.Int64)
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)


def _of_session(
    rows: pl.DataFrame,
    lines: Sequence[Timeline],
    use: npt.NDArray[np.int8],
    host: Mapping[Category, IntervalSet],
    *,
    told_memory: bool,
) -> pl.DataFrame:
    starts = rows["start_ns"].fill_null(0).to_numpy()
    ends = starts + rows["duration_ns"].fill_null(0).to_numpy()
    known = rows["busy_ns"].is_not_null()
    found: dict[str, pl.Series] = {}
    so_far = np.zeros(rows.height, np.int64)
    present = {kind: any((line.of(use) == kind).any() for line in lines) for kind in GpuUse}
    untold = set() if told_memory else {GpuUse.MEMORY}
    for kind, name in _OF_USE.items():
        if kind in untold:
            found[name] = _untold(name, rows.height)
            continue
        now = so_far
        if present[kind]:
            on = [line.of(use) <= kind for line in lines]
            union = union_of(
                np.concatenate([line.starts[rows_on] for line, rows_on in zip(lines, on, strict=True)]),
                np.concatenate([line.ends[rows_on] for line, rows_on in zip(lines, on, strict=True)]),
            )
            now = union.within(starts, ends)
        found[name] = _where(known, name, now - so_far)
        so_far = now
    covered = union_of(
        *(np.concatenate([getattr(line, side) for line in lines] or [_NONE]) for side in ("starts", "ends"))
    )
    for category, name in _OF_HOST.items():
        if category not in host:
            found[name] = _untold(name, rows.height)
            continue
        covered = covered | host[category]
        now = covered.within(starts, ends)
        found[name] = _where(known, name, now - so_far)
        so_far = now
    found[USES[-1]] = _where(known, USES[-1], ends - starts - so_far)
    yes, no, unknown = (pl.col(_OF_USE[kind]) for kind in (GpuUse.YES, GpuUse.NO, GpuUse.UNKNOWN))
    none_told = (unknown > 0) & (yes == 0) & (no == 0)
    return pl.DataFrame(found).with_columns(pl.when(~none_told).then(use) for use in (yes, no))


def _untold(name: str, height: int) -> pl.Series:
    return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, height)


def _where(known: pl.Series, name: str, values: npt.NDArray[np.int64]) -> pl.Series:
    return pl.select(pl.when(known).then(pl.Series(name, values, dtype=pl.Int64)).alias(name)).to_series()
