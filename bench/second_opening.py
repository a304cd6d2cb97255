"""Opening a file again, compared with the first time, up to the first view."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure
from bench.generate_kineto import kineto_trace
from bench.generate_nsys import skewed_database
from bench.generate_nvprof import ROOT, text_log

TITLE = "opening a file again"
NOTE = (
    "files of about 250 to 500 bytes a row; each opening in a fresh process, without its imports; the files are in the "
    "page cache; peak: memory of the process alone, pages of files among it"
)

ROWS, RUNS = 400_000, 1
GOAL = 0.05

_OPEN = """
import json, sys, time
import tui.opening, tui.analysis.capabilities, tui.analysis.iterations.chosen_iterations
import tui.cache.cache
import tui.loaders.registry
from tui.model.aggregation import Aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions
options = OpenOptions(paths=(sys.argv[1],), cache=sys.argv[2] != "without")
began = time.perf_counter()
opened = open_profiles(options, lambda progress: True, session=None, aggregation=Aggregation())
seconds = time.perf_counter() - began
used = opened.cache is not None and bool(opened.cache.used)
began = time.perf_counter()
if opened.cache is not None:
    opened.cache.write()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps([seconds, time.perf_counter() - began, used, peak, opened.profile["activities"].height]))
"""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each kind of file; returns the figures with goals."""
    print(
        f"{'':<24}{'file MB':>9}{'kept MB':>9}{'first':>9}{'again':>9}{'ratio':>8}{'goal':>7}{'write':>9}"
        f"{'peak MB':>9}{'again':>8}"
    )
    files = {
        "nvprof text": text_log(rows)[0],
        "Kineto": kineto_trace(rows * 256),
        "Nsight Systems": skewed_database(rows * 5 // 2),
    }
    figures: list[Figure] = []
    for title, path in files.items():
        with tempfile.TemporaryDirectory() as folder:
            first, again, writing, peaks = [], [], [], []
            size = 0
            for _ in range(runs):
                before = _open_in_process(path, "without", folder)
                made = _open_in_process(path, "with", folder)
                size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
                after = _open_in_process(path, "with", folder)
                subprocess.run(
                    [sys.executable, "-m", "tui", "cache", "clear"],
                    env=_env(folder),
                    cwd=ROOT,
                    check=True,
                    stderr=subprocess.DEVNULL,
                )
                if not after[2]:
                    print(f"{title:<24}{path.stat().st_size / 1e6:>9.0f}  is read too quickly to be kept", flush=True)
                    break
                first.append(before[0])
                again.append(after[0])
                writing.append(made[1])
                peaks.append((before[3], after[3]))
            else:
                _print(title, path, size, first, again, writing, peaks)
                figures.append(_figure(title, first, again, max(after for _, after in peaks)))
    return figures


def _figure(title: str, first: list[float], again: list[float], peak: int) -> Figure:
    one, two = statistics.median(first), statistics.median(again)
    return Figure(f"opening again: {title}", two / one, GOAL, "x", "opening it for the first time", one, two, peak)


def _print(
    title: str,
    path: Path,
    size: int,
    first: list[float],
    again: list[float],
    writing: list[float],
    peaks: list[tuple[int, int]],
) -> None:
    one, two = statistics.median(first), statistics.median(again)
    print(
        f"{title:<24}{path.stat().st_size / 1e6:>9.0f}{size / 1e6:>9.0f}{one:>9.3f}{two:>9.3f}{two / one:>7.3f}x"
        f"{GOAL:>6.2f}x{statistics.median(writing):>9.3f}{max(p[0] for p in peaks) / 1e6:>9.0f}"
        f"{max(p[1] for p in peaks) / 1e6:>8.0f}",
        flush=True,
    )


def _open_in_process(path: Path, how: str, folder: str) -> tuple[float, float, bool, int, int]:
    """Seconds of opening and of writing, whether it was cached, peak memory, and the number of activities."""
    command = [sys.executable, "-c", _OPEN, str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, env=_env(folder), cwd=ROOT, check=True)
    seconds, writing, used, peak, rows = json.loads(done.stdout)
    return seconds, writing, used, peak, rows


def _env(folder: str) -> dict[str, str]:
    return os.environ | {"XDG_CACHE_HOME": folder}
