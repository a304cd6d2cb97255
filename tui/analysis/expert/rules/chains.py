"""Short chains of kernels that come again and again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.analysis.expert import links, needs
from tui.analysis.expert.model import Clean, Family, Found, Verdict, rule
from tui.analysis.expert.words import called, named
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tui.analysis.expert.case import Case
    from tui.analysis.expert.sequences import KernelSequence
    from tui.analysis.gpu_time.interval_sets import IntervalSet

    Ints = npt.NDArray[np.int64]

LENGTHS: Final = range(2, 11)
SHOWN: Final = 3
"""Kernels of a chain that are named."""
WINDOW: Final = 1 << 18
"""Chains are looked for in so many launches of the middle of a long recording."""


_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Of a number times this the highest bits are as good as drawn."""
_PLACE_BITS: Final = 18


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of kernels that repeats, with what its repeats take together."""

    rows: Ints
    """The rows of ``activities`` that its first repeat is."""
    repeats: int
    taken_ns: int
    """From begin to end of each."""
    busy_ns: int
    """Of that, how long the GPU had any work."""
    window_ns: int
    """From begin to end of the launches that were looked at."""

    @property
    def idle_ns(self) -> int:
        """What the GPU waits within it."""
        return self.taken_ns - self.busy_ns


@rule("P11", "fusible-chain", Family.PRECISION, needs.start_times, needs.kernels, link=links.ADVISOR)
def fusible_chain(case: Case) -> Verdict:
    """The same short chain of kernels comes again and again, and the GPU waits inside it."""
    busy, repeats, gap = (
        case.limit("P11", "busy_pct") / 100,
        int(case.limit("P11", "repeats")),
        case.limit("P11", "gap_ns"),
    )
    found = (worst_chain(sequence, case.working(sequence.line), busy, repeats, gap) for sequence in case.sequences)
    worst = max((chain for chain in found if chain is not None), key=lambda chain: chain.idle_ns, default=None)
    if worst is None:
        return Clean("no chain of kernels comes again and again with the GPU waiting inside it")
    share = 100 * worst.taken_ns / worst.window_ns
    if share <= case.limit("P11", "total_pct"):
        return Clean(f"the chain of kernels that the GPU waits longest in takes {percent(share)} of the time")
    names = case.profile["activities"]["name"].gather(pl.Series(worst.rows)).cast(pl.String).to_list()
    busy_pct = 100 * worst.busy_ns / worst.taken_ns if worst.taken_ns else 0.0
    of_all = any(len(sequence) > WINDOW for sequence in case.sequences)
    where = f" in the {WINDOW:,} launches in the middle, which were looked at" if of_all else ""
    return Found(
        f"A chain of {len(names)} kernels ({in_a_row(names)}) comes {worst.repeats:,} times{where}, and the GPU "
        f"has work for {percent(busy_pct)} of its {duration(worst.taken_ns)}.",
        f"Capture exactly this chain in a CUDA graph, or fuse it ({case.compiler}, one kernel of your own).",
        {
            "kernels": len(names),
            "repeats": worst.repeats,
            "busy_pct": busy_pct,
            "chain_ns": worst.taken_ns,
            "idle_ns": worst.idle_ns,
        },
        worst.idle_ns,
        f"the idle time within the chain{where}",
        pl.DataFrame({"name": names}),
        "kernels",
        named(names),
    )


def in_a_row(names: Sequence[str]) -> str:
    """Kernels in the order that they run in: the first three that differ, and how many are not named.

    >>> in_a_row(["f", "g", "g"])
    '`f`, 2 x `g`'
    >>> in_a_row(["f", "g", "f", "h", "h"])
    '`f`, `g`, `f` and 2 more'
    """
    runs = [(name, len(list(same))) for name, same in groupby(map(called, names))]
    told = [f"{times} x {name}" if times > 1 else name for name, times in runs[:SHOWN]]
    more = sum(times for _, times in runs[SHOWN:])
    return ", ".join(told) + f" and {more} more" * bool(more)


def worst_chain(
    sequence: KernelSequence, working: IntervalSet, busy: float, repeats: int, gap_ns: float
) -> Chain | None:
    """The chain of a stream that wastes most, of those that come often while the GPU has work for little of their time.

    Args:
        sequence: The kernels of the stream; no chain holds one that communicates.
        working: When the GPU had any work, of other streams as well.
        busy: It has some for less than this share of each repeat, from begin to end.
        repeats: It comes more often than this.
        gap_ns: A gap this long ends a chain: to launch its kernels as one would not close it.
    """
    first = max(0, (len(sequence) - WINDOW) // 2)
    middle = sequence.part(slice(first, first + WINDOW))
    names, starts, ends = middle.names.astype(np.uint64), middle.starts, middle.ends
    opened, closed = working.until(starts), working.until(ends)
    talks = np.concatenate(([0], np.cumsum(middle.talks)))
    breaks = np.concatenate(([0], np.cumsum(starts[1:] - ends[:-1] >= gap_ns)))
    best: Chain | None = None
    code, n = names, len(names)
    often = np.ones(n, np.bool_)
    for length in LENGTHS:
        if n < length:
            break
        code = code[: n - length + 1] * _MIX + names[length - 1 :] + np.uint64(1)
        taken = ends[length - 1 :] - starts[: n - length + 1]
        own = closed[length - 1 :] - opened[: n - length + 1]
        often = _often(code, often[: len(code)], repeats)
        unbroken = (talks[length:] == talks[:-length]) & (breaks[length - 1 :] == breaks[: n - length + 1])
        held = np.flatnonzero((own < busy * taken) & unbroken & often)
        if len(held) <= repeats:
            continue
        by_code = (
            pl.DataFrame({"code": code[held], "idle": (taken - own)[held]})
            .group_by("code")
            .agg(pl.len().alias("times"), pl.col("idle").sum())
            .filter(pl.col("times") > repeats)
            .sort("idle", "code", descending=[True, False])
        )
        if by_code.is_empty() or (best is not None and by_code["idle"][0] <= best.idle_ns):
            continue
        places = _apart(held[code[held] == np.uint64(by_code["code"][0])], length)
        chain = Chain(
            middle.rows[places[0] : places[0] + length],
            len(places),
            int(taken[places].sum()),
            int(own[places].sum()),
            int(ends.max() - starts[0]),
        )
        if len(places) > repeats and (best is None or chain.idle_ns > best.idle_ns):
            best = chain
    return best


def _often(code: npt.NDArray[np.uint64], before: npt.NDArray[np.bool_], repeats: int) -> npt.NDArray[np.bool_]:
    """Where chains may begin that come more often than ``repeats``: all of them, and few others.

    Args:
        code: Tells chains of a length apart.
        before: The same of chains that are shorter by one: no chain comes more often than its beginning.
        repeats: How often a chain may come.
    """
    # To count what shares a place is quicker than to count each code, and leaves little to be counted so.
    place = ((code * _MIX) >> np.uint64(64 - _PLACE_BITS)).astype(np.int64)
    often: npt.NDArray[np.bool_] = before & (np.bincount(place[before], minlength=1 << _PLACE_BITS)[place] > repeats)
    return often


def _apart(places: Ints, length: int) -> Ints:
    """Of places in order those that do not overlap, taken greedily."""
    kept, free = [], -1
    for place in places.tolist():
        if place >= free:
            kept.append(place)
            free = place + length
    return np.array(kept, np.int64)
