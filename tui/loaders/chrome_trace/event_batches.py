"""Events of a trace as batches of columns, packed batches, the resulting `Trace`, and anomalies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.digits import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import polars as pl

    from tui.loaders.input_issues import InputIssue

    Ints = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.int32]

MAX_EVENT_TEXT: Final = 200
"""Characters of an event that an issue shows."""


class Anomaly(Enum):
    """Kinds of anomalies: the severity, and the reason for one event."""

    DAMAGED = ("error", "event has damaged JSON: skipped")
    TOO_DEEP = ("error", "event is nested too deep: skipped")
    TOO_LONG = ("error", "event is longer than 64 MiB: skipped")
    NOT_AN_EVENT = ("warning", "entry in the event list is not an event: skipped")
    NO_START = ("warning", "event has no start time: skipped")
    NO_DURATION = ("warning", "event has no readable duration: skipped")
    BAD_DURATION = ("warning", "event has an implausible duration (negative, or over seven days): skipped")
    NOT_UTF8 = ("warning", "event has bytes that are not UTF-8, shown as \N{REPLACEMENT CHARACTER}")
    NOT_A_NUMBER = (
        "warning",
        "event has an invalid number (inf, nan, N/A), read as null",
    )
    BACKSLASH = ("info", "event has unescaped backslashes, read literally")
    QUOTES = ("warning", "event has unescaped quotation marks: the ends of strings are inferred")
    CONTROL = ("info", "event has unescaped control characters or newlines, read literally")
    KEY = ("info", "event has a key without its opening quotation mark: repaired")
    COMMENT = ("warning", "event follows a comment or an ellipsis: other events may have been cut out there")
    COMMA = ("info", "event has an extra comma: ignored")
    LONG_TEXT = ("warning", "text exceeds the length limit of names: truncated")
    PHASE = (
        "info",
        "event is a counter, or an asynchronous or open interval: not read",
    )

    @property
    def severity(self) -> str:
        """info, warning or error."""
        return self.value[0]

    def reason(self, count: int) -> str:
        """Return the reason for ``count`` events."""
        if count == 1:
            return f"1 {self.value[1]}"
        text = self.value[1]
        for singular, plural in _PLURALS:
            text = text.replace(singular, plural)
        return f"{count:,} {text}"


_PLURALS: Final = (
    (
        "event is a counter, or an asynchronous or open interval",
        "events are counters, or asynchronous or open intervals",
    ),
    ("event is ", "events are "),
    ("event has no start time", "events have no start time"),
    ("event has no readable duration", "events have no readable duration"),
    ("event has an implausible duration (", "events have implausible durations ("),
    ("event has an invalid number (inf, nan, N/A), read", "events have invalid numbers (inf, nan, N/A), read"),
    ("event has a key without its opening quotation mark", "events have keys without an opening quotation mark"),
    ("event has an extra comma", "events have extra commas"),
    ("event follows a comment or an ellipsis", "events follow a comment or an ellipsis"),
    ("event has", "events have"),
    ("entry in the event list is not an event", "entries in the event list are not events"),
    ("text exceeds the length limit of names", "texts exceed the length limit of names"),
)


@dataclass(slots=True)
class AnomalyCount:
    """How often a kind of anomaly occurred, and where first."""

    count: int = 0
    line: int | None = None
    """Line of the first, from 1; None if unknown."""
    text: str = ""
    """Text of the first."""


class Anomalies:
    """Counts anomalies."""

    def __init__(self) -> None:
        self.counts: dict[Anomaly, AnomalyCount] = {}

    def add(self, kind: Anomaly, count: int = 1, *, line: int | None = None, text: str = "") -> None:
        """Count ``count`` more; ``line`` and ``text`` are those of the first."""
        if not count:
            return
        entry = self.counts.setdefault(kind, AnomalyCount(0, line, text[:MAX_EVENT_TEXT]))
        entry.count += count

    def add_counts(self, counts: Mapping[Anomaly, AnomalyCount], *, lines_before: int | None = 0) -> None:
        """Add the counts of a later part of the file, which follows ``lines_before`` lines (None: unknown)."""
        for kind, entry in counts.items():
            line = None if entry.line is None or lines_before is None else entry.line + lines_before
            self.add(kind, entry.count, line=line, text=entry.text)

    def notes(self) -> Iterator[InputIssue]:
        """Yield one note for each kind, in the order of `Anomaly`."""
        from tui.loaders.input_issues import InputIssue

        for kind in Anomaly:
            if kind in self.counts:
                entry = self.counts[kind]
                yield InputIssue(kind.severity, entry.line, entry.text, kind.reason(entry.count))


NO_TEXT: Final = -1
"""The code of null."""
LONGEST_TEXT: Final = 1 << 16
"""Characters; a longer text is cut."""
LONGEST_DURATION_NS: Final = 7 * 24 * 3600 * 10**9
INSTANT: Final = frozenset("iIRn")
FLOW: Final = frozenset("stf")


@dataclass(slots=True)
class ArgValues:
    """Values of one argument of some events."""

    column: int
    """The index of the argument among the wanted ones."""
    rows: Ints
    """Row numbers in `EventRows`."""
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
    """The start in the clock of the file."""
    duration_ns: Ints | None
    """None for instants and flows."""
    line: Ints | None
    """The line from 1 within the part; None if unknown."""
    args: list[ArgValues] = field(default_factory=list)
    phase: Codes | None = None
    """The phase, for flows only."""
    number: Ints | None = None
    """The ids of flows."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def filter(self, keep: npt.NDArray[np.bool_]) -> EventRows:
        """Return the rows for which ``keep`` is true."""
        if keep.all():
            return self
        position = np.cumsum(keep) - 1

        def select(column: npt.NDArray[Any] | None) -> Any:
            return None if column is None else column[keep]

        args = [
            ArgValues(values.column, position[values.rows[keep[values.rows]]], values.values[keep[values.rows]])
            for values in self.args
        ]
        return EventRows(
            cat=select(self.cat),
            name=select(self.name),
            pid=select(self.pid),
            tid=select(self.tid),
            start_ns=select(self.start_ns),
            duration_ns=select(self.duration_ns),
            line=select(self.line),
            args=args,
            phase=select(self.phase),
            number=select(self.number),
        )


