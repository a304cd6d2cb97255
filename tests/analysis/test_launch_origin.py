from __future__ import annotations

import pytest

from tests.analysis.frames import kernel, make_profile
from tui.analysis.activities import activity_row
from tui.analysis.hardware_metrics import MeasuredLaunch, measured_metrics
from tui.analysis.kernels import launches
from tui.analysis.launch_calls import launch_origin

SHAPE = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
CALL = {"name": "cudaLaunchKernel", "start_ns": 100, "duration_ns": 7, "pid": 5, "tid": 6, "correlation": 3}


def test_a_launch_has_its_call_op_and_iteration() -> None:
    profile = make_profile(
        api_calls=[{**CALL, "name": "cuLaunchKernel", "start_ns": 102}, CALL, {**CALL, "session": 1, "tid": 9}],
        ops=[
            {"op": 0, "name": "aten::linear"},
            {"op": 1, "name": "aten::addmm", "group": "Net/fc", "input_shapes": "[[2, 3]]"},
        ],
        activities=[
            kernel(
                "k",
                5,
                start_ns=140,
                correlation=3,
                op=1,
                op_join="launch",
                iteration=12,
                graph_node=44,
                uses_tensor_core=True,
                tensor_core_reason="DLProf says so",
                arguments="Collective name: allreduce; dtype: float",
            )
        ],
    )
    origin = launch_origin(profile, 0)
    assert (origin.call, origin.call_start_ns, origin.call_duration_ns, origin.delay_ns) == (
        "cudaLaunchKernel",
        100,
        7,
        40,
    )
    assert (origin.pid, origin.tid, origin.op, origin.op_path, origin.input_shapes) == (
        5,
        6,
        "aten::addmm",
        "Net/fc",
        "[[2, 3]]",
    )
    assert (origin.iteration, origin.graph_node, origin.op_join) == (12, 44, "launch")
    assert (origin.uses_tensor_core, origin.tensor_core_reason) == (True, "DLProf says so")
    row = launches(profile, session=0, name="k").row(0, named=True)
    assert (row["launch_ns"], row["delay_ns"], row["launched_by"]) == (100, 40, "aten::addmm")


def test_unrecorded_facts_of_a_launch_are_unknown() -> None:
    origin = launch_origin(make_profile(activities=[kernel("k", 5, start_ns=140, op_join="launch not recorded")]), 0)
    assert (origin.call, origin.delay_ns, origin.op, origin.tid) == (None, None, None, None)
    assert (origin.op_join, origin.call_reason) == ("launch not recorded", None)
    unmatched = launch_origin(make_profile(activities=[kernel("k", 5, correlation=4)], api_calls=[CALL]), 0)
    assert (unmatched.call, unmatched.call_reason) == (None, "no API call with its correlation id recorded")
    with pytest.raises(KeyError):
        launch_origin(make_profile(), 0)


def metric(name: str, value: float, unit: str | None = "%", **fields: object) -> dict[str, object]:
    return {
        "session": 1,
        "kernel": "void gemm<float>(int)",
        **SHAPE,
        "metric": name,
        "avg": value,
        "unit": unit,
        "invocations": 1,
        **fields,
    }


def measured_metrics_with(*metrics: dict[str, object], name: str = "void gemm<float>(int)") -> MeasuredLaunch | None:
    profile = make_profile(
        sessions=[
            {"session": 0, "format": "nsys-sqlite", "source": "run.sqlite"},
            {"session": 1, "format": "ncu-csv", "source": "out/gemm.csv"},
        ],
        activities=[kernel(name, 5, **SHAPE)],
        metrics=list(metrics),
    )
    return measured_metrics(profile, 0)


def test_metrics_of_the_same_launch_configuration_have_key_metrics_first() -> None:
    measured = measured_metrics_with(
        metric("lts__t_sector_hit_rate.pct", 40.0),
        metric("Memory Throughput", 3e12, "B/s"),
        metric("Memory Throughput", 60.0),
        metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 80.0),
        metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 90.0),
        metric("Compute (SM) Throughput", 1.0, grid_x=9),
        metric("something else", 7.0, None),
    )
    assert measured is not None
    assert measured.values == (
        ("SM throughput", 85.0, "%"),
        ("memory throughput", 60.0, "%"),
        ("L2 hit rate", 40.0, "%"),
    )
    assert (measured.source, measured.session, measured.launches, measured.exact_name, measured.others) == (
        "out/gemm.csv",
        1,
        2,
        True,
        2,
    )


def test_the_mean_of_a_metric_is_over_its_launches() -> None:
    measured = measured_metrics_with(
        metric("Achieved Occupancy", 50.0, invocations=3), metric("Achieved Occupancy", 90.0)
    )
    assert measured is not None
    assert (measured.launches, measured.values) == (4, (("achieved occupancy", 60.0, "%"),))


def test_a_kernel_matched_by_short_name_is_marked() -> None:
    measured = measured_metrics_with(metric("Achieved Occupancy", 50.0), name="gemm")
    assert measured is not None
    assert (measured.exact_name, measured.values) == (False, (("achieved occupancy", 50.0, "%"),))


def test_metrics_of_another_kernel_or_shape_do_not_apply() -> None:
    assert measured_metrics_with(metric("Achieved Occupancy", 50.0), name="other") is None
    assert measured_metrics_with(metric("Achieved Occupancy", 50.0, block_x=128)) is None
    assert measured_metrics_with(metric("Achieved Occupancy", 50.0, block_x=None)) is None


def test_the_row_of_an_activity_is_found_at_any_position() -> None:
    rows = [kernel("a", 1), kernel("b", 1, session=1), kernel("c", 1, session=1), kernel("d", 1)]
    profile = make_profile(activities=rows)
    assert [activity_row(profile, number)["name"] for number in range(4)] == ["a", "b", "c", "d"]
    # Numbers of the first session are 0 and 3, those of the second 1 and 2.
    first, second = profile.only_session(0), profile.only_session(1)
    assert [activity_row(first, number)["name"] for number in (0, 3)] == ["a", "d"]
    assert [activity_row(second, number)["name"] for number in (1, 2)] == ["b", "c"]
    for part, number in ((first, 1), (second, 0), (second, 3), (profile, 4), (profile, -1), (make_profile(), 0)):
        with pytest.raises(KeyError, match=f"there is no activity {number}"):
            activity_row(part, number)
