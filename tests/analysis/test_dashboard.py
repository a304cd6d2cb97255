from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.profiles import SAMPLES, load_one
from tests.waiting import TIMEOUT_S
from tui.analysis.copies import copies
from tui.analysis.dashboard import REMAINING, SPLIT, TOP, Dashboard, DashboardParts, advice, dashboard, dashboard_parts
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpus import gpu_summary
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.dashboard_facts import Fact
    from tui.model.profile import Profile


def kernel_at(start_ns: int | None, duration_ns: int | None, **fields: Any) -> dict[str, Any]:
    return kernel("k", duration_ns, start_ns=start_ns, device=0, **fields)


def fact_of(board: Dashboard, name: str) -> Fact:
    return next(item for item in (*board.performance, *board.system) if item.name == name)


def value_of(board: Dashboard, name: str) -> object:
    return fact_of(board, name).value


@pytest.mark.parametrize(
    ("other", "mfu_pct", "rate"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4.069, "40.3 TFLOP/s"),
        ("ampere_sgemm_128x64_nn", None, None),
    ],
    ids=["communication", "gemm"],
)
def test_flops_are_unknown_if_most_compute_kernels_have_no_formula(
    other: str, mfu_pct: float | None, rate: str | None
) -> None:
    """3 of 10 µs are of a matrix product with shapes; the rest communicates, or is another product without shapes."""
    mm = {"name": "aten::mm", "input_shapes": "[[1024, 512], [512, 384]]", "input_types": '["bfloat16", "bfloat16"]'}
    times = {"op_source": "recorded", "duration_ns": 10, "pid": 9, "tid": 1}
    board = dashboard(
        make_profile(
            devices=[{"session": 0, "device": 0, "name": "NVIDIA H200"}],
            ops=[{**mm, **times, "op": 0, "start_ns": 0}, {**times, "op": 1, "start_ns": 20, "name": "aten::other"}],
            activities=[
                kernel("sm90_xmma_gemm", 3_000, start_ns=0, device=0, op=0, op_join="launch"),
                kernel(other, 7_000, start_ns=3_000, device=0, op=1, op_join="launch"),
            ],
        )
    )
    facts = [fact_of(board, name) for name in ("mfu_pct", "model_flops")]
    assert [fact.value for fact in facts] == [pytest.approx(mfu_pct, rel=1e-3) if mfu_pct else None, rate]
    if mfu_pct is None:
        assert {fact.source for fact in facts} == {"FLOPs unknown for 70.0% of the time of compute kernels"}


def test_busy_time_counts_overlapping_work_once() -> None:
    rows = busy_time(
        make_profile(
            activities=[
                kernel_at(0, 10),
                kernel_at(5, 10),
                kernel_at(7, 2),
                kernel_at(30, 5),
                kernel_at(30, 5),
                kernel_at(100, 0),
            ]
        )
    )
    assert rows.rows(named=True) == [
        {
            "session": 0,
            "device": 0,
            "activities": 6,
            "first_ns": 0,
            "last_ns": 100,
            "span_ns": 100,
            "busy_ns": 20,
            "idle_ns": 80,
            "busy_pct": 20.0,
        }
    ]


def test_busy_time_is_per_device_and_idle_time_within_the_span_of_the_session() -> None:
    rows = [
        kernel_at(0, 10),
        {**kernel_at(5, 10), "device": 1},
        {**kernel_at(50, 10), "session": 1},
        kernel_at(None, 7),
        kernel_at(3, None),
    ]
    busy = busy_time(make_profile(activities=rows))
    assert busy.select("session", "device", "span_ns", "busy_ns", "idle_ns").rows() == [
        (0, 0, 15, 10, 5),
        (0, 1, 15, 10, 5),
        (1, 0, 10, 10, 0),
    ]


def test_an_overlap_below_the_resolution_does_not_count() -> None:
    rows = [kernel_at(0, 8), kernel_at(0, 8), kernel_at(10, 8), kernel_at(100, 50), kernel_at(120, 10)]
    resolved = busy_time(make_profile(activities=rows))
    unresolved = busy_time(make_profile(activities=rows, sessions=[{"session": 0, "start_resolution_ns": 10}]))
    assert resolved["busy_ns"].to_list() == [8 + 8 + 50]
    # The two at 0 may have run one after the other; the last one starts 30 before another ends.
    assert unresolved["busy_ns"].to_list() == [8 + 8 + 8 + 50]


