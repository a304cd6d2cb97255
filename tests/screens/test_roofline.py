"""The Roofline view: the plot, the ops by shape, their calls."""

from __future__ import annotations

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import open_explorer, press, sample_path, screen_of
from tests.snapshots import screen_text
from tui.analysis.roofline import op_work_by_shape
from tui.screens.linked_tables import LinkedTables
from tui.screens.roofline import RooflinePlot, RooflineScreen, saving_lines


async def test_the_plot_the_table_and_the_calls_of_an_op() -> None:
    async with open_explorer(
        sample_path("resnet50_training.pt.trace.json.gz"), size=(120, 40), view="roofline"
    ) as pilot:
        screen = screen_of(pilot, RooflineScreen)
        rows = op_work_by_shape(screen.profile)
        pane = screen.query_one(LinkedTables).pane(0)
        assert pane.model.shown_frame().height == rows.height
        text = screen_text(pilot.app)
        assert "of GPU time covered" in text
        assert "MFU" in text
        assert "H200, inferred" in text
        await press(pilot, "enter")
        top = pane.current_row
        assert top is not None
        details = str(screen.details(pane, top))
        assert "At 70% of the roof" in details
        assert "per iteration" in details
        assert screen.query_one(LinkedTables).pane(1).model.shown_frame().height == top["calls"]


def test_float32_of_an_unknown_kernel_has_shares_of_both_peaks() -> None:
    shapes = {"input_shapes": "[[1024, 512], [512, 256]]", "input_types": '["float32", "float32"]'}
    profile = make_profile(
        ops=[{"op": 0, "name": "aten::mm", "pid": 9, "tid": 1, "start_ns": 0, "duration_ns": 9, **shapes}],
        activities=[kernel("mystery", 20_000, op=0, op_join="launch", device=0)],
        devices=[{"session": 0, "device": 0, "name": "NVIDIA H200"}],
    )
    (row,) = op_work_by_shape(profile).rows(named=True)
    # 268 MFLOP in 20 µs are 13.4 TFLOP/s, of 66.9 and 494.7.
    assert (row["roof_pct"], row["peak"]) == (None, None)
    assert saving_lines(profile, row) == [
        ("Of the fp32 peak", "20.1%", "kernel type unknown"),
        ("Of the tf32 peak", "2.7%", "kernel type unknown"),
    ]


async def test_a_short_screen_keeps_one_line_of_the_plot() -> None:
    async with open_explorer(
        sample_path("resnet50_training.pt.trace.json.gz"), size=(80, 24), view="roofline"
    ) as pilot:
        screen = screen_of(pilot)
        assert screen.query_one(RooflinePlot).size.height == 1
