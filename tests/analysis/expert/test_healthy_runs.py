"""Healthy runs of every vendor and kind of program: a busy GPU gets no warning about waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from tests.analysis.expert.answers.made import serving
from tests.analysis.expert.asking import found
from tests.analysis.expert.profiles import A100, GEMM, HEALTHY, MS, NCCL, SESSION, US, Rows, call, run, step
from tests.analysis.frames import make_profile
from tui.analysis.dashboard import guidance
from tui.analysis.expert.findings import answers, findings, first_findings
from tui.analysis.expert.rule import Severity

if TYPE_CHECKING:
    from tui.model.profile import Profile

NOT_BOUND: Final = "Not launch-bound: GPU idle 0% of the wall time before late launches."
NO_STRAGGLER: Final = (
    "No straggler: no rank waits for more than 1% of a mean iteration in the collectives of any iteration."
)
INFO: Final = {"P10", "I1"}
"""What is worth knowing of one kernel that takes all the time: that it does, and that no iterations are recorded."""


def one_kernel(tool: tuple[str, str], gpu: Rows | None, name: str, api: str = "") -> Profile:
    """400 launches of a kernel of 1 ms, with 5 us between, launched well ahead if API calls are recorded."""
    format_name, by = tool
    return make_profile(
        sessions=[{**SESSION, "format": format_name, "tool": by}],
        devices=[gpu] if gpu else [],
        activities=[run(number * 1005 * US, MS, name, correlation=number) for number in range(400)],
        api_calls=[call(number * 100 * US, 5 * US, api, correlation=number) for number in range(400) if api],
    )


def two_ranks() -> Profile:
    """Data-parallel training: equal ranks, and each collective is hidden behind kernels."""
    ranks, iterations, whole = (0, 1), range(20), 10_050 * US
    work = [
        (
            run(n * whole, 10 * MS, GEMM, session=rank, iteration=n, correlation=2 * n),
            run(n * whole + 5 * MS, 3 * MS, NCCL, session=rank, iteration=n, stream=20, correlation=2 * n + 1),
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
        ranges=[step(n, n * whole, whole, session=rank) for rank in ranks for n in iterations],
    )


@pytest.mark.parametrize(
    ("run_of", "said"),
    [
        pytest.param(HEALTHY, [NOT_BOUND], id="training"),
        pytest.param(
            serving(*[("step[DECODE bs=4]", 10 * MS, 9_950 * US)] * 40, op={"name": "aten::mm"}),
            ["Decode is not launch-bound: GPU busy 99.5% (398 of 400 ms) of 40 decode steps."],
            id="serving",
        ),
        pytest.param(one_kernel(("nvprof-text", "nvprof"), None, "solve(float*)"), [], id="nvprof"),
        pytest.param(
            two_ranks(),
            [NOT_BOUND, NOT_BOUND, NO_STRAGGLER],
            id="ddp",
        ),
        pytest.param(
            one_kernel(
                ("rocprofv3-csv", "rocprofv3"),
                {"device": 0, "name": "AMD Instinct MI300X", "sm_count": 304},
                "Cijk_Ailk_Bjlk_HHS_BH_MT128x128x32",
                "hipLaunchKernel",
            ),
            [NOT_BOUND],
            id="rocm",
        ),
        pytest.param(
            one_kernel(
                ("unitrace", "unitrace"),
                {"device": 0, "name": "Intel(R) Data Center GPU Max 1550"},
                "gemm_kernel",
                "zeCommandListAppendLaunchKernel",
            ),
            [NOT_BOUND],
            id="xpu",
        ),
        pytest.param(
            one_kernel(
                ("ascend-csv", "Ascend PyTorch Profiler"), {"device": 0, "name": "Ascend910B"}, "MatMulV2", "launch"
            ),
            [NOT_BOUND],
            id="ascend",
        ),
        pytest.param(one_kernel(("xplane", "JAX"), A100, "gemm_fusion_dot_1", "cuLaunchKernel"), [NOT_BOUND], id="jax"),
    ],
)
def test_a_busy_gpu_gets_no_warning(run_of: Profile, said: list[str]) -> None:
    rows = findings(run_of)
    assert found(rows).keys() <= INFO
    assert set(first_findings(rows)["severity"]) <= {Severity.INFO.value}
    assert sorted(answers(rows)["message"].to_list()) == sorted(said)
    assert guidance(rows).endswith(said[-1] if said else "ncu --set full shows what limits it.")
    busy = rows.filter(pl.col("rule") == "U1")
    assert set(busy["state"]) == {"clean"}
    assert busy["reason"][0].startswith("GPU busy 99.5% (")
