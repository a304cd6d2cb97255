"""Waits in tests until an app has nothing more to do, instead of for fixed times.

Textual's own way sleeps until the process has used next to no processor for a fiftieth of a second, twice for every
key. The event loop knows: nothing is ready to run and no timer ends soon.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, Final

from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._context import active_app

if TYPE_CHECKING:
    from textual.app import App

SOON_S: Final = 0.02
"""What a timer does within so many seconds belongs to what is waited for, as a picture that is drawn a frame later."""
STEP_S: Final = 0.02
"""Seconds between two looks at the processor, while threads are at work."""
RESTS: Final = 0.001
"""Seconds of processor within a step below which threads that are at work wait for something themselves."""


def at_work(app: App[Any]) -> bool:
    """Whether a thread or a task of its own works for the app."""
    return any(worker.is_running for worker in app.workers)


async def until_idle(at_most_s: float = 1.0) -> None:
    """Wait until the event loop has nothing to run and no timer that ends soon."""
    loop: Any = asyncio.get_running_loop()
    ends = time.monotonic() + at_most_s
    looks = 0
    while looks < 2 and time.monotonic() < ends:
        # What others have made ready by now runs before this goes on.
        await asyncio.sleep(0)
        if loop._ready:
            looks = 0
            continue
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=math.inf)
        left = due - loop.time()
        if left > SOON_S:
            looks += 1
        else:
            looks = 0
            await asyncio.sleep(max(left, 0.0))


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait for the event loop, and for threads of the app unless they wait for something themselves."""
    app = active_app.get(None)
    ends = time.monotonic() + max_sleep
    await until_idle(max_sleep)
    while app is not None and at_work(app) and time.monotonic() < ends:
        used = time.process_time()
        await asyncio.sleep(STEP_S)
        await until_idle(max_sleep)
        if time.process_time() - used < RESTS:
            return


def wait_for_what_is_done() -> None:
    """Have Textual's pilot wait in this way."""
    textual_app.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    textual_pilot.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
