"""Reads an XSpace (``xplane.pb``), which XLA's profiler writes for JAX, TensorFlow 2 and PyTorch/XLA.

Field numbers are those of ``tsl/profiler/protobuf/xplane.proto``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector
from tui.loaders.protobuf_wire import FieldKind, Fields, Integers, Messages, WireReader
from tui.loaders.xla_trace import LAUNCH, XlaEvents, convert, report_left_out_events
from tui.model.errors import WHAT_OPENS, ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_SPACE_PLANES, _SPACE_ERRORS, _SPACE_WARNINGS, _SPACE_HOSTS = 1, 2, 3, 4
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN = 2, 3, 4, 5, 6
_ENTRY: Final = {1: FieldKind.INT, 2: FieldKind.SPAN}
_LINE_ID, _LINE_NAME, _LINE_TIME, _LINE_EVENTS, _LINE_SHOWN = 1, 2, 3, 4, 11
_EVENT: Final = {1: FieldKind.INT, 2: FieldKind.INT, 3: FieldKind.INT, 4: FieldKind.SPAN}
_STAT: Final = {
    1: FieldKind.INT,
    2: FieldKind.DOUBLE,
    3: FieldKind.INT,
    4: FieldKind.INT,
    5: FieldKind.SPAN,
    7: FieldKind.INT,
}
_EVENT_TYPE: Final = {2: FieldKind.SPAN, 4: FieldKind.SPAN, 5: FieldKind.SPAN}
_STAT_TYPE: Final = {2: FieldKind.SPAN}

_AT_ONCE: Final = 1 << 18
"""Events that are read at once, to bound the memory."""

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
_TPU: Final = re.compile(r"/device:((?:TPU|CUSTOM):.*)")
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


@dataclass(slots=True)
class _Plane:
    """The metadata of a plane: names of events and stats by number."""

    wire: WireReader
    events: Messages
    """Event types."""
    event_ids: Integers
    event_names: list[str | None]
    stats: dict[int, str]
    """Names of stat types; string values are entries of it too."""
    texts: dict[str, dict[int, int]] = field(default_factory=dict)

    def ids_of(self, names: Sequence[str]) -> list[list[int]]:
        """The numbers of stats by name, in the order of ``names``."""
        return [[number for number, name in self.stats.items() if name == wanted] for wanted in names]


def read_space(wire: WireReader, keep_going: Callable[[int], bool]) -> Space:
    """Read an XSpace.

    Args:
        wire: The bytes.
        keep_going: Called with the position from time to time; reading ends when it returns False.
    """
    space = wire.split(0, wire.size)
    found: dict[str, list[pl.DataFrame]] = {"gpu": [], "derived_lines": [], "host": [], "other": []}
    devices: list[dict[str, Any]] = []
    origin_ns = None
    python_calls = 0
    for begin, end in zip(*(positions.tolist() for positions in space.positions(_SPACE_PLANES)), strict=True):
        if not keep_going(begin):
            break
        parts = wire.split(begin, end, keep_going)
        name = next(iter(wire.texts(*parts.positions(_PLANE_NAME))), None) or ""
        plane = _plane(wire, parts)
        if gpu := _GPU.search(name):
            devices.append({"device": int(gpu[1]), **_facts(plane, parts)})
        elif name == "Task Environment":
            start = _own_stats(plane, parts).get("profile_start_time")
            origin_ns = start if isinstance(start, int) and start > 0 else origin_ns
        if name in _NO_CPU:
            continue
        for line, rows in _lines(wire, plane, parts, keep_going):
            stream = _STREAM.match(line)
            if gpu is not None:
                rows = rows.with_columns(device=pl.lit(int(gpu[1]), pl.Int32), thread=pl.lit(line))
                if stream is not None:
                    found["gpu"].append(rows.with_columns(stream=pl.lit(int(stream[1]), pl.Int64)))
                else:
                    found["derived_lines"].append(rows.select(*_OF_DERIVED))
            elif other := _TPU.match(name):
                rows = rows.with_columns(thread=pl.lit(f"{other[1]} {line}"))
                found["other"].append(rows.select("name", "thread", "start_ns", "duration_ns"))
            elif name.startswith("/host:"):
                is_python = pl.col("name").cast(pl.String).str.starts_with(_PYTHON).fill_null(False)
                own = rows.filter(~is_python)
                python_calls += rows.height - own.height
                found["host"].append(own.select(*_OF_HOST))
    said = [
        (severity, str(text))
        for number, severity in ((_SPACE_ERRORS, "error"), (_SPACE_WARNINGS, "warning"))
        for text in wire.texts(*space.positions(number))
    ]
    empty = pl.DataFrame(schema=_SCHEMA)
    on_gpu = empty.with_columns(
        device=pl.lit(None, pl.Int32), thread=pl.lit(None, pl.String), stream=pl.lit(None, pl.Int64)
    )
    joined = {
        "gpu": pl.concat([on_gpu, *found["gpu"]]).with_columns(_op_of_annotation()),
        "derived_lines": pl.concat([on_gpu.select(*_OF_DERIVED), *found["derived_lines"]]),
        "host": _sorted_host(pl.concat([empty.select(*_OF_HOST), *found.pop("host")])),
    }
    others = pl.concat([on_gpu.select("name", "thread", "start_ns", "duration_ns"), *found["other"]])
    return Space(
        XlaEvents(**joined, python_calls=python_calls, implausible_count=0),
        others,
        pl.DataFrame(devices, schema=_DEVICES) if devices else pl.DataFrame(schema=_DEVICES),
        [str(host) for host in wire.texts(*space.positions(_SPACE_HOSTS))],
        said,
        origin_ns,
    )


def _sorted_host(rows: pl.DataFrame) -> pl.DataFrame:
    """Events of the CPU by start; columns without values are added last, where they take no memory."""
    if not rows["start_ns"].is_sorted():
        rows = rows.sort("start_ns", maintain_order=True)
    return rows.with_columns(pid=pl.lit(None, pl.Int64), line=pl.lit(None, pl.UInt32))


def _op_of_annotation() -> pl.Expr:
    """The TensorFlow op, ``path:type``, which older versions write only in an annotation."""
    op = pl.col("annotation").cast(pl.String).str.extract(r"^([^#:]+:[A-Za-z_]\w*)", 1)
    op = pl.when(pl.col("hlo_op").is_null() & ~op.str.starts_with("Thunk:")).then(op)
    return pl.coalesce("tf_op", op.cast(NAME)).alias("tf_op")


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
_OF_HOST: Final = (
    *("name", "tid", "start_ns", "duration_ns", "correlation", "step"),
    *("memcpy_details", "memset_details"),
)
"""What is needed of events of the CPU, of which there are most."""
_OF_DERIVED: Final = ("name", "start_ns", "duration_ns", "group", "line", "device", "thread")
_DEVICES: Final = {
    "device": pl.Int32,
    "compute_capability": pl.String,
    "sm_count": pl.Int32,
    "memory_bytes": pl.Int64,
    "memory_bandwidth": pl.Float64,
    "max_threads_per_sm": pl.Int32,
}


def _plane(wire: WireReader, parts: Fields) -> _Plane:
    """Read the metadata of a plane; a map is a list of entries with key and value."""
    types = wire.messages(*parts.positions(_PLANE_EVENTS), _ENTRY)
    events = wire.messages(*types.spans(2).last_by_owner(types.count), _EVENT_TYPE)
    names = wire.texts(*events.spans(2).last_by_owner(events.count))
    shown = wire.texts(*events.spans(4).last_by_owner(events.count))
    stat_entries = wire.messages(*parts.positions(_PLANE_STATS), _ENTRY)
    stats = wire.messages(*stat_entries.spans(2).last_by_owner(stat_entries.count), _STAT_TYPE)
    stat_names = wire.texts(*stats.spans(2).last_by_owner(stats.count))
    return _Plane(
        wire,
        events,
        types.ints(1),
        [display or name for display, name in zip(shown, names, strict=True)],
        {number: name or "" for number, name in zip(stat_entries.ints(1).tolist(), stat_names, strict=True)},
    )


def _own_stats(plane: _Plane, parts: Fields) -> dict[str, int | float | str | None]:
    """The stats of the plane itself, by name."""
    stats = plane.wire.messages(*parts.positions(_PLANE_OWN), _STAT)
    texts = plane.wire.texts(*stats.spans(5).last_by_owner(stats.count))
    found: dict[str, int | float | str | None] = {}
    for row, number in enumerate(stats.ints(1).tolist()):
        value: int | float | str | None = texts[row]
        if stats.has(7)[row]:
            value = plane.stats.get(int(stats.ints(7)[row]))
        elif stats.has(2)[row]:
            value = float(stats.values(2)[row])
        elif value is None:
            value = int(stats.ints(3)[row] if stats.has(3)[row] else stats.ints(4)[row])
        found[plane.stats.get(number, "")] = value
    return found


def _facts(plane: _Plane, parts: Fields) -> dict[str, Any]:
    """The facts about the GPU of a plane."""
    said = _own_stats(plane, parts)
    major, minor = said.get("compute_cap_major"), said.get("compute_cap_minor")
    facts: dict[str, Any] = {
        column: value
        for name, column in _FACTS.items()
        if isinstance(value := said.get(name), int) and 0 < value < 1 << 50
    }
    for column in ("sm_count", "max_threads_per_sm"):
        if facts.get(column, 0) >= 1 << 31:
            del facts[column]
    is_nvidia = str(said.get("device_vendor") or "").lower() != "amd"
    if isinstance(major, int) and isinstance(minor, int) and 0 < major < 100 and is_nvidia:
        facts["compute_capability"] = f"{major}.{minor}"
    return facts


def _lines(
    wire: WireReader, plane: _Plane, parts: Fields, keep_going: Callable[[int], bool]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The lines of a plane with name and events; a long line comes in parts."""
    for begin, end in zip(*(positions.tolist() for positions in parts.positions(_PLANE_LINES)), strict=True):
        line = wire.split(begin, end, keep_going)
        names = (*wire.texts(*line.positions(_LINE_SHOWN)), *wire.texts(*line.positions(_LINE_NAME)))
        name = next((text for text in names if text), "")
        begins, ends = line.positions(_LINE_EVENTS)
        for first in range(0, len(begins), _AT_ONCE):
            piece = slice(first, first + _AT_ONCE)
            at_ns, tid = line.ints.get(_LINE_TIME, 0), line.ints.get(_LINE_ID, 0)
            yield name, _events(plane, begins[piece], ends[piece], at_ns, tid)
            if not keep_going(int(ends[piece][-1])):
                return


