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


MADE = make_profile(
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


def test_overhead_excludes_cuda_calls_and_idle_is_between_own_gpu_work() -> None:
    assert op_overheads(MADE).select(pl.exclude("session", "gpu_total_ns")).rows() == [
        (0, "linear", 100, 17, 83, 20 + 40),
        (1, "mm", 40, 5, 35, 50),
        (2, "add", 30, 10, 20, 0),
        (3, "t", 9, 0, 9, 0),
    ]
    found = overheads_by_name(MADE)
    assert found["op"].cast(pl.String).to_list() == ["linear", "mm", "add", "t"]
    assert found["overhead_pct"].to_list() == [83.0, 87.5, 100 * 20 / 30, 100.0]


def test_overhead_is_unknown_without_calls_or_gpu_work() -> None:
    profile = make_profile(ops=[op(0, "linear", 0, 100)])
    row = op_overheads(profile).row(0, named=True)
    assert (row["cpu_total_ns"], row["api_total_ns"], row["cpu_overhead_ns"], row["gpu_idle_ns"]) == (100, *[None] * 3)
    assert overheads_by_name(make_profile(activities=[kernel("a", 5)])).is_empty()


def test_overheads_agree_with_dlprof(corpus: Callable[[str], str]) -> None:
    profile = load_one(corpus("dlprof/dlprof_dldb.sqlite"))
    figures = profile["tool_figures"].filter(pl.col("section") == "Op Types")
    theirs: dict[str, float] = dict(figures.select("name", "value").iter_rows())
    compared = 0
    for name, cpu, overhead, idle in (
        overheads_by_name(profile).select("op", "cpu_total_ns", "cpu_overhead_ns", "gpu_idle_ns").iter_rows()
    ):
        if f"{name}: Total CPU Time" in theirs:
            assert cpu == theirs[f"{name}: Total CPU Time"]
            assert overhead == theirs[f"{name}: Total CPU Overhead"]
            assert idle == theirs[f"{name}: Total GPU Idle"]
            compared += 1
    assert compared == 7


def test_very_deep_nesting_is_not_slower() -> None:
    depth, kernels = 400, 3000
    profile = make_profile(
        ops=[op(at, "f", at, 10_000, parent=at - 1 if at else None) for at in range(depth)],
        activities=[kernel("k", 5, start_ns=10 * at, device=0, op=depth - 1) for at in range(kernels)],
    )
    found = op_overheads(profile)["gpu_idle_ns"]
    assert found[-1] == 5 * (kernels - 1)
    assert found[0] is None
    assert 100 <= len(found) - found.null_count() < 200


SPAN = st.tuples(st.integers(0, 60), st.integers(0, 15), st.integers(0, 4), st.integers(0, 1))


@given(st.lists(SPAN, max_size=14), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_idle_time_agrees_with_counting_instants(spans: list[tuple[int, int, int, int]], parents: list[int]) -> None:
    above = {at: parent if parent < at else None for at, parent in enumerate([0, *parents])}
    profile: Profile = make_profile(
        ops=[op(at, f"op{at}", 0, 1000, parent=parent, tid=at) for at, parent in above.items()],
        activities=[
            kernel("k", length, start_ns=start, device=device, op=at) for start, length, at, device in sorted(spans)
        ],
    )

    def lies_in(at: int | None, outer: int) -> bool:
        return at is not None and (at == outer or lies_in(above[at], outer))

    for outer, idle in op_overheads(profile).select("op", "gpu_idle_ns").iter_rows():
        expected = 0
        for gpu in (0, 1):
            mine = [(s, s + length) for s, length, at, device in spans if device == gpu and lies_in(at, outer)]
            if mine:
                first, last = min(s for s, _ in mine), max(e for _, e in mine)
                expected += sum(not any(s <= moment < e for s, e in mine) for moment in range(first, last))
        assert idle == (expected if spans else None)
