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
        "Iterations in which it was in the long collectives for the shortest time, and another waited long for it.",
        3,
    ),
    Column("waited_ns", "Long waits", K.DURATION, "Time in long collectives above the rank that came last.", 3),
    Column("behind_ns", "Above mean", K.DURATION, "The rank's iteration less the mean over the ranks.", 3),
    Column("mean_ns", "Mean", K.DURATION, "Mean over the ranks.", 3),
    Column("spread_pct", "Spread%", K.PERCENT, "Longest less shortest rank, as a share of the mean.", 2),
    Column("longest_rank", "Slowest", K.TEXT, "Rank whose iteration is the longest.", 4),
    Column("last_rank", "Last to collectives", K.TEXT, "Rank that came last to the long collectives.", 2),
    Column("wait_ns", "Waits", K.DURATION, "What the rank that waited longest was in them above the last one.", 3),
    Column("shortest_ns", "Shortest", K.DURATION, "Shortest over the ranks.", 6),
    Column("longest_ns", "Longest", K.DURATION, "Longest over the ranks.", 6),
    Column("ranks", "Ranks", K.NUMBER, "How many ranks have it.", 7),
    Column("rank_source", "Rank from", K.TEXT, "Where its rank is from, where the input itself does not tell it.", 8),
    Column(
        "rank_median_ns", "Median rank", K.DURATION, "Half of the ranks take no longer; the mean of the middle two.", 4
    ),
    Column("above_median_ns", "Above median", K.DURATION, "The slowest rank less the median over the ranks.", 2),
    Column("fastest_rank", "Fastest", K.TEXT, "Rank that takes the shortest time.", 6),
    Column("op_least_ns", "Min", K.DURATION, "GPU time an iteration of the rank that takes least for it.", 4),
    Column("op_middle_ns", "Median", K.DURATION, "GPU time an iteration, median over the ranks that have it.", 3),
    Column("op_most_ns", "Max", K.DURATION, "GPU time an iteration of the rank that takes most for it.", 2),
    Column("most_rank", "Slowest", K.TEXT, "Rank that takes most for it.", 2),
    Column("least_rank", "Fastest", K.TEXT, "Rank that takes least for it.", 6),
    Column("op_spread_pct", "Spread%", K.PERCENT, "Max less min over the ranks, as a share of the mean.", 3),
    Column("apart_ns", "Max-min", K.DURATION, "GPU time an iteration of the slowest rank less that of the fastest.", 2),
    Column("ranks_total_ns", "All ranks", K.DURATION, "GPU time in all iterations of all ranks.", 5),
    Column("rank_op_ns", "Per iteration", K.DURATION, "GPU time of the rank for it, per iteration of the rank.", 1),
    Column("rank_launches", "Launches", K.COUNT, "GPU work of the rank for it, in all its iterations.", 4),
    Column("rank_gpu_ns", "GPU time", K.DURATION, "GPU time of the rank for it, in all its iterations.", 3),
    Column("collective", "Collective", K.TEXT, "What is communicated, as the input or the kernel's name says.", 1),
    Column("collectives", "Collectives", K.COUNT, "How many were matched over the ranks, each counted once.", 4),
    Column("communicator", "Group", K.TEXT, "Process group, as the input tells it.", 7),
    Column("group_size", "Group size", K.NUMBER, "Ranks of the process group, as the input tells it.", 7),
    Column("turn", "No.", K.NUMBER, "Which collective of its group in the iteration, from 0, in order of start.", 3),
    Column("arrival_ns", "Arrives after", K.DURATION, "Start on this rank after the start on the first rank.", 2),
    Column("late_ns", "First to last", K.DURATION, "From the arrival of the first rank to that of the last.", 2),
    Column(
        "comm_wait_ns",
        "Wait",
        K.DURATION,
        "Time in collectives before the last rank has arrived; by clocks, so unknown where they cannot be compared.",
        2,
    ),
    Column(
        "comm_transfer_ns",
        "Transfer",
        K.DURATION,
        "The rest of the time in collectives, once all ranks have arrived: wait and transfer add up to the duration.",
        3,
    ),
    Column("comm_wait_pct", "Wait%", K.PERCENT, "Wait as a share of wait and transfer.", 3),
    Column(
        "comm_unmatched_ns", "Unmatched", K.DURATION, "Time in communication that is matched with no other rank.", 6
    ),
    Column(
        "all_comm_ns", "In collectives", K.DURATION, "Summed durations of communication: wait, transfer, unmatched.", 4
    ),
)
