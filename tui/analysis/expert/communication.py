"""Communication between GPUs: how much there is, whether it is hidden, and which rank the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.figures import real, total, whole
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.transfers import TRACELENS
from tui.analysis.expert.utilisation import ADVISOR, HTA, ROOT_CAUSES, TENSORBOARD
from tui.analysis.expert.words import called, counted, named
from tui.fmt import duration, percent, rate, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

COMMUNICATION: Final = Family.COMMUNICATION
NONE: Final = "no kernels of NCCL, RCCL or NVSHMEM ran"

_BYTES: Final = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "float64": 8,
    "long": 8, "int64": 8, "byte": 1, "char": 1, "int8": 1, "uint8": 1, "bool": 1, "short": 2, "int16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "complexfloat": 8,
}  # fmt: skip
"""Bytes of an element, by PyTorch's names of types."""
LEAST_EACH: Final = 5
"""Collectives beside computing and alone that are needed to compare their rates."""


def communication_of(case: Case) -> pl.DataFrame:
    """Kernels of communication by name, longest first."""
    return case.kernels.filter(pl.col("op_type") == "communication")


def communicates(case: Case) -> str:
    """Kernels of communication with their times."""
    return needs.start_times(case)


def _shown(case: Case) -> tuple[pl.DataFrame, str, str]:
    rows = communication_of(case)
    return (
        rows.select("name", "calls", "total_ns", "line").head(10),
        "kernels",
        named(rows["name"].head(10).to_list()),
    )


@rule("C1", "comm-share", COMMUNICATION, needs.gpu_work, needs.kernels, link=TENSORBOARD)
def much_communication(case: Case) -> Verdict:
    """Communication takes much of the time."""
    rows = communication_of(case)
    if rows.is_empty():
        return Clean(NONE)
    if case.span_ns:
        taken, of_what = sum(gpu.communication.length for gpu in case.gpus), "span"
        share = case.of_span(taken)
    else:
        taken, of_what = total(rows["total_ns"]), "GPU time"
        share = case.share(taken)
    numbers = {"comm_ns": taken, "comm_pct": share}
    if share <= case.limit("C1", "comm_pct"):
        return Clean(f"communication takes {percent(share)} of the {of_what}", numbers)
    return Found(
        f"Communication takes {duration(taken)}, {percent(share)} of the {of_what}; most of it "
        f"{called(rows['name'][0])}.",
        "Communicate less often (gradient accumulation, larger batches) or less (compression, half precision).",
        numbers,
        taken,
        "all communication; part of it may be hidden by kernels already (C2)",
        *_shown(case),
    )


@rule("C2", "exposed-comm", COMMUNICATION, communicates, link=TRACELENS)
def exposed_communication(case: Case) -> Verdict:
    """Communication that no kernel hides."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    taken = sum(gpu.communication.length for gpu in case.gpus)
    exposed = sum((gpu.communication - gpu.compute).length for gpu in case.gpus)
    share, overlap = case.of_span(exposed), 100 * (taken - exposed) / taken if taken else 0.0
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "overlap_pct": overlap}
    if share <= case.limit("C2", "exposed_pct") or overlap >= case.limit("C2", "overlap_pct"):
        return Clean(
            f"kernels hide {percent(overlap)} of the communication; the rest takes {percent(share)} of the span",
                     numbers)  # fmt: skip
    return Found(
        f"Communication runs alone for {duration(exposed)}, {percent(share)} of the span: kernels hide "
        f"{percent(overlap)} of "
        "it.",
        "Begin it while the backward pass still computes (DDP buckets, their size), in a stream of its own.",
        numbers,
        exposed,
        "all of the time in which only communication ran",
        *_shown(case),
    )


@rule("C3", "comm-stream", COMMUNICATION, communicates, needs.streams, link=ROOT_CAUSES)
def communication_on_compute_stream(case: Case) -> Verdict:
    """Communication shares a stream with kernels that compute."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    mixed = (
        case.timed.filter(pl.col("is_kernel"))
        .group_by("device", "stream")
        .agg(pl.col("is_communication").sum().alias("communication"), pl.len().alias("kernels"))
        .filter(pl.col("communication") > 0, pl.col("communication") < pl.col("kernels"))
        .sort("communication", descending=True)
    )
    numbers = {"streams": mixed.height}
    if mixed.is_empty():
        return Clean("communication has streams of its own", numbers)
    if not case.found("C2"):
        return Clean("communication shares a stream with kernels, and is not exposed", numbers)
    return Found(
        f"Stream {mixed['stream'][0]} holds {mixed['communication'][0]:,} kernels of communication among "
        f"{mixed['kernels'][0]:,}: they cannot overlap.",
        "Put communication into a stream of its own.",
        numbers,
        None,
        "counted by C2",
        mixed,
        "kernels",
        _shown(case)[2],
    )


