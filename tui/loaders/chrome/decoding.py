"""Events as a profiler writes them to columns, the fast way: typed, and all of a kind at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from tui.loaders.chrome.decoding_args import ArgsDecoder, codes_of, integers_of
from tui.loaders.chrome.event import (
    COMPLETE,
    FLOW_EVENT,
    INSTANT_EVENT,
    KIND,
    NAME,
    OTHER,
    Event,
    ExactEvent,
    NotProvenError,
    each_of,
)
from tui.loaders.chrome.gathering import names_of
from tui.loaders.chrome.heads import Heads
from tui.loaders.chrome.lined import lined
from tui.loaders.chrome.pieces import NO_TEXT, Piece, Rows, Texts, Values, merged, timed
from tui.loaders.chrome.tally import Odd, Tally
from tui.loaders.chrome.times import EXACT_BELOW_US, NULL, ns_of, ns_of_floats, ns_of_texts

if TYPE_CHECKING:
    import numpy.typing as npt
    from msgspec import Raw

    from tui.loaders.chrome.lined import Lined
    from tui.loaders.chrome.trace import Arg

    Ints = npt.NDArray[np.int64]

_MOST_CATEGORIES: Final = 200
_DEEPEST: Final = 64
"""Columns; no event begins further to the right."""
_NEWLINE, _COMMA, _BRACE = b"\n,{"


@dataclass(slots=True)
class _Sorted:
    """Events by their kind, before it is looked at whether their times can be."""

    at: Ints
    """The complete ones: which of all events they are."""
    complete: Rows
    instants: Rows
    flows_at: Ints
    flows: Rows
    names: list[tuple[str | None, str | None, str, str]]


class Decoder:
    """Decodes texts of whole events. It learns from each what arguments the next will have."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = tuple(args)
        self._of_category: dict[str | None, ArgsDecoder] = {}
        self._is_exact = False
        self._events = msgspec.json.Decoder(list[Event])
        self._exact_events = msgspec.json.Decoder(list[ExactEvent])
        self._of_each = msgspec.json.Decoder(Event)
        self._exact_of_each = msgspec.json.Decoder(ExactEvent)
        self._heads = Heads()

    def decode(self, data: bytes) -> Piece | None:
        """The columns of some events.

        Args:
            data: Events with commas between them; a comma may follow the last.

        Returns:
            None where it is anything else: then nothing is known of it.
        """
        try:
            found = lined(data)
            piece = None if found is None else self._of_lines(found)
            return self._of_text(data) if piece is None else piece
        except _NotExactError:
            self._is_exact = True
            return self.decode(data)

    def _of_lines(self, found: Lined) -> Piece | None:
        """The columns of events whose parts were found; None where one is not what it seems."""
        texts, tally = Texts(), Tally()
        try:
            decoder: msgspec.json.Decoder[Any] = self._exact_of_each if self._is_exact else self._of_each
            events = each_of(decoder, found.others)
            others = self._sorted(events, found.lines[found.others_at], texts, tally)
            flows = found.flows.rows(found.lines, texts)
            complete = self._heads.rows(found.heads, found.start_ns, found.duration_ns, found.lines[found.at], texts)
            complete.args = [
                values
                for decoder, rows in self._by_category(complete, texts)
                for values in decoder.decode_lined(found.args.of(rows), rows, texts)
            ]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotProvenError):
            return None
        others.complete = merged((complete, others.complete), (found.at, found.others_at[others.at]))
        others.flows = merged((flows, others.flows), (found.flows.at, found.others_at[others.flows_at]))
        return _piece(others, texts, tally, len(found.lines), found.newlines)

    def _of_text(self, data: bytes) -> Piece | None:
        end = len(data)
        while end and data[end - 1] in b", \r\n\t":
            end -= 1
        text = b"".join((b"[", memoryview(data)[:end], b"]"))
        try:
            events: list[Any] = (self._exact_events if self._is_exact else self._events).decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        buffer = np.frombuffer(text, np.uint8)
        newlines = np.flatnonzero(buffer == _NEWLINE)
        lines = _starts(buffer, newlines, len(events))
        texts, tally = Texts(), Tally()
        try:
            found = self._sorted(events, lines, texts, tally)
        except UnicodeDecodeError:  # in an argument
            return None
        # What follows the last event was not in the text.
        return _piece(found, texts, tally, len(events), len(newlines) + data.count(b"\n", end))

    def _sorted(self, events: Sequence[Any], lines: Ints | None, texts: Texts, tally: Tally) -> _Sorted:
        """The columns of events by their kind.

        Raises:
            UnicodeDecodeError: In an argument.
            _NotExactError: A time is too large for a float.
        """
        # Columns of all events first: what is done once for each event is what takes the time.
        columns = (
            zip(*map(msgspec.structs.astuple, events), strict=True) if events else [()] * len(Event.__struct_fields__)
        )
        phase, cat, name, pid, tid, ts, dur, ids, args = columns
        count = len(events)
        kind = np.fromiter(map(KIND.get, phase, repeat(OTHER)), np.uint8, count)
        codes = [codes_of(column, texts, count) for column in (cat, name, pid, tid)]
        start_ns = self._ns(ts)

        def rows_of(which: int) -> tuple[Ints, Rows]:
            at = np.flatnonzero(kind == which)
            own = [column[at] for column in codes]
            lines_of = None if lines is None else lines[at]
            return at, Rows(own[0], own[1], own[2], own[3], start_ns[at], duration_ns=None, line=lines_of)

        complete_at, complete = rows_of(COMPLETE)
        complete.duration_ns = self._ns([dur[index] for index in complete_at.tolist()], are_durations=True)
        complete.args = self._arguments(complete, [args[index] for index in complete_at.tolist()], texts)
        at, instants = rows_of(INSTANT_EVENT)
        instants.args = self._arguments(instants, [args[index] for index in at.tolist()], texts)
        flows_at, flows = rows_of(FLOW_EVENT)
        flows.phase = codes_of([phase[index] for index in flows_at.tolist()], texts, len(flows_at))
        flows.number = integers_of([ids[index] for index in flows_at.tolist()])
        names = [named for index in np.flatnonzero(kind == NAME).tolist() for named in _named(events[index])]
        for index in np.flatnonzero(kind == OTHER).tolist():
            if phase[index] is not None or name[index] is not None:
                tally.add(Odd.PHASE, line=None if lines is None else int(lines[index]))
        return _Sorted(complete_at, complete, instants, flows_at, flows, names)

    def _arguments(self, rows: Rows, args: Sequence[Raw | bytes], texts: Texts) -> list[Values]:
        """The wanted arguments of events.

        Raises:
            msgspec.DecodeError: They are no JSON.
            UnicodeDecodeError: A key is not UTF-8.
            RecursionError: They are nested too deep.
            NotProvenError: They are not the arguments of one event each.
        """
        return [
            values
            for decoder, own in self._by_category(rows, texts)
            for values in decoder.decode([args[index] for index in own.tolist()], own, texts)
        ]

    def _by_category(self, rows: Rows, texts: Texts) -> Iterator[tuple[ArgsDecoder, Ints]]:
        """The rows of each category, and what decodes their arguments."""
        for code in np.unique(rows.cat).tolist() if self._args else ():
            cat = None if code == NO_TEXT else texts.all[code]
            decoder = self._of_category.get(cat)
            if decoder is None:
                decoder = ArgsDecoder(self._args)
                if len(self._of_category) < _MOST_CATEGORIES:
                    self._of_category[cat] = decoder
            yield decoder, np.flatnonzero(rows.cat == code)

    def _ns(self, times: Sequence[Any], *, are_durations: bool = False) -> Ints:
        if self._is_exact:
            return ns_of_texts(times)
        try:
            numbers = np.fromiter(times, np.float64, len(times))
        except (TypeError, ValueError):  # some are texts, or missing
            if any(isinstance(time, float) and abs(time) >= EXACT_BELOW_US for time in times):
                raise _NotExactError from None
            return np.array([ns_of(time) for time in times], np.int64)
        missing = np.isnan(numbers)
        numbers[missing] = 0
        if len(numbers) and float(np.abs(numbers).max()) >= EXACT_BELOW_US:
            if not are_durations:
                raise _NotExactError
            numbers = np.clip(numbers, -1, EXACT_BELOW_US - 1)  # it cannot be in any case
        ns = ns_of_floats(numbers)
        ns[missing] = NULL
        return ns


