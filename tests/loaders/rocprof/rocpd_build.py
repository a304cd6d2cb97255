"""Writes small databases as rocprofv3 does."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENDING = "_0000abcd_12ef"

TABLES = {
    "string": "id string",
    "info_node": "id hostname",
    "info_process": "id nid pid command",
    "info_thread": "id tid",
    "info_agent": "id type type_index name product_name extdata",
    "info_kernel_symbol": "id kernel_name display_name group_segment_size arch_vgpr_count accum_vgpr_count sgpr_count",
    "info_pmc": "id name description units",
    "track": "id pid tid name_id",
    "event": "id category_id stack_id parent_stack_id correlation_id extdata",
    "pmc_event": "id event_id pmc_id value",
    "region": "id pid tid start end name_id event_id",
    "sample": "id track_id timestamp event_id",
    "kernel_dispatch": "id pid tid agent_id kernel_id queue_id stream_id start end private_segment_size "
    "group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z "
    "region_name_id event_id",
    "memory_copy": "id pid tid start end name_id dst_agent_id src_agent_id size queue_id stream_id region_name_id "
    "event_id",
    "memory_allocate": "id pid tid start end size event_id",
}


def write(path: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]], *, ending: str = ENDING) -> str:
    """Write a recording into a database: tables with a suffix, and views of them without it."""
    with sqlite3.connect(path) as connection:
        # All in one go: nobody waits for a disk.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table, names in TABLES.items():
            columns = names.split()
            connection.execute(f'CREATE TABLE "rocpd_{table}{ending}" ({", ".join(columns)})')
            if ending == ENDING:
                connection.execute(f'CREATE VIEW "rocpd_{table}" AS SELECT 1/0 AS "never to be asked"')
            rows = [[row.get(name) for name in columns] for row in tables.get(table, ())]
            marks = ", ".join("?" * len(columns))
            connection.executemany(f'INSERT INTO "rocpd_{table}{ending}" VALUES ({marks})', rows)
    connection.close()
    return str(path)
