"""All rules, in the order in which they are asked: what can spoil figures first."""

from __future__ import annotations

from typing import Final

from tui.analysis.expert import (
    communication,
    configuration,
    iterations,
    launches,
    precision,
    quality,
    transfers,
    utilisation,
)
from tui.analysis.expert.model import declared_rules

MODULES: Final = (quality, utilisation, transfers, launches, configuration, precision, iterations, communication)
"""Each declares its rules when it is imported."""

_FAMILIES: Final = "QUTCALPI"
"""The first letters of ids in that order: rules that build on others stand after them."""

RULES: Final = tuple(
    sorted(declared_rules().values(), key=lambda rule: (_FAMILIES.index(rule.id[0]), int(rule.id[1:])))
)
"""Every rule."""
