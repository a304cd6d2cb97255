"""When the host loaded data, and when it read or wrote files: told from the names of ops and ranges."""

from __future__ import annotations

import tomllib
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, spans_of
from tui.analysis.gpu_time.timelines import classes_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tui.model.profile import Profile

NAME_LIMIT: Final = 4000
"""Characters of a name that are looked at."""


class HostPhase(IntEnum):
    """What a name says that the host did."""

    NONE = 0
    DATALOADER = 1
    IO = 2


@cache
def phase_rules() -> tuple[tuple[HostPhase, str], ...]:
    """The rules of ``host_phases.toml`` in order: phase and pattern."""
    table = tomllib.loads(files("tui.data").joinpath("host_phases.toml").read_text("utf-8"))
    return tuple((HostPhase[rule["phase"].upper()], rule["pattern"]) for rule in table["rule"])


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
        phases = classes_of(rows["name"], phases_of)
        for phase in (HostPhase.DATALOADER, HostPhase.IO):
            chosen = rows.filter(pl.Series(phases == phase))
            if chosen.height:
                found[phase] = found.get(phase, EMPTY) | spans_of(chosen)
    return found
