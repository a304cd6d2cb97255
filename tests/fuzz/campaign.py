"""Damages inputs of every format for a given time, and keeps what crashes, hangs or writes a raw escape.

    python -m tests.fuzz.campaign --minutes 60 --keep FOLDER

A process of its own reads the inputs, so that one that cannot be stopped is found, too. Each input is made from the
seed and its number alone: ``--seed 1 --first 712 --count 1`` makes one again.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.corpus import SHARED
from tests.fuzz.inputs import SQLITE, Tree, content, folders, inputs, real_inputs
from tests.fuzz.mutators import CELLS, change_columns, damaged, damaged_folder
from tests.fuzz.survival import read_and_show

MAX_MEMORY = 8 << 30
"""Bytes of address space: an input that needs more is a finding."""
LONGEST_S = 120.0
"""Seconds of processor time for all that is shown of an input; one text may take ten, which the reader sees itself."""
A_PROCESS = 400
"""Inputs that one process reads."""

Made = tuple[str, str, bytes | dict[str, bytes | None]]
"""The kind of an input, its name, and the content of its file or of its folder."""


def sources() -> list[tuple[str, str, bytes | Tree]]:
    """Return kind, name and content of every input: files by their extension, folders by their name."""
    known: list[tuple[str, str, bytes | Tree]] = [("sample", name, data) for name, data in inputs().values()]
    known += [("folder", name, tree) for name, tree in folders().items()]
    for path in map(Path, real_inputs()):
        if not path.parent.name.endswith("_csvs"):
            known.append(("/".join(path.parts[:2]), path.name, content(SHARED / path)))
    return known


def make(known: list[tuple[str, str, bytes | Tree]], seed: int, number: int, folder: Path) -> tuple[str, Path]:
    """Write the damaged input with a number into a folder; return its kind and path."""
    random = Random(f"{seed}/{number}")
    # As many inputs of each kind, however many files there are of it.
    kind = random.choice(sorted({kind for kind, _, _ in known}))
    _, name, data = random.choice([source for source in known if source[0] == kind])
    path = folder / name.removesuffix(".gz")
    if isinstance(data, dict):
        for name_in_folder, data_of_file in damaged_folder(random, data).items():
            _write(path / name_in_folder, data_of_file)
        path.mkdir(exist_ok=True)
        return f"folder {name}", path
    if data.startswith(SQLITE) and random.random() < 0.7:
        path.write_bytes(data)
        values = [(random.randrange(100), random.randrange(100), random.choice(CELLS), random.random() < 0.5)]
        change_columns(path, values * random.randrange(1, 5))
        return kind, path
    path.write_bytes(damaged(random, data))
    return (f"made {name}" if kind == "sample" else kind), path


def _write(path: Path, data: bytes | None) -> None:
    with suppress(OSError):  # a folder lies where a file is to be
        if data is None:
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def work(seed: int, first: int, count: int) -> None:
    """Read inputs, and print a record of each on a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    known = sources()
    for number in range(first, first + count):
        record: dict[str, Any] = {"number": number}
        print(json.dumps(record), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            start_s = time.process_time()
            record["kind"], path = make(known, seed, number, Path(folder))
            try:
                record["is_read"] = read_and_show(path, everything=number % 2 == 0)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                record["fault"] = "".join(traceback.format_exception(error))
            record["cpu_s"] = time.process_time() - start_s
        print(json.dumps(record), flush=True)


class Campaign:
    """Runs workers until the time is over, and counts their results."""

    def __init__(self, seed: int, keep: Path) -> None:
        self._seed, self._keep = seed, keep
        self._known = sources()
        self.read: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.cpu_s = 0.0
        self.slowest_s = 0.0

    def run(self, first: int, last: int, end_s: float) -> int:
        """Run inputs from one number up to another or until a time; return the number after the last one."""
        number = first
        while number < last and time.monotonic() < end_s:
            number = self._process(number, min(A_PROCESS, last - number), end_s)
        return number

    def _process(self, first: int, count: int, end_s: float) -> int:
        """Run one worker; return the number with which the next one begins."""
        options = ["--seed", str(self._seed), "--first", str(first), "--count", str(count), "--work"]
        with (
            open(self._keep / "stderr.txt", "ab") as errors,  # noqa: PTH123
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.campaign", *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as worker,
        ):
            lines: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_pass_lines, args=(worker.stdout, lines), daemon=True).start()
            number, start_cpu_s = first, _cpu_s(worker.pid)
            while time.monotonic() < end_s:
                try:
                    line = lines.get(timeout=5.0)
                except queue.Empty:
                    if _cpu_s(worker.pid) - start_cpu_s > LONGEST_S:
                        worker.kill()
                        self._keep_finding(number, "hang", f"more than {LONGEST_S:g} s of processor time")
                        return number + 1
                    continue
                if not line:
                    if worker.wait() != 0:
                        self._keep_finding(number, "died", f"exit status {worker.returncode}")
                    return number + 1
                record = json.loads(line)
                number, start_cpu_s = record["number"], _cpu_s(worker.pid)
                if "kind" in record:
                    self._count(record)
            worker.kill()
            return number

    def _count(self, record: dict[str, Any]) -> None:
        self.cpu_s += record["cpu_s"]
        self.slowest_s = max(self.slowest_s, record["cpu_s"])
        if "fault" in record:
            self._keep_finding(record["number"], record["kind"], record["fault"])
        else:
            (self.read if record["is_read"] else self.declined)[record["kind"]] += 1
        with (self._keep / "counts.json").open("w") as file:
            json.dump(self.summary(), file, indent=1)

    def summary(self) -> dict[str, Any]:
        """Return the counts of the inputs so far."""
        return {
            "read": sum(self.read.values()),
            "declined": sum(self.declined.values()),
            "faults": self.faults,
            "cpu_s": round(self.cpu_s),
            "slowest_s": round(self.slowest_s, 1),
            "kinds": {kind: [self.read[kind], self.declined[kind]] for kind in sorted({*self.read, *self.declined})},
        }

    def _keep_finding(self, number: int, kind: str, fault: str) -> None:
        """Keep an input that is a finding, with its failure."""
        summary = fault.strip().splitlines()[-1]
        self.faults[summary] += 1
        if self.faults[summary] > 3:
            return
        folder = self._keep / f"{self._seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(self._known, self._seed, number, folder)
        (self._keep / f"{self._seed}-{number}.txt").write_text(f"{kind}\n{fault}", "utf-8", "backslashreplace")
        print(f"{self._seed}-{number}: {kind}: {summary[:200]}", flush=True)


def _pass_lines(stream: Any, lines: queue.Queue[str]) -> None:
    """Put lines into a queue as they are read, and an empty one at the end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def _cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run a campaign, and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.seed, options.first, options.count)
        return
    options.keep.mkdir(parents=True, exist_ok=True)
    start_s = time.monotonic()
    campaign = Campaign(options.seed, options.keep)
    campaign.run(options.first, options.first + options.count, start_s + 60 * options.minutes)
    print(json.dumps({**campaign.summary(), "wall_s": round(time.monotonic() - start_s)}, indent=1))


if __name__ == "__main__":
    main()
