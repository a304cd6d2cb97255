"""Fixes the world that tests run in, before anything imports textual (which reads the environment once)."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for _name in list(os.environ):
    if _name.startswith("TEXTUAL") or _name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLORTERM"):
        del os.environ[_name]
os.environ.update(TEXTUAL_ANIMATIONS="none", TZ="UTC", LC_ALL="C.UTF-8", TERM="xterm-256color")
time.tzset()

from tests.idle import wait_for_what_is_done  # noqa: E402
from tests.stylesheets import parse_once  # noqa: E402

wait_for_what_is_done()
parse_once()

# No deadline: the machine that runs the tests may be slow and shared.
settings.register_profile(
    "quick", deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow], derandomize=True
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
    """What all tests have imported stays: the garbage collector is to look at it no more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program remembers things in a test: never in the user's own place, nor is what it keeps."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return folder / "proftui"


@pytest.fixture
def corpus() -> Callable[[str], str]:
    """Gives the path of a corpus file, or skips the test."""
    from tests.corpus import corpus_file

    return corpus_file
