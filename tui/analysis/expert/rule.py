"""Rules: their declaration, verdicts, causes that findings share, and thresholds (``rules.toml`` and the user's)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tui.data import user_files
from tui.data.user_files import HINT, Stamp, parse_user_file, read_shipped, user_file_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from tui.analysis.expert.case import Case

SHIPPED: Final = "rules.toml"
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Limit:
    """One threshold of a rule."""

    name: str
    """The name with its unit, as ``busy_pct``."""
    value: float
    meaning: str
    """What is compared with it."""
    source: str
    """Who uses this value, or why it was chosen."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All thresholds, and the severities that the user gave."""

    limits: Mapping[str, Mapping[str, Limit]]
    """The thresholds by rule and name."""
    severities: Mapping[str, str]
    """The severity by rule: one of `Severity`, or `OFF`."""
    source: str = SHIPPED
    """The user's file, if there is one."""

    def __call__(self, rule: str, name: str) -> float:
        """Return the value of a threshold.

        Raises:
            KeyError: The rule has no such threshold.
        """
        return self.limits[rule][name].value

    def for_rule(self, rule: str) -> tuple[Limit, ...]:
        """Return the thresholds of a rule."""
        return tuple(self.limits.get(rule, {}).values())

    def is_off(self, rule: str) -> bool:
        """Return whether the user switched a rule off."""
        return self.severities.get(rule) == OFF

    def severity(self, rule: str, default: Severity) -> Severity:
        """Return the severity of a finding: from the user's file, else from the rule."""
        override = self.severities.get(rule, OFF)
        return default if override == OFF else Severity(override)


def user_limits_path() -> Path:
    """Return the path of the user's own thresholds."""
    return user_file_path(SHIPPED)


def user_limits_stamp() -> Stamp | None:
    """Return the path and modification time of the user's file, or None; results are valid while it is the same."""
    return user_files.stamp(user_limits_path())


@cache
def limits(user: Stamp | None = None) -> Limits:
    """Return the thresholds of the program, overridden by the user's.

    Args:
        user: The result of `user_limits_stamp`.

    Raises:
        ProftuiError: The user's file cannot be read, or names an unknown rule or threshold.
    """
    shipped = parse_shipped(read_shipped(SHIPPED))
    return shipped if user is None else with_users(shipped, user_text(user), user[0])


def parse_shipped(text: str) -> Limits:
    """Read the program's own file: for each rule, thresholds as ``name = { value, meaning, source }``."""
    rules: dict[str, dict[str, Limit]] = {}
    for rule, entries in parse_user_file(text, SHIPPED).items():
        if isinstance(entries, dict):
            rules[rule] = {
                name: Limit(name, entry["value"], entry["meaning"], entry["source"]) for name, entry in entries.items()
            }
    return Limits(rules, {})


def with_users(shipped: Limits, text: str, source: str) -> Limits:
    """Override the program's thresholds by the user's.

    Args:
        shipped: The program's thresholds.
        text: TOML: for each rule ``name = number``, and ``severity`` as error, warning, info or off.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is not TOML, or names an unknown rule or threshold.
    """
    document = parse_user_file(text, source)
    rules = {rule: dict(limits) for rule, limits in shipped.limits.items()}
    severities: dict[str, str] = {}
    for rule, entries in document.items():
        if rule not in rules or not isinstance(entries, dict):
            raise ProftuiError(f"{source}: there is no rule {rule}", f"rules are {', '.join(rules)}")
        for name, value in entries.items():
            if name == "severity":
                severities[rule] = _severity(value, f"{source}: {rule}")
            else:
                rules[rule][name] = _override(rules[rule], name, value, f"{source}: {rule}", source)
    return Limits(rules, severities, source)


def _severity(value: Any, location: str) -> str:
    allowed = [*(severity.value for severity in Severity), OFF]
    if value not in allowed:
        raise ProftuiError(f"{location}: severity is one of {', '.join(allowed)}, not {value}", HINT)
    return str(value)


