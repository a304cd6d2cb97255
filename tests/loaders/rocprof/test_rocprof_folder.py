"""The tables of one process that rocprof writes to files of their own are one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.reading import read, reasons, rows
from tests.loaders.rocprof.rocpd_build import write
from tests.loaders.rocprof.test_rocpd import T0, dispatch, recording
from tests.loaders.rocprof.test_rocprof_csv import (
    AGENTS,
    CALLS,
    COPIES,
    COUNTERS,
    MARKERS,
    NEW_KERNELS,
    RESULTS,
    STATS_V1,
    STATS_V3,
)
from tui.loaders.registry import load, load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile

KERNEL_SUMS = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
    '"gemm",1,3000,3000.0,85.7,3000,3000,0.0\n'
    '"relu(float*)",1,500,500.0,14.3,500,500,0.0\n'
)
RUN = {
    "agent_info": AGENTS,
    "counter_collection": COUNTERS,
    "hip_api_stats": STATS_V3,
    "hip_api_trace": CALLS,
    "kernel_stats": KERNEL_SUMS,
    "kernel_trace": NEW_KERNELS,
    "marker_api_trace": MARKERS,
    "memory_copy_trace": COPIES,
}


def opened(folder: Path, files: Mapping[str, str]) -> Profile:
    """Return the profile of a folder with these CSV files."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return load_input(str(folder))


@pytest.mark.parametrize("prefix", ["77_", "run_7_", ""])
def test_the_tables_of_a_process_are_one_session_as_in_one_text(tmp_path: Path, prefix: str) -> None:
    profile = opened(tmp_path, {prefix + table: text for table, text in RUN.items()})
    assert [Path(source).name for source in profile["sessions"]["source"]] == [f"{prefix}kernel_trace.csv"]
    assert rows(profile, "sessions", "pid", "iteration_source", "start_resolution_ns") == [
        (77 if prefix == "77_" else 70, "roctx range step", 1)
    ]
    columns = ("kind", "start_ns", "duration_ns", "op", "op_join", "iteration", "device", "line")
    assert rows(profile, "activities", "activity", *columns) == [
        (0, "memcpy", 200, 100, None, "launch not recorded", None, 4, None),
        (1, "kernel", 1000, 3000, None, "launched outside any op", 0, 4, 2),
        (2, "kernel", 5000, 500, 0, "launch", 1, 4, 3),
        (3, "memcpy", 5600, 50, None, "launch not recorded", None, 4, None),
    ]
    assert rows(profile, "summary", "section", "name", "calls") == [
        ("api", "hipMalloc", 4),
        ("api", "hipSetDevice", 1),
        ("gpu", "gemm", 1),
        ("gpu", "relu(float*)", 1),
    ]
    assert profile["metrics"].height == 3
    assert rows(profile, "devices", "device", "name", "sm_count") == [(4, "AMD Instinct MI300X", 304)]
    assert reasons(profile).count("times count from the first event, at 4000 ns of the machine clock") == 1
    assert reasons(profile, "warning") == []
    together = read("\n".join(RUN.values()))
    for name in ("activities", "api_calls", "ops", "ranges", "devices"):
        expected, frame = (data[name].drop("line", strict=False) for data in (together, profile))
        assert frame.equals(expected, null_equal=True), name


def test_tables_given_one_by_one_are_one_session(tmp_path: Path) -> None:
    opened(tmp_path, {f"77_{table}": text for table, text in RUN.items()})
    profile, errors = load(sorted(map(str, tmp_path.iterdir())))
    assert errors == []
    assert profile is not None
    assert rows(profile, "sessions", "session", "pid") == [(0, 77)]
    assert profile["activities"]["duration_ns"].sum() == 3650


def test_two_processes_of_a_folder_are_two_sessions_in_order(tmp_path: Path) -> None:
    tables = {"hip_api_trace": CALLS, "kernel_trace": NEW_KERNELS}
    profile = opened(tmp_path, {f"{pid}_{table}": text for pid in (101, 99) for table, text in tables.items()})
    assert rows(profile, "sessions", "session", "pid") == [(0, 99), (1, 101)]
    counts = profile["activities"].group_by("session").agg(pl.len(), pl.col("duration_ns").sum()).sort("session")
    assert counts.rows() == [(0, 2, 3500), (1, 2, 3500)]
    assert profile["api_calls"]["session"].to_list() == [0, 0, 1, 1]
    assert reasons(profile, "warning") == []


