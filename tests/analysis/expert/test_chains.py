"""Chains of kernels that come again and again are those that counting every chain finds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import ADD, MS, NCCL, US, run, traced
from tui.analysis.expert.case import KernelSequence
from tui.analysis.expert.rule import Clean, Found
from tui.analysis.expert.rules.short_kernels import LENGTHS, worst_chain
from tui.analysis.gpu_time.interval_sets import interval_union
from tui.analysis.gpu_time.timelines import Timeline

BUSY, REPEATS, GAP = 0.5, 5, 110


def stream(seed: int, kernels: int, names: int) -> KernelSequence:
    """Kernels of so many names, many of them in steps that repeat, with waits between."""
    draw = np.random.default_rng(seed)
    step = draw.integers(0, names, 40)
    found = np.where(draw.random(kernels) < 0.9, np.resize(step, kernels), draw.integers(0, names, kernels))
    lengths, waits = draw.integers(1, 50, kernels), draw.integers(0, 120, kernels)
    starts = np.cumsum(lengths + waits) - lengths
    line = Timeline(0, 0, 1, 0, starts, starts + lengths)
    kinds = (draw.random(kernels) < 0.02).astype(np.int8)
    return KernelSequence(line, np.arange(kernels), found.astype(np.uint32), kinds)


def dearest(sequence: KernelSequence) -> int:
    """The most idle time of repeats of a chain that do not overlap, of the dearest chain of each length."""
    names, starts, ends = (values.tolist() for values in (sequence.names, sequence.starts, sequence.ends))
    is_communication = sequence.is_communication.tolist()
    best = 0
    for length in LENGTHS:
        idle: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for at in range(len(names) - length + 1):
            own = sum(ends[k] - starts[k] for k in range(at, at + length))
            taken = ends[at + length - 1] - starts[at]
            waits = [starts[k + 1] - ends[k] for k in range(at, at + length - 1)]
            if own < BUSY * taken and max(waits) < GAP and not any(is_communication[at : at + length]):
                idle.setdefault(tuple(names[at : at + length]), []).append((at, taken - own))
        often = [places for places in idle.values() if len(places) > REPEATS]
        if not often:
            continue
        places = max(often, key=lambda found: sum(time for _, time in found))
        apart, free = [], -1
        for at, time in places:
            if at >= free:
                apart.append(time)
                free = at + length
        if len(apart) > REPEATS and sum(time for _, time in places) > best:
            best = max(best, sum(apart))
    return best


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("kernels", "names"), [(2000, 8), (2000, 500), (30, 2)])
def test_the_worst_chain_is_that_of_counting_all(seed: int, kernels: int, names: int) -> None:
    sequence = stream(seed, kernels, names)
    chain = worst_chain(sequence, interval_union(sequence.timeline.starts, sequence.timeline.ends), BUSY, REPEATS, GAP)
    assert (chain.idle_ns if chain is not None else 0) == dearest(sequence)


def test_some_chain_is_found() -> None:
    sequence = stream(0, 2000, 8)
    busy = interval_union(sequence.timeline.starts, sequence.timeline.ends)
    assert worst_chain(sequence, busy, BUSY, REPEATS, GAP) is not None


def test_what_another_stream_fills_is_no_waiting_of_the_gpu() -> None:
    """Ten kernels of 5 us, 15 us apart, while a collective runs beside all of them: nothing is idle."""
    steps = [run(step * 3 * MS + n * 20 * US, 5 * US, ADD) for step in range(10) for n in range(10)]
    communication = [run(step * 3 * MS, 500 * US, NCCL, stream=9) for step in range(10)]
    assert isinstance(ask("P11", traced(*steps)), Found)
    assert isinstance(ask("P11", traced(*steps, *communication)), Clean)
    alone, beside = ask("A7", traced(*steps)), ask("A7", traced(*steps, *communication))
    assert isinstance(alone, Found)
    assert alone.cost_ns == 10 * 9 * 15 * US
    assert isinstance(beside, Clean)
    assert beside.reason == "the GPU idles for only 0 ns between the launches of such runs"
