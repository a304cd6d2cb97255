"""Time from the command to the first frame, compared with a minimal Textual application; and the imported modules."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import Figure
from bench.terminal import COLUMNS, LINES, Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TITLE = "Start-up"
NOTE = (
    f"milliseconds from the command to its end, or to the first text in a pseudo-terminal of {COLUMNS}x{LINES}; work: "
    "what its main thread had of the processor until then, however busy the machine is; medians of programs started in "
    "turns, compiled by a first run that does not count; modules: what Python holds at the end, or at that text"
)
ROWS, RUNS = 1, 3
RUNS_EACH = 4
"""Starts per run; a start takes a fraction of a second and varies much."""

ROOT = Path(__file__).parents[1]
LOG = str(ROOT / "sample_logs" / "resnet50_training.nvprof.log")
PYTHON = (sys.executable, "-c")
PROFTUI = (*PYTHON, "import sys\nfrom tui.cli.main import main\nsys.exit(main())")
BARE = (sys.executable, str(Path(__file__).with_name("bare_app.py")), "1000")

PASS, ARGPARSE, BARE_APP = "python -c pass", "import argparse", "bare application"

_MODULES = "\nimport sys\nprint(len(sys.modules), file=sys.stderr)"
_STEPS = """
import asyncio, json, sys, time
def step(title):
    global began
    steps.append((title, 1000 * (time.perf_counter() - began), len(sys.modules)))
    began = time.perf_counter()
steps, began = [], time.perf_counter()
import tui.cli.main, tui.cli.explore
step("import the command line")
import textual.app, textual.screen, textual.containers, textual.pilot
step("import Textual")
from tui.app import ProftuiApp
from tui.options import OpenOptions
step("import the shell")
async def main():
    app = ProftuiApp(OpenOptions(paths=({path!r},)))
    app.profile_loading.load = lambda: None
    async with app.run_test(size=({columns}, {lines})) as pilot:
        step("draw the shell: the first picture")
        import tui.analysis.capabilities, tui.loaders.registry
        step("import Polars and the loaders")
        from tui.opening import open_profiles
        opened = open_profiles(app.options, lambda progress: True, session=None)
        step("read the file")
        import tui.screens.dashboard
        step("import the dashboard")
        app.profile_loading._show_opened(opened)
        await pilot.pause()
        step("draw the dashboard, up to rest")
asyncio.run(main())
print(json.dumps(steps))
"""


@dataclass(slots=True)
class Start:
    """A program whose start is measured."""

    title: str
    command: Sequence[str]
    floor: str
    """The title of its floor."""
    goal: float | None = None
    """The maximum, as a multiple of the floor."""
    draws: re.Pattern[str] | None = None
    """Matches the frame at which it counts as started; None: when it has ended."""
    code: str = ""
    """Code with the same imports, to count them."""
    seconds: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def once(self, environment: Mapping[str, str]) -> tuple[float, float]:
        """Start it; returns seconds and processor seconds."""
        return _ended(self.command, environment) if self.draws is None else self._drawn(environment)

    def _drawn(self, environment: Mapping[str, str]) -> tuple[float, float]:
        assert self.draws is not None
        program = Terminal(self.command, dict(environment))
        try:
            picture = program.until(self.draws)
        finally:
            program.close()
        return picture.at_s, picture.worked_s

    @property
    def ms(self) -> float:
        """The median."""
        return 1000 * statistics.median(self.seconds)

    @property
    def work_ms(self) -> float:
        """The median."""
        return 1000 * statistics.median(self.worked)


def starts() -> list[Start]:
    """The programs, floors first."""
    asked = "from tui.cli.main import main\ntry: main([{!r}])\nexcept SystemExit: pass"
    opened = (*PROFTUI, LOG)
    return [
        Start(PASS, (*PYTHON, "pass"), ARGPARSE, code="pass"),
        Start(ARGPARSE, (*PYTHON, "import argparse"), ARGPARSE, code="import argparse"),
        Start("proftui --version", (*PROFTUI, "--version"), ARGPARSE, 2.0, code=asked.format("--version")),
        Start("proftui --help", (*PROFTUI, "--help"), ARGPARSE, 2.0, code=asked.format("--help")),
        Start(BARE_APP, BARE, BARE_APP, draws=re.compile(r"line +\d"), code="import bench.bare_app"),
        Start(
            "proftui FILE: the shell", opened, BARE_APP, 1.1, re.compile("Reading"), "import tui.cli.explore, tui.app"
        ),
        Start("proftui FILE: the dashboard", opened, BARE_APP, draws=re.compile("Dashboard")),
    ]


def run(_rows: int, runs: int) -> list[Figure]:
    """Measure and print the tables; returns the figures with goals."""
    programs = starts()
    with tempfile.TemporaryDirectory() as state:
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), state)
        # With compiled modules, as in an installation.
        environment = homes | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": state}
        for program in programs:
            program.once(environment)
        for _ in range(RUNS_EACH * runs):
            for program in programs:
                seconds, worked = program.once(environment)
                program.seconds.append(seconds)
                program.worked.append(worked)
        _print_starts(programs, environment)
        _print_steps(environment)
    known = {program.title: program for program in programs}
    return [
        Figure(
            f"start: {program.title}",
            program.ms / known[program.floor].ms,
            program.goal,
            "x",
            program.floor,
            known[program.floor].ms / 1000,
            program.ms / 1000,
        )
        for program in programs
        if program.goal is not None
    ]


def _ended(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=os.environ | environment)
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} has failed")
    return seconds, used.ru_utime + used.ru_stime


def _output(code: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, code]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True)


def _print_starts(programs: Sequence[Start], environment: Mapping[str, str]) -> None:
    known = {program.title: program for program in programs}
    print(f"{'':<28}{'runs':>5}{'ms':>7}{'fastest':>9}{'ratio':>8}{'work':>7}{'ratio':>8}{'goal':>7}{'modules':>9}")
    for program in programs:
        floor = known[program.floor]
        modules = _output(program.code + _MODULES, environment).stderr.strip() if program.code else ""
        goal = "" if program.goal is None else f"{program.goal:.1f}x"
        above = program.goal is not None and program.ms > program.goal * floor.ms
        print(
            f"{program.title:<28}{len(program.seconds):>5}{program.ms:>7.0f}{1000 * min(program.seconds):>9.0f}"
            f"{program.ms / floor.ms:>7.2f}x{program.work_ms:>7.0f}{program.work_ms / floor.work_ms:>7.2f}x"
            f"{goal:>7}{modules:>9}" + ("  above" if above else ""),
            flush=True,
        )


def _print_steps(environment: Mapping[str, str]) -> None:
    """Print the time of each step of opening a file, and the number of modules after it."""
    done = _output(_STEPS.format(path=LOG, columns=COLUMNS, lines=LINES), environment)
    print(f"\n{'each step alone, without a terminal':<38}{'ms':>7}{'modules':>9}")
    for title, ms, modules in json.loads(done.stdout.splitlines()[-1]):
        print(f"{title:<38}{ms:>7.0f}{modules:>9}", flush=True)
