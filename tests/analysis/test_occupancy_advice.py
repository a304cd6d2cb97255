"""Advice that raises the occupancy, and tails of waves."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import kernel, make_profile
from tests.corpus import corpus_file
from tests.profiles import load_one
from tui.analysis.launch_config import launch_config
from tui.analysis.occupancy import OccupancyAdvice, capabilities, occupancy, occupancy_advice

KB = 1024


def launch(name: str = "k", duration_ns: int = 100, **changes: Any) -> dict[str, Any]:
    shape = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_y", "block_z"), 1)
    shared_memory = {"static_shared_bytes": 0, "dynamic_shared_bytes": 0}
    return kernel(
        name, duration_ns, **{"device": 0, **shape, "block_x": 256, "registers": 0, **shared_memory, **changes}
    )


@pytest.mark.parametrize(
    ("config", "advice"),
    [
        # Registers and shared memory are both the limit: reducing one alone would not help.
        (
            ("3.5", 256, 79, 12820),
            (
                OccupancyAdvice(50.0, 4, registers=64, shared_bytes=12288),
                OccupancyAdvice(100.0, 8, registers=32, shared_bytes=6144),
            ),
        ),
        (
            ("8.0", 256, 106, 48 * KB),
            (
                OccupancyAdvice(37.5, 3, registers=80),
                OccupancyAdvice(100.0, 8, registers=32, shared_bytes=19 * KB + 512),
            ),
        ),
        (
            ("8.9", 256, 80, 0),
            (OccupancyAdvice(pytest.approx(200 / 3), 4, registers=64), OccupancyAdvice(100.0, 6, registers=40)),
        ),
        (
            ("7.0", 1024, 33, 0),
            (OccupancyAdvice(100.0, 2, registers=32), OccupancyAdvice(75.0, 2, threads_per_block=768)),
        ),
        # Small blocks: the SM holds no more of them.
        (("9.0", 32, 16, 0), (OccupancyAdvice(100.0, 32, threads_per_block=64),)),
        (("3.5", 96, 10, 0), (OccupancyAdvice(100.0, 16, threads_per_block=128),)),
        (("8.6", 1024, 32, 0), (OccupancyAdvice(100.0, 2, threads_per_block=768),)),
        (("7.5", 256, 32, 0), ()),
        (("1.0", 256, 32, 0), ()),
        # Such a launch does not fit at all.
        (("3.5", 2048, 32, 0), ()),
    ],
)
def test_advice_for_known_configurations(
    config: tuple[str, int, int, int], advice: tuple[OccupancyAdvice, ...]
) -> None:
    assert occupancy_advice(*config) == advice


@given(
    capability=st.sampled_from(sorted(set(capabilities()["compute_capability"]))),
    threads=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared_bytes=st.integers(0, 227 * KB),
)
def test_advice_reaches_its_occupancy_with_the_smallest_change(
    capability: str, threads: int, registers: int, shared_bytes: int
) -> None:
    def resident(threads: int, registers: int, shared_bytes: int) -> tuple[int | None, float | None]:
        changed = {"block_x": threads, "registers": registers, "static_shared_bytes": shared_bytes}
        device = {"device": 0, "compute_capability": capability}
        row = occupancy(make_profile(activities=[launch(**changed)], devices=[device])).row(0, named=True)
        return row["blocks_per_sm"], row["occupancy_pct"]

    current_pct = resident(threads, registers, shared_bytes)[1]
    for advice in occupancy_advice(capability, threads, registers, shared_bytes):
        assert current_pct is not None
        assert advice.occupancy_pct > current_pct
        block_threads = threads if advice.threads_per_block is None else advice.threads_per_block
        register_count = registers if advice.registers is None else advice.registers
        memory = shared_bytes if advice.shared_bytes is None else advice.shared_bytes
        assert resident(block_threads, register_count, memory) == (
            advice.blocks_per_sm,
            pytest.approx(advice.occupancy_pct),
        )
        if advice.registers is not None and register_count + 8 <= registers:
            assert (resident(block_threads, register_count + 8, memory)[0] or 0) < advice.blocks_per_sm
        if advice.shared_bytes is not None:
            assert (resident(block_threads, register_count, memory + 1)[0] or 0) < advice.blocks_per_sm


@pytest.mark.parametrize(
    ("blocks", "waves", "full", "tail", "achieved", "efficiency"),
    [
        # A K40c has 15 SMs, each holds 8 blocks of 256 threads: a wave is 120.
        (120, 1.0, 1, 0.0, 100.0, 100.0),
        (121, 121 / 120, 1, 50.0, 100.0, 100.0),
        (300, 2.5, 2, 100 / 3, 100.0, 100.0),
        (60, 0.5, 0, 0.0, 50.0, 100.0),
        (3, 3 / 120, 0, 0.0, 100 * 0.2 * 256 / 2048, 20.0),
    ],
)
def test_waves_tail_and_sm_efficiency(
    blocks: int, waves: float, full: int, tail: float, achieved: float, efficiency: float
) -> None:
    profile = make_profile(activities=[launch(grid_x=blocks)], devices=[{"device": 0, "name": "Tesla K40c"}])
    config = launch_config(profile, 0)
    assert (config.waves, config.full_waves) == (pytest.approx(waves), full)
    assert (config.tail_pct, config.achieved_pct) == (pytest.approx(tail), pytest.approx(achieved))
    assert config.sm_efficiency_pct == pytest.approx(efficiency)


def test_without_the_number_of_sms_only_the_occupancy_is_known() -> None:
    device = {"device": 0, "compute_capability": "8.6"}
    config = launch_config(make_profile(activities=[launch(grid_x=7)], devices=[device]), 0)
    assert config.occupancy_pct == 100.0
    assert (config.waves, config.full_waves, config.tail_pct) == (None, None, None)
    assert (config.achieved_pct, config.sm_efficiency_pct) == (None, None)


def test_occupancy_of_a_real_log() -> None:
    profile = load_one(corpus_file("seeds/000_eb78dec59201d654.txt"))
    rows = occupancy(profile)
    below_half_ns = rows.filter(pl.col("occupancy_pct") < 50)["total_ns"].sum()
    assert round(100 * below_half_ns / rows["total_ns"].sum(), 1) == 95.1
    kernel_name = pl.col("name").cast(pl.String)
    convolution = rows.filter(kernel_name.str.starts_with("cudnn_convolve_precomputed_sgemm")).row(0, named=True)
    assert (convolution["occupancy_pct"], convolution["limiter"]) == (37.5, "registers and shared memory")
    waves = rows.filter(kernel_name.str.contains("calc_bias_diff"))["waves"].to_list()
    assert [round(value, 2) for value in waves] == [0.4]
