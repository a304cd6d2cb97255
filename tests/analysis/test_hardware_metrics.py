"""Recorded launches of measured kernels, their key metrics, bounds and stall reasons."""

from __future__ import annotations

from tests.analysis.frames import kernel, make_profile
from tui.analysis.hardware_metrics import kernel_key_metrics, launches_measured, measured_kernels, metrics

SHAPE = {"grid_x": 4, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1}
OTHER_SHAPE = {**SHAPE, "grid_x": 5}
METRIC = {"session": 0, "kernel": "void f<int>(int const*)", "metric": "dram__bytes.sum", "avg": 1.0, "line": 3}
PROFILE = make_profile(
    sessions=[{"session": 0, "format": "ncu-csv"}, {"session": 1, "format": "chrome-trace"}],
    activities=[
        kernel("void f<int>(int const*)", 5, session=0, **SHAPE),
        kernel("void f<int>(const int *)", 5, session=1, **SHAPE),
        kernel("void f<int>(const int *)", 6, session=1, **OTHER_SHAPE),
        kernel("g", 7, session=1, **SHAPE),
    ],
    metrics=[{**METRIC, **SHAPE}],
)


def test_launches_are_matched_to_replayed_kernels_with_another_spelling() -> None:
    launches = launches_measured(PROFILE, metrics(PROFILE).row(0, named=True))
    assert launches.select("session", "duration_ns").rows() == [(0, 5), (1, 5)]


def test_an_exact_name_takes_precedence_over_an_equal_short_name() -> None:
    profile = make_profile(
        activities=[kernel("void f<int>(int const*)", 5, **SHAPE), kernel("void f<long>(long const*)", 6, **SHAPE)],
        metrics=[{**METRIC, **SHAPE}],
    )
    launches = launches_measured(profile, metrics(profile).row(0, named=True))
    assert launches["duration_ns"].to_list() == [5]


def test_a_kernel_that_was_not_launched_has_no_launches() -> None:
    row = {**metrics(PROFILE).row(0, named=True), "kernel": "h"}
    assert launches_measured(PROFILE, row).is_empty()


def metric_rows(kernel: str, *, unit: str | None = "%", **values: float) -> list[dict[str, object]]:
    """Return metrics of a kernel: their names as in `NAMES`, and their values."""
    return [
        {"session": 0, "kernel": kernel, "metric": NAMES[name], "avg": value, "unit": UNITS.get(name, unit), **SHAPE}
        for name, value in values.items()
    ]


NAMES = {
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "took": "gpu__time_duration.sum",
    "long": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "wait": "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
    "selected": "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "sampled": "smsp__pcsamp_warps_issue_stalled_barrier",
    "other": "device__attribute_chip",
}
UNITS = {"took": "ns", "long": None, "wait": None, "selected": None, "sampled": None, "other": None}


def test_measured_kernels_are_sorted_by_time_and_have_their_bound() -> None:
    profile = make_profile(
        metrics=[
            *metric_rows("short", sm=80.0, memory=20.0, took=10.0),
            *metric_rows("long", sm=20.0, memory=70.0, took=90.0, occupancy=50.0),
            *metric_rows("idle", sm=10.0, memory=59.0, took=50.0),
            *metric_rows("balanced", sm=61.0, memory=70.0, took=5.0),
            *metric_rows("high", sm=80.0, memory=71.0, took=4.0),
            *metric_rows("unknown", other=1.0),
        ]
    )
    rows = measured_kernels(profile)
    assert rows.select("kernel", "bound", "sm_pct", "memory_pct", "achieved_pct", "metrics").rows() == [
        ("long", "memory", 20.0, 70.0, 50.0, 4),
        ("idle", "latency", 10.0, 59.0, None, 3),
        ("short", "compute", 80.0, 20.0, None, 3),
        ("balanced", "both", 61.0, 70.0, None, 3),
        ("high", "compute", 80.0, 71.0, None, 3),
    ]


