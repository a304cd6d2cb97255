"""Reads a Perfetto trace: tracks of GPUs, calls, ranges and counters, and what GPU drivers write into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector, fit_to_model, link_run
from tui.loaders.perfetto_tracks import (
    COUNTERS,
    PACKET,
    STAGE,
    Packets,
    read_packets,
    read_track_events,
    tracks,
    unpacked,
)
from tui.loaders.protobuf import Integers, Kind, Parts, Wire
from tui.loaders.text.section import by_value
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.names import short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.source import Source
    from tui.model.profile import Profile

_STAGE: Final = {**dict.fromkeys((1, 2, 5, 11, 13, 14, 19, 20), Kind.INT), 17: Kind.PART, 21: Kind.PART}
_CONTEXTS, _SPECS, _KERNELS, _NAMES = 23, 24, 1000, 2
_XYZ: Final = dict.fromkeys((1, 2, 3), Kind.INT)


def render_stages(packets: Packets) -> pl.DataFrame:
    """Stages as activities: name, start_ns, duration_ns, device, context, stream, correlation, pid, grid and block."""
    wire = packets.wire
    rows, begins, ends = packets.of(STAGE)
    fields = wire.messages(begins, ends, _STAGE)
    state = packets.state[rows]

    def named(number: int, field: int, part: int = 2) -> pl.Series:
        return packets.named(number, state, fields.ints(field), fields.has(field), part)

    own = pl.Series(wire.texts(*fields.parts(17).first(fields.count)), dtype=pl.String).cast(NAME)
    contexts = packets.entries(_CONTEXTS, 2)
    keys = zip(state.tolist(), fields.ints(5).tolist(), strict=True)
    launch = wire.messages(*_first(fields.parts(21), fields.count), {1: Kind.PART, 2: Kind.PART})
    shapes = {}
    for shape, number in (("grid", 1), ("block", 2)):
        sizes = wire.messages(*_first(launch.parts(number), launch.count), _XYZ)
        for position, axis in enumerate("xyz", 1):
            shapes[f"{shape}_{axis}"] = pl.select(
                pl.when(pl.Series(sizes.has(position))).then(pl.Series(sizes.ints(position)))
            ).to_series()
    frame = pl.DataFrame(
        {
            "demangled": named(_KERNELS, 19, 3),
            "kernel": named(_KERNELS, 19),
            "own": own,
            "interned": named(_NAMES, 20),
            "stage": named(_SPECS, 14),
            "queue": named(_SPECS, 13),
            "start_ns": packets.time_ns[rows],
            "duration_ns": fields.ints(2),
            "device": fields.ints(11),
            "stream": pl.select(pl.when(pl.Series(fields.has(13))).then(pl.Series(fields.ints(13)))).to_series(),
            "pid": pl.Series([contexts.get(key) for key in keys], dtype=pl.Int64),
            **shapes,
        }
    )
    return frame.with_columns(
        name=pl.coalesce("demangled", "kernel", "own", "interned", "stage"),
        arguments=pl.concat_str(pl.lit("queue: "), pl.col("queue").cast(pl.String)),
    )


def _first(parts: Parts, count: int) -> tuple[Integers, Integers]:
    """Where one message of each owner begins and ends; one of no length where there is none."""
    begins, ends = parts.first(count)
    return np.maximum(begins, 0), np.maximum(ends, 0)


def gpu_counters(packets: Packets) -> tuple[pl.DataFrame, int]:
    """Counters of GPUs (device, metric, description, count, min, max, mean), and how many counters are declared."""
    wire = packets.wire
    _, begins, ends = packets.of(COUNTERS)
    events = wire.messages(begins, ends, {1: Kind.PART, 2: Kind.PART, 3: Kind.INT})
    heads = events.parts(1)
    specs = wire.messages(heads.begin, heads.end, {1: Kind.PART}).parts(1)
    described = wire.messages(specs.begin, specs.end, {1: Kind.INT, 2: Kind.PART, 3: Kind.PART})
    declared = pl.DataFrame(
        {
            "device": events.ints(3)[heads.owner[specs.owner]],
            "id": described.ints(1),
            "metric": pl.Series(wire.texts(*described.parts(2).first(described.count)), dtype=pl.String),
            "description": pl.Series(wire.texts(*described.parts(3).first(described.count)), dtype=pl.String),
        }
    ).unique(["device", "id"], keep="last", maintain_order=True)
    parts = events.parts(2)
    values = wire.messages(parts.begin, parts.end, {1: Kind.INT, 2: Kind.INT, 3: Kind.DOUBLE})
    value = pl.col("value")
    samples = pl.DataFrame(
        {
            "device": events.ints(3)[parts.owner],
            "id": values.ints(1),
            "value": np.where(values.has(3), values.values(3), values.ints(2).astype(np.float64)),
        }
    )
    found = (
        samples.group_by("device", "id", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
        .join(declared, on=["device", "id"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("metric", pl.format("counter {}", "id")).alias("metric"))
    )
    return found, declared.height


FORMAT: Final = Format(
    name="perfetto",
    title="Perfetto trace (protobuf)",
    recognized_by="Protocol Buffers that begin with a trace packet: a time, a sequence, an event or a track",
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --sys-trace --output-format pftrace -- ./app",
)

_FIELDS_OF_PACKETS: Final = frozenset(
    (3, 6, 8, 10, 11, 12, 13, 33, 35, 36, 41, 42, 44, 45, 50, 52, 53, 58, 59, 60, 79, 87, 89, 90, 128, 133)
)
_OF_PACKETS_ALONE: Final = 8
"""Fields with smaller numbers are those of XLA's planes as well."""

