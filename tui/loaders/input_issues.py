"""Issues that any input can have, and texts that issues of several formats share."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def size_text(size: int) -> str:
    """A size for a message, in powers of 1024.

    >>> size_text(1), size_text(1 << 20), size_text(1_288_490_189)
    ('1 byte', '1 MB', '1.2 GB')
    """
    if size < 1024:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f" {' KMGT'[unit]}B"


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the input itself that the user should know; a loader makes it an issue."""

    severity: str
    """info, warning or error."""
    line: int | None
    """From 1; None where it is about the whole input."""
    text: str
    """What stands there."""
    reason: str
    """What is odd, in words."""


FILE_CHANGED: Final = Note(
    "warning",
    None,
    "",
    "the file changed while it was read: figures may be missing or inconsistent; open it again when nothing "
    "writes to it",
)


def ended_early(why: str, bytes_read: int, size: int | None) -> Note:
    """An input that could not be read to its end.

    Args:
        why: In words.
        bytes_read: How much of it was read.
        size: All of it; None where that is not known.
    """
    where = f"{size_text(bytes_read)} of {size_text(size) if size else 'the input'}"
    return Note("error", None, "", f"{why}, at about {where}; what came before is shown")


def long_line_cut(line: int, text: str, size: int, limit: int) -> Note:
    """A line that is too long.

    Args:
        line: Its number.
        text: How it begins.
        size: Its bytes.
        limit: How many of them were read.
    """
    reason = f"the line is {size_text(size)} long; only its first {size_text(limit)} was read"
    return Note("warning", line, text, reason)


def later_results_left_out(tag: bytes, count: int) -> Note:
    """Lines that are of another process than those read, as what is in front of them says.

    Args:
        tag: What is in front of the first.
        count: How many there are.
    """
    name = tag.decode("utf-8", "replace").strip()
    reason = (
        f"{count:,} lines of other processes (by their tags) were left out: interleaved tables cannot be "
        "separated; read each process alone (grep its tag FILE | proftui -)"
    )
    return Note("warning", None, name, reason)


