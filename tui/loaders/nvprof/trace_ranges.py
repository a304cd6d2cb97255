"""The NVTX ranges of a trace: nvprof lists their starts, ends and markers among the activities."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.loaders.collector import Collector

MARK: Final = r"^\[(?:Range start|Range end|Marker)\](?: |$)"
"""A regular expression of the names of such rows."""

_PARTS: Final = re.compile(
    r"\[(?P<what>Range start|Range end|Marker)\] ?(?P<name>.*?)(?: \(Domain: (?P<domain>.*)\))?", re.DOTALL
)
_NO_DOMAIN: Final = ("<unnamed>", "default")


def add_ranges(marks: pl.DataFrame, collector: Collector) -> None:
    """Pair starts with ends, and hand over the ranges.

    A trace names no threads: an end closes the last range of its domain and name that is open. What is not closed has
    no duration, as have markers.

    Args:
        marks: line, start_ns and name of the rows, of one trace.
        collector: Gets the rows of the ``ranges`` frame, and an issue where partners are missing.
    """
    starts: list[int] = []
    durations: list[int | None] = []
    names: list[str] = []
    domains: list[str | None] = []
    depths: list[int] = []
    opened: dict[tuple[str, str | None], list[int]] = {}
    open_count = alone = first_alone = 0
    for line, start, text in marks.sort("start_ns", "line").select("line", "start_ns", "name").iter_rows():
        parts = _PARTS.fullmatch(text)
        assert parts is not None
        domain = None if parts["domain"] in _NO_DOMAIN else parts["domain"]
        key = (parts["name"], domain)
        if parts["what"] == "Range end":
            if opened.get(key):
                place = opened[key].pop()
                durations[place] = start - starts[place]
                open_count -= 1
            else:
                alone, first_alone = alone + 1, first_alone or line
            continue
        if parts["what"] == "Range start":
            opened.setdefault(key, []).append(len(starts))
        starts.append(start)
        durations.append(None)
        names.append(parts["name"])
        domains.append(domain)
        depths.append(open_count)
        open_count += parts["what"] == "Range start"
    alone += open_count
    if alone:
        reason = f"{alone} starts or ends of NVTX ranges in this trace have no partner: their duration is unknown"
        collector.issue("warning", first_alone or int(marks["line"][0]), "", reason)
    frame = {"start_ns": starts, "duration_ns": durations, "depth": depths}
    collector.add_frame(
        "ranges",
        pl.DataFrame(frame, schema_overrides={"duration_ns": pl.Int64, "depth": pl.Int32}).with_columns(
            pl.Series("name", names, pl.String).cast(NAME), pl.Series("domain", domains, pl.String).cast(NAME)
        ),
    )
