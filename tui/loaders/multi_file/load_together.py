"""Opens several files and folders together, as one profile, and adds the captures of CUDA graphs to a profile."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.correlation.graph_replays import link_replayed_ops
from tui.loaders.ascend_database import merge_ascend_files
from tui.loaders.dataset_loader import is_address
from tui.loaders.input_file import zip_members
from tui.loaders.memory_snapshot import DamagedPickleError, UnsafePickleError, load_pickle
from tui.loaders.multi_file.ranks import fill_ranks, rank_issues
from tui.loaders.multi_file.read_files import FileOutcome, WantedFile, read_files
from tui.loaders.nsys.nsys_export import REPORT_SUFFIXES, newer_report
from tui.loaders.raw_input import STANDARD_INPUT
from tui.loaders.rocprof.rocprof_csv import merge_rocprof_files, run_of_table
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.names import kind_by_prefix
from tui.model.profile import merge_profiles, with_issues
from tui.text import map_distinct, plural, short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui.loaders.base import ProfileCache, ProgressCallback
    from tui.model.profile import Profile


def load_together(
    paths: Sequence[str],
    is_folder: Callable[[str], bool],
    read_file: Callable[[WantedFile, ProgressCallback], Profile | None],
    *,
    format_in: str | None,
    on_progress: ProgressCallback,
    cache: ProfileCache | None,
) -> tuple[Profile | None, list[ProftuiError]]:
    """Read files and folders into one profile, in the order of the paths; files of a folder by rank.

    Args:
        paths: As they were given.
        is_folder: Whether a path is that of a folder of profiles.
        read_file: As for `tui.loaders.multi_file.read_files.read_files`.
        format_in: As for `tui.loaders.multi_file.read_files.read_files`.
        on_progress: As for `tui.loaders.multi_file.read_files.read_files`.
        cache: As for `tui.loaders.multi_file.read_files.read_files`.

    Returns:
        The profile, or None if nothing could be read; and an error for each path that could not be read.
    """
    selection = _select_files(paths, is_folder)
    files = selection.files
    if not files:
        return None, selection.errors
    outcomes = read_files(files, read_file, format_in=format_in, on_progress=on_progress, cache=cache)
    if len(files) > 1:
        outcomes = _with_file_names(files, outcomes)
    profiles, issues, errors = _profiles_by_path(selection, outcomes)
    errors = [*selection.errors, *errors]
    if not profiles:
        return None, errors or [ProftuiError("stopped before any file was completely read")]
    runs = merge_rocprof_files(merge_ascend_files(profiles))
    profile = merge_profiles(runs)
    tables = Counter(run for run in map(_run_of_report, runs) if run is not None)
    issues += _single_table_issues([run[0] for run in tables.elements() if tables[run] > 1])
    not_read = [Path(file.path).name for file, outcome in zip(files, outcomes, strict=True) if outcome.was_stopped]
    if not_read:
        reason = f"stopped: {len(not_read)} of {len(files)} files not read"
        profile = replace(profile, partial="; ".join(filter(None, [reason, profile.partial])))
        issues.append({"severity": "warning", "text": short_list(not_read), "reason": reason})
    if duplicates := selection.duplicates:
        count = plural(len(duplicates), "file is", "files are")
        reason = f"{count} given more than once: read once"
        issues.append({"severity": "info", "text": short_list(duplicates), "reason": reason})
    if len(files) > 1:
        unread = [file.path for file, outcome in zip(files, outcomes, strict=True) if outcome.error is not None]
        issues += rank_issues(profile["sessions"], skipped=unread, not_read=not_read)
        issues += _repeated_run_issues(profile)
    return with_issues(profile, issues), errors


@dataclass(slots=True)
class _Selection:
    """The files to read, each once."""

    files: list[WantedFile] = field(default_factory=list)
    groups: list[tuple[str, range]] = field(default_factory=list)
    """For each path: the folder, or empty for a file, and the indices of its files."""
    duplicates: list[str] = field(default_factory=list)
    errors: list[ProftuiError] = field(default_factory=list)


def _select_files(paths: Sequence[str], is_folder: Callable[[str], bool]) -> _Selection:
    """Return the files of all paths; files of a folder are listed in its place."""
    selection = _Selection()
    selected: set[str] = set()
    for path in paths:
        is_single = not is_folder(path)
        try:
            listed = [path] if is_single else profile_files(path)
        except ProftuiError as error:
            selection.errors.append(error)
            continue
        new: list[str] = []
        # A file counts before links to it.
        for file in sorted(listed, key=os.path.islink):
            identity = _file_identity(file)
            (selection.duplicates if identity in selected else new).append(file)
            selected.add(identity)
        if not new:
            continue
        new.sort(key=listed.index)
        first_index = len(selection.files)
        selection.files += [WantedFile(file, may_be_none=not is_single) for file in new]
        selection.groups.append(("" if is_single else path, range(first_index, len(selection.files))))
    return selection


def _profiles_by_path(
    selection: _Selection, outcomes: Sequence[FileOutcome]
) -> tuple[list[Profile], list[dict[str, str]], list[ProftuiError]]:
    """Return the profile of each path, unless it was not read; issues and errors for those that could not be read."""
    profiles: list[Profile] = []
    issues: list[dict[str, str]] = []
    errors: list[ProftuiError] = []
    for folder, indices in selection.groups:
        path_outcomes = {selection.files[index].path: outcomes[index] for index in indices}
        if all(outcome.was_stopped for outcome in path_outcomes.values()):
            continue
        try:
            if folder:
                profiles.append(join_folder(folder, path_outcomes))
                continue
            (outcome,) = path_outcomes.values()
            if outcome.error is not None:
                issues.append({"severity": "error", "text": "", "reason": f"{SKIPPED_PREFIX}{outcome.error}"})
                raise outcome.error
            if outcome.profile is not None:
                profiles.append(outcome.profile)
        except ProftuiError as error:
            errors.append(error)
    return profiles, issues, errors


def _file_identity(path: str) -> str:
    """Return the identity of a file, whatever path leads to it."""
    return path if path == STANDARD_INPUT or is_address(path) else os.path.realpath(path)


def _with_file_names(files: Sequence[WantedFile], outcomes: Sequence[FileOutcome]) -> list[FileOutcome]:
    """Return the outcomes with ranks inferred from file names, and partial profiles labeled with their file."""
    ranked = fill_ranks([file.path for file in files], [outcome.profile for outcome in outcomes])
    return [
        outcome
        if profile is None
        else replace(
            outcome,
            profile=replace(profile, partial=f"{Path(file.path).name} {profile.partial}" if profile.partial else ""),
        )
        for file, outcome, profile in zip(files, outcomes, ranked, strict=True)
    ]


MAX_FILES: Final = 1000
"""The maximum number of files of a folder of profiles."""

SKIPPED_PREFIX: Final = "skipped: "
"""The beginning of the reason in issues about unreadable files."""

_NUMBER: Final = re.compile(r"([0-9]+)")
_SPACE, _TRACE, _PERFETTO = ".xplane.pb", ".trace.json.gz", "perfetto_trace.json.gz"
_MULTI_FILE_FORMATS: Final = ("nsys-stats", "rocprofv3-csv", "rocprof-csv", "dlprof-csv")
"""Formats with one file for each table of a run."""


def join_folder(path: str, outcomes: Mapping[str, FileOutcome]) -> Profile:
    """Return the profiles of a folder, in the order of their ranks and names.

    Args:
        path: The folder.
        outcomes: The outcome of each of its files.

    Returns:
        The sessions of all files. Unreadable files, and the number of files without a profile, become issues.

    Raises:
        ProftuiError: No file of it can be read.
    """
    profiles = [outcome.profile for outcome in outcomes.values() if outcome.profile is not None]
    errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
    passed_over = [
        Path(file).name
        for file, outcome in outcomes.items()
        if outcome.profile is None and outcome.error is None and not outcome.was_stopped
    ]
    if not profiles:
        if len(errors) + len(passed_over) == 1 and errors:
            raise errors[0]
        if errors:
            reasons = [error.message.removeprefix(f"{path.rstrip('/')}/") for error in errors]
            reasons += [f"{name}: no profile found" for name in passed_over]
            rest_text = f"; and {len(reasons) - MAX_REASONS} more" if len(reasons) > MAX_REASONS else ""
            message = f"{path}: none of the {len(reasons)} files can be read"
            raise ProftuiError(message, "; ".join(reasons[:MAX_REASONS]) + rest_text)
        hint = _subfolders_hint(path) or FORMATS_HINT
        raise ProftuiError(f"{path}: no profile found in {plural(len(passed_over), 'file')}", hint)
    runs = merge_rocprof_files(merge_ascend_files(profiles))
    profile = merge_profiles(sorted(runs, key=_rank))
    issues = [{"severity": "error", "text": "", "reason": f"{SKIPPED_PREFIX}{error}"} for error in errors]
    if passed_over:
        reason = f"no profile found in {plural(len(passed_over), 'file')}"
        issues.append({"severity": "info", "text": short_list(passed_over), "reason": reason})
    tables = [run for run in runs if run["sessions"]["format"].is_in(_MULTI_FILE_FORMATS).any()]
    files = [run_of_table(run) for run in tables if len(run.sources) == 1]
    if len(tables) > 1 and (None in files or len(set(files)) < len(files)):
        issues += _single_table_issues([run["sessions"].item(0, "format") for run in tables if len(run.sources) == 1])
    return with_issues(profile, issues)


_REPORTS: Final = {
    "nsys-stats": "(?:cuda|nvtx|um|osrt|mpi|open[a-z]+|gpu)[a-z_]*(?:sum|trace)[a-z_]*",
    "dlprof-csv": "(?:summary|detailed|iteration|kernel|tensor_core|op_type|group_op|group_node|expert_systems)",
}
"""The ends of the names of files with one report of a run, behind a name that the user chose, by format."""


def _run_of_report(profile: Profile) -> tuple[str, str, str] | None:
    """Return what identifies the run of a file with one of its reports, by its name; None for other files."""
    if len(profile.sources) != 1 or not profile["sessions"].height:
        return None
    path, report_format = Path(profile.sources[0]), profile["sessions"].item(0, "format")
    report = _REPORTS.get(report_format)
    name = re.fullmatch(rf"(.*?)_?{report}\.csv(?:\.[a-z0-9]{{1,4}})?", path.name) if report else None
    return (report_format, str(path.parent), name[1]) if name is not None else None


def _single_table_issues(formats: Sequence[str]) -> list[dict[str, str]]:
    """Return the warning that files are tables of one run, in separate sessions; none if there are no such files.

    Args:
        formats: The format of each of these files.
    """
    # The reports of DLProf are also separate sessions in one file.
    is_dlprof = "dlprof-csv" in formats
    remedy = "choose a session with --session" if is_dlprof else "combine the tables: cat *.csv > run.csv"
    reason = (
        f"{len(formats)} files are single tables of a run, and each is a separate session: totals over all "
        f"sessions count the run once per table; {remedy}"
    )
    return [{"severity": "warning", "text": "", "reason": reason}] if formats else []


_MAX_COMPARED: Final = 64
"""The most sessions whose kernels are compared."""
_MAX_DIFFERENCE: Final = 5e-4
"""The largest relative difference of a time between two files of one run: one may print fewer digits."""
_MIN_KERNELS: Final = 5
"""With fewer kernels, only equal and long times prove that two files are of one run."""
_MIN_TOTAL_NS: Final = 1_000_000


def _repeated_run_issues(profile: Profile) -> list[dict[str, str]]:
    """Return warnings that files have the kernels of one run, by the time of each kernel."""
    sessions = profile["sessions"]
    if sessions.height > _MAX_COMPARED:
        return []
    parts: dict[tuple[int, ...], Mapping[str, object]]
    parts = {(row["session"],): row for row in sessions.iter_rows(named=True)}
    # A table of another file can have the sums of all processes.
    for (source,), rows in sessions.group_by("source", maintain_order=True):
        if rows.height > 1:
            parts[tuple(rows["session"])] = {"source": source, "rank": None, "pid": None}
    pairs = [pair for pair in combinations(parts, 2) if _can_be_of_one_run(*(parts[part] for part in pair))]
    # Usually each file is of a rank of its own.
    if not pairs:
        return []
    sums = _kernel_sums(profile, sorted({session for pair in pairs for part in pair for session in part}))
    times = {part: _kernel_times(sums.filter(pl.col("session").is_in(part))) for part in parts}
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for first, second in sorted(pairs, key=lambda pair: len(pair[0] + pair[1])):
        is_single = len(first + second) == 2
        is_known = second in groups if is_single else any((session,) in groups for session in first + second)
        if not is_known and _have_equal_times(times[first], times[second]):
            groups[second] = groups.setdefault(first, [first])
            groups[second].append(second)
    return [
        {
            "severity": "warning",
            "text": short_list([Path(str(parts[part]["source"])).name for part in sorted(group)]),
            "reason": f"sessions {', '.join(str(session) for part in sorted(group) for session in part)} have the same "
            "kernels and times: their files are probably of one run, and totals over all sessions count it more than "
            "once; choose a session with --session",
        }
        for part, group in groups.items()
        if part == group[0]
    ]


def _can_be_of_one_run(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Return whether sessions are of different files or of one process, but not of different ranks or processes."""
    # The source of a dataset is the file that it was made of.
    is_apart = first["source"] != second["source"] or None not in (first["pid"], second["pid"])
    return is_apart and all(
        None in (first[fact], second[fact]) or first[fact] == second[fact] for fact in ("rank", "pid")
    )


