"""Roofline: FLOPs and bytes of ops by shape, and how close to the GPU's peaks they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tui.analysis.capabilities import why_none
from tui.analysis.needs import SHAPES
from tui.analysis.roofline import (
    ROOFLINE,
    ROOFLINE_CALLS,
    Peaks,
    calls_of_shape,
    op_work_by_shape,
    peaks_by_device,
    rooflines,
)
from tui.fmt import brief_duration, brief_percent
from tui.screens.base import ViewScreen
from tui.screens.linked_tables import Level, LinkedTables, Row, shown
from tui.widgets.charts.roofline import Mark, RooflinePlot
from tui.widgets.details import below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from textual.widget import Widget

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane

NO_PEAKS = "The GPU's peaks are not known: name it with --gpu, or add it to gpus.toml in ~/.config/proftui."


def _calls(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    return calls_of_shape(profile, above.get("roofline"))


def _none(profile: Profile) -> str:
    if profile["ops"]["input_shapes"].null_count() < profile["ops"].height:
        return "no op with a known formula ran on the GPU"
    return why_none(profile, SHAPES)


def _crumb(row: Row) -> str:
    return str(row["op"])


class RooflineScreen(ViewScreen):
    """A plot of all ops by shape, the table of them, and the calls of the selected one."""

    VIEW = "roofline"
    HELP: ClassVar = (
        "How close each op is to the GPU's peak. FLOPs and bytes are inferred from recorded shapes and types.\n"
        "Of roof % is the least time that the peaks allow / GPU time. Above roof is the time that could be saved "
        "at most.\n"
        "The plot shows TFLOP/s over FLOP/byte, both logarithmic; the line is the roof."
    )

    LEVELS: ClassVar = (
        Level("roofline", *shown("op_work_by_shape"), _crumb, _none, 3),
        Level("roofline_calls", ROOFLINE_CALLS, _calls, _crumb, _none, 2),
    )

    def make_body(self) -> LinkedTables:
        """Ops by shape, and their calls."""
        return LinkedTables(self.LEVELS)

    def compose_body(self) -> Iterable[Widget]:
        """The plot above the tables."""
        yield RooflinePlot(id="plot")
        yield from super().compose_body()

    def populate(self) -> None:
        """Fill the plot and the tables."""
        super().populate()
        rows = op_work_by_shape(self.profile)
        marks = [
            Mark(row["flops_per_byte"], row["tflops_per_s"], row["gpu_ns"])
            for row in rows.filter(rows["flops"] > 0).iter_rows(named=True)
        ]
        gpus = {peaks.name: peaks for peaks in peaks_by_device(self.profile).values()}
        gpu = next(iter(gpus.values())) if len(gpus) == 1 else None
        used = sorted({name for name in rows["peak"].cast(str) if name})
        self.query_one(RooflinePlot).show(marks, _roofs(gpu, used), self._summary(gpu))

    def _summary(self, gpu: Peaks | None) -> str:
        """The whole in a line."""
        whole = rooflines(self.profile)
        if len(whole) != 1:
            return "" if whole else _none(self.profile)
        (one,) = whole
        parts = [f"{brief_percent(one.covered_pct)} of GPU time covered"] if one.covered_pct is not None else []
        if one.tflops_per_s is not None:
            parts.append(f"{one.tflops_per_s:.3g} TFLOP/s over the wall time")
        if one.mfu_pct is not None:
            parts.append(f"MFU {brief_percent(one.mfu_pct)}")
        if one.gain_ns is not None:
            parts.append(f"{brief_duration(one.gain_ns)} above the roof")
        parts.append(f"{gpu.name}, inferred" if gpu is not None else NO_PEAKS)
        return "; ".join(parts)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """The formula with its inputs, and where the peaks are from."""
        first = super().details(pane, row)
        if pane.spec is not ROOFLINE:
            return first
        lines = [("Formula", row["formula"] or "", "inferred")]
        for peaks in {one.name: one for one in peaks_by_device(self.profile).values()}.values():
            peak = peaks.flops_per_s.get(row["peak"] or "")
            if peak is not None:
                lines.append((f"Peak {row['peak']}", f"{peak / 1e12:g} TFLOP/s", peaks.source))
            if peaks.bytes_per_s is not None:
                lines.append(("Memory bandwidth", f"{peaks.bytes_per_s / 1e12:g} TB/s", peaks.name))
        return below(first, [("How it is inferred", lines)])


def _roofs(gpu: Peaks | None, used: list[str]) -> list[tuple[str, float, float]]:
    """For each type in use its name, peak (TFLOP/s) and the memory bandwidth (TB/s)."""
    if gpu is None or gpu.bytes_per_s is None:
        return []
    return [(name, gpu.flops_per_s[name] / 1e12, gpu.bytes_per_s / 1e12) for name in used if name in gpu.flops_per_s]
