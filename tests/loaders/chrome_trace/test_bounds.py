"""Reading takes a bounded amount of memory for any input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import tui.loaders.chrome_trace.read_trace
import tui.loaders.chrome_trace.stream
from tests.loaders.chrome_trace.documents import kernel, read
from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.chrome_trace.stream import Stream

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import EventBatch, Trace

HUGE = 100_000
REASON = "1 event is longer than 64 MiB: skipped"


@pytest.fixture
def max_held_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the maximum text that a stream held, in a list; more than 10,000 bytes of one event are too many."""
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 2000)
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "OVERLAP_BYTES", 500)
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "_TAIL_BYTES", 500)
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "MAX_EVENT_BYTES", 10_000)
    max_bytes = [0]
    read_more = tui.loaders.chrome_trace.stream.Stream._read_more

    def watched(self: tui.loaders.chrome_trace.stream.Stream) -> bool:
        max_bytes[0] = max(max_bytes[0], len(self._text))
        return read_more(self)

    monkeypatch.setattr(tui.loaders.chrome_trace.stream.Stream, "_read_more", watched)
    return max_bytes


def document_of(*events: str) -> str:
    return '{"traceEvents": [\n' + ",\n".join(events) + '\n], "traceName": "x"}'


def names(trace: Trace) -> list[str]:
    return trace.complete["name"].cast(pl.String).to_list()


def event(name: str, **fields: Any) -> str:
    return json.dumps(kernel(name=name, **fields))


@pytest.mark.parametrize(
    "huge",
    [
        '{"ph": "X", "name": "' + "a" * HUGE + '", "ts": 5, "dur": 1}',
        '{"ph": "X", "ts": 5, "dur": 1, "args": {"Input Dims": [' + "1, " * HUGE + "1]}}",
        '{"ph": "X", "ts": 5, "dur": 1, "args": {\n' + '"a": {},\n' * (HUGE // 9) + '"b": 1}}',
        '{"ph": "X", "name": "' + "\n" * HUGE + '", "ts": 5, "dur": 1}',
    ],
    ids=["a name", "an argument", "many arguments", "lines"],
)
@pytest.mark.parametrize("before", [0, 1, 60], ids=["first", "second", "later"])
def test_an_overlong_event_is_skipped(huge: str, before: int, max_held_bytes: list[int]) -> None:
    first, last = [event(f"{n}") for n in range(before)], [event(f"after {n}") for n in range(60)]
    document = document_of(*first, huge, *last)
    trace = read(document, chunk=700)
    assert names(trace) == [*map(str, range(before)), *(f"after {n}" for n in range(60))]
    assert [(note.severity, note.reason, note.line) for note in trace.notes] == [("error", REASON, before + 2)]
    assert trace.notes[0].text.startswith('{"ph": "X"')
    assert trace.metadata == {"traceName": "x"}
    assert trace.complete["line"].drop_nulls().to_list()[-1] == document[: document.index('"after 59"')].count("\n") + 1
    assert max_held_bytes[0] < 12_000


def test_metadata_after_an_overlong_last_event_is_read(max_held_bytes: list[int]) -> None:
    trace = read(document_of(event("first"), '{"ph": "X", "name": "' + "a" * HUGE + '"}'), chunk=700)
    assert (names(trace), trace.metadata, trace.partial) == (["first"], {"traceName": "x"}, "")
    assert [note.reason for note in trace.notes] == [REASON]
    assert max_held_bytes[0] < 12_000


def test_an_unclosed_overlong_event_is_skipped(max_held_bytes: list[int]) -> None:
    trace = read('{"traceEvents": [' + event("first") + ', {"ph": "X", "name": "' + "a" * HUGE, chunk=700)
    assert names(trace) == ["first"]
    assert trace.partial == "truncated after 1 event"
    assert REASON in [note.reason for note in trace.notes]
    assert max_held_bytes[0] < 12_000


def test_only_the_end_of_the_list_is_in_the_last_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "_TAIL_BYTES", 30)
    stream = Stream([b'[{"ts": 1},\n{"ts": 2},\n{"ts": 3},\n{"ts": 4}]'])
    assert stream.read_to_list(may_be_list_only=True) == (b"[", True)
    assert list(stream.blocks(lambda: 1_000)) == [
        (b'{"ts": 1},\n{"ts": 2},', False),
        (b'\n{"ts": 3},\n{"ts": 4}]', True),
    ]


def test_empty_events_are_decoded_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "_MAX_EVENTS", 30_000)
    decode = Decoder.decode
    counts: list[int] = []

    def watched(self: Decoder, data: bytes) -> EventBatch | None:
        piece = decode(self, data)
        counts.append(0 if piece is None else piece.events)
        return piece

    monkeypatch.setattr(Decoder, "decode", watched)
    trace = read(document_of(event("first"), ",".join(["{}"] * 1_000_000), event("last")))
    assert names(trace) == ["first", "last"]
    assert sum(counts) > 900_000
    assert max(counts[1:]) < 40_000
