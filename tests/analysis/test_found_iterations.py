"""Iterations found by repetition, in sessions that record none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.corpus import recording_file, shared_file
from tests.profiles import load_one
from tests.render_trace import FOOTER, TraceRow, text_table
from tui.analysis.capabilities import inspect
from tui.analysis.iterations.candidate_keys import key_choices
from tui.analysis.iterations.iteration_table import iterations, reasons, sources, with_iterations
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

STEP = ["gemm", "relu", "gemm", "softmax", "[CUDA memset]"]


def launches_of(names: list[str], *, spacing_ns: int = 10, duration_ns: int = 6, **fields: Any) -> list[dict[str, Any]]:
    """Return launches at equal distances, starting at 0, in stream 7 of GPU 0."""
    return [
        kernel(name, duration_ns, start_ns=index * spacing_ns, device=0, stream=7, **fields)
        | ({"kind": "memset"} if name.startswith("[") else {})
        for index, name in enumerate(names)
    ]


def phase_rows(profile: Profile) -> list[tuple[Any, ...]]:
    return (
        iterations(profile).select("iteration", "phase", "start_ns", "duration_ns", "kernels_launched", "gpu_ns").rows()
    )


def test_whole_steps_after_a_partial_one() -> None:
    profile = make_profile(activities=launches_of(STEP[3:] + STEP * 3))
    assert phase_rows(profile) == [
        (None, "partial", 0, 20, 1, 12),
        (0, "whole", 20, 50, 4, 30),
        (1, "whole", 70, 50, 4, 30),
        (2, "whole", 120, 46, 4, 30),
    ]
    assert iterations(profile)["busy_ns"].to_list() == [12, 30, 30, 30]
    assert reasons(profile) == {0: "detected: 5 launches repeat 3 times, identical kernels in every iteration"}
    numbered = with_iterations(profile)
    assert numbered["activities"]["iteration"].to_list() == [None] * 2 + [0] * 5 + [1] * 5 + [2] * 5
    assert numbered["sessions"]["iteration_source"].to_list() == list(reasons(profile).values())
    assert with_iterations(numbered) is numbered
    assert iterations(numbered).equals(iterations(profile))


def test_warm_up_and_tail_are_separate() -> None:
    profile = make_profile(activities=launches_of(["init", "fill", "tune", *STEP[4:], *STEP * 4, "save", "check"]))
    # All gaps are equal, so the pattern starts at the earliest possible launch.
    assert [(number, phase) for number, phase, *_ in phase_rows(profile)] == [
        (None, "warm-up"),
        *((number, "whole") for number in range(4)),
        (None, "tail"),
    ]
    names = with_iterations(profile)["activities"]["name"].cast(pl.String).to_list()
    assert names[:3] == ["init", "fill", "tune"]
    assert (
        with_iterations(profile)["activities"]["iteration"].to_list()
        == [None] * 3 + [number for number in range(4) for _ in STEP] + [None] * 3
    )


def test_other_work_belongs_to_the_step_of_its_launch() -> None:
    work = launches_of(STEP * 3)
    for index, row in enumerate(work):
        row["correlation"] = index
    # The first copy is launched in step 1 and starts in step 2; the one without a launch counts by its start.
    work.append(copy("DtoH", 3, start_ns=112, device=0, stream=8, correlation=100))
    work.append(copy("HtoD", 3, start_ns=113, device=0, stream=8))
    work.sort(key=lambda row: row["start_ns"])
    calls = [
        {"name": "cudaLaunchKernel", "start_ns": 8 * index, "duration_ns": 2, "correlation": index, "pid": 1, "tid": 1}
        for index in range(15)
    ]
    calls.append({"name": "cudaMemcpyAsync", "start_ns": 75, "duration_ns": 2, "correlation": 100, "pid": 1, "tid": 1})
    ops = [
        {"op": 0, "name": "before", "start_ns": -5, "duration_ns": 2, "pid": 1, "tid": 1},
        {"op": 1, "name": "forward", "start_ns": 39, "duration_ns": 20, "pid": 1, "tid": 1},
        {"op": 2, "name": "forward", "start_ns": 40, "duration_ns": 20, "pid": 1, "tid": 1},
    ]
    numbered = with_iterations(make_profile(activities=work, api_calls=calls, ops=ops))
    copies = numbered["activities"].filter(pl.col("kind") == "memcpy")
    assert dict(copies.select("copy_kind", "iteration").iter_rows()) == {"DtoH": 1, "HtoD": 2}
    assert numbered["ops"]["iteration"].to_list() == [None, 0, 1]


def test_replays_of_a_graph_are_iterations() -> None:
    profile = make_profile(
        activities=[
            {"kind": "graph" if index % 2 else "memcpy", "name": "CUDA graph 3" if index % 2 else "[CUDA memcpy HtoD]",
             "start_ns": 100 * index, "duration_ns": 60}
            for index in range(8)
        ]
    )  # fmt: skip
    assert [row[:2] for row in phase_rows(profile)] == [(number, "whole") for number in range(4)]


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (launches_of(["a"]), "whole run: too few launches for a pattern: 1"),
        (launches_of(["a", "b", "c", "a"]), "whole run: too few launches for a pattern: 4"),
        # Three rounds of two launches are a pattern.
        (launches_of(["a", "b", "c", "d", "e"]), "whole run: too few launches for a pattern: 5"),
        (launches_of(["a", "b", "c", "d", "e", "f"]), "whole run: no pattern repeats in 6 launches"),
        (launches_of(["a"] * 50), "whole run: all 50 launches are of the same kernel"),
        (launches_of(["a", "b", "c", "d", "e", "f", "g"]), "whole run: no pattern repeats in 7 launches"),
        (
            [*launches_of(["a"] * 9), kernel("b", 1, start_ns=5, device=0, stream=9)],
            "whole run: all 9 launches are of the same kernel of stream 7, which has the most kernels",
        ),
        ([copy("HtoD", 3, start_ns=0)], "whole run: no kernel with a start time"),
        (
            [
                *launches_of(STEP * 4),
                *({**row, "name": None, "start_ns": 900 + index} for index, row in enumerate(launches_of(STEP))),
            ],
            "whole run: 5 of 25 launches have no name",
        ),
    ],
    ids=["one", "few", "too few", "enough", "one kernel", "all different", "two streams", "copies", "names lost"],
)
def test_a_run_that_does_not_repeat_is_one_iteration_and_has_a_reason(work: list[dict[str, Any]], reason: str) -> None:
    profile = make_profile(activities=work)
    row = iterations(profile).row(0, named=True)
    assert (row["iteration"], row["phase"], row["gpu_ns"]) == (
        0,
        "not repeated",
        sum(launch["duration_ns"] for launch in work),
    )
    assert iterations(profile).height == 1
    assert (sources(profile), reasons(profile)) == ({0: "whole run"}, {0: reason})
    numbered = with_iterations(profile)
    assert numbered["activities"]["iteration"].null_count() == len(work)
    assert numbered["sessions"]["iteration_source"].to_list() == [reason]


def test_recorded_iterations_are_never_replaced_and_other_sessions_have_their_own() -> None:
    profile = make_profile(
        activities=[
            *(row | {"session": 0, "iteration": 17} for row in launches_of(STEP * 3)),
            *(row | {"session": 1} for row in launches_of(STEP * 3)),
            {"session": 2, "name": "no times", "duration_ns": 3},
        ]
    )
    assert sources(profile) == {0: "recorded", 1: "detected"}
    numbered = with_iterations(profile)["activities"]
    assert numbered.filter(pl.col("session") == 0)["iteration"].to_list() == [17] * 15
    assert numbered.filter(pl.col("session") == 1)["iteration"].to_list() == [0] * 5 + [1] * 5 + [2] * 5
    assert numbered.filter(pl.col("session") == 2)["iteration"].to_list() == [None]


def test_inspect_reports_found_iterations() -> None:
    def iterations_summary(profile: Profile) -> Any:
        return inspect(profile)["sessions"][0]["frames"].get("iterations")

    assert iterations_summary(make_profile(activities=launches_of(STEP * 3))) == {
        "rows": 3,
        "source": "detected",
        "reason": "5 launches repeat 3 times, identical kernels in every iteration",
    }
    assert iterations_summary(make_profile(activities=launches_of(["a"]))) == {
        "rows": 1,
        "source": "whole run",
        "reason": "too few launches for a pattern: 1",
    }
    recorded = make_profile(activities=[kernel("a", 5, start_ns=0, iteration=3)])
    assert iterations_summary(recorded) == {"rows": 1, "source": "recorded"}
    assert iterations_summary(make_profile(activities=[kernel("a", 5)])) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 12), st.integers(0, 9)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 6),
)
def test_phases_are_contiguous_and_add_up(launches: list[tuple[int, int, str, int, int]], repeats: int) -> None:
    rows, start_ns = [], 0
    for session, stream, name, wait_ns, duration_ns in launches * repeats:
        start_ns += wait_ns
        rows.append(kernel(name, duration_ns, session=session, stream=stream, device=0, start_ns=start_ns))
    profile = make_profile(activities=sorted(rows, key=lambda row: row["session"]))
    table, work = iterations(profile), profile["activities"]
    assert table["gpu_ns"].sum() == work["duration_ns"].sum()
    assert table["kernels_launched"].sum() == work.height
    for (session,), session_work in work.group_by("session"):
        first_ns, last_ns = (
            session_work["start_ns"].min(),
            (session_work["start_ns"] + session_work["duration_ns"]).max(),
        )
        session_rows = table.filter(pl.col("session") == session)
        boundaries = [*session_rows["start_ns"].to_list(), last_ns]
        assert boundaries[0] == first_ns
        assert (session_rows["start_ns"] + session_rows["duration_ns"]).to_list() == boundaries[1:]
        numbers = session_rows["iteration"].drop_nulls().to_list()
        assert numbers == list(range(len(numbers)))
    numbered = with_iterations(profile)["activities"]
    whole_iterations = table.filter(pl.col("phase") == "whole")
    sums = numbered.drop_nulls("iteration").group_by("session", "iteration").agg(pl.col("duration_ns").sum())
    assert sums.height == whole_iterations.height
    assert sorted(sums.rows()) == sorted(whole_iterations.select("session", "iteration", "gpu_ns").rows())


@pytest.mark.parametrize(
    ("name", "count", "outside_count", "reason"),
    [
        (
            "bench/gpt_long.gputrace.txt.xz",
            120,
            6,
            "detected: 536 launches repeat 120 times, identical kernels in every iteration",
        ),
        (
            "bench/gpt_long.both.txt.xz",
            120,
            6,
            "detected: 536 launches repeat 120 times, identical kernels in every iteration",
        ),
        (
            "corpus/nvprof_rendered/resnet50_amp.gputrace.txt",
            5,
            15,
            "detected: 923 launches repeat 5 times, identical kernels in every iteration",
        ),
        (
            "corpus/nvprof_rendered/ddp_rank0.gputrace.txt",
            4,
            95,
            "detected: 564 launches repeat 4 times on stream 7, identical kernels in every iteration",
        ),
        (
            "corpus/nvprof_rendered/gpt_cudagraph.gputrace.txt",
            90,
            41,
            "detected: 54 launches repeat 90 times, identical kernels in every iteration",
        ),
    ],
)
def test_steps_are_found_in_recordings_without_recorded_steps(
    name: str, count: int, outside_count: int, reason: str
) -> None:
    profile = load_one(shared_file(name))
    table = iterations(profile)
    assert table["phase"].to_list() == ["partial", *["whole"] * count]
    assert table["iteration"].to_list() == [None, *range(count)]
    assert reasons(profile) == {0: reason}
    numbered = with_iterations(profile)["activities"]
    assert numbered["iteration"].null_count() == outside_count
    assert table["gpu_ns"].sum() == numbered["duration_ns"].sum()
    assert table["kernels_launched"][1:].n_unique() == 1


def nvprof_text_of(activities: pl.DataFrame) -> str:
    """Return kernels and copies like nvprof prints them."""
    first_ns = activities["start_ns"][0]
    rows = [
        TraceRow(
            row["name"],
            row["start_ns"] - first_ns,
            row["duration_ns"],
            correlation=row["correlation"],
            grid=None if row["grid_x"] is None else (row["grid_x"], row["grid_y"], row["grid_z"]),
            block=None if row["block_x"] is None else (row["block_x"], row["block_y"], row["block_z"]),
            registers=row["registers"],
            size=row["size_bytes"],
            stream=row["stream"],
        )
        for row in activities.iter_rows(named=True)
    ]
    return f"==1== Profiling result:\n{text_table(rows)}{FOOTER}"


def test_steps_of_tiny_kernels_as_nvprof_text_are_the_outer_loop(tmp_path: Path) -> None:
    profile = load_one(recording_file("tiny_kernels.pt.trace.json.gz"))
    activities = profile["activities"].sort("start_ns")
    path = tmp_path / "tiny.nvprof.log"
    path.write_text(nvprof_text_of(activities))
    without_steps = load_one(str(path))
    assert reasons(without_steps) == {
        0: "detected: 1,605 launches repeat 4 times, identical kernels in every iteration"
    }
    steps = iterations(without_steps)
    assert steps.select("iteration", "kernels_launched").rows() == [(step, 1602) for step in range(4)]
    assert (
        with_iterations(without_steps)["activities"]["iteration"].rank("dense").to_list()
        == activities["iteration"].rank("dense").to_list()
    )
    choices = key_choices(without_steps).filter(pl.col("key_kind") == "loop").select("name", "ended")
    assert choices.rows() == [("loop of 1605 launches", 4), ("loop of 2 launches", 3200)]
    pairs = iterations(with_iterations(without_steps, "loop of 2 launches"))
    assert pairs["iteration"].drop_nulls().to_list() == list(range(3200))
    assert pairs.filter(pl.col("phase") == "outside")["kernels_launched"].to_list() == [2] * 4
    assert pairs["gpu_ns"].sum() == without_steps["activities"]["duration_ns"].sum()
    with pytest.raises(ProftuiError, match="loops found: loop of 1605 launches, loop of 2 launches"):
        with_iterations(without_steps, "loop of 3 launches")


def test_loops_are_listed_as_keys_with_the_time_of_a_round() -> None:
    profile = make_profile(activities=launches_of((["a", "b"] * 20 + ["c"]) * 4))
    rows = key_choices(profile).filter(pl.col("key_kind") == "loop").drop("session").rows()
    assert rows == [
        ("loop", "loop of 41 launches", 4, None, 406, 0.0, pytest.approx(100 * 4 * 406 / 1636)),
        ("loop", "loop of 2 launches", 80, None, 16, 0.0, pytest.approx(100 * 80 * 16 / 1636)),
    ]
