"""What every column is called on a screen and in a report, how it is written, and what it means.

One registry for all views: a column means the same wherever it appears.
"""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind, together
from tui.model.columns.gpu_time import GPU_TIME
from tui.model.columns.hardware import HARDWARE
from tui.model.columns.iterations import ITERATIONS
from tui.model.columns.measured import MEASURED
from tui.model.columns.memory import MEMORY
from tui.model.columns.ops import OPS
from tui.model.columns.ranks import RANKS
from tui.model.columns.tables import TABLES
from tui.model.columns.work import WORK

__all__ = ["COLUMNS", "Column", "ColumnKind", "columns", "together"]

_ALL: Final = (*WORK, *OPS, *HARDWARE, *MEASURED, *ITERATIONS, *GPU_TIME, *RANKS, *MEMORY, *TABLES)

COLUMNS: Final[dict[str, Column]] = {column.name: column for column in _ALL}


def columns(*names: str) -> tuple[Column, ...]:
    """The columns of these names, in this order.

    >>> [column.title for column in columns("name", "calls")]
    ['Name', 'Calls']
    """
    return tuple(COLUMNS[name] for name in names)
