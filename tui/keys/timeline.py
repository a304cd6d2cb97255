"""Keys of the timeline."""

from __future__ import annotations

from typing import Final

from tui.keys.action import FIND, GO, MOVE, WORK, Action, Scope

Z = Scope.TIMELINE

TIMELINE: Final = (
    Action("timeline.right", "l,right", "cell(1)", "right", "Right by a cell.", Z, MOVE, shown_keys="l →"),
    Action("timeline.left", "h,left", "cell(-1)", "left", "Left by a cell.", Z, MOVE, shown_keys="h ←"),
    Action("timeline.down", "j,down", "lane(1)", "lane down", "To the lane below.", Z, MOVE, shown_keys="j ↓"),
    Action("timeline.up", "k,up", "lane(-1)", "lane up", "To the lane above.", Z, MOVE, shown_keys="k ↑"),
    Action("timeline.half-right", "ctrl+d", "page(0.5)", "half a screen on", "Later by half a screen.", Z, MOVE),
    Action("timeline.half-left", "ctrl+u", "page(-0.5)", "half a screen back", "Earlier by half a screen.", Z, MOVE),
    Action(
        "timeline.page-right",
        "pagedown,ctrl+f",
        "page(1)",
        "a screen on",
        "Later by a screen.",
        Z,
        MOVE,
        shown_keys="PgDn",
    ),
    Action(
        "timeline.page-left", "pageup", "page(-1)", "a screen back", "Earlier by a screen.", Z, MOVE, shown_keys="PgUp"
    ),
    Action(
        "timeline.first",
        "g,home",
        "edge(False)",
        "first",
        "To the first thing in the lane.",
        Z,
        MOVE,
        shown_keys="g Home",
    ),
    Action(
        "timeline.last", "G,end", "edge(True)", "last", "To the last thing in the lane.", Z, MOVE, shown_keys="G End"
    ),
    Action("timeline.open", "enter", "open_item", "open", "Details of what is under the cursor.", Z, GO, footer=1),
    Action("timeline.detail", "i", "toggle_detail", "details", "Details that follow the cursor, or none.", Z, GO),
    Action(
        "timeline.zoom-in",
        "plus,equals_sign",
        "zoom_in",
        "zoom in",
        "Closer, around the cursor.",
        Z,
        GO,
        footer=1,
        shown_keys="+ =",
    ),
    Action("timeline.zoom-out", "underscore", "zoom_out", "zoom out", "Away from the cursor.", Z, GO, shown_keys="_"),
    Action("timeline.fit", "z", "fit", "fit", "All of the time.", Z, GO),
    Action(
        "timeline.zoom-to",
        "Z",
        "zoom_to",
        "zoom to",
        "As close as what was measured, else as the thing under the cursor.",
        Z,
        GO,
    ),
    Action(
        "timeline.other-end",
        "a",
        "other_end",
        "launch or call",
        "From GPU work to the call that launched it, and back.",
        Z,
        GO,
    ),
    Action("timeline.line", "L", "source_line", "source line", "The line of the input that it comes from.", Z, GO),
    Action(
        "timeline.find",
        "slash",
        "find",
        "find",
        "Find by name: all are underlined.",
        Z,
        FIND,
        footer=1,
        at_once=True,
        shown_keys="/",
    ),
    Action(
        "timeline.next", "n", "next_item(1)", "next", "Next thing in the lane; of what was found, in any lane.", Z, FIND
    ),
    Action("timeline.previous", "N", "next_item(-1)", "previous", "The one before.", Z, FIND),
    Action(
        "timeline.next-gap",
        "right_curly_bracket",
        "next_gap(1)",
        "gap",
        "Next gap in the lane that is at least a cell long: closer shows shorter ones.",
        Z,
        FIND,
        footer=1,
        shown_keys="}",
    ),
    Action(
        "timeline.previous-gap",
        "left_curly_bracket",
        "next_gap(-1)",
        "gap before",
        "The gap before.",
        Z,
        FIND,
        shown_keys="{",
    ),
    Action("timeline.gaps", "I", "list_gaps", "gaps", "The longest gaps of the lane, to go to one.", Z, FIND),
    Action(
        "timeline.depths",
        "x",
        "toggle_depths",
        "all depths",
        "Ranges and ops of all depths, or as many as fit.",
        Z,
        FIND,
    ),
    Action(
        "timeline.mark",
        "space",
        "toggle_mark",
        "measure",
        "Measure from here: time, and how busy the lane is in it.",
        Z,
        WORK,
    ),
    Action(
        "timeline.write-note",
        "M",
        "write_note",
        "note",
        "Write a note on what is under the cursor, or change it.",
        Z,
        WORK,
    ),
    Action(
        "timeline.copy",
        "y",
        "copy_item",
        "copy name",
        "Copy the name under the cursor to the terminal's clipboard.",
        Z,
        WORK,
    ),
)
