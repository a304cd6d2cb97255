"""Asks what to compare with: another file, other iterations, another session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.analysis.sessions import session_times
from tui.fmt import duration
from tui.options import user_path
from tui.text import plain
from tui.widgets.dialogs.base import Dialog, MenuLines
from tui.widgets.text_input import PlainLine

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.analysis.compare.sides import Sides
    from tui.model.profile import Profile

EXPLAINED = """\
type              baseline         candidate
FILE              that file        what is shown
iterations 3:5    what is shown    these iterations
iterations 3 5    iteration 3      iteration 5
sessions 0 1      session 0        session 1"""


class _Paths(Suggester):
    """Completes the path of a file."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        # A folder can be large, or on a slow network: no key waits for it.
        return await asyncio.to_thread(_completed_path, value)


def _completed_path(value: str) -> str | None:
    """The first path in its folder that begins like a text; None where there is none, or no such folder."""
    folder, slash, begun = value.rpartition("/")
    if not begun:
        return None
    try:
        found = [path for path in user_path(folder + slash or ".").iterdir() if path.name.startswith(begun)]
        names = sorted(path.name + "/" * path.is_dir() for path in found if path.name.isprintable())
    except (OSError, ValueError):
        return None
    return folder + slash + names[0] if names else None


class CompareDialog(Dialog[str]):
    """A line to type, and the sessions to choose from.

    Args:
        profile: What is shown.
        latest: The latest comparison, to go back to.
    """

    TITLE_TEXT: ClassVar[str] = "Compare with"
    KEYS: ClassVar[str] = "enter compare  down list  right complete  esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("down", "app.focus_next", "Down"),
        ("up", "app.focus_previous", "Up"),
    ]
    DEFAULT_CSS = """
    CompareDialog {
        & Input { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
        & Input:focus { border: none; background: $panel; }
        & Static { color: $text-muted; }
        & OptionList { height: auto; max-height: 12; border: none; margin-top: 1; padding: 0; }
    }
    """

    def __init__(self, profile: Profile, latest: Sides | None) -> None:
        super().__init__()
        self._profile = profile
        self._latest = latest

    def compose_body(self) -> ComposeResult:
        """The line, what it can be, and the list."""
        yield PlainLine(placeholder="path of a profile, or iterations 3:5", compact=True, suggester=_Paths())
        yield Static(Content(EXPLAINED))
        options = []
        if self._latest is not None:
            words = f"again: {plain(self._latest.a.label)} and {plain(self._latest.b.label)}"
            options.append(Option(Content(words), id="latest"))
        if self._profile["sessions"].height > 1:
            for row in session_times(self._profile).iter_rows(named=True):
                time = duration(row["gpu_ns"]) if row["gpu_ns"] is not None else ""
                words = f"session {row['session']}  {time:>10}  {plain(row['short'])}  {row['rank_words'] or ''}"
                options.append(Option(Content(words.rstrip()), id=f"session {row['session']}"))
        if options:
            yield MenuLines(*options)

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss("" if event.option_id == "latest" else event.option_id)
