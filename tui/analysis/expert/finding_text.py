"""Formats values, names and filters for the texts of findings."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui import fmt
from tui.model.names import short_name
from tui.text_width import shorten_symbol

if TYPE_CHECKING:
    from collections.abc import Iterable


DIGITS: Final = 3
"""Significant digits of a figure in a sentence."""
NAME_CELLS: Final = 60
"""The maximum width of a name in a sentence."""
NAMES_IN_FILTER: Final = 10
_GENERIC_KERNELS: Final = re.compile(r"\bcutlass::(?:device_kernel|Kernel2?)$")
"""Names of kernels whose template argument says what they compute."""


def duration(value_ns: float) -> str:
    """Format a duration with three significant digits.

    >>> duration(132_070_000), duration(2_130_000_000), duration(80_000_000), duration(1_205_500), duration(31)
    ('132 ms', '2.13 s', '80 ms', '1.21 ms', '31 ns')
    >>> duration(0.00000001)  # the rest of a subtraction
    '<0.0001 ns'
    """
    return _three(fmt.duration(value_ns))


def percent(value: float) -> str:
    """Format a percentage of 0 to 100; only exactly 0 and 100 are written as 0% and 100%.

    >>> percent(37.69), percent(4.06), percent(0.5), percent(0.0082), percent(99.97), percent(100), percent(0)
    ('38%', '4.1%', '0.5%', '0.01%', '>99.9%', '100%', '0%')
    >>> percent(0.0003)
    '<0.01%'
    """
    if value in (0, 100):
        return f"{value:.0f}%"
    if value < 0.005:
        return "<0.01%"
    if 99.9 < value < 100:
        return ">99.9%"
    digits = 0 if 10 <= value < 99.5 or value > 100 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") + "%" if digits else f"{value:,.0f}%"


def size(value_bytes: float) -> str:
    """Format a size with three significant digits.

    >>> size(38_535), size(16_384)
    ('37.6 KiB', '16 KiB')
    """
    return _three(fmt.size(value_bytes))


def rate(bytes_per_second: float) -> str:
    """Format a throughput with three significant digits.

    >>> rate(187.33 * 2**30)
    '187 GiB/s'
    """
    return _three(fmt.rate(bytes_per_second))


def _three(text: str) -> str:
    """Round a number with its unit to three significant digits; one too small for digits (``<0.0001``) stays."""
    number, _, unit = text.partition(" ")
    if number.startswith(("<", "~")):
        return text
    value = float(number.replace(",", ""))
    digits = max(0, DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0
    written = f"{value:,.{digits}f}"
    return f"{written.rstrip('0').rstrip('.') if '.' in written else written} {unit}"


_TERMS: Final = {
    "AMD": {
        r"CUDA graph": "HIP graph",
        r"cudaMallocHost|cudaHostAlloc": "hipHostMalloc",
        r"cuda(?=[A-Z])": "hip",
        r"CUDA_LAUNCH_BLOCKING": "HIP_LAUNCH_BLOCKING",
        r" CUDA_MODULE_LOADING=EAGER loads at the start\.": "",
        r"CUDA(?= start)": "HIP",
        r"NVTX": "roctx",
        r"nvidia-smi topo -m": "rocm-smi --showtopo",
        r"nvidia-smi -q": "rocm-smi",
        r"-Xptxas -v, ncu": "-Rpass-analysis=kernel-resource-usage, rocprof-compute",
        r"(?<=estimated )SM(?= )|(?<=Estimated )SM(?= )|\bSM(?= time)|\bSM(?=s\b)": "CU",
    },
    "Huawei": {
        r"\ba CUDA graph": "an NPU graph",
        r"CUDA graph": "NPU graph",
        r"CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
        r"NVTX ranges": "mstx ranges",
        r'"nccl"': '"hccl"',
        r"NCCL, RCCL or NVSHMEM kernels": "HCCL ranges",
        r"\bNCCL kernels": "HCCL collectives",
        r"\bNCCL\b": "HCCL",
        r"\bSMs\b": "cores",
    },
    "Intel": {r"CUDA graph": "SYCL graph", r"NVTX ranges": "ITT ranges", r"\bSMs\b": "Xe cores"},
}
"""The terms of other manufacturers for NVIDIA's."""
_GENERAL_TERMS: Final = {
    r"CUDA graph": "graph",
    r"CUDA(?= start)": "the runtime",
    r", and unset CUDA_LAUNCH_BLOCKING if it is set": "",
    r" CUDA_MODULE_LOADING=EAGER loads at the start\.": "",
    r": PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True": "",
    r", cudaHostAlloc": "",
    r" \(nvidia-smi topo -m\)| with nvidia-smi -q| \(-Xptxas -v, ncu\)": "",
    r": cudaMallocAsync": "",
    r"NVTX ranges": "ranges",
    r"\bSMs\b": "cores",
}
"""The terms where a manufacturer other than NVIDIA and AMD has none of its own."""


