"""Paths as people type them: whatever is typed, asking whether it is there raises nothing."""

from __future__ import annotations

from pathlib import Path


def user_path(text: str) -> Path:
    """The path that a person typed, with ``~`` for a home directory.

    >>> user_path("~nobody-of-this-name/x"), user_path("a/b")
    (PosixPath('~nobody-of-this-name/x'), PosixPath('a/b'))
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def is_file_there(text: str) -> bool:
    r"""Whether a typed path names something that is there; what cannot be a path does not.

    >>> is_file_there("."), is_file_there("x" * 10_000), is_file_there("a\0b")
    (True, False, False)
    """
    try:
        return user_path(text).exists()
    except (OSError, ValueError):
        return False
