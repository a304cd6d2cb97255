"""Kernels, copies and memsets of a trace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loaders.kineto.traces import call, event, gpu, kernel, op, read, texts

LAUNCH = (
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "shared_bytes",
)


def test_a_kernel_has_its_launch_configuration() -> None:
    profile = read(
        [
            kernel(
                11,
                2.5,
                1.25,
                name="void cutlass::Kernel2<int>(int)",
                grid=[30, 2, 1],
                block=[128, 1, 1],
                registers_per_thread=90,
                shared_memory=49152,
                **{"est. achieved occupancy %": 0},
            )
        ]
    )
    activities = profile["activities"]
    assert activities.select(LAUNCH).rows() == [(30, 2, 1, 128, 1, 1, 90, None, None, 49152)]
    assert activities.select("start_ns", "duration_ns", "device", "context", "stream", "correlation").rows() == [
        (0, 1250, 0, 1, 7, 11)
    ]
    assert texts(profile, "activities", "short_name") == ["cutlass::Kernel2"]
    assert texts(profile, "activities", "op_join") == [None]


def test_copies_and_memsets_have_the_names_of_nvprof() -> None:
    rate = "memory bandwidth (GB/s)"
    profile = read(
        [
            gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 5, bytes=4096, **{rate: 2.5}),
            gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 10, 5, bytes="64"),
            gpu("gpu_memset", "Memset (Device)", 20, 5, bytes=16, **{rate: 0.5}),
            gpu("gpu_memset", "Memset (Unknown) 3", 30, 5),
        ]
    )
    assert texts(profile, "activities", "kind") == ["memcpy", "memcpy", "memset", "memset"]
    assert texts(profile, "activities", "name") == [
        "[CUDA memcpy HtoD]",
        "[CUDA memcpy PtoP]",
        "[CUDA memset]",
        "Memset (Unknown) 3",
    ]
    assert texts(profile, "activities", "copy_kind") == ["HtoD", "PtoP", None, None]
    assert texts(profile, "activities", "src_memory") == ["pageable", "device", None, None]
    assert texts(profile, "activities", "dst_memory") == ["device", "device", "device", None]
    assert profile["activities"].select("size_bytes", "throughput").rows() == [
        (4096, 2.5e9),
        (64, 12.8e6),
        (16, 0.5e9),
        (None, None),
    ]


def test_copies_of_amd_keep_their_recorded_names() -> None:
    copy = gpu("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 30, 5, correlation=3)
    fill = gpu("gpu_memset", "Memset (Device)", 40, 5, correlation=4)
    work = [kernel(1, 10, name="void f<int>(int) [clone .kd]"), kernel(2, 20, name="triton_poi_0.kd"), copy, fill]
    names = ["void f<int>(int)", "triton_poi_0", "Memcpy DtoH (Device -> Host)", "Memset (Device)"]
    for profile in (
        read([*work, hip_call("hipLaunchKernel", 1, 1)]),
        read([*work, hip_call("cudaLaunchKernel", 1, 1)], hip_runtime_version=60_342_131),
    ):
        assert texts(profile, "activities", "name") == names
        assert texts(profile, "activities", "short_name") == ["f", "triton_poi_0", *names[2:]]
        assert texts(profile, "activities", "kind") == ["kernel", "kernel", "memcpy", "memset"]
        assert texts(profile, "activities", "copy_kind") == [None, None, "DtoH", None]
        assert texts(profile, "activities", "dst_memory") == [None, None, "host", "device"]


def test_the_work_of_an_intel_gpu() -> None:
    queue = {"l0 queue": "0x000055d08b8fc138", "sycl queue": 64, "context": "0x000055d08918fc78", "device": 1}
    enqueue = {**call(4131, 12, 3, name="urEnqueueKernelLaunch", External_id=5), "cat": "xpu_runtime"}

    def work(cat: str, name: str, ts: float, correlation: int, **arguments: object) -> dict[str, Any]:
        gpu_event = event(cat, name, ts, 8.96, **{**queue, "correlation": correlation, **arguments})
        return {**gpu_event, "pid": 1, "tid": 0}

    profile = read(
        [
            op("aten::addmm", 10, 10, External_id=5),
            enqueue,
            work("kernel", "gemm_kernel", 30, 4131, kernel_id=1),
            work("gpu_memcpy", "Memcpy M2D (Memory -> Device)", 50, 4132, bytes=4096),
            work("gpu_memcpy", "Memcpy D2M (Device -> Memory)", 70, 4133),
            work("gpu_memcpy", "Memcpy S2D (Shared -> Device)", 90, 4134),
        ]
    )
    activities = profile["activities"]
    assert texts(profile, "activities", "name") == [
        "gemm_kernel",
        "Memcpy M2D (Memory -> Device)",
        "Memcpy D2M (Device -> Memory)",
        "Memcpy S2D (Shared -> Device)",
    ]
    assert texts(profile, "activities", "copy_kind") == [None, "HtoD", "DtoH", "DtoD"]
    assert activities.select("device", "stream", "context").unique().rows() == [(1, 64, None)]
    assert activities["op"].to_list() == [0, None, None, None]
    assert texts(profile, "api_calls", "name") == ["urEnqueueKernelLaunch"]
    assert texts(profile, "sessions", "framework") == ["PyTorch (XPU)"]


@pytest.mark.parametrize(
    ("categories", "framework"),
    [
        (["privateuse1_runtime", "privateuse1_driver"], "PyTorch 2.6 (PrivateUse1)"),
        (["mtia_runtime"], "PyTorch 2.6 (MTIA)"),
        (["cuda_runtime"], "PyTorch 2.6"),
        (["cuda_runtime", "privateuse1_runtime"], "PyTorch 2.6"),
    ],
)
def test_the_framework_names_devices_that_are_not_of_cuda(categories: list[str], framework: str) -> None:
    calls = [{**call(number, number), "cat": category} for number, category in enumerate(categories, 1)]
    profile = read([*calls, kernel(1, 10)], torch_version="2.6")
    assert texts(profile, "sessions", "framework") == [framework]


@pytest.mark.parametrize("prefix", ["mlu", "GCU"])
def test_gpu_work_with_categories_of_other_vendors(prefix: str) -> None:
    profile = read(
        [
            {**call(1, 1, name="cnInvokeKernel"), "cat": f"{prefix}_runtime"},
            kernel(1, 10),
            gpu(f"{prefix}_memcpy", "Memcpy HtoD", 20, 5),
            gpu(f"{prefix}_memset", "Memset (Device)", 30, 5),
            event(f"{prefix}_user_annotation", "step", 10, 30),
        ]
    )
    assert texts(profile, "activities", "kind") == ["kernel", "memcpy", "memset"]
    assert texts(profile, "activities", "name") == ["k", "Memcpy HtoD", "Memset (Device)"]
    assert texts(profile, "api_calls", "name") == ["cnInvokeKernel"]
    assert profile["issues"].is_empty()


@pytest.mark.parametrize(
    ("junk", "expected"),
    [
        ({"grid": "wide", "block": [128, 1, 1]}, (None, None, None, 128, 1, 1, None, None, None, None)),
        ({"grid": [0, 1, 1], "block": [1 << 40, 1, 1]}, (None,) * 10),
        ({"grid": [4], "block": [32, 2]}, (4, 1, 1, 32, 2, 1, None, None, None, None)),
        ({"registers per thread": -1, "shared memory": -5}, (None,) * 10),
        ({"registers per thread": "40", "shared memory": "N/A"}, (*(None,) * 6, 40, None, None, None)),
        ({"registers per thread": 1 << 40}, (None,) * 10),
    ],
    ids=["text", "impossible sizes", "short lists", "negative", "numbers as text", "too large"],
)
def test_impossible_launch_values_are_unknown(junk: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    assert read([kernel(1, 0, **junk)])["activities"].select(LAUNCH).rows() == [expected]


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), -1.0, 1e9, "fast"])
def test_impossible_rates_are_unknown(rate: object) -> None:
    arguments = {"bytes": -1, "memory bandwidth (GB/s)": rate}
    profile = read([gpu("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 0, 0, **arguments)])
    assert profile["activities"].select("size_bytes", "throughput").rows() == [(None, None)]


def test_work_with_only_a_name_gets_the_gpu_of_its_process() -> None:
    minimal_kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 3, "tid": 20, "ts": 5, "dur": 1}
    label = {"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "ts": 0, "args": {"labels": "GPU 3"}}
    profile = read([minimal_kernel, {**minimal_kernel, "pid": 4, "ts": 7}, label])
    assert profile["activities"].select("device", "stream", "context", "correlation").rows() == [
        (3, 20, None, None),
        (None, None, None, None),
    ]


def test_a_collective_has_its_arguments() -> None:
    arguments = {
        "Seq": 17,
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "Group size": 2,
        "dtype": "Float",
        "In split size": "[]",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    profile = read([kernel(1, 0, **arguments), kernel(2, 10)])
    assert texts(profile, "activities", "arguments") == [
        "Collective name: allreduce; In msg nelems: 1024; Out msg nelems: 1024; Dtype: Float; Group size: 2; "
        "Process group name: 0; Process group ranks: [0, 1]; Seq: 17",
        None,
    ]


def test_api_calls_of_runtime_and_driver() -> None:
    profile = read(
        [
            op("aten::mm", 0, 20),
            call(1, 2, 3),
            {**call(2, 8, 1, name="cuLaunchKernel"), "cat": "cuda_driver"},
            event("cuda_sync", "Stream Wait Event", 9, 1, correlation=2),
            kernel(2, 30),
        ]
    )
    assert profile["api_calls"].select("start_ns", "duration_ns", "pid", "tid", "correlation").rows() == [
        (2000, 3000, 100, 100, 1),
        (8000, 1000, 100, 100, 2),
    ]
    assert texts(profile, "api_calls", "name") == ["cudaLaunchKernel", "cuLaunchKernel"]
    assert texts(profile, "activities", "op_join") == ["launch"]


def hip_call(name: str, correlation: int, ts: float, **args: object) -> dict[str, Any]:
    return call(correlation, ts, name=name, cid=1, **args)


def amd_kernel(correlation: int, ts: float, *, device: int = 2) -> dict[str, Any]:
    return {**event("kernel", "k", ts, 5, device=device, stream=0, correlation=correlation), "pid": device, "tid": 0}


AMD = [{"id": number, "name": "", "warpSize": 64, "computeMajor": 9, "computeMinor": 4} for number in (0, 1)]


def test_older_traces_of_amd_have_the_launch_configuration_on_the_call() -> None:
    profile = read(
        [
            hip_call("hipLaunchKernel", 1, 1, grid=[30, 1, 1], block=[64, 2, 1], shared_memory=256),
            hip_call("hipExtModuleLaunchKernel", 2, 2, grid=[512, 6, 1], block=[256, 4, 1], shared_memory=0),
            hip_call("hipMemcpyWithStream", 3, 3, size="2560", kind="1"),
            hip_call("hipGraphLaunch", 4, 4, grid=[9, 9, 9], block=[9, 9, 9]),
            amd_kernel(1, 10),
            amd_kernel(2, 20),
            {**gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 30, 5, device=2, stream=0, correlation=3), "pid": 2},
            amd_kernel(4, 40),
            amd_kernel(4, 50),
        ],
        deviceProperties=AMD,
    )
    assert profile["activities"].select(*LAUNCH, "size_bytes").rows() == [
        (30, 1, 1, 64, 2, 1, None, None, 256, None, None),
        # Threads, of which the last block is not full.
        (2, 2, 1, 256, 4, 1, None, None, 0, None, None),
        (*(None,) * 10, 2560),
        (None,) * 11,
        (None,) * 11,
    ]


def test_agents_of_amd_are_numbered_as_gpus() -> None:
    launches = [hip_call("hipLaunchKernel", number, number, grid=[1, 1, 1], block=[64, 1, 1]) for number in (1, 2)]
    profile = read([*launches, amd_kernel(1, 10, device=3), amd_kernel(2, 20, device=2)], deviceProperties=AMD)
    assert profile["activities"]["device"].to_list() == [1, 0]
    assert profile["issues"]["reason"].to_list() == [
        "the trace numbers agents, not GPUs: agents are numbered in order, 2 as GPU 0, 3 as GPU 1"
    ]
    assert profile["devices"].select("device", "name", "compute_capability").rows() == [
        (0, None, None),
        (1, None, None),
    ]


def test_newer_traces_of_amd_number_gpus_themselves() -> None:
    second_kernel = {**kernel(1, 10, grid=[8, 1, 1], block=[64, 1, 1]), "pid": 1}
    second_kernel["args"]["device"] = 1
    launch = hip_call("hipLaunchKernel", 1, 1, grid=[8, 1, 1], block=[64, 1, 1])
    profile = read([launch, second_kernel], deviceProperties=AMD, **{"rocprofiler-sdk_version": "1.1"})
    assert profile["activities"].select("device", "grid_x").rows() == [(1, 8)]
    assert profile["issues"].is_empty()


@pytest.mark.parametrize("name", ["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"])
def test_newer_traces_of_amd_repeat_a_grid_in_threads_on_the_kernel(name: str) -> None:
    sizes = {"grid": [512, 6, 1], "block": [256, 4, 1]}
    blocks = {"grid": [512, 6, 1], "block": [256, 1, 1]}
    profile = read(
        [
            hip_call(name, 1, 1, **sizes),
            hip_call("hipModuleLaunchKernel", 2, 2, **blocks),
            hip_call(name, 3, 3, **sizes),
            kernel(1, 10, **sizes),
            kernel(2, 20, **blocks),
            kernel(3, 30, grid=[512, 6, 1]),
        ],
        deviceProperties=AMD,
        hip_runtime_version=60342134,
    )
    assert profile["activities"].select(*LAUNCH[:6]).rows() == [
        (2, 2, 1, 256, 4, 1),
        (512, 6, 1, 256, 1, 1),
        # Without a block nobody knows how many blocks the threads are.
        (None,) * 6,
    ]


def test_synchronizing_calls_record_the_awaited_work() -> None:
    sync = {"device": 0, "context": 1, "cuda_sync_kind": ""}
    profile = read(
        [
            call(1, 0),
            call(2, 2, name="cudaEventRecord"),
            call(3, 4, name="cudaStreamWaitEvent"),
            call(4, 6, name="cudaEventSynchronize"),
            call(5, 8, name="cudaStreamSynchronize"),
            call(6, 10, name="cudaDeviceSynchronize"),
            call(7, 12, name="cudaStreamWaitEvent"),
            kernel(1, 1),
            *(
                gpu("cuda_sync", name, ts, 1, **{**sync, "correlation": number, "stream": stream}, **more)
                for name, ts, number, stream, more in (
                    ("Stream Wait Event", 4, 3, 20, {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}),
                    ("Event Sync", 6, 4, -1, {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}),
                    ("Stream Sync", 8, 5, 7, {}),
                    ("Context Sync", 10, 6, (1 << 32) - 1, {}),
                    # Of an event whose record is not known.
                    ("Stream Wait Event", 12, 7, 20, {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": -1}),
                )
            ),
        ]
    )
    columns = ("correlation", "wait_device", "waiting_stream", "awaited_stream", "awaited_call")
    assert profile["api_calls"].select(columns).rows() == [
        (1, None, None, None, None),
        (2, None, None, None, None),
        (3, 0, 20, 7, 2),
        (4, 0, None, 7, 2),
        (5, 0, None, 7, None),
        (6, 0, None, None, None),
        (7, None, None, None, None),
    ]
    assert not profile["issues"].height
