"""FLOPs and bytes of any op call.

The formulas here are for mixtures of experts, and for memory-bound ops, which read inputs and write outputs once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from types import MappingProxyType
from typing import Any, Final

from tui.analysis.flop_formulas import (
    COMPUTE_MODELS,
    ELEMENT_BYTES,
    NO_LIST,
    WRAPPERS,
    Call,
    Model,
    Shape,
    UnknownWorkError,
    Work,
    broadcast,
    type_bytes,
)
from tui.correlation.graph_replays import EXPERTS

_RANKED_TYPES: Final = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64"),
)
"""Element types in ascending order of PyTorch's type promotion."""


def call_work(call: Call) -> Work:
    """Return FLOPs and bytes of a call.

    Raises:
        UnknownWorkError: There is no formula for the op, or an input of it is not recorded.
    """
    model = find_formula(call.name)
    if model is None:
        raise UnknownWorkError("no formula for this op")
    return model(call)


def _memory_work(call: Call, inputs: Sequence[int], out: Shape, out_type: str, formula: str) -> Work:
    """Return work that reads inputs once and writes one output once."""
    read = sum(call.size_bytes(index) for index in inputs)
    written = math.prod(out) * type_bytes(out_type)
    return Work(0, round(read + written), formula, "")


def _tensors(call: Call, limit: int = 3) -> list[int]:
    indices = [
        index
        for index in range(min(limit, len(call.shapes)))
        if call.has(index) and index < len(call.types) and call.types[index] in ELEMENT_BYTES
    ]
    if not indices:
        raise UnknownWorkError("tensor shapes not recorded")
    return indices


def _promoted(types: Sequence[str]) -> str:
    if any(name not in _RANKED_TYPES for name in types):
        raise UnknownWorkError("the type of the result is not recorded")
    if {"bfloat16", "float16"} <= set(types):
        return "float32"
    return max(types, key=_RANKED_TYPES.index)


def _elementwise(call: Call) -> Work:
    inputs = _tensors(call)
    out = broadcast(*(call.shape(index) for index in inputs))
    bare = call.name.removeprefix("aten::")
    if bare in _COMPARISONS:
        out_type = "bool"
    elif bare.endswith("_"):
        out_type = call.types[0]
    else:
        out_type = _promoted([call.types[index] for index in inputs])
    return _memory_work(call, inputs, out, out_type, "inputs + output")


def _copy(call: Call) -> Work:
    # copy_(self, source): self is only written.
    return _memory_work(call, [1], call.shape(0), call.types[0], "source + copy")


def _fill(call: Call) -> Work:
    return _memory_work(call, [], call.shape(0), call.types[0], "output")


def _softmax(call: Call) -> Work:
    # _softmax(self, dim, half_to_float)
    is_widened = len(call.values) > 2 and call.values[2].lower() == "true"
    return _memory_work(call, [0], call.shape(0), "float32" if is_widened else call.types[0], "input + output")


def _softmax_backward(call: Call) -> Work:
    return _memory_work(call, [0, 1], call.shape(0), call.types[0], "gradient + output + result")


def _reduction(call: Call) -> Work:
    if call.name in ("aten::max", "aten::min") and call.has(1):
        # max(self, other) compares two tensors.
        return _elementwise(call)
    source = call.shape(0)
    axes = {axis % len(source) for axis in _reduced_axes(call) or range(len(source))}
    remaining = tuple(size for dimension, size in enumerate(source) if dimension not in axes)
    work = _memory_work(call, [0], remaining, call.types[0], "input + output")
    if call.name not in ("aten::max", "aten::min") or not _reduced_axes(call):
        return work
    # max(self, dim, keepdim) returns the indices as well.
    return Work(0, work.bytes + round(math.prod(remaining) * type_bytes("int64")), "input + output + indices", "")


def _reduced_axes(call: Call) -> list[int]:
    """Return the axes that a reduction is over; empty: all.

    They are a list, or a number before ``keepdim``: ``sum(self, dtype)`` has another number there.
    """
    index = 2 if call.name in ("aten::norm", "aten::linalg_vector_norm") else 1
    axes, keepdim = (*call.values[index : index + 2], "", "")[:2]
    is_recorded = axes.startswith(("[", "(")) or (axes and keepdim.lower() in ("true", "false"))
    return call.numbers(index) if is_recorded else []


def _layer_norm(call: Call) -> Work:
    # layer_norm(input, normalized_shape, weight, bias, ...)
    return _memory_work(call, [0, 2, 3], call.shape(0), call.types[0], "input + weight + bias + output")


