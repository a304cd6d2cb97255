from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import TRACE
from tests.profiles import load, load_one
from tui.loaders import registry


@pytest.fixture(autouse=True)
def samples_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands on a sample share what was read of it."""
    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(registry, "load_one", load_one)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a copy and two kernels."""
    path = tmp_path / "train.log"
    path.write_text(TRACE)
    return path
