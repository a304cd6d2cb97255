"""How far each of several files has been read: a line each with its bar, or of many those that matter now."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widgets import Static

from tui.fitting import bar, cell_width, clip, clip_middle, pad
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.base import FileProgress

_WORD: Final = 9
"""Cells of ``finishing``."""
_BAR_LEAST, _BAR_WISH, _BAR_MOST = 8, 14, 30
_RANK: Final = 9
_FIRST: Final = ("reading", "left out")
"""What is shown of so many files that not all have a line."""
_STYLES: Final = {"left out": "$text-error", "waiting": "$text-muted", "not read": "$text-warning"}


class FilesRead(Static):
    """A line a file."""

    DEFAULT_CSS = """
    FilesRead { height: auto; margin-top: 1; display: none; }
    """

    def show(self, files: Sequence[FileProgress], width: int, height: int) -> None:
        """Show them.

        Args:
            files: The files.
            width: Cells that there are for it.
            height: Lines.
        """
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        lines = files_lines(files, width, height, ascii_only=ascii_only)
        self.update(Content("\n").join(lines))
        self.display = bool(lines)


def files_lines(files: Sequence[FileProgress], width: int, height: int, *, ascii_only: bool = False) -> list[Content]:
    """At most so many lines, each at most so many cells wide."""
    if height <= 0:
        return []
    shown = list(files)
    last = []
    if len(files) > height:
        shown = [one for state in _FIRST for one in files if one.state == state]
        more = len(shown) - height
        if more > 0:
            shown = shown[: height - 1]
            last = [Content(clip(f"and {more + 1} more", width)).stylize("$text-muted")]
    names = [plain(PurePath(one.path).name, ascii_only=ascii_only) for one in shown]
    name_width = min(max(map(cell_width, names), default=0), max(12, width - _RANK - _BAR_WISH - _WORD - 4))
    lines = [
        _line(one, clip_middle(name, name_width, ascii_only=ascii_only), name_width, width, ascii_only)
        for one, name in zip(shown, names, strict=True)
    ]
    return [*lines, *last]


def summary(files: Sequence[FileProgress]) -> str:
    """How many are how far, as ``57 of 100 files read, 2 left out, 4 under way, 37 waiting``."""
    counts = Counter(one.state for one in files)
    parts = [f"{counts['done']} of {len(files)} files read"]
    named = (("left out", "left out"), ("reading", "under way"), ("waiting", "waiting"), ("not read", "not read"))
    return ", ".join([*parts, *(f"{counts[state]} {words}" for state, words in named if counts[state])])


def _line(one: FileProgress, name: str, name_width: int, width: int, ascii_only: bool) -> Content:
    rank = "" if one.rank is None else f"rank {one.rank}"
    begin = f"{pad(name, name_width)}  {pad(_word(one), _WORD)} "
    room = width - cell_width(begin)
    if one.state == "left out":
        return Content(clip(begin + plain(one.why, ascii_only=ascii_only), width, ascii_only=ascii_only)).stylize(
            _STYLES[one.state]
        )
    cells = min(_BAR_MOST, room - _RANK)
    if cells < _BAR_LEAST:
        return Content(clip(begin + rank, width, ascii_only=ascii_only)).stylize(_STYLES.get(one.state, ""))
    share = min(1.0, one.bytes_read / one.bytes_total) if one.bytes_total else 0.0
    filled = bar(share, cells, ascii_only=ascii_only)
    line = Content(begin).stylize(_STYLES.get(one.state, ""))
    return line + Content(pad(filled, cells)).stylize("$primary") + Content(f" {rank}")


def _word(one: FileProgress) -> str:
    """The state, or how much is read of what is under way."""
    if one.state == "done":
        return "read"
    if one.state != "reading" or not one.bytes_total:
        return one.state
    percent = min(100, 100 * one.bytes_read // one.bytes_total)
    # What is read to its end is put together, which takes as long again.
    return f"{percent}%" if percent < 100 else "finishing"
