"""The profiles in a folder and below it, and those opened before: the list of the home screen."""

from __future__ import annotations

import os
import re
import textwrap
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.cached_results import CACHED_SCHEMAS
from tui.analysis.gpu_time.breakdown import wall_bounds
from tui.analysis.kernels import kernels
from tui.cache import entry as cache_entry
from tui.cache.entry import entry_name, file_fingerprint
from tui.fmt import brief_duration, size
from tui.loaders import registry
from tui.loaders.dataset_loader import is_dataset
from tui.loaders.multi_file.load_together import profile_files
from tui.loaders.multi_file.ranks import are_numbered_parts
from tui.loaders.nsys.parquet_export import is_parquetdir
from tui.model.columns import Column, ColumnKind
from tui.model.errors import NoProfileError, ProftuiError
from tui.model.table_spec import TableSpec
from tui.options import expand_user_path
from tui.state.notes import Notes
from tui.state.store import files
from tui.state.workspace import MAX_KERNELS, FirstFigures, KernelTotal, opened_files
from tui.text import plain, plural
from tui.text_width import clip, clip_middle, pad, shorten_symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tui.model.profile import Profile

MAX_FOLDERS: Final = 2_000
"""The maximum number of folders that are searched."""
MAX_FILES: Final = 2_000
"""The maximum number of files whose beginning is read, newest first."""
DEEPEST: Final = 8
"""Deeper folders are not searched."""
PREVIEWED: Final = 30
"""The first figures of at most this number of profiles, the newest, are read in advance."""
QUICK_BYTES: Final = 4 << 20
"""Smaller files are read for their first figures."""
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "site-packages"})
"""Folders that belong to programs."""
_SOURCE_CODE: Final = re.compile(
    r"\.(c|cc|cpp|cu|cuh|cxx|go|h|hip|hpp|java|jl|js|lua|py|pyi|pyx|rs|sh|toml|ts|yaml|yml)", re.IGNORECASE
)
"""Suffixes of source files, which are not profiles even if they contain tables."""
_RANK_IN_HEAD: Final = re.compile(rb'"rank"\s*:\s*([0-9]+)')
_COMMAND_IN_HEAD: Final = re.compile(rb"==([0-9]+)== NVPROF is profiling process [0-9]+, command: (.*)")
_TRACE_HANDLER: Final = re.compile(r"(.+)_([0-9]+)\.([0-9]{13,19})\.pt\.trace\.json")
"""File names of PyTorch's `tensorboard_trace_handler`: host, process, and time."""
SAME_TIME_S: Final = 60
"""Profiles of the processes of one job are written within this number of seconds."""
_MULTI_FILE_FORMATS: Final = ("nsys-stats", "rocprof", "dlprof", "ascend", "caffe")
"""Prefixes of the names of formats with several files for one run."""
_EXPORTS_BESIDE_TABLES: Final = {
    "ascend": re.compile(r"(?:trace_view|msprof_[0-9_]+)\.json(?:\.gz)?"),
    "rocprof": re.compile(r"(?:.*_)?results\.(?:db|pftrace)"),
}
"""File names of other exports that a tool writes next to files of formats with this prefix."""

PROFILES: Final = TableSpec(
    "profiles",
    "Profiles",
    (
        Column("file", "File", ColumnKind.TEXT, "The file, relative to the listed folder.", 1),
        Column("format", "Format", ColumnKind.TEXT, "The format, recognized by content.", 4),
        Column("gpu", "GPU", ColumnKind.TEXT, "The recorded GPU.", 3, absent="–"),
        Column(
            "duration_ns",
            "Duration",
            ColumnKind.DURATION,
            "Wall time of the longest session. Unknown for large files that were never opened.",
            2,
        ),
        Column("size_bytes", "Size", ColumnKind.SIZE, "Size of the file.", 3),
        Column("age", "Age", ColumnKind.TEXT, "Time since the file was written.", 2, ends_right=True),
        Column("opened", "Opened", ColumnKind.TEXT, "Time since you last opened it.", 4, ends_right=True, absent=""),
        Column("notes", "Notes", ColumnKind.COUNT, "Your notes on its rows.", 5, only_above_zero=True),
        Column("modified", "Written", ColumnKind.TEXT, "When the file was written.", 8),
    ),
    key=("path",),
    pinned="file",
    min_pinned_cells=36,
    bars=(),
)


