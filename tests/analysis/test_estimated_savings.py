"""Estimated savings without some work or at half its time, and the command that profiles a launch."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import Row, kernel, make_profile
from tests.corpus import corpus_file
from tests.profiles import load_one
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.gpu_time.overlap import estimated_savings
from tui.analysis.launch_config import PROGRAM, profiling_command

if TYPE_CHECKING:
    from tui.model.profile import Profile


def kernel_at(start_ns: int, duration_ns: int, name: str = "k", **fields: Any) -> Row:
    return kernel(name, duration_ns, start_ns=start_ns, **{"device": 0, "stream": 7, **fields})


def activity_numbers(profile: Profile, name: str) -> pl.Series:
    return profile["activities"].filter(pl.col("name") == name)["activity"]


def test_only_time_without_other_work_counts() -> None:
    profile = make_profile(
        activities=[
            kernel_at(0, 100, "a"),
            kernel_at(40, 20, "b", stream=8),
            kernel_at(100, 50, "b", stream=8),
            kernel_at(120, 50, "a"),
            kernel_at(300, 10, "a"),
        ]
    )
    (b,) = estimated_savings(profile, activity_numbers(profile, "b"))
    # b at 40 is hidden; b at 100 is alone for 20, until a begins.
    assert (b.launches, b.time_ns, b.alone_ns, b.busy_ns, b.span_ns, b.stream) == (2, 70, 20, 180, 310, 8)
    # At half its time it would end at 125, while a runs.
    assert b.half_ns == 0
    (a,) = estimated_savings(profile, activity_numbers(profile, "a"))
    assert (a.launches, a.time_ns) == (3, 160)
    # Without 0 to 40 and 60 to 100, 150 to 170, 300 to 310.
    assert a.alone_ns == 110
    # At half its time a takes 0 to 50, 120 to 145 and 300 to 305; b still takes 40 to 60 and 100 to 150.
    assert a.half_ns == 180 - (60 + 50 + 5)


def test_savings_are_reported_per_gpu_and_per_iteration() -> None:
    profile = make_profile(
        activities=[
            kernel_at(0, 10, iteration=3),
            kernel_at(20, 30, iteration=4),
            kernel_at(60, 5, "other", iteration=5),
            kernel_at(0, 99, device=1),
            kernel_at(0, 1000, session=1),
        ]
    )
    savings = estimated_savings(profile, pl.Series([0, 1, 3], dtype=pl.UInt32))
    assert [(saving.device, saving.alone_ns, saving.half_ns, saving.iterations) for saving in savings] == [
        (1, 99, 49, None),
        (0, 40, 20, 2),
    ]
    assert [(saving.alone_per_iteration_ns, saving.half_per_iteration_ns) for saving in savings] == [
        (None, None),
        (20.0, 10.0),
    ]


def test_savings_per_iteration_count_only_launches_in_iterations() -> None:
    profile = make_profile(
        activities=[
            kernel_at(0, 1000),
            kernel_at(2000, 10, iteration=3),
            kernel_at(2005, 20, "other"),
            kernel_at(3000, 30, iteration=4),
        ]
    )
    (saving,) = estimated_savings(profile, activity_numbers(profile, "k"))
    assert (saving.alone_ns, saving.half_ns, saving.iterations) == (1035, 515, 2)
    assert (saving.alone_per_iteration_ns, saving.half_per_iteration_ns) == (17.5, 7.5)


def test_without_start_times_there_are_no_figures() -> None:
    profile = make_profile(activities=[kernel("k", 5), kernel("k", None, start_ns=4)])
    assert estimated_savings(profile, activity_numbers(profile, "k")) == ()


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from("abc"), st.integers(0, 1)),
        min_size=1,
        max_size=15,
    )
)
def test_savings_are_bounded(rows: list[tuple[int, int, str, int]]) -> None:
    profile = make_profile(
        activities=[kernel_at(start, duration_ns, name, device=device) for start, duration_ns, name, device in rows]
    )
    busy = dict(busy_time(profile).select("device", "busy_ns").rows())
    for name in {row[2] for row in rows}:
        for saving in estimated_savings(profile, activity_numbers(profile, name)):
            assert 0 <= saving.half_ns <= saving.alone_ns <= min(saving.time_ns, saving.busy_ns)
            assert saving.busy_ns == busy[saving.device] <= saving.span_ns
            # Count single instants.
            gpu_rows = [row for row in rows if row[3] == saving.device]
            own_instants, other_instants = (
                {
                    instant
                    for start, duration_ns, row_name, _ in gpu_rows
                    if (row_name == name) is is_own
                    for instant in range(start, start + duration_ns)
                }
                for is_own in (True, False)
            )
            assert saving.alone_ns == len(own_instants - other_instants)
    for saving in estimated_savings(profile, profile["activities"]["activity"]):
        assert saving.alone_ns == saving.busy_ns


def test_savings_of_a_real_log_are_bounded() -> None:
    profile = load_one(corpus_file("seeds/000_eb78dec59201d654.txt"))
    (all_work,) = estimated_savings(profile, profile["activities"]["activity"])
    assert all_work.alone_ns == all_work.busy_ns
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    (saving,) = estimated_savings(profile, kernels["activity"])
    assert saving.alone_ns <= saving.time_ns == kernels["duration_ns"].sum()


GEMM = "void gemm<float, 4>(float*)"
HALF = "void gemm<half, 8>(half*)"
A100 = {"device": 0, "name": "NVIDIA A100-SXM4-40GB"}


def test_launch_numbers_count_launches_of_the_same_function() -> None:
    profile = make_profile(
        activities=[
            kernel_at(0, 1, GEMM),
            kernel_at(5, 1, "other"),
            kernel_at(10, 1, HALF),
            kernel_at(20, 1, GEMM),
            kernel_at(30, 1, GEMM, session=1),
        ],
        devices=[A100],
        sessions=[{"session": 0, "format": "nvprof-text", "command": "python train.py --lr 0.1"}, {"session": 1}],
    )
    result = profiling_command(profile, 3)
    assert result.command == (
        "ncu --set full --kernel-name 'regex:(^|:)gemm$' --launch-skip 2 --launch-count 1 python train.py --lr 0.1"
    )
    assert result.note == "launches are counted by start time on the GPU"
    last = profiling_command(profile, 4).command
    assert last is not None
    assert last.endswith("--launch-skip 0 --launch-count 1 ./app")


def test_launches_are_numbered_in_the_order_of_their_calls() -> None:
    rows = [
        kernel_at(0, 1, "k", correlation=9),
        kernel_at(5, 1, "k", correlation=4),
        kernel_at(7, 1, "k", correlation=6, device=1),
    ]
    profile = make_profile(activities=rows, devices=[A100], sessions=[{"session": 0, "format": "nsys-sqlite"}])
    result = profiling_command(profile, 0)
    assert result.command == (
        "ncu --set full --devices 0 --kernel-name 'regex:(^|:)k$' --launch-skip 1 --launch-count 1 ./app"
    )
    assert result.note == (
        "launches are counted in call order, from the start of the recording; add the launches before it"
    )


def test_kernels_of_another_function_in_the_same_call_do_not_count() -> None:
    graph = [kernel_at(2, 1, "of_a_graph", correlation=5), kernel_at(3, 1, "of_a_graph", correlation=5)]
    profile = make_profile(
        activities=[kernel_at(0, 1, correlation=9), *graph, kernel_at(5, 1, correlation=4)], devices=[A100]
    )
    assert "--launch-skip 1 " in (profiling_command(profile, 0).command or "")
    assert profiling_command(profile, 0).note.startswith("launches are counted in call order")
    assert "--launch-skip 1 " in (profiling_command(profile, 2).command or "")
    assert profiling_command(profile, 2).note.startswith("launches are counted by start time on the GPU")


def test_gpus_that_nsight_compute_does_not_support() -> None:
    kepler = make_profile(activities=[kernel_at(0, 1), kernel_at(1, 1)], devices=[{"device": 0, "name": "Tesla K40c"}])
    assert profiling_command(kepler, 1).command == "nvprof --kernels '::k$:2' --metrics all ./app"
    assert profiling_command(kepler, 1).note.startswith("Nsight Compute does not support compute capability 3.5; ")
    amd = make_profile(activities=[kernel_at(0, 1)], devices=[{"device": 0, "name": "AMD Instinct MI300X"}])
    assert profiling_command(amd, 0).command is None
    assert profiling_command(amd, 0).note == "Nsight Compute profiles only GPUs of NVIDIA, not of AMD"


def test_copies_have_no_command_and_missing_launches_are_errors() -> None:
    profile = make_profile(activities=[{"kind": "memcpy", "name": "[CUDA memcpy HtoD]", "duration_ns": 3}])
    assert profiling_command(profile, 0).command is None
    with pytest.raises(KeyError):
        profiling_command(profile, 7)


@pytest.mark.parametrize(
    "command",
    ["./app; rm -rf ~", "$(reboot)", "a `b` | c && d", "it's", "a\nb", "x" * 500, "", "[bold]x[/]", "A=1 ./app"],
)
def test_a_hostile_command_line_is_quoted(command: str) -> None:
    profile = make_profile(activities=[kernel_at(0, 1)], sessions=[{"session": 0, "command": command}])
    result = profiling_command(profile, 0).command
    assert result is not None
    arguments = shlex.split(result)
    assert shlex.join(arguments) == result
    assert arguments[:5] == ["ncu", "--set", "full", "--kernel-name", "regex:(^|:)k$"]
    if "\n" in command or len(command) in (0, 500):
        assert arguments[9:] == [PROGRAM]


@given(st.text(max_size=40))
def test_any_name_is_quoted_and_matches_itself(name: str) -> None:
    profile = make_profile(activities=[kernel_at(0, 1, name)], devices=[A100])
    result = profiling_command(profile, 0)
    if result.command is None:
        assert result.note == "the launch has no recorded name"
        return
    assert "\n" not in result.command
    arguments = shlex.split(result.command)
    assert arguments[5:] == ["--launch-skip", "0", "--launch-count", "1", PROGRAM]
    re.compile(arguments[4].removeprefix("regex:"))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, float>(int, float)", "vectorized_elementwise_kernel"),
        ("volta_sgemm_128x32_nn", "volta_sgemm_128x32_nn"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>(int)", "Kernel2"),
        ("_ZN2at6native13reduce_kernelILi512EEEvT_", "reduce_kernel"),
    ],
)
def test_the_pattern_matches_the_function_name(name: str, base: str) -> None:
    profile = make_profile(activities=[kernel_at(0, 1, name)], devices=[A100])
    result = profiling_command(profile, 0).command
    assert result is not None
    pattern = shlex.split(result)[4].removeprefix("regex:")
    for text in (base, f"a::{base}"):
        assert re.search(pattern, text)
    assert not re.search(pattern, f"x{base}")