def test_launches_of_one_configuration_are_averaged_and_counted() -> None:
    first = metric_rows("f", sm=80.0, memory=20.0, took=10.0, long=6.0, wait=2.0)
    second = metric_rows("f", sm=40.0, memory=70.0, took=30.0, long=2.0, wait=6.0)
    launches = [{**row, "min": row["avg"], "max": row["avg"], "invocations": 1} for row in (*first, *second)]
    profile = make_profile(metrics=launches)
    row = measured_kernels(profile).row(0, named=True)
    assert (row["invocations"], row["metrics"], row["bound"], row["replayed_ns"]) == (2, 5, "compute", 20.0)
    metrics_of_kernel = kernel_key_metrics(profile, row)
    assert metrics_of_kernel.select("label", "avg", "min", "max", "stall_pct").rows() == [
        ("SM throughput", 60.0, 40.0, 80.0, None),
        ("memory throughput", 45.0, 20.0, 70.0, None),
        ("duration (replay)", 20.0, 10.0, 30.0, None),
        ("long scoreboard", 4.0, 2.0, 6.0, 50.0),
        ("wait", 4.0, 2.0, 6.0, 50.0),
    ]


def test_launch_configurations_of_one_kernel_are_told_apart_by_their_grid() -> None:
    small, large = metric_rows("f", sm=80.0, took=10.0), metric_rows("f", sm=40.0, took=30.0)
    profile = make_profile(metrics=[*small, *({**row, **OTHER_SHAPE} for row in large)])
    rows = measured_kernels(profile).select("kernel", "grid", "block", "sm_pct")
    assert rows.rows() == [("f", "(5 1 1)", "(32 1 1)", 40.0), ("f", "(4 1 1)", "(32 1 1)", 80.0)]


def test_a_mean_over_launches_counts_each_call_and_leaves_out_unknown_values() -> None:
    calls = [(1, 10.0), (3, 50.0), (4, None)]
    profile = make_profile(
        metrics=[{**metric_rows("f", sm=0.0)[0], "avg": avg, "invocations": number} for number, avg in calls]
    )
    assert measured_kernels(profile).select("sm_pct", "invocations").rows() == [(40.0, 8)]


def test_stall_reasons_exclude_selected_and_other_kinds_of_samples() -> None:
    profile = make_profile(
        metrics=metric_rows("f", sm=10.0, memory=20.0, long=6.0, wait=2.0, selected=1.0, sampled=999.0)
    )
    row = measured_kernels(profile).row(0, named=True)
    assert (row["stall"], row["stall_pct"]) == ("long scoreboard", 75.0)
    stalls = kernel_key_metrics(profile, row).filter(part="Stall reasons")
    assert stalls.select("label", "avg", "stall_pct").rows() == [("long scoreboard", 6.0, 75.0), ("wait", 2.0, 25.0)]


def test_key_metrics_have_sections_and_a_share_takes_precedence() -> None:
    details = [
        {"kernel": "f", "metric": "Memory Throughput", "avg": 5e11, "unit": "B/s"},
        {"kernel": "f", "metric": "Memory Throughput", "avg": 53.0, "unit": "%"},
        {"kernel": "f", "metric": "Theoretical Occupancy", "avg": 50.0, "unit": "%"},
        {"kernel": "f", "metric": "Registers Per Thread", "avg": 40.0, "unit": "register/thread"},
    ]
    profile = make_profile(metrics=details)
    rows = kernel_key_metrics(profile, measured_kernels(profile).row(0, named=True))
    assert rows.select("part", "label", "avg").rows() == [
        ("Speed of light", "memory throughput", 53.0),
        ("Occupancy", "theoretical occupancy", 50.0),
        ("Launch", "registers per thread", 40.0),
    ]


def test_occupancy_of_nvprof_becomes_a_percentage() -> None:
    profile = make_profile(metrics=[{"kernel": "f", "metric": "achieved_occupancy", "avg": 0.25, "unit": None}])
    assert measured_kernels(profile)["achieved_pct"].to_list() == [25.0]
