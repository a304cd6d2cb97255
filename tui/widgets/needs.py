"""What an input cannot say, and the command that would record it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.analysis.capabilities import Need


def needs_text(needs: Iterable[Need]) -> Content:
    """A block for each need: what is missing and what it would show, then how to record it."""
    blocks = [
        Content.assemble(
            (f"no {plain(need.name)}", "bold $warning"),
            (f"  {plain(need.gives)}", "$text-muted"),
            "\n  ",
            plain(need.record),
        )
        for need in needs
    ]
    return Content("\n").join(blocks)
