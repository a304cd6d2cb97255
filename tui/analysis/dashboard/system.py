"""System configuration: only what the input says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.dashboard.facts import Fact
from tui.analysis.sessions import rank_words
from tui.model.columns import ColumnKind

if TYPE_CHECKING:
    from tui.model.profile import Profile

_SYSTEM: Final = (
    ("command", "Command"),
    ("pid", "Process"),
    ("format", "Format"),
    ("tool", "Profiler"),
    ("tool_version", "Profiler version"),
    ("framework", "Framework"),
    ("driver_version", "Driver"),
    ("cuda_version", "CUDA"),
    ("cudnn_version", "cuDNN"),
    ("host", "Host"),
)


def system(profile: Profile) -> tuple[Fact, ...]:
    """What the input says of the system: each value once, those of several sessions joined by commas."""
    facts = []
    for column, label in _SYSTEM:
        values = profile["sessions"][column].drop_nulls().unique(maintain_order=True).cast(pl.String).to_list()
        if values:
            facts.append(Fact(column, label, ", ".join(values), ColumnKind.TEXT, "as the input says"))
    ranks = profile["sessions"].select(rank_words())["rank_words"].drop_nulls().unique(maintain_order=True).to_list()
    if ranks:
        told = ", ".join(words.removeprefix("rank ") for words in ranks)
        facts.append(Fact("rank", "Rank", told, ColumnKind.TEXT, "as the input says"))
    sessions = profile["sessions"].height
    if sessions > 1:
        facts.insert(0, Fact("sessions", "Sessions", sessions, ColumnKind.COUNT, "profiled processes in the input"))
    step = profile["sessions"]["start_resolution_ns"].max()
    if isinstance(step, int) and step > 1:
        source = "the digits that the input gives"
        facts.append(Fact("start_resolution_ns", "Start times to", step, ColumnKind.DURATION, source, is_step=True))
    return tuple(facts)
