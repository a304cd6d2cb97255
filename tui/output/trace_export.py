"""Exports for other viewers: folded stacks for flame graphs, speedscope, and trace events for Perfetto and Chrome.

Times are exact to the nanosecond. Events that overlap a time window are not cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.ops.op_attribution import recorded_sessions
from tui.analysis.ops.ops_by_name import kernels_with_ops
from tui.model.errors import ProftuiError
from tui.text import plain

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

EXACT: Final = 1 << 52
"""The largest time in nanoseconds that a double represents exactly as microseconds with three decimals."""
BLOCK: Final = 100_000
"""Events written at a time."""
OVERLAPPING: Final = 1_000_000
"""Added to the number of a track for events that partly overlap others."""
UNATTRIBUTED: Final = "(unattributed)"
_CATEGORIES: Final = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "um": "gpu_memcpy"}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range, by the clock of `start_ns`."""

    from_ns: int | None = None
    to_ns: int | None = None

    def overlapping(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with known times that overlap the range."""
        keep = pl.col("start_ns").is_not_null() & pl.col("duration_ns").is_not_null()
        if self.to_ns is not None:
            keep &= pl.col("start_ns") < self.to_ns
        if self.from_ns is not None:
            keep &= pl.col("start_ns") + pl.col("duration_ns") > self.from_ns
        return rows.filter(keep)

    @property
    def is_all(self) -> bool:
        """Whether it includes all of the time."""
        return self.from_ns is None and self.to_ns is None


def write_folded(profile: Profile, window: TimeRange, stream: IO[bytes]) -> None:
    """Write the GPU time in nanoseconds by stack: session, modules and ops, or op types, then the kernel."""
    stack_frames = []
    if window.is_all:
        rows = kernels_with_ops(profile).filter(~pl.col("session").is_in(recorded_sessions(profile).implode()))
        stack = pl.concat_list(pl.col("op_type", "op").cast(pl.String).fill_null(UNATTRIBUTED))
        stack_frames.append(rows.select("session", pl.col("name").cast(pl.String), stack.alias("stack"), "total_ns"))
        recorded = profile["activities"].filter(pl.col("session").is_in(recorded_sessions(profile).implode()))
    else:
        recorded = window.overlapping(profile["activities"])
    ops = profile["ops"].select("op", pl.col("group").cast(pl.String), pl.col("name").cast(pl.String).alias("op_name"))
    within = pl.concat_list(pl.col("group").fill_null("").str.split("/"), pl.col("op_name").fill_null(UNATTRIBUTED))
    stack_frames.append(
        recorded.join(ops, on="op", how="left").select(
            "session", pl.col("name").cast(pl.String), within.alias("stack"), pl.col("duration_ns").alias("total_ns")
        )
    )
    has_sessions = profile["sessions"].height > 1
    for rows in stack_frames:
        session = [_fill_template("session %", "session")] if has_sessions else []
        frames = pl.concat_list(*session, "stack", "name").list.eval(
            pl.element().filter(pl.element() != "").str.replace_all(";", ":").str.replace_all(r"\s+", " ")
        )
        lines = (
            rows.filter(pl.col("total_ns") > 0)
            .with_columns(frames.list.join(";").alias("line"))
            .group_by("line", maintain_order=True)
            .agg(pl.col("total_ns").sum())
        )
        for line, total_ns in lines.iter_rows():
            stream.write(f"{plain(line)} {total_ns}\n".encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class _Track:
    """The events of a stream or a thread; events that do not nest are on separate tracks."""

    session: int
    process: str
    """GPU 0, process 412."""
    name: str
    """stream 7, thread 412, ops."""
    number: int
    """The number of the stream or thread."""
    rows: pl.DataFrame
    """Rows with `_EVENT` columns, by start, longer ones first."""


_NAME: Final = pl.col("name").cast(pl.String).fill_null("?")
_EVENT: Final = ("name", "category", "start_ns", "duration_ns", "args", "correlation")


def _tracks(profile: Profile, window: TimeRange) -> Iterator[_Track]:
    gpu = window.overlapping(profile["activities"])
    if gpu.height:
        events = gpu.select(
            "session",
            _fill_template("GPU %", pl.col("device").cast(pl.String).fill_null("?")).alias("process"),
            _fill_template("stream %", pl.col("stream").cast(pl.String).fill_null("?")).alias("track"),
            pl.col("stream").fill_null(0).alias("number"),
            _NAME,
            pl.col("kind").cast(pl.String).replace_strict(_CATEGORIES, default="gpu").alias("category"),
            "start_ns",
            "duration_ns",
            _args(_GPU_ARGS).alias("args"),
            "correlation",
        )
        yield from _split(events)
    threads = []
    for frame, category in (("ops", "cpu_op"), ("ranges", "user_annotation"), ("api_calls", "cuda_runtime")):
        rows = window.overlapping(profile[frame])
        facts = {"ops": _OP_ARGS, "api_calls": {"correlation": "correlation"}}.get(frame, {})
        threads.append(
            rows.select(
                "session",
                _fill_template("process %", pl.col("pid").cast(pl.String).fill_null("?")).alias("process"),
                _fill_template("thread %", pl.col("tid").cast(pl.String).fill_null("?")).alias("track"),
                pl.col("tid").fill_null(0).alias("number"),
                _NAME,
                pl.lit(category).alias("category"),
                "start_ns",
                "duration_ns",
                _args(facts).alias("args"),
                (pl.col("correlation") if frame == "api_calls" else pl.lit(None, pl.Int64)).alias("correlation"),
            )
        )
    yield from _split(pl.concat(threads))


_GPU_ARGS: Final = {
    "device": "device",
    "context": "context",
    "stream": "stream",
    "correlation": "correlation",
    "registers per thread": "registers",
    "bytes": "size_bytes",
    "iteration": "iteration",
}
_OP_ARGS: Final = {"External id": "op", "iteration": "iteration"}


def _args(facts: dict[str, str]) -> pl.Expr:
    """Return facts as the members of a JSON object, without unknown ones."""
    if not facts:
        return pl.lit("")
    members = [
        pl.when(pl.col(column).is_not_null()).then(_fill_template(f"{json.dumps(name)}:%", column))
        for name, column in facts.items()
    ]
    return pl.concat_list(members).list.drop_nulls().list.join(",")


def _split(events: pl.DataFrame) -> Iterator[_Track]:
    """Return a track per stream or thread, and further tracks for events that overlap others partially."""
    keys = ["session", "process", "track", "number"]
    for key, rows in events.partition_by(keys, maintain_order=True, as_dict=True).items():
        session, process, track, number = key
        rows = rows.select(_EVENT).sort("start_ns", "duration_ns", descending=[False, True], maintain_order=True)
        starts = rows["start_ns"].to_numpy()
        layer_numbers = _layers(starts, starts + rows["duration_ns"].to_numpy())
        for layer in range(int(layer_numbers.max(initial=0)) + 1):
            name = f"{track}, overlapping {layer}" if layer else str(track)
            yield _Track(session, str(process), name, number, rows.filter(pl.Series(layer_numbers == layer)))


def _layers(starts: Ints, ends: Ints) -> Ints:
    """Return a layer number for each interval, by start, so that intervals of one layer nest."""
    layers = np.zeros(len(starts), np.int64)
    if (starts[1:] >= ends[:-1]).all() or _nests(*_depths(starts, ends)):
        return layers
    stacks: list[list[int]] = []
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        for number, stack in enumerate(stacks):  # noqa: B007 (the last one is where it goes)
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                break
        else:
            number = len(stacks)
            stacks.append([])
        stacks[number].append(end)
        layers[index] = number
    return layers


def _depths(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the number of intervals that are open when each begins, by start, and the ends that determine it."""
    # Times are doubled, so that an interval of zero length ends after its begin.
    effective_ends = np.maximum(2 * ends, 2 * starts + 1)
    return np.arange(len(starts)) - np.searchsorted(np.sort(effective_ends), 2 * starts, side="right"), effective_ends


def _nests(depth: Ints, effective_ends: Ints) -> bool:
    """Return whether all intervals end within the one around them."""
    if (depth < 0).any():
        return False
    for level in range(1, int(depth.max(initial=0)) + 1):
        inner, outer = np.flatnonzero(depth == level), np.flatnonzero(depth == level - 1)
        parents = np.searchsorted(outer, inner) - 1
        if (parents < 0).any() or (effective_ends[inner] > effective_ends[outer[parents]]).any():
            return False
    return True


def write_speedscope(profile: Profile, window: TimeRange, stream: IO[bytes]) -> None:
    """Write a profile for each stream and thread, as speedscope reads them."""
    numbers: dict[str, int] = {}
    profiles = []
    has_sessions = profile["sessions"].height > 1
    for track in _tracks(_with_common_clock(profile), window):
        rows = track.rows
        for name in rows["name"].unique(maintain_order=True):
            numbers.setdefault(name, len(numbers))
        session = f"session {track.session}, " if has_sessions else ""
        profiles.append((f"{session}{track.process}, {track.name}", rows))
    if not profiles:
        raise _no_work_error(window)
    frames = [{"name": plain(name)} for name in numbers]
    head = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "proftui",
        "name": plain(", ".join(profile.sources)),
        "shared": {"frames": frames},
    }
    stream.write((json.dumps(head).removesuffix("}") + ', "profiles": [').encode())
    for index, (title, rows) in enumerate(profiles):
        ends = rows["start_ns"] + rows["duration_ns"]
        about = {
            "type": "evented",
            "name": plain(title),
            "unit": "nanoseconds",
            "startValue": rows["start_ns"].min(),
            "endValue": ends.max(),
        }
        stream.write(("," * bool(index) + "\n" + json.dumps(about).removesuffix("}") + ', "events": [').encode())
        _write_joined(_opened_and_closed(rows, numbers), stream)
        stream.write(b"]}")
    stream.write(b"]}\n")


