"""The loading screen of the real program shows what has been read, and Esc keeps it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.profiles import SAMPLES
from tests.pseudo_terminal import PROGRAM, TerminalProgram

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_progress_of_a_slow_pipe_is_shown_and_its_rows_are_kept(tmp_path: Path) -> None:
    """As ``ssh host cat run.log | proftui -`` over a slow connection."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = (SAMPLES / "resnet50_training.nvprof.log").read_bytes().splitlines(keepends=True)
    is_over = threading.Event()

    def write() -> None:
        # Nobody reads the rest.
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            for first in range(0, 4000, 100):
                file.write(b"".join(lines[first : first + 100]))
                is_over.wait(0.05)
            for line in lines[4000:]:
                file.write(line)
                if is_over.wait(0.05):
                    break

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    command = ["sh", "-c", f'exec {" ".join(PROGRAM)} - < "$0"', str(pipe)]
    try:
        with TerminalProgram(command, {"PYTHONPATH": str(ROOT)}, size=(100, 30)) as program:
            program.wait_for_text("Partial results")
            program.wait_for_text("kernels and copies")
            program.wait_for_text("Esc: stop, keep partial data")
            program.press(b"\x1b")
            program.wait_for_text("partial: stopped after")
            program.press(b"7")
            program.wait_for_text("Iterations")
            program.press(b"Q")
            assert program.wait_for_exit() == 0
    finally:
        is_over.set()
    writer.join()
