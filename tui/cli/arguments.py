"""Arguments of the command line. It imports nothing slow, so that ``--help`` is fast."""

from __future__ import annotations

import argparse
from typing import Final, NoReturn

from tui import __version__
from tui.model.errors import ProftuiError
from tui.terminal import COLORS

EXPORT_FORMATS: Final = ("csv", "tsv", "json", "ndjson", "parquet", "xlsx", "pdf", "markdown")
"""What `export` writes; the writers are `tui.output.export.FORMATS`."""

REPORT_FORMATS: Final = ("text", "markdown", "json", "html")
"""What `report` writes."""

PROFILES: Final = "profiles"
"""What `report` prints of a folder: the list of the home screen."""

BASELINES: Final = "proftui-baselines"
"""The folder of baselines, in the current one: small enough to be committed."""

TRACE_FORMATS: Final = ("folded", "speedscope", "chrome")
"""What `export` writes for other viewers; the writers are `tui.output.trace_export.WRITERS`."""

DIFF_FRAMES: Final = ("kernels", "ops", "op_types", "api", "findings", "memory", "figures")
"""The tables of `diff`."""

CHECK_FORMATS: Final = ("text", "json", "markdown", "sarif")
"""What `check` writes: `tui.output.check.FORMATS`."""

FAIL_ON: Final = ("info", "warning", "error")
"""The severities of findings: `tui.output.check.SEVERITIES`."""

BINARY_FORMATS: Final = ("parquet", "xlsx", "pdf")

COMMANDS: Final = {
    "report": "print a view as text, Markdown or JSON, or write it as an HTML page",
    "export": "write one table (csv, json, parquet, xlsx, ...), or a trace for flame graphs, speedscope or Perfetto",
    "sql": "run an SQL query over all tables; SHOW TABLES lists them",
    "diff": "compare two profiles; exits 1 on a regression above --fail-on-regression",
    "baseline": "save, list or remove baselines: the times of several runs, for diff --baseline NAME",
    "check": "find what costs time; exits 1 if any finding reaches --fail-on",
    "convert": "write a Parquet dataset; it opens like a file, even where it is larger than memory",
    "inspect": "show what a file holds and which views it feeds, and what to record for the others",
    "mcp": "serve the profiles below folders to agents (Model Context Protocol, stdio)",
    "cache": "list or clear the cache of large files",
    "formats": "list the supported formats, how they are recognized and how to record them",
}


_FILE: Final = "a profile, a folder of profiles or a dataset; - reads standard input"


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise ProftuiError(message, f"{self.prog} --help")