@dataclass(frozen=True, slots=True)
class FoundProfile:
    """A profile that can be opened."""

    path: str
    format: str
    size: int
    modified_ns: int
    opened: int | None = None
    """When it was opened before, in seconds since 1970."""
    notes: int = 0
    figures: FirstFigures | None = None
    """What is known of it without reading it again."""
    error: str = ""
    """Why it cannot be read; empty if that is not known, or it can."""

    @property
    def key(self) -> str:
        """Its path, with bytes that are no text escaped."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class FoundProfiles:
    """The list of profiles."""

    profiles: tuple[FoundProfile, ...]
    """The newest first."""
    left_out: str = ""
    """A sentence about what was not examined; empty if everything was."""


def find_profiles(
    folder: str,
    should_continue: Callable[[], bool] = lambda: True,
    *,
    lists_opened: bool = True,
    may_read: Callable[[str], bool] = lambda _path: True,
) -> FoundProfiles:
    """Return the profiles in a folder and below it, and those opened before wherever they are.

    Args:
        folder: The folder; empty: only profiles opened before.
        should_continue: Called between two files; False ends the search.
        lists_opened: Whether profiles opened before in other folders are included.
        may_read: Whether a path may be opened; others are omitted.
    """
    opened = opened_files()
    candidates, omitted = _candidates(folder) if folder else ([], "")
    in_folder = {path for path, _size, _modified in candidates}
    for path in reversed(opened) if lists_opened else ():
        if path not in in_folder and (stamp := _stamp(path)) is not None:
            candidates.append((path, *stamp))
    profiles = []
    for path, bytes_, modified_ns in candidates:
        if not should_continue():
            omitted = "search stopped"
            break
        if not may_read(path):
            continue
        record = opened.get(path)
        is_current = record is not None and (record.size, record.modified_ns) == (bytes_, modified_ns)
        figures = record.figures if record is not None and is_current else None
        name = figures.format if figures is not None else detect_format(path)
        if name:
            opened_at = record.opened if record is not None else None
            profiles.append(FoundProfile(path, name, bytes_, modified_ns, opened_at, _notes_on(path), figures))
    profiles.sort(key=lambda profile: (-profile.modified_ns, profile.path))
    return FoundProfiles(tuple(profiles), omitted)


def _candidates(folder: str) -> tuple[list[tuple[str, int, int]], str]:
    """Return the files that may be profiles (path, size, modified), the newest first, and what was omitted."""
    stamped: list[tuple[str, int, int]] = []
    folders = 0
    omitted = ""
    for path in _folders(os.path.abspath(folder)):  # noqa: PTH100
        folders += 1
        if folders > MAX_FOLDERS:
            omitted = f"only the first {MAX_FOLDERS:,} folders were searched"
            break
        if is_profile_folder(path):
            names = [path]
        else:
            try:
                names = profile_files(path)
            except ProftuiError as error:
                if "holds" in str(error):
                    omitted = str(error)
                continue
        profiles = [name for name in names if not _SOURCE_CODE.fullmatch(Path(name).suffix)]
        stamped += [(name, *stamp) for name in profiles if (stamp := _stamp(name)) is not None]
    stamped.sort(key=lambda entry: (-entry[2], entry[0]))
    if len(stamped) > MAX_FILES:
        omitted = f"only the newest {MAX_FILES:,} of {len(stamped):,} files were searched"
    return stamped[:MAX_FILES], omitted


def _folders(top: str) -> Iterator[str]:
    depth = top.rstrip(os.sep).count(os.sep)
    for path, subfolders, _names in os.walk(top):
        yield path
        subfolders[:] = sorted(name for name in subfolders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        if path.count(os.sep) - depth >= DEEPEST or is_profile_folder(path):
            subfolders.clear()


def is_profile_folder(path: str) -> bool:
    """Return whether a folder is a profile itself, as datasets and folders of Parquet files are."""
    try:
        return is_parquetdir(Path(path)) or is_dataset(Path(path))
    except (OSError, ProftuiError):
        return False


def _stamp(path: str) -> tuple[int, int] | None:
    """Return size and time of modification; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


