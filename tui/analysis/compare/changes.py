"""What changed from one profile to another: kernels, ops, op types, API calls and layers by name, and findings."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.allocator import ALLOCATED_BY, memory_peak
from tui.analysis.api_calls import api
from tui.analysis.compare.headline import absence_reason, side_figures
from tui.analysis.durations import complete_sum
from tui.analysis.expert.finding_text import percent, size
from tui.analysis.expert.findings import OURS, findings
from tui.analysis.expert.rule import State
from tui.analysis.kernels import kernels
from tui.analysis.layers import layers
from tui.analysis.ops.op_types import op_types
from tui.analysis.ops.ops_by_name import all_ops_by_name, has_recorded_ops, inferred_ops
from tui.analysis.roofline import kernel_rates_by_name, op_rates_by_name
from tui.model.columns import Column, ColumnKind, columns
from tui.model.names import short_name
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.compare.sides import Side, Sides
    from tui.model.profile import Profile


SIMILAR_NAMES_NOTE: Final = (
    "Rows marked similar match names that differ: kernels in template arguments, GPU or version; ops in framework, "
    "library, version or instance number; API calls in version."
)
_ARCHITECTURE: Final = re.compile(
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)(?=_)"
    r"|(?:(?<=_)|\b)sm_?[0-9]{2,3}[af]?(?=_|\b)"
    r"|(?<=cutlass)_?[0-9]+(?=_)|(?<=cutlass)__[0-9]+x(?=_)|[0-9]+x(?=_cudnn|_cublas)"
)
_HASH: Final = re.compile(r"(?:(?<=_)|\b)(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?=_|\b)")
_CALL_VARIANT: Final = re.compile(r"(?:_v[0-9]+|_ptsz|_ptds|_spt)+$")
_VERSION: Final = re.compile(r"(?<=v)[0-9]+(?:[._][0-9]+)*(?=_|::|\b)")
_FRAMEWORK: Final = re.compile(r"^(?:aten::|torch\.nn\.functional\.|torch\.ops\.aten\.|torch\.|Tensor\.)_?")
_LIBRARY: Final = re.compile(
    r"(?<![A-Za-z])(?:(?:cudnn|cublas|miopen|mkldnn|native)_|(?:flash|efficient)_(?=attention))"
    r"|(?:Cudnn|Cublas|Miopen|Mkldnn|Native|(?:Flash|Efficient)(?=Attention))(?=[A-Z]\w*Backward[0-9]*$)"
)
_OVERLOAD: Final = re.compile(r"(?<=Backward)[0-9]+$")
"""The overload number of a derivative in PyTorch; before 1.9 a single overload had none."""
_GRADIENT_SUFFIX: Final = re.compile(r"(?<=convolution_backward)_(?:input|weight)$")
"""The two gradients of PyTorch before 1.11, which computed them separately."""
_INSTANCE: Final = re.compile(r"_[0-9]+(?=/|$)|(?<=\w)\.[0-9]+$|\[[0-9]+\]$")
"""Instance numbers of TensorFlow and ONNX (``Conv2D_1/BiasAdd``), XLA (``fusion.12``) and DLProf (``relu[2]``)."""


def kernel_family(name: str) -> str:
    """Return a kernel's name without the parts that differ between library versions and GPUs.

    Template arguments and parameters are removed (`short_name`); architecture, version and build numbers become ``*``.

    >>> kernel_family("ampere_sgemm_128x64_nn"), kernel_family("volta_sgemm_128x64_nn")
    ('*_sgemm_128x64_nn', '*_sgemm_128x64_nn')
    >>> kernel_family("sm80_xmma_gemm_f16f16") == kernel_family("sm90_xmma_gemm_f16f16")
    True
    >>> kernel_family("void at::native::kernel<4, float>(int)")
    'at::native::kernel'
    """
    bare = short_name(name)
    for pattern in (_ARCHITECTURE, _HASH, _VERSION):
        bare = pattern.sub("*", bare)
    return bare


def op_family(name: str) -> str:
    """Return an op's name without the parts that differ between versions of its framework and libraries.

    Removed are the framework's prefix, the library, versions, the number of an overload or an instance, and which
    gradient of a convolution it is. The text for work without an op is unchanged.

    >>> op_family("AddmmBackward0"), op_family("aten::cudnn_batch_norm"), op_family("torch.nn.functional.conv2d")
    ('AddmmBackward', 'batch_norm', 'conv2d')
    >>> op_family("NativeBatchNormBackward0"), op_family("Conv2D_1/BiasAdd"), op_family("relu[2]")
    ('BatchNormBackward', 'Conv2D/BiasAdd', 'relu')
    >>> op_family("aten::_scaled_dot_product_flash_attention"), op_family("aten::_scaled_dot_product_cudnn_attention")
    ('scaled_dot_product_attention', 'scaled_dot_product_attention')
    >>> op_family("aten::add_"), op_family("aten::conv2d"), op_family("(unattributed: launch not recorded)")
    ('add_', 'conv2d', '(unattributed: launch not recorded)')
    """
    if name.startswith("("):
        return name
    bare = name
    for pattern in (_FRAMEWORK, _LIBRARY, _OVERLOAD, _GRADIENT_SUFFIX, _INSTANCE):
        bare = pattern.sub("", bare)
    return _VERSION.sub("*", bare) or name


def base_call(name: str) -> str:
    """Return an API call's name without its version and its suffix for per-thread default streams.

    >>> base_call("cudaMalloc_v3020"), base_call("cudaLaunchKernel_ptsz_v7000"), base_call("cuMemcpyHtoD_v2_ptds")
    ('cudaMalloc', 'cudaLaunchKernel', 'cuMemcpyHtoD')
    >>> base_call("hipMemcpyAsync_spt"), base_call("acc_init_v2")
    ('hipMemcpyAsync', 'acc_init_v2')
    """
    return _CALL_VARIANT.sub("", name) if name.startswith(("cu", "hip")) else name


def without_variants(names: pl.Series, rule: Callable[[str], str]) -> pl.Series:
    """Return each name as a rule (`kernel_family`, `op_family`, `base_call`) reduces it."""
    distinct = names.unique().drop_nulls().cast(pl.String).to_list()
    return names.cast(pl.String).replace({name: rule(name) for name in distinct})


BOTH, NEW, REMOVED, SIMILAR = "", "new", "removed", "similar"
"""How a row changed; similar names differ between the sides and are matched on request."""

_CHANGE_COLUMNS: Final = (
    "change",
    "a_total_ns",
    "b_total_ns",
    "delta_ns",
    "delta_pct",
    "a_calls",
    "b_calls",
    "a_avg_ns",
    "b_avg_ns",
    "avg_delta_pct",
    "unknown_reason",
)


_TIMED_LAUNCHES: Final = pl.col("launches") - pl.col("untimed_launches").fill_null(0)
"""The column with the number of launches of known duration, in tables of ops."""


def _change_spec(
    name: str, title: str, *key_columns: str, extra_keys: tuple[str, ...] = (), pinned: str = "name"
) -> TableSpec:
    return TableSpec(
        f"changed_{name}",
        title,
        columns(pinned, *_CHANGE_COLUMNS, *(column for column in key_columns if column != pinned)),
        key=(*key_columns, *extra_keys),
        sort=(),
        weight="b_total_ns",
        pinned=pinned,
        bars=("delta_ns",),
    )


_RATES: Final = ("roof_pct", "tflops_per_s", "tb_per_s")
"""Roofline figures of both sides."""


def _with_rates(spec: TableSpec) -> TableSpec:
    rates = columns(*(f"{side}_{name}" for name in _RATES for side in "ab"))
    return replace(spec, columns=(*spec.columns, *rates))


# Two similar names can be reduced to the full name of a third.
CHANGED_KERNELS: Final = _with_rates(_change_spec("kernels", "Kernels", "kind", "name", extra_keys=("similar",)))
CHANGED_OPS: Final = _with_rates(_change_spec("ops", "Ops", "op", extra_keys=("similar",), pinned="op"))
CHANGED_OP_TYPES: Final = _change_spec("op_types", "Op types", "op", pinned="op")
CHANGED_API: Final = _change_spec("api", "API calls", "name", extra_keys=("similar",))
CHANGED_LAYERS: Final = _change_spec("layers", "Layers", "phase", "layer", pinned="layer")


def changed_kernels(sides: Sides, *, tolerant: bool = False) -> pl.DataFrame:
    """Return GPU work by kind and name on both sides; `changes` lists the columns after kind and name."""
    rows = changes(sides, kernels, ("kind", "name"), "total_ns", "calls", rule=kernel_family if tolerant else None)
    return _joined_rates(rows, sides, kernel_rates_by_name, ("kind", "name"))


def changed_ops(sides: Sides, *, tolerant: bool = False) -> pl.DataFrame:
    """Return ops by name with their own GPU time; inferred ops by type and direction.

    Names of recorded ops never match inferred types, however similar they are.

    Columns: op, then those of `changes`; a_calls and b_calls count calls of recorded ops, launches of inferred ones.
    """

    def gpu_time_by_op(profile: Profile) -> pl.DataFrame:
        if not has_recorded_ops(profile):
            return inferred_ops(profile).rename({"total_ns": "gpu_self_ns"})
        return all_ops_by_name(profile).with_columns(
            pl.coalesce("calls", "launches"), pl.coalesce("timed_calls", _TIMED_LAUNCHES).alias("timed_calls")
        )

    rule = op_family if tolerant and not ops_compared_separately(sides) else None
    rows = changes(sides, gpu_time_by_op, ("op",), "gpu_self_ns", "calls", rule=rule)
    return _joined_rates(rows, sides, op_rates_by_name, ("op",))


def _joined_rates(
    rows: pl.DataFrame, sides: Sides, rates: Callable[[Profile], pl.DataFrame], key_columns: tuple[str, ...]
) -> pl.DataFrame:
    """Return rows of both sides with `_RATES` of each; null for names that are only similar."""
    keys = rows.select(pl.col(key_columns).cast(pl.String))
    for prefix, side in (("a", sides.a), ("b", sides.b)):
        side_rates = rates(side.profile).select(
            pl.col(key_columns).cast(pl.String), pl.col(_RATES).name.prefix(f"{prefix}_")
        )
        rows = rows.hstack(
            keys.join(side_rates, on=key_columns, how="left", nulls_equal=True, maintain_order="left").drop(key_columns)
        )
    return rows


def ops_compared_separately(sides: Sides) -> str:
    """Return a sentence if only one side records ops, so that names cannot match; else empty."""
    recorded = [has_recorded_ops(side.profile) for side in (sides.a, sides.b)]
    if recorded[0] == recorded[1]:
        return ""
    inferred, other = ("baseline", "candidate") if recorded[1] else ("candidate", "baseline")
    return (
        f"Ops of the {inferred} are inferred from kernel names, those of the {other} are recorded, so their names "
        f"differ. Compare {CHANGED_OP_TYPES.title} instead."
    )


def changed_op_types(sides: Sides) -> pl.DataFrame:
    """Return ops by type and direction: op, then the columns of `changes`; a_calls and b_calls count launches."""

    def gpu_time_by_op_type(profile: Profile) -> pl.DataFrame:
        return op_types(profile).with_columns(_TIMED_LAUNCHES.alias("timed_calls"))

    return changes(sides, gpu_time_by_op_type, ("op",), "total_ns", "launches")


def changed_api(sides: Sides, *, tolerant: bool = False) -> pl.DataFrame:
    """Return API calls by name: name, then the columns of `changes`."""
    return changes(sides, api, ("name",), "total_ns", "calls", section="api", rule=base_call if tolerant else None)


def changed_layers(sides: Sides) -> pl.DataFrame:
    """Return measured layers by phase and name: phase, layer, then the columns of `changes`; calls count layers."""

    def measured_layers(profile: Profile) -> pl.DataFrame:
        return layers(profile).drop_nulls("measured_ns").with_columns(pl.lit(1, pl.Int64).alias("calls"))

    return changes(sides, measured_layers, ("phase", "layer"), "measured_ns", "calls", section="layer")


def has_layers(sides: Sides) -> bool:
    """Return whether the measured times of layers are known on both sides and can be compared."""
    return all(side_figures(side)["layer_ns"].value is not None for side in (sides.a, sides.b))


def _joined(
    baseline: pl.DataFrame,
    candidate: pl.DataFrame,
    key_columns: tuple[str, ...],
    rule: Callable[[str], str] | None,
) -> pl.DataFrame:
    """Return the sums of both sides (`_sum_by_name`) by key, their columns with the prefixes ``a_`` and ``b_``."""
    if rule is not None:
        baseline, candidate = (
            _match_names(baseline, candidate, key_columns, rule),
            _match_names(candidate, baseline, key_columns, rule),
        )
    baseline, candidate = (
        rows.rename(
            {
                name: f"{prefix}_{name}"
                for name in ("total_ns", "calls", "timed", "is_present", "matched_name", "unknown_reason")
            }
        )
        for rows, prefix in ((baseline, "a"), (candidate, "b"))
    )
    join_keys = (*key_columns, "similar")
    return baseline.join(
        candidate, on=join_keys, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right"
    )


def changes(
    sides: Sides,
    get_rows: Callable[[Profile], pl.DataFrame],
    key_columns: tuple[str, ...],
    time_column: str,
    count_column: str,
    *,
    section: str = "gpu",
    rule: Callable[[str], str] | None = None,
) -> pl.DataFrame:
    """Return a table of both sides, the largest change first.

    Columns: those of ``key_columns``; change (`NEW`, `REMOVED`, `SIMILAR` or `BOTH`), a_total_ns, b_total_ns, delta_ns
        (b - a; new and removed rows count as 0 on the other side, but a row is neither if the other side has no rows at
        all, or may not have recorded it: `headline.absence_reason`), delta_pct (of a; null for what is new), a_calls,
        b_calls, a_avg_ns, b_avg_ns (of the calls whose time is known), avg_delta_pct, unknown_reason (which sessions do
        not record the time or calls of the row, so that the sum is unknown; or how many of its calls have no time, so
        that the sum is a lower bound; or why a side may not have recorded it), similar (whether the names differ),
        a_name and b_name (if they do: the name with the most time on that side, and the number of others). Totals and
        calls are sums over sessions, each divided by its iterations where the sides are compared per iteration:
        a_total_ns adds up to the time of a, delta_ns to the difference.

    Args:
        sides: The two sides.
        get_rows: Returns a frame with session, the columns of ``key_columns``, ``time_column`` and ``count_column``.
        key_columns: The columns that identify a row, the name last.
        time_column: The column of times.
        count_column: The column of counts.
        section: gpu, api or layer.
        rule: Reduces names that only one side has; those with the same result become one row.
    """
    baseline, candidate = (
        _sum_by_name(side, get_rows(side.profile), key_columns, time_column, count_column)
        for side in (sides.a, sides.b)
    )
    rows = _joined(baseline, candidate, key_columns, rule)
    in_a, in_b = pl.col("a_is_present").fill_null(False), pl.col("b_is_present").fill_null(False)
    delta = pl.col("b_total_ns").fill_null(0) - pl.col("a_total_ns").fill_null(0)
    # A side without any row may still have had calls that were not recorded.
    a_absent, b_absent = (
        absence_reason(side, key_columns, section) if has_rows else pl.lit("")
        for side, has_rows in ((sides.a, baseline.height > 0), (sides.b, candidate.height > 0))
    )
    none_in_a, none_in_b = ~in_a & a_absent.is_null(), ~in_b & b_absent.is_null()
    is_known = (pl.col("a_total_ns").is_not_null() | none_in_a) & (pl.col("b_total_ns").is_not_null() | none_in_b)
    a_unknown_reason = pl.when(in_a).then("a_unknown_reason").otherwise(a_absent).replace("", None)
    b_unknown_reason = pl.when(in_b).then("b_unknown_reason").otherwise(b_absent).replace("", None)
    averages = [
        pl.when(pl.col(f"{side}_timed") > 0)
        .then(pl.col(f"{side}_total_ns") / pl.col(f"{side}_timed"))
        .alias(f"{side}_avg_ns")
        for side in "ab"
    ]
    largest_first = [pl.col("delta_ns").abs(), pl.max_horizontal("a_total_ns", "b_total_ns")]
    return (
        rows.with_columns(
            pl.when(in_a & in_b)
            .then(pl.when("similar").then(pl.lit(SIMILAR)).otherwise(pl.lit(BOTH)))
            .when(none_in_a)
            .then(pl.lit(NEW))
            .when(none_in_b)
            .then(pl.lit(REMOVED))
            .otherwise(pl.lit(BOTH))
            .alias("change"),
            pl.when(is_known).then(delta).alias("delta_ns"),
            pl.concat_str(
                pl.format("baseline: {}", a_unknown_reason),
                pl.format("candidate: {}", b_unknown_reason),
                separator="; ",
                ignore_nulls=True,
            )
            .replace("", None)
            .alias("unknown_reason"),
            *averages,
        )
        .with_columns(
            # Dividing first makes the whole exactly 100%.
            pl.when(pl.col("a_total_ns") > 0).then(pl.col("delta_ns") / pl.col("a_total_ns") * 100).alias("delta_pct"),
            pl.when(pl.col("a_avg_ns") > 0)
            .then(100 * (pl.col("b_avg_ns") - pl.col("a_avg_ns")) / pl.col("a_avg_ns"))
            .alias("avg_delta_pct"),
        )
        .select(
            *key_columns,
            *_CHANGE_COLUMNS,
            "similar",
            pl.col("a_matched_name").alias("a_name"),
            pl.col("b_matched_name").alias("b_name"),
        )
        .sort(*largest_first, *key_columns, descending=[True, True, *(False for _ in key_columns)], nulls_last=True)
    )


def _sum_by_name(
    side: Side, rows: pl.DataFrame, key_columns: tuple[str, ...], time_column: str, count_column: str
) -> pl.DataFrame:
    """Return times and counts by name over all sessions, per iteration if the sides are compared per iteration.

    Columns: those of ``key_columns``, total_ns, calls, timed (calls whose time is known), is_present (true), similar
        (false), matched_name (null), and unknown_reason, as in `changes`. A sum is unknown where a session does not
        record its part.
    """
    timed = pl.col("timed_calls" if "timed_calls" in rows.columns else count_column).alias("timed")
    rows_by_name = rows.select(
        "session", *(pl.col(column).cast(pl.String) for column in key_columns), time_column, count_column, timed
    )
    divisor = pl.lit(1)
    if side.iterations:
        rows_by_name, divisor = rows_by_name.join(side.divisors, on="session", how="left"), pl.col("per")
    has_sessions = side.profile["sessions"].height > 1
    values = {
        "total_ns": pl.col(time_column) / divisor,
        "calls": pl.col(count_column) / divisor,
        "timed": pl.col("timed") / divisor,
    }
    unknown_reasons = [
        pl.when(value.null_count() > 0).then(_unknown_reason(value, label, has_sessions=has_sessions))
        for value, label in ((values["total_ns"], "time"), (values["calls"], "calls"))
    ]
    sums = rows_by_name.group_by(key_columns, maintain_order=True).agg(
        *(pl.when(value.null_count() == 0).then(value.sum()).alias(name) for name, value in values.items()),
        *(reason.alias(f"unknown_reason_{index}") for index, reason in enumerate(unknown_reasons)),
        (pl.col(count_column) - pl.col("timed")).sum().alias("untimed"),
    )
    lower_bound = pl.format("at least (calls without time: {})", "untimed")
    partly_unknown = pl.when(pl.col("total_ns").is_not_null() & (pl.col("untimed") > 0)).then(lower_bound)
    unknown_reason = pl.concat_str(
        "unknown_reason_0", "unknown_reason_1", partly_unknown, separator=", ", ignore_nulls=True
    ).replace("", None)
    return sums.select(
        *key_columns,
        *values,
        pl.lit(True).alias("is_present"),
        pl.lit(False).alias("similar"),
        pl.lit(None, pl.String).alias("matched_name"),
        unknown_reason.alias("unknown_reason"),
    )


def _unknown_reason(value: pl.Expr, label: str, *, has_sessions: bool) -> pl.Expr:
    """Return a sentence about the sessions of a group that do not record a value."""
    if not has_sessions:
        return pl.lit(f"no {label}")
    sessions = pl.col("session").filter(value.is_null()).unique().sort().cast(pl.String).str.join(", ")
    return pl.format(f"no {label} of session {{}}", sessions)


def _match_names(
    rows: pl.DataFrame, other_rows: pl.DataFrame, key_columns: tuple[str, ...], rule: Callable[[str], str]
) -> pl.DataFrame:
    """Return the rows of one side; names that only it has are summed if a rule maps them to a name of the other side.

    Args:
        rows: The rows of the side.
        other_rows: Those of the other side.
        key_columns: What rows are identified by, the name last.
        rule: Reduces a name (`kernel_family`, `op_family`, `base_call`).
    """
    *context, name = key_columns
    unmatched, other_unmatched = (
        side_rows.join(other, on=key_columns, how="anti", nulls_equal=True, maintain_order="left")
        for side_rows, other in ((rows, other_rows), (other_rows, rows))
    )
    unmatched, other_unmatched = (
        side_rows.with_columns(without_variants(side_rows[name], rule).alias("rest"))
        for side_rows in (unmatched, other_unmatched)
    )
    keys = [*context, "rest"]
    matched = unmatched.join(other_unmatched, on=keys, how="semi", nulls_equal=True, maintain_order="left")
    if matched.is_empty():
        return rows
    more = pl.len() - 1
    largest = pl.col(name).sort_by("total_ns", descending=True, nulls_last=True).first()
    summed = matched.group_by(keys, maintain_order=True).agg(
        *(complete_sum(side_rows).alias(side_rows) for side_rows in ("total_ns", "calls", "timed")),
        pl.lit(True).alias("is_present"),
        pl.lit(True).alias("similar"),
        pl.when(more > 0).then(pl.format("{} (and {} more)", largest, more)).otherwise(largest).alias("matched_name"),
        pl.col("unknown_reason").drop_nulls().unique(maintain_order=True).str.join("; ").replace("", None),
    )
    rest = rows.join(matched, on=key_columns, how="anti", nulls_equal=True, maintain_order="left")
    return pl.concat([rest, summed.rename({"rest": name}).select(rest.columns)])


MIN_SHARE_PCT: Final = 0.1
"""Smaller changes, as a share of the baseline's GPU time, explain nothing."""


