"""Reads the wire format of Protocol Buffers into columns, by tables of field numbers.

Messages of one type are read in lockstep: each step decodes the next field of every message that has one left, as
arrays, so a million small messages take a few steps. Few messages with very many fields (a line of events) are split
into their fields one by one instead (`WireReader.split`), which reads only tags, lengths and numbers.

A message ends at an invalid field, and is counted as damaged. Unknown fields are skipped.

`WireFile` reads a message that is larger than memory: it skips long fields, and reads the others in windows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MARGIN: Final = 16
"""Zero bytes after the content, so that a varint at its end can be decoded like any other."""
_MAX_VARINT_BYTES: Final = 10
_MAX_HEADER_BYTES: Final = 2 * _MAX_VARINT_BYTES
"""Bytes of the tag of a field with its length or value."""
_MAX_SIZE: Final = 1 << 62
_BATCH_MESSAGES: Final = 1 << 16
"""Messages that are read at once; the arrays of a step then fit into the processor's cache."""
_LOCKSTEP_FIELDS: Final = 64
_LOCKSTEP_MESSAGES: Final = 64
"""When fewer messages have more fields than these, a step costs more than reading their fields one by one."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


class FieldKind(StrEnum):
    """The type of a wanted field."""

    INT = "int"
    """A varint, as int64."""
    INTS = "ints"
    """A varint, as int64, that may be repeated."""
    FIXED = "fixed"
    """Eight bytes, as int64."""
    DOUBLE = "double"
    SPAN = "span"
    """A length-delimited field (string, bytes or message): its position. It may be repeated."""


_WIRE_TYPES: Final = {
    FieldKind.INT: VARINT,
    FieldKind.INTS: VARINT,
    FieldKind.FIXED: FIXED64,
    FieldKind.DOUBLE: FIXED64,
    FieldKind.SPAN: BYTES,
}
_REPEATED: Final = (FieldKind.INTS, FieldKind.SPAN)


@dataclass(frozen=True, slots=True)
class Spans:
    """The positions of length-delimited fields (strings, bytes or messages), in input order."""

    owner: Integers
    """The row of the message that contains each field."""
    begin: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.begin)

    def last_by_owner(self, count: int) -> tuple[Integers, Integers]:
        """Return begin and end of the last field of each of ``count`` owners; -1 if an owner has none."""
        begin, end = np.full(count, -1), np.full(count, -1)
        begin[self.owner], end[self.owner] = self.begin, self.end
        return begin, end


_NO_SPANS: Final = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one message."""

    numbers: Integers
    """The numbers of its length-delimited fields, in input order."""
    begins: Integers
    ends: Integers
    ints: Mapping[int, int]
    """Its varints by field number, as signed integers; the last one of a repeated field."""
    end: int
    """The end of the last field."""

    def positions(self, number: int) -> tuple[Integers, Integers]:
        """Return begins and ends of the length-delimited fields with a number."""
        hit = self.numbers == number
        return self.begins[hit], self.ends[hit]


@dataclass(slots=True)
class Messages:
    """Fields of messages of one type, one row per message."""

    count: int
    _values: dict[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]]
    _present: dict[int, npt.NDArray[np.bool_]]
    _spans: dict[int, Spans]

    def values(self, number: int) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
        """Return the values of a field: the last of a repeated field, 0 if it is missing."""
        return self._values[number]

    def ints(self, number: int) -> Integers:
        """Return the values of an integer field."""
        values: Integers = self._values[number].astype(np.int64, copy=False)
        return values

    def has(self, number: int) -> npt.NDArray[np.bool_]:
        """Return which messages have the field."""
        return self._present[number]

    def spans(self, number: int) -> Spans:
        """Return the positions of a length-delimited field."""
        return self._spans.get(number, _NO_SPANS)

    def repeated_ints(self, number: int) -> tuple[Integers, Integers]:
        """Return the rows and the values of a repeated integer field."""
        spans = self.spans(number)
        return spans.owner, spans.begin


