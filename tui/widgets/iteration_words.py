"""What the chart of iterations says in words: of all of them, and of the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.analysis.iterations.tables import sources
from tui.analysis.iterations.uses import USES
from tui.fmt import count, duration, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.analysis.iterations.chart import Bar
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile

_SHORT = dict(
    zip(USES, ("TC", "other kernels", "TC unknown", "memory", "data loading", "files", "CPU", "other"), strict=True)
)


def summary(profile: Profile, times: Mapping[str, Any] | None, chosen: Aggregation, *, session: int) -> str:
    """All iterations of a session in a line: how many, how long, which are chosen, and which could be.

    Args:
        profile: With all iterations.
        times: The row of `iteration_times` of the session; None: no time is known.
        chosen: What the other views show.
        session: Which session.
    """
    if times is None:
        return "no iteration has a time of its own"
    several = profile["sessions"].height > 1
    if sources(profile).get(session) == "whole run":
        return "  ".join([f"session {session}"] * several + ["whole run, not divided"])
    number = times["iterations"]
    parts = [f"session {session}" if several else "", f"{count(number)} iteration{'s' if number != 1 else ''}"]
    if chosen.is_part:
        parts.append(f"shown: {chosen.words.partition(' ')[2]}")
    elif times["steady_first"] is not None and times["steady_iterations"] < number:
        parts.append(f"steady: {times['steady_first']}:{times['steady_last']}, p takes them")
    if number > 1:
        parts.append(f"slowest: {times['slowest']}, {duration(times['max_ns'])}")
    spread = f", std {percent(100 * times['cv'])}" if times["cv"] is not None else ""
    parts.append(f"mean {duration(times['avg_ns'])}{spread}")
    parts += [f"p50 {duration(times['median_ns'])}", f"p95 {duration(times['p95_ns'])}"] if number > 1 else []
    return "  ".join(part for part in parts if part)


def chart_words(rows: pl.DataFrame, window: tuple[int, int], marked: tuple[int, int] | None) -> str:
    """Which iterations are marked, and which are in the chart where not all of them are; empty where there is neither.

    Args:
        rows: What the chart draws.
        window: The first row that is shown, and how many are.
        marked: First and last row of the span; None: there is none.
    """
    numbers = rows["iteration"] if rows.height else None
    if numbers is None:
        return ""
    told = []
    if marked is not None:
        span = numbers.slice(marked[0], marked[1] - marked[0] + 1).drop_nulls()
        told.append(f"span {_from_to(span, ':')}" if len(span) else "span of no iteration")
    if window[1] < rows.height:
        shown = numbers.slice(*window).drop_nulls()
        told.append(f"chart: {_from_to(shown, ' to ')}, z all" if len(shown) else "chart: no iteration, z all")
    return "  ".join(told)


def no_zoom(rows: int, step: int, least: int) -> str:
    """Why the chart stays as it is when it is zoomed in (1) or out (-1).

    Args:
        rows: How many rows there are to draw.
        step: 1 or -1.
        least: So many rows the chart shows at least.

    >>> no_zoom(1, 1, 4), no_zoom(3, 1, 4)
    ('the chart has one bar alone: there is nothing to zoom into', 'the chart shows no fewer than 3 iterations')
    """
    if step < 0:
        return "all iterations are in the chart"
    if rows == 1:
        return "the chart has one bar alone: there is nothing to zoom into"
    return f"the chart shows no fewer than {min(rows, least)} iterations"


def _from_to(numbers: pl.Series, between: str) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{first}" if first == last else f"{first}{between}{last}"


def readout(rows: pl.DataFrame, bar: Bar, times: Mapping[str, Any] | None, *, ascii_only: bool = False) -> str:
    """A bar in a line: which iteration, how long, against the median, and what for.

    Args:
        rows: What the chart draws.
        bar: The bar.
        times: The row of `iteration_times` of the session.
        ascii_only: Write ASCII characters alone.
    """
    row = rows.row(bar.slowest, named=True)
    number = row["iteration"]
    name = row["piece"] if number is None else f"iteration {number}"
    if row["duration_ns"] is None:
        return f"{name}: its time is not known"
    parts = [f"{name}: {duration(row['duration_ns'], ascii_only=ascii_only)}"]
    if number is not None and times is not None and times["iterations"] > 2 and times["median_ns"]:
        parts[0] += f", {row['duration_ns'] / times['median_ns']:.2f} x median"
    if (row["gpu_ns"] or 0) > row["duration_ns"]:
        # Where nothing waits for the GPU, the time of what was launched is none of the iteration's own.
        parts.append(f"launched {duration(row['gpu_ns'], ascii_only=ascii_only)} of GPU work")
    numbers = rows["iteration"].slice(bar.first, bar.last - bar.first + 1).drop_nulls()
    if bar.last > bar.first and len(numbers):
        mean = duration(bar.mean_ns, ascii_only=ascii_only)
        parts.append(f"longest of {numbers[0]} to {numbers[-1]}, mean {mean}")
    if row["duration_ns"] and row[USES[-1]] is not None:
        shares = [(words, 100 * (row[use] or 0) / row["duration_ns"]) for use, words in _SHORT.items()]
        # Where there is little room, the last pieces are left out.
        shares.sort(key=lambda share: -share[1])
        parts += [f"{words} {_about(share)}" for words, share in shares if share]
    kernels = row["kernels_launched"]
    parts.append(f"{count(kernels)} kernel{'s' if kernels != 1 else ''}" if kernels is not None else "")
    return "  ".join(part for part in parts if part)


def _about(share: float) -> str:
    """A share of 0 to 100 without decimals; what is there is never 0%, and what is not all never 100%."""
    whole = min(99, max(1, round(share))) if 0 < share < 100 else round(share)
    return f"{'<' if share < 1 else '>' if 99 < share < 100 else ''}{whole}%"
