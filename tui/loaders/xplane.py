"""Reads an XSpace (``xplane.pb``), which XLA's profiler writes for JAX, TensorFlow 2 and PyTorch/XLA.

Field numbers are those of ``tsl/profiler/protobuf/xplane.proto``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tui.cache.secure_files import unnamed_file
from tui.cache.spill import PieceCollector, sort_rows
from tui.correlation.plausible_times import drop_outlier_events
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector
from tui.loaders.protobuf_wire import FieldKind, Fields, Integers, Messages, WireFile, WireReader
from tui.loaders.xla_trace import LAUNCH, STEP_LINES, XlaEvents, convert, report_skipped_events
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.schema import NAME
from tui.text import map_distinct, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_SPACE_PLANES, _SPACE_ERRORS, _SPACE_WARNINGS, _SPACE_HOSTS = 1, 2, 3, 4
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_ENTRY: Final = {1: FieldKind.INT, 2: FieldKind.SPAN}
_LINE_ID, _LINE_NAME, _LINE_TIME, _LINE_EVENTS, _LINE_DISPLAY_NAME = 1, 2, 3, 4, 11
_EVENT: Final = {1: FieldKind.INT, 2: FieldKind.INT, 3: FieldKind.INT, 4: FieldKind.SPAN}
_STAT: Final = {
    1: FieldKind.INT,
    2: FieldKind.DOUBLE,
    3: FieldKind.INT,
    4: FieldKind.INT,
    5: FieldKind.SPAN,
    7: FieldKind.INT,
}
_TIMES: Final = {1: FieldKind.INT, 2: FieldKind.INT, 3: FieldKind.INT}
_EVENT_TYPE: Final = {2: FieldKind.SPAN, 4: FieldKind.SPAN, 5: FieldKind.SPAN}
_STAT_TYPE: Final = {2: FieldKind.SPAN}

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "context_id": ("context_id",),
    "hlo_module": ("hlo_module",),
    "hlo_op": ("hlo_op",),
    "op_path": ("name",),
    "tf_op": ("tf_op",),
    "source": ("source_stack", "source"),
    "kernel_details": ("kernel_details",),
    "memcpy_details": ("memcpy_details",),
    "memset_details": ("memset_details",),
    "annotation": ("annotation",),
}
_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "correlation": ("correlation_id",),
    "graph_node": ("cuda_graph_node_id",),
    "scope": ("scope_range_id",),
    "step": ("step_num",),
    "group": ("group_id",),
}
"""Columns, and the names of the stats that fill them; the first that an event has is used."""

_GPU: Final = re.compile(r"/device:GPU:([0-9]{1,9})\b")
_ACCELERATOR: Final = re.compile(r"/device:(?!GPU:)(.+)")
_STREAM: Final = re.compile(r"stream #([0-9]{1,18})", re.IGNORECASE)
_NO_CPU: Final = ("/host:metadata",)
_PYTHON: Final = "$"
_FACTS: Final = {
    "core_count": "sm_count",
    "memory_size": "memory_bytes",
    "memory_bandwidth": "memory_bandwidth",
    "max_threads_per_sm": "max_threads_per_sm",
}


@dataclass(slots=True)
class Space:
    """The content of an XSpace."""

    events: XlaEvents
    accelerators: pl.DataFrame
    """Events of accelerators other than GPUs: name, thread (device and line), start_ns, duration_ns."""
    devices: pl.DataFrame
    """GPUs, with columns of the model."""
    hosts: list[str]
    messages: list[tuple[str, str]]
    """Errors and warnings of the profiler."""
    origin_ns: int | None
    """The Unix time of start 0, if recorded."""
    skipped_cpu_events: int
    """The number of CPU events that are skipped: their durations are negative."""


@dataclass(slots=True)
class _Plane:
    """The metadata of a plane: names of events and stats by number."""

    wire: WireReader
    """The bytes of the metadata."""
    events: Messages
    """Event types."""
    order: Integers
    """The event types by number."""
    ids: Integers
    """Their numbers, sorted."""
    names: pl.Series
    """The names of the event types, and null for an unknown type."""
    is_python: npt.NDArray[np.bool_]
    """Which of these are functions of Python."""
    stats: dict[int, str]
    """Names of stat types; string values are entries of it too."""

    def stat_ids(self, names: Sequence[str]) -> list[list[int]]:
        """Return the numbers of stats by name, in the order of ``names``."""
        return [[number for number, name in self.stats.items() if name == stat_name] for stat_name in names]

    def type_rows(self, numbers: Integers) -> Integers:
        """Return the row of each number among the event types; -1 if unknown."""
        if not len(self.ids):
            return np.full(len(numbers), -1)
        positions = np.minimum(np.searchsorted(self.ids, numbers, side="right") - 1, len(self.ids) - 1)
        return np.where(self.ids[positions] == numbers, self.order[positions], -1)


def read_space(content: WireFile, keep_going: Callable[[int, int], bool]) -> Space:
    """Read an XSpace.

    Args:
        content: The bytes.
        keep_going: Called with the position and the number of rows from time to time; reading ends when it returns
            False.
    """
    space = content.fields(0, content.size)
    reader = _SpaceReader(content, keep_going)
    for begin, end in zip(*(positions.tolist() for positions in space.positions(_SPACE_PLANES)), strict=True):
        if not reader.should_continue(begin):
            break
        reader.read_plane(content.fields(begin, end))
    messages = [
        (severity, str(text))
        for number, severity in ((_SPACE_ERRORS, "error"), (_SPACE_WARNINGS, "warning"))
        for text in content.texts(*space.positions(number))
    ]
    return Space(
        reader.events(),
        reader.accelerators.frame(),
        pl.DataFrame(reader.devices, schema=_DEVICES),
        content.texts(*space.positions(_SPACE_HOSTS)),
        messages,
        reader.origin_ns,
        reader.skipped_cpu_events,
    )


class _SpaceReader:
    """Collects the events of planes, by the kind of plane: GPU, other accelerator, CPU."""

    def __init__(self, content: WireFile, keep_going: Callable[[int, int], bool]) -> None:
        self._content = content
        self._keep_going = keep_going
        self._gpu = PieceCollector({name: dtype for name, dtype in _GPU_SCHEMA.items() if name != "line"})
        self._derived_lines = PieceCollector({name: _GPU_SCHEMA[name] for name in _DERIVED_COLUMNS})
        self._derived_counts: Counter[str] = Counter()
        self._host = PieceCollector({name: _SCHEMA[name] for name in _HOST_COLUMNS})
        self._python_calls = 0
        self.skipped_cpu_events = 0
        """The number of CPU events that are skipped: their durations are negative."""
        self.accelerators = PieceCollector({name: _GPU_SCHEMA[name] for name in _ACCELERATOR_COLUMNS})
        self.devices: list[dict[str, Any]] = []
        """Facts about the GPUs, as rows of ``devices``."""
        self.origin_ns: int | None = None

    def should_continue(self, position: int) -> bool:
        """Report the position and the number of rows; False once reading should stop."""
        collectors = (self._gpu, self._derived_lines, self._host, self.accelerators)
        return self._keep_going(position, sum(rows.height for rows in collectors))

    def read_plane(self, fields: Fields) -> None:
        """Add the events and facts of a plane."""
        name = next(iter(self._content.texts(*fields.positions(_PLANE_NAME))), "")
        if name in _NO_CPU:
            return
        plane = _read_plane(self._content, fields)
        gpu, accelerator = _GPU.search(name), _ACCELERATOR.match(name)
        if gpu is not None:
            self.devices.append({"device": int(gpu[1]), **_facts(plane, self._content, fields)})
        elif name == "Task Environment":
            start = _plane_stats(plane, self._content, fields).get("profile_start_time")
            self.origin_ns = start if isinstance(start, int) and start > 0 else self.origin_ns
        for line in _lines(self._content, fields, self.should_continue):
            if gpu is not None:
                self._read_gpu_line(line, plane, int(gpu[1]))
            elif accelerator is not None:
                for rows, _ in line.events(self._content, plane, self.should_continue, ()):
                    thread = pl.lit(f"{accelerator[1]} {line.name}", NAME)
                    self.accelerators.add(
                        rows.select(*_present(rows, _ACCELERATOR_COLUMNS)).with_columns(thread=thread)
                    )
            elif name.startswith("/host:"):
                for rows, skipped in line.events(
                    self._content, plane, self.should_continue, _HOST_COLUMNS, skip_python=True
                ):
                    self._python_calls += skipped
                    # They cannot be nested. Negative durations of GPU work become unknown instead.
                    if negative := int((rows["duration_ns"] < 0).sum()):
                        self.skipped_cpu_events += negative
                        rows = rows.filter(pl.col("duration_ns") >= 0)
                    self._host.add(rows.select(*_present(rows, _HOST_COLUMNS)))

    def _read_gpu_line(self, line: _PlaneLine, plane: _Plane, device: int) -> None:
        """Add the events of a stream; of a line that the profiler derived from the streams, only steps."""
        columns = {"device": pl.lit(device, pl.Int32), "thread": pl.lit(line.name, NAME)}
        if (stream := _STREAM.match(line.name)) is not None:
            columns["stream"] = pl.lit(int(stream[1]), pl.Int64)
            for rows, _ in line.events(self._content, plane, self.should_continue, _ALL_STATS):
                self._gpu.add(rows.with_columns(**columns))
            return
        self._derived_counts[line.name] += line.count
        if line.name.startswith(STEP_LINES):
            for rows, _ in line.events(self._content, plane, self.should_continue, ("group",)):
                self._derived_lines.add(rows.select(*_present(rows, _DERIVED_COLUMNS)).with_columns(**columns))

    def events(self) -> XlaEvents:
        """Return the events of GPUs and CPU, once."""
        gpu_rows = sort_rows(self._gpu.frame(), "start_ns")
        return XlaEvents(
            gpu_rows.with_columns(_op_of_annotation(gpu_rows["annotation"]), pl.lit(None, pl.UInt32).alias("line")),
            self._derived_lines.frame().with_columns(line=pl.lit(None, pl.UInt32)),
            _sorted_host(self._host.frame()),
            derived_counts=self._derived_counts,
            python_calls=self._python_calls,
            implausible_count=0,
        )


def _present(rows: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in rows.columns]


def _sorted_host(rows: pl.DataFrame) -> pl.DataFrame:
    """Return events of the CPU by start; columns without values are added last, where they take no memory."""
    return sort_rows(rows, "start_ns").with_columns(pid=pl.lit(None, pl.Int64), line=pl.lit(None, pl.UInt32))


def _op_of_annotation(annotations: pl.Series) -> pl.Expr:
    """Return the TensorFlow op, ``path:type``, which older versions write only in an annotation."""

    def op(annotation: str) -> str | None:
        match = _ANNOTATED_OP.match(annotation)
        return None if match is None or match[1].startswith("Thunk:") else match[1]

    return pl.coalesce("tf_op", pl.when(pl.col("hlo_op").is_null()).then(map_distinct(annotations, op, NAME))).alias(
        "tf_op"
    )


_ANNOTATED_OP: Final = re.compile(r"([^#:]+:[A-Za-z_]\w*)")
_SCHEMA: Final = {
    "name": NAME,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    **dict.fromkeys(_TEXTS, NAME),
    **dict.fromkeys(_NUMBERS, pl.Int64),
    "line": pl.UInt32,
}
_HOST_COLUMNS: Final = (
    *("name", "tid", "start_ns", "duration_ns", "correlation", "step"),
    *("memcpy_details", "memset_details"),
)
"""What is needed of events of the CPU, of which there are most."""
_GPU_SCHEMA: Final = {**_SCHEMA, "device": pl.Int32, "thread": NAME, "stream": pl.Int64}
_DERIVED_COLUMNS: Final = ("name", "start_ns", "duration_ns", "group", "device", "thread")
_ACCELERATOR_COLUMNS: Final = ("name", "thread", "start_ns", "duration_ns")
_ALL_STATS: Final = (*_TEXTS, *_NUMBERS)
_DEVICES: Final = {
    "device": pl.Int32,
    "name": NAME,
    "compute_capability": pl.String,
    "sm_count": pl.Int32,
    "memory_bytes": pl.Int64,
    "memory_bandwidth": pl.Float64,
    "max_threads_per_sm": pl.Int32,
}


def _read_plane(content: WireFile, plane_fields: Fields) -> _Plane:
    """Read the metadata of a plane; a map is a list of entries with key and value."""
    is_type, is_stat = (plane_fields.numbers == number for number in (_PLANE_EVENTS, _PLANE_STATS))
    is_metadata = is_type | is_stat
    wire, begins, ends = content.gather(plane_fields.begins[is_metadata], plane_fields.ends[is_metadata])
    types = wire.messages(begins[is_type[is_metadata]], ends[is_type[is_metadata]], _ENTRY)
    events = wire.messages(*types.spans(2).last_by_owner(types.count), _EVENT_TYPE)
    names = wire.texts(*events.spans(2).last_by_owner(events.count))
    display_names = wire.texts(*events.spans(4).last_by_owner(events.count))
    names = [display or name for display, name in zip(display_names, names, strict=True)]
    stat_entries = wire.messages(begins[is_stat[is_metadata]], ends[is_stat[is_metadata]], _ENTRY)
    stats = wire.messages(*stat_entries.spans(2).last_by_owner(stat_entries.count), _STAT_TYPE)
    stat_names = wire.texts(*stats.spans(2).last_by_owner(stats.count))
    content.damaged += wire.damaged
    order = np.argsort(types.ints(1), kind="stable")
    return _Plane(
        wire,
        events,
        order,
        types.ints(1)[order],
        pl.Series([*names, None], dtype=pl.String).cast(NAME),
        np.array([*(name is not None and name.startswith(_PYTHON) for name in names), False]),
        {number: name or "" for number, name in zip(stat_entries.ints(1).tolist(), stat_names, strict=True)},
    )


def _plane_stats(plane: _Plane, content: WireFile, plane_fields: Fields) -> dict[str, int | float | str | None]:
    """Return the stats of the plane itself, by name."""
    wire, begins, ends = content.gather(*plane_fields.positions(_PLANE_OWN_STATS))
    stats = wire.messages(begins, ends, _STAT)
    texts = wire.texts(*stats.spans(5).last_by_owner(stats.count))
    stats_by_name: dict[str, int | float | str | None] = {}
    for row, number in enumerate(stats.ints(1).tolist()):
        value: int | float | str | None = texts[row]
        if stats.has(7)[row]:
            value = plane.stats.get(int(stats.ints(7)[row]))
        elif stats.has(2)[row]:
            value = float(stats.values(2)[row])
        elif value is None:
            value = int(stats.ints(3)[row] if stats.has(3)[row] else stats.ints(4)[row])
        stats_by_name[plane.stats.get(number, "")] = value
    return stats_by_name


def _facts(plane: _Plane, content: WireFile, plane_fields: Fields) -> dict[str, Any]:
    """Return the facts about the GPU of a plane."""
    stats = _plane_stats(plane, content, plane_fields)
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    facts: dict[str, Any] = {
        column: value
        for name, column in _FACTS.items()
        if isinstance(value := stats.get(name), int) and 0 < value < 1 << 50
    }
    for column in ("sm_count", "max_threads_per_sm"):
        if facts.get(column, 0) >= 1 << 31:
            del facts[column]
    if isinstance(device_name := stats.get("gpu_device_name"), str) and device_name:
        facts["name"] = device_name
    is_nvidia = str(stats.get("device_vendor") or "").lower() != "amd"
    if isinstance(major, int) and isinstance(minor, int) and 0 < major < 100 and is_nvidia:
        facts["compute_capability"] = f"{major}.{minor}"
    return facts


@dataclass(slots=True)
class _PlaneLine:
    """A line of a plane."""

    name: str
    tid: int
    start_ns: int
    count: int
    """The number of its events."""
    windows: list[tuple[int, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]
    """Its events: a position, and the begins and ends of events relative to it."""

    def events(
        self,
        content: WireFile,
        plane: _Plane,
        keep_going: Callable[[int], bool],
        stats: Sequence[str],
        *,
        skip_python: bool = False,
    ) -> Iterator[tuple[pl.DataFrame, int]]:
        """Yield the events in pieces with some of the stats, and the number of Python calls excluded from each."""
        for position, begins, ends in self.windows:
            wire = content.wire(position, position + int(ends[-1]))
            event_begins, event_ends = begins.astype(np.int64), ends.astype(np.int64)
            count = len(event_begins)
            if skip_python:
                # Most events of JAX are calls of Python functions, which are omitted: the first field is the event
                # type.
                is_kept = ~plane.is_python[plane.type_rows(wire.leading_ints(event_begins, 1))]
                event_begins, event_ends = event_begins[is_kept], event_ends[is_kept]
            rows = _events(plane, wire, event_begins, event_ends, stats).with_columns(
                pl.col("start_ns") + self.start_ns, tid=pl.lit(self.tid, pl.Int64)
            )
            content.damaged += wire.damaged
            yield rows, count - len(event_begins)
            if not keep_going(position):
                return


def _lines(content: WireFile, plane_fields: Fields, keep_going: Callable[[int], bool]) -> Iterator[_PlaneLine]:
    """Return the lines of a plane. Their names can follow their events, so the events are only located here."""
    for begin, end in zip(*(positions.tolist() for positions in plane_fields.positions(_PLANE_LINES)), strict=True):
        names: dict[int, str] = {}
        ints: dict[int, int] = {}
        windows = []
        for position, fields in content.windows(begin, end):
            ints |= fields.ints
            begins, ends = fields.positions(_LINE_EVENTS)
            if len(begins):
                windows.append((position, begins.astype(np.uint32), np.minimum(ends, _MAX_POSITION).astype(np.uint32)))
            for number in (_LINE_DISPLAY_NAME, _LINE_NAME):
                text_begins, text_ends = fields.positions(number)
                names[number] = next(
                    filter(None, content.texts(position + text_begins, position + text_ends)), names.get(number, "")
                )
            if not keep_going(position):
                break
        name = names.get(_LINE_DISPLAY_NAME) or names.get(_LINE_NAME) or ""
        count = sum(len(begins) for _, begins, _ in windows)
        yield _PlaneLine(name, ints.get(_LINE_ID, 0), ints.get(_LINE_TIME, 0), count, windows)


_MAX_POSITION: Final = (1 << 32) - 1
"""The largest position in a window; an event that ends later is damaged."""


def _events(plane: _Plane, wire: WireReader, begins: Integers, ends: Integers, stats: Sequence[str]) -> pl.DataFrame:
    """Return events as rows: name, start_ns (since the begin of the line), duration_ns, and stats that some have."""
    events = wire.messages(begins, ends, _EVENT if stats else _TIMES)
    types = plane.type_rows(events.ints(1))
    return pl.DataFrame(
        {
            "name": _gather_names(plane.names, types),
            "start_ns": pl.Series(_ps_to_ns(events.ints(2))),
            "duration_ns": pl.Series(_ps_to_ns(events.ints(3))),
            **(_stats(plane, wire, events, types, stats) if stats else {}),
        }
    )


def _ps_to_ns(ps: Integers) -> Integers:
    """Return picoseconds as nanoseconds."""
    quotient: Integers = ps // 1000 + (ps % 1000 >= 500)
    return quotient


def _gather_names(names: pl.Series, codes: npt.NDArray[np.integer[Any]]) -> pl.Series:
    """Return names by position; the last, null, for -1."""
    return names.gather(pl.Series(np.where(codes < 0, len(names) - 1, codes)))


def _stats(
    plane: _Plane, wire: WireReader, events: Messages, types: Integers, columns_wanted: Sequence[str]
) -> dict[str, pl.Series]:
    """Return the wanted stats of events; missing ones are taken from the event type."""
    spans = events.spans(4)
    event_stats = wire.messages(spans.begin, spans.end, _STAT)
    type_spans = plane.events.spans(5)
    type_stats = plane.wire.messages(type_spans.begin, type_spans.end, _STAT)
    columns = {}
    for column, names in (*_TEXTS.items(), *_NUMBERS.items()):
        if column not in columns_wanted:
            continue
        vocabulary: dict[str, int] = {}
        is_text = column in _TEXTS
        values = np.full(events.count, -1, np.int64)
        has = np.zeros(events.count, np.bool_)
        for ids in plane.stat_ids(names):
            if not ids:
                continue
            for stats, owner, is_type in ((event_stats, spans.owner, False), (type_stats, type_spans.owner, True)):
                source = plane.wire if is_type else wire
                matching = np.flatnonzero(np.isin(stats.ints(1), ids))
                if not len(matching):
                    continue
                parsed = _text_codes(plane, source, stats, matching, vocabulary) if is_text else _ints(stats, matching)
                if is_type:
                    type_values = np.full(plane.events.count + 1, -1, np.int64)
                    type_has = np.zeros(plane.events.count + 1, np.bool_)
                    type_values[owner[matching]], type_has[owner[matching]] = parsed, True
                    rows = np.flatnonzero(~has & type_has[types])
                    values[rows], has[rows] = type_values[types[rows]], True
                else:
                    rows = owner[matching]
                    fresh = ~has[rows]
                    values[rows[fresh]] = parsed[fresh]
                    has[rows[fresh]] = True
        if not has.any():  # a literal takes no memory
            continue
        if is_text:
            columns[column] = _gather_names(
                pl.Series([*vocabulary, None], dtype=pl.String).cast(NAME), np.where(has, values, -1)
            )
        else:
            series = pl.Series(values)
            columns[column] = series.zip_with(
                pl.Series(has), pl.Series([None], dtype=pl.Int64).new_from_index(0, len(series))
            )
    return columns


def _ints(stats: Messages, rows: Integers) -> Integers:
    is_unsigned = stats.has(3)[rows]
    values: Integers = np.where(is_unsigned, stats.ints(3)[rows], stats.ints(4)[rows])
    return values


def _text_codes(
    plane: _Plane, wire: WireReader, stats: Messages, rows: Integers, vocabulary: dict[str, int]
) -> Integers:
    """Return the codes of stats as text in a vocabulary, to which new texts are added."""
    codes = np.empty(len(rows), np.int64)
    is_ref = stats.has(7)[rows]
    refs, positions = np.unique(stats.ints(7)[rows[is_ref]], return_inverse=True)
    known_codes = [vocabulary.setdefault(plane.stats.get(ref, ""), len(vocabulary)) for ref in refs.tolist()]
    codes[is_ref] = np.array(known_codes, np.int64)[positions]
    inline = rows[~is_ref]
    texts = wire.texts(*(ends[inline] for ends in stats.spans(5).last_by_owner(stats.count)))
    numbers = _ints(stats, inline).tolist()
    codes[~is_ref] = [
        vocabulary.setdefault(str(number) if text is None else text, len(vocabulary))
        for text, number in zip(texts, numbers, strict=True)
    ]
    return codes


FORMAT: Final = Format(
    name="xplane",
    title="XLA profiler XSpace (xplane.pb)",
    recognized_by="Protocol Buffers that begin with a plane named '/host:CPU', '/device:GPU:0' or 'Task Environment'",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="jax.profiler.start_trace(FOLDER) or tf.profiler.experimental.start(FOLDER), then open "
    "FOLDER/plugins/profile/*/*.xplane.pb",
)

_PLANE_HEADER: Final = rb"\x0a[\x80-\xff]{0,9}[\x00-\x7f]"
_PLANE_NAME_PATTERN: Final = rb"\x12.(?:/host:|/device:|/task:|Task Environment)"
_FIRST_PLANE: Final = re.compile(
    _PLANE_HEADER + rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?" + _PLANE_NAME_PATTERN, re.DOTALL
)
_LATER_PLANE_NAME: Final = re.compile(_PLANE_NAME_PATTERN, re.DOTALL)
_REPLACEMENT_BYTES: Final = "\N{REPLACEMENT CHARACTER}".encode()


class XplaneLoader:
    """Reads XSpaces."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence by the name of the first plane, which can follow its lines."""
        if _FIRST_PLANE.match(head):
            return 0.97
        is_plane = re.match(_PLANE_HEADER, head) is not None and head[:1] == b"\x0a"
        return 0.9 if is_plane and (name.endswith(".xplane.pb") or _LATER_PLANE_NAME.search(head)) else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the space.

        Raises:
            ProftuiError: The space holds no plane.
        """
        source.set_on_progress(on_progress)
        if source.head.count(_REPLACEMENT_BYTES) > len(source.head) // 64:
            raise ProftuiError(
                f"{source.display_name}: damaged by a text-mode copy",
                "copy it again in binary mode",
            )
        with _content(source) as content:

            def report_position(position: int, rows: int) -> bool:
                if source.is_plain_file:
                    source.set_bytes_read(position)
                return source.keep_going(rows)

            space = read_space(content, report_position)
        source.note_change()
        if all(rows.is_empty() for rows in (space.events.gpu, space.events.host, space.accelerators)):
            raise ProftuiError(
                f"{source.display_name}: no profile found: Protocol Buffers without plane events", FORMATS_HINT
            )
        space.events = _without_outliers(space.events, display_name=source.display_name)
        collector = Collector(source.name, source.preview)
        session = convert(space.events, collector, FORMAT.name)
        session.facts.update(host=", ".join(space.hosts) or None, origin_ns=space.origin_ns)
        if space.devices.height:
            collector.add_frame("devices", space.devices)
        _add_accelerators(space, collector)
        _report_issues(space, content.damaged, collector)
        collector.add_issues(source.notes)
        return collector.profile(partial=source.partial)


@contextmanager
def _content(source: InputFile) -> Iterator[WireFile]:
    """Return the content of an input, read on demand: from the file itself, or from an unpacked copy."""
    if source.is_plain_file:
        assert source.size is not None
        yield WireFile(source.read_at, source.size)
        return
    data = bytearray()
    with ExitStack() as stack:
        copy: IO[bytes] | None = None
        for chunk in source.chunks():
            data += chunk
            if len(data) < _MAX_MEMORY_BYTES:
                continue
            copy = copy or stack.enter_context(unnamed_file())
            copy.write(data)
            data.clear()
            if not source.keep_going():
                break
        if copy is None:
            data_bytes = bytes(data)
            yield WireFile(lambda begin, end: data_bytes[begin:end], len(data_bytes))
            return
        copy.write(data)
        copy.flush()
        descriptor = copy.fileno()
        yield WireFile(lambda begin, end: os.pread(descriptor, end - begin, begin), copy.tell())


_MAX_MEMORY_BYTES: Final = 32 << 20
"""Unpacked bytes that are kept in memory."""

XPLANE: Final = XplaneLoader()
"""The loader, for the list of loaders."""


def _without_outliers(events: XlaEvents, *, display_name: str) -> XlaEvents:
    """Return the events without CPU events whose start is implausible, which cannot be nested.

    Raises:
        ProftuiError: The times are not those of a recording.
    """
    plausible, begin_ns = drop_outlier_events({"host": events.host}, display_name=display_name)
    host = plausible["host"]
    skipped = events.host.height - host.height
    # Other events keep their times: those of CPU events must stay comparable.
    host = host.with_columns(pl.col("start_ns") + begin_ns) if begin_ns else host
    return replace(events, host=host, implausible_count=skipped)


def _add_accelerators(space: Space, collector: Collector) -> None:
    """Show events of accelerators that are no GPUs as ranges: each line of a device is a domain."""
    rows = space.accelerators
    if rows.is_empty():
        return
    lines = rows["thread"].unique(maintain_order=True)
    # Lines of a device are not threads: negative numbers distinguish them from CPU threads.
    numbers = pl.Series(range(-len(lines), 0), dtype=pl.Int64)
    ranges = rows.with_columns(
        pl.col("thread").cast(NAME).alias("domain"),
        tid=pl.col("thread").replace_strict(lines, numbers, return_dtype=pl.Int64),
    )
    collector.add_frame("ranges", ranges.select("name", "domain", "start_ns", "duration_ns", "tid"))
    reason = "the file has no GPU: work on other accelerators (TPU) is shown as ranges"
    if space.events.gpu.is_empty():
        collector.issue("info", None, "", reason)


def _report_issues(space: Space, damaged: int, collector: Collector) -> None:
    events = space.events
    for severity, text in space.messages:
        collector.issue(severity, None, text, "reported by the profiler")
    if events.host["correlation"].is_not_null().any():
        reason = f"launch calls can have the name of their kernel: such calls are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    report_skipped_events(events, collector)
    if events.gpu.is_empty() and space.accelerators.is_empty():
        reason = "no GPU work in the file: the program used no GPU, or its work was not recorded"
        collector.issue("warning", None, "", reason)
    if space.skipped_cpu_events:
        reason = f"{plural(space.skipped_cpu_events, 'CPU event')} skipped: negative duration"
        collector.issue("warning", None, "", reason)
    if damaged:
        reason = (
            f"the file is truncated or damaged: {plural(damaged, 'incomplete message')}; the readable part is shown"
        )
        collector.issue("error", None, "", reason)
