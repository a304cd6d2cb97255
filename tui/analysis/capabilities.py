"""Which views an input can feed, and what would have to be recorded for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.views import NOT_IN_THIS_VERSION, VIEWS

if TYPE_CHECKING:
    from tui.model.profile import Profile

OK: Final = "ok"
"""The value of a view that can be shown."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that an input may hold or lack."""

    name: str
    """What it is, as ``start times``."""
    record: str
    """What records it; begins with nvprof where that is the command."""
    gives: str
    """What can be seen with it."""

    @property
    def missing(self) -> str:
        """What to say where it is not there.

        >>> START_TIMES.missing
        'no start times: record with nvprof --print-gpu-trace'
        """
        return f"no {self.name}: {'record with ' if self.record.startswith('nvprof') else ''}{self.record}"


GPU_WORK: Final = Need("GPU activities", "nvprof", "where the GPU's time went")
START_TIMES: Final = Need(
    "start times", "nvprof --print-gpu-trace", "every launch with its time, GPU idle time, the order of things"
)
LAUNCH_CONFIGS: Final = Need(
    "launch configurations", "nvprof --print-gpu-trace", "grid, block, registers, shared memory, occupancy"
)
DEVICES: Final = Need("device names", "nvprof --print-gpu-trace", "which GPU it was, and so its occupancy")
API_WORK: Final = Need("API calls", "nvprof --print-api-trace", "what the CPU spent in CUDA calls")
API_TRACE: Final = Need("single API calls", "nvprof --print-api-trace", "every CUDA call with its time")
METRICS: Final = Need("metrics", "nvprof --metrics all", "hardware metrics of each kernel")
LAYERS: Final = Need("layer times", "open the output of caffe time or of Paleo", "times by layer")
RANGES: Final = Need("NVTX ranges", "nvprof, with NVTX ranges in the program", "the program's own names for its phases")
COPIES: Final = Need("copies", "nvprof --print-gpu-trace", "copies by direction, kind and size")
OTHER_SUMMARIES: Final = Need(
    "other summaries", "nvprof --unified-memory-profiling per-process-device", "what was summed beside GPU and API"
)
TEXT: Final = Need("lines of text", "open a text log", "the log itself")

_VIEW_NEEDS: Final[dict[str, tuple[Need, ...]]] = {
    "op-types": (GPU_WORK,),
    "group-ops": (GPU_WORK, RANGES),
    "ops-and-kernels": (GPU_WORK,),
    "kernels": (GPU_WORK,),
    "kernels-by-iteration": (START_TIMES,),
    "kernels-by-op": (START_TIMES,),
    "iterations": (START_TIMES,),
    "gpus": (DEVICES,),
    "expert-systems": (GPU_WORK,),
    "api-calls": (API_WORK,),
    "timeline": (START_TIMES,),
    "memory": (COPIES,),
    "ranges": (RANGES,),
    "metrics": (METRICS,),
    "summaries": (OTHER_SUMMARIES,),
    "layers": (LAYERS,),
    "log": (TEXT,),
}

RECORDABLE: Final = (GPU_WORK, START_TIMES, LAUNCH_CONFIGS, DEVICES, API_WORK, API_TRACE, METRICS, RANGES)
"""What an nvprof log can hold, in the order in which it is asked for."""


def views(profile: Profile) -> dict[str, str]:
    """For every view of the program ``ok``, or why it cannot be shown and what to record.

    A view that this version has no screen for says so, and says as well what the input lacks for it.
    """
    lacks = frozenset(missing(profile))
    answers = {}
    for view in VIEWS:
        reasons = [] if view.screen else [NOT_IN_THIS_VERSION]
        reasons += [need.missing for need in _VIEW_NEEDS.get(view.name, ()) if need in lacks][:1]
        answers[view.name] = "; ".join(reasons) or OK
    return answers


def missing(profile: Profile) -> list[Need]:
    """What an input could hold and does not, in any of its sessions."""
    activities, summary = profile["activities"], profile["summary"]
    sections = set(summary["section"].unique().to_list())
    kinds = set(activities["kind"].unique().to_list())
    copies = (
        kinds & {"memcpy", "memset", "um"}
        or not summary.filter(
            (pl.col("section") == "um")
            | ((pl.col("section") == "gpu") & pl.col("name").cast(pl.String).str.starts_with("[CUDA mem"))
        ).is_empty()
    )
    holds = {
        GPU_WORK: bool(kinds) or "gpu" in sections,
        START_TIMES: _any(activities["start_ns"]),
        LAUNCH_CONFIGS: _any(activities["block_x"]),
        DEVICES: _any(profile["devices"]["name"]),
        API_WORK: profile["api_calls"].height > 0 or "api" in sections,
        API_TRACE: _any(profile["api_calls"]["start_ns"]),
        METRICS: profile["metrics"].height > 0,
        LAYERS: any(_any(profile["layers"][column]) for column in ("time_ns", "predicted_ns")),
        RANGES: profile["ranges"].height > 0 or "nvtx" in sections,
        COPIES: bool(copies),
        OTHER_SUMMARIES: bool(sections - {"gpu", "api"}),
        TEXT: bool(profile.texts),
    }
    return [need for need, held in holds.items() if not held]


def _any(column: pl.Series) -> bool:
    return column.len() > column.null_count()
