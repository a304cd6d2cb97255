"""Writes GPU and API traces like nvprof, for tests that parse them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from tests.render_summary import time_cell

FOOTER = """
Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver.
SSMem: Static shared memory allocated per CUDA block.
DSMem: Dynamic shared memory allocated per CUDA block.
"""

UNITS = ("B", "KB", "MB", "GB")
NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row of a trace; ``grid`` is None for copies and API calls."""

    name: str
    start_ns: int
    duration_ns: int | None = 1000
    api: bool = False
    correlation: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    static: int | None = None
    dynamic: int | None = None
    size: int | None = None
    src: str | None = None
    dst: str | None = None
    device: str = "Tesla K40c (0)"
    context: int = 1
    stream: int = 7

    @property
    def throughput(self) -> float | None:
        """Return the bytes per second."""
        return None if self.size is None or not self.duration_ns else self.size / self.duration_ns * 1e9

    @property
    def printed_name(self) -> str:
        """Return the name, with the correlation ID where nvprof prints it there."""
        if self.correlation is None or self.name.startswith("["):
            return self.name
        return f"{self.name} (f(int*) [{self.correlation}])" if self.api else f"{self.name} [{self.correlation}]"


@dataclass(frozen=True, slots=True)
class Style:
    """The layout of a text table."""

    memory_types: bool = True
    lead: str = ""
    grid_width: int = 21
    device_width: int = 17
    base: int = 1024
    units: tuple[str, str] | None = None
    """Units of start and duration under ``-u``; sizes are in KB then, rates in GB/s."""


def number_cell(value: Decimal, unit: str, significant: int = 5) -> str:
    """Return a number with so many significant digits (one if it would be too wide), and its unit."""
    if value >= 10**significant:
        return f"{value:.0e}{unit}"
    return f"{value:.{max(0, significant - len(str(int(value))))}f}{unit}"


def size_cell(count: float, base: int = 1024, suffix: str = "") -> str:
    """Return a size (or, with the suffix ``/s``, a rate) like nvprof prints it."""
    power = 0
    value = Decimal(count)
    while power < 3 and value >= base:
        value /= base
        power += 1
    if power == 0 and not suffix:
        return f"{int(value)}B"
    return number_cell(value, UNITS[power] + suffix, 4 if value >= 10**4 else 5)


def text_table(rows: Sequence[TraceRow], style: Style | None = None) -> str:
    """Return a text table, with a header and, if the style has units, a row of units."""
    style = style or Style()
    columns = [
        ("Start", 8),
        ("Duration", 10),
        ("Grid Size", style.grid_width),
        ("Block Size", 16),
        ("Regs*", 10),
        ("SSMem*", 10),
        ("DSMem*", 10),
        ("Size", 10),
        ("Throughput", 12),
        *([("SrcMemType", 12), ("DstMemType", 12)] if style.memory_types else []),
        ("Device", style.device_width),
        ("Context", 10),
        ("Stream", 10),
    ]
    widths = [width for _, width in columns]

    def line(cells: Sequence[str], name: str) -> str:
        text = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"{style.lead}{text}  {name}".rstrip(" ") if not name else f"{style.lead}{text}  {name}"

    lines = [line([heading for heading, _ in columns], "Name")]
    if style.units:
        units = {"Start": style.units[0], "Duration": style.units[1], "SSMem*": "KB", "DSMem*": "B", "Size": "KB"}
        units["Throughput"] = "GB/s"
        lines.append(line([units.get(heading, "") for heading, _ in columns], ""))
    lines += [line(_text_cells(row, style), row.printed_name) for row in rows]
    return "\n".join(lines) + "\n"


def api_table(rows: Sequence[TraceRow]) -> str:
    """Return a table of API calls alone."""
    lines = ["   Start  Duration  Name"]
    lines += [f"{time_cell(row.start_ns):>8}{time_cell(row.duration_ns or 0):>10}  {row.printed_name}" for row in rows]
    return "\n".join(lines) + "\n"


def csv_table(rows: Sequence[TraceRow], *, memory_types: bool = True, units: tuple[str, str] = ("ms", "us")) -> str:
    """Return a CSV table of 20 columns, or of 17 like old versions print it."""
    headings = ["Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z"]
    headings += ["Registers Per Thread", "Static SMem", "Dynamic SMem", "Size", "Throughput"]
    headings += ["SrcMemType", "DstMemType"] if memory_types else []
    headings += ["Device", "Context", "Stream", "Name"] + (["Correlation_ID"] if memory_types else [])
    unit_row = [*units, "", "", "", "", "", "", "", "KB", "B", "MB", "GB/s"]
    unit_row += [""] * (len(headings) - len(unit_row))
    lines = [",".join(f'"{heading}"' for heading in headings), ",".join(unit_row)]
    for row in rows:
        cells = [_fixed(row.start_ns, NS[units[0]])]
        cells.append("" if row.duration_ns is None else _fixed(row.duration_ns, NS[units[1]]))
        cells += [str(value) for value in (*(row.grid or ("",) * 3), *(row.block or ("",) * 3))]
        cells += ["" if row.registers is None else str(row.registers)]
        cells += ["" if row.static is None else _fixed(row.static, 1024)]
        cells += ["" if row.dynamic is None else str(row.dynamic)]
        cells += ["" if row.size is None else f"{row.size / 2**20:.6f}"]
        cells += ["" if row.throughput is None else f"{row.throughput / 2**30:.6f}"]
        if memory_types:
            cells += [f'"{kind}"' if kind else "" for kind in (row.src, row.dst)]
        cells += ["", "", ""] if row.api else [f'"{row.device}"', f'"{row.context}"', f'"{row.stream}"']
        if memory_types:
            cells += [f'"{row.name}"', "" if row.correlation is None else str(row.correlation)]
        else:
            cells += [f'"{row.printed_name}"']
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def _fixed(value: int, factor: int) -> str:
    return f"{Decimal(value) / factor:.6f}"


def _text_cells(row: TraceRow, style: Style) -> list[str]:
    def dimensions(value: tuple[int, int, int] | None) -> str:
        return "-" if value is None else "({} {} {})".format(*value)

    def size(value: int | None, factor: int) -> str:
        if value is None:
            return "-"
        if style.units is None:
            return size_cell(value, style.base)
        return number_cell(Decimal(value) / factor, "", 7) if factor > 1 else str(value)

    def time(value: int | None, unit_index: int) -> str:
        if value is None:
            return "-"
        return time_cell(value) if style.units is None else time_without_unit(value, NS[style.units[unit_index]])

    rate = "-"
    if row.throughput is not None:
        rate = (
            size_cell(row.throughput, style.base, "/s")
            if style.units is None
            else number_cell(Decimal(row.throughput) / 2**30, "", 7)
        )
    cells = [time(row.start_ns, 0), time(row.duration_ns, 1), dimensions(row.grid), dimensions(row.block)]
    cells += ["-" if row.registers is None else str(row.registers)]
    cells += [size(row.static, 1024), size(row.dynamic, 1), size(row.size, 1024), rate]
    if style.memory_types:
        cells += [row.src or "-", row.dst or "-"]
    if row.api:
        return [*cells, "-", "-", "-"]
    return [*cells, row.device[: style.device_width - 2], str(row.context), str(row.stream)]


def time_without_unit(value: int, factor: int) -> str:
    """Return a time without its unit, in eight characters."""
    number = Decimal(value) / factor
    text = f"{number:.{max(0, 7 - len(str(int(number))))}f}" if factor > 1 else str(value)
    return text if len(text) <= 8 and (number >= Decimal("0.01") or not value) else f"{number:.2e}"
