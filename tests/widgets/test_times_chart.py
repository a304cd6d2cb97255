"""The chart of iterations on the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from textual.app import App

from tui.analysis.iterations.times import USES
from tui.widgets.charts.iteration_chart import TimesChart

if TYPE_CHECKING:
    from textual.app import ComposeResult


def use_columns(**parts_ms: int) -> dict[str, int]:
    """Return the nanoseconds of each of `USES`."""
    return {use: parts_ms.get(use.removesuffix("_ns"), 0) * 1_000_000 for use in USES}


def iteration_rows(*iterations: tuple[int, dict[str, int]]) -> pl.DataFrame:
    """Return iterations from 3 on, with these milliseconds and uses."""
    return pl.DataFrame(
        [
            {"iteration": 3 + place, "duration_ns": time_ms * 1_000_000, "aggregated": None, **uses}
            for place, (time_ms, uses) in enumerate(iterations)
        ],
        schema={"iteration": pl.Int32, "duration_ns": pl.Int64, "aggregated": pl.Boolean}
        | dict.fromkeys(USES, pl.Int64),
    )


async def chart_lines(frame: pl.DataFrame, width: int, *, has_uses: bool = True) -> list[str]:
    """Return the lines of the chart, without trailing text."""

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            yield TimesChart()

    app = Shown()
    async with app.run_test(size=(width, 12)) as pilot:
        chart = app.query_one(TimesChart)
        chart.show(frame, has_uses=has_uses)
        await pilot.pause()
        return [line.rstrip() for line in chart.render().plain.splitlines()]


TWO = iteration_rows(
    (10, use_columns(tensor_core=4, other_kernel=2, cpu=4)), (5, use_columns(tensor_core=1, other_kernel=2, other=2))
)


async def test_a_column_shows_the_uses_of_its_iteration() -> None:
    assert await chart_lines(TWO, 60) == [
        "    10 ms " + "▚" * 11,
        "          " + "▚" * 11,
        "          " + "▓" * 11 + " " + "▄" * 11,
        "          " + "█" * 11 + " " + "▄" * 11,
        "          " + "█" * 11 + " " + "▄" * 11,
        "          3" + " " * 21 + "4",
        "█ tensor cores  ▓ other kernels  ▚ CPU  ░ other",
    ]


async def test_the_legend_is_not_cut_within_words() -> None:
    assert (await chart_lines(TWO, 40))[-1] == "█ tensor cores  ▓ other kernels  ▚ CPU"


async def test_times_being_computed_are_not_called_unknown() -> None:
    lines = await chart_lines(iteration_rows((10, {}), (5, {})), 30, has_uses=False)
    assert lines[-3:] == ["          ▥▥▥▥▥▥▥▥▥ ▥▥▥▥▥▥▥▥▥", "          3                 4", "…"]


async def test_outliers_do_not_flatten_the_chart() -> None:
    unknown: dict[str, int] = {}
    lines = await chart_lines(iteration_rows((100, unknown), (5, unknown), (4, unknown), (5, unknown)), 50)
    assert lines[0] == "     6 ms " + "↑" * 9 + " " + "▁" * 9 + " " * 11 + "▁" * 9
    assert lines[2] == "          " + " ".join(["▥" * 9] * 4)
    assert lines[-1] == "▥ work unknown  ↑ longer"
