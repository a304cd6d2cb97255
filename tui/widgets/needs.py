"""What an input cannot say, and the command that would record it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.text import plain
from tui.widgets.details import Details

if TYPE_CHECKING:
    from tui.analysis.inputs.recording import Need


def need_text(need: Need) -> Details:
    """What is missing and what it would show, then how to record it."""
    gives = (f"  {plain(need.gives)}", "$text-muted")
    heading = Content.assemble((f"no {plain(need.name)}", "bold $warning"), gives)
    return Details(((4, heading), (4, Content(f"  {plain(need.record)}"))))
