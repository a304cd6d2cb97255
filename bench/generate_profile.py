"""Generates the frames of a training run of any length, as from a loader: launches, copies and memsets with calls.

Names, shapes and order of the work repeat from step to step; durations and gaps vary.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tui.model.profile import Profile, build_profile
from tui.model.schema import NAME

DATA = Path(__file__).parent / "data"

_KERNELS = 400
_STEP = 2000
"""Activities of one step."""
_BYTES_PER_NS = 40
"""The throughput of copies."""


def stored_frames(launches: int) -> Path:
    """A folder with the frames of ``launches`` activities, generated if missing."""
    folder = DATA / f"run_{launches}"
    if not folder.exists():
        making = folder.with_suffix(".part")
        making.mkdir(parents=True, exist_ok=True)
        for name, data in frames_of(launches).items():
            data.write_ipc(making / f"{name}.arrow")
        making.rename(folder)
    return folder


def read_frames(folder: Path) -> Profile:
    """The profile in a folder, with one chunk per column, as from a loader."""
    frames = {file.stem: pl.read_ipc(file.read_bytes()).rechunk() for file in sorted(folder.glob("*.arrow"))}
    return build_profile(frames, source=str(folder))


def frames_of(n: int, seed: int = 0) -> dict[str, pl.DataFrame]:
    """The frames of ``n`` activities of one process."""
    draw = np.random.default_rng(seed)
    kinds, names, grids, blocks = (np.resize(column, n) for column in _step(draw))
    duration_ns = draw.integers(500, 20_000, n)
    start_ns = np.cumsum(duration_ns + np.where(draw.random(n) < 0.3, 0, draw.integers(0, 3000, n))) - duration_ns
    stream = np.where(draw.random(n) < 0.1, 20, 7)
    duration_ns = np.where(stream == 20, 2 * duration_ns, duration_ns)
    launch = np.sort(start_ns - draw.integers(2000, 50_000, n))
    size = pl.Series(_BYTES_PER_NS * duration_ns)
    session, device = pl.repeat(0, n, dtype=pl.UInt32, eager=True), pl.repeat(0, n, dtype=pl.Int32, eager=True)
    is_copy = pl.Series(kinds == 1)
    name = pl.Series(_names(), dtype=NAME).gather(pl.Series(names))
    activities = pl.DataFrame(
        {
            "session": session,
            "activity": np.arange(n, dtype=np.uint32),
            "kind": pl.Series(["kernel", "memcpy", "memset"], dtype=NAME).gather(pl.Series(kinds)),
            "name": name,
            "short_name": name,
            "start_ns": start_ns,
            "duration_ns": duration_ns,
            "device": device,
            "stream": stream,
            "grid_x": grids,
            "grid_y": np.ones(n, np.int32),
            "grid_z": np.ones(n, np.int32),
            "block_x": blocks,
            "block_y": np.ones(n, np.int32),
            "block_z": np.ones(n, np.int32),
            "registers": np.full(n, 40, np.int32),
            "shared_bytes": np.zeros(n, np.int64),
            "size_bytes": pl.select(pl.when(pl.Series(kinds > 0)).then(size)).to_series(),
            "copy_kind": pl.select(pl.when(is_copy).then(pl.lit("HtoD").cast(NAME))).to_series(),
            "correlation": np.arange(n),
            "iteration": (np.arange(n) // _STEP).astype(np.int32),
        }
    )
    calls = pl.DataFrame(
        {
            "session": session,
            "name": pl.Series(["cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"], dtype=NAME).gather(
                pl.Series(kinds)
            ),
            "start_ns": launch,
            "duration_ns": draw.integers(1000, 5000, n),
            "pid": pl.repeat(1, n, dtype=pl.Int64, eager=True),
            "tid": pl.repeat(1, n, dtype=pl.Int64, eager=True),
            "correlation": np.arange(n),
        }
    )
    sessions = {"session": [0], "format": ["nsys-sqlite"], "tool": ["Nsight Systems"], "start_resolution_ns": [1]}
    devices = {"session": [0], "device": [0], "name": ["NVIDIA H200"], "compute_capability": ["9.0"]}
    return {
        "sessions": pl.DataFrame(sessions),
        "devices": pl.DataFrame({**devices, "sm_count": [132], "memory_bandwidth": [4.8e12]}),
        "activities": activities,
        "api_calls": calls,
    }


def _step(draw: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Kinds and names (as codes), grids and blocks of the activities of one step."""
    kinds = draw.choice(np.arange(3), _STEP, p=[0.9, 0.07, 0.03])
    names = np.where(kinds == 0, draw.integers(0, _KERNELS + 1, _STEP), _KERNELS + kinds)
    grids, blocks = draw.integers(1, 2000, _STEP), 32 * draw.integers(1, 32, _STEP)
    return kinds, names, grids.astype(np.int32), blocks.astype(np.int32)


def _names() -> list[str]:
    kernels = [
        f"void at::native::vectorized_elementwise_kernel<{at % 8}, at::native::Functor{at}<float>, "
        f"std::array<char*, {at % 4}ul>>(int, at::native::Functor{at}<float>, std::array<char*, {at % 4}ul>)"
        for at in range(_KERNELS // 2)
    ]
    kernels += [f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{at}x128x64_cublas" for at in range(_KERNELS // 2)]
    return [*kernels, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", "[CUDA memcpy HtoD]", "[CUDA memset]"]
