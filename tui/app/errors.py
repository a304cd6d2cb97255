"""Errors of the explorer itself: they end it without a traceback over the user's terminal."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from textual.worker import NoActiveWorker, WorkerFailed, get_current_worker

from tui.model.errors import ADVICE, is_out_of_memory, out_of_memory_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from textual.app import App
    from textual.worker import Worker


LOADING: Final = "load"
"""The group of threads that read: without what they read there is nothing to go on with."""


Given = ParamSpec("Given")
Made = TypeVar("Made")


class PanicError(RuntimeError):
    """A library has panicked: its cause is what was raised, which is no `Exception`."""


class Threads(ThreadPoolExecutor):
    """Threads for what takes a while, in which all that fails is an `Exception`: Textual hears of nothing else.

    A panic of Polars is none: its view would be at work for ever.
    """

    def submit(self, fn: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Made]:
        """Have a function called in a thread."""
        return super().submit(partial(_on_failure, fn), *args, **kwargs)


def _on_failure(work: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs) -> Made:
    try:
        return work(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise PanicError(str(error)) from error


def is_developing() -> bool:
    """Whether Python's or Textual's development mode is on: Textual then shows all that it knows of a fault."""
    return sys.flags.dev_mode or not {"debug", "devtools"}.isdisjoint(os.environ.get("TEXTUAL", "").split(","))


def failure_of(error: Exception | None) -> Exception | None:
    """What failed: of a worker that failed, its cause."""
    cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
    return cause if isinstance(cause, Exception) else error


def is_survived(app: App[None], error: Exception) -> bool:
    """Whether only a worker ran out of memory: its view then shows that, and the program goes on.

    Args:
        app: The application, called in the context of the worker.
        error: What was raised.
    """
    cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
    cause = cause.__cause__ if isinstance(cause, PanicError) else cause
    try:
        worker: Worker[Any] = get_current_worker()
    except NoActiveWorker:
        return False
    if not isinstance(cause, BaseException) or not is_out_of_memory(cause) or worker.group == LOADING:
        return False
    from tui.screens.base import ViewScreen

    screen = worker.node.screen
    if isinstance(screen, ViewScreen):
        screen.show_failure(out_of_memory_message(cause))
    else:
        app.notify(f"{out_of_memory_message(cause)}: {ADVICE}", severity="error", markup=False)
    return True
