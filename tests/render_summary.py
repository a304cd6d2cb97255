"""Writes summaries like nvprof, for tests that parse them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

OLD_HEADER = "Time(%)      Time     Calls       Avg       Min       Max  Name"
NEW_HEADER = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of a summary."""

    name: str
    calls: int
    min_ns: int
    avg_ns: int
    max_ns: int

    @property
    def total_ns(self) -> int:
        return self.calls * self.avg_ns


def time_cell(nanoseconds: int) -> str:
    """Return a time like nvprof prints it: five digits, six for seconds, two decimals from 1000 seconds on."""
    if nanoseconds < 1000:
        return f"{nanoseconds}ns"
    for unit, factor in (("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        value = Decimal(nanoseconds) / factor
        if value < 1000 or unit == "s":
            break
    if value >= 1000:
        return f"{value:.1e}s"
    digits = 6 if unit == "s" else 5
    return f"{value:.{digits - len(str(int(value)))}f}{unit}"


def _shares(rows: Sequence[SummaryRow]) -> list[str]:
    total = sum(row.total_ns for row in rows) or 1
    return [f"{Decimal(100 * row.total_ns) / total:.2f}" for row in rows]


def old_table(rows: Sequence[SummaryRow]) -> str:
    """Return a table like CUDA 5.5 to 8 prints it."""
    lines = [OLD_HEADER]
    for row, share in zip(rows, _shares(rows), strict=True):
        cells = "".join(f"{time_cell(value):>10}" for value in (row.avg_ns, row.min_ns, row.max_ns))
        lines.append(f"{share + '%':>7}{time_cell(row.total_ns):>10}{row.calls:>10}{cells}  {row.name}")
    return "\n".join(lines) + "\n"


def new_table(groups: dict[str, Sequence[SummaryRow]]) -> str:
    """Return a table like CUDA 9 and newer print it: groups with a label on their first row."""
    lines = [NEW_HEADER]
    for label, rows in groups.items():
        for index, (row, share) in enumerate(zip(rows, _shares(rows), strict=True)):
            cells = "".join(f"{time_cell(value):>10}" for value in (row.avg_ns, row.min_ns, row.max_ns))
            heading = f"{label}:" if index == 0 else ""
            lines.append(
                f"{heading:>16}{share + '%':>9}{time_cell(row.total_ns):>10}{row.calls:>10}{cells}  {row.name}"
            )
    return "\n".join(lines) + "\n"


def bare_number(nanoseconds: int, factor: int, digits: int) -> str:
    """Return a number without unit: eight characters, else three digits and an exponent."""
    value = Decimal(nanoseconds) / factor
    if value and not Decimal("0.01") <= value < 1000:
        return f"{value:.2e}"
    return f"{value:.{digits - max(len(str(int(value))), 1)}f}"


def units_table(rows: Sequence[SummaryRow], unit: str) -> str:
    """Return a table that was recorded with ``--normalized-time-unit``."""
    factor = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    lines = [OLD_HEADER, f"{'%':>7}{unit:>10}{'':>10}{unit:>10}{unit:>10}{unit:>10}  "]
    for row, share in zip(rows, _shares(rows), strict=True):
        cells = "".join(f"{bare_number(value, factor, 7):>10}" for value in (row.avg_ns, row.min_ns, row.max_ns))
        lines.append(f"{share:>7}{bare_number(row.total_ns, factor, 7):>10}{row.calls:>10}{cells}  {row.name}")
    return "\n".join(lines) + "\n"


def csv_table(groups: dict[str, Sequence[SummaryRow]], units: Sequence[str], *, typed: bool) -> str:
    """Return a table of ``--csv``; ``units`` are those of Time, Avg, Min and Max."""
    factors = [{"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit] for unit in units]
    names = ["Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"]
    lines = [",".join(f'"{name}"' for name in (["Type"] if typed else []) + names)]
    lines.append(("," if typed else "") + f"%,{units[0]},,{units[1]},{units[2]},{units[3]},")
    for label, rows in groups.items():
        for row, share in zip(rows, _shares(rows), strict=True):
            values = (row.total_ns, row.avg_ns, row.min_ns, row.max_ns)
            total, *rest = (f"{Decimal(value) / factor:.6f}" for value, factor in zip(values, factors, strict=True))
            name = row.name.replace('"', '""')
            lines.append(
                (f'"{label}",' if typed else "") + f'{share}0000,{total},{row.calls},{",".join(rest)},"{name}"'
            )
    return "\n".join(lines) + "\n"
