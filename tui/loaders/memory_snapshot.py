"""Reads a memory snapshot of PyTorch (``torch.cuda.memory._dump_snapshot``): the allocator's state and its trace.

A pickle is a program: it can import modules and call functions. `check_opcodes` first walks its opcodes without running
them, and allows only those that build numbers, strings, lists, tuples, dicts and sets. The unpickler then refuses every
import again. Memo indices, for which the unpickler would allocate memory, are checked against the size of the pickle.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import polars as pl

from tui.fmt import brief_size
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.collector import Collector, fit_to_model
from tui.loaders.input_issues import position_text
from tui.loaders.raw_input import read_bytes
from tui.model.errors import ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

_FIXED_OPCODES: Final = (
    # Opcodes without argument: marks, containers, their items, None, true, false, memoize.
    rb"[()\]}deltsua012N\x85-\x89\x8f-\x91\x94]"
    rb"|K.|M..|J....|G.{8}|q.|h.|j....|r..[\x00-\x0f]\x00|\x80.|\x95.{8}"
)
_SHORT_STRINGS: Final = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(256))


@cache
def _safe_opcodes() -> re.Pattern[bytes]:
    """Return a pattern of harmless opcodes, to skip them at the speed of the regular expression engine."""
    pattern = rb"(?:%s|[\x8cUC\x8a](?:%s)|[IFLVS][^\n]{0,1000}\n|[pg]\d{1,6}\n)*+" % (_FIXED_OPCODES, _SHORT_STRINGS)
    # Compiled when it is first used: every command imports this module, and it takes 3 ms.
    return re.compile(pattern, re.DOTALL)


_OPCODE_SIZES: Final = {
    b"X": ("<I", 4),
    b"T": ("<i", 4),
    b"B": ("<I", 4),
    b"\x8b": ("<i", 4),
    b"\x8d": ("<Q", 8),
    b"\x8e": ("<Q", 8),
}
"""Opcodes with a length prefix: its struct format and its size."""
_PUT: Final = b"r"
_STOP: Final = b"."
_NAMES: Final = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes}
_LONGEST_ARGUMENT: Final = 1002
"""Bytes of the longest opcode that `_safe_opcodes` matches."""

_UNPICKLING_ERRORS: Final = (
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
"""The exceptions of the unpickler for damaged pickles."""


class UnsafePickleError(Exception):
    """A pickle builds something other than builtin values; the message names it."""


class DamagedPickleError(Exception):
    """A pickle ends early or is damaged; the message gives the position."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
        """The number of valid bytes."""


class _BuiltinUnpickler(pickle.Unpickler):
    """Builds builtin values only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


class _PythonBuiltinUnpickler(pickle._Unpickler):
    """The same in pure Python, whose stack can be inspected after an error."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


def load_pickle(data: bytes) -> Any:
    """Unpickle builtin values.

    Raises:
        UnsafePickleError: It imports something, or builds other values.
        DamagedPickleError: It ends early or is damaged.
    """
    check_opcodes(data)
    try:
        return _BuiltinUnpickler(io.BytesIO(data)).load()
    except _UNPICKLING_ERRORS as error:
        raise DamagedPickleError(str(error) or type(error).__name__, len(data)) from error


def check_opcodes(data: bytes) -> None:
    """Check the opcodes of a pickle without running them.

    Raises:
        UnsafePickleError: An opcode does not build builtin values.
        DamagedPickleError: It ends early, or an argument is invalid.
    """
    position, safe = 0, _safe_opcodes()
    while True:
        match = safe.match(data, position)
        position = match.end() if match else position
        code = data[position : position + 1]
        if code == _STOP:
            return
        if code in _OPCODE_SIZES:
            struct_format, width = _OPCODE_SIZES[code]
            argument = data[position + 1 : position + 1 + width]
            size = struct.unpack(struct_format, argument)[0] if len(argument) == width else -1
            if not 0 <= size <= len(data) - position - 1 - width:
                raise DamagedPickleError("it ends inside a value", position)
            position += 1 + width + size
        elif code == _PUT:
            if len(data) < position + 5 or int.from_bytes(data[position + 1 : position + 5], "little") > len(data):
                raise DamagedPickleError("it references more values than it can contain", position)
            position += 5
        else:
            _refuse(data, position, code)


