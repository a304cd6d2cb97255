"""What arrays were freed from is kept for the next ones as long as somebody needs it, and then goes back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tui.loaders import reused_memory
from tui.loaders.reused_memory import kept_for_arrays, one_heap

MIB = 1 << 20


def used_bytes() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps it")
def test_memory_is_kept_until_all_who_need_it_have_ended() -> None:
    before = used_bytes()
    with kept_for_arrays():
        with kept_for_arrays():
            np.ones(25 * MIB)
            assert used_bytes() > before + 150 * MIB
        assert used_bytes() > before + 150 * MIB
    assert used_bytes() < before + 50 * MIB
    np.ones(25 * MIB)
    assert used_bytes() < before + 50 * MIB


def test_work_that_fails_keeps_nothing() -> None:
    with pytest.raises(ValueError, match="damaged"), kept_for_arrays():
        raise ValueError("damaged")
    assert not reused_memory._keeping


def test_a_library_that_cannot_be_told_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(reused_memory.ctypes, "CDLL", None)
    one_heap()
    with kept_for_arrays():
        np.ones(1)
