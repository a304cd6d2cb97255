"""Exports of each generation, value by value; damaged and hostile ones."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.loaders.nsys import twin
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


@pytest.fixture(params=twin.GENERATIONS)
def generation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def profile(generation: str, tmp_path: Path) -> Profile:
    return load_input(str(twin.write(tmp_path / "run.sqlite", generation)))


def rows(data: pl.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return data.select(columns).rows()


def issues(profile: Profile) -> list[tuple[object, ...]]:
    return rows(profile["issues"], "session", "severity", "text", "reason")


def test_each_process_is_a_session(profile: Profile, generation: str) -> None:
    second = None if generation in ("2020.4", "2021.3") else "/usr/bin/python3"
    assert rows(profile["sessions"], "format", "tool", "pid", "command", "start_resolution_ns", "iteration_source") == [
        ("nsys-sqlite", "Nsight Systems", 100, "trainer", 1, "NVTX range iteration"),
        ("nsys-sqlite", "Nsight Systems", 200, second, 1, "NVTX range iteration"),
    ]
    facts = rows(profile["sessions"], "tool_version", "host", "driver_version", "cuda_version", "origin_ns")
    if generation == "2020.4":
        expected: tuple[object, ...] = (None, None, None, None, None)
    else:
        version = None if generation == "2021.3" else f"{generation}.1"
        expected = (version, "node7", "450.80.02", "11.2", twin.UTC)
    assert facts == [expected, expected]


def test_each_process_has_the_gpus_that_it_used(profile: Profile, generation: str) -> None:
    memory, bandwidth = (15109 << 20, None) if generation == "2020.4" else (15_843_721_216, 320_064_000_000.0)
    gpu = ("Tesla T4", "7.5", 40, memory, bandwidth, 1024, 65536, 65536)
    assert profile["devices"].rows() == [(0, 0, *gpu), (1, 1, *gpu)]


def test_gpu_work_is_sorted_with_all_recorded_columns(profile: Profile, generation: str) -> None:
    graph = [(0, "graph", "[CUDA graph 12]", 2600, 50)] if generation == "2025.5" else []
    name = "void ns::scale<float>(float *, int)"
    assert rows(profile["activities"], "session", "kind", "name", "start_ns", "duration_ns") == [
        (0, "kernel", name, 1500, 100),
        (0, "memcpy", "[CUDA memcpy HtoD]", 1700, 10),
        (0, "memset", "[CUDA memset]", 1720, 5),
        (0, "kernel", name, 2100, 50),
        (0, "kernel", name, 2500, 100),
        *graph,
        (1, "kernel", name, 1510, 200),
        (1, "memcpy", "[CUDA memcpy HtoD]", 1710, 10),
        (1, "memset", "[CUDA memset]", 1730, 5),
        (1, "kernel", name, 2110, 100),
        (1, "kernel", name, 2510, 200),
    ]
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    assert kernels["short_name"].unique().to_list() == ["ns::scale"]
    assert rows(
        kernels.filter(pl.col("session") == 1).head(1),
        *("device", "context", "stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"),
        *("static_shared_bytes", "dynamic_shared_bytes", "shared_bytes", "correlation", "graph_node"),
    ) == [(1, 1, 7, 4, 2, 1, 256, 1, 1, 32, 1024, 2048, None, 1, None)]
    assert kernels["graph_node"].to_list() == [None, None, 77] * 2
    copies = profile["activities"].filter(pl.col("kind").is_in(["memcpy", "memset"]), pl.col("session") == 0)
    assert rows(copies, "size_bytes", "throughput", "copy_kind", "src_memory", "dst_memory") == [
        (4096, 4.096e11, "HtoD", "pinned", "device"),
        (64, 1.28e10, None, "device", None),
    ]


def test_work_belongs_to_the_op_and_the_iteration_of_its_launch(profile: Profile) -> None:
    first = profile["activities"].filter(pl.col("session") == 0, pl.col("kind") != "graph")
    ops = profile["ops"]
    assert rows(ops, "session", "op", "name", "start_ns", "iteration", "op_source", "pid", "tid") == [
        (0, 0, "aten::conv2d", 1050, 0, "nvtx", 100, 100),
        (0, 1, "registered", 1290, 0, "nvtx", 100, 100),
        (0, 2, "ncclAllReduce", 2310, 1, "nvtx", 100, 100),
        (1, 3, "aten::conv2d", 1060, 0, "nvtx", 200, 200),
        (1, 4, "registered", 1300, 0, "nvtx", 200, 200),
        (1, 5, "ncclAllReduce", 2320, 1, "nvtx", 200, 200),
    ]
    assert rows(first, "start_ns", "op", "op_join", "iteration") == [
        (1500, 0, "launch", 0),
        (1700, None, "launched outside any op", 0),
        (1720, None, "launch not recorded", None),
        (2100, 1, "launch", 0),
        (2500, None, "launched outside any op", 1),
    ]
    second = profile["activities"].filter(pl.col("session") == 1)
    assert second["op"].to_list() == [3, None, None, 4, None]


def test_version_suffixes_of_api_calls_are_removed(profile: Profile) -> None:
    calls = profile["api_calls"].filter(pl.col("session") == 1)
    assert rows(calls, "name", "start_ns", "duration_ns", "pid", "tid", "correlation") == [
        ("cudaLaunchKernel", 1110, 20, 200, 200, 1),
        ("cudaLaunchKernel", 1115, 5, 200, 200, 1),
        ("cudaLaunchKernel", 1310, 20, 200, 200, 2),
        ("cudaMemcpyAsync", 1410, 10, 200, 200, 4),
        ("cudaGraphLaunch", 2210, 20, 200, 200, 3),
        ("cuMemAlloc", 2310, 20, 200, 200, 5),
    ]


def test_ranges_have_a_domain_and_a_depth_and_marks_are_not_ranges(profile: Profile) -> None:
    ranges = profile["ranges"].filter(pl.col("session") == 0)
    assert rows(ranges, "name", "domain", "start_ns", "duration_ns", "tid", "depth", "iteration") == [
        ("whole", None, 900, 2100, 100, None, None),
        ("iteration 0", None, 1000, 990, 100, 0, 0),
        ("aten::conv2d, seq = 4, op_id = 1", None, 1050, 300, 100, 1, None),
        ("registered", None, 1290, 50, 100, 2, None),
        ("iteration 1", None, 2000, 990, 100, 0, 1),
        ("open", None, 2250, None, 100, None, None),
        ("ncclAllReduce", "NCCL", 2310, 20, 100, 1, None),
    ]


def test_errors_of_the_recording_are_reported(profile: Profile, generation: str) -> None:
    reported = issues(profile)
    for session in (0, 1):
        assert (session, "warning", "cuMemAlloc", "returned error 2 once") in reported
        assert [
            text for number, _, text, reason in reported if number == session and "without an end" in str(reason)
        ] == ["open"]
    if generation == "2025.5":
        assert (1, "warning", "Events were lost.", "reported by Nsight Systems") in reported
        assert (None, "error", "CUPTI failed.", "reported by Nsight Systems") in reported
        assert (None, "info", "OSRT_API", "tables not shown in any view: OSRT_API") in reported
        assert len(reported) == 8
    else:
        assert len(reported) == 5
    assert (None, "info", "NVTX_EVENTS", "2 NVTX marks skipped: instant events, not shown in any view") in reported


def test_a_compressed_export_opens(tmp_path: Path) -> None:
    plain = twin.write(tmp_path / "run.sqlite", "2023.4")
    packed = tmp_path / "run.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_input(str(packed))["activities"].equals(load_input(str(plain))["activities"])


def test_cuda_numbers_of_gpus_are_looked_up_for_each_process(tmp_path: Path) -> None:
    tables = twin.tables("2025.5")
    tables["TARGET_INFO_GPU"][1] = {**tables["TARGET_INFO_GPU"][1], "name": "Tesla A"}
    tables["TARGET_INFO_CUDA_DEVICE"] = [{"gpuId": 1, "cudaId": 0, "pid": 100}, {"gpuId": 0, "cudaId": 1, "pid": 200}]
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2025.5", tables)))
    assert rows(profile["devices"], "session", "device", "name") == [(0, 0, "Tesla A"), (1, 1, "Tesla T4")]


def test_unified_memory_is_a_separate_kind(tmp_path: Path) -> None:
    tables = twin.tables("2023.4")
    copy = tables["CUPTI_ACTIVITY_KIND_MEMCPY"][0]
    tables["CUPTI_ACTIVITY_KIND_MEMCPY"] = [{**copy, "copyKind": kind, "srcKind": 4} for kind in (11, 12, 13, 0, 99)]
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    copies = profile["activities"].filter(pl.col("src_memory") == "managed")
    assert rows(copies, "kind", "name", "copy_kind") == [
        ("um", "[Unified Memory Memcpy HtoD]", "HtoD"),
        ("um", "[Unified Memory Memcpy DtoH]", "DtoH"),
        ("um", "[Unified Memory Memcpy DtoD]", "DtoD"),
        ("memcpy", "[CUDA memcpy]", None),
        ("memcpy", "[CUDA memcpy]", None),
    ]


def test_page_faults_of_the_cpu_are_instants(tmp_path: Path) -> None:
    plain = load_input(str(twin.write(tmp_path / "plain.sqlite", "2023.4")))
    tables = twin.tables("2023.4")
    tables["CUDA_UM_CPU_PAGE_FAULT_EVENTS"] = [
        {"start": 1500 + n, "globalPid": twin.process(twin.FIRST)} for n in (0, 1)
    ]
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    faults = profile["activities"].filter(name="[Unified Memory CPU page faults]")
    assert rows(faults, "session", "kind", "start_ns", "duration_ns") == [(0, "um", 1500, None), (0, "um", 1501, None)]
    assert issues(profile) == issues(plain)


def test_a_failed_export_is_an_error_with_the_command(tmp_path: Path) -> None:
    path = twin.write(tmp_path / "run.sqlite", "2020.4", {"StringIds": [{"id": 1, "value": "x"}]})
    with pytest.raises(ProftuiError, match=r"an incomplete Nsight Systems export.*nsys export --type sqlite") as caught:
        load_input(str(path))
    assert f"-o {path} {path.with_suffix('.nsys-rep')}" in caught.value.hint
    path.write_bytes(b"")
    with pytest.raises(ProftuiError, match=r"run\.sqlite: is empty; its export failed; .*nsys export"):
        load_input(str(path))


def test_an_export_without_gpu_work_gets_a_hint_to_record_it(tmp_path: Path) -> None:
    meta = {name: twin.tables("2023.4")[name] for name in ("StringIds", "META_DATA_EXPORT")}
    path = twin.write(tmp_path / "run.sqlite", "2023.4", meta)
    with pytest.raises(ProftuiError, match=r"no GPU work.*record again with: nsys profile --trace cuda,nvtx"):
        load_input(str(path))


def test_a_view_instead_of_a_table_is_reported_and_never_queried(tmp_path: Path) -> None:
    path = twin.write(tmp_path / "run.sqlite", "2023.4")
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO hidden")
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end FROM n"
    connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    connection.commit()
    connection.close()
    profile = load_input(str(path))
    assert profile["activities"]["kind"].unique(maintain_order=True).to_list() == ["memcpy", "memset"]
    assert [text for _, _, text, reason in issues(profile) if "this is a view" in str(reason)] == [
        "CUPTI_ACTIVITY_KIND_KERNEL"
    ]


def test_names_missing_from_the_export_are_counted(tmp_path: Path) -> None:
    tables = twin.tables("2023.4")
    tables["StringIds"] = [row for row in tables["StringIds"] if row["id"] != 1]
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    assert profile["activities"].filter(pl.col("kind") == "kernel")["name"].to_list() == [None] * 6
    assert (0, "warning", "StringIds", "3 kernels without a name: missing from the export") in issues(profile)


def test_impossible_times_give_no_duration(tmp_path: Path) -> None:
    impossible = [twin.kernel(100, 0, 0, 1), twin.kernel(100, 50, 20, 2), twin.kernel(100, 60, 70, 3)]
    tables = {**twin.tables("2023.4"), "CUPTI_ACTIVITY_KIND_KERNEL": impossible}
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    assert rows(kernels, "start_ns", "duration_ns") == [(50, None), (60, 10), (None, None)]
    assert any(
        str(reason).startswith("2 GPU activities with missing or reversed times") for *_, reason in issues(profile)
    )


def test_normalised_times_count_from_1970(tmp_path: Path) -> None:
    tables = {"StringIds": twin.tables("2023.4")["StringIds"]}
    tables["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": twin.UTC}]
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [twin.kernel(100, twin.UTC + 5, twin.UTC + 9, 1)]
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    assert rows(profile["sessions"], "origin_ns") == [(0,)]


_VALUES = st.one_of(
    st.none(),
    st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1),
    st.integers(min_value=-3, max_value=20),
    st.floats(allow_nan=False),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.binary(max_size=8),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_values_are_read_or_declined(data: st.DataObject, tmp_path: Path) -> None:
    generation = data.draw(st.sampled_from(twin.GENERATIONS))
    known = twin.columns(generation)
    tables = twin.tables(generation)
    broken = data.draw(st.sampled_from(sorted(tables)))
    changed = [dict(row) for row in tables[broken]]
    for row in changed:
        for name in data.draw(st.lists(st.sampled_from(known[broken]), max_size=4)):
            row[name] = data.draw(_VALUES)
    path = tmp_path / "run.sqlite"
    path.unlink(missing_ok=True)
    twin.write(path, generation, {**tables, broken: changed})
    profile = load_input(str(path))
    # What did not change is all there.
    for table, kind in (("CUPTI_ACTIVITY_KIND_MEMSET", "memset"), ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel")):
        assert profile["activities"].filter(pl.col("kind") == kind).height == len(tables[table])
    assert profile["api_calls"].height == 12


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(fraction=st.floats(min_value=0, max_value=1, exclude_max=True), damage=st.binary(min_size=1, max_size=600))
def test_overwritten_bytes_raise_no_unexpected_exception(fraction: float, damage: bytes, tmp_path: Path) -> None:
    original = tmp_path / "whole.sqlite"
    if not original.exists():
        twin.write(original, "2025.5")
    content = bytearray(original.read_bytes())
    position = int(fraction * len(content))
    content[position : position + len(damage)] = damage
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content[: len(content)])
    try:
        load_input(str(path))
    except ProftuiError as error:
        assert "damaged.sqlite" in str(error)  # noqa: PT017 - most damage leaves something to read


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(keep=st.floats(min_value=0.01, max_value=1, exclude_max=True))
def test_a_truncated_file_is_read_or_declined(keep: float, tmp_path: Path) -> None:
    original = tmp_path / "whole.sqlite"
    if not original.exists():
        twin.write(original, "2025.5")
    path = tmp_path / "cut.sqlite"
    content = original.read_bytes()
    path.write_bytes(content[: max(1, int(keep * len(content)))])
    try:
        profile = load_input(str(path))
    except ProftuiError as error:
        assert "cut.sqlite" in str(error)  # noqa: PT017 - where too little is left
    else:
        assert profile["issues"].filter(pl.col("severity") == "error").height


def test_convolutions_equal_those_of_dlprof(corpus: Callable[[str], str]) -> None:
    profile = load_input(corpus("nsys/dlprof_nsys_profile.sqlite"))
    names = dict(profile["ops"].select("op", pl.col("name").cast(pl.String)).iter_rows())
    parents = dict(profile["ops"].select("op", "parent").iter_rows())
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    outermost = []
    for op in kernels["op"].to_list():
        while parents[op] is not None:
            op = parents[op]
        outermost.append(names[op])
    assert outermost == ["torch.nn.functional.conv2d"] * 46
    dlprof = load_input(corpus("dlprof/dlprof_dldb.sqlite"))
    # Another run of the same program: cuDNN chose other kernels, as many for each of the two convolutions.
    expected = dlprof["activities"].join(dlprof["ops"].select("op", op_name="name"), on="op")
    convolutions = expected.filter(pl.col("kind") == "kernel", pl.col("op_name") == "conv2d")
    assert convolutions.height == 46


@pytest.mark.slow
def test_only_the_first_of_many_processes_are_shown(tmp_path: Path) -> None:
    kernels = [twin.kernel(pid, 10 * pid, 10 * pid + 5, 1) for pid in range(1, 1006)]
    tables = {"StringIds": twin.tables("2023.4")["StringIds"], "CUPTI_ACTIVITY_KIND_KERNEL": kernels}
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    assert profile["sessions"]["pid"].to_list() == list(range(1, 1001))
    assert profile["activities"]["start_ns"].to_list() == list(range(10, 10_010, 10))
    assert issues(profile) == [(None, "error", "1,005 processes", "only the first 1,000 are shown")]


def test_rows_without_a_process_belong_to_the_only_one(tmp_path: Path) -> None:
    tables = {
        "StringIds": twin.tables("2023.4")["StringIds"],
        "CUPTI_ACTIVITY_KIND_KERNEL": [twin.kernel(100, 1500, 1600, 1, globalPid=None)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [twin.call(100, 1100, 1120, 1)],
    }
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", "2023.4", tables)))
    assert rows(profile["sessions"], "pid") == [(100,)]
    assert (profile["activities"].height, profile["api_calls"].height) == (1, 1)
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(twin.call(200, 1100, 1120, 1))
    profile = load_input(str(twin.write(tmp_path / "two.sqlite", "2023.4", tables)))
    assert rows(profile["sessions"], "pid") == [(None,), (100,), (200,)]


def test_a_time_of_another_century_affects_only_its_row(tmp_path: Path) -> None:
    path = twin.write(tmp_path / "run.sqlite", twin.GENERATIONS[-1])
    before = load_input(str(path))
    with sqlite3.connect(path) as database:
        first = "(SELECT min(rowid) FROM {0})"
        for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", "end"), ("NVTX_EVENTS", "start")):
            database.execute(f"UPDATE {table} SET {column} = 9200000000000000000 WHERE rowid = {first.format(table)}")
    after = load_input(str(path))
    assert after["activities"].height == before["activities"].height
    assert after["activities"]["duration_ns"].null_count() == before["activities"]["duration_ns"].null_count() + 1
    assert after["ops"].height >= before["ops"].height - 1 > 0
    assert not any("span too long" in str(reason) for *_, reason in issues(after))
    assert any("an implausible time" in str(reason) for *_, reason in issues(after))
