"""Packets of a Perfetto trace as columns: times on one clock, names by their numbers, begins paired with ends.

Field numbers are those of ``protos/perfetto/trace``. What a packet refers to by number (``iid``) holds within one
sequence of packets, until that says that its state is cleared.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import zstandard

from tui.loaders.protobuf import Integers, Kind, Messages, Parts, Wire
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKET: Final = 1
CLOCKS, TIME, SEQUENCE, EVENT, INTERNED, FLAGS = 6, 8, 10, 11, 12, 13
COMPRESSED, COUNTERS, STAGE, CLOCK, DEFAULTS, TRACK, ZSTD = 50, 52, 53, 58, 59, 60, 133
_PACKET: Final = {
    **dict.fromkeys((TIME, SEQUENCE, FLAGS, CLOCK), Kind.INT),
    **dict.fromkeys((CLOCKS, EVENT, INTERNED, COUNTERS, STAGE, DEFAULTS, TRACK), Kind.PART),
}
_CLEARED, _NEEDS_STATE = 1, 2
_BOOT_CLOCK: Final = 6
"""Times of a trace are on this clock."""
_FIRST_OWN_CLOCK: Final = 64
"""From this number on, clocks are those of one sequence."""

_FLOWS: Final = (47, 48, 36, 42)
"""What joins an event to others: flows that go on and that end here, and the same as older writers say them."""
_EVENT: Final = {
    **dict.fromkeys((9, 10, 11, 30, 3, *_FLOWS[2:]), Kind.INT),
    **dict.fromkeys(_FLOWS[:2], Kind.FIXED),
    44: Kind.DOUBLE,
    **dict.fromkeys((4, 22, 23), Kind.PART),
}
_ANNOTATION: Final = {**dict.fromkeys((1, 2, 3, 4, 17), Kind.INT), 5: Kind.DOUBLE, **dict.fromkeys((6, 10), Kind.PART)}
_CATEGORIES, _NAMES, _ARGUMENTS, _CONTEXTS, _SPECS, _KERNELS = 1, 2, 3, 23, 24, 1000
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_MOST_UNPACKED: Final = 1 << 28
_MOST_RATIO: Final = 100
_AT_ONCE: Final = 1 << 15
"""So many events are read at once."""
_PACKED_STEP: Final = 1 << 10
"""So many bytes are unpacked at once."""

NUMBERS: Final = (
    "corr_id",
    "tid",
    "agent",
    "queue",
    "stream",
    "copy_bytes",
    "begin_ns",
    "end_ns",
    "workgroup_size",
    "grid_size",
)
"""Annotations of events that are read."""


def unpacked(wire: Wire) -> Wire:
    """The same trace with its compressed packets in the place of what holds them; itself where there are none."""
    begins, ends = wire.split(0, wire.size).of(PACKET)
    packed = wire.messages(begins, ends, {COMPRESSED: Kind.PART, ZSTD: Kind.PART})
    if not (len(packed.parts(COMPRESSED)) or len(packed.parts(ZSTD))):
        return wire
    inner = {
        owner: (number, begin, end)
        for number in (COMPRESSED, ZSTD)
        for owner, begin, end in zip(*(_lists(packed.parts(number))), strict=True)
    }
    damaged = wire.damaged
    limit = max(_MOST_UNPACKED, _MOST_RATIO * wire.size)

    def pieces() -> Iterator[bytes]:
        nonlocal damaged
        size = 0
        for row, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            if row in inner:
                number, low, high = inner[row]
                piece, is_whole = _unpack(number, bytes(wire.data[low:high]), max(limit - size, 1))
                damaged += not is_whole
            else:
                piece = b"\x0a" + _varint(end - begin) + bytes(wire.data[begin:end])
            yield piece
            size += len(piece)
            if size >= limit:
                damaged += 1
                return

    whole = Wire.read(pieces())
    whole.damaged += damaged
    return whole


def _unpack(number: int, data: bytes, most: int) -> tuple[bytes, bool]:
    """What a field of compressed packets holds, at most so many bytes of it, and whether that is all of it."""
    packed = zlib.decompressobj() if number == COMPRESSED else zstandard.ZstdDecompressor().decompressobj()
    out = bytearray()
    # A few bytes can hold very many: they are unpacked little by little.
    for begin in range(0, len(data), _PACKED_STEP):
        try:
            out += packed.decompress(data[begin : begin + _PACKED_STEP])
        except (zlib.error, zstandard.ZstdError):
            return bytes(out), False
        if packed.eof or len(out) > most:
            break
    return bytes(out[:most]), packed.eof


def _lists(parts: Parts) -> tuple[list[int], list[int], list[int]]:
    return parts.owner.tolist(), parts.begin.tolist(), parts.end.tolist()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


@dataclass(slots=True)
class Packets:
    """The packets of a trace, a row each; those that need a state which was never given are left out of `usable`."""

    wire: Wire
    fields: Messages
    state: Integers
    """Numbers the states of all sequences: what a packet refers to by number is that of its own."""
    time_ns: Integers
    usable: Integers
    """Rows of packets that can be read."""
    dropped: int
    interned: dict[int, pl.DataFrame]
    """By the field of ``InternedData``: state, iid, begin and end of the entry."""
    _texts: dict[tuple[int, int], pl.DataFrame] = field(default_factory=dict)
    """By that field and the part of an entry: state, iid and text."""

    def of(self, number: int) -> tuple[Integers, Integers, Integers]:
        """The usable packets that have a message of a number: their rows, and where the messages begin and end."""
        begin, end = self.fields.parts(number).first(self.fields.count)
        rows = self.usable[begin[self.usable] >= 0]
        return rows, begin[rows], end[rows]

    def named(self, number: int, state: Integers, iid: Integers, has: np.ndarray, part: int = 2) -> pl.Series:
        """Texts of interned entries, by the state and the number of each; null where there is none."""
        entries = self.interned.get(number)
        if entries is None or not len(state):
            return pl.repeat(None, len(state), dtype=NAME, eager=True)
        known = self._texts.get((number, part))
        if known is None:
            fields = self.wire.messages(entries["begin"].to_numpy(), entries["end"].to_numpy(), {part: Kind.PART})
            texts = self.wire.texts(*fields.parts(part).first(fields.count))
            known = entries.select("state", "iid", text=pl.Series(texts, dtype=pl.String).cast(NAME))
            self._texts[number, part] = known
        wanted = pl.DataFrame({"state": state, "iid": iid, "has": has})
        joined = wanted.join(known, on=["state", "iid"], how="left", maintain_order="left")
        return joined.select(pl.when("has").then("text")).to_series()

    def entries(self, number: int, part: int) -> dict[tuple[int, int], int]:
        """Numbers of interned entries, by state and iid."""
        entries = self.interned.get(number)
        if entries is None:
            return {}
        fields = self.wire.messages(entries["begin"].to_numpy(), entries["end"].to_numpy(), {part: Kind.INT})
        keys = zip(entries["state"].to_list(), entries["iid"].to_list(), strict=True)
        return dict(zip(keys, fields.ints(part).tolist(), strict=True))


def read_packets(wire: Wire) -> Packets:
    """Read the packets of a trace without compressed ones."""
    fields = wire.messages(*wire.split(0, wire.size).of(PACKET), _PACKET)
    sequence, flags = fields.ints(SEQUENCE), fields.ints(FLAGS)
    sequence = np.unique(sequence, return_inverse=True)[1]
    cleared = pl.DataFrame({"sequence": sequence, "cleared": (flags & _CLEARED) > 0})
    epoch = cleared.select(pl.col("cleared").cast(pl.Int32).cum_sum().over("sequence")).to_series().to_numpy()
    state = np.unique(sequence * (int(epoch.max(initial=0)) + 1) + epoch.astype(np.int64), return_inverse=True)[1]
    lacks = ((flags & _NEEDS_STATE) > 0) & (epoch == 0)
    time_ns = _times(wire, fields, sequence, state)
    packets = Packets(wire, fields.parts_alone(), state, time_ns, np.flatnonzero(~lacks), int(lacks.sum()), {})
    del fields
    owner, begins, ends = packets.of(INTERNED)
    numbers = (_CATEGORIES, _NAMES, _ARGUMENTS, _CONTEXTS, _SPECS, _KERNELS)
    tables = wire.messages(begins, ends, dict.fromkeys(numbers, Kind.PART))
    for number in numbers:
        parts = tables.parts(number)
        if len(parts):
            entries = wire.messages(parts.begin, parts.end, {1: Kind.INT})
            packets.interned[number] = pl.DataFrame(
                {"state": state[owner[parts.owner]], "iid": entries.ints(1), "begin": parts.begin, "end": parts.end}
            ).unique(["state", "iid"], keep="last", maintain_order=True)
    return packets


def defaults_of(packets: Packets, number: int, within: int | None = None) -> pl.DataFrame:
    """What packets of a state have by default: state, value.

    Args:
        packets: Of a trace.
        number: A field of ``trace_packet_defaults``, or of a message in it.
        within: The number of that message.
    """
    wire = packets.wire
    begin, end = packets.fields.parts(DEFAULTS).first(packets.fields.count)
    rows = np.flatnonzero(begin >= 0)
    return _values(wire, packets.state[rows], begin[rows], end[rows], number, within)


def _values(
    wire: Wire, state: Integers, begin: Integers, end: Integers, number: int, within: int | None
) -> pl.DataFrame:
    if within is not None:
        inner = wire.messages(begin, end, {within: Kind.PART}).parts(within)
        state, begin, end = state[inner.owner], inner.begin, inner.end
    fields = wire.messages(begin, end, {number: Kind.INT})
    has = fields.has(number)
    return pl.DataFrame({"state": state[has], "value": fields.ints(number)[has]}).unique("state", keep="last")


def _times(wire: Wire, fields: Messages, sequence: Integers, state: Integers) -> Integers:
    """Times of packets in nanoseconds of the trace's clock.

    A packet's clock is told by itself, else by the defaults of its state. An incremental clock adds up what packets
    say, from the last snapshot of the sequence on; a snapshot tells the same moment on several clocks.
    """
    time, own = fields.ints(TIME), fields.ints(CLOCK)
    shots = _snapshots(wire, fields)
    if shots.is_empty():
        return time
    begin, end = fields.parts(DEFAULTS).first(fields.count)
    at = np.flatnonzero(begin >= 0)
    by_default = _values(wire, state[at], begin[at], end[at], CLOCK, None)
    default = np.full(int(state.max(initial=0)) + 1, _BOOT_CLOCK)
    default[by_default["state"].to_numpy()] = by_default["value"].to_numpy()
    clock = np.where(fields.has(CLOCK), own, default[state])
    # Clocks of a sequence are told apart; those of the machine are the same for all.
    owner = np.where(clock >= _FIRST_OWN_CLOCK, sequence + 1, 0).astype(np.int32)
    places = pl.DataFrame({"owner": owner, "clock": clock}).with_row_index("row")
    shots = shots.with_columns(
        pl.col("row").cast(pl.UInt32),
        owner=pl.when(pl.col("clock") >= _FIRST_OWN_CLOCK).then(pl.lit(sequence + 1).gather("row")).otherwise(0),
    ).sort("row")
    told = shots.select("row", pl.col("owner").cast(pl.Int32), "clock").with_row_index("snapshot")
    found = places.join_asof(told, on="row", by=["owner", "clock"], strategy="backward", check_sortedness=False)[
        "snapshot"
    ]
    known = found.is_not_null().to_numpy()
    snapshot = found.fill_null(0).to_numpy()
    is_delta = known & fields.has(TIME) & shots["incremental"].to_numpy()[snapshot]
    added = pl.DataFrame({"snapshot": snapshot, "time": np.where(is_delta, time, 0)})
    summed = added.select(pl.col("time").cum_sum().over("snapshot")).to_series().to_numpy()
    boot, scale = shots["boot"].to_numpy()[snapshot], shots["unit_ns"].to_numpy()[snapshot]
    since = np.where(is_delta, summed, time - shots["at"].to_numpy()[snapshot])
    moved: Integers = np.where(is_delta | (known & (clock != _BOOT_CLOCK)), boot + since * scale, time)
    return moved


def _snapshots(wire: Wire, fields: Messages) -> pl.DataFrame:
    """Snapshots of clocks: row of the packet, shot (its number), clock, at, boot (the trace's clock), incremental."""
    begin, end = fields.parts(CLOCKS).first(fields.count)
    at = np.flatnonzero(begin >= 0)
    parts = wire.messages(begin[at], end[at], {1: Kind.PART}).parts(1)
    clocks = wire.messages(parts.begin, parts.end, dict.fromkeys((1, 2, 3, 4), Kind.INT))
    told = pl.DataFrame(
        {
            "row": at[parts.owner],
            "shot": parts.owner,
            "clock": clocks.ints(1),
            "at": clocks.ints(2),
            "incremental": clocks.ints(3) > 0,
            "unit_ns": np.where(clocks.ints(4) > 0, clocks.ints(4), 1),
        }
    ).with_columns(pl.col("row").cast(pl.Int64))
    boot = told.filter(pl.col("clock") == _BOOT_CLOCK).select("shot", boot="at").unique("shot", keep="last")
    return told.join(boot, on="shot", how="inner", maintain_order="left").unique(
        ["row", "clock"], keep="last", maintain_order=True
    )


def tracks(packets: Packets) -> pl.DataFrame:
    """Tracks: uuid, parent, name, pid, tid, path (the names of all tracks around it and its own)."""
    wire = packets.wire
    _, begins, ends = packets.of(TRACK)
    parts = dict.fromkeys((2, 3, 4, 8, 10, 13), Kind.PART)
    fields = wire.messages(begins, ends, {1: Kind.INT, 5: Kind.INT, **parts})
    names = [wire.texts(*fields.parts(number).first(fields.count)) for number in (2, 10, 13)]
    process = _of_part(wire, fields, 3, (1,))
    thread = _of_part(wire, fields, 4, (1, 2))
    process_names, thread_names = (_texts_of(wire, fields, *place) for place in ((3, 6), (4, 5)))
    made: dict[int, dict[str, Any]] = {}
    for row, uuid in enumerate(fields.ints(1).tolist()):
        known = made.setdefault(uuid, {"uuid": uuid, "parent": None, "name": None, "pid": None, "tid": None})
        told = {
            "parent": int(fields.ints(5)[row]) if fields.has(5)[row] else None,
            "name": next((one[row] for one in (*names, thread_names, process_names) if one[row]), None),
            "pid": process[0][row] if process[0][row] is not None else thread[0][row],
            "tid": thread[1][row],
        }
        known.update({key: value for key, value in told.items() if value is not None})
    for track in made.values():
        parent: dict[str, Any] | None = track
        path: list[str] = []
        seen: set[int] = set()
        while parent is not None and id(parent) not in seen and len(seen) < 16:
            seen.add(id(parent))
            path.append(str(parent["name"] or ""))
            if track["pid"] is None:
                track["pid"] = parent["pid"]
            parent = made.get(parent["parent"])
        track["path"] = " / ".join(name for name in reversed(path) if name)
    schema = {**dict.fromkeys(("uuid", "parent", "pid", "tid"), pl.Int64), "name": pl.String, "path": pl.String}
    return pl.DataFrame(list(made.values()), schema=schema)


def _of_part(wire: Wire, fields: Messages, number: int, wanted: tuple[int, ...]) -> list[list[int | None]]:
    """Numbers of a message within others; None where there is none."""
    begin, end = fields.parts(number).first(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), dict.fromkeys(wanted, Kind.INT))
    return [
        [value if has else None for value, has in zip(inner.ints(one).tolist(), inner.has(one).tolist(), strict=True)]
        for one in wanted
    ]


