"""The chart of iterations on the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from textual.app import App

from tui.analysis.iterations.times import USES
from tui.widgets.charts.iteration_chart import TimesChart

if TYPE_CHECKING:
    from textual.app import ComposeResult


def used(**parts_ms: int) -> dict[str, int]:
    """Nanoseconds of each of `USES`."""
    return {use: parts_ms.get(use.removesuffix("_ns"), 0) * 1_000_000 for use in USES}


def rows(*iterations: tuple[int, dict[str, int]]) -> pl.DataFrame:
    """Iterations from 3, of so many milliseconds, with what they were used for."""
    return pl.DataFrame(
        [
            {"iteration": 3 + place, "duration_ns": time_ms * 1_000_000, "aggregated": None, **uses}
            for place, (time_ms, uses) in enumerate(iterations)
        ],
        schema={"iteration": pl.Int32, "duration_ns": pl.Int64, "aggregated": pl.Boolean}
        | dict.fromkeys(USES, pl.Int64),
    )


async def drawn(frame: pl.DataFrame, width: int, *, is_all: bool = True) -> list[str]:
    """The lines of the chart, without what stands at their end."""

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            yield TimesChart()

    app = Shown()
    async with app.run_test(size=(width, 12)) as pilot:
        chart = app.query_one(TimesChart)
        chart.show(frame, is_all=is_all)
        await pilot.pause()
        return [line.rstrip() for line in chart.render().plain.splitlines()]


TWO = rows((10, used(tensor_core=4, other_kernel=2, cpu=4)), (5, used(tensor_core=1, other_kernel=2, other=2)))


async def test_a_column_is_what_its_iteration_was_used_for() -> None:
    assert await drawn(TWO, 60) == [
        "    10 ms " + "▚" * 11,
        "          " + "▚" * 11,
        "          " + "▓" * 11 + " " + "▄" * 11,
        "          " + "█" * 11 + " " + "▄" * 11,
        "          " + "█" * 11 + " " + "▄" * 11,
        "          3" + " " * 21 + "4",
        "█ tensor cores  ▓ other kernels  ▚ CPU  ░ other",
    ]


async def test_of_what_the_parts_are_whole_words_alone_are_said() -> None:
    assert (await drawn(TWO, 40))[-1] == "█ tensor cores  ▓ other kernels  ▚ CPU"


async def test_what_is_still_being_worked_out_is_not_called_unknown() -> None:
    lines = await drawn(rows((10, {}), (5, {})), 30, is_all=False)
    assert lines[-3:] == ["          ▥▥▥▥▥▥▥▥▥ ▥▥▥▥▥▥▥▥▥", "          3                 4", "…"]


async def test_one_that_is_far_longer_does_not_flatten_the_others() -> None:
    unknown: dict[str, int] = {}
    lines = await drawn(rows((100, unknown), (5, unknown), (4, unknown), (5, unknown)), 50)
    assert lines[0] == "     6 ms " + "↑" * 9 + " " + "▁" * 9 + " " * 11 + "▁" * 9
    assert lines[2] == "          " + " ".join(["▥" * 9] * 4)
    assert lines[-1] == "▥ use unknown  ↑ longer"
