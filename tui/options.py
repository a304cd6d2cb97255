"""What the command line asks the explorer to open, and how; paths as people type them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tui.model.aggregation import Aggregation


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The choices that the explorer starts with."""

    paths: tuple[str, ...]
    """Files to open, each a profile; ``-`` is standard input, which `sys.stdin` then holds, not the keyboard."""

    format_in: str | None = None
    """The name of the format, where it is not to be recognized."""

    session: int | None = None
    """The only session to show, or None for all."""

    aggregation: Aggregation = field(default_factory=Aggregation)
    """The iterations to show, and what they end with."""

    gpu: str | None = None
    """The model of the GPU, where the input does not record it."""

    peaks: tuple[str, ...] = ()
    """Peaks of the GPU, as ``bf16=750``."""

    theme: str = "dark"
    """dark or light."""

    color: str = "truecolor"
    """What the terminal can show: truecolor, 256, 16 or none."""

    ascii_only: bool = False
    """Draw with ASCII characters alone."""

    resume: bool = False
    """Go back at once to where the user left off in these files."""

    follow: bool = False
    """The files are still being written: what is new is read when it is complete."""

    cache: bool = True
    """Use what was kept of the files, and keep what is read of them."""

    mouse: bool = True
    """Take the mouse from the terminal."""


def user_path(text: str) -> Path:
    """The path that a person typed, with ``~`` for a home directory.

    >>> user_path("~nobody-of-this-name/x"), user_path("a/b")
    (PosixPath('~nobody-of-this-name/x'), PosixPath('a/b'))
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def path_exists(text: str) -> bool:
    r"""Whether a typed path names something that is there; what cannot be a path does not.

    >>> path_exists("."), path_exists("x" * 10_000), path_exists("a\0b")
    (True, False, False)
    """
    try:
        return user_path(text).exists()
    except (OSError, ValueError):
        return False