def _piece(found: _Sorted, texts: Texts, tally: Tally, count: int, newlines: int) -> Piece:
    piece = Piece(
        texts.all,
        timed(found.complete, tally),
        timed(found.instants, tally),
        timed(found.flows, tally),
        found.names,
        tally.found,
        count,
        newlines,
    )
    tally.add(Odd.LONG_TEXT, texts.cut)
    tally.add(Odd.NOT_UTF8, texts.not_utf8)
    return piece


class _NotExactError(Exception):
    """A time is too large for a float."""


def _named(event: Any) -> list[tuple[str | None, str | None, str, str]]:
    try:
        args = msgspec.json.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return names_of({"pid": event.pid, "tid": event.tid, "name": event.name, "args": args})


def _starts(text: npt.NDArray[np.uint8], newlines: Ints, count: int) -> Ints | None:
    """In which line of the text each of so many events begins, from 1; None where the layout does not tell.

    The text begins with the bracket that opens the list. Where the first event begins on a line of its own, the others
    do so as deep as that one, and nothing else does.
    """
    if not len(newlines):
        return np.ones(count, np.int64)
    brace = int(np.argmax(text == _BRACE)) if count else 0
    lead = text[1:brace]
    if not 0 < len(lead) < _DEEPEST or lead[0] != _NEWLINE or (lead[1:] == _NEWLINE).any():
        return None
    at = newlines[newlines + brace < len(text)]
    begins = (text[at + brace - 1] == _BRACE) & ((text[at - 1] == _COMMA) | (at == 1))
    for offset in range(1, brace - 1):
        begins &= text[at + offset] == lead[offset]
    lines = np.flatnonzero(begins) + 2
    return lines if len(lines) == count else None
