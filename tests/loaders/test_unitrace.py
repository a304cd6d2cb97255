"""unitrace's output: summaries of kernels and API calls, kernel properties and metrics, the device timeline."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tui.analysis.capabilities import recordable_needs
from tui.analysis.ops.ops_by_name import inferred_ops
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

SUMMARY = """\

=== Device Timing Summary ===

                Total Execution Time (ns):             89614076
    Total Device Time for L0 backend (ns):             14571760

== L0 Backend ==

                                         Kernel,  Calls,  Time (ns), Time (%),  Average (ns),  Min (ns),  Max (ns)
"f<int, 4>(A, B)[SIMD16 {56; 1; 1} {64; 8; 1}]",      1,    4706560,    32.30,       4706560,   4706560,   4706560
     hgemm_nocopy[SIMD16 {56; 1; 1} {64; 8; 1}],      2,    9865200,    67.70,       4932600,   4000000,   5865200


=== Kernel Properties ===

                                          Kernel, Number of Arguments, SLM Per Work Group
  "f<int, 4>(A, B)[SIMD16 {56; 1; 1} {64; 8; 1}]",                  27,                  8

== Kernel Metrics ==

Kernel,Device,SubDeviceId,GpuTime[ns],XVE_ACTIVE[%],
hgemm_nocopy[SIMD16 {56; 1; 1} {64; 8; 1}],0,0,4708080,89.46,

=== API Timing Summary ===

             Total Execution Time (ns):             81615043

== L0 Backend ==

                      Function,        Calls,   Time (ns),      Time (%),     Average (ns),   Min (ns),  Max (ns)
  zeCommandListHostSynchronize,            8,    19911548,    100.000000,          2488943,       1270,   5135361

the program's own last words, with, commas, 1, 2, 3
"""

PLACE = "Thread 47571 Device 35747536 :"
KERNEL = "f<int, 4>(A, B)[SIMD32 {1; 1024; 2} {64; 8; 1}]"
TIMELINE = f"""\
{PLACE} "zeCommandListAppendMemoryCopy(M2D)[4096]" [ns] 1000 (append) 1010 (submit) 1100 (start) 1400 (end)
{PLACE} "{KERNEL}" [ns] 1500 (append) 1510 (submit) 1600 (start) 2600 (end)
Thread 47571 Device 99 : "g" [ns] 1700 (append) 1710 (submit) 1800 (start) 1750 (end)
"""


def read(text: str) -> Profile:
    return load_input("run.log", stream=BytesIO(text.encode()))


def test_summaries() -> None:
    profile = read(SUMMARY)
    rows = profile["summary"].select(pl.col("section", "name").cast(str), "calls", "total_ns", "avg_ns", "line").rows()
    assert rows == [
        ("gpu", "f<int, 4>(A, B)[SIMD16 {56; 1; 1} {64; 8; 1}]", 1, 4706560, 4706560, 10),
        ("gpu", "hgemm_nocopy[SIMD16 {56; 1; 1} {64; 8; 1}]", 2, 9865200, 4932600, 11),
        ("api", "zeCommandListHostSynchronize", 8, 19911548, 2488943, 31),
    ]
    assert profile["sessions"]["tool"].to_list() == ["unitrace"]


def test_properties_and_metrics() -> None:
    rows = read(SUMMARY)["metrics"].select(pl.col("kernel", "metric", "unit").cast(str), "avg", "device").rows()
    assert rows == [
        ("f<int, 4>(A, B)[SIMD16 {56; 1; 1} {64; 8; 1}]", "Number of Arguments", None, 27, None),
        ("f<int, 4>(A, B)[SIMD16 {56; 1; 1} {64; 8; 1}]", "SLM Per Work Group", None, 8, None),
        ("hgemm_nocopy[SIMD16 {56; 1; 1} {64; 8; 1}]", "GpuTime", None, 4708080, "0"),
        ("hgemm_nocopy[SIMD16 {56; 1; 1} {64; 8; 1}]", "XVE_ACTIVE", "%", 89.46, "0"),
    ]


def replace_texts(text: str, *pairs: tuple[str, str]) -> str:
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    return text


def test_titles_of_other_versions_and_of_the_predecessors() -> None:
    plain = read(SUMMARY)["summary"].drop("line")
    for pairs in (
        ((" Summary ===", " Results: ==="), ("L0 Backend ==", "L0 Backend: ==")),
        (("== L0 Backend ==", "== Backend L0 =="),),
        ((" (ns), ", "(ns), "), ("Time (%)", "Time(%)")),
        (("\n", "\r\n"),),
    ):
        assert read(replace_texts(SUMMARY, *pairs))["summary"].drop("line").equals(plain)


def test_tables_of_times_are_read_without_their_titles() -> None:
    """As quoted in guides, which begin with the line of the backend."""
    lines = SUMMARY.splitlines(keepends=True)
    text = "".join(line for line in lines if "Timing Summary" not in line and "Total " not in line)

    profile = read(text)
    assert profile["summary"].drop("line").equals(read(SUMMARY)["summary"].drop("line"))
    assert profile["metrics"].drop("line").equals(read(SUMMARY)["metrics"].drop("line"))
    assert profile["sessions"].height == 1
    assert read(text * 2)["sessions"].height == 2
    with pytest.raises(ProftuiError):
        read("Function, Calls, Errors\nfetch, 3, 0\n")


def test_columns_that_only_old_versions_print() -> None:
    text = """\
