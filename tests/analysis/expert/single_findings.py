"""Access to single findings of a profile."""

from __future__ import annotations

import json
from typing import Any

import polars as pl


def found_by_rule(rows: pl.DataFrame, session: int | None = 0) -> dict[str, dict[str, Any]]:
    """Return the findings of a session by rule."""
    found_rows = rows.filter(pl.col("state") == "found", pl.col("session").eq_missing(pl.lit(session, pl.UInt32)))
    return {row["rule"]: row for row in found_rows.iter_rows(named=True)}


def row_of_rule(rows: pl.DataFrame, rule: str, session: int = 0) -> dict[str, Any]:
    return rows.filter(pl.col("rule") == rule, pl.col("session") == session).row(0, named=True)


def numbers_of(row: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row["numbers"])
    return content
