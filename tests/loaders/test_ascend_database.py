"""Ascend's databases: kernels with their times, calls, ops, communication, steps."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.reading import reasons
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

NAMES = ["aclnnAdd", "Add", "LaunchKernel", "aten::add", "hcom_allReduce", "aten::linear", "Enqueue"]
THREAD = (77 << 32) + 5
ZERO = 1_736_410_576_000_000_000


@pytest.fixture
def database(tmp_path: Path) -> str:
    return write(tmp_path / "ascend_pytorch_profiler_0.db")


def write(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE STRING_IDS (id INTEGER, value TEXT);
            CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
            CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER,
                               globalTaskId INTEGER, streamId INTEGER);
            CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER, opType INTEGER, blockDim INTEGER);
            CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER,
                                   name INTEGER);
            CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER,
                                      type INTEGER);
            CREATE TABLE CONNECTION_IDS (id INTEGER, connectionId INTEGER);
            CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER);
            CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
            """
        )
        connection.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", list(enumerate(NAMES)))
        connection.execute("INSERT INTO NPU_INFO VALUES (0, 'Ascend910B')")
        connection.executemany(
            "INSERT INTO TASK VALUES (?, ?, 0, ?, ?, 2)",
            [(ZERO + 1000, ZERO + 1500, 41, 7), (ZERO + 2000, ZERO + 2100, 42, 8), (ZERO + 1, ZERO + 2, 0, 9)],
        )
        connection.executemany("INSERT INTO COMPUTE_TASK_INFO VALUES (0, ?, 1, 8)", [(7,), (8,)])
        connection.execute("INSERT INTO CANN_API VALUES (?, ?, ?, 41, 2)", (ZERO + 500, ZERO + 600, THREAD))
        connection.executemany(
            "INSERT INTO PYTORCH_API VALUES (?, ?, ?, ?, ?, ?)",
            [
                (str(ZERO + 300), str(ZERO + 900), THREAD, None, 5, 50001),
                (str(ZERO + 400), str(ZERO + 700), THREAD, 3, 3, 50001),
                (str(ZERO + 400), str(ZERO + 410), THREAD, 3, 6, 50002),
            ],
        )
        connection.execute("INSERT INTO CONNECTION_IDS VALUES (3, 41)")
        connection.execute("INSERT INTO COMMUNICATION_OP VALUES (4, ?, ?)", (ZERO + 900, ZERO + 1900))
        connection.execute("INSERT INTO STEP_TIME VALUES (50, ?, ?)", (ZERO, ZERO + 1800))
    return str(path)


def test_kernels_calls_and_ops(database: str) -> None:
    profile = load_input(database)
    assert profile["activities"].select(
        pl.col("name").cast(str), "start_ns", "duration_ns", "device", "stream", "grid_x", "op", "iteration"
    ).rows() == [
        ("aclnnAdd", 700, 500, 0, 2, 8, 1, 50),
        ("aclnnAdd", 1700, 100, 0, 2, 8, None, None),
    ]
    assert profile["activities"]["op_join"].cast(str).to_list() == ["external id", "launch not recorded"]
    assert profile["api_calls"].select(pl.col("name").cast(str), "start_ns", "duration_ns", "pid", "tid").rows() == [
        ("LaunchKernel", 200, 100, 77, 5)
    ]
    assert profile["ops"].select(pl.col("name").cast(str), "start_ns", "duration_ns", "parent").rows() == [
        ("aten::linear", 0, 600, None),
        ("aten::add", 100, 300, 0),
    ]
    assert profile["devices"]["name"].to_list() == ["Ascend910B"]
    assert profile["sessions"]["origin_ns"].to_list() == [ZERO + 300]


def test_calls_of_older_databases_are_in_another_table(database: str) -> None:
    calls = load_input(database)["api_calls"]
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE CANN_API RENAME TO API")
        connection.execute("CREATE TABLE TASK_UPDATE_TMP (globalTaskId INTEGER)")
    profile = load_input(database)
    assert profile["api_calls"].equals(calls)
    assert profile["activities"]["op"].to_list() == [1, None]


def test_the_database_tells_which_calls_are_ops(database: str) -> None:
    ops = load_input(database)["ops"]
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE PYTORCH_API SET type = CASE type WHEN 50001 THEN 7 ELSE 50001 END")
        connection.execute("CREATE TABLE ENUM_API_TYPE (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO ENUM_API_TYPE VALUES (?, ?)", [(7, "op"), (50001, "queue")])
    assert load_input(database)["ops"].equals(ops)
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE PYTORCH_API DROP COLUMN type")
    assert load_input(database)["ops"].equals(ops)


