"""FLOPs, bytes and distance from the roofline: of op calls, of ops by shapes and types, of launches and iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.devices import peaks_by_device
from tui.analysis.durations import complete_sum
from tui.analysis.flop_formulas import PAGED, WRAPPERS, Work
from tui.analysis.kernels import KERNELS, kernels
from tui.analysis.memo import once_per_profile
from tui.analysis.memory_formulas import EXPERT_CALLS, LISTED, NO_FORMULA, recorded_call_work
from tui.analysis.ops.op_attribution import PASSES, activity_op_rows, inner_calls, op_tree, passes
from tui.analysis.ops.op_costs import op_instances
from tui.analysis.ops.ops_by_name import all_ops_by_name, has_recorded_ops, ops, ops_spec
from tui.analysis.tensor_core_use import with_verdicts
from tui.correlation.graph_replays import EXPERTS
from tui.model.columns import COLUMNS, columns
from tui.model.forest import NONE
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.devices import Peaks
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


FRAMES: Final = ("ops", "activities", "devices", "api_calls", "sessions", "ranges")

OP_WORK: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "row": pl.UInt32,
        "op": NAME,
        "iteration": pl.Int32,
        "shapes": NAME,
        "types": NAME,
        "flops": pl.Int64,
        "bytes": pl.Int64,
        "gpu_ns": pl.Int64,
        "tflops_per_s": pl.Float64,
        "tb_per_s": pl.Float64,
        "flops_per_byte": pl.Float64,
        "roof_ns": pl.Float64,
        "roof_pct": pl.Float64,
        "bound": NAME,
        "peak": NAME,
        "peak_flops_per_s": pl.Float64,
        "formula": NAME,
        "is_recomputed": pl.Boolean,
        "line": pl.UInt32,
        "main_activity": pl.UInt32,
        "inner_row": pl.UInt32,
    }
)
"""Columns of `op_work`."""

ROOF_SHARE: Final = 0.7
"""The share of the roof that a well-tuned op reaches; gains are counted up to there."""

MAIN_SHARE: Final = 0.9
"""A launch with this share of the time of its call is attributed the work of the call."""

HOST_COPY: Final = "copy from or to the host"
"""A reason why the work of some GPU time is unknown."""


ROOFLINE: Final = TableSpec(
    "roofline",
    "Roofline",
    (
        replace(COLUMNS["op"], compared_with=("shapes",)),
        *columns("shapes"),
        replace(COLUMNS["gpu_ns"], priority=0),
        *columns("calls"),
        replace(COLUMNS["roof_pct"], priority=1),
        *columns("gain_ns", "tflops_per_s", "tb_per_s", "bound"),
        *columns("flops_per_byte", "peak", "types", "flops", "bytes", "formula", "session", "line"),
    ),
    key=("session", "op", "shapes", "types", "formula"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op",
    min_pinned_cells=15,
)
ROOFLINE_CALLS: Final = TableSpec(
    "roofline_calls",
    "Calls",
    columns(
        *("iteration", "op", "gpu_ns", "roof_ns", "roof_pct", "tflops_per_s", "tb_per_s", "bound", "peak"),
        *("session", "line"),
    ),
    key=("session", "row"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="iteration",
)


@once_per_profile(*FRAMES)
def op_work(profile: Profile) -> pl.DataFrame:
    """Return the calls of ops that have a formula and ran on the GPU, in the order of ``ops``: `OP_WORK`.

    Every figure but ``gpu_ns`` is inferred from shapes and types. A call counts once: if an op with a formula runs in
    another one (a convolution in ``aten::convolution``), the outer call has the work and the time of both.

    - ``row`` is the row of ``ops``; ``gpu_ns`` is the GPU time of everything launched in the call.
    - ``flops`` and ``bytes`` as in `tui.analysis.flop_formulas`.
    - ``tflops_per_s``, ``tb_per_s`` and ``flops_per_byte`` follow from them (10^12 a second; FLOP per byte).
    - ``roof_ns`` is the least time that the GPU's peaks allow: the larger of FLOPs / peak and bytes / bandwidth.
      ``roof_pct`` is its share of ``gpu_ns``. ``bound`` is the larger of the two, ``peak`` the type whose peak counts.
      They are null if the peaks of the GPU are unknown.
    - ``is_recomputed``: a forward op that runs again during backward (activation checkpointing).
    - ``main_activity`` and ``inner_row`` are the launch that takes nearly all of its time and the op that launched it.

    Source of the model: Williams, Waterman, Patterson, "Roofline", CACM 52 (2009).
    """
    if _has_no_shapes(profile):
        return pl.DataFrame(schema=OP_WORK)
    owner = _counted_calls(profile["ops"], _call_work(profile))
    return _calls(profile, np.flatnonzero(owner == np.arange(owner.size)), owner)


def _has_no_shapes(profile: Profile) -> bool:
    shapes = profile["ops"]["input_shapes"]
    return shapes.null_count() == shapes.len()


def _calls(profile: Profile, rows: Ints, owner: Ints) -> pl.DataFrame:
    """Return the calls at these rows of ``ops`` that ran on the GPU: `OP_WORK`.

    Args:
        profile: The profile.
        rows: Rows whose work is known.
        owner: The result of `_counted_calls`.
    """
    recorded = profile["ops"]
    calls = (
        recorded[rows]
        .select(
            "session",
            pl.Series("row", rows, dtype=pl.UInt32),
            pl.Series("owner", owner[rows], dtype=pl.UInt32),
            pl.col("name").alias("op"),
            "iteration",
            pl.col("input_shapes").alias("shapes"),
            pl.col("input_types").alias("types"),
            "line",
        )
        .with_columns(is_recomputed=(passes(profile)["pass"] == PASSES[2]).gather(pl.Series(rows)))
    )
    instances = op_instances(profile)
    return (
        calls.with_columns(gpu_ns=instances["gpu_total_ns"].gather(pl.Series(rows)))
        .join(_launched(profile, owner).rename({"row": "owner"}), on="owner", how="left", maintain_order="left")
        .filter(pl.col("gpu_ns") > 0, ~pl.col("is_host_copy").fill_null(False))
        .join(_call_work(profile).drop("unknown"), on="row", how="left", maintain_order="left")
        .pipe(_with_peaks, peaks_by_device(profile))
        .with_columns(**_rates())
        .sort("row")
        .select(pl.col(name).cast(dtype) for name, dtype in OP_WORK.items())
    )


def _rates() -> dict[str, pl.Expr]:
    """Return the figures that follow from flops, bytes, gpu_ns, peak_flops_per_s and bandwidth."""
    seconds = pl.col("gpu_ns") / 1e9
    compute_s = pl.col("flops") / pl.col("peak_flops_per_s")
    memory_s = pl.col("bytes") / pl.col("bandwidth")
    # Work without FLOPs needs no peak.
    roof_s = (
        pl.when(pl.col("flops") == 0)
        .then(memory_s)
        .otherwise(
            pl.when(compute_s.is_not_null() & memory_s.is_not_null()).then(pl.max_horizontal(compute_s, memory_s))
        )
    )
    return {
        "tflops_per_s": pl.when(pl.col("flops") > 0).then(pl.col("flops") / seconds / 1e12),
        "tb_per_s": pl.col("bytes") / seconds / 1e12,
        "flops_per_byte": pl.when((pl.col("flops") > 0) & (pl.col("bytes") > 0)).then(
            pl.col("flops") / pl.col("bytes")
        ),
        "roof_ns": 1e9 * roof_s,
        "roof_pct": 100 * roof_s / seconds,
        "bound": pl.when(roof_s.is_not_null()).then(
            pl.when((pl.col("flops") > 0) & (compute_s >= memory_s)).then(pl.lit("compute")).otherwise(pl.lit("memory"))
        ),
    }


# --- which calls count ----------------------------------------------------------------------------------------------


def _counted_calls(recorded: pl.DataFrame, work: pl.DataFrame) -> Ints:
    """Return for each recorded op the row of the counted call that it is or runs in, `NONE` if there is none.

    Calls with known work count, and of nested ones the outer one. An op that only wraps others counts if the work of
    none of those is known.
    """
    is_counted = np.zeros(recorded.height, np.bool_)
    is_counted[work.filter(pl.col("flops").is_not_null())["row"].to_numpy()] = True
    distinct = recorded["name"].unique().cast(pl.String).drop_nulls()
    wraps = recorded["name"].cast(pl.String).is_in([name for name in distinct if name in WRAPPERS]).fill_null(False)
    wrapper = wraps.to_numpy()
    tree = op_tree(recorded)
    counts = (is_counted & ~wrapper) | (is_counted & wrapper & ~tree.with_ancestors(is_counted & ~wrapper))
    owner = np.where(counts, np.arange(recorded.height), NONE)
    for level in tree.levels[1:]:
        parent_owner = owner[tree.parent[level]]
        owner[level] = np.where(parent_owner != NONE, parent_owner, owner[level])
    return owner


def _launched(profile: Profile, owner: Ints) -> pl.DataFrame:
    """Return the launches of the counted calls.

    Columns: row, device, uses_tensor_core (whether any kernel does; null if that is not known), is_host_copy (whether
    it consists of copies from or to the host, which GPU memory does not bound), main_activity (the row of
    ``activities`` of a launch that takes nearly all of its time, else null), inner_row (the row of an op that launched
    nearly all of it).
    """
    rows = activity_op_rows(profile)
    call_rows = np.where(rows != NONE, owner[rows], NONE)
    has_call = call_rows != NONE
    activities = with_verdicts(profile, profile["activities"].filter(pl.Series(has_call)))
    kinds = activities["copy_kind"].cast(pl.String)
    launched = activities.select(
        pl.Series("row", call_rows[has_call], dtype=pl.UInt32),
        pl.Series("main_activity", np.flatnonzero(has_call), dtype=pl.UInt32),
        pl.Series("inner_row", rows[has_call], dtype=pl.UInt32),
        pl.col("duration_ns").fill_null(0),
        "device",
        "uses_tensor_core",
        (pl.col("kind") == "kernel").alias("is_kernel"),
        ((pl.col("kind") == "memcpy") & pl.Series(kinds.is_in(["HtoD", "DtoH"]).fill_null(False))).alias("is_host"),
    )
    time = pl.col("duration_ns")
    by_op = launched.group_by("row", "inner_row").agg(time.sum())
    return (
        launched.group_by("row")
        .agg(
            pl.col("device").first(),
            pl.col("uses_tensor_core").filter("is_kernel").any(ignore_nulls=False),
            pl.col("is_host").all().alias("is_host_copy"),
            _dominant_value("main_activity"),
        )
        .join(by_op.group_by("row").agg(_dominant_value("inner_row")), on="row", how="left")
    )


def _dominant_value(name: str) -> pl.Expr:
    """Return the value with `MAIN_SHARE` of the time; null if there is none."""
    time = pl.col("duration_ns")
    largest = pl.col(name).get(time.arg_max())
    return pl.when(time.max() >= MAIN_SHARE * time.sum()).then(largest).alias(name)


# --- work and peaks -------------------------------------------------------------------------------------------------


@once_per_profile(*FRAMES)
def _call_work(profile: Profile) -> pl.DataFrame:
    """Return FLOPs and bytes of the calls that launched GPU work, by the formula of their op.

    Columns: row, flops, bytes, formula, compute_type, unknown (why they are not known; the others are null then). Each
    distinct set of arguments is computed once: a million calls have a few hundred.
    """
    numbered = profile["ops"].with_row_index("row")
    launched = (op_instances(profile)["gpu_total_ns"] > 0).fill_null(False)
    steps = profile["ranges"].filter(pl.col("iteration").is_not_null()).unique(["session", "iteration"])
    keys = ("name", "input_shapes", "input_types", "input_values", "step", "kernel", "inner")
    name = pl.col("name").cast(pl.String)
    calls = (
        numbered.lazy()
        .filter(pl.lit(launched))
        .select("row", "session", "iteration", *keys[:4])
        .join(
            steps.lazy().select("session", "iteration", pl.col("name").alias("step")),
            on=["session", "iteration"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.when(name.is_in(PAGED)).then("step").alias("step"))
        .collect()
    )
    calls = calls.join(_list_kernels(profile), on="row", how="left", maintain_order="left")
    inner = inner_calls(profile, EXPERTS, EXPERT_CALLS)
    calls = calls.join(inner, on="row", how="left", maintain_order="left")
    distinct = calls.select(keys).unique(maintain_order=True)
    results = [recorded_call_work(*row) for row in distinct.select(pl.all().cast(pl.String)).iter_rows()]
    valid = [work if isinstance(work, Work) else None for work in results]
    worked = distinct.with_columns(
        pl.Series("flops", [work and work.flops for work in valid], pl.Int64, strict=False),
        pl.Series("bytes", [work and work.bytes for work in valid], pl.Int64, strict=False),
        pl.Series("formula", [work and work.formula for work in valid], pl.String),
        pl.Series("compute_type", [work and work.compute_type for work in valid], pl.String),
        pl.Series("unknown", [work if isinstance(work, str) else None for work in results], pl.String),
    )
    return calls.join(worked, on=keys, how="left", nulls_equal=True, maintain_order="left").select(
        "row", "flops", "bytes", "formula", "compute_type", "unknown"
    )


def _list_kernels(profile: Profile) -> pl.DataFrame:
    """Return the first kernel of each call over lists of tensors: row, kernel."""
    activities, rows = profile["activities"], activity_op_rows(profile)
    listed = profile["ops"]["name"].cast(pl.String).is_in(LISTED).fill_null(False).to_numpy()
    indices = np.flatnonzero((rows != NONE) & np.append(listed, False)[rows])
    launched = activities[indices].select(
        pl.Series("row", rows[indices], dtype=pl.UInt32), "kind", pl.col("name").alias("kernel")
    )
    return launched.filter(pl.col("kind") == "kernel").unique("row", keep="first", maintain_order=True).drop("kind")


def _with_peaks(calls: pl.DataFrame, peaks: Mapping[tuple[int, int | None], Peaks]) -> pl.DataFrame:
    """Add ``bandwidth`` (bytes per second), ``peak`` and ``peak_flops_per_s`` of the GPU that each call ran on."""
    keys = ("session", "device", "compute_type", "uses_tensor_core")
    distinct = calls.select(keys).unique(maintain_order=True)
    bandwidths: list[float | None] = []
    peak_columns: list[tuple[str | None, float | None]] = []
    for session, device, compute_type, uses_tensor_core in distinct.iter_rows():
        gpu = peaks.get((session, device))
        peak = gpu.for_type(compute_type, uses_tensor_core) if gpu is not None and compute_type else None
        bandwidths.append(gpu.bytes_per_s if gpu is not None else None)
        peak_columns.append(peak or (None, None))
    distinct = distinct.with_columns(
        pl.Series("bandwidth", bandwidths, pl.Float64),
        pl.Series("peak", [name for name, _ in peak_columns], pl.String),
        pl.Series("peak_flops_per_s", [rate for _, rate in peak_columns], pl.Float64),
    )
    return calls.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left")


# --- sums -----------------------------------------------------------------------------------------------------------


@once_per_profile(*FRAMES)
def op_work_by_shape(profile: Profile) -> pl.DataFrame:
    """Return `op_work` summed by session, op, shapes and types, the most GPU time first.

    Columns: session, op, shapes, types, calls, flops and bytes (of one call), gpu_ns (of all calls), tflops_per_s and
    tb_per_s (means over the calls, as TraceLens reports them), flops_per_byte, roof_pct (of the sums), gain_ns (the
    time of the calls above the minimum of the roofline), bound, peak, formula, line.
    """
    return _by_shape(op_work(profile).with_columns(_NOT_NESTED)).drop("counted_in")


_NOT_NESTED: Final = pl.lit(None, pl.String).alias("counted_in")


def _by_shape(work: pl.DataFrame) -> pl.DataFrame:
    return (
        work.group_by(
            *("session", "op", "counted_in", "shapes", "types", "flops", "bytes", "bound", "peak", "formula"),
            maintain_order=True,
        )
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("gpu_ns").sum(),
            complete_sum("roof_ns").alias("roof_ns"),
            pl.col("tflops_per_s", "tb_per_s").mean(),
            pl.col("flops_per_byte").first(),
            pl.col("line").min(),
        )
        .with_columns(
            (100 * pl.col("roof_ns") / pl.col("gpu_ns")).alias("roof_pct"),
            (pl.col("gpu_ns") - pl.col("roof_ns")).round().cast(pl.Int64).alias("gain_ns"),
        )
        .select(
            *("session", "op", "shapes", "types", "calls", "flops", "bytes", "gpu_ns", "tflops_per_s", "tb_per_s"),
            *("flops_per_byte", "roof_pct", "gain_ns", "bound", "peak", "formula", "line", "counted_in"),
        )
        .sort("gpu_ns", "op", "shapes", descending=[True, False, False], nulls_last=True, maintain_order=True)
    )


def shape_calls(profile: Profile, row: Mapping[str, Any] | None) -> pl.DataFrame:
    """Return the calls behind a row of `op_work_by_shape`, the longest first; none if no row is given."""
    work = op_work(profile)
    if row is None:
        return work.clear()
    keys = ("session", "op", "shapes", "types", "formula")
    return work.filter(pl.col(key).eq_missing(pl.lit(row[key], work.schema[key])) for key in keys).sort(
        "gpu_ns", descending=True, maintain_order=True
    )


def exported_op_work(profile: Profile) -> pl.DataFrame:
    """Return `op_work` for export: without row numbers, and with the calls nested in a counted one.

    Its time, ``gpu_self_ns``, is that of the kernels that the call launched. ``counted_in`` is the enclosing op that
    includes a call's work and time (``aten::convolution`` of an ``aten::cudnn_convolution``); null for counted calls,
    which sums are over.
    """
    return _with_inner_calls(profile).drop("main_activity", "inner_row").rename({"gpu_ns": "gpu_self_ns"})


def exported_op_work_by_shape(profile: Profile) -> pl.DataFrame:
    """Return `op_work_by_shape` for export, with nested calls: ``counted_in`` as in `exported_op_work`."""
    return _by_shape(_with_inner_calls(profile))


def _with_inner_calls(profile: Profile) -> pl.DataFrame:
    """Return `op_work` with ``counted_in``, and the nested calls that have a formula of their own."""
    counted = op_work(profile).with_columns(_NOT_NESTED)
    if _has_no_shapes(profile):
        return counted
    recorded, work = profile["ops"], _call_work(profile)
    owner = _counted_calls(recorded, work)
    rows = work.filter(pl.col("flops").is_not_null())["row"].to_numpy().astype(np.int64)
    names = recorded["name"].cast(pl.String)
    is_wrapper = names.is_in(list(WRAPPERS)).fill_null(False).to_numpy()
    inner = rows[(owner[rows] != NONE) & (owner[rows] != rows) & ~is_wrapper[rows]]
    calls = _calls(profile, inner, owner)
    around = names.gather(pl.Series(owner[calls["row"].to_numpy()]))
    return pl.concat([counted, calls.with_columns(around.alias("counted_in"))])


UNKNOWN_WORK: Final = TableSpec(
    "op_work_unknown",
    "GPU time without FLOPs and bytes",
    columns("op", "gpu_ns", "time_pct", "calls", "work_unknown", "session"),
    key=("session", "op", "work_unknown"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op",
)


@once_per_profile(*FRAMES)
def op_work_unknown(profile: Profile) -> pl.DataFrame:
    """Return the GPU time that `op_work` omits, by op and reason, the most first.

    Columns: session, op, gpu_ns, time_pct (of the GPU time of the session), calls, work_unknown (the reason). Only of
    sessions whose ops are recorded; work without an op is `tui.analysis.ops.op_costs.NO_OP`.
    """
    recorded, activities = profile["ops"], profile["activities"]
    work = _call_work(profile)
    owner = _counted_calls(recorded, work)
    covered = np.zeros(recorded.height, np.bool_)
    covered[op_work(profile)["row"].to_numpy()] = True
    session_totals = activities.group_by("session").agg(pl.col("duration_ns").sum().alias("session_ns"))
    self_ns = op_instances(profile)["gpu_self_ns"]
    return (
        recorded.select("session", pl.col("name").cast(pl.String).alias("op"))
        .with_row_index("row")
        .with_columns(gpu_ns=self_ns, is_counted=pl.Series(owner != NONE))
        .filter(pl.col("gpu_ns") > 0, ~pl.Series((owner != NONE) & covered[owner], dtype=pl.Boolean))
        .join(work.select("row", "unknown"), on="row", how="left")
        .group_by(
            "session",
            "op",
            pl.when("is_counted").then(pl.lit(HOST_COPY)).otherwise("unknown").alias("work_unknown"),
        )
        .agg(pl.col("gpu_ns").sum(), pl.len().cast(pl.Int64).alias("calls"))
        .join(session_totals, on="session", how="left")
        .with_columns((100 * pl.col("gpu_ns") / pl.col("session_ns")).alias("time_pct"))
        .sort("gpu_ns", "op", "session", descending=[True, False, False])
        .select(column.name for column in UNKNOWN_WORK.columns)
    )


# --- figures of other tables ------------------------------------------------------------------------------------------

RATES: Final = ("tflops_per_s", "tb_per_s", "flops_per_byte", "roof_pct", "bound")
"""Figures of the tables of ops and kernels, for calls whose work is known."""


def _summed_rates(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return `RATES` of the sums of flops, bytes, gpu_ns and roof_ns, by keys."""
    return (
        rows.group_by(*keys, pl.col("bound").cast(pl.String), maintain_order=True)
        .agg(pl.col("flops", "bytes", "gpu_ns", "roof_ns").sum(), pl.col("roof_ns").null_count().alias("unknown"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("flops", "bytes", "gpu_ns").sum(),
            pl.when(pl.col("unknown").sum() == 0).then(pl.col("roof_ns").sum()).alias("roof_ns"),
            # The bound of most of the time at the roof.
            pl.col("bound").sort_by("roof_ns", descending=True, maintain_order=True).first(),
        )
        .with_columns(
            pl.when(pl.col("flops") > 0).then(pl.col("flops") / pl.col("gpu_ns") / 1e3).alias("tflops_per_s"),
            (pl.col("bytes") / pl.col("gpu_ns") / 1e3).alias("tb_per_s"),
            pl.when(pl.col("flops") > 0).then(pl.col("flops") / pl.col("bytes")).alias("flops_per_byte"),
            (100 * pl.col("roof_ns") / pl.col("gpu_ns")).alias("roof_pct"),
        )
        .select(*keys, *RATES)
    )


@once_per_profile(*FRAMES)
def _work_by_row(profile: Profile) -> pl.DataFrame:
    """Return the work of calls, by the row of the op; also for the nested op that launched nearly all of it.

    Columns: those of ``ops`` with row, and flops, bytes, gpu_ns, roof_ns, bound.
    """
    work = op_work(profile).select("row", "inner_row", "flops", "bytes", "gpu_ns", "roof_ns", "bound")
    inner = work.filter(pl.col("inner_row") != pl.col("row")).with_columns(pl.col("inner_row").alias("row"))
    rows = pl.concat([work, inner]).drop("inner_row")
    return rows.hstack(profile["ops"].select("session", "name", "input_shapes", "dtype")[rows["row"]])


def with_rates(profile: Profile, rows: pl.DataFrame, *, group_columns: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return rows of ops with `RATES`.

    Args:
        profile: The profile.
        rows: With session, op, and the columns ``group_columns``.
        group_columns: Further columns of ``ops`` that identify a row.
    """
    rates = _summed_rates(_work_by_row(profile), "session", "name", *group_columns).rename({"name": "op"})
    keys = ["session", "op", *group_columns]
    texts = [pl.col(name).cast(pl.String) for name in keys[1:]]
    joined = rows.select("session", *texts).join(
        rates.with_columns(texts), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    return rows.hstack(joined.select(RATES))


def ops_with_rates(profile: Profile) -> pl.DataFrame:
    """Return `tui.analysis.ops.ops_by_name.ops` with `RATES`, if ops are recorded."""
    rows = ops(profile)
    return with_rates(profile, rows) if has_recorded_ops(profile) else rows


def ops_by_name_with_rates(profile: Profile) -> pl.DataFrame:
    """Return the same of all sessions, whether their ops are recorded or inferred."""
    return with_rates(profile, all_ops_by_name(profile))


def ops_with_rates_spec(profile: Profile) -> TableSpec:
    """Return the table of `ops_with_rates`."""
    spec = ops_spec(profile)
    return spec_with_rates(spec) if has_rates(profile) else spec


def has_rates(profile: Profile) -> bool:
    """Return whether the work of any call is known."""
    return op_work(profile).height > 0


def spec_with_rates(spec: TableSpec, after: str = "calls") -> TableSpec:
    """Return a table with `RATES` after a column."""
    index = [column.name for column in spec.columns].index(after) + 1
    rates = tuple(replace(column, priority=max(column.priority, 4)) for column in columns(*RATES))
    return replace(spec, columns=(*spec.columns[:index], *rates, *spec.columns[index:]))


def kernels_with_rates_spec(profile: Profile) -> TableSpec:
    """Return the table of `kernels_with_rates`."""
    return spec_with_rates(KERNELS) if has_rates(profile) else KERNELS


@once_per_profile(*FRAMES)
def kernel_rates(profile: Profile) -> pl.DataFrame:
    """Return `RATES` by session, kind and name of kernels that do all the work of an op's calls."""
    return _summed_rates(_main_launches(profile), "session", "kind", "name")


def _main_launches(profile: Profile) -> pl.DataFrame:
    """Return the launches that do all the work of an op's call.

    Columns: session, flops, bytes, roof_ns, bound, activity, kind, name, gpu_ns.
    """
    work = op_work(profile).filter(pl.col("main_activity").is_not_null())
    launches = profile["activities"].select("activity", "kind", "name", pl.col("duration_ns").alias("gpu_ns"))
    return work.select("session", "flops", "bytes", "roof_ns", "bound").hstack(launches[work["main_activity"]])


def kernel_rates_by_name(profile: Profile) -> pl.DataFrame:
    """Return the same of all sessions together, by kind and name."""
    return _summed_rates(_main_launches(profile), "kind", "name")


def op_rates_by_name(profile: Profile) -> pl.DataFrame:
    """Return `RATES` by op, of all sessions together."""
    return _summed_rates(_work_by_row(profile), "name").rename({"name": "op"})


def kernels_with_rates(profile: Profile) -> pl.DataFrame:
    """Return `tui.analysis.kernels.kernels` with `RATES` of the launches of `_main_launches`."""
    rows = kernels(profile)
    return rows.join(
        kernel_rates(profile), on=["session", "kind", "name"], how="left", nulls_equal=True, maintain_order="left"
    )


def launch_rates(profile: Profile, work: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return `RATES` by keys, of the launches of `_main_launches`.

    Args:
        profile: The profile.
        work: GPU work: ``activity`` (as in ``activities``) and the keys.
        *keys: Columns of ``work``.
    """
    return _summed_rates(work.select("activity", *keys).join(_main_launches(profile), on="activity"), *keys)


def missing_rates_reason(profile: Profile, activity: int) -> str:
    """Return why the FLOPs and bytes of a launch are not known; empty if they are."""
    if (_main_launches(profile)["activity"] == activity).any():
        return ""
    row = profile["activities"]["activity"].index_of(activity)
    rows = activity_op_rows(profile)
    if row is None or rows[row] == NONE:
        return "the op that launched it is unknown"
    work = _call_work(profile)
    owner = _counted_calls(profile["ops"], work)[rows[row]]
    if owner == NONE:
        reason = work.filter(pl.col("row") == rows[row])["unknown"]
        return str(reason.item()) if reason.len() else NO_FORMULA
    if not (op_work(profile)["row"] == owner).any():
        return HOST_COPY
    return f"other launches of its op take more than {100 - 100 * MAIN_SHARE:.0f}% of the op's GPU time"


def op_rates(profile: Profile, rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return `RATES` of recorded ops by keys.

    Args:
        profile: The profile.
        rows: For each op its ``row`` in ``ops``, and the keys.
        *keys: Columns of ``rows``.
    """
    work = _work_by_row(profile).select("row", "flops", "bytes", "gpu_ns", "roof_ns", "bound")
    return _summed_rates(rows.select(pl.col("row").cast(pl.UInt32), *keys).join(work, on="row"), *keys)


# --- roofline of a session --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofline figures of a session."""

    session: int
    gpu_ns: int
    """GPU time of the calls that have a formula."""
    covered_pct: float | None
    """Its share of the GPU time of the session."""
    flops: int
    """FLOPs of all calls, without recomputation by activation checkpointing."""
    tflops_per_s: float | None
    """FLOPs per second of wall time, in 10^12."""
    mfu_pct: float | None
    """Model FLOPs utilization: the least time that the peaks allow for the FLOPs / wall time. None if a call with
    FLOPs has no known peak."""
    hfu_pct: float | None
    """Hardware FLOPs utilization: the same with what is computed again; None if nothing is."""
    gain_ns: int | None
    """GPU time above the roofline, of the calls whose roof is known."""


@once_per_profile(*FRAMES)
def rooflines(profile: Profile) -> list[Roofline]:
    """Return the roofline figures of each session that has calls with a formula.

    The wall time is from the first to the last GPU work of the session. In a session with several GPUs it counts once
    for each. Source of MFU: Chowdhery et al., "PaLM" (2022), appendix B.
    """
    work = op_work(profile)
    activities = profile["activities"]
    results = []
    for (session,), rows in work.group_by("session", maintain_order=True):
        session_activities = activities.filter(pl.col("session") == session)
        gpu_ns = int(session_activities["duration_ns"].sum())
        ends = (session_activities["start_ns"] + session_activities["duration_ns"]).max()
        start = session_activities["start_ns"].min()
        gpus = max(session_activities["device"].drop_nulls().n_unique(), 1)
        wall_s = (ends - start) * gpus / 1e9 if isinstance(ends, int) and isinstance(start, int) else 0
        with_flops = rows.filter(pl.col("flops") > 0)
        is_recomputed = with_flops["is_recomputed"]
        peak_s = with_flops["flops"] / with_flops["peak_flops_per_s"]
        is_known = wall_s and not peak_s.null_count()
        flops = int(with_flops.filter(~is_recomputed)["flops"].sum())
        with_roof = rows.filter(pl.col("roof_ns").is_not_null())
        results.append(
            Roofline(
                session=int(session),
                gpu_ns=int(rows["gpu_ns"].sum()),
                covered_pct=100 * int(rows["gpu_ns"].sum()) / gpu_ns if gpu_ns else None,
                flops=flops,
                tflops_per_s=flops / wall_s / 1e12 if wall_s and flops else None,
                mfu_pct=100 * float(peak_s.filter(~is_recomputed).sum()) / wall_s if is_known and flops else None,
                hfu_pct=100 * float(peak_s.sum()) / wall_s if is_known and is_recomputed.any() else None,
                gain_ns=round((with_roof["gpu_ns"] - with_roof["roof_ns"]).sum()) if with_roof.height else None,
            )
        )
    return results
