"""Views of recordings by other tools than nvprof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from tests.screens.explorer import app_of, assert_at_sizes, open_explorer, press, settle, table_of
from tests.screens.made_profiles import STEPS, dlprof_profile, open_profile, training_profile
from tests.snapshots import screen_text
from tui.analysis.iterations.iteration_table import reasons

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


SCREENS: Final = {
    "iterations": (training_profile, "iterations", ""),
    "ranges": (training_profile, "ranges", ""),
    "range-instances": (training_profile, "ranges", "j j enter"),
    "gpus": (training_profile, "gpus", ""),
    "launch": (training_profile, "kernels", "enter enter"),
    "sessions-of-ranks": (training_profile, "dashboard", "S"),
    "graph": (dlprof_profile, "kernels", "j enter enter"),
}
"""For each state: the profile, the view, and the keys that lead to it from there."""


def keys_of(text: str) -> list[str]:
    return [{":": "colon", "-": "minus"}.get(key, key) for key in text.split()]


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    make, view, path = SCREENS[state]
    async with open_profile(make(), view=view) as pilot:
        await press(pilot, *keys_of(path))
        await assert_at_sizes(pilot, snapshot)


async def test_iterations_keep_their_recorded_numbers() -> None:
    async with open_profile(training_profile(), view="iterations") as pilot:
        shown = table_of(pilot, "table").frame
        assert shown["iteration"].to_list() == [*STEPS, None, *STEPS, None]
        await press(pilot, *keys_of("f s e s s i o n = 1 enter"))
        assert table_of(pilot, "table").frame.height == 8
        await press(pilot, *keys_of(": s e s s i o n"), "space", "1", "enter")
        assert set(table_of(pilot, "table").frame["session"]) == {1}
        assert "rank 1 of 2" in screen_text(pilot.app).splitlines()[0]


async def test_an_input_without_iterations_names_the_command_that_records_them() -> None:
    async with open_explorer("gpt_summary.nvprof.log", notifications=True) as pilot:
        await press(pilot, "7")
        assert app_of(pilot).view_screen.VIEW == "dashboard"  # type: ignore[union-attr]
        assert [message.message for message in app_of(pilot)._notifications] == [
            "Iterations: no start times: record with nvprof --print-gpu-trace"
        ]


async def test_found_iterations_say_how_they_were_found_and_can_be_selected() -> None:
    async with open_explorer("resnet50_training.nvprof.log", view="iterations") as pilot:
        app = app_of(pilot)
        iterations = table_of(pilot, "table").frame
        words = reasons(app.profile_session.profile)[0]
        assert words.startswith("detected: ")
        assert words.partition(",")[0] in screen_text(app).splitlines()[0]
        last = iterations["iteration"].drop_nulls().to_list()[-1]
        app.run_line(f"aggregate {last}")
        await settle(pilot)

        def chosen() -> list[int]:
            """The iterations that other views show; this view shows them among all."""
            assert table_of(pilot, "table").frame.height == iterations.height
            found: list[int] = table_of(pilot, "table").frame.filter(pl.col("aggregated"))["iteration"].to_list()
            return found

        assert chosen() == [last]
        assert f"iteration {last}" in screen_text(app).splitlines()[0]
        app.run_line("aggregate 999:")
        await settle(pilot)
        assert chosen() == [last]
        app.run_line("aggregate all")
        await settle(pilot)
        assert table_of(pilot, "table").frame.equals(iterations)


async def test_enter_opens_the_instances_of_a_range_and_q_returns() -> None:
    async with open_profile(training_profile(), view="ranges") as pilot:
        await press(pilot, *keys_of("f f o r w a r d enter"))
        await press(pilot, "enter")
        instances = table_of(pilot, "instances")
        assert instances.has_class("-current")
        assert instances.frame["range_gpu_ns"].to_list() == [6_000_000, 7_000_000, 8_000_000]
        assert "Ranges ▸ forward ▸ instances" in screen_text(pilot.app)
        await press(pilot, "q")
        assert table_of(pilot, "ranges").has_class("-current")


async def test_a_launch_shows_its_origin_and_its_measured_metrics() -> None:
    async with open_profile(training_profile(), size=(200, 70)) as pilot:
        await press(
            pilot, *keys_of(": k e r n e l s"), "space", *"session", "equals_sign", "0", "enter", "enter", "enter"
        )
        text = screen_text(pilot.app)
        for reported in (
            "cudaLaunchKernel  process 600, thread 600",
            "88.000 µs",
            "aten::mm",
            "Net / fc1",
            "48 KiB  per block, static and dynamic together",
            "yes  its name: tensorop",
            "71.25%",
            "gemm.ncu.csv  session 2",
            "Half",
        ):
            assert reported in text, reported


async def test_the_panel_of_the_tool_opens_its_report() -> None:
    async with open_profile(dlprof_profile(), size=(200, 50)) as pilot:
        assert "Reported by DLProf" in screen_text(pilot.app)
        panel = pilot.app.screen.query_one("#tool-report")
        panel.focus()
        await press(pilot, "enter")
        assert app_of(pilot).view_screen.VIEW == "tool-report"  # type: ignore[union-attr]
        assert table_of(pilot, "table").frame.height == 8
        assert "[bold]to increase" in table_of(pilot, "table").frame["text"].to_list()[1]


async def test_a_tool_without_a_report_has_no_panel() -> None:
    async with open_profile(training_profile(), size=(200, 50)) as pilot:
        assert not pilot.app.screen.query_one("#tool-report").parent.display  # type: ignore[union-attr]
        assert "As " not in screen_text(pilot.app)
        assert "replayed kernels are excluded" in screen_text(pilot.app)
        assert "session 2 is of Nsight Compute" in screen_text(pilot.app)
