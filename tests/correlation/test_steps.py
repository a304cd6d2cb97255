"""The numbers of iterations that ranges mark."""

from __future__ import annotations

import polars as pl
import pytest

from tui.correlation.iteration_ranges import mark_steps
from tui.model.schema import conform


def ranges(*names: str) -> pl.DataFrame:
    starts = [100 * index for index in range(len(names))]
    rows = {"name": names, "start_ns": starts, "duration_ns": [90] * len(names), "pid": 1, "tid": 1}
    return conform("ranges", pl.DataFrame(rows))


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (("step 7", "step 9", "step 10"), [7, 9, 10]),
        (("epoch 0 step 7", "epoch 0 step 8"), [7, 8]),
        (("step[DECODE bs=8]", "step[DECODE bs=3]", "step[DECODE bs=4]"), [0, 1, 2]),
        (("iteration 3", "iteration 3"), [0, 1]),
        (("execute_context_0(0)_generation_7(7)", "execute_context_0(0)_generation_8(8)"), [0, 1]),
        (("execute_2_context_1", "execute_3_context_1"), [0, 1]),
        (("step[DECODE bs=8]", "step[EXTEND bs=2 toks=512]", "x", "step[DECODE bs=10]"), [0, 1, None, 2]),
        (("execute_context_0(0)_generation_7(7)",), [0]),
    ],
    ids=["a step each", "an epoch before it", "sizes", "the same", "of vLLM", "of an older vLLM", "phases", "one"],
)
def test_iterations_have_the_increasing_number_of_their_names(names: tuple[str, ...], numbers: list[int]) -> None:
    assert mark_steps(ranges(*names)).ranges["iteration"].to_list() == numbers
