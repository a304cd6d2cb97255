"""The text of a query as tokens: completion while it is typed, and names for its unnamed columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.query.sql.run import SqlTables


class TokenKind(StrEnum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted"
    """A name in double quotes or backticks."""
    TEXT = "text"
    """A text in single quotes, or between two of ``$$`` or ``$word$``."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an SQL text."""

    kind: TokenKind
    text: str
    """The text of the token; of a quoted name, the text within the quotes."""
    start: int
    """The offset in characters."""
    end: int
    """Behind its last character."""


_TOKENS: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*)"""
    r"""|(?P<text>'(?:[^']|'')*(?:'|\Z)|(?P<fence>\$\w*\$).*?(?:(?P=fence)|\Z))"""
    r"""|(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`[^`]*(?:`|\Z))"""
    r"""|(?P<word>[^\W\d][\w$@#]*)"""
    r"""|(?P<other>\d[\w.]*|\S)""",
    re.DOTALL,
)
_COMMENT_ENDS: Final = re.compile(r"/\*|\*/")


def tokens(text: str) -> Iterator[Token]:
    r"""Return the tokens of an SQL text, without white space and comments; comments may be nested.

    >>> [str(token.text) for token in tokens("select 'a -- b' -- a word\nfrom /* /* x */ */ \"x\"")]
    ['select', "'a -- b'", 'from', 'x']
    """
    position = 0
    while match := _TOKENS.search(text, position):
        position = match.end()
        if match["comment"] == "/*":
            position = _comment_end(text, position)
        kind = next((name for name in TokenKind if match[name] is not None), None)
        if kind is not None:
            token_text = match[kind][1:-1] if kind is TokenKind.QUOTED else match[kind]
            yield Token(kind, token_text, match.start(), match.end())


def _comment_end(text: str, position: int) -> int:
    depth = 1
    for match in _COMMENT_ENDS.finditer(text, position):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return len(text)


def names_in(text: str) -> set[str]:
    """Return every name in an SQL text in lower case: tables, columns, functions and keywords."""
    return {token.text.lower() for token in tokens(text) if token.kind in (TokenKind.WORD, TokenKind.QUOTED)}


LONGEST: Final = 60
"""Characters of a name."""
_AFTER_COLUMNS: Final = frozenset(
    {"from", "where", "group", "having", "order", "limit", "offset", "fetch"}
    | {"union", "intersect", "except", "qualify", "window", "into"}
)
_BEFORE_COLUMNS: Final = frozenset({"distinct", "all"})
_COLUMN_LISTS: Final = frozenset({"columns", "exclude", "except", "replace", "rename", "ilike"})
"""Keywords that select several columns, in addition to the star."""
_NO_NAMES: Final = frozenset(
    {"end", "null", "true", "false", "and", "or", "not", "like", "in", "is", "between", "div", "from"}
)
"""Words that cannot be a name, nor precede one."""
_DEEPER: Final = {"(": 1, "[": 1, ")": -1, "]": -1}
_NAME: Final = (TokenKind.WORD, TokenKind.QUOTED)


def with_names(text: str) -> str:
    """Return the query with a name for each unnamed column of its outermost SELECT.

    >>> with_names("select name, total_ns/1000, COUNT(*) from kernels")
    'select name, total_ns/1000 AS "total_ns/1000", COUNT(*) AS "COUNT(*)" from kernels'
    """
    texts, copied_to = [], 0
    for item in _columns(text):
        if _has_no_name(item):
            first, last = item[0].start, item[-1].end
            column_text = " ".join(text[first:last].replace('"', "").split())
            name = column_text if len(column_text) <= LONGEST else f"{column_text[: LONGEST - 3]}..."
            texts += [text[copied_to:last], f' AS "{name}"']
            copied_to = last
    return "".join([*texts, text[copied_to:]])


def _columns(text: str) -> Iterator[list[Token]]:
    """Return the tokens of each column of the outermost SELECT, also below UNION."""
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
        elif is_inside and (token.text in (",", ";") or (word in _AFTER_COLUMNS and not _is_distinct_from(item, word))):
            yield item
            item, is_inside = [], token.text == ","
        elif is_inside and (item or word not in _BEFORE_COLUMNS):
            item.append(token)
    if is_inside:
        yield item


def _is_distinct_from(item: list[Token], word: str) -> bool:
    """Return whether a word after some tokens of a column is the end of ``IS DISTINCT FROM``."""
    return word == "from" and len(item) > 1 and item[-1].text.lower() == "distinct"


