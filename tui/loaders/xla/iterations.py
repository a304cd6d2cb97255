"""The iterations of an XLA trace."""

from __future__ import annotations

import polars as pl

from tui.loaders.linking.steps import Steps, mark_steps
from tui.model.schema import NAME


def steps_of(ranges: pl.DataFrame, derived: pl.DataFrame) -> Steps:
    """Find the ranges that mark iterations.

    Those are, in this order: the program's own step annotations, which have a number; the line ``Steps`` that a
    converter made of them; the runs of the XLA module that took longest, where there are several; else what
    `tui.loaders.linking.steps.mark_steps` finds.

    Args:
        ranges: As `tui.loaders.xla.host.ranges_of` makes them.
        derived: The derived lines of GPUs.
    """
    plain = ranges.drop("step")
    annotated = ranges.filter(pl.col("step").is_between(0, (1 << 31) - 1), pl.col("name").is_not_null())
    if annotated.height:
        name = annotated.select(_without_number()).to_series().mode().sort()[0]
        own = (_without_number() == name) & pl.col("step").is_between(0, (1 << 31) - 1)
        marked = ranges.with_columns(pl.when(own).then("step").cast(pl.Int32).alias("iteration")).drop("step")
        return Steps(marked, f"step annotation {name}")
    for line, source in (("Steps", "the profiler's line Steps"), ("XLA Modules", "runs of the XLA module")):
        marks, what = _of_line(derived, line)
        if marks is not None:
            return Steps(pl.concat([plain, marks.select(plain.columns)]), f"{source} {what}".rstrip())
    return mark_steps(plain, kind="annotation")


def _without_number() -> pl.Expr:
    """The name of a step without its number, which a converter writes behind it (``train 7``)."""
    return pl.col("name").cast(pl.String).str.replace(r"[ #]*\d+$", "")


def _of_line(derived: pl.DataFrame, line: str) -> tuple[pl.DataFrame | None, str]:
    """The rows of a derived line of the first GPU that has it, as ranges that mark iterations; and whose they are."""
    rows = derived.filter(pl.col("thread").str.starts_with(line), pl.col("name").is_not_null()).sort("start_ns")
    if rows.is_empty():
        return None, ""
    first = rows.row(0, named=True)
    rows = rows.filter(device=first["device"], thread=first["thread"])
    what = ""
    if line == "XLA Modules":
        # The number in brackets is that of the program: jit_step(123).
        rows = rows.with_columns(pl.col("name").cast(pl.String).str.replace(r"\(\d+\)$", "").alias("module"))
        longest = rows.group_by("module").agg(pl.col("duration_ns").sum()).sort("duration_ns", "module")["module"][-1]
        rows = rows.filter(module=longest)
        what = str(longest)
        if rows.height < 2:
            return None, ""
    numbers = rows["name"].cast(pl.String).str.extract(r"(\d+)$", 1).cast(pl.Int32, strict=False)
    counted = numbers.null_count() > 0 or numbers.n_unique() < len(numbers)
    return rows.select(
        "name",
        pl.lit(line, NAME).alias("domain"),
        "start_ns",
        "duration_ns",
        pl.lit(None, pl.Int64).alias("pid"),
        pl.lit(None, pl.Int64).alias("tid"),
        pl.lit(0, pl.Int32).alias("depth"),
        (pl.int_range(pl.len(), dtype=pl.Int32) if counted else pl.lit(numbers)).alias("iteration"),
        "line",
    ), what
