"""Decodes the arguments of the events of one category to columns.

In the layout of PyTorch, the arguments of most events differ only in numbers at their beginning and one at their end
(`ArgsPattern`). Those numbers are parsed as arrays; each distinct text between them, the middle, is parsed once.
"""

from __future__ import annotations

import json
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
from tui.loaders.chrome_trace.untyped_events import ArgColumnBuilder, to_float, to_integer, value_dtype
from tui.loaders.digits import NULL, leading_digits, trailing_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.chrome_trace.torch_layout import Args

    Ints = npt.NDArray[np.int64]


CLOSES: Final = b"\n    }"
"""The end of the arguments of an event."""

_MAX_NUMBERS: Final = 8
_MAX_DIGITS: Final = 15
_MIN_TAIL_BYTES: Final = 12
"""The minimum number of bytes from the first digit of a number to the end of its event."""
_MIN_MATCHES: Final = 500
"""Lookups before the rate of repeated middles is judged."""
_ENTRY_BYTES: Final = 200
"""The memory of a dictionary entry without its text."""
_KEY: Final = rb'"([^"\\\x00-\x1f\x80-\xff]*)"\s*:\s*'
_FIRST_NUMBER_KEY: Final = re.compile(rb"\{\s*" + _KEY + rb"(?=\d)")
_NEXT_NUMBER_KEY: Final = re.compile(rb"\s*,\s*" + _KEY + rb"(?=\d)")
_NUMBER: Final = re.compile(rb"(?:0|[1-9]\d{0,%d})(?=\s*[,}])" % (_MAX_DIGITS - 1))
_LAST_NUMBER_KEY: Final = re.compile(rb"(,\s*" + _KEY + rb")(?:0|[1-9]\d{0,%d})" % (_MAX_DIGITS - 1) + CLOSES)
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
        position = self.positions.get(key.decode().lower())
        return None if position is None else position[0]

    def can_be_number(self, key: bytes) -> bool:
        """Return whether the value of a key is wanted as an integer, or not at all."""
        column = self.column(key)
        return column is None or self.args[column].kind is ArgKind.INTEGER


class ArgsPattern:
    """The fixed text of arguments that differ only in numbers and in the middle."""

    def __init__(
        self,
        keys: WantedKeys,
        middle_texts: TextCodes,
        prefixes: Sequence[bytes],
        suffix: bytes,
        columns: Sequence[int | None],
    ):
        self._prefixes = prefixes
        """The text before each number at the beginning."""
        self._suffix = suffix
        """The text before the number at the end; empty if there is none."""
        self._columns = columns
        """The column of each number, or None."""
        self._middles = _MiddleCodes(keys, middle_texts, frozenset(column for column in columns if column is not None))

    @classmethod
    def from_args(cls, text: bytes, keys: WantedKeys, middle_texts: TextCodes) -> ArgsPattern | None:
        """Return the pattern of some arguments; None if it is unlikely to match others."""
        prefixes: list[bytes] = []
        columns: list[int | None] = []
        position = 0
        while len(prefixes) < _MAX_NUMBERS and (
            key := (_NEXT_NUMBER_KEY if prefixes else _FIRST_NUMBER_KEY).match(text, position)
        ):
            number = _NUMBER.match(text, key.end())
            if number is None or not keys.can_be_number(key[1]):
                break
            prefixes.append(key[0])
            columns.append(keys.column(key[1]))
            position = number.end()
        comma = text.rfind(b",")
        final_number = _LAST_NUMBER_KEY.fullmatch(text, comma) if comma >= position else None
        if final_number is not None and keys.can_be_number(final_number[2]):
            columns.append(keys.column(final_number[2]))
        used_columns = [column for column in columns if column is not None]
        if not prefixes or len(set(used_columns)) < len(used_columns) or not text.endswith(CLOSES):
            return None
        return cls(
            keys,
            middle_texts,
            prefixes,
            final_number[1] if len(columns) > len(prefixes) and final_number else b"",
            columns,
        )

    @property
    def repeats(self) -> bool:
        """Whether middles repeat often enough to save time."""
        return self._middles.lookups < _MIN_MATCHES or 2 * len(self._middles) < self._middles.lookups

    def match(self, args: Args) -> PatternMatch | None:
        """Return the arguments that match; None if none do."""
        text = args.text
        indices = np.arange(len(args.begins))
        position = args.begins
        numbers: list[Ints] = []
        for prefix in self._prefixes:
            is_match = matches_at(text, position, prefix)
            position = np.minimum(position + len(prefix), len(text) - _MIN_TAIL_BYTES)
            number, digits = leading_digits(text, position)
            is_match &= is_number(text, position, digits)
            position = position + digits
            numbers.append(number)
            if not is_match.all():
                indices, position, numbers = (
                    indices[is_match],
                    position[is_match],
                    [number[is_match] for number in numbers],
                )
                if not len(indices):
                    return None
        end = args.ends[indices] - len(CLOSES)
        next_byte = text[position]
        is_match = (next_byte == _COMMA) | (next_byte == _SPACE) | (next_byte == _NEWLINE)
        if self._suffix:
            number, digits = trailing_digits(text, end)
            end = end - digits - len(self._suffix)
            is_match &= is_number(text, end + len(self._suffix), digits) & matches_at(text, end, self._suffix)
            numbers.append(number)
        is_match &= position <= end
        if not is_match.any():
            return None
        return PatternMatch(
            indices[is_match], [number[is_match] for number in numbers], position[is_match], end[is_match]
        )

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
        values_ = [
            ArgValues(column, rows, number)
            for column, number in zip(self._columns, match.numbers, strict=True)
            if column is not None
        ]
        return values_ + self._middles.columns(data, match.begins, match.ends, rows, texts)


