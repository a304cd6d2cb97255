"""The roles of events by their categories, and the arguments that are read, in the spellings of all versions."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.chrome_trace.event_batches import Arg, ArgKind, Split
from tui.model.errors import WHAT_OPENS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.chrome_trace.event_batches import Trace

COLLECTIVE: Final = (
    Arg("collective", ("collective name",), ArgKind.TEXT),
    Arg("in_elements", ("in msg nelems",), ArgKind.TEXT),
    Arg("out_elements", ("out msg nelems",), ArgKind.TEXT),
    Arg("collective_dtype", ("dtype",), ArgKind.TEXT),
    Arg("group_size", ("group size",), ArgKind.TEXT),
    Arg("in_split", ("in split size",), ArgKind.TEXT),
    Arg("out_split", ("out split size",), ArgKind.TEXT),
    Arg("process_group", ("process group name",), ArgKind.TEXT),
    Arg("process_group_description", ("process group description",), ArgKind.TEXT),
    Arg("process_group_ranks", ("process group ranks",), ArgKind.TEXT),
)
"""What NCCL kernels say of the collective operation that they are part of."""

WANTED: Final = (
    Arg("correlation", ("correlation",), ArgKind.INTEGER),
    Arg("external_id", ("external id",), ArgKind.INTEGER),
    Arg("record_function", ("record function id",), ArgKind.INTEGER),
    Arg("sequence", ("sequence number",), ArgKind.INTEGER),
    Arg("forward_thread", ("fwd thread id",), ArgKind.INTEGER),
    Arg("input_shapes", ("input dims",), ArgKind.TEXT),
    Arg("input_types", ("input type",), ArgKind.TEXT),
    Arg("input_values", ("concrete inputs",), ArgKind.TEXT),
    Arg("call_stack", ("call stack",), ArgKind.TEXT),
    Arg("modules", ("module hierarchy",), ArgKind.TEXT),
    Arg("device", ("device",), ArgKind.INTEGER),
    Arg("context", ("context",), ArgKind.INTEGER),
    # Intel's GPUs have queues.
    Arg("stream", ("stream", "sycl queue"), ArgKind.INTEGER),
    Arg("registers", ("registers per thread",), ArgKind.INTEGER),
    Arg("shared_bytes", ("shared memory",), ArgKind.INTEGER),
    Arg("grid", ("grid",), ArgKind.TRIPLE),
    Arg("block", ("block",), ArgKind.TRIPLE),
    # ``size`` is what AMD's older traces call it, on the copying call.
    Arg("bytes", ("bytes", "size"), ArgKind.INTEGER),
    Arg("bandwidth", ("memory bandwidth (gb/s)",), ArgKind.NUMBER),
    Arg("graph_node", ("graph node id",), ArgKind.INTEGER),
    # AMD's calls name the kernel that they launch.
    Arg("kernel", ("kernel",), ArgKind.TEXT),
    # Of what the allocator did.
    Arg("device_type", ("device type",), ArgKind.INTEGER),
    Arg("device_id", ("device id",), ArgKind.INTEGER),
    Arg("total_allocated", ("total allocated",), ArgKind.INTEGER),
    Arg("total_reserved", ("total reserved",), ArgKind.INTEGER),
    Arg("address", ("addr",), ArgKind.INTEGER),
    *COLLECTIVE,
)
"""What to read of each event."""

FORWARD_TO_BACKWARD: Final = "fwdbwd"
CALL_TO_WORK: Final = "cpu_to_cuda"
"""What PyTorch's first profiler calls the arrows from its ops to GPU work."""
FLOWS: Final = frozenset((FORWARD_TO_BACKWARD, CALL_TO_WORK))
"""The categories of arrows that mean something here."""


LEGACY: Final = ("CPU functions", "CUDA functions")
"""What the export of PyTorch's first profiler calls its processes."""
_LEGACY_ROLE: Final = "legacy"

