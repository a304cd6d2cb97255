"""Reports of Nsight Compute: a small generated one, and real ones against NVIDIA's own reader."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
import zstandard

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tests.loaders.wire import field
from tui.loaders.ncu.ncu_launches import ISOLATED_TIMES, implied_unit
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


def sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def shape(x: int, y: int, z: int) -> bytes:
    return field(1, x) + field(2, y) + field(3, z)


NAMES = [
    "gpu__time_duration.sum",
    "launch__grid_size",
    "launch__registers_per_thread",
    "sm__throughput.avg.pct_of_peak",
]


def result(kernel: str, grid: tuple[int, int, int], duration_ns: float, blocks: int) -> bytes:
    values = [field(3, float(duration_ns)), field(5, blocks), field(4, 32), field(3, 55.5)]
    metrics = b"".join(field(13, field(1, index) + field(2, value)) for index, value in enumerate(values))
    message = field(1, field(1, "Increase the number of blocks.") + field(2, 4)) + field(
        10, field(1, 1) + field(2, 12.5)
    )
    rule = (
        field(1, "LaunchConfig") + field(2, "Launch Configuration") + field(3, field(1, message)) + field(4, "Launch")
    )
    section = field(1, "SpeedOfLight") + field(2, "GPU Speed Of Light") + field(4, field(2, field(1, NAMES[3])))
    return (
        field(1, 7700)
        + field(6, kernel)
        + field(10, shape(*grid))
        + field(11, shape(128, 1, 1))
        + metrics
        + field(17, section)
        + field(19, rule)
        + field(22, 1)
        + field(23, 13)
    )


def block(header: bytes, *entries: bytes) -> bytes:
    payload = b"".join(map(sized, entries))
    return sized(header + field(5, len(payload))) + payload


def report_of_metrics(*metrics: bytes) -> bytes:
    """Return a report with one kernel that has these metrics."""
    names = b"".join(field(1, name) for name in ("first", "second", "smsp__pcsamp_warps_issue_stalled_wait"))
    kernel = field(6, "f") + b"".join(field(13, metric) for metric in metrics)
    return b"NVR\0" + sized(field(1, 7)) + block(field(2, 1) + field(4, names), kernel)


def test_values_of_every_type_are_read() -> None:
    single = bytes([2 << 3 | 5]) + struct.pack("<f", 0.1)
    metrics = [
        field(1, 0) + field(2, single),
        field(1, 1) + field(2, field(4, -1)),
        field(1, -1) + field(2, field(4, 7)),
    ]
    metrics += [field(1, 3) + field(2, field(6, "on")), field(1, 4) + field(2, b""), field(1, 5) + field(2, b"\x29\0")]
    profile = load_input("made.ncu-rep", stream=io.BytesIO(report_of_metrics(*metrics)))
    assert profile["metrics"].select("metric", "avg").rows() == [
        ("first", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("second", float((1 << 64) - 1)),
        ("metric -1", 7.0),
    ]
    assert profile["activities"]["arguments"].to_list() == ["metric 3: on"]


def test_stall_samples_of_many_instructions() -> None:
    instances = b"".join(field(3, field(1, field(5, 16 * at)) + field(2, field(5, 1 + at % 3))) for at in range(5_000))
    profile = load_input("made.ncu-rep", stream=io.BytesIO(report_of_metrics(field(1, 2) + instances)))
    figures = profile["tool_figures"]
    assert figures.height == 1_000
    assert set(figures["value"]) == {3.0}
    assert figures["name"].to_list()[:2] == ["+0x0020 wait", "+0x0050 wait"]
    assert "4,000 rows with the fewest stall samples skipped" in profile["issues"]["reason"].to_list()


VERSIONS = {
    "CUDA Version": "12.8",
    "Display Driver Version": "570.1",
    "PerfWorks": "0.1.0",
    "Nsight Compute Target": "2024.1.1.0 (build 33) (public-release)",
}


def made_report() -> bytes:
    attributes = {"device__attribute_multiprocessor_count": 40, "device__attribute_compute_capability_major": 7}
    attributes["device__attribute_compute_capability_minor"] = 5
    device = field(1, 0) + field(2, "Tesla T4")
    device += b"".join(field(3, field(1, name) + field(2, field(5, value))) for name, value in attributes.items())
    texts = b"".join(field(1, name) for name in NAMES)
    process = field(1, 77) + field(2, "127.0.0.1") + field(3, "/home/me/app")
    results = field(1, 1) + field(2, 2) + field(4, texts) + field(6, process)
    return (
        b"NVR\0"
        + sized(field(1, 7))
        + block(results, b"a source", result("f", (1280, 1, 1), 1000, 10), result("g", (4, 2, 1), 500, 8))
        + block(field(3, field(3, field(5, "box")) + field(6, device)))
        + b"".join(block(field(3, field(8, field(1, name) + field(2, value)))) for name, value in VERSIONS.items())
    )


REPORT = made_report()


def read(data: bytes) -> Profile:
    return load_input("x.ncu-rep", stream=io.BytesIO(data))


def test_a_compressed_report_is_read() -> None:
    data = zstandard.ZstdCompressor().compress(REPORT)
    profile = load_input("run.ncu-repz", stream=io.BytesIO(data))
    assert profile["activities"].drop("line").equals(read(REPORT)["activities"].drop("line"))


def test_a_block_of_negative_size_ends_the_report() -> None:
    end_of_header = field(5, -1)
    profile = read(REPORT + sized(end_of_header + field(5, -len(sized(end_of_header)) - 11)))

    assert profile["activities"].height == 2
    assert "the block at byte" in profile["issues"].filter(pl.col("severity") == "error")["reason"].item()


def test_a_report_has_its_launches_and_metrics() -> None:
    profile = read(REPORT)
    # The first grid is recorded in threads: its metric says ten blocks.
    assert profile["activities"].select(
        pl.col("name").cast(str), "duration_ns", "grid_x", "grid_y", "block_x", "registers", "context", "stream"
    ).rows() == [("f", 1000, 10, 1, 128, 32, 1, 13), ("g", 500, 4, 2, 128, 32, 1, 13)]
    assert profile["devices"].select("name", "compute_capability", "sm_count").rows() == [("Tesla T4", "7.5", 40)]
    metrics = profile["metrics"].filter(pl.col("metric").cast(str) == NAMES[3])
    assert metrics.select("avg", pl.col("unit", "description").cast(str)).row(0) == (55.5, "%", "GPU Speed Of Light")
    finding = profile["tool_findings"].row(0, named=True)
    assert finding["severity"] == "warning"
    assert "Increase the number of blocks." in finding["recommendation"]
    assert finding["recommendation"].endswith("(estimated speedup, local: 12.5 %)")
    session = ("pid", "command", "host", "tool", "tool_version", "cuda_version", "driver_version")
    facts = (77, "/home/me/app", "box", "Nsight Compute", "2024.1.1.0", "12.8", "570.1")
    assert profile["sessions"].select(session).rows() == [facts]
    assert profile["issues"]["reason"].to_list() == [ISOLATED_TIMES]


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("dram__bytes.sum.per_second", "byte/second"),
        ("dram__bytes.sum.peak_sustained", "byte/cycle"),
        ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio", "byte/sector"),
        ("lts__t_sectors_op_read.sum", "sector"),
        ("lts__t_sectors_op_read.sum.per_second", "sector/second"),
        ("lts__t_sectors.avg.peak_sustained", "sector/cycle"),
        ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "%"),
        ("l1tex__t_requests.sum", "request"),
        ("sm__inst_executed.avg.per_cycle_active", "inst/cycle"),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", ""),
        ("smsp__warps_active.avg.per_cycle_active", "warp"),
        ("smsp__pcsamp_warps_issue_stalled_wait", "warp"),
        ("launch__block_dim_x", "block"),
        ("launch__grid_dim_x", ""),
    ],
)
def test_units_that_names_of_metrics_imply(metric: str, unit: str) -> None:
    assert implied_unit(metric) == unit


def test_texts_of_later_blocks_continue_the_string_table() -> None:
    first = block(
        field(1, 0) + field(2, 1) + field(4, b"".join(field(1, name) for name in NAMES)),
        result("f", (10, 1, 1), 1000, 10),
    )
    added = field(13, field(1, len(NAMES)) + field(2, field(3, 7.5)))
    later = block(
        field(1, 0) + field(2, 1) + field(4, field(1, "dram__bytes.sum")), result("g", (8, 1, 1), 500, 8) + added
    )
    metrics = read(b"NVR\0" + sized(field(1, 7)) + first + later)["metrics"]
    columns = (pl.col("kernel", "metric", "unit").cast(str), "avg")
    assert metrics.filter(pl.col("metric").cast(str) == "dram__bytes.sum").select(columns).rows() == [
        ("g", "dram__bytes.sum", "B", 7.5)
    ]
    assert metrics.filter(pl.col("metric").cast(str) == NAMES[1])["avg"].to_list() == [10, 8]


def test_an_aborted_result_has_no_duration() -> None:
    aborted = field(1, 77) + field(6, "f") + field(10, shape(4, 1, 1)) + field(11, shape(128, 1, 1))
    aborted += field(13, field(1, 2) + field(2, field(4, 32)))
    header = field(1, 0) + field(2, 1) + field(4, b"".join(field(1, name) for name in NAMES))
    profile = read(b"NVR\0" + sized(field(1, 7)) + block(header, aborted))
    assert profile["activities"].select("duration_ns", "grid_x", "registers").rows() == [(None, 4, 32)]

    without_sizes = field(6, "f") + field(10, shape(0, 0, 0)) + field(11, shape(0, 0, 0))
    without_sizes += field(13, field(1, 2) + field(2, field(4, 32)))
    profile = read(b"NVR\0" + sized(field(1, 7)) + block(header, without_sizes))
    assert profile["activities"].select("grid_x", "grid_z", "block_y").rows() == [(None, None, None)]
    assert profile["sessions"]["pid"].to_list() == [None]


def test_stall_samples_by_instruction() -> None:
    base = (1 << 47) + 0x100
    stalled = "smsp__pcsamp_warps_issue_stalled_"
    names = [f"{stalled}wait", f"{stalled}lg_throttle", f"{stalled}wait_not_issued"]
    samples = {0: {base: 0, base + 16: 3}, 1: {base: 1, base + 32: 9}, 2: {base: 7}}
    metrics = b"".join(
        field(13, field(1, number) + b"".join(
            field(3, field(1, field(5, address)) + field(2, field(5, count))) for address, count in counts.items()
        ))
        for number, counts in samples.items()
    )  # fmt: skip
    kernel = field(1, 77) + field(6, "f") + field(10, shape(1, 1, 1)) + field(11, shape(128, 1, 1)) + metrics
    header = field(1, 1) + field(2, 1) + field(4, b"".join(field(1, name) for name in names))
    profile = read(b"NVR\0" + sized(field(1, 7)) + block(header, b"a source", kernel))
    assert profile["tool_figures"].select("section", "name", "value").rows() == [
        ("stall samples, launch 0: f", "+0x0020 lg_throttle", 9.0),
        ("stall samples, launch 0: f", "+0x0010 wait", 3.0),
        ("stall samples, launch 0: f", "+0x0000 lg_throttle", 1.0),
    ]


STALL = "smsp__pcsamp_warps_issue_stalled_wait"
FOLDERS, FILES = b"/src\0/lib\0\0", b"gemm.cu\0\1\0\0math.h\0\2\0\0\0"
OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1))


def set_address() -> bytes:
    return bytes((0, 9, 2)) + bytes(8)


def line_program(version: int = 2, files: bytes = FILES) -> bytes:
    """Return lines 7, 9 of gemm.cu and 3 of math.h at 0, 16, 48 up to 64, and line 20 of gemm.cu of another one."""
    rows = bytes((3, 6, 1)) + bytes((2, 16, 3, 2, 1)) + bytes((4, 2, 3, 0x7A, 9, 32, 0, 1)) + bytes((2, 16, 0, 1, 1))
    header_rest = bytes((3, 19, 1, 2, 32, 0, 1, 1))
    header = bytes((1, *((1,) if version == 4 else ()), 1, 0xFB, 14, 10)) + OPERANDS + FOLDERS + files
    body = struct.pack("<HI", version, len(header)) + header + set_address() + rows + set_address() + header_rest
    return struct.pack("<I", len(body)) + body


def module(lines: bytes, *functions: str, loaded_at: int = 0, is_rela: bool = False) -> bytes:
    """Return an ELF file with a table of lines whose addresses are those of the functions, each of 64 bytes."""
    texts = [f".text.{name}" for name in functions]
    names = ["", ".shstrtab", ".symtab", ".debug_line", ".rela.debug_line" if is_rela else ".rel.debug_line", *texts]
    symbols = bytes(24)
    for number in range(len(functions)):
        symbols += struct.pack("<IBBHQQ", 0, 18, 0, 5 + number, loaded_at + 0x100 * number if loaded_at else 0, 64)
    lines, relocations, at = bytearray(lines), b"", -1
    for number in range(len(functions)):
        at = lines.index(set_address(), at + 1) + 3
        relocations += struct.pack("<QII", at, 2, 1 + number) + (bytes(8) if is_rela else b"")
        lines[at : at + 8] = struct.pack("<Q", loaded_at + 0x100 * number if loaded_at else 0)
    contents = [b"", "\0".join((*names, "")).encode(), symbols, bytes(lines), relocations, *(bytes(64) for _ in texts)]
    table, data, at = b"", b"", 64
    for name, content in zip(names, contents, strict=True):
        begin = contents[1].index(f"{name}\0".encode()) if name else 0
        table += struct.pack("<IIQQQQIIQQ", begin, 1, 0, 0, at, len(content), 0, 0, 0, 0)
        data, at = data + content, at + len(content)
    header = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", at)
    return header.ljust(60, b"\0") + struct.pack("<HH", len(names), 1) + data + table


def code_of(module: bytes) -> bytes:
    return field(4, module)


def sampled(code: bytes, mangled: str, samples: dict[int, int], *functions: int) -> bytes:
    """Return a report of a launch with samples by address, of another one without, and a source of the code."""
    names = [STALL, "launch__function_pcs"]
    metrics = b"".join(
        field(13, field(1, number) + b"".join(
            field(3, field(1, field(5, key)) + field(2, field(5, value))) for key, value in pairs.items()
        ))
        for number, pairs in enumerate((samples, dict(enumerate(functions))))
    )  # fmt: skip
    kernel = field(1, 77) + field(5, mangled) + field(6, "f") + field(10, shape(1, 1, 1)) + field(11, shape(128, 1, 1))
    header = field(1, 1) + field(2, 2) + field(4, b"".join(field(1, name) for name in names))
    return b"NVR\0" + sized(field(1, 7)) + block(header, code, kernel + metrics, kernel)


def figures(data: bytes) -> dict[str, list[tuple[str, float]]]:
    rows = read(data)["tool_figures"].select("section", "name", "value").rows()
    return {
        section: [row[1:] for row in rows if row[0] == section] for section in dict.fromkeys(row[0] for row in rows)
    }


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("is_rela", [False, True])
def test_stall_samples_by_source_line(version: int, is_rela: bool) -> None:
    address = 1 << 46
    code = module(line_program(version), "_Z1f", "_Z1g", is_rela=is_rela)
    samples = {address: 4, address + 16: 1, address + 32: 2, address + 48: 9, address + 64: 5}
    assert figures(sampled(code_of(code), "_Z1f", samples, address)) == {
        "stall samples by source line, launch 0: f": [
            *(("math.h:3 wait", 9), ("gemm.cu:7 wait", 4), ("gemm.cu:9 wait", 3)),
        ],
        "stall samples, launch 0: f": [
            *(("+0x0030 wait (math.h:3)", 9), ("+0x0040 wait", 5), ("+0x0000 wait (gemm.cu:7)", 4)),
            *(("+0x0020 wait (gemm.cu:9)", 2), ("+0x0010 wait (gemm.cu:9)", 1)),
        ],
    }
    # Of two functions it is unknown which is the kernel, unless the code says where they were loaded.
    second_function = figures(
        sampled(code_of(code), "_Z1f", {address + 16: 1, address + 0x110: 2}, address, address + 0x100)
    )
    assert second_function == {
        "stall samples, launch 0: f": [("function 1 +0x0010 wait", 2), ("function 0 +0x0010 wait", 1)]
    }
    loaded = module(line_program(version), "_Z1f", "_Z1g", loaded_at=address, is_rela=is_rela)
    lines = figures(sampled(code_of(loaded), "_Z1f", {address + 16: 1, address + 0x110: 2}, address, address + 0x100))
    assert lines["stall samples by source line, launch 0: f"] == [("gemm.cu:20 wait", 2), ("gemm.cu:9 wait", 1)]


def test_source_files_with_the_same_name_are_distinguished() -> None:
    code = module(line_program(files=FILES.replace(b"math.h", b"gemm.cu")), "_Z1f", "_Z1g")
    sample_rows = figures(sampled(code_of(code), "_Z1f", {4096: 1, 4096 + 48: 2}, 4096))
    assert sample_rows["stall samples by source line, launch 0: f"] == [
        ("/lib/gemm.cu:3 wait", 2),
        ("/src/gemm.cu:7 wait", 1),
    ]


def test_a_function_of_two_modules_or_of_none_has_no_lines() -> None:
    code = module(line_program(), "_Z1f", "_Z1g")
    for source, mangled in ((2 * code_of(code), "_Z1f"), (code_of(code), "_Z1h"), (code_of(b"\x7fELF"), "_Z1f")):
        data = sampled(source, mangled, {4096: 1}, 4096)
        assert figures(data) == {"stall samples, launch 0: f": [("+0x0000 wait", 1)]}


def test_source_lines_equal_those_of_the_reader_of_nvidia() -> None:
    report = Path(shared_file("corpus2/ncu_rep/sgemm_2024.ncu-rep")).read_bytes()
    code = report[report.index(b"\x7fELF") :][:48616]
    sample_rows = figures(
        sampled(
            code_of(code),
            "_Z8kernel_APdii",
            {4096 + offset: offset + 1 for offset in (0, 0x140, 0x320, 0x6F0, 0x700)},
            4096,
        )
    )
    assert [name for name, _ in sample_rows["stall samples by source line, launch 0: f"]] == [
        *("main.cu:19 wait", "main.cu:12 wait", "main.cu:5 wait", "main.cu:3 wait"),
    ]


def test_overlapping_sections_take_no_memory() -> None:
    sections = 2000
    table = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, 1 << 40, 0, 0, 0, 0) * sections
    header = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", 64)
    data = sampled(code_of(header.ljust(60, b"\0") + struct.pack("<HH", sections, 1) + table), "_Z1f", {4096: 1}, 4096)
    tracemalloc.start()
    try:
        assert figures(data) == {"stall samples, launch 0: f": [("+0x0000 wait", 1)]}
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("folder", "files"), [(5000, 1), (4000, 10_000)], ids=["a path of impossible length", "too many long paths"]
)
def test_long_paths_of_source_files_are_not_read(folder: int, files: int) -> None:
    program = line_program(files=b"f\0\1\0\0" * files + b"\0").replace(FOLDERS, b"d" * folder + b"\0\0")
    header_size = len(program) - len(line_program()) + struct.unpack_from("<I", line_program(), 6)[0]
    program = struct.pack("<I", len(program) - 4) + program[4:6] + struct.pack("<I", header_size) + program[10:]
    data = sampled(code_of(module(program, "_Z1f", "_Z1g")), "_Z1f", {4096: 1}, 4096)
    tracemalloc.start()
    try:
        assert figures(data) == {"stall samples, launch 0: f": [("+0x0000 wait", 1)]}
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


def test_damaged_code_has_no_source_lines() -> None:
    report = sampled(
        code_of(module(line_program(), "_Z1f", "_Z1g")), "_Z1f", {4096 + offset: 1 for offset in range(0, 64, 16)}, 4096
    )
    for profile in load_damaged(report, 400, at_least=0.1):
        assert (profile["tool_figures"]["value"].drop_nulls() >= 0).all()


def test_stall_samples_of_a_real_report_add_up_to_its_totals() -> None:
    profile = load_input(shared_file("corpus2/ncu_rep/mlp_2025.ncu-rep"))
    stalls = profile["tool_figures"].filter(pl.col("section").str.starts_with("stall samples"))
    totals = profile["metrics"].filter(pl.col("metric").cast(str) == "smsp__pcsamp_sample_count")
    assert stalls["value"].sum() == totals["avg"].sum() > 0


def test_a_truncated_report_keeps_its_complete_results() -> None:
    second = REPORT.index(sized(result("g", (4, 2, 1), 500, 8)))
    profile = read(REPORT[: second + 20])
    assert profile["activities"]["name"].cast(str).to_list() == ["f"]
    assert "the report is damaged" in profile["issues"].filter(severity="error")["reason"][0]


def test_a_result_without_metrics_is_not_a_launch() -> None:
    without_metrics = field(1, 77) + field(6, "f") + field(10, shape(1, 1, 1)) + field(11, shape(128, 1, 1))
    profile = read(b"NVR\0" + sized(field(1, 7)) + block(field(1, 1) + field(2, 1), b"a source", without_metrics))
    assert profile["sessions"]["pid"].to_list() == [77]
    assert profile["activities"].is_empty()


@pytest.mark.parametrize("data", [b"NVR\0", b"NVR\0" + sized(field(1, 7)), b"NVR\0" + b"\xff" * 40])
def test_a_report_without_results_is_declined(data: bytes) -> None:
    with pytest.raises(ProftuiError, match="an Nsight Compute report"):
        read(data)


@pytest.mark.parametrize(
    "name",
    [
        "mlp_2025.ncu-rep",
        "mojo_2025.ncu-rep",
        "pi_2020_small.ncu-rep",
        "ray_tracer_2021.ncu-rep",
        "rms_norm_triton.ncu-rep",
        "sgemm_2024.ncu-rep",
        "vec_add.ncu-rep",
    ],
)
def test_real_reports_agree_with_the_readers_of_nvidia(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["ncu_rep"][name]
    profile = load_input(shared_file(f"corpus2/ncu_rep/{name}"))
    activities = profile["activities"]
    assert (activities.height, activities["duration_ns"].sum()) == (expected["results"], expected["duration_total"])
    metrics = profile["metrics"].filter(pl.col("kernel") == pl.col("kernel").first())
    averages = dict(metrics.select(pl.col("metric").cast(str), "avg").unique("metric", keep="first").iter_rows())
    for metric, value in expected["first"].items():
        if value is not None:
            assert averages[metric] == pytest.approx(value, rel=1e-12), metric


def test_damaged_reports_are_read_or_declined() -> None:
    for profile in load_damaged(REPORT, 200, format_in="ncu-report"):
        assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()
