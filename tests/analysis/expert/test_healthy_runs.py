"""Healthy runs of every vendor and kind of program: a busy GPU gets no warning about waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from tests.analysis.expert.answers.expected_answers import serving_profile
from tests.analysis.expert.profiles import A100, GEMM, HEALTHY, MS, NCCL, SESSION, US, Rows, call, launch, step_range
from tests.analysis.expert.single_findings import found_by_rule
from tests.analysis.frames import make_profile
from tui.analysis.dashboard import guidance
from tui.analysis.expert.findings import findings
from tui.analysis.expert.findings_table import answers, first_findings
from tui.analysis.expert.rule import Severity

if TYPE_CHECKING:
    from tui.model.profile import Profile

NOT_BOUND: Final = "Not launch-bound: GPU idle 0% of the wall time waiting for launches."
NO_STRAGGLER: Final = (
    "No straggler: no rank waits for more than 1% of a mean iteration in the collectives of any iteration."
)
INFO_RULES: Final = {"P10", "I1"}
"""Rules that find a hot kernel and missing iterations in a run of one kernel."""


def profile_of_kernel(tool: tuple[str, str], gpu: Rows | None, name: str, api_call: str = "") -> Profile:
    """Return 400 launches of a kernel of 1 ms with gaps of 5 us, launched well ahead if API calls are recorded."""
    format_name, tool_name = tool
    return make_profile(
        sessions=[{**SESSION, "format": format_name, "tool": tool_name}],
        devices=[gpu] if gpu else [],
        activities=[launch(number * 1005 * US, MS, name, correlation=number) for number in range(400)],
        api_calls=[call(number * 100 * US, 5 * US, api_call, correlation=number) for number in range(400) if api_call],
    )


def profile_of_two_ranks() -> Profile:
    """Return data-parallel training on equal ranks with hidden collectives."""
    ranks, iterations, iteration_ns = (0, 1), range(20), 10_050 * US
    work = [
        (
            launch(n * iteration_ns, 10 * MS, GEMM, session=rank, iteration=n, correlation=2 * n),
            launch(
                n * iteration_ns + 5 * MS, 3 * MS, NCCL, session=rank, iteration=n, stream=20, correlation=2 * n + 1
            ),
        )
        for rank in ranks
        for n in iterations
    ]
    return make_profile(
        sessions=[{**SESSION, "session": rank, "rank": rank, "world_size": 2} for rank in ranks],
        devices=[{**A100, "session": rank} for rank in ranks],
        activities=[row for pair in work for row in pair],
        api_calls=[
            call(number * MS, 5 * US, session=rank, correlation=number) for rank in ranks for number in range(40)
        ],
        ranges=[step_range(n, n * iteration_ns, iteration_ns, session=rank) for rank in ranks for n in iterations],
    )


@pytest.mark.parametrize(
    ("profile", "messages"),
    [
        pytest.param(HEALTHY, [NOT_BOUND], id="training"),
        pytest.param(
            serving_profile(*[("step[DECODE bs=4]", 10 * MS, 9_950 * US)] * 40, op={"name": "aten::mm"}),
            ["Decode is not launch-bound: GPU busy 99.5% (398 of 400 ms) of 40 decode steps."],
            id="serving",
        ),
        pytest.param(profile_of_kernel(("nvprof-text", "nvprof"), None, "solve(float*)"), [], id="nvprof"),
        pytest.param(
            profile_of_two_ranks(),
            [NOT_BOUND, NOT_BOUND, NO_STRAGGLER],
            id="ddp",
        ),
        pytest.param(
            profile_of_kernel(
                ("rocprofv3-csv", "rocprofv3"),
                {"device": 0, "name": "AMD Instinct MI300X", "sm_count": 304},
                "Cijk_Ailk_Bjlk_HHS_BH_MT128x128x32",
                "hipLaunchKernel",
            ),
            [NOT_BOUND],
            id="rocm",
        ),
        pytest.param(
            profile_of_kernel(
                ("unitrace", "unitrace"),
                {"device": 0, "name": "Intel(R) Data Center GPU Max 1550"},
                "gemm_kernel",
                "zeCommandListAppendLaunchKernel",
            ),
            [NOT_BOUND],
            id="xpu",
        ),
        pytest.param(
            profile_of_kernel(
                ("ascend-csv", "Ascend PyTorch Profiler"), {"device": 0, "name": "Ascend910B"}, "MatMulV2", "launch"
            ),
            [NOT_BOUND],
            id="ascend",
        ),
        pytest.param(
            profile_of_kernel(("xplane", "JAX"), A100, "gemm_fusion_dot_1", "cuLaunchKernel"), [NOT_BOUND], id="jax"
        ),
    ],
)
def test_a_busy_gpu_gets_no_warning(profile: Profile, messages: list[str]) -> None:
    rows = findings(profile)
    assert found_by_rule(rows).keys() <= INFO_RULES
    assert set(first_findings(rows)["severity"]) <= {Severity.INFO.value}
    assert sorted(answers(rows)["message"].to_list()) == sorted(messages)
    assert guidance(rows).endswith(messages[-1] if messages else "nvprof --metrics all shows what limits it.")
    busy = rows.filter(pl.col("rule") == "U1")
    assert set(busy["state"]) == {"clean"}
    assert busy["reason"][0].startswith("GPU busy 99.5% (")
