"""Tensor-core eligibility of ops and kernels, and kernel time on tensor cores as a share of eligible time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import group_rows
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_attribution import activity_op_rows, op_tree
from tui.analysis.ops.op_type_rules import NAME_LIMIT, OVERLOAD, classify
from tui.analysis.tensor_core_use import (
    ASSUMED,
    kernel_verdicts,
    tensor_core_rules,
    tensor_cores_by_device,
    tensor_cores_by_name,
    with_verdicts,
)
from tui.cache.spill import release_memory
from tui.correlation.nesting import take
from tui.model.forest import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.analysis.tensor_core_use import Eligible
    from tui.model.forest import Flags
    from tui.model.profile import Profile

    Verdicts = npt.NDArray[np.int8]


NO: Final = 0
YES: Final = 1
UNKNOWN: Final = 2
"""Codes of verdicts in arrays."""


def _first_verdict(text: pl.Expr, entries: Sequence[Eligible]) -> pl.Expr:
    """Return the value of the first entry that matches; null if none does."""
    return pl.coalesce(
        pl.lit(None, pl.Boolean),
        *(
            pl.when(text.str.contains(f"(?i){entry.pattern}")).then(pl.lit(entry.verdict, pl.Boolean))
            for entry in entries
        ),
    )


def eligible_ops_by_name(names: pl.Series) -> pl.DataFrame:
    """Return whether ops of these names could use tensor cores: name, eligible (null if no entry matches).

    >>> names = pl.Series(["aten::addmm", "aten::mm.out", "aten::relu"])
    >>> eligible_ops_by_name(names).sort("name")["eligible"].to_list()
    [True, True, None]
    """
    distinct = names.drop_nulls().unique()
    text = distinct.cast(pl.String).str.slice(0, NAME_LIMIT).str.replace(OVERLOAD, "$1")
    return pl.DataFrame({"name": distinct, "text": text}).select(
        "name", _first_verdict(pl.col("text"), tensor_core_rules().eligible_for("op")).alias("eligible")
    )


def eligible_kernels_by_name(names: pl.Series) -> pl.DataFrame:
    """Return whether kernels of these names could use tensor cores: name, eligible, one row a name.

    True for kernels that use them and for the op types ``eligible_types``, apart from the exceptions; null if neither
    the op type nor the verdict is known from the name.

    >>> eligible_kernels_by_name(pl.Series(["volta_sgemm_128x32_nn"]))["eligible"].to_list()
    [True]
    """
    rules = tensor_core_rules()
    uses = tensor_cores_by_name(names)
    types = classify(uses["name"]).select("name", pl.col("op_type").cast(pl.String))
    is_eligible_type = pl.col("op_type").is_in(sorted(rules.eligible_types))
    unsure = pl.col("uses_tensor_core").is_null() & ~is_eligible_type
    return (
        uses.join(types, on="name", how="left", maintain_order="left")
        .with_columns(pl.col("name").cast(pl.String).str.slice(0, NAME_LIMIT).alias("text"))
        .select(
            "name",
            pl.when(pl.col("uses_tensor_core").fill_null(False))
            .then(pl.lit(True))
            .otherwise(
                pl.coalesce(
                    _first_verdict(pl.col("text"), rules.eligible_for("kernel")),
                    pl.when(~unsure).then(is_eligible_type),
                )
            )
            .alias("eligible"),
        )
    )


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops")
def eligible_ops(profile: Profile) -> pl.DataFrame:
    """Return whether recorded ops could use tensor cores: one row per row of ``ops``, in its order.

    Columns: session, op, tc_eligible (itself, or a nested op), named (as recorded, else by name or type; null if
    unknown), deepest (named, without such an op below it). If nothing is known, an op is eligible if a kernel that it
    launched itself is. On GPUs without tensor cores no op is.
    """
    ops = profile["ops"]
    recorded = ops["tc_eligible"].cast(pl.Int8).fill_null(UNKNOWN).to_numpy()
    lacks_tensor_cores = ops["session"].is_in(_sessions_without(profile).implode()).to_numpy()
    named = np.where((recorded == UNKNOWN) & lacks_tensor_cores, np.int8(NO), recorded)
    for column in ("name", "op_type"):
        named = np.where(named == UNKNOWN, _by_name(ops[column], eligible_ops_by_name(ops[column])), named)
    launched = _ops_of_eligible_kernels(profile)
    release_memory()
    tree = op_tree(ops)
    could = named == YES
    inner = tree.with_ancestors(could) & (tree.parent != NONE)
    deepest = could.copy()
    deepest[tree.parent[inner]] = False
    has_eligible = tree.with_ancestors(could | ((named == UNKNOWN) & launched))
    return ops.select("session", "op").with_columns(
        pl.Series("tc_eligible", has_eligible), _as_column("named", named), pl.Series("deepest", deepest)
    )


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops")
def eligible_activities(profile: Profile) -> pl.Series:
    """Return whether each GPU activity is work that could use tensor cores; null if it is unknown.

    All work launched in a deepest op that is eligible by name is eligible; other work by its own name, unless its op is
    recorded as not eligible. An op made from an NVTX range does not describe its kernels: only an unknown name of an op
    that the profiler recorded means that its work is not eligible. The GPU is not considered.
    """
    kernels, ops = _eligible_kernels(profile), profile["ops"]
    eligibility = kernels.copy()
    if ops.height:
        rows = activity_op_rows(profile)
        has_op = rows != NONE
        op_eligibility = eligible_ops(profile)
        inside: Flags = op_tree(ops).with_descendants(op_eligibility["deepest"].to_numpy().copy())
        declined = (~op_eligibility["named"]).fill_null(False).to_numpy()
        recorded = (ops["op_source"] == "recorded").fill_null(False).to_numpy()
        eligibility[has_op & (kernels == UNKNOWN) & recorded[rows]] = NO
        eligibility[has_op & declined[rows]] = NO
        eligibility[has_op & inside[rows]] = YES
    return _as_column("eligible", eligibility)


def _ops_of_eligible_kernels(profile: Profile) -> Flags:
    """Return for each op whether it launched a kernel itself that could use tensor cores, by the kernel's name."""
    eligible_kernels = _eligible_kernels(profile)
    release_memory()
    rows = activity_op_rows(profile)
    launched = np.zeros(profile["ops"].height, np.bool_)
    launched[rows[(rows != NONE) & (eligible_kernels == YES)]] = True
    return launched