@dataclass(slots=True)
class WireReader:
    """Reads messages from the content of an input, and counts the damaged ones."""

    data: memoryview
    size: int
    octets: Bytes = field(init=False)
    """The content, followed by `_MARGIN` zero bytes."""
    damaged: int = 0
    """Messages that end early because of an invalid field."""
    _texts: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.octets = np.frombuffer(self.data, np.uint8)

    @classmethod
    def from_bytes(cls, *content: bytes) -> WireReader:
        """Make a reader of content in pieces of any size; it is copied once."""
        return cls(memoryview(b"".join((*content, bytes(_MARGIN)))), sum(map(len, content)))

    def text(self, begin: int, end: int) -> str:
        """Return the string at a position; invalid bytes become U+FFFD. Equal strings are created once."""
        raw = bytes(self.data[begin:end])
        text = self._texts.get(raw)
        if text is None:
            text = self._texts[raw] = raw.decode("utf-8", "replace")
        return text

    def texts(self, begins: Sequence[int] | Integers, ends: Sequence[int] | Integers) -> list[str | None]:
        """Return strings by their positions; None for -1."""
        pairs = zip(np.asarray(begins).tolist(), np.asarray(ends).tolist(), strict=True)
        return [None if begin < 0 else self.text(begin, end) for begin, end in pairs]

    def split(
        self,
        begin: int,
        end: int,
        keep_going: Callable[[int], bool] | None = None,
        *,
        continues: bool = False,
        numbers_by_tag: dict[int, list[tuple[int, int]]] | None = None,
    ) -> Fields:
        """Split one message into its fields.

        Args:
            begin: The begin of the message.
            end: Its end.
            keep_going: Called with the position from time to time; reading ends when it returns False.
            continues: Whether the message continues after ``end``; a cut field is then omitted and not counted as
            damage.
            numbers_by_tag: Gets the value, as a signed integer, and the position of every varint and eight-byte
            field, by its tag.
        """
        data = self.data
        end = min(end, self.size)
        numbers, begins, ends = array("q"), array("q"), array("q")
        ints: dict[int, int] = {}
        position, next_check = begin, begin + (1 << 20)
        last_start = end - _MAX_HEADER_BYTES if continues else end
        while position < last_start:
            begin, tag = position, data[position]
            position += 1
            if tag >= 128:
                tag, position = self._varint(position - 1)
            wire = tag & 7
            if tag < 8:
                self.damaged += 1
                break
            if wire == BYTES:
                size = data[position]
                position += 1
                if size >= 128:
                    size, position = self._varint(position - 1)
                if size > end - position:
                    if continues:
                        position = begin
                        break
                    self.damaged += 1
                    if tag >> 3 and position < end:
                        # The cut field may still contain whole messages.
                        numbers.append(tag >> 3)
                        begins.append(position)
                        ends.append(end)
                    break
                numbers.append(tag >> 3)
                begins.append(position)
                position += size
                ends.append(position)
            elif wire == VARINT:
                value, position = self._varint(position)
                ints[tag >> 3] = value = value - (1 << 64) if value >> 63 else value
                if numbers_by_tag is not None:
                    numbers_by_tag.setdefault(tag, []).append((value, position))
            elif wire in (FIXED64, FIXED32):
                if wire == FIXED64 and numbers_by_tag is not None and position + 8 <= end:
                    value = int.from_bytes(data[position : position + 8], "little", signed=True)
                    numbers_by_tag.setdefault(tag, []).append((value, position))
                position += 8 if wire == FIXED64 else 4
            else:
                self.damaged += 1
                break
            if position >= next_check:
                next_check = position + (1 << 20)
                if keep_going is not None and not keep_going(position):
                    break
        return Fields(
            np.frombuffer(numbers, np.int64),
            np.frombuffer(begins, np.int64),
            np.frombuffer(ends, np.int64),
            ints,
            position,
        )

    def long_field(self, position: int) -> tuple[int, int, int]:
        """Return number, begin and end of the length-delimited field at a position; it can end after the content."""
        tag, position = self._varint(position)
        size, position = self._varint(position)
        return tag >> 3, position, position + min(size, _MAX_SIZE)

    def _varint(self, position: int) -> tuple[int, int]:
        value = shift = 0
        for byte in self.data[position : position + _MAX_VARINT_BYTES]:
            value |= (byte & 127) << shift
            position += 1
            if byte < 128:
                break
            shift += 7
        return value & ((1 << 64) - 1), position

    def leading_ints(self, begins: Integers, number: int) -> Integers:
        """Return the varint that each message begins with if it is the field with a number, otherwise -1.

        It decides which of many small messages are read at all.
        """
        tags = self.octets[np.minimum(begins, self.size)]
        return np.where(tags == number << 3 | VARINT, self.varints(begins + 1)[0], -1)

    def messages(self, begins: Integers, ends: Integers, fields: Mapping[int, FieldKind]) -> Messages:
        """Read messages of one type.

        Args:
            begins: The begin of each message.
            ends: The end of each.
            fields: The fields to read, by number.
        """
        if len(begins) > _BATCH_MESSAGES:
            batches = [
                self._messages(begins[first : first + _BATCH_MESSAGES], ends[first : first + _BATCH_MESSAGES], fields)
                for first in range(0, len(begins), _BATCH_MESSAGES)
            ]
            return _concat(batches)
        return self._messages(begins, ends, fields)

    def _messages(self, begins: Integers, ends: Integers, fields: Mapping[int, FieldKind]) -> Messages:
        """Read messages field by field, all of them in each step."""
        count = len(begins)
        values: dict[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = {
            number: np.zeros(count, np.float64) if kind is FieldKind.DOUBLE else np.zeros(count, np.int64)
            for number, kind in fields.items()
            if kind not in _REPEATED
        }
        present = {number: np.zeros(count, np.bool_) for number in fields}
        spans: dict[int, list[tuple[Integers, Integers, Integers]]] = {
            number: [] for number, kind in fields.items() if kind in _REPEATED
        }
        rows = np.arange(count)
        position, end = begins.astype(np.int64), np.minimum(ends, self.size)
        steps = 0
        while True:
            is_unfinished = position < end
            if not is_unfinished.all():
                rows, position, end = rows[is_unfinished], position[is_unfinished], end[is_unfinished]
            if not len(rows):
                break
            steps += 1
            if steps > _LOCKSTEP_FIELDS and len(rows) < _LOCKSTEP_MESSAGES:
                self._long_messages(rows, position, end, fields, values, present, spans)
                break
            tags, value_start = self.varints(position)
            wires, numbers = tags & 7, tags >> 3
            size, value_end = self.varints(value_start)
            is_span = wires == BYTES
            value_end = np.where(
                is_span, value_end + np.minimum(size.astype(np.uint64), _MAX_SIZE).astype(np.int64), value_end
            )
            value_end = np.where(
                wires == FIXED64, value_start + 8, np.where(wires == FIXED32, value_start + 4, value_end)
            )
            is_bad = (value_end > end) | ~np.isin(wires, (VARINT, FIXED64, BYTES, FIXED32)) | (numbers == 0)
            if is_bad.any():
                self.damaged += int(is_bad.sum())
                value_end = np.where(is_bad, end, value_end)
            lowest, highest = int(numbers.min()), int(numbers.max())
            for number, kind in fields.items():
                if not lowest <= number <= highest:
                    continue
                selected = np.flatnonzero((numbers == number) & (wires == _WIRE_TYPES[kind]) & ~is_bad)
                if not len(selected):
                    continue
                owners = rows[selected]
                present[number][owners] = True
                if kind is FieldKind.SPAN:
                    spans[number].append((owners, value_end[selected] - size[selected], value_end[selected]))
                elif kind is FieldKind.INTS:
                    spans[number].append((owners, size[selected], value_start[selected]))
                elif kind is FieldKind.INT:
                    values[number][owners] = size[selected]
                else:
                    raw = self.octets[value_start[selected][:, None] + np.arange(8)]
                    values[number][owners] = raw.view(values[number].dtype).ravel()
            position = value_end
        return Messages(count, values, present, {number: _sorted_spans(parts) for number, parts in spans.items()})

    def _long_messages(
        self,
        rows: Integers,
        position: Integers,
        end: Integers,
        kinds: Mapping[int, FieldKind],
        values: Mapping[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]],
        present: Mapping[int, npt.NDArray[np.bool_]],
        spans: Mapping[int, list[tuple[Integers, Integers, Integers]]],
    ) -> None:
        """Read the remaining fields of very long messages."""
        for row, begin, message_end in zip(rows.tolist(), position.tolist(), end.tolist(), strict=True):
            numbers_by_tag: dict[int, list[tuple[int, int]]] = {}
            fields = self.split(begin, message_end, numbers_by_tag=numbers_by_tag)
            for number, kind in kinds.items():
                if kind is FieldKind.SPAN:
                    firsts, seconds = fields.positions(number)
                else:
                    found = np.array(numbers_by_tag.get(number << 3 | _WIRE_TYPES[kind], ()), np.int64).reshape(-1, 2)
                    firsts, seconds = found[:, 0], found[:, 1]
                if not len(firsts):
                    continue
                present[number][row] = True
                if kind in _REPEATED:
                    spans[number].append((np.full(len(firsts), row), firsts, seconds))
                else:
                    values[number][row] = firsts[-1:].view(values[number].dtype)[0]

    def varints(self, at: Integers) -> tuple[Integers, Integers]:
        """Return varints as int64, and the end of each."""
        byte = self.octets[np.minimum(at, self.size)]
        value = (byte & 127).astype(np.uint64)
        ends = at + 1
        continued = np.flatnonzero(byte >= 128)
        for position in range(1, _MAX_VARINT_BYTES):
            if not len(continued):
                break
            byte = self.octets[np.minimum(at[continued] + position, self.size)]
            value[continued] |= (byte & 127).astype(np.uint64) << np.uint64(7 * position)
            ends[continued] += 1
            continued = continued[byte >= 128]
        return value.view(np.int64), ends


