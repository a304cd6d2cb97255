"""What stands in the first table of a view is what `proftui report --view VIEW --format json` says, cell for cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.screens.opening import app_of, opened, press, sample, settled
from tui.opening import open_profiles
from tui.options import OpenOptions
from tui.output.report import as_json
from tui.output.report_views import VIEWS

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.model.profile import Profile
    from tui.widgets.table_pane import TablePane

ALWAYS: Final = {"op-types", "group-ops", "ops", "kernels", "issues"}
WORK: Final = ALWAYS | {"gpus", "memory", "iterations", "kernels-by-iteration", "kernels-by-op", "api"}
INPUTS: Final = {
    "resnet50_training.nvprof.log": WORK,
    "resnet50_training.pt.trace.json.gz": WORK | {"ranges"},
    "gpt_cudagraph.nsys.sqlite.gz": WORK | {"ranges"},
    "ddp_ranks": WORK | {"ranges", "tool-report"},
    "tracking_four_runs.nvprof.log": ALWAYS | {"memory", "api"},
    "gemm.ncu.csv": ALWAYS | {"gpus", "metrics", "tool-report"},
}
"""For each sample the views that it feeds and that are tables."""


async def go(pilot: Pilot[None], view: str) -> TablePane:
    """Go to a view by its name; its first table."""
    await press(pilot, "colon")
    await pilot.press(*view, "enter")
    await settled(pilot)
    screen = app_of(pilot).view_screen
    assert screen is not None
    assert view == screen.VIEW
    assert screen.first_table is not None
    return screen.first_table


def cells_of(pane: TablePane) -> list[dict[str, Any]]:
    """The rows as they stand there, as a report writes them."""
    frame = pane.shown_frame()
    columns = [column.name for column in pane.spec.columns if column.name in frame.columns]
    cells: list[dict[str, Any]] = json.loads(frame.select(columns).write_json())
    return cells


def told(profile: Profile, view: str) -> list[dict[str, Any]]:
    """The rows of the first table of the report."""
    rows: list[dict[str, Any]] = json.loads(as_json(profile, view))["rows"]
    return rows


@pytest.mark.parametrize("given", INPUTS)
async def test_the_first_table_of_every_view_is_that_of_the_report(given: str) -> None:
    read = open_profiles(OpenOptions(paths=(sample(given),)), lambda _: True, session=None).shown
    assert read is not None
    compared = set()
    async with opened(given) as pilot:
        for view, made in VIEWS.items():
            # Ranks are parts of the view of GPUs: test_rank_parts.py compares them.
            if view in ("timeline", "ranks") or app_of(pilot).availability[made.capability] != "ok":
                continue
            pane = await go(pilot, made.capability)
            cells, rows = cells_of(pane), told(read, view)
            if view == "group-ops":
                # On the screen groups are folded; a row that is shown is the report's.
                whole = {tuple(row[name] for name in pane.spec.key): row for row in rows}
                rows = [whole[tuple(row[name] for name in pane.spec.key)] for row in cells]
            assert len(cells) == len(rows)
            for place, row in enumerate(cells):
                assert row == pytest.approx({column: rows[place][column] for column in row}), (view, place)
            compared.add(view)
    assert compared == INPUTS[given]
