"""Copies and sets: whether they are needed, hidden, fast and asynchronous."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import needs
from tui.analysis.expert.figures import real
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.utilisation import NSIGHT, ROOT_CAUSES, VISUAL_PROFILER
from tui.analysis.expert.words import called, counted, largest, named
from tui.analysis.inputs import needs as held
from tui.fmt import duration, percent, rate, size
from tui.loaders.linking.launches import with_launch

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

TRANSFERS: Final = Family.TRANSFERS
TRACELENS: Final = "https://github.com/AMD-AGI/TraceLens"
RATELPROF: Final = "https://github.com/Kassouley/RATELProf"

_PINNED: Final = "Keep data on the device; copy less often and more at a time, from pinned memory."
_STREAMS: Final = (
    "Copy in a stream of its own from pinned memory (non_blocking=True), the next batch while this one runs."
)
HOST_COPIES: Final = ("HtoD", "DtoH")

PCIE_CEILINGS: Final = {2: 6e9, 3: 12e9, 4: 24e9, 5: 50e9}
"""Bytes per second of a copy of pinned memory over 16 lanes of PCIe, by generation."""


def copies_by_name(case: Case) -> pl.DataFrame:
    """Copies by name, longest first."""
    return case.work.filter(pl.col("kind") == "memcpy")


@rule("T1", "memcpy-dominates", TRANSFERS, needs.copies_recorded, link=VISUAL_PROFILER)
def copies_dominate(case: Case) -> Verdict:
    """Copies cost as much as kernels."""
    copies = copies_by_name(case)
    total, kernels = case.time_of("memcpy"), case.kernel_ns
    share = case.share(total)
    ratio = kernels / total if total else None
    numbers = {"copy_ns": total, "kernel_ns": kernels, "copy_pct": share, "kernel_per_copy": ratio}
    if not total:
        return Clean("there are no copies", numbers)
    if share <= case.limit("T1", "copy_pct") and (ratio is None or ratio >= case.limit("T1", "kernel_per_copy")):
        return Clean(f"copies take {percent(share)} of the GPU time", numbers)
    first = copies.row(0, named=True)
    told = f"{called(first['name'])} takes {percent(case.share(first['total_ns']))} of GPU time"
    if first["calls"]:
        told += f": {counted(first['calls'], 'copy', 'copies')}, {duration(first['total_ns'] / first['calls'])} each"
    if copies.height > 1:
        told += f"; all copies {percent(share)}"
    return Found(
        f"{told}.",
        _PINNED,
        numbers,
        total,
        "all copies; what is left of them depends on the data that has to move",
        copies.select("name", "calls", "total_ns", "line"),
        "kernels",
        "kind=memcpy",
    )


@rule("T2", "exposed-memcpy", TRANSFERS, needs.timed_copies, link=TRACELENS)
def exposed_copies(case: Case) -> Verdict:
    """Copies that nothing hides."""
    exposed = sum((gpu.copies - gpu.kernels).length for gpu in case.gpus)
    copying = sum(gpu.copies.length for gpu in case.gpus)
    share = case.of_span(exposed)
    numbers = {"exposed_ns": exposed, "exposed_pct": share, "copy_ns": copying}
    if share <= case.limit("T2", "exposed_pct"):
        return Clean(f"copies without a kernel beside them take {percent(share)} of the span", numbers)
    copies = copies_by_name(case)
    return Found(
        f"Copies run alone for {duration(exposed)}, {percent(share)} of the span: "
        f"{percent(100 * exposed / copying)} of their time no kernel hides them.",
        _STREAMS,
        numbers,
        exposed,
        "all of the time in which only copies ran",
        copies.select("name", "calls", "total_ns", "line"),
        "kernels",
        "kind=memcpy",
    )


@rule("T3", "no-copy-overlap", TRANSFERS, needs.timed_copies, link=VISUAL_PROFILER)
def no_overlap(case: Case) -> Verdict:
    """Copies and kernels hardly ever overlap."""
    both = sum((gpu.copies & gpu.compute).length for gpu in case.gpus)
    copying = sum(gpu.copies.length for gpu in case.gpus)
    could = min(copying, sum(gpu.compute.length for gpu in case.gpus))
    share, of_span = (100 * both / could if could else 0.0), case.of_span(copying)
    numbers = {"overlap_pct": share, "overlap_ns": both, "copy_pct": of_span}
    if of_span <= case.limit("T3", "copy_pct"):
        return Clean(f"copies take {percent(of_span)} of the span", numbers)
    if not could:
        return Clean("there are no kernels that copies could overlap with", numbers)
    if share >= case.limit("T3", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    return Found(
        f"Copies take {percent(of_span)} of the span and overlap with kernels for {duration(both)}: {percent(share)} "
        f"of "
        "what could.",
        _STREAMS,
        numbers,
        could - both,
        "what could overlap and does not",
        copies_by_name(case).select("name", "calls", "total_ns", "line"),
        "kernels",
        "kind=memcpy",
    )


@rule("T4", "no-two-way-copies", TRANSFERS, needs.timed_copies, severity=Severity.INFO, link=VISUAL_PROFILER)
def no_two_way_copies(case: Case) -> Verdict:
    """Copies to and from the device are never on together."""
    both = up = down = could = 0
    for gpu in case.gpus:
        to, back = gpu.copies_of("HtoD"), gpu.copies_of("DtoH")
        both, up, down = both + (to & back).length, up + to.length, down + back.length
        could += min(to.length, back.length)
    numbers = {"overlap_ns": both, "up_pct": case.of_span(up), "down_pct": case.of_span(down)}
    least = case.limit("T4", "copy_pct")
    if case.of_span(up) <= least or case.of_span(down) <= least:
        return Clean(f"copies to the device take {percent(case.of_span(up))} of the span, "
                     f"copies back {percent(case.of_span(down))}", numbers)  # fmt: skip
    share = 100 * both / could
    if share >= case.limit("T4", "overlap_pct"):
        return Clean(f"{percent(share)} of what could overlap does", numbers)
    return Found(
        f"Copies to the device ({duration(up)}) and back ({duration(down)}) are on together for {duration(both)} only.",
        "Use two streams: the GPU has an engine for each direction.",
        numbers,
        could - both,
        "what could overlap and does not",
        view="kernels",
        filter="kind=memcpy",
    )


def _generation(capability: str) -> int:
    """Of PCIe, by the GPU's compute capability; boards can be slower than their GPU."""
    number = float(capability)
    return 5 if number >= 9 else 4 if number >= 8 else 3


