"""What has been read so far, shown while the rest is read: a small table that never looks like a total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.widgets import Static

from tui.fitting import clip, pad, whole_pieces
from tui.fmt import count, duration
from tui.labels import Cutter
from tui.text import plain

if TYPE_CHECKING:
    from tui.loaders.preview import SoFar

_CALLS, _TIME, _SHARE = 12, 11, 7
"""Cells of the columns of figures."""
_NAMES_LEAST: Final = 10
"""Where there are fewer cells for the names, there are counts alone."""
_ABOVE: Final = 3
"""Lines above the names."""


class SoFarTable(Static):
    """The GPU work that took most of what has been read."""

    DEFAULT_CSS = """
    SoFarTable { height: auto; margin-top: 1; display: none; }
    """

    def show(self, so_far: SoFar, share: float | None, width: int, height: int) -> None:
        """Show it.

        Args:
            so_far: What has been read.
            share: How much of the input that is, from 0 to 1, where it is known.
            width: Cells that there are for it.
            height: Lines.
        """
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        lines = so_far_lines(so_far, share, width, height, ascii_only=ascii_only)
        contents = [Content(line) for line in lines]
        self.update(Content("\n").join([*(title.stylize("bold") for title in contents[:1]), *contents[1:]]))
        self.display = bool(lines)


def so_far_lines(so_far: SoFar, share: float | None, width: int, height: int, *, ascii_only: bool = False) -> list[str]:
    """The lines of it, at most ``height`` and each at most ``width`` cells."""
    title = "So far" if share is None else f"So far, with {100 * share:.0f}% read"
    lines = [f"{title} (more is to come: no totals)", *_counts(so_far, width, ascii_only=ascii_only)]
    room = height - _ABOVE
    names = width - _CALLS - _TIME - _SHARE
    if not so_far.names or room <= 0 or names < _NAMES_LEAST:
        return [clip(line, max(0, width), ascii_only=ascii_only) for line in lines[: max(0, height)]]
    lines.append(f"{'GPU work':<{names}}{'Calls':>{_CALLS}}{'Time':>{_TIME}}{'Share':>{_SHARE}}")
    shown = [(one, plain(one.name, ascii_only=ascii_only)) for one in so_far.names[:room]]
    cutter = Cutter(lambda: [name for _, name in shown], are_symbols=True, ascii_only=ascii_only)
    for one, whole in shown:
        name = cutter.cut(whole, names - 1)
        part = f"{100 * one.total_ns / so_far.total_ns:.1f}%" if so_far.total_ns > 0 else ""
        time = duration(one.total_ns, ascii_only=ascii_only)
        lines.append(f"{pad(name or '(no name)', names)}{count(one.calls):>{_CALLS}}{time:>{_TIME}}{part:>{_SHARE}}")
    return [clip(line, width, ascii_only=ascii_only) for line in lines]


def _counts(so_far: SoFar, width: int, *, ascii_only: bool) -> list[str]:
    """One line of counts, as many as fit."""
    parts = []
    if so_far.calls:
        parts += [
            f"{so_far.calls:,} kernels and copies",
            f"{duration(so_far.total_ns, ascii_only=ascii_only)} of GPU time",
        ]
        if so_far.span_ns is not None:
            parts.append(f"over {duration(so_far.span_ns, ascii_only=ascii_only)}")
    parts += [f"{number:,} {what}" for what, number in so_far.others]
    if not so_far.calls:
        parts.append("no GPU work yet")
    return [whole_pieces("  ".join(parts), width, ascii_only=ascii_only)]
