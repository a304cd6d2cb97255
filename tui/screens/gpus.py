"""GPUs: what each one is, and how much of its time it had work."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.gpus import GPUS, gpus
from tui.analysis.inputs.capabilities import why_none
from tui.analysis.inputs.needs import DEVICES
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class GpusScreen(TableScreen):
    """One row per GPU of a session."""

    VIEW = "gpus"
    SPEC: ClassVar = GPUS
    HELP: ClassVar = (
        "The GPUs of each session. Busy is the time in which a GPU had any work, of the session's span of GPU work;\n"
        "GPU time adds up all its work, so that what ran at once counts twice.\n"
        "Properties are the input's own, or of the GPU's name (facts from: table), or of --gpu (option)."
    )

    def rows(self) -> pl.DataFrame:
        """Every GPU."""
        return gpus(self.profile, gpu=self.program.options.gpu)

    def empty(self) -> str:
        """Why there are none."""
        return why_none(self.profile, DEVICES)
