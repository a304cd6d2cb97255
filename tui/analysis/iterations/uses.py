"""What the time of each iteration was used for: kernels with and without tensor cores, memory work, idle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.gpu_uses import GpuUse, gpu_uses
from tui.analysis.gpu_time.interval_sets import union_of
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.iterations.tables import ITERATIONS, iterations
from tui.analysis.memo import once_per_profile
from tui.model.columns import columns
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile

USES: Final = ("tensor_core_ns", "other_kernel_ns", "unknown_kernel_ns", "memory_ns", "idle_ns")
"""The parts of the time of an iteration, in the order in which an instant counts as one of them."""

_OF_USE: Final = dict(zip(GpuUse, USES[:-1], strict=True))

ITERATIONS_WITH_USES: Final = TableSpec(
    ITERATIONS.name,
    ITERATIONS.title,
    (
        *(column for column in ITERATIONS.columns if column.name != "idle_ns"),
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
    whether they use tensor cores) and memory_ns, which add up to busy_ns, and with idle_ns to duration_ns; aggregated
    (whether it is one of those chosen; null where no range is chosen).

    Each instant from the start of an iteration to its end belongs to the first of these that is on then, on any GPU of
    the session and of whatever iteration; they are null where busy_ns is.

    Args:
        profile: With all iterations that are to be told.
        chosen: Those that the other views show.
    """
    rows = iterations(profile).hstack(_uses(profile))
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
    for line in timelines(profile):
        lines.setdefault(line.session, []).append(line)
    # Rows of a session stand one after the other.
    parts = [
        _of_session(part, lines.get(session, []), use)
        for (session,), part in rows.group_by("session", maintain_order=True)
    ]
    schema = dict.fromkeys(USES[:-1], pl.Int64)
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)


def _of_session(rows: pl.DataFrame, lines: Sequence[Timeline], use: np.ndarray) -> pl.DataFrame:
    starts = rows["start_ns"].fill_null(0).to_numpy()
    ends = starts + rows["duration_ns"].fill_null(0).to_numpy()
    known = rows["busy_ns"].is_not_null()
    found: dict[str, pl.Series] = {}
    so_far = np.zeros(rows.height, np.int64)
    for kind, name in _OF_USE.items():
        now = so_far
        if any((use[line.rows] == kind).any() for line in lines):
            on = [use[line.rows] <= kind for line in lines]
            union = union_of(
                np.concatenate([line.starts[rows_on] for line, rows_on in zip(lines, on, strict=True)]),
                np.concatenate([line.ends[rows_on] for line, rows_on in zip(lines, on, strict=True)]),
            )
            now = union.within(starts, ends)
        part = pl.Series(name, now - so_far, dtype=pl.Int64)
        found[name] = pl.select(pl.when(known).then(part)).to_series()
        so_far = now
    return pl.DataFrame(found)