def detect_format(path: str) -> str:
    """Return the format of a file by its content; empty if it is no profile.

    >>> detect_format("/dev/null")
    ''
    """
    try:
        return registry.recognized_format(path)
    except (ProftuiError, OSError):
        return ""


def _notes_on(path: str) -> int:
    identified = files((path,))
    return len(Notes(identified).by_name) if identified is not None else 0


def are_unrelated(paths: Sequence[str]) -> bool:
    """Return whether several profiles of a folder are of different runs, so that they are not opened together.

    Args:
        paths: Files that hold profiles.
    """
    formats = [detect_format(path) for path in paths]
    exports = [
        file_name
        for prefix, file_name in _EXPORTS_BESIDE_TABLES.items()
        if any(name.startswith(prefix) for name in formats)
    ]
    if len(paths) < 2 or all(
        name.startswith(_MULTI_FILE_FORMATS) or any(file_name.fullmatch(Path(path).name) for file_name in exports)
        for path, name in zip(paths, formats, strict=True)
    ):
        return False
    if are_numbered_parts(paths) or _are_from_one_trace_handler(paths):
        return False
    heads = [registry.read_head(path) for path in paths]
    ranks = [match[1] if (match := _RANK_IN_HEAD.search(head)) else b"" for head in heads]
    if all(ranks) and len(set(ranks)) > 1:
        return False
    return not _are_from_one_command(paths, heads)


def _are_from_one_trace_handler(paths: Sequence[str]) -> bool:
    """Return whether traces are of one process, or of several at the same time, by the names PyTorch gave them."""
    names = [_TRACE_HANDLER.match(Path(path).name) for path in paths]
    parsed = [(name[1], name[2], int(name[3][:10])) for name in names if name is not None]
    if len(parsed) < len(paths):
        return False
    seconds = [second for _host, _process, second in parsed]
    processes = {(host, process) for host, process, _second in parsed}
    return len(processes) == 1 or max(seconds) - min(seconds) <= SAME_TIME_S


def _are_from_one_command(paths: Sequence[str], heads: Sequence[bytes]) -> bool:
    """Return whether nvprof's logs are of several processes of one command that ended at the same time."""
    matches = [_COMMAND_IN_HEAD.search(head) for head in heads]
    started = [(match[1], match[2].strip()) for match in matches if match is not None]
    if len(started) < len(paths) or len({command for _process, command in started}) > 1:
        return False
    written = [stamp[1] / 1e9 for path in paths if (stamp := _stamp(path)) is not None]
    is_same_time = len(written) == len(paths) and max(written) - min(written) <= SAME_TIME_S
    return is_same_time and len({process for process, _command in started}) == len(paths)


def lists_profiles(path: str) -> bool:
    """Return whether a path is a folder to choose from: with profiles of different runs, or only in subfolders.

    >>> lists_profiles("/dev/null")
    False
    """
    if not Path(path).is_dir() or is_profile_folder(path):
        return False
    try:
        direct_profiles = [file for file in profile_files(path) if detect_format(file)]
    except (ProftuiError, OSError):
        direct_profiles = []
    if direct_profiles:
        return are_unrelated(direct_profiles)
    candidates, _left_out = _candidates(path)
    return any(detect_format(file) for file, _size, _modified in candidates)


# --- first figures ----------------------------------------------------------------------------------------------------


def first_figures(profile: Profile) -> FirstFigures:
    """Return the figures of a profile for the home screen."""
    rows = kernels(profile)
    by_name = (
        rows.group_by("name", maintain_order=True)
        .agg(pl.col("calls").sum(), pl.col("total_ns").sum())
        .sort("total_ns", "name", descending=[True, False], nulls_last=True)
    )
    top = tuple(
        KernelTotal(str(name)[:1000], calls, total) for name, calls, total in by_name.head(MAX_KERNELS).iter_rows()
    )
    walls = [last - first for first, last in wall_bounds(profile).values()]
    names = profile["devices"]["name"].drop_nulls().unique(maintain_order=True).to_list()
    formats = profile["sessions"]["format"].unique(maintain_order=True).to_list()
    return FirstFigures(
        format=", ".join(map(str, formats)),
        gpu=", ".join(map(str, names))[:200] or None,
        duration_ns=max(walls) if walls else None,
        sessions=profile["sessions"].height,
        launches=int(by_name["calls"].sum()) if by_name.height else None,
        gpu_ns=int(by_name["total_ns"].sum()) if by_name["total_ns"].count() else None,
        ops=profile["ops"].height,
        api_calls=profile["api_calls"].height,
        top=top,
    )


