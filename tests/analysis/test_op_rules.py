from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.corpus import corpus_file
from tui.analysis import cached_results
from tui.analysis.cached_results import results_to_cache
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.ops import op_type_rules as op_rules
from tui.analysis.ops.op_type_rules import NAME_LIMIT, UNKNOWN, OpTypeRule, classify, parse_op_type_rules
from tui.analysis.ops.ops_by_name import op_name, ops
from tui.data import user_files
from tui.model.errors import ProftuiError

OP_BY_KERNEL = {
    # Names that suggest another type.
    "void cudnn::ops::nchwToNhwcKernel<float, float>(cudnn::ops::nchw2nhwc_params_t<float>)": "layout",
    "void cudnn::detail::convertTensor_kernel<float, __half>(float, __half*)": "cast",
    "void at::native::batch_norm_backward_kernel<float>(float*)": "batch norm backward",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512>(float)": "batch norm backward",
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512>(cudnnTensorStruct)": "batch norm forward",
    "void implicit_convolve_sgemm<float, float, 1024, 5>(int, kernel_conv_params)": "convolution",
    "cudnn_convolve_precomputed_sgemm_sm35_ldg_nn_64x16x128x8x32": "convolution",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "communication",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "void splitKreduce_kernel<float, float, float>(cublasSplitKParams<float>)": "gemm",
    "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<x>>(y)": "convolution",
    "void fbgemm_gpu::_offsets_range_cuda_kernel<long>(long, long)": "embedding",
    "SubTensorOpWithScalar1d": "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::MulScalarFunctor<float>>(int)": "elementwise",
    "render(Vector3*, int, int, int, Camera**, Hittable**, curandStateXORWOW*)": UNKNOWN,
    "void tensorflow::UnsortedSegmentCustomKernel<float, int>(int)": "reduction",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(x)": "copy",
    "void dfloat_sum_kernel<thrust::permutation_iterator<x>>(int)": "reduction",
    "triton_poi_fused_convolution_relu_3": "elementwise",
    # Directions.
    "void cudnn::detail::dgrad_engine<float, 128>(int, kernel_grad_params)": "convolution backward data",
    "void cudnn::detail::wgrad_alg0_engine<float, int=128>(int, int)": "convolution backward filter",
    "void calc_bias_diff<int=2, float, float>(x)": "convolution backward bias",
    "maxwell_scudnn_128x128_stridedB_small_nn": "convolution backward data",
    "maxwell_scudnn_128x128_stridedB_splitK_large_nn": "convolution backward filter",
    "maxwell_scudnn_128x128_relu_small_nn": "convolution",
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc": "convolution forward",
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32": "convolution backward filter",
    "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float>(WinogradFilterParams)": "convolution",
    "void fft2d_r2c_32x32<float, unsigned int=1>(float2*, cudnn::reduced_divisor)": "convolution",
    "void regular_fft<256u, EPT<16u>>(kernel_parameters_t)": "fft",
    "void im2col4d_kernel<float, int>(im2col4d_params, cudnnConvolutionStruct)": "convolution",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26": "attention backward",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(x)": "attention forward",
    "void pooling_bw_kernel_max_nchw_fully_packed_small<float>(cudnnTensorStruct)": "pooling backward",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*)": "log softmax forward",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*)": "softmax forward",
    "cunn_ClassNLLCriterion_updateGradInput_kernel": "loss backward",
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float>(x)": "layer norm backward",
    "sigmoid_backward_kernel_cuda": "activation backward",
    # Other types.
    "nvjet_sm90_tst_256x64_64x5_2x1_v_bz_TNT": "gemm",
    "void gemv2T_kernel_val<int, int, float>(x)": "gemm",
    "void magma_lds128_sgemm_kernel<bool=1>(int)": "gemm",
    "void add_tensor_kernel<float, float, int=128>(cudnnTensorStruct)": "bias add",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>(x)": "optimizer",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(x)": "copy",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(x)": "fill",
    "void at::native::vectorized_gather_kernel<16, long>(char*)": "index",
    "void thrust::cuda_cub::cub::DeviceRadixSortDownsweepKernel<x>(y)": "sort",
    "void gen_sequenced<curandStateXORWOW, float2>(x)": "random",
    "at::native::xpu::DistributionElementwiseKernelFunctor<float, 4, at::native::xpu::Uniform>": "random",
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float>(x)": "dropout",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)": "reduction",
    "[CUDA memcpy HtoD]": "memcpy HtoD",
    "[CUDA memcpy PtoP]": "memcpy PtoP",
    "CopyHostToDevice": "memcpy HtoD",
    "MEMORY_COPY_DEVICE_TO_HOST": "memcpy DtoH",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "memcpy DtoD",
    "MEMORY_COPY_HOST_TO_HOST": "memcpy",
    "Memcpy DtoH (Device -> Pageable)": "memcpy DtoH",
    "[CUDA memset]": "memset",
    "Memset (Device)": "memset",
    "[Unified Memory GPU page faults]": "unified memory",
    "memcpyKernel(char*, int)": "copy",
    # Names without a hint.
    "Kernel": UNKNOWN,
    "bodyForce(Body*, float, int)": UNKNOWN,
    "": UNKNOWN,
}


