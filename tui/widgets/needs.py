"""What an input cannot say, and the command that would record it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.text import plain
from tui.widgets.details import Details

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.analysis.inputs.recording import Need


def needs_text(needs: Iterable[Need]) -> Details:
    """A block for each need: what is missing and what it would show, then how to record it."""
    lines = []
    for need in needs:
        gives = (f"  {plain(need.gives)}", "$text-muted")
        lines.append((4, Content.assemble((f"no {plain(need.name)}", "bold $warning"), gives)))
        lines.append((4, Content(f"  {plain(need.record)}")))
    return Details(tuple(lines))
