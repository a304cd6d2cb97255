"""The groupings of GPU work in Ops and Kernels: by op, shapes, launch configuration, kernel class or iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.activities import with_shapes
from tui.analysis.durations import complete_sum, share, total, untimed_calls
from tui.analysis.memo import once_per_profile
from tui.analysis.ops import op_instances as instances
from tui.analysis.ops.op_attribution import activity_op_rows, op_rows, recorded_sessions, unattributed_reason
from tui.analysis.ops.op_costs import NO_OP, costs_by_name, op_instances, recorded_ops
from tui.analysis.ops.op_type_rules import UNKNOWN, OpTypeRule, classify
from tui.analysis.ops.ops_by_name import inferred_ops
from tui.analysis.ops.work_groups import (
    NO_GROUP,
    TOTALS_ONLY,
    WorkGroups,
    group_equal_rows,
    kernels_in,
    launches_in,
    sum_work_groups,
    totals_only,
)
from tui.analysis.roofline import RATES, with_rates
from tui.data.user_files import HINT, Stamp, checked_pattern, parse_user_file, stamp, user_file_path, user_text
from tui.fmt import size
from tui.model.columns import COLUMNS, columns
from tui.model.errors import ProftuiError
from tui.model.forest import NONE
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tui.model.profile import Profile


OTHER_CLASS: Final = "other"
"""The class of work that no pattern matches; always a separate row."""

CLASSES: Final = TableSpec(
    "kernel_classes",
    "Classes",
    columns(
        *("kernel_class", "total_ns", "time_pct", "calls", "avg_ns", "kernels", *RATES, "max_ns", "min_ns"),
        *("uses_tensor_core", "session", "line"),
    ),
    key=("session", "kernel_class"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="kernel_class",
)


def classes_path() -> Path:
    """Return the path of the user's classes."""
    return user_file_path("kernel_classes.toml")


def kernel_classes() -> tuple[OpTypeRule, ...]:
    """Return the user's classes in matching order; none without a file.

    Raises:
        ProftuiError: The file cannot be read, or has a class that cannot be used.
    """
    user = stamp(classes_path())
    return () if user is None else _classes(user)


@cache
def _classes(user: Stamp) -> tuple[OpTypeRule, ...]:
    return parse_classes(user_text(user), user[0])


def parse_classes(text: str, source: str) -> tuple[OpTypeRule, ...]:
    r"""Read classes from TOML: an array of tables ``class``, each with ``name`` and ``pattern``.

    The first class whose pattern (a regular expression in Rust syntax, upper and lower case the same) is found in the
    full name of a kernel or memory operation takes it; a name is in one class only.

    Args:
        text: The TOML document.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is not TOML, or a class lacks a key, has another one, or a pattern that is none.

    >>> [rule.op_type for rule in parse_classes('[[class]]\nname = "mine"\npattern = "^my_"', "classes")]
    ['mine']
    """
    document = parse_user_file(text, source)
    entries = document.get("class", [])
    if document.keys() - {"class"} or not isinstance(entries, list):
        raise ProftuiError(f"{source}: expected [[class]] tables and nothing else", HINT)
    return tuple(_class(entry, f"{source}: class {number}") for number, entry in enumerate(entries, 1))


def _class(entry: object, location: str) -> OpTypeRule:
    if not isinstance(entry, dict) or entry.keys() != {"name", "pattern"}:
        raise ProftuiError(f"{location}: expected name and pattern", HINT)
    if not all(isinstance(value, str) and value for value in entry.values()):
        raise ProftuiError(f"{location}: name and pattern must be strings", HINT)
    if entry["name"] in (OTHER_CLASS, UNKNOWN):
        raise ProftuiError(f"{location}: {entry['name']} is reserved for kernels that match no pattern", HINT)
    return OpTypeRule(entry["name"], "", checked_pattern(entry["pattern"], location), "")


def class_groups(profile: Profile) -> WorkGroups:
    """Group all GPU work by session and class."""
    rules = kernel_classes()
    single, printed = (
        rows.select("session", "name")
        .join(_class_by_name(rows["name"], rules), on="name", how="left", maintain_order="left", nulls_equal=True)
        .drop("name")
        for rows in (profile["activities"], totals_only(profile))
    )
    return group_equal_rows(single, printed)