def encode_varint(value: int) -> bytes:
    """Return a varint."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


def field_names(wire: WireReader, fields: Messages, number: int) -> pl.Series:
    """Return the texts of a field of messages, as names; null if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    rows = np.flatnonzero(begin >= 0)
    codes: dict[str | None, int] = {}
    code_of_row = [codes.setdefault(text, len(codes)) for text in wire.texts(begin[rows], end[rows])]
    codes_by_row = np.full(fields.count, len(codes), np.uint32)
    codes_by_row[rows] = code_of_row
    return pl.Series([*codes, None], dtype=pl.String).cast(NAME).gather(codes_by_row)


def optional_ints(messages: Messages, number: int) -> pl.Series:
    """Return an integer field of messages; null if it is missing."""
    return series_where(messages.has(number), messages.ints(number))


def series_where(is_known: npt.NDArray[np.bool_], values: Integers) -> pl.Series:
    """Return values as a series, null where they are unknown."""
    return pl.select(pl.when(pl.Series(is_known)).then(pl.Series(values))).to_series()


def nested_ints(wire: WireReader, fields: Messages, number: int, numbers: tuple[int, ...]) -> list[list[int | None]]:
    """Return integers in a nested message, a list for each of the wanted fields; None if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), dict.fromkeys(numbers, FieldKind.INT))
    return [
        [
            value if has else None
            for value, has in zip(inner.ints(field).tolist(), inner.has(field).tolist(), strict=True)
        ]
        for field in numbers
    ]


def nested_texts(wire: WireReader, fields: Messages, number: int, text: int) -> list[str | None]:
    """Return texts in a nested message; None if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), {text: FieldKind.SPAN})
    return wire.texts(*inner.spans(text).last_by_owner(inner.count))