def merge_rows(parts: Sequence[EventRows], positions: Sequence[Ints]) -> EventRows:
    """Merge events of one kind in the order of their positions, which are distinct."""
    non_empty = [index for index, part in enumerate(parts) if len(part)]
    if len(non_empty) <= 1:
        return parts[non_empty[0] if non_empty else 0]
    order = np.argsort(np.concatenate(positions), kind="stable")
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    ends = np.cumsum([len(part) for part in parts]).tolist()
    args = [
        ArgValues(values.column, row[end - len(part) :][values.rows], values.values)
        for part, end in zip(parts, ends, strict=True)
        for values in part.args
    ]

    def merged(column: str) -> Any:
        columns = [getattr(part, column) for part in parts]
        return None if any(column_part is None for column_part in columns) else np.concatenate(columns)[order]

    cat, name, pid, tid, start_ns = map(merged, ("cat", "name", "pid", "tid", "start_ns"))
    duration_ns, line, phase, number = map(merged, ("duration_ns", "line", "phase", "number"))
    return EventRows(cat, name, pid, tid, start_ns, duration_ns, line, args, phase, number)


@dataclass(slots=True)
class EventBatch:
    """The events of one part of a file."""

    texts: list[str]
    """The texts by code."""
    complete: EventRows
    instants: EventRows
    flows: EventRows
    names: list[tuple[str | None, str | None, str, str]]
    """pid, tid, kind of name, name."""
    anomalies: Mapping[Anomaly, AnomalyCount]
    """Lines are counted from 1 within the part."""
    events: int
    """The number of events, including those omitted."""
    newlines: int = 0
    """The number of newlines in the text of the part."""


@dataclass(slots=True)
class PackedRows:
    """Events of one kind as columns by name, each with a value for every event."""

    height: int
    columns: dict[str, npt.NDArray[Any]]
    """Codes of texts (int32), Int64 (`NULL` for null), Float64 (NaN for null) and lines (uint32, 0 for null).

    A column without any value is missing.
    """


@dataclass(slots=True)
class PackedBatch:
    """The events of one part of a file in few bytes, to be sent to another process."""

    new_texts: list[str]
    """The texts of codes that earlier batches do not use."""
    is_first: bool
    """Whether codes restart with this batch."""
    complete: dict[str, PackedRows]
    """By part of the `EventSplit`."""
    instants: PackedRows
    flows: PackedRows
    names: list[tuple[str | None, str | None, str, str]]
    anomalies: Mapping[Anomaly, AnomalyCount]
    categories: dict[str | None, int]
    """The number of complete events by category."""
    seen: frozenset[str]
    """The arguments for which a complete event has a value."""
    first_ns: int | None
    """The earliest start of complete events."""
    rows: int
    events: int
    newlines: int


