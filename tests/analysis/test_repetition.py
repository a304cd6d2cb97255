"""Finding the step that a sequence of launches repeats."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import shared_file
from tests.profiles import load_one
from tui.analysis.iterations.repeating_pattern import Repetition, find_loops, find_repetition


def find_in(names: list[int], gaps: dict[int, int] | None = None) -> Repetition | None:
    """Return the repetition of launches of 5 ns each, 1 ns apart or more as ``gaps`` says."""
    gaps_ns = np.ones(len(names), np.int64)
    for index, gap in (gaps or {}).items():
        gaps_ns[index] = gap
    start = np.cumsum(gaps_ns) + 5 * np.arange(len(names))
    return find_repetition(np.array(names, np.int64), start, start + 5)


STEP = [0, 1, 2, 2, 3, 1, 4]


def test_whole_steps() -> None:
    repetition = find_in(STEP * 5)
    assert repetition is not None
    assert (repetition.period, repetition.first, repetition.count, repetition.match) == (7, 0, 5, 1.0)
    assert repetition.boundaries.tolist() == [0, 7, 14, 21, 28, 35]


def test_a_partial_step_at_the_beginning_is_not_counted() -> None:
    repetition = find_in(STEP[4:] + STEP * 4)
    assert repetition is not None
    assert (repetition.first, repetition.count) == (3, 4)


def test_warm_up_and_tail_are_excluded_and_steps_begin_after_the_longest_gap() -> None:
    names = [9, 8, 7] + STEP[5:] + STEP * 4 + [6, 9]
    boundaries = range(5, 5 + 7 * 4, 7)
    repetition = find_in(names, dict.fromkeys(boundaries, 100))
    assert repetition is not None
    assert (repetition.period, repetition.first, repetition.count, repetition.gap_ns) == (7, 5, 4, 100)


@given(st.integers(2, 6), st.integers(3, 9))
def test_steps_of_few_kernels_are_found(length: int, rounds: int) -> None:
    repetition = find_in(list(range(length)) * rounds)
    assert repetition is not None
    assert (repetition.period, repetition.first, repetition.count) == (length, 0, rounds)


def test_the_step_is_found_instead_of_its_layers() -> None:
    step = [5] + [0, 1, 2, 3] * 12 + [6]
    repetition = find_in(step * 6)
    assert repetition is not None
    assert (repetition.period, repetition.count) == (50, 6)


def loops_in(names: list[int]) -> list[tuple[int, list[int]]]:
    """Return period and starts of each loop of launches of 5 ns each, 1 ns apart."""
    start = 6 * np.arange(len(names))
    return [(loop.period, loop.starts.tolist()) for loop in find_loops(np.array(names, np.int64), start, start + 5)]


def test_a_step_of_equal_pairs_is_found_by_its_end() -> None:
    names = ([0, 1] * 800 + [2, 3, 4, 3, 5]) * 4
    repetition = find_in(names)
    assert repetition is not None
    assert (repetition.period, repetition.first, repetition.count, repetition.match) == (1605, 0, 4, 1.0)
    pairs = [1605 * step + 2 * pair for step in range(4) for pair in range(800)]
    assert loops_in(names) == [(1605, [0, 1605, 3210, 4815]), (2, pairs)]


def test_three_nested_loops() -> None:
    batch = [0, 1, 2] * 60 + [3]
    epoch = batch * 20 + [4, 5]
    rounds = [(period, len(starts)) for period, starts in loops_in(epoch * 3)]
    assert rounds == [(3622, 3), (181, 60), (3, 3600)]


def test_an_interrupted_outer_loop_continues_after_the_interruption() -> None:
    batch = [0, 1, 2] * 60 + [3]
    names = batch * 20 + [4, 5] + batch * 30
    repetition = find_in(names)
    assert repetition is not None
    assert repetition.interrupted is not None
    assert repetition.interrupted.starts.tolist() == [181 * index + 2 * (index >= 20) for index in range(50)]
    assert [(period, len(starts)) for period, starts in loops_in(names)] == [(181, 50), (3, 3000)]


def test_irregular_interruptions_do_not_form_a_loop() -> None:
    names = [0, 1, 2, 3, 4, 5] * 400
    for index in (131, 700, 1003, 1500, 1777, 2111):
        names[index] = 9
    repetition = find_in(names)
    assert repetition is not None
    assert (repetition.period, repetition.count) == (6, 400)


def test_layers_are_a_loop_within_the_step() -> None:
    assert [(period, len(starts)) for period, starts in loops_in(([5] + [0, 1, 2, 3] * 12 + [6]) * 6)] == [
        (50, 6),
        (4, 72),
    ]


@pytest.mark.parametrize(
    "names",
    [[], [0], [0] * 50, list(range(60)), STEP + STEP, [0, 1, 0, 2, 1, 3, 4, 5]],
    ids=["nothing", "one", "one kernel", "all different", "short and twice", "chance"],
)
def test_launches_without_repetition(names: list[int]) -> None:
    assert find_in(names) is None


@given(st.permutations(range(40)), st.integers(2, 40), st.integers(4, 12), st.integers(0, 39))
def test_a_step_is_found_from_any_start_of_the_recording(
    kernels: list[int], length: int, rounds: int, skipped: int
) -> None:
    skipped %= length
    repetition = find_in((kernels[:length] * rounds)[skipped:])
    assert repetition is not None
    first = (length - skipped) % length
    count = rounds - (skipped > 0)
    assert (repetition.period, repetition.first, repetition.count) == (length, first, count)


@given(st.lists(st.integers(0, 5), max_size=200))
def test_found_patterns_repeat(names: list[int]) -> None:
    repetition = find_in(names)
    if repetition is None:
        return
    starts = repetition.boundaries.tolist()
    assert 0 <= starts[0] < starts[-1] <= len(names)
    rounds = [names[start:end] for start, end in pairwise(starts)]
    matches = sum(
        name == next_name for first, second in pairwise(rounds) for name, next_name in zip(first, second, strict=True)
    )
    assert repetition.match == pytest.approx(matches / (repetition.period * (repetition.count - 1)))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("bench/gpt_long.gputrace.txt.xz", 120),
        ("corpus/nvprof_rendered/resnet50_amp.gputrace.txt", 5),
        ("corpus/nvprof_rendered/ddp_rank0.gputrace.txt", 4),
        ("corpus/nvprof_rendered/gpt_cudagraph.gputrace.txt", 90),
    ],
)
def test_steps_of_recordings_without_recorded_steps(name: str, steps: int) -> None:
    work = load_one(shared_file(name))["activities"]
    stream = work["stream"].mode(maintain_order=True)[0]
    stream_work = work.filter(pl.col("stream") == stream).sort("start_ns")
    codes = stream_work["name"].cast(pl.String).rank("dense").cast(pl.Int64) - 1
    end = stream_work["start_ns"] + stream_work["duration_ns"]
    repetition = find_repetition(codes.to_numpy(), stream_work["start_ns"].to_numpy(), end.to_numpy())
    assert repetition is not None
    assert (repetition.count, repetition.match) == (steps, 1.0)


def test_a_pattern_that_never_repeats_within_a_round_is_not_a_loop() -> None:
    codes = np.array([2, 1, 2, 1, 2, 0, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2], np.int64)
    start = 10 * np.arange(len(codes))
    assert find_loops(codes, start, start + 5) == []