def quick_figures(candidate: FoundProfile, should_continue: Callable[[], bool] = lambda: True) -> FirstFigures | None:
    """Return the cached first figures of a file, else those of a small file, which is read; else None.

    Args:
        candidate: The file.
        should_continue: Called while it is read; False stops reading.

    Raises:
        ProftuiError: It cannot be read.
    """
    if candidate.figures is not None:
        return candidate.figures
    fingerprint = file_fingerprint(candidate.path)
    if fingerprint is not None:
        cached = cache_entry.read_entry(entry_name(candidate.path, None), candidate.path, fingerprint, CACHED_SCHEMAS)
        if cached is not None:
            return first_figures(cached.profile)
    if candidate.size > QUICK_BYTES or Path(candidate.path).is_dir() or candidate.format == "nsys-report":
        return None
    profile = registry.load_input(candidate.path, on_progress=lambda _progress: should_continue())
    return None if profile.partial and not should_continue() else first_figures(profile)


def with_figures(profile: FoundProfile, should_continue: Callable[[], bool] = lambda: True) -> FoundProfile | None:
    """Return a profile with its first figures if they are quick to get, or with its error; None if it is no profile.

    A text that only mentions a profiler is not a profile.
    """
    try:
        figures = quick_figures(profile, should_continue)
    except NoProfileError:
        return None
    except ProftuiError as error:
        return replace(profile, error=str(error))
    except OSError as error:
        return replace(profile, error=error.strerror or str(error))
    return replace(profile, figures=figures, format=profile.format if figures is None else figures.format)


# --- the table --------------------------------------------------------------------------------------------------------


def profiles_frame(profiles: Sequence[FoundProfile], folder: str, now: float | None = None) -> pl.DataFrame:
    """Return the rows of `PROFILES`.

    Args:
        profiles: The profiles.
        folder: Paths below it are shown relative to it.
        now: Seconds since 1970; None: the current time.
    """
    now = time.time() if now is None else now
    top = os.path.abspath(folder) if folder else ""  # noqa: PTH100
    rows = [
        {
            "path": profile.key,
            "file": _shown_path(profile.path, top),
            "format": profile.format,
            "gpu": profile.figures.gpu if profile.figures else None,
            "duration_ns": profile.figures.duration_ns if profile.figures else None,
            "size_bytes": profile.size,
            "age": format_age(now - profile.modified_ns / 1e9),
            "opened": None if profile.opened is None else format_age(now - profile.opened),
            "notes": profile.notes,
            "modified": datetime.fromtimestamp(profile.modified_ns / 1e9).isoformat(" ", "minutes"),
        }
        for profile in profiles
    ]
    schema = {
        **dict.fromkeys(("path", "file", "format", "gpu"), pl.String),
        **dict.fromkeys(("duration_ns", "size_bytes"), pl.Int64),
        **dict.fromkeys(("age", "opened"), pl.String),
        "notes": pl.Int64,
        "modified": pl.String,
    }
    return pl.DataFrame(rows, schema=schema)


def _shown_path(path: str, top: str) -> str:
    text = os.path.relpath(path, top) if top and Path(path).is_relative_to(top) else path
    home = os.path.expanduser("~")  # noqa: PTH111
    if home not in ("", os.sep) and text.startswith(home + os.sep):
        text = "~" + text[len(home) :]
    return text.encode(errors="replace").decode()


