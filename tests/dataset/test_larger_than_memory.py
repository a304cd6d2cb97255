"""A profile twice as large as the memory limit of the program: it opens, and every view and every report works.

What a process may have is what it takes with its libraries and the threads of Polars before anything is opened, and
half of what the frames of the profile would take in memory. One process prints all reports, one after the other, and
one goes through all views and back: what the earlier ones leave behind is there while the later ones work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.generate_dataset import write_dataset
from tui.tables import ALL_REPORTS
from tui.views import VIEWS as SCREENS

LAUNCHES = 2_000_000
"""So many that what the program takes whatever it opens weighs little."""

NOT_HELD = {"roofline", "metrics", "summaries", "layers", "tool-report", "log"}
"""Views that have nothing to show of this dataset, and say why."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")]

_LIMITED = """
import resource, sys, threading
import polars as pl
import tests.screens.explorer, tui.cache.cache, tui.output.report, tui.output.check, tui.output.report_dashboard
import tui.opening, tui.analysis.capabilities, tui.analysis.iterations.chosen_iterations
pl.DataFrame({"a": [2, 1] * 50_000}).lazy().group_by("a").len().sort("a").collect(engine="streaming")
used = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
limit = used + int(sys.argv[1])
threading.stack_size(1 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
"""
"""A process with its libraries and threads, which may have so many bytes more.

Pages of files do not count. All of the stack of a thread does, used or not, so stacks are made smaller.
"""

_REPORTS = """
from tui.cli import headless
from tui.cli.main import main
load_files, read = headless.load_files, []
def once(options):
    if not read:
        read.append(load_files(options))
    return read[0]
headless.load_files = once
for view in sys.argv[3:]:
    assert main(["report", "--view", view, "--format", "json", sys.argv[2]]) == 0, view
"""

_SCREENS = """
import asyncio
from tests.screens.explorer import open_explorer, settle
from tui.app.app import ProftuiApp
async def visit():
    async with open_explorer(sys.argv[2]) as pilot:
        app = pilot.app
        for view in sys.argv[3:]:
            if view == "compare":
                app.comparison.compare("sessions 0 1")
            else:
                app.go(view)
            await settle(pilot)
            there = app.view_screen.VIEW
            if there != view:
                print(view, there, "refused", app.navigator.availability[view], flush=True)
                continue
            await pilot.press("down", "down", "enter")
            await settle(pilot)
            lack = str(app.view_screen.query_one("#warning").visual)
            print(view, there, "lacking" if lack else "shown", lack, flush=True)
asyncio.run(visit())
"""

_BYTES = """
import sys
from tui.loaders.registry import load_input
print(sum(data.estimated_size() for data in load_input(sys.argv[1]).frames.values()))
"""


def run_with_memory_limit(code: str, *arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    # The allocators of Polars and of C give back at once what is free: what counts is what is used.
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        "_RJEM_MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "131072",
    }
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """Return a dataset, the cache of all its openings, and the bytes of its frames."""
    folder, cache = tmp_path_factory.mktemp("large"), tmp_path_factory.mktemp("cache")
    write_dataset(LAUNCHES, folder)
    measured = run_with_memory_limit(_BYTES, folder, cache=cache)
    assert measured.returncode == 0, measured.stderr
    return folder, cache, int(measured.stdout)


def test_reports_of_a_dataset_larger_than_memory(dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    views = [view for view in ALL_REPORTS if view != "notes"]
    completed = run_with_memory_limit(_LIMITED + _REPORTS, size // 2, folder, *views, cache=cache)
    assert completed.returncode == 0, completed.stderr[-2000:]
    assert "not enough memory" not in completed.stderr


def test_screens_of_a_dataset_larger_than_memory(dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    views = [view.name for view in SCREENS]
    back = [view for view in reversed(views[:-1]) if view not in NOT_HELD]
    completed = run_with_memory_limit(_LIMITED + _SCREENS, size // 2, folder, *views, *back, cache=cache)
    assert completed.returncode == 0, completed.stdout + completed.stderr[-2000:]
    lines = [tuple(line.split()[:3]) for line in completed.stdout.splitlines()]
    assert [view for view, _, _ in lines] == views + back
    assert {view for view, _, word in lines if word == "refused"} == NOT_HELD
    assert all(word == "shown" and view == shown for view, shown, word in lines if view not in NOT_HELD), (
        completed.stdout
    )


def test_without_memory_mapping_it_does_not_open(dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    in_memory = "import tui.loaders.dataset_loader as loader\nloader.IN_MEMORY_BYTES = 1 << 60\n"
    completed = run_with_memory_limit(_LIMITED + in_memory + _REPORTS, size // 2, folder, "kernels", cache=cache)
    assert completed.returncode != 0
