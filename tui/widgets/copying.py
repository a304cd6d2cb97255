"""The way of a text from a widget to the terminal's clipboard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tui.clipboard import Clipboard

if TYPE_CHECKING:
    from typing import Any

    from textual.app import App

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
