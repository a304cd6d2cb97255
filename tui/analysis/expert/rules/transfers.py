"""Copies and unified memory: their time, their sizes, and whether kernels overlap with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis import needs as data_needs
from tui.analysis.capabilities import missing_data_text
from tui.analysis.expert import rule_needs as needs
from tui.analysis.expert.finding_text import (
    NSIGHT,
    RATELPROF,
    ROOT_CAUSES,
    TRACELENS,
    VISUAL_PROFILER,
    duration,
    evidence_by_name,
    float_or_zero,
    known_sum,
    label,
    name_filter,
    percent,
    rate,
    size,
    sort_by_largest,
    totals_by_name,
)
from tui.analysis.expert.rule import Clean, Family, Found, NotApplicable, Severity, Verdict, rule
from tui.analysis.expert.rules.one_time_costs import as_start_up
from tui.analysis.gpu_time.interval_sets import row_intervals
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.needs import Tool
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.analysis.expert.case import Case


DEVICE_COPIES: Final = r"(?i)[DPA]to[DPA]|device.*device|peer"
"""Names of copies within or between devices."""
PEER_COPIES: Final = r"(?i)PtoP|peer"
"""Names of copies between devices."""


def _overlap(case: Case) -> str:
    """Return how to overlap copies with kernels, without what the program already does."""
    pinned = "" if case.in_use.pinned_memory else " from pinned memory"
    if not case.is_torch:
        return f"Copy the next part of the data{pinned} in a stream of its own while kernels work on this one."
    return f"Copy the next batch{pinned} in a stream of its own (non_blocking=True) while this one computes."


def _shorter_ns(case: Case, one: str, other: str) -> int:
    """Return the time in which two kinds of work could overlap: the shorter one on each GPU, of all GPUs together."""
    return known_sum(overlap(case.profile).select(pl.min_horizontal(one, other)).to_series())


@rule("T1", "memcpy-dominates", Family.TRANSFERS, needs.copies_recorded, link=VISUAL_PROFILER)
def copies_dominate(case: Case) -> Verdict:
    """Copies take much of the GPU time."""
    copies = copies_by_name(case)
    copying, kernels = case.kind_time_ns("memcpy"), case.kernel_ns
    share = case.share(copying)
    ratio = kernels / copying if copying else None
    numbers = {"copy_ns": copying, "kernel_ns": kernels, "copy_pct": share, "kernel_per_copy": ratio}
    if not copying:
        return Clean("there are no copies", numbers)
    if not kernels and not case.is_table_cut:
        return NotApplicable("no kernels are recorded to compare the copies with")
    # A printed table can omit kernels, but not the share of copies.
    many_kernels = ratio is None or case.is_table_cut or ratio >= case.limit("T1", "kernel_per_copy")
    if share <= case.limit("T1", "copy_pct") and many_kernels:
        return Clean(f"copies take {percent(share)} of GPU time", numbers)
    first = copies.row(0, named=True)
    share_text = f"Copies take {percent(share)} of GPU time"
    if copies.height > 1:
        share_alone = percent(case.share(first["total_ns"]))
        share_text += f", {label(first['name'])} alone {share_alone}" if share_alone != percent(share) else ""
        share_text += f", nearly all {label(first['name'])}" if share_alone == percent(share) else ""
    if first["calls"]:
        share_text += f": {plural(first['calls'], 'copy', 'copies')} of {duration(first['total_ns'] / first['calls'])}"
        share_text += " on average" if first["calls"] > 1 else ""
    finding = Found(
        f"{share_text}.",
        _copy_less(case, first),
        numbers,
        copying,
        "all copy time; some copies are unavoidable",
        *_all_copies(case),
        is_summed_over_gpus=True,
    )
    return as_start_up(case, finding, case.copies)


def _copy_less(case: Case, first: Mapping[str, Any]) -> str:
    """Return advice about copies that take much time: small ones are too many, large ones are slow."""
    if re.search(DEVICE_COPIES, str(first["name"])):
        return _copy_less_between(case, str(first["name"]))
    pinned = "" if case.in_use.pinned_memory else " from pinned memory"
    if first["calls"] and first["total_ns"] / first["calls"] < case.limit("T1", "short_ns"):
        return f"Keep data on the device. Use fewer, larger copies{pinned}."
    return f"Keep data on the device. Copy{pinned} in chunks; overlap each copy with kernels on another chunk."


def copies_by_name(case: Case) -> pl.DataFrame:
    """Return copies by name, longest first."""
    return case.work.filter(pl.col("kind") == "memcpy")


def _all_copies(case: Case) -> tuple[pl.DataFrame, str, str]:
    """Return evidence, view and filter of findings about all copies."""
    return copies_by_name(case).select("name", "calls", "total_ns", "line"), "kernels", "kind=memcpy"


@rule("T2", "exposed-memcpy", Family.TRANSFERS, needs.timed_copies, link=TRACELENS)
def exposed_copies(case: Case) -> Verdict:
    """Exposed copies: no kernel overlaps with them."""
    if not case.kernel_ns:
        return NotApplicable("no kernels are recorded")
    exposed, copying = case.overlap_ns("exposed_copy_ns"), case.overlap_ns("copies_ns")
    share, hidden = case.wall_pct(exposed), 100 - 100 * exposed / copying if copying else 0.0
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "copy_ns": copying}
    if share <= case.limit("T2", "exposed_pct"):
        return Clean(f"exposed copies take {percent(share)} of the {case.wall_words}", numbers)
    finding = Found(
        f"Exposed copies take {duration(exposed)} ({percent(share)} of the {case.wall_words}). "
        + (f"Kernels hide {percent(hidden)} of all copy time." if hidden else "No kernel overlaps with them."),
        _overlap(case),
        numbers,
        exposed,
        "all of the time in which only copies ran",
        *_all_copies(case),
        is_summed_over_gpus=True,
    )
    return as_start_up(case, finding, case.copies)


@rule("T3", "no-copy-overlap", Family.TRANSFERS, needs.timed_copies, link=VISUAL_PROFILER)
def no_overlap(case: Case) -> Verdict:
    """Copies and kernels hardly overlap."""
    hidden_ns, copying = case.overlap_ns("copies_hidden_ns"), case.overlap_ns("copies_ns")
    possible_ns = _shorter_ns(case, "copies_ns", "kernels_ns")
    share, copying_pct = (100 * hidden_ns / possible_ns if possible_ns else 0.0), case.wall_pct(copying)
    numbers = {"overlap_pct": share, "overlap_ns": hidden_ns, "copy_pct": copying_pct}
    if copying_pct <= case.limit("T3", "copy_pct"):
        return Clean(f"copies take {percent(copying_pct)} of the {case.wall_words}", numbers)
    if not possible_ns:
        return Clean("no kernels that copies could overlap with", numbers)
    if share >= case.limit("T3", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    finding = Found(
        f"Copies take {percent(copying_pct)} of the {case.wall_words} and overlap with kernels for "
        f"{duration(hidden_ns)}, "
        f"{percent(share)} of what could overlap.",
        _overlap(case),
        numbers,
        possible_ns - hidden_ns,
        "what could overlap and does not",
        *_all_copies(case),
        is_summed_over_gpus=True,
    )
    return as_start_up(case, finding, case.copies)


@rule(
    "T4",
    "no-two-way-copies",
    Family.TRANSFERS,
    needs.timed_copies,
    needs.copy_directions,
    severity=Severity.INFO,
    link=VISUAL_PROFILER,
)
def no_two_way_copies(case: Case) -> Verdict:
    """Copies to and from the device do not overlap."""
    upload_ns, download_ns, two_way_ns = (
        case.overlap_ns(name) for name in ("to_device_ns", "from_device_ns", "both_ways_ns")
    )
    numbers = {"overlap_ns": two_way_ns, "up_pct": case.wall_pct(upload_ns), "down_pct": case.wall_pct(download_ns)}
    min_pct = case.limit("T4", "copy_pct")
    if case.wall_pct(upload_ns) <= min_pct or case.wall_pct(download_ns) <= min_pct:
        return Clean(
            f"copies to the device take {percent(case.wall_pct(upload_ns))} of the {case.wall_words}, "
            f"back {percent(case.wall_pct(download_ns))}",
            numbers,
        )
    could = _shorter_ns(case, "to_device_ns", "from_device_ns")
    if not could:
        return Clean("no GPU has copies of both directions", numbers)
    share = 100 * two_way_ns / could
    if share >= case.limit("T4", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    directions = case.copies["copy_kind"].cast(pl.String)
    fewest = min(int((directions == direction).sum()) for direction in HOST_COPIES)
    if 0 < fewest < case.limit("T4", "copies"):
        return Clean(f"{plural(fewest, 'copy', 'copies')} in one direction: the other may need what it brings", numbers)
    return Found(
        f"Copies to the device ({duration(upload_ns)}) and back ({duration(download_ns)}) "
        + (f"overlap for only {duration(two_way_ns)}." if two_way_ns else "do not overlap."),
        "Use two streams: the GPU has a copy engine for each direction.",
        numbers,
        could - two_way_ns,
        "what could overlap and does not",
        *_all_copies(case),
        is_summed_over_gpus=True,
    )


@rule("T12", "peer-copies", Family.TRANSFERS, needs.copies_recorded)
def peer_copies(case: Case) -> Verdict:
    """Copies within or between devices take much time."""
    copies = copies_by_name(case)
    between = copies.filter(copies["name"].cast(pl.String).str.contains(DEVICE_COPIES))
    copy_ns, share = case.total_and_share(between)
    numbers = {"copy_ns": copy_ns, "copy_pct": share}
    if share <= case.limit("T12", "copy_pct"):
        return Clean(f"device-to-device copies take {percent(share)} of GPU time", numbers)
    first = between.row(0, named=True)
    return Found(
        f"Device-to-device copies take {percent(share)} of GPU time, mostly {label(first['name'])}"
        + (f" in {plural(first['calls'], 'copy', 'copies')}." if first["calls"] else "."),
        _copy_less_between(case, str(first["name"])),
        numbers,
        copy_ns,
        "all of these copies",
        *evidence_by_name(between, "calls", "total_ns", "line"),
        is_summed_over_gpus=True,
    )


def _copy_less_between(case: Case, name: str) -> str:
    """Return advice about copies within or between devices, by the name of most of them."""
    check = "Check the path between GPUs (nvidia-smi topo -m)."
    if re.search(PEER_COPIES, name):
        return f"Exchange less between GPUs: more work on each, or collectives of NCCL. {check}"
    first = (
        "Avoid .clone() and .contiguous() where a view works."
        if case.is_torch
        else "Avoid device-to-device copies: swap buffers, or work in place."
    )
    return f"{first} {check}" if case.facts.height > 1 else first


HOST_COPIES: Final = ("HtoD", "DtoH")
PCIE_CEILINGS: Final = {2: 6e9, 3: 12e9, 4: 24e9, 5: 50e9}
"""Bytes per second of a copy of pinned memory over 16 lanes of PCIe, by generation."""
KEPLER_PCIE_3: Final = re.compile(r"(?i)\b(?:gtx|titan|grid|k10|k40[a-z]*|k5200|k6000)\b")
"""Boards with PCIe 3 among those of compute capability 3.0 and 3.5."""


@rule("T5", "slow-copies", Family.TRANSFERS, needs.sizes, needs.copy_directions, link=VISUAL_PROFILER)
def slow_copies(case: Case) -> Verdict:
    """Copies between host and device are slow."""
    rows = case.copies.filter(
        pl.col("copy_kind").cast(pl.String).is_in(HOST_COPIES),
        pl.col("size_bytes") >= case.limit("T5", "least_bytes"),
        pl.col("duration_ns") > 0,
    )
    if rows.is_empty():
        return Clean(f"no copy between host and device of {size(int(case.limit('T5', 'least_bytes')))} or more")
    with_ceiling = rows.join(
        _ceilings(case), on=["session", "device"], how="inner", nulls_equal=True, maintain_order="left"
    )
    if with_ceiling.is_empty():
        return NotApplicable(needs.unknown_gpu_fact(case, "host link bandwidth"))
    rates = (
        with_ceiling.group_by("copy_kind")
        .agg(
            pl.col("name").first(),
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("size_bytes", "duration_ns").sum(),
            pl.col("ceiling").mean(),
            (pl.col("size_bytes") / pl.col("ceiling") * 1e9).sum().alias("ideal_ns"),
            pl.col("line").min(),
        )
        .with_columns((1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate"))
        .with_columns((100 * pl.col("rate") / pl.col("ceiling")).alias("of_ceiling_pct"))
        .sort("of_ceiling_pct")
    )
    worst = rates.row(0, named=True)
    numbers = {"rate": worst["rate"], "ceiling": worst["ceiling"], "of_ceiling_pct": worst["of_ceiling_pct"]}
    if worst["of_ceiling_pct"] >= case.limit("T5", "of_ceiling_pct"):
        return Clean(f"the slowest direction reaches {rate(worst['rate'])} of about {rate(worst['ceiling'])}", numbers)
    slow = rates.filter(pl.col("of_ceiling_pct") < case.limit("T5", "of_ceiling_pct"))
    gain = int((slow["duration_ns"] - slow["ideal_ns"]).sum())
    finding = Found(
        f"Large copies are slow: {label(worst['name'])} reaches {rate(worst['rate'])}, "
        f"{percent(worst['of_ceiling_pct'])} of the {rate(worst['ceiling'])} typical for this GPU's link.",
        ("" if case.in_use.pinned_memory else "Copy from pinned memory (pin_memory=True, cudaHostAlloc). ")
        + "Check the width of the PCIe link with nvidia-smi -q.",
        numbers,
        gain,
        "the same bytes at the speed of the link",
        *evidence_by_name(slow),
        is_summed_over_gpus=True,
    )
    return as_start_up(case, finding, rows)


def _ceilings(case: Case) -> pl.DataFrame:
    """Return the bandwidth of the link of each GPU with a known compute capability: session, device, ceiling."""
    facts = case.facts.filter(pl.col("compute_capability").str.contains(r"^[0-9]+\.[0-9]+$"))
    ceilings = [
        PCIE_CEILINGS[_generation(float(capability), case.profile.gpu or name or "")]
        for capability, name in facts.select("compute_capability", "name").iter_rows()
    ]
    return facts.select("session", "device", pl.Series("ceiling", ceilings, dtype=pl.Float64))


def _generation(capability: float, board: str) -> int:
    """Return the PCIe generation of a GPU by its compute capability; boards can be slower than their GPU.

    Boards with a Kepler GPU have the second or the third generation (K20 and K40 are both of 3.5): one that is not
    known to have the third is not blamed for missing its speed.
    """
    if capability >= 9:
        return 5
    if capability >= 8:
        return 4
    return 3 if capability >= 3.7 or (capability >= 3 and KEPLER_PCIE_3.search(board)) else 2


@rule("T6", "tiny-copies", Family.TRANSFERS, needs.sizes, link=RATELPROF)
def tiny_copies(case: Case) -> Verdict:
    """Many small copies."""
    rows = case.copies.filter(pl.col("size_bytes").is_not_null())
    tiny = rows.filter(pl.col("size_bytes") < case.limit("T6", "tiny_bytes"))
    share = 100 * tiny.height / rows.height if rows.height else 0.0
    tiny_ns = known_sum(tiny["duration_ns"])
    numbers = {"tiny": tiny.height, "copies": rows.height, "tiny_pct": share, "tiny_ns": tiny_ns}
    if share <= case.limit("T6", "tiny_pct") or tiny.height < case.limit("T6", "copies"):
        small = size(int(case.limit("T6", "tiny_bytes")))
        return Clean(f"{tiny.height:,} of {plural(rows.height, 'copy is', 'copies are')} below {small}", numbers)
    by_name = sort_by_largest(totals_by_name(tiny, "copies", "size_bytes", "duration_ns"), "copies")
    return Found(
        f"{percent(share)} of {plural(rows.height, 'copy moves', 'copies move')} less than "
        f"{size(int(case.limit('T6', 'tiny_bytes')))}, mostly {label(by_name['name'][0])}.",
        "Pack small copies into one buffer. Keep scalars on the device.",
        numbers,
        tiny_ns,
        "the time of these copies on the GPU, without what each costs the CPU",
        *evidence_by_name(by_name),
        is_summed_over_gpus=True,
    )


@rule(
    "T10",
    "same-upload",
    Family.TRANSFERS,
    needs.sizes,
    needs.copy_directions,
    needs.iterations,
    severity=Severity.INFO,
    link=ROOT_CAUSES,
)
def same_upload(case: Case) -> Verdict:
    """The same bytes are uploaded in every iteration."""
    copies = case.copies.filter(pl.col("copy_kind").cast(pl.String) == "HtoD", pl.col("size_bytes").is_not_null())
    if not copies["iteration"].count() and copies.height:
        if not case.profile["activities"]["iteration"].count():
            return NotApplicable("iterations of copies are not recorded")
        return Clean(f"no iteration uploads anything: {plural(copies.height, 'upload')} outside of them")
    steps = _per_iteration(copies)
    min_iterations = int(case.limit("T10", "iterations"))
    if steps.height < min_iterations:
        return Clean(f"{plural(steps.height, 'iteration uploads', 'iterations upload')} anything")
    mean = float_or_zero(steps["bytes"].mean())
    varies = 100 * float_or_zero(steps["bytes"].std()) / mean if mean else 0.0
    numbers = {"bytes": mean, "varies_pct": varies, "iterations": steps.height}
    if mean <= case.limit("T10", "least_bytes") or varies >= case.limit("T10", "varies_pct"):
        return Clean(f"{size(int(mean))} per step, varying by {percent(varies)}", numbers)
    if steps["sizes"].n_unique() > 1:
        return Clean("the sizes of the copies to the GPU differ from step to step", numbers)
    upload_ns = known_sum(steps["duration_ns"])
    return Found(
        f"Each of {steps.height} iterations copies {size(int(mean))} to the GPU in "
        f"{plural(steps['copies'][0], 'copy', 'copies')} of the same sizes ({duration(upload_ns)} in total).",
        "Keep what does not change (weights, masks, tables) on the device. Input batches have to be copied.",
        numbers,
        upload_ns,
        "all of these copies, if none is needed",
        steps.drop("sizes"),
        "kernels",
        name_filter(copies["name"].unique(maintain_order=True)),
        is_summed_over_gpus=True,
    )


def _per_iteration(rows: pl.DataFrame) -> pl.DataFrame:
    """Group copies by iteration: bytes, number and sizes."""
    return (
        rows.drop_nulls("iteration")
        .group_by("iteration")
        .agg(
            pl.col("size_bytes").sum().alias("bytes"),
            pl.col("size_bytes").sort().hash().sum().alias("sizes"),
            pl.len().alias("copies"),
            pl.col("duration_ns").sum(),
        )
        .sort("iteration")
    )


def _united_ns(rows: pl.DataFrame) -> int:
    """Return how long GPUs had any of some work, of all GPUs together: both directions can migrate at once."""
    return sum(row_intervals(part).length_ns for part in rows.partition_by("device"))


@rule("T13", "unified-memory", Family.TRANSFERS, needs.gpu_work, link=NSIGHT)
def unified_memory_migrations(case: Case) -> Verdict:
    """Pages of unified memory migrate."""
    migrations = case.profile["activities"].filter(pl.col("kind") == "um")
    single = migrations.select("name", calls=pl.lit(1, pl.Int64), total_ns="duration_ns")
    summed = case.profile["summary"].filter(pl.col("section") == "um").select("name", "calls", "total_ns")
    if single.is_empty() and summed.is_empty():
        if case.missing.get(data_needs.START_TIMES.name) and case.missing.get(data_needs.EXTRA_SUMMARIES.name):
            return NotApplicable(case.missing[data_needs.EXTRA_SUMMARIES.name])
        if case.tool not in (Tool.NVPROF, Tool.NSYS, Tool.NSYS_STATS):
            return NotApplicable(missing_data_text(case.profile, data_needs.UNIFIED_MEMORY))
        return Clean("no unified memory was moved")
    by_name = (
        (single if single.height else summed)
        .group_by("name")
        .agg(pl.col("calls", "total_ns").sum())
        .sort("total_ns", "name", descending=[True, False])
    )
    is_fault = pl.col("name").cast(pl.String).str.contains("(?i)fault")
    is_timed = bool(single.height and not any(migrations[name].null_count() for name in ("start_ns", "duration_ns")))
    fault_ns, moved_ns = (
        _united_ns(migrations.filter(chosen)) if is_timed else known_sum(by_name.filter(chosen)["total_ns"])
        for chosen in (is_fault, ~is_fault)
    )
    max_ns = max(fault_ns, moved_ns)
    share = case.wall_pct(max_ns) if case.wall_ns else 100 * max_ns / case.cost_basis_ns
    basis = case.wall_words if case.wall_ns else case.cost_basis_text
    numbers = {"fault_ns": fault_ns, "moved_ns": moved_ns, "share_pct": share}
    if share <= case.limit("T13", "share_pct"):
        return Clean(f"unified memory takes {percent(share)} of the {basis}", numbers)
    subject = "Page faults" if fault_ns >= moved_ns else "Page migrations"
    return Found(
        f"{subject} of unified memory take {duration(max_ns)} ({percent(share)} of the {basis}).",
        "Prefetch what a kernel needs (cudaMemPrefetchAsync), and set usage hints (cudaMemAdvise).",
        numbers,
        max_ns,
        "all of it",
        by_name,
        "kernels" if single.height else "summaries",
        "kind=um" if single.height else "",
        is_summed_over_gpus=True,
    )
