"""Opens the explorer in a test and waits until a view is shown."""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from tests.idle import PATIENCE_S, Patience, at_work, until, until_idle
from tests.profiles import SAMPLES
from tests.snapshots import assert_picture, assert_text, screen_text
from tui import opening, runtime
from tui.app import ProftuiApp, app, key_queue, navigator, profile_loading
from tui.model.history import Place
from tui.options import OpenOptions
from tui.state import store
from tui.widgets.table import filtering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.loaders.base import Report
    from tui.model.aggregation import Aggregation

SIZES: Final = ((80, 24), (120, 40), (200, 50))
"""Columns and lines of a terminal: the least usual one, a common one, a large one."""

QUICK: Final = "issues"
"""A view that is quick to open, for tests to which it does not matter."""

SETTLED_AFTER = 0.002
"""Seconds that the cursor rests before others are told of the row, in tests."""

filtering.CURSOR_REST_S = SETTLED_AFTER  # type: ignore[misc]
# So soon that `until_idle` waits for it: what is to be done when a view has its rows is done when it has settled.
navigator.CHECK_EVERY_S = SETTLED_AFTER  # type: ignore[misc]
# A message is there until the next: on a loaded machine it would be gone before the test looks.
app.MESSAGE_SECONDS = app.WARNING_SECONDS = 2 * PATIENCE_S  # type: ignore[misc]
# There, too, a key is under way until it has had its effect, and a thread waits for another that writes.
key_queue.MAX_WAIT_S = store.WAIT_SECONDS = PATIENCE_S  # type: ignore[misc]
navigator.Navigator.PREPARES_VIEWS = False  # type: ignore[misc]
# A whole collection looks at all that the tests have imported: two of them are a quarter of opening an app.
runtime.gc = profile_loading.gc = SimpleNamespace(  # type: ignore[attr-defined]
    enable=gc.enable, get_count=gc.get_count, get_threshold=gc.get_threshold, set_threshold=gc.set_threshold,
    collect=lambda _generation=2: 0, freeze=lambda: None, unfreeze=lambda: None,
)  # fmt: skip

_read = opening.open_profiles


@lru_cache(maxsize=12)
def _sample_as_read(
    options: OpenOptions, session: int | None, aggregation: Aggregation | None
) -> opening.OpenedProfiles:
    return _read(options, lambda _progress: True, session=session, aggregation=aggregation)


def _open_profiles(options: OpenOptions, report: Report, **how: Any) -> opening.OpenedProfiles:
    """A sample is read once for all tests, and what was worked out of it is kept: nothing ever changes it."""
    if how.get("renew") or not all(Path(path).is_relative_to(SAMPLES) for path in options.paths):
        return _read(options, report, **how)
    plain = OpenOptions(paths=options.paths, format_in=options.format_in, gpu=options.gpu, cache=options.cache)
    return _sample_as_read(plain, how.get("session"), how.get("aggregation"))


def sample(name: str) -> str:
    """The path of a sample log."""
    return str(SAMPLES / name)


@asynccontextmanager
async def opened(
    *paths: str,
    view: str = app.FIRST_VIEW,
    size: tuple[int, int] = (120, 40),
    notifications: bool = False,
    anew: bool = False,
    **options: Any,
) -> AsyncIterator[Pilot[None]]:
    """The explorer with files open, as soon as its first view is shown.

    Args:
        paths: Names of samples, or paths.
        view: The view to open, as if it had been gone to from the dashboard, which is not waited for.
        size: Columns and lines of the terminal.
        notifications: Whether messages are shown.
        anew: Whether the files are read for this test alone.
        options: Further fields of `OpenOptions`.
    """
    given = tuple(path if "/" in path else sample(path) for path in paths)
    explorer = ProftuiApp(OpenOptions(paths=given, **options))
    if view != app.FIRST_VIEW:
        explorer.navigator.history.visit(Place(app.FIRST_VIEW))
    read = _read if anew else _open_profiles

    def is_open() -> bool:
        assert (why := explorer.navigator.availability.get(view, "ok")) == "ok", f"{view}: {why}"
        return explorer.view_screen is not None and explorer.view_screen.is_mounted

    with patch.object(opening, "open_profiles", read), patch.object(app, "FIRST_VIEW", view):
        async with explorer.run_test(size=size, notifications=notifications) as pilot:
            await until(pilot, is_open, f"the view {view}")
            await settled(pilot)
            yield pilot


async def settled(pilot: Pilot[None]) -> None:
    """Wait until tables that follow a cursor have followed it, no thread is at work, and all is drawn."""
    patience = Patience()
    is_done = False
    while not is_done:
        assert not patience.is_over(), "it never settles"
        # It also has every widget look whether it must be laid out again: some do so only with their next message.
        await pilot.pause()
        await until_idle()
        is_done = not at_work(pilot.app)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, each after the one before has had its effect."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


async def screens_at_sizes(pilot: Pilot[None], sizes: Iterable[tuple[int, int]] = SIZES) -> str:
    """What stands on the screen at each size, one below the other."""
    shown = []
    for size in sizes:
        await pilot.resize_terminal(*size)
        await settled(pilot)
        shown.append(f"{size[0]}x{size[1]}\n{screen_text(pilot.app)}")
    return "\n".join(shown)


async def assert_at_sizes(pilot: Pilot[None], snapshot: SnapshotAssertion, *, svg: bool = False) -> None:
    """Compare what stands on the screen at three sizes with its snapshot; ``svg``: and the picture at 120x40."""
    assert_text(await screens_at_sizes(pilot), snapshot)
    if svg:
        await pilot.resize_terminal(120, 40)
        await settled(pilot)
        assert_picture(pilot.app, snapshot)


def app_of(pilot: Pilot[None]) -> ProftuiApp:
    """The application under test, by its own type."""
    assert isinstance(pilot.app, ProftuiApp)
    return pilot.app
