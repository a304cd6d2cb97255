"""Fits texts into a number of terminal cells: width, clipping, padding, shortening of C++ names; and bars."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from tui.model.names import short_name

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"

_MIN_ARGUMENTS_CELLS: Final = 6
"""The minimum number of cells for which template arguments are shown."""

PREFIXES: Final = {"autograd::engine::evaluate_function: ": "engine: ", "torch::autograd::": "", "autograd::": ""}
"""Common prefixes and their replacements in names that do not fit; autograd's engine calls ops of similar names."""
_BOILERPLATE: Final = re.compile(r"at::native::|\(anonymous namespace\)::")
"""Namespaces of nearly all kernels of PyTorch."""

_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+")
"""Plain names with namespaces, such as ``aten::native_layer_norm``."""

_QUOTED: Final = re.compile("`([^`]+)`")
_MIN_QUOTED_CELLS: Final = 20
"""The minimum number of cells of a quoted name in a sentence, with its quotes."""
_MIN_LAST_NAME_CELLS: Final = 12
"""The minimum number of cells of a quoted name at which a sentence is cut; a shorter one could be any name."""
_SYMBOL: Final = re.compile(r"(?!\{).*(?:::|<)")
"""A C++ name; those of layers (``PWN(/relu)``, ``{ForeignNode[a...b]}``) have their meaning in brackets."""

_LONG_WORD_CHARACTERS: Final = 16
"""A word that is longer is cut in a sentence."""
_MIN_SENTENCES_SHARE: Final = 0.4
"""Complete sentences are preferred if they fill at least this part of the width."""

_PREFIX_ONLY_CELLS: Final = 7
"""Up to this width, the beginning of a name is more informative than both ends, except for numbers."""

_NUMBER_WITH_UNIT: Final = re.compile(
    r"(?<![\w.])[0-9][0-9.,]*(?: ?(?:%|(?:[num\u00b5]?s|min|h|[KMGT]?i?B(?:/s)?)\b))?"
)
"""A number in a sentence with its unit."""


ELLIPSIS: Final = "…"
"""Marks a cut."""


