"""What the themes promise of colours that are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tui.theme import PLAIN, SIXTEEN_DARK

if TYPE_CHECKING:
    from textual.theme import Theme


def test_nothing_that_is_to_be_seen_is_blue_on_black_and_keys_have_the_accent_of_all_else() -> None:
    looks = SIXTEEN_DARK.to_color_system().generate()
    assert not {name for name in looks if name.startswith("scrollbar") and "blue" in looks[name]}
    assert looks["footer-key-foreground"] == looks["accent"]


@pytest.mark.parametrize("theme", PLAIN, ids=[theme.name for theme in PLAIN])
def test_without_colours_the_cursor_of_what_is_typed_is_in_reverse(theme: Theme) -> None:
    looks = theme.to_color_system().generate()
    assert looks["input-cursor-text-style"] == "reverse"
    assert looks["input-cursor-foreground"] == looks["input-cursor-background"] == "ansi_default"
