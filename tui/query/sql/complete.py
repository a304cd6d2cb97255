"""What an SQL text could go on with: tables, columns of the tables that it names, key words and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tui.query.sql.tokens import TokenKind, names_in, tokens

if TYPE_CHECKING:
    from tui.query.sql.run import Tables

_WORD: Final = re.compile(r"[^\W\d]\w*$")
_OF_TABLES: Final = frozenset({"from", "join"})
"""Key words that tables follow, with commas between them."""
_OF_OTHERS: Final = frozenset({"select", "where", "on", "using", "group", "order", "having", "limit", "union", "with"})
"""Key words that begin what is no table."""
_KEY_WORDS: Final = tuple(
    re.findall(
        r"\w+",
        "SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT OFFSET JOIN LEFT ON USING AS AND OR NOT IN LIKE ILIKE "
        "BETWEEN IS NULL DESC ASC DISTINCT CASE WHEN THEN ELSE END WITH UNION ALL OVER PARTITION SUM COUNT AVG MIN MAX "
        "MEDIAN STDDEV QUANTILE_CONT ROUND COALESCE UPPER LOWER REGEXP_LIKE STARTS_WITH CAST",
    )
)
_BEGINNINGS: Final = ("SELECT", "WITH", "SHOW TABLES")
"""What a query begins with."""


def completions(text: str, tables: Tables) -> Iterator[str]:
    """What the last word of a text could be, best first.

    Args:
        text: The SQL up to the cursor.
        tables: What it can name.
    """
    word = _WORD.search(text)
    typed = word[0] if word else ""
    before = text[: len(text) - len(typed)]
    lower = typed.lower()
    wants_table = _wants_table(before)
    if not typed and not wants_table:
        return
    if not before.strip():
        yield from (one if typed.isupper() else one.lower() for one in _BEGINNINGS if one.lower().startswith(lower))
        return
    named = names_in(text)
    # A query names its columns before its tables.
    tables_meant = [name for name in tables.names if name in named] or tables.names
    columns = [column for name in tables_meant for column in tables.columns(name)]
    key_words = _KEY_WORDS if typed.isupper() else [one.lower() for one in _KEY_WORDS]
    offered = tables.names if wants_table else (*columns, *key_words, *tables.names)
    seen = set()
    for one in offered:
        if one.lower().startswith(lower) and one.lower() != lower and one not in seen:
            seen.add(one)
            yield one


def _wants_table(before: str) -> bool:
    """Whether a table is named next, by the SQL before it.

    >>> [_wants_table(text) for text in ("select a, ", "select a from b, ", "select a from b where c in (1, ")]
    [False, True, False]
    """
    # Of every open parenthesis, and of what is around them all, the key word that holds.
    last, clauses = "", [""]
    for token in tokens(before):
        last = token.text.lower() if token.kind in (TokenKind.WORD, TokenKind.OTHER) else ""
        if last in _OF_TABLES or last in _OF_OTHERS:
            clauses[-1] = last
        elif last == "(":
            clauses.append("")
        elif last == ")" and len(clauses) > 1:
            clauses.pop()
    return last in _OF_TABLES or (last == "," and clauses[-1] in _OF_TABLES)


def suggestion(text: str, tables: Tables) -> str:
    """What the best completion adds to a text; empty where there is none."""
    typed = _WORD.search(text)
    best = next(completions(text, tables), "")
    return best[len(typed[0]) if typed else 0 :]
