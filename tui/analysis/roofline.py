"""FLOPs, bytes and distance from the roofline of op calls, and of ops by shapes and types; peaks of GPUs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.devices import device_facts, longest_name, normalized_name
from tui.analysis.flop_formulas import WRAPPERS, Call, UnknownWorkError, Work, model_of, work_of
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import op_row_of_activities, op_tree
from tui.analysis.ops.op_costs import op_instances
from tui.analysis.tensor_core_use import with_verdicts
from tui.data.user_files import HINT, Stamp, parsed, shipped, stamp, tables, user_path, user_text
from tui.model.columns import COLUMNS, columns
from tui.model.errors import ProftuiError
from tui.model.forest import NONE
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


FILE: Final = "gpus.toml"

TYPES: Final = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""The element types of a peak."""

_PEAK_OF_TYPE: Final = {
    "float64": ("fp64_tensor", "fp64"),
    "float16": ("fp16",),
    "bfloat16": ("bf16",),
    "int8": ("int8",),
    "uint8": ("int8",),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), ("fp8",)),
}


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peaks of one GPU."""

    name: str
    source: str
    """Where the figures are from."""
    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """By one of `TYPES`."""
    bytes_per_s: float | None = None
    """Memory bandwidth."""
    link_bytes_per_s: float | None = None
    """One direction of all its NVLinks together."""

    def of(self, element_type: str, uses_tensor_core: bool | None) -> tuple[str, float] | None:
        """The peak that counts for work on elements of a type, and its name in `TYPES`; None where it is not known.

        Args:
            element_type: As in PyTorch, as ``bfloat16``.
            uses_tensor_core: Whether the kernels of the work use tensor cores. Products of float32 are TF32 on tensor
                cores and FP32 elsewhere, so that without this nothing is known of them.
        """
        if element_type == "float32":
            if uses_tensor_core is None:
                # Without tensor cores for float32 there is one way only.
                names: tuple[str, ...] = () if "tf32" in self.flops_per_s else ("fp32",)
            else:
                names = ("tf32",) if uses_tensor_core and "tf32" in self.flops_per_s else ("fp32",)
        else:
            names = _PEAK_OF_TYPE.get(element_type, ())
        return next(((name, self.flops_per_s[name]) for name in names if name in self.flops_per_s), None)


def find_peaks(name: str) -> Peaks | None:
    """The peaks of a GPU of this name, the user's own figures first; None where they are not known.

    >>> h200 = find_peaks("NVIDIA H200")
    >>> h200.flops_per_s["bf16"], h200.of("float32", True)
    (989400000000000.0, ('tf32', 494700000000000.0))
    >>> find_peaks("NVIDIA H100") is None
    True
    """
    return longest_name(name, _known(stamp(user_path(FILE))))


@cache
def _known(own: Stamp | None) -> dict[str, Peaks]:
    """Peaks by normalized name."""
    rows = [(row, f"{FILE}: {row.get('name')}") for row in tomllib.loads(shipped(FILE))["peaks"]]
    if own is not None:
        rows += tables(parsed(user_text(own), own[0]), "peaks", own[0])
    return {normalized_name(one.name): one for one in (_peaks(row, where) for row, where in rows)}


def _peaks(row: dict[str, Any], where: str) -> Peaks:
    wrong = [key for key in row if key not in (*TYPES, "name", "source", "bandwidth", "nvlink")]
    if wrong or not isinstance(row.get("name"), str):
        known = ", ".join(("name", "bandwidth", "nvlink", *TYPES, "source"))
        raise ProftuiError(f"{where}: {f'unknown key {wrong[0]}' if wrong else 'no name'}; known are {known}", HINT)
    numbers = {key: value for key, value in row.items() if key not in ("name", "source")}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ProftuiError(f"{where}: {key} is not a number above 0", HINT)
    bandwidth, nvlink = numbers.pop("bandwidth", None), numbers.pop("nvlink", None)
    return Peaks(
        row["name"],
        str(row.get("source", "your gpus.toml")),
        {key: value * 1e12 for key, value in numbers.items()},
        bandwidth * 1e9 if bandwidth is not None else None,
        # Data sheets add up both directions.
        nvlink * 1e9 / 2 if nvlink is not None else None,
    )


def peaks_by_device(profile: Profile) -> dict[tuple[int, int | None], Peaks]:
    """The peaks of each GPU of a profile, by session and device; GPUs whose peaks are not known are left out.

    The memory bandwidth that the file itself records goes before that of the table.
    """
    found: dict[tuple[int, int | None], Peaks] = {}
    for session, device, name, bandwidth in (
        device_facts(profile)
        .select(
            "session", "device", pl.coalesce(pl.lit(profile.gpu, pl.String), "name").alias("name"), "memory_bandwidth"
        )
        .iter_rows()
    ):
        peaks = find_peaks(name) if name else None
        if peaks is not None:
            found[session, device] = replace(peaks, bytes_per_s=bandwidth or peaks.bytes_per_s)
    return found


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
        "line": pl.UInt32,
    }
)
"""Columns of `op_work`."""


ROOFLINE: Final = TableSpec(
    "roofline",
    "Roofline",
    (
        replace(COLUMNS["op"], compared_with=("shapes",)),
        *columns("shapes", "gpu_ns", "calls", "roof_pct", "gain_ns", "tflops_per_s", "tb_per_s", "bound"),
        *columns("flops_per_byte", "peak", "types", "flops", "bytes", "formula", "session", "line"),
    ),
    key=("session", "op", "shapes", "types", "formula"),
    sort=(("gpu_ns", True),),
    weight="gpu_ns",
    pinned="op",
    pinned_least=20,
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


@once_per_profile("ops", "activities", "devices", "api_calls", "sessions")
def op_work(profile: Profile) -> pl.DataFrame:
    """The calls of ops that have a formula and ran on the GPU, in the order of ``ops``: `OP_WORK`.

    Every figure but ``gpu_ns`` is inferred from shapes and types. A call counts once: where an op with a formula runs
    in another one (a convolution in ``aten::convolution``), the outer call has the work and the time of both.

    - ``row`` is the row of ``ops``; ``gpu_ns`` is the GPU time of everything launched in the call.
    - ``flops`` and ``bytes`` as in `tui.analysis.flop_formulas`.
    - ``tflops_per_s``, ``tb_per_s`` and ``flops_per_byte`` follow from them (10^12 a second; FLOP per byte).
    - ``roof_ns`` is the least time that the GPU's peaks allow: the larger of FLOPs / peak and bytes / bandwidth.
      ``roof_pct`` is that as a share of ``gpu_ns``. ``bound`` is which of the two it is, ``peak`` the type whose peak
      counts. They are null where the peaks of the GPU are not known.

    Source of the model: Williams, Waterman, Patterson, "Roofline", CACM 52 (2009).
    """
    ops = profile["ops"]
    if ops.is_empty() or ops["input_shapes"].null_count() == ops.height:
        return pl.DataFrame(schema=OP_WORK)
    instances = op_instances(profile)
    owner = _counted_calls(ops, instances)
    rows = np.flatnonzero(owner == np.arange(ops.height))
    calls = ops[rows].select(
        "session",
        pl.Series("row", rows, dtype=pl.UInt32),
        pl.col("name").alias("op"),
        "iteration",
        pl.col("input_shapes").alias("shapes"),
        pl.col("input_types").alias("types"),
        "input_values",
        "line",
    )
    launched = _launched(profile, owner)
    return (
        calls.with_columns(gpu_ns=instances["gpu_total_ns"].gather(pl.Series(rows)))
        .join(launched, on="row", how="left", maintain_order="left")
        .filter(pl.col("gpu_ns") > 0, ~pl.col("is_host_copy").fill_null(False))
        .join(_work_by_arguments(calls), on=["op", "shapes", "types", "input_values"], how="left", nulls_equal=True)
        .filter(pl.col("bytes").is_not_null())
        .pipe(_with_peaks, peaks_by_device(profile))
        .with_columns(**_rates())
        .sort("row")
        .select(pl.col(name).cast(dtype) for name, dtype in OP_WORK.items())
    )


def _rates() -> dict[str, pl.Expr]:
    """What follows from flops, bytes, gpu_ns, peak_flops_per_s and bandwidth."""
    seconds = pl.col("gpu_ns") / 1e9
    compute_s = pl.col("flops") / pl.col("peak_flops_per_s")
    memory_s = pl.col("bytes") / pl.col("bandwidth")
    # Work without FLOPs has no need of a peak.
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
        "flops_per_byte": pl.when(pl.col("bytes") > 0).then(pl.col("flops") / pl.col("bytes")),
        "roof_ns": 1e9 * roof_s,
        "roof_pct": 100 * roof_s / seconds,
        "bound": pl.when(roof_s.is_not_null()).then(
            pl.when((pl.col("flops") > 0) & (compute_s >= memory_s)).then(pl.lit("compute")).otherwise(pl.lit("memory"))
        ),
    }


# --- which calls count ----------------------------------------------------------------------------------------------


def _counted_calls(ops: pl.DataFrame, instances: pl.DataFrame) -> Ints:
    """For each row of ``ops`` the row of the counted call that it is or runs in, `NONE` where there is none.

    Counted are calls with a formula that launched GPU work, the outer one where one runs in another. An op that only
    wraps others counts where none of those has a formula.
    """
    distinct = ops["name"].unique().cast(pl.String).drop_nulls()
    wrappers = [name for name in distinct if name in WRAPPERS]
    others = [name for name in distinct if name not in WRAPPERS and model_of(name) is not None]
    worked = (instances["gpu_total_ns"] > 0).fill_null(False) & ops["input_shapes"].is_not_null()
    names = ops["name"].cast(pl.String)
    has_formula = (names.is_in(others).fill_null(False) & worked).to_numpy()
    wraps = (names.is_in(wrappers).fill_null(False) & worked).to_numpy()
    tree = op_tree(ops)
    counts = has_formula | (wraps & ~tree.around(has_formula))
    owner = np.where(counts, np.arange(ops.height), NONE)
    for level in tree.levels[1:]:
        above = owner[tree.parent[level]]
        owner[level] = np.where(above != NONE, above, owner[level])
    return owner


def _launched(profile: Profile, owner: Ints) -> pl.DataFrame:
    """What the counted calls launched.

    Columns: row, device, uses_tensor_core (whether any kernel does; null where that is not known), is_host_copy
    (whether all of it is copies from or to the host, which GPU memory does not bound).
    """
    rows = op_row_of_activities(profile)
    of_call = np.where(rows != NONE, owner[rows], NONE)
    here = of_call != NONE
    activities = with_verdicts(profile, profile["activities"].filter(pl.Series(here)))
    kinds = activities["copy_kind"].cast(pl.String)
    return (
        activities.select(
            pl.Series("row", of_call[here], dtype=pl.UInt32),
            "device",
            "uses_tensor_core",
            (pl.col("kind") == "kernel").alias("is_kernel"),
            ((pl.col("kind") == "memcpy") & pl.Series(kinds.is_in(["HtoD", "DtoH"]).fill_null(False))).alias("is_host"),
        )
        .group_by("row")
        .agg(
            pl.col("device").first(),
            pl.col("uses_tensor_core").filter("is_kernel").any(ignore_nulls=False),
            pl.col("is_host").all().alias("is_host_copy"),
        )
    )


# --- work and peaks -------------------------------------------------------------------------------------------------


def _work_by_arguments(calls: pl.DataFrame) -> pl.DataFrame:
    """FLOPs and bytes of each distinct set of arguments: a million calls have a few hundred.

    Columns: op, shapes, types, input_values, flops, bytes, formula, compute_type.
    """
    keys = ("op", "shapes", "types", "input_values")
    distinct = calls.select(keys).unique(maintain_order=True)
    found: list[Work | None] = [_work(*row) for row in distinct.select(pl.all().cast(pl.String)).iter_rows()]
    return distinct.with_columns(
        pl.Series("flops", [one and one.flops for one in found], pl.Int64, strict=False),
        pl.Series("bytes", [one and one.bytes for one in found], pl.Int64, strict=False),
        pl.Series("formula", [one and one.formula for one in found], pl.String),
        pl.Series("compute_type", [one and one.compute_type for one in found], pl.String),
    )


def _work(op: str, shapes: str | None, types: str | None, values: str | None) -> Work | None:
    try:
        work = work_of(Call(op, _tuples(_list(shapes)), tuple(map(str, _list(types))), tuple(map(str, _list(values)))))
    except (UnknownWorkError, ArithmeticError, RecursionError, TypeError, ValueError):
        # A dataset may hold any text in their place, and numbers that no program works out with.
        return None
    # Sizes come from the file: what no GPU can do is no work.
    return work if 0 <= work.flops < 1 << 62 and 0 < work.bytes < 1 << 62 else None


def _list(text: str | None) -> list[Any]:
    return list(json.loads(text)) if text else []


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _with_peaks(calls: pl.DataFrame, peaks: Mapping[tuple[int, int | None], Peaks]) -> pl.DataFrame:
    """Add ``bandwidth`` (bytes per second), ``peak`` and ``peak_flops_per_s`` of the GPU that each call ran on."""
    keys = ("session", "device", "compute_type", "uses_tensor_core")
    distinct = calls.select(keys).unique(maintain_order=True)
    bandwidths: list[float | None] = []
    found: list[tuple[str | None, float | None]] = []
    for session, device, compute_type, uses_tensor_core in distinct.iter_rows():
        gpu = peaks.get((session, device))
        peak = gpu.of(compute_type, uses_tensor_core) if gpu is not None and compute_type else None
        bandwidths.append(gpu.bytes_per_s if gpu is not None else None)
        found.append(peak or (None, None))
    distinct = distinct.with_columns(
        pl.Series("bandwidth", bandwidths, pl.Float64),
        pl.Series("peak", [name for name, _ in found], pl.String),
        pl.Series("peak_flops_per_s", [rate for _, rate in found], pl.Float64),
    )
    return calls.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left")


# --- sums -----------------------------------------------------------------------------------------------------------


@once_per_profile("ops", "activities", "devices", "api_calls", "sessions")
def op_work_by_shape(profile: Profile) -> pl.DataFrame:
    """`op_work` summed by session, op, shapes and types, the most GPU time first.

    Columns: session, op, shapes, types, calls, flops and bytes (of one call), gpu_ns (of all calls), tflops_per_s and
    tb_per_s (means over the calls, as TraceLens reports them), flops_per_byte, roof_pct (of the sums), gain_ns (what
    the calls took longer than the roofline allows), bound, peak, formula, line.
    """
    return (
        op_work(profile)
        .group_by("session", "op", "shapes", "types", "flops", "bytes", "bound", "peak", "formula")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("gpu_ns").sum(),
            pl.when(pl.col("roof_ns").null_count() == 0).then(pl.col("roof_ns").sum()).alias("roof_ns"),
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
            *("flops_per_byte", "roof_pct", "gain_ns", "bound", "peak", "formula", "line"),
        )
        .sort("gpu_ns", "op", "shapes", descending=[True, False, False], nulls_last=True)
    )


def calls_of_shape(profile: Profile, row: Mapping[str, Any] | None) -> pl.DataFrame:
    """The calls behind a row of `op_work_by_shape`, the longest first; none where no row is given."""
    work = op_work(profile)
    if row is None:
        return work.clear()
    keys = ("session", "op", "shapes", "types", "formula")
    return work.filter(pl.col(key).eq_missing(pl.lit(row[key], work.schema[key])) for key in keys).sort(
        "gpu_ns", descending=True, maintain_order=True
    )


@dataclass(frozen=True, slots=True)
class Roofline:
    """The whole of a session."""

    session: int
    gpu_ns: int
    """GPU time of the calls that have a formula."""
    covered_pct: float | None
    """Its share of the GPU time of the session."""
    flops: int
    """Of all calls."""
    tflops_per_s: float | None
    """FLOPs per second of wall time, in 10^12."""
    mfu_pct: float | None
    """Model FLOPs utilization: the least time that the peaks allow for the FLOPs / wall time. None where a call with
    FLOPs has no known peak."""
    gain_ns: int | None
    """GPU time above the roofline, of the calls whose roof is known."""


@once_per_profile("ops", "activities", "devices", "api_calls", "sessions")
def rooflines(profile: Profile) -> list[Roofline]:
    """The whole of each session that has calls with a formula.

    The wall time is from the first to the last GPU work of the session. With several GPUs in a session it counts once
    for each. Source of MFU: Chowdhery et al., "PaLM" (2022), appendix B.
    """
    work = op_work(profile)
    activities = profile["activities"]
    found = []
    for (session,), rows in work.group_by("session", maintain_order=True):
        own = activities.filter(pl.col("session") == session)
        gpu_ns = int(own["duration_ns"].sum())
        ends = (own["start_ns"] + own["duration_ns"]).max()
        start = own["start_ns"].min()
        gpus = max(own["device"].n_unique(), 1)
        wall_s = (ends - start) * gpus / 1e9 if isinstance(ends, int) and isinstance(start, int) else 0
        with_flops = rows.filter(pl.col("flops") > 0)
        peak_s = with_flops["flops"] / with_flops["peak_flops_per_s"]
        flops = int(rows["flops"].sum())
        known = rows.filter(pl.col("roof_ns").is_not_null())
        found.append(
            Roofline(
                session=int(session),
                gpu_ns=int(rows["gpu_ns"].sum()),
                covered_pct=100 * int(rows["gpu_ns"].sum()) / gpu_ns if gpu_ns else None,
                flops=flops,
                tflops_per_s=flops / wall_s / 1e12 if wall_s and flops else None,
                mfu_pct=100 * float(peak_s.sum()) / wall_s if wall_s and flops and not peak_s.null_count() else None,
                gain_ns=round((known["gpu_ns"] - known["roof_ns"]).sum()) if known.height else None,
            )
        )
    return found
