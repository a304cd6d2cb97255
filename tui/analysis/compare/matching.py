"""Names of kernels without what tells versions of one apart."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tui.model.names import short_name

_ARCHITECTURE: Final = re.compile(
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)(?=_)"
    r"|(?:(?<=_)|\b)sm_?\d{2,3}[af]?(?=_|\b)"
    r"|(?<=cutlass)_?\d+(?=_)|(?<=cutlass)__\d+x(?=_)|\d+x(?=_cudnn|_cublas)"
)
_HASH: Final = re.compile(r"(?:(?<=_)|\b)(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?=_|\b)")
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


def families(names: pl.Series) -> pl.Series:
    """`family` of each name."""
    distinct = names.unique().drop_nulls().cast(pl.String).to_list()
    return names.cast(pl.String).replace({name: family(name) for name in distinct})