_CHUNK_BYTES: Final = 2 << 20
"""The approximate number of bytes per chunk of fields."""


def field_chunks(content: Iterable[bytes]) -> Iterator[tuple[WireReader, Fields]]:
    """Split a message of any length into chunks of whole fields."""
    buffer = bytearray()
    wanted_bytes = _CHUNK_BYTES
    for piece in content:
        buffer += piece
        if len(buffer) < wanted_bytes:
            continue
        wire = WireReader.from_bytes(bytes(buffer))
        fields = wire.split(0, wire.size, continues=True)
        if wire.damaged:
            yield wire, fields
            return
        if not fields.end:
            wanted_bytes = 2 * len(buffer)
            continue
        yield wire, fields
        del buffer[: fields.end]
        wanted_bytes = _CHUNK_BYTES
    wire = WireReader.from_bytes(bytes(buffer))
    yield wire, wire.split(0, wire.size)


_WINDOW_BYTES: Final = 3 << 20
"""Bytes that are read at once."""


@dataclass(slots=True)
class WireFile:
    """A message of any size, read in parts at any position."""

    read: Callable[[int, int], bytes]
    """The bytes between two positions; fewer at the end."""
    size: int
    damaged: int = 0
    """Messages that end early because of an invalid field."""

    def wire(self, begin: int, end: int) -> WireReader:
        """Return a reader of the bytes between two positions."""
        return WireReader.from_bytes(self.read(begin, min(end, self.size)))

    def windows(self, begin: int, end: int) -> Iterator[tuple[int, Fields]]:
        """Split one message into its fields, window by window: a position, and fields relative to it.

        Only the beginning of a field longer than a window is read.
        """
        end = min(end, self.size)
        while begin < end:
            wire = self.wire(begin, min(begin + _WINDOW_BYTES, end))
            is_last = begin + wire.size >= end or wire.size < _WINDOW_BYTES
            fields = wire.split(0, wire.size, continues=not is_last)
            self.damaged += wire.damaged
            yield begin, fields
            if is_last or wire.damaged:
                return
            begin += fields.end
            if wire.size - fields.end > _MAX_HEADER_BYTES:
                number, field_begin, field_end = wire.long_field(fields.end)
                next_begin = begin + field_end - fields.end
                if next_begin > end:
                    # The cut field may still contain whole messages.
                    self.damaged += 1
                    next_begin = end
                arrays = np.array([number]), np.array([field_begin - fields.end]), np.array([next_begin - begin])
                yield begin, Fields(*arrays, ints={}, end=next_begin - begin)
                begin = next_begin

    def fields(self, begin: int, end: int) -> Fields:
        """Split one message into its fields; positions are those of the whole content."""
        windows = [(offset, fields) for offset, fields in self.windows(begin, end) if fields.end]
        ints: dict[int, int] = {}
        for _, fields in windows:
            ints |= fields.ints
        empty = np.zeros(0, np.int64)
        return Fields(
            np.concatenate([empty, *(fields.numbers for _, fields in windows)]),
            np.concatenate([empty, *(offset + fields.begins for offset, fields in windows)]),
            np.concatenate([empty, *(offset + fields.ends for offset, fields in windows)]),
            ints,
            end,
        )

    def gather(self, begins: Integers, ends: Integers) -> tuple[WireReader, Integers, Integers]:
        """Return a reader of some fields alone, and their positions in it."""
        sizes = ends - begins
        if not len(begins):
            return WireReader.from_bytes(), begins, ends
        start, end = int(begins.min()), int(ends.max())
        if end - start <= 2 * int(sizes.sum()) + _WINDOW_BYTES:
            return self.wire(start, end), begins - start, ends - start
        pieces = [self.read(begin, stop) for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True)]
        stops = np.cumsum(sizes)
        return WireReader.from_bytes(*pieces), stops - sizes, stops

    def texts(self, begins: Integers, ends: Integers) -> list[str]:
        """Return strings by their positions."""
        return [
            self.wire(begin, end).text(0, end - begin)
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]


