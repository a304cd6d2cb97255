"""Keys typed right after a key that opens something: they reach what it opens, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from unittest.mock import AsyncMock

from textual import events
from textual.widgets import Input, TextArea

from tests.screens.explorer import app_of, open_explorer, press, screen_of, settle, type_at_once
from tests.waiting import TIMEOUT_S, wait_until
from tui.app import key_queue
from tui.keys import use_keys
from tui.screens.compare import CompareDialog
from tui.screens.help import HelpScreen
from tui.widgets.dialogs.export import ExportDialog
from tui.widgets.dialogs.texts import NoteDialog
from tui.widgets.input_bars import CommandBar, HasPendingEntry
from tui.widgets.table.view import FrameTable

if TYPE_CHECKING:
    import pytest
    from textual.pilot import Pilot

Kind = TypeVar("Kind")
LOG = "resnet50_training.nvprof.log"


def view_and_cursor(pilot: Pilot[None]) -> tuple[str, str | None, int]:
    """Return the view, its main table, and the row of its cursor."""
    screen = screen_of(pilot)
    assert screen.table is not None
    return screen.VIEW, screen.table.id, screen.table.query_one(FrameTable).model.cursor_row


def dialog_of(pilot: Pilot[None], kind: type[Kind]) -> Kind:
    """Return the dialog over the view."""
    found: object = pilot.app.screen
    assert isinstance(found, kind)
    return found


async def test_keys_after_a_key_that_opens_a_dialog_reach_the_dialog() -> None:
    async with open_explorer(LOG) as pilot:
        await type_at_once(pilot, "diterations 1 2")
        assert dialog_of(pilot, CompareDialog).query_one(Input).value == "iterations 1 2"
        await pilot.press("escape")
        await type_at_once(pilot, "4")
        await type_at_once(pilot, "Mhere q 5")
        assert dialog_of(pilot, NoteDialog).query_one(TextArea).text == "here q 5"
        await pilot.press("escape")
        await settle(pilot)
        await type_at_once(pilot, "e  ")
        assert dialog_of(pilot, ExportDialog)._format.value == "json"
        await pilot.press("escape")
        await settle(pilot)
        assert view_and_cursor(pilot)[:2] == ("ops-and-kernels", "ops")


async def test_keys_after_a_key_that_opens_a_view_reach_the_view() -> None:
    async with open_explorer(LOG) as pilot:
        await type_at_once(pilot, "4\rjj")
        assert view_and_cursor(pilot) == ("ops-and-kernels", "kernels", 2)
        await type_at_once(pilot, "qj?q5")
        assert view_and_cursor(pilot)[0] == "kernels-by-iteration"
        await type_at_once(pilot, "mkk\r")
        assert view_and_cursor(pilot)[0] == "ops-and-kernels"
        assert view_and_cursor(pilot)[1:] == ("ops", 1)


async def test_a_key_acts_although_the_key_before_it_is_never_reported_as_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the widget that handles it is removed meanwhile."""
    async with open_explorer(LOG) as pilot:
        monkeypatch.setattr(key_queue, "MAX_WAIT_S", 0.1)
        with monkeypatch.context() as during_the_key:
            during_the_key.setattr(key_queue.KeyQueue, "_key_handled", AsyncMock())
            for key in (events.Key("4", "4"), events.Key("question_mark", "?")):
                pilot.app.post_message(key)
            await settle(pilot)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen), "the help")


async def test_a_command_typed_while_a_view_opens_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """The colon once reached the submitted command line, and the letters the view that had opened since."""
    passing: list[CommandBar] = []
    entry_done = CommandBar.entry_done
    monkeypatch.setattr(CommandBar, "entry_done", lambda bar: passing.append(bar))
    monkeypatch.setattr(key_queue, "MAX_WAIT_S", TIMEOUT_S)
    async with open_explorer(LOG) as pilot:
        await press(pilot, "colon", *"kernels")
        line = pilot.app.focused
        assert isinstance(line, HasPendingEntry)
        pilot.app.post_message(events.Key("enter", "\r"))
        pilot.app.post_message(events.Key("colon", ":"))
        await wait_until(pilot, lambda: bool(passing) and bool(app_of(pilot).key_queue._queue), "the colon")
        assert app_of(pilot).view_screen is not None
        assert app_of(pilot).view_screen.VIEW == "kernels"
        for letter in "log":
            pilot.app.post_message(events.Key(letter, letter))
        await pilot.pause()
        monkeypatch.setattr(CommandBar, "entry_done", entry_done)
        passing[0].entry_done()
        pilot.app.post_message(events.Key("enter", "\r"))
        await settle(pilot)
        assert app_of(pilot).view_screen.VIEW == "log"


def test_the_next_key_waits_for_all_but_moves_with_the_keys_of_the_user() -> None:
    try:
        use_keys({"table.down": ["f7"], "table.next-match": ["f4"], "log.down": ["f7"], "timeline.down": ["s"]})
        keys = key_queue.move_keys()
    finally:
        use_keys({})
    assert {"f7", "f4", "k", "G", "space", "pagedown", "underscore"} <= keys
    # s sorts a table; enter and 4 open something.
    assert not {"s", "enter", "4", "q", "tab", ""} & keys
