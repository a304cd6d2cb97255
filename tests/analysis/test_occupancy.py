from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.profiles import load_one
from tui.analysis.devices import device_facts, find_gpu, known_gpus
from tui.analysis.kernels import launches
from tui.analysis.launch_config import launch_config
from tui.analysis.occupancy import capabilities, occupancy
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


def launch(**changes: Any) -> dict[str, Any]:
    shape = {"grid_x": 1, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1, "registers": 0}
    shared_memory = {"static_shared_bytes": 0, "dynamic_shared_bytes": 0}
    return kernel("k", 100, **{"device": 0, **shape, **shared_memory, **changes})


def launch_on(gpu: str | None, **changes: Any) -> Profile:
    return make_profile(activities=[launch(**changes)], devices=[{"device": 0, "name": gpu}])


KB = 1024


@pytest.mark.parametrize(
    ("gpu", "changes", "blocks", "pct", "limiter"),
    [
        # 8 x 32 threads, 79 registers, 12.520 KB: registers and shared memory run out together.
        ("Tesla K40c", {"registers": 79, "static_shared_bytes": 12820}, 3, 37.5, "registers and shared memory"),
        ("Tesla K40c", {"registers": 86, "static_shared_bytes": 6400}, 2, 25.0, "registers"),
        ("Tesla K40c", {"block_x": 128, "registers": 17, "static_shared_bytes": 512}, 16, 100.0, "warps and blocks"),
        ("Tesla K40c", {"block_x": 1, "registers": 8}, 16, 25.0, "blocks"),
        ("Tesla K40c", {"block_x": 32, "static_shared_bytes": 48 * KB}, 1, 1.5625, "shared memory"),
        # Nsight Compute prints 25% and a register limit of 2.
        ("NVIDIA A100-SXM4-40GB", {"registers": 106, "dynamic_shared_bytes": 48 * KB}, 2, 25.0, "registers"),
        ("NVIDIA A100-SXM4-40GB", {"dynamic_shared_bytes": 160 * KB}, 1, 12.5, "shared memory"),
        ("NVIDIA L4", {"registers": 80}, 3, 50.0, "registers"),
        ("NVIDIA L4", {"registers": 64}, 4, 100 * 4 * 8 / 48, "registers"),
        ("Tesla T4", {"block_x": 1024, "registers": 32}, 1, 100.0, "warps"),
        ("Tesla K80", {"registers": 86, "static_shared_bytes": 6400}, 5, 62.5, "registers"),
    ],
)
def test_known_occupancies(gpu: str, changes: dict[str, Any], blocks: int, pct: float, limiter: str) -> None:
    row = occupancy(launch_on(gpu, **changes)).row(0, named=True)
    assert (row["blocks_per_sm"], row["occupancy_pct"], row["limiter"]) == (blocks, pytest.approx(pct), limiter)
    assert row["occupancy_reason"] is None


@pytest.mark.parametrize(
    ("gpu", "changes", "reason"),
    [
        (None, {}, "unknown GPU: choose it with --gpu"),
        ("Graphics 3000", {}, "unknown GPU: choose it with --gpu"),
        ("Tesla K40c", {"block_x": None}, "block size not recorded"),
        ("Tesla K40c", {"block_x": -8, "block_y": -8}, "block size not recorded"),
        ("Tesla K40c", {"registers": None}, "registers per thread not recorded"),
        ("Tesla K40c", {"dynamic_shared_bytes": None}, "shared memory not recorded"),
        ("Tesla K40c", {"block_x": 2048}, "launch configuration exceeds the limits of compute capability 3.5"),
        ("Tesla K40c", {"registers": 256}, "launch configuration exceeds the limits of compute capability 3.5"),
        ("GTX 680", {"registers": 64}, "launch configuration exceeds the limits of compute capability 3.0"),
        (
            "Tesla K40c",
            {"static_shared_bytes": 48 * KB + 1},
            "launch configuration exceeds the limits of compute capability 3.5",
        ),
        (
            "Jetson TX2",
            {"block_x": 1024, "registers": 64},
            "launch configuration exceeds the limits of compute capability 6.2",
        ),
    ],
)
def test_unknown_occupancy_is_null_with_the_reason(gpu: str | None, changes: dict[str, Any], reason: str) -> None:
    row = occupancy(launch_on(gpu, **changes)).row(0, named=True)
    assert row["occupancy_reason"] == reason
    assert (row["blocks_per_sm"], row["occupancy_pct"], row["limiter"], row["waves"]) == (None, None, None, None)


