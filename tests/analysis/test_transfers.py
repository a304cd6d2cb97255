from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile, summary_row
from tests.profiles import load_one
from tui.analysis.copies import (
    NO_BANDWIDTH,
    NO_LINK,
    NO_PEER_LINK,
    NO_SIZE,
    SIZE_CLASSES,
    TINY_RUNS,
    TRANSFER_SIZES,
    TRANSFERS,
    copies,
    impossible_rates,
    single_transfers,
    tiny_runs,
    transfer_share,
    transfer_sizes,
    transfers,
)

if TYPE_CHECKING:
    from tui.model.profile import Profile

KB, MB = 1 << 10, 1 << 20
GPU = {"device": 0, "name": "NVIDIA H100", "memory_bandwidth": 1e12}


def memset(duration_ns: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "memset", "name": "[CUDA memset]", "duration_ns": duration_ns, **fields}


PROFILE = make_profile(
    devices=[GPU],
    activities=[
        copy("HtoD", 1000, size_bytes=20_000, device=0, src_memory="pageable", dst_memory="device"),
        copy("HtoD", 1000, size_bytes=10_000, device=0, src_memory="pageable", dst_memory="device"),
        copy("HtoD", 500, size_bytes=10_000, device=0, src_memory="pinned", dst_memory="device"),
        copy("DtoD", 1000, size_bytes=100_000, device=0, src_memory="device", dst_memory="device"),
        copy("PtoP", 10, size_bytes=None, device=0),
        memset(10, size_bytes=8_000, device=0, src_memory="device"),
        memset(10, size_bytes=10_501, device=0, src_memory="device"),
        memset(0, size_bytes=10_501, device=0, src_memory="device"),
        kernel("a", 10_000, device=0),
    ],
)


