"""Kernels and layers that could be faster: tensor cores, precision, layout, roofline, and those that take most time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.devices import is_newer_than_nvprof_supports
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    DLPROF,
    LAYOUT,
    NAME_CELLS,
    ROOT_CAUSES,
    duration,
    evidence_by_name,
    known_sum,
    label,
    name_filter,
    part_of_total_text,
    percent,
    share_text,
)
from tui.analysis.expert.rule import EVIDENCE_ROWS, Cause, Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.launch_configurations import LIBRARY, is_library_kernel
from tui.analysis.expert.rules.short_kernels import COPY_LESS_OFTEN, ELEMENTWISE, RUNTIME_COPIES
from tui.analysis.hardware_metrics import BALANCED, measured_kernels
from tui.analysis.launch_config import NCU_SINCE
from tui.analysis.needs import METRICS, Tool
from tui.analysis.ops.op_type_rules import classify
from tui.analysis.roofline import ROOF_SHARE, op_work_by_shape
from tui.analysis.tensor_core_efficiency import (
    TensorCoreUse,
    eligible_kernels_by_name,
    tensor_core_time,
    tensor_core_use,
)
from tui.model.names import short_name
from tui.text import number_in, plural
from tui.text_width import clip_middle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.expert.case import Case


_NEWER: Final = r"(?i)(?:^|_)(?:volta|turing|ampere|hopper)_|sm_?[789][0-9]"
"""Names of kernels for architectures with tensor cores, which nearly all of their GPUs have."""
_HALF: Final = "half of the time of eligible kernels: tensor cores are at least twice as fast"
_DOUBLE: Final = (
    r"(?i)(?:^|[_:\s<])[dz](?:gemm|gemv|trsm|syrk|symm)|<\s*(?:const )?double\b|\bdouble\s*(?:const\s*)?\*"
    "|cudoublecomplex"
)


@rule("P1", "no-tensor-cores", Family.PRECISION, needs.kernels, link=DLPROF)
def no_tensor_cores(case: Case) -> Verdict:
    """No kernel uses tensor cores."""
    rows, use = _use(case)
    numbers = {"eligible_ns": use.eligible_ns, "using_ns": use.using_ns, "kernel_ns": use.kernel_ns}
    if use.guessed and 2 * use.eligible_ns > use.kernel_ns and case.vendor in ("NVIDIA", ""):
        newer = rows.filter(pl.col("eligible").fill_null(False), pl.col("name").cast(pl.String).str.contains(_NEWER))
        if newer.height:
            half = _MIXED_PRECISION.get(case.framework, ("",))[0]
            return Found(
                f"Kernels that tensor cores could run take {percent(case.share(use.eligible_ns))} of GPU time, mostly "
                f"{label(newer.sort('total_ns', descending=True)['name'][0])}. The GPU is unknown.",
                f"Name the GPU with --gpu. If it has tensor cores, use mixed precision{half and f' ({half})'}.",
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
    without = _eligible_without_tensor_cores(rows)
    return Found(
        f"Tensor cores unused: {duration(use.eligible_ns)} of kernels ({percent(case.share(use.eligible_ns))} of GPU "
        f"time) could use them, mostly {label(without['name'][0])}.",
        _use_tensor_cores(case),
        numbers,
        known_sum(without.filter("may")["total_ns"]) // 2,
        _HALF,
        *evidence_by_name(without.filter("may"), "launches", "total_ns", "tensor_core_reason"),
        is_summed_over_gpus=True,
    )


def _use_tensor_cores(case: Case) -> str:
    """Return how to get work onto tensor cores, without what the program already does."""
    if case.in_use.half_precision:
        return "Half precision is already in use: make sizes multiples of 8, and check the layout."
    half, tf32 = (
        ("", "") if case.vendor not in ("NVIDIA", "AMD", "") else _MIXED_PRECISION.get(case.framework, ("", ""))
    )
    half, tf32 = half and f" ({half})", tf32 and f" ({tf32})"
    if _before_ampere(case):
        return f"Use mixed precision with float16{half}. This GPU has no bfloat16 or TF32 tensor cores."
    if not case.facts["compute_capability"].drop_nulls().len():
        return f"Use mixed precision{half}; GPUs of Ampere or newer also have TF32{tf32}."
    return f"Use mixed precision with bfloat16{half}, or allow TF32{tf32}."


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
    return rows, tensor_core_use(rows, vendor="" if case.vendor == "NVIDIA" else case.vendor)


def _unknown_reason(case: Case, use: TensorCoreUse) -> str:
    """Return why nothing is known about tensor cores; empty if something is."""
    unknown_pct = use.eligible_unknown_pct or 0.0
    if unknown_pct > case.limit("P2", "unknown_pct"):
        return f"not enough data: use of tensor cores is unknown for {percent(unknown_pct)} of the eligible time"
    return ""


@rule("P2", "low-tensor-cores", Family.PRECISION, needs.kernels, link=LAYOUT)
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
    without = _eligible_without_tensor_cores(rows)
    most = label(without["name"][0]) if without.height else ""
    remaining_ns, possible_ns = known_sum(without["total_ns"]), known_sum(without.filter("may")["total_ns"])
    if not possible_ns:
        return Clean(
            "all eligible kernels use them; layout changes and other kernels of the same ops take "
            f"{duration(remaining_ns)}",
            numbers,
        )
    others = (
        f" Layout changes and other kernels of the same ops take {duration(remaining_ns - possible_ns)}."
        if remaining_ns > possible_ns
        else ""
    )
    return Found(
        f"Tensor cores used for {percent(efficiency)} of the eligible kernel time. Eligible kernels without them take "
        f"{duration(possible_ns)}, mostly {most}.{others}",
        _why_without(case, str(without["name"][0])),
        {**numbers, "not_using_ns": possible_ns, "other_kernels_ns": remaining_ns - possible_ns},
        possible_ns // 2,
        _HALF,
        *evidence_by_name(without.filter("may"), "launches", "total_ns", "tensor_core_reason"),
        Severity.INFO if efficiency >= case.limit("P2", "warn_pct") else None,
        is_summed_over_gpus=True,
    )


_FLOAT32: Final = re.compile(r"(?i)(?:^|_)s(?:gemm|cudnn)|f32f32_f32f32_f32")
"""Names of kernels that compute in float32 without TF32."""


def _why_without(case: Case, name: str) -> str:
    """Return what to do about an eligible kernel that does not use tensor cores, while others do."""
    half, tf32 = _MIXED_PRECISION.get(case.framework, ("", ""))
    tf32_advice = "" if _before_ampere(case) else f", or allow TF32{tf32 and f' ({tf32})'}"
    if _FLOAT32.search(name):
        return f"{label(name)} computes in float32: run its ops in half precision{half and f' ({half})'}{tf32_advice}."
    return (
        f"Check the ops of {label(name)}: float32{tf32_advice and ' without TF32'}, or sizes that are not multiples of "
        "8 in half precision."
    )


@rule("P3", "double-precision", Family.PRECISION, needs.kernels)
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
        else "Keep tensors in one format (PyTorch: torch.npu.config.allow_internal_format = False)."
        if case.vendor == "Huawei"
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


def _limit_sentence(case: Case, name: str) -> str:
    """Return where to see what limits a kernel: in Metrics, if it has shares of a peak or utilization levels."""
    shares = case.profile["metrics"].filter(pl.col("unit").is_in(["%", "level"]))
    # Proton's metrics are what the program says about its scopes.
    if case.tool is not Tool.PROTON and short_name(name) in map(short_name, shares["kernel"].drop_nulls().unique()):
        return "Metrics shows what limits it."
    capabilities = number_in(case.facts["compute_capability"], r"^([0-9]+)\.").drop_nulls()
    # A GPU that nvprof recorded is one that it supports, and may be too old for ncu.
    is_old = (capabilities < NCU_SINCE).all() if capabilities.len() else case.tool is Tool.NVPROF
    if case.vendor == "NVIDIA" and is_old:
        return "nvprof --metrics all shows what limits it."
    return _KERNEL_PROFILERS.get(case.vendor, "A kernel profiler shows what limits it.")


_LOWEST: Final = re.compile(r"(?i)e[45]m[23]|e2m1|fp8|fp4|float8|int8|i8i8|s8s8")
"""Types below which there is no lower precision, in names of kernels."""


_DATA_TYPES: Final = ("random", "fill")
"""The op types of kernels that create data."""
_LEAVE_OUT: Final = "This kernel only creates data. If that prepares a benchmark, leave it out of what you measure."


def _hotspot_advice(case: Case, name: str, op_type: str) -> str:
    """Return what to do about the kernel that takes most of the time."""
    if name.startswith(RUNTIME_COPIES):
        return COPY_LESS_OFTEN
    if op_type in _DATA_TYPES:
        return _LEAVE_OUT
    if not is_library_kernel(name):
        return f"Optimize {label(name)}. {_limit_sentence(case, name)}"
    lower = "" if _LOWEST.search(name) else ", or a lower precision"
    return f"Try another implementation of the library kernel {label(name)}{lower}. {_limit_sentence(case, name)}"


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
    timed = case.computing.drop_nulls("total_ns")
    if timed.is_empty():
        return NotApplicable("the durations of kernels are unknown")
    first = timed.row(0, named=True)
    share = case.share(first["total_ns"])
    numbers = {"time_pct": share, "total_ns": first["total_ns"], "calls": first["calls"]}
    top = f"the top kernel, {label(first['name'])}, takes {percent(share)} of GPU time"
    if share <= case.limit("P10", "time_pct"):
        return Clean(top, numbers)
    if case.wall_ns and case.wall_pct(first["total_ns"]) < case.limit("P10", "wall_pct"):
        return Clean(f"{top}, but {percent(case.wall_pct(first['total_ns']))} of the {case.wall_words}", numbers)
    calls = f" in {plural(first['calls'], 'launch', 'launches')}" if first["calls"] else ""
    return Found(
        f"{label(first['name'])} takes {percent(share)} of GPU time: {duration(first['total_ns'])}{calls}.",
        _hotspot_advice(case, str(first["name"]), first["op_type"]),
        numbers,
        None,
        "not estimated: it depends on what limits the kernel",
        *evidence_by_name(timed.head(1), "calls", "total_ns", "line"),
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
        eligible = _eligible_without_tensor_cores(_use(case)[0]).filter("may")["name"].cast(pl.String)
        return Cause.PRECISION if str(name) in eligible.to_list() else ""
    return ""


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
        f"{label(first['op'])} runs at {percent(first['roof_pct'])} of the roofline ({first['bound']}-bound). At 70%, "
        f"all ops would take {duration(saved)} less GPU time ({percent(case.share(saved))}){per_iteration}.",
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


def measured_throughput(case: Case) -> str:
    """Require the measured throughput of kernels as shares of the GPU's peaks."""
    if missing := case.missing.get(METRICS.name, ""):
        return missing
    is_measured = not measured_kernels(case.profile)["bound"].drop_nulls().is_empty()
    return "" if is_measured else "compute and memory throughput of kernels are not measured as shares of the peaks"


