"""Waits in tests until an app has nothing more to do, instead of for fixed times.

Textual's own way sleeps until the process has used next to no processor for a fiftieth of a second, twice for every
key. The event loop knows: nothing is ready to run and no timer ends soon.
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

PATIENCE_S: Final = 300.0
"""Seconds after which what is waited for will not come, however slow and loaded the machine is."""
SOON_S: Final = 0.02
"""What a timer does within so many seconds belongs to what is waited for, as a picture that is drawn a frame later."""
WINDOW_S: Final = 30.0
"""After that it waits so many seconds longer, and again, while the machine gives the processor to others."""
STEP_S: Final = 0.005
"""Seconds between two looks, while threads are at work."""


class Patience:
    """Ends when what is waited for will not come; time in which a thread waited for a processor does not count.

    The work of a second takes minutes where a hundred others want the processor, too.
    """

    def __init__(self) -> None:
        self._ends = time.monotonic() + PATIENCE_S
        self._withheld: dict[str, int] | None = None

    def is_over(self) -> bool:
        """Whether to wait no longer."""
        if time.monotonic() < self._ends:
            return False
        before, self._withheld = self._withheld, withheld_ns()
        self._ends = time.monotonic() + WINDOW_S
        if before is None:
            return False
        return max((ns - before.get(thread, 0) for thread, ns in self._withheld.items()), default=0) < WINDOW_S * 5e8


def withheld_ns() -> dict[str, int]:
    """How long each thread has waited for a processor, ns; empty if the system does not tell."""
    tasks, found = Path("/proc/self/task"), {}
    for thread in list(tasks.iterdir()) if tasks.exists() else ():
        # A thread may end meanwhile.
        with suppress(OSError):
            found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return found


class Hold(threading.Event):
    """Holds up threads of an app until it is set: nothing else waits for a thread that a test holds up."""

    held: Final[list[tuple[Hold, Worker[Any]]]] = []
    """The workers that wait, and for what."""

    def wait(self, timeout: float | None = PATIENCE_S) -> bool:
        """Called by what takes the place of something that takes a while: wait until the test goes on."""
        waits = self, active_worker.get()
        self.held.append(waits)
        try:
            return super().wait(timeout)
        finally:
            self.held.remove(waits)


def at_work(app: App[Any]) -> bool:
    """Whether a thread or a task of its own works for the app, other than those that a test holds up."""
    held = {worker for hold, worker in list(Hold.held) if not hold.is_set()}
    return any(worker.is_running and worker not in held for worker in app.workers)


async def until(pilot: Pilot[Any], condition: Callable[[], bool], what: str = "") -> None:
    """Wait for a condition."""
    patience = Patience()
    while not patience.is_over():
        await pilot.pause()
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(STEP_S)
    raise AssertionError(f"never came about: {what}")


def has_ended(app: App[Any] | None) -> bool:
    """Whether an app has been quit: the timer that draws its screen then goes on, sixty times a second, for nothing."""
    return app is not None and app.return_code is not None and not app.is_running


async def until_idle() -> None:
    """Wait until the event loop has nothing to run and no timer that ends soon."""
    loop: Any = asyncio.get_running_loop()
    app = active_app.get(None)
    patience = Patience()
    looks = 0
    while looks < 2:
        assert not patience.is_over(), "the event loop never comes to rest"
        # What others have made ready by now runs before this goes on.
        await asyncio.sleep(0)
        if loop._ready:
            looks = 0
            continue
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=math.inf)
        left = math.inf if has_ended(app) else due - loop.time()
        if left > SOON_S:
            looks += 1
        else:
            looks = 0
            await asyncio.sleep(max(left, 0.0))


_draw = Screen._compositor_refresh
_CHANGED: Final[WeakSet[Screen[Any]]] = WeakSet()
"""The screens that are not drawn as they are by now."""


def _draw_when_idle(screen: Screen[Any]) -> None:
    """Takes the place of drawing: what is drawn between two steps of a test, no test sees."""
    if screen is screen.app.screen:
        _CHANGED.add(screen)
        screen._dirty_widgets.clear()
        screen.app._update_mouse_over(screen)
    else:
        _draw(screen)


def draw(app: App[Any]) -> bool:
    """Draw what has changed on the screen of an app; whether there was anything."""
    if not app.is_running or not app.screen_stack or app.screen not in _CHANGED:
        return False
    _CHANGED.discard(app.screen)
    try:
        _draw(app.screen)
    except Exception as error:
        app._handle_exception(error)
    return True


async def wait_for_idle(_min_sleep: float = 0.0, _max_sleep: float = 1.0) -> None:
    """Wait for the event loop, and for threads of the app, unless the test holds them up."""
    app = active_app.get(None)
    patience = Patience()
    await until_idle()
    while app is not None and (draw(app) or at_work(app)):
        assert not patience.is_over(), f"at work for ever: {[one.name for one in app.workers if one.is_running]}"
        if at_work(app):
            await asyncio.sleep(STEP_S)
        await until_idle()


def wait_for_what_is_done() -> None:
    """Have Textual's pilot wait in this way."""
    textual_app.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    textual_pilot.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    Screen._compositor_refresh = _draw_when_idle  # type: ignore[method-assign]
