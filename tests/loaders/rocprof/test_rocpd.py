"""Databases of AMD's profilers."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.rocprof.rocpd_build import ENDING, write
from tui.loaders.registry import load_input
from tui.loaders.rocprof.rocprofv3_json import map_json
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tui.model.profile import Profile

T0 = 5_000_000

AGENT = {
    "cu_count": 304,
    "max_waves_per_cu": 32,
    "wave_front_size": 64,
    "lds_size_in_kb": 64,
    "mem_banks": [{"size_in_bytes": 1 << 30}, {"size_in_bytes": 1 << 30}],
}
STRINGS = ["HIP_RUNTIME_API", "KERNEL_DISPATCH", "MARKER_CORE_API", "hipLaunchKernel", "roctxRangePushA"]
STRINGS += ["MEMORY_COPY_HOST_TO_DEVICE", "step 1", "roctxMarkA", "roctxRangeStartA", "MEMORY_COPY"]
NUMBER = {text: number for number, text in enumerate(STRINGS, 2)}


def event(number: int, category: str, stack: int, message: str | None = None) -> dict[str, Any]:
    extdata = "{}" if message is None else json.dumps({"message": message})
    return {"id": number, "category_id": NUMBER[category], "stack_id": stack, "correlation_id": 0, "extdata": extdata}


def region(number: int, name: str, start: int, end: int) -> dict[str, Any]:
    return {"id": number, "pid": 1, "tid": 3, "start": start, "end": end, "name_id": NUMBER[name], "event_id": number}


def dispatch(number: int, event_id: int, start: int, end: int, **changes: Any) -> dict[str, Any]:
    sizes = {"workgroup_size_x": 256, "workgroup_size_y": 1, "workgroup_size_z": 1}
    grid = {"grid_size_x": 1000, "grid_size_y": 2, "grid_size_z": 1}
    ids = {"pid": 1, "tid": 3, "agent_id": 4, "kernel_id": 7, "queue_id": 9, "stream_id": 0, "region_name_id": 1}
    times = {"id": number, "event_id": event_id, "start": start, "end": end, "group_segment_size": 5000}
    return {**sizes, **grid, **ids, **times, **changes}


def recording() -> dict[str, list[dict[str, Any]]]:
    return {
        "string": [{"id": 1, "string": ""}, *({"id": number, "string": text} for text, number in NUMBER.items())],
        "info_node": [{"id": 8, "hostname": "node7"}],
        "info_process": [{"id": 1, "nid": 8, "pid": 4711, "command": "./train"}],
        "info_thread": [{"id": 3, "tid": 4712}],
        "info_agent": [
            {"id": 0, "type": "CPU", "type_index": 0, "name": "CPU", "product_name": "CPU", "extdata": "{}"},
            {"id": 4, "type": "GPU", "type_index": 0, "name": "gfx942", "product_name": "AMD Instinct MI300X"}
            | {"extdata": json.dumps(AGENT)},
            {"id": 5, "type": "GPU", "type_index": 1, "name": "gfx942", "product_name": "", "extdata": "damaged"},
        ],
        "info_kernel_symbol": [
            {"id": 7, "kernel_name": "_Z3addPfi.kd", "display_name": "", "group_segment_size": 4096}
            | {"arch_vgpr_count": 32, "accum_vgpr_count": 4, "sgpr_count": 48}
        ],
        "event": [
            event(1, "HIP_RUNTIME_API", 10),
            event(2, "KERNEL_DISPATCH", 10),
            event(3, "MARKER_CORE_API", 12, "step 1"),
            event(4, "MARKER_CORE_API", 13, "forward"),
            event(5, "HIP_RUNTIME_API", 14),
            event(6, "KERNEL_DISPATCH", 14),
            event(7, "MEMORY_COPY", 0),
            event(8, "MARKER_CORE_API", 15, "step 2"),
            event(9, "MARKER_CORE_API", 16, "here"),
            event(10, "MARKER_CORE_API", 17),
        ],
        "region": [
            region(1, "hipLaunchKernel", T0 + 20, T0 + 25),
            region(5, "hipLaunchKernel", T0 + 120, T0 + 125),
            region(3, "roctxRangePushA", T0, T0 + 90),
            region(4, "roctxRangePushA", T0 + 10, T0 + 40),
            region(8, "roctxRangePushA", T0 + 100, T0 + 190),
            region(10, "roctxRangeStartA", T0 + 15, T0 + 300),
        ],
        "track": [{"id": 1, "pid": 1, "tid": 3, "name_id": NUMBER["MARKER_CORE_API"]}],
        "sample": [{"id": 9, "track_id": 1, "timestamp": T0 + 17, "event_id": 9}],
        "kernel_dispatch": [
            dispatch(1, 2, T0 + 50, T0 + 60),
            dispatch(2, 6, T0 + 200, T0 + 230, agent_id=5, group_segment_size=100, region_name_id=NUMBER["step 1"]),
        ],
        "memory_copy": [
            {"id": 1, "pid": 1, "tid": 3, "start": T0 + 1, "end": T0 + 5, "size": 64, "stream_id": 2, "event_id": 7}
            | {"name_id": NUMBER["MEMORY_COPY_HOST_TO_DEVICE"], "dst_agent_id": 4, "src_agent_id": 0}
        ],
        "memory_allocate": [{"id": 1}],
    }


def texts(profile: Profile, frame: str, *columns: str) -> list[tuple[object, ...]]:
    return profile[frame].select(columns).rows()


def test_a_recording_of_rocprofv3(tmp_path: Path) -> None:
    profile = load_input(write(tmp_path / "out.db", recording()))
    session = profile["sessions"].row(0, named=True)
    assert (session["format"], session["tool"], session["host"]) == ("rocpd", "rocprofv3", "node7")
    assert (session["pid"], session["command"], session["origin_ns"]) == (4711, "./train", None)
    assert session["iteration_source"] == "roctx range step"
    columns = ("kind", "name", "short_name", "start_ns", "duration_ns", "device", "stream", "op_join", "iteration")
    assert texts(profile, "activities", *columns) == [
        ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_HOST_TO_DEVICE", 1, 4, 0, 2, "launch not recorded", None),
        ("kernel", "add(float*, int)", "add", 50, 10, 0, 0, "launch", 1),
        ("kernel", "add(float*, int)", "add", 200, 30, 1, 0, "launched outside any op", 2),
    ]
    sizes = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers")
    assert texts(profile, "activities", *sizes)[1] == (4, 2, 1, 256, 1, 1, 32)
    shared = ("static_shared_bytes", "dynamic_shared_bytes", "shared_bytes", "size_bytes", "copy_kind", "arguments")
    facts = "Accumulation VGPRs: 4; SGPRs: 48"
    assert texts(profile, "activities", *shared) == [
        (None, None, None, 64, "HtoD", None),
        (4096, 904, None, None, None, facts),
        (None, None, 100, None, None, f"{facts}; roctx range: step 1"),
    ]
    assert texts(profile, "api_calls", "name", "start_ns", "duration_ns", "pid", "tid", "correlation") == [
        ("hipLaunchKernel", 20, 5, 4711, 4712, 10),
        ("hipLaunchKernel", 120, 5, 4711, 4712, 14),
    ]
    ranges = profile["ranges"].select("name", "start_ns", "duration_ns", "tid", "iteration").sort("start_ns").rows()
    assert ranges == [
        ("step 1", 0, 90, 4712, 1),
        ("forward", 10, 30, 4712, None),
        ("roctxRangeStartA", 15, 285, None, None),
        ("here", 17, 0, 4712, None),
        ("step 2", 100, 90, 4712, 2),
    ]
    op = profile["activities"]["op"][1]
    assert profile["ops"].filter(pl.col("op") == op)["name"].to_list() == ["forward"]
    assert texts(profile, "devices", "device", "name", "compute_capability", "sm_count", "memory_bytes") == [
        (0, "AMD Instinct MI300X", "gfx942", 304, 2 << 30),
        (1, "gfx942", "gfx942", None, None),
    ]
    assert texts(profile, "devices", "max_threads_per_sm", "shared_memory_per_sm_bytes")[0] == (2048, 65536)
    assert profile["issues"]["reason"].to_list() == [
        "times count from the first event, at 5000000 ns of the machine clock",
        "in the database but not in any view: memory allocations (1)",
    ]


def test_counters_of_kernels(tmp_path: Path) -> None:
    tables = recording()
    tables["info_pmc"] = [{"id": 1, "name": "SQ_WAVES", "description": "waves"}]
    tables["pmc_event"] = [
        {"id": 1, "event_id": 2, "pmc_id": 1, "value": 3.0},
        {"id": 2, "event_id": 2, "pmc_id": 1, "value": 4.0},
        {"id": 3, "event_id": 2, "pmc_id": 2, "value": 1.0},
    ]
    profile = load_input(write(tmp_path / "out.db", tables))
    columns = ("device", "kernel", "grid_x", "block_x", "invocations", "metric", "description", "min", "max", "avg")
    gpu, name = "AMD Instinct MI300X (0)", "add(float*, int)"
    assert texts(profile, "metrics", *columns) == [
        (gpu, name, 4, 256, 1, "SQ_WAVES", "waves", 7.0, 7.0, 7.0),
        (gpu, name, 4, 256, 1, "counter 2", None, 1.0, 1.0, 1.0),
    ]


def test_a_counter_without_a_value_is_unknown(tmp_path: Path) -> None:
    tables = recording()
    tables["pmc_event"] = [{"id": 1, "event_id": 2, "pmc_id": 1, "value": None}]
    profile = load_input(write(tmp_path / "out.db", tables))
    assert texts(profile, "metrics", "metric", "invocations", "min", "max", "avg") == [
        ("counter 1", 1, None, None, None)
    ]


def test_several_processes_and_recordings_are_sessions(tmp_path: Path) -> None:
    tables = recording()
    tables["info_process"].append({"id": 2, "nid": 8, "pid": 4800, "command": "./other"})
    tables["info_process"].append({"id": 3, "nid": 8, "pid": 4900, "command": "./idle"})
    tables["kernel_dispatch"][1]["pid"] = 2
    path = tmp_path / "out.db"
    write(path, tables)
    profile = load_input(write(path, recording(), ending="_0001"))
    assert profile["sessions"]["pid"].to_list() == [4711, 4800, 4711]
    assert texts(profile, "activities", "session", "start_ns") == [(0, 1), (0, 50), (1, 200), (2, 1), (2, 50), (2, 200)]


def test_counters_belong_to_the_kernels_of_their_process(tmp_path: Path) -> None:
    tables = recording()
    tables["info_process"].append({"id": 2, "nid": 8, "pid": 4800, "command": "./other"})
    tables["kernel_dispatch"][1]["pid"] = 2
    tables["info_pmc"] = [{"id": 1, "name": "SQ_WAVES"}]
    tables["pmc_event"] = [
        {"id": 1, "event_id": 2, "pmc_id": 1, "value": 3.0},
        {"id": 2, "event_id": 6, "pmc_id": 1, "value": 40.0},
    ]
    profile = load_input(write(tmp_path / "out.db", tables))
    assert texts(profile, "metrics", "session", "metric", "invocations", "avg") == [
        (0, "SQ_WAVES", 1, 3.0),
        (1, "SQ_WAVES", 1, 40.0),
    ]


def test_rows_of_omitted_processes_are_reported(tmp_path: Path) -> None:
    tables = recording()
    tables["info_process"].append({"id": 2, "nid": 8, "pid": 4800, "command": "./other"})
    tables["kernel_dispatch"][0]["pid"], tables["kernel_dispatch"][1]["pid"] = 2, 77
    profile = load_input(write(tmp_path / "out.db", tables))
    assert texts(profile, "activities", "session", "kind") == [(0, "memcpy"), (1, "kernel")]
    reported = (None, "error", "1 row of the other processes skipped")
    assert reported in texts(profile, "issues", "session", "severity", "reason")


@pytest.mark.parametrize(
    "agent",
    [
        {"mem_banks": 5},
        {"mem_banks": [7, {"size_in_bytes": (1 << 50) - 1}, {"size_in_bytes": (1 << 50) - 1}]},
        {"max_waves_per_cu": 1 << 40, "wave_front_size": 1 << 40, "lds_size_in_kb": (1 << 50) - 1},
    ],
)
def test_impossible_facts_of_an_agent_are_unknown(tmp_path: Path, agent: dict[str, object]) -> None:
    tables = recording()
    tables["info_agent"][1]["extdata"] = json.dumps(agent)
    profile = load_input(write(tmp_path / "out.db", tables))
    columns = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")
    assert texts(profile, "devices", *columns)[0] == (None,) * 4


def test_a_recording_without_rows_is_declined(tmp_path: Path) -> None:
    with pytest.raises(ProftuiError, match="an empty rocprof"):
        load_input(write(tmp_path / "empty.db", {"string": [{"id": 1, "string": ""}]}))


def test_damaged_rows_affect_only_themselves(tmp_path: Path) -> None:
    tables = recording()
    tables["kernel_dispatch"] = [
        dispatch(1, 99, T0 + 9, T0 + 3, workgroup_size_x=0, grid_size_y=1 << 60, kernel_id=77, agent_id=66),
        dispatch(2, 2, T0 + 50, T0 + 60),
    ]
    path = write(tmp_path / "out.db", tables)
    with sqlite3.connect(path) as connection:
        connection.execute(f'DROP TABLE "rocpd_info_thread{ENDING}"')
    connection.close()
    profile = load_input(path)
    columns = ("name", "start_ns", "duration_ns", "grid_x", "grid_y", "block_x", "device")
    assert texts(profile, "activities", *columns)[1:] == [
        (None, 9, None, None, None, 0, None),
        ("add(float*, int)", 50, 10, 4, 2, 256, 0),
    ]
    assert profile["api_calls"]["tid"].to_list() == [None, None]
    assert "1 number out of range: shown as unknown" in profile["issues"]["reason"].to_list()


@given(st.text(max_size=30) | st.sampled_from(['{"message": 5}', '{"a": ' * 2000 + "1" + "}" * 2000, "[]", "nul"]))
def test_any_text_instead_of_json_is_accepted(text: str) -> None:
    assert len(map_json(pl.Series([text, None, '{"message": "x"}']), lambda value: value.get("message"))) == 3


def first_rocprof(path: Path, *arguments: str) -> Profile:
    """Read two calls of process 7 with their GPU work, and further rows."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE HIP (BeginNs, EndNs, pid, tid, Name, args, 'Index', Data)")
        for table in ("OPS", "COPY"):
            connection.execute(
                f'CREATE TABLE {table} (BeginNs, EndNs, "dev-id", "queue-id", Name, pid, tid, "stream-id", "Index")'
            )
        connection.execute("CREATE TABLE KERN ('Index', KernelName)")
        connection.execute(
            "INSERT INTO HIP VALUES (100, 130, 7, 8, 'hipMemcpy', '( dst(0x1) sizeBytes(4096) kind(1))', 1, '')"
        )
        connection.execute("INSERT INTO HIP VALUES (140, 145, 7, 8, 'hipLaunchKernel', '( kernel(f))', 2, '')")
        connection.execute("INSERT INTO OPS VALUES (150, 170, 4, 0, 'f(float*)', 7, 8, 1, 2)")
        connection.execute("INSERT INTO COPY VALUES (110, 120, 4, 0, 'CopyHostToDevice', 7, 8, 0, 1)")
        for row in arguments:
            connection.execute(f"INSERT INTO {row}")
    connection.close()
    return load_input(str(path))


