"""nvprof's own lines: sessions, headings, warnings and errors."""

from __future__ import annotations

import pytest

from tests.loaders.nvprof.reading import issues, read, summary
from tui.loaders.nvprof.nvprof_reader import NVPROF
from tui.model.errors import ProftuiError

HEADER = "Time(%)      Time     Calls       Avg       Min       Max  Name"
ROW = "100.00%  125.70us         5  25.139us  25.088us  25.281us  kernel_dummy"


def _run(pid: int, command: str = "./a.out") -> list[str]:
    return [
        f"==PID== NVPROF is profiling process {pid}, command: {command}".replace("PID", str(pid)),
        "hello",
        f"=={pid}== Profiling application: {command}",
        f"=={pid}== Profiling result:",
        HEADER,
        ROW,
    ]


def _sessions(lines: list[str]) -> list[tuple[object, ...]]:
    return read("\n".join(lines).encode())["sessions"].select("pid", "command", "first_line", "last_line").rows()


def test_each_run_is_a_session_even_with_the_same_process_id() -> None:
    assert _sessions([*_run(10), "", *_run(10, "./b"), *_run(11)]) == [
        (10, "./a.out", 1, 6),
        (10, "./b", 8, 13),
        (11, "./a.out", 14, 19),
    ]


def test_the_lines_of_a_run_may_be_missing_or_in_another_order() -> None:
    start, _, application, result, *table = _run(7)
    assert _sessions([application, result, *table]) == [(7, "./a.out", 1, 4)]
    assert _sessions([result, *table]) == [(7, None, 1, 3)]
    assert _sessions([result, application, start, *table]) == [(7, "./a.out", 1, 5)]
    assert _sessions([application, start, result, *table]) == [(7, "./a.out", 1, 5)]
    assert _sessions(table) == [(None, None, 1, 2)]


def test_imported_profiles_have_no_process() -> None:
    imported = ["======== Profiling result:", HEADER, ROW]
    assert _sessions([*imported, "", *imported]) == [(None, None, 1, 3), (None, None, 5, 7)]


def test_processes_writing_at_the_same_time_are_separate_sessions() -> None:
    api = "100.00%  30.000us         3  10.000us  5.0000us  15.000us  cudaMalloc"
    profile = read(
        "\n".join(
            [
                "==1== NVPROF is profiling process 1, command: ./rank",
                "==2== NVPROF is profiling process 2, command: ./rank",
                "==1== Profiling application: ./rank",
                "==2== Profiling application: ./rank",
                "==1== Profiling result:",
                HEADER,
                ROW,
                "==2== Profiling result:",
                HEADER,
                ROW,
                "==1== API calls:",
                HEADER,
                api,
                "==2== Warning: 3 records have invalid timestamps due to insufficient device buffer space.",
                "==2== API calls:",
                HEADER,
                api,
                "",
            ]
        ).encode()
    )
    assert profile["summary"].select("session", "section", "line").rows() == [
        (0, "gpu", 7),
        (1, "gpu", 10),
        (0, "api", 13),
        (1, "api", 17),
    ]
    assert profile["issues"].select("session", "line").rows() == [(1, 14)]


def test_rows_of_two_processes_in_one_table_are_reported() -> None:
    """Rows do not name their process: interleaved tables are recognized only by their shares."""
    table = [
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name",
        " GPU activities:   90.00%  90.000us         1  90.000us  90.000us  90.000us  f(int)",
        " GPU activities:   80.00%  80.000us         1  80.000us  80.000us  80.000us  g(int)",
        "                   10.00%  10.000us         1  10.000us  10.000us  10.000us  [CUDA memset]",
        "      API calls:  100.00%  30.000us         1  30.000us  30.000us  30.000us  cudaMalloc",
    ]
    profile = read("\n".join(("==7== Profiling result:", *table, "")))
    assert issues(profile) == [(2, "warning")]
    assert "the gpu rows of this table add up to 180.00%" in profile["issues"]["reason"][0]