def _opened_and_closed(rows: pl.DataFrame, numbers: dict[str, int]) -> pl.Series:
    """Return the events of a track: each frame opened and closed, properly nested."""
    starts = rows["start_ns"].to_numpy()
    ends = starts + rows["duration_ns"].to_numpy()
    opens = rows.select(
        frame=pl.col("name").replace_strict(numbers, return_dtype=pl.Int64),
        at=pl.col("start_ns"),
        # At equal times, frames close from the inside out before others open.
        opens=pl.lit(1),
        depth=pl.Series(_depths(starts, ends)[0]),
        kind=pl.lit("O"),
    )
    # Events without duration close right after they open.
    is_point = pl.lit(pl.Series(starts == ends))
    closes = opens.with_columns(
        at=pl.Series(ends),
        opens=pl.when(is_point).then(1).otherwise(0),
        depth=pl.when(is_point).then("depth").otherwise(-pl.col("depth")),
        kind=pl.lit("C"),
    )
    position = pl.int_range(pl.len())
    events = pl.concat([opens.with_columns(place=position, second=0), closes.with_columns(place=position, second=1)])
    events = events.sort("at", "opens", "depth", "place", "second")
    return events.select(_fill_template('{"type":"%","frame":%,"at":%}', "kind", "frame", "at")).to_series()


