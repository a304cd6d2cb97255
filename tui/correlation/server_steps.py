"""Steps of an inference server, as vLLM and SGLang name them: phase, requests and tokens of the batch."""

from __future__ import annotations

from typing import Final

import polars as pl

from tui.model.aggregation import STEP_PHASES

PREFILL, DECODE, MIXED, CAPTURE = STEP_PHASES

STEP_SCHEMA: Final = pl.Schema(
    {
        "phase": pl.String,
        "requests": pl.Int64,
        "prefill_requests": pl.Int64,
        "decode_requests": pl.Int64,
        "query_tokens": pl.Int64,
        "prefill_tokens": pl.Int64,
        "decode_tokens": pl.Int64,
        "kv_tokens": pl.Int64,
        "captured_batch": pl.Int64,
    }
)
"""What the name of a step tells; null: it does not. ``kv_tokens`` are the keys that the queries attend to, and
``captured_batch`` is what a graph is recorded for."""

_SUMS: Final = r"sq(?P<{0}_sq>[0-9]{{1,15}})sk(?P<{0}_sk>[0-9]{{1,15}})sqsq[0-9]{{1,18}}sqsk[0-9]{{1,18}}"
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
"""Names of steps of servers, also of versions of which only the name is known."""

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
    """What the names of ranges tell of the batch that a server ran, one row a name, in their order.

    Args:
        names: Names; those that are no steps give nulls.

    >>> server_steps(pl.Series(["step[DECODE bs=32]"])).select("phase", "requests", "query_tokens").row(0)
    ('decode', 32, 32)
    """
    name = names.cast(pl.String).rename("name")
    patterns = {
        "detailed": _DETAILED,
        "counted": _COUNTED,
        "cached": _NEW_AND_CACHED,
        "sglang": _SGLANG,
        "capture": _CAPTURE,
    }
    parts = name.to_frame().select(pl.col("name").str.extract_groups(text).alias(key) for key, text in patterns.items())

    def number(of: str, group: str) -> pl.Expr:
        return pl.col(of).struct.field(group).cast(pl.Int64, strict=False)

    def first(group: str, *of: str) -> pl.Expr:
        return pl.coalesce(number(one, group) for one in of)

    mode = pl.col("sglang").struct.field("mode")
    numbers = parts.select(
        first("context", "detailed", "counted", "cached").alias("context"),
        first("generation", "detailed", "counted", "cached").alias("generation"),
        first("context_sq", "detailed", "counted").alias("context_sq"),
        first("generation_sq", "detailed", "counted").alias("generation_sq"),
        (number("detailed", "context_sk") + number("detailed", "generation_sk")).alias("kv_tokens"),
        first("tokens", "detailed", "sglang").alias("tokens"),
        number("sglang", "requests").alias("bs"),
        mode.replace_strict(_SGLANG_PHASES, default=None, return_dtype=pl.String).alias("sglang_phase"),
        (mode == "DECODE").fill_null(False).alias("one_token_each"),
        number("capture", "batch").alias("captured_batch"),
    )
    reads, generates = pl.col("context") > 0, pl.col("generation") > 0
    phase = (
        pl.when(reads & generates)
        .then(pl.lit(MIXED))
        .when(reads)
        .then(pl.lit(PREFILL))
        .when(generates)
        .then(pl.lit(DECODE))
        .when(pl.col("captured_batch").is_not_null())
        .then(pl.lit(CAPTURE))
        .otherwise("sglang_phase")
    )
    decoded = pl.when("one_token_each").then("bs")
    of_mode = {kind: pl.col("sglang_phase") == kind for kind in (PREFILL, DECODE)}
    return numbers.with_columns(phase.alias("phase")).select(
        "phase",
        pl.coalesce(pl.col("context") + pl.col("generation"), "bs").alias("requests"),
        pl.coalesce("context", pl.when(of_mode[PREFILL]).then("bs")).alias("prefill_requests"),
        pl.coalesce("generation", pl.when(of_mode[DECODE]).then("bs")).alias("decode_requests"),
        pl.coalesce(pl.col("context_sq") + pl.col("generation_sq"), "tokens", decoded).alias("query_tokens"),
        pl.coalesce("context_sq", pl.when(of_mode[PREFILL]).then("tokens")).alias("prefill_tokens"),
        pl.coalesce("generation_sq", decoded, pl.when(of_mode[DECODE]).then("tokens")).alias("decode_tokens"),
        "kv_tokens",
        "captured_batch",
    )