def use_vendor_terms(vendor: str, text: str) -> str:
    """Replace NVIDIA's terms in a sentence by those of a manufacturer, except in quoted names.

    >>> use_vendor_terms("AMD", "`cudaMalloc` waits: replay a CUDA graph, use cudaMallocAsync.")
    '`cudaMalloc` waits: replay a HIP graph, use hipMallocAsync.'
    >>> use_vendor_terms("NVIDIA", "Replay a CUDA graph.")
    'Replay a CUDA graph.'
    >>> use_vendor_terms("Cambricon", "Remove waits, and unset CUDA_LAUNCH_BLOCKING if it is set.")
    'Remove waits.'
    >>> use_vendor_terms("Huawei", "DistributedDataParallel runs without NCCL kernels.")
    'DistributedDataParallel runs without HCCL collectives.'
    """
    segments = text.split("`")
    general_terms = {} if vendor in ("NVIDIA", "AMD", "") else _GENERAL_TERMS
    for pattern, term in (*_TERMS.get(vendor, {}).items(), *general_terms.items()):
        segments[::2] = [re.sub(pattern, term, part) for part in segments[::2]]
    return "`".join(segments)


def share_text(part_ns: float, total_ns: float) -> str:
    """Format a share with the part and the whole in one unit.

    >>> share_text(80_010_000, 212_280_000)
    '38% (80 of 212 ms)'
    """
    return f"{percent(100 * part_ns / total_ns if total_ns else 0)} ({part_of_total_text(part_ns, total_ns)})"


def part_of_total_text(part_ns: float, total_ns: float) -> str:
    """Format a part and its whole in one unit.

    >>> part_of_total_text(80_010_000, 212_280_000), part_of_total_text(1_500, 2_000_000)
    ('80 of 212 ms', '1.5 µs of 2 ms')
    """
    part_text, total_text = duration(part_ns), duration(total_ns)
    number, _, unit = part_text.partition(" ")
    return f"{number} of {total_text}" if total_text.endswith(f" {unit}") else f"{part_text} of {total_text}"


def label(name: object) -> str:
    """Format a name for a sentence: quoted and shortened, without uninformative namespaces.

    >>> label("void f<int>(float*)")
    '`f`'
    >>> label("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>(long)")
    '`GammaBetaBackwardCUDAKernelTemplate`'
    >>> label("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>(Params)")
    '`cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>`'
    """
    short = short_name(str(name))
    return (
        f"`{shorten_symbol(str(name).removeprefix('void ') if _GENERIC_KERNELS.search(short) else short, NAME_CELLS)}`"
    )


def gpu_label(device: int | None, gpu_count: int) -> str:
    """Return the label of a GPU; with its number if there are several."""
    return "the GPU" if gpu_count == 1 else "a GPU without a number" if device is None else f"GPU {device}"


def name_filter(names: Iterable[Any], column: str = "name") -> str:
    r"""Return a filter that keeps the rows with these names.

    >>> print(name_filter(["f<1>", 'a "b"']))
    name="f<1>" | name="a \"b\""
    """
    distinct = list(dict.fromkeys(str(name) for name in names))[:NAMES_IN_FILTER]
    return " | ".join(f"{column}={quote_for_filter(name)}" for name in distinct)


def most_frequent_name(by_name: pl.DataFrame, count: str) -> str:
    """Return the most frequent name as the end of a sentence; empty if several are equally frequent.

    Args:
        by_name: With ``name``, the most frequent first.
        count: The column with the number of occurrences.
    """
    first, *others = by_name[count].head(2)
    return "" if first in others else f"; most often {label(by_name['name'][0])}"


