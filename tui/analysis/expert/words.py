"""How findings speak of things, and the filters that show them."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.fitting import shorten_symbol
from tui.fmt import duration
from tui.model.names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_CELLS: Final = 60
"""Cells of a name in a sentence."""
NAMES_IN_FILTER: Final = 10


def called(name: object) -> str:
    """A name within a sentence; without namespaces that say little, of a long one with the inner ones.

    >>> called("void f<int>(float*)")
    '`f`'
    >>> called("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>(long)")
    '`GammaBetaBackwardCUDAKernelTemplate`'
    """
    return f"`{shorten_symbol(short_name(str(name)), NAME_CELLS)}`"


def counted(number: float, one: str, many: str = "") -> str:
    """A number of things.

    >>> counted(1, "copy", "copies"), counted(1678, "hole")
    ('1 copy', '1,678 holes')
    """
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def rounded(value_ns: float) -> str:
    """A threshold in words: a duration without zeros that say nothing.

    >>> rounded(1_000_000), rounded(1_500_000), rounded(500)
    ('1 ms', '1.5 ms', '500 ns')
    """
    return re.sub(r"\.?0+(?= )", "", text) if "." in (text := duration(value_ns)) else text


def gpu_called(device: int | None, of: int) -> str:
    """A GPU within a sentence: by its number only where there are several."""
    return "the GPU" if of == 1 else "an unnamed GPU" if device is None else f"GPU {device}"


def named(names: Iterable[Any], column: str = "name") -> str:
    r"""A filter for the rows of some names.

    >>> print(named(["f<1>", 'a "b"']))
    name="f<1>" | name="a \"b\""
    """
    distinct = list(dict.fromkeys(str(name) for name in names))[:NAMES_IN_FILTER]
    return " | ".join(f"{column}={quoted(name)}" for name in distinct)


def most_often(by_name: pl.DataFrame, count: str) -> str:
    """The name that comes most often, as the end of a sentence; nothing where several come equally often.

    Args:
        by_name: With ``name``, those that come most often first.
        count: The column that says how often.
    """
    first, *others = by_name[count].head(2)
    return "" if first in others else f"; most often {called(by_name['name'][0])}"


def behind(rows: pl.DataFrame, *columns: str, view: str = "kernels") -> tuple[pl.DataFrame, str, str]:
    """Evidence, view and filter of a finding: the first rows by name, and the view that shows work of these names.

    Args:
        rows: With ``name``, the most telling first; a name can stand in several.
        columns: What to show of them beside the name; all where none are named.
        view: Where the rows behind them are.
    """
    shown = rows.select("name", *columns) if columns else rows
    return shown.head(NAMES_IN_FILTER), view, named(rows["name"].unique(maintain_order=True).head(NAMES_IN_FILTER))


def these_alone(first: int, last: int, *, proposed: bool = False) -> str:
    """How to look at some iterations alone, from the command line and within the program.

    Args:
        first: Number of the first.
        last: Number of the last.
        proposed: They are the steady ones that view Iterations proposes.

    >>> these_alone(1, 5), these_alone(1, 3, proposed=True)
    ('--iterations 1:5, or :aggregate 1:5', '--iterations 1:3, or p in Iterations (7)')
    """
    return f"--iterations {first}:{last}, or {'p in Iterations (7)' if proposed else f':aggregate {first}:{last}'}"


def quoted(text: str) -> str:
    """Text in quotes that the filter language reads back as it is."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    unseen = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
    return f"\\u{{{ord(character):x}}}" if unseen else character


def largest(rows: pl.DataFrame, by: str, *columns: str) -> pl.DataFrame:
    """The rows with most of something, for evidence."""
    least = rows[by].top_k(NAMES_IN_FILTER).min()
    most = rows.filter(pl.col(by) >= least) if least is not None else rows
    return most.sort(by, descending=True, nulls_last=True, maintain_order=True).head(NAMES_IN_FILTER).select(columns)


def tallied(rows: pl.DataFrame, count: str, *sums: str) -> pl.DataFrame:
    """Rows by name: how many (a column called ``count``), sums of some columns, and the first line."""
    return rows.group_by("name").agg(pl.len().cast(pl.Int64).alias(count), pl.col(sums).sum(), pl.col("line").min())


def ranked(by_name: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Rows of names, those with most of something first; of equal ones by name."""
    return by_name.sort(*by, "name", descending=[*(True for _ in by), False], nulls_last=True)
