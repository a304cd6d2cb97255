"""Parsing of a query into a tree, the check of the tree, the SQL written from it, and errors in one line.

Polars reads any file that a query names in a table function, such as ``read_csv('FILE')``, and has no option to prevent
that. So a query never reaches Polars as typed. It is parsed here, every node, table and function of the tree must be
one of those listed below, and the SQL for Polars is written from the checked tree. In that SQL each table is a plain
name, there are no comments, and every name, text and number is in its simplest form, so that it is unambiguous.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError, UnsupportedError
from sqlglot.generator import Generator as AnyGenerator
from sqlglot.parser import Parser as AnyParser
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer as AnyTokenizer

from tui.model.errors import ProftuiError, did_you_mean
from tui.query.sql.sql_text import TokenKind, names_in, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.query.sql.run import SqlTables

SHOW_TABLES: Final = "SHOW TABLES"
LISTS: Final = f"{SHOW_TABLES} lists tables and columns"
EXAMPLE: Final = "as: SELECT name, total_ns FROM kernels WHERE calls > 10 ORDER BY total_ns DESC LIMIT 10"
ONLY_READ: Final = "profiles are read-only"
PLAIN_NUMBERS: Final = "write times in ns and sizes in bytes, as plain numbers: 1 ms is 1000000"
FUNCTIONS: Final = "such as SUM, COUNT, AVG, MIN, MAX, MEDIAN, STDDEV, QUANTILE_CONT(duration_ns, 0.95)"

UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB"})
_LONGEST_ERROR: Final = 300
"""Characters of Polars' error, and of the columns that are listed."""


def fault(error: BaseException, text: str, tables: SqlTables) -> ProftuiError:
    """Return an error in one line, with a hint.

    Args:
        error: The exception of Polars.
        text: The query.
        tables: The tables that it can name.
    """
    message = " ".join(str(error).partition("Resolved plan until failure")[0].split())
    for pattern, make_error in _FAULTS.items():
        if match := re.search(pattern, message):
            return make_error(match, text, tables)
    message = message.replace(" This error occurred in the following expression:", ":").removesuffix(".")
    return ProftuiError(f"SQL: {_bare(message)}", LISTS)


def _bare(expression: str) -> str:
    """Return Polars' error with columns by name."""
    expression = re.sub(r'col\("([^"]*)"\)', r"\1", expression)
    expression = re.sub(r'\("([^"]*)"\)', r"'\1'", expression)
    return re.sub(r"(?<![\w.])\((\w+)\)", r"\1", expression)[:_LONGEST_ERROR]


def _no_column(match: re.Match[str], text: str, _tables: SqlTables) -> ProftuiError:
    name = match[1]
    columns = re.findall(r'"([^"]*)"', match[2])
    if any(token.kind is TokenKind.QUOTED and token.text == name for token in tokens(text)):
        return ProftuiError(f"unknown column {name}", f"put text in single quotes: '{name}'")
    return ProftuiError(f"unknown column {name}", did_you_mean(name, columns) or _join_columns(columns))


def _no_table_column(match: re.Match[str], text: str, tables: SqlTables) -> ProftuiError:
    named = names_in(text)
    columns = [column for table in tables.names if table in named for column in tables.columns(table)]
    return ProftuiError(
        f"{match[2]} has no column {match[1]}", did_you_mean(match[1], columns) or _join_columns(columns)
    )


def _unknown_relation(match: re.Match[str], _text: str, tables: SqlTables) -> ProftuiError:
    name = match[1]
    return ProftuiError(f"unknown table {name}", did_you_mean(name.rpartition(".")[2], tables.names) or LISTS)


def _message(message: str, hint: str) -> Callable[[re.Match[str], str, SqlTables], ProftuiError]:
    """Return a function for a fixed sentence; ``{0}`` is the match."""
    return lambda match, _text, _tables: ProftuiError(
        message.format(*(match.groups() or ("",))), hint.format(*(match.groups() or ("",)))
    )


def _join_columns(columns: list[str]) -> str:
    listed = ", ".join(columns)
    if not listed or len(listed) > _LONGEST_ERROR:
        return LISTS if listed else EXAMPLE
    return f"columns: {listed}"


