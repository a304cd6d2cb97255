"""What has been read so far, shown while the rest is read: a small table that never looks like a total."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widgets import Static

from tui.fitting import bar, cell_width, clip, clip_middle, pad, whole_pieces
from tui.fmt import count, duration
from tui.labels import Cutter
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.progress import FileProgress, LoadPreview


_CALLS, _TIME, _SHARE = 12, 11, 7
"""Cells of the columns of figures."""
_NAMES_LEAST: Final = 10
"""Where there are fewer cells for the names, there are counts alone."""
_ABOVE: Final = 3
"""Lines above the names."""


class PreviewTable(Static):
    """The GPU work that took most of what has been read."""

    DEFAULT_CSS = """
    PreviewTable { height: auto; margin-top: 1; display: none; }
    """

    def show(self, so_far: LoadPreview, share: float | None, width: int, height: int) -> None:
        """Show it.

        Args:
            so_far: What has been read.
            share: How much of the input that is, from 0 to 1, where it is known.
            width: Cells that there are for it.
            height: Lines.
        """
        lines = so_far_lines(so_far, share, width, height)
        contents = [Content(line) for line in lines]
        self.update(Content("\n").join([*(title.stylize("bold") for title in contents[:1]), *contents[1:]]))
        self.display = bool(lines)


def so_far_lines(so_far: LoadPreview, share: float | None, width: int, height: int) -> list[str]:
    """The lines of it, at most ``height`` and each at most ``width`` cells."""
    title = "So far" if share is None else f"So far, with {100 * share:.0f}% read"
    lines = [f"{title} (more is to come: no totals)", *_counts(so_far, width)]
    room = height - _ABOVE
    names = width - _CALLS - _TIME - _SHARE
    if not so_far.names or room <= 0 or names < _NAMES_LEAST:
        return [clip(line, max(0, width)) for line in lines[: max(0, height)]]
    lines.append(f"{'GPU work':<{names}}{'Calls':>{_CALLS}}{'Time':>{_TIME}}{'Share':>{_SHARE}}")
    shown = [(one, plain(one.name)) for one in so_far.names[:room]]
    cutter = Cutter(lambda: [name for _, name in shown], are_symbols=True)
    for one, whole in shown:
        name = cutter.cut(whole, names - 1)
        part = f"{100 * one.total_ns / so_far.total_ns:.1f}%" if so_far.total_ns > 0 else ""
        time = duration(one.total_ns)
        lines.append(f"{pad(name or '(no name)', names)}{count(one.calls):>{_CALLS}}{time:>{_TIME}}{part:>{_SHARE}}")
    return [clip(line, width) for line in lines]


def _counts(so_far: LoadPreview, width: int) -> list[str]:
    """One line of counts, as many as fit."""
    parts = []
    if so_far.calls:
        parts += [
            f"{so_far.calls:,} kernels and copies",
            f"{duration(so_far.total_ns)} of GPU time",
        ]
        if so_far.span_ns is not None:
            parts.append(f"over {duration(so_far.span_ns)}")
    parts += [f"{number:,} {what}" for what, number in so_far.others]
    if not so_far.calls:
        parts.append("no GPU work yet")
    return [whole_pieces("  ".join(parts), width)]


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
        lines = files_lines(files, width, height)
        self.update(Content("\n").join(lines))
        self.display = bool(lines)


def files_lines(files: Sequence[FileProgress], width: int, height: int) -> list[Content]:
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
    names = [plain(PurePath(one.path).name) for one in shown]
    name_width = min(max(map(cell_width, names), default=0), max(12, width - _RANK - _BAR_WISH - _WORD - 4))
    lines = [
        _line(one, clip_middle(name, name_width), name_width, width) for one, name in zip(shown, names, strict=True)
    ]
    return [*lines, *last]


def summary(files: Sequence[FileProgress]) -> str:
    """How many are how far, as ``57 of 100 files read, 2 left out, 4 under way, 37 waiting``."""
    counts = Counter(one.state for one in files)
    parts = [f"{counts['done']} of {len(files)} files read"]
    named = (("left out", "left out"), ("reading", "under way"), ("waiting", "waiting"), ("not read", "not read"))
    return ", ".join([*parts, *(f"{counts[state]} {words}" for state, words in named if counts[state])])


def _line(one: FileProgress, name: str, name_width: int, width: int) -> Content:
    rank = "" if one.rank is None else f"rank {one.rank}"
    begin = f"{pad(name, name_width)}  {pad(_word(one), _WORD)} "
    room = width - cell_width(begin)
    if one.state == "left out":
        return Content(clip(begin + plain(one.why), width)).stylize(_STYLES[one.state])
    cells = min(_BAR_MOST, room - _RANK)
    if cells < _BAR_LEAST:
        return Content(clip(begin + rank, width)).stylize(_STYLES.get(one.state, ""))
    share = min(1.0, one.bytes_read / one.bytes_total) if one.bytes_total else 0.0
    filled = bar(share, cells)
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
