"""Opens the explorer in a test, presses keys, and reads the screen."""

from __future__ import annotations

import gc
import json
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from unittest.mock import patch

from textual import events

from tests.profiles import SAMPLES
from tests.snapshots import assert_picture, assert_text, screen_text
from tests.waiting import TIMEOUT_S, Deadline, has_busy_workers, wait_for_event_loop, wait_until
from tui import opening, runtime
from tui.app import ProftuiApp, app, key_queue, navigator, profile_loading
from tui.model.history import Place
from tui.options import OpenOptions
from tui.output.report import as_json
from tui.screens import base
from tui.screens.base import ViewScreen
from tui.screens.sql import SqlScreen
from tui.screens.tabs import TabbedTables
from tui.state import store
from tui.widgets.dialogs.texts import NoteDialog, NoteEditor
from tui.widgets.table import filtering
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.loaders.base import ProgressCallback
    from tui.model.aggregation import Aggregation

KEY_NAMES: Final = {
    "\r": "enter", "/": "slash", "\t": "tab", " ": "space", "|": "vertical_line", "*": "asterisk", ":": "colon"
}  # fmt: skip
"""The name of the key of each character, as Textual calls it, if it is not the character."""

ScreenT = TypeVar("ScreenT", bound=ViewScreen)
PaneT = TypeVar("PaneT", bound=TablePane)

TERMINAL_SIZES: Final = ((80, 24), (120, 40), (200, 50))
"""Columns and lines of a terminal: the least usual one, a common one, a large one."""

FAST_VIEW: Final = "issues"
"""A view that opens quickly, for tests that can start in any view."""

CURSOR_DELAY_S = 0.002
"""In tests: the seconds that the cursor rests before linked tables follow it."""

filtering.CURSOR_DELAY_S = CURSOR_DELAY_S  # type: ignore[misc]
# So soon that `wait_for_event_loop` waits for it: what a view does when its rows are there is done after `settle`.
base.CHECK_EVERY_S = CURSOR_DELAY_S  # type: ignore[misc]
# A message stays until the next one: on a loaded machine it would be gone before the test looks.
app.MESSAGE_SECONDS = app.WARNING_SECONDS = 2 * TIMEOUT_S  # type: ignore[misc]
# On a loaded machine a key takes longer to take effect, and so does another thread that writes.
key_queue.MAX_WAIT_S = store.WAIT_SECONDS = TIMEOUT_S  # type: ignore[misc]
navigator.Navigator.PREPARES_VIEWS = False  # type: ignore[misc]
# A full collection visits all that the tests have imported: two of them are a quarter of opening an app.
runtime.gc = profile_loading.gc = SimpleNamespace(  # type: ignore[attr-defined]
    enable=gc.enable, get_count=gc.get_count, get_threshold=gc.get_threshold, set_threshold=gc.set_threshold,
    collect=lambda _generation=2: 0, freeze=lambda: None, unfreeze=lambda: None,
)  # fmt: skip

_open_uncached = opening.open_profiles


@lru_cache(maxsize=12)
def _open_sample(options: OpenOptions, session: int | None, aggregation: Aggregation | None) -> opening.OpenedProfiles:
    return _open_uncached(options, lambda _progress: True, session=session, aggregation=aggregation)


def _open_profiles(options: OpenOptions, on_progress: ProgressCallback, **arguments: Any) -> opening.OpenedProfiles:
    """Open files; a sample is read once for all tests, and what is computed from it is shared: nothing changes it."""
    if arguments.get("renew") or not all(Path(path).is_relative_to(SAMPLES) for path in options.paths):
        return _open_uncached(options, on_progress, **arguments)
    plain = OpenOptions(paths=options.paths, format_in=options.format_in, gpu=options.gpu, cache=options.cache)
    return _open_sample(plain, arguments.get("session"), arguments.get("aggregation"))


def sample_path(name: str) -> str:
    """Return the path of a sample log."""
    return str(SAMPLES / name)


@asynccontextmanager
async def open_explorer(
    *paths: str,
    view: str = app.FIRST_VIEW,
    size: tuple[int, int] = (120, 40),
    notifications: bool = False,
    is_shared: bool = True,
    **options: Any,
) -> AsyncIterator[Pilot[None]]:
    """Open files in the explorer, and wait until the first view is shown.

    Args:
        paths: Names of samples, or paths.
        view: The view to open, as if the user had gone there from the dashboard, which is not waited for.
        size: Columns and lines of the terminal.
        notifications: Whether messages are shown.
        is_shared: Whether samples are read once for all tests.
        options: Further fields of `OpenOptions`.
    """
    files = tuple(path if "/" in path else sample_path(path) for path in paths)
    explorer = ProftuiApp(OpenOptions(paths=files, **options))
    if view != app.FIRST_VIEW:
        explorer.navigator.history.visit(Place(app.FIRST_VIEW))
    open_profiles = _open_profiles if is_shared else _open_uncached

    def is_open() -> bool:
        assert (reason := explorer.navigator.availability.get(view, "ok")) == "ok", f"{view}: {reason}"
        return explorer.view_screen is not None and explorer.view_screen.is_mounted

    with patch.object(opening, "open_profiles", open_profiles), patch.object(app, "FIRST_VIEW", view):
        async with explorer.run_test(size=size, notifications=notifications) as pilot:
            await wait_until(pilot, is_open, f"the view {view}")
            await settle(pilot)
            yield pilot


