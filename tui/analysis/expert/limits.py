"""The thresholds of the rules: ``rules.toml``, overridden by the user's own file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tui.analysis.expert.rule import Severity
from tui.data import user_files
from tui.data.user_files import HINT, Stamp, parsed, shipped, user_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHIPPED: Final = "rules.toml"
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Limit:
    """One threshold of a rule."""

    name: str
    """As ``busy_pct``: the unit is in the name."""
    value: float
    says: str
    """What it is compared with, in words."""
    source: str
    """Who uses this value, or why it was chosen."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All thresholds, and the severities that the user gave."""

    limits: Mapping[str, Mapping[str, Limit]]
    """By rule and name."""
    severities: Mapping[str, str]
    """By rule: one of `Severity`, or `OFF`."""
    source: str = SHIPPED
    """The user's file, where there is one."""

    def __call__(self, rule: str, name: str) -> float:
        """The value of a threshold.

        Raises:
            KeyError: The rule has no such threshold.
        """
        return self.limits[rule][name].value

    def of(self, rule: str) -> tuple[Limit, ...]:
        """The thresholds of a rule."""
        return tuple(self.limits.get(rule, {}).values())

    def is_off(self, rule: str) -> bool:
        """Whether the user switched a rule off."""
        return self.severities.get(rule) == OFF

    def severity(self, rule: str, own: Severity) -> Severity:
        """The severity of a finding: from the user's file, else from the rule."""
        given = self.severities.get(rule, OFF)
        return own if given == OFF else Severity(given)


def user_limits_path() -> Path:
    """Where a user's own thresholds are looked for."""
    return user_path(SHIPPED)


def stamp() -> Stamp | None:
    """The user's file and when it was written; None where there is none. Results hold as long as it is the same."""
    return user_files.stamp(user_limits_path())


@cache
def limits(user: Stamp | None = None) -> Limits:
    """The thresholds that come with the program, and the user's over them.

    Args:
        user: The answer of `stamp`.

    Raises:
        ProftuiError: The user's file cannot be read, or names a rule or threshold that there is not.
    """
    own = parse_shipped(shipped(SHIPPED))
    return own if user is None else with_users(own, user_text(user), user[0])


def parse_shipped(text: str) -> Limits:
    """Read the program's own file: for each rule, thresholds as ``name = { is, says, source }``."""
    rules: dict[str, dict[str, Limit]] = {}
    for rule, entries in parsed(text, SHIPPED).items():
        if isinstance(entries, dict):
            rules[rule] = {
                name: Limit(name, entry["is"], entry["says"], entry["source"]) for name, entry in entries.items()
            }
    return Limits(rules, {})


def with_users(shipped: Limits, text: str, source: str) -> Limits:
    """Put a user's thresholds over the shipped ones.

    Args:
        shipped: What comes with the program.
        text: TOML: for each rule ``name = number``, and ``severity`` as error, warning, info or off.
        source: What to call it.

    Raises:
        ProftuiError: It is no TOML, or names a rule or threshold that there is not.
    """
    document = parsed(text, source)
    rules = {rule: dict(limits) for rule, limits in shipped.limits.items()}
    severities: dict[str, str] = {}
    for rule, entries in document.items():
        if rule not in rules or not isinstance(entries, dict):
            raise ProftuiError(f"{source}: there is no rule {rule}", f"rules are {', '.join(rules)}")
        for name, value in entries.items():
            if name == "severity":
                severities[rule] = _severity(value, f"{source}: {rule}")
            else:
                rules[rule][name] = _changed(rules[rule], name, value, f"{source}: {rule}", source)
    return Limits(rules, severities, source)


def _severity(value: Any, where: str) -> str:
    known = [*(severity.value for severity in Severity), OFF]
    if value not in known:
        raise ProftuiError(f"{where}: severity is one of {', '.join(known)}, not {value}", HINT)
    return str(value)


def _changed(limits: Mapping[str, Limit], name: str, value: Any, where: str, source: str) -> Limit:
    if name not in limits:
        raise ProftuiError(
            f"{where} has no threshold {name}", f"it has {', '.join([*limits, 'severity'])}" if limits else HINT
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN and infinity are numbers in TOML; a rule that compares with them would never be found.
    if not number or not abs(value) < 1e18:
        raise ProftuiError(f"{where}: {name} is a number, not {value}", HINT)
    return replace(limits[name], value=float(value), source=f"set in {source}")