def _eligible_kernels(profile: Profile) -> Verdicts:
    """Return for each activity the eligibility inferred from its name: `NO`, `YES` or `UNKNOWN`."""
    activities = profile["activities"]
    if activities.is_empty():
        return np.zeros(0, np.int8)
    kinds = activities["kind"]
    names = activities["name"]
    eligibility = _by_name(names, eligible_kernels_by_name(names.drop_nulls().unique()))
    eligibility[~((kinds == "kernel") | (kinds == "graph")).to_numpy()] = NO
    return eligibility


def _by_name(names: pl.Series, table: pl.DataFrame) -> Verdicts:
    """Return the verdict of each row by its name; `UNKNOWN` without a name.

    Args:
        names: A categorical column.
        table: Each of its names, and whether it is eligible.
    """
    codes, is_known = table["name"].to_physical().to_numpy(), table["eligible"].is_not_null().to_numpy()
    lookup = np.full(int(codes.max(initial=0)) + 2, UNKNOWN, np.int8)
    lookup[codes[is_known]] = table["eligible"].drop_nulls().to_numpy()
    # Rows without a name use the last entry, which is unknown.
    return take(lookup, names.to_physical().fill_null(len(lookup) - 1).to_numpy())


def _as_column(name: str, verdicts: Verdicts) -> pl.Series:
    """Return verdicts as booleans, null where unknown."""
    return pl.Series(name, verdicts == YES).set(pl.Series(verdicts == UNKNOWN), None)


