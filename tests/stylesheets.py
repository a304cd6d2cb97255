"""Parses the styles of a widget once for all apps of the tests, which saves a tenth of opening the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.css.stylesheet import Stylesheet

if TYPE_CHECKING:
    from textual.css.model import RuleSet
    from textual.css.types import CSSLocation

_PARSED: dict[tuple[object, ...], list[RuleSet]] = {}
_parse_rules = Stylesheet._parse_rules


def _parse_rules_once(
    self: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """Return the rules of a style sheet: they depend on the variables of the theme alone, and nothing changes them."""
    key = (frozenset(self._variables.items()), css, read_from, is_default_rules, tie_breaker, scope)
    rules = _PARSED.get(key)
    if rules is None:
        rules = _PARSED[key] = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
    return rules


def share_parsed_styles() -> None:
    """Make all apps share the parsed style sheets."""
    Stylesheet._parse_rules = _parse_rules_once  # type: ignore[method-assign]
