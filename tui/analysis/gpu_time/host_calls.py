"""CPU activity in given intervals: API calls, data loading and I/O, or none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import add
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import (
    EMPTY,
    IntervalSet,
    blocks,
    interval_union,
    overlapping_pairs,
    row_intervals,
)
from tui.analysis.gpu_time.timelines import classify_values, unions_by_class
from tui.analysis.grouping import partition_by_session
from tui.analysis.memo import once_per_profile
from tui.data.user_files import HINT, checked_pattern, parse_user_file, rules_with_users, tables, user_file_path
from tui.model.errors import ProftuiError
from tui.model.profile import session_rows
from tui.model.schema import NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]
    from pathlib import Path


class ApiClass(IntEnum):
    """A class of API calls, in the order in which their patterns are tried."""

    SYNC = 0
    """The call waits until GPU work is done."""
    COPY = 1
    """Copies, sets and prefetches."""
    LAUNCH = 2
    MEMORY = 3
    """Memory is allocated, freed or mapped."""
    LOADING = 4
    """Code is loaded, or looked up in what is loaded."""
    OTHER = 5


TITLES: Final = {
    ApiClass.SYNC: "sync",
    ApiClass.COPY: "copy call",
    ApiClass.LAUNCH: "launch",
    ApiClass.MEMORY: "memory call",
    ApiClass.LOADING: "code loading",
    ApiClass.OTHER: "other call",
}
"""The titles of the classes in tables."""

SYNCHRONIZING: Final = r"(?i)synchronize|(?:event|signal)_?wait"
"""Names of calls in which the CPU waits for the GPU."""
_PATTERNS: Final = (
    (ApiClass.SYNC, re.compile(SYNCHRONIZING)),
    (ApiClass.COPY, re.compile(r"Memcpy|Memset|MemPrefetch|[Mm]emory_?(?:async_)?copy|TexImageCopy")),
    (ApiClass.LAUNCH, re.compile(r"Launch")),
    (
        ApiClass.MEMORY,
        re.compile(
            r"Malloc|Free(?:Host|Array|Async|Mipmapped)?(?:_v[0-9]+|_ptsz)*$|Mem(?:Alloc|Free|Create|Release|Map|Unmap|"
            r"SetAccess|Address|Pool|HostAlloc|HostGet|HostRegister|HostUnregister|ExportTo|ImportFrom|"
            r"RetainAllocation|GetAllocation)|Host(?:Alloc|Register|Unregister)|Ipc\w*MemHandle"
        ),
    ),
    (
        ApiClass.LOADING,
        re.compile(
            r"Module|Library|GetProcAddress|GetFuncBySymbol|DriverEntryPoint|Link(?:Create|Add|Complete|Destroy)|"
            r"RegisterFatBinary|Kernel(?:Get|Set)|Func(?:Get|Set)|^(?:cu|hip)Init$|Ctx(?:Create|Destroy)|PrimaryCtx"
        ),
    ),
)


def api_class(name: str) -> ApiClass:
    """Return the class of a runtime or driver call of CUDA or HIP, by its name.

    >>> [api_class(name).name for name in ("cudaStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cudaGraphLaunch_v10000")]
    ['SYNC', 'COPY', 'LAUNCH']
    >>> [api_class(name).name for name in ("cudaMalloc", "cuModuleLoadData", "cudaGetDevice")]
    ['MEMORY', 'LOADING', 'OTHER']

    Calls that make a stream wait, not the program, are not SYNC.

    >>> [api_class(name).name for name in ("cudaStreamWaitEvent", "cuStreamWaitValue32")]
    ['OTHER', 'OTHER']
    """
    return next((call_class for call_class, pattern in _PATTERNS if pattern.search(name)), ApiClass.OTHER)


def api_classes(names: pl.Series) -> npt.NDArray[np.int8]:
    """Return the `ApiClass` of each of distinct names."""
    return np.array([api_class(name) for name in names.to_list()], np.int8)


NO_CALL: Final = "outside API calls"
"""For most of the time no API call was active."""

NAMES_LIMIT: Final = 64
"""The number of functions distinguished per session, most time first."""


@dataclass(frozen=True, slots=True)
class HostCalls:
    """The API calls of a session with known times, on all its threads."""

    starts: Ints
    """Start times, ascending."""
    any: IntervalSet
    """Times with any call active."""
    by_class: dict[ApiClass, IntervalSet]
    by_name: dict[str, IntervalSet]
    """The functions of the calls with most time, most time first."""

    def in_intervals(self, intervals: IntervalSet) -> pl.DataFrame:
        """Return the CPU's activity in each interval.

        Columns: cpu_in (title of the class of calls that was active longest, or `NO_CALL` if the time without calls is
        longer), call (the longest one of that class; of any class for `NO_CALL`), call_ns, api_ns, api_calls_begun.
        """
        parts = [self._in_block(intervals.sliced(block)) for block in blocks(len(intervals.starts))]
        kind, call, call_ns, in_call_ns, call_starts = (
            np.concatenate(column) for column in zip(*(parts or [self._in_block(EMPTY)]), strict=True)
        )
        titles = pl.Series([NO_CALL, *(TITLES[call_class] for call_class in ApiClass)], dtype=NAME)
        names = pl.Series([None, *self.by_name], dtype=NAME)
        return pl.DataFrame(
            {
                "cpu_in": titles.gather(pl.Series(kind + 1)),
                "call": names.gather(pl.Series(call + 1)),
                "call_ns": pl.Series(call_ns).set(pl.Series(call < 0), None),
                "api_ns": in_call_ns,
                "api_calls_begun": call_starts.astype(np.int64, copy=False),
            }
        )

    def _in_block(self, intervals: IntervalSet) -> tuple[npt.NDArray[np.int8], Ints, Ints, Ints, Ints]:
        """Return for each interval: class of call (-1: none), its call and time, time in any call, and call starts."""
        starts, ends = intervals.starts, intervals.ends
        first, last = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        in_call_ns = self.any.around(first, last).covered_within(starts, ends)
        best, kind = ends - starts - in_call_ns, np.full(len(starts), -1, np.int8)
        for call_class, spans in self.by_class.items():
            covered = spans.around(first, last).covered_within(starts, ends)
            longer = covered > np.where(kind == -1, np.maximum(best - 1, 0), best)
            kind, best = np.where(longer, np.int8(call_class), kind), np.where(longer, covered, best)
        call, call_ns = self._longest(intervals, kind)
        call_starts = np.searchsorted(self.starts, ends, side="left") - np.searchsorted(
            self.starts, starts, side="left"
        )
        return kind, call, call_ns, in_call_ns, call_starts

    def _longest(self, intervals: IntervalSet, kind: npt.NDArray[np.int8]) -> tuple[Ints, Ints]:
        """Return the index in `by_name` of the longest call in each interval (-1: none), and its time.

        Args:
            intervals: The time intervals.
            kind: The class that the call of each interval must have; -1: any.
        """
        call, longest = np.full(len(kind), -1, np.int64), np.zeros(len(kind), np.int64)
        for index, (name, spans) in enumerate(self.by_name.items()):
            if not len(kind):
                break
            spans = spans.around(int(intervals.starts[0]), int(intervals.ends[-1]))
            interval_index, call_index = overlapping_pairs(intervals, spans)
            if not len(interval_index):
                continue
            time = np.minimum(intervals.ends[interval_index], spans.ends[call_index]) - np.maximum(
                intervals.starts[interval_index], spans.starts[call_index]
            )
            first = np.flatnonzero(np.concatenate(([True], interval_index[1:] != interval_index[:-1])))
            interval_index, time = interval_index[first], np.add.reduceat(time, first)
            longer = (time > longest[interval_index]) & (
                (kind[interval_index] == -1) | (kind[interval_index] == api_class(name))
            )
            call[interval_index[longer]], longest[interval_index[longer]] = index, time[longer]
        return call, longest


def _calls_during(starts: Ints, lengths: Ints, intervals: Sequence[tuple[int, int]]) -> Ints:
    """Return the indices of the calls that overlap any of some time intervals, ascending."""
    indices = [np.zeros(0, np.int64)]
    for block in blocks(len(starts)):
        block_starts = starts[block]
        block_ends = block_starts + lengths[block]
        first, last = block_starts.min(), block_ends.max()
        block_intervals = [(begin, end) for begin, end in intervals if first < end and last >= begin]
        if block_intervals:
            overlaps = np.logical_or.reduce(
                [(block_starts < end) & (block_ends >= begin) for begin, end in block_intervals]
            )
            indices.append(np.flatnonzero(overlaps) + block.start)
    return np.concatenate(indices)


@once_per_profile("api_calls")
def call_intervals(profile: Profile) -> dict[int, IntervalSet]:
    """Return the times in which any thread of each session was in an API call, as far as known."""
    return {session: row_intervals(rows) for session, rows in partition_by_session(profile["api_calls"]).items()}


def calls_during(profile: Profile, *, session: int, start_ns: int, end_ns: int) -> dict[str, Any] | None:
    """Return the CPU's activity in one interval, as `HostCalls.in_intervals`; None if it is unknown."""
    calls = host_calls(session_rows(profile["api_calls"], session), [(start_ns, end_ns)])
    if calls is None:
        return None
    return calls.in_intervals(interval_union(np.array([start_ns]), np.array([end_ns]))).row(0, named=True)


