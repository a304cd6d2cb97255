"""Random profiles with recorded ops, with unattributed launches, and with totals alone, for tests that sums agree."""

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
def _session(draw: st.DrawFn, session: int, first_op: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw the ops and the GPU work of a session."""
    ops: list[dict[str, Any]] = []
    for place in range(draw(st.integers(0, 6))):
        inner = place > 0 and draw(st.booleans())
        begin = 100 * place
        ops.append(
            {
                "session": session,
                "op": first_op + place,
                "name": draw(st.sampled_from(OPS)),
                "group": draw(st.sampled_from(GROUPS)),
                "parent": first_op + draw(st.integers(0, place - 1)) if inner else None,
                "start_ns": begin,
                "duration_ns": draw(st.none() | st.integers(0, 90)),
                "pid": 1,
                "tid": 1,
                "op_source": "recorded",
                "input_shapes": draw(st.sampled_from((None, "[[1]]", "[[2]]"))),
                "dtype": draw(st.sampled_from((None, "float"))),
            }
        )
    work = []
    for place in range(draw(st.integers(0, 14))):
        op = draw(st.none() | st.sampled_from([row["op"] for row in ops])) if ops else None
        copied = draw(st.integers(0, 5)) == 0
        work.append(
            {
                "session": session,
                "kind": "memcpy" if copied else "kernel",
                "name": "[CUDA memcpy HtoD]" if copied else draw(st.sampled_from(KERNELS)),
                "start_ns": draw(st.integers(0, 5)) + 100 * place if draw(st.integers(0, 9)) else None,
                "duration_ns": draw(st.none() | st.integers(0, 120)),
                "device": draw(st.integers(0, 1)),
                "stream": draw(st.sampled_from((7, 13))),
                "iteration": draw(st.none() | st.integers(0, 2)),
                "block_x": draw(st.none() | st.sampled_from((32, 64))),
                "op": op,
                "op_join": "launch" if op is not None else "launch not recorded" if ops else None,
            }
        )
    # As loaders give them: in order of start.
    work.sort(key=lambda row: (row["start_ns"] is None, row["start_ns"] or 0))
    return ops, work


@st.composite
def op_profiles(draw: st.DrawFn) -> Profile:
    """Draw up to three sessions, of which the last may hold totals alone."""
    ops: list[dict[str, Any]] = []
    work: list[dict[str, Any]] = []
    for session in range(draw(st.integers(1, 2))):
        more_ops, more_work = draw(_session(session, len(ops)))
        ops += more_ops
        work += more_work
    frames: dict[str, Any] = {"sessions": [{"session": number} for number in range(3)]}
    if draw(st.booleans()):
        frames["summary"] = [summary_row("gpu", name, 2, draw(st.integers(1, 99)), session=2) for name in KERNELS[:3]]
    return make_profile(**frames, **({"ops": ops} if ops else {}), **({"activities": work} if work else {}))
