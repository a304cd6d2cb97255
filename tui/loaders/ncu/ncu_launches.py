"""Converts Nsight Compute's metrics to launches, devices, metrics and findings."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.fmt import brief_percent
from tui.loaders.text.section import NS_PER_UNIT, decimal_separator
from tui.model.names import short_name
from tui.model.schema import NAME
from tui.text import map_distinct, number_in, plural, short_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.loaders.collector import Collector


_SIZES: Final = MappingProxyType(
    {
        "": 1,
        **{prefix: 1000**power for power, prefix in enumerate("kmgtp", 1)},
        **{f"{prefix}i": 1024**power for power, prefix in enumerate("kmgtp", 1)},
    }
)
"""Kbyte is decimal in Nsight Compute (32.768 Kbyte are 32,768 bytes)."""

_SIZE: Final = re.compile(r"(?P<prefix>[kmgtp]i?)?b(?:yte)?s?(?P<per>/.+)?", re.IGNORECASE)
_FREQUENCY: Final = re.compile(r"(?P<prefix>[kmgt])?hz", re.IGNORECASE)
_RATE: Final = re.compile(r"(?P<counted>\w+)/(?P<time>\w+)")

_UNGROUPED_NUMBER: Final = r"^[+-]?[0-9]+(?:[eE][+-]?[0-9]+)?$"
_GROUPS: Final = {",": r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+$", ".": r"^[+-]?[0-9]{1,3}(?:\.[0-9]{3})+$"}

LABELED_METRIC: Final = r" \(([A-Za-z][\w.]*__[\w.]+)\)$"
"""A label with the name of its metric."""
_INSTANCES: Final = r"^(?:([+-]?[0-9][0-9.,]*) \(|\((?:[^;]*;|[0-9.,]+\)$))"
"""A value followed by those of its instances, or the latter alone."""


def base_unit(unit: str | None) -> tuple[float, str | None]:
    """Return the factor from a unit to its base unit, and the name of the base unit in ``metrics.unit``.

    >>> base_unit("usecond"), base_unit("Kbyte/block"), base_unit("cycle/nsecond"), base_unit("")
    ((1000.0, 'ns'), (1000.0, 'B'), (1000000000.0, 'Hz'), (1.0, None))
    >>> base_unit("sector/usecond"), base_unit("inst/cycle")
    ((1000000.0, 'sector/s'), (1.0, 'inst/cycle'))
    """
    if not unit:
        return 1.0, None
    if unit in NS_PER_UNIT:
        return float(NS_PER_UNIT[unit]), "ns"
    if size := _SIZE.fullmatch(unit):
        factor, per = float(_SIZES[(size["prefix"] or "").lower()]), size["per"]
        if per is None or per == "/block":
            return factor, "B"
        time = NS_PER_UNIT.get(per[1:])
        return (factor * 1e9 / time, "B/s") if time else (factor, f"B{per}")
    if frequency := _FREQUENCY.fullmatch(unit):
        return float(_SIZES[(frequency["prefix"] or "").lower()]), "Hz"
    if (rate := _RATE.fullmatch(unit)) and rate["time"] in NS_PER_UNIT:
        per_second = 1e9 / NS_PER_UNIT[rate["time"]]
        return per_second, "Hz" if rate["counted"] == "cycle" else f"{rate['counted']}/s"
    return 1.0, unit


_COUNTED: Final = (("_sectors", "sector"), ("_requests", "request"), ("_inst_(?:executed|issued)", "inst"))
"""What a metric counts by its name, and its unit."""
_IMPLIED_UNITS: Final = (
    (re.compile(r"\.pct\b|pct_of_|_pct$|\.pct_"), "%"),
    (re.compile(r"^gpu__time|__time_duration|time_active"), "ns"),
    (re.compile(r"bytes.*per_second"), "byte/second"),
    (re.compile(r"bytes_per_sector"), "byte/sector"),
    (re.compile(r"__bytes.*\.peak_sustained"), "byte/cycle"),
    (re.compile(r"__registers_per_thread"), "register/thread"),
    (re.compile(r"shared_mem_(?:per_block|config_size)|bytes\b|_bytes_"), "byte"),
    (re.compile(r"_khz$"), "kHz"),
    (re.compile(r"cycles_elapsed.*per_second|frequency"), "cycle/second"),
    (re.compile(r"cycles(?!.*per_)"), "cycle"),
    (re.compile(r"_issue_stalled_.*per_issue_active\.ratio"), "inst"),
    (re.compile(r"_pcsamp_warps_|_warps_(?:active|eligible)(?:_realtime)?\.|_maximum_warps_.*_cycle$"), "warp"),
    (re.compile(r"^launch__block_dim_|^launch__occupancy_limit_"), "block"),
    (re.compile(r"^launch__thread_count$"), "thread"),
    (re.compile(r"^launch__sm_count$"), "SM"),
    (re.compile(r"_passes(?:_|$)"), "pass"),
    *(
        (re.compile(rf"{counted}[^.]*\.(?:sum|avg|min|max){roll_up}"), f"{unit}{per}")
        for counted, unit in _COUNTED
        for roll_up, per in ((r"\.per_second$", "/second"), (r"\.(?:per_cycle_|peak_)", "/cycle"), ("$", ""))
    ),
)
"""Base units by the name of a metric, the first that fits."""


def implied_unit(metric: str) -> str:
    """Return the base unit that the name of a metric implies; empty for a count or a ratio.

    >>> implied_unit("gpu__time_duration.sum"), implied_unit("launch__grid_size")
    ('ns', '')
    """
    return next((unit for pattern, unit in _IMPLIED_UNITS if pattern.search(metric)), "")


def numbers(texts: pl.Series, separator: str | None) -> pl.Series:
    """Parse numbers with a decimal separator; without one, only unambiguous numbers."""
    if separator is None:
        return texts.set(~texts.str.contains(_UNGROUPED_NUMBER).fill_null(False), None).cast(pl.Float64, strict=False)
    group_separator = "," if separator == "." else "."
    grouped = texts.str.split(separator).list.first().str.contains(_GROUPS[group_separator])
    ungrouped = texts.str.replace_all(group_separator, "", literal=True).zip_with(grouped.fill_null(False), texts)
    if separator == ",":
        # A text that still has a point is no number in this locale.
        ungrouped = ungrouped.set(ungrouped.str.contains(".", literal=True).fill_null(False), None)
        ungrouped = ungrouped.str.replace(",", ".", literal=True)
    return ungrouped.cast(pl.Float64, strict=False)


def looks_like_number(texts: pl.Series) -> pl.Series:
    """Return which texts are numbers in some locale."""
    return texts.str.contains(r"^[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?$").fill_null(False)


_KINDS: Final = MappingProxyType(
    {
        "certain": r"__ops_path_tensor|pipe_tensor_op_(?:b|d|g|i|q)mma",
        "packed": r"pipe_tensor_op_hmma_type_hfma2",
        "matrix_cycles": r"pipe_tensor_(?:op_hmma_)?type_\w*mma\w*_cycles_active",
        "instructions": r"inst_executed_pipe_tensor(?:_op_hmma)?\.",
        "cycles": r"pipe_tensor(?:_op_hmma)?_cycles_active",
    }
)
"""The evidence of a metric by its name, first match: work of tensor cores only; packed half precision; cycles of
matrix instructions; instructions and cycles that include packed half precision."""

_MIN_MATRIX_SHARE: Final = 0.5
"""The threshold for the share of the pipe's cycles that is matrix instructions."""
_MIN_PRECISE_PCT: Final = 0.1
"""Smaller shares of the peak, printed with two digits, are too imprecise for a ratio."""
_BUSY_PCT: Final = 5.0
"""The share of the peak that only matrix products reach."""
_PIPE_CYCLES: Final = 4
"""The threshold for cycles per instruction, above packed half precision, below matrix products."""


