"""Starts the explorer: terminal capabilities, keyboard, files to open."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tui.cli import console
from tui.cli.arguments import COMMANDS, command_parser
from tui.cli.console import BAD_INPUT, detect_terminal, memory_error, width, write_text
from tui.cli.headless import check_input, load_files, report
from tui.keys import shadowed_key_warnings, use_keys
from tui.keys.rebinding import PRESETS, preset_keys
from tui.model.aggregation import aggregation
from tui.model.errors import ProftuiError, is_memory_error
from tui.options import OpenOptions
from tui.terminal import delays_escape, textual_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS_HINT: Final = "correct or remove the file; proftui --keys lists actions and keys"


def open_app(options: argparse.Namespace) -> int:
    """Open the explorer; print the report instead if the output is not a terminal that can show it."""
    terminal = detect_terminal(options.color)
    if options.keys:
        return _print_keys()
    _apply_user_keys()
    if not options.files and (terminal.obstacle or not sys.stdin.isatty()):
        raise ProftuiError(
            "no input file", "usage: proftui FILE..., for example proftui run.nvprof.log; see proftui --help"
        )
    if options.files:
        _refuse_mistyped(options.files[0])
    if terminal.obstacle:
        return _print_report(options, terminal.obstacle)
    _check_files(options)
    if "-" in options.files or not sys.stdin.isatty():
        _take_keys_from_terminal()
    for name, value in textual_environment(terminal, os.environ).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    # Objects created before the first frame are not garbage: collections take 0.1 s of the 1.6 s of processor time of
    # the imports (226 collections, CPython 3.11).
    gc.disable()
    try:
        from tui.app.app import run_app

        return run_app(
            OpenOptions(
                paths=tuple(options.files),
                format_in=options.format_in,
                session=options.session,
                aggregation=aggregation(options.iterations, options.key),
                gpu=options.gpu,
                peaks=tuple(options.peak),
                theme=options.theme,
                color=terminal.color,
                ascii_only=options.ascii or not terminal.utf8,
                resume=options.resume,
                follow=options.follow,
                cache=not options.no_cache,
                mouse=not (options.no_mouse or delays_escape(os.environ)),
            ),
            _report_error,
        )
    finally:
        # Usually enabled by then, after reading: see `ProfileLoading.load`.
        gc.enable()


def _print_report(options: argparse.Namespace, obstacle: str) -> int:
    """Print the report of the dashboard, and why the explorer does not open; return the exit status."""
    status = report(argparse.Namespace(**{**vars(command_parser("report").parse_args(["-"])), **vars(options)}))
    # After the report, so that it is visible on a terminal; only if there is a report.
    sys.stdout.flush()
    console.info(f"{obstacle}: printing the text report; open the file in a terminal to explore it")
    return status


def _check_files(options: argparse.Namespace) -> None:
    """Report files that cannot be opened before the screen opens.

    Raises:
        ProftuiError: A file is missing, or cannot be followed.
    """
    check_input(options.files)
    is_remote = [file == "-" or "://" in file for file in options.files]
    if options.follow and (not options.files or any(is_remote)):
        raise ProftuiError("--follow needs a file or a folder", "for example: proftui --follow traces/")
    can_wait = options.follow or not options.files or any(is_remote)
    if not can_wait and not any(Path(file).exists() for file in options.files):
        # It raises the error.
        load_files(options)


def _print_keys() -> int:
    """Print the active keys, or the default keys if the user's file is invalid; return the exit status."""
    from tui.output.listing import keys_text

    status = 0
    hidden: tuple[str, ...] = ()
    try:
        hidden = _apply_user_keys()
    except ProftuiError as error:
        console.error(error)
        status = BAD_INPUT
    write_text(keys_text(width=width()))
    for warning in shadowed_key_warnings(hidden):
        console.info(warning)
    return status


def _apply_user_keys() -> tuple[str, ...]:
    """Apply the keys of the user's ``keys.toml``, before screens are imported.

    Returns:
        The ids of the actions whose keys are the user's own.

    Raises:
        ProftuiError: The file cannot be read, or names an unknown action, key or preset.
    """
    from platformdirs import user_config_path

    path = user_config_path("proftui", appauthor=False) / "keys.toml"
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # A program that runs as another user often has the home directory of someone else.
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ProftuiError(f"{path}: cannot be read: {error}", KEYS_HINT) from error
    from tui.data.user_files import parse_user_file

    try:
        chosen = _chosen_keys(parse_user_file(text, str(path)))
        use_keys(chosen)
    except ValueError as error:
        raise ProftuiError(f"{path}: {error}", KEYS_HINT) from error
    return tuple(chosen)


def _chosen_keys(document: dict[str, Any]) -> dict[str, Sequence[str]]:
    """Return the keys of a preset, overridden by those of single actions.

    Raises:
        ValueError: The preset is unknown, or keys are no texts.
    """
    preset = document.pop("preset", None)
    if preset is not None and not (isinstance(preset, str) and preset in PRESETS):
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    overrides: dict[str, Sequence[str]] = {}
    for scope, actions in document.items():
        # table.sort = "o" is a table in TOML, "table.sort" = "o" is not.
        named = (
            {f"{scope}.{name}": keys for name, keys in actions.items()}
            if isinstance(actions, dict)
            else {scope: actions}
        )
        for name, keys in named.items():
            written = [keys] if isinstance(keys, str) else keys
            if not isinstance(written, list) or not all(isinstance(key, str) for key in written):
                raise ValueError(f'{name}: expected a key such as "o", or a list of them')
            overrides[name] = written
    return preset_keys(preset, overrides)


def _refuse_mistyped(first: str) -> None:
    """Refuse a missing file whose name resembles a command."""
    if first in COMMANDS or Path(first).exists():
        return
    from difflib import get_close_matches

    for suggestion in get_close_matches(first, COMMANDS, n=1, cutoff=0.75):
        raise ProftuiError(f"{first}: no such file or command", f"did you mean: proftui {suggestion}")


def _report_error(fault: Exception) -> int:
    """Report the error that ended the explorer, and return the exit status."""
    if isinstance(fault, ProftuiError):
        # For example, a file of the user's own rules became unreadable.
        console.error(fault)
        return BAD_INPUT
    if is_memory_error(fault):
        console.error(memory_error(fault))
        return BAD_INPUT
    from tui.cli.crash import report_crash

    return report_crash(fault, sys.argv[1:])


def _take_keys_from_terminal() -> None:
    """Make file descriptor 0 the terminal, for keys, and `sys.stdin` the piped data.

    Raises:
        ProftuiError: The process has no terminal of its own.
    """
    try:
        keys = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        raise ProftuiError(
            "no terminal for input: standard input is not a terminal, and /dev/tty cannot be opened",
            "use proftui report FILE",
        ) from None
    data = os.dup(0)
    os.dup2(keys, 0)
    os.close(keys)
    sys.stdin = open(data, encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115
