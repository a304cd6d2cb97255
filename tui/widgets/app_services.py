"""What widgets ask of the application that they run in: delayed calls, and the terminal's clipboard."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tui.clipboard import Clipboard

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from textual.app import App
    from textual.message_pump import MessagePump


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
