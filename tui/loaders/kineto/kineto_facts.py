"""Facts of the recording in a trace: process, rank, versions, GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.kineto.events import matching
from tui.loaders.multi_file.ranks import FROM_NAME, ranks_in_names
from tui.text import whole_number

if TYPE_CHECKING:
    from tui.loaders.collector import Value
    from tui.loaders.kineto.events import KinetoEvents

FORMAT_NAME: Final = "pytorch-trace"
TOOL: Final = "PyTorch profiler"

_HOST_IN_NAME: Final = re.compile(r"([\w.-]+?)_([0-9]+)\.(?:[0-9]+\.)?pt\.trace\.json")
_INT32: Final = range(1 << 31)
_INT64: Final = range(1 << 63)
_EPOCH_NS: Final = range(946_684_800_000_000_000, 4_102_444_800_000_000_000)
"""From 2000 to 2100: a clock that says anything else does not count from 1970."""
_TEXT_LIMIT: Final = 200
_MOST_DEVICES: Final = 1024
"""More GPUs than a machine has."""

_DEVICE_COLUMNS: Final = {
    "sm_count": ("numSms", _INT32),
    "memory_bytes": ("totalGlobalMem", _INT64),
    "max_threads_per_sm": ("maxThreadsPerMultiprocessor", _INT32),
    "registers_per_sm": ("regsPerMultiprocessor", _INT32),
    "shared_memory_per_sm_bytes": ("sharedMemPerMultiprocessor", _INT64),
}
_CUDA_CALL: Final = r"^cu(?:da)?[A-Z]"
_HIP_CALL: Final = r"^hip[A-Z]"
_AMD: Final = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx[0-9]", re.IGNORECASE)


def process_of(events: KinetoEvents) -> int | None:
    """The process that most ops and calls are of."""
    counts = (
        pl.concat(rows["pid"].value_counts() for rows in (events.ops, events.ranges, events.calls))
        .drop_nulls("pid")
        .group_by("pid")
        .agg(pl.col("count").sum())
        .sort("count", "pid", descending=[True, False])
    )
    return None if counts.is_empty() else int(counts["pid"][0])


def session_facts(metadata: Mapping[str, Any], *, name: str, pid: int | None, begin_ns: int) -> dict[str, Value]:
    """Columns of ``sessions`` from what a trace says of itself.

    Args:
        metadata: What stands beside its events.
        name: The path of the file.
        pid: Of the process.
        begin_ns: Time 0 in the file's own clock.
    """
    distributed = metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, Mapping) else {}
    file_name = name.rpartition("/")[2]
    version = _text(metadata.get("torch_version")) or _text(metadata.get("pytorch_version"))
    rank = _whole(distributed.get("rank"), _INT32)
    in_name = ranks_in_names([file_name])[0] if rank is None else None
    return {
        "tool": TOOL,
        "framework": f"PyTorch {version}" if version else "PyTorch",
        "rank": rank if in_name is None else in_name,
        "rank_source": None if in_name is None else FROM_NAME,
        "world_size": _whole(distributed.get("world_size"), _INT32),
        "host": _text(metadata.get("host_name")) or _text(metadata.get("hostname")) or _host(file_name, pid),
        "cuda_version": _cuda_version(metadata.get("cuda_runtime_version")),
        "driver_version": _driver(metadata),
        "origin_ns": _origin(metadata.get("baseTimeNanoseconds"), begin_ns),
    }


def is_amd(metadata: Mapping[str, Any]) -> bool:
    """Whether the trace is of AMD GPUs."""
    if any(key.startswith(("hip_", "roctracer", "rocprofiler")) for key in metadata):
        return True
    return any(_AMD.search(str(one.get("name"))) or one.get("warpSize") == 64 for one in _properties(metadata))


def is_of_cuda(metadata: Mapping[str, Any], calls: pl.DataFrame) -> bool:
    """Whether what ran is work of CUDA, as far as anything tells; PyTorch for HIP keeps some names of CUDA's calls."""
    if is_amd(metadata) or matching(calls["name"], _HIP_CALL).any():
        return False
    return calls.is_empty() or matching(calls["name"], _CUDA_CALL).any()


def numbers_agents(metadata: Mapping[str, Any]) -> bool:
    """Whether GPU work may bear numbers of agents, processors among them, instead of GPUs.

    What roctracer recorded does; rocprofiler-sdk, which came after it, counts the GPUs alone.
    """
    return is_amd(metadata) and not any(key.startswith("rocprofiler") for key in metadata)


def devices_of(metadata: Mapping[str, Any]) -> list[dict[str, Value]]:
    """Rows of ``devices``: what the trace says of each GPU, nothing else; 0 says nothing."""
    amd = is_amd(metadata)
    rows: dict[int, dict[str, Value]] = {}
    for one in _properties(metadata):
        device = _whole(one.get("id"), _INT32)
        if device is None or device in rows:
            continue
        major, minor = _whole(one.get("computeMajor"), range(1, 100)), _whole(one.get("computeMinor"), range(100))
        row: dict[str, Value] = {"device": device, "name": _text(one.get("name"))}
        # AMD's major and minor are of another numbering than compute capabilities.
        if not amd and major is not None and minor is not None:
            row["compute_capability"] = f"{major}.{minor}"
        for column, (key, allowed) in _DEVICE_COLUMNS.items():
            row[column] = _whole(one.get(key), allowed) or None
        if row["shared_memory_per_sm_bytes"] is None:
            row["shared_memory_per_sm_bytes"] = _whole(one.get("maxSharedMemoryPerMultiProcessor"), _INT64)
        rows[device] = row
    return list(rows.values())


def _properties(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = metadata.get("deviceProperties")
    return [one for one in listed[:_MOST_DEVICES] if isinstance(one, Mapping)] if isinstance(listed, list) else []


def _whole(value: object, allowed: range) -> int | None:
    """A number that can be true."""
    if isinstance(value, str):
        value = whole_number(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in allowed else None


def _text(value: object) -> str | None:
    return value.strip()[:_TEXT_LIMIT] or None if isinstance(value, str) else None


def _host(file_name: str, pid: int | None) -> str | None:
    """The host of which PyTorch made the file's name, where the number after it is that of the process."""
    match = _HOST_IN_NAME.match(file_name)
    return match[1] if match and pid is not None and match[2] == str(pid) else None


def _cuda_version(told: object) -> str | None:
    """How people write it.

    >>> _cuda_version(12040), _cuda_version("12.4"), _cuda_version(4)
    ('12.4', '12.4', None)
    """
    if isinstance(told, str) and re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", told):
        return told
    number = _whole(told, range(1000, 1_000_000))
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _driver(metadata: Mapping[str, Any]) -> str | None:
    """The newest CUDA or HIP that the driver can run; the number of the driver itself is not in a trace."""
    cuda = _cuda_version(metadata.get("cuda_driver_version"))
    if cuda is not None:
        return f"for CUDA {cuda}"
    hip = _whole(metadata.get("hip_driver_version"), range(10_000_000, 1_000_000_000))
    return None if hip is None else f"for HIP {hip // 10_000_000}.{hip // 100_000 % 100}.{hip % 100_000}"


def _origin(base: object, begin_ns: int) -> int | None:
    base_ns = _whole(base, _INT64) or 0
    origin = base_ns + begin_ns
    return origin if origin in _EPOCH_NS else None
