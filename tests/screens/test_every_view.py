"""Every view of every sample as it looks when it is first gone to: one application for each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.screens.made_profiles import dlprof, opened_profile
from tests.screens.opening import SAMPLES, SIZES, app_of, opened, screens_at_sizes, settled
from tests.snapshots import assert_text
from tui.views import VIEWS

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

RICH: Final = ("ddp_ranks", "resnet50_training.pt.trace.json.gz")
"""Their views are compared at three sizes, those of the others at the least."""
AT_ALL_SIZES: Final = ("dashboard", "layers", "metrics", "tool-report")
"""Of every sample: the first view, and those that the rich samples lack."""
DLPROF: Final = "dlprof_dldb"
INPUTS: Final = (*sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md"), DLPROF)


def opened_input(name: str, size: tuple[int, int]) -> AbstractAsyncContextManager[Pilot[None]]:
    return opened_profile(dlprof(), size=size) if name == DLPROF else opened(name, size=size)


@pytest.mark.parametrize("name", INPUTS)
async def test_views(name: str, snapshot: SnapshotAssertion) -> None:
    async with opened_input(name, SIZES[0]) as pilot:
        app = app_of(pilot)
        shown = []
        for view in VIEWS:
            if app.navigator.availability.get(view.name, "ok") != "ok" or view.name == "compare":
                continue
            app.go(view.name)
            await settled(pilot)
            assert app.view_screen is not None
            assert view.name == app.view_screen.VIEW
            sizes = SIZES if name in RICH or view.name in AT_ALL_SIZES else SIZES[:1]
            shown.append(await screens_at_sizes(pilot, sizes))
        assert_text("\n".join(shown), snapshot)
