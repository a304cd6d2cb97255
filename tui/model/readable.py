"""Names of files as text: a file system takes any bytes, frames and files take text alone."""

from __future__ import annotations

import re
from typing import Final

_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""What Python makes of a byte that is no text, which nothing but the file system takes back."""


def readable(name: str) -> str:
    r"""A name with U+FFFD for each byte of it that is no text.

    >>> readable("run \udcff.log") == "run \ufffd.log"
    True
    """
    return name if name.isprintable() else _NO_TEXT.sub("\ufffd", name)
