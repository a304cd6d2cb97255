"""The files of rocprof and rocprofv3: every table, and the headers of all versions."""

from __future__ import annotations

import io
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.reading import read, reasons, rows
from tui.analysis.kernels import kernels
from tui.analysis.tool_report import headlines
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

OLD_KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X",'
    '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH",1,2,69,1,16,"void add<float>(float*, int)",11,8819330200067564,8819330200116308,0,512,64,1,1,'
    "1000,1024,1\n"
)
NEW_KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH","Agent 4",1,26,70,1,33,"gemm.kd",11,5000,8000,1024,0,12,4,48,256,1,1,65536,1,1\n'
    '"KERNEL_DISPATCH","Agent 4",1,26,70,2,34,"relu(float*) [clone .kd]",12,9000,9500,0,340,8,0,16,64,2,1,100,4,1\n'
)
CONVERTED = (
    NEW_KERNELS.replace('"Kind"', '"Guid","Kind"')
    .replace('"KERNEL_DISPATCH"', '"00006409-00d1","KERNEL_DISPATCH"')
    .replace("LDS_Block", "Lds_Block")
    .replace("VGPR_Count", "Vgpr_Count")
)
CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"HIP_RUNTIME_API","hipLaunchKernel",70,71,11,4500,4600\n'
    '"HIP_RUNTIME_API","hipLaunchKernel",70,71,12,8500,8600\n'
)
MARKERS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MARKER_CORE_API","step 0",70,71,1,4000,8000\n'
    '"MARKER_CORE_API","step 1",70,71,2,8000,9900\n'
    '"MARKER_CORE_API","linear",70,71,3,8400,8700\n'
    '"MARKER_CORE_API","here",70,71,4,8450,8450\n'
)
COPIES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",0,4200,4300\n'
    '"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST","Agent 4","Agent 0",0,9600,9650\n'
)
AGENTS = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Wave_Front_Size","Max_Waves_Per_Cu","Lds_Size_In_Kb",'
    '"Local_Mem_Size","Name","Product_Name"\n'
    '0,0,"CPU",192,0,0,0,0,"AMD EPYC 9654","AMD EPYC 9654"\n'
    '7,4,"GPU",304,64,32,64,0,"gfx942","AMD Instinct MI300X"\n'
)
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","SGPR_Count","Counter_Name",'
    '"Counter_Value"\n'
    '1,1,4,1,70,70,1048576,16,"gemm.kd",64,0,0,8,16,"SQ_WAVES",16384\n'
    '1,1,4,1,70,70,1048576,16,"gemm.kd",64,0,0,8,16,"SQ_INSTS_VALU_MFMA_MOPS_F16",8\n'
    '2,2,4,1,70,70,1048576,17,"relu",64,0,0,8,16,"SQ_INSTS_VALU_MFMA_MOPS_F16",0\n'
)
STATS_V3 = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
    '"hipMalloc",4,262497406,65624351.500000,85.15,3991286,249121840,122332531.343496\n'
    '"hipSetDevice",1,660,660.000000,2.141e-04,660,660,0.00000000e+00\n'
)
STATS_V1 = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"vector_add(float*, int) [clone .kd]",2,200,100,80.0\n'
    '"CopyDeviceToHost",1,50,50,20.0\n'
)
RESULTS = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,"
    "Wavefronts,L2CacheHit,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs\n"
    '0,"copy(float*) [clone .kd]",1,0,0,77,78,65536,256,512,20,8,4,16,64,0x0,0x7f2b,2048.0000000000,11.5,100,200,450,'
    "500,250\n"
)


def test_sums_shortened_by_hand_have_what_they_show() -> None:
    profile = read('"Name","Calls","TotalDurationNs"\n"gemm(float const*)",23,539404\n')
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns", "time_pct") == [
        ("gpu", "gemm(float const*)", 23, 539_404, None, None)
    ]


def test_sums_rewritten_in_markdown() -> None:
    profile = read(
        "| Name | Calls | TotalDurationNs | AverageNs | Percentage |\n|------|-------|-------|-------|-------|\n"
        "|hipMemcpy|4|800|200|66.6|\n|gemm(float*) [clone .kd]|2|400|200|33.3|\n\nhipMemcpy is slow.\n"
    )
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns", "time_pct") == [
        ("api", "hipMemcpy", 4, 800, 200, 66.6),
        ("gpu", "gemm(float*)", 2, 400, 200, 33.3),
    ]
    assert reasons(profile) == []


