"""What a profile can be compared with without opening another file: its own sessions and iterations."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from tui.analysis.compare.sides import Sides, sides
from tui.analysis.iterations.aggregation import aggregated
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile


def two_sessions(profile: Profile, before: int, now: int) -> Sides:
    """Two sessions of a profile.

    Raises:
        ProftuiError: It has no such session.
    """
    count = profile["sessions"].height
    for session in (before, now):
        if not 0 <= session < count:
            raise ProftuiError(f"there is no session {session}", f"sessions run from 0 to {count - 1}")
    labels = (f"session {before}", f"session {now}")
    return sides(profile.only_session(before), profile.only_session(now), labels)


def two_ranges(profile: Profile, before: Aggregation, now: Aggregation) -> Sides:
    """Some iterations of a profile beside others.

    Raises:
        ProftuiError: There are no such iterations.
    """
    return sides(aggregated(profile, before), aggregated(profile, now), (before.words or "all iterations", now.words))


def two_inputs(before: Profile, now: Profile) -> Sides:
    """Two profiles that were read, called by their files."""
    return sides(before, now, (name_of(before), name_of(now)))


def name_of(profile: Profile) -> str:
    """What a profile is called: the name of its file, or how many there are."""
    if len(profile.sources) == 1:
        return "standard input" if profile.sources[0] == "-" else PurePath(profile.sources[0]).name
    return f"{len(profile.sources)} files"
