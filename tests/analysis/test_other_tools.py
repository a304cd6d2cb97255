"""Recordings of one program by several tools are kept separate and are not added up."""

from __future__ import annotations

import json

from tests.analysis.frames import kernel, make_profile, summary_row
from tui.analysis.capabilities import OK, missing_data_text, missing_needs, recordable_needs, recording_advice, views
from tui.analysis.copies import copies, transfers
from tui.analysis.dashboard import dashboard
from tui.analysis.devices import tools_to_record
from tui.analysis.gpus import gpu_summary
from tui.analysis.needs import (
    API_TRACE,
    API_WORK,
    COPIES,
    ITERATIONS,
    METRICS,
    SHAPES,
    STACKS,
    START_TIMES,
    Tool,
    recording_tool,
    recording_tools,
)
from tui.analysis.ops.op_types import gpu_time_by_op_type
from tui.analysis.ops.ops_by_name import ops
from tui.analysis.sessions import replayed_sessions
from tui.analysis.tool_report import FINDING, tool_report
from tui.output.report import Style, as_text
from tui.output.report_dashboard import DashboardReport
from tui.screens.ops_and_kernels import no_kernels_of_op

RUN = {"session": 0, "format": "nsys-sqlite"}
REPLAY = {"session": 1, "format": "ncu-csv"}
KERNELS = [kernel("k", 10, start_ns=0), kernel("k", 500, session=1)]


def test_times_of_replayed_kernels_are_not_added_to_those_of_the_run() -> None:
    profile = make_profile(sessions=[RUN, REPLAY], activities=KERNELS)
    board = dashboard(profile)
    facts = {fact.name: fact.value for fact in board.performance}
    assert (facts["gpu_ns"], facts["launches"]) == (10, 1)
    assert board.split["total_ns"].sum() == board.top_kernels["total_ns"].sum() == 10
    assert board.left_out.startswith("session 1 is of Nsight Compute")
    assert board.sessions.height == 2
    report = DashboardReport(profile)
    assert "session 1 is of Nsight Compute" in report.as_text(Style(200))
    assert "session 1 is of Nsight Compute" in report.as_markdown()
    assert json.loads(report.as_json())["left_out"] == board.left_out
    assert as_text(profile, "kernels", Style(100)).startswith("Kernels (2 rows, 10 ns without session 1)\n")


def test_replayed_kernels_count_if_there_is_no_other_gpu_work() -> None:
    assert replayed_sessions(make_profile(sessions=[REPLAY], activities=KERNELS[1:])) == ()
    no_gpu_work = make_profile(sessions=[RUN, REPLAY], activities=KERNELS[1:])
    assert replayed_sessions(no_gpu_work) == ()
    assert dashboard(no_gpu_work).left_out == ""
    totals = make_profile(sessions=[RUN, REPLAY], activities=KERNELS[1:], summary=[summary_row("gpu", "k", 1, 5)])
    assert replayed_sessions(totals) == (1,)


def test_figures_of_the_tool_are_separate_and_keep_their_names() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "dlprof-database"}],
        tool_figures=[
            {"tool": "DLProf", "section": "System Config", "name": "Mode", "text": "pytorch"},
            {
                "tool": "DLProf",
                "section": "Performance Summary",
                "name": "GPU Utilization",
                "value": 91.5,
                "unit": "%",
            },
        ],
        tool_findings=[{"tool": "DLProf", "problem": "GPU memory is underutilized", "recommendation": "larger batch"}],
        activities=[kernel("k", 10, start_ns=0)],
    )
    rows = tool_report(profile)
    assert rows.select("section", "tool_name", "tool_value", "text").rows() == [
        (FINDING, "GPU memory is underutilized", None, "larger batch"),
        ("Performance Summary", "GPU Utilization", 91.5, None),
        ("System Config", "Mode", None, "pytorch"),
    ]
    board = dashboard(profile)
    assert board.tool_headlines["tool_name"].to_list() == ["GPU Utilization", "GPU memory is underutilized"]
    assert board.tool_rows == 3
    assert {fact.name: fact.value for fact in board.performance}["busy_pct"] == 100.0
    text = DashboardReport(profile).as_text(Style(100))
    assert "Reported by DLProf" in text
    assert "91.50%" in text
    assert "System Config" in as_text(profile, "tool-report", Style(120))
    assert "Reported by DLProf" not in DashboardReport(make_profile(activities=KERNELS[:1])).as_text(Style(100))


