"""Reads a Perfetto trace: GPU tracks, API calls, ranges, counters, and the render stages of GPU drivers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.cache.spill import PieceCollector, release_memory
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector, fit_to_model, link_run
from tui.loaders.input_issues import kind_by_name
from tui.loaders.perfetto_tracks import (
    COUNTERS,
    GPUS,
    INTERNED,
    PACKET,
    STAGE,
    TRACK,
    PacketReader,
    Packets,
    TrackEvents,
)
from tui.loaders.protobuf_wire import (
    FieldKind,
    Integers,
    Spans,
    WireReader,
    field_names,
    nested_ints,
    nested_texts,
    optional_ints,
    series_where,
)
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import copy_kind, short_name
from tui.model.schema import NAME
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_STAGE: Final = {
    **dict.fromkeys((1, 2, 3, 4, 11, 13, 14, 19, 20), FieldKind.INT),
    **dict.fromkeys((6, 7, 17, 21), FieldKind.SPAN),
}
_SPECS, _KERNELS, _NAMES, _ARGUMENT_NAMES = 24, 1000, 2, 1001
_XYZ: Final = dict.fromkeys((1, 2, 3), FieldKind.INT)
_FACTS: Final = {
    "correlation": ("correlation", "correlation_id"),
    "stream": ("stream id", "stream"),
    "size_bytes": ("bytes", "size_bytes"),
    "registers": ("registers_per_thread",),
    "static_shared_bytes": ("shared_mem_static",),
    "dynamic_shared_bytes": ("shared_mem_dynamic",),
    **{f"grid_{axis}": (f"launch__grid_size_{axis}",) for axis in "xyz"},
    **{f"block_{axis}": (f"launch__block_size_{axis}",) for axis in "xyz"},
}
"""Facts about GPU work by column of the model: their names among the arguments and the additional data of a stage."""
_STAGES: Final = {
    **dict.fromkeys(("name", "arguments"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "device", "event_id", *_FACTS), pl.Int64),
}
_NO_WORK: Final = ("Annotation", "EventRecord", "HostNode")
"""Stages of PyTorch that are no work of a GPU."""


GlobalSpecs = dict[int, pl.Series]
"""Names of queues (2) and of stages (3) by position, which older drivers declare once for all sequences."""


def _learn_specs(wire: WireReader, declared: Spans, specs: GlobalSpecs) -> None:
    lists = wire.messages(declared.begin, declared.end, dict.fromkeys((2, 3), FieldKind.SPAN))
    for number in (2, 3):
        spans = lists.spans(number)
        if len(spans):
            is_last = spans.owner == spans.owner[-1]
            entries = wire.messages(spans.begin[is_last], spans.end[is_last], {1: FieldKind.SPAN})
            specs[number] = pl.Series(wire.texts(*entries.spans(1).last_by_owner(entries.count)), dtype=pl.String).cast(
                NAME
            )


def render_stages(packets: Packets, specs: GlobalSpecs) -> pl.DataFrame:
    """Return render stages, columns of `_STAGES`; ``specs`` gets the declarations."""
    wire = packets.wire
    rows, begins, ends = packets.spans_of_field(STAGE)
    fields = wire.messages(begins, ends, _STAGE)
    state = packets.state[rows]
    _learn_specs(wire, fields.spans(7), specs)

    def interned(number: int, field: int, name_field: int = 2) -> pl.Series:
        return packets.interned_names(number, state, fields.ints(field), fields.has(field), name_field)

    def global_name(number: int, field: int) -> pl.Series:
        names = specs.get(number, pl.Series([], dtype=NAME)).extend_constant(None, 1)
        indices = fields.ints(field)
        is_known = fields.has(field) & (indices >= 0) & (indices < len(names))
        return names.gather(np.where(is_known, indices, len(names) - 1))

    event_names = field_names(wire, fields, 17)
    launch = wire.messages(
        *_first_spans(fields.spans(21), fields.count), {1: FieldKind.SPAN, 2: FieldKind.SPAN, 3: FieldKind.SPAN}
    )
    facts = _facts(packets, state, fields.spans(6), launch.spans(3))
    queue = interned(_SPECS, 13).zip_with(pl.Series(fields.has(13)), global_name(2, 3)).cast(pl.String)
    shapes = {}
    for shape, number in (("grid", 1), ("block", 2)):
        sizes = wire.messages(*_first_spans(launch.spans(number), launch.count), _XYZ)
        for position, axis in enumerate("xyz", 1):
            shapes[f"{shape}_{axis}"] = optional_ints(sizes, position)
    frame = pl.DataFrame(
        {
            "demangled": interned(_KERNELS, 19, 3),
            "kernel": interned(_KERNELS, 19),
            "own": event_names,
            "interned": interned(_NAMES, 20),
            "stage": interned(_SPECS, 14),
            "old_stage": global_name(3, 4),
            "queue": queue,
            "start_ns": packets.time_ns[rows],
            "duration_ns": fields.ints(2),
            "device": fields.ints(11),
            "event_id": optional_ints(fields, 1),
            "stream": queue.str.extract(r"\bstream ([0-9]+)$", 1).cast(pl.Int64, strict=False),
            "queue_id": optional_ints(fields, 13).fill_null(optional_ints(fields, 3)),
            # A packet without these has declarations only.
            "is_stage": fields.has(1) | fields.has(2),
            **shapes,
        }
    )
    recorded = {f"given_{name}": column for name, column in facts.items()}
    return (
        frame.with_columns(**recorded)
        .filter("is_stage", ~pl.col("stage").cast(pl.String).is_in(_NO_WORK).fill_null(False))
        .with_columns(
            *(pl.coalesce(*({name} & set(frame.columns)), f"given_{name}").alias(name) for name in _FACTS),
            name=pl.coalesce("demangled", "kernel", "own", "interned", "stage", "old_stage"),
            arguments=pl.concat_str(pl.lit("queue: "), "queue").cast(NAME),
        )
        .with_columns(pl.coalesce("stream", "queue_id").alias("stream"))
        .select(*_STAGES)
    )


def _facts(packets: Packets, state: Integers, additional: Spans, arguments: Spans) -> dict[str, pl.Series]:
    """Return the columns of `_FACTS` of stages, from their additional data (texts) and the arguments of launches."""
    wire = packets.wire
    texts = wire.messages(additional.begin, additional.end, {1: FieldKind.SPAN, 2: FieldKind.SPAN})
    numbers = wire.messages(
        arguments.begin, arguments.end, {1: FieldKind.INT, 2: FieldKind.SPAN, 3: FieldKind.INT, 4: FieldKind.INT}
    )
    inline_names = field_names(wire, numbers, 2)
    interned = packets.interned_names(_ARGUMENT_NAMES, state[arguments.owner], numbers.ints(1), numbers.has(1))
    facts = pl.concat(
        [
            pl.DataFrame(
                {
                    "row": additional.owner,
                    "name": field_names(wire, texts, 1),
                    "value": field_names(wire, texts, 2).cast(pl.String).cast(pl.Int64, strict=False),
                }
            ),
            pl.DataFrame(
                {
                    "row": arguments.owner,
                    "name": inline_names.zip_with(inline_names.is_not_null(), interned),
                    "value": optional_ints(numbers, 4).fill_null(optional_ints(numbers, 3)),
                }
            ),
        ]
    ).drop_nulls()
    names = facts["name"].cast(pl.String)
    columns = {}
    for column, candidates in _FACTS.items():
        values, has = np.zeros(len(state), np.int64), np.zeros(len(state), np.bool_)
        matches = facts.filter(names.is_in(candidates))
        values[matches["row"].to_numpy()], has[matches["row"].to_numpy()] = matches["value"].to_numpy(), True
        columns[column] = series_where(has, values)
    return columns


def _first_spans(spans: Spans, count: int) -> tuple[Integers, Integers]:
    """Return begin and end of one message of each owner; an empty span if there is none."""
    begins, ends = spans.last_by_owner(count)
    return np.maximum(begins, 0), np.maximum(ends, 0)


_GPU_UNITS: Final = {(37, 0): "%", (7, 0): "B", (7, 22): "B/s"}
"""Units of the model by numerator and denominator."""


_GLOBAL_STATE: Final = -1
"""The state of counters that are declared once for all sequences."""
_INTERNED_COUNTERS: Final = 47


def gpu_samples(packets: Packets) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the declared GPU counters, and their samples.

    Counters: state, iid, device, id, metric, unit, description. Samples: state, iid, device, id, value. Counters are
    declared with an event (device) or in the interned data (state and iid).
    """
    wire = packets.wire
    rows, begins, ends = packets.spans_of_field(COUNTERS)
    events = wire.messages(begins, ends, {1: FieldKind.SPAN, 2: FieldKind.SPAN, 3: FieldKind.INT, 4: FieldKind.INT})
    descriptors = events.spans(1)
    no_state = np.full(len(descriptors), _GLOBAL_STATE)
    declared = [_declared_counters(wire, descriptors, no_state, no_state, events.ints(3)[descriptors.owner])]
    packet_rows, begins, ends = packets.spans_of_field(INTERNED)
    entries = wire.messages(begins, ends, {_INTERNED_COUNTERS: FieldKind.SPAN}).spans(_INTERNED_COUNTERS)
    if len(entries):
        interned = wire.messages(entries.begin, entries.end, {1: FieldKind.INT, 2: FieldKind.SPAN, 3: FieldKind.INT})
        descriptors = interned.spans(2)
        state = packets.state[packet_rows[entries.owner]][descriptors.owner]
        ids = (numbers[descriptors.owner] for numbers in (interned.ints(1), interned.ints(3)))
        declared.append(_declared_counters(wire, descriptors, state, *ids))
    spans = events.spans(2)
    values = wire.messages(spans.begin, spans.end, {1: FieldKind.INT, 2: FieldKind.INT, 3: FieldKind.DOUBLE})
    is_interned = events.has(4)
    samples = pl.DataFrame(
        {
            "state": np.where(is_interned, packets.state[rows], _GLOBAL_STATE)[spans.owner],
            "iid": np.where(is_interned, events.ints(4), _GLOBAL_STATE)[spans.owner],
            "device": events.ints(3)[spans.owner],
            "id": values.ints(1),
            "value": np.where(values.has(3), values.values(3), values.ints(2).astype(np.float64)),
        }
    )
    return pl.concat(declared), samples


