from __future__ import annotations

import re
from typing import Any

import pytest

from tests.analysis.frames import kernel, make_profile
from tui.analysis.capabilities import missing_data_text, recordable_needs, recording_advice, views
from tui.analysis.dashboard import dashboard
from tui.analysis.devices import NO_VENDOR, device_facts, session_vendor
from tui.analysis.expert.findings import findings
from tui.analysis.gpus import gpu_summary
from tui.analysis.kernels import launches
from tui.analysis.launch_config import launch_config, profiling_command
from tui.analysis.needs import (
    API_WORK,
    COPIES,
    GPU_WORK,
    ITERATIONS,
    LAUNCH_CONFIGS,
    METRICS,
    RANGES,
    SHAPES,
    UNIFIED_MEMORY,
)

SHAPE = {"grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1, "device": 0}


@pytest.mark.parametrize(
    "frames",
    [
        {"devices": [{"device": 0, "name": "AMD Instinct MI250X", "compute_capability": "9.0"}]},
        {"devices": [{"device": 0, "name": "", "compute_capability": "gfx90a"}]},
        {"api_calls": [{"name": "hipLaunchKernel", "start_ns": 0, "duration_ns": 1}]},
        {"sessions": [{"session": 0, "format": "rocprof-csv"}]},
        {"sessions": [{"session": 0, "format": "pytorch-trace", "framework": "PyTorch, HIP runtime 6.2"}]},
    ],
    ids=["name", "architecture", "calls", "tool", "runtime"],
)
def test_a_gpu_of_amd_has_no_compute_capability_and_no_occupancy_of_nvidia(frames: dict[str, Any]) -> None:
    frames = {"devices": [{"device": 0, "name": "", "compute_capability": "9.0"}], **frames}
    profile = make_profile(**frames, activities=[kernel("k", 5, **SHAPE, registers=32, shared_bytes=1024)])
    facts = device_facts(profile).row(0, named=True)
    assert (facts["vendor"], facts["compute_capability"], facts["facts_source"]) == ("AMD", None, "unknown")
    config = launch_config(profile, 0)
    assert (config.occupancy_pct, config.shared_bytes) == (None, 1024)
    assert config.occupancy_reason == "not applicable: the formula is for NVIDIA GPUs, not for AMD"


def test_a_gpu_with_cuda_calls_is_not_taken_for_an_amd_gpu() -> None:
    profile = make_profile(
        devices=[{"device": 0, "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}],
        api_calls=[{"name": "cudaLaunchKernel", "start_ns": 0, "duration_ns": 1}],
    )
    assert device_facts(profile).select("vendor", "compute_capability").row(0) == (None, "9.0")


@pytest.mark.parametrize("name", ["cnConvolve", "zeFill", "urScale", "hipified", "hipScale"])
def test_a_kernel_named_like_a_call_of_another_manufacturer_names_none(name: str) -> None:
    profile = make_profile(summary=[{"section": "gpu", "name": name, "calls": 1, "total_ns": 1}])
    assert session_vendor(profile) is NO_VENDOR


def test_total_shared_memory_counts_like_its_parts() -> None:
    gpu = [{"device": 0, "name": "NVIDIA H100 80GB HBM3"}]
    shared_memory = {"static_shared_bytes": 40_000, "dynamic_shared_bytes": 60_000}
    separate = make_profile(devices=gpu, activities=[kernel("k", 5, **SHAPE, registers=32, **shared_memory)])
    total = make_profile(devices=gpu, activities=[kernel("k", 5, **SHAPE, registers=32, shared_bytes=100_000)])
    first, second = (launches(profile, session=0, name="k").row(0, named=True) for profile in (separate, total))
    assert first["occupancy_pct"] == second["occupancy_pct"] == 25.0
    assert first["limiter"] == second["limiter"] == "shared memory"


def test_tools_of_nvidia_are_not_named_for_other_gpus() -> None:
    amd = make_profile(
        sessions=[{"session": 0, "format": "pytorch-trace", "tool": "PyTorch profiler"}],
        api_calls=[{"name": "hipLaunchKernel", "start_ns": 0, "duration_ns": 1}],
        activities=[kernel("k", 5)],
    )
    assert recording_advice(amd, METRICS) == "record with rocprofv3 --pmc SQ_WAVES -f csv -- ./app"
    perfetto = make_profile(
        sessions=[{"session": 0, "format": "perfetto", "tool": "Perfetto"}], activities=[kernel("k", 5)]
    )
    reason = "not part of this kind of recording"
    assert [recording_advice(perfetto, need) for need in (API_WORK, METRICS, RANGES, ITERATIONS)] == 4 * [reason]
    intel = make_profile(sessions=[{"session": 0, "format": "perfetto", "tool": "THAPI"}], activities=[kernel("k", 5)])
    assert recording_advice(intel, API_WORK) == "record with unitrace -h ./app"
    ascend = make_profile(sessions=[{"session": 0, "format": "ascend-db"}], activities=[kernel("k", 5)])
    assert missing_data_text(ascend, UNIFIED_MEMORY) == "no unified memory: not part of this kind of recording"


def test_pytorch_names_the_activity_of_the_gpus_manufacturer() -> None:
    table = {"session": 0, "format": "torch-table", "tool": "PyTorch profiler", "framework": "PyTorch (XPU)"}
    intel = make_profile(sessions=[table])
    expected = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU])"
    assert recording_advice(intel, GPU_WORK) == f"record with {expected}"
    trace = {"session": 0, "format": "pytorch-trace", "tool": "PyTorch profiler"}
    calls = [{"name": "urEnqueueKernelLaunch", "start_ns": 0, "duration_ns": 1}]
    assert recording_advice(make_profile(sessions=[trace], api_calls=calls), METRICS) == "record with unitrace -q ./app"
    summary = [{"session": 0, "section": "gpu", "name": "Cijk_Alik_Bljk_SB_MT64x64x32", "calls": 1, "total_ns": 5}]
    amd = make_profile(sessions=[trace], summary=summary)
    assert recording_advice(amd, METRICS) == "record with rocprofv3 --pmc SQ_WAVES -f csv -- ./app"


@pytest.mark.parametrize(
    ("device", "activity"),
    [("MUSA", "MUSA"), ("MLU", "MLU"), ("HPU", "HPU"), ("MTIA", "MTIA"), ("PrivateUse1", "PrivateUse1"),
     ("GCU", "PrivateUse1"), ("MPS", "")],
)  # fmt: skip
def test_other_devices_of_pytorch_have_no_tool_of_nvidia(device: str, activity: str) -> None:
    table = {"session": 0, "format": "torch-table", "tool": "PyTorch profiler", "framework": f"PyTorch ({device})"}
    summary = [{"session": 0, "section": "gpu", "name": "ampere_sgemm", "calls": 1, "total_ns": 5}]
    profile = make_profile(sessions=[table], summary=summary)
    unknown = "not part of this kind of recording"
    expected = f"record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.{activity}])"
    assert recording_advice(profile, API_WORK) == (expected if activity else unknown)
    assert recording_advice(profile, METRICS) == unknown
    assert missing_data_text(profile, RANGES).startswith("no ranges: record with torch.profiler, with record_function")
    columns = findings(profile).select("problem", "recommendation", "reason").rows()
    texts = [text for row in columns for text in row if text]
    assert not [text for text in texts if re.search("NVIDIA|CUDA|ncu|nsys|NVTX|--gpu", text)]


def test_launches_on_other_gpus_have_no_command_of_nvidia() -> None:
    trace = {"session": 0, "format": "pytorch-trace", "tool": "PyTorch profiler", "framework": "PyTorch 2.1 (MLU)"}
    profile = make_profile(sessions=[trace], activities=[kernel("k", 5, **SHAPE, start_ns=0)])
    assert device_facts(profile)["vendor"].to_list() == ["Cambricon"]
    answer = profiling_command(profile, 0)
    assert (answer.command, answer.note) == (None, "Nsight Compute profiles only GPUs of NVIDIA, not of Cambricon")
    assert launch_config(profile, 0).occupancy_reason == (
        "not applicable: the formula is for NVIDIA GPUs, not for Cambricon"
    )


def test_missing_data_of_a_tpu_recording_names_the_ranges() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "xplane"}],
        ranges=[{"name": "fusion", "domain": "TPU:0 XLA Ops", "start_ns": 0, "duration_ns": 5}],
    )
    assert missing_data_text(profile, METRICS) == "no metrics: not part of this kind of recording"
    assert missing_data_text(profile, GPU_WORK) == "no GPU activities: open Ranges, which shows the TPU work"


