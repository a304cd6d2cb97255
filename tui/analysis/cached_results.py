"""Results computed while an input is opened, as frames that are cached with it and restored."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.iterations import iteration_table
from tui.analysis.memo import store_result
from tui.analysis.ops.op_attribution import classified_work, op_classes
from tui.analysis.ops.op_costs import RECORDED, op_instances, recorded_ops
from tui.analysis.tensor_core_efficiency import eligible_ops
from tui.cache.spill import low_memory
from tui.data.user_files import user_file_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.profile import Profile


CACHED_SCHEMAS: Final[Mapping[str, pl.Schema]] = MappingProxyType(
    {**iteration_table.ITERATION_FRAMES, "recorded_ops": pl.Schema(RECORDED), "rules": pl.Schema({"rules": pl.String})}
)
"""The cached frames: iterations, the table of ops, and the user's rules that it depends on."""


def results_to_cache(profile: Profile, shown: Profile | None) -> dict[str, pl.DataFrame]:
    """Return the results that were computed while the input was opened, as frames to cache.

    Args:
        profile: What was read, as it was read.
        shown: The same with its iterations; None if only a part of it is shown.
    """
    results = iteration_table.iteration_frames(profile)
    if shown is not None and shown["ops"].height and shown.gpu is None:
        results |= {"recorded_ops": recorded_ops(shown), "rules": pl.DataFrame({"rules": [_rules()]})}
    return results


def restore_iterations(profile: Profile, results: Mapping[str, pl.DataFrame]) -> None:
    """Set the iterations of a profile from cached results."""
    if {"steps", "reasons"} <= set(results):
        iteration_table.store_iterations(profile, results)


def restore_ops(shown: Profile, results: Mapping[str, pl.DataFrame]) -> bool:
    """Set the table of ops from cached results; False if they were made with other rules."""
    same = (
        shown.gpu is None
        and "recorded_ops" in results
        and "rules" in results
        and results["rules"].rows() == [(_rules(),)]
    )
    if same:
        store_result(recorded_ops, shown, results["recorded_ops"])
    return same


def deferred_results(shown: Profile) -> tuple[Callable[[], object], ...]:
    """Return the steps that compute the table of ops, in the order of their dependencies; details need them.

    There are none if memory is short: open views need it.
    """
    if low_memory():
        return ()
    steps = (op_instances, classified_work, op_classes, eligible_ops)
    return tuple(partial(step, shown) for step in steps)


def _rules() -> str:
    """Return what identifies the user's own rules: names, sizes and times of their files."""
    folder = user_file_path("")
    files: list[Path] = []
    # The home directory can be another user's: `tui.data.user_files.stamp`.
    with suppress(PermissionError):
        files = sorted(folder.iterdir()) if folder.is_dir() else []
    return "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.is_file())