def test_a_tool_is_known_by_the_format_of_its_files() -> None:
    formats = ("nvprof-text", "nvprof-database", "nsys-sqlite", "nsys-stats", "ncu-csv", "pytorch-trace", "caffe", None)
    assert [recording_tool(name) for name in formats] == [
        Tool.NVPROF,
        Tool.NVPROF,
        Tool.NSYS,
        Tool.NSYS_STATS,
        Tool.NCU,
        Tool.PYTORCH,
        Tool.NSYS,
        Tool.NSYS,
    ]
    assert recording_tool("dlprof-database") is recording_tool("dlprof-csv") is Tool.DLPROF
    assert recording_tool("rocpd") is recording_tool("rocprof-csv") is Tool.ROCPROF
    assert recording_tool("xla-trace") is recording_tool("tf-timeline") is Tool.XLA
    assert recording_tools(make_profile(sessions=[{**REPLAY, "session": 0}, {**RUN, "session": 1}])) == (
        Tool.NSYS,
        Tool.NCU,
    )


def test_missing_data_names_a_command_of_the_recording_tool() -> None:
    pytorch = make_profile(sessions=[{"session": 0, "format": "pytorch-trace"}], ops=[{"op": 0, "name": "aten::mm"}])
    assert missing_data_text(pytorch, ITERATIONS) == (
        "no iterations: record with torch.profiler, with prof.step() at the end of each step"
    )
    # Iterations without marks are found by the start times of GPU work, which is missing altogether.
    command = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
    assert views(pytorch)["iterations"] == f"no GPU activities: record with {command}"
    commands = {need.name: need.record for need in recordable_needs(pytorch)}
    assert commands[SHAPES.name] == "torch.profiler.profile(record_shapes=True)"
    assert "with_stack=True" in commands[STACKS.name]
    assert commands[METRICS.name].startswith("ncu ")
    assert not any(need.record.startswith("nvprof") for need in missing_needs(pytorch))

    nsys = make_profile(sessions=[RUN], activities=[kernel("k", 5, start_ns=0)])
    assert recording_advice(nsys, API_WORK) == "record with nsys profile --trace=cuda,nvtx ./app"
    rocprof = make_profile(sessions=[{"session": 0, "format": "rocprof-csv"}])
    assert recording_advice(rocprof, START_TIMES).startswith("record with rocprofv3 ")
    assert not any("nvprof" in need.record for need in recordable_needs(rocprof))
    amd = make_profile(
        sessions=[{"session": 0, "format": "pytorch-trace"}], devices=[], api_calls=[{"name": "hipMalloc"}]
    )
    assert recording_advice(amd, METRICS).startswith("record with rocprofv3 ")

    nvprof = make_profile(sessions=[{"session": 0, "format": "nvprof-text"}])
    assert {need.name for need in recordable_needs(nvprof)}.isdisjoint({SHAPES.name, STACKS.name, ITERATIONS.name})


def test_nvprof_is_not_recommended_for_unsupported_gpus() -> None:
    session = {"session": 0, "format": "nvprof-text"}
    h200, v100 = (
        make_profile(sessions=[session], devices=[{"device": 0, "name": name}]) for name in ("H200", "Tesla V100")
    )
    assert recording_advice(h200, METRICS) == "record with ncu --set full --csv --page raw ./app"
    assert recording_advice(h200, API_TRACE) == "record with nsys profile --trace=cuda,nvtx ./app"
    assert not any("nvprof" in need.record for need in recordable_needs(h200))
    assert recording_advice(v100, METRICS) == "record with nvprof --metrics all"
    unnamed_gpu = make_profile(sessions=[session], devices=[{"device": 0, "name": "GPU", "compute_capability": "8.0"}])
    assert tools_to_record(unnamed_gpu) == (Tool.NSYS,)


def test_whole_graphs_count_as_gpu_work() -> None:
    profile = make_profile(
        sessions=[RUN],
        activities=[
            kernel("k", 10, start_ns=0, device=0),
            {"kind": "graph", "name": "CUDA graph 3", "start_ns": 20, "duration_ns": 70, "device": 0},
        ],
    )
    facts = {fact.name: fact.value for fact in dashboard(profile).performance}
    assert (facts["gpu_ns"], facts["graph_ns"], facts["kernel_ns"], facts["launches"], facts["busy_ns"]) == (
        80,
        70,
        10,
        1,
        80,
    )


