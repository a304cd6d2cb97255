"""Figures of recordings against the table that PyTorch itself printed of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from tests.corpus import oracle_file, recording_file
from tui.analysis.ops.op_costs import costs_by_name
from tui.correlation.launches import add_launch_columns, link_ops, nest, parents
from tui.loaders.registry import load_input
from tui.model.profile import Profile
from tui.model.schema import NAME, conform

RECORDINGS = {
    "ddp_rank0": (36, 1),
    "ddp_rank1": (36, 2),
    "gpt_bf16_stacks": (38, 0),
    "gpt_cudagraph": (17, 0),
    "resnet50_amp": (38, 4),
    "resnet50_fp32": (38, 0),
    "tiny_kernels": (27, 0),
}
"""How many rows of each table can be compared, and in how many of them `LEFT_OUT` shows.

The others tell how long an annotation reaches on the GPU, which no frame of ours holds."""

LEFT_OUT = """PyTorch takes API calls of threads that it does not know (the one that pins memory) and the profiler's own
work as done in the first thread, and their time from what was open there; the trace says otherwise."""

UNIT_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Cell:
    """A time as printed, in ns, and half its last digit."""

    ns: float
    half_ns: float

    def is_near(self, other_ns: float | None) -> bool:
        return other_ns is not None and abs(other_ns - self.ns) <= self.half_ns * 1.001


def cell(text: str) -> Cell:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return Cell(float(number) * UNIT_NS[unit], UNIT_NS[unit] * 0.0005)


def table(name: str) -> list[tuple[str, dict[str, str]]]:
    """Return the rows of a table: the name, cut at 55 characters, and the cells by column."""
    lines = Path(oracle_file(f"{name}.key_averages.txt")).read_text().splitlines()
    # Neither a name nor a cell holds two spaces in a row.
    rows = [re.split(r"  +", line.strip()) for line in lines if not line.startswith(("---", "Self "))]
    return [(row[0], dict(zip(rows[0][1:], row[1:], strict=True))) for row in rows[1:]]


def as_pytorch_counts(profile: Profile) -> Profile:
    """Return the same profile with annotations among the ops; PyTorch lists those of NCCL only on the GPU."""
    columns = ("session", "name", "start_ns", "duration_ns", "pid", "tid")
    ranges = profile["ranges"].filter(~pl.col("name").cast(pl.String).str.starts_with("nccl:")).select(columns)
    ops = pl.concat([ranges, profile["ops"].select(columns)]).sort(
        "start_ns", "duration_ns", descending=[False, True], maintain_order=True
    )
    nesting = nest(ops)
    ops = ops.with_columns(
        op=pl.int_range(pl.len(), dtype=pl.UInt32),
        parent=parents(nesting),
        name=pl.col("name").cast(pl.String).str.replace(r"^ProfilerStep#\d+$", "ProfilerStep*").cast(NAME),
        op_source=pl.lit("recorded", NAME),
    )
    activities = profile["activities"]
    linked = link_ops(add_launch_columns(activities, profile["api_calls"]), ops, nesting).select(activities.columns)
    # It does not count the kernels of a graph as work of the annotation around the launch.
    linked = linked.with_columns(op=pl.when(pl.col("correlation").is_unique()).then("op"))
    frames = {**profile.frames, "ops": conform("ops", ops), "activities": linked}
    return Profile(frames, profile.sources)


def figures(profile: Profile) -> pl.DataFrame:
    """Return all possible rows of the table: name, calls, cpu_total, cpu_self, gpu_self, gpu_total."""
    ops = costs_by_name(as_pytorch_counts(profile)).select(
        pl.col("op").cast(pl.String).alias("name"),
        "calls",
        cpu_total="cpu_total_ns",
        cpu_self="cpu_self_ns",
        gpu_self="gpu_self_ns",
        gpu_total="gpu_total_ns",
    )
    count, timed, zero = pl.len().cast(pl.Int64), pl.col("duration_ns").sum(), pl.lit(0, pl.Int64)
    work = (
        profile["activities"]
        .group_by(printed_name())
        .agg(calls=count, cpu_total=zero, cpu_self=zero, gpu_self=timed, gpu_total=timed)
    )
    calls = (
        profile["api_calls"]
        .group_by(pl.col("name").cast(pl.String))
        .agg(calls=count, cpu_total=timed, cpu_self=timed, gpu_self=zero, gpu_total=zero)
    )
    return pl.concat([ops, work, calls])


def printed_name() -> pl.Expr:
    """Return the name that PyTorch prints for GPU work: copies name their source and target memory."""
    source, target = (pl.col(column).cast(pl.String).str.to_titlecase() for column in ("src_memory", "dst_memory"))
    return (
        pl.when(pl.col("kind") == "memcpy")
        .then(pl.format("Memcpy {} ({} -> {})", "copy_kind", source, target))
        .when(pl.col("kind") == "memset")
        .then(pl.format("Memset ({})", target))
        .otherwise(pl.col("name").cast(pl.String))
        .alias("name")
    )


@pytest.mark.parametrize("name", RECORDINGS)
def test_figures_equal_those_of_pytorch(name: str) -> None:
    profile = load_input(recording_file(f"{name}.pt.trace.json.gz"))
    known = figures(profile)
    annotations = set(profile["ranges"]["name"].cast(pl.String).str.replace(r"^ProfilerStep#\d+$", "ProfilerStep*")) | {
        "nccl:all_reduce"
    }
    foreign = profile["api_calls"].filter(~pl.col("tid").is_in(profile["ranges"]["tid"].unique().implode()))
    left_out_ns = foreign["duration_ns"].sum() + profile["tool_figures"]["value"].sum()
    compared = skipped = 0
    mismatches = []
    for called, cells in table(name):
        if called in annotations and cells["CPU total"] == "0.000us":
            continue
        compared += 1
        self_cpu = cell(cells["Self CPU"])
        expected = {
            "cpu_total": cell(cells["CPU total"]),
            "gpu_self": cell(cells["Self CUDA"]),
            "gpu_total": cell(cells["CUDA total"]),
        }
        prefix = called.removesuffix("...")
        is_named = pl.col("name") == called if prefix == called else pl.col("name").str.starts_with(prefix)
        candidates = known.filter(is_named, pl.col("calls") == int(cells["# of Calls"])).to_dicts()
        candidates = [
            row for row in candidates if all(value.is_near(row[column]) for column, value in expected.items())
        ]
        if any(self_cpu.is_near(row["cpu_self"]) for row in candidates):
            continue
        if any(0 < row["cpu_self"] - self_cpu.ns < left_out_ns for row in candidates):
            skipped += 1
        else:
            mismatches.append((called, cells, candidates))
    assert mismatches == []
    assert (compared, skipped) == RECORDINGS[name]
