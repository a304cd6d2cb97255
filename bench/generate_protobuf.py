"""Generates XPlane and Perfetto files of any size, from made-up events.

A block of events is repeated unchanged: the times of an XPlane line count from its own start, and those of a Perfetto
sequence from the event before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from bench.generate_nvprof import DATA

_KERNELS = (
    *("ampere_sgemm_128x64_nn", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(float)", "loop_add_fusion"),
    *("loop_multiply_fusion", "input_reduce_fusion", "wrapped_transpose", "loop_select_fusion"),
)
_STEP_NS = 1_000
"""The time between the starts of two events."""
_ITERATION_EVENTS = 500
_BLOCK_EVENTS = 100_000


def xplane_of_kernels(size: int) -> Path:
    """An XSpace of at least ``size`` bytes: kernels of one stream, with their HLO ops and correlation ids."""
    path = DATA / f"kernels_{size >> 20}.xplane.pb"
    if not path.exists():
        _write(path, size, _xplane_blocks())
    return path


def perfetto_of_slices(size: int) -> Path:
    """A Perfetto trace of at least ``size`` bytes: slices of one thread, nested three deep."""
    path = DATA / f"slices_{size >> 20}.pftrace"
    if not path.exists():
        _write(path, size, _perfetto_blocks())
    return path


def _write(path: Path, size: int, blocks: Iterator[bytes]) -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        while file.tell() < size:
            file.write(next(blocks))
    part.rename(path)


def _xplane_blocks() -> Iterator[bytes]:
    """Yield planes of one GPU, each with a block of kernels."""
    details = b"regs:32 static_shared:0 dynamic_shared:0 grid:132,1,1 block:256,1,1 occ_pct:100"
    texts = (*_STATS, details, b"jit_train_step", *(f"fusion.{number}".encode() for number in range(len(_KERNELS))))
    names = b"".join(
        _field(number_of_map, _field(1, number) + _field(2, _field(1, number) + _field(2, text)))
        for number_of_map, entries in ((5, texts), (4, [kernel.encode() for kernel in _KERNELS]))
        for number, text in enumerate(entries, 1)
    )
    kernels = random.Random(0).choices(range(len(_KERNELS)), k=_ITERATION_EVENTS)
    events = b"".join(
        _field(4, _xplane_event(kernels[index % _ITERATION_EVENTS], index)) for index in range(_BLOCK_EVENTS)
    )
    start_ns = 1_700_000_000_000_000_000
    while True:
        line = _field(1, 7) + _field(2, b"Stream #7(Compute)") + _field(3, start_ns) + events
        yield _field(1, _field(2, b"/device:GPU:0") + _field(3, line) + names)
        start_ns += _BLOCK_EVENTS * _STEP_NS


_STATS = (b"correlation_id", b"kernel_details", b"hlo_module", b"hlo_op")
_DETAILS, _MODULE, _FIRST_OP = (len(_STATS) + number for number in (1, 2, 3))
"""The numbers of texts; those of the stats come first."""


def _xplane_event(kernel: int, index: int) -> bytes:
    times = _field(2, index * _STEP_NS * 1000) + _field(3, (200 + 100 * kernel) * 1000)
    stats = (
        _field(1, 1) + _field(3, 1 + index),
        *(
            _field(1, number) + _field(7, text)
            for number, text in ((2, _DETAILS), (3, _MODULE), (4, _FIRST_OP + kernel))
        ),
    )
    return _field(1, 1 + kernel) + times + b"".join(_field(4, stat) for stat in stats)


_TRACE_CLOCK, _SEQUENCE_CLOCK = 6, 64
_THREAD = 2


def _perfetto_blocks() -> Iterator[bytes]:
    """Yield the packets that define clock, names and track, then blocks of slices."""
    snapshot = _field(1, _field(1, _TRACE_CLOCK) + _field(2, 1_000_000)) + _field(
        1, _field(1, _SEQUENCE_CLOCK) + _field(2, 0) + _field(3, 1)
    )
    names = b"".join(
        _field(2, _field(1, number) + _field(2, name))
        for number, name in enumerate((b"step", b"aten::linear", b"cudaLaunchKernel"), 1)
    )
    thread = _field(1, _THREAD) + _field(2, b"main") + _field(4, _field(1, 77) + _field(2, 78) + _field(5, b"main"))
    yield (
        _packet(
            _field(13, 1)
            + _field(59, _field(58, _SEQUENCE_CLOCK))
            + _field(58, _TRACE_CLOCK)
            + _field(8, 1_000_000)
            + _field(12, names)
        )
        + _packet(_field(58, _TRACE_CLOCK) + _field(8, 1_000_000) + _field(6, snapshot))
        + _packet(_field(60, thread))
    )
    begins = [_slice_event(_field(9, 1) + _field(10, name)) for name in (1, 2, 3)]
    end = _slice_event(_field(9, 2))
    call = begins[2] + end
    block = (begins[0] + (begins[1] + 2 * call + end) * 10 + end) * (_BLOCK_EVENTS // 31)
    while True:
        yield block


def _slice_event(fields: bytes) -> bytes:
    return _packet(_field(8, _STEP_NS) + _field(11, fields + _field(11, _THREAD)))


def _packet(fields: bytes) -> bytes:
    return _field(1, fields + _field(10, 5))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
