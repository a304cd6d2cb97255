"""Writes Protocol Buffers by field number, for tests that read them back."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """Return an encoded integer; negative ones take ten bytes, as int64 does."""
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Return a field: int as varint, float as double, text and bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def fixed64(number: int, value: int) -> bytes:
    """Return a field of eight bytes."""
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """Return several fields, in this order."""
    return b"".join(field(number, value) for number, value in fields)
