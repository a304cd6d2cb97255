"""Findings of a profile, picked out."""

from __future__ import annotations

import json
from typing import Any

import polars as pl


def found(rows: pl.DataFrame, session: int | None = 0) -> dict[str, dict[str, Any]]:
    """What was found in a session, by rule."""
    own = rows.filter(pl.col("state") == "found", pl.col("session").eq_missing(pl.lit(session, pl.UInt32)))
    return {row["rule"]: row for row in own.iter_rows(named=True)}


def of_rule(rows: pl.DataFrame, rule: str, session: int = 0) -> dict[str, Any]:
    return rows.filter(pl.col("rule") == rule, pl.col("session") == session).row(0, named=True)


def figures(row: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row["numbers"])
    return content
