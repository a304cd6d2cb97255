"""Every rule finds what it is for, with exact figures; is clean where that is not there; and says what it lacks."""

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
from tests.analysis.expert.judging import BY_ID, ask
from tests.analysis.expert.profiles import GEMM, MS, SESSION, run, traced
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.rule import Clean, Found, NotApplicable

if TYPE_CHECKING:
    from tests.analysis.expert.answers.made import Answer
    from tui.model.profile import Profile

FAMILIES: Final = (utilization, transfers, launches, configuration, precision, iterations, communication, quality)
ANSWERS: Final = [answer for family in FAMILIES for answer in family.ANSWERS]
IDS: Final = [answer.rule for answer in ANSWERS]


def test_every_rule_is_asked_here() -> None:
    assert sorted(IDS) == sorted(BY_ID)


@pytest.mark.parametrize("answer", ANSWERS, ids=IDS)
def test_a_rule_finds_what_it_is_for(answer: Answer) -> None:
    verdict = ask(answer.rule, answer.found)
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
def test_a_rule_is_clean_where_there_is_nothing(answer: Answer) -> None:
    assert answer.clean is not None
    verdict = ask(answer.rule, answer.clean)
    assert isinstance(verdict, Clean), verdict
    assert verdict.reason


@pytest.mark.parametrize(
    "answer", [a for a in ANSWERS if a.inapplicable], ids=[a.rule for a in ANSWERS if a.inapplicable]
)
def test_a_rule_names_missing_data(answer: Answer) -> None:
    assert answer.inapplicable is not None
    verdict = ask(answer.rule, answer.inapplicable)
    assert isinstance(verdict, NotApplicable), verdict
    assert verdict.reason
    assert answer.lacks in verdict.reason


def shares(*shares_pct: float, tool: str) -> Profile:
    """A table of kernels with such percentages, and one of copies of 100%."""
    rows = [summary_row("gpu", GEMM, 1, MS, time_pct=share) for share in shares_pct]
    rows += [summary_row("gpu", "[CUDA memcpy HtoD]", 1, MS, time_pct=51.0)]
    rows += [summary_row("gpu", "[CUDA memcpy DtoH]", 1, MS, time_pct=49.0)]
    return make_profile(sessions=[{**SESSION, "format": tool}], summary=rows)


def test_tables_of_kernels_and_of_copies_add_up_to_100_each() -> None:
    for tool in ("nsys-stats", "rocprof-csv"):
        assert isinstance(ask("Q5", shares(60.0, 40.0, tool=tool)), Clean)
        verdict = ask("Q5", shares(60.0, 20.0, tool=tool))
        assert isinstance(verdict, Found)
        assert "The percentages in the tables of GPU activities add up to 180%" in verdict.problem
    assert isinstance(ask("Q5", shares(60.0, 40.0, tool="nvprof-text")), Found)


def test_shares_that_are_rounded_to_a_tenth_lose_half_of_it_in_each_row() -> None:
    assert isinstance(ask("Q5", shares(97.0, *[0.0] * 60, tool="nsys-stats")), Clean)
    assert isinstance(ask("Q5", shares(97.0, *[0.0] * 10, tool="nsys-stats")), Found)


def test_idle_time_between_the_lengths_that_other_rules_look_at_is_found() -> None:
    """Gaps of 100 µs are neither long nor tiny; without API calls only the idle time as a whole shows them."""
    verdict = ask("U1", traced(*(run(n * 3 * MS // 10, MS // 5) for n in range(40))))
    assert isinstance(verdict, Found)
    assert verdict.problem.startswith("GPU busy 67% (8 of 11.9 ms).")
    assert isinstance(ask("U1", traced(*(run(n * MS // 4, MS // 5) for n in range(40)))), Clean)