def test_a_kernel_trace_of_the_first_versions() -> None:
    profile = read(OLD_KERNELS)
    columns = (
        "kind",
        "name",
        "short_name",
        "start_ns",
        "duration_ns",
        "device",
        "stream",
        "grid_x",
        "grid_y",
        "block_x",
    )
    assert rows(profile, "activities", *columns, "shared_bytes", "registers", "correlation", "line") == [
        ("kernel", "void add<float>(float*, int)", "add", 0, 48744, 1, 2, 16, 1024, 64, 512, None, 11, 2)
    ]
    assert reasons(profile) == ["times count from the first event, at 8819330200067564 ns of the machine clock"]
    assert rows(profile, "sessions", "format", "tool") == [("rocprofv3-csv", "rocprofv3")]


@pytest.mark.parametrize("text", [NEW_KERNELS, CONVERTED], ids=["rocprofv3", "rocpd convert"])
def test_a_kernel_trace_of_the_current_version(text: str) -> None:
    columns = (
        "name",
        "device",
        "stream",
        "grid_x",
        "grid_y",
        "block_x",
        "block_y",
        "registers",
        "shared_bytes",
        "arguments",
    )
    assert rows(read(text), "activities", *columns, "line") == [
        ("gemm", 4, 26, 256, 1, 256, 1, 12, 1024, "Accumulation VGPRs: 4; SGPRs: 48", 2),
        ("relu(float*)", 4, 26, 2, 2, 64, 2, 8, 0, "SGPRs: 16; Scratch bytes: 340", 3),
    ]


def test_tables_of_one_run_in_one_text_are_linked() -> None:
    profile = read("\n".join((NEW_KERNELS, COPIES, CALLS, MARKERS, AGENTS)))
    assert rows(profile, "sessions", "pid", "iteration_source") == [(70, "roctx range step")]
    columns = ("kind", "start_ns", "op", "op_join", "iteration", "copy_kind", "device", "line")
    assert rows(profile, "activities", *columns) == [
        ("memcpy", 200, None, "launch not recorded", None, "HtoD", 4, 6),
        ("kernel", 1000, None, "launched outside any op", 0, None, 4, 2),
        ("kernel", 5000, 0, "launch", 1, None, 4, 3),
        ("memcpy", 5600, None, "launch not recorded", None, "DtoH", 4, 7),
    ]
    assert rows(profile, "ops", "name", "start_ns", "duration_ns") == [("linear", 4400, 300)]
    assert rows(profile, "ranges", "name", "duration_ns", "iteration", "line") == [
        ("step 0", 4000, 0, 14),
        ("step 1", 1900, 1, 15),
        ("linear", 300, None, 16),
        ("here", 0, None, 17),
    ]
    assert rows(profile, "api_calls", "name", "start_ns", "duration_ns", "pid", "tid", "correlation") == [
        ("hipLaunchKernel", 500, 100, 70, 71, 11),
        ("hipLaunchKernel", 4500, 100, 70, 71, 12),
    ]
    columns = ("device", "name", "compute_capability", "sm_count", "max_threads_per_sm", "memory_bytes")
    assert rows(profile, "devices", *columns) == [(4, "AMD Instinct MI300X", "gfx942", 304, 2048, None)]


def test_sizes_of_copies_are_not_recorded() -> None:
    profile = read(COPIES)
    assert rows(profile, "activities", "size_bytes", "correlation") == [(None, None), (None, None)]
    assert any("writes no memcpy sizes" in reason for reason in reasons(profile))


def test_counters_are_metrics_of_dispatches() -> None:
    profile = read(COUNTERS)
    assert rows(profile, "metrics", "device", "kernel", "metric", "avg", "line") == [
        ("4", "gemm", "SQ_WAVES", 16384.0, 2),
        ("4", "gemm", "SQ_INSTS_VALU_MFMA_MOPS_F16", 8.0, 3),
        ("4", "relu", "SQ_INSTS_VALU_MFMA_MOPS_F16", 0.0, 4),
    ]
    columns = ("name", "duration_ns", "grid_x", "uses_tensor_core", "tensor_core_reason", "arguments")
    reason = "rocprof: SQ_INSTS_VALU_MFMA_MOPS_F16"
    assert rows(profile, "activities", *columns) == [
        ("gemm", None, None, True, reason, "Grid: 1048576 threads; Workgroup: 64 threads; SGPRs: 16"),
        ("relu", None, None, False, reason, "Grid: 1048576 threads; Workgroup: 64 threads; SGPRs: 16"),
    ]
    assert any("counters but no times" in reason for reason in reasons(profile))


def test_counters_with_a_kernel_trace_add_no_activities() -> None:
    profile = read(NEW_KERNELS + COUNTERS)
    assert profile["activities"].height == 2
    assert profile["metrics"].height == 3


