"""The menu of sessions: all of them, or the one that every view shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui.analysis.sessions import session_times
from tui.fmt import duration
from tui.screens.menu import MenuScreen
from tui.text import plain

if TYPE_CHECKING:
    from tui.model.profile import Profile

ALL: Final = "all"


def sessions_menu(profile: Profile, current: int | None) -> MenuScreen:
    """The menu; it gives ``all`` or the number of a session as text."""
    lines = [(ALL, Content.assemble((" all ", "bold $accent"), f" {profile['sessions'].height} sessions together"))]
    for row in session_times(profile).iter_rows(named=True):
        time = duration(row["gpu_ns"]) if row["gpu_ns"] is not None else ""
        holds = row["holds"] if row["gpu_ns"] is None else ""
        # What tells two of them apart must not be cut off.
        named = row["short"].startswith("pid ") or row["label"] == f"process {row['pid']}"
        pid = f"pid {row['pid']}" if row["pid"] is not None and not named else ""
        rank = row["rank_words"] or ""
        host = f"on {plain(row['host'])}" if row["host"] else ""
        where = f"lines {row['first_line']:,} to {row['last_line']:,}" if row["first_line"] is not None else ""
        lines.append(
            (
                str(row["session"]),
                Content.assemble(
                    (f" {row['session']:>3} ", "bold $accent"),
                    f" {time:>10}  {plain(row['short'])}",
                    ("  " + "  ".join(part for part in (holds, rank, host, pid, where) if part), "$text-muted"),
                ),
            )
        )
    return MenuScreen("Sessions", lines, current=ALL if current is None else str(current))
