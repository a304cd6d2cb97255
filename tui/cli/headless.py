"""Commands without a screen: report, export, check, diff, sql, inspect, cache."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from tui.cli import console
from tui.cli.arguments import BINARY_FORMATS, COMMANDS, DIFF_FRAMES, PROFILES, TRACE_FORMATS
from tui.cli.console import BAD_INPUT, detect_terminal, width, write_data, write_text
from tui.cli.selected_tables import (
    bounds_from_options,
    exported_key,
    is_single_table,
    numbered_selection,
    profiles_report,
    requested_selection,
    selected_table,
    selection_from_options,
    table_document_head,
    table_report,
)
from tui.model.aggregation import aggregation
from tui.model.errors import ProftuiError
from tui.terminal import NO_COLOR
from tui.text import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from tui.cache.entry import CachedEntry as CachedFile
    from tui.loaders.base import ProfileCache
    from tui.model.profile import Profile
    from tui.output.json_document import Bounds
    from tui.output.report import Style
    from tui.output.report_annotations import SavedNotes
    from tui.state.workspace import Workspace


EXIT_FINDINGS: Final = 1
"""The exit status of `check` where it found what it is to fail on."""


def check_input(files: Sequence[str]) -> None:
    """Refuse to read a profile from the keyboard, or standard input twice."""
    if files.count("-") > 1:
        raise ProftuiError("standard input (-) can be read only once")
    if "-" in files and sys.stdin.isatty():
        raise ProftuiError("standard input (-) is a terminal", "for example: nvprof ./app 2>&1 | proftui -")
    if "" in files:
        raise ProftuiError("empty file name", "is a shell variable unset?")
    for file in files:
        if file in COMMANDS and not Path(file).exists():
            raise ProftuiError(f"{file} is a command and must come first", f"usage: proftui {file} FILE")


def report(options: argparse.Namespace) -> int:
    """Print the report of a view."""
    from tui.output.report_annotations import MarksReport, with_marks, with_notes

    options.format = format_name = report_format(options)
    bounds = bounds_from_options(options, format_name)
    is_single = is_single_table(options)
    if options.view == PROFILES:
        if format_name == "html":
            raise ProftuiError("the list of profiles is not available as HTML", "use --format text, markdown or json")
        _write_report(profiles_report(options, text_style(options.color)), format_name, options)
        return 0
    if is_single and format_name == "html":
        raise ProftuiError(
            "an HTML page always contains the whole view", "remove --table, --filter, --sort, --columns and --limit"
        )
    profile, errors = load_files(options)
    if format_name == "html":
        _write_report(html_report(profile, options), format_name, options)
        return exit_status(errors)
    style = text_style(options.color)
    if is_single:
        note_rows = _notes(options).rows() if options.view == "notes" else None
        written = table_report(profile, options, style, note_rows)
    else:
        whole = _whole_report(profile, options)
        written = (
            whole.as_text(style)
            if format_name == "text"
            else whole.as_markdown()
            if format_name == "markdown"
            else whole.as_json(bounds)
        )
    if options.notes and options.view != "notes":
        written = with_notes(written, _notes(options), options.view, format_name, style)
        if options.view != "findings":
            view = None if options.view == "dashboard" else options.view
            saved_workspace, stamp = _saved_workspace(options)
            marks = MarksReport(profile, saved_workspace, view, stamp=stamp)
            written = with_marks(written, marks, format_name, style)
    _write_report(written, format_name, options)
    return exit_status(errors)


class _WholeReport(Protocol):
    """A report of a whole view."""

    def as_text(self, style: Style) -> str: ...

    def as_markdown(self) -> str: ...

    def as_json(self, bounds: Bounds) -> str: ...


@dataclass(frozen=True, slots=True)
class _ViewReport:
    """The tables of a view."""

    profile: Profile
    view: str

    def as_text(self, style: Style) -> str:
        from tui.output.report import as_text

        return as_text(self.profile, self.view, style)

    def as_markdown(self) -> str:
        from tui.output.report import as_markdown

        return as_markdown(self.profile, self.view)

    def as_json(self, bounds: Bounds) -> str:
        from tui.output.report import as_json

        return as_json(self.profile, self.view, bounds=bounds)


def _whole_report(profile: Profile, options: argparse.Namespace) -> _WholeReport:
    """Return the report of the chosen view."""
    if options.view == "dashboard":
        from tui.output.report_dashboard import DashboardReport

        return DashboardReport(profile)
    if options.view == "findings":
        from tui.output.check import Check

        return Check(profile)
    if options.view == "notes":
        from tui.output.report_annotations import NotesReport

        return NotesReport(_notes(options))
    return _ViewReport(profile, options.view)


def html_report(profile: Profile, options: argparse.Namespace) -> str:
    """Return a report as an HTML page."""
    from tui.output.html_report import HtmlDashboard, annotation_sections, findings_html, notes_html, view_html
    from tui.output.report_annotations import MarksReport, NotesReport
    from tui.tables import view_of_report

    view = options.view
    if view == "notes":
        return notes_html(profile, NotesReport(_notes(options)))
    annotations = []
    if options.notes:
        is_dashboard = view == "dashboard"
        notes = NotesReport(_notes(options), None if is_dashboard else view_of_report(view))
        saved_workspace, stamp = _saved_workspace(options)
        marks = MarksReport(profile, saved_workspace, None if is_dashboard else view, stamp=stamp)
        annotations = annotation_sections(notes, None if view == "findings" else marks)
    if view == "dashboard":
        return HtmlDashboard(profile).as_html(annotations)
    if view == "findings":
        return findings_html(profile, annotations=annotations)
    return view_html(profile, view, annotations=annotations)


def report_format(options: argparse.Namespace) -> str:
    """Return the format of a report, by the options or the file extension."""
    endings = {"html": "html", "htm": "html", "md": "markdown", "json": "json"}
    name: str = options.format or endings.get(Path(options.output).suffix.lower().lstrip("."), "text")
    return name


def _write_report(written: str, format_name: str, options: argparse.Namespace) -> None:
    """Write a report to the output of the options."""
    if options.output == "-":
        (write_text if format_name == "text" else write_data)(written)
        return
    from tui.output.export import write_file

    def write_to(stream: IO[bytes]) -> None:
        stream.write(written.encode("utf-8", "replace"))

    write_file(write_to, Path(options.output), overwrite=options.overwrite)
    console.info(f"wrote {options.view} to {options.output}")


def _notes(options: argparse.Namespace) -> SavedNotes:
    """Return the user's notes on rows of the files."""
    from tui.output.report_annotations import SavedNotes
    from tui.state.notes import Notes
    from tui.state.store import files

    file_identity = files(options.files)
    notes = Notes(file_identity)
    saved = SavedNotes(dict(notes.by_name), file_identity)
    if notes.warning:
        console.info(notes.warning)
    return saved


