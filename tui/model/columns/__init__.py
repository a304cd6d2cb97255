"""Every column of the program: name, heading, kind and meaning.

One registry for all views: a column means the same wherever it appears.
"""

from __future__ import annotations

from typing import Final

from tui.model.columns.gpu_columns import GPU_TIME, HARDWARE, MEMORY, WORK
from tui.model.columns.op_columns import ITERATIONS, OPS, RANKS, ROOFLINE
from tui.model.columns.report_columns import MEASURED, TABLES
from tui.model.table_spec import Column, ColumnKind, columns_by_priority

__all__ = ["COLUMNS", "Column", "ColumnKind", "columns", "columns_by_priority"]

_ALL: Final = (*WORK, *OPS, *HARDWARE, *MEASURED, *ITERATIONS, *GPU_TIME, *RANKS, *ROOFLINE, *MEMORY, *TABLES)

COLUMNS: Final[dict[str, Column]] = {column.name: column for column in _ALL}


def columns(*names: str) -> tuple[Column, ...]:
    """Return the columns of these names, in this order.

    >>> [column.title for column in columns("name", "calls")]
    ['Name', 'Calls']
    """
    return tuple(COLUMNS[name] for name in names)
