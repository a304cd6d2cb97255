"""`proftui check`: findings for people, programs and CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.analysis.expert.judging import as_shown
from tests.analysis.expert.profiles import HEALTHY, MS, SESSION, moved, run
from tests.analysis.frames import make_profile
from tui.analysis.expert.findings import RULES
from tui.cli.main import main
from tui.output.check import Check
from tui.output.report import Style
from tui.output.report_dashboard import DashboardReport

if TYPE_CHECKING:
    from tui.model.profile import Profile

SAMPLES = Path(__file__).parents[2] / "sample_logs"
COPIES = "tracking_four_runs.nvprof.log"
HOSTILE = "[x](http://evil) {0}\x1b[31m"
MADE = make_profile(
    sessions=[{**SESSION, "source": "/tmp/a b.sqlite", "first_line": 7}],
    activities=[moved(0, 30 * MS), run(30 * MS, 10 * MS, HOSTILE), run(40 * MS, 30 * MS, HOSTILE)],
    tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected", "recommendation": "Consider DALI"}],
)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["check", *arguments])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [(None, 0), ("info", 1), ("warning", 1), ("error", 0)],
    ids=["never", "info", "warning", "error"],
)
def test_the_exit_status_is_for_ci(capsys: pytest.CaptureFixture[str], fail_on: str | None, status: int) -> None:
    options = ["--fail-on", fail_on] if fail_on else []
    assert ran(capsys, str(SAMPLES / COPIES), *options)[0] == status


def test_an_unreadable_file_takes_precedence_over_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, str(SAMPLES / COPIES), "no/such/file", "--fail-on", "info")[0] == 2


def test_tools_findings_without_severity_fail_nothing() -> None:
    alone = make_profile(sessions=[SESSION], tool_findings=[{"tool": "DLProf", "problem": "No DALI ops detected"}])
    assert not Check(alone).reaches("info")
    assert Check(MADE).reaches("warning")
    assert not Check(MADE).reaches("error")


def test_text_has_advice_costs_and_rules_that_do_not_apply() -> None:
    text = Check(MADE).as_text(Style(100))
    assert "warning  Copies take 43% of GPU time: 1 copy of 30 ms." in text
    assert "> Keep data on the device" in text
    assert "Costs at most 30 ms (43% of wall time): all copies" in text
    assert "DLProf   No DALI ops detected" in text
    assert "Not applicable" in text
    assert "Cause: memory copies" in " ".join(text.split())
    assert "\x1b" not in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_json_holds_every_answer_with_its_figures() -> None:
    content = json.loads(Check(MADE).as_json())
    result: dict[str, Any] = {row["rule"]: row for row in content["findings"]}
    assert result["T1"]["numbers"]["copy_ns"] == 30 * MS
    assert result["T1"]["thresholds"][0]["name"] == "copy_pct"
    assert result["T1"]["evidence"][0]["calls"] == 1
    assert result["U6"]["state"] == "not applicable"
    assert content["counts"]["clean"] == sum(row["state"] == "clean" for row in content["findings"])


def test_what_an_iteration_would_gain_is_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    ranks, sample = str(SAMPLES / "ddp_ranks"), str(SAMPLES / "mlp_modules.pt.trace.json.gz")
    saves = "In iteration 5, halving `[CUDA memcpy DtoD]` saves 33.8 µs of its 510 µs."
    nothing = "In iteration 4, halving this work saves nothing: it is not on the critical path."
    assert saves in " ".join(ran(capsys, ranks)[1].split())
    assert nothing in " ".join(ran(capsys, sample)[1].split())
    rows = _rows_of_findings(capsys, ranks)
    assert rows[0][-1] == "If faster |"
    assert [row[-1] for row in rows if "T6" in row[-2]] == [_in_markdown(saves) + " |"]
    assert f"{nothing} |" in [row[-1] for row in _rows_of_findings(capsys, sample)]
    report = ["report", "--view", "findings", "--no-cache"]
    assert main([*report, ranks, "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert saves.replace("`[CUDA memcpy DtoD]`", "<code>[CUDA memcpy DtoD]</code>") in page
    assert main([*report, sample, "--format", "html"]) == 0
    assert nothing in capsys.readouterr().out
    content = json.loads(ran(capsys, sample, "--format", "json")[1])
    known = {row["rule"]: row["what_if"] for row in content["findings"]}
    assert (known["A2"], known["U1"]) == ([], None)
    content = json.loads(ran(capsys, ranks, "--format", "json")[1])
    assert [row["what_if"] for row in content["findings"] if (row["rule"], row["session"]) == ("T6", 1)] == [
        [
            {
                **{"session": 1, "iteration": 5, "name": "[CUDA memcpy DtoD]"},
                **{"work_ns": 509_859, "path_ns": 69_761, "half_saves_ns": 33_792},
            }
        ]
    ]


def _rows_of_findings(capsys: pytest.CaptureFixture[str], path: str) -> list[list[str]]:
    """The cells of the table of findings in Markdown."""
    assert main(["report", "--view", "findings", "--no-cache", path, "--format", "markdown"]) == 0
    return [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]


def _in_markdown(text: str) -> str:
    return text.replace("`", r"\`").replace("[", r"\[")


def test_markdown_has_no_links_or_lines_of_a_profile() -> None:
    text = Check(MADE).as_markdown()
    assert text.startswith("## Findings (")
    assert "### Not applicable" in text
    assert "\x1b" not in text
    by_others = make_profile(
        tool_findings=[{"tool": HOSTILE, "problem": "much"}],
        tool_figures=[{"tool": HOSTILE, "section": "Performance Summary", "name": "a", "value": 1.0, "unit": "%"}],
    )
    assert f"1 of \\{HOSTILE[:-5]}" in Check(by_others).as_markdown().splitlines()[0]
    assert f"## As \\{HOSTILE[:-5]}" in DashboardReport(by_others).as_markdown()


SARIF = jsonschema.Draft7Validator(
    json.loads((Path(__file__).parents[1] / "data" / "sarif_2.1.0_required.json").read_text())
)
"""What the standard requires of the parts that are written, and what code hosts ask for beyond it."""


def sarif_of(profile: Profile) -> dict[str, Any]:
    """The only run of what is written, which is valid."""
    content = json.loads(Check(profile).as_sarif())
    SARIF.validate(content)
    assert content["$schema"] == "https://json.schemastore.org/sarif-2.1.0.json"
    (run_of_it,) = content["runs"]
    rules = run_of_it["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    for result in run_of_it["results"]:
        if "ruleIndex" in result:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    answer: dict[str, Any] = run_of_it
    return answer


def test_sarif_is_what_code_hosts_take() -> None:
    made = sarif_of(MADE)
    by_rule = {result["ruleId"]: result for result in made["results"]}
    place = by_rule["T1"]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///tmp/a%20b.sqlite"}, "region": {"startLine": 7}}
    assert by_rule["DLProf-finding"]["level"] == "note"
    hot = by_rule["P10"]["message"]["text"]
    assert "](" not in hot
    assert "{0}" not in hot.replace("{{0}}", "")
    notes = made["invocations"][0]["toolExecutionNotifications"]
    assert any(note["message"]["text"].startswith("U6 not applicable: ") for note in notes)


SAMPLE_NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name not in ("README.md", "formats"))


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_sarif_of_every_sample_is_valid_and_names_lines_only_where_there_are_some(name: str) -> None:
    is_text = not name.endswith(".sqlite.gz")
    results = sarif_of(as_shown(str(SAMPLES / name)))["results"]
    assert results
    for result in results:
        (location,) = result["locations"]
        assert is_text or "region" not in location["physicalLocation"]


def test_the_findings_view_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SAMPLES / COPIES)
    _, checked = ran(capsys, file, "--format", "json")
    assert main(["report", file, "--view", "findings", "--format", "json"]) == 0
    assert capsys.readouterr().out == checked


def test_a_healthy_profile_fails_no_build() -> None:
    assert not Check(HEALTHY).reaches("warning")


def test_chosen_iterations_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SAMPLES / "resnet50_training.nvprof.log")
    _, text = ran(capsys, file, "--iterations", "2:3")
    assert text.startswith("Findings of iterations 2:3 (")
    _, text = ran(capsys, file, "--iterations", "2:3", "--format", "markdown")
    assert text.startswith("## Findings of iterations 2:3 (")
    _, text = ran(capsys, file, "--iterations", "2:3", "--format", "json")
    assert json.loads(text)["iterations"] == "2:3"