def test_a_missing_column_costs_only_its_values(database: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE PYTORCH_API DROP COLUMN globalTid")
        connection.execute("CREATE TABLE OP_MEMORY (size INTEGER, allocationTime INTEGER, deviceId INTEGER)")
        connection.execute("INSERT INTO OP_MEMORY VALUES (512, ?, 0)", (ZERO + 400,))
    profile = load_input(database)
    assert profile["ops"].select(pl.col("name").cast(str), "duration_ns", "tid").rows() == [
        ("aten::linear", 600, None),
        ("aten::add", 300, None),
    ]
    assert profile["activities"]["op"].to_list() == [1, None]
    assert profile["memory_events"].select("delta_bytes", "allocated_bytes", "device").rows() == [(512, None, 0)]
    assert profile["issues"].filter(severity="warning").select("text", "reason").rows() == [
        ("PYTORCH_API", "columns missing from the table (globalTid): their values are unknown"),
        (
            "OP_MEMORY",
            "columns missing from the table (allocationTotalAllocated, allocationTotalReserved, releaseTime, "
            "releaseTotalAllocated, releaseTotalReserved): their values are unknown",
        ),
    ]


@pytest.mark.parametrize("column", ["blockNum", "block_dim", None])
def test_the_number_of_blocks_has_other_names_in_other_versions(database: str, column: str | None) -> None:
    with sqlite3.connect(database) as connection:
        if column is None:
            connection.execute("ALTER TABLE COMPUTE_TASK_INFO DROP COLUMN blockDim")
        else:
            connection.execute(f"ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN blockDim TO {column}")
    assert load_input(database)["activities"]["grid_x"].to_list() == ([None] * 2 if column is None else [8, 8])


def test_copies_have_a_size_and_a_direction(database: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE MEMCPY_INFO (globalTaskId INTEGER, size INTEGER, memcpyOperation INTEGER)")
        connection.executemany("INSERT INTO MEMCPY_INFO VALUES (?, 4096, ?)", [(9, 1), (10, 2), (11, 99)])
        connection.executemany(
            "INSERT INTO TASK VALUES (?, ?, 0, 0, ?, 2)",
            [(ZERO + 3000, ZERO + 3010, 11), (ZERO + 3100, ZERO + 3200, 12)],
        )
    copies = load_input(database)["activities"].filter(pl.col("kind") == "memcpy")
    assert copies.select(pl.col("name", "copy_kind").cast(str), "duration_ns", "size_bytes", "throughput").rows() == [
        ("memcpy host to device", "HtoD", 1, 4096, 4.096e12),
        ("memcpy", None, 10, 4096, 4.096e11),
    ]


def test_communication_and_steps_are_ranges(database: str) -> None:
    ranges = load_input(database)["ranges"].select(pl.col("name", "domain").cast(str), "start_ns", "duration_ns")
    assert ranges.rows() == [("step 50", "step", -300, 1800), ("hcom_allReduce", "HCCL", 600, 1000)]


def test_records_of_all_memory_are_preferred_to_the_memory_of_ops(database: str) -> None:
    columns = ("start_ns", "delta_bytes", "allocated_bytes", "reserved_bytes", "device")
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE OP_MEMORY (size INTEGER, deviceId INTEGER, allocationTime INTEGER, releaseTime INTEGER, "
            "allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, releaseTotalAllocated INTEGER, "
            "releaseTotalReserved INTEGER)"
        )
        connection.execute("INSERT INTO OP_MEMORY VALUES (512, 0, ?, NULL, 1024, 4096, NULL, NULL)", (ZERO + 400,))
    assert load_input(database)["memory_events"].select(columns).rows() == [(100, 512, 1024, 4096, 0)]
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, "
            "totalReserved INTEGER, deviceId INTEGER)"
        )
        connection.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(20, "PTA"), (21, "GE"), (22, "PTA+GE")])
        connection.executemany(
            "INSERT INTO MEMORY_RECORD VALUES (?, ?, ?, 4096, 0)",
            [
                *((20, ZERO + 400, 1024), (22, ZERO + 400, 1536), (21, ZERO + 500, 2048), (22, ZERO + 500, 3072)),
                *((22, ZERO + 300, None),),
            ],
        )
    assert load_input(database)["memory_events"].select(columns).rows() == [
        (100, None, 1536, 4096, 0),
        (200, 1536, 3072, 4096, 0),
    ]


def test_marks_are_ranges_without_length(database: str) -> None:
    """Types 0 and 3 are marks, 1 and 2 ranges."""
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE TABLE MSTX_EVENTS (startNs INTEGER, endNs INTEGER, eventType INTEGER, message INTEGER)"
        )
        connection.executemany(
            "INSERT INTO MSTX_EVENTS VALUES (?, ?, ?, 6)",
            [(ZERO + 400 + kind, ZERO + 400 + kind + 50 * (kind in (1, 2)), kind) for kind in range(4)],
        )
    ranges = load_input(database)["ranges"].filter(pl.col("domain") == "mstx")
    assert ranges.select("start_ns", "duration_ns").rows() == [(100, 0), (101, 50), (102, 50), (103, 0)]