def _sessions_without(profile: Profile) -> pl.Series:
    """Return the sessions on GPUs without tensor cores."""
    lacks_tensor_cores = (~pl.col("has_tensor_cores")).all(ignore_nulls=False).fill_null(False)
    return (
        tensor_cores_by_device(profile).group_by("session").agg(without=lacks_tensor_cores).filter("without")["session"]
    )


KEYS: Final = ("session", "device", "kind", "name", "uses_tensor_core", "tensor_core_reason", "eligible")

_UNTIMED: Final = "durations of tensor-core kernels not recorded"
_GUESSED: Final = "unknown GPU, which may have no tensor cores: choose it with --gpu"
_GUESSED_OF_VENDOR: Final = "use of tensor cores is unknown on this {} {}"


@once_per_profile("sessions", "devices", "activities", "api_calls", "ops", "summary")
def tensor_core_time(profile: Profile) -> pl.DataFrame:
    """Return kernel time by use and eligibility of tensor cores; one row per session, device, name and verdicts.

    Columns: session, device, kind (kernel or graph), name, uses_tensor_core, tensor_core_reason, eligible, launches,
    total_ns (null if no duration is known). Verdicts are those of `tui.analysis.tensor_core_use.kernel_verdicts`,
    ``eligible`` that of `eligible_activities`, and false on GPUs without tensor cores. Both are null if unknown. The
    rows add up to the time of all kernels and whole CUDA graphs.
    """
    is_kernel = pl.col("kind").cast(pl.String).is_in(["kernel", "graph"])
    verdicts = kernel_verdicts(profile).filter(is_kernel)
    if profile["ops"].is_empty():
        names = eligible_kernels_by_name(verdicts["name"])
        rows = verdicts.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
    else:
        by_op = profile["activities"].select(*KEYS[:-1], "duration_ns").with_columns(eligible_activities(profile))
        sums = [pl.len().cast(pl.Int64).alias("launches"), total().alias("total_ns")]
        single = with_verdicts(profile, group_rows(by_op, KEYS, sums).filter(is_kernel))
        totals = verdicts.filter(~pl.col("session").is_in(by_op["session"].unique().implode()))
        names = eligible_kernels_by_name(totals["name"])
        printed = totals.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
        rows = pl.concat([single, printed.select(single.columns)])
    devices_without = (
        tensor_cores_by_device(profile).filter(~pl.col("has_tensor_cores")).select("session", "device", none=True)
    )
    return (
        rows.join(devices_without, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(pl.col("none").is_null()).then("eligible").otherwise(pl.lit(False)).alias("eligible"))
        .select(*KEYS, "launches", "total_ns")
    )


