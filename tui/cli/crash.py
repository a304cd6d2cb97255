"""Internal errors: one sentence for the user, and a report that can be sent."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui import __version__
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STATUS: Final = 70
"""The exit status: EX_SOFTWARE of sysexits.h."""

_MAX_REPORTS: Final = 10
"""Reports; the oldest go first."""
_MESSAGE_LIMIT: Final = 200
_LIBRARIES: Final = ("textual", "rich", "polars", "numpy")
_ENVIRONMENT: Final = ("TERM", "COLORTERM", "TERM_PROGRAM", "TMUX", "STY", "LANG", "LC_ALL", "NO_COLOR", "SSH_TTY")


def report_crash(error: BaseException, arguments: Sequence[str]) -> int:
    """Write the report, name it on standard error, and return the exit status.

    Args:
        error: The exception.
        arguments: The arguments of the command line.
    """
    message = plain(" ".join(str(error).split()))[:_MESSAGE_LIMIT]
    error_text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    try:
        path = _write("\n".join(report_lines(error, arguments)) + "\n")
        report_text = (
            f"report: {plain(str(path))}; please send it with the steps to reproduce (it contains no profile data)"
        )
    except OSError as fault:
        report_text = f"no report could be written ({fault.strerror or fault}); the error is in {_location(error)}"
    print(f"proftui: internal error: {error_text}; {report_text}", file=sys.stderr)
    return STATUS


def report_lines(error: BaseException, arguments: Sequence[str]) -> Iterator[str]:
    """Return the text of a report."""
    yield f"proftui {__version__} stopped at {time.strftime('%Y-%m-%d %H:%M:%S %z')}"
    yield f"Python {platform.python_version()} on {platform.platform()}"
    yield "with " + ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    yield f"terminal {_size()}, " + ", ".join(
        f"{name}={os.environ[name]}" for name in _ENVIRONMENT if name in os.environ
    )
    yield "command line: " + " ".join(["proftui", *map(_without_folders, arguments)])
    yield ""
    for exception in _chain(error):
        yield "Traceback (most recent call last):"
        for frame in traceback.extract_tb(exception.__traceback__):
            yield f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}"
            yield f"    {frame.line or ''}"
        yield f"{type(exception).__name__} (message omitted: it may quote the profile)"
        yield ""


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # installed without its metadata, as in a bundle
        return "of unknown version"


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and its causes, the first cause first."""
    exceptions: list[BaseException] = []
    exception: BaseException | None = error
    while exception is not None and exception not in exceptions:
        exceptions.insert(0, exception)
        exception = exception.__cause__ or (None if exception.__suppress_context__ else exception.__context__)
    return exceptions


def _write(text: str) -> Path:
    from tui.state.store import make_state_folder, state_folder

    reports = state_folder() / "crashes"
    make_state_folder(reports)
    path = reports / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    for old in sorted(reports.glob("*.txt"))[:-_MAX_REPORTS]:
        with suppress(OSError):
            old.unlink()
    return path


def _location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown location"


def _short(filename: str) -> str:
    """Return the path of a code file without folders of the machine.

    >>> _short("/home/me/lib/python3.11/site-packages/textual/app.py"), _short("/opt/proftui/tui/fmt.py")
    ('textual/app.py', 'tui/fmt.py')
    """
    parts = Path(filename).parts
    for root, kept_from in (("site-packages", 1), ("tui", 0)):
        if root in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(root) + kept_from :])
    return parts[-1] if parts else ""


def _without_folders(argument: str) -> str:
    """Return an argument, with paths reduced to their last part.

    >>> _without_folders("/data/secret/run.log"), _without_folders("--output=a/b.csv"), _without_folders("--ascii")
    ('run.log', '--output=b.csv', '--ascii')
    """
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{equals}{value.rstrip('/').rpartition('/')[2]}"


def _size() -> str:
    """Return columns and lines of the terminal of one of the standard streams."""
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            size = os.get_terminal_size(descriptor)
            return f"{size.columns}x{size.lines}"
    return "none"
