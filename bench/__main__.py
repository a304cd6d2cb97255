"""Runs the benchmarks: ``python -m bench [NAME ...] [--rows N] [--runs N]``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
import polars

import tui
from bench.measure import Result, measure

BENCHMARKS = (
    "nvprof_trace",
    "nsys_database",
    "kineto_trace",
    "analysis",
    "timeline",
    "keys",
    "startup",
    "second_opening",
)
"""Modules of this package; each has TITLE, NOTE and cases(rows), and may say that it GROWS, or has run(rows, runs)."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each file (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each case, of which the median counts")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    print(_machine())
    for name in chosen.names or BENCHMARKS:
        benchmark = importlib.import_module(f"bench.{name}")
        if hasattr(benchmark, "run"):
            print(f"\n{benchmark.TITLE}: {chosen.rows:,} rows\n({benchmark.NOTE})\n", flush=True)
            benchmark.run(chosen.rows, chosen.runs)
            continue
        grows = getattr(benchmark, "GROWS", False)
        print(f"\n{benchmark.TITLE}: {chosen.rows:,} rows, median of {chosen.runs} runs, each a fresh process")
        print(f"({benchmark.NOTE})\n")
        print(
            f"{'':<42}{'rows':>11}{'seconds':>9}{'fastest':>9}{'ratio':>7}{'file MB':>9}{'peak MB':>9}{'peak/file':>11}"
            + (f"{'growth':>9}" if grows else "")
        )
        tenth: dict[str, float] = {}
        if grows:
            for _, cases in benchmark.cases(chosen.rows // 10):
                tenth |= {result.case.title: result.fastest for result in measure(cases, chosen.runs)}
        for title, cases in benchmark.cases(chosen.rows):
            print(title, flush=True)
            _print_group(measure(cases, chosen.runs), tenth)


def _print_group(results: Sequence[Result], tenth: Mapping[str, float]) -> None:
    floor = next(result for result in results if result.case.is_floor)
    for result in results:
        size = result.case.path.stat().st_size
        print(
            f"  {result.case.title:<40}{result.rows or '':>11}{result.seconds:>9.3f}{result.fastest:>9.3f}"
            f"{result.seconds / floor.seconds:>6.2f}x{size / 1e6:>9.0f}{result.peak_bytes / 1e6:>9.0f}"
            f"{result.peak_bytes / size:>10.2f}x"
            + (f"{result.fastest / tenth[result.case.title]:>8.1f}x" if tenth else ""),
            flush=True,
        )


def _machine() -> str:
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.system()}; "
        f"proftui {tui.__version__}, Python {platform.python_version()}, polars {polars.__version__}, "
        f"numpy {numpy.__version__}"
    )


if __name__ == "__main__":
    main()