@rule("T5", "slow-copies", TRANSFERS, needs.sizes, link=VISUAL_PROFILER)
def slow_copies(case: Case) -> Verdict:
    """Copies between host and device are slow."""
    rows = case.copies.filter(
        pl.col("copy_kind").cast(pl.String).is_in(HOST_COPIES),
        pl.col("size_bytes") >= case.limit("T5", "least_bytes"),
        pl.col("duration_ns") > 0,
    )
    if rows.is_empty():
        return Clean(f"no copy between host and device of {size(int(case.limit('T5', 'least_bytes')))} or more")
    facts = case.facts.select("session", "device", "compute_capability")
    known = rows.join(facts, on=["session", "device"], how="left", nulls_equal=True, maintain_order="left").filter(
        pl.col("compute_capability").str.contains(r"^\d+\.\d+$")
    )
    if known.is_empty():
        return CannotTell("nothing is known of this GPU's link to the host: name it with --gpu")
    ceilings = {text: PCIE_CEILINGS[_generation(text)] for text in known["compute_capability"].unique()}
    judged = known.with_columns(
        pl.col("compute_capability").replace_strict(ceilings, return_dtype=pl.Float64).alias("ceiling"),
    )
    by = judged.group_by("copy_kind").agg(
        pl.col("name").first(),
        pl.len().cast(pl.Int64).alias("calls"),
        pl.col("size_bytes").sum(),
        pl.col("duration_ns").sum(),
        pl.col("ceiling").mean(),
        (pl.col("size_bytes") / pl.col("ceiling") * 1e9).sum().alias("could_ns"),
        pl.col("line").min(),
    ).with_columns((1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate")).with_columns(
        (100 * pl.col("rate") / pl.col("ceiling")).alias("of_ceiling_pct")
    ).sort("of_ceiling_pct")  # fmt: skip
    worst = by.row(0, named=True)
    numbers = {"rate": worst["rate"], "ceiling": worst["ceiling"], "of_ceiling_pct": worst["of_ceiling_pct"]}
    if worst["of_ceiling_pct"] >= case.limit("T5", "of_ceiling_pct"):
        return Clean(f"the slowest direction reaches {rate(worst['rate'])} of about {rate(worst['ceiling'])}", numbers)
    slow = by.filter(pl.col("of_ceiling_pct") < case.limit("T5", "of_ceiling_pct"))
    gain = int((slow["duration_ns"] - slow["could_ns"]).sum())
    return Found(
        f"{called(worst['name'])}: {counted(worst['calls'], 'large copy', 'large copies')} reach "
        f"{rate(worst['rate'])}, "
        f"{percent(worst['of_ceiling_pct'])} of the {rate(worst['ceiling'])} that the link of such a GPU does.",
        "Copy from pinned memory (pin_memory=True, cudaHostAlloc); check the width of the PCIe link with nvidia-smi "
        "-q.",
        numbers,
        gain,
        "the same bytes at the speed of the link",
        slow,
        "kernels",
        named(slow["name"].to_list()),
    )


@rule("T6", "tiny-copies", TRANSFERS, needs.sizes, link=RATELPROF)
def tiny_copies(case: Case) -> Verdict:
    """Many small copies."""
    rows = case.copies.filter(pl.col("size_bytes").is_not_null())
    tiny = rows.filter(pl.col("size_bytes") < case.limit("T6", "tiny_bytes"))
    share = 100 * tiny.height / rows.height if rows.height else 0.0
    total = int(tiny["duration_ns"].sum())
    numbers = {"tiny": tiny.height, "copies": rows.height, "tiny_pct": share, "tiny_ns": total}
    if share <= case.limit("T6", "tiny_pct") or tiny.height < case.limit("T6", "copies"):
        return Clean(f"{tiny.height:,} of {counted(rows.height, 'copy is', 'copies are')} below "
                     f"{size(int(case.limit('T6', 'tiny_bytes')))}", numbers)  # fmt: skip
    by = tiny.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("copies"), pl.col("size_bytes", "duration_ns").sum(), pl.col("line").min()
    ).sort("copies", descending=True)  # fmt: skip
    return Found(
        f"{tiny.height:,} of {counted(rows.height, 'copy moves', 'copies move')} less than "
        f"{size(int(case.limit('T6', 'tiny_bytes')))}, most of them {called(by['name'][0])}.",
        "Pack what belongs together into one buffer and copy that; keep scalars on the device.",
        numbers,
        total,
        "the time of these copies on the GPU, without what each costs the CPU",
        by,
        "kernels",
        named(by["name"].head(10).to_list()),
    )


