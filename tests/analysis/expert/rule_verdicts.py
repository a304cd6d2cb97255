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
BUILDS_ON = {"A3": ("U6",), "A4": ("U6",), "A11": ("T2", "C2"), "C3": ("C2",), "P12": ("P5", "A9")}


def case_of(profile: Profile, session: int | None = 0) -> Case:
    """Return the case of a session for rules; None: of all sessions."""
    session_profile = profile if session is None else dict(session_profiles(profile))[session]
    return Case(session_profile, session, limits(), full_profile=profile)


def verdict_of(rule: str, profile: Profile) -> Verdict:
    """Return the verdict of a rule on the first session, or on all if it compares them; exceptions are not caught."""
    case = case_of(profile, None if BY_ID[rule].across else 0)
    for name in BUILDS_ON.get(rule, ()):
        case.verdicts[name] = BY_ID[name].judge(case)
    return BY_ID[rule].judge(case)


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
