"""The dashboard: where the time went, at a glance, and what the log cannot say. Values and frames, no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.api import api
from tui.analysis.durations import average, share, total
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.inputs.capabilities import to_ask_for
from tui.analysis.inputs.devices import device_facts
from tui.analysis.inputs.needs import API_WORK, GPU_WORK, START_TIMES
from tui.analysis.inputs.recording import tools_of
from tui.analysis.inputs.replayed import replayed_sessions, why_left_out, without_sessions
from tui.analysis.issues import issue_counts
from tui.analysis.kernels import kernels
from tui.analysis.ops.by_type import kinds_of_work
from tui.analysis.ops.tables import by_name, has_recorded_ops, inferred_ops
from tui.analysis.ops.work import recorded_sessions
from tui.analysis.sessions import rank_words
from tui.analysis.tensor_cores.efficiency import TensorCoreUse, tensor_core_time, tensor_core_use
from tui.analysis.tool_report import headlines
from tui.analysis.transfers.copies import copies
from tui.model.columns import ColumnKind

if TYPE_CHECKING:
    from tui.analysis.inputs.recording import Need
    from tui.model.profile import Profile

TOP: Final = 10
"""Rows of the short tables."""

SPLIT: Final = 7
"""Groups of the split that are shown by name; what is left is one row."""

REST: Final = "rest"
"""The name of that row."""

K = ColumnKind
Value = int | float | str | None

_KINDS: Final = (
    ("kernel", "Kernel time"),
    ("memcpy", "Copy time"),
    ("memset", "Memset time"),
    ("um", "Unified memory time"),
    ("graph", "CUDA graph time"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of the dashboard: what it is, and where it is from or why it is unknown."""

    name: str
    """Stable, as ``busy_ns``."""
    label: str
    """For people, as ``GPU busy``."""
    value: Value
    """In base units; None where it is unknown."""
    kind: ColumnKind
    """How it is written."""
    source: str = ""
    """What it was computed from, or why it is unknown."""
    record: str = ""
    """The command that would record what is missing."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Everything that the dashboard shows, over all sessions of the profile."""

    performance: tuple[Fact, ...]
    """Performance summary."""

    split: pl.DataFrame
    """GPU time by kind of work (`tui.analysis.ops.by_type.kinds_of_work`), largest first: group, calls, total_ns,
    time_pct, members (op types that it sums). At most `SPLIT` rows and one called `REST`; they add up to the GPU
    time."""

    top_ops: pl.DataFrame
    """The `TOP` ops with most GPU time: op, op_type, direction, group, kernels, calls, total_ns, avg_ns, time_pct,
    op_source. Of a recorded op ``total_ns`` is what it launched itself; work without an op is in the list as well. Of
    what is not recorded, ``calls`` are launches."""

    ops_recorded: int
    """In so many sessions with GPU work ops are recorded."""

    ops_inferred: int
    """In so many they are inferred from the names of kernels."""

    top_kernels: pl.DataFrame
    """The `TOP` kernels with most GPU time: name, short_name, calls, total_ns, avg_ns, time_pct."""

    top_api: pl.DataFrame
    """The `TOP` API functions with most time: name, calls, total_ns, avg_ns, time_pct."""

    copies: pl.DataFrame
    """By direction: kind, copy_kind, calls, total_ns, size_bytes, throughput, time_pct."""

    devices: pl.DataFrame
    """`tui.analysis.inputs.devices.device_facts`, with busy_ns, idle_ns and busy_pct where start times are known."""

    sessions: pl.DataFrame
    """The frame ``sessions``."""

    system: tuple[Fact, ...]
    """System configuration: only what the log says."""

    issues: Mapping[str, int]
    """Number of issues by severity."""

    missing: tuple[Need, ...]
    """What the log cannot say, and how to record it."""

    layers: int
    """How many layer times there are."""

    tool_says: pl.DataFrame
    """What the recording tool itself says, the most telling of it: `tui.analysis.tool_report.headlines`."""

    tool_rows: int
    """How many rows there are of that in all."""

    left_out: str
    """Which sessions the figures leave out, and why; empty where none."""

    partial: str
    """Why the numbers are of a part of the input only, or empty."""


