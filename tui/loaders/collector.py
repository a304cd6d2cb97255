"""Collects rows and issues while an input is read, links the events of a run, and makes the frames of the profile."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.cache.spill import release_mapped, release_memory, sort_rows, spill_to_disk
from tui.correlation.iteration_ranges import mark_steps
from tui.correlation.launches import add_launch_columns, iterations_at_times, link_ops
from tui.correlation.plausible_times import drop_outlier_times, drop_outlier_times_of_sessions, dropped_times_text
from tui.loaders.base import PreviewBuilder
from tui.loaders.demangle import demangled
from tui.loaders.nvtx_ops import ops_from_ranges
from tui.model.errors import path_text
from tui.model.names import short_name
from tui.model.profile import Profile, build_profile
from tui.model.schema import FRAMES, NAME, OP_COLUMNS, SEVERITIES, conform, empty
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from tui.loaders.input_issues import InputIssue
    from tui.loaders.text.block import Line
    from tui.model.profile import LogText


def with_throughput(activities: pl.DataFrame) -> pl.DataFrame:
    """Add ``throughput`` (bytes a second), computed from size and duration where it is not recorded.

    The size of a kernel is not the amount of data that it moves, so kernels get none.
    """
    has_rate = (pl.col("duration_ns") > 0) & (pl.col("size_bytes") >= 0)
    is_missing = has_rate & pl.col("throughput").is_null() & (pl.col("kind") != "kernel")
    if not activities.select(is_missing.any()).item():
        return activities
    rate = 1e9 * pl.col("size_bytes") / pl.col("duration_ns")
    return activities.with_columns(pl.when(is_missing).then(rate).otherwise("throughput").alias("throughput"))


def with_short_names(kernels: pl.DataFrame) -> pl.DataFrame:
    """Demangle ``name`` (categorical) and add ``short_name``; each distinct name is processed once."""
    distinct = kernels["name"].unique().drop_nulls().cast(pl.String).to_list()
    demangled_names = demangled(distinct)
    full_names = map_distinct(kernels["name"], lambda name: demangled_names.get(name, name), NAME)
    return kernels.with_columns(full_names, map_distinct(full_names, short_name, NAME).alias("short_name"))


_FIGURES: Final = (
    "sm_count",
    "memory_bytes",
    "memory_bandwidth",
    "max_threads_per_sm",
    "registers_per_sm",
    "shared_memory_per_sm_bytes",
)


def merge_device_rows(devices: pl.DataFrame) -> pl.DataFrame:
    """Merge the rows of ``devices`` to one per session and GPU, in order: the first known value counts.

    Tools write 0, or a compute capability of 0.0, for unknown values.
    """
    return (
        devices.with_columns(
            *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in _FIGURES),
            pl.when(pl.col("compute_capability") != "0.0").then("compute_capability").alias("compute_capability"),
        )
        .group_by("session", "device", maintain_order=True)
        .agg(pl.exclude("session", "device").drop_nulls().first())
    )


TEXT_LIMIT: Final = 200
"""The maximum number of characters of a line that an issue quotes."""

SIMILAR_LIMIT: Final = 100
"""The maximum number of issues of a session with the same reason that are listed; further ones are counted."""

_PARTICULAR: Final = re.compile(r"'[^']*'|[0-9][\w.]*")
"""The variable parts of a reason: quoted cells and numbers."""

Value = str | int | float | bool | None

_INTEGERS: Final[Mapping[type[pl.DataType], range]] = {
    pl.Int64: range(-(1 << 63), 1 << 63),
    pl.Int32: range(-(1 << 31), 1 << 31),
    pl.UInt32: range(1 << 32),
}


def _fits(frame: str, column: str, value: Value) -> bool:
    integers = _INTEGERS.get(type(FRAMES[frame][column]))
    return integers is None or not isinstance(value, int) or value in integers


@dataclass(slots=True)
class Session:
    """One profiled process, while its text is read."""

    number: int
    """The number of the session, from 0, in the order of the input."""
    format: str
    """The name of its `tui.loaders.base.Format`."""
    first_line: int | None
    """The first line; None in an input without lines."""
    pid: int | None = None
    command: str | None = None
    """The profiled command, as the input prints it."""
    last_line: int | None = None
    """The last line that a row or message came from."""
    start_resolution_ns: int | None = None
    """The coarsest step of its start times."""
    facts: dict[str, Value] = field(default_factory=dict)
    """Further columns of the ``sessions`` frame (tool, tool_version, framework, ...)."""


@dataclass(slots=True)
class _SimilarIssues:
    """Issues with the same reason."""

    reason: str
    """The reason of the first."""
    count: int = 0
    last_line: int | None = None
    last_text: str = ""


class Collector:
    """Collects rows for every frame; `profile` makes the frames.

    Small tables come as rows (`add`), large ones as whole frames (`add_frame`) with the model's columns.
    Both get the number of the current session.
    """

    def __init__(self, source: str, preview: PreviewBuilder | None = None) -> None:
        self.source = path_text(source)
        """The path as given."""
        self.preview = preview or PreviewBuilder()
        """Gets the rows for the preview while they are read."""
        self.sessions: list[Session] = []
        """The sessions, in the order in which they were opened."""
        self.devices: dict[tuple[int, int], str] = {}
        """Names of GPUs by session and number."""
        self._rows: dict[str, list[dict[str, Value]]] = {name: [] for name in FRAMES}
        self._frames: dict[str, list[pl.DataFrame]] = {name: [] for name in FRAMES}
        self.row_count = 0
        """The number of rows in all frames except the issues."""
        self.session: Session | None = None
        """The current session, to which new rows belong."""
        self.open_line: Line | None = None
        """The last line of a text that ends without a newline: its row may be truncated."""
        self.is_in_table = False
        """Whether this line is within a table."""
        self._similar: dict[tuple[int | None, str, str], _SimilarIssues] = {}
        self._run_lines: dict[Hashable, int | None] = {}
        self._before_profile: list[Callable[[], None]] = []

    def before_profile(self, callback: Callable[[], None]) -> None:
        """Register a function to call before the frames are made, for tables that may still be interrupted."""
        self._before_profile.append(callback)

    def open_session(
        self, format_name: str, line: int | None, *, pid: int | None = None, command: str | None = None
    ) -> Session:
        """Open a new session, at a line if the input has lines; an impossible process id becomes null."""
        if not _fits("sessions", "pid", pid):
            pid = None
        session = Session(len(self.sessions), format_name, line, pid, command, last_line=line)
        self.sessions.append(session)
        self.session = session
        return session

    def resume_session(self, session: Session) -> None:
        """Make an earlier session the current one: the lines of several processes can alternate."""
        self.session = session

    def add(self, frame: str, row: Mapping[str, Value]) -> None:
        """Add one row to the current session; a number out of range becomes null, with an issue."""
        assert self.session is not None, "rows need a session"
        added = {"session": self.session.number, **row}
        line = row.get("line")
        line = line if isinstance(line, int) else None
        for column, value in row.items():
            if isinstance(value, int) and not 0 <= value < 1 << 31 and not _fits(frame, column, value):
                added[column] = None
                self.issue("warning", line, f"{column} {value}", "number out of range: shown as unknown")
        self._rows[frame].append(added)
        self.row_count += 1
        if line is not None:
            self.session.last_line = max(self.session.last_line or 0, line)

    def add_frame(self, frame: str, data: pl.DataFrame) -> None:
        """Add rows to the current session; ``data`` has columns of the frame, missing ones become null."""
        assert self.session is not None, "rows need a session"
        if data.is_empty():
            return
        self._frames[frame].append(
            conform(frame, data.with_columns(pl.lit(self.session.number, pl.UInt32).alias("session")))
        )
        self.row_count += data.height
        if "line" in data.columns:
            last = data["line"].max()
            if isinstance(last, int):
                self.session.last_line = max(self.session.last_line or 0, last)

    def add_frames(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Add the frames of the current session; ``op`` and references to it count from 0 within them."""
        offset = self.count("ops")
        for name, data in frames.items():
            columns = [column for column in OP_COLUMNS.get(name, ()) if column in data.columns]
            if offset:
                data = data.with_columns((pl.col(column) + offset).cast(pl.UInt32) for column in columns)
            self.add_frame(name, data)

    def count(self, frame: str) -> int:
        """Return the number of rows of a frame in all sessions."""
        return len(self._rows[frame]) + sum(data.height for data in self._frames[frame])

    def add_device(self, device: int, name: str) -> None:
        """Set the name of a GPU of the current session, as the input prints it."""
        assert self.session is not None, "devices need a session"
        if _fits("devices", "device", device):
            self.devices.setdefault((self.session.number, device), name)

    def resolution(self, step_ns: int) -> None:
        """Set the resolution of start times; the coarsest of a session counts."""
        assert self.session is not None, "start times need a session"
        self.session.start_resolution_ns = max(self.session.start_resolution_ns or 0, step_ns)

    def issue(self, severity: str, line: int | None, text: str, reason: str, *, column: int | None = None) -> None:
        """Report a problem in the input.

        Args:
            severity: info, warning or error.
            line: Its line in the input, from 1, or None.
            text: The line, or the part of it in question; cut at `TEXT_LIMIT` characters.
            reason: What is wrong, and the consequence, for the user.
            column: The column in the line, from 1.
        """
        assert severity in SEVERITIES
        session = self.session.number if self.session else None
        similar = self._similar.setdefault(
            (session, severity, _PARTICULAR.sub("#", reason)), _SimilarIssues(path_text(reason))
        )
        similar.count += 1
        if similar.count > SIMILAR_LIMIT:
            similar.last_line, similar.last_text = line, path_text(text[:TEXT_LIMIT])
            return
        self._rows["issues"].append(
            {
                "session": session,
                "line": line,
                "column": column,
                "severity": severity,
                "text": path_text(text[:TEXT_LIMIT]),
                "reason": path_text(reason),
            }
        )

    def add_issues(self, issues: Iterable[InputIssue]) -> None:
        """Report problems of the input itself."""
        for issue in issues:
            self.issue(issue.severity, issue.line, issue.text, issue.reason)

    def report_repeated_run(self, totals: Hashable, line: int | None, equality: str) -> None:
        """Report that an earlier session has the same printed totals: sums over both count one run twice.

        Args:
            totals: The totals, and whatever else the sessions of one run share.
            line: The first line of the session.
            equality: The beginning of the reason, up to the earlier session's line: "the totals equal those of".
        """
        first_line = self._run_lines.setdefault(totals, line)
        if first_line != line:
            reason = (
                f"{equality} in line {first_line}: both are probably of one run, and sums over all sessions count it "
                "twice; choose a session with --session"
            )
            self.issue("warning", line, "", reason)

    def profile(self, *, text: LogText | None = None, partial: str = "") -> Profile:
        """Return the profile, validated; activities are sorted by time and numbered."""
        for callback in self._before_profile:
            callback()
        frames = {name: self._frame(name) for name in FRAMES if name != "issues"}
        drop_outlier_times_of_sessions(frames, self._report_dropped_times)
        if not partial:
            self._report_empty_sessions(frames)
        self._report_cut_row(frames)
        self._report_unlisted()
        frames["issues"] = self._frame("issues")
        frames["activities"] = _in_time_order(with_throughput(frames["activities"]))
        frames["sessions"] = self._sessions_frame()
        named_devices = pl.DataFrame(
            [{"session": session, "device": device, "name": name} for (session, device), name in self.devices.items()],
            schema={"session": pl.UInt32, "device": pl.Int32, "name": pl.String},
        )
        frames["devices"] = merge_device_rows(pl.concat([frames["devices"], conform("devices", named_devices)]))
        self._frames.clear()
        return build_profile(
            frames, source=self.source, text=text, partial=partial, finish=_on_disk, after_column=release_mapped
        )

    def _frame(self, name: str) -> pl.DataFrame:
        parts = self._frames[name]
        if self._rows[name]:
            parts = [*parts, conform(name, pl.DataFrame(self._rows[name], infer_schema_length=None))]
        return pl.concat(parts) if parts else pl.DataFrame(schema=FRAMES[name])

    def _report_dropped_times(self, session: int, line: int | None, reason: str) -> None:
        self.session = self.sessions[session]
        self.issue("warning", line, "", reason)

    def _report_empty_sessions(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Report sessions without rows, unless an issue gives the reason."""
        empty_sessions = {session.number for session in self.sessions} - {
            row["session"] for row in self._rows["issues"]
        }
        for data in frames.values():
            if not empty_sessions:
                return
            empty_sessions.difference_update(data["session"].unique())
        for number in sorted(empty_sessions):
            self.session = self.sessions[number]
            reason = "this session is empty: nothing was recorded, or the output was truncated"
            self.issue("warning", self.session.first_line, self.session.command or "", reason)

    def _report_cut_row(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Report a row that the end of the text may have truncated, unless an issue does already.

        A row that ends with a closing quotation mark is complete. If too little is left to be a row, the line below
        the last row of a table is reported.
        """
        line = self.open_line
        if line is None or line.text.rstrip().endswith('"'):
            return
        if any(row["line"] == line.number for row in self._rows["issues"]):
            return
        reasons = {line.number: "the file ends inside this line: the last row may be truncated"}
        if self.is_in_table and re.search(r"\w", line.text):
            reasons[line.number - 1] = "the file ends inside this line, below a row: another row may be truncated"
        for number, reason in reasons.items():
            for data in frames.values():
                if "line" in data.columns and (rows := data.filter(pl.col("line") == number)).height:
                    self.session = self.sessions[rows["session"][0]]
                    self.issue("info", line.number, line.text.strip(), reason)
                    return

    def _report_unlisted(self) -> None:
        """Report the number of similar issues that were not listed."""
        for (session, severity, _), similar in self._similar.items():
            if similar.count > SIMILAR_LIMIT:
                more_text = plural(similar.count - SIMILAR_LIMIT, "more issue")
                reason = f"{more_text} like this; the last: {similar.reason}"
                row = {"session": session, "line": similar.last_line, "severity": severity, "text": similar.last_text}
                self._rows["issues"].append({**row, "column": None, "reason": reason})
        self._similar.clear()

    def _sessions_frame(self) -> pl.DataFrame:
        return pl.DataFrame(
            [
                {
                    "session": session.number,
                    "format": session.format,
                    "pid": session.pid,
                    "command": session.command,
                    "start_resolution_ns": session.start_resolution_ns,
                    "source": self.source,
                    "first_line": session.first_line,
                    "last_line": session.last_line,
                    **session.facts,
                }
                for session in self.sessions
            ],
            schema_overrides={"command": pl.String},
            infer_schema_length=None,
        )


def _on_disk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows, mapped from disk if memory is low, columns with one value as well."""
    release_mapped()
    frame = spill_to_disk(frame)
    release_mapped()
    return frame


def _in_time_order(activities: pl.DataFrame) -> pl.DataFrame:
    """Sort by session and start, equal starts in line order, and number the rows."""
    keys = activities.select(
        in_order=(pl.col("session") > pl.col("session").shift(1)).fill_null(True)
        | ((pl.col("session") == pl.col("session").shift(1)) & (pl.col("start_ns") >= pl.col("start_ns").shift(1)))
    )
    if not keys["in_order"].fill_null(False).all():
        if activities["session"].n_unique() == 1 and not activities["start_ns"].null_count():
            activities = sort_rows(activities, "start_ns")
        else:
            activities = activities.sort("session", "start_ns", nulls_last=True, maintain_order=True)
    release_mapped()
    numbers = pl.int_range(activities.height, dtype=pl.UInt32, eager=True)
    return activities.with_columns(spill_to_disk(numbers).alias("activity"))


def model_columns(frame: str, data: pl.DataFrame) -> pl.DataFrame:
    """Select the columns of a frame of the model, as far as ``data`` has them."""
    return data.select(name for name in FRAMES[frame] if name in data.columns)


def fit_to_model(frame: str, data: pl.DataFrame, collector: Collector) -> pl.DataFrame:
    """Select and cast the model's columns; numbers out of range become null, with an issue.

    Args:
        frame: A frame of the model.
        data: Its columns, of any types, and others.
        collector: Gets the issue.
    """
    schema = FRAMES[frame]
    selected = model_columns(frame, data)
    fitted = selected.with_columns(pl.col(name).cast(schema[name], strict=False) for name in selected.columns)
    lost = sum(fitted.null_count().row(0)) - sum(selected.null_count().row(0)) if selected.width else 0
    if lost:
        collector.issue("warning", None, "", f"{plural(lost, 'number')} out of range: shown as unknown")
    return fitted


LAUNCH: Final = ("launch_ns", "launch_pid", "launch_tid")
"""Time and thread of an activity's launch, for inputs that record them without the API call."""


def link_run(
    activities: pl.DataFrame | None,
    calls: pl.DataFrame | None,
    ranges: pl.DataFrame | None,
    session: Session,
    collector: Collector,
    *,
    range_kind: str = "NVTX range",
) -> dict[str, pl.DataFrame]:
    """Return the frames of a run, as `tui.loaders.collector.Collector.add_frames` takes them.

    Ranges become ops, and a family of them iterations, whose source becomes a fact of the session. Activities get the
    op and the iteration of their launch. Ranges without length are marks, not ops.

    Args:
        activities: Columns of the model, and those of `LAUNCH` if the input records them.
        calls: API calls, columns of the model.
        ranges: Columns of the model.
        session: The session of the rows.
        collector: Gets the issue about implausible times.
        range_kind: The kind of range, for messages.
    """
    inputs = {"activities": activities, "calls": calls, "ranges": ranges}
    recorded = {
        name: conform("ranges", rows) if name == "ranges" else rows for name, rows in inputs.items() if rows is not None
    }
    plausible_frames, dropped = drop_outlier_times(*recorded.values())
    plausible = dict(zip(recorded, plausible_frames, strict=True))
    activities, calls, ranges = (plausible.get(name) for name in inputs)
    if dropped:
        collector.issue("warning", None, "", dropped_times_text(dropped))
    frames: dict[str, pl.DataFrame] = {}
    if calls is not None:
        frames["api_calls"] = calls
    if activities is not None and "correlation" not in activities.columns:
        activities = activities.with_columns(pl.lit(None, pl.Int64).alias("correlation"))
    if activities is not None and LAUNCH[0] not in activities.columns:
        activities = spill_to_disk(add_launch_columns(activities, empty("api_calls") if calls is None else calls))
        release_memory()
    if ranges is not None:
        step_marks = mark_steps(ranges, kind=range_kind)
        if step_marks.source:
            session.facts["iteration_source"] = step_marks.source
        range_ops = ops_from_ranges(
            step_marks.ranges, step_marks.ranges.select(pl.col("duration_ns").eq_missing(0)).to_series()
        )
        if range_ops.error:
            collector.issue("error", None, "", f"{range_kind}s not converted to ops: {range_ops.error}")
        has_lines = range_ops.ranges["line"].null_count() < range_ops.ranges.height
        frames["ranges"] = range_ops.ranges.sort("line", maintain_order=True) if has_lines else range_ops.ranges
        frames["ops"] = range_ops.ops
        if activities is not None:
            steps = step_marks.ranges.filter(pl.col("iteration").is_not_null())
            if range_ops.ops.height:
                activities = link_ops(activities, range_ops.ops, range_ops.nesting)
            activities = activities.with_columns(iterations_at_times(steps, activities["launch_ns"]).alias("iteration"))
    if activities is not None:
        frames["activities"] = activities.drop(LAUNCH)
    return frames
