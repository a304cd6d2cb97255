"""Export of frames (CSV, TSV, JSON, NDJSON, Parquet, Excel, PDF, Markdown), with metadata where a format has room."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, cast

import polars as pl

from tui.model.errors import ProftuiError
from tui.text import MARK, plain

NAMED: Final = 3
"""The most files that are named; of more the first one and their number."""


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class About:
    """The origin of an exported table."""

    profile: str
    """The name of the input, as ``run.nvprof.log``."""

    title: str
    """The table for people, as ``Kernels`` or ``Ops and Kernels, Launches``."""

    view: str = ""
    """The view's name, as ``report --view`` takes it; empty for what is no view."""

    of: str = ""
    """What its rows belong to: the parent row, the session; empty for all that was read."""

    aggregation: str = ""
    """The iterations that were chosen; empty for all."""

    partial: str = ""
    """How much of the input was read, where that is not all of it."""

    rows: str = ""
    """How many of its rows, and what was omitted; empty for all."""

    filter: str = ""
    """What the rows match; empty if there is no filter."""

    order: str = ""
    """What the rows are sorted by."""

    when: datetime = field(default_factory=_now)
    """The time of the export, with its zone."""

    @property
    def date(self) -> str:
        """The time as text, such as ``2026-11-21 16:20 UTC``."""
        return self.when.strftime("%Y-%m-%d %H:%M %Z").strip()

    @property
    def rows_text(self) -> str:
        """A description of the rows, in one line."""
        partial = f"partial: {self.partial}" if self.partial else ""
        matching = f"filter {self.filter}" if self.filter else ""
        in_order = f"sorted by {self.order}" if self.order else ""
        parts = (self.of, self.aggregation, partial, self.rows, matching, in_order)
        return ", ".join(part for part in parts if part)

    @property
    def summary_line(self) -> str:
        """All but the date in one line, for formats without other metadata; without control characters."""
        return plain(f"{self.profile}: {self.title}{f' ({self.rows_text})' if self.rows_text else ''}")

    def facts(self) -> dict[str, str]:
        """Return all fields by name, without empty ones."""
        facts = {
            "profile": self.profile,
            "view": self.view,
            "title": self.title,
            "of": self.of,
            "aggregation": self.aggregation,
            "partial": self.partial,
            "shown": self.rows,
            "filter": self.filter,
            "sorted_by": self.order,
            "exported": self.date,
        }
        return {name: value for name, value in facts.items() if value}


def profile_name(paths: Sequence[str], files: int = 1) -> str:
    """Return a short name for the input: a file by its name, a folder by its name and the number of files.

    Args:
        paths: The paths as the user gave them.
        files: The number of files that were read.

    >>> [profile_name(["runs/a.log"]), profile_name(["runs/"], 2), profile_name(["-"]), profile_name([*"abcd"], 4)]
    ['a.log', 'runs (2 files)', 'standard input', 'a and 3 more files']
    """
    names = ["standard input" if path == "-" else _base_name(path) for path in paths]
    if len(names) == 1:
        return f"{names[0]} ({files} files)" if files > 1 else names[0]
    return ", ".join(names) if len(names) <= NAMED else f"{names[0]} and {len(names) - 1} more files"


