"""Queries as text: the parser, with errors that name the position, and the text of a tree."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

from tui.query.values import (
    BASE_UNIT,
    UNITS,
    And,
    Compare,
    Contains,
    Fuzzy,
    MatchAll,
    Node,
    Not,
    Operator,
    Or,
    QueryError,
    Regex,
    Span,
)

if TYPE_CHECKING:
    from tui.model.columns import ColumnKind

MAX_LENGTH: Final = 1_000_000
"""The most characters: a kernel name in a filter can have some 100,000."""

MAX_TOKENS: Final = 4_000
MAX_DEPTH: Final = 50
"""The most nested parentheses and ``!``."""

_HALF: Final = re.compile("[\ud800-\udfff]")
"""What is left of a pasted character that was not UTF-8; no name of a profile holds it."""

_ESCAPE: Final = re.compile(r'\\(["\\nrt]|u\{[0-9a-fA-F]{1,6}\})')
_ESCAPED: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def parse(text: str) -> Node:
    """Parse a query into a tree.

    Raises:
        QueryError: The text is not a query, or is too long or too deep to be one.

    >>> parse("gemm !stream=7")
    And(terms=(Contains(text='gemm', span=(0, 4)), Not(term=Compare(column='stream', operator=<Operator.EQUAL: '='>, \
value='7', quoted=False, span=(13, 14), column_span=(6, 12)))))
    """
    _, node, error = parse_tolerant(text)
    if error is not None:
        raise error
    return node


def parse_tolerant(text: str) -> tuple[list[Token], Node, QueryError | None]:
    """Return the tokens of the valid part, the tree, and the error if any.

    The tree is `MatchAll` if there is an error.
    """
    if len(text) > MAX_LENGTH:
        message = f"the query has {len(text):,} characters; the limit is {MAX_LENGTH:,}"
        return [], MatchAll(), QueryError(message, MAX_LENGTH, len(text))
    half = _HALF.search(text)
    if half:
        return [], MatchAll(), QueryError("incomplete character", half.start(), half.end())
    tokens: list[Token] = []
    depth = _Depth()
    parser = make_parser().parse_interactive(text)
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):  # type: ignore[no-untyped-call]
            parser.feed_token(token)
            tokens.append(token)
            depth.add(token)
            if len(tokens) > MAX_TOKENS:
                start, end = _span(token)
                raise QueryError("the query has too many terms", start, end)
        # The end is right after the last token.
        node: Node = parser.feed_eof(tokens[-1] if tokens else None)  # type: ignore[no-untyped-call]
    except QueryError as error:
        return tokens, MatchAll(), error
    except UnexpectedInput as error:
        return tokens, MatchAll(), _error_message(error, text, tokens)
    return tokens, node, None


def unquote(quoted: str) -> str:
    r"""Return the text of a quoted lexeme. A backslash before any other character is a backslash.

    >>> unquote('"a \\"b\\" \\\\d"')
    'a "b" \\d'
    """
    return _ESCAPE.sub(_unescape, quoted[1:-1])


def plain_pattern(pattern: str) -> str:
    r"""Return a pattern with unescaped slashes.

    >>> plain_pattern(r"a\/b\\/")
    'a/b\\\\/'
    """
    return re.sub(r"(?s)\\(.)", lambda pair: "/" if pair[1] == "/" else pair[0], pattern)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _ESCAPED:
        return _ESCAPED[code]
    number = int(code[2:-1], 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else match[0]


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return start, token.end_pos if token.end_pos is not None else start + len(token)


class _Depth:
    """The nesting depth of the next term."""

    def __init__(self) -> None:
        self._groups: list[int] = []
        self._depth = 0
        self._nots = 0

    def add(self, token: Token) -> None:
        if token.type == "_NOT":
            self._nots += 1
        elif token.type == "_OPEN":
            self._groups.append(self._nots + 1)
            self._depth += self._nots + 1
            self._nots = 0
        else:
            if token.type == "_CLOSE":
                self._depth -= self._groups.pop()
            self._nots = 0
        if self._depth + self._nots > MAX_DEPTH:
            start, end = _span(token)
            raise QueryError(f"more than {MAX_DEPTH} nested parentheses or !", start, end)


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Makes the nodes while the parser runs, without an intermediate tree."""

    def start(self, node: Node | None) -> Node:
        return node or MatchAll()

    def either(self, *terms: Node) -> Node:
        return Or(terms)

    def both(self, *terms: Node) -> Node:
        return And(terms)

    def negated(self, term: Node) -> Node:
        return Not(term)

    def group(self, node: Node) -> Node:
        return node

    def column(self, token: Token) -> tuple[str, Span]:
        return unquote(token) if token.type == "QUOTED_COLUMN" else str(token), _span(token)

    def word(self, token: Token) -> Node:
        return Contains(str(token), _span(token))

    def phrase(self, token: Token) -> Node:
        return Contains(unquote(token), _span(token))

    def regex(self, token: Token) -> Node:
        return Regex(plain_pattern(token[1:-1]), "", _inside(token))

    def fuzzy_word(self, token: Token) -> Node:
        return Fuzzy(str(token), _span(token))

    def fuzzy_phrase(self, token: Token) -> Node:
        return Fuzzy(unquote(token), _span(token))

    def compared(self, column: tuple[str, Span], operator: Token, value: Token) -> Node:
        return Compare(column[0], _operator(operator), str(value), False, _span(value), column[1])

    def compared_quoted(self, column: tuple[str, Span], operator: Token, value: Token) -> Node:
        return Compare(column[0], _operator(operator), unquote(value), True, _span(value), column[1])

    def matched(self, column: tuple[str, Span], pattern: Token) -> Node:
        return Regex(plain_pattern(pattern[1:-1]), column[0], _inside(pattern), column[1])

    def matched_quoted(self, column: tuple[str, Span], pattern: Token) -> Node:
        # Only the quote is escaped here: \d must keep its meaning in a pattern.
        raw = re.sub(r"(?s)\\(.)", lambda pair: '"' if pair[1] == '"' else pair[0], pattern[1:-1])
        return Regex(plain_pattern(raw), column[0], _inside(pattern), column[1])

    def matched_bare(self, column: tuple[str, Span], pattern: Token) -> Node:
        return Regex(plain_pattern(pattern), column[0], _span(pattern), column[1])


