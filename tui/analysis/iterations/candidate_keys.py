"""Names that could mark the end of an iteration, the most regular first: the list of the key picker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.keys import LOOP, loop_name
from tui.analysis.iterations.repeating_pattern import session_loops
from tui.analysis.iterations.segments import iteration_at
from tui.model.columns import columns
from tui.model.profile import session_rows
from tui.model.table_spec import TableSpec

if TYPE_CHECKING:
    from tui.model.profile import Profile


MIN_CALLS: Final = 3
"""A name with fewer calls is no candidate."""

_LANE_COLUMNS: Final = (
    ("op", "ops", ("pid", "tid")),
    ("range", "ranges", ("pid", "tid")),
    ("kernel", "activities", ("device", "stream")),
    ("API call", "api_calls", ("pid", "tid")),
)

_SCHEMA: Final = pl.Schema(
    {
        "session": pl.UInt32,
        "key_kind": pl.String,
        "name": pl.String,
        "calls": pl.Int64,
        "per_iteration": pl.Int64,
        "spacing_ns": pl.Int64,
        "spacing_cv": pl.Float64,
        "coverage_pct": pl.Float64,
    }
)


def candidate_keys(profile: Profile) -> pl.DataFrame:
    """Return names that could mark the end of iterations, the best first within each session.

    Columns: session, key_kind (op, range, kernel or API call; a copy counts as a kernel), name, calls (in the stream or
    thread with most of them, without calls within another of the same name, as in `iterations.keys.key_cut`),
    per_iteration (the number of calls in each recorded or detected iteration; null if it differs, or nothing repeats),
    spacing_ns (mean time from one end to the next), spacing_cv (its standard deviation / mean: 0 is perfectly regular;
    null if all end at once), coverage_pct (time from the first end to the last, as a share of the time from the
    session's first start to its last end).

    Names with one call in every iteration come first, then those with several, fewest first, then the rest; each group
    is sorted by coverage * (1 - spacing_cv). Names with fewer than `MIN_CALLS` calls are omitted. Names are as
    recorded: `tui.analysis.iterations.keys.find_key` takes them.
    """
    with_steps = with_iterations(profile)
    assert with_steps.steps is not None, "with_iterations fills it"
    frames = []
    spans = _spans(with_steps)
    for kind, frame, lane in _LANE_COLUMNS:
        rows = with_steps[frame].select("session", "name", "start_ns", "duration_ns", *lane)
        if rows.is_empty():
            continue
        rows = rows.with_columns(
            with_steps[frame]["iteration"]
            if frame in ("activities", "ops")
            else iteration_at(with_steps.steps, rows["session"], rows["start_ns"])
        )
        frames.append(_candidates_in_frame(rows, kind, lane, with_steps.steps, spans))
    if not frames:
        return pl.DataFrame(schema=_SCHEMA)
    even = pl.col("per_iteration")
    score = pl.col("coverage_pct") * (1 - pl.col("spacing_cv").fill_null(1).clip(0, 1))
    return (
        pl.concat(frames)
        .sort(
            pl.col("session"),
            even.fill_null(pl.lit(1 << 40)),
            score,
            pl.col("name"),
            pl.col("key_kind"),
            descending=[False, False, True, False, False],
        )
        .select(*_SCHEMA)
        .cast(_SCHEMA)
    )


def _spans(profile: Profile) -> pl.DataFrame:
    """Return the time from the first start to the last end of anything in each session: session, span_ns."""
    return (
        pl.concat(
            profile[frame]
            .lazy()
            .group_by("session")
            .agg(pl.col("start_ns").min().alias("first"), _end().max().alias("last"))
            for _, frame, _ in _LANE_COLUMNS
        )
        .group_by("session")
        .agg((pl.col("last").max() - pl.col("first").min()).alias("span_ns"))
        .collect()
    )


def _end() -> pl.Expr:
    return pl.col("start_ns") + pl.col("duration_ns").fill_null(0)


def _candidates_in_frame(
    rows: pl.DataFrame, kind: str, lane: tuple[str, str], steps: pl.DataFrame, spans: pl.DataFrame
) -> pl.DataFrame:
    """Return the candidates of one frame."""
    counted_phases = ("recorded", "whole")
    counted = (
        steps.filter(pl.col("phase").is_in(counted_phases)).group_by("session").agg(pl.len().alias("all_iterations"))
    )
    timed = rows.lazy().filter(pl.col("start_ns").is_not_null()).with_columns(_end().alias("end_ns"))
    by_name = ["session", "name"]
    lanes = timed.group_by(*by_name, *lane).agg(pl.len().alias("calls"))
    main_lanes = (
        lanes.filter(pl.col("calls") >= MIN_CALLS)
        .sort("calls", *lane, descending=[True, False, False])
        .unique(by_name, keep="first", maintain_order=True)
    )
    candidates = timed.join(main_lanes, on=[*by_name, *lane], how="semi", nulls_equal=True)
    if kind != "kernel":
        latest_end = pl.col("end_ns").cum_max().shift().over(by_name)
        candidates = (
            candidates.sort("start_ns").filter((pl.col("start_ns") >= latest_end).fill_null(True)).collect().lazy()
        )
    in_iterations = (
        candidates.filter(pl.col("iteration").is_not_null())
        .group_by(*by_name, "iteration")
        .agg(pl.len().alias("times"))
        .group_by(by_name)
        .agg(pl.len().alias("in_iterations"), pl.col("times").min().alias("least"), pl.col("times").max().alias("most"))
        .join(counted.lazy(), on="session", how="left")
        .select(
            *by_name,
            pl.when(
                (pl.col("in_iterations") == pl.col("all_iterations"))
                & (pl.col("least") == pl.col("most"))
                & (pl.col("all_iterations") > 1)
            )
            .then(pl.col("most"))
            .alias("per_iteration"),
        )
    )
    spacing = pl.col("end_ns").sort().diff().drop_nulls()
    return (
        candidates.group_by(by_name)
        .agg(
            pl.len().alias("calls"),
            spacing.mean().round().alias("spacing_ns"),
            pl.when(spacing.mean() > 0).then(spacing.std() / spacing.mean()).alias("spacing_cv"),
            (pl.col("end_ns").max() - pl.col("end_ns").min()).alias("covered_ns"),
        )
        .filter(pl.col("calls") >= MIN_CALLS)
        .join(in_iterations, on=by_name, how="left")
        .join(spans.lazy(), on="session")
        .select(
            "session",
            pl.lit(kind).alias("key_kind"),
            pl.col("name").cast(pl.String),
            pl.col("calls").cast(pl.Int64),
            pl.col("per_iteration").cast(pl.Int64),
            pl.col("spacing_ns").cast(pl.Int64),
            "spacing_cv",
            pl.when(pl.col("span_ns") > 0).then(100 * pl.col("covered_ns") / pl.col("span_ns")).alias("coverage_pct"),
        )
        .collect()
    )


KEY_CHOICES: Final = TableSpec(
    "keys",
    "Keys",
    columns("name", "key_kind", "ended", "per_iteration", "spacing_ns", "spacing_cv_pct", "coverage_pct", "session"),
    key=("session", "key_kind", "name"),
)

_KINDS: Final = ("op", "range", "kernel", "API call")
"""The kinds of keys; if a name is of several kinds, the first one counts."""


def key_choices(profile: Profile) -> pl.DataFrame:
    """Return loops of launches, the outermost first, and names that iterations could end with, best first.

    Columns: session, key_kind, name, ended (how many iterations it makes), per_iteration, spacing_ns, spacing_cv_pct,
    coverage_pct, as in `candidate_keys`. A name that is of several kinds has one row in a session: the kind that
    `find_key` would choose. The spacing of a loop is the mean duration of a repetition.
    """
    rows = candidate_keys(profile)
    kind = pl.col("key_kind").replace_strict({kind: index for index, kind in enumerate(_KINDS)}, return_dtype=pl.Int64)
    names = rows.filter(kind == kind.min().over("session", "name")).select(
        "session",
        "key_kind",
        "name",
        pl.col("calls").alias("ended"),
        "per_iteration",
        "spacing_ns",
        (100 * pl.col("spacing_cv")).alias("spacing_cv_pct"),
        "coverage_pct",
    )
    return pl.concat([_loops(profile), names]).sort("session", maintain_order=True)


def _loops(profile: Profile) -> pl.DataFrame:
    """Return the loops of each session, as rows of `key_choices`."""
    rows = []
    activities = profile["activities"]
    for session in activities["session"].unique().sort().to_list():
        _, main, loops = session_loops(session_rows(activities, session).sort("start_ns", maintain_order=True))
        if not loops:
            continue
        start = main["start_ns"].to_numpy()
        end = np.maximum.accumulate(start + main["duration_ns"].to_numpy())
        span = float(end[-1] - start[0])
        for loop in loops:
            times = end[loop.starts + loop.period - 1] - start[loop.starts]
            mean = float(times.mean())
            rows.append(
                {
                    "session": session,
                    "key_kind": LOOP,
                    "name": loop_name(loop.period),
                    "ended": len(times),
                    "per_iteration": None,
                    "spacing_ns": round(mean),
                    "spacing_cv_pct": 100 * float(times.std(ddof=1)) / mean if mean and len(times) > 1 else None,
                    "coverage_pct": min(100.0, 100 * float(times.sum()) / span) if span else None,
                }
            )
    return pl.DataFrame(
        rows,
        schema={
            "session": pl.UInt32,
            "key_kind": pl.String,
            "name": pl.String,
            "ended": pl.Int64,
            "per_iteration": pl.Int64,
            "spacing_ns": pl.Int64,
            "spacing_cv_pct": pl.Float64,
            "coverage_pct": pl.Float64,
        },
    )


def rows_containing(rows: pl.DataFrame, text: str) -> pl.DataFrame:
    """Return the rows whose name or kind contains every word of a text, ignoring case."""
    contains_all = pl.lit(True)
    for word in text.lower().split():
        in_name = pl.col("name").str.to_lowercase().str.contains(word, literal=True)
        contains_all &= in_name | pl.col("key_kind").str.to_lowercase().str.contains(word, literal=True)
    return rows.filter(contains_all)
