"""A dataset: time and memory of writing it and of opening it for the first and the second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure
from bench.generate_dataset import RANKS, dataset, rank_profile
from bench.generate_nvprof import ROOT
from tui.dataset.write_dataset import write_frames

TITLE = "a dataset of two ranks"
NOTE = (
    "convert: the frames of one rank that are in memory, written; opening: all that the app does before it shows a "
    "view, each in a fresh process, without its imports; peak: memory of the process that is no page of a file"
)
ROWS, RUNS = 2_000_000, 1

_OPEN = """
import json, sys, threading, time
import tui.opening, tui.analysis.capabilities, tui.analysis.iterations.chosen_iterations
import tui.cache.cache
import tui.loaders.registry
from tui.model.aggregation import Aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions
def anonymous():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["RssAnon"].split()[0]) * 1024
peak = anonymous()
def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
began = time.perf_counter()
options = OpenOptions(paths=(sys.argv[1],))
opened = open_profiles(options, lambda progress: True, session=None, aggregation=Aggregation())
seconds = time.perf_counter() - began
opened.cache.write()
size = sum(data.estimated_size() for data in opened.profile.frames.values())
print(json.dumps([seconds, peak, size]))
"""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each step; returns the figures."""
    folder = dataset(rows)
    profile = rank_profile(rows // RANKS, 0)
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        write_frames(profile, "rank0.made", out)
        writing = (time.perf_counter() - began) * RANKS
    del profile
    packed = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    with tempfile.TemporaryDirectory() as cache:
        openings = [_open_in_process(folder, cache) for _ in range(1 + runs)]
    first, again = openings[0], min(openings[1:])
    print(f"{'':<24}{'seconds':>9}{'MB':>9}{'peak MB':>9}{'of frames':>11}")
    print(f"{'convert':<24}{writing:>9.2f}{packed / 1e6:>9.0f}")
    for title, (seconds, peak, size) in (("first opening", first), ("second opening", again)):
        print(f"{title:<24}{seconds:>9.2f}{size / 1e6:>9.0f}{peak / 1e6:>9.0f}{peak / size:>10.2f}x", flush=True)
    return [
        Figure("a dataset: second opening", again[0] / first[0], None, "x", "its first opening", first[0], again[0]),
        Figure("a dataset: memory of the first opening", first[1] / first[2], 0.5, "x", "the size of its frames",
               None, first[0], first[1]),
    ]  # fmt: skip


def _open_in_process(folder: Path, cache: str) -> tuple[float, int, int]:
    """Seconds, peak memory without mapped files, and bytes of the frames."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(folder)],
        capture_output=True, text=True, cwd=ROOT, check=True, env=os.environ | {"XDG_CACHE_HOME": cache},
    )  # fmt: skip
    seconds, peak, size = json.loads(done.stdout)
    return seconds, peak, size
