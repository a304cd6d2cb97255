"""``proftui diff``: text, Markdown and JSON of one comparison, and the exit status for CI."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import sample_path
from tui.cli.arguments import DIFF_FRAMES
from tui.cli.main import main
from tui.fmt import duration

if TYPE_CHECKING:
    from pathlib import Path

TRACE = sample_path("resnet50_training.pt.trace.json.gz")
CAFFE = sample_path("caffe_conv1.nvprof.log")


_OUTPUT_CACHE: dict[tuple[str, ...], tuple[int, str, str]] = {}
"""Status and output of commands on samples, which several tests share."""


def run_diff(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    printed = _OUTPUT_CACHE.get(arguments)
    if printed is None:
        exit_status = main(["diff", *arguments])
        printed = (exit_status, *capfd.readouterr())
        if arguments[0] in (TRACE, CAFFE) and arguments[1] in (TRACE, CAFFE):
            _OUTPUT_CACHE[arguments] = printed
    assert printed[0] == status
    return printed[1:]


def compare_steps(
    capfd: pytest.CaptureFixture[str], baseline: int, candidate: int, *arguments: str, status: int = 0
) -> tuple[str, str]:
    return run_diff(
        capfd, TRACE, TRACE, "--iterations", str(baseline), "--iterations-b", str(candidate), *arguments, status=status
    )


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_two_steps_of_one_run_can_be_compared(capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads(compare_steps(capfd, 4, 5, "--format", "json")[0])
    assert content["per_iteration"]
    assert [side.rsplit(", ", 1)[1] for side in (content["baseline"], content["candidate"])] == [
        "iterations 4",
        "iterations 5",
    ]
    figures = {figure["name"]: figure for figure in content["figures"]}
    assert figures["gpu_ns"]["baseline"] == pytest.approx(sum(row["a_total_ns"] or 0 for row in content["kernels"]))
    assert figures["gpu_ns"]["candidate"] == pytest.approx(sum(row["b_total_ns"] or 0 for row in content["ops"]))
    text = compare_steps(capfd, 4, 5)[0]
    assert "Median iteration" in text
    assert "\nKernels (first 15 of " in text
    markdown = compare_steps(capfd, 4, 5, "--format", "markdown")[0]
    assert markdown.startswith("## ")
    assert "| Baseline | Candidate | Diff | Diff% |" in markdown


def test_markdown_lists_what_is_not_compared(capfd: pytest.CaptureFixture[str]) -> None:
    text = run_diff(capfd, TRACE, TRACE, "--format", "markdown")[0]
    assert "Outside iterations, and not compared: baseline 755 µs, candidate 755 µs.\n\n|" in text


def test_without_a_common_time_there_is_no_verdict(capfd: pytest.CaptureFixture[str]) -> None:
    layers = sample_path("paleo_vgg16.txt")
    assert run_diff(capfd, layers, layers)[1] == ""
    _, messages = run_diff(capfd, layers, layers, "--fail-on-regression", "5%", status=2)
    assert messages.startswith("proftui: no verdict: the profiles have no common time to compare\n")


def test_a_slower_step_is_a_regression(capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads(compare_steps(capfd, 4, 5, "--format", "json")[0])
    figures = {figure["name"]: figure for figure in content["figures"]}
    is_slower = figures["median_iteration_ns"]["delta"] > 0
    faster, slower = (4, 5) if is_slower else (5, 4)
    _, messages = compare_steps(capfd, faster, slower, "--fail-on-regression", "0%", status=1)
    first, *_, second, third = messages.splitlines()
    assert first.startswith("proftui: FAIL: median iteration ")
    assert first.endswith("; limit +0%")
    assert second.startswith("         largest increases per iteration: kernel ")
    assert third.startswith("         of kernels, copies and memsets, ")
    _, messages = compare_steps(capfd, slower, faster, "--fail-on-regression", "0%")
    assert "proftui: PASS: median iteration " in messages
    assert "; limit +0%" in messages


def test_the_verdict_states_the_spread_of_iterations_and_possible_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments = (sample_path("resnet50_training.nvprof.log"), TRACE, "--fail-on-regression", "1%")
    text, messages = run_diff(capfd, *arguments, "--format", "json")
    halves = (
        "25th to 75th percentile of the iterations: baseline 37.000 ms to 51.049 ms, candidate 36.969 ms to 50.999 ms"
    )
    assert messages.splitlines()[1].strip() == f"{halves}; they overlap, so the difference may be noise"
    assert json.loads(text)["judged"]["middle_half_ns"] == [[37_000_000, 51_049_000], [36_969_324, 50_999_126]]
    _, messages = compare_steps(capfd, 4, 5, "--fail-on-regression", "99%")
    assert "too few iterations to estimate noise (1 baseline, 1 candidate; 4 needed)" in messages


def test_a_truncated_run_has_no_verdict(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    truncated = tmp_path / "cut.json"
    with gzip.open(TRACE) as file:
        truncated.write_bytes(file.read(9_000_000))
    text, messages = run_diff(
        capfd, TRACE, str(truncated), "--fail-on-regression", "5%", "--format", "markdown", status=2
    )
    assert "\nPartial results: truncated after 24,124 events (candidate).\n" in text
    assert "- No verdict: part of a run is missing" in text
    assert (
        messages.splitlines()[0]
        == "proftui: no verdict: part of a run is missing, and times of whole runs are not comparable"
    )
    content = json.loads(run_diff(capfd, TRACE, str(truncated), "--format", "json")[0])
    assert content["partial"] == ["", "truncated after 24,124 events"]


def test_unknown_figures_have_a_reason_in_every_format(capfd: pytest.CaptureFixture[str]) -> None:
    files = (CAFFE, sample_path("gpt_summary.nvprof.log"))
    reason = "no API calls: record with nvprof --print-api-trace"
    expected = f"API time and API calls of the baseline are unknown: {reason}.\n"
    assert f"\n{expected}" in run_diff(capfd, *files)[0]
    assert f"\n- {expected}" in run_diff(capfd, *files, "--format", "markdown")[0]
    content = json.loads(run_diff(capfd, *files, "--frame", "figures", "--format", "json")[0])
    assert {row["name"]: row["unknown_reason"] for row in content["rows"]}["api_ns"] == f"baseline: {reason}"


def test_hidden_rows_are_summed(capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads(compare_steps(capfd, 4, 5, "--format", "json")[0])["kernels"]
    hidden_ns, total_ns = ([sum(row[name] or 0 for row in rows) for name in ("a_total_ns", "b_total_ns")]
                   for rows in (content[15:], content))  # fmt: skip
    markdown = compare_steps(capfd, 4, 5, "--format", "markdown")[0]
    line = next(line for line in markdown.splitlines() if line.startswith("The other "))
    hidden_text, total_text = line.split("; ")
    assert hidden_text.startswith(
        f"The other {len(content) - 15}: baseline {duration(hidden_ns[0])}, candidate {duration(hidden_ns[1])} ("
    )
    assert total_text.startswith(
        f"all {len(content)}: baseline {duration(total_ns[0])}, candidate {duration(total_ns[1])} ("
    )


def test_a_file_that_cannot_be_read_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    _, messages = run_diff(capfd, CAFFE, "nowhere.log", status=2)
    assert messages == "proftui: nowhere.log: no such file\n"
    with pytest.raises(AssertionError):
        run_diff(capfd, CAFFE, "nowhere.log")


@pytest.mark.parametrize("share", ["x", "-1%", "nan", "inf"])
def test_an_invalid_percentage_is_an_error(share: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, messages = run_diff(capfd, CAFFE, CAFFE, f"--fail-on-regression={share}", status=2)
    first = f"proftui: argument --fail-on-regression: {share}: expected a percentage of at least 0%, such as 5%"
    assert messages.splitlines() == [first, "         proftui diff --help"]


def test_a_number_below_one_needs_a_percent_sign(capfd: pytest.CaptureFixture[str]) -> None:
    _, messages = run_diff(capfd, CAFFE, CAFFE, "--fail-on-regression", "0.05", status=2)
    first = "proftui: argument --fail-on-regression: 0.05: ambiguous: 0.05% or 5%? Write the % sign"
    assert messages.splitlines() == [first, "         proftui diff --help"]
    assert "; limit +0.05%\n" in run_diff(capfd, CAFFE, CAFFE, "--fail-on-regression", "0.05%")[1]


def test_a_log_does_not_differ_from_itself(capfd: pytest.CaptureFixture[str]) -> None:
    text, messages = run_diff(capfd, CAFFE, CAFFE, "--fail-on-regression", "0")
    assert "Times of the whole runs: no iterations in" in text
    assert messages == "proftui: NO CHANGE: span 993.83 ms to 993.83 ms (0.00%); limit +0%\n"
    content = json.loads(run_diff(capfd, CAFFE, CAFFE, "--format", "json")[0])
    assert {row["delta_ns"] for row in content["kernels"]} == {0}
    assert {row["change"] for row in content["findings"]} <= {""}


def write_log(path: Path, *microseconds: int) -> str:
    """Write an nvprof trace of three kernels that start a millisecond apart; return its path."""
    headings = ["Start", "Duration", "Grid Size", "Block Size", "Regs*", "SSMem*", "DSMem*", "Size", "Throughput"]
    headings += ["Device", "Context", "Stream", "Name"]
    lines = [
        "==1== Profiling application: ./app",
        "==1== Profiling result:",
        "".join(f"{heading:>20}" for heading in headings),
    ]
    for index, (name, time) in enumerate(zip(("slow", "fast", "last"), microseconds, strict=True)):
        cells = [f"{1000 + index}.000ms", f"{time}.00us", "(1 1 1)", "(32 1 1)", "8", "0B", "0B", "-", "-"]
        cells += ["Tesla K80 (0)", "1", "7", f"{name}(int*) [{index + 10}]"]
        lines.append("".join(f"{cell:>20}" for cell in cells))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_largest_increase_is_named_even_if_the_total_is_unchanged(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = write_log(tmp_path / "before.log", 800, 100, 100), write_log(tmp_path / "now.log", 200, 700, 100)
    text, messages = run_diff(capfd, *files, "--whole-runs", "--fail-on-regression", "5%")
    first, second, third = messages.splitlines()
    assert first == "proftui: NO CHANGE: span 2.100 ms to 2.100 ms (0.00%); limit +5%"
    assert second == "         largest increases: kernel fast(int*) +600.00 \u00b5s (+600.00%)"
    assert third == "         of kernels, copies and memsets, 1 took 600.00 \u00b5s more, 1 took 600.00 \u00b5s less"
    lines = text.splitlines()
    assert any(line.split() == ["Baseline", "Candidate", "Diff", "Diff%"] for line in lines)
    heading_line = next(
        index
        for index, line in enumerate(lines)
        if line.startswith("Change  Baseline \u00b5s  Candidate \u00b5s  Diff \u00b5s")
    )
    assert [line.split()[2:4] for line in lines[heading_line + 1 : heading_line + 3]] == [
        ["-600.00", "-75.00"],
        ["+600.00", "+600.00"],
    ]


def test_the_judged_figure_is_in_every_format(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = write_log(tmp_path / "before.log", 100, 100, 100), write_log(tmp_path / "now.log", 400, 100, 100)
    arguments = (*files, "--whole-runs", "--fail-on-regression", "5%")
    first = "NO CHANGE: span 2.100 ms to 2.100 ms (0.00%); limit +5%."
    second = "Also longer by more than 5%: GPU time (+100.00%), kernel time (+100.00%)."
    changes = "GPU work +100%, GPU busy 14 to 29% (idle 1.80 ms to 1.50 ms)."
    assert f"- {first}\n- {changes}\n- {second}\n" in run_diff(capfd, *arguments, "--format", "markdown")[0]
    text = run_diff(capfd, *arguments)[0]
    assert f"\n{first}\n{changes}\n{second}\n" in text
    assert text.count("NO CHANGE") == 1
    content = json.loads(run_diff(capfd, *arguments, "--format", "json")[0])
    assert content["judged"] == {
        "figure": "span_ns",
        "than_pct": 5.0,
        "fails": False,
        "longer_too": ["gpu_ns", "kernel_ns"],
        "middle_half_ns": None,
    }
    assert "judged" not in json.loads(run_diff(capfd, *files, "--format", "json")[0])


def test_a_table_of_the_comparison_can_be_exported(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = write_log(tmp_path / "before.log", 800, 100, 100), write_log(tmp_path / "now.log", 200, 700, 100)
    comparison = json.loads(run_diff(capfd, *files, "--format", "json")[0])
    text, messages = run_diff(capfd, *files, "--format", "csv")
    others = "ops, op_types, api, layers, findings, memory, figures"
    assert messages == f"proftui: csv contains one table: kernels; with --frame also {others}\n"
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["name"], float(row["delta_ns"])) for row in rows] == [
        ("slow(int*)", -600_000),
        ("fast(int*)", 600_000),
        ("last(int*)", 0),
    ]
    for name in DIFF_FRAMES:
        assert json.loads(run_diff(capfd, *files, "--frame", name, "--format", "json")[0])["rows"] == comparison.get(
            name, []
        )
    path = tmp_path / "figures.csv"
    run_diff(capfd, *files, "--frame", "figures", "-o", str(path))
    assert path.read_text().splitlines()[:2] == [
        "name,baseline,candidate,delta,delta_pct,unknown_reason",
        "span_ns,2100000.0,2100000.0,0.0,0.0,",
    ]
    _, messages = run_diff(capfd, *files, "--frame", "ops", "--format", "text", status=2)
    assert messages.startswith("proftui: text always contains the whole comparison\n")
    _, messages = run_diff(capfd, *files, "-o", str(tmp_path / "all.md"), status=2)
    assert messages.startswith("proftui: -o writes one table, not the whole comparison as markdown\n")


def test_markdown_shortens_names_and_distinguishes_them(capfd: pytest.CaptureFixture[str]) -> None:
    markdown = compare_steps(capfd, 4, 5, "--format", "markdown")[0]
    table = markdown[markdown.index("### Kernels") : markdown.index("### Ops")]
    names = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(set(names)) == 15
    assert max(map(len, names)) < 90


def test_recorded_and_inferred_ops_are_not_compared(
    capfd: pytest.CaptureFixture[str],
) -> None:
    log = sample_path("resnet50_training.nvprof.log")
    expected = "Ops of the baseline are inferred from kernel names, those of the candidate are recorded"
    assert (
        f"{expected}, so their names differ. Compare Op types instead.\n"
        in run_diff(capfd, log, TRACE, "--format", "markdown")[0]
    )


def test_findings_are_sentences(capfd: pytest.CaptureFixture[str]) -> None:
    text = run_diff(capfd, CAFFE, CAFFE)[0]
    assert "\u2026" not in text[text.index("\nFindings (") :]