def write_chrome(profile: Profile, window: TimeRange, stream: IO[bytes]) -> None:
    """Write trace events: complete events by stream and thread, and arrows from calls to their GPU work."""
    tracks = list(_tracks(_with_distinct_ids(_with_common_clock(profile)), window))
    if not tracks:
        raise _no_work_error(window)
    first = min(int(track.rows["start_ns"][0]) for track in tracks)
    last = max(int(track.rows["start_ns"][-1]) for track in tracks)
    base = first if first < 0 or last > EXACT else 0
    head: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "otherData": {"exporter": "proftui"}}
    head |= {"baseTimeNanoseconds": base} if base else {}
    processes = list(dict.fromkeys((track.session, track.process) for track in tracks))
    has_sessions = profile["sessions"].height > 1
    metadata: list[dict[str, Any]] = []
    for pid, (session, process) in enumerate(processes, 1):
        name = f"session {session}, {process}" if has_sessions else process
        metadata.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
    placed: list[pl.DataFrame] = []
    used_lanes: set[tuple[int, int]] = set()
    for track in tracks:
        pid, tid = processes.index((track.session, track.process)) + 1, track.number
        while (pid, tid) in used_lanes:
            tid += OVERLAPPING
        used_lanes.add((pid, tid))
        metadata.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": track.name}})
        lane_columns = {"session": track.session, "pid": pid, "tid": tid}
        columns = [pl.lit(value, pl.Int64).alias(name) for name, value in lane_columns.items()]
        placed.append(track.rows.with_columns(*columns, ts=_microseconds(pl.col("start_ns") - base)))
    stream.write((json.dumps(head).removesuffix("}") + ', "traceEvents": [\n').encode())
    stream.write(",\n".join(json.dumps(event) for event in metadata).encode())
    for rows in placed:
        stream.write(b",\n")
        _write_joined(_complete_events(rows), stream)
    arrows = _arrows(pl.concat([rows.filter(pl.col("correlation").is_not_null()) for rows in placed]))
    if len(arrows):
        stream.write(b",\n")
        _write_joined(arrows, stream)
    stream.write(b"\n]}\n")


