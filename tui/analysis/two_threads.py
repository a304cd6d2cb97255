"""Work for two threads: Polars and numpy do most of it, and leave the other core idle in many of their steps."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tui.cache.parking import is_on
from tui.loaders.freed_memory import COLUMN_BYTES, kept_for_next

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def in_two_threads(makers: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """The results of functions in their order; each is begun in its order, by whichever thread is free.

    Who stops asking stops those that have not begun.

    >>> list(in_two_threads([lambda: "a", lambda: "b"]))
    ['a', 'b']
    """
    # Two at once take the memory of two, and so does what is kept: not of an input that memory may not hold.
    may_take = not is_on()
    pool = ThreadPoolExecutor(2 if may_take else 1, "analysis")
    with kept_for_next(COLUMN_BYTES) if may_take else nullcontext():
        try:
            begun: list[Future[Any]] = [pool.submit(make) for make in makers]
            for future in begun:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
