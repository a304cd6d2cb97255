"""The menu of all views; one that this input cannot feed is dim and says why."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.screens.menu import MenuScreen, menu_width
from tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping


BEFORE: Final = 25
"""Cells of the digit and the title."""
AROUND: Final = 6
"""Cells of the border, of the blanks beside a line and of the scroll bar."""


def views_menu(availability: Mapping[str, str], current: str, *, width: int) -> MenuScreen:
    """The menu.

    Args:
        availability: For each view ``ok``, or why it cannot be fed.
        current: The view that is shown.
        width: Cells of the screen.
    """
    room = max(20, menu_width(width) - BEFORE - AROUND)
    lines: list[tuple[str, Content]] = []
    dim = set()
    for view in VIEWS:
        reason = availability.get(view.name, "ok")
        fed = reason == "ok"
        if not fed:
            dim.add(view.name)
        lines.append(
            (
                view.name,
                Content.assemble(
                    (f" {view.key or ' '} ", "bold $accent" if fed else "$text-muted"),
                    (f" {view.title:<21}", "bold" if fed else "$text-muted"),
                    (view.about if fed else _whole(reason, room), "$text-muted"),
                ),
            )
        )
    keys = {view.key: view.name for view in VIEWS if view.key}
    return MenuScreen("Views", lines, disabled=frozenset(dim), current=current, keys=keys)


def _whole(reason: str, room: int) -> str:
    """A reason on as many lines as it needs: its end is the command that records what is missing."""
    lines = textwrap.wrap(reason, room, break_on_hyphens=False)
    return ("\n" + " " * BEFORE).join(lines)
