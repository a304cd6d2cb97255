"""Worker processes that decode change nothing but the time, even if they die or do not answer."""

from __future__ import annotations

import gc
import gzip
import io
import json
import pickle
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tui.loaders.chrome_trace.read_trace
import tui.loaders.raw_input
from tests.loaders.chrome_trace.documents import ARGS, Trickle, kernel, read
from tests.loaders.chrome_trace.test_round_trip import assert_same
from tui.loaders.chrome_trace import decoder
from tui.loaders.chrome_trace.decoder import DecoderPool, DecoderProcess, DecodeTask, PackingDecoder
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.input_file import InputFile
from tui.loaders.kineto.events import FLOWS, SPLIT, WANTED_ARGS
from tui.loaders.worker_process import FileRange, WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tui.loaders.base import LoadProgress
    from tui.loaders.chrome_trace.decoder import Answer
    from tui.loaders.chrome_trace.event_batches import Trace

pytestmark = pytest.mark.usefixtures("all_cores")
EVENTS = [kernel(name=f"kernel {n % 7}", ts=10 + n, args={"correlation": n, "grid": [n % 3 + 1]}) for n in range(3000)]
DOCUMENT = json.dumps({"traceEvents": EVENTS}, indent=1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 1 << 12)
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_BLOCK", 1 << 15)


@pytest.fixture(scope="module")
def read_here() -> Trace:
    """Return the document as read without workers, in blocks of the usual size."""
    return read(DOCUMENT)


def read_by(pool: partial[DecoderPool] | type[DecoderPool], document: str = DOCUMENT) -> Trace:
    source = InputFile.open("trace.json", stream=io.BytesIO(document.encode()))
    return read_trace(source, ARGS, make_pool=pool)


def test_a_worker_decodes_like_this_process() -> None:
    text = json.dumps(EVENTS)[1:-1].encode()
    worker = DecoderProcess(DecodeTask(ARGS))
    try:
        decoded_by_worker, decoded_here = worker.decode(text), PackingDecoder(DecodeTask(ARGS)).decode(text)
        assert decoded_by_worker is not None
        assert decoded_here is not None
        assert (
            (decoded_by_worker.new_texts, decoded_by_worker.events)
            == (decoded_here.new_texts, decoded_here.events)
            == (decoded_here.new_texts, 3000)
        )
        assert decoded_by_worker.is_first
        assert worker.decode(b"damaged") is None
        decoded_again = worker.decode(text)
        assert decoded_again is not None
        assert (decoded_again.new_texts, decoded_again.is_first) == ([], False)
        (rows,), (same,) = decoded_by_worker.complete.values(), decoded_again.complete.values()
        assert {name: column.tolist() for name, column in rows.columns.items()} == {
            name: column.tolist() for name, column in same.columns.items()
        }
    finally:
        worker.process.close()


def test_the_task_of_a_worker_refers_to_no_module_of_the_format() -> None:
    assert b"kineto" not in pickle.dumps(DecodeTask(WANTED_ARGS, SPLIT, FLOWS))


@pytest.mark.usefixtures("small_blocks")
class TestPools:
    def test_the_trace_equals_that_of_one_process(self, read_here: Trace) -> None:
        trace = read_by(DecoderPool)
        assert_same(trace, read_here)
        assert trace.complete["correlation"].to_list() == list(range(3000))
        assert (trace.partial, list(trace.notes)) == ("", [])

    def test_a_damaged_event_among_many(self) -> None:
        trace = read_by(DecoderPool, DOCUMENT.replace('"correlation": 1500,', '"correlation": inf,'))
        assert trace.complete["correlation"].to_list() == [*range(1500), None, *range(1501, 3000)]
        assert [note.line for note in trace.notes] == [
            DOCUMENT[: DOCUMENT.index('"correlation": 1500,')].count("\n") - 8
        ]

    def test_texts_after_a_damaged_event_at_the_end_of_a_block(self) -> None:
        events = [kernel(name=f"kernel {n}", ts=10 + n, args={"correlation": n}) for n in range(3000)]
        document = json.dumps({"traceEvents": events}, indent=1)
        blocks: list[bytes] = []

        class RecordingPool(DecoderPool):
            def decode(self, data: bytes | FileRange) -> Future[Answer]:
                assert isinstance(data, bytes)
                blocks.append(data)
                return super().decode(data)

        read_by(RecordingPool, document)
        last_events = json.loads(f"[{blocks[0].decode().rstrip().rstrip(',')}]")
        closing = document.rindex("}", 0, document.index(blocks[0].decode()) + len(blocks[0]))
        # One worker decodes all blocks.
        damaged = io.BytesIO(f"{document[:closing]} {document[closing + 1 :]}".encode())
        trace = read_trace(InputFile.open("x", stream=damaged), ARGS, make_pool=lambda task, _: DecoderPool(task, 1))
        assert trace.complete["name"].to_list() == [
            event["name"] for event in events if event["name"] != last_events[-1]["name"]
        ]
        assert [note.reason for note in trace.notes] == ["1 event has damaged JSON: skipped"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "program",
        [
            "raise SystemExit(1)",
            "import sys; sys.stdin.buffer.read(100)",
            "import os; os.write(1, b'\\xff' * 8)",
            "import os; os.write(1, (5).to_bytes(8, 'little') + b'nonsense')",
            "import threading; threading.Event().wait()",
        ],
        ids=["exits", "reads and exits", "answers too much", "answers nonsense", "hangs"],
    )
    def test_failing_workers_are_replaced_by_this_process(self, program: str) -> None:
        trace = read_by(partial(DecoderPool, command=(sys.executable, "-c", program), timeout_s=0.5))
        assert trace.complete["correlation"].to_list() == list(range(3000))

    def test_the_trace_is_read_without_workers_if_none_can_start(self) -> None:
        assert read_by(partial(DecoderPool, command=("/nowhere/python",))).complete.height == 3000

    def test_no_worker_processes_remain(self) -> None:
        pools: list[DecoderPool] = []

        def make(task: DecodeTask, count: int) -> DecoderPool:
            pools.append(DecoderPool(task, count))
            return pools[-1]

        read_trace(InputFile.open("x", stream=io.BytesIO(DOCUMENT.encode())), ARGS, make_pool=make)
        (pool,) = pools
        assert pool.workers
        assert all(worker.process.process.poll() is not None for worker in pool.workers)
        assert gc.isenabled()