def host_calls(api_calls: pl.DataFrame | None, during: Sequence[tuple[int, int]] | None = None) -> HostCalls | None:
    """Return the API calls of a session, from its rows of ``api_calls``; None if there are none with their times.

    Args:
        api_calls: The rows.
        during: Only the calls that were active in one of a few time intervals: start and end of each.
    """
    if api_calls is None:
        return None
    calls, times = api_calls.select("name", "start_ns", "duration_ns"), ("start_ns", "duration_ns")
    if any(calls[name].null_count() for name in times):
        calls = calls.drop_nulls(times)
    if calls.is_empty():
        return None
    if during is not None:
        calls = calls[_calls_during(calls["start_ns"].to_numpy(), calls["duration_ns"].to_numpy(), during)]
    calls = calls.select("name", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    if not calls["start_ns"].is_sorted():
        calls = calls.sort("start_ns", maintain_order=True)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    by_class = unions_by_class(starts, ends, classify_values(calls["name"], api_classes))
    costs = calls.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"))
    costly = costs.drop_nulls("name").sort("total_ns", "name", descending=[True, False])["name"].head(NAMES_LIMIT)
    names = {name: index for index, name in enumerate(costly.cast(pl.String).to_list())}

    def index_of_name(distinct: pl.Series) -> npt.NDArray[np.int8]:
        return np.array([names.get(name, -1) for name in distinct.to_list()], np.int8)

    unions = unions_by_class(starts, ends, classify_values(calls["name"], index_of_name))
    by_name = {name: unions[index] for name, index in names.items()}
    class_unions = {ApiClass(call_class): spans for call_class, spans in by_class.items()}
    return HostCalls(starts, interval_union(starts, ends), class_unions, by_name)


SHIPPED: Final = "host_phases.toml"
NAME_LIMIT: Final = 4000
"""The number of characters of a name that are examined."""


class HostPhase(IntEnum):
    """A phase of host activity, recognized by the name of an op or range."""

    NONE = 0
    DATALOADER = 1
    IO = 2


_PHASES: Final = {"dataloader": HostPhase.DATALOADER, "io": HostPhase.IO}


def user_phases_path() -> Path:
    """Return the path of the user's own phases."""
    return user_file_path(SHIPPED)


def phase_rules() -> tuple[tuple[HostPhase, str], ...]:
    """Return the rules of the user, then those of the program: phase and pattern.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    return rules_with_users(SHIPPED, user_phases_path(), parse_phases, add)


def parse_phases(text: str, source: str) -> tuple[tuple[HostPhase, str], ...]:
    """Read rules from TOML.

    Args:
        text: The TOML document: an array of tables ``rule``.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule has no known phase or no pattern that is a regular expression.
    """
    rules = []
    for entry, location in tables(parse_user_file(text, source), "rule", source):
        phase, pattern = entry.get("phase"), entry.get("pattern")
        if phase not in _PHASES:
            raise ProftuiError(f"{location}: phase must be {' or '.join(_PHASES)}, not {phase}", HINT)
        if not isinstance(pattern, str) or not pattern:
            raise ProftuiError(f"{location}: pattern must be a string", HINT)
        rules.append((_PHASES[phase], checked_pattern(pattern, location)))
    return tuple(rules)


def host_phases_by_name(names: pl.Series) -> npt.NDArray[np.int8]:
    """Return the `HostPhase` of each name.

    >>> names = pl.Series(["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "aten::mm"])
    >>> host_phases_by_name(names).tolist()
    [1, 0]
    """
    text = names.cast(pl.String).fill_null("").str.slice(0, NAME_LIMIT)
    phases = pl.coalesce(
        pl.lit(None, pl.Int8),
        *(
            pl.when(pl.col("text").str.contains(f"(?i){pattern}")).then(pl.lit(int(phase), pl.Int8))
            for phase, pattern in phase_rules()
        ),
        pl.lit(int(HostPhase.NONE), pl.Int8),
    )
    return text.alias("text").to_frame().select(phases).to_series().to_numpy()


def host_phases(profile: Profile, session: int) -> dict[HostPhase, IntervalSet]:
    """Return when a session was in ops or ranges of each phase, on any thread; without phases that no name matches."""
    return phases_in(*(profile[frame].filter(pl.col("session") == session) for frame in ("ops", "ranges")))


def phases_in(*frames: pl.DataFrame) -> dict[HostPhase, IntervalSet]:
    """Return `host_phases` for a session's rows of ``ops`` and of ``ranges``."""
    intervals_by_phase: dict[HostPhase, IntervalSet] = {}
    for frame in frames:
        rows = frame.select("name", "start_ns", "duration_ns").drop_nulls(["start_ns", "duration_ns"])
        phases = classify_values(rows["name"], host_phases_by_name)
        for phase in (HostPhase.DATALOADER, HostPhase.IO):
            chosen = rows.filter(pl.Series(phases == phase))
            if chosen.height:
                intervals_by_phase[phase] = intervals_by_phase.get(phase, EMPTY) | row_intervals(chosen)
    return intervals_by_phase
