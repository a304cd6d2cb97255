"""The user's keys: a preset, and keys of single actions, instead of the default keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.keys.action import Action

_TEXTUAL_NAMES: Final = {
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
_KEY_NAMES: Final = frozenset(
    {
        *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
        *("up", "down", "left", "right", *(f"f{number}" for number in range(1, 25))),
    }
)
_CHARACTER_KEYS: Final = frozenset({"enter", "escape", "tab", "space", "backspace"})
"""Keys for which terminals send a character: with alt, they send escape before it."""
_WITH_MODIFIER: Final = re.compile(r"(?:(?:ctrl|shift|alt)\+)+(.+)")

PRESETS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "vim": {
        **{f"{scope}.page-down": ("ctrl+f", "pgdn") for scope in ("table", "log")},
        **{f"{scope}.page-up": ("ctrl+b", "pgup") for scope in ("table", "log")},
        "timeline.page-right": ("ctrl+f", "pgdn"),
        "timeline.page-left": ("ctrl+b", "pgup"),
        "app.history-back": ("ctrl+o", "["),
    },
    "plain": {
        **{
            f"{scope}.{direction}": (direction,)
            for scope in ("table", "log", "timeline")
            for direction in ("down", "up")
        },
        **{
            f"{scope}.{direction}": (direction,)
            for scope in ("table", "log", "timeline")
            for direction in ("left", "right")
        },
        "chart.right": ("right", "down"),
        "chart.left": ("left", "up"),
        "tree.fold": ("-",),
        "tree.unfold": ("+",),
        **{f"{scope}.{key}": ("home",) for scope, key in (("table", "top"), ("log", "top"), ("timeline", "first"))},
        **{f"{scope}.{key}": ("end",) for scope, key in (("table", "bottom"), ("log", "bottom"), ("timeline", "last"))},
        "chart.first": ("home",),
        "chart.last": ("end",),
        **{f"{scope}.page-down": ("pgdn",) for scope in ("table", "log")},
        "timeline.page-right": ("pgdn",),
        **{f"{scope}.find": ("ctrl+f", "/") for scope in ("table", "log", "timeline")},
        **{f"{scope}.next-match": ("f3", "n") for scope in ("table", "log")},
        **{f"{scope}.previous-match": ("shift+f3", "N") for scope in ("table", "log")},
        "app.help": ("f1", "?"),
        "app.reload": ("f5", "r"),
        "app.quit": ("ctrl+q", "Q"),
        "app.back": ("q", "alt+left"),
    },
}
"""``vim`` adds keys of Vim to the default keys; ``plain`` moves with the arrow keys instead of letters."""


def key_name(text: str) -> str:
    """Return Textual's name of a key.

    Args:
        text: The key as users write it: a character, or a name such as ``pgdn``, ``ctrl+f`` or ``f3``.

    Raises:
        ValueError: It is no key.

    >>> [key_name(key) for key in ("/", "G", "PgDn", "ctrl+f", "slash", "+")]
    ['slash', 'G', 'pagedown', 'ctrl+f', 'slash', 'plus']
    """
    if len(text) == 1 and text.isprintable():
        if text == " ":
            return "space"
        if text.isalnum():
            return text
        name = unicodedata.name(text, "").lower().replace("-", "_").replace(" ", "_")
        return _TEXTUAL_NAMES.get(name, name)
    lower = _COMMON_NAMES.get(text.lower(), text.lower())
    if lower in _KEY_NAMES or lower in _TEXTUAL_NAMES.values() or _character(lower):
        return lower
    modified = _WITH_MODIFIER.fullmatch(lower)
    if modified and (len(modified[1]) == 1 or modified[1] in _KEY_NAMES or modified[1] in _COMMON_NAMES):
        modifiers, key = lower[: modified.start(1)], _COMMON_NAMES.get(modified[1], modified[1])
        if "alt+" in modifiers and (len(key) == 1 or key in _CHARACTER_KEYS):
            sent_text = f"{modifiers.replace('alt+', '')}{key}"
            raise ValueError(f"{text}: terminals send esc and {sent_text}, which are two keys here")
        return modifiers + key
    raise ValueError(f"{text}: not a key; examples: o, /, ctrl+f, pgdn, f3")


def shown_key(name: str) -> str:
    """Return the text of a key for users.

    >>> [shown_key(name) for name in ("slash", "G", "pagedown", "ctrl+f")]
    ['/', 'G', 'PgDn', 'ctrl+f']
    """
    words = {"escape": "esc", "pagedown": "PgDn", "pageup": "PgUp", "home": "Home", "end": "End"}
    return words.get(name) or _character(name) or name


def _character(name: str) -> str:
    """Return the character of a key's name; empty if it has none."""
    unicode_words = {textual_name: unicode_name for unicode_name, textual_name in _TEXTUAL_NAMES.items()}.get(
        name, name
    )
    for candidate in (unicode_words.replace("_", " "), unicode_words.replace("_", "-")):
        try:
            character = unicodedata.lookup(candidate.upper())
        except KeyError:
            continue
        return (
            character
            if character.isascii() and character.isprintable() and not character.isalnum() and character != " "
            else ""
        )
    return ""


def rebound(actions: Sequence[Action], chosen: Mapping[str, Sequence[str]]) -> tuple[Action, ...]:
    """Return the actions with the user's keys; a key chosen for an action is removed from others of its scope.

    Args:
        actions: The actions with their default keys.
        chosen: The user's keys by the id of the action; no keys unbind the action.

    Raises:
        ValueError: An action or a key is unknown, or two of one scope would have the same key.
    """
    actions_by_id = {action.id: action for action in actions}
    owners: dict[tuple[str, str], str] = {}
    chosen_keys: dict[str, list[str]] = {}
    for name, key_texts in chosen.items():
        if name not in actions_by_id:
            from difflib import get_close_matches

            similar = get_close_matches(name, actions_by_id, n=1)
            raise ValueError(f"{name}: no such action{f'; did you mean {similar[0]}?' if similar else ''}")
        chosen_keys[name] = []
        for key in dict.fromkeys(_valid_key(key, name) for key in key_texts):
            owner = owners.setdefault((actions_by_id[name].scope, key), name)
            if owner != name:
                raise ValueError(f"{shown_key(key)} is a key of both {owner} and {name}")
            chosen_keys[name].append(key)
    changed = []
    for action in actions:
        default_keys = action.keys.split(",")
        keys = chosen_keys.get(action.id, [key for key in default_keys if (action.scope, key) not in owners])
        if keys != default_keys:
            action = replace(action, keys=",".join(keys), shown_keys=" ".join(map(shown_key, keys)))
        changed.append(action)
    return tuple(changed)


def preset_keys(preset: str | None, user_keys: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the keys of a preset, overridden by the user's keys.

    A key that the user chose is removed from other actions of the preset in the same scope.

    >>> preset_keys("plain", {"table.sort": ["f3"]})["table.next-match"]
    ('n',)
    """
    if preset is None:
        return dict(user_keys)
    taken = {(name.partition(".")[0], key) for name, keys in user_keys.items() for key in keys}
    remaining = {
        name: tuple(key for key in keys if (name.partition(".")[0], key) not in taken)
        for name, keys in PRESETS[preset].items()
    }
    return {**remaining, **user_keys}


def _valid_key(key: str, action: str) -> str:
    try:
        return key_name(key)
    except ValueError as error:
        raise ValueError(f"{action}: {error}") from None
