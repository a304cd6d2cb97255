"""Worker processes: messages are transferred, and the error for a lost process says why."""

from __future__ import annotations

import io
import os
import pickle
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tui.loaders import worker_process
from tui.loaders.worker_process import (
    MEMORY_VARIABLE,
    Channel,
    WorkerLostError,
    WorkerProcess,
    memory_for_loading,
    running_program,
)

GB = 1 << 30


@pytest.mark.parametrize(
    ("given", "expected"),
    [("4G", 4 * GB), (" 800 m ", 800 << 20), ("3KiB", 3 << 10), ("17", 17), ("1TB", 1 << 40)],
)
def test_memory_can_be_set_by_the_user(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, given)
    assert memory_for_loading() == expected


@pytest.mark.parametrize(
    ("machine", "group", "expected"),
    [(10 * GB, 6 * GB, 3 * GB), (10 * GB, None, 5 * GB), (None, 6 * GB, 3 * GB), (None, None, 4 * GB)],
)
def test_memory_is_half_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, machine: int | None, group: int | None, expected: int
) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "much")
    monkeypatch.setattr(worker_process, "_free_of_machine", lambda: machine)
    monkeypatch.setattr(worker_process, "_free_of_group", lambda: group)
    assert memory_for_loading() == expected


@pytest.mark.parametrize(
    ("limit", "used", "free"), [("1000\n", "400\n", 600), ("400\n", "1000\n", 0), ("max\n", "400\n", None)]
)
def test_free_memory_within_the_limit_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, used: str, free: int | None
) -> None:
    monkeypatch.setattr(worker_process, "_CGROUP", tmp_path)
    assert worker_process._free_of_group() is None
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.current").write_text(used)
    assert worker_process._free_of_group() == free


def test_a_channel_transfers_objects_with_arrays() -> None:
    wire = io.BytesIO()
    sent = {"rows": np.arange(5), "empty": np.array([], np.int8), "name": "gemm"}
    Channel(io.BytesIO(), wire).send(sent)
    wire.seek(0)
    channel = Channel(wire, io.BytesIO())
    received = channel.receive()
    assert received["rows"].tolist() == [0, 1, 2, 3, 4]
    assert (received["empty"].size, received["name"]) == (0, "gemm")
    with pytest.raises(EOFError):
        channel.receive()


def run_code(code: str, timeout_s: float | None = None) -> closing[WorkerProcess]:
    """Return a process that runs this code in place of the module; `out` writes."""
    start = f"import os, signal, sys, time; out = sys.stdout.buffer.write\n{code}\nsys.stdout.flush()"
    return closing(WorkerProcess("", command=[sys.executable, "-S", "-E", "-c", start], timeout_s=timeout_s))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit(3)", "the worker process ended with exit status 3"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "the worker process ended with signal 15"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the worker process was killed, probably because memory ran out"),
        (
            "out((101).to_bytes(8, 'little') + bytes(8))",
            "a message of 101 bytes exceeds the limit of 100",
        ),
        (
            "out(b''.join(n.to_bytes(8, 'little') for n in (60, 1, 50)))",
            "a message of 110 bytes exceeds the limit of 100",
        ),
        ("out((4).to_bytes(8, 'little') + bytes(8) + b'none')", "invalid load key, 'n'."),
    ],
)
def test_the_error_says_why_a_process_was_lost(code: str, reason: str) -> None:
    with run_code(code) as process, pytest.raises(WorkerLostError) as lost:
        process.receive(max_bytes=100)
    assert str(lost.value) == reason


def test_a_silent_or_endless_process_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_code("time.sleep(60)", timeout_s=0.05) as process, pytest.raises(WorkerLostError, match=r"for 0\.05 s$"):
        process.receive()
    monkeypatch.setattr(worker_process, "_EXIT_S", 0.05)
    with run_code("os.close(1); time.sleep(60)") as process:
        with pytest.raises(WorkerLostError, match=r"^the worker process does not answer$"):
            process.receive()
        process.kill()
        process.process.wait()
        with pytest.raises(WorkerLostError, match="was killed"):
            process.send("x" * (1 << 22))


def test_a_closed_process_receives_nothing_more(tmp_path: Path) -> None:
    with run_code("time.sleep(60)") as process:
        assert process.process.stdin is not None
        descriptor = process.process.stdin.fileno()
    with (tmp_path / "other").open("wb") as other:
        os.dup2(other.fileno(), descriptor)
        try:
            with pytest.raises(WorkerLostError, match="was killed"):
                process.send("stop")
        finally:
            os.close(descriptor)
    assert (tmp_path / "other").read_bytes() == b""


def test_a_message_of_several_buffers_is_received() -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps([np.arange(3), np.arange(2)], pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    raw = [bytes(buffer.raw()) for buffer in buffers]
    message = b"".join(n.to_bytes(8, "little") for n in (len(data), len(raw), *map(len, raw))) + data + b"".join(raw)
    with run_code(f"out({message!r})") as process:
        assert [array.tolist() for array in process.receive()] == [[0, 1, 2], [0, 1]]


def test_a_missing_program_exits_with_127_and_a_running_one_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "said"
    with path.open("wb") as output, running_program(["/no/such/program"], cwd=tmp_path, output=output) as process:
        assert process.wait(60) == 127
    assert path.read_text() == "No such file or directory\n"
    with path.open("wb") as output, running_program(["sleep", "60"], cwd=tmp_path, output=output) as process:
        assert process.poll() is None
    # SIGTERM to the process, or to its program; SIGKILL where that took too long.
    assert process.returncode in (-15, 256 - 15, -9)
