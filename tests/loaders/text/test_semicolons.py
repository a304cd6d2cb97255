"""Tables that a spreadsheet saved with semicolons and a decimal comma."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.loaders.reading import read, reasons, rows
from tui.loaders.registry import load_input
from tui.loaders.text.block import Block
from tui.loaders.text.csv_table import Semicolons
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "Time (%);Total Time (ns);Instances;Avg (ns);Med (ns);Min (ns);Max (ns);StdDev (ns);Name\n"
NSYS = (
    HEADER
    + "60,5;1234567;12;102880,6;100000,0;90000;200000;1.234,5;void k<float, 3>(float*)\n"
    + '39,5;806000;4;201500,0;200000,0;190000;210000;99,25;"a;b"\n'
)
NVPROF = """==123== NVPROF is profiling process 123, command: ./app
==123== Profiling result:
"Type";"Time(%)";"Time";"Calls";"Avg";"Min";"Max";"Name"
;%;ms;;ms;ms;ms;
"GPU activities";60,5;1,234567;12;0,102880;0,09;0,2;"void k<float, 3>(float*)"
"API calls";100,00;3,5;16;0,21;0,1;1,0;"cudaLaunchKernel"
==123== done; with; some; more
"""
TRACE = """==123== NVPROF is profiling process 123, command: ./app
==123== Profiling result:
"Start";"Duration";"Grid X";"Grid Y";"Grid Z";"Block X";"Block Y";"Block Z";"Registers Per Thread";"Static SMem";\
"Dynamic SMem";"Size";"Throughput";"SrcMemType";"DstMemType";"Device";"Context";"Stream";"Name"
ms;us;;;;;;;;KB;B;MB;GB/s;;;;;;
1,5;1,12;;;;;;;;;;0,5;10,25;"Pageable";"Device";"Tesla";1;7;"[CUDA memcpy HtoD]"
2,5;10,5;1;1;1;32;1;1;16;0,5;0;;;;;"Tesla";1;7;"k(int) [12]"
""".replace("\\\n", "")
NOTE = "read as a spreadsheet export: cells separated by semicolons, numbers with a decimal comma"


def with_commas(text: str) -> str:
    """Return one of the texts above with commas between cells."""
    table = str.maketrans({";": ",", ",": "."})
    parts = text.replace("1.234,5", "1234,5").split('"')
    parts[::2] = [part.translate(table) for part in parts[::2]]
    return '"'.join(parts).replace("void k<float. 3>(float*)\n", '"void k<float, 3>(float*)"\n')


def test_summaries_of_nsys_stats() -> None:
    profile = read(NSYS)
    assert rows(profile, "summary", "name", "time_pct", "calls", "total_ns", "avg_ns", "std_ns", "line") == [
        ("void k<float, 3>(float*)", 60.5, 12, 1_234_567, 102_881, 1234, 2),
        ("a;b", 39.5, 4, 806_000, 201_500, 99, 3),
    ]
    assert reasons(profile) == [NOTE]


@pytest.mark.parametrize(("text", "frame"), [(NVPROF, "summary"), (TRACE, "activities")])
def test_tables_of_nvprof_read_the_same_as_with_commas(text: str, frame: str) -> None:
    profile, plain = read(text), read(with_commas(text))
    assert profile[frame].height == 2
    assert profile[frame].equals(plain[frame])
    assert NOTE in reasons(profile)
    assert NOTE not in reasons(plain)


def test_a_decimal_point_is_kept() -> None:
    profile = read(HEADER + "60.5;1234567;12;102880.6;100000.0;90000;200000;1234.5;k\n")
    assert rows(profile, "summary", "time_pct", "total_ns") == [(60.5, 1_234_567)]
    assert reasons(profile) == [NOTE.replace("comma", "point")]


def test_ambiguous_numbers_are_not_read() -> None:
    with pytest.raises(ProftuiError, match="the decimal separator is ambiguous"):
        read(HEADER + "60;1,234;12;10;10;9;20;1;k\n")


def test_a_table_of_one_row_below_its_units_is_read() -> None:
    text = (
        "==1== Profiling result:\nTime(%);Time;Calls;Avg;Min;Max;Name\n%;us;;us;us;us;\n90,0;125,7;5;25,1;25,0;25,2;k\n"
    )
    assert read(text)["summary"].select("name", "total_ns", "calls").rows() == [("k", 125_700, 5)]


def test_program_output_with_semicolons_is_not_a_table() -> None:
    profile = read("for (i = 0; i < 3; i++) {; }\nTime;a;b;c\n" + with_commas(NVPROF))
    assert profile["summary"].height == 2
    assert not any("semicolons" in reason for reason in reasons(profile))


def test_a_damaged_row_affects_only_itself() -> None:
    damaged = NSYS.replace('"a;b"', '"a') + "1,5;1;1;1,0;1,0;1;1;0,5;last\n"
    profile = read(damaged)
    assert "void k<float, 3>(float*)" in profile["summary"]["name"].to_list()
    assert "last" in profile["summary"]["name"].to_list()


def test_each_of_many_rows_is_rewritten() -> None:
    line = b"60,5;1234567;12;102880,6;100000,0;90000;200000;1234,5;void k<float, 3>(float*)\n"
    block = Block.from_data(line * 100_000, 1)
    converted = Semicolons(has_comma=True).convert(block)
    assert converted.line_count == block.line_count
    first = pl.read_csv(io.BytesIO(converted.raw(99_999)), has_header=False).row(0)
    assert first == (60.5, 1234567, 12, 102880.6, 100000.0, 90000, 200000, 1234.5, "void k<float, 3>(float*)")


def test_a_file_with_semicolons_in_a_folder_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text(NSYS, "utf-16")
    assert load_input(str(tmp_path))["summary"].height == 2