_GPU_CATEGORY: Final = r"^(?:(?:rocm_)?(?:kernel_dispatch|memory_copy)|kernel|gpu_memcpy|gpu_memset)$"
_GPU_TRACK: Final = r"\(GPU\)$|^COMPUTE AGENT|^COPY (?:to|from) AGENT|^STREAM \[|(?:^|/ )Device [0-9]+"
_API_CATEGORY: Final = r"^(?:rocm_)?(?:hip|hsa|rccl|rocdecode|rocjpeg|ompt)(?:_\w+)?_api$|^cuda_(?:runtime|driver)$"
_API_NAME: Final = r"^(?:hip|hsa_|ze|zes|cl|cu|cuda|rccl|nccl|ur)[A-Z_]\w*$"
_COPY: Final = r"(?i)^memory_copy|^memcpy|MemoryCopy|^copy"
_SET: Final = r"(?i)^memset|MemoryFill"
_ENDS: Final = {"HOST": "H", "DEVICE": "D"}


class PerfettoLoader:
    """Reads Perfetto traces."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure by the numbers of the fields of the first packets."""
        if not head.startswith(b"\x0a"):
            return 0.0
        wire = Wire.of(head)
        numbers: set[int] = set()
        begins, ends = wire.split(0, wire.size).of(PACKET)
        for begin, end in list(zip(begins.tolist(), ends.tolist(), strict=True))[:4]:
            packet = wire.split(begin, end)
            numbers |= {*packet.numbers.tolist(), *packet.ints}
        if not numbers or max(numbers) < _OF_PACKETS_ALONE:
            return 0.0
        known = len(numbers & _FIELDS_OF_PACKETS) / len(numbers)
        return 0.96 if known == 1 else 0.6 if known > 0.5 else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: It holds no event.
        """
        source.report_to(report)
        wire = unpacked(Wire.read(source.chunks(), source.unpacked_size))
        packets = read_packets(wire)
        events = read_track_events(packets)
        stages = render_stages(packets)
        counters, declared = gpu_counters(packets)
        if not (events.slices.height or events.counters.height or stages.height or declared or events.unclosed):
            raise ProftuiError(f"{source.called}: no profile found: a Perfetto trace without events", WHAT_OPENS)
        collector = Collector(source.name, source.preview)
        named, dropped = tracks(packets), packets.dropped
        slices, samples, unclosed, orphans = events.slices, events.counters, events.unclosed, events.orphans
        # As large as the trace, and read.
        del packets, events
        slices = _placed(_with_flows(slices), named)
        work = pl.concat([_activities(slices.filter("on_gpu")), _of_stages(stages)], how="diagonal")
        calls, ranges = _calls(slices.filter("is_call")), _ranges(slices.filter(~pl.col("on_gpu") & ~pl.col("is_call")))
        starts = [start for frame in (work, calls, ranges) if isinstance(start := frame["start_ns"].min(), int)]
        origin = min(starts, default=0)
        work, calls, ranges = (frame.with_columns(pl.col("start_ns") - origin) for frame in (work, calls, ranges))
        session = collector.open_session(FORMAT.name, None, pid=_only(slices["pid"]))
        is_rocprof = (
            slices["track_name"].str.contains(r"AGENT \[").any()
            or slices["category"].cast(pl.String).str.contains("hip|hsa").any()
        )
        is_thapi = not is_rocprof and calls["name"].cast(pl.String).str.contains("^ze[A-Z]").any()
        session.facts.update(tool="rocprofv3" if is_rocprof else "THAPI" if is_thapi else "Perfetto")
        found = link_run(
            work, calls if calls.height else None, ranges if ranges.height else None, session, collector, kind="slice"
        )
        found["metrics"] = pl.concat([_counters(samples, named), _of_gpus(counters)], how="diagonal")
        collector.add_frames({name: fit_to_model(name, frame, collector) for name, frame in found.items()})
        self._tell(wire, dropped, unclosed, orphans, work.height, collector)
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else source.cut_short)

    @staticmethod
    def _tell(wire: Wire, dropped: int, unclosed: int, orphans: int, work: int, collector: Collector) -> None:
        for count, severity, reason in (
            (wire.damaged, "error", "the file is cut or damaged: messages that end early"),
            (dropped, "warning", "packets need names that the trace has lost, and are left out"),
            (unclosed, "warning", "slices never end, and are left out"),
            (orphans, "warning", "ends of slices without a begin are left out"),
        ):
            if count:
                collector.issue(severity, None, "", f"{reason}: {count:,}")
        if not work:
            collector.issue("warning", None, "", "the trace holds no work of a GPU, or none that is recognized as such")


PERFETTO: Final = PerfettoLoader()
"""The loader, for the list of loaders."""


def _only(values: pl.Series) -> int | None:
    known = values.drop_nulls().unique()
    return known[0] if len(known) == 1 else None


def _with_flows(slices: pl.DataFrame) -> pl.DataFrame:
    """Slices that no writer numbered, numbered by the flows that join a call to the work that it launched."""
    if slices["corr_id"].null_count() < slices.height:
        return slices
    # Numbers of flows can be of 64 bits.
    return slices.with_columns(corr_id=pl.col("flow").rank("dense").cast(pl.Int64))


def _placed(slices: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Slices with the track that each is on, and whether that is of a GPU or of calls."""
    of_devices = slices.join(
        named.select(track="uuid", track_name="name", track_path="path", pid="pid", track_tid="tid"),
        on="track",
        how="left",
        maintain_order="left",
    )
    track = pl.coalesce("track_path", "track_name").fill_null("")
    category = pl.col("category").cast(pl.String).fill_null("")
    name = pl.col("name").cast(pl.String).fill_null("")
    on_gpu = (
        category.str.contains(_GPU_CATEGORY)
        | pl.col("track_name").fill_null("").str.contains(_GPU_TRACK)
        | track.str.contains(_GPU_TRACK)
    )
    is_call = category.str.contains(_API_CATEGORY) | ((category == "") & name.str.contains(_API_NAME))
    in_name = pl.col("track_name").str.extract(r"(?i)^thread .*?\(?([0-9]+)\)?$", 1).cast(pl.Int64, strict=False)
    return of_devices.with_columns(on_gpu=on_gpu, tid=pl.coalesce("tid", "track_tid", in_name)).with_columns(
        is_call=is_call & ~pl.col("on_gpu")
    )


