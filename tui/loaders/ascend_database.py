"""Reads the databases of Ascend's profilers: ``ascend_pytorch_profiler*.db`` of torch_npu and ``msprof*.db``.

The files of one run (database, trace, tables) become one session.

Names are stored as ids of ``STRING_IDS``. A kernel is a row of ``COMPUTE_TASK_INFO``, its times are those of the
``TASK`` of the same ``globalTaskId``. ``connectionId`` identifies the call that launched a task (``CANN_API``) and,
through ``CONNECTION_IDS``, the framework's op (``PYTORCH_API``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.launches import nest, parents
from tui.correlation.plausible_times import drop_outlier_times
from tui.loaders.ascend_csv import (
    COMMUNICATION_FORMAT,
    CSV_FORMAT,
    HCCL,
    IS_KERNEL,
    IS_TASK,
    TRACE_TOOLS,
    memory_change,
    memory_timeline,
)
from tui.loaders.base import Format
from tui.loaders.collector import fit_to_model
from tui.loaders.sqlite.database import missing_columns
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import short_name
from tui.model.profile import merge_tables, with_other_formats
from tui.model.schema import NAME
from tui.text import map_distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.input_file import InputFile
    from tui.loaders.sqlite.database import Database
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="ascend-database",
    title="Ascend database",
    recognized_by="an SQLite database with the tables STRING_IDS, TASK and COMPUTE_TASK_INFO",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "memory_events", "issues"),
    record_with="torch_npu.profiler.profile(..., experimental_config=_ExperimentalConfig(export_type=['db'])), "
    "or msprof --application=./app --type=db",
)

_INTEGERS: Final = pl.Int64
_CALL_COLUMNS: Final = ("startNs", "endNs", "globalTid", "connectionId", "name")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "TASK": ("startNs", "endNs", "globalTaskId"),
    "COMPUTE_TASK_INFO": ("name", "globalTaskId"),
    "MEMCPY_INFO": ("globalTaskId", "size", "memcpyOperation"),
    "CANN_API": _CALL_COLUMNS,
    "API": _CALL_COLUMNS,
    "PYTORCH_API": _CALL_COLUMNS,
    "CONNECTION_IDS": ("id", "connectionId"),
    "COMMUNICATION_OP": ("opName", "startNs", "endNs"),
    "MSTX_EVENTS": ("startNs", "endNs", "message"),
    "STEP_TIME": ("id", "startNs", "endNs"),
    "OP_MEMORY": (
        *("size", "deviceId", "allocationTime", "allocationTotalAllocated", "allocationTotalReserved"),
        *("releaseTime", "releaseTotalAllocated", "releaseTotalReserved"),
    ),
    "MEMORY_RECORD": ("component", "timestamp", "totalAllocated", "totalReserved", "deviceId"),
    "NPU_INFO": ("id", "name"),
    "ENUM_API_TYPE": ("id", "name"),
}
"""The columns that each table has in all versions."""
_OP_TYPE: Final = 50001
"""The ``type`` of an op in PYTORCH_API, unless ENUM_API_TYPE has another; other rows queue work or are of Python."""
_QUEUED: Final = "^(?:Enqueue|Dequeue)"
"""Names of rows that queue work, for databases without types."""
_BLOCKS: Final = ("blockNum", "blockDim", "block_dim")
"""The column with the number of blocks, from newer to older databases."""
_COPIES: Final = {
    0: ("memcpy host to host", "HtoH"),
    1: ("memcpy host to device", "HtoD"),
    2: ("memcpy device to host", "DtoH"),
    3: ("memcpy device to device", "DtoD"),
    5: ("memcpy device to device", "DtoD"),
    6: ("memcpy host to device", "HtoD"),
    7: ("memcpy device to host", "DtoH"),
}
"""Names and directions of copies by ``memcpyOperation``."""


@dataclass(frozen=True, slots=True)
class _AscendDatabase:
    """Ascend's databases as a format of SQLite databases."""

    format: Format = FORMAT

    def claims(self, database: Database) -> bool:
        return database.has("STRING_IDS", "id", "value") and (
            database.has("TASK", "startNs", "endNs", "globalTaskId")
            or database.has("PYTORCH_API", "startNs", "endNs", "name")
            or database.has("CANN_API", "startNs", "endNs", "name")
            or database.has("API", "startNs", "endNs", "name")
        )

    def read(self, database: Database, collector: Collector, source: InputFile) -> None:
        """Add the recording as one session.

        Raises:
            ProftuiError: Nothing was recorded.
        """
        texts = database.frame("STRING_IDS", {"id": _INTEGERS, "value": pl.String}).unique("id", keep="first")
        tasks = _tasks(database)
        kernels = pl.concat([_kernels(database, texts, tasks), _copies(database, tasks)], how="diagonal")
        calls = _calls(database, texts)
        ops, ops_by_connection = _ops(database, texts)
        ranges = pl.concat([_collectives(database, texts), _marked_ranges(database, texts)])
        memory = _memory(database, texts)
        frames = (kernels, calls, ops, ranges, memory)
        zero = min((start for frame in frames if isinstance(start := frame["start_ns"].min(), int)), default=None)
        if zero is None:
            raise ProftuiError(f"{source.display_name}: no profile found: every row lacks a time", FORMATS_HINT)
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(tool="Ascend", origin_ns=zero)
        if ops.height:
            session.facts["framework"] = "PyTorch"
        collector.resolution(1)
        kernels, calls, ops, ranges, memory = (
            frame.with_columns((pl.col("start_ns") - zero).alias("start_ns")) for frame in frames
        )
        ops = _add_parents(ops, collector)
        kernels = _link_ops(kernels, ops_by_connection)
        steps = _steps(database, zero)
        if steps.height:
            session.facts["iteration_source"] = "the file's STEP_TIME"
            kernels, ops = (_add_iteration(frame, steps) for frame in (kernels, ops))
            ranges = pl.concat([steps, ranges], how="diagonal")
        if (collectives := ranges.filter(pl.col("domain") == HCCL).height) > 0:
            reason = f"{collectives} collective operations overlap the kernels: shown as {HCCL} ranges, not kernels"
            collector.issue("info", None, "", reason)
        for table, reason in missing_columns(database, _COLUMNS):
            collector.issue("warning", None, table, reason)
        _devices(database, collector)
        collector.add_frames(
            {
                "activities": fit_to_model("activities", kernels, collector),
                "api_calls": fit_to_model("api_calls", calls, collector),
                "ops": fit_to_model("ops", ops, collector),
                "ranges": fit_to_model("ranges", ranges, collector),
                "memory_events": fit_to_model("memory_events", memory, collector),
            }
        )
        source.keep_going(collector.row_count)


