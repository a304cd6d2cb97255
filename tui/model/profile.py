"""A profile: the frames of one or several inputs, and their source text.

Columns with a single distinct value share its memory (`compact_constants`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError, path_text
from tui.model.schema import FRAMES, OP_COLUMNS, conform, empty


class LogText(Protocol):
    """Random access to the lines of a text input."""

    @property
    def line_count(self) -> int:
        """The number of lines."""

    def lines(self, first: int, count: int) -> list[str]:
        """``count`` lines from number ``first`` (from 1), as in the input, without line ends."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The frames of `tui.model.schema`; those that the input does not feed are empty."""

    frames: Mapping[str, pl.DataFrame]
    """Every frame of the model, by name."""

    sources: Sequence[str]
    """The paths as given (``-`` for standard input)."""

    texts: Mapping[str, LogText] = field(default_factory=dict)
    """The lines of each source that is a text."""

    partial: str = ""
    """Why the frames are incomplete (``stopped at 68%``), or empty."""

    gpu: str | None = None
    """The name of the GPU as given by the user, if the input does not record it."""

    peaks: tuple[tuple[str, float], ...] = ()
    """Peaks given by the user: by element type in 10^12 FLOP/s, and ``bandwidth`` in 10^9 bytes per second."""

    steps: pl.DataFrame | None = None
    """Its iterations, once they are known: the columns of `iteration_table.iterations` less those that follow
    from other frames, ``source`` (recorded, detected, key or whole run), ``cpu_start_ns`` and ``cpu_end_ns`` (between
    which calls, ops and ranges belong to the iteration, by their start; null: no limit)."""

    aggregation: Aggregation = field(default_factory=Aggregation)
    """The iterations that the frames cover, as chosen by the user."""

    all_iterations: Profile | None = field(default=None, repr=False, compare=False)
    """The profile of all iterations, if this one covers some: work of other iterations can run in their time."""

    other_sessions: int = 0
    """The number of further sessions that were read but are not in the frames."""

    def __getitem__(self, frame: str) -> pl.DataFrame:
        return self.frames[frame]

    def only_session(self, session: int) -> Profile:
        """Return the profile of one session; issues without a session stay.

        Raises:
            ProftuiError: There is no such session.
        """
        last = self["sessions"].height - 1
        if not 0 <= session <= last:
            raise ProftuiError(f"no session {session}", f"sessions: 0 to {last}" if last else "the only session is 0")
        frames = {name: _session_frame(name, data, session) for name, data in self.frames.items()}
        steps = None if self.steps is None else self.steps.filter(pl.col("session") == session)
        return replace(self, frames=frames, steps=steps, other_sessions=self.other_sessions + last)


def _session_frame(frame: str, data: pl.DataFrame, session: int) -> pl.DataFrame:
    if frame == "issues":
        return data.filter(pl.col("session").eq(session) | pl.col("session").is_null())
    return session_rows(data, session)


def session_rows(data: pl.DataFrame, session: int) -> pl.DataFrame:
    """Return the rows of a session; a slice without a copy if the rows are sorted by session."""
    sessions = column_view(data, "session")
    if not sessions.is_sorted():
        return data.filter(pl.col("session") == session)
    # A binary search, because the column is sorted.
    first, end = (sessions.set_sorted().search_sorted(session, side) for side in ("left", "right"))
    return data if end - first == data.height else data.slice(first, end - first)


def build_profile(
    frames: Mapping[str, pl.DataFrame],
    *,
    source: str,
    text: LogText | None = None,
    partial: str = "",
    finish: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
    after_column: Callable[[], object] = lambda: None,
) -> Profile:
    """Validate the frames of a loader against the model, and add the missing ones.

    Args:
        frames: The frames by name.
        source: The path of the input.
        text: Its text, of a log.
        partial: Why the profile is incomplete; empty if it is complete.
        finish: Returns the rows of a complete frame in less memory.
        after_column: Called after each column that was read.
    """
    complete = {}
    for name in FRAMES:
        complete[name] = (
            finish(compact_constants(conform(name, frames[name]), after_column=after_column))
            if name in frames
            else empty(name)
        )
    return Profile(complete, (source,), {source: text} if text is not None else {}, partial)


