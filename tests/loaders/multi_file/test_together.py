"""Several files at once give the same as one after the other, whatever happens to one of them."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.cache.cached import assert_same_profile, small_file_cache
from tests.dataset.converting import convert
from tests.profiles import SAMPLES
from tests.waiting import TIMEOUT_S
from tui.loaders.base import DONE, READING, SKIPPED, STOPPED, LoadProgress
from tui.loaders.multi_file import load_together, read_files
from tui.loaders.multi_file.load_together import skipped_files
from tui.loaders.multi_file.read_files import FileOutcome, WantedFile
from tui.loaders.multi_file.reader_process import ReaderProcess
from tui.loaders.registry import load, load_input
from tui.loaders.temp_folders import remove_abandoned_folders
from tui.model.errors import ProftuiError
from tui.model.profile import merge_profiles, with_issues

if TYPE_CHECKING:
    from tui.loaders.base import FileProgress
    from tui.model.profile import Profile

DDP = SAMPLES / "ddp_ranks"
LOG = SAMPLES / "tracking_four_runs.nvprof.log"


@pytest.fixture
def scratch_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have every file read by a separate process, whatever its size; return the folder of their output."""
    monkeypatch.setattr(read_files, "MIN_WORKER_BYTES", 0)
    monkeypatch.setattr(read_files, "available_cores", lambda: 2)
    folder = tmp_path / "handed-over"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def trace_folder(folder: Path) -> Path:
    """Return a folder with the traces of two ranks."""
    folder.mkdir()
    for file in DDP.iterdir():
        shutil.copy(file, folder)
    return folder


def test_a_folder_of_unusable_files_names_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text("[]")
    (tmp_path / "c.txt").write_text("no profile\n")
    _, errors = load([str(tmp_path)])
    assert errors[0].message == f"{tmp_path}: none of the 3 files can be read"
    assert [reason.partition(":")[0] for reason in errors[0].hint.split("; ")] == ["a.json", "b.json", "c.txt"]


def open_files(*paths: Path | str) -> Profile:
    profile, errors = load([str(path) for path in paths])
    assert profile is not None
    assert not errors
    return profile


def test_parallel_reading_equals_sequential_reading(scratch_folder: Path, tmp_path: Path) -> None:
    log = shutil.copy(LOG, tmp_path / "run.log")
    packed = str(SAMPLES / "gpt_cudagraph.nsys.sqlite.gz")
    paths = [*sorted(map(str, DDP.iterdir())), str(log), packed]
    together, errors = load(paths)
    assert not errors
    assert together is not None
    assert list(scratch_folder.glob("proftui-*")) == []
    assert_same_profile(together, merge_profiles([load_input(path) for path in paths]))


@pytest.mark.slow
def test_lines_of_a_compressed_log_can_be_read_again(scratch_folder: Path, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(LOG.read_bytes()))
    profile = open_files(packed, DDP)
    assert profile.texts[str(packed)].lines(1, 3) == LOG.read_text().splitlines()[:3]
    assert list(scratch_folder.glob("proftui-*")) == []


@pytest.mark.parametrize("pays", [0, 1 << 60], ids=["elsewhere", "here"])
def test_a_damaged_rank_is_skipped_and_reported(
    pays: int, scratch_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_files, "MIN_WORKER_BYTES", pays)
    folder = trace_folder(tmp_path / "traces")
    (folder / "ddp_rank1.pt.trace.json.gz").write_bytes(b"\x1f\x8b\x08\x00not gzip at all")
    (folder / "notes.txt").write_text("nothing\n")
    shown: dict[str, FileProgress] = {}

    def report(progress: LoadProgress) -> bool:
        shown.update({Path(file.path).name: file for file in progress.files})
        return True

    profile, errors = load([str(folder)], on_progress=report)
    assert profile is not None
    assert not errors
    assert profile["sessions"]["rank"].to_list() == [0]
    (reason,) = skipped_files(profile)
    assert reason.startswith(str(folder / "ddp_rank1.pt.trace.json.gz"))
    assert {name: file.state for name, file in shown.items()} == {
        "ddp_rank0.pt.trace.json.gz": DONE,
        "ddp_rank1.pt.trace.json.gz": SKIPPED,
        "notes.txt": SKIPPED,
    }
    assert shown["ddp_rank0.pt.trace.json.gz"].rank == 0
    assert shown["ddp_rank1.pt.trace.json.gz"].reason in reason
    assert shown["notes.txt"].reason == "contains no profile"


