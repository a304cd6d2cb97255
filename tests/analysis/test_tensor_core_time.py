"""Work that is eligible for tensor cores, and the share of its time on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import Row, copy, kernel, make_profile, summary_row
from tests.corpus import corpus_file, recording_file
from tests.profiles import load_one
from tui.analysis.dashboard import dashboard
from tui.analysis.ops.op_costs import recorded_ops
from tui.analysis.tensor_core_efficiency import (
    TensorCoreUse,
    eligible_activities,
    eligible_kernels_by_name,
    eligible_ops,
    eligible_ops_by_name,
    tensor_core_time,
    tensor_core_use,
)

if TYPE_CHECKING:
    from tui.model.profile import Profile

TENSOR_CORE_GEMM = "ampere_fp16_s16816gemm_fp16_128x128_tn"
FP32_GEMM = "volta_sgemm_128x32_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
LAYOUT = "nchwToNhwcKernel"
A100 = [{"device": 0, "name": "NVIDIA A100-SXM4-40GB"}]


def use_in(profile: Profile) -> TensorCoreUse:
    return tensor_core_use(tensor_core_time(profile))


def op_rows(*rows: tuple[str, int | None], **fields: Any) -> list[Row]:
    """Return ops by name and parent."""
    common_fields = {"op_source": "recorded", **fields}
    return [
        {"op": number, "name": name, "parent": parent, **common_fields} for number, (name, parent) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("name", "eligible"),
    [
        *(
            (name, True)
            for name in (
                "aten::_convolution", "aten::conv2d", "aten::conv_transpose2d", "aten::cudnn_convolution",
                "aten::addmm",
                "aten::addmm_", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::matmul", "aten::linear",
                "aten::linalg_multi_dot", "aten::lstm_cell", "aten::convolution_backward", "aten::_scaled_mm",
                "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention_backward",
                "aten::_addmm_activation", "aten::_int_mm", "ConvolutionBackward0", "MmBackward0", "AddmmBackward0",
                "autograd::engine::evaluate_function: MmBackward0", "ScaledDotProductFlashAttentionBackward0",
                "flash_attn::_flash_attn_forward", "extern_kernels.mm", "CudnnConvolutionBackward",
                "resnet/conv1/Conv2D", "Conv2DBackpropFilter", "model/dense/MatMul", "a/BatchMatMulV2", "XlaDot",
                "depthwise/DepthwiseConv2dNativeBackpropInput", "rnn/CudnnRNNV3", "jit(f)/dot_general[",
                "linear", "conv2d",
            )
        ),
        *(
            (name, None)
            for name in (
                "aten::mv", "aten::addmv", "aten::addr", "aten::prelu", "aten::relu", "aten::_thnn_fused_lstm_cell",
                "aten::convert", "aten::add", "aten::mm_out_of_this_list", "Conv2DShape", "SparseMatMulShape",
                "nn.Module: Conv2d_3", "aten::_softmax", "optimizer", "forward",
            )
        ),
    ],
)  # fmt: skip
def test_eligible_ops_by_name(name: str, eligible: bool | None) -> None:
    assert eligible_ops_by_name(pl.Series([name]))["eligible"].to_list() == [eligible]


@pytest.mark.parametrize(
    ("name", "eligible"),
    [
        (TENSOR_CORE_GEMM, True),
        (FP32_GEMM, True),
        ("cudnn_convolve_precomputed_sgemm_sm35", True),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", True),
        ("void LSTM_elementWise_fp<float, float>(int)", True),
        (LAYOUT, False),
        ("cublasLt::splitKreduce_kernel<32, 16>", False),
        ("volta_cgemm_32x32_tn", False),
        ("void fft2d_r2c_32x32<float, false, 0u, false>(float2*)", False),
        ("void gemv2T_kernel_val<int, int, float>(float)", False),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(float)", False),
        (ADD, False),
        ("Kernel", None),
        ("triton__0d1d2d3d", None),
    ],
)
def test_eligible_kernels_by_name(name: str, eligible: bool | None) -> None:
    assert eligible_kernels_by_name(pl.Series([name]))["eligible"].to_list() == [eligible]


def test_time_is_counted_on_the_deepest_eligible_op_alone() -> None:
    tree = op_rows(("model", None), ("aten::linear", 0), ("aten::addmm", 1), ("aten::add_", 1), ("aten::relu", 0))
    work = [
        kernel(TENSOR_CORE_GEMM, 100, op=2, device=0),
        kernel(LAYOUT, 30, op=2, device=0),
        copy("DtoD", 1000, op=2, device=0),
        kernel(ADD, 10, op=3, device=0),
        kernel(ADD, 5, op=4, device=0),
    ]
    profile = make_profile(activities=work, ops=tree, devices=A100)
    table = eligible_ops(profile)
    assert table["tc_eligible"].to_list() == [True, True, True, False, False]
    assert table["deepest"].to_list() == [False, False, True, False, False]
    assert eligible_activities(profile).to_list() == [True, True, True, False, False]
    figures = use_in(profile)
    assert (figures.kernel_ns, figures.using_ns, figures.eligible_ns) == (145, 100, 130)
    assert figures.efficiency_pct == pytest.approx(100 * 100 / 130)
    assert figures.share_pct == pytest.approx(100 * 100 / 145)
    eligibility = dict(recorded_ops(profile).select("op", "tc_eligible").rows())
    assert eligibility == {
        "model": True,
        "aten::linear": True,
        "aten::addmm": True,
        "aten::add_": False,
        "aten::relu": False,
    }


def test_an_unknown_op_is_eligible_by_its_launches() -> None:
    work = [
        kernel(TENSOR_CORE_GEMM, 100, op=0, device=0),
        kernel(ADD, 50, op=0, device=0),
        kernel("Kernel", 7, op=0, device=0),
    ]
    recorded = make_profile(activities=work, ops=op_rows(("MyFusedBlock", None)), devices=A100)
    assert eligible_ops(recorded)["tc_eligible"].to_list() == [True]
    assert eligible_activities(recorded).to_list() == [True, False, False]
    # A range has no eligibility of its own.
    with_ranges = make_profile(activities=work, ops=op_rows(("MyFusedBlock", None), op_source="nvtx"), devices=A100)
    assert eligible_activities(with_ranges).to_list() == [True, False, None]


def test_recorded_eligibility_of_ops_is_kept() -> None:
    work = [kernel(TENSOR_CORE_GEMM, 100, op=0, device=0), kernel(ADD, 50, op=1, device=0)]
    tree = [
        {"op": 0, "name": "aten::mm", "tc_eligible": False},
        {"op": 1, "name": "aten::add", "tc_eligible": True},
    ]
    assert eligible_activities(make_profile(activities=work, ops=tree, devices=A100)).to_list() == [False, True]


def test_nothing_applies_on_a_gpu_without_tensor_cores() -> None:
    profile = make_profile(
        activities=[kernel(TENSOR_CORE_GEMM, 100, op=0, device=0)],
        ops=op_rows(("aten::mm", None)),
        devices=[{"device": 0, "name": "Tesla K40c"}],
    )
    assert recorded_ops(profile)["tc_eligible"].to_list() == [False]
    figures = use_in(profile)
    assert (figures.efficiency_pct, figures.share_pct) == (None, None)
    assert figures.reason == "no tensor cores: compute capability 3.5 has none"


def test_the_efficiency_without_eligible_time_is_unknown() -> None:
    no_eligible_time = use_in(make_profile(activities=[kernel(ADD, 10, device=0)], devices=A100))
    assert (no_eligible_time.efficiency_pct, no_eligible_time.share_pct, no_eligible_time.reason) == (None, 0.0, "")
    assert use_in(make_profile(activities=[copy("HtoD", 4)])).reason == "no kernel time"


def test_unknown_time_is_in_no_share_and_is_reported() -> None:
    work = [kernel(TENSOR_CORE_GEMM, 60, device=0), kernel(FP32_GEMM, 20, device=0), kernel("Kernel", 20, device=0)]
    figures = use_in(make_profile(activities=work, devices=A100))
    assert figures.efficiency_pct == figures.share_pct == 75.0
    assert figures.unknown_pct == figures.eligible_unknown_pct == 20.0
    mostly_unknown = use_in(
        make_profile(activities=[kernel(TENSOR_CORE_GEMM, 60, device=0), kernel("Kernel", 61, device=0)], devices=A100)
    )
    assert (mostly_unknown.efficiency_pct, mostly_unknown.share_pct) == (None, None)


def test_shares_are_unknown_if_tensor_core_kernels_have_no_durations() -> None:
    traced = make_profile(
        activities=[kernel(TENSOR_CORE_GEMM, None, device=0), kernel(FP32_GEMM, 5, device=0)], devices=A100
    )
    totals = make_profile(
        summary=[summary_row("gpu", TENSOR_CORE_GEMM, 3, None), summary_row("gpu", FP32_GEMM, 3, 5)], devices=A100
    )
    for profile in (traced, totals):
        assert dict(tensor_core_time(profile).select("name", "total_ns").rows()) == {
            TENSOR_CORE_GEMM: None,
            FP32_GEMM: 5,
        }
        figures = use_in(profile)
        assert (figures.kernel_ns, figures.efficiency_pct, figures.share_pct) == (5, None, None)
        assert figures.reason == "durations of tensor-core kernels not recorded"
        facts = {fact.name: fact for fact in dashboard(profile).performance}
        assert (facts["tc_share_pct"].value, facts["tc_share_pct"].source) == (None, figures.reason)


def test_printed_totals_have_efficiency_and_share() -> None:
    rows = [
        summary_row("gpu", TENSOR_CORE_GEMM, 3, 30),
        summary_row("gpu", FP32_GEMM, 1, 10),
        summary_row("gpu", "[CUDA memset]", 1, 9),
    ]
    figures = use_in(make_profile(summary=rows))
    assert (figures.kernel_ns, figures.efficiency_pct, figures.share_pct) == (40, 75.0, 75.0)


def test_a_gpu_of_another_vendor_cannot_be_chosen() -> None:
    profile = make_profile(summary=[summary_row("gpu", FP32_GEMM, 1, 10)])
    figures = tensor_core_use(tensor_core_time(profile), vendor="Huawei")
    assert (figures.guessed, figures.reason) == (True, "use of tensor cores is unknown on this Huawei NPU")


def test_figures_are_unknown_without_a_gpu_name() -> None:
    rows = [summary_row("gpu", FP32_GEMM, 1, 10), summary_row("gpu", ADD, 1, 5)]
    totals = make_profile(summary=rows)
    for profile in (totals, make_profile(activities=[kernel(FP32_GEMM, 10, device=0), kernel(ADD, 5, device=0)])):
        figures = use_in(profile)
        assert (figures.efficiency_pct, figures.share_pct, figures.guessed) == (None, None, True)
        assert figures.reason == ("unknown GPU, which may have no tensor cores: choose it with --gpu")
    old, new = use_in(replace(totals, gpu="Tesla M40")), use_in(replace(totals, gpu="A100"))
    assert (old.share_pct, old.reason) == (None, "no tensor cores: compute capability 5.2 has none")
    assert (new.efficiency_pct, new.share_pct, new.reason) == (0.0, 0.0, "")


def test_the_dashboard_lists_no_unknown_figures_of_tensor_cores_of_other_gpus_than_nvidias() -> None:
    work = [kernel("Kernel", 25, device=0)]
    names = {"tc_efficiency_pct", "tc_share_pct", "tc_unknown_pct"}
    for device, listed in ((A100, names), ([{"device": 0, "name": "AMD Instinct MI300X"}], set())):
        facts = dashboard(make_profile(activities=work, devices=device)).performance
        assert {fact.name for fact in facts} & names == listed


def test_the_dashboard_names_both_figures() -> None:
    work = [kernel(TENSOR_CORE_GEMM, 60, device=0), kernel(ADD, 40, device=0), kernel("Kernel", 25, device=0)]
    facts = {fact.name: fact for fact in dashboard(make_profile(activities=work, devices=A100)).performance}
    assert (facts["tc_efficiency_pct"].label, facts["tc_efficiency_pct"].value) == ("TC efficiency (DLProf)", 100.0)
    assert (facts["tc_share_pct"].label, facts["tc_share_pct"].value) == ("TC share (TensorBoard)", 60.0)
    note = "without {} of the kernel time{}, whose tensor-core use is unknown"
    assert facts["tc_share_pct"].source.endswith(note.format("20.0%", ""))
    assert facts["tc_efficiency_pct"].source.endswith(note.format("29.4%", " of eligible ops"))
    mostly_unknown = [
        kernel(TENSOR_CORE_GEMM, 60, device=0),
        kernel(ADD, 40, device=0),
        kernel("Kernel", 300, device=0),
    ]
    sources = {
        fact.name: fact.source for fact in dashboard(make_profile(activities=mostly_unknown, devices=A100)).performance
    }
    assert sources["tc_efficiency_pct"] == "tensor-core use unknown for 83.3% of the kernel time of eligible ops"
    assert sources["tc_share_pct"] == "tensor-core use unknown for 75.0% of the kernel time"
    assert facts["tc_unknown_pct"].value == 20.0
    without_tensor_cores = dashboard(make_profile(activities=work, devices=[{"device": 0, "name": "K40c"}])).performance
    assert [(fact.value, fact.source) for fact in without_tensor_cores if fact.name.startswith("tc_")] == [
        (None, "no tensor cores: compute capability 3.5 has none")
    ] * 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from([TENSOR_CORE_GEMM, FP32_GEMM, ADD, LAYOUT, "Kernel"]),
            st.integers(0, 1000),
            st.sampled_from([None, 0, 1, 2, 3]),
            st.sampled_from([None, True, False]),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_kernel_times_add_up_and_shares_are_bounded(
    rows: list[tuple[str, int, int | None, bool | None]], has_ops: bool
) -> None:
    work = [kernel(name, duration_ns, device=0, op=op, uses_tensor_core=uses) for name, duration_ns, op, uses in rows]
    ops = op_rows(("aten::linear", None), ("aten::mm", 0), ("aten::relu", None), ("x", 1)) if has_ops else []
    profile = make_profile(activities=work, ops=ops, devices=A100)
    table = tensor_core_time(profile)
    assert table["total_ns"].sum() == sum(duration_ns for _, duration_ns, _, _ in rows)
    assert table["launches"].sum() == len(rows)
    figures = use_in(profile)
    for share in (figures.efficiency_pct, figures.share_pct, figures.unknown_pct, figures.eligible_unknown_pct):
        assert share is None or 0 <= share <= 100
    assert figures.eligible_using_ns <= min(figures.using_ns, figures.eligible_ns)


@pytest.mark.parametrize(
    ("name", "efficiency", "share"),
    [
        # Half of the straggler's matrix products are in single precision without tensor cores.
        ("ddp_rank0.pt.trace.json.gz", 97.7, 10.9),
        ("ddp_rank1.pt.trace.json.gz", 16.8, 11.4),
        ("resnet50_amp.pt.trace.json.gz", 95.5, 30.3),
        ("tiny_kernels.pt.trace.json.gz", None, 0.0),
        # Most kernels are in graphs that are recorded as a whole.
        ("gpt_cudagraph.nsys.sqlite.gz", None, None),
    ],
)
def test_efficiency_and_share_of_recordings(name: str, efficiency: float | None, share: float | None) -> None:
    figures = use_in(load_one(recording_file(name)))
    rounded = [None if value is None else round(value, 1) for value in (figures.efficiency_pct, figures.share_pct)]
    assert rounded == [efficiency, share]


def test_a_trace_without_time_on_tensor_cores() -> None:
    name = "kineto/resnet50_nw0_worker0.1623143089861.pt.trace.json.gz"
    assert use_in(load_one(corpus_file(name))).share_pct == 0.0


def test_a_kernel_without_a_name_is_unknown() -> None:
    work = [kernel(TENSOR_CORE_GEMM, 30), {**kernel("", 70), "name": None}]
    figures = use_in(make_profile(activities=work, devices=A100))
    assert (figures.kernel_ns, figures.using_ns, figures.unknown_ns, figures.share_pct) == (100, 30, 70, None)
