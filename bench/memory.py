"""Memory that a profile takes when it has been opened: what the process has in use, less what it has without it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import Figure
from bench.grow_kineto import kineto_trace
from bench.grow_nsys import hard_database
from bench.grow_trace import ROOT, text_log

TITLE = "memory when a profile is open"
NOTE = (
    "memory in use by the process two seconds after it opened the file, less that after opening one of 2,000 launches; "
    "the rows that the file has besides its launches (API calls, ops, ranges) are in it"
)

ROWS, RUNS = 1_000_000, 1
GOAL = 150.0
_KINETO_BYTES = 5_000
"""About so many bytes of a PyTorch trace are for one launch: its ops, calls and flows are among them."""

_OPEN = """
import gc, json, sys, time
from tui.model.aggregation import Aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions

def used():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmRSS"].split()[0]) * 1024

def opened(path):
    options = OpenOptions(paths=(path,), cache=False)
    return open_profiles(options, lambda progress: True, session=None, aggregation=Aggregation()).profile

opened(sys.argv[1])
gc.collect()
before = used()
profile = opened(sys.argv[2])
gc.collect()
time.sleep(2)  # Polars gives memory back half a second after it was freed
after = used()
rows = {name: frame.height for name, frame in profile.frames.items()}
print(json.dumps([before, after, rows, {name: frame.estimated_size() for name, frame in profile.frames.items()}]))
"""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each kind of file; the figures that have goals."""
    print(
        f"{'':<16}{'launches':>10}{'API calls':>11}{'ops':>10}{'empty MB':>10}{'MB':>8}{'B a launch':>12}  of which B"
    )
    files = {
        "nvprof text": (text_log(2_000)[0], text_log(rows)[0]),
        "Kineto": (kineto_trace(2_000 * _KINETO_BYTES), kineto_trace(min(rows * _KINETO_BYTES, 256_000_000))),
        "Nsight Systems": (hard_database(20_000), hard_database(rows)),
    }
    return [_figure(title, *paths, runs) for title, paths in files.items()]


def _figure(title: str, small: Path, large: Path, runs: int) -> Figure:
    found = [_opened(small, large) for _ in range(runs)]
    before, after, rows, sizes = found[0]
    launches = rows["activities"]
    measured = statistics.median((after - before) / launches for before, after, _, _ in found)
    parts = ", ".join(f"{name} {size / launches:.0f}" for name, size in sizes.items() if size >= launches)
    print(
        f"{title:<16}{launches:>10}{rows['api_calls']:>11}{rows['ops']:>10}{before / 1e6:>10.0f}{after / 1e6:>8.0f}"
        f"{measured:>12.0f}  {parts}",
        flush=True,
    )
    # Less than before: what the smaller file had left behind was used again, which tells nothing.
    told = measured if measured > 0 else None
    return Figure(f"memory of an open profile: {title}, a launch", told, GOAL, "B", peak_bytes=after)


def _opened(small: Path, large: Path) -> tuple[int, int, dict[str, int], dict[str, int]]:
    """Memory in use before and after, and the rows and bytes of each frame."""
    command = [sys.executable, "-c", _OPEN, str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    before, after, rows, sizes = json.loads(done.stdout)
    return before, after, rows, sizes