_FAULTS: Final[dict[str, Callable[[re.Match[str], str, SqlTables], ProftuiError]]] = {
    r'unable to find column "(.*?)"; valid columns: \[(.*?)\]': _no_column,
    r"no column named '(.*?)' found in table '(.*?)'": _no_table_column,
    r"relation '(.*?)' was not found": _unknown_relation,
    r"no table or struct column named '(.*?)' found": _message(
        "the query has no table {0}", "name its table in FROM or JOIN"
    ),
    r"sql parser error: (.*?)(?: at Line: [0-9]+, Column: [0-9]+)?$": _message("SQL: {0}", EXAMPLE),
    r"^'(.*)' operation is currently unsupported": _message("{0} is not supported", ONLY_READ),
    r"unsupported function '(.*?)'": _message("unknown function {0}", FUNCTIONS),
    r"(?:duplicate output name|the name(?=.* is duplicate)) '(.*?)'": _message(
        "two columns of the result are named {0}", "rename one: ... AS b"
    ),
    r"'(.*?)' should participate in the GROUP BY": _message(
        "{0} is neither grouped nor aggregated", "GROUP BY {0}, or MAX({0})"
    ),
    r"cannot compare string with numeric type.*?: \[?(.*?)\]?$": lambda found, _text, _tables: ProftuiError(
        f"text is compared with a number: {_bare(found[1])}", PLAIN_NUMBERS
    ),
    r"`(\w+)` operation not supported for dtype `str`": _message("{0} needs numbers, but this column is text", LISTS),
    r"division by zero": _message("division by zero", "divide by NULLIF(number, 0) where it can be 0"),
}
"""A sentence for an error of Polars."""


# Otherwise the parser logs unknown syntax to standard error.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

FUNCTION_NAMES: Final = frozenset(
    re.findall(
        r"\w+",
        "abs acos acosd approx_quantile array_agg array_contains array_dot_product array_get "
        "array_inner_product array_length array_lower array_mean array_reverse array_sum array_to_string "
        "array_unique array_upper asin asind atan atan2 atan2d atand avg bit_and bit_count bit_length bit_not "
        "bit_or bit_xor bitcount cbrt ceil ceiling char_length character_length coalesce columns concat "
        "concat_ws corr cos cosd cot cotd count covar covar_pop covar_samp cume_dist current_time date "
        "date_part date_trunc day dayofmonth dayofweek dayofyear degrees dense_rank div ends_with erf erfc "
        "exp first first_value floor greatest hour if ifnull initcap lag last last_value lead least left "
        "length listagg ln localtime localtimestamp log log10 log1p log2 lower lpad ltrim max median min "
        "minute mod month normalize now nth_value ntile nullif octet_length percent_rank pi pow power "
        "quantile_cont quantile_disc quarter radians rank regexp_like regexp_replace replace reverse right "
        "round row_number rpad rtrim second sign sin sind split_part sqrt starts_with stddev stddev_samp "
        "stdev stdev_samp strftime string_agg string_to_array strpos strptime substr substring sum tan tand "
        "time timestamp trim trunc truncate unnest upper var var_samp variance week xor year ",
    )
)
"""The functions that a query may call. None of them reads a file; Polars itself refuses those that it does not have."""

_PADS: Final = ("lpad", "rpad")
_LONGEST_PAD: Final = 10_000

_FILES: Final = "read_"
"""How the table functions of Polars that open files begin."""

_NODES: Final = frozenset(
    {
        exp.Select, exp.Union, exp.Intersect, exp.Except, exp.Subquery, exp.Values, exp.With, exp.CTE,
        exp.From, exp.Join, exp.Where, exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Having,
        exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch, exp.LimitOptions,
        exp.Distinct, exp.Window, exp.WindowSpec, exp.Filter, exp.Table, exp.TableAlias, exp.Alias,
        exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Null, exp.Boolean, exp.HexString,
        exp.Anonymous, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var,
        exp.Extract, exp.StrPosition, exp.Substring, exp.Trim, exp.Array, exp.Bracket, exp.Paren, exp.Tuple,
        exp.Neg, exp.Not, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is,
        exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.NullSafeEQ,
        exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseAnd,
        exp.BitwiseOr, exp.BitwiseXor, exp.Case, exp.If, exp.Exists, exp.CurrentDate, exp.CurrentTime,
        exp.CurrentTimestamp, exp.Unnest, exp.StartsWith, exp.Pow, exp.Glob,
    }
)  # fmt: skip
"""The nodes that a tree may have."""
_SOURCES: Final = (exp.Table, exp.Query, exp.Values, exp.Unnest)
"""The allowed sources of rows."""
_ALLOWED_PARTS: Final[dict[type[exp.Expr], set[str]]] = {
    exp.Table: {"this", "alias", "joins"},
    exp.Unnest: {"expressions", "alias"},
    exp.With: {"expressions"},
}
"""The allowed arguments of some nodes: a table has a name and no arguments, and WITH is not recursive, since recursion
may not end."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NUMBER: Final = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_HEX: Final = re.compile(r"[0-9]+|0?x?[0-9A-Fa-f]*", re.ASCII)
_PLAIN_WORDS: Final = re.compile(r"[A-Za-z0-9_ ]*", re.ASCII)
_CHANGES: Final = (exp.DDL, exp.DML, exp.Command, exp.Delete, exp.Drop, exp.Into)
_LONGEST: Final = 20_000
"""Characters of a query."""
_DEEPEST: Final = 200
"""Levels of the tree of a query. Polars takes seconds for a few hundred, and more stack than there is for thousands."""
_TOO_DEEP: Final = ProftuiError("the query is nested too deeply", EXAMPLE)
_SHOWN: Final = 40
"""Characters of the part of a query that a message repeats."""


def _is(generator: AnyGenerator, node: exp.Is) -> str:
    """Write ``x IS TRUE``, which is never null, as a comparison: Polars' own is null where x is."""
    return generator.binary(node, "<=>" if isinstance(node.expression, exp.Boolean) else "IS")


