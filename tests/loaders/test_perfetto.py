"""Perfetto traces: clocks, names by number, pairs of begins and ends, stages of GPU drivers, and damage."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from polars.testing import assert_frame_equal

import tui.loaders.perfetto
import tui.loaders.perfetto_tracks
from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tests.loaders.reading import reasons, rows
from tests.loaders.wire import field, fixed64, message
from tui.cache import spill
from tui.loaders.perfetto import Tracks, learn_tracks, tracks
from tui.loaders.perfetto_tracks import PacketReader, TrackEvents
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.profile import Profile

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
QUEUE, THREAD, COPIES, BYTES, MARKS = 10, 11, 12, 13, 14


def packet(*fields: tuple[int, int | float | str | bytes], sequence: int = 2, flags: int = 2) -> bytes:
    return field(1, message(*fields, (10, sequence), (13, flags)))


def event(
    time: int, kind: int, track: int, *fields: tuple[int, int | float | str | bytes], interned: bytes = b""
) -> bytes:
    body = message((9, kind), (11, track), *fields)
    return packet((8, time), (11, body), *(((12, interned),) if interned else ()))


def note(name: str, value: int) -> tuple[int, bytes]:
    return 4, message((10, name), (3, value))


def track(uuid: int, name: str, parent: int | None = None) -> bytes:
    return packet((60, message((1, uuid), (2, name), *(((5, parent),) if parent else ()))))


NAMES = message(
    (1, message((1, 5), (2, "kernel_dispatch"))),
    (1, message((1, 6), (2, "hip_api"))),
    (2, message((1, 1), (2, "void k<int>(int)"))),
    (2, message((1, 2), (2, "hipLaunchKernel"))),
)

INCREMENTAL = (
    packet((59, message((58, 64))), (58, 6), (8, 1_000_000), flags=1)
    + packet(
        (58, 6),
        (8, 1_000_000),
        (6, message((1, message((1, 6), (2, 1_000_000))), (1, message((1, 64), (2, 77), (3, 1), (4, 10))))),
    )
    + track(QUEUE, "COMPUTE AGENT [1] QUEUE [3] (GPU)")
    + track(THREAD, "THREAD 1 (908)")
    + track(COPIES, "COPY to AGENT [1] THREAD [1] (GPU)")
)
"""A clock that counts tens of nanoseconds from the packet before."""

BODY = (
    event(10, BEGIN, THREAD, (10, 2), (3, 6), note("corr_id", 9), interned=NAMES)
    + event(30, END, THREAD)
    + event(20, BEGIN, QUEUE, (10, 1), (3, 5), note("corr_id", 9), note("workgroup_size", 64), note("grid_size", 640))
    + event(100, END, QUEUE)
    + event(5, BEGIN, COPIES, (23, "MEMORY_COPY_HOST_TO_DEVICE"), (22, "memory_copy"), note("copy_bytes", 4096))
    + event(5, END, COPIES)
)


def read(content: bytes) -> Profile:
    return load_input("-", stream=io.BytesIO(content))


ACTIVITIES = [
    ("kernel", "void k<int>(int)", 500, 1000, 1, 3, 9, None, None),
    ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 1550, 50, 1, 1, None, 4096, "HtoD"),
]
COLUMNS = ("kind", "name", "start_ns", "duration_ns", "device", "stream", "correlation", "size_bytes", "copy_kind")


@pytest.mark.parametrize("title", ["AGENT", "Agent", "GPU"])
def test_titles_of_tracks_depend_on_the_version(title: str) -> None:
    """Newer versions have names of agents in the annotations, too."""
    tracks_ = track(21, f"COMPUTE {title} [1] QUEUE [3] GPU") + track(22, f"COPY to {title} [1] STREAM [4] GPU")
    agent = (4, message((10, "agent"), (6, f"{title}-1")))
    kernel = event(10, BEGIN, 21, (23, "k"), (22, "kernel_dispatch"), agent) + event(9, END, 21)
    copied = event(10, BEGIN, 22, (23, "MEMORY_COPY_HOST_TO_DEVICE"), (22, "memory_copy")) + event(9, END, 22)
    profile = read(INCREMENTAL + tracks_ + kernel + copied)
    assert profile["activities"].select("device", "stream").rows() == [(1, 3), (1, 4)]
    assert profile["sessions"]["tool"].to_list() == ["rocprofv3"]


@pytest.mark.parametrize("size", [30, 200])
def test_a_trace_read_in_chunks_reads_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    later = packet((59, message((58, 64))), (58, 6), (8, 2_000_000), flags=1) + BODY
    content = INCREMENTAL + BODY + field(1, field(50, zlib.compress(BODY + later))) + event(7, COUNTER, MARKS, (30, 4))

    def read_pieces(pieces: list[bytes]) -> tuple[object, ...]:
        reader, events, track_table = PacketReader(), TrackEvents(), Tracks()
        for packets in reader.read(pieces):
            learn_tracks(packets, track_table)
            events.add(packets)
        events.finish()
        slices = events.slices().sort("start_ns", "track").rows()
        counted = (reader.damaged, reader.dropped, events.unclosed, events.orphans, events.kept_rows)
        return slices, events.counters().rows(), events.tracks().rows(), tracks(track_table).rows(), counted

    expected = read_pieces([content])
    monkeypatch.setattr(tui.loaders.protobuf_wire, "_CHUNK_BYTES", size)
    assert read_pieces([content[begin : begin + size] for begin in range(0, len(content), size)]) == expected
    assert len(expected[0]) == 9
    assert expected[-1] == (0, 0, 0, 0, 10)


def test_times_of_an_incremental_clock_and_names_by_number() -> None:
    profile = read(INCREMENTAL + BODY)

    assert rows(profile, "activities", *COLUMNS) == ACTIVITIES
    assert rows(profile, "activities", "arguments")[0] == ("workgroup_size: 64; grid_size: 640",)
    assert rows(profile, "api_calls", "name", "start_ns", "duration_ns", "tid", "correlation") == [
        ("hipLaunchKernel", 0, 300, 908, 9)
    ]
    assert rows(profile, "sessions", "format", "tool") == [("perfetto", "rocprofv3")]
    assert reasons(profile) == []


@pytest.mark.parametrize(("number", "compress"), [(50, zlib.compress), (133, zstandard.compress)])
def test_compressed_packets_read_the_same(number: int, compress: Callable[[bytes], bytes]) -> None:
    content = field(1, field(number, compress(INCREMENTAL))) + field(1, field(number, compress(BODY)))

    profile = read(content)
    assert rows(profile, "activities", *COLUMNS) == ACTIVITIES
    assert reasons(profile) == []


@pytest.mark.parametrize("number", [50, 133])
def test_damaged_compressed_packets_are_reported(number: int) -> None:
    profile = read(INCREMENTAL + BODY + field(1, field(number, b"\x28\xb5\x2f\xfd nonsense")))

    assert rows(profile, "activities", *COLUMNS) == ACTIVITIES
    assert reasons(profile) == ["the file is truncated or damaged: 1 incomplete message"]


@pytest.mark.parametrize(("number", "compress"), [(50, zlib.compress), (133, zstandard.compress)])
def test_truncated_compressed_packets_are_reported(number: int, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(INCREMENTAL + BODY)
    profile = read(INCREMENTAL + BODY + field(1, field(number, packed[: len(packed) // 2])))

    assert rows(profile, "activities", *COLUMNS)[: len(ACTIVITIES)] == ACTIVITIES
    assert "the file is truncated or damaged: " in reasons(profile)[0]


@pytest.mark.parametrize(
    "flow",
    [
        (fixed64(47, 1 << 60), fixed64(48, 1 << 60)),
        (field(36, 7), field(42, 7)),
    ],
)
def test_a_flow_leads_from_a_call_to_the_kernel_that_it_launched(flow: tuple[bytes, bytes]) -> None:
    def joined(
        time: int, kind: int, track: int, *fields: tuple[int, int | float | str | bytes], by: bytes = b""
    ) -> bytes:
        return packet((8, time), (11, message((9, kind), (11, track), *fields) + by))

    content = (
        INCREMENTAL
        + joined(10, BEGIN, THREAD, (23, "hipLaunchKernel"), (22, "hip_api"), by=flow[0])
        + joined(30, END, THREAD)
        + joined(20, BEGIN, QUEUE, (23, "k"), (22, "kernel_dispatch"), by=flow[1])
        + joined(100, END, QUEUE)
        + joined(5, BEGIN, QUEUE, (23, "other"), (22, "kernel_dispatch"))
        + joined(5, END, QUEUE)
    )
    profile = read(content)

    assert rows(profile, "activities", "name", "correlation") == [("k", 1), ("other", None)]
    assert rows(profile, "api_calls", "name", "correlation") == [("hipLaunchKernel", 1)]


def test_an_absolute_time_between_increments_does_not_change_them() -> None:
    absolute = packet((58, 6), (8, 1_000_400), (11, message((9, INSTANT), (11, THREAD), (23, "mark"))))
    profile = read(INCREMENTAL + absolute + BODY)

    assert rows(profile, "activities", *COLUMNS) == ACTIVITIES
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns") == [("mark", 300, 0)]


def test_times_in_the_fields_of_a_slice_are_used() -> None:
    known = event(10, BEGIN, QUEUE, (23, "k"), note("begin_ns", 2_000_000), note("end_ns", 2_000_700))
    profile = read(INCREMENTAL + known + event(999, END, QUEUE))

    assert rows(profile, "activities", "name", "duration_ns") == [("k", 700)]


def test_names_of_a_cleared_or_missing_state_are_not_used() -> None:
    late_packets = (
        packet((59, message((58, 6))), (8, 5), flags=1)
        + event(9_000_000, BEGIN, QUEUE, (10, 1))
        + event(9_000_100, END, QUEUE)
    )
    lost = packet((8, 1), (11, message((9, BEGIN), (11, QUEUE), (10, 1))), sequence=9)
    profile = read(INCREMENTAL + BODY + late_packets + lost)

    assert rows(profile, "activities", "name", "duration_ns")[-1] == (None, 100)
    assert reasons(profile, "warning") == ["1 packet without its interned name skipped"]


def test_names_are_those_of_the_sequence_of_an_event() -> None:
    texts = [(2, message((1, number), (2, "name of another sequence"))) for number in (1, 2)]
    profile = read(packet((12, message(*texts)), sequence=9, flags=1) + INCREMENTAL + BODY)

    assert rows(profile, "activities", *COLUMNS) == ACTIVITIES


def test_unmatched_begins_and_ends_are_reported() -> None:
    events = (
        event(10, END, QUEUE)
        + event(10, BEGIN, QUEUE, (23, "outer"))
        + event(1, BEGIN, QUEUE, (23, "inner"))
        + event(5, END, QUEUE)
    )
    profile = read(INCREMENTAL + events)

    assert rows(profile, "activities", "name", "duration_ns") == [("inner", 50)]
    assert reasons(profile, "warning") == [
        "1 slice without an end skipped",
        "1 slice end without a begin skipped",
    ]


def test_events_of_packets_without_a_timestamp_are_reported() -> None:
    """Old traces of Chrome have the time of an event within the event, as an increment."""
    untimed = packet((11, message((1, 70), (9, BEGIN), (11, QUEUE), (23, "untimed"))))
    profile = read(INCREMENTAL + untimed + event(1, BEGIN, QUEUE, (23, "inner")) + event(5, END, QUEUE))

    assert rows(profile, "activities", "name", "duration_ns") == [("inner", 50)]
    assert reasons(profile, "warning") == ["1 event without a timestamp skipped"]


def test_tracks_within_tracks_are_named_by_their_path() -> None:
    content = packet((59, message((58, 6))), flags=1) + track(1, "Hostname n0") + track(2, "Process 5", 1)
    content += track(3, "Device 1 | Subdevice 0", 2) + track(4, "Thread 5", 2)
    content += event(100, BEGIN, 4, (23, "zeCommandListAppendLaunchKernel")) + event(130, END, 4)
    content += (
        event(200, BEGIN, 3, (23, "gemm")) + event(260, END, 3) + event(10, BEGIN, 4, (23, "step")) + event(300, END, 4)
    )
    profile = read(content)

    assert rows(profile, "activities", "name", "duration_ns", "device") == [("gemm", 60, 1)]
    assert rows(profile, "api_calls", "name", "duration_ns", "tid") == [("zeCommandListAppendLaunchKernel", 30, 5)]
    assert rows(profile, "ranges", "name", "duration_ns") == [("step", 290)]


def test_counters_are_metrics() -> None:
    samples = b"".join(packet((8, time), (11, message((9, COUNTER), (11, BYTES), (30, time)))) for time in (2, 8, 5))
    double_sample = packet((8, 9), (11, message((9, COUNTER), (11, BYTES), (44, 1.5))))
    head = message((1, message((1, 7), (2, "GPU Frequency"), (3, "clock speed"))))
    gpu = packet(
        (8, 1), (52, message((1, head), (2, message((1, 7), (2, 900))), (2, message((1, 7), (3, 1100.0))), (3, 1)))
    )
    profile = read(INCREMENTAL + track(BYTES, "COPY BYTES") + samples + double_sample + gpu)

    assert rows(profile, "metrics", "device", "metric", "description", "invocations", "min", "max", "avg") == [
        (None, "COPY BYTES", None, 4, 1.5, 8.0, 4.125),
        ("GPU 1", "GPU Frequency", "clock speed", 2, 900.0, 1100.0, 1000.0),
    ]


def test_stages_of_a_gpu_driver_are_activities() -> None:
    names = message(
        (23, message((1, 1), (2, 100), (3, 4))),
        (24, message((1, 1), (2, "Compute Queue"))),
        (24, message((1, 2), (2, "Kernel"))),
        (1000, message((1, 1), (2, "_Z3addPf"), (3, "add(float*)"))),
    )
    shape = message((1, message((1, 256), (2, 2), (3, 1))), (2, message((1, 128), (2, 1), (3, 1))))
    kernel = message((2, 50), (5, 1), (11, 2), (13, 1), (14, 2), (19, 1), (21, shape))
    stage = message((2, 10), (13, 1), (14, 2))
    content = packet((8, 0), (12, names), flags=1) + packet((8, 100), (53, kernel)) + packet((8, 300), (53, stage))
    profile = read(content)

    columns = ("name", "start_ns", "duration_ns", "device", "stream", "grid_x", "grid_y", "block_x")
    assert rows(profile, "activities", *columns) == [
        ("add(float*)", 0, 50, 2, 1, 256, 2, 128),
        ("Kernel", 200, 10, 0, 1, None, None, None),
    ]


TORCH = message(
    *(
        (2, message((1, at), (2, name)))
        for at, name in enumerate(("ProfilerStep#1", "aten::mm", "cudaLaunchKernel"), 1)
    ),
    (2, message((1, 4), (2, "cudaGraphLaunch"))),
    *((1, message((1, at), (2, name))) for at, name in enumerate(("user_annotation", "cpu_op", "cuda_runtime"), 1)),
    *((24, message((1, at), (2, name))) for at, name in ((1, "Kernel"), (2, "Memcpy"), (4, "Annotation"))),
    (24, message((1, 100), (2, "[07] stream 7"))),
    (1000, message((1, 1), (3, "gemm(float*)"))),
    (1001, message((1, 1), (2, "registers_per_thread"))),
    (1001, message((1, 2), (2, "shared_mem_dynamic"))),
    (47, message((1, 1), (2, message((1, message((1, 0), (2, "Power (W)"))))), (3, 1))),
)


def slices(*given: tuple[int, int, int, tuple[tuple[int, int | str | bytes], ...]]) -> bytes:
    """Return slices (begin, end, track, further fields) as PyTorch writes them: all begins, then all ends in order."""
    begins = (event(begin, BEGIN, track, *more) for begin, _, track, more in given)
    return b"".join((*begins, *(event(end, END, track) for _, end, track, _ in given)))


def stage(
    time: int, duration: int, event_id: int, number: int, *more: tuple[int, int | bytes], **facts: object
) -> bytes:
    extra = ((6, message((1, name.replace("_", " ")), (2, str(value)))) for name, value in facts.items())
    return packet(
        (8, time), (53, message((1, event_id), (2, duration), (11, 1), (13, 100), (14, number), *more, *extra))
    )


def test_traces_of_pytorch_have_ops_launches_and_counters() -> None:
    arguments = ((3, message((1, 1), (4, 64))), (3, message((1, 2), (4, 2048))))
    shape = message((1, message((1, 8), (2, 4), (3, 1))), (2, message((1, 128), (2, 1), (3, 1))), *arguments)
    content = packet((12, TORCH), flags=1) + packet((60, message((1, 1), (3, message((1, 42), (6, "python"))))))
    content += packet((60, message((1, 2), (5, 1), (4, message((1, 42), (2, 43), (5, "thread 43"))))))
    content += packet((60, message((1, 3), (3, message((1, 1), (6, "GPU 1"))))))
    content += packet((60, message((1, 4), (5, 3), (4, message((1, 1), (2, 7), (5, "stream 7"))))))
    content += slices(
        (0, 9000, 2, ((10, 1), (3, 1))), (100, 900, 2, ((10, 2), (3, 2))), (1000, 1900, 2, ((10, 2), (3, 2)))
    )
    launch = (3000, message((1, 1))), note("correlation", 11)
    replay = (3000, message((1, 2), (1, 3))), note("correlation", 12)
    content += slices((200, 300, 2, ((10, 3), (3, 3), *launch)), (1200, 1300, 2, ((10, 4), (3, 3), *replay)))
    content += slices((500, 3000, 4, ((23, "Stream Sync"),)))
    content += stage(400, 100, 1, 1, (19, 1), (21, shape), stream_id=7, correlation=11)
    content += stage(1400, 50, 2, 1, (19, 1)) + stage(1500, 60, 3, 2, (17, b"Memcpy DtoH"), bytes=4096)
    content += stage(400, 1160, 4, 4, (17, b"forward"))
    values = (
        packet((8, time), (52, message((4, 1), (2, message((1, 0), (3, value))))))
        for time, value in ((1, 90.0), (9, 110.0))
    )
    profile = read(
        content + b"".join(values) + packet((128, message((1, message((1, "A100"))), (1, message((1, "H100"))))))
    )

    assert rows(profile, "sessions", "tool", "framework", "iteration_source") == [
        ("PyTorch profiler", "PyTorch", "PyTorch's ProfilerStep")
    ]
    assert rows(profile, "activities", *COLUMNS, "registers", "dynamic_shared_bytes", "grid_y", "op") == [
        ("kernel", "gemm(float*)", 400, 100, 1, 7, 11, None, None, 64, 2048, 4, 0),
        ("kernel", "gemm(float*)", 1400, 50, 1, 7, 12, None, None, None, None, None, 1),
        ("memcpy", "Memcpy DtoH", 1500, 60, 1, 7, 12, 4096, "DtoH", None, None, None, 1),
    ]
    assert rows(profile, "api_calls", "name", "start_ns", "duration_ns", "tid", "correlation") == [
        ("cudaLaunchKernel", 200, 100, 43, 11),
        ("cudaGraphLaunch", 1200, 100, 43, 12),
    ]
    assert rows(profile, "ops", "name", "start_ns", "duration_ns", "iteration") == [
        ("aten::mm", 100, 800, 1),
        ("aten::mm", 1000, 900, 1),
    ]
    assert rows(profile, "ranges", "name") == [("ProfilerStep#1",), ("aten::mm",), ("aten::mm",)]
    assert rows(profile, "metrics", "device", "metric", "invocations", "avg") == [("GPU 1", "Power (W)", 2, 100.0)]
    assert rows(profile, "devices", "device", "name") == [(0, "A100"), (1, "H100")]
    assert reasons(profile) == []


def test_traces_of_kineto_have_a_process_for_each_gpu() -> None:
    content = packet((60, message((1, 1), (2, "python [GPU 1]"), (3, message((1, 1))))), flags=1)
    content += packet((60, message((1, 2), (2, "stream 7 "), (5, 1), (4, message((1, 1), (2, 7))))))
    content += packet((60, message((1, 3), (2, "thread 43"), (4, message((1, 42), (2, 43))))))
    content += track(5, "stream 7 ", 2) + track(6, "thread 43", 3) + track(7, "thread 43", 3)
    content += event(0, BEGIN, 6, (23, "aten::mm")) + event(90, END, 6)
    content += event(20, BEGIN, 7, (23, "cudaLaunchKernel"), note("correlation_id", 11)) + event(30, END, 7)
    content += event(50, BEGIN, 5, (23, "gemm"), note("correlation_id", 11)) + event(80, END, 5)
    profile = read(content)

    assert rows(profile, "activities", *COLUMNS[:7], "op") == [("kernel", "gemm", 50, 30, 1, 7, 11, 0)]
    assert rows(profile, "api_calls", "name", "duration_ns", "tid") == [("cudaLaunchKernel", 10, 43)]


def test_gpu_api_calls_are_recognized_by_the_api_or_by_submitted_work() -> None:
    content = (
        packet(flags=1)
        + event(0, BEGIN, 1, (23, "vkQueueSubmit"), (22, "gpu"), (3001, 2), (3000, message((1, 5))))
        + event(9, END, 1)
    )
    content += event(20, BEGIN, 1, (23, "cuCtxSynchronize"), (22, "cuda"), note("correlation_id", 3)) + event(
        29, END, 1
    )
    content += event(30, BEGIN, 1, (23, "cuda warm-up"), (22, "cuda")) + event(39, END, 1)
    content += packet((8, 4), (53, message((1, 5), (2, 3), (17, "MemoryTransfer"))))
    profile = read(content)

    assert rows(profile, "api_calls", "name", "correlation") == [("vkQueueSubmit", 5), ("cuCtxSynchronize", 3)]
    assert rows(profile, "ranges", "name") == [("cuda warm-up",)]
    assert rows(profile, "activities", "kind", "start_ns", "correlation") == [("memcpy", 4, 5)]


def test_begins_and_ends_that_are_out_of_order_are_paired_by_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = ((0, 100), (10, 40), (50, 90), (60, 70))
    begins = b"".join(event(begin, BEGIN, 1, (23, f"at {begin}")) for begin, _ in nested)
    backwards = begins + b"".join(event(end, END, 1) for _, end in sorted(nested, key=lambda times: -times[1]))
    backwards += event(200, BEGIN, 1, (23, "open"))
    expected = [(f"at {begin}", begin, end - begin) for begin, end in nested]
    same_order = slices(*((begin, end, 1, ((23, f"at {begin}"),)) for begin, end in nested))

    for content, problems in ((packet(flags=1) + backwards, 1), (packet(flags=1) + same_order, 0)):
        for limit in (1, 1 << 18):
            monkeypatch.setattr(tui.loaders.perfetto_tracks, "_MAX_OPEN", limit)
            profile = read(content)
            assert sorted(rows(profile, "ranges", "name", "start_ns", "duration_ns"), key=str) == sorted(
                expected, key=str
            )
            assert len([reason for reason in reasons(profile) if "without an end" in reason]) == problems


def test_a_trace_without_events_is_declined() -> None:
    with pytest.raises(ProftuiError, match="a Perfetto trace without events"):
        read(track(1, "main") + packet((8, 5), (36, fixed64(1, 2))))


def test_a_truncated_trace_keeps_the_events_before_the_cut() -> None:
    profile = read((INCREMENTAL + BODY)[:-30])

    assert profile["activities"].height == 1
    assert any(reason.startswith("the file is truncated or damaged") for reason in reasons(profile, "error"))


def test_damaged_traces_are_read_or_declined() -> None:
    for content in (INCREMENTAL + BODY, field(1, field(50, zlib.compress(INCREMENTAL + BODY)))):
        load_damaged(content, 40, at_least=0, format_in="perfetto")
    load_damaged(INCREMENTAL + BODY, 60)


def test_decompression_stops_at_the_size_limit() -> None:
    bomb = zlib.compress(bytes(1 << 26), 9)
    content = INCREMENTAL + BODY + field(1, field(50, bomb))

    assert rows(read(content), "activities", *COLUMNS) == ACTIVITIES


@pytest.mark.parametrize("name", ["made_rocprofv3", "made_rocprofv3_compressed", "made_thapi", "gpu_compute_kernel"])
def test_row_counts_of_real_traces(name: str) -> None:
    known = json.loads(Path(shared_file("corpus2/expected.json")).read_text("utf-8"))["perfetto"][f"{name}.pftrace"]
    profile = load_input(shared_file(f"corpus2/perfetto/{name}.pftrace"))

    counted = known["slices"] + known["render_stage_events"]
    frames = [profile[frame] for frame in ("activities", "api_calls", "ranges")]
    assert sum(frame.height for frame in frames) == counted
    total = sum(category["total_ns"] for category in known["by_category"].values()) + known["render_stage_total_ns"]
    assert sum(frame["duration_ns"].sum() for frame in frames) == total


def test_names_after_lost_packets_are_unknown_until_the_state_is_cleared() -> None:
    known = packet((8, 0), (59, message((58, 6))), (12, NAMES), flags=1) + track(
        QUEUE, "COMPUTE AGENT [1] QUEUE [3] (GPU)"
    )
    kernel = event(100, BEGIN, QUEUE, (10, 1), (3, 5)) + event(150, END, QUEUE)
    lost = packet((8, 160), (42, 1), (11, message((9, BEGIN), (11, QUEUE), (10, 1))))
    ended = event(170, END, QUEUE)
    # Field 41 clears the state in older traces.
    cleared = packet((8, 200), (41, 1), (42, 1), (12, NAMES), flags=0)
    profile = read(
        known + kernel + lost + ended + cleared + event(300, BEGIN, QUEUE, (10, 1), (3, 5)) + event(320, END, QUEUE)
    )

    assert rows(profile, "activities", "name", "start_ns", "duration_ns") == [
        ("void k<int>(int)", 0, 50),
        ("void k<int>(int)", 200, 20),
    ]
    assert reasons(profile, "warning") == ["2 packets without their interned names skipped"]


def snapshot(*clocks: tuple[int, int], primary: int | None = None, sequence: int = 2) -> bytes:
    clock_messages = tuple((1, message((1, clock), (2, time))) for clock, time in clocks)
    return packet((6, message(*clock_messages, *(((2, primary),) if primary else ()))), sequence=sequence, flags=0)


@pytest.mark.parametrize("sequence", [2, 7])
def test_clocks_are_global_or_of_a_sequence(sequence: int) -> None:
    marks = b"".join(
        packet((8, time), (58, clock), (11, message((9, INSTANT), (11, MARKS), (23, f"clock {clock}"))), flags=0)
        for clock, time in ((6, 1_000), (3, 550), (130, 70), (65, 20))
    )
    # Clocks from 64 to 127 are of the sequence that tells them alone: of another one, their times stay as they are.
    profile = read(snapshot((6, 1_000), (3, 500), (130, 50), (65, 10), sequence=sequence) + marks)

    sequence_start = 1_010 if sequence == 2 else 20
    assert sorted(rows(profile, "ranges", "name", "start_ns")) == [
        ("clock 130", 1_020 - min(sequence_start, 1_000)),
        ("clock 3", 1_050 - min(sequence_start, 1_000)),
        ("clock 6", 1_000 - min(sequence_start, 1_000)),
        ("clock 65", sequence_start - min(sequence_start, 1_000)),
    ]


def test_a_trace_can_have_another_clock_than_the_boot_clock() -> None:
    marks = b"".join(
        packet((8, time), (58, clock), (11, message((9, INSTANT), (11, MARKS), (23, f"clock {clock}"))), flags=0)
        for clock, time in ((3, 1_500), (1, 90_700))
    )
    profile = read(snapshot((3, 1_000), (1, 90_000), primary=3) + marks)

    assert rows(profile, "ranges", "name", "start_ns") == [("clock 3", 0), ("clock 1", 200)]


def test_counters_have_units_multipliers_and_increments() -> None:
    def counter(uuid: int, name: str, *facts: tuple[int, int | str]) -> bytes:
        return packet((60, message((1, uuid), (2, name), (8, message(*facts)))))

    content = (
        counter(20, "HBM", (3, 3), (4, 1024)) + counter(21, "read", (3, 3), (5, 1)) + counter(22, "busy", (6, "%"))
    )
    content += b"".join(
        packet((8, time), (11, message((9, COUNTER), (11, uuid), (30, value))))
        for time, uuid, value in ((1, 20, 2), (2, 20, 4), (1, 21, 10), (2, 21, 30), (3, 21, 5), (1, 22, 50))
    )
    spec = message(
        (1, message((1, 7), (2, "GPU busy"), (7, 37))), (1, message((1, 8), (2, "DRAM read"), (7, 7), (8, 22)))
    )
    content += packet((8, 1), (52, message((1, spec), (2, message((1, 7), (2, 80))), (2, message((1, 8), (2, 900))))))
    profile = read(packet((59, message((58, 6))), flags=1) + content)

    assert rows(profile, "metrics", "metric", "unit", "invocations", "min", "max", "avg") == [
        ("HBM", "B", 2, 2048.0, 4096.0, 3072.0),
        ("read", "B", 3, 10.0, 45.0, 95 / 3),
        ("busy", "%", 1, 50.0, 50.0, 50.0),
        ("GPU busy", "%", 1, 80.0, 80.0, 80.0),
        ("DRAM read", "B/s", 1, 900.0, 900.0, 900.0),
    ]


def test_stages_of_older_drivers_are_declared_once() -> None:
    queues, stages = (message((1, "vertex queue")), message((1, "fragment queue"))), (message((1, "binning")),)
    specs = message(*((2, queue) for queue in queues), *((3, stage) for stage in stages))
    content = packet((8, 0), (53, message((7, specs))), flags=0)
    content += packet((8, 100), (53, message((1, 1), (2, 10), (3, 1), (4, 0))), sequence=9, flags=0)
    content += packet((8, 200), (53, message((1, 2), (2, 20), (3, 5), (4, 3))), flags=0)
    profile = read(content)

    assert rows(profile, "activities", "name", "arguments", "stream", "start_ns", "duration_ns") == [
        ("binning", "queue: fragment queue", 1, 0, 10),
        (None, None, 5, 100, 20),
    ]


def test_events_of_the_older_kind_have_phases() -> None:
    def old_event(time: int, phase: str, *arguments: tuple[int, int]) -> bytes:
        return packet((8, time), (11, message((11, MARKS), (6, message((1, 1), (2, ord(phase)), *arguments)))))

    names = packet((8, 0), (12, message((2, message((1, 1), (2, "step"))))), flags=1)
    profile = read(
        names + old_event(1_000, "X", (3, 7)) + old_event(20_000, "B") + old_event(20_500, "E") + old_event(30_000, "I")
    )

    assert sorted(rows(profile, "ranges", "name", "start_ns", "duration_ns")) == [
        ("step", 0, 7000),
        ("step", 19_000, 500),
        ("step", 29_000, 0),
    ]


def test_nested_annotations_do_not_belong_to_the_slice() -> None:
    inner = (4, message((10, "args"), (11, message((10, "corr_id"), (3, 5))), (12, message((3, 6)))))
    text = (4, message((10, "copy_bytes"), (6, "4096")))
    content = (
        INCREMENTAL + event(10, BEGIN, QUEUE, (23, "k"), (22, "kernel_dispatch"), inner, text) + event(20, END, QUEUE)
    )
    profile = read(content)

    assert rows(profile, "activities", "name", "correlation", "size_bytes") == [("k", None, 4096)]
    assert reasons(profile) == []


def test_a_large_trace_on_disk_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    content = INCREMENTAL + BODY * 3 + event(7, COUNTER, BYTES, (30, 4))
    expected = read(content)
    monkeypatch.setattr(spill._Memory, "is_low", True)
    for module, name, size in (
        (tui.loaders.protobuf_wire, "_CHUNK_BYTES", 200),
        (tui.loaders.perfetto, "_BLOCK_ROWS", 2),
        (spill, "_PIECE_ROWS", 1),
        (spill, "_AT_ONCE", 1),
        (spill, "MIN_BYTES", 1),
    ):
        monkeypatch.setattr(module, name, size)
    profile = read(content)

    for frame in ("sessions", "activities", "api_calls", "ops", "ranges", "metrics", "issues"):
        assert_frame_equal(profile[frame], expected[frame])
    assert expected["activities"].height == 6


@pytest.mark.parametrize("text", ["\n\tPaR@xyzQ \n", "\n\nP1@23R 4Z \n"])
def test_a_text_after_a_blank_line_is_no_trace(text: str) -> None:
    with pytest.raises(ProftuiError, match="no profile found; it begins with"):
        load_input("-", stream=io.BytesIO(text.encode()))
