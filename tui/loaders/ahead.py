"""Making the next item while the present one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

Item = TypeVar("Item")

_LOOK_UP_EVERY: Final = 0.1
"""Seconds after which a thread that waits looks whether it is still needed, or was interrupted."""


def one_ahead(items: Iterable[Item], give_up: Callable[[], None]) -> Iterator[Item]:
    """The same items, each made in a thread while the one before it is in use.

    The thread ends with the items, with an exception (which is raised here), or when this generator is closed or
    interrupted.

    Args:
        items: Made one at a time.
        give_up: Called where not all items are wanted: what makes them must not wait for anything any longer.
    """
    ready: queue.Queue[list[Item] | BaseException] = queue.Queue(maxsize=1)
    unwanted = threading.Event()

    def put(made: list[Item] | BaseException) -> bool:
        while not unwanted.is_set():
            try:
                ready.put(made, timeout=_LOOK_UP_EVERY)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put([item]):
                    return
            put([])
        except BaseException as error:
            put(error)

    maker = threading.Thread(target=make, name="read-ahead", daemon=True)
    maker.start()

    def take() -> list[Item] | BaseException:
        while True:
            try:
                # A wait without an end would not be interrupted by ctrl+c once Polars has installed its own handler.
                return ready.get(timeout=_LOOK_UP_EVERY)
            except queue.Empty:
                continue

    wanted = True
    try:
        while made := take():
            if isinstance(made, BaseException):
                raise made
            yield made[0]
        wanted = False
    finally:
        unwanted.set()
        if wanted:
            give_up()
        maker.join()
