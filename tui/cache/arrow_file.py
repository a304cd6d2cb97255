"""Where the values of columns lie in an uncompressed Arrow IPC file, so that they can be used where they lie.

Polars reads such a file into memory of its own; what is mapped costs nothing until it is looked at. The files have
columns of numbers alone, in one record batch.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAGIC: Final = b"ARROW1"
_RECORD_BATCH: Final = 3
"""What a message holds: ``MessageHeader.RecordBatch``."""

Place = tuple[int, int]
"""Where a buffer begins, and its bytes."""


def buffers(data: memoryview) -> list[tuple[Place, Place]]:
    """For each column the places of its validity bits (of no bytes where no value is null) and of its values.

    Raises:
        ValueError: It is no such file.
        struct.error: It is cut short.
    """
    if bytes(data[:6]) != _MAGIC or bytes(data[-6:]) != _MAGIC:
        raise ValueError("no Arrow file")
    footer_size = struct.unpack_from("<i", data, len(data) - 10)[0]
    _, _, _, batches = _fields(data, _there(data, len(data) - 10 - footer_size), 4)
    blocks = _vector(data, batches, "qiiq")
    if len(blocks) != 1:
        raise ValueError(f"{len(blocks)} record batches")
    message, metadata_size, _, _ = blocks[0]
    # Before the message: a marker and its size.
    _, kind, batch, _ = _fields(data, _there(data, message + 8), 4)
    if data[kind] != _RECORD_BATCH:
        raise ValueError("no record batch")
    _, _, places = _fields(data, _there(data, batch), 3)
    body = message + metadata_size
    found = [(body + offset, size) for offset, size in _vector(data, places, "qq")]
    return list(zip(found[::2], found[1::2], strict=True))


def _fields(data: memoryview, table: int, count: int) -> Sequence[int]:
    """Where the first fields of a flatbuffers table lie."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if struct.unpack_from("<H", data, fields)[0] < 4 + 2 * count:
        raise ValueError("a table with too few fields")
    return [table + offset for offset in struct.unpack_from(f"<{count}H", data, fields + 4)]


def _there(data: memoryview, place: int) -> int:
    """Where a reference leads to."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _vector(data: memoryview, place: int, parts: str) -> list[tuple[int, ...]]:
    """A vector of structs."""
    start = _there(data, place)
    count, size = struct.unpack_from("<I", data, start)[0], struct.calcsize(f"<{parts}")
    return [struct.unpack_from(f"<{parts}", data, start + 4 + size * at) for at in range(count)]
