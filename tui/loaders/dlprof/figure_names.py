"""What DLProf calls its figures, and the columns of its database that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

Figure = tuple[str, str, str | None]
"""What DLProf calls a figure, the column that holds it, and its unit."""

MODEL_CONFIG: Final = (
    "num_workers",
    "pin_memory",
    "cudnn_benchmark_disabled",
    "detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "autograd_profile",
    "autograd_set_detect_anomaly",
    "emit_nvtx",
    "amp_enabled",
)
"""What DLProf recorded of how the model is set, by its own names; 1 stands for yes."""
PERFORMANCE: Final[tuple[Figure, ...]] = (
    ("Wall Clock Time", "wall_time", "ns"),
    ("Tensor Core Kernel Efficiency", "tc_utilization", "%"),
    ("GPU Utilization", "gpu_utilization", "%"),
    ("Total Iterations", "iter_total", None),
    ("Profiled Iterations", "iter_aggregated", None),
    ("Start Iteration", "iter_start", None),
    ("Stop Iteration", "iter_stop", None),
    ("Average Iteration Time", "avg_iteration_time", "ns"),
    ("Iteration Time Standard Deviation", "iteration_time_std_dev", "ns"),
)
RESOURCES: Final[tuple[Figure, ...]] = (
    ("Using Tensor Cores", "tc_duration_pct", "%"),
    ("Not Using Tensor Cores", "non_tc_duration_pct", "%"),
    ("Memory", "memory_duration_pct", "%"),
    ("Dataloader", "dataloader_duration_pct", "%"),
    ("I/O", "io_duration_pct", "%"),
    ("CPU", "cpu_duration_pct", "%"),
    ("Other", "other_duration_pct", "%"),
)
OPS: Final = (
    ("All ops", "nodes_total_id"),
    ("Ops using TC", "nodes_using_tc_id"),
    ("Ops eligible for TC but not using", "nodes_tc_eligible_id"),
    ("All other ops", "nodes_other_id"),
)
"""Names of DLProf's summary report, and the column that refers to ``category_summary``."""
KERNELS: Final = (
    ("Kernels using TC", "kernels_using_tc_id"),
    ("Memory", "memory_time_id"),
    ("All other kernels", "kernels_non_tc_id"),
)
ITERATION: Final[tuple[Figure, ...]] = (
    ("Total Kernels", "total_count", None),
    ("TC Kernels", "uses_tc_count", None),
    ("Using Tensor Cores", "tc_duration", "ns"),
    ("Not Using Tensor Cores", "non_tc_duration", "ns"),
    ("Memory", "memory_duration", "ns"),
    ("Dataloader", "dataloader_duration", "ns"),
    ("I/O", "io_duration", "ns"),
    ("CPU", "cpu_duration", "ns"),
    ("Other", "other_duration", "ns"),
)
CONFIG: Final = (
    ("Profile Name", "profile_name"),
    ("GPU Count", "num_gpus"),
    ("CPU Model", "cpu_model"),
    ("GPU Driver Version", "driver_version"),
    ("Framework", "framework"),
    ("CUDA Version", "cuda_version"),
    ("cuDNN Version", "cudnn_version"),
    ("NSys Version", "nsys_version"),
    ("DLProf Version", "dlprof_version"),
    ("DLProf Build", "dlprof_build"),
    ("Mode", "mode_string"),
)
TIMES: Final = (
    ("CPU Time", "cpu_time_metric_id"),
    ("GPU Time", "gpu_time_metric_id"),
    ("CPU Overhead", "cpu_overhead_time_metric_id"),
    ("GPU Idle", "gpu_idle_time_metric_id"),
)
PARTS: Final = (("Total", "sum"), ("Avg.", "avg"), ("Min", "min"), ("Max", "max"))

SUMMARY: Final[Mapping[str, Any]] = {
    "aggr_id": pl.Int64,
    "domain_id": pl.Int64,
    "key_node_id": pl.Int64,
    **{column: pl.Float64 for _, column, _ in (*PERFORMANCE, *RESOURCES)},
    **{column: pl.Int64 for _, column in OPS},
}
"""The columns of ``model_summary`` that are read."""