class HasTables(Protocol):
    """Tables with columns and rows."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def count(self, table: str) -> int:
        """Rows of a table."""


def missing_columns(held: HasTables, always: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each table with rows that lacks columns, and what to say of them.

    Args:
        held: What the input holds.
        always: The columns that each table has as the profiler writes it.
    """
    for table, columns in always.items():
        lacking = [column for column in columns if column not in held.tables.get(table, columns)]
        if lacking and held.count(table):
            yield (
                table,
                f"columns that the profiler writes are missing from the table ({', '.join(lacking)}): their "
                "values are unknown",
            )


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that this version does not open."""

    title: str
    """With its article, as ``a PNG image``."""
    hint: str = ""
    """What to do to see the profile in it, where it can hold one."""


_UNPACK: Final = "unpack it and open the log in it"
_TYPED: Final = "open the log as text: figures in an image can't be read"
_AS_TEXT: Final = "save its text first, with: pdftotext -layout"

_OLD_NVPROF: Final = (
    "print it as text with an nvprof of CUDA 12 or before: "
    "nvprof --import-profile FILE --print-gpu-trace --csv --log-file run.csv"
)

_MAGIC: Final[tuple[tuple[int, bytes, FileKind], ...]] = (
    (
        0,
        b"\0\x04\0\0\x05\0\0\0\x01\x04\0\0",
        FileKind("a profile of nvprof in the binary form of CUDA 5 and 6 (later ones are databases)", _OLD_NVPROF),
    ),
    (0, b"\x89PNG\r\n\x1a\n", FileKind("a PNG image", _TYPED)),
    (0, b"\xff\xd8\xff", FileKind("a JPEG image", _TYPED)),
    (0, b"GIF8", FileKind("a GIF image", _TYPED)),
    (8, b"WEBP", FileKind("a WebP image", _TYPED)),
    (0, b"II*\0", FileKind("a TIFF image", _TYPED)),
    (0, b"MM\0*", FileKind("a TIFF image", _TYPED)),
    (0, b"%PDF-", FileKind("a PDF document", _AS_TEXT)),
    (
        0,
        b"\x7fELF",
        FileKind("an ELF program or library", "profile it: nvprof --print-gpu-trace --log-file run.log FILE"),
    ),
    (0, b"MZ", FileKind("a Windows program", "profile it: nvprof --print-gpu-trace --log-file run.log FILE")),
    (0, b"\xcf\xfa\xed\xfe", FileKind("a macOS program")),
    (0, b"!<arch>\n", FileKind("a static library")),
    (0, b"PK\x03\x04", FileKind("a ZIP archive (or an Office document)", _UNPACK)),
    (0, b"PK\x05\x06", FileKind("an empty ZIP archive")),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7z archive", _UNPACK)),
    (0, b"Rar!\x1a\x07", FileKind("a RAR archive", _UNPACK)),
    (0, b"\x1f\x9d", FileKind("a file packed by compress", _UNPACK)),
    (0, b"\x04\x22\x4d\x18", FileKind("a file packed by lz4", _UNPACK)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK)),
    (0, b"\x89HDF\r\n\x1a\n", FileKind("an HDF5 file")),
    (0, b"\x93NUMPY", FileKind("a NumPy array")),
    (0, b"PAR1", FileKind("a Parquet file")),
    (0, b"ARROW1", FileKind("an Arrow file")),
)

_PATTERNS: Final[tuple[tuple[re.Pattern[bytes], FileKind], ...]] = (
    (
        re.compile(rb'\s*\{\s*"schema"\s*:\s*"[^"]{0,100}"[^\[]{0,2000}"nodes"\s*:\s*\['),
        FileKind(
            "an execution trace of PyTorch (the ops of a run without their times)",
            "record a trace with times: with torch.profiler.profile() as p: step(); then "
            "p.export_chrome_trace('trace.json.gz')",
        ),
    ),
)
"""What stands at the beginning of files that have no fixed first bytes."""


def file_kind(head: bytes) -> FileKind | None:
    """What an input that begins with ``head`` is, where its first bytes tell.

    >>> file_kind(b"GIF89a").title
    'a GIF image'
    """
    by_magic = (kind for offset, magic, kind in _MAGIC if head.startswith(magic, offset))
    by_pattern = (kind for pattern, kind in _PATTERNS if pattern.match(head))
    return next(by_magic, None) or next(by_pattern, None)


_NOT_WRITTEN: Final = "the recording ended before its profile was written: let the program finish"
_WHY_EMPTY: Final = (
    ((".json", ".json.gz"), f"{_NOT_WRITTEN}, or stop the profiler before that"),
    ((".nsys-rep", ".qdrep", ".ncu-rep", ".nvvp", ".nvprof", ".db"), _NOT_WRITTEN),
    (
        (".csv", ".csv.gz"),
        "its export failed or had nothing to print; Nsight Compute: ncu --import FILE --csv --page raw prints all that "
        "was measured; nvprof writes to standard error: --csv --log-file FILE",
    ),
)
"""By the end of a file's name, why it may be empty."""


def why_empty(name: str) -> str:
    """Why a file may be empty and what to do, by its name: nothing else is known of it.

    >>> why_empty("run.log")
    'nvprof writes to standard error: record with --log-file FILE, or redirect with 2>&1'
    >>> why_empty("my run.sqlite")
    "its export failed; export it again: nsys export --type sqlite --force-overwrite true 'my run.nsys-rep'"
    """
    if name.endswith(".sqlite"):
        report = shlex.quote(f"{'./' if name.startswith('-') else ''}{name.removesuffix('.sqlite')}.nsys-rep")
        return f"its export failed; export it again: nsys export --type sqlite --force-overwrite true {report}"
    return next(
        (why for ends, why in _WHY_EMPTY if name.lower().endswith(ends)),
        "nvprof writes to standard error: record with --log-file FILE, or redirect with 2>&1",
    )
