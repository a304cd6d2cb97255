"""Memory per launch of an open profile.

A file and one with half the launches are opened in separate processes; the difference in memory is divided by the
difference in launches. Memory that does not grow with the file cancels out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure
from bench.generate_kineto import kineto_trace
from bench.generate_nsys import skewed_database
from bench.generate_nvprof import ROOT, text_log

TITLE = "memory when a profile is open"
NOTE = (
    "memory in use (no page of a file) two seconds after a file was opened, less that of half the launches, "
    "for each launch that it has more; its rows besides launches (API calls, ops, ranges) are in it"
)

ROWS, RUNS = 1_000_000, 1
GOAL = 150.0
_KINETO_BYTES = 5_000
"""The approximate bytes of a PyTorch trace per launch, with its ops, calls and flows."""

_OPEN = """
import gc, json, sys, time
from tui.model.aggregation import Aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions

options = OpenOptions(paths=(sys.argv[1],), cache=False)
profile = open_profiles(options, lambda progress: True, session=None, aggregation=Aggregation()).profile
gc.collect()
time.sleep(2)  # Polars returns freed memory after half a second
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
rows = {name: frame.height for name, frame in profile.frames.items()}
sizes = {name: frame.estimated_size() for name, frame in profile.frames.items()}
print(json.dumps([int(status["RssAnon"].split()[0]) * 1024, rows, sizes]))
"""


@dataclass(frozen=True, slots=True)
class _Open:
    """An open profile."""

    used_bytes: int
    rows: dict[str, int]
    """The number of rows by frame."""
    frame_bytes: dict[str, int]
    """The bytes of its columns if none were shared."""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each kind of file; returns the figures with goals."""
    print(f"{'':<16}{'launches':>10}{'API calls':>11}{'ops':>10}{'half MB':>10}{'MB':>8}{'B a launch':>12}  of which B")
    kineto_bytes = min(rows * _KINETO_BYTES, 512_000_000)
    files = {
        "nvprof text": (text_log(rows // 2)[0], text_log(rows)[0]),
        "Kineto": (kineto_trace(kineto_bytes // 2), kineto_trace(kineto_bytes)),
        "Nsight Systems": (skewed_database(rows // 2), skewed_database(rows)),
    }
    return [_figure(title, *paths, runs) for title, paths in files.items()]


def _figure(title: str, half: Path, whole: Path, runs: int) -> Figure:
    found = [(_open_in_process(half), _open_in_process(whole)) for _ in range(runs)]
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


def _open_in_process(path: Path) -> _Open:
    """The memory of a new process that opened a file."""
    command = [sys.executable, "-c", _OPEN, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return _Open(*json.loads(done.stdout))
