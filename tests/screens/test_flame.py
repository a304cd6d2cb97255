"""The Flame view: zoom, find, groupings, and links to rows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from tests.profiles import SAMPLES
from tests.screens.explorer import app_of, messages_of, open_explorer, press, screen_of, settle
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.model.errors import CommandError
from tui.screens.copied_command import copied_command
from tui.screens.flame import FlameScreen
from tui.screens.view_tables import view_table
from tui.widgets.charts.flame import FlameChart
from tui.widgets.input_bars import FindBar

if TYPE_CHECKING:
    from pathlib import Path


async def test_zoom_find_and_links_of_the_flame() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="flame", size=(100, 24), notifications=True) as pilot:
        chart = pilot.app.screen.query_one(FlameChart)
        text = screen_text(pilot.app)
        assert "▏conv1" in text
        assert "754 ms  100.0% of GPU time  self 0 ns  all" in text
        assert "▏260 ms  34.5%" in text
        await press(pilot, "j", "j", "l")
        assert (chart.current or {})["node"] == "convolution backward data"
        assert "260 ms  34.5% of GPU time" in screen_text(pilot.app)
        await press(pilot, "enter")
        assert chart.zoomed == chart.cursor
        view = screen_of(pilot)
        *_words, row = shlex.split(copied_command(view))
        within = view_table(view.profile, "flame", keys=[row.removeprefix("--row=")]).rows
        zoomed = chart.current
        assert zoomed is not None
        assert within["node"].to_list()[:3] == ["all", "conv1", "convolution backward data"]
        assert within.filter(node_kind="kernel")["gpu_ns"].sum() == zoomed["gpu_ns"]
        assert within["parent"].to_list() == [-1, 0, 1, *[2] * (within.height - 3)]
        await press(pilot, "slash", *"conv", "enter")
        assert "730 ms, 96.9% of GPU time" in screen_text(pilot.app)
        await press(pilot, "n")
        assert chart.cursor in chart.marked_rows
        await press(pilot, "escape")
        assert "96.9% of GPU time" not in screen_text(pilot.app)
        await press(pilot, "z", "b")
        assert "Flame ▸ by type" in screen_text(pilot.app)
        await press(pilot, "comma")
        assert "Flame ▸ by layer" in screen_text(pilot.app)
        assert "Backward ops" not in screen_text(pilot.app)
        await press(pilot, "full_stop")
        command = copied_command(view)
        assert command.endswith("caffe_conv1.nvprof.log --view flame --group-by type")
        tops = view_table(view.profile, "flame", group_by="type").rows.filter(level=1)
        assert tops["gpu_ns"].to_list() == [753_580_086]
        await press(pilot, "c")
        assert "No comparison yet." in screen_text(pilot.app)
        await press(pilot, "k", "k", "k", "j", "j", "j", "t")
        screen = screen_of(pilot)
        assert screen.VIEW in ("ops-and-kernels", "kernels")


async def test_a_grouping_can_be_abbreviated_by_name_or_title() -> None:
    async with open_explorer("mlp_modules.pt.trace.json.gz", view="flame") as pilot:
        assert "Backward ops are under the name of their forward op." in screen_text(pilot.app)
        view = screen_of(pilot, FlameScreen)
        with pytest.raises(CommandError, match="choose module, caller, range, layer, type, iteration"):
            view.choose_grouping("by")
        for text, name in (("Iteration and", "iteration"), ("t", "type")):
            view.choose_grouping(text)
            assert view.grouping.name == name


async def test_impossible_actions_in_the_flame_say_why() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="flame", notifications=True) as pilot:
        chart = pilot.app.screen.query_one(FlameChart)
        for key, words in (
            ("t", "A group has no row in a table. Choose an op or a kernel."),
            ("n", "Nothing is highlighted. / highlights a name."),
            ("c", "No comparison yet. Press d."),
        ):
            await press(pilot, key)
            assert messages_of(pilot) == [words]
        await press(pilot, "slash", *"no such name", "enter")
        assert " no such name: 0 places, 0 ns, 0.0% of GPU time" in screen_text(pilot.app)
        await press(pilot, "escape", "j", "j", "enter")
        assert chart.zoomed == chart.cursor
        await press(pilot, "escape")
        assert chart.zoomed == -1


async def test_n_and_shift_n_cycle_through_the_found_nodes() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="flame") as pilot:
        chart = pilot.app.screen.query_one(FlameChart)
        await press(pilot, "slash", *"kernel", "enter")
        found = sorted(chart.marked_rows)
        assert len(found) > 2
        await press(pilot, "n")
        assert chart.cursor == found[0]
        await press(pilot, "n")
        assert chart.cursor == found[1]
        await press(pilot, "N", "N")
        assert chart.cursor == found[-1]
        await press(pilot, "n")
        assert chart.cursor == found[0]
        await press(pilot, "slash")
        line = pilot.app.screen.query_one(FindBar).query_one(Input)
        assert line.value == "kernel"
        await press(pilot, "escape", "escape", "slash")
        assert (len(chart.marked_rows), line.value) == (0, "")


async def test_growth_against_a_baseline_has_a_sign(tmp_path: Path) -> None:
    before = tmp_path / "before.log"
    before.write_bytes((SAMPLES / "caffe_conv1.nvprof.log").read_bytes())
    async with open_explorer("caffe_conv1.nvprof.log", view="flame", size=(120, 30)) as pilot:
        app = app_of(pilot)
        app.run_line(f"compare {before}")
        await wait_until(pilot, lambda: app.comparison.sides is not None, "the comparison")
        app.go("flame")
        await settle(pilot)
        await press(pilot, "c")
        text = screen_text(pilot.app)
        assert "caffe_conv1.nvprof.log against before.log" in text
        assert "red is slower, green faster, amber new." in text
        assert "+0 ns against the baseline" in text
        await press(pilot, "c")
        assert "against" not in screen_text(pilot.app)


async def test_nodes_have_edges_without_colors() -> None:
    async with open_explorer(
        "caffe_conv1.nvprof.log", view="flame", size=(80, 24), color="none", ascii_only=True
    ) as pilot:
        lines = screen_text(pilot.app).splitlines()
        assert max(line.count("|") for line in lines) >= 3
