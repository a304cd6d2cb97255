"""Packets of a Perfetto trace as columns: times on one clock, interned names resolved, begins paired with ends.

Field numbers are those of ``protos/perfetto/trace``. Interned ids (``iid``) are valid within one sequence of packets,
until the sequence clears its state.

Packets are read in chunks, so memory holds the extracted columns and not the whole trace.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import zstandard

from tui.cache.spill import PieceCollector
from tui.loaders.protobuf_wire import (
    FieldKind,
    Integers,
    Messages,
    WireReader,
    encode_varint,
    field_chunks,
    field_names,
    optional_ints,
    series_where,
)
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PACKET: Final = 1
CLOCKS, TIME, SEQUENCE, EVENT, INTERNED, FLAGS = 6, 8, 10, 11, 12, 13
CLEARED, DROPPED = 41, 42
COMPRESSED, COUNTERS, STAGE, CLOCK, DEFAULTS, TRACK, GPUS, ZSTD = 50, 52, 53, 58, 59, 60, 128, 133
_PACKET_FIELDS: Final = {
    **dict.fromkeys((TIME, SEQUENCE, FLAGS, CLEARED, DROPPED, CLOCK), FieldKind.INT),
    **dict.fromkeys((CLOCKS, EVENT, INTERNED, COUNTERS, STAGE, DEFAULTS, TRACK, GPUS), FieldKind.SPAN),
}
_CLEARED, _NEEDS_STATE = 1, 2
_BOOT_CLOCK: Final = 6
"""The clock of the trace."""
_TRACK_OF_EVENT: Final = 11
_SEQUENCE_CLOCKS: Final = range(64, 128)
"""Clocks of one sequence."""

_FLOWS: Final = (47, 48, 36, 42)
"""Fields of flow ids: continuing and terminating flows, in newer and older traces."""
_LEGACY_EVENT: Final = 6
_SUBMISSION, _GPU_API = 3000, 3001
"""Fields of calls: the GPU work that a call submits, and the API (CUDA, HIP, ...)."""
_EVENT_FIELDS: Final = {
    **dict.fromkeys((9, 10, 11, 30, 3, _GPU_API, *_FLOWS[2:]), FieldKind.INT),
    **dict.fromkeys(_FLOWS[:2], FieldKind.FIXED),
    44: FieldKind.DOUBLE,
    **dict.fromkeys((4, _LEGACY_EVENT, 22, 23, _SUBMISSION), FieldKind.SPAN),
}
_ANNOTATION_FIELDS: Final = {
    **dict.fromkeys((1, 2, 3, 4, 17), FieldKind.INT),
    5: FieldKind.DOUBLE,
    **dict.fromkeys((6, 10), FieldKind.SPAN),
}
_CATEGORIES, _NAMES, _ARGUMENTS, _CONTEXTS, _SPECS, _KERNELS, _KERNEL_ARGUMENTS = 1, 2, 3, 23, 24, 1000, 1001
_NAME_FIELDS: Final = {
    **dict.fromkeys((_CATEGORIES, _NAMES, _ARGUMENTS, _SPECS, _KERNEL_ARGUMENTS), (2,)),
    _KERNELS: (2, 3),
}
"""Fields of ``InternedData``, and the fields of their entries that are names."""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_COMPLETE: Final = 100
"""A slice of the older kind, with its duration."""
_PHASES: Final = {"B": _BEGIN, "E": _END, "X": _COMPLETE, "I": _INSTANT, "i": _INSTANT}
"""Kinds of events of the older kind."""
_MAX_UNPACKED: Final = 1 << 28
_MAX_RATIO: Final = 100
_MAX_OPEN: Final = 1 << 18
"""The maximum number of open slices in memory."""
_PACKED_STEP: Final = 1 << 10
"""Compressed bytes that are decompressed at once."""

NUMBERS: Final = (
    "corr_id",
    "tid",
    "agent",
    "queue",
    "stream",
    "copy_bytes",
    "workgroup_size",
    "grid_size",
    "begin_ns",
    "end_ns",
)
"""The annotations of events that are read."""
_OTHER_ANNOTATION_NAMES: Final = {"corr_id": ("correlation", "correlation_id")}
"""Other names of annotations."""


def _decompress(number: int, data: bytes, max_bytes: int) -> tuple[bytes, bool]:
    """Return the content of a field of compressed packets, at most ``max_bytes`` bytes, and whether it is complete."""
    packed = zlib.decompressobj() if number == COMPRESSED else zstandard.ZstdDecompressor().decompressobj()
    content = bytearray()
    # A few bytes can decompress to very many, so small steps are used.
    for begin in range(0, len(data), _PACKED_STEP):
        try:
            content += packed.decompress(data[begin : begin + _PACKED_STEP])
        except (zlib.error, zstandard.ZstdError):
            return bytes(content), False
        if packed.eof or len(content) > max_bytes:
            break
    return bytes(content[:max_bytes]), packed.eof


_MAX_INDEXED_IID: Final = (1 << 16) - 1
"""Larger ids are joined."""


@dataclass(slots=True)
class Packets:
    """Packets of a trace, one row each; `usable` omits packets that need a state that is missing."""

    wire: WireReader
    fields: Messages
    state: Integers
    """The interning state of each packet, numbered over all sequences."""
    time_ns: Integers
    usable: Integers
    """The rows of packets that can be read."""
    names: Mapping[tuple[int, int], pl.DataFrame]
    """Interned names (state, iid, text) by field of ``InternedData`` and field of its entries."""
    tracks: pl.DataFrame
    """The default track by state, for events without a track."""

    def spans_of_field(self, number: int) -> tuple[Integers, Integers, Integers]:
        """Return the usable packets that have a field: their rows, and the begin and end of the field in each."""
        begin, end = self.fields.spans(number).last_by_owner(self.fields.count)
        rows = self.usable[begin[self.usable] >= 0]
        return rows, begin[rows], end[rows]

    def interned_names(
        self, number: int, state: Integers, iid: Integers, has: np.ndarray, name_field: int = 2
    ) -> pl.Series:
        """Return interned texts by state and iid; null if unknown."""
        entries = self.names.get((number, name_field))
        if entries is None or not len(state):
            return pl.repeat(None, len(state), dtype=NAME, eager=True)
        if (state == state[0]).all():
            # The rows of one state are usually consecutive, so ids are looked up in an array.
            state_entries = entries.filter(
                pl.col("state") == int(state[0]), pl.col("iid").is_between(0, _MAX_INDEXED_IID)
            )
            rows = np.full(_MAX_INDEXED_IID + 2, state_entries.height, np.uint32)
            rows[state_entries["iid"].to_numpy()] = np.arange(state_entries.height, dtype=np.uint32)
            if state_entries.height == entries.filter(pl.col("state") == int(state[0])).height:
                positions = np.where(has & (iid >= 0) & (iid <= _MAX_INDEXED_IID), iid, _MAX_INDEXED_IID + 1)
                return state_entries["text"].extend_constant(None, 1).gather(rows[positions])
        wanted = pl.DataFrame({"state": state, "iid": iid, "has": has})
        joined = wanted.join(entries, on=["state", "iid"], how="left", maintain_order="left")
        return joined.select(pl.when("has").then("text")).to_series()


_CLOCK_SNAPSHOTS: Final = {
    **dict.fromkeys(("row", "owner", "clock", "at", "boot", "unit_ns", "since"), pl.Int64),
    "incremental": pl.Boolean,
}


class PacketReader:
    """Reads the packets of a trace in chunks, and keeps the state that later packets refer to."""

    def __init__(self) -> None:
        self.damaged = 0
        """Messages that end early."""
        self.dropped = 0
        """Packets that need a state that is missing."""
        self._sequences: dict[int, int] = {}
        self._epochs = np.zeros(0, np.int64)
        """How often the state of each sequence has been cleared."""
        self._valid = np.zeros(0, np.bool_)
        """Whether the state of each sequence is known: it was cleared, and no packet was lost since."""
        self._states: dict[tuple[int, int], int] = {}
        """The number of each state, by sequence and epoch."""
        self._state_count = 0
        """The number of states until now."""
        self._names: dict[tuple[int, int], pl.DataFrame] = {}
        self.processes: set[int] = set()
        """The processes of graphics contexts."""
        self._clocks: dict[int, int] = {}
        """The default clock by state."""
        self._tracks = pl.DataFrame(schema={"state": pl.Int64, "default": pl.Int64})
        self._clock_snapshots = pl.DataFrame(schema=_CLOCK_SNAPSHOTS)
        """The last snapshot of each clock; ``since`` is the sum of later increments of incremental clocks."""
        self._read_bytes = self._unpacked_bytes = 0
        """Bytes."""

    def read(self, content: Iterable[bytes]) -> Iterator[Packets]:
        """Yield the packets of a trace; compressed packets are replaced by their content."""
        for wire, fields in field_chunks(content):
            self._read_bytes += wire.size
            begins, ends = fields.positions(PACKET)
            packed = wire.messages(begins, ends, {COMPRESSED: FieldKind.SPAN, ZSTD: FieldKind.SPAN})
            if len(packed.spans(COMPRESSED)) or len(packed.spans(ZSTD)):
                for inner, packets in field_chunks(self._decompressed(wire, begins, ends, packed)):
                    yield self._packets(inner, *packets.positions(PACKET))
                    self.damaged += inner.damaged
            else:
                yield self._packets(wire, begins, ends)
            self.damaged += wire.damaged

    def _decompressed(self, wire: WireReader, begins: Integers, ends: Integers, packed: Messages) -> Iterator[bytes]:
        inner: dict[int, tuple[int, int, int]] = {}
        for number in (COMPRESSED, ZSTD):
            spans = packed.spans(number)
            bounds = zip(spans.owner.tolist(), spans.begin.tolist(), spans.end.tolist(), strict=True)
            inner |= {owner: (number, begin, end) for owner, begin, end in bounds}
        limit = max(_MAX_UNPACKED, _MAX_RATIO * self._read_bytes)
        for row, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            if row not in inner:
                yield b"\x0a" + encode_varint(end - begin) + bytes(wire.data[begin:end])
                continue
            number, field_begin, field_end = inner[row]
            content, is_complete = _decompress(
                number, bytes(wire.data[field_begin:field_end]), max(limit - self._unpacked_bytes, 1)
            )
            self.damaged += not is_complete
            self._unpacked_bytes += len(content)
            yield content

    def _packets(self, wire: WireReader, begins: Integers, ends: Integers) -> Packets:
        fields = wire.messages(begins, ends, _PACKET_FIELDS)
        self._forget_states()
        flags = fields.ints(FLAGS)
        sequence = self._sequence_codes(fields.ints(SEQUENCE))
        cleared = ((flags & _CLEARED) > 0) | (fields.ints(CLEARED) > 0)
        # Packets before this one were lost: later names refer to an unknown state until it is cleared.
        is_lost = (fields.ints(DROPPED) > 0) & ~cleared
        marks = (
            pl.DataFrame({"sequence": sequence, "cleared": cleared, "lost": is_lost})
            .with_columns(valid=pl.when(pl.col("cleared") | pl.col("lost")).then("cleared"))
            .select(
                pl.col("cleared").cast(pl.Int64).cum_sum().over("sequence"),
                pl.col("valid").forward_fill().over("sequence"),
            )
        )
        epoch = self._epochs[sequence] + marks["cleared"].to_numpy()
        valid = marks["valid"].zip_with(marks["valid"].is_not_null(), pl.Series(self._valid[sequence])).to_numpy()
        self._valid[sequence] = valid
        np.maximum.at(self._epochs, sequence, epoch)
        state = self._state_codes(sequence, epoch)
        lacks_state = ((flags & _NEEDS_STATE) > 0) & ~valid
        self.dropped += int(lacks_state.sum())
        self._learn_defaults(wire, fields, state)
        time_ns = self._times(wire, fields, sequence, state)
        usable = np.flatnonzero(~lacks_state)
        packets = Packets(wire, fields, state, time_ns, usable, self._names, self._tracks)
        self._learn_names(packets)
        return packets

    def _sequence_codes(self, sequences: Integers) -> Integers:
        distinct, inverse = np.unique(sequences, return_inverse=True)
        codes = [self._sequences.setdefault(key, len(self._sequences)) for key in distinct.tolist()]
        self._epochs = np.append(self._epochs, np.zeros(len(self._sequences) - len(self._epochs), np.int64))
        self._valid = np.append(self._valid, np.zeros(len(self._sequences) - len(self._valid), np.bool_))
        return np.array(codes, np.int64)[inverse]

    def _state_codes(self, sequence: Integers, epoch: Integers) -> Integers:
        width = int(epoch.max(initial=0)) + 1
        distinct, inverse = np.unique(sequence * width + epoch, return_inverse=True)
        codes = np.empty(len(distinct), np.int64)
        for position, key in enumerate(distinct.tolist()):
            code = self._states.setdefault(divmod(key, width), self._state_count)
            self._state_count = max(self._state_count, code + 1)
            codes[position] = code
        return codes[inverse]

    def _forget_states(self) -> None:
        """Drop states that no later packet can use."""
        epochs = self._epochs.tolist()
        kept = {key: code for key, code in self._states.items() if key[1] == epochs[key[0]]}
        if len(kept) == len(self._states):
            return
        self._states = kept
        codes = set(kept.values())
        is_kept = pl.col("state").is_in(sorted(codes))
        self._names = {key: entries.filter(is_kept) for key, entries in self._names.items()}
        self._tracks = self._tracks.filter(is_kept)
        self._clocks = {code: clock for code, clock in self._clocks.items() if code in codes}

    def _learn_defaults(self, wire: WireReader, fields: Messages, state: Integers) -> None:
        begin, end = fields.spans(DEFAULTS).last_by_owner(fields.count)
        rows = np.flatnonzero(begin >= 0)
        if not len(rows):
            return
        spans = state[rows], begin[rows], end[rows]
        self._clocks.update(_values(wire, *spans, CLOCK, None).iter_rows())
        tracks = _values(wire, *spans, _TRACK_OF_EVENT, EVENT).rename({"value": "default"})
        self._tracks = pl.concat([self._tracks, tracks]).unique("state", keep="last", maintain_order=True)

    def _learn_names(self, packets: Packets) -> None:
        wire = packets.wire
        owner, begins, ends = packets.spans_of_field(INTERNED)
        if not len(owner):
            return
        tables = wire.messages(begins, ends, dict.fromkeys((*_NAME_FIELDS, _CONTEXTS), FieldKind.SPAN))
        for number, names in _NAME_FIELDS.items():
            spans = tables.spans(number)
            if not len(spans):
                continue
            entries = wire.messages(spans.begin, spans.end, {1: FieldKind.INT, **dict.fromkeys(names, FieldKind.SPAN)})
            for name in names:
                new_names = pl.DataFrame(
                    {
                        "state": packets.state[owner[spans.owner]],
                        "iid": entries.ints(1),
                        "text": field_names(wire, entries, name),
                    }
                )
                known_names = [self._names[number, name]] if (number, name) in self._names else []
                self._names[number, name] = pl.concat([*known_names, new_names]).unique(
                    ["state", "iid"], keep="last", maintain_order=True
                )
        spans = tables.spans(_CONTEXTS)
        contexts = wire.messages(spans.begin, spans.end, {2: FieldKind.INT})
        self.processes.update(contexts.ints(2)[contexts.has(2)].tolist())

    def _times(self, wire: WireReader, fields: Messages, sequence: Integers, state: Integers) -> Integers:
        """Return times of packets in nanoseconds on the clock of the trace.

        The clock of a packet is its own or the default of its state. The times of an incremental clock are increments
        since the last snapshot of the sequence. A snapshot gives the same moment on several clocks.
        """
        time, packet_clocks = fields.ints(TIME), fields.ints(CLOCK)
        new_snapshots = _snapshots(wire, fields)
        owner = np.where(
            _is_sequence_clock(new_snapshots["clock"].to_numpy()), sequence[new_snapshots["row"].to_numpy()] + 1, 0
        )
        new_snapshots = new_snapshots.with_columns(owner=pl.Series(owner, dtype=pl.Int64), since=pl.lit(0, pl.Int64))
        snapshots = pl.concat([self._clock_snapshots, new_snapshots.select(*_CLOCK_SNAPSHOTS)]).sort(
            "row", maintain_order=True
        )
        if snapshots.is_empty():
            return time
        states, position = np.unique(state, return_inverse=True)
        default = np.array([self._clocks.get(code, _BOOT_CLOCK) for code in states.tolist()], np.int64)[position]
        clock = np.where(fields.has(CLOCK), packet_clocks, default)
        # Clocks of sequences are separate; those of the machine are shared.
        owner = np.where(_is_sequence_clock(clock), sequence + 1, 0)
        lookups = pl.DataFrame({"row": np.arange(fields.count), "owner": owner, "clock": clock})
        changes = snapshots.select("row", "owner", "clock").with_row_index("snapshot")
        joined = lookups.join_asof(
            changes, on="row", by=["owner", "clock"], strategy="backward", check_sortedness=False
        )
        has_snapshot = joined["snapshot"].is_not_null().to_numpy()
        snapshot = joined["snapshot"].fill_null(0).to_numpy()
        is_delta = has_snapshot & fields.has(TIME) & snapshots["incremental"].to_numpy()[snapshot]
        added = pl.DataFrame({"snapshot": snapshot, "time": np.where(is_delta, time, 0)})
        since_before = snapshots["since"].to_numpy()
        summed = since_before[snapshot] + added.select(pl.col("time").cum_sum().over("snapshot")).to_series().to_numpy()
        boot, unit_ns = snapshots["boot"].to_numpy()[snapshot], snapshots["unit_ns"].to_numpy()[snapshot]
        since = np.where(is_delta, summed, time - snapshots["at"].to_numpy()[snapshot])
        time_ns: Integers = np.where(is_delta | (has_snapshot & (clock != _BOOT_CLOCK)), boot + since * unit_ns, time)
        since_after = since_before.copy()
        np.add.at(since_after, snapshot[is_delta], time[is_delta])
        self._clock_snapshots = snapshots.with_columns(row=pl.lit(-1, pl.Int64), since=pl.Series(since_after)).unique(
            ["owner", "clock"], keep="last", maintain_order=True
        )
        return time_ns


def _values(
    wire: WireReader, state: Integers, begin: Integers, end: Integers, number: int, parent_number: int | None
) -> pl.DataFrame:
    if parent_number is not None:
        inner = wire.messages(begin, end, {parent_number: FieldKind.SPAN}).spans(parent_number)
        state, begin, end = state[inner.owner], inner.begin, inner.end
    fields = wire.messages(begin, end, {number: FieldKind.INT})
    has = fields.has(number)
    return pl.DataFrame({"state": state[has], "value": fields.ints(number)[has]}).unique("state", keep="last")


def _is_sequence_clock(clocks: Integers) -> np.ndarray:
    """Return which clocks belong to one sequence; all others are shared."""
    return (clocks >= _SEQUENCE_CLOCKS.start) & (clocks < _SEQUENCE_CLOCKS.stop)


def _snapshots(wire: WireReader, fields: Messages) -> pl.DataFrame:
    """Return clock snapshots: row (of the packet), snapshot (number), clock, at, boot (trace clock), incremental."""
    begin, end = fields.spans(CLOCKS).last_by_owner(fields.count)
    rows = np.flatnonzero(begin >= 0)
    snapshots = wire.messages(begin[rows], end[rows], {1: FieldKind.SPAN, 2: FieldKind.INT})
    spans = snapshots.spans(1)
    clocks = wire.messages(spans.begin, spans.end, dict.fromkeys((1, 2, 3, 4), FieldKind.INT))
    values = pl.DataFrame(
        {
            "row": rows[spans.owner],
            "snapshot": spans.owner,
            "clock": clocks.ints(1),
            "at": clocks.ints(2),
            "incremental": clocks.ints(3) > 0,
            "unit_ns": np.maximum(clocks.ints(4), 1),
        }
    ).with_columns(pl.col("row").cast(pl.Int64))
    # The clock of the trace is the boot clock, or another one that the snapshot names.
    primary = pl.Series(np.where(snapshots.has(2), snapshots.ints(2), _BOOT_CLOCK)).gather(values["snapshot"])
    is_boot = pl.col("clock") == _BOOT_CLOCK
    boot = (
        values.filter(is_boot | (pl.col("clock") == primary))
        .sort(is_boot, maintain_order=True)
        .select("snapshot", boot="at")
        .unique("snapshot", keep="last", maintain_order=True)
    )
    return values.join(boot, on="snapshot", how="inner", maintain_order="left").unique(
        ["row", "clock"], keep="last", maintain_order=True
    )


_SLICE: Final = {
    "track": pl.Int32,
    **dict.fromkeys(("name", "category"), NAME),
    **dict.fromkeys(("start_ns", "duration_ns", "flow", "gpu_api", "submits", *NUMBERS[:-2]), pl.Int64),
}
_SUBMITTED: Final = {"submits": pl.Int64, "event_id": pl.Int64}
_SAMPLE: Final = {"track": pl.Int64, "value": pl.Float64}
_MARKS: Final = {
    "type": pl.Int8,
    **dict.fromkeys(("name", "category"), NAME),
    **dict.fromkeys(("order", "track", "time_ns", "flow", "gpu_api", "submits", *NUMBERS), pl.Int64),
}
_STEP: Final = pl.when(pl.col("type") == _BEGIN).then(1).otherwise(-1).cast(pl.Int32)
"""The change of the depth at a begin or an end."""


class TrackEvents:
    """The events of tracks; begins and ends are paired in file order, per track.

    A track is unordered if its time goes back while a slice is open. Its slices are then paired when all are there.
    """

    def __init__(self) -> None:
        self.kept_rows = 0
        """The number of slices and samples."""
        self._slices = PieceCollector(_SLICE)
        self._tracks: dict[int, int] = {}
        self._counters = PieceCollector(_SAMPLE)
        self._submitted = PieceCollector(_SUBMITTED)
        self._open = pl.DataFrame()
        """Begins without an end until now."""
        self._unordered: set[int] = set()
        self._unordered_marks = PieceCollector(_MARKS)
        """Begins and ends of unordered tracks."""
        self._count = 0
        self._unclosed = 0
        self.orphans = 0
        """Ends without a begin."""
        self.untimed = 0
        """Events whose packets have no time."""

    def add(self, packets: Packets) -> None:
        """Add the events of packets."""
        rows, begins, ends = packets.spans_of_field(EVENT)
        has_time = packets.fields.has(TIME)[rows]
        self.untimed += len(rows) - int(has_time.sum())
        rows, begins, ends = rows[has_time], begins[has_time], ends[has_time]
        if not len(rows):
            return
        new, submitted = _event_columns(packets, rows, begins, ends, self._count)
        self._submitted.add(submitted)
        self._count += len(rows)
        events = pl.concat([self._open, new], how="diagonal_relaxed") if self._open.height else new
        marks = self._defer_unordered(events.filter(pl.col("type").is_in([_BEGIN, _END])))
        durations, orphans = _pair_in_order(marks.select("order", "type", "track", "time_ns"))
        self.orphans += orphans
        begin_marks = marks.filter(pl.col("type") == _BEGIN)
        self._add_slices(begin_marks.join(durations, on="order", how="inner", maintain_order="left"))
        self._add_slices(new.filter(pl.col("type") == _INSTANT).with_columns(duration_ns=pl.lit(0, pl.Int64)))
        self._add_slices(new.filter(pl.col("type") == _COMPLETE).with_columns(duration_ns="lasted_ns"))
        if (counters := new.filter(pl.col("type") == _COUNTER)).height:
            self._counters.add(counters.select(*_SAMPLE))
            self.kept_rows += counters.height
        self._open = begin_marks.join(durations, on="order", how="anti", maintain_order="left")

    def _defer_unordered(self, marks: pl.DataFrame) -> pl.DataFrame:
        """Return the begins and ends of ordered tracks; those of unordered ones, or of too many slices, are kept."""
        is_open = _STEP.cum_sum().over("track") - _STEP > 0
        goes_back = is_open & (pl.col("time_ns") < pl.col("time_ns").shift(1).over("track"))
        self._unordered.update(marks.filter(goes_back)["track"].to_list())
        if self._open.height > _MAX_OPEN:
            self._unordered.update(self._open["track"].to_list())
        is_unordered = pl.col("track").is_in(list(self._unordered))
        deferred = marks.filter(is_unordered) if self._unordered else marks.clear()
        if deferred.height:
            self._unordered_marks.add(deferred.select(*_MARKS))
            self.kept_rows += deferred.height
        return marks.filter(~is_unordered) if deferred.height else marks

    def finish(self) -> None:
        """Pair the begins and ends that were put back."""
        marks = self._unordered_marks.frame()
        if marks.is_empty():
            return
        self.kept_rows -= marks.height
        begins = marks.filter(pl.col("type") == _BEGIN)
        durations = _pair_unordered(marks.select("order", "type", "track", "time_ns"))
        self._add_slices(begins.join(durations, on="order", how="inner", maintain_order="left"))
        self._unclosed += begins.height - durations.height
        self.orphans += marks.height - begins.height - durations.height

    def _add_slices(self, slices: pl.DataFrame) -> None:
        if slices.is_empty():
            return
        # Times can be in fields of the event itself.
        has_own_times = pl.col("begin_ns").is_not_null() & (pl.col("end_ns") >= pl.col("begin_ns"))
        rows = slices.with_columns(
            start_ns=pl.when(has_own_times).then("begin_ns").otherwise("time_ns"),
            duration_ns=pl.when(has_own_times).then(pl.col("end_ns") - pl.col("begin_ns")).otherwise("duration_ns"),
            track=self._track_codes(slices["track"]),
        ).select(*_SLICE)
        self._slices.add(rows)
        self.kept_rows += rows.height

    def _track_codes(self, tracks: pl.Series) -> pl.Series:
        distinct = tracks.unique()
        codes = [self._tracks.setdefault(uuid, len(self._tracks)) for uuid in distinct.to_list()]
        return tracks.replace_strict(distinct, codes, return_dtype=pl.Int32)

    def tracks(self) -> pl.DataFrame:
        """Return the tracks (uuid) by their number in `slices`."""
        return pl.DataFrame({"uuid": list(self._tracks)}, schema={"uuid": pl.Int64})

    @property
    def unclosed(self) -> int:
        """The number of slices without an end."""
        return self._unclosed + self._open.height

    def slices(self) -> pl.DataFrame:
        """Return slices with begin and end, and instants (of zero length): columns of `_SLICE`; returned once.

        ``track`` is a row of `tracks`.
        """
        return self._slices.frame()

    def counters(self) -> pl.DataFrame:
        """Return the counter samples, once: track (uuid) and value."""
        return self._counters.frame()

    def submitted(self) -> pl.DataFrame:
        """Return the GPU work that slices submit, once: event_id, and ``submits`` as the slice has it."""
        return self._submitted.frame()


def _event_columns(
    packets: Packets, rows: Integers, begins: Integers, ends: Integers, first_order: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events as columns, and the GPU work that they submit.

    Events: order (from ``first_order``), type, track, name, category, time_ns, value, flow, gpu_api, submits, numbers.
    Work: columns of `_SUBMITTED`; ``submits`` is the id of the first work of an event.
    """
    wire = packets.wire
    fields = wire.messages(begins, ends, _EVENT_FIELDS)
    state = packets.state[rows]
    event_names, category = (field_names(wire, fields, number) for number in (23, 22))
    kind, iid, has_iid, lasted_ns = _event_types(wire, fields)
    flow = np.select([fields.has(number) for number in _FLOWS], [fields.ints(number) for number in _FLOWS])
    has_flow = np.logical_or.reduce([fields.has(number) for number in _FLOWS])
    submissions = fields.spans(_SUBMISSION)
    list_index, event_id = wire.messages(submissions.begin, submissions.end, {1: FieldKind.INTS}).repeated_ints(1)
    work = pl.DataFrame({"row": submissions.owner[list_index], "event_id": event_id}).with_columns(
        submits=pl.col("event_id").first().over("row")
    )
    submits, has_work = np.zeros(fields.count, np.int64), np.zeros(fields.count, np.bool_)
    submits[work["row"].to_numpy()], has_work[work["row"].to_numpy()] = work["submits"].to_numpy(), True
    events = (
        pl.DataFrame(
            {
                "state": state,
                "type": np.clip(kind, 0, 127).astype(np.int8),
                "lasted_ns": lasted_ns,
                "own_track": fields.ints(11),
                "has_track": fields.has(11),
                "name": event_names.zip_with(
                    event_names.is_not_null(), packets.interned_names(_NAMES, state, iid, has_iid)
                ),
                "category": category.zip_with(
                    category.is_not_null(), packets.interned_names(_CATEGORIES, state, fields.ints(3), fields.has(3))
                ),
                "time_ns": packets.time_ns[rows],
                "value": np.where(fields.has(44), fields.values(44), fields.ints(30).astype(np.float64)),
                "flow": series_where(has_flow, flow),
                "gpu_api": optional_ints(fields, _GPU_API),
                "submits": series_where(has_work, submits),
                **_annotation_columns(packets, fields, state),
            }
        )
        .join(packets.tracks, on="state", how="left", maintain_order="left")
        .with_columns(track=pl.when("has_track").then("own_track").otherwise(pl.coalesce("default", pl.lit(0))))
        .drop("own_track", "has_track", "default", "state")
        .with_row_index("order")
        .with_columns(pl.col("order").cast(pl.Int64) + first_order)
    )
    return events, work.select(*_SUBMITTED)


