"""Decodes the arguments of the events of one category to columns.

In the layout of PyTorch, the arguments of most events differ only in numbers at their beginning and one at their end
(`ArgsPattern`). Those numbers are parsed as arrays; each distinct text between them, the middle, is parsed once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome_trace.event_batches import (
    LONGEST_TEXT,
    NO_TEXT,
    Arg,
    ArgKind,
    ArgValues,
    NotProvenError,
    TextCodes,
    decode_each,
)
from tui.loaders.chrome_trace.torch_layout import is_number, matches_at, text_slices
from tui.loaders.chrome_trace.untyped_events import ArgColumnBuilder, dtype_of, float_of, integer_of
from tui.loaders.digits import NULL, trailing_digits, leading_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.chrome_trace.torch_layout import Args

    Ints = npt.NDArray[np.int64]


CLOSES: Final = b"\n    }"
"""The end of the arguments of an event."""

_MAX_NUMBERS: Final = 8
_MAX_DIGITS: Final = 15
_ROOM: Final = 12
"""The minimum number of bytes from the first digit of a number to the end of its event."""
_MIN_MATCHES: Final = 500
"""Lookups before the rate of repeated middles is judged."""
_ENTRY_BYTES: Final = 200
"""The memory of a dictionary entry without its text."""
_KEY: Final = rb'"([^"\\\x00-\x1f\x80-\xff]*)"\s*:\s*'
_FIRST: Final = re.compile(rb"\{\s*" + _KEY + rb"(?=\d)")
_NEXT: Final = re.compile(rb"\s*,\s*" + _KEY + rb"(?=\d)")
_NUMBER: Final = re.compile(rb"(?:0|[1-9]\d{0,%d})(?=\s*[,}])" % (_MAX_DIGITS - 1))
_LAST: Final = re.compile(rb"(,\s*" + _KEY + rb")(?:0|[1-9]\d{0,%d})" % (_MAX_DIGITS - 1) + CLOSES)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_COMMA, _SPACE, _NEWLINE = b", \n"


class WantedKeys:
    """The wanted arguments by key."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self.args = args
        self.positions = {
            key: (column, position) for column, arg in enumerate(args) for position, key in enumerate(arg.keys)
        }
        """By key in lower case: column, and position among the keys of its `Arg`."""

    def column(self, key: bytes) -> int | None:
        """Return the column of an ASCII key; None if it is not wanted."""
        found = self.positions.get(key.decode().lower())
        return None if found is None else found[0]

    def can_be_number(self, key: bytes) -> bool:
        """Return whether the value of a key is wanted as an integer, or not at all."""
        column = self.column(key)
        return column is None or self.args[column].kind is ArgKind.INTEGER


