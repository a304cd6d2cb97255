"""A table of kernels for tests, and an app that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from textual.app import App

from tui.keys import Scope, bindings_for
from tui.model.columns import columns
from tui.model.table_spec import TableSpec
from tui.theme import DARK, theme_variables
from tui.widgets.output_filters import AsciiOutput
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.filter import LineFilter
DGRAD = (
    "void cudnn::detail::dgrad_engine<float, int=128, int=6, int=7, int=3, int=3, int=5, bool=1>"
    "(int, int, int, float const *, int, float const *, int)"
)
HOSTILE = "evil\x1b[31m[red]kernel[/red]\n"
WIDE = "行列積_カーネル"

KERNELS = pl.DataFrame(
    {
        "name": [
            DGRAD,
            "sgemm_128x128x8_NT_vec",
            "maxwell_scudnn_128x64_relu_small_nn_v1",
            "[CUDA memcpy HtoD]",
            HOSTILE,
            WIDE,
            "[CUDA memset]",
            "sgemm_32x32x32_NN",
        ],
        "calls": [48, 120, 12, 8, 4, 2, 30, 6],
        "total_ns": [353_980_000, 210_400_128, 96_000_000, 64_000_512, 20_000_000, 9_000_000, 410_000, 209_360],
        "avg_ns": [7_374_583, 1_753_334, 8_000_000, 8_000_064, 5_000_000, 4_500_000, 13_666, 34_893],
        "min_ns": [7_000_000, 1_500_000, 7_900_000, 1_000, 4_000_000, 4_000_000, 1_025, 30_000],
        "max_ns": [7_800_000, 2_000_000, 8_100_000, 16_000_000, 6_000_000, 5_000_000, 20_000, 40_000],
        "time_pct": [46.95, 27.90, 12.73, 8.49, 2.65, 1.19, 0.05, 0.03],
        "registers": [134, 122, 128, None, 32, 40, None, 86],
        "size_bytes": [None, None, None, 684_392_448, None, None, 4_096, None],
        "line": [11, 12, 13, 14, 15, 16, 17, 18],
    },
    schema_overrides={"name": pl.Categorical(), "line": pl.UInt32},
)

SPEC = TableSpec(
    "kernels",
    "Kernels",
    columns("name", "total_ns", "time_pct", "calls", "avg_ns", "min_ns", "max_ns", "registers", "size_bytes", "line"),
    key=("name",),
    sort=(("total_ns", True),),
    weight="total_ns",
)


class TableApp(App[None]):
    """Shows one table, and records its messages."""

    BINDINGS = bindings_for(Scope.APP)

    def __init__(self, frame: pl.DataFrame = KERNELS, spec: TableSpec = SPEC, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        self.ascii_only = ascii_only
        self.frame = frame
        self.pane = TablePane(spec, id="table")
        self.events_posted: list[Any] = []

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *([AsciiOutput()] if self.ascii_only else [])]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_variables()

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.show(self.frame, empty="no kernels in this log: it holds API calls only: press 0")
        self.pane.focus_table()

    def action_undo_smallest(self) -> None:
        self.pane.undo_smallest()

    def on_table_pane_row_opened(self, event: TablePane.RowOpened) -> None:
        self.events_posted.append(event)

    on_table_pane_row_highlighted = on_table_pane_row_opened
    on_table_pane_source_line_requested = on_table_pane_row_opened
    on_table_pane_detail_requested = on_table_pane_row_opened

    def events_of(self, kind: type) -> list[Any]:
        return [event for event in self.events_posted if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        """Return the shown names, from top to bottom."""
        return self.pane.model.shown_frame()["name"].cast(pl.String).to_list()

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self._notifications]
