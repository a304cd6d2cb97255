"""What HTML puts into a text: tags around lines, and entities for the brackets of C++ names."""

from __future__ import annotations

import re
from typing import Final

_SIGNS: Final = re.compile(rb"&[lg]t;|</?(?:pre|code|br|span)[ />]|<html|<!doctype html", re.IGNORECASE)
_TAGS: Final = rb"(?:</?(?:pre|code|br|span)(?: [^<>\n]{0,200})?/?>)+"
_AROUND: Final = re.compile(rb"^(?P<blanks>[ \t]*)%s|%s(?=[ \t\r]*$)" % (_TAGS, _TAGS), re.MULTILINE)
_ENTITY: Final = re.compile(rb"&(?:lt|gt|amp|quot|nbsp|#39|#x27);")
_MEANING: Final = {
    **{b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&nbsp;": b" "},
    **dict.fromkeys((b"&#39;", b"&#x27;"), b"'"),
}


def has_markup(head: bytes) -> bool:
    """Whether an input that begins so is, or holds, HTML.

    >>> has_markup(b"<!DOCTYPE html>"), has_markup(b"f&lt;int&gt;"), has_markup(b"void f<int>(T&)")
    (True, True, False)
    """
    return _SIGNS.search(head) is not None


def without_markup(data: bytes) -> bytes:
    """Lines without the tags of preformatted text around them, entities as the characters that they mean.

    As many lines come back.

    >>> without_markup(b"<pre>  10.00%  f&lt;int&gt;(int)<br>")
    b'  10.00%  f<int>(int)'
    >>> without_markup(b"<pre>f<code>(int)</pre>")
    b'f<code>(int)'
    """
    return _ENTITY.sub(lambda found: _MEANING[found[0]], _AROUND.sub(rb"\g<blanks>", data))
