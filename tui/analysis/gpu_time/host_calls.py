"""What the CPU did in stretches of time, as far as API calls tell: which kind of call, which call, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.by_session import by_session
from tui.analysis.gpu_time.api_classes import TITLES, ApiClass, api_class, api_classes
from tui.analysis.gpu_time.blocks import blocks
from tui.analysis.gpu_time.interval_sets import IntervalSet, overlaps, spans_of, union_of
from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.memo import once_per_profile
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

NO_CALL: Final = "no call"
"""Most of the time no API call was on: the CPU did something else, or nothing."""

NAMES_LIMIT: Final = 64
"""So many different calls of a session, the most costly, are told apart."""


@dataclass(frozen=True, slots=True)
class HostCalls:
    """The API calls of a session with known times, on all its threads."""

    begun: Ints
    """When each began, in order."""
    any: IntervalSet
    """When any was on."""
    by_class: dict[ApiClass, IntervalSet]
    by_name: dict[str, IntervalSet]
    """Of the most costly calls, the most costly first."""

    def in_stretches(self, stretches: IntervalSet) -> pl.DataFrame:
        """What the CPU did in each stretch.

        Columns: cpu_in (title of the kind of call that was on longest, or `NO_CALL` where none was on for longer), call
        (of that kind; of any where there was none), call_ns, api_ns, api_calls_begun.
        """
        starts, ends = stretches.starts, stretches.ends
        on = self.any.within(starts, ends)
        best, kind = ends - starts - on, np.full(len(starts), -1, np.int8)
        for found, spans in self.by_class.items():
            covered = spans.within(starts, ends)
            longer = covered > np.where(kind == -1, np.maximum(best - 1, 0), best)
            kind, best = np.where(longer, np.int8(found), kind), np.where(longer, covered, best)
        call, call_ns = self._longest(stretches, kind)
        begun = np.searchsorted(self.begun, ends, side="left") - np.searchsorted(self.begun, starts, side="left")
        titles = pl.Series([NO_CALL, *(TITLES[found] for found in ApiClass)], dtype=NAME)
        names = pl.Series([None, *self.by_name], dtype=NAME)
        return pl.DataFrame(
            {
                "cpu_in": titles.gather(pl.Series(kind.astype(np.int64) + 1)),
                "call": names.gather(pl.Series(call + 1)),
                "call_ns": pl.Series(call_ns).set(pl.Series(call < 0), None),
                "api_ns": on,
                "api_calls_begun": begun.astype(np.int64),
            }
        )

    def _longest(self, stretches: IntervalSet, kind: npt.NDArray[np.int8]) -> tuple[Ints, Ints]:
        """The place in `by_name` of the call that was on longest in each stretch, -1 where none was, and for how long.

        Args:
            stretches: Where to look.
            kind: The class that the call of each stretch must have; -1: any.
        """
        call, longest = np.full(len(kind), -1, np.int64), np.zeros(len(kind), np.int64)
        for place, (name, spans) in enumerate(self.by_name.items()):
            at, there = overlaps(stretches, spans)
            if not len(at):
                continue
            time = np.minimum(stretches.ends[at], spans.ends[there]) - np.maximum(
                stretches.starts[at], spans.starts[there]
            )
            first = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
            at, time = at[first], np.add.reduceat(time, first)
            longer = (time > longest[at]) & ((kind[at] == -1) | (kind[at] == api_class(name)))
            call[at[longer]], longest[at[longer]] = place, time[longer]
        return call, longest


def _on_during(starts: Ints, ends: Ints, stretches: Sequence[tuple[int, int]]) -> Ints:
    """The places of the intervals that were on in any of some stretches of time, in order."""
    found = [np.zeros(0, np.int64)]
    for block in blocks(len(starts)):
        begun, ended = starts[block], ends[block]
        first, last = begun.min(), ended.max()
        here = [(begin, end) for begin, end in stretches if first < end and last >= begin]
        if here:
            on = np.logical_or.reduce([(begun < end) & (ended >= begin) for begin, end in here])
            found.append(np.flatnonzero(on) + block.start)
    return np.concatenate(found)


@once_per_profile("api_calls")
def call_spans(profile: Profile) -> dict[int, IntervalSet]:
    """For each session with API calls when any of its threads was in one, as far as their times are known."""
    return {session: spans_of(rows) for session, rows in by_session(profile["api_calls"]).items()}


def host_calls(api_calls: pl.DataFrame | None, during: Sequence[tuple[int, int]] | None = None) -> HostCalls | None:
    """The API calls of a session, from its rows of ``api_calls``; None where there are none with their times.

    Args:
        api_calls: The rows.
        during: Only the calls that were on in one of a few stretches of time: begin and end of each.
    """
    if api_calls is None:
        return None
    calls = (
        api_calls.select("name", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .drop_nulls(["start_ns", "end_ns"])
    )  # fmt: skip
    if calls.is_empty():
        return None
    if during is not None:
        calls = calls[_on_during(calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy(), during)]
    if not calls["start_ns"].is_sorted():
        calls = calls.sort("start_ns", maintain_order=True)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    classes = classes_of(calls["name"], api_classes)
    by_class = {
        found: union_of(starts[chosen], ends[chosen])
        for found in ApiClass
        if len(chosen := np.flatnonzero(classes == found))
    }
    costs = calls.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"))
    names = costs.drop_nulls("name").sort("total_ns", "name", descending=[True, False])["name"].head(NAMES_LIMIT)
    place = pl.DataFrame({"name": names, "place": range(len(names))}, schema_overrides={"place": pl.Int16})
    places = calls.select("name").join(place, on="name", how="left", maintain_order="left")["place"].fill_null(-1)
    order = np.argsort(places.to_numpy(), kind="stable")
    edges = np.searchsorted(places.to_numpy()[order], np.arange(len(names) + 1))
    by_name = {
        name: union_of(starts[order[low:high]], ends[order[low:high]])
        for name, low, high in zip(
            names.cast(pl.String).to_list(), edges[:-1].tolist(), edges[1:].tolist(), strict=True
        )
    }
    return HostCalls(starts, union_of(starts, ends), by_class, by_name)
