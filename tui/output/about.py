"""Metadata of an exported table, for the formats that can carry a header."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tui.text import plain

NAMED: Final = 3
"""So many files are named one by one; of more the first, and how many there are."""


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class About:
    """Where an exported table comes from."""

    profile: str
    """The name of the input, as ``run.nvprof.log``."""

    title: str
    """The table for people, as ``Kernels`` or ``Ops and Kernels, Launches``."""

    view: str = ""
    """The view's name, as ``report --view`` takes it; empty for what is no view."""

    of: str = ""
    """What its rows belong to: the parent row, the session; empty for all that was read."""

    aggregation: str = ""
    """The iterations that were chosen; empty for all."""

    partial: str = ""
    """How much of the input was read, where that is not all of it."""

    rows: str = ""
    """How many of its rows, and what was left out; empty for all."""

    filter: str = ""
    """What the rows match; empty where there is no filter."""

    order: str = ""
    """What the rows are sorted by."""

    when: datetime = field(default_factory=_now)
    """The time of the export, with its zone."""

    @property
    def date(self) -> str:
        """The time for people, as ``2026-11-21 16:20 UTC``."""
        return self.when.strftime("%Y-%m-%d %H:%M %Z").strip()

    @property
    def which(self) -> str:
        """Which rows these are, in one line."""
        partial = f"partial: {self.partial}" if self.partial else ""
        matching = f"filter {self.filter}" if self.filter else ""
        in_order = f"sorted by {self.order}" if self.order else ""
        parts = (self.of, self.aggregation, partial, self.rows, matching, in_order)
        return ", ".join(part for part in parts if part)

    @property
    def line(self) -> str:
        """All but the date in one line, for what has no other place for it; nothing in it can act on a terminal."""
        return plain(f"{self.profile}: {self.title}{f' ({self.which})' if self.which else ''}")

    def facts(self) -> dict[str, str]:
        """All of it by name, what is empty left out."""
        facts = {
            "profile": self.profile,
            "view": self.view,
            "title": self.title,
            "of": self.of,
            "aggregation": self.aggregation,
            "partial": self.partial,
            "shown": self.rows,
            "filter": self.filter,
            "sorted_by": self.order,
            "exported": self.date,
        }
        return {name: value for name, value in facts.items() if value}


def profile_name(paths: Sequence[str], files: int = 1) -> str:
    """What was opened, in a few words: a file by its name, a folder by its own with the number of files in it.

    Args:
        paths: As the user named them.
        files: How many files were read.

    >>> [profile_name(["runs/a.log"]), profile_name(["runs/"], 2), profile_name(["-"]), profile_name([*"abcd"], 4)]
    ['a.log', 'runs (2 files)', 'standard input', 'a and 3 more files']
    """
    names = ["standard input" if path == "-" else _own_name(path) for path in paths]
    if len(names) == 1:
        return f"{names[0]} ({files} files)" if files > 1 else names[0]
    return ", ".join(names) if len(names) <= NAMED else f"{names[0]} and {len(names) - 1} more files"


def _own_name(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return os.path.basename(os.path.realpath(path)) if name in ("", ".", "..") else name  # noqa: PTH119
