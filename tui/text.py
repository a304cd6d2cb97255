r"""Filters text of a profile before it reaches a terminal, and parses numbers in texts.

Names and messages in a profile come from the profiled program: they may hold terminal escapes, line ends or characters
that reverse the direction of writing. `plain` replaces those by a visible mark.

A digit is one of 0 to 9. In regular expressions ``\d`` also matches digits of other scripts (``٢``, ``２``), which
Polars cannot cast, so patterns use ``[0-9]``. A number out of range of its type is null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from tui.text_width import cell_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt
    import polars as pl

MARK: Final = "·"
"""Replaces a character that must not reach a terminal."""

_CONTROL: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: removes all escape sequences
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, bidi, line separators
    "\ud800-\udfff"  # lone surrogates, which no terminal encoding can write
    "\U000e0000-\U000e007f"  # tags
    "]"
)

ASCII_SIGNS: Final = {
    **{MARK: ".", "µ": "u", "×": "x", "…": "~", "→": ">", "–": "-", "←": "<", "↑": "^", "↓": "v", "⌫": "<"},
    **{"▼": "v", "▾": "v", "▸": ">", "•": "*", "≥": ">", "≤": "<", "±": "~", "−": "-", "—": "-"},
    # Distinct fills of bars.
    **dict(zip("█▓▞▒▦▩▨▤▧▚░▥", "#%k+su@dfc.n", strict=True)),
    # Bars that end within a cell.
    **dict.fromkeys("▏▎▍▕", "|"),
    **dict.fromkeys("▌▋▊▉▐▛▜▙▟▗▖▝▘", "#"),
    **dict(zip("▁▂▃▄▅▆▇▔▀", "__--oo#-#", strict=True)),
    # The timeline.
    **dict(zip("◦○●›»►‹«◄◇◆□■▵▲≈▫▪", '"O@}]>{[<:XzZ`^%cC', strict=True)),
    # Frames and rulers.
    **dict.fromkeys("─╌┄┈", "-"),
    **dict.fromkeys("═━╸╺", "="),
    **dict.fromkeys("╍┅┉", "~"),
    **dict.fromkeys("│┃║╎╏┆┊╵╷", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛╴╶", "+"),
}
"""Characters that the program draws, and their ASCII replacements of the same width."""
_TO_ASCII: Final = str.maketrans(ASCII_SIGNS)


def to_ascii(text: str) -> str:
    """Convert a text to ASCII with the same width in cells; unknown characters become ``?``.

    >>> to_ascii("12 µs · 行")
    '12 us . ??'
    """
    translated = text.translate(_TO_ASCII)
    if translated.isascii():
        return translated
    return "".join(sign if sign.isascii() else "?" * cell_width(sign) for sign in translated)


def plain(text: str) -> str:
    r"""Replace every control, invisible and direction character of a text by ``·``.

    The result is one line, has as many characters as the input, and holds no control character.

    Args:
        text: Any text of a profile.

    >>> plain("a\x1b[31mred\tb")
    'a·[31mred·b'
    """
    return text if text.isprintable() else _CONTROL.sub(MARK, text)


def printable(text: str) -> str:
    r"""Replace control characters as `plain` does, except line ends, tabs and styles.

    The last filter of printed output. Text of a profile must go through `plain` before, because here its styles
    cannot be distinguished from those of the program.

    >>> printable("\x1b[1ma\x1b[0m\n\x1b]52;c;x\x07\tb")
    '\x1b[1ma\x1b[0m\n·]52;c;x·\tb'
    """
    return _NOT_LAYOUT.sub(MARK, text)


_NOT_LAYOUT: Final = re.compile(r"(?!\x1b\[[0-9;]{0,40}m)(?![\n\t])" + _CONTROL.pattern)
"""A character that `plain` replaces, except line ends, tabs and the beginning of a style."""


_WHOLE: Final = re.compile(r"[0-9]{1,18}")

Texts = TypeVar("Texts", "pl.Expr", "pl.Series")


_NAMES: Final = frozenset(("nvprof", "nsys", "ncu", "dlprof", "rocprof", "unitrace"))
"""Names that stay in lower case at the beginning of a sentence."""


def begin_sentence(text: str) -> str:
    """Return a text with a capital first letter, unless it begins with the name of a command or function.

    >>> begin_sentence("no iterations: record with nvprof"), begin_sentence("nvprof cut names"), begin_sentence("")
    ('No iterations: record with nvprof', 'nvprof cut names', '')
    """
    first = text.partition(" ")[0].rstrip(":,…")
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() and first not in _NAMES else text


def whole_number(text: str) -> int | None:
    """Parse a text as an integer; None if it is invalid or too long.

    >>> whole_number("120"), whole_number("٢"), whole_number("-1"), whole_number("9" * 5_000)
    (120, None, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def number_in(texts: Texts, pattern: str, group: int = 1, dtype: type[pl.DataType] | None = None) -> Texts:
    r"""Return the number in a group of a pattern for each text; null if it is missing or out of range.

    Args:
        texts: A column of texts.
        pattern: A regular expression.
        group: The group that holds the number.
        dtype: The type of the result; by default Int64.

    >>> import polars as pl
    >>> number_in(pl.Series(["GPU 2", "GPU ٢", "GPU 99999999999999999999", "CPU"]), "GPU ([0-9]+)").to_list()
    [2, None, None, None]
    """
    # Imported here because the command line parses numbers before Polars is imported.
    from polars import Int64

    return texts.str.extract(pattern, group).cast(dtype or Int64, strict=False)


def plural(number: float, singular: str, plural_form: str = "") -> str:
    """Format a number of things.

    >>> plural(1, "copy", "copies"), plural(1678, "gap")
    ('1 copy', '1,678 gaps')
    """
    return f"{number:,.0f} {singular if number == 1 else plural_form or singular + 's'}"


def short_list(names: Sequence[str], most: int = 12) -> str:
    """Return names separated by commas: at most ``most``, and the number of the others.

    >>> short_list(["a", "b"]), short_list(["a", "b", "c"], 1)
    ('a, b', 'a and 2 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


_MAX_CATEGORIES_PER_ROW: Final = 8
"""Above this ratio, a lookup table with an entry per category would be mostly empty."""


def map_distinct(
    values: pl.Series, function: Callable[[str], str | int | bool | None], dtype: pl.DataType
) -> pl.Series:
    """Apply a function to each distinct text of a column; null stays null."""
    import polars as pl

    def apply(texts: pl.Series) -> pl.Series:
        string_dtype = pl.String() if isinstance(dtype, pl.Categorical) else dtype
        return pl.Series([function(text) for text in texts], dtype=string_dtype).cast(dtype)

    return map_distinct_texts(values, apply, dtype)


def map_distinct_texts(values: pl.Series, function: Callable[[pl.Series], pl.Series], dtype: pl.DataType) -> pl.Series:
    """Return the results of a function for the texts of a column; null stays null.

    Args:
        values: Texts, as strings or categories.
        function: Maps the distinct texts, a column of strings without null, to one result each.
        dtype: The type of the results.
    """
    import polars as pl

    if values.null_count() == len(values):
        return pl.repeat(None, len(values), dtype=dtype, eager=True).alias(values.name)
    if not isinstance(values.dtype, pl.Categorical):
        distinct = values.unique().drop_nulls()
        return values.replace_strict(distinct, function(distinct), default=None, return_dtype=dtype)
    distinct, indices = distinct_categories(values)
    results = function(distinct.cast(pl.String))
    if len(results) == 1 and not values.null_count():
        return pl.repeat(results[0], len(values), dtype=dtype, eager=True).alias(values.name)
    return results.extend_constant(None, 1).gather(pl.Series(indices)).alias(values.name)


def matching(values: pl.Series, pattern: str) -> pl.Series:
    """Return which texts of a column match a regular expression; null does not match."""
    from polars import Boolean

    return map_distinct_texts(values, lambda texts: texts.str.contains(pattern), Boolean()).fill_null(False)


def distinct_categories(values: pl.Series) -> tuple[pl.Series, npt.NDArray[np.uint32]]:
    """Return the distinct categories of a column, and the index of each row's category; null has the one after them.

    The codes are looked up in an array, which takes less time and memory than a join.

    Args:
        values: A categorical column.
    """
    import numpy as np
    import polars as pl

    if values.null_count() == len(values):
        return values.head(0), np.zeros(len(values), np.uint32)
    codes = values.to_physical()
    null_code = int(codes.max()) + 1  # type: ignore[arg-type]
    if codes.min() == null_code - 1 and not values.null_count():
        return values.head(1), np.zeros(len(values), np.uint32)
    filled_codes = codes.fill_null(null_code).to_numpy()
    if null_code > _MAX_CATEGORIES_PER_ROW * len(values):
        used_codes, rows, indices = np.unique(filled_codes, return_index=True, return_inverse=True)
        return values.gather(pl.Series(rows[used_codes < null_code])), indices.astype(np.uint32)
    row_of_code = np.full(null_code + 1, len(values), np.uint32)
    row_of_code[filled_codes] = np.arange(len(values), dtype=np.uint32)
    used_codes = np.flatnonzero(row_of_code < len(values))
    index_of_code = np.zeros(null_code + 1, np.uint32)
    index_of_code[used_codes] = np.arange(len(used_codes))
    rows_of_used = row_of_code[used_codes[used_codes < null_code]]
    return values.gather(pl.Series(rows_of_used)), index_of_code[filled_codes]