def cell_width(text: str) -> int:
    r"""Return the number of terminal cells of a text.

    >>> cell_width("sgemm"), cell_width("行列"), cell_width("e\u0301")
    (5, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


@lru_cache(4096)
def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _longest_prefix(text: str, width: int) -> str:
    """Return the longest prefix of a text that fits into ``width`` cells."""
    if text.isascii():
        return text[:width]
    used = 0
    for index, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:index]
    return text


def clip(text: str, width: int) -> str:
    """Cut a text at the end to a width in cells, with an ellipsis.

    >>> clip("convolution", 6), clip("short", 6)
    ('convo…', 'short')
    """
    if cell_width(text) <= width:
        return text
    if width <= 0:
        return ""
    return _longest_prefix(text, width - 1) + ELLIPSIS


def clip_path(text: str, width: int) -> str:
    """Cut a path at the front to a width in cells; the file name and the text after it stay.

    >>> clip_path("/root/assignment/basics/model.py(31): main", 23), clip_path("/root/model.py(31): attention", 14)
    ('…/model.py(31): main', 'model.py(31):…')
    """
    if cell_width(text) <= width:
        return text
    name = text[text.partition("(")[0].rfind("/") + 1 :]
    if cell_width(name) >= width:
        return clip(name, width)
    end = _longest_prefix(text[::-1], width - 1)[::-1]
    return ELLIPSIS + end[max(0, end.find("/")) :]


def clip_name(text: str, width: int) -> str:
    """Cut a text at the end to a width in cells; the name of an op first loses its namespace.

    >>> clip_name("aten::native_layer_norm", 20), clip_name("aten::native_layer_norm", 16), clip_name("a::b and c", 8)
    ('native_layer_norm', 'native_layer_no…', 'a::b an…')
    """
    if cell_width(text) > width and _PATH.fullmatch(text):
        text = text.rpartition("::")[2]
    return clip(text, width)


def clip_parts(text: str, width: int) -> str:
    """Return the parts of a text, separated by two blanks, that fit; a cut number would be misleading.

    >>> clip_parts("slowest 4: 53 ms  mean 42 ms  888 kernels", 32), clip_parts("iteration 4", 6)
    ('slowest 4: 53 ms  mean 42 ms  …', 'itera…')
    """
    if cell_width(text) <= width:
        return text
    pieces = text.split("  ")
    while len(pieces) > 1 and cell_width("  ".join([*pieces, ELLIPSIS])) > width:
        pieces.pop()
    text = "  ".join([*pieces, ELLIPSIS])
    return text if len(pieces) > 1 or cell_width(text) <= width else clip(pieces[0], width)


def clip_middle(text: str, width: int, *, tail: float = 0.5) -> str:
    """Cut a text in the middle to a width in cells, with an ellipsis; ``tail`` is the share of its end.

    >>> clip_middle("maxwell_scudnn_128x64_relu_small_nn_v1", 17)
    'maxwell_…ll_nn_v1'
    >>> clip_middle("maxwell_scudnn_128x64_relu_small_nn_v1", 17, tail=0.75)
    'maxw…_small_nn_v1'
    """
    if cell_width(text) <= width:
        return text
    if width <= 2:
        return clip(text, width)
    end = _longest_prefix(text[::-1], int((width - 1) * tail))[::-1]
    return _longest_prefix(text, width - 1 - cell_width(end)) + ELLIPSIS + end


def shorten_symbol(name: str, width: int) -> str:
    """Shorten a C++ name to at most ``width`` cells.

    Unchanged if it fits; otherwise one of `symbol_forms`, the last with as many template arguments as fit (they
    distinguish the instances of one kernel); otherwise without them and the outer namespaces; otherwise cut in the
    middle.

    >>> shorten_symbol("void cudnn::detail::dgrad_engine<float, int=128>(int, float const *)", 38)
    'cudnn::detail::dgrad_engine<float, in…'
    >>> shorten_symbol("void cudnn::detail::dgrad_engine<float, int=128>(int, float const *)", 20)
    'detail::dgrad_engine'
    >>> shorten_symbol("backward", 5), shorten_symbol("ProfilerStep#4", 7)
    ('back…', 'Pro…p#4')
    """
    if cell_width(name) <= width:
        return name
    forms = symbol_forms(name)
    for short, arguments in forms:
        if cell_width(short) + cell_width(arguments) <= width:
            return short + arguments
    inner, arguments = forms[-1]
    free_cells = width - cell_width(inner)
    if free_cells >= _MIN_ARGUMENTS_CELLS:
        return inner + clip(arguments, free_cells)
    while cell_width(inner) > width:
        _namespace, separator, rest = inner.partition("::")
        # A lambda or an operator is meaningless without its function.
        if not separator or rest.startswith(("{", "operator")):
            return (
                clip_middle(inner, width)
                if width > _PREFIX_ONLY_CELLS or inner[-1:].isdecimal()
                else clip(inner, width)
            )
        inner = rest
    return inner


@lru_cache(2048)
def symbol_forms(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the short forms of a C++ name before it is cut; each is a pair of name and template arguments.

    The first is without return type and parameters, the second also without uninformative namespaces.

    >>> symbol_forms("void at::native::fill<at::native::Functor<int> >(int)")[1]
    ('fill', '<Functor<int> >')
    """
    short = short_name(name)
    arguments = template_arguments(name, short)
    return (short, arguments), (_BOILERPLATE.sub("", short), _BOILERPLATE.sub("", arguments))


