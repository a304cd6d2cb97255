"""Copies: how fast they are, how small, and whether the same bytes move again and again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.figures import real, total
from tui.analysis.expert.model import CannotTell, Clean, Family, Found, Severity, Verdict, rule
from tui.analysis.expert.words import behind, called, counted, named, ranked, tallied
from tui.fmt import duration, percent, rate, size

if TYPE_CHECKING:
    from tui.analysis.expert.case import Case

HOST_COPIES: Final = ("HtoD", "DtoH")
PCIE_CEILINGS: Final = {2: 6e9, 3: 12e9, 4: 24e9, 5: 50e9}
"""Bytes per second of a copy of pinned memory over 16 lanes of PCIe, by generation."""
KEPLER_PCIE_3: Final = re.compile(r"(?i)\b(?:gtx|titan|grid|k10|k40[a-z]*|k5200|k6000)\b")
"""Boards with PCIe 3 among those of compute capability 3.0 and 3.5."""


@rule("T5", "slow-copies", Family.TRANSFERS, needs.sizes, link=links.VISUAL_PROFILER)
def slow_copies(case: Case) -> Verdict:
    """Copies between host and device are slow."""
    rows = case.copies.filter(
        pl.col("copy_kind").cast(pl.String).is_in(HOST_COPIES),
        pl.col("size_bytes") >= case.limit("T5", "least_bytes"),
        pl.col("duration_ns") > 0,
    )
    if rows.is_empty():
        return Clean(f"no copy between host and device of {size(int(case.limit('T5', 'least_bytes')))} or more")
    known = rows.join(_ceilings(case), on=["session", "device"], how="inner", nulls_equal=True, maintain_order="left")
    if known.is_empty():
        return CannotTell("nothing is known of this GPU's link to the host: name it with --gpu")
    by = (
        known.group_by("copy_kind")
        .agg(
            pl.col("name").first(),
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("size_bytes", "duration_ns").sum(),
            pl.col("ceiling").mean(),
            (pl.col("size_bytes") / pl.col("ceiling") * 1e9).sum().alias("could_ns"),
            pl.col("line").min(),
        )
        .with_columns((1e9 * pl.col("size_bytes") / pl.col("duration_ns")).alias("rate"))
        .with_columns((100 * pl.col("rate") / pl.col("ceiling")).alias("of_ceiling_pct"))
        .sort("of_ceiling_pct")
    )
    worst = by.row(0, named=True)
    numbers = {"rate": worst["rate"], "ceiling": worst["ceiling"], "of_ceiling_pct": worst["of_ceiling_pct"]}
    if worst["of_ceiling_pct"] >= case.limit("T5", "of_ceiling_pct"):
        return Clean(f"the slowest direction reaches {rate(worst['rate'])} of about {rate(worst['ceiling'])}", numbers)
    slow = by.filter(pl.col("of_ceiling_pct") < case.limit("T5", "of_ceiling_pct"))
    gain = int((slow["duration_ns"] - slow["could_ns"]).sum())
    return Found(
        f"{called(worst['name'])}: {counted(worst['calls'], 'large copy', 'large copies')} reach "
        f"{rate(worst['rate'])}, {percent(worst['of_ceiling_pct'])} of the {rate(worst['ceiling'])} that the link of "
        "such a GPU typically does.",
        "Copy from pinned memory (pin_memory=True, cudaHostAlloc); check the width of the PCIe link with nvidia-smi "
        "-q.",
        numbers,
        gain,
        "the same bytes at the speed of the link",
        *behind(slow),
    )


def _ceilings(case: Case) -> pl.DataFrame:
    """What the link of each GPU does, where its compute capability is known: session, device, ceiling."""
    facts = case.facts.filter(pl.col("compute_capability").str.contains(r"^\d+\.\d+$"))
    chosen = case.gpu or case.profile.gpu
    ceilings = [
        PCIE_CEILINGS[_generation(float(capability), chosen or name or "")]
        for capability, name in facts.select("compute_capability", "name").iter_rows()
    ]
    return facts.select("session", "device", pl.Series("ceiling", ceilings, dtype=pl.Float64))


def _generation(capability: float, board: str) -> int:
    """Of PCIe, by the GPU's compute capability; boards can be slower than their GPU.

    Boards with a Kepler GPU have the second or the third generation (K20 and K40 are both of 3.5): one that is not
    known to have the third is not blamed for missing its speed.
    """
    if capability >= 9:
        return 5
    if capability >= 8:
        return 4
    return 3 if capability >= 3.7 or (capability >= 3 and KEPLER_PCIE_3.search(board)) else 2


@rule("T6", "tiny-copies", Family.TRANSFERS, needs.sizes, link=links.RATELPROF)
def tiny_copies(case: Case) -> Verdict:
    """Many small copies."""
    rows = case.copies.filter(pl.col("size_bytes").is_not_null())
    tiny = rows.filter(pl.col("size_bytes") < case.limit("T6", "tiny_bytes"))
    share = 100 * tiny.height / rows.height if rows.height else 0.0
    taken = total(tiny["duration_ns"])
    numbers = {"tiny": tiny.height, "copies": rows.height, "tiny_pct": share, "tiny_ns": taken}
    if share <= case.limit("T6", "tiny_pct") or tiny.height < case.limit("T6", "copies"):
        small = size(int(case.limit("T6", "tiny_bytes")))
        return Clean(f"{tiny.height:,} of {counted(rows.height, 'copy is', 'copies are')} below {small}", numbers)
    by_name = ranked(tallied(tiny, "copies", "size_bytes", "duration_ns"), "copies")
    return Found(
        f"{tiny.height:,} of {counted(rows.height, 'copy moves', 'copies move')} less than "
        f"{size(int(case.limit('T6', 'tiny_bytes')))}, most of them {called(by_name['name'][0])}.",
        "Pack what belongs together into one buffer and copy that; keep scalars on the device.",
        numbers,
        taken,
        "the time of these copies on the GPU, without what each costs the CPU",
        *behind(by_name),
    )


@rule(
    "T10",
    "same-upload",
    Family.TRANSFERS,
    needs.sizes,
    needs.iterations,
    severity=Severity.INFO,
    link=links.ROOT_CAUSES,
)
def same_upload(case: Case) -> Verdict:
    """The same bytes are uploaded in every iteration."""
    copies = case.copies.filter(pl.col("copy_kind").cast(pl.String) == "HtoD", pl.col("size_bytes").is_not_null())
    if not copies["iteration"].count() and copies.height:
        if not case.profile["activities"]["iteration"].count():
            return CannotTell("the input does not tell which iteration copies belong to")
        return Clean(f"no iteration uploads anything: {counted(copies.height, 'upload')} outside of them")
    steps = _per_iteration(copies)
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
    taken = total(steps["duration_ns"])
    return Found(
        f"Each of {steps.height} iterations makes {counted(steps['copies'][0], 'upload')}, {size(int(mean))} in all, "
        f"of the same sizes each time: {duration(taken)} over all iterations.",
        "Input batches have to be uploaded; what does not change (weights, masks, tables) can stay on the device.",
        numbers,
        taken,
        "all of these uploads, if none is needed",
        steps.drop("sizes"),
        "kernels",
        named(copies["name"].unique(maintain_order=True)),
    )


def _per_iteration(rows: pl.DataFrame) -> pl.DataFrame:
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
