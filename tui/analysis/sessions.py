"""Sessions: the profiled processes of an input, their labels, and those whose kernels were replayed for metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.durations import total
from tui.analysis.grouping import unique_values
from tui.analysis.kernels import kernels
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import Tool, recording_tool
from tui.model.profile import column_view
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.profile import Profile

_HOLDS: Final = {"api_calls": "API call", "ops": "op", "ranges": "range", "metrics": "metric", "layers": "layer time"}
"""Frames in which a session without GPU work may have rows, and the name of a row."""


def rank_words() -> pl.Expr:
    """Return the rank of a session as text; null if it has none.

    >>> pl.DataFrame({"rank": [1, 0, None], "world_size": [2, None, 2]}).select(rank_words())["rank_words"].to_list()
    ['rank 1 of 2', 'rank 0', None]
    """
    rank = pl.format("rank {}", "rank")
    return pl.coalesce(rank + pl.format(" of {}", "world_size"), rank).alias("rank_words")


@once_per_profile("sessions")
def rank_texts(profile: Profile) -> list[str | None]:
    """Return the rank of each session as text; None if it has none."""
    return profile["sessions"].select(rank_words())["rank_words"].to_list()


_FOLDERS: Final = r"(?:\B|\b[A-Za-z]:)[/\\](?:[^\s/\\]+[/\\])+"
"""The folders of absolute paths."""


def session_times(profile: Profile) -> pl.DataFrame:
    """Return the labels, source lines and GPU time of each session, in order.

    ``label`` is the command that was profiled, else the file if there are several, else the process, else the format.
    ``short`` is the label without the folders of its paths, with the process if several are equal. ``gpu_ns`` is the
    summed time of its GPU activities; null if there are none: ``holds`` describes the session's other contents.
    ``rank_words`` is its rank, as ``rank 1 of 2``.
    """
    file = pl.col("source").str.split("/").list.last()
    process = pl.coalesce(pl.format("process {}", "pid"), pl.col("format").cast(pl.String))
    name = file if profile["sessions"]["source"].n_unique() > 1 else process
    label = pl.coalesce(pl.col("command").cast(pl.String), name).alias("label")
    times = kernels(profile).group_by("session").agg(total("total_ns").alias("gpu_ns"))
    sessions = profile["sessions"].select("session", label, "pid", rank_words(), "host", "first_line", "last_line")
    sessions = sessions.join(times, on="session", how="left", maintain_order="left").sort("session")
    contents = [_content_summary(profile, session) for session in sessions["session"]]
    short = pl.col("label").str.replace_all(_FOLDERS, "")
    process = pl.format("pid {} {}", "pid", short)
    is_ambiguous = short.is_duplicated() & pl.col("pid").is_not_null()
    return sessions.with_columns(
        pl.Series("holds", contents, pl.String), pl.when(is_ambiguous).then(process).otherwise(short).alias("short")
    )


def _content_summary(profile: Profile, session: int) -> str:
    """Return a text about the content of a session without GPU times, as ``no GPU work, 1 API call``."""
    rows = {name: profile[name].filter(pl.col("session") == session) for name in ("activities", "summary", *_HOLDS)}
    in_summary = (rows["summary"]["section"].cast(pl.String) == "gpu").any()
    did_work = rows["activities"].height or rows["metrics"].height or in_summary
    first = "no GPU times" if did_work else "no GPU work"
    counts = [plural(rows[name].height, noun) for name, noun in _HOLDS.items() if rows[name].height]
    return ", ".join([first, *counts])


def kernel_only_sessions(profile: Profile) -> set[int]:
    """Return the sessions of Nsight Compute: they record only kernels."""
    named = profile["sessions"].select("session", "format", "tool").iter_rows()
    return {session for session, format_name, tool in named if recording_tool(format_name, tool) is Tool.NCU}


def replayed_sessions(profile: Profile) -> tuple[int, ...]:
    """Return the sessions of Nsight Compute if another session has GPU times of a real run; else none."""
    replayed = kernel_only_sessions(profile)
    if not replayed:
        return ()
    in_summary = profile["summary"].filter(pl.col("section") == "gpu")["session"].unique()
    with_work = {*unique_values(column_view(profile["activities"], "session")).to_list(), *in_summary.to_list()}
    return tuple(sorted(replayed)) if with_work - replayed else ()


def without_sessions(profile: Profile, sessions: Sequence[int]) -> Profile:
    """Return the same profile without the rows of some sessions; session numbers do not change."""
    if not sessions:
        return profile
    is_removed = pl.col("session").is_in(list(sessions)).fill_null(False)
    frames = {name: data.filter(~is_removed) for name, data in profile.frames.items()}
    steps = None if profile.steps is None else profile.steps.filter(~is_removed)
    return replace(profile, frames=frames, steps=steps)


def left_out_sentence(sessions: Sequence[int]) -> str:
    """Return a sentence about sessions that are not summed; empty if there are none.

    >>> left_out_sentence([1])
    'session 1 is of Nsight Compute, which replays kernels: its times are not added to those of the run'
    """
    if not sessions:
        return ""
    numbers = ", ".join(map(str, sessions))
    are_several = len(sessions) > 1
    return (
        f"session{'s' if are_several else ''} {numbers} {'are' if are_several else 'is'} of Nsight Compute, which "
        "replays "
        f"kernels: {'their' if are_several else 'its'} times are not added to those of the run"
    )


def session_labels(profile: Profile) -> dict[int, str]:
    """Return the label of each session: its rank, else its number and process."""
    session = pl.col("session")
    process = pl.format("session {} (pid {})", session, "pid")
    rank_rows = profile["sessions"].select("session", rank_words(), process.alias("process"))
    return {
        number: (rank or (process or f"session {number}")).partition(" of ")[0]
        for number, rank, process in rank_rows.iter_rows()
    }


def session_name_column(profile: Profile, session: str, name: str) -> pl.Expr:
    """Return the labels of the sessions in a column, as a column with the name ``name``."""
    return pl.col(session).replace_strict(session_labels(profile), default=None, return_dtype=pl.String).alias(name)
