"""Profiles made in code, opened in the explorer like files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.analysis.frames import copy, kernel, make_profile
from tests.screens.explorer import open_explorer
from tui.loaders import registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from tui.model.profile import Profile

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x64>(Params)"
SHAPE = {"grid_x": 64, "grid_y": 2, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
STEP_NS = 10_000_000
STEPS = (17, 18, 19)


def _rank(session: int) -> dict[str, list[dict[str, Any]]]:
    """Return what one rank of a training run of three steps recorded."""
    work: list[dict[str, Any]] = [copy("HtoD", 400_000, start_ns=1000, stream=13, size_bytes=1 << 20, device=session)]
    calls, ranges, ops = [], [], []
    for place, step in enumerate(STEPS):
        begin = 1_000_000 + place * STEP_NS
        ranges += [
            {"name": f"ProfilerStep#{step}", "start_ns": begin, "duration_ns": STEP_NS, "iteration": step},
            {"name": "forward", "start_ns": begin + 1000, "duration_ns": 4_000_000, "depth": 1},
            {"name": "allreduce", "domain": "NCCL", "start_ns": begin + 6_000_000, "duration_ns": 50_000, "depth": 1},
        ]
        correlation = 100 + step
        calls.append(
            {
                "name": "cudaLaunchKernel",
                "start_ns": begin + 2000,
                "duration_ns": 5000,
                "correlation": correlation,
            }
        )
        op = 3 * session + place
        ops.append(
            {"op": op, "name": "aten::mm", "group": "Net/fc1", "input_shapes": "[[64, 32], [32, 8]]", "start_ns": begin}
        )
        work.append(
            kernel(
                GEMM,
                (6 + session + place) * 1_000_000,
                start_ns=begin + 90_000,
                device=session,
                stream=7,
                correlation=correlation,
                op=op,
                op_join="launch",
                iteration=step,
                registers=128,
                shared_bytes=49_152,
                uses_tensor_core=True,
                tensor_core_reason="its name: tensorop",
                arguments="Collective name: none; dtype: Half",
                **SHAPE,
            )
        )
    thread = {"session": session, "pid": 600 + session, "tid": 600 + session}
    return {
        "activities": [{**row, "session": session} for row in work],
        "api_calls": [{**row, **thread} for row in calls],
        "ranges": [{**row, **thread} for row in ranges],
        "ops": [{**row, **thread, "duration_ns": 20_000, "op_source": "recorded"} for row in ops],
    }


def training_profile() -> Profile:
    """Return two ranks of a PyTorch run, and Nsight Compute's metrics of one of its kernels."""
    ranks = [_rank(0), _rank(1)]
    frames = {name: ranks[0][name] + ranks[1][name] for name in ranks[0]}
    source = {"format": "pytorch-trace", "tool": "PyTorch profiler", "world_size": 2, "host": "node7"}
    return make_profile(
        sessions=[
            {"session": rank, "rank": rank, "pid": 600 + rank, "source": f"rank{rank}.pt.trace.json", **source,
             "iteration_source": "PyTorch's ProfilerStep"}
            for rank in (0, 1)
        ] + [{"session": 2, "format": "ncu-csv", "tool": "Nsight Compute", "source": "gemm.ncu.csv"}],
        devices=[
            {
                "session": rank,
                "device": device,
                "name": "NVIDIA H200",
                "compute_capability": "9.0",
                "sm_count": 132,
                "memory_bytes": 150_000_000_000,
            }
            for rank in (0, 1)
            for device in (0, 1)
        ],
        metrics=[
            {"session": 2, "kernel": GEMM, **SHAPE, "metric": name, "avg": value, "unit": unit, "invocations": 1}
            for name, value, unit in (
                ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 71.25, "%"),
                ("lts__t_sector_hit_rate.pct", 40.5, "%"),
                ("gpu__time_duration.sum", 9_100_000.0, "ns"),
                ("launch__waves_per_multiprocessor", 0.97, None),
            )
        ],
        **{**frames, "activities": [*frames["activities"], {**kernel(GEMM, 9_100_000, **SHAPE), "session": 2}]},
    )  # fmt: skip


def dlprof_profile() -> Profile:
    """Return a DLProf database with its own figures and findings, and graphs without recorded kernels."""
    figures = (
        ("System Config", "Mode", None, None, "pytorch"),
        ("Performance Summary", "Wall Clock Time", 2_864_091_540.0, "ns", None),
        ("Performance Summary", "GPU Utilization", 91.25, "%", None),
        ("Performance Summary", "Total Iterations", 20.0, None, None),
        ("Resource Usage Breakdown", "Using Tensor Cores", 33.5, "%", None),
        ("Resource Usage Breakdown", "CPU", 8.75, "%", None),
    )
    return make_profile(
        sessions=[{"session": 0, "format": "dlprof-database", "tool": "DLProf", "tool_version": "1.8.0"}],
        devices=[{"device": 0, "name": "Tesla V100-SXM2-16GB"}],
        tool_figures=[
            {"tool": "DLProf", "section": section, "name": name, "value": value, "unit": unit, "text": text}
            for section, name, value, unit, text in figures
        ],
        tool_findings=[
            {
                "tool": "DLProf",
                "problem": "5 ops were eligible to use tensor cores but none are using FP16",
                "recommendation": "Try enabling AMP (Automatic Mixed Precision).",
            },
            {
                "tool": "DLProf",
                "severity": "warning",
                "problem": "GPU Memory is underutilized: Only 23% of GPU Memory is used",
                "recommendation": "Try increasing batch size by 4x [bold]to increase data throughput[/]",
            },
        ],
        activities=[
            kernel(GEMM, 6_000_000, start_ns=0, device=0, stream=7),
            {"kind": "graph", "name": "CUDA graph 4", "start_ns": 6_500_000, "duration_ns": 3_000_000, "device": 0,
             "stream": 7},
        ],
    )  # fmt: skip


@asynccontextmanager
async def open_profile(profile: Profile, **options: Any) -> AsyncIterator[Pilot[None]]:
    """Open a profile made in code in the explorer."""

    def load(*_paths: object, **_options: object) -> tuple[Profile, list[Exception]]:
        return profile, []

    with patch.object(registry, "load", load):
        async with open_explorer("/made/by/hand", **options) as pilot:
            yield pilot
