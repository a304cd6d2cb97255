"""Any events in any layout are read back; damage affects nothing but what it hits."""

from __future__ import annotations

import contextlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import tui.loaders.chrome_trace.read_trace
import tui.loaders.chrome_trace.stream
from tests.loaders.chrome_trace.documents import ARGS, read
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace

texts = st.text(max_size=8) | st.sampled_from(['}, {"ph"', "]", '"', "\\", "a\nb", "{", "größe", "},\n  {"])
times = st.decimals(min_value=0, max_value=10**9, places=3).map(float)
values = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(0, 9)
    | texts
    | st.lists(st.integers(0, 9), max_size=4)
    | st.just([{"name": "x"}, {"ph": "X"}])
)
keys = st.sampled_from(["correlation", "External id", "external id", "Input Dims", "grid", "other", "more"])
args = st.dictionaries(keys, values, max_size=4)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXiIstfMCb"), "name": texts},
    optional={
        "cat": texts,
        "pid": st.integers(-1, 2**40) | texts,
        "tid": st.integers(-1, 2**40) | texts,
        "ts": times | st.integers(0, 8 * 10**15) | times.map(str) | st.none(),
        "dur": times | st.integers(-1, 9),
        "id": st.integers(0, 2**33) | texts,
        "args": args | texts | st.none(),
    },
)
documents = st.lists(events | st.just({}), max_size=12)


def document_of(listed: list[Any], layout: str) -> str:
    if layout == "bare":
        return json.dumps(listed)
    if layout == "indented":
        return json.dumps({"schemaVersion": 1, "traceEvents": listed, "traceName": "}, ]"}, indent=2)
    if layout == "lines":
        body = ",\n".join(map(json.dumps, listed))
        return f'{{"traceEvents": [\n{body}\n]\n}}'
    return json.dumps({"traceEvents": listed, "a": [{"b": 1}, {"name": 2}]}, ensure_ascii=False)


def assert_same(actual: Trace, expected: Trace, *, ignoring: str = "") -> None:
    for frame in ("complete", "instants", "flows", "names"):
        actual_frame, expected_frame = getattr(actual, frame), getattr(expected, frame)
        columns = [column for column in actual_frame.columns if column != ignoring]
        assert_frame_equal(
            _without_categories(actual_frame.select(columns)), _without_categories(expected_frame.select(columns))
        )


def _without_categories(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 60)
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "_TAIL_BYTES", 1)
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "OVERLAP_BYTES", 64)


layouts = st.sampled_from(["bare", "indented", "lines", "compact"])


@pytest.mark.usefixtures("tiny_blocks")
class TestInTinyBlocks:
    @given(documents, layouts, st.integers(1, 50))
    def test_any_events_are_read_back(self, listed: list[Any], layout: str, chunk: int) -> None:
        trace = read(document_of(listed, layout), chunk=chunk)
        shown = [
            event for event in listed if event.get("ph") == "X" and _time(event) is not None and _is_in_range(event)
        ]
        assert trace.complete["name"].cast(pl.String).to_list() == [event["name"] for event in shown]
        assert [start + trace.origin_ns for start in trace.complete["start_ns"]] == [_time(event) for event in shown]
        assert trace.complete["correlation"].to_list() == [_integer(event, "correlation") for event in shown]
        assert trace.names.height == sum(
            sum(value is not None for value in event["args"].values())
            for event in listed
            if event.get("ph") == "M" and isinstance(event.get("args"), dict)
        )
        assert not trace.partial

    @given(documents, layouts)
    def test_the_fast_and_the_slow_path_agree(self, listed: list[Any], layout: str) -> None:
        text = document_of(listed, layout)
        slow = read(text, decodes=False)
        assert_same(read(text), slow, ignoring="line")

    @given(documents, st.sampled_from(["indented", "lines", "compact"]))
    def test_lines_are_those_of_the_tolerant_parser_or_unknown(self, listed: list[Any], layout: str) -> None:
        text = document_of(listed, layout)
        reported, true = read(text).complete["line"], read(text, decodes=False).complete["line"]
        assert [line for line in reported if line is not None] == [
            line for line, known in zip(true, reported, strict=True) if known is not None
        ]

    @given(documents, layouts, st.data())
    def test_a_file_cut_anywhere_gives_the_events_before_the_cut(
        self, listed: list[Any], layout: str, data: st.DataObject
    ) -> None:
        text = document_of(listed, layout).encode()
        length = data.draw(st.integers(1, len(text)))
        expected = read(text)
        if not text[:length].strip():
            return
        try:
            part = read(text[:length])
        except ProftuiError:
            assert b"[" not in text[:length], "the list of events has begun"
            return
        height = part.complete.height
        assert height <= expected.complete.height
        shift = part.origin_ns - expected.origin_ns
        ignored = [column for column in part.complete.columns if column not in ("start_ns", "line")]
        assert_frame_equal(
            _without_categories(part.complete.select(ignored)),
            _without_categories(expected.complete.head(height).select(ignored)),
        )
        if height:
            assert (part.complete["start_ns"] + shift).to_list() == expected.complete["start_ns"].head(height).to_list()

    @given(documents, layouts, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=5))
    def test_changed_bytes_raise_no_other_exception(
        self, listed: list[Any], layout: str, flips: list[tuple[int, int]]
    ) -> None:
        content = bytearray(document_of(listed, layout).encode())
        for position, byte in flips:
            content[position % len(content)] = byte
        with contextlib.suppress(ProftuiError):
            read(bytes(content))


def _time(event: dict[str, Any], key: str = "ts") -> int | None:
    value = event.get(key)
    return None if value is None else round(Fraction(str(value)) * 1000)


def _is_in_range(event: dict[str, Any]) -> bool:
    duration = _time(event, "dur")
    return duration is not None and duration >= 0


def _integer(event: dict[str, Any], key: str) -> int | None:
    values = event.get("args")
    value = values.get(key) if isinstance(values, dict) else None
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) < 2**63 else None


def test_the_arguments_are_those_of_the_documents() -> None:
    assert [arg.column for arg in ARGS] == ["correlation", "external_id", "shapes", "occupancy", "grid"]
