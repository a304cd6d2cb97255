from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.profiles import load_one
from tui.analysis.ops.op_costs import op_overheads, overheads_by_name

if TYPE_CHECKING:
    from tui.model.profile import Profile


def op(number: int, name: str, start: int, duration: int, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    row = {"op": number, "name": name, "start_ns": start, "duration_ns": duration, "parent": parent}
    return {**row, "pid": 1, "tid": 1, **fields}


def call(start: int, duration: int) -> dict[str, Any]:
    return {"name": "cudaLaunchKernel", "start_ns": start, "duration_ns": duration, "pid": 1, "tid": 1}


PROFILE = make_profile(
    ops=[op(0, "linear", 0, 100), op(1, "mm", 10, 40, parent=0), op(2, "add", 60, 30, parent=0), op(3, "t", 200, 9)],
    api_calls=[call(20, 5), call(65, 10), call(95, 2)],
    activities=[
        kernel("k", 100, start_ns=1000, device=0, op=1),
        kernel("k", 100, start_ns=1050, device=0, op=1),
        kernel("k", 10, start_ns=1200, device=0, op=1),
        kernel("k", 30, start_ns=1170, device=0, op=2),
        kernel("k", 30, start_ns=1250, device=0, op=0),
        kernel("k", 30, start_ns=9000, device=1, op=0),
    ],
)


def test_overhead_excludes_cuda_calls_and_idle_time_is_between_the_kernels_of_an_op() -> None:
    assert op_overheads(PROFILE).select(pl.exclude("session", "gpu_total_ns")).rows() == [
        (0, "linear", 100, 17, 83, 20 + 40),
        (1, "mm", 40, 5, 35, 50),
        (2, "add", 30, 10, 20, 0),
        (3, "t", 9, 0, 9, 0),
    ]
    rows = overheads_by_name(PROFILE)
    assert rows["op"].cast(pl.String).to_list() == ["linear", "mm", "add", "t"]
    assert rows["overhead_pct"].to_list() == [83.0, 87.5, 100 * 20 / 30, 100.0]


def test_overhead_is_unknown_without_calls_or_gpu_work() -> None:
    profile = make_profile(ops=[op(0, "linear", 0, 100)])
    row = op_overheads(profile).row(0, named=True)
    assert (row["cpu_total_ns"], row["api_total_ns"], row["cpu_overhead_ns"], row["gpu_idle_ns"]) == (100, *[None] * 3)
    assert overheads_by_name(make_profile(activities=[kernel("a", 5)])).is_empty()


def test_overheads_agree_with_dlprof(corpus: Callable[[str], str]) -> None:
    profile = load_one(corpus("dlprof/dlprof_dldb.sqlite"))
    figures = profile["tool_figures"].filter(pl.col("section") == "Op Types")
    dlprof_figures: dict[str, float] = dict(figures.select("name", "value").iter_rows())
    compared_ops = 0
    for name, cpu, overhead, idle in (
        overheads_by_name(profile).select("op", "cpu_total_ns", "cpu_overhead_ns", "gpu_idle_ns").iter_rows()
    ):
        if f"{name}: Total CPU Time" in dlprof_figures:
            assert cpu == dlprof_figures[f"{name}: Total CPU Time"]
            assert overhead == dlprof_figures[f"{name}: Total CPU Overhead"]
            assert idle == dlprof_figures[f"{name}: Total GPU Idle"]
            compared_ops += 1
    assert compared_ops == 7


def test_idle_time_is_unknown_beyond_a_limit_of_nesting() -> None:
    depth, kernel_count = 400, 3000
    profile = make_profile(
        ops=[op(number, "f", number, 10_000, parent=number - 1 if number else None) for number in range(depth)],
        activities=[kernel("k", 5, start_ns=10 * number, device=0, op=depth - 1) for number in range(kernel_count)],
    )
    idle_ns = op_overheads(profile)["gpu_idle_ns"]
    assert idle_ns[-1] == 5 * (kernel_count - 1)
    assert idle_ns[0] is None
    assert 100 <= len(idle_ns) - idle_ns.null_count() < 200


INTERVAL = st.tuples(st.integers(0, 60), st.integers(0, 15), st.integers(0, 4), st.integers(0, 1))


@given(st.lists(INTERVAL, max_size=14), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_idle_time_agrees_with_counting_instants(
    intervals: list[tuple[int, int, int, int]], parents: list[int]
) -> None:
    parent_of = {number: parent if parent < number else None for number, parent in enumerate([0, *parents])}
    profile: Profile = make_profile(
        ops=[op(number, f"op{number}", 0, 1000, parent=parent, tid=number) for number, parent in parent_of.items()],
        activities=[
            kernel("k", length, start_ns=start, device=device, op=number)
            for start, length, number, device in sorted(intervals)
        ],
    )

    def is_within(number: int | None, ancestor: int) -> bool:
        return number is not None and (number == ancestor or is_within(parent_of[number], ancestor))

    for ancestor, idle in op_overheads(profile).select("op", "gpu_idle_ns").iter_rows():
        expected = 0
        for gpu_number in (0, 1):
            gpu_intervals = [
                (start_ns, start_ns + length)
                for start_ns, length, number, device in intervals
                if device == gpu_number and is_within(number, ancestor)
            ]
            if gpu_intervals:
                first, last = min(start_ns for start_ns, _ in gpu_intervals), max(end_ns for _, end_ns in gpu_intervals)
                expected += sum(
                    not any(start_ns <= instant < end_ns for start_ns, end_ns in gpu_intervals)
                    for instant in range(first, last)
                )
        assert idle == (expected if intervals else None)
