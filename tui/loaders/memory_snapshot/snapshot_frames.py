"""The parts of a snapshot as columns: segments, blocks, events and annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    """Call stacks as text, each made once: snapshots share the frames of stacks that are alike."""

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
            told = [self._frame(frame) for frame in frames if isinstance(frame, dict)]
            self._texts.append(";".join(line for line, _ in told if line) or None)
            self._sites.append(next((line for line, is_users in told if is_users), None))
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