def tensor_cores(rows: pl.DataFrame, tool: str) -> pl.DataFrame:
    """Return whether launches used tensor cores: id, uses_tensor_core (null: unknown), tensor_core_reason.

    Args:
        rows: Metrics of launches in long form: id, metric, value_number. A launch without metrics of the tensor pipe
            has no row in the answer.
        tool: The profiler, named before the metric in the reason.
    """
    kind = pl.coalesce(
        pl.when(pl.col("metric").str.contains(pattern)).then(pl.lit(kind)) for kind, pattern in _KINDS.items()
    )
    # A minimum may be of an SM without blocks of the launch.
    has_value = pl.col("value_number").is_not_null() & ~pl.col("metric").str.contains(r"\.min\b")
    tensor_rows = rows.filter(has_value).with_columns(
        kind.alias("kind"), pl.col("metric").str.extract(r"(\..*)$").fill_null("").alias("roll_up")
    )
    roll_ups = tensor_rows.filter(pl.col("kind").is_not_null()).group_by("id", "roll_up", maintain_order=True)
    values = roll_ups.agg(
        *(pl.col("value_number").filter(pl.col("kind") == kind).max().alias(kind) for kind in _KINDS),
        *(pl.col("metric").filter(pl.col("kind") == kind).first().alias(f"{kind}_metric") for kind in _KINDS),
    )
    verdicts = values.select("id", *_verdict()).drop_nulls("rank")
    best = verdicts.filter(pl.col("rank") == pl.col("rank").min().over("id"))
    # One roll-up may be inconclusive; the result is no only if all of them are no.
    uses = pl.col("uses")
    uses_tensor_core = (
        pl.when(uses.any()).then(pl.lit(True)).when(uses.is_null().any()).then(None).otherwise(pl.lit(False))
    )
    reason = pl.when(uses_tensor_core.is_not_null()).then(
        pl.lit(f"{tool}: ") + pl.col("by").filter(uses.eq_missing(uses_tensor_core)).first()
    )
    return best.group_by("id", maintain_order=True).agg(
        uses_tensor_core.alias("uses_tensor_core"), reason.alias("tensor_core_reason")
    )


