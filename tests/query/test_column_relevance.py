from __future__ import annotations

import polars as pl

from tui.analysis.ops.op_types import OP_TYPE_SUMMARY
from tui.model.columns import columns
from tui.model.table_spec import UNINFORMATIVE_PRIORITY, TableSpec
from tui.query.facts import SESSION_PRIORITY, informative_columns, prioritize

SPEC = TableSpec("t", "T", columns("name", "calls", "kind", "throughput", "session"), key=("name",))


def example_rows(**fields: object) -> pl.DataFrame:
    columns = {"name": ["a", "b"], "calls": [1, 2], "kind": ["kernel", "kernel"], "throughput": [None, None]}
    return pl.DataFrame({**columns, "session": [0, 0], **fields})


def priorities_of(frame: pl.DataFrame) -> dict[str, int]:
    return {column.name: column.priority for column in prioritize(SPEC, frame)}


def test_unknown_columns_and_constant_context_are_uninformative() -> None:
    shown, unknown = informative_columns(SPEC, example_rows())
    assert [column.name for column in shown] == ["name", "calls"]
    assert [column.name for column in unknown] == ["throughput"]
    assert {name for name, priority in priorities_of(example_rows()).items() if priority == UNINFORMATIVE_PRIORITY} == {
        "kind",
        "throughput",
        "session",
    }


def test_columns_relevant_above_zero_are_uninformative_at_zero() -> None:
    spec = TableSpec("t", "T", columns("op", "launches", "untimed_launches"), key=("op",))

    def relevance(untimed_launches: list[int | None]) -> tuple[list[str], list[str]]:
        frame = pl.DataFrame({"op": ["a", "b"], "launches": [1, 2], "untimed_launches": untimed_launches})
        shown, unknown = informative_columns(spec, frame)
        return [column.name for column in shown], [column.name for column in unknown]

    assert relevance([0, 0]) == relevance([None, 0]) == (["op", "launches"], [])
    assert relevance([1, None]) == (["op", "launches", "untimed_launches"], [])


def test_the_session_is_shown_if_it_distinguishes_names() -> None:
    priority_of = priorities_of(example_rows(session=[0, 1], kind=["kernel", "memset"]))
    assert priority_of["session"] == SESSION_PRIORITY
    assert priority_of["kind"] == next(column.priority for column in SPEC.columns if column.name == "kind")


def test_an_empty_table_keeps_its_columns() -> None:
    assert prioritize(SPEC, example_rows().clear()) == SPEC.columns


def test_the_session_keeps_its_priority_if_another_column_names_it() -> None:
    spec = TableSpec("t", "T", columns("who", "calls", "session"), key=("session",))
    frame = pl.DataFrame({"who": ["rank 0", "rank 1"], "calls": [1, 2], "session": [0, 1]})
    assert prioritize(spec, frame) == spec.columns


def test_columns_that_distinguish_equal_names_are_beside_the_name() -> None:
    spec = OP_TYPE_SUMMARY
    own_priority = {column.name: column.priority for column in spec.columns}["op_source"]
    empty_row = dict.fromkeys(column.name for column in spec.columns)
    row = {**empty_row, "session": 0, "op_type": "gemm", "op_source": "graph", "gpu_ns": 2}
    frame = pl.DataFrame([row, {**row, "op_source": "recorded"}], strict=False)

    def priority(frame: pl.DataFrame) -> int:
        return {column.name: column.priority for column in prioritize(spec, frame)}["op_source"]

    assert priority(frame) == SESSION_PRIORITY
    assert priority(frame.with_columns(op_type=pl.Series(["gemm", "copy"]))) == own_priority
