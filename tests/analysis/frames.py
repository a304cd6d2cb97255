"""Small profiles made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tui.model.profile import Profile, profile_of

Row = Mapping[str, Any]


def make_profile(**frames: Sequence[Row]) -> Profile:
    """A profile with these rows; sessions that rows name and ``sessions`` does not are added."""
    rows = {name: list(given) for name, given in frames.items()}
    for name, given in rows.items():
        if name != "issues":
            rows[name] = [{"session": 0, **row} for row in given]
    named = {row["session"] for name, given in rows.items() if name != "issues" for row in given}
    known = {row["session"] for row in rows.get("sessions", [])}
    rows["sessions"] = [*rows.get("sessions", []), *({"session": session} for session in sorted(named - known))]
    if "activities" in rows:
        rows["activities"] = [{"kind": "kernel", **row, "activity": i} for i, row in enumerate(rows["activities"])]
    return profile_of(
        {name: pl.DataFrame(given, infer_schema_length=None) for name, given in rows.items() if given}, source="run.log"
    )


def kernel(name: str, duration_ns: int | None, **more: Any) -> dict[str, Any]:
    """One launch of a kernel."""
    return {"name": name, "duration_ns": duration_ns, **more}


def copy(direction: str, duration_ns: int, **more: Any) -> dict[str, Any]:
    """One copy."""
    return {
        "kind": "memcpy",
        "name": f"[CUDA memcpy {direction}]",
        "copy_kind": direction,
        "duration_ns": duration_ns,
        **more,
    }


def summary_row(section: str, name: str, calls: int | None, total_ns: int | None, **more: Any) -> dict[str, Any]:
    """One row of a summary that the log holds."""
    return {"section": section, "name": name, "calls": calls, "total_ns": total_ns, **more}
