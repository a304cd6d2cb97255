"""Reads a text as nvprof output, for tests."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from tui.loaders.input_file import InputFile
from tui.loaders.nvprof.nvprof_reader import NVPROF
from tui.loaders.text.text_log import TextLogLoader

if TYPE_CHECKING:
    from tui.model.profile import Profile

COLUMNS = ("section", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "time_pct", "line")


def read(text: str | bytes) -> Profile:
    """Return the profile of a text; a string is dedented first, bytes are read unchanged."""
    data = textwrap.dedent(text).lstrip("\n").encode() if isinstance(text, str) else text
    return TextLogLoader((NVPROF,)).load(InputFile.open("-", stream=io.BytesIO(data)))


def summary(profile: Profile, *columns: str) -> list[tuple[object, ...]]:
    """Return the rows of the summary in the order of their lines."""
    return profile["summary"].sort("line", maintain_order=True).select(columns or COLUMNS).rows()


def issues(profile: Profile) -> list[tuple[int, str]]:
    """Return line and severity of each issue, in the order of the lines."""
    return sorted(profile["issues"].select("line", "severity").rows())