def _copy_calls(case: Case, pattern: str) -> pl.DataFrame:
    """Copies with the name of the call that launched each, where a regular expression finds that."""
    calls = case.calls_named(pattern).select(
        "correlation", pl.col("name").alias("call"), pl.col("duration_ns").alias("call_ns")
    )
    copies = case.copies
    return copies.drop_nulls("correlation").join(
        calls.drop_nulls("correlation").unique("correlation", keep="first", maintain_order=True),
        on="correlation",
        how="inner",
        maintain_order="left",
    )


@rule("T7", "pageable-async", TRANSFERS, needs.copies_recorded, needs.api_trace, link=NSIGHT)
def pageable_async(case: Case) -> Verdict:
    """Asynchronous copies that block, for their memory is pageable."""
    copies = case.copies
    if copies.is_empty():
        return Clean("there are no copies")
    if not copies["src_memory"].count() + copies["dst_memory"].count():
        return CannotTell("the input does not tell pageable memory from pinned")
    pageable = pl.any_horizontal(
        pl.col(side).cast(pl.String).str.to_lowercase().eq("pageable") for side in ("src_memory", "dst_memory")
    )
    rows = _copy_calls(case, r"(?i)memcpy\w*async").filter(pageable)
    total = int(rows["duration_ns"].sum())
    numbers = {"copies": rows.height, "copy_ns": total}
    if rows.is_empty():
        return Clean("no asynchronous copy has pageable memory", numbers)
    by = rows.group_by("name").agg(pl.len().alias("copies"), pl.col("size_bytes", "duration_ns").sum()).sort(
        "duration_ns", descending=True
    )  # fmt: skip
    small = case.of_span(total) <= case.limit("T7", "span_pct")
    return Found(
        f"{counted(rows.height, 'asynchronous copy', 'asynchronous copies')} of pageable memory "
        f"{'blocks' if rows.height == 1 else 'block'} like a synchronous one: {duration(total)}, most of it "
        f"{called(by['name'][0])}.",
        "Use pinned memory: pin_memory=True, cudaMallocHost or cudaHostRegister.",
        numbers,
        total,
        "all of these copies, which could run beside other work",
        largest(rows, "duration_ns", "activity", "name", "call", "start_ns", "duration_ns", "size_bytes", "src_memory",
                "dst_memory", "line"),
        "kernels",
        named(by["name"].to_list()),
        Severity.INFO if small else None,
    )  # fmt: skip