def test_processes_of_the_first_rocprof_are_sessions(tmp_path: Path) -> None:
    profile = first_rocprof(
        tmp_path / "results.db",
        "HIP VALUES (150, 155, 9, 9, 'hipLaunchKernel', '( kernel(g))', 2, '')",
        "OPS VALUES (160, 165, 4, 0, 'g(int)', 9, 9, 1, 2)",
        "OPS VALUES (170, 175, 4, 0, 'h(int)', NULL, 9, 1, 3)",
    )
    assert profile["sessions"]["pid"].to_list() == [7, 9, None]
    assert texts(profile, "activities", "session", "short_name", "correlation") == [
        (0, "CopyHostToDevice", 1),
        (0, "f", 2),
        (1, "g", 2),
        (2, "h", 3),
    ]
    assert texts(profile, "api_calls", "session", "start_ns") == [(0, 0), (0, 40), (1, 50)]


def test_the_first_rocprof(tmp_path: Path) -> None:
    profile = first_rocprof(tmp_path / "results.db")
    assert profile["sessions"].select("format", "tool", "pid").rows() == [("rocprof-database", "rocprof", 7)]
    columns = ("kind", "name", "short_name", "start_ns", "duration_ns", "device", "stream", "size_bytes", "copy_kind")
    assert texts(profile, "activities", *columns, "correlation") == [
        ("memcpy", "CopyHostToDevice", "CopyHostToDevice", 10, 10, 4, 0, 4096, "HtoD", 1),
        ("kernel", "f(float*)", "f", 50, 20, 4, 1, None, None, 2),
    ]
    assert texts(profile, "api_calls", "name", "start_ns", "duration_ns", "pid", "tid") == [
        ("hipMemcpy", 0, 30, 7, 8),
        ("hipLaunchKernel", 40, 5, 7, 8),
    ]


