"""Roofline: FLOPs and bytes of ops by shape, their shares of the GPU's peaks, and the roofline plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.content import Content
from textual.widget import Widget

from tui.analysis.capabilities import missing_data_text
from tui.analysis.devices import Peaks, peaks_by_device
from tui.analysis.needs import SHAPES
from tui.analysis.roofline import (
    ROOF_SHARE,
    ROOFLINE,
    ROOFLINE_CALLS,
    op_work_by_shape,
    rooflines,
    shape_calls,
)
from tui.fmt import brief_duration, brief_percent
from tui.screens.base import ViewScreen
from tui.screens.linked_tables import Level, LinkedTables, Row, registered_level
from tui.text_width import cell_width, clip
from tui.widgets.app_services import services_of
from tui.widgets.details import with_blocks
from tui.widgets.output_filters import MANY_COLORS
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl
    from textual.app import RenderResult

    from tui.model.profile import Profile
    from tui.widgets.details import Details, Line

NO_PEAKS = "The GPU's peaks are unknown: choose the GPU with --gpu, or add it to gpus.toml in ~/.config/proftui."


def _calls(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    return shape_calls(profile, selected.get("roofline"))


def _no_work_reason(profile: Profile) -> str:
    if profile["ops"]["input_shapes"].null_count() < profile["ops"].height:
        return "no op with a known formula ran on the GPU"
    return missing_data_text(profile, SHAPES)


def _crumb(row: Row) -> str:
    return str(row["op"])


class RooflineScreen(ViewScreen):
    """A plot of all ops by shape, their table, and the calls of the selected op."""

    VIEW = "roofline"
    HELP: ClassVar = (
        "How close each op is to the GPU's peak. FLOPs and bytes are inferred from recorded shapes and types.\n"
        "Roofline%: minimum time that the peaks allow / GPU time. Over roofline: the time that could be saved at "
        "most.\nThe plot shows TFLOP/s over FLOP/byte, both logarithmic; the line is the roof, ◆ the selected row. "
        "Larger marks have more GPU time; ops without FLOPs have no mark."
    )

    LEVELS: ClassVar = (
        Level("roofline", *registered_level("op_work_by_shape"), _crumb, _no_work_reason, 3),
        Level("roofline_calls", ROOFLINE_CALLS, _calls, _crumb, _no_work_reason, 2),
    )

    def make_body(self) -> LinkedTables:
        """Return ops by shape, and their calls."""
        return LinkedTables(self.LEVELS)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the plot and the tables."""
        yield RooflinePlot(id="plot")
        yield from super().compose_body()

    def populate(self) -> None:
        """Fill the plot and the tables."""
        super().populate()
        rows = op_work_by_shape(self.profile)
        marks = [row_mark(row) for row in rows.filter(rows["flops"] > 0).iter_rows(named=True)]
        gpus = {peaks.name: peaks for peaks in peaks_by_device(self.profile).values()}
        gpu = next(iter(gpus.values())) if len(gpus) == 1 else None
        used = sorted({name for name in rows["peak"].cast(str) if name})
        self.query_one(RooflinePlot).show(marks, _roofs(gpu, used), self._summary(gpu), rows.height - len(marks))

    @on(TablePane.RowHighlighted)
    def _select(self, event: TablePane.RowHighlighted) -> None:
        row = event.row
        if event.pane.id == "roofline":
            self.query_one(RooflinePlot).select(row_mark(row) if row is not None and row["flops"] else None)

    def _summary(self, gpu: Peaks | None) -> list[str]:
        """Return a summary, the most important part first."""
        all_rooflines = rooflines(self.profile)
        if len(all_rooflines) != 1:
            return [] if all_rooflines else [_no_work_reason(self.profile)]
        (roofline,) = all_rooflines
        parts = [] if gpu is not None else [NO_PEAKS]
        if roofline.gain_ns is not None:
            parts.append(f"{brief_duration(roofline.gain_ns)} over the roofline")
        if roofline.mfu_pct is not None:
            parts.append(f"MFU {brief_percent(roofline.mfu_pct)}")
        if roofline.hfu_pct is not None:
            parts.append(f"HFU {brief_percent(roofline.hfu_pct)} with recomputation")
        if roofline.tflops_per_s is not None:
            parts.append(f"{roofline.tflops_per_s:.3g} TFLOP/s over the wall time")
        if roofline.covered_pct is not None:
            parts.append(f"{brief_percent(roofline.covered_pct)} of GPU time covered")
        return [*parts, f"{gpu.name}, inferred"] if gpu is not None else parts

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the formula with its inputs, and the source of the peaks."""
        row_part = super().details(pane, row)
        if pane.spec is not ROOFLINE:
            return row_part
        lines = [("Formula", row["formula"] or "", "inferred")]
        lines += saving_lines(self.profile, row)
        for peaks in {
            device_peaks.name: device_peaks for device_peaks in peaks_by_device(self.profile).values()
        }.values():
            peak = peaks.flops_per_s.get(row["peak"] or "")
            if peak is not None:
                lines.append((f"Peak {row['peak']}", f"{peak / 1e12:g} TFLOP/s", peaks.source))
            if peaks.bytes_per_s is not None:
                lines.append(("Memory bandwidth", f"{peaks.bytes_per_s / 1e12:g} TB/s", peaks.name))
        return with_blocks(row_part, [("How it is inferred", lines)])


def saving_lines(profile: Profile, row: Mapping[str, Any]) -> list[Line]:
    """Return the time that the calls would save at `ROOF_SHARE` of the roof; for unknown float32 peaks, both shares."""
    iterations = shape_calls(profile, row)["iteration"].drop_nulls().n_unique()
    if row["roof_pct"] is not None:
        roof_ns = row["gpu_ns"] - row["gain_ns"]
        saved_ns = max(round(row["gpu_ns"] - roof_ns / ROOF_SHARE), 0)
        per_iteration = f"{brief_duration(saved_ns / iterations)} per iteration" if iterations > 1 else ""
        return [(f"At {100 * ROOF_SHARE:g}% of the roof", f"{brief_duration(saved_ns)} less", per_iteration)]
    if row["tflops_per_s"] is None or "float32" not in (row["types"] or ""):
        return []
    peaks = next(iter(peaks_by_device(profile).values()), None)
    flops_by_type = {} if peaks is None else peaks.flops_per_s
    return [
        (
            f"Of the {name} peak",
            brief_percent(100 * row["tflops_per_s"] * 1e12 / flops_by_type[name]),
            "kernel type unknown",
        )
        for name in ("fp32", "tf32")
        if name in flops_by_type
    ]


def _roofs(gpu: Peaks | None, used: list[str]) -> list[tuple[str, float, float]]:
    """Return name, peak (TFLOP/s) and memory bandwidth (TB/s) of each type in use."""
    if gpu is None or gpu.bytes_per_s is None:
        return []
    return [(name, gpu.flops_per_s[name] / 1e12, gpu.bytes_per_s / 1e12) for name in used if name in gpu.flops_per_s]


Roof = tuple[str, float, float]
"""Name, peak in TFLOP/s, memory bandwidth in TB/s."""

MARKS: Final = ("·", "•", "●")
"""The mark by the share of the GPU time: below 1%, below 10%, more."""
SELECTED: Final = "◆"
"""The mark of the selected row."""
ROOF: Final = "─"
SLOPE: Final = "/"
LABEL_CELLS: Final = 8
_MIN_LINES: Final = 4
_BRAILLE_DOTS: Final = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The dots of a braille character by column, from the lowest."""
_CORES: Final = frozenset({"fp32", "fp64"})
"""Types whose peak is not that of tensor cores."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One op and shape."""

    flops_per_byte: float
    tflops_per_s: float
    gpu_ns: int
    peak: str | None = None
    """The type whose peak counts."""

    @property
    def color(self) -> str:
        """The color of kernels with the same peak."""
        return "$kind-unknown" if self.peak is None else "$kind-other" if self.peak in _CORES else "$kind-tensor"


