"""Runs the benchmarks: ``python -m bench [NAME ...] [--rows N] [--runs N] [--json PATH] [--page PATH]``."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from bench.figures import Figure, machine, machine_text, print_figures, write_figures, write_page
from bench.measure import Result, measure
from tui.runtime import configure_numpy

BENCHMARKS = (
    "startup",
    "nvprof_trace",
    "kineto_trace",
    "protobuf_traces",
    "nsys_database",
    "second_opening",
    "memory",
    "ranks",
    "scale",
    "dataset",
    "analysis",
    "timeline",
    "keys",
)
"""Modules of this package.

Each has TITLE, NOTE, and the default ROWS and RUNS. It has either ``cases(rows)`` with ``figures(group, results,
tenth)`` and optionally MEASURES_GROWTH, or ``run(rows, runs)``, which prints its own table and returns the figures with
goals.
"""


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Run the chosen benchmarks; returns the figures with goals."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--rows", type=int, help="rows of each file (default: as each benchmark has it)")
    parser.add_argument("--runs", type=int, help="runs of each case, of which the median counts (default: the same)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there as well")
    parser.add_argument(
        "--page", type=Path, metavar="PATH", help="put the table into this page of Markdown; with names, their lines"
    )
    chosen = parser.parse_args(arguments)
    # As in the program; also inherited by the processes that are measured.
    configure_numpy()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    print(machine_text(machine()))
    figures: list[Figure] = []
    began = time.monotonic()
    for name in chosen.names or BENCHMARKS:
        benchmark = importlib.import_module(f"bench.{name}")
        rows, runs = chosen.rows or benchmark.ROWS, chosen.runs or benchmark.RUNS
        print(f"\n{benchmark.TITLE}: {rows:,} rows, {runs} runs\n({benchmark.NOTE})\n", flush=True)
        found = benchmark.run(rows, runs) if hasattr(benchmark, "run") else _run_cases(benchmark, rows, runs)
        figures += [figure.with_command(f"python -m bench {name} --rows {rows} --runs {runs}") for figure in found]
    if figures:
        print(f"\nGoals ({time.monotonic() - began:.0f} s in all)\n")
        print_figures(figures)
    if chosen.json is not None:
        write_figures(chosen.json, figures)
    if chosen.page is not None:
        write_page(chosen.page, figures, keeps_others=bool(chosen.names))
    return figures


def _run_cases(benchmark: ModuleType, rows: int, runs: int) -> list[Figure]:
    """Measure each group of cases in turns."""
    measures_growth = getattr(benchmark, "MEASURES_GROWTH", False)
    print(
        f"{'':<42}{'rows':>11}{'seconds':>9}{'fastest':>9}{'ratio':>7}{'file MB':>9}{'peak MB':>9}{'peak/file':>11}"
        + (f"{'growth':>9}" if measures_growth else "")
    )
    tenth: dict[str, float] = {}
    if measures_growth:
        for _, cases in benchmark.cases(rows // 10):
            tenth |= {result.case.title: result.fastest for result in measure(cases, runs)}
    figures: list[Figure] = []
    for title, cases in benchmark.cases(rows):
        print(title, flush=True)
        results = {result.case.title: result for result in measure(cases, runs)}
        _print_group(list(results.values()), tenth)
        figures += benchmark.figures(title, results, tenth)
    return figures


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


if __name__ == "__main__":
    main()
