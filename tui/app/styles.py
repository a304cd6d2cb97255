"""Styles that are parsed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

if TYPE_CHECKING:
    from textual.css.model import RuleSet

TEXTS_KEPT: Final = 1_000
"""More than there are kinds of widgets, each of which has a text of styles."""


class KeptStylesheet(Stylesheet):
    """Parses each text of styles once as long as the theme stays.

    Textual keeps 64 texts and goes through all of them in turn whenever a kind of widget is shown for the first time:
    with more kinds than that it parses everything anew each time, and at the start three times.
    """

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parse_cache: LRUCache[tuple[object, ...], list[RuleSet]] = LRUCache(TEXTS_KEPT)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take over the colours of a theme."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Apply the variables to all texts."""
        self.parse()
