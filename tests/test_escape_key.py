"""The escape key and a key that follows at once, in the bytes that a terminal sends."""

from __future__ import annotations

import time

import pytest
from textual import constants, events

from tui.textual_patches import EscapeParser


def parse_keys(sent: str) -> list[str]:
    """Return the keys in characters that a terminal sends at once, followed by a pause."""
    parser = EscapeParser()
    messages = list(parser.feed(sent))
    time.sleep(constants.ESCAPE_DELAY + 0.02)
    messages += parser.tick()
    return [event.key for event in messages if isinstance(event, events.Key)]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1bj", ["escape", "j"]),
        ("\x1bG", ["escape", "G"]),
        ("\x1b:q\r", ["escape", "colon", "q", "enter"]),
        ("\x1b1", ["escape", "1"]),
        ("\x1bb", ["escape", "b"]),
        ("\x1b[", ["escape", "left_square_bracket"]),
        ("\x1bO", ["escape", "O"]),
        ("\x1bP", ["escape", "P"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\x7f", ["escape", "backspace"]),
        ("\x1b\x1b", ["escape", "escape"]),
        ("\x1b\x1bj", ["escape", "escape", "j"]),
        ("\x1b", ["escape"]),
        ("\x1b" + "x" * 60, ["escape", *"x" * 60]),
        ("\x1b[A", ["up"]),
        ("\x1bOA", ["up"]),
        ("\x1b[1;5C", ["ctrl+right"]),
        ("\x1b[Z", ["shift+tab"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        # As terminals with the keyboard protocol of kitty send it.
        ("\x1b[27uj", ["escape", "j"]),
    ],
)
def test_escape_and_the_next_key_are_both_parsed(sent: str, keys: list[str]) -> None:
    assert parse_keys(sent) == keys