def clip_sentence(text: str, width: int) -> str:
    """Cut a sentence at its end to a width in cells; quoted C++ names are shortened first, each to a quarter.

    Numbers are dropped as a whole, because a cut number would be another number.

    >>> clip_sentence("`at::native::batch_norm_collect_statistics_kernel` launches 16 blocks on 132 SMs.", 44)
    '`batch_nor…s_kernel` launches 16 blocks on …'
    >>> clip_sentence("The GPU waits for 16.25 ms.", 23)
    'The GPU waits for …'
    >>> clip_sentence("`{ForeignNode[a...b]} 7` takes 75% of the time of all layers.", 44)
    '`{ForeignN…...b]} 7` takes 75% of the time …'
    """
    if cell_width(text) <= width:
        return text
    name_width = max(_MIN_QUOTED_CELLS, width // 4) - 2
    short = _QUOTED.sub(lambda quoted: f"`{_shorten_quoted(quoted[1], name_width)}`", text)
    cut = clip(short, width)
    if cut == short:
        return cut
    if cut.count("`") % 2:
        # If the sentence would end within a name, cut that name and close its quotes.
        head = cut.rpartition("`")[0]
        name_width = width - cell_width(head) - 3
        name = _shorten_quoted(text.split("`")[head.count("`") + 1], name_width)
        sentences_end = head.rfind(". ") + 2
        if sentences_end >= width * _MIN_SENTENCES_SHARE:
            return head[:sentences_end] + ELLIPSIS
        return head + (f"`{name}`" if name_width >= _MIN_LAST_NAME_CELLS else "") + ELLIPSIS
    end = len(cut) - 1
    begin = next((match.start() for match in _NUMBER_WITH_UNIT.finditer(short) if match.start() < end < match.end()), 0)
    result = short[:begin] if begin else cut[:-1]
    if not begin and not short[end : end + 1].isspace():
        # Drop a cut word, unless it is long.
        result = result[
            : next(
                (
                    index + 1
                    for index in range(end - 1, end - _LONG_WORD_CHARACTERS, -1)
                    if result[index : index + 1] == " "
                ),
                end,
            )
        ]
    result = result.removesuffix("(")
    # Prefer complete sentences, if they are not much shorter.
    sentences_end = max(result.rfind(". "), result.rfind("; ")) + 2
    return (result[:sentences_end] if sentences_end >= width * _MIN_SENTENCES_SHARE else result) + ELLIPSIS


def _shorten_quoted(name: str, width: int) -> str:
    """Shorten a quoted name in a sentence: a C++ name without its less important parts, others in the middle."""
    return shorten_symbol(name, width) if _SYMBOL.match(name) else clip_middle(name, width)


def template_arguments(name: str, short: str) -> str:
    """Return the template arguments after the short form of a name, with their brackets; empty if there are none.

    >>> template_arguments("void f<float, g<4> >(int)", "f")
    '<float, g<4> >'
    """
    start = name.find(f"{short}<")
    if start < 0:
        return ""
    start += len(short)
    depth = 0
    for end in range(start, len(name)):
        depth += {"<": 1, ">": -1}.get(name[end], 0)
        if depth == 0:
            return name[start : end + 1]
    return name[start:]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad a text with blanks to a width in cells; ``right`` aligns it to the right.

    >>> pad("7", 3, right=True), pad("行", 3)
    ('  7', '行 ')
    """
    blanks = " " * max(0, width - cell_width(text))
    return blanks + text if right else text + blanks


def bar(share: float, width: int) -> str:
    """Return a bar for a share of 0 to 1, in eighths of a cell; not empty for a share above 0.

    >>> bar(0.5, 4), bar(0.0001, 4), bar(0.5, 4)
    ('██', '▏', '██')
    """
    share = min(max(share, 0.0), 1.0)
    if share == 0:
        return ""
    eighths = max(1, round(share * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


_SHADED: Final = str.maketrans(dict.fromkeys("█▌▋▊▉", "▒"))


def shaded(bar_text: str) -> str:
    """Return a bar for a line in reverse video, where a solid bar would look like a gap.

    >>> shaded(bar(0.6, 4)), shaded(bar(0.01, 4))
    ('▒▒▍', '▏')
    """
    return bar_text.translate(_SHADED)


def growth_bar(share: float, width: int) -> tuple[str, str, str]:
    """Return a bar of a change: left of a middle line if it shrank, right if it grew, in halves of a cell.

    Args:
        share: The change as a share of the largest one, from -1 to 1; one other than 0 is never empty.
        width: Cells of the whole.

    Returns:
        The text left of the middle line, the line, and the text right of it.

    >>> growth_bar(-0.5, 9), growth_bar(1, 9), growth_bar(-0.75, 6)
    (('  ██', '│', '    '), ('    ', '│', '████'), ('▐█', '│', '  '))
    """
    side = (width - 1) // 2
    halves = min(max(round(abs(share) * side * 2), 1 if share else 0), side * 2)
    full_cells, half_cells = halves // 2, halves % 2
    if share < 0:
        return pad("▐" * half_cells + "█" * full_cells, side, right=True), "│", " " * side
    return " " * side, "│", pad("█" * full_cells + "▌" * half_cells, side)


def without_prefix(name: str) -> str:
    """Return a name with a common prefix (`PREFIXES`) removed or shortened.

    >>> without_prefix("autograd::engine::evaluate_function: ConvolutionBackward0"), without_prefix("aten::add")
    ('engine: ConvolutionBackward0', 'aten::add')
    """
    for prefix, short in PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return short + without_prefix(name[len(prefix) :])
    return name
