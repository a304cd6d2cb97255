"""Every key of the program, in one table.

Bindings, footer, help, command palette, ``:`` commands and the README's key table are all made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType


class Scope(StrEnum):
    """Where a key works."""

    APP = "everywhere"
    TABLE = "in a table"
    BAR = "in the query bar"
    DETAIL = "in the details"
    LOG = "in the log"
    TIMELINE = "in the timeline"
    ITERATIONS = "in iterations"
    CHART = "in the chart of iterations"
    PARTS = "in a view of several parts"
    COMPARE = "in a comparison"
    OPS = "in views of ops"
    TYPES = "in the op types"
    TREE = "in the tree of ops"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does."""

    id: str
    """Stable name, as ``table.sort``: also its name in the ``:`` command line."""
    keys: str
    """Textual key names, comma separated; the first is the one that is shown."""
    method: str
    """The ``action_`` method that does it, on the app or on the widget of its scope."""
    label: str
    """A word or two, for the footer."""
    help: str
    """A sentence, for the help and the README."""
    scope: Scope
    group: str
    """The heading of the README table it stands under."""
    footer: int = 0
    """Its place among the keys of the footer: 1 for what is always there, larger where it gives way; 0: not there."""
    shown_keys: str = ""
    """How the keys are written for people, where Textual's names would not do."""


A, T, B, L, Z = Scope.APP, Scope.TABLE, Scope.BAR, Scope.LOG, Scope.TIMELINE
ITER, CHART = Scope.ITERATIONS, Scope.CHART
MOVE, GO, FIND, WORK = "Movement", "Going in and out", "Find, filter, order", "Work"

