"""The profiler overhead that Nsight Systems recorded, and NVTX events of every type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.nsys import twin
from tui.analysis.expert.findings import findings
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.loaders.registry import load_input
from tui.model.aggregation import Aggregation

if TYPE_CHECKING:
    from tui.model.profile import Profile

TEXTS = {20: "CUPTI Buffer flush", 21: "TLS allocation", 22: "CUDA profiling initialization", 23: "Lazy loading"}


def work(pid: int, start: int, end: int, name: int | None, **fields: object) -> twin.Row:
    return {"start": start, "end": end, "globalTid": twin.thread(pid, 5), "nameId": name, **fields}


def read(path: Path, generation: str, **tables: list[twin.Row]) -> Profile:
    """Read an export of two processes with GPU work from 1500 to 2600 and from 1510 to 2710."""
    rows = {**twin.tables(generation), **tables}
    rows["StringIds"] = [*rows["StringIds"], *({"id": number, "value": text} for number, text in TEXTS.items())]
    return load_input(str(twin.write(path / "run.sqlite", generation, rows)))


def figures(profile: Profile) -> list[tuple[object, ...]]:
    return profile["tool_figures"].select("session", "tool", "section", "name", "value", "unit").rows()


def overhead_answer(profile: Profile) -> list[tuple[object, ...]]:
    rows = findings(profile).filter(pl.col("rule") == "Q4")
    return rows.select("session", "state", pl.coalesce("problem", "reason")).sort("session").rows()


def reasons(profile: Profile) -> list[str]:
    return [reason for text, reason in profile["issues"].select("text", "reason").rows() if text == "NVTX_EVENTS"]


@pytest.mark.parametrize("generation", twin.GENERATIONS[:-1])
def test_profiler_overhead_is_compared_with_gpu_time(generation: str, tmp_path: Path) -> None:
    overhead = [
        work(twin.FIRST, 100, 900, 22),
        work(twin.FIRST, 1450, 1600, 20),
        # Lies within the one before, on whichever thread.
        work(twin.FIRST, 1550, 1590, 21),
        work(twin.FIRST, 1580, 1650, 21),
        work(twin.SECOND, 2700, 2690, 20),
        work(77, 10, 20, 20),
    ]
    profile = read(tmp_path, generation, PROFILER_OVERHEAD=overhead)
    assert profile["sessions"].height == 2
    assert figures(profile) == [
        (0, "Nsight Systems", "overhead", "CUDA profiling initialization", 800.0, "ns"),
        (0, "Nsight Systems", "overhead", "CUPTI Buffer flush", 150.0, "ns"),
        (0, "Nsight Systems", "overhead", "TLS allocation", 110.0, "ns"),
        (0, "Nsight Systems", "overhead during GPU work", "CUPTI Buffer flush", 100.0, "ns"),
        (0, "Nsight Systems", "overhead during GPU work", "TLS allocation", 50.0, "ns"),
    ]
    assert overhead_answer(profile) == [
        (0, "found", "Profiler overhead is 150 ns (14% of the GPU span)."),
        (1, "not applicable", "profiler overhead is not recorded"),
    ]
    skipped_issue = (None, "info", "PROFILER_OVERHEAD", "overhead of 1 process without other records skipped")
    assert skipped_issue in profile["issues"].select("session", "severity", "text", "reason").rows()
    assert not any("have no view" in reason for reason in profile["issues"]["reason"])
    selection = select_iterations(profile, Aggregation(first=0, last=0))
    assert overhead_answer(selection)[0][1:] == (
        "not applicable",
        "profiler overhead is known of the whole run only",
    )


def test_work_of_cuda_itself_is_not_profiler_overhead(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        "2025.5",
        PROFILER_OVERHEAD=[work(twin.FIRST, 1500, 1510, None, overheadType=4)],
        CUPTI_ACTIVITY_KIND_OVERHEAD=[
            work(twin.FIRST, 1500, 2400, None, overheadType=7),
            work(twin.FIRST, 1500, 2500, None, overheadType=6),
        ],
    )
    assert figures(profile) == [
        (0, "Nsight Systems", "overhead", "CUPTI instrumentation", 10.0, "ns"),
        (0, "Nsight Systems", "overhead during GPU work", "CUPTI instrumentation", 10.0, "ns"),
        (0, "Nsight Systems", "overhead of CUDA", "Lazy function loading", 900.0, "ns"),
        (0, "Nsight Systems", "overhead of CUDA", "Runtime module loading", 1000.0, "ns"),
    ]
    assert overhead_answer(profile)[0][1] == "clean"


def test_overhead_before_the_gpu_work_is_outside_its_span(tmp_path: Path) -> None:
    profile = read(tmp_path, "2023.4", PROFILER_OVERHEAD=[work(twin.FIRST, 100, 900, 22)])
    assert overhead_answer(profile)[0] == (0, "clean", "profiler overhead is 0% of the GPU span")


def test_ranges_of_an_imported_text_are_ranges(tmp_path: Path) -> None:
    events = twin.tables("2023.4")["NVTX_EVENTS"]
    numbers = {59: 70, 60: 71, 34: 65}
    imported = [{**row, "eventType": numbers.get(row["eventType"], row["eventType"])} for row in events]  # type: ignore[call-overload]
    profile, plain = (
        read(folder, "2023.4", NVTX_EVENTS=rows)
        for folder, rows in ((_write_recording(tmp_path / "a"), imported), (_write_recording(tmp_path / "b"), events))
    )
    assert profile["ranges"].equals(plain["ranges"])
    assert profile["ranges"].height == 14
    assert reasons(profile) == reasons(plain)


def test_unknown_events_are_counted(tmp_path: Path) -> None:
    events = [
        {**twin.marker(twin.FIRST, "a", 1, 2), "eventType": kind} for kind in (34, 33, 39, 76, 35, 900, None, "x")
    ]
    profile = read(tmp_path, "2023.4", NVTX_EVENTS=events)
    assert profile["ranges"].is_empty()
    assert reasons(profile) == [
        "1 NVTX mark skipped: instant events, not shown in any view",
        "4 NVTX events skipped: not recognized as ranges (event types: 35, 900, none)",
    ]


def _write_recording(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("generation", ["2023.4", "2025.5"])
def test_synchronizing_calls_record_the_awaited_work(generation: str, tmp_path: Path) -> None:
    """Both processes record an event twice, and wait for it; the numbers of kinds are not used."""
    none = (1 << 32) - 1
    names = {40: "cudaEventRecord_v3020", 41: "cudaStreamWaitEvent_v3020", 42: "cudaStreamSynchronize_v3020"}
    names[43] = "cudaEventSynchronize_v3020"

    def sync(pid: int, stream: int, correlation: int, **fields: int) -> twin.Row:
        ids = {"deviceId": 0, "contextId": 1, "globalPid": twin.process(pid)}
        return {**ids, "streamId": stream, "correlationId": correlation, **fields}

    calls, records, syncs = [], [], []
    for pid in (twin.FIRST, twin.SECOND):
        for number, name in enumerate((40, 41, 40, 43, 42, 41)):
            calls.append(twin.call(pid, 5000 + 10 * number, 5005 + 10 * number, 50 + number, name=name))
        records += [sync(pid, 7, 50, eventId=3, eventSyncId=1), sync(pid, 9, 52, eventId=3, eventSyncId=2)]
        syncs += [
            sync(pid, 14, 51, eventId=3, eventSyncId=1, syncType=3),
            sync(pid, none, 53, eventId=3, eventSyncId=2, syncType=1),
            sync(pid, 7, 54, eventId=none, eventSyncId=none, syncType=2),
            # Of an event that was never recorded.
            sync(pid, 14, 55, eventId=8, eventSyncId=0, syncType=2),
        ]
    rows = twin.tables(generation)
    rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = [*rows["CUPTI_ACTIVITY_KIND_RUNTIME"], *calls]
    rows["StringIds"] = [*rows["StringIds"], *({"id": number, "value": text} for number, text in names.items())]
    rows |= {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": syncs, "CUPTI_ACTIVITY_KIND_CUDA_EVENT": records}
    profile = load_input(str(twin.write(tmp_path / "run.sqlite", generation, rows)))
    columns = ("session", "correlation", "wait_device", "waiting_stream", "awaited_stream", "awaited_call")
    assert profile["api_calls"].select(columns).drop_nulls("wait_device").rows() == [
        row
        for session in (0, 1)
        for row in ((session, 51, 0, 14, 7, 50), (session, 53, 0, None, 9, 52), (session, 54, 0, None, 7, None))
    ]
    assert (
        not profile["issues"]
        .filter(pl.col("reason").str.contains("not shown"))
        .filter(pl.col("text").str.contains("SYNCHRONIZATION|CUDA_EVENT"))
        .height
    )
