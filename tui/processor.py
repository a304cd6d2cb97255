"""What numpy is told of the processor before it is loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE: Final = "NPY_DISABLE_CPU_FEATURES"
"""What numpy reads as it is loaded; processes that are started from this one inherit it."""
_AVX512: Final = "X86_V4 AVX512_ICL AVX512_SPR"
"""The names that numpy has for its loops with AVX-512."""
_CPUINFO: Final = "/proc/cpuinfo"
_FIRST: Final = 4096
"""So many bytes tell of one processor; of a large machine all of them take long to read."""


def fit_numpy() -> None:
    """Have numpy sort with AVX2 on a processor that takes six times as long with AVX-512: before numpy is imported."""
    try:
        descriptor = os.open(_CPUINFO, os.O_RDONLY)
    except OSError:  # no Linux
        return
    try:
        processor = os.read(descriptor, _FIRST).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    os.environ.update(environment_changes(os.environ, processor))


def environment_changes(env: Mapping[str, str], processor: str) -> dict[str, str]:
    r"""What must change in the environment; nothing where the user has said which features numpy may use.

    AMD's Zen 4 compresses a vector into memory, as numpy's sorting does with AVX-512, many times slower than others do.

    Args:
        env: The environment.
        processor: The first entry of ``/proc/cpuinfo``.

    >>> zen4 = "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fpu avx2 avx512f\n"
    >>> environment_changes({}, zen4)
    {'NPY_DISABLE_CPU_FEATURES': 'X86_V4 AVX512_ICL AVX512_SPR'}
    >>> environment_changes({}, zen4.replace("avx512f", ""))
    {}
    """
    facts: dict[str, str] = {}
    for line in processor.splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    # Zen 3 is of the same family, and has no AVX-512.
    is_zen4 = (facts.get("vendor_id"), facts.get("cpu family")) == ("AuthenticAMD", "25")
    slow = is_zen4 and "avx512f" in facts.get("flags", "").split()
    return {_VARIABLE: _AVX512} if slow and _VARIABLE not in env else {}
