"""A small DLProf database with made-up figures: two iterations of a training loop on one GPU."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.loaders.dlprof.dlprof_database import DLPROF_DATABASE
from tui.loaders.input_file import InputFile
from tui.loaders.sqlite.database import DatabaseLoader

if TYPE_CHECKING:
    from tui.model.profile import Profile

Row = tuple[object, ...]

STRINGS = (
    "",
    "default-domain",
    "global_step",
    "CONV2D_1",
    "CONV2D_1_BPROP",
    "CUDAFREE_V3020_1",
    "conv2d",
    "cudaFree_v3020",
    "float16",
    "fprop",
    "bprop",
    "[[8,3,32,32],[6,3,3,3]]\n",
    "null\n",
    "conv_kernel",
    "void ours::conv_kernel<float, (int)4>(T1 *, int)",
    "wgrad_kernel",
    "void ours::<unnamed>::wgrad_kernel<float>(T1 *)",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
    "cudaStreamSynchronize_v3020",
)
ID = {text: number for number, text in enumerate(STRINGS, 1)}
"""The number of each text in the dictionary."""

PATH = "/module/Net::_call_impl/Conv2d::forward"

TABLES: Mapping[str, tuple[str, Sequence[Row]]] = {
    "dictionary": ("id, string", tuple((number, text) for text, number in ID.items())),
    "db_version": ("id, current_version, original_version", ((1, "1.8.0", "1.5.0"),)),
    "aggregations": ("id, server_user_name, server_host_name, start_timestamp, end_timestamp", ((1, "u", "h", "", 0),)),
    "read_only_domains": ("id, domain_name_id", ((1, ID["default-domain"]),)),
    "read_only_system_config": (
        "id, is_valid, num_gpus, cpu_model, driver_version, framework, cuda_version, cudnn_version, nsys_version,"
        " dlprof_version, dlprof_build, profile_name, mode_enum, mode_string, original_command",
        (
            (
                1,
                1,
                "1",
                "Some CPU",
                "470.57",
                "PyTorch 1.9",
                "11.4",
                "",
                "2021.3",
                "v1.8.0",
                "77",
                "",
                4,
                "pytorch",
                "dlprof python train.py",
            ),
        ),
    ),
    "read_only_gpu_infos": (
        "id, device_id, gpu_name, compute_capability_major, compute_capability_minor, sm_count",
        ((1, 0, "Tesla T4", 7, 5, 40),),
    ),
    "gpu_memories": ("id, total, used", ((1, 16_000, 4_000),)),
    "read_only_ops": (
        "id, domain_id, op_id_id, op_id STRING, op_name STRING, op_type_id, device_id, tc_support_status, data_type_id,"
        " direction_id, stack_trace STRING",
        (
            (
                1,
                1,
                ID["CONV2D_1"],
                "CONV2D_1",
                f"{PATH}/conv2d",
                ID["conv2d"],
                1,
                0,
                ID["float16"],
                ID["fprop"],
                "train.py:9\nnet.py:4",
            ),
            (
                2,
                1,
                ID["CONV2D_1_BPROP"],
                "CONV2D_1_BPROP",
                f"{PATH}/conv2d",
                ID["conv2d"],
                1,
                3,
                ID["float16"],
                ID["bprop"],
                "",
            ),
            (
                3,
                1,
                ID["CUDAFREE_V3020_1"],
                "CUDAFREE_V3020_1",
                "unassociated_cudaFree_v3020",
                ID["cudaFree_v3020"],
                1,
                2,
                ID[""],
                ID[""],
                None,
            ),
        ),
    ),
    "read_only_op_instances": (
        "id, read_only_ops_id, cpu_start, cpu_stop, process_id, thread_id, input_names_id, input_shapes_id",
        (
            (1, 1, 1_000, 1_400, 70, 71, 1, ID["[[8,3,32,32],[6,3,3,3]]\n"]),
            (2, 2, 1_500, 1_700, 70, 72, 1, ID["null\n"]),
            (3, 3, 900, 950, 70, 71, 1, ID["null\n"]),
            (4, 1, 3_000, 3_500, 70, 71, 1, ID["[[8,3,32,32],[6,3,3,3]]\n"]),
            (5, 2, 3_600, 3_900, 70, 72, 1, ID["null\n"]),
        ),
    ),
    "read_only_grid_block": ("id, x, y, z", ((1, 8, 2, 1), (2, 128, 1, 1), (3, 16, 1, 1))),
    "read_only_kernels": (
        "id, read_only_ops_id, op_instance, name_id, long_name_id, uses_tc, api_start, api_stop, gpu_start, gpu_stop,"
        " grid_id, block_id, device_id, process_id, thread_id",
        (
            (
                1,
                1,
                0,
                ID["conv_kernel"],
                ID["void ours::conv_kernel<float, (int)4>(T1 *, int)"],
                1,
                1_100,
                1_120,
                1_200,
                1_300,
                1,
                2,
                0,
                70,
                71,
            ),
            (
                2,
                1,
                1,
                ID["conv_kernel"],
                ID["void ours::conv_kernel<float, (int)4>(T1 *, int)"],
                1,
                3_100,
                3_130,
                3_200,
                3_320,
                1,
                2,
                0,
                70,
                71,
            ),
            (
                3,
                2,
                0,
                ID["wgrad_kernel"],
                ID["void ours::<unnamed>::wgrad_kernel<float>(T1 *)"],
                0,
                1_600,
                1_610,
                2_100,
                2_400,
                3,
                2,
                0,
                70,
                72,
            ),
            (
                4,
                2,
                1,
                ID["wgrad_kernel"],
                ID["void ours::<unnamed>::wgrad_kernel<float>(T1 *)"],
                0,
                3_700,
                3_715,
                3_800,
                4_100,
                3,
                2,
                0,
                70,
                72,
            ),
        ),
    ),
    "read_only_memcpys": (
        "id, read_only_ops_id, op_instance, name_id, api_start, api_stop, gpu_start, gpu_stop, num_bytes, copy_kind,"
        " device_id, process_id, thread_id",
        ((1, 1, 1, ID["cudaMemcpyAsync_v3020"], 3_010, 3_040, 3_050, 3_090, 4_096, 1, 0, 70, 71),),
    ),
    "read_only_memsets": (
        "id, read_only_ops_id, op_instance, name_id, api_start, api_stop, gpu_start, gpu_stop, num_bytes, device_id,"
        " process_id, thread_id",
        ((1, 2, 0, ID["cudaMemsetAsync_v3020"], 1_510, 1_520, 1_530, 1_540, 64, 0, 70, 72),),
    ),
    "read_only_cuda_calls": (
        "id, read_only_ops_id, op_instance, name_id, api_start, api_stop, process_id, thread_id",
        ((1, 3, 0, ID["cudaFree_v3020"], 905, 945, 70, 71),),
    ),
    "read_only_cuda_syncs": (
        "id, read_only_ops_id, op_instance, name_id, api_start, api_stop, gpu_start, gpu_stop, sync_type, process_id,"
        " thread_id",
        ((1, 1, 0, ID["cudaStreamSynchronize_v3020"], 1_130, 1_390, 0, 0, 3, 70, 71),),
    ),
    "iteration_key": ("id, aggr_id, key_node_id", ((1, 1, ID["global_step"]),)),
    "iteration_list": (
        "id, aggr_id, iter_value, start_time, stop_time",
        ((1, 1, 5, 900, 2_000), (2, 1, 6, 2_000, 4_100)),
    ),
    "kernel_iteration_node": (
        "id, aggr_id, read_only_ops_id, read_only_kernel_id, iter_value",
        ((1, 1, 1, 1, 5), (2, 1, 1, 2, 6), (3, 1, 2, 3, 5), (4, 1, 2, 4, 6)),
    ),
    "iteration_aggregation_list": (
        "id, aggr_id, iter_value, gpu_utilization REAL, tc_duration, non_tc_duration, memory_duration,"
        " dataloader_duration, io_duration, cpu_duration, other_duration",
        ((1, 1, 5, 0.5, 100, 300, 10, 0, 0, 400, 290), (2, 1, 6, 0.5, 120, 300, 40, 0, 0, 500, 1_140)),
    ),
    "kernel_iteration_stats": (
        "id, aggr_id, domain_id, iter_value, total_count, uses_tc_count, total_gpu_time, tc_gpu_time",
        ((1, 1, 1, 5, 2, 1, 400, 100), (2, 1, 1, 6, 2, 1, 420, 120)),
    ),
    "model_summary": (
        "id, aggr_id, domain_id, wall_time, nodes_total_id, nodes_tc_eligible_id, nodes_using_tc_id, nodes_other_id,"
        " gpu_utilization REAL, tc_utilization REAL, tc_duration_pct REAL, non_tc_duration_pct REAL,"
        " memory_duration_pct REAL, dataloader_duration_pct REAL, io_duration_pct REAL, cpu_duration_pct REAL,"
        " other_duration_pct REAL, avg_iteration_time REAL, iteration_time_std_dev REAL, iter_total, iter_aggregated,"
        " iter_start, iter_stop, key_node_id",
        (
            (
                1,
                1,
                1,
                3_200,
                1,
                2,
                3,
                4,
                27.5,
                84.6,
                6.9,
                18.8,
                1.6,
                0.0,
                0.0,
                28.1,
                44.6,
                1_600.0,
                500.0,
                2,
                2,
                5,
                6,
                ID["global_step"],
            ),
        ),
    ),
    "category_summary": (
        "id, cpu_time, gpu_time, cpu_overhead, gpu_idle, count",
        (
            (1, 1_450, 870, 0, 0, 3),
            (2, 0, 0, 0, 0, 0),
            (3, 900, 260, 0, 0, 1),
            (4, 550, 610, 0, 0, 2),
            (5, 75, 820, 0, 0, 2),
            (6, 50, 220, 0, 0, 1),
            (7, 25, 600, 0, 0, 1),
            (8, 40, 50, 0, 0, 2),
        ),
    ),
    "kernel_summary_metrics": (
        "id, aggr_id, domain_id, kernels_total_id, kernels_using_tc_id, kernels_non_tc_id",
        ((1, 1, 1, 5, 6, 7),),
    ),
    "memory_summary_metrics": ("id, aggr_id, domain_id, memory_time_id", ((1, 1, 1, 8),)),
    "device_gpu_utilizations": (
        "id, aggr_id, domain_id, gpu_info_id, gpu_utilization REAL",
        ((1, 1, 1, 1, 27.5),),
    ),
    "op_type_metrics": (
        "id, aggr_id, domain_id, op_node_type_id, op_type_metrics_id, num_nodes, num_calls",
        ((1, 1, 1, ID["conv2d"], 1, 2, 4),),
    ),
    "node_time_metrics": (
        "id, cpu_time_metric_id, gpu_time_metric_id, api_time_metric_id, cpu_overhead_time_metric_id,"
        " gpu_idle_time_metric_id",
        ((1, 1, 2, 3, 3, 4),),
    ),
    "metric": (
        "id, count, max, min, sum, avg REAL",
        ((1, 4, 500, 200, 1_400, 350.0), (2, 4, 310, 100, 870, 217.5), (3, 4, 9, 1, 20, 5.0), (4, 4, 40, 0, 60, 15.0)),
    ),
    "expert_systems_feedback": (
        "id, aggr_id, exp_sys_id, problem, recommendation, javascript_function, javascript_args",
        ((1, 1, "amp_detector", "1 op [not] eligible", "Try AMP", "", ""),),
    ),
}
"""The columns and rows of every table that is read."""


def write(path: Path, tables: Mapping[str, tuple[str, Sequence[Row]]] = TABLES) -> Path:
    """Write a database."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def changed_tables(**tables: Sequence[Row] | None) -> dict[str, tuple[str, Sequence[Row]]]:
    """Return the tables with other rows in some; None removes a table."""
    return {
        name: (columns, tables.get(name) or ()) if name in tables else (columns, rows)
        for name, (columns, rows) in TABLES.items()
        if tables.get(name, ()) is not None
    }


def read(path: Path | str) -> Profile:
    """Read a database."""
    return DatabaseLoader([DLPROF_DATABASE]).load(InputFile.open(str(path)))
