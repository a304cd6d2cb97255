"""Events as a profiler writes them to columns, the fast way: typed, and all of a kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome.decoding_args import ArgsDecoder, codes_of, integers_of
from tui.loaders.chrome.pieces import (
    FLOW,
    INSTANT,
    Piece,
    Rows,
    Texts,
    Values,
    names_of,
    timed,
)
from tui.loaders.chrome.tally import Odd, Tally
from tui.loaders.chrome.times import EXACT_BELOW_US, ns_of, ns_of_floats, ns_of_texts

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.loaders.chrome.trace import Arg

    Ints = npt.NDArray[np.int64]

_MOST_CATEGORIES: Final = 200
_NO_ARGS: Final = Raw(b"{}")
_ABSENT: Final = Raw(b"")
_NEWLINE, _COMMA, _BRACE = b"\n,{"


class _Event(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    id: int | float | str | None = None
    args: Raw = _NO_ARGS


class _ExactEvent(msgspec.Struct, gc=False):
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


class Decoder:
    """Decodes texts of whole events. It learns from each what arguments the next will have."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = tuple(args)
        self._of_category: dict[str | None, ArgsDecoder] = {}
        self._is_exact = False
        self._events = msgspec.json.Decoder(list[_Event])
        self._exact_events = msgspec.json.Decoder(list[_ExactEvent])

    def decode(self, data: bytes) -> Piece | None:
        """The columns of some events.

        Args:
            data: Events with commas between them; a comma may follow the last.

        Returns:
            None where it is anything else: then nothing is known of it.
        """
        end = len(data)
        while end and data[end - 1] in b", \r\n\t":
            end -= 1
        text = b"".join((b"[", memoryview(data)[:end], b"]"))
        try:
            events: list[Any] = (self._exact_events if self._is_exact else self._events).decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        starts = _starts(np.frombuffer(text, np.uint8), len(events))
        try:
            return self._piece(events, starts, int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE)))
        except _NotExactError:
            self._is_exact = True
            return self.decode(data)
        except UnicodeDecodeError:  # in an argument
            return None

    def _piece(self, events: list[Any], lines: Ints | None, newlines: int) -> Piece:
        tally, texts = Tally(), Texts()
        complete: list[int] = []
        instants: list[int] = []
        flows: list[int] = []
        names: list[tuple[str | None, str | None, str, str]] = []
        for index, event in enumerate(events):
            phase = event.ph
            if phase == "X":
                complete.append(index)
            elif phase in FLOW:
                flows.append(index)
            elif phase in INSTANT:
                instants.append(index)
            elif phase == "M":
                names += _named(event)
            elif phase is not None or event.name is not None:
                tally.add(Odd.PHASE, line=None if lines is None else int(lines[index]))
        piece = Piece(
            texts.all,
            timed(self._rows(events, complete, lines, texts, has_duration=True), tally),
            timed(self._rows(events, instants, lines, texts), tally),
            timed(self._rows(events, flows, lines, texts, is_flow=True), tally),
            names,
            tally.found,
            len(events),
            newlines,
        )
        tally.add(Odd.LONG_TEXT, texts.cut)
        tally.add(Odd.NOT_UTF8, texts.not_utf8)
        return piece

    def _rows(
        self,
        events: list[Any],
        indices: list[int],
        lines: Ints | None,
        texts: Texts,
        *,
        has_duration: bool = False,
        is_flow: bool = False,
    ) -> Rows:
        chosen = events if len(indices) == len(events) else [events[index] for index in indices]
        cats = [event.cat for event in chosen]
        rows = Rows(
            codes_of(cats, texts, len(chosen)),
            codes_of([event.name for event in chosen], texts, len(chosen)),
            codes_of([event.pid for event in chosen], texts, len(chosen)),
            codes_of([event.tid for event in chosen], texts, len(chosen)),
            self._ns([event.ts for event in chosen]),
            self._ns([event.dur for event in chosen]) if has_duration else None,
            None if lines is None else lines[indices],
        )
        if is_flow:
            rows.phase = codes_of([event.ph for event in chosen], texts, len(chosen))
            rows.number = integers_of([event.id for event in chosen])
        else:
            rows.args = self._arguments(chosen, cats, texts)
        return rows

    def _arguments(self, events: list[Any], cats: list[str | None], texts: Texts) -> list[Values]:
        if not self._args:
            return []
        places: dict[str | None, list[int]] = {}
        for row, cat in enumerate(cats):
            if cat in places:
                places[cat].append(row)
            else:
                places[cat] = [row]
        found: list[Values] = []
        for cat, rows in places.items():
            decoder = self._of_category.get(cat)
            if decoder is None:
                decoder = ArgsDecoder(self._args)
                if len(self._of_category) < _MOST_CATEGORIES:
                    self._of_category[cat] = decoder
            found += decoder.decode([events[row].args for row in rows], np.array(rows, np.int64), texts)
        return found

    def _ns(self, times: list[Any]) -> Ints:
        if self._is_exact:
            return ns_of_texts(times)
        try:
            numbers = np.fromiter(times, np.float64, len(times))
        except (TypeError, ValueError):  # some are texts, or missing
            if any(isinstance(time, float) and abs(time) >= EXACT_BELOW_US for time in times):
                raise _NotExactError from None
            return np.array([ns_of(time) for time in times], np.int64)
        if len(numbers) and not bool(np.abs(numbers).max() < EXACT_BELOW_US):
            raise _NotExactError
        return ns_of_floats(numbers)


class _NotExactError(Exception):
    """A time is too large for a float."""


def _named(event: Any) -> list[tuple[str | None, str | None, str, str]]:
    try:
        args = msgspec.json.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return names_of({"pid": event.pid, "tid": event.tid, "name": event.name, "args": args})


def _starts(text: npt.NDArray[np.uint8], count: int) -> Ints | None:
    """In which line of the text each of so many events begins, from 1; None where the layout does not tell.

    The text begins with the bracket that opens the list. Where the first event begins on a line of its own, the others
    do so as deep as that one, and nothing else does.
    """
    newlines = np.flatnonzero(text == _NEWLINE)
    if not len(newlines):
        return np.ones(count, np.int64)
    brace = int(np.argmax(text == _BRACE))
    lead = text[1:brace]
    if not len(lead) or lead[0] != _NEWLINE or (lead[1:] == _NEWLINE).any():
        return None
    at = newlines[newlines + brace < len(text)]
    begins = (text[at + brace - 1] == _BRACE) & ((text[at - 1] == _COMMA) | (at == 1))
    for offset in range(1, brace - 1):
        begins &= text[at + offset] == lead[offset]
    lines = np.flatnonzero(begins) + 2
    return lines if len(lines) == count else None