def by_direction(profile: Profile, *columns: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = transfers(profile).select("copy_kind", "src_memory", *columns).rows()
    return {row[:2]: row[2:] for row in rows}


def test_copies_by_direction_and_memory() -> None:
    rows = by_direction(PROFILE, "dst_memory", "calls", "total_ns", "size_bytes")
    assert rows == {
        ("HtoD", "pageable"): ("device", 2, 2000, 30_000),
        ("DtoD", "device"): ("device", 1, 1000, 100_000),
        ("HtoD", "pinned"): ("device", 1, 500, 10_000),
        ("set", None): ("device", 3, 20, 29_002),
        ("PtoP", None): (None, 1, 10, None),
    }
    assert transfers(PROFILE)["time_pct"].sum() == pytest.approx(100)
    assert next(iter(rows)) == ("HtoD", "pageable")
    assert {column.name for column in TRANSFERS.columns} == set(transfers(PROFILE).columns)


def test_rates_are_compared_with_hardware_limits() -> None:
    rows = by_direction(PROFILE, "achieved", "ceiling", "ceiling_pct", "impossible", "why")
    assert rows == {
        ("HtoD", "pageable"): (15e9, None, None, 0, NO_LINK),
        ("HtoD", "pinned"): (20e9, None, None, 0, NO_LINK),
        ("DtoD", "device"): (1e11, 5e11, 20.0, 0, None),
        ("set", None): (8e11, 1e12, 80.0, 1, None),
        ("PtoP", None): (None, None, None, None, NO_PEER_LINK),
    }


def test_the_plausibility_of_rates_is_unknown_for_an_unknown_gpu() -> None:
    profile = make_profile(activities=[memset(1, size_bytes=1 << 40, device=0), copy("HtoD", 5, device=0)])
    rows = by_direction(profile, "achieved", "impossible", "why")
    assert rows[("set", None)] == (pytest.approx(1e9 * (1 << 40)), None, NO_BANDWIDTH)
    assert rows[("HtoD", None)] == (None, None, NO_LINK)
    assert impossible_rates(profile).is_empty()


def test_a_copy_without_a_rate_has_no_plausibility() -> None:
    row_by_direction = {row["copy_kind"]: row for row in single_transfers(PROFILE).iter_rows(named=True)}
    assert (row_by_direction["PtoP"]["rate"], row_by_direction["PtoP"]["is_impossible"]) == (None, None)
    assert (row_by_direction["DtoD"]["rate"], row_by_direction["DtoD"]["is_impossible"]) == (1e11, False)


def test_implausible_rates_are_reported_with_the_limit() -> None:
    row = impossible_rates(PROFILE).row(0, named=True)
    assert (row["activity"], row["size_bytes"], row["limit"]) == (6, 10_501, 1e12)
    assert row["factor"] == pytest.approx(1.0501)
    assert impossible_rates(PROFILE).height == 1


def test_rates_up_to_5_percent_above_the_limit_are_plausible() -> None:
    work = [memset(10, size_bytes=size, device=0) for size in (10_000, 10_499, 10_501)]
    assert impossible_rates(make_profile(devices=[GPU], activities=work))["size_bytes"].to_list() == [10_501]


def test_printed_totals_have_no_sizes() -> None:
    profile = make_profile(
        summary=[
            summary_row("gpu", "[CUDA memcpy HtoD]", 3, 500),
            summary_row("gpu", "[CUDA memset]", 2, 100),
            summary_row("gpu", "gemm", 2, 400),
        ]
    )
    assert by_direction(profile, "calls", "total_ns", "size_bytes", "impossible") == {
        ("HtoD", None): (3, 500, None, None),
        ("set", None): (2, 100, None, None),
    }
    assert transfer_share(profile).rows() == [(0, 1000, 400, 500, 100, 50.0)]
    unknown = [summary_row("gpu", "[CUDA memcpy HtoD]", 3, None), summary_row("gpu", "gemm", 2, 400)]
    assert transfer_share(make_profile(summary=unknown)).rows() == [(0, 400, 400, None, 0, None)]
    assert transfer_sizes(profile).is_empty()


def test_copies_by_size() -> None:
    sizes = (0, 4095, 4096, 65_535, 65_536, (1 << 20) - 1, 1 << 20, 16 << 20, 256 << 20, 1 << 40, None)
    profile = make_profile(activities=[copy("HtoD", 10, size_bytes=size) for size in sizes])
    rows = transfer_sizes(profile)
    assert rows.select("size_class", "calls").rows() == [
        ("< 4 KiB", 2),
        ("4 to 64 KiB", 2),
        ("64 KiB to 1 MiB", 2),
        ("1 to 16 MiB", 1),
        ("16 to 256 MiB", 1),
        ("256 MiB and more", 2),
        ("not recorded", 1),
    ]
    assert rows["calls_pct"].sum() == pytest.approx(100)
    assert {column.name for column in TRANSFER_SIZES.columns} <= set(rows.columns)


def test_sessions_are_separate() -> None:
    profile = make_profile(activities=[copy("HtoD", 10, session=0), copy("HtoD", 30, session=1)])
    assert transfers(profile).select("session", "total_ns", "time_pct").rows() == [(1, 30, 100.0), (0, 10, 100.0)]


def small_copy(start: int, direction: str = "HtoD", **fields: Any) -> dict[str, Any]:
    return copy(direction, 2, **{"start_ns": start, "size_bytes": 100, "device": 0, "stream": 7, **fields})


def test_consecutive_small_copies_are_a_burst() -> None:
    profile = make_profile(
        activities=[
            *(small_copy(start) for start in (0, 10, 20, 30)),
            small_copy(40, "DtoH"),
            small_copy(50, "DtoH"),
            kernel("a", 5, start_ns=55, device=0, stream=7),
            small_copy(60, "DtoH"),
            *(small_copy(start, stream=8) for start in (70, 80, 2_000_000)),
            *(small_copy(start, size_bytes=70_000) for start in (3_000_000, 3_000_010, 3_000_020)),
            *(small_copy(start, "DtoD", size_bytes=50) for start in (4_000_000, 4_000_500, 4_900_000)),
        ]
    )
    rows = tiny_runs(profile)
    columns = ("copy_kind", "activity", "start_ns", "duration_ns", "calls", "size_bytes", "total_ns")
    assert rows.select(columns).rows() == [
        ("DtoD", 14, 4_000_000, 900_002, 3, 150, 6),
        ("HtoD", 0, 0, 32, 4, 400, 8),
    ]  # fmt: skip
    assert {column.name for column in TINY_RUNS.columns} == set(rows.columns)
    assert tiny_runs(make_profile(activities=[kernel("a", 1, start_ns=0)])).columns == rows.columns


def test_bursts_do_not_span_gpus_or_sessions() -> None:
    profile = make_profile(
        activities=[
            small_copy(0),
            small_copy(10),
            small_copy(20, device=1),
            small_copy(30, device=1),
            small_copy(40, session=1),
            small_copy(50, session=1),
        ]
    )
    assert tiny_runs(profile).is_empty()


def test_copies_of_a_size_class_are_within_its_bounds() -> None:
    sizes = [4095, 4096, 65_535, 65_536, 1 << 20, 256 << 20, None]
    profile = make_profile(devices=[GPU], activities=[copy("HtoD", 1000, size_bytes=size, device=0) for size in sizes])
    sizes_by_class = {
        name: single_transfers(profile, size_class=name)["size_bytes"].to_list() for _, name in SIZE_CLASSES
    }
    assert sizes_by_class == {
        "< 4 KiB": [4095],
        "4 to 64 KiB": [4096, 65_535],
        "64 KiB to 1 MiB": [65_536],
        "1 to 16 MiB": [1 << 20],
        "16 to 256 MiB": [],
        "256 MiB and more": [256 << 20],
    }
    assert single_transfers(profile, size_class=NO_SIZE)["size_bytes"].to_list() == [None]


def test_transfers_of_real_logs(corpus: Callable[[str], str]) -> None:
    first = load_one(corpus("seeds/000_eb78dec59201d654.txt"))
    rows = impossible_rates(first).filter(pl.col("duration_ns") == 1025)
    assert rows["size_bytes"].to_list() == [24 << 20]
    assert rows["rate"].item() == pytest.approx(24.55e12, rel=1e-3)
    assert rows["limit"].item() == 288e9
    # Without them the rate agrees with that of the other memsets: 187 GiB/s.
    assert by_direction(first, "achieved", "impossible")[("set", None)] == (pytest.approx(2.006e11, rel=1e-3), 2)
    to_device = transfer_sizes(first).filter(pl.col("copy_kind") == "HtoD")
    assert to_device.select("size_class", "calls").rows() == [("< 4 KiB", 5), ("64 KiB to 1 MiB", 1)]
    second = load_one(corpus("seeds/002_217dea74feb3b440.txt"))
    assert transfer_share(second)["copies_pct"][0] == pytest.approx(87.6, abs=0.05)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["HtoD", "DtoH", "set", "kernel"]),
            st.integers(0, 5000),
            st.one_of(st.none(), st.integers(0, 1 << 30)),
            st.integers(0, 1),
        ),
        max_size=20,
    )
)
def test_calls_times_and_sizes_add_up(drawn: list[tuple[str, int, int | None, int]]) -> None:
    rows = [
        {
            "kernel": kernel("a", length, session=session),
            "set": memset(length, size_bytes=size, session=session),
        }.get(direction, copy(direction, length, size_bytes=size, session=session))
        for direction, length, size, session in sorted(drawn, key=lambda transfer: transfer[3])
    ]
    profile = make_profile(
        sessions=[{"session": 0}, {"session": 1}], devices=[{**GPU, "device": None}], activities=rows
    )
    for frame in (transfers(profile), transfer_sizes(profile)):
        for session in (0, 1):
            session_transfers = [transfer for transfer in drawn if transfer[3] == session and transfer[0] != "kernel"]
            session_rows = frame.filter(pl.col("session") == session)
            assert session_rows["calls"].sum() == len(session_transfers)
            assert session_rows["total_ns"].sum() == sum(length for _, length, _, _ in session_transfers)
            assert session_rows["size_bytes"].sum() == sum(size or 0 for _, _, size, _ in session_transfers)


