"""Reads a Perfetto trace: GPU tracks, API calls, ranges, counters, and the render stages of GPU drivers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.cache.spill import PieceCollector, release_memory
from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector, fit_to_model, link_run
from tui.loaders.perfetto_tracks import (
    COUNTERS,
    PACKET,
    STAGE,
    PacketReader,
    Packets,
    TrackEvents,
    Tracks,
    learn_tracks,
    names_of,
    tracks,
)
from tui.loaders.protobuf_wire import FieldKind, Integers, Spans, WireReader
from tui.loaders.text.section import by_value
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.names import short_name
from tui.model.schema import NAME
from tui.text import plural

if TYPE_CHECKING:
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_STAGE: Final = {
    **dict.fromkeys((1, 2, 3, 4, 11, 13, 14, 19, 20), FieldKind.INT),
    **dict.fromkeys((7, 17, 21), FieldKind.SPAN),
}
_SPECS, _KERNELS, _NAMES = 24, 1000, 2
_XYZ: Final = dict.fromkeys((1, 2, 3), FieldKind.INT)
_SHAPES: Final = tuple(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
_STAGES: Final = {
    **dict.fromkeys(("name", "arguments"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "device", "stream", *_SHAPES), pl.Int64),
}


OldSpecs = dict[int, pl.Series]
"""Names of queues (2) and of stages (3) by position, which older drivers declare once for all sequences."""


def _learn_specs(wire: WireReader, declared: Spans, specs: OldSpecs) -> None:
    lists = wire.messages(declared.begin, declared.end, dict.fromkeys((2, 3), FieldKind.SPAN))
    for number in (2, 3):
        parts = lists.spans(number)
        if len(parts):
            last = parts.owner == parts.owner[-1]
            named = wire.messages(parts.begin[last], parts.end[last], {1: FieldKind.SPAN})
            specs[number] = pl.Series(wire.texts(*named.spans(1).last_by_owner(named.count)), dtype=pl.String).cast(
                NAME
            )


def render_stages(packets: Packets, specs: OldSpecs) -> pl.DataFrame:
    """Return render stages, columns of `_STAGES`; ``specs`` gets the declarations."""
    wire = packets.wire
    rows, begins, ends = packets.with_field(STAGE)
    fields = wire.messages(begins, ends, _STAGE)
    state = packets.state[rows]
    _learn_specs(wire, fields.spans(7), specs)

    def named(number: int, field: int, part: int = 2) -> pl.Series:
        return packets.named(number, state, fields.ints(field), fields.has(field), part)

    def old_named(number: int, field: int) -> pl.Series:
        names = specs.get(number, pl.Series([], dtype=NAME)).extend_constant(None, 1)
        at = fields.ints(field)
        is_known = fields.has(field) & (at >= 0) & (at < len(names))
        return names.gather(np.where(is_known, at, len(names) - 1))

    own = names_of(wire, fields, 17)
    launch = wire.messages(*_first(fields.spans(21), fields.count), {1: FieldKind.SPAN, 2: FieldKind.SPAN})
    shapes = {}
    for shape, number in (("grid", 1), ("block", 2)):
        sizes = wire.messages(*_first(launch.spans(number), launch.count), _XYZ)
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
            "old_stage": old_named(3, 4),
            "queue": named(_SPECS, 13),
            "old_queue": old_named(2, 3),
            "start_ns": packets.time_ns[rows],
            "duration_ns": fields.ints(2),
            "device": fields.ints(11),
            "stream": pl.select(
                pl.when(pl.Series(fields.has(13)))
                .then(pl.Series(fields.ints(13)))
                .when(pl.Series(fields.has(3)))
                .then(pl.Series(fields.ints(3)))
            ).to_series(),
            # A packet without these has declarations only.
            "is_stage": fields.has(1) | fields.has(2),
            **shapes,
        }
    )
    queue = pl.coalesce("queue", "old_queue").cast(pl.String)
    return (
        frame.filter("is_stage")
        .with_columns(
            name=pl.coalesce("demangled", "kernel", "own", "interned", "stage", "old_stage"),
            arguments=pl.concat_str(pl.lit("queue: "), queue).cast(NAME),
        )
        .select(*_STAGES)
    )


def _first(parts: Spans, count: int) -> tuple[Integers, Integers]:
    """Return begin and end of one message of each owner; an empty span if there is none."""
    begins, ends = parts.last_by_owner(count)
    return np.maximum(begins, 0), np.maximum(ends, 0)


_GPU_UNITS: Final = {(37, 0): "%", (7, 0): "B", (7, 22): "B/s"}
"""Units of the model by numerator and denominator."""


def gpu_samples(packets: Packets) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the declared GPU counters (device, id, metric, unit, description), and their samples (value)."""
    wire = packets.wire
    _, begins, ends = packets.with_field(COUNTERS)
    events = wire.messages(begins, ends, {1: FieldKind.SPAN, 2: FieldKind.SPAN, 3: FieldKind.INT})
    heads = events.spans(1)
    specs = wire.messages(heads.begin, heads.end, {1: FieldKind.SPAN}).spans(1)
    described = wire.messages(
        specs.begin, specs.end, {**dict.fromkeys((1, 7, 8), FieldKind.INT), 2: FieldKind.SPAN, 3: FieldKind.SPAN}
    )
    units = zip(described.ints(7).tolist(), described.ints(8).tolist(), strict=True)
    declared = pl.DataFrame(
        {
            "device": events.ints(3)[heads.owner[specs.owner]],
            "id": described.ints(1),
            "metric": pl.Series(wire.texts(*described.spans(2).last_by_owner(described.count)), dtype=pl.String),
            "unit": pl.Series([_GPU_UNITS.get(unit) for unit in units], dtype=pl.String),
            "description": pl.Series(wire.texts(*described.spans(3).last_by_owner(described.count)), dtype=pl.String),
        }
    )
    parts = events.spans(2)
    values = wire.messages(parts.begin, parts.end, {1: FieldKind.INT, 2: FieldKind.INT, 3: FieldKind.DOUBLE})
    samples = pl.DataFrame(
        {
            "device": events.ints(3)[parts.owner],
            "id": values.ints(1),
            "value": np.where(values.has(3), values.values(3), values.ints(2).astype(np.float64)),
        }
    )
    return declared, samples


