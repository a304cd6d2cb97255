"""Functions that run the command line, and a small log as its input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import TIMEOUT_S
from tui.cli.main import main

if TYPE_CHECKING:
    import pytest

TRACE = """\
==7412== NVPROF is profiling process 7412, command: ./train --epochs 1
epoch 1 loss 0.5
==7412== Profiling application: ./train --epochs 1
==7412== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput           Device   Context    Stream  Name
317.13ms  1.4400us                    -               -         -         -         -  4.0000KB  2.6491GB/s   Tesla K40c (0)         1        13  [CUDA memcpy HtoD]
331.63ms  24.576us              (96 1 1)       (256 1 1)        15        0B  4.0000KB         -           -   Tesla K40c (0)         1        13  void relu<float, int=4>(float*, int) [112]
353.98ms  353.98ms          (27848 1 1)       (256 1 1)        40  8.2500KB        0B         -           -   Tesla K40c (0)         1        13  sgemm_sm35_ldg_nt_128x8x128x16x16 [115]

Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver and/or tools and can be more than what the compiler shows.
SSMem: Static shared memory allocated per CUDA block.
DSMem: Dynamic shared memory allocated per CUDA block.
"""  # noqa: E501
TOTAL_NS = 1_440 + 24_576 + 353_980_000


def run_program(
    *arguments: str | Path, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run proftui as a process without a terminal."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LC_ALL")}
    return subprocess.run(
        [sys.executable, "-m", "tui", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**inherited, "LC_ALL": "C.UTF-8", **(env or {})},
        timeout=TIMEOUT_S,
    )


def run(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run proftui in this process; return status, standard output and standard error."""
    status = main([str(argument) for argument in arguments])
    messages = capfd.readouterr()
    return status, messages.out, messages.err
