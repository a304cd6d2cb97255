"""Jupyter notebooks: the lines of a cell's output stand in them as JSON strings, one a line."""

from __future__ import annotations

import json
import re
from typing import Final

_BEGINS: Final = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat|worksheets)"')
_QUOTED_LOG: Final = re.compile(
    rb'^[ \t]*"(?:==\d+==[ ]|={8}[ ]|[ ]*(?:Type[ ]+)?Time\(%\)[ ]|[ ]*Start[ ]+Duration[ ]).*\\n",?[ \t\r]*$',
    re.MULTILINE,
)
"""A line of a profile as a JSON string: the notebook around it may be missing."""

_STRING: Final = re.compile(rb'^[ \t]*("(?:[^"\\\n]|\\.)*+")[ \t]*,?[ \t\r]*$', re.MULTILINE)
_SEVERAL: Final = re.compile(rb'\\n(?!")')


def is_notebook(head: bytes) -> bool:
    r"""Whether an input that begins so is a notebook, or lines of one.

    >>> is_notebook(b'{\n "cells": [\n'), is_notebook(b'{"traceEvents": []}')
    (True, False)
    """
    return _BEGINS.match(head) is not None or _QUOTED_LOG.search(head) is not None


def unquoted(data: bytes) -> bytes:
    r"""Whole lines of a notebook with the strings that stand alone on a line as the text they mean.

    As many lines come back: a string of several lines stays as it is.

    >>> unquoted(b'  "text": [\n   "==7== \\"a\\"\\n",\n   "  12%  f\\u003cint\\u003e"\n')
    b'  "text": [\n==7== "a"\n  12%  f<int>\n'
    """
    return _STRING.sub(_meaning, data)


def _meaning(found: re.Match[bytes]) -> bytes:
    if _SEVERAL.search(found[1]):
        return found[0]
    try:
        text = json.loads(found[1].decode("utf-8", "surrogateescape"), strict=False)
    except ValueError:
        return found[0]
    assert isinstance(text, str)
    return text.removesuffix("\n").encode("utf-8", "surrogateescape" if text.isprintable() else "replace")
