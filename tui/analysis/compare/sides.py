"""The two sides of a comparison, and whether their times are per iteration or of the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import iterations, sources, unassigned_sessions, with_iterations
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.analysis.sessions import replayed_sessions, without_sessions
from tui.fmt import brief_duration
from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    label: str
    """What it is, for people."""
    profile: Profile
    """What is compared: of a comparison per iteration the work within counted iterations alone."""
    iterations: tuple[tuple[int, int], ...]
    """The number of iterations of each session; empty if whole runs are compared."""
    full_profile: Profile
    """The given profile, including work outside of iterations."""
    left_out_ns: int
    """GPU time that belongs to no counted iteration, and so is not compared."""

    @property
    def count(self) -> int | None:
        """The number of iterations of each session; None if they differ, or whole runs are compared."""
        counts = {count for _, count in self.iterations}
        return counts.pop() if len(counts) == 1 else None

    @property
    def divisors(self) -> pl.DataFrame:
        """The divisor of each session's sums: session, per; no rows if sums are not divided."""
        return pl.DataFrame(self.iterations, schema={"session": pl.UInt32, "per": pl.Int64}, orient="row")


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a comparison."""

    a: Side
    """The baseline."""
    b: Side
    """The candidate."""
    per_iteration: bool
    """Sums are divided by the number of iterations of their session."""
    basis: str
    """A text on whether sums are per iteration or per run, and why."""

    @property
    def left_out_sentence(self) -> str:
        """A sentence about the GPU time that is not compared; empty if all of it is."""
        named_sides = ((self.a, "baseline"), (self.b, "candidate"))
        texts = [f"{name} {brief_duration(side.left_out_ns)}" for side, name in named_sides if side.left_out_ns]
        return f"Outside iterations, and not compared: {', '.join(texts)}." if texts else ""

    @property
    def partial_sentence(self) -> str:
        """A sentence if an input was not read to its end, so that totals are incomplete; else empty."""
        named_sides = ((self.a, "baseline"), (self.b, "candidate"))
        texts = [f"{side.full_profile.partial} ({name})" for side, name in named_sides if side.full_profile.partial]
        return f"Partial results: {', '.join(texts)}." if texts else ""

    @property
    def swapped(self) -> Sides:
        """The same with baseline and candidate exchanged."""
        return sides(
            self.b.full_profile, self.a.full_profile, (self.b.label, self.a.label), whole_runs=not self.per_iteration
        )


def sides(a: Profile, b: Profile, labels: tuple[str, str], *, whole_runs: bool = False) -> Sides:
    """Prepare two profiles for comparison.

    If all sessions of both have iterations whose work is known, sums are per iteration, and work outside of iterations
    is omitted; else sums are of the whole runs. Sessions with replayed kernels are omitted, since their times are not
    those of a run.

    Args:
        a: The baseline, with the chosen sessions and iterations.
        b: The candidate.
        labels: The label of each.
        whole_runs: Do not divide by iterations.
    """
    profiles = [with_iterations(without_sessions(profile, replayed_sessions(profile))) for profile in (a, b)]
    undivided = dict[str, list[str]]()
    for label, profile in zip(labels, profiles, strict=True):
        if reason := _undivided_reason(profile):
            undivided.setdefault(reason, []).append(label)
    if whole_runs or undivided:
        basis = f"of the whole runs{_sessions_note(*profiles)}"
        reasons = [f"{reason} in {' and '.join(dict.fromkeys(names))}" for reason, names in undivided.items()]
        basis += "" if whole_runs else f": {', '.join(reasons)}"
        baseline, candidate = (Side(label, p, (), p, 0) for label, p in zip(labels, profiles, strict=True))
        return Sides(baseline, candidate, False, basis)
    baseline, candidate = (_in_iterations(label, profile) for label, profile in zip(labels, profiles, strict=True))
    return Sides(
        baseline,
        candidate,
        True,
        f"per iteration: baseline {_iteration_counts(baseline)}, candidate {_iteration_counts(candidate)}",
    )


def _in_iterations(label: str, profile: Profile) -> Side:
    counted = iterations(profile).drop_nulls("iteration")
    first = counted["iteration"].min()
    assert isinstance(first, int), "there are iterations"
    counted_profile = select_iterations(profile, Aggregation(first=first, key=profile.aggregation.key))
    counts = counted.group_by("session").len().sort("session")
    left_out_ns = int(profile["activities"]["duration_ns"].sum()) - int(
        counted_profile["activities"]["duration_ns"].sum()
    )
    return Side(label, counted_profile, tuple(counts.iter_rows()), profile, left_out_ns)


def _undivided_reason(profile: Profile) -> str:
    """Return why the work of a session is not divided into iterations; empty if that of all sessions is."""
    known_sources = sources(profile)
    with_work = set(profile["activities"]["session"].unique().to_list())
    undivided = {session for session, source in known_sources.items() if source == WHOLE_RUN}
    sums_only = set(profile["summary"]["session"].unique().to_list()) - with_work
    if not with_work or sums_only or not with_work <= known_sources.keys() - undivided:
        return "no iterations"
    return "launches are not recorded" if unassigned_sessions(profile) else ""


def _sessions_note(baseline: Profile, candidate: Profile) -> str:
    """Return a note about the number of sessions that times of whole runs are summed over; empty if each has one."""
    counts = [profile["sessions"].height for profile in (baseline, candidate)]
    return f", summed over the sessions (baseline {counts[0]:,}, candidate {counts[1]:,})" if max(counts) > 1 else ""


def _iteration_counts(side: Side) -> str:
    counts = [count for _, count in side.iterations]
    are_equal = len(set(counts)) == 1
    text = f"{counts[0]:,}" if are_equal else " and ".join(f"{count:,}" for count in counts)
    return f"{text} in each of {len(counts)} sessions" if are_equal and len(counts) > 1 else text


def two_sessions(profile: Profile, baseline: int, candidate: int, shown: Aggregation) -> Sides:
    """Return two sessions of a profile as sides, labeled by their files where these differ.

    Raises:
        ProftuiError: It has no such session, or one of them no such iterations.
    """
    count = profile["sessions"].height
    for session in (baseline, candidate):
        if not 0 <= session < count:
            raise ProftuiError(f"there is no session {session}", f"sessions run from 0 to {count - 1}")
    suffix = f", {shown.text}" if shown.text else ""
    ranks, sources = (profile["sessions"][name].to_list() for name in ("rank", "source"))
    numbers = (baseline, candidate)
    names = [PurePath(sources[number] or "").name if ranks[number] is None else "" for number in numbers]
    if "" in names or names[0] == names[1]:
        names = [_session(number, ranks[number]) for number in numbers]
    one, other = (select_iterations(profile.only_session(number), shown) for number in numbers)
    return sides(one, other, (names[0] + suffix, names[1] + suffix))


def _session(number: int, rank: int | None) -> str:
    return f"session {number}" if rank is None else f"session {number} (rank {rank})"


def two_ranges(profile: Profile, baseline: Aggregation, candidate: Aggregation) -> Sides:
    """Return two ranges of iterations of a profile as sides.

    Raises:
        ProftuiError: There are no such iterations.
    """
    return sides(
        select_iterations(profile, baseline),
        select_iterations(profile, candidate),
        (baseline.text or "all iterations", candidate.text),
    )


def two_inputs(baseline: Profile, candidate: Profile) -> Sides:
    """Return two profiles as sides, labeled by their files and the iterations shown."""
    labels = [
        f"{profile_label(side)}{f', {side.aggregation.text}' if side.aggregation.text else ''}"
        for side in (baseline, candidate)
    ]
    return sides(baseline, candidate, (labels[0], labels[1]))


def profile_label(profile: Profile) -> str:
    """Return the label of a profile: the name of its file, or of the folder of its files and their number."""
    if len(profile.sources) == 1:
        return "standard input" if profile.sources[0] == "-" else PurePath(profile.sources[0]).name
    folders = {PurePath(source).parent.name for source in profile.sources}
    files = f"{len(profile.sources)} files"
    return f"{folders.pop()} ({files})" if len(folders) == 1 and all(folders) else files
