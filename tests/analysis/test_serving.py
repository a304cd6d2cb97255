"""Steps of inference servers: phases, requests and tokens, sums by phase, and views of one phase."""

from __future__ import annotations

import polars as pl
import pytest

from tests.analysis.expert.answers.expected_answers import serving_profile
from tests.analysis.expert.profiles import MS, launch, step_range
from tests.analysis.frames import make_profile
from tests.corpus import shared_file
from tui.analysis.dashboard import dashboard
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.iterations.serving import phases, serving_steps
from tui.analysis.iterations.times import ITERATIONS_WITH_USES, iterations_spec, iterations_with_uses
from tui.correlation.iteration_ranges import server_steps
from tui.loaders.registry import load_input
from tui.model.aggregation import Aggregation, aggregation, is_range
from tui.model.errors import ProftuiError

STEPS = (
    ("step[EXTEND bs=2 toks=600]", 30 * MS, 20 * MS),
    ("step[DECODE bs=2]", 10 * MS, 5 * MS),
    ("step[DECODE bs=2]", 12 * MS, 5 * MS),
    ("step[MIXED bs=3 toks=302]", 48 * MS, 40 * MS),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
            ("mixed", 46, 9, 37, 8192, 8155, 37, 42919, None),
        ),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            ("decode", 32, 0, 32, 32, 0, 32, 55086, None),
        ),
        ("execute_context_1(512)_generation_0(0)", ("prefill", 1, 1, 0, 512, 512, 0, None, None)),
        ("execute_new_2_cached_3", ("mixed", 5, 2, 3, None, None, None, None, None)),
        ("step[DECODE bs=32]", ("decode", 32, None, 32, 32, None, 32, None, None)),
        ("step[EXTEND bs=15 toks=15360]", ("prefill", 15, 15, None, 15360, 15360, None, None, None)),
        ("step[MIXED bs=3 toks=302]", ("mixed", 3, None, None, 302, None, None, None, None)),
        ("capture_32_FULL", ("capture", None, None, None, None, None, None, None, 32)),
        ("step[IDLE]", (None, None, None, None, None, None, None, None, None)),
        ("ProfilerStep#3", (None, None, None, None, None, None, None, None, None)),
    ],
)
def test_phase_requests_and_tokens_in_names_of_steps(name: str, expected: tuple[object, ...]) -> None:
    assert server_steps(pl.Series([name])).row(0) == expected


def test_iterations_of_a_server_have_phase_requests_and_tokens() -> None:
    rows = iterations_with_uses(serving_profile(*STEPS))
    assert rows.select("phase", "requests", "query_tokens", "tokens_per_s", "phase_by").rows() == [
        ("prefill", 2, 600, pytest.approx(20_000.0), "annotation"),
        ("decode", 2, 2, pytest.approx(200.0), "annotation"),
        ("decode", 2, 2, pytest.approx(2 / 0.012), "annotation"),
        ("mixed", 3, 302, pytest.approx(302 / 0.048), "annotation"),
    ]
    assert iterations_spec(serving_profile(*STEPS)) == ITERATIONS_WITH_USES
    training = make_profile(
        ranges=[step_range(0, 0, 10), step_range(1, 10, 10)], activities=[launch(0, 5, iteration=0)]
    )
    assert "requests" not in [column.name for column in iterations_spec(training).columns]


def test_sums_by_phase() -> None:
    rows = phases(serving_profile(*STEPS)).select(
        "phase", "steps", "duration_ns", "time_pct", "query_tokens", "ns_per_token"
    )
    assert rows.rows() == [
        ("prefill", 1, 30 * MS, 30.0, 600, 50_000),
        ("decode", 2, 22 * MS, 22.0, 4, 5_500_000),
        ("mixed", 1, 48 * MS, 48.0, 302, round(48 * MS / 302)),
    ]
    assert phases(serving_profile(("step 1", MS, MS), ("step 2", MS, MS))).is_empty()


def test_sums_by_phase_are_of_steps_with_known_times() -> None:
    names = ("step[DECODE bs=2]", "step[DECODE bs=1]", "step[EXTEND bs=2 toks=600]")
    ranges = [{**step_range(n, n * 10 * MS, 10 * MS), "name": name} for n, name in enumerate(names)]
    work = [launch(10 * n * MS, duration_ns, iteration=n) for n, duration_ns in enumerate((5 * MS, None, None))]
    rows = phases(make_profile(ranges=ranges, activities=work))
    assert rows.select("phase", "steps", "duration_ns", "gpu_ns", "busy_pct").rows() == [
        ("prefill", 1, 10 * MS, None, None),
        ("decode", 2, 20 * MS, 5 * MS, 50.0),
    ]