def test_busy_time_is_never_more_than_the_span() -> None:
    rows = [kernel_at(0, 9), kernel_at(0, 9), kernel_at(0, 9)]
    busy = busy_time(make_profile(activities=rows, sessions=[{"session": 0, "start_resolution_ns": 10}]))
    assert busy.select("span_ns", "busy_ns", "idle_ns", "busy_pct").rows() == [(9, 9, 0, 100.0)]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=25))
def test_busy_time_is_the_number_of_instants_with_work(intervals: list[tuple[int, int]]) -> None:
    busy = busy_time(make_profile(activities=[kernel_at(start, length) for start, length in sorted(intervals)]))
    instants = {instant for start, length in intervals for instant in range(start, start + length)}
    assert busy["busy_ns"].to_list() == [len(instants)]


def test_performance_of_a_trace() -> None:
    board = dashboard(
        make_profile(
            activities=[
                kernel_at(0, 60),
                kernel_at(70, 20, session=0),
                copy("HtoD", 10, start_ns=90, device=0, size_bytes=50),
            ],
            api_calls=[{"name": "cudaFree", "duration_ns": 7}, {"name": "cudaFree", "duration_ns": 8}],
            devices=[{"device": 0, "name": "Tesla K40c"}],
        )
    )
    facts = {item.name: item.value for item in board.performance}
    assert facts == {
        "wall_ns": 100,
        "busy_pct": 90.0,
        "span_ns": 100,
        "busy_ns": 90,
        "idle_ns": 10,
        "iterations": None,  # nothing repeats
        "iteration_first": None,
        "iteration_last": None,
        "iteration_avg_ns": None,
        "iteration_std_ns": None,
        "iteration_median_ns": None,
        "iteration_p95_ns": None,
        "gpu_ns": 90,
        "kernel_ns": 80,
        "memcpy_ns": 10,
        "launches": 2,
        "kernels": 1,
        "tc_efficiency_pct": None,  # a K40c has none
        "tc_share_pct": None,
        "api_ns": 15,
        "api_calls": 2,
    }
    assert all(item.source for item in board.performance)
    assert {item.name for item in board.performance if item.record} == {
        "iterations",
        "iteration_first",
        "iteration_last",
        "iteration_avg_ns",
        "iteration_std_ns",
        "iteration_median_ns",
        "iteration_p95_ns",
    }
    assert board.devices.select("name", "sm_count", "busy_pct").rows() == [("Tesla K40c", 15, 90.0)]


def test_figures_missing_from_totals_are_unknown_with_the_recording_command() -> None:
    nvprof = {"session": 0, "format": "nvprof-text"}
    board = dashboard(make_profile(sessions=[nvprof], summary=[summary_row("gpu", "k", 2, 30)]))
    assert (value_of(board, "gpu_ns"), value_of(board, "launches")) == (30, 2)
    assert fact_of(board, "gpu_ns").source == "the summary in the input"
    busy, api = fact_of(board, "busy_ns"), fact_of(board, "api_ns")
    assert (busy.value, busy.source, busy.record) == (None, "no start times recorded", "nvprof --print-gpu-trace")
    assert (api.value, api.source, api.record) == (None, "no API calls recorded", "nvprof --print-api-trace")
    assert [need.missing for need in board.missing] == [
        "no start times: record with nvprof --print-gpu-trace",
        "no launch configurations: record with nvprof --print-gpu-trace",
        "GPU models not recorded in this profile: record with nvprof --print-gpu-trace",
        "no API calls: record with nvprof --print-api-trace",
        "no metrics: record with nvprof --metrics all",
        "no NVTX ranges: record with nvprof ./app, with NVTX ranges in the program",
    ]


def test_an_empty_profile_has_unknown_figures_with_reasons() -> None:
    board = dashboard(make_profile())
    assert {item.value for item in board.performance} == {None}
    assert all(item.source.startswith("no ") and item.record for item in board.performance)
    assert (board.system, board.split.height, board.top_ops.height, board.copies.height) == ((), 0, 0, 0)


def test_copies_alone_are_gpu_activities_without_kernels() -> None:
    board = dashboard(make_profile(activities=[copy("HtoD", 10, start_ns=0, device=0)]))
    assert value_of(board, "gpu_ns") == 10
    for name in ("launches", "kernels"):
        assert (fact_of(board, name).value, fact_of(board, name).source) == (None, "no kernels recorded")
    assert "launch configurations" not in {need.name for need in board.missing}