@dataclass(frozen=True, slots=True)
class LargestChanges:
    """What grew and what shrank of one table, the largest first."""

    title: str
    longer: pl.DataFrame
    """Rows of `changes` with name and share_pct: the change as a share of the baseline's GPU time."""
    shorter: pl.DataFrame
    """Likewise."""

    @property
    def listed(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of both with at least `MIN_SHARE_PCT`, and those of unknown share."""
        large = pl.col("share_pct").is_null() | (pl.col("share_pct").abs() >= MIN_SHARE_PCT)
        return self.longer.filter(large), self.shorter.filter(large)


def largest_changes(sides: Sides) -> tuple[LargestChanges, ...]:
    """Return what changed in GPU time by op type and by kernel; without tables that would list nothing."""
    kernel_rows = changed_kernels(sides)
    baseline_ns = kernel_rows["a_total_ns"].sum() or None
    tables = []
    for spec, rows in ((CHANGED_OP_TYPES, changed_op_types(sides)), (CHANGED_KERNELS, kernel_rows)):
        share = (100 * pl.col("delta_ns") / pl.lit(baseline_ns, pl.Float64)).alias("share_pct")
        changed_rows = rows.select(pl.col(spec.pinned).cast(pl.String).alias("name"), "change", "delta_ns", share)
        table = LargestChanges(
            spec.title, changed_rows.filter(pl.col("delta_ns") > 0), changed_rows.filter(pl.col("delta_ns") < 0)
        )
        if any(listed.height for listed in table.listed):
            tables.append(table)
    return tuple(tables)


_SIDE_COLUMNS: Final = ("baseline", "candidate")

CHANGED_FINDINGS: Final = TableSpec(
    "changed_findings",
    "Findings",
    (
        Column("change", "Change", ColumnKind.TEXT, "new, removed, or empty where both sides have it.", 1),
        Column("severity", "Severity", ColumnKind.TEXT, "error, warning or info.", 2),
        Column("rule", "Rule", ColumnKind.TEXT, "The rule of the Expert System.", 3),
        Column(
            "baseline",
            "Baseline",
            ColumnKind.TEXT,
            "What the rule found in the baseline.",
            1,
            compared_with=_SIDE_COLUMNS,
        ),
        Column(
            "candidate",
            "Candidate",
            ColumnKind.TEXT,
            "What the rule found in the candidate.",
            1,
            compared_with=_SIDE_COLUMNS,
        ),
    ),
    key=("rule",),
    pinned="candidate",
    min_pinned_cells=30,
)


def changed_findings(sides: Sides) -> pl.DataFrame:
    """Return the rules that found something on either side: new ones first, then removed ones, then the rest.

    Columns: change (new, removed or empty), severity (of the candidate's finding, else the baseline's), rule, baseline
    and candidate: the finding of each (of several sessions the first, and the number of others), else ``clean``, or
    ``not applicable:`` and why. A rule that does not apply to one side is neither new nor removed.
    """
    baseline, candidate = (_findings_by_rule(side.profile) for side in (sides.a, sides.b))
    rows = baseline.join(candidate, on="rule", suffix="_candidate", maintain_order="left").filter(
        (pl.col("state") == State.FOUND.value) | (pl.col("state_candidate") == State.FOUND.value)
    )
    clean = pl.lit(State.CLEAN.value)
    rank = {"new": 0, "removed": 1, "": 2}
    change = (
        pl.when(pl.col("state") == clean)
        .then(pl.lit("new"))
        .when(pl.col("state_candidate") == clean)
        .then(pl.lit("removed"))
        .otherwise(pl.lit(""))
    )
    severities = {"error": 0, "warning": 1, "info": 2}
    return (
        rows.with_columns(
            change.alias("change"),
            pl.coalesce("severity_candidate", "severity").alias("severity"),
        )
        .sort(
            pl.col("change").replace_strict(rank, return_dtype=pl.Int8),
            pl.col("severity").replace_strict(severities, default=9, return_dtype=pl.Int8),
            maintain_order=True,
        )
        .select(
            "change", "severity", "rule", pl.col("text").alias("baseline"), pl.col("text_candidate").alias("candidate")
        )
    )


def _findings_by_rule(profile: Profile) -> pl.DataFrame:
    """Return one row per built-in rule: rule, state (found if any session has it), severity, text."""
    ours = findings(profile).filter(pl.col("tool") == OURS)
    first = ours.group_by("rule", maintain_order=True).agg(
        pl.col("state", "severity", "problem", "reason").first(),
        (pl.col("state") == State.FOUND.value).sum().alias("found"),
    )
    more = pl.when(pl.col("found") > 1).then(pl.format(" (and {} more)", pl.col("found") - 1)).otherwise(pl.lit(""))
    return first.select(
        "rule",
        "state",
        "severity",
        pl.when(pl.col("state") == State.FOUND.value)
        .then(pl.col("problem") + more)
        .when(pl.col("state") == State.CLEAN.value)
        .then(pl.lit("clean"))
        .otherwise(pl.format("not applicable: {}", "reason"))
        .alias("text"),
    )


CHANGED_MEMORY: Final = TableSpec(
    "changed_memory",
    "Memory at the peak",
    (
        ALLOCATED_BY,
        *columns(
            "device", "change", "a_bytes", "b_bytes", "peak_delta_bytes", "delta_pct", "a_allocations",
            "b_allocations", "stack",
        ),
    ),
    key=("device", "call_site", "stack"),
    sort=(),
    weight="b_bytes",
    pinned="call_site",
    bars=("peak_delta_bytes",),
)  # fmt: skip


def changed_memory(sides: Sides) -> pl.DataFrame:
    """Return the memory at the peak of both snapshots by the stack that allocated it, the largest change first.

    Columns: those of `CHANGED_MEMORY`. The sums are over sessions; rows of only one side are `NEW` or `REMOVED`.
    """
    key_columns = ("device", "call_site", "stack")
    baseline, candidate = (
        memory_peak(side.profile)
        .with_columns(pl.col("call_site", "stack").cast(pl.String))
        .group_by(key_columns, maintain_order=True)
        .agg(
            pl.col("size_bytes").sum().alias(f"{prefix}_bytes"),
            pl.col("allocations").sum().alias(f"{prefix}_allocations"),
        )
        for prefix, side in (("a", sides.a), ("b", sides.b))
    )
    a, b = pl.col("a_bytes"), pl.col("b_bytes")
    return (
        baseline.join(
            candidate, on=key_columns, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right"
        )
        .with_columns(
            pl.when(a.is_null())
            .then(pl.lit(NEW))
            .when(b.is_null())
            .then(pl.lit(REMOVED))
            .otherwise(pl.lit(BOTH))
            .alias("change"),
            (b.fill_null(0) - a.fill_null(0)).alias("peak_delta_bytes"),
        )
        .with_columns(pl.when(a > 0).then(100 * pl.col("peak_delta_bytes") / a).alias("delta_pct"))
        .sort(pl.col("peak_delta_bytes").abs(), pl.max_horizontal(a, b), descending=True, maintain_order=True)
        .select(column.name for column in CHANGED_MEMORY.columns)
    )


def memory_sentence(sides: Sides) -> str:
    """Return how much was allocated at the peak of both snapshots; empty if there are none."""
    if not has_snapshots(sides):
        return ""
    before, after = (int(memory_peak(side.profile)["size_bytes"].sum()) for side in (sides.a, sides.b))
    pct = percent(100 * abs(after - before) / before) if before else "no baseline"
    change = f"{'-' if after < before else '+' if after > before and before else ''}{pct}"
    return f"Allocated at the peak: {size(before)} in the baseline, {size(after)} in the candidate ({change})"


def has_snapshots(sides: Sides) -> bool:
    """Return whether both sides have a snapshot of an allocator."""
    return all(side.profile["memory_segments"].height > 0 for side in (sides.a, sides.b))


@dataclass(frozen=True, slots=True)
class CompareTable:
    """One table of a comparison."""

    spec: TableSpec
    rows: Callable[[Sides, bool], pl.DataFrame]
    """Takes the sides, and whether names on one side only match without what versions change in them (tolerant)."""
    can_have_rows: Callable[[Sides], bool] = lambda _: True
    """Whether two sides can have rows."""


COMPARE_TABLES: Final = (
    CompareTable(CHANGED_KERNELS, lambda sides, tolerant: changed_kernels(sides, tolerant=tolerant)),
    CompareTable(CHANGED_OPS, lambda sides, tolerant: changed_ops(sides, tolerant=tolerant)),
    CompareTable(CHANGED_OP_TYPES, lambda sides, _: changed_op_types(sides)),
    CompareTable(CHANGED_API, lambda sides, tolerant: changed_api(sides, tolerant=tolerant)),
    CompareTable(CHANGED_LAYERS, lambda sides, _: changed_layers(sides), has_layers),
    CompareTable(CHANGED_FINDINGS, lambda sides, _: changed_findings(sides)),
    CompareTable(CHANGED_MEMORY, lambda sides, _: changed_memory(sides), has_snapshots),
)
"""The tables, in display order."""