STRINGS_OF_RPD = (
    *("", "hipLaunchKernel", "hipMemcpyAsync", "UserMarker", "KernelExecution", "CopyHostToDevice", "Barrier"),
    *("scale(float*, int)", "grid(256)", "forward"),
)


def rpd(path: Path, *rows: str, strings: str = "rocpd_string") -> Profile:
    """Read a trace of rocmProfileData: a range with a launch and a copy of process 7, and a barrier; further rows."""
    with sqlite3.connect(path) as connection:
        for table in (
            "rocpd_string (id, string)",
            "rocpd_ustring (id, string)",
            "rocpd_api (id, pid, tid, start, end, apiName_id, args_id)",
            "rocpd_op (id, gpuId, queueId, sequenceId, start, end, description_id, opType_id)",
            "rocpd_api_ops (id, api_id, op_id)",
            "rocpd_kernelapi (api_ptr_id, gridX, workgroupX, workgroupY, workgroupZ, kernelName_id)",
            "rocpd_copyapi (api_ptr_id, size, kind)",
        ):
            if strings == "rocpd_ustring" or "ustring" not in table:
                connection.execute(f"CREATE TABLE {table}")
        for number, text in enumerate(STRINGS_OF_RPD, start=1):
            connection.execute("INSERT INTO rocpd_string VALUES (?, ?)", (number, text))
        if strings == "rocpd_ustring":
            connection.execute("INSERT INTO rocpd_ustring VALUES (10, 'backward')")
        for row in (
            "rocpd_api VALUES (1, 7, 8, 1000, 1400, 4, 10)",
            "rocpd_api VALUES (2, 7, 8, 1050, 1060, 2, 9)",
            "rocpd_api VALUES (3, 7, 8, 1100, 1130, 3, 1)",
            "rocpd_op VALUES (1, 0, 2, 0, 1200, 1290, 8, 5)",
            "rocpd_op VALUES (2, 0, 3, 0, 1300, 1340, 1, 6)",
            "rocpd_op VALUES (3, 0, 3, 0, 1350, 1360, 1, 7)",
            "rocpd_api_ops VALUES (1, 2, 1)",
            "rocpd_api_ops VALUES (2, 3, 2)",
            "rocpd_kernelapi VALUES (2, 1024, 256, 1, 1, 8)",
            "rocpd_copyapi VALUES (3, 4096, 1)",
            *rows,
        ):
            connection.execute(f"INSERT INTO {row}")
    connection.close()
    return load_input(str(path))


