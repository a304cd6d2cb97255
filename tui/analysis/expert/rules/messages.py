"""Messages between GPUs: their sizes and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links
from tui.analysis.expert.figures import total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.rules.communication import NONE, communicates, communication_of
from tui.analysis.expert.words import behind, called, counted, named, ranked
from tui.analysis.gpu_time.communication import WorkKind, work_kinds
from tui.analysis.gpu_time.interval_sets import union_of
from tui.fmt import percent, rate, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

_BYTES: Final = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "float64": 8,
    "long": 8, "int64": 8, "byte": 1, "char": 1, "int8": 1, "uint8": 1, "bool": 1, "short": 2, "int16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "complexfloat": 8,
}  # fmt: skip
"""Bytes of an element, by PyTorch's names of types."""
LEAST_EACH: Final = 5
"""Collectives beside computing and alone that are needed to compare their rates."""


def messages(case: Case) -> pl.DataFrame:
    """Collectives of which the input tells the size: activity, name, device, start_ns, duration_ns, bytes, line."""
    rows = case.profile["activities"].filter(pl.col("arguments").is_not_null())
    told = rows["arguments"].unique().cast(pl.String)
    parsed = pl.DataFrame({"text": told}).with_columns(
        pl.col("text").str.extract(r"In msg nelems: (\d{1,15})").cast(pl.Int64).alias("elements"),
        pl.col("text").str.extract(r"Dtype: (\w+)").str.to_lowercase()
        .replace_strict(_BYTES, default=None, return_dtype=pl.Int64).alias("of_bytes"),
    )  # fmt: skip
    sized = parsed.with_columns((pl.col("elements") * pl.col("of_bytes")).alias("bytes")).drop_nulls("bytes")
    return (
        rows.with_columns(pl.col("arguments").cast(pl.String).alias("text"))
        .join(sized.select("text", "bytes"), on="text", how="inner", maintain_order="left")
        .filter(pl.col("bytes") > 0, pl.col("duration_ns") > 0)
        .select("activity", "name", "device", "start_ns", "duration_ns", "bytes", "line")
    )


def message_sizes(case: Case) -> str:
    """Sizes of messages, where anything communicates."""
    missing = communicates(case)
    if missing or communication_of(case).is_empty():
        return missing
    return "" if messages(case).height else "the input does not tell the sizes of messages"


@rule("C8", "tiny-messages", Family.COMMUNICATION, message_sizes, severity=Severity.INFO, link=links.ADVISOR)
def tiny_messages(case: Case) -> Verdict:
    """Collectives move little at a time."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    rows = messages(case)
    small = rows.filter(pl.col("bytes") < case.limit("C8", "message_bytes"))
    share = 100 * small.height / rows.height
    numbers = {"small": small.height, "messages": rows.height, "small_pct": share}
    if share <= case.limit("C8", "messages_pct"):
        return Clean(f"{percent(share)} of {counted(rows.height, 'message is', 'messages are')} small", numbers)
    by_name = small.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("messages"),
        pl.col("bytes").mean().alias("mean_bytes"),
        pl.col("duration_ns").sum(),
    )
    by_name = ranked(by_name, "messages")
    return Found(
        f"{small.height:,} of {counted(rows.height, 'collective moves', 'collectives move')} less than "
        f"{size(int(case.limit('C8', 'message_bytes')))}, most of them {called(by_name['name'][0])} with "
        f"{size(int(by_name['mean_bytes'][0]))} on average.",
        "Larger buckets (bucket_cap_mb of DDP), gradient accumulation, or a coarser sharding.",
        numbers,
        total(small["duration_ns"]),
        "all of these collectives, waits for other ranks included",
        *behind(by_name),
    )


@rule("C9", "contention", Family.COMMUNICATION, message_sizes, severity=Severity.INFO, link=links.ADVISOR)
def contention(case: Case) -> Verdict:
    """Communication is slower beside computing."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    parts = []
    for line in case.lines:
        computes = line.of(work_kinds(case.profile)) == WorkKind.COMPUTE
        compute = union_of(line.starts[computes], line.ends[computes])
        rows = messages(case).filter(pl.col("device").eq_missing(pl.lit(line.device, pl.Int32))).drop_nulls("start_ns")
        start = rows["start_ns"].to_numpy()
        beside = compute.within(start, start + rows["duration_ns"].to_numpy())
        parts.append(rows.with_columns(pl.Series("beside", 2 * beside > rows["duration_ns"].to_numpy(), pl.Boolean)))
    rows = pl.concat(parts)
    of_both = (
        rows.group_by("name", "bytes")
        .agg(
            pl.col("duration_ns").filter("beside").median().alias("beside_ns"),
            pl.col("duration_ns").filter(~pl.col("beside")).median().alias("alone_ns"),
            pl.col("beside").sum().alias("beside"),
            (~pl.col("beside")).sum().alias("alone"),
        )
        .filter(pl.col("beside") >= LEAST_EACH, pl.col("alone") >= LEAST_EACH)
        .with_columns((100 * pl.col("alone_ns") / pl.col("beside_ns")).alias("rate_pct"))
        .sort("rate_pct", "bytes")
    )
    if of_both.is_empty():
        return CannotTell("no message of one size was often enough beside computing and alone")
    worst = of_both.row(0, named=True)
    numbers = {"rate_pct": worst["rate_pct"], "bytes": worst["bytes"]}
    if worst["rate_pct"] >= case.limit("C9", "rate_pct"):
        reached = percent(min(worst["rate_pct"], 100.0))
        return Clean(f"beside computing, messages reach {reached} of their rate alone", numbers)
    alone = 1e9 * worst["bytes"] / worst["alone_ns"]
    return Found(
        f"{called(worst['name'])} of {size(worst['bytes'])} reaches {rate(alone * worst['rate_pct'] / 100)} beside "
        f"computing and {rate(alone)} alone.",
        "Compare the step's time with and without overlap; fewer channels (NCCL_MAX_CTAS) leave more for computing.",
        numbers,
        int((worst["beside_ns"] - worst["alone_ns"]) * worst["beside"]),
        "what these messages take longer than alone, waits for other ranks included",
        of_both,
        "kernels",
        named([worst["name"]]),
    )
