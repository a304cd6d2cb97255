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

DIFF_FRAMES: Final = ("kernels", "ops", "op_types", "api", "layers", "findings", "memory", "figures")
"""The tables of `diff`."""

CHECK_FORMATS: Final = ("text", "json", "markdown", "sarif")
"""What `check` writes: `tui.output.check.FORMATS`."""

FAIL_ON: Final = ("info", "warning", "error")
"""The severities of findings: `tui.output.check.SEVERITIES`."""

BINARY_FORMATS: Final = ("parquet", "xlsx", "pdf")

COMMANDS: Final = {
    "report": "print a view as text, Markdown or JSON, or write an HTML page",
    "export": "export one table (csv, json, parquet, xlsx, ...) or a trace for flame graphs, speedscope or Perfetto",
    "sql": "run an SQL query over all tables; SHOW TABLES lists them",
    "diff": "compare two profiles; exits 1 on a regression above --fail-on-regression",
    "baseline": "save, list or remove baselines (the times of several runs) for diff --baseline NAME",
    "check": "find performance problems; exits 1 if any finding reaches --fail-on",
    "convert": "write a Parquet dataset, which opens like a file, even if larger than memory",
    "inspect": "show the contents of a file, the views that it supports, and how to record data for the others",
    "mcp": "serve the profiles in folders to agents (Model Context Protocol, stdio)",
    "cache": "list or clear the cache of large files",
    "formats": "list the supported formats, how they are detected and how to record them",
}


_FILE: Final = "a profile, a folder of profiles or a dataset; - reads standard input"


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise ProftuiError(message, f"{self.prog} --help")


