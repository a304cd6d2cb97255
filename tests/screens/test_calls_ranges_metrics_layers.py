"""API Calls, Ranges, Metrics and Layers: their tabs, and the links from a row to its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import (
    app_of,
    assert_at_sizes,
    assert_rows_of_report,
    column_of,
    open_explorer,
    press,
    report_json,
    table_of,
    tabs_of,
)
from tests.screens.made_profiles import open_profile
from tests.snapshots import screen_text
from tui.analysis.ops.op_trees import by_layer
from tui.screens.api_calls import no_instances
from tui.screens.api_calls import no_work as no_call_work
from tui.screens.kernels import no_launches
from tui.screens.ranges import no_work, no_work_meanwhile
from tui.tables import view_of_report
from tui.widgets.details import DetailPane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

TORCH, PALEO, METRICS = "resnet50_training.pt.trace.json.gz", "paleo_vgg16.txt", "metrics_and_events.nvprof.log"
NEXT = "full_stop"
MAX_MEANWHILE = ("backward", 5, 2_175)
STATES = {
    "calls-of-a-function": (TORCH, "api-calls", ("enter", "i")),
    "threads": (TORCH, "api-calls", (NEXT,)),
    "ranges-by-depth": (TORCH, "ranges", (NEXT,)),
    "ranges-by-other-threads": (TORCH, "ranges", (NEXT, NEXT, "enter")),
    "totals-of-layers": (PALEO, "layers", (NEXT,)),
    "details-of-a-metric": (METRICS, "metrics", ("i",)),
}


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    sample, view, keys = STATES[state]
    async with open_explorer(sample, view=view) as pilot:
        await press(pilot, *keys)
        await assert_at_sizes(pilot, snapshot)


async def test_links_lead_from_a_function_to_a_call_to_its_launch() -> None:
    async with open_explorer(TORCH, size=(200, 50), view="api-calls") as pilot:
        await press(pilot, *["j"] * column_of(pilot, "functions", "name").index("cudaLaunchKernel"))
        calls = table_of(pilot, "calls").frame
        row = table_of(pilot, "functions").current_row
        assert row is not None
        assert (calls.height, calls["duration_ns"].sum()) == (row["calls"], row["total_ns"])
        await press(pilot, "enter")
        call = table_of(pilot, "calls").current_row
        assert call is not None
        assert column_of(pilot, "launched", "correlation") == [call["correlation"]]
        await press(pilot, "i")
        assert "Launched on the GPU" in screen_text(pilot.app)
        assert "after the call" in screen_text(pilot.app)


def test_launches_of_a_call_without_correlation_are_unknown_not_none() -> None:
    linked, unlinked = (
        make_profile(
            activities=[kernel("sgemm", 5, start_ns=0)],
            api_calls=[
                {"name": "cudaFree", "correlation": 4},
                {"name": "cudaLaunchKernel", "correlation": correlation},
            ],
        )
        for correlation in (5, None)
    )
    cut = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text"}],
        activities=[kernel("sgemm", 5, start_ns=0)],
        api_calls=[{"name": "cudaLaunchKernel", "correlation": correlation} for correlation in (5, None)],
    )
    assert no_call_work(cut) == (
        "nvprof truncates the correlation id after a long kernel name: the GPU work of this call is unknown"
    )
    assert (
        no_call_work(make_profile(api_calls=[{"name": "cudaMalloc"}])) == "this profile has API calls but no GPU work"
    )
    totals = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text"}],
        summary=[{"section": "gpu", "name": "sgemm", "calls": 2, "total_ns": 10}],
    )
    assert no_call_work(totals) == "this input has totals, not launches: record with nvprof --print-gpu-trace"
    assert no_call_work(linked) == no_call_work(unlinked, is_linked=True) == "this call launched no recorded work"
    assert no_call_work(unlinked) == "no GPU work recorded for this call; some calls do not record their launches"


@pytest.mark.parametrize(
    ("view", "record"),
    [("kernels", "nvprof --print-gpu-trace"), ("api-calls", "nvprof --print-api-trace")],
)
async def test_details_of_totals_say_why_their_spread_is_unknown(view: str, record: str) -> None:
    async with open_explorer("gpt_summary.nvprof.log", size=(200, 50), view=view) as pilot:
        await press(pilot, "i")
        lines = screen_text(pilot.app).splitlines()
        figures_line = next(line for line in lines if "p50, p90, p99, Std  " in line and "No value" not in line)
        assert "unknown: only totals are recorded" in figures_line
        assert any(f"record with {record}" in line for line in lines[lines.index(figures_line) :])


async def test_calls_of_threads_add_up_to_all_calls() -> None:
    async with open_explorer(TORCH, view="api-calls") as pilot:
        await press(pilot, NEXT)
        threads = table_of(pilot, "threads").frame
        assert threads["calls"].sum() == app_of(pilot).profile_session.profile["api_calls"].height
        assert threads["time_pct"].sum() == pytest.approx(100)
        functions = table_of(pilot, "thread_functions").frame
        assert functions["calls"].sum() == threads["calls"][0]
        assert table_of(pilot, "thread_calls").frame.height == functions["calls"][0]
        assert_rows_of_report(pilot, "threads", report_json(pilot, "api")["api_threads"])


async def test_failed_calls_are_listed_and_cuda_error_not_ready_is_no_failure() -> None:
    def call(at: int, result: int) -> dict[str, object]:
        return {"name": "cudaEventQuery", "start_ns": at, "duration_ns": 5, "result": result, "pid": 1, "tid": 1}

    profile = make_profile(api_calls=[call(0, 0), call(10, 600), call(20, 700), call(30, 700), call(40, 98)])
    async with open_profile(profile, view="api-calls") as pilot:
        await press(pilot, NEXT, NEXT)
        assert table_of(pilot, "errors").frame.drop("session", "function").rows() == [
            (700, "illegal address", 2, 20, 35),
            (98, None, 1, 40, 45),
        ]
        assert column_of(pilot, "failed_calls", "start_ns") == [20, 30]
        assert_rows_of_report(pilot, "errors", report_json(pilot, "api")["api_errors"])
    silent = make_profile(api_calls=[{"name": "cudaFree", "start_ns": 0, "duration_ns": 5}])
    async with open_profile(silent, view="api-calls") as pilot:
        await press(pilot, NEXT, NEXT)
        assert "Return codes of API calls not recorded" in " ".join(screen_text(pilot.app).split())


async def test_a_link_leads_from_a_range_to_its_launches() -> None:
    async with open_explorer(TORCH, view="ranges") as pilot:
        row = table_of(pilot, "instances").current_row
        assert row is not None
        work = table_of(pilot, "range_work").frame
        assert work["duration_ns"].sum() == row["range_gpu_ns"]
        assert work.filter(kind="kernel").height == row["range_kernels"]


async def test_launches_of_other_threads_during_a_range_are_listed_separately() -> None:
    async with open_explorer(TORCH, size=(200, 50), view="ranges") as pilot:
        await press(pilot, NEXT, NEXT)
        most = table_of(pilot, "meanwhile_ranges").current_row
        assert most is not None
        assert (most["name"], most["range_kernels"], most["meanwhile_kernels"]) == MAX_MEANWHILE
        await press(pilot, "enter")
        row = table_of(pilot, "meanwhile_instances").current_row
        assert row is not None
        work = table_of(pilot, "meanwhile_work").frame
        assert (work["duration_ns"].sum(), work.filter(kind="kernel").height) == (
            row["meanwhile_gpu_ns"],
            row["meanwhile_kernels"],
        )
        await press(pilot, "i")
        assert "matched by time" in screen_text(pilot.app)


async def test_self_times_of_all_depths_add_up_to_the_outermost_total() -> None:
    async with open_explorer(TORCH, view="ranges") as pilot:
        await press(pilot, NEXT)
        depths = table_of(pilot, "depths").frame
        assert depths["self_ns"].sum() == depths["total_ns"][0]
        assert depths["calls"].sum() == app_of(pilot).profile_session.profile["ranges"].height
        names = table_of(pilot, "depth_names").frame
        assert names["total_ns"].sum() == depths["total_ns"][0]
        assert_rows_of_report(pilot, "depths", report_json(pilot, "ranges")["range_depths"])
        await press(pilot, "enter", "enter", "enter", "enter")
        assert app_of(pilot).screen.query_one(DetailPane).is_open


async def test_a_metric_leads_to_the_launches_of_its_kernel() -> None:
    profile = make_profile(
        activities=[kernel("void saxpy(int)", 5, start_ns=0), kernel("void other(int)", 5, start_ns=9)],
        metrics=[{"kernel": "saxpy", "metric": "gld_efficiency", "avg": 50.0, "unit": "%"}],
    )
    async with open_profile(profile, view="metrics") as pilot:
        assert column_of(pilot, "metric_launches", "name") == ["void saxpy(int)"]


async def test_metrics_without_a_kernel_are_listed_and_lead_nowhere() -> None:
    figures = [{"kernel": None, "metric": name, "avg": 50.0, "unit": "%"} for name in ("first", "second")]
    profile = make_profile(activities=[kernel("f", 5, start_ns=0)], metrics=figures)
    async with open_profile(profile, view="metrics") as pilot:
        await press(pilot, "i")
        assert app_of(pilot).screen.query_one(DetailPane).is_open
        await press(pilot, "escape", "enter")
        assert app_of(pilot).internal_error is None


async def test_a_link_leads_from_a_total_to_its_layers_and_their_work() -> None:
    async with open_explorer(PALEO, view="layers") as pilot:
        await press(pilot, NEXT)
        total = table_of(pilot, "layer_totals").frame.row(0, named=True)
        assert table_of(pilot, "layers_of_total").frame["measured_ns"].sum() == total["measured_ns"]
        assert_rows_of_report(pilot, "layer_totals", report_json(pilot, "layers")["layer_totals"])
    profile = make_profile(
        layers=[{"layer": "conv1", "phase": "forward", "executor": "caffe", "time_ns": 5, "measured": True}],
        ops=[{"op": 0, "name": "conv1", "start_ns": 0, "duration_ns": 5, "op_source": "nvtx"}],
        activities=[kernel("a", 5, start_ns=0, op=0), kernel("b", 5, start_ns=9)],
    )
    async with open_profile(profile, view="layers") as pilot:
        assert column_of(pilot, "layer_work", "name") == ["a"]


async def test_a_link_leads_from_a_caffe_layer_to_its_kernels_in_the_tree() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="layers") as pilot:
        assert len(column_of(pilot, "layer_work", "name")) == 8
        forward = table_of(pilot, "layer_work").frame["duration_ns"].sum()
        await press(pilot, "j")
        backward = table_of(pilot, "layer_work").frame
        names = backward["name"].cast(pl.String).str.extract(r"(calc_bias|wgrad|dgrad)").to_list()
        assert names == ["calc_bias", "wgrad", "dgrad"] * 2
        (figures_line,) = by_layer(app_of(pilot).profile_session.profile).filter(pl.col("node") == "conv1")["gpu_ns"]
        assert forward + backward["duration_ns"].sum() == figures_line


@pytest.mark.parametrize("view", ["api", "ranges", "metrics", "layers"])
async def test_tables_agree_with_the_report(view: str) -> None:
    sample = {"metrics": METRICS, "layers": PALEO}.get(view, TORCH)
    async with open_explorer(sample, view=view_of_report(view)) as pilot:
        first = tabs_of(pilot).tables.levels[0].name
        assert_rows_of_report(pilot, first, report_json(pilot, view)["rows"])


async def test_details_of_a_range_name_its_parent_and_its_launches() -> None:
    async with open_explorer(TORCH, size=(200, 50), view="ranges") as pilot:
        await press(pilot, NEXT, "j")
        assert column_of(pilot, "depths", "depth")[1] == 1
        await press(pilot, "enter", "enter", "i")
        text = screen_text(pilot.app)
        assert "Inside" in text
        assert "ProfilerStep#" in text
        assert "Launched in it" in text


async def test_details_follow_the_cursor() -> None:
    async with open_explorer(TORCH, size=(200, 50), view="api-calls") as pilot:
        await press(pilot, NEXT, "i")
        assert "thread 454" in str(app_of(pilot).screen.query_one("#detail-text").render())
        await press(pilot, "j")
        assert "thread 428" in str(app_of(pilot).screen.query_one("#detail-text").render())


def test_launches_of_ranges_without_a_thread_are_unknown_not_none() -> None:
    call = {"name": "cudaLaunchKernel", "start_ns": 1, "duration_ns": 2, "tid": 7}
    linked, unlinked = (
        make_profile(api_calls=[call], ranges=[{"name": "step", "start_ns": 0, "duration_ns": 9, "tid": tid}])
        for tid in (7, None)
    )
    assert no_work(linked) == "this range launched no GPU work"
    unknown = "this input does not record the threads of ranges: their GPU work is unknown"
    assert no_work(unlinked) == no_work_meanwhile(unlinked) == unknown


def test_the_reason_for_no_launches_distinguishes_totals_from_no_gpu_work() -> None:
    assert no_launches(make_profile(ops=[{"op_id": "0", "name": "relu"}])).startswith("no GPU activities: record with")
    # A session with totals, beside one that holds launches.
    assert no_launches(make_profile(activities=[kernel("k", 9, start_ns=1)])).startswith("this session has totals")
    assert no_instances(make_profile(api_calls=[{"name": "cudaFree", "start_ns": 1}])).startswith(
        "this session has totals"
    )
