"""Reads a memory snapshot of PyTorch (``torch.cuda.memory._dump_snapshot``): what the allocator holds, and its trace.

A pickle is a program: it can import modules and call what is in them. `check` walks its opcodes first, without running
any, and lets those pass that build numbers, texts, lists, tuples, dicts and sets. The unpickler that runs afterwards
refuses every import once more. The numbers of the memo, for which the unpickler would make room at once, are checked
against the size of the pickle.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import polars as pl

from tui.loaders.base import Format, Report, keep_going
from tui.loaders.collector import Collector, fit_to_model
from tui.loaders.input_issues import size_text
from tui.model.errors import ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_PLAIN: Final = (
    # What has no argument: marks, containers, their items, None, true, false, the memo's next place.
    rb"[()\]}deltsua012N\x85-\x89\x8f-\x91\x94]"
    rb"|K.|M..|J....|G.{8}|q.|h.|j....|r..[\x00-\x0f]\x00|\x80.|\x95.{8}"
)
_COUNTED: Final = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(256))
_RUN: Final = re.compile(
    rb"(?:%s|[\x8cUC\x8a](?:%s)|[IFLVS][^\n]{0,1000}\n|[pg]\d{1,6}\n)*+" % (_PLAIN, _COUNTED), re.DOTALL
)
"""Opcodes that are passed over at the speed of the regular expression engine."""

_OPCODE_SIZES: Final = {
    b"X": ("<I", 4),
    b"T": ("<i", 4),
    b"B": ("<I", 4),
    b"\x8b": ("<i", 4),
    b"\x8d": ("<Q", 8),
    b"\x8e": ("<Q", 8),
}
"""Opcodes with the number of bytes that follow: its form and its own size."""
_PUT: Final = b"r"
_STOP: Final = b"."
_NAMES: Final = {one.code.encode("latin-1"): one.name for one in pickletools.opcodes}
_LONGEST_ARGUMENT: Final = 1002
"""Bytes of an opcode that is passed over at once."""

_FAULTS: Final = (
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""What the unpickler raises for damage."""


class UnsafePickleError(Exception):
    """A pickle wants something that is no builtin value; the message names it."""


class DamagedPickleError(Exception):
    """A pickle ends early or is damaged; the message says where."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
        """Up to this byte it is sound."""


class _Builtins(pickle.Unpickler):
    """Builds builtins only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


