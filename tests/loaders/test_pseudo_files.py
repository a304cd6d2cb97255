"""Files that the system makes as they are read: some never end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tui.loaders.registry import load_one
from tui.model.errors import ProftuiError

PSEUDO = ("/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem", "/proc/cpuinfo", "/proc/self/environ")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc")
@pytest.mark.parametrize("path", PSEUDO)
def test_what_the_system_makes_is_declined_before_it_is_read(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"{path} is not there")
    with pytest.raises(ProftuiError, match=r"is a file of the system|cannot be read|ermission"):
        load_one(path)


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ProftuiError, match="is empty"):
        load_one(str(tmp_path / "empty"))
