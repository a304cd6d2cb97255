"""Makes small profiles for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tui.model.profile import Profile, build_profile

Row = Mapping[str, Any]


def make_profile(**frames: Sequence[Row]) -> Profile:
    """Return a profile with these rows; sessions that rows name and ``sessions`` lacks are added."""
    rows = {name: list(frame) for name, frame in frames.items()}
    for name, frame in rows.items():
        if name != "issues":
            rows[name] = [{"session": 0, **row} for row in frame]
    referenced = {row["session"] for name, frame in rows.items() if name != "issues" for row in frame}
    listed = {row["session"] for row in rows.get("sessions", [])}
    rows["sessions"] = [*rows.get("sessions", []), *({"session": session} for session in sorted(referenced - listed))]
    if "activities" in rows:
        rows["activities"] = [
            {"kind": "kernel", **row, "activity": number} for number, row in enumerate(rows["activities"])
        ]
    return build_profile(
        {name: pl.DataFrame(frame, infer_schema_length=None) for name, frame in rows.items() if frame}, source="run.log"
    )


def kernel(name: str, duration_ns: int | None, **fields: Any) -> dict[str, Any]:
    """Return a launch of a kernel."""
    return {"name": name, "duration_ns": duration_ns, **fields}


def copy(direction: str, duration_ns: int, **fields: Any) -> dict[str, Any]:
    """Return a copy."""
    return {
        "kind": "memcpy",
        "name": f"[CUDA memcpy {direction}]",
        "copy_kind": direction,
        "duration_ns": duration_ns,
        **fields,
    }


def summary_row(section: str, name: str, calls: int | None, total_ns: int | None, **fields: Any) -> dict[str, Any]:
    """Return a row of a printed summary."""
    return {"section": section, "name": name, "calls": calls, "total_ns": total_ns, **fields}
