"""Making the next item while the present one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

Item = TypeVar("Item")

_LOOK_UP_EVERY: Final = 0.1
"""Seconds after which a thread with nobody to take its item sees that it is no longer needed."""


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each made in a thread while the one before it is in use.

    The thread ends with the items, with an exception (which is raised here), or when this generator is closed.
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
    try:
        while made := ready.get():
            if isinstance(made, BaseException):
                raise made
            yield made[0]
    finally:
        unwanted.set()
        maker.join()
