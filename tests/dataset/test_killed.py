"""A conversion killed at any moment leaves nothing that is taken for complete, and running it again completes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.dataset.converting import RANKS, assert_same_rows, convert, files, samples
from tests.waiting import TIMEOUT_S
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.model.profile import merge_profiles

INPUTS = [*RANKS, next(path for path in samples() if path.endswith("gpt_summary.nvprof.log"))]

_KILLED = """
import os, signal, sys
from pathlib import Path
step, left = sys.argv[1], int(sys.argv[2])
def dying(done):
    def die(*given, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done(*given, **named)
    return die
setattr(Path, step, dying(getattr(Path, step)))
from tui.cli.main import main
sys.exit(main(["convert", *sys.argv[4:], "-o", sys.argv[3]]))
"""


@pytest.fixture(scope="module")
def local_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(convert(tmp_path_factory.mktemp("local"), *INPUTS))


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("replace", 5),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [("replace", 0), ("replace", 11), ("open", 16), ("unlink", 0)]
        ),
    ],
)
def test_a_conversion_killed_at_a_step_resumes(step: str, times: int, local_dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, step, str(times), str(folder), *INPUTS],
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert killed.returncode in (-9, 0), killed.stderr.decode()
    if killed.returncode:
        with pytest.raises(ProftuiError, match=r"incomplete dataset|no profile|no files"):
            load_input(str(folder))
    convert(folder, *INPUTS)
    # The same bytes in the same places, and nothing else: what was half written is gone.
    assert files(folder) == files(local_dataset)


@pytest.mark.slow
def test_a_conversion_killed_at_any_time_resumes(local_dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for seconds in (0.9, 1.6, 2.4):
        running = subprocess.Popen(
            [sys.executable, "-m", "tui", "convert", *INPUTS, "-o", str(folder)], stderr=subprocess.DEVNULL
        )
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        if (folder / "proftui-dataset.json").exists():
            assert_same_rows(merge_profiles([load_input(path) for path in INPUTS]), load_input(str(folder)))
    convert(folder, *INPUTS)
    assert files(folder) == files(local_dataset)
