"""The command line: ``proftui FILE...`` opens the explorer, its commands do the same work without a screen.

Standard output carries data alone; everything said to the person goes to standard error. Exit status: 0 fine, 1
`check` or `diff` found what it is to fail on, 2 the input or the command line is wrong, 70 the program itself failed (a
report of it is in the user's state directory), 130 interrupted, 143 asked to end.

Nothing heavy is imported before the arguments are read: ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Final

from tui.cli.arguments import COMMANDS, command_parser, open_parser, without_separator
from tui.cli.saying import BAD_INPUT, complain, no_memory, say, width
from tui.model.errors import ProftuiError
from tui.model.lacking_memory import lacks_memory
from tui.processor import fit_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: The arguments without the program's name; None takes those of the process.

    Returns:
        The exit status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _replace_closed_streams()
        status = _run(without_separator(arguments))
        sys.stdout.flush()
        return status
    except ProftuiError as error:
        complain(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output has had enough; the interpreter would complain of it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if lacks_memory(error):
            return _lacked(error)
        if error.filename is None and error.errno != errno.ENOSPC:
            return _crashed(error, arguments)
        where = "standard output" if error.filename is None else os.fsdecode(error.filename)
        complain(ProftuiError(f"{where}: {error.strerror}"))
        return BAD_INPUT
    except Exception as error:
        return _lacked(error) if lacks_memory(error) else _crashed(error, arguments)
    except BaseException as error:
        # As Polars says it: no plain error.
        if not lacks_memory(error):
            raise
        return _lacked(error)


def _replace_closed_streams() -> None:
    """Put the null device in the place of closed standard streams: what is opened next would take their numbers.

    Raises:
        ProftuiError: Standard output is closed, so that nothing can be shown.
    """
    is_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if is_closed:
        raise ProftuiError("standard output is closed", "as: proftui report FILE > report.txt")


def _lacked(error: BaseException) -> int:
    """Say that there is not enough memory."""
    complain(no_memory(error))
    return BAD_INPUT


def _crashed(error: Exception, arguments: Sequence[str]) -> int:
    """Tell of a fault of the program itself; developers want the traceback."""
    if sys.flags.dev_mode:
        raise error
    from tui.cli.crash import tell_of_crash

    return tell_of_crash(error, arguments)


def _tell_libraries() -> None:
    """What they must know before they are loaded, and before threads begin."""
    from tui.loaders.freed_memory import one_heap

    fit_numpy()
    one_heap()


def _run(arguments: list[str]) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    if command is None:
        options = open_parser().parse_intermixed_args(arguments)
        _tell_libraries()
        from tui.cli.app import open_app

        return open_app(options)
    options = command_parser(command).parse_intermixed_args(arguments[1:])
    _tell_libraries()
    if command == "formats":
        from tui.loaders.registry import formats
        from tui.output.listing import formats_text

        say(formats_text(formats(), width=width()))
        return 0
    if command == "cache":
        from tui.cli.caching import cache

        return cache(options)
    if command == "convert":
        from tui.cli.converting import convert

        return convert(options)
    if command == "diff":
        from tui.cli.diffing import diff

        return diff(options)
    from tui.cli import headless

    run = {
        "report": headless.report,
        "export": headless.export,
        "check": headless.check,
        "inspect": headless.inspect,
        "sql": headless.sql,
    }
    return run[command](options)
