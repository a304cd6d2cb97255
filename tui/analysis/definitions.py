"""Definitions of figures: meaning, unit, formula and source, from a data file that users can extend."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Definition:
    """What a figure means."""

    name: str
    """As in the JSON of a report."""
    title: str
    """For people."""
    unit: str
    """Of the exported value; empty where it has none."""
    means: str
    formula: str
    source: str
    """Who defines it so."""


@cache
def definitions() -> Mapping[str, Definition]:
    """Every definition of ``definitions.toml`` by its name."""
    table = tomllib.loads(files("tui.data").joinpath("definitions.toml").read_text("utf-8"))
    return {entry["name"]: Definition(**entry) for entry in table["metric"]}


def definition(name: str) -> Definition:
    """The definition of a figure.

    >>> definition("busy_pct").unit
    '%'
    """
    return definitions()[name]
