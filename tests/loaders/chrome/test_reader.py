from __future__ import annotations

import json

from tests.loaders.chrome.documents import kernel, read


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