def _refuse(data: bytes, position: int, code: bytes) -> NoReturn:
    opcode_name = _NAMES.get(code)
    match = _safe_opcodes().match(code + b"0" * 300 + b"\n") if opcode_name else None
    if opcode_name is None or (match is not None and match.end()):
        raise DamagedPickleError(
            "it ends early" if len(data) - position < _LONGEST_ARGUMENT else "it is damaged", position
        )
    name = f"the opcode {opcode_name}"
    try:
        # All opcodes before are harmless, and the unpickler refuses imports with their name.
        _BuiltinUnpickler(io.BytesIO(data[: position + 2048])).load()
    except UnsafePickleError as error:
        name = str(error)
    except _UNPICKLING_ERRORS:
        pass
    raise UnsafePickleError(name)


def load_truncated(data: bytes, end: int) -> Any:
    """Return the value in the first ``end`` bytes of a damaged pickle; open containers are closed there.

    Only bytes that `check_opcodes` has allowed are run. None if nothing was built.
    """
    reader = _PythonBuiltinUnpickler(io.BytesIO(data[:end]))
    try:
        reader.load()
    except (*_UNPICKLING_ERRORS, UnsafePickleError):
        pass
    levels = [*getattr(reader, "metastack", ()), getattr(reader, "stack", [])]
    for items, below in zip(reversed(levels), reversed(levels[:-1]), strict=False):
        container = below[-1] if below else None
        if isinstance(container, list):
            container.extend(items)
        elif isinstance(container, dict):
            if len(items) % 2 and len(items) > 2 and isinstance(items[-2], list):
                # A list of one item has no mark before the item.
                items[-2].append(items[-1])
            pairs = zip(items[::2], items[1::2], strict=False)
            container.update((key, value) for key, value in pairs if isinstance(key, str))
    return levels[0][0] if levels and levels[0] else None


_INT64: Final = range(-(1 << 63), 1 << 63)
_LIBRARY_PATHS: Final = ("/torch/", "\\torch\\", "/torch_npu/", "<frozen ", "<string>", "<eval_with_key>")
"""Parts of paths that are not of the user's own program."""
_UNKNOWN_FILES: Final = ("", "??")
_LONGEST_TEXT: Final = 4096
"""Characters of a path or a function name."""
_MAX_FRAMES: Final = 1000
"""Frames of a stack that are read, as many as Python's default limit of recursion; outer ones are omitted."""
_LONGEST_STACK: Final = 1 << 17
"""Characters of a stack; outer frames above are omitted."""

ACTIVE: Final = ("active_allocated", "active_awaiting_free", "active_pending_free")
"""States of blocks that hold memory; all but the first are released and wait for other streams."""


def int_or_none(value: object) -> int | None:
    """Return the value as a 64-bit integer; None if it is none."""
    return value if type(value) is int and value in _INT64 else None


def text_or_none(value: object) -> str | None:
    """Return the value as a string; None if it is none."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def items(value: object) -> list[Mapping[str, Any]]:
    """Return the dicts in the value, if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def _first_item(value: object) -> Mapping[str, Any]:
    """Return the first item of the value, if it is a list that begins with a dict; otherwise an empty one."""
    first = value[0] if isinstance(value, list | tuple) and value else None
    return first if isinstance(first, dict) else {}


