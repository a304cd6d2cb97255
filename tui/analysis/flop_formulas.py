"""FLOPs and bytes of products, convolutions and attention, by formulas over the recorded shapes and types of a call."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tui.correlation.iteration_ranges import attention_sums

Shape = tuple[int, ...]

_NUMBERS: Final = re.compile(r"[\[(]?(?:-?[0-9]{1,18}(?![0-9])|[, ])*[\])]?")
"""A list of whole numbers."""

ELEMENT_BYTES: Final[Mapping[str, float]] = MappingProxyType(
    {
        **dict.fromkeys(("float64", "int64", "complex64"), 8),
        **dict.fromkeys(("float32", "int32", "complex32"), 4),
        **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
        **dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"), 1),
        **dict.fromkeys(("float8_e5m2fnuz", "Float8_e8m0fnu", "Float4_e2m1fn_x2"), 1),
        "complex128": 16,
    }
)
"""Bytes of one element of a type."""

_PACKED: Final = "Float4_e2m1fn_x2"
"""An element with two numbers of four bits."""

_SCALAR_TYPES: Final = MappingProxyType(
    {
        **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64"},
        **{11: "bool", 15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn"},
    }
)
"""PyTorch's numbers of element types (``c10/core/ScalarType.h``)."""


NO_LIST: Final = "PyTorch does not record the element types of tensor lists, or the shapes of long lists"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an op as the profile records it; the lists run over its arguments."""

    name: str
    shapes: tuple[object, ...]
    """The shape of each argument; () if it is no tensor, a tuple of shapes for a list of tensors."""
    types: tuple[str, ...]
    """The element type of each argument; ``Scalar`` or empty if it is no tensor."""
    values: tuple[str, ...]
    """The value of each argument as text if it is a number or a list of numbers, else empty."""
    step: str | None = None
    """The annotation of the server's step around it, with the lengths of the requests."""
    kernel: str | None = None
    """A kernel launched by an op over lists of tensors; its name contains the element type."""
    inner: tuple[Call, ...] = ()
    """The calls inside an op over experts that record its sizes: `EXPERT_CALLS`."""

    def shape(self, index: int) -> Shape:
        """Return the shape of a tensor argument.

        Raises:
            UnknownWorkError: The argument is not recorded as a tensor.
        """
        dimensions = self.shapes[index] if index < len(self.shapes) else None
        if index < len(self.types) and self.types[index] == "TensorList":
            raise UnknownWorkError(NO_LIST)
        if (
            not isinstance(dimensions, tuple)
            or not dimensions
            or not all(type(size) is int and size >= 0 for size in dimensions)
        ):
            raise UnknownWorkError(f"the shape of argument {index + 1} is not recorded")
        return dimensions

    def has(self, index: int) -> bool:
        """Return whether an argument is recorded as a tensor."""
        return index < len(self.shapes) and bool(self.shapes[index])

    def element_bytes(self, index: int) -> float:
        """Return bytes of one element of a tensor argument.

        Raises:
            UnknownWorkError: Its type is not recorded, or has no known size.
        """
        return type_bytes(self.types[index] if index < len(self.types) else "")

    def size_bytes(self, index: int) -> float:
        """Return bytes of a tensor argument; 0 if there is none."""
        return math.prod(self.shape(index)) * self.element_bytes(index) if self.has(index) else 0

    def value(self, index: int) -> str:
        """Return the recorded value of an argument.

        Raises:
            UnknownWorkError: It is not recorded.
        """
        text = self.values[index] if index < len(self.values) else ""
        if not text:
            raise UnknownWorkError(f"the value of argument {index + 1} is not recorded")
        return text

    def numbers(self, index: int) -> list[int]:
        """Return an argument that is a list of integers, as ``[2, 2]``.

        Raises:
            UnknownWorkError: It is not recorded as one.
        """
        text = self.value(index)
        if not _NUMBERS.fullmatch(text):
            raise UnknownWorkError(f"the value of argument {index + 1} is {text[:40]!r}, not a list of numbers")
        return [int(number) for number in re.findall(r"-?[0-9]+", text)]

    def is_true(self, index: int) -> bool:
        """Return an argument that is a boolean.

        Raises:
            UnknownWorkError: It is not recorded as one.
        """
        text = self.value(index).lower()
        if text not in ("true", "false"):
            raise UnknownWorkError(f"the value of argument {index + 1} is {text[:40]!r}, not True or False")
        return text == "true"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a call: FLOPs and bytes."""

    flops: int
    bytes: int
    formula: str
    """The formula and its inputs, for people."""
    compute_type: str
    """Element type whose peak counts; empty for work that is bound by memory alone."""


class UnknownWorkError(Exception):
    """An input of an op's formula is not recorded; the message names it."""