def dashboard(profile: Profile, *, gpu: str | None = None) -> Dashboard:
    """All figures of the dashboard.

    Args:
        profile: What was read; several sessions are added up.
        gpu: The name of the GPU, as the user gives it, where the input does not say enough.

    Raises:
        ProftuiError: Nothing is known of ``gpu``, or the user's op types cannot be read.
    """
    whole, replayed = profile, replayed_sessions(profile)
    profile = without_sessions(profile, replayed)
    rows, calls, busy = kernels(profile), api(profile), busy_time(profile)
    return Dashboard(
        performance=_performance(profile, rows, calls, busy),
        split=_split(_over_sessions(kinds_of_work(profile), "op_type", "direction", "group")),
        top_ops=_top_ops(profile).head(TOP),
        ops_recorded=rows.filter(pl.col("session").is_in(recorded_sessions(profile).implode()))["session"].n_unique(),
        ops_inferred=inferred_ops(profile)["session"].n_unique(),
        top_kernels=_over_sessions(rows.filter(pl.col("kind") == "kernel"), "name", "short_name", of=rows).head(TOP),
        top_api=_over_sessions(calls, "name").head(TOP),
        copies=_copies(profile),
        devices=device_facts(profile, gpu=gpu).join(
            busy.select("session", "device", "busy_ns", "idle_ns", "busy_pct"),
            on=["session", "device"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        ),
        sessions=whole["sessions"],
        system=_system(whole),
        issues=issue_counts(whole),
        missing=tuple(to_ask_for(whole)),
        layers=profile["layers"].height,
        tool_says=headlines(whole),
        tool_rows=whole["tool_figures"].height + whole["tool_findings"].height,
        left_out=why_left_out(replayed),
        partial=profile.partial,
    )


def _over_sessions(rows: pl.DataFrame, *by: str, of: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows of the same name in several sessions as one, largest first; shares are of the sum of ``of``."""
    calls = total("calls")
    whole = (rows if of is None else of)["total_ns"].sum()
    counted = [total("kernels").alias("kernels")] if "kernels" in rows.columns else []
    return (
        rows.group_by(by)
        .agg(
            *counted,
            calls.alias("calls"),
            total("total_ns").alias("total_ns"),
            average(total("total_ns"), calls).alias("avg_ns"),
        )
        .with_columns((100 * pl.col("total_ns") / (whole or None)).alias("time_pct"))
        .sort("total_ns", by[0], descending=[True, False], nulls_last=True)
    )


def _top_ops(profile: Profile) -> pl.DataFrame:
    """Ops by GPU time over all sessions."""
    if not has_recorded_ops(profile):
        return _over_sessions(inferred_ops(profile), "op", "op_type", "direction", "group", "op_source")
    rows = by_name(profile).filter(pl.col("gpu_self_ns") > 0)
    told = rows.group_by("op", "op_source").agg(pl.col("op_type", "direction", "group").drop_nulls().first())
    summed = rows.with_columns(pl.col("gpu_self_ns").alias("total_ns"), pl.coalesce("calls", "launches").alias("calls"))
    return _over_sessions(summed, "op", "op_source").join(
        told, on=["op", "op_source"], how="left", nulls_equal=True, maintain_order="left"
    )


def _split(kinds: pl.DataFrame) -> pl.DataFrame:
    """The largest groups by name, and the rest as one row."""
    groups = (
        kinds.with_columns(pl.col("group").cast(pl.String))
        .group_by("group")
        .agg(
            total("calls").alias("calls"), total("total_ns").alias("total_ns"), pl.len().cast(pl.Int64).alias("members")
        )
        .sort("total_ns", "group", descending=[True, False], nulls_last=True)
    )
    shown, left = groups.head(SPLIT), groups.slice(SPLIT)
    if left.height == 1:
        shown = groups
    elif left.height:
        rest = left.select(
            pl.lit(REST).alias("group"),
            total("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            pl.col("members").sum(),
        )
        shown = pl.concat([shown, rest])
    return shown.with_columns(share(of=None))


def _copies(profile: Profile) -> pl.DataFrame:
    both = pl.col("throughput").is_not_null() & pl.col("size_bytes").is_not_null()
    # Sessions are joined by bytes and by the time that their rate implies, so that the rate stays size / duration.
    seconds = (pl.col("size_bytes") / pl.col("throughput")).filter(both).sum()
    return (
        copies(profile)
        .group_by("kind", "copy_kind")
        .agg(
            total("calls").alias("calls"),
            total("total_ns").alias("total_ns"),
            total("size_bytes").alias("size_bytes"),
            pl.when(both.any()).then(pl.col("size_bytes").filter(both).sum() / seconds).alias("throughput"),
        )
        .with_columns(share(of=None))
        .sort("total_ns", "copy_kind", descending=[True, False], nulls_last=True)
    )


def _performance(profile: Profile, rows: pl.DataFrame, calls: pl.DataFrame, busy: pl.DataFrame) -> tuple[Fact, ...]:
    tools = tools_of(profile)
    gpu_work, api_work = GPU_WORK.with_tools(tools), API_WORK.with_tools(tools)
    gpu_source = _source(profile, "activities", "gpu")
    api_source = _source(profile, "api_calls", "api")
    facts = [*_time_facts(busy, START_TIMES.with_tools(tools), sessions=rows["session"].n_unique())]
    facts.append(_sum("gpu_ns", "GPU time", rows["total_ns"], K.DURATION, gpu_source, gpu_work))
    for kind, label in _KINDS:
        part = rows.filter(pl.col("kind") == kind)["total_ns"]
        if part.len():
            facts.append(_sum(f"{kind}_ns", label, part, K.DURATION, gpu_source, gpu_work))
    only_kernels = rows.filter(pl.col("kind") == "kernel")
    facts.append(_sum("launches", "Kernel launches", only_kernels["calls"], K.COUNT, gpu_source, gpu_work))
    names = only_kernels["name"].n_unique() if only_kernels.height else None
    facts.append(_fact("kernels", "Distinct kernels", names, K.COUNT, gpu_source, gpu_work))
    facts += _tensor_core_facts(tensor_core_use(tensor_core_time(profile)))
    facts.append(_sum("api_ns", "API time", calls["total_ns"], K.DURATION, api_source, api_work))
    facts.append(_sum("api_calls", "API calls", calls["calls"], K.COUNT, api_source, api_work))
    return tuple(facts)


def _time_facts(busy: pl.DataFrame, need: Need, *, sessions: int) -> tuple[Fact, ...]:
    """Span, busy and idle time; unknown where not every session with GPU work (``sessions``) has start times."""
    timed = busy["session"].n_unique()
    partly = 0 < timed < sessions
    if busy.is_empty() or partly:
        values: tuple[Value, ...] = (None, None, None, None)
    else:
        span = int(busy.unique("session")["span_ns"].sum())
        available = int(busy["span_ns"].sum())
        working = int(busy["busy_ns"].sum())
        values = (span, working, available - working, 100 * working / available if available else None)
    source = "start times and durations of the GPU activities"
    if busy.height > 1:
        source += f", over {busy.height} GPUs" if busy["session"].n_unique() == 1 else ", over all sessions and GPUs"
    named = (
        ("span_ns", "Span", K.DURATION),
        ("busy_ns", "GPU busy", K.DURATION),
        ("idle_ns", "GPU idle", K.DURATION),
        ("busy_pct", "GPU utilisation", K.PERCENT),
    )
    return tuple(
        Fact(name, label, None, kind, f"start times in only {timed} of {sessions} sessions", need.record)
        if partly
        else _fact(name, label, value, kind, source, need)
        for (name, label, kind), value in zip(named, values, strict=True)
    )


def _tensor_core_facts(use: TensorCoreUse) -> list[Fact]:
    """The two figures that tools call by nearly the same name, under their own names, and what cannot be told."""
    if not use.kernel_ns:
        return []
    told = (
        (
            "tc_efficiency_pct",
            "TC efficiency (DLProf)",
            use.efficiency_pct,
            "time of kernels that use tensor cores / kernel time of ops that could",
            use.eligible_unknown_pct,
            "no work that could use tensor cores",
        ),
        (
            "tc_share_pct",
            "TC share (TensorBoard)",
            use.share_pct,
            "time of kernels that use tensor cores / time of all kernels",
            use.unknown_pct,
            "",
        ),
    )
    facts = []
    for name, label, value, formula, unknown, nothing in told:
        untold = (
            f"of {unknown:.1f} % of that time the names of the kernels do not tell"
            if unknown and unknown >= 0.05
            else ""
        )
        if value is None:
            facts.append(Fact(name, label, None, K.PERCENT, use.reason or untold or nothing))
        else:
            facts.append(Fact(name, label, value, K.PERCENT, formula + (f"; left out: {untold}" if untold else "")))
    if use.unknown_ns and not use.reason:
        source = "kernel time of which it cannot be told whether it uses tensor cores"
        facts.append(Fact("tc_unknown_pct", "TC unknown", use.unknown_pct, K.PERCENT, source))
    return facts


def _source(profile: Profile, frame: str, section: str) -> str:
    """Where the figures of a kind of work come from, in words."""
    single = profile[frame].height > 0
    own = set(profile[frame]["session"].unique())
    sessions = profile["summary"].filter(pl.col("section") == section)["session"].unique().to_list()
    printed = any(session not in own for session in sessions)
    parts = ["the single records of the trace"] if single else []
    return " and ".join([*parts, "the summary that the log holds"] if printed else parts)


def _sum(name: str, label: str, values: pl.Series, kind: ColumnKind, source: str, need: Need) -> Fact:
    value = int(values.sum()) if values.len() > values.null_count() else None
    return _fact(name, label, value, kind, source, need)


def _fact(name: str, label: str, value: Value, kind: ColumnKind, source: str, need: Need) -> Fact:
    if value is None:
        return Fact(name, label, None, kind, f"no {need.name}", need.record)
    return Fact(name, label, value, kind, source)


_SYSTEM: Final = (
    ("command", "Command"),
    ("pid", "Process"),
    ("format", "Format"),
    ("tool", "Profiler"),
    ("tool_version", "Profiler version"),
    ("framework", "Framework"),
    ("driver_version", "Driver"),
    ("cuda_version", "CUDA"),
    ("cudnn_version", "cuDNN"),
    ("host", "Host"),
)


def _system(profile: Profile) -> tuple[Fact, ...]:
    """What the log says of the system: each value once, those of several sessions joined by commas."""
    facts = []
    for column, label in _SYSTEM:
        values = profile["sessions"][column].drop_nulls().unique(maintain_order=True).cast(pl.String).to_list()
        if values:
            facts.append(Fact(column, label, ", ".join(values), K.TEXT, "as the log says"))
    ranks = profile["sessions"].select(rank_words())["rank_words"].drop_nulls().unique(maintain_order=True).to_list()
    if ranks:
        told = ", ".join(words.removeprefix("rank ") for words in ranks)
        facts.append(Fact("rank", "Rank", told, K.TEXT, "as the log says"))
    sessions = profile["sessions"].height
    if sessions > 1:
        facts.insert(0, Fact("sessions", "Sessions", sessions, K.COUNT, "profiled processes in the input"))
    step = profile["sessions"]["start_resolution_ns"].max()
    if isinstance(step, int) and step > 1:
        facts.append(Fact("start_resolution_ns", "Start times to", step, K.DURATION, "the digits that the log prints"))
    return tuple(facts)
