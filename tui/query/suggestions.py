"""Suggestions for misspelled names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: str, there: Iterable[str]) -> str:
    """What was perhaps meant, as a question; empty where nothing is like it.

    >>> did_you_mean("kernals", ["api-calls", "kernels"]), did_you_mean("frobnicate", ["kernels"])
    ('did you mean kernels?', '')
    """
    known = {one.lower(): one for one in there}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    begins = [one for one in known if len(name) > 2 and one.startswith(name.lower())]
    meant = [known[one] for one in (*close, *begins)]
    return f"did you mean {meant[0]}?" if meant else ""
