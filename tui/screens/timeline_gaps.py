"""The menu of the longest gaps of a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from textual.content import Content

from tui.analysis.timeline.ruler import exactly
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.under import name_of
from tui.fitting import clip_middle
from tui.fmt import duration
from tui.screens.menu import MenuScreen
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.timeline.under import Stretch
    from tui.model.profile import Profile
    from tui.widgets.timeline_view import TimelineView

NAME_CELLS: Final = 28


def gaps_menu(profile: Profile, view: TimelineView, gaps: Sequence[Stretch]) -> MenuScreen:
    """The menu; it gives the place of a gap in the list as text."""
    assert view.shown is not None, "gaps are of a lane"
    lane, ascii_only = view.shown.lanes[view.lane], view.ascii_only
    lines = []
    for place, gap in enumerate(gaps):
        after = int(np.searchsorted(lane.starts, gap.end_ns, side="left"))
        before = int(np.searchsorted(lane.reached, gap.start_ns, side="left"))
        names = " -> " if ascii_only else " → "
        around = names.join(
            clip_middle(plain(name_of(profile, lane, item), ascii_only=ascii_only), NAME_CELLS, ascii_only=ascii_only)
            for item in (before, after)
        )
        begins = plain(exactly(gap.start_ns + view.shift(view.lane)), ascii_only=ascii_only)
        length = duration(gap.length_ns, ascii_only=ascii_only)
        lines.append(
            (
                str(place),
                Content.assemble((f" {length:>11} ", "bold $accent"), f" at {begins:<16} ", (around, "$text-muted")),
            )
        )
    return MenuScreen(f"Longest gaps in {plain(title(lane))}", lines)
