"""Collectives: bandwidth by message size compared with the link, and what delayed the last rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.collectives import COLLECTIVES, TURN, collectives, matched_collectives, wait_and_transfer_times
from tui.analysis.critical_path import IterationPeriod, Segment, base_profile, path_segments_frame, walk_back
from tui.analysis.critical_path_trace import traces
from tui.analysis.devices import peaks_by_device
from tui.analysis.memo import once_per_profile
from tui.model.columns import Column, ColumnKind, columns
from tui.model.schema import NAME
from tui.model.table_spec import TableSpec
from tui.text import number_in
from tui.text_width import shorten_symbol

if TYPE_CHECKING:
    from tui.model.profile import Profile

K = ColumnKind

ELEMENT_BYTES: Final = {
    **dict.fromkeys(("double", "float64", "long", "int64", "unsigned long", "complexfloat"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32", "unsigned int"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "int16"), 2),
    **dict.fromkeys(("byte", "uint8", "char", "int8", "bool"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
}
"""The bytes of PyTorch's element types, by name in lower case."""

_SIZED_BY_GROUP: Final = "(?i)all_?gather|reduce_?scatter|all_?to_?all"
CAUSE_CELLS: Final = 28
"""The width of the name of a rank's work."""
NVLINK_GPUS: Final = 8
"""Jobs of at most this number of ranks are assumed to run on one host, joined by NVLink."""


def message_sizes(arguments: pl.Series) -> pl.DataFrame:
    """Return the size of the message of each distinct text of arguments of collectives.

    As nccl-tests define it: all data that one rank has at the end or the beginning, whichever is more.

    Columns: arguments, element_type, message_bytes (null if not recorded).
    """
    text = pl.col("arguments").cast(pl.String)
    sent, received = (number_in(text, rf"{way} msg nelems: ([0-9]{{1,15}})") for way in ("In", "Out"))
    element_type = text.str.extract(r"(?i)dtype: ([^;]+)")
    size = element_type.str.to_lowercase().replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    distinct = arguments.rename("arguments").drop_nulls().unique().to_frame()
    return distinct.select(
        "arguments",
        element_type.alias("element_type"),
        (pl.max_horizontal(sent, received) * size).alias("message_bytes"),
    )


@once_per_profile("activities", "sessions", "devices")
def collective_sizes(profile: Profile) -> pl.DataFrame:
    """Return one row per kind of collective, process group and message size, the most time first.

    As nccl-tests define them: algorithm bandwidth is message (`message_sizes`) / time, and bus bandwidth that times
    2(n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all of n ranks, 1 for others.

    Columns: collective, communicator, message_bytes, element_type, group_size, calls, time_ns (their sum), median_ns,
    is_transfer (the time is from the last arrival on; else of the whole kernel, waiting included, so that bandwidth is
    at least that), algbw, busbw (of the median), best_busbw, link_pct (best, of one direction of the GPU's NVLink).
    """
    rows = collectives(profile)
    transfers = wait_and_transfer_times(profile).select("session", "activity", "comm_transfer_ns")
    n, kind = pl.col("group_size"), pl.col("collective")
    factor = (
        pl.when(kind.str.contains("(?i)all_?reduce"))
        .then(2 * (n - 1) / n)
        .when(kind.str.contains(_SIZED_BY_GROUP))
        .then((n - 1) / n)
        .otherwise(1.0)
    )
    sizes = profile["sessions"].select("session", world=pl.col("world_size").cast(pl.Int64))
    keys = ("collective", "communicator", "message_bytes", "element_type", "group_size", "is_transfer")
    grouped = (
        rows.join(message_sizes(rows["arguments"]), on="arguments", how="left", maintain_order="left")
        .join(transfers, on=("session", "activity"), how="left", maintain_order="left")
        .join(sizes, on="session", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("group_size", pl.when(pl.col("communicator") == "").then("world")).alias("group_size"),
            pl.coalesce("comm_transfer_ns", "duration_ns").alias("one_ns"),
            pl.col("comm_transfer_ns").is_not_null().alias("is_transfer"),
        )
        .filter(pl.col("message_bytes") > 0)
        .group_by(keys)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("one_ns").sum().alias("time_ns"),
            pl.col("one_ns").median().cast(pl.Int64).alias("median_ns"),
            pl.col("one_ns").filter(pl.col("one_ns") > 0).min().alias("least_ns"),
        )
        .with_columns(
            pl.when(pl.col("median_ns") > 0).then(1e9 * pl.col("message_bytes") / pl.col("median_ns")).alias("algbw")
        )
        .with_columns(
            (pl.col("algbw") * factor).alias("busbw"),
            (1e9 * pl.col("message_bytes") / pl.col("least_ns") * factor).alias("best_busbw"),
        )
    )
    link = _link(profile)
    on_host = pl.col("group_size") <= NVLINK_GPUS
    pct = pl.lit(None, pl.Float64) if link is None else pl.when(on_host).then(100 * pl.col("best_busbw") / link)
    return (
        grouped.with_columns(pct.alias("link_pct"))
        .sort("time_ns", *keys, descending=[True, *[False] * len(keys)])
        .select(column.name for column in COLLECTIVE_SIZES.columns)
    )


