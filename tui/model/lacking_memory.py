"""What fails for want of memory, told from what fails otherwise; what one can do about it."""

from __future__ import annotations

import errno
import re
from typing import Final

ADVICE: Final = "close other programs, show fewer iterations (:aggregate), or open what proftui convert wrote"
"""What a person can do who looks at a view."""

_POLARS: Final = re.compile(r"memory allocation of (\d+) bytes failed|[Oo]ut of memory|[Cc]annot allocate memory")
_NUMPY: Final = re.compile(r"Unable to allocate ([\d.]+ [KMGTP]?i?B)")


def lacks_memory(error: BaseException) -> bool:
    """Whether something failed because there was no memory for it.

    >>> lacks_memory(MemoryError()), lacks_memory(OSError(12, "Cannot allocate memory")), lacks_memory(ValueError("no"))
    (True, True, False)
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Named, not imported: the command line is read before Polars is there.
    return type(error).__module__.startswith(("polars", "pyo3_runtime")) and bool(_POLARS.search(str(error)))


def memory_words(error: BaseException) -> str:
    """That memory was lacking, and how much of it where that is known.

    >>> memory_words(MemoryError("Unable to allocate 7.63 MiB for an array with shape (1000000,)"))
    'not enough memory (for 7.63 MiB more)'
    >>> memory_words(MemoryError())
    'not enough memory'
    """
    if found := _NUMPY.search(str(error)):
        return f"not enough memory (for {found[1]} more)"
    if (found := _POLARS.search(str(error))) and found[1]:
        return f"not enough memory (for {int(found[1]) / (1 << 20):.2f} MiB more)"
    return "not enough memory"