_DRAM_SHARE: Final = 0.9
"""From this share of the memory throughput on, DRAM limits a kernel; below, a cache or shared memory."""


@rule("P17", "measured-limit", Family.PRECISION, measured_throughput, severity=Severity.INFO)
def measured_limit(case: Case) -> Verdict:
    """What limits the longest measured kernel."""
    first = measured_kernels(case.profile).drop_nulls("bound").row(0, named=True)
    stall = f" Its warps stall mostly on `{first['stall']}`." if first["stall"] is not None else ""
    numbers = {"sm_pct": first["sm_pct"], "memory_pct": first["memory_pct"], "dram_pct": first["dram_pct"]}
    limit = "compute and memory" if first["bound"] == BALANCED else first["bound"]
    return Found(
        f"{label(first['kernel'])} is limited by {limit}: compute throughput is "
        f"{percent(first['sm_pct'])} of the peak, memory throughput {percent(first['memory_pct'])}.{stall}",
        _limit_advice(first),
        {name: value for name, value in numbers.items() if value is not None},
        None,
        "not estimated: it depends on how much can be saved",
        view="metrics",
        part="kernels",
    )


def _limit_advice(row: Mapping[str, Any]) -> str:
    """Return what to do about a kernel of `measured_kernels`, by what limits it."""
    if classify(pl.Series([row["kernel"]]))["op_type"][0] in _DATA_TYPES:
        return f"{_LEAVE_OUT} With ncu: --kernel-name regex:NAME."
    if row["bound"] == BALANCED:
        return "Both are about equally busy, so reduce both: fewer instructions for each result, and less data moved."
    if row["bound"] == "compute":
        return "Compute less: tensor cores, a lower precision, fewer instructions for each result."
    if row["bound"] == "latency":
        return (
            "Neither compute nor memory is busy: run more warps (larger grid, fewer registers or less shared memory "
            "for each block), or more independent work in each thread."
        )
    if row["dram_pct"] is None:
        return (
            "Access memory less: fuse it with its neighbors, use smaller types, reuse what is loaded. "
            "Whether DRAM or a cache limits it is not measured: ncu --set full measures it."
        )
    if row["dram_pct"] >= _DRAM_SHARE * row["memory_pct"]:
        return "Move less data to and from DRAM: fuse it with its neighbors, use smaller types, reuse what is loaded."
    return "Access caches and shared memory less: coalesced and wider loads, no bank conflicts, values in registers."