def _verdict() -> list[pl.Expr]:
    """Return the verdict of one roll-up: uses (null: inconclusive), rank (1: the best evidence), by (the metric)."""
    certain, packed, matrix, instructions, cycles = (pl.col(kind) for kind in _KINDS)
    is_share = pl.col("roll_up").str.contains("pct")
    all_instructions = pl.max_horizontal(instructions, cycles)
    busy = is_share & (pl.max_horizontal(matrix, all_instructions) > _BUSY_PCT)
    is_mostly_matrix = (matrix >= _MIN_MATRIX_SHARE * cycles) & (~is_share | (matrix >= _MIN_PRECISE_PCT))
    all_metric = pl.coalesce("instructions_metric", "cycles_metric")
    evidence = (
        (certain > 0, pl.lit(True), pl.col("certain_metric"), 1),
        (instructions.is_not_null() & packed.is_not_null(), instructions > packed, pl.col("instructions_metric"), 2),
        # This metric does not include double precision.
        ((matrix == 0) & ~(busy & certain.is_null()), pl.lit(False), pl.col("matrix_cycles_metric"), 3),
        (matrix > 0, _true_or_null(is_mostly_matrix | (cycles.is_null() & busy)), pl.col("matrix_cycles_metric"), 3),
        (all_instructions == 0, pl.lit(False), all_metric, 4),
        (
            all_instructions > 0,
            _true_or_null(busy | (~is_share & (cycles >= _PIPE_CYCLES * instructions))),
            all_metric,
            4,
        ),
    )
    # The first that applies, also if inconclusive: weaker evidence must not override stronger.
    uses = rank = deciding_metric = pl.lit(None)
    for applies, verdict, metric, rank_value in reversed(evidence):
        when_applies = pl.when(applies.fill_null(False))
        uses = when_applies.then(verdict).otherwise(uses)
        rank = when_applies.then(pl.lit(rank_value)).otherwise(rank)
        deciding_metric = when_applies.then(metric).otherwise(deciding_metric)
    return [uses.cast(pl.Boolean).alias("uses"), rank.alias("rank"), deciding_metric.alias("by")]


