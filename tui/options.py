"""The options with which the explorer starts; paths as typed by users."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tui.model.aggregation import Aggregation


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The options of the explorer."""

    paths: tuple[str, ...]
    """Files to open; ``-`` is standard input, which is then not the keyboard."""

    format_in: str | None = None
    """The name of the format; None: it is detected."""

    session: int | None = None
    """The only session to show, or None for all."""

    aggregation: Aggregation = field(default_factory=Aggregation)
    """The iterations to show, and their key."""

    gpu: str | None = None
    """The model of the GPU, if the input does not record it."""

    peaks: tuple[str, ...] = ()
    """Peaks of the GPU, such as ``bf16=750``."""

    theme: str = "dark"
    """dark or light."""

    color: str = "truecolor"
    """The colors of the terminal: truecolor, 256, 16 or none."""

    ascii_only: bool = False
    """Draw only with ASCII characters."""

    resume: bool = False
    """Restore the last view of these files."""

    follow: bool = False
    """The files are still being written; new parts are read when they are complete."""

    cache: bool = True
    """Use the cache."""

    mouse: bool = True
    """Capture the mouse."""


def expand_user_path(text: str) -> Path:
    """Expand ``~`` in a path that a user typed.

    >>> expand_user_path("~nobody-of-this-name/x"), expand_user_path("a/b")
    (PosixPath('~nobody-of-this-name/x'), PosixPath('a/b'))
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def path_exists(text: str) -> bool:
    r"""Return whether a typed path exists; False for invalid paths.

    >>> path_exists("."), path_exists("x" * 10_000), path_exists("a\0b")
    (True, False, False)
    """
    try:
        return expand_user_path(text).exists()
    except (OSError, ValueError):
        return False
