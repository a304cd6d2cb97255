"""Which recorded launches a metric was measured on."""

from __future__ import annotations

from tests.analysis.frames import kernel, profile
from tui.analysis.hardware_metrics import launches_measured, metrics

SHAPE = {"grid_x": 4, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1}
ANOTHER = {**SHAPE, "grid_x": 5}
METRIC = {"session": 0, "kernel": "void f<int>(int const*)", "metric": "dram__bytes.sum", "avg": 1.0, "line": 3}
BOTH = profile(
    sessions=[{"session": 0, "format": "ncu-csv"}, {"session": 1, "format": "chrome-trace"}],
    activities=[
        kernel("void f<int>(int const*)", 5, session=0, **SHAPE),
        kernel("void f<int>(const int *)", 5, session=1, **SHAPE),
        kernel("void f<int>(const int *)", 6, session=1, **ANOTHER),
        kernel("g", 7, session=1, **SHAPE),
    ],
    metrics=[{**METRIC, **SHAPE}],
)


def test_launches_of_a_timeline_that_spells_the_kernel_otherwise_are_found_beside_those_that_were_replayed() -> None:
    found = launches_measured(BOTH, metrics(BOTH).row(0, named=True))
    assert found.select("session", "duration_ns").rows() == [(0, 5), (1, 5)]


def test_where_a_session_has_the_very_name_others_of_the_same_short_name_are_none() -> None:
    one = profile(
        activities=[kernel("void f<int>(int const*)", 5, **SHAPE), kernel("void f<long>(long const*)", 6, **SHAPE)],
        metrics=[{**METRIC, **SHAPE}],
    )
    found = launches_measured(one, metrics(one).row(0, named=True))
    assert found["duration_ns"].to_list() == [5]


def test_of_a_kernel_that_nobody_launched_there_are_no_launches() -> None:
    row = {**metrics(BOTH).row(0, named=True), "kernel": "h"}
    assert launches_measured(BOTH, row).is_empty()