_ROLES: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "range",
    "python_function": "python",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "overhead": "overhead",
}
_BY_ENDING: Final = {"runtime": "call", "driver": "call", "memcpy": "memcpy", "memset": "memset"}
"""Whatever stands before it: ``gpu_memcpy``, ``xpu_runtime``, ``mlu_memset``."""
_REPEATED: Final = re.compile(r"trace|external_correlation|(?:\w+_)?(?:user_annotation|sync|event)")
"""What tells nothing more: annotations put on the GPU's rows, waits that calls stand for."""
_FIRST: Final = frozenset(("Kernel", "Operator", "Runtime", "Memcpy", "Memset"))

GRID: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

_PLACE: Final = ("name", "start_ns", "duration_ns", "pid", "tid", "external_id")
_OF_CALL: Final = (*_PLACE, "line", "correlation", "shared_bytes", "bytes", "grid", "block")
_OF_GPU: Final = (
    *_OF_CALL,
    *("device", "context", "stream", "registers", "bandwidth", "graph_node"),
    *(arg.column for arg in COLLECTIVE),
)
_COLUMNS: Final = {
    "op": (
        *(*_PLACE, "line", "sequence", "forward_thread", "call_stack", "modules"),
        *("input_shapes", "input_types", "input_values"),
    ),
    "range": (*_PLACE, "line"),
    "python": _PLACE,
    "call": (*_OF_CALL, "kernel"),
    "kernel": _OF_GPU,
    "memcpy": _OF_GPU,
    "memset": _OF_GPU,
    "overhead": (*_PLACE, "line"),
}
"""What is needed of the events of each role: in a large trace every column counts."""

GPU_ROLES: Final = ("kernel", "memcpy", "memset")
"""The roles of GPU work."""

ROLES: Final = tuple(_COLUMNS)
"""What events can be."""


class Era(Enum):
    """What versions of the profiler differ in: how far the ids of events can be trusted."""

    FIRST = "PyTorch 1.8 and 1.9"
    """Operators and GPU work share an id; 0 is none."""
    MIDDLE = "PyTorch 1.10 to 2.1"
    """The id of GPU work is its correlation number and no op's, though it looks like one (until the last of them)."""
    LATE = "PyTorch 2.2 or later"
    """The id of GPU work is that of its op."""


def _role(category: str | None) -> str | None:
    if category is None:
        return None
    lower = category.lower()
    return _ROLES.get(lower) or _BY_ENDING.get(lower.rpartition("_")[2])


def _role_of_process(pid: str | None) -> str | None:
    """``legacy`` for the events of PyTorch's first profiler."""
    return _LEGACY_ROLE if pid in LEGACY else None


SPLIT: Final = Split(
    _COLUMNS | {_LEGACY_ROLE: ("name", "start_ns", "duration_ns", "pid", "tid", "line")}, _role, _role_of_process
)
"""The events of each role, and ``legacy``: those of PyTorch's first profiler."""


class Roles:
    """What must be known of all events of a trace, whatever their roles."""

    def __init__(self, trace: Trace) -> None:
        self._events = Counter(trace.categories)
        self._has_record_functions = "record_function" in trace.seen

    def era(self, metadata: Mapping[str, Any]) -> Era:
        """Which versions wrote the events that came, with what stands beside them."""
        if _FIRST & self._events.keys():
            return Era.FIRST
        is_late = "baseTimeNanoseconds" in metadata or self._has_record_functions
        return Era.LATE if is_late else Era.MIDDLE

    def not_read(self) -> list[tuple[str | None, int]]:
        """Categories whose events nothing is made of, though they may tell something, and how many those are."""
        return [
            (category, count)
            for category, count in sorted(self._events.items(), key=lambda one: (-one[1], one[0] or ""))
            if _role(category) is None and _REPEATED.fullmatch((category or "").lower()) is None
        ]

    def in_words(self) -> tuple[str, str]:
        """What the events are, for one who expected a profile; and what to do."""
        if not self._events:
            return "a trace without events", WHAT_OPENS
        categories = [str(category)[:40] for category, _ in self._events.most_common(5) if category is not None]
        if not categories:
            return (
                "trace events of no category, so none of PyTorch's profiler (rocprof writes such beside results.db)",
                "of rocprof, open results.db; where there is none: rocprof --hip-trace ./app writes it",
            )
        return f"trace events of {', '.join(categories)}, none of PyTorch's profiler", WHAT_OPENS
