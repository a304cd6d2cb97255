"""Finds the ranges that mark the iterations of a training or inference loop, and parses the steps of servers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from tui.correlation.plausible_times import is_plausible_duration
from tui.model.aggregation import STEP_PHASES
from tui.text import map_distinct

PREFILL, DECODE, MIXED, CAPTURE = STEP_PHASES

_SUMS: Final = (
    r"sq(?P<{0}_sq>[0-9]{{1,15}})sk(?P<{0}_sk>[0-9]{{1,15}})"
    r"sqsq(?P<{0}_sqsq>[0-9]{{1,18}})sqsk(?P<{0}_sqsk>[0-9]{{1,18}})"
)
_DETAILED: Final = (
    r"^execute_(?P<tokens>[0-9]{1,12})_context_(?P<context>[0-9]{1,9})\("
    + _SUMS.format("context")
    + r"\)_generation_(?P<generation>[0-9]{1,9})\("
    + _SUMS.format("generation")
    + r"\)"
)
_COUNTED: Final = (
    r"^execute_context_(?P<context>[0-9]{1,9})\((?P<context_sq>[0-9]{1,12})\)"
    r"_generation_(?P<generation>[0-9]{1,9})\((?P<generation_sq>[0-9]{1,12})\)"
)
_NEW_AND_CACHED: Final = r"^execute_new_(?P<context>[0-9]{1,9})_cached_(?P<generation>[0-9]{1,9})"
_SGLANG: Final = (
    r"^step\[(?P<mode>[A-Z_]{1,40})(?: bs=(?P<requests>[0-9]{1,9}))?(?: toks=(?P<tokens>[0-9]{1,12}))?[^\]]*\]"
)
_CAPTURE: Final = r"^capture_(?P<batch>[0-9]{1,9})_(?P<mode>[A-Z_]{1,40})"

SERVER_STEP: Final = r"^execute_(?:[0-9]+_)?(?:context|new)_[0-9]|^step\[[A-Z_]+|^capture_[0-9]+_[A-Z]"
"""Names of steps of servers, including versions whose details are not parsed."""

_SGLANG_PHASES: Final = {
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
    "DRAFT_EXTEND": DECODE,
    "EXTEND": PREFILL,
    "PREFILL": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "MIXED": MIXED,
}


def server_steps(names: pl.Series) -> pl.DataFrame:
    """Return the batch of each step of an inference server, from the names of its ranges.

    Args:
        names: Names of ranges; other ranges give nulls.

    Returns:
        One row per name: phase, requests, prefill_requests, decode_requests, query_tokens, prefill_tokens,
        decode_tokens, kv_tokens (keys that the queries attend to) and captured_batch (batch of a recorded graph).

    >>> server_steps(pl.Series(["step[DECODE bs=32]"])).select("phase", "requests", "query_tokens").row(0)
    ('decode', 32, 32)
    """
    numbers = _numbers_in_names(names)
    has_context, has_generation = pl.col("context") > 0, pl.col("generation") > 0
    phase = (
        pl.when(has_context & has_generation)
        .then(pl.lit(MIXED))
        .when(has_context)
        .then(pl.lit(PREFILL))
        .when(has_generation)
        .then(pl.lit(DECODE))
        .when(pl.col("captured_batch").is_not_null())
        .then(pl.lit(CAPTURE))
        .otherwise("sglang_phase")
    )
    decoded = pl.when("one_token_each").then("bs")
    is_phase = {kind: pl.col("sglang_phase") == kind for kind in (PREFILL, DECODE)}
    return numbers.with_columns(phase.alias("phase")).select(
        "phase",
        pl.coalesce(pl.col("context") + pl.col("generation"), "bs").alias("requests"),
        pl.coalesce("context", pl.when(is_phase[PREFILL]).then("bs")).alias("prefill_requests"),
        pl.coalesce("generation", pl.when(is_phase[DECODE]).then("bs")).alias("decode_requests"),
        pl.coalesce(pl.col("context_sq") + pl.col("generation_sq"), "tokens", decoded).alias("query_tokens"),
        pl.coalesce("context_sq", pl.when(is_phase[PREFILL]).then("tokens")).alias("prefill_tokens"),
        pl.coalesce("generation_sq", decoded, pl.when(is_phase[DECODE]).then("tokens")).alias("decode_tokens"),
        "kv_tokens",
        "captured_batch",
    )


def _numbers_in_names(names: pl.Series) -> pl.DataFrame:
    """Return the numbers and the phase in the names of steps of any server; null where a name has none."""
    name = names.cast(pl.String).rename("name")
    patterns_by_name = {
        "detailed": _DETAILED,
        "counted": _COUNTED,
        "cached": _NEW_AND_CACHED,
        "sglang": _SGLANG,
        "capture": _CAPTURE,
    }
    parts = name.to_frame().select(
        pl.col("name").str.extract_groups(text).alias(key) for key, text in patterns_by_name.items()
    )

    def number(pattern: str, group: str) -> pl.Expr:
        return pl.col(pattern).struct.field(group).cast(pl.Int64, strict=False)

    def first_known(group: str, *patterns: str) -> pl.Expr:
        return pl.coalesce(number(pattern, group) for pattern in patterns)

    mode = pl.col("sglang").struct.field("mode")
    return parts.select(
        first_known("context", "detailed", "counted", "cached").alias("context"),
        first_known("generation", "detailed", "counted", "cached").alias("generation"),
        first_known("context_sq", "detailed", "counted").alias("context_sq"),
        first_known("generation_sq", "detailed", "counted").alias("generation_sq"),
        (number("detailed", "context_sk") + number("detailed", "generation_sk")).alias("kv_tokens"),
        first_known("tokens", "detailed", "sglang").alias("tokens"),
        number("sglang", "requests").alias("bs"),
        mode.replace_strict(_SGLANG_PHASES, default=None, return_dtype=pl.String).alias("sglang_phase"),
        (mode == "DECODE").fill_null(False).alias("one_token_each"),
        number("capture", "batch").alias("captured_batch"),
    )


@dataclass(frozen=True, slots=True)
class AttentionSums:
    """Sums over the requests of a server's step that determine the cost of attention."""

    prefill_squares: int
    """Query tokens squared, over requests in prefill."""
    prefill_products: int
    """Query tokens times key tokens, over requests in prefill."""
    decode_products: int
    """Query tokens times key tokens, over requests in decode."""
    kv_tokens: int
    """Key tokens of all requests."""


