"""Names of GPU work: the kind of work, and short forms of demangled C++ names."""

from __future__ import annotations

import re
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_ANONYMOUS: Final = "(anonymous namespace)"
_NAMED_ANONYMOUS: Final = re.compile(r"\b_GLOBAL__N_\w*(?=::)")
"""An anonymous namespace as nvprof prints it, with a hash of the file."""
_UNNAMED: Final = "<unnamed>::"
"""The spelling of NVIDIA's demangler."""
_OPERATOR: Final = re.compile(r"operator(?:\(\)|\[\]|<=>|<<=?|>>=?|->\*?|<=?|>=?)(?=[ (<]|$)")
_OPENING_OR_OPERATOR: Final = re.compile(r"[<({[]|operator")
_BRACKET_OR_OPERATOR: Final = re.compile(r"[<>(){}[\]]|operator")
"""What `_bare` and `_group_end` look at; they skip all other characters."""
_IDENTIFIER: Final = re.compile(r"([0-9]{1,6})(?![0-9])")
"""The length prefix of an identifier in a mangled name."""
_AFTER_PARAMETERS: Final = re.compile(r" (?:const|volatile|noexcept)\b|&&?(?=$|::)")
_NOTE: Final = re.compile(r" \[(?:with|clone)\b.*")
_CLOSING: Final = {"<": ">", "(": ")", "{": "}", "[": "]"}

NO_NAME: Final = "(name not recorded)"
"""The name of kernels that the tool lists without one."""

DESCRIPTOR: Final = r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)$"
"""The suffix of the name of a kernel descriptor in ROCm."""

KIND_BY_PREFIX: Final = MappingProxyType(
    {
        **{"[CUDA memcpy": "memcpy", "[CUDA memset": "memset", "[Unified Memory": "um", "[CUDA Unified Memory": "um"},
        **{"MEMORY_COPY_": "memcpy", "CopyHostTo": "memcpy", "CopyDeviceTo": "memcpy"},
        **{"Memcpy ": "memcpy", "Memset ": "memset"},
        **{"zeCommandListAppendMemoryCopy": "memcpy", "zeCommandListAppendMemoryFill": "memset"},
        **{"clEnqueueRead": "memcpy", "clEnqueueWrite": "memcpy", "clEnqueueCopy": "memcpy", "clEnqueueFill": "memset"},
    }
)
"""Prefixes of the profilers' own names, and the kind of work (``activities.kind``) of each."""


def kind_by_prefix(name: str) -> str:
    """Return the kind of GPU work with a name: memcpy, memset or um for the profilers' own names, otherwise kernel.

    >>> kind_by_prefix("[CUDA memcpy HtoD]"), kind_by_prefix("Memset (Device)"), kind_by_prefix("f(int*)")
    ('memcpy', 'memset', 'kernel')
    """
    return next((kind for prefix, kind in KIND_BY_PREFIX.items() if name.startswith(prefix)), "kernel")


def copy_kind(name: str) -> str | None:
    """Return the direction of a copy by its name in any tool; None if it has none.

    H is host, D device, P peer, A array. Level Zero's M (memory of the host) is H, and its S (shared) D.

    >>> copy_kind("[CUDA memcpy HtoD]"), copy_kind("Memcpy DtoD (Device -> Device)"), copy_kind("MemcpyP2P")
    ('HtoD', 'DtoD', 'PtoP')
    >>> copy_kind("[CUDA memcpy Host-to-Device]"), copy_kind("MEMORY_COPY_DEVICE_TO_HOST"), copy_kind("CopyHostToHost")
    ('HtoD', 'DtoH', 'HtoH')
    >>> copy_kind("zeCommandListAppendMemoryCopy(D2M)"), copy_kind("clEnqueueReadBuffer"), copy_kind("copy_kernel")
    ('DtoH', 'DtoH', None)
    """
    if (opencl := _OPENCL_COPY.match(name)) is not None:
        return "HtoD" if opencl[1] == "Write" else "DtoH"
    ends = _COPY_IN_LETTERS.search(name) or _COPY_IN_FULL.search(name)
    if ends is None:
        return None
    source, target = (_LEVEL_ZERO_MEMORY.get(end[0].upper(), end[0].upper()) for end in ends.groups())
    return f"{source}to{target}"


_COPY_IN_LETTERS: Final = re.compile(r"(?:[Mm]emcpy ?|MemoryCopy\w*\()([HDPAMS])(?:to|2)([HDPAMS])\b")
_MEMORY: Final = "(host|device|peer|array)"
_COPY_IN_FULL: Final = re.compile(rf"(?:co?py[ _]?|^){_MEMORY}[-_]?to[-_]?{_MEMORY}\]?$", re.IGNORECASE)
_OPENCL_COPY: Final = re.compile("clEnqueue(Read|Write)")
_LEVEL_ZERO_MEMORY: Final = {"M": "H", "S": "D"}


def without_descriptor(name: str) -> str:
    """Return a kernel's name without the suffix of its descriptor.

    >>> without_descriptor("f(int*) [clone .kd]"), without_descriptor("g.kd")
    ('f(int*)', 'g')
    """
    return re.sub(DESCRIPTOR, "", name)


