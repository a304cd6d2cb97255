"""From the rows of DLProf's CSV reports to frames.

Only the iteration report tells of single kernels. The others are aggregates: those of kernels become ``summary``, those
of ops, types and groups DLProf's own figures (``tool_figures``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.dlprof.gpu_work import LAUNCH, TOOL
from tui.loaders.dlprof.ops import path_columns, stack_column
from tui.loaders.dlprof.report_summary import name_and_unit
from tui.loaders.kernel_names import with_short_names
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.text.cell_values import CellValues

_YES: Final = {"yes": True, "no": False}

_OF_ITERATIONS: Final = (
    *("Kernel Name", "Device ID", "GPU Start Time (ns)", "GPU Duration (ns)", "API Call Start (ns)"),
    *("API Call Time (ns)", "Uses TC", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z"),
)
_OF_KERNELS: Final = tuple(
    f"{which} {what} Time (ns)" for what in ("GPU", "API") for which in ("Total", "Avg", "Min", "Max")
)
_OF_OPS: Final = ("Total CPU Time (ns)", "TC Eligible")
"""Columns of the reports whose values are missed on the screens."""

_ROUNDING: Final = 0.05
"""By so much an average can differ from what is printed."""


def iteration_report(rows: CellValues, collector: Collector) -> None:
    """Every kernel, with its op and the call that launched it. Ops are told by iteration, without times."""
    _tell_of_missing(rows, collector, _OF_ITERATIONS)
    launched = _op_columns(rows).with_columns(
        rows.whole("Iteration", pl.Int32()).alias("iteration"),
        rows.name("Input Shapes").alias("input_shapes"),
        pl.lit(True).alias("launched"),
    )
    key = ["iteration", "op_id"]
    ops = launched.drop("launched").unique(key, keep="first", maintain_order=True).with_row_index("op")
    op = launched.join(ops.select(*key, "op"), on=key, how="left", nulls_equal=True, maintain_order="left")["op"]
    uses_tc = rows.text("Uses TC").replace_strict(_YES, default=None, return_dtype=pl.Boolean)
    correlation = pl.int_range(1, rows.cells.height + 1, eager=True)
    kernels = pl.DataFrame(
        {
            "kind": pl.Series(["kernel"], dtype=NAME).new_from_index(0, rows.cells.height),
            "name": rows.name("Long Kernel Name").zip_with(
                rows.text("Long Kernel Name").is_not_null(), rows.name("Kernel Name")
            ),
            "start_ns": rows.whole("GPU Start Time (ns)"),
            "duration_ns": rows.whole("GPU Duration (ns)"),
            "device": rows.whole("Device ID", pl.Int32()),
            **{
                f"{shape.lower()}_{axis.lower()}": rows.whole(f"{shape} {axis}", pl.Int32())
                for shape in ("Grid", "Block")
                for axis in "XYZ"
            },
            "correlation": correlation,
            "op": op.cast(pl.UInt32),
            "iteration": launched["iteration"],
            "uses_tensor_core": uses_tc,
            "line": rows.line,
        }
    )
    collector.add_frames(
        {
            "ops": ops,
            "activities": with_short_names(kernels).with_columns(
                pl.lit("recorded", NAME).alias("op_join"),
                pl.when(pl.col("uses_tensor_core").is_not_null())
                .then(pl.lit(TOOL))
                .cast(NAME)
                .alias("tensor_core_reason"),
                _arguments(rows),
            ),
            "api_calls": pl.DataFrame(
                {
                    "name": pl.Series([LAUNCH], dtype=NAME).new_from_index(0, rows.cells.height),
                    "start_ns": rows.whole("API Call Start (ns)"),
                    "duration_ns": rows.whole("API Call Time (ns)"),
                    "correlation": correlation,
                    "line": rows.line,
                }
            ),
        }
    )
    assert collector.session is not None
    collector.session.facts["iteration_source"] = "DLProf"
    reason = (
        "the report holds kernels alone, without copies, and ops by iteration: a row of an op stands for all its calls"
    )
    collector.issue("info", None, "", reason)


def kernel_report(rows: CellValues, collector: Collector) -> None:
    """Kernels, summed by name and op."""
    _tell_of_missing(rows, collector, _OF_KERNELS)
    parts = [
        _summary(rows, section, name, what)
        for section, name, what in (("gpu", rows.name("Kernel Name"), "GPU"), ("api", None, "API"))
    ]
    collector.add_frame("summary", pl.concat(parts))


def _summary(rows: CellValues, section: str, name: pl.Series | None, what: str) -> pl.DataFrame:
    """How often each ran is not printed: it is the number that total and average leave open, where there is but one."""
    total, avg = rows.whole(f"Total {what} Time (ns)"), rows.number(f"Avg {what} Time (ns)")
    least = (total / (avg + _ROUNDING)).ceil()
    most = (total / (avg - _ROUNDING)).floor()
    is_sure = (least == most) & (least >= 1) & (avg > _ROUNDING) & (least < 1e15)
    calls = least.set(~is_sure.fill_null(False), None).cast(pl.Int64)
    height = rows.cells.height
    return pl.DataFrame(
        {
            "section": pl.Series([section], dtype=NAME).new_from_index(0, height),
            "name": pl.Series([LAUNCH], dtype=NAME).new_from_index(0, height) if name is None else name,
            "calls": calls,
            "total_ns": total,
            "avg_ns": rows.scaled(f"Avg {what} Time (ns)", 1),
            "min_ns": rows.whole(f"Min {what} Time (ns)"),
            "max_ns": rows.whole(f"Max {what} Time (ns)"),
            "line": rows.line,
        }
    )


def detailed_report(rows: CellValues, collector: Collector) -> None:
    """Ops, each summed over its calls: as figures, and as ops, with a time where there was but one call."""
    _tell_of_missing(rows, collector, _OF_OPS)
    once = rows.whole("No. Calls") == 1
    eligible = rows.text("TC Eligible").replace_strict(_YES, default=None, return_dtype=pl.Boolean)
    ops = _op_columns(rows).with_columns(
        rows.whole("Total CPU Time (ns)").set(~once.fill_null(False), None).alias("duration_ns"),
        eligible.alias("tc_eligible"),
        rows.cells.select(stack_column(pl.col("Stack Trace"))).to_series()
        if "Stack Trace" in rows
        else pl.lit(None, NAME).alias("stack"),
    )
    collector.add_frames({"ops": ops.with_row_index("op")})
    _figures(
        rows, collector, "Ops", of="Op ID", besides=("Op Name", "Direction", "Op Type", "Data Type", "Stack Trace")
    )
    if not once.all():
        reason = "the report sums the calls of an op: a row of an op that was called again has no time of its own"
        collector.issue("info", None, "", reason)


def tensor_core_report(rows: CellValues, collector: Collector) -> None:
    """Ops that can use tensor cores, and how much of their time their kernels did."""
    _figures(rows, collector, "Tensor Cores", of="Op ID")


def op_type_report(rows: CellValues, collector: Collector) -> None:
    """Ops, summed by type."""
    _figures(rows, collector, "Op Types", of="Op Type")


def group_report(rows: CellValues, collector: Collector) -> None:
    """Ops, summed by the modules that they ran in."""
    _figures(rows, collector, "Group Ops", of="Name")


def expert_systems_report(rows: CellValues, collector: Collector) -> None:
    """DLProf's advice."""
    findings = pl.DataFrame(
        {"problem": rows.text("Problem"), "recommendation": rows.text("Recommendation"), "line": rows.line}
    )
    collector.add_frame("tool_findings", findings.with_columns(pl.lit(TOOL).alias("tool")))


