"""Tensor core use by kernel name."""

from __future__ import annotations

import polars as pl
import pytest

from tests.corpus import corpus_file
from tui.analysis.tensor_core_use import parse_tensor_core_rules, tensor_core_rules, tensor_cores_by_name
from tui.model.errors import ProftuiError

TENSOR_CORE_KERNELS = (
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1",
    "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_medium_nhwc_tn_v1",
    "cutlass_tensorop_h884fprop_analytic_64x64_32x2",
    "nvjet_tst_128x320_64x3_2x1_v_bz_coopB_NNN",
    "volta_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_interior_nhwc2nchw_tn_v1",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(flash::Flash_fwd_params)",
    "sm80_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x64x16_tensor8x8x4_execute_kernel_cublas",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
    "fmha_cutlassF_f16_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel)",
)
OTHER_KERNELS = (
    "volta_sgemm_128x32_nn",
    "volta_fp16_scudnn_fp16_128x32_relu_small_nn_v1",
    "nchwToNhwcKernel",
    "implicit_convolve_hhgemm",
    "redzone_checker",
    "cudnn_convolve_precomputed_sgemm_sm35",
    "SubTensorOpWithScalar1d",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm50(PyTorchMemEffAttention::AttentionKernel)",
    # Single precision uses tensor cores only from compute capability 8.0 on.
    "fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel)",
    "fmha_cutlassB_f32_notaligned_64x64_k64_dropout_sm75(PyTorchMemEffAttention::AttentionKernel)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
    "[CUDA memcpy HtoD]",
    "triton_poi_fused_add_cos_sin_0",
    "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(flash::Flash_fwd_params)",
)
UNKNOWN_KERNELS = ("Kernel", "device_kernel", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "attn_fwd", "")


@pytest.mark.parametrize(
    ("names", "verdict"),
    [(TENSOR_CORE_KERNELS, True), (OTHER_KERNELS, False), (UNKNOWN_KERNELS, None)],
    ids=["yes", "no", "unknown"],
)
def test_verdicts_by_name(names: tuple[str, ...], verdict: bool | None) -> None:
    rows = tensor_cores_by_name(pl.Series(names))
    assert {name: uses for name, uses, _ in rows.rows()} == dict.fromkeys(names, verdict)
    assert rows["tensor_core_reason"].null_count() == 0


def test_public_kernel_names_agree_with_a_prototype_or_are_unknown() -> None:
    path = corpus_file("kernel_names.tsv")
    table = pl.read_csv(path, separator="\t", quote_char=None).select("name", "proto_tc")
    by_name = tensor_cores_by_name(table["name"]).with_columns(pl.col("name").cast(pl.String))
    compared = table.join(by_name, on="name")
    # Measured: these kernels only add up partial products.
    is_split_k = pl.col("name").str.contains("execute_split_k_kernel")
    assert compared.filter(is_split_k)["uses_tensor_core"].to_list() == [False, False, False]
    compared = compared.filter(~is_split_k)
    expected = {"yes": True, "no": False}
    verdicts = [
        (expected.get(prototype), verdict)
        for prototype, verdict in compared.select("proto_tc", "uses_tensor_core").rows()
    ]
    assert len(verdicts) == 972
    assert not [pair for pair in verdicts if None not in pair and pair[0] != pair[1]]
    assert sum(verdict is None for _, verdict in verdicts) <= 45


def test_op_types_without_tensor_cores_are_op_types() -> None:
    from tui.analysis.ops.op_type_rules import op_rules

    assert tensor_core_rules().types_without <= {rule.op_type for rule in op_rules().rules}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]]\nverdict = 'maybe'\npattern = 'a'\nreason = ''", "verdict must be yes, no or unknown, not maybe"),
        ("[[rule]]\nverdict = 'yes'\npattern = '('\nreason = ''", "rule 1: pattern is not a regular expression"),
        ("[[rule]]\nverdict = 'yes'", "expected verdict, pattern and reason"),
        ("rule = 1", r"expected \[\[rule\]\] tables"),
        ("a = ", "not TOML"),
        ("devices_without = ['(']", "devices_without 1: pattern is not a regular expression"),
        ("eligible_types = 'gemm'", "expected a list of strings called eligible_types"),
        ("[[eligible]]\nof = 'layer'\nverdict = 'yes'\npattern = 'a'", "of must be op or kernel"),
        ("[[eligible]]\nof = 'op'\nverdict = 'yes'\npattern = '('", "eligible 1: pattern is not a regular expression"),
    ],
)
def test_the_users_rules_are_validated(text: str, message: str) -> None:
    with pytest.raises(ProftuiError, match=message):
        parse_tensor_core_rules(text, "own.toml")
