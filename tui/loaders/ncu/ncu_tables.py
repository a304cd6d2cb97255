"""The tables of Nsight Compute's CSV: which page a header is of, and its rows as metrics in long form."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.text.section import LINE, split_cells, unique_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.text.block import Line

LAUNCH: Final = MappingProxyType(
    {
        "ID": "id",
        "Process ID": "pid",
        "Process Name": "process",
        "Host Name": "host",
        "Kernel Name": "kernel",
        "Context": "context",
        "Stream": "stream",
        "Block Size": "block",
        "Grid Size": "grid",
        "Device": "device",
        "CC": "cc",
    }
)
"""Columns that every page can have, of the launch."""

_DETAILS: Final = MappingProxyType(
    {
        "Section Name": "section",
        "Metric Name": "metric",
        "Metric Unit": "unit",
        "Metric Value": "value",
        "Rule Name": "rule",
        "Rule Type": "rule_type",
        "Rule Description": "rule_text",
        "Estimated Speedup Type": "speedup_type",
        "Estimated Speedup": "speedup",
    }
)
_SUMMARY: Final = MappingProxyType(
    {
        "Invocations": "invocations",
        "Section Name": "section",
        "Metric Name": "metric",
        "Metric Unit": "unit",
        "Minimum": "min",
        "Maximum": "max",
        "Average": "avg",
    }
)

LONG: Final = (*LAUNCH.values(), *_DETAILS.values(), LINE)
"""Columns of a page of launches in long form, all text but the line."""

_MAX_HEADER: Final = 1 << 20


@dataclass(slots=True)
class Page:
    """One table."""

    kind: str
    """details, raw or summary."""
    columns: tuple[str, ...]
    """As the header has them, made distinct."""
    line: int
    widths: tuple[int, ...] = ()
    """How many cells a row can have."""
    rows: list[pl.DataFrame] = field(default_factory=list)
    """Cells as text."""

    @property
    def frame(self) -> pl.DataFrame:
        """All rows as text."""
        schema = {**dict.fromkeys(self.columns, pl.String), LINE: pl.UInt32}
        return pl.concat(self.rows) if self.rows else pl.DataFrame(schema=schema)


def page_of(line: Line) -> Page | None:
    """The page that a line is the header of, or None."""
    text = line.text.strip()
    if len(text) > _MAX_HEADER or ("Kernel Name" not in text and not ("Metric Name" in text and "Average" in text)):
        return None
    cells = split_cells(text)
    held = set(cells)
    if cells[0] not in LAUNCH or len(cells) != len(held):
        return None
    if {"Metric Name", "Metric Value"} <= held:
        least = cells.index("Metric Value") + 1
        return Page("details", tuple(unique_names(cells)), line.number, tuple(range(least, len(cells) + 1)))
    if {"Metric Name", "Average"} <= held:
        return Page("summary", tuple(unique_names(cells)), line.number)
    if "ID" in held and any("__" in cell for cell in cells):
        return Page("raw", tuple(unique_names(cells)), line.number)
    return None


def long_form(page: Page, collector: Collector) -> pl.DataFrame:
    """The rows of a details or raw page: one for each metric of each launch, columns of `LONG`."""
    frame = page.frame
    known = LAUNCH | _DETAILS if page.kind == "details" else LAUNCH
    if page.kind == "raw":
        frame = _unpivoted(frame, page.columns)
        known = dict(known) | {"metric": "metric", "unit": "unit", "value": "value"}
    else:
        _report_other_metrics(page, known, collector)
    return _renamed(frame, known, LONG)


def summary_rows(page: Page, collector: Collector) -> pl.DataFrame:
    """The rows of a summary page as text."""
    known = LAUNCH | _SUMMARY
    _report_other_metrics(page, known, collector)
    return _renamed(page.frame, known, (*LAUNCH.values(), *_SUMMARY.values(), LINE))


def _report_other_metrics(page: Page, known: Mapping[str, str], collector: Collector) -> None:
    if others := [name for name in page.columns if name not in known]:
        reason = "columns that no known page has: they are in the log only"
        collector.issue("info", page.line, ", ".join(others), reason)


def _renamed(
    frame: pl.DataFrame, known: MappingProxyType[str, str] | dict[str, str], columns: Sequence[str]
) -> pl.DataFrame:
    frame = frame.select(
        pl.col(name).alias(known.get(name, name)) for name in frame.columns if name in known or name == LINE
    )
    return frame.select(
        pl.col(name) if name in frame.columns else pl.lit(None, pl.String).alias(name) for name in columns
    )


def _unpivoted(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """A wide page: its first row, which has no id, has the units."""
    first = frame.head(1).filter(pl.col("ID").is_null())
    units = {name: first[name][0] for name in columns} if first.height else {}
    metrics = [name for name in columns if name not in LAUNCH]
    index = [name for name in columns if name in LAUNCH]
    long = (
        frame.filter(pl.col("ID").is_not_null())
        .with_row_index("row")
        .unpivot(metrics, index=["row", *index, LINE], variable_name="metric", value_name="value")
        .filter(pl.col("value").is_not_null())
        .sort("row", maintain_order=True)
        .drop("row")
    )
    if not units:
        return long.with_columns(pl.lit(None, pl.String).alias("unit"))
    unit = pl.col("metric").replace_strict(list(units), list(units.values()), default=None, return_dtype=pl.String)
    return long.with_columns(unit.alias("unit"))
