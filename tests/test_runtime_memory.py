"""What was freed is kept for what comes next as long as somebody asks for it, and goes back to the system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from tui import runtime
from tui.runtime import BLOCK_BYTES, keep_freed_memory, release_freed_memory, use_one_arena

MIB = 1 << 20
of_glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps it")


def used_bytes() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


@of_glibc
def test_freed_pieces_below_one_in_use_are_given_back() -> None:
    pieces = [bytes(1000) for _ in range(200_000)]
    before = used_bytes()
    del pieces[:-1]
    release_freed_memory()
    assert used_bytes() < before - 100 * 2**20


@of_glibc
def test_blocks_lie_where_those_before_them_lay() -> None:
    size, blocks = 10 << 20, 20
    with keep_freed_memory(BLOCK_BYTES):
        block = b"x" * size
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for letter in range(blocks):
            block = bytes([letter + 1]) * size
        fresh = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()
    assert fresh < 0.2 * blocks * len(block)


@of_glibc
def test_memory_is_kept_until_all_who_need_it_have_ended() -> None:
    before = used_bytes()
    with keep_freed_memory(8 * BLOCK_BYTES):
        with keep_freed_memory(8 * BLOCK_BYTES):
            np.ones(25 * MIB)
            assert used_bytes() > before + 150 * MIB
        assert used_bytes() > before + 150 * MIB
    assert used_bytes() < before + 50 * MIB
    np.ones(25 * MIB)
    assert used_bytes() < before + 50 * MIB


def test_work_that_fails_keeps_nothing() -> None:
    with pytest.raises(ValueError, match="damaged"), keep_freed_memory(8 * BLOCK_BYTES):
        raise ValueError("damaged")
    assert not runtime._kept


def test_an_unknown_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", None)
    use_one_arena()
    with keep_freed_memory(8 * BLOCK_BYTES):
        np.ones(1)
