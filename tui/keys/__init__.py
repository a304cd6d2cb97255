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
    "hidden_keys",
    "key_elsewhere",
    "keys_of",
    "keys_of_some_places",
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
    Action(f"view.{one.name}", one.key, f"go('{one.name}')", one.title, f"{one.title}: {one.about}.", Scope.APP, GO)
    for one in DEFAULT_VIEWS
)
"""The actions that open views, which the menu of views shows."""

VIEW_ACTIONS: Final = list(DEFAULT_VIEW_ACTIONS)
"""Actions for views with the active keys."""

FOOTER_KEYS: Final = 6
"""The number of keys in a footer of 80 cells; wider ones show as many as fit."""
KEY_CELLS: Final = 14
"""Cells of a key and its label, if they are not given."""
NARROW: Final = 80
FROM_CELLS: Final = 100
"""From this width on, the footer shows keys that work everywhere."""
FAR: Final = 20
"""Actions with this footer position or a higher one are shown only in a wide footer."""
_LAST: Final = ("compare", "command_line", "reload", "views_menu", "help", "leave")
"""Added to the footer position of actions that work everywhere, so that they come after those of the view."""


def footer_keys(methods: Sequence[str], width: int = 80, cells: Mapping[str, int] | None = None) -> list[str]:
    """Return the methods whose keys the footer shows.

    Views have keys of their own, and what works in every table gives way to them.

    Args:
        methods: Of the keys that work now, those that the footer can show.
        width: Cells of the footer.
        cells: Cells of the key and word of each method.

    >>> footer_keys(["open_row", "find", "filter", "sort_column", "leave", "views_menu", "help"])
    ['open_row', 'find', 'filter', 'sort_column', 'help', 'leave']
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "fold_level", "next_grouping", "leave", "help"])
    ['open_row', 'filter', 'fold_level', 'next_grouping', 'help', 'leave']
    >>> footer_keys(["compare", "leave", "help"]), footer_keys(["compare", "leave", "help"], width=120)
    (['help', 'leave'], ['compare', 'help', 'leave'])
    >>> footer_keys(["open_row", "find", "filter", "sort_column", "export", "mark", "help", "leave"], width=102)
    ['open_row', 'find', 'filter', 'sort_column', 'mark', 'help', 'leave']
    """
    cells = cells or {}
    places: dict[str, int] = {}
    for action in ACTIONS:
        if action.footer:
            places[action.method] = max(action.footer, places.get(action.method, 0))
    fitting = [method for method in methods if width >= FROM_CELLS or places.get(method, 1) < FAR]
    shown: list[str] = []
    room = width
    for method in sorted(fitting, key=lambda method: places.get(method, 1)):
        room -= cells.get(method, KEY_CELLS)
        if len(shown) >= FOOTER_KEYS and (width <= NARROW or room < 0):
            break
        shown.append(method)
    return sorted(
        (method for method in methods if method in shown),
        key=lambda method: _LAST.index(method) if method in _LAST else -1,
    )


def use_keys(chosen: Mapping[str, Sequence[str]]) -> None:
    """Apply the user's keys, before screens and widgets are imported, which create bindings from them.

    Args:
        chosen: As `tui.keys.rebinding.rebound` takes them.

    Raises:
        ValueError: As `tui.keys.rebinding.rebound` does.
    """
    every = rebound((*DEFAULT_ACTIONS, *DEFAULT_VIEW_ACTIONS), chosen)
    ACTIONS[:], VIEW_ACTIONS[:] = every[: len(DEFAULT_ACTIONS)], every[len(DEFAULT_ACTIONS) :]
    use_view_keys(
        {
            view_action.id.removeprefix("view."): (
                (view_action.shown_keys or view_action.keys).split(" ")[0],
                view_action.keys,
            )
            for view_action in VIEW_ACTIONS
        }
    )


def hidden_keys(chosen: Iterable[str]) -> list[str]:
    """Return texts about keys of views and of the program that tables or other widgets handle first.

    Args:
        chosen: The ids of actions whose keys are the user's own.
    """
    ids = set(chosen)
    before = {(other.id, key) for other in (*DEFAULT_ACTIONS, *DEFAULT_VIEW_ACTIONS) for key in other.keys.split(",")}
    own = [
        other
        for other in (*ACTIONS, *VIEW_ACTIONS)
        if other.id in ids and other.scope is Scope.APP and not other.at_once
    ]
    found = []
    for action in own:
        for key in filter(None, action.keys.split(",")):
            if (action.id, key) in before or (action.id.startswith("view.") and key.isdecimal()):
                continue
            nearer = [
                other for other in ACTIONS if other.scope not in (Scope.APP, Scope.BAR) and key in other.keys.split(",")
            ]
            places = ", ".join(f"{other.scope} it is {other.id}" for other in nearer)
            found += [f"{shown_key(key)} is a key of {action.id}, but {places}"] if places else []
    return found


def keys_of(*ids: str) -> frozenset[str]:
    """Return the keys of some actions.

    >>> sorted(keys_of("app.quit", "table.find"))
    ['Q', 'ctrl+q', 'slash']
    """
    return frozenset(key for action in ACTIONS if action.id in ids for key in action.keys.split(",") if key)


def actions_of(scope: Scope) -> tuple[Action, ...]:
    """Return the actions that work in a scope."""
    return tuple(action for action in ACTIONS if action.scope is scope)


def keys_of_some_places() -> list[str]:
    """Return the keys that work only in some views or panes, without keys for moving.

    >>> {"f", "space", "t", "full_stop"} <= set(keys_of_some_places())
    True
    >>> {"q", "m", "j", "home", "tab"} & set(keys_of_some_places())
    set()
    """
    elsewhere = (Scope.APP, Scope.BAR)
    moving = [action for action in ACTIONS if action.group == MOVE and action.scope is Scope.TABLE]
    known = {key for action in (*actions_of(Scope.APP), *moving) for key in action.keys.split(",")}
    found = [key for action in ACTIONS if action.scope not in elsewhere for key in action.keys.split(",")]
    return [key for key in dict.fromkeys(found) if key not in known]


def key_elsewhere(key: str) -> str:
    """Return a text about what a key does elsewhere, since it does nothing here.

    >>> key_elsewhere("f")
    'f does nothing here (in a table: filter). ? lists the keys.'
    >>> key_elsewhere("L")
    'L does nothing here (in a table, in the timeline: source line). ? lists the keys.'
    """
    actions = [action for action in ACTIONS if key in action.keys.split(",") and action.scope is not Scope.BAR]
    names = actions[0].keys.split(",")
    shown = actions[0].shown_keys.split()
    written = shown[names.index(key)] if len(shown) == len(names) else key
    places: dict[str, str] = {}
    for action in actions:
        places[action.label] = f"{places[action.label]}, {action.scope}" if action.label in places else action.scope
    doing = "; ".join(f"{where}: {label}" for label, where in places.items())
    return f"{written} does nothing here ({doing}). ? lists the keys."


def bindings_for(scope: Scope) -> list[BindingType]:
    """Return the Textual bindings of a scope."""
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            action.method,
            action.label,
            show=bool(action.footer),
            priority=action.at_once,
            key_display=(action.shown_keys or action.keys.replace(",", " ")).split(" ")[0],
            tooltip=action.help,
            id=action.id,
        )
        for action in actions_of(scope)
        if action.keys
    ]
