"""Errors for the user, suggestions for misspelled names, and running out of memory."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""What Python makes of a byte that is no text, which nothing but the file system takes back."""


def path_text(name: str) -> str:
    r"""A name with U+FFFD for each byte of it that is no text.

    >>> path_text("run \udcff.log") == "run \ufffd.log"
    True
    """
    return name if name.isprintable() else _NO_TEXT.sub("\ufffd", name)


WHAT_OPENS: Final = "proftui formats lists the supported formats"
"""What to do where an input holds no profile."""


class ProftuiError(Exception):
    """Something the user can act on: bad input, a bad query, a bad command line.

    Args:
        message: One line that names the file (and line) and what was expected.
        hint: One line with what to do next, or empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        # They name files.
        self.message, self.hint = path_text(message), path_text(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class NoProfileError(ProftuiError):
    """A text in which no table of a profiler was found, however much it looks like one."""


class CommandError(Exception):
    """A command of the explorer that cannot be carried out; its text is the reason."""


ADVICE: Final = (
    "close other programs, select fewer iterations (:aggregate), or open a dataset written by proftui convert"
)
"""What a person can do who looks at a view."""

_POLARS: Final = re.compile(r"memory allocation of ([0-9]+) bytes failed|[Oo]ut of memory|[Cc]annot allocate memory")
_NUMPY: Final = re.compile(r"Unable to allocate ([0-9.]+ [KMGTP]?i?B)")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether something failed because there was no memory for it.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(OSError(12, "Cannot allocate memory"))
    (True, True)
    >>> is_out_of_memory(ValueError("no"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Named, not imported: the command line is read before Polars is there.
    return type(error).__module__.startswith(("polars", "pyo3_runtime")) and bool(_POLARS.search(str(error)))


def is_out_of_files(error: BaseException) -> bool:
    """Whether something failed because no more files may be open, of this process or of the system.

    >>> is_out_of_files(OSError(24, "Too many open files")), is_out_of_files(OSError(2, "No such file"))
    (True, False)
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    # Of Polars' panic only the words are left.
    return type(error).__module__.startswith(("polars", "pyo3_runtime")) and "TooManyOpenFiles" in str(error)


def out_of_memory_message(error: BaseException) -> str:
    """A message that memory ran out, with the amount where it is known.

    >>> out_of_memory_message(MemoryError("Unable to allocate 7.63 MiB for an array with shape (1000000,)"))
    'not enough memory (for 7.63 MiB more)'
    >>> out_of_memory_message(MemoryError())
    'not enough memory'
    """
    if found := _NUMPY.search(str(error)):
        return f"not enough memory (for {found[1]} more)"
    if (found := _POLARS.search(str(error))) and found[1]:
        return f"not enough memory (for {int(found[1]) / (1 << 20):.2f} MiB more)"
    return "not enough memory"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A suggestion as a question; empty where no name is similar.

    >>> did_you_mean("kernals", ["api-calls", "kernels"]), did_you_mean("frobnicate", ["kernels"])
    ('did you mean kernels?', '')
    """
    # Imported here: the command line imports this file before it knows what it is to do.
    from difflib import get_close_matches

    known = {one.lower(): one for one in candidates}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    begins = [one for one in known if len(name) > 2 and one.startswith(name.lower())]
    matches = [known[one] for one in (*close, *begins)]
    return f"did you mean {matches[0]}?" if matches else ""