def _events(plane: _Plane, begins: Integers, ends: Integers, at_ns: int, tid: int) -> pl.DataFrame:
    """Events of a line as rows of `_SCHEMA`."""
    wire = plane.wire
    events = wire.messages(begins, ends, _EVENT)
    types = np.searchsorted(plane.event_ids[order := np.argsort(plane.event_ids, kind="stable")], events.ints(1))
    types = order[np.minimum(types, max(len(order) - 1, 0))] if len(order) else np.full(events.count, -1)
    known = types >= 0
    known[known] &= plane.event_ids[types[known]] == events.ints(1)[known]
    types = np.where(known, types, -1)
    start_ps = events.ints(2)
    columns: dict[str, pl.Series] = {
        "name": _named(plane.event_names, types),
        "start_ns": pl.Series(at_ns + _rounded(start_ps)),
        "duration_ns": pl.Series(_rounded(events.ints(3))),
        **_stats(plane, events, types),
    }
    rows = pl.DataFrame(columns)
    if (rows["duration_ns"] < 0).any():
        rows = rows.filter(pl.col("duration_ns") >= 0)
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in _SCHEMA.items() if name not in columns)
    return rows.with_columns(*missing).with_columns(tid=pl.lit(tid, pl.Int64)).select(*_SCHEMA)


