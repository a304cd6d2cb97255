"""Reads the traces of nvprof."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.section import Line, Section


def open_trace(_line: Line, _state: NvprofState) -> Section | None:
    """The section that a line opens, or None."""
    return None
