"""Ops and Kernels of inputs with recorded ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.loaders.test_torch_table import usual_table
from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    column_of,
    open_explorer,
    press,
    sample_path,
    table_of,
)
from tests.screens.training_trace import write_training_trace
from tests.snapshots import screen_text
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

STATES = {
    "ops": "",
    "details": "j j i",
    "kernels-of-an-op": "j enter",
    "by-shape": "b",
    "by-config": "b b",
    "by-instance": "b b b",
}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_training_trace(tmp_path)


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, trace: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, *STATES[state].split())
        await assert_at_sizes(pilot, snapshot)


async def test_links_lead_from_an_op_to_its_kernels_to_a_launch(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        ops = column_of(pilot, "ops", "op")
        assert ops[:4] == ["aten::mm", "aten::addmm", "aten::relu", "(unattributed: launched outside any op)"]
        times = column_of(pilot, "ops", "gpu_self_ns")
        assert times[:4] == [1_200_000, 800_000, 121_000, 90_000]
        assert column_of(pilot, "kernels", "calls") == [4]
        assert table_of(pilot, "launches").model.shown_frame()["duration_ns"].to_list() == [310_000, 290_000] * 2
        await press(pilot, "enter", "enter", "enter")
        assert app_of(pilot).screen.query_one(DetailPane).is_open


async def test_an_op_without_own_kernels_shows_those_of_its_callees(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, *["j"] * column_of(pilot, "ops", "op").index("aten::linear"))
        assert column_of(pilot, "kernels", "launched_by") == ["aten::addmm"]
        assert column_of(pilot, "kernels", "total_ns") == [800_000]
        assert table_of(pilot, "launches").model.shown_frame().height == 2


async def test_unattributed_work_shows_its_kernels_and_launches(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, "j", "j", "j")
        assert column_of(pilot, "kernels", "name") == ["void my_own_kernel(float*)"]
        assert table_of(pilot, "launches").model.shown_frame().height == 2
        await press(pilot, "i")
        assert "(unattributed: launched outside any op)" in screen_text(pilot.app)


async def test_ops_without_launches_are_last_and_can_be_filtered(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, "G")
        assert "This op launched no GPU work" in screen_text(pilot.app)
        assert column_of(pilot, "ops", "gpu_self_ns")[-1] == 0
        await press(pilot, "g", "f", *"gpu_self>0", "enter")
        assert 0 not in column_of(pilot, "ops", "gpu_self_ns")


async def test_details_show_shapes_and_types_of_the_calls_of_an_op(trace: str) -> None:
    async with open_explorer(trace, size=(200, 60), view="ops-and-kernels") as pilot:
        await press(pilot, "j", "i")
        text = screen_text(pilot.app)
        for reported in (
            "[[64, 512], [1024, 512], [1024]]  2 calls",
            "recorded by the profiler",
            "AddmmBackward0  2 calls",
        ):
            assert reported in text
        assert "model.py(21): forward" in text


async def test_sessions_with_recorded_and_inferred_ops_name_the_source(trace: str) -> None:
    async with open_explorer(trace, sample_path("caffe_conv1.nvprof.log"), size=(200, 50)) as pilot:
        assert "Top 10 GPU ops  recorded in 1 of 2 sessions" in screen_text(pilot.app)
        await press(pilot, "4")
        assert set(column_of(pilot, "ops", "op_source")) == {"recorded", "inferred", None}
        inferred = column_of(pilot, "ops", "op_source").index("inferred")
        await press(pilot, *["j"] * inferred)
        op = table_of(pilot, "ops").current_row
        assert op is not None
        assert sum(column_of(pilot, "kernels", "total_ns")) == op["gpu_self_ns"]  # type: ignore[arg-type]
        assert table_of(pilot, "launches").model.shown_frame().height
        # A session by itself is shown as its own input would be.
        app_of(pilot).profile_session.choose_session(1)
        await press(pilot, "g")
        assert "total_ns" in table_of(pilot, "ops").frame.columns
        assert table_of(pilot, "ops").spec.weight == "total_ns"
        app_of(pilot).profile_session.choose_session(None)
        await press(pilot, "g")
        assert table_of(pilot, "ops").spec.weight == "gpu_self_ns"


async def test_a_kind_of_work_links_to_its_ops(trace: str) -> None:
    async with open_explorer(trace, size=(200, 100)) as pilot:
        assert "Top 10 GPU ops  recorded, GPU self time" in screen_text(pilot.app)
        assert "GPU time by kind of work  by op, else by kernel name" in screen_text(pilot.app)
        app_of(pilot).screen.query_one("#split").focus()
        await press(pilot, "enter")
        assert table_of(pilot, "ops").state.filter == 'group:"gemm"'
        assert column_of(pilot, "ops", "op")[:2] == ["aten::mm", "aten::addmm"]


GROUPED = ("by name", "by input shape", "by launch config", "by op instance")


async def test_every_grouping_has_the_same_gpu_time_down_to_the_launches(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        total_ns = sum(column_of(pilot, "ops", "gpu_self_ns"))  # type: ignore[arg-type]
        for grouping in GROUPED:
            assert f"[{grouping.removeprefix('by ')}]" in screen_text(pilot.app)
            ops = table_of(pilot, "ops")
            assert ops.frame[ops.spec.weight].sum() == total_ns
            row, kernel = ops.current_row, table_of(pilot, "kernels").current_row
            assert row is not None
            assert kernel is not None
            assert sum(column_of(pilot, "kernels", "total_ns")) == row[ops.spec.weight]  # type: ignore[arg-type]
            assert sum(column_of(pilot, "launches", "duration_ns")) == kernel["total_ns"]  # type: ignore[arg-type]
            # Classes, of which none are defined here, are passed over.
            await press(pilot, "full_stop")
        assert "[name]" in screen_text(pilot.app)
        await press(pilot, "comma")
        assert "[op instance]" in screen_text(pilot.app)


async def test_each_grouping_keeps_its_filter_and_links_open_the_grouping_by_name(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, "full_stop", "f", *"input_shapes:512", "enter")
        assert table_of(pilot, "ops").state.filter == "input_shapes:512"
        await press(pilot, "full_stop")
        assert table_of(pilot, "ops").state.filter == ""
        await press(pilot, "comma")
        assert table_of(pilot, "ops").state.filter == "input_shapes:512"
        await press(pilot, "colon", *'ops-and-kernels op="aten::mm"', "enter")
        assert "[name]" in screen_text(pilot.app)
        assert column_of(pilot, "ops", "op") == ["aten::mm"]
        await press(pilot, "colon", *"group shapes", "enter", "[")
        assert "[name]" in screen_text(pilot.app)


async def test_an_op_of_the_dashboard_is_shown_in_any_grouping(trace: str) -> None:
    async with open_explorer(trace, view="ops-and-kernels") as pilot:
        await press(pilot, "full_stop", "full_stop", "1")
        app_of(pilot).screen.query_one("#ops").focus()
        await press(pilot, "enter")
        assert "[name]" in screen_text(pilot.app)
        assert column_of(pilot, "ops", "op") == ["aten::mm"]


async def test_an_unknown_grouping_is_refused(trace: str) -> None:
    async with open_explorer(trace, notifications=True, view="ops-and-kernels") as pilot:
        await press(pilot, "colon", *"group class", "enter")
        assert "no kernel classes defined in" in screen_text(pilot.app)
        await press(pilot, "colon", *"group color", "enter")
        assert "Unknown grouping color: choose name, shapes, config," in screen_text(pilot.app)
        await press(pilot, "colon", *"kernels", "enter", "colon", *"group name", "enter")
        assert "Cannot group by name here. Ops and Kernels and Group Ops" in screen_text(pilot.app)


async def test_the_status_names_what_the_rows_are() -> None:
    async with open_explorer("resnet50_training.pt.trace.json.gz", size=(80, 24), view="ops-and-kernels") as pilot:
        texts = []
        for _ in range(3):
            lines = screen_text(pilot.app).splitlines()
            texts.append(next(line for line in lines if " rows · sorted by " in line).split(":")[0].strip())
            await press(pilot, "full_stop")
        assert texts == ["Ops", "Ops by shape", "Launch configs"]


async def test_totals_show_ops_without_guessing_their_kernels(tmp_path: Path) -> None:
    path = tmp_path / "key_averages.txt"
    path.write_text(usual_table())
    async with open_explorer(str(path), view="ops-and-kernels") as pilot:
        for op in ("aten::mm", "(unattributed: totals only)"):
            assert table_of(pilot, "ops").current_row["op"] == op
            assert "The profile has only totals, not the kernels of each op" in screen_text(pilot.app)
            await press(pilot, "down")
        await press(pilot, "2", "enter")
        assert "Ops: 1 of 2 rows" in screen_text(pilot.app)