@pytest.mark.parametrize("end", [b"12", "12", None, str(2**63 - 1), "x"])
def test_an_op_with_an_impossible_end_has_no_duration(database: str, end: object) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(
            "UPDATE PYTORCH_API SET endNs = ? WHERE startNs = (SELECT min(startNs) FROM PYTORCH_API)", (end,)
        )
    ops = load_input(database)["ops"].select(pl.col("name").cast(str), "duration_ns", "parent").rows()
    assert ops == [("aten::linear", None, None), ("aten::add", 300, None)]


def test_ops_of_too_many_threads_over_two_weeks_have_no_parents(database: str) -> None:
    week_ns = 7 * 24 * 3600 * 10**9
    with sqlite3.connect(database) as connection:
        connection.executemany(
            "INSERT INTO PYTORCH_API VALUES (?, ?, ?, NULL, 3, 50001)",
            [
                (str(ZERO + 300 + (thread % 3 - 1) * week_ns), str(ZERO + 301 + (thread % 3 - 1) * week_ns), thread)
                for thread in range(2500)
            ],
        )
    profile = load_input(database)
    assert profile["ops"].height == 2502
    assert profile["ops"]["parent"].null_count() == 2502
    assert reasons(profile, "warning") == ["ops have no parents: the times span too long for one recording"]


def test_a_database_without_times_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE STRING_IDS (id INTEGER, value TEXT);"
            "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, globalTaskId INTEGER);"
        )
    with pytest.raises(ProftuiError, match="every row lacks a time"):
        load_input(str(path))


@pytest.mark.parametrize("name", ["ascend_pytorch_profiler_0.db", "msprof_0.db"])
def test_real_databases_agree(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["ascend"][name]["compute_ops"]
    activities = load_input(shared_file(f"corpus2/ascend/{name}"))["activities"]
    assert (activities.height, activities["duration_ns"].sum()) == (expected["rows"], expected["total_ns"])


def test_kernels_of_a_real_database_have_their_ops() -> None:
    path = shared_file("corpus2/ascend/ascend_pytorch_profiler_0.db")
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as connection:
        expected = connection.execute(
            """
            SELECT task.startNs, op.name FROM TASK task JOIN COMPUTE_TASK_INFO USING (globalTaskId)
            JOIN CONNECTION_IDS ids USING (connectionId)
            JOIN (SELECT api.connectionId AS id, names.value AS name, max(CAST(startNs AS INTEGER))
                  FROM PYTORCH_API api JOIN STRING_IDS names ON names.id = api.name
                  JOIN ENUM_API_TYPE type ON type.id = api.type AND type.name = 'op' GROUP BY 1) op ON op.id = ids.id
            ORDER BY 1
            """
        ).fetchall()
    profile = load_input(path)
    (zero,) = profile["sessions"]["origin_ns"]
    linked = profile["activities"].join(profile["ops"].select("op", op_name="name"), on="op")
    assert linked.select(pl.col("start_ns") + zero, pl.col("op_name").cast(str)).sort("start_ns").rows() == expected
    assert len(expected) == profile["activities"].height > 100


def test_tables_and_the_trace_that_were_exported_with_a_database_do_not_count_again(
    database: str, tmp_path: Path
) -> None:
    alone = load_input(database)
    start_us = ZERO // 1000
    kernels = f"1,aclnnAdd,Add,AI_CORE,{start_us + 1}.000,0.5\n1,aclnnAdd,Add,AI_CORE,{start_us + 2}.000,0.1\n"
    header = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    sums = "OP Type,Core Type,Count,Total Time(us)\nAdd,AI_CORE,2,0.6\n"
    processes = [{"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "Ascend Hardware"}}]
    work = {"ph": "X", "name": "aclnnAdd", "pid": 5, "tid": 2, "dur": 0.5, "args": {"Task Type": "AI_CORE"}}
    (tmp_path / "trace_view.json").write_text(json.dumps([*processes, {**work, "ts": f"{start_us + 1}.000"}]))
    (tmp_path / "op_statistic.csv").write_text(sums)
    (tmp_path / "kernel_details.csv").write_text(header + kernels)
    both = load_input(str(tmp_path))
    assert both["sessions"]["source"].to_list() == [database]
    assert both["issues"].select("text", "reason").rows()[-1] == (
        "trace_view.json",
        "the run of ascend_pytorch_profiler_0.db in other formats: not counted again",
    )
    for name in ("activities", "api_calls", "ops", "ranges", "memory_events"):
        assert both[name].equals(alone[name], null_equal=True), name
    assert both["summary"].select("section", "total_ns").rows() == [("gpu", 600)]
    (tmp_path / "kernel_details.csv").write_text(header + kernels.replace(".000,", ".700,"))
    assert sorted(load_input(str(tmp_path))["sessions"]["format"]) == ["ascend-csv", "ascend-database"]
