"""A part of a trace's events as columns: what decoding gives, in this process or another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tui.loaders.chrome.tally import Found, Odd, Tally
from tui.loaders.chrome.times import NULL, ns_of
from tui.loaders.chrome.trace import Arg, ArgKind

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.int32]

NO_TEXT: Final = -1
"""The code of null."""
LONGEST_TEXT: Final = 1 << 16
"""Characters; of a longer text only so much is read."""
LONGEST_DURATION_NS: Final = 7 * 24 * 3600 * 10**9
INSTANT: Final = frozenset("iIRn")
FLOW: Final = frozenset("stf")


@dataclass(slots=True)
class Values:
    """What some events have of an argument."""

    column: int
    """Which of the wanted arguments."""
    rows: Ints
    """The events, as rows of `Rows`."""
    values: npt.NDArray[Any]
    """Int64 (`NULL` for null), Float64 (NaN for null), or codes of texts."""


@dataclass(slots=True)
class Rows:
    """Events of one kind, in the order of the file."""

    cat: Codes
    name: Codes
    pid: Codes
    tid: Codes
    start_ns: Ints
    """Absolute."""
    duration_ns: Ints | None
    """None of instants and flows."""
    line: Ints | None
    """From 1 within the part; None where it is not known."""
    args: list[Values] = field(default_factory=list)
    phase: Codes | None = None
    """Of flows."""
    number: Ints | None = None
    """The id of flows."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def only(self, keep: npt.NDArray[np.bool_]) -> Rows:
        """The rows for which ``keep`` is true."""
        if keep.all():
            return self
        place = np.cumsum(keep) - 1

        def kept(column: npt.NDArray[Any] | None) -> Any:
            return None if column is None else column[keep]

        args = [Values(one.column, place[one.rows[keep[one.rows]]], one.values[keep[one.rows]]) for one in self.args]
        return Rows(
            cat=kept(self.cat),
            name=kept(self.name),
            pid=kept(self.pid),
            tid=kept(self.tid),
            start_ns=kept(self.start_ns),
            duration_ns=kept(self.duration_ns),
            line=kept(self.line),
            args=args,
            phase=kept(self.phase),
            number=kept(self.number),
        )


@dataclass(slots=True)
class Piece:
    """The events of a part of a file."""

    texts: list[str]
    """What codes mean."""
    complete: Rows
    instants: Rows
    flows: Rows
    names: list[tuple[str | None, str | None, str, str]]
    """pid, tid, what is named, the name."""
    odd: Mapping[Odd, Found]
    """Lines count from 1 within the part."""
    events: int
    """How many there are, with those that are left out."""
    newlines: int = 0
    """In the text of the part."""


class Texts(dict[object, int]):
    """Numbers the distinct texts: of a text, a number, or the bytes of a JSON value it gives the code."""

    def __init__(self) -> None:
        super().__init__({None: NO_TEXT, b"": NO_TEXT, b"null": NO_TEXT})
        self.all: list[str] = []
        """The texts by their codes."""
        self.cut = 0
        """How many were too long."""
        self.not_utf8 = 0
        """How many of the bytes of JSON values were no UTF-8."""
        self._code: dict[str, int] = {}

    def __missing__(self, value: object) -> int:
        text = self._json_of(value) if isinstance(value, bytes) else _text(value)
        cut = text[:LONGEST_TEXT]
        self.cut += len(text) > LONGEST_TEXT
        # JSON can spell half a character, which no text can hold.
        clean = cut if cut.isascii() else cut.encode("utf-8", "replace").decode()
        code = self._code.setdefault(clean, len(self.all))
        if code == len(self.all):
            self.all.append(clean)
        if len(text) <= LONGEST_TEXT:
            self[value] = code
        return code

    def of(self, value: object) -> int:
        """The code of a text, or of the JSON of another value; `NO_TEXT` of null."""
        return self[value] if isinstance(value, str | bytes) or value is None else self[_text(value)]

    def _json_of(self, value: bytes) -> str:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            self.not_utf8 += 1
            text = value.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT and text[0] != '"':
            return text
        try:
            return _text(json.loads(text))
        except (ValueError, RecursionError):
            return text