def test_tokens_of_a_step_without_an_end_are_in_no_rate() -> None:
    name = "step[DECODE bs=2]"
    ranges = [{**step_range(0, 0, 10 * MS), "name": name}, {**step_range(1, 10 * MS, 0), "name": name}]
    ranges[1]["duration_ns"] = None
    rows = phases(make_profile(ranges=ranges, activities=[launch(0, 5 * MS, iteration=0)]))
    assert rows.select("steps", "duration_ns", "query_tokens", "tokens_per_s", "ns_per_token").rows() == [
        (2, 10 * MS, 4, pytest.approx(200.0), 5 * MS)
    ]


def test_the_dashboard_has_the_sums_by_phase() -> None:
    facts = {fact.name: fact.value for fact in dashboard(serving_profile(*STEPS)).performance}
    assert facts["phase_decode"] == "2 steps, 11 ms each, 22.0% of the time, GPU busy 45.5%, 4 tokens, 5.5 ms per token"


def test_every_view_can_show_one_phase() -> None:
    profile = with_iterations(serving_profile(*STEPS))
    decode = select_iterations(profile, aggregation("phase=decode", None))
    assert decode["activities"]["iteration"].to_list() == [1, 2]
    assert decode["ranges"]["name"].to_list() == ["step[DECODE bs=2]"] * 2
    assert select_iterations(profile, aggregation("2: phase=decode", None))["activities"]["iteration"].to_list() == [2]
    with pytest.raises(ProftuiError, match="prefill step in iterations 1:"):
        select_iterations(profile, Aggregation(1, None, phase="prefill"))
    assert iterations_with_uses(profile, Aggregation(phase="decode"))["aggregated"].to_list() == [
        False,
        True,
        True,
        False,
    ]
    assert is_range("1:2 phase=mixed")
    assert not is_range("x phase=mixed")


def test_phases_are_inferred_from_the_shapes_of_attention() -> None:
    def attention_op(iteration: int, query_length: int, key_length: int) -> dict[str, object]:
        shapes = f"[[1, 8, {query_length}, 64], [1, 8, {key_length}, 64], [1, 8, {key_length}, 64]]"
        name = "aten::scaled_dot_product_attention"
        return {"op": iteration, "name": name, "start_ns": iteration * 10, "duration_ns": 5, "iteration": iteration,
                "input_shapes": shapes}  # fmt: skip

    ops = [attention_op(0, 9, 9), attention_op(1, 1, 10), attention_op(2, 1, 11)]
    ranges = [step_range(number, number * 10, 10) for number in range(3)]
    work = [launch(number * 10, 5, iteration=number) for number in range(3)]
    rows = serving_steps(make_profile(ranges=ranges, activities=work, ops=ops))
    assert rows["phase"].to_list() == ["prefill", "decode", "decode"]
    assert set(rows["phase_by"]) == {"inferred from shapes"}
    assert rows["requests"].to_list() == [1, 1, 1]
    with_backward = [*ops, {"op": 3, "name": "MmBackward0", "start_ns": 0, "duration_ns": 1}]
    assert (
        serving_steps(make_profile(ranges=ranges, activities=work, ops=with_backward))["phase"].to_list()
        == ["recorded"] * 3
    )


@pytest.mark.parametrize(
    ("name", "phase", "requests", "tokens", "kv_tokens", "kernels"),
    [
        ("vllm_decode_full", "decode", 32, 32, 55086, 425),
        ("vllm_prefilldecode_piecewise", "mixed", 46, 8192, 42919, 413),
    ],
)
def test_steps_of_vllm(name: str, phase: str, requests: int, tokens: int, kv_tokens: int, kernels: int) -> None:
    profile = load_input(shared_file(f"corpus2/inference/{name}/graph_execution.json.gz"))
    row = serving_steps(profile).row(0, named=True)
    figures = (row["phase"], row["requests"], row["query_tokens"], row["kv_tokens"], row["kernels_launched"])
    assert figures == (phase, requests, tokens, kv_tokens, kernels)
    assert profile["sessions"]["iteration_source"].to_list() == ["step annotations of the server"]
