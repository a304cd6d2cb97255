"""Reads a memory snapshot of PyTorch: what the allocator holds, and the trace of what it did before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import Collector, fit_to_model
from tui.loaders.input_issues import size_text
from tui.loaders.memory_snapshot import safe_pickle
from tui.loaders.memory_snapshot.snapshot_frames import (
    ACTIVE,
    Stacks,
    annotations_frame,
    blocks_frame,
    events_frame,
    items,
    segments_frame,
)
from tui.loaders.progress import Report, keep_going
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.source import Source
    from tui.model.profile import Profile

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

    def load(self, source: Source, report: Report = keep_going) -> Profile:
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


def _unpickled(data: bytes, source: Source) -> tuple[Any, str]:
    """What the pickle holds, and why that is not all of it, or empty."""
    try:
        return safe_pickle.load(data), ""
    except safe_pickle.UnsafePickleError as error:
        raise ProftuiError(
            f"{source.called}: the pickle wants to import or call {error}, which no memory snapshot does; nothing "
            "of it was run",
            "open only snapshots written by torch.cuda.memory._dump_snapshot",
        ) from error
    except safe_pickle.DamagedPickleError as error:
        where = f"{size_text(error.position)} of {size_text(len(data))}"
        return safe_pickle.load_beginning(data, error.position), f"the pickle is cut or damaged ({error}), at {where}"


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
