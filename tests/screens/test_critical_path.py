"""The Critical Path view, and the path in the timeline."""

from __future__ import annotations

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import open_explorer, press, sample_path, screen_of, settle
from tests.snapshots import screen_text
from tui.analysis.critical_path import critical_paths
from tui.analysis.iterations.iteration_table import with_iterations
from tui.screens.critical_path import CriticalPathScreen, PathStrip, path_sentence
from tui.screens.linked_tables import LinkedTables
from tui.screens.timeline import TimelineScreen


async def test_links_lead_from_an_iteration_to_its_segments_and_the_timeline() -> None:
    async with open_explorer(sample_path("resnet50_training.pt.trace.json.gz"), size=(120, 40)) as pilot:
        await press(pilot, "B")
        screen = screen_of(pilot, CriticalPathScreen)
        await settle(pilot)
        rows = critical_paths(screen.profile)
        tables = screen.query_one(LinkedTables)
        assert tables.pane(0).model.shown_frame().height == rows.height
        assert "-bound (" in screen_text(pilot.app)
        await press(pilot, "enter")
        work = tables.pane(1).current_row
        assert work is not None
        assert tables.pane(1).frame["path_ns"].sum() == rows["duration_ns"][0]
        assert tables.pane(2).frame["duration_ns"].sum() == work["path_ns"]
        await press(pilot, "enter", "T")
        timeline = screen_of(pilot, TimelineScreen)
        await press(pilot, "P")
        assert timeline.lanes.hits is not None
        assert "find critical path" in screen_text(pilot.app)
        await press(pilot, "P")
        assert timeline.lanes.hits is None


async def test_a_short_screen_keeps_the_bar_and_its_legend() -> None:
    async with open_explorer(sample_path("resnet50_training.pt.trace.json.gz"), size=(80, 24)) as pilot:
        await press(pilot, "B")
        screen = screen_of(pilot)
        strip = screen.query_one(PathStrip)
        assert strip.size.height == 3
        _, parts, legend = strip.render().plain.splitlines()
        assert set(parts) == {entry.split()[0] for entry in legend.split("  ")}
        assert legend.endswith(" other")


def test_a_path_that_is_mostly_not_recorded_says_so() -> None:
    profile = with_iterations(
        make_profile(
            ranges=[{"name": "step", "start_ns": 0, "duration_ns": 100, "pid": 1, "tid": 1, "iteration": 0}],
            api_calls=[
                {"name": "cudaLaunchKernel", "start_ns": 70, "duration_ns": 2, "pid": 1, "tid": 1, "correlation": 1}
            ],
            activities=[kernel("a", 20, start_ns=80, correlation=1, device=0, stream=7, iteration=0)],
        )
    )
    row = critical_paths(profile).row(0, named=True)
    assert path_sentence(profile, row) == "Iteration 0, 100 ns: 70.0% of the path is not recorded"
