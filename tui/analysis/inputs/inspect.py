"""What a file holds and which views it feeds, as plain values: the answer of ``proftui inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.inputs.capabilities import views
from tui.analysis.issues import issue_counts
from tui.analysis.iterations.tables import iterations, reasons, sources

if TYPE_CHECKING:
    from tui.model.profile import Profile

_COUNTED: Final = ("metrics", "layers", "ops", "ranges")
"""Frames of which the number of rows is told, and nothing else."""


def inspect(profile: Profile) -> dict[str, Any]:
    """What a profile holds, session by session, in values that JSON can hold.

    Keys: source, sessions (session, format, pid, command, first_line, last_line, frames), issues (number by severity),
    views (``ok`` or the reason, see `tui.analysis.inputs.capabilities.views`); ``partial`` where not all was read.
    ``frames`` names only what is not empty. Sums are of the known values, null where none is known.
    """
    held = _frames_by_session(profile)
    sessions = profile["sessions"].select("session", "format", "pid", "command", "first_line", "last_line")
    answer: dict[str, Any] = {
        "source": profile.sources[0],
        "sessions": [{**row, "frames": held.get(row["session"], {})} for row in sessions.iter_rows(named=True)],
        "issues": issue_counts(profile),
        "views": views(profile),
    }
    if len(profile.sources) > 1:
        answer["sources"] = list(profile.sources)
    if profile.partial:
        answer["partial"] = profile.partial
    return answer


def _frames_by_session(profile: Profile) -> dict[int, dict[str, Any]]:
    held: dict[int, dict[str, Any]] = {}

    def of(session: int, frame: str) -> dict[str, Any]:
        found: dict[str, Any] = held.setdefault(session, {}).setdefault(frame, {})
        return found

    timed = (pl.len().alias("rows"), total("duration_ns").alias("duration_ns"))
    for row in profile["activities"].group_by("session").agg(*timed).sort("session").iter_rows(named=True):
        of(row.pop("session"), "activities").update(row)
    kinds = profile["activities"].group_by("session", "kind").agg(*timed).sort("session", "kind")
    for row in kinds.iter_rows(named=True):
        of(row.pop("session"), "activities").setdefault("by_kind", {})[row.pop("kind")] = row
    for row in profile["api_calls"].group_by("session").agg(*timed).iter_rows(named=True):
        of(row.pop("session"), "api_calls").update(row)
    sections = (
        profile["summary"]
        .group_by("session", "section", maintain_order=True)
        .agg(pl.len().alias("rows"), total("calls").alias("calls"), total("total_ns").alias("total_ns"))
    )
    for row in sections.iter_rows(named=True):
        of(row.pop("session"), "summary")[row.pop("section")] = row
    for frame in _COUNTED:
        for session, rows in profile[frame].group_by("session").len().iter_rows():
            of(session, frame)["rows"] = rows
    counted = iterations(profile).drop_nulls("iteration").group_by("session").len()
    named = dict(profile["sessions"].select("session", "iteration_source").iter_rows())
    known, told = sources(profile), reasons(profile)
    for session, rows in counted.sort("session").iter_rows():
        source = known[session]
        answer = {"rows": rows, "source": named[session] or source if source == "recorded" else source}
        if session in told:
            answer["reason"] = told[session].removeprefix(f"{source}: ")
        of(session, "iterations").update(answer)
    return held
