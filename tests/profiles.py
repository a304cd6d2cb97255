"""Profiles of samples and of other real files, each read once for all tests of a worker.

A profile never changes: the tests share what was read, and what was computed from it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.corpus import SHARED
from tui.loaders import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.errors import ProftuiError
    from tui.model.profile import Profile

SAMPLES: Final = Path(__file__).parents[1] / "sample_logs"
_load, _load_one = registry.load, registry.load_input


@lru_cache(maxsize=8)
def _load_cached(paths: tuple[str, ...], format_in: str | None) -> tuple[Profile | None, tuple[ProftuiError, ...]]:
    profile, errors = _load(paths, format_in=format_in)
    return profile, tuple(errors)


@lru_cache(maxsize=8)
def _load_one_cached(path: str, format_in: str | None) -> Profile:
    return _load_one(path, format_in=format_in)


def is_cacheable(options: dict[str, Any], *paths: str) -> bool:
    """Return whether no test writes these files, and the options do not change what is read."""
    return not options.keys() - {"format_in", "cache"} and all(
        Path(path).is_relative_to(SAMPLES) or Path(path).is_relative_to(SHARED) for path in paths
    )


def load(paths: Sequence[str], **options: Any) -> tuple[Profile | None, list[ProftuiError]]:
    """Read several files like `registry.load`, from the cache if possible."""
    if not is_cacheable(options, *paths):
        return _load(paths, **options)
    profile, errors = _load_cached(tuple(paths), options.get("format_in"))
    return profile, list(errors)


def load_one(path: str, **options: Any) -> Profile:
    """Read a file like `registry.load_input`, from the cache if possible."""
    return (
        _load_one_cached(path, options.get("format_in")) if is_cacheable(options, path) else _load_one(path, **options)
    )
