"""A range of iterations as a global filter, and iterations by a key."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.corpus import recording_file
from tests.profiles import load_one
from tui.analysis.iterations.candidate_keys import candidate_keys
from tui.analysis.iterations.chosen_iterations import iterations_text, select_iterations
from tui.analysis.iterations.iteration_table import iterations, reasons, sources, with_iterations
from tui.analysis.kernels import kernels
from tui.model.aggregation import Aggregation, aggregation
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

STEP = ["gemm", "relu", "gemm<2>", "softmax"]


def training_profile(steps: int = 4, *, partial_launches: int = 0, **fields: Any) -> Any:
    """Return steps of four kernels, 10 ns apart and 6 ns long; each launched 100 ns before it ran, in its own op."""
    names = STEP[len(STEP) - partial_launches :] + STEP * steps
    rows = range(len(names))
    return make_profile(
        activities=[
            kernel(
                name,
                6,
                start_ns=1000 + 10 * index,
                device=0,
                stream=7,
                correlation=index,
                op=index,
                short_name=name[:4],
            )
            for index, name in zip(rows, names, strict=True)
        ],
        api_calls=[
            {"name": "cudaLaunchKernel", "start_ns": 900 + 10 * index, "duration_ns": 3, "correlation": index, "tid": 1}
            for index in rows
        ]
        + [
            {"name": "cudaDeviceSynchronize", "start_ns": 905 + 40 * index, "duration_ns": 2, "tid": 1}
            for index in range(4)
        ],
        ops=[
            {"op": index, "name": f"aten::{names[index]}", "start_ns": 899 + 10 * index, "duration_ns": 6, "tid": 1}
            for index in rows
        ],
        ranges=[{"name": "epoch", "start_ns": 0, "duration_ns": 5000, "tid": 1}]
        + [{"name": "forward", "start_ns": 901 + 40 * index, "duration_ns": 15, "tid": 1} for index in range(steps)],
        **fields,
    )


def frame_heights(profile: Any) -> dict[str, int]:
    return {name: profile[name].height for name in ("activities", "api_calls", "ops", "ranges")}


def test_a_range_of_found_iterations_keeps_their_rows_and_the_op_numbers() -> None:
    profile = training_profile(4)
    selected = select_iterations(profile, Aggregation(1, 2))
    # The first op of each step starts 1 ns before its launch, in the previous step.
    assert frame_heights(selected) == {"activities": 8, "api_calls": 10, "ops": 8, "ranges": 2}
    assert selected["activities"]["iteration"].to_list() == [1] * 4 + [2] * 4
    assert selected["activities"]["op"].to_list() == list(range(4, 12))
    assert selected["ops"]["op"].to_list() == list(range(5, 13))
    assert iterations(selected)["iteration"].to_list() == [1, 2]
    assert iterations(selected)["time_pct"].to_list() == [50.0, 50.0]
    columns = ["start_ns", "duration_ns", "kernels_launched", "gpu_ns", "busy_ns", "idle_ns"]
    assert iterations(selected).select(columns).equals(iterations(profile)[1:3].select(columns))
    assert (iterations_text(selected), iterations_text(profile)) == ("iterations 1:2", "")
    assert kernels(selected)["calls"].sum() == 8


def test_all_iterations_include_partial_ones() -> None:
    profile = training_profile(3, partial_launches=2)
    assert frame_heights(select_iterations(profile, Aggregation())) == frame_heights(profile)
    assert select_iterations(profile, Aggregation(0, None))["activities"].height == 12
    assert select_iterations(profile, Aggregation(None, 1))["activities"].height == 8


def test_recorded_iterations_are_selected_by_their_own_numbers() -> None:
    profile = make_profile(
        ranges=[
            {
                "name": f"ProfilerStep#{number}",
                "start_ns": 100 * number,
                "duration_ns": 90,
                "tid": 1,
                "iteration": number,
            }
            for number in (3, 4, 5)
        ]
        + [{"name": "forward", "start_ns": 410, "duration_ns": 20, "tid": 1}],
        activities=[
            kernel("a", 50, start_ns=450, iteration=3, correlation=1),
            kernel("a", 50, start_ns=550, iteration=4, correlation=2),
            kernel("b", 50, start_ns=250),
        ],
        api_calls=[
            {"name": "launch", "start_ns": 310, "duration_ns": 2, "correlation": 1},
            {"name": "launch", "start_ns": 420, "duration_ns": 2, "correlation": 2},
            {"name": "sync", "start_ns": 480, "duration_ns": 2},
            {"name": "sync", "start_ns": 495, "duration_ns": 2},
        ],
    )
    selected = select_iterations(profile, Aggregation(4, 4))
    assert frame_heights(selected) == {"activities": 1, "api_calls": 2, "ops": 0, "ranges": 2}
    assert selected["api_calls"]["start_ns"].to_list() == [420, 480]
    assert selected["ranges"]["name"].to_list() == ["ProfilerStep#4", "forward"]
    assert sources(selected) == {0: "recorded"}
    with pytest.raises(ProftuiError, match="iteration 0 to 2 not found; iterations: 3 to 5"):
        select_iterations(profile, Aggregation(0, 2))


def test_summaries_of_the_input_are_left_out_with_an_issue() -> None:
    profile = training_profile(3, summary=[summary_row("gpu", "gemm", 3, 90)])
    selected = select_iterations(profile, Aggregation(1, 1))
    assert selected["summary"].is_empty()
    assert selected["issues"].select("session", "severity", "reason").rows() == [
        (
            0,
            "info",
            "1 total of the whole run cannot be split by iteration: not shown for iteration 1",
        )
    ]
    assert set(selected["issues"].schema.items()) == set(FRAMES["issues"].items())


def test_a_run_that_does_not_repeat_is_one_iteration() -> None:
    profile = make_profile(activities=[kernel("a", 5, start_ns=0)], summary=[summary_row("gpu", "a", 1, 5)])
    selected = select_iterations(profile, Aggregation(0, 0))
    assert (selected["activities"].height, selected["summary"].height, selected["issues"].height) == (1, 1, 0)
    with pytest.raises(
        ProftuiError,
        match=r"iteration 1 not found; the only iteration is 0 \(whole run: too few launches for a pattern: 1",
    ):
        select_iterations(profile, Aggregation(1, 1))


def test_sessions_without_the_iteration_are_left_out_with_an_issue() -> None:
    profile = make_profile(
        activities=[kernel("a", 5, start_ns=0, iteration=7), kernel("a", 5, start_ns=0, session=1)],
    )
    selected = select_iterations(profile, Aggregation(7, 7))
    assert selected["activities"]["session"].to_list() == [0]
    assert selected["issues"]["reason"].to_list() == ["no iteration 7 in this session: session skipped"]
    assert selected["sessions"].height == 2


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Aggregation(1, 7), "iterations 1:7 (there are 1 to 2)"),
        (Aggregation(2, 7), "iterations 2:7 (there is 2)"),
        (Aggregation(1, None), "iterations 1:"),
        (Aggregation(None, 9), "iterations :9 (there are 0 to 2)"),
        (Aggregation(0, 2), "iterations 0:2"),
    ],
)
def test_a_range_beyond_the_iterations_states_existing_ones(selection: Aggregation, message: str) -> None:
    assert iterations_text(select_iterations(training_profile(3), selection)) == message


def test_an_input_without_times_has_no_iterations_to_select() -> None:
    with pytest.raises(ProftuiError, match="no iterations: start times not recorded"):
        select_iterations(make_profile(activities=[kernel("a", 5)]), Aggregation(0, 1))


@given(st.integers(3, 6), st.integers(0, 3), st.integers(0, 5), st.integers(0, 5))
def test_selecting_iterations_is_idempotent_and_additive(
    steps: int, partial_launches: int, first_choice: int, second_choice: int
) -> None:
    profile = training_profile(steps, partial_launches=partial_launches)
    first, last = sorted((min(first_choice, steps - 1), min(second_choice, steps - 1)))
    selection = Aggregation(first, last)
    once = select_iterations(profile, selection)
    twice = select_iterations(once, selection)
    assert all(twice[name].equals(once[name]) for name in FRAMES)
    assert iterations(twice).equals(iterations(once))
    single_iterations = [select_iterations(profile, Aggregation(number, number)) for number in range(first, last + 1)]
    for name in ("activities", "api_calls", "ops"):
        assert sum(iteration[name].height for iteration in single_iterations) == once[name].height
    assert (
        sum(iteration["activities"]["duration_ns"].sum() for iteration in single_iterations)
        == once["activities"]["duration_ns"].sum()
    )


# --- keys ------------------------------------------------------------------------------------------------------------


def iterations_by_key(profile: Any, key: str) -> list[tuple[Any, ...]]:
    return iterations(with_iterations(profile, key)).select("iteration", "phase", "name", "kernels_launched").rows()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("softmax", "softmax"),
        ("soft", "soft"),
        ("aten::softmax", "aten::softmax"),
        ("ATEN::SOFT", "aten::softmax"),
    ],
    ids=["kernel", "short name", "op", "part of an op"],
)
def test_an_iteration_ends_where_its_key_ends(key: str, name: str) -> None:
    assert iterations_by_key(training_profile(3, partial_launches=1), key) == [
        (None, "partial", name, 1),
        *((number, "whole", name, 4) for number in range(3)),
    ]


def test_work_after_the_last_key_is_outside_iterations() -> None:
    profile = training_profile(3)
    assert iterations_by_key(profile, "relu") == [
        (None, "partial", "relu", 2),
        (0, "whole", "relu", 4),
        (1, "whole", "relu", 4),
        (None, "tail", "relu", 2),
    ]
    assert reasons(with_iterations(profile, "relu")) == {
        0: (
            "key: kernel relu ends 2 iterations; the 2 launches before belong to an iteration that started "
            "before recording"
        )
    }
    selected = select_iterations(profile, Aggregation(1, 1, "relu"))
    assert selected["activities"]["name"].to_list() == ["gemm<2>", "softmax", "gemm", "relu"]
    assert iterations_text(selected) == "iteration 1 by the key relu"
    assert select_iterations(selected, Aggregation(1, 1, "relu"))["activities"].equals(selected["activities"])


def test_ranges_and_calls_can_be_keys_and_replace_recorded_iterations() -> None:
    profile = training_profile(4)
    assert [row[:2] for row in iterations_by_key(profile, "forward")] == [
        (None, "partial"),
        (0, "whole"),
        (1, "whole"),
        (2, "whole"),
        (None, "tail"),
    ]
    assert len(iterations_by_key(profile, "cudaDeviceSynchronize")) == 5
    recorded = make_profile(
        activities=[kernel("a", 5, start_ns=start_ns, iteration=7) for start_ns in range(0, 60, 10)],
        ranges=[{"name": "step 7", "start_ns": 0, "duration_ns": 60, "iteration": 7}],
    )
    profile_by_key = with_iterations(recorded, "a")
    assert profile_by_key["activities"]["iteration"].to_list() == [0, 1, 2, 3, 4, 5]
    assert profile_by_key["ranges"]["iteration"].to_list() == [None]
    assert sources(profile_by_key) == {0: "key"}


def test_of_streams_with_equally_many_keys_the_first_ends_the_iterations() -> None:
    work = [
        kernel("a", 5, start_ns=start_ns, stream=stream) for start_ns, stream in ((0, 9), (10, 7), (40, 9), (50, 7))
    ]
    profile = with_iterations(make_profile(activities=work), "a")
    # The ends in stream 7 are at 15 and 55.
    assert profile["activities"]["iteration"].to_list() == [0, 0, 1, 1]


def test_nested_keys_end_no_iteration() -> None:
    ops = [
        {"name": "step", "start_ns": start, "duration_ns": duration_ns, "tid": tid, "op": number}
        for number, (start, duration_ns, tid) in enumerate(
            [(0, 50, 1), (10, 20, 1), (20, 10, 2), (60, 30, 1), (100, 10, 1)]
        )
    ]
    profile = make_profile(ops=ops, activities=[kernel("a", 5, start_ns=start_ns) for start_ns in range(0, 100, 10)])
    # The ends are at 50, 90 and 110, after all work has begun.
    assert [(row[0], row[3]) for row in iterations_by_key(profile, "step")] == [(0, 5), (1, 4), (2, 1)]


def test_a_session_without_the_key_is_one_iteration() -> None:
    profile = make_profile(
        activities=[
            *(kernel("a", 5, start_ns=10 * index) for index in range(4)),
            *(kernel("b", 5, start_ns=10 * index, session=1) for index in range(4)),
        ]
    )
    assert reasons(with_iterations(profile, "a")) == {
        0: "key: kernel a ends 4 iterations",
        1: "whole run: kernel a not found",
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("gem", "--key gem: 4 names match; for example aten::gemm, aten::gemm<2>, gemm, gemm<2>"),
        (
            "softmx",
            "--key softmx: no kernel, op, range or API call of this name; similar names: softmax, soft, aten::softmax",
        ),
        (
            "zzzzzz",
            "--key zzzzzz: no kernel, op, range or API call of this name; to list names: proftui report FILE --view "
            "kernels",
        ),
    ],
    ids=["several", "near", "none"],
)
def test_an_unknown_or_ambiguous_key_lists_names(key: str, message: str) -> None:
    with pytest.raises(ProftuiError) as error:
        with_iterations(training_profile(3), key)
    assert str(error.value).startswith(message)


def test_candidate_keys_are_sorted_by_calls_per_iteration_and_evenness() -> None:
    profile = make_profile(
        activities=[
            *(
                kernel(name, 6, start_ns=10 * index, device=0, stream=7)
                for index, name in enumerate(["a", "b", "a", "c"] * 4)
            ),
            copy("HtoD", 3, start_ns=5, device=0, stream=8),
        ]
    )
    rows = candidate_keys(profile).drop("session").rows()
    assert rows == [
        ("kernel", "b", 4, 1, 40, 0.0, pytest.approx(100 * 120 / 156)),
        ("kernel", "c", 4, 1, 40, 0.0, pytest.approx(100 * 120 / 156)),
        ("kernel", "a", 8, 2, 20, 0.0, pytest.approx(100 * 140 / 156)),
    ]
    assert candidate_keys(make_profile()).is_empty()


def test_the_spacing_of_calls_that_end_at_the_same_time_has_no_variation() -> None:
    ranges = [{"name": "all at once", "start_ns": 4, "duration_ns": 0, "pid": 1, "tid": 1} for _ in range(3)]
    profile = make_profile(activities=[{"name": "k", "start_ns": 0, "duration_ns": 5}], ranges=ranges)
    row = candidate_keys(profile).row(0, named=True)
    assert (row["name"], row["calls"], row["spacing_ns"], row["spacing_cv"]) == ("all at once", 3, 0, None)


def test_recorded_steps_of_a_real_trace_are_found_again_by_their_last_op() -> None:
    profile = load_one(recording_file("resnet50_amp.pt.trace.json.gz"))
    recorded = iterations(profile).drop_nulls("iteration")
    ops = candidate_keys(profile).filter(pl.col("key_kind") == "op", pl.col("per_iteration") == 1)
    assert ops.height > 0
    iterations_of_key = iterations(with_iterations(profile, "Optimizer.step#SGD.step")).drop_nulls("iteration")
    assert iterations_of_key.height == recorded.height == 5


# --- ranges on the command line --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3:7", (3, 7)),
        ("3:", (3, None)),
        (":7", (None, 7)),
        ("5", (5, 5)),
        (":", (None, None)),
        (" 3 : 7 ", (3, 7)),
    ],
)
def test_ranges_of_iterations(text: str, expected: tuple[int | None, int | None]) -> None:
    assert aggregation(text, None) == Aggregation(*expected)


@pytest.mark.parametrize("text", ["", "a", "3-7", "7:3", "3:7:9", "-1", "99999999999", "٣"])
def test_invalid_ranges_of_iterations(text: str) -> None:
    with pytest.raises(ProftuiError, match="use 3:7, 3:, :7, 5 or phase=decode"):
        aggregation(text, None)
