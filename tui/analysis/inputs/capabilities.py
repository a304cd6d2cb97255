"""Which views an input can feed, and what would have to be recorded for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.grouping import present
from tui.analysis.inputs.devices import tools_to_record
from tui.analysis.inputs.needs import (
    API_TRACE,
    API_WORK,
    BY_OTHER_TOOLS_ONLY,
    COPIES,
    DEVICES,
    GPU_WORK,
    ITERATIONS,
    LAUNCH_CONFIGS,
    LAYERS,
    METRICS,
    OPS,
    OTHER_SUMMARIES,
    RANGES,
    RECORDABLE,
    SHAPES,
    STACKS,
    START_TIMES,
    TEXT,
    TOOL_REPORT,
)
from tui.analysis.inputs.recording import Need, Tool
from tui.analysis.inputs.source_lines import no_text
from tui.analysis.inputs.vendors import amd_sessions
from tui.analysis.issues import issue_counts
from tui.analysis.iterations.tables import sources
from tui.analysis.kinds import kind_by_name
from tui.views import VIEWS

if TYPE_CHECKING:
    from tui.model.profile import Profile

OK: Final = "ok"
"""The value of a view that can be shown."""

_VIEW_NEEDS: Final[dict[str, tuple[Need, ...]]] = {
    "op-types": (GPU_WORK,),
    "group-ops": (GPU_WORK,),
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
    "tool-report": (TOOL_REPORT,),
    "log": (TEXT,),
}

_FED_BY_OPS: Final = frozenset({"op-types", "group-ops", "ops-and-kernels"})
"""Views that recorded ops feed as well: without GPU work their CPU times are worth seeing."""


def views(profile: Profile) -> dict[str, str]:
    """For every view of the program ``ok``, or why it cannot be shown and what to record."""
    lacks = {need: need for need in missing(profile)}
    if profile["activities"].height:
        # A GPU whose name is not known has its utilisation all the same; the dashboard still asks for the name.
        lacks.pop(DEVICES, None)
    fed = set(_FED_BY_OPS) if profile["ops"].height else set()
    if sources(profile):
        # Recorded, or found by the start times; a run in which nothing repeats is one iteration.
        fed.add("iterations")
    if profile["memory_events"].height:
        fed.add("memory")
    if not {API_WORK, TOOL_REPORT} <= lacks.keys():
        # Rules on API calls, and what the recording tool itself found, need no GPU work.
        fed.add("expert-systems")
    issues = issue_counts(profile)
    if METRICS not in lacks or issues["warning"] or issues["error"]:
        # Nor do those on how good the recording is: the dashboard shows what they found.
        fed.add("expert-systems")
    answers = {}
    for view in VIEWS:
        needs = () if view.name in fed else _VIEW_NEEDS.get(view.name, ())
        answers[view.name] = next((lacks[need].missing for need in needs if need in lacks), OK)
    if answers["log"] != OK:
        answers["log"] = no_text(profile)
    return answers


def missing(profile: Profile) -> list[Need]:
    """What an input could hold and does not, in any of its sessions; each with the command of the input's own tool."""
    activities, summary = profile["activities"], profile["summary"]
    sections = set(summary["section"].unique().to_list())
    kinds = set(present(activities["kind"]).to_list())
    copies = (
        kinds & {"memcpy", "memset", "um"}
        or not summary.filter(
            (pl.col("section") == "um") | ((pl.col("section") == "gpu") & (kind_by_name() != "kernel"))
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
        OPS: profile["ops"].height > 0,
        SHAPES: _any(profile["ops"]["input_shapes"]),
        STACKS: _any(profile["ops"]["stack"]),
        ITERATIONS: any(source != "whole run" for source in sources(profile).values()),
        TOOL_REPORT: profile["tool_figures"].height + profile["tool_findings"].height > 0,
        TEXT: bool(profile.texts),
    }
    return [_of_tools(profile, need) for need, held in holds.items() if not held]


def to_ask_for(profile: Profile) -> list[Need]:
    """What is missing and worth recording: what the input's own tool cannot hold at all is left out."""
    tools, lacks = tools_to_record(profile), missing(profile)
    # Where no API calls are there at all, single ones need no asking for.
    left_out = {API_TRACE} if API_WORK in lacks else set()
    return [
        need
        for need in lacks
        if need in RECORDABLE and need not in left_out and (need not in BY_OTHER_TOOLS_ONLY or need.recordable(tools))
    ]


def why_none(profile: Profile, need: Need) -> str:
    """What an empty table says: what is not in the file, and the command that records it."""
    return _of_tools(profile, need).missing


def how_to_record(profile: Profile, need: Need) -> str:
    """The command alone, as ``record with ...``."""
    return _of_tools(profile, need).how


def _of_tools(profile: Profile, need: Need) -> Need:
    """A need with the command of the tool that records it of these GPUs; metrics of AMD's are read by AMD's tool."""
    of_amd = need == METRICS and amd_sessions(profile)
    return need.with_tools((Tool.ROCPROF,) if of_amd else tools_to_record(profile))


def _any(column: pl.Series) -> bool:
    return column.len() > column.null_count()
