"""The command line: ``proftui FILE...`` opens the explorer, its commands do the same work without a screen.

Standard output carries data alone; everything said to the person goes to standard error. Exit status: 0 fine, 1
`check` found what it is to fail on, 2 the input or the command line is wrong, 130 interrupted.

Nothing heavy is imported before the arguments are read: ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tui import __version__
from tui.model.aggregation import aggregation
from tui.model.errors import ProftuiError
from tui.options import OpenOptions
from tui.terminal import COLORS, NO_COLOR, Terminal, environment_changes, terminal

if TYPE_CHECKING:
    from tui.model.profile import Profile
    from tui.report import Style

FOUND: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130

VIEWS: Final = (
    "dashboard",
    "ops",
    "kernels",
    "api",
    "iterations",
    "ranges",
    "gpus",
    "layers",
    "metrics",
    "tool-report",
    "issues",
    "findings",
)
"""What `report` prints."""

EXPORT_FORMATS: Final = ("csv", "tsv", "json", "ndjson", "parquet", "xlsx", "markdown")
"""What `export` writes; the writers are `tui.export.FORMATS`."""

CHECK_FORMATS: Final = ("text", "json", "markdown", "sarif")
"""What `check` writes: `tui.check.FORMATS`."""

FAIL_ON: Final = ("info", "warning", "error")
"""How grave findings can be: `tui.check.SEVERITIES`."""

BINARY_FORMATS: Final = ("parquet", "xlsx")

PIPE_WIDTH: Final = 100
"""Columns of a text report where no terminal says how wide it is."""

COMMANDS: Final = {
    "report": "print what a view shows, as text, Markdown or JSON",
    "export": "write one frame as csv, tsv, json, ndjson, parquet, xlsx or markdown",
    "check": "look for what costs time, with the exit status for CI: 1 where it is as grave as --fail-on",
    "inspect": "tell what a file holds, which views it feeds, and why it cannot feed the others",
    "formats": "list what can be opened, how it is recognised and how to record it",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: The arguments without the program's name; None takes those of the process.

    Returns:
        The exit status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(_without_separator(arguments))
        sys.stdout.flush()
        return status
    except ProftuiError as error:
        _complain(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output has had enough; the interpreter would complain of it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        _complain(ProftuiError("not enough memory for this input", "open a part of it, or a larger machine"))
        return BAD_INPUT
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        where = "standard output" if error.filename is None else os.fsdecode(error.filename)
        _complain(ProftuiError(f"{where}: {error.strerror}"))
        return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Says one line about a wrong command line, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise ProftuiError(message, f"{self.prog} --help")


def _common(parser: argparse.ArgumentParser) -> None:
    """The options that every command has."""
    parser.add_argument("--session", type=int, metavar="N", help="only this session of the input, from 0")
    parser.add_argument("--iterations", metavar="A:B", help="only these iterations: 3:7, 3:, :7 or 5")
    parser.add_argument("--key", metavar="NAME", help="an iteration ends where this kernel, op, range or API call ends")
    parser.add_argument("--format-in", metavar="NAME", help="read it as this format, without recognising it")
    parser.add_argument("--gpu", metavar="NAME", help="the GPU's model, where the input does not say it")
    parser.add_argument("--color", choices=COLORS, default="auto", help="default: what the terminal can show")


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a profile; - reads standard input")


def _open_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    parser = _Parser(
        prog="proftui",
        usage="proftui [options] FILE...\n       proftui COMMAND [options] FILE...",
        description="Explore GPU profiles in the terminal.",
        epilog=f"commands:\n{commands}\n\n"
        "Several files are several sessions. A file that is named as a command is opened as ./report.\n"
        "`proftui COMMAND --help` tells more of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="a profile; - reads standard input")
    _common(parser)
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters alone")
    parser.add_argument("--keys", action="store_true", help="print the keys and exit")
    parser.add_argument("--version", action="version", version=f"proftui {__version__}")
    return parser


def _command_parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"proftui {command}", description=f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.")
    if command == "formats":
        return parser
    _files(parser)
    if command == "report":
        parser.add_argument("--view", choices=VIEWS, default="dashboard")
        parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    elif command == "check":
        parser.add_argument("--fail-on", choices=FAIL_ON, help="exit with 1 where anything found is this grave")
        parser.add_argument("--format", choices=CHECK_FORMATS, default="text")
    elif command == "inspect":
        parser.add_argument("--format", choices=("text", "json"), default="text")
    else:
        from tui.exportable import NAMES

        parser.add_argument("--frame", required=True, choices=NAMES, metavar="FRAME", help=", ".join(NAMES))
        parser.add_argument("--format", choices=EXPORT_FORMATS, help="default: as the ending of PATH says, or csv")
        parser.add_argument("-o", "--output", metavar="PATH", default="-", help="default: - (standard output)")
        parser.add_argument("--overwrite", action="store_true", help="replace PATH where it exists")
    _common(parser)
    return parser


def _without_separator(arguments: list[str]) -> list[str]:
    """Arguments after ``--`` are files: those that look like options become paths that do not.

    `argparse` in Python 3.11 loses them where options and files are mixed.

    >>> _without_separator(["inspect", "--", "-run.log", "-", "a.log"])
    ['inspect', './-run.log', '-', 'a.log']
    """
    if "--" not in arguments:
        return arguments
    at = arguments.index("--")
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in arguments[at + 1 :]]
    return arguments[:at] + files


def _run(arguments: list[str]) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    if command is None:
        return _open(_open_parser().parse_intermixed_args(arguments))
    options = _command_parser(command).parse_intermixed_args(arguments[1:])
    if command == "formats":
        from tui.listing import formats_text
        from tui.loaders.registry import formats

        _say(formats_text(formats(), width=_width()))
        return 0
    return {"report": _report, "export": _export, "check": _check, "inspect": _inspect}[command](options)


# --- opening ---------------------------------------------------------------------------------------------------------


def _open(options: argparse.Namespace) -> int:
    known = _terminal(options.color)
    if options.keys:
        from tui.listing import keys_text

        _say(keys_text(width=_width()))
        return 0
    if not options.files:
        raise ProftuiError("name a file to open", "as: proftui run.nvprof.log; proftui --help tells more")
    if known.obstacle:
        _tell(f"{known.obstacle}: this is the text report; open the file in a terminal to explore it")
        options.view, options.format = "dashboard", "text"
        return _report(options)
    _check_input(options.files)
    if not any(file == "-" or Path(file).exists() for file in options.files):
        # Said without a screen that comes and goes.
        _load(options)
    if "-" in options.files or not sys.stdin.isatty():
        _take_keys_from_terminal()
    for name, value in environment_changes(known, os.environ).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    from tui.app import run_app

    return run_app(
        OpenOptions(
            paths=tuple(options.files),
            format_in=options.format_in,
            session=options.session,
            aggregation=aggregation(options.iterations, options.key),
            gpu=options.gpu,
            theme=options.theme,
            color=known.color,
            ascii_only=options.ascii or not known.utf8,
            mouse=not options.no_mouse,
        )
    )


def _take_keys_from_terminal() -> None:
    """Let file descriptor 0, which keys are read from, be the terminal, and `sys.stdin` the data that came through it.

    Raises:
        ProftuiError: The process has no terminal of its own.
    """
    try:
        keys = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        raise ProftuiError(
            "there is no terminal to read keys from: standard input is not one, and /dev/tty cannot be opened",
            "proftui report FILE prints the same without a screen",
        ) from None
    data = os.dup(0)
    os.dup2(keys, 0)
    os.close(keys)
    sys.stdin = open(data, encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115


def _check_input(files: Sequence[str]) -> None:
    """Refuse to wait for a person to type a profile, and to read standard input twice."""
    if files.count("-") > 1:
        raise ProftuiError("standard input (-) can be read once only")
    if "-" in files and sys.stdin.isatty():
        raise ProftuiError("standard input (-) is the keyboard", "as: nvprof ./app 2>&1 | proftui -")
    for file in files:
        if file in COMMANDS and not Path(file).exists():
            raise ProftuiError(f"{file} is a command and comes first", f"as: proftui {file} FILE")


# --- without a screen ------------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> int:
    from tui import report, report_dashboard

    profile, errors = _load(options)
    style = _style(options.color)
    if options.view == "dashboard":
        dashboard = report_dashboard.DashboardReport(profile, gpu=options.gpu)
        text = {"text": lambda: dashboard.as_text(style), "markdown": dashboard.as_markdown, "json": dashboard.as_json}
    elif options.view == "findings":
        from tui.check import Check

        check = Check(profile, gpu=options.gpu)
        text = {"text": lambda: check.as_text(style), "markdown": check.as_markdown, "json": check.as_json}
    else:
        view = options.view
        text = {
            "text": lambda: report.as_text(profile, view, style, gpu=options.gpu),
            "markdown": lambda: report.as_markdown(profile, view, gpu=options.gpu),
            "json": lambda: report.as_json(profile, view, gpu=options.gpu),
        }
    (_say if options.format == "text" else _data)(text[options.format]())
    return _status(errors)


def _style(color: str) -> Style:
    """How text is written on standard output."""
    from tui.report import Style

    known = _terminal(color)
    colored = known.color != NO_COLOR and (sys.stdout.isatty() or color in ("always", "16"))
    return Style(_width(), ascii_only=not known.utf8, bold=colored)


def _check(options: argparse.Namespace) -> int:
    from tui.check import Check

    profile, errors = _load(options)
    check = Check(profile, gpu=options.gpu)
    writers = {
        "text": lambda: check.as_text(_style(options.color)),
        "markdown": check.as_markdown,
        "json": check.as_json,
        "sarif": check.as_sarif,
    }
    (_say if options.format == "text" else _data)(writers[options.format]())
    failed = options.fail_on is not None and check.reaches(options.fail_on)
    return _status(errors) or (FOUND if failed else 0)


def _export(options: argparse.Namespace) -> int:
    from tui.export import for_terminal, format_of, write
    from tui.exportable import frame

    to_stdout = options.output == "-"
    format_name = options.format or (None if to_stdout else format_of(options.output)) or "csv"
    to_terminal = to_stdout and sys.stdout.isatty()
    if to_terminal and format_name in BINARY_FORMATS:
        raise ProftuiError(f"{format_name} is not for a terminal", "name a file with -o PATH")
    profile, errors = _load(options)
    data = frame(profile, options.frame, gpu=options.gpu)
    if to_stdout:
        write(for_terminal(data) if to_terminal else data, sys.stdout.buffer, format_name)
    else:
        write(data, Path(options.output), format_name, overwrite=options.overwrite)
        _tell(f"wrote {data.height:,} rows of {options.frame} to {options.output}")
    return _status(errors)


def _inspect(options: argparse.Namespace) -> int:
    from tui.analysis.inspect import inspect
    from tui.export import json_line
    from tui.listing import inspect_text
    from tui.loaders.registry import load_one

    _check_input(options.files)
    aggregation(options.iterations, options.key)
    errors = []
    for file in options.files:
        try:
            profile = _chosen(load_one(file, format_in=options.format_in), options)
        except ProftuiError as error:
            errors.append(error)
            found: dict[str, object] = {"source": file, "error": str(error)}
        else:
            found = {**inspect(profile), "source": file}
        if options.format == "json":
            _data(json_line(found))
        else:
            _say(inspect_text(found, width=_width(), ascii_only=not _terminal(options.color).utf8))
        sys.stdout.flush()
    return BAD_INPUT if errors else 0


def _load(options: argparse.Namespace) -> tuple[Profile, list[ProftuiError]]:
    """Read all files; one that cannot be read does not stop the others.

    Raises:
        ProftuiError: None could be read.
    """
    from tui.loaders.registry import load

    _check_input(options.files)
    aggregation(options.iterations, options.key)
    profile, errors = load(options.files, format_in=options.format_in)
    if profile is None:
        for fault in errors[:-1]:
            _complain(fault)
        raise errors[-1]
    profile = replace(profile, gpu=options.gpu)
    return _chosen(profile, options), errors


def _chosen(profile: Profile, options: argparse.Namespace) -> Profile:
    """The session and the iterations that the command line names."""
    from tui.analysis.aggregation import aggregated

    session = profile if options.session is None else profile.only_session(options.session)
    return aggregated(session, aggregation(options.iterations, options.key))


def _status(errors: Sequence[ProftuiError]) -> int:
    for error in errors:
        _complain(error)
    return BAD_INPUT if errors else 0


# --- what is said, and what is data ----------------------------------------------------------------------------------


def _terminal(color: str) -> Terminal:
    return terminal(os.environ, stdout_is_tty=sys.stdout.isatty(), color=color)


def _width() -> int:
    """Columns for text on standard output."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _columns_or(PIPE_WIDTH)


def _columns_or(default: int) -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else default


def _data(text: str) -> None:
    """Write data: UTF-8 whatever the locale."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _say(text: str) -> None:
    """Write text for people, in the encoding of their terminal."""
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))


def _tell(message: str) -> None:
    """Say something beside the data."""
    from tui.text import plain

    print(f"proftui: {plain(message)}", file=sys.stderr)


def _complain(error: ProftuiError) -> None:
    from tui.text import plain

    _tell(error.message)
    if error.hint:
        print(f"         {plain(error.hint)}", file=sys.stderr)