@dataclass(frozen=True, slots=True)
class TensorCoreUse:
    """Sums of kernel time, in nanoseconds, and shares of it."""

    kernel_ns: int
    """All kernels, and whole CUDA graphs."""
    using_ns: int
    """Kernels that use tensor cores."""
    unknown_ns: int
    """The time of kernels for which that is unknown."""
    eligible_ns: int
    """The time of kernels of eligible ops, or of eligible kernels if no op is recorded."""
    eligible_using_ns: int
    """The part of ``eligible_ns`` that uses them."""
    eligible_unknown_ns: int
    """The eligible or possibly eligible time whose use of tensor cores is unknown."""
    reason: str
    """Why there are no figures, such as a GPU without tensor cores; empty if there are."""
    untimed: bool
    """Whether something uses them and no duration of it is known."""
    guessed: bool
    """Whether nothing is known to use them, on a GPU that may have none."""

    @property
    def efficiency_pct(self) -> float | None:
        """DLProf's tensor core efficiency: time of kernels that use them / kernel time of ops that could.

        Unknown time is in neither. None if nothing could use them, or if most is unknown.
        """
        known_ns = self.eligible_known_ns
        if self.reason or known_ns <= 0 or 2 * self.eligible_unknown_ns > self._perhaps_ns:
            return None
        return 100 * self.eligible_using_ns / known_ns

    @property
    def eligible_known_ns(self) -> int:
        """The part of ``eligible_ns`` that is known to use them or not."""
        return self.eligible_ns - self._unknown_eligible_ns

    @property
    def share_pct(self) -> float | None:
        """PyTorch's TensorBoard plugin's kernel time using tensor cores: their time / that of all kernels.

        Unknown time is in neither. None if most is unknown.
        """
        known_ns = self.kernel_ns - self.unknown_ns
        return None if self.reason or known_ns <= 0 or self.unknown_ns > known_ns else 100 * self.using_ns / known_ns

    @property
    def unknown_pct(self) -> float | None:
        """The share of kernel time for which it is unknown."""
        return 100 * self.unknown_ns / self.kernel_ns if self.kernel_ns else None

    @property
    def eligible_unknown_pct(self) -> float | None:
        """The share of the time that is or may be eligible for which it is unknown."""
        return 100 * self.eligible_unknown_ns / self._perhaps_ns if self._perhaps_ns else None

    _unknown_eligible_ns: int = 0
    """The part of ``eligible_ns`` whose use is unknown."""
    _perhaps_ns: int = 0
    """What is, or may be, eligible."""


def tensor_core_use(rows: pl.DataFrame, *, vendor: str = "") -> TensorCoreUse:
    """Return the sums of rows of `tensor_core_time`, of any sessions and kernels.

    Args:
        rows: The rows.
        vendor: The manufacturer of the GPUs, if it is not NVIDIA: ``--gpu`` cannot choose its GPUs.
    """
    uses, eligible = pl.col("uses_tensor_core"), pl.col("eligible")
    is_unknown, is_using, may_be_eligible = uses.is_null(), uses.fill_null(False), eligible.fill_null(True)
    could = eligible.fill_null(False)

    conditions = {
        "all": pl.lit(True),
        "using": is_using,
        "unknown": is_unknown,
        "known": ~is_unknown,
        "eligible": could,
        "eligible_using": could & is_using,
        "unknown_of_eligible": could & is_unknown,
        "perhaps": may_be_eligible,
        "eligible_unknown": may_be_eligible & is_unknown,
        "perhaps_or_using": may_be_eligible | uses.fill_null(True),
        "assumed": pl.col("tensor_core_reason").cast(pl.String).str.starts_with(ASSUMED.format("")),
    }
    sums = rows.select(pl.col("total_ns").filter(condition).sum().alias(name) for name, condition in conditions.items())
    ns = sums.row(0, named=True)
    kernel_ns = ns["all"]
    reasons = rows["tensor_core_reason"].drop_nulls().unique().cast(pl.String).sort().to_list()
    no_tensor_cores = [reason for reason in reasons if reason.endswith(" has none")]
    all_none = bool(no_tensor_cores) and ns["perhaps_or_using"] == 0
    using_times = rows.filter(is_using)["total_ns"]
    untimed = 0 < using_times.len() == using_times.null_count()
    guessed = not using_times.len() and 0 < ns["assumed"] == ns["known"]
    guess = _GUESSED_OF_VENDOR.format(vendor, "NPU" if vendor == "Huawei" else "GPU") if vendor else _GUESSED
    reason = "no kernel time" if not kernel_ns else f"no tensor cores: {', '.join(no_tensor_cores)}" if all_none else ""
    return TensorCoreUse(
        kernel_ns=kernel_ns,
        using_ns=ns["using"],
        unknown_ns=ns["unknown"],
        eligible_ns=ns["eligible"],
        eligible_using_ns=ns["eligible_using"],
        eligible_unknown_ns=ns["eligible_unknown"],
        reason=_UNTIMED if untimed else guess if guessed else reason,
        untimed=untimed,
        guessed=guessed,
        _unknown_eligible_ns=ns["unknown_of_eligible"],
        _perhaps_ns=ns["perhaps"],
    )