def test_kernels_without_times_are_counted() -> None:
    board = dashboard(make_profile(activities=[kernel("k", None), kernel("k", None)]))
    assert (value_of(board, "launches"), value_of(board, "kernels")) == (2, 1)
    for name in ("gpu_ns", "kernel_ns"):
        assert (fact_of(board, name).value, fact_of(board, name).source) == (None, "no durations of GPU work recorded")


def test_iterations_without_times_are_not_called_missing() -> None:
    board = dashboard(make_profile(activities=[kernel("k", 5, iteration=0)]))
    fact = fact_of(board, "iteration_avg_ns")
    assert (fact.value, fact.source, fact.record) == (None, "no times of iterations recorded", "")


def test_utilization_of_sessions_agrees_with_their_busy_and_idle_time() -> None:
    """One session is busy for 10 of 990 ns, the other for all of its 10 ns."""
    idle_session = [kernel_at(0, 5), kernel_at(985, 5)]
    board = dashboard(make_profile(activities=[*idle_session, kernel_at(0, 10, session=1)]))
    assert [value_of(board, name) for name in ("busy_ns", "idle_ns", "busy_pct")] == [20, 980, 2.0]


KERNELS_BY_GROUP = (
    ("volta_sgemm_128x32_nn", 90),
    ("implicit_convolve_sgemm", 80),
    ("flash_fwd_kernel", 70),
    ("batch_norm_transform_input", 60),
    ("pooling_fw_4d_kernel", 50),
    ("reduce_kernel", 40),
    ("ncclKernel_AllReduce", 30),
    ("multi_tensor_apply_kernel", 20),
    ("[CUDA memset]", 10),
)


def test_the_split_has_the_largest_groups_and_a_remainder() -> None:
    rows = [kernel(name, ns, kind="memset" if name.startswith("[") else "kernel") for name, ns in KERNELS_BY_GROUP]
    split = dashboard(make_profile(activities=rows)).split
    assert split.height == SPLIT + 1
    assert split.row(-1, named=True) == {
        "group": REMAINING,
        "calls": 2,
        "total_ns": 30,
        "members": 2,
        "time_pct": pytest.approx(100 * 30 / 450),
    }
    assert split["total_ns"].sum() == 450
    assert split["time_pct"].sum() == pytest.approx(100)


def test_a_single_remaining_group_keeps_its_name() -> None:
    split = dashboard(make_profile(activities=[kernel(name, ns) for name, ns in KERNELS_BY_GROUP[: SPLIT + 1]])).split
    assert split["group"].to_list()[-1] == "optimizer"


def test_top_tables_join_sessions_and_are_limited() -> None:
    rows = [kernel(f"kernel{index}", 10 + index) for index in range(12)] + [kernel("kernel0", 100, session=1)]
    board = dashboard(make_profile(activities=rows))
    assert board.top_kernels.height == TOP
    assert board.top_kernels.row(0, named=True) | {"short_name": "kernel0"} == {
        "name": "kernel0",
        "short_name": "kernel0",
        "calls": 2,
        "total_ns": 110,
        "avg_ns": 55,
        "time_pct": pytest.approx(100 * 110 / 286),
        "uses_tensor_core": None,
    }
    assert value_of(board, "sessions") == 2


def test_copies_by_direction_with_size_and_rate() -> None:
    rows = copies(
        make_profile(
            activities=[
                copy("HtoD", 10, size_bytes=1000),
                copy("HtoD", 30, size_bytes=500),
                copy("HtoD", 5),
                copy("DtoH", 100, size_bytes=7),
                kernel("[Unified Memory Memcpy HtoD]", 2, kind="um", size_bytes=4096),
                kernel("[Unified Memory GPU page faults]", 2, kind="um"),
            ],
            summary=[
                summary_row("gpu", "[CUDA memcpy DtoD]", 3, 9, session=1),
                summary_row("gpu", "k", 1, 1, session=1),
            ],
        )
    )
    assert rows.select("session", "kind", "copy_kind", "calls", "total_ns", "size_bytes").rows() == [
        (0, "memcpy", "DtoH", 1, 100, 7),
        (0, "memcpy", "HtoD", 3, 45, 1500),
        (1, "memcpy", "DtoD", 3, 9, None),
        (0, "um", "HtoD", 1, 2, 4096),
    ]
    assert rows["throughput"].to_list() == [7e7, pytest.approx(1500 / 40e-9), None, pytest.approx(4096 / 2e-9)]


