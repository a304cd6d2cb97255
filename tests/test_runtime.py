"""NumPy is configured for the processor before it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.runtime import numpy_environment

ROOT = Path(__file__).parents[1]
VARIABLE = "NPY_DISABLE_CPU_FEATURES"
ZEN_4 = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
    "flags\t\t: fpu sse2 avx2 avx512f avx512dq\nbugs\t\t: none\n"
)


def test_numpy_uses_no_avx512_on_zen_4() -> None:
    assert numpy_environment({}, ZEN_4) == {VARIABLE: "X86_V4 AVX512_ICL AVX512_SPR"}


@pytest.mark.parametrize(
    "processor",
    [
        ZEN_4.replace("avx512f avx512dq", ""),
        ZEN_4.replace(": 25", ": 26"),
        ZEN_4.replace("AuthenticAMD", "GenuineIntel"),
        "processor\t: 0\nCPU implementer\t: 0x41\n",
        "",
    ],
)
def test_numpy_is_not_configured_on_other_processors(processor: str) -> None:
    assert numpy_environment({}, processor) == {}


@pytest.mark.parametrize("user_value", ["", "AVX512_SPR"])
def test_the_setting_of_the_user_is_kept(user_value: str) -> None:
    assert numpy_environment({VARIABLE: user_value}, ZEN_4) == {}


def test_a_command_configures_numpy_before_it_is_loaded(tmp_path: Path) -> None:
    program = f"""
import sys, tui.runtime
from pathlib import Path
file = Path(sys.argv[1])
file.write_text({ZEN_4!r})
tui.runtime._CPUINFO = str(file)
loaded = []
environ_update = tui.runtime.os.environ.update
tui.runtime.os.environ.update = lambda changes: (loaded.append("numpy" in sys.modules), environ_update(changes))
from tui.cli.main import main
status = main(["report", "sample_logs/missing.log"])
print(status, loaded, tui.runtime.os.environ[{VARIABLE!r}])
"""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cpuinfo")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split("\n")[-2] == "2 [False] X86_V4 AVX512_ICL AVX512_SPR"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="/proc lists no threads here")
def test_numpy_starts_no_threads() -> None:
    program = (
        "import os; from tui.runtime import configure_numpy; configure_numpy(); import numpy; "
        "print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    threads = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert threads.stdout == "1\n"
