"""Every view of every sample, at three sizes, as it looks when it is first gone to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.screens.made_profiles import dlprof, opened_profile
from tests.screens.opening import SAMPLES, app_of, opened, settled
from tests.snapshots import assert_text, screen_text
from tui.views import VIEWS

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

SIZES: Final = ((80, 24), (120, 40), (200, 50))
DLPROF: Final = "dlprof_dldb"
INPUTS: Final = (*sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md"), DLPROF)


def opened_input(name: str, size: tuple[int, int]) -> AbstractAsyncContextManager[Pilot[None]]:
    return opened_profile(dlprof(), size=size) if name == DLPROF else opened(name, size=size)


async def views_in_turn(pilot: Pilot[None]) -> str:
    """What each view shows that the input can feed, one below the other."""
    app = app_of(pilot)
    shown = []
    for view in VIEWS:
        if app.availability.get(view.name, "ok") != "ok" or view.name == "compare":
            continue
        app.go(view.name)
        await settled(pilot)
        assert app.view_screen is not None
        assert view.name == app.view_screen.VIEW
        shown.append(screen_text(app))
    return "\n".join(shown)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", INPUTS)
async def test_views(name: str, size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with opened_input(name, size) as pilot:
        assert_text(await views_in_turn(pilot), snapshot)
