"""Distributions and pivots of columns, and the letters of panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import open_explorer, press, sample_path, screen_of
from tests.snapshots import screen_text

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot


LOG = sample_path("caffe_conv1.nvprof.log")


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Copied texts go to files in the working directory, because the terminal has no clipboard."""
    monkeypatch.chdir(tmp_path)


def copied_command_text(pilot: Pilot[None]) -> str:
    """Return the command that was copied last."""
    message = list(pilot.app._notifications)[-1].message
    return message.partition("\n")[0]


async def test_a_bin_of_a_distribution_filters_the_table() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="kernels", size=(100, 30), notifications=True) as pilot:
        screen = screen_of(pilot)
        assert screen.table is not None
        before = screen.table.model.shown_frame().height
        screen.table.table.move_to_column("calls")
        await press(pilot, "D")
        text = screen_text(pilot.app)
        assert "Calls: rows, Total of each" in text
        assert "p50" in text
        await press(pilot, "X")
        assert copied_command_text(pilot) == (f"proftui report {LOG} --view kernels --values=calls")
        await press(pilot, "enter")
        shown = screen.table.model.shown_frame()
        assert 0 < shown.height < before
        assert screen.table.state.filter.startswith("calls>=2 calls<")
        await press(pilot, "escape", "D", "j", "q")
        assert screen.table.model.shown_frame().height == before


async def test_a_cell_of_a_pivot_filters_the_table() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", view="kernels", size=(100, 30), notifications=True) as pilot:
        screen = screen_of(pilot)
        assert screen.table is not None
        screen.table.table.move_to_column("name")
        await press(pilot, "V", "enter")
        text = screen_text(pilot.app)
        assert "Total by Name and " in text
        assert "all" in text
        await press(pilot, "X")
        command = copied_command_text(pilot)
        assert command.startswith(f"proftui report {LOG} --view kernels --values=name --across=")
        await press(pilot, "enter")
        assert screen.table.model.shown_frame().height == 1


async def test_a_letter_focuses_a_panel() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", size=(120, 40)) as pilot:
        before = pilot.app.focused
        await press(pilot, "J")
        text = screen_text(pilot.app)
        assert " a " in text
        assert " s " in text
        await press(pilot, "d")
        chain = pilot.app.screen.focus_chain
        assert pilot.app.focused is chain[2]
        assert pilot.app.focused is not before
        # Any other key leaves things as they are.
        await press(pilot, "J", "escape", "J", "1")
        assert pilot.app.focused is chain[2]
