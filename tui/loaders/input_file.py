"""The content of an input, plain or compressed, in UTF-8 or UTF-16, as blocks of whole lines."""

from __future__ import annotations

import bz2
import lzma
import os
import struct
import sys
import tempfile
import time
import weakref
import zipfile
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Protocol, cast
from zlib import error as InflateError

import zstandard

from tui.loaders.base import ProgressCallback, keep_going
from tui.loaders.input_issues import (
    FILE_CHANGED,
    InputIssue,
    ended_early,
    long_line_cut,
    why_empty,
)
from tui.loaders.raw_input import (
    STANDARD_INPUT,
    RawInput,
    cannot_read_error,
    duplicate_descriptor,
    has_changed,
    is_replaced,
    open_for_reading,
)
from tui.loaders.temp_folders import Scratch
from tui.loaders.text.block import Block as Block
from tui.loaders.text.line_tags import Processes, find_later_tag, find_tag, is_plain_nvprof
from tui.loaders.text.lines import (
    Encoding,
    JsonText,
    as_utf8,
    clean_line,
    decode_notebook,
    detect_encoding,
    has_bare_returns,
    has_markup,
    is_notebook,
    normalize_newlines,
    strip_markup,
    whole_lines,
)
from tui.loaders.text.stored_text import StoredText
from tui.loaders.worker_process import FileRange
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    import zlib
    from collections.abc import Callable, Iterator, Sequence

    from tui.loaders.text.block import Line

else:
    try:
        from isal import isal_zlib as zlib  # several times as fast
    except ImportError:  # The processor is not supported.
        import zlib

PIECE_BYTES: Final = 1 << 20
"""The maximum number of bytes per decompressed piece (zstd: 16 MiB for hostile input)."""

_ZSTD_INPUT: Final = 512
"""A zstd block of four bytes can hold 128 KiB, so a small input bounds the output."""
_GZIP_INPUT: Final = 1 << 17
"""Bytes per step; at most this number of bytes before damage is lost."""
_GZIP_FORMAT: Final = 31
"""``wbits`` of zlib: the largest window, with the header and checksum of gzip."""

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


class DamagedStreamError(Exception):
    """A compressed stream ends early or is damaged; the pieces before are valid."""


class Readable(Protocol):
    """An object with a method ``read`` that returns at most ``size`` bytes, and none at the end."""

    def read(self, size: int, /) -> bytes:
        """Read."""