@dataclass(slots=True)
class PatternMatch:
    """The arguments that match a pattern."""

    indices: Ints
    """Their indices."""
    numbers: list[Ints]
    begins: Ints
    """The begin and end of each middle."""
    ends: Ints


class _MiddleCodes(dict[bytes, int]):
    """Assigns codes to distinct middles; each is parsed once."""

    def __init__(self, keys: WantedKeys, middle_texts: TextCodes, number_columns: frozenset[int]) -> None:
        super().__init__()
        self.lookups = 0
        """The number of lookups."""
        self.size_bytes = 0
        self._keys = keys
        self._text_codes = middle_texts
        self._number_columns = number_columns
        self._values: dict[int, list[Any]] = {}
        """By column: the value in each middle; texts as codes of ``middle_texts``."""
        self._arrays: dict[int, npt.NDArray[Any]] = {}

    def __missing__(self, middle: bytes) -> int:
        members = _MEMBERS.decode(b'{"":0%s}' % middle)
        middle.decode()
        if len(middle) > LONGEST_TEXT or not b",".startswith(middle.strip()[:1]):
            raise NotProvenError
        raw_values = self._wanted_values(members)
        if self._number_columns & raw_values.keys():
            raise NotProvenError
        for column in raw_values.keys() - self._values.keys():
            self._values[column] = [_PATTERN_NULLS[self._keys.args[column].kind]] * len(self)
        for column, values in self._values.items():
            kind = self._keys.args[column].kind
            values.append(self._convert(raw_values[column], kind) if column in raw_values else _PATTERN_NULLS[kind])
        self._arrays.clear()
        self.size_bytes += _ENTRY_BYTES + len(middle)
        self[middle] = code = len(self)
        return code

    def columns(self, data: bytes, begins: Ints, ends: Ints, rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values of rows whose middles are at positions of ``data``."""
        if (begins == ends).all():
            codes = np.full(len(rows), self[b""], np.int64)
        else:
            self.lookups += len(rows)
            codes = np.fromiter(map(self.__getitem__, text_slices(data, begins, ends)), np.int64, len(rows))
        arg_values = []
        for column in self._values:
            kind = self._keys.args[column].kind
            if column not in self._arrays:
                self._arrays[column] = np.array(self._values[column], value_dtype(kind))
            values = self._arrays[column][codes]
            has_value = ~np.isnan(values) if kind is ArgKind.NUMBER else values != _PATTERN_NULLS[kind]
            if has_value.any():
                values = values[has_value]
                arg_values.append(
                    ArgValues(column, rows[has_value], self._batch_codes(values, texts) if kind in _TEXTS else values)
                )
        return arg_values

    def _batch_codes(self, codes: npt.NDArray[np.int32], texts: TextCodes) -> npt.NDArray[np.int32]:
        used_codes = np.flatnonzero(np.bincount(codes))
        batch_code_of = np.empty(len(self._text_codes.all_texts), np.int32)
        batch_code_of[used_codes] = [texts[self._text_codes.all_texts[code]] for code in used_codes.tolist()]
        return batch_code_of[codes]

    def _wanted_values(self, members: Mapping[str, Raw]) -> dict[int, Raw]:
        """Return the value of each wanted column: that of the first of its keys."""
        best: dict[int, tuple[int, Raw]] = {}
        for key, value in members.items():
            if (location := self._keys.positions.get(key.lower())) is not None and bytes(value) != b"null":
                column, position = location
                if column not in best or position < best[column][0]:
                    best[column] = (position, value)
        return {column: value for column, (_, value) in best.items()}

    def _convert(self, raw: Raw, kind: ArgKind) -> int | float:
        if kind in _TEXTS:
            return self._text_codes[bytes(raw)]
        value = msgspec.json.decode(raw)
        return to_integer(value) if kind is ArgKind.INTEGER else to_float(value)


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

_RAW_DECODER: Final = msgspec.json.Decoder(Raw)
_UNTYPED_DECODER: Final = msgspec.json.Decoder(dict[str, Raw])


class ArgsDecoder:
    """Decodes the arguments of the events of one category, which usually have the same keys.

    It decodes them with msgspec into a structure of the keys seen until now. If a key or the type of a value is new,
    the arguments are decoded one by one, and the structure is extended.
    """

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = args
        self._keys = WantedKeys(args)
        self._positions = self._keys.positions
        self._patterns: list[ArgsPattern] = []
        self._middle_texts = TextCodes()
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
        values: list[ArgValues] = []
        if sum(pattern.size_bytes for pattern in self._patterns) > _MAX_KNOWN_BYTES:
            self._patterns, self._middle_texts = [], TextCodes()
        for pattern in self._patterns:
            if not len(rows):
                break
            args, rows = self._decode_matching(pattern, args, rows, texts, values)
        for _ in range(_MAX_NEW_PATTERNS):
            if len(rows) < _MIN_ROWS or len(self._patterns) == _MAX_PATTERNS:
                break
            new_pattern = ArgsPattern.from_args(
                args.data[args.begins[0] : args.ends[0]], self._keys, self._middle_texts
            )
            if new_pattern is None:
                break
            self._patterns.append(new_pattern)
            args, rows = self._decode_matching(new_pattern, args, rows, texts, values)
        return values + self.decode(args.slices(), rows, texts) if len(rows) else values

    @staticmethod
    def _decode_matching(
        pattern: ArgsPattern, args: Args, rows: Ints, texts: TextCodes, values: list[ArgValues]
    ) -> tuple[Args, Ints]:
        """Add the values of arguments that match a pattern to ``values``; return the others."""
        match = pattern.match(args) if pattern.repeats else None
        if match is None:
            return args, rows
        values += pattern.values(args.data, match, rows[match.indices], texts)
        is_unmatched = np.ones(len(rows), np.bool_)
        is_unmatched[match.indices] = False
        unmatched = np.flatnonzero(is_unmatched)
        return args.select(unmatched), rows[unmatched]

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
        if (values := self._decode_typed(raws, rows, texts)) is not None:
            return values
        decode_each(_RAW_DECODER, raws)
        # The types of the first few are used for the others, in ever larger slices.
        values, begin, count = [], 0, _SAMPLE
        while begin < len(raws):
            block = slice(begin, begin + count)
            typed = self._decode_typed(raws[block], rows[block], texts)
            values += self._decode_untyped(raws[block], rows[block], texts) if typed is None else typed
            begin, count = begin + count, 2 * count
        return values

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
        """Return the wanted values of decoded arguments; of several keys of a column, the first in its `Arg` counts."""
        spellings_by_column: dict[int, list[tuple[int, npt.NDArray[Any], npt.NDArray[np.bool_]]]] = {}
        columns = tuple(zip(*map(msgspec.structs.astuple, events), strict=True))
        for key, index in self._fields:
            column, position = self._positions[key.lower()]
            values = self._column(self._args[column].kind, self._types[key], columns[index], texts)
            has_value = ~np.isnan(values) if values.dtype.kind == "f" else values != _NULLS[values.dtype.itemsize]
            if has_value.any():
                spellings_by_column.setdefault(column, []).append((-position, values, has_value))
        arg_values = []
        for column, spellings in spellings_by_column.items():
            spellings.sort(key=lambda spelling: spelling[0])
            _, values, has_value = spellings[0]
            for _, preferred, has_preferred in spellings[1:]:
                values, has_value = np.where(has_preferred, preferred, values), has_value | has_preferred
            arg_values.append(
                ArgValues(column, rows, values)
                if has_value.all()
                else ArgValues(column, rows[has_value], values[has_value])
            )
        return arg_values

    @staticmethod
    def _column(kind: ArgKind, value_type: Any, values: Sequence[Any], texts: TextCodes) -> npt.NDArray[Any]:
        """Convert the values of one key, which were decoded as ``value_type``, to the type of its column."""
        if kind is ArgKind.INTEGER:
            return (
                _int_array(values) if value_type is int else np.array([to_integer(value) for value in values], np.int64)
            )
        if kind is ArgKind.NUMBER:
            return np.array(values if value_type is float else [to_float(value) for value in values], np.float64)
        return text_codes(map(bytes, values), texts, len(values))

    def _decode_untyped(self, raws: Sequence[Raw | bytes], rows: Ints, texts: TextCodes) -> list[ArgValues]:
        """Return the wanted values, decoded one by one; learn keys and types from them."""
        builder = ArgColumnBuilder(self._args, texts)
        types_before = dict(self._types)
        for row, raw in zip(rows.tolist(), raws, strict=True):
            try:
                args = _UNTYPED_DECODER.decode(raw)
            except (msgspec.ValidationError, RecursionError):  # not an object
                continue
            values = {}
            for key, value in args.items():
                location = self._positions.get(key.lower())
                if location is not None:
                    values[key] = self._value(key, value, self._args[location[0]].kind)
                elif len(self._types) <= _MAX_KEYS:
                    self._types.setdefault(key, Raw)
            builder.add(row, values)
        if self._types != types_before and self._relearned < _MAX_RELEARNED:
            self._relearned += 1
            self._decoder = self._new_decoder()
        elif self._relearned == _MAX_RELEARNED:
            self._decoder = None
        return builder.values()

    def _value(self, key: str, raw: Raw, kind: ArgKind) -> Any:
        """Return the value of a wanted argument; stores its type for the structure."""
        if kind in (ArgKind.TEXT, ArgKind.TRIPLE):
            self._types.setdefault(key, Raw)
            return bytes(raw)
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        is_expected = type(value) is int if kind is ArgKind.INTEGER else type(value) in (int, float)
        expected_type: Any = int if kind is ArgKind.INTEGER else float
        if not is_expected or self._types.setdefault(key, expected_type) is not expected_type:
            self._types[key] = Any
        return value

    def _new_decoder(self) -> msgspec.json.Decoder[Any] | None:
        """Return a decoder for the keys and types seen until now; None if there are too many, or one is unsuitable."""
        if len(self._types) > _MAX_KEYS:
            return None
        fields: list[tuple[str, Any, Any]] = []
        rename = {}
        self._fields = []
        for index, (key, value_type) in enumerate(self._types.items()):
            name = f"field_{index}"
            rename[name] = key
            fields.append((name, value_type, _DEFAULTS.get(value_type)))
            if key.lower() in self._positions:
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


def text_codes(values: Any, texts: TextCodes, count: int) -> npt.NDArray[np.int32]:
    """Return the codes of texts, numbers or bytes of JSON values."""
    return np.fromiter(map(texts.__getitem__, values), np.int32, count)


def parse_integers(values: Sequence[Any]) -> Ints:
    """Return whole numbers, also from text; `NULL` for other values."""
    if set(map(type, values)) <= {int}:
        return _int_array(values)
    return np.array([to_integer(value) for value in values], np.int64)


def _int_array(values: Sequence[int]) -> Ints:
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([to_integer(value) for value in values], np.int64)


def parse_triple(text: str | None) -> tuple[int, int, int]:
    """Return the three whole numbers of a JSON list of up to three; missing ones are 1.

    >>> parse_triple("[128]")
    (128, 1, 1)
    """
    nulls = (NULL, NULL, NULL)
    if text is None:
        return nulls
    try:
        values = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return nulls
    if not isinstance(values, list) or not 1 <= len(values) <= 3:
        return nulls
    if not all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 for value in values):
        return nulls
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
