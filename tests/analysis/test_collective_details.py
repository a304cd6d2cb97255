"""Collectives by sequence number, bandwidth by message size, and the cause of the last arrival."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.analysis.test_rank_waits import ALLREDUCE, DAY_ONE, MS, job_of_ranks
from tests.corpus import recording_file
from tests.profiles import load
from tui.analysis.collective_details import collective_sizes, collectives_with_causes, missing_sizes_reason
from tui.analysis.collectives import collective_ranks, matched_times
from tui.analysis.iterations.iteration_table import with_iterations


def collective_arguments(
    name: str, sent: int, received: int, *, dtype: str = "Float", sequence_number: int | None = None, ranks: int = 2
) -> str:
    sequence = "" if sequence_number is None else f"; Seq: {sequence_number}"
    return (
        f"Collective name: {name}; In msg nelems: {sent}; Out msg nelems: {received}; Dtype: {dtype}; "
        f"Group size: {ranks}; Process group name: 0; Process group ranks: {list(range(ranks))}{sequence}"
    )


def two_ranks(rows: list[tuple[int, int, str]], **fields: Any) -> Any:
    """Return two ranks with kernels of 1 ms, by session, start (ms) and arguments."""
    work = kernel(ALLREDUCE, MS, iteration=0, device=0, stream=7)
    return with_iterations(
        make_profile(
            sessions=[
                {"session": rank, "rank": rank, "source": f"rank{rank}.json", "origin_ns": DAY_ONE} for rank in (0, 1)
            ],
            activities=[
                {**work, "session": session, "start_ns": start * MS, "arguments": arguments}
                for session, start, arguments in rows
            ],
            **fields,
        )
    )


def test_sequence_numbers_match_collectives_if_counts_differ() -> None:
    numbers = [(0, 0, 7), (0, 2, 8), (0, 4, 9), (1, 2, 8), (1, 4, 9)]
    profile = two_ranks(
        [
            (session, start, collective_arguments("allreduce", 4, 4, sequence_number=seq))
            for session, start, seq in numbers
        ]
    )
    assert matched_times(profile).select("turn", "session", "start_ns").rows() == [
        (8, 0, 2 * MS),
        (8, 1, 2 * MS),
        (9, 0, 4 * MS),
        (9, 1, 4 * MS),
    ]
    assert collective_ranks(profile).height == 4
    without_numbers = two_ranks(
        [(session, start, collective_arguments("allreduce", 4, 4)) for session, start, _ in numbers]
    )
    assert matched_times(without_numbers).is_empty()


@pytest.mark.parametrize(
    ("name", "sent", "received", "message", "factor"),
    [
        ("allreduce", 1000, 1000, 4000, 1.5),
        ("_allgather_base", 1000, 4000, 16_000, 0.75),
        ("_reduce_scatter_base", 4000, 1000, 16_000, 0.75),
        ("broadcast", 1000, 1000, 4000, 1),
    ],
)
def test_bandwidth_agrees_with_nccl_tests(name: str, sent: int, received: int, message: int, factor: float) -> None:
    arguments = collective_arguments(name, sent, received, ranks=4)
    profile = make_profile(
        activities=[
            kernel(ALLREDUCE, 1000, start_ns=0, arguments=arguments, device=0),
            kernel(ALLREDUCE, 2000, start_ns=5000, arguments=arguments, device=0),
            kernel(ALLREDUCE, 3000, start_ns=9000, arguments=arguments, device=0),
        ],
        devices=[{"device": 0, "name": "NVIDIA H200"}],
    )
    (row,) = collective_sizes(profile).iter_rows(named=True)
    assert (row["message_bytes"], row["calls"], row["median_ns"], row["is_transfer"]) == (message, 3, 2000, False)
    assert row["algbw"] == pytest.approx(message / 2e-6)
    assert row["busbw"] == pytest.approx(message / 2e-6 * factor)
    assert row["best_busbw"] == pytest.approx(message / 1e-6 * factor)
    assert row["link_pct"] == pytest.approx(100 * message / 1e-6 * factor / 450e9)


def test_a_median_of_zero_has_no_bandwidth() -> None:
    arguments = collective_arguments("allreduce", 1000, 1000)
    profile = two_ranks([(0, 0, arguments), (1, 1, arguments)])
    # The second rank arrives when the first one has waited for all of its time, and leaves at once.
    work = profile["activities"].with_columns(duration_ns=pl.when(session=1).then(0).otherwise("duration_ns"))
    profile = replace(profile, frames={**profile.frames, "activities": work})
    (row,) = collective_sizes(profile).iter_rows(named=True)
    assert (row["is_transfer"], row["median_ns"], row["algbw"], row["busbw"]) == (True, 0, None, None)


def test_without_sizes_there_is_a_reason() -> None:
    assert missing_sizes_reason(job_of_ranks([[0, MS]])).startswith("message sizes are not recorded")
    assert missing_sizes_reason(make_profile(activities=[kernel(ALLREDUCE, 5, start_ns=0)])).startswith(
        "message sizes are not recorded"
    )
    assert missing_sizes_reason(make_profile(activities=[kernel("k", 5, start_ns=0)])) == "no NCCL or RCCL kernels"


def test_the_cause_of_the_last_arrival_is_named() -> None:
    profile, _ = load((recording_file("ddp_rank0.pt.trace.json.gz"), recording_file("ddp_rank1.pt.trace.json.gz")))
    assert profile is not None
    profile = with_iterations(profile)
    first = collectives_with_causes(profile).row(0, named=True)
    assert (first["iteration"], first["turn"], first["last_rank"], first["late_ns"]) == (4, 0, "rank 1", 14_892_806)
    assert first["late_cause"] == "sm80_xmma_gemm…el__5x_cublas"
    assert (first["late_cause_kind"], first["late_cause_ns"]) == ("kernel", 11_904_610)
    sizes = collective_sizes(profile)
    assert sizes["calls"].sum() == 88
    assert sizes["is_transfer"].all()
    largest = sizes.row(0, named=True)
    assert (largest["message_bytes"], largest["median_ns"]) == (133_189_632, 530_215)
    assert largest["link_pct"] == pytest.approx(60.06, abs=0.01)
