"""Names of tables and columns: SQLite takes them in any case of the letters A to Z."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def folded(name: str) -> str:
    """What is the same for all names that SQLite takes for one.

    >>> folded("StringIds") == folded("STRINGIDS"), folded("\u00c4") == folded("\u00e4")
    (True, False)
    """
    return str(name.encode("utf-8", "surrogatepass").lower(), "utf-8", "surrogatepass")


class Names(tuple[str, ...]):
    """Names as they are written in a file; one is among them in any letter case."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and folded(name) in map(folded, self)


class ByName(Mapping[str, Value]):
    """Values by names as they are written in a file; they are found in any letter case."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Keep the values."""
        self._values = {folded(name): value for name, value in values.items()}
        self._names = tuple(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[folded(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
