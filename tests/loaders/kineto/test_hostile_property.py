"""Events of any shape: a trace opens or is declined in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.kineto.traces import document, read_bytes
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from tui.model.profile import Profile

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 65), 1 << 65),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-3, 1 << 33), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
CATEGORIES = st.sampled_from(
    [
        "cpu_op",
        "Operator",
        "kernel",
        "Kernel",
        "gpu_memcpy",
        "gpu_memset",
        "cuda_runtime",
        "cuda_driver",
        "user_annotation",
        "python_function",
        "overhead",
        "fwdbwd",
        "Trace",
        "net",
    ]
)
NAMES = st.sampled_from(
    [
        "aten::mm",
        "MmBackward0",
        "ProfilerStep#1",
        "nn.Module: A_0",
        "Memcpy HtoD (Pageable -> Device)",
        "[memory]",
        "Memset (Device)",
        "hipExtModuleLaunchKernel",
        "process_labels",
        "GPU 0",
        "/",
        ";",
        "",
    ]
)
ARGS = st.sampled_from(
    [
        "correlation",
        "External id",
        "Sequence number",
        "Fwd thread id",
        "Input Dims",
        "Input type",
        "Call stack",
        "Module Hierarchy",
        "device",
        "context",
        "stream",
        "registers per thread",
        "shared memory",
        "grid",
        "block",
        "bytes",
        "size",
        "memory bandwidth (GB/s)",
        "graph node id",
        "Collective name",
        "dtype",
        "labels",
    ]
)
SMALL = st.one_of(st.integers(0, 30), JUNK)
EVENTS = st.lists(
    st.one_of(
        JUNK,
        st.fixed_dictionaries(
            {"ph": st.sampled_from(["X", "X", "X", "X", "i", "s", "f", "M", "B"])},
            optional={
                "cat": st.one_of(CATEGORIES, CATEGORIES, CATEGORIES, JUNK),
                "name": st.one_of(NAMES, NAMES, JUNK),
                "pid": st.one_of(st.integers(0, 2), st.sampled_from(["CPU functions", "CUDA functions"]), JUNK),
                "tid": st.one_of(st.integers(0, 2), JUNK),
                "ts": SMALL,
                "dur": SMALL,
                "id": SMALL,
                "args": st.one_of(st.dictionaries(ARGS, SMALL, max_size=8), JUNK),
            },
        ),
    ),
    max_size=12,
)
KEYS = st.sampled_from(
    [
        "deviceProperties",
        "distributedInfo",
        "baseTimeNanoseconds",
        "cuda_runtime_version",
        "hip_driver_version",
        "torch_version",
        "host_name",
        "schemaVersion",
    ]
)
INFO = st.dictionaries(st.sampled_from(["id", "name", "rank", "world_size", "numSms", "computeMajor"]), JUNK)


def read_or_none(content: bytes) -> Profile | None:
    try:
        return read_bytes(content)
    except ProftuiError:
        return None


def check_opens_or_is_declined(events: list[Any], metadata: dict[str, Any]) -> None:
    profile = read_or_none(document(events, **metadata))
    if profile is None:
        return
    assert profile["sessions"].height == 1
    assert all(profile[frame].schema == schema for frame, schema in FRAMES.items())
    ops = profile["ops"].height
    for frame, column in (("ops", "parent"), ("ops", "forward"), ("activities", "op")):
        assert profile[frame].filter(profile[frame][column] >= ops).is_empty()


@given(events=EVENTS, metadata=st.dictionaries(KEYS, st.one_of(JUNK, INFO, st.lists(INFO, max_size=2)), max_size=4))
def test_any_events_are_read_or_declined(events: list[Any], metadata: dict[str, Any]) -> None:
    check_opens_or_is_declined(events, metadata)


@given(events=EVENTS)
def test_any_list_of_events_is_read_or_declined(events: list[Any]) -> None:
    read_or_none(json.dumps(events).encode())
