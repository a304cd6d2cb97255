"""Tensor cores, precision and layout, and kernels that take most of the time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    DLPROF,
    LAYOUT,
    ROOT_CAUSES,
    duration,
    evidence_by_name,
    float_or_zero,
    known_sum,
    label,
    percent,
    sort_by_largest,
)
from tui.analysis.expert.rule import EVIDENCE_ROWS, Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.launch_configurations import is_library_kernel
from tui.analysis.expert.rules.short_kernels import COPY_LESS_OFTEN, ELEMENTWISE, RUNTIME_COPIES
from tui.analysis.roofline import ROOF_SHARE, op_work_by_shape
from tui.analysis.tensor_core_efficiency import (
    TensorCoreUse,
    eligible_kernels_by_name,
    tensor_core_time,
    tensor_core_use,
)
from tui.text import number_in, plural

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


_NEWER: Final = r"(?i)(?:^|_)(?:volta|turing|ampere|hopper)_|sm_?[789][0-9]"
"""Names of kernels for architectures with tensor cores, which nearly all of their GPUs have."""
_HALF: Final = "half of the time of eligible kernels: tensor cores are at least twice as fast"
_DOUBLE: Final = (
    r"(?i)(?:^|[_:\s<])[dz](?:gemm|gemv|trsm|syrk|symm)|<\s*(?:const )?double\b|\bdouble\s*(?:const\s*)?\*"
    "|cudoublecomplex"
)


@rule("P1", "no-tensor-cores", Family.PRECISION, needs.gpu_work, needs.kernels, link=DLPROF)
def no_tensor_cores(case: Case) -> Verdict:
    """No kernel uses tensor cores."""
    rows, use = _use(case)
    numbers = {"eligible_ns": use.eligible_ns, "using_ns": use.using_ns, "kernel_ns": use.kernel_ns}
    if use.guessed and 2 * use.eligible_ns > use.kernel_ns:
        newer = rows.filter(pl.col("eligible").fill_null(False), pl.col("name").cast(pl.String).str.contains(_NEWER))
        if newer.height:
            half = _MIXED_PRECISION.get(case.framework, ("",))[0]
            return Found(
                f"Kernels that tensor cores could run take {percent(case.share(use.eligible_ns))} of GPU time, mostly "
                f"{label(newer.sort('total_ns', descending=True)['name'][0])}. The GPU is unknown.",
                f"Use mixed precision{half and f' ({half})'} if the GPU has tensor cores, and name it with --gpu.",
                numbers,
                None,
                "not estimated: the GPU is unknown",
                *evidence_by_name(newer, "launches", "total_ns", "tensor_core_reason"),
                rank_ns=use.eligible_ns // 2,
                is_summed_over_gpus=True,
            )
    if use.untimed or use.guessed:
        return NotApplicable(use.reason)
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}", numbers)
    if use.using_ns:
        return Clean(f"{duration(use.using_ns)} of {duration(use.kernel_ns)} of kernel time uses tensor cores", numbers)
    unknown_reason = _unknown_reason(case, use)
    if unknown_reason:
        return NotApplicable(unknown_reason)
    if not use.eligible_ns:
        return Clean("no kernel is eligible for tensor cores", numbers)
    could = _eligible_without_tensor_cores(rows)
    return Found(
        f"Tensor cores unused: {duration(use.eligible_ns)} of kernels ({percent(case.share(use.eligible_ns))} of GPU "
        f"time) could use them, mostly {label(could['name'][0])}.",
        _use_tensor_cores(case),
        numbers,
        known_sum(could.filter("may")["total_ns"]) // 2,
        _HALF,
        *evidence_by_name(could, "launches", "total_ns", "tensor_core_reason"),
        is_summed_over_gpus=True,
    )


def _use_tensor_cores(case: Case) -> str:
    """Return how to get work onto tensor cores, without what the program already does."""
    if case.in_use.half_precision:
        return "Half precision is already in use: make sizes multiples of 8, and check the layout."
    half, tf32 = _MIXED_PRECISION.get(case.framework, ("", ""))
    if _before_ampere(case):
        return (
            f"Use mixed precision with float16{half and f' ({half})'}. This GPU has no bfloat16 or TF32 tensor cores."
        )
    return f"Use mixed precision with bfloat16{half and f' ({half})'}, or allow TF32{tf32 and f' ({tf32})'}."


_MIXED_PRECISION: Final = {
    "torch": ("torch.autocast", "torch.set_float32_matmul_precision('high')"),
    "tensorflow": ("tf.keras.mixed_precision", "tf.config.experimental.enable_tensor_float_32_execution"),
    "jax": ("dtypes of parameters and inputs", "jax_default_matmul_precision"),
}
"""The settings of each framework for tensor cores: half precision, and TF32."""


def _before_ampere(case: Case) -> bool:
    """Return whether all GPUs are known and older than Ampere (8.0), the first with bfloat16 and TF32."""
    versions = number_in(case.facts["compute_capability"], r"^([0-9]+)\.")
    return bool(versions.len()) and not versions.null_count() and bool((versions < 8).all())


def _eligible_without_tensor_cores(rows: pl.DataFrame) -> pl.DataFrame:
    """Return eligible rows of `tensor_core_time` without tensor cores, products before the kernels around them.

    Added: may, false of kernels that an eligible op runs beside its product, as changes of layout and reductions.
    """
    remaining = rows.filter(pl.col("eligible").fill_null(False), ~pl.col("uses_tensor_core"))
    by_name = eligible_kernels_by_name(remaining["name"]).select("name", may=pl.col("eligible").fill_null(True))
    return remaining.join(by_name, on="name", how="left", maintain_order="left", nulls_equal=True).sort(
        pl.col("may").fill_null(True), "total_ns", descending=True, nulls_last=True, maintain_order=True
    )


def _use(case: Case) -> tuple[pl.DataFrame, TensorCoreUse]:
    rows = tensor_core_time(case.profile)
    return rows, tensor_core_use(rows)


def _unknown_reason(case: Case, use: TensorCoreUse) -> str:
    """Return why nothing is known about tensor cores; empty if something is."""
    unknown_pct = use.eligible_unknown_pct or 0.0
    if unknown_pct > case.limit("P2", "unknown_pct"):
        return f"not enough data: use of tensor cores is unknown for {percent(unknown_pct)} of the eligible time"
    return ""


@rule("P2", "low-tensor-cores", Family.PRECISION, needs.gpu_work, needs.kernels, link=LAYOUT)
def few_tensor_cores(case: Case) -> Verdict:
    """Few of the eligible kernels use tensor cores."""
    rows, use = _use(case)
    if use.untimed or use.guessed:
        return NotApplicable(use.reason)
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}")
    unknown_reason = _unknown_reason(case, use)
    if unknown_reason:
        return NotApplicable(unknown_reason)
    efficiency = use.efficiency_pct
    if efficiency is None or not use.using_ns:
        return Clean(
            "no kernel uses tensor cores: see P1" if use.eligible_ns else "no kernel is eligible for tensor cores"
        )
    numbers = {"efficiency_pct": efficiency, "eligible_ns": use.eligible_ns, "using_ns": use.eligible_using_ns}
    if efficiency >= case.limit("P2", "info_pct"):
        return Clean(f"{percent(efficiency)} of the eligible kernel time uses tensor cores", numbers)
    could = _eligible_without_tensor_cores(rows)
    remaining_ns, possible_ns = known_sum(could["total_ns"]), known_sum(could.filter("may")["total_ns"])
    if not possible_ns:
        return Clean(
            "all eligible kernels use them; layout changes and other kernels of the same ops take "
            f"{duration(remaining_ns)}",
            numbers,
        )
    around = (
        f" Layout changes and other kernels of the same ops take {duration(remaining_ns - possible_ns)}."
        if remaining_ns > possible_ns
        else ""
    )
    return Found(
        f"Tensor cores used for {percent(efficiency)} of the eligible kernel time. Eligible kernels without them take "
        f"{duration(possible_ns)}, mostly {label(could['name'][0])}.{around}",
        f"Check these ops: float32{'' if _before_ampere(case) else ' without TF32'}, or sizes that are not multiples "
        "of 8 in half precision.",
        {**numbers, "could_ns": possible_ns, "around_ns": remaining_ns - possible_ns},
        possible_ns // 2,
        _HALF,
        *evidence_by_name(could, "launches", "total_ns", "tensor_core_reason"),
        Severity.INFO if efficiency >= case.limit("P2", "warn_pct") else None,
        is_summed_over_gpus=True,
    )


@rule("P3", "double-precision", Family.PRECISION, needs.gpu_work, needs.kernels)
def double_precision(case: Case) -> Verdict:
    """Kernels compute in double precision."""
    wide = case.kernels.filter(pl.col("name").cast(pl.String).str.contains(_DOUBLE))
    total_ns, share = case.total_and_share(wide)
    numbers = {"time_ns": total_ns, "time_pct": share}
    if share <= case.limit("P3", "time_pct"):
        return Clean(f"double-precision kernels take {percent(share)} of GPU time", numbers)
    return Found(
        f"Double-precision kernels take {percent(share)} of GPU time, mostly {label(wide['name'][0])}.",
        "If float64 is not intended, find the NumPy array or Python float that it comes from, and cast there."
        if case.framework
        else "If double precision is not needed, compute in float; check for literals without f, such as 0.5.",
        numbers,
        total_ns // 2,
        "half of that time: single precision is at least twice as fast",
        *evidence_by_name(wide, "calls", "total_ns", "line"),
        is_summed_over_gpus=True,
    )


@rule("P4", "layout", Family.PRECISION, needs.gpu_work, needs.kernels, link=LAYOUT)
def layout(case: Case) -> Verdict:
    """Kernels only change the layout of data."""
    rows = case.kernels.filter(pl.col("op_type") == "layout")
    total_ns, share = case.total_and_share(rows)
    numbers = {"time_ns": total_ns, "time_pct": share}
    if share <= case.limit("P4", "time_pct"):
        return Clean(f"layout changes take {percent(share)} of GPU time", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"Layout changes take {percent(share)} of GPU time in "
        f"{plural(known_sum(rows['calls']), 'launch', 'launches')}, mostly {label(first['name'])}.",
        "channels_last is already in use: find the ops that change back (contiguous, custom layers)."
        if case.in_use.channels_last
        else "Keep one layout: model and input .to(memory_format=torch.channels_last), with half precision."
        if case.is_torch and case.vendor != "Huawei"
        else "Keep tensors in one format: torch.npu.config.allow_internal_format = False."
        if case.is_torch
        else "Keep one layout: NHWC with half precision.",
        numbers,
        total_ns,
        "all of these kernels",
        *evidence_by_name(rows, "calls", "total_ns", "line"),
        is_summed_over_gpus=True,
    )


_KERNEL_PROFILERS: Final = {
    "NVIDIA": "ncu --set full shows what limits it.",
    "AMD": "rocprof-compute shows what limits it.",
    "Huawei": "msprof op shows what limits it.",
    "Intel": "vtune -collect gpu-hotspots shows what limits it.",
}


def _limit_sentence(case: Case) -> str:
    if case.profile["metrics"].height:
        return "Metrics shows what limits it."
    return _KERNEL_PROFILERS.get(case.vendor, "A kernel profiler shows what limits it.")


_LOWEST: Final = re.compile(r"(?i)e[45]m[23]|e2m1|fp8|fp4|float8|int8|i8i8|s8s8")
"""Types below which there is no lower precision, in names of kernels."""


def _lower(name: object) -> str:
    return "" if _LOWEST.search(str(name)) else ", or a lower precision"


@rule(
    "P10",
    "hotspot",
    Family.PRECISION,
    needs.gpu_work,
    needs.kernels,
    severity=Severity.INFO,
    link=ROOT_CAUSES,
)
def hotspot(case: Case) -> Verdict:
    """One kernel takes most of the time."""
    if case.computing.is_empty():
        return Clean("no compute kernels")
    first = case.computing.row(0, named=True)
    share = case.share(first["total_ns"])
    numbers = {"time_pct": share, "total_ns": first["total_ns"], "calls": first["calls"]}
    longest = f"the longest kernel, {label(first['name'])}, takes {percent(share)} of GPU time"
    if share <= case.limit("P10", "time_pct"):
        return Clean(longest, numbers)
    if case.wall_ns and case.wall_pct(first["total_ns"]) < case.limit("P10", "wall_pct"):
        return Clean(f"{longest}, but {percent(case.wall_pct(first['total_ns']))} of the {case.wall_words}", numbers)
    calls = f" in {plural(first['calls'], 'launch', 'launches')}" if first["calls"] else ""
    return Found(
        f"{label(first['name'])} takes {percent(share)} of GPU time: {duration(first['total_ns'])}{calls}.",
        COPY_LESS_OFTEN
        if str(first["name"]).startswith(RUNTIME_COPIES)
        else f"Try another implementation of this library kernel{_lower(first['name'])}. {_limit_sentence(case)}"
        if is_library_kernel(first["name"])
        else f"Optimize this kernel. {_limit_sentence(case)}",
        numbers,
        None,
        "not estimated: it depends on what limits the kernel",
        *evidence_by_name(case.computing.head(1), "calls", "total_ns", "line"),
        cause=_known_problem(case, first["name"], first["op_type"]),
        # Kernels of libraries leave little to gain.
        rank_ns=first["total_ns"] // (100 if is_library_kernel(first["name"]) else 2),
        is_summed_over_gpus=True,
    )


def _known_problem(case: Case, name: object, op_type: str) -> str:
    """Return the cause of an earlier finding about a kernel; empty if there is none."""
    if case.has_finding("P4") and op_type == "layout":
        return Cause.LAYOUT
    if case.has_finding("P7") and op_type in ELEMENTWISE:
        return Cause.FUSION
    if case.has_finding("P1") or case.has_finding("P2"):
        could = _eligible_without_tensor_cores(_use(case)[0]).filter("may")["name"].cast(pl.String)
        return Cause.PRECISION if str(name) in could.to_list() else ""
    return ""


@rule(
    "L10",
    "uneven-kernel",
    Family.CONFIGURATION,
    needs.gpu_work,
    needs.several_launches,
    needs.iterations,
    severity=Severity.INFO,
)
def uneven_kernels(case: Case) -> Verdict:
    """A launch that each iteration repeats takes very different times.

    Launches of one configuration may do different work: each is compared with those at its place in other iterations.
    """
    configs = case.configs.select(*_CONFIGURATION, "calls", "total_ns")
    if configs.is_empty():
        return NotApplicable("no compute kernels ran")
    if not configs["grid_x"].count():
        return NotApplicable("grids are not recorded: launches of one name may do different work")
    least_ns = case.limit("L10", "excess_pct") / 100 * case.gpu_ns
    # Only configurations whose launches take more than this in total can exceed their median by it.
    heavy = (
        configs.group_by(_CONFIGURATION)
        .agg(pl.col("calls", "total_ns").sum())
        .filter(pl.col("calls") >= case.limit("L10", "launches"), pl.col("total_ns") > least_ns)
        .sort("total_ns", descending=True)
        .with_columns((pl.col("calls").cum_sum() // _LAUNCHES_AT_ONCE).alias("part"))
    )
    parts = [_spread_by_place(case, part) for part in heavy.partition_by("part", include_key=False)]
    spread = pl.concat(parts or [_spread_by_place(case, heavy)]).filter(
        pl.col("max_ns") > case.limit("L10", "times") * pl.col("median_ns"), pl.col("excess_ns") > least_ns
    )
    uneven = sort_by_largest(spread, "excess_ns")
    numbers = {"kernels": uneven.height}
    if uneven.is_empty():
        return Clean("launches at one place of the iterations take about the same time", numbers)
    first, excess = uneven.row(0, named=True), int(float_or_zero(uneven["excess_ns"].sum()))
    return Found(
        f"{label(first['name'])} takes {duration(first['max_ns'])} in one iteration, where it usually takes "
        f"{duration(first['median_ns'])}: {duration(first['excess_ns'])} beyond the usual time in all.",
        "Compare slow launches with the others: contention, clocks, different data.",
        numbers,
        excess,
        "what these launches take beyond the median of their place in the iteration",
        *evidence_by_name(uneven, "launches", "median_ns", "max_ns", "total_ns", "excess_ns", "line"),
        is_summed_over_gpus=True,
    )


_CONFIGURATION: Final = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LAUNCHES_AT_ONCE: Final = 1 << 21
"""Launches of configurations that are compared at once, to bound the memory."""


def _spread_by_place(case: Case, configs: pl.DataFrame) -> pl.DataFrame:
    """Return how the launches of configurations differ from the median of their place in the iterations.

    Columns: the configuration, launches, median_ns and max_ns of the place with the largest ratio, total_ns, excess_ns
    (the sum of what launches take beyond the median of their place), line.
    """
    numbered = configs.select(_CONFIGURATION).with_row_index("config")
    duration_ns, usual = pl.col("duration_ns"), pl.col("usual_ns")
    launches = (
        case.profile["activities"]
        .lazy()
        .filter(
            pl.col("kind") == "kernel",
            pl.col("name").is_in(configs["name"].unique().implode()),
            pl.col("iteration").is_not_null(),
        )
        .select(*_CONFIGURATION, "iteration", "start_ns", "duration_ns", "line")
        .drop_nulls(["duration_ns", "start_ns"])
        .join(numbered.lazy(), on=_CONFIGURATION, nulls_equal=True)
        .select("config", "iteration", "start_ns", "duration_ns", "line")
        .sort("start_ns")
        .with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over("iteration", "config").alias("place"))
        .drop("iteration", "start_ns")
        .with_columns(
            duration_ns.median().over("place", "config").alias("usual_ns"),
            pl.len().over("place", "config").alias("iterations"),
        )
        .filter(pl.col("iterations") >= case.limit("L10", "iterations"), usual > 0)
        .group_by("config")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            usual.get((duration_ns / usual).arg_max()).alias("median_ns"),
            duration_ns.get((duration_ns / usual).arg_max()).alias("max_ns"),
            duration_ns.sum().alias("total_ns"),
            (duration_ns - usual).clip(0).sum().alias("excess_ns"),
            pl.col("line").min(),
        )
        .collect()
    )
    return numbered.join(launches, on="config").drop("config")


@rule("P14", "below-roof", Family.PRECISION, needs.gpu_work, needs.shapes, severity=Severity.INFO)
def below_roof(case: Case) -> Verdict:
    """Ops run far below what the GPU's peaks allow for their FLOPs and bytes."""
    rows = op_work_by_shape(case.profile)
    estimated = rows.drop_nulls("gain_ns")
    if estimated.is_empty():
        return NotApplicable("no op with a known formula" if rows.is_empty() else "the peaks of this GPU are not known")
    # Launch overhead alone keeps short ops below the roof.
    long_calls = estimated.filter(pl.col("gpu_ns") >= case.limit("P14", "call_ns") * pl.col("calls"))
    roof_ns = pl.col("gpu_ns") - pl.col("gain_ns")
    gains = long_calls.with_columns(
        (pl.col("gpu_ns") - roof_ns / ROOF_SHARE).clip(0).round().cast(pl.Int64).alias("saved_ns")
    ).sort("saved_ns", descending=True)
    saved = known_sum(gains["saved_ns"])
    numbers = {
        "saved_ns": saved,
        "saved_pct": case.share(saved),
        "covered_pct": case.share(known_sum(estimated["gpu_ns"])),
    }
    if case.share(saved) < case.limit("P14", "saved_pct"):
        return Clean(f"at 70% of the roofline, ops would take {percent(case.share(saved))} less GPU time", numbers)
    first = gains.row(0, named=True)
    iterations = case.iterations.height
    per_iteration = f", {duration(saved / iterations)} per iteration" if iterations > 1 else ""
    return Found(
        f"At 70% of the roofline, ops would take {duration(saved)} less GPU time{per_iteration}. The largest part is "
        f"{label(first['op'])}, at {percent(first['roof_pct'])} of the roofline ({first['bound']}-bound).",
        _roof_advice(case, first["op"], first["bound"]),
        numbers,
        saved,
        "GPU time above 70% of the roofline, inferred from shapes and types; ops can overlap",
        gains.filter(pl.col("saved_ns") > 0)
        .select("op", "shapes", "calls", "gpu_ns", "roof_pct", "bound", "saved_ns")
        .head(EVIDENCE_ROWS),
        "roofline",
        is_summed_over_gpus=True,
    )


def _roof_advice(case: Case, op: str, bound: str) -> str:
    """Return how to bring an op closer to the roof, without what the program already does."""
    in_use = case.in_use
    setting = _MIXED_PRECISION.get(case.framework, ("",))[0]
    half = [] if in_use.half_precision else [f"half precision{setting and f' ({setting})'}"]
    images = re.search(_IMAGE_OPS, op) and not in_use.channels_last
    layout = ["channels_last" if case.is_torch else "NHWC"] if images else []
    if re.search(_ATTENTION, op):
        backend = " (torch.nn.attention.sdpa_kernel)" if case.is_torch else ""
        options = [*half, f"another attention backend{backend}"]
    elif bound == "memory":
        fused = (
            f"fusion with its neighbors ({case.compiler})"
            if case.compiler and not in_use.compiler
            else "a fused kernel"
        )
        options = [*half, *layout, fused]
    else:
        options = [*half, *layout, "shapes that are multiples of 64"]
    text = ", ".join(options[:-1]) + f" or {options[-1]}" if len(options) > 1 else options[0]
    return f"Speed up {label(op)} first: {text}."


_IMAGE_OPS: Final = r"(?i)conv|batch_?norm|pool"
_ATTENTION: Final = r"(?i)attention|flash_attn"
