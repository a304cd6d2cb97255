from __future__ import annotations

import io
import json
from typing import Any

from tui.loaders.chrome.reader import read_trace
from tui.loaders.chrome.trace import Arg, ArgKind, Trace
from tui.loaders.source import Source

ARGS = (
    Arg("correlation", ("correlation",), ArgKind.INTEGER),
    Arg("external_id", ("external id",), ArgKind.INTEGER),
    Arg("shapes", ("input dims",), ArgKind.TEXT),
    Arg("occupancy", ("est. achieved occupancy %",), ArgKind.NUMBER),
    Arg("grid", ("grid",), ArgKind.TRIPLE),
)


def read(document: str | bytes) -> Trace:
    content = document.encode() if isinstance(document, str) else document
    return read_trace(Source.open("trace.json", stream=io.BytesIO(content)), ARGS)


def kernel(**changed: Any) -> dict[str, Any]:
    event = {
        "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 2.5,
        "args": {"correlation": 3, "External id": 4, "grid": [8, 2], "est. achieved occupancy %": 40},
    }  # fmt: skip
    return event | changed


def test_an_event_becomes_a_row() -> None:
    trace = read(json.dumps({"schemaVersion": 1, "traceEvents": [kernel()], "traceName": "x"}))
    assert trace.metadata == {"schemaVersion": 1, "traceName": "x"}
    assert trace.complete.to_dicts() == [
        {
            "cat": "kernel", "name": "gemm", "pid": "0", "tid": "7", "start_ns": 0, "duration_ns": 2500, "line": 1,
            "correlation": 3, "external_id": 4, "shapes": None, "occupancy": 40.0,
            "grid_x": 8, "grid_y": 2, "grid_z": 1,
        }
    ]  # fmt: skip
    assert (trace.origin_ns, trace.partial, list(trace.notes)) == (10_000, "", [])
