from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import TRACE


@pytest.fixture(autouse=True)
def _share_samples(cached_samples: None) -> None:
    """Share loaded samples between the tests of commands."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log of a copy and two kernels."""
    path = tmp_path / "train.log"
    path.write_text(TRACE)
    return path
