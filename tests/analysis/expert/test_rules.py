"""Every rule has exact figures if its problem exists, is clean without it, and names missing data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.analysis.expert.answers import (
    communication,
    configuration,
    iterations,
    launches,
    precision,
    quality,
    transfers,
    utilization,
)
from tests.analysis.expert.profiles import GEMM, MS, SESSION, launch, trace_of
from tests.analysis.expert.rule_verdicts import BY_ID, verdict_of
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.rule import Clean, Found, NotApplicable

if TYPE_CHECKING:
    from tests.analysis.expert.answers.expected_answers import Answer
    from tui.model.profile import Profile

FAMILIES: Final = (utilization, transfers, launches, configuration, precision, iterations, communication, quality)
ANSWERS: Final = [answer for family in FAMILIES for answer in family.ANSWERS]
IDS: Final = [answer.rule for answer in ANSWERS]


def test_every_rule_has_an_example() -> None:
    assert sorted(IDS) == sorted(BY_ID)


@pytest.mark.parametrize("answer", ANSWERS, ids=IDS)
def test_each_rule_finds_its_problem(answer: Answer) -> None:
    verdict = verdict_of(answer.rule, answer.found)
    assert isinstance(verdict, Found), verdict
    assert {name: verdict.numbers.get(name) for name in answer.numbers} == pytest.approx(answer.numbers)
    assert answer.says in verdict.problem
    assert verdict.problem.endswith(".")
    assert verdict.advice.endswith(".")
    assert verdict.cost_ns is None or verdict.cost_ns >= 0
    assert verdict.basis
    if answer.severity is not None:
        assert verdict.severity is answer.severity
    for name, value in answer.more.items():
        assert getattr(verdict, name) == value


@pytest.mark.parametrize("answer", [a for a in ANSWERS if a.clean], ids=[a.rule for a in ANSWERS if a.clean])
def test_each_rule_is_clean_without_its_problem(answer: Answer) -> None:
    assert answer.clean is not None
    verdict = verdict_of(answer.rule, answer.clean)
    assert isinstance(verdict, Clean), verdict
    assert verdict.reason


@pytest.mark.parametrize(
    "answer", [a for a in ANSWERS if a.inapplicable], ids=[a.rule for a in ANSWERS if a.inapplicable]
)
def test_each_rule_names_missing_data(answer: Answer) -> None:
    assert answer.inapplicable is not None
    verdict = verdict_of(answer.rule, answer.inapplicable)
    assert isinstance(verdict, NotApplicable), verdict
    assert verdict.reason
    assert answer.lacks in verdict.reason


def profile_with_shares(*shares_pct: float, tool: str) -> Profile:
    """Return a table of kernels with these percentages, and one of copies with 100%."""
    rows = [summary_row("gpu", GEMM, 1, MS, time_pct=share) for share in shares_pct]
    rows += [summary_row("gpu", "[CUDA memcpy HtoD]", 1, MS, time_pct=51.0)]
    rows += [summary_row("gpu", "[CUDA memcpy DtoH]", 1, MS, time_pct=49.0)]
    return make_profile(sessions=[{**SESSION, "format": tool}], summary=rows)


def test_tables_of_kernels_and_of_copies_add_up_to_100_each() -> None:
    for tool in ("nsys-stats", "rocprof-csv"):
        assert isinstance(verdict_of("Q5", profile_with_shares(60.0, 40.0, tool=tool)), Clean)
        verdict = verdict_of("Q5", profile_with_shares(60.0, 20.0, tool=tool))
        assert isinstance(verdict, Found)
        assert "The percentages in 2 tables of GPU activities add up to 180%, not 200%: rows" in verdict.problem
    assert isinstance(verdict_of("Q5", profile_with_shares(60.0, 40.0, tool="nvprof-text")), Found)


def test_rounding_of_shares_is_tolerated_per_row() -> None:
    assert isinstance(verdict_of("Q5", profile_with_shares(97.0, *[0.0] * 60, tool="nsys-stats")), Clean)
    assert isinstance(verdict_of("Q5", profile_with_shares(97.0, *[0.0] * 10, tool="nsys-stats")), Found)


def test_idle_time_in_gaps_of_medium_length_is_found() -> None:
    """Gaps of 100 µs are neither long nor tiny; without API calls only the idle time as a whole shows them."""
    verdict = verdict_of("U1", trace_of(*(launch(n * 3 * MS // 10, MS // 5) for n in range(40))))
    assert isinstance(verdict, Found)
    assert verdict.problem.startswith("GPU busy 67% (8 of 11.9 ms).")
    assert isinstance(verdict_of("U1", trace_of(*(launch(n * MS // 4, MS // 5) for n in range(40)))), Clean)
