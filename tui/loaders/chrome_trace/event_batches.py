"""An event as msgspec decodes it, batches of events as columns, and the trace that a loader gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome_trace.anomalies import Anomalies, Anomaly, Found
from tui.loaders.chrome_trace.microseconds import NULL

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from tui.loaders.input_issues import Note

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
    """The events, as rows of `EventRows`."""
    values: npt.NDArray[Any]
    """Int64 (`NULL` for null), Float64 (NaN for null), or codes of texts."""


@dataclass(slots=True)
class EventRows:
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

    def only(self, keep: npt.NDArray[np.bool_]) -> EventRows:
        """The rows for which ``keep`` is true."""
        if keep.all():
            return self
        place = np.cumsum(keep) - 1

        def kept(column: npt.NDArray[Any] | None) -> Any:
            return None if column is None else column[keep]

        args = [Values(one.column, place[one.rows[keep[one.rows]]], one.values[keep[one.rows]]) for one in self.args]
        return EventRows(
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


def merged(parts: Sequence[EventRows], places: Sequence[Ints]) -> EventRows:
    """Events of one kind in the order of their places, which no two share."""
    filled = [index for index, part in enumerate(parts) if len(part)]
    if len(filled) <= 1:
        return parts[filled[0] if filled else 0]
    order = np.argsort(np.concatenate(places), kind="stable")
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    ends = np.cumsum([len(part) for part in parts]).tolist()
    args = [
        Values(one.column, row[end - len(part) :][one.rows], one.values)
        for part, end in zip(parts, ends, strict=True)
        for one in part.args
    ]

    def whole(column: str) -> Any:
        columns = [getattr(part, column) for part in parts]
        return None if any(one is None for one in columns) else np.concatenate(columns)[order]

    cat, name, pid, tid, start_ns = map(whole, ("cat", "name", "pid", "tid", "start_ns"))
    duration_ns, line, phase, number = map(whole, ("duration_ns", "line", "phase", "number"))
    return EventRows(cat, name, pid, tid, start_ns, duration_ns, line, args, phase, number)


@dataclass(slots=True)
class EventBatch:
    """The events of a part of a file."""

    texts: list[str]
    """What codes mean."""
    complete: EventRows
    instants: EventRows
    flows: EventRows
    names: list[tuple[str | None, str | None, str, str]]
    """pid, tid, what is named, the name."""
    odd: Mapping[Anomaly, Found]
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
        text = self._json_of(value) if isinstance(value, bytes) else text_of(value)
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
        return self[value] if isinstance(value, str | bytes) or value is None else self[text_of(value)]

    def _json_of(self, value: bytes) -> str:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            self.not_utf8 += 1
            text = value.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT and text[0] != '"':
            return text
        try:
            return text_of(json.loads(text))
        except (ValueError, RecursionError):
            return text


def text_of(value: object) -> str:
    """A text itself, of anything else its JSON; of 7.0 that of 7, and of what is nested too deep an ellipsis."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # where this is called deeper in the stack than the parser was
        return "\N{HORIZONTAL ELLIPSIS}"


def timed(rows: EventRows, anomalies: Anomalies) -> EventRows:
    """The rows whose times can be; the others are counted."""
    has_start = rows.start_ns != NULL
    count, line = _count_and_first(~has_start, rows)
    anomalies.add(Anomaly.NO_START, count, line=line)
    rows = rows.only(has_start)
    if rows.duration_ns is None:
        return rows
    has_duration = rows.duration_ns != NULL
    count, line = _count_and_first(~has_duration, rows)
    anomalies.add(Anomaly.NO_DURATION, count, line=line)
    fits = (rows.duration_ns >= 0) & (rows.duration_ns <= LONGEST_DURATION_NS)
    count, line = _count_and_first(has_duration & ~fits, rows)
    anomalies.add(Anomaly.BAD_DURATION, count, line=line)
    return rows.only(has_duration & fits)


def _count_and_first(bad: npt.NDArray[np.bool_], rows: EventRows) -> tuple[int, int | None]:
    count = int(np.count_nonzero(bad))
    return count, int(rows.line[int(np.argmax(bad))]) if count and rows.line is not None else None


