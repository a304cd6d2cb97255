"""Measures functions in separate processes, so that runs do not affect each other's caches and memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CHILD = """
import json, sys, time
sys.path.insert(0, {root!r})
from tui.runtime import use_one_arena
use_one_arena()  # as the program does
from {module} import {function} as work
began = time.perf_counter()
rows = work({path!r})
seconds = time.perf_counter() - began
if isinstance(rows, tuple):
    rows, seconds = rows
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([seconds, int(status["VmHWM"].split()[0]) * 1024, rows]), flush=True)
import os
os._exit(0)
"""
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """A measured function: it takes the path of a file and returns the number of rows."""

    title: str
    function: str
    """``module:name``; the import is not measured."""
    path: Path
    is_floor: bool = False
    """Whether the other cases of its group are compared with it."""


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of several runs."""

    case: Case
    seconds: float
    fastest: float
    peak_bytes: int
    """The peak memory of the process and its children (`process_tree_bytes`)."""
    rows: int


def measure(cases: Sequence[Case], runs: int) -> list[Result]:
    """Run the cases several times in turns, so that other load affects all alike."""
    taken: dict[Case, list[tuple[float, int, int]]] = {case: [] for case in cases}
    for _ in range(runs):
        for case in cases:
            taken[case].append(_once(case))
    return [
        Result(
            case,
            statistics.median(seconds for seconds, _, _ in figures),
            min(seconds for seconds, _, _ in figures),
            max(peak for _, peak, _ in figures),
            figures[0][2],
        )
        for case, figures in taken.items()
    ]


def _once(case: Case) -> tuple[float, int, int]:
    module, function = case.function.split(":")
    root = str(Path(__file__).parents[1])
    program = _CHILD.format(root=root, module=module, function=function, path=str(case.path))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    tree = 0
    while child.poll() is None:
        tree = max(tree, process_tree_bytes(child.pid))
        time.sleep(_LOOK_EVERY_S)
    output, errors = child.communicate()
    if child.returncode:
        raise SystemExit(f"{case.title}: {errors.strip().splitlines()[-1]}")
    seconds, peak, rows = json.loads(output)
    return seconds, max(peak, tree), rows


def process_tree_bytes(pid: int) -> int:
    """The memory of a process and its children.

    Pages of mapped files (interpreter, libraries) are counted once; private memory is summed.
    """
    own = files = 0
    for one in [pid, *_children(pid)]:
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:  # it has ended
            continue
        used = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Rss")}
        own += 1024 * (int(used.get("RssAnon", 0)) + int(used.get("RssShmem", 0)))
        files = max(files, 1024 * int(used.get("RssFile", 0)))
    return own + files


def _children(pid: int) -> list[int]:
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in tasks.read_text().split()]
        except OSError:
            continue
    return found
