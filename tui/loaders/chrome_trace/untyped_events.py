"""Converts events that are Python objects to columns: the slow path, for events that the fast path cannot decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tui.loaders.chrome_trace.event_batches import (
    FLOW,
    INSTANT,
    LONGEST_TEXT,
    Anomalies,
    Anomaly,
    Arg,
    ArgKind,
    ArgValues,
    EventBatch,
    EventRows,
    TextCodes,
    drop_implausible_times,
    to_text,
)
from tui.loaders.digits import NULL, us_to_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def batch_from_objects(
    events: Sequence[Mapping[str, Any]], lines: Sequence[int] | None, args: Sequence[Arg], anomalies: Anomalies
) -> EventBatch:
    """Return the columns of events that are Python objects."""
    texts = TextCodes()
    complete = EventColumnBuilder(args, texts)
    instants = EventColumnBuilder(args, texts)
    flows = EventColumnBuilder((), texts)
    names: list[tuple[str | None, str | None, str, str]] = []
    for index, event in enumerate(events):
        line = None if lines is None else lines[index]
        phase = event.get("ph")
        if phase == "X":
            complete.add(event, line)
        elif phase == "M":
            names += metadata_names(event)
        elif isinstance(phase, str) and phase in INSTANT:
            instants.add(event, line)
        elif isinstance(phase, str) and phase in FLOW:
            flows.add(event, line)
        elif event:
            anomalies.add(Anomaly.PHASE, line=line, text=to_text(event.get("name")))
    batch = EventBatch(
        texts.all_texts,
        drop_implausible_times(complete.rows(has_duration=True), anomalies),
        drop_implausible_times(instants.rows(), anomalies),
        drop_implausible_times(flows.rows(is_flow=True), anomalies),
        names,
        anomalies.counts,
        len(events),
    )
    anomalies.add(Anomaly.LONG_TEXT, texts.cut_count)
    return batch


def metadata_names(event: Mapping[str, Any]) -> list[tuple[str | None, str | None, str, str]]:
    """Return the names of processes and threads in a metadata event (``ph`` M): pid, tid, kind of name, name."""
    args, kind = event.get("args"), event.get("name")
    if not isinstance(args, dict) or not isinstance(kind, str):
        return []
    pid, tid = (None if event.get(key) is None else _short(event[key]) for key in ("pid", "tid"))
    return [(pid, tid, _short(kind), _short(value)) for value in args.values() if value is not None]


def _short(value: object) -> str:
    return to_text(value)[:LONGEST_TEXT].encode("utf-8", "replace").decode()


class ArgColumnBuilder:
    """Collects arguments event by event."""

    def __init__(self, args: Sequence[Arg], texts: TextCodes) -> None:
        self._args = args
        self._keys = {
            key: (column, position) for column, arg in enumerate(args) for position, key in enumerate(arg.keys)
        }
        self._texts = texts
        self._values: dict[int, tuple[list[int], list[Any]]] = {}

    def add(self, row: int, args: Mapping[str, Any]) -> None:
        """Add the arguments of the event in a row; texts may be JSON as bytes."""
        best: dict[int, tuple[int, Any]] = {}
        for key, value in args.items():
            location = self._keys.get(key.lower())
            if location is not None and value is not None:
                column, position = location
                if column not in best or position < best[column][0]:
                    best[column] = (position, value)
        for column, (_, value) in best.items():
            rows, values = self._values.setdefault(column, ([], []))
            rows.append(row)
            values.append(self._convert(value, self._args[column].kind))

    def values(self) -> list[ArgValues]:
        """Return all values."""
        return [
            ArgValues(column, np.array(rows, np.int64), np.array(values, value_dtype(self._args[column].kind)))
            for column, (rows, values) in self._values.items()
        ]

    def _convert(self, value: Any, kind: ArgKind) -> int | float:
        if kind is ArgKind.INTEGER:
            return to_integer(value)
        if kind is ArgKind.NUMBER:
            return to_float(value)
        return self._texts.code(value)


class EventColumnBuilder:
    """Collects the columns of events one by one."""

    def __init__(self, args: Sequence[Arg], texts: TextCodes) -> None:
        self._args = ArgColumnBuilder(args, texts)
        self._texts = texts
        self._codes: tuple[list[int], ...] = ([], [], [], [])
        self._starts: list[int] = []
        self._durations: list[int] = []
        self._lines: list[int] = []
        self._phases: list[int] = []
        self._numbers: list[int] = []

    def add(self, event: Mapping[str, Any], line: int | None) -> None:
        """Add an event."""
        cat, name, pid, tid = self._codes
        cat.append(self._texts.code(event.get("cat")))
        name.append(self._texts.code(event.get("name")))
        pid.append(self._texts.code(event.get("pid")))
        tid.append(self._texts.code(event.get("tid")))
        self._starts.append(us_to_ns(event.get("ts")))
        self._durations.append(us_to_ns(event.get("dur")))
        self._phases.append(self._texts.code(event.get("ph")))
        self._numbers.append(to_integer(event.get("id")))
        if line is not None:
            self._lines.append(line)
        args = event.get("args")
        if isinstance(args, dict):
            self._args.add(len(self._starts) - 1, args)

    def rows(self, *, has_duration: bool = False, is_flow: bool = False) -> EventRows:
        """Return all values."""
        cat, name, pid, tid = (np.array(codes, np.int32) for codes in self._codes)
        return EventRows(
            cat, name, pid, tid,
            np.array(self._starts, np.int64),
            np.array(self._durations, np.int64) if has_duration else None,
            np.array(self._lines, np.int64) if len(self._lines) == len(self._starts) else None,
            self._args.values(),
            np.array(self._phases, np.int32) if is_flow else None,
            np.array(self._numbers, np.int64) if is_flow else None,
        )  # fmt: skip


def value_dtype(kind: ArgKind) -> type[np.int64 | np.float64 | np.int32]:
    """Return the type of `ArgValues.values`."""
    if kind is ArgKind.INTEGER:
        return np.int64
    return np.float64 if kind is ArgKind.NUMBER else np.int32


def to_integer(value: object) -> int:
    """Return a whole number of 64 bits, also from text; `NULL` for other values.

    >>> to_integer("42"), to_integer(7.0), to_integer(7.5) == to_integer(2**64) == to_integer("x") == NULL
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


def to_float(value: object) -> float:
    """Return a number, also from text; NaN for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return float("nan")
    try:
        return float(value)
    except (ValueError, OverflowError):
        return float("nan")