def _rounded(ps: Integers) -> Integers:
    """Picoseconds as nanoseconds."""
    quotient: Integers = ps // 1000 + (ps % 1000 >= 500)
    return quotient


def _named(names: Sequence[str | None], codes: npt.NDArray[np.integer[Any]]) -> pl.Series:
    """Names by position; null for -1."""
    values = pl.Series([*names, None], dtype=pl.String).cast(NAME)
    return values.gather(pl.Series(np.where(codes < 0, len(names), codes)))


def _stats(plane: _Plane, events: Messages, types: Integers) -> dict[str, pl.Series]:
    """The wanted stats of events; missing ones are taken from the event type."""
    parts = events.spans(4)
    own = plane.wire.messages(parts.begin, parts.end, _STAT)
    of_types = plane.events.spans(5)
    shared = plane.wire.messages(of_types.begin, of_types.end, _STAT)
    columns = {}
    for column, names in (*_TEXTS.items(), *_NUMBERS.items()):
        vocabulary: dict[str, int] = {}
        is_text = column in _TEXTS
        values = np.full(events.count, -1, np.int64)
        has = np.zeros(events.count, np.bool_)
        for ids in plane.ids_of(names):
            if not ids:
                continue
            for stats, owner, is_type in ((own, parts.owner, False), (shared, of_types.owner, True)):
                hit = np.flatnonzero(np.isin(stats.ints(1), ids))
                if not len(hit):
                    continue
                found = _codes(plane, stats, hit, vocabulary) if is_text else _ints(stats, hit)
                if is_type:
                    by_type = np.full(plane.events.count + 1, -1, np.int64)
                    is_given = np.zeros(plane.events.count + 1, np.bool_)
                    by_type[owner[hit]], is_given[owner[hit]] = found, True
                    rows = np.flatnonzero(~has & is_given[types])
                    values[rows], has[rows] = by_type[types[rows]], True
                else:
                    rows = owner[hit]
                    fresh = ~has[rows]
                    values[rows[fresh]] = found[fresh]
                    has[rows[fresh]] = True
        if not has.any():  # a literal takes no memory
            continue
        if is_text:
            columns[column] = _named(list(vocabulary), np.where(has, values, -1))
        else:
            series = pl.Series(values)
            columns[column] = series.zip_with(
                pl.Series(has), pl.Series([None], dtype=pl.Int64).new_from_index(0, len(series))
            )
    return columns


