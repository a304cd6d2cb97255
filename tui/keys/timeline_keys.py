"""Keys of the timeline, of the view of iterations and of its chart."""

from __future__ import annotations

from typing import Final

from tui.keys.action import FIND, GO, MOVE, WORK, Action, Scope

Z = Scope.TIMELINE

TIMELINE: Final = (
    Action("timeline.right", "l,right", "cell(1)", "right", "Move a cell right.", Z, MOVE, shown_keys="l right"),
    Action("timeline.left", "h,left", "cell(-1)", "left", "Move a cell left.", Z, MOVE, shown_keys="h left"),
    Action("timeline.down", "j,down", "lane(1)", "lane down", "Move a lane down.", Z, MOVE, shown_keys="j down"),
    Action("timeline.up", "k,up", "lane(-1)", "lane up", "Move a lane up.", Z, MOVE, shown_keys="k up"),
    Action(
        "timeline.half-right", "ctrl+d", "page(0.5)", "half a screen right", "Scroll right by half a screen.", Z, MOVE
    ),
    Action(
        "timeline.half-left", "ctrl+u", "page(-0.5)", "half a screen left", "Scroll left by half a screen.", Z, MOVE
    ),
    Action(
        "timeline.page-right",
        "pagedown,ctrl+f",
        "page(1)",
        "a screen right",
        "Scroll right by a screen.",
        Z,
        MOVE,
        shown_keys="PgDn",
    ),
    Action(
        "timeline.page-left",
        "pageup",
        "page(-1)",
        "a screen left",
        "Scroll left by a screen.",
        Z,
        MOVE,
        shown_keys="PgUp",
    ),
    Action(
        "timeline.first",
        "g,home",
        "edge(False)",
        "first",
        "Go to the first item in the lane.",
        Z,
        MOVE,
        shown_keys="g Home",
    ),
    Action(
        "timeline.last", "G,end", "edge(True)", "last", "Go to the last item in the lane.", Z, MOVE, shown_keys="G End"
    ),
    Action(
        "timeline.open", "enter", "open_item", "open", "Show details of the item under the cursor.", Z, GO, footer=1
    ),
    Action(
        "timeline.detail", "i", "toggle_detail", "details", "Show details that follow the cursor, or hide them.", Z, GO
    ),
    Action(
        "timeline.zoom-in",
        "plus,equals_sign",
        "zoom_in",
        "zoom in",
        "Zoom in around the cursor.",
        Z,
        GO,
        footer=1,
        shown_keys="+ =",
    ),
    Action("timeline.zoom-out", "underscore", "zoom_out", "zoom out", "Zoom out.", Z, GO, footer=6, shown_keys="_"),
    Action("timeline.fit", "z", "fit", "fit", "Fit the whole timeline.", Z, GO, footer=7),
    Action(
        "timeline.zoom-to",
        "Z",
        "zoom_to",
        "zoom to",
        "Zoom to the measured time, or to the item under the cursor.",
        Z,
        GO,
    ),
    Action(
        "timeline.other-end",
        "a",
        "other_end",
        "launch/kernel",
        "Jump between a kernel and its launch.",
        Z,
        GO,
        footer=9,
    ),
    Action("timeline.row", "T", "show_row_of", "row", "Go to the row of the item.", Z, GO, footer=11),
    Action("timeline.line", "L", "source_line", "source line", "Go to the source line of the item in the log.", Z, GO),
    Action(
        "timeline.find",
        "slash",
        "find",
        "find",
        "Find items by name; matches are underlined.",
        Z,
        FIND,
        footer=1,
        has_priority=True,
        shown_keys="/",
    ),
    Action(
        "timeline.next", "n", "next_item(1)", "next", "Go to the next item in the lane, or to the next match.", Z, FIND
    ),
    Action("timeline.previous", "N", "next_item(-1)", "previous", "Go to the previous item or match.", Z, FIND),
    Action(
        "timeline.next-gap",
        "right_curly_bracket",
        "next_gap(1)",
        "next gap",
        "Go to the next gap of at least one cell; zoom in for shorter ones.",
        Z,
        FIND,
        footer=8,
        shown_keys="}",
    ),
    Action(
        "timeline.previous-gap",
        "left_curly_bracket",
        "next_gap(-1)",
        "previous gap",
        "Go to the previous gap.",
        Z,
        FIND,
        shown_keys="{",
    ),
    Action(
        "timeline.gaps",
        "I",
        "list_gaps",
        "longest gaps",
        "List the longest gaps of the lane.",
        Z,
        FIND,
        footer=1,
    ),
    Action(
        "timeline.path",
        "P",
        "show_path",
        "critical path",
        "Underline the critical path of the iterations; press again to stop.",
        Z,
        FIND,
        footer=10,
    ),
    Action(
        "timeline.depths",
        "x",
        "toggle_depths",
        "all depths",
        "Show ranges and ops of all depths, or only those that fit.",
        Z,
        FIND,
        footer=12,
    ),
    Action(
        "timeline.mark",
        "space",
        "toggle_mark",
        "measure",
        "Measure from here: time, and busy share of the lane.",
        Z,
        WORK,
        footer=10,
    ),
    Action(
        "timeline.write-note",
        "M",
        "write_note",
        "note",
        "Write or edit a note on the item.",
        Z,
        WORK,
    ),
    Action(
        "timeline.copy",
        "y",
        "copy_item",
        "copy name",
        "Copy the name of the item to the clipboard.",
        Z,
        WORK,
    ),
)


