"""The Expert Systems view: from a finding to its rows and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

from tests.analysis.expert.answers.iterations import ANSWERS as ITERATIONS
from tests.analysis.expert.profiles import HEALTHY
from tests.analysis.expert.rule_verdicts import open_shown
from tests.corpus import corpus_file, recording_file, shared_file
from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    messages_of,
    open_explorer,
    press,
    sample_path,
    screen_of,
    settle,
)
from tests.screens.made_profiles import open_profile
from tests.snapshots import assert_screen, screen_text
from tests.waiting import WorkerGate, wait_until
from tui.analysis.capabilities import views
from tui.analysis.critical_path_slack import critical_path
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import FOLDED, IDLE_RULES, longest_finding_gap
from tui.analysis.gpu_time.idle_gaps import longest_gaps
from tui.analysis.timeline.lookup import Gap, TimeInterval, gap_at
from tui.model.table_spec import TableState
from tui.query.apply import apply
from tui.screens import expert_systems
from tui.screens.base import WIDE_CELLS
from tui.screens.expert_systems import path_lines
from tui.screens.menus import MenuScreen
from tui.screens.tabs import TabbedTables
from tui.screens.timeline import TimelineScreen
from tui.tables import tables_of_report
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syrupy.assertion import SnapshotAssertion

    from tui.model.profile import Profile

RUNS, TRAINING = "tracking_four_runs.nvprof.log", "resnet50_training.pt.trace.json.gz"
SAMPLES: Final = (
    "caffe_conv1.nvprof.log", "cnn_report_wrapped.md", "ddp_ranks", "gemm.ncu.csv", "gpt_cudagraph.nsys.sqlite.gz",
    "gpt_summary.nvprof.log", "jax_train_step.trace.json.gz", "metrics_and_events.nvprof.log",
    "mlp_modules.pt.trace.json.gz", "paleo_vgg16.txt", "resnet50_training.csv", "resnet50_training.nvprof.log",
    TRAINING, RUNS,
)  # fmt: skip
RECORDINGS: Final = (
    "ddp.nsys.sqlite.gz", "ddp_rank0.pt.trace.json.gz", "gpt_bf16_stacks.pt.trace.json.gz",
    "gpt_cudagraph.pt.trace.json.gz", "resnet50_amp.nsys.sqlite.gz", "resnet50_fp32.pt.trace.json.gz",
    "tiny_kernels.pt.trace.json.gz",
)  # fmt: skip
LOGS: Final = (
    "dlprof/dlprof_dldb.sqlite", "seeds/000_eb78dec59201d654.txt", "seeds/002_217dea74feb3b440.txt",
    "seeds/003_c168b99af706e402.txt",
)  # fmt: skip
REPORTED: Final = {"ops-and-kernels": "ops", "api-calls": "api"}
"""Views whose name in a report is another one."""


def findings_of(profile: Profile) -> Iterator[dict[str, Any]]:
    """Return the findings with their links."""
    for row in findings(profile).iter_rows(named=True):
        if row["state"] == "found" and row["view"]:
            yield row


def assert_every_jump_shows_rows(profile: Profile) -> None:
    available = views(profile)
    for row in findings_of(profile):
        assert available.get(row["view"], "ok") == "ok", row["rule"]
        tables = tables_of_report(REPORTED.get(row["view"], row["view"]))
        table = next(
            (candidate for candidate in tables if candidate.spec.endswith(f":{(row['part'] or '').upper()}")), tables[0]
        )
        shown = apply(table.rows(profile), table.table_spec(profile), TableState(filter=row["filter"] or ""))
        assert not shown.error, (row["rule"], row["filter"], shown.error)
        assert shown.shown, (row["rule"], row["filter"])


@pytest.mark.parametrize("name", SAMPLES)
def test_every_finding_of_a_sample_links_to_rows(name: str) -> None:
    assert_every_jump_shows_rows(open_shown(sample_path(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_finding_of_a_recording_links_to_rows(name: str) -> None:
    assert_every_jump_shows_rows(open_shown(recording_file(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_every_finding_of_a_real_log_links_to_rows(name: str) -> None:
    assert_every_jump_shows_rows(open_shown(corpus_file(name)))


@pytest.mark.parametrize(
    ("name", "back"),
    [
        ("caffe_conv1.nvprof.log", "q"),
        pytest.param("jax_train_step.trace.json.gz", "left_square_bracket", marks=pytest.mark.slow),
        pytest.param(RUNS, "q", marks=pytest.mark.slow),
    ],
)
async def test_enter_opens_the_rows_of_every_finding_and_q_returns(name: str, back: str) -> None:
    async with open_explorer(name, session=0, view="expert-systems") as pilot:
        expert = screen_of(pilot)
        pane = expert.query_one("#table", TablePane)
        jumps = pane.frame.filter(state="found").height
        assert jumps
        for _ in range(jumps):
            row = pane.current_row
            assert row is not None
            await press(pilot, "enter")
            shown = screen_of(pilot)
            if row["rule"] in IDLE_RULES and app_of(pilot).navigator.availability.get("timeline") == "ok":
                # The longest gaps are listed, with the cursor in the first; the rows have a key of their own.
                assert isinstance(shown, TimelineScreen)
                assert isinstance(app_of(pilot).screen, MenuScreen)
                await press(pilot, "escape")
                if (gap := longest_finding_gap(row)) is not None:
                    assert_cursor_in(shown, gap)
                await press(pilot, back)
                assert app_of(pilot).view_screen is expert
                if row["view"] is None:
                    await press(pilot, "j")
                    continue
                await press(pilot, "t")
                shown = screen_of(pilot)
            if row["view"] is None:
                # There are no rows behind it: its details stay open.
                assert "Metrics" in screen_text(pilot.app)
                await press(pilot, "j")
                continue
            assert row["view"] == shown.VIEW
            table = shown.first_table
            assert table is not None
            assert table.state.filter == (row["filter"] or "")
            assert table.model.applied is not None
            assert not table.model.applied.error
            assert table.model.applied.shown
            await press(pilot, back)
            assert app_of(pilot).view_screen is expert
            assert pane.current_row == row
            await press(pilot, "j")


def assert_cursor_in(screen: TimelineScreen, gap: Gap) -> None:
    """Check that the cursor of the timeline is in a gap of the GPU, which takes a good part of the screen."""
    view = screen.lanes
    assert view.shown is not None
    assert view.window is not None
    lane = view.shown.lanes[view.lane]
    assert (lane.session, lane.device, lane.on_gpu) == (gap.session, gap.device, True)
    at = view.cursor_ns - view.shift(view.lane)
    assert gap_at(lane, at) == TimeInterval(gap.start_ns, gap.start_ns + gap.length_ns)
    assert 0.2 <= gap.length_ns / (view.window.cells * view.window.cell_ns) <= 0.8


async def test_t_on_idle_time_shows_the_longest_gap_in_the_timeline() -> None:
    async with open_explorer(TRAINING, view="expert-systems") as pilot:
        expert = screen_of(pilot)
        pane = expert.query_one("#table", TablePane)
        place = pane.frame["rule"].to_list().index("U2")
        await press(pilot, *["j"] * place, "T")
        screen = screen_of(pilot, TimelineScreen)
        longest = longest_gaps(app_of(pilot).profile_session.profile, 1).row(0, named=True)
        assert_cursor_in(screen, Gap(0, longest["device"], longest["start_ns"], longest["duration_ns"]))
        await press(pilot, "q", "g", "T")
        assert pane.current_row is not None
        assert pane.current_row["rule"] == "U1"
        assert isinstance(app_of(pilot).screen, MenuScreen)
        await press(pilot, "enter")
        assert_cursor_in(screen, Gap(0, longest["device"], longest["start_ns"], longest["duration_ns"]))


async def test_a_finding_opens_the_tab_that_holds_its_rows() -> None:
    grows = next(answer for answer in ITERATIONS if answer.rule == "I9")
    async with open_profile(grows.found, view="expert-systems") as pilot:
        expert = screen_of(pilot)
        pane = expert.query_one("#table", TablePane)
        await press(pilot, *["j"] * pane.frame["rule"].to_list().index("I9"), "enter")
        memory = screen_of(pilot)
        tabs = memory.query_one(TabbedTables)
        assert tabs.tab.name == "allocator"
        assert tabs.tables.pane(0).frame["growth_bytes"].to_list() == [19 << 30]
        await press(pilot, "q")
        assert app_of(pilot).view_screen is expert


async def test_clean_rules_and_reasons_unfold() -> None:
    async with open_explorer(RUNS, session=0, view="expert-systems") as pilot:
        await press(pilot, "G")
        pane = app_of(pilot).view_screen.query_one("#table", TablePane)  # type: ignore[union-attr]
        folded = pane.frame.height
        assert "found nothing. Enter: show or hide." in screen_text(pilot.app)
        await press(pilot, "enter")
        await settle(pilot)
        assert pane.frame.height > folded
        assert pane.current_row is not None
        assert pane.current_row["state"] == FOLDED
        await press(pilot, "enter")
        assert pane.frame.height == folded
        pane.set_filter('verdict="not applicable"')
        await settle(pilot)
        await press(pilot, "g")
        await settle(pilot)
        assert "Not applicable" in screen_text(pilot.app)


async def test_a_clean_rule_about_idle_time_is_not_shown_in_the_timeline() -> None:
    async with open_profile(HEALTHY, view="expert-systems") as pilot:
        pane = screen_of(pilot).query_one("#table", TablePane)
        await press(pilot, "G", "enter")
        place = pane.frame["rule"].to_list().index("U1")
        assert pane.frame["state"][place] == "clean"
        await press(pilot, "g", *["j"] * place, "T")
        assert messages_of(pilot)[-1] == "Only findings are shown in the timeline."


async def test_details_show_figures_thresholds_and_advice() -> None:
    async with open_explorer(RUNS, session=0, size=(200, 50), view="expert-systems") as pilot:
        await settle(pilot)
        text = screen_text(pilot.app)
        for heading in ("Problem", "Fix", "Costs", "Metrics", "Thresholds", "Evidence"):
            assert heading in text


async def test_savings_by_the_critical_path_arrive_below_the_other_details(monkeypatch: pytest.MonkeyPatch) -> None:
    is_known = WorkerGate()
    monkeypatch.setattr(expert_systems, "critical_path", lambda *of: is_known.wait() and critical_path(*of))

    def shown() -> list[str]:
        return [line.rstrip() for line in screen_text(pilot.app).splitlines() if line.strip()][:-1]

    async with open_explorer(TRAINING, size=(200, 60), view="expert-systems") as pilot:
        before = shown()
        is_known.set()
        await wait_until(pilot, lambda: len(shown()) > len(before), "the critical path")
        lines = shown()
        assert lines[: len(before)] == before
        assert lines[len(before)] == " Critical path"
        assert "Iteration 4, 41 ms: " in lines[len(before) + 1]


def test_savings_of_the_work_behind_a_finding() -> None:
    """Two kernels on the path of a decode step; another one is not on it, and the training waits for its CPU."""

    def lines(profile: Profile, names: Sequence[str | None]) -> list[tuple[str, str]]:
        evidence = json.dumps([{"name": name} for name in names])
        return [
            (label, text) for label, text, _ in path_lines(profile, {"evidence": evidence}, critical_path(profile, 0))
        ]

    decode = open_shown(shared_file("corpus2/inference/vllm_decode_full/graph_execution.json.gz"))
    first, *others = lines(decode, ["vllm::rotary_embedding_kernel", "no such kernel"])
    assert first[0] == "Step"
    assert first[1].startswith("Iteration 0, 10.7 ms: ")
    assert others == []
    work = critical_path(decode).filter(path_kind="kernel")
    names = work["name"].cast(pl.String).head(2).to_list()
    assert [text.rpartition(": ")[2] for _, text in lines(decode, names)[1:]] == [
        "saves 1.88 ms of its 3.76 ms",
        "saves 1.64 ms of its 3.27 ms",
    ]
    training = open_shown(sample_path(TRAINING))
    kernel = critical_path(training).filter(path_kind="kernel", path_ns=0)["name"][0]
    assert lines(training, [kernel])[1:] == [
        ("Half of it", "saves nothing in this iteration: the work is not on its critical path")
    ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_target_of_enter_is_visible_without_scrolling(size: tuple[int, int]) -> None:
    async with open_explorer(TRAINING, size=size, view="expert-systems") as pilot:
        await press(pilot, *(["i"] if size[0] < WIDE_CELLS else []))
        await settle(pilot)
        text = screen_text(pilot.app)
        assert "opens the longest gaps" in text
        assert "Thresholds" in text


async def test_a_large_screen_shows_whole_sentences_and_details_below() -> None:
    async with open_explorer(TRAINING, size=(200, 50), view="expert-systems") as pilot:
        await settle(pilot)
        lines = screen_text(pilot.app).splitlines()
        assert "GPU busy 38% (80 of 212 ms). For 112 ms of the idle time the CPU was outside CUDA calls." in lines[2]
        assert "…" not in lines[2]
        status = next(place for place, line in enumerate(lines) if line.startswith(" 11 rows"))
        assert lines[status + 2].startswith(" Problem  ")


async def test_findings_of_the_tool_are_listed_with_ours() -> None:
    async with open_explorer(corpus_file("dlprof/dlprof_dldb.sqlite"), size=(200, 50), view="expert-systems") as pilot:
        expert = screen_of(pilot)
        rows = expert.query_one("#table", TablePane).frame.filter(state="found")
        assert {"DLProf", "I7"} <= set(rows["rules"])
        assert set(rows.filter(rules="DLProf")["verdict"]) <= {"not rated", "info", "warning", "error"}


SCREENS: Final = {"finding-details": ("j", "i"), "clean-rules": ("G", "enter")}


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRAINING, view="expert-systems") as pilot:
        await press(pilot, *SCREENS[state])
        await assert_at_sizes(pilot, snapshot)


@pytest.mark.parametrize("color", ["16", "none"])
async def test_colors(color: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRAINING, size=(120, 40), color=color, view="expert-systems") as pilot:
        await press(pilot, "j", "i")
        assert_screen(pilot.app, snapshot, svg=True)


async def test_a_narrow_screen_shows_the_whole_finding_below_the_table() -> None:
    async with open_explorer(TRAINING, size=(80, 24), view="expert-systems") as pilot:
        lines = [line.strip() for line in screen_text(pilot.app).splitlines()[-6:-1]]
        assert lines[0] == "GPU busy 38% (80 of 212 ms). For 112 ms of the idle time the CPU was outside"
        assert lines[2].startswith("Do: To reduce launch overhead, replay the step as a CUDA graph")