@dataclass(slots=True)
class Stacks:
    """Call stacks as text, each formatted once: equal stacks in a snapshot share their frames."""

    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _texts: list[str | None] = field(default_factory=lambda: [None])
    _sites: list[str | None] = field(default_factory=lambda: [None])
    _frames: dict[int, tuple[str, bool]] = field(default_factory=dict)

    def number(self, frames: object) -> int:
        """Return the number of a stack; 0 means none."""
        if not isinstance(frames, list) or not frames:
            return 0
        frames = frames[:_MAX_FRAMES]
        key = tuple(map(id, frames))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._texts)
            lines = [self._frame(frame) for frame in frames if isinstance(frame, dict)]
            text = ";".join(line for line, _ in lines if line)
            text = text[:_LONGEST_STACK].rpartition(";")[0] if len(text) > _LONGEST_STACK else text
            self._texts.append(text or None)
            self._sites.append(next((line for line, is_users in lines if is_users), None))
        return number

    def columns(self, numbers: Sequence[int]) -> tuple[pl.Series, pl.Series]:
        """Return columns ``stack`` (innermost frame first, separated by ``;``) and ``call_site`` of stacks by number.

        ``call_site`` is the innermost line of Python outside PyTorch.
        """
        indices = pl.Series(numbers, dtype=pl.UInt32)
        stacks = pl.Series("stack", self._texts, dtype=pl.String).cast(NAME).gather(indices)
        return stacks, pl.Series("call_site", self._sites, dtype=pl.String).cast(NAME).gather(indices)

    def _frame(self, frame: Mapping[str, Any]) -> tuple[str, bool]:
        """Return a frame as text (empty if unknown), and whether it is of the user's own program."""
        formatted = self._frames.get(id(frame))
        if formatted is None:
            file, name, line = (
                text_or_none(frame.get("filename")) or "",
                text_or_none(frame.get("name")) or "",
                int_or_none(frame.get("line")),
            )
            line_text = f"{file}({line or '?'}): {name}" if file not in _UNKNOWN_FILES else ""
            is_users = file.endswith(".py") and not any(part in file for part in _LIBRARY_PATHS)
            formatted = self._frames[id(frame)] = (line_text.replace(";", ","), is_users)
        return formatted


def _column(rows: Iterable[Mapping[str, Any]], key: str, take: Callable[[object], Any] = int_or_none) -> list[Any]:
    return [take(row.get(key)) for row in rows]


def segments_frame(segments: Sequence[Mapping[str, Any]], stacks: Stacks) -> pl.DataFrame:
    """Return one row per segment: columns of ``memory_segments``."""
    sizes = {"reserved_bytes": "total_size", **{f"{name}_bytes": f"{name}_size" for name in _SIZES}}
    stack, _ = stacks.columns([stacks.number(segment.get("frames")) for segment in segments])
    return pl.DataFrame(
        {
            "segment": pl.Series(range(len(segments)), dtype=pl.UInt32),
            **{name: pl.Series(_column(segments, name), dtype=pl.Int64) for name in ("device", "address", "stream")},
            **{name: pl.Series(_column(segments, key), dtype=pl.Int64) for name, key in sizes.items()},
            "segment_type": pl.Series(_column(segments, "segment_type", text_or_none), dtype=pl.String),
            "pool": pl.Series([_pool(row.get("segment_pool_id")) for row in segments], dtype=pl.String),
            "is_expandable": pl.Series([_flag(row.get("is_expandable")) for row in segments], dtype=pl.Boolean),
            "stack": stack,
        }
    )


_SIZES: Final = ("allocated", "active", "requested")


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _pool(value: object) -> str | None:
    """Return the id of a private pool; None for the default pool."""
    if not isinstance(value, tuple | list) or len(value) != 2 or any(int_or_none(part) is None for part in value):
        return None
    return None if not any(value) else f"{value[0]}.{value[1]}"


def blocks_frame(segments: Sequence[Mapping[str, Any]], stacks: Stacks, limit: int) -> pl.DataFrame:
    """Return one row per block: columns of ``memory_blocks``.

    Args:
        segments: The segments of the snapshot.
        stacks: Formats the stacks.
        limit: The maximum number of blocks; the others are omitted.
    """
    rows: list[tuple[int | None, ...]] = []
    states: list[str | None] = []
    numbers: list[int] = []
    for number, segment in enumerate(segments):
        if len(rows) >= limit:
            break
        next_address = int_or_none(segment.get("address"))
        device = int_or_none(segment.get("device"))
        for block in items(segment.get("blocks"))[: limit - len(rows)]:
            history = _first_item(block.get("history"))
            size = int_or_none(block.get("size"))
            address = int_or_none(block.get("address"))
            address = int_or_none(history.get("addr")) if address is None else address
            # Blocks follow each other without gaps.
            address = next_address if address is None else address
            next_address = None if address is None or size is None else address + size
            requested = int_or_none(block.get("requested_size"))
            requested = int_or_none(history.get("real_size")) if requested is None else requested
            rows.append((number, device, int_or_none(address), size, requested))
            states.append(text_or_none(block.get("state")))
            numbers.append(stacks.number(block.get("frames", history.get("frames"))))
    stack, site = stacks.columns(numbers)
    names = ("segment", "device", "address", "size_bytes", "requested_bytes")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row").with_columns(
        pl.Series("state", states, dtype=pl.String), site, stack
    )


