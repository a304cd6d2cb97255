"""Every key of the program, in one table.

Bindings, footer, help, command palette, ``:`` commands and the README's key table are all made from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.keys.action import GO, MOVE, Action, Scope
from tui.keys.rebinding import rebound, shown_key
from tui.keys.table_keys import TABLES
from tui.keys.timeline_keys import ITERATIONS, TIMELINE
from tui.keys.view_keys import EVERYWHERE, LOG, VIEWS
from tui.views import DEFAULT_VIEWS, use_view_keys

__all__ = [
    "ACTIONS",
    "DEFAULT_ACTIONS",
    "DEFAULT_VIEW_ACTIONS",
    "VIEW_ACTIONS",
    "Action",
    "Scope",
    "actions_of",
    "bindings_for",
    "footer_keys",
    "keys_of",
    "local_keys",
    "shadowed_key_warnings",
    "unused_key_message",
    "use_keys",
]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.binding import BindingType

DEFAULT_ACTIONS: Final = (*TABLES, *EVERYWHERE, *LOG, *TIMELINE, *ITERATIONS, *VIEWS)
"""Actions with their default keys."""

ACTIONS: Final = list(DEFAULT_ACTIONS)
"""Actions with the active keys."""

DEFAULT_VIEW_ACTIONS: Final = tuple(
    Action(
        f"view.{view.name}",
        view.key,
        f"go('{view.name}')",
        view.title,
        f"{view.title}: {view.description}.",
        Scope.APP,
        GO,
    )
    for view in DEFAULT_VIEWS
)
"""The actions that open views, which the menu of views shows."""

VIEW_ACTIONS: Final = list(DEFAULT_VIEW_ACTIONS)
"""Actions for views with the active keys."""

FOOTER_KEYS: Final = 6
"""The number of keys in a footer of 80 cells; wider ones show as many as fit."""
KEY_CELLS: Final = 13
"""Cells of a key and its label with the blanks after it, if they are not given."""
BLANKS_AFTER_KEY: Final = 2
"""The last key needs no room for these."""
NARROW_CELLS: Final = 80
MIN_CELLS_FOR_GLOBAL_KEYS: Final = 100
"""From this width on, the footer shows keys that work everywhere."""
MIN_WIDE_POSITION: Final = 20
"""Actions with this footer position or a higher one are shown only in a wide footer."""
_LAST_METHODS: Final = ("compare", "command_line", "reload", "views_menu", "help", "leave")
"""Actions whose keys come last in the footer, in this order."""


def footer_keys(methods: Sequence[str], width: int = 80, cells: Mapping[str, int] | None = None) -> list[str]:
    """Return the methods whose keys the footer shows: those that fit into the width.

    Keys of the view come first, before keys that work in every table. There is always room for help and the way back.

    Args:
        methods: The methods of keys that work now and that the footer can show.
        width: Cells of the footer.
        cells: Cells of the key and label of each method, with the blanks after it.

    >>> footer_keys(["open_row", "find", "filter", "sort_column", "leave", "views_menu", "help"])
    ['open_row', 'find', 'filter', 'sort_column', 'help', 'leave']
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "fold_level", "next_grouping", "leave", "help"])
    ['open_row', 'filter', 'fold_level', 'next_grouping', 'help', 'leave']
    >>> footer_keys(["compare", "leave", "help"]), footer_keys(["compare", "leave", "help"], width=120)
    (['help', 'leave'], ['compare', 'help', 'leave'])
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "export", "mark", "help", "leave"], width=100)
    ['open_row', 'find', 'filter', 'sort_column', 'mark', 'help', 'leave']
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "help", "leave"], width=60)
    ['open_row', 'filter', 'help', 'leave']
    """
    cells = cells or {}
    positions: dict[str, int] = {}
    for action in ACTIONS:
        if action.footer:
            positions[action.method] = max(action.footer, positions.get(action.method, 0))
    fitting = [
        method
        for method in methods
        if width >= MIN_CELLS_FOR_GLOBAL_KEYS or positions.get(method, 1) < MIN_WIDE_POSITION
    ]
    shown: list[str] = []
    free_cells = width + BLANKS_AFTER_KEY
    for method in sorted(fitting, key=lambda method: (method not in ("help", "leave"), positions.get(method, 1))):
        free_cells -= cells.get(method, KEY_CELLS)
        if free_cells < 0 or (len(shown) >= FOOTER_KEYS and width <= NARROW_CELLS):
            break
        shown.append(method)
    return sorted(
        (method for method in methods if method in shown),
        key=lambda method: _LAST_METHODS.index(method) if method in _LAST_METHODS else -1,
    )


def use_keys(chosen: Mapping[str, Sequence[str]]) -> None:
    """Apply the user's keys, before screens and widgets are imported, which create bindings from them.

    Args:
        chosen: As `tui.keys.rebinding.rebound` takes them.

    Raises:
        ValueError: As `tui.keys.rebinding.rebound` does.
    """
    actions = rebound((*DEFAULT_ACTIONS, *DEFAULT_VIEW_ACTIONS), chosen)
    ACTIONS[:], VIEW_ACTIONS[:] = actions[: len(DEFAULT_ACTIONS)], actions[len(DEFAULT_ACTIONS) :]
    use_view_keys(
        {
            view_action.id.removeprefix("view."): (
                (view_action.shown_keys or view_action.keys).split(" ")[0],
                view_action.keys,
            )
            for view_action in VIEW_ACTIONS
        }
    )


def shadowed_key_warnings(chosen: Iterable[str]) -> list[str]:
    """Return texts about keys of views and of the program that tables or other widgets handle first.

    Args:
        chosen: The ids of actions whose keys are the user's own.
    """
    ids = set(chosen)
    default_keys = {
        (other.id, key) for other in (*DEFAULT_ACTIONS, *DEFAULT_VIEW_ACTIONS) for key in other.keys.split(",")
    }
    chosen_actions = [
        other
        for other in (*ACTIONS, *VIEW_ACTIONS)
        if other.id in ids and other.scope is Scope.APP and not other.has_priority
    ]
    messages = []
    for action in chosen_actions:
        for key in filter(None, action.keys.split(",")):
            if (action.id, key) in default_keys or (action.id.startswith("view.") and key.isdecimal()):
                continue
            shadowing = [
                other for other in ACTIONS if other.scope not in (Scope.APP, Scope.BAR) and key in other.keys.split(",")
            ]
            uses = ", ".join(f"{other.scope} it is {other.id}" for other in shadowing)
            messages += [f"{shown_key(key)} is a key of {action.id}, but {uses}"] if uses else []
    return messages


def keys_of(*ids: str) -> frozenset[str]:
    """Return the keys of some actions.

    >>> sorted(keys_of("app.quit", "table.find"))
    ['Q', 'ctrl+q', 'slash']
    """
    return frozenset(key for action in ACTIONS if action.id in ids for key in action.keys.split(",") if key)


def actions_of(scope: Scope) -> tuple[Action, ...]:
    """Return the actions that work in a scope."""
    return tuple(action for action in ACTIONS if action.scope is scope)


def local_keys() -> list[str]:
    """Return the keys that work only in some views or panes, without keys for moving.

    >>> {"f", "space", "t", "full_stop"} <= set(local_keys())
    True
    >>> {"q", "m", "j", "home", "tab"} & set(local_keys())
    set()
    """
    elsewhere = (Scope.APP, Scope.BAR)
    moving = [action for action in ACTIONS if action.group == MOVE and action.scope is Scope.TABLE]
    global_keys = {key for action in (*actions_of(Scope.APP), *moving) for key in action.keys.split(",")}
    keys = [key for action in ACTIONS if action.scope not in elsewhere for key in action.keys.split(",")]
    return [key for key in dict.fromkeys(keys) if key not in global_keys]


def unused_key_message(key: str) -> str:
    """Return a text about what a key does elsewhere, since it does nothing here.

    >>> unused_key_message("f")
    'f does nothing here (in a table: filter). ? lists the keys.'
    >>> unused_key_message("L")
    'L does nothing here (in a table, in the timeline: source line). ? lists the keys.'
    """
    actions = [action for action in ACTIONS if key in action.keys.split(",") and action.scope is not Scope.BAR]
    names = actions[0].keys.split(",")
    shown = actions[0].shown_keys.split()
    key_text = shown[names.index(key)] if len(shown) == len(names) else key
    scopes_by_label: dict[str, str] = {}
    for action in actions:
        scopes_by_label[action.label] = (
            f"{scopes_by_label[action.label]}, {action.scope}" if action.label in scopes_by_label else action.scope
        )
    effects = "; ".join(f"{scopes}: {label}" for label, scopes in scopes_by_label.items())
    return f"{key_text} does nothing here ({effects}). ? lists the keys."


def bindings_for(scope: Scope) -> list[BindingType]:
    """Return the Textual bindings of a scope."""
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            action.method,
            action.label,
            show=bool(action.footer),
            priority=action.has_priority,
            key_display=(action.shown_keys or action.keys.replace(",", " ")).split(" ")[0],
            tooltip=action.help,
            id=action.id,
        )
        for action in actions_of(scope)
        if action.keys
    ]
