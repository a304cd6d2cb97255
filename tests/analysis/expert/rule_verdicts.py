"""Verdicts of single rules on a profile."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tui.analysis.expert.case import Case
from tui.analysis.expert.findings import RULES, session_profiles
from tui.analysis.expert.rule import Clean, Found, limits
from tui.model.aggregation import aggregation
from tui.opening import open_profiles
from tui.options import OpenOptions

if TYPE_CHECKING:
    from tui.analysis.expert.rule import Verdict
    from tui.model.profile import Profile


@cache
def open_shown(*paths: str, iterations: str | None = None, key: str | None = None) -> Profile:
    """Return the profile that the views show of files, opened as by the program."""
    opened = open_profiles(
        OpenOptions(paths=paths), lambda _: True, session=None, aggregation=aggregation(iterations, key)
    )
    assert opened.shown is not None, opened.errors
    return opened.shown


BY_ID = {rule.id: rule for rule in RULES}


class _JudgedOnDemand(dict[str, "Verdict"]):
    """The verdicts of rules on a case, each judged when another rule asks for it."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def __missing__(self, rule: str) -> Verdict:
        self[rule] = BY_ID[rule].judge(self.case)
        return self[rule]


def case_of(profile: Profile, session: int | None = 0) -> Case:
    """Return the case of a session for rules; None: of all sessions."""
    session_profile = profile if session is None else dict(session_profiles(profile))[session]
    case = Case(session_profile, session, limits(), full_profile=profile)
    case.verdicts = _JudgedOnDemand(case)
    return case


def verdict_of(rule: str, profile: Profile) -> Verdict:
    """Return the verdict of a rule on the first session, or on all if it compares them; exceptions are not caught."""
    return BY_ID[rule].judge(case_of(profile, None if BY_ID[rule].across else 0))


def found_by(rule: str, profile: Profile) -> Found:
    """Return what a rule has found."""
    verdict = verdict_of(rule, profile)
    assert isinstance(verdict, Found), verdict
    return verdict


def clean_by(rule: str, profile: Profile) -> Clean:
    """Return the answer of a rule that has found nothing."""
    verdict = verdict_of(rule, profile)
    assert isinstance(verdict, Clean), verdict
    return verdict
