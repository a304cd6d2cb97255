"""What was freed goes back to the system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from tui.loaders.unused_memory import give_back, kept_for_blocks


def used_bytes() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps it")
def test_freed_pieces_below_one_in_use_are_given_back() -> None:
    pieces = [bytes(1000) for _ in range(200_000)]
    before = used_bytes()
    del pieces[:-1]
    give_back()
    assert used_bytes() < before - 100 * 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps it")
def test_blocks_lie_where_those_before_them_lay() -> None:
    size, blocks = 10 << 20, 20
    with kept_for_blocks():
        block = b"x" * size
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for letter in range(blocks):
            block = bytes([letter + 1]) * size
        fresh = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()
    assert fresh < 0.2 * blocks * len(block)