ACTIONS: Final = (
    Action("table.down", "j,down", "cursor_down", "down", "Row down.", T, MOVE, shown_keys="j ↓"),
    Action("table.up", "k,up", "cursor_up", "up", "Row up.", T, MOVE, shown_keys="k ↑"),
    Action("table.left", "h,left", "cursor_left", "left", "Column left.", T, MOVE, shown_keys="h ←"),
    Action("table.right", "l,right", "cursor_right", "right", "Column right.", T, MOVE, shown_keys="l →"),
    Action("table.top", "g,home", "cursor_top", "top", "First row.", T, MOVE, shown_keys="g Home"),
    Action("table.bottom", "G,end", "cursor_bottom", "bottom", "Last row.", T, MOVE, shown_keys="G End"),
    Action(
        "table.last-column", "dollar_sign", "cursor_last_column", "last column", "Last column.", T, MOVE, shown_keys="$"
    ),
    Action(
        "table.first-column",
        "circumflex_accent",
        "cursor_first_column",
        "first column",
        "First column.",
        T,
        MOVE,
        shown_keys="^",
    ),
    Action("table.half-down", "ctrl+d", "half_page_down", "half page down", "Half a page down.", T, MOVE),
    Action("table.half-up", "ctrl+u", "half_page_up", "half page up", "Half a page up.", T, MOVE),
    Action("table.page-down", "pagedown,ctrl+f", "page_down", "page down", "Page down.", T, MOVE, shown_keys="PgDn"),
    Action("table.page-up", "pageup", "page_up", "page up", "Page up.", T, MOVE, shown_keys="PgUp"),
    Action("app.next-pane", "tab", "focus_next", "next pane", "Next pane.", A, MOVE),
    Action("app.previous-pane", "shift+tab", "focus_previous", "previous pane", "Previous pane.", A, MOVE),
    Action("table.open", "enter", "open_row", "open", "Go into the row under the cursor.", T, GO, footer=1),
    Action(
        "app.undo",
        "escape",
        "undo_smallest",
        "undo",
        "Undo the smallest thing: input, marks, find, filter, screen. Never quits.",
        A,
        GO,
        shown_keys="esc",
    ),
    Action(
        "app.back",
        "q,backspace",
        "leave",
        "back",
        "Back one screen; q at the first screen quits.",
        A,
        GO,
        footer=1,
        shown_keys="q ⌫",
    ),
    Action("app.quit", "Q,ctrl+q", "quit", "quit", "Quit now.", A, GO, shown_keys="Q"),
    Action(
        "app.last-view",
        "minus",
        "last_view",
        "last view",
        "The view before this one, and back again.",
        A,
        GO,
        shown_keys="-",
    ),
    Action(
        "app.history-back",
        "left_square_bracket",
        "history_back",
        "earlier",
        "Back through the history.",
        A,
        GO,
        shown_keys="[",
    ),
    Action(
        "app.history-forward",
        "right_square_bracket",
        "history_forward",
        "later",
        "Forward through the history.",
        A,
        GO,
        shown_keys="]",
    ),
    Action(
        "app.views",
        "m",
        "views_menu",
        "views",
        "Menu of all views; one that this input cannot feed says why.",
        A,
        GO,
        footer=5,
    ),
    Action(
        "parts.next",
        "full_stop",
        "next_part",
        "next part",
        "The next part of a view that has several.",
        Scope.PARTS,
        GO,
        shown_keys=".",
    ),
    Action(
        "parts.previous",
        "comma",
        "previous_part",
        "previous part",
        "The part before this one.",
        Scope.PARTS,
        GO,
        shown_keys=",",
    ),
    Action("table.detail", "i", "toggle_detail", "details", "Details of the row under the cursor.", T, GO),
    Action("table.cell", "v", "view_cell", "full text", "The whole text of the cell under the cursor.", T, GO),
    Action("table.line", "L", "source_line", "source line", "The line of the input that the row comes from.", T, GO),
    Action(
        "ops.group-by",
        "b",
        "next_grouping",
        "group",
        "Group by the next thing: name, shapes, launch config, class, instance; in the tree: path, caller, type, ...",
        Scope.OPS,
        FIND,
        footer=1,
    ),
    Action("ops.group-back", "B", "previous_grouping", "group back", "Group by the thing before.", Scope.OPS, FIND),
    Action("ops.tree", "t", "show_in_tree", "in the tree", "The op's place in the tree of groups.", Scope.OPS, GO),
    Action(
        "types.figures",
        "z",
        "fold_figures",
        "fold",
        "Fold or unfold average, least and most of the time under the cursor; on another column: of all times.",
        Scope.TYPES,
        FIND,
        footer=1,
    ),
    Action(
        "tree.fold", "h", "fold", "fold", "Fold the group; on a folded one: to the group around it.", Scope.TREE, MOVE
    ),
    Action(
        "tree.unfold",
        "l",
        "unfold",
        "unfold",
        "Unfold the group, down to where it first branches; then to its first row.",
        Scope.TREE,
        MOVE,
    ),
    Action(
        "tree.fold-level",
        "z",
        "fold_level",
        "fold",
        "Fold the whole tree by one level.",
        Scope.TREE,
        FIND,
        footer=1,
    ),
    Action(
        "tree.unfold-level",
        "Z",
        "unfold_level",
        "unfold a level",
        "Unfold the whole tree by one level.",
        Scope.TREE,
        FIND,
    ),
    Action(
        "table.find",
        "slash",
        "find",
        "find",
        "Find: highlights, and goes to the first match as you type.",
        T,
        FIND,
        footer=3,
        shown_keys="/",
    ),
    Action("table.next-match", "n", "next_match", "next match", "Next match.", T, FIND),
    Action("table.previous-match", "N", "previous_match", "previous match", "Previous match.", T, FIND),
    Action(
        "table.filter",
        "f,ampersand",
        "filter",
        "filter",
        "Filter: keeps the rows that match.",
        T,
        FIND,
        footer=2,
        shown_keys="f &",
    ),
    Action(
        "table.only",
        "asterisk",
        "filter_equal",
        "only this",
        "Keep the rows with the same value in this column.",
        T,
        FIND,
        shown_keys="*",
    ),
    Action(
        "table.not",
        "exclamation_mark",
        "filter_not_equal",
        "not this",
        "Leave out the rows with the same value in this column.",
        T,
        FIND,
        shown_keys="!",
    ),
    Action(
        "table.filter-column",
        "F",
        "filter_column",
        "filter column",
        "Filter by this column, besides what the filter already asks for; yes/no columns take 1, 0 and ?.",
        T,
        FIND,
    ),
    Action(
        "table.carry",
        "C",
        "carry_filter",
        "carry filter",
        "Carry this filter into every view that can understand it; again: no longer.",
        T,
        FIND,
    ),
    Action(
        "table.small",
        "x",
        "toggle_small",
        "hide small",
        "Hide the smallest rows, together at most 1 % of the time shown; again: show them.",
        T,
        FIND,
    ),
    Action(
        "table.sort",
        "s",
        "sort_column",
        "sort",
        "Sort by this column: largest first, smallest first, as it came.",
        T,
        FIND,
        footer=4,
    ),
    Action(
        "table.sort-also",
        "semicolon",
        "sort_also",
        "then sort",
        "Sort by this column too, where rows are equal so far: largest first, smallest first, no longer.",
        T,
        FIND,
        shown_keys=";",
    ),
    Action(
        "table.sort-left",
        "less_than_sign",
        "sort_left",
        "sort left",
        "Sort by the column to the left.",
        T,
        FIND,
        shown_keys="<",
    ),
    Action(
        "table.sort-right",
        "greater_than_sign",
        "sort_right",
        "sort right",
        "Sort by the column to the right.",
        T,
        FIND,
        shown_keys=">",
    ),
    Action("table.columns", "c", "choose_columns", "columns", "Choose, order and pin the columns.", T, FIND),
    Action("table.hide", "H", "hide_column", "hide column", "Hide this column; c brings it back.", T, FIND),
    Action("table.pin", "P", "pin_column", "pin column", "Pin this column beside the name; again: let it go.", T, FIND),
    Action("table.name-last", "W", "name_last", "name last", "Names last, with all the room, or first.", T, FIND),
    Action("table.reset", "R", "reset", "reset", "Columns, order, units and rows as the view came.", T, FIND),
    Action("table.names", "w", "toggle_names", "names", "Short or full names.", T, FIND),
    Action("table.units", "u", "cycle_units", "units", "Units of time: auto, s, ms, µs, ns.", T, FIND),
    Action(
        "table.share",
        "percent_sign",
        "toggle_share",
        "share",
        "Durations as times, as shares of all, as shares of what is shown.",
        T,
        FIND,
        shown_keys="%",
    ),
    Action(
        "table.mark", "space", "toggle_mark", "mark", "Mark the row; the status line sums the marked rows.", T, WORK
    ),
    Action(
        "table.write-note", "M", "write_note", "note", "Write a note on the row, or change it; it is kept.", T, WORK
    ),
    Action("table.copy-cell", "y", "copy_cell", "copy cell", "Copy the cell to the terminal's clipboard.", T, WORK),
    Action(
        "table.copy-rows",
        "Y",
        "copy_rows",
        "copy rows",
        "Copy the marked rows, or this one, as tab-separated values.",
        T,
        WORK,
    ),
    Action("table.export", "e", "export", "export", "Export what is shown.", T, WORK),
    Action(
        "app.sessions",
        "S",
        "sessions_menu",
        "sessions",
        "Choose the session (process, run or rank) that every view shows.",
        A,
        WORK,
    ),
    Action(
        "app.aggregations",
        "A",
        "aggregations_menu",
        "aggregations",
        "Choose one of the aggregations made so far (range of iterations and key), or all iterations again.",
        A,
        WORK,
    ),
    Action(
        "app.compare",
        "d",
        "compare",
        "compare",
        "Compare with another file, session or iterations; two marked iterations with each other.",
        A,
        WORK,
    ),
    Action("compare.families", "a", "match_families", "alike", "Match kernels by family.", Scope.COMPARE, WORK),
    Action("compare.swap", "o", "swap_sides", "swap", "What was before becomes what is now.", Scope.COMPARE, WORK),
    Action(
        "app.resume",
        "apostrophe",
        "resume",
        "resume",
        "Go back to where you left off when this file was last open.",
        A,
        WORK,
        shown_keys="'",
    ),
    Action("app.reload", "r", "reload", "reload", "Read the file again and keep the place.", A, WORK),
    Action(
        "app.command",
        "colon",
        "command_line",
        "command",
        "Command line, as :kernels gemm total>1ms.",
        A,
        WORK,
        shown_keys=":",
    ),
    Action("app.palette", "ctrl+p", "command_palette", "palette", "Find any action by name.", A, WORK),
    Action(
        "app.help",
        "question_mark,f1",
        "help",
        "help",
        "Help for the focused pane.",
        A,
        WORK,
        footer=1,
        shown_keys="?",
    ),
    Action("app.redraw", "ctrl+l", "redraw", "redraw", "Redraw the screen.", A, WORK),
    Action("app.suspend", "ctrl+z", "suspend_process", "suspend", "Back to the shell; fg returns.", A, WORK),
    Action("bar.accept", "enter", "accept", "keep", "Keep the text and go back to the table.", B, FIND, footer=1),
    Action(
        "bar.cancel", "escape", "cancel", "undo", "Put back what stood before.", B, FIND, footer=1, shown_keys="esc"
    ),
    Action(
        "bar.switch",
        "tab",
        "switch_mode",
        "find/filter",
        "Filter instead of find, with the same text, or back.",
        B,
        FIND,
        footer=1,
    ),
    Action("bar.earlier", "up", "history_back", "earlier", "The text before this one.", B, FIND, shown_keys="↑"),
    Action("bar.later", "down", "history_forward", "later", "The text after this one.", B, FIND, shown_keys="↓"),
    Action("log.down", "j,down", "cursor_down", "down", "Line down.", L, MOVE, shown_keys="j ↓"),
    Action("log.up", "k,up", "cursor_up", "up", "Line up.", L, MOVE, shown_keys="k ↑"),
    Action("log.right", "l,right", "pan(20)", "right", "Right by twenty cells.", L, MOVE, shown_keys="l →"),
    Action("log.left", "h,left", "pan(-20)", "left", "Left by twenty cells.", L, MOVE, shown_keys="h ←"),
    Action("log.top", "g,home", "cursor_top", "top", "First line.", L, MOVE, shown_keys="g Home"),
    Action("log.bottom", "G,end", "cursor_bottom", "bottom", "Last line.", L, MOVE, shown_keys="G End"),
    Action("log.half-down", "ctrl+d", "move_page(0.5)", "half page down", "Half a page down.", L, MOVE),
    Action("log.half-up", "ctrl+u", "move_page(-0.5)", "half page up", "Half a page up.", L, MOVE),
    Action("log.page-down", "pagedown,ctrl+f", "move_page(1)", "page down", "Page down.", L, MOVE, shown_keys="PgDn"),
    Action("log.page-up", "pageup", "move_page(-1)", "page up", "Page up.", L, MOVE, shown_keys="PgUp"),
    Action("log.find", "slash", "screen.find", "find", "Find a text in the log.", L, FIND, footer=1, shown_keys="/"),
    Action("log.next-match", "n", "screen.next_match(1)", "next match", "Next match.", L, FIND),
    Action("log.previous-match", "N", "screen.next_match(-1)", "previous match", "Previous match.", L, FIND),
    Action("log.next-issue", "E", "screen.next_issue", "next issue", "Next line in the list of issues.", L, FIND),
    Action(
        "log.next-parsed",
        "p",
        "screen.next_parsed",
        "next table",
        "Next line that a row came from, after other text.",
        L,
        FIND,
    ),
    Action("log.detail", "i", "screen.toggle_line_detail", "read as", "What was read from the line.", L, GO, footer=1),
    Action("log.open", "enter", "screen.toggle_line_detail", "read as", "What was read from the line.", L, GO),
    Action("log.copy", "y", "screen.copy_line", "copy line", "Copy the line to the terminal's clipboard.", L, WORK),
    Action(
        "iterations.worst",
        "t",
        "go_to_slowest",
        "slowest",
        "Go to the slowest iteration; again: to the next slowest.",
        ITER,
        MOVE,
        footer=1,
    ),
    Action(
        "iterations.span",
        "b",
        "mark_span",
        "span",
        "Begin a span of iterations here; again: end it here.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.aggregate",
        "a",
        "aggregate",
        "aggregate",
        "Show only the span, or the iteration under the cursor, in every view.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.steady",
        "p",
        "aggregate_steady",
        "take proposed",
        "Show the proposed steady iterations in every view.",
        ITER,
        WORK,
    ),
    Action("iterations.key", "K", "pick_key", "key", "Choose what iterations end with.", ITER, WORK),
    Action(
        "iterations.zoom-in",
        "plus,equals_sign",
        "zoom(1)",
        "zoom in",
        "Fewer iterations in the chart.",
        ITER,
        MOVE,
        shown_keys="+ =",
    ),
    Action(
        "iterations.zoom-out",
        "underscore",
        "zoom(-1)",
        "zoom out",
        "More iterations in the chart.",
        ITER,
        MOVE,
        shown_keys="_",
    ),
    Action("iterations.fit", "z", "fit_chart", "fit", "All iterations in the chart, or the chosen ones.", ITER, MOVE),
    Action("chart.right", "l,right,j,down", "move(1)", "right", "Next bar.", CHART, MOVE, shown_keys="l →"),
    Action("chart.left", "h,left,k,up", "move(-1)", "left", "Bar before.", CHART, MOVE, shown_keys="h ←"),
    Action("chart.first", "g,home", "move_to_end(0)", "first", "First iteration.", CHART, MOVE, shown_keys="g Home"),
    Action("chart.last", "G,end", "move_to_end(1)", "last", "Last iteration.", CHART, MOVE, shown_keys="G End"),
    Action("chart.page-right", "ctrl+d,pagedown", "pan(1)", "pan right", "Half the chart to the right.", CHART, MOVE),
    Action("chart.page-left", "ctrl+u,pageup", "pan(-1)", "pan left", "Half the chart to the left.", CHART, MOVE),
    Action(
        "chart.open",
        "enter",
        "open",
        "open",
        "Aggregate the span, else the iteration's kernels.",
        CHART,
        GO,
        footer=1,
    ),
    Action("chart.detail", "i", "screen.toggle_row_detail", "details", "Details of the iteration.", CHART, GO),
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
        "timeline.copy",
        "y",
        "copy_item",
        "copy name",
        "Copy the name under the cursor to the terminal's clipboard.",
        Z,
        WORK,
    ),
    Action("table.timeline", "T", "show_in_timeline", "in the timeline", "The row's place in the timeline.", T, GO),
)