def test_waves_need_the_number_of_sms() -> None:
    waves = occupancy(launch_on("Tesla K40c", grid_x=96, block_x=128, registers=17))["waves"].to_list()
    assert waves == [pytest.approx(96 / (16 * 15))]
    invalid_grid = occupancy(launch_on("Tesla K40c", grid_x=-5)).row(0, named=True)
    assert [invalid_grid[name] for name in ("waves", "achieved_pct", "sm_efficiency_pct")] == [None, None, None]
    row = occupancy(launch_on("NVIDIA GeForce RTX 3080", grid_x=96)).row(0, named=True)
    assert (row["waves"], row["occupancy_pct"]) == (None, 100.0)


@pytest.mark.parametrize(
    ("blocks", "full", "tail_pct"), [(96, 0, 0.0), (240, 1, 0.0), (480, 2, 0.0), (481, 2, 100 / 3), (720, 3, 0.0)]
)
def test_a_tail_is_a_partial_wave_after_full_waves(blocks: int, full: int, tail_pct: float) -> None:
    row = occupancy(launch_on("Tesla K40c", grid_x=blocks, block_x=128, registers=17)).row(0, named=True)
    assert (row["waves"], row["full_waves"]) == (pytest.approx(blocks / 240), full)
    assert row["tail_pct"] == pytest.approx(tail_pct)


def test_each_configuration_is_computed_once() -> None:
    profile = make_profile(
        activities=[launch(), launch(), launch(registers=255), copy("HtoD", 3, device=0)],
        devices=[{"device": 0, "name": "Tesla K40c"}],
    )
    table = occupancy(profile)
    assert table.select("calls", "total_ns", "registers", "occupancy_pct").rows() == [
        (2, 200, 0, 100.0),
        (1, 100, 255, 12.5),
    ]
    assert launches(profile, session=0, name="k")["occupancy_pct"].to_list() == [100.0, 100.0, 12.5]
    assert launches(profile, session=0, name="[CUDA memcpy HtoD]")["occupancy_pct"].to_list() == [None]


def test_the_gpu_option_applies_if_the_log_names_none() -> None:
    profile = launch_on(None, registers=86, static_shared_bytes=6400)
    assert launches(replace(profile, gpu="K40c"), session=0, name="k")["occupancy_pct"].to_list() == [25.0]
    assert device_facts(replace(profile, gpu="K40c"))["facts_source"].to_list() == ["option"]


def test_launch_config_has_all_known_facts() -> None:
    profile = launch_on(
        "Tesla K40c", grid_x=6, grid_y=218, grid_z=128, block_x=16, block_y=16, registers=79, stream=13, line=74
    )
    config = launch_config(profile, 0)
    assert (config.grid, config.block, config.blocks) == ((6, 218, 128), (16, 16, 1), 167_424)
    assert (config.threads_per_block, config.threads) == (256, 42_860_544)
    assert (config.device_name, config.compute_capability, config.sm_count) == ("Tesla K40c", "3.5", 15)
    assert (config.facts_source, config.stream, config.line) == ("table", 13, 74)
    assert config.limits == (("warps", 8), ("blocks", 16), ("registers", 3), ("shared memory", None))
    assert (config.occupancy_pct, config.limiter, config.occupancy_reason) == (37.5, "registers", None)


def test_launch_config_of_a_copy_has_the_reason_for_no_occupancy() -> None:
    config = launch_config(make_profile(activities=[copy("HtoD", 5, size_bytes=10)]), 0)
    assert (config.grid, config.threads, config.occupancy_pct, config.size_bytes) == (None, None, None, 10)
    assert config.occupancy_reason == "not applicable: a memcpy occupies no SM"


def test_launch_config_of_a_missing_launch_is_an_error() -> None:
    with pytest.raises(KeyError):
        launch_config(make_profile(), 0)


