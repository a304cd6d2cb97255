r"""Numbers that stand in texts, read the same way everywhere.

A digit is one of 0 to 9. The ``\d`` of a regular expression also means the digits of other scripts (``٢``, ``２``),
which Polars cannot cast, so patterns use ``[0-9]``. A number that its type cannot hold is null, as one that is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import polars as pl

_WHOLE: Final = re.compile(r"[0-9]{1,18}")

Texts = TypeVar("Texts", "pl.Expr", "pl.Series")


def whole_number(text: str) -> int | None:
    """The whole number that a text is; None where it is none, or has more digits than any number here.

    >>> whole_number("120"), whole_number("٢"), whole_number("-1"), whole_number("9" * 5_000)
    (120, None, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def number_in(texts: Texts, pattern: str, group: int = 1, dtype: type[pl.DataType] | None = None) -> Texts:
    r"""The number that a group of a pattern finds in each text; null where there is none, or none that fits.

    Args:
        texts: A column of texts.
        pattern: A regular expression.
        group: The group that holds the number.
        dtype: The type of the result; by default Int64.

    >>> import polars as pl
    >>> number_in(pl.Series(["GPU 2", "GPU ٢", "GPU 99999999999999999999", "CPU"]), "GPU ([0-9]+)").to_list()
    [2, None, None, None]
    """
    # Numbers that a person types are read before Polars is there.
    from polars import Int64

    return texts.str.extract(pattern, group).cast(dtype or Int64, strict=False)
