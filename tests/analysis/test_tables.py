from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.analysis.frames import copy, make_profile, summary_row
from tests.analysis.test_kernels import assert_has_columns
from tests.profiles import load_one
from tui.analysis.copies import UNIFIED, copies, unified_memory
from tui.analysis.hardware_metrics import METRICS, metrics
from tui.analysis.issues import ISSUES, issue_counts, issues
from tui.analysis.layers import LAYER_TOTALS, LAYERS, layer_totals, layers
from tui.analysis.tool_report import EXTRA_SUMMARIES_SPEC, extra_summaries


def layer(name: str, time_ns: int | None, predicted_ns: int | None = None, **fields: Any) -> dict[str, Any]:
    fields_of_run = {"model": "vgg", "phase": "forward", "executor": "cudnn", "measured": True}
    return {"layer": name, "time_ns": time_ns, "predicted_ns": predicted_ns, **fields_of_run, **fields}


def test_measured_and_predicted_times_are_in_one_row() -> None:
    rows = layers(make_profile(layers=[layer("conv1", 80, 40), layer("pool1", None, 7), layer("fc", 20, None)]))
    assert rows.select("layer", "measured_ns", "predicted_ns", "ratio", "time_pct").rows() == [
        ("conv1", 80, 40, 0.5, 80.0),
        ("pool1", None, 7, None, None),
        ("fc", 20, None, None, 20.0),
    ]
    assert_has_columns(rows, LAYERS)


def test_predictions_without_measurements_have_no_measured_time() -> None:
    rows = [layer("conv1", 30, executor="paleo", measured=False), layer("fc", 10, executor="paleo", measured=False)]
    layer_rows = layers(make_profile(layers=rows))
    assert layer_rows.select("measured_ns", "predicted_ns", "ratio", "time_pct").rows() == [
        (None, 30, None, 75.0),
        (None, 10, None, 25.0),
    ]


def test_layers_that_take_no_time_have_no_share() -> None:
    assert layers(make_profile(layers=[layer("dropout", 0)])).select("measured_ns", "time_pct").rows() == [(0, None)]


def test_totals_compare_layers_with_both_times_only() -> None:
    totals = layer_totals(
        make_profile(
            layers=[
                layer("conv1", 80, 40),
                layer("pool1", None, 7),
                layer("fc", 20, None),
                layer("conv1", 10, 5, executor="tensorflow"),
                layer("conv1", 9, None, phase="backward"),
            ]
        )
    )
    selected = totals.select("phase", "executor", "layers", "measured_ns", "predicted_ns", "ratio")
    assert selected.rows() == [
        ("forward", "cudnn", 3, 100, 47, 0.5),
        ("forward", "tensorflow", 1, 10, 5, 0.5),
        ("backward", "cudnn", 1, 9, None, None),
    ]
    assert_has_columns(totals, LAYER_TOTALS)


def test_layers_of_paleo(corpus: Callable[[str], str]) -> None:
    profile = load_one(corpus("seeds/001_c245d485069c24cb.txt"))
    first = layers(profile).row(0, named=True)
    assert (first["layer"], first["measured_ns"], first["predicted_ns"]) == ("conv1-1", 9_857_393, 6_758_356)
    assert first["ratio"] == pytest.approx(0.685613, abs=1e-6)
    totals = layer_totals(profile)
    assert totals.height == 6
    assert totals["measured_ns"].sum() == layers(profile)["measured_ns"].sum()


def test_issues_are_sorted_by_severity_and_line() -> None:
    rows = [
        {"severity": "info", "line": 1, "reason": "a"},
        {"severity": "error", "line": 9, "reason": "b"},
        {"severity": "warning", "line": 5, "reason": "c"},
        {"severity": "error", "line": 3, "reason": "d"},
    ]
    profile = make_profile(issues=rows)
    assert issues(profile)["reason"].to_list() == ["d", "b", "c", "a"]
    assert issue_counts(profile) == {"error": 2, "warning": 1, "info": 1}
    assert_has_columns(issues(profile), ISSUES)
    # An empty text becomes null, so that its column is hidden.
    assert issues(make_profile(issues=[{**rows[0], "text": ""}]))["text"].to_list() == [None]


def test_metrics_name_their_gpu() -> None:
    rows = metrics(make_profile(metrics=[{"kernel": "k", "metric": "ipc", "avg": 1.5, "device": "Tesla K40c"}]))
    assert rows.select("kernel", "metric", "avg", "device_name").rows() == [("k", "ipc", 1.5, "Tesla K40c")]
    assert_has_columns(rows, METRICS)


def test_rows_without_lines_have_unique_keys() -> None:
    issue = {"severity": "warning", "reason": "reported by Nsight Systems"}
    issue_rows = issues(
        make_profile(issues=[{**issue, "text": "No NVTX events"}, {**issue, "text": "The driver is old"}])
    )
    assert not issue_rows.select(ISSUES.key).is_duplicated().any()
    metric_rows = [
        {"kernel": kernel, "metric": "metric 128", "device": device, "grid_x": grid, "avg": 1.0}
        for kernel in ("a", "b")
        for device in ("0", "1")
        for grid in (1, 2)
    ]
    assert not metrics(make_profile(metrics=metric_rows)).select(METRICS.key).is_duplicated().any()


def test_unified_memory_of_several_gpus_is_separate() -> None:
    summary = [summary_row("um", "Host To Device", 3, 9, line=line) for line in (4, 9)]
    rows = unified_memory(make_profile(summary=summary))
    assert rows["line"].to_list() == [4, 9]
    assert not rows.select(UNIFIED.key).is_duplicated().any()


def test_copies_of_equal_time_have_a_stable_order() -> None:
    work = [copy("HtoD", 5, session=session) for session in range(12)]
    assert copies(make_profile(activities=work))["session"].to_list() == list(range(12))


def test_other_summaries_are_neither_gpu_work_nor_api_calls() -> None:
    sections = ("gpu", "um", "api", "nvtx", "openacc", "cpu", "dependency")
    rows = extra_summaries(make_profile(summary=[summary_row(section, section, 1, 1) for section in sections]))
    assert rows["name"].to_list() == ["um", "nvtx", "openacc", "cpu", "dependency"]
    assert rows["section"].to_list() == ["unified memory", "NVTX", "OpenACC", "CPU samples", "dependency"]
    assert_has_columns(rows, EXTRA_SUMMARIES_SPEC)
