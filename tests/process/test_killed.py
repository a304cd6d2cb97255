"""The program is killed at any moment: no process is left, no partial file is used, the next run removes leftovers."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.profiles import SAMPLES
from tests.pseudo_terminal import PROGRAM, TerminalProgram
from tests.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

if not sys.platform.startswith("linux"):
    pytest.skip("reads /proc", allow_module_level=True)

ROOT = Path(__file__).parents[2]
MARK = "PROFTUI_TEST_MARK"
LONG_AGO = (1_700_000_000, 1_700_000_000)
KILL, TERM, HANG_UP = signal.SIGKILL, signal.SIGTERM, signal.SIGHUP


class World:
    """Folders and files of a run, and a mark on all its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        for name in ("tmp", "cache", "state"):
            (folder / name).mkdir()
        self.environment = {
            MARK: self.mark,
            "TMPDIR": str(folder / "tmp"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
        }

    def running_commands(self, limit_s: float = TIMEOUT_S) -> list[str]:
        """Return the command lines of its processes that still run after a time limit."""
        deadline = time.monotonic() + limit_s
        while (command_lines := self._running()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return command_lines

    def _running(self) -> list[str]:
        command_lines = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_ours = self.mark.encode() in (process / "environ").read_bytes()
                if is_ours and (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    command_lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return command_lines

    def temporary(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "tmp").iterdir())

    def partial_files(self) -> list[str]:
        """Return incomplete files in the cache and in the state."""
        return sorted(str(path) for name in ("cache", "state") for path in (self.folder / name).rglob("*.part"))

    def cache_entries(self) -> list[Path]:
        """Return the complete entries of the cache."""
        return list((self.folder / "cache").rglob("entry.json"))

    def report(self, log: Path, *options: str) -> str:
        """Return the report of a file."""
        command = [*PROGRAM, "report", str(log), "--view", "kernels", "--format", "json", *options]
        environment = os.environ | self.environment
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, cwd=self.folder
        )
        return completed.stdout

    def program(self, log: Path, *options: str) -> TerminalProgram:
        os.chdir(self.folder)
        return TerminalProgram([*PROGRAM, str(log), *options], self.environment)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log that takes a while, is kept in the cache, and was written long ago."""
    path = tmp_path_factory.mktemp("log") / "run.nvprof.log"
    data = (SAMPLES / "resnet50_training.nvprof.log").read_bytes()
    with path.open("wb") as file:
        for _ in range(8):
            file.write(data)
    os.utime(path, LONG_AGO)
    return path


@pytest.fixture(scope="module")
def truth(log: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report of the log without a cache."""
    return World(tmp_path_factory.mktemp("truth")).report(log, "--no-cache")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace that is large enough for decoder processes."""
    path = tmp_path_factory.mktemp("trace") / "run.pt.trace.json"
    content = gzip.decompress((SAMPLES / "resnet50_training.pt.trace.json.gz").read_bytes())
    begin = content.index(b"[", content.index(b'"traceEvents"')) + 1
    end = content.rindex(b"}", 0, content.rindex(b"]")) + 1
    with path.open("wb") as file:
        file.write(content[:begin] + b",".join([content[begin:end]] * 6) + content[end:])
    os.utime(path, LONG_AGO)
    return path


def end(program: TerminalProgram, signal_number: signal.Signals) -> None:
    """End the program, and check that it ends as expected."""
    if signal_number is HANG_UP:
        program.hang_up()
        assert program.wait_for_exit() in (128 + signal_number, -signal_number)
        return
    program.send_signal(signal_number)
    status = program.wait_for_exit()
    assert status in ((128 + signal_number, -signal_number) if signal_number is TERM else (-signal_number,))
    if status == 128 + signal_number:
        assert program.is_terminal_restored()


def moments(count: int, least_s: float, most_s: float, seed: int) -> Iterator[float]:
    """Yield random moments, one from each part of a time span."""
    chance = random.Random(seed)
    part = (most_s - least_s) / count
    for number in range(count):
        yield round(least_s + part * (number + chance.random()), 2)


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [KILL, TERM, HANG_UP], ids=["KILL", "TERM", "HUP"])
def test_a_kill_at_any_moment_leaves_nothing_behind(
    world: World, log: Path, truth: str, signal_number: signal.Signals
) -> None:
    for moment in moments(3, 0.1, 4.0, signal_number):
        with world.program(log) as program:
            program.run_for(moment)
            if program.status is None:
                end(program, signal_number)
        assert world.running_commands() == [], moment
        assert world.report(log) == truth, moment
        assert world.temporary() == [], moment


def test_a_terminal_closed_during_startup_ends_the_program(world: World, log: Path) -> None:
    def ignore() -> None:
        signal.signal(HANG_UP, signal.SIG_IGN)

    with TerminalProgram([*PROGRAM, str(log)], world.environment, setup=ignore) as program:
        # The rest of the start takes longer than this.
        program.run_for(0.05)
        program.hang_up()
        assert program.wait_for_exit() != 0
    assert world.running_commands() == []


@pytest.mark.slow
def test_a_kill_during_a_cache_write_leaves_nothing_behind(world: World, log: Path, truth: str) -> None:
    for signal_number in (HANG_UP, TERM, KILL):
        # Where the program was quicker than this test, it is there already.
        shutil.rmtree(world.folder / "cache")
        with world.program(log) as program:
            deadline = time.monotonic() + TIMEOUT_S
            # Where the test has to wait for the processor all is written before it looks.
            while not world.partial_files() and not world.cache_entries():
                assert time.monotonic() < deadline, "the cache was never written"
                program.run_for(0.005)
            end(program, signal_number)
        assert world.running_commands() == []
    assert world.report(log) == truth
    with world.program(log) as program:
        deadline = time.monotonic() + TIMEOUT_S
        while world.partial_files() or not world.cache_entries():
            assert time.monotonic() < deadline, world.partial_files()
            program.run_for(0.1)
        end(program, TERM)
    assert world.report(log) == truth


@pytest.mark.slow
def test_decoder_processes_end_with_the_program(world: World, trace: Path) -> None:
    for signal_number, moment in ((KILL, 0.0), (TERM, 0.1), (HANG_UP, 0.2)):
        with world.program(trace, "--no-cache") as program:
            deadline = time.monotonic() + TIMEOUT_S
            while not any("tui.loaders.worker_process" in command_line for command_line in world.running_commands(0)):
                assert time.monotonic() < deadline, "no worker was started"
                program.run_for(0.01)
            program.run_for(moment)
            end(program, signal_number)
        assert world.running_commands() == []
    assert world.temporary() == []


@pytest.mark.slow
def test_a_leftover_copy_of_a_pipe_is_removed_by_the_next_run(world: World, log: Path) -> None:
    data = gzip.decompress((SAMPLES / "gpt_cudagraph.nsys.sqlite.gz").read_bytes())
    with subprocess.Popen(
        [*PROGRAM, "report", "-"], env=os.environ | world.environment, stdin=subprocess.PIPE, cwd=world.folder
    ) as program:
        assert program.stdin is not None
        program.stdin.write(data[: len(data) // 2])
        program.stdin.flush()
        deadline = time.monotonic() + TIMEOUT_S
        while not world.temporary():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (copy,) = world.temporary()
        # One that is in use stays.
        world.report(SAMPLES / "caffe_conv1.nvprof.log")
        assert world.temporary() == [copy]
        program.kill()
    assert world.temporary() == [copy]
    world.report(SAMPLES / "caffe_conv1.nvprof.log")
    assert world.temporary() == []


@pytest.mark.slow
def test_nsys_ends_with_the_program_and_its_export_is_removed(world: World) -> None:
    tools = world.folder / "bin"
    tools.mkdir()
    nsys = tools / "nsys"
    nsys.write_text(
        "#!/bin/sh\ntrap '' TERM\nfor one; do case $one in --output=*) echo half > ${one#*=};; esac; done\n"
        "while :; do sleep 0.1; done\n"
    )
    nsys.chmod(nsys.stat().st_mode | stat.S_IXUSR)
    world.environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    report = world.folder / "run.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report" + bytes(4000))
    with world.program(report) as program:
        exports = world.folder / "cache" / "proftui" / "nsys"
        deadline = time.monotonic() + TIMEOUT_S
        while not list(exports.rglob("export.sqlite")):
            assert time.monotonic() < deadline
            program.run_for(0.05)
        assert any("--output=" in command_line for command_line in world.running_commands(0))
        end(program, KILL)
    assert world.running_commands() == []
    world.report(SAMPLES / "caffe_conv1.nvprof.log")
    assert list(exports.iterdir()) == []


def test_quitting_does_not_wait_for_running_work(world: World) -> None:
    code = f"""
from tui import opening
import time
def open_profiles(*_args, **_kwargs):
    time.sleep(2 * {TIMEOUT_S})
opening.open_profiles = open_profiles
from tui.cli.main import main
raise SystemExit(main())
"""
    log = SAMPLES / "caffe_conv1.nvprof.log"
    with TerminalProgram([sys.executable, "-c", code, str(log)], world.environment) as program:
        program.wait_for_text("Reading")
        program.press(b"Q")
        assert program.wait_for_exit() == 0
        assert program.is_terminal_restored()
