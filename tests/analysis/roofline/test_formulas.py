"""FLOPs and bytes of op calls, compared with results calculated by hand."""

from __future__ import annotations

import pytest

from tui.analysis.flop_formulas import Call, UnknownWorkError
from tui.analysis.memory_formulas import broadcast, call_work, find_formula

BF16, F32 = "bfloat16", "float32"


def call(name: str, *arguments: tuple[object, str, str], kernel: str | None = None) -> Call:
    """A call of an op: shape, type and value of each argument."""
    shapes, types, values = zip(*arguments, strict=True)
    return Call(name, shapes, types, values, kernel=kernel)


def tensor(*shape: int, dtype: str = BF16) -> tuple[object, str, str]:
    return shape, dtype, ""


def value(text: str) -> tuple[object, str, str]:
    return (), "Scalar", text


def tensor_list(*shapes: tuple[int, ...]) -> tuple[object, str, str]:
    return shapes, "TensorList", ""


ABSENT = ((), "", "")
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy"
MULTI_TENSOR = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, "
CONVOLUTION = (
    *(value("[2, 2]"), value("[1, 1]"), value("[1, 1]"), value("False"), value("[0, 0]")),
    value("1"),
)


@pytest.mark.parametrize(
    ("op_call", "flops", "moved_bytes"),
    [
        (call("aten::mm", tensor(8, 4), tensor(4, 2)), 2 * 8 * 2 * 4, 2 * (32 + 8 + 16)),
        (call("aten::mm", tensor(8, 4, dtype=F32), tensor(4, 2, dtype=F32)), 128, 4 * 56),
        (call("aten::addmm", tensor(2), tensor(8, 4), tensor(4, 2)), 128 + 16, 2 * (32 + 8 + 16 + 2)),
        (call("aten::bmm", tensor(3, 8, 4), tensor(3, 4, 2)), 3 * 128, 3 * 2 * 56),
        (call("aten::linear", tensor(5, 8, 4), tensor(2, 4), tensor(2)), 2 * 40 * 2 * 4 + 80, 2 * (160 + 8 + 80 + 2)),
        (call("aten::matmul", tensor(5, 8, 4), tensor(4, 2)), 2 * 40 * 2 * 4, 2 * (160 + 8 + 80)),
        (
            call(
                "aten::_scaled_mm",
                *(tensor(16, 32, dtype="float8_e4m3fn"), tensor(32, 16, dtype="float8_e4m3fn")),
                *(tensor(1, dtype=F32), tensor(1, dtype=F32), ABSENT, ABSENT, value("15"), value("True")),
            ),
            2 * 16 * 16 * 32,
            512 + 512 + 2 * 256,
        ),
        # Sums of products of int8 are int32.
        (
            call("aten::_int_mm", tensor(16, 32, dtype="int8"), tensor(32, 8, dtype="int8")),
            2 * 16 * 8 * 32,
            512 + 256 + 4 * 128,
        ),
        # FP4 has two numbers in an element.
        (
            call(
                "aten::_scaled_mm",
                *(tensor(16, 32, dtype="Float4_e2m1fn_x2"), tensor(32, 16, dtype="Float4_e2m1fn_x2")),
                *(tensor(1, dtype=F32), tensor(1, dtype=F32), ABSENT, ABSENT, value("15"), value("True")),
            ),
            2 * 16 * 16 * 64,
            512 + 512 + 2 * 256,
        ),
        (
            call(
                "_C::cutlass_scaled_mm",
                *(tensor(16, 8), tensor(16, 32, dtype="float8_e4m3fn"), tensor(32, 8, dtype="float8_e4m3fn")),
                *(tensor(1, dtype=F32), tensor(1, dtype=F32), tensor(8)),
            ),
            2 * 16 * 8 * 32 + 16 * 8,
            512 + 256 + 2 * 128 + 2 * 8,
        ),
        (
            call(
                "trtllm::cublas_scaled_mm",
                *(tensor(16, 32, dtype="float8_e4m3fn"), tensor(32, 8, dtype="float8_e4m3fn")),
                *(tensor(1, dtype=F32), tensor(1, dtype=F32), ABSENT, value("5")),
            ),
            2 * 16 * 8 * 32,
            512 + 256 + 2 * 128,
        ),
        # A complex product takes four multiplications and four additions.
        (
            call("aten::mm", tensor(8, 4, dtype="complex64"), tensor(4, 2, dtype="complex64")),
            8 * 8 * 2 * 4,
            8 * (32 + 8 + 16),
        ),
        (
            call("aten::baddbmm", tensor(3, 1, 2), tensor(3, 8, 4), tensor(3, 4, 2)),
            3 * (128 + 16),
            3 * 2 * (56 + 2),
        ),
        (call("aten::addmv", tensor(8), tensor(8, 4), tensor(4)), 2 * 8 * 4 + 8, 2 * (32 + 4 + 8 + 8)),
        # One matrix for the whole batch is read once, on either side.
        (call("aten::matmul", tensor(8, 4), tensor(5, 4, 2)), 5 * 128, 2 * (32 + 5 * 8 + 5 * 16)),
        (call("aten::matmul", tensor(3, 1, 8, 4), tensor(5, 4, 2)), 15 * 128, 2 * (96 + 40 + 15 * 16)),
        (call("aten::matmul", tensor(8, 4), tensor(4)), 2 * 8 * 4, 2 * (32 + 4 + 8)),
        # Depthwise: each of 6 channels has a kernel of its own; dilated by 2 a kernel of 3 spans 5.
        (
            call(
                "aten::convolution",
                *(tensor(2, 6, 9, 9), tensor(6, 1, 3, 3), tensor(6), value("[1, 1]"), value("[2, 2]")),
                *(value("[2, 2]"), value("False"), value("[0, 0]"), value("6")),
            ),
            2 * 2 * 6 * 81 * 9,
            2 * (972 + 54 + 972),
        ),
        # One dimension, and three with one number for all.
        (
            call(
                "aten::convolution",
                *(tensor(2, 4, 10), tensor(8, 4, 3), ABSENT, value("[2]"), value("[0]")),
                *(value("[1]"), value("False"), value("[0]"), value("1")),
            ),
            2 * 2 * 8 * 4 * 4 * 3,
            2 * (80 + 96 + 64),
        ),
        (
            call(
                "aten::convolution",
                *(tensor(1, 2, 4, 4, 4), tensor(3, 2, 2, 2, 2), ABSENT, value("[2]"), value("[0]")),
                *(value("[1]"), value("False"), value("[0]"), value("1")),
            ),
            2 * 3 * 8 * 2 * 8,
            2 * (128 + 48 + 24),
        ),
        # Transposed in 2 groups: 4 input channels, 3 output channels of each group; 3 x 3 becomes 7 x 7.
        (
            call(
                "aten::conv_transpose2d",
                *(tensor(1, 4, 3, 3), tensor(4, 3, 3, 3), ABSENT, value("[2, 2]"), value("[0, 0]")),
                *(value("[0, 0]"), value("2"), value("[1, 1]")),
            ),
            2 * 4 * 9 * 3 * 9,
            2 * (36 + 108 + 6 * 49),
        ),
        # A mask is added to the scores, all of which are computed.
        (
            call(
                "aten::_scaled_dot_product_efficient_attention",
                *(tensor(2, 4, 16, 8), tensor(2, 4, 16, 8), tensor(2, 4, 16, 8), tensor(2, 4, 16, 16)),
                *(value("True"), value("0."), value("False")),
            ),
            2 * 2 * 4 * 16 * 16 * 16,
            2 * 4 * 1024,
        ),
        # The names of kernels tell the types of lists: 2 bytes, then float and BFloat16.
        (
            call(
                "aten::cat",
                *(tensor_list((4, 1, 768), (4, 196, 768)), value("1")),
                kernel=f"{CAT}<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 3, 64, 64>(...)",
            ),
            0,
            2 * 2 * 4 * 197 * 768,
        ),
        (
            call(
                "aten::cat",
                tensor_list((8,), (4,)),
                value("0"),
                kernel=f"{CAT}_contig<float, unsigned int, 1, 128>(...)",
            ),
            0,
            2 * 4 * 12,
        ),
        (
            call(
                "aten::_foreach_add_",
                *(tensor_list((128, 128), (128,)), tensor_list((128, 128), (128,)), value("-0.001")),
                kernel=f"{MULTI_TENSOR}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(...)",
            ),
            0,
            3 * 4 * 16_512,
        ),
        (
            call(
                "aten::_foreach_norm",
                *(tensor_list((8, 8), (8,)), value("2")),
                kernel=f"{MULTI_TENSOR}LpNormFunctor<c10::BFloat16, (at::native::NormType)1, float, 1, 1, 0>>(...)",
            ),
            0,
            2 * 72,
        ),
        # Parameters, gradients and two averages are read, gradients are not written; steps do not count.
        (
            call(
                "aten::_fused_adamw_",
                *(
                    tensor_list((8, 8)),
                    tensor_list((8, 8)),
                    tensor_list((8, 8)),
                    tensor_list((8, 8)),
                    ((), "TensorList", ""),
                ),
                *(tensor_list(()), value("0.0001")),
                kernel=f"{MULTI_TENSOR}FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>(...)",
            ),
            0,
            4 * 7 * 64,
        ),
        # 8 x 8 with padding 1, a kernel of 3 and a stride of 2 gives 4 x 4.
        (
            call("aten::convolution", tensor(2, 3, 8, 8), tensor(5, 3, 3, 3), ABSENT, *CONVOLUTION),
            2 * 2 * 5 * 16 * 27,
            2 * (2 * 3 * 64 + 5 * 27 + 2 * 5 * 16),
        ),
        # Both gradients; then that of the weight and the bias.
        (
            call(
                "aten::convolution_backward",
                *(tensor(2, 5, 4, 4), tensor(2, 3, 8, 8), tensor(5, 3, 3, 3), value("[0]"), *CONVOLUTION),
                value("[True, True, False]"),
            ),
            2 * (2 * 2 * 5 * 16 * 27),
            2 * 2 * (160 + 135 + 384),
        ),
        (
            call(
                "aten::convolution_backward",
                *(tensor(2, 5, 4, 4), tensor(2, 3, 8, 8), tensor(5, 3, 3, 3), value("[5]"), *CONVOLUTION),
                value("[False, True, True]"),
            ),
            2 * 2 * 5 * 16 * 27,
            2 * (160 + 135 + 384) + 2 * (160 + 5),
        ),
        (
            call(
                "aten::_scaled_dot_product_flash_attention",
                *(tensor(2, 4, 16, 8), tensor(2, 2, 16, 8), tensor(2, 2, 16, 8), value("0."), value("True")),
            ),
            2 * 2 * 4 * 16 * 16 * 16 // 2,
            2 * (1024 + 512 + 512 + 1024),
        ),
        # PyTorch's mask begins at the first key: 4 queries see a triangle of 8 of 16 keys each.
        (
            call(
                "aten::_scaled_dot_product_flash_attention",
                *(tensor(1, 1, 4, 8), tensor(1, 1, 16, 8), tensor(1, 1, 16, 8), value("0."), value("True")),
            ),
            2 * 8 * 16,
            2 * (32 + 128 + 128 + 32),
        ),
        # Of 16 queries, the last 8 see all 8 keys: a rectangle of 64 scores and a triangle of 32.
        (
            call(
                "aten::_scaled_dot_product_flash_attention",
                *(tensor(1, 1, 16, 8), tensor(1, 1, 8, 8), tensor(1, 1, 8, 8), value("0."), value("True")),
            ),
            2 * (64 + 32) * 16,
            2 * (128 + 64 + 64 + 128),
        ),
        # That of flash-attn ends at the last key: a prefill behind 12 keys has a rectangle of 48 and a triangle of 8.
        (
            call(
                "flash_attn::_flash_attn_forward",
                *(
                    tensor(1, 4, 1, 8),
                    tensor(1, 16, 1, 8),
                    tensor(1, 16, 1, 8),
                    value("0."),
                    value("1."),
                    value("True"),
                ),
                *(value("-1"), value("-1")),
            ),
            2 * (48 + 8) * 16,
            2 * (32 + 128 + 128 + 32),
        ),
        (call("aten::add", tensor(8, 4, dtype=F32), tensor(4, dtype=F32), value("1")), 0, 4 * (32 + 4 + 32)),
        (call("aten::add", tensor(8, 4), tensor(4, dtype=F32), value("1")), 0, 2 * 32 + 4 * 4 + 4 * 32),
        (call("aten::eq", tensor(8, 4), tensor(8, 4)), 0, 2 * 32 + 2 * 32 + 32),
        (call("aten::copy_", tensor(8, 4, dtype=F32), tensor(8, 4), value("False")), 0, 4 * 32 + 2 * 32),
        (call("aten::mean", tensor(8, 4), value("[-1]"), value("True")), 0, 2 * (32 + 8)),
        (call("aten::sum", tensor(8, 4)), 0, 2 * (32 + 1)),
        (call("aten::max", tensor(8, 4)), 0, 2 * (32 + 1)),
        # Of two tensors, max takes the larger elements.
        (call("aten::max", tensor(8, 4), tensor(4)), 0, 2 * (32 + 4 + 32)),
        (call("aten::sum", tensor(8, 4), value("[]"), value("True"), ABSENT), 0, 2 * (32 + 1)),
        # 6 is a type, 2 the order of a norm, 1 an axis.
        (call("aten::sum", tensor(8, 4), value("6")), 0, 2 * (32 + 1)),
        (call("aten::prod", tensor(8, 4), value("1"), value("False"), ABSENT), 0, 2 * (32 + 8)),
        # Along an axis, max returns the indices as well.
        (call("aten::max", tensor(8, 4), value("1"), value("False")), 0, 2 * (32 + 8) + 8 * 8),
        (call("aten::amax", tensor(8, 4), value("[1]"), value("False")), 0, 2 * (32 + 8)),
        (call("aten::norm", tensor(8, 4, 3), value("2")), 0, 2 * (96 + 1)),
        (call("aten::norm", tensor(8, 4, 3), value("2"), value("[1]"), value("False")), 0, 2 * (96 + 24)),
        (
            call("aten::linalg_vector_norm", tensor(8, 4, 3), value("2"), value("[0, 1]"), value("True"), ABSENT),
            0,
            2 * (96 + 3),
        ),
        (call("aten::linalg_vector_norm", tensor(8, 4, 3), value("2"), ABSENT, value("False")), 0, 2 * (96 + 1)),
        (call("aten::embedding", tensor(100, 8), tensor(5, dtype="int64")), 0, 2 * 2 * 40 + 40),
        # A buffer of a pointwise kernel may be overwritten.
        (call("triton_poi_fused_add_0", tensor(8, 4), tensor(8, 4), value("32")), 0, 2 * 96),
        (call("triton_red_fused_add_0", tensor(8, 4), tensor(8, 4), value("32")), 0, 2 * 64),
        # 6 tokens by the weights of 3 experts, whichever of them each takes.
        (call("aten::_grouped_mm", tensor(6, 4), tensor(3, 4, 8), tensor(3, dtype="int32")), 2 * 6 * 8 * 4, 2 * 168),
        # The gradients of 3 weights.
        (call("aten::_grouped_mm", tensor(4, 6), tensor(6, 8), tensor(3, dtype="int32")), 2 * 6 * 8 * 4, 2 * 168),
        # 2 tokens choose 2 of 8 experts each: at most 4 are read.
        (
            call(
                "vllm::outplace_fused_experts",
                *(
                    tensor(2, 4),
                    tensor(8, 12, 4),
                    tensor(8, 4, 6),
                    tensor(2, 2, dtype=F32),
                    tensor(2, 2, dtype="int32"),
                ),
            ),
            2 * 4 * (12 * 4 + 4 * 6),
            2 * (2 * 8 + 4 * (48 + 24)),
        ),
        (
            call(
                "flash_attn::_flash_attn_forward",
                *(tensor(2, 16, 4, 8), tensor(2, 16, 2, 8), tensor(2, 16, 2, 8)),
                *(value("0."), value("0.3"), value("True"), value("-1"), value("-1")),
            ),
            2 * 2 * 4 * 16 * 16 * 16 // 2,
            2 * (1024 + 512 + 512 + 1024),
        ),
        (
            call(
                "aten::native_batch_norm_backward",
                *(tensor(2, 3, 4, 4), tensor(2, 3, 4, 4), *(tensor(3, dtype=F32) for _ in range(5))),
            ),
            0,
            3 * 2 * 96 + 5 * 4 * 3,
        ),
        (
            call(
                "aten::max_pool2d_with_indices",
                *(tensor(1, 2, 8, 8), value("[3, 3]"), value("[2, 2]"), value("[1, 1]"), value("[1, 1]")),
                value("False"),
            ),
            0,
            2 * 128 + (2 + 8) * 32,
        ),
        # softmax(x, -1, dtype=torch.float32) of half precision
        (call("aten::_softmax", tensor(8, 16), value("-1"), value("True")), 0, (2 + 4) * 128),
        # Rounding up, a third window would start in the padding: the output is 2 x 2.
        (
            call(
                "aten::max_pool2d_with_indices",
                *(tensor(1, 1, 5, 5), value("[2, 2]"), value("[3, 3]"), value("[1, 1]"), value("[1, 1]")),
                value("True"),
            ),
            0,
            2 * 25 + (2 + 8) * 4,
        ),
        # The stride of functional.avg_pool2d(x, 2) is the kernel size.
        (
            call(
                "aten::avg_pool2d",
                *(tensor(1, 2, 8, 8), value("[2, 2]"), value("[]"), value("[0, 0]"), value("False")),
            ),
            0,
            2 * (128 + 32),
        ),
        (call("aten::nll_loss_forward", tensor(8, 10, dtype=F32), tensor(8, dtype="int64")), 0, 4 * 8 + 8 * 8),
        (call("aten::mse_loss", tensor(8, 4), tensor(8, 4), value("1")), 0, 2 * (32 + 32 + 1)),
        (call("aten::index_select", tensor(9, 4), value("0"), tensor(5, dtype="int64")), 0, 2 * 2 * 20 + 40),
        (
            call("aten::embedding_dense_backward", tensor(5, 4), tensor(5, dtype="int64"), value("9")),
            0,
            2 * 20 + 40 + 2 * 36,
        ),
        (call("_C::fused_add_rms_norm", tensor(2, 8), tensor(2, 8), tensor(8), value("1e-6")), 0, 2 * (64 + 8)),
        (
            call(
                "_C::rotary_embedding",
                *(tensor(3, dtype="int64"), tensor(3, 64), tensor(3, 16), value("8"), tensor(4096, 8), value("True")),
            ),
            0,
            8 * 3 + 2 * 2 * (3 * 64 + 3 * 16) + 2 * 3 * 8,
        ),
        # Of five rows three have a slot; the cache has elements of one byte.
        (
            call(
                "_C_cache_ops::reshape_and_cache_flash",
                *(tensor(5, 2, 8), tensor(5, 2, 8)),
                *(tensor(99, 16, 2, 8, dtype="float8_e4m3fn") for _ in range(2)),
                tensor(3, dtype="int64"),
            ),
            0,
            2 * 3 * 16 * (2 + 1) + 8 * 3,
        ),
    ],
)
def test_flops_and_bytes_of_a_call(op_call: Call, flops: int, moved_bytes: int) -> None:
    work = call_work(op_call)
    assert (work.flops, work.bytes) == (flops, moved_bytes)


