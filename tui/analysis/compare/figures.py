"""The figures that sum one side of a comparison up, and of each what the input does not tell, and what would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.api import api
from tui.analysis.compare.absence import KINDS, lost_rows, perhaps_unrecorded
from tui.analysis.dashboard.performance import LEAST_TOLD_PCT
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import API_WORK, COPIES, GPU_WORK, ITERATIONS, METRICS, START_TIMES
from tui.analysis.inputs.replayed import sessions_of_kernels_alone
from tui.analysis.iterations.tables import iterations
from tui.analysis.kernels import kernels
from tui.analysis.tensor_cores.efficiency import tensor_core_time, tensor_core_use
from tui.fmt import count, percent

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Side
    from tui.analysis.inputs.recording import Need
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Told:
    """A figure of one side."""

    value: float | None
    untold: str = ""
    """Why it is unknown, and what records it; of a known one what it leaves out, if anything."""


def figures_of(side: Side) -> dict[str, Told]:
    """The figures of one side by the names of `tui.analysis.compare.headline.FIGURES`.

    Times are nanoseconds, shares per cent; sums are per iteration where the side is.
    """
    return _times(side) | _work(side) | {"tc_share_pct": _tensor_cores(side.profile)} | _calls(side)


def _times(side: Side) -> dict[str, Told]:
    """Of iterations, else of the whole run: how long they took, and the share in which a GPU had work."""
    profile = side.profile
    if not side.iterations:
        return _times_of_run(profile)
    counted = iterations(profile).drop_nulls("iteration")
    timed = counted.drop_nulls("duration_ns")
    taken = timed["duration_ns"]
    left_out = ""
    if taken.is_empty():
        left_out = f"no iteration has an end: {how_to_record(profile, ITERATIONS)}"
    elif timed.height < counted.height:
        left_out = f"of {count(timed.height)} of {count(counted.height)} iterations: the others have no end"
    figures = {
        "avg_iteration_ns": taken.mean(),
        "median_iteration_ns": taken.median(),
        "p95_iteration_ns": taken.quantile(0.95, "linear"),
    }
    times = {name: Told(_number(value), left_out) for name, value in figures.items()}
    busy_pct = _share(timed["busy_ns"], taken)
    no_work = f"work of an iteration has no times: {how_to_record(profile, START_TIMES)}"
    return times | {"busy_pct": Told(busy_pct, no_work if busy_pct is None and taken.len() else left_out)}


def _times_of_run(profile: Profile) -> dict[str, Told]:
    busy = busy_time(profile)
    why = _no_times(profile)
    sessions = busy["session"].n_unique()
    span = _number(busy["span_ns"].max()) if sessions == 1 else None
    if sessions > 1:
        why_no_span = f"the spans of {sessions} sessions do not add up: compare one session with another"
    else:
        why_no_span = why
    busy_pct = _share(busy["busy_ns"], busy["span_ns"])
    return {
        "span_ns": Told(span, why_no_span if span is None else ""),
        "busy_pct": Told(busy_pct, why if busy_pct is None else ""),
    }


def _no_times(profile: Profile) -> str:
    return why_none(profile, GPU_WORK if kernels(profile).is_empty() else START_TIMES)


def _work(side: Side) -> dict[str, Told]:
    """Time and launches of GPU work, of all and by its kinds."""
    work = kernels(side.profile)
    if work.is_empty():
        nothing = Told(None, why_none(side.profile, GPU_WORK))
        return dict.fromkeys(("gpu_ns", "launches", *(f"{kind}_ns" for kind in KINDS)), nothing)
    of_kinds = {kind: work.filter(pl.col("kind") == kind) for kind in KINDS}
    told = {f"{kind}_ns": _of_kind(side, kind, rows, "total_ns") for kind, rows in of_kinds.items()}
    unasked = perhaps_unrecorded(side)
    gpu = _sum(side, work, "total_ns", GPU_WORK, "gpu")
    if gpu.value is not None:
        without = f"without {' and '.join(KINDS[kind] for kind in unasked)}, which may not have been recorded"
        replayed = "of kernels that Nsight Compute replayed, which is of no run"
        is_replayed = bool(sessions_of_kernels_alone(side.profile))
        gpu = Told(gpu.value, "; ".join(filter(None, (gpu.untold, without * bool(unasked), replayed * is_replayed))))
    return {**told, "gpu_ns": gpu, "launches": _of_kind(side, "kernel", of_kinds["kernel"], "calls")}


def _of_kind(side: Side, kind: str, rows: pl.DataFrame, column: str) -> Told:
    """A sum over the work of a kind: 0 where there is other work alone, and this would have been recorded with it."""
    if rows.height:
        return _sum(side, rows, column, GPU_WORK, "gpu")
    if kind not in perhaps_unrecorded(side):
        return Told(0.0)
    how = how_to_record(side.profile, GPU_WORK if kind == "kernel" else COPIES)
    return Told(None, f"no {KINDS[kind]}, which may not have been recorded: {how}")


def _calls(side: Side) -> dict[str, Told]:
    """Time and number of API calls."""
    rows = api(side.profile)
    if rows.is_empty():
        return dict.fromkeys(("api_ns", "api_calls"), Told(None, why_none(side.profile, API_WORK)))
    columns = {"api_ns": "total_ns", "api_calls": "calls"}
    return {name: _sum(side, rows, column, API_WORK, "api") for name, column in columns.items()}


def _sum(side: Side, rows: pl.DataFrame, column: str, need: Need, section: str) -> Told:
    """A sum over sessions, each divided by its iterations; unknown where the part of any row is."""
    is_time = column == "total_ns"
    if unknown := rows[column].null_count():
        what = "time" if is_time else "number of calls"
        of = f"no {what} of {count(unknown)} of {count(rows.height)} names"
        return Told(None, f"{of}: {how_to_record(side.profile, need)}")
    parts = rows[column]
    if side.iterations:
        divided = rows.join(side.divisors, on="session", how="left")
        parts = divided[column] / divided["per"]
        if parts.null_count():
            return Told(None, f"no iterations in some sessions: {how_to_record(side.profile, ITERATIONS)}")
    untimed = int((rows["calls"] - rows["timed_calls"].fill_null(rows["calls"])).sum()) if is_time else 0
    lost = lost_rows(side.profile, section)
    lacking = (f"calls without time: {count(untimed)}" * bool(untimed), "rows of the printed table are missing" * lost)
    least = "; ".join(filter(None, lacking))
    return Told(float(parts.sum()), f"at least ({least})" if least else "")


def _tensor_cores(profile: Profile) -> Told:
    """Kernel time on tensor cores, as a share of what can be told to use them or not."""
    use = tensor_core_use(tensor_core_time(profile))
    open_time = f"{percent(use.unknown_pct)} of the kernel time"
    if use.share_pct is not None:
        is_open = (use.unknown_pct or 0) >= LEAST_TOLD_PCT
        return Told(use.share_pct, f"without {open_time}, of which it is not told" if is_open else "")
    if not use.kernel_ns:
        return Told(None, _no_kernel_time(profile))
    if use.untimed:
        return Told(None, f"{use.reason}: {how_to_record(profile, START_TIMES)}")
    return Told(None, use.reason or f"not told of {open_time}: {how_to_record(profile, METRICS)}")


def _no_kernel_time(profile: Profile) -> str:
    if kernels(profile).is_empty():
        return why_none(profile, GPU_WORK)
    return f"no kernel time: {how_to_record(profile, GPU_WORK)}"


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    total = float(whole.sum())
    return 100 * float(part.sum()) / total if total and part.null_count() == 0 else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
