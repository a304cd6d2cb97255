"""Help in two pages: the keys for the task at hand with a legend, then all keys and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from tui.keys import ACTIONS, Action, Scope
from tui.keys.action import MOVE
from tui.text import plain
from tui.text_width import cell_width
from tui.views import VIEWS, view
from tui.widgets.charts.bars import kind_style
from tui.widgets.dialogs.base import Dialog
from tui.widgets.input_bars import PlainLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.screens.base import ViewScreen

Entry = tuple[str, str]
"""A key or the title of a column, and its meaning."""

MAX_KEYS: Final = 12
"""The number of keys on the first page."""
MAX_VIEW_KEYS: Final = 5
"""The number of these that only the current view has."""
NOT_IN_FOOTER: Final = 9
"""The rank of a key that is not in the footer."""
ESSENTIAL_KEYS: Final = (
    "table.open",
    "timeline.open",
    "table.detail",
    "table.find",
    "timeline.find",
    "log.find",
    "table.filter",
    "table.sort",
    "table.timeline",
    "app.views",
    "app.back",
    "app.compare",
    "table.export",
    "table.mark",
    "app.command",
    "app.undo",
    "app.next-pane",
)
"""The keys that most tasks need, most important first."""
LEGEND: Final = (
    ("tensor", "kernels that use tensor cores"),
    ("other", "other kernels"),
    ("unknown", "kernels with unknown tensor-core use"),
    ("communication", "communication"),
    ("memory", "memory copies"),
    ("memset", "memsets"),
    ("um", "unified memory"),
    ("dataloader", "data loading"),
    ("io", "I/O"),
    ("cpu", "CPU"),
    ("idle", "idle"),
)
"""The uses of time, by their style in bars."""
VIEWS_OF_USES: Final = ("dashboard", "iterations", "flame")
"""The views whose bars have these styles."""
TERMINAL_NOTES = (
    "Select text with the terminal: hold shift (option on a Mac) while dragging. --no-mouse turns the mouse off.",
    "tmux delays esc: add `set -sg escape-time 10` to its configuration. q and backspace also go back.",
    "Copying uses the terminal clipboard (OSC 52). tmux needs `set -g set-clipboard on`.",
)
SAVED_NOTES = (
    "Notes (M), your last position in a file and table columns are saved in ~/.local/state/proftui (or "
    "$XDG_STATE_HOME/proftui), readable only by you. :forget deletes the data saved for this file.",
)


LOCAL_SCOPES = (
    Scope.PARTS,
    Scope.COMPARE,
    Scope.ITERATIONS,
    Scope.CHART,
    Scope.OPS,
    Scope.TYPES,
    Scope.TREE,
    Scope.EXPERT,
    Scope.FLAME,
)
"""Scopes of keys that only some views have."""


class HelpScreen(Dialog[None]):
    """Help for a view: ``tab`` turns the page, ``/`` shows the lines of both pages that contain a text.

    Args:
        below: The view that the help is for.
        availability: For each view ``ok``, or why this input has no data for it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,f1", "leave", "Close"),
        ("tab,shift+tab,full_stop,comma", "turn", "Other page"),
        ("slash", "search", "Find"),
        ("j,down", "scroll(1)", "Down"),
        ("k,up", "scroll(-1)", "Up"),
        ("ctrl+d,pagedown", "scroll(12)", "Half a page down"),
        ("ctrl+u,pageup", "scroll(-12)", "Half a page up"),
        ("g,home", "edge(True)", "Top"),
        ("G,end", "edge(False)", "Bottom"),
    ]
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        background: $background 60%;
        #help {
            width: 100%; max-width: 150; height: 100%; max-height: 60;
            background: $surface; border: round $primary;
        }
        #help-title { padding: 0 1; color: $accent; text-style: bold; }
        #help-body { height: 1fr; padding: 0 1; }
        #about, #legend { padding-top: 1; }
        #columns, .page { height: auto; }
        .column { width: 1fr; height: auto; padding-right: 2; }
        Input { display: none; height: 1; border: none; padding: 0 1; }
        Input.-open { display: block; }
    }
    .-narrow HelpScreen #columns, HelpScreen.-narrow #columns { layout: vertical; }
    """

    def __init__(self, below: ViewScreen, availability: Mapping[str, str]) -> None:
        super().__init__()
        self._view_below = below
        self._availability = availability
        self._shows_second_page = False
        self._local_actions = _actions_at_focus(below)
        local_keys = {key for action in self._local_actions for key in action.keys.split(",")}
        self._global_actions = [
            action
            for action in ACTIONS
            if action.scope is Scope.APP and not local_keys.issuperset(action.keys.split(","))
        ]

    def compose(self) -> ComposeResult:
        """Yield a title, two columns of keys, the meaning of the view, and a search input."""
        # Textual would check the width after layout, and lay out again.
        self.set_class(self._view_below.has_class("-narrow"), "-narrow")
        with Vertical(id="help"):
            yield Static(id="help-title")
            with VerticalScroll(id="help-body"):
                with Vertical(id="first-page", classes="page"):
                    yield Static(id="about")
                    yield Static(id="essential")
                    yield Static(id="column")
                    yield Static(id="under-cursor")
                    yield Static(id="legend")
                with Vertical(id="second-page", classes="page"):
                    with Horizontal(id="columns"):
                        yield Static(id="here", classes="column")
                        yield Static(id="everywhere", classes="column")
                    yield Static(id="notes")
            yield PlainLine(placeholder="text to find", compact=True)

    def on_mount(self) -> None:
        """Write all pages."""
        self._write("")
        self.query_one("#help-body").focus()

    def action_turn(self) -> None:
        """Show the other page."""
        self._shows_second_page = not self._shows_second_page
        self._write("")
        self.query_one("#help-body").scroll_home(animate=False)

    def _write(self, needle: str) -> None:
        title, other_page = view(self._view_below.VIEW).title, "first page" if self._shows_second_page else "all keys"
        self.query_one("#help-title", Static).update(Content(f"{title}: help    tab {other_page}   / find   esc close"))
        self.query_one("#first-page").display = bool(needle) or not self._shows_second_page
        self.query_one("#second-page").display = bool(needle) or self._shows_second_page
        self.query_one("#essential", Static).update(self._table({"Keys": _keys(self._essential(), needle)}))
        self.query_one("#legend", Static).update(self._legend(needle))
        help_lines = [line for line in self._view_below.HELP.splitlines() if _matches(needle, line)]
        table = self._view_below.table
        under_cursor = [entry for entry in (table.column_help() if table else []) if _matches(needle, *entry)]
        self.query_one("#column", Static).update(self._table({"This column": under_cursor}))
        self.query_one("#about", Static).update(Content("\n".join(help_lines)))
        self.query_one("#about").display = bool(help_lines)
        entries = [entry for entry in self._view_below.help_entries() if _matches(needle, *entry)]
        self.query_one("#under-cursor", Static).update(self._table({"Under the cursor": entries}))
        self.query_one("#under-cursor").display = bool(entries)
        self.query_one("#here", Static).update(self._table({"Here": _keys(self._local_actions, needle)}))
        self.query_one("#everywhere", Static).update(
            self._table({"Everywhere": _keys(self._global_actions, needle), "Views": self._views(needle)})
        )
        columns = table.help_lines() if table is not None else []
        meanings = [entry for entry in columns if _matches(needle, *entry)]
        notes = [("", note) for note in TERMINAL_NOTES if _matches(needle, note)]
        saved_notes = [("", note) for note in SAVED_NOTES if _matches(needle, note)]
        self.query_one("#notes", Static).update(
            self._table({"Columns": meanings, "Saved data": saved_notes, "Terminal": notes})
        )

    def _essential(self) -> list[Action]:
        """Return the keys for the task at hand: those of the view, then those that most tasks need."""
        view_actions = [
            action for action in self._local_actions if action.scope is not Scope.TABLE and action.group != MOVE
        ]
        view_actions.sort(key=lambda action: action.footer or NOT_IN_FOOTER)
        actions_by_id = {action.id: action for action in [*self._local_actions, *self._global_actions]}
        actions = [
            *view_actions[:MAX_VIEW_KEYS],
            *(actions_by_id[name] for name in ESSENTIAL_KEYS if name in actions_by_id),
        ]
        return list(dict.fromkeys(actions))[:MAX_KEYS]

    def _legend(self, needle: str) -> Content:
        """Return the meanings of the colors and symbols of the view."""
        uses = LEGEND if self._view_below.VIEW in VIEWS_OF_USES else ()
        bars = [(kind_style(name).fill * 2, meaning, kind_style(name).color) for name, meaning in uses]
        entries = [
            (plain(sign), meaning, color)
            for sign, meaning, color in self._view_below.legend() or bars
            if _matches(needle, meaning)
        ]
        if not entries:
            return Content("")
        cells = max(cell_width(sign) for sign, _, _ in entries) + 2
        lines = [Content.styled("Legend", "bold underline")]
        lines += [
            Content.assemble((sign, color or "bold"), f"{'':{cells - cell_width(sign)}}{meaning}")
            for sign, meaning, color in entries
        ]
        return Content("\n").join(lines)

    def _table(self, blocks: Mapping[str, Sequence[Entry]]) -> Table:
        """Return headed blocks of two columns, the second one wrapped."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(ratio=1)
        for heading, entries in blocks.items():
            if entries:
                table.add_row()
                table.add_row(Text(heading, "bold underline"))
                for left, right in entries:
                    table.add_row(Text(left), Text(plain(right)))
        return table

    def _views(self, needle: str) -> list[Entry]:
        entries = []
        for target in VIEWS:
            reason = self._availability.get(target.name, "ok")
            text = target.title if reason == "ok" else f"{target.title}: {reason}"
            if target.key and _matches(needle, text):
                entries.append((target.key, text))
        return entries

    def action_leave(self) -> None:
        """Close the search, then the help."""
        line = self.query_one(Input)
        if line.has_class("-open"):
            line.remove_class("-open")
            line.value = ""
            self._write("")
            self.query_one("#help-body").focus()
            return
        self.dismiss(None)

    def action_search(self) -> None:
        """Open the search input."""
        line = self.query_one(Input)
        line.add_class("-open")
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._write(event.value)

    def on_input_submitted(self) -> None:
        """Keep the filter, and scroll again."""
        self.query_one("#help-body").focus()

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines, up if negative."""
        self.query_one("#help-body").scroll_relative(y=lines, animate=False)

    def action_edge(self, top: bool) -> None:
        """Scroll to the top or the bottom."""
        body = self.query_one("#help-body")
        body.scroll_home(animate=False) if top else body.scroll_end(animate=False)


def _actions_at_focus(below: ViewScreen) -> list[Action]:
    """Return the keys that work at the focus of a view, each once; keys that only move come last."""
    scope = {"log": Scope.LOG, "timeline": Scope.TIMELINE}.get(below.VIEW, Scope.TABLE)
    actions = [
        action
        for action in ACTIONS
        if action.scope in (scope, *LOCAL_SCOPES)
        and (action.scope in (Scope.LOG, Scope.TIMELINE) or below.action_target(action.method) is not None)
    ]
    # Keys of this view come before those of every table.
    actions.sort(key=lambda action: (action.scope is Scope.TABLE, action.group == MOVE))
    return below.reachable_actions(actions)


def _matches(needle: str, *texts: str) -> bool:
    return not needle or any(needle.lower() in text.lower() for text in texts)


def _keys(actions: Sequence[Action], needle: str) -> list[Entry]:
    entries = [(action.shown_keys or action.keys.split(",")[0], action.help) for action in actions]
    return [entry for entry in entries if _matches(needle, *entry)]