@pytest.mark.parametrize(("name", "op"), OP_BY_KERNEL.items())
def test_op_types_of_kernel_names(name: str, op: str) -> None:
    classified = classify(pl.Series([name]))
    assert classified.with_columns(op_name())["op"].to_list() == [op]
    assert (classified["rule"].null_count() == 1) == (op == UNKNOWN)


def test_each_name_is_classified_once_and_nulls_are_ignored() -> None:
    classified = classify(pl.Series(["Kernel", "volta_sgemm_32x32_nn", "Kernel", None]).cast(pl.Categorical()))
    assert sorted(classified["name"].cast(pl.String).to_list()) == ["Kernel", "volta_sgemm_32x32_nn"]


def test_only_the_beginning_of_a_very_long_name_is_classified() -> None:
    classified = classify(pl.Series(["x" * NAME_LIMIT + "gemm", "gemm" + "x" * 100_000]))
    op_types = dict(zip(classified["name"].str.len_chars(), classified["op_type"], strict=True))
    assert op_types == {NAME_LIMIT + 4: UNKNOWN, 100_004: "gemm"}


def test_the_first_rule_that_matches_decides() -> None:
    rules = [OpTypeRule("mine", "bprop", "gemm_special", ""), OpTypeRule("gemm", "", "GEMM", "")]
    classified = classify(pl.Series(["a_gemm_special", "a_gemm"]), rules).sort("name")
    assert classified.select("op_type", "direction", "rule").rows() == [
        ("gemm", None, "GEMM"),
        ("mine", "bprop", "gemm_special"),
    ]


def test_every_op_type_of_the_rules_has_a_group() -> None:
    rules = op_rules.op_rules()
    assert {rule.op_type for rule in rules.rules} <= set(rules.groups)
    assert rules.group_name("never heard of") == "never heard of"


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "op_types.toml"
    monkeypatch.setattr(op_rules, "op_type_rules_path", lambda: path)
    return path


def test_the_users_rules_take_precedence(user_file: Path) -> None:
    profile = make_profile(activities=[kernel("volta_sgemm_32x32_nn", 5)])
    assert ops(profile)["op"].to_list() == ["gemm"]
    user_file.write_text(
        '[[rule]]\nop_type = "my gemm"\npattern = "^volta"\n[groups]\n"mine" = ["my gemm"]\n', encoding="utf-8"
    )
    assert ops(profile).select("op", "group").rows() == [("my gemm", "mine")]


TYPE_BY_OP = {
    "aten::mm.out": ("gemm", None),
    "aten::add.Tensor": ("elementwise", None),
    "aten::sum.dim_IntList": ("reduction", None),
    "_c10d_functional::all_reduce.default": ("communication", None),
    "aten::addmm": ("gemm", None),
    "aten::linear": ("gemm", None),
    "autograd::engine::evaluate_function: AddmmBackward0": ("gemm", "bprop"),
    "aten::cudnn_convolution": ("convolution", None),
    "aten::convolution_backward": ("convolution backward", "bprop"),
    "aten::cudnn_convolution_backward_weight": ("convolution backward filter", "bprop"),
    "Conv2DBackpropInput": ("convolution backward data", "bprop"),
    "aten::_to_copy": ("copy", None),
    "aten::t": ("layout", None),
    "TBackward0": ("layout", "bprop"),
    "aten::empty_strided": ("allocation", None),
    "aten::zero_": ("fill", None),
    "aten::add_": ("elementwise", None),
    "aten::sum": ("reduction", None),
    "aten::linalg_vector_norm": ("reduction", None),
    "aten::threshold_backward": ("activation", "bprop"),
    "aten::clamp_min": ("elementwise", None),
    "aten::_fused_adamw_": ("optimizer", None),
    "Optimizer.step#SGD.step": ("optimizer", None),
    "c10d::allreduce_": ("communication", None),
    "All2All_Pooled_ReqBackward": ("communication", None),
    "aten::_scaled_dot_product_flash_attention": ("attention", None),
    "aten::native_layer_norm_backward": ("layer norm", "bprop"),
    "aten::_log_softmax_backward_data": ("log softmax", "bprop"),
    "aten::embedding_dense_backward": ("embedding", "bprop"),
    "aten::max_pool2d_with_indices": ("pooling", None),
    "torch::autograd::AccumulateGrad": ("elementwise", "bprop"),
    # Ranges of the user have no type, even if a kernel of that name would.
    "forward": (UNKNOWN, None),
    "backward": (UNKNOWN, None),
    "copy batch to the device": (UNKNOWN, None),
}


def test_op_types_of_recorded_ops() -> None:
    classified = classify(pl.Series(list(TYPE_BY_OP)), op_rules.op_rules().op_rules)
    assert {name: (op_type, direction) for name, op_type, direction, _ in classified.rows()} == TYPE_BY_OP


def test_every_op_type_of_the_rules_for_ops_has_a_group() -> None:
    rules = op_rules.op_rules()
    assert {rule.op_type for rule in rules.op_rules} <= set(rules.groups)


