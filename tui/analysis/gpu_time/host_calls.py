"""What the CPU did in stretches of time, as far as API calls tell: which kind of call, which call, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.by_session import by_session
from tui.analysis.gpu_time.api_classes import TITLES, ApiClass, api_class, api_classes
from tui.analysis.gpu_time.blocks import blocks
from tui.analysis.gpu_time.interval_sets import EMPTY, IntervalSet, overlaps, spans_of, union_of
from tui.analysis.gpu_time.sweeps import unions_by_class
from tui.analysis.gpu_time.timelines import classes_of
from tui.analysis.memo import once_per_profile
from tui.model.profile import rows_of_session
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
        parts = [self._in_block(stretches.part(block)) for block in blocks(len(stretches.starts))]
        kind, call, call_ns, on, begun = (
            np.concatenate(column) for column in zip(*(parts or [self._in_block(EMPTY)]), strict=True)
        )
        titles = pl.Series([NO_CALL, *(TITLES[found] for found in ApiClass)], dtype=NAME)
        names = pl.Series([None, *self.by_name], dtype=NAME)
        return pl.DataFrame(
            {
                "cpu_in": titles.gather(pl.Series(kind + 1)),
                "call": names.gather(pl.Series(call + 1)),
                "call_ns": pl.Series(call_ns).set(pl.Series(call < 0), None),
                "api_ns": on,
                "api_calls_begun": begun.astype(np.int64, copy=False),
            }
        )

    def _in_block(self, stretches: IntervalSet) -> tuple[npt.NDArray[np.int8], Ints, Ints, Ints, Ints]:
        """Of each stretch the class of call (-1: none), the call as `_longest`, its time, that of any, calls begun."""
        starts, ends = stretches.starts, stretches.ends
        first, last = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        on = self.any.around(first, last).within(starts, ends)
        best, kind = ends - starts - on, np.full(len(starts), -1, np.int8)
        for found, spans in self.by_class.items():
            covered = spans.around(first, last).within(starts, ends)
            longer = covered > np.where(kind == -1, np.maximum(best - 1, 0), best)
            kind, best = np.where(longer, np.int8(found), kind), np.where(longer, covered, best)
        call, call_ns = self._longest(stretches, kind)
        begun = np.searchsorted(self.begun, ends, side="left") - np.searchsorted(self.begun, starts, side="left")
        return kind, call, call_ns, on, begun

    def _longest(self, stretches: IntervalSet, kind: npt.NDArray[np.int8]) -> tuple[Ints, Ints]:
        """The place in `by_name` of the call that was on longest in each stretch, -1 where none was, and for how long.

        Args:
            stretches: Where to look.
            kind: The class that the call of each stretch must have; -1: any.
        """
        call, longest = np.full(len(kind), -1, np.int64), np.zeros(len(kind), np.int64)
        for place, (name, spans) in enumerate(self.by_name.items()):
            if not len(kind):
                break
            spans = spans.around(int(stretches.starts[0]), int(stretches.ends[-1]))
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


def _on_during(starts: Ints, lengths: Ints, stretches: Sequence[tuple[int, int]]) -> Ints:
    """The places of the intervals that were on in any of some stretches of time, in order."""
    found = [np.zeros(0, np.int64)]
    for block in blocks(len(starts)):
        begun = starts[block]
        ended = begun + lengths[block]
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


def calls_during(profile: Profile, *, session: int, start_ns: int, end_ns: int) -> dict[str, Any] | None:
    """What the CPU did in one stretch of time: the columns of `HostCalls.in_stretches`; None where nothing tells."""
    calls = host_calls(rows_of_session(profile["api_calls"], session), [(start_ns, end_ns)])
    if calls is None:
        return None
    return calls.in_stretches(union_of(np.array([start_ns]), np.array([end_ns]))).row(0, named=True)


def host_calls(api_calls: pl.DataFrame | None, during: Sequence[tuple[int, int]] | None = None) -> HostCalls | None:
    """The API calls of a session, from its rows of ``api_calls``; None where there are none with their times.

    Args:
        api_calls: The rows.
        during: Only the calls that were on in one of a few stretches of time: begin and end of each.
    """
    if api_calls is None:
        return None
    calls, times = api_calls.select("name", "start_ns", "duration_ns"), ("start_ns", "duration_ns")
    if any(calls[name].null_count() for name in times):
        calls = calls.drop_nulls(times)
    if calls.is_empty():
        return None
    if during is not None:
        calls = calls[_on_during(calls["start_ns"].to_numpy(), calls["duration_ns"].to_numpy(), during)]
    calls = calls.select("name", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    if not calls["start_ns"].is_sorted():
        calls = calls.sort("start_ns", maintain_order=True)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    by_class = unions_by_class(starts, ends, classes_of(calls["name"], api_classes))
    costs = calls.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"))
    costly = costs.drop_nulls("name").sort("total_ns", "name", descending=[True, False])["name"].head(NAMES_LIMIT)
    names = {name: place for place, name in enumerate(costly.cast(pl.String).to_list())}

    def places(distinct: pl.Series) -> npt.NDArray[np.int8]:
        return np.array([names.get(name, -1) for name in distinct.to_list()], np.int8)

    by_place = unions_by_class(starts, ends, classes_of(calls["name"], places))
    by_name = {name: by_place[place] for name, place in names.items()}
    of_classes = {ApiClass(found): spans for found, spans in by_class.items()}
    return HostCalls(starts, union_of(starts, ends), of_classes, by_name)
