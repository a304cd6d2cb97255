"""Where in the text of a cell a search hit it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.query.errors import QueryError
from tui.query.nodes import Both, Compare, Contains, Either, Node, Operator
from tui.query.parse import parse
from tui.query.texts import smart_case


def hit_pattern(query: str) -> re.Pattern[str] | None:
    """What finds the words of a query in a text, or None where it has no plain words.

    Words that must not occur, numbers and regular expressions are not looked for: the row is highlighted as a whole.

    >>> hit_pattern("gemm | name:conv !relu").findall("Gemm conv relu")
    ['Gemm', 'conv']
    """
    if not query:
        return None
    try:
        words = sorted(set(_words(parse(query))), key=len, reverse=True)
    except QueryError:
        return None
    if not words:
        return None
    # A capital makes its own word exact, and no other.
    return re.compile("|".join(re.escape(word) if smart_case(word) else f"(?i:{re.escape(word)})" for word in words))


def _words(node: Node) -> Iterator[str]:
    match node:
        case Contains(text=text) if text:
            yield text
        case Compare(operator=Operator.CONTAINS | Operator.EQUAL, value=value) if value:
            yield value
        case Both(terms=terms) | Either(terms=terms):
            for term in terms:
                yield from _words(term)
        case _:
            return
