"""Restores kernel names that were wrapped over lines, or that have blanks in place of underscores."""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = re.compile(r"(?<=\w) +(?=\w)")
_WORD_BEFORE: Final = re.compile(r"\w+$")
_WORD_AFTER: Final = re.compile(r"\w+")
_CONTINUES: Final = re.compile(r"[\w\s<>(),:*&=\[\]~.\-+/{}'$@!|^?;]+")
_SINGLE_COLON: Final = re.compile(r"(?<=[^:]):(?=[^:])")
_BEFORE_PARAMETERS: Final = re.compile(r"(?<=>) +(?=\((?!\*))")
_ARROWS: Final = re.compile(r"->|operator\s*(?:<<=?|>>=?|<=|>=|<|>|\(\))|__operator\S*?__")

KEYWORDS: Final = frozenset(
    (
        *("void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "__int64"),
        *("wchar_t", "char16_t", "char32_t", "const", "volatile", "__restrict__", "auto", "typename"),
        *("struct", "class", "enum", "union", "operator", "new", "delete", "static", "inline", "template"),
    )
)
"""Words that C++ lets stand beside another word within a type."""


def depth(name: str) -> int:
    """How many brackets of a C++ name are open; negative where more are closed than opened.

    >>> depth("f<int, g<float"), depth("f(int*)"), depth("operator->(a)")
    (2, 0, 0)
    """
    plain = _ARROWS.sub("", name)
    opened = sum(plain.count(bracket) for bracket in "(<[")
    return opened - sum(plain.count(bracket) for bracket in ")>]")


def is_cut(name: str) -> bool:
    """Whether a name must go on: a bracket is open, or what has to follow is missing.

    >>> is_cut("void"), is_cut("void f<int,"), is_cut("f(int)"), is_cut("matvec(matrix const &, ...")
    (True, True, False, False)
    """
    if name.endswith(("...", "…")):
        return False
    return name == "void" or name.endswith((",", "::")) or depth(name) > 0


def may_continue(text: str) -> bool:
    """Whether a line can be a part of a C++ name: prose has colons, dates and other marks that those have not."""
    text = text.strip()
    return bool(_CONTINUES.fullmatch(text)) and not _SINGLE_COLON.search(text)


def joined_name(parts: Sequence[str], *, hard: bool) -> str:
    """One name from its lines.

    A blank before its parameters is where a line ended once: names that differ in it alone are one.

    Args:
        parts: The lines, in order.
        hard: They were cut at a fixed width, in the middle of words; else between words.

    >>> joined_name(["void f<float, thrust::t", "ransform<int> >(int)"], hard=True)
    'void f<float, thrust::transform<int> >(int)'
    >>> joined_name(["f(unsigned", "long)"], hard=True)
    'f(unsigned long)'
    >>> joined_name(["void", "f<int,", "float const", "*>(int)"], hard=False)
    'void f<int, float const *>(int)'
    >>> joined_name(["void f<int,", "g<int>> (int, float (*)(int))"], hard=False)
    'void f<int, g<int>>(int, float (*)(int))'
    """
    name = ""
    for part in parts:
        if hard:
            # What was cut at a width keeps its blanks, but those at the end of a line are often lost.
            name += f" {part.lstrip()}" if name.endswith(",") or _stand_apart(name, part) else part
            continue
        part = part.strip()
        last, first = name[-1:], part[:1]
        tight = not last or last in "<(:" or first in ">),:(" or (first in "*&<" and not name.endswith("const"))
        name += part if tight else f" {part}"
    return (name if hard else _BEFORE_PARAMETERS.sub("", name)).strip()


def _stand_apart(before: str, after: str) -> bool:
    """Whether the words at the end of one text and the beginning of the next are two: both mean something to C++."""
    last, first = _WORD_BEFORE.search(before), _WORD_AFTER.match(after)
    return last is not None and first is not None and last[0] in KEYWORDS and first[0] in KEYWORDS


def with_underscores(name: str, known: Sequence[str]) -> str:
    """Put underscores back where a text extraction left blanks, as far as that can be proved.

    A blank between two words of a C++ name stands either beside a keyword (``unsigned int``) or after the return type
    of a function. Anywhere else it was an underscore: within brackets, in a name without parameters, before a word
    that begins with a digit, or where the same identifier is spelled with underscores elsewhere (`known`, in order).

    >>> with_underscores("sgemm sm35 ldg tn 128x8x256x16x32", [])
    'sgemm_sm35_ldg_tn_128x8x256x16x32'
    >>> with_underscores("void cudnn::detail::pooling fw 4d kernel<float, maxpooling func<unsigned int>>(int)", [])
    'void cudnn::detail::pooling_fw_4d_kernel<float, maxpooling_func<unsigned int>>(int)'
    >>> with_underscores("my kernel<int>(int)", []), with_underscores("my kernel<int>(int)", ["my_kernel"])
    ('my kernel<int>(int)', 'my_kernel<int>(int)')
    >>> with_underscores("[CUDA memcpy HtoD]", [])
    '[CUDA memcpy HtoD]'
    """
    if name.startswith("[") or "(anonymous namespace)" in name or "[clone" in name:
        return name
    has_parameters = "(" in name
    restored: list[str] = []
    start, opened, return_type_seen = 0, 0, False
    for gap in _GAP.finditer(name):
        part = name[start : gap.start()]
        opened += depth(part)
        before, after = _WORD_BEFORE.search(part), _WORD_AFTER.match(name, gap.end())
        assert before is not None
        assert after is not None
        blank = before[0] in KEYWORDS or after[0] in KEYWORDS
        if not blank and opened <= 0 and has_parameters and not return_type_seen:
            # The only blank that may be one: between a return type and the function.
            spelled = f"{before[0]}_{after[0]}"
            blank = not after[0][0].isdecimal() and not (_begins(known, spelled, "") or _begins(known, spelled, "_"))
        if opened <= 0 and blank:
            return_type_seen = True
        restored += [part, gap[0] if blank else "_"]
        start = gap.end()
    return "".join(restored) + name[start:]


def _begins(known: Sequence[str], word: str, end: str) -> bool:
    """Whether one of some words in order is a word, or begins with it and ``end``."""
    place = bisect.bisect_left(known, word + end)
    return place < len(known) and (known[place].startswith(word + end) if end else known[place] == word)


def identifiers(name: str) -> set[str]:
    """The identifiers of a name that hold an underscore."""
    return {word for word in re.findall(r"\w+", name) if "_" in word}
