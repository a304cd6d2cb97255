"""What the CPU did: calls into CUDA, and annotations around them."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.loaders.linking.launches import nest, parents
from tui.model.schema import NAME, RANGES

LAUNCH: Final = "[kernel launch]"
"""A call that launched a kernel: the trace gives it the name of the kernel."""

_NAMED_CALL: Final = r"^(?:cu|cuda|hip)[A-Z]\w*"
_NAMED_WORK: Final = r"^Mem[a-z]+\w*"


def with_parents(host: pl.DataFrame) -> pl.DataFrame:
    """Number the events of the CPU (``row``) and add ``parent``, the row of the event around each, and ``depth``."""
    nesting = nest(host)
    return host.with_row_index("row").with_columns(
        parents(nesting).alias("parent"), pl.Series("depth", nesting.depth, pl.Int32)
    )


def is_call() -> pl.Expr:
    """Whether an event is a call into CUDA or HIP: it has a correlation, or such a name."""
    name = pl.col("name").cast(pl.String)
    return (pl.col("correlation").is_not_null() | name.str.contains(_NAMED_CALL)).fill_null(False)


def calls_of(host: pl.DataFrame) -> pl.DataFrame:
    """API calls, with columns of the model. The number of the graph that a call launched is not part of its name.

    Copies and memsets are called by what they do (``MemcpyD2D``), and whether the call was asynchronous stands beside
    the name: it is put into it, as it is in names of CUDA's own.
    """
    name = pl.col("name").cast(pl.String)
    details = pl.coalesce("memcpy_details", "memset_details").cast(pl.String)
    is_async = details.str.contains(r"\basync:1\b").fill_null(False)
    work = name.str.extract(f"({_NAMED_WORK})", 1) + pl.when(is_async).then(pl.lit("Async")).otherwise(pl.lit(""))
    plain = pl.coalesce(name.str.extract(f"({_NAMED_CALL})", 1), work)
    return host.filter(is_call()).select(
        plain.fill_null(LAUNCH).cast(NAME).alias("name"), "start_ns", "duration_ns", "pid", "tid", "correlation", "line"
    )


def ranges_of(host: pl.DataFrame) -> pl.DataFrame:
    """Annotations of the program and of the runtime, with columns of the model."""
    return host.filter(~is_call()).select(
        "name",
        pl.lit(None, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        pl.col("pid"),
        pl.col("tid"),
        "depth",
        pl.lit(None, RANGES["iteration"]).alias("iteration"),
        "line",
        "step",
    )
