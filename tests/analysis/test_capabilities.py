from __future__ import annotations

import json
from collections.abc import Callable

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.profiles import load_one
from tui.analysis.capabilities import OK, inspect, missing_data_text, views
from tui.analysis.needs import ALLOCATIONS
from tui.model.profile import Profile, merge_profiles
from tui.views import VIEWS


class OneLineLog:
    """A log of one line."""

    line_count = 1

    def lines(self, first: int, count: int) -> list[str]:
        return ["a line"][first - 1 : first - 1 + count]


def test_every_view_has_an_availability_and_an_empty_input_has_few_views() -> None:
    availability = views(make_profile())
    assert list(availability) == [view.name for view in VIEWS]
    assert {name for name, reason in availability.items() if reason == OK} == {
        "dashboard",
        "sql",
        "issues",
        "notes",
        "compare",
    }


def test_a_reason_names_the_missing_data_and_the_command_that_records_it() -> None:
    availability = views(make_profile(summary=[summary_row("gpu", "k", 1, 5)]))
    assert availability["kernels"] == availability["ops-and-kernels"] == OK
    assert availability["metrics"] == "no metrics: record with ncu --set full --csv --page raw ./app"
    assert availability["api-calls"] == "no API calls: record with nsys profile --trace=cuda,nvtx ./app"
    assert (
        availability["layers"] == "no layer times: open a layer profile from trtexec --dumpProfile, caffe time or Paleo"
    )


def test_commands_do_not_request_data_that_the_tool_cannot_record() -> None:
    profile = make_profile(sessions=[{"format": "xla-trace", "tool": "XLA profiler"}])
    assert missing_data_text(profile, ALLOCATIONS) == "no allocations: not part of this kind of recording"
    reason = "no allocations: open a PyTorch trace recorded with profile_memory=True"
    assert missing_data_text(make_profile(), ALLOCATIONS) == reason


def test_a_view_of_start_times_needs_a_trace() -> None:
    totals = views(make_profile(summary=[summary_row("gpu", "k", 1, 5)]))
    trace = views(make_profile(activities=[kernel("k", 5, start_ns=0)]))
    # Iterations are found by start times, so the reason asks for start times.
    assert (
        totals["timeline"] == totals["iterations"] == "no start times: record with nsys profile --trace=cuda,nvtx ./app"
    )
    assert trace["timeline"] == trace["iterations"] == OK
    tree = make_profile(sessions=[{"format": "proton"}], summary=[summary_row("gpu", "k", 1, 5)])
    assert views(tree)["timeline"] == "no start times: record with proton -d trace -n run script.py"


def test_the_timeline_shows_threads_without_gpu_work() -> None:
    ranges = [{"name": "step", "start_ns": 0, "duration_ns": 5}]
    assert views(make_profile(ranges=ranges))["timeline"] == OK
    assert views(make_profile(api_calls=[{"name": "cudaFree", "duration_ns": 1}]))["timeline"] != OK


def test_views_available_with_each_frame() -> None:
    assert views(make_profile(api_calls=[{"name": "cudaFree", "duration_ns": 1}]))["api-calls"] == OK
    assert views(make_profile(summary=[summary_row("api", "cudaFree", 1, 1)]))["api-calls"] == OK
    measured = views(make_profile(metrics=[{"kernel": "k", "metric": "ipc", "avg": 1.0}]))
    # Rules on the quality of the recording apply to metrics and to issues.
    assert (measured["metrics"], measured["expert-systems"]) == (OK, OK)
    for severity, is_available in (("error", True), ("warning", True), ("info", False)):
        availability = views(make_profile(issues=[{"severity": severity, "reason": "torn"}]))["expert-systems"]
        assert (availability == OK) is is_available
    assert views(make_profile(layers=[{"layer": "conv1", "time_ns": 5}]))["layers"] == OK
    assert views(make_profile(layers=[{"layer": "conv1", "predicted_ns": 5}]))["layers"] == OK
    assert views(make_profile(layers=[{"layer": "conv1"}]))["layers"] != OK
    empty = make_profile()
    assert views(Profile(empty.frames, ("run.log",), {"run.log": OneLineLog()}))["log"] == OK


def test_inspect_lists_the_content_of_each_session() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text", "pid": 7, "command": "./a", "first_line": 2, "last_line": 9}],
        activities=[kernel("k", 5), kernel("k", 7), copy("HtoD", 3), kernel("fault", None, kind="um")],
        summary=[summary_row("gpu", "k", 2, 30, session=1), summary_row("api", "f", 3, 40, session=1)],
        metrics=[{"session": 1, "kernel": "k", "metric": "ipc"}],
        issues=[{"severity": "warning"}, {"severity": "warning"}, {"severity": "info"}],
    )
    result = inspect(profile)
    assert json.loads(json.dumps(result)) == result
    assert result["source"] == "run.log"
    assert result["issues"] == {"error": 0, "warning": 2, "info": 1}
    assert result["views"] == views(profile)
    first, second = result["sessions"]
    assert first == {
        "session": 0,
        "format": "nvprof-text",
        "pid": 7,
        "command": "./a",
        "first_line": 2,
        "last_line": 9,
        "frames": {
            "activities": {
                "rows": 4,
                "duration_ns": 15,
                "by_kind": {
                    "kernel": {"rows": 2, "duration_ns": 12},
                    "memcpy": {"rows": 1, "duration_ns": 3},
                    "um": {"rows": 1, "duration_ns": None},
                },
            }
        },
    }
    assert second["frames"] == {
        "summary": {
            "gpu": {"rows": 1, "calls": 2, "total_ns": 30, "duration_ns": 30},
            "api": {"rows": 1, "calls": 3, "total_ns": 40, "duration_ns": 40},
            "rows": 2,
        },
        "metrics": {"rows": 1, "launches": 0},
    }
    assert "partial" not in result


def test_inspect_reports_partial_data() -> None:
    empty = make_profile()
    assert inspect(Profile(empty.frames, ("a",), partial="stopped at 68%"))["partial"] == "stopped at 68%"
    assert inspect(merge_profiles([empty, make_profile()]))["sources"] == ["run.log", "run.log"]


def test_inspect_of_a_real_trace(corpus: Callable[[str], str]) -> None:
    result = inspect(load_one(corpus("seeds/000_eb78dec59201d654.txt")))
    activities = result["sessions"][0]["frames"]["activities"]
    assert (activities["rows"], activities["duration_ns"]) == (32, 753_580_086)
    assert {kind: summary["rows"] for kind, summary in activities["by_kind"].items()} == {
        "kernel": 20,
        "memcpy": 6,
        "memset": 6,
    }
    assert (result["sessions"][0]["pid"], result["views"]["log"]) == (6463, OK)
