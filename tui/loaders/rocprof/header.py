"""The headers of rocprof's CSV files: which table each is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tui.loaders.text.table_rows import split_cells, unique_names

V1: Final = "rocprof-csv"
V3: Final = "rocprofv3-csv"

_SPAN: Final = ("start_timestamp", "end_timestamp")

TABLES: Final = (
    ("kernel_trace", V3, ("kind", "agent_id", "kernel_name", "workgroup_size_x", "grid_size_x", *_SPAN)),
    ("counters", V3, ("dispatch_id", "agent_id", "kernel_name", "grid_size", "counter_name", "counter_value")),
    ("memory_copy_trace", V3, ("kind", "direction", "source_agent_id", "destination_agent_id", *_SPAN)),
    ("api_trace", V3, ("domain", "function", "process_id", "thread_id", *_SPAN)),
    ("agents", V3, ("node_id", "logical_node_id", "agent_type", "name")),
    ("other", V3, ("kind", "operation", *_SPAN)),
    ("stats", V3, ("name", "calls", "totaldurationns", "averagens", "percentage", "minns", "maxns")),
    ("stats", V1, ("name", "calls", "totaldurationns", "averagens", "percentage")),
    ("results", V1, ("index", "kernelname", "gpu_id", "grd", "wgr")),
)
"""What each table is called here, the version that writes it, and columns that tell it; the first match is it."""

_ALIASES: Final = MappingProxyType(
    {
        "dispatch_id": "index",
        "kernel_name": "kernelname",
        "grid_size": "grd",
        "workgroup_size": "wgr",
        "lds_per_workgroup": "lds",
        "scratch_per_workitem": "scr",
        "start_timestamp": "beginns",
        "end_timestamp": "endns",
    }
)
"""Columns of rocprofv2, by the names of the first version."""
_OF_V2: Final = ("dispatch_id", "gpu_id", "grid_size", "workgroup_size", "kernel_name")

FIRST_CELL: Final = re.compile(r"(?i)Kind|Correlation_Id|Domain|Node_Id|Name|Index|Dispatch_ID|Guid")
"""The first cell of every header, and of no row."""

CUE: Final = (
    rb'^"?(?i:Guid"?,"?)?(?i:Kind"?,"?(?:Agent_Id|Direction|Operation)|Correlation_Id"?,"?Dispatch_Id|Domain"?,"?Function'
    rb'|Node_Id"?,"?Logical_Node_Id|Name"?,"?Calls"?,"?TotalDurationNs|Index"?,"?KernelName|Dispatch_ID"?,"?GPU_ID)'
)

WHOLE: Final = frozenset(
    (
        *("start_timestamp", "end_timestamp", "correlation_id", "queue_id", "stream_id", "dispatch_id", "kernel_id"),
        *("thread_id", "process_id", "vgpr_count", "lds_block_size", "group_segment_size"),
        *(f"{size}_{axis}" for size in ("workgroup_size", "grid_size") for axis in "xyz"),
        *("index", "queue_index", "pid", "tid", "beginns", "endns", "dispatchns", "completens", "durationns"),
    )
)
"""Columns of whole numbers."""

_MAX_HEADER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Header:
    """A header, read."""

    table: str
    """The name in `TABLES`."""
    format: str
    """The version that writes it."""
    columns: tuple[str, ...]
    """In lower case."""
    titles: tuple[str, ...]
    """As they stand."""


def header_of(text: str) -> Header | None:
    """The header that a line is, or None.

    >>> header_of('"Name","Calls","TotalDurationNs","AverageNs","Percentage"').format
    'rocprof-csv'
    """
    text = text.strip()
    if "," not in text or len(text) > _MAX_HEADER:
        return None
    titles = [title.strip() for title in split_cells(text)]
    columns = [title.lower().replace("-", "_") for title in titles]
    if set(columns).issuperset(_OF_V2):
        columns = [_ALIASES.get(column, column) for column in columns]
    held = set(columns)
    for table, version, needed in TABLES:
        if held.issuperset(needed):
            return Header(table, version, tuple(unique_names(columns)), tuple(titles))
    return None
