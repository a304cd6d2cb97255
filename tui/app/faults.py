"""What fails in the explorer itself ends it without a traceback over the user's terminal."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from textual.app import App
from textual.worker import NoActiveWorker, WorkerFailed, get_current_worker

from tui.model.lacking_memory import ADVICE, lacks_memory, memory_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rich.console import RenderableType
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
        return super().submit(partial(_told, fn), *args, **kwargs)


def _told(work: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs) -> Made:
    try:
        return work(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise PanicError(str(error)) from error


def is_developing() -> bool:
    """Whether Python's or Textual's development mode is on: Textual then shows all that it knows of a fault."""
    return sys.flags.dev_mode or not {"debug", "devtools"}.isdisjoint(os.environ.get("TEXTUAL", "").split(","))


class FaultsApp(App[Any]):
    """Keeps what failed for whoever runs the application."""

    @property
    def fault(self) -> Exception | None:
        """What failed, if anything did."""
        error = self._exception
        cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
        return cause if isinstance(cause, Exception) else error

    def _goes_on_without(self, error: Exception) -> bool:
        """Whether a thread failed for want of memory alone; then it is said where it was at work."""
        cause = getattr(error, "error", None) if isinstance(error, WorkerFailed) else None
        cause = cause.__cause__ if isinstance(cause, PanicError) else cause
        try:
            worker: Worker[Any] = get_current_worker()
        except NoActiveWorker:
            return False
        if not isinstance(cause, BaseException) or not lacks_memory(cause) or worker.group == LOADING:
            return False
        say = getattr(worker.node.screen, "say_lack", None)
        if say is not None:
            say(memory_words(cause))
        else:
            self.notify(f"{memory_words(cause)}: {ADVICE}", severity="error", markup=False)
        return True

    def _handle_exception(self, error: Exception) -> None:
        if self._goes_on_without(error):
            return
        if is_developing():
            super()._handle_exception(error)
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """As Textual does where one of its own threads has failed."""
        if is_developing():
            super().panic(*renderables)
            return
        self._handle_exception(RuntimeError("a thread that reads the terminal has failed"))
