"""Memory that a launch takes in a profile that has been opened.

A file and one of half its launches are opened, each in a process of its own, and the difference of what the two have in
use is divided by the difference of their launches. What a process takes whatever it opens, and what it keeps of memory
that only reading needed, is in both and cancels out, as far as it does not grow with the file.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure
from bench.grow_kineto import kineto_trace
from bench.grow_nsys import hard_database
from bench.grow_trace import ROOT, text_log

TITLE = "memory when a profile is open"
NOTE = (
    "memory in use (no page of a file) two seconds after a file was opened, less that of half the launches, "
    "for each launch that it has more; its rows besides launches (API calls, ops, ranges) are in it"
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

options = OpenOptions(paths=(sys.argv[1],), cache=False)
profile = open_profiles(options, lambda progress: True, session=None, aggregation=Aggregation()).profile
gc.collect()
time.sleep(2)  # Polars gives memory back half a second after it was freed
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
rows = {name: frame.height for name, frame in profile.frames.items()}
sizes = {name: frame.estimated_size() for name, frame in profile.frames.items()}
print(json.dumps([int(status["RssAnon"].split()[0]) * 1024, rows, sizes]))
"""


@dataclass(frozen=True, slots=True)
class _Open:
    """A profile that is open."""

    used_bytes: int
    rows: dict[str, int]
    """Of each frame."""
    frame_bytes: dict[str, int]
    """What its columns would take if none were shared."""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each kind of file; the figures that have goals."""
    print(f"{'':<16}{'launches':>10}{'API calls':>11}{'ops':>10}{'half MB':>10}{'MB':>8}{'B a launch':>12}  of which B")
    kineto_bytes = min(rows * _KINETO_BYTES, 512_000_000)
    files = {
        "nvprof text": (text_log(rows // 2)[0], text_log(rows)[0]),
        "Kineto": (kineto_trace(kineto_bytes // 2), kineto_trace(kineto_bytes)),
        "Nsight Systems": (hard_database(rows // 2), hard_database(rows)),
    }
    return [_figure(title, *paths, runs) for title, paths in files.items()]


def _figure(title: str, half: Path, whole: Path, runs: int) -> Figure:
    found = [(_opened(half), _opened(whole)) for _ in range(runs)]
    measured = statistics.median(
        (more.used_bytes - less.used_bytes) / (more.rows["activities"] - less.rows["activities"])
        for less, more in found
    )
    less, more = found[0]
    launches = more.rows["activities"]
    parts = ", ".join(f"{name} {size / launches:.0f}" for name, size in more.frame_bytes.items() if size >= launches)
    print(
        f"{title:<16}{launches:>10}{more.rows['api_calls']:>11}{more.rows['ops']:>10}{less.used_bytes / 1e6:>10.0f}"
        f"{more.used_bytes / 1e6:>8.0f}{measured:>12.0f}  {parts}",
        flush=True,
    )
    return Figure(f"memory of an open profile: {title}, a launch", measured, GOAL, "B", peak_bytes=more.used_bytes)


def _opened(path: Path) -> _Open:
    """What a fresh process has in use when it has opened a file."""
    command = [sys.executable, "-c", _OPEN, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return _Open(*json.loads(done.stdout))