def _texts_of(wire: Wire, fields: Messages, number: int, text: int) -> list[str | None]:
    begin, end = fields.parts(number).first(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), {text: Kind.PART})
    return wire.texts(*inner.parts(text).first(inner.count))


@dataclass(frozen=True, slots=True)
class TrackEvents:
    """The events of tracks."""

    slices: pl.DataFrame
    """With a begin and an end, and instants (of no length): track, name, category, start_ns, duration_ns, flow,
    `NUMBERS`."""
    counters: pl.DataFrame
    """Samples of counters: track, time_ns, value."""
    unclosed: int
    """Slices that never end."""
    orphans: int
    """Ends without a begin."""


def read_track_events(packets: Packets) -> TrackEvents:
    """Read the events of tracks; a begin and an end are paired by the order of the file, in each track.

    Events are read some at a time: what their many annotations take is needed for those alone. Of ends only place and
    time are kept.
    """
    rows, begins, ends = packets.of(EVENT)
    by_default = defaults_of(packets, 11, EVENT).rename({"value": "default"})
    marks: list[pl.DataFrame] = []
    others: list[pl.DataFrame] = []
    for first in range(0, max(len(rows), 1), _AT_ONCE):
        here = slice(first, first + _AT_ONCE)
        events = _events(packets, rows[here], begins[here], ends[here], by_default, first)
        marks.append(events.filter(pl.col("type").is_in([_BEGIN, _END])).select("order", "type", "track", "time_ns"))
        others.append(events.filter(pl.col("type") != _END))
    paired, unclosed, orphans = _paired(pl.concat(marks))
    events = pl.concat(others)
    slices = events.join(paired, on="order", how="inner", maintain_order="left")
    instants = events.filter(pl.col("type") == _INSTANT).with_columns(duration_ns=pl.lit(0, pl.Int64))
    shown = ("track", "name", "category", "start_ns", "duration_ns", "flow", *NUMBERS)
    return TrackEvents(
        pl.concat([slices, instants]).rename({"time_ns": "start_ns"}).select(shown),
        events.filter(pl.col("type") == _COUNTER).select("track", "time_ns", "value"),
        unclosed,
        orphans,
    )


