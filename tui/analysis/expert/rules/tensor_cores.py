"""Tensor cores and precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called
from tui.analysis.tensor_cores.efficiency import TensorCoreUse, tensor_core_time, tensor_core_use
from tui.analysis.tensor_cores.eligible import eligible_kernels_by_name
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_HALF: Final = "half of the time of kernels that could use them: tensor cores are at least twice as fast"
_DOUBLE: Final = r"(?i)(?:^|[_:\s<])[dz](?:gemm|gemv|trsm|syrk|symm)|<\s*(?:const )?double\b|\bdouble\s*(?:const\s*)?\*"
_COMPLEX: Final = r"(?i)complex\s*<|cu(?:float|double)?complex|(?:^|_)[cz]gemm"


@rule("P1", "no-tensor-cores", Family.PRECISION, needs.gpu_work, needs.kernels, link=links.DLPROF)
def no_tensor_cores(case: Case) -> Verdict:
    """Nothing uses the tensor cores."""
    rows, use = _use(case)
    numbers = {"eligible_ns": use.eligible_ns, "using_ns": use.using_ns, "kernel_ns": use.kernel_ns}
    if use.untimed or use.guessed:
        return CannotTell(use.reason)
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}", numbers)
    if use.using_ns:
        return Clean(f"{duration(use.using_ns)} of {duration(use.kernel_ns)} of kernel time use tensor cores", numbers)
    unsettled = _unsettled(case, use)
    if unsettled:
        return CannotTell(unsettled)
    if not use.eligible_ns:
        return Clean("no kernel does work for tensor cores", numbers)
    could = _not_on_them(rows)
    return Found(
        f"{duration(use.eligible_ns)} ({percent(case.share(use.eligible_ns))} of GPU time) is work for tensor cores, "
        f"and none runs on them; most of it {called(could['name'][0])}.",
        "Use mixed precision (torch.autocast with float16): this GPU's tensor cores have neither bfloat16 nor TF32."
        if _before_ampere(case)
        else "Use mixed precision (torch.autocast with bfloat16 or float16), or allow TF32 "
        "(torch.set_float32_matmul_precision('high')).",
        numbers,
        total(could.filter("may")["total_ns"]) // 2,
        _HALF,
        *behind(could, "launches", "total_ns", "tensor_core_reason"),
    )


def _before_ampere(case: Case) -> bool:
    """Whether all GPUs are known and older than Ampere (8.0), the first with bfloat16 and TF32 in its tensor cores."""
    versions = case.facts["compute_capability"].str.extract(r"^(\d+)\.").cast(pl.Int64)
    return bool(versions.len()) and not versions.null_count() and bool((versions < 8).all())


def _not_on_them(rows: pl.DataFrame) -> pl.DataFrame:
    """Eligible rows of `tensor_core_time` that do not use tensor cores: those that could before those around them.

    Added: may, false of kernels that an eligible op runs beside its product, as changes of layout and reductions.
    """
    left = rows.filter(pl.col("eligible").fill_null(False), ~pl.col("uses_tensor_core"))
    by_name = eligible_kernels_by_name(left["name"]).select("name", may=pl.col("eligible").fill_null(True))
    return left.join(by_name, on="name", how="left", maintain_order="left", nulls_equal=True).sort(
        pl.col("may").fill_null(True), "total_ns", descending=True, nulls_last=True, maintain_order=True
    )


def _use(case: Case) -> tuple[pl.DataFrame, TensorCoreUse]:
    rows = tensor_core_time(case.profile)
    return rows, tensor_core_use(rows)


def _unsettled(case: Case, use: TensorCoreUse) -> str:
    """Why nothing can be said of tensor cores."""
    unknown = use.eligible_unknown_pct or 0.0
    if unknown > case.limit("P2", "unknown_pct"):
        return f"of {percent(unknown)} of the time that is or may be eligible, names do not tell"
    return ""


@rule("P2", "low-tensor-cores", Family.PRECISION, needs.gpu_work, needs.kernels, link=links.LAYOUT)
def few_tensor_cores(case: Case) -> Verdict:
    """Part of the work for tensor cores does not run on them."""
    rows, use = _use(case)
    if use.untimed or use.guessed:
        return CannotTell(use.reason)
    if use.reason:
        return Clean(f"tensor cores do not apply: {use.reason}")
    unsettled = _unsettled(case, use)
    if unsettled:
        return CannotTell(unsettled)
    efficiency = use.efficiency_pct
    if efficiency is None or not use.using_ns:
        return Clean("nothing uses tensor cores: see P1" if use.eligible_ns else "no kernel does work for tensor cores")
    numbers = {"efficiency_pct": efficiency, "eligible_ns": use.eligible_ns, "using_ns": use.eligible_using_ns}
    if efficiency >= case.limit("P2", "info_pct"):
        return Clean(f"{percent(efficiency)} of the work for tensor cores runs on them", numbers)
    could = _not_on_them(rows)
    left, may = total(could["total_ns"]), total(could.filter("may")["total_ns"])
    if not may:
        return Clean(f"all but {duration(left)} of layout changes, reductions and the like runs on them", numbers)
    around = f"; {duration(left - may)} more is layout changes, reductions and the like around it" if left > may else ""
    return Found(
        f"{percent(efficiency)} of the work for tensor cores runs on them; {duration(may)} could and does not, most of "
        f"it {called(could['name'][0])}{around}.",
        "Look at the ops that could use tensor cores and do not: their type (float32"
        f"{'' if _before_ampere(case) else ' without TF32'}?) and their sizes (multiples of 8 in half precision).",
        {**numbers, "could_ns": may, "around_ns": left - may},
        may // 2,
        _HALF,
        *behind(could, "launches", "total_ns", "tensor_core_reason"),
        Severity.INFO if efficiency >= case.limit("P2", "warn_pct") else None,
    )


@rule("P3", "double-precision", Family.PRECISION, needs.gpu_work, needs.kernels)
def double_precision(case: Case) -> Verdict:
    """Kernels compute in double precision or with complex numbers."""
    names = case.kernels["name"].cast(pl.String)
    wide = case.kernels.filter(
        (names.str.contains(_DOUBLE) | names.str.contains(_COMPLEX)) & ~names.str.contains("(?i)gcgemm|fft")
    )
    taken, share = case.weight(wide)
    numbers = {"time_ns": taken, "time_pct": share}
    if share <= case.limit("P3", "time_pct"):
        return Clean(f"kernels in double precision or complex take {percent(share)} of the GPU time", numbers)
    return Found(
        f"Kernels in double precision or complex take {percent(share)} of GPU time, most of it "
        f"{called(wide['name'][0])}.",
        "Where float64 is not meant, look for a Python float or NumPy array that makes tensors float64, and cast at "
        "the source.",
        numbers,
        taken // 2,
        "half of that time: single precision is at least twice as fast",
        *behind(wide, "calls", "total_ns", "line"),
    )
