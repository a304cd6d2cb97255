"""The data files that come with the program, and the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl
from platformdirs import user_config_dir

from tui.model.errors import ProftuiError

HINT: Final = "correct the file or remove it"
"""What to do about a file of the user's that cannot be used."""

Stamp = tuple[str, int]
"""Path and modification time of a file; what was read from it is valid while both are the same."""


def read_shipped(name: str) -> str:
    """Return the text of a data file of the program."""
    return files("tui.data").joinpath(name).read_text("utf-8")


def user_file_path(name: str) -> Path:
    """Return the path of a user's own data file."""
    return Path(user_config_dir("proftui", appauthor=False)) / name


def stamp(path: Path) -> Stamp | None:
    """Return the path and modification time of a user's file; None if it is missing or its folder is inaccessible.

    A program that runs as another user, in a container or by sudo, often has the home of someone else.
    """
    with suppress(PermissionError):
        return (str(path), path.stat().st_mtime_ns) if path.is_file() else None
    return None


def user_text(file: Stamp) -> str:
    """Return the text of a user's file.

    Raises:
        ProftuiError: It cannot be read.
    """
    try:
        return Path(file[0]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProftuiError(f"{file[0]}: cannot be read: {error}", HINT) from error


Rules = TypeVar("Rules")


def rules_with_users(
    name: str, path: Path, parse: Callable[[str, str], Rules], merge: Callable[[Rules, Rules], Rules]
) -> Rules:
    """Return the rules of a data file and the user's own, cached while the user's file is unchanged.

    Args:
        name: The data file that comes with the program.
        path: The user's file.
        parse: Reads rules from a text; the second argument is what to call it in errors.
        merge: Puts the user's rules, the first argument, before those of the program.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    rules: Rules = _rules_with_users(name, stamp(path), parse, merge)
    return rules


@cache
def _rules_with_users(
    name: str, user: Stamp | None, parse: Callable[[str, str], Any], merge: Callable[[Any, Any], Any]
) -> Any:
    of_program = parse(read_shipped(name), name)
    return of_program if user is None else merge(parse(user_text(user), user[0]), of_program)


def parse_user_file(text: str, source: str) -> dict[str, Any]:
    """Parse a TOML document.

    Args:
        text: The document.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is none.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ProftuiError(f"{source}: not TOML: nested too deeply", HINT) from None
    except ValueError as error:  # Also raised for numbers with more digits than Python reads.
        raise ProftuiError(f"{source}: not TOML: {error}", HINT) from error


def tables(document: dict[str, Any], key: str, source: str) -> list[tuple[dict[str, Any], str]]:
    """Return the tables of an array with their names for errors; none if the array is missing.

    Raises:
        ProftuiError: It is no array of tables.
    """
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ProftuiError(f"{source}: expected [[{key}]] tables", HINT)
    return [(entry, f"{source}: {key} {number}") for number, entry in enumerate(entries, 1)]


def checked_pattern(pattern: str, where: str, *, tried: str = "") -> str:
    """Validate the pattern of a rule, and make it case-insensitive.

    Args:
        pattern: A regular expression in Rust syntax.
        where: Which rule it is of, for the error.
        tried: The data file of the program, whose patterns tests have compiled: compiling them again costs a tenth of a
            second at every start.

    Raises:
        ProftuiError: It is none.
    """
    if tried and where.startswith(f"{tried}:"):
        return pattern
    try:
        pl.Series([""]).str.contains(f"(?i){pattern}")
    except pl.exceptions.PolarsError as error:
        problem = str(error).strip().splitlines()[-1]
        raise ProftuiError(f"{where}: pattern is not a regular expression: {problem}", HINT) from error
    return pattern
