"""Findings name what is to be changed, and promise no more than that can gain."""

from __future__ import annotations

import pytest

from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import ADD, GEMM, MS, SGEMM, US, run, traced
from tui.analysis.expert.model import Clean, Found


def test_work_around_products_is_no_promise_of_tensor_cores() -> None:
    """Of 6 ms in eligible ops that use none, 2 ms are changes of layout: half of the other 4 ms can be gained."""
    conv = {"name": "aten::cudnn_convolution", "tid": 1, "pid": 1, "op_source": "recorded"}
    ops = [{**conv, "op": 0, "start_ns": 0, "duration_ns": 100 * MS}]
    layout = "void nchwToNhwcKernel<float>(int)"
    work = [run(0, 4 * MS, SGEMM, op=0), run(4 * MS, 4 * MS, GEMM, op=0), run(8 * MS, 2 * MS, layout, op=0)]
    mixed = ask("P2", traced(*work, ops=ops))
    assert isinstance(mixed, Found)
    assert (mixed.cost_ns, mixed.numbers["could_ns"], mixed.numbers["around_ns"]) == (2 * MS, 4 * MS, 2 * MS)
    assert "4.0000 ms could and does not, most of it `ampere_sgemm_128x64_tn`; 2.0000 ms more" in mixed.problem
    none = ask("P1", traced(work[0], work[2], ops=ops))
    assert isinstance(none, Found)
    assert (none.cost_ns, none.numbers["eligible_ns"]) == (2 * MS, 6 * MS)
    assert "`ampere_sgemm_128x64_tn`" in none.problem
    assert isinstance(ask("P2", traced(work[1], work[2], ops=ops)), Clean)


def test_a_hole_is_no_idle_time_of_short_kernels_or_of_a_chain() -> None:
    """Ten kernels 20 us apart, then one after a hole of 50 ms: the hole is U2's, not what launching less would gain."""
    work = [run(n * 20 * US, 5 * US, ADD) for n in range(10)]
    short = ask("A2", traced(*work, run(50 * MS, 5 * US, ADD)))
    assert isinstance(short, Found)
    assert short.cost_ns == 9 * 15 * US
    assert "take less than 10 µs:" in short.problem
    pairs = [run(n * 3 * MS + at, 5 * US, name) for n in range(10) for at, name in ((0, ADD), (1 * MS + 5 * US, SGEMM))]
    assert isinstance(ask("P11", traced(*pairs)), Clean)
    near = [run(n * 3 * MS + at, 5 * US, name) for n in range(10) for at, name in ((0, ADD), (1 * MS, SGEMM))]
    chain = ask("P11", traced(*near))
    assert isinstance(chain, Found)
    assert chain.cost_ns == 10 * (MS - 5 * US)


@pytest.mark.parametrize(("rule", "nearly"), [("L2", 107), ("L3", 850)])
def test_the_kernel_that_leaves_most_of_the_gpu_empty_is_named_first(rule: str, nearly: int) -> None:
    """Of 108 SMs, or of a wave of 864 blocks, nearly all is filled for 4 ms, and little for 1 ms: that wastes more."""
    verdict = ask(rule, traced(run(0, 4 * MS, GEMM, grid_x=nearly), run(4 * MS, MS, ADD, grid_x=27)))
    assert isinstance(verdict, Found)
    assert verdict.problem.count("`at::native::vectorized_elementwise_kernel`") == 1
    assert verdict.evidence is not None
    assert verdict.evidence["grid"].to_list() == ["(27 1 1)", f"({nearly} 1 1)"]


def test_a_last_wave_that_is_nearly_full_is_no_tail() -> None:
    """On 108 SMs with 8 blocks each a wave is 864 blocks: 1.94 waves lose 3 % of a launch, 1.04 nearly half."""
    assert isinstance(ask("L4", traced(run(0, MS, grid_x=1676))), Clean)
    one = ask("L4", traced(run(0, MS, grid_x=900)))
    assert isinstance(one, Found)
    assert one.problem.endswith("of the GPU.")
    two = ask("L4", traced(run(0, MS, grid_x=900), run(MS, MS, ADD, grid_x=900)))
    assert isinstance(two, Found)
    assert two.problem.endswith("; 1 other kernel of weight has such a tail.")
