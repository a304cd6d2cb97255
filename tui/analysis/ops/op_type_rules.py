"""Rules that map names of kernels and ops to op types: read from data files, checked and applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.data.user_files import HINT, checked_pattern, parse_user_file, rules_with_users, tables, user_file_path
from tui.model.errors import ProftuiError
from tui.model.schema import NAME

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN: Final = "unknown"
"""The op type of a kernel that matches no rule."""

NAME_LIMIT: Final = 4096
"""The number of characters of a name that rules examine."""

MAX_CACHED_NAMES: Final = 100_000
"""The most names whose rule is cached."""

OVERLOAD: Final = r"^(\w+::\w+)\.\w+$"
"""An op of PyTorch with its overload (``aten::mm.out``); group 1 is the op."""

SHIPPED: Final = "op_types.toml"
DIRECTIONS: Final = ("fprop", "bprop", "")


@dataclass(frozen=True, slots=True)
class OpTypeRule:
    """A rule: kernels, or ops, whose name matches a pattern are of an op type."""

    op_type: str
    """The op type, as ``convolution``."""
    direction: str
    """fprop, bprop, or empty if the name does not give it."""
    pattern: str
    """A regular expression in Rust syntax; upper and lower case are the same."""
    note: str
    """The reason for the rule, for readers of the file."""


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules in the order they are tried, and which op types a group sums."""

    rules: tuple[OpTypeRule, ...]
    """The rules for kernels; the first match decides."""
    groups: Mapping[str, str]
    """The group of each op type."""
    op_rules: tuple[OpTypeRule, ...] = ()
    """The rules for ops that a framework records; the first match decides."""

    def group_name(self, op_type: str) -> str:
        """Return the group of an op type; its own name if it is in no group."""
        return self.groups.get(op_type, op_type)


def op_type_rules_path() -> Path:
    """Return the path of the user's own rules."""
    return user_file_path(SHIPPED)


def op_rules() -> Rules:
    """Return the user's rules, if any, followed by the program's.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    return rules_with_users(SHIPPED, op_type_rules_path(), parse_op_type_rules, _merge_rules)


def _merge_rules(user_rules: Rules, shipped: Rules) -> Rules:
    return Rules(
        (*user_rules.rules, *shipped.rules),
        {**shipped.groups, **user_rules.groups},
        (*user_rules.op_rules, *shipped.op_rules),
    )


def parse_op_type_rules(text: str, source: str) -> Rules:
    """Read rules from TOML.

    Args:
        text: The TOML document: arrays of tables ``rule`` (for kernels) and ``op_rule`` (for ops), and a table
            ``groups``; each can be omitted.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule lacks a key, has a wrong value or a pattern that is no regular
            expression.
    """
    document = parse_user_file(text, source)
    rules = _parse_rules(document, "rule", source)
    op_rules = _parse_rules(document, "op_rule", source)
    groups = document.get("groups", {})
    if not isinstance(groups, dict) or not all(
        isinstance(members, list) and all(isinstance(member, str) for member in members) for members in groups.values()
    ):
        raise ProftuiError(f"{source}: expected [groups] with lists of op types", HINT)
    return Rules(rules, {member: group for group, members in groups.items() for member in members}, op_rules)


def _parse_rules(document: dict[str, Any], key: str, source: str) -> tuple[OpTypeRule, ...]:
    return tuple(_rule(entry, location) for entry, location in tables(document, key, source))


def _rule(entry: Mapping[str, Any], location: str) -> OpTypeRule:
    unknown_keys = entry.keys() - {"op_type", "direction", "pattern", "note"}
    if unknown_keys:
        raise ProftuiError(f"{location}: has no key {', '.join(sorted(unknown_keys))}", HINT)
    values = {key: entry.get(key, "") for key in ("op_type", "direction", "pattern", "note")}
    for key, value in values.items():
        if not isinstance(value, str) or (key in ("op_type", "pattern") and not value):
            raise ProftuiError(f"{location}: {key} must be a string", HINT)
    if values["direction"] not in DIRECTIONS:
        raise ProftuiError(f"{location}: direction must be fprop, bprop or empty, not {values['direction']}", HINT)
    checked_pattern(values["pattern"], location, tried=SHIPPED)
    return OpTypeRule(**values)


def _regex(pattern: str) -> str:
    return f"(?i){pattern}"


def classify(names: pl.Series, rules: Sequence[OpTypeRule] | None = None) -> pl.DataFrame:
    """Return the op type of each distinct name: name, op_type, direction, rule; in no particular order.

    ``direction`` is null if the name does not show it; ``rule`` is the pattern that decided, null for ``unknown``.

    >>> classify(pl.Series(["volta_sgemm_128x32_nn"])).row(0)[1:3]
    ('gemm', None)
    """
    chosen = op_rules().rules if rules is None else tuple(rules)
    distinct = names.drop_nulls().unique(maintain_order=True)
    table = pl.DataFrame(
        [(number, rule.op_type, rule.direction or None, rule.pattern) for number, rule in enumerate(chosen)],
        schema={"number": pl.Int64, "op_type": NAME, "direction": NAME, "rule": pl.String},
        orient="row",
    )
    texts = distinct.cast(pl.String).str.slice(0, NAME_LIMIT).to_list()
    return (
        pl.DataFrame(
            {"number": first_matches(tuple(rule.pattern for rule in chosen), texts)}, schema={"number": pl.Int64}
        )
        .join(table, on="number", how="left", maintain_order="left")
        .select(distinct.alias("name"), pl.col("op_type").fill_null(UNKNOWN), "direction", "rule")
    )


def first_matches(patterns: tuple[str, ...], names: Sequence[str]) -> list[int | None]:
    """Return for each name the number of the first pattern that matches, ignoring case.

    Results are cached, since views ask for the same names repeatedly.
    """
    cached = _known_matches(patterns)
    if len(cached) > MAX_CACHED_NAMES:
        cached.clear()
    not_cached = len(patterns)
    numbers = {name: cached.get(name, not_cached) for name in names}
    remaining = pl.Series("name", [name for name, number in numbers.items() if number == not_cached], dtype=pl.String)
    matched: dict[str, int | None] = dict.fromkeys(remaining)
    plain = remaining.str.replace(OVERLOAD, "$1")
    for number, pattern in enumerate(patterns):
        if remaining.is_empty():
            break
        hit = plain.str.contains(_regex(pattern))
        matched.update(dict.fromkeys(remaining.filter(hit), number))
        remaining, plain = remaining.filter(~hit), plain.filter(~hit)
    cached.update(matched)
    numbers |= matched
    return [numbers[name] for name in names]


@lru_cache(maxsize=8)
def _known_matches(patterns: tuple[str, ...]) -> dict[str, int | None]:
    """Return the cache of matches for these patterns."""
    return {}