def evidence_by_name(rows: pl.DataFrame, *columns: str, view: str = "kernels") -> tuple[pl.DataFrame, str, str]:
    """Return evidence, view and filter of a finding about rows by name.

    Args:
        rows: With ``name``, the most important first; a name can be in several rows.
        *columns: The columns to show in addition to the name; all if empty.
        view: The view that shows the rows of the finding.
    """
    shown = rows.select("name", *columns) if columns else rows
    return (
        shown.head(NAMES_IN_FILTER),
        view,
        name_filter(rows["name"].unique(maintain_order=True).head(NAMES_IN_FILTER)),
    )


def select_iterations_advice(first: int, last: int, *, proposed: bool = False) -> str:
    """Return how to select a range of iterations, on the command line and within the program.

    Args:
        first: Number of the first.
        last: Number of the last.
        proposed: Whether they are the steady range that view Iterations proposes.

    >>> select_iterations_advice(1, 5), select_iterations_advice(1, 3, proposed=True)
    ('--iterations 1:5, or :aggregate 1:5', '--iterations 1:3, or p in Iterations')
    """
    return f"--iterations {first}:{last}, or {'p in Iterations' if proposed else f':aggregate {first}:{last}'}"


def quote_for_filter(text: str) -> str:
    """Quote a text for the filter language."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    unseen = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
    return f"\\u{{{ord(character):x}}}" if unseen else character


def largest_rows(rows: pl.DataFrame, column: str, *columns: str) -> pl.DataFrame:
    """Return the rows with the largest values of a column, as evidence."""
    min_value = rows[column].top_k(NAMES_IN_FILTER).min()
    candidates = rows.filter(pl.col(column) >= min_value) if min_value is not None else rows
    return (
        candidates.sort(column, descending=True, nulls_last=True, maintain_order=True)
        .head(NAMES_IN_FILTER)
        .select(columns)
    )


def totals_by_name(rows: pl.DataFrame, count: str, *sums: str) -> pl.DataFrame:
    """Group rows by name: their number (a column called ``count``), sums of some columns, and the first line."""
    return rows.group_by("name").agg(pl.len().cast(pl.Int64).alias(count), pl.col(sums).sum(), pl.col("line").min())


def sort_by_largest(by_name: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Sort rows by some columns, the largest first, then by name."""
    return by_name.sort(*columns, "name", descending=[*(True for _ in columns), False], nulls_last=True)


def int_or_zero(value: Any) -> int:
    """Return a sum or extreme of an integer column; 0 if the column has none.

    >>> import polars as pl
    >>> int_or_zero(pl.Series([1, None]).sum()), int_or_zero(pl.Series([], dtype=pl.Int64).max())
    (1, 0)
    """
    return 0 if value is None else int(value)


def float_or_zero(value: Any) -> float:
    """Return a value as a float; 0 if it is None."""
    return 0.0 if value is None else float(value)


def known_sum(column: pl.Series) -> int:
    """Return the sum of the known values of a column."""
    return int_or_zero(column.sum())


TENSORBOARD: Final = "https://github.com/pytorch/kineto/blob/main/tb_plugin/torch_tb_profiler/profiler/data.py"
NSIGHT: Final = "https://docs.nvidia.com/nsight-systems/AnalysisGuide/index.html"
ROOT_CAUSES: Final = "https://github.com/GindaChen/nsys-ai"
HTA: Final = "https://github.com/facebookresearch/HolisticTraceAnalysis"
ADVISOR: Final = "https://github.com/Ascend/msprof-analyze"
SAGEMAKER: Final = "https://github.com/awslabs/sagemaker-debugger-rulesconfig"
VISUAL_PROFILER: Final = "https://docs.nvidia.com/cuda/profiler-users-guide/index.html"
TRACELENS: Final = "https://github.com/AMD-AGI/TraceLens"
RATELPROF: Final = "https://github.com/Kassouley/RATELProf"
NSIGHT_COMPUTE: Final = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html"
TAIL: Final = "https://developer.nvidia.com/blog/cuda-pro-tip-minimize-the-tail-effect/"
DLPROF: Final = "https://docs.nvidia.com/deeplearning/frameworks/dlprof-user-guide/"
LAYOUT: Final = "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html"
