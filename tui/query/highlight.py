"""Which part of a query is what, for colouring the line that it is typed in."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tui.query.parse import read


class Part(StrEnum):
    """What a part of a query is."""

    WORD = "word"
    PHRASE = "phrase"
    FUZZY = "fuzzy"
    REGEX = "regex"
    COLUMN = "column"
    OPERATOR = "operator"
    VALUE = "value"
    NOT = "not"
    OR = "or"
    PARENTHESIS = "parenthesis"
    ERROR = "error"


_PARTS: Final = {
    "WORD": Part.WORD,
    "QUOTED": Part.PHRASE,
    "REGEX": Part.REGEX,
    "PATTERN": Part.REGEX,
    "COLUMN": Part.COLUMN,
    "QUOTED_COLUMN": Part.COLUMN,
    "OPERATOR": Part.OPERATOR,
    "VALUE": Part.VALUE,
    "QUANTITY": Part.VALUE,
    "_TILDE": Part.OPERATOR,
    "_NOT": Part.NOT,
    "_OR": Part.OR,
    "_OPEN": Part.PARENTHESIS,
    "_CLOSE": Part.PARENTHESIS,
}


def highlight(text: str) -> list[tuple[int, int, Part]]:
    """Start, end and part of each piece of a query, in order.

    Where the text is no query, the last entry is the fault; it may lie over pieces before it. What is understood to
    be a query can still name a column that does not exist: `tui.query.compile.compile_query` knows.

    >>> [(start, end, str(part)) for start, end, part in highlight("dur>1ms (")]
    [(0, 3, 'column'), (3, 4, 'operator'), (4, 7, 'value'), (8, 9, 'parenthesis'), (8, 9, 'error')]
    """
    tokens, _, error = read(text)
    parts: list[tuple[int, int, Part]] = []
    before = ""
    after_column = False
    for token in tokens:
        part = _PARTS[token.type]
        if before == "OPERATOR":
            part = Part.VALUE
        elif before == "_TILDE":
            part = Part.REGEX if after_column else Part.FUZZY
        elif token.type == "_TILDE":
            after_column = before in ("COLUMN", "QUOTED_COLUMN")
            part = Part.OPERATOR if after_column else Part.FUZZY
        start = token.start_pos or 0
        parts.append((start, start + len(token), part))
        before = token.type
    if error is not None:
        parts.append((error.start, error.end, Part.ERROR))
    return parts