COMPLETE, INSTANT_EVENT, FLOW_EVENT, NAME, OTHER = range(5)
KIND: Final = {
    "X": COMPLETE,
    "M": NAME,
    **dict.fromkeys(INSTANT, INSTANT_EVENT),
    **dict.fromkeys(FLOW, FLOW_EVENT),
}
_T = TypeVar("_T")
_NO_ARGS: Final = Raw(b"{}")
_ABSENT: Final = Raw(b"")


class Event(msgspec.Struct, gc=False):
    """An event whose times a float can hold."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    id: int | float | str | None = None
    args: Raw = _NO_ARGS


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times as they are written: for those that a float cannot hold."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: Raw = _ABSENT
    dur: Raw = _ABSENT
    id: int | float | str | None = None
    args: Raw = _NO_ARGS


class NotProvenError(Exception):
    """Texts are not one JSON value each, as it seemed."""


def each_of(decoder: msgspec.json.Decoder[_T], texts: Sequence[bytes | Raw]) -> list[_T]:
    """Decode texts that begin with an opening brace and end with a closing one.

    In no JSON a brace opens right after one that closes, so that as many values as texts are one of each.

    Raises:
        msgspec.DecodeError: One of them is no JSON.
        NotProvenError: They are not one value each.
    """
    values = decoder.decode_lines(b"\n".join(texts))
    if len(values) != len(texts):
        raise NotProvenError
    return values


class ArgKind(Enum):
    """What an argument of an event is read as; a value that is nothing of the kind becomes null."""

    INTEGER = "integer"
    """Int64, also from text (``"42"``)."""
    NUMBER = "number"
    """Float64."""
    TEXT = "text"
    """Categorical: the string, or the JSON of any other value."""
    TRIPLE = "triple"
    """Three Int64 columns, ``<column>_x``, ``_y`` and ``_z``, of a list of up to three numbers (missing ones are 1)."""


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of events that becomes a column."""

    column: str
    """The name of the column."""
    keys: tuple[str, ...]
    """How it is spelt in the files, compared in lower case; the first that an event has counts."""
    kind: ArgKind


Split = Callable[["pl.DataFrame"], Mapping[str, "pl.DataFrame"]]
"""Makes several frames of one like `Trace.complete`, of which it gets a stretch at a time. The keys and the columns of
the frames are always the same; ``start_ns``, where it is kept, counts from `Trace.origin_ns` only in the end."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A file of trace events, read; all rows in the order of the file."""

    metadata: Mapping[str, Any]
    """Everything beside ``traceEvents``, as JSON values."""

    complete: pl.DataFrame
    """The events that have a duration (``ph`` X): cat, name, pid, tid (Categorical, as text), start_ns (Int64, relative
    to `origin_ns`), duration_ns (Int64), line (UInt32, null where the layout does not tell), and a column for each
    wanted `Arg`. An event whose start or duration cannot be read, or is negative or over seven days, is only in
    the notes. The frame has many chunks, and a column that a stretch of the file has nothing for takes no memory there:
    filter before anything that copies. Without columns where a `Split` takes the events."""

    parts: dict[str, pl.DataFrame]
    """What a `Split` made of `complete`, all stretches joined. In a large trace they are most of the memory: who takes
    one out of here can let go of it."""

    instants: pl.DataFrame
    """Events without duration (``ph`` i, I, R): the same columns without duration_ns."""

    flows: pl.DataFrame
    """Arrows between events (``ph`` s, t, f): ph, cat, name, pid, tid (Categorical), id (Int64), start_ns."""

    names: pl.DataFrame
    """What processes and threads are called (``ph`` M): pid, tid (Categorical), name (as ``process_name``), value (the
    name, label or index as String)."""

    origin_ns: int
    """The start of the earliest X event, in the file's own clock (its ``ts``), which is 0 in `complete`. Metadata
    ``baseTimeNanoseconds`` is not in it."""

    notes: Sequence[Note]
    """What was repaired, dropped or lost, with counts; beside the notes of the source."""

    partial: str
    """Why not all of the file is in it (stopped, cut off), or empty."""