def _kernel_sums(profile: Profile, sessions: Sequence[int]) -> pl.DataFrame:
    """Return session, name and time (``ns``, null if unknown) of each kernel: of its launches, else as printed."""
    columns = ("session", "name")
    is_compared = pl.col("session").is_in(sessions)
    activities = profile["activities"].lazy().filter(is_compared, pl.col("kind") == "kernel")
    # Streamed, it takes no copy of the columns.
    launches = (
        activities.select(*columns, ns="duration_ns").group_by(columns).agg(_known_sum()).collect(engine="streaming")
    )
    printed = profile["summary"].filter(is_compared, pl.col("section") == "gpu").select(*columns, ns="total_ns")
    is_kernel = map_distinct(printed["name"], lambda name: kind_by_prefix(name) == "kernel", pl.Boolean())
    printed = printed.filter(is_kernel).join(launches, on="session", how="anti").with_row_index("row")
    # Names that are cut can be of different kernels.
    is_cut = pl.col("name").cast(pl.String).str.contains(r"(?:\x{2026}|\.\.\.)$")
    printed = printed.with_columns(pl.when(is_cut).then("row").alias("row"))
    return pl.concat([launches.with_columns(row=pl.lit(None, pl.UInt32)), printed.select(*columns, "ns", "row")])


