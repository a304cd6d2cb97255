"""What the details pane says of a recorded op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tui.fmt import count, duration
from tui.model.columns import COLUMNS
from tui.widgets.details import Details, sections, whole_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.analysis.ops.drill import OpCalls, Values
    from tui.model.view import TableSpec
    from tui.widgets.details import Line

TEXT_SHOWN: Final = 300
"""Characters of a value; the shapes of an op on hundreds of tensors take thousands."""

FRAMES_SHOWN: Final = 6
"""Source lines of a stack, the innermost ones; module and file tell the rest."""

_WHERE_FROM: Final = {
    "recorded": "recorded by the profiler",
    "nvtx": "an NVTX range of the program",
    "inferred": "inferred from the names of kernels",
}


def op_details(spec: TableSpec, row: Mapping[str, Any], calls: OpCalls, *, kernels_ns: int | None) -> Details:
    """What an op cost, what it was called with, and what is around it.

    Args:
        spec: The table of ops.
        row: Its row there.
        calls: What its calls were like.
        kernels_ns: GPU time of the launches in it, each counted once.
    """
    costs = [
        (column.title, whole_value(column.kind, row[column.name]), "")
        for column in spec.columns
        if row[column.name] is not None and column.name != "op_source"
    ]
    if kernels_ns is not None and row["gpu_total_ns"] is not None and kernels_ns != row["gpu_total_ns"]:
        note = "it runs within itself: GPU total has the time of inner calls in both"
        costs.insert(_after(costs, "gpu_total_ns"), ("  each once", duration(kernels_ns), note))
    source = [_WHERE_FROM.get(value.text, value.text) for value in calls.op_source.most]
    around: list[Line] = [("Op from", ", ".join(source), "")] if source else []
    around += _told("Called by", calls.parent)
    around += _told("Calls", calls.children)
    around += _told("Forward op", calls.forward)
    around += _told("Backward op", calls.backward)
    around += _told("Direction", calls.direction)
    around += _told("Thread", calls.thread)
    return sections(
        [
            ("", costs),
            ("Input shapes", _told("", calls.input_shapes)),
            ("Data type", _told("", calls.dtype)),
            ("Ran in", _told("", calls.group)),
            ("Around it", around),
            ("Called from", _stacks(calls.stack)),
        ]
    )


def _after(lines: Sequence[Line], column: str) -> int:
    titles = [label for label, _value, _note in lines]
    return titles.index(COLUMNS[column].title) + 1


def _cut(text: str) -> str:
    """A text, with the number of characters that are left out where it is too long."""
    left = len(text) - TEXT_SHOWN
    return text if left <= 0 else f"{text[:TEXT_SHOWN]}… and {count(left)} characters more"


def _calls(number: int) -> str:
    return f"{count(number)} call{'' if number == 1 else 's'}"


def _told(label: str, values: Values) -> list[Line]:
    """One line a value, with the number of its calls; the label stands at the first."""
    lines = [
        (label if not index else "", _cut(value.text), _calls(value.calls)) for index, value in enumerate(values.most)
    ]
    if values.others:
        lines.append(("", f"and {count(values.others)} more", ""))
    return lines


def _stacks(stacks: Values) -> list[Line]:
    """The innermost source lines of each stack, one a line."""
    lines: list[Line] = []
    for value in stacks.most:
        frames = [frame.strip() for frame in value.text.split(";") if frame.strip()]
        shown = [_cut(frame) for frame in frames[:FRAMES_SHOWN]] or [""]
        lines += [(_calls(value.calls) if not index else "", frame, "") for index, frame in enumerate(shown)]
        if len(frames) > FRAMES_SHOWN:
            lines.append(("", f"and {len(frames) - FRAMES_SHOWN} further out", ""))
    if stacks.others:
        lines.append(("", f"and {count(stacks.others)} more stacks", ""))
    return lines