def test_ranks_in_the_names_are_in_order(tmp_path: Path) -> None:
    names = [f"rank{rank}_{table}" for rank in (10, 2) for table in ("hip_api_trace", "kernel_trace")]
    profile = opened(tmp_path, {name: NEW_KERNELS if "kernel" in name else CALLS for name in names})
    assert rows(profile, "sessions", "session", "rank") == [(0, 2), (1, 10)]


def test_one_table_of_each_run_is_not_reported(tmp_path: Path) -> None:
    profile = opened(tmp_path, {f"rank{rank}_kernel_trace": NEW_KERNELS for rank in (0, 1)})
    assert rows(profile, "sessions", "session", "rank") == [(0, 0), (1, 1)]
    assert reasons(profile, "warning") == []


def test_tables_of_several_processes_under_one_name_are_reported(tmp_path: Path) -> None:
    profile = opened(tmp_path, {"hip_api_trace": CALLS, "marker_api_trace": MARKERS.replace(",70,", ",80,")})
    assert rows(profile, "sessions", "pid") == [(70,), (80,)]
    assert profile["ranges"]["session"].unique().to_list() == [1]
    first, rest = reasons(profile, "warning")[0].split(":", 1)
    assert first == "2 files are single tables of a run, and each is a separate session"
    assert "combine the tables: cat *.csv > run.csv" in rest


def test_results_and_sums_of_the_first_version_are_one_session(tmp_path: Path) -> None:
    files = {
        "results": RESULTS,
        "results.stats": STATS_V1,
        "results.hip_stats": '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"hipMalloc",4,80,20,100.0\n',
    }
    profile = opened(tmp_path, files)
    assert rows(profile, "sessions", "format", "pid") == [("rocprof-csv", 77)]
    assert rows(profile, "activities", "name", "duration_ns", "line") == [("copy(float*)", 250, 2)]
    assert rows(profile, "summary", "section", "name", "total_ns") == [
        ("api", "hipMalloc", 80),
        ("gpu", "vector_add(float*, int)", 200),
        ("gpu", "CopyDeviceToHost", 50),
    ]
    assert reasons(profile, "warning") == []


def test_real_files_of_the_first_version_count_once(corpus: Callable[[str], str]) -> None:
    profile = load_input(corpus("rocprof/rocprofv1_vector_add"))
    assert rows(profile, "sessions", "format", "pid") == [("rocprof-database", 19147)]
    assert profile["activities"]["duration_ns"].sum() == 1_069_839_001
    assert profile["api_calls"].height == 13
    assert "the run of results.db in other formats: not counted again" in reasons(profile, "info")
    trace = load_input(corpus("rocprof/rocprofv1_vector_add/results.json"))
    assert trace["activities"]["duration_ns"].sum() == 1_069_839_001
    assert trace["api_calls"]["duration_ns"].equals(profile["api_calls"]["duration_ns"])
    assert profile["summary"].filter(section="gpu")["total_ns"].sum() == 1_069_839_001


def test_a_run_in_several_formats_counts_once(tmp_path: Path) -> None:
    tables = recording()
    tables["kernel_dispatch"] = [dispatch(1, 2, T0 + 50, T0 + 3050), dispatch(2, 6, T0 + 4000, T0 + 4500)]
    (tmp_path / "out").mkdir()
    database = write(tmp_path / "out" / "77_results.db", tables)
    alone = load_input(database)
    files = {f"77_{table}": text for table, text in RUN.items()}
    profile = opened(tmp_path / "out", files)
    assert profile["sessions"]["source"].to_list() == [database]
    for name in ("activities", "api_calls", "ranges", "summary"):
        assert profile[name].equals(alone[name], null_equal=True), name
    assert rows(profile, "issues", "text", "reason")[-1] == (
        ", ".join(f"{name}.csv" for name in sorted(files)),
        "the run of 77_results.db in other formats: not counted again",
    )
    # Other kernels are of another run; other names of another process.
    other = opened(tmp_path / "out", {"77_kernel_trace": NEW_KERNELS.replace("9500", "9600")})
    assert other["sessions"].height == 2
    opened(tmp_path / "out", files)
    (tmp_path / "out" / "77_results.db").rename(tmp_path / "out" / "78_results.db")
    assert load_input(str(tmp_path / "out"))["sessions"].height == 2
