from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.running import TRACE
from tests.screens.opening import SAMPLES
from tui.loaders import registry

if TYPE_CHECKING:
    from tui.model.errors import ProftuiError
    from tui.model.profile import Profile

_load, _load_one = registry.load, registry.load_one


@lru_cache(maxsize=12)
def _samples(paths: tuple[str, ...], format_in: str | None) -> tuple[Profile | None, list[ProftuiError]]:
    return _load(paths, format_in=format_in)


@lru_cache(maxsize=12)
def _sample(path: str, format_in: str | None) -> Profile:
    return _load_one(path, format_in=format_in)


@pytest.fixture(autouse=True)
def samples_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles never change: commands on a sample share what was read of it, and what was computed from that."""

    def are_samples(*paths: str) -> bool:
        return all(Path(path).is_relative_to(SAMPLES) for path in paths)

    def load(paths: list[str], **how: Any) -> tuple[Profile | None, list[ProftuiError]]:
        if how.keys() - {"format_in", "kept"} or not are_samples(*paths):
            return _load(paths, **how)
        profile, errors = _samples(tuple(paths), how.get("format_in"))
        return profile, list(errors)

    def load_one(path: str, **how: Any) -> Profile:
        if how.keys() - {"format_in", "kept"} or not are_samples(path):
            return _load_one(path, **how)
        return _sample(path, how.get("format_in"))

    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(registry, "load_one", load_one)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a copy and two kernels."""
    path = tmp_path / "train.log"
    path.write_text(TRACE)
    return path
