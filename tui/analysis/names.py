"""C++ names cut down to what tells them apart."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tui.model.schema import NAME

LIMIT: Final = 4096
"""Longer names are cut before they are taken apart."""

_QUALIFIERS: Final = re.compile(r"^(?:(?:static|inline|__global__|void)\s+)+")


def short_name(name: str) -> str:
    """A kernel name without return type, template arguments, parameters and namespaces.

    Names in brackets (``[CUDA memset]``) and mangled names stay as they are.

    >>> short_name("void cudnn::detail::dgrad_engine<float, int=128>(int, float const *)")
    'dgrad_engine'
    >>> short_name("[CUDA memcpy HtoD]")
    '[CUDA memcpy HtoD]'
    >>> short_name("void at::native::(anonymous namespace)::softmax<a<b>, c>(int)")
    'softmax'
    """
    if name.startswith("["):
        return name
    text = _QUALIFIERS.sub("", name[:LIMIT].strip())
    kept: list[str] = []
    depth = 0
    for character in text.replace("(anonymous namespace)::", "").replace("<unnamed>::", ""):
        if character in "<(":
            if character == "(" and depth == 0:
                break
            depth += 1
        elif character in ">)":
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(character)
    # A return type that is itself a template leaves a blank in front of the name.
    bare = "".join(kept).strip().rsplit("::", 1)[-1].rsplit(" ", 1)[-1]
    return bare or name


def short_names(names: pl.Series) -> pl.DataFrame:
    """For each distinct name its short form: columns ``name`` and ``short_name``."""
    distinct = names.unique().drop_nulls()
    texts = distinct.cast(pl.String).to_list()
    return pl.DataFrame(
        {"name": distinct, "short_name": pl.Series([short_name(text) for text in texts], dtype=pl.String)},
        schema={"name": names.dtype, "short_name": NAME},
    )