def _has_no_name(item: list[Token]) -> bool:
    if not item:
        return False
    outer = list(_outer(item))
    words = {token.text.lower() for token in outer if token.kind is TokenKind.WORD}
    if "as" in words or words & _COLUMN_LISTS or item[0].text == "*":
        return False
    is_column = all(item_token.kind in _NAME for item_token in item[::2]) and all(
        item_token.text == "." for item_token in item[1::2]
    )
    if is_column or item[-1].text == "*":
        return False
    previous, last = item[-2] if len(item) > 1 else None, item[-1]
    if previous is None or last.kind not in _NAME or (last.kind is TokenKind.WORD and last.text.lower() in _NO_NAMES):
        return True
    # A name without AS: it follows a value.
    is_value = previous.kind is not TokenKind.OTHER or previous.text in (")", "]") or previous.text[:1].isdecimal()
    return not is_value or (previous.kind is TokenKind.WORD and previous.text.lower() in _NO_NAMES - {"end", "null"})


def _outer(item: list[Token]) -> Iterator[Token]:
    """Return the tokens outside of parentheses."""
    depth = 0
    for token in item:
        step = _DEEPER.get(token.text, 0) if token.kind is TokenKind.OTHER else 0
        depth += step
        if not depth and not step:
            yield token


_LAST_WORD: Final = re.compile(r"[^\W\d]\w*$")
_TABLE_KEYWORDS: Final = frozenset({"from", "join"})
"""Key words that tables follow, with commas between them."""
_OTHER_KEYWORDS: Final = frozenset(
    {"select", "where", "on", "using", "group", "order", "having", "limit", "union", "with"}
)
"""Key words that begin what is no table."""
_KEYWORDS: Final = tuple(
    re.findall(
        r"\w+",
        "SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT OFFSET JOIN LEFT ON USING AS AND OR NOT IN LIKE ILIKE "
        "BETWEEN IS NULL DESC ASC DISTINCT CASE WHEN THEN ELSE END WITH UNION ALL OVER PARTITION SUM COUNT AVG MIN MAX "
        "MEDIAN STDDEV QUANTILE_CONT ROUND COALESCE UPPER LOWER REGEXP_LIKE STARTS_WITH CAST",
    )
)
_BEGINNINGS: Final = ("SELECT", "WITH", "SHOW TABLES")
"""What a query begins with."""


def completions(text: str, tables: SqlTables) -> Iterator[str]:
    """Return completions of the last word of a text, best first.

    Args:
        text: The SQL up to the cursor.
        tables: The tables that it can name.
    """
    typed_word = _LAST_WORD.search(text)
    typed = typed_word[0] if typed_word else ""
    preceding = text[: len(text) - len(typed)]
    lower = typed.lower()
    wants_table = _wants_table(preceding)
    if not typed and not wants_table:
        return
    if not preceding.strip():
        yield from (
            keyword if typed.isupper() else keyword.lower()
            for keyword in _BEGINNINGS
            if keyword.lower().startswith(lower)
        )
        return
    named = names_in(text)
    # A query names its columns before its tables.
    named_tables = [name for name in tables.names if name in named] or tables.names
    columns = [column for name in named_tables for column in tables.columns(name)]
    keywords = _KEYWORDS if typed.isupper() else [keyword.lower() for keyword in _KEYWORDS]
    offered = tables.names if wants_table else (*columns, *keywords, *tables.names)
    if lower in map(str.lower, _KEYWORDS) and not wants_table:
        return  # the word is complete: enter after `desc` must not complete it to `description`
    yielded = set()
    for keyword in offered:
        if keyword.lower().startswith(lower) and keyword.lower() != lower and keyword not in yielded:
            yielded.add(keyword)
            yield keyword


def _wants_table(preceding: str) -> bool:
    """Return whether a table name comes next, by the SQL before it.

    >>> [_wants_table(text) for text in ("select a, ", "select a from b, ", "select a from b where c in (1, ")]
    [False, True, False]
    """
    # The keyword in effect for every open parenthesis, and outside of them.
    last, clauses = "", [""]
    for token in tokens(preceding):
        last = token.text.lower() if token.kind in (TokenKind.WORD, TokenKind.OTHER) else ""
        if last in _TABLE_KEYWORDS or last in _OTHER_KEYWORDS:
            clauses[-1] = last
        elif last == "(":
            clauses.append("")
        elif last == ")" and len(clauses) > 1:
            clauses.pop()
    return last in _TABLE_KEYWORDS or (last == "," and clauses[-1] in _TABLE_KEYWORDS)


def suggestion(text: str, tables: SqlTables) -> str:
    """Return the text that the best completion appends; empty if there is none."""
    typed = _LAST_WORD.search(text)
    best = next(completions(text, tables), "")
    return best[len(typed[0]) if typed else 0 :]
