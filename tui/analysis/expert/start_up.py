"""Where start-up ends, and which iterations to judge without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.analysis.expert.figures import real
from tui.analysis.expert.words import these_alone

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case


def first_warm(case: Case) -> tuple[int, int, int] | None:
    """The first iteration that does not warm up (as I10 tells), when it begins, and the last one.

    None where fewer than two are left, or where iterations were chosen already.
    """
    steps = case.iterations
    if case.profile.aggregation.is_part or steps.height < 2:
        return None
    took = steps["duration_ns"]
    warms_up = took[0] > case.limit("I10", "median") * real(took[1:].median())
    if steps.height - warms_up < 2:
        return None
    first = steps.row(int(warms_up), named=True)
    return first["iteration"], first["start_ns"], steps["iteration"][-1]


def judge_what_repeats(case: Case, first: int, last: int) -> str:
    """Advice to judge a run without start-up: the steady iterations that view Iterations proposes, else all warm ones.

    Args:
        case: The run.
        first: Number of the first iteration that is warm.
        last: Number of the last.
    """
    steady = case.steady
    if steady is not None and steady["steady_first"] >= first:
        which, how = "the steady iterations", these_alone(steady["steady_first"], steady["steady_last"], proposed=True)
    else:
        which, how = "what follows start-up", these_alone(first, last)
    return f"Judge {which} alone: {how}. Start-up is paid once."