=== Device Timing Results: ===

Total Execution Time (ns):    376807360
   Total Device Time (ns):    178294707

                      Kernel, Calls, SIMD, Transferred (bytes),  Time (ns),  Time (%),  Average (ns), Min (ns), Max (ns)
                        GEMM,     4,   32,                   0,  173655671,     97.40,      43413917, 43343928, 43517564
zeCommandListAppendMemoryCopy,   12,    0,            50331648,    4639036,      2.60,        386586,   271742,   553610
"""
    profile = read(text)
    assert profile["summary"].select(pl.col("name").cast(str), "calls", "total_ns", "min_ns", "time_pct").rows() == [
        ("GEMM", 4, 173655671, 43343928, 97.4),
        ("zeCommandListAppendMemoryCopy", 12, 4639036, 271742, 2.6),
    ]
    assert profile["issues"].is_empty()


SUBMISSION = """\
=== Kernel Submission Summary ===

                Total Execution Time (ns):             89614076
    Total Device Time for L0 backend (ns):                 3000

== L0 Backend ==

Kernel,  Calls,  Append (ns),  Append (%),  Submit (ns),  Submit (%),  Execute (ns),  Execute (%),
"f(int, 4)",  2,          800,       80.00,          400,       40.00,          2000,        66.67,
"g",          1,          200,       20.00,          600,       60.00,          1000,        33.33,
"""


def test_submission_of_kernels() -> None:
    alone, with_summary = (
        read(SUBMISSION),
        read(SUMMARY.replace("=== Kernel Properties", SUBMISSION + "\n=== Kernel Properties")),
    )
    assert alone["summary"].select(pl.col("name").cast(str), "calls", "total_ns", "time_pct").rows() == [
        ("f(int, 4)", 2, 2000, 66.67),
        ("g", 1, 1000, 33.33),
    ]
    metrics = alone["metrics"].select(pl.col("kernel", "metric").cast(str), "invocations", "avg", "total").rows()
    assert metrics[:3] == [
        ("f(int, 4)", "append time", 2, 400, 800),
        ("f(int, 4)", "submit time", 2, 200, 400),
        ("f(int, 4)", "execution time", 2, 1000, 2000),
    ]
    # Beside the table of kernels their times are not counted twice.
    assert with_summary["summary"]["total_ns"].sum() == read(SUMMARY)["summary"]["total_ns"].sum()
    assert with_summary["metrics"].height == alone["metrics"].height + 4


def test_metrics_of_every_launch_are_one_row_a_kernel() -> None:
    text = """\
=== Device #1 Metrics ===

