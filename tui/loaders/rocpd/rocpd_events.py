"""Events of a rocpd recording: kernels, copies, API calls and roctx ranges.

AMD counts the grid in threads: blocks are grid / workgroup, rounded up. Registers are the vector registers of a thread,
shared memory the LDS of a workgroup, of which the kernel itself asks for the static part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.demangle import demangled
from tui.loaders.sqlite.database import folded
from tui.model.names import DESCRIPTOR, short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.loaders.sqlite.database import Database


_WORK: Final = dict.fromkeys(
    ("pid", "tid", "start", "end", "queue_id", "stream_id", "region_name_id", "event_id"), pl.Int64
)
_DISPATCH: Final = {
    **_WORK,
    "agent_id": pl.Int64,
    "kernel_id": pl.Int64,
    "private_segment_size": pl.Int64,
    "group_segment_size": pl.Int64,
    **{f"{what}_size_{axis}": pl.Int64 for what in ("workgroup", "grid") for axis in "xyz"},
}
_SYMBOL: Final = {
    "id": pl.Int64,
    "kernel_name": pl.String,
    "display_name": pl.String,
    "group_segment_size": pl.Int64,
    "arch_vgpr_count": pl.Int64,
    "accum_vgpr_count": pl.Int64,
    "sgpr_count": pl.Int64,
}
_COPY: Final = {**_WORK, "name_id": pl.Int64, "size": pl.Int64, "dst_agent_id": pl.Int64, "src_agent_id": pl.Int64}


def read_kernels(recording: Recording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Kernels with columns of the model, times as recorded; ``event_id`` and ``process_row`` besides."""
    rows = recording.frame("kernel_dispatch", _DISPATCH)
    symbols = recording.frame("info_kernel_symbol", _SYMBOL).unique("id", keep="first")
    # The display name is spelt out already; what has none is named as it is linked.
    raw = pl.coalesce(pl.col("display_name").replace("", None), "kernel_name").str.replace(DESCRIPTOR, "")
    symbols = symbols.with_columns(raw.alias("display_name"))
    spelt = demangled(symbols["display_name"].drop_nulls())
    names = symbols["display_name"].replace(spelt) if spelt else symbols["display_name"]
    short = pl.Series([None if name is None else short_name(name) for name in names], dtype=pl.String)
    symbols = symbols.select(
        pl.col("id").alias("kernel_id"),
        names.cast(NAME).alias("name"),
        short.cast(NAME).alias("short_name"),
        pl.col("group_segment_size").alias("static"),
        "arch_vgpr_count",
        _facts().cast(NAME).alias("told"),
    )
    joined = _joined(rows, events, agents, "agent_id").join(symbols, on="kernel_id", how="left", maintain_order="left")
    total, static = pl.col("group_segment_size"), pl.col("static")
    split = total >= static
    return joined.select(
        pl.lit("kernel").cast(NAME).alias("kind"),
        "name",
        "short_name",
        *_common(),
        *(
            (pl.col(f"grid_size_{axis}") / pl.when(pl.col(f"workgroup_size_{axis}") > 0).then(f"workgroup_size_{axis}"))
            .ceil()
            .cast(pl.Int64, strict=False)
            .alias(f"grid_{axis}")
            for axis in "xyz"
        ),
        *(pl.col(f"workgroup_size_{axis}").alias(f"block_{axis}") for axis in "xyz"),
        registers=pl.col("arch_vgpr_count"),
        static_shared_bytes=pl.when(split).then(static),
        dynamic_shared_bytes=pl.when(split).then(total - static),
        shared_bytes=pl.when(~split.fill_null(False)).then(total),
        arguments=_with_region(recording, joined),
    )