def _event_types(wire: WireReader, fields: Messages) -> tuple[Integers, Integers, np.ndarray, Integers]:
    """Return types and name ids of events, those of legacy events included, and the durations of legacy events."""
    begin, end = fields.spans(_LEGACY_EVENT).last_by_owner(fields.count)
    kind, iid, has_iid = fields.ints(9), fields.ints(10), fields.has(10)
    lasted_ns = np.zeros(fields.count, np.int64)
    legacy_rows = np.flatnonzero((begin >= 0) & (kind == 0))
    if len(legacy_rows):
        legacy = wire.messages(begin[legacy_rows], end[legacy_rows], dict.fromkeys((1, 2, 3), FieldKind.INT))
        phases = legacy.ints(2)
        kind[legacy_rows] = np.select([phases == ord(phase) for phase in _PHASES], list(_PHASES.values()))
        with_name = legacy_rows[legacy.has(1)]
        iid[with_name], has_iid[with_name] = legacy.ints(1)[legacy.has(1)], True
        lasted_ns[legacy_rows] = legacy.ints(3) * 1000
    return kind, iid, has_iid, lasted_ns


def _pair_in_order(events: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return order and duration_ns of begins with an end, and the number of ends without a begin."""
    depth = events.with_columns(depth=_STEP.cum_sum().over("track"))
    # An end below the minimum depth so far has no begin.
    lowest = pl.min_horizontal(pl.col("depth").cum_min().over("track").shift(1).over("track").fill_null(0), pl.lit(0))
    depth = depth.with_columns(alone=(pl.col("type") == _END) & (pl.col("depth") < lowest))
    orphans = int(depth["alone"].sum())
    kept = depth.filter(~pl.col("alone")).with_columns(depth=_STEP.cum_sum().over("track"))
    level = pl.when(pl.col("type") == _BEGIN).then("depth").otherwise(pl.col("depth") + 1)
    ordered = kept.with_columns(level=level).sort("track", "level", "order")
    level_keys = ["track", "level"]
    paired = ordered.with_columns(
        next_type=pl.col("type").shift(-1).over(level_keys), ended_ns=pl.col("time_ns").shift(-1).over(level_keys)
    ).filter(pl.col("type") == _BEGIN)
    closed = paired.filter(pl.col("next_type") == _END)
    return closed.select("order", duration_ns=pl.col("ended_ns") - pl.col("time_ns")), orphans


def _pair_unordered(marks: pl.DataFrame) -> pl.DataFrame:
    """Return order and duration_ns of begins with an end, of tracks that are not in the order of time.

    A writer that puts all begins before all ends gives both in the same order. Otherwise the times decide.
    """
    numbered = marks.with_columns(number=pl.int_range(pl.len()).over("track", "type"))
    is_begin = pl.col("type") == _BEGIN
    ends = numbered.filter(~is_begin).select("track", "number", ended_ns="time_ns")
    pairs = numbered.filter(is_begin).join(ends, on=["track", "number"], how="full", coalesce=True)
    duration = pl.col("ended_ns") - pl.col("time_ns")
    ordered_tracks = (
        pairs.group_by("track").agg((duration >= 0).fill_null(False).all().alias("fits")).filter("fits")["track"]
    )
    is_ordered = pl.col("track").is_in(ordered_tracks.to_list())
    by_time = marks.filter(~is_ordered).sort("track", "time_ns", "order")
    durations, _ = _pair_in_order(by_time.with_columns(order=pl.int_range(pl.len())))
    return pl.concat(
        [
            pairs.filter(is_ordered).select("order", duration_ns=duration),
            durations.with_columns(order=by_time["order"].gather(durations["order"])),
        ]
    )


def _annotation_columns(packets: Packets, fields: Messages, state: Integers) -> Mapping[str, pl.Series]:
    """Return the wanted annotations of events, by name."""
    wire = packets.wire
    spans = fields.spans(4)
    notes = wire.messages(spans.begin, spans.end, _ANNOTATION_FIELDS)
    inline_names = field_names(wire, notes, 10)
    names = inline_names.zip_with(
        inline_names.is_not_null(), packets.interned_names(_ARGUMENTS, state[spans.owner], notes.ints(1), notes.has(1))
    )
    value = np.where(notes.has(3), notes.ints(3), notes.ints(4))
    has_value = notes.has(3) | notes.has(4)
    begin, end = notes.spans(6).last_by_owner(notes.count)
    columns = {}
    for name in NUMBERS:
        matches = [
            (names == other).fill_null(False).to_numpy() for other in (name, *_OTHER_ANNOTATION_NAMES.get(name, ()))
        ]
        rows = np.flatnonzero(np.logical_or.reduce(matches))
        result = np.zeros(fields.count, np.int64)
        has = np.zeros(fields.count, np.bool_)
        text_rows = rows[~has_value[rows] & (begin[rows] >= 0)]
        if len(text_rows):
            texts = pl.Series(wire.texts(begin[text_rows], end[text_rows]), dtype=pl.String).cast(
                pl.Int64, strict=False
            )
            value[text_rows], has_value[text_rows] = texts.fill_null(0).to_numpy(), texts.is_not_null().to_numpy()
        value_rows = rows[has_value[rows]]
        result[spans.owner[value_rows]], has[spans.owner[value_rows]] = value[value_rows], True
        columns[name] = series_where(has, result)
    return columns
