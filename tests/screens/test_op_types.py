"""Op Type Summary: figures that fold, and links to the ops of a type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import assert_at_sizes, open_explorer, press, screen_of, table_of
from tests.screens.made_profiles import open_profile
from tests.snapshots import screen_text
from tui.screens.op_types import OpTypesScreen
from tui.screens.ops_and_kernels import OpsAndKernelsScreen
from tui.widgets.details import DetailPane
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.widgets.details import Details

TRACE, LOG = "resnet50_training.pt.trace.json.gz", "resnet50_training.nvprof.log"
FIGURES = {"gpu_avg_ns", "gpu_min_ns", "gpu_max_ns"}


def visible_columns(pilot: Pilot[None]) -> set[str]:
    return {column.name for column in table_of(pilot, "table").model.columns()}


@pytest.mark.parametrize(("sample", "keys"), [(TRACE, "l z")], ids=["open"])
async def test_screen(sample: str, keys: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(sample, view="op-types") as pilot:
        await press(pilot, *keys.split())
        await assert_at_sizes(pilot, snapshot)


async def test_figures_fold_and_unfold_under_the_cursor() -> None:
    async with open_explorer(TRACE, size=(200, 50), view="op-types") as pilot:
        assert not FIGURES & visible_columns(pilot)
        assert "GPU time ▸" in screen_text(pilot.app)
        assert "sorted by GPU time ▼" in screen_text(pilot.app)
        await press(pilot, "l", "z")
        assert visible_columns(pilot) >= FIGURES
        assert "cpu_own_avg_ns" not in visible_columns(pilot)
        assert "GPU time ▸" not in screen_text(pilot.app)
        # On one of the figures the same key folds them again, and the cursor is on the total.
        await press(pilot, "l", "z")
        assert not FIGURES & visible_columns(pilot)
        assert table_of(pilot, "table").model.cursor_column == "gpu_ns"


async def test_all_figures_fold_and_unfold_on_another_column() -> None:
    async with open_explorer(TRACE, view="op-types") as pilot:
        await press(pilot, "z")
        assert visible_columns(pilot) >= FIGURES | {"cpu_own_avg_ns", "gpu_idle_max_ns", "cpu_overhead_min_ns"}
        await press(pilot, "z")
        assert not any(name.endswith(("avg_ns", "min_ns", "max_ns")) for name in visible_columns(pilot))


@pytest.mark.parametrize("sample", [TRACE, LOG, "caffe_conv1.nvprof.log"])
async def test_enter_opens_ops_that_add_up_to_the_row(sample: str) -> None:
    async with open_explorer(sample, view="op-types") as pilot:
        rows = table_of(pilot, "table").frame.head(4).to_dicts()
        for place, row in enumerate(rows):
            await press(pilot, "2", "g", *["j"] * place, "enter")
            assert isinstance(screen_of(pilot), OpsAndKernelsScreen)
            ops = table_of(pilot, "ops")
            assert ops.model.shown_frame()[ops.spec.weight].sum() == row["gpu_ns"], row["op_type"]


async def test_unattributed_work_and_unclassified_types_have_links() -> None:
    ops = [
        {"op": 0, "name": "mystery", "start_ns": 0, "duration_ns": 9, "op_source": "recorded"},
        {"op": 1, "name": "aten::mm", "start_ns": 10, "duration_ns": 9, "op_source": "recorded"},
    ]
    work = [
        kernel("qqq", 70, op=0, op_join="launch", start_ns=0),
        kernel("sgemm", 50, op=1, op_join="launch", start_ns=90),
        kernel("sgemm", 30, op_join="launch not recorded", start_ns=190),
    ]
    async with open_profile(make_profile(ops=ops, activities=work), view="op-types") as pilot:
        names = table_of(pilot, "table").frame["op_type"].cast(str).to_list()
        assert names == ["unknown", "gemm", "(unattributed: launch not recorded)"]
        for place, (op, gpu_ns) in enumerate((("mystery", 70), ("aten::mm", 50), (names[2], 30))):
            await press(pilot, "2", "g", *["j"] * place, "enter")
            ops_shown = table_of(pilot, "ops").model.shown_frame()
            assert ops_shown.select("op", "gpu_self_ns").rows() == [(op, gpu_ns)]


async def test_unknown_figures_say_why_and_what_records_them() -> None:
    async with open_explorer(LOG, size=(200, 50), view="op-types") as pilot:
        # Below so few types the details stand unasked; the kernels come first.
        assert re.search(
            r"Kernels with most time\n +11\.3 ms +batch_norm_coll.* 265×  batch norm forward", screen_text(pilot.app)
        )
        assert "launches do not record the CPU time of an op" in screen_text(pilot.app)
        # The table's signs of folded columns are not those of lines.
        assert re.search(r"GPU time {2,}32\.568 ms", screen_text(pilot.app))
    async with open_explorer("gpt_summary.nvprof.log", size=(200, 50), notifications=True, view="op-types") as pilot:
        assert "totals do not separate single calls" in screen_text(pilot.app)
        # No sign says that figures are folded if there are none.
        assert "GPU time ms ▼" in screen_text(pilot.app)
        await press(pilot, "z")
        assert "Times of single calls are unknown" in screen_text(pilot.app)


async def test_folds_of_columns_are_kept() -> None:
    async with open_explorer(TRACE, size=(200, 50), view="op-types") as pilot:
        await press(pilot, "l", "z", "1", "minus")
        assert visible_columns(pilot) >= FIGURES
        assert "GPU time ▸" not in screen_text(pilot.app)
        assert "CPU time ▸" in screen_text(pilot.app)


async def test_details_open_if_a_resized_terminal_has_room() -> None:
    async with open_explorer(TRACE, size=(80, 24), view="op-types") as pilot:
        assert "Kernels with most time" not in screen_text(pilot.app)
        await pilot.resize_terminal(120, 40)
        await press(pilot)
        assert "Kernels with most time" in screen_text(pilot.app)
        await pilot.resize_terminal(80, 24)
        await press(pilot)
        assert "Kernels with most time" not in screen_text(pilot.app)
        assert "16 rows" in screen_text(pilot.app)


async def test_details_that_open_automatically_are_computed_once_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    usual = OpTypesScreen.details

    def details(screen: OpTypesScreen, pane: TablePane, row: dict[str, Any]) -> Details:
        rows.append(row["op_type"])
        return usual(screen, pane, row)

    monkeypatch.setattr(OpTypesScreen, "details", details)
    async with open_explorer(TRACE, size=(160, 50), view="op-types") as pilot:
        assert pilot.app.screen.query_one(DetailPane).is_open
        first = pilot.app.screen.query_one(TablePane).model.rows.record(0)["op_type"]
        await press(pilot, "l")
        assert rows == [first]
        await press(pilot, "j", "k")
        assert len(rows) == 3
        assert rows[2] == first
