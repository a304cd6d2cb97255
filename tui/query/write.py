"""Text of a query, from its syntax tree or from a table cell."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, Final

from tui.query.nodes import Both, Compare, Contains, Either, Everything, Fuzzy, Node, Not, Regex
from tui.query.parse import parse
from tui.query.values import BASE_UNIT, UNITS

if TYPE_CHECKING:
    from tui.model.columns import ColumnKind

_UNITS: Final = frozenset(unit for units in UNITS.values() for unit in units)
_PLAIN: Final = re.compile(r"[\w.%+*,\[\]{}@#$-]+")
"""Words that need no quotes, unless they are a unit. More would do without, but nobody should have to know which."""

_PLAIN_COLUMN: Final = re.compile(r"[^\W\d][\w.%]*")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSEEN: Final = ("Cc", "Cf", "Zl", "Zp")
"""Classes of characters that a line of text does not show: they are written as numbers."""


def write(node: Node) -> str:
    """The text of a tree: parsing it gives the tree back.

    >>> write(parse("(gemm|conv)  dur > 1ms  ! stream = 7"))
    '(gemm | conv) dur>1ms !stream=7'
    """
    match node:
        case Everything():
            return ""
        case Contains():
            return plain_or_quoted(node.text)
        case Fuzzy():
            return f"~{plain_or_quoted(node.text)}"
        case Regex():
            pattern = re.sub(r"(?s)(\\.)|/", lambda found: found[1] or "\\/", node.pattern)
            return f"{_column(node.column)}~/{pattern}/" if node.column else f"/{pattern}/"
        case Compare():
            value = quoted(node.value) if node.quoted else node.value
            # Without the blank, the value would lengthen the operator.
            blank = " " if value[:1] in ("=", ":") else ""
            return f"{_column(node.column)}{node.operator}{blank}{value}"
        case Not():
            return f"!{_grouped(node.term, (Both, Either))}"
        case Both():
            return " ".join(_grouped(term, (Both, Either)) for term in node.terms)
        case Either():
            return " | ".join(_grouped(term, (Either,)) for term in node.terms)


def quoted(text: str) -> str:
    r"""Text in quotes, on one line, that is read back as it is.

    >>> print(quoted('a "b"\n'))
    "a \"b\"\n"
    """
    return f'"{"".join(_escaped(character) for character in text)}"'


def equals_filter(column: str, value: object, kind: ColumnKind) -> str:
    """A query that matches exactly the rows in which a column has this value.

    Args:
        column: Its name in the frame.
        value: Of the cell, in base units; None or NaN is unknown.
        kind: What the column holds.

    With ``!`` before it, it matches all other rows.

    >>> from tui.model.columns import ColumnKind
    >>> equals_filter("duration_ns", 1_500, ColumnKind.DURATION), equals_filter("name", "f<1>", ColumnKind.SYMBOL)
    ('duration_ns=1500ns', 'name="f<1>"')
    """
    return f"{_column(column)}={_exact(value, kind)}"


def narrowed(text: str, term: str) -> str:
    """A query for the rows of another one that match a term, too.

    Raises:
        QueryError: The text is not a query.

    >>> narrowed("gemm | conv", "stream=7")
    '(gemm | conv) stream=7'
    """
    node = parse(text)
    if isinstance(node, Everything):
        return term
    return f"({text.strip()}) {term}" if isinstance(node, Either) else f"{text.strip()} {term}"


def plain_or_quoted(text: str) -> str:
    """Text as a value of a query: in quotes only where it needs them."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _UNITS else quoted(text)


def _exact(value: object, kind: ColumnKind) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value!r}{BASE_UNIT.get(kind, '')}"
    return quoted(str(value))


def _column(name: str) -> str:
    return name if _PLAIN_COLUMN.fullmatch(name) else quoted(name)


def _grouped(node: Node, grouped: tuple[type, ...]) -> str:
    return f"({write(node)})" if isinstance(node, grouped) else write(node)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\u{{{ord(character):x}}}" if unicodedata.category(character) in _UNSEEN else character