def test_a_closed_pool_decodes_nothing_more() -> None:
    hang = (sys.executable, "-c", "import threading; threading.Event().wait()")
    pool = DecoderPool(DecodeTask(ARGS), 1, command=hang)
    running, waiting = (pool.decode(json.dumps(EVENTS)[1:-1].encode()) for _ in range(2))
    while not running.running():
        time.sleep(0.001)
    pool.close()
    assert running.result()[0] is None
    assert waiting.cancelled()


def test_a_report_can_stop_reading_before_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.raw_input, "_REPORT_EVERY_S", 0.0)
    document = json.dumps({"note": "x" * (4 << 20), "traceEvents": EVENTS[:1]})
    source = InputFile.open("x", stream=Trickle(document.encode(), 1 << 16))
    trace = read_trace(source, ARGS, lambda _progress: False, make_pool=None)
    assert source.bytes_read < 1 << 20
    assert (trace.complete.height, trace.partial) == (0, "stopped before its end")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("pool", [DecoderPool, None], ids=["workers", "here"])
def test_a_report_that_stops_keeps_what_was_read(
    pool: type[DecoderPool] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tui.loaders.raw_input, "_REPORT_EVERY_S", 0.0)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS * 20}))
    seen: list[LoadProgress] = []

    def report(progress: LoadProgress) -> bool:
        seen.append(progress)
        return progress.rows < 1000

    trace = read_trace(InputFile.open(str(path)), ARGS, report, make_pool=pool)
    assert 1000 <= trace.complete.height < 60_000
    assert trace.complete["correlation"].to_list() == [n % 3000 for n in range(trace.complete.height)]
    percent = int(trace.partial.removeprefix("stopped at ").removesuffix("%"))
    assert 0 < percent <= 100
    assert list(trace.notes) == []
    assert len(seen) > 2


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize(("events", "pools"), [(800, 0), (3000, 1)])
def test_a_small_file_starts_no_workers(
    events: int, pools: int, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(pack(json.dumps({"traceEvents": EVENTS[:events]}, indent=1).encode()))
    worker_counts: list[int] = []

    def make(task: DecodeTask, count: int) -> DecoderPool:
        worker_counts.append(count)
        return DecoderPool(task, count)

    trace = read_trace(InputFile.open(str(path)), ARGS, make_pool=make)
    assert (trace.complete.height, len(worker_counts)) == (events, pools)


@pytest.mark.parametrize(
    ("cores", "memory", "size", "workers"),
    [(2, "8G", 1 << 30, 2), (16, "8G", 1 << 30, 16), (16, "8G", 60 << 20, 3), (16, "1G", None, 8), (16, "1k", None, 1)],
)
def test_as_many_workers_as_cores_memory_and_work_allow(
    cores: int, memory: str, size: int | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "available_cores", lambda: cores)
    monkeypatch.setenv("PROFTUI_MEMORY", memory)
    assert decoder.max_workers(size) == workers


def test_a_lost_worker_raises_an_error() -> None:
    worker = DecoderProcess(DecodeTask(ARGS), (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(WorkerLostError):
        worker.decode(b"x" * 10_000_000)
    worker.process.close()


@pytest.mark.slow
def test_a_worker_imports_neither_polars_nor_textual() -> None:
    program = "import sys, tui.loaders.chrome_trace.decoder; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"polars", "textual", "rich"} & set(loaded)


@pytest.mark.slow
def test_modules_of_the_working_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tui", "msgspec", "pickle", "gc"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    worker = DecoderProcess(DecodeTask(ARGS))
    try:
        piece = worker.decode(json.dumps(kernel()).encode())
    finally:
        worker.process.close()
    assert piece is not None
    assert piece.events == 1
