"""Optimizations that a program already uses, so that no advice repeats them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert.finding_text import known_sum

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

GRAPH_LAUNCHES: Final = r"(?i)graphlaunch"
LAUNCH_CALLS: Final = (
    r"(?i)launch(?:kernel|cooperative|grid|_?bykernel)|modulelaunch|cudaLaunch(?:_|$|Kernel)|^\[kernel launch\]$"
)
"""Calls that launch single kernels; the last is the name that the loader of XLA's traces uses."""
_MIN_SHARE: Final = 0.5
"""A technique is in use if it covers this share of the work or more."""
_COMPILED_OPS: Final = r"(?i)torch-compiled region|compiledfunction|call compiledfxgraph|torchdynamo|xla_?launch"
_COMPILED_KERNELS: Final = r"^triton_(?:poi|red|per|tem|for|unk|mm)_|^fusion(?:_|$)|^loop_\w*fusion|^input_\w*fusion"
_PRODUCTS: Final = r"(?i)(?:mm|conv\w*|linear|matmul|attention)$"
_HALF: Final = r"(?i)\b(?:c10::)?(?:half|bfloat16|float16|bf16|fp16)\b"
_FUSED_OPTIMIZER: Final = r"(?i)fused_?(?:adam|sgd|adagrad|lamb)|FusedOptimizer|FusedAdam"
_FOREACH: Final = r"(?i)multi_tensor_apply|_foreach"
_CHANNELS_LAST: Final = r"(?i)channels_last"
_WORKERS: Final = r"_MultiProcessingDataLoaderIter"
_NO_WORKERS: Final = r"_SingleProcessDataLoaderIter"
_SERVERS: Final = r"(?i)\b(?:vllm|sglang|sgl_kernel)::"


class InUse:
    """The optimizations that a session already uses.

    Args:
        case: The session.
    """

    def __init__(self, case: Case) -> None:
        self._case = case

    @cached_property
    def cuda_graphs(self) -> bool:
        """Whether most kernels are launched by CUDA graphs."""
        case = self._case
        if case.kind_time_ns("graph") > _MIN_SHARE * case.kernel_ns:
            return True
        calls = case.profile["api_calls"]
        names = case.names("api_calls", GRAPH_LAUNCHES)
        if names.is_empty():
            return False
        replays = calls.filter(pl.col("name").is_in(names.implode())).select("correlation").drop_nulls().unique()
        work = case.profile["activities"].filter(pl.col("kind").is_in(["kernel", "graph"]))
        by_graph = work.join(replays, on="correlation", how="semi")
        return bool(work.height) and by_graph.height > _MIN_SHARE * work.height

    @property
    def except_graphs(self) -> str:
        """The addition to advice on CUDA graphs if it is not recorded how kernels were launched."""
        case = self._case
        if not case.api.height:
            return " (unless it already is one: API calls are not recorded)"
        recorded = case.api_named(LAUNCH_CALLS).height or case.api_named(GRAPH_LAUNCHES).height
        return "" if recorded else " (unless it already is one: launches are not recorded)"

    @cached_property
    def compiler(self) -> bool:
        """Whether a compiler (torch.compile, XLA) made kernels or regions of the program."""
        case = self._case
        regions = any(case.names(frame, _COMPILED_OPS).len() for frame in ("ops", "ranges"))
        return regions or self._has_kernels(_COMPILED_KERNELS)

    @cached_property
    def inference_server(self) -> bool:
        """Whether ops or kernels of an inference server ran."""
        return self._case.names("ops", _SERVERS).len() > 0 or self._has_kernels(_SERVERS)

    @cached_property
    def half_precision(self) -> bool:
        """Whether most ops on tensors that can use tensor cores take half-precision inputs."""
        ops = self._case.profile["ops"].select("name", "dtype").drop_nulls("dtype")
        products = ops.filter(pl.col("name").cast(pl.String).str.contains(_PRODUCTS))
        half = products.filter(pl.col("dtype").cast(pl.String).str.contains(_HALF))
        return bool(products.height) and half.height > _MIN_SHARE * products.height

    @cached_property
    def fused_optimizer(self) -> bool:
        """Whether the optimizer updates all parameters in a few launches."""
        return self._has_kernels(_FUSED_OPTIMIZER)

    @cached_property
    def foreach_optimizer(self) -> bool:
        """Whether kernels work on lists of tensors."""
        return self._has_kernels(_FOREACH)

    @cached_property
    def channels_last(self) -> bool:
        """Whether kernels of the framework compute in the channels_last layout."""
        return self._has_kernels(_CHANNELS_LAST)

    @cached_property
    def pinned_memory(self) -> bool:
        """Whether most of the time of host-device copies is of pinned memory, as far as recorded."""
        copies = self._case.copies.filter(pl.col("copy_kind").cast(pl.String).is_in(["HtoD", "DtoH"]))
        memory = pl.concat_str(
            [pl.col(column).cast(pl.String).fill_null("") for column in ("src_memory", "dst_memory")]
        ).str.to_lowercase()
        pinned = copies.filter(memory.str.contains("pinned"))
        return bool(pinned.height) and known_sum(pinned["duration_ns"]) > _MIN_SHARE * known_sum(copies["duration_ns"])

    @cached_property
    def loader_workers(self) -> bool | None:
        """Whether the data loader has worker processes; None if the profile does not record it."""
        for pattern, answer in ((_WORKERS, True), (_NO_WORKERS, False)):
            if any(self._case.names(frame, pattern).len() for frame in ("ops", "ranges")):
                return answer
        return None

    def _has_kernels(self, pattern: str) -> bool:
        return self._case.names("activities", pattern).len() > 0