def test_copies_of_sessions_are_joined_by_bytes_and_seconds() -> None:
    board = dashboard(
        make_profile(
            activities=[
                copy("HtoD", 10, size_bytes=1000),
                copy("HtoD", 30, size_bytes=1000, session=1),
                {**copy("HtoD", 0, size_bytes=5000, session=1), "duration_ns": None},
                copy("DtoH", 8, size_bytes=0),
            ]
        )
    )
    assert board.copies.select("copy_kind", "calls", "size_bytes", "throughput").rows() == [
        ("HtoD", 3, 7000, pytest.approx(2000 / 40e-9)),
        ("DtoH", 1, 0, 0.0),
    ]


def test_system_figures_of_several_sessions() -> None:
    sessions = [
        {"session": 0, "command": "./a", "pid": 1, "start_resolution_ns": 10},
        {"session": 1, "command": "./a", "pid": 2, "start_resolution_ns": 1000},
    ]
    board = dashboard(make_profile(sessions=sessions))
    assert [(item.name, item.value) for item in board.system] == [
        ("sessions", 2),
        ("command", "./a"),
        ("pid", "1, 2"),
        ("start_resolution_ns", 1000),
    ]
    assert board.system[-1].written() == "1 µs"


def test_results_are_cached_for_the_same_frames_only() -> None:
    computed: list[Profile] = []

    @once_per_profile("activities")
    def compute(profile: Profile) -> pl.DataFrame:
        computed.append(profile)
        return profile["activities"]

    first, second = make_profile(activities=[kernel("k", 1)]), make_profile(activities=[kernel("k", 2)])
    assert compute(first) is compute(first)
    assert compute(second) is not compute(first)
    assert computed == [first, second]
    for number in range(20):
        compute(make_profile(activities=[kernel("k", number)]))
    compute(first)
    assert len(computed) == 23


def test_figures_of_a_real_trace(corpus: Callable[[str], str]) -> None:
    board = dashboard(load_one(corpus("seeds/000_eb78dec59201d654.txt")))
    assert (value_of(board, "gpu_ns"), value_of(board, "launches"), value_of(board, "kernels")) == (753_580_086, 20, 9)
    span, busy, idle = (value_of(board, name) for name in ("span_ns", "busy_ns", "idle_ns"))
    assert span == busy + idle  # type: ignore[operator]
    assert board.split["total_ns"].sum() == 753_580_086
    assert board.devices.select("name", "compute_capability", "sm_count").rows() == [("Tesla K40c", "3.5", 15)]


def test_work_without_a_launch_record_is_reported_above_one_percent(corpus: Callable[[str], str]) -> None:
    board = dashboard(load_one(corpus("kineto/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")))
    assert value_of(board, "unlaunched_ns") == 13_741_827
    (unlaunched,) = [item for item in board.performance if item.name == "unlaunched_ns"]
    assert unlaunched.source.startswith("30.10% of the GPU time: work launched before recording began")
    other_board = dashboard(load_one(corpus("kineto/gaunernst_bert-small-uncased__1016001.json.gz")))
    assert "unlaunched_ns" not in {item.name for item in other_board.performance}


def test_whole_graphs_are_counted_separately_from_kernels() -> None:
    profile = load_one(str(SAMPLES / "gpt_cudagraph.nsys.sqlite.gz"))
    board = dashboard(profile)
    assert (value_of(board, "launches"), value_of(board, "graph_launches"), value_of(board, "kernels")) == (
        205,
        120,
        14,
    )
    assert gpu_summary(profile)["kernels_launched"].to_list() == [205 + 120]
    other_board = dashboard(make_profile(activities=[kernel("k", 1)]))
    assert "graph_launches" not in {item.name for item in other_board.performance}


def test_the_span_is_unknown_if_only_some_sessions_have_start_times() -> None:
    timed_kernel = kernel("a", 100, session=0, start_ns=0, device=0)
    board = dashboard(make_profile(activities=[timed_kernel], summary=[summary_row("gpu", "b", 1, 50, session=1)]))
    facts = {item.name: item for item in board.performance}
    assert facts["gpu_ns"].value == 150
    assert [facts[name].value for name in ("span_ns", "busy_ns", "idle_ns", "busy_pct")] == [None] * 4
    assert facts["span_ns"].source == "start times in only 1 of 2 sessions"