def _ints(stats: Messages, hit: Integers) -> Integers:
    unsigned = stats.has(3)[hit]
    chosen: Integers = np.where(unsigned, stats.ints(3)[hit], stats.ints(4)[hit])
    return chosen


def _codes(plane: _Plane, stats: Messages, hit: Integers, vocabulary: dict[str, int]) -> Integers:
    """The codes of stats as text in a vocabulary, to which new texts are added."""
    codes = np.empty(len(hit), np.int64)
    is_ref = stats.has(7)[hit]
    refs, positions = np.unique(stats.ints(7)[hit[is_ref]], return_inverse=True)
    said = [vocabulary.setdefault(plane.stats.get(ref, ""), len(vocabulary)) for ref in refs.tolist()]
    codes[is_ref] = np.array(said, np.int64)[positions]
    own = hit[~is_ref]
    texts = plane.wire.texts(*(ends[own] for ends in stats.spans(5).last_by_owner(stats.count)))
    numbers = _ints(stats, own).tolist()
    codes[~is_ref] = [
        vocabulary.setdefault(str(number) if text is None else text, len(vocabulary))
        for text, number in zip(texts, numbers, strict=True)
    ]
    return codes


FORMAT: Final = Format(
    name="xplane",
    title="XSpace of XLA's profiler (xplane.pb)",
    recognized_by="Protocol Buffers that begin with a plane called '/host:CPU', '/device:GPU:0' or 'Task Environment'",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "issues"),
    record_with="jax.profiler.start_trace(FOLDER) or tf.profiler.experimental.start(FOLDER), then open "
    "FOLDER/plugins/profile/*/*.xplane.pb",
)