@rule("T8", "sync-copy", TRANSFERS, needs.gpu_work, needs.api_work, link=NSIGHT)
def synchronous_copies(case: Case) -> Verdict:
    """Copies that block the CPU."""
    rows = case.api_named(r"(?i)memcpy").filter(~pl.col("name").str.contains("(?i)async|memcpy3dpeerasync"))
    total, calls = int(rows["total_ns"].sum()), int(rows["calls"].sum())
    whole = case.span_ns or case.gpu_ns
    of_what = "span" if case.span_ns else "GPU time"
    share = 100 * total / whole if whole else 0.0
    numbers = {"calls": calls, "call_ns": total, "share_pct": share}
    if share <= case.limit("T8", "span_pct"):
        return Clean(f"blocking copies take {percent(share)} of the {of_what}", numbers)
    first = rows.row(0, named=True)
    return Found(
        f"{called(first['name'])} blocks the CPU: {counted(calls, 'call')}, {duration(total)} "
        f"({percent(share)} of the {of_what}).",
        "Use cudaMemcpyAsync with pinned memory and wait only where the data is needed (non_blocking=True).",
        numbers,
        total,
        "all time in these calls, which can include waits for kernels launched before",
        rows.select("name", "calls", "total_ns", "line"),
        "api-calls",
        named(rows["name"].to_list()),
    )


@rule("T9", "sync-memset", TRANSFERS, needs.gpu_work, needs.api_trace, severity=Severity.INFO, link=NSIGHT)
def synchronous_sets(case: Case) -> Verdict:
    """Sets of host memory that block the CPU."""
    calls = case.calls_named(r"(?i)memset")
    calls = calls.filter(~calls["name"].cast(pl.String).str.contains("(?i)async"))
    if calls.is_empty():
        return Clean("there are no blocking calls of memset")
    sets = case.profile["activities"].filter(pl.col("kind") == "memset")
    if not sets["dst_memory"].count():
        return CannotTell("the input does not tell what memory was set")
    blocking = sets.filter(pl.col("dst_memory").cast(pl.String).str.to_lowercase().is_in(["pinned", "managed"])).join(
        calls.select("correlation").drop_nulls().unique(), on="correlation", how="semi", maintain_order="left"
    )
    total = int(blocking["duration_ns"].sum())
    numbers = {"sets": blocking.height, "set_ns": total}
    if blocking.is_empty():
        return Clean("no blocking memset is of pinned or managed memory", numbers)
    return Found(
        f"{counted(blocking.height, 'memset')} of pinned or managed memory "
        f"{'block' if blocking.height > 1 else 'blocks'} "
        f"the CPU for {duration(total)}.",
        "Use cudaMemsetAsync.",
        numbers,
        total,
        "all of these sets",
        largest(blocking, "duration_ns", "activity", "name", "start_ns", "duration_ns", "size_bytes", "dst_memory"),
        "kernels",
        "kind=memset",
    )


