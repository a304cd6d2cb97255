"""What rules look at: one session of a profile, with what several rules need worked out once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.api import api
from tui.analysis.expert.spans import GpuTime
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.inputs.capabilities import missing
from tui.analysis.inputs.devices import device_facts
from tui.analysis.inputs.recording import Tool, tool_of
from tui.analysis.iterations.cutting import NOT_REPEATED
from tui.analysis.iterations.tables import iterations
from tui.analysis.launches.delays import launch_calls
from tui.analysis.occupancy.theoretical import occupancy
from tui.analysis.ops.rules import classify
from tui.analysis.ops.tables import classified_kernels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui.analysis.expert.limits import Limits
    from tui.analysis.expert.model import Verdict
    from tui.model.profile import Profile

COMMUNICATION = "communication"
"""The op type of the kernels of NCCL, RCCL and NVSHMEM."""


def _in_order(values: pl.Series) -> bool:
    numbers = values.to_numpy()
    return not (numbers[1:] < numbers[:-1]).any()


def parts_of(rows: pl.DataFrame, *by: str) -> list[pl.DataFrame]:
    """The rows by some columns, in order; as they are where the columns hold one value only."""
    if rows.is_empty():
        return []
    if all(rows[column].n_unique() == 1 for column in by):
        return [rows]
    return rows.partition_by(by, maintain_order=True)


class Case:
    """One session, or for rules that compare sessions all of them.

    Args:
        profile: The rows of the session alone.
        session: Its number; None for all sessions.
        limits: The thresholds.
        gpu: The name of the GPU, as the user gives it.
        whole: Everything that was read.
    """

    def __init__(
        self,
        profile: Profile,
        session: int | None,
        limits: Limits,
        *,
        gpu: str | None = None,
        whole: Profile | None = None,
    ) -> None:
        self.profile = profile
        self.session = session
        self.limits = limits
        self.gpu = gpu
        self.whole = whole or profile
        self.verdicts: dict[str, Verdict] = {}
        """What the rules before this one have answered."""

    def limit(self, rule: str, name: str) -> float:
        """A threshold."""
        return self.limits(rule, name)

    def found(self, rule: str) -> bool:
        """Whether a rule before this one was found."""
        from tui.analysis.expert.model import Found

        return isinstance(self.verdicts.get(rule), Found)

    # --- what it is --------------------------------------------------------------------------------------------------

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """The row of ``sessions``."""
        rows = self.profile["sessions"]
        if self.session is not None:
            rows = rows.filter(pl.col("session") == self.session)
        return rows.row(0, named=True) if rows.height else dict.fromkeys(rows.columns)

    @cached_property
    def tool(self) -> Tool:
        """Who recorded it."""
        return tool_of(self.about["format"], self.about["tool"])

    @cached_property
    def lacks(self) -> Mapping[str, str]:
        """What it could hold and does not: the name of the need, and what to say of it."""
        return {need.name: need.missing for need in missing(self.profile)}

    @cached_property
    def resolution_ns(self) -> int:
        """The coarsest step of its start times; 1 where it is not known."""
        return int(self.about["start_resolution_ns"] or 1)

    # --- GPU work by name --------------------------------------------------------------------------------------------

    @cached_property
    def work(self) -> pl.DataFrame:
        """GPU work by name: `tui.analysis.ops.tables.classified_kernels`, ``op_type`` as text."""
        return classified_kernels(self.profile).with_columns(pl.col("op_type", "kind").cast(pl.String))

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels by name."""
        return self.work.filter(pl.col("kind") == "kernel")

    @cached_property
    def computing(self) -> pl.DataFrame:
        """Kernels by name without those that communicate."""
        return self.kernels.filter(pl.col("op_type") != COMMUNICATION)

    @cached_property
    def gpu_ns(self) -> int:
        """Summed durations of all GPU work."""
        return int(self.work["total_ns"].sum())

    @cached_property
    def kernel_ns(self) -> int:
        """Summed durations of kernels and whole CUDA graphs."""
        return int(self.work.filter(pl.col("kind").is_in(["kernel", "graph"]))["total_ns"].sum())

    def time_of(self, *kinds: str) -> int:
        """Summed durations of some kinds of work."""
        return int(self.work.filter(pl.col("kind").is_in(kinds))["total_ns"].sum())

    def share(self, part_ns: float) -> float:
        """A part of the GPU time, in percent; 0 where there is none."""
        return 100 * part_ns / self.gpu_ns if self.gpu_ns else 0.0

    # --- GPU work over time ------------------------------------------------------------------------------------------

    @cached_property
    def timed(self) -> pl.DataFrame:
        """GPU work whose start and duration are known, by device and start.

        Columns: session, activity, name, kind, device, stream, start_ns, end_ns, duration_ns, correlation, copy_kind,
        line, row (in ``activities``), is_kernel (a kernel or a whole graph), is_copy, is_communication.
        """
        rows = self.profile["activities"]
        names = classify(rows["name"])
        communicating = names.filter(pl.col("op_type").cast(pl.String) == COMMUNICATION)["name"]
        talks = pl.col("name").is_in(communicating.implode()).fill_null(False) if communicating.len() else pl.lit(False)
        found = (
            rows.lazy()
            .with_row_index("row")
            .filter(pl.col("start_ns").is_not_null(), pl.col("duration_ns").is_not_null())
            .select(
                "session",
                "activity",
                "name",
                "kind",
                "device",
                "stream",
                "start_ns",
                (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
                "duration_ns",
                "correlation",
                "copy_kind",
                "line",
                ((pl.col("kind") == "kernel") | (pl.col("kind") == "graph")).fill_null(False).alias("is_kernel"),
                (pl.col("kind") == "memcpy").fill_null(False).alias("is_copy"),
                talks.alias("is_communication"),
                "row",
            )
            .collect()
        )
        if _in_order(found["start_ns"]) and found["device"].n_unique() <= 1:
            return found
        return found.sort("device", "start_ns", maintain_order=True)

    @cached_property
    def gpus(self) -> tuple[GpuTime, ...]:
        """The same by device."""
        return self.gpus_of(self.timed)

    @staticmethod
    def gpus_of(timed: pl.DataFrame) -> tuple[GpuTime, ...]:
        """Rows of `timed` of one session by device."""
        return tuple(GpuTime(part["device"][0], part) for part in parts_of(timed, "device"))

    @cached_property
    def sessions_timed(self) -> list[pl.DataFrame]:
        """`timed` of each session, for rules that compare them."""
        return self.timed.partition_by("session", maintain_order=True)

    @cached_property
    def busy(self) -> pl.DataFrame:
        """`tui.analysis.gpu_time.intervals.busy_time`."""
        return busy_time(self.profile)

    @cached_property
    def span_ns(self) -> int:
        """From the first start to the last end of GPU work; 0 where that is not known."""
        return int(self.busy["span_ns"].max() or 0) if self.busy.height else 0  # type: ignore[arg-type]

    @cached_property
    def span_of_all_ns(self) -> int:
        """The same, once for each GPU."""
        return self.span_ns * self.busy.height

    def of_span(self, part_ns: float) -> float:
        """A time of all GPUs together as a share of the span, in percent; 0 where there is no span."""
        return 100 * part_ns / self.span_of_all_ns if self.span_of_all_ns else 0.0

    @cached_property
    def launched(self) -> pl.DataFrame:
        """`timed` with the begin and end of the call that launched each, launch_ns and call_end_ns, where known."""
        calls = launch_calls(self.profile)
        row = self.timed["row"]
        return self.timed.with_columns(
            calls["launch_ns"].gather(row), calls["launch_end_ns"].gather(row).alias("call_end_ns")
        ).drop_nulls("launch_ns")

    @cached_property
    def copies(self) -> pl.DataFrame:
        """The single copies, as in ``activities``."""
        return self.profile["activities"].filter(pl.col("kind") == "memcpy")

    # --- the CPU -----------------------------------------------------------------------------------------------------

    @cached_property
    def api(self) -> pl.DataFrame:
        """API calls by name, ``name`` as text."""
        return api(self.profile).with_columns(pl.col("name").cast(pl.String))

    @cached_property
    def api_ns(self) -> int:
        """Summed durations of all API calls."""
        return int(self.api["total_ns"].sum())

    def api_named(self, pattern: str) -> pl.DataFrame:
        """API functions whose name a regular expression finds."""
        return self.api.filter(pl.col("name").str.contains(pattern))

    def calls_named(self, pattern: str) -> pl.DataFrame:
        """Single API calls whose name a regular expression finds, whose times are known."""
        names = self.api_named(pattern)["name"].to_list()
        calls = self.profile["api_calls"]
        return calls.filter(pl.col("name").cast(pl.String).is_in(names)).drop_nulls(["start_ns", "duration_ns"])

    # --- devices and launch configurations ---------------------------------------------------------------------------

    @cached_property
    def facts(self) -> pl.DataFrame:
        """`tui.analysis.inputs.devices.device_facts` of the devices that it names or uses."""
        return device_facts(self.profile, gpu=self.gpu)

    @cached_property
    def facts_used(self) -> pl.DataFrame:
        """The same of the devices that it uses."""
        used = self.profile["activities"].select("session", "device").unique()
        return self.facts.join(used, on=["session", "device"], how="semi", nulls_equal=True)

    @cached_property
    def configs(self) -> pl.DataFrame:
        """`occupancy.theoretical.occupancy`: one row per kernel and launch configuration, with sm_count and blocks.

        Kernels of communication are left out: they take few SMs on purpose.
        """
        facts = self.facts.select("session", "device", "sm_count", "compute_capability")
        return (
            occupancy(self.profile, gpu=self.gpu)
            .join(self.computing.select("name"), on="name", how="semi", maintain_order="left")
            .join(facts, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
            .with_columns((pl.col("grid_x").cast(pl.Int64) * pl.col("grid_y") * pl.col("grid_z")).alias("blocks"))
        )

    # --- iterations --------------------------------------------------------------------------------------------------

    @cached_property
    def iterations(self) -> pl.DataFrame:
        """The iterations whose time is known, in order; none where the whole run is one."""
        rows = iterations(self.profile).drop_nulls(["iteration", "duration_ns", "start_ns"])
        return rows.filter(pl.col("piece") != NOT_REPEATED).sort("start_ns")
