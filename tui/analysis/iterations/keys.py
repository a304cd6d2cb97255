"""Iterations by a key: each ends where a kernel, op, range or API call of a name ends, or is one loop repetition."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.iterations.repeating_pattern import loop_cut, session_loops
from tui.analysis.iterations.segments import (
    NO_PHASE,
    PARTIAL,
    PHASES,
    TAIL,
    WHOLE,
    Cut,
    activity_phases,
    launch_times,
    strictly_increasing,
)
from tui.fmt import count
from tui.model.errors import ProftuiError
from tui.model.profile import session_rows
from tui.text import plural

if TYPE_CHECKING:
    from tui.analysis.iterations.segments import Ints, PhaseNumbers
    from tui.model.profile import Profile

_KEY_COLUMNS: Final = (
    ("op", "ops", "name"),
    ("op", "ops", "op_id"),
    ("range", "ranges", "name"),
    ("kernel", "activities", "name"),
    ("kernel", "activities", "short_name"),
    ("API call", "api_calls", "name"),
)
"""Kind, frame and column of possible keys; if a name is of several kinds, the first one counts."""

LOOP: Final = "loop"
"""The kind of a key that is a loop, such as ``loop of 1605 launches``: each round is an iteration."""
_LOOP: Final = re.compile(r"loop of ([0-9]{1,9}) launches")

_NAMES_LISTED: Final = 5
"""Names listed in an error about a key."""
_LONGEST: Final = 60
"""The maximum width of a name in a sentence."""
_COMPARED: Final = 5000
"""The most names that are compared with a misspelled key, each up to 200 characters."""


@dataclass(frozen=True, slots=True)
class Key:
    """The mark of the end of an iteration."""

    kind: str
    """op, range, kernel, API call or loop; work that is no kernel (a copy) is one of the kind kernel."""
    frame: str
    """The frame that it is in."""
    column: str
    """The column that holds its name."""
    name: str

    @property
    def text(self) -> str:
        """The key as text, such as ``op global_step``."""
        return self.name if self.kind == LOOP else f"{self.kind} {_short(self.name)}"


def find_key(profile: Profile, text: str) -> Key:
    """Return the key for a text: a complete name, else a part of exactly one name, ignoring case.

    Raises:
        ProftuiError: There is no such name, or several.
    """
    loop = _LOOP.fullmatch(text)
    if loop is not None:
        return _loop_key(profile, text, int(loop[1]))
    names_by_column = {(kind, frame, column): _names(profile[frame][column]) for kind, frame, column in _KEY_COLUMNS}
    for (kind, frame, column), names in names_by_column.items():
        if text in names:
            return Key(kind, frame, column, text)
    part = text.casefold()
    matches: dict[str, Key] = {}
    for (kind, frame, column), names in names_by_column.items():
        # A short name matches only as a whole: a part of it is less specific than a part of the full
        # name.
        if column != "short_name":
            for name in sorted(names):
                if part in name.casefold():
                    matches.setdefault(name, Key(kind, frame, column, name))
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        raise ProftuiError(
            f"--key {text}: {count(len(matches))} names match", f"for example {_join_names(list(matches))}"
        )
    shortened = {name[:200]: name for names in names_by_column.values() for name in sorted(names)[:_COMPARED]}
    similar = [shortened[name] for name in difflib.get_close_matches(text[:200], shortened, _NAMES_LISTED, 0.5)]
    raise ProftuiError(
        f"--key {text}: no kernel, op, range or API call of this name",
        f"similar names: {_join_names(similar)}" if similar else "to list names: proftui report FILE --view kernels",
    )


def loop_name(period: int) -> str:
    """Return the name of the key of a loop.

    >>> loop_name(1605)
    'loop of 1605 launches'
    """
    return f"loop of {period} launches"


def _loop_key(profile: Profile, text: str, period: int) -> Key:
    """Return the key of a loop, if a session has that loop.

    Raises:
        ProftuiError: None has.
    """
    periods: dict[int, None] = {}
    activities = profile["activities"]
    for session in activities["session"].unique().sort().to_list():
        _, _, loops = session_loops(session_rows(activities, session))
        periods.update(dict.fromkeys(loop.period for loop in loops))
    if period in periods:
        return Key(LOOP, "activities", "name", text)
    names = ", ".join(loop_name(length) for length in periods)
    raise ProftuiError(
        f"--key {text}: no such loop", f"loops found: {names}" if names else "no repeating pattern of launches"
    )


def _names(column: pl.Series) -> set[str]:
    return set(column.unique().drop_nulls().cast(pl.String).to_list())


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _join_names(names: list[str]) -> str:
    shown = ", ".join(map(_short, names[:_NAMES_LISTED]))
    return shown if len(names) <= _NAMES_LISTED else f"{shown}, ..."


def key_cut(profile: Profile, session: int, key: Key, work: pl.DataFrame) -> tuple[Cut, PhaseNumbers]:
    """Divide a session where a key ends.

    Only the stream or thread with most calls of the key counts; calls within another call of the same name do not
    count. GPU work belongs to the iteration that it was launched in, if the launch is recorded, else to the one that it
    began in. The time before the first key is an iteration, unless it has fewer launches than any other: then it is the
    end of one that began before the recording. The time after the last key is not an iteration.

    Args:
        profile: The profile.
        session: The session.
        key: The key.
        work: The activities of the session: kind, name, short_name, start_ns, duration_ns, device, stream, correlation.
    """
    calls = session_rows(profile["api_calls"], session)
    if key.kind == LOOP:
        loop = _LOOP.fullmatch(key.name)
        cut_by_loop = loop_cut(work, calls, int(loop[1])) if loop is not None else None
        return cut_by_loop or (Cut.whole_run(f"{key.name} not found"), np.zeros(work.height, np.int32))
    gpu, cpu = (_work_edges if key.frame == "activities" else _cpu_edges)(profile, session, key, work, calls)
    if not len(gpu):
        return Cut.whole_run(f"{key.text} not found"), np.zeros(work.height, np.int32)
    phases = activity_phases(work, calls, gpu, cpu)
    launches = np.bincount(phases[phases != NO_PHASE], minlength=len(gpu) + 1)
    starts_early = len(gpu) > 1 and launches[0] < launches[1:-1].min()
    kinds = np.full(len(gpu) + 1, PHASES.index(WHOLE))
    kinds[-1] = PHASES.index(TAIL)
    numbers = np.append(np.arange(len(gpu)) - int(starts_early), NO_PHASE)
    if starts_early:
        kinds[0], numbers[0] = PHASES.index(PARTIAL), NO_PHASE
    counted = len(gpu) - int(starts_early)
    reason = f"{key.text} ends {plural(counted, 'iteration')}"
    if starts_early:
        earlier_launches = count(int(launches[0]))
        reason += f"; the {earlier_launches} launches before belong to an iteration that started before recording"
    return Cut(kinds, numbers, gpu, cpu, "key", reason, key.name), phases


def _work_edges(
    profile: Profile, session: int, key: Key, work: pl.DataFrame, calls: pl.DataFrame
) -> tuple[Ints, Ints | None]:
    """Return the edges after each run of a kernel or copy."""
    del profile, session
    runs = _most_frequent_lane(work.filter(pl.col(key.column) == key.name).drop_nulls("start_ns"), ["device", "stream"])
    # An edge is after the key, even if the key took no time.
    end = (runs["start_ns"] + runs["duration_ns"].fill_null(0)).to_numpy()
    order = np.argsort(end, kind="stable")
    runs, end = runs[order], np.maximum(end, runs["start_ns"].to_numpy() + 1)[order]
    launched = strictly_increasing(launch_times(runs, calls))
    return np.sort(end).astype(np.int64), None if launched is None else launched + 1


def _cpu_edges(
    profile: Profile, session: int, key: Key, work: pl.DataFrame, calls: pl.DataFrame
) -> tuple[Ints, Ints | None]:
    """Return the edges at the end of each op, range or call."""
    del work, calls
    named = profile[key.frame].filter(pl.col("session") == session, pl.col(key.column) == key.name)
    rows = _most_frequent_lane(named.drop_nulls("start_ns"), ["pid", "tid"]).sort("start_ns")
    end = (rows["start_ns"] + rows["duration_ns"].fill_null(0)).to_numpy().astype(np.int64)
    latest_end = np.maximum.accumulate(end) if len(end) else end
    is_nested = np.concatenate(([False], rows["start_ns"].to_numpy()[1:] < latest_end[:-1]))[: len(end)]
    edges = end[~is_nested]
    return edges, edges


def _most_frequent_lane(rows: pl.DataFrame, lanes: list[str]) -> pl.DataFrame:
    """Return the rows of the stream or thread that has most of them."""
    if rows.is_empty():
        return rows
    main_lane: dict[str, Any] = (
        rows.group_by(lanes).len().sort("len", *lanes, descending=[True, *(False for _ in lanes)]).row(0, named=True)
    )
    return rows.filter(pl.col(lane).eq_missing(pl.lit(main_lane[lane], rows.schema[lane])) for lane in lanes)
