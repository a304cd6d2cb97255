"""One event whose JSON is damaged: what profilers are known to get wrong is put right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from tui.loaders.chrome.tally import Odd

_LONGEST_INTEGER: Final = 300
"""Digits; more are no number that anything counts."""


class ExactFloat(float):
    """A number with a fraction, which knows how it was written."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        """Of the text of a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _no_constant(constant: str) -> None:
    """NaN and Infinity, which Python's parser would take."""
    raise ValueError(f"{constant} is no JSON")


STRICT: Final = json.JSONDecoder(parse_float=ExactFloat, parse_int=_integer, parse_constant=_no_constant)
"""Takes what JSON allows."""
TOLERANT: Final = json.JSONDecoder(
    parse_float=ExactFloat, parse_int=_integer, parse_constant=_no_constant, strict=False
)
"""Takes control characters within texts, too."""


def repaired(text: str) -> tuple[dict[str, Any] | None, set[Odd]]:
    """What an event says that is no JSON, and what was wrong with it; None where it cannot be told.

    Raises:
        RecursionError: It is nested too deep.
    """
    keyed = _keys(text)
    if keyed != text and (value := _parsed(keyed)) is not None:
        return value, {Odd.KEY}
    wrong: set[Odd] = set()
    for kind, repair in _REPAIRS:
        better = repair(text)
        if better != text:
            text = better
            wrong.add(kind)
        if (value := _parsed(text)) is not None:
            return value, wrong or {Odd.CONTROL}
    return None, wrong


def _parsed(text: str) -> dict[str, Any] | None:
    """The event that a text is, and nothing else."""
    try:
        value, end = TOLERANT.raw_decode(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and not text[end:].strip(" \t\r\n,") else None


_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NOT_A_NUMBER: Final = re.compile(
    rf"({_STRING})|(?<=[:\[,\s])[-+]?(?:nan(?:\(\w*\))?|inf(?:inity)?|n/a|none|undefined)(?=\s*[,}}\]])",
    re.IGNORECASE | re.DOTALL,
)
_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])|,(?=\s*,)", re.DOTALL)
_KEY: Final = re.compile(rf'({_STRING})|(?<=[{{,])(\s*+)(\w++"\s*+:)', re.DOTALL)
"""A key that lacks its first quotation mark, as those of PyTorch 1.5 do in its arrows."""
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_BARE_QUOTE: Final = re.compile(r'(?<!\\)"')
_OPENS: Final = re.compile(r'[{,:\[]\s*"')
_CLOSES: Final = re.compile(r'"(?=\s*(?:,\s*["{\[\d\-tfnNiI]|[:}\]]|,?\s*$))')
_CLOSES_VALUE: Final = re.compile(r'"(?=\s*+(?:,\s*+"[^"\\]*+"\s*+:|\}|,?\s*+$))')
"""The text is a member of an object, so that another member or a brace must follow."""


def _no_numbers(text: str) -> str:
    return _NOT_A_NUMBER.sub(lambda found: found[1] or "null", text)


def _commas(text: str) -> str:
    return _COMMA.sub(lambda found: found[1] or "", text)


def _keys(text: str) -> str:
    return _KEY.sub(lambda found: found[1] or f'{found[2]}"{found[3]}', text)


def _backslashes(text: str) -> str:
    """Backslashes doubled in the texts where some begin no escape: there, they are all meant as they stand."""
    parts = []
    for is_string, part in _split(text):
        if is_string and any(found[1] is None for found in _ESCAPE.finditer(part)):
            part = re.sub(r'\\\\|\\"|\\', lambda found: found[0] if len(found[0]) > 1 else r"\\", part)
        parts.append(part)
    return "".join(parts)


def _quotes(text: str) -> str:
    """Quotation marks within texts escaped: a text ends where what follows could follow a text."""
    parts = []
    at = 0
    while opens := _OPENS.search(text, at):
        closes = (_CLOSES_VALUE if opens[0][0] == ":" else _CLOSES).search(text, opens.end())
        if closes is None:
            break
        inside = _BARE_QUOTE.sub(lambda _: r"\"", text[opens.end() : closes.start()])
        parts += [text[at : opens.end()], inside]
        at = closes.start()
        parts.append(text[at : at + 1])
        at += 1
    return "".join([*parts, text[at:]])


def _split(text: str) -> Iterator[tuple[bool, str]]:
    at = 0
    for found in re.finditer(_STRING, text, re.DOTALL):
        yield False, text[at : found.start()]
        yield True, found[0]
        at = found.end()
    yield False, text[at:]


_REPAIRS: Final[tuple[tuple[Odd, Callable[[str], str]], ...]] = (
    (Odd.CONTROL, lambda text: text),
    (Odd.NOT_A_NUMBER, _no_numbers),
    (Odd.COMMA, _commas),
    (Odd.BACKSLASH, _backslashes),
    (Odd.QUOTES, _quotes),
)
"""Each is done on top of those before."""
