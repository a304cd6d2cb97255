"""Every screen at three sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from textual.color import Color

from tests.screens.explorer import assert_at_sizes, open_explorer, press
from tests.snapshots import assert_screen

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

CAFFE, TRAINING, RUNS = "caffe_conv1.nvprof.log", "resnet50_training.nvprof.log", "tracking_four_runs.nvprof.log"
REPORT, PALEO, METRICS = "cnn_report_wrapped.md", "paleo_vgg16.txt", "metrics_and_events.nvprof.log"

SCREENS: Final = {
    "kernels-of-an-op": (TRAINING, "ops-and-kernels", "enter"),
    "launch-config": (CAFFE, "ops-and-kernels", "enter enter enter"),
    "log": (CAFFE, "dashboard", ": 8 3 enter i"),
    "views-menu": (CAFFE, "dashboard", "m"),
    "sessions-menu": (RUNS, "dashboard", "S"),
    "help": (CAFFE, "ops-and-kernels", "?"),
    "filtered": (TRAINING, "ops-and-kernels", "f c o n v enter"),
}
"""For each state: the sample, the view, and the keys that lead to it from there."""

KEYS: Final = {":": "colon", "?": "question_mark"}


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    sample, view, keys = SCREENS[state]
    async with open_explorer(sample, view=view) as pilot:
        await press(pilot, *(KEYS.get(key, key) for key in keys.split()))
        await assert_at_sizes(pilot, snapshot, svg=state == "launch-config")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("color", ["truecolor", "16", "none"])
async def test_colors(theme: str, color: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(CAFFE, size=(80, 24), theme=theme, color=color, view="ops-and-kernels") as pilot:
        await press(pilot, "space")
        assert_screen(pilot.app, snapshot, svg=True)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(CAFFE, size=(120, 40), ascii_only=True, view="ops-and-kernels") as pilot:
        assert_screen(pilot.app, snapshot)


@pytest.mark.parametrize("keys", [("m",), ("4", "c")], ids=["menu", "columns"])
@pytest.mark.parametrize("color", ["truecolor", "16", "none"])
async def test_the_line_under_the_cursor_of_a_dialog_is_highlighted(keys: tuple[str, ...], color: str) -> None:
    async with open_explorer(CAFFE, size=(80, 24), color=color) as pilot:
        await press(pilot, *keys, "j")
        strips = pilot.app.screen._compositor.render_strips()
        # Where colors are sure the line has a ground of its own, as the row of a table.
        ground = Color.parse(pilot.app.theme_variables["selection"]).rich_color if color == "truecolor" else None
        chosen = [
            "".join(
                segment.text
                for segment in strip
                if (style := segment.style) is not None
                and style.bold
                and (style.bgcolor == ground if ground is not None else style.reverse)
            ).split()
            for strip in strips
        ]
        # The ends of scroll bars are a character.
        assert [words[:2] for words in chosen if len(words) > 1] == [
            ["7", "Iterations"] if keys == ("m",) else ["[x]", "Total"]
        ]