def _override(limits: Mapping[str, Limit], name: str, value: Any, location: str, source: str) -> Limit:
    if name not in limits:
        raise ProftuiError(
            f"{location} has no threshold {name}", f"it has {', '.join([*limits, 'severity'])}" if limits else HINT
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # TOML allows NaN and infinity; a rule that compares with them would never find anything. All figures are 0 or more.
    if not number or not 0 <= value < 1e18:
        raise ProftuiError(f"{location}: {name} must be 0 or more, not {value}", HINT)
    return replace(limits[name], value=float(value), source=f"set in {source}")


class State(StrEnum):
    """The state of a rule's verdict."""

    FOUND = "found"
    NOT_APPLICABLE = "not applicable"
    CLEAN = "clean"


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Figures cannot be trusted."""
    WARNING = "warning"
    """It costs time, and something can be done."""
    INFO = "info"
    """Worth knowing."""


class Family(StrEnum):
    """The subject of a rule; the values are display texts."""

    UTILIZATION = "utilization"
    TRANSFERS = "transfers"
    LAUNCHES = "launches"
    CONFIGURATION = "configuration"
    PRECISION = "precision"
    ITERATIONS = "iterations"
    COMMUNICATION = "communication"
    QUALITY = "quality"


Number = int | float | str | None
EVIDENCE_ROWS: Final = 10
"""The most rows of evidence in a finding."""


@dataclass(frozen=True, slots=True)
class Found:
    """The rule found something."""

    problem: str
    """What is wrong, with the figures of this profile."""
    advice: str
    """What to do about it."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    """The figures that it was judged by, in base units; names as columns (``busy_pct``, ``idle_ns``)."""
    cost_ns: int | None = None
    """The upper bound of the cost, ns; None if it cannot be estimated."""
    basis: str = ""
    """How the cost was estimated, or why it was not."""
    evidence: pl.DataFrame | None = None
    """The rows behind it, the most important first."""
    view: str = ""
    """The view that shows them (`tui.views`), or empty."""
    filter: str = ""
    """The filter for the rows behind it in the main table of the view."""
    severity: Severity | None = None
    """The severity, if it differs from the rule's own."""
    part: str = ""
    """The part of the view with the rows, if it has several; empty: the first."""
    cause: str = ""
    """Why the time is lost (`Cause`), where it is another than the rule's own."""
    rank_ns: int | None = None
    """The time by which it is ranked where its cost is unknown, ns."""
    is_summed_over_gpus: bool = False
    """Whether the cost, or ``rank_ns``, is a sum over all GPUs, which can be longer than the run."""


@dataclass(frozen=True, slots=True)
class Clean:
    """The rule was checked and does not hold."""

    reason: str
    """The figures that show it."""
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The rule does not apply: data that it needs is not recorded."""

    reason: str
    """What is missing, and what to do about it if anything."""


Verdict = Found | Clean | NotApplicable
Need = Callable[["Case"], str]
"""Returns why a case lacks something; empty if it does not."""
Check = Callable[["Case"], Verdict]
"""Returns the verdict of a rule on a case that has all the data that the rule needs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    """The id, as ``U1``."""
    name: str
    """The name, as ``gpu-low-util``."""
    title: str
    """What it finds, in a few words."""
    family: Family
    severity: Severity
    needs: tuple[Need, ...]
    check: Check
    link: str
    """A link to more information, or empty."""
    across: bool = False
    """It compares the sessions of a profile; the others look at one session at a time."""

    def judge(self, case: Case) -> Verdict:
        """Return the verdict on a case: clean only if all needed data is recorded."""
        if case.limits.is_off(self.id):
            return NotApplicable(f"switched off in {case.limits.source}")
        for need in self.needs:
            reason = case.unmet_need_reason(need)
            if reason:
                return NotApplicable(reason)
        return self.check(case)


_DECLARED: Final[dict[str, Rule]] = {}


def rule(
    id: str,  # noqa: A002
    name: str,
    family: Family,
    *needs: Need,
    severity: Severity = Severity.WARNING,
    link: str = "",
    across: bool = False,
) -> Callable[[Check], Check]:
    """Declare a function of a case as a rule; the first line of its docstring is the rule's title."""

    def declared(check: Check) -> Check:
        title = (check.__doc__ or "").strip().split("\n")[0].rstrip(".")
        _DECLARED[id] = Rule(id, name, title, family, severity, needs, check, link, across)
        return check

    return declared


def declared_rules() -> Mapping[str, Rule]:
    """Return the rules that have been declared, by id."""
    return _DECLARED


class Cause(StrEnum):
    """A cause that findings share; the values are display texts."""

    START_UP = "one-time cost"
    IDLE = "GPU idle"
    """What the CPU did meanwhile is not recorded."""
    LAUNCH_BOUND = "launch-bound"
    SHORT_KERNELS = "short kernels"
    DELAYS = "delayed kernels"
    PAUSES = "CPU gaps"
    INPUT = "input data"
    WAITS = "synchronization"
    ALLOCATION = "memory allocation"
    COPIES = "memory copies"
    COMMUNICATION = "communication"
    RANKS = "rank imbalance"
    SMALL_GRIDS = "small grids"
    PRECISION = "precision"
    LAYOUT = "data layout"
    FUSION = "unfused kernels"
    HOT_KERNEL = "hot kernel"
    ROOF = "ops below roofline"
    GPUS = "unused GPUs"
    ITERATIONS = "iteration time variation"
    MEMORY = "GPU memory"
    INCOMPLETE = "incomplete profile"


_RULES_BY_CAUSE: Final = {
    Cause.START_UP: "A4 A9 A10 I10 P5 P12",
    Cause.LAUNCH_BOUND: "U1 U3 U6 U7 U10 A2 A3 A6 A7 P11 I11 I13 I17",
    Cause.DELAYS: "A5",
    Cause.PAUSES: "U2 U9 U11 A14",
    Cause.INPUT: "I5 I6",
    Cause.WAITS: "A1 A13 T11",
    Cause.ALLOCATION: "A8",
    Cause.COPIES: "T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T12 T13 U8 A11",
    Cause.COMMUNICATION: "C1 C2 C3 C4 C6 C8 C9 C10 P13 I14",
    Cause.RANKS: "C5 C7 C11",
    Cause.SMALL_GRIDS: "L1 L2 L3 L4 L5 L6 L7 L8 L9 A12",
    Cause.PRECISION: "P1 P2 P3",
    Cause.LAYOUT: "P4 P15",
    Cause.FUSION: "P7 P8",
    Cause.HOT_KERNEL: "P10 P17 P18 L10",
    Cause.ROOF: "P14",
    Cause.GPUS: "U4 U5",
    Cause.ITERATIONS: "I1 I2 I3 I4",
    Cause.MEMORY: "I7 I8 I9",
    Cause.INCOMPLETE: "Q2 Q5",
}
_CAUSE_BY_RULE: Final = {rule: cause.value for cause, rules in _RULES_BY_CAUSE.items() for rule in rules.split()}


def default_cause(rule: str, name: str) -> str:
    """Return the default cause of a rule; the rule's own name if no other rule shares its cause.

    >>> default_cause("A2", "short-kernels"), default_cause("Q1", "impossible-rate")
    ('launch-bound', 'impossible rate')
    """
    return _CAUSE_BY_RULE.get(rule, name.replace("-", " "))
