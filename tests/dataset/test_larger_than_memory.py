"""A profile of twice the memory that the program may have: it opens, and every view and every report works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.grow_dataset import write_dataset
from tui.cli.arguments import VIEWS
from tui.views import VIEWS as SCREENS

LAUNCHES = 3_000_000
"""So many that what the program takes whatever it opens weighs little."""

REPORTS = (
    ("dashboard", "op-types", "group-ops", "ops", "kernels", "api"),
    ("iterations", "kernels-by-iteration", "kernels-by-op", "ranges", "gpus", "ranks"),
    ("memory", "timeline"),
    ("layers", "metrics", "tool-report", "issues", "findings"),
)
"""What is printed by one process after the other."""

VISITS = (
    (("dashboard", "op-types", "group-ops"), 0.5),
    (("ops-and-kernels", "kernels", "kernels-by-iteration", "kernels-by-op", "iterations"), 0.5),
    (("gpus", "expert-systems"), 0.5),
    (("api-calls",), 0.5),
    (("timeline",), 1.0),
    (("memory", "ranges"), 1.0),
    (("metrics", "summaries", "layers", "tool-report", "sql", "notes", "issues"), 1.0),
)
"""Views visited in one process, one after the other, and the memory that it may have as a share of the frames."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")

_LIMITED = """
import resource, sys
import polars as pl
import tests.screens.opening, tui.cache.cache, tui.output.report, tui.output.check, tui.output.report_dashboard
import tui.analysis.kept, tui.analysis.inputs.capabilities, tui.analysis.iterations.aggregation
pl.DataFrame({"a": [2, 1] * 50_000}).lazy().group_by("a").len().sort("a").collect(engine="streaming")
used = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
limit = used + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
"""
"""A process with its libraries and threads, which may have so many bytes more. Pages of files do not count."""

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
from tests.screens.opening import opened, settled, until
from tui.app.program import ProftuiApp
async def visit():
    async with opened(sys.argv[2]) as pilot:
        for view in sys.argv[3:]:
            pilot.app.go(view)
            await settled(pilot)
            await pilot.press("down", "down", "enter")
            await settled(pilot)
            print(view, pilot.app.screen.query("*").first() is not None, file=sys.stderr)
asyncio.run(visit())
"""

_BYTES = """
import sys
from tui.loaders.registry import load_one
print(sum(data.estimated_size() for data in load_one(sys.argv[1]).frames.values()))
"""


def limited(code: str, *arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
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
    """A dataset, the cache of all its openings, and the bytes of its frames."""
    folder, cache = tmp_path_factory.mktemp("large"), tmp_path_factory.mktemp("cache")
    write_dataset(LAUNCHES, folder)
    measured = limited(_BYTES, folder, cache=cache)
    assert measured.returncode == 0, measured.stderr
    return folder, cache, int(measured.stdout)


def test_every_view_is_in_a_test() -> None:
    assert sorted(view for views in REPORTS for view in views) == sorted(set(VIEWS) - {"notes"})
    assert sorted(view for views, _ in VISITS for view in views) == sorted(
        {view.name for view in SCREENS} - {"log", "compare"}
    )


@pytest.mark.parametrize("views", REPORTS, ids=lambda views: views[0])
def test_reports(views: tuple[str, ...], dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    done = limited(_LIMITED + _REPORTS, size // 2, folder, *views, cache=cache)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "not enough memory" not in done.stderr


@pytest.mark.parametrize(("views", "share"), VISITS, ids=[views[0] for views, _ in VISITS])
def test_screens(views: tuple[str, ...], share: float, dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    done = limited(_LIMITED + _SCREENS, int(share * size), folder, *views, cache=cache)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stderr.splitlines() if line.endswith("True")] == list(views)


def test_without_the_mapping_it_would_not_open(dataset: tuple[Path, Path, int]) -> None:
    folder, cache, size = dataset
    in_memory = "import tui.loaders.dataset.loader as loader\nloader.IN_MEMORY_BYTES = 1 << 60\n"
    done = limited(_LIMITED + in_memory + _REPORTS, size // 2, folder, "kernels", cache=cache)
    assert done.returncode != 0