def _batch_norm(call: Call) -> Work:
    # batch_norm(input, weight, bias, running_mean, running_var, ...)
    return _memory_work(call, [0, 1, 2, 3, 4], call.shape(0), call.types[0], "input + weights + statistics + output")


def _group_norm(call: Call) -> Work:
    # group_norm(input, num_groups, weight, bias, ...)
    return _memory_work(call, [0, 2, 3], call.shape(0), call.types[0], "input + weight + bias + output")


def _rms_norm(call: Call) -> Work:
    # rms_norm(input, normalized_shape, weight, eps)
    return _memory_work(call, [0, 2], call.shape(0), call.types[0], "input + weight + output")


def _layer_norm_backward(call: Call) -> Work:
    # native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
    written = call.size_bytes(5) + call.size_bytes(6)
    inputs = _memory_work(call, [0, 1, 3, 4, 5, 6], call.shape(1), call.types[1], "")
    return Work(0, inputs.bytes + round(written), "gradient + input + weights + their gradients", "")


def _embedding(call: Call) -> Work:
    # embedding(weight, indices): one row of the weight for each index
    rows = math.prod(call.shape(1))
    moved = 2 * rows * call.shape(0)[-1] * call.element_bytes(0) + call.size_bytes(1)
    return Work(0, round(moved), "rows + indices + output", "")


def _triton(call: Call) -> Work:
    tensors = _tensors(call, len(call.shapes))
    moved = sum(call.size_bytes(index) for index in tensors)
    if not call.name.startswith("triton_poi_"):
        return Work(0, round(moved), "all recorded arguments, at most", "")
    # It is not recorded whether a pointwise kernel overwrites one of its inputs.
    moved += max(call.size_bytes(index) for index in tensors)
    return Work(0, round(moved), "all recorded arguments, the largest twice, at most", "")


def _batch_norm_backward(call: Call) -> Work:
    # native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, ...);
    # cudnn's begins with input and grad_out
    inputs = _memory_work(call, [0, 1, 2, 5, 6], call.shape(0), call.types[0], "")
    written = 2 * call.size_bytes(2)
    return Work(0, inputs.bytes + round(written), "gradient + input + weight + statistics + their gradients", "")


def _group_norm_backward(call: Call) -> Work:
    # native_group_norm_backward(grad_out, input, mean, rstd, weight, ...)
    inputs = _memory_work(call, [0, 1, 2, 3, 4], call.shape(1), call.types[1], "")
    return Work(0, inputs.bytes + round(2 * call.size_bytes(4)), "gradient + input + weights + their gradients", "")


def _server_norm(call: Call) -> Work:
    # rms_norm(input, weight, epsilon, ...)
    return _memory_work(call, [0, 1], call.shape(0), call.types[0], "input + weight + output")


def _norm_into(call: Call) -> Work:
    """Return the work of server kernels that write into arguments: each is read or written once."""
    return Work(0, round(sum(call.size_bytes(index) for index in _tensors(call, 5))), "all arguments", "")


def _rotary_embedding(call: Call) -> Work:
    # rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox): query and key change in place
    positions = math.prod(call.shape(0))
    moved = call.size_bytes(0) + 2 * (call.size_bytes(1) + call.size_bytes(2))
    moved += positions * call.shape(4)[-1] * call.element_bytes(4)
    return Work(
        0, round(moved), "positions + query and key, read and written, + a row of the cache for each position", ""
    )


def _into_cache(call: Call) -> Work:
    # reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, ...): a row for each slot
    slots = math.prod(call.shape(4))
    written = sum(
        slots * math.prod(call.shape(index)[1:]) * call.element_bytes(cache) for index, cache in ((0, 2), (1, 3))
    )
    read = sum(slots * math.prod(call.shape(index)[1:]) * call.element_bytes(index) for index in (0, 1))
    return Work(0, round(read + written + call.size_bytes(4)), "key + value, read and written, + slots", "")


def _add_and_norm(call: Call) -> Work:
    # fused_add_rms_norm(input, residual, weight, epsilon): both are read and written
    moved = 2 * (call.size_bytes(0) + call.size_bytes(1)) + call.size_bytes(2)
    return Work(0, round(moved), "input and residual, read and written, + weight", "")


