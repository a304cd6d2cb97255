"""Compressed inputs (gzip, bzip2, xz, zstd) as streams of bounded size."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from typing import IO, TYPE_CHECKING, Final, Protocol, cast

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE: Final = 1 << 20
"""At most this many bytes come out at a time (zstd: 16 MiB, of an input made to hurt)."""

_ZSTD_INPUT: Final = 512
"""A zstd block of four bytes can hold 128 KiB, so a small input bounds the output."""

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class DamagedStreamError(Exception):
    """A compressed stream ends early or is damaged; what came before it is good."""


class Readable(Protocol):
    """Something with a ``read`` that returns up to so many bytes, and none at the end."""

    def read(self, size: int, /) -> bytes:
        """Read."""


class _Pieces(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def compression_of(head: bytes) -> str | None:
    """Which compression an input that begins with ``head`` has: gzip, bzip2, xz, zstd or None."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def decompressed(compression: str, stream: Readable) -> Iterator[bytes]:
    """What a compressed stream holds.

    Raises:
        DamagedStreamError: It ends before its end mark, or is damaged.
    """
    try:
        if compression == "zstd":
            yield from _zstd(stream)
        else:
            pieces = _OPEN[compression](stream)
            while piece := pieces.read1(PIECE):
                yield piece
    except EOFError as error:
        raise DamagedStreamError(f"the {compression} stream ends early") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise DamagedStreamError(f"the {compression} stream is damaged ({error})") from error
    except OSError as error:
        if error.errno is not None:  # a failed read; bz2 alone reports damage as a bare OSError
            raise
        raise DamagedStreamError(f"the {compression} stream is damaged ({error})") from error


def _open_gzip(stream: Readable) -> _Pieces:
    return gzip.GzipFile(fileobj=cast("IO[bytes]", stream), mode="rb")


def _open_bzip2(stream: Readable) -> _Pieces:
    return bz2.BZ2File(cast("IO[bytes]", stream))


def _open_xz(stream: Readable) -> _Pieces:
    return lzma.LZMAFile(cast("IO[bytes]", stream))


_OPEN: Final[dict[str, Callable[[Readable], _Pieces]]] = {
    "gzip": _open_gzip,
    "bzip2": _open_bzip2,
    "xz": _open_xz,
}


def _zstd(stream: Readable) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor().decompressobj()
    fed = False
    while data := stream.read(_ZSTD_INPUT):
        while data:
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
            if piece := frame.decompress(data):
                yield piece
            fed, data = True, frame.unused_data if frame.eof else b""
    if fed and not frame.eof:
        raise EOFError
