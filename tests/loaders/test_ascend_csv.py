"""Ascend's CSV files: kernels and communication, summaries, memory, steps; and communication.json."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from decimal import Decimal
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tui.analysis.expert.findings import findings
from tui.analysis.kernels import kernels
from tui.analysis.ops.ops_by_name import printed_ops
from tui.loaders.registry import load, load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

KERNELS = """\
Step Id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,\
Input Shapes
19,1,7,2,aclnnMatmul_MatMulV2,MatMulV2,AI_CORE,"1736413971558972.912\t",185.504,1.087,16,\"\"\"81920,4096\"\"\"
19,1,N/A,N/A,hcom_allReduce__586_0_1,hcom_allReduce_,HCCL,"1736413971558970.5\t",79089.52,0,0,N/A
19,1,8,2,aclnnAdd_Add,Add,AI_VECTOR_CORE,1736413971559160,2.1,0.2,8,
"""
STATISTIC = """\
OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
MatMulV2,AI_CORE,3,1959.079,624.152,653.026,706.614,57.9
TransData,AI_VECTOR_CORE,57,1423.208,6.54,24.969,70.801,42.1
"""
CALLS = "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\nacl,aclnnAdd,30.83,3,10.277,7.67,14.54,9.2\n"
MEMORY = """\
Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type
APP,"1727593954494062.866\t",,2130.09375,,,NPU:0
PTA,"1727593954494070.000\t",2.0,20.0,2.0,1,NPU:0
PTA,"1727593954494080.000\t",1.5,20.0,1.5,1,NPU:0
"""
CLUSTER_STEPS = "Step,Type,Index,Computing,Communication(Not Overlapped),Free\n,rank,0,80.5,1,2\n"
CACHE = "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n2,11052,0.5,0.25,trans_TransData_1\n"
STEPS = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage\n50,8873.756,1.5,2,3.5,4,5\n"


def read(text: str) -> Profile:
    return load_input("x.csv", stream=BytesIO(text.encode()))


def test_kernels_and_communication() -> None:
    profile = read(KERNELS)
    assert profile["activities"].select(
        pl.col("name").cast(str), "start_ns", "duration_ns", "stream", "grid_x", "iteration", "line"
    ).rows() == [
        ("aclnnMatmul_MatMulV2", 2_412, 185_504, 2, 16, 19, 2),
        ("aclnnAdd_Add", 189_500, 2_100, 2, 8, 19, 4),
    ]
    assert profile["ranges"].select(pl.col("name", "domain").cast(str), "start_ns", "duration_ns").rows() == [
        ("hcom_allReduce__586_0_1", "HCCL", 0, 79_089_520)
    ]
    assert profile["sessions"]["origin_ns"].to_list() == [1_736_413_971_558_970_500]
    assert profile["activities"]["arguments"][0] == 'Type: MatMulV2; Core: AI_CORE; Input shapes: "81920,4096"'


def rewrite_table(text: str, separator: str, columns: list[str] | None = None, *, reverse: bool = False) -> str:
    """Return the same table with another separator, and some of its columns or all in reverse order."""
    rows = list(csv.DictReader(StringIO(text)))
    names = columns or list(rows[0])[:: -1 if reverse else 1]
    target = StringIO()
    writer = csv.DictWriter(target, names, delimiter=separator, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return "\ufeff" + target.getvalue()


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize(
    "text", [KERNELS, STATISTIC, CALLS, MEMORY, STEPS], ids=["kernels", "statistic", "calls", "memory", "steps"]
)
def test_columns_come_in_any_order_between_commas_tabs_or_semicolons(text: str, separator: str) -> None:
    plain = read(text)
    profile = read(rewrite_table(text, separator, reverse=True))
    for name in ("activities", "ranges", "memory_events", "summary"):
        assert profile[name].rows() == plain[name].rows()
    assert sorted(profile["tool_figures"].drop("line").rows()) == sorted(plain["tool_figures"].drop("line").rows())


def test_missing_columns_are_tolerated() -> None:
    times = (pl.col("name").cast(str), "start_ns", "duration_ns")
    kernels = [("aclnnMatmul_MatMulV2", 2_412, 185_504), ("aclnnAdd_Add", 189_500, 2_100)]
    profile = read(rewrite_table(KERNELS, "\t", ["Start Time(us)", "Duration(us)", "Name"]))
    assert profile["activities"].select(times).rows() == kernels
    assert profile["ranges"].select(times).rows() == [("hcom_allReduce__586_0_1", 0, 79_089_520)]
    short = read(rewrite_table(KERNELS, ",", ["Name", "Accelerator Core", "Duration(us)"]))
    assert short["activities"].select(times).rows() == [(name, None, duration) for name, _, duration in kernels]
    assert [issue for issue in short["issues"]["reason"] if "1 collective operation" in issue]


def test_a_table_that_any_tool_could_write_is_declined() -> None:
    for header in ("Name,Duration(us)", "Name,Type,Start Time(us),Duration(us),Process ID,Thread ID"):
        with pytest.raises(ProftuiError, match="no profile found"):
            read(f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n")


def test_the_framework_is_named_if_its_tables_prove_it(tmp_path: Path) -> None:
    assert read(KERNELS)["sessions"]["framework"].to_list() == [None]
    assert read(MEMORY)["sessions"]["framework"].to_list() == ["PyTorch"]
    (tmp_path / "kernel_details.csv").write_text(KERNELS)
    (tmp_path / "memory_record.csv").write_text(MEMORY)
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert profile["sessions"]["framework"].to_list() == ["PyTorch"]


def test_kernels_of_older_tables_have_no_start_times() -> None:
    short = read(
        "Op Name,OP Type,Task Type,Task Duration(us)\nMatMul,MatMulV2,AI_CORE,10.5\nAdd,Add,AI_VECTOR_CORE,2.25\n"
    )
    figures = pl.col("name").cast(str), "start_ns", "duration_ns"
    assert short["activities"].select(figures).rows() == [("MatMul", None, 10_500), ("Add", None, 2_250)]
    header = (
        "Model Name,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time,Task Duration(us),Block Dim\n"
    )
    timed = read(header + 'resnet,1,3,5,trans,TransData,AI_CORE,"21341234.12\t",26.9,2\n')
    assert timed["activities"].select(figures).rows() == [("trans", 0, 26_900)]


def test_sums() -> None:
    columns = (pl.col("section", "name").cast(str), "calls", "total_ns", "min_ns", "avg_ns", "max_ns")
    assert read(STATISTIC)["summary"].select(columns).rows() == [
        ("gpu", "MatMulV2", 3, 1_959_079, 624_152, 653_026, 706_614),
        ("gpu", "TransData", 57, 1_423_208, 6_540, 24_969, 70_801),
    ]
    assert read(CALLS)["summary"].select(columns).rows() == [("api", "aclnnAdd", 3, 30_830, 7_670, 10_277, 14_540)]


def test_a_step_time_out_of_range_is_unknown() -> None:
    profile = read(CLUSTER_STEPS.replace("80.5", "1e308"))
    assert "a number out of range in the column 'Computing': shown as unknown" in profile["issues"]["reason"].to_list()
    assert sorted(profile["tool_figures"]["value"]) == [1000, 2000]
    assert findings(profile).height


def test_memory_and_steps() -> None:
    events = read(MEMORY)["memory_events"]
    assert events.select("start_ns", "delta_bytes", "allocated_bytes", "reserved_bytes", "device").rows() == [
        (0, None, 2 << 20, 20 << 20, 0),
        (10_000, -(1 << 19), 3 << 19, 20 << 20, 0),
    ]
    figures = read(STEPS)["tool_figures"].select("name", "value")
    assert figures.row(0) == ("step 50: Computing", 8_873_756.0)
    assert figures.height == 6


OP_MEMORY = """\
Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),\
Release Total Allocated(MB),Release Total Reserved(MB),Device Type
cann::Graph_70,192,1727593954494060.5,1727593954494065.5,0.25,242.0,0.0625,242.0,NPU:0
aten::mm,1024,1727593954494070.0,1727593954494080.0,2.0,20.0,1.0,20.0,NPU:0
"""


def test_memory_of_graphs_is_not_mixed_with_that_of_the_framework() -> None:
    """Their allocators have totals of their own."""
    columns = ("start_ns", "delta_bytes", "allocated_bytes", "reserved_bytes")
    profile = read(OP_MEMORY)
    assert profile["memory_events"].select(columns).rows() == [
        (0, 1 << 20, 2 << 20, 20 << 20),
        (10_000, -(1 << 20), 1 << 20, 20 << 20),
    ]
    assert profile["issues"]["reason"].to_list() == [
        "1 allocation of the graph engine (cann::) skipped: its totals are not those of the framework"
    ]
    graphs = read("".join(OP_MEMORY.splitlines(keepends=True)[:2]))
    assert graphs["memory_events"].select(columns).rows() == [
        (0, 192 << 10, 1 << 18, 242 << 20),
        (5_000, -(192 << 10), 1 << 16, 242 << 20),
    ]


def test_two_tables_of_the_same_memory_count_once(tmp_path: Path) -> None:
    for name, text in (("memory_record", MEMORY), ("operator_memory", OP_MEMORY)):
        (tmp_path / f"{name}.csv").write_text(text)
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    for events in (profile["memory_events"], read(MEMORY + OP_MEMORY)["memory_events"]):
        assert events.select("delta_bytes", "allocated_bytes").rows() == [(None, 2 << 20), (-(1 << 19), 3 << 19)]


@pytest.mark.parametrize("name", ["kernel_details_small.csv", "level1_rank0/kernel_details.csv"])
def test_real_kernels_and_communication_add_up(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["ascend"][name]
    profile = load_input(shared_file(f"corpus2/ascend/{name}"))
    total = profile["activities"]["duration_ns"].sum() + profile["ranges"]["duration_ns"].sum()
    assert total == int(Decimal(expected["sums"]["Duration(us)"]["sum"]) * 1000)
    assert profile["activities"].height + profile["ranges"].height == expected["rows"]


def test_real_sums_add_up() -> None:
    profile = load_input(shared_file("corpus2/ascend/level1_rank0/op_statistic.csv"))
    assert profile["summary"]["total_ns"].sum() == 8_873_751


def test_communication_json() -> None:
    waits = {"Wait Time(ms)": 0.25}
    operation = {
        "Communication Time Info": {"Start Timestamp(us)": 1695115378810042.5, "Elapse Time(ms)": 0.5, **waits}
    }
    later = {
        "Communication Time Info": {
            "Start Timestamp(us)": 1695115378810142.5,
            "Elapse Time(ms)": 1.25,
            "Transit Time(ms)": 0.75,
            **waits,
        }
    }
    total = {"Communication Time Info": {"Elapse Time(ms)": 1.75}}
    document = {"step2": {"p2p": {"send@1": operation}, "collective": {"hcom@2": later, "Total Op Info": total}}}
    # msprof writes no steps.
    without_steps = {"send@1": operation, "hcom@2": later, "Total HCCL Operators": total}
    for text in (json.dumps(document), json.dumps(without_steps, indent=4)):
        profile = load_input("communication.json", stream=BytesIO(text.encode()))
        assert profile["ranges"].select(pl.col("name").cast(str), "start_ns", "duration_ns").rows() == [
            ("send", 0, 500_000),
            ("hcom", 100_000, 1_250_000),
        ]
        # A sum without the times of some operations is unknown.
        assert profile["tool_figures"].select("name", "value").rows() == [
            ("Transit Time", None),
            ("Wait Time", 500_000.0),
            ("Synchronization Time", None),
            ("Idle Time", None),
        ]


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (
            {"p2p": {}, "collective": {"12": {"step1": {"0": {"Communication Time Info": {"Elapse Time(ms)": 1}}}}}},
            "the communication data of a whole",
        ),
        (
            {"step2": {"p2p": {}, "collective": {"allreduce-top1@1": {"0-1": {"Transit Size(MB)": 1.5}}}}},
            "an Ascend communication matrix",
        ),
    ],
)
def test_communication_without_single_operations_is_named(document: object, title: str) -> None:
    with pytest.raises(ProftuiError) as caught:
        load_input("cluster.json", stream=BytesIO(json.dumps(document).encode()))
    assert f"this is {title}" in caught.value.message
    assert "open communication.json" in caught.value.hint


@pytest.mark.parametrize("text", [KERNELS, STATISTIC, MEMORY, STEPS], ids=["kernels", "statistic", "memory", "steps"])
def test_damaged_files_are_read_or_declined(text: str) -> None:
    for profile in load_damaged(text, 120, at_least=0.25):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()


def test_the_tables_of_a_folder_are_one_session(tmp_path: Path) -> None:
    for name, text in (("api_statistic", CALLS), ("kernel_details", KERNELS), ("memory_record", MEMORY)):
        (tmp_path / f"{name}.csv").write_text(text.replace("17275939544940", "17364139715600"))
    profile, errors = load([str(tmp_path)])
    assert profile is not None
    assert errors == []
    assert profile["sessions"].select("session", "origin_ns").rows() == [(0, 1_736_413_971_558_970_500)]
    assert profile["sessions"]["source"][0].endswith("kernel_details.csv")
    assert profile["activities"].select("session", "start_ns", "line").rows() == [(0, 2_412, 2), (0, 189_500, 4)]
    assert profile["summary"].select("session", "line").rows() == [(0, None)]
    assert profile["memory_events"].select("session", "start_ns", "line").rows() == [
        (0, 1_099_500, None),
        (0, 1_109_500, None),
    ]


@pytest.mark.parametrize("is_archive", [False, True])
def test_tables_given_one_by_one_or_in_an_archive_are_one_session_per_folder(tmp_path: Path, is_archive: bool) -> None:
    tables = (("kernel_details", KERNELS), ("op_statistic", STATISTIC), ("step_trace_time", STEPS))
    files = [tmp_path / f"rank{rank}" / f"{name}.csv" for name, _ in tables for rank in (0, 1)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(dict(tables)[file.stem])
    paths = [str(file) for file in files]
    if is_archive:
        paths = [str(tmp_path / "run.zip")]
        with zipfile.ZipFile(paths[0], "w") as archive:
            for file in files:
                archive.write(file, str(file.relative_to(tmp_path)))
    profile, errors = load(paths)
    assert errors == []
    assert profile is not None
    assert [Path(source).name for source in profile["sessions"]["source"]] == ["kernel_details.csv"] * 2
    # Without their kernels, the sums of op_statistic.csv would add to the GPU time.
    assert kernels(profile).group_by("session").agg(pl.col("total_ns").sum()).sort("session").rows() == [
        (0, 187_604),
        (1, 187_604),
    ]


def test_kernels_of_two_runs_are_separate_sessions(tmp_path: Path) -> None:
    for name in ("kernel_details_1", "kernel_details_2"):
        (tmp_path / f"{name}.csv").write_text(KERNELS)
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert profile["sessions"].height == 2


def test_steps_of_a_cluster_are_named_by_rank() -> None:
    rows = ',rank,0,80.5,1,0,1,2\n,stage,"(0, 1)",80.5,1,0,1,2\n'
    figures = read(f"Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n{rows}")[
        "tool_figures"
    ]
    assert figures["name"].to_list()[:2] == ["rank 0: Computing", "stage (0, 1): Computing"]
    assert figures["value"].to_list()[:2] == [80_500.0, 80_500.0]
    assert read(STEPS)["tool_figures"]["name"][0] == "step 50: Computing"


def spreadsheet(text: str) -> str:
    """Return a table as a spreadsheet of a language with decimal commas saves it; times with tabs stay texts."""
    saved = StringIO()
    numbers = re.compile(r"[0-9]+\.[0-9]+")
    for row in csv.reader(StringIO(text)):
        csv.writer(saved, delimiter=";").writerow(re.sub(r"\.", ",", c) if numbers.fullmatch(c) else c for c in row)
    return saved.getvalue()


@pytest.mark.parametrize("text", [KERNELS, STATISTIC, CALLS, MEMORY, STEPS, CLUSTER_STEPS, CACHE])
def test_tables_of_a_spreadsheet_and_behind_tags_are_the_same(text: str) -> None:
    plain = read(text)
    tags = ("2026-02-03T09:12:44.5Z stdout F ", "[1,0]<stdout>:", "    ")
    tagged = ["".join(f"{tag}{line}\n" for line in text.splitlines()) for tag in tags]
    for saved in (spreadsheet(text), *tagged):
        for frame in ("activities", "ranges", "summary", "memory_events", "tool_figures", "metrics"):
            assert read(saved)[frame].equals(plain[frame]), (frame, saved)


@pytest.mark.parametrize("between", ["", "\n", "\nloss 0.5\n"])
def test_tables_can_follow_each_other(between: str) -> None:
    texts = [KERNELS, STATISTIC, CALLS, MEMORY, STEPS, CACHE]
    for first in texts:
        for second in texts:
            if first is not second:
                profiles = [read(text) for text in (first, second, first + between + second)]
                for frame in ("activities", "ranges", "summary", "memory_events", "tool_figures", "metrics"):
                    *heights, both = (profile[frame].height for profile in profiles)
                    assert both == sum(heights), (frame, first, second)


def test_cells_of_several_lines_behind_tags() -> None:
    text = OPERATORS.replace("Device_id,", "").replace("\n0,", "\n")
    tagged = "".join(f"[rank0]: {line}\n" for line in text.splitlines())
    assert read(tagged)["summary"].drop("line").equals(read(text)["summary"].drop("line"))


OPERATORS = """\
Device_id,Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),\
Device Self Duration(us),Device Total Duration(us)
0,aten::add,"4;
4","a.py(3): f;
b.py(4): g",10.5,11.5,2.25,3.25
0,aten::mul,,c.py(1): h,1,2,3,4
"""


def test_cells_of_several_lines() -> None:
    names = pl.col("section", "name", "input_shapes", "stack").cast(str)
    times = ("calls", "total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns")
    assert read(OPERATORS)["summary"].select(names, *times).rows() == [
        ("op", "aten::add", "4;\n4", "a.py(3): f;b.py(4): g", 1, 11_500, 10_500, 3_250, 2_250),
        ("op", "aten::mul", None, "c.py(1): h", 1, 2_000, 1_000, 4_000, 3_000),
    ]


def test_ops_have_the_times_of_the_device() -> None:
    ops = printed_ops(read(OPERATORS)).sort("gpu_self_ns", descending=True)
    assert ops.select("op", "calls", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns").rows() == [
        ("aten::mul", 1, 3_000, 4_000, 2_000),
        ("aten::add", 1, 2_250, 3_250, 11_500),
    ]


@pytest.mark.parametrize("text", [KERNELS, MEMORY])
def test_a_spreadsheet_with_decimal_commas_changes_no_time(text: str) -> None:
    table = StringIO()
    cells = [[re.sub(r"^(\d+)\.(\d+)(\t?)$", r"\1,\2\3", cell) for cell in row] for row in csv.reader(StringIO(text))]
    csv.writer(table, delimiter=";", lineterminator="\n").writerows(cells)
    with_commas, plain = read(table.getvalue()), read(text)
    for frame in ("activities", "ranges", "memory_events"):
        assert with_commas[frame].drop("line").equals(plain[frame].drop("line")), frame
    assert plain["ranges"].height + plain["memory_events"].height > 0


def test_unreadable_times_are_reported() -> None:
    profile = read(
        KERNELS.replace("1736413971558972.912", "x").replace("1736413971558970.5", "y").replace("1736413971559160", "z")
    )
    assert profile["activities"]["start_ns"].null_count() == profile["activities"].height == 2
    assert profile["ranges"].is_empty()
    reason = "the times of this table are unreadable: 1 collective operation or memory event skipped"
    assert reason in profile["issues"]["reason"].to_list()


TASKS = """\
Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)
0,N/A,PROFILING_ENABLE,4,4,0.020,1736413971558000.380\t,1736413971558000.400\t
0,aclnnMatmul_MatMulV2,AI_CORE,2,7,187.960,1736413971558971.420\t,1736413971559159.380\t
0,aclnnAdd_Add,AI_VECTOR_CORE,2,8,2.500,1736413971559160.000\t,1736413971559162.500\t
0,N/A,MEMCPY_ASYNC,3,9,10.250,1736413971559200.000\t,1736413971559210.250\t
0,N/A,EVENT_RECORD,3,10,0.000,1736413971559210.300\t,1736413971559210.300\t
"""


def test_tasks_of_msprof() -> None:
    profile = read(TASKS)
    columns = (pl.col("kind", "name").cast(str), "start_ns", "duration_ns", "device", "stream", "arguments", "line")
    assert profile["activities"].select(*columns).rows() == [
        ("kernel", "aclnnMatmul_MatMulV2", 0, 187_960, 0, 2, "Task type: AI_CORE", 3),
        ("kernel", "aclnnAdd_Add", 188_580, 2_500, 0, 2, "Task type: AI_VECTOR_CORE", 4),
        ("memcpy", "MEMCPY_ASYNC", 228_580, 10_250, 0, 3, "Task type: MEMCPY_ASYNC", 5),
    ]
    assert profile["sessions"]["origin_ns"].to_list() == [1_736_413_971_558_971_420]
    assert profile["issues"].select("text", "reason").rows() == [
        ("PROFILING_ENABLE", "2 tasks skipped: not kernels or copies")
    ]


def test_kernels_in_two_tables_count_once(tmp_path: Path) -> None:
    (tmp_path / "op_summary_1.csv").write_text(KERNELS)
    (tmp_path / "task_time_1.csv").write_text(TASKS)
    folder, _ = load([str(tmp_path)])
    assert folder is not None
    expected = [
        ("aclnnMatmul_MatMulV2", 2_412, 185_504),
        ("aclnnAdd_Add", 189_500, 2_100),
        ("MEMCPY_ASYNC", 229_500, 10_250),
    ]
    for profile in (folder, read(KERNELS + TASKS), read(TASKS + KERNELS)):
        times = profile["activities"].sort("start_ns").select(pl.col("name").cast(str), "start_ns", "duration_ns")
        assert times.rows() == expected
        assert profile["sessions"].height == 1
    without_copies = TASKS.replace("MEMCPY_ASYNC", "EVENT_WAIT").replace("1736413971558971.420", "1736413971558900.000")
    (tmp_path / "task_time_1.csv").write_text(without_copies)
    folder, _ = load([str(tmp_path)])
    assert folder is not None
    assert folder["sessions"]["origin_ns"].to_list() == [1_736_413_971_558_970_500]
    assert folder["activities"]["start_ns"].to_list() == [2_412, 189_500]


def test_two_tables_of_tasks_are_two_runs(tmp_path: Path) -> None:
    for name in ("task_time_1", "task_time_2"):
        (tmp_path / f"{name}.csv").write_text(TASKS)
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert profile["sessions"].height == 2
    assert profile["activities"].height == 6


def test_sizes_of_msprof_are_in_kilobytes() -> None:
    record = (
        "Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device\n"
        "1,GE,1699.550\t,192,502336,NPU:1\n1,GE,1999.550\t,64,502336,NPU:1\n"
    )
    columns = ("start_ns", "delta_bytes", "allocated_bytes", "reserved_bytes", "device")
    assert read(record)["memory_events"].select(columns).rows() == [
        (0, None, 192 << 10, 502336 << 10, 1),
        (300_000, -(128 << 10), 64 << 10, 502336 << 10, 1),
    ]
    assert read(record)["sessions"]["framework"].to_list() == [None]
    ops = (
        "Device_id,Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(KB),"
        "Allocation Total Reserved(KB),Release Total Allocated(KB),Release Total Reserved(KB),Device\n"
        "0,Graph_21,192,16995.950\t,92.6,192,4096,0,4096,NPU:0\n0,Graph_22,64,17095.950\t,,64,4096,,,NPU:0\n"
    )
    assert read(ops)["memory_events"].select(columns).rows() == [
        (0, 192 << 10, 192 << 10, 4 << 20, 0),
        (92_600, -(192 << 10), 0, 4 << 20, 0),
        (100_000, 64 << 10, 64 << 10, 4 << 20, 0),
    ]


def test_long_tables_are_judged_as_a_whole() -> None:
    # Rows are read in chunks of growing size: the first ones have the memory of one component alone.
    count = 3000
    header = MEMORY.partition("\n")[0]
    records = [
        f'{"PTA+GE" if n >= 1000 and n % 2 else "PTA"},"{10_000 + n}.000\t",{n}.0,4096.0,2.0,1,NPU:0'
        for n in range(count)
    ]
    memory = read("\n".join([header, *records]) + "\n")["memory_events"]
    assert memory.select("start_ns", "delta_bytes", "allocated_bytes").head(2).rows() == [
        (0, None, 1001 << 20),
        (2000, 2 << 20, 1003 << 20),
    ]
    assert memory.height == 1000
    assert memory["delta_bytes"].null_count() == 1
    tasks = [
        f"0,k,{'AI_CORE' if n % 2 else 'EVENT_WAIT'},1,{n},1.0,{10_000 + n}.0,{10_001 + n}.0" for n in range(count)
    ]
    profile = read("\n".join([TASKS.partition("\n")[0], *tasks]) + "\n")
    assert profile["activities"].height == 1500
    assert profile["issues"]["reason"].to_list() == ["1,500 tasks skipped: not kernels or copies"]
    header = CALLS.partition("\n")[0]
    calls = [f"{'acl' if n < 100 else 'node'},call{n},1.5,1,1.5,1.5,1.5,0" for n in range(count)]
    issues = read("\n".join([header, *calls]) + "\n")["issues"]
    assert issues.select("line", pl.col("reason").str.tail(18)).rows() == [(1, "(levels acl, node)")]


def test_sums_and_iterations_of_msprof() -> None:
    collectives = (
        "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,hcom_allReduce_,12,1200.5,80,100.042,130,80.0\n"
    )
    columns = (pl.col("section", "name").cast(str), "calls", "total_ns", "min_ns", "avg_ns", "max_ns", "time_pct")
    assert read(collectives)["summary"].select(*columns).rows() == [
        ("nvtx", "hcom_allReduce_", 12, 1_200_500, 80_000, 100_042, 130_000, 80.0)
    ]
    iterations = (
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),FP to BP Time(us),"
        "Iteration Refresh(us),Data Aug Bound(us),Model ID,Reduce Start(us),Reduce Duration(us),Reduce Start(us),"
        "Reduce Duration(us)\n0,2,2000.0,2800.5,2900.0,900.0,800.5,99.5,N/A,1,2100,50,2200,60\n"
    )
    figures = read(iterations)["tool_figures"]
    assert figures.select("name", "value", "unit").rows() == [
        ("iteration 2, model 1: Iteration Time", 900_000.0, "ns"),
        ("iteration 2, model 1: FP to BP Time", 800_500.0, "ns"),
        ("iteration 2, model 1: Iteration Refresh", 99_500.0, "ns"),
    ]


def test_calls_of_several_levels_overlap() -> None:
    nested = CALLS + "runtime,KernelLaunch,20.5,3,6.833,5,9,1\n"
    assert read(nested)["issues"]["reason"].to_list() == [
        "calls of one level contain calls of others, so their times overlap (levels acl, runtime)"
    ]
    assert read(CALLS)["issues"].is_empty()
    many = CALLS + "".join(f"level{n},call,1.5,1,1.5,1.5,1.5,0\n" for n in range(500))
    assert read(many)["issues"]["reason"][0].endswith(" and 489 more)")
