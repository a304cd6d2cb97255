"""Iterations: how long each one took, and how much of it a GPU had work."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.capabilities import why_none
from tui.analysis.iterations import ITERATIONS, iterations
from tui.analysis.needs import ITERATIONS as NEEDED
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class IterationsScreen(TableScreen):
    """One row per iteration, and one for what lies in none."""

    VIEW = "iterations"
    SPEC: ClassVar = ITERATIONS
    HELP: ClassVar = (
        "Iterations, numbered as the input numbers them. GPU time and kernels are of the work launched in each one,\n"
        "whenever it ran: the GPU is often a step behind. Busy and idle are of the time from its start to its end.\n"
        "The last row is what was launched outside of iterations, so that the rows add up to all GPU time."
    )

    def rows(self) -> pl.DataFrame:
        """Every iteration."""
        return iterations(self.profile)

    def empty(self) -> str:
        """Why there are none."""
        return why_none(self.profile, NEEDED)
