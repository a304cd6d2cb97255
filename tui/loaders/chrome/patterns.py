"""Arguments that differ in numbers alone: those are read by numpy, and what stands between them is parsed once.

    {"External id": 66052,"Record function id": 0, "Input Dims": [[1024, 32000]], "Ev Idx": 3}

The numbers at the beginning and the one at the end change from event to event; the middle is one of a few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome.event import NotProvenError
from tui.loaders.chrome.gathering import dtype_of, integer_of, number_of
from tui.loaders.chrome.lined_text import cut, is_number, stands
from tui.loaders.chrome.pieces import LONGEST_TEXT, NO_TEXT, Texts, Values
from tui.loaders.chrome.times import NULL
from tui.loaders.chrome.trace import Arg, ArgKind
from tui.loaders.digits import final_digits, first_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.chrome.lined import Args

    Ints = npt.NDArray[np.int64]

CLOSES: Final = b"\n    }"
"""How arguments end."""

_MOST_NUMBERS: Final = 8
_MOST_DIGITS: Final = 15
_ROOM: Final = 12
"""Bytes that follow the beginning of any number: a digit, and what closes its event."""
_LEAST_ROWS: Final = 500
"""Of fewer it is not asked whether their middles repeat."""
_ENTRY_BYTES: Final = 200
"""What one takes beside its text."""
_KEY: Final = rb'"([^"\\\x00-\x1f\x80-\xff]*)"\s*:\s*'
_FIRST: Final = re.compile(rb"\{\s*" + _KEY + rb"(?=\d)")
_NEXT: Final = re.compile(rb"\s*,\s*" + _KEY + rb"(?=\d)")
_NUMBER: Final = re.compile(rb"(?:0|[1-9]\d{0,%d})(?=\s*[,}])" % (_MOST_DIGITS - 1))
_LAST: Final = re.compile(rb"(,\s*" + _KEY + rb")(?:0|[1-9]\d{0,%d})" % (_MOST_DIGITS - 1) + CLOSES)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_COMMA, _SPACE, _NEWLINE = b", \n"


class Keys:
    """Which arguments are wanted, by their keys."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self.args = args
        self.places = {key: (column, place) for column, arg in enumerate(args) for place, key in enumerate(arg.keys)}
        """Column and place among its spellings, by the key in lower case."""

    def column(self, key: bytes) -> int | None:
        """The column of a key of ASCII, if it is wanted."""
        found = self.places.get(key.decode().lower())
        return None if found is None else found[0]

    def may_be_number(self, key: bytes) -> bool:
        """Whether a whole number is all that is wanted of a key, or nothing."""
        column = self.column(key)
        return column is None or self.args[column].kind is ArgKind.INTEGER


class Pattern:
    """One way in which arguments are written."""

    def __init__(self, keys: Keys, known: Texts, heads: Sequence[bytes], last: bytes, columns: Sequence[int | None]):
        self._heads = heads
        """What stands before each of the numbers at the beginning."""
        self._last = last
        """What stands before the number at the end; empty where none is there."""
        self._columns = columns
        """Of each number."""
        self._middles = _Middles(keys, known, frozenset(column for column in columns if column is not None))

    @classmethod
    def of(cls, text: bytes, keys: Keys, known: Texts) -> Pattern | None:
        """The way in which some arguments are written, if it is one that may repeat."""
        heads: list[bytes] = []
        columns: list[int | None] = []
        at = 0
        while len(heads) < _MOST_NUMBERS and (found := (_NEXT if heads else _FIRST).match(text, at)):
            number = _NUMBER.match(text, found.end())
            if number is None or not keys.may_be_number(found[1]):
                break
            heads.append(found[0])
            columns.append(keys.column(found[1]))
            at = number.end()
        comma = text.rfind(b",")
        last = _LAST.fullmatch(text, comma) if comma >= at else None
        if last is not None and keys.may_be_number(last[2]):
            columns.append(keys.column(last[2]))
        wanted = [column for column in columns if column is not None]
        if not heads or len(set(wanted)) < len(wanted) or not text.endswith(CLOSES):
            return None
        return cls(keys, known, heads, last[1] if len(columns) > len(heads) and last else b"", columns)

    @property
    def repeats(self) -> bool:
        """Whether it has been worth the while."""
        return self._middles.asked < _LEAST_ROWS or 2 * len(self._middles) < self._middles.asked

    def match(self, args: Args) -> Match | None:
        """Which arguments are written so; None if none are."""
        text = args.text
        at = np.arange(len(args.begins))
        place = args.begins
        numbers: list[Ints] = []
        for head in self._heads:
            good = stands(text, place, head)
            place = np.minimum(place + len(head), len(text) - _ROOM)
            number, digits = first_digits(text, place)
            good &= is_number(text, place, digits)
            place = place + digits
            numbers.append(number)
            if not good.all():
                at, place, numbers = at[good], place[good], [one[good] for one in numbers]
                if not len(at):
                    return None
        end = args.ends[at] - len(CLOSES)
        after = text[place]
        good = (after == _COMMA) | (after == _SPACE) | (after == _NEWLINE)
        if self._last:
            number, digits = final_digits(text, end)
            end = end - digits - len(self._last)
            good &= is_number(text, end + len(self._last), digits) & stands(text, end, self._last)
            numbers.append(number)
        good &= place <= end
        if not good.any():
            return None
        return Match(at[good], [one[good] for one in numbers], place[good], end[good])

    @property
    def size_bytes(self) -> int:
        """Of what it remembers."""
        return self._middles.size_bytes

    def values(self, data: bytes, match: Match, rows: Ints, texts: Texts) -> list[Values]:
        """What the matching arguments, which are those of these rows, have of what is wanted.

        Raises:
            msgspec.DecodeError: A middle is no JSON.
            UnicodeDecodeError: A middle is not UTF-8.
            RecursionError: A middle is nested too deep.
            NotProvenError: A middle is not what it seems.
        """
        found = [
            Values(column, rows, number)
            for column, number in zip(self._columns, match.numbers, strict=True)
            if column is not None
        ]
        return found + self._middles.columns(data, match.begins, match.ends, rows, texts)


