"""Columns of ranks side by side."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind


RANKS: Final = (
    Column("rank", "Rank", K.NUMBER, "Rank of the process among those that worked together.", 6),
    Column("host", "Host", K.TEXT, "Machine that it ran on.", 8),
    Column("who", "Who", K.TEXT, "Rank, or session and process where the input tells no rank.", 1),
    Column("gpus", "GPUs", K.NUMBER, "GPUs that it used.", 7),
    Column("iterations", "Iterations", K.NUMBER, "Iterations whose time is known.", 6),
    Column("iteration_avg_ns", "Iteration", K.DURATION, "Mean time of an iteration.", 2),
    Column("iteration_std_ns", "Iteration std", K.DURATION, "Standard deviation of the iterations' times (n - 1).", 6),
    Column("iteration_max_ns", "Longest iteration", K.DURATION, "The longest iteration.", 6),
    Column(
        "came_last",
        "Came last",
        K.COUNT,
        "Iterations in which it was in the long collectives for the shortest time: the others waited for it.",
        3,
    ),
    Column("waited_ns", "Waited", K.DURATION, "Time in long collectives above the rank that came last.", 3),
    Column("behind_ns", "Above mean", K.DURATION, "The rank's iteration less the mean over the ranks.", 3),
    Column("mean_ns", "Mean", K.DURATION, "Mean over the ranks.", 3),
    Column("spread_pct", "Spread%", K.PERCENT, "Longest less shortest rank, as a share of the mean.", 2),
    Column("longest_rank", "Longest", K.TEXT, "Rank whose iteration is the longest.", 4),
    Column("last_rank", "Last to collectives", K.TEXT, "Rank that came last to the long collectives.", 2),
    Column("wait_ns", "Waits", K.DURATION, "What the rank that waited longest was in them above the last one.", 3),
    Column("shortest_ns", "Shortest", K.DURATION, "Shortest over the ranks.", 6),
    Column("longest_ns", "Longest", K.DURATION, "Longest over the ranks.", 6),
    Column("ranks", "Ranks", K.NUMBER, "How many ranks have it.", 7),
)