def _pooled(call: Call, *, dilation: int | None, ceil_mode: int) -> Shape:
    """Return the shape of the output of ``pool(input, kernel_size, stride, padding, ...)``."""
    source = call.shape(0)
    kernel = call.numbers(1)
    dimensions = len(kernel)
    # Without a stride, it is the kernel size.
    settings = [call.numbers(2) or kernel, call.numbers(3), call.numbers(dilation) if dilation is not None else [1]]
    stride, padding, dilated = (setting * dimensions if len(setting) == 1 else setting for setting in settings)
    if min(len(stride), len(padding), len(dilated), len(source)) < dimensions or min(stride) < 1:
        raise UnknownWorkError("the arguments are not those of a pooling")
    rounds_up = call.is_true(ceil_mode)
    extra = [step - 1 if rounds_up else 0 for step in stride]
    sizes = source[len(source) - dimensions :]
    out = [
        (sizes[d] + 2 * padding[d] - dilated[d] * (kernel[d] - 1) - 1 + extra[d]) // stride[d] + 1
        for d in range(dimensions)
    ]
    if rounds_up:
        # No window starts in the padding after the input.
        out = [out[d] - ((out[d] - 1) * stride[d] >= sizes[d] + padding[d]) for d in range(dimensions)]
    if min(out) < 1:
        raise UnknownWorkError("the output of the pooling is empty")
    return (*source[: len(source) - dimensions], *out)


def _max_pool(call: Call) -> Work:
    # max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
    out = _pooled(call, dilation=4, ceil_mode=5)
    moved = _memory_work(call, [0], out, call.types[0], "").bytes + math.prod(out) * type_bytes("int64")
    return Work(0, round(moved), "input + output + indices", "")


def _max_pool_backward(call: Call) -> Work:
    # max_pool2d_with_indices_backward(grad_output, self, kernel_size, ..., ceil_mode, indices)
    return _memory_work(call, [0, 7], call.shape(1), call.types[1], "gradient + indices + result")


def _average_pool(call: Call) -> Work:
    # avg_pool2d(self, kernel_size, stride, padding, ceil_mode, ...)
    return _memory_work(call, [0], _pooled(call, dilation=None, ceil_mode=4), call.types[0], "input + output")


def _input_gradient(call: Call) -> Work:
    # ..._backward(grad_output, self, ...): only the shape of the input is used
    return _memory_work(call, [0], call.shape(1), call.types[1], "gradient + result")


def _adaptive_pool(call: Call) -> Work:
    # _adaptive_avg_pool2d(self, output_size)
    source, out = call.shape(0), call.numbers(1)
    return _memory_work(call, [0], (*source[: len(source) - len(out)], *out), call.types[0], "input + output")


def _class_loss(call: Call) -> Work:
    # nll_loss_forward(self, target, ...): reads one value of each row, that of its class
    rows = math.prod(call.shape(1))
    return Work(0, round(rows * call.element_bytes(0) + call.size_bytes(1)), "a value for each target + targets", "")


def _class_loss_backward(call: Call) -> Work:
    # nll_loss_backward(grad_output, self, target, ...)
    return _memory_work(call, [2], call.shape(1), call.types[1], "targets + result")


def _loss(call: Call) -> Work:
    # mse_loss(self, target, reduction): 0 keeps all values
    out = broadcast(call.shape(0), call.shape(1)) if call.numbers(2) == [0] else ()
    return _memory_work(call, [0, 1], out, call.types[0], "input + target + output")


def _loss_backward(call: Call) -> Work:
    # mse_loss_backward(grad_output, self, target, reduction)
    return _memory_work(call, [0, 1, 2] if call.has(0) else [1, 2], call.shape(1), call.types[1], "inputs + result")


def _dropout(call: Call) -> Work:
    # native_dropout(input, p, train)
    moved = _memory_work(call, [0], call.shape(0), call.types[0], "").bytes + math.prod(call.shape(0))
    return Work(0, moved, "input + output + mask", "")


def _embedding_backward(call: Call) -> Work:
    # embedding_dense_backward(grad_output, indices, num_weights, ...)
    out = (call.numbers(2)[0], call.shape(0)[-1])
    return _memory_work(call, [0, 1], out, call.types[0], "gradient + indices + result")


def _index_select(call: Call) -> Work:
    # index_select(self, dim, index)
    source, axis = call.shape(0), call.numbers(1)[0] % len(call.shape(0))
    selected = (*source[:axis], math.prod(call.shape(2)), *source[axis + 1 :])
    moved = 2 * math.prod(selected) * call.element_bytes(0) + call.size_bytes(2)
    return Work(0, round(moved), "rows + indices + output", "")


