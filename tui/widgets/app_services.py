"""Services that widgets use: those of the application, delayed calls, and the clipboard of the terminal.

The terminal is sent an OSC 52 sequence (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html, "Manipulate Selection
Data"). It never answers, so the message says that the text was sent, not that it was copied. tmux passes the sequence
on itself with ``set-clipboard on``, or lets it through wrapped in its own DCS with ``allow-passthrough on``; both forms
are sent, since only one of them has an effect. GNU screen lets a DCS through, in strings of at most 256 bytes.
"""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from tui import terminal
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.widget import Widget

    from tui.state.workspace import Arrangements
    from tui.widgets.table.model import Key
    from tui.widgets.table.pane import TablePane

SHOW_BUSY_AFTER_S: Final = 0.15
"""After this time, a message that something is being computed replaces the previous rows or details."""

MAX_CLIPBOARD_BYTES: Final = 74_994
"""The longest base64 text: terminals and multiplexers drop longer sequences."""

TMUX_HINT: Final = "if the clipboard stays empty: tmux set -g set-clipboard on"

_ESC: Final = "\x1b"
_ST: Final = "\x1b\\"
_SCREEN_CHUNK: Final = 240


def clipboard_sequences(encoded: str, multiplexer: str) -> str:
    r"""Return the escape sequences that put base64 text into the clipboard.

    Args:
        encoded: The text in base64.
        multiplexer: tmux, screen or empty.

    >>> clipboard_sequences("aGk=", "")
    '\x1b]52;c;aGk=\x07'
    """
    raw = f"{_ESC}]52;c;{encoded}\x07"
    if multiplexer == "tmux":
        return raw + f"{_ESC}Ptmux;{raw.replace(_ESC, _ESC + _ESC)}{_ST}"
    if multiplexer == "screen":
        chunks = [raw[start : start + _SCREEN_CHUNK] for start in range(0, len(raw), _SCREEN_CHUNK)]
        return "".join(f"{_ESC}P{chunk}{_ST}" for chunk in chunks)
    return raw


class Clipboard:
    """Copies texts, and reports the result.

    Args:
        send: Writes to the terminal; None if there is none (then every text goes to a file).
        env: The environment.
        directory: The directory of files; the system's temporary directory if it is not writable.
    """

    def __init__(self, send: Callable[[str], None] | None, env: Mapping[str, str], directory: Path) -> None:
        can_send = send is not None and not terminal.obstacle(env, stdout_is_tty=True)
        self._send = send if can_send else None
        self._multiplexer = terminal.multiplexer(env)
        self._directory = directory
        self._hint = TMUX_HINT if self._multiplexer == "tmux" else ""

    def copy(self, text: str) -> str:
        """Send a text to the terminal's clipboard, or write it to a file if that is impossible.

        Returns:
            A message about the result for the user.
        """
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        characters = plural(len(text), "character")
        if self._send is None or len(encoded) > MAX_CLIPBOARD_BYTES:
            reason = "this terminal has no clipboard" if self._send is None else "too long for a terminal clipboard"
            try:
                return f"Wrote {characters} to {self._to_file(text)}: {reason}"
            except OSError as error:
                return f"Not copied: {error.strerror or error}."
        self._send(clipboard_sequences(encoded, self._multiplexer))
        message = f"Sent {characters} to the terminal clipboard"
        if self._hint:
            message, self._hint = f"{message} ({self._hint})", ""
        return message

    def _to_file(self, text: str) -> Path:
        """Write the text to the first free ``proftui-copy-<n>.tsv``.

        Raises:
            OSError: It cannot be written.
        """
        writable = os.access(self._directory, os.W_OK)
        directory = self._directory if writable else Path(tempfile.gettempdir())
        for number in count(1):
            path = directory / f"proftui-copy-{number}.tsv"
            try:
                file = path.open("x", encoding="utf-8", errors="replace", newline="\n")
            except FileExistsError:
                continue
            try:
                with file:
                    file.write(text)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            return path
        raise AssertionError("numbers do not end")


class AppServices:
    """The services that the application provides to tables and charts; these defaults serve other apps."""

    color = "truecolor"
    """The colors of the terminal: truecolor, 256, 16 or none."""
    opened_name = ""
    """What is open as the user named it, for exports."""
    global_filter = ""
    """The filter that applies to every view."""
    arrangements: Arrangements | None = None
    """The saved arrangements of tables."""

    def set_global_filter(self, text: str) -> bool:
        """Filter every view; an empty text removes the filter. Return whether it was applied."""
        del text
        return False

    def noted_keys(self, pane: TablePane) -> Sequence[Key]:
        """Return the keys of the rows of a table that have notes."""
        del pane
        return ()


@runtime_checkable
class HostsTables(Protocol):
    """The view of a table."""

    VIEW: str

    def about(self, title: str) -> dict[str, Any]:
        """Return the description of a table for exports, as `tui.output.export.About`."""


_NONE = AppServices()
_SERVICES: WeakKeyDictionary[App[Any], AppServices] = WeakKeyDictionary()


def provide_services(app: App[Any], services: AppServices) -> None:
    """Set the services that the widgets of an app use."""
    _SERVICES[app] = services


def services_of(widget: Widget) -> AppServices:
    """Return the services of a widget's app."""
    return _SERVICES.get(widget.app, _NONE)


_CLIPBOARDS: WeakKeyDictionary[App[Any], Clipboard] = WeakKeyDictionary()


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        # It was deleted.
        return Path(tempfile.gettempdir())


def copy_text(app: App[Any], text: str) -> str:
    """Copy a text to the clipboard of the app's terminal.

    Returns:
        A message about the result for the user.
    """
    clipboard = _CLIPBOARDS.get(app)
    if clipboard is None:
        driver = None if app.is_headless else app._driver
        clipboard = Clipboard(driver.write if driver is not None else None, os.environ, _working_directory())
        _CLIPBOARDS[app] = clipboard
    return clipboard.copy(text)


def call_after(pump: MessagePump, seconds: float, do: Callable[[], object]) -> asyncio.TimerHandle:
    """Call a function of a widget, a screen or the app after a delay; ``cancel`` of the result prevents it.

    Textual's own timer is not reliable: if the process is suspended for the timer's duration right after its start, the
    timer skips its only tick.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, do)
