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


def two_sessions(profile: Profile, before: int, now: int, shown: Aggregation) -> Sides:
    """Two sessions of a profile, of each the iterations that are shown.

    Raises:
        ProftuiError: It has no such session, or one of them no such iterations.
    """
    count = profile["sessions"].height
    for session in (before, now):
        if not 0 <= session < count:
            raise ProftuiError(f"there is no session {session}", f"sessions run from 0 to {count - 1}")
    of = f", {shown.words}" if shown.words else ""
    ranks = profile["sessions"]["rank"].to_list()
    labels = (_session(before, ranks[before]) + of, _session(now, ranks[now]) + of)
    one, other = (aggregated(profile.only_session(session), shown) for session in (before, now))
    return sides(one, other, labels)


def _session(number: int, rank: int | None) -> str:
    return f"session {number}" if rank is None else f"session {number} (rank {rank})"


def two_ranges(profile: Profile, before: Aggregation, now: Aggregation) -> Sides:
    """Some iterations of a profile beside others.

    Raises:
        ProftuiError: There are no such iterations.
    """
    return sides(aggregated(profile, before), aggregated(profile, now), (before.words or "all iterations", now.words))


def two_inputs(before: Profile, now: Profile) -> Sides:
    """Two profiles that were read, called by their files and by the iterations that are shown of them."""
    labels = [
        f"{name_of(side)}{f', {side.aggregation.words}' if side.aggregation.words else ''}" for side in (before, now)
    ]
    return sides(before, now, (labels[0], labels[1]))


def name_of(profile: Profile) -> str:
    """What a profile is called: the name of its file, or how many there are."""
    if len(profile.sources) == 1:
        return "standard input" if profile.sources[0] == "-" else PurePath(profile.sources[0]).name
    return f"{len(profile.sources)} files"