def _read(database: Database, table: str, texts: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return the columns of a table, and optional ones; missing columns are null."""
    dtypes = {name: pl.String if name in texts else _INTEGERS for name in (*_COLUMNS[table], *optional)}
    schema = {name: dtype for name, dtype in dtypes.items() if database.has(table, name)}
    rows = database.frame(table, schema) if schema else pl.DataFrame(schema=dtypes)
    return rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in dtypes.items() if name not in schema)


def _resolve_texts(rows: pl.DataFrame, column: str, texts: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the ids of a column replaced by their texts, as a category."""
    values = texts.select(pl.col("id").alias(column), pl.col("value").cast(NAME).alias("_text"))
    return rows.join(values, on=column, how="left", maintain_order="left").drop(column).rename({"_text": column})


def _duration() -> pl.Expr:
    duration = pl.col("endNs") - pl.col("startNs")
    return pl.when(duration >= 0).then(duration).alias("duration_ns")


def _tasks(database: Database) -> pl.DataFrame:
    """Return the tasks of the device by ``globalTaskId``."""
    rows = _read(database, "TASK", optional=("deviceId", "connectionId", "streamId"))
    return rows.unique("globalTaskId", keep="first", maintain_order=True)


def _copies(database: Database, tasks: pl.DataFrame) -> pl.DataFrame:
    rows = _read(database, "MEMCPY_INFO").join(tasks, on="globalTaskId", how="inner", maintain_order="left")
    operation = pl.col("memcpyOperation")
    name = operation.replace_strict({code: name for code, (name, _) in _COPIES.items()}, default="memcpy").cast(NAME)
    return rows.select(
        pl.lit("memcpy", NAME).alias("kind"),
        name.alias("name"),
        name.alias("short_name"),
        pl.col("startNs").alias("start_ns"),
        _duration(),
        pl.col("deviceId").alias("device"),
        pl.col("streamId").alias("stream"),
        pl.col("connectionId").alias("correlation"),
        pl.when(pl.col("size") >= 0).then("size").alias("size_bytes"),
        operation.replace_strict({code: kind for code, (_, kind) in _COPIES.items()}, default=None)
        .cast(NAME)
        .alias("copy_kind"),
    )


def _kernels(database: Database, texts: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    info = _read(database, "COMPUTE_TASK_INFO", optional=("opType", *_BLOCKS))
    rows = _resolve_texts(_resolve_texts(info, "name", texts), "opType", texts).join(
        tasks, on="globalTaskId", how="left", maintain_order="left"
    )
    return rows.select(
        pl.lit("kernel", NAME).alias("kind"),
        "name",
        map_distinct(rows["name"], short_name, NAME).alias("short_name"),
        pl.col("startNs").alias("start_ns"),
        _duration(),
        pl.col("deviceId").alias("device"),
        pl.col("streamId").alias("stream"),
        pl.coalesce(_BLOCKS).alias("grid_x"),
        pl.col("connectionId").alias("correlation"),
        pl.format("Type: {}", pl.col("opType").cast(pl.String)).cast(NAME).alias("arguments"),
    )


def _process_and_thread() -> tuple[pl.Expr, pl.Expr]:
    """Return process (upper 32 bits) and thread (lower 32 bits) of ``globalTid``."""
    return (
        (pl.col("globalTid") // (1 << 32)).alias("pid"),
        (pl.col("globalTid") % (1 << 32)).alias("tid"),
    )


def _calls(database: Database, texts: pl.DataFrame) -> pl.DataFrame:
    rows = _read(database, "CANN_API")
    if rows.is_empty():
        rows = _read(database, "API")
    return _resolve_texts(rows, "name", texts).select(
        "name",
        pl.col("startNs").alias("start_ns"),
        _duration(),
        *_process_and_thread(),
        pl.col("connectionId").alias("correlation"),
    )


def _ops(database: Database, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ops of the framework, and the op of each connection of a task (columns correlation, op)."""
    rows = _read(database, "PYTORCH_API", texts=("startNs", "endNs"), optional=("type",)).with_columns(
        pl.col("startNs", "endNs").cast(pl.Int64, strict=False)
    )
    rows = _resolve_texts(rows, "name", texts)
    types = _read(database, "ENUM_API_TYPE", texts=("name",)).filter(pl.col("name") == "op")["id"].drop_nulls()
    is_op = (
        pl.col("type").is_in(types if len(types) else [_OP_TYPE])
        if database.has("PYTORCH_API", "type")
        else ~pl.col("name").cast(pl.String).str.contains(_QUEUED).fill_null(False)
    )
    rows = rows.filter(is_op, pl.col("startNs").is_not_null()).sort(
        "startNs", pl.col("endNs"), descending=[False, True], maintain_order=True
    )
    ops = rows.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("op"),
        "name",
        pl.col("startNs").alias("start_ns"),
        _duration(),
        *_process_and_thread(),
        pl.lit("recorded", NAME).alias("op_source"),
        pl.col("connectionId").alias("connection"),
    )
    connections = _read(database, "CONNECTION_IDS")
    ops_by_connection = (
        connections.join(ops.select("op", pl.col("connection").alias("id")).drop_nulls(), on="id", how="inner")
        .select(pl.col("connectionId").alias("correlation"), "op")
        # Of nested ops, the one that began last is the innermost.
        .sort("op")
        .unique("correlation", keep="last")
    )
    return ops.drop("connection"), ops_by_connection


def _add_parents(ops: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """Return the ops with the one that encloses each; null if the times are too far apart for one recording."""
    (timed,), _ = drop_outlier_times(ops)
    timed = timed.drop_nulls(["start_ns", "duration_ns"])
    try:
        nesting = nest(timed)
    except ValueError as error:
        collector.issue("warning", None, "", f"ops have no parents: {error}")
        return ops
    enclosing = timed.select("op", pl.col("op").gather(parents(nesting)).alias("parent"))
    return ops.join(enclosing, on="op", how="left", maintain_order="left")


def _link_ops(kernels: pl.DataFrame, ops_by_connection: pl.DataFrame) -> pl.DataFrame:
    joined = kernels.join(ops_by_connection, on="correlation", how="left", maintain_order="left")
    if ops_by_connection.is_empty():
        return joined
    join = pl.when(pl.col("op").is_null()).then(pl.lit("launch not recorded")).otherwise(pl.lit("external id"))
    return joined.with_columns(join.cast(NAME).alias("op_join"))


def _collectives(database: Database, texts: pl.DataFrame) -> pl.DataFrame:
    rows = _read(database, "COMMUNICATION_OP")
    return _ranges(_resolve_texts(rows.rename({"opName": "name"}), "name", texts), HCCL)


def _marked_ranges(database: Database, texts: pl.DataFrame) -> pl.DataFrame:
    rows = _read(database, "MSTX_EVENTS").rename({"message": "name"})
    return _ranges(_resolve_texts(rows, "name", texts), "mstx")


def _ranges(rows: pl.DataFrame, domain: str) -> pl.DataFrame:
    return rows.select("name", pl.lit(domain, NAME).alias("domain"), pl.col("startNs").alias("start_ns"), _duration())


def _steps(database: Database, zero: int) -> pl.DataFrame:
    """Return the steps of the training loop as ranges that mark iterations."""
    rows = _read(database, "STEP_TIME").filter(pl.col("startNs").is_not_null())
    return rows.sort("startNs").select(
        pl.format("step {}", "id").cast(NAME).alias("name"),
        pl.lit("step", NAME).alias("domain"),
        (pl.col("startNs") - zero).alias("start_ns"),
        _duration(),
        pl.col("id").cast(pl.Int32, strict=False).alias("iteration"),
    )


def _add_iteration(frame: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add the step that each row began in."""
    matches = (
        frame.with_row_index("_row")
        .sort("start_ns")
        .join_asof(
            steps.select(
                "start_ns", "iteration", (pl.col("start_ns") + pl.col("duration_ns")).alias("_end")
            ).drop_nulls(),
            on="start_ns",
            strategy="backward",
        )
        .with_columns(pl.when(pl.col("start_ns") < pl.col("_end")).then("iteration").alias("iteration"))
    )
    return matches.sort("_row").drop("_row", "_end")


def _memory(database: Database, texts: pl.DataFrame) -> pl.DataFrame:
    """Return all memory of the framework over time, or, if not recorded, the memory of its ops."""
    records = _resolve_texts(_read(database, "MEMORY_RECORD"), "component", texts)
    component = pl.col("component").cast(pl.String)
    with_graphs = records.filter(component == "PTA+GE")
    chosen = (with_graphs if with_graphs.height else records.filter(component == "PTA")).drop_nulls("totalAllocated")
    if chosen.height:
        return (
            chosen.sort("timestamp", maintain_order=True)
            .select(
                pl.lit("GPU", NAME).alias("place"),
                pl.col("deviceId").alias("device"),
                pl.col("timestamp").alias("start_ns"),
                pl.col("totalAllocated").alias("allocated_bytes"),
                pl.col("totalReserved").alias("reserved_bytes"),
            )
            .with_columns(memory_change())
        )
    rows = _read(database, "OP_MEMORY")
    frames = [
        rows.select(
            pl.lit("GPU", NAME).alias("place"),
            pl.col("deviceId").alias("device"),
            pl.col(f"{phase}Time").alias("start_ns"),
            (sign * pl.col("size")).alias("delta_bytes"),
            pl.col("size").alias("size_bytes"),
            pl.col(f"{phase}TotalAllocated").alias("allocated_bytes"),
            pl.col(f"{phase}TotalReserved").alias("reserved_bytes"),
        ).filter(pl.col("start_ns").is_not_null())
        for phase, sign in (("allocation", 1), ("release", -1))
    ]
    return pl.concat(frames).sort("start_ns", maintain_order=True)


def _devices(database: Database, collector: Collector) -> None:
    rows = _read(database, "NPU_INFO", texts=("name",))
    for device, name in rows.iter_rows():
        if isinstance(device, int) and name:
            collector.add_device(device, name)


ASCEND_DATABASE: Final = _AscendDatabase()
"""The format, for the list of database formats."""


# --- the files of one run ---------------------------------------------------------------------------------------------

_TABLES_OF_RUN: Final = frozenset((CSV_FORMAT.name, COMMUNICATION_FORMAT.name))
"""Formats with a file for each table of a run."""


def merge_ascend_files(profiles: Sequence[Profile]) -> list[Profile]:
    """Merge Ascend's files of a folder into one session: tables, each in a file of its own, the trace and the database.

    The session's source is the database, the trace or the file of the kernels; rows of other files have no line.
    Several files with different kernels are of several runs and are not merged. The result is in the order of the
    first files.
    """
    files_by_folder: dict[object, list[Profile]] = {}
    for profile in profiles:
        files_by_folder.setdefault(_folder_of_run(profile) or id(profile), []).append(profile)
    return [run for files in files_by_folder.values() for run in _merge_folder(files)]


def _folder_of_run(profile: Profile) -> str | None:
    """Return the folder of a file of Ascend's profilers; None for other profiles."""
    if len(profile.sources) != 1 or profile["sessions"].height != 1:
        return None
    is_table = profile["sessions"].item(0, "format") in _TABLES_OF_RUN
    return str(PurePosixPath(profile.sources[0]).parent) if is_table or _is_recording(profile) else None


def _merge_folder(files: Sequence[Profile]) -> list[Profile]:
    recordings = sorted(filter(_is_recording, files), key=lambda profile: not _is_database(profile))
    if len(recordings) > 1 and all(_repeats_kernels(recordings[0], profile) for profile in recordings[1:]):
        # Exports of one run: the database has all that the trace has.
        kept = with_other_formats(recordings[0], recordings[1:])
        return _merge_folder([kept, *(profile for profile in files if not _is_recording(profile))])
    tables = [_without_work_of(recordings[0], profile) for profile in files] if len(recordings) == 1 else list(files)
    with_kernels = [position for position, profile in enumerate(tables) if _kernels_of(profile).height]
    if recordings and len(with_kernels) > 1:
        # The tables are of another run than the recording.
        return [*recordings, *_merge_folder([profile for profile in files if not _is_recording(profile)])]
    if with_kernels:
        tables = [_without_repeated_kernels(profile) for profile in tables]
    with_work = with_kernels or [position for position, profile in enumerate(tables) if profile["activities"].height]
    if len(files) < 2 or len(with_work) > 1:
        return list(files)
    main = next(iter(with_work), 0)
    origins = pl.concat([table["sessions"]["origin_ns"] for table in tables])
    run = merge_tables(tables, main, origins)
    frames = {
        **run.frames,
        "memory_events": memory_timeline(run["memory_events"]),
        "sessions": run["sessions"].with_columns(pl.lit(origins.min(), pl.Int64).alias("origin_ns")),
    }
    if not recordings:
        # communication.json repeats the collective operations of kernel_details.csv.
        is_duplicate = pl.struct("name", "domain", "start_ns").is_duplicated() & pl.col("line").is_null()
        frames["ranges"] = run["ranges"].filter(~is_duplicate)
    return [replace(run, frames=frames)]


def _kernels_of(profile: Profile) -> pl.DataFrame:
    return profile["activities"].filter(IS_KERNEL, ~IS_TASK)


def _is_database(profile: Profile) -> bool:
    return bool(profile["sessions"].item(0, "format") == FORMAT.name)


def _is_recording(profile: Profile) -> bool:
    """Return whether a profile is a trace or a database with the kernels of NPUs."""
    is_of_profiler = profile["sessions"].item(0, "tool") in TRACE_TOOLS or _is_database(profile)
    return is_of_profiler and _kernels_of(profile).height > 0


def _repeats_kernels(recording: Profile, profile: Profile) -> bool:
    """Return whether a kernel of a profile begins at the same time as work of the recording."""
    starts, recorded_starts = (
        rows["start_ns"] + of["sessions"].item(0, "origin_ns")
        for rows, of in ((_kernels_of(profile), profile), (recording["activities"], recording))
    )
    return bool(starts.is_in(recorded_starts.implode()).any())


def _without_work_of(recording: Profile, profile: Profile) -> Profile:
    """Return a table without what the recording repeats; unchanged if its kernels are of another run."""
    if profile is recording or not (_kernels_of(profile).is_empty() or _repeats_kernels(recording, profile)):
        return profile
    repeated = ["activities", "ranges", *(["memory_events"] if recording["memory_events"].height else [])]
    frames = {name: profile[name].clear() for name in repeated}
    if recording["ops"].height:
        # operator_details.csv lists the same calls.
        frames["summary"] = profile["summary"].filter(pl.col("section") != "op")
    return _with_frames(profile, frames)


def _without_repeated_kernels(profile: Profile) -> Profile:
    return _with_frames(profile, {"activities": profile["activities"].filter(~(IS_KERNEL & IS_TASK))})


def _with_frames(profile: Profile, frames: dict[str, pl.DataFrame]) -> Profile:
    """Return a profile with other frames, without an origin of times if no event is left."""
    if all(frames.get(name, profile[name]).is_empty() for name in ("activities", "ranges", "memory_events")):
        frames["sessions"] = profile["sessions"].with_columns(pl.lit(None, pl.Int64).alias("origin_ns"))
    return replace(profile, frames={**profile.frames, **frames})
