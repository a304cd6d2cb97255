"""Names for the columns of a query that it does not name itself: what they are, as it is written.

Polars calls them as the first column in them: ``total_ns / 1000`` and ``COUNT(total_ns)`` both ``total_ns``, which
would then be shown with a unit that they have not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tui.query.sql.tokens import Token, TokenKind, tokens

LONGEST: Final = 60
"""Characters of a name."""
_AFTER_COLUMNS: Final = frozenset(
    {"from", "where", "group", "having", "order", "limit", "offset", "fetch"}
    | {"union", "intersect", "except", "qualify", "window", "into"}
)
_BEFORE_COLUMNS: Final = frozenset({"distinct", "all"})
_SEVERAL: Final = frozenset({"columns", "exclude", "except", "replace", "rename", "ilike"})
"""Words of what stands for several columns, beside the star."""
_NO_NAMES: Final = frozenset({"end", "null", "true", "false", "and", "or", "not", "like", "in", "is", "between", "div"})
"""Words that a name cannot be, nor stand before one."""
_DEEPER: Final = {"(": 1, "[": 1, ")": -1, "]": -1}
_NAME: Final = (TokenKind.WORD, TokenKind.QUOTED)


def with_names(text: str) -> str:
    """The query with a name for each column of its outermost SELECT that has none.

    >>> with_names("select name, total_ns/1000, COUNT(*) from kernels")
    'select name, total_ns/1000 AS "total_ns/1000", COUNT(*) AS "COUNT(*)" from kernels'
    """
    pieces, done = [], 0
    for item in _columns(text):
        if _has_no_name(item):
            first, last = item[0].start, item[-1].end
            words = " ".join(text[first:last].replace('"', "").split())
            name = words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
            pieces += [text[done:last], f' AS "{name}"']
            done = last
    return "".join([*pieces, text[done:]])


def _columns(text: str) -> Iterator[list[Token]]:
    """The pieces of each column of the outermost SELECT, and of those that UNION puts below it."""
    depth, item, is_inside = 0, list[Token](), False
    for token in tokens(text):
        word = token.text.lower() if token.kind is TokenKind.WORD else ""
        if token.kind is TokenKind.OTHER:
            depth += _DEEPER.get(token.text, 0)
        if depth or _DEEPER.get(token.text, 0) < 0:
            if is_inside:
                item.append(token)
        elif word == "select":
            is_inside, item = True, []
        elif is_inside and (token.text in (",", ";") or word in _AFTER_COLUMNS):
            yield item
            item, is_inside = [], token.text == ","
        elif is_inside and (item or word not in _BEFORE_COLUMNS):
            item.append(token)
    if is_inside:
        yield item


def _has_no_name(item: list[Token]) -> bool:
    if not item:
        return False
    outer = list(_outer(item))
    words = {token.text.lower() for token in outer if token.kind is TokenKind.WORD}
    if "as" in words or words & _SEVERAL or item[0].text == "*":
        return False
    is_column = all(one.kind in _NAME for one in item[::2]) and all(one.text == "." for one in item[1::2])
    if is_column or item[-1].text == "*":
        return False
    before, last = item[-2] if len(item) > 1 else None, item[-1]
    if before is None or last.kind not in _NAME or (last.kind is TokenKind.WORD and last.text.lower() in _NO_NAMES):
        return True
    # A name without AS: it follows a value.
    is_value = before.kind is not TokenKind.OTHER or before.text in (")", "]") or before.text[:1].isdecimal()
    return not is_value or (before.kind is TokenKind.WORD and before.text.lower() in _NO_NAMES - {"end", "null"})


def _outer(item: list[Token]) -> Iterator[Token]:
    """What stands in no parenthesis."""
    depth = 0
    for token in item:
        step = _DEEPER.get(token.text, 0) if token.kind is TokenKind.OTHER else 0
        depth += step
        if not depth and not step:
            yield token