def attention_sums(name: str) -> AttentionSums | None:
    """Return the sums in the annotation of a step; None if there are none.

    >>> attention_sums("execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk70sqsq2sqsk70)").kv_tokens
    70
    """
    match = re.match(_DETAILED, name)
    if match is None:
        return None
    numbers = {key: int(text) for key, text in match.groupdict().items()}
    return AttentionSums(
        numbers["context_sqsq"],
        numbers["context_sqsk"],
        numbers["generation_sqsk"],
        numbers["context_sk"] + numbers["generation_sk"],
    )


_PREFERENCE: Final = (
    re.compile(r"^ProfilerStep##$"),
    re.compile(r"step|iter", re.IGNORECASE),
    re.compile(r"batch", re.IGNORECASE),
    re.compile(r"epoch", re.IGNORECASE),
)
"""Patterns of names, digits written as ``#``, by confidence."""

_NOT_A_STEP: Final = re.compile(r"nccl|optimizer|zero_grad|dataloader|scheduler|memcpy", re.IGNORECASE)
"""Ranges of parts of iterations, although their names may contain ``step`` (``Optimizer.step#SGD.step``)."""

_SERVER_FAMILY: Final = "server step"
"""The family of server steps. Their names hold numbers of requests and tokens, so they are numbered by position."""

_SERVER_RANK: Final = -1
"""Before all other families."""

_MIN_COVERED: Final = 0.5
"""The ranges of a family cover at least this share of the time from the first to the last."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The ranges that mark iterations."""

    ranges: pl.DataFrame
    """The ranges, with ``iteration`` for those that mark one."""
    source: str | None
    """The source of the iterations as text; None if there are none."""


