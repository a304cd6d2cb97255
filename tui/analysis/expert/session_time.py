"""The time of a session: when its GPUs had work, and what the CPU called meanwhile."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from tui.analysis.api import api
from tui.analysis.expert.figures import total
from tui.analysis.expert.sequences import kernel_sequences
from tui.analysis.gpu_time.communication import WorkKind, work_kinds
from tui.analysis.gpu_time.holes import busy_sets, holes
from tui.analysis.gpu_time.host_calls import call_spans
from tui.analysis.gpu_time.interval_sets import EMPTY, spans_of
from tui.analysis.gpu_time.intervals import busy_time
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpu_time.timelines import timelines
from tui.analysis.launches.delays import launch_calls

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tui.analysis.expert.sequences import KernelSequence
    from tui.analysis.gpu_time.holes import Holes
    from tui.analysis.gpu_time.interval_sets import IntervalSet
    from tui.analysis.gpu_time.timelines import Timeline

from tui.analysis.expert.session_facts import SessionFacts


class SessionTime(SessionFacts):
    """What several rules need to know of the time of a session, worked out once."""

    @cached_property
    def lines(self) -> tuple[Timeline, ...]:
        """The work of each GPU whose start and duration are known, in order of time."""
        return timelines(self.profile)

    @cached_property
    def holes(self) -> list[tuple[Timeline, Holes]]:
        """The idle gaps of each GPU between its first and last work."""
        return list(zip(self.lines, holes(self.profile), strict=True))

    def working(self, line: Timeline) -> IntervalSet:
        """When the GPU of one of `lines` had work."""
        sets = zip(self.lines, busy_sets(self.profile), strict=True)
        return next(busy for own, busy in sets if (own.session, own.device) == (line.session, line.device))

    @cached_property
    def sequences(self) -> list[KernelSequence]:
        """The kernels of each stream in order."""
        return kernel_sequences(self.profile)

    def together(self, column: str) -> int:
        """A time of `tui.analysis.gpu_time.overlap.overlap`, of all GPUs together."""
        return total(overlap(self.profile)[column])

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
    def spans(self) -> str:
        """What `of_span` is a share of, in words."""
        return "span" if self.busy.height < 2 else f"span of {self.busy.height} GPUs"

    @cached_property
    def together_words(self) -> str:
        """What is said behind a time that is the sum over several GPUs: it can be longer than the run."""
        return "" if self.busy.height < 2 else f", of {self.busy.height} GPUs together"

    @cached_property
    def launched(self) -> pl.DataFrame:
        """Kernels and whole CUDA graphs whose times and launching call are known.

        Columns: name, duration_ns, launch_ns, call_ns (how long the call took, null where that is not known),
        launched_with (as in `tui.analysis.launches.delays.launch_calls`).
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
        """How many rows `launched` has."""
        known = launch_calls(self.profile)["launch_ns"]
        timed = self.is_kernel_timed
        return int((timed & known.is_not_null().to_numpy()).sum() if known.null_count() else timed.sum())

    @cached_property
    def is_kernel_timed(self) -> npt.NDArray[np.bool_]:
        """Which rows of ``activities`` are kernels or whole CUDA graphs whose times are known."""
        rows = self.profile["activities"]
        found: npt.NDArray[np.bool_] = work_kinds(self.profile) <= WorkKind.COMMUNICATION
        for name in ("start_ns", "duration_ns"):
            if rows[name].null_count():
                found &= rows[name].is_not_null().to_numpy()
        return found

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
        """API functions whose name a regular expression finds."""
        return self.api.filter(pl.col("name").str.contains(pattern))

    def calls_named(self, pattern: str, *columns: str) -> pl.DataFrame:
        """Single API calls whose name a regular expression finds, whose times are known.

        Args:
            pattern: The regular expression.
            columns: What is wanted of them beside name, start_ns and duration_ns.
        """
        shown = ("name", "start_ns", "duration_ns", *columns)
        return self.rows_named("api_calls", pattern, *shown).drop_nulls(["start_ns", "duration_ns"])

    def calls_taking(self, pattern: str, least: float, *columns: str) -> tuple[int, pl.DataFrame]:
        """How many rows `calls_named` has, and those of them that took longer than so many ns."""
        names, rows = self.names("api_calls", pattern), self.profile["api_calls"].lazy()
        timed = pl.col("start_ns").is_not_null() & pl.col("duration_ns").is_not_null()
        wanted = timed & pl.col("name").is_in(names.implode()) if names.len() else pl.lit(False)
        number = rows.select(wanted.sum()).collect().item()
        taking = rows.filter(pl.col("duration_ns") > least, wanted) if number else rows.clear()
        return number, taking.select("name", "start_ns", "duration_ns", *columns).collect()

    @cached_property
    def in_calls(self) -> IntervalSet:
        """When any thread was in an API call."""
        if self.session is None:
            return spans_of(self.profile["api_calls"])
        return call_spans(self.profile).get(self.session, EMPTY)

    @cached_property
    def calls_begun(self) -> npt.NDArray[np.int64]:
        """When API calls began, in order."""
        return self.profile["api_calls"]["start_ns"].drop_nulls().sort().to_numpy()