def fewer_launches(case: Case) -> str:
    """Return advice for slow launches, without what the program already does."""
    in_use = case.in_use
    options = []
    if not in_use.cuda_graphs:
        options.append(f"replay the step as a CUDA graph{in_use.except_graphs}")
    if not in_use.compiler:
        options.append(f"compile it ({case.compiler})" if case.compiler else "fuse kernels")
    if not (in_use.fused_optimizer or in_use.cuda_graphs) and in_use.foreach_optimizer:
        options.append("use a fused optimizer (fused=True)")
    options.append("use larger batches" if case.has_batches else "do more work per launch")
    advice = (
        "To reduce launch overhead, "
        + (", ".join(options[:-1]) + f", or {options[-1]}" if len(options) > 1 else options[0])
        + "."
    )
    done = already("CUDA graphs" * in_use.cuda_graphs, "a compiler" * in_use.compiler)
    return f"{advice} {done}".strip()


def larger_batch(case: Case) -> str:
    """Return how to give a GPU more work, in parentheses; empty where there may be no batches."""
    return " (larger batch)" if case.has_batches else ""


def larger_kernels(case: Case, *, are_launches_late: bool = True) -> str:
    """Return advice for short kernels, without what the program already does.

    Args:
        case: The session.
        are_launches_late: Whether the GPU may wait for their launches, which CUDA graphs shorten.
    """
    in_use = case.in_use
    options = [f"give each kernel more work{larger_batch(case)}"]
    if not in_use.compiler:
        options.append(f"fuse chains of kernels ({case.compiler})" if case.compiler else "fuse chains of kernels")
    if are_launches_late and not in_use.cuda_graphs:
        options.append(f"replay the step as a CUDA graph{in_use.except_graphs}")
    text = ", or ".join(options)
    done = already("CUDA graphs" * in_use.cuda_graphs, "a compiler" * in_use.compiler)
    return f"{text[0].upper()}{text[1:]}. {done}".strip()


def already(*used: str) -> str:
    """Return a sentence about what is in use already; empty if nothing is."""
    in_use_names = [name for name in used if name]
    if not in_use_names:
        return ""
    names = " and ".join(in_use_names)
    return (
        f"{names[0].upper()}{names[1:]} "
        f"{'are' if in_use_names[0].endswith('s') or len(in_use_names) > 1 else 'is'} already in use."
    )