Model = Callable[[Call], Work]


def type_bytes(name: str) -> float:
    """Return the bytes of one element of a type.

    Raises:
        UnknownWorkError: The type is not recorded, or has no known size.
    """
    if name not in ELEMENT_BYTES:
        raise UnknownWorkError(f"the element type is {name!r}" if name else "the element type is not recorded")
    return ELEMENT_BYTES[name]


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that tensors of these shapes broadcast to.

    >>> broadcast((4, 1, 3), (5, 1))
    (4, 5, 3)
    """
    length = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (length - len(shape)) + shape for shape in shapes]
    result = tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))
    if any(size not in (1, whole) for shape in padded for size, whole in zip(shape, result, strict=True)):
        raise UnknownWorkError("the shapes of the tensors do not match")
    return result


# --- matrix products ------------------------------------------------------------------------------------------------


def _product(
    call: Call, a: int, b: int, *, batch: int, m: int, n: int, k: int, bias: int | None = None, out_type: str = ""
) -> Work:
    """Return the work of a batch of M x K by K x N products, plus a bias if there is one."""
    bias = bias if bias is not None and call.has(bias) else None
    k *= 2 if call.types[a] == _PACKED else 1
    flops = 2 * batch * m * n * k + (batch * m * n if bias is not None else 0)
    out = type_bytes(out_type) if out_type else call.element_bytes(a)
    moved = call.size_bytes(a) + call.size_bytes(b) + batch * m * n * out
    if bias is not None:
        moved += call.size_bytes(bias)
    formula = f"2·B·M·N·K{' + B·M·N' if bias is not None else ''}, B={batch} M={m} N={n} K={k}"
    if call.types[a].startswith("complex"):
        # A complex multiplication and addition take eight operations of real numbers.
        flops, formula = 4 * flops, f"4 × ({formula}), complex numbers"
    return Work(flops, round(moved), formula, call.types[a])


def _matched(inner: int, second: int) -> None:
    if inner != second:
        raise UnknownWorkError(f"inner sizes {inner} and {second} of the product differ")


def _matrices(call: Call, a: int, b: int, *, bias: int | None = None, out_type: str = "") -> Work:
    left, right = call.shape(a), call.shape(b)
    if len(left) != 2 or len(right) != 2:
        raise UnknownWorkError("the operands are not two matrices")
    _matched(left[1], right[0])
    return _product(call, a, b, batch=1, m=left[0], n=right[1], k=left[1], bias=bias, out_type=out_type)


def _mm(call: Call) -> Work:
    return _matrices(call, 0, 1)


def _int_mm(call: Call) -> Work:
    return _matrices(call, 0, 1, out_type="int32")


def _addmm(call: Call) -> Work:
    return _matrices(call, 1, 2, bias=0)


def _scaled_mm(call: Call) -> Work:
    # _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
    return _matrices(call, 0, 1, bias=4, out_type=_scalar_type(call, 6))


def _scalar_type(call: Call, index: int) -> str:
    """Return the element type that an argument asks for; empty if it is not recorded."""
    text = call.values[index] if len(call.values) > index else ""
    return _SCALAR_TYPES.get(int(text), "") if re.fullmatch(r"[0-9]{1,3}", text) else ""


def _tensorrt_scaled_mm(call: Call) -> Work:
    # cublas_scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out_dtype)
    return _matrices(call, 0, 1, bias=4, out_type=_scalar_type(call, 5))


def _vllm_scaled_mm(call: Call) -> Work:
    # cutlass_scaled_mm(out, a, b, a_scales, b_scales, bias)
    return _matrices(call, 1, 2, bias=5, out_type=call.types[0])


def _batched(call: Call, a: int, b: int, bias: int | None = None) -> Work:
    left, right = call.shape(a), call.shape(b)
    if len(left) != 3 or len(right) != 3:
        raise UnknownWorkError("the operands are not batches of matrices")
    if left[0] != right[0]:
        raise UnknownWorkError(f"batches of {left[0]} and {right[0]} matrices")
    _matched(left[2], right[1])
    return _product(call, a, b, batch=left[0], m=left[1], n=right[2], k=left[2], bias=bias)


def _bmm(call: Call) -> Work:
    return _batched(call, 0, 1)


def _baddbmm(call: Call) -> Work:
    return _batched(call, 1, 2, bias=0)


def _linear(call: Call) -> Work:
    """Return the work of ``x @ weight.T + bias`` with an N x K weight."""
    left, weight = call.shape(0), call.shape(1)
    if len(weight) != 2:
        raise UnknownWorkError("the weight is not a matrix")
    _matched(left[-1], weight[1])
    return _product(call, 0, 1, batch=1, m=math.prod(left[:-1]), n=weight[0], k=weight[1], bias=2)


def _matmul(call: Call) -> Work:
    left, right = call.shape(0), call.shape(1)
    rows, inner = (left[-2], left[-1]) if len(left) > 1 else (1, left[0])
    right_rows, columns = (right[-2], right[-1]) if len(right) > 1 else (right[0], 1)
    _matched(inner, right_rows)
    # One matrix for the whole batch is read once.
    batch = math.prod(broadcast(left[:-2], right[:-2]))
    return _product(call, 0, 1, batch=batch, m=rows, n=columns, k=inner)


def _matrix_vector(call: Call) -> Work:
    matrix = call.shape(0)
    _matched(matrix[-1], call.shape(1)[0])
    return _product(call, 0, 1, batch=1, m=matrix[0], n=1, k=matrix[1])


def _add_matrix_vector(call: Call) -> Work:
    # addmv(self, mat, vec)
    matrix = call.shape(1)
    _matched(matrix[-1], call.shape(2)[0])
    return _product(call, 1, 2, batch=1, m=matrix[0], n=1, k=matrix[1], bias=0)


# --- convolutions ---------------------------------------------------------------------------------------------------


def _per_dimension(numbers: Sequence[int], dimensions: int, label: str) -> list[int]:
    if len(numbers) == 1:
        return list(numbers) * dimensions
    if len(numbers) != dimensions:
        raise UnknownWorkError(f"{len(numbers)} values of {label} for {dimensions} dimensions")
    return list(numbers)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """Sizes of a convolution."""

    flops: int
    elements_in: int
    elements_weight: int
    elements_out: int
    formula: str


def _convolution_sizes(
    source: Shape,
    weight: Shape,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> _Convolution:
    dimensions = len(weight) - 2
    if dimensions < 1 or len(source) != len(weight) or groups < 1:
        raise UnknownWorkError("the shapes are not those of a convolution")
    stride = _per_dimension(stride, dimensions, "stride")
    padding = _per_dimension(padding, dimensions, "padding")
    dilation = _per_dimension(dilation, dimensions, "dilation")
    batch, spatial, kernel = source[0], source[2:], weight[2:]
    if transposed:
        extra = _per_dimension(output_padding, dimensions, "output padding")
        out_channels = weight[1] * groups
        out = [
            (spatial[d] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + extra[d] + 1
            for d in range(dimensions)
        ]
        flops = 2 * batch * source[1] * math.prod(spatial) * weight[1] * math.prod(kernel)
        formula = f"2·N·Cin·in·(Cout/g)·k, N={batch} Cin={source[1]} in={spatial} Cout={out_channels} k={kernel}"
    else:
        if min(stride) < 1:
            raise UnknownWorkError("a stride below 1")
        out_channels = weight[0]
        out = [
            (spatial[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
            for d in range(dimensions)
        ]
        flops = 2 * batch * out_channels * math.prod(out) * weight[1] * math.prod(kernel)
        formula = f"2·N·Cout·out·(Cin/g)·k, N={batch} Cout={out_channels} out={tuple(out)} Cin={source[1]} k={kernel}"
    if min(out) < 1:
        raise UnknownWorkError("the output of the convolution is empty")
    return _Convolution(
        flops,
        math.prod(source),
        math.prod(weight),
        batch * out_channels * math.prod(out),
        f"{formula} g={groups}" if groups > 1 else formula,
    )


def _forward(call: Call, sizes: _Convolution) -> Work:
    moved = (
        sizes.elements_in * call.element_bytes(0)
        + sizes.elements_weight * call.element_bytes(1)
        + sizes.elements_out * call.element_bytes(0)
    )
    return Work(sizes.flops, round(moved), sizes.formula, call.types[0])


def _convolution(call: Call) -> Work:
    # convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return _forward(
        call,
        _convolution_sizes(
            call.shape(0),
            call.shape(1),
            stride=call.numbers(3),
            padding=call.numbers(4),
            dilation=call.numbers(5),
            transposed=call.is_true(6),
            output_padding=call.numbers(7),
            groups=call.numbers(8)[0],
        ),
    )


def _vendor_convolution(call: Call) -> Work:
    # cudnn_convolution(input, weight, padding, stride, dilation, groups, ...); miopen_convolution has a bias before
    first = 3 if call.name.startswith("aten::miopen") else 2
    return _not_transposed(call, padding=first, stride=first + 1, dilation=first + 2, groups=first + 3)


def _transposed_convolution(call: Call) -> Work:
    # conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    sizes = _convolution_sizes(
        call.shape(0),
        call.shape(1),
        stride=call.numbers(3),
        padding=call.numbers(4),
        dilation=call.numbers(7),
        transposed=True,
        output_padding=call.numbers(5),
        groups=call.numbers(6)[0],
    )
    return _forward(call, sizes)


def _plain_convolution(call: Call) -> Work:
    # conv2d(input, weight, bias, stride, padding, dilation, groups), and cudnn_convolution_relu
    return _not_transposed(call, stride=3, padding=4, dilation=5, groups=6)


def _not_transposed(call: Call, *, stride: int, padding: int, dilation: int, groups: int) -> Work:
    """Return the work of a convolution whose settings are the arguments at these positions."""
    return _forward(
        call,
        _convolution_sizes(
            call.shape(0),
            call.shape(1),
            stride=call.numbers(stride),
            padding=call.numbers(padding),
            dilation=call.numbers(dilation),
            transposed=False,
            output_padding=[0],
            groups=call.numbers(groups)[0],
        ),
    )


def _convolution_backward(call: Call) -> Work:
    # convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
    #                      output_padding, groups, output_mask)
    mask = re.findall(r"true|false", call.value(10).lower())
    if len(mask) != 3:
        raise UnknownWorkError("the output mask is not recorded")
    wants_input, wants_weight, wants_bias = (flag == "true" for flag in mask)
    sizes = _convolution_sizes(
        call.shape(1),
        call.shape(2),
        stride=call.numbers(4),
        padding=call.numbers(5),
        dilation=call.numbers(6),
        transposed=call.is_true(7),
        output_padding=call.numbers(8),
        groups=call.numbers(9)[0],
    )
    gradient = call.size_bytes(0)
    moved = 0.0
    if wants_input:
        moved += gradient + call.size_bytes(2) + call.size_bytes(1)
    if wants_weight:
        moved += gradient + call.size_bytes(1) + call.size_bytes(2)
    if wants_bias:
        moved += gradient + call.shape(0)[1] * call.element_bytes(0)
    times = wants_input + wants_weight
    return Work(times * sizes.flops, round(moved), f"{times} × ({sizes.formula})", call.types[1])


# --- attention ------------------------------------------------------------------------------------------------------


def _attention(
    call: Call,
    *,
    query: int,
    causal: int,
    heads_first: bool = True,
    backward: float = 0,
    mask: int | None = None,
    aligned_last: bool = False,
) -> Work:
    """Return the work of scaled dot product attention; ``query`` is the argument with Q, K and V follow it.

    Args:
        call: The call.
        query: Index of Q.
        causal: Index of the boolean for a causal mask.
        heads_first: Whether tensors are batch, heads, sequence, size; else batch, sequence, heads, size.
        backward: FLOPs of the backward pass as a multiple of the forward's; 0 for a forward pass.
        mask: Index of a mask, which is added to the scores: all of them are computed.
        aligned_last: Whether a causal mask lets the last query see every key (flash-attn); else the first query sees
            the first key only (PyTorch's scaled_dot_product_attention).
    """
    shapes = [call.shape(query + i) for i in range(3)]
    if any(len(shape) != 4 for shape in shapes):
        raise UnknownWorkError("sequences of different lengths are packed, and their lengths are not recorded")
    if not heads_first:
        shapes = [(shape[0], shape[2], shape[1], shape[3]) for shape in shapes]
    (batch, heads, queries, size), (_, _, keys, _), (_, _, _, value_size) = shapes
    scores: float = queries * keys
    is_causal = call.is_true(causal)
    if is_causal:
        if aligned_last and queries > keys:
            raise UnknownWorkError("a causal mask over more queries than keys")
        # A triangle, and a rectangle of earlier keys or, aligned at the first, of queries that see every key.
        side = min(queries, keys)
        scores = (queries * keys if aligned_last else queries * side) - side * side / 2
    flops = 2 * batch * heads * scores * (size + value_size) * (backward or 1)
    element = call.element_bytes(query)
    inputs = sum(math.prod(shape) for shape in shapes)
    output = batch * heads * queries * value_size
    # Backward reads Q, K, V, O and dO, and writes dQ, dK and dV.
    moved = (2 * inputs + 2 * output if backward else inputs + output) * element
    formula = (
        f"{f'{backward:g} × ' if backward else ''}2·B·H·Nq·Nkv·(dqk + dv){'; causal' if is_causal else ''}, "
        f"B={batch} H={heads} Nq={queries} Nkv={keys} dqk={size} dv={value_size}"
        f"{'; masked scores are computed, too' if mask is not None and call.has(mask) else ''}"
    )
    return Work(round(flops), round(moved), formula, call.types[query])


def _flash(call: Call) -> Work:
    return _attention(call, query=0, causal=4)


def _efficient(call: Call) -> Work:
    return _attention(call, query=0, causal=6, mask=3)


def _math(call: Call) -> Work:
    return _attention(call, query=0, causal=5, mask=3)


def _flash_forward(call: Call) -> Work:
    return _attention(call, query=0, causal=8, aligned_last=True, heads_first=False)


def _flash_forward_backward(call: Call) -> Work:
    # _flash_attention_backward(grad_out, query, key, value, out, ..., dropout_p, is_causal, ...)
    return _attention(call, query=1, causal=11, aligned_last=True, heads_first=False, backward=2.5)


def _packed_sequences(call: Call) -> Work:
    raise UnknownWorkError("sequences of different lengths are packed, and their lengths are not recorded")


def _flash_backward(call: Call) -> Work:
    return _attention(call, query=1, causal=11, backward=2.5)


def _efficient_backward(call: Call) -> Work:
    return _attention(call, query=1, causal=11, backward=2.5, mask=4)


def _cudnn_backward(call: Call) -> Work:
    return _attention(call, query=1, causal=14, backward=2.5, mask=8)


def _flash_library(call: Call) -> Work:
    # _flash_attn_forward(q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, ...)
    _no_window(call, 6)
    return _attention(call, query=0, causal=5, aligned_last=True, heads_first=False)


def _flash_library_backward(call: Call) -> Work:
    # _flash_attn_backward(gradient, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal,
    #                      window_size_left, window_size_right, ...)
    _no_window(call, 12)
    return _attention(call, query=1, causal=11, aligned_last=True, heads_first=False, backward=2.5)


def _no_window(call: Call, first: int) -> None:
    if call.value(first) != "-1" or call.value(first + 1) not in ("-1", "0"):
        raise UnknownWorkError("the attention is limited to a window")


def _paged(call: Call) -> Work:
    """Return the work of attention of a server step over its KV cache; arguments: Q, K and V as tokens, heads, size.

    The lengths of the step's requests differ: the step's annotation has the sums of their products.
    """
    query, key, value = (call.shape(index) for index in range(3))
    if any(len(shape) != 3 for shape in (query, key, value)):
        raise UnknownWorkError("the number of heads is not recorded")
    if call.step is None:
        raise UnknownWorkError("the lengths of the requests are not recorded: the server does not annotate its steps")
    sums = attention_sums(call.step)
    if sums is None:
        raise UnknownWorkError("the annotation of the step does not have the total length of its requests")
    # A request in prefill attends to a rectangle of earlier tokens, and to a triangle of its own.
    scores = sums.prefill_products - sums.prefill_squares / 2 + sums.decode_products
    head_sizes = query[2] + value[2]
    flops = 2 * query[1] * scores * head_sizes
    query_bytes = query[0] * query[1] * head_sizes * call.element_bytes(0)
    cache_bytes = sums.kv_tokens * key[1] * head_sizes * call.element_bytes(1)
    formula = (
        f"2·H·(Σq·kv − Σq²/2 of prefill + Σq·kv of decode)·(dqk + dv), H={query[1]} Σq·kv={sums.prefill_products} "
        f"Σq²={sums.prefill_squares} decode={sums.decode_products} dqk={query[2]} dv={value[2]} kv={sums.kv_tokens}"
    )
    return Work(round(flops), round(query_bytes + cache_bytes), formula, call.types[0])


# --- groups of matrices ----------------------------------------------------------------------------------------------


def _grouped(call: Call) -> Work:
    """Return the work of one product per group of rows: ``_grouped_mm(self, mat2, offs, ...)``.

    The sizes of groups of rows (T x K by E x K x N) or columns add up to T, so the total does not depend on them.
    """
    left, right = call.shape(0), call.shape(1)
    if len(left) == 3 and len(right) == 3:
        return _batched(call, 0, 1)
    if len(left) == 2 and len(right) == 3:
        _matched(left[1], right[1])
        m, n, k, groups, out = left[0], right[2], left[1], right[0], left[0] * right[2]
    elif len(left) == 3 and len(right) == 2:
        _matched(left[2], right[0])
        m, n, k, groups, out = left[1], right[1], left[2], left[0], left[1] * right[1]
    elif len(left) == 2 and len(right) == 2 and call.has(2):
        _matched(left[1], right[0])
        groups = call.shape(2)[0]
        m, n, k, out = left[0], right[1], left[1], groups * left[0] * right[1]
    else:
        raise UnknownWorkError("the operands are not groups of matrices")
    scaled = call.element_bytes(0) == 1
    moved = call.size_bytes(0) + call.size_bytes(1) + out * (2 if scaled else call.element_bytes(0))
    return Work(2 * m * n * k, round(moved), f"Σ 2·M·N·K of {groups} groups, M={m} N={n} K={k}", call.types[0])


PAGED: Final = (
    "vllm::unified_attention_with_output",
    "vllm::unified_attention",
    "sglang::unified_attention_with_output",
)
"""Ops whose work depends on the annotation of the server's step."""

COMPUTE_MODELS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "aten::mm": _mm,
        "aten::_int_mm": _int_mm,
        "aten::addmm": _addmm,
        "aten::addmm_": _addmm,
        "aten::_addmm_activation": _addmm,
        "aten::_scaled_mm": _scaled_mm,
        "trtllm::cublas_scaled_mm": _tensorrt_scaled_mm,
        "_C::cutlass_scaled_mm": _vllm_scaled_mm,
        "aten::bmm": _bmm,
        "aten::baddbmm": _baddbmm,
        "aten::baddbmm_": _baddbmm,
        "aten::mv": _matrix_vector,
        "aten::addmv": _add_matrix_vector,
        "aten::addmv_": _add_matrix_vector,
        "vllm::rocm_unquantized_gemm": _linear,
        "aten::convolution": _convolution,
        "aten::_convolution": _convolution,
        "aten::convolution_overrideable": _convolution,
        "aten::cudnn_convolution": _vendor_convolution,
        "aten::miopen_convolution": _vendor_convolution,
        "aten::miopen_depthwise_convolution": _vendor_convolution,
        "aten::cudnn_convolution_relu": _plain_convolution,
        "aten::convolution_backward": _convolution_backward,
        "aten::convolution_backward_overrideable": _convolution_backward,
        "aten::_scaled_dot_product_flash_attention": _flash,
        "aten::_scaled_dot_product_efficient_attention": _efficient,
        "aten::_scaled_dot_product_cudnn_attention": _efficient,
        "aten::_scaled_dot_product_attention_math": _math,
        "aten::_flash_attention_forward": _flash_forward,
        "aten::_scaled_dot_product_flash_attention_backward": _flash_backward,
        "aten::_scaled_dot_product_efficient_attention_backward": _efficient_backward,
        "aten::_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
        "aten::_flash_attention_backward": _flash_forward_backward,
        "flash_attn::_flash_attn_varlen_forward": _packed_sequences,
        "flash_attn::_flash_attn_varlen_backward": _packed_sequences,
        "flash_attn::_flash_attn_forward": _flash_library,
        "flash_attn::_flash_attn_backward": _flash_library_backward,
        **dict.fromkeys(PAGED, _paged),
        "aten::_grouped_mm": _grouped,
        "aten::_scaled_grouped_mm": _grouped,
    }
)

WRAPPERS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "aten::linear": _linear,
        "aten::matmul": _matmul,
        "aten::conv1d": _plain_convolution,
        "aten::conv2d": _plain_convolution,
        "aten::conv3d": _plain_convolution,
        **{f"aten::conv_transpose{n}d": _transposed_convolution for n in (1, 2, 3)},
    }
)
"""Ops that usually call one of the others; their formula is used for calls that do not."""
