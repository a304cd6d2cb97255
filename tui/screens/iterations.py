"""Iterations: how long each one took, and how much of it a GPU had work."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import ITERATIONS as NEEDED
from tui.analysis.iterations.tables import ITERATIONS, iterations, reasons
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class IterationsScreen(TableScreen):
    """One row per iteration, and one for what lies in none."""

    VIEW = "iterations"
    SPEC: ClassVar = ITERATIONS
    HELP: ClassVar = (
        "Iterations as the input numbers them; else found, from 0, as the pattern of launches that repeats.\n"
        "GPU time and kernels are of the work launched in each one, whenever it ran: the GPU is often a step behind.\n"
        "Busy and idle are of the time from its start to its end. Rows without a number are what belongs to none."
    )

    def path(self) -> list[str]:
        """How they were found, where they are not recorded; the whole of it is in the reports."""
        found = list(reasons(self.profile).values())
        return [found[0].partition(",")[0]] if len(found) == 1 else [f"found in {len(found)} sessions"] if found else []

    def rows(self) -> pl.DataFrame:
        """Every iteration."""
        return iterations(self.profile)

    def empty(self) -> str:
        """Why there are none."""
        return why_none(self.profile, NEEDED)
