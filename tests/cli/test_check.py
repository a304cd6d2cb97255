"""`proftui check`: findings for people, programs and CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.analysis.expert.profiles import (
    ADD,
    HEALTHY,
    MS,
    SESSION,
    US,
    call,
    launch,
    launch_with_call,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import open_shown
from tests.analysis.frames import make_profile
from tests.parameters import others_slow
from tui.analysis.expert.findings import RULES
from tui.cli.main import main
from tui.output.check import Check, IfFaster
from tui.output.report import Style
from tui.output.report_dashboard import DashboardReport

if TYPE_CHECKING:
    from tui.model.profile import Profile

SAMPLES = Path(__file__).parents[2] / "sample_logs"
COPIES = "tracking_four_runs.nvprof.log"
HOSTILE = "[x](http://evil) {0}\x1b[31m"
PROFILE = make_profile(
    sessions=[{**SESSION, "source": "/tmp/a b.sqlite", "first_line": 7}],
    activities=[transfer(0, 30 * MS), launch(30 * MS, 10 * MS, HOSTILE), launch(40 * MS, 30 * MS, HOSTILE)],
    tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected", "recommendation": "Consider DALI"}],
)


def run_check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["check", *arguments])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [(None, 0), ("info", 1), ("warning", 1), ("error", 0)],
    ids=["never", "info", "warning", "error"],
)
def test_the_exit_status_follows_fail_on(capsys: pytest.CaptureFixture[str], fail_on: str | None, status: int) -> None:
    options = ["--fail-on", fail_on] if fail_on else []
    assert run_check(capsys, str(SAMPLES / COPIES), *options)[0] == status


def test_an_unreadable_file_takes_precedence_over_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check(capsys, str(SAMPLES / COPIES), "no/such/file", "--fail-on", "info")[0] == 2


def test_findings_of_tools_without_severity_do_not_fail() -> None:
    tool_finding = make_profile(
        sessions=[SESSION], tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected"}]
    )
    assert not Check(tool_finding).reaches("info")
    assert Check(PROFILE).reaches("warning")
    assert not Check(PROFILE).reaches("error")


def test_text_has_advice_costs_and_rules_that_do_not_apply() -> None:
    text = Check(PROFILE).as_text(Style(100))
    assert "warning  Copies take 43% of GPU time: 1 copy of 30 ms." in text
    assert "> Keep data on the device" in text
    assert "Costs at most 30 ms (43% of wall time): all copy time" in text
    assert "DLProf   No DALI ops detected" in text
    assert "Not applicable" in text
    assert "Cause: memory copies" in " ".join(text.split())
    assert "\x1b" not in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_json_has_every_rule_with_its_figures() -> None:
    content = json.loads(Check(PROFILE).as_json())
    by_rule: dict[str, Any] = {row["rule"]: row for row in content["findings"]}
    assert by_rule["T1"]["numbers"]["copy_ns"] == 30 * MS
    assert by_rule["T1"]["thresholds"][0]["name"] == "copy_pct"
    assert by_rule["T1"]["evidence"][0]["calls"] == 1
    assert by_rule["U6"]["state"] == "not applicable"
    assert content["counts"]["clean"] == sum(row["state"] == "clean" for row in content["findings"])


def test_critical_path_savings_are_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    ranks, sample = str(SAMPLES / "ddp_ranks"), str(SAMPLES / "mlp_modules.pt.trace.json.gz")
    saving = "In iteration 5, halving `[CUDA memcpy DtoD]` saves 33.8 µs of its 508 µs."
    no_saving = "In iteration 4, halving this work saves nothing: it is not on the critical path."
    assert saving in " ".join(run_check(capsys, ranks)[1].split())
    assert no_saving in " ".join(run_check(capsys, sample)[1].split())
    rows = markdown_rows(capsys, ranks)
    assert rows[0][-1] == "If faster |"
    assert [row[-1] for row in rows if "T6" in row[-2]] == [escaped_for_markdown(saving) + " |"]
    assert f"{no_saving} |" in [row[-1] for row in markdown_rows(capsys, sample)]
    report = ["report", "--view", "findings", "--no-cache"]
    assert main([*report, ranks, "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert saving.replace("`[CUDA memcpy DtoD]`", "<code>[CUDA memcpy DtoD]</code>") in page
    assert main([*report, sample, "--format", "html"]) == 0
    assert no_saving in capsys.readouterr().out
    content = json.loads(run_check(capsys, sample, "--format", "json")[1])
    what_ifs = {row["rule"]: row["what_if"] for row in content["findings"]}
    assert (what_ifs["A2"], what_ifs["U1"]) == ([], None)
    content = json.loads(run_check(capsys, ranks, "--format", "json")[1])
    assert [row["what_if"] for row in content["findings"] if (row["rule"], row["session"]) == ("T6", 1)] == [
        [
            {
                **{"session": 1, "iteration": 5, "name": "[CUDA memcpy DtoD]"},
                **{"work_ns": 507_683, "path_ns": 67_585, "half_saves_ns": 33_792},
            }
        ]
    ]


def test_savings_are_named_only_where_launches_are_recorded() -> None:
    """A GPU that computes, waits for a launch, and computes again."""
    pairs = [launch_with_call(0, 10 * MS, 0, US, 1), launch_with_call(30 * MS, 10 * MS, 30 * MS, US, 2, name="add")]
    linked, finding = with_calls(*pairs), finding_about("add")
    # No iterations are recorded: the whole run is judged.
    assert IfFaster(linked).sentence(finding) == "Halving `add` saves 5 ms of its 10 ms."
    assert IfFaster(trace_of(*(work for work, _ in pairs))).sentence(finding) == ""
    # A wait is as long as what it waits for.
    assert IfFaster(linked).sentence(finding_about("cudaDeviceSynchronize")) == ""


def test_work_beside_a_busy_gpu_is_not_said_to_save_nothing() -> None:
    """The copies of two runs are off the path. One GPU is busy for 90% of the time, the other for 10%."""
    for busy_ns, sentence in (
        (90 * MS, ""),
        (10 * MS, "Halving this work saves nothing: it is not on the critical path."),
    ):
        work = launch(0, busy_ns, correlation=1), call(0, US, correlation=1)
        aside = transfer(0, MS, stream=8, correlation=2), call(0, US, "cudaMemcpyAsync", correlation=2)
        last = launch(99 * MS, MS, ADD, correlation=3), call(98 * MS, MS, correlation=3)
        profile = with_calls(work, aside, last)
        assert IfFaster(profile).sentence(finding_about("[CUDA memcpy HtoD]")) == sentence


def test_instances_of_a_template_are_told_apart() -> None:
    names = [f"f_kernel<8, at::{functor}<float> >(int)" for functor in ("AddFunctor", "MulFunctor")]
    pairs = [
        launch_with_call(US, 10 * MS, 0, US, 1, name=names[0]),
        launch_with_call(10 * MS + US, 6 * MS, US, US, 2, name=names[1]),
    ]
    assert IfFaster(with_calls(*pairs)).sentence(finding_about(*names)) == (
        f"Halving `{names[0]}` saves 5 ms of its 10 ms; `{names[1]}` saves 3 ms of its 6 ms."
    )


def finding_about(*names: str) -> dict[str, Any]:
    """Return a finding with the work of these names as evidence."""
    return {"tool": "proftui", "cost_ns": MS, "session": 0, "evidence": json.dumps([{"name": name} for name in names])}


def markdown_rows(capsys: pytest.CaptureFixture[str], path: str) -> list[list[str]]:
    """Return the cells of the Markdown table of findings."""
    assert main(["report", "--view", "findings", "--no-cache", path, "--format", "markdown"]) == 0
    return [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]


def escaped_for_markdown(text: str) -> str:
    return text.replace("`", r"\`").replace("[", r"\[")


def test_markdown_escapes_names_of_the_profile() -> None:
    text = Check(PROFILE).as_markdown()
    assert text.startswith("## Findings (")
    assert "### Not applicable" in text
    assert "\x1b" not in text
    tool_findings = make_profile(
        tool_findings=[{"tool": HOSTILE, "problem": "much"}],
        tool_figures=[{"tool": HOSTILE, "section": "Performance Summary", "name": "a", "value": 1.0, "unit": "%"}],
    )
    assert f"1 from \\{HOSTILE[:-5]}" in Check(tool_findings).as_markdown().splitlines()[0]
    dashboard = DashboardReport(tool_findings).as_markdown()
    assert f"## Expert Systems (1 from \\{HOSTILE[:-5]}" in dashboard
    assert f"## Reported by \\{HOSTILE[:-5]}" in dashboard


SARIF_VALIDATOR = jsonschema.Draft7Validator(
    json.loads((Path(__file__).parents[1] / "data" / "sarif_2.1.0_required.json").read_text())
)
"""Requirements of the standard and of code hosts for the parts that proftui writes."""


def sarif_run_of(profile: Profile) -> dict[str, Any]:
    """Return the single run of the SARIF log, and check that it is valid."""
    content = json.loads(Check(profile).as_sarif())
    SARIF_VALIDATOR.validate(content)
    assert content["$schema"] == "https://json.schemastore.org/sarif-2.1.0.json"
    sarif_run: dict[str, Any]
    (sarif_run,) = content["runs"]
    rules = sarif_run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    for result in sarif_run["results"]:
        if "ruleIndex" in result:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    return sarif_run


def test_sarif_has_locations_levels_and_escaped_messages() -> None:
    sarif = sarif_run_of(PROFILE)
    by_rule = {result["ruleId"]: result for result in sarif["results"]}
    location = by_rule["T1"]["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": "file:///tmp/a%20b.sqlite"}, "region": {"startLine": 7}}
    assert by_rule["DLProf-finding"]["level"] == "note"
    message = by_rule["P10"]["message"]["text"]
    assert "](" not in message
    assert "{0}" not in message.replace("{{0}}", "")
    notes = sarif["invocations"][0]["toolExecutionNotifications"]
    assert any(note["message"]["text"].startswith("U6 not applicable: ") for note in notes)


SAMPLE_NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name not in ("README.md", "formats"))


@pytest.mark.parametrize("name", others_slow(SAMPLE_NAMES, SAMPLE_NAMES[::4]))
def test_sarif_of_every_sample_is_valid_and_has_lines_for_text_files_only(name: str) -> None:
    is_text = not name.endswith(".sqlite.gz")
    results = sarif_run_of(open_shown(str(SAMPLES / name)))["results"]
    assert results
    for result in results:
        (location,) = result["locations"]
        assert is_text or "region" not in location["physicalLocation"]


def test_the_findings_view_prints_the_same_as_check(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SAMPLES / COPIES)
    _, expected = run_check(capsys, file, "--format", "json")
    assert main(["report", file, "--view", "findings", "--format", "json"]) == 0
    assert capsys.readouterr().out == expected


def test_a_healthy_profile_does_not_fail() -> None:
    assert not Check(HEALTHY).reaches("warning")


def test_selected_iterations_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SAMPLES / "resnet50_training.nvprof.log")
    _, text = run_check(capsys, file, "--iterations", "2:3")
    assert text.startswith("Findings of iterations 2:3 (")
    _, text = run_check(capsys, file, "--iterations", "2:3", "--format", "markdown")
    assert text.startswith("## Findings of iterations 2:3 (")
    _, text = run_check(capsys, file, "--iterations", "2:3", "--format", "json")
    assert json.loads(text)["iterations"] == "2:3"
