"""Columns of notes, comparisons and of the tables themselves."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind
_TOTALS: Final = ("a_total_ns", "b_total_ns", "delta_ns")
_CALLS: Final = ("a_calls", "b_calls")
_AVERAGES: Final = ("a_avg_ns", "b_avg_ns")

TABLES: Final = (
    Column("repaired", "Repaired", K.FLAG, "Whether the row had lost its shape and was put back together.", 8),
    Column("view", "View", K.TEXT, "The view that it is in.", 2),
    Column("row", "Row", K.TEXT, "The row that the note is on, with those that were gone into on the way to it.", 1),
    Column("note", "Note", K.TEXT, "What was written.", 1),
    Column("written", "Written", K.TEXT, "When, in the time of this machine.", 4),
    Column("written_of", "Of", K.TEXT, "The file as it is now, or as it was before it changed.", 3),
    Column(
        "change",
        "Change",
        K.TEXT,
        "new, gone, or alike: of names that differ, matched as asked; empty where both sides have the name, and "
        "where the side without it may have had it: it holds no row at all, lacks some, or may not have recorded it.",
        4,
    ),
    Column("a_name", "Name before", K.SYMBOL, "Of what is alike: its name in the first profile.", 8),
    Column("b_name", "Name now", K.SYMBOL, "Of what is alike: its name in the second profile.", 8),
    Column(
        "a_total_ns",
        "Before",
        K.DURATION,
        "Time of the first profile, per iteration where both have iterations.",
        2,
        compared_with=_TOTALS,
    ),
    Column(
        "b_total_ns",
        "Now",
        K.DURATION,
        "Time of the second profile, per iteration where both have iterations.",
        2,
        compared_with=_TOTALS,
    ),
    Column(
        "delta_ns",
        "Diff",
        K.DURATION,
        "Now less before; what is new or gone counts as 0 on the other side.",
        1,
        is_signed=True,
        compared_with=_TOTALS,
    ),
    Column("delta_pct", "Diff%", K.PERCENT, "Difference as a share of the time before.", 3, is_signed=True),
    Column(
        "a_calls",
        "Calls before",
        K.COUNT,
        "Calls of the first profile, per iteration as the times are.",
        6,
        compared_with=_CALLS,
    ),
    Column(
        "b_calls",
        "Calls now",
        K.COUNT,
        "Calls of the second profile, per iteration as the times are.",
        6,
        compared_with=_CALLS,
    ),
    Column("a_avg_ns", "Avg before", K.DURATION, "Time of one call of the first profile.", 7, compared_with=_AVERAGES),
    Column("b_avg_ns", "Avg now", K.DURATION, "Time of one call of the second profile.", 7, compared_with=_AVERAGES),
    Column(
        "avg_delta_pct",
        "Avg diff%",
        K.PERCENT,
        "Difference of the time of one call, as a share of that before.",
        5,
        is_signed=True,
    ),
    Column(
        "untold",
        "Not told",
        K.TEXT,
        "Which sessions do not say the time or the calls: a sum that lacks their part is unknown. Where calls have no "
        "time the sum is that of the others, and the true one at least as much. Or why a side may have had it.",
        3,
    ),
)