Kernel, SubDevice, GlobalInstanceId, GpuTime[ns], XVE_ACTIVE[%],
"f(int, 4)", 0, 1, 100, 50.0,
"f(int, 4)", 0, 2, 300, 70.0,
"""
    columns = (pl.col("kernel", "metric", "unit").cast(str), "device", "invocations", "min", "max", "avg")
    assert read(text)["metrics"].select(columns).rows() == [
        ("f(int, 4)", "GpuTime", None, "1", 2, 100, 300, 200),
        ("f(int, 4)", "XVE_ACTIVE", "%", "1", 2, 50, 70, 60),
    ]


def test_output_of_the_program_between_rows_and_rows_that_are_missing() -> None:
    row = next(line for line in SUMMARY.splitlines() if "hgemm_nocopy" in line)
    between = SUMMARY.replace(row, f"epoch 1, loss 0.5\n{row}", 1)
    assert read(between)["summary"]["total_ns"].to_list() == read(SUMMARY)["summary"]["total_ns"].to_list()
    missing = read(SUMMARY.replace(f"{row}\n", "", 1))["issues"]
    assert missing.select("severity", "reason", "line").rows() == [
        (
            "warning",
            "the rows add up to 4706560 ns, less than the printed 14571760 ns: rows may be missing",
            10,
        )
    ]


TORCH_TABLE = """\
---------  ----------  ------------
     Name    Self CPU    # of Calls
---------  ----------  ------------
 aten::mm     5.000us             2