def _saved_workspace(options: argparse.Namespace) -> tuple[Workspace | None, str]:
    """Return the saved workspace of the files, and their current stamp."""
    from tui.state import workspace
    from tui.state.store import files

    file_identity = files(options.files)
    return (None, "") if file_identity is None else (workspace.read_workspace(file_identity)[0], file_identity.stamp)


def text_style(color: str) -> Style:
    """Return the style of text on standard output."""
    from tui.output.report import Style

    terminal = detect_terminal(color)
    colored = terminal.color != NO_COLOR and (sys.stdout.isatty() or color in ("always", "16"))
    return Style(width(), bold=colored)


def check(options: argparse.Namespace) -> int:
    """Print the findings; the exit status says whether they reach ``--fail-on``."""
    from tui.output.check import Check

    bounds = bounds_from_options(options, options.format)
    profile, errors = load_files(options)
    check = Check(profile)
    writers = {
        "text": lambda: check.as_text(text_style(options.color)),
        "markdown": check.as_markdown,
        "json": lambda: check.as_json(bounds),
        "sarif": check.as_sarif,
    }
    (write_text if options.format == "text" else write_data)(writers[options.format]())
    failed = options.fail_on is not None and check.reaches(options.fail_on)
    return exit_status(errors) or (EXIT_FINDINGS if failed else 0)


def export(options: argparse.Namespace) -> int:
    """Write one frame, or a trace for another viewer."""
    from tui.tables import frame

    if options.format in TRACE_FORMATS:
        return _export_trace(options)
    if options.frame is None:
        raise ProftuiError("choose a table with --frame", "or --format folded, speedscope or chrome")
    if options.from_ns is not None or options.to_ns is not None:
        raise ProftuiError("--from and --to do not apply to tables", "use --filter 'start>1ms', or --format chrome")
    format_name = table_format(options) or "csv"
    profile, errors = load_files(options)
    data = _notes(options).rows() if options.frame == "notes" else frame(profile, options.frame)
    fields = table_document_head("export", profile, options, options.frame)
    write_table(data, options, format_name, options.frame, exported_key(options.frame, data), fields)
    return exit_status(errors)


