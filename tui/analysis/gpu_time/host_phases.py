"""Data loading and I/O of the host, recognized by the names of ops and ranges."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, intervals_of_rows
from tui.analysis.gpu_time.timelines import classify_values
from tui.data.user_files import HINT, Stamp, checked_pattern, parsed, shipped, stamp, tables, user_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from tui.model.profile import Profile

SHIPPED: Final = "host_phases.toml"
NAME_LIMIT: Final = 4000
"""Characters of a name that are examined."""


class HostPhase(IntEnum):
    """What a name says that the host did."""

    NONE = 0
    DATALOADER = 1
    IO = 2


_PHASES: Final = {"dataloader": HostPhase.DATALOADER, "io": HostPhase.IO}


def user_phases_path() -> Path:
    """Where a user's own phases are looked for."""
    return user_path(SHIPPED)


def phase_rules() -> tuple[tuple[HostPhase, str], ...]:
    """The user's rules, where there are any, then those that come with the program: phase and pattern.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    return _rules(stamp(user_phases_path()))


@cache
def _rules(user: Stamp | None) -> tuple[tuple[HostPhase, str], ...]:
    own = () if user is None else parse_phases(user_text(user), user[0])
    return (*own, *parse_phases(shipped(SHIPPED), SHIPPED))


def parse_phases(text: str, source: str) -> tuple[tuple[HostPhase, str], ...]:
    """Read rules from TOML.

    Args:
        text: The TOML document: an array of tables ``rule``.
        source: What to call it in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule has no known phase or no pattern that is a regular expression.
    """
    found = []
    for entry, where in tables(parsed(text, source), "rule", source):
        phase, pattern = entry.get("phase"), entry.get("pattern")
        if phase not in _PHASES:
            raise ProftuiError(f"{where}: phase must be {' or '.join(_PHASES)}, not {phase}", HINT)
        if not isinstance(pattern, str) or not pattern:
            raise ProftuiError(f"{where}: pattern must be a string", HINT)
        found.append((_PHASES[phase], checked_pattern(pattern, where)))
    return tuple(found)


def phases_of(names: pl.Series) -> npt.NDArray[np.int8]:
    """The `HostPhase` of each name.

    >>> phases_of(pl.Series(["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "aten::mm"])).tolist()
    [1, 0]
    """
    text = names.cast(pl.String).fill_null("").str.slice(0, NAME_LIMIT)
    found = pl.coalesce(
        pl.lit(None, pl.Int8),
        *(
            pl.when(pl.col("text").str.contains(f"(?i){pattern}")).then(pl.lit(int(phase), pl.Int8))
            for phase, pattern in phase_rules()
        ),
        pl.lit(int(HostPhase.NONE), pl.Int8),
    )
    return text.alias("text").to_frame().select(found).to_series().to_numpy()


def host_phases(profile: Profile, session: int) -> dict[HostPhase, IntervalSet]:
    """When a session was in ops or ranges of each phase, on any thread; a phase that no name tells is left out."""
    return phases_in(*(profile[frame].filter(pl.col("session") == session) for frame in ("ops", "ranges")))


def phases_in(*frames: pl.DataFrame) -> dict[HostPhase, IntervalSet]:
    """The same of a session's rows of ``ops`` and of ``ranges``."""
    found: dict[HostPhase, IntervalSet] = {}
    for frame in frames:
        rows = frame.select("name", "start_ns", "duration_ns").drop_nulls(["start_ns", "duration_ns"])
        phases = classify_values(rows["name"], phases_of)
        for phase in (HostPhase.DATALOADER, HostPhase.IO):
            chosen = rows.filter(pl.Series(phases == phase))
            if chosen.height:
                found[phase] = found.get(phase, EMPTY) | intervals_of_rows(chosen)
    return found
