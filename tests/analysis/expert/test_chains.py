"""Repeated chains of kernels agree with counting every chain."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.expert.profiles import ADD, MS, NCCL, US, launch, trace_of
from tests.analysis.expert.rule_verdicts import verdict_of
from tui.analysis.expert.case import KernelSequence
from tui.analysis.expert.rule import Clean, Found
from tui.analysis.expert.rules.short_kernels import LENGTHS, worst_chain
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import Timeline

BUSY, REPEATS, GAP = 0.5, 5, 110


def random_sequence(seed: int, kernels: int, names: int) -> KernelSequence:
    """Return random kernels with this number of names, mostly in repeated steps, with gaps."""
    random = np.random.default_rng(seed)
    step = random.integers(0, names, 40)
    name_ids = np.where(random.random(kernels) < 0.9, np.resize(step, kernels), random.integers(0, names, kernels))
    durations, waits = random.integers(1, 50, kernels), random.integers(0, 120, kernels)
    starts = np.cumsum(durations + waits) - durations
    timeline = Timeline(0, 0, 1, 0, starts, starts + durations)
    kinds = (random.random(kernels) < 0.02).astype(np.int8)
    return KernelSequence(timeline, np.arange(kernels), name_ids.astype(np.uint32), kinds)


def max_chain_idle_ns(sequence: KernelSequence) -> int:
    """Return the largest idle time in repeats of a chain without overlap, over the chains of all lengths."""
    names, starts, ends = (values.tolist() for values in (sequence.names, sequence.starts, sequence.ends))
    is_communication = sequence.is_communication.tolist()
    max_idle_ns = 0
    for length in LENGTHS:
        idle: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for index in range(len(names) - length + 1):
            kernel_ns = sum(ends[k] - starts[k] for k in range(index, index + length))
            total_ns = ends[index + length - 1] - starts[index]
            waits = [starts[k + 1] - ends[k] for k in range(index, index + length - 1)]
            if kernel_ns < BUSY * total_ns and max(waits) < GAP and not any(is_communication[index : index + length]):
                idle.setdefault(tuple(names[index : index + length]), []).append((index, total_ns - kernel_ns))
        repeated = [occurrences for occurrences in idle.values() if len(occurrences) > REPEATS]
        if not repeated:
            continue
        occurrences = max(repeated, key=lambda places_of_chain: sum(idle_ns for _, idle_ns in places_of_chain))
        separate, next_index = [], -1
        for index, idle_ns in occurrences:
            if index >= next_index:
                separate.append(idle_ns)
                next_index = index + length
        if len(separate) > REPEATS and sum(idle_ns for _, idle_ns in occurrences) > max_idle_ns:
            max_idle_ns = max(max_idle_ns, sum(separate))
    return max_idle_ns


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("kernels", "names"), [(2000, 8), (2000, 500), (30, 2)])
def test_the_worst_chain_agrees_with_counting_all_chains(seed: int, kernels: int, names: int) -> None:
    sequence = random_sequence(seed, kernels, names)
    chain = worst_chain(sequence, interval_union(sequence.timeline.starts, sequence.timeline.ends), BUSY, REPEATS, GAP)
    assert (chain.idle_ns if chain is not None else 0) == max_chain_idle_ns(sequence)


def test_the_random_sequences_contain_chains() -> None:
    sequence = random_sequence(0, 2000, 8)
    busy = interval_union(sequence.timeline.starts, sequence.timeline.ends)
    assert worst_chain(sequence, busy, BUSY, REPEATS, GAP) is not None


def test_time_with_work_of_another_stream_is_not_idle() -> None:
    """A collective runs at the same time as ten kernels of 5 us that are 15 us apart: the GPU is not idle."""
    steps = [launch(step * 3 * MS + n * 20 * US, 5 * US, ADD) for step in range(10) for n in range(10)]
    communication = [launch(step * 3 * MS, 500 * US, NCCL, stream=9) for step in range(10)]
    assert isinstance(verdict_of("P11", trace_of(*steps)), Found)
    assert isinstance(verdict_of("P11", trace_of(*steps, *communication)), Clean)
    without_communication, with_communication = (
        verdict_of("A7", trace_of(*steps)),
        verdict_of("A7", trace_of(*steps, *communication)),
    )
    assert isinstance(without_communication, Found)
    assert without_communication.cost_ns == 10 * 9 * 15 * US
    assert isinstance(with_communication, Clean)
    assert with_communication.reason == "the GPU idles for only 0 ns between the launches of such runs"
