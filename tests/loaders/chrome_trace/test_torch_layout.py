"""Events in the layout that PyTorch writes: the fast path with numpy equals a JSON parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tui.loaders.chrome_trace.arg_columns
from tests.loaders.chrome_trace.documents import ARGS
from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.chrome_trace.torch_layout import find_torch_layout

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import EventBatch, EventRows

NUMBERS = ["0", "7", "66051", "123456789012345", "1234567890123456", "12345678901234567890"]
ODD = ["007", "-3", "1.5", "7.0", "1e3", "null", '"42"', "", "nan", "1 ", "[1]"]
TIMES = [
    "0.000",
    "12.345",
    "4334799753717.446",
    "1712195495519689.047",
    "1712195495519689",
    "5",
    "9999999999999999.000",
]
ODD_TIMES = ["-1.000", "1.5", "01.000", ".500", "1.0000", "1e6", "null", '"3.5"', "1.0 ", "1.00a"]

MEMBERS = [
    '"Input Dims": [[4, 4], []]',
    '"Input Dims": null',
    '"Input Dims": "[4]"',
    '"other": {"a": [{}], "b": "},"}',
    '"other": [1,\n      2]',
    '"grid": [8, 2, 1]',
    '"est. achieved occupancy %": 37.5',
]
ODD_MEMBERS = [
    '"External id": 5',
    '"external id": 6',
    '"correlation": 2',
    '"other": "\\',
    '"a": 1}, {"b": [{',
    '"a": 1} {"b": 2',
    '}], "c": {"d": 1',
    "",
]
NAMES = ["aten::mm", "größe", '\\"', "\\ud83d", "a, b", "}, {", "]"]
ODD_NAMES = ['", "ph": "i', '", "ts": "', "x\x01", '"']


@st.composite
def complete(draw: st.DrawFn, odd: str = "") -> str:
    """Draw one event, with one part possibly replaced by an odd one."""

    def one_of(usual: list[str], others: list[str], part: str) -> str:
        return draw(st.sampled_from(others if odd == part else usual))

    more = draw(st.lists(st.sampled_from(MEMBERS), max_size=2))
    inner = ", ".join(draw(st.permutations([one_of(MEMBERS, ODD_MEMBERS, "members"), *more])))
    number, last = one_of(NUMBERS, ODD, "number"), one_of(NUMBERS, ODD, "last")
    shape = draw(
        st.sampled_from(
            [
                f'"External id": {number},{inner}, "Ev Idx": {last}',
                f'"External id": {number}, "Ev Idx": 4, {inner}, "correlation": {last}',
                f'"External id": {number},      "queued": 0, "correlation": {last}, {inner}',
                f'"correlation": {number}',
                inner,
            ]
        )
    )
    comma = "" if odd == "comma" else ","
    name, start, duration = (
        one_of(NAMES, ODD_NAMES, "name"), one_of(TIMES, ODD_TIMES, "start"), one_of(TIMES[:-1], ODD_TIMES, "duration")
    )  # fmt: skip
    return (
        f'  {{\n    "ph": "X", "cat": "{draw(st.sampled_from(["kernel", "cpu_op"]))}", "name": "{name}", '
        f'"pid": {draw(st.sampled_from(["4", "-1", "7.0", "null"]))}, "tid": 7{comma}\n'
        f'    "ts": {start}, "dur": {duration},\n    "args": {{\n      {shape}\n    }}\n  }}'
    )


@st.composite
def flow_event(draw: st.DrawFn, odd: str = "") -> str:
    def one_of(usual: list[str], others: list[str], part: str) -> str:
        return draw(st.sampled_from(others if odd == part else usual))

    tail = one_of(
        ['"cat": "ac2g", "name": "ac2g"', '"cat": "fwdbwd", "name": "fwdbwd", "bp": "e"'],
        ['"ts": 5', '"x": ', "}", '"id": null', '"cat": "a"}, {"ph": "X"'],
        "members",
    )
    return (
        f'  {{\n    "ph": "{draw(st.sampled_from("stfi"))}", "id": {one_of(NUMBERS, ODD, "number")}, '
        f'"pid": {one_of(NUMBERS, ODD, "last")}, "tid": {one_of(NUMBERS, ODD, "name")}, '
        f'"ts": {one_of(TIMES, ODD_TIMES, "start")},\n    {tail}\n  }}'
    )


others = st.sampled_from(
    [
        '  {\n    "name": "process_name", "ph": "M", "ts": 1.000, "pid": 4, "tid": 0,\n'
        '    "args": {\n      "name": "python"\n    }\n  }',
        '  {\n    "ph": "i", "s": "t", "name": "[memory]",\n    "pid": 4, "tid": 7,\n    "ts": 3.000,\n'
        '    "args": {\n      "correlation": 8\n    }\n  }',
        '  {\n    "ph": "X", "name": "no arguments", "cat": "Trace",\n    "ts": 7.000, "dur": 1.000\n  }',
        '  {"ph": "X", "name": "one line", "ts": 7, "dur": 1}',
        "  {}",
    ]
)
PARTS = ["number", "last", "members", "name", "start", "duration", "comma"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw events, one of them possibly odd."""
    listed = draw(st.lists(complete() | complete() | flow_event() | others, min_size=1, max_size=6))
    part = draw(st.none() | st.sampled_from(PARTS))
    if part is not None:
        listed.insert(draw(st.integers(0, len(listed))), draw(complete(part) | flow_event(part)))
    return "\n" + ",\n".join(listed) + ","