def _activities(slices: pl.DataFrame) -> pl.DataFrame:
    """Slices on GPUs as activities."""
    name, track = pl.col("name").cast(pl.String).fill_null(""), pl.col("track_name").fill_null("")
    category = pl.col("category").cast(pl.String).fill_null("")
    is_copy = category.str.contains("memory_copy|memcpy") | name.str.contains(_COPY)
    kind = pl.when(is_copy).then(pl.lit("memcpy")).when(name.str.contains(_SET)).then(pl.lit("memset"))
    ends = [
        name.str.extract(rf"(?i)_{position}(HOST|DEVICE)", 1).str.to_uppercase().replace(_ENDS)
        for position in ("COPY_", "TO_")
    ]
    short = by_value(slices["name"], short_name, NAME)
    return slices.with_columns(short_name=short).select(
        kind.otherwise(pl.lit("kernel")).alias("kind"),
        "name",
        "short_name",
        *_times(),
        device=pl.coalesce("agent", track.str.extract(r"(?:AGENT \[|Device )([0-9]+)", 1).cast(pl.Int64, strict=False)),
        stream=pl.coalesce(
            "queue",
            "stream",
            track.str.extract(r"(?:QUEUE|STREAM|THREAD) \[([0-9]+)\]", 1).cast(pl.Int64, strict=False),
        ),
        correlation="corr_id",
        size_bytes="copy_bytes",
        copy_kind=pl.concat_str([*ends], separator="to"),
        arguments=pl.when(pl.col("workgroup_size").is_not_null()).then(
            pl.format("workgroup_size: {}; grid_size: {}", "workgroup_size", "grid_size")
        ),
    )


