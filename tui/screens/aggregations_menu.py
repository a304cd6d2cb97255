"""The menu of aggregations: all iterations, and every range and key that was chosen so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.fitting import clip_middle
from tui.fmt import count
from tui.model.aggregation import Aggregation
from tui.screens.menu import MenuScreen
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.aggregation import MadeAggregation

ALL: Final = "all"
"""What the line of all iterations gives."""
ALL_WORDS: Final = "all iterations"
KEY_CELLS: Final = 44


def aggregations_menu(made: Sequence[MadeAggregation], present: Aggregation) -> MenuScreen:
    """The menu; it gives ``all`` or the place of an aggregation in the list as text."""
    lines = []
    entries: list[tuple[str, Aggregation, MadeAggregation | None]]
    entries = [(str(place), one.chosen, one) for place, one in enumerate(made)]
    if not any(chosen == Aggregation() for _, chosen, _ in entries):
        entries.insert(0, (ALL, Aggregation(), None))
    current = ""
    rows = []
    for name, chosen, one in entries:
        is_present = chosen == present
        current = name if is_present else current
        number = f"{count(one.iterations)} iteration{'s' if one.iterations != 1 else ''}" if one is not None else ""
        when = "" if one is None else "as opened" if one.at is None else f"made at {one.at:%H:%M:%S}"
        key = f"ends with {clip_middle(plain(chosen.key), KEY_CELLS)}" if chosen.key else "as recorded or found"
        rows.append((name, "*" if is_present else " ", chosen.words or ALL_WORDS, number, when, key))
    words, numbers, times = (max(len(row[place]) for row in rows) for place in (2, 3, 4))
    for name, mark, chosen_words, number, when, key in rows:
        lines.append(
            (
                name,
                Content.assemble(
                    (f" {mark} {chosen_words:{words}}", "bold $accent"),
                    f"  {number:>{numbers}}",
                    (f"  {when:{times}}  {key}", "$text-muted"),
                ),
            )
        )
    return MenuScreen("Aggregations: what every view shows (* now)", lines, current=current)
