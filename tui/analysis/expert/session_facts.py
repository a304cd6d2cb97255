"""What is known of a session: who recorded it, its work by name, its GPUs and iterations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.figures import total
from tui.analysis.gpu_time.communication import COMMUNICATION
from tui.analysis.inputs.capabilities import missing
from tui.analysis.inputs.devices import device_facts
from tui.analysis.inputs.recording import Tool, tool_of
from tui.analysis.iterations.cutting import NOT_REPEATED
from tui.analysis.iterations.tables import iterations, sources
from tui.analysis.iterations.times import iteration_times
from tui.analysis.occupancy.theoretical import occupancy
from tui.analysis.ops.tables import classified_kernels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui.model.profile import Profile

COPY: Final = (
    "session", "activity", "name", "device", "start_ns", "duration_ns", "size_bytes", "copy_kind", "src_memory",
    "dst_memory", "correlation", "iteration", "line",
)  # fmt: skip
"""The columns of `SessionFacts.copies`."""
_COMPILERS: Final = {"jax": "one jax.jit of more of the step, lax.scan", "tensorflow": "tf.function(jit_compile=True)"}
"""Those of frameworks that are not PyTorch, by a part of the framework's name."""


class SessionFacts:
    """What several rules need to know of a session, worked out once.

    Args:
        profile: The rows of the session alone.
        session: Its number; None for all sessions.
        gpu: The name of the GPU, as the user gives it.
    """

    def __init__(self, profile: Profile, session: int | None, *, gpu: str | None = None) -> None:
        self.profile = profile
        self.session = session
        self.gpu = gpu
        self._names: dict[str, pl.Series] = {}

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
    def compiler(self) -> str:
        """What of its framework makes fewer launches and kernels of the program, in words."""
        framework = str(self.about["framework"] or "").lower()
        return next((words for name, words in _COMPILERS.items() if name in framework), "torch.compile")

    @cached_property
    def lacks(self) -> Mapping[str, str]:
        """What it could hold and does not: the name of the need, and what to say of it."""
        return {need.name: need.missing for need in missing(self.profile)}

    @cached_property
    def resolution_ns(self) -> int:
        """The coarsest step of its start times; 1 where it is not known."""
        return int(self.about["start_resolution_ns"] or 1)

    # --- rows of any frame by name ------------------------------------------------------------------------------------

    def names(self, frame: str, pattern: str) -> pl.Series:
        """The names in a frame that a regular expression finds, each once."""
        if frame not in self._names:
            self._names[frame] = self.profile[frame]["name"].unique(maintain_order=True).drop_nulls()
        names = self._names[frame]
        return names.filter(names.cast(pl.String).str.contains(pattern))

    def rows_named(self, frame: str, pattern: str, *columns: str) -> pl.DataFrame:
        """Some columns of the rows of a frame whose name a regular expression finds."""
        names, rows = self.names(frame, pattern), self.profile[frame].lazy()
        found = rows.filter(pl.col("name").is_in(names.implode())) if names.len() else rows.clear()
        return found.select(columns).collect()

    # --- GPU work by name ---------------------------------------------------------------------------------------------

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

    def weight(self, rows: pl.DataFrame) -> tuple[int, float]:
        """The summed durations of some work by name, and their share of the GPU time in percent."""
        taken = total(rows["total_ns"])
        return taken, self.share(taken)

    def share(self, part_ns: float) -> float:
        """A part of the GPU time, in percent; 0 where there is none."""
        return 100 * part_ns / self.gpu_ns if self.gpu_ns else 0.0

    @cached_property
    def copies(self) -> pl.DataFrame:
        """The single copies: what ``activities`` tells of them."""
        return self.profile["activities"].lazy().filter(pl.col("kind") == "memcpy").select(COPY).collect()

    # --- devices and launch configurations ----------------------------------------------------------------------------

    @cached_property
    def facts(self) -> pl.DataFrame:
        """`tui.analysis.inputs.devices.device_facts` of the devices that it names or uses."""
        return device_facts(self.profile, gpu=self.gpu)

    @cached_property
    def configs(self) -> pl.DataFrame:
        """`occupancy.theoretical.occupancy`: a row per kernel and configuration, with its blocks and GPU.

        Kernels of communication are left out: they take few SMs on purpose.
        """
        facts = self.facts.select("session", "device", "sm_count", "compute_capability")
        return (
            occupancy(self.profile, gpu=self.gpu)
            .join(self.computing.select("name"), on="name", how="semi", maintain_order="left")
            .join(facts, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left")
            .with_columns((pl.col("grid_x").cast(pl.Int64) * pl.col("grid_y") * pl.col("grid_z")).alias("blocks"))
        )

    # --- iterations ---------------------------------------------------------------------------------------------------

    @cached_property
    def iterations(self) -> pl.DataFrame:
        """The iterations whose time is known, in order; none where the whole run is one."""
        rows = iterations(self.profile).drop_nulls(["iteration", "duration_ns", "start_ns"])
        return rows.filter(pl.col("piece") != NOT_REPEATED).sort("start_ns")

    @cached_property
    def steady(self) -> Mapping[str, Any] | None:
        """The row of `iterations.times.iteration_times` with the steady stretch that view Iterations proposes.

        None where there is no such stretch, or of all sessions.
        """
        rows = iteration_times(self.profile).filter(pl.col("session") == self.session).drop_nulls("steady_first")
        return rows.row(0, named=True) if rows.height else None

    @cached_property
    def iterations_are(self) -> str:
        """Where iterations are from, in words, where they are not recorded."""
        told = set(sources(self.profile).values())
        if "key" in told:
            return f"those that end with {self.profile.aggregation.key}"
        return "found, not recorded" if "found" in told else ""
