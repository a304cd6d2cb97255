"""Tensor-core efficiency: kernel time on tensor cores as a share of eligible time and of all kernel time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import group_rows
from tui.analysis.memo import once_per_profile
from tui.analysis.tensor_cores.eligible import eligible_activities, eligible_kernels_by_name
from tui.analysis.tensor_cores.verdicts import ASSUMED, kernel_verdicts, tensor_cores_by_device, with_verdicts

if TYPE_CHECKING:
    from tui.model.profile import Profile

KEYS: Final = ("session", "device", "kind", "name", "uses_tensor_core", "tensor_core_reason", "eligible")

_UNTIMED: Final = "durations of tensor-core kernels not recorded"
_GUESSED: Final = "unknown GPU, which may have no tensor cores: name it with --gpu"


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "summary")
def tensor_core_time(profile: Profile) -> pl.DataFrame:
    """Kernel time by whether it uses, and could use, tensor cores; one row per session, device, name and answers.

    Columns: session, device, kind (kernel or graph), name, uses_tensor_core, tensor_core_reason, eligible, launches,
    total_ns (null where no duration is known). Verdicts are those of
    `tui.analysis.tensor_cores.verdicts.kernel_verdicts`, ``eligible`` that of
    `tensor_cores.eligible.eligible_activities`, and false on GPUs without tensor cores. Both are null where it cannot
    be told. The rows add up to the time of all kernels and whole CUDA graphs.
    """
    of_kernels = pl.col("kind").cast(pl.String).is_in(["kernel", "graph"])
    verdicts = kernel_verdicts(profile).filter(of_kernels)
    if profile["ops"].is_empty():
        names = eligible_kernels_by_name(verdicts["name"])
        rows = verdicts.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
    else:
        by_op = profile["activities"].select(*KEYS[:-1], "duration_ns").with_columns(eligible_activities(profile))
        sums = [pl.len().cast(pl.Int64).alias("launches"), total().alias("total_ns")]
        single = with_verdicts(profile, group_rows(by_op, KEYS, sums).filter(of_kernels))
        totals = verdicts.filter(~pl.col("session").is_in(by_op["session"].unique().implode()))
        names = eligible_kernels_by_name(totals["name"])
        printed = totals.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
        rows = pl.concat([single, printed.select(single.columns)])
    without = tensor_cores_by_device(profile).filter(~pl.col("has_tensor_cores")).select("session", "device", none=True)
    return (
        rows.join(without, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(pl.col("none").is_null()).then("eligible").otherwise(pl.lit(False)).alias("eligible"))
        .select(*KEYS, "launches", "total_ns")
    )


@dataclass(frozen=True, slots=True)
class TensorCoreUse:
    """Sums of kernel time, in nanoseconds, and the shares that are told of it."""

    kernel_ns: int
    """All kernels, and whole CUDA graphs."""
    using_ns: int
    """Kernels that use tensor cores."""
    unknown_ns: int
    """Kernels of which that is unknown."""
    eligible_ns: int
    """Kernels of ops that could use them, or kernels that could, where no op is recorded."""
    eligible_using_ns: int
    """Of those: what uses them."""
    eligible_unknown_ns: int
    """Of those, and of what is unknown eligible or not: what is unknown to use them or not."""
    reason: str
    """Why there is nothing to tell, as that the GPU has no tensor cores; empty where there is."""
    untimed: bool
    """Whether something uses them and no duration of it is known."""
    guessed: bool
    """Whether nothing is known to use them, on a GPU that may have none."""

    @property
    def efficiency_pct(self) -> float | None:
        """DLProf's tensor core efficiency: time of kernels that use them / kernel time of ops that could.

        What is unknown is in neither. None where nothing could use them, or where most is unknown.
        """
        known = self.eligible_known_ns
        if self.reason or known <= 0 or 2 * self.eligible_unknown_ns > self._perhaps_ns:
            return None
        return 100 * self.eligible_using_ns / known

    @property
    def eligible_known_ns(self) -> int:
        """The part of ``eligible_ns`` that is known to use them or not."""
        return self.eligible_ns - self._unknown_eligible_ns

    @property
    def share_pct(self) -> float | None:
        """PyTorch's TensorBoard plugin's kernel time using tensor cores: their time / that of all kernels.

        What is unknown is in neither. None where most is unknown.
        """
        known = self.kernel_ns - self.unknown_ns
        return None if self.reason or known <= 0 or self.unknown_ns > known else 100 * self.using_ns / known

    @property
    def unknown_pct(self) -> float | None:
        """Share of all kernel time of which it is unknown."""
        return 100 * self.unknown_ns / self.kernel_ns if self.kernel_ns else None

    @property
    def eligible_unknown_pct(self) -> float | None:
        """Share of the time that is, or may be, eligible of which it is unknown."""
        return 100 * self.eligible_unknown_ns / self._perhaps_ns if self._perhaps_ns else None

    _unknown_eligible_ns: int = 0
    """Of ``eligible_ns``: what is unknown."""
    _perhaps_ns: int = 0
    """What is, or may be, eligible."""


def tensor_core_use(rows: pl.DataFrame) -> TensorCoreUse:
    """The sums of rows of `tensor_core_time`, of whichever sessions and kernels they are."""
    uses, eligible = pl.col("uses_tensor_core"), pl.col("eligible")
    unknown, using, perhaps = uses.is_null(), uses.fill_null(False), eligible.fill_null(True)
    could = eligible.fill_null(False)

    def time(where: pl.Expr) -> int:
        return int(rows.filter(where)["total_ns"].sum())

    kernel_ns = time(pl.lit(True))
    reasons = rows["tensor_core_reason"].drop_nulls().unique().cast(pl.String).sort().to_list()
    none = [reason for reason in reasons if reason.endswith(" has none")]
    all_none = bool(none) and time(perhaps | uses.fill_null(True)) == 0
    of_using = rows.filter(using)["total_ns"]
    untimed = 0 < of_using.len() == of_using.null_count()
    assumed = time(pl.col("tensor_core_reason").cast(pl.String).str.starts_with(ASSUMED.format("")))
    guessed = not of_using.len() and 0 < assumed == time(~unknown)
    reason = "no kernel time" if not kernel_ns else f"no tensor cores: {', '.join(none)}" if all_none else ""
    return TensorCoreUse(
        kernel_ns=kernel_ns,
        using_ns=time(using),
        unknown_ns=time(unknown),
        eligible_ns=time(could),
        eligible_using_ns=time(could & using),
        eligible_unknown_ns=time(perhaps & unknown),
        reason=_UNTIMED if untimed else _GUESSED if guessed else reason,
        untimed=untimed,
        guessed=guessed,
        _unknown_eligible_ns=time(could & unknown),
        _perhaps_ns=time(perhaps),
    )
