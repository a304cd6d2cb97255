"""Text search in a frame: once per distinct category, never per row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.query.facts import frame_facts
from tui.query.values import QueryError

if TYPE_CHECKING:
    from tui.query.values import Span


TextTest = Callable[[pl.Series], pl.Series]
"""A function from strings to booleans of the same length; null for null."""

_MAX_CONTAINED: Final = 2_000
"""Characters: searching for a long text that repeats itself takes the product of both lengths."""

_FEW_CODES: Final = 8
"""Up to this number of texts, comparing each is faster than a lookup."""

_MAX_FUZZY: Final = 200
"""Characters: each costs a loop of the automaton."""

_CAPITAL_OUTSIDE_ESCAPES: Final = re.compile(r"\\[pP]\{[^}]*\}|\\.|(?P<other>[^\\])", re.DOTALL)
_REGEX_FAULT: Final = re.compile(
    r"regex parse error:\n    (?P<pattern>[^\n]*)\n    (?P<place> *\^+)\nerror: (?P<message>[^\n]*)"
)
_REGEX_MESSAGE: Final = re.compile(r"(?:error|regex error): (?P<message>[^\n]*?)\.?(?:\n|$)")


def is_text(dtype: pl.DataType) -> bool:
    """Return whether a column of this type holds text."""
    return isinstance(dtype, (pl.String, pl.Categorical, pl.Enum))


def smart_case(text: str) -> bool:
    """Return whether a search is case-sensitive: a capital letter makes it so.

    >>> smart_case("gemm"), smart_case("Gemm")
    (False, True)
    """
    return text != text.lower()


def contains(text: str, span: Span) -> TextTest:
    """Return a test for strings that contain the text, in smart case.

    Raises:
        QueryError: The text is too long for that.
    """
    if len(text) > _MAX_CONTAINED:
        message = f"the search text is limited to {_MAX_CONTAINED:,} characters"
        raise QueryError(message, *span, hint='name="..." matches full names of any length')
    if smart_case(text):
        return lambda strings: strings.str.contains(text, literal=True)
    return lambda strings: strings.str.to_lowercase().str.contains(text, literal=True)


def equals(text: str, *, exact: bool) -> TextTest:
    """Return a test for strings equal to the text, in smart case or exactly."""
    if exact or smart_case(text):
        return lambda strings: strings == text
    return lambda strings: strings.str.to_lowercase() == text


def fuzzy(text: str, span: Span) -> TextTest:
    """Return a test for strings with the characters of the text in this order, in smart case.

    Raises:
        QueryError: The text is too long for that.
    """
    if len(text) > _MAX_FUZZY:
        raise QueryError(f"~ is limited to {_MAX_FUZZY} characters", *span)
    flags = "(?s)" if smart_case(text) else "(?si)"
    pattern = flags + ".*?".join(pl.escape_regex(character) for character in text)
    return lambda strings: strings.str.contains(pattern)


def regex(pattern: str, span: Span) -> TextTest:
    """Return a test for strings that match a Rust regular expression, in smart case.

    Raises:
        QueryError: It is not a valid one; with the position.
    """
    # Only literal capitals count: \W, \S or \p{Lu} do not make the search case-sensitive.
    letters = "".join(match["other"] or "" for match in _CAPITAL_OUTSIDE_ESCAPES.finditer(pattern))
    full_pattern = pattern if smart_case(letters) else f"(?i){pattern}"
    # First as typed, for the position of an error; the case-insensitive pattern may be too large even so.
    for tried in (pattern, full_pattern):
        try:
            pl.Series([], dtype=pl.String).str.contains(tried)
        except pl.exceptions.ComputeError as error:
            raise _regex_error(str(error), span) from None
    return lambda strings: strings.str.contains(full_pattern)


def _regex_error(text: str, span: Span) -> QueryError:
    start, end = span
    fault = _REGEX_FAULT.search(text)
    if fault:
        position = start + len(fault["place"]) - fault["place"].count("^")
        start, end = min(position, max(end - 1, start)), min(position + fault["place"].count("^"), end)
        return QueryError(f"regex: {fault['message']}", start, end)
    messages = [match["message"] for match in _REGEX_MESSAGE.finditer(text)]
    message = next((message for message in reversed(messages) if "parse error" not in message), "invalid")
    return QueryError(f"regex: {message[:1].lower()}{message[1:]}", start, end)


class TextRows:
    """A frame that is being searched."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        self._facts = frame_facts(frame)

    def all(self, value: bool) -> pl.Series:
        """Return the same answer for every row."""
        return pl.Series(np.full(self.frame.height, value))

    def texts(self, column: str, test: TextTest) -> pl.Series:
        """Return which rows pass the test in this column; nulls do not."""
        return self.texts_anywhere((column,), test)

    def texts_anywhere(self, columns: Sequence[str], test: TextTest) -> pl.Series:
        """Return which rows pass the test in any of these columns."""
        masks = [hits for column in columns if (hits := self._hits(column, test)) is not None]
        return reduce(or_, masks) if masks else self.all(False)

    def _hits(self, column: str, test: TextTest) -> pl.Series | None:
        """Return which rows pass; None if none does."""
        texts, coded = self._facts[column].texts, self._facts[column].coded
        if texts is None or coded is None:
            return test(self.frame[column].cast(pl.String)).fill_null(False)
        codes, categories = texts
        hits = test(categories).to_numpy()
        if not hits.any():
            return None
        if hits.all():
            return coded.is_not_null()
        values = coded.to_physical()
        if np.count_nonzero(hits) <= _FEW_CODES:
            passing: pl.Series = reduce(or_, (values == code for code in codes.to_numpy()[hits]))
            return passing.fill_null(False)
        by_code = np.zeros(int(codes.to_numpy().max()) + 1, dtype=np.bool_)
        by_code[codes.to_numpy()] = hits
        return pl.Series(by_code).gather(values.cast(pl.UInt32)).fill_null(False)