_COALESCE: Final = "Coalesce memory accesses: neighboring threads, neighboring addresses (structures of arrays)."
_EFFICIENCIES: Final = {
    "gld_efficiency": ("global loads", _COALESCE),
    "gst_efficiency": ("global stores", _COALESCE),
    "shared_efficiency": ("shared memory", "Avoid bank conflicts: pad shared arrays by a column."),
    "warp_execution_efficiency": (
        "active threads per warp",
        "Avoid divergent branches, and blocks that are not a multiple of 32 threads.",
    ),
}
"""What nvprof's metrics of efficiency are about, and what to do if they are low: the share of the bytes that memory
accesses move which the kernel asked for, and the share of the threads of a warp that work."""
_GENERIC_LIBRARIES: Final = r"thrust::|\bcub::"
"""Libraries whose kernels access memory as the user's types and functions do."""


def _measured_efficiencies(case: Case) -> pl.DataFrame:
    """Return the efficiencies of kernels, without 0, which nvprof writes for a kernel without such accesses."""
    return case.profile["metrics"].filter(
        pl.col("metric").cast(pl.String).is_in(_EFFICIENCIES.keys()), pl.col("unit") == "%", pl.col("avg") > 0
    )


def measured_efficiency(case: Case) -> str:
    """Require nvprof's efficiencies of kernels."""
    if missing := case.missing.get(METRICS.name, ""):
        return missing
    if not _measured_efficiencies(case).is_empty():
        return ""
    if case.vendor not in ("NVIDIA", "") or is_newer_than_nvprof_supports(case.profile):
        return "these efficiencies are metrics of nvprof, which does not support this GPU"
    return f"not measured: nvprof --metrics {','.join(_EFFICIENCIES)}"