def row_mark(row: Mapping[str, Any]) -> Mark:
    """Return the mark of a row with FLOPs."""
    return Mark(row["flops_per_byte"], row["tflops_per_s"], row["gpu_ns"], row["peak"])


def plot_lines(
    marks: Sequence[Mark],
    roofs: Sequence[Roof],
    width: int,
    height: int,
    selected: Mark | None = None,
    *,
    in_dots: bool = False,
) -> list[Content]:
    """Return the plot; empty without marks or room.

    Args:
        marks: One for each op and shape.
        roofs: The peaks.
        width: Cells.
        height: Lines.
        selected: The mark of the selected row.
        in_dots: Draw the roofs in dots, eight to a cell.

    >>> lines = plot_lines([Mark(100, 50, 9)], [("bf16", 100, 1)], 40, 6)
    >>> len(lines), "●" in lines[1].plain, lines[-1].plain.strip()[:6]
    (6, True, 'FLOP/B')
    """
    body, columns = height - 1, width - LABEL_CELLS
    if not marks or body < _MIN_LINES - 1 or columns < 10:
        return []
    ridges = [peak / bandwidth for _, peak, bandwidth in roofs]
    xs = [mark.flops_per_byte for mark in marks] + [ridge * 4 for ridge in ridges]
    ys = [mark.tflops_per_s for mark in marks] + [peak for _, peak, _ in roofs]
    x_low, x_high = _decades(xs)
    y_low, y_high = _decades(ys)
    cells: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(body)]

    def level_of(tflops_per_s: float, steps: int) -> int:
        return round((math.log10(tflops_per_s) - y_low) / (y_high - y_low) * (steps - 1))

    for _, peak, bandwidth in roofs:
        for column in range(columns * 2 if in_dots else columns):
            last_column = (columns * 2 if in_dots else columns) - 1
            intensity = 10 ** (x_low + (x_high - x_low) * column / last_column)
            level = level_of(min(peak, intensity * bandwidth), body * 4 if in_dots else body)
            row, cell = body - 1 - (level // 4 if in_dots else level), column // 2 if in_dots else column
            if not 0 <= row < body:
                continue
            sign = ROOF if intensity * bandwidth >= peak else SLOPE
            if in_dots:
                former = cells[row][cell][0]
                dots = ord(former) - _BRAILLE if former != " " else 0
                sign = chr(_BRAILLE + (dots | _BRAILLE_DOTS[column % 2][level % 4]))
            cells[row][cell] = sign, "$text-muted"
    total_ns = sum(mark.gpu_ns for mark in marks) or 1
    for mark in sorted(marks, key=lambda drawn: (drawn == selected, drawn.gpu_ns)):
        column = round((math.log10(mark.flops_per_byte) - x_low) / (x_high - x_low) * (columns - 1))
        row = body - 1 - level_of(mark.tflops_per_s, body)
        if 0 <= row < body and 0 <= column < columns:
            share = mark.gpu_ns / total_ns
            sized_mark = MARKS[2 if share >= 0.1 else 1 if share >= 0.01 else 0]
            cells[row][column] = (SELECTED, "bold $accent") if mark == selected else (sized_mark, mark.color)
    powers = range(math.ceil(y_low), math.floor(y_high) + 1)
    labels = {body - 1 - level_of(10.0**power, body): f"{10.0**power:g}" for power in powers}
    labels.setdefault(1, "TFLOP/s")
    lines = [_plot_line(labels.get(row, ""), cell_row) for row, cell_row in enumerate(cells)]
    return [*lines, Content.styled(_axis(x_low, x_high, columns), "$text-muted")]


_BRAILLE: Final = 0x2800
"""The braille character without a dot."""


def _plot_line(label: str, cells: Sequence[tuple[str, str]]) -> Content:
    """Return a line of the plot, the axis dim."""
    runs = [(style, "".join(sign for sign, _ in run)) for style, run in groupby(cells, key=itemgetter(1))]
    axis = Content.styled(f"{label:>{LABEL_CELLS - 1}} ", "$text-muted")
    return Content("").join([axis, *(Content.styled(text, style) for style, text in runs)])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around all values."""
    logs = [math.log10(value) for value in values if value > 0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def _axis(x_low: int, x_high: int, columns: int) -> str:
    characters = [" "] * (columns + LABEL_CELLS)
    for power in range(x_low, x_high + 1):
        text = f"{10.0**power:g}"
        start = LABEL_CELLS + min(round((power - x_low) / (x_high - x_low) * (columns - 1)), columns - len(text))
        characters[start : start + len(text)] = text
    unit = "FLOP/B"
    characters[: len(unit)] = unit
    return "".join(characters).rstrip()


class RooflinePlot(Widget):
    """The plot with a summary line above; on a short screen only the line."""

    DEFAULT_CSS = """
    RooflinePlot { height: 12; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._marks: Sequence[Mark] = ()
        self._roofs: Sequence[Roof] = ()
        self._summary_parts: Sequence[str] = ()
        self._selected: Mark | None = None
        self._unplotted = 0

    def show(self, marks: Sequence[Mark], roofs: Sequence[Roof], summary: Sequence[str], unplotted: int) -> None:
        """Show other marks.

        Args:
            marks: One for each op and shape with FLOPs.
            roofs: One for each element type in use.
            summary: The summary, the most important part first; parts that do not fit are omitted.
            unplotted: The number of ops and shapes without FLOPs.
        """
        self._marks, self._roofs, self._summary_parts, self._unplotted = marks, roofs, summary, unplotted
        self.refresh()

    def select(self, mark: Mark | None) -> None:
        """Highlight the mark of the selected row."""
        self._selected = mark
        self.refresh()

    def render(self) -> RenderResult:
        """Render the summary, and the plot if there is room."""
        width, height = self.size.width, self.size.height
        text = ""
        for part in (*self._summary_parts, *(f"{name} peak {peak:g} TFLOP/s" for name, peak, _ in self._roofs)):
            longer = f"{text}; {part}" if text else clip(part, width)
            if cell_width(longer) > width:
                break
            text = longer
        in_dots = services_of(self).color in MANY_COLORS
        plot = plot_lines(self._marks, self._roofs, width, height - 2, self._selected, in_dots=in_dots)
        lines = [Content(text), *plot, *([self._legend(width)] if plot else [])]
        return Content("\n").join(lines[:height])

    def _legend(self, width: int) -> Content:
        """Return the meanings of the marks, as far as they fit."""
        kinds = {mark.color: mark.peak in _CORES for mark in self._marks if mark.peak is not None}
        parts = [("", f"{' '.join(MARKS)} below 1%, below 10%, 10% or more of their GPU time")]
        if len(kinds) > 1:
            parts += [(color, "fp32, fp64" if plain else "tensor-core types") for color, plain in kinds.items()]
        if self._unplotted:
            parts.append(("", f"not in the plot: {self._unplotted} without FLOPs"))
        parts.append(("bold $accent", f"{SELECTED} selected"))
        pieces, used = [Content(" " * LABEL_CELLS)], LABEL_CELLS
        for style, text in parts:
            used += cell_width(text) + 3
            if used <= width:
                pieces.append(Content.styled(f"{text}   ", style or "$text-muted"))
        return Content("").join(pieces)