@dataclass(slots=True)
class Match:
    """Arguments that follow a pattern."""

    at: Ints
    """Which they are."""
    numbers: list[Ints]
    begins: Ints
    """Where the middle of each begins and ends."""
    ends: Ints


class _Middles(dict[bytes, int]):
    """Numbers the distinct middles, each of which is parsed once."""

    def __init__(self, keys: Keys, known: Texts, taken: frozenset[int]) -> None:
        super().__init__()
        self.asked = 0
        """Of how many arguments the middle was looked up."""
        self.size_bytes = 0
        self._keys = keys
        self._known = known
        self._taken = taken
        self._values: dict[int, list[Any]] = {}
        """What each middle has of a column; codes of texts are those of ``known``."""
        self._arrays: dict[int, npt.NDArray[Any]] = {}

    def __missing__(self, middle: bytes) -> int:
        members = _MEMBERS.decode(b'{"":0%s}' % middle)
        middle.decode()
        if len(middle) > LONGEST_TEXT or not b",".startswith(middle.strip()[:1]):
            raise NotProvenError
        chosen = self._chosen(members)
        if self._taken & chosen.keys():
            raise NotProvenError
        for column in chosen.keys() - self._values.keys():
            self._values[column] = [_NULLS[self._keys.args[column].kind]] * len(self)
        for column, values in self._values.items():
            kind = self._keys.args[column].kind
            values.append(self._converted(chosen[column], kind) if column in chosen else _NULLS[kind])
        self._arrays.clear()
        self.size_bytes += _ENTRY_BYTES + len(middle)
        self[middle] = code = len(self)
        return code

    def columns(self, data: bytes, begins: Ints, ends: Ints, rows: Ints, texts: Texts) -> list[Values]:
        """What the arguments of these rows have, whose middles lie between places of a text."""
        if (begins == ends).all():
            codes = np.full(len(rows), self[b""], np.int64)
        else:
            self.asked += len(rows)
            codes = np.fromiter(map(self.__getitem__, cut(data, begins, ends)), np.int64, len(rows))
        found = []
        for column in self._values:
            kind = self._keys.args[column].kind
            if column not in self._arrays:
                self._arrays[column] = np.array(self._values[column], dtype_of(kind))
            values = self._arrays[column][codes]
            has = ~np.isnan(values) if kind is ArgKind.NUMBER else values != _NULLS[kind]
            if has.any():
                values = values[has]
                found.append(Values(column, rows[has], self._local(values, texts) if kind in _TEXTS else values))
        return found

    def _local(self, codes: npt.NDArray[np.int32], texts: Texts) -> npt.NDArray[np.int32]:
        used = np.flatnonzero(np.bincount(codes))
        place = np.empty(len(self._known.all), np.int32)
        place[used] = [texts[self._known.all[code]] for code in used.tolist()]
        return place[codes]

    def _chosen(self, members: Mapping[str, Raw]) -> dict[int, Raw]:
        """Of each wanted column the value whose key comes first among its spellings."""
        best: dict[int, tuple[int, Raw]] = {}
        for key, value in members.items():
            if (found := self._keys.places.get(key.lower())) is not None and bytes(value) != b"null":
                column, place = found
                if column not in best or place < best[column][0]:
                    best[column] = (place, value)
        return {column: value for column, (_, value) in best.items()}

    def _converted(self, raw: Raw, kind: ArgKind) -> int | float:
        if kind in _TEXTS:
            return self._known[bytes(raw)]
        value = msgspec.json.decode(raw)
        return integer_of(value) if kind is ArgKind.INTEGER else number_of(value)


_TEXTS: Final = (ArgKind.TEXT, ArgKind.TRIPLE)
_NULLS: Final = {
    ArgKind.INTEGER: NULL,
    ArgKind.NUMBER: float("nan"),
    ArgKind.TEXT: NO_TEXT,
    ArgKind.TRIPLE: NO_TEXT,
}