@rule("P18", "measured-efficiency", Family.PRECISION, measured_efficiency, severity=Severity.INFO)
def low_efficiency(case: Case) -> Verdict:
    """Memory accesses or warps of a kernel have low efficiency."""
    limit = case.limit("P18", "efficiency_pct")
    name = pl.col("kernel").cast(pl.String)
    is_own = ~name.str.contains(LIBRARY) | name.str.contains(_GENERIC_LIBRARIES)
    low = _measured_efficiencies(case).filter(is_own, pl.col("avg") < limit).sort("avg", maintain_order=True)
    if low.is_empty():
        return Clean(f"all measured efficiencies of kernels outside libraries are at least {percent(limit)}")
    kernel = low["kernel"][0]
    of_kernel = low.filter(pl.col("kernel") == kernel).unique("metric", keep="first", maintain_order=True)
    texts = [_EFFICIENCIES[metric] for metric in of_kernel["metric"]]
    values = [f"{name} {percent(value)}" for (name, _), value in zip(texts, of_kernel["avg"], strict=True)]
    others = low["kernel"].n_unique() - 1
    more = f" {plural(others, 'more kernel has', 'more kernels have')} less than {percent(limit)}." if others else ""
    return Found(
        f"{label(kernel)} has low efficiency: {', '.join(values)}.{more}",
        " ".join(dict.fromkeys(advice for _, advice in texts)),
        {"lowest_pct": low["avg"][0], "kernels": others + 1},
        None,
        "not estimated: it depends on what limits the kernel",
        low.select("kernel", "metric", "avg", "invocations", "line").head(EVIDENCE_ROWS),
        view="metrics",
        part="metrics",
    )


_REFORMAT: Final = r"(?i)^Reformatting CopyNode|^Reformat\b|reformat(?:ted)?_copy"


