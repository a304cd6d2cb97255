"""The reader of Protocol Buffers: any value is read back, and damage affects only its message."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tui.loaders.protobuf_wire
from tests.loaders.wire import field, fixed64, message, varint
from tui.loaders.protobuf_wire import FieldKind, Fields, Messages, WireFile, WireReader

WANTED = {1: FieldKind.INT, 2: FieldKind.SPAN, 3: FieldKind.DOUBLE, 4: FieldKind.FIXED}


def read(*contents: bytes, damaged: int = 0) -> tuple[WireReader, Messages]:
    """Read consecutive messages."""
    wire = WireReader.from_bytes(b"".join(contents))
    ends = np.cumsum([len(content) for content in contents])
    fields = wire.messages(ends - [len(content) for content in contents], ends, WANTED)
    assert wire.damaged == damaged
    return wire, fields


int64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.tuples(int64, st.text(max_size=300), st.floats(allow_nan=False)), min_size=1, max_size=6))
def test_values_are_read_back(rows: list[tuple[int, str, float]]) -> None:
    wire, fields = read(*(message((1, number), (9, b"unknown"), (2, text), (3, real)) for number, text, real in rows))

    assert fields.ints(1).tolist() == [number for number, _, _ in rows]
    assert wire.texts(*fields.spans(2).last_by_owner(len(rows))) == [text for _, text, _ in rows]
    assert fields.values(3).tolist() == [real for _, _, real in rows]


def test_missing_repeated_and_fixed_fields() -> None:
    wire, fields = read(b"", message((1, 5), (1, 7), (2, "a"), (2, "b")), fixed64(4, 1 << 40))

    assert (fields.has(1).tolist(), fields.ints(1).tolist()) == ([False, True, False], [0, 7, 0])
    parts = fields.spans(2)
    assert (parts.owner.tolist(), wire.texts(parts.begin, parts.end)) == ([1, 1], ["a", "b"])
    assert fields.ints(4).tolist() == [0, 0, 1 << 40]


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = field(7, 300) + fixed64(8, 1) + varint(9 << 3 | 5) + b"abcd" + field(1000, b"x" * 200)

    assert read(unknown + field(1, 3))[1].ints(1).tolist() == [3]


@pytest.mark.parametrize(
    "damage",
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
def test_damage_affects_only_its_message(damage: bytes) -> None:
    fields = read(field(1, 1), field(1, 2) + damage, field(1, 3), damaged=1)[1]

    assert fields.ints(1).tolist() == [1, 2, 3]


def test_fields_of_a_long_message_are_split_individually() -> None:
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
    long_message = field(1, 7) + b"".join(field(2, b"") for _ in range(20_000))

    assert len(read(field(2, b""), long_message)[1].spans(2)) == 20_001


def test_numbers_after_many_fields_of_a_message_are_read() -> None:
    kinds = {1: FieldKind.INT, 2: FieldKind.INTS, 3: FieldKind.FIXED, 4: FieldKind.DOUBLE}
    numbers = [*range(5_000), -1]
    content = (
        field(1, 6)
        + b"".join(field(2, number) for number in numbers)
        + fixed64(3, (1 << 64) - 5)
        + field(4, 0.5)
        + field(4, 2.5)
        + field(1, -7)
    )
    wire = WireReader.from_bytes(content, content)
    size = len(content)
    fields = wire.messages(np.array([0, size]), np.array([size, 2 * size]), kinds)
    owner, values = fields.repeated_ints(2)
    assert values.tolist() == numbers * 2
    assert owner.tolist() == [0] * len(numbers) + [1] * len(numbers)
    for number, expected in ((1, -7), (3, -5), (4, 2.5)):
        assert fields.values(number).tolist() == [expected, expected]
        assert fields.has(number).all()
    assert wire.damaged == 0


def test_an_integer_after_very_many_fields_is_read() -> None:
    messages = read(field(1, 5), b"".join(field(2, b"") for _ in range(20_000)) + field(1, -7))[1]

    assert messages.ints(1).tolist() == [5, -7]
    assert messages.has(1).all()


def test_any_bytes_raise_no_unexpected_exception() -> None:
    rng = random.Random(3)
    for _ in range(200):
        wire = WireReader.from_bytes(rng.randbytes(rng.randrange(1, 300)))
        fields = wire.split(0, wire.size)
        assert (fields.ends <= wire.size).all()
        messages = wire.messages(np.array([0]), np.array([wire.size]), WANTED)
        assert (messages.spans(2).end <= wire.size).all()


def in_windows(content: bytes) -> tuple[WireFile, Fields]:
    file = WireFile(lambda begin, end: content[begin:end], len(content))
    return file, file.fields(0, file.size)


def test_fields_read_in_windows_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    content = b"".join(
        field(number, rng.randbytes(rng.choice((0, 3, 60, 700))))
        if number % 3
        else field(number, rng.randrange(1 << 60))
        for number in (rng.randrange(1, 40) for _ in range(300))
    )
    wire = WireReader.from_bytes(content)
    expected = wire.split(0, wire.size)
    for window in (64, 257, 1 << 20):
        monkeypatch.setattr(tui.loaders.protobuf_wire, "_WINDOW_BYTES", window)
        file, fields = in_windows(content)

        assert (fields.numbers.tolist(), fields.begins.tolist()) == (
            expected.numbers.tolist(),
            expected.begins.tolist(),
        )
        assert (fields.ends.tolist(), fields.ints, file.damaged) == (expected.ends.tolist(), expected.ints, 0)


def test_a_cut_field_longer_than_a_window_ends_with_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.protobuf_wire, "_WINDOW_BYTES", 64)
    content = (field(1, b"first") + field(2, bytes(5000)))[:-10]
    file, fields = in_windows(content)

    assert (fields.numbers.tolist(), fields.ends.tolist(), file.damaged) == ([1, 2], [7, len(content)], 1)
    assert file.texts(*fields.positions(1)) == ["first"]


def test_fields_far_apart_are_gathered_in_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.protobuf_wire, "_WINDOW_BYTES", 64)
    file, fields = in_windows(field(1, "one") + field(2, bytes(5000)) + field(1, "two"))
    wire, begins, ends = file.gather(*fields.positions(1))

    assert (wire.size, wire.texts(begins, ends)) == (6, ["one", "two"])


def test_any_bytes_in_windows_raise_no_unexpected_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.protobuf_wire, "_WINDOW_BYTES", 32)
    rng = random.Random(4)
    for _ in range(200):
        file, fields = in_windows(rng.randbytes(rng.randrange(1, 300)))
        assert (fields.begins <= fields.ends).all()
        assert (fields.ends <= file.size).all()


def test_the_first_field_of_small_messages_is_read_alone() -> None:
    messages = [field(1, 300), field(2, 5) + field(1, 7)]
    ends = np.cumsum([len(message_bytes) for message_bytes in messages])
    wire = WireReader.from_bytes(*messages)

    assert wire.leading_ints(ends - [len(message_bytes) for message_bytes in messages], 1).tolist() == [300, -1]
