"""Keeps profiles in tests, and says whether what comes back was kept or read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.profiles import SAMPLES
from tui.cache import secure_files
from tui.cache.cache import Cache
from tui.loaders.registry import load_one

if TYPE_CHECKING:
    from tui.model.profile import Profile


def sample_paths() -> list[str]:
    """The sample logs that are profiles."""
    return sorted(str(path) for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md")


def a_cache(*, renew: bool = False) -> Cache:
    """One that keeps small files, too."""
    return Cache(renew=renew, least_bytes=0, least_seconds=0)


def keep(path: str, format_in: str | None = None, *, renew: bool = False) -> Profile:
    """Read a file, and keep what was read unless it is kept."""
    used = a_cache(renew=renew)
    profile = load_one(path, format_in=format_in, cache=used)
    used.write()
    return profile


def again(path: str, format_in: str | None = None) -> tuple[Profile, bool]:
    """Open a file again: its profile, and whether that was kept."""
    used = a_cache()
    return load_one(path, format_in=format_in, cache=used), bool(used.used)


def same(one: Profile, other: Profile) -> None:
    """Assert that two profiles hold the same, to the types of their columns."""
    assert set(one.frames) == set(other.frames)
    for name, data in one.frames.items():
        assert data.schema == other[name].schema
        assert data.equals(other[name], null_equal=True), name
    assert one.sources == other.sources
    assert (one.partial, one.gpu, one.steps) == (other.partial, other.gpu, other.steps)
    assert set(one.texts) == set(other.texts)
    for source, text in one.texts.items():
        assert text.line_count == other.texts[source].line_count
        assert text.lines(1, text.line_count) == other.texts[source].lines(1, text.line_count)


def entries() -> list[Path]:
    """The folders of what is kept, and of what is half written."""
    return sorted(secure_files.cache_folder().iterdir()) if secure_files.cache_folder().exists() else []


def only_entry() -> Path:
    """The folder of the one thing that is kept."""
    (entry,) = entries()
    return entry
