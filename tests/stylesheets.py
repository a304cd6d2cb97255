"""In tests the styles of a widget are parsed once for all apps: that is a tenth of opening the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.css.stylesheet import Stylesheet

if TYPE_CHECKING:
    from textual.css.model import RuleSet
    from textual.css.types import CSSLocation

_PARSED: dict[tuple[object, ...], list[RuleSet]] = {}
_parse_rules = Stylesheet._parse_rules


def _parsed_before(
    self: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """The rules of a text of styles: nothing changes them, and the variables of the theme are all else they tell of."""
    key = (frozenset(self._variables.items()), css, read_from, is_default_rules, tie_breaker, scope)
    rules = _PARSED.get(key)
    if rules is None:
        rules = _PARSED[key] = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
    return rules


def share_parsed_styles() -> None:
    """Have all apps share what was parsed."""
    Stylesheet._parse_rules = _parsed_before  # type: ignore[method-assign]