def test_calls_of_a_direction_are_unknown_if_one_row_has_none() -> None:
    rows = [
        summary_row("gpu", "[CUDA memcpy HtoD]", 3, 20),
        summary_row("gpu", "[CUDA memcpy Host-to-Device]", None, 40),
    ]
    profile = make_profile(summary=rows)
    assert copies(profile).select("copy_kind", "calls", "total_ns").rows() == [("HtoD", None, 60)]
    assert transfers(profile).select("copy_kind", "calls", "total_ns").rows() == [("HtoD", None, 60)]


def test_a_size_belongs_to_the_class_of_its_lower_bound() -> None:
    """The bounds of each class agree in the table and in the list of its copies."""
    sizes = (0, 4 * KB - 1, 4 * KB, 64 * KB - 1, 64 * KB, MB - 1, MB, 16 * MB - 1, 16 * MB, 256 * MB - 1, 256 * MB)
    work = [copy("HtoD", 10, size_bytes=size, device=0, start_ns=20 * index) for index, size in enumerate(sizes)]
    profile = make_profile(devices=[GPU], activities=work)
    calls_by_class = dict(transfer_sizes(profile).select("size_class", "calls").rows())
    for class_index, (min_bytes, name) in enumerate(SIZE_CLASSES):
        class_sizes = single_transfers(profile, size_class=name)["size_bytes"].to_list()
        assert class_sizes == list(sizes[2 * class_index : 2 * class_index + 2]), name
        assert class_sizes[0] == min_bytes
        assert calls_by_class[name] == len(class_sizes)