def test_a_trace_of_rocmprofiledata(tmp_path: Path) -> None:
    profile = rpd(tmp_path / "trace.rpd")
    assert profile["sessions"].select("format", "tool", "pid").rows() == [("rpd", "rocmProfileData", 7)]
    columns = ("kind", "name", "short_name", "start_ns", "duration_ns", "device", "stream", "size_bytes", "copy_kind")
    assert texts(profile, "activities", *columns, "block_x", "grid_x", "correlation") == [
        ("kernel", "scale(float*, int)", "scale", 200, 90, 0, 2, None, None, 256, None, 2),
        ("memcpy", "CopyHostToDevice", "CopyHostToDevice", 300, 40, 0, 3, 4096, "HtoD", None, None, 3),
    ]
    assert texts(profile, "api_calls", "name", "start_ns", "duration_ns", "pid", "tid") == [
        ("hipLaunchKernel", 50, 10, 7, 8),
        ("hipMemcpyAsync", 100, 30, 7, 8),
    ]
    assert texts(profile, "ranges", "name", "start_ns", "duration_ns") == [("forward", 0, 400)]
    assert texts(profile, "ops", "name") == [("forward",)]
    assert profile["activities"]["op"].to_list() == [0, 0]
    assert profile["issues"]["reason"].to_list() == [
        "times count from the first event, at 1000 ns of the machine clock",
        "in the file but not in any view: barriers (1)",
        "no grids: the file does not say whether it counts blocks or threads",
    ]


