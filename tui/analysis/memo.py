"""Memoization of results by profile: computed once, shared by all views."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tui.cache.spill import held_bytes, low_memory, release_memory, spill_to_disk

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile

MAX_RESULTS: Final = 8
"""Results cached for each function: those of some profiles and their sessions."""

MAX_BYTES: Final = 64 << 20
"""Memory for results of an input that does not fit in memory."""

Result = TypeVar("Result")


_STORES: Final[dict[Any, Callable[[Profile, Any], None]]] = {}


def store_result(function: Callable[[Profile], Result], profile: Profile, result: Result) -> None:
    """Store a result of a memoized function, so that it need not be computed."""
    _STORES[function](profile, result)


class _ResultSizes:
    """The memory of memoized results; above `MAX_BYTES` the least recently used one is evicted."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[tuple[int, Any], tuple[int, OrderedDict[Any, Any]]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def touch(self, results: OrderedDict[Any, Any], key: object) -> None:
        with self._lock:
            if (id(results), key) in self._sizes:
                self._sizes.move_to_end((id(results), key))

    def add(self, results: OrderedDict[Any, Any], key: object, result: object) -> None:
        size = held_bytes(result)
        with self._lock:
            previous_size, _ = self._sizes.pop((id(results), key), (0, results))
            self._bytes += size - previous_size
            self._sizes[id(results), key] = size, results
            while self._bytes > MAX_BYTES:
                (_, oldest), (size, owner) = self._sizes.popitem(last=False)
                self._bytes -= size
                owner.pop(oldest, None)

    def remove(self, results: OrderedDict[Any, Any], key: object) -> None:
        with self._lock:
            size, _ = self._sizes.pop((id(results), key), (0, results))
            self._bytes -= size


_SIZES: Final = _ResultSizes()


def once_per_profile(*frames: str) -> Callable[[Callable[[Profile], Result]], Callable[[Profile], Result]]:
    """Memoize a function of a profile; its results must not be modified.

    Frames never change once they are made, so a result is valid as long as the profile has the same frames and the
    same GPU name and peaks from the user.

    Args:
        frames: The frames of the profile that the function reads.
    """

    def memoizing(function: Callable[[Profile], Result]) -> Callable[[Profile], Result]:
        results: OrderedDict[
            tuple[str | None, tuple[tuple[str, float], ...], tuple[int, ...]],
            tuple[tuple[weakref.ref[pl.DataFrame], ...], Result],
        ] = OrderedDict()

        # A thread waits for a result that another one is computing.
        # Functions call each other in one direction only, so no two threads can wait for each other.
        lock = threading.RLock()

        @wraps(function)
        def memoized(profile: Profile) -> Result:
            read = tuple(profile[frame] for frame in frames)
            key = (profile.gpu, profile.peaks, tuple(map(id, read)))
            with lock:
                entry = results.get(key)
                # An id is reused once its object is deleted: the weak references detect it.
                if entry is not None and all(ref() is frame for ref, frame in zip(entry[0], read, strict=True)):
                    # Another function's result may just have evicted it.
                    with suppress(KeyError):
                        results.move_to_end(key)
                    _SIZES.touch(results, key)
                    return entry[1]
                result = spill_to_disk(function(profile))
                release_memory()
                put(profile, result)
                return result

        def put(profile: Profile, result: Result) -> None:
            read = tuple(profile[frame] for frame in frames)
            key = (profile.gpu, profile.peaks, tuple(map(id, read)))
            with lock:
                results[key] = (tuple(map(weakref.ref, read)), result)
                results.move_to_end(key)
                while len(results) > MAX_RESULTS:
                    _SIZES.remove(results, results.popitem(last=False)[0])
                if low_memory():
                    _SIZES.add(results, key, result)

        _STORES[memoized] = put
        return memoized

    return memoizing