def _common(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command has."""
    parser.add_argument("--session", type=int, metavar="N", help="only this session of the input, numbered from 0")
    parser.add_argument("--iterations", metavar="A:B", help="only these iterations: 3:7, 3:, :7, 5 or phase=decode")
    parser.add_argument(
        "--key",
        metavar="NAME",
        help="the end of an iteration: a kernel, op, range or API call; or 'loop of N launches'",
    )
    parser.add_argument("--format-in", metavar="NAME", help="the input format; turns detection off")
    parser.add_argument("--no-cache", action="store_true", help="ignore the cache")
    parser.add_argument("--gpu", metavar="NAME", help="the GPU model, if not recorded")
    parser.add_argument(
        "--peak",
        metavar="TYPE=N",
        action="append",
        default=[],
        help="a GPU peak for the roofline: bf16=750 (TFLOP/s), bandwidth=3900 (GB/s)",
    )
    parser.add_argument("--color", choices=COLORS, default="auto", help="default: what the terminal supports")


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
        epilog=(
            f"commands:\n{commands}\n\nWithout a file, proftui lists the profiles in this folder and its "
            "subfolders, and recent profiles.\nSeveral files open together, each as a session. To open a file that has "
            "the name of a command: ./report\n`proftui COMMAND --help` shows the options of a command."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=_FILE)
    _common(parser)
    parser.add_argument("--theme", choices=("dark", "light"), default="dark", help="default: dark")
    parser.add_argument(
        "--resume", action="store_true", help="restore the views as they were when the file was last closed"
    )
    parser.add_argument("--follow", action="store_true", help="read new data as files and folders grow")
    parser.add_argument("--no-mouse", action="store_true", help="do not capture the mouse")
    parser.add_argument("--ascii", action="store_true", help="use only ASCII characters")
    parser.add_argument("--keys", action="store_true", help="print the active keys (see keys.toml) and exit")
    parser.add_argument("--version", action="version", version=f"proftui {__version__}")
    return parser


def command_parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of one of `COMMANDS`."""
    parser = _Parser(prog=f"proftui {command}", description=f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.")
    _ADD_ARGUMENTS[command](parser)
    return parser


def _report(parser: argparse.ArgumentParser) -> None:
    from tui.tables import ALL_REPORTS, report_of_view

    _files(parser)
    parser.add_argument(
        "--view",
        type=report_of_view,
        choices=(*ALL_REPORTS, PROFILES),
        default=ALL_REPORTS[0],
        metavar="VIEW",
        help=f"default: {ALL_REPORTS[0]}; also {', '.join(ALL_REPORTS[1:])}; {PROFILES} lists the profiles of a folder",
    )
    parser.add_argument(
        "--format",
        choices=REPORT_FORMATS,
        help="default: by the extension of PATH, or text; html is one page with charts for a browser",
    )
    _output(parser)
    parser.add_argument("--notes", action="store_true", help="include your notes and the marked rows of the view")
    _table(parser)
    _selection(parser)
    _common(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    from tui.tables import EXPORTED

    names = (*EXPORTED, "notes")
    _files(parser)
    parser.add_argument("--frame", choices=names, metavar="FRAME", help=f"the table to export: {', '.join(names)}")
    parser.add_argument(
        "--format",
        choices=(*EXPORT_FORMATS, *TRACE_FORMATS),
        help="default: by the extension of PATH, or csv; without --frame folded (flame graphs), speedscope, or "
        "chrome (trace events for Perfetto)",
    )
    parser.add_argument(
        "--from",
        dest="from_ns",
        type=_time,
        metavar="TIME",
        help="for traces: start of the time window, for example 1.5ms",
    )
    parser.add_argument("--to", dest="to_ns", type=_time, metavar="TIME", help="for traces: end of the time window")
    _output(parser)
    _selection(parser)
    _common(parser)


def _sql(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("query", metavar="QUERY", help="one SELECT statement, as one argument")
    parser.add_argument("--format", choices=("text", *EXPORT_FORMATS), help="default: text on a terminal, else csv")
    _output(parser)
    _selection(parser)
    _common(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("--fail-on", choices=FAIL_ON, help="exit with 1 if any finding has this severity or higher")
    parser.add_argument("--format", choices=CHECK_FORMATS, default="text", help="default: text")
    _bounds(parser)
    _common(parser)


def _inspect(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    _text_or_json(parser)
    _common(parser)


def _mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="only files in these folders and their subfolders are served"
    )


def _cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "clear"), help="list the cached files, or delete all of them")
    _text_or_json(parser)


def _text_or_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _convert(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder of the dataset")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset of other files")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="convert on the Dask cluster of this scheduler, for example tcp://HOST:8786",
    )
    parser.add_argument("--format-in", metavar="NAME", help="the input format; turns detection off")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="baseline A and candidate B; with --baseline, only runs of the candidate",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help=(
            "compare with the runs of this baseline, with 90%% intervals over runs and iterations. "
            "--fail-on-regression then fails only if the whole interval is above the limit, for the median iteration, "
            "GPU work or a kernel with at least 1%% of GPU time"
        ),
    )
    _baseline_dir(parser)
    parser.add_argument(
        "--format",
        choices=("text", *EXPORT_FORMATS),
        help=(
            "default: text; with --frame by the extension of PATH, or csv. text, markdown and json contain the whole "
            "comparison (markdown and json with --frame: one table), other formats one table"
        ),
    )
    parser.add_argument(
        "--frame", choices=DIFF_FRAMES, metavar="FRAME", help=f"one table with all rows: {', '.join(DIFF_FRAMES)}"
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
        help=(
            "exit with 1 if the median iteration of B is longer by more than this percentage (5%% or 5); without "
            "iterations, the time span is compared, and without start times, GPU or kernel time; exit with 2 if none "
            "is recorded. Noise, other longer times and the largest increases are reported but do not affect the exit "
            "status. Without this option, the verdict has a limit of 5%% and the exit status is 0"
        ),
    )
    _selection(parser)
    parser.add_argument("--session-b", type=int, metavar="N", help="session of B; default: same as --session")
    parser.add_argument("--iterations-b", metavar="A:B", help="iterations of B; default: same as --iterations")
    _common(parser)


def _baseline(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    save = actions.add_parser("save", help="save the times of several runs, one file per run")
    save.add_argument("name", metavar="NAME", help="the name of the baseline")
    _files(save)
    save.add_argument("--overwrite", action="store_true", help="replace a baseline of this name")
    _common(save)
    listed = actions.add_parser("list", help="list the baselines")
    _text_or_json(listed)
    removed = actions.add_parser("rm", help="remove a baseline; in object storage, an empty file remains")
    removed.add_argument("name", metavar="NAME", help="the name of the baseline")
    for action in (save, listed, removed):
        _baseline_dir(action)


def _baseline_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        metavar="DIR",
        default=BASELINES,
        help=f"the folder of baselines, local or in object storage (s3://...); default: {BASELINES}",
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
        "one table of the view", "In the explorer, X copies the command for the current table."
    )
    group.add_argument("--table", metavar="NAME", help="only this table, for example launches of view kernels")
    group.add_argument(
        "--row",
        action="append",
        default=[],
        metavar="KEY",
        help="the rows linked to this row, by its key in the JSON; one for each table above",
    )
    group.add_argument("--group-by", metavar="NAME", help="the grouping of ops or of the op tree")
    group.add_argument("--depth", type=_count, metavar="N", help="show N levels of a tree")
    group.add_argument(
        "--unfold",
        action="append",
        default=[],
        metavar="ROW",
        help=(
            "unfold this row of a tree and its parents, by path or by its key in the JSON, and fold the others (with "
            "--depth, deeper ones); may be repeated"
        ),
    )
    group.add_argument(
        "--values",
        metavar="COLUMN",
        help="the distribution of this column, as with D in the explorer: a histogram of numbers, or sums by text",
    )
    group.add_argument(
        "--across",
        metavar="COLUMN",
        help="with --values: a pivot table, sums by both columns, as with V in the explorer",
    )


def _selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows and columns of a table."""
    group = parser.add_argument_group("rows and columns of the table")
    group.add_argument("--filter", default="", metavar="TEXT", help="only matching rows, as with f in the explorer")
    group.add_argument(
        "--sort", default="", metavar="COLUMNS", help="for example --sort=-total_ns,name; - means largest first"
    )
    group.add_argument(
        "--columns", default="", metavar="COLUMNS", help="only these columns, in this order: name,total_ns"
    )
    group.add_argument(
        "--hide-small", action="store_true", help="hide the smallest rows, together at most 1%% of the time"
    )
    _bounds(group)


def _bounds(parser: argparse._ActionsContainer) -> None:
    """Add the options that limit the output."""
    parser.add_argument("--limit", type=_count, metavar="N", help="at most N rows of each table")
    parser.add_argument("--max-bytes", type=_count, metavar="N", help="JSON: the rows that fit into N bytes")


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


_ADD_ARGUMENTS: Final = {
    "report": _report,
    "export": _export,
    "sql": _sql,
    "diff": _diff,
    "baseline": _baseline,
    "check": _check,
    "convert": _convert,
    "inspect": _inspect,
    "mcp": _mcp,
    "cache": _cache,
    "formats": _text_or_json,
}
"""Functions that add the arguments of `COMMANDS` to a parser."""


def without_separator(arguments: list[str]) -> list[str]:
    """Return the arguments without ``--``; files after it that look like options become paths.

    `argparse` in Python 3.11 loses them if options and files are mixed.

    >>> without_separator(["inspect", "--", "-run.log", "-", "a.log"])
    ['inspect', './-run.log', '-', 'a.log']
    """
    if "--" not in arguments:
        return arguments
    index = arguments.index("--")
    files = [f"./{name}" if name.startswith("-") and name != "-" else name for name in arguments[index + 1 :]]
    return arguments[:index] + files
