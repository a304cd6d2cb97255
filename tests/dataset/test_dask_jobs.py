"""Conversion on a cluster of real processes, some of which are killed, stopped or missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from distributed import LocalCluster

import tui.dataset.dask_jobs
from tests.dataset.dask_cluster import ODD, DaskCluster, wait_until
from tests.loaders.kineto.traces import document, kernel
from tests.screens.training_trace import training_events
from tests.waiting import TIMEOUT_S
from tui.cli.convert import ProgressLine
from tui.cli.main import main
from tui.loaders.dataset_loader import MANIFEST, PARTS

if TYPE_CHECKING:
    from tui.dataset.dask_jobs import ConversionProgress

ROOT = Path(__file__).parents[2]
RANKS = 40
DAMAGED = "rank7.pt.trace.json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    running = DaskCluster(tmp_path_factory.mktemp("cluster"))
    try:
        running.add_workers(2)
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a file for each rank, one of them not a profile; each rank has one kernel more than the one before."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(RANKS):
        more = [kernel(1000 + number, 20_000.0 + 10 * number, name=f"of_rank_{rank}") for number in range(rank)]
        about = {"rank": rank, "world_size": RANKS, "backend": "nccl"}
        path = folder / f"rank{rank}.pt.trace.json"
        path.write_bytes(document([*training_events(), *more], distributedInfo=about))
    (folder / DAMAGED).write_bytes(b"\x00\x01 no profile")
    return [str(folder / f"rank{rank}.pt.trace.json") for rank in range(RANKS)]


@pytest.fixture(scope="module")
def local_dataset(traces: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the dataset of the same files, converted one after the other without a cluster."""
    folder = tmp_path_factory.mktemp("local") / "run"
    main(["convert", *traces, "-o", str(folder)])
    return folder


def content(dataset: Path) -> dict[str, bytes]:
    """Return all files of a dataset."""
    return {path.relative_to(dataset).as_posix(): path.read_bytes() for path in dataset.rglob("*") if path.is_file()}


def convert(cluster: DaskCluster, files: list[str], dataset: Path) -> int:
    return main(["convert", *files, "-o", str(dataset), "--scheduler", cluster.address])


