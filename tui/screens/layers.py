"""Layers: measured and predicted times of a model's layers, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.layers import LAYERS, layers
from tui.screens.single import TableScreen

if TYPE_CHECKING:
    import polars as pl


class LayersScreen(TableScreen):
    """One row per layer and phase."""

    VIEW = "layers"
    SPEC: ClassVar = LAYERS
    EMPTY: ClassVar = "no layer times in this log: record with  caffe time --model=net.prototxt --iterations=10 --gpu 0"
    HELP: ClassVar = (
        "Times of a model's layers as a framework measured them and as a model predicted them.\n"
        "Ratio is predicted over measured; unknown where one of them was not run.\n"
        "Caffe's times are averages per iteration."
    )

    def rows(self) -> pl.DataFrame:
        """Measured and predicted side by side."""
        return layers(self.profile)