def short_name(name: str) -> str:
    """Return a kernel's name without return type, template arguments and parameter lists; namespaces stay.

    Names in brackets (``[CUDA memset]``) and names other than C++ are unchanged. A mangled name is demangled if it
    begins with a plain list of identifiers. A truncated name loses its last, incomplete part.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int, float)")
    'at::native::vectorized_elementwise_kernel'
    >>> short_name("void (anonymous namespace)::f<bool=0>(int*)::{lambda(float)#1}::operator()(float) const")
    '(anonymous namespace)::f::{lambda(float)#1}::operator()'
    >>> short_name("void at::native::<unnamed>::max_pool<float>(const T1 *)")
    'at::native::(anonymous namespace)::max_pool'
    >>> short_name("void at::native::_GLOBAL__N__33c8_9_sum_cu_31f8::sum<float, int=4>(float const *)")
    'at::native::(anonymous namespace)::sum'
    >>> short_name("Gpu page fault groups"), short_name("void f")
    ('Gpu page fault groups', 'f')
    >>> short_name("_ZN2at6native6kernelILi4EEEvi"), short_name("nvjet_tst_64x32"), short_name("[CUDA memcpy HtoD]")
    ('at::native::kernel', 'nvjet_tst_64x32', '[CUDA memcpy HtoD]')
    >>> short_name("_ZTSN2at6native3xpu11CopyFunctorIffEE"), short_name("_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE_clES2_E")
    ('at::native::xpu::CopyFunctor', '_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE_clES2_E')
    """
    if name.startswith("["):
        return name
    if name.startswith("_Z"):
        return _unmangled(name) or name
    name = _NAMED_ANONYMOUS.sub(_ANONYMOUS, name)
    if not any(bracket in name for bracket in "<([") and not name.startswith("void "):
        return name
    return _last_word(_bare(_NOTE.sub("", name))) or name


def _bare(name: str) -> str:
    """Return the name without template arguments and parameter lists."""
    parts: list[str] = []
    position = 0
    while found := _OPENING_OR_OPERATOR.search(name, position):
        parts.append(name[position : found.start()])
        position = found.start()
        if name.startswith(_ANONYMOUS, position):
            parts.append(_ANONYMOUS.replace(" ", "\0"))
            position += len(_ANONYMOUS)
        elif name.startswith(_UNNAMED, position):
            parts.append(_ANONYMOUS.replace(" ", "\0") + "::")
            position += len(_UNNAMED)
        elif (
            name[position] == "o"
            and (operator := _OPERATOR.match(name, position))
            and (position == 0 or not _is_word(name[position - 1]))
        ):
            parts.append(operator[0])
            position = operator.end()
        elif name[position] in "{[":
            end = _group_end(name, position)
            parts.append(name[position:end].replace(" ", "\0"))
            position = end
        elif name[position] in "<(":
            is_list = name[position] == "("
            position = _group_end(name, position)
            while is_list and (qualifier := _AFTER_PARAMETERS.match(name, position)):
                position = qualifier.end()
        else:
            parts.append(name[position])
            position += 1
    return "".join([*parts, name[position:]])


def _group_end(name: str, start: int) -> int:
    """Return the index after the bracket that closes the one at ``start``; the end of the name if none does."""
    open_brackets = [_CLOSING[name[start]]]
    # Counted, because a search at every bracket would be quadratic for hostile names.
    waited_for = Counter(open_brackets)
    position = start + 1
    while match := _BRACKET_OR_OPERATOR.search(name, position):
        position, found = match.start(), match[0]
        if found == "operator" and (operator := _OPERATOR.match(name, position)) and not _is_word(name[position - 1]):
            position = operator.end()
            continue
        # The ``>`` of ``->``, or of a comparison in template arguments, closes nothing.
        if found == open_brackets[-1] and not (found == ">" and name[position - 1] == "-"):
            waited_for[open_brackets.pop()] -= 1
            if not open_brackets:
                return position + 1
        elif found in _CLOSING:
            open_brackets.append(_CLOSING[found])
            waited_for[_CLOSING[found]] += 1
        elif found in ")}]" and waited_for[found]:
            # An unclosed ``<`` was a comparison: it ends with the enclosing bracket.
            while (closed := open_brackets.pop()) != found:
                waited_for[closed] -= 1
            waited_for[found] -= 1
            if not open_brackets:
                return position + 1
        position += 1
    return len(name)


def _last_word(bare: str) -> str:
    """Return the name after the return type."""
    words = bare.split()
    if not words:
        return ""
    if len(words) > 1 and words[-2].endswith("operator"):
        return " ".join(words[-2:])
    return words[-1].lstrip("*&").replace("\0", " ")


def _unmangled(name: str) -> str:
    """Return the identifiers at the beginning of an Itanium-mangled name; empty for other names."""
    # SYCL names a kernel by the type of its function, as type information (TS) does.
    begin = len("_ZTS" if name.startswith("_ZTS") else "_Z")
    nested = name.startswith("N", begin)
    position = begin + nested
    parts: list[str] = []
    if name.startswith("St", position):
        parts.append("std")
        position += 2
    while (length := _IDENTIFIER.match(name, position)) is not None:
        start = length.end()
        position = start + int(length[1])
        if position > len(name):
            return ""
        identifier = name[start:position]
        parts.append(_ANONYMOUS if identifier.startswith("_GLOBAL__N_") else identifier)
        if not nested:
            break
    # Next are template arguments (I) or the end (E) of a nested name; the rest would need a real demangler.
    if not parts or (nested and name[position : position + 1] not in ("I", "E")):
        return ""
    return "::".join(parts)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def kind_by_name() -> pl.Expr:
    """`tui.model.names.kind_by_prefix` of the column ``name``, as ``kind``."""
    # Imported here because the explorer shows names before it imports Polars.
    import polars as pl

    name = pl.col("name").cast(pl.String)
    conditions = (pl.when(name.str.starts_with(prefix)).then(pl.lit(kind)) for prefix, kind in KIND_BY_PREFIX.items())
    return pl.coalesce(*conditions, pl.lit("kernel")).alias("kind")
