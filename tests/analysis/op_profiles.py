"""Random profiles with recorded ops, unattributed launches and printed totals, for tests of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.analysis.frames import make_profile, summary_row

if TYPE_CHECKING:
    from tui.model.profile import Profile

KERNELS = ("volta_sgemm_128x32_nn", "void relu_kernel(float*)", "cudnn_convolve_sgemm", "qqq", "xyzzy")
OPS = ("aten::mm", "aten::linear", "a/b", "mystery")
GROUPS = (None, "model", "model/block", "model/block/linear", "model/block/a/b", "x//y")


@st.composite
def session_rows(draw: st.DrawFn, session: int, first_op: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw the ops and the GPU work of a session."""
    ops: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 6))):
        is_nested = index > 0 and draw(st.booleans())
        start = 100 * index
        ops.append(
            {
                "session": session,
                "op": first_op + index,
                "name": draw(st.sampled_from(OPS)),
                "group": draw(st.sampled_from(GROUPS)),
                "parent": first_op + draw(st.integers(0, index - 1)) if is_nested else None,
                "start_ns": start,
                "duration_ns": draw(st.none() | st.integers(0, 90)),
                "pid": 1,
                "tid": 1,
                "op_source": "recorded",
                "input_shapes": draw(st.sampled_from((None, "[[1]]", "[[2]]"))),
                "dtype": draw(st.sampled_from((None, "float"))),
            }
        )
    work = []
    for index in range(draw(st.integers(0, 14))):
        op = draw(st.none() | st.sampled_from([row["op"] for row in ops])) if ops else None
        is_copy = draw(st.integers(0, 5)) == 0
        work.append(
            {
                "session": session,
                "kind": "memcpy" if is_copy else "kernel",
                "name": "[CUDA memcpy HtoD]" if is_copy else draw(st.sampled_from(KERNELS)),
                "start_ns": draw(st.integers(0, 5)) + 100 * index if draw(st.integers(0, 9)) else None,
                "duration_ns": draw(st.none() | st.integers(0, 120)),
                "device": draw(st.integers(0, 1)),
                "stream": draw(st.sampled_from((7, 13))),
                "iteration": draw(st.none() | st.integers(0, 2)),
                "block_x": draw(st.none() | st.sampled_from((32, 64))),
                "op": op,
                "op_join": "launch" if op is not None else "launch not recorded" if ops else None,
            }
        )
    # Loaders sort activities by start time.
    work.sort(key=lambda row: (row["start_ns"] is None, row["start_ns"] or 0))
    return ops, work


@st.composite
def op_profiles(draw: st.DrawFn) -> Profile:
    """Draw up to three sessions; the third, if any, has printed totals only."""
    ops: list[dict[str, Any]] = []
    work: list[dict[str, Any]] = []
    for session in range(draw(st.integers(1, 2))):
        more_ops, more_work = draw(session_rows(session, len(ops)))
        ops += more_ops
        work += more_work
    frames: dict[str, Any] = {"sessions": [{"session": number} for number in range(3)]}
    if draw(st.booleans()):
        frames["summary"] = [summary_row("gpu", name, 2, draw(st.integers(1, 99)), session=2) for name in KERNELS[:3]]
    return make_profile(**frames, **({"ops": ops} if ops else {}), **({"activities": work} if work else {}))
