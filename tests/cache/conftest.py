"""Fixtures of the cache tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.profiles import SAMPLES
from tui.cache import cache as caching


@pytest.fixture(autouse=True)
def settled_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests cache files that they have just written."""
    monkeypatch.setattr(caching, "_SETTLED_NS", -(10**12))


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Create a log."""
    path = tmp_path / "run.nvprof.log"
    path.write_bytes((SAMPLES / "resnet50_training.nvprof.log").read_bytes())
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(path)