def _distinct_from(generator: AnyGenerator, node: exp.NullSafeNEQ) -> str:
    """Write it in parentheses: Polars' parser takes all that follows, such as AND, as the right side."""
    comparison = generator.binary(node, "IS DISTINCT FROM")
    return comparison if isinstance(node.parent, exp.Paren) else f"({comparison})"


def _trim(generator: AnyGenerator, node: exp.Trim) -> str:
    """Parse ``TRIM(BOTH 'a' FROM x)``."""
    trim_side, letters = node.text("position").upper() or "BOTH", generator.sql(node, "expression")
    return f"TRIM({f'{trim_side} {letters} FROM ' if letters else ''}{generator.sql(node, 'this')})"


class Polars(Dialect):
    """SQL in Polars' dialect: functions are not translated."""

    class Tokenizer(AnyTokenizer):
        """The tokens of Polars' SQL in addition to the standard."""

        IDENTIFIERS: ClassVar = ['"', "`"]
        QUOTES: ClassVar = ["'"]
        STRING_ESCAPES: ClassVar = ["'"]
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
        HEREDOC_STRINGS: ClassVar = ["$"]
        HEREDOC_TAG_IS_IDENTIFIER = True
        COMMENTS: ClassVar = ["--", ("/*", "*/")]
        NESTED_COMMENTS = True
        HINT_START = "/* a hint is a comment */"
        KEYWORDS: ClassVar = {
            **{word: kind for word, kind in AnyTokenizer.KEYWORDS.items() if word not in ("/*+", "DIV", "INT8")},
            "//": TokenType.DIV,
            "~": TokenType.RLIKE,
            "^@": TokenType.CARET_AT,
            "INT8": TokenType.BIGINT,
            # FLOAT has 64 bits here, REAL and FLOAT4 have 32.
            "FLOAT": TokenType.DOUBLE,
            **dict.fromkeys(("UINT1", "UTINYINT"), TokenType.UTINYINT),
            **dict.fromkeys(("UINT2", "USMALLINT"), TokenType.USMALLINT),
            **dict.fromkeys(("UINT4", "UINTEGER"), TokenType.UINT),
            **dict.fromkeys(("UINT8", "UBIGINT"), TokenType.UBIGINT),
            **dict.fromkeys(("HUGEINT", "INT128"), TokenType.INT128),
            **dict.fromkeys(("UHUGEINT", "UINT128"), TokenType.UINT128),
        }
        SINGLE_TOKENS: ClassVar = {**AnyTokenizer.SINGLE_TOKENS, "$": TokenType.HEREDOC_STRING}

    class Parser(AnyParser):
        """The parser, with special functions only for those that have keywords between their parentheses."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parser
            for name, parser in AnyParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": AnyParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
        SUPPORTS_IMPLICIT_UNNEST = False

    class Generator(AnyGenerator):
        """Polars' names for nodes that the parser names differently."""

        TRANSFORMS: ClassVar = {
            **AnyGenerator.TRANSFORMS,
            exp.RegexpLike: lambda self, node: self.binary(node, "~"),
            exp.RegexpILike: lambda self, node: self.binary(node, "~*"),
            exp.StartsWith: lambda self, node: self.binary(node, "^@"),
            exp.Is: _is,
            exp.IntDiv: lambda self, node: self.binary(node, "//"),
            exp.NullSafeEQ: lambda self, node: self.binary(node, "<=>"),
            exp.NullSafeNEQ: _distinct_from,
            exp.Array: lambda self, node: f"[{self.expressions(node, flat=True)}]",
            exp.StrPosition: lambda self, node: f"POSITION({self.sql(node, 'substr')} IN {self.sql(node, 'this')})",
            exp.Trim: _trim,
        }
        TYPE_MAPPING: ClassVar = {
            **AnyGenerator.TYPE_MAPPING,
            exp.DType.FLOAT: "FLOAT4",
            exp.DType.UTINYINT: "UINT1",
            exp.DType.USMALLINT: "UINT2",
            exp.DType.UINT: "UINT4",
            exp.DType.UBIGINT: "UINT8",
            exp.DType.INT128: "HUGEINT",
            exp.DType.UINT128: "UHUGEINT",
        }
        STAR_EXCEPT = "EXCLUDE"


