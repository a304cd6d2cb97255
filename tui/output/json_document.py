"""The envelope of every JSON document that a command prints: schema and version, sources, request, rows with keys.

The schemas are in `docs/json`. A change of meaning changes `VERSION`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import xxhash

from tui import __version__
from tui.model.errors import ProftuiError
from tui.output.export import json_line
from tui.text import plain

if TYPE_CHECKING:
    from tui.model.profile import Profile

VERSION: Final = 1
"""The version of the schemas, raised when a field changes its meaning or is removed."""

KEY: Final = "key"
"""The name of the key in a row."""
LONGEST_KEY: Final = 80
"""The maximum size of a key; a longer one is cut and ends in a hash."""
_BEGINNING: Final = 56
_UNPRINTABLE: Final = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"
_BLOCK: Final = 1 << 20

FRAME_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "sessions": ("session",),
    "activities": ("session", "activity"),
    "ops": ("session", "op"),
}
"""The keys of the model's frames; rows of other frames are identified by number."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The maximum size of a document."""

    limit: int | None = None
    """The maximum number of rows of each table."""
    max_bytes: int | None = None
    """The maximum size; each table has as many rows as fit."""


@dataclass(frozen=True, slots=True)
class JsonTable:
    """A table of a document."""

    rows: pl.DataFrame
    key: Sequence[str] = ()
    """The columns that identify a row; none: its number, from 1."""
    total: int | None = None
    """How many rows it has, where these are some of them; None: as many as these."""
    columns: Sequence[str] = ()
    """These columns alone, beside the key; none: all."""
    keys: pl.Series | None = None
    """The key of each row, where it does not follow from these rows alone."""

    @property
    def total_rows(self) -> int:
        """The number of rows of the table."""
        return self.rows.height if self.total is None else self.total

    def with_keys(self, limit: int | None) -> pl.DataFrame:
        """Return the first rows, each with its key; NaN and infinity become null."""
        rows = self.rows if limit is None else self.rows.head(limit)
        keys = row_keys(rows, self.key) if self.keys is None else self.keys.head(rows.height)
        finite = pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64))
        shown = rows.select(self.columns) if self.columns else rows.select(pl.all().exclude(KEY))
        return shown.select(keys.alias(KEY), pl.all()).with_columns(finite)

    def objects(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the first rows as objects."""
        return self.with_keys(limit).to_dicts()


def row_keys(rows: pl.DataFrame, key: Sequence[str]) -> pl.Series:
    """Return a key for each row: the values of the key columns joined by ``/``, stable for the same file.

    A long key, or one with control characters, is replaced by its beginning and a hash.

    >>> frame = pl.DataFrame({"session": [0, 0], "name": ["gemm", "x" * 99]})
    >>> row_keys(frame, ("session", "name")).to_list()[0], len(row_keys(frame, ("session", "name"))[1])
    ('0/gemm', 73)
    >>> row_keys(frame, ()).to_list()
    ['1', '2']
    """
    columns = [name for name in key if name in rows.columns]
    if not columns:
        return pl.Series(KEY, range(1, rows.height + 1), pl.Int64).cast(pl.String)
    texts = [pl.col(name).cast(pl.String).fill_null("") for name in columns]
    joined = rows.select(pl.concat_str(texts, separator="/").alias(KEY)).to_series()
    long_keys = joined.filter((joined.str.len_bytes() > LONGEST_KEY) | joined.str.contains(_UNPRINTABLE)).unique()
    if long_keys.is_empty():
        return joined
    return joined.replace(
        {text: f"{plain(text)[:_BEGINNING]}~{xxhash.xxh3_64_hexdigest(text.encode())}" for text in long_keys}
    )


def document_head(name: str, profile: Profile, *, view: str | None = None) -> dict[str, Any]:
    """Return the fields at the start of every document.

    Args:
        name: The schema, as ``report``.
        profile: The profile.
        view: The view or table that it shows.
    """
    session = profile["sessions"]["session"]
    return {
        **schema_fields(name),
        "sources": [source_facts(source) for source in profile.sources],
        "view": view,
        "session": session[0] if profile.other_sessions and len(session) == 1 else None,
        "iterations": profile.aggregation.text.partition(" ")[2] or None,
        "iteration_key": profile.aggregation.key,
        "partial": profile.partial or None,
        "filter": None,
        "sort": None,
    }


def schema_fields(name: str) -> dict[str, Any]:
    """Return the schema of a document, and the program that wrote it."""
    return {"schema": f"proftui.{name}/{VERSION}", "proftui": __version__}


def source_facts(source: str) -> dict[str, Any]:
    """Return path, size and hash of a file; null if it is no regular file."""
    try:
        status = os.stat(source)  # noqa: PTH116 (a name may be no valid text)
    except (OSError, ValueError):
        return {"file": source, "bytes": None, "xxh3_128": None}
    if not stat.S_ISREG(status.st_mode):
        return {"file": source, "bytes": None, "xxh3_128": None}
    return {
        "file": source,
        "bytes": status.st_size,
        "xxh3_128": _hash(source, status.st_size, status.st_mtime_ns, status.st_ino),
    }


@lru_cache(maxsize=256)
def _hash(source: str, size: int, _modified_ns: int, _inode: int) -> str | None:
    """Return the hash of a file's content; None if it cannot be read."""
    digest = xxhash.xxh3_128()
    try:
        with open(source, "rb") as file:  # noqa: PTH123 (a name may be no valid text)
            # Not to the end: some system files have none (/proc/self/pagemap), and others grow.
            while size > 0 and (block := file.read(min(_BLOCK, size))):
                digest.update(block)
                size -= len(block)
    except OSError:
        return None
    return digest.hexdigest()


def document(fields: Mapping[str, Any], tables: Mapping[str, JsonTable], bounds: Bounds | None = None) -> str:
    """Return a document as one line of JSON.

    Args:
        fields: All but the tables, `document_head` first.
        tables: By the names of their fields.
        bounds: The maximum size.

    Raises:
        ProftuiError: It does not fit into the bytes even without rows.
    """
    return _serialize(fields, tables, _fitting_row_count(fields, tables, bounds or Bounds()))


def document_before_rows(fields: Mapping[str, Any], table: JsonTable, bounds: Bounds) -> tuple[bytes, pl.DataFrame]:
    """Return a document of one table of any length as the text before the rows, and the rows.

    Returns:
        The text before the rows, which are the last field, and the rows.

    Raises:
        ProftuiError: It does not fit into the bytes even without rows.
    """
    table = replace(table, rows=table.rows.with_columns(pl.col(pl.Categorical).cast(pl.String)))
    rows = table.with_keys(_fitting_row_count(fields, {"rows": table}, bounds))
    remaining_fields = {**fields, "total_rows": {"rows": table.total_rows}, "truncated": rows.height < table.total_rows}
    return (json_line(remaining_fields).rstrip().removesuffix("}") + ', "rows": ').encode(), rows


def _serialize(fields: Mapping[str, Any], tables: Mapping[str, JsonTable], limit: int | None) -> str:
    totals = {name: table.total_rows for name, table in tables.items()}
    rows = {name: table.objects(limit) for name, table in tables.items()}
    is_cut = any(len(rows[name]) < total for name, total in totals.items())
    return json_line({**fields, **rows, "total_rows": totals, "truncated": is_cut})


def _fitting_row_count(fields: Mapping[str, Any], tables: Mapping[str, JsonTable], bounds: Bounds) -> int | None:
    """Return how many rows of each table fit into a document; None: all."""
    if bounds.max_bytes is None:
        return bounds.limit
    max_rows = max((table.rows.height for table in tables.values()), default=0)
    max_rows = max_rows if bounds.limit is None else min(max_rows, bounds.limit)
    # The minimum size of a row: the braces, its key and a comma.
    fits, too_many = -1, min(max_rows, bounds.max_bytes // 12) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if len(_serialize(fields, tables, middle)) <= bounds.max_bytes:
            fits = middle
        else:
            too_many = middle
    if fits < 0:
        min_bytes = len(_serialize(fields, tables, 0))
        raise ProftuiError(
            f"--max-bytes {bounds.max_bytes}: the document without rows needs {min_bytes} bytes", "raise the limit"
        )
    return fits
