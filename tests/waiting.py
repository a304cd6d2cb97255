"""Waits in tests until an app has nothing left to do, instead of for a fixed time.

Textual's own way sleeps until the process has used almost no CPU for a fiftieth of a second, twice for every key.
The event loop knows better: nothing is ready to run and no timer is due soon.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._context import active_app
from textual.screen import Screen
from textual.worker import active_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.pilot import Pilot
    from textual.worker import Worker

TIMEOUT_S: Final = 300.0
"""Seconds after which a test gives up waiting, however slow and loaded the machine is."""
TIMER_HORIZON_S: Final = 0.02
"""A timer that is due within this time is waited for: it may draw a frame."""
EXTENSION_S: Final = 30.0
"""The extra time of a deadline while the threads of the test are not scheduled."""
POLL_S: Final = 0.005
"""The interval of polling while worker threads run."""


class Deadline:
    """A timeout that does not count the time in which a thread waited for a CPU.

    One second of work takes minutes on a machine with a hundred other runnable processes.
    """

    def __init__(self) -> None:
        self._ends = time.monotonic() + TIMEOUT_S
        self._waited: dict[str, int] | None = None

    def has_passed(self) -> bool:
        """Return whether to stop waiting."""
        if time.monotonic() < self._ends:
            return False
        previous, self._waited = self._waited, cpu_wait_ns()
        self._ends = time.monotonic() + EXTENSION_S
        if previous is None:
            return False
        return max((ns - previous.get(thread, 0) for thread, ns in self._waited.items()), default=0) < EXTENSION_S * 5e8


def cpu_wait_ns() -> dict[str, int]:
    """Return how long each thread has waited for a CPU, in ns; empty if the system does not record it."""
    tasks, waited = Path("/proc/self/task"), {}
    for thread in list(tasks.iterdir()) if tasks.exists() else ():
        # A thread may end meanwhile.
        with suppress(OSError):
            waited[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return waited


class WorkerGate(threading.Event):
    """Blocks worker threads of an app until it is set; a blocked worker does not count as busy."""

    blocked: Final[list[tuple[WorkerGate, Worker[Any]]]] = []
    """The workers that wait, each with its gate."""

    def wait(self, timeout: float | None = TIMEOUT_S) -> bool:
        """Block the current worker until the test sets the gate; called by a replacement of a slow function."""
        entry = self, active_worker.get()
        self.blocked.append(entry)
        try:
            return super().wait(timeout)
        finally:
            self.blocked.remove(entry)


def has_busy_workers(app: App[Any]) -> bool:
    """Return whether a worker of the app runs, other than those that a test blocks."""
    blocked = {worker for gate, worker in list(WorkerGate.blocked) if not gate.is_set()}
    return any(worker.is_running and worker not in blocked for worker in app.workers)


async def wait_until(pilot: Pilot[Any], condition: Callable[[], bool], description: str = "") -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It did not hold in time.
    """
    deadline = Deadline()
    while not deadline.has_passed():
        await pilot.pause()
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"timed out waiting for: {description}")


def has_exited(app: App[Any] | None) -> bool:
    """Return whether an app has exited: the timer that draws its screen still runs, to no effect."""
    return app is not None and app.return_code is not None and not app.is_running


async def wait_for_event_loop() -> None:
    """Wait until the event loop has nothing to run and no timer is due soon."""
    loop: Any = asyncio.get_running_loop()
    app = active_app.get(None)
    deadline = Deadline()
    idle_checks = 0
    while idle_checks < 2:
        assert not deadline.has_passed(), "the event loop never becomes idle"
        # Callbacks that are ready by now run before this continues.
        await asyncio.sleep(0)
        if loop._ready:
            idle_checks = 0
            continue
        next_due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=math.inf)
        remaining = math.inf if has_exited(app) else next_due - loop.time()
        if remaining > TIMER_HORIZON_S:
            idle_checks += 1
        else:
            idle_checks = 0
            await asyncio.sleep(max(remaining, 0.0))


_refresh = Screen._compositor_refresh
_UNDRAWN: Final[WeakSet[Screen[Any]]] = WeakSet()
"""The screens that changed since they were drawn."""


def _refresh_when_idle(screen: Screen[Any]) -> None:
    """Mark a screen as changed, in place of drawing it: no test sees what is drawn between two of its steps."""
    if screen is screen.app.screen:
        _UNDRAWN.add(screen)
        screen._dirty_widgets.clear()
        screen.app._update_mouse_over(screen)
    else:
        _refresh(screen)


def draw_if_changed(app: App[Any]) -> bool:
    """Draw the screen of an app if it changed; return whether it did."""
    if not app.is_running or not app.screen_stack or app.screen not in _UNDRAWN:
        return False
    _UNDRAWN.discard(app.screen)
    try:
        _refresh(app.screen)
    except Exception as error:
        app._handle_exception(error)
    return True


async def wait_for_idle(_min_sleep: float = 0.0, _max_sleep: float = 1.0) -> None:
    """Wait for the event loop and for the app's workers, unless the test blocks them."""
    app = active_app.get(None)
    deadline = Deadline()
    await wait_for_event_loop()
    while app is not None and (draw_if_changed(app) or has_busy_workers(app)):
        running = [worker.name for worker in app.workers if worker.is_running]
        assert not deadline.has_passed(), f"workers never end: {running}"
        if has_busy_workers(app):
            await asyncio.sleep(POLL_S)
        await wait_for_event_loop()


def patch_textual_waits() -> None:
    """Make Textual's pilot wait in this way."""
    textual_app.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    textual_pilot.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    Screen._compositor_refresh = _refresh_when_idle  # type: ignore[method-assign]
