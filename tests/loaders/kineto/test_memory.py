"""Allocations and releases of PyTorch's allocator, recorded with profile_memory=True."""

from __future__ import annotations

from typing import Any

from tests.corpus import recording_file
from tests.loaders.kineto.traces import kernel, op, read
from tui.loaders.registry import load_input

UNRECORDED = (None,) * 6
"""action, stream, size_bytes, active_bytes, call_site, stack: only a snapshot of the allocator has them."""


def memory(at_us: float, change: int, total: int, *, kind: int = 1, device: int = 0) -> dict[str, Any]:
    args = {
        "Total Reserved": 4096,
        "Total Allocated": total,
        "Bytes": change,
        "Device Id": device,
        "Device Type": kind,
        "Addr": 140_234_258_382_848,
    }
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": at_us,
            "args": args}  # fmt: skip


def test_memory_events_are_sorted_by_time() -> None:
    rows = read([kernel(1, 0), memory(7, -512, 0), memory(5, 512, 512), memory(6, 8, 8, kind=0, device=-1)])
    assert rows["memory_events"].drop("session", "line", "address").rows() == [
        ("GPU", 0, 5000, 512, 512, 4096, *UNRECORDED),
        ("CPU", None, 6000, 8, 8, 4096, *UNRECORDED),
        ("GPU", 0, 7000, -512, 0, 4096, *UNRECORDED),
    ]
    assert rows["memory_events"]["address"].to_list() == [140_234_258_382_848] * 3
    assert rows["issues"].is_empty()


def test_memory_events_have_the_origin_of_the_trace() -> None:
    rows = read([op("aten::empty", 1000, 10), kernel(1, 1020), memory(1005, 512, 512)])
    assert rows["memory_events"]["start_ns"].to_list() == [5000]


def test_an_event_decades_from_the_others_is_skipped_and_reported() -> None:
    far = [memory(at_us, 8, 8) for at_us in (8_000_000_000_000_000, -8_000_000_000_000_000)]
    rows = read([op("aten::empty", 1000, 10), kernel(1, 1020), memory(1005, 512, 512), *far])
    assert rows["memory_events"]["start_ns"].to_list() == [5000]
    reported = "2 events skipped: their starts are more than a week from the median start"
    assert rows["issues"].select("text", "reason").rows() == [("[memory]", reported)]


def test_versions_without_totals_and_without_types_leave_them_unknown() -> None:
    event = memory(5, 512, 0)
    event["args"] = {"Bytes": 512}
    assert read([kernel(1, 0), event])["memory_events"].drop("session", "line").rows() == [
        (None, None, 5000, 512, None, None, None, *UNRECORDED)
    ]


def test_memory_events_of_a_real_recording() -> None:
    events = load_input(recording_file("resnet50_amp.pt.trace.json.gz"))["memory_events"]
    assert events.group_by("place", "device").len().sort("len").rows() == [("CPU", None, 540), ("GPU", 0, 11150)]
    of_gpu = events.filter(place="GPU")
    assert of_gpu["allocated_bytes"].max() == 3_218_784_768
    # Every total is the one before it with the change.
    change = of_gpu["allocated_bytes"].diff().drop_nulls()
    assert change.to_list() == of_gpu["delta_bytes"][1:].to_list()
