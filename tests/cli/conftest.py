from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import TRACE


@pytest.fixture(autouse=True)
def _of_commands(cached_samples: None) -> None:
    """All tests of commands share samples."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a copy and two kernels."""
    path = tmp_path / "train.log"
    path.write_text(TRACE)
    return path
