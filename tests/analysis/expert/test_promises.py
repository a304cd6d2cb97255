"""Findings name what is to be changed, and promise no more than that can gain."""

from __future__ import annotations

from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import GEMM, MS, SGEMM, run, traced
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
