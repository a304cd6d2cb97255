"""Running SQL over the frames of a profile: tables, computed when a query names them, and the table of its result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import selectors
from polars.exceptions import PanicException, PolarsError

from tui.model.columns import COLUMNS, Column, ColumnKind
from tui.model.errors import ProftuiError
from tui.model.profile import Profile
from tui.model.schema import empty
from tui.model.table_spec import TableSpec
from tui.query.sql.sql_text import tokens, with_names
from tui.query.sql.statement import EXAMPLE, LISTS, ONLY_READ, SHOW_TABLES, fault
from tui.tables import COMPUTED, MODEL_FRAMES, frame
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable


_READS: Final = frozenset({"select", "with", "from", "values", "explain"})
"""What a statement may begin with. Each query gets a context of its own, so that even others could change nothing."""
MAX_ROWS: Final = 10_000_000
MAX_VALUES: Final = 100_000_000
"""Rows, and values in all of them, that a query with a join may find: a join of two tables by nothing, or by what many
rows share, has more than any memory holds."""
_FAULTS: Final = (PolarsError, PanicException)
"""What Polars raises where SQL asks for what cannot be; a panic is no `Exception`, which threads would not pass on."""


class SqlTables:
    """The tables of a profile, each computed on first use.

    Args:
        recorded: The recorded frames, by name.
        computed: The names of the computed tables.
        make: Computes the frame of such a name.
        changing: Functions for frames that can change between queries, by name.
        outline: Returns the columns of a table without computing it; None: they are unknown before.
    """

    def __init__(
        self,
        recorded: Mapping[str, pl.DataFrame],
        computed: Iterable[str],
        make: Callable[[str], pl.DataFrame],
        changing: Mapping[str, Callable[[], pl.DataFrame]] | None = None,
        outline: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        self._make = make
        self._outline = outline
        self._outlined: dict[str, tuple[str, ...]] = {}
        self._made = dict(recorded)
        self._changing = dict(changing or {})
        self.names = (*recorded, *computed, *self._changing)
        """The names of all tables."""

    def frame(self, name: str) -> pl.DataFrame:
        """Return the frame with a name."""
        if name in self._changing:
            self._made[name] = self._changing[name]()
        elif name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the known columns of a table: it is computed, or `learn_columns` was called."""
        return tuple(self._made[name].columns) if name in self._made else self._outlined.get(name, ())

    def learn_columns(self) -> None:
        """Learn the columns of tables that are not computed yet; takes a moment."""
        for name in self._changing:
            self.frame(name)
        if self._outline is not None:
            self._outlined |= {name: self._outline(name) for name in self.names if not self.columns(name)}

    def overview(self) -> pl.DataFrame:
        """Return one row per table: table, rows (null if not computed yet) and columns."""
        self.learn_columns()
        computed = self._made
        return pl.DataFrame(
            {
                "table": list(self.names),
                "rows": [computed[name].height if name in computed else None for name in self.names],
                "columns": [", ".join(self.columns(name)) or None for name in self.names],
            },
            schema={"table": pl.String, "rows": pl.Int64, "columns": pl.String},
        )


def query(text: str, tables: SqlTables) -> pl.LazyFrame:
    """Return the lazy result of an SQL text.

    Texts compare as strings. ``SHOW TABLES`` gives `SqlTables.overview`.

    Args:
        text: One ``SELECT``, which may begin with ``WITH``, ``FROM``, ``VALUES`` or ``EXPLAIN``.
        tables: The tables that it can name.

    Raises:
        ProftuiError: It is not such a statement, or names an unknown table or column.
    """
    token_texts = [token.text for token in tokens(text)]
    while token_texts and token_texts[-1] == ";":
        token_texts.pop()
    if not token_texts:
        raise ProftuiError("the query is empty", f"{EXAMPLE}, or {SHOW_TABLES}")
    if " ".join(token_texts).upper() == SHOW_TABLES:
        return tables.overview().lazy()
    if token_texts[0].lower() not in _READS and token_texts[0] != "(":
        raise ProftuiError(f"SQL begins with SELECT here, not with {token_texts[0][:40]}", f"{ONLY_READ}; {LISTS}")
    # Imported here, since it takes a second.
    from tui.query.sql.statement import check_statement

    typed = check_statement(text, tables.names)
    named = check_statement(with_names(text), tables.names)
    context = pl.SQLContext(eager=False)
    for name in typed.tables:
        context.register(name, tables.frame(name).lazy().with_columns(pl.col(pl.Categorical).cast(pl.String)))
    try:
        # A number with a point is a decimal in SQL, which JSON would represent as text.
        return context.execute(named.sql).with_columns(selectors.decimal().cast(pl.Float64))
    except _FAULTS as error:
        raise fault(_without_names(context, typed.sql) or error, text, tables) from error


def _without_names(context: pl.SQLContext[pl.LazyFrame], sql: str) -> BaseException | None:
    """Return the error of a query as typed, without the names that were added for its columns."""
    try:
        context.execute(sql)
    except _FAULTS as error:
        return error
    return None


