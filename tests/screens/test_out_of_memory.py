"""A view that runs out of memory says so and is tried again; the others work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import polars as pl
import pytest

from tests.screens.explorer import app_of, message_of, open_explorer, press, sample_path, settle
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui.app.shutdown import PanicError, Threads
from tui.cli import headless
from tui.cli.main import main
from tui.screens import base, linked_tables, timeline

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = "resnet50_training.pt.trace.json.gz"


def raise_memory_error(*_: Any, **__: Any) -> NoReturn:
    # As numpy says it where a process may have no more.
    raise np._core._exceptions._ArrayMemoryError((1 << 50,), np.dtype(np.int64))  # type: ignore[attr-defined]


@pytest.fixture
def every_input_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)


@pytest.mark.usefixtures("every_input_is_large")
@pytest.mark.parametrize(
    ("name", "title", "where", "function"),
    [("kernels", "Kernels", linked_tables, "measure"), ("timeline", "Timeline", timeline, "shown_lanes")],
)
async def test_a_view_out_of_memory_says_so_and_others_work(
    name: str, title: str, where: Any, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_explorer(SAMPLE) as pilot:
        app = app_of(pilot)
        with monkeypatch.context() as patched:
            patched.setattr(where, function, raise_memory_error)
            app.go(name)
            await settle(pilot)
        words = f"{title}: not enough memory (for 8.00 PiB more); close other programs"
        assert words in screen_text(app)
        assert "Computing…" not in screen_text(app)
        assert app.internal_error is None
        app.go("op-types")
        await settle(pilot)
        assert "not enough memory" not in screen_text(app)
        app.go(name)
        await settle(pilot)
        assert "not enough memory" not in screen_text(app)
        await press(pilot, "down")
        assert app.internal_error is None


@pytest.mark.parametrize(
    ("line", "where", "function"),
    [
        ("compare iterations 1 2", "tui.analysis.compare.sides", "two_ranges"),
        ("aggregate 1:2", "tui.app.profile_session.ProfileSession", "_chosen"),
        ("open OTHER", "tui.opening", "open_profiles"),
    ],
)
async def test_the_progress_of_work_that_ran_out_of_memory_disappears(
    line: str, where: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.log"
    other.touch()
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
    async with open_explorer(SAMPLE, view="kernels", notifications=True) as pilot:
        app = app_of(pilot)
        gate, shown = WorkerGate(), app.profile_session.progress

        def fail_when_open(*_: Any, **__: Any) -> NoReturn:
            if function == "open_profiles":
                app.call_later(app.profile_loading._show_opening, "reading other.log (esc stops)")
            gate.wait()
            raise_memory_error()

        monkeypatch.setattr(f"{where}.{function}", fail_when_open)
        app.run_line(line.replace("OTHER", str(other)))
        await wait_until(pilot, lambda: any(shown.values()), "the progress")
        gate.set()
        await settle(pilot)
        assert not any(shown.values())
        assert "not enough memory" in screen_text(app) + message_of(pilot)
        assert app.internal_error is None


def raise_panic(words: str) -> Any:
    def panic(*_: Any, **__: Any) -> NoReturn:
        raise pl.exceptions.PanicException(words)

    return panic


@pytest.mark.usefixtures("every_input_is_large")
async def test_a_panic_about_memory_is_reported_as_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(SAMPLE) as pilot:
        asyncio.get_running_loop().set_default_executor(Threads())
        app = app_of(pilot)
        monkeypatch.setattr(linked_tables, "measure", raise_panic("memory allocation of 8388608 bytes failed"))
        app.go("kernels")
        await settle(pilot)
        assert "Kernels: not enough memory (for 8.00 MiB more)" in screen_text(app)
        assert app.internal_error is None


@pytest.mark.usefixtures("every_input_is_large")
async def test_any_other_panic_ends_the_explorer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_explorer(SAMPLE) as pilot:
        asyncio.get_running_loop().set_default_executor(Threads())
        app = app_of(pilot)
        monkeypatch.setattr(linked_tables, "measure", raise_panic("index out of bounds"))
        app.go("kernels")
        await settle(pilot)
        fault, app._exception = app.internal_error, None
        assert isinstance(fault, PanicError)
        assert str(fault) == "index out of bounds"
        assert not any(worker.is_running for worker in app.workers)


def test_commands_report_out_of_memory_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(headless, "load_files", raise_memory_error)
    assert main(["report", sample_path(SAMPLE)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "proftui: not enough memory (for 8.00 PiB more): "
        "close other programs, or open a dataset written by proftui convert\n"
    )