def test_unknown_dashboard_figures_name_no_tool_of_nvidia_for_other_gpus() -> None:
    summary = [
        {"session": 0, "section": "gpu", "name": "Cijk_Alik_Bljk_SB_MT64x64x32", "calls": 1, "total_ns": 5},
        {"session": 0, "section": "api", "name": "hipLaunchKernel", "calls": 1, "total_ns": 5},
    ]
    profile = make_profile(sessions=[{"session": 0, "format": "nsys-stats"}], summary=summary)
    facts = {fact.name: fact for fact in dashboard(profile).performance}
    assert facts["wall_ns"].value is None
    assert facts["wall_ns"].record == (
        "rocprofv3 --kernel-trace --memory-copy-trace --hip-trace --marker-trace -f csv -- ./app"
    )


def test_the_memory_bandwidth_of_an_amd_gpu_is_that_of_its_roofline() -> None:
    profile = make_profile(devices=[{"device": 0, "name": "AMD Instinct MI300X VF"}])
    assert device_facts(profile)["memory_bandwidth"].to_list() == [5325e9]


@pytest.mark.parametrize(
    ("format_name", "name"), [("rocpd", "roctx"), ("unitrace", "ITT"), ("ascend-csv", "mstx"), ("nsys-sqlite", "NVTX")]
)
def test_ranges_have_the_name_of_the_tool(format_name: str, name: str) -> None:
    profile = make_profile(sessions=[{"session": 0, "format": format_name}], activities=[kernel("k", 5)])
    assert missing_data_text(profile, RANGES).startswith(f"no {name} ranges: record with ")
    assert f"{name} ranges" in [need.name for need in recordable_needs(profile)]