def read_copies(recording: Recording, events: pl.DataFrame, agents: pl.DataFrame) -> pl.DataFrame:
    """Copies, like the kernels; the GPU of one is that of its two ends that is a GPU, the target first."""
    rows = recording.frame("memory_copy", _COPY)
    name = recording.texts(rows["name_id"])
    source = agents.select(pl.col("agent_id").alias("src_agent_id"), pl.col("device").alias("source"))
    joined = _joined(rows.with_columns(name=name), events, agents, "dst_agent_id").join(
        source, on="src_agent_id", how="left", maintain_order="left"
    )
    ends = pl.col("name").cast(pl.String).str.extract_groups(r"(HOST|DEVICE)_TO_(HOST|DEVICE)")
    sides = [ends.struct.field(side).str.slice(0, 1) for side in ("1", "2")]
    return joined.with_columns(device=pl.coalesce("device", "source")).select(
        pl.lit("memcpy").cast(NAME).alias("kind"),
        pl.col("name"),
        pl.col("name").alias("short_name"),
        *_common(),
        size_bytes=pl.col("size"),
        copy_kind=(sides[0] + "to" + sides[1]).cast(NAME),
        arguments=_with_region(recording, joined.with_columns(told=pl.lit(None, NAME))),
    )


def _joined(rows: pl.DataFrame, events: pl.DataFrame, agents: pl.DataFrame, agent: str) -> pl.DataFrame:
    """Rows with the stack of their event and the device of an agent."""
    device = agents.select(pl.col("agent_id").alias(agent), "device")
    return rows.join(events.select("event_id", "stack"), on="event_id", how="left", maintain_order="left").join(
        device, on=agent, how="left", maintain_order="left"
    )


def _common() -> tuple[pl.Expr, ...]:
    return (
        pl.col("start").alias("start_ns"),
        (pl.col("end") - pl.col("start")).alias("duration_ns"),
        pl.col("device"),
        pl.coalesce("stream_id", "queue_id").alias("stream"),
        pl.col("stack").alias("correlation"),
        pl.col("event_id"),
        pl.col("pid").alias("process_row"),
    )


def _facts() -> pl.Expr:
    """What has no column of its own, in words."""
    told = (
        pl.when(pl.col(column) > 0).then(pl.format(f"{words}: {{}}", column))
        for words, column in (("Accumulation VGPRs", "accum_vgpr_count"), ("SGPRs", "sgpr_count"))
    )
    return pl.concat_str(*told, separator="; ", ignore_nulls=True).replace("", None)


def _with_region(recording: Recording, rows: pl.DataFrame) -> pl.Series:
    """Facts, and the roctx range that the recording itself names for the work."""
    table = pl.DataFrame({"told": rows["told"], "region": recording.texts(rows["region_name_id"])})
    distinct = table.unique(maintain_order=True)
    text = pl.concat_str(
        pl.col("told").cast(pl.String),
        pl.format("roctx range: {}", pl.col("region").cast(pl.String)),
        separator="; ",
        ignore_nulls=True,
    )
    texts = distinct.with_columns(text.replace("", None).cast(NAME).alias("text"))
    return table.join(texts, on=["told", "region"], how="left", nulls_equal=True, maintain_order="left")["text"]


_BASE: Final = "rocpd_"
_KEY: Final = "rocpd_string"
"""A table that every recording has."""
_MOST_RECORDINGS: Final = 1000
_JSON_LIMIT: Final = 1 << 20


def recordings(database: Database) -> list[str]:
    """What the table names of each recording end in; empty text where they have plain names."""
    return sorted(name[len(_KEY) :] for name in database.tables if folded(name).startswith(_KEY))[:_MOST_RECORDINGS]