def test_lines_torn_by_program_output() -> None:
    profile = read(
        "\n".join(
            [
                "==390725== NVPROF is profiling process 390725, command: ./a.out 10",
                "==390725== sum = 1e+08.",
                "Profiling application: ./a.out 10",
                "9.1 GFLOPS ==390725== Profiling result:",
                HEADER,
                ROW,
                "GFLOPS(Double)  ==390725== API calls:",
                HEADER,
                ROW.replace("kernel_dummy", "cudaFree"),
                "",
            ]
        ).encode()
    )
    assert profile["sessions"].select("pid", "command").rows() == [(390725, "./a.out 10")]
    assert summary(profile, "section", "name") == [("gpu", "kernel_dummy"), ("api", "cudaFree")]
    assert issues(profile) == []


def test_a_mistyped_process_id() -> None:
    assert _sessions(
        [
            "==27694== NVPROF is profiling process 27694, command: ./m",
            "==27964== Profiling application: ./m",
            "==27964== Profiling result:",
            HEADER,
            ROW,
        ]
    ) == [(27694, "./m", 1, 5)]


@pytest.mark.parametrize("prefix", ["==7== ", ""])
def test_a_table_for_each_gpu_is_one_session(prefix: str) -> None:
    tables = [f'{prefix}Device "TITAN Xp (0)"', HEADER, ROW, "", f'{prefix}Device "TITAN Xp (1)"', HEADER, ROW]
    assert _sessions([*_run(7)[:4], *tables]) == [(7, "./a.out", 1, 11)]


def test_the_header_of_the_oldest_versions() -> None:
    start = ["======== NVPROF is profiling dct8x8...", "======== Command: dct8x8, 512"]
    assert _sessions([*start, "======== Profiling result:", HEADER, ROW]) == [(None, "dct8x8, 512", 1, 5)]


def test_an_unreadable_result_is_reported() -> None:
    table = "Time(%);Time;Calls;Avg;Min;Max;Name\n90,0;125,7;5;25,1;25,0;25,2;kern(int)"
    title = "==1== Profiling result:"
    readable = "Time(%) Time Calls Avg Min Max Name\n100.00% 3.000us 3 1.000us 1.000us 1.000us k(int)"
    profile = read("\n".join((title, table, "==2== Profiling result:", readable, "")))
    # Its times have no unit.
    assert profile["issues"].select("session", "line", "severity").rows() == [(0, 3, "warning"), (None, None, "info")]
    assert "found '125.7'" in profile["issues"]["reason"][0]
    assert summary(profile, "name", "line") == [("k(int)", 6)]


def test_pgprof_is_nvprof_by_another_name() -> None:
    profile = read(b"==9== PGPROF is profiling process 9, command: ./a 3\n==9== Profiling result:\n")
    assert profile["sessions"].select("pid", "command").rows() == [(9, "./a 3")]


def test_rulers_and_other_tools_are_not_nvprof() -> None:
    for text in (
        "=" * 51 + "\n" + "=" * 146,
        "========= CUDA-MEMCHECK\n========= ERROR SUMMARY: 0 errors",
        "==NVPROF==",
    ):
        with pytest.raises(ProftuiError, match="no profile found"):
            read(text)
    with pytest.raises(ProftuiError, match="no profile found"):
        read("==4242== Memcheck, a memory error detector\n==4242== Warning: set address range perms: large range")


