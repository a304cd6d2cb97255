"""Traces of several ranks put into one file, by whoever wrote the rank before the process: ``[TP01] 4711``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.kineto.categories import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.loaders.chrome.trace import Trace

_PROCESS: Final = re.compile(r"\[([^\[\]]{1,100})\] (.{1,100})")
_RANK: Final = re.compile(r"(?:TP|rank)[-_ ]?(\d{1,6})", re.IGNORECASE)
"""A label that is nothing but a rank; where several ways of parallelism are named, none of them is the rank of all."""


def by_rank(trace: Trace) -> Iterator[tuple[str | None, Trace]]:
    """Each rank's own part of a trace, with its label; the trace itself, with none, where it is of one process.

    Ids of launches begin anew in each rank, so that those of two must never meet.

    Args:
        trace: Its events are taken out of it.
    """
    processes = pl.concat(rows["pid"].unique() for rows in trace.parts.values() if "pid" in rows.columns).unique()
    labels = {found[1] for one in processes.cast(pl.String).drop_nulls() if (found := _PROCESS.fullmatch(one))}
    if not labels:
        yield None, trace
        return
    parts = dict(trace.parts)
    trace.parts.clear()
    for label in sorted(labels):
        yield (
            label,
            replace(
                trace,
                metadata=_of_rank(trace.metadata, label),
                parts={role: _of_label(rows, label) for role, rows in parts.items()},
                instants=_of_label(trace.instants, label),
                flows=_of_label(trace.flows, label),
                names=_of_label(trace.names, label),
            ),
        )


def _of_label(rows: pl.DataFrame, label: str) -> pl.DataFrame:
    """The rows of a rank, with the processes that they had before."""

    def process(pid: str) -> str | None:
        found = _PROCESS.fullmatch(pid)
        return found[2] if found and found[1] == label else None

    own = rows.with_columns(mapped(rows["pid"], process).alias("pid"))
    return own.filter(pl.col("pid").is_not_null())


def _of_rank(metadata: Mapping[str, Any], label: str) -> dict[str, Any]:
    """What stands beside the events, in which the rank is that of the first part."""
    told = metadata.get("distributedInfo")
    info = {key: value for key, value in told.items() if key != "rank"} if isinstance(told, dict) else {}
    rank = _RANK.fullmatch(label)
    return {**metadata, "distributedInfo": info | ({"rank": int(rank[1])} if rank else {})}