def _events(
    packets: Packets, rows: Integers, begins: Integers, ends: Integers, by_default: pl.DataFrame, first: int
) -> pl.DataFrame:
    """Some events: order (from ``first`` on), type, track, name, category, time_ns, value, flow, `NUMBERS`."""
    wire = packets.wire
    fields = wire.messages(begins, ends, _EVENT)
    state = packets.state[rows]
    own = pl.Series(wire.texts(*fields.parts(23).first(fields.count)), dtype=pl.String).cast(NAME)
    category = pl.Series(wire.texts(*fields.parts(22).first(fields.count)), dtype=pl.String).cast(NAME)
    flow = np.select([fields.has(number) for number in _FLOWS], [fields.ints(number) for number in _FLOWS])
    has_flow = np.logical_or.reduce([fields.has(number) for number in _FLOWS])
    return (
        pl.DataFrame(
            {
                "state": state,
                "type": np.clip(fields.ints(9), 0, 127).astype(np.int8),
                "own_track": fields.ints(11),
                "has_track": fields.has(11),
                "name": own.zip_with(own.is_not_null(), packets.named(_NAMES, state, fields.ints(10), fields.has(10))),
                "category": category.zip_with(
                    category.is_not_null(), packets.named(_CATEGORIES, state, fields.ints(3), fields.has(3))
                ),
                "time_ns": packets.time_ns[rows],
                "value": np.where(fields.has(44), fields.values(44), fields.ints(30).astype(np.float64)),
                "flow": pl.select(pl.when(pl.Series(has_flow)).then(pl.Series(flow))).to_series(),
                **_annotations(packets, fields, state),
            }
        )
        .join(by_default, on="state", how="left", maintain_order="left")
        .with_columns(track=pl.when("has_track").then("own_track").otherwise(pl.coalesce("default", pl.lit(0))))
        .drop("own_track", "has_track", "default", "state")
        .with_row_index("order")
        .with_columns(pl.col("order") + first)
    )


