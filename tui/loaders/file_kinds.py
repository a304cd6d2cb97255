"""Files that are not profiles, recognized by their first bytes, and empty files: what an error says and suggests."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final


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