class _SlowBuiltins(pickle._Unpickler):
    """The same in Python, so that what it has built can be looked at."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


def load_pickle(data: bytes) -> Any:
    """What a pickle holds.

    Raises:
        UnsafePickleError: It names something to import, or builds what is no builtin value.
        DamagedPickleError: It ends early or is damaged.
    """
    check(data)
    try:
        return _Builtins(io.BytesIO(data)).load()
    except _FAULTS as error:
        raise DamagedPickleError(str(error) or type(error).__name__, len(data)) from error


def check(data: bytes) -> None:
    """Walk the opcodes of a pickle; none is run.

    Raises:
        UnsafePickleError: An opcode is not one of those that build builtin values.
        DamagedPickleError: It ends before its last opcode, or an argument cannot be true.
    """
    at = 0
    while True:
        found = _RUN.match(data, at)
        at = found.end() if found else at
        code = data[at : at + 1]
        if code == _STOP:
            return
        if code in _OPCODE_SIZES:
            form, width = _OPCODE_SIZES[code]
            argument = data[at + 1 : at + 1 + width]
            size = struct.unpack(form, argument)[0] if len(argument) == width else -1
            if not 0 <= size <= len(data) - at - 1 - width:
                raise DamagedPickleError("it ends within a value", at)
            at += 1 + width + size
        elif code == _PUT:
            if len(data) < at + 5 or int.from_bytes(data[at + 1 : at + 5], "little") > len(data):
                raise DamagedPickleError("it numbers more values than it can hold", at)
            at += 5
        else:
            _refuse(data, at, code)


def _refuse(data: bytes, at: int, code: bytes) -> NoReturn:
    known = _NAMES.get(code)
    could_be = _RUN.match(code + b"0" * 300 + b"\n") if known else None
    if known is None or (could_be is not None and could_be.end()):
        raise DamagedPickleError("it ends early" if len(data) - at < _LONGEST_ARGUMENT else "it is damaged", at)
    name = f"the opcode {known}"
    try:
        # All before is known to be harmless, and this opcode is refused by name where it imports anything.
        _Builtins(io.BytesIO(data[: at + 2048])).load()
    except UnsafePickleError as error:
        name = str(error)
    except _FAULTS:
        pass
    raise UnsafePickleError(name)


def load_beginning(data: bytes, end: int) -> Any:
    """What the beginning of a damaged pickle holds, as if all that is open at ``end`` were closed there.

    Only bytes that `check` has passed are run. None where nothing was built.
    """
    reader = _SlowBuiltins(io.BytesIO(data[:end]))
    try:
        reader.load()
    except (*_FAULTS, UnsafePickleError):
        pass
    levels = [*getattr(reader, "metastack", ()), getattr(reader, "stack", [])]
    for items, below in zip(reversed(levels), reversed(levels[:-1]), strict=False):
        container = below[-1] if below else None
        if isinstance(container, list):
            container.extend(items)
        elif isinstance(container, dict):
            if len(items) % 2 and len(items) > 2 and isinstance(items[-2], list):
                # The only item of a list is not marked off from it.
                items[-2].append(items[-1])
            pairs = zip(items[::2], items[1::2], strict=False)
            container.update((key, value) for key, value in pairs if isinstance(key, str))
    return levels[0][0] if levels and levels[0] else None


_WORD: Final = range(-(1 << 63), 1 << 63)
_IN_TORCH: Final = ("/torch/", "\\torch\\", "/torch_npu/", "<frozen ", "<string>", "<eval_with_key>")
"""Parts of paths of what is not the user's own program."""
_UNKNOWN: Final = ("", "??")
_LONGEST_TEXT: Final = 4096
"""Characters: no path and no name of a function is longer."""

ACTIVE: Final = ("active_allocated", "active_awaiting_free", "active_pending_free")
"""States of blocks that hold memory; all but the first were released and wait for other streams."""


def whole(value: object) -> int | None:
    """A value of the snapshot that should be a whole number; None where it is none that fits."""
    return value if type(value) is int and value in _WORD else None


def text(value: object) -> str | None:
    """A value of the snapshot that should be a text."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def items(value: object) -> list[Mapping[str, Any]]:
    """The dicts of what should be a list of dicts."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []


@dataclass(slots=True)
class Stacks:
    """Call stacks as text, each made once: snapshots share the frames of equal stacks."""

    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _texts: list[str | None] = field(default_factory=lambda: [None])
    _sites: list[str | None] = field(default_factory=lambda: [None])
    _frames: dict[int, tuple[str, bool]] = field(default_factory=dict)

    def number(self, frames: object) -> int:
        """The number of a stack; 0 stands for none."""
        if not isinstance(frames, list) or not frames:
            return 0
        key = tuple(map(id, frames))
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self._texts)
            lines = [self._frame(frame) for frame in frames if isinstance(frame, dict)]
            self._texts.append(";".join(line for line, _ in lines if line) or None)
            self._sites.append(next((line for line, is_users in lines if is_users), None))
        return known

    def columns(self, numbers: Sequence[int]) -> tuple[pl.Series, pl.Series]:
        """For stacks by number: ``stack``, innermost frame first with ``;`` between, and ``call_site``.

        The latter is the innermost line of Python that is not of PyTorch itself.
        """
        at = pl.Series(numbers, dtype=pl.UInt32)
        stacks = pl.Series("stack", self._texts, dtype=pl.String).cast(NAME).gather(at)
        return stacks, pl.Series("call_site", self._sites, dtype=pl.String).cast(NAME).gather(at)

    def _frame(self, frame: Mapping[str, Any]) -> tuple[str, bool]:
        """A frame as text, empty where nothing is known of it, and whether it is the user's own."""
        known = self._frames.get(id(frame))
        if known is None:
            file, name, line = (
                text(frame.get("filename")) or "",
                text(frame.get("name")) or "",
                whole(frame.get("line")),
            )
            said = f"{file}({line or '?'}): {name}" if file not in _UNKNOWN else ""
            is_users = file.endswith(".py") and not any(part in file for part in _IN_TORCH)
            known = self._frames[id(frame)] = (said.replace(";", ","), is_users)
        return known


