"""Reads the wire format of Protocol Buffers into columns, by tables of field numbers.

Messages of one type are read in lockstep: each step decodes one field of every message that has one left, as arrays.
So a million small messages cost a few steps. A message with very many fields, as a line of events, is cut into its
fields one after the other instead (`split`), which looks at nothing but tags and lengths.

Damage is survived: a message ends where a field of it cannot be true, which is counted; unknown fields are passed over.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MARGIN: Final = 16
"""Zero bytes behind the content, so that a varint at its end can be decoded like any other."""
_LONGEST_VARINT: Final = 10
_LONGEST_HEAD: Final = 2 * _LONGEST_VARINT
"""Bytes of the tag of a field with its length or value."""
_TOO_LONG: Final = 1 << 62
_MESSAGES: Final = 1 << 16
"""So many messages are read at once: what a step needs for them stays in the processor's cache."""
_STEPS: Final = 4096
"""So many fields of each message are read in lockstep; the rest is cut one by one."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


class Kind(StrEnum):
    """What a wanted field holds."""

    INT = "int"
    """A varint, as int64."""
    FIXED = "fixed"
    """Eight bytes, as int64."""
    DOUBLE = "double"
    PART = "part"
    """A text, bytes or a message: where it begins and ends. It may be repeated."""


_WIRES: Final = {Kind.INT: VARINT, Kind.FIXED: FIXED64, Kind.DOUBLE: FIXED64, Kind.PART: BYTES}


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts, bytes or messages within others, in the order of the input."""

    owner: Integers
    """The row of the message that each is in."""
    begin: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.begin)

    def first(self, count: int) -> tuple[Integers, Integers]:
        """Where the last one of each of so many owners begins and ends; -1 where it has none."""
        begin, end = np.full(count, -1), np.full(count, -1)
        begin[self.owner], end[self.owner] = self.begin, self.end
        return begin, end


