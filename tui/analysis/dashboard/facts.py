"""Single values of the dashboard: what each is, where it is from, or why it is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.fmt import format_value, step

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.inputs.recording import Need
    from tui.model.columns import ColumnKind

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of the dashboard: what it is, and where it is from or why it is unknown."""

    name: str
    """Stable, as ``busy_ns``: `tui.analysis.definitions` says what it means."""
    label: str
    """For people, as ``GPU busy``."""
    value: Value
    """In base units; None where it is unknown."""
    kind: ColumnKind
    """How it is written."""
    source: str = ""
    """What it was computed from, or why it is unknown."""
    record: str = ""
    """The command that would record what is missing."""
    is_step: bool = False
    """It is the step that times are known to."""

    def written(self, *, ascii_only: bool) -> str:
        """The value, for people."""
        if self.is_step and isinstance(self.value, int):
            return step(self.value, ascii_only=ascii_only)
        return format_value(self.kind, self.value, ascii_only=ascii_only)


def fact_of(name: str, label: str, value: Value, kind: ColumnKind, source: str, need: Need) -> Fact:
    """A fact, which is unknown for want of ``need`` where it has no value."""
    if value is None:
        return Fact(name, label, None, kind, f"no {need.name} recorded", need.record)
    return Fact(name, label, value, kind, source)


def sum_of(name: str, label: str, values: pl.Series, kind: ColumnKind, source: str, need: Need) -> Fact:
    """The sum of what is known of some values; unknown where nothing is."""
    value = int(values.sum()) if values.len() > values.null_count() else None
    return fact_of(name, label, value, kind, source, need)