def _text(value: object) -> str:
    """A text itself, of anything else its JSON; of 7.0 that of 7."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def piece_of(
    events: Sequence[Mapping[str, Any]], lines: Sequence[int] | None, args: Sequence[Arg], tally: Tally
) -> Piece:
    """Columns of events as Python objects: the slow way, for those that the fast one does not take."""
    texts = Texts()
    complete = Gathered(args, texts)
    instants = Gathered(args, texts)
    flows = Gathered((), texts)
    names: list[tuple[str | None, str | None, str, str]] = []
    for index, event in enumerate(events):
        line = None if lines is None else lines[index]
        phase = event.get("ph")
        if phase == "X":
            complete.add(event, line)
        elif phase == "M":
            names += names_of(event)
        elif isinstance(phase, str) and phase in INSTANT:
            instants.add(event, line)
        elif isinstance(phase, str) and phase in FLOW:
            flows.add(event, line)
        elif event:
            tally.add(Odd.PHASE, line=line, text=json.dumps(event.get("name")))
    piece = Piece(
        [],
        timed(complete.rows(with_duration=True), tally),
        timed(instants.rows(), tally),
        timed(flows.rows(is_flow=True), tally),
        names,
        tally.found,
        len(events),
    )
    tally.add(Odd.LONG_TEXT, texts.cut)
    piece.texts = texts.all
    return piece


def timed(rows: Rows, tally: Tally) -> Rows:
    """The rows whose times can be; the others are counted."""
    has_start = rows.start_ns != NULL
    count, line = _count_and_first(~has_start, rows)
    tally.add(Odd.NO_START, count, line=line)
    rows = rows.only(has_start)
    if rows.duration_ns is None:
        return rows
    has_duration = rows.duration_ns != NULL
    count, line = _count_and_first(~has_duration, rows)
    tally.add(Odd.NO_DURATION, count, line=line)
    fits = (rows.duration_ns >= 0) & (rows.duration_ns <= LONGEST_DURATION_NS)
    count, line = _count_and_first(has_duration & ~fits, rows)
    tally.add(Odd.BAD_DURATION, count, line=line)
    return rows.only(has_duration & fits)


def _count_and_first(bad: npt.NDArray[np.bool_], rows: Rows) -> tuple[int, int | None]:
    count = int(np.count_nonzero(bad))
    return count, int(rows.line[int(np.argmax(bad))]) if count and rows.line is not None else None


def names_of(event: Mapping[str, Any]) -> list[tuple[str | None, str | None, str, str]]:
    """What an event of phase M calls processes and threads: pid, tid, what is named, the name."""
    args, kind = event.get("args"), event.get("name")
    if not isinstance(args, dict) or not isinstance(kind, str):
        return []
    pid, tid = (None if event.get(key) is None else _short(event[key]) for key in ("pid", "tid"))
    return [(pid, tid, _short(kind), _short(value)) for value in args.values() if value is not None]


def _short(value: object) -> str:
    return _text(value)[:LONGEST_TEXT].encode("utf-8", "replace").decode()


class GatheredArgs:
    """Arguments that come event by event."""

    def __init__(self, args: Sequence[Arg], texts: Texts) -> None:
        self._args = args
        self._keys = {key: (column, place) for column, arg in enumerate(args) for place, key in enumerate(arg.keys)}
        self._texts = texts
        self._values: dict[int, tuple[list[int], list[Any]]] = {}

    def add(self, row: int, args: Mapping[str, Any]) -> None:
        """Take the arguments of the event in a row; texts may be the bytes of their JSON."""
        chosen: dict[int, tuple[int, Any]] = {}
        for key, value in args.items():
            found = self._keys.get(key.lower())
            if found is not None and value is not None:
                column, place = found
                if column not in chosen or place < chosen[column][0]:
                    chosen[column] = (place, value)
        for column, (_, value) in chosen.items():
            rows, values = self._values.setdefault(column, ([], []))
            rows.append(row)
            values.append(self._converted(value, self._args[column].kind))

    def values(self) -> list[Values]:
        """All that came."""
        return [
            Values(column, np.array(rows, np.int64), np.array(values, dtype_of(self._args[column].kind)))
            for column, (rows, values) in self._values.items()
        ]

    def _converted(self, value: Any, kind: ArgKind) -> int | float:
        if kind is ArgKind.INTEGER:
            return integer_of(value)
        if kind is ArgKind.NUMBER:
            return number_of(value)
        return self._texts.of(value)


class Gathered:
    """Columns that grow."""

    def __init__(self, args: Sequence[Arg], texts: Texts) -> None:
        self._args = GatheredArgs(args, texts)
        self._texts = texts
        self._codes: tuple[list[int], ...] = ([], [], [], [])
        self._starts: list[int] = []
        self._durations: list[int] = []
        self._lines: list[int] = []
        self._phases: list[int] = []
        self._numbers: list[int] = []

    def add(self, event: Mapping[str, Any], line: int | None) -> None:
        """Take the next event."""
        cat, name, pid, tid = self._codes
        cat.append(self._texts.of(event.get("cat")))
        name.append(self._texts.of(event.get("name")))
        pid.append(self._texts.of(event.get("pid")))
        tid.append(self._texts.of(event.get("tid")))
        self._starts.append(ns_of(event.get("ts")))
        self._durations.append(ns_of(event.get("dur")))
        self._phases.append(self._texts.of(event.get("ph")))
        self._numbers.append(integer_of(event.get("id")))
        if line is not None:
            self._lines.append(line)
        args = event.get("args")
        if isinstance(args, dict):
            self._args.add(len(self._starts) - 1, args)

    def rows(self, *, with_duration: bool = False, is_flow: bool = False) -> Rows:
        """All that came."""
        cat, name, pid, tid = (np.array(codes, np.int32) for codes in self._codes)
        return Rows(
            cat, name, pid, tid,
            np.array(self._starts, np.int64),
            np.array(self._durations, np.int64) if with_duration else None,
            np.array(self._lines, np.int64) if len(self._lines) == len(self._starts) else None,
            self._args.values(),
            np.array(self._phases, np.int32) if is_flow else None,
            np.array(self._numbers, np.int64) if is_flow else None,
        )  # fmt: skip


def dtype_of(kind: ArgKind) -> type[np.int64 | np.float64 | np.int32]:
    """What `Values` of a kind are."""
    if kind is ArgKind.INTEGER:
        return np.int64
    return np.float64 if kind is ArgKind.NUMBER else np.int32


def integer_of(value: object) -> int:
    """A whole number of 64 bits, also from its text; `NULL` where it is none.

    >>> integer_of("42"), integer_of(7.0), integer_of(7.5) == integer_of(2**64) == integer_of("x") == NULL
    (42, 7, True)
    """
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= 20 else None
        except ValueError:
            return NULL
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) < value < 1 << 63:
        return NULL
    return value


def number_of(value: object) -> float:
    """A number, also from its text; NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return float("nan")
    try:
        return float(value)
    except (ValueError, OverflowError):
        return float("nan")
