"""Caches profiles in tests, and tells whether a profile came from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.profiles import SAMPLES
from tui.cache import secure_files
from tui.cache.cache import Cache
from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile


def sample_paths() -> list[str]:
    """Return the paths of the sample logs."""
    return sorted(str(path) for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md")


def small_file_cache(*, renew: bool = False) -> Cache:
    """Return a cache that accepts small files."""
    return Cache(renew=renew, min_bytes=0, min_seconds=0)


def store(path: str, format_in: str | None = None, *, renew: bool = False) -> Profile:
    """Read a file, and cache its profile unless it is cached."""
    used = small_file_cache(renew=renew)
    profile = load_input(path, format_in=format_in, cache=used)
    used.write()
    return profile


def reopen(path: str, format_in: str | None = None) -> tuple[Profile, bool]:
    """Open a file again; return its profile, and whether it came from the cache."""
    used = small_file_cache()
    return load_input(path, format_in=format_in, cache=used), bool(used.used)


def assert_same_profile(first: Profile, second: Profile) -> None:
    """Compare two profiles, with the types of their columns."""
    assert set(first.frames) == set(second.frames)
    for name, data in first.frames.items():
        assert data.schema == second[name].schema
        assert data.equals(second[name], null_equal=True), name
    assert first.sources == second.sources
    assert (first.partial, first.gpu, first.steps) == (second.partial, second.gpu, second.steps)
    assert set(first.texts) == set(second.texts)
    for source, text in first.texts.items():
        assert text.line_count == second.texts[source].line_count
        assert text.lines(1, text.line_count) == second.texts[source].lines(1, text.line_count)


def entries() -> list[Path]:
    """Return the folders of complete and of unfinished entries."""
    return sorted(secure_files.cache_folder().iterdir()) if secure_files.cache_folder().exists() else []


def only_entry() -> Path:
    """Return the folder of the only entry."""
    (entry,) = entries()
    return entry
