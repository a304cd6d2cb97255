"""Keys of the log."""

from __future__ import annotations

from typing import Final

from tui.keys.action import FIND, GO, MOVE, WORK, Action, Scope

L = Scope.LOG

LOG: Final = (
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
    Action(
        "log.find",
        "slash",
        "screen.find",
        "find",
        "Find a text in the log.",
        L,
        FIND,
        footer=1,
        at_once=True,
        shown_keys="/",
    ),
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
    Action("log.write-note", "M", "screen.write_note", "note", "Write a note on the line, or change it.", L, WORK),
    Action("log.copy", "y", "screen.copy_line", "copy line", "Copy the line to the terminal's clipboard.", L, WORK),
)
