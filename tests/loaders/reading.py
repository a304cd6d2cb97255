"""Reads a text as the program does, for the tests of text formats."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile


def read(text: str | bytes) -> Profile:
    """Return the profile of a text with any formats."""
    data = text.encode() if isinstance(text, str) else text
    return load_input("-", stream=io.BytesIO(data))


def rows(profile: Profile, frame: str, *columns: str) -> list[tuple[object, ...]]:
    """Return some columns of a frame."""
    return profile[frame].select(columns).rows()


def reasons(profile: Profile, severity: str | None = None) -> list[str]:
    """Return the reasons of its issues."""
    issues = profile["issues"]
    return (issues if severity is None else issues.filter(severity=severity))["reason"].to_list()