def _gather(call: Call) -> Work:
    # gather(self, dim, index)
    moved = 2 * math.prod(call.shape(2)) * call.element_bytes(0) + call.size_bytes(2)
    return Work(0, round(moved), "values + indices + output", "")


# --- mixtures of experts --------------------------------------------------------------------------------------------


def _fused_experts(call: Call) -> Work:
    """Return the work of vLLM's ``fused_experts(hidden, w1, w2, topk_weights, topk_ids, ...)``."""
    (_, up, _), (_, _, inner) = call.shape(1), call.shape(2)
    rows, tokens = math.prod(call.shape(4)), call.shape(0)[0]
    weights = call.size_bytes(1) + call.size_bytes(2)
    return _both_products(call, rows // max(tokens, 1), up, inner, call.shape(1)[0], weights)


def _both_products(call: Call, chosen: int, up_size: int, inner: int, experts: int, weights: float) -> Work:
    """Return the work of both products of the chosen experts.

    Args:
        call: The call, whose first argument has a row for each token.
        chosen: The number of experts of a token.
        up_size: Columns of the first weight.
        inner: Rows of the second one.
        experts: The number of experts.
        weights: Bytes of the weights of all experts.
    """
    tokens, hidden = call.shape(0)
    rows = tokens * chosen
    flops = 2 * rows * (up_size * hidden + hidden * inner)
    # Few rows read at most as many experts.
    moved = 2 * call.size_bytes(0) + min(experts, rows) / experts * weights
    formula = f"2·T·topk·(H·up + inner·H), T={tokens} topk={chosen} H={hidden} up={up_size} inner={inner}"
    return Work(flops, round(moved), formula, call.types[0])


EXPERT_CALLS: Final = ("SortTokens", "aten::view")
"""The calls that `_experts` reads: experts per token, and views of the weights."""


def _experts(call: Call) -> Work:
    """Return the work of ``moe_forward(hidden, router_logits, ...)``; views of the weights show their sizes."""
    hidden, experts = call.shape(0)[-1], call.shape(1)[-1]
    # SortTokens(scores, experts, ...): both have a column for each chosen expert of a token
    chosen = {inner_call.shape(1)[-1] for inner_call in call.inner if inner_call.name == "SortTokens"}
    if len(chosen) != 1:
        raise UnknownWorkError(f"the number of experts per token is not recorded in {call.name}")
    views = [
        inner_call for inner_call in call.inner if inner_call.name == "aten::view" and len(inner_call.shape(0)) == 3
    ]
    for first, second in permutations((view for view in views if view.shape(0)[0] == experts), 2):
        (_, rows, up), (_, inner, columns) = first.shape(0), second.shape(0)
        # Two weights of four bits are recorded as one byte.
        rows, inner = (size * (2 if first.types[0] == "uint8" else 1) for size in (rows, inner))
        if rows == columns == hidden and up in (inner, 2 * inner):
            return _both_products(call, chosen.pop(), up, inner, experts, first.size_bytes(0) + second.size_bytes(0))
    raise UnknownWorkError(f"the sizes of the experts are not recorded in {call.name}")


# --- lists of tensors -----------------------------------------------------------------------------------------------

_ELEMENTS: Final = {
    **{"double": 8, "long": 8, "float": 4, "int": 4, "c10::BFloat16": 2, "c10::Half": 2, "short": 2},
    **{"unsigned char": 1, "signed char": 1, "bool": 1},
}
"""Bytes of the element types that names of kernels have."""

_LIST_KERNEL: Final = re.compile(
    r"CatArrayBatchedCopy\w*<(?:[^<>]*::OpaqueType<([0-9])u>|([\w: ]+)), |Functor<([\w: ]+), [0-9(]"
)


def _elements(call: Call, index: int) -> int:
    """Return the number of elements of a list of tensors whose shapes are recorded."""
    shapes = call.shapes[index] if index < len(call.shapes) else ()
    is_list = index < len(call.types) and call.types[index] in ("TensorList", "GenericList")
    if not is_list or not isinstance(shapes, tuple) or not shapes:
        raise UnknownWorkError(NO_LIST)
    count = 0
    for shape in shapes:
        if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
            raise UnknownWorkError(NO_LIST)
        count += math.prod(shape)
    return count


def _list_work(call: Call, reads: int, writes: int) -> Work:
    """Return the work on lists of tensors: elements read and written, of the type in the kernel's name."""
    match = _LIST_KERNEL.search(call.kernel or "")
    name = match and (match[2] or match[3])
    size = int(match[1]) if match and match[1] else _ELEMENTS.get(name or "")
    if size is None:
        raise UnknownWorkError(
            "PyTorch does not record the element types of tensor lists, and the kernel name does not contain them"
        )
    read, written = ("read" if reads else ""), ("written" if writes else "")
    formula = f"elements of the lists {' and '.join(filter(None, (read, written)))}, {size} B each by the kernel name"
    return Work(0, size * (reads + writes), formula, "")


def _cat(call: Call) -> Work:
    elements = _elements(call, 0)
    return _list_work(call, elements, elements)


def _foreach(call: Call) -> Work:
    """Return the work of reading each list once and writing a result of the size of the first one."""
    bare = call.name.removeprefix("aten::_foreach_").rstrip("_")
    lists = [index for index, kind in enumerate(call.types) if kind in ("TensorList", "GenericList")]
    written = 0 if bare == "norm" else _elements(call, 0)
    read = [] if bare == "zero" else lists[1:] if bare == "copy" else lists
    return _list_work(call, sum(_elements(call, index) for index in read), written)


def _unscale(call: Call) -> Work:
    # _amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inv_scale)
    elements = _elements(call, 0)
    return _list_work(call, elements, elements)


def _optimizer(call: Call) -> Work:
    # _fused_adamw_(parameters, gradients, averages, ..., state_steps, lr, ...): gradients are only read
    lists = [index for index, kind in enumerate(call.types) if kind in ("TensorList", "GenericList")]
    sizes = [_elements(call, index) for index in lists if call.has(index)]
    if len(lists) < 2 or not call.has(0) or not call.has(1):
        raise UnknownWorkError(NO_LIST)
    # Lists of another size are the numbers of steps.
    parameter_elements = sum(size for size in sizes if size == sizes[0])
    return _list_work(call, parameter_elements, parameter_elements - sizes[1])


_COMPARISONS: Final = frozenset(
    (*("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not"), *("logical_and", "logical_or"))
)
_ELEMENTWISE: Final = (
    *("add", "sub", "mul", "div", "rsub", "pow", "maximum", "minimum", "atan2", "fmod", "remainder", "where"),
    *("neg", "abs", "exp", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "erf", "sigmoid"),
    *("relu", "gelu", "silu", "hardswish", "hardtanh", "leaky_relu", "elu", "mish", "softplus", "clamp", "clamp_min"),
    *("threshold", "square", "sign", "floor", "ceil", "round", "bitwise_not", "bitwise_and", "bitwise_or"),
    *("masked_fill", "addcmul", "addcdiv", "lerp", *_COMPARISONS),
    *("threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward"),
)
_REDUCTIONS: Final = ("sum", "mean", "prod", "amax", "amin", "max", "min", "var", "std", "norm", "linalg_vector_norm")
_FOREACH: Final = (
    *("_foreach_norm", "_foreach_zero_", "_foreach_copy_", "_foreach_maximum_", "_foreach_neg_"),
    *(f"_foreach_{name}_" for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt", "pow")),
    *(f"_foreach_{name}" for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt", "pow")),
)
_LIST_FORMULAS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "aten::cat": _cat,
        "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
        **{f"aten::{name}": _foreach for name in _FOREACH},
        **{f"aten::_fused_{name}_": _optimizer for name in ("adam", "adamw", "sgd", "adagrad")},
    }
)

LISTED: Final = tuple(_LIST_FORMULAS)
"""Ops over lists of tensors, whose element types are in the name of a kernel."""

_MODELS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        **COMPUTE_MODELS,
        "aten::copy_": _copy,
        "aten::fill_": _fill,
        "aten::zero_": _fill,
        "aten::_softmax": _softmax,
        "aten::_log_softmax": _softmax,
        "aten::_softmax_backward_data": _softmax_backward,
        "aten::_log_softmax_backward_data": _softmax_backward,
        "aten::layer_norm": _layer_norm,
        "aten::native_layer_norm": _layer_norm,
        "aten::native_layer_norm_backward": _layer_norm_backward,
        "aten::batch_norm": _batch_norm,
        "aten::native_batch_norm": _batch_norm,
        "aten::cudnn_batch_norm": _batch_norm,
        "aten::miopen_batch_norm": _batch_norm,
        "aten::group_norm": _group_norm,
        "aten::rms_norm": _rms_norm,
        "aten::_fused_rms_norm": _rms_norm,
        "aten::embedding": _embedding,
        **{f"aten::{name}": _elementwise for name in _ELEMENTWISE},
        **{f"aten::{name}_": _elementwise for name in _ELEMENTWISE},
        **{f"aten::{name}": _reduction for name in _REDUCTIONS},
        "aten::native_batch_norm_backward": _batch_norm_backward,
        "aten::cudnn_batch_norm_backward": _batch_norm_backward,
        "aten::miopen_batch_norm_backward": _batch_norm_backward,
        "aten::native_group_norm_backward": _group_norm_backward,
        "aiter::rms_norm": _server_norm,
        "aiter::rmsnorm2d_fwd_with_add_ck": _norm_into,
        **{f"_C::{name}": _norm_into for name in ("rms_norm", "silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul")},
        "_C::fused_add_rms_norm": _add_and_norm,
        "aten::max_pool2d_with_indices": _max_pool,
        "aten::max_pool2d_with_indices_backward": _max_pool_backward,
        "aten::max_pool3d_with_indices": _max_pool,
        "aten::max_pool3d_with_indices_backward": _max_pool_backward,
        "aten::avg_pool2d": _average_pool,
        "aten::avg_pool2d_backward": _input_gradient,
        "aten::_adaptive_avg_pool2d": _adaptive_pool,
        "aten::_adaptive_avg_pool2d_backward": _input_gradient,
        "aten::nll_loss_forward": _class_loss,
        "aten::nll_loss_backward": _class_loss_backward,
        "aten::nll_loss2d_forward": _class_loss,
        "aten::nll_loss2d_backward": _class_loss_backward,
        **{f"aten::{name}": _loss for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
        **{f"aten::{name}_backward": _loss_backward for name in ("mse_loss", "smooth_l1_loss", "huber_loss")},
        "aten::native_dropout": _dropout,
        "aten::embedding_dense_backward": _embedding_backward,
        "aten::index_select": _index_select,
        "aten::gather": _gather,
        "vllm::inplace_fused_experts": _fused_experts,
        "vllm::outplace_fused_experts": _fused_experts,
        **dict.fromkeys(EXPERTS, _experts),
        "_C::rotary_embedding": _rotary_embedding,
        "_C_cache_ops::reshape_and_cache_flash": _into_cache,
        **_LIST_FORMULAS,
    }
)

