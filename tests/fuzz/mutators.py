"""Ways to damage an input, as Hypothesis strategies."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tui.loaders import memory_snapshot

HOSTILE = (
    "\x1b]52;c;QUJD\x07",
    "\x1b[31m",
    "\x9b2J",
    "\u202e",
    "\u2066",
    "\x00",
    "\r",
    "\u2028",
    "\ufeff",
    "\x7f",
    "🏳️‍🌈",
)
"""What a terminal would act upon."""
DIGITS = ("٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "०१२३४५६७८९", "𝟘𝟙𝟚𝟛𝟜𝟝𝟞𝟟𝟠𝟡", "⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Digits of other scripts, from 0 to 9."""
NUMBERS = (
    *("0", "-1", "-0.0", "1e400", "-1e400", "nan", "inf", "1e-400", "0x10", "1_000", "1,000", "1.2.3", "", "-"),
    *(str(2**31), str(2**32), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63) - 1), str(2**64), "9" * 400),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 1e308, "", "x", "٢", "\x1b]0;x\x07", [], {}, [[]], [{}], {"a": {"a": []}}, "9" * 400),
)
"""Values that stand in JSON where others belong."""

Mutator = Callable[[Random, bytes], bytes]


def _span(random: Random, data: bytes, max_length: int = 200) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    return begin, min(len(data), begin + random.randrange(max_length))


