"""Names of kernels, ops and API calls without what tells versions of one apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import polars as pl

from tui.model.names import short_name

HOW_ALIKE: Final = (
    "Of what only one side has, kernels are matched without template arguments, GPU and version in their names, ops "
    "without framework, library, version and number of an instance, and API calls without version: such rows are "
    "marked as alike."
)
_ARCHITECTURE: Final = re.compile(
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)(?=_)"
    r"|(?:(?<=_)|\b)sm_?\d{2,3}[af]?(?=_|\b)"
    r"|(?<=cutlass)_?\d+(?=_)|(?<=cutlass)__\d+x(?=_)|\d+x(?=_cudnn|_cublas)"
)
_HASH: Final = re.compile(r"(?:(?<=_)|\b)(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?=_|\b)")
_CALL_VARIANT: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds|_spt)+$")
_VERSION: Final = re.compile(r"(?<=v)\d+(?:[._]\d+)*(?=_|::|\b)")
_FRAMEWORK: Final = re.compile(r"^(?:aten::|torch\.nn\.functional\.|torch\.ops\.aten\.|torch\.|Tensor\.)_?")
_LIBRARY: Final = re.compile(
    r"(?<![A-Za-z])(?:(?:cudnn|cublas|miopen|mkldnn|native)_|(?:flash|efficient)_(?=attention))"
    r"|(?:Cudnn|Cublas|Miopen|Mkldnn|Native|(?:Flash|Efficient)(?=Attention))(?=[A-Z]\w*Backward\d*$)"
)
_OVERLOAD: Final = re.compile(r"(?<=Backward)\d+$")
"""PyTorch numbers the derivatives of an op's overloads; before 1.9 a single one had no number."""
_SPLIT: Final = re.compile(r"(?<=convolution_backward)_(?:input|weight)$")
"""Of PyTorch before 1.11, which took the two gradients apart."""
_INSTANCE: Final = re.compile(r"_\d+(?=/|$)|(?<=\w)\.\d+$|\[\d+\]$")
"""As TensorFlow and ONNX (``Conv2D_1/BiasAdd``), XLA (``fusion.12``) and DLProf (``relu[2]``) number what repeats."""


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


def op_family(name: str) -> str:
    """An op's name without what another version of its framework or another library changes in it.

    The framework's prefix, the library, versions, the number of an overload or an instance and which gradient of a
    convolution it is go. Work without an op keeps the words that stand for it.

    >>> op_family("AddmmBackward0"), op_family("aten::cudnn_batch_norm"), op_family("torch.nn.functional.conv2d")
    ('AddmmBackward', 'batch_norm', 'conv2d')
    >>> op_family("NativeBatchNormBackward0"), op_family("Conv2D_1/BiasAdd"), op_family("relu[2]")
    ('BatchNormBackward', 'Conv2D/BiasAdd', 'relu')
    >>> op_family("aten::_scaled_dot_product_flash_attention"), op_family("aten::_scaled_dot_product_cudnn_attention")
    ('scaled_dot_product_attention', 'scaled_dot_product_attention')
    >>> op_family("aten::add_"), op_family("aten::conv2d"), op_family("(no op: no launch record)")
    ('add_', 'conv2d', '(no op: no launch record)')
    """
    if name.startswith("("):
        return name
    bare = name
    for pattern in (_FRAMEWORK, _LIBRARY, _OVERLOAD, _SPLIT, _INSTANCE):
        bare = pattern.sub("", bare)
    return _VERSION.sub("*", bare) or name


def base_call(name: str) -> str:
    """An API call's name without its version, and without what a default stream of each thread changes in it.

    >>> base_call("cudaMalloc_v3020"), base_call("cudaLaunchKernel_ptsz_v7000"), base_call("cuMemcpyHtoD_v2_ptds")
    ('cudaMalloc', 'cudaLaunchKernel', 'cuMemcpyHtoD')
    >>> base_call("hipMemcpyAsync_spt"), base_call("acc_init_v2")
    ('hipMemcpyAsync', 'acc_init_v2')
    """
    return _CALL_VARIANT.sub("", name) if name.startswith(("cu", "hip")) else name


def alike(names: pl.Series, rule: Callable[[str], str]) -> pl.Series:
    """What is left of each name by a rule (`family`, `op_family`, `base_call`)."""
    distinct = names.unique().drop_nulls().cast(pl.String).to_list()
    return names.cast(pl.String).replace({name: rule(name) for name in distinct})
