"""Writes small databases as nvprof does, of the versions that differ in their tables."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

_PREFIX = "CUPTI_ACTIVITY_KIND_"
_BLOBS = ("cacheConfig", "objectId", "value", "uuid", "pAccessPolicyWindow")

KERNEL = (
    "cacheConfig registersPerThread start end completed deviceId contextId streamId gridX gridY gridZ blockX blockY "
    "blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal correlationId gridId name"
)
CALL = "cbid start end processId threadId correlationId returnValue"
COPY = "copyKind srcKind dstKind flags bytes start end deviceId contextId streamId correlationId runtimeCorrelationId"
TABLES = {
    "KERNEL": KERNEL,
    "CONCURRENT_KERNEL": KERNEL,
    "RUNTIME": CALL,
    "DRIVER": CALL,
    "MEMCPY": COPY,
    "MEMSET": "value bytes start end deviceId contextId streamId correlationId flags memoryKind",
    "MARKER": "flags timestamp id objectKind objectId name",
    "DEVICE": "id name computeCapabilityMajor computeCapabilityMinor numMultiprocessors globalMemorySize "
    "globalMemoryBandwidth maxWarpsPerMultiprocessor numThreadsPerWarp maxRegistersPerMultiprocessor "
    "maxSharedMemoryPerMultiprocessor uuid",
    "NAME": "objectKind objectId name",
    "METRIC": "id value correlationId flags",
    "METRIC_INSTANCE": "id value instance correlationId flags",
    "EVENT": "id value domain correlationId",
    "OVERHEAD": "overheadKind objectKind objectId start end",
    "BRANCH": "sourceLocatorId correlationId functionId pcOffset diverged threadsExecuted executed",
    "UNIFIED_MEMORY_COUNTER": "counterKind value start end address srcId dstId streamId processId",
}
"""Columns of version 8."""

LATER = {
    11: {
        "KERNEL": " queued submitted launchType isSharedMemoryCarveoutRequested sharedMemoryCarveoutRequested "
        "sharedMemoryExecuted",
        "MARKER": " domain",
    },
    17: {
        "KERNEL": " graphNodeId shmemLimitConfig graphId pAccessPolicyWindow channelID channelType",
        "MEMCPY": " graphNodeId",
        "GRAPH_TRACE": "correlationId start end deviceId graphId contextId streamId",
    },
}
"""What later versions add."""


def columns(version: int) -> dict[str, list[str]]:
    """Return the tables of a version."""
    columns_by_table = {table: names.split() for table, names in TABLES.items()}
    for since, added in LATER.items():
        for table, names in added.items() if version >= since else ():
            columns_by_table[table] = [*columns_by_table.get(table, []), *names.split()]
    columns_by_table["CONCURRENT_KERNEL"] = columns_by_table["KERNEL"]
    return columns_by_table


def write(path: Path, tables: Mapping[str, Sequence[Row]], *, version: int = 12, strings: Sequence[str] = ()) -> str:
    """Write a database; the strings get the numbers 1, 2, ... Columns missing from a row are 0."""
    with sqlite3.connect(path) as connection:
        # All in one go: nobody waits for a disk.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        connection.execute(
            "CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE)"
        )
        connection.execute("CREATE TABLE Version(version INTEGER)")
        connection.execute("INSERT INTO Version VALUES (?)", (version,))
        connection.executemany("INSERT INTO StringTable VALUES (?, ?)", enumerate(["-- null --", *strings]))
        for table, names in columns(version).items():
            is_blob = {name: name in _BLOBS and not (name == "value" and "METRIC" not in table) for name in names}
            types = ", ".join(f"{name} {'BLOB' if is_blob[name] else 'INT'} NOT NULL" for name in names)
            connection.execute(f"CREATE TABLE {_PREFIX}{table}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {types})")
            rows = [[row.get(name, b"" if is_blob[name] else 0) for name in names] for row in tables.get(table, ())]
            marks = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO {_PREFIX}{table}({', '.join(names)}) VALUES ({marks})", rows)
    connection.close()
    return str(path)


def thread(pid: int, tid: int) -> bytes:
    """Return the object that a marker belongs to."""
    return struct.pack("<IQ", pid, tid)


def marks(
    number: int, name: int, start: int, end: int | None, *, pid: int = 7, tid: int = 70, domain: int = 0
) -> list[Row]:
    """Return the start and the end of a range."""
    common = {"id": number, "objectKind": 2, "objectId": thread(pid, tid), "domain": domain}
    rows: list[Row] = [{**common, "flags": 2, "timestamp": start, "name": name}]
    return rows if end is None else [*rows, {**common, "flags": 4, "timestamp": end}]


def call(cbid: int, correlation: int, start: int, end: int, *, pid: int = 7, tid: int = 70) -> Row:
    """Return a CUDA call."""
    return {
        "cbid": cbid,
        "start": start,
        "end": end,
        "processId": pid,
        "threadId": tid,
        "correlationId": correlation,
    }


def kernel(name: int, correlation: int, start: int, end: int, **changes: Any) -> Row:
    """Return a kernel of 2x3x4 blocks of 5x6x7 threads."""
    sizes = {"gridX": 2, "gridY": 3, "gridZ": 4, "blockX": 5, "blockY": 6, "blockZ": 7}
    shared = {"registersPerThread": 32, "staticSharedMemory": 48, "dynamicSharedMemory": 64}
    ids = {"deviceId": 0, "contextId": 1, "streamId": 13}
    return {**ids, **sizes, **shared, "name": name, "correlationId": correlation, "start": start, "end": end, **changes}
