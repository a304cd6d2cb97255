"""Metrics and events of nvprof: text, CSV, CSV by launch; values in base units; torn rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.input_file import InputFile
from tui.loaders.nvprof.metrics import parse_metric_value, value_columns
from tui.loaders.nvprof.nvprof_reader import NVPROF
from tui.loaders.text.text_log import TextLogLoader

if TYPE_CHECKING:
    from tui.model.profile import Profile

START = "==7== NVPROF is profiling process 7, command: ./a\n==7== Profiling result:\n"
TEXT_HEADER = (
    "Invocations                               Metric Name                        Metric Description"
    "         Min         Max         Avg\n"
)
EVENT_HEADER = "Invocations                                Event Name         Min         Max         Avg       Total\n"
CSV_HEADER = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'


def read(text: str) -> Profile:
    return TextLogLoader((NVPROF,)).load(InputFile.open("-", stream=BytesIO(text.encode())))


def metric_row(count: int, metric: str, description: str, *values: str) -> str:
    return f"{count:>11}{metric:>42}{description:>42}" + "".join(f"{value:>12}" for value in values) + "\n"


def text_table(*rows: str, device: str = "Tesla K40c (0)", kernel: str = "f(int, float*)") -> str:
    return f'{START}==7== Metric result:\n{TEXT_HEADER}Device "{device}"\n    Kernel: {kernel}\n' + "".join(rows)


def figures(profile: Profile) -> list[tuple[object, ...]]:
    return profile["metrics"].select("metric", "min", "max", "avg", "unit").rows()


def reasons(profile: Profile) -> list[str]:
    return profile["issues"]["reason"].to_list()


def test_a_row_of_text_with_its_device_and_kernel() -> None:
    profile = read(
        text_table(metric_row(3, "gld_efficiency", "Global Memory Load Efficiency", "24.04%", "25.00%", "24.50%"))
    )

    row = profile["metrics"].row(0, named=True)
    assert {name: value for name, value in row.items() if not name.startswith(("grid_", "block_"))} == {
        "session": 0,
        "device": "Tesla K40c (0)",
        "kernel": "f(int, float*)",
        "invocations": 3,
        "metric": "gld_efficiency",
        "description": "Global Memory Load Efficiency",
        "min": 24.04,
        "max": 25.0,
        "avg": 24.5,
        "total": None,
        "unit": "%",
        "line": 7,
    }
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla K40c")]


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("12", 12.0, None),
        ("0.753574", 0.753574, None),
        ("2.7810e+03", 2781.0, None),
        ("100.00%", 100.0, "%"),
        ("17.926628%", 17.926628, "%"),
        ("0.00000B/s", 0.0, "B/s"),
        ("7.5000KB/s", 7680.0, "B/s"),
        ("7.2308GB/s", 7.2308 * 2**30, "B/s"),
        ("1132.1GB/s", 1132.1 * 2**30, "B/s"),
        ("1.5MB", 1.5 * 2**20, "B"),
        ("Idle (0)", 0.0, "level"),
        ("Low (1)", 1.0, "level"),
        ("Mid (6)", 6.0, "level"),
        ("Max (10)", 10.0, "level"),
    ],
)
def test_values_are_in_base_units_one_by_one_and_by_column(text: str, value: float, unit: str | None) -> None:
    single_value = parse_metric_value(text)
    column = pl.DataFrame({"text": [text]}).select(value_columns("text"))

    assert (single_value.value, single_value.unit) == (value, unit)
    assert column.row(0) == (value, unit)


@pytest.mark.parametrize("text", ["<OVERFLOW>", "nan", "-nan%", "inf", "1e999"])
def test_missing_values_are_unknown(text: str) -> None:
    assert parse_metric_value(text).value is None
    assert pl.DataFrame({"text": [text]}).select(value_columns("text")).row(0)[0] is None


def test_levels_with_a_blank_are_one_value() -> None:
    profile = read(text_table(metric_row(1, "dram_utilization", "Device Utilization", "Low (1)", "Low (3)", "Low (2)")))

    assert figures(profile) == [("dram_utilization", 1.0, 3.0, 2.0, "level")]


def test_rates_of_different_prefixes_are_one_unit() -> None:
    row = metric_row(1, "dram_read_throughput", "Throughput", "0.00000B/s", "1.0000GB/s", "512.00KB/s")

    assert figures(read(text_table(row))) == [("dram_read_throughput", 0.0, 2.0**30, 2.0**19, "B/s")]


@pytest.mark.parametrize("kernel_line", ["    Kernel: g(int)", "\tKernel: g(int)", "Kernel: g(int)   "])
def test_kernel_lines_of_old_and_new_versions(kernel_line: str) -> None:
    text = text_table(metric_row(1, "ipc", "Executed IPC", "1.5", "1.5", "1.5"), kernel="f()")
    text += kernel_line + "\n" + metric_row(2, "ipc", "Executed IPC", "2.5", "2.5", "2.5")

    assert read(text)["metrics"].select("kernel", "avg").rows() == [("f()", 1.5), ("g(int)", 2.5)]


def test_a_device_without_a_gap_before_its_kernel() -> None:
    text = f'{START}==7== Metric result:\n{TEXT_HEADER}Device "TITAN Xp (1)"    Kernel: f(int)\n'
    text += metric_row(1, "ipc", "Executed IPC", "1.5", "1.5", "1.5")

    assert read(text)["metrics"].select("device", "kernel").rows() == [("TITAN Xp (1)", "f(int)")]


def test_events_have_a_total_in_newer_versions() -> None:
    text = f'{START}==7== Event result:\n{EVENT_HEADER}Device "GTX 1060 (0)"\n    Kernel: f(float*)\n'
    text += f"{4:>11}{'branch':>42}{12:>12}{14:>12}{13:>12}{51:>12}\n"

    row = read(text)["metrics"].select("metric", "description", "min", "max", "avg", "total", "unit").row(0)

    assert row == ("branch", None, 12.0, 14.0, 13.0, 51.0, None)


def test_events_and_metrics_of_one_run_are_one_session() -> None:
    text = f'{START}==7== Event result:\n{EVENT_HEADER}Device "GTX 1060 (0)"\n    Kernel: f(float*)\n'
    text += f"{4:>11}{'branch':>42}{12:>12}{14:>12}{13:>12}{51:>12}\n"
    text += text_table(metric_row(1, "ipc", "Executed IPC", "1.5", "1.5", "1.5")).removeprefix(START)

    profile = read(text)

    assert profile["sessions"].select("pid", "command").rows() == [(7, "./a")]
    assert profile["metrics"]["metric"].to_list() == ["branch", "ipc"]


def test_csv_keeps_commas_of_names_and_reads_units_in_its_cells() -> None:
    text = START + "==7== Metric result:\n" + CSV_HEADER
    text += '"Tesla K20c (0)","f(int, float*)",3,"gst_efficiency","Store Efficiency",80.5%,81.5%,81.0%\n'
    text += '"Tesla K20c (0)","f(int, float*)",3,"l2_utilization","L2 Utilization","Low (1)","Low (2)","Low (1)"\n'

    profile = read(text)

    assert profile["metrics"]["kernel"].unique().to_list() == ["f(int, float*)"]
    assert figures(profile) == [
        ("gst_efficiency", 80.5, 81.5, 81.0, "%"),
        ("l2_utilization", 1.0, 2.0, 1.0, "level"),
    ]


def test_csv_of_events_has_a_column_less() -> None:
    text = START + '==7== Event result:\n"Device","Kernel","Invocations","Event Name","Min","Max","Avg"\n'
    text += '"Tesla K40c (0)","f(int)",4,"fb_subp0_read_sectors",36488512,36493182,36490820\n'

    assert figures(read(text)) == [("fb_subp0_read_sectors", 36488512.0, 36493182.0, 36490820.0, None)]


def launches(*rows: str, events: str = '"warps_launched","inst_executed"') -> str:
    return START + f'"Device","Context","Stream","Kernel",{events}\n' + "".join(f"{row}\n" for row in rows)


def test_csv_by_launch_gives_a_row_for_each_launch_and_event() -> None:
    profile = read(
        launches(
            '"Tesla K40c (0)","1","7","f(int, float*) [118]",64,1966080',
            '"Tesla K40c (0)","1","13","g(int) [123]",32,12.5%',
        )
    )

    assert profile["metrics"].select("kernel", "invocations", "metric", "min", "max", "avg", "unit", "line").rows() == [
        ("f(int, float*)", 1, "warps_launched", 64.0, 64.0, 64.0, None, 4),
        ("f(int, float*)", 1, "inst_executed", 1966080.0, 1966080.0, 1966080.0, None, 4),
        ("g(int)", 1, "warps_launched", 32.0, 32.0, 32.0, None, 5),
        ("g(int)", 1, "inst_executed", 12.5, 12.5, 12.5, "%", 5),
    ]
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla K40c")]


def test_overflowed_counters_are_unknown_and_counted() -> None:
    row = '"Tesla K40c (0)","1","7","f(int)",64,"<OVERFLOW>"'

    profile = read(launches(row, row, '"Tesla K40c (0)","1","7","f(int)",64,9'))

    assert profile["metrics"].filter(metric="inst_executed")["avg"].to_list() == [None, None, 9.0]
    assert profile["issues"].select("line", "reason").rows() == [
        (4, "inst_executed is <OVERFLOW> in 2 launches, here first: the counter overflowed, shown as unknown")
    ]


def test_an_overflowed_counter_with_a_unit() -> None:
    profile = read(launches(",,,,%", '"Tesla K40c (0)","1","7","f(int)","<OVERFLOW>"', events='"warp_efficiency"'))

    assert profile["metrics"]["avg"].to_list() == [None]
    assert reasons(profile) == ["warp_efficiency is <OVERFLOW> here: the counter overflowed, shown as unknown"]


def test_a_units_row_and_the_correlation_of_launches() -> None:
    text = launches(",,,,,%", '"Tesla K40c (0)","1","7","f(int)",118,64.5', events='"Correlation_ID","warp_efficiency"')

    assert figures(read(text)) == [("warp_efficiency", 64.5, 64.5, 64.5, "%")]


@pytest.mark.parametrize(
    "damage",
    [
        '"Tesla K40c (0)","1","7","f(int)",64',
        '"Tesla K40c (0)","1","7","f(int)",64,9,9',
        '"Tesla K40c (0)","1","7","f(int,64,9',
    ],
)
def test_a_damaged_launch_affects_only_itself(damage: str) -> None:
    intact = '"Tesla K40c (0)","1","7","f(int)",64,9'

    profile = read(launches(intact, damage, intact))

    assert profile["metrics"]["line"].to_list() == [4, 4, 6, 6]
    assert profile["issues"]["line"].to_list() == [5]


def test_a_damaged_row_of_csv_affects_only_itself() -> None:
    text = START + CSV_HEADER
    text += '"K (0)","f()",3,"ipc","IPC",1.5,1.5\n"K (0)","f()",3,"ipc","IPC",1.5,1.5,1.5\n'

    profile = read(text)

    assert profile["metrics"]["line"].to_list() == [5]
    assert reasons(profile) == ["expected 8 cells, found 7: row skipped"]


def test_interleaved_rows_of_two_processes_are_reported() -> None:
    intact = metric_row(1, "ipc", "Executed IPC", "1.5", "1.5", "1.5")
    interleaved = "          1             flop_count_dp   FLOPS(Double)  ==28740== Metric result:\n"

    profile = read(text_table(intact, interleaved, "        16          16          16\n", intact))

    assert profile["metrics"]["line"].to_list() == [7, 10]
    assert profile["issues"].select("line", "reason").rows() == [
        (8, "this metric row is interrupted by output of process 28740: row skipped"),
        (9, "values without a metric name, the rest of an interrupted row: row skipped"),
    ]


def test_values_of_different_units_are_not_mixed() -> None:
    profile = read(text_table(metric_row(1, "odd", "Odd", "1.5%", "2.5", "Low (1)")))

    assert profile["metrics"].is_empty()
    assert reasons(profile) == ["the values of this row have different units: row skipped"]


LAUNCHES = [
    "         Device   Context    Stream                        Kernel  local_load (0)  local_load (1)        sm_use",
    "Tesla K40c (0)         1         7            f(int*, int*) [102]               0              17      Idle (0)",
    "Tesla K40c (0)         1         7  void g<int=32>(float*, unsigned int)        0      <OVERFLOW>       Low (2)",
]


def test_metrics_by_launch_as_text() -> None:
    damaged = "Tesla K40c (0)         1         7            f(int*, int*) [105]"
    text = "\n".join((START + LAUNCHES[0], *LAUNCHES[1:], damaged, "done", LAUNCHES[1].replace("17", "18"), ""))
    profile = read(text)
    assert profile["metrics"].select("kernel", "metric", "avg", "unit", "line").rows() == [
        ("f(int*, int*)", "local_load (0)", 0.0, None, 4),
        ("f(int*, int*)", "local_load (1)", 17.0, None, 4),
        ("f(int*, int*)", "sm_use", 0.0, "level", 4),
        ("void g<int=32>(float*, unsigned int)", "local_load (0)", 0.0, None, 5),
        ("void g<int=32>(float*, unsigned int)", "local_load (1)", None, None, 5),
        ("void g<int=32>(float*, unsigned int)", "sm_use", 2.0, "level", 5),
        ("f(int*, int*)", "local_load (0)", 0.0, None, 8),
        ("f(int*, int*)", "local_load (1)", 18.0, None, 8),
        ("f(int*, int*)", "sm_use", 0.0, "level", 8),
    ]
    assert profile["metrics"]["invocations"].unique().to_list() == [1]
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla K40c")]
    assert profile["issues"].select("line", "severity").rows() == [(5, "warning"), (6, "warning")]


def test_a_row_of_units_below_the_metrics_of_launches() -> None:
    names = ["ipc", "load_rate", "sm_use", *(f"metric_{number}" for number in range(400))]
    units = ["", "MB/s", "", *["%"] * 400]
    values = ["0.5", "1.5e3", "Max (10)", *["12.5"] * 400]
    title = ("Device", "Context", "Stream", "Kernel")
    device = ("GK20A (0)", "1", "7", "g<int=2>(f, b)")
    lines = [
        "".join(f"{cell:>16}" for cell in cells)
        for cells in ((*title, *names), (*[""] * 4, *units), (*device, *values))
    ]
    profile = read("\n".join((START + lines[0], *lines[1:], "")))
    assert profile["metrics"].height == 403
    assert profile["metrics"].select("kernel", "metric", "avg", "unit").rows()[:4] == [
        ("g<int=2>(f, b)", "ipc", 0.5, None),
        ("g<int=2>(f, b)", "load_rate", 1500.0 * 1024**2, "B/s"),
        ("g<int=2>(f, b)", "sm_use", 10.0, "level"),
        ("g<int=2>(f, b)", "metric_0", 12.5, "%"),
    ]
    assert profile["metrics"]["unit"].value_counts().filter(unit="%")["count"].item() == 400
    assert profile["issues"].is_empty()


def test_launches_of_old_versions_have_descriptions_as_titles() -> None:
    titles = ("Device", "Context", "Stream", "Kernel", "Achieved Occupancy", "SM Activity (0)", "Issue Stalls (Busy)")
    units = ("", "", "", "", "", "%", "%")
    launch = ("GTX 680 (0)", "1", "7", "void add<int=2>(f", "0.25", "96.50", "3.12")
    lines = ["".join(f"{cell:>21}" for cell in cells) for cells in (titles, units, launch)]
    profile = read("\n".join((START + lines[0], *lines[1:], "")))
    assert profile["metrics"].select("kernel", "metric", "avg", "unit").rows() == [
        ("void add<int=2>(f", "Achieved Occupancy", 0.25, None),
        ("void add<int=2>(f", "SM Activity (0)", 96.5, "%"),
        ("void add<int=2>(f", "Issue Stalls (Busy)", 3.12, "%"),
    ]
    assert profile["issues"].is_empty()


def test_values_of_each_instance_are_left_out() -> None:
    totals = metric_row(1, "sm_efficiency_instance", "Activity", "71.5%", "71.5%", "71.5%")
    instances = metric_row(1, "sm_efficiency_instance (2 instances)", "Activity", "-", "-", "[ 71.5% 70.5% ]")
    cells = '"K (0)","f()",1,"sm_efficiency_instance (2 instances)","Activity",,,71.5%\n'
    for text in (
        text_table(totals, instances),
        START + CSV_HEADER + cells.replace(" (2 instances)", "").replace(",,,", ",71.5%,71.5%,") + cells,
    ):
        profile = read(text)
        assert profile["metrics"].select("metric", "min", "avg").rows() == [("sm_efficiency_instance", 71.5, 71.5)]
        assert profile["issues"].is_empty()


def test_instances_of_an_event_are_separate_metrics() -> None:
    rows = "".join(
        f"        301{f'local_load ({instance})':>42}           1           2           1         301\n"
        for instance in (0, 1)
    )
    profile = read(f'{START}==7== Event result:\n{EVENT_HEADER}Device "K40 (0)"\n    Kernel: f(int)\n{rows}')
    assert profile["metrics"].select("metric", "description", "total").rows() == [
        ("local_load (0)", None, 301.0),
        ("local_load (1)", None, 301.0),
    ]


def test_a_missing_value_is_reported_once_per_row() -> None:
    profile = read(text_table(metric_row(1, "flop_efficiency", "Efficiency", "nan%", "nan%", "nan%")))
    assert len(reasons(profile)) == 1


name = st.from_regex(r"[a-z][a-z0-9]{0,15}_[a-z]{1,12}", fullmatch=True)
value = st.one_of(
    st.integers(0, 10**9).map(lambda number: (str(number), float(number), None)),
    st.integers(0, 10**4).map(lambda number: (f"{number / 100:.2f}%", number / 100, "%")),
    st.integers(0, 10**4).map(lambda number: (f"{number / 10:.1f}KB/s", number / 10 * 1024, "B/s")),
    st.integers(0, 10).map(lambda number: (f"Mid ({number})", float(number), "level")),
)


@given(st.lists(st.tuples(name, st.integers(1, 10**6), st.text("abc (.)", max_size=20), value), max_size=30))
def test_printed_metrics_are_read_back(rows: Sequence[tuple[str, int, str, tuple[str, float, str | None]]]) -> None:
    text = [metric_row(count, metric, f" {about}", *[value[0]] * 3) for metric, count, about, value in rows]
    cells = [
        f'"K (0)","f()",{count},"{metric}","{about}",' + ",".join([f'"{value[0]}"'] * 3) + "\n"
        for metric, count, about, value in rows
    ]

    expected = [(metric, count, value[1], value[2]) for metric, count, _, value in rows]
    for profile in (read(text_table(*text)), read(START + CSV_HEADER + "".join(cells))):
        metrics = profile["metrics"].select("metric", "invocations", "max", "unit").rows()
        assert [(row[0], row[1], pytest.approx(row[2]), row[3]) for row in metrics] == expected


@given(st.integers(0, 400), st.text(max_size=30), st.integers(0, 40))
def test_damage_does_not_stop_reading(position: int, inserted: str, removed: int) -> None:
    row = metric_row(1, "achieved_occupancy", "Achieved Occupancy", "0.5", "0.5", "0.5")
    launch = launches('"K (0)","1","7","f()",64,9').removeprefix(START)
    text = text_table(row, row) + CSV_HEADER + '"K (0)","f()",3,"ipc","IPC",1.5,1.5,1.5\n' + launch
    position += len(START)

    profile = read(text[:position] + inserted + text[position + removed :] + "\n" + text)

    assert profile["metrics"].tail(5)["metric"].to_list() == [
        "achieved_occupancy",
        "achieved_occupancy",
        "ipc",
        "warps_launched",
        "inst_executed",
    ]


@pytest.mark.parametrize(
    ("pattern", "rows", "units"),
    [
        ("009-sankarmanoj-thrust2d-metrics", 7, {"%": 4, "B/s": 1, None: 2}),
        ("016-brucefan1983-cudabook-k40-35runs", 4, {None: 4}),
        ("066-pssrawat-forma-csv-events-metrics", 265, {"%": 28, "B/s": 24, "level": 9, None: 204}),
        ("067-pssrawat-forma-csv-metrics", 76, {"%": 28, None: 48}),
        ("071-jakemdaly-jetson-csv-metrics-mangled", 212, {"%": 16, "B/s": 16, None: 180}),
        ("082-HUSTzhaowei-darknet-metrics-all", 2528, {"%": 464, "B/s": 288, "level": 240, None: 1536}),
        ("101-unknown-events-total-gtx1060", 2, {None: 2}),
    ],
)
def test_real_logs(corpus: Callable[[str], str], pattern: str, rows: int, units: dict[str | None, int]) -> None:
    profile = TextLogLoader((NVPROF,)).load(InputFile.open(corpus(f"nvprof/{pattern}.txt")))

    metrics = profile["metrics"]
    assert metrics.height == rows
    assert dict(metrics["unit"].value_counts().rows()) == units
    assert metrics.select("device", "kernel", "min", "max", "avg").null_count().row(0) == (0,) * 5


def test_a_row_of_csv_with_an_endless_name_affects_only_itself() -> None:
    header = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
    row = '"TITAN Xp (0)","{}",3,"ipc","Executed IPC",1,2,1.5'
    text = ["==5== Metric result:", header, row.format("a(int, int)"), row.format("x" * 200_000), row.format("b()")]
    profile = read("\n".join((*text, "")))
    assert profile["metrics"].select("kernel", "line").rows() == [("a(int, int)", 3), ("b()", 5)]
    assert profile["issues"].select("line", "severity").rows() == [(4, "warning")]
