"""Profiles of samples and of other real files, each read once for all the tests that a worker runs.

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
_load, _load_one = registry.load, registry.load_one


@lru_cache(maxsize=8)
def _files(paths: tuple[str, ...], format_in: str | None) -> tuple[Profile | None, tuple[ProftuiError, ...]]:
    profile, errors = _load(paths, format_in=format_in)
    return profile, tuple(errors)


@lru_cache(maxsize=8)
def _file(path: str, format_in: str | None) -> Profile:
    return _load_one(path, format_in=format_in)


def _is_shared(how: dict[str, Any], *paths: str) -> bool:
    """Whether these are files that no test writes, read in no other way than as usual."""
    return not how.keys() - {"format_in", "cache"} and all(
        Path(path).is_relative_to(SAMPLES) or Path(path).is_relative_to(SHARED) for path in paths
    )


def load(paths: Sequence[str], **how: Any) -> tuple[Profile | None, list[ProftuiError]]:
    """As `registry.load`."""
    if not _is_shared(how, *paths):
        return _load(paths, **how)
    profile, errors = _files(tuple(paths), how.get("format_in"))
    return profile, list(errors)


def load_one(path: str, **how: Any) -> Profile:
    """As `registry.load_one`."""
    return _file(path, how.get("format_in")) if _is_shared(how, path) else _load_one(path, **how)
