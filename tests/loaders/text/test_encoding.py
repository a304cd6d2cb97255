"""Texts in other encodings, in chunks of any size."""

from __future__ import annotations

import codecs
import io

import pytest

from tui.loaders.registry import load_input
from tui.loaders.text.lines import as_utf8, detect_encoding
from tui.model.errors import ProftuiError

TEXT = "kernel µs\n"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ],
)
def test_the_byte_order_mark_is_removed_for_any_chunk_size(name: str, mark: bytes, size: int) -> None:
    data = mark + TEXT.encode(name)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert b"".join(as_utf8(detect_encoding(data), chunks)) == TEXT.encode()


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_byte_order_mark_alone_is_no_profile(mark: bytes) -> None:
    with pytest.raises(ProftuiError, match="no profile found; it has only a byte order mark"):
        load_input("empty.log", stream=io.BytesIO(mark))