def _inside(token: Token) -> Span:
    start, end = _span(token)
    return start + 1, end - 1


def _operator(token: Token) -> Operator:
    return Operator.EQUAL if token == "==" else Operator(str(token))


@lru_cache(maxsize=1)
def make_parser() -> Lark:
    """Return the parser, which is built once."""
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="contextual",
        transformer=_Builder(),
        maybe_placeholders=True,
    )


def _error_message(error: UnexpectedInput, text: str, tokens: list[Token]) -> QueryError:
    """Return the parser's error as a message for the user."""
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    position = len(text.rstrip()) if ended else error.pos_in_stream or 0
    last = tokens[-1].type if tokens else ""
    if last == "OPERATOR" and (ended or text[position] != '"'):
        return QueryError(f"{tokens[-1]} needs a value after it", *_from(tokens[-1], position))
    if ended or text[position] in "|)":
        if last == "_NOT":
            return QueryError("! needs a term after it", *_from(tokens[-1], position))
        if last == "_TILDE":
            return QueryError("~ needs text after it", *_from(tokens[-1], position))
        if last == "_OR":
            return QueryError("| needs a term on both sides", *_from(tokens[-1], position))
    if ended:
        start = _open_group(tokens)
        return QueryError("missing )", start, start + 1)
    character = text[position]
    if character == ")":
        message = "empty ()" if last == "_OPEN" else "unexpected )"
    elif character == "|":
        message = "| needs a term on both sides"
    elif character == '"':
        return QueryError("missing closing quote", position, len(text))
    elif character == "/":
        return QueryError('the regex has no closing /; put text that starts with / in "quotes"', position, len(text))
    elif character == "(":
        return QueryError("missing )", position, position + 1)
    elif character in "<>=":
        message = f"{character} needs a column before it"
    else:
        message = f"unexpected {character}"
    return QueryError(message, position, position + 1)


