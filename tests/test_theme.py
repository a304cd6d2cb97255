"""What the themes promise of colours that are few."""

from __future__ import annotations

from tui.theme import SIXTEEN_DARK


def test_nothing_that_is_to_be_seen_is_blue_on_black_and_keys_have_the_accent_of_all_else() -> None:
    looks = SIXTEEN_DARK.to_color_system().generate()
    assert not {name for name in looks if name.startswith("scrollbar") and "blue" in looks[name]}
    assert looks["footer-key-foreground"] == looks["accent"]
