"""Errors for the user, suggestions for misspelled names, and running out of memory."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


_SURROGATES: Final = "[\ud800-\udfff]"
"""Surrogate escapes, which Python uses for bytes of file names that are not valid text."""


def path_text(name: str) -> str:
    r"""Return a file name with U+FFFD for each byte that is not valid text.

    >>> path_text("run \udcff.log") == "run \ufffd.log"
    True
    """
    return name if name.isprintable() else re.sub(_SURROGATES, "\ufffd", name)


FORMATS_HINT: Final = "proftui formats lists the supported formats"
"""The hint if an input holds no profile."""


class ProftuiError(Exception):
    """An error that the user can act on: bad input, a bad query, a bad command line.

    Args:
        message: One line that names the file (and line) and what was expected.
        hint: One line with what to do next, or empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        # Messages contain file names.
        self.message, self.hint = path_text(message), path_text(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class NoProfileError(ProftuiError):
    """A text without any table of a profiler."""


class CommandError(Exception):
    """A command of the explorer that failed; the text is the reason."""


OUT_OF_MEMORY_HINT: Final = (
    "close other programs, select fewer iterations (:aggregate), or open a dataset written by proftui convert"
)
"""The hint if memory ran out."""

# Not compiled here: the command line imports this file at start-up.
_POLARS: Final = r"memory allocation of ([0-9]+) bytes failed|[Oo]ut of memory|[Cc]annot allocate memory"
_NUMPY: Final = r"Unable to allocate ([0-9.]+ [KMGTP]?i?B)"


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error is due to lack of memory.

    >>> is_memory_error(MemoryError()), is_memory_error(OSError(12, "Cannot allocate memory"))
    (True, True)
    >>> is_memory_error(ValueError("no"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # By name, because the command line is parsed before Polars is imported.
    return type(error).__module__.startswith(("polars", "pyo3_runtime")) and bool(re.search(_POLARS, str(error)))


def is_open_files_error(error: BaseException) -> bool:
    """Return whether an error is due to the limit of open files, of this process or of the system.

    >>> is_open_files_error(OSError(24, "Too many open files")), is_open_files_error(OSError(2, "No such file"))
    (True, False)
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    # A panic of Polars has only its message.
    return type(error).__module__.startswith(("polars", "pyo3_runtime")) and "TooManyOpenFiles" in str(error)


def out_of_memory_message(error: BaseException) -> str:
    """Return the message that memory ran out, with the amount if known.

    >>> out_of_memory_message(MemoryError("Unable to allocate 7.63 MiB for an array with shape (1000000,)"))
    'not enough memory (for 7.63 MiB more)'
    >>> out_of_memory_message(MemoryError())
    'not enough memory'
    """
    if match := re.search(_NUMPY, str(error)):
        return f"not enough memory (for {match[1]} more)"
    if (match := re.search(_POLARS, str(error))) and match[1]:
        return f"not enough memory (for {int(match[1]) / (1 << 20):.2f} MiB more)"
    return "not enough memory"


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message, or its type, to be part of a message to the user.

    >>> first_line(ValueError("not a list\nat byte 4")), first_line(ValueError())
    ('not a list', 'ValueError')
    """
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a suggestion for a misspelled name; empty if no name is similar.

    >>> did_you_mean("kernals", ["api-calls", "kernels"]), did_you_mean("frobnicate", ["kernels"])
    ('did you mean kernels?', '')
    """
    # Imported here because every command imports this file.
    from difflib import get_close_matches

    candidates_by_name = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(name.lower(), candidates_by_name, n=1, cutoff=0.75)
    begins = [candidate for candidate in candidates_by_name if len(name) > 2 and candidate.startswith(name.lower())]
    matches = [candidates_by_name[match] for match in (*close, *begins)]
    return f"did you mean {matches[0]}?" if matches else ""