def format_age(seconds: float) -> str:
    """Format a time span as ``3 days ago``.

    >>> [format_age(s) for s in (-1, 30, 90, 7_300, 200_000, 3_000_000, 70_000_000)]
    ['now', 'now', '1 min', '2 h', '2 d', '4 wk', '2 y']
    """
    if seconds < 60:
        return "now"
    for unit, length, max_seconds in (("min", 60, 60), ("h", 3600, 48), ("d", 86_400, 15), ("wk", 604_800, 104)):
        if seconds < max_seconds * length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds // 31_557_600)} y"


FORMATS: Final = TableSpec(
    "formats",
    "Supported formats",
    (
        Column("title", "Format", ColumnKind.TEXT, "The format.", 1),
        Column("record_with", "Record it with", ColumnKind.TEXT, "A command that records it.", 1),
        Column("format", "--format-in", ColumnKind.TEXT, "Its name on the command line.", 4),
        Column("recognized_by", "Recognized by", ColumnKind.TEXT, "The content by which it is recognized.", 6),
    ),
    key=("format",),
    pinned="title",
    bars=(),
)


def formats_frame() -> pl.DataFrame:
    """Return the formats that can be opened and the commands that record them, as rows of `FORMATS`."""
    rows = [
        (description.title, description.record_with, description.name, description.recognized_by)
        for description in registry.formats()
    ]
    return pl.DataFrame(rows, schema=["title", "record_with", "format", "recognized_by"], orient="row")


MAX_LISTED: Final = 10_000
"""The most entries of a folder that are examined to complete a path."""


def complete_path(text: str, folder: str) -> str | None:
    """Complete a typed path by the first matching entry of its folder; folders get a slash.

    Args:
        text: The typed text.
        folder: The folder of relative paths.
    """
    if not text or "\0" in text:
        return None
    typed_folder, name = os.path.split(text)
    try:
        with os.scandir(expand_user_path(os.path.join(folder, typed_folder or "."))) as entries:  # noqa: PTH118
            matches = [
                (entry.name, entry.is_dir())
                for entry, _ in zip(entries, range(MAX_LISTED), strict=False)
                if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return None
    if not matches:
        return None
    first, is_folder = min(matches)
    completed = text[: len(text) - len(name)] + first + (os.sep if is_folder else "")
    return completed if completed != text and completed.isprintable() else None


# --- the preview ------------------------------------------------------------------------------------------------------

_FIGURE: Final = 10
"""The width of a time in the preview."""


def profile_preview(profile: FoundProfile, width: int, height: int, *, is_looked: bool) -> list[str]:
    """Return the first figures of a profile as lines of at most ``width`` cells.

    Args:
        profile: The profile.
        width: The width in cells.
        height: The number of lines.
        is_looked: Whether its figures have been read.
    """
    figures = profile.figures
    lines = [clip_middle(plain(Path(profile.path).name), width)]
    if figures is None:
        lines += [f"{profile.format}, {size(profile.size)}"]
        if profile.error:
            lines += textwrap.wrap(plain(f"Cannot be read: {profile.error}"), max(width, 10))
        else:
            lines += ["Not read yet. Enter opens it." if is_looked else "reading…"]
        return [clip(line, width) for line in lines[:height]]
    counts = [
        f"{figures.sessions} sessions" if figures.sessions > 1 else "",
        plural(figures.launches, "launch", "launches") if figures.launches is not None else "",
        plural(figures.ops, "op") if figures.ops else "",
        plural(figures.api_calls, "API call") if figures.api_calls else "",
    ]
    duration = "not recorded" if figures.duration_ns is None else brief_duration(figures.duration_ns)
    lines += [
        f"GPU       {plain(figures.gpu or 'not recorded')}",
        f"Duration  {duration}",
        f"GPU work  {'not recorded' if figures.gpu_ns is None else brief_duration(figures.gpu_ns)}",
        *textwrap.wrap(", ".join(filter(None, counts)), max(width, 10)),
    ]
    if figures.top and len(lines) + 1 < height:
        lines.append("Most GPU time:")
        for kernel in figures.top:
            name = shorten_symbol(plain(kernel.name), width - _FIGURE - 1)
            time_text = "–" if kernel.total_ns is None else brief_duration(kernel.total_ns)
            lines.append(f"{pad(name, width - _FIGURE)}{time_text:>{_FIGURE}}")
    return [clip(line, width) for line in lines[:height]]
