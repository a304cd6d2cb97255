"""By what the ops of a profile can be grouped, and what lies behind a row of each grouping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.ops import by_config, by_instance, by_shapes, kernel_classes
from tui.analysis.ops.work_groups import NO_GROUP, kernels_in, launches_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.ops.work_groups import WorkGroups
    from tui.model.profile import Profile
    from tui.model.view import TableSpec


@dataclass(frozen=True, slots=True)
class Grouping:
    """A way to group all GPU work."""

    name: str
    """As ``shapes``: what the command line takes."""
    title: str
    """As ``by input shape``."""
    spec: TableSpec
    rows: Callable[[Profile], pl.DataFrame]
    groups: Callable[[Profile], WorkGroups]
    """Which launch is in which row."""
    key: tuple[str, ...]
    """The columns that a row and its group share."""
    without: str = ""
    """The column of the groups that holds what stands in the first column of rows of no op."""
    why_not: Callable[[Profile], str] = lambda _profile: ""
    """Why it says nothing here, in words; empty where it does."""

    def group_of(self, profile: Profile, row: Mapping[str, Any]) -> int:
        """The number of the group of a row of `rows`; `NO_GROUP` where no GPU work is in it."""
        keys = self.groups(profile).keys
        wanted = pl.all_horizontal(
            pl.col(name).cast(pl.String).eq_missing(pl.lit(None if row[name] is None else str(row[name])))
            for name in self.key
        )
        if self.without:
            label = pl.lit(str(row[self.key[1]]))
            rest = pl.col(self.without).cast(pl.String) == label
            wanted = wanted & pl.col(self.without).is_null() | rest & (pl.col("session") == row["session"])
        found = keys.select(wanted.fill_null(False).arg_true()).to_series()
        return int(found[0]) if len(found) else NO_GROUP

    def make(self, profile: Profile) -> None:
        """Work out what `rows` and `groups` remember."""
        self.groups(profile)
        self.rows(profile)

    def kernels(self, profile: Profile, row: Mapping[str, Any]) -> pl.DataFrame:
        """The kernels and memory operations of a row."""
        return kernels_in(profile, self.groups(profile), self.group_of(profile, row))

    def launches(self, profile: Profile, row: Mapping[str, Any], *, kind: str, name: str) -> pl.DataFrame:
        """The launches of one of them."""
        return launches_in(profile, self.groups(profile), self.group_of(profile, row), kind=kind, name=name)

    def activities(self, profile: Profile, row: Mapping[str, Any]) -> pl.Series:
        """The numbers of the activities of a row."""
        here = np.flatnonzero(self.groups(profile).codes == self.group_of(profile, row))
        return profile["activities"]["activity"].gather(pl.Series(here, dtype=pl.UInt32))


def _no_shapes(profile: Profile) -> str:
    shapes = profile["ops"]["input_shapes"]
    return "" if shapes.len() > shapes.null_count() else "no input shapes are recorded"


def _no_configs(profile: Profile) -> str:
    blocks = profile["activities"]["block_x"]
    return "" if blocks.len() > blocks.null_count() else "no launch configurations are recorded"


def _no_classes(_profile: Profile) -> str:
    return "" if kernel_classes.kernel_classes() else f"no classes are defined in {kernel_classes.classes_path()}"


def _no_launches(profile: Profile) -> str:
    return "" if profile["activities"].height else "this input holds totals, not single launches"


GROUPINGS: Final = (
    Grouping(
        "shapes",
        "by input shape",
        by_shapes.BY_SHAPES,
        by_shapes.by_shapes,
        by_shapes.shape_groups,
        ("session", "op", "input_shapes", "dtype"),
        "without",
        _no_shapes,
    ),
    Grouping(
        "config",
        "by launch config",
        by_config.CONFIGS,
        by_config.by_config,
        by_config.config_groups,
        ("session", *by_config.SHAPE, "without"),
        why_not=_no_configs,
    ),
    Grouping(
        "class",
        "by kernel class",
        kernel_classes.CLASSES,
        kernel_classes.by_class,
        kernel_classes.class_groups,
        ("session", "kernel_class"),
        why_not=_no_classes,
    ),
    Grouping(
        "instance",
        "by op instance",
        by_instance.BY_INSTANCE,
        by_instance.by_instance,
        by_instance.instance_groups,
        ("session", "op_id"),
        why_not=_no_launches,
    ),
)
"""Besides the grouping by name, which tells recorded ops with what they called."""


def grouping_of(name: str) -> Grouping:
    """The grouping of a name.

    >>> grouping_of("instance").title
    'by op instance'
    """
    return next(candidate for candidate in GROUPINGS if candidate.name == name)
