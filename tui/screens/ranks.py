"""The parts of the GPUs view that put ranks side by side: ranks, iterations, ops and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE
from tui.analysis.collectives import (
    COLLECTIVE_RANKS,
    COLLECTIVES,
    clocks,
    collective_kinds,
    collective_ranks,
    matched_collectives,
    unmatched_note,
)
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.iterations.work import activities_of_iteration
from tui.analysis.rank_summary import (
    ITERATION_RANKS,
    OP_RANKS,
    RANK_ITERATIONS,
    RANKS_OF_OP,
    iteration_ranks,
    op_ranks,
    op_type_ranks,
    rank_iterations,
    ranks_of_op,
    several_ranks,
    slowest_ranks,
    why_no_ranks,
)
from tui.fmt import brief_duration, brief_percent
from tui.screens.kernels import launch_crumb
from tui.screens.linked_tables import Level, Row, shown
from tui.screens.tabs import Tab
from tui.widgets.notices import sentence_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.content import Content

    from tui.model.profile import Profile
    from tui.widgets.notices import Draw


MOST_NAMED: Final = 4
"""More ranks than these are counted instead of named."""
NO_ITERATIONS: Final = "no iteration is on two ranks: iterations have to be recorded, as with ProfilerStep or NVTX"


def no_ranks(profile: Profile) -> str:
    """Why there are no ranks to compare."""
    why = why_no_ranks(profile)
    return f"{why}: press S for all" if why and profile.other_sessions else why


def no_rank_iterations(profile: Profile) -> str:
    """Why iterations cannot be compared."""
    return no_ranks(profile) or NO_ITERATIONS


def no_collectives(profile: Profile) -> str:
    """Why there are no collectives."""
    return no_ranks(profile) or clocks(profile).sentence


def iterations_of_rank(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The iterations of the selected rank beside those of the others."""
    row = above.get("ranks")
    return rank_iterations(profile, session=row["session"] if row is not None else -1)


