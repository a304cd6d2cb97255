"""Kernel names for people: mangled C++ names are demangled, and get short names.

The runtime's demangler is native code and the names are somebody else's: it runs in a process of its own with little
memory and time, so that a name made to exhaust it costs nothing but that name. This file is that process, too: it then
reads a name a line and answers with a line each.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.names import short_name
from tui.model.schema import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

_MANGLED: Final = re.compile(r"_Z[\w.$]{2,20000}", re.ASCII)
"""What is tried; it holds no line break and nothing else that could be taken for more than a name."""

_SECONDS: Final = 10
"""For all names; a name itself gets one."""
_MEMORY_BYTES: Final = 1 << 30
_LENGTH_LIMIT: Final = 20_000
"""Longer results are not taken."""
_STARTS: Final = 4
"""So many processes are tried: each name that ends one is passed over."""


def demangled(names: Iterable[str]) -> dict[str, str]:
    """The mangled ones among distinct names, spelt out; those that cannot be are missing."""
    mangled = [name for name in dict.fromkeys(names) if _MANGLED.fullmatch(name)]
    found: dict[str, str] = {}
    for _ in range(_STARTS):
        if not mangled:
            break
        answers = _answers(mangled)
        found.update((name, text) for name, text in zip(mangled, answers, strict=False) if text and text != name)
        mangled = mangled[len(answers) + 1 :]
    return found


def _answers(names: list[str]) -> list[str]:
    """What the process says of the names, in order, up to one that ended it."""
    try:
        # Its own folder is kept out of the search for modules (-P): files here have names of other modules.
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
    """Answer each line of standard input: the name spelt out, or nothing."""
    import signal

    import cxxfilt  # type: ignore[import-untyped]

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        if sys.platform != "win32":
            # The signal's default is to end the process, whatever native code is at work.
            signal.alarm(1)
        try:
            text = cxxfilt.demangle(line.rstrip("\n"))
        except (cxxfilt.Error, UnicodeDecodeError):
            text = ""
        sys.stdout.write((text if len(text) <= _LENGTH_LIMIT and "\n" not in text else "") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()


def with_short_names(kernels: pl.DataFrame) -> pl.DataFrame:
    """Spell out mangled names in ``name`` (a category), and add ``short_name``; each distinct name is read once."""
    names = kernels["name"].unique().drop_nulls().cast(pl.String).to_list()
    plain = demangled(names)
    full = [plain.get(name, name) for name in names]
    known = pl.DataFrame(
        {
            "recorded": pl.Series(names, dtype=pl.String).cast(NAME),
            "name": pl.Series(full, dtype=pl.String).cast(NAME),
            "short_name": pl.Series([short_name(name) for name in full], dtype=pl.String).cast(NAME),
        }
    )
    return (
        kernels.rename({"name": "recorded"})
        .join(known, on="recorded", how="left", maintain_order="left")
        .drop("recorded")
    )
