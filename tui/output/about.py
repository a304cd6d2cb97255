"""What an exported table is of: its header, in the formats that can carry one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class About:
    """Where an exported table comes from."""

    profile: str
    """The name of the input, as ``run.nvprof.log``."""

    title: str
    """The view, as ``Kernels``."""

    rows: str = ""
    """Which of its rows, in words: the filter, what is hidden; empty for all."""

    when: datetime = field(default_factory=_now)
    """The time of the export, with its zone."""

    @property
    def date(self) -> str:
        """The time for people, as ``2026-11-21 16:20 UTC``."""
        return self.when.strftime("%Y-%m-%d %H:%M %Z").strip()

    def facts(self) -> dict[str, str]:
        """All of it by name, what is empty left out."""
        facts = {"profile": self.profile, "view": self.title, "rows": self.rows, "exported": self.date}
        return {name: value for name, value in facts.items() if value}