def test_a_gpu_that_only_its_name_identifies_has_no_tool_of_nvidia() -> None:
    """Proton records CUDA and ROCm."""
    sessions = [{"session": 0, "format": "proton", "tool": "Proton", "framework": "Triton"}]
    profile = make_profile(sessions=sessions, devices=[{"device": 0, "name": "gfx90a"}])
    assert recording_advice(profile, METRICS) == "record with rocprofv3 --pmc SQ_WAVES -f csv -- ./app"


@pytest.mark.parametrize("framework", ["TensorRT", "TensorRT 10.16.1"])
def test_no_framework_runs_the_layers_of_tensorrt(framework: str) -> None:
    sessions = [{"session": 0, "format": "tensorrt-json", "tool": "trtexec", "framework": framework}]
    profile = make_profile(sessions=sessions, layers=[{"layer": "conv", "time_ns": 5}])
    assert missing_data_text(profile, SHAPES) == "no input shapes: not part of this kind of recording"


def test_ascend_has_no_block_sizes_and_no_copies_that_were_not_recorded() -> None:
    sessions = [{"session": 0, "format": "ascend-csv", "tool": "Ascend"}]
    profile = make_profile(sessions=sessions, activities=[kernel("k", 5, start_ns=0, device=0)])
    assert missing_data_text(profile, LAUNCH_CONFIGS) == "no launch configurations: not part of this kind of recording"
    assert gpu_summary(profile).select("kernel_ns", "copy_ns").rows() == [(5, None)]


def test_a_memory_snapshot_has_findings() -> None:
    events = [{"place": "GPU", "device": 0, "start_ns": 0, "delta_bytes": 5}]
    assert views(make_profile(memory_events=events))["expert-systems"] == "ok"


def test_copies_that_the_tool_would_have_recorded_are_not_asked_for() -> None:
    none_ran = make_profile(sessions=[{"session": 0, "format": "xplane"}], activities=[kernel("k", 5)])
    assert missing_data_text(none_ran, COPIES) == "the recorded GPU work has no copies"
    assert views(none_ran)["memory"] == "the recorded GPU work has no copies"
    unknown = make_profile(sessions=[{"session": 0, "format": "rocpd"}], activities=[kernel("k", 5)])
    assert missing_data_text(unknown, COPIES).startswith("no copies: record with rocprofv3 ")