def error_output(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what was written to standard error; standard output must be empty."""
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def call_after_parts(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None], part_count: int = 5) -> None:
    """Call a function once, when a number of files is converted."""
    show = ProgressLine.show
    pending = [action]

    def show_and_act(line: ProgressLine, progress: ConversionProgress) -> None:
        show(line, progress)
        if pending and len(progress.parts) >= part_count:
            assert len(progress.parts) < RANKS - 1, "it is in the middle"
            pending.pop()()

    monkeypatch.setattr(ProgressLine, "show", show_and_act)


def test_a_cluster_within_this_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers are processes of their own elsewhere, and use few cores from then on.
    monkeypatch.setattr(tui.dataset.dask_jobs, "set_core_limit", lambda _cores: None)
    files = []
    for rank in range(2):
        about = {"rank": rank, "world_size": 2, "backend": "nccl"}
        (tmp_path / f"rank{rank}.json").write_bytes(document(training_events(), distributedInfo=about))
        files.append(str(tmp_path / f"rank{rank}.json"))
    (tmp_path / "bad.json").write_bytes(b"\x00\x01 no profile")
    files.append(str(tmp_path / "bad.json"))
    main(["convert", *files, "-o", str(tmp_path / "straight")])
    assert "bad.json" in error_output(capsys)
    options = {"n_workers": 1, "threads_per_worker": 1, "protocol": "tcp", "host": "127.0.0.1"}
    with LocalCluster(processes=False, dashboard_address=None, local_directory=str(tmp_path), **options) as cluster:
        assert main(["convert", *files, "-o", str(tmp_path / "run"), "--scheduler", cluster.scheduler_address]) == 2
    assert content(tmp_path / "run") == content(tmp_path / "straight")
    reported = error_output(capsys)
    assert f"3 files for 1 worker of {cluster.scheduler_address}" in reported
    assert "wrote 2 files, 2 ranks, " in reported
    assert "of 3 files: 1 skipped" in reported


class TestOutput:
    @pytest.mark.slow
    def test_the_dataset_equals_that_of_a_local_conversion(
        self,
        cluster: DaskCluster,
        traces: list[str],
        local_dataset: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert convert(cluster, traces, tmp_path / "run") == 2
        assert content(tmp_path / "run") == content(local_dataset)
        reported = error_output(capsys)
        assert f"40 files for 2 workers of {cluster.address}" in reported
        assert re.search(rf"skipped: {re.escape(traces[7])}: .*binary", reported)
        rows = sum(
            pl.scan_parquet(path).select(pl.len()).collect().item() for path in (tmp_path / "run").rglob("*.parquet")
        )
        assert f"wrote 39 files, 39 ranks, {rows:,} rows to {tmp_path}/run" in reported
        assert "of 40 files: 1 skipped" in reported

    @pytest.mark.slow
    def test_a_conversion_without_errors_exits_with_0(
        self, cluster: DaskCluster, traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        files = [*traces[:3], traces[0]]
        assert convert(cluster, files, tmp_path / "run") == 0
        assert "3 files, 3 ranks" in error_output(capsys)

    @pytest.mark.slow
    def test_a_trace_of_several_blocks_is_read_within_the_worker(self, cluster: DaskCluster, tmp_path: Path) -> None:
        trace = str(ROOT / "sample_logs" / "resnet50_training.pt.trace.json.gz")
        assert convert(cluster, [trace], tmp_path / "run") == 0
        assert main(["convert", trace, "-o", str(tmp_path / "straight")]) == 0
        assert content(tmp_path / "run") == content(tmp_path / "straight")

    @pytest.mark.slow
    def test_relative_paths_are_converted(
        self, cluster: DaskCluster, traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copy(traces[1], tmp_path / "one.json")
        monkeypatch.chdir(tmp_path)
        assert convert(cluster, ["one.json"], Path("run")) == 0
        assert (tmp_path / "run" / MANIFEST).exists()


@pytest.mark.slow
class TestFailures:
    def test_a_killed_worker_loses_and_duplicates_nothing(
        self,
        cluster: DaskCluster,
        traces: list[str],
        local_dataset: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        killed = cluster.pids()[0]
        call_after_parts(monkeypatch, lambda: os.kill(killed, signal.SIGKILL))
        assert convert(cluster, traces, tmp_path / "run") == 2
        assert content(tmp_path / "run") == content(local_dataset)
        reported = error_output(capsys)
        assert re.search(r"of 40 files: \d+ retried, 1 skipped", reported)
        assert reported.count("skipped: ") == 1
        cluster.wait_for_workers(2)
        assert killed not in cluster.pids()

    def test_a_file_that_kills_its_workers_is_skipped(
        self,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def task() -> Callable[..., object]:
            def kill_worker(file: str, *arguments: object) -> object:
                import os
                import signal

                from tui.dataset.dask_jobs import _task

                if file.endswith("rank3.pt.trace.json"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return _task()(file, *arguments)  # type: ignore[arg-type]

            return kill_worker

        monkeypatch.setattr(tui.dataset.dask_jobs, "_task", task)
        # One at a time: others beside it would share its fate.
        monkeypatch.setattr(tui.dataset.dask_jobs, "PER_THREAD", 0.5)
        assert convert(cluster, traces[:6], tmp_path / "run") == 2
        reported = error_output(capsys)
        assert f"skipped: {traces[3]}: 2 workers died while converting it" in reported
        assert "wrote 5 files, 5 ranks" in reported
        cluster.wait_for_workers(2)

    def test_failed_tasks_are_retried_a_few_times(
        self,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        failing = functools.partial(_failing, str(tmp_path), {"rank1.pt.trace.json": tui.dataset.dask_jobs.RETRIES + 1})
        monkeypatch.setattr(tui.dataset.dask_jobs, "_task", failing)
        assert convert(cluster, traces[:4], tmp_path / "run") == 2
        reported = error_output(capsys)
        assert f"skipped: {traces[1]}: OSError: [Errno 5] the disk hums" in reported
        assert "of 4 files: 4 retried, 1 skipped\n" in reported
        assert "wrote 3 files, 3 ranks" in reported

    def test_a_full_disk_ends_the_conversion(
        self,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(tui.dataset.dask_jobs, "_task", functools.partial(_failing, str(tmp_path), {}, 28))
        assert convert(cluster, traces, tmp_path / "run") == 2
        assert "the dataset cannot be written: the disk hums" in error_output(capsys)

    def test_a_lost_scheduler_is_an_error(
        self,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        cluster = DaskCluster(tmp_path)
        try:
            cluster.add_workers(1)
            call_after_parts(monkeypatch, cluster.kill_scheduler, part_count=2)
            assert convert(cluster, traces, tmp_path / "run") == 2
        finally:
            cluster.close()
        reported = error_output(capsys)
        assert "connection to the scheduler lost\n" in reported
        assert re.search(r"\d+ of 40 files converted; run the same command to continue", reported)
        assert "Traceback" not in reported

    def test_missing_files_are_skipped(
        self, cluster: DaskCluster, traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert convert(cluster, [traces[0], str(tmp_path / "none.json")], tmp_path / "run") == 2
        reported = error_output(capsys)
        assert f"skipped: {tmp_path}/none.json: no such file" in reported
        assert "of 2 files: 1 skipped" in reported


def _failing(folder: str, times: dict[str, int], error: int = 5) -> Callable[..., object]:
    """Return a task that fails a given number of times for each of these files, and once for any other."""

    def convert(file: str, *given: object) -> object:
        import os
        from pathlib import Path

        from tui.dataset.dask_jobs import _task

        for number in range(times.get(Path(file).name, 1)):
            try:
                os.close(os.open(f"{folder}/{Path(file).name}.{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            raise OSError(error, "the disk hums")
        return _task()(file, *given)  # type: ignore[arg-type]

    return convert


@pytest.mark.slow
def test_a_conversion_resumes_after_ctrl_c(
    cluster: DaskCluster, traces: list[str], local_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = tmp_path / "run"
    command = [sys.executable, "-W", "error", "-m", "tui", "convert", *traces, "-o", str(dataset)]
    program = subprocess.Popen([*command, "--scheduler", cluster.address], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    parts = dataset / PARTS
    workers = cluster.pids()
    wait_until(lambda: parts.is_dir() and len(list(parts.glob("*.json"))) >= 3)
    # The workers stand still, so that it is in the middle of it.
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        program.send_signal(signal.SIGINT)
        _, reported = program.communicate(timeout=TIMEOUT_S)
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
    assert program.returncode == 130
    converted = re.search(
        r"interrupted\nproftui: (\d+) of 40 files converted; run the same command to continue", reported
    )
    assert converted is not None, reported
    assert 0 < int(converted[1]) < 39
    assert not (dataset / MANIFEST).exists()
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in parts.glob("*.json")}

    assert convert(cluster, traces, dataset) == 2
    assert content(dataset) == content(local_dataset)
    assert (
        before.items() <= {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in parts.glob("*.json")}.items()
    )
    match = re.search(r"of 40 files: (\d+) already converted, 1 skipped", error_output(capsys))
    assert match is not None
    assert int(match[1]) >= len(before) >= int(converted[1])


class TestUnusableClusters:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("is_there", "reported"),
        [
            (True, r"worker tcp://\S+ has proftui 0\.0\.1 \(here [\d.]+\)\n"),
            (False, r"worker tcp://\S+ has no proftui\n"),
        ],
        ids=["a different version", "none"],
    )
    def test_a_worker_with_another_version_is_an_error(
        self,
        is_there: bool,
        reported: str,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        package_folder = tmp_path / "odd"
        (package_folder / "tui").mkdir(parents=True)
        if is_there:
            (package_folder / "tui" / "__init__.py").write_text("__version__ = '0.0.1'\n")
        else:
            (package_folder / "tui").rmdir()
            (package_folder / "sitecustomize.py").write_text(ODD.format(root=str(ROOT)))
        nannies = cluster.add_workers(1, python_path=str(package_folder))
        try:
            assert convert(cluster, traces, tmp_path / "run") == 2
        finally:
            cluster.remove(nannies)
        words = error_output(capsys)
        assert re.match(rf"proftui: {reported}", words), words
        assert "pip install 'proftui[dask]==" in words
        assert not (tmp_path / "run" / MANIFEST).exists()

    @pytest.mark.slow
    def test_a_late_worker_without_proftui_is_an_error(
        self,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "sitecustomize.py").write_text(ODD.format(root=str(ROOT)))
        cluster = DaskCluster(tmp_path)
        try:
            cluster.add_workers(1, python_path=str(tmp_path))
            monkeypatch.setattr(tui.dataset.dask_jobs, "check_cluster", lambda *_: 1)
            assert convert(cluster, traces[:1], tmp_path / "run") == 2
        finally:
            cluster.close()
        assert f"skipped: {traces[0]}: a worker has no proftui" in error_output(capsys)

    @pytest.mark.slow
    def test_a_worker_without_the_files_is_an_error(
        self,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        remote_folder = tmp_path / "there"
        remote_folder.mkdir()
        file = str(shutil.copy(traces[0], remote_folder))
        # It is gone by the time that the workers are asked for it.
        monkeypatch.setattr(
            tui.dataset.dask_jobs, "_check_proftui", lambda _: remote_folder.rename(tmp_path / "elsewhere")
        )
        assert convert(cluster, [file], tmp_path / "run") == 2
        reported = error_output(capsys)
        assert f"cannot access {remote_folder}\n" in reported
        assert "at the same paths" in reported

    @pytest.mark.slow
    def test_a_file_missing_on_a_late_worker_is_an_error(
        self,
        cluster: DaskCluster,
        traces: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        file = Path(shutil.copy(traces[0], tmp_path))
        monkeypatch.setattr(tui.dataset.dask_jobs, "check_cluster", lambda *_: file.unlink())
        assert convert(cluster, [str(file)], tmp_path / "run") == 2
        assert f"cannot access {file}" in error_output(capsys)

    @pytest.mark.parametrize(
        ("address", "reported"),
        [
            ("tcp://127.0.0.1:1", "Timed out trying to connect to tcp://127.0.0.1:1 after 1 s"),
            ("127.0.0.1", "missing port number"),
            ("smoke://127.0.0.1:8786", "unknown address scheme"),
            ("tls://127.0.0.1:8786", "TLS"),
        ],
    )
    def test_an_unreachable_scheduler_is_an_error(
        self,
        address: str,
        reported: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(tui.dataset.dask_jobs, "TIMEOUT_S", 1)
        assert main(["convert", "x", "-o", str(tmp_path / "run"), "--scheduler", address]) == 2
        lines = error_output(capsys).splitlines()
        assert len(lines) == 2
        assert lines[0].startswith(f"proftui: no response from a Dask scheduler at {address}: ")
        assert reported in lines[0]
        assert not (tmp_path / "run").exists()

    def test_missing_dask_is_an_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        assert main(["convert", "x", "-o", str(tmp_path / "run"), "--scheduler", "tcp://127.0.0.1:1"]) == 2
        assert "pip install 'proftui[dask]'" in error_output(capsys)

    def test_standard_input_is_an_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
        assert main(["convert", "-", "-o", str(tmp_path / "run"), "--scheduler", "tcp://127.0.0.1:1"]) == 2
        assert "standard input" in error_output(capsys)

    def test_a_dataset_as_input_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        command = ["convert", "s3://bucket/run", "-o", str(tmp_path / "run"), "--scheduler", "tcp://127.0.0.1:1"]
        assert main(command) == 2
        assert "s3://bucket/run: addresses are not available on a cluster" in error_output(capsys)

    def test_an_address_as_output_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "x").touch()
        assert main(["convert", str(tmp_path / "x"), "-o", "s3://runs/1", "--scheduler", "tcp://127.0.0.1:1"]) == 2
        assert "datasets are written to local folders" in error_output(capsys)