async def settle(pilot: Pilot[None]) -> None:
    """Wait until linked tables have followed the cursor, no worker runs, and the screen is drawn."""
    deadline = Deadline()
    is_settled = False
    while not is_settled:
        assert not deadline.has_passed(), "the app never settles"
        # Every widget checks whether it must be laid out again: some do so only with their next message.
        await pilot.pause()
        await wait_for_event_loop()
        is_settled = not has_busy_workers(pilot.app)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, each after the one before has taken effect."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def screens_at_sizes(pilot: Pilot[None], sizes: Iterable[tuple[int, int]] = TERMINAL_SIZES) -> str:
    """Return the text of the screen at each size, one below the other."""
    texts = []
    for size in sizes:
        await pilot.resize_terminal(*size)
        await settle(pilot)
        texts.append(f"{size[0]}x{size[1]}\n{screen_text(pilot.app)}")
    return "\n".join(texts)


async def assert_at_sizes(pilot: Pilot[None], snapshot: SnapshotAssertion, *, svg: bool = False) -> None:
    """Compare the screen at three sizes with its snapshot; ``svg``: the picture at 120x40, too."""
    assert_text(await screens_at_sizes(pilot), snapshot)
    if svg:
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        assert_picture(pilot.app, snapshot)


def app_of(pilot: Pilot[None]) -> ProftuiApp:
    """Return the application under test."""
    assert isinstance(pilot.app, ProftuiApp)
    return pilot.app


def screen_of(pilot: Pilot[None], kind: type[ScreenT] = ViewScreen) -> ScreenT:  # type: ignore[assignment]
    """Return the screen of the current view."""
    screen = app_of(pilot).view_screen
    assert isinstance(screen, kind)
    return screen


def view_of(pilot: Pilot[None]) -> str:
    """Return the name of the current view."""
    return screen_of(pilot).VIEW


async def go_to(pilot: Pilot[None], view: str) -> ViewScreen:
    """Go to a view, and return its screen."""
    app_of(pilot).go(view)
    await settle(pilot)
    screen = screen_of(pilot)
    assert view == screen.VIEW
    return screen


async def run_line(pilot: Pilot[None], line: str) -> None:
    """Run a command, like `:LINE`."""
    app_of(pilot).run_line(line)
    await settle(pilot)


async def type_at_once(pilot: Pilot[None], text: str) -> None:
    """Type characters without a pause between them."""
    for character in text:
        pilot.app.post_message(events.Key(KEY_NAMES.get(character, character), character))
    await settle(pilot)


async def run_sql(pilot: Pilot[None], query: str) -> SqlScreen:
    """Run the command ``:sql``, and wait for its rows."""
    app_of(pilot).run_line(f":sql {query}")
    await wait_until(pilot, lambda: isinstance(app_of(pilot).view_screen, SqlScreen), "the SQL view")
    screen = screen_of(pilot, SqlScreen)
    await pilot.app.workers.wait_for_complete()
    await settle(pilot)
    return screen


async def write_note(pilot: Pilot[None], text: str) -> None:
    """Write a note on the row under the cursor."""
    await press(pilot, "M")
    assert isinstance(pilot.app.screen, NoteDialog)
    pilot.app.screen.query_one(NoteEditor).text = text
    await press(pilot, "enter")
    await pilot.app.workers.wait_for_complete()
    await settle(pilot)


def tabs_of(pilot: Pilot[None]) -> TabbedTables:
    """Return the tabs of the current view."""
    return screen_of(pilot).query_one(TabbedTables)


def table_of(pilot: Pilot[None], name: str, kind: type[PaneT] = TablePane) -> PaneT:  # type: ignore[assignment]
    """Return a table of the current view, visible or not."""
    return screen_of(pilot).query_one(f"#{name}", kind)


def column_of(pilot: Pilot[None], name: str, column: str) -> list[object]:
    """Return the values of a column of a table, in the order of the screen."""
    return table_of(pilot, name).model.shown_frame()[column].to_list()


def messages_of(pilot: Pilot[None]) -> list[str]:
    """Return the messages on the screen, the latest last."""
    return [notification.message for notification in pilot.app._notifications]


def message_of(pilot: Pilot[None]) -> str:
    """Return the messages on the screen as one text."""
    return "\n".join(messages_of(pilot))


def report_json(pilot: Pilot[None], view: str) -> dict[str, Any]:
    """Return what `proftui report --view VIEW --format json` prints of the same input."""
    document: dict[str, Any] = json.loads(as_json(app_of(pilot).profile_session.profile, view))
    return document


def assert_rows_of_report(pilot: Pilot[None], name: str, rows: list[dict[str, Any]], *, parent: str = "") -> None:
    """Compare a table with rows of a report, cell by cell, in the columns that both have.

    Args:
        pilot: With the view open.
        name: The table.
        rows: Of the report.
        parent: The column of the parent's key, if the table shows the rows of one parent.
    """
    frame = table_of(pilot, name).frame
    expected = [row for row in rows if not parent or row[parent] == frame[parent][0]]
    assert frame.height == len(expected) > 0
    for position, row in enumerate(json.loads(frame.write_json())):
        for column, value in expected[position].items():
            if column in row:
                assert row[column] == value, (position, column)
