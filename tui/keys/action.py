"""Actions: their keys, where they work, what they do, and their descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where a key works."""

    APP = "everywhere"
    TABLE = "in a table"
    BAR = "in the query bar"
    LOG = "in the log"
    TIMELINE = "in the timeline"
    ITERATIONS = "in iterations"
    CHART = "in the chart of iterations"
    PARTS = "in a view with tabs"
    COMPARE = "in a comparison"
    OPS = "in views of ops"
    TYPES = "in the op types"
    TREE = "in the tree of ops"
    EXPERT = "in Expert Systems"
    FLAME = "in the flame view"
    HOME = "in the list of profiles"


@dataclass(frozen=True, slots=True)
class Action:
    """An action that keys run."""

    id: str
    """Stable name, as ``table.sort``: also its name in the ``:`` command line."""
    keys: str
    """Textual key names, comma separated; the first is the one that is shown."""
    method: str
    """A Textual action string, as ``screen.step_match(1)``: the screen's ``action_step_match`` with the argument 1."""
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence, for the help and the README."""
    scope: Scope
    group: str
    """The heading of its table in the README."""
    footer: int = 0
    """The position among the footer's keys: 1 is always shown, higher ones give way; 0: never shown."""
    has_priority: bool = False
    """Whether it runs before the next key is handled, and before the focused widget sees it."""
    shown_keys: str = ""
    """The keys as users write them, if different from Textual's names."""


MOVE, GO, FIND, WORK = "Movement", "Open and go back", "Find, filter, sort", "Work"
"""The headings of the README's tables of keys."""
