"""All rules, in the order in which they are asked: what can spoil figures first."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tui.analysis.expert import rules
from tui.analysis.expert.model import declared_rules

for _module in iter_modules(rules.__path__):
    import_module(f"{rules.__name__}.{_module.name}")

_FAMILIES: Final = "QUTCALPI"
"""The first letters of ids in that order: rules that build on others stand after them."""

RULES: Final = tuple(
    sorted(declared_rules().values(), key=lambda rule: (_FAMILIES.index(rule.id[0]), int(rule.id[1:])))
)
"""Every rule."""