def _known_sum() -> pl.Expr:
    return pl.when(pl.col("ns").null_count() == 0).then(pl.col("ns").sum())


def _kernel_times(sums: pl.DataFrame) -> list[int]:
    """Return the time of each kernel of `_kernel_sums`, the longest first, if it is known."""
    times = sums.group_by("name", "row").agg(_known_sum())["ns"]
    return times.filter(times > 0).sort(descending=True).to_list()


def _have_equal_times(first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether each kernel of the side with fewer kernels has the time of one of the other side, as printed."""
    fewer, more = sorted((first, second), key=len)
    if len(fewer) < _MIN_KERNELS:
        return fewer == more and sum(fewer) >= _MIN_TOTAL_NS
    unmatched = iter(more)
    return all(any(abs(other - ns) <= _MAX_DIFFERENCE * ns for other in unmatched) for ns in fewer)


MAX_REASONS: Final = 10
"""The most unreadable files that are named."""


def skipped_files(profile: Profile) -> list[str]:
    """Return the files that were omitted, with the reason."""
    reason = pl.col("reason")
    rows = profile["issues"].filter(pl.col("session").is_null(), reason.str.starts_with(SKIPPED_PREFIX))
    return rows["reason"].str.strip_prefix(SKIPPED_PREFIX).to_list()


def profile_files(path: str) -> list[str]:
    """Return the files of a folder that may be profiles, in natural order of their names.

    Of a folder, its subfolders are omitted; of an archive of several files, nothing is.

    Raises:
        ProftuiError: It cannot be listed, or has no files or too many.
    """
    try:
        entries = list(map(Path, zip_members(path))) or filter(Path.is_file, Path(path).iterdir())
        files = {entry for entry in entries if not entry.name.startswith(".")}
    except OSError as error:
        raise ProftuiError(f"{path}: cannot be listed ({(error.strerror or str(error)).lower()})") from error
    if not files:
        hint = _subfolders_hint(path) or "open a profile, or a folder with profiles"
        raise ProftuiError(f"{path}: the directory has no files", hint)
    if len(files) > MAX_FILES:
        raise ProftuiError(
            f"{path}: contains {len(files):,} files", f"give the names of the profiles, {MAX_FILES:,} at most"
        )
    duplicates = {
        _redundant_file(entry)
        for entry in files
        if entry.suffix in REPORT_SUFFIXES and entry.with_suffix(".sqlite") in files
    }
    # XLA's profiler writes each run twice, and JAX a third time; their JSON is limited to a million events.
    duplicates |= {
        entry
        for entry in files
        if entry.name.endswith(_TRACE) and entry.with_name(entry.name.removesuffix(_TRACE) + _SPACE) in files
    }
    folders = {entry.parent for entry in files if entry.name.endswith((_SPACE, _TRACE))}
    duplicates |= {entry for entry in files if entry.name == _PERFETTO and entry.parent in folders}
    return [str(entry) for entry in sorted(files - duplicates, key=lambda entry: _natural_key(str(entry)))]


def _subfolders_hint(path: str) -> str:
    """Return how to find the profiles in subfolders, as profilers make for their output; empty without one."""
    try:
        names = sorted(entry.name for entry in Path(path).iterdir() if entry.is_dir() and entry.name[0] != ".")
    except OSError:
        names = []
    if not names:
        return ""
    of_which = f"its folder {names[0]}" if len(names) == 1 else f"its {len(names):,} folders"
    return f"to list the profiles in {of_which}: proftui report {shlex.quote(path)} --view profiles"


def _redundant_file(report: Path) -> Path:
    """Return the one of an Nsight Systems report and its export that is not read.

    A failed export is empty; an export older than the report is read only if nsys cannot make a new one.
    """
    export = report.with_suffix(".sqlite")
    try:
        is_old = newer_report(export) == report and shutil.which("nsys") is not None
        return export if is_old or not export.stat().st_size else report
    except OSError:
        return export


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``rank2`` before ``rank10``."""
    return [(int(digits), "") if digits.isdecimal() else (-1, digits) for digits in _NUMBER.split(name)]


def _rank(profile: Profile) -> int:
    rank = profile["sessions"]["rank"].min()
    return rank if isinstance(rank, int) else 1 << 31


CAPTURE_FOLDER: Final = "capture_traces"
"""The folder in which servers write the traces of the capture of CUDA graphs."""


def link_captured_ops(profile: Profile, read_capture: Callable[[str], Profile | None]) -> Profile:
    """Add the ops of kernels that CUDA graphs replay, also from traces of their capture in a subfolder.

    Args:
        profile: A profile with replayed kernels.
        read_capture: Reads a file; returns None if it is no profile.
    """
    capture_folders = {Path(source).parent / CAPTURE_FOLDER for source in profile.sources if source != STANDARD_INPUT}
    issues: list[dict[str, str]] = []
    captures: list[Profile] = []
    for folder in sorted(folder for folder in capture_folders if folder.is_dir()):
        try:
            files = profile_files(str(folder))
        except ProftuiError as error:
            issues.append({"severity": "warning", "text": str(folder), "reason": str(error)})
            continue
        for file in files:
            try:
                if file not in profile.sources and (capture := read_capture(file)) is not None:
                    captures.append(capture)
                    reason = (
                        f"the capture of CUDA graphs{_capture_batch_text(file)}: attributes replayed kernels to ops"
                    )
                    issues.append({"severity": "info", "text": file, "reason": reason})
            except ProftuiError as error:
                issues.append({"severity": "warning", "text": file, "reason": str(error)})
    annotations, annotation_issues = _graph_annotations(profile)
    issues += annotation_issues
    linked = link_replayed_ops(merge_profiles([profile, *captures]), annotations)
    height = profile["sessions"].height
    profile_frames = {name: rows if name == "issues" else rows.filter(pl.col("session") < height)
           for name, rows in linked.frames.items()}  # fmt: skip
    profile_frames["issues"] = profile["issues"]
    return with_issues(replace(profile, frames=profile_frames), issues)


MAX_DETAILS: Final = 1 << 24
"""Bytes of a file of annotations that are read."""
_ANNOTATIONS: Final = re.compile(r"annotations?.*\.(?:pkl|pickle|json)$", re.IGNORECASE)
_RANK_IN_NAME: Final = re.compile(r"rank[_-]?([0-9]+)", re.IGNORECASE)


def _capture_batch_text(capture: str) -> str:
    """Return the batch size of a captured graph, from the server's list in the folder; empty if unknown."""
    path = Path(capture)
    details = path.parent / "execution_details.json"
    if not details.is_file():
        return ""
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        for graph in json.loads(details.read_bytes()) if details.stat().st_size <= MAX_DETAILS else ():
            if graph["file"] == path.name:
                return f" for a batch of {int(graph['batch_size'])} ({str(graph['mode'])[:40]})"
    return ""


def _graph_annotations(profile: Profile) -> tuple[dict[int, str], list[dict[str, str]]]:
    """Return names of graph nodes by id, from the annotation files that PyTorch writes at capture; and issues.

    A file is ``{id: [{"name": ...}, ...]}``, a pickle or JSON. Ids are those of one process: a file of another rank
    than the trace is omitted, and of several traces none is used.
    """
    names_by_node: dict[int, str] = {}
    issues: list[dict[str, str]] = []
    if len(profile.sources) != 1 or profile.sources[0] == STANDARD_INPUT:
        return names_by_node, issues
    trace = Path(profile.sources[0])
    ranks = set(_RANK_IN_NAME.findall(trace.name))
    files: list[Path] = []
    with suppress(OSError):
        files = sorted(trace.parent.iterdir())
    for file in files:
        if not _ANNOTATIONS.search(file.name) or not file.is_file() or set(_RANK_IN_NAME.findall(file.name)) - ranks:
            continue
        try:
            names = _node_names(file)
        except (OSError, ValueError, RecursionError, UnsafePickleError, DamagedPickleError) as error:
            issues.append({"severity": "warning", "text": str(file), "reason": f"annotations not read: {error}"})
            continue
        if names:
            names_by_node |= names
            issues.append({"severity": "info", "text": str(file), "reason": "names of CUDA graph nodes"})
    return names_by_node, issues


def _node_names(file: Path) -> dict[int, str]:
    """Return the names in a file of annotations; the innermost one of each node."""
    if file.stat().st_size > MAX_DETAILS:
        raise ValueError(f"larger than {MAX_DETAILS} bytes")
    data = file.read_bytes()
    rows = json.loads(data) if file.suffix.lower() == ".json" else load_pickle(data)
    names = {}
    for node, value in rows.items() if isinstance(rows, dict) else ():
        annotations = value if isinstance(value, list) else [value]
        texts = [
            annotation.get("name") or annotation.get("module_fqn") if isinstance(annotation, dict) else annotation
            for annotation in annotations
        ]
        known = [text for text in texts if isinstance(text, str) and text]
        if known and re.fullmatch(r"[0-9]{1,19}", str(node)) and int(node) < 1 << 63:
            names[int(node)] = known[-1][:1000]
    return names
