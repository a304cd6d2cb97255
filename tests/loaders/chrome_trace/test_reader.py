"""The result of each kind of event, in the spellings and layouts of every version."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import tui.loaders.chrome_trace.read_trace
import tui.loaders.chrome_trace.stream
from tests.loaders.chrome_trace.documents import ARGS, kernel, read
from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind, EventSplit
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.chrome_trace.stream import looks_like_trace
from tui.loaders.input_file import InputFile

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import EventBatch

KINETO = """
{
  "schemaVersion": 1,
  "baseTimeNanoseconds": 1727743122000000000,
  "traceEvents": [
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 428, "tid": 454,
    "ts": 4334799753717.446, "dur": 119.904,
    "args": {
      "External id": 66049,"Record function id": 0, "Input Dims": [[2, 3], []], "Ev Idx": 0
    }
  },
  {
    "ph": "f", "id": 35, "pid": 0, "tid": 7, "ts": 4334799753731.039,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
  {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
    "ts": 4334799753731.039, "dur": 90.569,
    "args": {
      "External id": 66049, "correlation": 35, "grid": [8, 2, 1], "est. achieved occupancy %": 40
    }
  },
  {
    "name": "process_name", "ph": "M", "ts": 4334799746588.792, "pid": 428, "tid": 0,
    "args": {
      "name": "python3"
    }
  },
  {
    "name": "[memory]", "ph": "i", "s": "t", "cat": "cpu_instant_event",
    "pid": 428, "tid": 454, "ts": 4334799753720.000,
    "args": {
      "Total Allocated": 5
    }
  }
  ],
  "traceName": "x.json"
}"""


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()


@pytest.mark.parametrize("decodes", [True, False], ids=["fast", "tolerant"])
def test_every_kind_of_event(decodes: bool) -> None:
    trace = read(KINETO, decodes=decodes)
    assert trace.metadata == {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1727743122000000000,
        "traceName": "x.json",
    }
    assert trace.origin_ns == 4334799753717446
    assert plain_rows(trace.complete) == [
        {
            "cat": "cpu_op", "name": "aten::mm", "pid": "428", "tid": "454", "start_ns": 0, "duration_ns": 119904,
            "line": 6, "correlation": None, "external_id": 66049, "shapes": "[[2, 3], []]", "occupancy": None,
            "grid_x": None, "grid_y": None, "grid_z": None,
        },
        {
            "cat": "kernel", "name": "gemm", "pid": "0", "tid": "7", "start_ns": 13593, "duration_ns": 90569,
            "line": 17, "correlation": 35, "external_id": 66049, "shapes": None, "occupancy": 40.0,
            "grid_x": 8, "grid_y": 2, "grid_z": 1,
        },
    ]  # fmt: skip
    assert plain_rows(trace.flows) == [
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "pid": "0", "tid": "7", "id": 35, "start_ns": 13593}
    ]
    assert [(row["name"], row["start_ns"], row["line"]) for row in plain_rows(trace.instants)] == [
        ("[memory]", 2554, 30)
    ]
    assert plain_rows(trace.names) == [{"pid": "428", "tid": "0", "name": "process_name", "value": "python3"}]
    assert (trace.partial, list(trace.notes)) == ("", [])


def test_the_layout_of_kineto_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "_TAIL_BYTES", 1)
    decode = Decoder.decode
    decoded: list[EventBatch | None] = []

    def watched(self: Decoder, data: bytes) -> EventBatch | None:
        decoded.append(decode(self, data))
        return decoded[-1]

    monkeypatch.setattr(Decoder, "decode", watched)
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 500)
    trace = read(KINETO)
    assert [piece is not None and piece.events for piece in decoded] == [1, 1, 1]
    assert trace.complete["line"].to_list() == [6, 17]


@pytest.mark.parametrize("decodes", [True, False], ids=["fast", "tolerant"])
class TestSpellings:
    def rows(self, listed: list[Any], *, decodes: bool) -> list[dict[str, Any]]:
        # The end of a list is read the tolerant way in any case: here it holds nothing.
        document = "[" + ", ".join([*map(json.dumps, listed), *["{}"] * 40_000]) + "]"
        return plain_rows(read(document, decodes=decodes).complete)

    def test_keys_match_in_any_letter_case(self, decodes: bool) -> None:
        spellings = ["External id", "external id", "EXTERNAL ID"]
        rows = self.rows([kernel(args={key: index}) for index, key in enumerate(spellings)], decodes=decodes)
        assert [row["external_id"] for row in rows] == [0, 1, 2]

    def test_numbers_written_as_texts(self, decodes: bool) -> None:
        event = kernel(ts="1712195495519689.123", dur="2", pid="3", args={"correlation": "42", "grid": "x"})
        (row,) = self.rows([event], decodes=decodes)
        assert (row["duration_ns"], row["pid"], row["correlation"], row["grid_x"]) == (2000, "3", 42, None)

    def test_threads_by_number_and_by_name(self, decodes: bool) -> None:
        rows = self.rows([kernel(tid=7), kernel(tid="stream 7"), kernel(tid="7"), kernel(tid=-1)], decodes=decodes)
        assert [row["tid"] for row in rows] == ["7", "stream 7", "7", "-1"]

    def test_epoch_times_with_decimals(self, decodes: bool) -> None:
        fractions = [".001", ".999", ".5", ""]
        listed = ", ".join(
            f'{{"ph": "X", "name": "x", "ts": 1712195495519689{fraction}, "dur": 0.001}}' for fraction in fractions
        )
        trace = read(f"[{listed}{', {}' * 40_000}]", decodes=decodes)
        assert trace.origin_ns == 1712195495519689000
        assert trace.complete["start_ns"].to_list() == [1, 999, 500, 0]
        assert trace.complete["duration_ns"].to_list() == [1, 1, 1, 1]

    def test_missing_times(self, decodes: bool) -> None:
        listed = [
            kernel(),
            {"ph": "X", "name": "x"},
            kernel(ts=None),
            kernel(dur=None),
            kernel(dur=10**13),
            kernel(dur=-1),
        ]
        trace = read("[" + ", ".join([*map(json.dumps, listed), *["{}"] * 40_000]) + "]", decodes=decodes)
        assert trace.complete["duration_ns"].to_list() == [2500]
        assert [note.reason.partition(":")[0] for note in trace.notes] == [
            "2 events have no start time",
            "1 event has no readable duration",
            "2 events have implausible durations (negative, or over seven days)",
        ]

    def test_missing_and_invalid_arguments(self, decodes: bool) -> None:
        listed: list[Any] = [kernel(args=args) for args in (None, "x", [1], 5, {}, {"correlation": None})]
        listed.append({key: value for key, value in kernel().items() if key != "args"})
        assert [row["correlation"] for row in self.rows(listed, decodes=decodes)] == [None] * 7

    def test_kinds_of_values(self, decodes: bool) -> None:
        values = [1.0, 1.5, True, [1], {"a": 1}, "7", "x", 2**63, -(2**62)]
        rows = self.rows([kernel(args={"correlation": value}) for value in values], decodes=decodes)
        assert [row["correlation"] for row in rows] == [1, None, None, None, None, 7, None, None, -(2**62)]
        rows = self.rows([kernel(args={"Input Dims": value}) for value in values[:7]], decodes=decodes)
        assert [row["shapes"] for row in rows] == ["1", "1.5", "true", "[1]", '{"a": 1}', "7", "x"]
        rows = self.rows([kernel(args={"est. achieved occupancy %": value}) for value in values[:7]], decodes=decodes)
        assert [row["occupancy"] for row in rows] == [1.0, 1.5, None, None, None, 7.0, None]

    def test_launch_sizes(self, decodes: bool) -> None:
        grids = [[8], [8, 2], [8, 2, 3], [], [1, 2, 3, 4], [1.5], ["1"], 8]
        rows = self.rows([kernel(args={"grid": grid}) for grid in grids], decodes=decodes)
        nulls = (None, None, None)
        assert [(row["grid_x"], row["grid_y"], row["grid_z"]) for row in rows] == [
            (8, 1, 1), (8, 2, 1), (8, 2, 3), nulls, nulls, nulls, nulls, nulls,
        ]  # fmt: skip

    def test_more_keys_than_any_real_trace_has(self, decodes: bool) -> None:
        listed = [kernel(args={f"key {n}": n, 'a "quoted" one': 1, "correlation": n}) for n in range(500)]
        assert [row["correlation"] for row in self.rows(listed, decodes=decodes)] == list(range(500))


def test_the_first_spelling_that_an_event_has_counts() -> None:
    args = (Arg("bytes", ("bytes", "size"), ArgKind.INTEGER),)
    listed = [kernel(args=args) for args in ({"size": 1}, {"bytes": 2}, {"size": 3, "bytes": 4})]
    source_text = json.dumps(listed)
    for text in (source_text, source_text[:-1] + ", {}" * 40_000 + "]"):
        path = Path("trace.json")
        trace = read_trace(InputFile.open(str(path), stream=_stream(text)), args)
        assert trace.complete["bytes"].to_list() == [1, 2, 4]


def _stream(text: str) -> Any:
    return io.BytesIO(text.encode())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_traces_in_other_encodings_are_read(encoding: str) -> None:
    assert plain_rows(read(json.dumps([kernel(name="größe")], ensure_ascii=False).encode(encoding)).complete)[0][
        "name"
    ] == ("größe")


def test_unread_phases_are_counted() -> None:
    trace = read(json.dumps([kernel(), {"ph": "C", "name": "memory"}, {"ph": "B", "name": "x"}, {}]))
    assert trace.complete.height == 1
    assert [(note.severity, note.line) for note in trace.notes] == [("info", 1)]
    assert trace.notes[0].reason.startswith("2 events are counters, or asynchronous or open intervals")


@pytest.mark.parametrize(
    ("head", "is_trace"),
    [
        (KINETO.encode()[:200], True),
        (b'[{"name": "a", "ph": "X"', True),
        (b'[{}, {"args": {"x": 1}, "ph" : "M"', True),
        (b' \n{"displayTimeUnit": "ns", "traceEvents":[', True),
        (b'{"schema": "1.0", "nodes": [{"ph": "X"}]}', False),
        (b'[{"kernel": "x", "time": 1}]', False),
        (b"==7207== NVPROF is profiling", False),
        (b'"traceEvents": [', False),
        (b"", False),
    ],
)
def test_a_trace_is_recognized_by_its_beginning(head: bytes, is_trace: bool) -> None:
    assert looks_like_trace(head) is is_trace


def test_requested_arguments_become_columns() -> None:
    assert read("[]").complete.columns[7:] == [
        "correlation", "external_id", "shapes", "occupancy", "grid_x", "grid_y", "grid_z",
    ]  # fmt: skip
    assert len(ARGS) == 5


def test_arguments_change_type_after_many_equal_ones() -> None:
    args: list[dict[str, object]] = [{"correlation": number} for number in range(1000)]
    args[500] = {"correlation": "7", "grid": [3, 2]}
    args[700] = {"unknown": 1}
    trace = read(json.dumps({"traceEvents": [kernel(ts=10 + n, args=event_args) for n, event_args in enumerate(args)]}))
    expected = [*range(500), 7, *range(501, 700), None, *range(701, 1000)]
    assert trace.complete["correlation"].to_list() == expected
    assert trace.complete["grid_x"].drop_nulls().to_list() == [3]


def test_events_are_split_by_category_while_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.loaders.chrome_trace.read_trace._WATCHED_CHUNK_ROWS", 1)
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 300)
    events = [kernel(ts=50 + index, cat=cat) for index, cat in enumerate(("kernel", "cpu_op", "cpu_op", "kernel"))]
    seen: list[tuple[str, int]] = []
    split = EventSplit(
        {"gpu": ("start_ns",), "other": ("line", "grid"), "on seven": ("name",)},
        {"kernel": "gpu"},
        {"op": "other"},
        {"7": "on seven"},
    )
    source = InputFile.open("x", stream=io.BytesIO("[\n{}\n]".format(",\n".join(map(json.dumps, events))).encode()))
    trace = read_trace(
        source, ARGS, split=split, watch=lambda part, rows: seen.append((part, rows.height)), make_pool=None
    )
    assert seen == [("gpu", 1), ("other", 1), ("other", 1), ("gpu", 1)]
    assert (trace.complete.width, trace.origin_ns) == (0, 50_000)
    assert (trace.categories, sorted(trace.seen)) == (
        {"kernel": 2, "cpu_op": 2},
        ["correlation", "external_id", "grid", "occupancy"],
    )
    assert trace.parts["on seven"].columns == ["name"]
    assert trace.parts["other"].columns == ["line", "grid_x", "grid_y", "grid_z"]
    assert trace.parts["gpu"]["start_ns"].to_list() == [0, 3000]
    assert trace.parts["other"]["line"].to_list() == [3, 4]
