"""The input of rules: a session with the thresholds, the kernels of each stream, and the verdicts of earlier rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.api_calls import api
from tui.analysis.capabilities import missing_needs
from tui.analysis.devices import device_facts, session_vendor
from tui.analysis.expert.finding_text import duration, known_sum
from tui.analysis.expert.in_use import InUse
from tui.analysis.gpu_time.breakdown import busy_intervals, wall_bounds
from tui.analysis.gpu_time.host_calls import call_intervals
from tui.analysis.gpu_time.idle_gaps import busy_time, device_gaps
from tui.analysis.gpu_time.interval_sets import EMPTY, FEW_STREAMS, distinct_values, row_intervals
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpu_time.timelines import COMMUNICATION, WorkKind, timelines, work_kinds
from tui.analysis.iterations.iteration_table import iterations, sources
from tui.analysis.iterations.segments import DETECTED, NOT_REPEATED
from tui.analysis.iterations.times import iteration_times
from tui.analysis.launch_calls import launch_calls
from tui.analysis.layers import layers
from tui.analysis.needs import Tool, recording_tool
from tui.analysis.occupancy import occupancy
from tui.analysis.ops.ops_by_name import classified_kernels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from typing import Any

    import numpy.typing as npt

    from tui.analysis.expert.rule import Limits, Need, Verdict
    from tui.analysis.gpu_time.idle_gaps import IdleGaps
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KernelSequence:
    """The kernels and whole CUDA graphs of one stream, by start; columns are extracted on demand."""

    timeline: Timeline
    """All work of the GPU."""
    positions: npt.NDArray[np.int32]
    """The positions of the kernels in ``timeline``."""
    all_names: npt.NDArray[np.uint32]
    """A number for the name of each row of ``activities``; of rows without a name the largest."""
    all_kinds: npt.NDArray[np.int8]
    """The `WorkKind` of each row."""

    def __len__(self) -> int:
        return len(self.positions)

    def sliced(self, selection: slice) -> KernelSequence:
        """Return a slice of the sequence."""
        return replace(self, positions=self.positions[selection])

    @property
    def first_row(self) -> int:
        """The row of the first one in ``activities``."""
        return int(self.timeline.rows_at(self.positions[:1])[0])

    @property
    def rows(self) -> Ints:
        """The row of each in ``activities``."""
        found: Ints = self.timeline.rows_at(self.positions)
        return found

    @property
    def names(self) -> npt.NDArray[np.uint32]:
        """The number of the name of each."""
        return self.timeline.take(self.all_names)[self._index]

    @property
    def starts(self) -> Ints:
        """The start of each."""
        found: Ints = self.timeline.starts[self._index]
        return found

    @property
    def ends(self) -> Ints:
        """The end of each."""
        found: Ints = self.timeline.ends[self._index]
        return found

    @property
    def is_communication(self) -> npt.NDArray[np.bool_]:
        """Flags of those that communicate."""
        found: npt.NDArray[np.bool_] = self.timeline.take(self.all_kinds)[self._index] == WorkKind.COMMUNICATION
        return found

    @property
    def _index(self) -> slice | npt.NDArray[np.int32]:
        """The positions; a slice if they are consecutive, which needs no copy."""
        if len(self) and self.positions[-1] - self.positions[0] == len(self) - 1:
            return slice(int(self.positions[0]), int(self.positions[-1]) + 1)
        return self.positions


def kernel_sequences(profile: Profile) -> list[KernelSequence]:
    """Return a sequence for each stream of each GPU that ran kernels with known times."""
    activities, kinds = profile["activities"], work_kinds(profile)
    codes = activities["name"].to_physical().fill_null(np.iinfo(np.uint32).max).to_numpy()
    return [
        KernelSequence(timeline, positions, codes, kinds)
        for timeline in timelines(profile)
        for positions in _positions_by_stream(
            timeline, activities["stream"], timeline.take(kinds) <= WorkKind.COMMUNICATION
        )
    ]


def _positions_by_stream(
    timeline: Timeline, streams: pl.Series, chosen: npt.NDArray[np.bool_]
) -> list[npt.NDArray[np.int32]]:
    """Return the positions of the chosen work, grouped by stream; streams are in order of their first work."""
    if not streams.null_count():
        work_streams = timeline.take(streams.to_numpy())
        distinct = list(islice(distinct_values(work_streams, chosen), FEW_STREAMS + 1))
        if len(distinct) <= FEW_STREAMS:
            return [np.flatnonzero(chosen & (work_streams == stream)).astype(np.int32) for stream in distinct]
    positions = np.flatnonzero(chosen).astype(np.int32)
    if not len(positions):
        return []
    named = streams.gather(pl.Series(timeline.rows_at(positions)))
    stream_frames = pl.DataFrame({"stream": named, "place": positions}).partition_by("stream", maintain_order=True)
    return [stream_frame["place"].to_numpy() for stream_frame in stream_frames]


STEP_TRACE: Final = "Step trace"
"""The section of ``tool_figures`` with the parts of each step, of Ascend's profilers."""
MIN_TABLE_PCT: Final = 95.0
"""If the shares of a printed table add up to less, rows are missing."""
COPY: Final = (
    "session", "activity", "name", "device", "start_ns", "duration_ns", "size_bytes", "copy_kind", "src_memory",
    "dst_memory", "correlation", "iteration", "line",
)  # fmt: skip
"""The columns of `Case.copies`."""
_COMPILERS: Final = {
    "torch": "torch.compile",
    "jax": "one jax.jit of more of the step, lax.scan",
    "tensorflow": "tf.function(jit_compile=True)",
}
"""Compilers by a part of the framework's name."""


