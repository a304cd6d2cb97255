"""Labels in a limited width, shortened so that different names stay distinguishable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, takewhile
from typing import Final

from tui.model.names import short_name
from tui.text_width import (
    ELLIPSIS,
    cell_width,
    clip,
    clip_name,
    clip_path,
    clip_sentence,
    shorten_symbol,
    symbol_forms,
    template_arguments,
    without_prefix,
)

_WORD: Final = re.compile(r"[A-Za-z_]\w*|[0-9]+")
_SHAPES: Final = re.compile(r"\[\[[0-9, \[\]]*\]\]")
_SHAPE: Final = re.compile(r"\[([0-9]+(?:, [0-9]+)*)\]")
_BREAKS: Final = "_:<, /."
_UNINFORMATIVE: Final = frozenset(
    {"anonymous", "at", "bool", "c10", "const", "false", "lambda", "namespace", "native", "operator", "std", "true"}
)
MIN_PREFIX_CELLS: Final = 6
"""Cells of the common beginning before the part that distinguishes names."""
WORD_PREFIX_CELLS: Final = 5
"""Cells of the beginning before an earlier word that distinguishes names."""
MIN_CELLS_FOR_TWO_WORDS: Final = 25
"""The minimum number of cells for two words."""
MAX_ROUNDS: Final = 2
"""The maximum number of rounds in which equal labels are compared again."""
MAX_COMPARED_NAMES: Final = 512
"""The most distinct names that are compared; more are cut independently."""
MAX_COMPARED_CHARACTERS: Final = 4_096
"""Characters; longer names are not compared, to bound the time."""


class Cutter:
    """Cuts the texts of a column to a width so that different names stay distinguishable.

    Args:
        names: Returns all distinct texts of the column, without control characters; called when the first one is too
            long. More than `MAX_COMPARED_NAMES` are cut independently.
        are_symbols: Whether they are C++ names.
        are_sentences: Whether they are sentences with quoted names.
        are_paths: Whether they are paths, which are cut at the front.
    """

    def __init__(
        self,
        names: Callable[[], Sequence[str]] = tuple,
        *,
        are_symbols: bool = False,
        are_sentences: bool = False,
        are_paths: bool = False,
    ) -> None:
        self._names = names
        self._are_symbols = are_symbols
        self._shorten = (
            shorten_symbol if are_symbols else clip_sentence if are_sentences else clip_path if are_paths else clip
        )
        self._labels: dict[int, Mapping[str, str]] = {}

    def cut(self, text: str, width: int) -> str:
        """Return one of the texts in at most ``width`` cells."""
        if cell_width(text) <= width:
            return text
        text = without_prefix(text)
        if cell_width(text) <= width:
            return text
        if width not in self._labels:
            make_labels, names = distinct_symbols if self._are_symbols else distinct_labels, self._names()
            compared = (
                [without_prefix(name) for name in names if len(name) <= MAX_COMPARED_CHARACTERS]
                if len(names) <= MAX_COMPARED_NAMES
                else []
            )
            self._labels[width] = make_labels(compared, width)
        label = self._labels[width].get(text)
        if label is not None:
            return label
        return self._shorten(text, width)


def compact_shapes(text: str) -> str:
    """Return the shapes of the inputs of an op without brackets; other texts are unchanged.

    >>> compact_shapes("[[8, 512, 1024], [1024], []]"), compact_shapes("[[[4, 8], [4, 8]], []]"), compact_shapes("[x]")
    ('8x512x1024, 1024, []', '[4x8, 4x8], []', '[x]')
    """
    if not _SHAPES.fullmatch(text):
        return text
    return _SHAPE.sub(lambda shape: shape[1].replace(", ", "x"), text[1:-1])


def distinct_labels(texts: Sequence[str], width: int) -> Mapping[str, str]:
    """Cut texts to a width so that they stay distinct.

    >>> list(distinct_labels(["convolution backward data", "convolution backward filter", "gemm"], 20).values())
    ['convolution bac…data', 'convolution b…filter', 'gemm']
    >>> list(distinct_labels(["aten::native_layer_norm", "aten::native_layer_norm_backward", "aten::add"], 24).values())
    ['aten::native_layer_norm', 'native_layer_norm_backw…', 'aten::add']
    >>> list(distinct_labels(["aten::allreduce_in", "c10d::allreduce_in"], 14).values())
    ['aten::allredu…', 'c10d::allredu…']
    >>> list(distinct_labels(["model.layers.10.attention.query", "model.layers.10.attention.key"], 24).values())
    ['model.layers.10.at…query', 'model.layers.10.atte…key']
    """
    # A name in two namespaces needs them.
    inner = Counter(text.rpartition("::")[2] for text in set(texts))

    def shorten(text: str) -> str:
        if cell_width(text) > width:
            text = without_prefix(text)
        cut = clip_name if inner[text.rpartition("::")[2]] == 1 else clip
        return cut(text, width)

    return _distinct({text: shorten(text) for text in texts}, width, str)


def distinct_symbols(names: Sequence[str], width: int) -> Mapping[str, str]:
    """Shorten C++ names so that they stay distinct: instances of a template differ by their arguments.

    This applies to every width that is too small for a name, so a larger width never shows less.

    >>> kernels = ["void f_kernel<8, at::AddFunctor<float> >(int)", "void f_kernel<8, at::MulFunctor<float> >(int)"]
    >>> list(distinct_symbols(kernels, 16).values()), distinct_symbols(kernels[:1], 16)[kernels[0]]
    (['f_ke…<AddFunct…>', 'f_ke…<MulFunct…>'], 'f_kernel<8, at:…')
    """
    labels = {name: shorten_symbol(name, width) for name in names}
    fitting = {name for name in names if any(cell_width("".join(form)) <= width for form in symbol_forms(name))}
    for group in _equal_labels({name: symbol_forms(name)[0][0] for name in names}):
        if not fitting.issuperset(group):
            short_labels = _labels_by_difference(group, width, short_name)
            labels |= {name: label for name, label in short_labels.items() if name not in fitting}
    return _distinct(labels, width, short_name)


def _distinct(labels: dict[str, str], width: int, get_name: Callable[[str], str]) -> dict[str, str]:
    for group in _equal_labels(labels):
        labels |= _labels_by_difference(group, width, get_name)
    for _ in range(MAX_ROUNDS):
        for group in _equal_labels(labels):
            labels |= _labels_by_earlier_word(group, labels[group[0]], width, get_name)
    return labels


def _equal_labels(labels: Mapping[str, str]) -> list[list[str]]:
    """Return groups of texts with the same label."""
    groups: dict[str, list[str]] = {}
    for text, label in labels.items():
        groups.setdefault(label, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _labels_by_difference(group: Sequence[str], width: int, get_name: Callable[[str], str]) -> dict[str, str]:
    """Return labels that show where the texts differ; those that are still equal are compared again."""
    names = {text: get_name(text) for text in group}
    inner = {text: name.rpartition("::")[2] or name for text, name in names.items()}
    if len(set(inner.values())) > 1:
        start = _common_start(list(inner.values()))
        labels = {text: _cut_from(name, start, width) for text, name in inner.items()}
    else:
        # Without the return type, which precedes the name.
        arguments = {text: text.partition(names[text])[2] for text in group}
        if len(set(arguments.values())) == 1:
            # The arguments of mangled names are shown only if nothing else differs.
            arguments = {text: text for text in group}
        words = _distinguishing_words(arguments)
        labels = {text: _with_words(inner[text], words[text], width) for text in group}
        are_all_equal, differing = len(set(labels.values())) == 1, {}
        if are_all_equal and len(set(words.values())) == 1:
            differing = _differing_arguments(names)
        if differing:
            # The same words in another order.
            labels = {text: _with_words(inner[text], differing[text], width) for text in group}
        elif are_all_equal:
            # Long words that differ at their ends are shown from the first difference.
            words = words if len(set(words.values())) > 1 else arguments
            start = _word_start(words[group[0]], _common_start(list(words.values())))
            suffixes = {text: f"{ELLIPSIS}{words[text][start:]}" for text in group}
            labels = {text: _with_words(inner[text], suffixes[text], width) for text in group}
    for equal in _equal_labels(labels):
        if len(equal) < len(group):
            labels |= _labels_by_difference(equal, width, get_name)
    return labels


def _labels_by_earlier_word(
    group: Sequence[str], label: str, width: int, get_name: Callable[[str], str]
) -> dict[str, str]:
    """Return labels of texts with equal labels that differ in an earlier word too.

    >>> ways, tiles = ("fprop", "dgrad"), ("tile64x32_warpgroup", "tile32x64_warpgroup")
    >>> kernels = [f"sm90_xmma_{way}_implicit_gemm_{tile}_kernel" for way in ways for tile in tiles]
    >>> list(distinct_labels(kernels, 28).values())[:2]
    ['sm90…fprop…tile64x32_warpgr…', 'sm90…fprop…tile32x64_warpgr…']
    """
    tail = label.partition(ELLIPSIS)[2]
    inner = {text: get_name(text).rpartition("::")[2] or get_name(text) for text in group}
    start = _word_start(inner[group[0]], _common_start(list(inner.values())))
    if not tail:
        # So far only the earlier word distinguishes them.
        return {text: _cut_from(name, start, width) for text, name in inner.items()}
    words = {text: re.split(f"[{_BREAKS}]", name[start:], maxsplit=1)[0] for text, name in inner.items()}
    if width < MIN_CELLS_FOR_TWO_WORDS or len(set(words.values())) == 1:
        return {}
    head = clip(inner[group[0]][:start], WORD_PREFIX_CELLS).removesuffix(ELLIPSIS)
    labels = {
        text: f"{head}{ELLIPSIS}{clip(word, width // 3)}{ELLIPSIS}{tail}".replace(ELLIPSIS * 2, ELLIPSIS)
        for text, word in words.items()
    }
    return {text: clip(label, width) for text, label in labels.items()}


def _common_start(texts: Sequence[str]) -> int:
    """Return the length of the common prefix of all texts."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False)))


