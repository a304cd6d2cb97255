"""Reads the wire format of Protocol Buffers into columns, by tables of field numbers.

Messages of one type are read in lockstep: each step decodes the next field of every message that has one left, as
arrays, so a million small messages take a few steps. A message with very many fields (a line of events) is split
into its fields one by one instead (`WireReader.split`), which reads only tags and lengths.

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
_LONGEST_VARINT: Final = 10
_LONGEST_HEAD: Final = 2 * _LONGEST_VARINT
"""Bytes of the tag of a field with its length or value."""
_TOO_LONG: Final = 1 << 62
_MESSAGES: Final = 1 << 16
"""Messages that are read at once; the arrays of a step then fit into the processor's cache."""
_STEPS: Final = 4096
"""Fields of each message that are read in lockstep; the others are split one by one."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""WireReader types."""


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


_WIRES: Final = {
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
        """Begin and end of the last field of each of ``count`` owners; -1 if an owner has none."""
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

    def all_ints(self, number: int) -> tuple[Integers, Integers]:
        """Return the rows and the values of a repeated integer field."""
        found = self.spans(number)
        return found.owner, found.begin


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
        known = self._texts.get(raw)
        if known is None:
            known = self._texts[raw] = raw.decode("utf-8", "replace")
        return known

    def texts(self, begins: Sequence[int] | Integers, ends: Sequence[int] | Integers) -> list[str | None]:
        """Return strings by their positions; None for -1."""
        pairs = zip(np.asarray(begins).tolist(), np.asarray(ends).tolist(), strict=True)
        return [None if begin < 0 else self.text(begin, end) for begin, end in pairs]

    def split(
        self, begin: int, end: int, keep_going: Callable[[int], bool] | None = None, *, goes_on: bool = False
    ) -> Fields:
        """Split one message into its fields.

        Args:
            begin: The begin of the message.
            end: Its end.
            keep_going: Called with the position from time to time; reading ends when it returns False.
            goes_on: Whether the message continues after ``end``; a cut field is then omitted and not counted as
            damage.
        """
        data = self.data
        end = min(end, self.size)
        numbers, begins, ends = array("q"), array("q"), array("q")
        ints: dict[int, int] = {}
        at, look = begin, begin + (1 << 20)
        last = end - _LONGEST_HEAD if goes_on else end
        while at < last:
            begin, tag = at, data[at]
            at += 1
            if tag >= 128:
                tag, at = self._varint(at - 1)
            wire = tag & 7
            if tag < 8:
                self.damaged += 1
                break
            if wire == BYTES:
                size = data[at]
                at += 1
                if size >= 128:
                    size, at = self._varint(at - 1)
                if size > end - at:
                    if goes_on:
                        at = begin
                        break
                    self.damaged += 1
                    if tag >> 3 and at < end:
                        # The cut field may still contain whole messages.
                        numbers.append(tag >> 3)
                        begins.append(at)
                        ends.append(end)
                    break
                numbers.append(tag >> 3)
                begins.append(at)
                at += size
                ends.append(at)
            elif wire == VARINT:
                value, at = self._varint(at)
                ints[tag >> 3] = value - (1 << 64) if value >> 63 else value
            elif wire in (FIXED64, FIXED32):
                at += 8 if wire == FIXED64 else 4
            else:
                self.damaged += 1
                break
            if at >= look:
                look = at + (1 << 20)
                if keep_going is not None and not keep_going(at):
                    break
        return Fields(
            np.frombuffer(numbers, np.int64), np.frombuffer(begins, np.int64), np.frombuffer(ends, np.int64), ints, at
        )

    def long_field(self, at: int) -> tuple[int, int, int]:
        """Return number, begin and end of the length-delimited field at a position; it can end after the content."""
        tag, at = self._varint(at)
        size, at = self._varint(at)
        return tag >> 3, at, at + min(size, _TOO_LONG)

    def _varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        for byte in self.data[at : at + _LONGEST_VARINT]:
            value |= (byte & 127) << shift
            at += 1
            if byte < 128:
                break
            shift += 7
        return value & ((1 << 64) - 1), at

    def leading_ints(self, begins: Integers, number: int) -> Integers:
        """Return the varint that each message begins with if it is the field with a number, otherwise -1.

        It decides which of many small messages are read at all.
        """
        tag = self.octets[np.minimum(begins, self.size)]
        return np.where(tag == number << 3 | VARINT, self._varints(begins + 1)[0], -1)

    def messages(self, begins: Integers, ends: Integers, wanted: Mapping[int, FieldKind]) -> Messages:
        """Read messages of one type.

        Args:
            begins: The begin of each message.
            ends: The end of each.
            wanted: The fields to read, by number.
        """
        if len(begins) > _MESSAGES:
            pieces = [
                self._messages(begins[first : first + _MESSAGES], ends[first : first + _MESSAGES], wanted)
                for first in range(0, len(begins), _MESSAGES)
            ]
            return _concat(pieces)
        return self._messages(begins, ends, wanted)

    def _messages(self, begins: Integers, ends: Integers, wanted: Mapping[int, FieldKind]) -> Messages:
        count = len(begins)
        values: dict[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = {
            number: np.zeros(count, np.float64) if kind is FieldKind.DOUBLE else np.zeros(count, np.int64)
            for number, kind in wanted.items()
            if kind not in _REPEATED
        }
        present = {number: np.zeros(count, np.bool_) for number in wanted}
        spans: dict[int, list[tuple[Integers, Integers, Integers]]] = {
            number: [] for number, kind in wanted.items() if kind in _REPEATED
        }
        rows = np.arange(count)
        at, end = begins.astype(np.int64), np.minimum(ends, self.size)
        steps = 0
        while True:
            left = at < end
            if not left.all():
                rows, at, end = rows[left], at[left], end[left]
            if not len(rows):
                break
            steps += 1
            if steps > _STEPS:
                self._long_messages(rows, at, end, wanted, present, spans)
                break
            tags, behind = self._varints(at)
            wires, numbers = tags & 7, tags >> 3
            size, after = self._varints(behind)
            is_span = wires == BYTES
            after = np.where(is_span, after + np.minimum(size.astype(np.uint64), _TOO_LONG).astype(np.int64), after)
            after = np.where(wires == FIXED64, behind + 8, np.where(wires == FIXED32, behind + 4, after))
            is_bad = (after > end) | ~np.isin(wires, (VARINT, FIXED64, BYTES, FIXED32)) | (numbers == 0)
            if is_bad.any():
                self.damaged += int(is_bad.sum())
                after = np.where(is_bad, end, after)
            lowest, highest = int(numbers.min()), int(numbers.max())
            for number, kind in wanted.items():
                if not lowest <= number <= highest:
                    continue
                hit = np.flatnonzero((numbers == number) & (wires == _WIRES[kind]) & ~is_bad)
                if not len(hit):
                    continue
                owners = rows[hit]
                present[number][owners] = True
                if kind is FieldKind.SPAN:
                    spans[number].append((owners, after[hit] - size[hit], after[hit]))
                elif kind is FieldKind.INTS:
                    spans[number].append((owners, size[hit], behind[hit]))
                elif kind is FieldKind.INT:
                    values[number][owners] = size[hit]
                else:
                    eight = self.octets[behind[hit][:, None] + np.arange(8)]
                    values[number][owners] = eight.view(values[number].dtype).ravel()
            at = after
        return Messages(count, values, present, {number: _in_order(found) for number, found in spans.items()})

    def _long_messages(
        self,
        rows: Integers,
        at: Integers,
        end: Integers,
        wanted: Mapping[int, FieldKind],
        present: Mapping[int, npt.NDArray[np.bool_]],
        spans: Mapping[int, list[tuple[Integers, Integers, Integers]]],
    ) -> None:
        """Read the remaining length-delimited fields of messages with very many fields."""
        for row, begin, stop in zip(rows.tolist(), at.tolist(), end.tolist(), strict=True):
            fields = self.split(begin, stop)
            for number, kind in wanted.items():
                begins, ends = fields.positions(number)
                if kind is FieldKind.SPAN and len(begins):
                    present[number][row] = True
                    spans[number].append((np.full(len(begins), row), begins, ends))

    def _varints(self, at: Integers) -> tuple[Integers, Integers]:
        """Return varints as int64, and the end of each."""
        byte = self.octets[np.minimum(at, self.size)]
        value = (byte & 127).astype(np.uint64)
        behind = at + 1
        more = np.flatnonzero(byte >= 128)
        for position in range(1, _LONGEST_VARINT):
            if not len(more):
                break
            byte = self.octets[np.minimum(at[more] + position, self.size)]
            value[more] |= (byte & 127).astype(np.uint64) << np.uint64(7 * position)
            behind[more] += 1
            more = more[byte >= 128]
        return value.view(np.int64), behind


def encoded(value: int) -> bytes:
    """Return a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def names_of(wire: WireReader, fields: Messages, number: int) -> pl.Series:
    """Return the texts of a field of messages, as names; null if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    rows = np.flatnonzero(begin >= 0)
    codes: dict[str | None, int] = {}
    found = [codes.setdefault(text, len(codes)) for text in wire.texts(begin[rows], end[rows])]
    at = np.full(fields.count, len(codes), np.uint32)
    at[rows] = found
    return pl.Series([*codes, None], dtype=pl.String).cast(NAME).gather(at)


def known(messages: Messages, number: int) -> pl.Series:
    """Return an integer field of messages; null if it is missing."""
    return where(messages.has(number), messages.ints(number))


def where(is_known: npt.NDArray[np.bool_], values: Integers) -> pl.Series:
    """Return values as a series, null where they are unknown."""
    return pl.select(pl.when(pl.Series(is_known)).then(pl.Series(values))).to_series()


def nested_ints(wire: WireReader, fields: Messages, number: int, wanted: tuple[int, ...]) -> list[list[int | None]]:
    """Return integers in a nested message, a list for each of the wanted fields; None if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), dict.fromkeys(wanted, FieldKind.INT))
    return [
        [
            value if has else None
            for value, has in zip(inner.ints(field).tolist(), inner.has(field).tolist(), strict=True)
        ]
        for field in wanted
    ]


def nested_texts(wire: WireReader, fields: Messages, number: int, text: int) -> list[str | None]:
    """Return texts in a nested message; None if missing."""
    begin, end = fields.spans(number).last_by_owner(fields.count)
    inner = wire.messages(np.maximum(begin, 0), np.maximum(end, 0), {text: FieldKind.SPAN})
    return wire.texts(*inner.spans(text).last_by_owner(inner.count))


_CHUNK: Final = 2 << 20
"""The approximate number of bytes per chunk of fields."""


def chunks_of_fields(content: Iterable[bytes]) -> Iterator[tuple[WireReader, Fields]]:
    """Split a message of any length into chunks of whole fields."""
    held = bytearray()
    wanted = _CHUNK
    for piece in content:
        held += piece
        if len(held) < wanted:
            continue
        wire = WireReader.from_bytes(bytes(held))
        fields = wire.split(0, wire.size, goes_on=True)
        if wire.damaged:
            yield wire, fields
            return
        if not fields.end:
            wanted = 2 * len(held)
            continue
        yield wire, fields
        del held[: fields.end]
        wanted = _CHUNK
    wire = WireReader.from_bytes(bytes(held))
    yield wire, wire.split(0, wire.size)


_WINDOW: Final = 3 << 20
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
            wire = self.wire(begin, min(begin + _WINDOW, end))
            is_last = begin + wire.size >= end or wire.size < _WINDOW
            fields = wire.split(0, wire.size, goes_on=not is_last)
            self.damaged += wire.damaged
            yield begin, fields
            if is_last or wire.damaged:
                return
            begin += fields.end
            if wire.size - fields.end > _LONGEST_HEAD:
                number, first, last = wire.long_field(fields.end)
                stop = begin + last - fields.end
                if stop > end:
                    # The cut field may still contain whole messages.
                    self.damaged += 1
                    stop = end
                at = np.array([number]), np.array([first - fields.end]), np.array([stop - begin])
                yield begin, Fields(*at, ints={}, end=stop - begin)
                begin = stop

    def fields(self, begin: int, end: int) -> Fields:
        """Split one message into its fields; positions are those of the whole content."""
        found = [(at, fields) for at, fields in self.windows(begin, end) if fields.end]
        ints: dict[int, int] = {}
        for _, fields in found:
            ints |= fields.ints
        none = np.zeros(0, np.int64)
        return Fields(
            np.concatenate([none, *(fields.numbers for _, fields in found)]),
            np.concatenate([none, *(at + fields.begins for at, fields in found)]),
            np.concatenate([none, *(at + fields.ends for at, fields in found)]),
            ints,
            end,
        )

    def gather(self, begins: Integers, ends: Integers) -> tuple[WireReader, Integers, Integers]:
        """Return a reader of some fields alone, and their positions in it."""
        sizes = ends - begins
        if not len(begins):
            return WireReader.from_bytes(), begins, ends
        first, last = int(begins.min()), int(ends.max())
        if last - first <= 2 * int(sizes.sum()) + _WINDOW:
            return self.wire(first, last), begins - first, ends - first
        pieces = [self.read(at, to) for at, to in zip(begins.tolist(), ends.tolist(), strict=True)]
        stops = np.cumsum(sizes)
        return WireReader.from_bytes(*pieces), stops - sizes, stops

    def texts(self, begins: Integers, ends: Integers) -> list[str]:
        """Return strings by their positions."""
        return [self.wire(at, to).text(0, to - at) for at, to in zip(begins.tolist(), ends.tolist(), strict=True)]


def _concat(pieces: list[Messages]) -> Messages:
    """Concatenate messages of one type, column by column; this empties ``pieces``."""
    firsts = np.cumsum([0, *(piece.count for piece in pieces)]).tolist()
    first = pieces[0]
    values = {number: np.concatenate([piece._values.pop(number) for piece in pieces]) for number in list(first._values)}
    present = {
        number: np.concatenate([piece._present.pop(number) for piece in pieces]) for number in list(first._present)
    }
    spans: dict[int, Spans] = {}
    for number in {number for piece in pieces for number in piece._spans}:
        found = [
            (piece_spans.owner + before, piece_spans.begin, piece_spans.end)
            for piece, before in zip(pieces, firsts, strict=False)
            if (piece_spans := piece._spans.pop(number, None)) is not None
        ]
        owner, begin, end = zip(*found, strict=True)
        spans[number] = Spans(np.concatenate(owner), np.concatenate(begin), np.concatenate(end))
    return Messages(firsts[-1], values, present, spans)


def _in_order(found: Sequence[tuple[Integers, Integers, Integers]]) -> Spans:
    """Return spans sorted by owner; those of one owner are in the order of the input."""
    if not found:
        return _NO_SPANS
    owner, begin, end = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    # The values of integers are in place of begins.
    order = np.lexsort((end, owner))
    return Spans(owner[order], begin[order], end[order])
