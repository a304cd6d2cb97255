"""The reader of Protocol Buffers: any value comes back, and damage ends a message and nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.wire import field, fixed64, message, varint
from tui.loaders.protobuf_wire import FieldKind, Messages, WireReader

WANTED = {1: FieldKind.INT, 2: FieldKind.SPAN, 3: FieldKind.DOUBLE, 4: FieldKind.FIXED}


def read(*contents: bytes, damaged: int = 0) -> tuple[WireReader, Messages]:
    """Messages that follow each other."""
    wire = WireReader.from_bytes(b"".join(contents))
    ends = np.cumsum([len(content) for content in contents])
    found = wire.messages(ends - [len(content) for content in contents], ends, WANTED)
    assert wire.damaged == damaged
    return wire, found


int64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.tuples(int64, st.text(max_size=300), st.floats(allow_nan=False)), min_size=1, max_size=6))
def test_values_come_back(rows: list[tuple[int, str, float]]) -> None:
    wire, found = read(*(message((1, number), (9, b"unknown"), (2, text), (3, real)) for number, text, real in rows))

    assert found.ints(1).tolist() == [number for number, _, _ in rows]
    assert wire.texts(*found.spans(2).last_by_owner(len(rows))) == [text for _, text, _ in rows]
    assert found.values(3).tolist() == [real for _, _, real in rows]


def test_missing_repeated_and_fixed_fields() -> None:
    wire, found = read(b"", message((1, 5), (1, 7), (2, "a"), (2, "b")), fixed64(4, 1 << 40))

    assert (found.has(1).tolist(), found.ints(1).tolist()) == ([False, True, False], [0, 7, 0])
    parts = found.spans(2)
    assert (parts.owner.tolist(), wire.texts(parts.begin, parts.end)) == ([1, 1], ["a", "b"])
    assert found.ints(4).tolist() == [0, 0, 1 << 40]


def test_unknown_fields_of_every_wire_type_are_passed_over() -> None:
    odd = field(7, 300) + fixed64(8, 1) + varint(9 << 3 | 5) + b"abcd" + field(1000, b"x" * 200)

    assert read(odd + field(1, 3))[1].ints(1).tolist() == [3]


@pytest.mark.parametrize(
    "bad",
    [
        varint(2 << 3 | 2) + varint(1 << 62) + b"ab",  # longer than anything
        varint(2 << 3 | 2) + varint((1 << 64) - 1) + b"ab",
        varint(2 << 3 | 3),  # a group
        varint(2 << 3 | 7),
        b"\x00\x01",  # field 0
        varint(3 << 3 | 1) + b"abc",  # half a double
        b"\xff" * 11,
    ],
)
def test_damage_ends_its_message_alone(bad: bytes) -> None:
    found = read(field(1, 1), field(1, 2) + bad, field(1, 3), damaged=1)[1]

    assert found.ints(1).tolist() == [1, 2, 3]


def test_fields_of_one_message_are_cut_one_by_one() -> None:
    content = b"".join(field(4, bytes([number % 256])) for number in range(1000)) + message(
        (1, -5), (3, 1.5), (2, "end")
    )
    wire = WireReader.from_bytes(content)
    fields = wire.split(0, wire.size)

    assert len(fields.positions(4)[0]) == 1000
    assert fields.ints == {1: -5}
    assert wire.texts(*fields.positions(2)) == ["end"]
    assert wire.split(0, wire.size - 2).positions(2)[0].size == 1
    assert wire.damaged == 1


def test_a_message_with_very_many_fields_costs_no_more_steps() -> None:
    many = field(1, 7) + b"".join(field(2, b"") for _ in range(20_000))

    assert len(read(field(2, b""), many)[1].spans(2)) == 20_001


def test_any_bytes_are_survived() -> None:
    rng = random.Random(3)
    for _ in range(200):
        wire = WireReader.from_bytes(rng.randbytes(rng.randrange(1, 300)))
        fields = wire.split(0, wire.size)
        assert (fields.ends <= wire.size).all()
        found = wire.messages(np.array([0]), np.array([wire.size]), WANTED)
        assert (found.spans(2).end <= wire.size).all()
