"""Traces in nvprof's layout are read back, and the bulk reader agrees with the tolerant one."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.loaders.nvprof.reading import read
from tests.render_trace import FOOTER, NS, Style, TraceRow, api_table, csv_table, text_table
from tui.loaders.nvprof.trace_bulk import TraceBulkReader
from tui.loaders.nvprof.trace_cells import text_header

if TYPE_CHECKING:
    from tui.model.profile import Profile

HEAD = "==7== NVPROF is profiling process 7, command: ./a\n==7== Profiling result:\n"

NAMES = st.sampled_from(
    [
        "f(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int, std::array<char*, 1ul>)",
        "void g<float, int=128>(float const *, int (*) [16])",
        "_ZN2at6native6kernelILi4EEEvi",
        "operator_kernel [x]",
        "main_22_gpu",
        "kern  two blanks(int)",
        "größe(int)",
    ]
)
DIMENSION = st.integers(1, 99_999)
MEMORY = st.sampled_from([None, "Pageable", "Pinned", "Device", "Array", "Managed"])
BYTES = st.sampled_from([0, 1, 112, 512, 4096, 12820, 24 * 2**20, 684394250, 7 * 2**30])
STREAM = st.integers(1, 9999)
CORRELATION = st.none() | st.integers(0, 2**32 - 1)


def kernels() -> st.SearchStrategy[TraceRow]:
    dimensions = st.tuples(DIMENSION, st.integers(1, 65535), st.integers(1, 64))
    return st.builds(
        TraceRow,
        name=NAMES,
        start_ns=st.just(0),
        duration_ns=st.integers(1, 4 * 10**12),
        correlation=CORRELATION,
        grid=dimensions,
        block=st.tuples(st.integers(1, 1024), st.integers(1, 64), st.integers(1, 64)),
        registers=st.integers(1, 255),
        static=st.sampled_from([0, 24, 512, 4096, 12820]),
        dynamic=st.sampled_from([0, 12, 1024, 49152]),
        stream=STREAM,
    )


def copies() -> st.SearchStrategy[TraceRow]:
    return st.builds(
        TraceRow,
        name=st.sampled_from(["[CUDA memcpy HtoD]", "[CUDA memcpy DtoH]", "[CUDA memcpy PtoP]", "[CUDA memset]"]),
        start_ns=st.just(0),
        duration_ns=st.integers(500, 10**10),
        size=BYTES.filter(bool),
        src=MEMORY,
        dst=MEMORY,
        stream=STREAM,
    )


def calls() -> st.SearchStrategy[TraceRow]:
    return st.builds(
        TraceRow,
        name=st.sampled_from(["cudaLaunchKernel", "cudaMemcpyAsync", "cuDeviceGet", "cudaFree_v2"]),
        start_ns=st.just(0),
        duration_ns=st.integers(0, 10**9),
        api=st.just(True),
        correlation=CORRELATION,
    )


@st.composite
def tables(draw: st.DrawFn, *, with_calls: bool = True) -> list[TraceRow]:
    """Draw rows in the order of their starts."""
    kinds = [kernels(), copies(), *([calls()] if with_calls else [])]
    pool = draw(st.lists(st.one_of(kinds), min_size=1, max_size=6))
    steps = draw(st.lists(st.tuples(st.sampled_from(pool), st.integers(0, 10**9)), min_size=1, max_size=40))
    rows, start = [], 0
    for row, step in steps:
        start += step
        fields = {name: getattr(row, name) for name in TraceRow.__slots__}
        rows.append(TraceRow(**{**fields, "start_ns": start}))
    return rows


STYLES = st.builds(
    Style,
    memory_types=st.booleans(),
    lead=st.sampled_from(["", "  ", "\t", "// ", "# ", "> "]),
    grid_width=st.sampled_from([21, 18, 22, 30]),
    units=st.sampled_from([None, None, ("ms", "us"), ("s", "ms"), ("ns", "ns"), ("us", "us")]),
)


def read_by_line(text: str | bytes) -> Profile:
    """Return the profile, read line by line."""
    with patch.object(TraceBulkReader, "take", lambda self, block, start, take_one: start):
        return read(text)


def without_categories(profile: Profile, frame: str) -> pl.DataFrame:
    """Return a frame with strings instead of categories."""
    return profile[frame].with_columns(pl.col(pl.Categorical).cast(pl.String))


def assert_same(actual: Profile, expected: Profile) -> None:
    for frame in ("activities", "api_calls", "devices", "sessions"):
        assert_frame_equal(without_categories(actual, frame), without_categories(expected, frame))
    assert sorted(actual["issues"].rows(), key=repr) == sorted(expected["issues"].rows(), key=repr)


def max_rounding_error(cell_ns: int, unit: str | None = None, *, digits: int = 5) -> Decimal:
    """Return the maximum error of a printed time: one in its last digit, and half a nanosecond."""
    if unit is None:
        digits = 2 if cell_ns >= 10**12 else digits
        return Decimal(cell_ns) / 10 ** (digits - 1) + 1
    return Decimal(cell_ns) / 100 + Decimal(NS[unit]) / 10**6 + 1


def check(rows: list[TraceRow], profile: Profile, units: tuple[str, str] | None) -> None:
    activities, api = profile["activities"].sort("line"), profile["api_calls"].sort("line")
    expected_gpu = [row for row in rows if not row.api]
    expected_api = [row for row in rows if row.api]
    assert activities["name"].cast(pl.String).to_list() == [row.name for row in expected_gpu]
    assert api["name"].cast(pl.String).to_list() == [row.name for row in expected_api]
    for frame, expected in ((activities, expected_gpu), (api, expected_api)):
        for actual, row in zip(frame.iter_rows(named=True), expected, strict=True):
            assert abs(actual["start_ns"] - row.start_ns) <= max_rounding_error(row.start_ns, units and units[0])
            assert row.duration_ns is not None
            assert abs(actual["duration_ns"] - row.duration_ns) <= max_rounding_error(
                row.duration_ns, units and units[1]
            )
            printed = row.correlation if not row.name.startswith("[") else None
            assert actual["correlation"] == printed
    for actual, row in zip(activities.iter_rows(named=True), expected_gpu, strict=True):
        assert (actual["grid_x"], actual["grid_y"], actual["grid_z"]) == (row.grid or (None,) * 3)
        assert (actual["block_x"], actual["block_y"], actual["block_z"]) == (row.block or (None,) * 3)
        assert actual["registers"] == row.registers
        assert (actual["device"], actual["context"], actual["stream"]) == (0, row.context, row.stream)
        for column, size in (
            ("static_shared_bytes", row.static),
            ("dynamic_shared_bytes", row.dynamic),
            ("size_bytes", row.size),
        ):
            assert (actual[column] is None) == (size is None)
            assert size is None or abs(actual[column] - size) <= size * 1e-4 + 1


@given(rows=tables(), style=STYLES, blank_line=st.booleans())
def test_text_reads_back(rows: list[TraceRow], style: Style, blank_line: bool) -> None:
    text = (HEAD + text_table(rows, style) + (FOOTER if blank_line else "")).encode()
    profile = read(text)
    check(rows, profile, style.units)
    assert profile["issues"].filter(pl.col("severity") != "info").is_empty()
    assert_same(profile, read_by_line(text))


@given(rows=st.lists(calls(), min_size=1, max_size=20))
def test_api_trace_reads_back(rows: list[TraceRow]) -> None:
    text = (HEAD + api_table(rows)).encode()
    profile = read(text)
    check(rows, profile, None)
    assert_same(profile, read_by_line(text))


@given(
    rows=tables(),
    memory_types=st.booleans(),
    units=st.sampled_from([("ms", "us"), ("s", "ms"), ("us", "us"), ("ns", "ns")]),
)
# 0.000012 GB/s of a slow copy is too coarse to tell 1000 from 1024.
@example(
    rows=[TraceRow(name="[CUDA memcpy HtoD]", start_ns=0, duration_ns=1_010_747_355, size=12_820, context=1, stream=1)],
    memory_types=False,
    units=("ms", "us"),
)
def test_csv_reads_back(rows: list[TraceRow], memory_types: bool, units: tuple[str, str]) -> None:
    text = (HEAD + csv_table(rows, memory_types=memory_types, units=units)).encode()
    profile = read(text)
    if memory_types:
        # This form has the ids of copies, too, which the other has not.
        rows = [row for row in rows if row.api or row.grid or row.correlation is None]
    check(rows, profile, units)
    assert_same(profile, read_by_line(text))


CELLS = st.one_of(
    st.text("0123456789.-KMGTBnmus/ ()", max_size=12),
    st.from_regex(r"\A[0-9]{0,7}(\.[0-9]{0,7})?([num]?s|[KMGT]?B(/s)?)?\Z"),
    st.from_regex(r"\A\([0-9]{1,9}( [0-9]{1,9}){1,2}\)\Z"),
)


@given(
    rows=tables(),
    style=STYLES,
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 19), CELLS), min_size=1, max_size=12),
)
def test_any_cell_is_read_the_same_in_bulk(
    rows: list[TraceRow], style: Style, changes: list[tuple[int, int, str]]
) -> None:
    header, *lines = text_table(rows, style).splitlines()
    layout = text_header(header)
    assert layout is not None
    for row_index, column, cell in changes:
        line = row_index % len(lines)
        begin, end = (len(layout.line_prefix), *layout.edges)[column % len(layout.edges) :][:2]
        lines[line] = lines[line][:begin] + cell.rjust(end - begin)[begin - end :] + lines[line][end:]
    text = (HEAD + "\n".join((header, *lines)) + "\n").encode()
    assert_same(read(text), read_by_line(text))


@pytest.mark.parametrize(
    "name", ["[7]", "f(int) [7]", "f(int)  [7]", "f(int) [12345678901234567]", "f [7])", "[7] [8]"]
)
def test_texts_similar_to_ids_are_read_the_same_in_bulk(name: str) -> None:
    header, row = text_table([TraceRow("NAME", 5, grid=(1, 1, 1), block=(1, 1, 1), registers=8)], Style()).splitlines()
    text = (HEAD + "\n".join((header, row, row.replace("NAME", name), row)) + "\n").encode()
    profile = read(text)
    assert_same(profile, read_by_line(text))
    assert profile["activities"].height == 3


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.integers(0, 30),
        st.sampled_from(
            [
                b"",
                b" ",
                b"  ",
                b"\n",
                b"\n\n",
                b"-",
                b"\xff",
                b"\x00",
                b"1",
                b",",
                b'"',
                b"(",
                b"e",
                b"KB",
                b"program output\n",
            ]
        ),
    ),
    min_size=1,
    max_size=6,
)


@given(rows=tables(), style=STYLES, as_csv=st.booleans(), mutations=MUTATIONS)
def test_damage_never_crashes(
    rows: list[TraceRow], style: Style, as_csv: bool, mutations: list[tuple[int, int, bytes]]
) -> None:
    data = bytearray((csv_table(rows) if as_csv else text_table(rows, style)).encode())
    for position, length, replacement in mutations:
        position %= len(data) + 1
        data[position : position + length] = replacement
    text = HEAD.encode() + bytes(data)
    profile = read(text)
    assert_same(profile, read_by_line(text))
    assert profile["activities"]["start_ns"].null_count() == 0
    assert profile["activities"]["kind"].null_count() == 0