def _from(token: Token, at: int) -> Span:
    start, end = _span(token)
    return start, max(end, at)


def _open_group(tokens: list[Token]) -> int:
    groups: list[int] = []
    for token in tokens:
        if token.type == "_OPEN":
            groups.append(token.start_pos or 0)
        elif token.type == "_CLOSE":
            groups.pop()
    return groups[-1] if groups else 0


_UNITS: Final = frozenset(unit for units in UNITS.values() for unit in units)
_PLAIN: Final = re.compile(r"[\w.%+*,\[\]{}@#$-]+")
"""Words that need no quotes, unless they are a unit. Others also need none, but quotes are always safe."""

_PLAIN_COLUMN: Final = re.compile(r"[^\W\d][\w.%]*")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSEEN: Final = ("Cc", "Cf", "Zl", "Zp")
"""Classes of characters that a line of text does not show: they are written as numbers."""


def query_text(node: Node) -> str:
    """Return the text of a tree, which parses to the same tree.

    >>> query_text(parse("(gemm|conv)  dur > 1ms  ! stream = 7"))
    '(gemm | conv) dur>1ms !stream=7'
    """
    match node:
        case MatchAll():
            return ""
        case Contains():
            return plain_or_quoted(node.text)
        case Fuzzy():
            return f"~{plain_or_quoted(node.text)}"
        case Regex():
            pattern = re.sub(r"(?s)(\\.)|/", lambda match: match[1] or "\\/", node.pattern)
            return f"{_column(node.column)}~/{pattern}/" if node.column else f"/{pattern}/"
        case Compare():
            value = quote(node.value) if node.quoted else node.value
            # Without the blank, the value would lengthen the operator.
            blank = " " if value[:1] in ("=", ":") else ""
            return f"{_column(node.column)}{node.operator}{blank}{value}"
        case Not():
            return f"!{_grouped(node.term, (And, Or))}"
        case And():
            return " ".join(_grouped(term, (And, Or)) for term in node.terms)
        case Or():
            return " | ".join(_grouped(term, (Or,)) for term in node.terms)


def quote(text: str) -> str:
    r"""Quote a text on one line, so that it parses to itself.

    >>> print(quote('a "b"\n'))
    "a \"b\"\n"
    """
    return f'"{"".join(_escape(character) for character in text)}"'


def equals_filter(column: str, value: object, kind: ColumnKind) -> str:
    """Return a query that matches exactly the rows in which a column has a value.

    Args:
        column: The name of the column in the frame.
        value: The value of the cell, in base units; None or NaN is unknown.
        kind: The kind of the column.

        With ``!`` before it, it matches all other rows.

    >>> from tui.model.columns import ColumnKind
    >>> equals_filter("duration_ns", 1_500, ColumnKind.DURATION), equals_filter("name", "f<1>", ColumnKind.SYMBOL)
    ('duration_ns=1500ns', 'name="f<1>"')
    """
    return f"{_column(column)}={_exact(value, kind)}"


def narrow(text: str, term: str) -> str:
    """Return a query for the rows that match both a query and a term.

    Raises:
        QueryError: The text is not a query.

    >>> narrow("gemm | conv", "stream=7")
    '(gemm | conv) stream=7'
    """
    node = parse(text)
    if isinstance(node, MatchAll):
        return term
    return f"({text.strip()}) {term}" if isinstance(node, Or) else f"{text.strip()} {term}"


def plain_or_quoted(text: str) -> str:
    """Return a text as a value of a query, quoted if necessary."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _UNITS else quote(text)


def _exact(value: object, kind: ColumnKind) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value!r}{BASE_UNIT.get(kind, '')}"
    return quote(str(value))


def _column(name: str) -> str:
    return name if _PLAIN_COLUMN.fullmatch(name) else quote(name)


def _grouped(node: Node, grouped: tuple[type, ...]) -> str:
    return f"({query_text(node)})" if isinstance(node, grouped) else query_text(node)


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\u{{{ord(character):x}}}" if unicodedata.category(character) in _UNSEEN else character