ALL_EVENTS: Final = ""
"""The only part if there is no `EventSplit`."""
_MAX_TEXT: Final = 1 << 25
"""Characters of all texts with a code; above it, codes restart."""


class Packer:
    """Packs consecutive batches; each text is sent once and keeps its code."""

    def __init__(
        self, args: Sequence[Arg], split: EventSplit | None = None, flow_categories: Collection[str] | None = None
    ) -> None:
        self._args = args
        self._split = split
        self._flow_categories = flow_categories
        self._codes: dict[str, int] = {}
        self._characters = 0

    def pack(self, batch: EventBatch) -> PackedBatch:
        """Pack a batch, which must not be used afterwards."""
        is_first = not self._codes or self._characters > _MAX_TEXT
        if is_first:
            self._codes.clear()
            self._characters = 0
        known_count = len(self._codes)
        batch_codes = [self._codes.setdefault(text, len(self._codes)) for text in batch.texts]
        new_texts = [text for text, code in zip(batch.texts, batch_codes, strict=True) if code >= known_count]
        self._characters += sum(map(len, new_texts))
        # The last one is for `NO_TEXT`, which is -1.
        codes = np.array([*batch_codes, NO_TEXT], np.int32)
        flows = self._wanted_flows(batch.flows, batch.texts)
        complete = batch.complete
        counts = np.bincount(complete.cat + 1, minlength=1)
        used_codes = np.flatnonzero(counts).tolist()
        return PackedBatch(
            new_texts=new_texts,
            is_first=is_first,
            complete={
                part: self._pack_rows(rows, codes, columns)
                for part, rows, columns in self._split_rows(complete, batch.texts)
            },
            instants=self._pack_rows(batch.instants, codes, None),
            flows=self._pack_rows(flows, codes, None),
            names=batch.names,
            anomalies=batch.anomalies,
            categories={batch.texts[code - 1] if code else None: int(counts[code]) for code in used_codes},
            seen=frozenset(self._args[values.column].column for values in complete.args if _has_values(values.values)),
            first_ns=int(complete.start_ns.min()) if len(complete) else None,
            rows=len(complete) + len(batch.instants) + len(flows),
            events=batch.events,
            newlines=batch.newlines,
        )

    def _wanted_flows(self, flows: EventRows, texts: Sequence[str]) -> EventRows:
        if self._flow_categories is None or not len(flows):
            return flows
        is_wanted = np.array([*(text in self._flow_categories for text in texts), False])
        return flows.filter(is_wanted[flows.cat])

    def _split_rows(
        self, rows: EventRows, texts: Sequence[str]
    ) -> Iterator[tuple[str, EventRows, frozenset[str] | None]]:
        """Yield each part of the complete events that has any, with the names of its columns (None: all)."""
        if self._split is None:
            yield ALL_EVENTS, rows, None
            return
        names = list(self._split.columns)
        category_parts = _part_indices(rows.cat, texts, self._split.part_of_category, names)
        process_parts = _part_indices(rows.pid, texts, self._split.part_of_process, names)
        counts = np.bincount(category_parts, minlength=len(names) + 1) + np.bincount(
            process_parts, minlength=len(names) + 1
        )
        for number, part in enumerate(names):
            if counts[number]:
                is_in_part = (category_parts == number) | (process_parts == number)
                yield part, rows.filter(is_in_part), frozenset(self._split.columns[part])

    def _pack_rows(self, rows: EventRows, codes: Codes, wanted_columns: frozenset[str] | None) -> PackedRows:
        """Return the wanted columns of events, texts with the codes of this packer."""
        columns: dict[str, npt.NDArray[Any]] = {}
        for name, values in (
            *(
                (name, None if (text_codes := getattr(rows, name)) is None else codes[text_codes])
                for name in ("phase", *EVENT_KEYS)
            ),
            *((name, getattr(rows, name)) for name in ("number", "start_ns", "duration_ns")),
            ("line", None if rows.line is None else rows.line.astype(np.uint32)),
        ):
            if values is not None and (wanted_columns is None or name in wanted_columns):
                columns[name] = np.ascontiguousarray(values)
        for values in rows.args:
            arg = self._args[values.column]
            if not len(values.rows) or (wanted_columns is not None and arg.column not in wanted_columns):
                continue
            is_text = arg.kind in (ArgKind.TEXT, ArgKind.TRIPLE)
            if arg.column not in columns:
                null, dtype = (NO_TEXT, np.int32) if is_text else (np.nan, np.float64)
                columns[arg.column] = (
                    np.full(len(rows), NULL, np.int64)
                    if arg.kind is ArgKind.INTEGER
                    else np.full(len(rows), null, dtype)
                )
            columns[arg.column][values.rows] = codes[values.values] if is_text else values.values
        return PackedRows(len(rows), columns)