@pytest.mark.parametrize(
    ("message", "severity", "words"),
    [
        ("==1== Warning: 12 records have invalid timestamps due to …", "warning", "12 records have invalid timestamps"),
        ("==1== Warning: 1 records have invalid timestamps due to …", "warning", "1 record has invalid timestamps"),
        ("==1== Warning: 1234 records have invalid timestamps due to …", "error", "most of the run may be missing"),
        ("==1== Warning: 200 API trace records have same start and end timestamps.", "info", "200 API calls"),
        ("==1== Warning: Found 5 invalid records in the result.", "warning", "5 records are invalid"),
        (
            "==1== Warning: Found 1 invalid range marker(s)",
            "warning",
            "1 NVTX range marker has no matching start or end",
        ),
        ("==1== Warning: Some profiling data are not recorded. Make sure …", "warning", "cudaProfilerStop()"),
        ("==1== Warning: Unified Memory Profiling is not supported on …", "warning", "CUDA_VISIBLE_DEVICES"),
        ("==1== Warning: Profiling results might be incorrect with current version of nvcc …", "warning", "nvcc 9.0"),
        ("==1== Warning: The following aggregate event values were extrapolated …", "warning", "estimates"),
        ("==1== Warning: One or more events or metrics can't be profiled. Rerun …", "warning", "--print-gpu-trace"),
        ("==1== Execution timeout, stopping the application...", "warning", "time limit"),
        ("==1== Some kernel(s) will be replayed on device 3 in order to …", "info", "device 3"),
        ("==1== Warning: Some kernel(s) will be replayed on device 3 in order to …", "info", "device 3"),
        ("==1== Generated result file: /tmp/p.nvvp", "info", "open that file"),
        ("==1== Error: Internal profiling error 1749:999.", "error", "1749:999"),
        ("======== Error: Internal profiling error 1749:999.", "error", "1749:999"),
        ("======== Warning: No CUDA application was profiled, exiting", "error", "--profile-child-processes"),
        ("======== Error: Application received signal 139", "error", "signal 139 (a segmentation fault)"),
        ("======== Error: Application received signal 64", "error", "signal 64: the last records"),
        ("======== Error: Application returned non-zero code 255", "warning", "exit status 255"),
        ("======== Error: CUDA profiling error.", "error", "CUDA reported"),
        ("======== Error: unable to locate profiling library libcuinj64.so.", "error", "libcuinj64.so and"),
        ("======== Error: Unable to profile application. Unified Memory profiling failed", "error", "--unified-memory"),
        ("======== Warning: nvprof is not supported on devices with compute capability 8.0 …", "error", "nsys profile"),
        ("======== Warning: This version of nvprof doesn't support the underlying device, …", "error", "nsys profile"),
        ("==1== Warning: The user does not have permission to profile on the target …", "error", "ERR_NVGPUCTRPERM"),
        ("==1== System profiling result:", "info", "see the log"),
        ("No kernels were profiled.", "warning", "--profile-from-start"),
        ("No API activities were profiled.", "info", "--profile-api-trace"),
        ("No events/metrics were profiled.", "warning", "--query-metrics"),
        ("No OpenACC activities were profiled.", "info", "without --print-openacc-summary"),
    ],
)
def test_messages_become_issues_in_plain_words(message: str, severity: str, words: str) -> None:
    profile = read(f"a\n{message}\nb")
    assert issues(profile) == [(2, severity)]
    assert words in profile["issues"]["reason"][0]
    assert profile["sessions"].height == 1


@pytest.mark.parametrize("prefix", ["========", "==5=="])
def test_a_warning_above_the_result_belongs_to_its_session(prefix: str) -> None:
    row = " GPU activities:  100.00%  2.0000us         2  1.0000us  1.0000us  1.0000us  f(int)"
    header = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"
    warning = f"{prefix} Warning: Found 8 invalid records in the result."
    profile = read("\n".join([warning, f"{prefix} Profiling result:", header, row, ""]).encode())

    assert profile["sessions"].height == 1
    assert profile["summary"].select("name", "total_ns").rows() == [("f(int)", 2000)]
    assert issues(profile) == [(1, "warning")]


def test_unknown_warnings_count_within_a_session_only() -> None:
    profile = read("\n".join([*_run(5), "==5== Warning: the moon is full", "==5== Error: the sky fell"]).encode())
    assert issues(profile) == [(7, "warning"), (8, "error")]


def test_repeated_messages_are_reported_once() -> None:
    profile = read(
        "\n".join(
            [
                "==1== NVPROF is profiling process 1, command: ./a",
                *(f'==1== Warning: Event "e{number}" cannot be found on device 0' for number in range(392)),
                "==1== Warning: Found 5 invalid records in the result.",
                "==1== Warning: This can happen if device ran out of memory or if a device kernel was stopped",
                '==1== Replaying kernel "f" (done)',
                "==1== Analysis progress: 100%",
            ]
        ).encode()
    )
    assert issues(profile) == [(2, "warning"), (394, "warning")]
    assert profile["issues"].filter(line=2)["reason"][0].startswith("392 events or metrics")


def test_the_format_names_its_recording_command() -> None:
    assert NVPROF.format.name == "nvprof-text"
    assert "--print-gpu-trace --print-api-trace" in NVPROF.format.record_with
