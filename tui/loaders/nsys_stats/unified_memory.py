"""Reports on unified memory: what was migrated and how often pages were missing, of the run or by address."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.nsys_stats.rows import bytes_per

if TYPE_CHECKING:
    from tui.loaders.nsys_stats.header import Header
    from tui.loaders.text.cell_values import CellValues

_SECTION: Final = "unified memory"

FIGURES: Final = MappingProxyType(
    {
        "um_total_sum": (
            ("totalhtodmigrationsize", "migrated HtoD"),
            ("totaldtohmigrationsize", "migrated DtoH"),
            ("totalcpupagefaults", "CPU page faults"),
            ("totalgpupagefaults", "GPU page faults"),
        ),
        "um_sum": (
            ("htodmigrationsize", "migrated HtoD"),
            ("dtohmigrationsize", "migrated DtoH"),
            ("cpupagefaults", "CPU page faults"),
            ("gpupagefaults", "GPU page faults"),
        ),
        "um_cpu_page_faults_sum": (("cpupagefaults", "CPU page faults"),),
    }
)
"""The columns of each report that are figures, and what they are called."""

_ADDRESSES: Final = ("virtualaddress", "cpuinstructionaddress")


def figures(report: str, header: Header, cells: CellValues) -> pl.DataFrame:
    """Columns of ``tool_figures`` without the tool: sizes in bytes, faults as counts, by address where it has one."""
    address = next((column for column in _ADDRESSES if column in cells), None)
    parts = []
    for column, words in FIGURES[report]:
        is_size = column.endswith("size")
        factor = bytes_per(header.unit(column)) if is_size else 1
        values = cells.number(column)
        parts.append(
            pl.DataFrame(
                {
                    "section": pl.Series([_SECTION if address is None else f"{_SECTION}, {words}"] * values.len()),
                    "name": pl.Series([words] * values.len()) if address is None else cells.text(address),
                    "value": (values * factor).round()
                    if factor
                    else pl.Series([None] * values.len(), dtype=pl.Float64),
                    "unit": pl.Series(["B" if is_size else None] * values.len(), dtype=pl.String),
                    "line": cells.line,
                }
            )
        )
    return pl.concat(parts)
