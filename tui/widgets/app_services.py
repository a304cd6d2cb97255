"""What widgets ask of the application that they run in: its services, delayed calls, and the clipboard."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from tui.clipboard import Clipboard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.widget import Widget

    from tui.state.workspace import Arrangements
    from tui.widgets.table.model import Key
    from tui.widgets.table.pane import TablePane


class AppServices:
    """What tables and charts ask of the application. This one knows nothing: it serves an app that provides none."""

    color = "truecolor"
    """What the terminal can show: truecolor, 256, 16 or none."""
    opened_name = ""
    """What is open as the user named it, for exports."""
    global_filter = ""
    """The filter that applies to every view."""
    arrangements: Arrangements | None = None
    """How tables were arranged, from run to run."""

    def set_global_filter(self, text: str) -> bool:
        """Filter every view; empty: no longer. False where there is one view alone."""
        del text
        return False

    def noted_keys(self, pane: TablePane) -> Sequence[Key]:
        """The keys of the rows of a table that have notes."""
        del pane
        return ()


@runtime_checkable
class HostsTables(Protocol):
    """A view, as its tables see it."""

    VIEW: str

    def about(self, title: str) -> dict[str, Any]:
        """What the table of a title is of, for exports: what `tui.output.about.About` wants to know of it."""


_NONE = AppServices()
_SERVICES: WeakKeyDictionary[App[Any], AppServices] = WeakKeyDictionary()


def provide_services(app: App[Any], services: AppServices) -> None:
    """Have the widgets of an app ask these services."""
    _SERVICES[app] = services


def services_of(widget: Widget) -> AppServices:
    """The services of the app that a widget runs in."""
    return _SERVICES.get(widget.app, _NONE)


_CLIPBOARDS: WeakKeyDictionary[App[Any], Clipboard] = WeakKeyDictionary()


def copy_text(app: App[Any], text: str) -> str:
    """Copy a text to the clipboard of the terminal that the app runs in.

    Returns:
        What happened, in words, for the user.
    """
    clipboard = _CLIPBOARDS.get(app)
    if clipboard is None:
        driver = None if app.is_headless else app._driver
        clipboard = Clipboard(driver.write if driver is not None else None, os.environ, Path.cwd())
        _CLIPBOARDS[app] = clipboard
    return clipboard.copy(text)


def later(pump: MessagePump, seconds: float, do: Callable[[], object]) -> asyncio.TimerHandle:
    """Have a widget, a screen or the app do something after a while; ``cancel`` of what comes back prevents it.

    Textual's own timer is for what may as well not come about: where the process stands still for as long as the timer
    is to run, just as it is begun, it takes the moment for missed and never does anything.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, do)
