"""A folder of ranks: files read in parallel, compared with one after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.figures import Figure, ratio
from bench.generate_kineto import ranks_folder
from bench.generate_nvprof import text_log
from bench.measure import Case, measure

TITLE = "a folder of ranks"
NOTE = (
    "8 PyTorch traces, 500 bytes a row asked for; the events of two recorded ranks are repeated in turns; up to the "
    "joined frames; peak: memory of all processes, what they share counted in each"
)
ROWS, RUNS = 300_000, 1
RANKS = 8
BYTES_PER_ROW = 500

_SMALL_ROWS = 2000

GOAL = 1.0
"""Never slower, even if the files are too small for separate processes."""


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each way to read them; returns the figures with goals."""
    print(f"{'':<44}{'MB':>8}{'rows':>11}{'seconds':>9}{'fastest':>9}{'ratio':>7}{'peak MB':>9}")
    size = rows * BYTES_PER_ROW // RANKS
    folders = {
        "traces": ranks_folder(RANKS, size),
        "compressed traces": ranks_folder(RANKS, size, packed=True),
        "small logs": _small_logs(),
    }
    figures: list[Figure] = []
    for title, folder in folders.items():
        cases = [
            Case(f"{title}, one after the other", "bench.work:load_one_by_one", folder, is_floor=True),
            Case(f"{title}, together", "bench.work:load_together", folder),
        ]
        floor, together = measure(cases, runs)
        for result in (floor, together):
            print(
                f"{result.case.title:<44}{_size(folder) / 1e6:>8.0f}{result.rows:>11}{result.seconds:>9.3f}"
                f"{result.fastest:>9.3f}{result.seconds / floor.seconds:>6.2f}x{result.peak_bytes / 1e6:>9.0f}",
                flush=True,
            )
        figures.append(ratio(f"a folder of {RANKS} {title}", together, floor, GOAL))
    return figures


def _small_logs() -> Path:
    """Nvprof logs that are read faster than a process starts."""
    log, _ = text_log(_SMALL_ROWS)
    folder = log.with_name(f"small_{RANKS}")
    folder.mkdir(exist_ok=True)
    for rank in range(RANKS):
        shutil.copyfile(log, folder / f"rank{rank}.nvprof.log")
    return folder


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