def work_of(level: str) -> Callable[[Profile, Mapping[str, Row]], pl.DataFrame]:
    """What ran in the iteration of the rank that is selected in a table."""

    def rows(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
        row = above.get(level)
        if row is None:
            return profile["activities"].clear()
        return activities_of_iteration(profile, session=row["session"], iteration=row["iteration"])

    return rows


def _ranks_of_iteration(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("slowest_ranks")
    return iteration_ranks(profile, iteration=row["iteration"] if row is not None else -1)


def _ops(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("op_type_ranks")
    return op_ranks(profile, op_type=row["op_type"] if row is not None else "")


def _ranks_of_op(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("op_ranks")
    return ranks_of_op(profile, op=row["op"] if row is not None else "", op_type=row["op_type"] if row else "")


def _collectives(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("collective_kinds")
    if row is None:
        return matched_collectives(profile).clear()
    return matched_collectives(profile, collective=row["collective"], communicator=row["communicator"])


def _ranks_of_collective(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("collectives")
    return collective_ranks(profile).clear() if row is None else collective_ranks(profile, of=row)


def iterations_head(profile: Profile) -> Draw | None:
    """Which rank is the slowest most often."""
    rows = slowest_ranks(profile)
    if rows.is_empty():
        return None
    times = rows.group_by("longest_rank").len("times").sort("longest_rank")
    most = times.filter(pl.col("times") == pl.col("times").max())
    names = most["longest_rank"].to_list()
    of = f"{most['times'][0]} of {rows.height} iterations"
    sentence = f"{names[0]} takes longest in {of}"
    if len(names) > 1:
        sentence = f"no rank takes longest most often: {', '.join(names[:-1])} and {names[-1]} do in {of} each"
        if len(names) > MOST_NAMED:
            sentence = f"no rank takes longest most often: {len(names)} ranks do in {of} each"
    how = "ranks that wait for each other have equal iteration times: see which rank arrives last at collectives"
    return lambda width: sentence_lines([(sentence, "bold"), (how, "$text-muted")], width)


def ops_head(profile: Profile) -> Draw | None:
    """What differs most over the ranks."""
    # The rank that waits is the one that communicates longest.
    rows = op_type_ranks(profile).filter(pl.col("op_type") != COMMUNICATION)
    if rows.is_empty():
        return None
    first = rows.row(0, named=True)

    def draw(width: int) -> list[Content]:
        difference = brief_duration(first["apart_ns"])
        more = f"{first['most_rank']} takes {difference} more per iteration than {first['least_rank']}"
        sentence = f"Besides communication, {first['op_type']} differs most: {more}"
        how = "GPU time per iteration, of the work launched in it; communication includes waits for other ranks"
        return sentence_lines([(sentence, "bold"), (how, "$text-muted")], width)

    return draw


def collectives_head(profile: Profile) -> Draw | None:
    """How much of the time in collectives is waiting, and whether the clocks are good enough."""
    if not several_ranks(profile):
        return None
    rows, known, left = collective_kinds(profile), clocks(profile), unmatched_note(profile)
    wait, transfer = (int(rows[name].sum()) for name in ("comm_wait_ns", "comm_transfer_ns"))

    def draw(width: int) -> list[Content]:
        sentence = [(known.sentence, "$text-muted")]
        if wait + transfer:
            share = brief_percent(100 * wait / (wait + transfer))
            amount = brief_duration(wait)
            whole = brief_duration(wait + transfer)
            words = f"{share} of the time in matched collectives is waiting for the last rank: {amount} of {whole}"
            sentence = [(words, "bold"), *sentence]
        if left:
            sentence.append((left, "$text-muted"))
        return sentence_lines(sentence, width)

    return draw


def _iteration(row: Row) -> str:
    return f"iteration {row['iteration']}"


def rank_parts(ranks_head: Callable[[Profile], Draw | None]) -> tuple[Tab, ...]:
    """The parts, from the ranks to what each waited for.

    Args:
        ranks_head: What stands above the ranks.
    """
    return (
        Tab(
            "ranks",
            "Ranks",
            (
                Level("ranks", *shown("ranks"), lambda row: str(row["who"]), no_ranks),
                Level("rank_iterations", RANK_ITERATIONS, iterations_of_rank, _iteration, no_rank_iterations),
                Level("rank_work", ACTIVITY_TABLE, work_of("rank_iterations"), launch_crumb, no_rank_iterations),
            ),
            no_ranks,
            ranks_head,
        ),
        Tab(
            "slowest",
            "Iterations",
            (
                Level(
                    "slowest_ranks",
                    *shown("slowest_ranks"),
                    _iteration,
                    no_rank_iterations,
                ),
                Level(
                    "iteration_ranks",
                    ITERATION_RANKS,
                    _ranks_of_iteration,
                    lambda row: str(row["who"]),
                    no_rank_iterations,
                ),
                Level("iteration_work", ACTIVITY_TABLE, work_of("iteration_ranks"), launch_crumb, no_rank_iterations),
            ),
            no_ranks,
            iterations_head,
        ),
        Tab(
            "ops",
            "Ops",
            (
                Level(
                    "op_type_ranks",
                    *shown("op_type_ranks"),
                    lambda row: str(row["op_type"]),
                    no_rank_iterations,
                ),
                Level("op_ranks", OP_RANKS, _ops, lambda row: str(row["op"]), no_rank_iterations),
                Level("ranks_of_op", RANKS_OF_OP, _ranks_of_op, lambda row: str(row["who"]), no_rank_iterations),
            ),
            no_ranks,
            ops_head,
        ),
        Tab(
            "collectives",
            "Collectives",
            (
                Level(
                    "collective_kinds",
                    *shown("collective_kinds"),
                    lambda row: str(row["collective"]),
                    no_collectives,
                ),
                Level(
                    "collectives",
                    COLLECTIVES,
                    _collectives,
                    lambda row: f"{row['collective']} {row['turn']} of iteration {row['iteration']}",
                    no_collectives,
                ),
                Level(
                    "collective_ranks",
                    COLLECTIVE_RANKS,
                    _ranks_of_collective,
                    lambda row: str(row["who"]),
                    no_collectives,
                ),
            ),
            no_ranks,
            collectives_head,
        ),
    )
