"""A real database, row by row against the reports that DLProf itself wrote of the same recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.dlprof.twin import read

if TYPE_CHECKING:
    from tui.model.profile import Profile

Corpus = Callable[[str], str]


@pytest.fixture
def profile(corpus: Corpus) -> Profile:
    return read(corpus("dlprof/dlprof_dldb.sqlite"))


@pytest.fixture
def report(corpus: Corpus) -> Callable[[str], pl.DataFrame]:
    """Return a function that reads a report as a frame of texts, without its title."""

    def load(name: str) -> pl.DataFrame:
        path = corpus(f"dlprof/no_relu/dlprof_{name}.csv")
        return pl.read_csv(path, skip_lines=1, infer_schema=False).fill_null("")

    return load


def launches(profile: Profile) -> pl.DataFrame:
    """Return GPU work with its op and its call."""
    calls = profile["api_calls"].select("correlation", api_start_ns="start_ns", api_ns="duration_ns")
    ops = profile["ops"].select("op", "op_id", "name", "group", "direction", "op_type", "dtype", "tc_eligible")
    return (
        profile["activities"]
        .join(calls, on="correlation", maintain_order="left")
        .join(ops, on="op", suffix="_of_op", maintain_order="left")
        .with_columns(pl.col("name", "short_name", "group", "direction", "op_type", "dtype").cast(pl.String))
    )


def op_instances(profile: Profile) -> pl.DataFrame:
    """Return ops with their times as DLProf counts them.

    GPU time is how long work of the op was on the GPU, however many kernels at once; idle is the rest of the stretch
    from the first of it to the last. CPU overhead is what CUDA calls leave of the CPU time.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    before = end.cum_max().shift(1).fill_null(pl.col("start_ns")).over("op")
    added = (end - pl.max_horizontal("start_ns", before)).clip(0)
    gpu = (
        launches(profile)
        .with_columns(added_ns=added)
        .group_by("op")
        .agg(gpu_ns=pl.col("added_ns").sum(), idle_ns=end.max() - pl.col("start_ns").min() - pl.col("added_ns").sum())
    )
    calls = profile["api_calls"].sort("start_ns").select("start_ns", api_ns="duration_ns", tid_of_call="tid")
    starts = profile["ops"].select("op", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns")).sort("start_ns")
    api = (
        calls.join_asof(starts, on="start_ns", strategy="backward")
        .filter(pl.col("start_ns") <= pl.col("end_ns"))
        .group_by("op")
        .agg(pl.col("api_ns").sum())
    )
    return (
        profile["ops"]
        .join(gpu, on="op", how="left")
        .join(api, on="op", how="left")
        .with_columns(pl.col("gpu_ns", "idle_ns", "api_ns").fill_null(0), pl.col("op_type", "group").cast(pl.String))
        .with_columns(overhead_ns=pl.col("duration_ns") - pl.col("api_ns"))
        .sort("op")
    )


def total_mean_min_max(column: str, title: str) -> list[pl.Expr]:
    """Return the statistics of a time that DLProf's reports contain."""
    time = pl.col(column)
    parts = (("Total", time.sum()), ("Avg.", time.mean().round(1)), ("Min", time.min()), ("Max", time.max()))
    return [value.alias(f"{part} {title} (ns)") for part, value in parts]


def assert_rows_equal(actual: pl.DataFrame, report: pl.DataFrame, key: str) -> None:
    """Assert that the columns equal those of a report, row by row."""
    assert actual.height > 0
    expected = report.select(actual.columns)
    for column, dtype in actual.schema.items():
        if dtype.is_numeric():
            expected = expected.with_columns(pl.col(column).cast(dtype))
    assert actual.sort(key).to_dicts() == expected.sort(key).to_dicts()


def test_every_kernel_of_the_iteration_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("iteration")
    kernels = launches(profile).filter(pl.col("kind") == "kernel")
    uses_tensor_core = pl.when("uses_tensor_core").then(pl.lit("yes")).otherwise(pl.lit("no"))
    axes = [
        pl.col(f"{shape}_{axis}").alias(f"{shape.title()} {axis.upper()}")
        for shape in ("grid", "block")
        for axis in "xyz"
    ]
    actual = kernels.select(
        pl.col("iteration").alias("Iteration"),
        pl.col("op_id").alias("Op ID"),
        pl.format("/{}/{}", "group", "name_of_op").alias("Op Name"),
        pl.col("direction").alias("Direction"),
        pl.col("op_type").alias("Op Type"),
        pl.col("device").alias("Device ID"),
        pl.col("start_ns").alias("GPU Start Time (ns)"),
        pl.col("duration_ns").alias("GPU Duration (ns)"),
        pl.col("api_start_ns").alias("API Call Start (ns)"),
        pl.col("api_ns").alias("API Call Time (ns)"),
        uses_tensor_core.alias("Uses TC"),
        *axes,
        pl.col("dtype").alias("Data Types"),
        pl.col("name").alias("Long Kernel Name"),
    )
    assert_rows_equal(actual, expected, "GPU Start Time (ns)")


def test_every_row_of_the_kernel_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("kernel").with_columns(key=pl.format("{} {}", "Op ID", "Kernel Name"))
    kernels = launches(profile).filter(pl.col("kind") == "kernel")
    rename = {f"Avg. {processor} Time (ns)": f"Avg {processor} Time (ns)" for processor in ("GPU", "API")}
    actual = (
        kernels.group_by("op_id", pl.col("short_name").str.split("::").list.last().alias("Kernel Name"))
        .agg(*total_mean_min_max("duration_ns", "GPU Time"), *total_mean_min_max("api_ns", "API Time"))
        .rename(rename)
        .with_columns(key=pl.format("{} {}", "op_id", "Kernel Name"))
        .drop("op_id")
    )
    assert_rows_equal(actual, expected, "key")


def test_every_row_of_the_op_type_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    report_rows = report("op_type")
    actual = (
        op_instances(profile)
        .group_by(pl.col("op_type").alias("Op Type"))
        .agg(
            pl.col("op_id").n_unique().alias("# Ops"),
            pl.len().alias("# Calls"),
            *total_mean_min_max("duration_ns", "CPU Time"),
            *total_mean_min_max("gpu_ns", "GPU Time"),
            *total_mean_min_max("overhead_ns", "CPU Overhead"),
            *total_mean_min_max("idle_ns", "GPU Idle"),
        )
    )
    assert_rows_equal(actual, report_rows, "Op Type")
    expected = {
        f"{row['Op Type']}: {part} GPU Idle": float(row[f"{part} GPU Idle (ns)"])
        for row in report_rows.to_dicts()
        for part in ("Total", "Avg.", "Min", "Max")
    }
    figures = profile["tool_figures"].filter(pl.col("name").str.ends_with("GPU Idle"))
    # The report rounds averages to one decimal.
    assert {name: round(value, 1) for name, value in figures.select("name", "value").rows()} == expected


def test_every_op_of_the_detailed_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("detailed")
    eligible = pl.when(pl.col("tc_eligible").fill_null(False).any()).then(pl.lit("yes")).otherwise(pl.lit("no"))
    stack = pl.col("stack").cast(pl.String).first().str.split(";").list.reverse().list.join("\n").fill_null("")
    actual = (
        op_instances(profile)
        .group_by(pl.col("op_id").alias("Op ID"))
        .agg(
            pl.len().alias("No. Calls"),
            eligible.alias("TC Eligible"),
            *total_mean_min_max("duration_ns", "CPU Time"),
            *total_mean_min_max("gpu_ns", "GPU Time"),
            *total_mean_min_max("overhead_ns", "CPU Overhead"),
            *total_mean_min_max("idle_ns", "GPU Idle"),
            pl.col("dtype").cast(pl.String).first().fill_null("").alias("Data Type"),
            stack.alias("Stack Trace"),
        )
    )
    assert_rows_equal(actual, expected, "Op ID")


def test_every_group_of_the_group_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("group_op")
    ops = op_instances(profile).with_columns(path=pl.format("/{}/", "group"))
    assert expected.height == 48
    for row in expected.to_dicts():
        is_model = row["Name"] == "_CompleteModel_"
        inside = ops if is_model else ops.filter(pl.col("path").str.starts_with(row["Name"]))
        assert inside.select(
            pl.len().alias("calls"),
            pl.col("tc_eligible").sum().alias("eligible"),
            pl.col("duration_ns", "gpu_ns", "overhead_ns", "idle_ns").sum(),
        ).row(0) == (
            int(row["Num Calls Aggregated"]),
            int(row["Num TC Eligible Ops"]),
            int(row["Total CPU Time (ns)"]),
            int(row["Total GPU Time (ns)"]),
            int(row["Total CPU Overhead (ns)"]),
            int(row["Total GPU Idle (ns)"]),
        )


def test_every_op_of_the_tensor_core_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("tensor_core")
    kernels = launches(profile).filter(pl.col("kind") == "kernel", pl.col("tc_eligible"))
    on_tc = pl.col("uses_tensor_core")
    actual = kernels.group_by(pl.col("op_id").alias("Op ID")).agg(
        pl.col("duration_ns").sum().alias("Total GPU Time (ns)"),
        pl.col("duration_ns").filter(on_tc).sum().alias("TC GPU Time (ns)"),
        pl.col("duration_ns").filter(~on_tc).sum().alias("Non-TC GPU Time (ns)"),
        pl.col("name").n_unique().alias("Total Kernel Count"),
        pl.col("name").filter(on_tc).n_unique().alias("TC Kernel Count"),
    )
    assert_rows_equal(actual, expected, "Op ID")


def test_the_figures_of_the_summary_report(profile: Profile, corpus: Corpus) -> None:
    with open(corpus("dlprof/no_relu/dlprof_summary.csv")) as lines:  # noqa: PTH123
        rows = [line.rstrip("\n").split(",") for line in lines]
    expected = {row[0]: row[1:] for row in rows if len(row) > 1}
    figures = {(row["section"], row["name"]): row for row in profile["tool_figures"].to_dicts()}

    def value(section: str, name: str) -> float:
        return float(figures[section, name]["value"])

    resources = (
        ("Tensor Core Kernel Duration %", "Using Tensor Cores"),
        ("Non-Tensor Core Kernel Duration %", "Not Using Tensor Cores"),
        ("Memory Duration %", "Memory"),
        ("Dataloader Duration %", "Dataloader"),
        ("IO Duration %", "I/O"),
        ("CPU Duration %", "CPU"),
        ("Other Duration %", "Other"),
    )
    for name, figure_name in resources:
        assert round(value("Resource Usage Breakdown", figure_name), 1) == float(expected[name][0])
    performance = (
        ("Wall Clock Time (ns)", "Wall Clock Time"),
        ("Tensor Core Kernel Utilization %", "Tensor Core Kernel Efficiency"),
        ("GPU Utilization %", "GPU Utilization"),
        ("Total Iterations", "Total Iterations"),
        ("Aggregated Iterations", "Profiled Iterations"),
        ("Start Iteration", "Start Iteration"),
        ("Stop Iteration", "Stop Iteration"),
        ("Average Iteration Time (ns)", "Average Iteration Time"),
        ("Iteration Time Standard Deviation", "Iteration Time Standard Deviation"),
    )
    for name, figure_name in performance:
        assert round(value("Performance Summary", figure_name), 1) == float(expected[name][0])
    for name in ("All ops", "Ops using TC", "Ops eligible for TC but not using", "All other ops"):
        parts = ("GPU Time", "CPU Time", "# Ops")
        assert [value("All Ops", f"{name}: {part}") for part in parts] == [float(cell) for cell in expected[name]]
    for name in ("All kernels", "Kernels using TC", "Memory", "All other kernels"):
        parts = ("GPU Time", "CPU Time", "# Kernels")
        cells = expected[name]
        assert [value("All Kernels", f"{name}: {part}") for part in parts] == [float(cell) for cell in cells]
    for name in ("GPU Count", "CPU Model", "GPU Driver Version", "Framework", "CUDA Version", "DLProf Build"):
        assert figures["System Config", name]["text"] == expected[name][0]
    work = profile["activities"]
    assert work["duration_ns"].sum() == value("All Kernels", "All kernels: GPU Time")
    assert work.filter(pl.col("kind") != "kernel")["duration_ns"].sum() == value("All Kernels", "Memory: GPU Time")


def test_the_figures_in_the_docs(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    kinds = profile["activities"].group_by(pl.col("kind").cast(pl.String)).agg(pl.len(), pl.col("duration_ns").sum())
    assert sorted(kinds.rows()) == [("kernel", 51, 308_960), ("memcpy", 16, 34_016), ("memset", 4, 9_024)]
    ops = op_instances(profile)
    assert ops.height == 32
    sums = ops.select("gpu_ns", "overhead_ns", "idle_ns").sum().row(0)
    assert sums == (339_839, 126_772_072, 2_242_874)
    expected = report("op_type").select(
        pl.col("Total GPU Time (ns)", "Total CPU Overhead (ns)", "Total GPU Idle (ns)").cast(pl.Int64)
    )
    assert expected.sum().row(0) == sums
    kernels = report("kernel").select(pl.col("Total GPU Time (ns)", "Total API Time (ns)").cast(pl.Int64))
    assert (kernels.height, *kernels.sum().row(0)) == (41, 308_960, 270_597)
    launched = launches(profile).filter(pl.col("kind") == "kernel")
    assert launched["api_ns"].sum() == 270_597
    assert launched.select("name", "op").n_unique() == 41
    assert report("group_op").height == 48


def test_the_advice_of_the_expert_systems_report(profile: Profile, report: Callable[[str], pl.DataFrame]) -> None:
    expected = report("expert_systems").rows()
    actual = profile["tool_findings"].select("problem", "recommendation").rows()
    assert actual[: len(expected)] == expected
    # The report leaves out what DLProf says of the batch size.
    assert [problem for problem, _ in actual[len(expected) :]] == [
        "GPU Memory is underutilized: Only 23% of GPU Memory is used"
    ]


def test_a_database_with_ops_and_no_kernels(corpus: Corpus) -> None:
    profile = read(corpus("dlprof/w_Relu/dlprof_dldb.sqlite"))
    assert profile["ops"].height == 25
    assert profile["activities"].height == 0
    assert profile["ops"]["duration_ns"].sum() == 2_112_236_633
    assert profile["tool_findings"].height == 6
    assert profile["issues"]["severity"].to_list() == ["warning"]
