from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.ahead import one_ahead


@given(st.lists(st.integers() | st.text()))
def test_items_come_as_they_are_and_in_order(items: list[int | str]) -> None:
    assert list(one_ahead(items)) == items


def test_an_exception_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="torn"):
        next(ahead)


def test_at_most_two_items_are_made_before_the_first_is_taken_and_none_after_closing() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            made.append(item)
            yield item

    ahead = one_ahead(items())
    assert next(ahead) == 0
    for _ in range(50):
        time.sleep(0.005)
    assert len(made) <= 3
    ahead.close()
    count = len(made)
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())
    assert len(made) == count