def _link(profile: Profile) -> float | None:
    """Return the bytes per second of one direction of NVLink; None if the GPUs differ or it is unknown."""
    links = {peaks.link_bytes_per_s for peaks in peaks_by_device(profile).values()}
    return next(iter(links)) if len(links) == 1 else None


def missing_sizes_reason(profile: Profile) -> str:
    """Return why no message sizes are known; empty if they are."""
    if collectives(profile).is_empty():
        return "no NCCL or RCCL kernels"
    if collective_sizes(profile).is_empty():
        return "message sizes are not recorded: newer PyTorch versions record them with NCCL kernels"
    return ""


COLLECTIVE_SIZES: Final = TableSpec(
    "collective_sizes",
    "Bandwidth by message size",
    (
        *columns("collective"),
        Column("message_bytes", "Message", K.SIZE, "Message of one rank: input or output, whichever is larger.", 1),
        Column("busbw", "Bus bandwidth", K.RATE, "Message / median time, times the factor of nccl-tests.", 1),
        Column("best_busbw", "Best", K.RATE, "Bus bandwidth of the fastest collective.", 2),
        Column(
            "link_pct",
            "Of NVLink%",
            K.PERCENT,
            "Best / one-way NVLink bandwidth of the GPU; up to 8 ranks; inferred.",
            2,
        ),
        Column("algbw", "Algorithm bandwidth", K.RATE, "Message / median time.", 3),
        Column("median_ns", "Median", K.DURATION, "Median time.", 3),
        Column("calls", "Kernels", K.COUNT, "Kernels of all ranks.", 3),
        Column("time_ns", "Time", K.DURATION, "Sum of their times.", 2),
        Column(
            "is_transfer",
            "Transfer only",
            K.FLAG,
            "Whether times start when the last rank arrives; otherwise they cover whole kernels, including waiting.",
            4,
        ),
        Column("element_type", "Type", K.TEXT, "Element type of the message.", 5),
        *columns("group_size", "communicator"),
    ),
    key=("collective", "communicator", "message_bytes", "element_type", "group_size", "is_transfer"),
    pinned="collective",
    min_pinned_cells=10,
    weight="time_ns",
    bars=("link_pct",),
)

