"""What kind of work an API call is: waiting for the GPU, launching, copying, memory, loading of code."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl


class ApiClass(IntEnum):
    """In the order in which names are tried."""

    SYNC = 0
    """The call waits until GPU work is done."""
    COPY = 1
    """Copies, sets and prefetches."""
    LAUNCH = 2
    MEMORY = 3
    """Memory is allocated, freed or mapped."""
    LOADING = 4
    """Code is loaded, or looked up in what is loaded."""
    OTHER = 5


TITLES: Final = {
    ApiClass.SYNC: "sync",
    ApiClass.COPY: "copy call",
    ApiClass.LAUNCH: "launch",
    ApiClass.MEMORY: "memory call",
    ApiClass.LOADING: "code loading",
    ApiClass.OTHER: "other call",
}
"""As tables say it."""

_PATTERNS: Final = (
    (ApiClass.SYNC, re.compile(r"Synchronize|(?:Event|Signal)Wait|hsa_signal_wait")),
    (ApiClass.COPY, re.compile(r"Memcpy|Memset|MemPrefetch|[Mm]emory_?(?:async_)?copy|TexImageCopy")),
    (ApiClass.LAUNCH, re.compile(r"Launch")),
    (
        ApiClass.MEMORY,
        re.compile(
            r"Malloc|Free(?:Host|Array|Async|Mipmapped)?(?:_v\d+|_ptsz)*$|Mem(?:Alloc|Free|Create|Release|Map|Unmap|"
            r"SetAccess|Address|Pool|HostAlloc|HostGet|HostRegister|HostUnregister|ExportTo|ImportFrom|"
            r"RetainAllocation|GetAllocation)|Host(?:Alloc|Register|Unregister)|Ipc\w*MemHandle"
        ),
    ),
    (
        ApiClass.LOADING,
        re.compile(
            r"Module|Library|GetProcAddress|GetFuncBySymbol|DriverEntryPoint|Link(?:Create|Add|Complete|Destroy)|"
            r"RegisterFatBinary|Kernel(?:Get|Set)|Func(?:Get|Set)|^(?:cu|hip)Init$|Ctx(?:Create|Destroy)|PrimaryCtx"
        ),
    ),
)


def api_class(name: str) -> ApiClass:
    """The class of a call of CUDA's or HIP's, runtime or driver, by its name.

    >>> [api_class(name).name for name in ("cudaStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cudaGraphLaunch_v10000")]
    ['SYNC', 'COPY', 'LAUNCH']
    >>> [api_class(name).name for name in ("cudaMalloc", "cuModuleLoadData", "cudaGetDevice")]
    ['MEMORY', 'LOADING', 'OTHER']

    What makes a stream wait, not the program, is no sync.

    >>> [api_class(name).name for name in ("cudaStreamWaitEvent", "cuStreamWaitValue32")]
    ['OTHER', 'OTHER']
    """
    return next((found for found, pattern in _PATTERNS if pattern.search(name)), ApiClass.OTHER)


def api_classes(names: pl.Series) -> npt.NDArray[np.int8]:
    """The `ApiClass` of each of distinct names."""
    return np.array([api_class(name) for name in names.to_list()], np.int8)