def _paired(events: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """The order and the duration_ns of begins that end, and how many begins and ends stay alone."""
    step = pl.when(pl.col("type") == _BEGIN).then(1).otherwise(-1).cast(pl.Int32)
    depth = events.with_columns(depth=step.cum_sum().over("track"))
    # An end that goes deeper than any before has no begin.
    lowest = pl.min_horizontal(pl.col("depth").cum_min().over("track").shift(1).over("track").fill_null(0), pl.lit(0))
    depth = depth.with_columns(alone=(pl.col("type") == _END) & (pl.col("depth") < lowest))
    orphans = int(depth["alone"].sum())
    kept = depth.filter(~pl.col("alone")).with_columns(depth=step.cum_sum().over("track"))
    level = pl.when(pl.col("type") == _BEGIN).then("depth").otherwise(pl.col("depth") + 1)
    ordered = kept.with_columns(level=level).sort("track", "level", "order")
    of_level = ["track", "level"]
    paired = ordered.with_columns(
        next_type=pl.col("type").shift(-1).over(of_level), ended_ns=pl.col("time_ns").shift(-1).over(of_level)
    ).filter(pl.col("type") == _BEGIN)
    closed = paired.filter(pl.col("next_type") == _END)
    durations = closed.select("order", duration_ns=pl.col("ended_ns") - pl.col("time_ns"))
    return durations, paired.height - closed.height, orphans


def _annotations(packets: Packets, fields: Messages, state: Integers) -> Mapping[str, pl.Series]:
    """The wanted annotations of events, by name."""
    wire = packets.wire
    parts = fields.parts(4)
    notes = wire.messages(parts.begin, parts.end, _ANNOTATION)
    own = pl.Series(wire.texts(*notes.parts(10).first(notes.count)), dtype=pl.String)
    interned = packets.named(_ARGUMENTS, state[parts.owner], notes.ints(1), notes.has(1)).cast(pl.String)
    names = own.zip_with(own.is_not_null(), interned)
    value = np.where(notes.has(3), notes.ints(3), notes.ints(4))
    texts = pl.Series(wire.texts(*notes.parts(6).first(notes.count)), dtype=pl.String)
    columns = {}
    for name in NUMBERS:
        hit = np.flatnonzero((names == name).fill_null(False).to_numpy())
        found = np.zeros(fields.count, np.int64)
        has = np.zeros(fields.count, np.bool_)
        told = notes.has(3)[hit] | notes.has(4)[hit]
        by_text = texts.gather(hit).cast(pl.Int64, strict=False)
        numbers = np.where(told, value[hit], by_text.fill_null(0).to_numpy())
        known = told | by_text.is_not_null().to_numpy()
        found[parts.owner[hit[known]]] = numbers[known]
        has[parts.owner[hit[known]]] = True
        columns[name] = pl.select(pl.when(pl.Series(has)).then(pl.Series(found))).to_series()
    return columns
