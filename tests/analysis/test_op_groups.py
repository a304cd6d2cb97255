"""Groups of ops: every group is the sum of its parts."""

from __future__ import annotations

from tests.analysis.frames import kernel, profile
from tui.analysis.ops.groups import op_groups


def test_groups_sum_what_ran_in_them_and_below() -> None:
    def op(number: int, name: str, group: str | None, **more: object) -> dict[str, object]:
        return {"op": number, "name": name, "group": group, "start_ns": 10 * number, "duration_ns": 8, "tid": 1, **more}

    found = op_groups(
        profile(
            ops=[
                op(0, "f", "model/block"),
                op(1, "f", "model/block/linear"),
                op(2, "g", "model/block/linear"),
                op(3, "h", None),
                op(4, "h", "model", session=1),
            ],
            activities=[
                kernel("k", 5, op=0),
                kernel("k", 3, op=1),
                kernel("k", 2, op=2),
                kernel("k", 1, op=3),
                kernel("k", 9),
            ],
        )
    )
    columns = ("session", "path", "level", "calls", "gpu_self_ns", "calls_within", "gpu_total_ns", "cpu_total_ns")
    assert found.select(columns).rows() == [
        (0, "model", 0, 0, None, 3, 10, 24),
        (0, "model/block", 1, 1, 5, 3, 10, 24),
        (0, "model/block/linear", 2, 2, 5, 2, 5, 16),
        (0, None, None, 1, 1, 1, 1, 8),
        (1, "model", 0, 1, None, 1, None, 8),
    ]
    assert op_groups(profile(activities=[kernel("k", 1)])).is_empty()
