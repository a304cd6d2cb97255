"""Small exports of each generation of Nsight Systems, with made-up figures.

Two processes, 100 on GPU 0 and 200 on GPU 1, use the same correlation ids. Each launches in two NVTX iterations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

GENERATIONS = ("2020.4", "2021.3", "2022.4", "2023.4", "2025.5")

Row = Mapping[str, object]

MACHINE = 1 << 48
FIRST, SECOND = 100, 200


def process(pid: int) -> int:
    return MACHINE + (pid << 24)


def thread(pid: int, tid: int) -> int:
    return process(pid) + tid


TEXTS = {
    1: "void ns::scale<float>(float *, int)",
    2: "scale",
    3: "cudaLaunchKernel_v7000",
    4: "cudaMemcpyAsync_v3020",
    5: "cudaGraphLaunch_v10000",
    6: "registered",
    7: "trainer",
    8: "cuMemAlloc_v2",
}
UTC = 1_700_000_000_000_000_000

_WHERE = "start end deviceId contextId streamId correlationId globalPid"
_KERNEL = (
    f"{_WHERE} demangledName shortName launchType cacheConfig registersPerThread gridX gridY gridZ "
    "blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
    "sharedMemoryExecuted graphNodeId"
)
_COPY = (
    f"{_WHERE} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId "
    "graphNodeId"
)
_SINCE: Mapping[str, Mapping[str, str]] = {
    "2021.3": {"CUPTI_ACTIVITY_KIND_KERNEL": "mangledName sharedMemoryLimitConfig"},
    "2022.4": {"CUPTI_ACTIVITY_KIND_MEMCPY": "virtualAddress"},
    "2023.4": {
        "CUPTI_ACTIVITY_KIND_KERNEL": "greenContextId",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "greenContextId",
        "CUPTI_ACTIVITY_KIND_MEMSET": "greenContextId",
    },
    "2025.5": {
        "CUPTI_ACTIVITY_KIND_KERNEL": "graphId clusterX clusterY clusterZ",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "eventSyncId",
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "eventSyncId",
        "NVTX_EVENTS": "binaryData",
    },
}
_COLUMNS: Mapping[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": _COPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_WHERE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_WHERE} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address originalFaultPc CpuInstruction module sourceLine",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start end deviceId contextId streamId correlationId globalPid syncType eventId"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId contextId streamId correlationId globalPid eventId",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId domainId",
    "OSRT_API": "start end globalTid nameId",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name",
    "DIAGNOSTIC_EVENT": "timestamp severity text globalPid",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_SYSTEM_ENV": "globalVid name value",
    "TARGET_INFO_CUDA_GPU": (
        "deviceId name globalMemoryBandwidth globalMemorySize numMultiprocessors computeCapabilityMajor "
        "computeCapabilityMinor "
        "maxRegistersPerMultiprocessor maxSharedMemoryPerMultiprocessor maxWarpsPerMultiprocessor"
    ),
    "TARGET_INFO_GPU": (
        "id name totalMemory memoryBandwidth smCount maxWarpsPerSm maxRegistersPerSm maxShmemPerSm computeMajor "
        "computeMinor"
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "EXPORT_META_DATA": "name value",
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
}
_OVERHEAD_SINCE_2025 = {
    "PROFILER_OVERHEAD": "start end globalTid nameId overheadType",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
}
_TEXT_COLUMNS = frozenset({"text", "value", "name", "utcTime", "localTime", "binaryData"})


def kernel(pid: int, start: int, end: int, correlation: int, **fields: object) -> Row:
    return {
        "start": start,
        "end": end,
        "deviceId": 0 if pid == FIRST else 1,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": process(pid),
        "demangledName": 1,
        "shortName": 2,
        "mangledName": 2,
        "registersPerThread": 32,
        **dict(zip(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), (4, 2, 1, 256, 1, 1), strict=True)),
        "staticSharedMemory": 1024,
        "dynamicSharedMemory": 2048,
        **fields,
    }


def call(pid: int, start: int, end: int, correlation: int, name: int = 3, **fields: object) -> Row:
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": thread(pid, pid),
        "correlationId": correlation,
        "nameId": name,
        "returnValue": 0,
        **fields,
    }


def marker(pid: int, text: str | None, start: int, end: int | None, **fields: object) -> Row:
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "globalTid": thread(pid, pid),
        "domainId": 0,
        **fields,
    }


def of_process(pid: int) -> dict[str, list[Row]]:
    """Return the rows of one process; the second did the same 10 ns later, and its kernels took twice as long."""
    delay_ns, factor = (0, 1) if pid == FIRST else (10, 2)
    ids = {"deviceId": 0 if pid == FIRST else 1, "contextId": 1, "streamId": 7, "globalPid": process(pid)}
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(pid, 1500 + delay_ns, 1500 + delay_ns + 100 * factor, 1),
            # Launched in the first iteration, run in the second.
            kernel(pid, 2100 + delay_ns, 2100 + delay_ns + 50 * factor, 2),
            kernel(pid, 2500 + delay_ns, 2500 + delay_ns + 100 * factor, 3, graphNodeId=77),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {**ids, "start": 1700 + delay_ns, "end": 1710 + delay_ns, "correlationId": 4, "bytes": 4096}
            | {"copyKind": 1, "srcKind": 1, "dstKind": 2},
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [
            {**ids, "start": 1720 + delay_ns, "end": 1725 + delay_ns, "correlationId": 9, "bytes": 64, "memKind": 2},
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call(pid, 1100 + delay_ns, 1120 + delay_ns, 1),
            # The driver's call within it has the same number.
            call(pid, 1105 + delay_ns, 1110 + delay_ns, 1, eventClass=1),
            call(pid, 1300 + delay_ns, 1320 + delay_ns, 2),
            call(pid, 1400 + delay_ns, 1410 + delay_ns, 4, name=4),
            call(pid, 2200 + delay_ns, 2220 + delay_ns, 3, name=5),
            call(pid, 2300 + delay_ns, 2320 + delay_ns, 5, name=8, returnValue=2),
        ],
        "NVTX_EVENTS": [
            marker(pid, "iteration 0", 1000 + delay_ns, 1990 + delay_ns),
            marker(pid, "aten::conv2d, seq = 4, op_id = 1", 1050 + delay_ns, 1350 + delay_ns),
            marker(pid, None, 1290 + delay_ns, 1340 + delay_ns, textId=6),
            marker(pid, "iteration 1", 2000 + delay_ns, 2990 + delay_ns),
            marker(pid, "open", 2250 + delay_ns, None),
            {**marker(pid, "whole", 900 + delay_ns, 3000 + delay_ns), "eventType": 60, "endGlobalTid": thread(pid, 5)},
            {**marker(pid, "a mark", 1234, None), "eventType": 34},
            {**marker(pid, "NCCL", 1, None), "eventType": 75, "domainId": 3},
            {**marker(pid, "ncclAllReduce", 2310 + delay_ns, 2330 + delay_ns), "domainId": 3},
        ],
    }


def tables(generation: str) -> dict[str, list[Row]]:
    """Return the rows of an export of that version."""
    rows: dict[str, list[Row]] = {}
    for part in (of_process(FIRST), of_process(SECOND)):
        for table, more in part.items():
            rows.setdefault(table, []).extend(more)
    rows["StringIds"] = [{"id": number, "value": text} for number, text in TEXTS.items()]
    rows["ThreadNames"] = [{"nameId": 7, "globalTid": thread(FIRST, FIRST)}]
    gpus = [(0, "Tesla T4", 40), (1, "Tesla T4", 40)]
    if generation == "2020.4":
        rows["TARGET_INFO_CUDA_GPU"] = [
            {"deviceId": number, "name": name, "globalMemoryBandwidth": 0, "globalMemorySize": 15109}
            | {"numMultiprocessors": sms, "computeCapabilityMajor": 7, "computeCapabilityMinor": 5}
            | {"maxRegistersPerMultiprocessor": 65536, "maxSharedMemoryPerMultiprocessor": 65536}
            | {"maxWarpsPerMultiprocessor": 32}
            for number, name, sms in gpus
        ]
        return rows
    rows["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": UTC}]
    rows["TARGET_INFO_SYSTEM_ENV"] = [
        {"name": name, "value": value}
        for name, value in {"Hostname": "node7", "NvDriverVersion": "4508002", "CudaDriverVersion": "11020"}.items()
    ]
    rows["TARGET_INFO_GPU"] = [
        {"id": number, "name": name, "totalMemory": 15_843_721_216, "memoryBandwidth": 320_064_000_000}
        | {"smCount": sms, "computeMajor": 7, "computeMinor": 5}
        | {"maxRegistersPerSm": 65536, "maxShmemPerSm": 65536, "maxWarpsPerSm": 32}
        for number, name, sms in gpus
    ]
    meta = {"2021.3": "", "2022.4": "EXPORT_META_DATA"}.get(generation, "META_DATA_EXPORT")
    if meta:
        rows[meta] = [{"name": "EXPORT_PRODUCT_VERSION", "value": f"{generation}.1"}]
        rows["PROCESSES"] = [
            {"globalPid": process(FIRST), "pid": FIRST, "name": "nsys-launcher"},
            {"globalPid": process(SECOND), "pid": SECOND, "name": "/usr/bin/python3"},
        ]
    if generation == "2025.5":
        rows["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
            {"start": 2600, "end": 2650, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 3}
            | {"globalPid": process(FIRST), "graphId": 12, "graphExecId": 13}
        ]
        rows["DIAGNOSTIC_EVENT"] = [
            {"severity": 1, "text": "Profiling has started.", "globalPid": process(FIRST)},
            {"severity": 2, "text": "Events were  lost.\n", "globalPid": process(SECOND)},
            {"severity": 3, "text": "CUPTI failed.", "globalPid": None},
            {"severity": 4, "text": "Each buffer that was flushed.", "globalPid": None},
        ]
        rows["OSRT_API"] = [{"start": 1, "end": 2, "globalTid": thread(FIRST, FIRST), "nameId": 7}]
        # CUDA_VISIBLE_DEVICES=1 makes the second GPU the first of its process.
        rows["TARGET_INFO_CUDA_DEVICE"] = [
            {"gpuId": 0, "cudaId": 0, "pid": FIRST},
            {"gpuId": 1, "cudaId": 1, "pid": SECOND},
        ]
    return rows


def columns(generation: str) -> dict[str, list[str]]:
    """Return the columns of each table that a version can write."""
    columns_by_table = {table: names.split() for table, names in _COLUMNS.items()}
    for version, added in _SINCE.items():
        if version <= generation:
            for table, names in added.items():
                columns_by_table[table].extend(names.split())
    if generation == GENERATIONS[-1]:
        columns_by_table.update({table: names.split() for table, names in _OVERHEAD_SINCE_2025.items()})
    return columns_by_table


def write(path: Path, generation: str, rows: Mapping[str, Iterable[Row]] | None = None) -> Path:
    """Write an export; tables without rows are left out, as Nsight does."""
    known = columns(generation)
    connection = sqlite3.connect(path)
    for table, table_rows in (tables(generation) if rows is None else rows).items():
        names = known[table]
        # The columns of texts have that type, the others are integers.
        typed = ", ".join(f'"{name}" {"TEXT" if name in _TEXT_COLUMNS else "INTEGER"}' for name in names)
        connection.execute(f'CREATE TABLE "{table}" ({typed})')
        connection.executemany(
            f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(names))})',
            [[row.get(name) for name in names] for row in table_rows],
        )
    connection.commit()
    connection.close()
    return path
