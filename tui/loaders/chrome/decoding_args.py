"""The arguments of events of one category to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome.event import each_of
from tui.loaders.chrome.gathering import GatheredArgs, integer_of, number_of
from tui.loaders.chrome.patterns import Keys, Pattern
from tui.loaders.chrome.pieces import NO_TEXT, Texts, Values
from tui.loaders.chrome.times import NULL
from tui.loaders.chrome.trace import Arg, ArgKind

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.chrome.lined import Args

    Ints = npt.NDArray[np.int64]

_MOST_KEYS: Final = 200
"""Arguments of a category; one with more is read without types."""
_MOST_LESSONS: Final = 50
"""How often the types of a category may turn out to be others."""
_LEAST_ROWS: Final = 16
"""Fewer are not worth a pattern."""
_MOST_PATTERNS: Final = 24
_MOST_NEW_PATTERNS: Final = 4
"""For each text."""
_MOST_KNOWN_BYTES: Final = 16 << 20
_ABSENT: Final = Raw(b"")

_ANY: Final = msgspec.json.Decoder(Raw)
_UNTYPED: Final = msgspec.json.Decoder(dict[str, Raw])


class ArgsDecoder:
    """Decodes the arguments of the events of one category, which have the same keys as a rule.

    It reads them into structures of the keys seen so far. Another key, or a value of another type, makes the structure
    refuse: then it learns, so that nothing is passed over that somebody wants.
    """

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = args
        self._keys = Keys(args)
        self._wanted = self._keys.places
        self._patterns: list[Pattern] = []
        self._known = Texts()
        """The texts of all patterns."""
        self._types: dict[str, Any] = {}
        """Every key seen."""
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._fields: list[tuple[str, int]] = []
        """The wanted keys, and which fields of the structure they are."""
        self._lessons = 0

    def decode_lined(self, args: Args, rows: Ints, texts: Texts) -> list[Values]:
        """What the events in these rows have of the wanted arguments, of which it is known where they lie.

        Raises:
            As `decode`.
        """
        found: list[Values] = []
        if sum(pattern.size_bytes for pattern in self._patterns) > _MOST_KNOWN_BYTES:
            self._patterns, self._known = [], Texts()
        for pattern in self._patterns:
            if not len(rows):
                break
            args, rows = self._by_pattern(pattern, args, rows, texts, found)
        for _ in range(_MOST_NEW_PATTERNS):
            if len(rows) < _LEAST_ROWS or len(self._patterns) == _MOST_PATTERNS:
                break
            pattern_of_first = Pattern.of(args.data[args.begins[0] : args.ends[0]], self._keys, self._known)
            if pattern_of_first is None:
                break
            self._patterns.append(pattern_of_first)
            args, rows = self._by_pattern(pattern_of_first, args, rows, texts, found)
        return found + self.decode(args.cut(), rows, texts) if len(rows) else found

    @staticmethod
    def _by_pattern(pattern: Pattern, args: Args, rows: Ints, texts: Texts, found: list[Values]) -> tuple[Args, Ints]:
        """Add what those have that follow a pattern; the others."""
        match = pattern.match(args) if pattern.repeats else None
        if match is None:
            return args, rows
        found += pattern.values(args.data, match, rows[match.at], texts)
        is_left = np.ones(len(rows), np.bool_)
        is_left[match.at] = False
        left = np.flatnonzero(is_left)
        return args.of(left), rows[left]

    def decode(self, raws: Sequence[Raw | bytes], rows: Ints, texts: Texts) -> list[Values]:
        """What the events in these rows have of the wanted arguments.

        Args:
            raws: Texts that begin and end with a brace, or any JSON values that have been found to be some.
            rows: As many.
            texts: Gets the codes of texts.

        Raises:
            msgspec.DecodeError: A text is no JSON.
            UnicodeDecodeError: A key is not UTF-8.
            RecursionError: One is nested too deep.
            NotProvenError: The texts are not one value each.
        """
        if self._decoder is not None:
            try:
                events = each_of(self._decoder, raws)
            except msgspec.ValidationError:
                pass
            else:
                return self._columns(events, rows, texts)
        each_of(_ANY, raws)
        return self._one_by_one(raws, rows, texts)

    def _columns(self, events: list[Any], rows: Ints, texts: Texts) -> list[Values]:
        spelt: dict[int, list[tuple[int, npt.NDArray[Any], npt.NDArray[np.bool_]]]] = {}
        columns = tuple(zip(*map(msgspec.structs.astuple, events), strict=True))
        for key, index in self._fields:
            column, place = self._wanted[key.lower()]
            values = self._column(self._args[column].kind, self._types[key], columns[index], texts)
            has = ~np.isnan(values) if values.dtype.kind == "f" else values != _NULLS[values.dtype.itemsize]
            if has.any():
                spelt.setdefault(column, []).append((-place, values, has))
        found = []
        for column, spellings in spelt.items():
            spellings.sort(key=lambda one: one[0])
            _, values, has = spellings[0]
            for _, better, also in spellings[1:]:
                values, has = np.where(also, better, values), has | also
            found.append(Values(column, rows, values) if has.all() else Values(column, rows[has], values[has]))
        return found

    @staticmethod
    def _column(kind: ArgKind, of_type: Any, values: Sequence[Any], texts: Texts) -> npt.NDArray[Any]:
        if kind is ArgKind.INTEGER:
            return _whole_numbers(values) if of_type is int else np.array([integer_of(one) for one in values], np.int64)
        if kind is ArgKind.NUMBER:
            return np.array(values if of_type is float else [number_of(one) for one in values], np.float64)
        return codes_of(map(bytes, values), texts, len(values))

    def _one_by_one(self, raws: Sequence[Raw | bytes], rows: Ints, texts: Texts) -> list[Values]:
        gathered = GatheredArgs(self._args, texts)
        before = dict(self._types)
        for row, raw in zip(rows.tolist(), raws, strict=True):
            try:
                args = _UNTYPED.decode(raw)
            except (msgspec.ValidationError, RecursionError):  # no object
                continue
            values = {}
            for key, value in args.items():
                found = self._wanted.get(key.lower())
                if found is not None:
                    values[key] = self._value(key, value, self._args[found[0]].kind)
                elif len(self._types) <= _MOST_KEYS:
                    self._types.setdefault(key, Raw)
            gathered.add(row, values)
        if self._types != before and self._lessons < _MOST_LESSONS:
            self._lessons += 1
            self._decoder = self._new_decoder()
        elif self._lessons == _MOST_LESSONS:
            self._decoder = None
        return gathered.values()

    def _value(self, key: str, raw: Raw, kind: ArgKind) -> Any:
        """The value of a wanted argument, whose type is noted."""
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
        if len(self._types) > _MOST_KEYS:
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
        except ValueError:  # a key that must be escaped
            self._lessons = _MOST_LESSONS
            return None
        return msgspec.json.Decoder(struct)


_DEFAULTS: Final[dict[Any, Any]] = {int: NULL, float: float("nan"), Raw: _ABSENT}
_NULLS: Final = {8: NULL, 4: NO_TEXT}
"""What is null among numbers of so many bytes."""


def codes_of(values: Any, texts: Texts, count: int) -> npt.NDArray[np.int32]:
    """The codes of texts, of numbers or of the bytes of JSON values."""
    return np.fromiter(map(texts.__getitem__, values), np.int32, count)


def integers_of(values: Sequence[Any]) -> Ints:
    """Whole numbers, also from texts; `NULL` where one is none."""
    if set(map(type, values)) <= {int}:
        return _whole_numbers(values)
    return np.array([integer_of(one) for one in values], np.int64)


def _whole_numbers(values: Sequence[int]) -> Ints:
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([integer_of(one) for one in values], np.int64)