class Recording:
    """The tables of one recording."""

    def __init__(self, database: Database, ending: str) -> None:
        self._database = database
        self._ending = ending
        self._strings = self.frame("string", {"id": pl.Int64, "string": pl.String}).unique("id", keep="first")

    def frame(self, table: str, schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
        """Columns of a table, told by its name without ``rocpd_`` and the ending."""
        return self._database.frame(f"{_BASE}{table}{self._ending}", schema)

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self._database.count(f"{_BASE}{table}{self._ending}")

    def texts(self, numbers: pl.Series) -> pl.Series:
        """The strings of these numbers as names; null where there is none, or an empty one."""
        used = self._strings.filter(pl.col("id").is_in(numbers.unique().drop_nulls().implode()), pl.col("string") != "")
        names = used.with_columns(pl.col("string").cast(NAME))
        return numbers.to_frame("id").join(names, on="id", how="left", maintain_order="left")["string"]

    def events(self) -> pl.DataFrame:
        """What calls and GPU work have in common: event, category, stack (null where it is 0), extdata.

        The stack is the number that a call shares with what it launched.
        """
        rows = self.frame(
            "event",
            {"id": pl.Int64, "category_id": pl.Int64, "stack_id": pl.Int64, "correlation_id": pl.Int64}
            | {"extdata": pl.String},
        ).unique("id", keep="first", maintain_order=True)
        stack = pl.coalesce(*(pl.when(pl.col(name) != 0).then(name) for name in ("stack_id", "correlation_id")))
        return rows.select(
            pl.col("id").alias("event_id"),
            self.texts(rows["category_id"]).cast(pl.String).alias("category"),
            stack.alias("stack"),
            "extdata",
        )

    def ids(self, table: str, number: str) -> pl.DataFrame:
        """Of processes or threads: their ids in the tables, and those of the system."""
        rows = self.frame(f"info_{table}", {"id": pl.Int64, number: pl.Int64})
        return rows.unique("id", keep="first").rename({"id": f"{table}_row", number: f"{table}_id"})


def from_json(texts: pl.Series, pick: Callable[[Mapping[str, Any]], object]) -> list[object]:
    """What is picked from each JSON object of a column; None where it is none. Each distinct text is read once."""
    found: dict[str, object] = {}
    for text in texts.unique().drop_nulls():
        try:
            value = json.loads(text) if len(text) <= _JSON_LIMIT else None
        except (ValueError, RecursionError):
            value = None
        found[text] = pick(value) if isinstance(value, dict) else None
    return [found.get(text) for text in texts]


_REGION: Final = dict.fromkeys(("pid", "tid", "start", "end", "name_id", "event_id"), pl.Int64)
_SAMPLE: Final = {"track_id": pl.Int64, "timestamp": pl.Int64, "event_id": pl.Int64}
_TRACK: Final = {"id": pl.Int64, "pid": pl.Int64, "tid": pl.Int64, "name_id": pl.Int64}
_MARKERS: Final = r"(?i)marker|roctx"
_PROCESS_WIDE: Final = r"(?i)roctxRangeSt(?:art|op)"
"""Ranges that may begin and end on different threads, in any order."""


def read_calls(recording: Recording, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls and ranges, each with columns of the model, times as recorded, and ``process_row``."""
    regions = recording.frame("region", _REGION)
    # What has no length is kept as a sample of a track.
    tracks = recording.frame("track", _TRACK).unique("id", keep="first").rename({"id": "track_id"})
    samples = (
        recording.frame("sample", _SAMPLE)
        .join(tracks, on="track_id", how="left", maintain_order="left")
        .select("pid", "tid", start="timestamp", end="timestamp", name_id="name_id", event_id="event_id")
    )
    rows = pl.concat([regions, samples])
    threads = recording.ids("thread", "tid").rename({"thread_row": "tid", "thread_id": "thread"})
    processes = recording.ids("process", "pid").rename({"process_row": "pid", "process_id": "process"})
    rows = (
        rows.with_columns(name=recording.texts(rows["name_id"]))
        .join(events, on="event_id", how="left", maintain_order="left")
        .join(threads, on="tid", how="left", maintain_order="left")
        .join(processes, on="pid", how="left", maintain_order="left")
        .with_columns(
            start_ns=pl.col("start"),
            duration_ns=pl.col("end") - pl.col("start"),
            process_row=pl.col("pid"),
            correlation=pl.col("stack"),
        )
        .with_columns(pid=pl.col("process"), tid=pl.col("thread"))
    )
    is_marker = pl.col("category").str.contains(_MARKERS).fill_null(False)
    columns = ("name", "start_ns", "duration_ns", "pid", "tid", "process_row")
    calls = rows.filter(~is_marker).select(*columns, "correlation")
    marked = rows.filter(is_marker)
    said = pl.Series(from_json(marked["extdata"], lambda value: _message(value.get("message"))), dtype=pl.String)
    of_thread = ~pl.col("name").cast(pl.String).str.contains(_PROCESS_WIDE).fill_null(False)
    ranges = marked.with_columns(tid=pl.when(of_thread).then("tid"), said=said).with_columns(
        name=pl.coalesce("said", pl.col("name").cast(pl.String)).cast(NAME)
    )
    return calls, ranges.select(columns)


def _message(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