_PLANE: Final = rb"\x0a[\x80-\xff]{0,9}[\x00-\x7f]"
_NAMED: Final = rb"\x12.(?:/host:|/device:|/task:|Task Environment)"
_SURE: Final = re.compile(_PLANE + rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?" + _NAMED, re.DOTALL)
_LATER: Final = re.compile(_NAMED, re.DOTALL)
_AS_TEXT: Final = "\N{REPLACEMENT CHARACTER}".encode()


class XplaneLoader:
    """Reads XSpaces."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """High by the name of the first plane, which can follow its lines."""
        if _SURE.match(head):
            return 0.97
        is_plane = re.match(_PLANE, head) is not None and head[:1] == b"\x0a"
        return 0.9 if is_plane and (name.endswith(".xplane.pb") or _LATER.search(head)) else 0.0

    def load(self, source: InputFile, report: Report = keep_going) -> Profile:
        """Read the space.

        Raises:
            ProftuiError: The space holds no plane.
        """
        source.report_to(report)
        if source.head.count(_AS_TEXT) > len(source.head) // 64:
            raise ProftuiError(
                f"{source.called}: was copied as text, which replaced bytes: it cannot be read",
                "copy it again as a binary file",
            )
        wire = WireReader.from_chunks(source.chunks(), source.unpacked_size)
        space = read_space(wire, lambda _at: source.keep_going(0))
        damaged = wire.damaged
        del wire  # as large as the file
        if all(rows.is_empty() for rows in (space.events.gpu, space.events.host, space.accelerators)):
            raise ProftuiError(
                f"{source.called}: no profile found: Protocol Buffers without an event of a plane", WHAT_OPENS
            )
        collector = Collector(source.name, source.preview)
        session = convert(space.events, collector, FORMAT.name)
        session.facts.update(host=", ".join(space.hosts) or None, origin_ns=space.origin_ns)
        if space.devices.height:
            collector.add_frame("devices", space.devices)
        _add_accelerators(space, collector)
        _report_issues(space, damaged, collector)
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial="stopped before its end" if source.stopped else source.cut_short)


XPLANE: Final = XplaneLoader()
"""The loader, for the list of loaders."""


def _add_accelerators(space: Space, collector: Collector) -> None:
    """Show events of TPUs as ranges: each line of a device is a domain."""
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
    reason = "the file has no GPU: what ran on other accelerators (TPU) is shown as ranges"
    if space.events.gpu.is_empty():
        collector.issue("info", None, "", reason)


def _report_issues(space: Space, damaged: int, collector: Collector) -> None:
    events = space.events
    for severity, text in space.messages:
        collector.issue(severity, None, text, "reported by the profiler itself")
    if events.host["correlation"].is_not_null().any():
        reason = f"a call that launched a kernel can bear the kernel's name: such calls are listed as {LAUNCH}"
        collector.issue("info", None, LAUNCH, reason)
    report_left_out_events(events, collector)
    if events.gpu.is_empty() and space.accelerators.is_empty():
        reason = "no GPU work in the file: the program used no GPU, or its work was not recorded"
        collector.issue("warning", None, "", reason)
    if damaged:
        reason = f"the file is cut or damaged: {damaged:,} messages end early; what could be read is shown"
        collector.issue("error", None, "", reason)