def _export_trace(options: argparse.Namespace) -> int:
    """Write the profile, or a part of its time, for another viewer."""
    from functools import partial

    from tui.output.export import write_file
    from tui.output.trace_export import WRITERS, TimeRange

    if options.frame is not None:
        raise ProftuiError(f"{options.format} always contains the whole trace", "remove --frame")
    if not selection_from_options(options).is_all or options.limit is not None or options.max_bytes is not None:
        raise ProftuiError(
            f"{options.format} accepts only --iterations, --from and --to", "remove the options for tables"
        )
    profile, errors = load_files(options)
    write_trace = partial(WRITERS[options.format], profile, TimeRange(options.from_ns, options.to_ns))
    if options.output == "-":
        write_trace(sys.stdout.buffer)
    else:
        write_file(write_trace, Path(options.output), overwrite=options.overwrite)
        console.info(f"wrote a trace ({options.format}) to {options.output}")
    return exit_status(errors)


def table_format(options: argparse.Namespace) -> str | None:
    """Return the format of a table, by the options or the file extension.

    Raises:
        ProftuiError: It is not for a terminal.
    """
    from tui.output.export import format_by_extension

    to_stdout = options.output == "-"
    name: str | None = options.format or (None if to_stdout else format_by_extension(options.output))
    if to_stdout and name in BINARY_FORMATS and sys.stdout.isatty():
        raise ProftuiError(f"{name} cannot be written to a terminal", "use -o PATH")
    return name


def write_table(
    data: pl.DataFrame,
    options: argparse.Namespace,
    format_name: str,
    title: str,
    key: Sequence[str],
    fields: Mapping[str, object],
) -> None:
    """Write a table to the output of the options.

    Args:
        data: All rows.
        options: The options for selection and output.
        format_name: The format.
        title: A plural noun for the rows.
        key: The columns that identify a row.
        fields: Additional fields of the JSON document.
    """
    import polars as pl

    from tui.output.export import About, for_terminal, formula_warning, profile_name, write_frame
    from tui.output.json_document import document_before_rows

    bounds = bounds_from_options(options, format_name)
    table = selected_table(data, options, key)
    data, head = table.rows.select(table.columns or pl.all()), b""
    if format_name == "json":
        head, data = document_before_rows(fields, table, bounds)
    # Only the table: Markdown goes into documents with their own headings.
    about = None if format_name in ("markdown", "json") else About(profile_name(options.files), title)
    if options.output == "-":
        shown = for_terminal(data) if sys.stdout.isatty() else data
        write_frame(shown, sys.stdout.buffer, format_name, about=about, before_rows=head)
    else:
        path = Path(options.output)
        write_frame(data, path, format_name, overwrite=options.overwrite, about=about, before_rows=head)
        console.info(f"wrote {plural(data.height, 'row')} of {title} to {options.output}")
        if formulas := formula_warning(data, format_name):
            console.info(formulas)


def sql(options: argparse.Namespace) -> int:
    """Print the result of a query."""
    from tui.output.report import table_lines
    from tui.query.sql.run import result_spec, run, sql_tables

    format_name = table_format(options) or ("text" if options.output == "-" and sys.stdout.isatty() else "csv")
    profile, errors = load_files(options)
    tables = sql_tables(profile, lambda: _notes(options).rows())
    result = run(options.query, tables)
    if format_name == "text":
        rows = numbered_selection(result, options)
        lines = table_lines(result_spec(rows), rows, text_style(options.color)) if rows.height else []
        write_text("\n".join([*lines, f"({plural(rows.height, 'row')})"]) + "\n")
    else:
        fields = {**table_document_head("sql", profile, options), "query": options.query}
        write_table(result, options, format_name, "the result", (), fields)
    return exit_status(errors)