def test_the_users_rules_for_ops_take_precedence(user_file: Path) -> None:
    recorded_ops = [{"op": 0, "name": "my_lib::attend", "op_source": "recorded"}, {"op": 1, "name": "aten::mm"}]
    user_file.write_text(
        '[[op_rule]]\nop_type = "my op"\ndirection = "fprop"\npattern = "^my_lib"\n[groups]\n"mine" = ["my op"]\n',
        encoding="utf-8",
    )
    rows = ops(make_profile(ops=recorded_ops, activities=[kernel("k", 5, op=0), kernel("k", 3, op=1)]))
    assert rows.select("op", "op_type", "direction", "group").rows() == [
        ("my_lib::attend", "my op", "fprop", "mine"),
        ("aten::mm", "gemm", None, "gemm"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]", "not TOML"),
        ("rule = 3", "expected [[rule]] tables"),
        ("rule = [3]", "expected [[rule]] tables"),
        ('[[rule]]\nop_type = "x"', "rule 1: pattern must be a string"),
        ('[[rule]]\nop_type = 3\npattern = "a"', "rule 1: op_type must be a string"),
        ('[[rule]]\nop_type = "x"\npattern = "a"\ndirection = "up"', "direction must be fprop, bprop or empty, not up"),
        ('[[rule]]\nop_type = "x"\npattern = "a"\nnoet = "b"', "rule 1: has no key noet"),
        ('[[rule]]\nop_type = "x"\npattern = "(a"', "rule 1: pattern is not a regular expression"),
        ('[[rule]]\nop_type = "x"\npattern = "a(?=b)"', "rule 1: pattern is not a regular expression"),
        ('[groups]\n"a" = "b"', "expected [groups] with lists of op types"),
    ],
)
def test_an_invalid_rules_file_is_an_error_with_the_reason(user_file: Path, text: str, message: str) -> None:
    user_file.write_text(text, encoding="utf-8")
    with pytest.raises(ProftuiError) as error:
        op_rules.op_rules()
    assert message in error.value.message
    assert error.value.message.startswith(str(user_file))
    assert "\n" not in str(error.value)


def test_a_binary_rules_file_is_an_error_with_the_reason(user_file: Path) -> None:
    user_file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProftuiError, match="cannot be read"):
        op_rules.op_rules()


def test_rules_without_groups_are_valid() -> None:
    rules = parse_op_type_rules('[[rule]]\nop_type = "x"\npattern = "a"\n', "mine.toml")
    assert (rules.rules, dict(rules.groups)) == ((OpTypeRule("x", "", "a", ""),), {})


def test_few_kernels_of_deep_learning_are_unclassified() -> None:
    lines = Path(corpus_file("kernel_names.tsv")).read_text(encoding="utf-8").splitlines()[1:]
    frame = pl.DataFrame(
        [(int(count), name) for count, *_, name in (line.split("\t") for line in lines)],
        schema={"calls": pl.Int64, "name": pl.String},
        orient="row",
    )
    classified = frame.join(classify(frame["name"]), on="name")
    unknown = classified.filter(pl.col("op_type") == UNKNOWN)
    assert unknown["calls"].sum() < 0.03 * classified["calls"].sum()
    assert unknown.height < 0.03 * classified.height


@pytest.fixture
def locked_folder(tmp_path: Path) -> Iterator[Path]:
    """Create a folder that this process cannot read, like the home of another user."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "op_types.toml").write_text("not = toml = at all")
    folder.chmod(0)
    # The superuser can read everything.
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_an_inaccessible_home_has_no_rules(locked_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_rules, "op_type_rules_path", lambda: locked_folder / "op_types.toml")
    monkeypatch.setattr(cached_results, "user_file_path", lambda name: locked_folder / "proftui" / name)
    assert user_files.stamp(locked_folder / "op_types.toml") is None
    profile = make_profile(activities=[kernel("volta_sgemm_32x32_nn", 5)], ops=[{"op": 0, "name": "aten::mm"}])
    assert ops(profile)["op"].to_list() == ["(unattributed: reason not recorded)", "aten::mm"]
    results = results_to_cache(profile, with_iterations(profile))
    assert results["rules"].rows() == [("",)]


@pytest.mark.parametrize(
    ("name", "op_type"),
    [
        ("aclnnAdd_AddAiCore_Add", "elementwise"),
        ("aclnnSWhere_SelectV2AiCore_SelectV2", "elementwise"),
        ("aclnnCast_CastAiCore_Cast", "cast"),
        ("trans_TransData_1", "layout"),
        ("aclnnMean_ReduceMeanAiCore_ReduceMean", "reduction"),
        ("aclnnInplaceCopy_TensorMoveAiCore_TensorMove", "copy"),
        ("aclnnInplaceOne_OnesLikeAiCore_OnesLike", "fill"),
        ("aclnnMatmul_MatMulCommon_MatMulV2", "gemm"),
        ("hcom_broadcast__483_0", "communication"),
        ("addPositions", UNKNOWN),
    ],
)
def test_op_types_of_ascend_kernels(name: str, op_type: str) -> None:
    assert classify(pl.Series([name]))["op_type"].to_list() == [op_type]