def _with_common_clock(profile: Profile) -> Profile:
    """Return the sessions on one clock, if the input records the Unix time of each session's zero."""
    sessions = profile["sessions"]
    if sessions.height < 2 or sessions["origin_ns"].null_count():
        return profile
    shift = pl.col("session").replace_strict(
        sessions["session"], sessions["origin_ns"] - sessions["origin_ns"].min(), return_dtype=pl.Int64
    )
    moved = {
        name: profile[name].with_columns(pl.col("start_ns") + shift)
        for name in ("activities", "ops", "ranges", "api_calls")
    }
    return replace(profile, frames={**profile.frames, **moved})


def _with_distinct_ids(profile: Profile) -> Profile:
    """Return the sessions with correlation ids that differ: a reader of the trace links work to calls by them."""
    linked = ("activities", "api_calls")
    if profile["sessions"].height < 2:
        return profile
    ids = 1 + max(profile[name]["correlation"].max() or 0 for name in linked)  # type: ignore[operator]
    shifted = pl.col("correlation") + pl.col("session").cast(pl.Int64) * ids
    frames = {name: profile[name].with_columns(shifted.alias("correlation")) for name in linked}
    return replace(profile, frames={**profile.frames, **frames})


def _microseconds(time_ns: pl.Expr) -> pl.Expr:
    """Format nanoseconds as microseconds with three decimals, the unit of trace events."""
    return _fill_template("%.%", time_ns // 1000, (time_ns % 1000).cast(pl.String).str.zfill(3))


def _fill_template(template: str, *values: str | pl.Expr) -> pl.Expr:
    """Fill the values of columns into a template, one for each ``%``."""
    first, *following = template.split("%")
    parts: list[pl.Expr] = [pl.lit(first)]
    for value, text in zip(values, following, strict=True):
        parts += [(pl.col(value) if isinstance(value, str) else value).cast(pl.String), pl.lit(text)]
    return pl.concat_str(parts)


def _complete_events(rows: pl.DataFrame) -> pl.Series:
    names = {name: json.dumps(plain(name)) for name in rows["name"].unique()}
    event = _fill_template(
        '{"ph":"X","name":%,"cat":"%","pid":%,"tid":%,"ts":%,"dur":%,"args":{%}}',
        pl.col("name").replace_strict(names, return_dtype=pl.String),
        *("category", "pid", "tid", "ts"),
        _microseconds(pl.col("duration_ns")),
        "args",
    )
    return rows.select(event).to_series()


def _arrows(rows: pl.DataFrame) -> pl.Series:
    """Return arrows from each call to the GPU work that it launched, by correlation."""
    is_call = pl.col("category") == "cuda_runtime"
    calls = rows.filter(is_call).unique(["session", "correlation"], keep="first", maintain_order=True)
    pairs = rows.filter(~is_call).join(calls, on=["session", "correlation"], suffix="_call").with_row_index("arrow", 1)
    begin = _fill_template(
        '{"ph":"s","id":%,"cat":"ac2g","name":"ac2g","pid":%,"tid":%,"ts":%}',
        *("arrow", "pid_call", "tid_call", "ts_call"),
    )
    end = _fill_template(
        '{"ph":"f","bp":"e","id":%,"cat":"ac2g","name":"ac2g","pid":%,"tid":%,"ts":%}',
        *("arrow", "pid", "tid", "ts"),
    )
    return pl.concat([pairs.select(begin).to_series(), pairs.select(end).to_series()])


def _write_joined(texts: pl.Series, stream: IO[bytes]) -> None:
    """Write JSON values separated by commas, a batch at a time."""
    for start in range(0, len(texts), BLOCK):
        stream.write(b",\n" * bool(start) + ",\n".join(texts.slice(start, BLOCK).to_list()).encode())


def _no_work_error(window: TimeRange) -> ProftuiError:
    if window.is_all:
        return ProftuiError("start times are not recorded, and the trace needs them", "use --format folded")
    return ProftuiError("nothing ran in this window", "--from and --to use the clock of the Start columns")


WRITERS: Final[dict[str, Callable[[Profile, TimeRange, IO[bytes]], None]]] = {
    "folded": write_folded,
    "speedscope": write_speedscope,
    "chrome": write_chrome,
}
"""The writers, by the name of the format: `tui.cli.arguments.TRACE_FORMATS`."""