---------  ----------  ------------
Self CPU time total: 5.000us
"""
ASCEND_TABLE = """\
OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
MatMulV2,AI_CORE,3,1959.079,624.152,653.026,706.614,100.0
"""


@pytest.mark.parametrize("other", [TORCH_TABLE, ASCEND_TABLE], ids=["torch", "ascend"])
def test_a_table_of_another_tool_ends_a_table(other: str) -> None:
    tables = [SUMMARY.partition(title)[0] for title in ("=== Kernel Properties", "== Kernel Metrics", "=== API")]
    for text in tables:
        both, alone, table = read(text + other), read(text), read(other)
        for frame in ("summary", "metrics"):
            assert both[frame].height == alone[frame].height + table[frame].height
        assert both["sessions"].height == 2


def test_a_second_summary_is_another_run() -> None:
    assert read(SUMMARY + SUMMARY)["sessions"].height == 2


def test_timeline() -> None:
    profile = read(TIMELINE)
    rows = profile["activities"].select(
        pl.col("kind", "name", "copy_kind").cast(str),
        "start_ns",
        "duration_ns",
        "device",
        "size_bytes",
        "grid_y",
        "block_x",
    )
    assert rows.rows() == [
        ("memcpy", "zeCommandListAppendMemoryCopy(M2D)", "HtoD", 100, 300, 0, 4096, None, None),
        ("kernel", "f<int, 4>(A, B)", None, 600, 1000, 0, None, 1024, 64),
        ("kernel", "g", None, 800, None, 1, None, None, None),
    ]
    assert "the end is before the start" in profile["issues"]["reason"].to_list()[1]
    assert inferred_ops(profile)["op_type"].to_list() == ["unknown", "memcpy HtoD"]


def test_incomplete_lines_of_the_timeline_are_reported() -> None:
    first, second, third = TIMELINE.splitlines()
    for end, others in ((80, ()), (-40, ()), (80, (third,)), (-40, (third,))):
        profile = read("\n".join((first, second[:end], *others)))
        assert profile["activities"]["line"].to_list() == [1, *(3 for _ in others)]
        assert profile["issues"].filter(severity="warning").select("line", "reason").rows()[:1] == [
            (2, "not a complete line of the timeline: skipped")
        ]


def test_timeline_of_tiles_and_of_the_predecessors() -> None:
    tiles = replace_texts(TIMELINE, ("Device 99 :", "Device 0x55aa10 SubDevice 1 :"), ("Thread", "<PID:7> Thread"))
    assert read(tiles)["activities"]["device"].to_list() == [0, 0, 1]
    queue = "Device Timeline (queue: 0x55a9c7e51e70): "
    old = f"""\
{queue}clEnqueueWriteBuffer[64 bytes] [ns] = 1000 (queued) 1010 (submit) 1100 (start) 1400 (end)
{queue}f<short>[SIMD32 {{4; 1; 1}} {{100; 1; 1}}]<1.1> [ns] = 1500 (append) 1510 (submit) 1600 (start) 2600 (end)
{queue}GEMM[SIMD32, {{1024, 1024, 1}}, {{0, 0, 0}}](5) [ns] = 1700 (append) 1710 (submit) 1800 (start) 1900 (end)
"""
    activities = read(old)["activities"]
    columns = (pl.col("kind", "name", "copy_kind").cast(str), "start_ns", "duration_ns", "stream", "device")
    assert activities.select(columns).rows() == [
        ("memcpy", "clEnqueueWriteBuffer", "HtoD", 100, 300, 0, None),
        ("kernel", "f<short>", None, 600, 1000, 0, None),
        ("kernel", "GEMM", None, 800, 100, 0, None),
    ]
    assert activities.select("grid_x", "block_x", "size_bytes").rows() == [
        (None, None, 64),
        (4, 100, None),
        (None,) * 3,
    ]


@pytest.mark.parametrize("name", ["cl_gemm_d.txt", "dpc_gemm_d.txt", "dpc_gemm_h.txt", "gemm_fp16_flops.1799853"])
def test_real_summaries_add_up(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["unitrace"][name]
    profile = load_input(shared_file(f"corpus2/unitrace/{name}"))
    sections = [section for section in expected["sections"] if section["title"].endswith("Timing Summary")]
    summary = profile["summary"]
    assert summary["total_ns"].sum() == sum(section["total_ns"] for section in sections)
    assert summary["calls"].sum() == sum(section["calls"] for section in sections)
    assert summary.height == sum(section["rows"] for section in sections)


@pytest.mark.parametrize("name", ["dpc_gemm_t.txt", "torch_mat_mul_t.txt"])
def test_real_timelines_add_up(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["unitrace"][name]["timeline"]
    activities = load_input(shared_file(f"corpus2/unitrace/{name}"))["activities"]
    assert (activities.height, activities["duration_ns"].sum()) == (expected["events"], expected["total_ns"])


@pytest.mark.parametrize("text", [SUMMARY, TIMELINE, SUBMISSION], ids=["summary", "timeline", "submission"])
def test_damaged_output_is_read_or_declined(text: str) -> None:
    for profile in load_damaged(text, 120):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()


HOST, DEVICE = 4711, (1 << 32) - 1


def event(name: str, start: int, duration: int, **fields: Any) -> dict[str, Any]:
    common = {"ph": "X", "tid": 4712, "pid": HOST, "name": name, "cat": "cpu_op"}
    return {**common, "ts": 1714550400000000 + start, "dur": duration, **fields}


def work(number: int, name: str, start: int, duration: int, engine: int = DEVICE) -> dict[str, Any]:
    return event(name, start, duration, pid=DEVICE, tid=engine, cat="gpu_op", args={"id": str(number)})


def flow(number: int, start: int) -> dict[str, Any]:
    return {**event("", start, 0), "ph": "s", "cat": f"Flow_H2D_{number}_0", "id": number}


def api_call(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": f"{kind}_name", "pid": pid, "tid": tid, "args": {"name": name}}


EVENTS = [
    *(event("step 0", 0, 2000), event("zeCommandListAppendLaunchKernel", 100, 20), flow(1, 100), flow(2, 100)),
    *(event("step 1", 2000, 900), event("clEnqueueNDRangeKernel", 2100, 20), flow(3, 2100)),
    work(1, "Tile #1: f<int, 4>[SIMD32 {56; 1; 1} {64; 8; 1}]", 300, 500),
    work(2, "zeCommandListAppendMemoryCopy(M2D)[4096 bytes]", 850, 40, DEVICE - 1),
    work(3, "relu", 2300, 600),
]
NAMES = [
    *(
        api_call("process", "RANK 2 HOST<node7>", HOST),
        api_call("process", "RANK 2 DEVICE<node7>0:4d:0:0 #1.0", DEVICE),
    ),
    api_call("thread", "Thread 4712 L0 Engine<0,0>", DEVICE, DEVICE),
    api_call("thread", "Thread 4712 L0 Engine<1,0>", DEVICE, DEVICE - 1),
]


def trace(*events: dict[str, Any]) -> str:
    return '{ "traceEvents":[\n' + ",\n".join(map(json.dumps, events)) + "\n]\n}\n"


def test_a_trace() -> None:
    profile = read(trace(*EVENTS, *NAMES))
    assert profile["sessions"].select("format", "tool", "pid", "rank", "host").rows() == [
        ("unitrace-json", "unitrace", HOST, 2, "node7")
    ]
    columns = (pl.col("kind", "name").cast(str), "start_ns", "duration_ns", "device", "stream", "grid_x", "size_bytes")
    assert profile["activities"].select(columns).rows() == [
        ("kernel", "f<int, 4>", 300_000, 500_000, 1, 0, 56, None),
        ("memcpy", "zeCommandListAppendMemoryCopy(M2D)", 850_000, 40_000, 1, 1, None, 4096),
        ("kernel", "relu", 2_300_000, 600_000, 1, 0, None, None),
    ]
    calls = profile["api_calls"].select(pl.col("name").cast(str), "start_ns", "correlation").rows()
    assert calls == [("zeCommandListAppendLaunchKernel", 100_000, 0), ("clEnqueueNDRangeKernel", 2_100_000, 1)]
    # A call that submits several kernels; the work belongs to the step of its call.
    assert profile["activities"].select("correlation", "iteration").rows() == [(0, 0), (0, 0), (1, 1)]
    assert profile["ranges"].select(pl.col("name").cast(str), "duration_ns").rows() == [
        *(("step 0", 2_000_000), ("step 1", 900_000)),
    ]


def test_ranks_of_a_merged_trace_are_sessions() -> None:
    other_rank = [{**row, "pid": row["pid"] - 1000} for row in EVENTS]
    names = [{**row, "pid": row["pid"] - 1000} for row in NAMES]
    for row in names:
        row["args"] = {"name": row["args"]["name"].replace("RANK 2", "RANK 0")}
    profile = read(trace(*EVENTS, *other_rank, *NAMES, *names))
    assert profile["sessions"].select("rank", "pid").rows() == [(0, HOST - 1000), (2, HOST)]
    assert profile["activities"]["session"].to_list() == [0, 0, 0, 1, 1, 1]


def test_devices_of_opencl_have_the_rank_of_their_process() -> None:
    names = [*NAMES[:1], api_call("process", "RANK 2 DEVICE<node7>0:4d:0:0", DEVICE)]
    profile = read(trace(*EVENTS, *names))
    assert profile["sessions"].select("rank", "host").rows() == [(2, "node7")]
    assert profile["activities"].select("device", "session").rows() == [(None, 0)] * 3


def test_a_truncated_trace_has_no_names() -> None:
    text = trace(*EVENTS, *NAMES)
    profile = read(text[: text.index(json.dumps(NAMES[0]))])
    assert profile["activities"].select("duration_ns", "device", "stream").rows() == [
        (500_000, None, None),
        (40_000, None, None),
        (600_000, None, None),
    ]
    assert profile["sessions"]["rank"].to_list() == [None]
    with pytest.raises(ProftuiError, match="a trace of unitrace without events"):
        read(trace(*NAMES, {**work(1, "f", 0, 1), "ph": "t", "cat": "gpu_op"}))


def test_damaged_traces_are_read_or_declined() -> None:
    for profile in load_damaged(trace(*EVENTS, *NAMES), 120, at_least=0.3):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()


def test_advice_names_unitrace() -> None:
    advice = {need.name: need.record for need in recordable_needs(read(SUMMARY))}
    assert "device names" not in advice
    assert advice["individual API calls"] == "unitrace --chrome-call-logging ./app"
    assert all(command.startswith("unitrace ") for name, command in advice.items() if name != "input shapes")
