"""What is done after a while, for certain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message_pump import MessagePump


def later(pump: MessagePump, seconds: float, do: Callable[[], object]) -> asyncio.TimerHandle:
    """Have a widget, a screen or the app do something after a while; ``cancel`` of what comes back prevents it.

    Textual's own timer is for what may as well not come about: where the process stands still for as long as the timer
    is to run, just as it is begun, it takes the moment for missed and never does anything.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, do)
