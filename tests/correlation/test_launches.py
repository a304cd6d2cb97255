"""From GPU work to ops and iterations."""

from __future__ import annotations

import polars as pl

from tui.correlation.iteration_ranges import mark_steps
from tui.correlation.launches import add_launch_columns, iterations_at_times, link_ops, nest, parents
from tui.model.schema import RANGES, conform

CALLS = pl.DataFrame(
    {
        "correlation": [7, 7, 8, None],
        "start_ns": [12, 11, 40, 41],
        "duration_ns": [1, 3, 1, 1],
        "pid": [1, 1, 1, 1],
        "tid": [5, 5, 6, 5],
    }
)
OPS = pl.DataFrame(
    {"op": [3, 4], "pid": [1, 1], "tid": [5, 5], "start_ns": [10, 11], "duration_ns": [20, 5]},
    schema_overrides={"op": pl.UInt32},
)


def test_activities_get_the_innermost_op_around_their_launch_or_a_reason() -> None:
    activities = add_launch_columns(pl.DataFrame({"correlation": [7, 8, 9, None]}), CALLS)
    assert activities["launch_ns"].to_list() == [11, 40, None, None]
    linked = link_ops(activities, OPS, nest(OPS))
    assert linked["op"].to_list() == [4, None, None, None]
    assert linked["op_join"].cast(pl.String).to_list() == [
        "launch",
        "launched outside any op",
        "launch not recorded",
        "launch not recorded",
    ]


def test_without_ops_no_launch_has_an_op() -> None:
    no_ops = OPS.clear()
    linked = link_ops(add_launch_columns(pl.DataFrame({"correlation": [7]}), CALLS), no_ops, nest(no_ops))
    assert linked["op"].to_list() == [None]


def test_parents() -> None:
    assert parents(nest(OPS)).to_list() == [None, 0]


def ranges(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    columns = {"name": pl.String, "start_ns": pl.Int64, "duration_ns": pl.Int64, "tid": pl.Int64}
    return conform("ranges", pl.DataFrame(rows, schema=columns, orient="row"))


def test_profiler_steps_keep_their_numbers_and_times_between_steps_have_none() -> None:
    steps = mark_steps(
        ranges(
            ("ProfilerStep#4", 0, 10, 1), ("forward", 1, 4, 1), ("ProfilerStep#5", 12, 10, 1), ("iteration 1", 0, 30, 2)
        )
    )
    assert steps.source == "PyTorch's ProfilerStep"
    assert steps.ranges["iteration"].to_list() == [4, None, 5, None]
    marked = steps.ranges.filter(pl.col("iteration").is_not_null())
    assert iterations_at_times(marked, pl.Series([11, 0, None, 22, 10, 23, -1])).to_list() == [
        None,
        4,
        None,
        5,
        4,
        None,
        None,
    ]


def test_a_family_of_nvtx_ranges() -> None:
    rows = [("iteration 0", 0, 10, 1), ("iteration 1", 10, 10, 1), ("layer 1", 1, 4, 1), ("layer 2", 11, 4, 1)]
    steps = mark_steps(ranges(*rows))
    assert steps.source == "NVTX range iteration"
    assert steps.ranges["iteration"].to_list() == [0, 1, None, None]
    assert steps.ranges.schema == RANGES


def test_ranges_with_one_name_are_counted() -> None:
    steps = mark_steps(ranges(("train step", 0, 10, 1), ("train step", 10, 10, 1)))
    assert steps.ranges["iteration"].to_list() == [0, 1]


def test_overlapping_rare_or_nested_ranges_mark_no_iterations() -> None:
    overlapping = mark_steps(ranges(("step 0", 0, 10, 1), ("step 1", 5, 10, 1)))
    rare = mark_steps(ranges(("step 0", 0, 10, 1), ("step 1", 500, 10, 1)))
    nested = mark_steps(ranges(("Optimizer.step#SGD.step", 0, 10, 1), ("Optimizer.step#SGD.step", 10, 10, 1)))
    single = mark_steps(ranges(("step 0", 0, 10, 1)))
    for steps in (overlapping, rare, nested, single):
        assert steps.source is None
        assert steps.ranges["iteration"].null_count() == steps.ranges.height