FOOTER_KEYS: Final = 6
"""Keys that the footer shows at most."""
_LAST: Final = ("views_menu", "help", "leave")
"""What works everywhere stands behind what works here."""


def footer_keys(methods: Sequence[str]) -> list[str]:
    """The methods whose keys the footer shows, of those that it could.

    Views have keys of their own, and what works in every table gives way to them.

    >>> footer_keys(["open_row", "find", "filter", "sort_column", "leave", "views_menu", "help"])
    ['open_row', 'find', 'filter', 'sort_column', 'help', 'leave']
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "fold_level", "next_grouping", "leave", "help"])
    ['open_row', 'filter', 'fold_level', 'next_grouping', 'help', 'leave']
    """
    places: dict[str, int] = {}
    for action in ACTIONS:
        if action.footer:
            places[action.method] = max(action.footer, places.get(action.method, 0))
    shown = sorted(methods, key=lambda method: places.get(method, 1))[:FOOTER_KEYS]
    return sorted(
        (method for method in methods if method in shown),
        key=lambda method: _LAST.index(method) if method in _LAST else -1,
    )


def actions_of(scope: Scope) -> tuple[Action, ...]:
    """The actions that work in a scope."""
    return tuple(action for action in ACTIONS if action.scope is scope)


def bindings_for(scope: Scope) -> list[BindingType]:
    """The Textual bindings of a scope."""
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            action.method,
            action.label,
            show=bool(action.footer),
            key_display=(action.shown_keys or action.keys.replace(",", " ")).split(" ")[0],
            tooltip=action.help,
            id=action.id,
        )
        for action in actions_of(scope)
    ]