def inspect(options: argparse.Namespace) -> int:
    """Print the contents of each file."""
    from tui.analysis.capabilities import inspect
    from tui.loaders.registry import load_input
    from tui.output.export import json_line
    from tui.output.json_document import schema_fields, source_facts
    from tui.output.listing import inspect_text

    _check_choices(options)
    errors = []
    for file in options.files:
        try:
            profile = _selected_part(
                load_input(file, format_in=options.format_in, cache=_read_only_cache(options)), options
            )
        except ProftuiError as error:
            errors.append(error)
            contents: dict[str, object] = {"source": file, "error": str(error)}
        else:
            contents = {**inspect(profile), "source": file}
        if options.format == "json":
            # The text shows no hash of the file, which takes as long as reading it.
            write_data(json_line({**schema_fields("inspect"), **contents, "sources": [source_facts(file)]}))
        else:
            write_text(inspect_text(contents, width=width()))
        sys.stdout.flush()
    return BAD_INPUT if errors else 0


def load_files(options: argparse.Namespace) -> tuple[Profile, list[ProftuiError]]:
    """Read all files, skipping unreadable ones.

    Raises:
        ProftuiError: None could be read.
    """
    from tui.loaders.registry import load

    _check_choices(options)
    profile, errors = load(options.files, format_in=options.format_in, cache=_read_only_cache(options))
    if profile is None:
        for fault in errors[:-1]:
            console.error(fault)
        raise errors[-1]
    profile = replace(profile, gpu=options.gpu, peaks=_peaks(options))
    return _selected_part(profile, options), errors


def _check_choices(options: argparse.Namespace) -> None:
    """Check the options before files are read, which can take long."""
    from tui.analysis.devices import named_gpu

    check_input(options.files)
    aggregation(options.iterations, options.key)
    if options.gpu is not None:
        named_gpu(options.gpu)
    _peaks(options)


def _peaks(options: argparse.Namespace) -> tuple[tuple[str, float], ...]:
    """Return the peaks of ``--peak``."""
    from tui.analysis.devices import peak_option

    return tuple(map(peak_option, options.peak))


def _read_only_cache(options: argparse.Namespace) -> ProfileCache | None:
    """Return the cache, which headless commands read but do not write: writing would delay the shell."""
    from tui.cache.cache import Cache

    return None if options.no_cache else Cache()


def _selected_part(profile: Profile, options: argparse.Namespace) -> Profile:
    """Return the session and the iterations that the command line selects."""
    from tui.analysis.iterations.chosen_iterations import select_iterations

    session = profile if options.session is None else profile.only_session(options.session)
    return select_iterations(session, aggregation(options.iterations, options.key))


def exit_status(errors: Sequence[ProftuiError]) -> int:
    """Report each unreadable file, and return the exit status."""
    for error in errors:
        console.error(error)
    return BAD_INPUT if errors else 0


def cache(options: argparse.Namespace) -> int:
    """List or clear the cache."""
    from tui.cache.entry import clear, entries
    from tui.cache.secure_files import InsecureFileError, cache_folder, open_cache_folder
    from tui.fmt import brief_size

    try:
        with suppress(FileNotFoundError), open_cache_folder():
            pass
    except InsecureFileError as error:
        raise ProftuiError(f"{cache_folder()}: not used: it is accessible to other users", "remove it") from error
    if options.action == "clear":
        number, remaining = clear()
        text = f"cleared {plural(number, 'file')} from {cache_folder()}"
        console.info(text if not remaining else f"{text}; {brief_size(remaining)} cannot be removed")
        return 0 if not remaining else 2
    cached = entries()
    if options.format == "json":
        import polars as pl

        from tui.output.json_document import JsonTable, document, schema_fields

        schema = {"file": pl.String, "bytes": pl.Int64, "used": pl.String, "state": pl.String, "entry": pl.String}
        rows = pl.DataFrame([{**_as_json(entry), "entry": entry.name} for entry in cached], schema)
        fields = {**schema_fields("cache"), "folder": str(cache_folder())}
        write_data(document(fields, {"rows": JsonTable(rows, ("entry",))}))
        return 0
    for entry in cached:
        content = _as_json(entry)
        write_text(
            f"{brief_size(entry.bytes):>9}  {content['used']}  {content['state']:<7}  {content['file'] or entry.name}\n"
        )
    total = sum(entry.bytes for entry in cached)
    console.info(f"{plural(len(cached), 'file')}, {brief_size(total)}, in {cache_folder()}")
    return 0