def _common(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command has."""
    parser.add_argument("--session", type=int, metavar="N", help="only this session of the input, from 0")
    parser.add_argument("--iterations", metavar="A:B", help="only these iterations: 3:7, 3:, :7, 5 or phase=decode")
    parser.add_argument(
        "--key",
        metavar="NAME",
        help="what ends an iteration: a kernel, op, range or API call; or 'loop of N launches'",
    )
    parser.add_argument("--format-in", metavar="NAME", help="read it as this format, without detection")
    parser.add_argument("--no-cache", action="store_true", help="ignore the cache")
    parser.add_argument("--gpu", metavar="NAME", help="the GPU model, where it is not recorded")
    parser.add_argument(
        "--peak",
        metavar="TYPE=N",
        action="append",
        default=[],
        help="a peak of the GPU for the roofline: bf16=750 (TFLOP/s), bandwidth=3900 (GB/s)",
    )
    parser.add_argument("--color", choices=COLORS, default="auto", help="default: as the terminal supports")


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=_FILE)


def open_parser() -> argparse.ArgumentParser:
    """Return the parser of ``proftui FILE...``."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    parser = _Parser(
        prog="proftui",
        usage="proftui [options] [FILE...]\n       proftui COMMAND [options] FILE...",
        description="Explore GPU profiles in the terminal; `proftui formats` lists the supported formats.",
        epilog=f"commands:\n{commands}\n\n"
        "Without a file the profiles in this folder and below are listed, and those opened before.\n"
        "Several files are opened as several sessions. Open a file named like a command as ./report.\n"
        "`proftui COMMAND --help` shows the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=_FILE)
    _common(parser)
    parser.add_argument("--theme", choices=("dark", "light"), default="dark", help="default: dark")
    parser.add_argument("--resume", action="store_true", help="restore the views as you left them")
    parser.add_argument(
        "--follow", action="store_true", help="read what is new in files and folders that are still being written"
    )
    parser.add_argument("--no-mouse", action="store_true", help="do not capture the mouse")
    parser.add_argument("--ascii", action="store_true", help="use only ASCII characters")
    parser.add_argument("--keys", action="store_true", help="print the keys in force (see keys.toml) and exit")
    parser.add_argument("--version", action="version", version=f"proftui {__version__}")
    return parser


def command_parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of one of `COMMANDS`."""
    parser = _Parser(prog=f"proftui {command}", description=f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.")
    if command == "formats":
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        return parser
    if command == "cache":
        parser.add_argument("action", choices=("list", "clear"), help="list the cached files, or delete them all")
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        return parser
    if command == "mcp":
        parser.add_argument("folders", nargs="+", metavar="DIR", help="only files below these folders are read")
        return parser
    if command == "diff":
        _diff(parser)
        return parser
    if command == "baseline":
        _baseline(parser)
        return parser
    _files(parser)
    if command == "convert":
        _convert(parser)
        return parser
    if command == "report":
        from tui.tables import ALL_REPORTS, report_of_screen

        parser.add_argument(
            "--view",
            type=report_of_screen,
            choices=(*ALL_REPORTS, PROFILES),
            default=ALL_REPORTS[0],
            metavar="VIEW",
            help=f"default: {ALL_REPORTS[0]}; also {', '.join(ALL_REPORTS[1:])}; of a folder {PROFILES}, the list of "
            "those in it and below",
        )
        parser.add_argument(
            "--format",
            choices=REPORT_FORMATS,
            help="default: by the extension of PATH, or text; html is one page with charts for a browser",
        )
        _output(parser)
        parser.add_argument("--notes", action="store_true", help="include your notes and marked rows of the view")
        _table(parser)
        _selection(parser)
    elif command == "check":
        parser.add_argument("--fail-on", choices=FAIL_ON, help="exit with 1 if any finding has this severity or higher")
        parser.add_argument("--format", choices=CHECK_FORMATS, default="text", help="default: text")
        _bounds(parser)
    elif command == "sql":
        parser.add_argument("query", metavar="QUERY", help="one SELECT, as one argument")
        parser.add_argument("--format", choices=("text", *EXPORT_FORMATS), help="default: text on a terminal, else csv")
        _output(parser)
        _selection(parser)
    elif command == "inspect":
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    else:
        from tui.tables import EXPORTED

        names = (*EXPORTED, "notes")
        parser.add_argument("--frame", choices=names, metavar="FRAME", help=", ".join(names))
        parser.add_argument(
            "--format",
            choices=(*EXPORT_FORMATS, *TRACE_FORMATS),
            help="default: by the extension of PATH, or csv; without --frame folded (flame graphs), speedscope, or "
            "chrome (trace events for Perfetto)",
        )
        parser.add_argument(
            "--from", dest="from_ns", type=_time, metavar="TIME", help="for other viewers: from this time on, as 1.5ms"
        )
        parser.add_argument("--to", dest="to_ns", type=_time, metavar="TIME", help="for other viewers: up to this time")
        _output(parser)
        _selection(parser)
    _common(parser)
    return parser


def _convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder of the dataset")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset of other files")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="convert on the Dask cluster of this scheduler, such as tcp://HOST:8786"
    )
    parser.add_argument("--format-in", metavar="NAME", help="read them as this format, without detection")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="baseline A and candidate B; with --baseline, runs of the candidate alone",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare with the runs of this baseline; changes have 90%% intervals over runs and iterations. "
        "--fail-on-regression then fails only if the whole interval lies above it, for the median iteration, GPU work "
        "or a kernel of at least 1%% of GPU time",
    )
    _baseline_dir(parser)
    parser.add_argument(
        "--format",
        choices=("text", *EXPORT_FORMATS),
        help="default: text; with --frame by the extension of PATH, or csv. text, markdown and json hold the whole "
        "comparison (markdown and json with --frame one table), other formats one table",
    )
    parser.add_argument(
        "--frame", choices=DIFF_FRAMES, metavar="FRAME", help=f"one table, all rows: {', '.join(DIFF_FRAMES)}"
    )
    _output(parser)
    parser.add_argument(
        "--tolerant",
        action="store_true",
        help="also match kernels, ops and API calls whose names differ by version, library or GPU; marked as similar",
    )
    parser.add_argument("--whole-runs", action="store_true", help="compare whole runs, not iterations")
    parser.add_argument(
        "--fail-on-regression",
        type=_percent,
        metavar="PERCENT",
        help="exit with 1 if the median iteration of B is longer by more than this percentage (5%% or 5); without "
        "iterations the span is compared, without start times GPU or kernel time; exit with 2 if none is recorded. The "
        "noise of iterations, other longer times and the largest increases are reported, not judged",
    )
    _selection(parser)
    parser.add_argument("--session-b", type=int, metavar="N", help="session of B; default: as --session")
    parser.add_argument("--iterations-b", metavar="A:B", help="iterations of B; default: as --iterations")
    _common(parser)


def _baseline(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    save = actions.add_parser("save", help="save the times of several runs, a file for each")
    save.add_argument("name", metavar="NAME", help="the name of the baseline")
    _files(save)
    save.add_argument("--overwrite", action="store_true", help="replace a baseline of this name")
    _common(save)
    listed = actions.add_parser("list", help="list the baselines")
    listed.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    removed = actions.add_parser("rm", help="remove a baseline; in an object store an empty file remains")
    removed.add_argument("name", metavar="NAME", help="the name of the baseline")
    for action in (save, listed, removed):
        _baseline_dir(action)


def _baseline_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        metavar="DIR",
        default=BASELINES,
        help=f"the folder of baselines, also in an object store (s3://...); default: {BASELINES}",
    )


def _percent(text: str) -> float:
    """Parse a percentage; below 1 it needs its sign, since 0.05 means 5% to many.

    >>> _percent("5%"), _percent("2.5"), _percent("0.5%")
    (5.0, 2.5, 0.5)
    """
    number = text.strip().removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a percentage of at least 0%, such as 5%")
    if 0 < value < 1 and number == text.strip():
        raise argparse.ArgumentTypeError(f"{text}: ambiguous: {number}% or {100 * value:g}%? Write the % sign")
    return value


def _table(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a table of a view."""
    group = parser.add_argument_group(
        "one table of the view", "X in the explorer copies the command for what it shows."
    )
    group.add_argument("--table", metavar="NAME", help="only this table, such as launches of view kernels")
    group.add_argument(
        "--row",
        action="append",
        default=[],
        metavar="KEY",
        help="the rows below this row, by its key in the JSON; once for each table above",
    )
    group.add_argument("--group-by", metavar="NAME", help="what ops or the tree of ops are grouped by")
    group.add_argument("--depth", type=_count, metavar="N", help="show N levels of a tree")
    group.add_argument(
        "--unfold",
        action="append",
        default=[],
        metavar="ROW",
        help="unfold this row of a tree, by its path or its key in the JSON, and those above it; fold the others, or "
        "with --depth the deeper ones; may be repeated",
    )
    group.add_argument(
        "--values",
        metavar="COLUMN",
        help="the distribution of this column, as D in the explorer: a histogram of numbers, sums by text",
    )
    group.add_argument(
        "--across", metavar="COLUMN", help="with --values: a pivot, sums by both columns, as V in the explorer"
    )


def _selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows and columns of a table."""
    group = parser.add_argument_group("rows and columns of the table")
    group.add_argument("--filter", default="", metavar="TEXT", help="only matching rows, as f in the explorer")
    group.add_argument(
        "--sort", default="", metavar="COLUMNS", help="such as --sort=-total_ns,name; - means largest first"
    )
    group.add_argument(
        "--columns", default="", metavar="COLUMNS", help="only these columns, in this order: name,total_ns"
    )
    group.add_argument("--hide-small", action="store_true", help="leave out the smallest rows, at most 1%% of the time")
    _bounds(group)


def _bounds(parser: argparse._ActionsContainer) -> None:
    """Add the options that limit the output."""
    parser.add_argument("--limit", type=_count, metavar="N", help="at most N rows of each table")
    parser.add_argument("--max-bytes", type=_count, metavar="N", help="JSON: as many rows as fit into N bytes")


def _time(text: str) -> int:
    """Parse a time in nanoseconds.

    >>> _time("1.5ms"), _time("20us"), _time("2s"), _time("7ns")
    (1500000, 20000, 2000000000, 7)
    """
    from decimal import Decimal, InvalidOperation

    number = text.rstrip("nuµmsNUMS")
    unit = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9}.get(text[len(number) :].lower())
    try:
        value = None if unit is None else Decimal(number).scaleb(unit)
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite() or value != value.to_integral_value() or abs(value) >= 1 << 62:
        raise argparse.ArgumentTypeError(f"{text}: expected a time such as 1.5ms (units: s, ms, us, ns)")
    return int(value)


def _count(text: str) -> int:
    """Parse a number of rows, levels or bytes.

    >>> _count("20")
    20
    """
    if not (text.isascii() and text.isdecimal() and int(text[:18]) > 0 and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1")
    return int(text)


def _output(parser: argparse.ArgumentParser) -> None:
    """Add the options for the destination of a table."""
    parser.add_argument("-o", "--output", metavar="PATH", default="-", help="default: - (standard output)")
    parser.add_argument("--overwrite", action="store_true", help="overwrite PATH if it exists")


def without_separator(arguments: list[str]) -> list[str]:
    """Return the arguments without ``--``; files after it that look like options become paths.

    `argparse` in Python 3.11 loses them if options and files are mixed.

    >>> without_separator(["inspect", "--", "-run.log", "-", "a.log"])
    ['inspect', './-run.log', '-', 'a.log']
    """
    if "--" not in arguments:
        return arguments
    at = arguments.index("--")
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in arguments[at + 1 :]]
    return arguments[:at] + files