@dataclass(frozen=True)
class Statement:
    """A query that was checked.

    Attributes: sql: The SQL for Polars. tables: The registered names of the tables that it reads.
    """

    sql: str
    tables: frozenset[str]


def check_statement(text: str, tables: Collection[str]) -> Statement:
    """Parse and check a text, which may only read tables.

    Args:
        text: One query, with or without ``EXPLAIN`` before it.
        tables: The names of the existing tables.

    Raises:
        ProftuiError: It cannot be parsed, is more than one query, or contains something that is not allowed.
    """
    if len(text) > _LONGEST:
        raise ProftuiError(f"the query has more than {_LONGEST:,} characters", EXAMPLE)
    explained = re.match(r"\s*explain\s+", text, re.ASCII | re.IGNORECASE)
    # Positions in messages refer to the text as typed.
    query = " " * explained.end() + text[explained.end() :] if explained else text
    try:
        tree = _parse(query)
        _check_tree(tree, tables)
        sql = tree.sql(Polars, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError as error:
        raise _TOO_DEEP from error
    except UnsupportedError as error:
        raise ProftuiError(f"SQL: {error}", EXAMPLE) from error
    tables_by_name = {name.lower(): name for name in tables}
    read = {
        tables_by_name[table.name.lower()] for table in tree.find_all(exp.Table) if table.name.lower() in tables_by_name
    }
    return Statement(f"EXPLAIN {sql}" if explained else sql, frozenset(read))


def _no_table(name: str, tables: Collection[str]) -> ProftuiError:
    """Return the error for an unknown table."""
    return ProftuiError(f"unknown table {name}", did_you_mean(name.rpartition(".")[2], tables) or LISTS)


def _parse(text: str) -> exp.Expr:
    try:
        trees = Polars().parse(text)
    except (ParseError, TokenError) as error:
        raise _syntax(error, text) from error
    statements = [tree for tree in trees if tree is not None]
    if len(statements) != 1:
        raise ProftuiError("more than one statement", "remove the text after the ;")
    if not isinstance(statements[0], (exp.Query, exp.Values)):
        raise _refusal(statements[0])
    return statements[0]


def _check_tree(tree: exp.Expr, tables: Collection[str]) -> None:
    """Refuse a tree with unlisted nodes; the rest is simplified."""
    for text in list(tree.find_all(exp.RawString)):
        text.replace(exp.Literal.string(text.name))
    depths = {id(tree): 1}
    for node in tree.walk():
        depth = depths[id(node)] = depths[id(node.parent)] + 1 if node.parent is not None else 1
        if depth > _DEEPEST:
            raise _TOO_DEEP
        _check(node, tables)
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    known_names = {name.lower() for name in tables} | ctes
    for table in tree.find_all(exp.Table):
        if table.name.lower() not in known_names:
            raise _no_table(table.name, tables)


def _check(node: exp.Expr, tables: Collection[str]) -> None:
    """Refuse a node that is not listed, and simplify it."""
    if isinstance(node, exp.Table):
        _check_table(node, tables)
    if isinstance(node, (exp.From, exp.Join, exp.Subquery)) and not isinstance(node.this, _SOURCES):
        raise _refusal(node)
    if isinstance(node, exp.Anonymous):
        _check_function(node.this)
        if node.this.lower() in _PADS:
            _check_length(node)
    if type(node) not in _NODES:
        raise _refusal(node)
    allowed = _ALLOWED_PARTS.get(type(node))
    for key, value in node.args.items():
        if value and allowed is not None and key not in allowed:
            raise _refusal(node)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, str):
                _check_text(node, key, child)
    if isinstance(node, exp.Identifier) and not _NAME.fullmatch(node.this):
        node.set("quoted", True)


