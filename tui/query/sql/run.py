"""Running SQL: tables are made when a query names them, and nothing can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import polars as pl
from polars import selectors
from polars.exceptions import PanicException, PolarsError

from tui.model.errors import ProftuiError
from tui.query.sql.columns import with_names
from tui.query.sql.faults import EXAMPLE, LISTS, ONLY_READ, SHOW_TABLES, fault
from tui.query.sql.tokens import tokens

_READS: Final = frozenset({"select", "with", "from", "values", "explain"})
"""What a statement may begin with. Each query gets a context of its own, so that even others could change nothing."""
MOST_ROWS: Final = 10_000_000
MOST_VALUES: Final = 100_000_000
"""Rows, and values in all of them, that a query with a join may find: a join of two tables by nothing, or by what many
rows share, has more than any memory holds."""
_FAULTS: Final = (PolarsError, PanicException)
"""What Polars raises where SQL asks for what cannot be; a panic is no `Exception`, which threads would not pass on."""


class Tables:
    """The tables of a profile, each made when it is first asked for.

    Args:
        recorded: The frames that are there, by name.
        computed: The names of what must be computed.
        make: Computes the frame of such a name.
        changing: What can be another frame each time that it is asked for, by name.
        outline: Tells the columns of what must be computed, without computing it; None: they are not known before.
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
        """The frame of a name."""
        if name in self._changing:
            self._made[name] = self._changing[name]()
        elif name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def columns(self, name: str) -> tuple[str, ...]:
        """The columns of a table as far as they are known: it is computed, or `learn_columns` was called."""
        return tuple(self._made[name].columns) if name in self._made else self._outlined.get(name, ())

    def learn_columns(self) -> None:
        """Learn the columns of what is not computed yet; takes a moment."""
        for name in self._changing:
            self.frame(name)
        if self._outline is not None:
            self._outlined |= {name: self._outline(name) for name in self.names if not self.columns(name)}

    def overview(self) -> pl.DataFrame:
        """One row per table: table, rows (null where it has to be computed first) and columns."""
        self.learn_columns()
        made = self._made
        return pl.DataFrame(
            {
                "table": list(self.names),
                "rows": [made[name].height if name in made else None for name in self.names],
                "columns": [", ".join(self.columns(name)) or None for name in self.names],
            },
            schema={"table": pl.String, "rows": pl.Int64, "columns": pl.String},
        )


def query(text: str, tables: Tables) -> pl.LazyFrame:
    """What an SQL text asks for, not yet computed.

    Texts compare as strings. ``SHOW TABLES`` gives `Tables.overview`.

    Args:
        text: One ``SELECT``; ``WITH``, ``FROM``, ``VALUES`` and ``EXPLAIN`` may begin it as well.
        tables: What it can name.

    Raises:
        ProftuiError: It is no such statement, or names what is not there.
    """
    words = [token.text for token in tokens(text)]
    while words and words[-1] == ";":
        words.pop()
    if not words:
        raise ProftuiError("there is no SQL to run", f"{EXAMPLE}, or {SHOW_TABLES}")
    if " ".join(words).upper() == SHOW_TABLES:
        return tables.overview().lazy()
    if words[0].lower() not in _READS and words[0] != "(":
        raise ProftuiError(f"SQL begins with SELECT here, not with {words[0][:40]}", f"{ONLY_READ}; {LISTS}")
    # A parser of a second, which only those pay for who ask in SQL.
    from tui.query.sql.statement import checked_statement

    typed = checked_statement(text, tables.names)
    named = checked_statement(with_names(text), tables.names)
    context = pl.SQLContext(eager=False)
    for name in typed.tables:
        context.register(name, tables.frame(name).lazy().with_columns(pl.col(pl.Categorical).cast(pl.String)))
    try:
        # A number with a point is a decimal in SQL, which JSON would hold as a text.
        return context.execute(named.sql).with_columns(selectors.decimal().cast(pl.Float64))
    except _FAULTS as error:
        raise fault(_without_names(context, typed.sql) or error, text, tables) from error


def _without_names(context: pl.SQLContext[pl.LazyFrame], sql: str) -> BaseException | None:
    """What is wrong with a query as it was typed, without the names that it was given for its columns."""
    try:
        context.execute(sql)
    except _FAULTS as error:
        return error
    return None


def run(text: str, tables: Tables) -> pl.DataFrame:
    """What an SQL text finds: `query`, computed.

    Raises:
        ProftuiError: It is no such statement, names what is not there, or finds more than can be held.
    """
    found = query(text, tables)
    try:
        width = len(found.collect_schema())
        if not width:
            raise ProftuiError("the query asks for no column", EXAMPLE)
        if "JOIN" not in found.explain(optimized=False):
            return found.collect()
        most = min(MOST_ROWS, MOST_VALUES // width)
        # Piece by piece: no more is made than is asked for.
        rows = found.head(most + 1).collect(engine="streaming")
    except _FAULTS as error:
        raise fault(error, text, tables) from error
    if rows.height > most:
        raise ProftuiError(
            f"the query finds more than {most:,} rows of {width} columns",
            "join by columns that tell rows apart, name fewer columns, sum up, or add LIMIT",
        )
    return rows
