"""Recognises the text of nvprof's successors, which stands in the same files, and says how to open those."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.figures import Units

if TYPE_CHECKING:
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.section import Line

_TOOLS: Final = (
    (
        "nsys stats",
        re.compile(r"\s*\"?Time ?\(%\)\"?[\s,]+\"?Total Time\b"),
        "this is a table of nsys stats, not of nvprof: it was not read. Open what nsys recorded instead "
        "(nsys export --type sqlite report.nsys-rep)",
    ),
    (
        "ncu",
        re.compile(r"\s*==PROF=="),
        "this is text of Nsight Compute (ncu), not of nvprof: it was not read",
    ),
)


def open_other_tool(line: Line, state: NvprofState, told: set[str]) -> bool:
    """Tell of another tool's text, once for each tool; True where the line is of one."""
    for tool, pattern, reason in _TOOLS:
        if pattern.match(state.bare(line.text)):
            if tool not in told:
                told.add(tool)
                state.units = Units()
                state.collector.issue("info", line.number, line.text.strip(), reason)
            return True
    return False
