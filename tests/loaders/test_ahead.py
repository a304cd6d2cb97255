from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.text.text_log import prefetch


def fail_if_called() -> None:
    raise AssertionError("all items were wanted")


@given(st.lists(st.integers() | st.text()))
def test_items_are_unchanged_and_in_order(items: list[int | str]) -> None:
    assert list(prefetch(items, fail_if_called)) == items


def test_an_exception_is_raised_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn")

    ahead = prefetch(items(), lambda: None)
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="torn"):
        next(ahead)


def test_at_most_two_items_are_prefetched_and_none_after_closing() -> None:
    produced: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            produced.append(item)
            yield item

    given_up: list[bool] = []
    ahead = prefetch(items(), lambda: given_up.append(True))
    assert next(ahead) == 0
    for _ in range(50):
        time.sleep(0.005)
    assert len(produced) <= 3
    ahead.close()
    count = len(produced)
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())
    assert len(produced) == count
    assert given_up == [True]


def test_closing_calls_the_function_that_ends_a_wait() -> None:
    given_up = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        given_up.wait()

    ahead = prefetch(items(), given_up.set)
    assert next(ahead) == 1
    ahead.close()
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())