def _class_by_name(names: pl.Series, rules: tuple[OpTypeRule, ...]) -> pl.DataFrame:
    """Return the class of each distinct name."""
    classes = classify(names, rules)
    is_unknown = pl.col("op_type").cast(pl.String) == UNKNOWN
    return classes.select(
        "name",
        pl.when(is_unknown).then(pl.lit(OTHER_CLASS)).otherwise(pl.col("op_type")).cast(NAME).alias("kernel_class"),
    )


def by_class(profile: Profile) -> pl.DataFrame:
    """Return GPU time by the user's classes: one row per session and class, the largest first, unclassified last.

    Columns: session, kernel_class and those of `tui.analysis.ops.work_groups.sum_work_groups`. Work without a class
    has a row in every session; its sums are 0 if there is none.
    """
    rows = sum_work_groups(profile, class_groups(profile))
    is_other = pl.col("kernel_class").cast(pl.String) == OTHER_CLASS
    without_other = rows.filter(~pl.col("session").is_in(rows.filter(is_other)["session"].implode())).unique("session")
    empty_other = without_other.select(
        "session",
        pl.lit(OTHER_CLASS).cast(NAME).alias("kernel_class"),
        *(pl.lit(0, pl.Int64).alias(name) for name in ("calls", "total_ns", "kernels")),
        pl.lit(0.0).alias("time_pct"),
    )
    return pl.concat([rows, empty_other], how="diagonal_relaxed").sort(
        is_other, "total_ns", "kernel_class", "session", descending=[False, True, False, False], nulls_last=True
    )


CONFIG_SHAPE: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"),
    *("static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"),
)