def contents(piece: EventBatch | None) -> Any:
    return None if piece is None else (
        [rows_of(rows, piece.texts) for rows in (piece.complete, piece.instants, piece.flows)],
        piece.names,
        {kind: entry.count for kind, entry in piece.anomalies.items()},
        piece.events,
        piece.newlines,
    )  # fmt: skip


def rows_of(rows: EventRows, texts: list[str]) -> list[dict[str, Any]]:
    def text(code: int) -> str | None:
        return None if code < 0 else texts[code]

    result: list[dict[str, Any]] = [
        {
            **{name: text(getattr(rows, name)[row]) for name in ("cat", "name", "pid", "tid")},
            "start_ns": rows.start_ns[row],
            "duration_ns": None if rows.duration_ns is None else rows.duration_ns[row],
            "phase": None if rows.phase is None else text(rows.phase[row]),
            "number": None if rows.number is None else rows.number[row],
        }
        for row in range(len(rows))
    ]
    for values_of_arg in rows.args:
        arg = ARGS[values_of_arg.column]
        for row, value in zip(values_of_arg.rows.tolist(), values_of_arg.values.tolist(), strict=True):
            shown = text(value) if values_of_arg.values.dtype == "int32" else value
            assert arg.column not in result[row]
            if shown is not None and shown != -(1 << 63):
                result[row][arg.column] = shown
    return result


@pytest.mark.parametrize("least_rows", [1, 16], ids=["patterns", "no patterns"])
@given(st.lists(texts(), min_size=1, max_size=3))
def test_the_fast_path_equals_the_parser(least_rows: int, listed: list[str]) -> None:
    fast, plain = Decoder(ARGS), Decoder(ARGS)
    with patch.object(tui.loaders.chrome_trace.arg_columns, "_MIN_ROWS", least_rows):
        for text in listed:
            data = text.encode()
            batch = fast.decode(data)
            with patch("tui.loaders.chrome_trace.decoder.find_torch_layout", lambda data: None):
                assert contents(batch) == contents(plain.decode(data))


@given(st.lists(complete(), min_size=1, max_size=4), st.integers(0, 10**6), st.integers(0, 255))
def test_the_fast_path_equals_the_parser_after_a_changed_byte(events: list[str], position: int, byte: int) -> None:
    text = bytearray(("\n" + ",\n".join(events) + ",").encode())
    text[position % len(text)] = byte
    with patch.object(tui.loaders.chrome_trace.arg_columns, "_MIN_ROWS", 1):
        batch = Decoder(ARGS).decode(bytes(text))
    with patch("tui.loaders.chrome_trace.decoder.find_torch_layout", lambda data: None):
        assert contents(batch) == contents(Decoder(ARGS).decode(bytes(text)))


def test_the_layout_of_pytorch_needs_no_parser_for_each_event() -> None:
    event = (
        '  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4, "tid": 7,\n'
        '    "ts": {0}.250, "dur": 2.500,\n'
        '    "args": {{\n      "External id": {0},"Input Dims": [[4]], "correlation": {0}\n    }}\n  }},'
    )
    arrow = (
        '  {{\n    "ph": "s", "id": {0}, "pid": 4, "tid": 7, "ts": {0}.250,\n    "cat": "ac2g", "name": "ac2g"\n  }},'
    )
    text = "".join("\n" + template.format(number) for number in range(100, 200) for template in (event, arrow)).encode()
    layout = find_torch_layout(text)
    assert layout is not None
    assert (len(layout.event_indices), len(layout.flows.event_indices), len(layout.other_events)) == (100, 100, 0)
    decoder = Decoder(ARGS)
    with patch.object(tui.loaders.chrome_trace.arg_columns.ArgsDecoder, "decode", None):
        piece = decoder.decode(text)
    assert piece is not None
    complete, _, flows = contents(piece)[0]
    assert [row["external_id"] for row in complete] == [row["correlation"] for row in complete] == list(range(100, 200))
    assert {row["shapes"] for row in complete} == {"[[4]]"}
    assert [row["number"] for row in flows] == [row["start_ns"] // 1000 for row in flows] == list(range(100, 200))


@pytest.mark.parametrize("least_rows", [1, 16], ids=["patterns", "no patterns"])
@pytest.mark.parametrize(
    ("known", "args"),
    [
        ('"a": 1, "b": 2', '"a": 1} {"b": 2'),
        ('"External id": 1, "grid": [1], "Ev Idx": 2', '"External id": 1, "grid": [2], "External id": 3, "Ev Idx": 2'),
        ('"External id": 1, "grid": [1], "Ev Idx": 2', '"External id": 1, "grid": [2], "external id": 3, "Ev Idx": 2'),
        ('"External id": 1, "grid": [1]', '"External id": 1.5, "grid": [1]'),
        ('"External id": 1, "grid": [1]', '"External id": 01, "grid": [1]'),
        ('"External id": 1, "grid": [1]', '"External id": -1, "grid": [1]'),
    ],
    ids=["two objects", "a key twice", "two spellings", "a fraction", "a leading zero", "a sign"],
)
def test_arguments_similar_to_known_ones_are_parsed(least_rows: int, known: str, args: str) -> None:
    event = '\n  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4, "tid": 7,\n'
    event += '    "ts": 1.000, "dur": 2.500,\n'
    event += '    "args": {{\n      {0}\n    }}\n  }},'
    fast, plain = Decoder(ARGS), Decoder(ARGS)
    with patch.object(tui.loaders.chrome_trace.arg_columns, "_MIN_ROWS", least_rows):
        for listed in ([known, known], [known, args], [args, known]):
            text = "".join(map(event.format, listed)).encode()
            batch = fast.decode(text)
            with patch("tui.loaders.chrome_trace.decoder.find_torch_layout", lambda data: None):
                assert contents(batch) == contents(plain.decode(text))