def _true_or_null(condition: pl.Expr) -> pl.Expr:
    """Return true if the condition is met, otherwise null."""
    return pl.when(condition).then(pl.lit(True))


TOOL: Final = "Nsight Compute"

ISOLATED_TIMES: Final = (
    "Nsight Compute replays one kernel at a time, with locked clocks where possible: durations are of isolated "
    "kernels, and there is no timeline"
)
"""What is said of the durations of every profile of the tool."""

_ACTIVITY_METRICS: Final = MappingProxyType(
    {
        "duration_ns": ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum", "Duration"),
        "registers": ("launch__registers_per_thread", "Registers Per Thread"),
        "static_shared_bytes": ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block"),
        "dynamic_shared_bytes": ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block"),
    }
)
"""The metrics of a launch that have a column of their own, by their names on the raw and the details page."""
_UNITS: Final = MappingProxyType({"duration_ns": "ns", "static_shared_bytes": "B", "dynamic_shared_bytes": "B"})
"""Their required base unit: a number without a unit in the text may have any."""

_DEVICE_METRICS: Final = MappingProxyType(
    {
        "sm_count": ("device__attribute_multiprocessor_count", "launch__sm_count", "# SMs"),
        "max_threads_per_sm": ("device__attribute_max_threads_per_multiprocessor",),
        "registers_per_sm": ("device__attribute_max_registers_per_multiprocessor",),
        "shared_memory_per_sm_bytes": ("device__attribute_max_shared_memory_per_multiprocessor",),
    }
)
_DEVICE_NAME: Final = "device__attribute_display_name"
_DEVICE_METRIC: Final = r"^(?:device__attribute|nvlink|numa|c2clink|pcie)_"
"""Metrics that are facts of the machine, the same for each launch."""

_SEVERITIES: Final = MappingProxyType({"OPT": "warning", "WRN": "warning", "INF": "info", "OK": "info", "ERR": "info"})
"""Types of Nsight Compute's findings, the most severe first. ERR: the rule lacked a metric, nothing is wrong."""
_FIRST_RULE: Final = "Bottleneck"
"""The rule on the speed of light: what bounds the kernel, before what may be better in it."""
_ARGUMENTS_LIMIT: Final = 8
_SHAPE: Final = re.compile(r"\(?([0-9]{1,10}), *([0-9]{1,10}), *([0-9]{1,10})\)?")


def with_base_units(
    rows: pl.DataFrame, columns: tuple[str, ...], collector: Collector, line: int, *, is_text: bool = False
) -> pl.DataFrame:
    """Return the rows with values as numbers in base units (``<column>_number``) and with ``base_unit``.

    The printed text has two decimals, so a comma before three digits is no decimal separator there.
    """
    texts = pl.concat([rows[column].drop_nulls() for column in columns])
    texts = texts.filter(looks_like_number(texts)).unique()
    separator = decimal_separator(texts)
    if separator is None and is_text and texts.str.contains(_GROUPS[","]).any() and not texts.str.contains(r"\.").any():
        separator = "."
    units = rows["unit"].unique()
    factors = {unit: base_unit(unit) for unit in units}
    factor = rows["unit"].replace_strict(units, [factors[unit][0] for unit in units], return_dtype=pl.Float64)
    base = rows["unit"].replace_strict(units, [factors[unit][1] for unit in units], return_dtype=pl.String)
    rows = rows.with_columns(base.alias("base_unit"))
    for column in columns:
        value = numbers(rows[column], separator)
        lost = rows.filter(looks_like_number(rows[column]) & value.is_null())
        if lost.height:
            why = (
                "the decimal separator of this file is unknown"
                if separator is None
                else f"the other numbers use {separator} as the decimal separator"
            )
            reason = f"{plural(lost.height, 'ambiguous number')} like this, shown as unknown: {why}"
            collector.issue("warning", int(lost["line"][0]), str(lost[column][0]), reason)
        scaled = value * factor
        rows = rows.with_columns(scaled.set(scaled.is_infinite(), None).alias(f"{column}_number"))
    if separator == ",":
        collector.issue("info", line, "", "this file uses decimal commas, and points as thousands separators")
    return rows


