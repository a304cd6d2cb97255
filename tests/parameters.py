"""Parameters of tests of which only some are in ``make test``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from _pytest.mark import ParameterSet

ValueT = TypeVar("ValueT")


def others_slow(values: Iterable[ValueT], quick: Collection[ValueT]) -> list[ValueT | ParameterSet]:
    """Return all values; those that are not among the quick ones are marked as slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