def flip_bytes(random: Random, data: bytes) -> bytes:
    """Replace some bytes."""
    changed = bytearray(data)
    for _ in range(random.randrange(1, 8)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def truncate(random: Random, data: bytes) -> bytes:
    """Remove the end."""
    return data[: random.randrange(len(data) + 1)]


def delete(random: Random, data: bytes) -> bytes:
    """Remove a piece."""
    begin, end = _span(random, data)
    return data[:begin] + data[end:]


def splice(random: Random, data: bytes) -> bytes:
    """Insert a piece at another position, once or many times."""
    begin, end = _span(random, data)
    start, stop = _span(random, data)
    return data[:start] + data[begin:end] * random.choice((1, 1, 2, 500)) + data[stop:]


def change_numbers(random: Random, data: bytes) -> bytes:
    """Replace numbers by impossible ones."""
    return _replace(random, data, rb"-?[0-9]+(?:\.[0-9]+)?", lambda _text: random.choice(NUMBERS).encode())


def change_digits(random: Random, data: bytes) -> bytes:
    """Write numbers in the digits of another script."""
    digits = random.choice(DIGITS)
    table = {ord(str(value)): digit for value, digit in enumerate(digits)}
    return _replace(random, data, rb"[0-9]+", lambda text: text.decode().translate(table).encode(), max_count=60)


def insert_control_characters(random: Random, data: bytes) -> bytes:
    """Insert control characters into names."""
    return _replace(random, data, rb"[A-Za-z_]{3,}", lambda text: text + random.choice(HOSTILE).encode())


def nest(random: Random, data: bytes) -> bytes:
    """Insert many opening brackets."""
    position = random.randrange(len(data) + 1)
    return (
        data[:position]
        + random.choice((b"[", b"{", b'{"a":', b"(", b"<", b'"')) * random.choice((1, 50, 5000))
        + data[position:]
    )


def change_types(random: Random, data: bytes) -> bytes:
    """Replace values of JSON, a pickle or Parquet by values of other types; in a text, replace numbers."""
    if data.startswith(b"PAR1"):
        return change_parquet(random, data)
    if data.startswith(b"\x80"):
        try:
            tree = memory_snapshot.load_pickle(data)
        except (memory_snapshot.DamagedPickleError, memory_snapshot.UnsafePickleError):
            return flip_bytes(random, data)
        _change_values(random, tree)
        return pickle.dumps(tree, 4)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return change_numbers(random, data)
    _change_values(random, tree)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _change_values(random: Random, tree: Any) -> None:
    for _ in range(random.randrange(1, 6)):
        _change_value(random, tree)


def _change_value(random: Random, tree: Any) -> None:
    for _ in range(12):
        keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
        if not keys:
            return
        key = random.choice(list(keys))
        if isinstance(tree[key], dict | list) and random.random() < 0.85:
            tree = tree[key]
            continue
        tree[key] = copy.deepcopy(random.choice(VALUES))
        return


TYPES: tuple[pl.DataType | type[pl.DataType], ...] = (
    *(pl.Int8, pl.UInt64, pl.Float64, pl.String, pl.Binary, pl.Boolean, pl.Null, pl.Categorical, pl.Date),
    *(pl.Datetime("ns", "UTC"), pl.Duration("us"), pl.Decimal(38, 9), pl.List(pl.Int64), pl.List(pl.List(pl.String))),
    *(pl.Struct({"a": pl.Int64}), pl.Struct({"a": pl.Struct({"b": pl.List(pl.String)})}), pl.Array(pl.Int64, 2)),
)
"""Types of columns, few of which belong where they are put."""


def change_parquet(random: Random, data: bytes) -> bytes:
    """Change types of Parquet columns, remove or duplicate columns, or remove all rows."""
    try:
        rows = pl.read_parquet(io.BytesIO(data), use_statistics=False)
    except (pl.exceptions.PolarsError, OSError):
        return flip_bytes(random, data)
    for _ in range(random.randrange(1, 4)):
        if not rows.columns:
            break
        name = random.choice(rows.columns)
        match random.randrange(8):
            case 0:
                rows = rows.drop(name)
            case 1:
                rows = rows.rename({name: name + random.choice(("", "x", *HOSTILE))})
            case 2:
                rows = rows.clear() if random.random() < 0.3 else pl.concat([rows, rows])
            case _:
                rows = rows.with_columns(_column(random, name, rows.height))
    target = io.BytesIO()
    rows.write_parquet(target)
    return target.getvalue()


def _column(random: Random, name: str, height: int) -> pl.Series:
    """Return a column of some type: of values, or of nulls only."""
    dtype = random.choice(TYPES)
    if random.random() < 0.4:
        return pl.Series(name, [None] * height, dtype=dtype)
    values: dict[Any, Any] = {
        pl.String: random.choice(("x", "٢", "12", "\x1b]0;x\x07")),
        pl.Binary: b"\xff\x00",
        pl.Float64: random.choice((float("nan"), float("inf"), -1.5)),
        pl.UInt64: 2**64 - 1,
        pl.Boolean: True,
        pl.Categorical: "x",
        pl.List(pl.Int64): [1, 2],
        pl.List(pl.List(pl.String)): [["x"]],
        pl.Array(pl.Int64, 2): [1, 2],
        pl.Struct({"a": pl.Int64}): {"a": 1},
        pl.Struct({"a": pl.Struct({"b": pl.List(pl.String)})}): {"a": {"b": ["x"]}},
    }
    if dtype in values:
        return pl.Series(name, [values[dtype]] * height, dtype=dtype)
    return pl.Series(name, [random.choice((0, 1, -1, 100))] * height, dtype=pl.Int64).cast(dtype, strict=False)


def _replace(
    random: Random, data: bytes, pattern: bytes, change: Callable[[bytes], bytes], max_count: int = 8
) -> bytes:
    matches = list(re.finditer(pattern, data))
    chosen = sorted(
        random.sample(matches, min(len(matches), random.randrange(1, max_count))), key=lambda match: match.start()
    )
    pieces, position = [], 0
    for match in chosen:
        pieces += [data[position : match.start()], change(match[0])]
        position = match.end()
    return b"".join([*pieces, data[position:]])


MUTATORS: tuple[Mutator, ...] = (
    *(
        flip_bytes,
        truncate,
        delete,
        splice,
        change_numbers,
        change_digits,
        insert_control_characters,
        nest,
        change_types,
    ),
)


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Return an input with up to three kinds of damage."""
    random = draw(st.randoms(use_true_random=False))
    for mutate in draw(st.lists(st.sampled_from(MUTATORS), min_size=1, max_size=3)):
        data = mutate(random, data)
    return data


@st.composite
def mutated_folder(draw: st.DrawFn, tree: dict[str, bytes]) -> dict[str, bytes | None]:
    """Return a folder with damage; None is a folder in place of a file."""
    return damaged_folder(draw(st.randoms(use_true_random=False)), tree)


def damaged(random: Random, data: bytes) -> bytes:
    """Return an input with up to three kinds of damage."""
    for _ in range(random.randrange(1, 4)):
        data = random.choice(MUTATORS)(random, data)
    return data


def damaged_folder(random: Random, tree: dict[str, bytes]) -> dict[str, bytes | None]:
    """Return a folder with some files damaged, missing, duplicated, exchanged, empty, or replaced by folders."""
    changed: dict[str, bytes | None] = dict(tree)
    for _ in range(random.randrange(1, 4)):
        name = random.choice(sorted(changed))
        data = changed[name]
        match random.randrange(12):
            case 0:
                changed.pop(name)
            case 1:
                changed[name] = None
            case 2:
                changed[name] = b""
            case 3:
                changed[name + random.choice((".1", ".gz", "\x1b[31m", "٢"))] = data
            case 4:
                changed[name] = changed[random.choice(sorted(changed))]
            case 5 if data:
                changed[name] = change_types(random, data)
            case _ if data:
                changed[name] = damaged(random, data)
            case _:
                pass
        if not changed:
            break
    return changed


CELLS: tuple[Any, ...] = (
    *(None, 0, -1, 2**31, 2**63 - 1, -(2**63), 1.5, float("inf"), "", "x", "٢", "12", "\x1b]0;x\x07", b"", b"\xff\x00"),
)
"""Values of any type, as SQLite lets stand in any column."""


@st.composite
def column_changes(draw: st.DrawFn) -> list[tuple[int, int, Any, bool]]:
    """Return changes for `change_columns`: numbers of a table and a column, a value, and whether all rows get it."""
    change = st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from(CELLS), st.booleans())
    return draw(st.lists(change, min_size=1, max_size=4))


def change_columns(path: Path, changes: list[tuple[int, int, Any, bool]]) -> None:
    """Put values of other types into the columns of a database."""
    with closing(sqlite3.connect(path)) as database, database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        tables = [name for (name,) in rows.fetchall()]
        for table_number, column_number, value, is_everywhere in changes:
            table = tables[table_number % len(tables)]
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            column = columns[column_number % len(columns)]
            condition = (
                "" if is_everywhere else f' WHERE rowid IN (SELECT rowid FROM "{table}" ORDER BY random() LIMIT 2)'
            )
            with suppress(sqlite3.Error):  # a column that must be unique, and the like
                database.execute(f'UPDATE "{table}" SET "{column}" = ?{condition}', (value,))