def _column(rows: Iterable[Mapping[str, Any]], key: str, take: Callable[[object], Any] = whole) -> list[Any]:
    return [take(row.get(key)) for row in rows]


def segments_frame(segments: Sequence[Mapping[str, Any]], stacks: Stacks) -> pl.DataFrame:
    """One row a segment: columns of ``memory_segments``."""
    sizes = {"reserved_bytes": "total_size", **{f"{name}_bytes": f"{name}_size" for name in _SIZES}}
    stack, _ = stacks.columns([stacks.number(one.get("frames")) for one in segments])
    return pl.DataFrame(
        {
            "segment": pl.Series(range(len(segments)), dtype=pl.UInt32),
            **{name: pl.Series(_column(segments, name), dtype=pl.Int64) for name in ("device", "address", "stream")},
            **{name: pl.Series(_column(segments, key), dtype=pl.Int64) for name, key in sizes.items()},
            "segment_type": pl.Series(_column(segments, "segment_type", text), dtype=pl.String),
            "pool": pl.Series([_pool(one.get("segment_pool_id")) for one in segments], dtype=pl.String),
            "is_expandable": pl.Series([_flag(one.get("is_expandable")) for one in segments], dtype=pl.Boolean),
            "stack": stack,
        }
    )


_SIZES: Final = ("allocated", "active", "requested")


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _pool(value: object) -> str | None:
    """The id of a pool; that which all share by default is none."""
    if not isinstance(value, tuple | list) or len(value) != 2 or any(whole(part) is None for part in value):
        return None
    return None if not any(value) else f"{value[0]}.{value[1]}"


def blocks_frame(segments: Sequence[Mapping[str, Any]], stacks: Stacks, limit: int) -> pl.DataFrame:
    """One row a block: columns of ``memory_blocks``.

    Args:
        segments: Of the snapshot.
        stacks: For the stacks of blocks.
        limit: So many blocks there can be at most; the others are left out.
    """
    rows: list[tuple[int | None, ...]] = []
    states: list[str | None] = []
    numbers: list[int] = []
    for segment, one in enumerate(segments):
        behind = whole(one.get("address"))
        device = whole(one.get("device"))
        for block in items(one.get("blocks")):
            if len(rows) >= limit:
                break
            history = next(iter(items(block.get("history"))), {})
            size = whole(block.get("size"))
            address = whole(block.get("address"))
            address = whole(history.get("addr")) if address is None else address
            # Blocks follow each other without gaps.
            address = behind if address is None else address
            behind = None if address is None or size is None else address + size
            requested = whole(block.get("requested_size"))
            requested = whole(history.get("real_size")) if requested is None else requested
            rows.append((segment, device, whole(address), size, requested))
            states.append(text(block.get("state")))
            numbers.append(stacks.number(block.get("frames", history.get("frames"))))
    stack, site = stacks.columns(numbers)
    names = ("segment", "device", "address", "size_bytes", "requested_bytes")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row").with_columns(
        pl.Series("state", states, dtype=pl.String), site, stack
    )


def events_frame(traces: Sequence[object], stacks: Stacks, limit: int) -> pl.DataFrame:
    """One row an event of the traces of all devices: device, action, address, size_bytes, stream, time_us, free_bytes.

    ``free_bytes`` is what the device had left when it was out of memory.
    """
    parts = []
    for device, trace in enumerate(traces):
        events = items(trace)[: max(limit, 0)]
        limit -= len(events)
        if not events:
            continue
        stack, site = stacks.columns([stacks.number(one.get("frames")) for one in events])
        keys = {"address": "addr", "size_bytes": "size", "stream": "stream", "time_us": "time_us"}
        parts.append(
            pl.DataFrame(
                {
                    "device": pl.Series([device] * len(events), dtype=pl.Int64),
                    "action": pl.Series(_column(events, "action", text), dtype=pl.String),
                    **{name: pl.Series(_column(events, key), dtype=pl.Int64) for name, key in keys.items()},
                    "free_bytes": pl.Series(_column(events, "device_free"), dtype=pl.Int64),
                    "call_site": site,
                    "stack": stack,
                }
            )
        )
    empty = pl.DataFrame(schema=_EVENTS)
    return pl.concat([empty, *(part.cast(_EVENTS) for part in parts)])  # type: ignore[arg-type]


