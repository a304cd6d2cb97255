"""Freed memory is kept for reuse while a context is active, and returns to the system afterwards."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from tui import runtime
from tui.runtime import BLOCK_BYTES, keep_freed_memory, release_freed_memory, use_one_arena

MIB = 1 << 20
needs_glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps it")


def resident_bytes() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


@needs_glibc
def test_freed_memory_below_an_allocation_returns_to_the_system() -> None:
    allocations = [bytes(1000) for _ in range(200_000)]
    resident_before = resident_bytes()
    del allocations[:-1]
    release_freed_memory()
    assert resident_bytes() < resident_before - 100 * 2**20


@needs_glibc
def test_kept_memory_is_reused_without_new_page_faults() -> None:
    size, block_count = 10 << 20, 20
    with keep_freed_memory(BLOCK_BYTES):
        block = b"x" * size
        faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for index in range(block_count):
            block = bytes([index + 1]) * size
        new_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before) * resource.getpagesize()
    assert new_bytes < 0.2 * block_count * len(block)


@needs_glibc
def test_memory_is_kept_until_the_last_context_exits() -> None:
    resident_before = resident_bytes()
    with keep_freed_memory(8 * BLOCK_BYTES):
        with keep_freed_memory(8 * BLOCK_BYTES):
            np.ones(25 * MIB)
            assert resident_bytes() > resident_before + 150 * MIB
        assert resident_bytes() > resident_before + 150 * MIB
    assert resident_bytes() < resident_before + 50 * MIB
    np.ones(25 * MIB)
    assert resident_bytes() < resident_before + 50 * MIB


def test_an_exception_releases_the_memory() -> None:
    with pytest.raises(ValueError, match="damaged"), keep_freed_memory(8 * BLOCK_BYTES):
        raise ValueError("damaged")
    assert not runtime._active_limits


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", None)
    use_one_arena()
    with keep_freed_memory(8 * BLOCK_BYTES):
        np.ones(1)
