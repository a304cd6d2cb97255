"""Converting one file per rank: one after the other, and on a Dask cluster of two local workers."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import Figure
from bench.generate_kineto import ranks_folder
from bench.generate_nvprof import text_log

if TYPE_CHECKING:
    from distributed import Client

TITLE = "Converting a file for each rank"
NOTE = (
    "PyTorch traces of 500 bytes a row asked for, and many small logs of nvprof; from the command to the finished "
    "dataset; the cluster is there before; CPU: of the processes that read and write, which others here delay "
    "but hardly add to; peak: memory of the largest of them"
)
ROWS, RUNS = 100_000, 1
BYTES_PER_ROW = 500
TRACES = 8
ROWS_OF_LOG = 1000
WORKERS = 2

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class ConversionCost:
    """The cost of a conversion."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(rows: int, runs: int) -> list[Figure]:
    """Print a line for each way to convert them, first for a quarter of the files, to see how the cost grows."""
    print(
        f"{'':<40}{'files':>6}{'MB':>7}{'seconds':>9}{'MB/s':>7}{'ratio':>7}{'CPU s':>8}{'CPU/file':>10}{'peak MB':>9}"
    )
    figures: list[Figure] = []
    with _cluster() as (address, client):
        for title, folder in (
            ("traces", ranks_folder(TRACES, rows * BYTES_PER_ROW // TRACES)),
            ("logs", _logs(max(8, rows // 2000))),
        ):
            files = sorted(folder.iterdir())
            ways: dict[str, tuple[list[Path], Callable[[list[Path]], ConversionCost]]] = {
                "a quarter of them": (files[: len(files) // 4], _convert),
                "one after the other": (files, _convert),
                f"{WORKERS} workers": (files, lambda files: _convert_there(files, address, client)),
            }
            taken: dict[str, list[ConversionCost]] = {way: [] for way in ways}
            for _ in range(runs):
                for way, (those, convert) in ways.items():
                    taken[way].append(convert(those))
            found = {way: _median(each) for way, each in taken.items()}
            floor, there = found["one after the other"], found[f"{WORKERS} workers"]
            for way, one in found.items():
                _print_line(f"{title}, {way}", ways[way][0], one, floor)
            what = f"converting {len(files)} {title} on a cluster of {WORKERS} workers here"
            ratio = there.seconds / floor.seconds
            figures.append(Figure(what, ratio, None, "x", "one after the other", floor.seconds, there.seconds))
    return figures


def _print_line(title: str, files: list[Path], taken: ConversionCost, floor: ConversionCost) -> None:
    size = sum(file.stat().st_size for file in files)
    print(
        f"{title:<40}{len(files):>6}{size / 1e6:>7.0f}{taken.seconds:>9.2f}{size / 1e6 / taken.seconds:>7.0f}"
        f"{taken.seconds / floor.seconds:>6.2f}x{taken.cpu_seconds:>8.2f}{taken.cpu_seconds / len(files):>10.3f}"
        f"{taken.peak_bytes / 1e6:>9.0f}",
        flush=True,
    )


def _logs(count: int) -> Path:
    """Logs that are read faster than a process starts."""
    log, _ = text_log(ROWS_OF_LOG)
    folder = log.with_name(f"logs_{count}")
    folder.mkdir(exist_ok=True)
    for rank in range(count):
        shutil.copyfile(log, folder / f"rank{rank}.nvprof.log")
    return folder


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[str, Client]]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            env={"POLARS_MAX_THREADS": "1"},
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster.scheduler_address, client


def _convert(files: list[Path], *options: str) -> ConversionCost:
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "tui", "convert", *map(str, files), "-o", f"{made}/run", *options]
        began = time.perf_counter()
        program = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(program.pid, 0)
        seconds = time.perf_counter() - began
        program.returncode = os.waitstatus_to_exitcode(status)
        if program.returncode:
            raise SystemExit(f"{' '.join(command[:4])} has failed")
    return ConversionCost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _convert_there(files: list[Path], address: str, client: Client) -> ConversionCost:
    before = sum(client.run(time.process_time).values())
    taken = _convert(files, "--scheduler", address)
    there = sum(client.run(time.process_time).values()) - before
    peaks = [used.ru_maxrss * 1024 for used in client.run(resource.getrusage, resource.RUSAGE_SELF).values()]
    return ConversionCost(taken.seconds, taken.cpu_seconds + there, max(peaks))


def _median(taken: list[ConversionCost]) -> ConversionCost:
    seconds, cpu_seconds = ([getattr(one, name) for one in taken] for name in ("seconds", "cpu_seconds"))
    return ConversionCost(
        statistics.median(seconds), statistics.median(cpu_seconds), max(one.peak_bytes for one in taken)
    )
