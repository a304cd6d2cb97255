"""Demangling of C++ names of kernels.

The demangler is native code of the runtime and the names come from the profile. It runs in a process with little memory
and time, so that a hostile name affects only itself. This file is also the program of that process, which reads a name
per line and answers with a line each; it imports little, since a profile waits for the start of the process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MANGLED: Final = re.compile(r"_Z[\w.$]{2,20000}", re.ASCII)
"""The names that are demangled; none contains a line break."""

_SECONDS: Final = 10
"""The time limit for all names; a single name has one second."""
_MEMORY_BYTES: Final = 1 << 30
_LENGTH_LIMIT: Final = 20_000
"""The longest demangled name."""
_ATTEMPTS: Final = 4
"""The maximum number of processes that are started: a name that ends one is skipped by the next."""


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Demangle names; names that are not mangled or cannot be demangled are missing from the result."""
    mangled = [name for name in dict.fromkeys(names) if _MANGLED.fullmatch(name)]
    found: dict[str, str] = {}
    for _ in range(_ATTEMPTS):
        if not mangled:
            break
        answers = _answers(mangled)
        found.update((name, text) for name, text in zip(mangled, answers, strict=False) if text and text != name)
        mangled = mangled[len(answers) + 1 :]
    return found


def _answers(names: list[str]) -> list[str]:
    """Return the answers of a process in the order of the names, up to a name that ended it."""
    try:
        # -P keeps this folder off the module search path: its files have names of standard modules.
        run = subprocess.run(
            [sys.executable, "-P", __file__],
            input="".join(f"{name}\n" for name in names).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
        output = run.stdout
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""
    except OSError:
        return []
    return output.decode("utf-8", "replace").split("\n")[:-1]


def _serve() -> None:
    """Answer each line of standard input with the demangled name, or an empty line."""
    import signal

    import cxxfilt  # type: ignore[import-untyped]

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        if sys.platform != "win32":
            # SIGALRM ends the process, even in native code.
            signal.alarm(1)
        try:
            text = cxxfilt.demangle(line.rstrip("\n"))
        except (cxxfilt.Error, UnicodeDecodeError):
            text = ""
        sys.stdout.write((text if len(text) <= _LENGTH_LIMIT and "\n" not in text else "") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