def run(text: str, tables: SqlTables) -> pl.DataFrame:
    """Return the result of an SQL text.

    Raises:
        ProftuiError: It is not such a statement, names an unknown table or column, or its result is too large.
    """
    lazy_result = query(text, tables)
    try:
        width = len(lazy_result.collect_schema())
        if not width:
            raise ProftuiError("the query selects no column", EXAMPLE)
        if "JOIN" not in lazy_result.explain(optimized=False):
            return lazy_result.collect()
        max_rows = min(MAX_ROWS, MAX_VALUES // width)
        # In batches, so that no more rows than the limit are computed.
        rows = lazy_result.head(max_rows + 1).collect(engine="streaming")
    except _FAULTS as error:
        raise fault(error, text, tables) from error
    if rows.height > max_rows:
        raise ProftuiError(
            f"the query returns more than {max_rows:,} rows of {width} columns",
            "join by columns with unique values, select fewer columns, aggregate, or add LIMIT",
        )
    return rows


ROW: Final = "#"
"""The column that numbers the rows of a result; where the result has one of this name, the next is `ROW` twice."""
_UNITS: Final = {"_ns": ColumnKind.DURATION, "_bytes": ColumnKind.SIZE, "_pct": ColumnKind.PERCENT}
"""Suffixes of names that imply a unit."""
_DATES: Final = selectors.temporal() - selectors.duration()
_TEXTS: Final = (ColumnKind.TEXT, ColumnKind.SYMBOL)
_PICKING_FUNCTIONS: Final = ("min", "max", "first", "last")
"""Aggregates of points in time that are points in time; a sum is not."""
_MEASURED: Final = (ColumnKind.DURATION, ColumnKind.SIZE, ColumnKind.PERCENT, ColumnKind.RATE)
_KEEPS_UNIT: Final = re.compile(
    r"(sum|min|max|avg|mean|median|stddev\w*|quantile\w*|first|last|abs|round|floor|ceil)"
    r"\(\s*(?:distinct\s+)?(?:\w+\.)?(\w+)\s*(?:,[^()]*)?\)",
    re.IGNORECASE,
)
"""Aggregates that keep the unit of a column, as in the default name of the result."""
_UNSUITED: Final = (ColumnKind.MEASURE,)
"""Kinds whose values need another column of the row, which a result need not have."""


def with_row_numbers(result: pl.DataFrame) -> pl.DataFrame:
    """Return a result with row numbers from 1 in its first column, and dates and lists as text."""
    flat = result.with_columns(pl.col(pl.Categorical).cast(pl.String), _DATES.cast(pl.String))
    nested = [name for name, dtype in flat.schema.items() if dtype.is_nested() or dtype == pl.Duration]
    texts = [
        pl.Series(name, [None if value is None else str(value) for value in flat[name].to_list()]) for name in nested
    ]
    row = ROW
    while row in flat.columns:
        row += ROW
    return flat.with_columns(texts).with_row_index(row, offset=1)


def result_spec(result: pl.DataFrame) -> TableSpec:
    """Return the table for a numbered result."""
    columns = tuple(_column(name, dtype, index) for index, (name, dtype) in enumerate(result.schema.items()))
    texts = [column.name for column in columns if column.kind in _TEXTS]
    row = result.columns[0]
    pinned = "name" if "name" in result.columns else texts[0] if texts else row
    return TableSpec("sql", "Result", columns, (row,), pinned=pinned)


def _column(name: str, dtype: pl.DataType, index: int) -> Column:
    if not index:
        return Column(name, name, ColumnKind.NUMBER, "The row of the result, from 1.", 9)
    known_column = COLUMNS.get(name)
    priority = min(2 + index, 9)
    if known_column is not None and _suits(known_column.kind, dtype):
        return Column(name, known_column.title, known_column.kind, known_column.help, priority, known_column.aliases)
    # The query names the columns.
    title = plain(name)
    about = f"The column {title} of the query."
    return Column(name, title, (_unit(name) if dtype.is_numeric() else None) or _kind(dtype), about, priority)


def _unit(name: str) -> ColumnKind | None:
    """Return the unit implied by the name of a numeric column."""
    match = _KEEPS_UNIT.fullmatch(name)
    column = match[2] if match else name
    known_kind = COLUMNS[column].kind if match and column in COLUMNS else None
    if known_kind in _MEASURED or (known_kind is ColumnKind.TIME and match and match[1].lower() in _PICKING_FUNCTIONS):
        return known_kind
    if not re.fullmatch(r"\w+", column):
        return None
    return next((kind for ending, kind in _UNITS.items() if column.endswith(ending)), None)


def _suits(kind: ColumnKind, dtype: pl.DataType) -> bool:
    if kind in _UNSUITED:
        return False
    if kind in _TEXTS:
        return dtype == pl.String
    return dtype == pl.Boolean if kind is ColumnKind.FLAG else dtype.is_numeric()


def _kind(dtype: pl.DataType) -> ColumnKind:
    if dtype == pl.Boolean:
        return ColumnKind.FLAG
    if dtype.is_integer():
        return ColumnKind.COUNT
    return ColumnKind.RATIO if dtype.is_numeric() else ColumnKind.TEXT


@cache
def _empty_profile() -> Profile:
    """Return an empty profile, shared so that intermediate results are computed once."""
    return Profile({name: empty(name) for name in MODEL_FRAMES}, ())


@cache
def _frame_columns(name: str) -> tuple[str, ...]:
    """Return the columns of an aggregate, which do not depend on its rows."""
    return tuple(frame(_empty_profile(), name).columns)


def sql_tables(profile: Profile, notes: Callable[[], pl.DataFrame]) -> SqlTables:
    """Return every frame as a table for SQL, computed when it is named.

    Args:
        profile: The profile.
        notes: Returns the current notes on its rows: `tui.analysis.notes_table.notes_frame`.
    """
    recorded = {name: profile[name] for name in MODEL_FRAMES}
    return SqlTables(recorded, COMPUTED, lambda name: frame(profile, name), {"notes": notes}, _frame_columns)