_DEEP_LEARNING: Final = r"(?i)cudnn|miopen|nccl|nvjet|mxnet|paddle|caffe|triton|attention|softmax|batch_?norm"
_TENSORFLOW: Final = r"\btensorflow::|EigenMetaKernel"


class Case:
    """One session, or all sessions for rules that compare them; figures that several rules need are computed once.

    Args:
        profile: The rows of the session.
        session: Its number; None for all sessions.
        limits: The thresholds.
        full_profile: The whole profile.
    """

    def __init__(
        self,
        profile: Profile,
        session: int | None,
        limits: Limits,
        *,
        full_profile: Profile | None = None,
    ) -> None:
        self.profile = profile
        self.session = session
        self.limits = limits
        self.full_profile = full_profile or profile
        self.verdicts: dict[str, Verdict] = {}
        """The verdicts of the rules before this one."""
        self.judging: dict[str, Future[Verdict]] = {}
        """The verdicts that another thread may still compute."""
        self._names: dict[str, pl.Series] = {}
        self._lacks: dict[Need, str] = {}

    # --- thresholds and other rules -----------------------------------------------------------------------------------

    def limit(self, rule: str, name: str) -> float:
        """Return the value of a threshold."""
        return self.limits(rule, name)

    def has_finding(self, rule: str) -> bool:
        """Return whether an earlier rule found something."""
        from tui.analysis.expert.rule import Found

        return isinstance(self._verdict(rule), Found)

    def is_clean(self, rule: str) -> bool:
        """Return whether an earlier rule applies and found nothing."""
        from tui.analysis.expert.rule import Clean

        return isinstance(self._verdict(rule), Clean)

    def cause(self, rule: str) -> str:
        """Return the cause that an earlier rule found; empty if it found nothing, or its usual cause."""
        from tui.analysis.expert.rule import Found

        verdict = self._verdict(rule)
        return verdict.cause if isinstance(verdict, Found) else ""

    def inapplicable(self, *rules: str) -> str:
        """Return why one of several earlier rules does not apply; empty if all apply."""
        from tui.analysis.expert.rule import NotApplicable

        verdicts = map(self._verdict, rules)
        return next((verdict.reason for verdict in verdicts if isinstance(verdict, NotApplicable)), "")

    def _verdict(self, rule: str) -> Verdict:
        """Return the verdict of an earlier rule, which another thread may still judge.

        Raises:
            KeyError: The rule comes after the one that asks.
        """
        return self.judging[rule].result() if rule in self.judging else self.verdicts[rule]

    def unmet_need_reason(self, need: Need) -> str:
        """Return why it does not meet a need; empty if it does. Rules share needs, so each is checked once."""
        if need not in self._lacks:
            self._lacks[need] = need(self)
        return self._lacks[need]

    # --- the session -------------------------------------------------------------------------------------------------

    @cached_property
    def session_row(self) -> Mapping[str, Any]:
        """The row of ``sessions``."""
        rows = self.profile["sessions"]
        if self.session is not None:
            rows = rows.filter(pl.col("session") == self.session)
        return rows.row(0, named=True) if rows.height else dict.fromkeys(rows.columns)

    @cached_property
    def tool(self) -> Tool:
        """The tool that recorded it."""
        return recording_tool(self.session_row["format"], self.session_row["tool"])

    @property
    def are_kernels_repeated(self) -> bool:
        """Whether nvprof ran kernels several times to measure metrics, so that gaps between them mean nothing."""
        return self.tool is Tool.NVPROF and self.profile["metrics"].height > 0

    @cached_property
    def framework(self) -> str:
        """The framework that ran it: torch, jax or tensorflow; empty if it is another or unknown."""
        named = str(self.session_row["framework"] or "").lower()
        framework_name = next((name for name in _COMPILERS if name in named), "")
        if framework_name or named:
            return framework_name
        if self.is_torch:
            return "torch"
        return "tensorflow" if self.kernels["name"].cast(pl.String).str.contains(_TENSORFLOW).any() else ""

    @property
    def compiler(self) -> str:
        """The compiler of its framework, which makes fewer kernels; empty if the framework is unknown."""
        return _COMPILERS.get(self.framework, "")

    @cached_property
    def is_torch(self) -> bool:
        """Whether PyTorch ran it."""
        framework = str(self.session_row["framework"] or "").lower()
        if framework:
            return "torch" in framework
        if any(self.names(frame, r"^aten::|at::native").len() for frame in ("ops", "activities")):
            return True
        return bool(self.kernels["name"].cast(pl.String).str.contains("at::native", literal=True).any())

    @cached_property
    def has_batches(self) -> bool:
        """Whether a framework or library of deep learning ran it, so that the batch size can be changed."""
        if self.framework or self.session_row["framework"] or self.profile["ops"].height:
            return True
        return bool(self.kernels["name"].cast(pl.String).str.contains(_DEEP_LEARNING).any())

    @cached_property
    def missing(self) -> Mapping[str, str]:
        """The data that is not recorded: the sentence of each need, by name."""
        return {need.name: need.missing for need in missing_needs(self.profile)}

    @cached_property
    def resolution_ns(self) -> int:
        """The coarsest resolution of its start times; 1 if unknown."""
        return int(self.session_row["start_resolution_ns"] or 1)

    # --- rows of any frame by name ------------------------------------------------------------------------------------

    def names(self, frame: str, pattern: str) -> pl.Series:
        """Return the distinct names in a frame that match a regular expression."""
        if frame not in self._names:
            self._names[frame] = self.profile[frame]["name"].unique(maintain_order=True).drop_nulls()
        names = self._names[frame]
        return names.filter(names.cast(pl.String).str.contains(pattern))

    def rows_named(self, frame: str, pattern: str, *columns: str) -> pl.DataFrame:
        """Return columns of the rows of a frame whose name matches a regular expression."""
        names, rows = self.names(frame, pattern), self.profile[frame].lazy()
        matching = rows.filter(pl.col("name").is_in(names.implode())) if names.len() else rows.clear()
        return matching.select(columns).collect()

    # --- GPU work by name ---------------------------------------------------------------------------------------------

    @cached_property
    def work(self) -> pl.DataFrame:
        """GPU work by name: `tui.analysis.ops.ops_by_name.classified_kernels`, ``op_type`` as text."""
        return classified_kernels(self.profile).with_columns(pl.col("op_type", "kind").cast(pl.String))

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels by name."""
        return self.work.filter(pl.col("kind") == "kernel")

    @cached_property
    def computing(self) -> pl.DataFrame:
        """Kernels by name, without communication."""
        return self.kernels.filter(pl.col("op_type") != COMMUNICATION)

    @cached_property
    def gpu_ns(self) -> int:
        """Summed durations of all GPU work."""
        return int(self.work["total_ns"].sum())

    @cached_property
    def kernel_ns(self) -> int:
        """Summed durations of kernels and whole CUDA graphs."""
        return int(self.work.filter(pl.col("kind").is_in(["kernel", "graph"]))["total_ns"].sum())

    @cached_property
    def is_table_cut(self) -> bool:
        """Whether rows of a printed table of GPU work are missing: their shares add up to less than all of it."""
        return 0 < self._printed_pct < MIN_TABLE_PCT

    @cached_property
    def _printed_pct(self) -> float:
        """The sum of the printed shares of GPU work; 100 if none are printed."""
        shares = self.profile["summary"].filter(pl.col("section") == "gpu")["time_pct"].drop_nulls()
        return float(shares.sum()) if shares.len() and self.profile["activities"].is_empty() else 100.0

    @cached_property
    def all_gpu_ns(self) -> float:
        """The GPU time that shares refer to; for a table with missing rows, it is computed from the printed shares."""
        return 100 * self.gpu_ns / self._printed_pct if self.is_table_cut else self.gpu_ns

    def kind_time_ns(self, *kinds: str) -> int:
        """Return the summed durations of some kinds of work."""
        return sum(self._ns_by_kind.get(kind, 0) for kind in kinds)

    @cached_property
    def _ns_by_kind(self) -> Mapping[str, int]:
        """Summed durations of each kind of work."""
        return dict(self.work.group_by("kind").agg(pl.col("total_ns").sum()).iter_rows())

    def total_and_share(self, rows: pl.DataFrame) -> tuple[int, float]:
        """Return the summed durations of some work by name, and their share of the GPU time in percent."""
        total_ns = known_sum(rows["total_ns"])
        return total_ns, self.share(total_ns)

    def share(self, part_ns: float) -> float:
        """Return a part of the GPU time, in percent; 0 if there is none."""
        return 100 * part_ns / self.all_gpu_ns if self.all_gpu_ns else 0.0

    @cached_property
    def copies(self) -> pl.DataFrame:
        """The single copies: their columns of ``activities``."""
        return self.profile["activities"].lazy().filter(pl.col("kind") == "memcpy").select(COPY).collect()

    # --- devices and launch configurations ----------------------------------------------------------------------------

    @cached_property
    def vendor(self) -> str:
        """The vendor of the GPUs: NVIDIA unless the input says otherwise, empty if unknown (in Perfetto traces)."""
        named = self.facts["vendor"].drop_nulls()
        unnamed = "" if self.tool is Tool.PERFETTO else "NVIDIA"
        return str(named[0]) if named.len() else session_vendor(self.profile).name or unnamed

    @property
    def api_name(self) -> str:
        """The name of the API of its GPUs."""
        return "CUDA" if self.vendor == "NVIDIA" else session_vendor(self.profile).api

    @cached_property
    def facts(self) -> pl.DataFrame:
        """`tui.analysis.devices.device_facts` of the devices that it names or uses."""
        return device_facts(self.profile)

    @cached_property
    def configs(self) -> pl.DataFrame:
        """`tui.analysis.occupancy.occupancy`: a row per kernel and configuration, with its blocks and GPU.

        Communication kernels are omitted: they use few SMs on purpose.
        """
        facts = self.facts.select("session", "device", "sm_count", "compute_capability")
        return (
            occupancy(self.profile)
            .join(self.computing.select("name"), on="name", how="semi", maintain_order="left")
            .join(facts, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
            .with_columns((pl.col("grid_x").cast(pl.Int64) * pl.col("grid_y") * pl.col("grid_z")).alias("blocks"))
        )

    def short_span_reason(self, chunks: int) -> str:
        """Return why a run cannot be divided into that many chunks; empty if it can."""
        if self.span_ns >= chunks * self.resolution_ns:
            return ""
        return f"the span of {duration(self.span_ns)} is too short to be cut into {chunks} parts"

    # --- iterations ---------------------------------------------------------------------------------------------------

    @cached_property
    def iterations(self) -> pl.DataFrame:
        """The iterations whose time is known, in order; none if the whole run is one."""
        rows = iterations(self.profile).drop_nulls(["iteration", "duration_ns", "start_ns"])
        return rows.filter(pl.col("phase") != NOT_REPEATED).sort("start_ns")

    @cached_property
    def steady(self) -> Mapping[str, Any] | None:
        """The row of `iterations.times.iteration_times` with the steady stretch that view Iterations proposes.

        None if there is no such stretch, or for all sessions.
        """
        rows = iteration_times(self.profile).filter(pl.col("session") == self.session).drop_nulls("steady_first")
        return rows.row(0, named=True) if rows.height else None

    @cached_property
    def iterations_note(self) -> str:
        """How iterations were found, as text, if they are not recorded."""
        known_sources = set(sources(self.profile).values())
        if "key" in known_sources:
            return f"those that end with {self.profile.aggregation.key}"
        return "detected, not recorded" if DETECTED in known_sources else ""

    # --- time ---------------------------------------------------------------------------------------------------------

    @cached_property
    def gpu_timelines(self) -> tuple[Timeline, ...]:
        """The work of each GPU whose start and duration are known, in time order."""
        return timelines(self.profile)

    @cached_property
    def device_gaps(self) -> list[tuple[Timeline, IdleGaps]]:
        """The idle gaps of each GPU between its first and last work."""
        return list(zip(self.gpu_timelines, device_gaps(self.profile), strict=True))

    def busy_intervals(self, timeline: Timeline) -> IntervalSet:
        """Return the intervals in which the GPU of one of `gpu_timelines` was busy."""
        return busy_intervals(self.profile)[timeline.session, timeline.device]

    @cached_property
    def sequences(self) -> list[KernelSequence]:
        """The kernels of each stream in order."""
        return kernel_sequences(self.profile)

    def overlap_ns(self, column: str) -> int:
        """Return a time of `tui.analysis.gpu_time.overlap.overlap`, of all GPUs together."""
        return known_sum(overlap(self.profile)[column])

    @cached_property
    def busy(self) -> pl.DataFrame:
        """`tui.analysis.gpu_time.idle_gaps.busy_time`."""
        return busy_time(self.profile)

    @cached_property
    def span_ns(self) -> int:
        """From the first start to the last end of GPU work; 0 if that is not known."""
        return int(self.busy["span_ns"].max() or 0) if self.busy.height else 0  # type: ignore[arg-type]

    @cached_property
    def total_span_ns(self) -> int:
        """The same, once for each GPU."""
        return self.span_ns * self.busy.height

    @cached_property
    def wall(self) -> tuple[int, int]:
        """The bounds of the session's wall time (`gpu_time.breakdown.wall_bounds`); for all sessions, the longest.

        (0, 0) if it has none, or if a profiler repeated the kernels.
        """
        if self.are_kernels_repeated:
            return 0, 0
        bounds = [bounds for session, bounds in wall_bounds(self.profile).items() if self.session in (None, session)]
        return max(bounds, key=lambda bound: bound[1] - bound[0], default=(0, 0))

    @property
    def wall_ns(self) -> int:
        """The wall time, which shares in findings refer to; 0 if nothing has a time."""
        return self.wall[1] - self.wall[0]

    @cached_property
    def cost_basis_ns(self) -> float:
        """The time that costs are shares of: the wall time; with totals only, the longer of GPU and API time.

        If neither is recorded, it is the time of the steps or layers in the file.
        """
        measured_ns = self.wall_ns or max(self.all_gpu_ns, self.api_ns)
        return measured_ns or known_sum(self.steps["total_ns"]) or known_sum(self.layers["measured_ns"])

    @cached_property
    def cost_basis_text(self) -> str:
        """The name of `cost_basis_ns`."""
        if self.wall_ns:
            return "wall time"
        if self.all_gpu_ns or self.api_ns:
            return "GPU time" if self.all_gpu_ns >= self.api_ns else "API time"
        return "step time" if self.steps.height else "layer time"

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Times of steps or, for a cluster, of ranks, from the profiler: one row each, in the order of the file.

        Columns: name, line, compute_ns, exposed_comm_ns, free_ns (neither computes nor communicates), total_ns.
        """
        figures = self.profile["tool_figures"].filter(pl.col("section") == STEP_TRACE).drop_nulls(["name", "value"])
        figures_by_part = figures.select(
            "line",
            pl.col("name").cast(pl.String).str.extract(r"^(.*): ").alias("name"),
            pl.col("name").cast(pl.String).str.extract(r": ([^:]*)$").alias("part"),
            pl.col("value").round().cast(pl.Int64),
        ).filter(~pl.col("name").str.contains("stage "))
        column_names = {
            "Computing": "compute_ns",
            "Communication(Not Overlapped)": "exposed_comm_ns",
            "Free": "free_ns",
        }
        sums = [
            pl.col("value").filter(pl.col("part") == part_name).sum().alias(name)
            for part_name, name in column_names.items()
        ]
        rows = figures_by_part.drop_nulls(["name", "part"]).group_by("line", "name", maintain_order=True).agg(sums)
        return rows.with_columns(pl.sum_horizontal(*column_names.values()).alias("total_ns")).filter(
            pl.col("total_ns") > 0
        )

    @cached_property
    def layers(self) -> pl.DataFrame:
        """`tui.analysis.layers.layers` that were measured."""
        return layers(self.profile).filter(pl.col("measured_ns").is_not_null())

    def wall_pct(self, part_ns: float) -> float:
        """Return a time over all GPUs as a percentage of their wall time; 0 if that is unknown."""
        wall_ns = self.wall_ns * max(self.busy.height, 1)
        return 100 * part_ns / wall_ns if wall_ns else 0.0

    @cached_property
    def wall_words(self) -> str:
        """The name of the time that `wall_pct` refers to."""
        return "wall time" if self.busy.height < 2 else f"wall time of {self.busy.height} GPUs"

    @cached_property
    def saving_by_faster_kernels(self) -> float:
        """The share of the time saved in kernels by which the run gets shorter, at a guess: the rest adds to idle time.

        1 unless the GPU is found to wait; start-up is no wait.
        """
        from tui.analysis.expert.rule import Cause, Found

        low_use, late_launches = self.verdicts.get("U1"), self.verdicts.get("U6")
        if isinstance(low_use, Found) and low_use.cause != Cause.START_UP:
            return float(low_use.numbers["busy_pct"] or 0) / 100
        if isinstance(late_launches, Found) and late_launches.cause != Cause.START_UP:
            return 1 - float(late_launches.numbers["host_wait_pct"] or 0) / 100
        return 1.0

    @cached_property
    def in_use(self) -> InUse:
        """The optimizations that the program already uses."""
        return InUse(self)

    @cached_property
    def launched(self) -> pl.DataFrame:
        """Kernels and whole CUDA graphs whose times and launching call are known.

        Columns: name, duration_ns, launch_ns, call_ns (how long the call took, null if that is not known),
        launched_with (as in `tui.analysis.launch_calls.launch_calls`).
        """
        calls = launch_calls(self.profile)
        return (
            self.profile["activities"]
            .lazy()
            .select(
                "name",
                "duration_ns",
                launch_ns=calls["launch_ns"],
                call_ns=calls["launch_end_ns"] - calls["launch_ns"],
                launched_with=calls["launched_with"],
                is_known=calls["launch_ns"].is_not_null() & pl.Series(self.is_kernel_timed),
            )
            .filter("is_known")
            .drop("is_known")
            .collect()
        )

    @cached_property
    def launches(self) -> int:
        """The number of rows of `launched`."""
        launch_ns = launch_calls(self.profile)["launch_ns"]
        timed = self.is_kernel_timed
        return int((timed & launch_ns.is_not_null().to_numpy()).sum() if launch_ns.null_count() else timed.sum())

    @cached_property
    def is_kernel_timed(self) -> npt.NDArray[np.bool_]:
        """Flags of the rows of ``activities`` that are kernels or whole CUDA graphs with known times."""
        rows = self.profile["activities"]
        is_timed: npt.NDArray[np.bool_] = work_kinds(self.profile) <= WorkKind.COMMUNICATION
        for name in ("start_ns", "duration_ns"):
            if rows[name].null_count():
                is_timed &= rows[name].is_not_null().to_numpy()
        return is_timed

    # --- the CPU ------------------------------------------------------------------------------------------------------

    @cached_property
    def api(self) -> pl.DataFrame:
        """API calls by name, ``name`` as text."""
        return api(self.profile).with_columns(pl.col("name").cast(pl.String))

    @cached_property
    def api_ns(self) -> int:
        """Summed durations of all API calls."""
        return int(self.api["total_ns"].sum())

    def api_named(self, pattern: str) -> pl.DataFrame:
        """Return the API functions whose name matches a regular expression."""
        return self.api.filter(pl.col("name").str.contains(pattern))

    def calls_named(self, pattern: str, *columns: str) -> pl.DataFrame:
        """Return single API calls with known times whose name matches a regular expression.

        Args:
            pattern: The regular expression.
            columns: Further columns, in addition to name, start_ns and duration_ns.
        """
        shown = ("name", "start_ns", "duration_ns", *columns)
        return self.rows_named("api_calls", pattern, *shown).drop_nulls(["start_ns", "duration_ns"])

    def calls_longer_than(self, pattern: str, min_ns: float, *columns: str) -> tuple[int, pl.DataFrame]:
        """Return the number of rows of `calls_named`, and those that took longer than ``min_ns`` ns."""
        names, rows = self.names("api_calls", pattern), self.profile["api_calls"].lazy()
        timed = pl.col("start_ns").is_not_null() & pl.col("duration_ns").is_not_null()
        is_selected = timed & pl.col("name").is_in(names.implode()) if names.len() else pl.lit(False)
        number = rows.select(is_selected.sum()).collect().item()
        taking = rows.filter(pl.col("duration_ns") > min_ns, is_selected) if number else rows.clear()
        return number, taking.select("name", "start_ns", "duration_ns", *columns).collect()

    @cached_property
    def in_calls(self) -> IntervalSet:
        """The times in which any thread was in an API call."""
        if self.session is None:
            return row_intervals(self.profile["api_calls"])
        return call_intervals(self.profile).get(self.session, EMPTY)

    @cached_property
    def call_starts(self) -> npt.NDArray[np.int64]:
        """The starts of the API calls, in order."""
        return self.profile["api_calls"]["start_ns"].drop_nulls().sort().to_numpy()
