"""Running the explorer until it ends by a key, a signal, a lost terminal or an internal error."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import sys
import termios
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

from textual.worker import NoActiveWorker, WorkerFailed, get_current_worker

from tui.model.errors import OUT_OF_MEMORY_HINT, is_memory_error, out_of_memory_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from textual.app import App
    from textual.worker import Worker

LOADING: Final = "load"
"""The group of workers that read files: if they fail, there is nothing to show."""


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class PanicError(RuntimeError):
    """A panic of a library, which is not an `Exception`; the panic is its cause."""


class Threads(ThreadPoolExecutor):
    """Threads in which every failure is an `Exception`, since Textual ignores others.

    A panic of Polars is not an `Exception`: its view would wait forever.
    """

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Call a function in a thread."""
        return super().submit(partial(_on_failure, fn), *args, **kwargs)


def _on_failure(work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
    try:
        return work(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise PanicError(str(error)) from error


def is_developing() -> bool:
    """Return whether Python's or Textual's development mode is on: Textual then shows its own error report."""
    return sys.flags.dev_mode or not {"debug", "devtools"}.isdisjoint(os.environ.get("TEXTUAL", "").split(","))


def failure_of(error: Exception | None) -> Exception | None:
    """Return the exception of a failure; for a failed worker, its cause."""
    cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
    return cause if isinstance(cause, Exception) else error


def handle_worker_memory_error(app: App[None], error: Exception) -> bool:
    """Show that a worker ran out of memory, so that the program continues; return False for any other failure.

    Args:
        app: The application, called in the context of the worker.
        error: The exception.
    """
    cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
    cause = cause.__cause__ if isinstance(cause, PanicError) else cause
    try:
        worker: Worker[Any] = get_current_worker()
    except NoActiveWorker:
        return False
    if not isinstance(cause, BaseException) or not is_memory_error(cause) or worker.group == LOADING:
        return False
    from tui.screens.base import ViewScreen

    screen = worker.node.screen
    if isinstance(screen, ViewScreen):
        screen.show_failure(out_of_memory_message(cause))
    else:
        app.notify(f"{out_of_memory_message(cause)}: {OUT_OF_MEMORY_HINT}", severity="error", markup=False)
    return True


_MAX_CLOSING_S: Final = 3.0
"""The longest time for screens to close after a signal."""
_MAX_JOIN_S: Final = 0.3
"""The longest time to wait for threads whose results are no longer needed."""
_SIGNAL_EXIT_BASE: Final = 128
"""The exit status of a program that a signal ended is this plus the signal's number, as in shells."""
_RESET_SEQUENCES: Final = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l"  # mouse, pasting, focus
    b"\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"  # keyboard, line wrap, screen, cursor, colors
)


def run_app_loop(
    app: App[Any], *, mouse: bool, save: Callable[[], None], finish: Callable[[], int], is_last: Callable[[], bool]
) -> int:
    """Run an application, and restore the terminal.

    SIGTERM and SIGINT end it as a key would. When the terminal is lost (SIGHUP), drawing stops, state is saved and the
    process ends.

    Args:
        app: The application.
        mouse: Whether it uses the mouse.
        save: Writes the state that is kept between runs.
        finish: Called when the terminal is restored: saves, prints messages, returns the exit status.
        is_last: Whether the process ends with it. If so, threads that are still busy are not waited for.

    Returns:
        The exit status.
    """
    attributes = _attributes()

    def on_end_signal(number: int) -> None:
        force = threading.Timer(_MAX_CLOSING_S, _force, (attributes, _SIGNAL_EXIT_BASE + number))
        force.daemon = True
        force.start()
        app.exit(return_code=_SIGNAL_EXIT_BASE + number)

    def on_hangup() -> None:
        with suppress(Exception):
            save()
        end_now(_SIGNAL_EXIT_BASE + signal.SIGHUP)

    async def run() -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_end_signal, number)
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
        if _has_hung_up():
            # A process that was started with ``nohup`` ignores SIGHUP.
            on_hangup()
        threads = Threads()
        loop.set_default_executor(threads)
        await app.run_async(mouse=mouse)
        status = finish()
        threads.shutdown(wait=False, cancel_futures=True)
        if is_last() and _are_busy():
            end_now(status)
        return status

    return asyncio.run(run())


def end_now(status: int) -> NoReturn:
    """End the process at once, with its threads and child processes."""
    from tui.loaders.temp_folders import clear_temp_folders

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    clear_temp_folders()
    os._exit(status)


def _are_busy() -> bool:
    """Return whether threads are still busy after a while: a thread cannot be stopped within a long step."""
    deadline = time.monotonic() + _MAX_JOIN_S
    threads = [
        thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon
    ]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return any(thread.is_alive() for thread in threads)


def _attributes() -> list[Any] | None:
    """Return the attributes of the terminal, if there is one."""
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _has_hung_up() -> bool:
    """Return whether the terminal was lost."""
    poll = select.poll()
    for stream in (0, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                poll.register(stream, 0)
    return any(event_mask & select.POLLHUP for _, event_mask in poll.poll(0))


def _force(attributes: list[Any] | None, status: int) -> None:
    """Restore the terminal by force."""
    with suppress(OSError):
        os.write(2, _RESET_SEQUENCES)
    if attributes is not None:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, attributes)
    end_now(status)