def merge_profiles(profiles: Sequence[Profile]) -> Profile:
    """Merge profiles into one; sessions and row ids are renumbered in the order given."""
    if len(profiles) == 1:
        return profiles[0]
    frames_by_name: dict[str, list[pl.DataFrame]] = {name: [] for name in FRAMES}
    session_offset = activity_offset = op_offset = 0
    for profile in profiles:
        for name, data in profile.frames.items():
            shifts = [(pl.col("session") + session_offset).cast(pl.UInt32)]
            if name == "activities":
                shifts.append((pl.col("activity") + activity_offset).cast(pl.UInt32))
            shifts += [(pl.col(column) + op_offset).cast(pl.UInt32) for column in OP_COLUMNS.get(name, ())]
            frames_by_name[name].append(data.with_columns(shifts))
        session_offset += profile["sessions"].height
        activity_offset += profile["activities"].height
        op_offset += profile["ops"].height
    return Profile(
        {name: pl.concat(datas) for name, datas in frames_by_name.items()},
        tuple(source for profile in profiles for source in profile.sources),
        {source: text for profile in profiles for source, text in profile.texts.items()},
        "; ".join(profile.partial for profile in profiles if profile.partial),
    )


def with_issues(profile: Profile, issues: Sequence[Mapping[str, str]]) -> Profile:
    """Return the profile with further issues, which belong to no session."""
    if not issues:
        return profile
    # The texts contain file names.
    issue_rows = conform(
        "issues", pl.DataFrame([{key: path_text(text) for key, text in row.items()} for row in issues])
    )
    frames = {**profile.frames, "issues": pl.concat([profile["issues"], issue_rows])}
    return replace(profile, frames=frames)


def with_other_formats(profile: Profile, others: Sequence[Profile]) -> Profile:
    """Return the profile of a file with an issue on other files of the same run, which are omitted."""
    names = ", ".join(PurePosixPath(source).name for other in others for source in other.sources)
    reason = f"the run of {PurePosixPath(profile.sources[0]).name} in other formats: not counted again"
    return with_issues(profile, [{"severity": "info", "text": names, "reason": reason}] if others else [])


_FACTS_OF_TABLES: Final = ("pid", "framework", "start_resolution_ns")
"""Facts of a session that any table of its run can have."""


def merge_tables(tables: Sequence[Profile], main: int, origins: pl.Series) -> Profile:
    """Merge the tables of one run, each in a file of its own, into one session, with times from the earliest origin.

    Rows of other files than the main one have no line: lines are those of the session's source.

    Args:
        tables: Of one session each.
        main: The index of the one that the session is of.
        origins: The time of ``start_ns`` 0 of each; null if unknown.
    """
    run = merge_profiles(tables)
    shifts = pl.select((pl.lit(origins) - pl.lit(origins).min()).fill_null(0)).to_series()
    frames = {}
    for name, rows in run.frames.items():
        session_column = pl.col("session")
        changed = [pl.lit(0, pl.UInt32).alias("session")]
        if "start_ns" in rows.columns:
            shift = pl.lit(shifts).gather(session_column.cast(pl.UInt32))
            changed.append((pl.col("start_ns") + shift).alias("start_ns"))
        if "line" in rows.columns:
            changed.append(pl.when(session_column == main).then("line").alias("line"))
        frames[name] = rows.with_columns(changed)
    facts = pl.col(_FACTS_OF_TABLES)
    frames["sessions"] = (
        run["sessions"]
        .with_columns(pl.lit(0, pl.UInt32).alias("session"), facts.fill_null(facts.drop_nulls().first()))
        .slice(main, 1)
    )
    frames["devices"] = frames["devices"].unique("device", keep="first", maintain_order=True)
    return replace(run, frames=frames)


_MIN_ROWS: Final = 100_000
"""Rows; smaller frames are not compacted."""

_INTEGER_TYPES: Final[Mapping[type[pl.DataType], tuple[Any, str]]] = {
    pl.Int32: (np.int32, "int32"),
    pl.Int64: (np.int64, "int64"),
    pl.UInt32: (np.uint32, "uint32"),
}
"""The types for numpy and Arrow."""


