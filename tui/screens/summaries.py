"""Other Summaries: what the input aggregated itself beside GPU work and API calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.summaries import OTHER_SUMMARIES, other_summaries
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class SummariesScreen(TableScreen):
    """One row per line of such a summary, in the order of the input."""

    VIEW = "summaries"
    SPEC: ClassVar = OTHER_SUMMARIES
    EMPTY: ClassVar = "no other summaries in this input: they come with OpenACC, NVTX, unified memory or CPU profiling"
    HELP: ClassVar = (
        "What the profiler summed up itself: unified memory, OpenACC, OpenMP, NVTX ranges, CPU samples, dependencies.\n"
        "Rows of different sections overlap in time, and so do nested ranges: their times are not to be added up.\n"
        "L shows its line, where the input has lines."
    )

    def rows(self) -> pl.DataFrame:
        """Every row."""
        return other_summaries(self.profile)
