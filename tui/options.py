"""What the command line asks the explorer to open, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.model.aggregation import Aggregation


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The choices that the explorer starts with."""

    paths: tuple[str, ...]
    """Files to open, each a profile; ``-`` is standard input, which `sys.stdin` then holds apart from the keys."""

    format_in: str | None = None
    """The name of the format, where it is not to be recognized."""

    session: int | None = None
    """The only session to show, or None for all."""

    aggregation: Aggregation = field(default_factory=Aggregation)
    """The iterations to show, and what they end with."""

    gpu: str | None = None
    """The model of the GPU, where the input does not say it."""

    theme: str = "dark"
    """dark or light."""

    color: str = "truecolor"
    """What the terminal can show: truecolor, 256, 16 or none."""

    ascii_only: bool = False
    """Draw with ASCII characters alone."""

    resume: bool = False
    """Go back at once to where the user left off in these files."""

    cache: bool = True
    """Use what was kept of the files, and keep what is read of them."""

    mouse: bool = True
    """Take the mouse from the terminal."""
