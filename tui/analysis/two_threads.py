"""Work for two threads: Polars and numpy do most of it, and leave the other core idle in many of their steps."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tui.cache.parking import is_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def in_two_threads(makers: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """The results of functions in their order; each is begun in its order, by whichever thread is free.

    Who stops asking stops those that have not begun.

    >>> list(in_two_threads([lambda: "a", lambda: "b"]))
    ['a', 'b']
    """
    # Two at once take the memory of two: of an input that memory may not hold, it is one after the other.
    pool = ThreadPoolExecutor(1 if is_on() else 2, "analysis")
    try:
        begun: list[Future[Any]] = [pool.submit(make) for make in makers]
        for future in begun:
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