_NO_PARTS: Final = Parts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one message, cut one by one."""

    numbers: Integers
    """Of its texts, bytes and messages, in the order of the input."""
    begins: Integers
    ends: Integers
    ints: Mapping[int, int]
    """Its varints by their number, as signed integers; of one that is repeated the last."""
    end: int
    """Where the last of them ends."""

    def of(self, number: int) -> tuple[Integers, Integers]:
        """Where the texts, bytes or messages of a number begin and end."""
        hit = self.numbers == number
        return self.begins[hit], self.ends[hit]


@dataclass(slots=True)
class Messages:
    """Fields of messages of one type, a row a message."""

    count: int
    _values: dict[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]]
    _present: dict[int, npt.NDArray[np.bool_]]
    _parts: dict[int, Parts]

    def values(self, number: int) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
        """The values of a field; of one that is repeated the last, 0 where it is missing."""
        return self._values[number]

    def ints(self, number: int) -> Integers:
        """The values of a field that holds integers."""
        values: Integers = self._values[number].astype(np.int64, copy=False)
        return values

    def has(self, number: int) -> npt.NDArray[np.bool_]:
        """Which messages have a field."""
        return self._present[number]

    def parts_alone(self) -> Messages:
        """The same messages without their values."""
        return Messages(self.count, {}, {}, self._parts)

    def parts(self, number: int) -> Parts:
        """The texts, bytes or messages of a field."""
        return self._parts.get(number, _NO_PARTS)


@dataclass(slots=True)
class Wire:
    """The content of an input, and how much of it was damaged."""

    data: memoryview
    size: int
    octets: Bytes = field(init=False)
    """The content with `_MARGIN` zero bytes behind it."""
    damaged: int = 0
    """Messages that end early because a field of them cannot be true."""
    _texts: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.octets = np.frombuffer(self.data, np.uint8)

    @classmethod
    def of(cls, *content: bytes) -> Wire:
        """Take a content, in pieces of any size; it is copied once."""
        return cls.read(content)

    @classmethod
    def read(cls, content: Iterable[bytes], size: int = 0) -> Wire:
        """Take a content piece by piece.

        Args:
            content: Pieces of any size.
            size: About how many bytes come, where that is known: then nothing is moved as they come.
        """
        whole = bytearray(size + _MARGIN)
        at = 0
        for piece in content:
            whole[at : min(at + len(piece), len(whole))] = piece
            at += len(piece)
        del whole[at:]
        whole += bytes(_MARGIN)
        return cls(memoryview(whole), at)

    def text(self, begin: int, end: int) -> str:
        """A text; damaged characters become U+FFFD. Equal texts are created once."""
        raw = bytes(self.data[begin:end])
        known = self._texts.get(raw)
        if known is None:
            known = self._texts[raw] = raw.decode("utf-8", "replace")
        return known

    def texts(self, begins: Sequence[int] | Integers, ends: Sequence[int] | Integers) -> list[str | None]:
        """Texts by where they begin and end; None where that is -1."""
        pairs = zip(np.asarray(begins).tolist(), np.asarray(ends).tolist(), strict=True)
        return [None if begin < 0 else self.text(begin, end) for begin, end in pairs]

    def split(
        self, begin: int, end: int, keep_going: Callable[[int], bool] | None = None, *, goes_on: bool = False
    ) -> Fields:
        """Cut one message into its fields.

        Args:
            begin: Where the message begins.
            end: Where it ends.
            keep_going: Told now and then how far it has come; its False ends the reading.
            goes_on: The message does not end there: a field that is cut is left out, and is no damage.
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
                        # What is cut may still hold whole messages.
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

    def _varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        for byte in self.data[at : at + _LONGEST_VARINT]:
            value |= (byte & 127) << shift
            at += 1
            if byte < 128:
                break
            shift += 7
        return value & ((1 << 64) - 1), at

    def messages(self, begins: Integers, ends: Integers, wanted: Mapping[int, Kind]) -> Messages:
        """Read messages of one type.

        Args:
            begins: Where each begins.
            ends: Where each ends.
            wanted: The fields to read, by number.
        """
        if len(begins) > _MESSAGES:
            pieces = [
                self._messages(begins[first : first + _MESSAGES], ends[first : first + _MESSAGES], wanted)
                for first in range(0, len(begins), _MESSAGES)
            ]
            return _joined(pieces)
        return self._messages(begins, ends, wanted)

    def _messages(self, begins: Integers, ends: Integers, wanted: Mapping[int, Kind]) -> Messages:
        count = len(begins)
        values: dict[int, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = {
            number: np.zeros(count, np.float64) if kind is Kind.DOUBLE else np.zeros(count, np.int64)
            for number, kind in wanted.items()
            if kind is not Kind.PART
        }
        present = {number: np.zeros(count, np.bool_) for number in wanted}
        parts: dict[int, list[tuple[Integers, Integers, Integers]]] = {
            number: [] for number, kind in wanted.items() if kind is Kind.PART
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
                self._long_messages(rows, at, end, wanted, present, parts)
                break
            tags, behind = self._varints(at)
            wires, numbers = tags & 7, tags >> 3
            size, after = self._varints(behind)
            is_part = wires == BYTES
            after = np.where(is_part, after + np.minimum(size.astype(np.uint64), _TOO_LONG).astype(np.int64), after)
            after = np.where(wires == FIXED64, behind + 8, np.where(wires == FIXED32, behind + 4, after))
            is_bad = (after > end) | ~np.isin(wires, (VARINT, FIXED64, BYTES, FIXED32)) | (numbers == 0)
            if is_bad.any():
                self.damaged += int(is_bad.sum())
                after = np.where(is_bad, end, after)
            for number, kind in wanted.items():
                hit = np.flatnonzero((numbers == number) & (wires == _WIRES[kind]) & ~is_bad)
                if not len(hit):
                    continue
                owners = rows[hit]
                present[number][owners] = True
                if kind is Kind.PART:
                    parts[number].append((owners, after[hit] - size[hit], after[hit]))
                elif kind is Kind.INT:
                    values[number][owners] = size[hit]
                else:
                    eight = self.octets[behind[hit][:, None] + np.arange(8)]
                    values[number][owners] = eight.view(values[number].dtype).ravel()
            at = after
        return Messages(count, values, present, {number: _in_order(found) for number, found in parts.items()})

    def _long_messages(
        self,
        rows: Integers,
        at: Integers,
        end: Integers,
        wanted: Mapping[int, Kind],
        present: Mapping[int, npt.NDArray[np.bool_]],
        parts: Mapping[int, list[tuple[Integers, Integers, Integers]]],
    ) -> None:
        """Read the parts of what is left of messages with very many fields; their numbers were read before."""
        for row, begin, stop in zip(rows.tolist(), at.tolist(), end.tolist(), strict=True):
            fields = self.split(begin, stop)
            for number, kind in wanted.items():
                begins, ends = fields.of(number)
                if kind is Kind.PART and len(begins):
                    present[number][row] = True
                    parts[number].append((np.full(len(begins), row), begins, ends))

    def _varints(self, at: Integers) -> tuple[Integers, Integers]:
        """Varints as int64, and where each ends."""
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


def _joined(pieces: list[Messages]) -> Messages:
    """Messages of one type that follow each other; the pieces are used up, column by column."""
    firsts = np.cumsum([0, *(piece.count for piece in pieces)]).tolist()
    first = pieces[0]
    values = {number: np.concatenate([piece._values.pop(number) for piece in pieces]) for number in list(first._values)}
    present = {
        number: np.concatenate([piece._present.pop(number) for piece in pieces]) for number in list(first._present)
    }
    parts: dict[int, Parts] = {}
    for number in {number for piece in pieces for number in piece._parts}:
        found = [
            (one.owner + before, one.begin, one.end)
            for piece, before in zip(pieces, firsts, strict=False)
            if (one := piece._parts.pop(number, None)) is not None
        ]
        owner, begin, end = zip(*found, strict=True)
        parts[number] = Parts(np.concatenate(owner), np.concatenate(begin), np.concatenate(end))
    return Messages(firsts[-1], values, present, parts)


def _in_order(found: Sequence[tuple[Integers, Integers, Integers]]) -> Parts:
    """Parts by their owners, those of one in the order of the input."""
    if not found:
        return _NO_PARTS
    owner, begin, end = (np.concatenate([one[position] for one in found]) for position in range(3))
    order = np.lexsort((begin, owner))
    return Parts(owner[order], begin[order], end[order])