def compact_constants(
    data: pl.DataFrame, min_rows: int = _MIN_ROWS, after_column: Callable[[], object] = lambda: None
) -> pl.DataFrame:
    """Return the same frame; a column whose values are all equal, or all null, takes no memory per row.

    Columns of numbers with one distinct value besides null share their memory.

    Args:
        data: Any frame.
        min_rows: The least number of rows, at least 1; smaller frames are unchanged.
        after_column: Called after each column that was read.

    >>> data = pl.DataFrame({"device": [0] * 100_000})
    >>> compact_constants(data).equals(data)
    True
    """
    if data.height < min_rows:
        return data
    # Most columns have several values among the first rows.
    ends = data.select(pl.col(column).first().eq_missing(pl.col(column).last()) for column in data.columns).row(0)
    candidates = [column for column, equal in zip(data.columns, ends, strict=True) if equal]
    if not candidates:
        return data.with_columns(_constant_columns(data))
    constants = []
    for column in candidates:
        if data.select(_has_one_value(column, data.schema[column])).item():
            constants.append(pl.lit(data.item(0, column), data.schema[column]).alias(column))
        after_column()
    return data.with_columns(*_constant_columns(data), *constants)


def column_view(data: pl.DataFrame, column: str) -> pl.Series:
    """Return a column for a single use; ``data[column]`` would keep a constant column at full size from then on.

    Of few rows that size does not matter, and ``data[column]`` takes less time.

    >>> column_view(pl.DataFrame({"device": [0, 1]}), "device").to_list()
    [0, 1]
    """
    return data[column] if data.height < _MIN_ROWS else data.select(column).to_series()


def _constant_columns(data: pl.DataFrame) -> list[pl.Series]:
    """Return the numeric columns with one distinct value besides null (such as 1 for kernels and null for copies).

    The bytes of a null value do not matter, so columns with the same number share them; zeros take no memory.
    """
    if data.n_chunks() != 1 or data.height < _MIN_ROWS:
        return []
    integer_columns = [column for column, dtype in data.schema.items() if type(dtype) in _INTEGER_TYPES]
    null_counts = (
        dict(zip(integer_columns, data.select(pl.col(integer_columns).null_count()).row(0), strict=True))
        if integer_columns
        else {}
    )
    partly_null = [column for column in integer_columns if 0 < null_counts[column] < data.height]
    if not partly_null:
        return []
    minima, maxima = data.select(pl.col(partly_null).min()).row(0), data.select(pl.col(partly_null).max()).row(0)
    equal_columns: dict[tuple[type[pl.DataType], int], list[str]] = {}
    for column, number, last in zip(partly_null, minima, maxima, strict=True):
        if number == last:
            equal_columns.setdefault((type(data.schema[column]), number), []).append(column)
    # Imported here because most frames do not need it.
    import nanoarrow  # type: ignore[import-untyped]

    constants = []
    bits: dict[bytes, np.ndarray[Any, Any]] = {}
    for (dtype, number), columns in equal_columns.items():
        if number and len(columns) == 1:
            continue
        kind, arrow = _INTEGER_TYPES[dtype]
        values = np.full(data.height, number, kind) if number else np.zeros(data.height, kind)
        for column in columns:
            is_known = data.select(pl.col(column).is_not_null()).to_series().to_numpy()
            valid = np.packbits(is_known, bitorder="little")
            valid = bits.setdefault(valid.tobytes(), valid)
            buffers = [valid, values]
            array = nanoarrow.c_array_from_buffers(
                getattr(nanoarrow, arrow)(), data.height, buffers, null_count=null_counts[column]
            )
            constants.append(pl.Series(array).alias(column))
    return constants


def _has_one_value(column: str, dtype: pl.DataType) -> pl.Expr:
    values = pl.col(column)
    same = values.null_count() == pl.len()
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Categorical):
        codes = values.to_physical()
        same |= (values.null_count() == 0) & (codes.min() == codes.max())
    return same.alias(column)