def _per_iteration(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of copies by iteration: bytes, number and sizes; iterations without any are missing."""
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


@rule("T10", "same-upload", TRANSFERS, needs.sizes, needs.recorded_iterations, severity=Severity.INFO, link=ROOT_CAUSES)
def same_upload(case: Case) -> Verdict:
    """The same bytes are uploaded in every iteration."""
    copies = case.copies.filter(pl.col("copy_kind").cast(pl.String) == "HtoD", pl.col("size_bytes").is_not_null())
    if not copies["iteration"].count() and copies.height:
        return CannotTell("the input does not tell which iteration copies belong to")
    steps = _per_iteration(case, copies)
    least = int(case.limit("T10", "iterations"))
    if steps.height < least:
        return Clean(f"{counted(steps.height, 'iteration uploads', 'iterations upload')} anything")
    mean = real(steps["bytes"].mean())
    varies = 100 * real(steps["bytes"].std()) / mean if mean else 0.0
    numbers = {"bytes": mean, "varies_pct": varies, "iterations": steps.height}
    if mean <= case.limit("T10", "least_bytes") or varies >= case.limit("T10", "varies_pct"):
        return Clean(f"{size(int(mean))} a step, varying by {percent(varies)}", numbers)
    if steps["sizes"].n_unique() > 1:
        return Clean("the sizes of the uploads differ from step to step", numbers)
    total = int(steps["duration_ns"].sum())
    return Found(
        f"Each of {steps.height} iterations uploads {size(int(mean))} in "
        f"{counted(steps['copies'][0], 'copy', 'copies')} of "
        f"the same sizes: {duration(total)} in all.",
        "Input batches have to be uploaded; what does not change (weights, masks, tables) can stay on the device.",
        numbers,
        total,
        "all of these uploads, if none is needed",
        steps.drop("sizes"),
        "kernels",
        named(copies["name"].unique().to_list()),
    )


@rule("T11", "readback-stalls", TRANSFERS, needs.sizes, needs.launches_linked, link=ROOT_CAUSES)
def readbacks(case: Case) -> Verdict:
    """Small results are read back and waited for."""
    copies = case.copies.filter(
        pl.col("copy_kind").cast(pl.String) == "DtoH",
        pl.col("size_bytes") <= case.limit("T11", "most_bytes"),
    )
    launched = with_launch(copies.drop_nulls("correlation"), case.profile["api_calls"]).drop_nulls("launch_ns")
    rows = launched.rename({"launch_pid": "pid", "launch_tid": "tid"}).sort("launch_ns")
    waits = case.calls_named("(?i)synchronize").select("pid", "tid", wait_ns="start_ns", wait_for_ns="duration_ns")
    if rows.is_empty() or waits.is_empty():
        return Clean(f"{counted(rows.height, 'small read-back')}, {counted(waits.height, 'wait')}")
    followed = (
        rows.join_asof(
            waits.sort("wait_ns"),
            left_on="launch_ns",
            right_on="wait_ns",
            by=["pid", "tid"],
            strategy="forward",
            check_sortedness=False,
        )
        .filter(pl.col("wait_ns") - pl.col("launch_ns") <= case.limit("T11", "within_ns"))
        .unique("wait_ns", keep="first", maintain_order=True)
    )
    steps = max(case.iterations.height, 1)
    total = int(followed["wait_for_ns"].sum())
    each = followed.height / steps
    numbers = {"readbacks": followed.height, "per_iteration": each, "wait_ns": total}
    if each < case.limit("T11", "per_iteration") or not case.iterations.height:
        where = "" if case.iterations.height else "; the input tells no iterations"
        return Clean(f"{counted(followed.height, 'small read-back')} with a wait after it{where}", numbers)
    return Found(
        f"{counted(followed.height, 'small read-back')} ({each:,.1f} an iteration) with a wait right after: the CPU "
        f"waits "
        f"{duration(total)} for them.",
        "Do not call .item(), .cpu() or print(loss) in every step: keep results on the device and read them every n "
        "steps.",
        numbers,
        total,
        "all of these waits",
        largest(followed, "wait_for_ns", "activity", "name", "start_ns", "size_bytes", "wait_for_ns", "line"),
        "kernels",
        named(followed["name"].unique().to_list()),
        Severity.INFO if case.of_span(total) <= case.limit("T11", "span_pct") else None,
    )


@rule("T12", "peer-copies", TRANSFERS, needs.copies_recorded)
def peer_copies(case: Case) -> Verdict:
    """Copies within or between devices take much time."""
    copies = copies_by_name(case)
    between = copies.filter(copies["name"].cast(pl.String).str.contains(r"(?i)[DPA]to[DPA]|device.*device|peer"))
    total = int(between["total_ns"].sum())
    share = case.share(total)
    numbers = {"copy_ns": total, "copy_pct": share}
    if share <= case.limit("T12", "copy_pct"):
        return Clean(f"copies from device to device take {percent(share)} of the GPU time", numbers)
    first = between.row(0, named=True)
    return Found(
        f"{called(first['name'])} takes {percent(case.share(first['total_ns']))} of GPU time: "
        f"{counted(first['calls'] or 0, 'copy', 'copies')}.",
        "Copy less: no .clone() or .contiguous() where a view does; check the path between GPUs (nvidia-smi topo -m).",
        numbers,
        total,
        "all of these copies",
        between.select("name", "calls", "total_ns", "line"),
        "kernels",
        named(between["name"].to_list()),
    )


@rule("T13", "unified-memory", TRANSFERS, needs.gpu_work, link=NSIGHT)
def unified_memory(case: Case) -> Verdict:
    """Pages of unified memory move to and fro."""
    single = case.profile["activities"].filter(pl.col("kind") == "um")
    summed = case.profile["summary"].filter(pl.col("section") == "um")
    if single.is_empty() and summed.is_empty():
        if case.lacks.get(held.START_TIMES.name) and case.lacks.get(held.OTHER_SUMMARIES.name):
            return CannotTell(case.lacks[held.OTHER_SUMMARIES.name])
        return Clean("no unified memory was moved")
    faults = "(?i)fault"
    if single.height:
        moved = single.filter(~single["name"].cast(pl.String).str.contains(faults))
        names = single.group_by("name").agg(pl.len().alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        fault_ns = int(single.filter(single["name"].cast(pl.String).str.contains(faults))["duration_ns"].sum())
        total = int(moved["duration_ns"].sum())
    else:
        names = summed.group_by("name").agg(pl.col("calls").sum(), pl.col("total_ns").sum())
        fault_ns = int(names.filter(pl.col("name").cast(pl.String).str.contains(faults))["total_ns"].sum())
        total = int(names["total_ns"].sum()) - fault_ns
    whole = case.span_of_all_ns or case.gpu_ns
    share = 100 * max(fault_ns, total) / whole if whole else 0.0
    numbers = {"fault_ns": fault_ns, "moved_ns": total, "share_pct": share}
    if share <= case.limit("T13", "share_pct"):
        return Clean(f"unified memory takes {percent(share)} of the time", numbers)
    what = "Page faults" if fault_ns >= total else "Moves of pages"
    return Found(
        f"{what} of unified memory take {duration(max(fault_ns, total))}: {percent(share)} of the time.",
        "Prefetch what a kernel will need (cudaMemPrefetchAsync), and tell how it is used (cudaMemAdvise).",
        numbers,
        max(fault_ns, total),
        "all of it",
        names.sort("total_ns", descending=True, nulls_last=True).head(10),
        "kernels" if single.height else "summaries",
        "kind=um" if single.height else "",
    )