def _check_table(table: exp.Table, tables: Collection[str]) -> None:
    """Refuse a table that is a function or a path of names."""
    if isinstance(table.this, exp.Func):
        name = table.this.name.lower() if isinstance(table.this, exp.Anonymous) else table.this.sql_name().lower()
        reason = "opens files" if name.startswith(_FILES) else "is no table"
        raise ProftuiError(f"{name[:_SHOWN]} {reason}; SQL here reads only the tables of the profile", SHOW_TABLES)
    if table.args.get("db") or table.args.get("catalog"):
        raise _no_table(table.sql(Polars)[:_SHOWN], tables)
    if type(table.this) is not exp.Identifier:
        raise _refusal(table)


def _check_function(name: object) -> None:
    if not isinstance(name, str) or name.lower() not in FUNCTION_NAMES:
        shown_name = name if isinstance(name, str) else ""
        if shown_name.lower().startswith(_FILES):
            raise ProftuiError(f"{shown_name} opens files; SQL here reads only the tables of the profile", SHOW_TABLES)
        raise ProftuiError(
            f"unknown function {shown_name[:_SHOWN]}", did_you_mean(shown_name, FUNCTION_NAMES) or FUNCTIONS
        )


def _check_length(pad: exp.Anonymous) -> None:
    """Refuse padding to a length that could exhaust memory, where Polars would abort."""
    length = pad.expressions[1] if len(pad.expressions) > 1 else None
    digits = length.name if isinstance(length, exp.Literal) and length.is_number else ""
    if not re.fullmatch("[0-9]{1,9}", digits) or int(digits) > _LONGEST_PAD:
        raise ProftuiError(f"the length argument of {pad.this} must be a number up to {_LONGEST_PAD:,}", EXAMPLE)


def _check_text(node: exp.Expr, key: str, text: str) -> None:
    """Check the texts of the tree: names and literals are quoted, all others must be plain."""
    if isinstance(node, exp.Identifier) or (isinstance(node, exp.Literal) and node.is_string):
        plain = "\0" not in text
    elif isinstance(node, exp.Literal):
        # ASCII only: programs differ on other digits and letters.
        plain = _NUMBER.fullmatch(text) is not None
    elif isinstance(node, exp.HexString):
        plain = _HEX.fullmatch(text) is not None
    else:
        plain = _PLAIN_WORDS.fullmatch(text) is not None
    if not plain:
        raise ProftuiError(f"SQL: {text[:_SHOWN]!r} is not understood", EXAMPLE)


def _refusal(node: exp.Expr) -> ProftuiError:
    sql = node.sql(Polars, comments=False)
    sql = f"{sql[:_SHOWN]}..." if len(sql) > _SHOWN else sql
    return ProftuiError(f"{sql} is not supported", ONLY_READ if isinstance(node, _CHANGES) else LISTS)


def _syntax(error: ParseError | TokenError, text: str) -> ProftuiError:
    """Return the error for invalid SQL: what is wrong, and where."""
    fault: dict[str, Any] = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if not fault:
        return _unterminated(text)
    description, highlight, line, end = (fault.get(key) or "" for key in ("description", "highlight", "line", "col"))
    expected = next(
        (description_text for pattern, description_text in _EXPECTED.items() if re.match(pattern, description)), ""
    )
    if not expected:
        expected = (
            re.sub(r"^Expect(ing|ed) ", "", description)
            if re.fullmatch(r"Expect(ing|ed) \S{1,20}", description)
            else "other SQL"
        )
    if description == _SURPLUS:
        description_text = f"expected end of statement, found {highlight[:_SHOWN]}"
    elif not str(fault.get("end_context") or "").strip():
        return ProftuiError(f"SQL: expected {expected}, found the end", EXAMPLE)
    else:
        description_text = f"expected {expected} after {highlight[:_SHOWN]}"
    location = f"line {line}, column {int(end) - len(highlight) + 1}: " if line and end else ""
    return ProftuiError(f"SQL: {location}{description_text}", PLAIN_NUMBERS if highlight in UNITS else EXAMPLE)


_SURPLUS: Final = "Invalid expression / Unexpected token"
_EXPECTED: Final = {
    r"Required keyword": "an expression",
    r"Expected table name": "a table",
    r"Expected type": "a type",
}
"""What the parser expected, by its error."""


def _unterminated(text: str) -> ProftuiError:
    """Return the error for a text, a name or a comment without an end."""
    last = next(reversed(list(tokens(text))), None)
    if last is None or last.end < len(text.rstrip()):
        return ProftuiError("SQL: unclosed comment", EXAMPLE)
    line, column = text.count("\n", 0, last.start) + 1, last.start - (text.rfind("\n", 0, last.start) + 1) + 1
    noun = "name" if last.kind is TokenKind.QUOTED else "text"
    return ProftuiError(f"SQL: line {line}, column {column}: the {noun} that begins here has no closing quote", EXAMPLE)
