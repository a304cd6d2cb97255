"""The menu of all views; one that this input cannot feed is dim and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.screens.menu import MenuScreen
from tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping


def views_menu(availability: Mapping[str, str], current: str) -> MenuScreen:
    """The menu.

    Args:
        availability: For each view ``ok``, or why it cannot be fed.
        current: The view that is shown.
    """
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
                    (view.about if fed else reason, "$text-muted"),
                ),
            )
        )
    return MenuScreen("Views", lines, disabled=frozenset(dim), current=current)
