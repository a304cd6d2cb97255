"""Keys of the user's own: a preset, and keys of single actions, in place of those that come with the program."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.keys.action import Action

_NAMES: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Characters whose key name in Textual differs from Unicode's."""
_COMMON_NAMES: Final = {"esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "return": "enter", "del": "delete"}
"""Common names of keys."""
_NAMED: Final = frozenset(
    {
        *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
        *("up", "down", "left", "right", *(f"f{number}" for number in range(1, 25))),
    }
)
_WITH_MODIFIER: Final = re.compile(r"(?:(?:ctrl|shift|alt)\+)+(.+)")

PRESETS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "vim": {
        **{f"{place}.page-down": ("ctrl+f", "pgdn") for place in ("table", "log")},
        **{f"{place}.page-up": ("ctrl+b", "pgup") for place in ("table", "log")},
        "timeline.page-right": ("ctrl+f", "pgdn"),
        "timeline.page-left": ("ctrl+b", "pgup"),
        "app.history-back": ("ctrl+o", "["),
    },
    "plain": {
        **{f"{place}.{way}": (way,) for place in ("table", "log", "timeline") for way in ("down", "up")},
        **{f"{place}.{way}": (way,) for place in ("table", "log", "timeline") for way in ("left", "right")},
        "chart.right": ("right", "down"),
        "chart.left": ("left", "up"),
        "tree.fold": ("-",),
        "tree.unfold": ("+",),
        **{f"{place}.{key}": ("home",) for place, key in (("table", "top"), ("log", "top"), ("timeline", "first"))},
        **{f"{place}.{key}": ("end",) for place, key in (("table", "bottom"), ("log", "bottom"), ("timeline", "last"))},
        "chart.first": ("home",),
        "chart.last": ("end",),
        **{f"{place}.page-down": ("pgdn",) for place in ("table", "log")},
        "timeline.page-right": ("pgdn",),
        **{f"{place}.find": ("ctrl+f", "/") for place in ("table", "log", "timeline")},
        **{f"{place}.next-match": ("f3", "n") for place in ("table", "log")},
        **{f"{place}.previous-match": ("shift+f3", "N") for place in ("table", "log")},
        "app.help": ("f1", "?"),
        "app.reload": ("f5", "r"),
        "app.quit": ("ctrl+q", "Q"),
        "app.back": ("q", "alt+left"),
    },
}
"""``vim`` adds keys of Vim to those that come with the program; ``plain`` moves with the arrows alone, not letters."""


def key_name(written: str) -> str:
    """Return Textual's name of a key.

    Args:
        written: As a person writes it: a character, or a name such as ``pgdn``, ``ctrl+f`` or ``f3``.

    Raises:
        ValueError: It is no key.

    >>> [key_name(key) for key in ("/", "G", "PgDn", "ctrl+f", "slash", "+")]
    ['slash', 'G', 'pagedown', 'ctrl+f', 'slash', 'plus']
    """
    if len(written) == 1 and written.isprintable():
        if written == " ":
            return "space"
        if written.isalnum():
            return written
        name = unicodedata.name(written, "").lower().replace("-", "_").replace(" ", "_")
        return _NAMES.get(name, name)
    lower = _COMMON_NAMES.get(written.lower(), written.lower())
    if lower in _NAMED or lower in _NAMES.values() or _character(lower):
        return lower
    modified = _WITH_MODIFIER.fullmatch(lower)
    if modified and (len(modified[1]) == 1 or modified[1] in _NAMED or modified[1] in _COMMON_NAMES):
        return lower[: modified.start(1)] + _COMMON_NAMES.get(modified[1], modified[1])
    raise ValueError(f"{written}: not a key; examples: o, /, ctrl+f, pgdn, f3")


def shown_key(name: str) -> str:
    """Return the text of a key for users.

    >>> [shown_key(name) for name in ("slash", "G", "pagedown", "ctrl+f")]
    ['/', 'G', 'PgDn', 'ctrl+f']
    """
    words = {"escape": "esc", "pagedown": "PgDn", "pageup": "PgUp", "home": "Home", "end": "End"}
    return words.get(name) or _character(name) or name


def _character(name: str) -> str:
    """Return the character of a key's name; empty if it has none."""
    plain = {of: unicode for unicode, of in _NAMES.items()}.get(name, name)
    for words in (plain.replace("_", " "), plain.replace("_", "-")):
        try:
            found = unicodedata.lookup(words.upper())
        except KeyError:
            continue
        return found if found.isascii() and found.isprintable() and not found.isalnum() and found != " " else ""
    return ""


def rebound(actions: Sequence[Action], chosen: Mapping[str, Sequence[str]]) -> tuple[Action, ...]:
    """Return the actions with other keys; a key that is chosen for one is taken from others of its scope.

    Args:
        actions: As they come with the program.
        chosen: The keys of some by the action's id; an action without keys has none.

    Raises:
        ValueError: An action or a key is unknown, or two of one scope would have the same key.
    """
    by_id = {action.id: action for action in actions}
    taken: dict[tuple[str, str], str] = {}
    keys_of: dict[str, list[str]] = {}
    for name, written in chosen.items():
        if name not in by_id:
            from difflib import get_close_matches

            similar = get_close_matches(name, by_id, n=1)
            raise ValueError(f"{name}: no such action{f'; did you mean {similar[0]}?' if similar else ''}")
        keys_of[name] = []
        for key in dict.fromkeys(_named(key, name) for key in written):
            other = taken.setdefault((by_id[name].scope, key), name)
            if other != name:
                raise ValueError(f"{shown_key(key)} is a key of both {other} and {name}")
            keys_of[name].append(key)
    changed = []
    for action in actions:
        before = action.keys.split(",")
        own = keys_of.get(action.id, [key for key in before if (action.scope, key) not in taken])
        if own != before:
            action = replace(action, keys=",".join(own), shown_keys=" ".join(map(shown_key, own)))
        changed.append(action)
    return tuple(changed)


def preset_keys(preset: str | None, own: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the keys of a preset, overridden by the user's own.

    A key that the user chose is taken from what the preset gave it to in the same scope.

    >>> preset_keys("plain", {"table.sort": ["f3"]})["table.next-match"]
    ('n',)
    """
    if preset is None:
        return dict(own)
    taken = {(name.partition(".")[0], key) for name, keys in own.items() for key in keys}
    kept = {
        name: tuple(key for key in keys if (name.partition(".")[0], key) not in taken)
        for name, keys in PRESETS[preset].items()
    }
    return {**kept, **own}


def _named(key: str, action: str) -> str:
    try:
        return key_name(key)
    except ValueError as error:
        raise ValueError(f"{action}: {error}") from None
