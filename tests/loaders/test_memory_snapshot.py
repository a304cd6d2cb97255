"""Memory snapshots of PyTorch: totals, allocations at the peak, and that no code in a pickle is run."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.damage import load_contents, load_damaged
from tests.loaders.reading import reasons, rows
from tui.analysis.allocator import (
    allocated_by,
    allocator_segments,
    allocators,
    memory_allocations,
    memory_curve,
    memory_devices,
    memory_peak,
    peak_by_call_site,
    segment_blocks,
)
from tui.analysis.compare.sides import two_inputs
from tui.analysis.dashboard import advice
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.output.diff import Diff
from tui.output.report import Style
from tui.output.report_dashboard import DashboardReport
from tui.screens.dashboard.entries import memory_entries

if TYPE_CHECKING:
    from tui.model.profile import Profile

MB = 1 << 20
NATIVE = {"filename": "??", "name": "torch::unwind::unwind()", "line": 0}
TORCH = {"filename": "/venv/torch/nn/modules/linear.py", "name": "forward", "line": 117}
MODEL = {"filename": "/home/me/model.py", "name": "forward", "line": 7}
TRAIN = {"filename": "/home/me/train.py", "name": "step", "line": 3}
IN_MODEL = [NATIVE, TORCH, MODEL, TRAIN]
IN_TRAIN = [NATIVE, TRAIN]

WHERE_MODEL = "/home/me/model.py(7): forward"
WHERE_TRAIN = "/home/me/train.py(3): step"


def event(
    action: str, addr: int, size: int, time_us: int, frames: list[dict[str, object]] = IN_MODEL
) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us, "frames": frames}


def block(address: int, size: int, state: str = "active_allocated", **fields: object) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size - 100,
        "state": state,
        "frames": IN_TRAIN,
        **fields,
    }


TRACE = [
    event("segment_alloc", 5000 * MB, 20 * MB, 1_700_000_000_000_000),
    event("alloc", 5000 * MB, 6 * MB - 100, 1_700_000_000_000_010),
    event("alloc", 5006 * MB, 4 * MB - 100, 1_700_000_000_000_020),
    event("free_requested", 1000 * MB, MB - 100, 1_700_000_000_000_030, IN_TRAIN),
    event("free_completed", 1000 * MB, MB - 100, 1_700_000_000_000_030, IN_TRAIN),
    event("free_requested", 5000 * MB, 6 * MB - 100, 1_700_000_000_000_050),
    event("free_completed", 5000 * MB, 6 * MB - 100, 1_700_000_000_000_060),
    {**event("oom", 0, 900 * MB, 1_700_000_000_000_070), "device_free": 3 * MB},
    event("alloc", 5010 * MB, MB - 100, 1_700_000_000_000_080, IN_TRAIN),
]


def snapshot(**parts: object) -> dict[str, Any]:
    """Return two segments on GPU 0 and one on GPU 1; the trace of GPU 0 begins after 3 MB were allocated."""
    shared = {"stream": 0, "segment_pool_id": (0, 0), "is_expandable": False, "frames": []}
    first = [block(1000 * MB, MB, "inactive"), block(1001 * MB, 2 * MB), block(1003 * MB, MB, "inactive")]
    second = [
        block(5000 * MB, 6 * MB, "inactive"),
        block(5006 * MB, 4 * MB),
        block(5010 * MB, MB),
        block(5011 * MB, 9 * MB, "inactive"),
    ]
    other_blocks = [block(9000 * MB, 2 * MB)]
    segments = [
        {
            "device": device,
            "address": blocks[0]["address"],
            "total_size": sum(block_["size"] for block_ in blocks),
            "allocated_size": used,
            "active_size": used,
            "requested_size": used - 100 * sum(block_["state"] != "inactive" for block_ in blocks),
            "segment_type": "large",
            "blocks": blocks,
            **shared,
        }
        for device, blocks, used in ((0, first, 2 * MB), (0, second, 5 * MB), (1, other_blocks, 2 * MB))
    ]
    notes = [
        {"stage": "START", "name": "forward", "device": 0, "time_us": 1_700_000_000_000_005},
        {"stage": "END", "name": "forward", "device": 0, "time_us": 1_700_000_000_000_025},
    ]
    return {"segments": segments, "device_traces": [TRACE, []], "external_annotations": notes, **parts}


def read(value: object, protocol: int = 4) -> Profile:
    return load_input("-", stream=io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_totals_after_each_event_include_earlier_memory(protocol: int) -> None:
    profile = read(snapshot(), protocol)

    assert rows(
        profile, "memory_events", "action", "delta_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"
    ) == [
        ("segment_alloc", 0, 3 * MB - 200, 3 * MB - 200, 24 * MB),
        ("alloc", 6 * MB - 100, 9 * MB - 300, 9 * MB - 300, 24 * MB),
        ("alloc", 4 * MB - 100, 13 * MB - 400, 13 * MB - 400, 24 * MB),
        ("free_requested", 100 - MB, 12 * MB - 300, 13 * MB - 400, 24 * MB),
        ("free_completed", 0, 12 * MB - 300, 12 * MB - 300, 24 * MB),
        ("free_requested", 100 - 6 * MB, 6 * MB - 200, 12 * MB - 300, 24 * MB),
        ("free_completed", 0, 6 * MB - 200, 6 * MB - 200, 24 * MB),
        ("oom", 0, 6 * MB - 200, 6 * MB - 200, 24 * MB),
        ("alloc", MB - 100, 7 * MB - 300, 7 * MB - 300, 24 * MB),
    ]
    assert rows(profile, "memory_events", "start_ns", "call_site")[1] == (10_000, WHERE_MODEL)
    assert rows(profile, "sessions", "format", "origin_ns") == [("torch-memory-snapshot", 1_700_000_000_000_000_000)]
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns") == [("forward", 5_000, 20_000)]


def test_allocations_at_the_peak_by_stack() -> None:
    peak = memory_peak(read(snapshot())).filter(device=0)

    assert peak.select("call_site", "size_bytes", "allocations", "largest_bytes").rows() == [
        (WHERE_MODEL, 10 * MB - 200, 2, 6 * MB - 100),
        (WHERE_TRAIN, 2 * MB - 100, 1, 2 * MB - 100),
        (None, MB - 100, 1, MB - 100),
    ]
    assert peak["peak_pct"].sum() == pytest.approx(100)
    assert peak["stack"][0] == f"/venv/torch/nn/modules/linear.py(117): forward;{WHERE_MODEL};{WHERE_TRAIN}"


def test_single_allocations_live_from_event_to_event() -> None:
    allocations = memory_allocations(read(snapshot())).filter(device=0)

    columns = ("size_bytes", "allocated_event", "freed_event", "lived_ns", "lived_events", "at_peak")
    assert allocations.select(columns).rows() == [
        (6 * MB - 100, 1, 6, 50_000, 5, True),
        (4 * MB - 100, 2, None, None, None, True),
        (2 * MB - 100, None, None, None, None, True),
        (MB - 100, 8, None, None, None, False),
        (MB - 100, None, 4, None, None, True),
    ]


def test_segments_and_their_free_blocks() -> None:
    profile = read(snapshot())

    columns = (
        "segment",
        "reserved_bytes",
        "active_bytes",
        "free_bytes",
        "largest_free_bytes",
        "fragmentation_pct",
        "blocks",
    )
    assert allocator_segments(profile).select(columns).rows() == [
        (1, 20 * MB, 5 * MB, 15 * MB, 9 * MB, 40.0, 4),
        (0, 4 * MB, 2 * MB, 2 * MB, MB, 50.0, 3),
        (2, 2 * MB, 2 * MB, 0, 0, None, 1),
    ]
    assert memory_devices(profile).select(
        "device", "reserved_bytes", "allocated_bytes", "segments", "blocks"
    ).rows() == [
        (0, 24 * MB, 7 * MB, 2, 7),
        (1, 2 * MB, 2 * MB, 1, 1),
    ]
    assert segment_blocks(profile, 0, 0)["state"].to_list() == ["inactive", "active_allocated", "inactive"]


def test_requested_bytes_that_are_not_recorded_are_unknown_in_the_sum() -> None:
    segments = [{**segment, "requested_size": None} for segment in snapshot()["segments"]]
    profile = read(snapshot(segments=segments))
    assert memory_devices(profile).select("device", "allocated_bytes", "requested_bytes").rows() == [
        (0, 7 * MB, None),
        (1, 2 * MB, None),
    ]


def test_out_of_memory_and_a_trace_that_begins_in_the_middle_are_reported() -> None:
    reported = reasons(read(snapshot()))

    assert reported == [
        "the trace starts mid-run: 1 free is of earlier allocations; record with a larger max_entries to see them",
        "out of memory: 900 MiB requested, 3 MiB free on the GPU",
    ]


def test_events_without_times_are_in_order() -> None:
    trace = [{key: value for key, value in event.items() if key != "time_us"} for event in TRACE]
    profile = read(snapshot(device_traces=[trace], external_annotations=[]))

    assert profile["memory_events"]["start_ns"].null_count() == len(TRACE)
    assert allocators(profile)["peak_bytes"].to_list() == [13 * MB - 400]
    curve = memory_curve(profile, session=0, place="GPU", device=0, steps=3)
    assert curve.tolist() == [13 * MB - 400, 13 * MB - 400, 7 * MB - 300]


def test_traces_with_only_completed_releases() -> None:
    trace = [event for event in TRACE if event["action"] != "free_requested"]
    profile = read(snapshot(device_traces=[trace]))

    assert allocators(profile).select("peak_bytes", "active_peak_bytes").rows() == [(13 * MB - 400, 13 * MB - 400)]


def test_expandable_segments_grow_and_shrink() -> None:
    trace = [
        event("segment_map", 5000 * MB, 20 * MB, 10),
        event("alloc", 5006 * MB, 4 * MB - 100, 20),
        event("segment_unmap", 5015 * MB, 5 * MB, 30),
        event("user_defined", 0, 7 * MB, 40),
    ]
    profile = read(snapshot(device_traces=[trace], external_annotations=[]))

    # At the end 24 MB are reserved and 7 MB less 300 bytes allocated, as the segments say.
    assert rows(profile, "memory_events", "action", "allocated_bytes", "reserved_bytes") == [
        ("segment_map", 3 * MB - 200, 29 * MB),
        ("alloc", 7 * MB - 300, 29 * MB),
        ("segment_unmap", 7 * MB - 300, 24 * MB),
        ("user_defined", 7 * MB - 300, 24 * MB),
    ]


def test_edited_segments_that_contradict_the_trace_are_reported() -> None:
    profile = read(snapshot(segments=[], external_annotations=[]))

    assert rows(profile, "memory_events", "allocated_bytes")[1:3] == [(6 * MB - 100,), (10 * MB - 200,)]
    reported = [reason for reason in reasons(profile, "warning") if "recorded at different times" in reason]
    assert reported == [
        "the segments have 0 B allocated, the trace more: they were recorded at different times; totals of "
        "allocated memory are from the trace alone",
        "the segments have 0 B active, the trace more: they were recorded at different times; totals of active "
        "memory are from the trace alone",
    ]


def test_segments_that_contradict_their_blocks_are_reported() -> None:
    document = snapshot()
    document["segments"][0]["blocks"] = [block(1000 * MB, 4 * MB, "inactive")]
    document["segments"][2]["blocks"] = [block(9000 * MB, 2 * MB, "inactive")]

    assert reasons(read(document), "warning")[-1] == (
        "the blocks of 2 segments do not add up to their active size: the snapshot was edited or damaged"
    )


def test_a_trace_of_one_event_is_ignored() -> None:
    profile = read(snapshot(device_traces=[TRACE[:1]], external_annotations=[]))

    assert reasons(profile, "info")[0].startswith("no trace was recorded, only the final state of the allocator")


def test_the_oldest_snapshots_have_histories_without_addresses() -> None:
    old = {"size": 2 * MB, "state": "active_allocated", "history": [{"addr": 70, "real_size": 5, "frames": IN_MODEL}]}
    free = {"size": MB, "state": "inactive"}
    segment = {
        "device": 0,
        "address": 64,
        "total_size": 3 * MB,
        "allocated_size": 2 * MB,
        "active_size": 2 * MB,
        "blocks": [old, free],
    }
    profile = read({"segments": [segment], "device_traces": [[]]})

    assert rows(profile, "memory_blocks", "address", "requested_bytes", "call_site") == [
        (70, 5, WHERE_MODEL),
        (70 + 2 * MB, None, None),
    ]
    assert memory_peak(profile).select("size_bytes", "call_site").rows() == [(5, WHERE_MODEL)]


def test_a_list_of_segments_alone_is_a_snapshot() -> None:
    profile = read(snapshot()["segments"])

    assert profile["memory_segments"]["reserved_bytes"].sum() == 26 * MB
    assert reasons(profile)[0].startswith("no trace was recorded, only the final state of the allocator")


def test_an_empty_snapshot_is_reported() -> None:
    reported = reasons(read({"segments": [], "device_traces": [[]]}), "warning")

    assert reported[0].startswith("nothing was recorded: no segments and no events")


def test_a_compressed_snapshot_opens() -> None:
    packed = gzip.compress(pickle.dumps(snapshot()))

    assert load_input("-", stream=io.BytesIO(packed))["memory_events"].height == len(TRACE)


class Harmful:
    """An object that runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_no_code_in_a_pickle_is_run(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    assert pickle.loads(pickle.dumps(Harmful(mark))) == 0
    assert mark.exists()
    mark.unlink()

    for value in (snapshot(extra=Harmful(mark)), snapshot(segments=[Harmful(mark)])):
        with pytest.raises(ProftuiError, match=r"tries to import or call posix\.system; .* none of it was executed"):
            read(value, protocol)
    assert not mark.exists()


def test_only_opcodes_that_build_builtin_values_are_allowed(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark").encode()
    head = b"\x80\x02}U\x08segments]sU\x0ddevice_traces]s0"
    for harm in (
        b"cos\nsystem\n(S'touch " + mark + b"'\ntR.",
        b"(S'touch " + mark + b"'\nios\nsystem\n.",
        b"(cos\nsystem\nS'touch " + mark + b"'\no.",
        b"\x8c\x02os\x8c\x06system\x93(\x8c\x05touch\x85R.",
        b"P1\n.",
        b"\x82\x01.",
        b"c__builtin__\neval\n}U\x01ab.",
    ):
        with pytest.raises(ProftuiError):
            load_input("-", stream=io.BytesIO(head + harm))
    assert not os.path.exists(mark)  # noqa: PTH110


@pytest.mark.parametrize(
    "bomb",
    [
        b"r\xff\xff\xff\xff.",  # room in the memo for four billion values
        b"\x8d" + b"\xff" * 7 + b"\x7f.",
        b"X\xff\xff\xff\x7fa.",
        b"\x8b\xff\xff\xff\x7f1.",
    ],
)
def test_absurd_sizes_take_no_memory(bomb: bytes) -> None:
    head = b"\x80\x02}U\x08segments]"

    tracemalloc.start()
    try:
        assert load_contents([head + bomb]) == []
        assert tracemalloc.get_traced_memory()[1] < 50 * MB
    finally:
        tracemalloc.stop()


def test_repeated_references_are_bounded_by_the_file_size() -> None:
    segment = {"device": 0, "total_size": 1, "allocated_size": 1, "blocks": [block(1, 1)] * 1000}
    value = {"segments": [segment] * 1000, "device_traces": []}

    assert read(value)["memory_blocks"].height <= len(pickle.dumps(value))


def test_repeated_references_to_large_values_take_bounded_memory() -> None:
    blocks = [block(1, 1, frames=[], history=[{}] * 10_000)] * 10_000
    segment = {"device": 0, "total_size": 1, "allocated_size": 1, "blocks": blocks}
    frames = [{"filename": f"/{'d' * 4000}.py", "name": "f" * 4000, "line": 1}] * 10_000
    value = {
        "segments": [{**segment, "blocks": [block(1, 1, frames=frames)]}, *[segment] * 2000],
        "device_traces": [[event("alloc", 1, 1, 1, frames)], *[[event("alloc", 1, 1, 1, [])] * 10_000] * 2000],
    }
    size = len(pickle.dumps(value))
    profile = read(value)
    assert profile["memory_blocks"].height == profile["memory_events"].height == size
    stacks = [profile[name]["stack"][0] for name in ("memory_events", "memory_blocks")]
    assert stacks == [";".join([f"/{'d' * 4000}.py(1): {'f' * 4000}"] * 16)] * 2


def test_outer_frames_of_a_deep_stack_are_omitted() -> None:
    frames = [{"filename": "/a.py", "name": f"f{number}", "line": number + 1} for number in range(1200)]
    stack = read({"segments": [], "device_traces": [[event("alloc", 1, 1, 1, frames)] * 2]})["memory_events"]["stack"]
    assert stack.to_list() == [";".join(f"/a.py({number + 1}): f{number}" for number in range(1000))] * 2


def test_a_truncated_snapshot_keeps_the_data_before_the_cut() -> None:
    content = pickle.dumps(snapshot(device_traces=[TRACE * 50]))
    profile = load_input("-", stream=io.BytesIO(content[: len(content) * 3 // 4]))

    assert profile["memory_segments"].height == 3
    assert 200 < profile["memory_events"].height < 450
    assert "the pickle is truncated or damaged" in profile.partial


def test_another_pickle_is_recognized_by_its_keys() -> None:
    with pytest.raises(ProftuiError, match="no memory snapshot: it contains a dict with 'weights', 'epoch'"):
        read({"weights": [1.0], "epoch": 3})


def test_damaged_snapshots_are_read_or_declined() -> None:
    load_damaged(pickle.dumps(snapshot()), 300, at_least=0.2)


@pytest.mark.parametrize(
    "name", ["cs336_small.pickle", "gpt_forward.pickle", "compile_context.pickle", "msd_expandable.pkl"]
)
def test_peaks_of_real_snapshots(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text("utf-8"))["memory_snapshot"][name]
    profile = load_input(shared_file(f"corpus2/memory_snapshot/{name}"))
    reported = expected["traces"]["0"]

    assert allocators(profile)["active_peak_bytes"].to_list() == [reported["peak_bytes_with_what_was_there_before"]]
    assert memory_peak(profile)["size_bytes"].sum() == reported["peak_bytes_with_what_was_there_before"]
    assert memory_devices(profile).select("reserved_bytes", "allocated_bytes").rows() == [
        (expected["total_size"], expected["allocated_size"])
    ]


def test_two_snapshots_are_compared_by_call_stack(tmp_path: Path) -> None:
    larger = event("alloc", 5006 * MB, 5 * MB - 100, 1_700_000_000_000_020)
    added = event("alloc", 5012 * MB, 2 * MB - 100, 1_700_000_000_000_025, [NATIVE, MODEL])
    later = [*TRACE[:2], larger, added, *TRACE[3:]]
    paths = [tmp_path / "before.pickle", tmp_path / "after.pickle"]
    for path, trace in zip(paths, (TRACE, later), strict=True):
        path.write_bytes(pickle.dumps(snapshot(device_traces=[trace, []]), protocol=4))
    before, after = (load_input(str(path)) for path in paths)
    diff = Diff(two_inputs(before, after))

    changed = diff.table("memory").filter(pl.col("peak_delta_bytes") != 0)
    columns = ("call_site", "device", "change", "b_bytes", "peak_delta_bytes", "delta_pct", "b_allocations")
    assert changed.select(columns).rows() == [
        (WHERE_MODEL, 0, "new", 2 * MB - 100, 2 * MB - 100, None, 1),
        (WHERE_MODEL, 0, "", 11 * MB - 200, MB, 100 * MB / (10 * MB - 200), 2),
    ]
    assert "Memory at the peak (" in diff.as_text(Style(100))
    assert "Allocated at the peak: 15 MiB in the baseline, 18 MiB in the candidate (+20%)." in diff.as_text(Style(100))
    assert "No verdict" not in diff.as_text(Style(100))


def test_the_dashboard_shows_peak_held_memory_largest_stacks_and_failures() -> None:
    assert [(entry.row.label, entry.row.value) for entry in memory_entries(read(snapshot()))] == [
        ("GPU 0 peak (20 µs)", "13 MiB"),
        ("GPU 0 in use, of 24 MiB reserved", "7 MiB"),
        ("GPU 0 free memory, fragmented", "47%"),
        ("GPU 1 in use, of 2 MiB reserved", "2 MiB"),
        ("GPU 0, model.py(7): forward", "10 MiB  77%"),
        ("GPU 0, train.py(3): step", "2 MiB  15%"),
        ("GPU 1, train.py(3): step", "2 MiB  100%"),
        ("Out of memory", "1 time"),
    ]


def test_a_failed_allocation_comes_first_otherwise_the_largest_user() -> None:
    failed = advice(read(snapshot()))
    assert failed.top_findings["rule"].to_list() == ["I8"]
    assert failed.top_findings["problem"].to_list() == [
        "Out of memory 1 time: 900 MiB requested by model.py(7): forward, while 6 MiB of the 24 MiB reserved were in "
        "use."
    ]
    assert failed.guidance == (
        "Start here: Use activation checkpointing, mixed precision, or a smaller batch with gradient accumulation. "
        "Memory lists what was allocated at the peak."
    )
    in_pieces = [{**event, "size": 12 * MB} if event["action"] == "oom" else event for event in TRACE]
    assert advice(read(snapshot(device_traces=[in_pieces, []]))).guidance == (
        "Start here: Free memory was in pieces too small: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
    )
    enough = [event for event in TRACE if event["action"] != "oom"]
    assert advice(read(snapshot(device_traces=[enough, []]))).guidance == (
        "Most memory at the peak: 10 MiB (77%) of 13 MiB, by model.py(7): forward. 1,024 KiB has no call stack. "
        "Memory lists all call sites."
    )


def held(*blocks: dict[str, Any]) -> Profile:
    """Return a snapshot of one GPU with these blocks, without a trace."""
    used = sum(block_["size"] for block_ in blocks)
    sizes = dict.fromkeys(("total_size", "allocated_size", "active_size"), used)
    segment = {**snapshot()["segments"][0], **sizes, "blocks": list(blocks)}
    return read({"segments": [{**segment, "requested_size": used - 100 * len(blocks)}], "device_traces": []})


def test_memory_without_call_stacks_is_told_with_how_to_record_them() -> None:
    nameless, first, second = (
        block(9000 * MB, 4 * MB, frames=[]),
        block(9010 * MB, 3 * MB),
        block(9020 * MB, 2 * MB, frames=[NATIVE, TORCH, TRAIN]),
    )
    record = "torch.cuda.memory._record_memory_history() at the start of the program records call stacks."
    assert advice(held(nameless)).guidance == f"4 MiB is allocated at the end, without call stacks. {record}"
    assert advice(held(nameless, first)).guidance == (
        f"4 MiB of the 7 MiB at the end has no call stack. {record} "
        "The largest known call site: 3 MiB (43%), train.py(3): step."
    )
    assert advice(held(nameless, first, second)).guidance == (
        "Most memory at the end: 5 MiB (56%) of 9 MiB, by train.py(3): step. 4 MiB has no call stack. "
        "Memory lists all call sites."
    )


def test_stacks_of_one_call_site_are_together_on_the_dashboard() -> None:
    op = {"filename": "Operators_3.cpp", "name": "at::_ops::mm::call(at::Tensor const&)", "line": 0}
    caller = {"filename": "engine.cpp", "name": "torch::autograd::Engine::thread_main", "line": 0}
    profile = held(
        block(0, 3 * MB), block(4 * MB, 2 * MB, frames=[NATIVE, TORCH, TRAIN]), block(8 * MB, 2 * MB, frames=[op]),
        block(12 * MB, MB, frames=[op, caller]), block(16 * MB, MB, frames=[caller]), block(20 * MB, MB, frames=[]),
    )  # fmt: skip
    assert memory_peak(profile).height == 6
    sites = peak_by_call_site(profile)
    names = [allocated_by(*row) for row in sites.select("call_site", "stack").rows()]
    assert list(zip(names, sites["size_bytes"], sites["allocations"], sites["largest_bytes"], strict=True)) == [
        ("train.py(3): step", 5 * MB - 200, 2, 3 * MB - 100),
        ("mm (C++, no Python frame)", 3 * MB - 200, 2, 2 * MB - 100),
        ("no Python frame", MB - 100, 1, MB - 100),
        ("call stack not recorded", MB - 100, 1, MB - 100),
    ]
    assert sites["peak_pct"].sum() == pytest.approx(100)


def test_a_report_of_the_dashboard_has_what_is_held_and_the_peak() -> None:
    text = DashboardReport(read(snapshot())).as_text(Style(100))

    assert "Out of memory 1 time: 900 MiB requested by model.py(7): forward" in text
    assert "Memory held at the end\nDev  Reserved  Allocated" in text
    assert "Memory at the peak, by call site\nCall site " in text
    assert "/home/me/model.py(7): forward    0   9.9998 MiB      76.92            2" in text


def test_a_snapshot_without_a_trace_has_no_peak() -> None:
    text = DashboardReport(held(block(0, 3 * MB))).as_text(Style(100))
    assert "Memory at the end, by call site\nCall site " in text
    assert "at the peak" not in text


def test_the_taking_of_the_snapshot_is_no_trace() -> None:
    """A growth of 0 would be a claim about the time before it."""
    taken = {"action": "snapshot", "addr": 0, "size": 24 * MB, "stream": 0}
    profile = read({**snapshot(), "device_traces": [[taken]]})
    assert profile["memory_events"].is_empty()
    assert "no trace was recorded, only the final state of the allocator" in profile["issues"]["reason"][0]
