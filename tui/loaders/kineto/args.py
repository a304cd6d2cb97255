"""The arguments of a Kineto trace's events that mean something here; every spelling that versions have used."""

from __future__ import annotations

from typing import Final

from tui.loaders.chrome.trace import Arg, ArgKind

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