@given(
    capability=st.sampled_from(sorted(set(capabilities()["compute_capability"]))),
    threads=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared_bytes=st.integers(0, 227 * KB),
)
def test_more_resources_per_block_never_raise_the_number_of_blocks(
    capability: str, threads: int, registers: int, shared_bytes: int
) -> None:
    def blocks_with(**added: int) -> int:
        values = {"block_x": threads, "registers": registers, "static_shared_bytes": shared_bytes}
        changed = {name: value + added.get(name, 0) for name, value in values.items()}
        device = {"device": 0, "compute_capability": capability}
        row = occupancy(make_profile(activities=[launch(**changed)], devices=[device])).row(0, named=True)
        assert row["occupancy_pct"] is None or 0 < row["occupancy_pct"] <= 100
        return row["blocks_per_sm"] or 0

    resident = blocks_with()
    assert blocks_with(registers=8) <= resident
    assert blocks_with(static_shared_bytes=KB) <= resident
    assert blocks_with(block_x=32) <= resident


@pytest.mark.parametrize(
    ("name", "capability", "sms"),
    [
        ("Tesla K40c (0)", "3.5", 15),
        ("TITAN Xp (0)", "6.1", 30),
        ("TITAN X (Pascal)", "6.1", 28),
        ("GeForce GTX TITAN X", "5.2", 24),
        ("Tesla V100-SXM2-16GB", "7.0", 80),
        ("Tesla P100-PCIE-16GB (1)", "6.0", 56),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108),
        ("NVIDIA A100 80GB PCIe", "8.0", 108),
        ("NVIDIA H100 80GB HBM3", "9.0", 132),
        ("NVIDIA H100 PCIe", "9.0", 114),
        ("NVIDIA GeForce RTX 4090 D", "8.9", 114),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", 142),
        ("Quadro RTX 6000", "7.5", 72),
        ("GeForce RTX 2080 SUPER", "7.5", 48),
        # Cut at 15 characters: only the common facts of all GPUs with this beginning are known.
        ("GeForce GTX 107", "6.1", None),
        ("GeForce GTX 980", "5.2", None),
        ("Tesla V100-SXM2", "7.0", 80),
        ("NVIDIA A100-SXM", "8.0", 108),
        ("GeForce GTX 770", "3.0", 8),
    ],
)
def test_gpus_are_known_by_name(name: str, capability: str, sms: int | None) -> None:
    gpu = find_gpu(name)
    assert gpu is not None
    assert (gpu.compute_capability, gpu.sm_count) == (capability, sms)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce ",
        "NVIDIA GeForce RTX 3070 Laptop GPU",
        "GeForce GTX 1070 with Max-Q Design",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "TITAN X",
        "GeForce",
        "",
        "Tesla",
        "GeForce GTX 1234",
        "[red]K40c[/]",
    ],
)
def test_an_ambiguous_gpu_name_is_unknown(name: str) -> None:
    assert find_gpu(name) is None


def test_every_known_gpu_finds_itself_and_its_limits() -> None:
    limits = set(capabilities()["compute_capability"])
    for gpu in known_gpus():
        matched = find_gpu(f"NVIDIA {gpu.name} (0)")
        assert matched is not None
        assert (matched.compute_capability, matched.sm_count) == (gpu.compute_capability, gpu.sm_count)
        assert gpu.compute_capability in limits
        assert gpu.confidence in ("a", "b", "c")


def test_recorded_device_properties_are_kept() -> None:
    device = {"device": 0, "name": "Tesla K40c", "compute_capability": "9.0", "sm_count": 7}
    facts = device_facts(make_profile(devices=[device], activities=[launch(device=None)]))
    assert facts.select("device", "compute_capability", "sm_count", "facts_source").rows() == [
        (None, None, None, "unknown"),
        (0, "9.0", 7, "file"),
    ]


def test_an_unknown_gpu_option_is_an_error_with_suggestions() -> None:
    with pytest.raises(ProftuiError) as error:
        device_facts(replace(make_profile(), gpu="RTX 3099"))
    assert error.value.message == "--gpu RTX 3099: unknown GPU"
    assert "RTX 3090" in error.value.hint


def test_time_below_half_occupancy_in_a_real_log(corpus: Callable[[str], str]) -> None:
    table = occupancy(load_one(corpus("seeds/000_eb78dec59201d654.txt")))
    below_half_ns = table.filter(pl.col("occupancy_pct") < 50)["total_ns"].sum()
    assert round(100 * below_half_ns / table["total_ns"].sum(), 1) == 95.1