def layer_times(case: Case) -> str:
    """Measured times of layers, of a run whose GPU work is not recorded."""
    if not known_sum(case.layers["measured_ns"]):
        return "no measured times of layers"
    return "GPU work is recorded: its kernels are judged instead of the layers" if case.gpu_ns else ""


def _layer(name: object) -> str:
    """Format the name of a layer for a sentence."""
    return f"`{clip_middle(str(name), NAME_CELLS)}`"


@rule("P15", "reformat-layers", Family.PRECISION, layer_times)
def reformat_layers(case: Case) -> Verdict:
    """TensorRT converts formats between layers."""
    layers = case.layers
    if not layers["executor"].cast(pl.String).eq("tensorrt").any():
        return NotApplicable("the layers are not TensorRT's")
    rows = layers.filter(pl.col("layer").cast(pl.String).str.contains(_REFORMAT))
    reformat_ns, total_ns = known_sum(rows["measured_ns"]), known_sum(layers["measured_ns"])
    share = 100 * reformat_ns / total_ns
    numbers = {"layers": rows.height, "reformat_ns": reformat_ns, "reformat_pct": share}
    if share <= case.limit("P15", "reformat_pct"):
        return Clean(f"reformat layers take {percent(share)} of the inference", numbers)
    slowest = rows.sort("measured_ns", descending=True, maintain_order=True)
    number = plural(rows.height, "reformat layer takes", "reformat layers take")
    return Found(
        f"{number} {share_text(reformat_ns, total_ns)} of the inference time, to convert the type or layout of "
        "tensors. "
        f"{'The slowest' if rows.height > 1 else 'It'} is {_layer(slowest['layer'][0])}.",
        "Keep neighboring layers in one precision. Give inputs and outputs the format that the first and last layer "
        "want (--inputIOFormats, --outputIOFormats).",
        numbers,
        reformat_ns,
        "all of these layers",
        slowest.select("layer", "measured_ns", "line"),
        "layers",
        name_filter(slowest["layer"], "layer"),
    )


@rule("P16", "slow-layers", Family.PRECISION, layer_times, severity=Severity.INFO)
def slow_layers(case: Case) -> Verdict:
    """A few layers take most of the time."""
    by_name = (
        case.layers.group_by("executor", "layer", maintain_order=True)
        .agg(pl.col("measured_ns").sum(), pl.col("line").min())
        .with_columns(share_pct=100 * pl.col("measured_ns") / pl.col("measured_ns").sum().over("executor"))
        .sort("share_pct", descending=True, maintain_order=True)
    )
    first = by_name.row(0, named=True)
    executor_layers = by_name.filter(by_name["executor"].eq_missing(first["executor"]))
    share, total_ns, top = first["share_pct"], known_sum(executor_layers["measured_ns"]), executor_layers.head(3)
    numbers = {"layers": executor_layers.height, "slowest_pct": share, "slowest_ns": first["measured_ns"]}
    if share <= case.limit("P16", "layer_pct"):
        slowest = f"the slowest of {plural(executor_layers.height, 'layer')}, {_layer(first['layer'])},"
        return Clean(f"{slowest} takes {percent(share)} of the time", numbers)
    others = (
        f"; the slowest 3 take {percent(known_sum(top['measured_ns']) / total_ns * 100)}"
        if executor_layers.height > 3
        else ""
    )
    basis = f"the layers of {first['executor']}" if executor_layers.height < by_name.height else "all layers"
    advice = {
        "tensorrt": "Try a lower precision (--fp16, --int8 or --best) for the slowest layers that do not use one yet. "
        "--dumpLayerInfo --profilingVerbosity=detailed shows their tactics.",
        "caffe": "Try another implementation of the slowest layers (engine: CUDNN, where it is not in use yet). "
        "nsys profile shows their kernels.",
        "caffe (CPU)": "Caffe ran on the CPU: to use a GPU, add -gpu 0. If there is none, build Caffe with a faster "
        "BLAS (OpenBLAS, MKL).",
    }
    return Found(
        f"{_layer(first['layer'])} takes {percent(share)} of the time of {basis} "
        f"({part_of_total_text(first['measured_ns'], total_ns)}){others}.",
        advice.get(str(first["executor"]), "Optimize the slowest layers first: nsys profile shows their kernels."),
        numbers,
        None,
        "not estimated: it depends on how fast they can be",
        top.select("layer", "measured_ns", "line"),
        "layers",
        name_filter(top["layer"], "layer"),
    )
