"""The menu of all views, by group; those that this profile cannot feed are folded into one line."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.screens.menu import MenuScreen, menu_width
from tui.views import GROUPS, VIEWS, View

if TYPE_CHECKING:
    from collections.abc import Mapping


BEFORE: Final = 25
"""Cells of the key and the title."""
AROUND: Final = 6
"""Cells of the border, of the blanks beside a line and of the scroll bar."""
UNFED: Final = "not recorded"
"""What the menu gives for the line of the views that have no data: it is to be opened again with them unfolded."""


def views_menu(availability: Mapping[str, str], current: str, *, width: int, is_unfolded: bool = False) -> MenuScreen:
    """The menu.

    Args:
        availability: For each view ``ok``, or why it cannot be fed.
        current: The view that is shown.
        width: Cells of the screen.
        is_unfolded: Whether views without data are listed, each with its reason.
    """
    room = max(20, menu_width(width) - BEFORE - AROUND)
    lines: list[tuple[str, Content]] = []
    headings = set()
    unfed = [view for view in VIEWS if availability.get(view.name, "ok") != "ok"]
    for group in GROUPS:
        views = [view for view in VIEWS if view.group == group and view not in unfed]
        if views:
            headings.add(group)
            lines.append((group, Content.styled(f" {group}", "$text-muted underline")))
            lines += [(view.name, _line(view, view.about)) for view in views]
    if unfed and not is_unfolded:
        names = ", ".join(view.title for view in unfed)
        text = _wrapped(f"{len(unfed)} views: {names}", room)
        lines.append((UNFED, Content.styled(f"    {'Not recorded':<{BEFORE - 4}}{text}", "$text-muted")))
    elif unfed:
        headings.add(UNFED)
        lines.append((UNFED, Content.styled(" Not recorded in this profile", "$text-muted underline")))
        lines += [(view.name, _line(view, _wrapped(availability[view.name], room), is_dim=True)) for view in unfed]
    keys = {view.key: view.name for view in VIEWS if view.key}
    dim = frozenset(headings.union(view.name for view in unfed))
    return MenuScreen("Views", lines, disabled=dim, current=current, keys=keys, is_at_end=is_unfolded)


def _line(view: View, text: str, *, is_dim: bool = False) -> Content:
    return Content.assemble(
        (f" {view.key or ' '} ", "$text-muted" if is_dim else "bold $accent"),
        (f" {view.title:<{BEFORE - 4}}", "$text-muted" if is_dim else "bold"),
        (text, "$text-muted"),
    )


def _wrapped(text: str, room: int) -> str:
    """A text on as many lines as it needs: the end of a reason is the command that records what is missing."""
    return ("\n" + " " * BEFORE).join(textwrap.wrap(text, room, break_on_hyphens=False))
