"""GPU and API traces: the figures of real logs, and one small case for every irregularity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.nvprof.reading import read
from tests.render_trace import FOOTER, Style, TraceRow, csv_table, text_table
from tui.loaders.nvprof.trace_bulk import is_next_row
from tui.loaders.registry import load_input
from tui.loaders.text.block import Block, Line

HEAD = "==7== NVPROF is profiling process 7, command: ./a\n==7== Profiling result:\n"
KERNEL = TraceRow(
    "void f<float>(int)",
    2_776_060_000,
    1_216,
    correlation=612,
    grid=(27848, 1, 1),
    block=(8, 32, 1),
    registers=79,
    static=12820,
    dynamic=0,
    stream=13,
)
COPY = TraceRow("[CUDA memcpy HtoD]", 3_039_870_000, 3_402_500, size=684_394_250, src="Pageable", dst="Device")
OLD = Style(memory_types=False)

# Rows and nanoseconds of the GPU activities, then of the API calls; counted by other readers.
FIGURES = {
    "seeds/000_eb78dec59201d654.txt": (32, 753_580_086, 0, 0),
    "nvprof/029-samhachem99-cs533-apitrace-imported.txt": (0, 0, 341, 792_289_953),
    "nvprof/049-nanzifan-bfs-um-gputrace.txt": (253, 1_077_314, 0, 0),
    "nvprof/052-nanzifan-cfd-csv-gputrace-um.txt": (16_238, 425_622_801, 0, 0),
    "nvprof/059-tdd11235813-popcorn2d-oldtrace.txt": (17, 72_566_795, 0, 0),
    "nvprof/062-pssrawat-forma-gputrace-shelltrace.txt": (3, 111_006_600, 0, 0),
    "nvprof/064-pssrawat-forma-csv-gputrace-ums.txt": (3, 90_880_027, 0, 0),
    "nvprof/069-pssrawat-artemis-gputrace-unitsrow.txt": (19, 506_065_400, 0, 0),
    "nvprof/072-leimingyu-cke-csv-gputrace-old.txt": (8, 29_632, 0, 0),
    "nvprof/077-marcosamaris-gpp-csv-prefixed.txt": (276, 13_576_725_535, 0, 0),
    "nvprof/079-marcosamaris-gpp-csv-u-s.txt": (2, 6_998_015_512, 0, 0),
    "nvprof/084-IBM-openacc-tutorial-md.txt": (7, 15_824_823, 0, 0),
    "nvprof/087-unknown-raytracer-windows-um.txt": (4, 2_400_064_163_248, 0, 0),
    "nvprof/091-tensorflow-issue5902-oldtrace.txt": (8, 1_122_981, 0, 0),
    "nvprof_rendered/ddp_rank0.gputrace.txt": (2_395, 112_912_818, 0, 0),
    "nvprof_rendered/gpt_cudagraph.gputrace.txt": (4_901, 17_401_529, 0, 0),
    "nvprof_rendered/resnet50_amp.apitrace.txt": (0, 0, 4_106, 26_025_911),
    "nvprof_rendered/resnet50_amp.both.txt": (4_630, 80_128_393, 4_106, 26_025_911),
    "nvprof_rendered/resnet50_amp.gputrace.csv": (4_630, 80_128_345, 0, 0),
    "nvprof_rendered/resnet50_amp.gputrace.txt": (4_630, 80_128_393, 0, 0),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_real_logs(name: str, corpus: Callable[[str], str]) -> None:
    profile = load_input(corpus(name))
    frames = (profile["activities"], profile["api_calls"])
    assert tuple(x for frame in frames for x in (frame.height, frame["duration_ns"].sum())) == FIGURES[name]


def test_launch_configurations_of_a_real_log(corpus: Callable[[str], str]) -> None:
    activities = load_input(corpus("seeds/000_eb78dec59201d654.txt"))["activities"]
    columns = ("grid_x", "block_y", "registers", "static_shared_bytes", "device", "context", "stream", "correlation")
    kernels = activities.filter(pl.col("kind") == "kernel")
    assert kernels.height == 20
    assert kernels.select(*columns).null_count().sum_horizontal().item() == 0
    row = activities.filter(pl.col("correlation") == 628).row(0, named=True)
    assert tuple(row[column] for column in columns) == (27848, 32, 79, 12820, 0, 1, 13, 628)
    assert row["line"] == 75
    assert row["duration_ns"] == 84_104_000


def row_of(text: str, index: int = 0) -> dict[str, object]:
    return read(text.encode())["activities"].row(index, named=True)


def test_a_kernel_and_a_copy() -> None:
    profile = read((HEAD + text_table([KERNEL, COPY], OLD) + FOOTER).encode())
    kernel, copy = profile["activities"].rows(named=True)
    assert kernel["start_ns"] == 2_776_060_000
    assert kernel["duration_ns"] == 1216
    assert (kernel["name"], kernel["short_name"]) == ("void f<float>(int)", "f")
    assert (kernel["kind"], kernel["correlation"], kernel["stream"]) == ("kernel", 612, 13)
    assert kernel["size_bytes"] is None
    assert kernel["throughput"] is None
    assert (copy["kind"], copy["copy_kind"], copy["short_name"]) == ("memcpy", "HtoD", "[CUDA memcpy HtoD]")
    assert copy["size_bytes"] == round(652.69 * 2**20)
    assert copy["throughput"] == 187.33 * 2**30
    assert copy["grid_x"] is None
    assert copy["correlation"] is None
    assert [kernel["line"], copy["line"]] == [4, 5]
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla K40c")]
    assert profile["sessions"]["start_resolution_ns"].to_list() == [10_000]
    assert profile["issues"].is_empty()


def test_memory_kinds_are_words_in_lower_case() -> None:
    row = row_of(HEAD + text_table([COPY]))
    assert (row["src_memory"], row["dst_memory"]) == ("pageable", "device")


def test_api_calls_between_activities_are_in_the_frame_api_calls() -> None:
    call = TraceRow("cudaLaunchKernel", 2_900_000_000, 8_002, api=True, correlation=612)
    profile = read((HEAD + text_table([KERNEL, call, COPY])).encode())
    assert profile["activities"].height == 2
    columns = ("name", "start_ns", "duration_ns", "correlation", "line")
    assert profile["api_calls"].select(*columns).rows() == [("cudaLaunchKernel", 2_900_000_000, 8_002, 612, 5)]


def test_sizes_of_the_oldest_versions_count_1000() -> None:
    copies = [TraceRow("[CUDA memcpy HtoD]", 230_440_000, 707_570, size=4_194_304) for _ in range(3)]
    profile = read((HEAD + text_table(copies, Style(memory_types=False, base=1000))).encode())
    assert profile["activities"]["size_bytes"].to_list() == [4_194_300] * 3
    assert profile["activities"]["throughput"].to_list() == [5.9278e9] * 3
    (issue,) = profile["issues"].rows(named=True)
    assert (issue["severity"], issue["line"]) == ("info", 4)
    assert "1000" in issue["reason"]


@pytest.mark.parametrize(
    ("devices", "numbers"),
    [
        (["Quadro GP100 (0)"], [0]),
        (["GeForce GTX 1070 (0)"], [0]),
        (["GeForce GTX 1070 (0)", "GeForce RTX 2080 (1)"], [None, None]),
        (["Tesla K80 (0)", "Tesla K80 (1)"], [0, 1]),
        (["Tesla K8000 (12)"], [None]),
        (["1"], [1]),
        (["0", "2"], [0, 2]),
    ],
)
def test_numbers_of_devices(devices: list[str], numbers: list[int | None]) -> None:
    rows = [TraceRow("[CUDA memset]", index, 10, size=4, device=name) for index, name in enumerate(devices)]
    if len(devices) == 1 and numbers == [None]:
        # Two contexts of what is printed as one GPU may be two GPUs.
        rows.append(TraceRow("[CUDA memset]", 5, 10, size=4, device=devices[0], context=2))
        numbers = [None, None]
    profile = read((HEAD + text_table(rows, OLD)).encode())
    assert profile["activities"]["device"].to_list() == numbers
    clipped = any(len(name) > 15 and not name[:15].endswith("(0") for name in devices)
    assert profile["issues"].height == clipped


def test_unified_memory() -> None:
    header = (
        "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*           Device"
        "   Context    Stream        Unified Memory  Virtual Address  Name\n"
    )
    rows = [
        ("1.18208s", "-", "-", "-", "-", "PC 0x4034d6", "0x7f8cc0000000", "[Unified Memory CPU page faults]"),
        ("1.28140s", "398.85us", "TITAN Xp (0)", "-", "-", "49", "0x7f8cc0080000", "[Unified Memory GPU page faults]"),
        (
            "1.28174s",
            "5.7920us",
            "TITAN Xp (0)",
            "-",
            "-",
            "48.000000KB",
            "0x7f8cc0080000",
            "[Unified Memory Memcpy HtoD]",
        ),
    ]
    text = HEAD + header
    for start, duration, device, context, stream, size, address, name in rows:
        text += f"{start:>8}{duration:>10}{'-':>21}{'-':>16}{'-':>10}{'-':>10}{'-':>10}"
        text += f"{device:>17}{context:>10}{stream:>10}{size:>22}{address:>17}  {name}\n"
    activities = read(text.encode())["activities"]
    columns = ("kind", "duration_ns", "size_bytes", "copy_kind", "device")
    assert activities.select(*columns).rows() == [
        ("um", None, None, None, None),
        ("um", 398_850, None, None, 0),
        ("um", 5_792, 49_152, "HtoD", 0),
    ]


def test_peer_copies_have_further_columns() -> None:
    header = (
        "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
        "           Device   Context    Stream          Src Dev   Src Ctx          Dst Dev   Dst Ctx  Name\n"
    )
    row = f"{'1.50000s':>8}{'10.000us':>10}{'-':>21}{'-':>16}{'-':>10}{'-':>10}{'-':>10}"
    row += f"{'4.0000KB':>10}{'390.63MB/s':>12}"
    row += f"{'Tesla K80 (0)':>17}{'1':>10}{'7':>10}{'Tesla K80 (0)':>17}{'1':>10}{'Tesla K80 (1)':>17}{'2':>10}"
    copy = row_of(f"{HEAD}{header}{row}  [CUDA memcpy PtoP]\n")
    assert (copy["size_bytes"], copy["copy_kind"], copy["device"], copy["stream"]) == (4096, "PtoP", 0, 7)


def test_rows_without_their_header() -> None:
    row = text_table([COPY], OLD).splitlines()[1]
    profile = read(f"As one sees:\n{row}\n{row}\n".encode())
    assert profile["activities"].select("duration_ns", "line").rows() == [(3_402_500, 2), (3_402_500, 3)]
    assert profile["sessions"].height == 1


def test_a_truncated_row_keeps_its_certain_cells() -> None:
    lines = text_table([KERNEL, KERNEL], OLD).splitlines()
    profile = read("\n".join((*HEAD.splitlines(), *lines[:2], lines[2][:70], "2.77606s  601.4")).encode())
    activities = profile["activities"]
    columns = ("name", "kind", "duration_ns", "grid_x", "block_y", "registers", "stream", "line")
    assert activities.select(*columns).row(1) == (None, "kernel", 1_216, 27848, 32, 79, None, 5)
    assert activities.height == 2
    assert profile["issues"].select("severity", "line").rows() == [("warning", 5), ("warning", 6)]


def test_program_output_between_rows() -> None:
    rows = text_table([KERNEL, COPY], OLD).splitlines()
    text = "\n".join((*HEAD.splitlines(), *rows[:2], "step 1: loss 2.5", "", "N,100000000", "[...]", rows[2], ""))
    profile = read(text.encode())
    assert profile["activities"]["line"].to_list() == [4, 9]
    assert profile["issues"].is_empty()
    assert profile["sessions"].height == 1


def test_a_line_outside_the_known_lines_ends_a_table() -> None:
    block = Block.from_data(b"hello\nrow\n", 5)
    lines = (Line("hello", 5), Line("hello", 4), Line("hello", 7))
    assert [is_next_row(block, line, "row".__eq__) for line in lines] == [True, False, False]
    assert not is_next_row(None, lines[0], "row".__eq__)


def test_a_second_table_in_one_result_is_another_run() -> None:
    first = text_table([KERNEL], OLD)
    profile = read((HEAD + first + "\n```\nThe same with more blocks:\n```\n" + text_table([KERNEL], OLD)).encode())
    assert profile["activities"]["session"].to_list() == [0, 1]


def test_a_repeated_header_is_not_a_row() -> None:
    header, *rows = text_table([KERNEL, COPY], OLD).splitlines()
    profile = read("\n".join((*HEAD.splitlines(), header, rows[0], header, rows[1], "")).encode())
    assert profile["activities"].height == 2
    assert profile["sessions"].height == 1


@pytest.mark.parametrize("gap", [" ", "   "])
def test_cells_that_are_not_below_their_headings(gap: str) -> None:
    header, row = text_table([KERNEL], OLD).splitlines()
    moved = gap.join(part for part in row.split("  ") if part).replace("   ", gap)
    kernel = row_of(f"{HEAD}{header}\n{moved}\n")
    assert (kernel["grid_x"], kernel["registers"], kernel["stream"], kernel["name"]) == (
        27848,
        79,
        13,
        "void f<float>(int)",
    )


def test_many_damaged_rows_are_counted() -> None:
    header, row = text_table([KERNEL], OLD).splitlines()
    damaged = [row[:40].replace("(", "[")] * 500
    profile = read("\n".join((*HEAD.splitlines(), header, row, *damaged, row, "")).encode())
    assert profile["activities"].height == 2
    assert profile["issues"].height == 101
    assert profile["issues"]["reason"].to_list()[-1].startswith("400 more issues like this")


def test_csv_with_an_added_first_column() -> None:
    text = (
        '131072,"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
        '"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"\n'
        "131072,ns,ns,,,,,,,,KB,B,MB,GB/s,,,,\n"
        '131072,215155715.000000,53061.000000,,,,,,,,,,1.000000,9.2,"Tesla K40c (0)","1","7","[CUDA memcpy HtoD]"\n'
        '262144,215304848.000000,2.000000e+04,512,1,1,256,1,1,13,1.000000,1.024000e+03,,,"Tesla K40c (0)","1","7",'
        '"dotProd(float*, int) [109]"\n'
    )
    copy, kernel = read(text.encode())["activities"].rows(named=True)
    assert (copy["start_ns"], copy["duration_ns"], copy["size_bytes"]) == (215_155_715, 53_061, 2**20)
    assert (kernel["duration_ns"], kernel["name"], kernel["correlation"]) == (20_000, "dotProd(float*, int)", 109)
    assert (kernel["static_shared_bytes"], kernel["dynamic_shared_bytes"]) == (1024, 1024)


def test_a_row_in_csv_with_a_damaged_character_is_reported() -> None:
    rows = [TraceRow("f(int)", index * 1_234_567, 500, correlation=index, grid=(1, 1, 1), block=(32, 1, 1),
                     registers=8, static=0, dynamic=0) for index in range(1, 6)]  # fmt: skip
    lines = (HEAD + csv_table(rows)).splitlines()
    lines[5] = lines[5].replace(",", "?", 1)
    lines[7] = lines[7].replace(".", "?", 1)
    profile = read("\n".join(lines).encode())
    assert profile["activities"]["line"].to_list() == [5, 7, 9]
    assert profile["issues"].filter(severity="warning")["line"].to_list() == [6, 8]


def test_every_row_of_a_long_trace_has_its_line(tmp_path: Path) -> None:
    rows = [TraceRow("f(int)", index * 1000, 500, correlation=index, grid=(1, 1, 1), block=(32, 1, 1), registers=8,
                     static=0, dynamic=0) for index in range(40_000)]  # fmt: skip
    path = tmp_path / "long.log"
    path.write_text(HEAD + text_table(rows, OLD))
    activities = load_input(str(path))["activities"]
    assert activities["line"].to_list() == list(range(4, 40_004))
    assert activities["correlation"].to_list() == list(range(40_000))
    assert activities["duration_ns"].sum() == 20_000_000


def test_a_long_trace_in_csv(tmp_path: Path) -> None:
    rows = [TraceRow("f(int)", index * 1_234_567, 500 + index, correlation=index, grid=(1, 1, 1), block=(32, 1, 1),
                     registers=8, static=0, dynamic=0) for index in range(60_000)]  # fmt: skip
    path = tmp_path / "long.csv"
    path.write_text(HEAD + csv_table(rows))
    activities = load_input(str(path))["activities"]
    assert activities["line"].to_list() == list(range(5, 60_005))
    assert activities["start_ns"].to_list() == [row.start_ns for row in rows]
    assert activities["duration_ns"].to_list() == [row.duration_ns for row in rows]
    assert activities["correlation"].to_list() == list(range(60_000))


def test_launches_with_distinct_configurations(tmp_path: Path) -> None:
    rows = [TraceRow("f(int)", index * 1000, 500, grid=(index + 1, 1, 1), block=(32, 1, 1), registers=8, static=0,
                     dynamic=index) for index in range(40_000)]  # fmt: skip
    path = tmp_path / "distinct.log"
    path.write_text(HEAD + text_table(rows, OLD))
    activities = load_input(str(path))["activities"]
    assert activities["grid_x"].to_list() == list(range(1, 40_001))
    assert activities["name"].n_unique() == 1


@pytest.mark.parametrize("count", [2, 400])
def test_durations_that_are_rounded_to_zero_are_reported(count: int) -> None:
    text = f'{HEAD}"Start","Duration","Name","Correlation_ID"\n{{}},,\n0.000001,0.000002,"cudaFree",1\n'
    text += "".join(f'0.000{at:03d},0.000000,"cudaGetDevice",{at}\n' for at in range(2, 2 + count))
    reason = f"{count} durations printed as 0.000000 s: shorter than 500 ns and counted as 0 ns; to print nanoseconds"
    profile = read(text.format("s,s").encode())
    assert profile["api_calls"]["duration_ns"].sum() == 2_000
    assert [text.startswith(reason) for text in profile["issues"]["reason"]] == [True]
    assert read(text.format("ms,ms").encode())["issues"].is_empty()


@pytest.mark.parametrize("number", ["99999999999999999999", "-5", "1_2"])
def test_a_correlation_id_out_of_range_affects_only_its_row(number: str) -> None:
    rows = "".join(f'0.{at:06d},0.000001,"cudaFree",{at}\n' for at in range(1, 4))
    text = (
        f'{HEAD}"Start","Duration","Name","Correlation_ID"\ns,s,,\n{rows}'
        f'0.000004,0.000001,"cudaFree",{number}\n0.000005,0.000001,"cudaFree",5\n'
    )
    profile = read(text.encode())
    assert profile["api_calls"].select("start_ns", "correlation").rows() == [
        (1_000, 1),
        (2_000, 2),
        (3_000, 3),
        (5_000, 5),
    ]
    reason = f"expected a whole number, found {number!r}: row skipped"
    assert profile["issues"].select("line", "reason").rows() == [(8, reason)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["Range start", "Range end", "Marker"]),
            st.sampled_from(["a", "b (1)", ""]),
            st.sampled_from(["<unnamed>", "NCCL"]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_an_end_closes_the_last_open_range_of_its_name(marks: list[tuple[int, str, str, str]]) -> None:
    now, orphan_ends = 0, 0
    rows, expected, open_ranges = [], [], []
    for step, kind, name, domain in marks:
        now += step
        rows.append(f"{now}ns         -  [{kind}] {name} (Domain: {domain})")
        if kind != "Range end":
            expected.append([now, None, len(open_ranges), name, None if domain == "<unnamed>" else domain])
            open_ranges += [((name, domain), expected[-1])] if kind == "Range start" else []
            continue
        last = next((opened for opened in reversed(open_ranges) if opened[0] == (name, domain)), None)
        if last is None:
            orphan_ends += 1
        else:
            open_ranges.remove(last)
            last[1][1] = now - last[1][0]
    profile = read("\n".join((HEAD + "   Start  Duration  Name", *rows)).encode())
    ranges = profile["ranges"].select("start_ns", "duration_ns", "depth", "name", "domain")
    assert sorted(map(str, ranges.rows())) == sorted(str(tuple(row)) for row in expected)
    unpaired = orphan_ends + len(open_ranges)
    reported = [reason for reason in profile["issues"]["reason"] if "NVTX range" in reason]
    assert [reason.split()[0] for reason in reported] == [str(unpaired)] * (unpaired > 0)


@pytest.mark.parametrize("csv", [False, True])
def test_an_api_trace_with_unified_memory_has_calls_and_no_kernels(*, csv: bool) -> None:
    calls = 300
    if csv:
        rows = ['"Start","Duration","Unified Memory","Name","Correlation_ID"', "us,us,B,,"]
        rows += [f'{10 * i}.000000,2.500000,,"cudaFree",{i + 1}' for i in range(calls)]
        rows.insert(3, '4.000000,0.500000,4096.000000,"[Unified Memory Memcpy HtoD]",')
    else:
        rows = ["   Start  Duration        Unified Memory  Name"]
        rows += [f"{f'{10 * i}.000us':>8}  2.5000us                     -  cudaFree [{i + 1}]" for i in range(calls)]
        rows.insert(2, "4.000us      500ns            4.000000KB  [Unified Memory Memcpy HtoD]")
    profile = read(HEAD + "\n".join(rows) + "\n")

    assert profile["api_calls"].select(pl.len(), pl.col("duration_ns").sum()).row(0) == (calls, 2500 * calls)
    assert profile["api_calls"]["correlation"].to_list() == list(range(1, calls + 1))
    assert profile["activities"].select("kind", "start_ns", "duration_ns", "size_bytes").rows() == [
        ("um", 4000, 500, 4096)
    ]
    assert profile["issues"].is_empty()


@pytest.mark.parametrize("csv", [False, True])
def test_sizes_of_unified_memory_with_a_blank(*, csv: bool) -> None:
    if csv:
        rows = ['"Start","Duration","Device","Context","Stream","Unified Memory","Name"', "us,ns,,,,,"]
        rows += ['4.000000,500,"K80 (0)",,,"8192 B","[Unified Memory Memcpy DtoH]"']
        rows += ['5.000000,0,"K80 (0)",,,"1","[Unified Memory CPU page faults]"']
    else:
        rows = ["   Start  Duration       Device   Context    Stream             Unified Memory  Name"]
        rows += ["4.0000us     500ns      K80 (0)         -         -                     8192 B  "]
        rows += ["5.0000us       0ns      K80 (0)         -         -                          1  "]
        rows[1] += "[Unified Memory Memcpy DtoH]"
        rows[2] += "[Unified Memory CPU page faults]"
    profile = read(HEAD + "\n".join(rows) + "\n")

    assert profile["activities"].select("kind", "start_ns", "duration_ns", "size_bytes", "device").rows() == [
        ("um", 4000, 500, 8192, 0),
        ("um", 5000, 0, None, 0),
    ]
    assert profile["issues"].is_empty()


@pytest.mark.parametrize("csv", [False, True])
def test_openacc_constructs_are_ranges(*, csv: bool) -> None:
    names = ("acc_compute_construct@heat.c:12", "cuLaunchKernel", "acc_enqueue_launch@heat.c:12 (step_12_gpu)")
    if csv:
        rows = ['"Start","Duration","Size","Device","Context","Stream","Name","Correlation_ID"', "us,us,B,,,,,"]
        rows += [f'0.000000,9.000000,,"V100 (0)","1","7","{names[0]}",']
        rows += [f'1.000000,2.000000,,,,,"{names[1]}",5', f'4.000000,3.000000,,"V100 (0)","1","7","{names[2]}",']
    else:
        rows = ["   Start  Duration      Size           Device   Context    Stream  Name"]
        rows += [f"     0ns  9.0000us         -         V100 (0)         1         7  {names[0]}"]
        rows += [f"1.0000us  2.0000us         -                -         -         -  {names[1]} [5]"]
        rows += [f"4.0000us  3.0000us         -         V100 (0)         1         7  {names[2]}"]
    profile = read(HEAD + "\n".join(rows) + "\n")

    assert profile["ranges"].select("name", "domain", "start_ns", "duration_ns", "depth").rows() == [
        (names[0], "OpenACC", 0, 9000, 0),
        (names[2], "OpenACC", 4000, 3000, 1),
    ]
    assert profile["api_calls"].select("name", "duration_ns", "correlation").rows() == [("cuLaunchKernel", 2000, 5)]
    assert profile["activities"].is_empty()
    assert profile["issues"].is_empty()
