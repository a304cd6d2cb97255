"""Names of kernels and API calls without what tells versions of one apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import polars as pl

from tui.model.names import short_name

HOW_ALIKE: Final = (
    "Of what only one side has, kernels are matched without template arguments, GPU and version in their names, and "
    "API calls without version: such rows are marked as alike."
)
_ARCHITECTURE: Final = re.compile(
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)(?=_)"
    r"|(?:(?<=_)|\b)sm_?\d{2,3}[af]?(?=_|\b)"
    r"|(?<=cutlass)_?\d+(?=_)|(?<=cutlass)__\d+x(?=_)|\d+x(?=_cudnn|_cublas)"
)
_HASH: Final = re.compile(r"(?:(?<=_)|\b)(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?=_|\b)")
_CALL_VARIANT: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds|_spt)+$")
_VERSION: Final = re.compile(r"(?<=v)\d+(?:[._]\d+)*(?=_|::|\b)")


def family(name: str) -> str:
    """A kernel's name without what an update of a library or another GPU changes in it.

    Template arguments and parameters go (`short_name`), and architecture, version and build numbers become ``*``.

    >>> family("ampere_sgemm_128x64_nn"), family("volta_sgemm_128x64_nn")
    ('*_sgemm_128x64_nn', '*_sgemm_128x64_nn')
    >>> family("sm80_xmma_gemm_f16f16") == family("sm90_xmma_gemm_f16f16")
    True
    >>> family("void at::native::kernel<4, float>(int)")
    'at::native::kernel'
    """
    bare = short_name(name)
    for pattern in (_ARCHITECTURE, _HASH, _VERSION):
        bare = pattern.sub("*", bare)
    return bare


def base_call(name: str) -> str:
    """An API call's name without its version, and without what a default stream of each thread changes in it.

    >>> base_call("cudaMalloc_v3020"), base_call("cudaLaunchKernel_ptsz_v7000"), base_call("cuMemcpyHtoD_v2_ptds")
    ('cudaMalloc', 'cudaLaunchKernel', 'cuMemcpyHtoD')
    >>> base_call("hipMemcpyAsync_spt"), base_call("acc_init_v2")
    ('hipMemcpyAsync', 'acc_init_v2')
    """
    return _CALL_VARIANT.sub("", name) if name.startswith(("cu", "hip")) else name


def alike(names: pl.Series, rule: Callable[[str], str]) -> pl.Series:
    """What is left of each name by a rule (`family`, `base_call`)."""
    distinct = names.unique().drop_nulls().cast(pl.String).to_list()
    return names.cast(pl.String).replace({name: rule(name) for name in distinct})
