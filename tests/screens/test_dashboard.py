"""The dashboard: its panels, their figures, and their links."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.frames import kernel, make_profile
from tests.parameters import others_slow
from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    open_explorer,
    press,
    run_line,
    sample_path,
    screen_of,
    settle,
)
from tests.screens.made_profiles import dlprof_profile, open_profile, training_profile
from tests.snapshots import assert_picture, screen_text
from tests.waiting import wait_until
from tui.analysis.dashboard import ORDERS, idle_gaps
from tui.analysis.dashboard_facts import definitions
from tui.model.aggregation import Aggregation
from tui.output.report_dashboard import DashboardReport
from tui.screens.dashboard import DashboardScreen
from tui.screens.dashboard.panel_entries import gap_entries
from tui.screens.dashboard.panels import ChartPanel, StatPanel, fact_details
from tui.screens.timeline import TimelineScreen
from tui.text import begin_sentence
from tui.widgets.charts.bars import BusyChart
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    import polars as pl
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.screens.dashboard.entries import Link

CAFFE, TRAINING, RUNS = "caffe_conv1.nvprof.log", "resnet50_training.nvprof.log", "tracking_four_runs.nvprof.log"
TORCH, NSYS, NCU, PALEO = (
    "resnet50_training.pt.trace.json.gz",
    "gpt_cudagraph.nsys.sqlite.gz",
    "gemm.ncu.csv",
    "paleo_vgg16.txt",
)
RANKS = "ddp_ranks"
MADE_PROFILES: Final = {"made dlprof": dlprof_profile, "made ranks": training_profile}
ALL_KINDS: Final = (CAFFE, TRAINING, RUNS, TORCH, NSYS, NCU, PALEO, RANKS, *MADE_PROFILES)


def open_input(name: str, size: tuple[int, int] = (120, 40)) -> AbstractAsyncContextManager[Pilot[None]]:
    return (
        open_profile(MADE_PROFILES[name](), size=size)
        if name in MADE_PROFILES
        else open_explorer(sample_path(name), size=size)
    )


def panel_of(pilot: Pilot[None], name: str) -> ChartPanel:
    return screen_of(pilot, DashboardScreen).query_one(f"#{name}-panel", ChartPanel)


def assert_figures_are_defined(screen: DashboardScreen) -> None:
    """Check that the help has a definition of every figure."""
    names = {chart.metric for chart in screen.query(ChartPanel) if chart.metric}
    names |= {entry.metric for chart in screen.query(ChartPanel) for entry in chart.entries if entry.metric}
    names |= {fact.name for fact in screen.query_one(StatPanel).facts}
    assert names <= definitions().keys()


async def follow_link(pilot: Pilot[None], link: Link) -> None:
    """Follow a link to its rows, and return to the dashboard."""
    app = app_of(pilot)
    link.go(app)
    if not link.view:
        await pilot.pause()
        if link.session is None:
            await pilot.press("escape")
        else:
            assert app.profile_session.session == link.session
            app.profile_session.choose_session(None)
            await settle(pilot)
        return
    assert app.view_screen is not None
    assert link.view == app.view_screen.VIEW, f"{link} is declined"
    await pilot.pause()
    screen = app.view_screen
    if link.gap is not None:
        assert isinstance(screen, TimelineScreen)
        gap, lanes = link.gap, screen.lanes

        def is_shown() -> bool:
            window = lanes.window
            # The gap is told from what ran before and after it.
            return window is not None and 0 < window.cell_ns * lanes.size.width < 20 * gap.length_ns

        await wait_until(pilot, is_shown, f"the stretch of {link}")
        assert lanes.window is not None
        assert lanes.shown is not None
        begin_ns = gap.start_ns + lanes.shown.shifts[gap.session]
        assert lanes.window.first_ns <= begin_ns <= lanes.cursor_ns < begin_ns + gap.length_ns
        lane = lanes.shown.lanes[lanes.lane]
        assert (lane.session, lane.device) == (gap.session, gap.device)
        app.go("dashboard")
        return
    if link.query:
        assert screen.table is not None
        await wait_until(
            pilot, lambda: screen.table is not None and len(screen.table.table.model.rows) > 0, f"rows of {link}"
        )
        app.go("dashboard")
        return
    if link.shows_all:
        assert isinstance(screen, TimelineScreen)
        lanes = screen.lanes
        await wait_until(
            pilot, lambda: lanes.window is not None and lanes.window == lanes.window.fit(), "all of the time"
        )
        app.go("dashboard")
        return
    if screen.first_table is None:
        assert (link.view, link.filter) == ("log", "")
        app.go("dashboard")
        return

    def arrived() -> bool:
        table = screen.table
        if table is None or table.is_pending or table.model.applied is None:
            return False
        return (
            table is screen.first_table
            and table.state.filter == link.filter
            and (link.cursor is None or table.state.cursor_key == link.cursor)
        )

    await wait_until(pilot, arrived, f"the rows behind {link}")
    table = screen.table
    assert table is not None
    assert table.model.applied is not None
    assert table.model.applied.error is None, f"{link}: {table.model.applied.error}"
    assert table.model.shown_frame().height > 0, f"{link} leads to no rows"
    app.go("dashboard")
    await pilot.pause()


@pytest.mark.parametrize("name", others_slow(ALL_KINDS, (CAFFE, NCU)))
async def test_every_link_leads_to_rows(name: str) -> None:
    async with open_input(name) as pilot:
        assert_figures_are_defined(screen_of(pilot, DashboardScreen))
        links = list(dict.fromkeys(screen_of(pilot, DashboardScreen).links()))
        assert len(links) > 3
        for link in links:
            await follow_link(pilot, link)


async def test_a_figure_links_to_the_rows_that_it_was_computed_from() -> None:
    # A session of Nsight Compute beside the run: its kernels were replayed, and no figure is of them.
    async with open_explorer(TORCH, NCU, aggregation=Aggregation(4, 6)) as pilot:
        app, strip = app_of(pilot), screen_of(pilot, DashboardScreen).query_one(StatPanel)

        def behind(name: str) -> pl.DataFrame:
            assert app.view_screen is not None
            assert app.view_screen.first_table is not None
            return app.view_screen.first_table.model.shown_frame()

        worked_out: dict[str, Callable[[pl.DataFrame], object]] = {
            "gpu_ns": lambda rows: rows["total_ns"].sum(),
            "launches": lambda rows: rows["calls"].sum(),
            "kernels": lambda rows: rows["name"].n_unique(),
            "iterations": lambda rows: rows.height,
            "iteration_avg_ns": lambda rows: round(rows["duration_ns"].mean()),  # type: ignore[arg-type]
            "iteration_p95_ns": lambda rows: fact.value if rows["iteration"].to_list() == [5] else None,
            "busy_pct": lambda rows: fact.value if rows["session"].to_list() == [0] else None,
            "api_ns": lambda rows: rows["total_ns"].sum(),
            "api_calls": lambda rows: rows["calls"].sum(),
        }
        facts = {fact.name: fact for fact in strip.facts}
        assert worked_out.keys() < facts.keys()
        for name, make in worked_out.items():
            fact = facts[name]
            strip.post_message(StatPanel.Opened(fact, fact_details(fact)))
            await settle(pilot)
            assert make(behind(name)) == fact.value, name
            app.go("dashboard")
            await settle(pilot)


@pytest.mark.parametrize(
    ("name", "facts"), [("AMD Instinct MI300X", "304 CUs"), ("NVIDIA H200", "cc 9.0, 132 SMs, from its name")]
)
async def test_the_cores_of_a_gpu_are_named_as_its_manufacturer_does(name: str, facts: str) -> None:
    device = {"device": 0, "name": name, "sm_count": 304 if "AMD" in name else None}
    profile = make_profile(devices=[device], activities=[kernel("k", 5, start_ns=0, device=0)])
    async with open_profile(profile, size=(200, 50)) as pilot:
        assert re.search(rf"GPU 0 +{name}  {facts}", screen_text(pilot.app))


async def test_system_figures_and_unknown_figures_have_links() -> None:
    async with open_explorer(CAFFE) as pilot:
        app, board = app_of(pilot), screen_of(pilot, DashboardScreen)
        panel_of(pilot, "system").bars.focus()
        await press(pilot, "enter")
        assert app.view_screen is not None
        assert app.view_screen.VIEW == "gpus"
        assert app.view_screen.first_table is not None
        assert app.view_screen.first_table.model.shown_frame()["gpu_name"].to_list() == ["Tesla K40c"]
        await press(pilot, "q")
        command = next(entry for entry in panel_of(pilot, "system").entries if "Command" in entry.row.label)
        assert command.link is not None
        assert command.link.query == "SELECT session, command, source FROM sessions"
        needs = panel_of(pilot, "missing")
        entry = next(entry for entry in needs.entries if entry.row.key == "API calls")
        assert entry.link is not None
        await follow_link(pilot, entry.link)
        entry.link.go(app)
        await settle(pilot)
        assert app.view_screen.table is not None
        rows = app.view_screen.table.model.shown_frame()
        assert rows["message"].to_list() == ["No API calls: record with nvprof --print-api-trace"]
        assert rows["verdict"].to_list() == ["not applicable"]
        metrics_link = next(entry for entry in needs.entries if entry.row.key == "metrics").link
        assert metrics_link is not None
        assert metrics_link.filter == 'message="No metrics: record with nvprof --metrics all"'
        assert board.query_one("#missing-panel", ChartPanel).bars.can_focus


async def test_a_panel_below_the_screen_is_scrolled_to_the_cursor() -> None:
    async with open_explorer(PALEO, size=(60, 15)) as pilot:
        needs = panel_of(pilot, "missing")
        assert needs.size.height > 8
        needs.bars.focus()
        await settle(pilot)
        for entry in needs.entries:
            assert begin_sentence(entry.row.key.partition(",")[0]) in screen_text(pilot.app)
            await press(pilot, "j")


async def test_findings_and_time_are_in_the_first_lines() -> None:
    async with open_explorer(TORCH, size=(80, 24)) as pilot:
        lines = screen_text(pilot.app).splitlines()[:22]
        text = "\n".join(lines)
        for words in ("Expert Systems", "Start here", "Resource usage", "Using tensor cores", "Average iteration"):
            assert words in text


async def test_enter_selects_a_finding_in_the_list_of_all() -> None:
    async with open_explorer(TRAINING) as pilot:
        await press(pilot, "j", "enter")
        screen = screen_of(pilot)
        assert screen.VIEW == "expert-systems"
        assert screen.table is not None
        row = screen.table.current_row
        assert row is not None
        await press(pilot, "q")
        entry = panel_of(pilot, "findings").entries[1]
        assert str(row["problem"]) in entry.row.label
        assert str(entry.values["all_rules"]).split()[0] == row["rule"]


async def test_ops_and_kernels_cycle_through_their_orders() -> None:
    async with open_explorer(TRAINING) as pilot:
        for name in ("ops", "kernels"):
            chart = panel_of(pilot, name)
            chart.bars.focus()
            orders = []
            for order in ORDERS[1:] + ORDERS[:1]:
                await press(pilot, "s")
                # No ops are recorded here: what is counted of them is launches.
                column = "launches" if (name, order) == ("ops", "calls") else order
                values = [entry.values[column] for entry in chart.entries]
                assert values == sorted(values, reverse=True)
                orders.append([entry.row.key for entry in chart.entries])
            assert len({tuple(keys) for keys in orders}) == len(ORDERS)


async def test_the_cursor_moves_from_panel_to_panel_and_back() -> None:
    async with open_explorer(TRAINING, size=(80, 24)) as pilot:
        screen = app_of(pilot).screen
        met = []
        lines = sum(panel.display and len(panel.entries) for panel in screen.query(ChartPanel))
        lines += len(screen.query_one(StatPanel).facts)
        assert pilot.app.focused is not None
        first = pilot.app.focused.id
        for _ in range(lines + 3):
            met.append(pilot.app.focused.id)
            await press(pilot, "j")
        panels = list(dict.fromkeys(met))
        assert (met[0], met[-1]) == (first, panels[-1])
        assert [panel for before, panel in itertools.pairwise(met) if panel != before] == panels[1:]
        assert {"performance", "gaps"} <= set(panels)
        await press(pilot, *["k"] * (lines + 3))
        assert pilot.app.focused.id == first
        assert "tab next panel" in screen_text(pilot.app).splitlines()[-1]


async def test_i_explains_a_figure_and_follows_the_cursor() -> None:
    async with open_explorer(TRAINING) as pilot:
        strip = screen_of(pilot, DashboardScreen).query_one(StatPanel)
        strip.query_one("#performance").focus()
        await press(pilot, "i")
        text = screen_text(pilot.app)
        assert "last end - first start of ops, iterations and GPU work" in " ".join(text.split())
        await press(pilot, "j")
        assert "busy time / wall time, both summed over GPUs" in screen_text(pilot.app)
        await press(pilot, "escape")
        assert not screen_of(pilot, DashboardScreen).query_one(DetailPane).is_open
        assert strip.current is not None
        assert strip.current.name == "busy_pct"


async def test_help_begins_with_the_definition_of_the_figure_under_the_cursor() -> None:
    async with open_explorer(TRAINING) as pilot:
        panel_of(pilot, "wall").bars.focus()
        await press(pilot, "question_mark")
        assert "in exclusive categories that add up to it" in " ".join(screen_text(pilot.app).split())


@pytest.mark.parametrize("name", MADE_PROFILES)
async def test_every_figure_has_a_definition(name: str) -> None:
    async with open_input(name) as pilot:
        assert_figures_are_defined(screen_of(pilot, DashboardScreen))


REPORT_SECTIONS: Final = {
    "wall": ("breakdown", ("category", "time_ns", "wall_ns")),
    "ops": ("top_ops", ("op", "total_ns", "calls", "time_pct", "tc_eligible", "uses_tensor_core")),
    "kernels": ("top_kernels", ("name", "total_ns", "calls", "time_pct")),
    "uses": ("gpu_uses", ("use", "calls", "total_ns", "time_pct")),
    "split": ("split", ("group", "total_ns", "time_pct")),
    "gaps": ("longest_gaps", ("session", "start_ns", "duration_ns", "after")),
    "copies": ("copies", ("copy_kind", "total_ns", "size_bytes", "throughput")),
    "api": ("top_api", ("name", "total_ns", "calls", "time_pct")),
    "layers": ("layer_totals", ("phase", "executor", "measured_ns", "predicted_ns")),
    "tool-report": ("tool_headlines", ("tool_name", "tool_value", "text")),
    "findings": ("top_findings", ("severity", "recommendation", "session")),
}
"""For each panel the table of the report with the same rows, and the columns that both have."""


async def test_the_lane_of_a_gpu_without_a_number_has_the_share_of_the_wall_time() -> None:
    work = [kernel("gemm", 100_000, start_ns=100_000, device=None)]
    op = {"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 400_000}
    async with open_profile(make_profile(activities=work, ops=[op])) as pilot:
        text = screen_text(pilot.app)
        assert re.search(r"GPU \? busy .* 25\.0%", text)
        chart = screen_of(pilot).query_one(BusyChart)
        assert chart.render().plain.splitlines()[1].startswith("25.0% ")


@pytest.mark.parametrize("name", others_slow((CAFFE, TRAINING, RUNS, TORCH, NSYS, NCU, PALEO), (TORCH, NCU, PALEO)))
async def test_the_panels_agree_with_the_report(name: str) -> None:
    """Line by line and value by value."""
    async with open_explorer(name) as pilot:
        in_json = json.loads(DashboardReport(app_of(pilot).profile_session.profile).as_json())
        assert_figures_are_defined(screen_of(pilot, DashboardScreen))
        for panel_name, (table, columns) in REPORT_SECTIONS.items():
            on_screen = [[entry.values[column] for column in columns] for entry in panel_of(pilot, panel_name).entries]
            in_report = [[row[column] for column in columns] for row in in_json[table]]
            if panel_name == "wall":
                in_report = [row for row in in_report if row[1] is not None]
            assert json.loads(json.dumps(on_screen)) == in_report, panel_name
        facts = screen_of(pilot, DashboardScreen).query_one(StatPanel).facts
        assert facts or name == PALEO
        for fact in facts:
            assert in_json["performance"][fact.name] == fact.value


async def test_layers_mark_the_predicted_figure_once() -> None:
    async with open_explorer(PALEO) as pilot:
        layers = panel_of(pilot, "layers")
        first = layers.entries[0].row
        assert (first.label, first.value) == ("forward, cudnn", "487 ms  436 ms")
        assert "Layers  measured, predicted" in screen_text(pilot.app)
    async with open_explorer("caffe_conv1.nvprof.log") as pilot:
        values = [entry.row.value for entry in panel_of(pilot, "layers").entries]
        assert values
        assert not any("  " in value for value in values)


async def test_parts_of_the_time_add_up_to_the_total() -> None:
    async with open_explorer(TORCH) as pilot:
        parts = [entry.values["total_ns"] for entry in panel_of(pilot, "wall").entries]
        wall = screen_of(pilot, DashboardScreen).query_one(StatPanel).facts[0]
        assert (wall.name, wall.value) == ("wall_ns", sum(parts))
        gpu = next(
            fact for fact in screen_of(pilot, DashboardScreen).query_one(StatPanel).facts if fact.name == "gpu_ns"
        )
        for name in ("uses", "split"):
            assert sum(entry.values["total_ns"] for entry in panel_of(pilot, name).entries) == gpu.value


async def test_a_kind_of_time_has_one_color_in_every_panel() -> None:
    async with open_explorer("caffe_conv1.nvprof.log") as pilot:
        looks = {
            entry.row.label: entry.row.part for name in ("wall", "uses") for entry in panel_of(pilot, name).entries
        }
        assert looks["Not using tensor cores"] == looks["All other kernels"] == "other"
        assert looks["Memory"] == looks["Copies"] == "memory"
        assert looks["Other"] == "idle"


async def test_copies_and_communication_have_their_colors_among_ops_and_kernels() -> None:
    async with open_explorer("caffe_conv1.nvprof.log") as pilot:
        styles = {entry.row.label: entry.row.kind for entry in panel_of(pilot, "ops").entries}
        assert (styles["memcpy HtoD"], styles["memset"]) == ("memory", "memset")
    async with open_explorer("ddp_ranks") as pilot:
        kernels = [entry.row for entry in panel_of(pilot, "kernels").entries]
        assert [row.kind for row in kernels if row.label.startswith("nccl")] == ["communication"]


async def test_time_by_kind_is_shown_for_each_of_a_few_sessions() -> None:
    async with open_explorer("ddp_ranks") as pilot:
        await press(pilot, "g")
        assert "Sessions  GPU time" in screen_text(pilot.app)
        lines = panel_of(pilot, "wall").entries
        for session, wall_ns in ((0, 113_696_424), (1, 111_981_596)):
            own = [entry for entry in lines if entry.values["session"] == session]
            assert own[0].values["wall_ns"] == wall_ns
            assert sum(entry.values["time_ns"] for entry in own[1:]) == wall_ns
            links = [entry.link for entry in own[1:] if entry.link is not None]
            assert links
            assert all(f"session={session}" in link.filter for link in links)


async def test_the_gpu_time_of_sessions_is_that_of_the_chosen_iterations() -> None:
    async with open_explorer("ddp_ranks") as pilot:
        assert [entry.values["gpu_ns"] for entry in panel_of(pilot, "sessions").entries] == [112_912_672, 116_280_994]
        await run_line(pilot, "iterations 3")
        await press(pilot, "1")
        assert [entry.values["gpu_ns"] for entry in panel_of(pilot, "sessions").entries] == [25_875_400, 26_375_303]


async def test_iterations_are_those_of_the_session_under_the_cursor() -> None:
    async with open_explorer("ddp_ranks", size=(120, 40)) as pilot:
        iterations = panel_of(pilot, "iterations")
        iterations.bars.focus()
        await settle(pilot)
        assert "Iterations  session 0: 4, from 3 to 6" in screen_text(pilot.app)
        # The longest is iteration 4 of session 0, and iteration 3 of session 1.
        assert "30 ms            ▁▁▁▁▁▁▁▁▁▁\n" in screen_text(pilot.app)
        await press(pilot, "j")
        assert "Iterations  session 1: 4, from 3 to 6" in screen_text(pilot.app)
        assert "30 ms ▁▁▁▁▁▁▁▁▁▁\n" in screen_text(pilot.app)


async def test_figures_that_are_not_additive_have_no_sum_over_sessions() -> None:
    async with open_profile(training_profile()) as pilot:
        facts = {fact.name for fact in screen_of(pilot, DashboardScreen).query_one(StatPanel).facts}
        assert not facts & {"wall_ns", "span_ns", "iterations", "iteration_avg_ns"}
        assert "each session" in " ".join(screen_text(pilot.app).split())
        app_of(pilot).profile_session.choose_session(1)
        await settle(pilot)
        assert {"wall_ns", "iteration_avg_ns"} <= {
            f.name for f in screen_of(pilot, DashboardScreen).query_one(StatPanel).facts
        }


async def test_screen(snapshot: SnapshotAssertion) -> None:
    async with open_input("made ranks") as pilot:
        await assert_at_sizes(pilot, snapshot)


async def test_colors(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRAINING) as pilot:
        assert_picture(pilot.app, snapshot)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TORCH, size=(120, 40), ascii_only=True) as pilot:
        text = screen_text(pilot.app)
        assert text.isascii()
        assert text == snapshot
        await press(pilot, "question_mark")
        assert screen_text(pilot.app).isascii()
        await press(pilot, "tab")
        assert screen_text(pilot.app).isascii()
        assert "j down" in screen_text(pilot.app)


def test_gaps_before_instances_of_one_kernel_are_distinguished() -> None:
    work = ((0, "g", 0), (100, "void at::f_kernel<Fill<int> >(int)", 0), (300, "void at::f_kernel<Add<int> >(int)", 1))
    profile = make_profile(
        activities=[kernel(name, 10, start_ns=start, device=0, iteration=number) for start, name, number in work]
    )
    lines = gap_entries(idle_gaps(profile), has_several_sessions=False)
    assert [line.row.label for line in lines] == [
        "iteration 1 → at::f_kernel<Add<int> >",
        "iteration 0 → at::f_kernel<Fill<int> >",
    ]
