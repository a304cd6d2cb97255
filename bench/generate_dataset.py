"""Generates a dataset of two ranks of a training run: launches with their calls and ops, and ranges for steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from bench.generate_profile import DATA, frames_of
from tui.dataset.write_dataset import finish, write_frames
from tui.model.profile import Profile, build_profile
from tui.model.schema import NAME

RANKS = 2
_STEP = 2000
"""Activities of one step."""
_OP = 10
"""Activities that an op launches."""


def dataset(rows: int) -> Path:
    """A dataset with ``rows`` activities, generated if missing."""
    folder = DATA / f"dataset_{rows}"
    if not (folder / "proftui-dataset.json").exists():
        write_dataset(rows, folder)
    return folder


def write_dataset(rows: int, folder: Path) -> None:
    """Write a dataset."""
    paths = [f"rank{rank}.made" for rank in range(RANKS)]
    folder.mkdir(parents=True, exist_ok=True)
    finish(
        str(folder),
        [write_frames(rank_profile(rows // RANKS, rank), path, str(folder)) for rank, path in enumerate(paths)],
    )


def rank_profile(rows: int, rank: int) -> Profile:
    """The profile of one rank."""
    frames = frames_of(rows, seed=rank)
    launches, activities = frames["api_calls"], frames["activities"]
    first = np.arange(0, rows, _OP)
    last = np.minimum(first + _OP, rows) - 1
    start, end = launches["start_ns"].to_numpy(), (launches["start_ns"] + launches["duration_ns"]).to_numpy()
    names = pl.Series([f"aten::op_{at}" for at in range(60)], dtype=NAME)
    ops = pl.DataFrame(
        {
            "session": pl.repeat(0, len(first), dtype=pl.UInt32, eager=True),
            "op": np.arange(len(first), dtype=np.uint32),
            "name": names.gather(pl.Series(first // _OP % 60)),
            "start_ns": start[first] - 200,
            "duration_ns": end[last] + 100 - (start[first] - 200),
            "pid": 1,
            "tid": 1,
            "iteration": (first // _STEP).astype(np.int32),
            "op_source": pl.repeat("recorded", len(first), dtype=NAME, eager=True),
        }
    )
    step = np.arange(0, rows, _STEP)
    step_last = np.minimum(step + _STEP, rows) - 1
    ranges = pl.DataFrame(
        {
            "session": pl.repeat(0, len(step), dtype=pl.UInt32, eager=True),
            "name": pl.Series([f"ProfilerStep#{at}" for at in range(len(step))], dtype=NAME),
            "start_ns": start[step] - 300,
            "duration_ns": end[step_last] + 200 - (start[step] - 300),
            "pid": 1,
            "tid": 1,
            "depth": pl.repeat(0, len(step), dtype=pl.Int32, eager=True),
            "iteration": np.arange(len(step), dtype=np.int32),
        }
    )
    activities = activities.with_columns(
        op=pl.int_range(pl.len(), dtype=pl.UInt32) // _OP, op_join=pl.lit("launch").cast(NAME)
    )
    sessions = frames["sessions"].with_columns(
        rank=pl.lit(rank, pl.Int32), world_size=pl.lit(RANKS, pl.Int32), iteration_source=pl.lit("made")
    )
    made = {**frames, "sessions": sessions, "activities": activities, "ops": ops, "ranges": ranges}
    return build_profile(made, source=f"rank{rank}.made")