def _word_start(text: str, position: int) -> int:
    """Return the beginning of the word at a position."""
    while position > 0 and text[position - 1] not in _BREAKS:
        position -= 1
    return position


def _cut_from(text: str, start: int, width: int) -> str:
    """Cut a text so that the part from ``start`` is visible, and as much before it as fits."""
    if cell_width(text) <= width:
        return text
    start = _word_start(text, start)
    suffix = text[start:]
    if start + min(cell_width(suffix), width // 3) + len(ELLIPSIS) <= width:
        return clip(text, width)
    prefix_width = min(
        max(MIN_PREFIX_CELLS, width - len(ELLIPSIS) - cell_width(suffix)), max(0, width - len(ELLIPSIS) - 1)
    )
    prefix = clip(text, prefix_width + 1)[:-1]
    return f"{prefix}{ELLIPSIS}{clip(suffix, width - prefix_width - len(ELLIPSIS))}"


def _distinguishing_words(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return for each text the words that not all texts have, the most distinctive first."""
    words = {text: list(dict.fromkeys(_WORD.findall(part))) for text, part in arguments.items()}
    common = set.intersection(*(set(own_words) for own_words in words.values())) | _UNINFORMATIVE
    return {
        text: ", ".join(sorted((word for word in own_words if word not in common), key=str.isdecimal))
        for text, own_words in words.items()
    }


def _differing_arguments(names: Mapping[str, str]) -> dict[str, str]:
    """Return the template arguments of each instance that differ from others at the same position.

    Args:
        names: The short form of each name.

    >>> _differing_arguments({"void f<4, int, long>(int)": "f", "void f<4, long, int>(int)": "f"})
    {'void f<4, int, long>(int)': 'int, long', 'void f<4, long, int>(int)': 'long, int'}
    """
    arguments = {text: _split(template_arguments(text, name)[1:-1]) for text, name in names.items()}
    if len({len(values) for values in arguments.values()}) > 1:
        return {}
    differ = [len(set(values)) > 1 for values in zip(*arguments.values(), strict=True)]
    differing = {text: ", ".join(compress(values, differ)) for text, values in arguments.items()}
    return differing if any(differ) else {}


def _split(arguments: str) -> list[str]:
    """Split template arguments.

    >>> _split("4, g<int, 2>, long")
    ['4', 'g<int, 2>', 'long']
    """
    parts, depth = [""], 0
    for character in arguments:
        depth += {"<": 1, ">": -1, "(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _with_words(name: str, words: str, width: int) -> str:
    """Return a name with distinguishing words in brackets; the name is shortened first, to a third of the width."""
    if not words:
        return clip(name, width)
    head = clip(name, max(width - cell_width(words) - 2, width // 3))
    words_width = width - cell_width(head) - 2
    return f"{head}<{clip(words, words_width)}>" if words_width > 1 else head