def events_frame(traces: Sequence[object], stacks: Stacks, limit: int) -> pl.DataFrame:
    """Return one row per event of all devices: device, action, address, size_bytes, stream, time_us, free_bytes.

    ``free_bytes`` is the free memory of the device when an allocation failed.
    """
    parts = []
    for device, trace in enumerate(traces):
        if limit <= 0:
            break
        events = items(trace)[:limit]
        limit -= len(events)
        if not events:
            continue
        stack, site = stacks.columns([stacks.number(event.get("frames")) for event in events])
        keys = {"address": "addr", "size_bytes": "size", "stream": "stream", "time_us": "time_us"}
        parts.append(
            pl.DataFrame(
                {
                    "device": pl.Series([device] * len(events), dtype=pl.Int64),
                    "action": pl.Series(_column(events, "action", text_or_none), dtype=pl.String),
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
    """Return the ranges of ``external_annotations``: name, device, start_us, duration_us (null without an end)."""
    open_: dict[tuple[str | None, int | None], list[int]] = {}
    rows: list[list[Any]] = []
    for annotation in annotations:
        key = (text_or_none(annotation.get("name")), int_or_none(annotation.get("device")))
        time_us = int_or_none(annotation.get("time_us"))
        if annotation.get("stage") == "START" and time_us is not None:
            open_.setdefault(key, []).append(len(rows))
            rows.append([*key, time_us, None])
        elif annotation.get("stage") == "END" and time_us is not None and open_.get(key):
            row = rows[open_[key].pop()]
            row[3] = time_us - row[2]
    schema = {"name": pl.String, "device": pl.Int64, "start_us": pl.Int64, "duration_us": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


FORMAT: Final = Format(
    name="torch-memory-snapshot",
    title="PyTorch memory snapshot",
    recognized_by="a Python pickle of 'segments' and 'device_traces', with built-in types only",
    feeds=("sessions", "memory_events", "memory_segments", "memory_blocks", "ranges", "issues"),
    record_with="torch.cuda.memory._record_memory_history(max_entries=100000) ... "
    "torch.cuda.memory._dump_snapshot('snapshot.pickle')",
)

_PROTOCOLS: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_KEYS: Final = (b"device_traces", b"segments", b"total_size")
_HINT: Final = f"record one with: {FORMAT.record_with}"
_MAX_KEYS_SHOWN: Final = 8
_NS_PER_US: Final = 1000
_LATEST_US: Final = (1 << 63) // _NS_PER_US - 1


class MemorySnapshotLoader:
    """Reads pickles of `torch.cuda.memory._snapshot`."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence for a pickle with a key of a snapshot, a low one for other pickles."""
        if not head.startswith(_PROTOCOLS):
            return 0.0
        return 0.97 if any(key in head for key in _KEYS) else 0.3

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the snapshot.

        Raises:
            ProftuiError: It is no snapshot, contains values that are not builtin, or is too large; or the reading was
                stopped.
        """
        source.set_on_progress(on_progress)
        data = read_bytes(source)
        snapshot, fault = _unpickle(data, source)
        if (
            isinstance(snapshot, list)
            and snapshot
            and all(isinstance(segment, dict) and "blocks" in segment for segment in snapshot)
        ):
            snapshot = {"segments": snapshot}
        if not isinstance(snapshot, dict) or not snapshot.keys() & {"segments", "device_traces"}:
            raise ProftuiError(
                f"{source.display_name}: {fault or 'is a Python pickle, but no memory snapshot'}: "
                f"{_description(snapshot)}",
                _HINT,
            )
        collector = Collector(source.name, source.preview)
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(tool="PyTorch memory snapshot", framework="PyTorch")
        _read(snapshot, len(data), collector)
        if fault:
            collector.issue("error", None, "", f"{fault}: the data before this point is shown")
        collector.add_issues(source.notes)
        return collector.profile(partial=fault or source.cut_short)


MEMORY_SNAPSHOT: Final = MemorySnapshotLoader()
"""The loader, for the list of loaders.

Bytes of the trace are as requested. Of ``memory_events``, ``allocated_bytes`` falls when a block is released
(``free_requested``) and ``active_bytes`` when it can be used again (``free_completed``), which can wait for streams.
"""


def _unpickle(data: bytes, source: InputFile) -> tuple[Any, str]:
    """Return the value of the pickle, and why it is incomplete, or empty."""
    try:
        return load_pickle(data), ""
    except UnsafePickleError as error:
        raise ProftuiError(
            f"{source.display_name}: the pickle tries to import or call {error}; memory snapshots never do; none of it "
            "was executed",
            "open only snapshots written by torch.cuda.memory._dump_snapshot",
        ) from error
    except DamagedPickleError as error:
        position = position_text(error.position, len(data))
        return load_truncated(data, error.position), f"the pickle is truncated or damaged ({error}), at {position}"


def _description(value: object) -> str:
    """Return a description of a value that is no snapshot."""
    if isinstance(value, dict):
        keys = ", ".join(repr(key)[:40] for key in list(value)[:_MAX_KEYS_SHOWN])
        return f"it contains a dict with {keys or 'no keys'}"
    return f"it contains a value of type {type(value).__name__}" if value is not None else "its contents are unreadable"


def _read(snapshot: dict[str, Any], size: int, collector: Collector) -> None:
    """Add a snapshot to the collector.

    Args:
        snapshot: The unpickled snapshot.
        size: Bytes of the pickle, a bound for the number of rows: a pickle can refer to one row many times.
        collector: Receives the rows.
    """
    stacks = Stacks()
    listed = items(snapshot.get("segments"))[:size]
    segments = segments_frame(listed, stacks)
    blocks = blocks_frame(listed, stacks, size)
    traces = snapshot.get("device_traces")
    events = events_frame(traces if isinstance(traces, list | tuple) else (), stacks, size)
    if (events["action"] == "snapshot").fill_null(value=False).all():
        # Nothing but the taking of the snapshot: growth is unknown, not zero.
        events = events.clear()
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
                "memory_events", _add_totals(events, segments, blocks, origin, collector), collector
            ),
            "ranges": fit_to_model("ranges", _ranges(annotations, origin), collector),
        }
    )
    _report_issues(events, segments, blocks, collector)


def _origin(events: pl.DataFrame, annotations: pl.DataFrame) -> int | None:
    """Return the first time, in microseconds since 1970; None if events have no times."""
    times = [time for time in (events["time_us"].min(), annotations["start_us"].min()) if isinstance(time, int)]
    return min(times) if times and 0 < min(times) < _LATEST_US else None


def _ns_since(column: str, origin: int | None) -> pl.Expr:
    """Return times of a column in nanoseconds since the first; implausible ones become null."""
    relative_us = pl.col(column) - (origin or 0)
    is_plausible = relative_us.is_between(0, 1 << 50) & pl.lit(origin is not None)
    return pl.when(is_plausible).then(relative_us * _NS_PER_US)


def _ranges(annotations: pl.DataFrame, origin: int | None) -> pl.DataFrame:
    return annotations.select(
        "name", _ns_since("start_us", origin).alias("start_ns"), pl.col("duration_us") * _NS_PER_US
    ).rename({"duration_us": "duration_ns"})


_SIGNS: Final = {
    "reserved": {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1},
    "active": {"alloc": 1, "free_completed": -1},
    "allocated": {"alloc": 1, "free_requested": -1},
    "allocated_late": {"alloc": 1, "free_completed": -1},
}
"""How actions change each total; the last is for traces without ``free_requested``."""


def _add_totals(
    events: pl.DataFrame, segments: pl.DataFrame, blocks: pl.DataFrame, origin: int | None, collector: Collector
) -> pl.DataFrame:
    """Return events with the totals after each, computed backwards from the final state of the allocator."""
    final_totals = _final_totals(segments, blocks)
    signed = {
        name: pl.col("action").replace_strict(signs, default=0, return_dtype=pl.Int64)
        * pl.col("size_bytes").fill_null(0)
        for name, signs in _SIGNS.items()
    }
    frames = []
    for (device,), device_events in events.group_by("device", maintain_order=True):
        has_late_frees = "free_requested" not in device_events["action"]
        changes = device_events.select(
            reserved=signed["reserved"],
            active=signed["active"],
            allocated=signed["allocated_late" if has_late_frees else "allocated"],
        )
        totals = []
        for name in ("allocated", "active", "reserved"):
            running = changes[name].cum_sum()
            final = final_totals.get(device, dict.fromkeys(_SIGNS, 0))[name]
            initial = final - int(running[-1])
            minimum = running.min()
            if isinstance(minimum, int) and initial + minimum < 0:
                collector.issue(
                    "warning",
                    None,
                    f"GPU {device}",
                    f"the segments have {brief_size(final)} {name}, the trace more: they were recorded at "
                    f"different times; totals of {name} memory are from the trace alone",
                )
                initial = -minimum
            totals.append((running + initial).alias(f"{name}_bytes"))
        frames.append(device_events.with_columns(*totals, changes["allocated"].alias("delta_bytes")))
    rows = pl.concat(frames) if frames else events
    return rows.with_columns(_ns_since("time_us", origin).alias("start_ns"), pl.lit("GPU").alias("place"))


def _final_totals(segments: pl.DataFrame, blocks: pl.DataFrame) -> dict[Any, dict[str, int]]:
    """Return the final totals of each device: reserved, and active and allocated as requested."""
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


def _report_issues(events: pl.DataFrame, segments: pl.DataFrame, blocks: pl.DataFrame, collector: Collector) -> None:
    """Report what the snapshot lacks, and failed allocations."""
    if segments.is_empty() and events.is_empty():
        collector.issue("warning", None, "", f"nothing was recorded: no segments and no events; {_HINT}")
        return
    if events.height < 2:
        reason = f"no trace was recorded, only the final state of the allocator; {_HINT}"
        collector.issue("info", None, "", reason)
    elif events["time_us"].null_count() == events.height:
        collector.issue("info", None, "", "events have no times (before PyTorch 2.1): they are numbered in order")
    _report_cut_traces(events, collector)
    for device, size, free in (
        events.filter(pl.col("action") == "oom").select("device", "size_bytes", "free_bytes").iter_rows()
    ):
        requested, free_text = (brief_size(value) if isinstance(value, int) else "?" for value in (size, free))
        collector.issue(
            "info", None, f"GPU {device}", f"out of memory: {requested} requested, {free_text} free on the GPU"
        )
    active = (
        blocks.filter(pl.col("state").is_in(ACTIVE)).group_by("segment").agg(pl.col("size_bytes").sum().alias("held"))
    )
    compared = segments.select(pl.col("segment").cast(pl.Int64), "active_bytes").join(active, on="segment", how="left")
    mismatched = compared.filter(pl.col("active_bytes") != pl.col("held").fill_null(0)).height
    if mismatched:
        reason = (
            f"the blocks of {mismatched} segments do not add up to their active size: "
            "the snapshot was edited or damaged"
        )
        collector.issue("warning", None, "", reason)


def _report_cut_traces(events: pl.DataFrame, collector: Collector) -> None:
    """Report releases of memory that was allocated before the trace begins."""
    paired = events.filter(pl.col("action").is_in(["alloc", "free_completed"])).with_columns(
        before=pl.col("action").shift(1).over("device", "address")
    )
    orphans = paired.filter(pl.col("action") == "free_completed", pl.col("before").ne_missing("alloc")).height
    if orphans:
        collector.issue(
            "info",
            None,
            "",
            f"the trace starts mid-run: {orphans:,} {'free is' if orphans == 1 else 'frees are'} of earlier "
            "allocations; record with a larger max_entries to see them",
        )