def _concat(batches: list[Messages]) -> Messages:
    """Concatenate messages of one type, column by column; this empties ``batches``."""
    offsets = np.cumsum([0, *(batch.count for batch in batches)]).tolist()
    first_batch = batches[0]
    values = {
        number: np.concatenate([batch._values.pop(number) for batch in batches]) for number in list(first_batch._values)
    }
    present = {
        number: np.concatenate([batch._present.pop(number) for batch in batches])
        for number in list(first_batch._present)
    }
    spans: dict[int, Spans] = {}
    for number in {number for batch in batches for number in batch._spans}:
        parts = [
            (batch_spans.owner + offset, batch_spans.begin, batch_spans.end)
            for batch, offset in zip(batches, offsets, strict=False)
            if (batch_spans := batch._spans.pop(number, None)) is not None
        ]
        owner, begin, end = zip(*parts, strict=True)
        spans[number] = Spans(np.concatenate(owner), np.concatenate(begin), np.concatenate(end))
    return Messages(offsets[-1], values, present, spans)


def _sorted_spans(parts: Sequence[tuple[Integers, Integers, Integers]]) -> Spans:
    """Return spans sorted by owner; those of one owner are in the order of the input."""
    if not parts:
        return _NO_SPANS
    owner, begin, end = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    # The values of integers are in place of begins.
    order = np.lexsort((end, owner))
    return Spans(owner[order], begin[order], end[order])
