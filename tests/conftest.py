"""Sets up the environment of all tests, before anything imports textual (which reads the environment once)."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for _name in list(os.environ):
    if _name.startswith("TEXTUAL") or _name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLORTERM"):
        del os.environ[_name]
os.environ.update(TEXTUAL_ANIMATIONS="none", TZ="UTC", LC_ALL="C.UTF-8", TERM="xterm-256color")
time.tzset()

# Rewrite the assertions of these helpers like those of tests, so that a differing snapshot shows its lines.
pytest.register_assert_rewrite("tests.snapshots", "tests.screens.explorer", "tests.widgets.tables")

from tests.stylesheets import share_parsed_styles  # noqa: E402
from tests.waiting import patch_textual_waits  # noqa: E402
from tui import runtime  # noqa: E402

patch_textual_waits()
share_parsed_styles()
# Other workers of pytest use the other cores: a process that helps to read a sample takes longer than it saves.
runtime.set_core_limit(1)

# No deadline: the machine that runs the tests may be slow and shared.
settings.register_profile(
    "quick", deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=False,
    print_blob=True,
)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Exclude what the tests have imported from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def home_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a new folder for each test; ``mktemp`` would list all existing ones to number the next."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def state_directory(home_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the program's state and cache of a test in folders of its own; return the state folder."""
    home = next(home_folders)
    state, cache = home / "state", home / "cache"
    for folder in (state, cache):
        folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return state / "proftui"


@pytest.fixture
def all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trace be decoded by processes on all cores, as in the program."""
    monkeypatch.setattr(runtime, "_CORE_LIMIT", [])


@pytest.fixture
def cached_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands share the profiles that were read from samples."""
    from tests.profiles import load, load_one
    from tui.loaders import registry

    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(registry, "load_input", load_one)


@pytest.fixture
def corpus() -> Callable[[str], str]:
    """Return the function that gives the path of a corpus file, or skips the test."""
    from tests.corpus import corpus_file

    return corpus_file