def test_sums_of_both_versions() -> None:
    profile = read(STATS_V3)
    columns = ("section", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "std_ns", "time_pct", "line")
    assert rows(profile, "summary", *columns) == [
        ("api", "hipMalloc", 4, 262497406, 65624352, 3991286, 249121840, 122332531, 85.15, 2),
        ("api", "hipSetDevice", 1, 660, 660, 660, 660, 0, 0.0002141, 3),
    ]
    old = read(STATS_V1)
    assert rows(old, "summary", "section", "name", "calls", "total_ns", "avg_ns", "min_ns", "line") == [
        ("gpu", "vector_add(float*, int)", 2, 200, 100, None, 2),
        ("gpu", "CopyDeviceToHost", 1, 50, 50, None, 3),
    ]
    assert rows(old, "sessions", "format", "tool") == [("rocprof-csv", "rocprof")]
    assert kernels(old).select("kind", "total_ns").rows() == [("kernel", 200), ("memcpy", 50)]


def test_totals_of_whole_domains_are_figures_of_the_tool() -> None:
    profile = read(STATS_V3.replace("hipMalloc", "HIP_RUNTIME_API").replace("hipSetDevice", "KERNEL_DISPATCH"))
    assert profile["summary"].is_empty()
    assert rows(profile, "tool_figures", "tool", "section", "name", "value", "unit", "line")[::2] == [
        ("rocprofv3", "Domains", "HIP_RUNTIME_API: total", 262497406, "ns", 2),
        ("rocprofv3", "Domains", "HIP_RUNTIME_API: average", 65624352, "ns", 2),
        ("rocprofv3", "Domains", "HIP_RUNTIME_API: minimum", 3991286, "ns", 2),
        ("rocprofv3", "Domains", "HIP_RUNTIME_API: maximum", 249121840, "ns", 2),
        ("rocprofv3", "Domains", "HIP_RUNTIME_API: calls", 4, None, 2),
    ]
    assert headlines(profile)["tool_name"].to_list()[:2] == ["HIP_RUNTIME_API: total", "KERNEL_DISPATCH: total"]
    assert headlines(
        read(NEW_KERNELS + STATS_V3.replace("hipMalloc", "HIP_API").replace("hipSetDevice", "HSA_API"))
    ).is_empty()
    assert reasons(profile) == []


def test_results_of_the_first_version() -> None:
    profile = read(RESULTS)
    columns = (
        "name",
        "start_ns",
        "duration_ns",
        "device",
        "stream",
        "grid_x",
        "registers",
        "shared_bytes",
        "arguments",
    )
    facts = "Grid: 65536 threads; Workgroup: 256 threads; Accumulation VGPRs: 4; SGPRs: 16; Scratch bytes: 20"
    assert rows(profile, "activities", *columns, "line") == [("copy(float*)", 0, 250, 1, 0, None, 8, 512, facts, 2)]
    assert rows(profile, "metrics", "kernel", "metric", "avg", "line") == [
        ("copy(float*)", "Wavefronts", 2048.0, 2),
        ("copy(float*)", "L2CacheHit", 11.5, 2),
    ]
    assert rows(profile, "sessions", "pid") == [(77,)]


def test_results_without_times_or_with_the_columns_of_the_second_version() -> None:
    without_times = (
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar\n"
        "0,k.kd,0,0,0,7,7,64,64,0,0,40,48,0\n"
    )
    assert rows(read(without_times), "activities", "name", "start_ns", "duration_ns", "registers") == [
        ("k", None, None, 40)
    ]
    timed = without_times.replace(",fbar\n", ",fbar,BeginNs,EndNs,DurationNs\n").replace(",48,0\n", ",48,0,100,,250\n")
    assert rows(read(timed), "activities", "name", "duration_ns", "registers") == [("k", 250, 40)]
    second = (
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
        "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES\n"
        '1,2,1,7,7,64,64,0,0,40,0,48,64,"k.kd",1000,1500,0,3\n'
    )
    profile = read(second)
    assert rows(profile, "activities", "name", "duration_ns", "device", "registers") == [("k", 500, 2, 40)]
    assert rows(profile, "metrics", "metric", "avg") == [("SQ_WAVES", 3.0)]


def test_a_second_trace_of_kernels_is_another_run() -> None:
    profile = read(NEW_KERNELS + OLD_KERNELS)
    assert rows(profile, "activities", "session", "start_ns") == [(0, 0), (0, 4000), (1, 0)]


