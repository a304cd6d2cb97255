"""Details of kernels and launches beside their figures."""

from __future__ import annotations

import polars as pl

from tests.analysis.frames import kernel, make_profile
from tui.analysis.durations import DurationSpread, SlowPart, duration_spread, variants
from tui.analysis.gpu_time.overlap import Saving
from tui.analysis.launch_config import ProfilingCommand
from tui.analysis.occupancy import OccupancyAdvice
from tui.model.columns import columns
from tui.model.table_spec import TableSpec
from tui.widgets.details import (
    advice_lines,
    gain_lines,
    next_lines,
    row_details,
    sections,
    slow_lines,
    variant_lines,
    with_blocks,
)


def saving(device: int = 0, iterations: int | None = None) -> Saving:
    return Saving(0, device, 2, time_ns=5000, alone_ns=4000, half_ns=1000, busy_ns=10_000, span_ns=20_000, stream=7,
                iterations=iterations, alone_per_iteration_ns=1000 if iterations else None,
                half_per_iteration_ns=250 if iterations else None)  # fmt: skip


def test_savings_name_their_basis() -> None:
    assert gain_lines([]) == []
    assert gain_lines([saving()]) == [
        ("removed", "4.000 µs", "40.00% of the busy time"),
        ("2x faster", "1.000 µs", "10.00% of the busy time"),
        (
            "basis",
            "time in which nothing else ran on the GPU; everything else unchanged",
            "1.000 µs of it overlapped other work or itself",
        ),
    ]
    assert gain_lines([saving(iterations=4)])[0] == ("removed", "4.000 µs", "1.000 µs in each of 4 iterations")
    assert [line[0] for line in gain_lines([saving(0), saving(3)])] == [
        "removed on GPU 0",
        "2x faster on GPU 0",
        "removed on GPU 3",
        "2x faster on GPU 3",
        "basis",
    ]


def test_lines_of_slow_launches() -> None:
    assert slow_lines(None) == []
    assert slow_lines(duration_spread(make_profile(activities=[kernel("k", 5), kernel("k", 5)])["activities"])) == []
    parts = tuple(SlowPart(number, 10, 9 - number) for number in range(6))
    spread = DurationSpread(60, 1, 1, 1, 1, 1, 1, slow=39, slow_ns=700, slow_iterations=parts, slow_streams=parts[:1])
    assert slow_lines(spread) == [
        ("slow", "39 of 60", "took more than 1.5 times the median, 700 ns above it in total"),
        ("in iterations", "0: 9 of 10, 1: 8 of 10, 2: 7 of 10, 3: 6 of 10, and 2 more", "slow ones of each"),
        ("on streams", "0: 9 of 10", "slow ones of each"),
    ]


def test_variants_are_shown_if_there_are_several() -> None:
    found = make_profile(activities=[kernel("k", ns) for ns in (5, 6)])
    assert variant_lines(variants(found, found["activities"])) == []
    shape = {"grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1}
    many = make_profile(activities=[kernel("k", 10 + x, grid_x=x, op=0, **shape) for x in range(1, 8)],
                   ops=[{"op": 0, "name": "o", "input_shapes": "[" + "8, " * 60 + "8]"}])  # fmt: skip
    lines = variant_lines(variants(many, many["activities"]))
    assert lines[0][:2] == ("17 ns", "(7 1 1) x (32 1 1)")
    assert lines[0][2].startswith("1 call, median 17 ns, longest 17 ns; input [8, 8, ")
    assert lines[0][2].endswith("…")
    assert lines[-1] == ("", "and 2 more", "")


def test_advice_and_commands() -> None:
    assert advice_lines(
        [OccupancyAdvice(50.0, 4, registers=64, shared_bytes=12288), OccupancyAdvice(75.0, 1, threads_per_block=768)]
    ) == [
        (
            "50.00%",
            "at most 64 registers per thread and at most 12,288 B of shared memory per block",
            "4 blocks per SM",
        ),
        ("75.00%", "768 threads per block", "1 block per SM; registers and shared memory unchanged"),
    ]
    assert advice_lines([OccupancyAdvice(50.0, 4, registers=64)], waves=1.5)[0][0] == "50.00%"
    assert advice_lines([OccupancyAdvice(50.0, 4, registers=64)], waves=0.4) == [
        ("", "only a larger grid helps: all blocks of this grid fit on the GPU at once", "")
    ]
    assert advice_lines([], waves=0.4) == next_lines(None) == []
    assert next_lines(ProfilingCommand(None, "why")) == [("none", "why", "")]
    assert next_lines(ProfilingCommand("ncu ./app", "note")) == [("command", "ncu ./app", ""), ("", "note", "")]


def test_a_rate_has_the_unit_of_its_title() -> None:
    spec = TableSpec("ops", "Ops", columns("op", "tflops_per_s"), key=("op",), pinned="op")
    row = {"op": "aten::mm", "tflops_per_s": 0.17}
    shown = row_details(spec, row, frame=pl.DataFrame([row]))
    assert [line.plain for _, line in shown.lines] == ["Op       aten::mm", "TFLOP/s  0.17"]


def test_a_difference_has_its_sign_and_a_time_the_unit_of_its_column() -> None:
    spec = TableSpec("ops", "Ops", columns("op", "delta_pct", "start_ns"), key=("op",), pinned="op")
    rows = [{"op": "aten::mm", "delta_pct": 5.0, "start_ns": 60_000_000}, {"op": "b", "start_ns": 12_000_000_000}]
    shown = row_details(spec, rows[0], frame=pl.DataFrame(rows))
    assert [line.plain for _, line in shown.lines] == ["Op     aten::mm", "Diff%  +5.00%", "Start  0.060000 s"]


def test_an_empty_text_has_no_line_and_is_not_missing() -> None:
    spec = TableSpec("ops", "Ops", columns("op", "change", "calls"), key=("op",), pinned="op")
    row = {"op": "aten::mm", "change": "", "calls": None}
    shown = row_details(spec, row, frame=pl.DataFrame([row]))
    assert [line.plain for _, line in shown.lines] == ["Op        aten::mm", "No value  Calls"]


def test_blocks_without_lines_are_left_out() -> None:
    first = sections([("", [("name", "k", "")])])
    assert with_blocks(first, [("Slow launches", [])]) is first
    text = [line.plain for _, line in with_blocks(first, [("More", [("a", "b", "")])]).lines]
    assert text == ["name  k", "", "More", "a  b"]


def test_launches_without_an_op_have_no_shapes() -> None:
    found = make_profile(
        activities=[kernel("k", 5, op=None), kernel("k", 7, op=0)], ops=[{"op": 0, "input_shapes": "[2]"}]
    )
    renamed = found["activities"].with_columns(pl.lit("an op's name").alias("op"))
    assert variants(found, renamed)["input_shapes"].to_list() == ["[2]", None]