def test_copies_in_summaries_are_recognized_by_the_names_of_every_tool() -> None:
    names = ("CopyHostToDevice", "MEMORY_COPY_DEVICE_TO_HOST", "[CUDA memcpy Device-to-Device]", "[CUDA memcpy HtoD]")
    profile = make_profile(summary=[summary_row("gpu", name, 1, 5 - number) for number, name in enumerate(names)])
    directions = [("HtoD", 7), ("DtoH", 4), ("DtoD", 3)]
    assert copies(profile).select("copy_kind", "total_ns").rows() == directions
    assert transfers(profile).select("copy_kind", "total_ns").rows() == directions
    assert copies(make_profile(summary=[summary_row("gpu", "[CUDA memcpy elsewhere]", 1, 5)]))[
        "copy_kind"
    ].to_list() == [None]
    for name in names:
        assert COPIES not in missing_needs(make_profile(summary=[summary_row("gpu", name, 1, 5)]))
    assert COPIES in missing_needs(make_profile(summary=[summary_row("gpu", "copy_kernel", 1, 5)]))


def test_directions_of_copies_follow_their_names() -> None:
    fields = {"kind": "memcpy", "size_bytes": 8}
    rows = [kernel("[CUDA memcpy Device-to-Host]", 5) | fields, kernel("CopyHostToDevice", 3) | fields]
    profile = make_profile(activities=rows)
    assert copies(profile).select("copy_kind", "size_bytes").rows() == [("DtoH", 8), ("HtoD", 8)]
    assert transfers(profile).select("copy_kind", "size_bytes").rows() == [("DtoH", 8), ("HtoD", 8)]


def test_directions_of_printed_copies_of_level_zero_and_opencl_follow_their_names() -> None:
    names = {
        "zeCommandListAppendMemoryCopy(M2D)": "HtoD",
        "zeCommandListAppendMemoryCopy(S2M)": "DtoH",
        "zeCommandListAppendMemoryCopyRegion(D2S)": "DtoD",
        "clEnqueueReadBuffer": "DtoH",
        "zeCommandListAppendMemoryCopy": None,
    }
    rows = [summary_row("gpu", name, 1, 5 - place) for place, name in enumerate(names)]
    assert copies(make_profile(summary=rows))["copy_kind"].sort().to_list() == [None, "DtoD", "DtoH", "HtoD"]
    for name, kind in names.items():
        assert copies(make_profile(summary=[summary_row("gpu", name, 1, 5)]))["copy_kind"].to_list() == [kind], name


def test_ops_without_gpu_work_have_a_view_for_their_cpu_times() -> None:
    ops_alone = make_profile(ops=[{"op": 0, "name": "aten::add", "start_ns": 0, "duration_ns": 5}])
    availability = views(ops_alone)
    assert availability["ops-and-kernels"] == OK
    assert availability["kernels"].startswith("no GPU activities")
    assert no_kernels_of_op(ops_alone).startswith("no GPU activities")
    assert ops(ops_alone).select("op", "cpu_total_ns", "gpu_self_ns").rows() == [("aten::add", 5, None)]
    assert views(make_profile(api_calls=[{"name": "cudaFree", "duration_ns": 1}]))["ops-and-kernels"] != OK


def test_gpu_times_are_unknown_if_all_durations_are() -> None:
    untimed = gpu_summary(make_profile(activities=[kernel("k", None, device=0), kernel("k", None, device=0)]))
    assert untimed.select("kernels_launched", "gpu_ns", "kernel_ns", "copy_ns").rows() == [(2, None, None, 0)]
    partly_timed = gpu_summary(make_profile(activities=[kernel("k", None, device=0), kernel("k", 3, device=0)]))
    assert partly_timed.select("gpu_ns", "kernel_ns", "copy_ns").rows() == [(3, 3, 0)]


def test_copies_are_unknown_if_the_tool_records_only_kernels() -> None:
    summary = gpu_summary(
        make_profile(sessions=[{"session": 0, "format": "ncu"}], activities=[kernel("k", 3, device=0)])
    )
    assert summary.select("gpu_ns", "kernel_ns", "copy_ns").rows() == [(3, 3, None)]


def test_work_of_unknown_kind_is_called_unknown() -> None:
    recorded = make_profile(
        ops=[{"op": 0, "name": "command_buffer", "start_ns": 0, "duration_ns": 9}],
        activities=[kernel("zzz", 4, op=0), kernel("ampere_sgemm_128x64_nn", 6, op=0)],
    )
    kinds = gpu_time_by_op_type(recorded)
    assert kinds["total_ns"].sum() == 10
    assert kinds["group"].null_count() == kinds["op_type"].null_count() == 0
    assert "unknown" in dashboard(recorded).split["group"].to_list()
