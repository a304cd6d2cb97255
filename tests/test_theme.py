"""The themes in terminals with few colors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color

from tui.theme import DARK, LIGHT, PLAIN, SIXTEEN_DARK, SIXTEEN_LIGHT

if TYPE_CHECKING:
    from textual.theme import Theme


def test_scrollbars_are_not_blue_on_black_and_keys_have_the_accent_color() -> None:
    colors = SIXTEEN_DARK.to_color_system().generate()
    assert not {name for name in colors if name.startswith("scrollbar") and "blue" in colors[name]}
    assert colors["footer-key-foreground"] == colors["accent"]


def test_warnings_on_a_light_background_are_black_on_yellow() -> None:
    colors = SIXTEEN_LIGHT.to_color_system().generate()
    assert (colors["warning-ink"], colors["warning-background"]) == ("ansi_black", "ansi_yellow")
    assert colors["error"] == "ansi_red"
    # No kind of work has the accent color.
    assert colors["accent"] not in {color for name, color in colors.items() if name.startswith("kind-")}


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("name", ["selection", "selection-cell", "bar", "scrollbar"])
def test_gray_stays_gray_with_256_colors(theme: Theme, name: str) -> None:
    colors = {**theme.to_color_system().generate(), **theme.variables}
    color = RichColor.parse(colors[name]).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    assert color.red == color.green == color.blue


@pytest.mark.parametrize("theme", PLAIN, ids=[theme.name for theme in PLAIN])
def test_the_input_cursor_is_reversed_without_colors(theme: Theme) -> None:
    colors = theme.to_color_system().generate()
    assert colors["input-cursor-text-style"] == "reverse"
    assert colors["input-cursor-foreground"] == colors["input-cursor-background"] == "ansi_default"


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_disabled_text_and_placeholders_have_enough_contrast(theme: Theme) -> None:
    colors = theme.to_color_system().generate()
    text, background = (relative_luminance(Color.parse(colors[name])) for name in ("text-disabled", "surface"))
    assert (max(text, background) + 0.05) / (min(text, background) + 0.05) > 4.5
    assert colors["text-disabled"] == colors["text-muted"]


def relative_luminance(color: Color) -> float:
    """Return the relative luminance as the Web Content Accessibility Guidelines define it."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
