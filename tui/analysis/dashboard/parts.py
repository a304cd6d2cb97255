"""Everything that the dashboard shows, in parts that are there one after another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.analysis.dashboard.advice import Advice, advice
from tui.analysis.dashboard.board import dashboard
from tui.analysis.dashboard.times import idle_gaps, iteration_courses, iteration_courses_with_uses, wall_time
from tui.analysis.gpu_time.busy_over_time import busy_stretches
from tui.analysis.two_threads import in_two_threads
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui.model.profile import Profile


class Parts(NamedTuple):
    """Something for each part, in the order in which they are there."""

    board: Callable[..., Any]
    """`dashboard`."""
    courses: Callable[..., Any]
    """`iteration_courses`."""
    busy: Callable[..., Any]
    """`busy_stretches`: from then on `tui.analysis.gpu_time.busy_over_time.busy_over_time` is quick."""
    wall: Callable[..., Any]
    """`wall_time`."""
    gaps: Callable[..., Any]
    """`idle_gaps`."""
    advice: Callable[..., Any]
    """`advice`, or a text: why there is none."""
    uses: Callable[..., Any]
    """`iteration_courses_with_uses`."""


def parts(profile: Profile, *, gpu: str | None = None) -> Iterator[Any]:
    """The value of each of `Parts`, one after another, worked out in two threads.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.

    Raises:
        ProftuiError: Nothing is known of ``gpu``, or the user's op types cannot be read.
    """
    makers = Parts(
        board=partial(dashboard, profile, gpu=gpu),
        courses=partial(iteration_courses, profile),
        busy=partial(busy_stretches, profile),
        wall=partial(wall_time, profile),
        gaps=partial(idle_gaps, profile),
        advice=partial(_advice, profile, gpu),
        uses=partial(iteration_courses_with_uses, profile),
    )
    return in_two_threads(makers)


def _advice(profile: Profile, gpu: str | None) -> Advice | str:
    try:
        return advice(profile, gpu=gpu)
    except ProftuiError as error:
        return str(error)