@rule("C4", "comm-ratio", COMMUNICATION, communicates, severity=Severity.INFO, link=ROOT_CAUSES)
def computing_per_communication(case: Case) -> Verdict:
    """There is little computing for each communication."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    talking = sum(gpu.communication.length for gpu in case.gpus)
    computing = sum(gpu.compute.length for gpu in case.gpus)
    if not talking:
        return CannotTell("the kernels of communication took no time")
    ratio = computing / talking
    numbers = {"ratio": ratio, "compute_ns": computing, "comm_ns": talking}
    if ratio >= case.limit("C4", "ratio"):
        return Clean(f"computing takes {ratio:.1f} times as long as communication", numbers)
    return Found(
        f"Computing takes {duration(computing)}, communication {duration(talking)}: {ratio:.2f} times as long.",
        "Give each GPU more to compute: larger batches, less tensor parallelism, fewer GPUs.",
        numbers,
        None,
        "counted by C2",
        *_shown(case),
        severity=Severity.WARNING if ratio < case.limit("C4", "critical") else None,
    )


# --- several ranks ----------------------------------------------------------------------------------------------------


def several_ranks(case: Case) -> str:
    """At least two sessions that communicate."""
    if len(_ranks(case)) < 2:
        return "needs the recordings of two ranks or more: open them together"
    return ""


def _ranks(case: Case) -> dict[int, pl.DataFrame]:
    """The kernels of communication of each session that has any, in order of start."""
    rows = case.profile["activities"].select(
        "session", "device", "name", "start_ns", "duration_ns", "iteration", "arguments"
    )
    names = case.profile["activities"]["name"].unique().drop_nulls()
    talking = names.filter(names.cast(pl.String).str.contains("(?i)nccl|rccl|nvshmem"))
    found = rows.filter(pl.col("name").is_in(talking.implode())).drop_nulls(["start_ns", "duration_ns"])
    parts = found.sort("session", "start_ns").partition_by("session", maintain_order=True)
    return {part["session"][0]: part for part in parts}


def _label(case: Case, session: int) -> str:
    row = case.profile["sessions"].filter(pl.col("session") == session).row(0, named=True)
    if row["rank"] is not None:
        return f"rank {row['rank']}"
    return f"session {session}" + (f" (pid {row['pid']})" if row["pid"] is not None else "")


def matched(case: Case) -> pl.DataFrame:
    """Collectives that every rank took part in: iteration, place, and for each session how long it was in it.

    The n-th collective of an iteration on one rank is the n-th on all others; iterations in which their numbers differ
    are left out. Columns: iteration, place, session, duration_ns, shortest_ns, longest_ns (over the ranks).
    """
    ranks = _ranks(case)
    rows = pl.concat(list(ranks.values())).drop_nulls("iteration")
    placed = rows.with_columns(pl.int_range(pl.len()).over("session", "iteration").alias("place"))
    counts = placed.group_by("session", "iteration").len()
    same = (
        counts.group_by("iteration")
        .agg(pl.col("len").n_unique().alias("kinds"), pl.len().alias("ranks"))
        .filter(pl.col("kinds") == 1, pl.col("ranks") == len(ranks))
    )
    by = ("iteration", "place")
    return (
        placed.join(same.select("iteration"), on="iteration", how="semi")
        .with_columns(
            pl.col("duration_ns").min().over(by).alias("shortest_ns"),
            pl.col("duration_ns").max().over(by).alias("longest_ns"),
        )
        .sort("iteration", "place", "session")
        .select(*by, "session", "duration_ns", "shortest_ns", "longest_ns")
    )


@rule("C5", "straggler", COMMUNICATION, several_ranks, link=HTA, across=True)
def straggler(case: Case) -> Verdict:
    """The ranks wait for one of them."""
    rows = matched(case)
    if rows.is_empty():
        return CannotTell("no iteration has the same collectives on all ranks: iterations have to be recorded")
    mean = _mean_iteration_ns(case)
    long = rows.filter(pl.col("longest_ns") > case.limit("C5", "last_pct") / 100 * mean)
    if long.is_empty():
        return Clean("no collective takes long")
    # A collective ends on all ranks together: who is in it for the shortest time came last.
    waits = long.with_columns((pl.col("duration_ns") - pl.col("shortest_ns")).alias("wait_ns"))
    by_step = (
        waits.group_by("iteration", "session").agg(pl.col("wait_ns").sum()).sort("iteration", "wait_ns", "session")
    )
    last = by_step.group_by("iteration", maintain_order=True).agg(pl.col("session").first(), pl.col("wait_ns").last())
    often = (
        last.group_by("session").agg(pl.len().alias("times"), pl.col("wait_ns").sum()).sort("times", descending=True)
    )
    first, steps = often.row(0, named=True), last.height
    share = 100 * first["times"] / steps
    numbers = {"session": first["session"], "times": first["times"], "iterations": steps, "wait_ns": first["wait_ns"]}
    who = _label(case, first["session"])
    if first["times"] < case.limit("C5", "times") or share < case.limit("C5", "share_pct"):
        return Clean(
            f"no rank is last again and again; {who} is in {first['times']} of {counted(steps, 'iteration')}",
                     numbers)  # fmt: skip
    return Found(
        f"{who[0].upper()}{who[1:]} comes last to collectives in {first['times']} of {counted(steps, 'iteration')}: "
        f"the "
        f"others wait for it, up to {duration(first['wait_ns'])} in all.",
        "Look at what this rank does longer: its input, its share of the data, other work on its host, its clocks.",
        numbers,
        first["wait_ns"],
        "what the rank that waits longest is in these collectives above the shortest time",
        often.select(pl.col("session"), "times", "wait_ns"),
        "kernels",
        "nccl | rccl | nvshmem",
    )


def _mean_iteration_ns(case: Case) -> float:
    return real(case.iterations["duration_ns"].mean())


@rule("C7", "rank-spread", COMMUNICATION, several_ranks, link=ADVISOR, across=True)
def rank_spread(case: Case) -> Verdict:
    """The ranks have unequal work."""
    ranks = tuple(_ranks(case))
    rows = []
    parts = {part["session"][0]: part for part in case.sessions_timed if part.height}
    for session in ranks:
        gpus = case.gpus_of(parts[session])
        span = max(int(gpu.busy.ends[-1]) for gpu in gpus) - min(int(gpu.busy.starts[0]) for gpu in gpus)
        compute = sum(gpu.compute.length for gpu in gpus)
        exposed = sum((gpu.communication - gpu.compute).length for gpu in gpus)
        busy = sum(gpu.busy.length for gpu in gpus)
        rows.append((session, compute, exposed, span * len(gpus) - busy, span))
    table = pl.DataFrame(rows, schema=["session", "compute_ns", "exposed_ns", "idle_ns", "span_ns"], orient="row")
    computing = table["compute_ns"]
    if not computing.sum():
        return CannotTell("no rank computes")
    spread = 100 * (whole(computing.max()) - whole(computing.min())) / real(computing.mean())
    numbers = {"spread_pct": spread, "ranks": table.height}
    if spread <= case.limit("C7", "spread_pct"):
        return Clean(f"ranks compute for times that differ by {percent(spread)}", numbers)
    ordered = table.sort("compute_ns", descending=True)
    most, least = ordered.row(0, named=True), ordered.row(-1, named=True)
    return Found(
        f"Ranks compute for different times ({percent(spread)} of the mean): {_label(case, most['session'])} for "
        f"{duration(most['compute_ns'])}, {_label(case, least['session'])} for {duration(least['compute_ns'])}.",
        "Divide batches, experts or stages by the time they take; the recordings have to cover the same iterations.",
        numbers,
        int(most["compute_ns"] - real(computing.mean())),
        "what the rank with most work computes above the mean",
        ordered,
        "gpus",
    )


# --- messages ---------------------------------------------------------------------------------------------------------


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
    missing = needs.start_times(case)
    if missing or communication_of(case).is_empty():
        return missing
    return "" if messages(case).height else "the input does not tell the sizes of messages"


@rule("C8", "tiny-messages", COMMUNICATION, message_sizes, severity=Severity.INFO, link=ADVISOR)
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
    by = small.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("messages"), pl.col("bytes").mean().alias("mean_bytes"),
        pl.col("duration_ns").sum(),
    ).sort("messages", descending=True)  # fmt: skip
    return Found(
        f"{small.height:,} of {counted(rows.height, 'collective moves', 'collectives move')} less than "
        f"{size(int(case.limit('C8', 'message_bytes')))}, most of them {called(by['name'][0])} with "
        f"{size(int(by['mean_bytes'][0]))} on average.",
        "Larger buckets (bucket_cap_mb of DDP), gradient accumulation, or a coarser sharding.",
        numbers,
        total(small["duration_ns"]),
        "all of these collectives, waits for other ranks included",
        by,
        "kernels",
        named(by["name"].to_list()),
    )


@rule("C9", "contention", COMMUNICATION, message_sizes, severity=Severity.INFO, link=ADVISOR)
def contention(case: Case) -> Verdict:
    """Communication is slower beside computing."""
    if communication_of(case).is_empty():
        return Clean(NONE)
    parts = []
    for gpu in case.gpus:
        rows = messages(case).filter(pl.col("device").eq_missing(pl.lit(gpu.device, pl.Int32))).drop_nulls("start_ns")
        start = rows["start_ns"].to_numpy()
        beside = gpu.compute.within(start, start + rows["duration_ns"].to_numpy())
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
        return Clean(f"beside computing, messages reach {percent(min(worst['rate_pct'], 100.0))} of their rate alone",
                     numbers)  # fmt: skip
    alone = 1e9 * worst["bytes"] / worst["alone_ns"]
    return Found(
        f"{called(worst['name'])} of {size(worst['bytes'])} reaches {rate(alone * worst['rate_pct'] / 100)} beside "
        f"computing and {rate(alone)} alone.",
        "Compare the step's time with and without overlap; fewer channels (NCCL_MAX_CTAS) leave more for computing.",
        numbers,
        int((worst["beside_ns"] - worst["alone_ns"]) * worst["beside"]),
        "what these messages take longer than alone",
        of_both,
        "kernels",
        named([worst["name"]]),
    )


@rule("C6", "data-parallel", COMMUNICATION, needs.gpu_work, needs.ops_or_ranges, link=TENSORBOARD)
def data_parallel(case: Case) -> Verdict:
    """Several GPUs are used in a slow way."""
    names = pl.concat(
        [case.profile[frame]["name"].cast(pl.String).unique() for frame in ("ops", "ranges")]
    ).drop_nulls()
    plain = names.filter(names.str.contains(r"(?:^|[^\w])DataParallel\b")).len()
    distributed = names.filter(names.str.contains("DistributedDataParallel")).len()
    devices = case.profile["activities"]["device"].n_unique()
    talks = communication_of(case).height
    numbers = {"gpus": devices}
    if plain and devices > 1:
        return Found(
            f"DataParallel drives {devices} GPUs from one process.",
            "Use DistributedDataParallel with NCCL: one process for each GPU.",
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DataParallel",
        )
    if distributed and not talks and (case.about["world_size"] or 1) > 1:
        return Found(
            "DistributedDataParallel runs without a kernel of NCCL: gradients go another way.",
            'Initialize with backend="nccl".',
            numbers,
            None,
            "not estimated",
            view="ops-and-kernels",
            filter="DistributedDataParallel",
        )
    return Clean("DistributedDataParallel with NCCL" if distributed else "no DataParallel", numbers)