COLLECTIVES_WITH_CAUSES: Final = TableSpec(
    "collectives",
    "Collectives",
    (
        *COLLECTIVES.columns[:3],
        Column(
            "late_cause",
            "Last rank ran",
            K.TEXT,
            "Largest part of the last rank's path before it arrived; names are shortened.",
            1,
        ),
        Column("late_cause_ns", "Its time", K.DURATION, "Its time on that path, between first and last arrival.", 2),
        Column("late_cause_kind", "Kind", K.TEXT, "Kind of that time: kernel, CPU op, launch delay, ...", 3),
        *COLLECTIVES.columns[3:],
    ),
    key=TURN,
    pinned="collective",
    min_pinned_cells=10,
)


@once_per_profile("activities", "api_calls", "ops", "sessions", "ranges")
def _causes(profile: Profile) -> pl.DataFrame:
    """Return what the last rank of each collective did before it arrived: `TURN`, late_cause, its kind and time."""
    schema = dict(wait_and_transfer_times(profile).select(TURN).schema)
    full_profile = base_profile(profile)
    traces_by_session = traces(full_profile)
    rows = wait_and_transfer_times(profile).drop_nulls("arrival_ns")
    is_last = pl.col("arrival_ns") == pl.col("arrival_ns").max().over(TURN)
    last_arrivals = rows.filter(pl.col("arrival_ns") > 0, is_last).unique(TURN, keep="first", maintain_order=True)
    activity_by_row = {
        session: dict(zip(session_trace.row.tolist(), range(len(session_trace.row)), strict=True))
        for session, session_trace in traces_by_session.items()
    }
    numbers = full_profile["activities"].with_row_index("row").select("session", "activity", "row")
    keys: list[tuple[Any, ...]] = []
    paths: list[tuple[IterationPeriod, list[Segment]]] = []
    for row in last_arrivals.join(numbers, on=("session", "activity"), how="inner", maintain_order="left").iter_rows(
        named=True
    ):
        trace = traces_by_session.get(row["session"])
        activity = activity_by_row.get(row["session"], {}).get(row["row"])
        if trace is None or activity is None:
            continue
        window = IterationPeriod(
            trace.session, len(paths), trace.start[activity] - row["arrival_ns"], trace.start[activity], activity
        )
        paths.append(
            (window, walk_back(traces_by_session, window.session, window.begin, window.end, activity, 1)[::-1])
        )
        keys.append(tuple(row[name] for name in TURN))
    segments = path_segments_frame(full_profile, paths)
    cause = (
        segments.group_by("iteration", "path_kind", "name")
        .agg(pl.col("duration_ns").sum().alias("late_cause_ns"))
        .sort("iteration", "late_cause_ns", descending=[False, True])
        .unique("iteration", keep="first", maintain_order=True)
    )
    turns = pl.DataFrame(keys, schema=schema, orient="row").with_row_index("place")
    names = cause.select(pl.coalesce(pl.col("name").cast(pl.String), pl.col("path_kind").cast(pl.String))).to_series()
    short = {name: shorten_symbol(name, CAUSE_CELLS) for name in names.unique().to_list()}
    cause = cause.with_columns(names.replace_strict(short, return_dtype=pl.String).cast(NAME).alias("late_cause"))
    return turns.join(
        cause.select(pl.col("iteration").cast(pl.UInt32).alias("place"), "path_kind", "late_cause", "late_cause_ns"),
        on="place",
        how="inner",
    ).select(
        *TURN,
        "late_cause",
        pl.col("path_kind").alias("late_cause_kind"),
        "late_cause_ns",
    )


def collectives_with_causes(
    profile: Profile, *, collective: str | None = None, communicator: str | None = None
) -> pl.DataFrame:
    """`matched_collectives` with what the last rank did between the first arrival and its own.

    Columns: those, late_cause (the work or wait that took most of the last rank's critical path in that time),
    late_cause_kind and late_cause_ns; null where clocks cannot be compared.
    """
    rows = matched_collectives(profile, collective=collective, communicator=communicator)
    return rows.join(_causes(profile), on=TURN, how="left", maintain_order="left").select(
        column.name for column in COLLECTIVES_WITH_CAUSES.columns
    )