class _ReadableStream(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def detect_compression(head: bytes) -> str | None:
    """Return the compression of an input that begins with ``head``: gzip, bzip2, xz, zstd, zip or None."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def decompress(compression: str, stream: Readable) -> Iterator[bytes]:
    """Yield the decompressed pieces of a stream.

    Raises:
        DamagedStreamError: It ends before its end mark, or is damaged.
    """
    try:
        if compression in _FRAME_DECOMPRESSORS:
            yield from _FRAME_DECOMPRESSORS[compression](stream)
        else:
            reader = _STREAM_OPENERS[compression](stream)
            while data := reader.read1(PIECE_BYTES):
                yield data
    except EOFError as error:
        raise DamagedStreamError(f"the {compression} stream ends early") from error
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise DamagedStreamError(f"the {compression} stream is damaged ({error})") from error
    except OSError as error:
        if error.errno is not None:  # a failed read; bz2 reports damage as an OSError without errno
            raise
        raise DamagedStreamError(f"the {compression} stream is damaged ({error})") from error


def _open_bzip2(stream: Readable) -> _ReadableStream:
    return bz2.BZ2File(cast("IO[bytes]", stream))


def _open_xz(stream: Readable) -> _ReadableStream:
    return lzma.LZMAFile(cast("IO[bytes]", stream))


_STREAM_OPENERS: Final[dict[str, Callable[[Readable], _ReadableStream]]] = {"bzip2": _open_bzip2, "xz": _open_xz}


def _decompress_zstd(stream: Readable) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor().decompressobj()
    has_input = False
    while data := stream.read(_ZSTD_INPUT):
        while data:
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
            if piece := frame.decompress(data):
                yield piece
            has_input, data = True, frame.unused_data if frame.eof else b""
    if has_input and not frame.eof:
        raise EOFError


def _decompress_gzip(stream: Readable) -> Iterator[bytes]:
    member = None
    while data := stream.read(_GZIP_INPUT):
        while data:
            if member is None:
                data = data.lstrip(b"\0")  # padding
                if not data:
                    break
                member = zlib.decompressobj(_GZIP_FORMAT)
            if piece := member.decompress(data, PIECE_BYTES):
                yield piece
            data = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
    if member is not None:
        raise EOFError


def _decompress_zip(stream: Readable) -> Iterator[bytes]:
    """Yield the content of the only file of an archive (`_is_zip_of_one_file`); its name is not used."""
    data = bytearray()

    def read_exactly(size: int) -> bytes:
        while len(data) < size:
            piece = stream.read(_GZIP_INPUT)
            if not piece:
                raise EOFError
            data.extend(piece)
        taken = bytes(data[:size])
        del data[:size]
        return taken

    def inflated() -> Iterator[bytes]:
        member = zlib.decompressobj(-zlib.MAX_WBITS)
        while not member.eof:
            piece = read_exactly(max(1, min(len(data), _GZIP_INPUT)))
            while piece and not member.eof:
                yield member.decompress(piece, PIECE_BYTES)
                piece = member.unconsumed_tail
        data[:0] = member.unused_data

    while (header := read_exactly(_ZIP_HEADER.size)).startswith(b"PK\x03\x04"):
        _, _, flags, method, _, _, checksum, size, _, name_size, extra_size = _ZIP_HEADER.unpack(header)
        name = read_exactly(name_size)
        extra = read_exactly(extra_size)
        if size == _IN_EXTRA:
            size = _large_size(extra)
        stored = (read_exactly(min(PIECE_BYTES, size - begin)) for begin in range(0, size, PIECE_BYTES))
        computed = 0
        for piece in inflated() if method == _DEFLATED else stored:
            computed = zlib.crc32(piece, computed)
            if not _is_metadata_entry(name):
                yield piece
        if flags & _HAS_DATA_DESCRIPTOR:
            # The sizes and the checksum follow, with or without a signature.
            signature = read_exactly(4)
            checksum = int.from_bytes(read_exactly(4) if signature == b"PK\x07\x08" else signature, "little")
            read_exactly(8)
        if computed != checksum:
            raise zlib.error("wrong checksum")
        if not _is_metadata_entry(name):
            return


def _large_size(extra: bytes) -> int:
    """Return the packed size of an entry from its extra fields, where ZIP64 stores it.

    Raises:
        zlib.error: They have no size.
    """
    while len(extra) >= 4:
        field, length = struct.unpack_from("<HH", extra)
        if field == 1 and length >= 16:
            return int.from_bytes(extra[12:20], "little")
        extra = extra[4 + length :]
    raise zlib.error("no size")


def _is_metadata_entry(name: bytes) -> bool:
    """Return whether an entry of an archive is a folder, or was added by a Mac."""
    return name.endswith((b"/", b".DS_Store")) or name.startswith(b"__MACOSX/")


def _zip_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files of an archive by path, without steps to the folders above."""
    entries = {}
    for entry in archive.infolist():
        if not _is_metadata_entry(entry.filename.encode("utf-8", "replace")):
            entries[
                "/".join(component for component in entry.filename.split("/") if component not in ("", ".", ".."))
            ] = entry
    return entries


def _is_zip_of_one_file(descriptor: int) -> bool:
    """Return whether an archive has exactly one file, which is neither encrypted nor packed in an unusual way."""
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file, zipfile.ZipFile(file) as archive:
            entries = list(_zip_entries(archive).values())
    except _ZIP_ERRORS:
        return False
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    if len(entries) != 1:
        return False
    method, flags = entries[0].compress_type, entries[0].flag_bits
    return not flags & _ENCRYPTED and (method == _DEFLATED or (method == 0 and not flags & _HAS_DATA_DESCRIPTOR))


def zip_members(path: str) -> list[str]:
    """Return the paths of the files in an archive of several, as ``run.zip/rank0.json``; none for any other file."""
    if not os.path.isfile(path):  # noqa: PTH113 (a name may be no valid text)
        return []
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            # Reading a system file without a size may wait forever (/proc/kmsg).
            if not os.fstat(file.fileno()).st_size or file.read(4) != b"PK\x03\x04":
                return []
            with zipfile.ZipFile(file) as archive:
                names = list(_zip_entries(archive))
    except _ZIP_ERRORS:
        return []
    return [f"{path}/{name}" for name in names] if len(names) > 1 and not _is_document(names) else []


def _is_document(names: Sequence[str]) -> bool:
    """Return whether an archive is an Office document, a PyTorch checkpoint or a set of NumPy arrays."""
    is_checkpoint = names[0].endswith(("/data.pkl", "/.format_version"))
    return is_checkpoint or "[Content_Types].xml" in names or all(name.endswith(".npy") for name in names)


class _Member:
    """Reads a file of an archive of several, by a path of `zip_members`.

    Raises:
        ProftuiError: It cannot be read.
    """

    def __init__(self, path: str, archive_path: Path) -> None:
        descriptor = open_for_reading(str(archive_path))
        weakref.finalize(self, os.close, descriptor)
        try:
            with zipfile.ZipFile(os.fdopen(descriptor, "rb", closefd=False)) as archive:
                entry = _zip_entries(archive)[Path(path).relative_to(archive_path).as_posix()]
                if entry.flag_bits & _ENCRYPTED:
                    raise ProftuiError(f"{path}: is encrypted", "unpack the archive and open its folder")
                self._stream = archive.open(entry)
        except KeyError as error:
            raise ProftuiError(f"{path}: no such file in the archive") from error
        except _ZIP_ERRORS as error:
            raise ProftuiError(f"{path}: cannot be read ({error})", "unpack the archive and open its folder") from error
        self._packed_size = entry.compress_size
        self._size = 0

    def read(self, size: int) -> bytes:
        """Read bytes.

        Raises:
            DamagedStreamError: It is damaged, or unpacks to an implausible size.
        """
        try:
            data = self._stream.read(size)
        except (zipfile.BadZipFile, EOFError, InflateError, lzma.LZMAError) as error:
            raise DamagedStreamError(f"the zip stream is damaged ({error})") from error
        self._size += len(data)
        if reason := bomb_reason(self._size, self._packed_size):
            raise DamagedStreamError(reason)
        return data


_ZIP_HEADER: Final = struct.Struct("<4sHHHHHIIIHH")
_DEFLATED, _ENCRYPTED, _HAS_DATA_DESCRIPTOR = 8, 1, 8
_IN_EXTRA: Final = 0xFFFFFFFF
_ZIP_ERRORS: Final = (zipfile.BadZipFile, NotImplementedError, OSError, ValueError)
"""The exceptions for a file that is no archive, or is damaged or packed in an unusual way."""

_FRAME_DECOMPRESSORS: Final[dict[str, Callable[[Readable], Iterator[bytes]]]] = {
    "gzip": _decompress_gzip,
    "zstd": _decompress_zstd,
    "zip": _decompress_zip,
}


HEAD_BYTES: Final = 1 << 16
"""Bytes at the beginning by which formats are recognized."""
BLOCK_BYTES: Final = 16 << 20
"""Bytes: large enough to make the cost per block negligible, small enough to report progress."""
MAX_LINE_BYTES: Final = 1 << 20
"""Bytes; longer lines are cut."""

_MAX_BLOCK_INTERVAL_S: Final = 0.5
"""The longest time between two blocks from a slow pipe."""
_READ_BYTES: Final = 1 << 20
"""Bytes; small enough to stay in the CPU cache until copied to a block."""
_LINE_END_SEARCH_BYTES: Final = 1 << 14
"""Bytes; longer than most lines."""
MIN_BOMB_BYTES: Final = 1 << 30
MAX_COMPRESSION_RATIO: Final = 500
"""Higher than the compression ratio of any profile; reading stops above both limits."""
_MAX_HTML_BYTES: Final = 1 << 24
"""Bytes of an HTML page; larger inputs are not treated as HTML."""
_MAX_QUOTED_BYTES: Final = 1000
"""Bytes of a line that an issue stores; messages show fewer."""
_SNIFF_BYTES: Final = 512
"""Bytes to read before the compression is detected; a pipe may deliver fewer at a time."""


def bomb_reason(size: int, packed_size: int) -> str:
    """Return why decompressing these bytes to ``size`` bytes is implausible (a decompression bomb), or empty."""
    if size <= max(MIN_BOMB_BYTES, MAX_COMPRESSION_RATIO * packed_size):
        return ""
    limit = f"{MAX_COMPRESSION_RATIO} times its size, the limit"
    return f"it decompresses to more than {limit}; if it is a profile, decompress it first"


class InputFile(RawInput):
    """An open input. Its decompressed content can be read once, from the beginning, as `blocks` or `chunks`."""

    compression: str | None
    """gzip, bzip2, xz, zstd, zip (of one file) or None."""
    encoding: str
    """The encoding, if it is a text: utf-8, utf-16-le or utf-16-be."""
    head: bytes
    """Its first 64 KiB, decompressed, UTF-16 converted to UTF-8, without byte order mark."""
    notes: list[InputIssue]
    """Problems of the input; complete when it has been read."""
    cut_short: str
    """Why the input could not be read to its end, or empty."""
    open_line: Line | None
    """The last line of its text if it has no newline, and so may be cut; set when the text has been read."""

    def __init__(
        self,
        name: str,
        read: Callable[[int], bytes],
        *,
        fd: int | None = None,
        on_progress: ProgressCallback = keep_going,
    ) -> None:
        """Read the head; use `InputFile.open` to make one.

        Args:
            name: The path, or ``-``.
            read: Returns at most the given number of bytes, none at the end.
            fd: The file or pipe that ``read`` reads; this object closes it.
            on_progress: As for `open`.
        """
        super().__init__(name, read, fd=fd, on_progress=on_progress)
        self.notes = []
        self.cut_short = ""
        self.open_line = None
        self._scratch: Scratch | None = None
        self._block_size = 0
        self._pushed_back = self._sniff()
        self.compression = detect_compression(self._pushed_back)
        if self.compression == "zip" and not self._is_zip_of_one_file():
            self.compression = None  # declined by its first bytes
        self._chunks = self._content()
        content = self._read_head()
        self._chunks = chain([content], self._chunks)
        self._encoding: Encoding = detect_encoding(content)
        self.encoding = self._encoding.name
        self.head = b"".join(as_utf8(self._encoding, [content[:HEAD_BYTES]]))
        self._has_bare_returns = has_bare_returns(self.head)
        if self._has_bare_returns:
            self.head = b"".join(normalize_newlines([self.head]))
        self._json = JsonText.from_head(self.head)
        if self._json is not None:
            self.head = b"".join(self._json.text([self.head]))[:HEAD_BYTES] or b"\n"
        self._text = self._new_text()

    @property
    def partial(self) -> str:
        """Why its rows are incomplete, or empty."""
        return "stopped before its end" if self.stopped else self.cut_short

    @classmethod
    def open(
        cls, path: str, *, stream: BinaryIO | None = None, on_progress: ProgressCallback = keep_going
    ) -> InputFile:
        """Open an input and read its head.

        Args:
            path: A path, also of a file in an archive (`zip_members`), or ``-`` for standard input.
            stream: A stream to read instead; ``path`` is then only its name.
            on_progress: Called with the progress, also while a pipe is silent; reading stops when it returns False.

        Raises:
            ProftuiError: It is missing, unreadable, a directory or empty, or a damaged compressed file from the start.
        """
        if stream is None and path == STANDARD_INPUT:
            if sys.stdin is None:  # closed by the shell: proftui - <&-
                raise ProftuiError("standard input is closed", "name a file, or pipe a log into proftui -")
            stream = sys.stdin.buffer
            if stream.isatty():
                hint = "pipe a log into proftui: nvprof --print-gpu-trace ./app 2>&1 | proftui -"
                raise ProftuiError("standard input is a terminal", hint)
        if stream is None and not os.path.exists(path):  # noqa: PTH110 (a name may be no valid text)
            # A name may be too long for the system, too.
            archive = next((parent for parent in Path(path).parents if os.path.isfile(parent)), None)  # noqa: PTH113
            if archive is not None:
                return cls(path, _Member(path, archive).read, on_progress=on_progress)
        fd = open_for_reading(path) if stream is None else duplicate_descriptor(stream)
        if fd is None:
            assert stream is not None
            return cls(path, getattr(stream, "read1", stream.read), on_progress=on_progress)
        return cls(path, lambda size: os.read(fd, size), fd=fd, on_progress=on_progress)

    @property
    def position(self) -> int | None:
        """The offset in the file of the next bytes.

        None if other processes cannot read the text at that offset: the input is a pipe, compressed, not UTF-8, or
        the file was replaced.
        """
        is_text = self.compression is None and self.encoding == "utf-8" and not self._pushed_back
        is_text &= self._json is None
        if self._status is None or not is_text or self.name == STANDARD_INPUT or is_replaced(self.name, self._status):
            return None
        return self._start_offset + self.bytes_read

    def compressed_file(self) -> FileRange | None:
        """Return the file, if it is compressed UTF-8 text that can be opened again; otherwise None."""
        status = self._status
        is_text = self.compression is not None and self.encoding == "utf-8" and not self._start_offset
        if status is None or not is_text or self.name == STANDARD_INPUT or is_replaced(self.name, status):
            return None
        return FileRange(self.name, status.st_dev, status.st_ino, 0, status.st_size)

    @property
    def is_plain_file(self) -> bool:
        """Whether it is an uncompressed file, read from its beginning."""
        is_plain = self.compression is None and self._status is not None and not self._start_offset
        return is_plain and self.name != STANDARD_INPUT

    @property
    def mark_size(self) -> int:
        """Bytes of the byte order mark before its text."""
        return self._encoding.mark_size

    def set_bytes_read(self, count: int) -> None:
        """Set the number of bytes that another thread or process has read."""
        self.bytes_read = count

    def text(self) -> StoredText:
        """Return the lines that `blocks` has returned until now."""
        return self._text

    def file(self) -> Path:
        """Return an uncompressed file: the input itself, or a copy that exists as long as this object.

        Raises:
            ProftuiError: There is no room for the copy.
        """
        if self.is_plain_file:
            return Path(self.name)
        try:
            self._scratch = Scratch()
            path = self._scratch.path / "copy"
            with path.open("wb") as copy:
                for chunk in self.chunks():
                    copy.write(chunk)
                    if not self.keep_going():
                        break
        except OSError as error:
            raise ProftuiError(
                f"{self.display_name}: cannot be decompressed into {tempfile.gettempdir()} ({error.strerror or error})",
                "set TMPDIR to a folder with more free space",
            ) from error
        return path

    def chunks(self) -> Iterator[bytes]:
        """Yield the decompressed content, in pieces of any size."""
        yield from self._chunks
        self.note_change()

    def blocks(self, *, block_size: int = BLOCK_BYTES, line_limit: int = MAX_LINE_BYTES) -> Iterator[Block]:
        """Yield the text in blocks of whole lines.

        Blocks can be empty, which lets the reader check for a stop while an endless line is skipped.
        """
        line = 1
        self._block_size = block_size
        offset = self._start_offset + self._encoding.mark_size
        chunks = as_utf8(self._encoding, self.chunks())
        chunks = normalize_newlines(chunks) if self._has_bare_returns else chunks
        chunks = chunks if self._json is None else self._json.text(chunks)
        is_quoted_notebook = is_notebook(self.head)
        tag = find_tag(decode_notebook(self.head) if is_quoted_notebook else self.head)
        is_nvprof = is_plain_nvprof(self.head)
        is_html = has_markup(self.head) and (self.size or 0) <= _MAX_HTML_BYTES
        processes = None
        last_block_s = time.monotonic()

        def is_late() -> bool:
            return self._pipe is not None and time.monotonic() - last_block_s > _MAX_BLOCK_INTERVAL_S

        for line_piece in whole_lines(chunks, piece_size=block_size, line_limit=line_limit, is_late=is_late):
            last_block_s = time.monotonic()
            data = decode_notebook(line_piece.data) if is_quoted_notebook else line_piece.data
            data = strip_markup(data) if is_html else data
            if processes is None and (tag := tag or find_later_tag(data, is_nvprof=is_nvprof)) is not None:
                processes = Processes(tag)
            texts = [(b"", data)] if processes is None else processes.separate(data)
            block, *other_blocks = self._blocks_by_process(texts, line)
            block.other_processes = other_blocks
            self._text.add(line_piece.data, block.line_count, offset)
            offset += line_piece.covered
            line += block.line_count
            if line_piece.ends_within_line:
                last_lines = (
                    process_block.line(process_block.line_count - 1) for process_block in (block, *other_blocks)
                )
                self.open_line = max(last_lines, key=lambda open_line: len(open_line.text))
            if line_piece.cut_line_size:
                last_index = block.line_count - 1
                text = clean_line(block.raw(last_index)[:_MAX_QUOTED_BYTES])
                self.notes.append(
                    long_line_cut(block.first_line + last_index, text, line_piece.cut_line_size, line_limit)
                )
            yield block
        if self._text.not_copied:
            self.notes.append(
                InputIssue("info", None, "", f"the text {self._text.not_copied}; the tables are complete")
            )

    def _blocks_by_process(self, processes: Sequence[tuple[bytes, bytes]], line: int) -> list[Block]:
        """Return a block of the same lines for each process."""
        blocks = []
        for tag, data in processes:
            block = Block.from_data(data, line)
            block.tag, block.bytes_read = tag, self.bytes_read
            blocks.append(block)
        return blocks

    def _is_zip_of_one_file(self) -> bool:
        if self._fd is None or self._status is None or self._start_offset:
            return False
        return _is_zip_of_one_file(self._fd)

    def _sniff(self) -> bytes:
        sniffed = b""
        try:
            while len(sniffed) < _SNIFF_BYTES and (data := self.read(_READ_BYTES)):
                sniffed += data
        except DamagedStreamError as error:
            raise ProftuiError(f"{self.display_name}: {error}") from error
        except OSError as error:
            raise cannot_read_error(self.display_name, error) from error
        if not sniffed:
            raise ProftuiError(
                f"{self.display_name}: {'stopped without any output' if self.stopped else 'is empty'}",
                why_empty(self.name),
            )
        return sniffed

    def _content(self) -> Iterator[bytes]:
        """Yield the decompressed content; notes why it ends early."""
        try:
            if self.compression is None:
                while data := self.read(self._size_to_read()):
                    yield data
            else:
                yield from self._unpacked(self.compression)
        except DamagedStreamError as error:
            if not self.stopped:
                self.end_early(str(error))
        except OSError as error:
            self.end_early(f"reading failed ({error.strerror or error})")

    def _unpacked(self, compression: str) -> Iterator[bytes]:
        size = 0
        for piece in decompress(compression, self):
            size += len(piece)
            if reason := self.bomb_reason(size):
                raise DamagedStreamError(reason)
            yield piece

    def bomb_reason(self, size: int) -> str:
        """Return why ``size`` bytes of content are implausible for the bytes read (a decompression bomb), or empty."""
        return bomb_reason(size, self.bytes_read)

    def _size_to_read(self) -> int:
        """Return the number of bytes of an uncompressed input to read at once.

        For blocks of a file, it is a block that ends with a line, which needs no copy.
        """
        if self._block_size and self._status is not None and self._fd is not None and not self._pushed_back:
            following = os.pread(
                self._fd, _LINE_END_SEARCH_BYTES, self._start_offset + self.bytes_read + self._block_size
            )
            return self._block_size + following.find(b"\n") + 1
        return _READ_BYTES

    def end_early(self, reason: str) -> None:
        """Note why the input ends early."""
        self.cut_short = reason
        self.notes.append(ended_early(reason, self.bytes_read, self.size))

    def _read_head(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while size < HEAD_BYTES and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            size += len(chunk)
        if not size:
            raise ProftuiError(
                f"{self.display_name}: {self.cut_short or f'contains only empty {self.compression} data'}"
            )
        return b"".join(parts)

    def _new_text(self) -> StoredText:
        is_plain = self._status is not None and self.compression is None and self.encoding == "utf-8"
        is_plain &= not self._has_bare_returns and self._json is None
        return StoredText(self.display_name, os.dup(self._fd) if is_plain and self._fd is not None else None)

    def note_change(self) -> None:
        """Note if the file was changed or replaced since it was opened."""
        if self._status is None or self._fd is None:
            return
        if has_changed(self._fd, None if self.name == STANDARD_INPUT else self.name, self._status):
            self.notes.append(FILE_CHANGED)
