"""The content of a file of Chrome trace events, before it is interpreted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from tui.loaders.input_issues import Note


class ArgKind(Enum):
    """What an argument of an event is read as; a value that is nothing of the kind becomes null."""

    INTEGER = "integer"
    """Int64, also from text (``"42"``)."""
    NUMBER = "number"
    """Float64."""
    TEXT = "text"
    """Categorical: the string, or the JSON of any other value."""
    TRIPLE = "triple"
    """Three Int64 columns, ``<column>_x``, ``_y`` and ``_z``, of a list of up to three numbers (missing ones are 1)."""


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of events that becomes a column."""

    column: str
    """The name of the column."""
    keys: tuple[str, ...]
    """How it is spelt in the files, compared in lower case; the first that an event has counts."""
    kind: ArgKind


Split = Callable[["pl.DataFrame"], Mapping[str, "pl.DataFrame"]]
"""Makes several frames of one like `Trace.complete`, of which it gets a stretch at a time. The keys and the columns of
the frames are always the same; ``start_ns``, where it is kept, counts from `Trace.origin_ns` only in the end."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A file of trace events, read; all rows in the order of the file."""

    metadata: Mapping[str, Any]
    """Everything beside ``traceEvents``, as JSON values."""

    complete: pl.DataFrame
    """The events that have a duration (``ph`` X): cat, name, pid, tid (Categorical, as text), start_ns (Int64, relative
    to `origin_ns`), duration_ns (Int64), line (UInt32, null where the layout does not tell), and a column for each
    wanted `Arg`. An event whose start or duration cannot be read, or is negative or over seven days, is only in
    the notes. The frame has many chunks, and a column that a stretch of the file has nothing for takes no memory there:
    filter before anything that copies. Without columns where a `Split` takes the events."""

    parts: dict[str, pl.DataFrame]
    """What a `Split` made of `complete`, all stretches joined. In a large trace they are most of the memory: who takes
    one out of here can let go of it."""

    instants: pl.DataFrame
    """Events without duration (``ph`` i, I, R): the same columns without duration_ns."""

    flows: pl.DataFrame
    """Arrows between events (``ph`` s, t, f): ph, cat, name, pid, tid (Categorical), id (Int64), start_ns."""

    names: pl.DataFrame
    """What processes and threads are called (``ph`` M): pid, tid (Categorical), name (as ``process_name``), value (the
    name, label or index as String)."""

    origin_ns: int
    """The start of the earliest X event, in the file's own clock (its ``ts``), which is 0 in `complete`. Metadata
    ``baseTimeNanoseconds`` is not in it."""

    notes: Sequence[Note]
    """What was repaired, dropped or lost, with counts; beside the notes of the source."""

    partial: str
    """Why not all of the file is in it (stopped, cut off), or empty."""
