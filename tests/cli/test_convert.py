"""`proftui convert` and its progress."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.running import run
from tui.cli import convert
from tui.cli.convert import ProgressLine

if TYPE_CHECKING:
    from pathlib import Path

    from tui.dataset.dask_jobs import ConversionProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(**fields: Any) -> ConversionProgress:
    defaults = {"done": 4, "files": 10, "skipped": {}, "workers": 2, "existing_parts": 1}
    return SimpleNamespace(**{**defaults, **fields})  # type: ignore[return-value]


def test_progress_on_a_terminal_is_one_changing_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock_s = Terminal(), [100.0]
    monkeypatch.setenv("COLUMNS", "61")
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(convert, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    line = ProgressLine()
    line.show(progress())
    assert terminal.getvalue() == "", "it changes at most five times a second"
    clock_s[0] += 30
    line.show(progress())
    text = "4 of 10 files, 2 workers, about 60 s left"
    assert terminal.getvalue() == f"\r{text:<60}"
    line.print_skipped("b.json", "b.json: no such file\x1b[31m")
    line.show(progress(done=10, skipped={"b.json": ""}, workers=0))
    line.end()
    line.end()
    waiting_text = "10 of 10 files, 1 skipped, waiting for a worker"
    assert terminal.getvalue().split("\r")[2:] == [
        f"{'':<60}",
        "proftui: skipped: b.json: no such file·[31m\n",
        f"{waiting_text:<60}",
        f"{'':<60}",
        "",
    ]


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock_s = [0.0]
    monkeypatch.setattr(convert, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    line = ProgressLine()
    for clock_s[0] in (5, 11, 12, 3600):
        line.show(progress(workers=1))
    line.end()
    assert capfd.readouterr().err == (
        "proftui: 4 of 10 files, 1 worker, about 22 s left\nproftui: 4 of 10 files, 1 worker, about 2.0 h left\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "-o", "run", "--scheduler", "tcp://x:1"], "standard input (-) is not available on a cluster\n"),
        (["s3://a/b.log", "-o", "run", "--scheduler", "tcp://x:1"], "s3://a/b.log: addresses are not available on a"),
        (["a.log", "-o", "s3://a/run"], "s3://a/run: datasets are written to local folders\n"),
    ],
)
def test_inputs_that_cannot_be_converted_are_errors(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    status, out, err = run(capfd, "convert", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"proftui: {message}")
    assert not list(tmp_path.iterdir())