def _part_indices(
    codes: Codes, texts: Sequence[str], find_part: Callable[[str | None], str | None], parts: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Return the index of the part of each event; ``len(parts)`` if it belongs to none."""
    # `NO_TEXT` is -1: the last entry.
    table = np.full(len(texts) + 1, len(parts), np.uint8)
    for code in np.flatnonzero(np.bincount(codes + 1, minlength=1)).tolist():
        part = find_part(texts[code - 1] if code else None)
        if part is not None:
            table[code - 1] = parts.index(part)
    return table[codes]


def _has_values(values: npt.NDArray[Any]) -> bool:
    if values.dtype == np.float64:
        return bool((~np.isnan(values)).any())
    return bool((values != (NO_TEXT if values.dtype == np.int32 else NULL)).any())


class TextCodes(dict[object, int]):
    """Assigns codes to distinct texts; keys are texts, numbers, or the bytes of JSON values."""

    def __init__(self) -> None:
        super().__init__({None: NO_TEXT, b"": NO_TEXT, b"null": NO_TEXT})
        self.all_texts: list[str] = []
        """The texts by code."""
        self.cut_count = 0
        """How many texts were cut."""
        self.not_utf8_count = 0
        """How many JSON values were invalid UTF-8."""
        self._codes: dict[str, int] = {}

    def __missing__(self, value: object) -> int:
        text = self._decode_json(value) if isinstance(value, bytes) else to_text(value)
        shortened = text[:LONGEST_TEXT]
        self.cut_count += len(text) > LONGEST_TEXT
        # JSON allows lone surrogates, which UTF-8 cannot encode.
        clean = shortened if shortened.isascii() else shortened.encode("utf-8", "replace").decode()
        code = self._codes.setdefault(clean, len(self.all_texts))
        if code == len(self.all_texts):
            self.all_texts.append(clean)
        if len(text) <= LONGEST_TEXT:
            self[value] = code
        return code

    def code(self, value: object) -> int:
        """Return the code of a text, or of another value as JSON; `NO_TEXT` for null."""
        return self[value] if isinstance(value, str | bytes) or value is None else self[to_text(value)]

    def _decode_json(self, value: bytes) -> str:
        """Return the text of a JSON value; the JSON itself if it is damaged or too long to parse."""
        try:
            text = value.decode()
        except UnicodeDecodeError:
            self.not_utf8_count += 1
            text = value.decode("utf-8", "replace")
        if len(text) > LONGEST_TEXT and text[0] != '"':
            return text
        try:
            return to_text(json.loads(text))
        except (ValueError, RecursionError):
            return text


def to_text(value: object) -> str:
    """Return a text unchanged, any other value as JSON: 7.0 as 7, an ellipsis for values nested too deep."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # this may run deeper in the stack than the parser did
        return "\N{HORIZONTAL ELLIPSIS}"


def drop_implausible_times(rows: EventRows, anomalies: Anomalies) -> EventRows:
    """Return the rows with plausible times; the others are counted as anomalies."""
    has_start = rows.start_ns != NULL
    count, line = _count_and_first_line(~has_start, rows)
    anomalies.add(Anomaly.NO_START, count, line=line)
    rows = rows.filter(has_start)
    if rows.duration_ns is None:
        return rows
    has_duration = rows.duration_ns != NULL
    count, line = _count_and_first_line(~has_duration, rows)
    anomalies.add(Anomaly.NO_DURATION, count, line=line)
    is_plausible = (rows.duration_ns >= 0) & (rows.duration_ns <= LONGEST_DURATION_NS)
    count, line = _count_and_first_line(has_duration & ~is_plausible, rows)
    anomalies.add(Anomaly.BAD_DURATION, count, line=line)
    return rows.filter(has_duration & is_plausible)


def _count_and_first_line(is_bad: npt.NDArray[np.bool_], rows: EventRows) -> tuple[int, int | None]:
    count = int(np.count_nonzero(is_bad))
    return count, int(rows.line[int(np.argmax(is_bad))]) if count and rows.line is not None else None


COMPLETE, INSTANT_EVENT, FLOW_EVENT, NAME, OTHER = range(5)
KINDS_BY_PHASE: Final = {
    "X": COMPLETE,
    "M": NAME,
    **dict.fromkeys(INSTANT, INSTANT_EVENT),
    **dict.fromkeys(FLOW, FLOW_EVENT),
}
_T = TypeVar("_T")
_NO_ARGS: Final = Raw(b"{}")
_ABSENT: Final = Raw(b"")


class Event(msgspec.Struct, gc=False):
    """An event with times as floats."""

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
    """An event with times as text, for times above the precision of floats."""

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
    """The assumed layout is wrong: a text is not exactly one JSON value."""


def decode_each(decoder: msgspec.json.Decoder[_T], texts: Sequence[bytes | Raw]) -> list[_T]:
    """Decode texts that begin with an opening brace and end with a closing one.

    In valid JSON ``}`` is never followed by ``{``, so equal numbers of values and texts prove one value per text.

    Raises:
        msgspec.DecodeError: A text is invalid JSON.
        NotProvenError: A text is not exactly one value.
    """
    values = decoder.decode_lines(b"\n".join(texts))
    if len(values) != len(texts):
        raise NotProvenError
    return values


class ArgKind(Enum):
    """The type of an argument; a value of another type becomes null."""

    INTEGER = "integer"
    """Int64, also from text (``"42"``)."""
    NUMBER = "number"
    """Float64."""
    TEXT = "text"
    """Categorical: the string, or the JSON of any other value."""
    TRIPLE = "triple"
    """Three Int64 columns, ``<column>_x``, ``_y`` and ``_z``, from a list of up to three numbers (missing: 1)."""


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of events that becomes a column."""

    column: str
    """The name of the column."""
    keys: tuple[str, ...]
    """Its keys in files, in lower case; the first one that an event has is used."""
    kind: ArgKind


EVENT_KEYS: Final = ("cat", "name", "pid", "tid")
"""The columns that identify an event and its thread."""


@dataclass(frozen=True, slots=True)
class EventSplit:
    """Splits complete events into parts with different columns, so that unneeded columns take no memory.

    Worker processes unpickle it: it holds no functions, so that they import nothing of a format.
    """

    columns: Mapping[str, Collection[str]]
    """The columns of each part; a column of `ArgKind.TRIPLE` stands for its three columns."""
    categories: Mapping[str, str]
    """The part by the category of events, in lower case."""
    endings: Mapping[str, str]
    """The part of other categories by what follows their last underscore."""
    processes: Mapping[str, str]
    """The part by ``pid``; an event can be in both parts."""

    def part_of_category(self, category: str | None) -> str | None:
        """Return the part of the events of a category, or None."""
        lower = (category or "").lower()
        return self.categories.get(lower) or self.endings.get(lower.rpartition("_")[2])

    def part_of_process(self, pid: str | None) -> str | None:
        """Return the part of the events of a ``pid``, or None."""
        return self.processes.get(pid or "")


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a file, in file order."""

    metadata: Mapping[str, Any]
    """Everything outside ``traceEvents``, as JSON values."""

    complete: pl.DataFrame
    """The complete events (``ph`` X): cat, name, pid, tid (Categorical), start_ns (Int64, relative to `origin_ns`),
    duration_ns (Int64), line (UInt32, null if the layout does not show it), and a column for each wanted `Arg`. An
    event with an unreadable, negative or over seven days long duration, or without a start, is only in the notes. The
    frame has many chunks, and a chunk without values for a column takes no memory for it: filter before operations
    that copy. Without columns if there is an `EventSplit`."""

    parts: dict[str, pl.DataFrame]
    """The parts of the `EventSplit`, each with its own columns. They take most of the memory of a large trace; a caller
    can pop a part to release it."""

    categories: Mapping[str | None, int]
    """The number of complete events by category."""

    seen: Collection[str]
    """The wanted arguments that at least one complete event has."""

    instants: pl.DataFrame
    """Instant events (``ph`` i, I, R, n): the same columns without duration_ns."""

    flows: pl.DataFrame
    """Flow events (``ph`` s, t, f): ph, cat, name, pid, tid (Categorical), id (Int64), start_ns."""

    names: pl.DataFrame
    """Metadata events (``ph`` M), which name processes and threads: pid, tid (Categorical), name (such as
    ``process_name``), value (the name, label or index as String)."""

    origin_ns: int
    """The start of the earliest complete event in the clock of the file (``ts``); time 0 of `complete`. Without
    ``baseTimeNanoseconds`` of the metadata."""

    notes: Sequence[InputIssue]
    """What was repaired, omitted or lost, with counts; in addition to the notes of the input."""

    partial: str
    """Why the trace is incomplete (stopped, truncated), or empty."""
