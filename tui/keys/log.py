"""Keys of the log."""

from __future__ import annotations

from typing import Final

from tui.keys.action import FIND, GO, MOVE, WORK, Action, Scope

L = Scope.LOG

LOG: Final = (
    Action("log.down", "j,down", "cursor_down", "down", "Move a line down.", L, MOVE, shown_keys="j down"),
    Action("log.up", "k,up", "cursor_up", "up", "Move a line up.", L, MOVE, shown_keys="k up"),
    Action("log.right", "l,right", "pan(20)", "right", "Scroll right by 20 cells.", L, MOVE, shown_keys="l right"),
    Action("log.left", "h,left", "pan(-20)", "left", "Scroll left by 20 cells.", L, MOVE, shown_keys="h left"),
    Action("log.top", "g,home", "cursor_top", "top", "Go to the first line.", L, MOVE, shown_keys="g Home"),
    Action("log.bottom", "G,end", "cursor_bottom", "bottom", "Go to the last line.", L, MOVE, shown_keys="G End"),
    Action("log.half-down", "ctrl+d", "move_page(0.5)", "half page down", "Move half a page down.", L, MOVE),
    Action("log.half-up", "ctrl+u", "move_page(-0.5)", "half page up", "Move half a page up.", L, MOVE),
    Action(
        "log.page-down", "pagedown,ctrl+f", "move_page(1)", "page down", "Move a page down.", L, MOVE, shown_keys="PgDn"
    ),
    Action("log.page-up", "pageup", "move_page(-1)", "page up", "Move a page up.", L, MOVE, shown_keys="PgUp"),
    Action(
        "log.find",
        "slash",
        "screen.find",
        "find",
        "Find text in the log.",
        L,
        FIND,
        footer=1,
        at_once=True,
        shown_keys="/",
    ),
    Action("log.next-match", "n", "screen.next_match(1)", "next match", "Go to the next match.", L, FIND),
    Action("log.previous-match", "N", "screen.next_match(-1)", "previous match", "Go to the previous match.", L, FIND),
    Action("log.next-issue", "E", "screen.next_issue", "next issue", "Go to the next line with an issue.", L, FIND),
    Action(
        "log.next-parsed",
        "p",
        "screen.next_parsed",
        "next block",
        "Go to the next parsed block.",
        L,
        FIND,
    ),
    Action(
        "log.detail",
        "i",
        "screen.toggle_line_detail",
        "parsed as",
        "Show what was read from the line.",
        L,
        GO,
        footer=1,
    ),
    Action("log.open", "enter", "screen.toggle_line_detail", "parsed as", "Show what was read from the line.", L, GO),
    Action("log.write-note", "M", "screen.write_note", "note", "Write or edit a note on the line.", L, WORK),
    Action("log.copy", "y", "screen.copy_line", "copy line", "Copy the line to the clipboard.", L, WORK),
)
