"""Nsight Compute's pages: details, raw, summary, and the text above them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.reading import read, reasons, rows
from tui.analysis.kernels import kernels
from tui.loaders.ncu.ncu_launches import ISOLATED_TIMES, base_unit, numbers, tensor_cores
from tui.loaders.registry import load_input
from tui.loaders.text.section import decimal_separator
from tui.model.errors import ProftuiError

LAUNCH = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC"'
)
DETAILS = (
    f'{LAUNCH},"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description",'
    '"Estimated Speedup Type","Estimated Speedup"'
)
FIRST = '"0","77","app","127.0.0.1","void f<int, 4>(int *)","1","7","(256, 1, 1)","(22, 3, 1)","0","7.5"'
SECOND = '"1","77","app","127.0.0.1","g","1","8","(32, 2, 1)","(1, 1, 1)","0","7.5"'


def metric(launch: str, section: str, name: str, unit: str, value: str) -> str:
    """Return a row of the details page: four cells fewer than the header has."""
    return f'{launch},"{section}","{name}","{unit}","{value}",'


PAGE = "\n".join(
    [
        "loss 0.5, step 1",
        "==PROF== Connected to process 77 (/home/me/app)",
        '==PROF== Profiling "f" - 0: 0%....50%....100% - 8 passes',
        DETAILS,
        metric(FIRST, "GPU Speed Of Light Throughput", "Duration", "usecond", "1,234.56"),
        metric(FIRST, "GPU Speed Of Light Throughput", "DRAM Frequency", "cycle/nsecond", "1.25"),
        f'{FIRST},"SpeedOfLight","","","","SOLBottleneck","OPT","Low throughput, look at it.","global","96.88"',
        metric(FIRST, "Launch Statistics", "Registers Per Thread", "register/thread", "40"),
        metric(FIRST, "Launch Statistics", "Dynamic Shared Memory Per Block", "Kbyte/block", "1.02"),
        metric(FIRST, "Launch Statistics", "Static Shared Memory Per Block", "byte/block", "0"),
        metric(FIRST, "Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
        metric(FIRST, "Launch Statistics", "# SMs", "SM", "34"),
        metric(FIRST, "Memory", "Mem Busy", "", "n/a"),
        metric(SECOND, "GPU Speed Of Light Throughput", "Duration", "nsecond", "640"),
        "",
    ]
)
RAW = "\n".join(
    [
        f'{LAUNCH},"device__attribute_display_name","device__attribute_multiprocessor_count","gpu__time_duration.sum",'
        '"launch__registers_per_thread","launch__func_cache_config","dram__bytes.sum.per_second",'
        '"sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"',
        '"","","","","","","","","","","","","","us","register/thread","","Gbyte/s","%"',
        f'{FIRST},"NVIDIA A100","108","12.5","40.000000","PreferNone","1.5","40.96"',
        f'{SECOND},"NVIDIA A100","108","0.64","16.000000","PreferNone","0.25","0"',
    ]
)
SUMMED = '"77","app","host","g","(32, 1, 1)","(2, 1, 1)","0","8.0","3","Speed Of Light"'
SUMMARY = "\n".join(
    [
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
        '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"',
        f'{SUMMED},"Duration","usecond","1.5","2.5","2.1"',
        f'{SUMMED},"Memory Throughput","%","10","30","20"',
    ]
)


HMMA = "sm__inst_executed_pipe_tensor_op_hmma"
CYCLES = "sm__pipe_tensor_cycles_active"
MATRICES = "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active"
SHORT = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def test_details_become_launches() -> None:
    profile = read(PAGE)
    columns = ("name", "start_ns", "duration_ns", "grid_x", "grid_y", "block_x", "registers", "dynamic_shared_bytes")
    assert rows(profile, "activities", *columns, "static_shared_bytes", "stream", "context", "device", "line") == [
        ("void f<int, 4>(int *)", None, 1_234_560, 22, 3, 256, 40, 1020, 0, 7, 1, 0, 5),
        ("g", None, 640, 1, 1, 32, None, None, None, 8, 1, 0, 14),
    ]
    assert profile["activities"]["arguments"][0] == "Function Cache Configuration: CachePreferNone"
    assert rows(profile, "sessions", "format", "pid", "command", "host", "tool", "first_line") == [
        ("ncu-csv", 77, "/home/me/app", "127.0.0.1", "Nsight Compute", 4)
    ]
    assert rows(profile, "devices", "device", "name", "compute_capability", "sm_count") == [(0, None, "7.5", 34)]
    (reported,) = reasons(profile)
    assert reported.startswith("Nsight Compute replays one kernel at a time")
    assert kernels(profile).select("name", "total_ns").rows() == [("void f<int, 4>(int *)", 1_234_560), ("g", 640)]


def test_metrics_are_in_base_units_with_their_launch_and_line() -> None:
    profile = read(PAGE)
    columns = ("kernel", "grid_x", "block_x", "invocations", "metric", "description", "avg", "unit", "line")
    assert rows(profile, "metrics", *columns)[:2] == [
        ("void f<int, 4>(int *)", 22, 256, 1, "Duration", "GPU Speed Of Light Throughput", 1234560.0, "ns", 5),
        ("void f<int, 4>(int *)", 22, 256, 1, "DRAM Frequency", "GPU Speed Of Light Throughput", 1.25e9, "Hz", 6),
    ]
    assert profile["metrics"].height == 7


def test_rules_are_findings_of_the_tool() -> None:
    assert rows(read(PAGE), "tool_findings", "tool", "severity", "problem", "recommendation", "line") == [
        (
            "Nsight Compute",
            "warning",
            "SOLBottleneck in f (launch 0, 99.9% of GPU time)",
            "Low throughput, look at it. (estimated speedup, global: 96.88 %)",
            7,
        )
    ]


def test_the_raw_page_has_a_row_of_units_and_facts_of_the_device() -> None:
    profile = read(RAW)
    columns = ("name", "duration_ns", "registers", "uses_tensor_core", "tensor_core_reason", "line")
    reason = "Nsight Compute: sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
    assert rows(profile, "activities", *columns) == [
        ("void f<int, 4>(int *)", 12_500, 40, True, reason, 3),
        ("g", 640, 16, False, reason, 4),
    ]
    assert rows(profile, "devices", "name", "compute_capability", "sm_count") == [("NVIDIA A100", "7.5", 108)]
    assert rows(profile, "tool_figures", "section", "name", "value") == [
        ("device 0", "device__attribute_multiprocessor_count", 108.0)
    ]
    of_memory = profile["metrics"].filter(metric="dram__bytes.sum.per_second")
    assert of_memory.select("avg", "unit", "line").rows() == [(1.5e9, "B/s", 3), (2.5e8, "B/s", 4)]


def test_two_pages_of_one_run_are_one_session_and_a_rerun_is_another() -> None:
    two_pages = read(PAGE + "\n\n" + RAW)
    assert rows(two_pages, "activities", "session", "duration_ns", "registers") == [(0, 12_500, 40), (0, 640, 16)]
    rerun = read(PAGE + "\n\n" + RAW.replace('"void f<int, 4>(int *)"', '"h"'))
    assert rows(rerun, "activities", "session", "name")[2:] == [(1, "h"), (1, "g")]


def test_launches_on_several_pages_count_once() -> None:
    once, twice = read(PAGE), read(f"{PAGE}\n{PAGE}")
    for frame in ("activities", "metrics", "tool_findings"):
        assert twice[frame].equals(once[frame]), frame

    summed = SUMMARY.replace(SUMMED, SUMMED.replace('"g"', '"other"').replace('"77"', '"78"')).splitlines()
    profile = read("\n".join([PAGE, SUMMARY, summed[1]]))
    assert rows(profile, "activities", "session", "duration_ns") == [(0, 1_234_560), (0, 640)]
    assert rows(profile, "summary", "session", "name", "total_ns") == [(1, "other", 6300)]
    assert "the summary page repeats launches of another page: skipped, so that they count once" in reasons(profile)


@pytest.mark.parametrize("page", [PAGE, RAW, SUMMARY])
def test_a_page_with_minimal_quoting_reads_the_same(page: str) -> None:
    saved = io.StringIO()
    writer = csv.writer(saved, lineterminator="\n")
    for line in page.splitlines():
        if line.startswith('"'):
            writer.writerows(csv.reader([line]))
        else:
            saved.write(line + "\n")
    minimal, first = read(saved.getvalue()), read(page)
    for frame in ("activities", "metrics", "summary", "tool_findings"):
        assert minimal[frame].equals(first[frame]), frame


def test_the_summary_of_all_launches_of_a_kernel() -> None:
    profile = read(SUMMARY)
    assert rows(profile, "summary", "section", "name", "calls", "total_ns", "avg_ns", "min_ns", "max_ns", "line") == [
        ("gpu", "g", 3, 6300, 2100, 1500, 2500, 2)
    ]
    assert rows(profile, "metrics", "metric", "invocations", "min", "max", "avg", "unit")[1] == (
        "Memory Throughput",
        3,
        10.0,
        30.0,
        20.0,
        "%",
    )
    assert any("prints rounded averages and no totals" in reason for reason in reasons(profile))


def test_a_total_out_of_range_is_unknown_and_affects_no_other_value() -> None:
    summed = SUMMED.replace('"3"', '"999999999999999999"').replace('"g"', '"other"')
    profile = read(f'{SUMMARY}\n{summed},"Duration","usecond","1.5","2.5","2.1"')
    assert rows(profile, "summary", "name", "calls", "total_ns", "avg_ns") == [
        ("g", 3, 6300, 2100),
        ("other", 999_999_999_999_999_999, None, 2100),
    ]


def test_a_value_beyond_floats_is_unknown() -> None:
    profile = read(PAGE + metric(SECOND, "Memory", "Mem Busy", "%", "1e400") + "\n")
    assert profile["metrics"].height == 7
    assert profile["metrics"]["avg"].is_finite().all()


def test_a_shortened_header_is_read() -> None:
    text = SHORT + '"0","k","gpu__time_duration.sum","nsecond","500"\n'
    assert rows(read(text), "activities", "name", "duration_ns", "grid_x", "line") == [("k", 500, None, 2)]


def test_launches_without_an_id_are_separate() -> None:
    metrics = (("k", "500", "40"), ("g", "700", "32"), ("k", "900", "40"))
    text = SHORT.replace('"ID",', "")
    for kernel, ns, registers in metrics:
        text += f'"{kernel}","gpu__time_duration.sum","nsecond","{ns}"\n'
        text += f'"{kernel}","launch__registers_per_thread","register/thread","{registers}"\n'
    profile = read(text)
    assert rows(profile, "activities", "name", "duration_ns", "registers") == [
        ("k", 500, 40),
        ("g", 700, 32),
        ("k", 900, 40),
    ]
    assert any("the page has no launch IDs: inferred" in reason for reason in reasons(profile))


def test_a_time_without_a_unit_is_not_a_duration() -> None:
    header, _, *launches = RAW.splitlines()
    profile = read("\n".join([header, *launches]))
    assert rows(profile, "activities", "name", "duration_ns", "registers") == [
        ("void f<int, 4>(int *)", None, 40),
        ("g", None, 16),
    ]
    assert rows(profile, "metrics", "avg", "unit")[0] == (12.5, None)
    assert reasons(profile, "warning") == [
        "this time has no unit in 2 rows: durations are unknown; the second row of a raw page has the units"
    ]


def test_a_decimal_comma_is_recognized_from_all_rows() -> None:
    german = PAGE.replace("1,234.56", "1.234,56").replace('"1.25"', '"1,25"').replace('"1.02"', '"1,02"')
    profile = read(german.replace('"640"', '"27.595.520"'))
    assert profile["activities"]["duration_ns"].to_list() == [1_234_560, 27_595_520]
    assert profile["activities"]["dynamic_shared_bytes"].to_list() == [1020, None]
    assert "this file uses decimal commas, and points as thousands separators" in reasons(profile, "info")


def test_ambiguous_numbers_stay_unknown() -> None:
    text = SHORT + '"0","k","gpu__time_duration.sum","nsecond","1,024"\n'
    profile = read(text)
    assert rows(profile, "activities", "duration_ns") == [(None,)]
    (reason,) = reasons(profile, "warning")
    assert reason == ("1 ambiguous number like this, shown as unknown: the decimal separator of this file is unknown")


@pytest.mark.parametrize(
    ("texts", "sign", "values"),
    [
        (["1,234.5", "1,024"], ".", [1234.5, 1024.0]),
        (["9,00", "1.024"], ",", [9.0, 1024.0]),
        (["0.512", "12"], ".", [0.512, 12.0]),
        (["1,024", "12"], None, [None, 12.0]),
        (["1,5", "1.5"], None, [None, None]),
        (["1,234,567", "1.500"], ".", [1234567.0, 1.5]),
        (["27.595.520", "1,500"], ",", [27595520.0, 1.5]),
        (["10250879401", "6.79"], ".", [10250879401.0, 6.79]),
    ],
    ids=[
        "groups",
        "two decimals",
        "zero before",
        "nothing proven",
        "both proven",
        "two groups",
        "points",
        "many digits",
    ],
)
def test_decimal_separators(texts: list[str], sign: str | None, values: list[float | None]) -> None:
    series = pl.Series(texts)
    assert decimal_separator(series) == sign
    assert numbers(series, sign).to_list() == values


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("ns", (1.0, "ns")),
        ("msecond", (1e6, "ns")),
        ("second", (1e9, "ns")),
        ("byte", (1.0, "B")),
        ("Mbyte", (1e6, "B")),
        ("KiB", (1024.0, "B")),
        ("TiB", (2.0**40, "B")),
        ("PiB/s", (2.0**50 * 1.0, "B/s")),
        ("Gbyte/second", (1e9, "B/s")),
        ("byte/ns", (1e9, "B/s")),
        ("Ghz", (1e9, "Hz")),
        ("cycle/second", (1.0, "Hz")),
        ("%", (1.0, "%")),
        ("inst/cycle", (1.0, "inst/cycle")),
    ],
)
def test_units(unit: str, expected: tuple[float, str]) -> None:
    assert base_unit(unit) == expected


def test_messages_of_the_tool_are_issues() -> None:
    profile = read("==WARNING== No kernels were profiled.\n==ERROR== ERR_NVGPUCTRPERM\n" + RAW)
    assert profile["issues"].select("severity", "line").rows()[:2] == [("warning", 1), ("error", 2)]


def test_a_note_of_the_tool_is_information() -> None:
    """As with --clock-control none: the figures are complete."""
    profile = read("==WARNING== Note: Running with unmodified GPU clocks.\n" + RAW)
    assert set(profile["issues"]["severity"]) == {"info"}


def test_output_without_metrics_gets_a_hint_to_print_them() -> None:
    with pytest.raises(ProftuiError, match="output of Nsight Compute without a page of metrics"):
        read("==PROF== Connected to process 5\n  f(int), Context 1, Stream 7\n    Duration   us   5.2\n")


def test_a_run_without_a_profiled_kernel_gives_the_reason_of_the_tool() -> None:
    log = '==PROF== Connected to process 5\n==ERROR== Failed to profile kernel "f" in process 5\n'
    nothing = "==WARNING== No kernels were profiled.\n==WARNING== Try --target-processes all.\n"
    with pytest.raises(
        ProftuiError, match=r"Nsight Compute profiled no kernel: Failed to profile kernel \"f\""
    ) as error:
        read(log + nothing)
    assert error.value.hint.startswith("profile again: ncu --target-processes all")
    with pytest.raises(ProftuiError, match=r"Nsight Compute profiled no kernel: No kernels were profiled\."):
        read(nothing)


def test_a_page_without_rows_gives_the_reason() -> None:
    profile = read(SUMMARY.splitlines()[0])
    assert profile["metrics"].is_empty()
    assert reasons(profile, "warning")[0].startswith("the summary page has no rows")


def test_a_damaged_row_affects_no_other() -> None:
    lines = PAGE.splitlines()
    lines[4] = lines[4][:60]
    lines[8] = lines[8].replace('"Kbyte/block"', '"Kbyte/block')
    profile = read("\n".join(lines))
    assert profile["metrics"]["line"].to_list() == [6, 8, 10, 12, 14]
    assert profile["issues"].filter(severity="warning")["line"].to_list() == [5, 9]


@given(st.integers(0, len(PAGE)), st.integers(0, len(RAW)))
def test_a_truncated_page_raises_no_exception(details: int, raw: int) -> None:
    for text in (PAGE[:details], RAW[:raw]):
        try:
            profile = read(text)
        except ProftuiError:
            continue
        line_count = text.count("\n")
        assert profile["metrics"].filter(pl.col("line") <= line_count).height <= 16


def test_the_pages_of_real_runs(corpus: Callable[[str], str]) -> None:
    details = load_input(corpus("ncu/powermodel_PS1_100.details.csv"))
    assert details["activities"]["duration_ns"].to_list() == [6_920_000_000] * 6
    assert details["tool_findings"].height == 3
    assert details["metrics"].height + 6 * 4 == 270
    raw = load_input(corpus("ncu/cs599k_silu.raw.csv"))
    columns = ("grid_x", "grid_y", "block_x", "registers", "dynamic_shared_bytes", "line")
    assert rows(raw, "activities", *columns) == [
        (1056, 1, 256, 56, 0, 3),
        (64, 64, 1024, 32, 0, 4),
        (64, 64, 1024, 32, 0, 5),
    ]
    assert rows(raw, "devices", "name", "max_threads_per_sm", "shared_memory_per_sm_bytes") == [
        ("NVIDIA GH200 480GB", 2048, 233472)
    ]


@pytest.mark.parametrize(
    ("metrics", "uses"),
    [
        ({"sm__pipe_tensor_cycles_active.avg.pct": "0.81"}, None),
        ({"sm__pipe_tensor_cycles_active.avg.pct": "0"}, False),
        ({"sm__pipe_tensor_cycles_active.avg.pct": "31.4"}, True),
        ({"sm__pipe_tensor_op_dmma_cycles_active.avg.pct": "0"}, None),
        ({"sm__pipe_tensor_op_dmma_cycles_active.avg.pct": "0.1"}, True),
        ({"sm__pipe_tensor_cycles_active.avg.pct": "0.81", "sm__pipe_tensor_type_hgmma_cycles_active.avg": "0"}, False),
        ({f"{HMMA}.sum": "12"}, None),
        ({f"{HMMA}.sum": "0"}, False),
        ({f"{HMMA}.sum": "12", f"{HMMA}_type_hfma2.sum": "12"}, False),
        ({f"{HMMA}.sum": "12", f"{HMMA}_type_hfma2.sum": "8"}, True),
        ({f"{HMMA}.sum": "36864", f"{CYCLES}.sum": "73728", f"{MATRICES}.sum": "0"}, False),
        ({f"{HMMA}.sum": "2048", f"{CYCLES}.sum": "6144", f"{MATRICES}.sum": "2048"}, None),
        ({f"{HMMA}.sum": "132096", f"{CYCLES}.sum": "792576", f"{MATRICES}.sum": "792576"}, True),
        ({f"{HMMA}.sum": "132096", f"{CYCLES}.sum": "792576"}, True),
        ({f"{HMMA}.sum": "36864", f"{CYCLES}.sum": "73728"}, None),
        ({f"{CYCLES}.avg.pct": "0.02", f"{MATRICES}.avg.pct": "0.01"}, None),
        ({f"{CYCLES}.avg.pct": "0.61", f"{MATRICES}.avg.pct": "0.61"}, True),
        ({f"{CYCLES}.min.pct": "0", f"{CYCLES}.max.pct": "9.5"}, True),
        ({"dram__bytes.sum": "12"}, None),
    ],
    ids=[
        "little",
        "none",
        "much",
        "no double precision",
        "double precision",
        "of other work",
        "instructions of any kind",
        "no instruction",
        "packed alone",
        "more than packed",
        "cycles of none",
        "cycles of few",
        "cycles of all",
        "long instructions",
        "short instructions",
        "shares too small",
        "shares that agree",
        "idle SMs",
        "other",
    ],
)
def test_tensor_pipe_activity_shows_tensor_core_use(metrics: dict[str, str], uses: bool | None) -> None:
    header = ",".join([LAUNCH, *(f'"{name}"' for name in metrics)])
    units = '"","","","","","","","","","",""' + ',"%"' * len(metrics)
    profile = read("\n".join([header, units, ",".join([FIRST, *(f'"{value}"' for value in metrics.values())])]))
    assert profile["activities"]["uses_tensor_core"].to_list() == [uses]
    reasons = profile["activities"]["tensor_core_reason"].cast(pl.String).to_list()
    assert [reason is None for reason in reasons] == [uses is None]


def test_one_kind_of_matrix_instruction_is_enough_for_tensor_cores() -> None:
    metrics = ["sm__inst_executed_pipe_tensor_op_dmma.sum", "sm__inst_executed_pipe_tensor_op_imma.sum"]
    for values in ([0.0, 8.0], [8.0, 0.0]):
        rows = pl.DataFrame({"id": [1, 1], "metric": metrics, "value_number": values})
        assert tensor_cores(rows, "x")["uses_tensor_core"].to_list() == [True]


def test_values_of_instances_and_names_behind_labels_are_no_part_of_values_and_labels() -> None:
    profile = read(
        "\n".join(
            [
                DETAILS,
                metric(FIRST, "Speed", "Duration (gpu__time_duration.sum)", "usecond", "12.50 (10; 15)"),
                metric(FIRST, "Speed", "Elapsed Cycles", "cycle", "640 (0x10: 320; 0x20: 320)"),
                metric(FIRST, "Speed", "Interval", "", "(1; 2)"),
                metric(FIRST, "Speed", "Affinity", "", "none (0-1)"),
                metric(FIRST, "Launch Statistics", "Grid Size", "", "2"),
            ]
        ).replace('"(2, 1, 1)"', '"(512, 1, 1)"')
    )
    assert rows(profile, "metrics", "metric", "avg", "unit") == [
        ("gpu__time_duration.sum", 12_500.0, "ns"),
        ("Elapsed Cycles", 640.0, "cycle"),
        ("Grid Size", 2.0, None),
    ]
    assert rows(profile, "activities", "duration_ns", "arguments") == [(12_500, "Affinity: none (0-1)")]


def test_bodies_of_sections_and_tables_among_them() -> None:
    page = "\n".join(
        [
            DETAILS.replace('"Metric Name"', '"Body Item Label","Metric Name"'),
            metric(FIRST, "Speed", '","SM Frequency', "Ghz", "1.25"),
            metric(FIRST, "Speed", 'Roofline","SM Frequency', "Ghz", "1.50"),
            metric(FIRST, "Speed", 'Chart","dram__bytes.sum', "byte", "64"),
            metric(FIRST, "Memory", 'Tables","dram__bytes.sum', "byte", "64"),
            "    The system does not have any NVLink connections.",
            "",
            '"GPU ID","GPU Name","CPU Affinity"',
            '"0","Tesla T4","0-1"',
            metric(FIRST, "Launch", '","# SMs', "SM", "40"),
            "",
        ]
    )
    profile = read(page)
    assert rows(profile, "metrics", "metric", "avg", "line") == [
        ("SM Frequency", 1.25e9, 2),
        ("Roofline: SM Frequency", 1.5e9, 3),
        ("dram__bytes.sum", 64.0, 4),
        ("# SMs", 40.0, 10),
    ]
    assert reasons(profile) == [ISOLATED_TIMES]
    assert reasons(read(page + '"0","77"\n'), "warning") == ["expected 21 cells, found 2: row skipped"]


def test_a_grid_that_counts_threads_is_in_blocks() -> None:
    page = "\n".join([DETAILS, metric(FIRST, "Launch", "Grid Size", "", "66")])
    assert rows(read(page), "activities", "grid_x", "grid_y") == [(22, 3)]
    in_threads = page.replace('"(22, 3, 1)"', '"(5632, 3, 1)"')
    assert rows(read(in_threads), "activities", "grid_x", "grid_y") == [(22, 3)]
    assert rows(read(in_threads.replace('"66"', '"67"')), "activities", "grid_x", "grid_y") == [(5632, 3)]


def test_a_summary_with_names_behind_labels_has_its_durations() -> None:
    profile = read(SUMMARY.replace('"Duration"', '"Duration (gpu__time_duration.sum)"'))
    assert rows(profile, "summary", "name", "total_ns") == rows(read(SUMMARY), "summary", "name", "total_ns")
    assert rows(profile, "metrics", "metric")[0] == ("gpu__time_duration.sum",)


def test_a_summary_with_cells_below_other_titles_is_skipped() -> None:
    header, row = SUMMARY.splitlines()[:2]
    cells = next(csv.reader([row]))
    shifted = ",".join(f'"{cell}"' for cell in cells[2:] + cells[:2])
    profile = read("\n".join([header, shifted, row]))
    assert rows(profile, "summary", "calls", "total_ns") == rows(read(SUMMARY), "summary", "calls", "total_ns")
    (reason,) = reasons(profile, "warning")
    assert reason.startswith("the cells of 1 row are not below their titles: skipped")
    assert read("\n".join([header, shifted]))["metrics"].is_empty()


def test_columns_of_versions_until_2021() -> None:
    header = SUMMARY.splitlines()[0].replace('"Device","CC",', '"Device Id",')
    row = SUMMARY.splitlines()[1].replace('"(32, 1, 1)","(2, 1, 1)","0","8.0"', '"32","2","1"')
    summary = read(f"{header}\n{row}\n{row}\n")
    assert rows(summary, "metrics", "kernel", "device", "metric", "avg") == [("g", "1", "Duration", 2100.0)]
    assert rows(summary, "summary", "name", "calls", "total_ns") == [("g", 3, 6300)]
    assert "unknown columns, shown in the log only" not in reasons(summary)
    launch = '"0","77","app","127.0.0.1","g","2020-Dec-03 17:12:24","1","7"'
    details = read(
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name",'
        '"Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"\n'
        "==WARNING== Failed to detect compute capability, assuming 40\n"
        f'{launch},"Speed Of Light","Duration","usecond","2.5",\n'
        f'{launch},"Speed Of Light","","","","Bottleneck","OK","All is well."\n'
    )
    assert rows(details, "activities", "name", "duration_ns", "stream") == [("g", 2500, 7)]
    assert rows(details, "tool_findings", "severity", "recommendation") == [("info", "All is well.")]
    assert "unknown columns, shown in the log only" not in reasons(details)
