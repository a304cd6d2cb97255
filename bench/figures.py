"""The results of benchmarks: a table of goals, as text, JSON and Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy
import polars
import textual

import tui

if TYPE_CHECKING:
    from bench.measure import Result


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure with its goal."""

    what: str
    measured: float | None
    """None if it could not be measured."""
    goal: float | None
    """The maximum; None if there is no goal."""
    unit: str
    """``x`` for a multiple of the floor, otherwise ``ms``, ``s`` or ``B``."""
    floor: str = ""
    """The floor."""
    floor_seconds: float | None = None
    seconds: float | None = None
    peak_bytes: int | None = None
    """The peak memory of the processes."""
    repeat_with: str = ""
    """The command that measures it again."""

    def with_command(self, command: str) -> Figure:
        """The figure with the command that measures it again."""
        return replace(self, repeat_with=command)

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` or empty."""
        if self.goal is None:
            return ""
        if self.measured is None:
            return "not measured"
        return "met" if self.measured <= self.goal else f"above by {self.measured / self.goal - 1:.0%}"


def ratio(what: str, result: Result, floor: Result, goal: float | None) -> Figure:
    """The ratio of a case to the floor of its group."""
    return Figure(
        what,
        result.seconds / floor.seconds,
        goal,
        "x",
        floor.case.title,
        floor.seconds,
        result.seconds,
        result.peak_bytes,
    )


def machine() -> dict[str, str | int]:
    """The machine and the versions."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.system(),
        "proftui": tui.__version__,
        "python": platform.python_version(),
        "polars": polars.__version__,
        "numpy": numpy.__version__,
        "textual": textual.__version__,
    }


def machine_text(here: dict[str, str | int]) -> str:
    """The machine and the versions as one line."""
    versions = ", ".join(f"{name} {here[name]}" for name in ("proftui", "python", "polars", "numpy", "textual"))
    memory = int(here["memory_bytes"]) / 2**30
    return f"{here['processor']}, {here['cores']} cores, {memory:.0f} GiB, {here['system']}; {versions}"


def print_figures(figures: Sequence[Figure]) -> None:
    """Print the table of all figures."""
    width = max(len(figure.what) for figure in figures)
    print(f"{'':<{width}}{'goal':>10}{'measured':>11}{'seconds':>9}{'floor':>9}{'peak MB':>9}")
    for figure in figures:
        print(
            f"{figure.what:<{width}}{value(figure.goal, figure.unit):>10}{value(figure.measured, figure.unit):>11}"
            f"{_number(figure.seconds):>9}{_number(figure.floor_seconds):>9}"
            f"{'' if figure.peak_bytes is None else f'{figure.peak_bytes / 1e6:.0f}':>9}  {figure.verdict}"
        )


def value(number: float | None, unit: str) -> str:
    """A number with its unit.

    >>> value(0.0224, "x"), value(15.6, "ms"), value(2.04, "s"), value(143.2, "B"), value(None, "x")
    ('0.022 x', '15.6 ms', '2.04 s', '143 B', '')
    """
    if number is None:
        return ""
    digits = {"ms": 1, "B": 0}.get(unit, 3 if number < 0.1 else 2)
    return f"{number:.{digits}f} {unit}"


def write_figures(path: Path, figures: Sequence[Figure]) -> None:
    """Write the figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "figures": [asdict(figure) | {"verdict": figure.verdict} for figure in figures]}
    path.write_text(json.dumps(content, indent=1) + "\n")


BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEADING: Final = (
    "| What | Goal | Measured | | Seconds | Compared with | Its seconds | Peak memory | Repeat with |",
    "| --- | ---: | ---: | --- | ---: | --- | ---: | ---: | --- |",
)


def write_page(page: Path, figures: Sequence[Figure], *, keeps_others: bool = False) -> None:
    """Write the table into a Markdown page, between its two marks.

    Args:
        page: The page.
        figures: The figures.
        keeps_others: Whether to keep the lines of other figures.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = page.read_text().partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: {BEGIN} and {END} must be in it")
    kept = [line for line in old.splitlines() if line.startswith("| ") and line not in HEADING] if keeps_others else []
    by_figure = {line.partition(" | ")[0]: line for line in (*kept, *map(_row, figures))}
    lines = [f"{machine_text(machine())}.", "", *HEADING, *by_figure.values()]
    page.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}")


def _row(figure: Figure) -> str:
    """A line of the table."""
    cells = [
        figure.what,
        value(figure.goal, figure.unit),
        f"**{value(figure.measured, figure.unit)}**" if figure.measured is not None else "–",
        figure.verdict,
        _number(figure.seconds),
        figure.floor,
        _number(figure.floor_seconds),
        "" if figure.peak_bytes is None else f"{figure.peak_bytes / 1e6:,.0f} MB",
        f"`{figure.repeat_with}`",
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _number(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"
