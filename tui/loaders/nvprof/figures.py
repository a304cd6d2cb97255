"""One row of a summary table: its cells as printed, what they mean, and whether they prove each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from tui.loaders.nvprof.numbers import count, percent, time_ns, time_step_ns

LABELS: Final = MappingProxyType(
    {
        "GPU activities": "gpu",
        "API calls": "api",
        "OpenACC (excl)": "openacc",
        "OpenACC (incl)": "openacc",
        "OpenMP (excl)": "openmp",
        "OpenMP (incl)": "openmp",
        "Range": "nvtx",
    }
)
"""The labels of the Type column, and the section that the rows below one belong to."""

TIME: Final = r"\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?(?:[num]?s)?"
PERCENT: Final = r"\d{1,3}(?:\.\d+)?%?"
LABEL: Final = "|".join(re.escape(label) for label in LABELS)

ROW: Final = re.compile(
    rf"(?:(?P<label>{LABEL})(?::\s*|\s+))?(?P<time_pct>{PERCENT})\s+(?P<total>{TIME})\s+(?P<calls>\d+)\s+(?P<avg>{TIME})"
    rf"\s+(?P<min>{TIME})\s+(?P<max>{TIME})(?:\s+(?P<name>\S.*))?"
)
"""A whole row of a summary, without blanks around it."""

_API_NAME: Final = re.compile(r"cu(?:da)?[A-Z][A-Za-z0-9]*(?:_(?:v\d+|ptsz|ptds))*")


@dataclass(frozen=True, slots=True)
class Units:
    """The units of the time columns, where a row of units gives them instead of the cells."""

    total: str | None = None
    avg: str | None = None
    min: str | None = None
    max: str | None = None


@dataclass(slots=True)
class Row:
    """The cells of a row as they are printed; ``section`` is empty until it is known."""

    time_pct: str
    total: str
    calls: str
    avg: str
    min: str
    max: str
    name: str
    line: int
    section: str = ""
    repairs: list[str] = field(default_factory=list)
    """What was done to it, in words."""

    def values(self, units: Units) -> dict[str, str | int | float | None]:
        """The row as columns of the ``summary`` frame.

        Raises:
            ValueError: A cell is not what its column holds; the message says which.
        """
        values: dict[str, str | int | float | None] = {
            "section": self.section,
            "name": self.name or None,
            "line": self.line,
            "repaired": bool(self.repairs),
        }
        for column in ("total", "avg", "min", "max"):
            try:
                values[f"{column}_ns"] = time_ns(getattr(self, column), getattr(units, column))
            except ValueError as error:
                raise ValueError(f"in column {column.title()}, {error}") from error
        values["calls"] = count(self.calls)
        values["time_pct"] = percent(self.time_pct)
        return values

    def proven(self, units: Units) -> bool:
        """Whether its figures prove each other.

        Calls times average has to give the total within the printed precision, and the average has to lie between
        the shortest and the longest call. Figures are cut or rounded, so each is known to one step of its last digit.
        """
        try:
            step = {name: time_step_ns(getattr(self, name), getattr(units, name)) for name in _TIMES}
            value = {name: Decimal(time_ns(getattr(self, name), getattr(units, name))) for name in _TIMES}
            calls = count(self.calls)
            share = percent(self.time_pct)
        except ValueError:
            return False
        step = {name: max(size, Decimal(1)) for name, size in step.items()}
        return (
            calls > 0
            and share <= 100
            and abs(calls * value["avg"] - value["total"]) <= calls * step["avg"] + step["total"]
            and value["min"] <= value["avg"] + step["avg"] + step["min"]
            and value["avg"] <= value["max"] + step["avg"] + step["max"]
        )


_TIMES: Final = ("total", "avg", "min", "max")


def row_of(match: re.Match[str], line: int) -> Row:
    """The row that `ROW` found."""
    time_pct, total, calls, avg, shortest, longest = match.group("time_pct", "total", "calls", "avg", "min", "max")
    return Row(time_pct, total, calls, avg, shortest, longest, match["name"] or "", line)


def is_api_name(name: str) -> bool:
    """Whether a name is spelled like that of a CUDA API function.

    >>> is_api_name("cudaLaunchKernel"), is_api_name("cuInit"), is_api_name("cudaPy_prog"), is_api_name("cutlass")
    (True, True, False, False)
    """
    return _API_NAME.fullmatch(name) is not None