def gpu_counters(declared: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Return summaries of GPU counters: device, metric, description, invocations, min, max, avg."""
    value = pl.col("value")
    declared = declared.unique(["device", "id"], keep="last", maintain_order=True)
    return (
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


FORMAT: Final = Format(
    name="perfetto",
    title="Perfetto trace (protobuf)",
    recognized_by="Protocol Buffers that begin with a trace packet (a time, a sequence, an event or a track)",
    feeds=("sessions", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --sys-trace --output-format pftrace -- ./app",
)

_FIELDS_OF_PACKETS: Final = frozenset(
    (3, 6, 8, 10, 11, 12, 13, 33, 35, 36, 41, 42, 44, 45, 50, 52, 53, 58, 59, 60, 79, 87, 89, 90, 128, 133)
)
_FIRST_PACKET_FIELD: Final = 8
"""The first field number of packets that XLA's planes do not use as well."""

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
        """Return a high confidence if the first packets have a trace's field numbers."""
        if not head.startswith(b"\x0a"):
            return 0.0
        wire = WireReader.from_bytes(head)
        numbers: set[int] = set()
        begins, ends = wire.split(0, wire.size).positions(PACKET)
        for begin, end in list(zip(begins.tolist(), ends.tolist(), strict=True))[:4]:
            packet = wire.split(begin, end)
            numbers |= {*packet.numbers.tolist(), *packet.ints}
        if not numbers or max(numbers) < _FIRST_PACKET_FIELD:
            return 0.0
        known = len(numbers & _FIELDS_OF_PACKETS) / len(numbers)
        return 0.96 if known == 1 else 0.6 if known > 0.5 else 0.0

    def load(self, source: InputFile, report: Report = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: The trace holds no events.
        """
        source.report_to(report)
        reader, events, made = PacketReader(), TrackEvents(), Tracks()
        stages, specs = PieceCollector(_STAGES), OldSpecs()
        gpu: list[tuple[pl.DataFrame, pl.DataFrame]] = []
        for packets in reader.read(source.chunks()):
            learn_tracks(packets, made)
            events.add(packets)
            if len(packets.fields.spans(STAGE)):
                stages.add(render_stages(packets, specs))
            if len(packets.fields.spans(COUNTERS)) or not gpu:
                gpu.append(gpu_samples(packets))
            if not source.keep_going(events.held):
                break
        declared, gpu_values = (pl.concat(frames) for frames in zip(*gpu, strict=True))
        counters, of_stages = events.counters(), stages.frame()
        if not (events.held or of_stages.height or declared.height):
            raise ProftuiError(f"{source.called}: no profile found: a Perfetto trace without events", WHAT_OPENS)
        collector = Collector(source.name, source.preview)
        named = tracks(made)
        slices, places = _with_flows(events.slices()), _track_facts(events.tracks(), named)
        session = collector.open_session(FORMAT.name, None, pid=_only({*places["pid"].drop_nulls(), *reader.processes}))
        categories = slices["category"].unique().cast(pl.String)
        work, calls, ranges = _by_role(slices, of_stages, places)
        del slices, of_stages
        release_memory()
        is_rocprof = places["is_agent"].any() or categories.str.contains("hip|hsa").any()
        is_thapi = not is_rocprof and calls["name"].unique().cast(pl.String).str.contains("^ze[A-Z]").any()
        session.facts.update(tool="rocprofv3" if is_rocprof else "THAPI" if is_thapi else "Perfetto")
        count = work.height
        found = link_run(
            work, calls if calls.height else None, ranges if ranges.height else None, session, collector, kind="slice"
        )
        del work, calls, ranges
        of_gpus = _gpu_metrics(gpu_counters(declared, gpu_values))
        found["metrics"] = pl.concat([_counters(counters, named), of_gpus], how="diagonal")
        collector.add_frames({name: fit_to_model(name, found.pop(name), collector) for name in list(found)})
        release_memory()
        self._report_issues(reader, events, count, collector)
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else source.cut_short)

    @staticmethod
    def _report_issues(reader: PacketReader, events: TrackEvents, work: int, collector: Collector) -> None:
        if reader.damaged:
            damaged = plural(reader.damaged, "incomplete message")
            collector.issue("error", None, "", f"the file is truncated or damaged: {damaged}")
        for count, singular, several in (
            (reader.dropped, "packet without its interned name", "packets without their interned names"),
            (events.unclosed, "slice without an end", "slices without an end"),
            (events.orphans, "slice end without a begin", "slice ends without a begin"),
        ):
            if count:
                collector.issue("warning", None, "", f"{plural(count, singular, several)} skipped")
        if not work:
            collector.issue("warning", None, "", "the trace has no GPU work that proftui recognizes")


PERFETTO: Final = PerfettoLoader()
"""The loader, for the list of loaders."""


def _only(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None


_AT_ONCE: Final = 1 << 19
"""Slices that are sorted into roles at once, to bound the memory."""


def _by_role(
    slices: pl.DataFrame, stages: pl.DataFrame, places: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return GPU work, API calls and ranges, with times since the first of them."""
    starts = [start for frame in (slices, stages) if isinstance(start := frame["start_ns"].min(), int)]
    origin = min(starts, default=0)
    work, calls, ranges = (PieceCollector(columns) for columns in (_WORK, _CALLS, _RANGES))
    for first in range(0, slices.height, _AT_ONCE):
        part = slices.slice(first, _AT_ONCE).with_columns(pl.col("start_ns") - origin)
        on_gpu = _matches(part["category"], _GPU_CATEGORY) | _at(part, places, "on_gpu")
        has_category = (part["category"] != "").fill_null(False)
        is_call = _matches(part["category"], _API_CATEGORY) | (~has_category & _matches(part["name"], _API_NAME))
        is_call &= ~on_gpu
        work.add(_without_nulls(_activities(part.filter(on_gpu), places)))
        calls.add(_without_nulls(_calls(part.filter(is_call), places)))
        ranges.add(_without_nulls(_ranges(part.filter(~on_gpu & ~is_call), places)))
    for first in range(0, stages.height, _AT_ONCE):
        part = stages.slice(first, _AT_ONCE).with_columns(pl.col("start_ns") - origin)
        work.add(_without_nulls(_stage_activities(part)))
    return work.frame(), calls.frame(), ranges.frame()


def _without_nulls(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without empty columns, which take memory."""
    return rows.select(column for column in rows if column.null_count() < len(column))


def _with_flows(slices: pl.DataFrame) -> pl.DataFrame:
    """Return slices without correlation ids, numbered by the flows between calls and the work that they launched."""
    flows = slices["flow"]
    if slices["corr_id"].null_count() < slices.height or flows.null_count() == slices.height:
        return slices
    # Flow ids can have 64 bits.
    known = np.unique(flows.drop_nulls().to_numpy())
    numbers = PieceCollector({"corr_id": pl.Int64})
    for first in range(0, slices.height, _AT_ONCE):
        part = flows.slice(first, _AT_ONCE)
        number = pl.Series("corr_id", np.searchsorted(known, part.fill_null(0).to_numpy()) + 1)
        numbers.add(number.to_frame().select(pl.when(part.is_not_null()).then("corr_id")))
    return slices.with_columns(numbers.frame())


def _track_facts(used: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return the facts in the names of the tracks that slices are on."""
    name, path = pl.col("name").fill_null(""), pl.coalesce("path", "name").fill_null("")
    number = pl.Int64
    return used.join(named, on="uuid", how="left", maintain_order="left").select(
        "uuid",
        "pid",
        on_gpu=name.str.contains(_GPU_TRACK) | path.str.contains(_GPU_TRACK),
        is_agent=name.str.contains(r"AGENT \["),
        thread=pl.coalesce("tid", name.str.extract(r"(?i)^thread .*?\(?([0-9]+)\)?$", 1).cast(number, strict=False)),
        agent=name.str.extract(r"(?:AGENT \[|Device )([0-9]+)", 1).cast(number, strict=False),
        queue=name.str.extract(r"(?:QUEUE|STREAM|THREAD) \[([0-9]+)\]", 1).cast(number, strict=False),
    )


def _at(slices: pl.DataFrame, places: pl.DataFrame, column: str) -> pl.Series:
    """Return a fact of the track of each slice."""
    return places[column].gather(slices["track"])


def _matches(texts: pl.Series, pattern: str) -> pl.Series:
    """Return which texts match a pattern; null does not match."""
    return by_value(texts, lambda text: re.search(pattern, text) is not None, pl.Boolean()).fill_null(False)


_WORK: Final = {
    **dict.fromkeys(("kind", "name", "short_name", "copy_kind", "arguments"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "device", "stream", "correlation", "size_bytes", *_SHAPES), pl.Int64),
}
_CALLS: Final = {"name": NAME, **dict.fromkeys(("start_ns", "duration_ns", "pid", "tid", "correlation"), pl.Int64)}
_RANGES: Final = {
    **dict.fromkeys(("name", "domain"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "pid", "tid"), pl.Int64),
}


def _activities(work: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return slices on GPUs as activities."""
    is_copy = _matches(work["category"], "memory_copy|memcpy") | _matches(work["name"], _COPY)
    kind = pl.when(is_copy).then(pl.lit("memcpy", NAME)).when(_matches(work["name"], _SET)).then(pl.lit("memset", NAME))
    return work.select(
        kind.otherwise(pl.lit("kernel", NAME)).alias("kind"),
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        device=pl.coalesce("agent", _at(work, places, "agent")),
        stream=pl.coalesce("queue", "stream", _at(work, places, "queue")),
        correlation="corr_id",
        size_bytes="copy_bytes",
        short_name=by_value(work["name"], short_name, NAME),
        copy_kind=by_value(work["name"], _copy_kind, NAME),
        arguments=pl.when(pl.col("workgroup_size").is_not_null()).then(
            pl.format("workgroup_size: {}; grid_size: {}", "workgroup_size", "grid_size").cast(NAME)
        ),
    )


def _copy_kind(name: str) -> str | None:
    """Return the direction of a copy, such as ``HtoD``."""
    source, target = (re.search(rf"{position}(HOST|DEVICE)", name, re.IGNORECASE) for position in ("_COPY_", "_TO_"))
    return None if source is None or target is None else f"{_ENDS[source[1].upper()]}to{_ENDS[target[1].upper()]}"


def _stage_activities(stages: pl.DataFrame) -> pl.DataFrame:
    """Return render stages as activities."""
    kind = (
        pl.when(_matches(stages["name"], _COPY))
        .then(pl.lit("memcpy", NAME))
        .when(_matches(stages["name"], _SET))
        .then(pl.lit("memset", NAME))
    )
    return stages.with_columns(short_name=by_value(stages["name"], short_name, NAME)).select(
        kind.otherwise(pl.lit("kernel", NAME)).alias("kind"),
        *("name", "short_name", "start_ns", "duration_ns", "device", "stream", *_SHAPES, "arguments"),
    )


def _calls(slices: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    return slices.select(
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        pid=_at(slices, places, "pid"),
        tid=pl.coalesce("tid", _at(slices, places, "thread")),
        correlation="corr_id",
    )


def _ranges(slices: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return other slices as ranges; a track without a thread counts as a thread."""
    return slices.select(
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        domain="category",
        pid=_at(slices, places, "pid"),
        tid=pl.coalesce("tid", _at(slices, places, "thread"), _at(slices, places, "uuid")),
    )


def _counters(samples: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return counter tracks as metrics, one row each."""
    value = pl.col("value")
    return (
        _measured(samples, named)
        .group_by("track", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
        .join(named.select("unit", track="uuid", metric="name"), on="track", how="left", maintain_order="left")
        .select(
            pl.coalesce("metric", pl.format("counter {}", "track")).alias("metric"),
            *("invocations", "min", "max", "avg", "unit"),
        )
    )


def _measured(samples: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return the values of samples in their unit; the samples of some counters are increments."""
    facts = named.filter(pl.col("multiplier").is_not_null() | pl.col("incremental")).select(
        "multiplier", "incremental", track="uuid"
    )
    if facts.is_empty():
        return samples
    value = pl.when("incremental").then(pl.col("value").cum_sum().over("track")).otherwise("value")
    return samples.join(facts, on="track", how="left", maintain_order="left").select(
        "track", value=value * pl.col("multiplier").fill_null(1)
    )


def _gpu_metrics(counters: pl.DataFrame) -> pl.DataFrame:
    return counters.select(
        pl.format("GPU {}", "device").alias("device"),
        "metric",
        "description",
        "invocations",
        "min",
        "max",
        "avg",
        "unit",
    )