def _base_name(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return os.path.basename(os.path.realpath(path)) if name in ("", ".", "..") else name  # noqa: PTH119


Writer = Callable[[pl.DataFrame, IO[bytes], "About | None"], None]
"""Writes rows to a stream, with their description if the format has room for it."""

_MARKUP: Final = re.compile(r"[\\|`*<\[~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""Characters of markup; underscores within a word are none."""

_OS_ERROR: Final = re.compile(r"\(os error ([0-9]+)\)")

_FORMULA: Final = r"^[=+@-]."
"""The beginnings of texts that a spreadsheet would compute as formulas."""

_UNPRINTABLE: Final = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"


def write_frame(
    frame: pl.DataFrame,
    target: Path | IO[bytes],
    format_name: str,
    *,
    overwrite: bool = False,
    about: About | None = None,
    before_rows: bytes = b"",
) -> None:
    """Write a frame to a file or a stream.

    A file is written under a temporary name in the same folder and renamed when it is complete.

    Args:
        frame: The rows.
        target: A path, or a binary stream.
        format_name: One of `FORMATS`.
        overwrite: Replace an existing file.
        about: The description of the rows, written by Excel, PDF, Markdown, JSON and Parquet; other formats have only
            rows.
        before_rows: The JSON text before the rows, from `json_document.document_before_rows`.

    Raises:
        ProftuiError: The format is not known, a package is missing, or the file cannot be written.
    """
    if format_name not in FORMATS:
        raise ProftuiError(f"cannot export {format_name}", f"formats: {', '.join(FORMATS)}")
    plain_frame = _plain_types(frame)

    def write_to(stream: IO[bytes]) -> None:
        try:
            stream.write(before_rows)
            FORMATS[format_name](plain_frame, stream, about)
            stream.write(b"}\n" if before_rows else b"")
        except OSError as error:
            raise _with_number(error) from error

    if isinstance(target, Path):
        write_file(write_to, target, overwrite=overwrite)
    else:
        write_to(target)


def formula_warning(frame: pl.DataFrame, format_name: str) -> str:
    """Return a warning if a spreadsheet would take texts for formulas; else empty.

    The texts are not changed: programs that read the file need the names of the profile.

    >>> formula_warning(pl.DataFrame({"name": ["=1+1", "gemm", "-"]}), "csv")
    '1 value starts like a formula: for spreadsheets, use xlsx'
    """
    if format_name not in ("csv", "tsv"):
        return ""
    counts = _plain_types(frame).select(pl.col(pl.String).str.contains(_FORMULA).sum())
    number = sum(counts.row(0)) if counts.width else 0
    texts = "1 value starts like a formula" if number == 1 else f"{number:,} values start like formulas"
    return f"{texts}: for spreadsheets, use xlsx" if number else ""


def for_clipboard(frame: pl.DataFrame, about: About) -> str:
    """Return the text for the clipboard: a description, a blank line, tab-separated values."""
    stream = io.BytesIO()
    write_frame(frame, stream, "tsv")
    return f"{about.summary_line}\n\n{stream.getvalue().decode('utf-8', 'replace')}"


def for_terminal(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with control and direction characters in texts and headings shown as ``·``.

    Headings that become equal are distinguished by a number.
    """
    texts = _plain_types(frame).with_columns(pl.col(pl.String).str.replace_all(_UNPRINTABLE, MARK))
    names = [plain(name) for name in texts.columns]
    return texts.rename(
        {
            column: name if names.index(name) == index else f"{name} ({index + 1})"
            for index, (column, name) in enumerate(zip(texts.columns, names, strict=True))
        }
    )


def format_by_extension(path: str) -> str | None:
    """Return the format of a path's extension, or None.

    >>> format_by_extension("kernels.parquet"), format_by_extension("kernels.md"), format_by_extension("kernels.xyz")
    ('parquet', 'markdown', None)
    """
    ending = Path(path).suffix.lower().lstrip(".")
    ending = {"md": "markdown", "jsonl": "ndjson"}.get(ending, ending)
    return ending if ending in FORMATS else None


def json_line(content: Mapping[str, Any]) -> str:
    """Return an object as one line of JSON in printable ASCII, without terminal control characters."""
    return json.dumps(content).replace("\x7f", "\\u007f") + "\n"


def markdown_cell(text: str) -> str:
    r"""Escape a text for the cell of a Markdown table.

    >>> markdown_cell("a_b|c <float> __x")
    'a_b\\|c \\<float> \\_\\_x'
    """
    return _MARKUP.sub(r"\\\g<0>", plain(text)).replace("&", "&amp;")


def markdown_table(headings: list[str], rows: list[list[str]], right_aligned: list[bool]) -> str:
    """Return a Markdown table of texts.

    Args:
        headings: The headings of the columns.
        rows: The texts of each row, one per column.
        right_aligned: For each column whether it is aligned to the right.
    """
    lines = [
        "| " + " | ".join(markdown_cell(heading) for heading in headings) + " |",
        "|" + "|".join(" ---: " if aligned else " --- " for aligned in right_aligned) + "|",
    ]
    lines += ["| " + " | ".join(markdown_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _plain_types(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert categories to strings, so that readers of the file need not know them."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def _with_number(error: OSError) -> OSError:
    """Return an error of Polars, which has only text, with its error number, such as a `BrokenPipeError`.

    >>> _with_number(OSError("Broken pipe (os error 32)"))
    BrokenPipeError(32, 'Broken pipe')
    """
    number = _OS_ERROR.search(str(error))
    return error if error.errno or not number else OSError(int(number[1]), os.strerror(int(number[1])))


def write_file(write_to: Callable[[IO[bytes]], None], path: Path, *, overwrite: bool) -> None:
    """Write a file atomically.

    Args:
        write_to: Writes the content to a stream.
        path: The path of the file.
        overwrite: Replace an existing file.

    Raises:
        ProftuiError: It is there already, or cannot be written.
    """
    path = path.resolve()
    if path.is_dir():
        raise ProftuiError(f"{path} is a directory", "give a file name")
    if path.exists() and not path.is_file():
        # A device or a pipe, such as /dev/null, cannot be replaced.
        with path.open("wb") as stream:
            write_to(stream)
        return
    if path.exists() and not overwrite:
        raise ProftuiError(f"{path} exists", "choose another name, or use --overwrite")
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as stream:
            write_to(stream)
        temporary.replace(path)
    except OSError as error:
        raise ProftuiError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_csv(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    frame.write_csv(stream)


def _write_tsv(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    frame.write_csv(stream, separator="\t")


def _write_json(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    """Write a list of objects; with metadata, an object that holds both, as in reports."""
    if about is not None:
        stream.write(json.dumps(about.facts()).removesuffix("}").encode() + b', "rows": ')
    frame.write_json(cast("io.IOBase", stream))
    stream.write(b"}\n" if about is not None else b"\n")


def _write_ndjson(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    frame.write_ndjson(stream)


def _write_parquet(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    # Through memory: Parquet needs a position in the stream, which a pipe does not have.
    buffer = io.BytesIO()
    # Without the date: the same rows are the same file.
    facts = {name: value for name, value in about.facts().items() if name != "exported"} if about else {}
    metadata = {f"proftui.{name}": value for name, value in facts.items()} or None
    frame.write_parquet(buffer, metadata=metadata)
    stream.write(buffer.getbuffer())


def _write_markdown(frame: pl.DataFrame, stream: IO[bytes], about: About | None = None) -> None:
    if about is not None:
        title, profile, rows, date = map(markdown_cell, (about.title, about.profile, about.rows_text, about.date))
        heading = f"### {title}: {profile}\n\n{f'{rows}, {date}' if rows else date}\n\n"
        stream.write(heading.encode("utf-8", "replace"))
    texts = frame.select(pl.all().cast(pl.String).fill_null(""))
    right_aligned = [dtype.is_numeric() for dtype in frame.dtypes]
    table = markdown_table(frame.columns, [list(row) for row in texts.iter_rows()], right_aligned)
    stream.write(table.encode("utf-8", "replace"))


def _rows_only(write_bare: Callable[[pl.DataFrame, IO[bytes]], None]) -> Writer:
    """Return the writer of a format that holds only rows."""

    def write_rows(frame: pl.DataFrame, stream: IO[bytes], _about: About | None) -> None:
        write_bare(frame, stream)

    return write_rows


def _write_xlsx(frame: pl.DataFrame, stream: IO[bytes], about: About | None) -> None:
    from tui.output.documents import write_xlsx  # reports need no documents

    write_xlsx(frame, stream, about)


def _write_pdf(frame: pl.DataFrame, stream: IO[bytes], about: About | None) -> None:
    from tui.output.documents import write_pdf

    write_pdf(frame, stream, about)


FORMATS: Final[dict[str, Writer]] = {
    "csv": _rows_only(_write_csv),
    "tsv": _rows_only(_write_tsv),
    "json": _write_json,
    "ndjson": _rows_only(_write_ndjson),
    "parquet": _write_parquet,
    "xlsx": _write_xlsx,
    "pdf": _write_pdf,
    "markdown": _write_markdown,
}
"""The writers, by the name of the format."""
