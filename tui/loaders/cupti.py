"""Enumerations of CUPTI, as databases of NVIDIA profilers store them."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COPY_KINDS: Final = MappingProxyType(
    {
        1: "HtoD",
        2: "DtoH",
        3: "HtoA",
        4: "AtoH",
        5: "AtoA",
        6: "AtoD",
        7: "DtoA",
        8: "DtoD",
        9: "HtoH",
        10: "PtoP",
    }
)
"""Directions of copies: host, device, array, peer."""

MEMORY_KINDS: Final = MappingProxyType(
    {
        1: "pageable",
        2: "pinned",
        3: "device",
        4: "array",
        5: "managed",
        6: "device static",
        7: "managed static",
    }
)

UNIFIED_MEMORY: Final = MappingProxyType(
    {
        1: "[Unified Memory Memcpy HtoD]",
        2: "[Unified Memory Memcpy DtoH]",
        3: "[Unified Memory CPU page faults]",
        4: "[Unified Memory GPU page faults]",
        5: "[Unified Memory thrashing]",
        6: "[Unified Memory throttling]",
        7: "[Unified Memory remote map]",
        8: "[Unified Memory Memcpy DtoD]",
    }
)
"""What a counter of unified memory counts, named as nvprof names it in a trace."""


@cache
def call_names(api: str) -> Mapping[int, str]:
    """Names of calls by their callback number.

    Args:
        api: runtime or driver.

    >>> call_names("runtime")[211], call_names("driver")[307]
    ('cudaLaunchKernel', 'cuLaunchKernel')
    """
    tables = tomllib.loads(files("tui.data").joinpath("cupti_callbacks.toml").read_text("utf-8"))
    return MappingProxyType({int(number): name for number, name in tables[api].items()})
