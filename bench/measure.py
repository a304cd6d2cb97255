"""Measures a piece of work in processes of its own, so that no run warms another or adds to its memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CHILD = """
import json, sys, time
sys.path.insert(0, {root!r})
from {module} import {function} as work
began = time.perf_counter()
rows = work({path!r})
seconds = time.perf_counter() - began
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([seconds, int(status["VmHWM"].split()[0]) * 1024, rows]))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A piece of work: a function of a file's path that returns how many rows it read."""

    title: str
    function: str
    """``module:name``; a fresh process imports it, which is not measured."""
    path: Path
    is_floor: bool = False
    """Others of its group are compared with it."""


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of several runs."""

    case: Case
    seconds: float
    fastest: float
    peak_bytes: int
    """Most memory that the process ever had in use, with the interpreter and libraries."""
    rows: int


def measure(cases: Sequence[Case], runs: int) -> list[Result]:
    """Run every case several times, in turns: what else the machine does then hits all alike."""
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case.title}: {done.stderr.strip().splitlines()[-1]}")
    seconds, peak, rows = json.loads(done.stdout)
    return seconds, peak, rows
