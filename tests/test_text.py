from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.text import MARK, plain, to_ascii
from tui.text_width import cell_width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("maxwell_sgemm_128x64_nn", "maxwell_sgemm_128x64_nn"),
        ("\x1b[2J\x1b]52;c;aGk=\x07", "·[2J·]52;c;aGk=·"),
        ("a\tb\r\nc\x00", "a·b··c·"),
        ("\x9b31m", "·31m"),
        ("abc\u202edef\u2066", "abc·def·"),
        ("a\u200bb\ufeff", "a·b·"),
        ("one\u2028two\u2029", "one·two·"),
        ("\udc80", "·"),
        ("[bold]kernel<float>[/x]", "[bold]kernel<float>[/x]"),
        ("größe 行列 no\u00a0break", "größe 行列 no\u00a0break"),
    ],
)
def test_control_characters_are_shown_as_dots(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(st.characters(), max_size=50))
def test_plain_text_has_no_control_characters(text: str) -> None:
    shown = plain(text)
    assert len(shown) == len(text)
    assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, shown))
    assert not [character for character in shown if 0x202A <= ord(character) <= 0x202E]
    assert all(original == replaced or replaced == MARK for original, replaced in zip(text, shown, strict=True))
    shown.encode("utf-8")


@given(st.text(st.characters(), max_size=50))
def test_ascii_text_has_the_same_width_and_only_printable_characters(text: str) -> None:
    shown = to_ascii(plain(text))
    assert all(" " <= character <= "~" for character in shown)
    assert len(shown) == cell_width(plain(text))