_TRITON: Final = re.compile(r"triton_(?:poi|red|per|tem|for)_")


def find_formula(name: str) -> Model | None:
    """Return the formula of an op; None if there is none.

    >>> find_formula("aten::mm") is not None, find_formula("aten::unique") is None
    (True, True)
    """
    if _TRITON.match(name):
        return _triton
    return _MODELS.get(name) or WRAPPERS.get(name)


NO_FORMULA: Final = "no formula for this op"
NO_SHAPES: Final = "argument shapes not recorded"
NOT_READABLE: Final = "the recorded arguments are not those of this op"


def recorded_call_work(
    op: str | None,
    shapes: str | None,
    types: str | None,
    values: str | None,
    step: str | None,
    kernel: str | None,
    inner: str | None,
) -> Work | str:
    """Return the work of a call, or why it is unknown.

    Args:
        op: The name of the op.
        shapes: Its ``input_shapes``.
        types: Its ``input_types``.
        values: Its ``input_values``.
        step: `Call.step`.
        kernel: `Call.kernel`.
        inner: `Call.inner`: name, shapes, types and values of each.
    """
    if op is None or find_formula(op) is None:
        return NO_FORMULA
    if shapes is None:
        return NO_LIST if op in _LIST_FORMULAS else NO_SHAPES
    try:
        calls = tuple(Call(name, *_arguments(*texts)) for name, *texts in _list(inner))
        work = call_work(Call(op, *_arguments(shapes, types, values), step, kernel, calls))
    except UnknownWorkError as error:
        return str(error)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        # A dataset may have any text here, and unrealistic numbers.
        return NOT_READABLE
    # Sizes come from the file: ignore work that no GPU can do.
    return work if 0 <= work.flops < 1 << 62 and 0 < work.bytes < 1 << 62 else NOT_READABLE


def _arguments(
    shapes: str | None, types: str | None, values: str | None
) -> tuple[tuple[object, ...], tuple[str, ...], tuple[str, ...]]:
    return _tuples(_list(shapes)), tuple(map(str, _list(types))), tuple(map(str, _list(values)))


def _list(text: str | None) -> list[Any]:
    return list(json.loads(text)) if text else []


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