ITER = Scope.ITERATIONS
CHART = Scope.CHART

ITERATIONS: Final = (
    Action(
        "iterations.worst",
        "t",
        "go_to_slowest",
        "slowest",
        "Go to the slowest iteration; press again for the next slowest.",
        ITER,
        MOVE,
        footer=1,
    ),
    Action(
        "iterations.span",
        "b",
        "mark_span",
        "span",
        "Start a span of iterations here; press again to end it.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.aggregate",
        "a",
        "aggregate",
        "aggregate",
        "Show only the span, or this iteration, in every view (as :iterations 3:7).",
        ITER,
        WORK,
    ),
    Action(
        "iterations.steady",
        "p",
        "aggregate_steady",
        "steady iterations",
        "Show the proposed steady iterations in every view.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.key", "E", "pick_key", "key", "Choose the loop, or the name that ends an iteration.", ITER, WORK
    ),
    Action(
        "iterations.zoom-in",
        "plus,equals_sign",
        "zoom(1)",
        "zoom in",
        "Zoom in.",
        ITER,
        MOVE,
        shown_keys="+ =",
    ),
    Action(
        "iterations.zoom-out",
        "underscore",
        "zoom(-1)",
        "zoom out",
        "Zoom out.",
        ITER,
        MOVE,
        shown_keys="_",
    ),
    Action(
        "iterations.fit", "z", "fit_chart", "fit", "Fit all iterations, or the chosen ones, into the chart.", ITER, MOVE
    ),
    Action(
        "chart.right", "l,right,j,down", "move(1)", "right", "Go to the next bar.", CHART, MOVE, shown_keys="l right"
    ),
    Action(
        "chart.left", "h,left,k,up", "move(-1)", "left", "Go to the previous bar.", CHART, MOVE, shown_keys="h left"
    ),
    Action(
        "chart.first",
        "g,home",
        "move_to_end(0)",
        "first",
        "Go to the first iteration.",
        CHART,
        MOVE,
        shown_keys="g Home",
    ),
    Action(
        "chart.last", "G,end", "move_to_end(1)", "last", "Go to the last iteration.", CHART, MOVE, shown_keys="G End"
    ),
    Action(
        "chart.page-right",
        "ctrl+d,pagedown",
        "pan(1)",
        "pan right",
        "Scroll right by half the chart.",
        CHART,
        MOVE,
        shown_keys="ctrl+d PgDn",
    ),
    Action(
        "chart.page-left",
        "ctrl+u,pageup",
        "pan(-1)",
        "pan left",
        "Scroll left by half the chart.",
        CHART,
        MOVE,
        shown_keys="ctrl+u PgUp",
    ),
    Action(
        "chart.open",
        "enter",
        "open",
        "open",
        "Aggregate the span, or show the kernels of the iteration.",
        CHART,
        GO,
        footer=1,
    ),
    Action("chart.detail", "i", "screen.toggle_row_detail", "details", "Show details of the iteration.", CHART, GO),
)
