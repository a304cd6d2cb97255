"""Iterations on the command line: found, selected and split by a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import TRACE, run


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """Write a log of four steps of three kernels."""
    head, _, tail = TRACE.partition("317.13ms")
    tail = tail[tail.index("\n\nRegs:") :]
    row = "{:.2f}ms  24.576us              (96 1 1)       (256 1 1)        15        0B  4.0000KB         -           -   Tesla K40c (0)         1        13  {} [{}]\n"  # noqa: E501
    rows = "".join(row.format(300 + index, name, 100 + index) for index, name in enumerate(["conv", "relu", "fc"] * 4))
    path = tmp_path / "loop.log"
    path.write_text(f"{head.rstrip(' ')}{rows}{tail.lstrip(chr(10))}")
    return path


def test_iterations_are_found_selected_and_split_by_a_key(capfd: pytest.CaptureFixture[str], loop: Path) -> None:
    def inspected(*options: str) -> tuple[int, dict[str, Any]]:
        _status, out, _err = run(capfd, "inspect", "--format", "json", *options, loop)
        frames = json.loads(out)["sessions"][0]["frames"]
        return frames["activities"]["rows"], frames["iterations"]

    repeated = {"source": "detected", "reason": "3 launches repeat 4 times, identical kernels in every iteration"}
    assert inspected() == (12, {"rows": 4, **repeated})
    assert inspected("--iterations", "1:2") == (6, {"rows": 2, **repeated})
    assert inspected("--iterations", "3") == (3, {"rows": 1, **repeated})
    by_key = {"source": "key", "reason": "kernel fc ends 4 iterations"}
    assert inspected("--key", "fc", "--iterations", ":1") == (6, {"rows": 2, **by_key})
    _status, out, _err = run(capfd, "export", loop, "--frame", "kernels", "--iterations", "0:1")
    assert [line.split(",")[3] for line in out.splitlines()[1:]] == ["2", "2", "2"]
    _status, out, _err = run(capfd, "export", loop, "--frame", "activities", "--iterations", "2:", "--format", "json")
    assert [row["iteration"] for row in json.loads(out)["rows"]] == [2, 2, 2, 3, 3, 3]
    for view in ("dashboard", "kernels", "iterations"):
        _status, out, _err = run(capfd, "report", loop, "--view", view, "--iterations", "0:1", "--key", "fc")
        assert "Restricted to iterations 0:1 by the key fc." in out
    _status, out, _err = run(capfd, "report", loop, "--view", "iterations", "--format", "json")
    assert json.loads(out)["iteration_sources"] == {"0": f"detected: {repeated['reason']}"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--iterations", "4:"],
            "iteration from 4 on not found\n         iterations: 0 to 3 (detected: 3 launches",
        ),
        (
            ["--iterations", "x"],
            "iterations x: not a valid range of iterations\n         use 3:7, 3:, :7, 5 or phase=decode\n",
        ),
        (["--key", "con"], "there"),
        (
            ["--key", "conw"],
            "--key conw: no kernel, op, range or API call of this name\n         similar names: conv\n",
        ),
        (["--key", ""], "--key requires the name of a kernel, op, range or API call\n"),
    ],
    ids=["none", "no range", "part", "near", "empty"],
)
def test_unknown_iterations_and_keys_are_errors(
    capfd: pytest.CaptureFixture[str], loop: Path, options: list[str], message: str
) -> None:
    status, out, err = run(capfd, "report", loop, *options)
    if options[1] == "con":
        # Part of a name is enough if no other name contains it.
        assert (status, err) == (0, "")
        assert "all iterations by the key con" in out
    else:
        assert (status, out) == (2, "")
        assert err.startswith(f"proftui: {message}")