def mark_steps(ranges: pl.DataFrame, *, kind: str = "NVTX range") -> Steps:
    """Find the family of ranges that marks iterations, and number them.

    A family is the ranges of one thread whose names differ only in their numbers. It marks iterations if its ranges do
    not overlap, there are two or more (one is enough for PyTorch's own ``ProfilerStep#``), and its name contains step,
    iteration, batch or epoch. All steps of an inference server are one family; if annotated, they mark the iterations,
    even a single one, and regardless of the time between them. The number of an iteration is the number in the name if
    it increases from each to the next; otherwise iterations count from 0.

    Args:
        ranges: Of one session, columns of the model.
        kind: The kind of range, for `Steps.source`.
    """
    no_steps = Steps(ranges.with_columns(pl.lit(None, pl.Int32).alias("iteration")), None)
    if ranges.is_empty():
        return no_steps
    rows = _rows_of_families(ranges)
    families = _families_of_steps(rows)
    if families.is_empty():
        return no_steps
    family = families.row(0, named=True)
    chosen = rows.filter(
        pl.col("family") == family["family"],
        pl.col("pid").eq_missing(pl.lit(family["pid"], pl.Int64)),
        pl.col("tid").eq_missing(pl.lit(family["tid"], pl.Int64)),
    )
    numbers = pl.repeat(None, ranges.height, dtype=pl.Int32, eager=True)
    numbers = numbers.scatter(chosen["row"], _numbers(chosen["text"], family["family"]))
    marked = ranges.with_columns(numbers.alias("iteration"))
    name = family["family"].rstrip("# ") or family["family"]
    if family["rank"] == _SERVER_RANK:
        return Steps(marked, "step annotations of the server")
    return Steps(marked, "PyTorch's ProfilerStep" if family["rank"] == 0 else f"{kind} {name}")


def _rows_of_families(ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges whose names may be those of steps, by start: their row, text, family and its rank, and more."""
    names = ranges["name"].unique().drop_nulls().cast(pl.String)
    families = names.str.replace_all(r"[0-9]+", "#")
    families = families.zip_with(~names.str.contains(SERVER_STEP), pl.Series([_SERVER_FAMILY]))
    ranks = map_distinct(families, _rank, pl.Int64())
    table = pl.DataFrame({"text": names, "family": families, "rank": ranks}).drop_nulls("rank")
    return (
        ranges.lazy()
        .select("name", "start_ns", "duration_ns", "pid", "tid")
        .with_row_index("row")
        .filter(
            pl.col("name").is_in(table["text"].cast(ranges["name"].dtype).implode()),
            pl.col("start_ns").is_not_null(),
            is_plausible_duration(),
        )
        .collect()
        .with_columns(pl.col("name").cast(pl.String).alias("text"))
        .join(table, on="text", maintain_order="left")
        .sort("start_ns", maintain_order=True)
    )


def _families_of_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the families of one thread that can mark iterations, the best first; ``rows`` as `_rows_of_families`."""
    return (
        rows.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .group_by("family", "rank", "pid", "tid", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            (pl.col("start_ns") < pl.col("end_ns").shift(1)).any().alias("overlap"),
            pl.col("duration_ns").sum().alias("covered"),
            (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("span"),
        )
        .filter(
            ~pl.col("overlap").fill_null(False),
            (pl.col("count") >= 2) | (pl.col("rank") <= 0),
            (pl.col("covered") >= _MIN_COVERED * pl.col("span")) | (pl.col("rank") == _SERVER_RANK),
        )
        .sort("rank", "covered", descending=[False, True], maintain_order=True)
    )


def _rank(family: str) -> int | None:
    """Return the rank of a family, the best one lowest; None if it marks no iterations."""
    if family == _SERVER_FAMILY:
        return _SERVER_RANK
    if _NOT_A_STEP.search(family):
        return None
    return next((rank for rank, pattern in enumerate(_PREFERENCE) if pattern.search(family)), None)


def _numbers(names: pl.Series, family: str) -> pl.Series:
    """Return the first number in the ordered names that increases with each; otherwise their positions."""
    parts = names.str.extract_all(r"[0-9]+")
    min_count = 0 if family == _SERVER_FAMILY else min(parts.list.len().to_list(), default=0)
    for position in range(min_count):
        numbers = parts.list.get(position).cast(pl.Int32, strict=False)
        if numbers.null_count() == 0 and (numbers.diff().drop_nulls() > 0).all():
            return numbers
    return pl.Series(range(len(names)), dtype=pl.Int32)
