"""Compares screens, as text and as SVG, with their snapshots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import textual
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.app import App

GOLDEN_TEXTUAL: Final = "8.2.8"
"""The version that the snapshots were made with: another version draws slightly differently."""


class ScreenTextExtension(SingleFileSnapshotExtension):
    """The text of a screen without colors: easy to read in a diff."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class ScreenSvgExtension(SingleFileSnapshotExtension):
    """The screen with its colors."""

    _write_mode = WriteMode.TEXT
    file_extension = "svg"


def screen_text(app: App[Any]) -> str:
    """Return the characters on the screen, without spaces at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips) + "\n"


def screen_svg(app: App[Any]) -> str:
    """Return a picture of the screen that is the same for the same screen."""
    return re.sub(r"terminal-\d+-", "terminal-", app.export_screenshot(title="proftui"))


def assert_text(text: str, snapshot: SnapshotAssertion) -> None:
    """Compare a text, of one screen or of several, with its snapshot."""
    if textual.__version__ != GOLDEN_TEXTUAL:
        reason = f"the snapshots were made with textual {GOLDEN_TEXTUAL}, this is {textual.__version__}"
        if snapshot.session.update_snapshots:
            pytest.fail(f"not updated: {reason}")
        pytest.skip(reason)
    assert text == snapshot(extension_class=ScreenTextExtension)


def assert_screen(app: App[Any], snapshot: SnapshotAssertion, *, svg: bool = False) -> None:
    """Compare the text of the screen with its snapshot; ``svg``: the picture, too."""
    assert_text(screen_text(app), snapshot)
    if svg:
        assert_picture(app, snapshot)


def assert_picture(app: App[Any], snapshot: SnapshotAssertion) -> None:
    """Compare the picture of the screen, with its colors, with its snapshot."""
    assert screen_svg(app) == snapshot(extension_class=ScreenSvgExtension)
