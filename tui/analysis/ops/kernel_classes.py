"""Kernel classes that the user defines by name patterns in ``kernel_classes.toml``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.ops.op_type_rules import UNKNOWN, Rule, classify
from tui.analysis.ops.work_groups import WorkGroups, grouped_by, summed, totals_only
from tui.data.user_files import HINT, Stamp, checked_pattern, parsed, stamp, user_path, user_text
from tui.model.columns import columns
from tui.model.errors import ProftuiError
from tui.model.schema import NAME
from tui.model.view import TableSpec

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

OTHER: Final = "other"
"""The class of what no pattern finds: always a row of its own."""

CLASSES: Final = TableSpec(
    "kernel_classes",
    "Classes",
    columns(
        *("kernel_class", "total_ns", "time_pct", "calls", "avg_ns", "kernels", "max_ns", "min_ns"),
        *("uses_tensor_core", "session", "line"),
    ),
    key=("session", "kernel_class"),
    sort=(("total_ns", True),),
    weight="total_ns",
    pinned="kernel_class",
)


def classes_path() -> Path:
    """Where the user's classes are looked for."""
    return user_path("kernel_classes.toml")


def kernel_classes() -> tuple[Rule, ...]:
    """The user's classes in the order that they are tried; none where there is no file.

    Raises:
        ProftuiError: The file cannot be read, or has a class that cannot be used.
    """
    user = stamp(classes_path())
    return () if user is None else _classes(user)


@cache
def _classes(user: Stamp) -> tuple[Rule, ...]:
    return parse_classes(user_text(user), user[0])


def parse_classes(text: str, source: str) -> tuple[Rule, ...]:
    r"""Read classes from TOML: an array of tables ``class``, each with ``name`` and ``pattern``.

    The first class whose pattern (a regular expression in Rust syntax, upper and lower case the same) is found in the
    full name of a kernel or memory operation takes it; a name is in one class only.

    Args:
        text: The TOML document.
        source: What to call it in errors.

    Raises:
        ProftuiError: It is not TOML, or a class lacks a key, has another one, or a pattern that is none.

    >>> [rule.op_type for rule in parse_classes('[[class]]\nname = "mine"\npattern = "^my_"', "classes")]
    ['mine']
    """
    document = parsed(text, source)
    entries = document.get("class", [])
    if document.keys() - {"class"} or not isinstance(entries, list):
        raise ProftuiError(f"{source}: expected [[class]] tables and nothing else", HINT)
    return tuple(_class(entry, f"{source}: class {number}") for number, entry in enumerate(entries, 1))


def _class(entry: object, where: str) -> Rule:
    if not isinstance(entry, dict) or entry.keys() != {"name", "pattern"}:
        raise ProftuiError(f"{where}: expected name and pattern", HINT)
    if not all(isinstance(value, str) and value for value in entry.values()):
        raise ProftuiError(f"{where}: name and pattern must be strings", HINT)
    if entry["name"] in (OTHER, UNKNOWN):
        raise ProftuiError(f"{where}: {entry['name']} is reserved for kernels that match no pattern", HINT)
    return Rule(entry["name"], "", checked_pattern(entry["pattern"], where), "")


def class_groups(profile: Profile) -> WorkGroups:
    """All GPU work by session and class."""
    rules = kernel_classes()
    single, printed = (
        rows.select("session", "name")
        .join(_told(rows["name"], rules), on="name", how="left", maintain_order="left", nulls_equal=True)
        .drop("name")
        for rows in (profile["activities"], totals_only(profile))
    )
    return grouped_by(single, printed)


def _told(names: pl.Series, rules: tuple[Rule, ...]) -> pl.DataFrame:
    """The class of each distinct name."""
    told = classify(names, rules)
    unknown = pl.col("op_type").cast(pl.String) == UNKNOWN
    return told.select(
        "name", pl.when(unknown).then(pl.lit(OTHER)).otherwise(pl.col("op_type")).cast(NAME).alias("kernel_class")
    )


def by_class(profile: Profile) -> pl.DataFrame:
    """GPU time by the user's classes: one row per session and class, the largest first, what is in none last.

    Columns: session, kernel_class and those of `tui.analysis.ops.work_groups.summed`. What is in no class has a row in
    every session, of 0 where there is nothing.
    """
    rows = summed(profile, class_groups(profile))
    is_other = pl.col("kernel_class").cast(pl.String) == OTHER
    lacking = rows.filter(~pl.col("session").is_in(rows.filter(is_other)["session"].implode())).unique("session")
    none = lacking.select(
        "session",
        pl.lit(OTHER).cast(NAME).alias("kernel_class"),
        *(pl.lit(0, pl.Int64).alias(name) for name in ("calls", "total_ns", "kernels")),
        pl.lit(0.0).alias("time_pct"),
    )
    return pl.concat([rows, none], how="diagonal_relaxed").sort(
        is_other, "total_ns", "kernel_class", "session", descending=[False, True, False, False], nulls_last=True
    )