def _declared_counters(
    wire: WireReader, descriptors: Spans, state: Integers, iid: Integers, device: Integers
) -> pl.DataFrame:
    """Return the counters that descriptors declare."""
    specs = wire.messages(descriptors.begin, descriptors.end, {1: FieldKind.SPAN}).spans(1)
    described = wire.messages(
        specs.begin, specs.end, {**dict.fromkeys((1, 7, 8), FieldKind.INT), 2: FieldKind.SPAN, 3: FieldKind.SPAN}
    )
    units = zip(described.ints(7).tolist(), described.ints(8).tolist(), strict=True)
    return pl.DataFrame(
        {
            "state": state[specs.owner],
            "iid": iid[specs.owner],
            "device": device[specs.owner],
            "id": described.ints(1),
            "metric": pl.Series(wire.texts(*described.spans(2).last_by_owner(described.count)), dtype=pl.String),
            "unit": pl.Series([_GPU_UNITS.get(unit) for unit in units], dtype=pl.String),
            "description": pl.Series(wire.texts(*described.spans(3).last_by_owner(described.count)), dtype=pl.String),
        }
    )


def gpu_counters(declared: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Return summaries of GPU counters: device, metric, description, invocations, min, max, avg."""
    value = pl.col("value")
    is_global = pl.col("state") == _GLOBAL_STATE
    interned_keys = ["state", "iid", "id"]
    interned = declared.filter(~is_global).unique(interned_keys, keep="last", maintain_order=True)
    global_counters = declared.filter(is_global).unique(["device", "id"], keep="last", maintain_order=True)
    interned_samples = samples.filter(~is_global).drop("device")
    described = pl.concat(
        [
            samples.filter(is_global).join(global_counters, on=["device", "id"], how="left", maintain_order="left"),
            interned_samples.join(interned, on=interned_keys, how="left", maintain_order="left"),
        ],
        how="diagonal",
    )
    return (
        described.with_columns(pl.coalesce("metric", pl.format("counter {}", "id")).alias("metric"))
        .group_by("device", "metric", "unit", "description", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
    )


def gpu_names(packets: Packets) -> list[str | None]:
    """Return the names of the GPUs that the trace lists, in the order of their numbers."""
    wire = packets.wire
    _, begins, ends = packets.spans_of_field(GPUS)
    listed = wire.messages(begins[-1:], ends[-1:], {1: FieldKind.SPAN}).spans(1)
    described = wire.messages(listed.begin, listed.end, {1: FieldKind.SPAN})
    return wire.texts(*described.spans(1).last_by_owner(described.count))


_UNITS: Final = {3: "B"}
"""Units of counters as the model has them."""
_UNIT_NAMES: Final = ("%", "B", "B/s")

Tracks = dict[int, dict[str, Any]]
"""Facts about tracks, by uuid."""


def learn_tracks(packets: Packets, tracks_by_uuid: Tracks) -> None:
    """Add the track descriptors of packets."""
    wire = packets.wire
    _, begins, ends = packets.spans_of_field(TRACK)
    if not len(begins):
        return
    message_fields = dict.fromkeys((2, 3, 4, 8, 10, 13), FieldKind.SPAN)
    fields = wire.messages(begins, ends, {1: FieldKind.INT, 5: FieldKind.INT, **message_fields})
    names = [wire.texts(*fields.spans(number).last_by_owner(fields.count)) for number in (2, 10, 13)]
    process = nested_ints(wire, fields, 3, (1,))
    thread = nested_ints(wire, fields, 4, (1, 2))
    process_names, thread_names = (nested_texts(wire, fields, *path) for path in ((3, 6), (4, 5)))
    counter = nested_ints(wire, fields, 8, (3, 4, 5))
    unit_names = nested_texts(wire, fields, 8, 6)
    for row, uuid in enumerate(fields.ints(1).tolist()):
        track = tracks_by_uuid.setdefault(uuid, {"uuid": uuid, "parent": None, "name": None, "pid": None, "tid": None})
        columns: dict[str, Any] = {
            "parent": int(fields.ints(5)[row]) if fields.has(5)[row] else None,
            "name": next(
                (candidates[row] for candidates in (*names, thread_names, process_names) if candidates[row]), None
            ),
            "pid": process[0][row] if process[0][row] is not None else thread[0][row],
            "tid": thread[1][row],
        }
        unit, multiplier, is_incremental = (numbers[row] for numbers in counter)
        if multiplier is not None or is_incremental or unit is not None or unit_names[row] is not None:
            columns |= {
                "unit": _UNITS.get(unit or 0) or (unit_names[row] if unit_names[row] in _UNIT_NAMES else None),
                "multiplier": multiplier or None,
                "incremental": bool(is_incremental),
            }
        track.update({key: value for key, value in columns.items() if value is not None})


def tracks(tracks_by_uuid: Tracks) -> pl.DataFrame:
    """Return the tracks: uuid, parent, name, pid, tid, path (the names of its ancestors and its own)."""
    for track in tracks_by_uuid.values():
        parent: dict[str, Any] | None = track
        path: list[str] = []
        seen: set[int] = set()
        while parent is not None and id(parent) not in seen and len(seen) < 16:
            seen.add(id(parent))
            path.append(str(parent["name"] or ""))
            if track["pid"] is None:
                track["pid"] = parent["pid"]
            if track["tid"] is None and track["name"] == parent["name"]:
                track["tid"] = parent["tid"]
            parent = tracks_by_uuid.get(parent["parent"])
        track["path"] = " / ".join(name for name in reversed(path) if name)
    schema = {
        **dict.fromkeys(("uuid", "parent", "pid", "tid", "multiplier"), pl.Int64),
        **dict.fromkeys(("name", "path", "unit"), pl.String),
        "incremental": pl.Boolean,
    }
    return pl.DataFrame(list(tracks_by_uuid.values()), schema=schema)


FORMAT: Final = Format(
    name="perfetto",
    title="Perfetto trace (protobuf)",
    recognized_by="Protocol Buffers that begin with a trace packet (a time, a sequence, an event or a track)",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "metrics", "issues"),
    record_with="rocprofv3 --sys-trace --output-format pftrace -- ./app",
)

_FIELDS_OF_PACKETS: Final = frozenset(
    (3, 6, 8, 10, 11, 12, 13, 33, 35, 36, 41, 42, 44, 45, 50, 52, 53, 58, 59, 60, 79, 87, 89, 90, 128, 133)
)
_NOT_IN_TEXT: Final = re.compile(rb"[\x01-\x06\x0e-\x1a]")
"""The lengths and small numbers of packets."""
_FIRST_PACKET_FIELD: Final = 8
"""The first field number of packets that XLA's planes do not use as well."""

_GPU_CATEGORY: Final = r"^(?:(?:rocm_)?(?:kernel_dispatch|memory_copy)|kernel|gpu_memcpy|gpu_memset)$"
_AGENT: Final = r"^(?:COMPUTE|COPY (?:to|from)) (?:AGENT|Agent|GPU|CPU) \["
"""Tracks of rocprofv3, with the number of the device; its title depends on the version and on ``--agent-index``."""
_GPU_TRACK: Final = rf"\(GPU\)$|{_AGENT}|^STREAM \[|^GPU Stream [0-9]+$|(?:^|/ )Device [0-9]+|\[GPU [0-9]+\]"
_NO_CALLS: Final = r"^GPU [0-9]+ / stream -?[0-9]+$|^Overhead / Overhead$"
"""Tracks of PyTorch with the waits of streams, and with the overhead of the profiler."""
_API_CATEGORY: Final = r"^(?:rocm_)?(?:hip|hsa|rccl|rocdecode|rocjpeg|ompt)(?:_\w+)?_api$|_(?:runtime|driver)$"
_GENERIC_CATEGORY: Final = r"^(?:|cuda|cudart|hip|gpu)$"
"""Categories whose calls are known by their names."""
_API_NAME: Final = r"^(?:hip|hsa_|ze|zes|cl|cu|cuda|rccl|nccl|ur)[A-Z_]\w*$"
_MEMCPY: Final = r"(?i)^memory_copy|^memcpy|MemoryCopy|^MemoryTransfer|^copy"
_MEMSET: Final = r"(?i)^memset|MemoryFill|^MemorySet"


class PerfettoLoader:
    """Reads Perfetto traces."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence if the first packets have a trace's field numbers."""
        # Tables of TensorFlow's profiler begin like a trace.
        if not head.startswith(b"\x0a") or kind_by_name(name) is not None:
            return 0.0
        wire = WireReader.from_bytes(head)
        numbers: set[int] = set()
        begins, ends = wire.split(0, wire.size).positions(PACKET)
        packets = list(zip(begins.tolist(), ends.tolist(), strict=True))[:4]
        if not any(_NOT_IN_TEXT.search(head, begin, end) for begin, end in packets):
            return 0.0  # a text after a blank line
        for begin, end in packets:
            packet = wire.split(begin, end)
            numbers |= {*packet.numbers.tolist(), *packet.ints}
        if not numbers or max(numbers) < _FIRST_PACKET_FIELD:
            return 0.0
        known_share = len(numbers & _FIELDS_OF_PACKETS) / len(numbers)
        return 0.96 if known_share == 1 else 0.6 if known_share > 0.5 else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the trace.

        Raises:
            ProftuiError: The trace holds no events.
        """
        source.set_on_progress(on_progress)
        reader, events, tracks_by_uuid = PacketReader(), TrackEvents(), Tracks()
        stages, specs = PieceCollector(_STAGES), GlobalSpecs()
        gpu: list[tuple[pl.DataFrame, pl.DataFrame]] = []
        devices: list[str | None] = []
        for packets in reader.read(source.chunks()):
            learn_tracks(packets, tracks_by_uuid)
            events.add(packets)
            if len(packets.fields.spans(STAGE)):
                stages.add(render_stages(packets, specs))
            if len(packets.fields.spans(COUNTERS)) or len(packets.fields.spans(INTERNED)) or not gpu:
                gpu.append(gpu_samples(packets))
            devices = gpu_names(packets) or devices
            if not source.keep_going(events.kept_rows):
                break
        events.finish()
        declared, gpu_values = (pl.concat(frames) for frames in zip(*gpu, strict=True))
        counters, stage_rows = events.counters(), stages.frame()
        if not (events.kept_rows or stage_rows.height or declared.height):
            raise ProftuiError(
                f"{source.display_name}: no profile found: a Perfetto trace without events", FORMATS_HINT
            )
        collector = Collector(source.name, source.preview)
        described_tracks = tracks(tracks_by_uuid)
        slices, stage_rows = _link_submissions(events.slices(), stage_rows, events.submitted())
        slices, track_facts = _number_flows(slices), _track_facts(events.tracks(), described_tracks)
        pids = {*track_facts["pid"].drop_nulls(), *reader.processes}
        session = collector.open_session(FORMAT.name, None, pid=_only_value(pids))
        categories = slices["category"].unique().cast(pl.String)
        work, calls, ranges = _split_by_role(slices, stage_rows, track_facts)
        del slices, stage_rows
        release_memory()
        is_rocprof = track_facts["is_agent"].any() or categories.str.contains("hip|hsa").any()
        is_thapi = not is_rocprof and calls["name"].unique().cast(pl.String).str.contains("^ze[A-Z]").any()
        if categories.is_in(["cpu_op"]).any():
            session.facts.update(tool="PyTorch profiler", framework="PyTorch")
        else:
            session.facts.update(tool="rocprofv3" if is_rocprof else "THAPI" if is_thapi else "Perfetto")
        work_count = work.height
        linked = link_run(
            work, calls if len(calls) else None, ranges if len(ranges) else None, session, collector, range_kind="slice"
        )
        del work, calls, ranges
        gpu_metrics = _gpu_metrics(gpu_counters(declared, gpu_values))
        linked["metrics"] = pl.concat([_counters(counters, described_tracks), gpu_metrics], how="diagonal")
        collector.add_frames({name: fit_to_model(name, linked.pop(name), collector) for name in list(linked)})
        for number, name in enumerate(devices):
            collector.add("devices", {"device": number, "name": name})
        release_memory()
        self._report_issues(reader, events, work_count, collector)
        collector.add_issues(source.notes)
        return collector.profile(partial=source.partial)

    @staticmethod
    def _report_issues(reader: PacketReader, events: TrackEvents, work: int, collector: Collector) -> None:
        if reader.damaged:
            damaged = plural(reader.damaged, "incomplete message")
            collector.issue("error", None, "", f"the file is truncated or damaged: {damaged}")
        for count, singular, several in (
            (reader.dropped, "packet without its interned name", "packets without their interned names"),
            (events.unclosed, "slice without an end", "slices without an end"),
            (events.orphans, "slice end without a begin", "slice ends without a begin"),
            (events.untimed, "event without a timestamp", "events without timestamps"),
        ):
            if count:
                collector.issue("warning", None, "", f"{plural(count, singular, several)} skipped")
        if not work:
            collector.issue("warning", None, "", "the trace has no GPU work that proftui recognizes")


PERFETTO: Final = PerfettoLoader()
"""The loader, for the list of loaders."""


def _only_value(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None


_BLOCK_ROWS: Final = 1 << 19
"""Slices that are sorted into roles at once, to bound the memory."""


def _split_by_role(
    slices: pl.DataFrame, stages: pl.DataFrame, track_facts: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return GPU work, API calls and ranges, with times since the first of them."""
    starts = [start for frame in (slices, stages) if isinstance(start := frame["start_ns"].min(), int)]
    origin = min(starts, default=0)
    work, calls, ranges = (PieceCollector(columns) for columns in (_WORK, _CALLS, _RANGES))
    for offset in range(0, slices.height, _BLOCK_ROWS):
        block = slices.slice(offset, _BLOCK_ROWS).with_columns(pl.col("start_ns") - origin)
        on_gpu = _matches(block["category"], _GPU_CATEGORY) | _track_fact(block, track_facts, "on_gpu")
        has_generic_category = block["category"].is_null() | _matches(block["category"], _GENERIC_CATEGORY)
        is_call = _matches(block["category"], _API_CATEGORY) | (
            has_generic_category & _matches(block["name"], _API_NAME)
        )
        is_call |= block["submits"].is_not_null() | (block["gpu_api"] > 0).fill_null(False)
        is_call &= ~on_gpu
        work.add(_activities(block.filter(on_gpu), track_facts))
        calls.add(_calls(block.filter(is_call), track_facts))
        is_range = ~on_gpu & ~is_call & ~_track_fact(block, track_facts, "is_aside")
        ranges.add(_ranges(block.filter(is_range), track_facts))
    for offset in range(0, stages.height, _BLOCK_ROWS):
        block = stages.slice(offset, _BLOCK_ROWS).with_columns(pl.col("start_ns") - origin)
        work.add(_stage_activities(block))
    return work.frame(), calls.frame(), ranges.frame()


def _link_submissions(
    slices: pl.DataFrame, stages: pl.DataFrame, submitted: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return slices and stages whose ``corr_id`` and ``correlation`` lead from a call to the work that it submits."""
    if slices["submits"].null_count() == slices.height:
        return slices, stages
    number = pl.coalesce("corr_id", "submits")
    call_numbers = slices.filter(pl.col("submits").is_not_null()).select("submits", number=number).unique("submits")
    stage_numbers = submitted.join(call_numbers, on="submits").unique("event_id").select("event_id", "number")
    return slices.with_columns(corr_id=number), stages.join(
        stage_numbers, on="event_id", how="left", maintain_order="left"
    ).with_columns(correlation=pl.coalesce("number", "correlation")).drop("number")


def _number_flows(slices: pl.DataFrame) -> pl.DataFrame:
    """Return slices without correlation ids, numbered by the flows between calls and the work that they launched."""
    flows = slices["flow"]
    if slices["corr_id"].null_count() < slices.height or flows.null_count() == slices.height:
        return slices
    # Flow ids can have 64 bits.
    flow_ids = np.unique(flows.drop_nulls().to_numpy())
    numbers = PieceCollector({"corr_id": pl.Int64})
    for start in range(0, slices.height, _BLOCK_ROWS):
        block = flows.slice(start, _BLOCK_ROWS)
        number = pl.Series("corr_id", np.searchsorted(flow_ids, block.fill_null(0).to_numpy()) + 1)
        numbers.add(number.to_frame().select(pl.when(block.is_not_null()).then("corr_id")))
    return slices.with_columns(numbers.frame())


def _track_facts(used: pl.DataFrame, described_tracks: pl.DataFrame) -> pl.DataFrame:
    """Return the facts in the names of the tracks that slices are on."""
    name, path = pl.col("name").fill_null(""), pl.coalesce("path", "name").fill_null("")
    number = pl.Int64
    return used.join(described_tracks, on="uuid", how="left", maintain_order="left").select(
        "uuid",
        "pid",
        on_gpu=name.str.contains(_GPU_TRACK) | path.str.contains(_GPU_TRACK),
        is_agent=name.str.contains(_AGENT),
        is_aside=path.str.contains(_NO_CALLS),
        thread=pl.coalesce("tid", name.str.extract(r"(?i)^thread .*?\(?([0-9]+)\)?$", 1).cast(number, strict=False)),
        agent=pl.coalesce(
            name.str.extract(rf"(?:{_AGENT}|Device )([0-9]+)", 1), path.str.extract(r"\[GPU ([0-9]+)\]", 1)
        ).cast(number, strict=False),
        queue=name.str.extract(r"(?:(?:QUEUE|STREAM|THREAD) \[|\b[Ss]tream )([0-9]+)", 1).cast(number, strict=False),
    )


def _track_fact(slices: pl.DataFrame, track_facts: pl.DataFrame, column: str) -> pl.Series:
    """Return a fact of the track of each slice."""
    return track_facts[column].gather(slices["track"])


def _matches(texts: pl.Series, pattern: str) -> pl.Series:
    """Return which texts match a pattern; null does not match."""
    return map_distinct(texts, lambda text: re.search(pattern, text) is not None, pl.Boolean()).fill_null(False)


_WORK: Final = {
    **dict.fromkeys(("kind", "name", "short_name", "copy_kind", "arguments"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "device", *_FACTS), pl.Int64),
}
_CALLS: Final = {"name": NAME, **dict.fromkeys(("start_ns", "duration_ns", "pid", "tid", "correlation"), pl.Int64)}
_RANGES: Final = {
    **dict.fromkeys(("name", "domain"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "pid", "tid"), pl.Int64),
}


def _activities(work: pl.DataFrame, track_facts: pl.DataFrame) -> pl.DataFrame:
    """Return slices on GPUs as activities."""
    is_copy = _matches(work["category"], "memory_copy|memcpy") | _matches(work["name"], _MEMCPY)
    kind = (
        pl.when(is_copy).then(pl.lit("memcpy", NAME)).when(_matches(work["name"], _MEMSET)).then(pl.lit("memset", NAME))
    )
    return work.select(
        kind.otherwise(pl.lit("kernel", NAME)).alias("kind"),
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        device=pl.coalesce("agent", _track_fact(work, track_facts, "agent")),
        stream=pl.coalesce("queue", "stream", _track_fact(work, track_facts, "queue")),
        correlation="corr_id",
        size_bytes="copy_bytes",
        short_name=map_distinct(work["name"], short_name, NAME),
        copy_kind=map_distinct(work["name"], copy_kind, NAME),
        arguments=pl.when(pl.col("workgroup_size").is_not_null()).then(
            pl.format("workgroup_size: {}; grid_size: {}", "workgroup_size", "grid_size").cast(NAME)
        ),
    )


def _stage_activities(stages: pl.DataFrame) -> pl.DataFrame:
    """Return render stages as activities."""
    is_copy, is_set = (_matches(stages["name"], pattern) for pattern in (_MEMCPY, _MEMSET))
    kind = pl.when(is_copy).then(pl.lit("memcpy", NAME)).when(is_set).then(pl.lit("memset", NAME))
    return stages.with_columns(short_name=map_distinct(stages["name"], short_name, NAME)).select(
        kind.otherwise(pl.lit("kernel", NAME)).alias("kind"),
        *("name", "short_name", "start_ns", "duration_ns", "device", *_FACTS, "arguments"),
        copy_kind=map_distinct(stages["name"], copy_kind, NAME),
    )


def _calls(slices: pl.DataFrame, track_facts: pl.DataFrame) -> pl.DataFrame:
    return slices.select(
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        pid=_track_fact(slices, track_facts, "pid"),
        tid=pl.coalesce("tid", _track_fact(slices, track_facts, "thread")),
        correlation="corr_id",
    )


def _ranges(slices: pl.DataFrame, track_facts: pl.DataFrame) -> pl.DataFrame:
    """Return other slices as ranges; a track without a thread counts as a thread."""
    return slices.select(
        "name",
        "start_ns",
        pl.col("duration_ns").cast(pl.Int64),
        domain="category",
        pid=_track_fact(slices, track_facts, "pid"),
        tid=pl.coalesce("tid", _track_fact(slices, track_facts, "thread"), _track_fact(slices, track_facts, "uuid")),
    )


def _counters(samples: pl.DataFrame, described_tracks: pl.DataFrame) -> pl.DataFrame:
    """Return counter tracks as metrics, one row each."""
    value = pl.col("value")
    return (
        _scaled_samples(samples, described_tracks)
        .group_by("track", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("invocations"),
            value.min().alias("min"),
            value.max().alias("max"),
            value.mean().alias("avg"),
        )
        .join(
            described_tracks.select("unit", track="uuid", metric="name"), on="track", how="left", maintain_order="left"
        )
        .select(
            pl.coalesce("metric", pl.format("counter {}", "track")).alias("metric"),
            *("invocations", "min", "max", "avg", "unit"),
        )
    )


def _scaled_samples(samples: pl.DataFrame, described_tracks: pl.DataFrame) -> pl.DataFrame:
    """Return the values of samples in their unit; the samples of some counters are increments."""
    facts = described_tracks.filter(pl.col("multiplier").is_not_null() | pl.col("incremental")).select(
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
        *("metric", "description", "invocations", "min", "max", "avg", "unit"),
    )