def test_backward_attention_recomputes_the_scores() -> None:
    forward = call(
        "aten::_scaled_dot_product_flash_attention",
        *(tensor(2, 4, 16, 8), tensor(2, 4, 16, 8), tensor(2, 4, 16, 8), value("0."), value("False")),
    )
    backward = call(
        "aten::_scaled_dot_product_flash_attention_backward",
        *(tensor(2, 4, 16, 8) for _ in range(5)),
        *(ABSENT for _ in range(6)),
        value("False"),
    )
    assert call_work(backward).flops == 2.5 * call_work(forward).flops


def test_attention_over_a_cache_sums_the_requests_of_the_step() -> None:
    attention = Call(
        "vllm::unified_attention_with_output",
        ((5, 4, 8), (5, 2, 8), (5, 2, 8)),
        (BF16, BF16, BF16),
        ("", "", ""),
        "execute_5_context_1(sq3sk7sqsq9sqsk21)_generation_2(sq2sk30sqsq2sqsk30)",
    )
    work = call_work(attention)
    # Three queries over 4 earlier tokens and a triangle of their own, two over 30.
    assert work.flops == 2 * 4 * (21 - 4.5 + 30) * 16
    assert work.bytes == 2 * (5 * 4 * 16 + 37 * 2 * 16)