def test_newer_rocmprofiledata_keeps_texts_of_calls_in_a_table_of_their_own(tmp_path: Path) -> None:
    profile = rpd(tmp_path / "trace.rpd", strings="rocpd_ustring")
    assert texts(profile, "ranges", "name") == [("backward",)]


def test_processes_of_rocmprofiledata_are_sessions_and_the_size_of_several_copies_is_unknown(tmp_path: Path) -> None:
    profile = rpd(
        tmp_path / "trace.rpd",
        "rocpd_api VALUES (4, 9, 9, 1500, 1510, 3, 1)",
        "rocpd_copyapi VALUES (4, 8192, 1)",
        *(f"rocpd_op VALUES ({op}, 1, 0, 0, 1600, 1620, 1, 6)" for op in (4, 5)),
        *(f"rocpd_api_ops VALUES ({op}, 4, {op})" for op in (4, 5)),
    )
    assert profile["sessions"]["pid"].to_list() == [7, 9]
    assert texts(profile, "activities", "session", "device", "duration_ns", "size_bytes") == [
        (0, 0, 90, None),
        (0, 0, 40, 4096),
        (1, 1, 20, None),
        (1, 1, 20, None),
    ]


def test_an_empty_trace_of_rocmprofiledata(tmp_path: Path) -> None:
    rpd(tmp_path / "trace.rpd")
    with sqlite3.connect(tmp_path / "trace.rpd") as connection:
        connection.execute("DELETE FROM rocpd_api")
        connection.execute("DELETE FROM rocpd_op")
    connection.close()
    with pytest.raises(ProftuiError, match="an empty rocmProfileData trace") as error:
        load_input(str(tmp_path / "trace.rpd"))
    assert error.value.hint == "profile again with: runTracer.sh -o trace.rpd ./app"


def test_a_real_recording(corpus: Callable[[str], str]) -> None:
    path = corpus("rocprof/rocpd_bmm_28_results.db")
    profile = load_input(path)
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    reported = connection.execute(
        "SELECT name, duration, grid_x / workgroup_x, vgpr_count, lds_size, stack_id FROM kernels ORDER BY start"
    ).fetchall()
    connection.close()
    kernels = profile["activities"].with_columns(
        shared=pl.coalesce("shared_bytes", pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"))
    )
    assert kernels.select("name", "duration_ns", "grid_x", "registers", "shared", "correlation").rows() == reported
    calls = set(profile["api_calls"]["correlation"])
    assert kernels["correlation"].is_in(calls).all()
    assert len(calls) == profile["api_calls"].height == 629
    assert "error" not in profile["issues"]["severity"]
