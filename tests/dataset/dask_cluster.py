"""A Dask cluster of real processes for tests: a scheduler, and workers that their nannies restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from tests.waiting import TIMEOUT_S

ODD = "import sys\nsys.path[:] = [path for path in sys.path if path.rstrip('/') != {root!r}]\n"
"""What a worker runs first that is to have no proftui."""


class DaskCluster:
    """A scheduler with some workers of one thread each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "log").open("wb")
        file = folder / "scheduler.json"
        # A file whose workers die twice is given up.
        self._scheduler = self._start(
            "dask_scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={file}", ALLOWED_FAILURES="1"
        )
        self._workers: list[subprocess.Popen[bytes]] = []
        # The file is there before it is written.
        try:
            wait_until(lambda: file.exists() and file.read_text().endswith("\n}"))
            self.address: str = json.loads(file.read_text())["address"]
        except BaseException:
            self.close()
            raise

    def add_workers(self, count: int, python_path: str = "") -> subprocess.Popen[bytes]:
        """Start workers, wait until the scheduler knows them, and return their parent process."""
        with self.client() as client:
            worker_count = len(client.nthreads())
            nannies = self._start(
                "dask_worker", self.address, f"--nworkers={count}", "--nthreads=1", python_path=python_path
            )
            self._workers.append(nannies)
            client.wait_for_workers(worker_count + count, timeout=TIMEOUT_S)
        return nannies

    def remove(self, nannies: subprocess.Popen[bytes]) -> None:
        """End workers, and wait until the scheduler knows."""
        with self.client() as client:
            worker_count = len(client.nthreads())
            self._end(nannies)
            self._workers.remove(nannies)
            wait_until(lambda: len(client.nthreads()) < worker_count)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Yield a client of the cluster."""
        client = Client(self.address, timeout=TIMEOUT_S, set_as_default=False)
        try:
            yield client
        finally:
            client.close()

    def pids(self) -> list[int]:
        """Return the process ids of its workers."""
        with self.client() as client:
            return sorted(client.run(os.getpid).values())

    def wait_for_workers(self, count: int) -> None:
        """Wait until the cluster has a number of workers again."""
        with self.client() as client:
            client.wait_for_workers(count, timeout=TIMEOUT_S)

    def kill_scheduler(self) -> None:
        """Kill the scheduler."""
        self._scheduler.kill()
        self._scheduler.wait()

    def close(self) -> None:
        """End all processes."""
        for process in [*self._workers, self._scheduler]:
            self._end(process)
        self._log.close()

    def _start(self, module: str, *options: str, python_path: str = "", **config: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", f"distributed.cli.{module}", *options, "--no-dashboard"]
        set_to = {f"DASK_DISTRIBUTED__SCHEDULER__{name}": value for name, value in config.items()}
        return subprocess.Popen(
            command, cwd=self._folder, env=_environment(python_path) | set_to, stdout=self._log, stderr=self._log
        )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(python_path: str) -> Mapping[str, str]:
    # One thread of Polars for each thread of a worker, as docs/scale.md says.
    paths = os.pathsep.join(filter(None, [python_path, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "POLARS_MAX_THREADS": "1"}


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.02)
