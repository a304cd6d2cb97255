"""The performance summary: figures in columns, each a door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import on
from textual.message import Message

from tui.analysis.definitions import definition
from tui.fmt import format_value
from tui.screens.dashboard.panels import WAITING, meaning
from tui.widgets.details import sections
from tui.widgets.fact_strip import FactStrip
from tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.analysis.dashboard import Fact
    from tui.widgets.details import Details

SHOWN: Final = (
    "wall_ns",
    "busy_pct",
    "tc_efficiency_pct",
    "gpu_ns",
    "launches",
    "graph_launches",
    "kernels",
    "iterations",
    "iteration_avg_ns",
    "iteration_std_ns",
    "iteration_median_ns",
    "iteration_p95_ns",
    "api_ns",
    "api_calls",
)
"""The figures that stand here, in their order: the others have panels of their own."""
OF_ITERATIONS: Final = "iteration_"
"""How the names begin of what is not worth saying where there are no iterations."""


class FactPanel(Panel):
    """A title and the figures.

    Args:
        title: Our own words.
        id: The widget's id.
    """

    class _Of(Message):
        def __init__(self, fact: Fact, details: Details) -> None:
            super().__init__()
            self.fact = fact
            self.details = details

    class Opened(_Of):
        """The user wants the rows behind a figure."""

    class Highlighted(_Of):
        """The cursor is on another figure."""

    class DetailRequested(_Of):
        """The user wants to know what a figure is."""

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002
        self._strip = FactStrip(id=id.removesuffix("-panel"))
        super().__init__(title, self._strip, id=id)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The figures that are known."""
        return self._strip.facts

    @property
    def current(self) -> Fact | None:
        """The figure under the cursor."""
        return self._strip.current

    @property
    def details(self) -> Details | None:
        """What the figure under the cursor is."""
        return fact_details(self.current) if self.current is not None else None

    def wait(self) -> None:
        """Say that the figures are being worked out."""
        self._strip.show([])
        self.annotate(WAITING)

    def show(self, facts: Sequence[Fact]) -> None:
        """Show other figures."""
        by_name = {fact.name: fact for fact in facts}
        shown = [by_name[name] for name in SHOWN if name in by_name]
        self._strip.show([f for f in shown if f.value is not None or not f.name.startswith(OF_ITERATIONS)])
        self.annotate("")

    @on(FactStrip.Opened)
    @on(FactStrip.Highlighted)
    @on(FactStrip.DetailRequested)
    def _pass_on(self, event: FactStrip.Opened | FactStrip.Highlighted | FactStrip.DetailRequested) -> None:
        event.stop()
        kinds = {
            FactStrip.Opened: FactPanel.Opened,
            FactStrip.Highlighted: FactPanel.Highlighted,
            FactStrip.DetailRequested: FactPanel.DetailRequested,
        }
        self.post_message(kinds[type(event)](event.fact, fact_details(event.fact)))


def fact_details(fact: Fact) -> Details:
    """A figure with what it was worked out from, and what it means."""
    known = definition(fact.name)
    value = format_value(fact.kind, fact.value)
    return sections(
        [
            ("", [(fact.label, value, ""), ("From", fact.source, "")]),
            (known.title, meaning(fact.name)),
        ]
    )
