"""Parsing of the texts of NVTX ranges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.nvtx_ops import LITERAL_LIMIT, RangeText, Role, literal, read_texts


def parse_text(text: str) -> RangeText:
    """Return the result for one text among others."""
    others = ["other", "{'mod': 'torch', 'op': 'add'}"]
    parsed = read_texts(pl.Series([*(other_text for other_text in others if other_text != text), text])).row(
        -1, named=True
    )
    assert parsed["text"] == text
    return RangeText(
        parsed["op_name"],
        Role(parsed["role"]),
        parsed["framework"],
        parsed["call"],
        parsed["backward"],
        parsed["seq"],
        parsed["input_shapes"],
        parsed["dtype"],
        parsed["stack"],
        parsed["modules"],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forward", RangeText("forward")),
        ("a, b", RangeText("a, b")),
        ("loss, seq = late", RangeText("loss, seq = late")),
        ("aten::to, seq = 46328, op_id = 993998", RangeText("aten::to", framework=True, seq=46328)),
        ("mul, op_id = 7", RangeText("mul", framework=True)),
        (
            "conv, seq = 1, sizes = [[1, 3], []], input_op_ids = [(2,0), (-1,0)]",
            RangeText("conv", framework=True, seq=1, shapes="[[1, 3], []]"),
        ),
        ("FlashBackward, seq = 3", RangeText("FlashBackward", framework=True, backward=True, seq=3)),
        ("AddBackward0, stashed seq=5", RangeText("AddBackward0", framework=True, backward=True, seq=5)),
        ("add, seq = 99999999999999999999", RangeText("add", framework=True)),
        (
            "torch::autograd::AccumulateGrad",
            RangeText("torch::autograd::AccumulateGrad", framework=True, backward=True),
        ),
        ("RegisterPostBackwardFunction", RangeText("RegisterPostBackwardFunction")),
        ("backward", RangeText("backward")),
        ('{"model_config": {"emit_nvtx": true}}', RangeText('{"model_config": {"emit_nvtx": true}}', Role.SETTINGS)),
        ("{'mod': 'torch', 'op': 'mm'}", RangeText("torch.mm", framework=True, call=True)),
        ("{'mod': 'torch', 'op': 5}", RangeText("{'mod': 'torch', 'op': 5}")),
        ("{'mod': open('x'), 'op': 'mm'}", RangeText("{'mod': open('x'), 'op': 'mm'}")),
        ("{'traceMarker': 'a.py:1'}", RangeText("{'traceMarker': 'a.py:1'}")),
        (
            "{'traceMarker': ['C:\\\\dir\\\\a.py:1', 'b.py:2'], 'funcStack': '/<module>/randn'}",
            RangeText("call site", Role.CALL_SITE, stack="b.py:2;C:\\dir\\a.py:1", group=""),
        ),
        ("{'traceMarker': ['a.py:1']}", RangeText("call site", Role.CALL_SITE, stack="a.py:1")),
    ],
)
def test_parsed_texts(text: str, expected: RangeText) -> None:
    assert parse_text(text) == expected


def test_arguments_of_a_call_become_shapes_and_types() -> None:
    args = (
        "{'name': '', 'type': 'tensor', 'shape': (2, 3), 'dtype': 'float32'}, {'name': '', 'type': 'int', 'value': 1}, "
        "{'name': '', 'type': 'tensor', 'shape': (), 'dtype': 'int64'}, "
        "{'name': 'out', 'type': 'tensor', 'shape': (2,), 'dtype': 'float32'}"
    )
    parsed = parse_text(f"{{'mod': 'Tensor', 'op': 'add', 'args': [{args}]}}")
    assert (parsed.name, parsed.shapes, parsed.dtype) == ("Tensor.add", "[[2, 3], [], [], [2]]", "float32, int64")


@pytest.mark.parametrize(
    "text",
    [
        "{'mod': " + "(" * 5000 + ")" * 5000 + "}",
        "{'mod': " + "-" * 19_000 + "1, 'op': 'x'}",
        "{'mod': " + "1+" * 9000 + "1, 'op': 'x'}",
        "{'mod': " + "9" * 15_000 + ", 'op': 'x'}",
        "{'mod': 'a', 'op': 'b', 'args': '" + "x" * LITERAL_LIMIT + "'}",
        "{'mod': __import__('os').system('true'), 'op': 'b'}",
        "{'mod': [x for x in ()], 'op': 'b'}",
        "{'mod': {[]: 1}, 'op': 'b'}",
        "{'mod': '\0', 'op': 'b'}",
    ],
    ids=["brackets", "signs", "sums", "digits", "long", "call", "comprehension", "unhashable", "nul"],
)
def test_texts_that_look_like_literals_are_names(text: str) -> None:
    assert literal(text) is None
    parsed = parse_text(text)
    assert parsed.role is Role.OP
    assert parsed.name == text[:2000]
    assert not parsed.call


def test_no_texts() -> None:
    assert read_texts(pl.Series([], dtype=pl.String)).is_empty()


@given(st.text(alphabet="{}[]()'\":,\\ modpargstrceMkTunSlx0-9.=*#\n\0é", max_size=80))
def test_any_text_raises_no_exception(text: str) -> None:
    parse_text(text)
    parse_text("{'mod': " + text)
    parse_text("{'traceMarker': " + text + "}")
    parse_text("op, seq = " + text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["mod", "traceMarker"]), values, values, values)
def test_any_literal_is_parsed_back(key: str, first: object, second: object, third: object) -> None:
    parsed = parse_text(repr({key: first, "op": second, "args": third, "funcStack": third}))
    assert isinstance(parsed.name, str)
    assert parsed.shapes is None or parsed.shapes.startswith("[[")
