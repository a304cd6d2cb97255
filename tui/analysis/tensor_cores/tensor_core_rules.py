"""Rules for tensor cores: kernels that use them, GPUs that lack them, eligible ops; read from data files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from tui.data import user_files
from tui.data.user_files import HINT, Stamp, checked_pattern, parsed, tables, user_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

VERDICTS: Final = {"yes": True, "no": False, "unknown": None}

SHIPPED: Final = "tensor_cores.toml"
_LISTS: Final = ("without", "devices_without", "eligible_types")


@dataclass(frozen=True, slots=True)
class Eligible:
    """Whether ops or kernels of certain names could use tensor cores."""

    of: str
    """op or kernel."""
    verdict: bool
    pattern: str
    """A regular expression in Rust syntax; upper and lower case are the same."""


@dataclass(frozen=True, slots=True)
class TensorCoreRules:
    """The rules of ``tensor_cores.toml``, in the order that they are tried."""

    rules: tuple[tuple[bool | None, str, str], ...]
    """Verdict, pattern, reason."""
    without: frozenset[str]
    """Op types whose kernels use no tensor cores, where no rule says otherwise."""
    devices_without: tuple[str, ...] = ()
    """Patterns of the names of GPUs that lack tensor cores, though their compute capability has them."""
    eligible: tuple[Eligible, ...] = ()
    """Ops and kernels that could, or could not, use tensor cores."""
    eligible_types: frozenset[str] = frozenset()
    """Op types of kernels that could."""

    def eligible_of(self, what: str) -> tuple[Eligible, ...]:
        """The entries of ops, or of kernels."""
        return tuple(entry for entry in self.eligible if entry.of == what)


def user_rules_path() -> Path:
    """Where a user's own rules are looked for."""
    return user_path(SHIPPED)


def tensor_core_rules() -> TensorCoreRules:
    """The user's rules, where there are any, then those that come with the program.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    return _rules(user_files.stamp(user_rules_path()))


@cache
def _rules(user: Stamp | None) -> TensorCoreRules:
    shipped = parse_rules(user_files.shipped(SHIPPED), SHIPPED)
    if user is None:
        return shipped
    own = parse_rules(user_text(user), user[0])
    return TensorCoreRules(
        (*own.rules, *shipped.rules),
        own.without | shipped.without,
        (*own.devices_without, *shipped.devices_without),
        (*own.eligible, *shipped.eligible),
        own.eligible_types | shipped.eligible_types,
    )


def parse_rules(text: str, source: str) -> TensorCoreRules:
    """Read rules from TOML.

    Args:
        text: The TOML document: arrays of tables ``rule`` and ``eligible``, lists ``without``, ``devices_without`` and
            ``eligible_types``; each can be left out.
        source: What to call it in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule has a wrong verdict or a pattern that is no regular expression.
    """
    document = parsed(text, source)
    for key in _LISTS:
        values = document.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ProftuiError(f"{source}: expected a list of strings called {key}", HINT)
    for number, pattern in enumerate(document.get("devices_without", []), 1):
        checked_pattern(pattern, f"{source}: devices_without {number}", tried=SHIPPED)
    return TensorCoreRules(
        tuple(_rule(entry, where) for entry, where in tables(document, "rule", source)),
        frozenset(document.get("without", [])),
        tuple(document.get("devices_without", [])),
        tuple(_eligible(entry, where) for entry, where in tables(document, "eligible", source)),
        frozenset(document.get("eligible_types", [])),
    )


def _rule(entry: Mapping[str, object], where: str) -> tuple[bool | None, str, str]:
    verdict, pattern, reason = _texts(entry, ("verdict", "pattern", "reason"), where)
    if verdict not in VERDICTS:
        raise ProftuiError(f"{where}: verdict must be yes, no or unknown, not {verdict}", HINT)
    checked_pattern(pattern, where, tried=SHIPPED)
    return VERDICTS[verdict], pattern, reason


def _eligible(entry: Mapping[str, object], where: str) -> Eligible:
    of, verdict, pattern = _texts(entry, ("of", "verdict", "pattern"), where)
    if of not in ("op", "kernel") or verdict not in ("yes", "no"):
        raise ProftuiError(f"{where}: of must be op or kernel, and verdict yes or no", HINT)
    checked_pattern(pattern, where, tried=SHIPPED)
    return Eligible(of, verdict == "yes", pattern)


def _texts(entry: Mapping[str, object], keys: tuple[str, str, str], where: str) -> tuple[str, str, str]:
    first, second, third = (entry.get(key) for key in keys)
    if not isinstance(first, str) or not isinstance(second, str) or not isinstance(third, str):
        raise ProftuiError(f"{where}: expected {keys[0]}, {keys[1]} and {keys[2]}", HINT)
    return first, second, third
