"""A block knows where its lines start, however long they are and wherever they are cut for the search."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tui.loaders.text.block import _AT_ONCE, Block


@pytest.mark.parametrize("longest", [0, 3, 20, 400, 3 * _AT_ONCE // 2])
@pytest.mark.parametrize("size", [100, _AT_ONCE - 1, _AT_ONCE, 2 * _AT_ONCE + 9])
def test_every_line_is_found(longest: int, size: int) -> None:
    chance = random.Random(longest + size)
    lines: list[bytes] = []
    held = 0
    while held < size:
        lines.append(b"a\tb%% 7"[: chance.randint(0, 8)].ljust(chance.randint(0, longest), b"x"))
        held += len(lines[-1]) + 1
    block = Block.of(b"".join(line + b"\n" for line in lines), 5)
    assert block.line_count == len(lines)
    assert np.diff(block.starts).tolist() == [len(line) + 1 for line in lines]
    assert block.is_ascii
    assert block.raw(len(lines) - 1) == lines[-1]


@pytest.mark.parametrize("place", [0, 1, 7, 8, _AT_ONCE - 1, _AT_ONCE, _AT_ONCE + 70])
def test_what_is_not_ascii_is_noticed_wherever_it_stands(place: int) -> None:
    data = bytearray(b"x" * (_AT_ONCE + 80) + b"\n")
    data[place : place + 2] = "é".encode()
    assert not Block.of(bytes(data), 1).is_ascii
    data[place : place + 2] = b"\x00\x00"
    assert Block.of(bytes(data), 1).raw(0) == b"x" * (_AT_ONCE + 78)
