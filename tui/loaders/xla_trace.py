"""Loads XLA's trace for trace viewers (JAX, TensorFlow 2): GPU activities, ops, host calls, ranges and iterations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.cache.spill import (
    filter_rows,
    gather_rows,
    null_column,
    number_distinct,
    release_mapped,
    release_memory,
    row_codes,
    spill_to_disk,
)
from tui.correlation.iteration_ranges import Steps, mark_steps
from tui.correlation.launches import iterations_at_times, launching_calls, nest, parents
from tui.correlation.plausible_times import drop_outlier_events, dropped_events_text
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind
from tui.loaders.chrome_trace.stream import looks_like_trace
from tui.loaders.collector import Collector, Session, model_columns, with_short_names
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import without_descriptor
from tui.model.schema import NAME, RANGES
from tui.text import map_distinct, number_in, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

WANTED_ARGS: Final = (
    Arg("context_id", ("context_id",), ArgKind.TEXT),
    Arg("correlation", ("correlation_id",), ArgKind.INTEGER),
    Arg("graph_node", ("cuda_graph_node_id",), ArgKind.INTEGER),
    Arg("scope", ("scope_range_id",), ArgKind.INTEGER),
    Arg("step", ("step_num",), ArgKind.INTEGER),
    Arg("hlo_module", ("hlo_module",), ArgKind.TEXT),
    Arg("hlo_op", ("hlo_op",), ArgKind.TEXT),
    Arg("op_path", ("name",), ArgKind.TEXT),
    Arg("tf_op", ("tf_op",), ArgKind.TEXT),
    Arg("source", ("source_stack", "source"), ArgKind.TEXT),
    Arg("kernel_details", ("kernel_details",), ArgKind.TEXT),
    Arg("memcpy_details", ("memcpy_details",), ArgKind.TEXT),
    Arg("memset_details", ("memset_details",), ArgKind.TEXT),
)
"""The arguments of events that are read."""

_GPU: Final = r"/device:GPU:([0-9]{1,9})\b"
_STREAM: Final = r"(?i)^stream #([0-9]{1,18})"
STEP_LINES: Final = ("Steps", "XLA Modules")
"""Derived lines that can mark iterations."""
_PYTHON: Final = "$"
"""The prefix of names of Python functions, which are traced on request."""


@dataclass(frozen=True, slots=True)
class XlaEvents:
    """The events by device; columns of `tui.loaders.chrome_trace.event_batches.Trace.complete`."""

    gpu: pl.DataFrame
    """Events on GPU streams, with ``device`` and ``stream``."""
    derived_lines: pl.DataFrame
    """Lines that the converter for viewers adds to a GPU, with ``device`` and ``thread``: at least `STEP_LINES`. They
    repeat events of the streams and are not counted."""
    host: pl.DataFrame
    """Events on CPU threads, by start; pid and tid as Int64."""
    derived_counts: Mapping[str, int]
    """The number of events of each derived line, by name."""
    python_calls: int
    """The number of calls of Python functions, which are omitted."""
    implausible_count: int
    """The number of events omitted because of implausible times."""


def split_by_device(trace: Trace, *, display_name: str) -> XlaEvents:
    """Split events into those of GPUs and of the CPU, by the names of their processes and threads.

    Args:
        trace: The trace.
        display_name: The name of the file in messages.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    names = trace.names.with_columns(pl.col("pid", "tid").cast(pl.String))
    processes = names.filter(pl.col("name") == "process_name").unique("pid", keep="first", maintain_order=True)
    threads = names.filter(pl.col("name") == "thread_name").unique(("pid", "tid"), keep="first", maintain_order=True)
    gpus = processes.select("pid", number_in(pl.col("value"), _GPU, dtype=pl.Int32).alias("device")).drop_nulls(
        "device"
    )
    streams = threads.select(
        "pid",
        "tid",
        pl.col("value").alias("thread"),
        number_in(pl.col("value"), _STREAM).alias("stream"),
    )
    plausible = drop_outlier_events({"all": trace.complete}, display_name=display_name)[0]["all"]
    events = plausible.with_columns(pl.col("pid", "tid").cast(pl.String))
    with_device = events.join(gpus, on="pid", how="left", maintain_order="left").join(
        streams, on=["pid", "tid"], how="left", maintain_order="left"
    )
    gpu = with_device.filter(pl.col("device").is_not_null())
    derived = gpu.filter(pl.col("stream").is_null())
    host = with_device.filter(pl.col("device").is_null()).with_columns(
        pl.col("pid", "tid").cast(pl.Int64, strict=False)
    )
    is_python = pl.col("name").cast(pl.String).str.starts_with(_PYTHON)
    python = host.select(is_python.fill_null(False).alias("is_python")).to_series()
    return XlaEvents(
        gpu.filter(pl.col("stream").is_not_null()),
        derived,
        host.filter(~python).sort("start_ns", maintain_order=True),
        dict(derived.select(pl.col("thread").fill_null("")).group_by("thread").len().iter_rows()),
        int(python.sum()),
        trace.complete.height - plausible.height,
    )


