"""The measured parts of the timeline; each takes a path in the folder of `bench.generate_profile.stored_frames`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.generate_profile import read_frames
from tui.analysis.timeline.drawing import lane_cells
from tui.analysis.timeline.lookup import find_name, item_name, next_gap
from tui.analysis.timeline.shown import shown_lanes
from tui.analysis.timeline.window import full_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.timeline.shown import ShownLanes
    from tui.analysis.timeline.window import Window
    from tui.model.profile import Profile

Measured = tuple[int, float]
"""The number of activities, and seconds."""

CELLS = 170
PAINTS = 100


def numpy_pass(path: str) -> Measured:
    """Busy time per cell, from the durations of all launches by start."""
    activities = read_frames(Path(path).parent)["activities"].sort("start_ns")
    starts, durations = activities["start_ns"].to_numpy(), activities["duration_ns"].to_numpy()
    began = time.perf_counter()
    edges = np.linspace(starts[0], starts[-1], CELLS, endpoint=False).astype(np.int64)
    np.add.reduceat(durations, np.searchsorted(starts, edges))
    return activities.height, time.perf_counter() - began


def make_lanes(path: str) -> Measured:
    """All lanes with their sums."""
    profile = read_frames(Path(path).parent)
    began = time.perf_counter()
    shown_lanes(profile)
    return profile["activities"].height, time.perf_counter() - began


def _painted(path: str, part: Callable[[Window], Window]) -> Measured:
    profile = read_frames(Path(path).parent)
    shown = shown_lanes(profile)
    window = part(full_window(shown.begin_ns, shown.end_ns, CELLS, min_cell_ns=1))
    began = time.perf_counter()
    for _ in range(PAINTS):
        for lane in shown.lanes:
            lane_cells(lane, window.edges(), partial(item_name, profile, lane))
        window = window.moved_to(window.first_ns + window.cell_ns)
    return profile["activities"].height, (time.perf_counter() - began) / PAINTS


def paint_all(path: str) -> Measured:
    """Paint the whole recording."""
    return _painted(path, lambda window: window)


def paint_near(path: str) -> Measured:
    """Paint a thousandth of it."""
    return _painted(path, lambda window: window.zoomed(window.cell_ns // 1000, window.end_ns // 2))


def paint_close(path: str) -> Measured:
    """Paint single launches."""
    return _painted(path, lambda window: window.zoomed(1000, window.end_ns // 2))


def _measured(path: str, work: Callable[[Profile, ShownLanes], object]) -> Measured:
    profile = read_frames(Path(path).parent)
    shown = shown_lanes(profile)
    began = time.perf_counter()
    work(profile, shown)
    return profile["activities"].height, time.perf_counter() - began


def find_gemm(path: str) -> Measured:
    """Find all names with a text."""
    return _measured(path, lambda profile, shown: find_name(profile, shown, "gemm"))


def no_gap(path: str) -> Measured:
    """Search for a gap that does not exist."""
    return _measured(path, lambda _, shown: next_gap(shown.lanes[0], shown.begin_ns, 1, min_length_ns=1 << 40))