_EVENTS: Final = {
    "device": pl.Int64,
    "action": pl.String,
    **dict.fromkeys(("address", "size_bytes", "stream", "time_us", "free_bytes"), pl.Int64),
    "call_site": NAME,
    "stack": NAME,
}


def annotations_frame(annotations: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The ranges of ``external_annotations``: name, device, start_us, duration_us; null where an end is missing."""
    open_: dict[tuple[str | None, int | None], list[int]] = {}
    rows: list[list[Any]] = []
    for one in annotations:
        key = (text(one.get("name")), whole(one.get("device")))
        time = whole(one.get("time_us"))
        if one.get("stage") == "START" and time is not None:
            open_.setdefault(key, []).append(len(rows))
            rows.append([*key, time, None])
        elif one.get("stage") == "END" and time is not None and open_.get(key):
            row = rows[open_[key].pop()]
            row[3] = time - row[2]
    schema = {"name": pl.String, "device": pl.Int64, "start_us": pl.Int64, "duration_us": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


FORMAT: Final = Format(
    name="torch-memory-snapshot",
    title="PyTorch memory snapshot",
    recognized_by="a Python pickle of 'segments' and 'device_traces'; it may hold builtin values only",
    feeds=("sessions", "memory_events", "memory_segments", "memory_blocks", "ranges", "issues"),
    record_with="torch.cuda.memory._record_memory_history(max_entries=100000) ... "
    "torch.cuda.memory._dump_snapshot('snapshot.pickle')",
)

_PROTOCOLS: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_KEYS: Final = (b"device_traces", b"segments", b"total_size")
_HOW: Final = f"record one with: {FORMAT.record_with}"
_SHOWN: Final = 8
_NS_PER_US: Final = 1000
_LATEST_US: Final = (1 << 63) // _NS_PER_US - 1


class MemorySnapshotLoader:
    """Reads pickles of `torch.cuda.memory._snapshot`."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure of a pickle that names a part of a snapshot; of any other it can say what it is."""
        if not head.startswith(_PROTOCOLS):
            return 0.0
        return 0.97 if any(key in head for key in _KEYS) else 0.3

    def load(self, source: InputFile, report: Report = keep_going) -> Profile:
        """Read the snapshot.

        Raises:
            ProftuiError: It is no snapshot, or holds what is no builtin value.
        """
        source.report_to(report)
        data = b"".join(source.chunks())
        snapshot, fault = _unpickled(data, source)
        if (
            isinstance(snapshot, list)
            and snapshot
            and all(isinstance(one, dict) and "blocks" in one for one in snapshot)
        ):
            snapshot = {"segments": snapshot}
        if not isinstance(snapshot, dict) or not snapshot.keys() & {"segments", "device_traces"}:
            raise ProftuiError(
                f"{source.called}: {fault or 'is a Python pickle, but no memory snapshot'}: {_what(snapshot)}", _HOW
            )
        collector = Collector(source.name, source.preview)
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(tool="PyTorch memory snapshot", framework="PyTorch")
        _read(snapshot, len(data), collector)
        if fault:
            collector.issue("error", None, "", f"{fault}: what comes before is shown")
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile(partial=fault or ("stopped before its end" if source.stopped else source.cut_short))


MEMORY_SNAPSHOT: Final = MemorySnapshotLoader()
"""The loader, for the list of loaders.

Bytes of the trace are as requested. Of ``memory_events``, ``allocated_bytes`` falls when a block is released
(``free_requested``) and ``active_bytes`` when it can be used again (``free_completed``), which can wait for streams.
"""


def _unpickled(data: bytes, source: InputFile) -> tuple[Any, str]:
    """What the pickle holds, and why that is not all of it, or empty."""
    try:
        return load_pickle(data), ""
    except UnsafePickleError as error:
        raise ProftuiError(
            f"{source.called}: the pickle wants to import or call {error}, which no memory snapshot does; nothing "
            "of it was run",
            "open only snapshots written by torch.cuda.memory._dump_snapshot",
        ) from error
    except DamagedPickleError as error:
        where = f"{size_text(error.position)} of {size_text(len(data))}"
        return load_beginning(data, error.position), f"the pickle is cut or damaged ({error}), at {where}"


def _what(value: object) -> str:
    """What a pickle is instead of a snapshot."""
    if isinstance(value, dict):
        keys = ", ".join(repr(key)[:40] for key in list(value)[:_SHOWN])
        return f"it holds a dict with {keys or 'nothing in it'}"
    return f"it holds a {type(value).__name__}" if value is not None else "nothing in it can be read"


def _read(snapshot: dict[str, Any], size: int, collector: Collector) -> None:
    """Put a snapshot into the frames.

    Args:
        snapshot: Unpickled.
        size: Bytes of the pickle; each row takes more than one, however often a pickle refers to it.
        collector: Gets the rows.
    """
    stacks = Stacks()
    listed = items(snapshot.get("segments"))[:size]
    segments = segments_frame(listed, stacks)
    blocks = blocks_frame(listed, stacks, size)
    traces = snapshot.get("device_traces")
    events = events_frame(traces if isinstance(traces, list | tuple) else (), stacks, size)
    annotations = annotations_frame(items(snapshot.get("external_annotations"))[:size])
    origin = _origin(events, annotations)
    if origin is not None:
        session = collector.session
        assert session is not None
        session.facts["origin_ns"] = origin * _NS_PER_US
        collector.resolution(_NS_PER_US)
    collector.add_frames(
        {
            "memory_segments": fit_to_model("memory_segments", segments, collector),
            "memory_blocks": fit_to_model("memory_blocks", blocks, collector),
            "memory_events": fit_to_model(
                "memory_events", _with_totals(events, segments, blocks, origin, collector), collector
            ),
            "ranges": fit_to_model("ranges", _ranges(annotations, origin), collector),
        }
    )
    _tell(events, segments, blocks, collector)


def _origin(events: pl.DataFrame, annotations: pl.DataFrame) -> int | None:
    """The first time, in microseconds since 1970; None where events have no times."""
    times = [time for time in (events["time_us"].min(), annotations["start_us"].min()) if isinstance(time, int)]
    return min(times) if times and 0 < min(times) < _LATEST_US else None


def _since(column: str, origin: int | None) -> pl.Expr:
    """Times of a column in nanoseconds since the first one; null where they are too far from it to be true."""
    since = pl.col(column) - (origin or 0)
    is_told = since.is_between(0, 1 << 50) & pl.lit(origin is not None)
    return pl.when(is_told).then(since * _NS_PER_US)


def _ranges(annotations: pl.DataFrame, origin: int | None) -> pl.DataFrame:
    return annotations.select(
        "name", _since("start_us", origin).alias("start_ns"), pl.col("duration_us") * _NS_PER_US
    ).rename({"duration_us": "duration_ns"})


_SIGNS: Final = {
    "reserved": {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1},
    "active": {"alloc": 1, "free_completed": -1},
    "allocated": {"alloc": 1, "free_requested": -1},
    "allocated_late": {"alloc": 1, "free_completed": -1},
}
"""How actions change each total; the last is for traces that tell only when releases are completed."""


def _with_totals(
    events: pl.DataFrame, segments: pl.DataFrame, blocks: pl.DataFrame, origin: int | None, collector: Collector
) -> pl.DataFrame:
    """Events with the totals after each, by what the allocator holds at last."""
    held = _held(segments, blocks)
    signed = {
        name: pl.col("action").replace_strict(signs, default=0, return_dtype=pl.Int64)
        * pl.col("size_bytes").fill_null(0)
        for name, signs in _SIGNS.items()
    }
    parts = []
    for (device,), of_device in events.group_by("device", maintain_order=True):
        late = "free_requested" not in of_device["action"]
        changes = of_device.select(
            reserved=signed["reserved"],
            active=signed["active"],
            allocated=signed["allocated_late" if late else "allocated"],
        )
        totals = []
        for name in ("allocated", "active", "reserved"):
            running = changes[name].cum_sum()
            at_last = held.get(device, dict.fromkeys(_SIGNS, 0))[name]
            before = at_last - int(running[-1])
            least = running.min()
            if isinstance(least, int) and before + least < 0:
                collector.issue(
                    "warning",
                    None,
                    f"GPU {device}",
                    f"the segments hold {size_text(at_last)} {name}, the trace more: they are not of one moment; "
                    f"totals of {name} memory count what the trace shows alone",
                )
                before = -least
            totals.append((running + before).alias(f"{name}_bytes"))
        parts.append(of_device.with_columns(*totals, changes["allocated"].alias("delta_bytes")))
    rows = pl.concat(parts) if parts else events
    return rows.with_columns(_since("time_us", origin).alias("start_ns"), pl.lit("GPU").alias("place"))


def _held(segments: pl.DataFrame, blocks: pl.DataFrame) -> dict[Any, dict[str, int]]:
    """What each device holds at last: reserved, and as requested active and allocated."""
    reserved = dict(segments.group_by("device").agg(pl.col("reserved_bytes").sum()).iter_rows())
    size = pl.coalesce("requested_bytes", "size_bytes")
    by_device = blocks.group_by("device").agg(
        size.filter(pl.col("state").is_in(ACTIVE)).sum().alias("active"),
        size.filter(pl.col("state") == ACTIVE[0]).sum().alias("allocated"),
    )
    used = {device: (active, allocated) for device, active, allocated in by_device.iter_rows()}
    return {
        device: {"reserved": total, "active": used.get(device, (0, 0))[0], "allocated": used.get(device, (0, 0))[1]}
        for device, total in reserved.items()
    }


def _tell(events: pl.DataFrame, segments: pl.DataFrame, blocks: pl.DataFrame, collector: Collector) -> None:
    """Tell of what the snapshot lacks, and of running out of memory."""
    if segments.is_empty() and events.is_empty():
        collector.issue("warning", None, "", f"nothing was recorded: no segments and no events; {_HOW}")
        return
    if events.height < 2:
        reason = f"no trace was recorded, only what the allocator holds at last; {_HOW}"
        collector.issue("info", None, "", reason)
    elif events["time_us"].null_count() == events.height:
        collector.issue("info", None, "", "events have no times (before PyTorch 2.1): they are in order, by number")
    _tell_of_cut_traces(events, collector)
    for device, size, free in (
        events.filter(pl.col("action") == "oom").select("device", "size_bytes", "free_bytes").iter_rows()
    ):
        asked, left = (size_text(value) if isinstance(value, int) else "?" for value in (size, free))
        collector.issue(
            "warning", None, f"GPU {device}", f"out of memory: {asked} were asked for, {left} were free on the GPU"
        )
    active = (
        blocks.filter(pl.col("state").is_in(ACTIVE)).group_by("segment").agg(pl.col("size_bytes").sum().alias("held"))
    )
    compared = segments.select(pl.col("segment").cast(pl.Int64), "active_bytes").join(active, on="segment", how="left")
    off = compared.filter(pl.col("active_bytes") != pl.col("held").fill_null(0)).height
    if off:
        reason = (
            f"segments whose blocks do not add up to what they say is active: {off}; the snapshot was edited or damaged"
        )
        collector.issue("warning", None, "", reason)


def _tell_of_cut_traces(events: pl.DataFrame, collector: Collector) -> None:
    """Tell of releases of what was allocated before the trace begins."""
    paired = events.filter(pl.col("action").is_in(["alloc", "free_completed"])).with_columns(
        before=pl.col("action").shift(1).over("device", "address")
    )
    orphans = paired.filter(pl.col("action") == "free_completed", pl.col("before").ne_missing("alloc")).height
    if orphans:
        collector.issue(
            "info",
            None,
            "",
            f"the trace begins in the middle: {orphans:,} releases are of what was allocated before; record with more "
            "max_entries to see it",
        )
