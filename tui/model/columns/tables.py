"""Columns of notes, comparisons and of the tables themselves."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


TABLES: Final = (
    Column("repaired", "Repaired", K.FLAG, "Whether the row had lost its shape and was put back together.", 8),
    Column("view", "View", K.TEXT, "The view that it is in.", 2),
    Column("row", "Row", K.TEXT, "The row that the note is on, with those that were gone into on the way to it.", 1),
    Column("note", "Note", K.TEXT, "What was written.", 1),
    Column("written", "Written", K.TEXT, "When, in the time of this machine.", 4),
    Column("written_of", "Of", K.TEXT, "The file as it is now, or as it was before it changed.", 3),
    Column("change", "Change", K.TEXT, "new or gone; empty where both sides have it.", 4),
    Column(
        "a_total_ns", "Before", K.DURATION, "Time of the first profile, per iteration where both have iterations.", 2
    ),
    Column("b_total_ns", "Now", K.DURATION, "Time of the second profile, per iteration where both have iterations.", 2),
    Column("delta_ns", "Diff", K.DURATION, "Now less before; what is new or gone counts as 0 on the other side.", 1),
    Column("delta_pct", "Diff%", K.PERCENT, "Difference as a share of the time before.", 3),
    Column("a_calls", "Calls before", K.RATIO, "Calls of the first profile, per iteration as the times are.", 6),
    Column("b_calls", "Calls now", K.RATIO, "Calls of the second profile, per iteration as the times are.", 6),
    Column("a_avg_ns", "Avg before", K.DURATION, "Time of one call of the first profile.", 7),
    Column("b_avg_ns", "Avg now", K.DURATION, "Time of one call of the second profile.", 7),
    Column(
        "avg_delta_pct", "Avg diff%", K.PERCENT, "Difference of the time of one call, as a share of that before.", 5
    ),
)
