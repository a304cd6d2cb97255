"""Memoization of results by profile: computed once, shared by all views."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tui.cache.spill import held_bytes, low_memory, spill_to_disk

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile

KEPT: Final = 8
"""So many results of each function are kept: some profiles and their single sessions."""

HELD_BYTES: Final = 8 << 20
"""Of an input that memory may not hold, results that take so much of it together are kept."""

Result = TypeVar("Result")


_PUTTING: Final[dict[Any, Callable[[Profile, Any], None]]] = {}


def store_result(function: Callable[[Profile], Result], profile: Profile, result: Result) -> None:
    """Let a function that remembers its results know one, so that it need not be computed."""
    _PUTTING[function](profile, result)


class _Held:
    """What remembered results take of memory together: over a bound the one goes that was asked for least lately."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[tuple[int, Any], tuple[int, OrderedDict[Any, Any]]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def asked_for(self, kept: OrderedDict[Any, Any], key: object) -> None:
        with self._lock:
            if (id(kept), key) in self._sizes:
                self._sizes.move_to_end((id(kept), key))

    def add(self, kept: OrderedDict[Any, Any], key: object, result: object) -> None:
        size = held_bytes(result)
        with self._lock:
            before, _ = self._sizes.pop((id(kept), key), (0, kept))
            self._bytes += size - before
            self._sizes[id(kept), key] = size, kept
            while self._bytes > HELD_BYTES:
                (_, oldest), (size, of) = self._sizes.popitem(last=False)
                self._bytes -= size
                of.pop(oldest, None)

    def gone(self, kept: OrderedDict[Any, Any], key: object) -> None:
        with self._lock:
            size, _ = self._sizes.pop((id(kept), key), (0, kept))
            self._bytes -= size


_HELD: Final = _Held()


def once_per_profile(*frames: str) -> Callable[[Callable[[Profile], Result]], Callable[[Profile], Result]]:
    """Make a function of a profile remember its results, which nobody changes.

    Frames never change once they are made, so a result holds for as long as the profile has the same frames, and
    the same name of a GPU from the user.

    Args:
        frames: The frames of the profile that the function reads.
    """

    def remembering(function: Callable[[Profile], Result]) -> Callable[[Profile], Result]:
        kept: OrderedDict[tuple[str | None, tuple[int, ...]], tuple[tuple[weakref.ref[pl.DataFrame], ...], Result]] = (
            OrderedDict()
        )

        # A view that asks for what a thread is computing waits for it, rather than to work it out a second time.
        # Functions ask each other in one direction alone, so that no two threads can wait for each other.
        lock = threading.RLock()

        @wraps(function)
        def remembered(profile: Profile) -> Result:
            read = tuple(profile[frame] for frame in frames)
            key = (profile.gpu, tuple(map(id, read)))
            with lock:
                held = kept.get(key)
                # An id is used again once its object is gone: the weak references tell.
                if held is not None and all(ref() is frame for ref, frame in zip(held[0], read, strict=True)):
                    # Another function's result may just have taken its place in memory.
                    with suppress(KeyError):
                        kept.move_to_end(key)
                    _HELD.asked_for(kept, key)
                    return held[1]
                result = spill_to_disk(function(profile))
                put(profile, result)
                return result

        def put(profile: Profile, result: Result) -> None:
            read = tuple(profile[frame] for frame in frames)
            key = (profile.gpu, tuple(map(id, read)))
            with lock:
                kept[key] = (tuple(map(weakref.ref, read)), result)
                kept.move_to_end(key)
                while len(kept) > KEPT:
                    _HELD.gone(kept, kept.popitem(last=False)[0])
                if low_memory():
                    _HELD.add(kept, key, result)

        _PUTTING[remembered] = put
        return remembered

    return remembering