def _as_json(entry: CachedFile) -> dict[str, object]:
    """Return the JSON of an entry: its file, and whether opening the file would use it."""
    from tui.cache.entry import file_fingerprint, program_fingerprint
    from tui.text import plain

    path = None if entry.manifest is None else os.fsdecode(bytes.fromhex(entry.manifest.fingerprint.path))
    if entry.manifest is None or path is None:
        state = "damaged"
    elif entry.manifest.program != program_fingerprint():
        state = "old"
    else:
        # An entry without inode is for an object store, which is not queried.
        is_same = not entry.manifest.fingerprint.inode or file_fingerprint(path) == entry.manifest.fingerprint
        state = "good" if is_same else "stale"
    used_at = datetime.fromtimestamp(entry.used_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"file": path and plain(path), "bytes": entry.bytes, "used": used_at, "state": state}


TEXT_FORMATS: Final = ("text", "markdown", "json")
"""Formats that hold a whole comparison."""


def diff(options: Namespace) -> int:
    """Print the changes from one profile to another."""
    from tui.analysis.compare.sides import sides
    from tui.output.diff import Diff

    if len(options.files) != 2:
        raise ProftuiError("diff needs two files, A and B", "or a saved baseline and runs: --baseline NAME FILE...")
    options.baseline, options.candidate = options.files
    check_input(options.files)
    format_name = _diff_format(options)
    bounds = bounds_from_options(options, format_name)
    profiles: list[Profile] = []
    errors: list[ProftuiError] = []
    for file, suffix in ((options.baseline, ""), (options.candidate, "_b")):
        overrides = {name: getattr(options, f"{name}{suffix}", None) for name in ("session", "iterations")}
        chosen = {name: getattr(options, name) if value is None else value for name, value in overrides.items()}
        profile, faults = load_files(Namespace(**{**vars(options), "files": [file], **chosen}))
        profiles.append(profile)
        errors += faults
    compared = Diff(
        sides(profiles[0], profiles[1], _labels(options), whole_runs=options.whole_runs),
        tolerant=options.tolerant,
        than_pct=options.fail_on_regression,
    )
    if format_name in TEXT_FORMATS and options.frame is None:
        writers: dict[str, Callable[[], str]] = {
            "text": lambda: compared.as_text(text_style(options.color)),
            "markdown": compared.as_markdown,
            "json": lambda: compared.as_json(bounds),
        }
        (write_text if format_name == "text" else write_data)(writers[format_name]())
    else:
        name = options.frame or DIFF_FRAMES[0]
        if options.frame is None:
            console.info(f"{format_name} contains one table: {name}; with --frame also {', '.join(DIFF_FRAMES[1:])}")
        fields = {**compared.head(), **requested_selection(options), "frame": name}
        write_table(compared.table(name), options, format_name, name, compared.key(name), fields)
    if options.fail_on_regression is None:
        return exit_status(errors)
    console.info(*compared.verdict())
    assert compared.judgment is not None, "or there is no verdict"
    return exit_status(errors) or (EXIT_FINDINGS if compared.judgment.fails else 0)


def _diff_format(options: Namespace) -> str:
    """Return the format of a comparison: text, Markdown or JSON for all of it, else that of one table.

    Raises:
        ProftuiError: The requested options contradict each other.
    """
    name = table_format(options) or ("text" if options.frame is None and options.output == "-" else "csv")
    if name == "text" and options.frame is not None:
        raise ProftuiError("text always contains the whole comparison", "remove --frame, or use --format csv")
    selection = selection_from_options(options)
    is_cut = selection.limit is not None and name != "json"
    if name in TEXT_FORMATS and options.frame is None and (is_cut or not selection.is_all):
        raise ProftuiError("--filter, --sort, --columns and --limit apply to one table", "choose it with --frame")
    if name in TEXT_FORMATS and options.frame is None and options.output != "-":
        raise ProftuiError(
            f"-o writes one table, not the whole comparison as {name}", "choose it with --frame, or use > PATH"
        )
    return name


def _labels(options: Namespace) -> tuple[str, str]:
    """Return labels for two profiles: their file names, with folders and selections if these are equal."""
    names = [Path(options.baseline).name, Path(options.candidate).name]
    if names[0] == names[1] and options.baseline != options.candidate:
        names = [options.baseline, options.candidate]
    session_b = options.session if options.session_b is None else options.session_b
    chosen = ((options.session, options.iterations), (session_b, options.iterations_b or options.iterations))
    if chosen[0] != chosen[1]:
        for index, (session, iterations) in enumerate(chosen):
            names[index] += "" if session is None else f", session {session}"
            names[index] += "" if iterations is None else f", iterations {iterations}"
    return names[0], names[1]
