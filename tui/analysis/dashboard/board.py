"""The dashboard: where the time went, at a glance, and what the input cannot say. Values and frames, no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.api import api
from tui.analysis.dashboard.performance import performance
from tui.analysis.dashboard.sums import copies_over_sessions, ops_over_sessions, over_sessions, split
from tui.analysis.dashboard.system import system
from tui.analysis.dashboard.uses import gpu_uses_of
from tui.analysis.gpu_time.utilisation import utilisation
from tui.analysis.inputs.capabilities import to_ask_for
from tui.analysis.inputs.devices import device_facts
from tui.analysis.inputs.replayed import replayed_sessions, why_left_out, without_sessions
from tui.analysis.issues import issue_counts
from tui.analysis.kernels import kernels
from tui.analysis.ops.by_type import kinds_of_work
from tui.analysis.ops.tables import inferred_ops
from tui.analysis.ops.work import recorded_sessions
from tui.analysis.tensor_cores.efficiency import tensor_core_time, tensor_core_use
from tui.analysis.tool_report import headlines

if TYPE_CHECKING:
    from tui.analysis.dashboard.facts import Fact
    from tui.analysis.inputs.recording import Need
    from tui.analysis.tensor_cores.efficiency import TensorCoreUse
    from tui.model.profile import Profile

TOP: Final = 10
"""Rows of the short tables."""

ORDERS: Final = ("total_ns", "calls", "avg_ns")
"""What the short tables can be in order of, the largest first."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Everything that the dashboard shows, over all sessions of the profile."""

    performance: tuple[Fact, ...]
    """Performance summary."""

    split: pl.DataFrame
    """GPU time by kind of work (`tui.analysis.ops.by_type.kinds_of_work`), largest first: group, calls, total_ns,
    time_pct, members (op types that it sums). At most `SPLIT` rows and one called `REST`; they add up to the GPU
    time."""

    ops: pl.DataFrame
    """Ops by GPU time, the largest first: op, op_type, direction, group, kernels, calls, launches, total_ns, avg_ns,
    time_pct, uses_tensor_core, tc_eligible, op_source. Of a recorded op ``total_ns`` is what it launched itself; work
    without an op is in the list as well. Of what is not recorded only launches are known, no calls."""

    ops_recorded: int
    """In so many sessions with GPU work ops are recorded."""

    ops_inferred: int
    """In so many they are inferred from the names of kernels."""

    kernels: pl.DataFrame
    """Kernels by GPU time, the largest first: name, short_name, calls, total_ns, avg_ns, time_pct, uses_tensor_core."""

    gpu_uses: pl.DataFrame
    """GPU time by what it went into (`tui.analysis.dashboard.uses`): use, calls, total_ns, time_pct; adds up to all."""

    tensor_cores: TensorCoreUse
    """Kernel time that uses, or could use, tensor cores."""

    top_api: pl.DataFrame
    """The `TOP` API functions with most time: name, calls, total_ns, avg_ns, time_pct."""

    copies: pl.DataFrame
    """By direction: kind, copy_kind, calls, total_ns, size_bytes, throughput, time_pct."""

    devices: pl.DataFrame
    """`tui.analysis.inputs.devices.device_facts`, with busy_ns, idle_ns and busy_pct where start times are known."""

    sessions: pl.DataFrame
    """The frame ``sessions``."""

    system: tuple[Fact, ...]
    """System configuration: only what the input says."""

    issues: Mapping[str, int]
    """Number of issues by severity."""

    missing: tuple[Need, ...]
    """What the input cannot say, and how to record it."""

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

    @property
    def counted_ops(self) -> str:
        """What the ops are counted in: ``calls``, or ``launches`` where no ops are recorded."""
        return "calls" if self.ops_recorded else "launches"

    @property
    def top_ops(self) -> pl.DataFrame:
        """The `TOP` ops with most GPU time."""
        return top(self.ops)

    @property
    def top_kernels(self) -> pl.DataFrame:
        """The `TOP` kernels with most GPU time."""
        return top(self.kernels)


def top(rows: pl.DataFrame, by: str = ORDERS[0]) -> pl.DataFrame:
    """The `TOP` rows of ops or kernels.

    Args:
        rows: The largest total first.
        by: One of `ORDERS`, or another column; rows that are equal in it keep their order.
    """
    return rows.sort(by, descending=True, nulls_last=True, maintain_order=True).head(TOP)


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
    rows, calls, busy = kernels(profile), api(profile), utilisation(profile)
    kernel_time = tensor_core_time(profile)
    use = tensor_core_use(kernel_time)
    return Dashboard(
        performance=performance(profile, rows, calls, busy, use),
        split=split(over_sessions(kinds_of_work(profile), "op_type", "direction", "group")),
        ops=ops_over_sessions(profile),
        ops_recorded=rows.filter(pl.col("session").is_in(recorded_sessions(profile).implode()))["session"].n_unique(),
        ops_inferred=inferred_ops(profile)["session"].n_unique(),
        kernels=over_sessions(rows.filter(pl.col("kind") == "kernel"), "name", "short_name", of=rows),
        gpu_uses=gpu_uses_of(rows, kernel_time),
        tensor_cores=use,
        top_api=over_sessions(calls, "name").head(TOP),
        copies=copies_over_sessions(profile),
        devices=device_facts(profile, gpu=gpu).join(
            busy.select("session", "device", "busy_ns", "idle_ns", "busy_pct"),
            on=["session", "device"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        ),
        sessions=whole["sessions"],
        system=system(whole),
        issues=issue_counts(whole),
        missing=tuple(to_ask_for(whole)),
        layers=profile["layers"].height,
        tool_says=headlines(whole),
        tool_rows=whole["tool_figures"].height + whole["tool_findings"].height,
        left_out=why_left_out(replayed),
        partial=profile.partial,
    )
