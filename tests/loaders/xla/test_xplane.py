"""XSpaces of XLA's profiler: planes, stats and names by number, and reports of damage."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tui.correlation.nesting
import tui.loaders.protobuf_wire
import tui.loaders.xplane
from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tests.loaders.reading import reasons, rows
from tests.loaders.wire import field, message
from tui.cache import spill
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

STATS = (
    *(
        "correlation_id",
        "kernel_details",
        "memcpy_details",
        "hlo_op",
        "hlo_module",
        "context_id",
        "group_id",
        "step_num",
    ),
    *("tf_op", "annotation", "device_vendor", "core_count", "memory_size", "compute_cap_major", "compute_cap_minor"),
    *("memory_bandwidth", "profile_start_time", "gpu_device_name"),
)
"""Stat n has the number n + 1; texts that stats refer to follow."""


class Plane:
    """A plane of an XSpace under construction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: list[str] = []
        self.texts = list(STATS)
        self.lines: list[bytes] = []
        self.own = b""
        self.types: dict[str, bytes] = {}

    def stat(self, name: str, value: int | float | str, *, ref: bool = False) -> bytes:
        """Return a stat; a text can be written as the number of a name."""
        number = (1, STATS.index(name) + 1)
        if isinstance(value, str) and ref:
            if value not in self.texts:
                self.texts.append(value)
            return message(number, (7, self.texts.index(value) + 1))
        kind = 5 if isinstance(value, str) else 2 if isinstance(value, float) else 4 if value < 0 else 3
        return message(number, (kind, value))

    def event(self, name: str, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
        if name not in self.names:
            self.names.append(name)
        number = self.names.index(name) + 100
        return message((1, number), (2, offset_ps), (3, duration_ps), *((4, stat) for stat in stats))

    def line(self, name: str, at_ns: int, *events: bytes, number: int = 7) -> None:
        self.lines.append(message((1, number), *((4, event) for event in events), (2, name), (3, at_ns)))

    def content(self) -> bytes:
        types = (
            message((1, n + 100), (2, message((1, n + 100), (2, name)) + self.types.get(name, b"")))
            for n, name in enumerate(self.names)
        )
        texts = (message((1, n + 1), (2, message((1, n + 1), (2, text)))) for n, text in enumerate(self.texts))
        parts = [
            (2, self.name),
            *((3, line) for line in self.lines),
            *((4, entry) for entry in types),
            *((5, entry) for entry in texts),
        ]
        return message(*parts) + self.own


def gpu() -> Plane:
    """Return a kernel, a copy and a kernel, and two lines that repeat them."""
    plane = Plane("/device:GPU:1")
    details = "regs:16 static_shared:64 dynamic_shared:0 grid:30,2,1 block:256,1,1 occ_pct:50"
    of_kernel = (plane.stat("kernel_details", details, ref=True), plane.stat("hlo_op", "fusion.3", ref=True))
    module = plane.stat("hlo_module", "jit_step")
    first = plane.event("void k<int>(int)", 1_000_500, 2_000_000, *of_kernel, module, plane.stat("correlation_id", 11))
    copy = plane.event(
        "MemcpyH2D",
        4_000_000,
        500_000,
        plane.stat("memcpy_details", "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"),
    )
    plane.types["void k<int>(int)"] = field(5, plane.stat("tf_op", "model/dense:MatMul", ref=True))
    last = plane.event("void k<int>(int)", 9_000_000, 1_000_400, *of_kernel, module, plane.stat("correlation_id", -12))
    plane.line("Stream #14(Compute)", 1000, first, last)
    plane.line("Stream #15(MemcpyH2D)", 1000, copy)
    plane.line("XLA Ops", 1000, plane.event("fusion.3", 1_000_000, 8_000_000))
    facts = (("device_vendor", "Nvidia"), ("core_count", 132), ("memory_size", 1 << 36), ("compute_cap_major", 9),
             ("compute_cap_minor", 0), ("memory_bandwidth", 4_000_000_000))  # fmt: skip
    plane.own = b"".join(field(6, plane.stat(name, value)) for name, value in facts)
    plane.own += field(6, plane.stat("gpu_device_name", "NVIDIA H100", ref=True))
    return plane


def host() -> Plane:
    plane = Plane("/host:CPU")
    launches = [
        plane.event("void k<int>(int)", time * 1000, 300_000, plane.stat("correlation_id", number))
        for time, number in ((500, 11), (5000, -12))
    ]
    plane.line("main", 1000, plane.event("train", 0, 9_000_000), *launches, plane.event("$a.py:1 f", 0, 10), number=-5)
    return plane


def space(*planes: Plane, more: bytes = b"") -> bytes:
    return b"".join(field(1, plane.content()) for plane in planes) + more


def environment() -> Plane:
    plane = Plane("Task Environment")
    plane.own = field(6, plane.stat("profile_start_time", 1_700_000_000_000_000_000))
    return plane


def read(content: bytes) -> Profile:
    return load_input("-", stream=io.BytesIO(content))


WHOLE = space(host(), gpu(), environment(), more=field(4, "node-3") + field(3, "dropped 5 events"))


def test_activities_are_from_streams_not_derived_lines() -> None:
    profile = read(WHOLE)

    columns = (
        "kind",
        "name",
        "start_ns",
        "duration_ns",
        "device",
        "stream",
        "correlation",
        "registers",
        "size_bytes",
        "copy_kind",
    )
    assert rows(profile, "activities", *columns) == [
        ("kernel", "void k<int>(int)", 2001, 2000, 1, 14, 11, 16, None, None),
        ("memcpy", "MemcpyH2D", 5000, 500, 1, 15, None, None, 4096, "HtoD"),
        ("kernel", "void k<int>(int)", 10_000, 1000, 1, 14, -12, 16, None, None),
    ]
    assert rows(profile, "activities", "grid_x", "grid_y", "block_x", "static_shared_bytes")[0] == (30, 2, 256, 64)
    assert rows(profile, "ops", "op_id", "name", "op_type", "group") == [
        ("fusion.3", "dense", "MatMul", "jit_step/model")
    ]
    assert rows(profile, "api_calls", "name", "start_ns", "tid", "correlation") == [
        ("[kernel launch]", 1500, -5, 11),
        ("[kernel launch]", 6000, -5, -12),
    ]
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns") == [("train", 1000, 9000)]


def test_facts_of_the_gpu_the_host_and_the_profiler() -> None:
    profile = read(WHOLE)

    facts = ("device", "name", "compute_capability", "sm_count", "memory_bytes", "memory_bandwidth")
    assert rows(profile, "devices", *facts) == [(1, "NVIDIA H100", "9.0", 132, 1 << 36, 4e9)]
    assert rows(profile, "sessions", "format", "host", "origin_ns") == [("xplane", "node-3", 1_700_000_000_000_000_000)]
    assert profile["issues"].filter(severity="warning").select("text", "reason").rows() == [
        ("dropped 5 events", "reported by the profiler")
    ]


def test_steps_are_the_groups_of_the_line_steps() -> None:
    plane = gpu()
    group = plane.stat("group_id", 40)
    details = plane.stat("kernel_details", "regs:1 grid:1,1,1 block:1,1,1")
    plane.line("Stream #16(Compute)", 1000, plane.event("late", 20_000_000, 1000, details, group))
    plane.line("Steps", 1000, plane.event("7", 1_000_000, 2_000_000, group), plane.event("8", 4_000_000, 2_000_000))
    profile = read(space(plane))

    assert profile["activities"].filter(name="late")["iteration"].to_list() == [7]


def test_a_tpu_alone_is_shown_as_ranges() -> None:
    plane = Plane("/device:TPU:0")
    plane.line("XLA Ops", 100, plane.event("fusion.1", 5_000, 7_000))
    profile = read(space(plane))

    assert rows(profile, "ranges", "name", "domain", "start_ns", "duration_ns") == [
        ("fusion.1", "TPU:0 XLA Ops", 105, 7)
    ]
    assert reasons(profile, "info") == ["the file has no GPU: work on other accelerators (TPU) is shown as ranges"]


def test_a_space_copied_as_text_is_declined() -> None:
    broken = WHOLE.decode("utf-8", "replace").encode() + "\N{REPLACEMENT CHARACTER}".encode() * 100

    with pytest.raises(ProftuiError, match="damaged by a text-mode copy"):
        read(broken)


def test_a_truncated_space_keeps_the_data_before_the_cut() -> None:
    profile = read(space(host(), gpu())[:-40])

    assert profile["api_calls"].height == 2
    assert "the file is truncated or damaged" in " ".join(reasons(profile, "error"))


def test_negative_durations_are_reported() -> None:
    cpu, device = host(), gpu()
    cpu.line("worker", 1000, cpu.event("a", 0, -1_000_000), cpu.event("b", 2_000_000, 3_000_000))
    device.line("Stream #16(Compute)", 1000, device.event("void h()", 0, -2_000_000))
    profile = read(space(cpu, device))

    assert rows(profile, "ranges", "name", "duration_ns") == [("train", 9000), ("b", 3000)]
    assert rows(profile, "activities", "name", "duration_ns")[0] == ("void h()", None)
    assert reasons(profile, "warning") == [
        "1 CPU event skipped: negative duration",
        "GPU activities with an implausible duration (negative or too long), shown as unknown: 1",
    ]


def test_the_space_is_preferred_to_the_trace_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(WHOLE)
    (tmp_path / "host.trace.json.gz").write_bytes(b"not read")

    profile = load_input(str(tmp_path))

    assert profile["sessions"]["format"].to_list() == ["xplane"]
    assert reasons(profile, "error") == []


def test_a_cpu_line_without_a_time_is_skipped_beside_lines_in_unix_time() -> None:
    unix_ns = 1_700_000_000_000_000_000
    plane = Plane("/host:CPU")
    plane.line("main", unix_ns, plane.event("train", 0, 9_000_000), plane.event("step", 1_000_000, 2_000_000))
    plane.line("idle", 0, plane.event("idle", 0, 1_000_000), number=8)
    kernels = Plane("/device:GPU:0")
    kernels.line("Stream #14(Compute)", unix_ns, kernels.event("f", 4_000_000, 1_000_000))
    profile = read(space(plane, kernels))
    assert rows(profile, "ranges", "name", "start_ns", "duration_ns", "depth") == [
        ("train", unix_ns, 9000, 0),
        ("step", unix_ns + 1000, 2000, 1),
    ]
    assert rows(profile, "activities", "name", "start_ns") == [("f", unix_ns + 4000)]
    assert reasons(profile, "warning") == ["1 event skipped: its start is more than a week from the median start"]


def test_damaged_spaces_are_read_or_declined() -> None:
    load_damaged(WHOLE, 200)


@pytest.mark.parametrize("name", ["tf23_resnet_1", "tf25_chess_2", "jax08_mi300_conv", "jax_legacy_mi300_conv"])
def test_kernel_counts_of_real_spaces(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text("utf-8"))["xplane"][f"{name}.xplane.pb"]
    kernels = load_input(shared_file(f"corpus2/xplane/{name}.xplane.pb"))["activities"].filter(kind="kernel")
    by_device = {
        f"/device:GPU:{device}": (count, ns)
        for device, count, ns in kernels.group_by("device").agg(pl.len(), pl.col("duration_ns").sum()).iter_rows()
    }

    for plane, reported in expected["gpu_planes"].items():
        count, ns = by_device.get(plane, (0, 0))
        assert (count, ns) == (
            reported["kernels"],
            pytest.approx(reported["kernel_total_ps"] / 1000, abs=count / 2 + 1),
        )


def test_a_space_read_in_windows_and_on_disk_reads_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As for a file larger than memory: events are spilled in chunks, and threads are nested in chunks."""
    expected = read(WHOLE)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(WHOLE)
    monkeypatch.setattr(spill._Memory, "is_low", True)
    for module, name, size in (
        (tui.loaders.protobuf_wire, "_WINDOW_BYTES", 90),
        (tui.loaders.xplane, "_MAX_MEMORY_BYTES", 100),
        (tui.correlation.nesting, "_MAX_SINGLE_BLOCK", 0),
        (tui.correlation.nesting, "_BLOCK_SIZE", 1),
        (spill, "_PIECE_ROWS", 1),
        (spill, "_AT_ONCE", 1),
        (spill, "MIN_BYTES", 1),
    ):
        monkeypatch.setattr(module, name, size)
    for profile in (read(WHOLE), load_input(str(path))):
        for frame in ("activities", "api_calls", "ops", "ranges", "devices", "issues"):
            assert_frame_equal(profile[frame], expected[frame])


def test_streams_are_known_by_number_and_idle_gpus_are_devices() -> None:
    busy, idle = Plane("/device:GPU:0"), Plane("/device:GPU:3")
    details = busy.stat("kernel_details", "regs:24 shm:4224 grid:16,1,1 block:32,32,1", ref=True)
    busy.line("Stream #19(MemcpyD2D,Compute)", 5, busy.event("k", 1_000, 3_000, details))
    busy.line("Stream #2", 5, busy.event("fill.kd", 2_000, 4_000))
    busy.line("TensorFlow Name Scope", 5, *[busy.event("model", 1_000, 9_000)] * 3)
    profile = read(space(idle, busy))

    columns = ("kind", "name", "stream", "start_ns", "duration_ns", "registers", "shared_bytes", "block_y")
    assert rows(profile, "activities", *columns) == [
        ("kernel", "k", 19, 6, 3, 24, 4224, 32),
        ("kernel", "fill", 2, 7, 4, None, None, None),
    ]
    assert rows(profile, "devices", "device") == [(3,), (0,)]
    assert rows(profile, "issues", "text", "reason")[0] == (
        "TensorFlow Name Scope",
        "3 events on lines that duplicate streams skipped",
    )


@pytest.mark.parametrize("registers", [2_191_500_840, 140_463_542])
def test_placeholder_launch_details_are_only_quoted(registers: int) -> None:
    plane = Plane("/device:GPU:0")
    text = f"regs:{registers} static_shared:32462 dynamic_shared:0 grid:219,40,1 block:256,1,1"
    kind = plane.stat("memcpy_details", "kind:Unknown size:64 dest:0 async:0")
    plane.line("Stream #1", 0, plane.event("k", 0, 1_000, plane.stat("kernel_details", text)))
    plane.line("Stream #2", 0, plane.event("CopyDeviceToDevice", 5_000, 1_000, kind))
    profile = read(space(plane))

    columns = ("kind", "registers", "static_shared_bytes", "grid_x", "size_bytes", "src_memory")
    assert rows(profile, "activities", *columns) == [
        ("kernel", None, None, None, None, None),
        ("memcpy", None, None, None, 64, None),
    ]
    assert rows(profile, "activities", "arguments") == [(text,), (None,)]


def test_the_op_of_older_versions_is_in_the_annotation() -> None:
    plane = Plane("/device:GPU:0")
    texts = ("model/dense/MatMul:MatMul#id=4#", "Thunk:#hlo_op=fusion#", None)
    stats = [[plane.stat("annotation", text, ref=True)] if text else [] for text in texts]
    events = [plane.event("k", 1_000 * index, 500, *event_stats) for index, event_stats in enumerate(stats)]
    plane.line("Stream #1(Compute)", 0, *events)
    profile = read(space(plane))

    assert rows(profile, "ops", "name", "op_type", "group") == [("MatMul", "MatMul", "model/dense")]
    assert profile["activities"]["op"].to_list() == [0, None, None]


@pytest.mark.parametrize("device", ["CUSTOM:Megascale Trace", "XPU:1", "TPU_SYSTEM:0"])
def test_each_line_of_another_accelerator_is_a_domain(device: str) -> None:
    plane = Plane(f"/device:{device}")
    plane.line("XLA Modules", 3, plane.event("send", 2_000, 1_500))
    profile = read(space(plane))

    assert rows(profile, "ranges", "name", "domain", "start_ns", "duration_ns") == [
        ("send", f"{device} XLA Modules", 5, 2)
    ]