@pytest.mark.slow
def test_a_truncated_rank_is_kept_and_reported_with_its_file(scratch_folder: Path, tmp_path: Path) -> None:
    folder = trace_folder(tmp_path / "traces")
    import gzip

    content = gzip.decompress((folder / "ddp_rank1.pt.trace.json.gz").read_bytes())
    (folder / "ddp_rank1.pt.trace.json.gz").unlink()
    (folder / "ddp_rank1.pt.trace.json").write_bytes(content[: len(content) // 2])
    profile = open_files(folder)
    assert sorted(profile["sessions"]["rank"].to_list()) == [0, 1]
    assert profile.partial.startswith("ddp_rank1.pt.trace.json truncated after ")


@pytest.mark.slow
def test_a_killed_process_loses_only_its_file(scratch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReaderProcess
    number = itertools.count()

    def start_dying_first(cores: int) -> ReaderProcess:
        dies = (sys.executable, "-c", "import os, sys; sys.stdin.buffer.read(8); os.kill(os.getpid(), 9)")
        return real(cores) if next(number) else real(cores, dies)

    monkeypatch.setattr(read_files, "ReaderProcess", start_dying_first)
    paths = sorted(map(str, DDP.iterdir()))
    profile, errors = load(paths)
    assert len(errors) == 1
    assert "the worker process was killed, probably because memory ran out" in str(errors[0])
    assert profile is not None
    assert profile["sessions"].height == 1
    assert skipped_files(profile) == [str(errors[0])]
    assert list(scratch_folder.glob("proftui-*")) == []


def test_no_process_starts_for_small_files_or_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_start(cores: int) -> ReaderProcess:
        raise AssertionError("a process began")

    monkeypatch.setattr(read_files, "ReaderProcess", fail_to_start)
    monkeypatch.setattr(read_files, "MIN_WORKER_BYTES", 1 << 60)
    assert open_files(DDP)["sessions"].height == 2
    monkeypatch.setattr(read_files, "MIN_WORKER_BYTES", 0)
    monkeypatch.setattr(read_files, "available_cores", lambda: 1)
    assert open_files(DDP)["sessions"].height == 2


def test_files_are_read_in_this_process_if_no_other_can_start(
    scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_files, "ReaderProcess", partial(ReaderProcess, command=("/nonexistent/python",)))
    assert_same_profile(open_files(DDP), merge_profiles([load_input(str(path)) for path in sorted(DDP.iterdir())]))
    assert list(scratch_folder.glob("proftui-*")) == []


@pytest.mark.slow
def test_cached_files_are_not_read_again(scratch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = small_file_cache()
    first, _ = load([str(DDP)], cache=cache)
    cache.write()
    monkeypatch.setattr(read_files, "ReaderProcess", lambda _cores: pytest.fail("a file was read again"))
    used = small_file_cache()
    second, _ = load([str(DDP)], cache=used)
    assert first is not None
    assert second is not None
    assert len(used.used) == 2
    assert_same_profile(first, second)


def test_stopping_keeps_the_files_read_and_reports_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "MIN_WORKER_BYTES", 1 << 60)
    monkeypatch.setattr(read_files, "available_cores", lambda: 1)
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(3):
        shutil.copy(LOG, folder / f"rank{rank}.log")
    first_is_read = threading.Event()
    real = read_files._ParallelReader._finish

    def give(self: read_files._ParallelReader, at: int, outcome: read_files.FileOutcome) -> None:
        real(self, at, outcome)
        first_is_read.set()
        # Nothing more begins before the caller has been asked.
        while at == 0 and not self._state.stopped:
            time.sleep(0.001)

    monkeypatch.setattr(read_files._ParallelReader, "_finish", give)
    states: list[str] = []

    def report(progress: LoadProgress) -> bool:
        states[:] = [file.state for file in progress.files]
        return not first_is_read.is_set()

    profile, errors = load([str(folder)], on_progress=report)
    assert profile is not None
    assert not errors
    assert states == [DONE, STOPPED, STOPPED]
    assert profile.sources == (str(folder / "rank0.log"),)
    assert profile.partial == "stopped: 2 of 3 files not read"
    assert "rank1.log, rank2.log" in profile["issues"]["text"].to_list()


def test_a_folder_that_was_not_read_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(LOG, tmp_path / "late.log")
    given = FileOutcome(load_input(str(LOG)))
    outcomes = [given, FileOutcome(was_stopped=True)]
    monkeypatch.setattr(load_together, "read_files", lambda *_args, **_options: outcomes)
    profile, errors = load([str(LOG), str(tmp_path)])
    assert profile is not None
    assert (profile.partial, errors) == ("stopped: 1 of 2 files not read", [])
    outcomes[:] = [FileOutcome(was_stopped=True)]
    profile, errors = load([str(tmp_path)])
    assert profile is None
    assert [error.message for error in errors] == ["stopped before any file was completely read"]


@pytest.mark.slow
def test_a_stop_ends_the_reading_processes(scratch_folder: Path) -> None:
    paths = sorted(map(str, DDP.iterdir()))
    profile, errors = load(paths, on_progress=lambda _progress: False)
    assert list(scratch_folder.glob("proftui-*")) == []
    if profile is None:
        assert "stopped before any file was completely read" in str(errors[0])
    else:
        assert profile.partial


@pytest.mark.slow
def test_large_files_are_read_sequentially(scratch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "memory_for_loading", lambda: 1)
    counts: list[int] = []

    def report(progress: LoadProgress) -> bool:
        counts.append(sum(file.state == READING for file in progress.files))
        return True

    profile, _ = load([str(DDP)], on_progress=report)
    assert profile is not None
    assert max(counts) == 1


@pytest.mark.parametrize("failure", [ZeroDivisionError("odd"), pl.exceptions.PanicException("odd")])
def test_an_unexpected_failure_is_reported_with_the_file(failure: BaseException) -> None:
    def read_here(file: WantedFile, _report: object) -> Profile | None:
        if file.path == "b":
            raise failure
        raise ProftuiError(f"{file.path}: nothing")

    outcomes = read_files.read_files(
        [WantedFile("a"), WantedFile("b")], read_here, format_in=None, on_progress=lambda _progress: True, cache=None
    )
    assert [str(outcome.error) for outcome in outcomes] == ["a: nothing", f"b: cannot be read ({failure!r})"]


def test_a_file_with_an_undecodable_name_is_read_in_this_process(scratch_folder: Path, tmp_path: Path) -> None:
    folder = trace_folder(tmp_path / "ranks")
    first = next(folder.iterdir())
    first.rename(folder / f"\udcff{first.name}")
    assert open_files(folder)["sessions"]["rank"].to_list() == [0, 1]


@pytest.mark.slow
def test_a_pipe_is_read_by_this_process(scratch_folder: Path) -> None:
    with subprocess.Popen(["cat", str(LOG)], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        profile = open_files(DDP, f"/dev/fd/{cat.stdout.fileno()}")
    assert profile["sessions"].height == 2 + load_input(str(LOG))["sessions"].height


@pytest.mark.slow
def test_a_worker_ends_with_its_parent(scratch_folder: Path) -> None:
    worker = ReaderProcess(1)
    (folder,) = scratch_folder.glob("proftui-*")
    assert worker.process.process.stdin is not None
    worker.process.process.stdin.close()
    assert worker.process.process.wait(timeout=TIMEOUT_S) == 0
    assert not folder.exists()
    worker.close()


@pytest.mark.slow
def test_the_folder_of_a_killed_run_and_worker_is_removed_by_the_next_run(scratch_folder: Path) -> None:
    code = (
        "import os, signal, sys, tempfile\n"
        "from tui.loaders.multi_file.reader_process import ReaderProcess\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "worker = ReaderProcess(1)\n"
        "os.kill(worker.process.process.pid, signal.SIGKILL)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(scratch_folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(scratch_folder.iterdir())) == 1
    remove_abandoned_folders(scratch_folder)
    assert list(scratch_folder.iterdir()) == []


def test_further_issues_keep_everything_else_of_a_profile() -> None:
    profile = replace(load_input(str(LOG)), gpu="NVIDIA T4", peaks=(("bandwidth", 300.0),), partial="stopped")
    more = with_issues(profile, [{"severity": "info", "text": "a", "reason": "b"}])
    assert (more.gpu, more.peaks, more.partial) == ("NVIDIA T4", (("bandwidth", 300.0),), "stopped")
    assert more["issues"].height == profile["issues"].height + 1


def test_a_file_given_twice_is_one_session(tmp_path: Path) -> None:
    log, link = tmp_path / "run.log", tmp_path / "link.log"
    shutil.copy(LOG, log)
    link.symlink_to(log)
    once = load_input(str(log))
    profile = open_files(log, log, f"{tmp_path}/./run.log", link)
    assert profile["sessions"].height == once["sessions"].height
    assert profile.sources == (str(log),)
    more = profile["issues"].filter(pl.col("reason").str.contains("given more than once"))
    assert more.select("session", "severity", "reason").rows() == [
        (None, "info", "3 files are given more than once: read once")
    ]
    with_folder = open_files(log, tmp_path)
    assert with_folder.sources == (str(log),)
    assert "2 files are given more than once: read once" in with_folder["issues"]["reason"].to_list()
    missing, errors = load([str(tmp_path / "missing"), str(tmp_path / "missing")])
    assert missing is None
    assert len(errors) == 1
    _, errors = load([str(log), "x" * 300])
    assert [error.message for error in errors] == [f"{'x' * 300}: cannot be read (file name too long)"]


def test_a_link_to_a_file_of_the_same_folder_is_no_second_session(tmp_path: Path) -> None:
    log = tmp_path / "run_rank3.log"
    shutil.copy(LOG, log)
    (tmp_path / "latest.log").symlink_to(log)
    profile = open_files(tmp_path)
    assert profile.sources == (str(log),)
    assert profile["sessions"].height == load_input(str(log))["sessions"].height
    assert profile["issues"].filter(pl.col("session").is_null()).select("text", "reason").rows() == [
        (str(tmp_path / "latest.log"), "1 file is given more than once: read once")
    ]


def test_files_of_one_run_are_reported(tmp_path: Path) -> None:
    trace, packed = tmp_path / "run.json", tmp_path / "run.json.gz"
    kernels = {"k<int>": 4000, "k<float>": 3000, "gemm": 1_234_567, "add": 20_000, "relu": 900}

    def write(scale: int) -> None:
        events = [
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at * 10_000, "dur": ns * scale / 1000}
            for at, (name, ns) in enumerate(kernels.items())
        ]
        events.append({"ph": "X", "cat": "cpu_op", "name": "op", "pid": 5, "tid": 5, "ts": 0, "dur": 1})
        trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))

    write(1)
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    # Names are cut and times have four digits.
    table = tmp_path / "run.log"
    rows = [
        ("1.2346ms", "gemm"),
        ("20.000us", "add"),
        ("4.0000us", "k<i..."),
        ("3.0000us", "k<f..."),
        ("900ns", "relu"),
    ]
    table.write_text(
        "==5== Profiling result:\n            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        + "".join(
            f" GPU activities:   20.00%  {time:>8}         1  {time:>8}  {time:>8}  {time:>8}  {name}\n"
            for time, name in rows
        )
    )
    reason = (
        "sessions 0, {} have the same kernels and times: their files are probably of one run, and totals over all "
        "sessions count it more than once; choose a session with --session"
    )

    def reported(*paths: Path) -> list[tuple[str, str]]:
        issues = open_files(*paths)["issues"].filter(pl.col("reason").str.contains("same kernels"))
        return issues.select("text", "reason").rows()

    assert reported(trace, packed) == [("run.json, run.json.gz", reason.format("1"))]
    assert reported(tmp_path) == [("run.json, run.json.gz, run.log", reason.format("1, 2"))]
    assert reported(packed, table) == [("run.json.gz, run.log", reason.format("1"))]
    dataset = convert(tmp_path / "dataset", str(trace))
    assert reported(trace, Path(dataset)) == [("run.json, run.json", reason.format("1"))]
    # Another run takes other times.
    write(2)
    assert reported(trace, packed) == []
    assert reported(DDP) == []


def test_a_table_with_the_sums_of_all_processes_of_another_file_is_reported(tmp_path: Path) -> None:
    kernels = {"gemm": 1_234_567, "add": 20_000, "k": 4000, "h": 3000, "relu": 900}
    trace, table = tmp_path / "run.json", tmp_path / "run_cuda_gpu_kern_sum.csv"
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": f"[rank{rank}] 0",
            "ts": at * 10_000,
            "dur": ns * factor / 1000,
        }
        for rank, factor in ((0, 1), (1, 2))
        for at, (name, ns) in enumerate(kernels.items())
    ]
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    lines = [f"20.0,{3 * ns},2,{1.5 * ns},{1.5 * ns},{ns},{2 * ns},1.0,{name}\n" for name, ns in kernels.items()]
    table.write_text(header + "".join(lines))

    profile = open_files(trace, table)
    assert profile["sessions"].select("format", "rank").rows() == [
        ("pytorch-trace", 0),
        ("pytorch-trace", 1),
        ("nsys-stats", None),
    ]
    repeated = profile["issues"].filter(pl.col("reason").str.contains("same kernels"))
    assert repeated["text"].to_list() == ["run.json, run_cuda_gpu_kern_sum.csv"]
    assert repeated["reason"][0].startswith("sessions 0, 1, 2 have the same kernels and times")
    table.write_text(header + "".join(lines[1:]).replace(",2,", ",3,").replace("20.0,6", "20.0,7"))
    assert open_files(trace, table)["issues"].filter(pl.col("reason").str.contains("same kernels")).is_empty()
