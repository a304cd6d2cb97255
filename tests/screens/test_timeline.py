"""The timeline: keys, links, and texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest
from textual.widgets import OptionList

from tests.analysis.frames import copy, kernel, make_profile
from tests.parameters import others_slow
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
from tests.screens.made_profiles import open_profile, training_profile
from tests.snapshots import assert_screen, screen_text
from tests.waiting import WorkerGate, wait_until
from tui.analysis.timeline.lanes import LaneKind
from tui.analysis.timeline.lookup import Gap, find_name, item_name, longest_lane_gaps, names_around
from tui.analysis.timeline.shown import lane_title
from tui.analysis.timeline.window import exact_time
from tui.opening import open_profiles
from tui.options import OpenOptions
from tui.output.report import Style, as_text
from tui.screens import base, timeline
from tui.screens.timeline import MAX_LISTED_GAPS, NO_ROW_POSITION, TimelineScreen
from tui.text_width import cell_width
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from rich.style import Style as CellStyle
    from syrupy.assertion import SnapshotAssertion
    from textual.geometry import Region
    from textual.pilot import Pilot
    from textual.strip import Strip
    from textual.widget import Widget

    from tui.analysis.timeline.lookup import Hits
    from tui.analysis.timeline.shown import ShownLanes
    from tui.model.profile import Profile
    from tui.widgets.timeline.view import TimelineView

TRACE: Final = "resnet50_training.pt.trace.json.gz"
LOG: Final = "resnet50_training.nvprof.log"
RANKS: Final = ("ddp_ranks",)


def lanes_of(pilot: Pilot[None]) -> TimelineView:
    screen = screen_of(pilot, TimelineScreen)
    return screen.lanes


def lane_and_item(pilot: Pilot[None]) -> tuple[str, str | None]:
    """Return the lane of the cursor, and the name of the item under it."""
    view = lanes_of(pilot)
    assert view.shown is not None
    assert view.profile is not None
    lane = view.shown.lanes[view.lane]
    return lane_title(lane), None if view.item is None else item_name(view.profile, lane, view.item)


def screen_line(pilot: Pilot[None], holds: str) -> str:
    """Return the line of the screen that contains a text."""
    return next(text for text in screen_text(pilot.app).splitlines() if holds in text)


def underlined_cells(pilot: Pilot[None], holds: str) -> list[int]:
    """Return the underlined cells of the line of the screen that contains a text."""
    strip = next(strip for strip in pilot.app.screen._compositor.render_strips() if holds in strip.text)
    return [cell for cell, is_marked in enumerate(marked_cells(strip)) if is_marked]


def marked_cells(strip: Strip) -> list[bool]:
    """Return whether each cell of a line is underlined."""
    return [bool(look and look.underline) for text, look, _ in strip for _ in range(cell_width(text))]


def two_streams(*arguments: dict[str, Any]) -> Profile:
    """Return three rounds of copy, gemm, gap, relu on two streams, with the calls that launched them."""
    work, calls = [], list(arguments)
    for round_ in range(3):
        at, first = 1_000_000 * (round_ + 1), 10 * round_
        work += [
            copy("HtoD", 50_000, start_ns=at, device=0, stream=7, correlation=first),
            kernel("gemm_tensorop", 300_000, start_ns=at + 60_000, device=0, stream=7, correlation=first + 1,
                   uses_tensor_core=True),
            kernel("relu", 20_000 + round_, start_ns=at + 700_000, device=0, stream=9, correlation=first + 2),
        ]  # fmt: skip
        calls += [
            {"name": "cudaMemcpyAsync", "start_ns": at - 30_000, "duration_ns": 9_000, "correlation": first},
            {"name": "cudaLaunchKernel", "start_ns": at - 20_000, "duration_ns": 4_000, "correlation": first + 1},
            {"name": "cudaLaunchKernel", "start_ns": at - 10_000, "duration_ns": 4_000, "correlation": first + 2},
        ]
    return make_profile(
        sessions=[{"session": 0, "start_resolution_ns": 1}],
        activities=work,
        api_calls=[{**call, "pid": 1, "tid": 5} for call in calls],
    )


async def test_the_timeline_opens_on_the_first_launch_and_shows_the_whole_time() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        assert lane_and_item(pilot) == ("GPU 0", "[CUDA memcpy HtoD]")
        view = lanes_of(pilot)
        assert view.window == view.window.fit()
        assert view.has_focus
        text = screen_text(pilot.app)
        assert "at 1 ms · 50.000 µs" in text
        assert "970 µs to 3.72 ms · 29.3 µs per cell" in text


async def test_keys_move_by_cell_lane_launch_and_page() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        view = lanes_of(pilot)
        cell = view.window.cell_ns
        at = view.cursor_ns
        await press(pilot, "l", "l", "h")
        assert view.cursor_ns // cell == at // cell + 1
        await press(pilot, "j")
        assert lane_and_item(pilot)[0] == "GPU 0 stream 7"
        await press(pilot, "g", "n")
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "gemm_tensorop")
        await press(pilot, "n", "n", "N")
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "[CUDA memcpy HtoD]")
        await press(pilot, "G")
        assert view.cursor_ns == 3_060_000
        await press(pilot, "j", "G")
        assert lane_and_item(pilot) == ("GPU 0 stream 9", "relu")
        assert view.cursor_ns == 3_700_000
        await press(pilot, "ctrl+u")
        assert view.cursor_ns < 2_500_000
        await press(pilot, "j", "j", "j")
        assert lane_and_item(pilot)[0] == "thread 5 API calls"


async def test_facts_below_the_lanes_are_left_out_whole_if_they_do_not_fit() -> None:
    work = [(1_234_567_891, 500_000), (1_235_200_000, 90_000), (1_999_000_000, 1_000)]
    long = make_profile(
        activities=[
            kernel("gemm_tensorop", length, start_ns=at, device=0, stream=7, correlation=at) for at, length in work
        ]
    )
    async with open_profile(long, view="timeline") as pilot:
        await press(pilot, "h")
        facts = "gemm_tensorop · at 1.234567891 s · 500.00 µs · 1 of 2 in this cell, the longest"
        assert screen_line(pilot, " · at ").strip() == f"{facts} · GPU 0 stream 7"
        for width, text in ((90, facts), (80, facts.replace("in this cell", "here"))):
            await pilot.resize_terminal(width, 24)
            await settle(pilot)
            assert screen_line(pilot, " · at ").strip() == text


async def test_zoom_keeps_the_cursor_in_place_and_z_fits() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        await press(pilot, "j", "n", "n", "n")
        view = lanes_of(pilot)
        place = view.window.cell_at(view.cursor_ns)
        fitted = view.window
        await press(pilot, "plus", "equals_sign")
        assert view.window.cell_ns == 10_000
        assert view.window.cell_at(view.cursor_ns) == place
        await press(pilot, "underscore")
        assert view.window.cell_ns == 20_000
        await press(pilot, "z")
        assert view.window == fitted
        await press(pilot, "Z")
        start = view.window.cell_at(2_060_000)
        assert view.window.cell_at(2_360_000) - start == 15
        assert "gemm_tens" in screen_line(pilot, "stream 7")


async def test_keys_go_from_gap_to_gap_and_a_list_has_the_longest_first() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        await press(pilot, "right_curly_bracket")
        assert "gap of 340 µs from 1.36 ms in GPU 0" in screen_text(pilot.app)
        await press(pilot, "right_curly_bracket")
        assert "gap of 280 µs from 1.72 ms" in screen_text(pilot.app)
        await press(pilot, "left_curly_bracket")
        assert "gap of 340 µs" in screen_text(pilot.app)
        await press(pilot, "left_curly_bracket")
        assert "No more gaps of at least one cell" in screen_text(pilot.app)
        await press(pilot, "l")
        assert "No more gaps" not in screen_text(pilot.app)
        await press(pilot, "h")
        assert "gap of 340 µs" in screen_text(pilot.app)
        await press(pilot, "I")
        lengths = re.findall(r"([\d.]+) µs  at", screen_text(pilot.app))
        assert lengths == ["340.00", "340.00", "340.00", "280.00", "280.00"] + ["10.000"] * 3
        await press(pilot, "j", "enter")
        assert "gap of 340 µs from 2.36 ms" in screen_text(pilot.app)


async def test_kernels_around_a_gap_have_a_line_each_and_are_distinguished() -> None:
    async with open_explorer(TRACE, size=(80, 24), view="timeline") as pilot:
        view = lanes_of(pilot)
        lane = view.shown.lanes[view.lane]
        around = [names_around(view.profile, lane, gap) for gap in longest_lane_gaps(lane, MAX_LISTED_GAPS)]
        await press(pilot, "I")
        menu = app_of(pilot).screen.query_one(OptionList)
        listed = [str(option.prompt) for option in menu.options]
        assert listed[0] == " 5.2918 ms  at 169.558 ms  batch_norm_transfor… → vecto…<launch_clam…>"
        assert max(map(cell_width, listed)) <= menu.content_size.width - menu.scrollbar_size_vertical
        names: dict[str, set[str]] = {}
        for text, both in zip(listed, around, strict=True):
            for short, name in zip(re.split("  +", text)[-1].split(" → "), both, strict=True):
                names.setdefault(short, set()).add(name)
        # Functors whose names are the same for eleven letters: only in 24 cells could they be told apart.
        assert [short for short, full_names in names.items() if len(full_names) > 1] == ["vecto…<…CUDAFuncto…>"]


async def test_items_that_do_not_match_are_dimmed() -> None:
    async with open_explorer(TRACE, size=(200, 50), view="timeline") as pilot:
        view = lanes_of(pilot)

        def lines() -> list[Strip]:
            return [view.render_line(y) for y in range(view.head_lines, view.head_lines + 8)]

        def colors() -> set[object]:
            return {look.color for strip in lines() for text, look, _ in strip if look and set(text) & set("▁▂▃▄▅▆▇█")}

        before = colors()
        await press(pilot, "slash", *"gemm", "enter")
        await wait_until(pilot, lambda: lanes_of(pilot).hits is not None, "hits")
        found = colors()
        assert (found & before, len(found - before)) != (set(), 0)
        assert not any(map(any, map(marked_cells, lines())))
        await press(pilot, "escape")
        assert colors() == before


async def test_a_match_in_a_tall_lane_is_underlined_once() -> None:
    async with open_explorer(TRACE, size=(200, 50), color="16", view="timeline") as pilot:
        await press(pilot, "slash", *"gemm", "enter")
        await wait_until(pilot, lambda: lanes_of(pilot).hits is not None, "hits")
        lines = [
            lanes_of(pilot).render_line(y) for y in range(lanes_of(pilot).head_lines, lanes_of(pilot).head_lines + 8)
        ]
        assert max(map(sum, zip(*map(marked_cells, lines), strict=True))) == 1


def cells_of(view: TimelineView) -> list[list[tuple[str, CellStyle | None]]]:
    """The character and the style of each cell; a wide character is followed by an empty text."""
    strips = [view.render_line(y) for y in range(view.size.height)]
    return [
        [(text, look) for part, look, _ in strip for one in part for text in (one, *[""] * (cell_width(one) - 1))]
        for strip in strips
    ]


@pytest.mark.parametrize(
    "keys",
    others_slow(("l", "h", "k", "n", "space l", "plus", "pagedown", "right_curly_bracket"), ("l", "k", "plus")),
)
async def test_keys_redraw_what_they_change_and_no_part_of_a_wide_character(
    keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "行列積の計算" * 4
    more = [{"name": name, "start_ns": 1_060_000, "duration_ns": 900_000, "correlation": 99}]
    async with open_profile(two_streams(*more), view="timeline", size=(160, 50)) as pilot:
        view = lanes_of(pilot)
        await press(pilot, "slash", *name[:6], "enter")
        await wait_until(pilot, lambda: view.hits is not None, "hits")
        await press(pilot, "escape", "plus", *"lllllll")
        assert lane_and_item(pilot)[1] == name
        before, drawn, usual = cells_of(view), set[tuple[int, int]](), view.refresh

        def refresh(*regions: Region, **options: bool) -> Widget:
            for region in regions or (view.size.region,):
                drawn.update((x, y) for y in region.line_range for x in range(*region.column_span))
            return usual(*regions, **options)

        monkeypatch.setattr(view, "refresh", refresh)
        await press(pilot, *keys.split())
        after = cells_of(view)
        assert after != before
        for y, line in enumerate(after):
            for x, (text, look) in enumerate(line):
                assert before[y][x] == (text, look) or (x, y) in drawn, (x, y)
                is_whole = bool(text) or ((x, y) in drawn) == ((x - 1, y) in drawn)
                assert is_whole, (x, y)
        view.redraw()
        assert cells_of(view) == after


async def test_a_name_is_found_in_every_lane_and_esc_clears_the_search() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        await press(pilot, "slash", *"relu", "enter")
        await wait_until(pilot, lambda: lanes_of(pilot).hits is not None, "hits")
        await settle(pilot)
        assert lane_and_item(pilot) == ("GPU 0 stream 9", "relu")
        assert "find relu 1/3" in screen_text(pilot.app)
        await press(pilot, "n", "n")
        assert lanes_of(pilot).cursor_ns == 3_700_000
        await press(pilot, "n")
        assert lanes_of(pilot).cursor_ns == 1_700_000
        await press(pilot, "escape")
        assert lanes_of(pilot).hits is None
        assert "find" not in screen_line(pilot, "per cell")


async def test_time_is_measured_from_a_mark() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        await press(pilot, "j", "space", "n", "n")
        assert "M to here 1 ms, busy 35%, 2 started" in screen_text(pilot.app)
        await press(pilot, "Z")
        view = lanes_of(pilot)
        assert view.window.cell_at(2_000_000) - view.window.cell_at(1_000_000) > view.window.cells // 3
        await press(pilot, "escape")
        assert view.mark_ns is None


async def test_a_launch_and_its_call_link_to_each_other() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        await press(pilot, "j", "n")
        view = lanes_of(pilot)
        assert [view.shown.lanes[place].kind.value for place, _ in view.links] == ["calls"]
        await press(pilot, "a")
        assert lane_and_item(pilot) == ("thread 5 API calls", "cudaLaunchKernel")
        assert view.cursor_ns == 980_000
        await press(pilot, "a")
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "gemm_tensorop")


async def test_details_of_a_launch_follow_the_cursor() -> None:
    async with open_profile(two_streams(), size=(200, 50), view="timeline") as pilot:
        await press(pilot, "j", "n", "enter")
        assert "Launched by" in screen_text(pilot.app)
        assert "gemm_tensorop  kernel" in screen_text(pilot.app)
        await press(pilot, "n")
        assert "Transfer" in screen_text(pilot.app)
        await press(pilot, "i")
        assert not app_of(pilot).screen.query_one(DetailPane).is_open
        await press(pilot, "right_curly_bracket", "i")
        assert "Nothing in GPU 0 stream 7" in screen_text(pilot.app)


async def test_enter_in_a_gap_shows_the_work_around_it() -> None:
    async with open_profile(two_streams(), size=(200, 50), view="timeline") as pilot:
        await press(pilot, "j", "right_curly_bracket", "enter")
        panel = [row[row.rindex("│") + 1 :].split() for row in screen_text(pilot.app).splitlines() if "│" in row]
        assert ["Nothing", "in", "GPU", "0", "stream", "7"] in panel
        around = [" ".join(screen_line) for screen_line in panel if screen_line[:1] == ["Ran"]]
        assert around == ["Ran before gemm_tensorop", "Ran after [CUDA memcpy HtoD]"]
        assert ["CPU", "outside", "API", "calls", "API", "calls:", "17.000", "µs", "of", "it"] in panel


async def test_a_gap_of_a_gpu_names_the_current_call_of_the_cpu() -> None:
    waiting = {"name": "cudaStreamSynchronize", "start_ns": 1_400_000, "duration_ns": 300_000}
    async with open_profile(two_streams(waiting), size=(200, 50), view="timeline") as pilot:
        await press(pilot, "right_curly_bracket", "enter")
        assert " ".join(screen_line(pilot, "sync, 300").rpartition("│")[2].split()) == (
            "CPU cudaStreamSynchronize sync, 300.00 µs"
        )
        # What the CPU does in its own gaps is what its lanes show.
        view = lanes_of(pilot)
        assert view.shown is not None
        view.move_cursor(1_200_000, lane=len(view.shown.lanes) - 1)
        await press(pilot, "enter")
        assert " CPU " not in screen_text(pilot.app)


async def test_a_gap_stays_under_the_cursor_when_details_open() -> None:
    """A gap of two cells of 1 us; with details open, the whole time would be shown in cells of 2 us."""
    work = [kernel("relu", 10_000, start_ns=start, device=0, stream=7) for start in (0, 12_000, 160_000)]
    async with open_profile(
        make_profile(sessions=[{"session": 0}], activities=work), size=(200, 50), view="timeline"
    ) as pilot:
        await press(pilot, "right_curly_bracket")
        view = lanes_of(pilot)
        cells = view.window.cells
        assert (view.item, "gap of 2 µs from 10 µs" in screen_text(pilot.app)) == (None, True)
        await press(pilot, "enter")
        assert view.window.cells < cells
        assert view.item is None
        text = screen_text(pilot.app)
        assert "gap of 2 µs from 10 µs" in text
        assert "Nothing in GPU 0" in text
        await press(pilot, "i")
        assert view.window == view.window.fit()
        assert view.item is None


async def test_t_shows_a_launch_in_the_timeline_and_q_returns() -> None:
    async with open_profile(two_streams()) as pilot:
        await press(pilot, "colon", *"kernels relu", "enter", "enter", "j", "T")
        assert lane_and_item(pilot) == ("GPU 0 stream 9", "relu")
        assert lanes_of(pilot).cursor_ns == 2_700_000
        assert "at 2.7 ms · 20.001 µs" in screen_text(pilot.app)
        await press(pilot, "q")
        assert app_of(pilot).view_screen.VIEW == "kernels"
        await press(pilot, "right_square_bracket")
        assert lanes_of(pilot).cursor_ns == 2_700_000


async def test_t_in_a_table_without_rows_opens_the_timeline() -> None:
    async with open_profile(two_streams()) as pilot:
        await press(pilot, "8", "comma")
        assert "No NCCL or RCCL kernels" in screen_text(pilot.app)
        await press(pilot, "T")
        assert app_of(pilot).view_screen.VIEW == "timeline"


async def test_t_in_details_that_cover_the_table_shows_their_row() -> None:
    async with open_profile(two_streams(), size=(80, 24)) as pilot:
        await press(pilot, "colon", *"kernels gemm", "enter", "enter", "j", "enter")
        assert "i close  m views  ? help  q back" in screen_text(pilot.app)
        await press(pilot, "T")
        await settle(pilot)
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "gemm_tensorop")
        assert lanes_of(pilot).cursor_ns == 2_060_000


async def test_back_at_details_that_cover_the_table_keys_are_for_the_details() -> None:
    async with open_profile(two_streams(), size=(80, 24)) as pilot:
        await press(pilot, "colon", *"kernels gemm", "enter", "enter", "j", "enter", "T", "q")
        assert "i close  m views  ? help  q back" in screen_text(pilot.app)
        assert isinstance(pilot.app.screen.focused, DetailPane)


async def test_t_in_the_timeline_opens_the_row_of_the_item() -> None:
    def there() -> object:
        screen = app_of(pilot).view_screen
        table = screen.table if screen is not None else None
        row = table.current_row if table is not None else None
        return row and (screen.VIEW, table.id, row.get("start_ns", row.get("name")))  # type: ignore[union-attr]

    async with open_profile(two_streams()) as pilot:
        await press(pilot, "colon", *"kernels relu", "enter", "colon", *"timeline", "enter", "j", "n")
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "gemm_tensorop")
        # The filter that hides the kernel is taken away.
        await press(pilot, "T")
        await wait_until(pilot, lambda: there() == ("kernels", "launches", 1_060_000), "the launch")
        await press(pilot, "colon", *"timeline", "enter", "a")
        assert lane_and_item(pilot) == ("thread 5 API calls", "cudaLaunchKernel")
        await press(pilot, "T")
        await wait_until(pilot, lambda: there() == ("api-calls", "functions", "cudaLaunchKernel"), "the call")


async def test_t_on_a_kernel_finds_all_its_launches() -> None:
    async with open_profile(two_streams()) as pilot:
        await press(pilot, "colon", *"kernels gemm", "enter", "T")
        await wait_until(pilot, lambda: lanes_of(pilot).hits is not None, "hits")
        await settle(pilot)
        assert lane_and_item(pilot) == ("GPU 0 stream 7", "gemm_tensorop")
        assert "1/3" in screen_line(pilot, "find gemm_tensorop")


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (("4", "T"), "find aten::native_batch_norm "),
        (("3", "j", "j", "T"), "/530 · "),
    ],
)
async def test_t_on_an_op_or_a_group_finds_all_its_calls(keys: tuple[str, ...], found: str) -> None:
    async with open_explorer(TRACE, size=(200, 50), view="issues") as pilot:
        await press(pilot, *keys)
        await wait_until(pilot, lambda: found in " ".join(screen_text(pilot.app).split()), found)


async def test_a_row_of_several_ops_is_not_in_the_timeline() -> None:
    async with open_explorer(TRACE, size=(200, 50), view="issues") as pilot:
        await press(pilot, "2", "T")
        assert messages_of(pilot) == [NO_ROW_POSITION]


async def test_selected_iterations_limit_the_time() -> None:
    async with open_explorer(TRACE, view="timeline") as pilot:
        window = lanes_of(pilot).window
        await press(pilot, "colon", *"aggregate 4", "enter")
        part = lanes_of(pilot).window
        assert part.begin_ns > window.begin_ns
        assert part.end_ns < window.end_ns


async def test_ranks_of_a_run_are_shown_together_and_other_sessions_one_at_a_time() -> None:
    async with open_profile(training_profile(), view="timeline") as pilot:
        view = lanes_of(pilot)
        assert {lane.session for lane in view.shown.lanes} == {0}
        assert "session 0 of 2: their clocks are not comparable" in screen_text(pilot.app)
        await press(pilot, "colon", *"session 1", "enter")
        assert {lane.session for lane in view.shown.lanes} == {1}
    async with open_explorer(*RANKS, view="timeline") as pilot:
        view = lanes_of(pilot)
        assert {lane.session for lane in view.shown.lanes} == {0, 1}
        assert "2 sessions, aligned by the clocks of their machines" in screen_text(pilot.app)
        # Of another rank, too, the ruler above tells when something was.
        later = next(place for place, lane in enumerate(view.shown.lanes) if view.shown.shifts[lane.session])
        view.select_item(later, 0, zooms_in=True)
        await settle(pilot)
        assert f"at {exact_time(view.cursor_ns)} · " in screen_line(pilot, " · at ")
        # So does the mark of what a call of that rank launched, wherever its kernel lies.
        await press(pilot, "z")
        calls = next(
            place
            for place, lane in enumerate(view.shown.lanes)
            if lane.kind.value == "calls" and view.shown.shifts[lane.session]
        )
        view.select_item(calls, 1000)
        await settle(pilot)
        marked = underlined_cells(pilot, "1: GPU 1")
        await press(pilot, "a")
        assert lane_and_item(pilot)[0].startswith("GPU 1")
        assert marked == [view.label_cells + view.window.cell_at(view.cursor_ns)]


async def test_a_gap_of_a_later_rank_is_zoomed_to_on_the_common_clock() -> None:
    async with open_explorer(*RANKS, view="timeline") as pilot:
        view = lanes_of(pilot)
        later = next(lane for lane in view.shown.lanes if view.shown.shifts[lane.session] and lane.kind is LaneKind.GPU)
        gap = longest_lane_gaps(later, 1)[0]
        length_ns = gap.end_ns - gap.start_ns
        screen_of(pilot, TimelineScreen).show_gap(Gap(later.session, later.device, gap.start_ns, length_ns))
        await settle(pilot)
        assert view.shown.lanes[view.lane] is later
        begin_ns = gap.start_ns + view.shown.shifts[later.session]
        assert begin_ns < view.cursor_ns < begin_ns + length_ns
        shown_part = length_ns / (view.window.cells * view.window.cell_ns)
        assert 0.2 <= shown_part <= 0.8
        assert view.window.cell_at(begin_ns) < view.window.cell_at(view.cursor_ns)


async def test_a_launch_of_another_session_shows_that_session() -> None:
    async with open_profile(training_profile()) as pilot:
        await press(pilot, "colon", *"kernels session=1", "enter", "enter", "T")
        assert {lane.session for lane in lanes_of(pilot).shown.lanes} == {1}
        assert lane_and_item(pilot)[0].startswith("GPU 1")


async def test_lanes_of_many_launches_are_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_profile(two_streams()) as pilot:
        await press(pilot, "colon", *"kernels relu", "enter", "enter", "j")
        monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
        await press(pilot, "T")
        await wait_until(pilot, lambda: lanes_of(pilot).shown is not None, "the lanes")
        await settle(pilot)
        assert lane_and_item(pilot) == ("GPU 0 stream 9", "relu")
        assert lanes_of(pilot).cursor_ns == 2_700_000


async def test_a_row_that_waits_for_the_lanes_is_dropped_when_the_program_ends() -> None:
    async with open_profile(two_streams(), view="timeline") as pilot:
        screen = screen_of(pilot, TimelineScreen)
        done: list[str] = []
        await screen.lanes.remove()
        # From the request to exit on, while widgets are removed one after the other.
        with patch.object(type(screen), "is_attached", False):
            screen.when_filled(lambda: done.append("row"))
        assert done == []


async def test_the_cursor_keeps_its_place_when_the_terminal_is_resized() -> None:
    async with open_explorer(TRACE, view="timeline") as pilot:
        await press(pilot, *"jllllll", *["plus"] * 6, "i")
        chosen = lanes_of(pilot).window
        assert chosen is not None
        lanes_of(pilot).move_cursor(chosen.last_ns - 1)
        await settle(pilot)
        assert lanes_of(pilot).window == chosen
        for size in ((80, 24), (60, 15), (200, 50), (70, 40), (120, 40)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
        assert lanes_of(pilot).window == chosen


async def test_a_log_without_start_times_says_what_to_record() -> None:
    async with open_explorer("gpt_summary.nvprof.log") as pilot:
        await press(pilot, "colon", *"timeline", "enter")
        assert app_of(pilot).view_screen.VIEW == "dashboard"
        # In the menu views without data are one line, which unfolds to a reason for each.
        await press(pilot, "m", "G", "enter")
        assert "No start times: record with nvprof --print-gpu-trace" in screen_line(pilot, " Timeline ")


async def test_only_the_latest_search_moves_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    held = WorkerGate()

    def find_slowly(profile: Profile, shown: ShownLanes, text: str, *, is_exact: bool) -> Hits:
        if text == "gemm":
            held.wait()
        return find_name(profile, shown, text, is_exact=is_exact)

    monkeypatch.setattr(timeline, "find_name", find_slowly)
    async with open_profile(two_streams(), view="timeline") as pilot:
        screen = screen_of(pilot, TimelineScreen)
        screen.find_in_table("gemm")
        screen.find_in_table("relu")
        await wait_until(pilot, lambda: lanes_of(pilot).hits is not None, "the second")
        found = lanes_of(pilot).hits
        held.set()
        await settle(pilot)
        assert lanes_of(pilot).hits is found
        assert "find relu 1/3" in screen_text(pilot.app)


@pytest.mark.parametrize("path", [TRACE, LOG])
async def test_lanes_agree_with_the_report(path: str) -> None:
    async with open_explorer(path, size=(120, 40), view="timeline") as pilot:
        rows = screen_text(pilot.app).splitlines()
    shown = {
        row[1:].split("%")[0].rsplit(None, 1)[0].strip(): row.split("%")[0].rsplit(None, 1)[1]
        for row in rows
        if "% " in row[:40]
    }
    profile = open_profiles(OpenOptions(paths=(sample_path(path),)), lambda _: True, session=None).shown
    report = as_text(profile, "timeline", Style(120)).splitlines()
    from_screen = {
        row.split("%")[0].rsplit(None, 1)[0].strip(): row.split("%")[0].rsplit(None, 1)[1]
        for row in report
        if "% " in row[:40]
    }
    assert shown
    assert shown.items() <= from_screen.items()


SCREENS: Final = {
    "timeline-close": ((TRACE,), "j l l l l l l plus plus plus plus plus plus i"),
    "timeline-ranks": (RANKS, "j plus plus right_curly_bracket space right_curly_bracket"),
    "timeline-log": ((LOG,), "plus plus plus n"),
    "timeline-found": ((TRACE,), "slash g e m m enter n"),
}
"""For each state: the samples, and the keys that lead to it from the timeline."""


@pytest.mark.parametrize("state", SCREENS)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    paths, keys = SCREENS[state]
    async with open_explorer(*paths, view="timeline") as pilot:
        await press(pilot, *keys.split())
        await assert_at_sizes(pilot, snapshot, svg=state == "timeline-close")


@pytest.mark.parametrize("color", ["16", "none"])
async def test_colors(color: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRACE, size=(80, 24), color=color, view="timeline") as pilot:
        await press(pilot, "j", "plus", "plus")
        assert_screen(pilot.app, snapshot, svg=True)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRACE, size=(120, 40), ascii_only=True, view="timeline") as pilot:
        await press(pilot, "plus", "plus", "plus", "plus", "n", "n")
        assert screen_text(pilot.app).isascii()
        assert_screen(pilot.app, snapshot)


async def test_every_glyph_of_a_lane_is_explained_in_the_help() -> None:
    async with open_explorer(*RANKS, size=(200, 50), view="timeline") as pilot:
        screen = screen_of(pilot, TimelineScreen)
        view = screen.lanes
        assert view.shown is not None
        from_screen = {glyph for glyphs, _, _ in screen.legend() for glyph in glyphs} | set("▁▂▃▄▅▆▇█")
        for place in range(len(view.shown.lanes)):
            cells = view.drawn_lane(place, 1).cells
            names = cells.solid.tolist()
            drawn = {text for text, in_name in zip(cells.texts, names, strict=True) if not in_name}
            assert drawn <= from_screen | {"", " "}, view.lane_label_text(place, None)
        colors = {words: color for _, words, color in screen.legend()}
        assert colors["memory copy"] == "$kind-memory"
        assert colors["communication"] == "$kind-communication"
        await press(pilot, "question_mark")
        text = screen_text(pilot.app)
        assert "Legend" in text
        assert all(glyphs in text for glyphs, _, _ in screen.legend())