def _times() -> tuple[pl.Expr, pl.Expr]:
    """Start and duration: as the writer gives them beside the slice, else those of the slice."""
    is_given = pl.col("begin_ns").is_not_null() & (pl.col("end_ns") >= pl.col("begin_ns"))
    return (
        pl.when(is_given).then("begin_ns").otherwise("start_ns").alias("start_ns"),
        pl.when(is_given).then(pl.col("end_ns") - pl.col("begin_ns")).otherwise("duration_ns").alias("duration_ns"),
    )


def _of_stages(stages: pl.DataFrame) -> pl.DataFrame:
    """Stages of GPU drivers as activities."""
    name = pl.col("name").cast(pl.String).fill_null("")
    kind = pl.when(name.str.contains(_COPY)).then(pl.lit("memcpy")).when(name.str.contains(_SET)).then(pl.lit("memset"))
    shapes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    return stages.with_columns(short_name=by_value(stages["name"], short_name, NAME)).select(
        kind.otherwise(pl.lit("kernel")).alias("kind"),
        *("name", "short_name", "start_ns", "duration_ns", "device", "stream", *shapes, "arguments"),
    )


def _calls(slices: pl.DataFrame) -> pl.DataFrame:
    return slices.select("name", *_times(), "pid", "tid", correlation="corr_id")


def _ranges(slices: pl.DataFrame) -> pl.DataFrame:
    """Other slices as ranges; a track without a thread is one of its own."""
    return slices.select(
        "name", pl.col("category").alias("domain"), *_times(), "pid", pl.coalesce("tid", "track").alias("tid")
    )


def _counters(samples: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Counter tracks as metrics: a row each."""
    value = pl.col("value")
    return (
        samples.group_by("track", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
        .join(named.select(track="uuid", metric="name"), on="track", how="left", maintain_order="left")
        .select(
            pl.coalesce("metric", pl.format("counter {}", "track")).alias("metric"), "invocations", "min", "max", "avg"
        )
    )


def _of_gpus(counters: pl.DataFrame) -> pl.DataFrame:
    return counters.select(
        pl.format("GPU {}", "device").alias("device"), "metric", "description", "invocations", "min", "max", "avg"
    )
