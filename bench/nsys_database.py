"""Nsight Systems databases with many kernels, compared with the fastest readers of their columns into Polars."""

from __future__ import annotations

import importlib.util
import random
import sqlite3
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from bench.figures import Figure, ratio
from bench.generate_nvprof import DATA
from bench.measure import Case, Result
from tui.loaders.sqlite.database import Database

TITLE = "Nsight Systems databases"
NOTE = (
    "generated: 800 kernels with names and launch configurations of a training run, one launch each; "
    "the floor needs connectorx and pyarrow (the dependency group bench), else it is ADBC"
)

ROWS, RUNS = 5_000_000, 1
GOAL = 1.2
OURS = "proftui, the same columns"

TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
READ = (
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "graphNodeId",
    "demangledName",
)
_ALL = [
    "start",
    "end",
    "deviceId",
    "contextId",
    "greenContextId",
    "streamId",
    "correlationId",
    "globalPid",
    "demangledName",
    "shortName",
    "mangledName",
    "launchType",
    "cacheConfig",
    "registersPerThread",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "localMemoryPerThread",
    "localMemoryTotal",
    "gridId",
    "sharedMemoryExecuted",
    "graphNodeId",
    "sharedMemoryLimitConfig",
]
_CALLS = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId"]
_KINDS = 800
_PROCESS = (1 << 48) + (1307 << 24)
_LAUNCH = 5000
"""The id of the text ``cudaLaunchKernel_v7000``."""


def cases(rows: int) -> Iterator[tuple[str, list[Case]]]:
    """Groups of cases; generates the file first."""
    path = database(rows)
    has_connectorx = all(importlib.util.find_spec(name) for name in ("connectorx", "pyarrow"))
    columns = [
        Case("ADBC, 2 ranges of row ids in threads", "bench.nsys_database:with_adbc", path, not has_connectorx),
        Case(OURS, "bench.nsys_database:with_proftui", path),
    ]
    if has_connectorx:
        columns.insert(0, Case("connectorx, 4 ranges of row ids", "bench.nsys_database:with_connectorx", path, True))
    columns.append(Case("proftui, the whole database", "bench.work:load_profile", path))
    yield "the columns of the kernel table; an API call for each kernel", columns


def figures(_group: str, results: Mapping[str, Result], _tenth: Mapping[str, float]) -> list[Figure]:
    """Time relative to the fastest installed reader."""
    floor = next(result for result in results.values() if result.case.is_floor)
    return [ratio("Nsight Systems database: reading kernels", results[OURS], floor, GOAL)]


def with_connectorx(path: str) -> int:
    """The kernel columns, read with connectorx, the fastest reader."""
    import connectorx

    queries = [_query(*part) for part in _parts(path, 4)]
    return int(connectorx.read_sql(f"sqlite://{path}", queries, return_type="polars").height)


def with_adbc(path: str) -> int:
    """The kernel columns, read with the driver that proftui uses, without further steps."""
    import adbc_driver_manager
    import adbc_driver_sqlite

    def read(part: tuple[int, int]) -> pl.DataFrame:
        with (
            adbc_driver_sqlite.connect(f"file:{path}?mode=ro") as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
            adbc_driver_manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
            statement.set_sql_query(_query(*part))
            return pl.DataFrame(statement.execute_query()[0])

    with ThreadPoolExecutor(2) as pool:
        return pl.concat(pool.map(read, _parts(path, 2))).height


def with_proftui(path: str) -> int:
    """The kernel columns, read by proftui with the types of the model."""
    wide = ("start", "end", "streamId", "correlationId", "globalPid", "graphNodeId", "demangledName")
    with Database(Path(path), path) as database:
        return database.frame(TABLE, {name: pl.Int64 if name in wide else pl.Int32 for name in READ}).height


def database(rows: int) -> Path:
    """A database with ``rows`` kernels, generated if missing."""
    path = DATA / f"nsys-{rows}.sqlite"
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    made = path.with_suffix(".partial")
    made.unlink(missing_ok=True)
    connection = sqlite3.connect(made)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    for table, columns in ((TABLE, _ALL), ("CUPTI_ACTIVITY_KIND_RUNTIME", _CALLS)):
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} INTEGER' for name in columns)})")
    connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
    names = [f"void at::native::elementwise_kernel_{kind}<float, {kind}>(int, float *)" for kind in range(_KINDS)]
    texts = [(1000 + 3 * kind + form, name) for kind, name in enumerate(names) for form in range(3)]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [*texts, (_LAUNCH, "cudaLaunchKernel_v7000")])
    connection.executemany(f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(_ALL))})", _kernels(rows))
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({', '.join('?' * len(_CALLS))})", _calls(rows)
    )
    connection.commit()
    connection.close()
    made.replace(path)
    return path


def _kernels(rows: int) -> Iterator[tuple[int | None, ...]]:
    chance = random.Random(1)
    kinds = [
        (
            *(1000 + 3 * kind + form for form in range(3)),
            *(1, 0),
            chance.choice((16, 32, 40, 96, 128, 255)),
            *(chance.choice((1, 40, 80, 1024, 65536, 400_000)), chance.choice((1, 1, 4)), 1),
            *(chance.choice((64, 128, 256, 512)), 1, 1),
            *(chance.choice((0, 0, 1024, 16384)), chance.choice((0, 0, 49152)), 0, 117_440_512),
        )
        for kind in range(_KINDS)
    ]
    start = 10**9
    for row in range(rows):
        # A few kernels have most launches, as in a training run.
        kind = kinds[int(chance.random() ** 2 * _KINDS)]
        end = start + int(1000 + chance.expovariate(1 / 20_000))
        yield (start, end, 0, 1, None, 7 if row % 5 else 20, row * 3, _PROCESS, *kind, row + 1, None, None, None)
        start = end + 500


def _calls(rows: int) -> Iterator[tuple[int | None, ...]]:
    for row in range(rows):
        start = 10**9 - 5000 + row * 20_000
        yield (start, start + 4000, 0, _PROCESS + 1307, row * 3, _LAUNCH, 0, None)


def _parts(path: str, count: int) -> list[tuple[int, int]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    last = connection.execute(f"SELECT max(rowid) FROM {TABLE}").fetchone()[0]
    connection.close()
    return [(part * last // count + 1, (part + 1) * last // count) for part in range(count)]


def _query(first: int, last: int) -> str:
    return f"SELECT {', '.join(READ)} FROM {TABLE} WHERE rowid BETWEEN {first} AND {last}"
