"""Comparisons of two profiles: changes, families of names, and sums that agree with each side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.analysis.expert.profiles import MS, launch, step_range, trace_of
from tests.analysis.frames import Row, copy, kernel, make_profile
from tests.corpus import recording_file
from tests.profiles import load, load_one
from tests.screens.explorer import sample_path
from tui.analysis.compare.changes import (
    CHANGED_KERNELS,
    base_call,
    changed_api,
    changed_findings,
    changed_kernels,
    changed_layers,
    changed_op_types,
    changed_ops,
    has_layers,
    kernel_family,
    largest_changes,
    op_family,
)
from tui.analysis.compare.headline import (
    Figure,
    busy_and_idle_sentence,
    headline,
    judge,
    verdict_sentence,
)
from tui.analysis.compare.run_times import compare_runs, run_times
from tui.analysis.compare.sides import sides
from tui.analysis.iterations.iteration_table import iterations
from tui.model.columns import ColumnKind
from tui.output.diff import Diff

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Sides
    from tui.model.profile import Profile

TRAINING, TRACE = "resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz"


def sample_profile(name: str) -> Profile:
    return load_one(sample_path(name))


def with_activities(profile: Profile, predicate: pl.Expr) -> Profile:
    return replace(profile, frames={**profile.frames, "activities": profile["activities"].filter(predicate)})


@pytest.fixture(scope="module")
def nvprof_and_pytorch() -> Sides:
    """Return a comparison of the same run recorded by nvprof and by PyTorch."""
    return sides(sample_profile(TRAINING), sample_profile(TRACE), ("nvprof", "PyTorch"))


def test_figures_are_per_iteration_if_both_sides_have_iterations(nvprof_and_pytorch: Sides) -> None:
    assert nvprof_and_pytorch.per_iteration
    assert nvprof_and_pytorch.a.count == 5
    assert nvprof_and_pytorch.b.count == 5
    assert nvprof_and_pytorch.basis == "per iteration: baseline 5, candidate 5"
    total_ns = sample_profile(TRACE)["activities"]["duration_ns"].sum()
    assert (
        nvprof_and_pytorch.b.left_out_ns + nvprof_and_pytorch.b.profile["activities"]["duration_ns"].sum() == total_ns
    )


def test_whole_runs_are_compared_on_request_or_if_iterations_are_missing() -> None:
    compared = sides(sample_profile(TRACE), sample_profile(TRACE), ("a", "b"), whole_runs=True)
    assert (compared.per_iteration, compared.basis, compared.a.count) == (False, "of the whole runs", None)
    caffe = sample_profile("caffe_conv1.nvprof.log")
    assert sides(sample_profile(TRACE), caffe, ("a", "b")).basis == "of the whole runs: no iterations in b"


@pytest.mark.parametrize("table", [changed_kernels, changed_ops, changed_op_types])
def test_gpu_time_adds_up_on_both_sides(nvprof_and_pytorch: Sides, table: object) -> None:
    rows = table(nvprof_and_pytorch)  # type: ignore[operator]
    for column, side in (("a_total_ns", nvprof_and_pytorch.a), ("b_total_ns", nvprof_and_pytorch.b)):
        expected = side.profile["activities"]["duration_ns"].sum() / 5
        assert rows[column].sum() == pytest.approx(expected, rel=1e-12)
    assert rows["delta_ns"].sum() == pytest.approx(rows["b_total_ns"].sum() - rows["a_total_ns"].sum(), abs=1e-3)
    assert rows["delta_ns"].abs().is_sorted(descending=True)


def test_a_profile_equals_itself() -> None:
    same = sides(sample_profile(TRACE), sample_profile(TRACE), ("a", "b"))
    for rows in (changed_kernels(same), changed_ops(same), changed_api(same)):
        assert rows["delta_ns"].abs().max() == 0
        assert rows["change"].unique().to_list() == [""]
    assert all(figure.delta == 0 for figure in headline(same))
    assert set(changed_findings(same)["change"]) <= {""}
    verdict = judge(headline(same), 0.0)
    assert verdict is not None
    assert (verdict.figure.name, verdict.fails, verdict.others) == ("median_iteration_ns", False, ())


def test_new_and_removed_rows() -> None:
    profile = sample_profile(TRACE)
    work = profile["activities"]
    first, second = (name for name in work["name"].cast(pl.String).unique().sort().to_list()[:2])

    def without(name: str) -> Profile:
        return with_activities(profile, pl.col("name") != name)

    compared = sides(without(first), without(second), ("a", "b"), whole_runs=True)
    rows = changed_kernels(compared).filter(pl.col("change") != "").sort("change", descending=True)
    assert rows.select("change", "name").rows() == [("removed", second), ("new", first)]
    removed_ns = work.filter(pl.col("name") == second)["duration_ns"].sum()
    assert rows.row(0, named=True)["delta_ns"] == -removed_ns
    assert rows["delta_pct"].to_list() == [-100.0, None]


def test_a_step_that_takes_longer_is_slower() -> None:
    profile = sample_profile(TRACE)
    times = iterations(profile).drop_nulls("iteration").select("iteration", "duration_ns")
    from tui.analysis.iterations.chosen_iterations import select_iterations
    from tui.model.aggregation import Aggregation

    numbers = times.sort("duration_ns")["iteration"].to_list()
    fast, slow = (select_iterations(profile, Aggregation(number, number)) for number in (numbers[0], numbers[-1]))
    verdict = judge(headline(sides(fast, slow, ("fast", "slow"))), 5.0)
    assert verdict is not None
    assert verdict.figure.baseline == times["duration_ns"].min()
    assert verdict.figure.candidate == times["duration_ns"].max()
    assert verdict.fails
    opposite = judge(headline(sides(slow, fast, ("slow", "fast"))), 5.0)
    assert opposite is not None
    assert not opposite.fails


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ampere_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("sm80_xmma_fprop_implicit_gemm", "sm90_xmma_fprop_implicit_gemm"),
        ("void f<float, 128>(int)", "void f<double, 64>(int)"),
        ("cutlass_80_tensorop_gemm", "cutlass_90_tensorop_gemm"),
    ],
)
def test_names_of_the_same_family(first: str, second: str) -> None:
    assert kernel_family(first) == kernel_family(second)


def test_names_of_different_families() -> None:
    assert kernel_family("ampere_sgemm_128x64_nn") != kernel_family("ampere_sgemm_128x64_nt")
    assert kernel_family("volta_h884gemm_64x64") != kernel_family("volta_s884gemm_64x64")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("cudaMalloc", "cudaMalloc_v3020"),
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel_ptsz_v7000"),
        ("cuLaunchKernel", "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"),
    ],
)
def test_versions_of_a_call_have_one_base_name(first: str, second: str) -> None:
    assert base_call(first) == base_call(second)
    assert base_call(first) != base_call(f"{second}Async")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("AddmmBackward", "AddmmBackward0"),
        ("CudnnConvolutionBackward", "ConvolutionBackward0"),
        ("autograd::engine::evaluate_function: ReluBackward1", "autograd::engine::evaluate_function: ReluBackward0"),
        ("aten::_cat", "aten::cat"),
        ("aten::cudnn_batch_norm", "aten::miopen_batch_norm"),
        ("aten::cudnn_convolution_backward_input", "aten::convolution_backward"),
        ("torch.nn.functional.conv2d", "aten::conv2d"),
        ("conv2d_3/Conv2D", "conv2d/Conv2D"),
        ("loop_fusion.12", "loop_fusion.7"),
        ("relu[2]", "relu"),
        ("cudnn_v7_conv", "cudnn_v8_conv"),
    ],
)
def test_ops_of_the_same_family(first: str, second: str) -> None:
    assert op_family(first) == op_family(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("aten::add", "aten::add_"),
        ("aten::conv1d", "aten::conv2d"),
        ("aten::linear", "aten::linear_backward"),
        ("FSDP::pre_forward (blocks.2._wrapped)", "FSDP::pre_forward (blocks.3._wrapped)"),
        ("AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0"),
        ("(unattributed: launch not recorded)", "(unattributed: launched outside any op)"),
    ],
)
def test_ops_of_different_families(first: str, second: str) -> None:
    assert op_family(first) != op_family(second)


def test_ops_of_another_library_are_matched_if_tolerant_and_marked() -> None:
    baseline, candidate = (load_one(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("fp32", "amp"))
    compared = sides(baseline, candidate, ("fp32", "amp"))
    exact, tolerant = changed_ops(compared), changed_ops(compared, tolerant=True)
    assert not exact["similar"].any()
    assert tolerant.filter("similar").select("op", "change", "a_name", "b_name").rows()[:2] == [
        ("batch_norm_backward", "similar", "aten::cudnn_batch_norm_backward", "aten::native_batch_norm_backward"),
        ("batch_norm", "similar", "aten::cudnn_batch_norm", "aten::native_batch_norm"),
    ]
    assert set(tolerant.filter("similar")["change"]) == {"similar"}
    for column in ("a_total_ns", "b_total_ns", "delta_ns"):
        assert tolerant[column].sum() == pytest.approx(exact[column].sum(), rel=1e-12)


def test_inferred_types_are_not_compared_with_recorded_ops(nvprof_and_pytorch: Sides) -> None:
    assert not changed_ops(nvprof_and_pytorch, tolerant=True)["similar"].any()


def call(name: str, duration_ns: int, **fields: object) -> Row:
    return {"name": name, "start_ns": 0, "duration_ns": duration_ns, **fields}


def test_calls_of_another_version_are_matched_if_tolerant_and_marked() -> None:
    baseline = make_profile(api_calls=[call("cuMemAlloc", 30), call("cudaFree", 5), call("cudaFree_v3020", 1)])
    candidate = make_profile(api_calls=[call("cuMemAlloc_v2", 40), call("cuMemAlloc_v2", 10), call("cudaFree", 5)])
    compared = sides(baseline, candidate, ("a", "b"))
    columns = ("name", "change", "a_total_ns", "b_total_ns", "a_calls", "b_calls", "similar", "a_name", "b_name")
    assert changed_api(compared).select("name", "change", "delta_ns").rows() == [
        ("cuMemAlloc_v2", "new", 50),
        ("cuMemAlloc", "removed", -30),
        ("cudaFree_v3020", "removed", -1),
        ("cudaFree", "", 0),
    ]
    assert changed_api(compared, tolerant=True).select(columns).rows() == [
        ("cuMemAlloc", "similar", 30, 50, 1, 2, True, "cuMemAlloc", "cuMemAlloc_v2"),
        # The candidate has cudaFree itself, so no other version is matched to it.
        ("cudaFree_v3020", "removed", 1, None, 1, None, False, None, None),
        ("cudaFree", "", 5, 5, 1, 1, False, None, None),
    ]


def test_kernels_of_both_sides_are_never_merged_with_similar_ones() -> None:
    baseline = make_profile(
        activities=[kernel("f<1>(int)", 10), kernel("volta_gemm", 7), kernel("f<2>(int)", 5), kernel("f", 2)]
    )
    candidate = make_profile(
        activities=[kernel("f<1>(int)", 12), kernel("ampere_gemm", 6), kernel("f<3>(int)", 4), kernel("f", 2)]
    )
    rows = changed_kernels(sides(baseline, candidate, ("a", "b")), tolerant=True)
    assert rows.select("name", "change", "a_total_ns", "b_total_ns", "a_name", "b_name").rows() == [
        ("f<1>(int)", "", 10, 12, None, None),
        ("*_gemm", "similar", 7, 6, "volta_gemm", "ampere_gemm"),
        ("f", "similar", 5, 4, "f<2>(int)", "f<3>(int)"),
        ("f", "", 2, 2, None, None),
    ]
    assert rows.n_unique(subset=CHANGED_KERNELS.key) == rows.height


def test_several_names_of_one_side_are_summed_in_one_row() -> None:
    baseline = make_profile(activities=[kernel("f<1>(int)", 10), kernel("f<2>(int)", 30)])
    candidate = make_profile(activities=[kernel("f<3>(int)", 20)])
    rows = changed_kernels(sides(baseline, candidate, ("a", "b")), tolerant=True)
    assert rows.select("name", "a_total_ns", "b_total_ns", "a_calls", "a_name", "b_name").rows() == [
        ("f", 40, 20, 2, "f<2>(int) (and 1 more)", "f<3>(int)")
    ]


def test_rows_are_not_new_if_the_baseline_does_not_record_them() -> None:
    baseline = make_profile(activities=[kernel("a", 10)])
    candidate = make_profile(activities=[kernel("a", 10)], api_calls=[call("cudaFree", 5), call("cudaMalloc", 7)])
    columns = ("name", "change", "a_total_ns", "b_total_ns", "delta_ns", "delta_pct")
    assert changed_api(sides(baseline, candidate, ("a", "b"))).select(columns).rows() == [
        ("cudaMalloc", "", None, 7, None, None),
        ("cudaFree", "", None, 5, None, None),
    ]
    assert changed_api(sides(candidate, baseline, ("b", "a")))["change"].to_list() == ["", ""]


def test_a_sum_that_lacks_a_session_is_unknown_with_a_reason() -> None:
    baseline = make_profile(api_calls=[call("cudaFree", 5), call("cudaMalloc", 7)])
    calls = [call("cudaFree", 5), call("cudaMalloc", 7), {**call("cudaFree", 0, session=1), "duration_ns": None}]
    rows = changed_api(sides(baseline, make_profile(api_calls=calls), ("a", "b")))
    assert rows.select(
        "name", "a_total_ns", "b_total_ns", "delta_ns", "b_calls", "b_avg_ns", "unknown_reason"
    ).rows() == [
        ("cudaMalloc", 7, 7, 0, 1, 7, None),
        ("cudaFree", 5, None, None, 2, None, "candidate: no time of session 1"),
    ]
    figures = {figure.name: figure for figure in headline(sides(baseline, make_profile(api_calls=calls), ("a", "b")))}
    assert (figures["api_ns"].baseline, figures["api_ns"].candidate, figures["api_calls"].candidate) == (12, None, 3)


def test_a_row_of_similar_names_is_unknown_if_one_of_them_is() -> None:
    baseline = make_profile(activities=[kernel("f<1>(int)", 10), kernel("f<2>(int)", None)])
    rows = changed_kernels(
        sides(baseline, make_profile(activities=[kernel("f<3>(int)", 20)]), ("a", "b")), tolerant=True
    )
    assert rows.select("name", "a_total_ns", "b_total_ns", "delta_ns", "unknown_reason").rows() == [
        ("f", None, 20, None, "baseline: no time")
    ]


def test_averages_are_over_calls_with_a_known_time() -> None:
    baseline = make_profile(activities=[kernel("f", 10), kernel("f", None)])
    compared = sides(baseline, make_profile(activities=[kernel("f", 12)]), ("a", "b"))
    for rows in (changed_kernels(compared), changed_ops(compared), changed_op_types(compared)):
        assert rows.select(
            "a_total_ns", "a_calls", "a_avg_ns", "b_avg_ns", "avg_delta_pct", "unknown_reason"
        ).rows() == [(10, 2, 10, 12, 20, "baseline: at least (calls without time: 1)")]


def test_averages_of_recorded_ops_are_over_launches_with_a_known_time() -> None:
    op = {"op": 0, "name": "aten::mm", "start_ns": 0, "duration_ns": 9, "tid": 1, "op_type": "gemm"}
    work = [kernel("f", 10, op=0), kernel("f", None, op=0), kernel("g", None, op=0), kernel("f", 8), kernel("f", None)]
    profile = make_profile(ops=[op], activities=[*work, kernel("h", 6, session=1), kernel("h", None, session=1)])
    compared = sides(profile, profile, ("a", "b"))
    columns = ("op", "a_total_ns", "a_calls", "a_avg_ns", "unknown_reason")
    reason = "baseline: at least (calls without time: 1); candidate: at least (calls without time: 1)"
    types = changed_op_types(compared).select(columns).rows()
    assert [row[:4] for row in types] == [
        ("gemm", 10, 3, 10),
        ("(unattributed: reason not recorded)", 8, 2, 8),
        ("unknown", 6, 2, 6),
    ]
    assert [row[4] for row in types] == [reason.replace("1", "2"), reason, reason]
    assert changed_ops(compared).select(columns).rows()[1:] == [
        ("(unattributed: reason not recorded)", 8, 2, 8, reason),
        ("unknown", 6, 2, 6, reason),
    ]


def test_equal_changes_are_sorted_by_time() -> None:
    profile = make_profile(activities=[kernel("a", 1), kernel("b", 3), kernel("c", 2)])
    assert changed_kernels(sides(profile, profile, ("a", "b")))["name"].to_list() == ["b", "c", "a"]


def test_sums_of_whole_runs_name_the_number_of_sessions() -> None:
    one_session = make_profile(activities=[kernel("a", 1)])
    two_sessions = make_profile(activities=[kernel("a", 1), kernel("a", 2, session=1)])
    assert sides(one_session, two_sessions, ("a", "a")).basis == (
        "of the whole runs, summed over the sessions (baseline 1, candidate 2): no iterations in a"
    )


def test_whole_runs_are_compared_if_no_launch_is_recorded() -> None:
    """The work of each of 4 iterations is unknown; in total the candidate has 32 ms instead of 16."""
    baseline, candidate = (
        trace_of(
            *(launch(step * 10 * MS + MS, gpu_ns, "gemm") for step in range(4)),
            ranges=[step_range(step, step * 10 * MS, 10 * MS) for step in range(4)],
        )
        for gpu_ns in (4 * MS, 8 * MS)
    )
    compared = sides(baseline, candidate, ("a", "b"))
    assert (compared.basis, compared.left_out_sentence) == (
        "of the whole runs: launches are not recorded in a and b",
        "",
    )
    assert changed_kernels(compared).select("name", "a_total_ns", "b_total_ns", "delta_pct").rows() == [
        ("gemm", 16 * MS, 32 * MS, 100.0)
    ]
    times = [run_times(profile, 0, "run") for profile in (baseline, candidate)]
    runs = compare_runs(*times)
    assert runs is not None
    assert not runs.per_iteration
    assert [(change.kind, round(change.change_pct.median, 6)) for change in runs.totals] == [
        ("run", round(100 * 4 / 34, 6)),
        ("gpu work", 100.0),
    ]


def test_figures_of_a_row_have_one_unit() -> None:
    time = Figure("gpu_ns", "GPU time", ColumnKind.DURATION, 800.0, 1_200_000.0)
    assert time.texts == ("0.0008 ms", "1.200 ms", "+1.199 ms")
    assert Figure("share", "Share", ColumnKind.PERCENT, 10.0, 10.001).texts == ("10.00%", "10.00%", "~0 points")


def test_launches_are_zero_if_no_kernel_took_time() -> None:
    baseline = make_profile(activities=[copy("HtoD", 10)], sessions=[{"session": 0, "format": "nvprof-text"}])
    figures = {
        figure.name: figure for figure in headline(sides(baseline, sample_profile(TRACE), ("a", "b"), whole_runs=True))
    }
    assert (figures["kernel_ns"].baseline, figures["launches"].baseline) == (0.0, 0.0)


def test_families_match_names_of_different_tools(nvprof_and_pytorch: Sides) -> None:
    exact, tolerant = changed_kernels(nvprof_and_pytorch), changed_kernels(nvprof_and_pytorch, tolerant=True)
    matched = [rows.filter(pl.col("change").is_in(["", "similar"]))["b_total_ns"].sum() for rows in (exact, tolerant)]
    assert matched[1] > matched[0]
    assert set(tolerant.filter(pl.col("change") == "similar")["similar"]) == {True}
    assert tolerant["b_total_ns"].sum() == pytest.approx(exact["b_total_ns"].sum(), rel=1e-12)


def test_half_precision_halves_gpu_time_and_not_the_step() -> None:
    baseline, candidate = (load_one(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("fp32", "amp"))
    compared = sides(baseline, candidate, ("fp32", "amp"))
    assert compared.basis == "per iteration: baseline 3, candidate 5"
    figures = {figure.name: figure for figure in headline(compared)}
    assert figures["gpu_ns"].baseline == pytest.approx(31_599_732.67, abs=0.01)
    assert figures["gpu_ns"].candidate == pytest.approx(15_874_738.6, abs=0.01)
    assert figures["gpu_ns"].delta_pct == pytest.approx(-49.76, abs=0.01)
    verdict = judge(headline(compared), 5.0)
    assert verdict is not None
    assert verdict.fails
    assert verdict.figure.delta_pct == pytest.approx(23.44, abs=0.01)
    assert set(changed_kernels(compared).filter(pl.col("change") == "removed")["delta_pct"]) == {-100.0}
    assert verdict.outcome == "FAIL"
    assert verdict_sentence(compared, headline(compared)) == (
        "SLOWER +23% (median iteration, 33.2 ms to 41.0 ms). GPU work -50%, GPU busy 95 to 37% "
        "(idle 1.62 ms to 26.4 ms): now launch-bound."
    )
    assert verdict_sentence(compared, headline(compared), with_limit=False) == (
        "SLOWER +23% (median iteration, 33.2 ms to 41.0 ms). GPU work -50%, GPU busy 95 to 37% "
        "(idle 1.62 ms to 26.4 ms)."
    )
    assert busy_and_idle_sentence(headline(compared)) == (
        "Average iteration +9.08 ms: GPU busy -15.7 ms, GPU idle +24.8 ms."
    )
    types, by_kernel = largest_changes(compared)
    assert (types.title, types.longer.height, types.shorter.height) == ("Op types", 8, 13)
    assert types.longer.row(0) == ("copy", "", pytest.approx(1_067_937.2, abs=0.1), pytest.approx(3.3796, abs=0.0001))
    assert types.shorter["name"].to_list()[:2] == ["convolution backward", "batch norm backward"]
    assert types.longer["share_pct"].sum() + types.shorter["share_pct"].sum() == pytest.approx(-49.763, abs=0.001)
    assert (by_kernel.title, by_kernel.longer.height, by_kernel.shorter.height) == ("Kernels", 75, 73)
    text = Diff(compared, than_pct=5.0).verdict()
    assert "GPU idle 1.62 ms to 26.4 ms per iteration: GPU work shrank, and the time was lost between kernels" in text
    assert not any("largest increases" in line for line in text)
    assert (
        "also longer by more than 5%: average iteration (+27.34%), 95th percentile (+60.06%), GPU idle (+1,528.27%)"
        in text
    )
    faster = Diff(sides(candidate, baseline, ("amp", "fp32")), than_pct=5.0).verdict()
    assert any(
        line.startswith("largest decreases per iteration: kernel batch_norm_collect_statistics") for line in faster
    )
    opposite = sides(candidate, baseline, ("amp", "fp32"))
    assert verdict_sentence(opposite, headline(opposite)).startswith(
        "FASTER -19% (median iteration, 41.0 ms to 33.2 ms). "
    )
    same = sides(candidate, candidate, ("amp", "amp"))
    assert verdict_sentence(same, headline(same)) == "NO CHANGE (median iteration, 41 ms on both sides)."
    unchanged = judge(headline(same), 5.0)
    assert unchanged is not None
    assert unchanged.outcome == "NO CHANGE"


def test_layers_are_compared_if_nothing_else_is_measured() -> None:
    def layers_profile(**times: int) -> Profile:
        return make_profile(
            layers=[{"layer": name, "phase": "forward", "time_ns": time} for name, time in times.items()]
        )

    compared = sides(layers_profile(conv1=500, fc=200), layers_profile(conv1=400, pool=150, fc=200), ("before", "now"))
    figures = headline(compared)
    assert [(figure.label, *figure.texts) for figure in figures] == [("Layer time", "700 ns", "750 ns", "+50 ns")]
    assert verdict_sentence(compared, figures) == "SLOWER +7.1% (layer time, 700 ns to 750 ns)."
    rows = changed_layers(compared)
    assert rows.select("layer", "change", "a_total_ns", "b_total_ns", "delta_ns").rows() == [
        ("pool", "new", None, 150, 150),
        ("conv1", "", 500, 400, -100),
        ("fc", "", 200, 200, 0),
    ]
    assert "largest increases: layer pool +150 ns (new)" in Diff(compared, than_pct=5.0).verdict()


def test_growth_from_nothing_has_no_percentage() -> None:
    """Of two kernels, one takes 0 ns in the baseline."""
    before, now = (make_profile(activities=[kernel("gemm", 100), kernel("add", time_ns)]) for time_ns in (0, 500))
    lines = Diff(sides(before, now, ("before", "now")), than_pct=5.0)
    rows = lines.table("kernels").select("name", "change", "delta_ns", "delta_pct").rows()
    assert rows == [("add", "", 500, None), ("gemm", "", 0, 0.0)]
    assert lines.verdict()[1] == "largest increases: kernel add +500 ns; op elementwise +500 ns"


def test_times_of_several_executors_of_layers_do_not_add_up() -> None:
    layers = [{"layer": "fc", "executor": executor, "time_ns": 5} for executor in ("cudnn", "tensorflow")]
    compared = sides(make_profile(layers=layers), make_profile(layers=layers), ("a", "b"))
    assert headline(compared) == ()
    assert not has_layers(compared)


def test_one_long_iteration_is_distinguished_from_the_median() -> None:
    def figure(name: str, label: str, kind: ColumnKind, *values: float) -> Figure:
        return Figure(name, label, kind, *values)

    figures = [
        figure("median_iteration_ns", "Median iteration", ColumnKind.DURATION, 1e6, 2e6),
        figure("busy_pct", "GPU busy", ColumnKind.PERCENT, 98, 10),
        figure("idle_ns", "GPU idle", ColumnKind.DURATION, 1e4, 9e6),
    ]
    profile = make_profile(activities=[kernel("k", 5)])
    assert verdict_sentence(sides(profile, profile, ("a", "b")), figures) == (
        "SLOWER +100% (median iteration, 1.00 ms to 2.00 ms). GPU busy 98 to 10% (idle 10.0 µs to 9.00 ms on average)."
    )


def test_a_difference_that_is_only_the_rest_of_a_subtraction_is_none() -> None:
    figures = [
        Figure("avg_iteration_ns", "Average iteration", ColumnKind.DURATION, 42e6, 42e6 - 1e5),
        Figure("idle_ns", "GPU idle", ColumnKind.DURATION, 26e6, 26e6 - 1e5 + 1e-8),
    ]
    assert busy_and_idle_sentence(figures) == "Average iteration -100 µs: GPU busy 0 ns, GPU idle -100 µs."


def test_a_comparison_with_itself_has_no_largest_changes() -> None:
    profile = load_one(recording_file("resnet50_amp.pt.trace.json.gz"))
    same = sides(profile, profile, ("amp", "amp"))
    assert largest_changes(same) == ()
    assert busy_and_idle_sentence(headline(same)) == "Average iteration 0 ns: GPU busy 0 ns, GPU idle 0 ns."


def test_longer_times_besides_the_judged_figure_are_named() -> None:
    def duration_figure(name: str, baseline: float, candidate: float) -> Figure:
        return Figure(name, name, ColumnKind.DURATION, baseline, candidate)

    figures = [
        duration_figure("median_iteration_ns", 100, 101),
        duration_figure("p95_iteration_ns", 100, 104),
        duration_figure("gpu_ns", 50, 60),
        Figure("launches", "Launches", ColumnKind.COUNT, 1, 9),
    ]
    verdict = judge(figures, 5.0)
    assert verdict is not None
    assert (verdict.figure.name, verdict.fails) == ("median_iteration_ns", False)
    assert [figure.name for figure in verdict.others] == ["gpu_ns"]
    # If the copies of one side are unknown, the kernel time is compared.
    kernel_verdict = judge(
        [Figure("gpu_ns", "GPU time", ColumnKind.DURATION, 90, None), duration_figure("kernel_ns", 80, 88)], 5.0
    )
    assert kernel_verdict is not None
    assert (kernel_verdict.figure.name, kernel_verdict.fails) == ("kernel_ns", True)


def test_work_of_one_side_alone_has_a_time_of_zero_on_the_other() -> None:
    baseline, candidate = (load_one(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("fp32", "amp"))
    figures = {figure.name: figure for figure in headline(sides(baseline, candidate, ("fp32", "amp")))}
    copies = figures["memcpy_ns"]
    assert (copies.baseline, copies.delta_pct) == (0.0, None)
    assert copies.texts == ("0 µs", "698.42 µs", "+698.42 µs")
    assert figures["kernel_ns"].baseline + figures["memset_ns"].baseline == pytest.approx(figures["gpu_ns"].baseline)  # type: ignore[operator]


def test_the_time_of_copies_is_unknown_if_they_may_not_have_been_recorded() -> None:
    profile = sample_profile(TRACE)
    kernels_alone = with_activities(profile, pl.col("kind") == "kernel")
    by_rocprof = replace(
        kernels_alone,
        frames={
            **kernels_alone.frames,
            "sessions": profile["sessions"].with_columns(format=pl.lit("rocprofv3-csv"), tool=pl.lit("rocprofv3")),
        },
    )
    for baseline, expected in ((kernels_alone, 0.0), (by_rocprof, None)):
        figures = {figure.name: figure for figure in headline(sides(baseline, profile, ("a", "b")))}
        assert figures["memcpy_ns"].baseline == expected
        assert figures["memcpy_ns"].candidate == pytest.approx(698_417.2)


def test_kinds_of_work_that_neither_side_has_are_left_out() -> None:
    kernels_alone = with_activities(sample_profile(TRACE), pl.col("kind") == "kernel")
    names = [figure.name for figure in headline(sides(kernels_alone, kernels_alone, ("a", "b")))]
    assert "kernel_ns" in names
    assert not {"memcpy_ns", "memset_ns"} & set(names)


def test_ranks_of_one_input_are_compared_like_two_profiles() -> None:
    ranks, errors = load([sample_path("ddp_ranks")])
    assert not errors
    assert ranks is not None
    compared = sides(ranks.only_session(0), ranks.only_session(1), ("rank 0", "rank 1"))
    rows = changed_kernels(compared)
    assert compared.per_iteration
    for column, side in (("a_total_ns", compared.a), ("b_total_ns", compared.b)):
        assert rows[column].sum() == pytest.approx(side.profile["activities"]["duration_ns"].sum() / (side.count or 0))
