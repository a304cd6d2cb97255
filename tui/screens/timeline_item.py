"""The details of what is under the cursor of the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.analysis.gpu_time.host_calls import NO_CALL, calls_during
from tui.analysis.timeline.drawing import GLYPHS, in_short
from tui.analysis.timeline.lanes import TITLES, ItemKind
from tui.analysis.timeline.lookup import gap_at, items_at, names_around, names_at
from tui.analysis.timeline.shown import title
from tui.analysis.timeline.window import exactly
from tui.fitting import shorten_symbol
from tui.fmt import count, duration
from tui.model.columns import columns
from tui.model.view import TableSpec
from tui.screens.kernels import details_of_launch
from tui.widgets.details.pane import LABEL_GAP, Details, row_details, sections

if TYPE_CHECKING:
    from tui.analysis.timeline.lanes import Lane
    from tui.analysis.timeline.lookup import TimeInterval
    from tui.model.profile import Profile
    from tui.screens.base import ViewScreen
    from tui.widgets.details.pane import Line
    from tui.widgets.timeline.view import TimelineView


NAMES_SHOWN: Final = 6
NAME_CELLS: Final = 40
ITEM: Final = TableSpec("item", "Item", columns("name", "duration_ns", "start_ns"), key=())
"""What is said first of a call, an op or a range; the rest of its row follows."""


def details_of_item(screen: ViewScreen, view: TimelineView) -> Details:
    """Of GPU work its launch config, of others their row; of a cell with several things what they are by name."""
    shown = view.shown
    if shown is None or not shown.lanes:
        return Details(())
    lane, item, (first, last) = shown.lanes[view.lane], view.item, view.cell
    if item is None:
        return sections([(f"Nothing in {title(lane)}", _gap(screen.profile, view, lane, first))])
    row = int(lane.rows[item])
    look = ItemKind(int(lane.looks[item]))
    glyphs = in_short(GLYPHS[look])
    if lane.on_gpu:
        told = details_of_launch(screen, int(screen.profile["activities"]["activity"][row]))
    else:
        frame = screen.profile[lane.frame]
        told = row_details(ITEM, frame.row(row, named=True), frame_columns=frame.columns)
    labels = max((indent for indent, _ in told.lines), default=0)
    drawn = sections([("", [("Drawn as".ljust(labels - LABEL_GAP), glyphs, TITLES[look])])])
    told = Details((*told.lines, *drawn.lines))
    if view.is_on_item or len(items_at(lane, first, last)) == 1:
        return told
    return Details(
        (
            *_in_cell(screen, lane, first, last).lines,
            *sections([("The longest of them", [("", "", "")])]).lines,
            *told.lines,
        )
    )


def _gap(profile: Profile, view: TimelineView, lane: Lane, at_ns: int) -> list[Line]:
    gap = gap_at(lane, at_ns)
    if gap is None:
        return [("", "before its first or after its last work, or too short to measure", "")]
    shift = view.shift(view.lane)
    before, after = names_around(profile, lane, gap)
    return [
        ("gap", duration(gap.length_ns), ""),
        ("from", exactly(gap.start_ns + shift), ""),
        ("to", exactly(gap.end_ns + shift), ""),
        # Before the names, which can take many lines.
        *_meanwhile(profile, lane, gap),
        ("ran before", before, ""),
        ("ran after", after, ""),
    ]


def _meanwhile(profile: Profile, lane: Lane, gap: TimeInterval) -> list[Line]:
    """What the CPU did in a gap of a GPU, where API calls tell."""
    if not lane.on_gpu:
        return []
    told = calls_during(profile, session=lane.session, start_ns=gap.start_ns, end_ns=gap.end_ns)
    if told is None:
        return []
    if told["cpu_in"] == NO_CALL:
        return [("CPU in", "no API call", f"calls take {duration(told['api_ns'])} of it" if told["api_ns"] else "")]
    if told["call"] is None:
        return [("CPU in", told["cpu_in"], "")]
    return [("CPU in", told["call"], f"{told['cpu_in']}, {duration(told['call_ns'])}")]


def _in_cell(screen: ViewScreen, lane: Lane, first_ns: int, last_ns: int) -> Details:
    names = names_at(screen.profile, lane, first_ns, last_ns)
    lines: list[Line] = [
        (f"{count(number)} x", shorten_symbol(name or "", NAME_CELLS), duration(time_ns))
        for name, number, time_ns in names.head(NAMES_SHOWN).iter_rows()
    ]
    if names.height > NAMES_SHOWN:
        rest = names[NAMES_SHOWN:]
        lines.append(
            (
                f"{count(int(rest['count'].sum()))} x",
                f"{count(rest.height)} other names",
                duration(int(rest["time_ns"].sum())),
            )
        )
    return sections([(f"{count(int(names['count'].sum()))} in this cell of {duration(last_ns - first_ns)}", lines)])
