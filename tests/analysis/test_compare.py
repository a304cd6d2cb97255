"""Two profiles side by side: every difference is theirs, and the sums are those of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import recording_file
from tests.screens.opening import sample
from tui.analysis.compare.findings import changed_findings
from tui.analysis.compare.headline import headline, slower
from tui.analysis.compare.matching import family
from tui.analysis.compare.sides import sides
from tui.analysis.compare.tables import changed_api, changed_kernels, changed_op_types, changed_ops
from tui.analysis.iterations.tables import iterations
from tui.loaders.registry import load, load_one

if TYPE_CHECKING:
    from tui.analysis.compare.sides import Sides
    from tui.model.profile import Profile

TRAINING, TRACE = "resnet50_training.nvprof.log", "resnet50_training.pt.trace.json.gz"


def profile(name: str) -> Profile:
    return load_one(sample(name))


def with_work(whole: Profile, kept: pl.Expr) -> Profile:
    return replace(whole, frames={**whole.frames, "activities": whole["activities"].filter(kept)})


@pytest.fixture(scope="module")
def tools() -> Sides:
    """The same run as nvprof would have written it, and as PyTorch did."""
    return sides(profile(TRAINING), profile(TRACE), ("nvprof", "PyTorch"))


def test_both_sides_are_told_per_iteration_where_both_have_some(tools: Sides) -> None:
    assert tools.per_iteration
    assert tools.a.count == 5
    assert tools.b.count == 5
    assert tools.why == "per iteration: 5 before, 5 now"
    whole = profile(TRACE)["activities"]["duration_ns"].sum()
    assert tools.b.left_out_ns + tools.b.profile["activities"]["duration_ns"].sum() == whole


def test_whole_runs_are_compared_when_asked_or_where_iterations_are_missing() -> None:
    asked = sides(profile(TRACE), profile(TRACE), ("a", "b"), whole_runs=True)
    assert (asked.per_iteration, asked.why, asked.a.count) == (False, "of the whole runs", None)
    caffe = profile("caffe_conv1.nvprof.log")
    assert sides(profile(TRACE), caffe, ("a", "b")).why == "of the whole runs: no iterations in b"


@pytest.mark.parametrize("table", [changed_kernels, changed_ops, changed_op_types])
def test_gpu_time_adds_up_on_both_sides(tools: Sides, table: object) -> None:
    rows = table(tools)  # type: ignore[operator]
    for column, side in (("a_total_ns", tools.a), ("b_total_ns", tools.b)):
        wanted = side.profile["activities"]["duration_ns"].sum() / 5
        assert rows[column].sum() == pytest.approx(wanted, rel=1e-12)
    assert rows["delta_ns"].sum() == pytest.approx(rows["b_total_ns"].sum() - rows["a_total_ns"].sum(), abs=1e-3)
    assert rows["delta_ns"].abs().is_sorted(descending=True)


def test_a_profile_does_not_differ_from_itself() -> None:
    same = sides(profile(TRACE), profile(TRACE), ("a", "b"))
    for rows in (changed_kernels(same), changed_ops(same), changed_api(same)):
        assert rows["delta_ns"].abs().max() == 0
        assert rows["change"].unique().to_list() == [""]
    assert all(figure.delta == 0 for figure in headline(same))
    assert set(changed_findings(same)["change"]) <= {""}
    judged, fails = slower(same, 0.0)
    assert judged is not None
    assert (judged.name, fails) == ("median_iteration_ns", False)


def test_what_is_new_and_what_is_gone() -> None:
    whole = profile(TRACE)
    work = whole["activities"]
    first, second = (name for name in work["name"].cast(pl.String).unique().sort().to_list()[:2])

    def without(name: str) -> Profile:
        return with_work(whole, pl.col("name") != name)

    compared = sides(without(first), without(second), ("a", "b"), whole_runs=True)
    rows = changed_kernels(compared).filter(pl.col("change") != "").sort("change")
    assert rows.select("change", "name").rows() == [("gone", second), ("new", first)]
    own = work.filter(pl.col("name") == second)["duration_ns"].sum()
    assert rows.row(0, named=True)["delta_ns"] == -own
    assert rows["delta_pct"].to_list() == [-100.0, None]


def test_a_step_that_takes_longer_is_slower() -> None:
    whole = profile(TRACE)
    times = iterations(whole).drop_nulls("iteration").select("iteration", "duration_ns")
    from tui.analysis.iterations.aggregation import aggregated
    from tui.model.aggregation import Aggregation

    by_time = times.sort("duration_ns")["iteration"].to_list()
    fast, slow = (aggregated(whole, Aggregation(one, one)) for one in (by_time[0], by_time[-1]))
    judged, fails = slower(sides(fast, slow, ("fast", "slow")), 5.0)
    assert judged is not None
    assert judged.before == times["duration_ns"].min()
    assert judged.now == times["duration_ns"].max()
    assert fails
    assert not slower(sides(slow, fast, ("slow", "fast")), 5.0)[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ampere_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("sm80_xmma_fprop_implicit_gemm", "sm90_xmma_fprop_implicit_gemm"),
        ("void f<float, 128>(int)", "void f<double, 64>(int)"),
        ("cutlass_80_tensorop_gemm", "cutlass_90_tensorop_gemm"),
    ],
)
def test_names_of_one_family(one: str, other: str) -> None:
    assert family(one) == family(other)


def test_names_of_two_families() -> None:
    assert family("ampere_sgemm_128x64_nn") != family("ampere_sgemm_128x64_nt")
    assert family("volta_h884gemm_64x64") != family("volta_s884gemm_64x64")


def test_families_match_what_another_tool_spells_otherwise(tools: Sides) -> None:
    exact, tolerant = changed_kernels(tools), changed_kernels(tools, tolerant=True)
    matched = [rows.filter(pl.col("change") == "")["b_total_ns"].sum() for rows in (exact, tolerant)]
    assert matched[1] >= matched[0]
    assert tolerant["b_total_ns"].sum() == pytest.approx(exact["b_total_ns"].sum(), rel=1e-12)


def test_half_precision_halves_gpu_time_and_not_the_step() -> None:
    before, now = (load_one(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("fp32", "amp"))
    compared = sides(before, now, ("fp32", "amp"))
    assert compared.why == "per iteration: 3 before, 5 now"
    figures = {figure.name: figure for figure in headline(compared)}
    assert figures["gpu_ns"].before == pytest.approx(31_599_732.67, abs=0.01)
    assert figures["gpu_ns"].now == pytest.approx(15_874_738.6, abs=0.01)
    assert figures["gpu_ns"].delta_pct == pytest.approx(-49.76, abs=0.01)
    judged, fails = slower(compared, 5.0)
    assert judged is not None
    assert fails
    assert judged.delta_pct == pytest.approx(34.36, abs=0.01)


def test_a_kind_of_work_that_one_side_alone_has_took_no_time_on_the_other() -> None:
    before, now = (load_one(recording_file(f"resnet50_{name}.pt.trace.json.gz")) for name in ("fp32", "amp"))
    figures = {figure.name: figure for figure in headline(sides(before, now, ("fp32", "amp")))}
    copies = figures["memcpy_ns"]
    assert (copies.before, copies.delta_pct) == (0.0, None)
    assert copies.texts == ("0 ns", "698.42 µs", "+698.42 µs")
    assert figures["kernel_ns"].before + figures["memset_ns"].before == pytest.approx(figures["gpu_ns"].before)  # type: ignore[operator]


def test_where_copies_may_not_have_been_asked_for_their_time_is_unknown() -> None:
    whole = profile(TRACE)
    kernels_alone = with_work(whole, pl.col("kind") == "kernel")
    by_rocprof = replace(
        kernels_alone,
        frames={
            **kernels_alone.frames,
            "sessions": whole["sessions"].with_columns(format=pl.lit("rocprofv3-csv"), tool=pl.lit("rocprofv3")),
        },
    )
    for before, known in ((kernels_alone, 0.0), (by_rocprof, None)):
        figures = {figure.name: figure for figure in headline(sides(before, whole, ("a", "b")))}
        assert figures["memcpy_ns"].before == known
        assert figures["memcpy_ns"].now == pytest.approx(698_417.2)


def test_a_kind_of_work_that_neither_side_has_is_left_out() -> None:
    kernels_alone = with_work(profile(TRACE), pl.col("kind") == "kernel")
    names = [figure.name for figure in headline(sides(kernels_alone, kernels_alone, ("a", "b")))]
    assert "kernel_ns" in names
    assert not {"memcpy_ns", "memset_ns"} & set(names)


def test_ranks_of_one_input_are_compared_as_any_two_profiles() -> None:
    pair, errors = load([sample("ddp_ranks")])
    assert not errors
    assert pair is not None
    compared = sides(pair.only_session(0), pair.only_session(1), ("rank 0", "rank 1"))
    rows = changed_kernels(compared)
    assert compared.per_iteration
    for column, side in (("a_total_ns", compared.a), ("b_total_ns", compared.b)):
        assert rows[column].sum() == pytest.approx(side.profile["activities"]["duration_ns"].sum() / (side.count or 0))
