"""FLOPs, bytes and the roofline of op calls, in built profiles and in traces that TraceLens analyzed."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.corpus import corpus_file, shared_file
from tests.loaders.kineto import traces
from tests.profiles import load_one
from tui.analysis.devices import find_peaks, peak_option
from tui.analysis.iterations.times import with_mfu
from tui.analysis.ops.op_instances import recorded_op_kernels
from tui.analysis.roofline import (
    exported_op_work,
    exported_op_work_by_shape,
    kernels_with_rates,
    missing_rates_reason,
    op_work,
    op_work_by_shape,
    op_work_unknown,
    ops_with_rates,
    rooflines,
    shape_calls,
)
from tui.loaders.registry import load
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

MM = {"input_shapes": "[[1024, 512], [512, 256]]", "input_types": '["bfloat16", "bfloat16"]'}
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def op(name: str, number: int, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    return {
        **{"op": number, "name": name, "parent": parent, "pid": 9, "tid": 1, "op_source": "recorded"},
        **{"start_ns": number, "duration_ns": 100 - 2 * number},
        **fields,
    }


def launch(op_number: int, duration_ns: int, name: str = GEMM, **fields: Any) -> dict[str, Any]:
    return kernel(name, duration_ns, op=op_number, op_join="launch", device=0, **fields)


H200 = [{"session": 0, "device": 0, "name": "NVIDIA H200"}]


def test_a_matrix_product_is_bound_by_memory() -> None:
    profile = make_profile(ops=[op("aten::mm", 0, **MM)], activities=[launch(0, 2000)], devices=H200)
    (row,) = op_work(profile).rows(named=True)
    flops, moved_bytes = 2 * 1024 * 256 * 512, 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert (row["flops"], row["bytes"], row["gpu_ns"], row["peak"]) == (flops, moved_bytes, 2000, "bf16")
    assert row["tflops_per_s"] == pytest.approx(flops / 2e-6 / 1e12)
    assert row["tb_per_s"] == pytest.approx(moved_bytes / 2e-6 / 1e12)
    # 268 MFLOP take 271 ns at 989.4 TFLOP/s, 1.8 MB take 382 ns at 4.8 TB/s.
    assert (row["bound"], row["roof_ns"]) == ("memory", pytest.approx(1e9 * moved_bytes / 4.8e12))
    assert row["roof_pct"] == pytest.approx(100 * (1e9 * moved_bytes / 4.8e12) / 2000)


def test_wrappers_count_only_without_a_nested_product() -> None:
    ops = [
        op("aten::linear", 0, input_shapes="[[1024, 512], [256, 512]]", input_types='["bfloat16", "bfloat16"]'),
        op("aten::mm", 1, 0, **MM),
        op("aten::linear", 2, input_shapes="[[1024, 512], [256, 512]]", input_types='["bfloat16", "bfloat16"]'),
    ]
    profile = make_profile(ops=ops, activities=[launch(1, 2000), launch(2, 3000, start_ns=5000)], devices=H200)
    assert op_work(profile).select("row", pl.col("op").cast(str), "gpu_ns").rows() == [
        (1, "aten::mm", 2000),
        (2, "aten::linear", 3000),
    ]


def test_a_nested_product_is_exported_but_not_summed_twice() -> None:
    ops = [
        op("vllm::rocm_unquantized_gemm", 0, input_shapes="[[1024, 512], [256, 512], []]",
           input_types='["bfloat16", "bfloat16", ""]'),
        op("aten::mm", 1, 0, **MM),
    ]  # fmt: skip
    profile = make_profile(ops=ops, activities=[launch(1, 2000)], devices=H200)
    assert op_work(profile)["op"].cast(str).to_list() == ["vllm::rocm_unquantized_gemm"]
    exported = exported_op_work(profile)
    assert exported.select(pl.col("op").cast(str), "counted_in", "gpu_self_ns", "flops", "peak", "bound").rows() == [
        ("vllm::rocm_unquantized_gemm", None, 2000, 2 * 1024 * 256 * 512, "bf16", "memory"),
        ("aten::mm", "vllm::rocm_unquantized_gemm", 2000, 2 * 1024 * 256 * 512, "bf16", "memory"),
    ]
    assert exported_op_work_by_shape(profile).select("calls", "counted_in").sort("counted_in").rows() == [
        (1, None),
        (1, "vllm::rocm_unquantized_gemm"),
    ]


def test_the_kernel_name_gives_the_element_type_of_a_concatenation() -> None:
    arguments = {"input_shapes": "[[[8], [8]], []]", "input_types": '["TensorList", "Scalar"]'}
    kernel_name = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>(...)"
    profile = make_profile(
        ops=[op("aten::cat", 0, **arguments)], activities=[launch(0, 1000, kernel_name)], devices=H200
    )
    (row,) = op_work(profile).rows(named=True)
    assert (row["flops"], row["bytes"], row["bound"]) == (0, 2 * 16 * 4, "memory")
    assert row["formula"] == "elements of the lists read and written, 4 B each by the kernel name"


def test_a_softmax_that_widens_half_precision_writes_four_bytes_an_element() -> None:
    inputs = {"Input_Dims": [[8, 16], [], []], "Input_type": ["c10::Half", "Scalar", "Scalar"]}
    profile = traces.read(
        [
            traces.op("aten::_softmax", 10, 10, **inputs, Concrete_Inputs=["", "-1", "True"]),
            traces.call(1, 12),
            traces.kernel(1, 30, name="cunn_SoftMaxForward"),
        ]
    )
    assert op_work(profile).select("flops", "bytes").rows() == [(0, 8 * 16 * (2 + 4))]


def test_copies_from_the_host_are_not_bound_by_gpu_memory() -> None:
    arguments = {"input_shapes": "[[8], [8], []]", "input_types": '["float32", "float32", "Scalar"]'}
    copy = kernel("[CUDA memcpy HtoD]", 500, kind="memcpy", copy_kind="HtoD", op=0, op_join="launch", device=0)
    profile = make_profile(ops=[op("aten::copy_", 0, **arguments)], activities=[copy], devices=H200)
    assert op_work(profile).is_empty()


def test_an_unknown_gpu_has_rates_but_no_bound() -> None:
    profile = make_profile(ops=[op("aten::mm", 0, **MM)], activities=[launch(0, 2000)])
    (row,) = op_work(profile).rows(named=True)
    assert row["tflops_per_s"] is not None
    assert [row[name] for name in ("roof_ns", "roof_pct", "bound", "peak")] == [None] * 4


def test_user_peaks_override_recorded_peaks() -> None:
    devices = [{**H200[0], "memory_bandwidth": 4.0e12}]
    profile = make_profile(ops=[op("aten::mm", 0, **MM)], activities=[launch(0, 2000)], devices=devices)
    with_user_peaks = replace(profile, peaks=(peak_option("bf16=100"), peak_option("bandwidth=1000")))
    (row,) = op_work(with_user_peaks).rows(named=True)
    moved_bytes = 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert (row["bound"], row["peak_flops_per_s"]) == ("compute", 100e12)
    assert row["roof_ns"] == pytest.approx(2 * 1024 * 256 * 512 / 100e3)
    assert op_work(profile)["roof_ns"].item() == pytest.approx(1e9 * moved_bytes / 4.0e12)
    without_device = make_profile(ops=[op("aten::mm", 0, **MM)], activities=[launch(0, 2000)])
    assert op_work(replace(without_device, peaks=with_user_peaks.peaks))["bound"].to_list() == ["compute"]


@pytest.mark.parametrize("text", ["bf17=1", "bf16", "bf16=0", "bf16=nan", "bf16=1e99", "=1"])
def test_an_invalid_peak_is_an_error(text: str) -> None:
    with pytest.raises(ProftuiError, match="--peak"):
        peak_option(text)


def test_ops_kernels_and_iterations_have_rate_columns() -> None:
    ops = [
        op("aten::linear", 0, input_shapes="[[1024, 512], [256, 512]]", input_types='["bfloat16", "bfloat16"]'),
        op("aten::mm", 1, 0, **MM, iteration=3),
        op("aten::cat", 4, input_shapes="[[[8], [8]], []]", input_types='["TensorList", "Scalar"]', iteration=3),
    ]
    ranges = [{"name": "ProfilerStep#3", "start_ns": 0, "duration_ns": 8000, "iteration": 3}]
    launches = [launch(1, 2000, iteration=3), launch(4, 1000, start_ns=4000, iteration=3, name="cat")]
    profile = make_profile(ops=ops, activities=launches, devices=H200, ranges=ranges)
    rate = 2 * 1024 * 256 * 512 / 2e-6 / 1e12
    rows = {row["op"]: row for row in ops_with_rates(profile).iter_rows(named=True)}
    assert rows["aten::mm"]["tflops_per_s"] == pytest.approx(rate)
    assert (rows["aten::mm"]["bound"], rows["aten::cat"]["tb_per_s"]) == ("memory", None)
    kernels = {row["name"]: row["tflops_per_s"] for row in kernels_with_rates(profile).iter_rows(named=True)}
    assert kernels == {GEMM: pytest.approx(rate), "cat": None}
    iterations = with_mfu(profile, pl.DataFrame({"session": [0], "iteration": [3], "duration_ns": [8000]},
                                        schema_overrides={"session": pl.UInt32, "iteration": pl.Int32}))  # fmt: skip
    assert iterations["mfu_pct"].item() == pytest.approx(100 * rate * 2000 / 8000 / 989.4)
    unnamed = make_profile(ops=ops, activities=[*launches, kernel("cat", 1)], devices=H200, ranges=ranges)
    assert with_mfu(unnamed, iterations.select("session", "iteration", "duration_ns"))["mfu_pct"].item() == (
        iterations["mfu_pct"].item()
    )
    assert op_work_unknown(profile).select("op", "gpu_ns", "work_unknown").rows() == [
        (
            "aten::cat",
            1000,
            "PyTorch does not record the element types of tensor lists, and the kernel name does not contain them",
        )
    ]


def test_the_bound_of_an_op_is_that_of_most_of_its_time_at_the_roof() -> None:
    large = {"input_shapes": "[[640, 640], [640, 640]]", "input_types": MM["input_types"]}
    ops = [op("aten::mm", 0, **MM), op("aten::mm", 1, **MM), op("aten::mm", 2, **large)]
    launches = [launch(number, 2000, start_ns=3000 * number) for number in range(3)]
    profile = make_profile(ops=ops, activities=launches, devices=H200)
    calls = [(bound, round(roof_ns)) for bound, roof_ns in op_work(profile).select("bound", "roof_ns").rows()]
    assert calls == [("memory", 382), ("memory", 382), ("compute", 530)]
    assert ops_with_rates(profile)["bound"].to_list() == ["memory"]


def test_expert_sizes_come_from_the_views_within_the_op() -> None:
    bf16 = '["bfloat16", "bfloat16"]'
    ops = [
        op("vllm::moe_forward", 0, input_shapes="[[8, 64], [8, 4]]", input_types=bf16),
        op("SortTokens", 1, 0, input_shapes="[[8, 2], [8, 2]]", input_types='["bfloat16", "int16"]'),
        op("aten::view", 2, 0, input_shapes="[[8, 64]]", input_types='["bfloat16"]'),
        # Four bits a weight: 64 x 96 and 48 x 64 for each of four experts.
        op("aten::view", 3, 0, input_shapes="[[4, 32, 96], []]", input_types='["uint8", "ScalarList"]'),
        op("aten::view", 4, 0, input_shapes="[[4, 24, 64], []]", input_types='["uint8", "ScalarList"]'),
    ]
    profile = make_profile(ops=ops, activities=[launch(0, 2000)], devices=H200)
    (row,) = op_work(profile).rows(named=True)
    assert row["formula"] == "2·T·topk·(H·up + inner·H), T=8 topk=2 H=64 up=96 inner=48"
    assert row["flops"] == 2 * 16 * (64 * 96 + 48 * 64)
    assert row["bytes"] == 2 * 2 * 8 * 64 + 4 * (32 * 96 + 24 * 64)
    assert row["peak"] == "bf16"
    for left_out, reason in (
        (1, "the number of experts per token is not recorded in vllm::moe_forward"),
        (4, "the sizes of the experts are not recorded in vllm::moe_forward"),
    ):
        remaining = [row for row in ops if row["op"] != left_out]
        assert op_work_unknown(make_profile(ops=remaining, activities=[launch(0, 2000)]))["work_unknown"].to_list() == [
            reason
        ]


def test_a_kernel_has_rates_only_where_it_does_most_of_its_op() -> None:
    ops = [op("aten::linear", 0), op("aten::mm", 1, 0, **MM), op("aten::mm", 3, **MM), op("aten::unique", 6)]
    launches = [
        *(launch(1, 2000, activity=0), launch(1, 100, "zero", start_ns=3000, activity=1)),
        *(launch(3, 1000, "half", start_ns=4000, activity=2), launch(3, 1000, "rest", start_ns=6000, activity=3)),
        *(launch(6, 500, "sort", start_ns=8000, activity=4), kernel("x", 9, start_ns=9000, device=0, activity=5)),
    ]
    profile = make_profile(ops=ops, activities=launches, devices=H200)
    rows = recorded_op_kernels(profile, session=0, op="aten::linear").select("name", "tflops_per_s", "bound").rows()
    flops = 2 * 1024 * 256 * 512
    assert [(str(name), rate, bound) for name, rate, bound in rows] == [
        (GEMM, pytest.approx(flops / 2000 / 1e3), "memory"),
        ("zero", None, None),
    ]
    assert recorded_op_kernels(profile, session=0, op="aten::unique")["tb_per_s"].to_list() == [None]
    shared = "other launches of its op take more than 10% of the op's GPU time"
    assert [missing_rates_reason(profile, number) for number in range(6)] == [
        *("", shared, shared, shared),
        *("no formula for this op", "the op that launched it is unknown"),
    ]


def test_calls_without_shapes_have_no_work() -> None:
    assert op_work(make_profile(ops=[op("aten::mm", 0)], activities=[launch(0, 2000)], devices=H200)).is_empty()


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA H200 NVL", 835.5),
        ("NVIDIA H800", 989.4),
        ("NVIDIA H800 PCIe", None),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA B300 SXM6 AC", 2250.0),
        ("AMD Instinct MI300X OAM", 1307.4),
        ("Intel(R) Data Center GPU Max 1550", 838.9),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA L40S", 362.0),
        ("NVIDIA A10", 125.0),
        ("NVIDIA GeForce RTX 4090", 165.2),
    ],
)
def test_peaks_are_dense_and_depend_on_the_form_factor(name: str, bf16: float | None) -> None:
    peaks = find_peaks(name)
    assert peaks is not None
    assert peaks.flops_per_s.get("bf16") == (None if bf16 is None else pytest.approx(1e12 * bf16))


def test_the_peak_of_float32_depends_on_tensor_cores() -> None:
    peaks = find_peaks("NVIDIA A100-SXM4-80GB")
    assert peaks is not None
    assert peaks.for_type("float32", True) == ("tf32", 156e12)
    assert peaks.for_type("float32", False) == ("fp32", 19.5e12)
    assert peaks.for_type("float32", None) is None
    assert peaks.for_type("float64", True) == ("fp64_tensor", 19.5e12)
    assert peaks.for_type("complex64", True) is None


@pytest.mark.parametrize(
    ("name", "tokens"), [("vllm_decode_full", 32), ("vllm_prefilldecode_piecewise", 8192)], ids=["decode", "mixed"]
)
def test_replayed_vllm_experts_have_the_sizes_of_their_capture(name: str, tokens: int) -> None:
    profile, _ = load((shared_file(f"corpus2/inference/{name}/graph_execution.json.gz"),))
    assert profile is not None
    expert_work = op_work_by_shape(profile).filter(pl.col("op").cast(pl.String) == "vllm::moe_forward")
    assert expert_work.select("calls", "flops").rows() == [(24, 2 * tokens * 4 * (3072 * 5888 + 2944 * 3072))]
    (roofline,) = rooflines(profile)
    assert roofline.covered_pct == pytest.approx(100, abs=0.04)


REFERENCES: Mapping[str, tuple[str, str]] = {
    "h100": (
        "corpus2/roofline/h100_Falconsai_nsfw_image_detection__1016002.json.gz",
        "corpus2/roofline/h100_Falconsai_nsfw_image_detection__1016002_csvs",
    ),
    "mi300": (
        "corpus2/roofline/mi300_gaunernst_bert-small-uncased__1016001.json.gz",
        "corpus2/roofline/mi300_gaunernst_bert-small-uncased__1016001_csvs",
    ),
    "triton": (
        "corpus2/inference/torch_compile_triton/trace.json.gz",
        "corpus2/inference/torch_compile_triton/trace_perf_report_csvs",
    ),
    "bert": (
        "corpus/kineto/gaunernst_bert-small-uncased__1016001.json.gz",
        "corpus/kineto/gaunernst_bert-small-uncased__1016001_perf_report_csvs",
    ),
    "qwen": (
        "corpus/kineto/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "corpus/kineto/Qwen_Qwen1.5-0.5B-Chat__1016005_perf_report_csvs",
    ),
    "vllm decode": (
        "corpus2/inference/vllm_decode_full/graph_execution.json.gz",
        "corpus2/inference/vllm_decode_full/perf_csvs",
    ),
    "vllm prefill and decode": (
        "corpus2/inference/vllm_prefilldecode_piecewise/graph_execution.json.gz",
        "corpus2/inference/vllm_prefilldecode_piecewise/perf_csvs",
    ),
}
"""Traces, each with the tables that TraceLens exported from it."""

WITH_FLOPS = ("GEMM", "CONV_fwd", "SDPA_fwd", "InferenceAttention")
"""Categories of ops for which TraceLens has the same FLOPs."""

OTHER_BYTES = ("aten::layer_norm", "aten::mean", "aten::add", "aten::mul", "triton_poi_fused__to_copy_1")
"""Ops for which TraceLens has other bytes in some calls. It counts the statistics of a normalization, leaves out
the output of a reduction, takes a scalar for a tensor and counts one side of a conversion.
FLOPs of ops without matrix products are not compared either: zero here, one per element in TraceLens."""


@pytest.mark.parametrize("name", REFERENCES)
def test_work_agrees_with_tracelens(name: str) -> None:
    trace, tables = (shared_file(candidate) for candidate in REFERENCES[name])
    profile, _ = load((trace,))
    assert profile is not None
    _compare_exported_work(profile, tables)
    work = op_work_by_shape(profile).with_columns(pl.col("op", "shapes").cast(pl.String))
    work_by_call: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in work.iter_rows(named=True):
        work_by_call.setdefault((row["op"], json.dumps(json.loads(row["shapes"]))), []).append(row)
    reference = pl.read_csv(f"{tables}/unified_perf_summary.csv", infer_schema_length=None)
    compared = Counter[str]()
    for row in reference.iter_rows(named=True):
        rows = work_by_call.get((row["name"], json.dumps(ast.literal_eval(row["Input Dims"]))))
        if rows is None or row["Data Moved (MB)"] is None:
            continue
        with_flops = row["op category"] in WITH_FLOPS
        if with_flops:
            assert rows[0]["flops"] / 1e9 == pytest.approx(row["GFLOPS"], rel=1e-9)
        if row["name"] not in OTHER_BYTES:
            # Calls of other types have the same shapes.
            megabytes = pytest.approx(row["Data Moved (MB)"], rel=1e-9)
            assert any(candidate["bytes"] / 2**20 == megabytes for candidate in rows) or len(rows) > 1
        if with_flops and len(rows) == 1 and rows[0]["calls"] == row["operation_count"]:
            # The reference subtracts times in microseconds since 1970 as binary floats, which step by 0.24 ns.
            assert rows[0]["tflops_per_s"] == pytest.approx(row["TFLOPS/s_mean"], rel=2e-5)
            compared["rates"] += 1
        compared[row["op category"]] += 1
    assert compared["GEMM"] >= 3, compared
    assert compared["rates"] >= 3, compared
    assert compared["SDPA_fwd"] + compared["InferenceAttention"] >= 1, compared


def _compare_exported_work(profile: Profile, tables: str) -> None:
    """Compare each row of the TraceLens tables of products and convolutions, nested calls included."""
    work_by_call: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in exported_op_work_by_shape(profile).iter_rows(named=True):
        work_by_call.setdefault((row["op"], json.dumps(json.loads(row["shapes"]))), []).append(row)
    for table in [candidate for name in ("GEMM", "CONV_fwd") for candidate in Path(tables).glob(f"{name}.csv")]:
        for row in pl.read_csv(table, infer_schema_length=None).iter_rows(named=True):
            rows = work_by_call[row["name"], json.dumps(ast.literal_eval(row["Input Dims_first"]))]
            assert sum(candidate["calls"] for candidate in rows) == row["name_count"]
            for candidate in rows:
                assert candidate["flops"] / 1e9 == pytest.approx(row["GFLOPS_first"], rel=1e-12)
                assert candidate["bytes"] / 2**20 == pytest.approx(row["Data Moved (MB)_first"], rel=1e-12)
            if len(rows) == 1:
                assert rows[0]["tflops_per_s"] == pytest.approx(row["TFLOPS/s_mean"], rel=2e-5)


def test_recorded_element_types_decide_the_peak() -> None:
    work = op_work_by_shape(load_one(corpus_file("kineto/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")))
    products = work.filter(pl.col("op").cast(pl.String) == "aten::mm")
    assert set(products["peak"].cast(pl.String)) == {"bf16"}
    assert set(products["bound"].cast(pl.String)) == {"compute"}


def test_the_roofline_of_a_session() -> None:
    ops = [op("aten::mm", 0, **MM), op("aten::unknown", 1)]
    launches = [launch(0, 2000, start_ns=0), launch(1, 6000, start_ns=4000, name="other")]
    (roofline,) = rooflines(make_profile(ops=ops, activities=launches, devices=H200))
    flops = 2 * 1024 * 256 * 512
    # 2 µs of 8 µs of GPU work are of an op with a formula; the wall time is 10 µs.
    assert (roofline.gpu_ns, roofline.covered_pct, roofline.flops) == (2000, 25.0, flops)
    assert roofline.tflops_per_s == pytest.approx(flops / 10e-6 / 1e12)
    assert roofline.mfu_pct == pytest.approx(100 * flops / 989.4e12 / 10e-6)
    # Work without a recorded GPU is not of a GPU of its own.
    unnamed = [*launches, kernel("other", 1, start_ns=9000)]
    (same,) = rooflines(make_profile(ops=ops, activities=unnamed, devices=H200))
    assert same.mfu_pct == roofline.mfu_pct
    moved_bytes = 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert roofline.gain_ns == round(2000 - 1e9 * moved_bytes / 4.8e12)


def test_recomputed_products_count_in_hfu_but_not_in_mfu() -> None:
    recomputed = "autograd::engine::evaluate_function: CheckpointFunctionBackward/CheckpointFunctionBackward/Linear_0"
    ops = [
        op("aten::mm", 0, **MM, direction="fprop", group="Linear_0"),
        op("aten::mm", 1, **MM, direction="fprop", group=recomputed),
        op("aten::mm", 2, **MM, direction="bprop", forward=0, group="autograd::engine::evaluate_function: MmBackward0"),
    ]
    launches = [launch(number, 2000, start_ns=2000 * number) for number in range(3)]
    (roofline,) = rooflines(make_profile(ops=ops, activities=launches, devices=H200))
    utilization_of_one = 100 * 2 * 1024 * 256 * 512 / 989.4e12 / 6e-6
    assert (roofline.mfu_pct, roofline.hfu_pct) == (
        pytest.approx(2 * utilization_of_one),
        pytest.approx(3 * utilization_of_one),
    )


def test_the_calls_of_a_shape_are_sorted_by_gpu_time() -> None:
    profile = make_profile(
        ops=[op("aten::mm", 0, **MM), op("aten::mm", 1, **MM)],
        activities=[launch(0, 2000), launch(1, 3000, start_ns=5000)],
        devices=H200,
    )
    (shape,) = op_work_by_shape(profile).rows(named=True)
    assert (shape["calls"], shape["gpu_ns"]) == (2, 5000)
    assert shape_calls(profile, shape)["gpu_ns"].to_list() == [3000, 2000]
    assert shape_calls(profile, None).is_empty()


@pytest.mark.parametrize(
    "shapes", ["x", "7", "[" * 2_000, f"[[{'9' * 5_000}, 2], [2, 3]]", f"[[{'9' * 400}, 2], [2, 3]]"]
)
def test_malformed_shapes_have_no_work(shapes: str) -> None:
    profile = make_profile(ops=[op("aten::mm", 0, **{**MM, "input_shapes": shapes})], activities=[launch(0, 2000)])
    assert op_work(profile).is_empty()