def _tell_of_missing(rows: CellValues, collector: Collector, columns: Sequence[str]) -> None:
    lacking = [column for column in columns if column not in rows]
    if lacking:
        reason = "the report lacks columns that DLProf writes: what they tell is unknown"
        collector.issue("warning", None, ", ".join(lacking), reason)


def _op_columns(rows: CellValues) -> pl.DataFrame:
    """What reports say of the op of a row, with columns of ``ops``."""
    dtype = "Data Types" if "Data Types" in rows else "Data Type"
    texts = pl.DataFrame({"path": rows.text("Op Name")})
    return texts.select(
        rows.text("Op ID").alias("op_id"),
        *path_columns(pl.col("path")),
        rows.name("Op Type").alias("op_type"),
        rows.name("Direction").alias("direction"),
        rows.name(dtype).alias("dtype"),
        pl.lit("recorded", NAME).alias("op_source"),
        rows.line.alias("line"),
    )


def _arguments(rows: CellValues) -> pl.Expr:
    parts = [pl.format(f"{column}: {{}}", pl.lit(rows.text(column))) for column in ("Parameters", "Output Shapes")]
    text = pl.concat_str(parts, separator="; ", ignore_nulls=True)
    return pl.when(text != "").then(text).cast(NAME).alias("arguments")


def _figures(rows: CellValues, collector: Collector, section: str, *, of: str, besides: Sequence[str] = ()) -> None:
    """Every cell of a report as a figure of DLProf's, named after its row and its column."""
    columns = [column for column in rows.cells.columns if column not in (of, "line", *besides)]
    named = [name_and_unit(column) for column in columns]
    titles = pl.DataFrame(
        {"column": columns, "title": [title for title, _ in named], "unit": [unit for _, unit in named]},
        schema={"column": pl.String, "title": pl.String, "unit": pl.String},
    )
    number = pl.when(pl.col("cell").str.contains(r"^-?\d{1,18}(?:\.\d{1,18})?$")).then("cell").cast(pl.Float64)
    collector.add_frame(
        "tool_figures",
        rows.cells.with_row_index("row")
        .unpivot(on=columns, index=["row", of, "line"], variable_name="column", value_name="cell")
        .join(titles, on="column", how="left", maintain_order="left")
        .sort("row", maintain_order=True)
        .filter(pl.col("cell").is_not_null(), pl.col("cell") != "")
        .select(
            pl.lit(TOOL).alias("tool"),
            pl.lit(section).alias("section"),
            pl.format("{}: {}", pl.col(of).fill_null(""), "title").alias("name"),
            number.alias("value"),
            pl.when(number.is_not_null()).then("unit").alias("unit"),
            pl.when(number.is_null()).then("cell").alias("text"),
            "line",
        ),
    )