class ArgsPattern:
    """The fixed text of arguments that differ only in numbers and in the middle."""

    def __init__(
        self, keys: WantedKeys, known: TextCodes, prefixes: Sequence[bytes], last: bytes, columns: Sequence[int | None]
    ):
        self._prefixes = prefixes
        """The text before each number at the beginning."""
        self._last = last
        """The text before the number at the end; empty if there is none."""
        self._columns = columns
        """The column of each number, or None."""
        self._middles = _MiddleCodes(keys, known, frozenset(column for column in columns if column is not None))

    @classmethod
    def of(cls, text: bytes, keys: WantedKeys, known: TextCodes) -> ArgsPattern | None:
        """Return the pattern of some arguments; None if it is unlikely to match others."""
        prefixes: list[bytes] = []
        columns: list[int | None] = []
        at = 0
        while len(prefixes) < _MAX_NUMBERS and (found := (_NEXT if prefixes else _FIRST).match(text, at)):
            number = _NUMBER.match(text, found.end())
            if number is None or not keys.can_be_number(found[1]):
                break
            prefixes.append(found[0])
            columns.append(keys.column(found[1]))
            at = number.end()
        comma = text.rfind(b",")
        last = _LAST.fullmatch(text, comma) if comma >= at else None
        if last is not None and keys.can_be_number(last[2]):
            columns.append(keys.column(last[2]))
        wanted = [column for column in columns if column is not None]
        if not prefixes or len(set(wanted)) < len(wanted) or not text.endswith(CLOSES):
            return None
        return cls(keys, known, prefixes, last[1] if len(columns) > len(prefixes) and last else b"", columns)

    @property
    def repeats(self) -> bool:
        """Whether middles repeat often enough to save time."""
        return self._middles.asked < _MIN_MATCHES or 2 * len(self._middles) < self._middles.asked

    def match(self, args: Args) -> PatternMatch | None:
        """Return the arguments that match; None if none do."""
        text = args.text
        at = np.arange(len(args.begins))
        position = args.begins
        numbers: list[Ints] = []
        for prefix in self._prefixes:
            good = matches_at(text, position, prefix)
            position = np.minimum(position + len(prefix), len(text) - _ROOM)
            number, digits = leading_digits(text, position)
            good &= is_number(text, position, digits)
            position = position + digits
            numbers.append(number)
            if not good.all():
                at, position, numbers = at[good], position[good], [number[good] for number in numbers]
                if not len(at):
                    return None
        end = args.ends[at] - len(CLOSES)
        after = text[position]
        good = (after == _COMMA) | (after == _SPACE) | (after == _NEWLINE)
        if self._last:
            number, digits = trailing_digits(text, end)
            end = end - digits - len(self._last)
            good &= is_number(text, end + len(self._last), digits) & matches_at(text, end, self._last)
            numbers.append(number)
        good &= position <= end
        if not good.any():
            return None
        return PatternMatch(at[good], [number[good] for number in numbers], position[good], end[good])

    @property
    def size_bytes(self) -> int:
        """The memory of the stored middles."""
        return self._middles.size_bytes

    def values(self, data: bytes, match: PatternMatch, rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values of matching arguments, which belong to ``rows``.

        Raises:
            msgspec.DecodeError: A middle is invalid JSON.
            UnicodeDecodeError: A middle is not UTF-8.
            RecursionError: A middle is nested too deep.
            NotProvenError: A middle has another structure than assumed.
        """
        found = [
            ArgValues(column, rows, number)
            for column, number in zip(self._columns, match.numbers, strict=True)
            if column is not None
        ]
        return found + self._middles.columns(data, match.begins, match.ends, rows, texts)


@dataclass(slots=True)
class PatternMatch:
    """The arguments that match a pattern."""

    at: Ints
    """Their indices."""
    numbers: list[Ints]
    begins: Ints
    """The begin and end of each middle."""
    ends: Ints


class _MiddleCodes(dict[bytes, int]):
    """Assigns codes to distinct middles; each is parsed once."""

    def __init__(self, keys: WantedKeys, known: TextCodes, taken: frozenset[int]) -> None:
        super().__init__()
        self.asked = 0
        """The number of lookups."""
        self.size_bytes = 0
        self._keys = keys
        self._known = known
        self._taken = taken
        self._values: dict[int, list[Any]] = {}
        """By column: the value in each middle; texts as codes of ``known``."""
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
            self._values[column] = [_PATTERN_NULLS[self._keys.args[column].kind]] * len(self)
        for column, values in self._values.items():
            kind = self._keys.args[column].kind
            values.append(self._convert(chosen[column], kind) if column in chosen else _PATTERN_NULLS[kind])
        self._arrays.clear()
        self.size_bytes += _ENTRY_BYTES + len(middle)
        self[middle] = code = len(self)
        return code

    def columns(self, data: bytes, begins: Ints, ends: Ints, rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values of rows whose middles are at positions of ``data``."""
        if (begins == ends).all():
            codes = np.full(len(rows), self[b""], np.int64)
        else:
            self.asked += len(rows)
            codes = np.fromiter(map(self.__getitem__, text_slices(data, begins, ends)), np.int64, len(rows))
        found = []
        for column in self._values:
            kind = self._keys.args[column].kind
            if column not in self._arrays:
                self._arrays[column] = np.array(self._values[column], dtype_of(kind))
            values = self._arrays[column][codes]
            has = ~np.isnan(values) if kind is ArgKind.NUMBER else values != _PATTERN_NULLS[kind]
            if has.any():
                values = values[has]
                found.append(ArgValues(column, rows[has], self._local(values, texts) if kind in _TEXTS else values))
        return found

    def _local(self, codes: npt.NDArray[np.int32], texts: TextCodes) -> npt.NDArray[np.int32]:
        used = np.flatnonzero(np.bincount(codes))
        position = np.empty(len(self._known.all), np.int32)
        position[used] = [texts[self._known.all[code]] for code in used.tolist()]
        return position[codes]

    def _chosen(self, members: Mapping[str, Raw]) -> dict[int, Raw]:
        """Return the value of each wanted column: that of the first of its keys."""
        best: dict[int, tuple[int, Raw]] = {}
        for key, value in members.items():
            if (found := self._keys.positions.get(key.lower())) is not None and bytes(value) != b"null":
                column, position = found
                if column not in best or position < best[column][0]:
                    best[column] = (position, value)
        return {column: value for column, (_, value) in best.items()}

    def _convert(self, raw: Raw, kind: ArgKind) -> int | float:
        if kind in _TEXTS:
            return self._known[bytes(raw)]
        value = msgspec.json.decode(raw)
        return integer_of(value) if kind is ArgKind.INTEGER else float_of(value)


_TEXTS: Final = (ArgKind.TEXT, ArgKind.TRIPLE)
_PATTERN_NULLS: Final = {
    ArgKind.INTEGER: NULL,
    ArgKind.NUMBER: float("nan"),
    ArgKind.TEXT: NO_TEXT,
    ArgKind.TRIPLE: NO_TEXT,
}


_MAX_KEYS: Final = 200
"""Distinct keys in a category; above it, arguments are decoded without types."""
_MAX_RELEARNED: Final = 50
"""How often the structure of a category may be replaced."""
_SAMPLE: Final = 100
"""Arguments that are decoded without types first, to learn the types."""
_MIN_ROWS: Final = 16
"""The minimum number of rows for which a pattern is made."""
_MAX_PATTERNS: Final = 24
_MAX_NEW_PATTERNS: Final = 4
"""Per text."""
_MAX_KNOWN_BYTES: Final = 16 << 20
_ABSENT: Final = Raw(b"")

_ANY: Final = msgspec.json.Decoder(Raw)
_UNTYPED: Final = msgspec.json.Decoder(dict[str, Raw])


class ArgsDecoder:
    """Decodes the arguments of the events of one category, which usually have the same keys.

    It decodes them with msgspec into a structure of the keys seen until now. If a key or the type of a value is new,
    the arguments are decoded one by one, and the structure is extended.
    """

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = args
        self._keys = WantedKeys(args)
        self._wanted = self._keys.positions
        self._patterns: list[ArgsPattern] = []
        self._known = TextCodes()
        """Codes of texts in the middles of all patterns."""
        self._types: dict[str, Any] = {}
        """The type of the value of each key seen."""
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._fields: list[tuple[str, int]] = []
        """The wanted keys with their field of the structure."""
        self._relearned = 0

    def decode_torch_layout(self, args: Args, rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values of arguments whose positions are known.

        Raises:
            As `decode`.
        """
        found: list[ArgValues] = []
        if sum(pattern.size_bytes for pattern in self._patterns) > _MAX_KNOWN_BYTES:
            self._patterns, self._known = [], TextCodes()
        for pattern in self._patterns:
            if not len(rows):
                break
            args, rows = self._decode_matching(pattern, args, rows, texts, found)
        for _ in range(_MAX_NEW_PATTERNS):
            if len(rows) < _MIN_ROWS or len(self._patterns) == _MAX_PATTERNS:
                break
            pattern_of_first = ArgsPattern.of(args.data[args.begins[0] : args.ends[0]], self._keys, self._known)
            if pattern_of_first is None:
                break
            self._patterns.append(pattern_of_first)
            args, rows = self._decode_matching(pattern_of_first, args, rows, texts, found)
        return found + self.decode(args.slices(), rows, texts) if len(rows) else found

    @staticmethod
    def _decode_matching(
        pattern: ArgsPattern, args: Args, rows: Ints, texts: TextCodes, found: list[ArgValues]
    ) -> tuple[Args, Ints]:
        """Add the values of arguments that match a pattern to ``found``; return the others."""
        match = pattern.match(args) if pattern.repeats else None
        if match is None:
            return args, rows
        found += pattern.values(args.data, match, rows[match.at], texts)
        is_left = np.ones(len(rows), np.bool_)
        is_left[match.at] = False
        left = np.flatnonzero(is_left)
        return args.select(left), rows[left]

    def decode(self, raws: Sequence[Raw | bytes], rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values of arguments.

        Args:
            raws: The arguments of each row: texts in braces, or valid JSON values.
            rows: The rows of the events.
            texts: Assigns the codes of texts.

        Raises:
            msgspec.DecodeError: A text is invalid JSON.
            UnicodeDecodeError: A key is not UTF-8.
            RecursionError: A text is nested too deep.
            NotProvenError: A text is not exactly one value.
        """
        if (found := self._decode_typed(raws, rows, texts)) is not None:
            return found
        decode_each(_ANY, raws)
        # The types of the first few are used for the others, in ever larger slices.
        found, begin, count = [], 0, _SAMPLE
        while begin < len(raws):
            piece = slice(begin, begin + count)
            typed = self._decode_typed(raws[piece], rows[piece], texts)
            found += self._one_by_one(raws[piece], rows[piece], texts) if typed is None else typed
            begin, count = begin + count, 2 * count
        return found

    def _decode_typed(self, raws: Sequence[Raw | bytes], rows: Ints, texts: TextCodes) -> list[ArgValues] | None:
        """Return the wanted values, decoded with the types seen so far; None if the types do not match."""
        if self._decoder is None:
            return None
        try:
            events = decode_each(self._decoder, raws)
        except msgspec.ValidationError:
            return None
        return self._columns(events, rows, texts)

    def _columns(self, events: list[Any], rows: Ints, texts: TextCodes) -> list[ArgValues]:
        spellings_of: dict[int, list[tuple[int, npt.NDArray[Any], npt.NDArray[np.bool_]]]] = {}
        columns = tuple(zip(*map(msgspec.structs.astuple, events), strict=True))
        for key, index in self._fields:
            column, position = self._wanted[key.lower()]
            values = self._column(self._args[column].kind, self._types[key], columns[index], texts)
            has = ~np.isnan(values) if values.dtype.kind == "f" else values != _NULLS[values.dtype.itemsize]
            if has.any():
                spellings_of.setdefault(column, []).append((-position, values, has))
        found = []
        for column, spellings in spellings_of.items():
            spellings.sort(key=lambda spelling: spelling[0])
            _, values, has = spellings[0]
            for _, better, also in spellings[1:]:
                values, has = np.where(also, better, values), has | also
            found.append(ArgValues(column, rows, values) if has.all() else ArgValues(column, rows[has], values[has]))
        return found

    @staticmethod
    def _column(kind: ArgKind, of_type: Any, values: Sequence[Any], texts: TextCodes) -> npt.NDArray[Any]:
        if kind is ArgKind.INTEGER:
            return (
                _whole_numbers(values)
                if of_type is int
                else np.array([integer_of(value) for value in values], np.int64)
            )
        if kind is ArgKind.NUMBER:
            return np.array(values if of_type is float else [float_of(value) for value in values], np.float64)
        return codes_of(map(bytes, values), texts, len(values))

    def _one_by_one(self, raws: Sequence[Raw | bytes], rows: Ints, texts: TextCodes) -> list[ArgValues]:
        gathered = ArgColumnBuilder(self._args, texts)
        before = dict(self._types)
        for row, raw in zip(rows.tolist(), raws, strict=True):
            try:
                args = _UNTYPED.decode(raw)
            except (msgspec.ValidationError, RecursionError):  # not an object
                continue
            values = {}
            for key, value in args.items():
                found = self._wanted.get(key.lower())
                if found is not None:
                    values[key] = self._value(key, value, self._args[found[0]].kind)
                elif len(self._types) <= _MAX_KEYS:
                    self._types.setdefault(key, Raw)
            gathered.add(row, values)
        if self._types != before and self._relearned < _MAX_RELEARNED:
            self._relearned += 1
            self._decoder = self._new_decoder()
        elif self._relearned == _MAX_RELEARNED:
            self._decoder = None
        return gathered.values()

    def _value(self, key: str, raw: Raw, kind: ArgKind) -> Any:
        """Return the value of a wanted argument; stores its type for the structure."""
        if kind in (ArgKind.TEXT, ArgKind.TRIPLE):
            self._types.setdefault(key, Raw)
            return bytes(raw)
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        fits = type(value) is int if kind is ArgKind.INTEGER else type(value) in (int, float)
        wanted: Any = int if kind is ArgKind.INTEGER else float
        if not fits or self._types.setdefault(key, wanted) is not wanted:
            self._types[key] = Any
        return value

    def _new_decoder(self) -> msgspec.json.Decoder[Any] | None:
        if len(self._types) > _MAX_KEYS:
            return None
        fields: list[tuple[str, Any, Any]] = []
        rename = {}
        self._fields = []
        for index, (key, of_type) in enumerate(self._types.items()):
            name = f"field_{index}"
            rename[name] = key
            fields.append((name, of_type, _DEFAULTS.get(of_type)))
            if key.lower() in self._wanted:
                self._fields.append((key, index))
        try:
            struct = msgspec.defstruct("Args", fields, rename=rename, gc=False, forbid_unknown_fields=True)
        except ValueError:  # a key with characters that must be escaped
            self._relearned = _MAX_RELEARNED
            return None
        return msgspec.json.Decoder(struct)


_DEFAULTS: Final[dict[Any, Any]] = {int: NULL, float: float("nan"), Raw: _ABSENT}
_NULLS: Final = {8: NULL, 4: NO_TEXT}
"""The null value by bytes per number."""


def codes_of(values: Any, texts: TextCodes, count: int) -> npt.NDArray[np.int32]:
    """Return the codes of texts, numbers or bytes of JSON values."""
    return np.fromiter(map(texts.__getitem__, values), np.int32, count)


def integers_of(values: Sequence[Any]) -> Ints:
    """Return whole numbers, also from text; `NULL` for other values."""
    if set(map(type, values)) <= {int}:
        return _whole_numbers(values)
    return np.array([integer_of(value) for value in values], np.int64)


def _whole_numbers(values: Sequence[int]) -> Ints:
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([integer_of(value) for value in values], np.int64)
