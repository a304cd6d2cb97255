"""Reports of the samples, compared with golden files, and equal figures in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.analysis.frames import kernel, make_profile
from tui.analysis.rank_summary import ONE_RANK
from tui.cli.main import main
from tui.loaders.registry import load_input
from tui.output.report import Style, as_json, as_markdown, as_text
from tui.output.report_dashboard import DashboardReport
from tui.tables import ALL_REPORTS, REPORTS, VIEW_OF_REPORT, report_of_view, view_of_report
from tui.text import begin_sentence
from tui.text_width import cell_width
from tui.views import VIEWS

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from syrupy.location import PyTestLocation

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_logs"
LOGS = sorted(
    path.name for path in SAMPLES.iterdir() if path.suffix in (".log", ".csv", ".txt") or "report" in path.name
)


class TextFile(SingleFileSnapshotExtension):
    """Saves golden files as text, readable in a diff."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(Path(test_location.filepath).parent / "golden" / test_location.basename)


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@pytest.fixture(autouse=True)
def sample_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make paths in reports independent of the location of the checkout."""
    monkeypatch.chdir(SAMPLES)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("COLUMNS", raising=False)


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("name", ["caffe_conv1.nvprof.log", "gpt_summary.nvprof.log", "paleo_vgg16.txt"])
def test_the_dashboard(capfd: pytest.CaptureFixture[str], golden: SnapshotAssertion, name: str) -> None:
    assert run(capfd, "report", name) == golden


def test_the_dashboard_of_a_narrow_terminal_without_utf8(
    capfd: pytest.CaptureFixture[str], golden: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("COLUMNS", "60")
    text = run(capfd, "report", "resnet50_training.nvprof.log")
    assert text.isascii()
    assert text == golden


@pytest.mark.parametrize(
    ("view", "name"),
    [
        ("ops", "resnet50_training.nvprof.log"),
        ("kernels", "caffe_conv1.nvprof.log"),
        ("api", "tracking_four_runs.nvprof.log"),
        ("layers", "paleo_vgg16.txt"),
        ("metrics", "metrics_and_events.nvprof.log"),
        ("issues", "caffe_conv1.nvprof.log"),
        ("api", "caffe_conv1.nvprof.log"),
    ],
)
def test_the_views(capfd: pytest.CaptureFixture[str], golden: SnapshotAssertion, view: str, name: str) -> None:
    assert run(capfd, "report", name, "--view", view) == golden


@pytest.mark.parametrize("view", ["dashboard", "kernels", "metrics"])
def test_markdown(capfd: pytest.CaptureFixture[str], golden: SnapshotAssertion, view: str) -> None:
    assert run(capfd, "report", "metrics_and_events.nvprof.log", "--view", view, "--format", "markdown") == golden


def test_inspect_for_people(capfd: pytest.CaptureFixture[str], golden: SnapshotAssertion) -> None:
    assert run(capfd, "inspect", "tracking_four_runs.nvprof.log", "paleo_vgg16.txt") == golden


@pytest.mark.parametrize("name", LOGS)
def test_lines_fit_the_width_and_all_formats_have_equal_figures(name: str) -> None:
    profile = load_input(name)
    for width in (60, 100):
        for view in REPORTS:
            assert max(map(cell_width, as_text(profile, view, Style(width)).splitlines())) <= width
    kernel_rows = json.loads(as_json(profile, "kernels"))["rows"]
    dashboard = DashboardReport(profile)
    content = json.loads(dashboard.as_json())
    total_ns = sum(row["total_ns"] or 0 for row in kernel_rows)
    assert (content["performance"]["gpu_ns"] or 0) == total_ns
    assert sum(group["total_ns"] or 0 for group in content["split"]) == total_ns
    assert sum(row["total_ns"] or 0 for row in json.loads(as_json(profile, "ops"))["rows"]) == total_ns
    assert content["top_kernels"] == sorted(content["top_kernels"], key=lambda row: -row["total_ns"])
    # The Markdown table has a line for each row.
    assert len(as_markdown(profile, "kernels").splitlines()) == (len(kernel_rows) + 4 if kernel_rows else 3)


def test_the_dashboard_prints_the_first_eight_sessions() -> None:
    work = [{**kernel("k", 10, start_ns=0), "session": session} for session in range(11)]
    dashboard = DashboardReport(make_profile(activities=work, devices=[{"session": n, "device": 0} for n in range(11)]))
    sentence = "3 more sessions: --session N shows one."
    for text in (dashboard.as_text(Style(100)), dashboard.as_markdown()):
        assert text.count(sentence) == 2  # of the wall time and of the GPUs
    text = dashboard.as_text(Style(100))
    assert sum(line.startswith("Using tensor cores ") and line.endswith(" 7") for line in text.splitlines()) == 1
    assert not any(line.startswith("Using tensor cores ") and line.endswith(" 8") for line in text.splitlines())
    assert len({row["session"] for row in json.loads(dashboard.as_json())["breakdown"]}) == 11
    few = DashboardReport(make_profile(activities=work[:8], devices=[{"session": n, "device": 0} for n in range(8)]))
    assert "more session" not in few.as_text(Style(100))


def test_an_empty_view_has_a_reason() -> None:
    profile = load_input("gpt_summary.nvprof.log")
    assert as_text(profile, "layers", Style(100)) == (
        "Layers (0 rows)\n\nNo layer times: open a layer profile from trtexec --dumpProfile, caffe time or Paleo\n"
    )
    one_rank = load_input("resnet50_training.nvprof.log")
    assert as_text(one_rank, "ranks", Style(100)) == f"Ranks (0 rows)\n\n{begin_sentence(ONE_RANK)}\n"
    assert as_markdown(profile, "issues") == "## Issues (0 rows)\n\nNone\n"


def test_every_view_with_tables_has_a_report() -> None:
    without_report = {"dashboard", "expert-systems", "sql", "log", "notes", "compare"}
    assert {view_of_report(report) for report in REPORTS} == {view.name for view in VIEWS} - without_report


def test_other_summaries_are_shown_as_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "um.log"
    log.write_text(
        "==7== Profiling result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  10.000us         2  5.0000us  4.0000us  6.0000us  gemm(float*)\n"
        "\n"
        "==7== Unified Memory profiling result:\n"
        'Device "Tesla V100-SXM2-16GB (0)"\n'
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "       3         -         -         -           -  1.500000ms  Gpu page fault groups\n"
        "Total CPU Page faults: 12\n"
    )
    assert run(capfd, "report", str(log), "--no-cache", "--view", "summaries").splitlines()[2:5] == [
        "Name                   Section         Total ms  Calls  Repaired  Line",
        "Gpu page fault groups  unified memory     1.500      3        no     8",
        "CPU Page faults        unified memory         –     12        no     9",
    ]


def test_headings_are_bold_on_request() -> None:
    profile = load_input("gpt_summary.nvprof.log")
    bold_text = as_text(profile, "api", Style(80, bold=True))
    assert bold_text.startswith("\x1b[1mAPI Calls (1 row, 16.255 ms)\x1b[0m\n")
    assert bold_text.replace("\x1b[1m", "").replace("\x1b[0m", "") == as_text(profile, "api", Style(80))


def test_the_gpu_can_be_named(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "report", "caffe_conv1.nvprof.log", "--gpu", "Tesla V100-SXM2-16GB", "--format", "json")
    assert json.loads(text)["devices"][0]["compute_capability"] == "7.0"
    assert main(["report", "caffe_conv1.nvprof.log", "--gpu", "abacus"]) == 2
    assert capfd.readouterr().err.startswith("proftui: --gpu abacus: unknown GPU\n")


def test_the_dashboard_shows_the_worst_issues_in_full(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("==5== NVPROF is profiling process 5, command: ./a\nNo kernels were profiled.\n")
    text = run(capfd, "report", str(log))
    assert "1 warning: proftui report --view issues lists them" in text
    assert "line 2: no kernels were profiled: nvprof saw no GPU work." in text
    assert "--profile-child-processes" in text


def test_group_ops_names_the_trees_that_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    text = " ".join(run(capfd, "report", "ddp_ranks", "--view", "group-ops").split())
    assert "Grouped by module or range, separately for each session. Other trees: by caller, by NVTX range" in text
    assert "all of session 0" in text
    assert "all of session 1" in text


def test_a_view_can_be_named_like_its_screen(capfd: pytest.CaptureFixture[str]) -> None:
    screens = {view.name for view in VIEWS} - {"sql", "log", "compare"}
    assert screens <= {*ALL_REPORTS, *VIEW_OF_REPORT.values()}
    for screen in VIEW_OF_REPORT.values():
        view = report_of_view(screen)
        assert view_of_report(view) == screen
        text = run(capfd, "report", "caffe_conv1.nvprof.log", "--view", screen)
        assert text == run(capfd, "report", "caffe_conv1.nvprof.log", "--view", view)


def test_an_empty_table_has_a_reason(capfd: pytest.CaptureFixture[str]) -> None:
    trace = "resnet50_training.pt.trace.json.gz"
    no_match = run(capfd, "report", trace, "--view", "kernels", "--filter", "zzz")
    assert no_match == "Kernels (0 rows)\n\nNo row matches --filter 'zzz': the table has 80.\n"
    metrics = run(capfd, "report", trace, "--view", "metrics", "--limit", "3", "--format", "markdown")
    assert metrics.endswith("\n\nNo metrics: record with ncu --set full --csv --page raw ./app\n")
