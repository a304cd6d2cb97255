"""Entry point: ``proftui FILE...`` opens the explorer, the commands work without a screen."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Final

from tui.cli import console
from tui.cli.arguments import COMMANDS, command_parser, open_parser, without_separator
from tui.cli.console import BAD_INPUT, memory_error, width, write_text
from tui.model.errors import ProftuiError, is_memory_error, is_open_files_error
from tui.runtime import configure_numpy, native_stderr_hidden

if TYPE_CHECKING:
    from collections.abc import Sequence


INTERRUPTED: Final = 130
_PANIC: Final = "PanicException"
"""The name of the class of panics in Rust libraries; each library has its own class."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: The arguments without the program's name; None takes those of the process.

    Returns:
        The exit status.
    """
    with native_stderr_hidden():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: list[str]) -> int:
    """Run a command line, and report errors in one line."""
    try:
        _replace_closed_streams()
        status = _run(without_separator(arguments))
        sys.stdout.flush()
        return status
    except ProftuiError as error:
        console.error(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it; avoid a second error of the interpreter at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if is_memory_error(error):
            return _report_memory_error(error)
        if is_open_files_error(error):
            return _too_many_files()
        if error.filename is None and error.errno != errno.ENOSPC:
            return _report_crash(error, arguments)
        target = "standard output" if error.filename is None else os.fsdecode(error.filename)
        console.error(ProftuiError(f"{target}: {error.strerror}"))
        return BAD_INPUT
    except Exception as error:
        return _report_memory_error(error) if is_memory_error(error) else _report_crash(error, arguments)
    except BaseException as error:
        # A panic of Polars, which is no plain error.
        if is_memory_error(error):
            return _report_memory_error(error)
        if is_open_files_error(error):
            return _too_many_files()
        if type(error).__name__ != _PANIC:
            raise
        return _report_crash(error, arguments)


def _replace_closed_streams() -> None:
    """Replace closed standard streams by the null device, so that opened files do not get their numbers.

    Raises:
        ProftuiError: Standard output is closed.
    """
    is_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if is_closed:
        raise ProftuiError("standard output is closed", "for example: proftui report FILE > report.txt")


def _report_memory_error(error: BaseException) -> int:
    """Report that there is not enough memory."""
    console.error(memory_error(error))
    return BAD_INPUT


def _too_many_files() -> int:
    """Report that too many files are open."""
    console.error(ProftuiError("too many open files", "raise the limit: ulimit -n 1024"))
    return BAD_INPUT


def _report_crash(error: BaseException, arguments: Sequence[str]) -> int:
    """Report an internal error; developers want the traceback."""
    if sys.flags.dev_mode:
        raise error
    from tui.cli.crash import report_crash

    return report_crash(error, arguments)


def _configure_libraries() -> None:
    """Configure libraries before they are loaded, and before threads begin."""
    from tui.runtime import use_one_arena

    configure_numpy()
    use_one_arena()


def _run(arguments: list[str]) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    if command is None:
        options = open_parser().parse_intermixed_args(arguments)
        _configure_libraries()
        from tui.cli.explore import open_app

        return open_app(options)
    parser = command_parser(command)
    # argparse does not support intermixed arguments with subcommands.
    parse = parser.parse_args if command == "baseline" else parser.parse_intermixed_args
    options = parse(arguments[1:])
    _configure_libraries()
    if command == "formats":
        from tui.loaders.registry import formats
        from tui.output.listing import formats_json, formats_text

        write_text(formats_json(formats()) if options.format == "json" else formats_text(formats(), width=width()))
        return 0
    if command == "cache":
        from tui.cli.headless import cache

        return cache(options)
    if command == "convert":
        from tui.cli.convert import convert

        return convert(options)
    if command == "baseline":
        from tui.cli.baseline import baseline

        return baseline(options)
    if command == "diff" and options.baseline is not None:
        from tui.cli.baseline import diff_with_baseline

        return diff_with_baseline(options)
    if command == "diff":
        from tui.cli.headless import diff

        return diff(options)
    if command == "mcp":
        from tui.cli.mcp_server import serve

        return serve(options)
    from tui.cli import headless

    run = {
        "report": headless.report,
        "export": headless.export,
        "check": headless.check,
        "inspect": headless.inspect,
        "sql": headless.sql,
    }
    return run[command](options)
