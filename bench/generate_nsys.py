"""Generates a skewed Nsight Systems database: one kernel has most launches, one iteration half of them.

It holds the kernels, copies, calls and NVTX ranges of a training run: `STEPS` short steps, then a step with the other
half of the launches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.generate_profile import DATA

STEPS = 500
COMMON = 0.9
"""The share of launches of the most frequent kernel."""
KINDS = 400

_PROCESS = (1 << 48) + (1307 << 24)
_THREAD = _PROCESS + 1307
_LAUNCH = 1
_COPY = 2
_FIRST_STEP = 10
_FIRST_NAME = 10_000
_FIRST_OP = 20_000
_OPS = 40
_PUSH_POP = 59
_AT_ONCE = 200_000

Columns = dict[str, "np.ndarray | int | None"]


def skewed_database(rows: int) -> Path:
    """A database with ``rows`` launches and copies, generated if missing."""
    path = DATA / f"skewed_{rows}.sqlite"
    if path.exists():
        return path
    DATA.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".part")
    made.unlink(missing_ok=True)
    connection = sqlite3.connect(made)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    _write(connection, rows)
    connection.commit()
    connection.close()
    made.rename(path)
    return path


def _write(connection: sqlite3.Connection, rows: int) -> None:
    draw = np.random.default_rng(0)
    duration_ns = draw.integers(2500, 40_000, rows)
    start_ns = (
        10**9
        + np.cumsum(duration_ns + np.where(draw.random(rows) < 0.3, 0, draw.integers(0, 3000, rows)))
        - duration_ns
    )
    launched = start_ns - 5000
    kind = np.where(draw.random(rows) < COMMON, 0, draw.integers(1, KINDS, rows))
    is_copy = draw.random(rows) < 0.02
    stream = np.where(draw.random(rows) < 0.2, 20, 7)
    where: Columns = {
        "start": start_ns,
        "end": start_ns + duration_ns,
        "deviceId": 0,
        "contextId": 1,
        "streamId": stream,
        "correlationId": np.arange(rows) + 1,
        "globalPid": _PROCESS,
        "graphNodeId": None,
    }
    kernel: Columns = {
        "demangledName": _FIRST_NAME + kind,
        "registersPerThread": 16 + kind % 5 * 16,
        "gridX": draw.integers(1, 2000, rows),
        "gridY": 1,
        "gridZ": 1,
        "blockX": 64 << kind % 5,
        "blockY": 1,
        "blockZ": 1,
        "staticSharedMemory": 0,
        "dynamicSharedMemory": 0,
    }
    copy: Columns = {"bytes": duration_ns * 20, "copyKind": 1 + kind % 2, "srcKind": 0, "dstKind": 2}
    calls: Columns = {
        "start": launched,
        "end": launched + 1000,
        "globalTid": _THREAD,
        "correlationId": np.arange(rows) + 1,
        "nameId": np.where(is_copy, _COPY, _LAUNCH),
        "returnValue": 0,
    }
    _insert(connection, "CUPTI_ACTIVITY_KIND_KERNEL", where | kernel, ~is_copy)
    _insert(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", where | copy, is_copy)
    _insert(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", calls, np.ones(rows, bool))
    # The first half in equal steps, the second half in one.
    first = np.concatenate([np.linspace(0, rows // 2, STEPS, endpoint=False).astype(int), [rows // 2]])
    last = np.append(first[1:], rows) - 1
    op_first = np.unique(np.linspace(0, rows, max(1, rows // 20), endpoint=False).astype(int))
    op_last = np.minimum(op_first + 15, rows - 1)
    ranges: Columns = {
        "start": np.concatenate([launched[first] - 300, launched[op_first] - 100]),
        "end": np.concatenate([launched[last] + 1300, launched[op_last] + 1100]),
        "eventType": _PUSH_POP,
        "text": None,
        "textId": np.concatenate([_FIRST_STEP + np.arange(len(first)), _FIRST_OP + np.arange(len(op_first)) % _OPS]),
        "globalTid": _THREAD,
        "domainId": 0,
    }
    _insert(connection, "NVTX_EVENTS", ranges, np.ones(len(first) + len(op_first), bool))
    texts = {_LAUNCH: "cudaLaunchKernel_v7000", _COPY: "cudaMemcpyAsync_v3020"}
    texts |= {_FIRST_STEP + step: f"step {step}" for step in range(len(first))}
    texts |= {_FIRST_NAME + at: f"void at::native::elementwise_kernel<float, {at}>(int, float*)" for at in range(KINDS)}
    texts |= {_FIRST_OP + at: f"aten::op_{at}" for at in range(_OPS)}
    connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", texts.items())


def _insert(connection: sqlite3.Connection, table: str, columns: Columns, chosen: np.ndarray) -> None:
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} INTEGER' for name in columns)})")
    places = np.flatnonzero(chosen)
    for first in range(0, len(places), _AT_ONCE):
        part = places[first : first + _AT_ONCE]
        values: list[Iterable[int | None]] = [
            column[part].tolist() if isinstance(column, np.ndarray) else [column] * len(part)
            for column in columns.values()
        ]
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*values, strict=True))
