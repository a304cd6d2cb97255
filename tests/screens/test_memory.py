"""Memory: copies by direction and size, bursts of small ones, unified memory, the allocator."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from tests.analysis.frames import copy, make_profile, summary_row
from tests.loaders.test_memory_snapshot import snapshot
from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    assert_rows_of_report,
    column_of,
    open_explorer,
    press,
    report_json,
    screen_of,
    settle,
    table_of,
)
from tests.screens.made_profiles import open_profile
from tests.snapshots import screen_text
from tui.analysis.activities import ACTIVITY_TABLE
from tui.analysis.copies import SINGLE_TRANSFERS, TRANSFER_SIZES, TRANSFERS
from tui.model.columns import ColumnKind
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

TORCH = "resnet50_training.pt.trace.json.gz"
NEXT = "full_stop"
STATES = {
    "one-copy": ("enter", "enter"),
    "by-size": (NEXT,),
    "allocator": (NEXT,) * 4,
}


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TORCH, view="memory") as pilot:
        await press(pilot, *STATES[state])
        await assert_at_sizes(pilot, snapshot)


async def test_the_curve_in_ascii() -> None:
    async with open_explorer(TORCH, ascii_only=True, view="memory") as pilot:
        await press(pilot, *[NEXT] * 4)
        assert screen_text(pilot.app).isascii()
        assert "|3" in screen_text(pilot.app)


async def test_links_lead_from_a_direction_to_a_copy_to_its_launch() -> None:
    async with open_explorer(TORCH, size=(200, 50), view="memory") as pilot:
        assert column_of(pilot, "transfers", "copy_kind") == ["HtoD", "set"]
        single = table_of(pilot, "copies_of_transfer").frame
        assert single.height == 10
        assert single["duration_ns"].sum() == column_of(pilot, "transfers", "total_ns")[0]
        assert single["size_bytes"].sum() == column_of(pilot, "transfers", "size_bytes")[0]
        await press(pilot, "enter", "enter")
        assert app_of(pilot).screen.query_one(DetailPane).is_open
        text = screen_text(pilot.app)
        assert "cudaMemcpyAsync" in text
        assert "pinned to device" in text


async def test_every_copy_is_in_one_size_class() -> None:
    async with open_explorer(TORCH, view="memory") as pilot:
        await press(pilot, NEXT)
        sizes = table_of(pilot, "transfer_sizes").frame
        assert sizes["calls"].sum() == 177
        for row in sizes.iter_rows(named=True):
            single = table_of(pilot, "copies_of_size").frame
            assert (single.height, single["size_bytes"].sum()) == (row["calls"], row["size_bytes"])
            await press(pilot, "j")


async def test_the_allocator_shows_peak_iterations_and_single_events() -> None:
    async with open_explorer(TORCH, view="memory") as pilot:
        await press(pilot, *[NEXT] * 4)
        assert column_of(pilot, "allocators", "peak_bytes") == [3_218_784_768, 8]
        assert column_of(pilot, "allocator_iterations", "iteration") == [3, 4, 5, 6, 7]
        events = table_of(pilot, "allocation_events").frame
        assert events.height == 2230
        assert events["allocated_bytes"].max() == 3_218_784_768
        await press(pilot, "enter", "j")
        assert table_of(pilot, "allocation_events").frame["iteration"].unique().to_list() == [4]


async def test_tables_agree_with_the_report() -> None:
    async with open_explorer(TORCH, view="memory") as pilot:
        from_report = report_json(pilot, "memory")
        for name, rows in (
            ("transfers", from_report["rows"]),
            ("transfer_sizes", from_report["transfer_sizes"]),
            ("allocators", from_report["allocators"]),
        ):
            while not screen_of(pilot).query(f"#{name}") or not table_of(pilot, name).frame.height:
                await press(pilot, NEXT)
            assert_rows_of_report(pilot, name, rows)
        assert_rows_of_report(
            pilot, "allocator_iterations", [row for row in from_report["allocator_iterations"] if row["place"] == "GPU"]
        )


async def test_bursts_of_small_copies_and_totals_of_unified_memory() -> None:
    profile = make_profile(
        activities=[copy("HtoD", 1000, start_ns=2000 * place, device=0, stream=7, size_bytes=64) for place in range(4)],
        summary=[summary_row("um", "Host To Device", 12, 5_000, line=9, session=1)],
    )
    async with open_profile(profile, view="memory") as pilot:
        await press(pilot, NEXT, NEXT)
        assert column_of(pilot, "tiny_runs", "calls") == [4]
        assert table_of(pilot, "copies_of_run").frame.height == 4
        await press(pilot, NEXT)
        assert column_of(pilot, "unified", "calls") == [12]
        assert screen_of(pilot).path()[0] == "Unified memory"


@pytest.mark.parametrize(
    ("has_trace", "sentence"),
    [
        (True, "Allocations live at the peak, by call stack"),
        (False, "Allocations live at the end, by call stack; no trace is recorded, so the peak is unknown"),
    ],
)
async def test_live_memory_says_at_what_time(tmp_path: Path, *, has_trace: bool, sentence: str) -> None:
    content = snapshot() if has_trace else {**snapshot(), "device_traces": []}
    path = tmp_path / "allocator.pickle"
    path.write_bytes(pickle.dumps(content))
    async with open_explorer(str(path), size=(120, 40), view="memory") as pilot:
        await press(pilot, *[NEXT] * (1 if has_trace else 0))
        assert screen_of(pilot).path()[0] == "Live memory"
        assert any(line.strip() == sentence for line in screen_text(pilot.app).splitlines())
        await press(pilot, "comma", "comma", "comma", "comma")
        assert "totals, not individual copies" not in screen_text(pilot.app)


async def test_a_link_leads_to_the_first_tab_with_data(tmp_path: Path) -> None:
    path = tmp_path / "allocator.pickle"
    path.write_bytes(pickle.dumps(snapshot()))
    async with open_explorer(str(path)) as pilot:
        for _ in range(2):
            app_of(pilot).go("memory", lambda _screen: None)
            await settle(pilot)
            assert screen_of(pilot).path()[0] == "Allocator"
            await press(pilot, NEXT)
            assert screen_of(pilot).path()[0] != "Allocator"


async def test_missing_data_names_the_command_that_records_it() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="memory") as pilot:
        await press(pilot, *[NEXT] * 3)
        assert "--unified-memory-profiling" in screen_text(pilot.app)
        await press(pilot, NEXT)
        assert "profile_memory=True" in screen_text(pilot.app)


def test_shares_of_copies_and_of_gpu_time_have_different_headings() -> None:
    for spec in (TRANSFERS, TRANSFER_SIZES):
        titles = {column.name: column.title for column in spec.columns}
        assert (titles["time_pct"], titles["impossible"]) == ("Share", "Above peak")


def test_two_rates_are_labeled_by_their_source() -> None:
    rates = (
        next(column for column in spec.columns if column.kind is ColumnKind.RATE)
        for spec in (SINGLE_TRANSFERS, ACTIVITY_TABLE)
    )
    worked_out, from_report = rates
    assert (worked_out.title, from_report.title) == ("Rate", "Rate")
    assert worked_out.help.startswith("Size divided by duration;")
    assert from_report.help == "Throughput as recorded, or size divided by duration."