_MEMORY_KINDS: Final = ("pinned", "pageable", "device", "array", "managed")
"""Kinds of memory that are shown; ``unknown`` becomes null."""


def build_activities(events: XlaEvents) -> pl.DataFrame:
    """Return activities, with columns to find their ops: hlo_module, hlo_op, op_path, tf_op, source, scope."""
    rows = events.gpu.with_columns(map_distinct(events.gpu["name"], without_descriptor, NAME))
    rows = with_short_names(rows)
    text = pl.col("text")
    copy_ends = (text.str.extract(r"^Memcpy([HDP])2([HDP])", part) for part in (1, 2))
    fact_columns = [
        _parse_texts(rows["kernel_details"], _kernel_columns()),
        _parse_texts(rows["memcpy_details"], _copy_columns()),
        _parse_texts(rows["memset_details"], _memset_columns()),
        _parse_texts(rows["context_id"], [number_in(text, r"([0-9]{1,9})$", dtype=pl.Int32).alias("context")]),
        _parse_texts(
            rows["name"],
            [
                text.str.extract(r"^Mem(cpy|set)", 1).alias("work").cast(NAME),
                pl.concat_str([*copy_ends], separator="to").cast(NAME).alias("copy_kind"),
            ],
        ),
    ]
    kind = (
        pl.when(pl.col("kernel_details").is_not_null())
        .then(pl.lit("kernel", NAME))
        .when(pl.col("memcpy_details").is_not_null() | (pl.col("work") == "cpy"))
        .then(pl.lit("memcpy", NAME))
        .when(pl.col("memset_details").is_not_null() | (pl.col("work") == "set"))
        .then(pl.lit("memset", NAME))
        .otherwise(pl.lit("kernel", NAME))
    )
    return pl.concat([rows, *fact_columns], how="horizontal").select(
        kind.alias("kind"),
        *("name", "short_name", "start_ns", "duration_ns", "device", "context", "stream"),
        *(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"),
        *("registers", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes"),
        pl.coalesce("copied_bytes", "set_bytes").alias("size_bytes"),
        *("copy_kind", "src_memory"),
        pl.coalesce("dst_memory", "set_memory").alias("dst_memory"),
        *("correlation", "graph_node"),
        pl.when(pl.col("registers").is_null()).then("kernel_details").alias("arguments"),
        "line",
        *("hlo_module", "hlo_op", "op_path", "tf_op", "source", "scope"),
    )


def _parse_texts(texts: pl.Series, facts: list[pl.Expr]) -> pl.DataFrame:
    """Return facts in texts, as columns; each distinct text is parsed once, as ``text``."""
    distinct = texts.unique().drop_nulls().cast(pl.String)
    positions = {text: position for position, text in enumerate(distinct)}
    read = distinct.alias("text").to_frame().select(facts)
    return gather_rows(read, map_distinct(texts, positions.get, pl.UInt32()))


def _kernel_columns() -> list[pl.Expr]:
    """Return the configuration in a text like ``regs:32 static_shared:0 dynamic_shared:0 grid:12,1,1 block:256,1,1``.

    A text without registers is of an AMD GPU; whether its grid counts blocks or threads is not documented. Where the
    number of registers is impossible, the text is of a call that was never filled in.
    """
    registers = _number("regs", pl.Int32)
    is_plausible = registers <= _MAX_REGISTERS
    axes = {
        f"{shape}_{axis}": number_in(pl.col("text"), rf"\b{shape}:([0-9]+),([0-9]+),([0-9]+)", position, pl.Int32)
        for shape in ("grid", "block")
        for position, axis in enumerate("xyz", 1)
    }
    shared = {
        "static_shared_bytes": _number("static_shared", pl.Int64),
        "dynamic_shared_bytes": _number("dynamic_shared", pl.Int64),
        # Older versions write the sum alone.
        "shared_bytes": _number("shm", pl.Int64),
    }
    facts = {"registers": registers, **shared, **axes}
    return [pl.when(is_plausible).then(fact).alias(name) for name, fact in facts.items()]


_MAX_REGISTERS: Final = 1024
"""Registers of a thread; no GPU has more."""


def _copy_columns() -> list[pl.Expr]:
    """Return size and memory of a text like ``kind_src:pinned kind_dst:device size:16384 dest:0 async:1``."""
    return [
        _number("size", pl.Int64).alias("copied_bytes"),
        _memory("kind_src").alias("src_memory"),
        _memory("kind_dst").alias("dst_memory"),
    ]


def _memset_columns() -> list[pl.Expr]:
    """Return size and memory of a text like ``kind:device num_bytes:1216512 async:1``."""
    return [_number("num_bytes", pl.Int64).alias("set_bytes"), _memory("kind").alias("set_memory")]


def _number(key: str, dtype: type[pl.DataType]) -> pl.Expr:
    return number_in(pl.col("text"), rf"\b{key}:([0-9]+)", dtype=dtype)


def _memory(key: str) -> pl.Expr:
    kind = pl.col("text").str.extract(rf"\b{key}:(\w+)", 1).str.to_lowercase()
    return pl.when(kind.is_in(_MEMORY_KINDS)).then(kind).cast(NAME)


_MAX_ENCLOSING_EVENTS: Final = 6
"""The most CPU events between a launch and its op."""

_NUMBER: Final = r"[._][0-9]+$"
"""The number at the end of the name of an HLO instruction: ``copy.1``, ``command_buffer_3``."""

_OP_NAME_COLUMNS: Final = ("device", "hlo_module", "hlo_op", "tf_op")
_BLOCK_ROWS: Final = 1 << 19
"""Rows that are processed at once, to bound the memory."""


def build_ops(activities: pl.DataFrame, host: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the ops, and the activities with ``op`` and ``op_join``.

    The work of one op instance has the same ``scope_range_id``, otherwise the same launching CPU event, otherwise the
    same launching call. Its times are those of the CPU event with its name that encloses the launch.

    Args:
        activities: The result of `build_activities`.
        host: CPU events with ``row`` and ``parent``, by start.
    """
    calls = filter_rows(host.select("correlation", "start_ns", "row", "parent"), pl.col("correlation").is_not_null())
    launch = launching_calls(activities["correlation"], calls)
    enclosing = calls["parent"].gather(launch)
    has_path = map_distinct(activities["tf_op"], lambda tf_op: _tf_op_path(tf_op) is not None, pl.Boolean()).fill_null(
        False
    )
    op_rows = _true_rows(activities["hlo_op"].is_not_null() | has_path)
    op_names = gather_rows(activities.select(*_OP_NAME_COLUMNS, "op_path", "source", "start_ns"), pl.Series(op_rows))
    instance = _instances(activities["scope"], enclosing, calls["row"].gather(launch)).gather(op_rows).to_numpy()
    del calls
    release_memory()
    first_rows, op_of_row = number_distinct(op_names.select(_OP_NAME_COLUMNS), instance)
    del instance
    release_memory()
    gpu_ns = np.full(len(first_rows), np.iinfo(np.int64).max)
    np.minimum.at(gpu_ns, op_of_row, op_names["start_ns"].to_numpy())
    ops = gather_rows(op_names.select(_OP_NAME_COLUMNS), pl.Series(first_rows)).with_columns(
        *(_first_known_values(op_names[text], first_rows, op_of_row) for text in ("op_path", "source")),
        enclosing.gather(op_rows[first_rows]).alias("around"),
        gpu_ns=gpu_ns,
    )
    del op_names, gpu_ns, first_rows, enclosing
    release_memory()
    ops = spill_to_disk(_add_cpu_times(ops, host))
    release_memory()
    order = _time_order(ops)
    position = np.empty(len(order), np.uint32)
    position[order] = np.arange(len(order), dtype=np.uint32)
    op = np.full(activities.height, _NO_OP, np.uint32)
    op[op_rows] = position[op_of_row]
    del op_rows, op_of_row, position
    ops = _ops_of_model(gather_rows(ops, pl.Series(order)))
    del order
    release_memory()
    join_labels = pl.Series(["recorded", "launch not recorded", "launched outside any op"], dtype=NAME)
    reasons = np.where(op != _NO_OP, 0, np.where(launch.is_null(), 1, 2)).astype(np.uint32)
    op_join = spill_to_disk(join_labels.gather(pl.Series(reasons)).alias("op_join"))
    del launch, reasons
    number = pl.Series("op", op)
    return ops, activities.with_columns(spill_to_disk(number.set(number == _NO_OP, None)), op_join)


_NO_OP: Final = (1 << 32) - 1


def _true_rows(condition: pl.Series) -> npt.NDArray[np.uint32]:
    return np.flatnonzero(condition.to_numpy()).astype(np.uint32)


def _instances(scope: pl.Series, enclosing: pl.Series, call: pl.Series) -> pl.Series:
    """Return a number for each activity that those of one op instance share, unless their names differ."""
    # Rows of the CPU are below the numbers of activities without a launch, and these below the scopes.
    rows = max((row + 1 for row in (enclosing.max(), call.max()) if isinstance(row, int)), default=0)
    instance = np.arange(rows, rows + len(scope))
    for rows_of_host in (call, enclosing):
        is_known = rows_of_host.is_not_null().to_numpy()
        instance[is_known] = rows_of_host.drop_nulls().to_numpy()
    has_scope = scope.is_not_null().to_numpy()
    _, position = np.unique(scope.drop_nulls().to_numpy(), return_inverse=True)
    instance[has_scope] = rows + len(scope) + position
    return pl.Series(instance)


def _first_known_values(
    column: pl.Series, first_rows: npt.NDArray[np.uint32], op_of_row: npt.NDArray[np.uint32]
) -> pl.Series:
    """Return the first known value of each op.

    Args:
        column: The values by row.
        first_rows: The first row of each op.
        op_of_row: The op of each row.
    """
    if column.null_count() == len(column):
        return null_column(column.name, len(first_rows), column.dtype)
    rows = first_rows
    if len(first_rows) < len(op_of_row) and column.null_count():
        known_rows = _true_rows(column.is_not_null())
        rows = np.full(len(first_rows), _NO_OP, np.uint32)
        np.minimum.at(rows, op_of_row[known_rows], known_rows)
        rows = np.where(rows == _NO_OP, first_rows, rows)
    return spill_to_disk(column.gather(pl.Series(rows)))


def _time_order(ops: pl.DataFrame) -> npt.NDArray[np.uint32]:
    """Return the rows of ops by start, unknown ones last, and then by the start of their work."""
    start = ops["start_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()
    gpu_ns = ops["gpu_ns"].to_numpy()
    is_sorted = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (gpu_ns[1:] >= gpu_ns[:-1]))
    if is_sorted.all():
        return np.arange(ops.height, dtype=np.uint32)
    return np.lexsort((gpu_ns, start)).astype(np.uint32)


def _add_cpu_times(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Add the times of the CPU event that encloses the launch and has the name of the op."""
    # Row numbers are positions, so rows are gathered by index, which takes less memory than a join.
    event_rows = [
        _events_of_ops(ops.slice(start, _BLOCK_ROWS), host) for start in range(0, max(ops.height, 1), _BLOCK_ROWS)
    ]
    times = gather_rows(host.select("start_ns", "duration_ns", "pid", "tid"), pl.concat(event_rows))
    return pl.concat([ops, times], how="horizontal")


def _events_of_ops(ops: pl.DataFrame, host: pl.DataFrame) -> pl.Series:
    """Return the row of the CPU event of each op; null if none of those around the launch has its name."""
    enclosing, event_rows = ops["around"], pl.repeat(None, ops.height, dtype=pl.UInt32, eager=True)
    for _ in range(_MAX_ENCLOSING_EVENTS):
        has_name = (host["name"].gather(enclosing) == ops["hlo_op"]).fill_null(False)
        event_rows = pl.select(pl.coalesce(event_rows, pl.when(has_name).then(enclosing))).to_series()
        enclosing = host["parent"].gather(enclosing)
    return event_rows


def _ops_of_model(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the ops with columns of the model: name, type, direction, group and stack are found in their texts."""
    # The texts of a path are found once for all ops with the same names, which repeat in every iteration.
    name_columns = ("hlo_op", "op_path", "tf_op", "hlo_module", "source")
    codes, count = row_codes(ops.select(name_columns))
    first_rows = np.empty(count, np.uint32)
    for begin in range(0, ops.height, _BLOCK_ROWS):
        first_rows[codes[begin : begin + _BLOCK_ROWS]] = np.arange(begin, min(begin + _BLOCK_ROWS, ops.height))
    distinct = ops.select(name_columns)[first_rows if ops.height else []]
    hlo = pl.col("hlo_op").cast(pl.String)
    # A text without separators is the name of an argument or of the whole program.
    jax = pl.col("op_path").cast(pl.String)
    path = pl.coalesce(
        pl.when(jax.str.contains("/", literal=True)).then(jax),
        map_distinct(distinct["tf_op"], _tf_op_path, pl.String()),
    )
    last_name = path.str.extract(r"(?s)([^/]+)/*$", 1)
    path_before = path.str.extract(r"(?s)^/*(.+?)/+[^/]+/*$", 1)
    group = pl.concat_str([pl.col("hlo_module").cast(pl.String), path_before], separator="/", ignore_nulls=True)
    tf_type = pl.col("tf_op").cast(pl.String).str.extract(r":([\w.]+)$", 1)
    # JAX: jvp(...) is the forward pass, transpose(jvp(...)) the backward pass.
    direction = (
        pl.when(path.str.contains("transpose(jvp(", literal=True))
        .then(pl.lit("bprop"))
        .when(path.str.contains("jvp(", literal=True))
        .then(pl.lit("fprop"))
    )
    texts = distinct.select(
        pl.col("hlo_op").alias("op_id"),
        pl.coalesce(last_name, hlo).cast(NAME).alias("name"),
        pl.coalesce(tf_type, last_name, hlo.str.replace(_NUMBER, "")).cast(NAME).alias("op_type"),
        direction.cast(NAME).alias("direction"),
        pl.when(group != "").then(group).cast(NAME).alias("group"),
        pl.col("source").cast(pl.String).str.strip_chars().str.replace_all("\n", ";").cast(NAME).alias("stack"),
    )
    op_texts = gather_rows(texts, pl.Series(codes.astype(np.uint32)))
    numbers = pl.int_range(ops.height, dtype=pl.UInt32, eager=True)
    return pl.concat([ops, op_texts], how="horizontal").select(
        spill_to_disk(numbers).alias("op"),
        *("op_id", "name", "op_type", "direction", "group"),
        *("start_ns", "duration_ns", "pid", "tid"),
        "stack",
        pl.lit("recorded", NAME).alias("op_source"),
    )


def _tf_op_path(tf_op: str) -> str | None:
    """Return the path of a TensorFlow op, from ``path:type``; None for ops that XLA compiled (``XlaModule:``)."""
    match = re.fullmatch(r"(?s)(.*?)(?::[\w.]*)?", tf_op)
    return match[1] if match is not None and match[1] not in ("", "XlaModule") else None


LAUNCH: Final = "[kernel launch]"
"""The name of launch calls, for which the trace has the name of the kernel."""

_API_CALL_NAME: Final = re.compile(r"(?:cu|cuda|hip)[A-Z]\w*")
_MEMORY_WORK_NAME: Final = re.compile(r"Mem[a-z]+\w*")


def add_parents(host: pl.DataFrame) -> pl.DataFrame:
    """Number the CPU events (``row``), and add ``parent`` (the row of the enclosing event) and ``depth``."""
    nesting = spill_to_disk(nest(host, after_block=release_mapped))
    release_memory()
    nested = [spill_to_disk(series) for series in (parents(nesting).alias("parent"), pl.Series("depth", nesting.depth))]
    del nesting
    release_memory()
    return host.with_row_index("row").with_columns(nested)


def are_calls(host: pl.DataFrame) -> pl.Series:
    """Return whether an event is a CUDA or HIP API call, by correlation id or name."""
    is_api_name = map_distinct(host["name"], lambda name: _API_CALL_NAME.match(name) is not None, pl.Boolean())
    return host["correlation"].is_not_null() | is_api_name.fill_null(False)


def build_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls among the CPU events, with columns of the model.

    Calls for copies and memsets are recorded as ``MemcpyD2D`` with a flag for asynchronous calls, which is added to the
    name as in CUDA's own names.
    """

    def call_name(name: str) -> str:
        call, memory_work = _API_CALL_NAME.match(name), _MEMORY_WORK_NAME.match(name)
        return call[0] if call is not None else memory_work[0] if memory_work is not None else LAUNCH

    def is_async(details: str) -> bool:
        return re.search(r"\basync:1\b", details) is not None

    names = map_distinct(calls["name"], call_name, NAME).fill_null(LAUNCH)
    details = (map_distinct(calls[column], is_async, pl.Boolean()) for column in ("memcpy_details", "memset_details"))
    asynchronous = map_distinct(names, lambda name: f"{name}Async" if _MEMORY_WORK_NAME.match(name) else name, NAME)
    is_flagged = pl.select(pl.coalesce(*details)).to_series().fill_null(False)
    return calls.select(
        names.zip_with(~is_flagged, asynchronous).alias("name"),
        *("start_ns", "duration_ns", "pid", "tid", "correlation", "line"),
    )


def build_ranges(other_events: pl.DataFrame) -> pl.DataFrame:
    """Return CPU events that are not calls: annotations of the program and the runtime, with columns of the model."""
    return other_events.select(
        "name",
        pl.lit(None, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        *("pid", "tid", "depth"),
        pl.lit(None, RANGES["iteration"]).alias("iteration"),
        "line",
        "step",
    )


def find_steps(ranges: pl.DataFrame, derived_lines: pl.DataFrame) -> Steps:
    """Find the ranges that mark iterations.

    These are, in this order: numbered step annotations of the program; the line ``Steps`` that the converter derives
    from them; the runs of the XLA module with the longest total time, if there are several; otherwise the result of
    `tui.correlation.iteration_ranges.mark_steps`.

    Args:
        ranges: The result of `build_ranges`.
        derived_lines: The derived lines of GPUs.
    """
    without_step = ranges.drop("step")
    # Names without the number that the converter appends (``train 7``).
    annotations = map_distinct(ranges["name"], lambda name: re.sub(r"[ #]*[0-9]+\Z", "", name), NAME)
    is_numbered = ranges["step"].is_between(0, (1 << 31) - 1) & annotations.is_not_null()
    if is_numbered.any():
        name = annotations.filter(is_numbered).cast(pl.String).mode().sort()[0]
        is_step = is_numbered & (annotations == name)
        marked = without_step.with_columns(pl.when(is_step).then(ranges["step"]).cast(pl.Int32).alias("iteration"))
        return Steps(marked, f"step annotation {name}")
    for line, source in (("Steps", "the profiler's Steps line"), ("XLA Modules", "XLA module runs")):
        marks, label = _derived_line_marks(derived_lines, line)
        if marks is not None:
            return Steps(pl.concat([without_step, marks.select(without_step.columns)]), f"{source} {label}".rstrip())
    return mark_steps(without_step, kind="annotation")


def _derived_line_marks(derived_lines: pl.DataFrame, line: str) -> tuple[pl.DataFrame | None, str]:
    """Return the rows of a derived line of the first GPU with it, as ranges that mark iterations; and their source."""
    rows = derived_lines.filter(
        pl.col("thread").cast(pl.String).str.starts_with(line), pl.col("name").is_not_null()
    ).sort("start_ns")
    if rows.is_empty():
        return None, ""
    first_row = rows.row(0, named=True)
    rows = rows.filter(device=first_row["device"], thread=first_row["thread"])
    label = ""
    if line == "XLA Modules":
        # The number in brackets identifies the program: jit_step(123).
        rows = rows.with_columns(pl.col("name").cast(pl.String).str.replace(r"\([0-9]+\)$", "").alias("module"))
        longest = rows.group_by("module").agg(pl.col("duration_ns").sum()).sort("duration_ns", "module")["module"][-1]
        rows = rows.filter(module=longest)
        label = str(longest)
        if rows.height < 2:
            return None, ""
    numbers = number_in(rows["name"].cast(pl.String), r"([0-9]+)$", dtype=pl.Int32)
    counted = numbers.null_count() > 0 or numbers.n_unique() < len(numbers)
    return rows.select(
        "name",
        pl.lit(line, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        pl.lit(None, pl.Int64).alias("pid"),
        pl.lit(None, pl.Int64).alias("tid"),
        pl.lit(0, pl.Int32).alias("depth"),
        (pl.int_range(pl.len(), dtype=pl.Int32) if counted else pl.lit(numbers)).alias("iteration"),
        "line",
    ), label


FORMAT: Final = Format(
    name="xla-trace",
    title="XLA trace (JAX, TensorFlow 2)",
    recognized_by='trace events of processes named "/device:GPU:0" or "/host:CPU", with threads "Stream #14(...)"',
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="jax.profiler.start_trace(FOLDER) ... stop_trace(), then open FOLDER/plugins/profile/*/*.trace.json.gz",
)

_DEVICE_NAME: Final = re.compile(rb'"name"\s*:\s*"[^"]*/(?:device:(?:GPU|TPU):\d+|host:CPU)"', re.IGNORECASE)
_MAX_EVENTS: Final = 1_000_000
"""The maximum number of events that the exporter writes."""


class XlaTraceLoader:
    """Reads the traces of XLA's profiler."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence by the names of processes and threads, which precede all events."""
        return 0.9 if looks_like_trace(head) and _DEVICE_NAME.search(head) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: The trace holds no events of XLA's profiler.
        """
        from tui.loaders.chrome_trace.read_trace import read_trace  # not needed to recognize a file

        trace = read_trace(source, WANTED_ARGS, on_progress)
        events = split_by_device(trace, display_name=source.display_name)
        if events.gpu.is_empty() and events.host.is_empty():
            raise ProftuiError(
                f"{source.display_name}: no profile found: trace events without GPU streams or CPU threads",
                FORMATS_HINT,
            )
        collector = Collector(source.name)
        convert(events, collector, FORMAT.name)
        _report_issues(trace, events, collector)
        collector.add_issues([*source.notes, *trace.notes])
        return collector.profile(partial=trace.partial)


def convert(events: XlaEvents, collector: Collector, format_name: str) -> Session:
    """Add the events of a recording as a new session, which is returned."""
    session = collector.open_session(format_name, None)
    host = add_parents(events.host)
    is_call = are_calls(host)
    calls = build_calls(filter_rows(host, pl.lit(is_call)))
    steps = find_steps(build_ranges(filter_rows(host, pl.lit(~is_call))), events.derived_lines)
    release_memory()
    is_jax = host["name"].unique().cast(pl.String).str.starts_with("PjitFunction(").any()
    del is_call
    activities = spill_to_disk(build_activities(events))
    if "group" in events.gpu.columns:
        activities = activities.with_columns(events.gpu["group"])
    release_memory()
    ops, activities = build_ops(activities, host)
    del host
    release_memory()
    marks = steps.ranges.filter(pl.col("iteration").is_not_null())
    launches = launching_calls(activities["correlation"], calls)
    activities = activities.with_columns(gather_rows(calls.select(launch_ns="start_ns"), launches)["launch_ns"])
    del launches
    release_memory()
    session.facts.update(
        tool="XLA profiler",
        framework="JAX" if is_jax else None,
        iteration_source=steps.source if marks.height else None,
    )
    # Without a launch, the time on the GPU decides the iteration.
    time_ns = activities.select(pl.coalesce("launch_ns", "start_ns")).to_series()
    op_iterations = ops.with_columns(iterations_at_times(marks, ops["start_ns"]))
    collector.add_frames(
        {
            "activities": model_columns(
                "activities",
                _add_group_iterations(activities.with_columns(iterations_at_times(marks, time_ns)), events),
            ),
            "api_calls": calls,
            "ops": model_columns("ops", op_iterations),
            "ranges": steps.ranges,
        }
    )
    return session


def _add_group_iterations(activities: pl.DataFrame, events: XlaEvents) -> pl.DataFrame:
    """Add the iteration from the profiler's own groups, if they are numbered."""
    if "group" not in activities.columns:
        return activities
    number = number_in(pl.col("name").cast(pl.String), r"([0-9]{1,9})$", dtype=pl.Int32)
    steps = (
        events.derived_lines.filter(pl.col("thread").cast(pl.String).str.starts_with("Steps"))
        .select("group", number.alias("number"))
        .drop_nulls()
        .unique("group", keep="first", maintain_order=True)
    )
    grouped = activities.join(steps, on="group", how="left", maintain_order="left")
    return grouped.with_columns(pl.coalesce("number", "iteration").alias("iteration"))


def report_skipped_events(events: XlaEvents, collector: Collector) -> None:
    """Report derived lines, calls of Python functions and events with implausible times, which are not shown."""
    if events.derived_counts:
        threads = ", ".join(sorted(filter(None, events.derived_counts))[:6])
        reason = f"{plural(sum(events.derived_counts.values()), 'event')} on lines that duplicate streams skipped"
        collector.issue("info", None, threads, reason)
    if events.python_calls:
        reason = f"{plural(events.python_calls, 'Python function call')} skipped"
        collector.issue("info", None, "", reason)
    if events.implausible_count:
        collector.issue("warning", None, "", dropped_events_text(events.implausible_count))


def _report_issues(trace: Trace, events: XlaEvents, collector: Collector) -> None:
    if events.host["correlation"].is_not_null().any():
        reason = f"launch calls have the names of their kernels in this trace: they are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    report_skipped_events(events, collector)
    if events.gpu.is_empty():
        reason = "no GPU work in the trace: the program used no GPU, or its work was not recorded"
        collector.issue("warning", None, "", reason)
    if trace.complete.height >= _MAX_EVENTS:
        reason = f"the profiler writes about {_MAX_EVENTS:,} events at most: some are missing; record fewer steps"
        collector.issue("warning", None, f"{trace.complete.height:,} events", reason)
