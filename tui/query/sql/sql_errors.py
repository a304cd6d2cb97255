"""Polars' errors for a query as one line in the user's terms, with what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError, did_you_mean
from tui.query.sql.sql_text import TokenKind, names_in, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.query.sql.run import SqlTables

SHOW_TABLES: Final = "SHOW TABLES"
LISTS: Final = f"{SHOW_TABLES} lists tables and columns"
EXAMPLE: Final = "as: SELECT name, total_ns FROM kernels WHERE calls > 10 ORDER BY total_ns DESC LIMIT 10"
ONLY_READ: Final = "a profile is only read"
PLAIN_NUMBERS: Final = "times are plain numbers of ns, sizes of bytes: 1 ms is 1000000"
FUNCTIONS: Final = "such as SUM, COUNT, AVG, MIN, MAX, MEDIAN, STDDEV, QUANTILE_CONT(duration_ns, 0.95)"

UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB"})
_LONGEST: Final = 300
"""Characters of Polars' error, and of the columns that are listed."""


def fault(error: BaseException, text: str, tables: SqlTables) -> ProftuiError:
    """A fault in a line, with what to do.

    Args:
        error: What Polars raised.
        text: The query.
        tables: What it can name.
    """
    message = " ".join(str(error).partition("Resolved plan until failure")[0].split())
    for pattern, tell in _FAULTS.items():
        if found := re.search(pattern, message):
            return tell(found, text, tables)
    message = message.replace(" This error occurred in the following expression:", ":").removesuffix(".")
    return ProftuiError(f"SQL: {_bare(message)}", LISTS)


def _bare(expression: str) -> str:
    """Polars' error with columns by name."""
    expression = re.sub(r'col\("([^"]*)"\)', r"\1", expression)
    expression = re.sub(r'\("([^"]*)"\)', r"'\1'", expression)
    return re.sub(r"(?<![\w.])\((\w+)\)", r"\1", expression)[:_LONGEST]


def _no_column(found: re.Match[str], text: str, _tables: SqlTables) -> ProftuiError:
    name = found[1]
    columns = re.findall(r'"([^"]*)"', found[2])
    if any(token.kind is TokenKind.QUOTED and token.text == name for token in tokens(text)):
        return ProftuiError(f"there is no column {name}", f"a text stands in single quotes: '{name}'")
    return ProftuiError(f"there is no column {name}", did_you_mean(name, columns) or _listed(columns))


def _no_column_of(found: re.Match[str], text: str, tables: SqlTables) -> ProftuiError:
    named = names_in(text)
    columns = [column for table in tables.names if table in named for column in tables.columns(table)]
    return ProftuiError(f"{found[2]} has no column {found[1]}", did_you_mean(found[1], columns) or _listed(columns))


def _no_table(found: re.Match[str], _text: str, tables: SqlTables) -> ProftuiError:
    name = found[1]
    return ProftuiError(f"there is no table {name}", did_you_mean(name.rpartition(".")[2], tables.names) or LISTS)


def _message(message: str, hint: str) -> Callable[[re.Match[str], str, SqlTables], ProftuiError]:
    """The same sentence each time; ``{0}`` is what was found."""
    return lambda found, _text, _tables: ProftuiError(
        message.format(*(found.groups() or ("",))), hint.format(*(found.groups() or ("",)))
    )


def _listed(columns: list[str]) -> str:
    listed = ", ".join(columns)
    if not listed or len(listed) > _LONGEST:
        return LISTS if listed else EXAMPLE
    return f"columns: {listed}"


_FAULTS: Final[dict[str, Callable[[re.Match[str], str, SqlTables], ProftuiError]]] = {
    r'unable to find column "(.*?)"; valid columns: \[(.*?)\]': _no_column,
    r"no column named '(.*?)' found in table '(.*?)'": _no_column_of,
    r"relation '(.*?)' was not found": _no_table,
    r"no table or struct column named '(.*?)' found": _message(
        "the query has no table {0}", "FROM and JOIN name tables"
    ),
    r"sql parser error: (.*?)(?: at Line: [0-9]+, Column: [0-9]+)?$": _message("SQL: {0}", EXAMPLE),
    r"^'(.*)' operation is currently unsupported": _message("{0} is not supported", ONLY_READ),
    r"unsupported function '(.*?)'": _message("there is no function {0}", FUNCTIONS),
    r"duplicate output name '(.*?)'": _message("two columns of the result are named {0}", "rename one: ... AS b"),
    r"'(.*?)' should participate in the GROUP BY": _message(
        "{0} is neither grouped nor aggregated", "GROUP BY {0}, or MAX({0})"
    ),
    r"cannot compare string with numeric type.*?: \[?(.*?)\]?$": lambda found, _text, _tables: ProftuiError(
        f"a text is compared with a number: {_bare(found[1])}", PLAIN_NUMBERS
    ),
    r"`(\w+)` operation not supported for dtype `str`": _message("{0} needs numbers, this column holds text", LISTS),
    r"division by zero": _message("division by zero", "divide by NULLIF(number, 0) where it can be 0"),
}
"""A sentence for an error of Polars."""