def test_a_transposed_convolution_counts_its_input() -> None:
    convolution = call(
        "aten::convolution",
        *(tensor(2, 5, 4, 4), tensor(5, 3, 3, 3), ABSENT),
        *(value("[2, 2]"), value("[1, 1]"), value("[1, 1]"), value("True"), value("[1, 1]"), value("1")),
    )
    work = call_work(convolution)
    # The output is 8 x 8.
    assert (work.flops, work.bytes) == (2 * 2 * 5 * 16 * 3 * 9, 2 * (160 + 135 + 2 * 3 * 64))


@pytest.mark.parametrize(
    ("op_call", "reason"),
    [
        (call("aten::mm", tensor(8, 4), tensor(5, 2)), "inner sizes 4 and 5 of the product differ"),
        (call("aten::mm", tensor(8, 4), ABSENT), "the shape of argument 2 is not recorded"),
        (call("aten::mm", tensor(8, 4, dtype=""), tensor(4, 2, dtype="")), "the element type is not recorded"),
        (call("aten::mm", ((8, -4), BF16, ""), tensor(4, 2)), "the shape of argument 1 is not recorded"),
        (call("aten::mm", ((8, True), BF16, ""), tensor(4, 2)), "the shape of argument 1 is not recorded"),
        (
            call(
                "aten::convolution",
                *(tensor(2, 3, 8, 8), tensor(5, 3, 3, 3), ABSENT, value(f"[{'9' * 5_000}, 1]")),
            ),
            rf"the value of argument 4 is '\[{'9' * 39}', not a list of numbers",
        ),
        (
            call("aten::convolution", tensor(2, 3, 8, 8), tensor(5, 3, 3, 3), ABSENT),
            "the value of argument 4 is not recorded",
        ),
        (
            call(
                "flash_attn::_flash_attn_forward",
                *(tensor(2, 16, 4, 8), tensor(2, 8, 4, 8), tensor(2, 8, 4, 8), value("0."), value("1."), value("True")),
                *(value("-1"), value("-1")),
            ),
            "a causal mask over more queries than keys",
        ),
        (call("aten::unique", tensor(8)), "no formula for this op"),
        (
            call("aten::cat", ((), "TensorList", ""), value("0")),
            "PyTorch does not record the element types of tensor lists, or the shapes of long lists",
        ),
        (
            call("aten::cat", tensor_list((8, 4), (8, 4)), value("0")),
            "PyTorch does not record the element types of tensor lists, and the kernel name does not contain them",
        ),
        (
            call(
                "aten::_foreach_copy_",
                *(tensor_list((8, 4)), tensor_list((8, 4)), value("False")),
                kernel=f"{MULTI_TENSOR}CopyFunctor<float, c10::BFloat16, 2, 1, 1>, Copy<float, c10::BFloat16>>(...)",
            ),
            "PyTorch does not record the element types of tensor lists, and the kernel name does not contain them",
        ),
        (
            call("aten::_fused_adamw_", *(((), "TensorList", "") for _ in range(6))),
            "PyTorch does not record the element types of tensor lists, or the shapes of long lists",
        ),
        (call("aten::bmm", tensor(3, 8, 4), tensor(2, 4, 2)), "batches of 3 and 2 matrices"),
        (
            call("flash_attn::_flash_attn_varlen_forward", *(tensor(40, 4, 8) for _ in range(3))),
            "sequences of different lengths are packed, and their lengths are not recorded",
        ),
        (
            call("vllm::moe_forward", tensor(8, 4), tensor(8, 2)),
            "the number of experts per token is not recorded in vllm::moe_forward",
        ),
        (
            call("vllm::unified_attention", *(tensor(2, 4, 8) for _ in range(3))),
            "the lengths of the requests are not recorded: the server does not annotate its steps",
        ),
        (
            call(
                "flash_attn::_flash_attn_forward",
                *(tensor(2, 16, 4, 8) for _ in range(3)),
                *(value("0."), value("0.3"), value("True"), value("128"), value("0")),
            ),
            "the attention is limited to a window",
        ),
    ],
)
def test_unrecorded_arguments_make_work_unknown(op_call: Call, reason: str) -> None:
    with pytest.raises(UnknownWorkError, match=f"^{reason}$"):
        call_work(op_call)


def test_shapes_that_do_not_match_make_work_unknown() -> None:
    with pytest.raises(UnknownWorkError):
        broadcast((3,), (4,))


def test_ops_without_a_formula() -> None:
    assert [find_formula(name) for name in ("aten::unique", "aten::sort", "mm", "", "triton_")] == [None] * 5
