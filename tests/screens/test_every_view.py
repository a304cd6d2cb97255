"""Every view of every sample when it is first opened: one application for each sample.

Its first table is that of ``proftui report --view VIEW --format json``, cell for cell.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.parameters import others_slow
from tests.screens.explorer import SAMPLES, TERMINAL_SIZES, app_of, open_explorer, screens_at_sizes, settle
from tests.screens.made_profiles import dlprof_profile, open_profile
from tests.screens.test_reports_agree import cells_of, report_rows
from tests.snapshots import assert_text
from tui.tables import REPORTS, view_of_report
from tui.views import VIEWS

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.app import ProftuiApp

RICH: Final = ("ddp_ranks", "resnet50_training.pt.trace.json.gz")
"""Their views are compared at three sizes, those of the others at the least."""
AT_ALL_SIZES: Final = ("dashboard", "layers", "metrics", "tool-report")
"""Of every sample: the first view, and those that the rich samples lack."""
DLPROF: Final = "dlprof_dldb"
NO_INPUTS: Final = ("README.md", "formats")
"""The small files of further formats are opened by the tests of samples."""
QUICK: Final = (*RICH, "caffe_conv1.nvprof.log", DLPROF)
"""The inputs of ``make test``, which have every view together with those of other tests."""
INPUTS: Final = (*sorted(path.name for path in SAMPLES.iterdir() if path.name not in NO_INPUTS), DLPROF)

ALWAYS: Final = {"op-types", "group-ops", "ops", "kernels", "issues"}
WORK: Final = ALWAYS | {"gpus", "memory", "critical-path", "iterations", "kernels-by-iteration", "kernels-by-op", "api"}
REPORTED: Final = {
    "resnet50_training.nvprof.log": WORK,
    "resnet50_training.pt.trace.json.gz": WORK | {"ranges", "roofline"},
    "gpt_cudagraph.nsys.sqlite.gz": WORK | {"ranges", "tool-report"},
    "ddp_ranks": WORK | {"ranges", "roofline", "tool-report"},
    "tracking_four_runs.nvprof.log": ALWAYS | {"memory", "api"},
    "gemm.ncu.csv": ALWAYS | {"gpus", "metrics", "tool-report"},
    "mlp_modules.pt.trace.json.gz": WORK | {"ranges", "roofline"},
    "caffe_conv1.nvprof.log": WORK - {"api"} | {"layers"},
    "gpt_summary.nvprof.log": ALWAYS | {"memory", "api"},
}
"""For some samples the views that they feed and that are tables."""


def assert_reported(app: ProftuiApp, report: str) -> None:
    """Compare the first table on the screen with the rows of a report."""
    assert app.view_screen is not None
    pane = app.view_screen.first_table
    assert pane is not None
    cells, rows = cells_of(pane), report_rows(app.profile_session.profile, report)
    if report == "group-ops":
        # On the screen groups are folded.
        cells = json.loads(pane.frame.write_json())
    assert len(cells) == len(rows)
    for place, row in enumerate(cells):
        assert row == pytest.approx({column: rows[place][column] for column in row}), (report, place)


def opened_input(name: str, size: tuple[int, int]) -> AbstractAsyncContextManager[Pilot[None]]:
    return open_profile(dlprof_profile(), size=size) if name == DLPROF else open_explorer(name, size=size)


@pytest.mark.parametrize("name", others_slow(INPUTS, QUICK))
async def test_every_view_of_a_sample(name: str, snapshot: SnapshotAssertion) -> None:
    async with opened_input(name, TERMINAL_SIZES[0]) as pilot:
        app = app_of(pilot)
        shown, compared = [], set()
        for view in VIEWS:
            if app.navigator.availability.get(view.name, "ok") != "ok" or view.name == "compare":
                continue
            app.go(view.name)
            await settle(pilot)
            assert app.view_screen is not None
            assert view.name == app.view_screen.VIEW
            # Ranks are parts of the view of GPUs: test_ranks.py compares them. The flame is no table.
            for report in REPORTS if name in REPORTED else ():
                if view_of_report(report) == view.name and report not in ("timeline", "ranks", "flame"):
                    assert_reported(app, report)
                    compared.add(report)
            sizes = TERMINAL_SIZES if name in RICH or view.name in AT_ALL_SIZES else TERMINAL_SIZES[:1]
            shown.append(await screens_at_sizes(pilot, sizes))
        assert compared == REPORTED.get(name, set())
        assert_text("\n".join(shown), snapshot)
