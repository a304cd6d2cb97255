"""Processes that run modules of this program: how they are begun, and ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess

_ROOT: Final = Path(__file__).parents[2]


def command_of(module: str) -> tuple[str, ...]:
    """What runs a module, told by its name.

    Without ``-P`` Python would look for modules in the working folder first, which may be anybody's.
    """
    return sys.executable, "-P", "-m", module


def environment() -> dict[str, str]:
    """The environment of this process, and where such a process finds the modules of this program."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and let go of its pipes; nobody may be waiting for it."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # What was not sent yet has nowhere to go.
            with suppress(OSError):
                stream.close()