def test_a_second_thread_waits_for_the_result_of_the_first() -> None:
    computed: list[int] = []
    has_started = threading.Event()

    @once_per_profile("activities")
    def compute_slowly(computed_profile: Profile) -> pl.DataFrame:
        computed.append(1)
        has_started.set()
        time.sleep(0.05)
        return computed_profile["activities"]

    given = make_profile(activities=[kernel("k", 1)])
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compute_slowly, given)
        assert has_started.wait(TIMEOUT_S)
        assert pool.submit(compute_slowly, given).result() is first.result()
    assert computed == [1]


def test_unclassified_work_is_listed_by_name() -> None:
    rows = [kernel(name, ns, kind="memset" if name.startswith("[") else "kernel") for name, ns in KERNELS_BY_GROUP]
    split = dashboard(make_profile(activities=[*rows, kernel("zzz_of_nobody", 1)])).split
    assert split.height == SPLIT + 1
    assert split.filter(split["group"] == "unknown")["total_ns"].to_list() == [1]
    assert split["total_ns"].sum() == 451


def test_gpu_time_by_use_adds_up() -> None:
    board = dashboard(
        make_profile(
            activities=[
                kernel("volta_h884gemm_128x64_nn", 50, device=0),
                kernel("volta_sgemm_128x32_nn", 30, device=0),
                copy("HtoD", 3),
                copy("HtoD", 4),
                kernel("[CUDA memset]", 2, kind="memset"),
            ],
            devices=[{"device": 0, "name": "Tesla V100-SXM2-16GB"}],
        )
    )
    assert board.gpu_uses.rows() == [
        ("Using tensor cores", 1, 50, pytest.approx(100 * 50 / 89)),
        ("All other kernels", 1, 30, pytest.approx(100 * 30 / 89)),
        ("Copies", 2, 7, pytest.approx(100 * 7 / 89)),
        ("Memsets", 1, 2, pytest.approx(100 * 2 / 89)),
    ]
    assert sum(board.gpu_uses["total_ns"]) == value_of(board, "gpu_ns")


def test_wall_time_and_iterations_are_listed_by_session() -> None:
    board = dashboard(make_profile(activities=[kernel_at(0, 10), {**kernel_at(50, 30), "session": 1}]))
    for name in ("wall_ns", "span_ns"):
        assert (value_of(board, name), fact_of(board, name).source) == (None, "each session has its own")
    assert (value_of(board, "busy_ns"), value_of(board, "idle_ns")) == (40, 0)


def test_advice_has_the_most_severe_findings_of_different_rules() -> None:
    rows = [kernel_at(1000 * index * 1000, 2000) for index in range(100)]
    result = advice(make_profile(activities=[*rows, *({**row, "session": 1} for row in rows)]))
    assert result.top_findings["rule"].n_unique() == result.top_findings.height > 0
    first = result.top_findings.row(0, named=True)
    assert result.guidance == f"Start here: {first['recommendation']}"
    assert result.top_findings["cause"].is_unique().all()
    assert "1 warning" in result.summary
    assert advice(make_profile()).guidance != ""
    assert advice(make_profile()).top_findings.is_empty()


def test_all_parts_use_the_gpu_of_the_gpu_option() -> None:
    parts = DashboardParts(*dashboard_parts(replace(load_one(str(SAMPLES / "gpt_summary.nvprof.log")), gpu="A100")))
    assert parts.board.devices.select("sm_count", "facts_source").rows() == [(108, "option")]


def test_iterations_without_times_are_counted() -> None:
    """Ascend's kernel_details.csv numbers the step of each kernel."""
    rows = [{**kernel_at(10 * number, 5), "iteration": number} for number in (19, 19, 20)]
    sessions = [{"session": 0, "format": "ascend-csv", "iteration_source": "the file's Step Id"}]
    board = dashboard(make_profile(sessions=sessions, activities=rows))
    names = ("iterations", "iteration_first", "iteration_last", "iteration_avg_ns")
    assert [value_of(board, name) for name in names] == [2, 19, 20, None]
    assert fact_of(board, "iteration_avg_ns").source == "no times of iterations recorded"


def test_sums_of_partly_unknown_values_say_so() -> None:
    rows = [summary_row("gpu", "gemm", 3, 500), summary_row("gpu", "add", None, 100)]
    facts = {fact.name: fact for fact in dashboard(make_profile(summary=rows)).performance}
    assert facts["launches"].value == 3
    assert facts["launches"].source == "the summary in the input; at least: unknown for 1 of 2 names"
    assert facts["gpu_ns"].source == "the summary in the input"