def test_impossible_durations_and_workgroups_are_unknown() -> None:
    text = NEW_KERNELS.replace(",5000,8000,", ",5000,4000,").replace("256,1,1,65536,1,1", "0,1,1,65536,1,1")
    assert rows(read(text), "activities", "duration_ns", "grid_x", "block_x")[0] == (None, None, 0)


def test_a_call_without_a_domain_is_read() -> None:
    lost = CALLS.replace('"HIP_RUNTIME_API","hipLaunchKernel",70,71,12', '"","hipLaunchKernel",70,71,12')
    assert rows(read(lost), "api_calls", "name", "start_ns") == rows(read(CALLS), "api_calls", "name", "start_ns")


def test_impossible_facts_of_an_agent_affect_no_other() -> None:
    huge = AGENTS.replace("304,64,32,64", "304,1000000000,1000000000,9999999999999999")
    profile = read(huge + MARKERS)
    columns = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")
    assert rows(profile, "devices", *columns) == [(304, None, None, None)]
    assert len(rows(profile, "ranges", "name")) == 4


def test_damaged_rows_are_reported_and_affect_no_other() -> None:
    lines = (NEW_KERNELS + NEW_KERNELS.splitlines()[1] + "\n").splitlines()
    lines[1] = lines[1][:50]
    lines[2] = lines[2].replace(",9000,", ",9o00,")
    profile = read("\n".join(lines))
    assert rows(profile, "activities", "name", "start_ns", "line") == [("gemm", 0, 4), ("relu(float*)", None, 3)]
    assert sorted(profile["issues"].filter(severity="warning")["line"]) == [2, 3]


@given(st.data())
def test_a_truncated_text_keeps_the_rows_above(data: st.DataObject) -> None:
    text = "\n".join((NEW_KERNELS, COPIES, CALLS, MARKERS, COUNTERS, STATS_V3))
    truncated = text[: data.draw(st.integers(0, len(text)))]
    try:
        profile = read(truncated)
    except ProftuiError:
        return
    lines = truncated.count("\n")
    expected = {line for line in (2, 3, 6, 7) if line <= lines}
    assert set(profile["activities"].filter(pl.col("line") <= min(lines, 7))["line"]) == expected


def test_the_process_id_is_read_from_the_file_name() -> None:
    profile = load_input("out/4711_kernel_trace.csv", stream=io.BytesIO(NEW_KERNELS.encode()))
    assert rows(profile, "sessions", "pid") == [(4711,)]


def test_real_files(corpus: Callable[[str], str]) -> None:
    folder = "rocprof/rocprofv3_docs"
    trace = load_input(corpus(f"{folder}/kernel_trace.csv"))
    assert trace["activities"]["duration_ns"].sum() == 795453
    assert trace["activities"].select("grid_x", "grid_y", "block_x").unique().rows() == [(16, 1024, 64)]
    assert load_input(corpus(f"{folder}/hip_api_stats.csv"))["summary"]["total_ns"].sum() == 308269675
    assert load_input(corpus(f"{folder}/marker_api_trace.csv"))["ranges"].height == 5
    v1 = load_input(corpus("rocprof/rocprofv1_vector_add/results.copy_stats.csv"))
    assert v1["summary"].select("section", "total_ns").rows() == [("gpu", 885689740), ("gpu", 180717650)]


def test_implausible_times_affect_only_their_rows() -> None:
    far = '"MARKER_CORE_API","far",70,71,5,9200000000000000000,9200000000000000009\n'
    profile = read("\n".join((NEW_KERNELS, CALLS, MARKERS + far)))
    assert rows(profile, "ops", "name", "duration_ns") == [("linear", 300)]
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns")[-1] == ("far", None, 9)
    assert [op for (op,) in rows(profile, "activities", "op")] == [None, 0]
    assert any("1 row has an implausible time" in reason for reason in reasons(profile))


def test_an_implausible_time_span_of_ranges_affects_only_ops() -> None:
    week_ns = 7 * 24 * 3600 * 10**9
    threads = "".join(f'"MARKER_CORE_API","part",70,{1000 + n},5,8500,8600\n' for n in range(4000))
    late_range = f'"MARKER_CORE_API","late",70,71,6,{week_ns},{week_ns + 9}\n'
    profile = read("\n".join((NEW_KERNELS, CALLS, MARKERS + threads + late_range)))
    assert rows(profile, "activities", "name", "duration_ns") == [("gemm", 3000), ("relu(float*)", 500)]
    assert profile["ranges"].height == 4 + 4000 + 1
    assert profile["ops"].is_empty()
    reported = "roctx ranges not converted to ops: the times span too long for one recording"
    assert reasons(profile).count(reported) == 1
