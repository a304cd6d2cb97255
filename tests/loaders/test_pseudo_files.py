"""Files that the system generates on reading: some never end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tui.loaders.base import keep_going
from tui.loaders.raw_input import RawInput
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.output.json_document import source_facts

PSEUDO = ("/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem", "/proc/cpuinfo", "/proc/self/environ")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc")
@pytest.mark.parametrize("path", PSEUDO)
def test_pseudo_files_are_declined_before_reading(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this system has no {path}")
    with pytest.raises(ProftuiError, match=r"this is a system file|cannot be read|ermission"):
        load_input(path)
    # `proftui inspect` says of what it cannot read, too, how large it is.
    assert source_facts(path)["bytes"] in (0, None)


@pytest.mark.skipif(sys.platform != "linux", reason="the devices of Linux")
def test_a_device_in_place_of_a_pipe_is_declined() -> None:
    with Path("/dev/zero").open("rb") as device, pytest.raises(ProftuiError, match="standard input: this is a device"):
        RawInput("-", device.read, fd=os.dup(device.fileno()), on_progress=keep_going)
    with Path(os.devnull).open("rb") as device:
        assert RawInput("-", device.read, fd=os.dup(device.fileno()), on_progress=keep_going).read(1) == b""


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ProftuiError, match="is empty"):
        load_input(str(tmp_path / "empty"))
