"""A block has the starts of its lines, for any line length and any split for the search."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tui.loaders.text.block import _SEARCH_BYTES, Block


@pytest.mark.parametrize("longest", [0, 3, 20, 400, 3 * _SEARCH_BYTES // 2])
@pytest.mark.parametrize("size", [100, _SEARCH_BYTES - 1, _SEARCH_BYTES, 2 * _SEARCH_BYTES + 9])
def test_line_starts_are_found(longest: int, size: int) -> None:
    chance = random.Random(longest + size)
    lines: list[bytes] = []
    total = 0
    while total < size:
        lines.append(b"a\tb%% 7"[: chance.randint(0, 8)].ljust(chance.randint(0, longest), b"x"))
        total += len(lines[-1]) + 1
    block = Block.from_data(b"".join(line + b"\n" for line in lines), 5)
    assert block.line_count == len(lines)
    assert np.diff(block.starts).tolist() == [len(line) + 1 for line in lines]
    assert block.is_ascii
    assert block.raw(len(lines) - 1) == lines[-1]


@pytest.mark.parametrize("position", [0, 1, 7, 8, _SEARCH_BYTES - 1, _SEARCH_BYTES, _SEARCH_BYTES + 70])
def test_non_ascii_text_is_detected_at_any_position(position: int) -> None:
    data = bytearray(b"x" * (_SEARCH_BYTES + 80) + b"\n")
    data[position : position + 2] = "é".encode()
    assert not Block.from_data(bytes(data), 1).is_ascii
    data[position : position + 2] = b"\x00\x00"
    assert Block.from_data(bytes(data), 1).raw(0) == b"x" * (_SEARCH_BYTES + 78)