CONFIGS: Final = TableSpec(
    "launch_configs",
    "Launch configs",
    (
        *columns("config", "total_ns", "time_pct", "calls", "avg_ns", "kernels", *RATES, "max_ns", "min_ns"),
        *columns("uses_tensor_core", "session"),
        # The first column shows the whole configuration; these columns are for filters and sorting.
        *(
            replace(COLUMNS[name], priority=9)
            for name in ("grid", "block", "registers", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes")
        ),
        *columns("line"),
    ),
    # Equal sizes of shared memory can have different parts, and texts are rounded.
    key=("session", "config", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="config",
    # Configurations often differ at the end only: registers and shared memory.
    min_pinned_cells=48,
)


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def config_groups(profile: Profile) -> WorkGroups:
    """Group all GPU work by session and launch configuration; other work by its kind."""
    activities = profile["activities"]
    has_no_config = pl.all_horizontal(pl.col(name).is_null() for name in CONFIG_SHAPE)
    kind = pl.col("kind").cast(pl.String)
    single = activities.select("session", *CONFIG_SHAPE, pl.when(has_no_config).then(kind).alias("without"))
    printed = totals_only(profile).select(
        "session",
        *(pl.lit(None, activities.schema[name]).alias(name) for name in CONFIG_SHAPE),
        pl.lit(TOTALS_ONLY).alias("without"),
    )
    return group_equal_rows(single, printed)


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def by_config(profile: Profile) -> pl.DataFrame:
    """Return GPU time by launch configuration: one row per session and configuration, the largest first.

    Columns: session, config (all of it as text; the kind of work if it has none), grid, block, registers,
    static_shared_bytes, dynamic_shared_bytes, shared_bytes and those of `tui.analysis.ops.work_groups.sum_work_groups`.
    """
    rows = with_shapes(sum_work_groups(profile, config_groups(profile)))
    shared = pl.coalesce(pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"), "shared_bytes")
    amounts = rows.select(shared.alias("bytes"))["bytes"].unique().drop_nulls()
    shared_texts = pl.DataFrame(
        {"bytes": amounts, "shared_words": [f"{size(amount)} shared" for amount in amounts.to_list()]},
        schema={"bytes": pl.Int64, "shared_words": pl.String},
    )
    texts = [
        pl.format(
            "({} {} {}) x ({} {} {})", *(pl.col(name).cast(pl.String).fill_null("?") for name in CONFIG_SHAPE[:6])
        ),
        pl.format("{} regs", "registers"),
        pl.col("shared_words"),
    ]
    return (
        rows.with_columns(shared.alias("bytes"))
        .join(shared_texts, on="bytes", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("without").is_null())
            .then(pl.concat_str(texts, separator=", ", ignore_nulls=True))
            .when(pl.col("without").str.starts_with("("))
            .then("without")
            .otherwise(pl.format("(none recorded: {})", "without"))
            .alias("config")
        )
        .drop("bytes", "shared_words")
        .sort("total_ns", "config", "session", descending=[True, False, False], nulls_last=True)
    )


BY_SHAPES: Final = TableSpec(
    "op_shapes",
    "Ops by shape",
    columns(
        *("op", "input_shapes", "gpu_self_ns", "time_pct", "calls", "roof_pct", "tflops_per_s", "tb_per_s", "bound"),
        *("flops_per_byte", "gpu_avg_ns", "dtype", "gpu_total_ns"),
        *(
            "cpu_total_ns",
            "cpu_self_ns",
            "launches",
            "untimed_launches",
            "op_type",
            "direction",
            "gpu_max_ns",
            "gpu_min_ns",
        ),
        *("tc_eligible", "op_source", "session", "line"),
    ),
    key=("session", "op", "input_shapes", "dtype"),
    sort=(("gpu_self_ns", True),),
    weight="gpu_self_ns",
    pinned="op",
)

NOT_RECORDED: Final = "(ops not recorded)"
"""The work of sessions without recorded ops."""


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "layers", "summary")
def shape_groups(profile: Profile) -> WorkGroups:
    """Group all GPU work by session, op and the arguments of the op."""
    activities, ops = profile["activities"], profile["ops"]
    rows = activity_op_rows(profile)
    # An op that only calls an op of the same name counts with it.
    calls = op_rows(op_instances(profile)["call"], ops)
    call_rows = pl.Series(np.where(rows == NONE, NONE, calls[rows]) if ops.height else rows)
    call_rows = call_rows.set(call_rows == NONE, None).cast(pl.UInt32)
    recorded = activities["session"].is_in(recorded_sessions(profile).implode())
    reason = pl.format(NO_OP, activities.select(unattributed_reason(pl.lit(False)))["why_no_op"])
    single = activities.select(
        "session",
        ops["name"].gather(call_rows).alias("op"),
        ops["input_shapes"].gather(call_rows).alias("input_shapes"),
        ops["dtype"].gather(call_rows).alias("dtype"),
        pl.when(pl.lit(call_rows.is_not_null()))
        .then(None)
        .when(pl.lit(recorded))
        .then(reason)
        .otherwise(pl.lit(NOT_RECORDED))
        .cast(NAME)
        .alias("without"),
    )
    printed = totals_only(profile)
    null_columns = {name: pl.lit(None, single.schema[name]).alias(name) for name in ("op", "input_shapes", "dtype")}
    is_recorded = pl.col("session").is_in(recorded_sessions(profile).implode())
    why = pl.when(is_recorded).then(pl.lit(NO_OP.format("totals only"))).otherwise(pl.lit(NOT_RECORDED))
    return group_equal_rows(single, printed.select("session", *null_columns.values(), why.cast(NAME).alias("without")))


@once_per_profile("sessions", "devices", "ops", "activities", "api_calls", "summary")
def by_shapes(profile: Profile) -> pl.DataFrame:
    """Return the costs of recorded ops by session, name, input shapes and data types; largest GPU time first.

    Columns: those of `tui.analysis.ops.op_costs.costs_by_name`, op_type, time_pct. GPU work without an op has a row for
    each reason, and one row in sessions that record no ops: ``gpu_self_ns`` adds up to all GPU time.
    """
    all_ops = recorded_ops(profile)
    types = all_ops.filter(pl.col("why_no_op").is_null()).select("session", "op", "op_type")
    unattributed = all_ops.filter(pl.col("why_no_op").is_not_null()).select(
        "session", "op", "gpu_self_ns", "launches", "untimed_launches", "line"
    )
    others = (
        inferred_ops(profile)
        .group_by("session")
        .agg(
            pl.lit(NOT_RECORDED).cast(NAME).alias("op"),
            total("total_ns").alias("gpu_self_ns"),
            complete_sum("calls").alias("launches"),
            untimed_calls().alias("untimed_launches"),
            pl.col("line").min(),
        )
    )
    rows = costs_by_name(profile, "input_shapes", "dtype").join(types, on=["session", "op"], how="left")
    return (
        pl.concat([rows, unattributed, others], how="diagonal_relaxed")
        .with_columns(share("gpu_self_ns"))
        .pipe(lambda costs: with_rates(profile, costs, group_columns=("input_shapes", "dtype")))
        .sort(
            *("gpu_self_ns", "gpu_total_ns", "cpu_total_ns"),
            *(pl.col(name).cast(pl.String) for name in ("op", "input_shapes", "dtype")),
            "session",
            descending=[True, True, True, False, False, False, False], nulls_last=True,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouping of all GPU work."""

    name: str
    """The name on the command line, as ``shapes``."""
    title: str
    """The title, as ``by input shape``."""
    spec: TableSpec
    rows: Callable[[Profile], pl.DataFrame]
    groups: Callable[[Profile], WorkGroups]
    """Which launch is in which row."""
    key: tuple[str, ...]
    """The columns that a row and its group share."""
    without: str = ""
    """The column of the groups whose value is in the first column of rows without an op."""
    unavailable_reason: Callable[[Profile], str] = lambda _profile: ""
    """Return why the grouping is not available; empty if it is."""

    def group_number(self, profile: Profile, row: Mapping[str, Any]) -> int:
        """Return the number of the group of a row of `rows`; `NO_GROUP` if it has no GPU work."""
        keys = self.groups(profile).keys
        matches = pl.all_horizontal(
            pl.col(name).cast(pl.String).eq_missing(pl.lit(None if row[name] is None else str(row[name])))
            for name in self.key
        )
        if self.without:
            label = pl.lit(str(row[self.key[1]]))
            is_without_op = pl.col(self.without).cast(pl.String) == label
            matches = matches & pl.col(self.without).is_null() | is_without_op & (pl.col("session") == row["session"])
        groups = keys.select(matches.fill_null(False).arg_true()).to_series()
        return int(groups[0]) if len(groups) else NO_GROUP

    def make(self, profile: Profile) -> None:
        """Compute the results of `rows` and `groups`."""
        self.groups(profile)
        self.rows(profile)

    def kernels(self, profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
        """Return the kernels and memory operations of a row."""
        return kernels_in(profile, self.groups(profile), self.group_number(profile, row))

    def launches(self, profile: Profile, row: Mapping[str, Any], *, kind: str, name: str) -> pl.DataFrame:
        """Return the launches of one kernel or memory operation of a row."""
        return launches_in(profile, self.groups(profile), self.group_number(profile, row), kind=kind, name=name)

    def activities(self, profile: Profile, row: Mapping[str, Any]) -> pl.Series:
        """Return the numbers of the activities of a row."""
        indices = np.flatnonzero(self.groups(profile).codes == self.group_number(profile, row))
        return profile["activities"]["activity"].gather(pl.Series(indices, dtype=pl.UInt32))


def _no_shapes(profile: Profile) -> str:
    shapes = profile["ops"]["input_shapes"]
    return "" if shapes.len() > shapes.null_count() else "input shapes not recorded"


def _no_configs(profile: Profile) -> str:
    blocks = profile["activities"]["block_x"]
    return "" if blocks.len() > blocks.null_count() else "launch configurations not recorded"


def _no_classes(_profile: Profile) -> str:
    return "" if kernel_classes() else f"no kernel classes defined in {classes_path()}"


def _no_launches(profile: Profile) -> str:
    return "" if profile["activities"].height else "this input has totals, not single launches"


GROUPINGS: Final = (
    Grouping(
        "shapes",
        "by input shape",
        BY_SHAPES,
        by_shapes,
        shape_groups,
        ("session", "op", "input_shapes", "dtype"),
        "without",
        _no_shapes,
    ),
    Grouping(
        "config",
        "by launch config",
        CONFIGS,
        by_config,
        config_groups,
        ("session", *CONFIG_SHAPE, "without"),
        unavailable_reason=_no_configs,
    ),
    Grouping(
        "class",
        "by kernel class",
        CLASSES,
        by_class,
        class_groups,
        ("session", "kernel_class"),
        unavailable_reason=_no_classes,
    ),
    Grouping(
        "instance",
        "by op instance",
        instances.BY_INSTANCE,
        instances.by_instance,
        instances.instance_groups,
        ("session", "op_id"),
        unavailable_reason=_no_launches,
    ),
)
"""The groupings other than by name."""


def grouping_by_name(name: str) -> Grouping:
    """Return the grouping with a name.

    >>> grouping_by_name("instance").title
    'by op instance'
    """
    return next(candidate for candidate in GROUPINGS if candidate.name == name)