def with_plain_metrics(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with one value and one name for each metric, and without ``item``.

    A value can be followed by those of its instances, a label by the metric's name. Labels in the body of a section
    are distinct only within their table.
    """
    value, label, item = pl.col("value"), pl.col("metric"), pl.col("item")
    name = pl.coalesce(label.str.extract(LABELED_METRIC), label)
    has_item = item.is_not_null() & ~name.str.contains("__", literal=True)
    has_body = rows["item"].is_not_null().any()
    rows = rows.with_columns(
        pl.when(value.str.contains(_INSTANCES)).then(value.str.extract(_INSTANCES)).otherwise(value).alias("value"),
        pl.when(has_item).then(pl.format("{}: {}", item, name)).otherwise(name).alias("metric"),
    ).drop("item")
    return rows.unique(pl.exclude("section", "line"), keep="first", maintain_order=True) if has_body else rows


def with_grid_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with grid_x to block_z instead of ``grid`` and ``block``; device, context, stream as numbers.

    The grid and block of a launch that was aborted are 0, and unknown.
    """
    shapes = []
    for shape in ("grid", "block"):
        groups = rows[shape].str.extract_groups(_SHAPE.pattern)
        for position, axis in enumerate("xyz"):
            size = groups.struct.field(str(position + 1)).cast(pl.Int32, strict=False)
            shapes.append(size.set(size == 0, None).alias(f"{shape}_{axis}"))
    return rows.drop("grid", "block").with_columns(
        *shapes,
        number_in(pl.col("device"), r"^([0-9]+)$", dtype=pl.Int32),
        pl.col("context").cast(pl.Int32, strict=False),
        pl.col("stream").cast(pl.Int64, strict=False),
    )


def grids_in_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the grid in blocks; some reports count threads there, as the number of blocks shows."""
    blocks = rows.filter(pl.col("metric").is_in(["launch__grid_size", "Grid Size"])).select(
        "id", pl.col("value").cast(pl.Float64, strict=False).alias("_blocks")
    )
    threads = pl.col("grid").str.extract_all("[0-9]+").list.eval(pl.element().cast(pl.Int64, strict=False)).list
    sizes = pl.col("block").str.extract_all("[0-9]+").list.eval(pl.element().cast(pl.Int64, strict=False)).list
    thread_count = threads.get(0) * threads.get(1) * threads.get(2)
    grid_in_blocks = [(threads.get(axis) + sizes.get(axis) - 1) // sizes.get(axis) for axis in range(3)]
    counts_threads = (thread_count != pl.col("_blocks")) & (
        grid_in_blocks[0] * grid_in_blocks[1] * grid_in_blocks[2] == pl.col("_blocks")
    )
    return (
        rows.join(blocks.unique("id"), on="id", how="left", maintain_order="left")
        .with_columns(
            pl.when(counts_threads.fill_null(False))
            .then(pl.format("({}, {}, {})", *grid_in_blocks))
            .otherwise("grid")
            .alias("grid")
        )
        .drop("_blocks")
    )


def add_launches(rows: pl.DataFrame, collector: Collector) -> None:
    """Add activities, devices, metrics and findings from rows in long form (`with_grid_columns`, `with_base_units`)."""
    _report_unknown_units(rows, collector)
    launches = rows.group_by("id", maintain_order=True).agg(
        pl.col("kernel").first(),
        *(pl.col(name).drop_nulls().first() for name in ("context", "stream", "device")),
        *(pl.col(f"{shape}_{axis}").drop_nulls().first() for shape in ("grid", "block") for axis in "xyz"),
        *(_metric(names, _UNITS.get(column)).alias(column) for column, names in _ACTIVITY_METRICS.items()),
        _text_columns().alias("arguments"),
        pl.col("line").min(),
    )
    launches = launches.join(tensor_cores(rows, TOOL), on="id", how="left", maintain_order="left")
    names = launches["kernel"].cast(NAME)
    integer_types = {column: pl.Int32 if column == "registers" else pl.Int64 for column in _ACTIVITY_METRICS}
    activities = launches.drop("id", "kernel").with_columns(
        pl.lit("kernel").alias("kind"),
        names.alias("name"),
        map_distinct(names, short_name, NAME).alias("short_name"),
        *(pl.col(column).round().cast(dtype, strict=False) for column, dtype in integer_types.items()),
        pl.col("arguments").list.join("; ").replace("", None),
    )
    collector.add_frame("activities", activities)
    _add_devices(rows, collector)
    _add_metrics(rows, collector)
    times = launches.group_by("kernel").agg(pl.col("duration_ns").sum()).drop_nulls()
    total_ns = times["duration_ns"].sum()
    is_known = launches["duration_ns"].null_count() == 0 and total_ns
    shares = {kernel: 100 * ns / total_ns for kernel, ns in times.iter_rows()} if is_known else {}
    _add_findings(rows, shares, collector)


def _report_unknown_units(rows: pl.DataFrame, collector: Collector) -> None:
    """Report durations without a unit, as on a raw page without its row of units."""
    lost = rows.filter(
        pl.col("metric").is_in(_ACTIVITY_METRICS["duration_ns"]),
        pl.col("value_number").is_not_null(),
        pl.col("base_unit").ne_missing("ns"),
    )
    if lost.height:
        metric = str(lost["metric"][0])
        reason = (
            f"this time has no unit in {plural(lost.height, 'row')}: durations are unknown; the second row of a raw "
            "page has the units"
        )
        collector.issue("warning", int(lost["line"][0]), metric, reason)


def _metric(names: tuple[str, ...], unit: str | None = None) -> pl.Expr:
    """Return the value of the first of some metrics that a launch has, in a unit or in any."""
    fits = pl.lit(True) if unit is None else (pl.col("base_unit") == unit).fill_null(False)
    return pl.coalesce(
        pl.col("value_number").filter((pl.col("metric") == name) & fits).drop_nulls().first() for name in names
    )


def _text_columns() -> pl.Expr:
    """Return the non-numeric facts of a launch."""
    columns = (
        pl.col("value").is_not_null()
        & pl.col("value_number").is_null()
        & ~pl.col("value").is_in(["", "n/a", "N/A", "nan", "inf", "no data"])
        & ~pl.col("metric").str.contains(_DEVICE_METRIC)
        & (pl.col("value").str.len_chars() <= 80)
    )
    return (pl.col("metric") + pl.lit(": ") + pl.col("value")).filter(columns.fill_null(False)).head(_ARGUMENTS_LIMIT)


def _add_devices(rows: pl.DataFrame, collector: Collector) -> None:
    """Add the GPUs, and their attributes as figures of the tool."""
    devices = (
        rows.filter(pl.col("device").is_not_null())
        .group_by("device", maintain_order=True)
        .agg(
            pl.col("value").filter(pl.col("metric") == _DEVICE_NAME).first().alias("name"),
            pl.col("cc").drop_nulls().first().str.replace(",", ".", literal=True).alias("compute_capability"),
            *(
                _metric(names).round().cast(pl.Int64, strict=False).alias(column)
                for column, names in _DEVICE_METRICS.items()
            ),
        )
    )
    collector.add_frame("devices", devices)
    facts = rows.filter(pl.col("metric").str.contains(_DEVICE_METRIC), pl.col("metric") != _DEVICE_NAME)
    facts = facts.unique(["device", "metric"], keep="first", maintain_order=True)
    collector.add_frame(
        "tool_figures",
        facts.select(
            pl.lit(TOOL).alias("tool"),
            pl.format("device {}", pl.col("device").cast(pl.String).fill_null("?")).alias("section"),
            pl.col("metric").alias("name"),
            pl.col("value_number").alias("value"),
            pl.col("base_unit").alias("unit"),
            pl.when(pl.col("value_number").is_null()).then("value").alias("text"),
            "line",
        ),
    )


def _add_metrics(rows: pl.DataFrame, collector: Collector) -> None:
    is_fact = pl.col("metric").str.contains(_DEVICE_METRIC)
    values = rows.filter(pl.col("value_number").is_not_null(), ~is_fact)
    shapes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    collector.add_frame(
        "metrics",
        values.select(
            pl.col("device").cast(pl.String),
            "kernel",
            *shapes,
            pl.lit(1, pl.Int64).alias("invocations"),
            "metric",
            pl.col("section").alias("description"),
            *(pl.col("value_number").alias(column) for column in ("min", "max", "avg")),
            pl.col("base_unit").alias("unit"),
            "line",
        ),
    )


MAX_LISTED_LAUNCHES: Final = 3
"""The most launches that are listed by name."""


def _launches(ids: Sequence[str]) -> str:
    """Return a short text that names some launches.

    >>> _launches(["0"]), _launches(["0", "1", "2", "3", "4"])
    ('launch 0', 'launches 0, 1, 2 and 2 more')
    """
    return f"launch{'es' * (len(ids) > 1)} {short_list(ids, MAX_LISTED_LAUNCHES)}"


_LINK: Final = re.compile(r"@(?:section|url):([^:@]*):([^@]*)@")
"""A link of Nsight Compute: to one of its sections, named by the second part, or to a page, named by the first."""


def strip_links(text: str) -> str:
    """Return a text of Nsight Compute without its link markup.

    >>> strip_links("Look at @section:SchedulerStats:Scheduler Statistics@ and @url:the guide:https://a.b/c#d@.")
    'Look at Scheduler Statistics and the guide (https://a.b/c#d).'
    """

    def words(match: re.Match[str]) -> str:
        return f"{match[1]} ({match[2]})" if match[0].startswith("@url") else match[2]

    return _LINK.sub(words, text)


def _add_findings(rows: pl.DataFrame, shares: Mapping[str, float], collector: Collector) -> None:
    """Add the findings, those of the kernels with most of the time first.

    Args:
        rows: From `add_launches`.
        shares: The share of each kernel in the time of all kernels, in percent.
        collector: Gets the findings.
    """
    rules = rows.filter(pl.col("rule").is_not_null() & pl.col("rule_text").is_not_null())
    # The same finding on several launches is reported once.
    groups = rules.group_by("kernel", "rule", "rule_type", "rule_text", "speedup_type", "speedup", maintain_order=True)
    findings = groups.agg("id", pl.col("line").first()).to_dicts()
    types = [*_SEVERITIES, None]

    def order(row: Mapping[str, Any]) -> tuple[float, bool, int]:
        kind = row["rule_type"] if row["rule_type"] in types else None
        share = shares.get(row["kernel"] or "", 0.0)
        return -share, kind == "ERR" or not row["rule"].endswith(_FIRST_RULE), types.index(kind)

    for row in sorted(findings, key=order):
        text = strip_links(row["rule_text"])
        if row["speedup"]:
            scope = f", {row['speedup_type']}" if row["speedup_type"] else ""
            text += f" (estimated speedup{scope}: {row['speedup']} %)"
        share = shares.get(row["kernel"] or "")
        share_text = "" if share is None else f", {brief_percent(share)} of GPU time"
        collector.add(
            "tool_findings",
            {
                "tool": TOOL,
                "severity": _SEVERITIES.get(row["rule_type"] or ""),
                "problem": f"{row['rule']} in {short_name(row['kernel'] or '?')} ({_launches(row['id'])}{share_text})",
                "recommendation": text,
                "line": row["line"],
            },
        )


# --- summaries --------------------------------------------------------------------------------------------------------

_DURATIONS: Final = ("gpu__time_duration.sum", "Duration")


def _range_path(ranges: pl.Series) -> pl.Series:
    """Return the names of nested NVTX ranges, which are printed with their payload and color; null without any.

    >>> printed = ' "step:none:none:none:none:none:none"  "a:b:none:1:none:none:none:none" '
    >>> _range_path(pl.Series([printed, " "])).to_list()
    ['step/a:b', None]
    """
    names = ranges.cast(pl.String).str.extract_all('"[^"]+"').list.eval(pl.element().str.extract(_RANGE))
    path = names.list.drop_nulls().list.join("/")
    return path.set(path == "", None)


_RANGE: Final = '"([^"]*?)(?::[^:"]*){6}"'
"""A range: its name, and the type and value of payload, color and message."""


def add_summary(rows: pl.DataFrame, collector: Collector) -> None:
    """Add metrics, and the durations of each kernel, if the page names kernels, as rows of ``summary``."""
    shapes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    values = [pl.col(f"{column}_number").alias(column) for column in ("min", "max", "avg")]
    invocations = pl.col("invocations").str.replace_all(r"[.,]", "").cast(pl.Int64, strict=False)
    rows = rows.filter(pl.col("metric").is_not_null())
    collector.add_frame(
        "metrics",
        rows.filter(pl.col("avg_number").is_not_null()).select(
            pl.col("device").cast(pl.String),
            "kernel",
            *shapes,
            invocations,
            "metric",
            pl.col("section").alias("description"),
            *values,
            pl.col("base_unit").alias("unit"),
            "line",
        ),
    )
    if rows.height and rows["kernel"].null_count() == rows.height:
        reason = (
            "this page has totals over all kernels of a GPU, times included, shown as metrics; for times per "
            "kernel: ncu --import run.ncu-rep --csv --print-summary per-kernel"
        )
        collector.issue("info", int(rows["line"][0]), "", reason)
        return
    times = rows.filter(
        pl.col("metric").is_in(_DURATIONS), pl.col("avg_number").is_not_null(), pl.col("base_unit") == "ns"
    )
    if times.is_empty():
        return
    totals = times.select(
        pl.lit("gpu").alias("section"),
        pl.col("kernel").alias("name"),
        invocations.alias("calls"),
        (pl.col("avg_number") * invocations).round().cast(pl.Int64, strict=False).alias("total_ns"),
        *(
            pl.col(f"{column}_number").round().cast(pl.Int64, strict=False).alias(f"{column}_ns")
            for column in ("avg", "min", "max")
        ),
        "line",
    )
    collector.add_frame("summary", totals)
    in_range = totals.with_columns(pl.lit("nvtx").alias("section"), range=_range_path(times["range"]))
    collector.add_frame("summary", in_range.drop_nulls("range"))
    if times["domain"].drop_nulls().n_unique() > 1:
        reason = (
            "kernels within ranges of several NVTX domains are listed for each: totals may count them more than once"
        )
        collector.issue("warning", int(times["line"][0]), "", reason)
    reason = "Nsight Compute prints rounded averages and no totals: totals are invocations x average"
    collector.issue("info", int(times["line"][0]), "", reason)
