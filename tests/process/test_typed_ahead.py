"""Keys typed before a view is drawn reach it, in order."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pseudo_terminal import TerminalProgram
from tests.screens.explorer import sample_path

if TYPE_CHECKING:
    from pathlib import Path

WRITES_STATE = """
import json, os, time
from tui import opening
from tui.app import ProftuiApp
from tui.widgets.table.view import FrameTable
def tell(app):
    screen = app.view_screen
    if screen is None:
        return
    state = [screen.VIEW, [table.model.cursor_row for table in screen.query(FrameTable)][:1]]
    open({told!r} + ".new", "w").write(json.dumps(state))
    os.replace({told!r} + ".new", {told!r})
def exit(self, *args, **kwargs):
    tell(self)
    return leave(self, *args, **kwargs)
leave, ProftuiApp.exit = ProftuiApp.exit, exit
def on_mount(self):
    self.set_interval(0.05, lambda: tell(self))
    return mount(self)
mount, ProftuiApp.on_mount = ProftuiApp.on_mount, on_mount
def open_profiles(*args, **kwargs):
    while not os.path.exists({go_on!r}):
        time.sleep(0.01)
    return read(*args, **kwargs)
read, opening.open_profiles = opening.open_profiles, open_profiles
from tui.cli.main import main
raise SystemExit(main())
"""


def state_after(keys: bytes, state_path: Path, expected: list[object], *, while_loading: bool) -> list[object]:
    """Return the view and the row of its first table at the end of a program that received keys."""
    go_on = state_path.with_name("go-on")
    if not while_loading:
        go_on.touch()
    code = WRITES_STATE.format(told=str(state_path), go_on=str(go_on))
    with TerminalProgram([sys.executable, "-c", code, sample_path("resnet50_training.nvprof.log")]) as program:
        program.wait_for_text("Reading" if while_loading else "m views")
        program.press(keys)
        go_on.touch()
        program.wait_until(
            lambda: state_path.exists() and json.loads(state_path.read_text()) == expected, f"{expected}"
        )
        program.press(b"Q")
        assert program.wait_for_exit() == 0
    state: list[object] = json.loads(state_path.read_text())
    return state


@pytest.mark.parametrize(
    ("keys", "view", "row", "while_loading"),
    [
        pytest.param(b"7jj", "iterations", 3, False, marks=pytest.mark.slow),
        pytest.param(b"47j", "iterations", 2, False, marks=pytest.mark.slow),
        pytest.param(b":kernels\rjj", "kernels", 2, False, marks=pytest.mark.slow),
        pytest.param(b":kernels\r7jj", "iterations", 3, False, marks=pytest.mark.slow),
        (b"7jj", "iterations", 3, True),
        pytest.param(b":kernels\rfgemm\rjj", "kernels", 2, False, marks=pytest.mark.slow),
    ],
    ids=[
        "digit",
        "two-digits",
        "command-line",
        "digit-after-the-command-line",
        "digit-while-loading",
        "filter",
    ],
)
def test_keys_typed_during_startup_are_handled(
    keys: bytes, view: str, row: int, while_loading: bool, tmp_path: Path
) -> None:
    expected: list[object] = [view, [row]]
    assert state_after(keys, tmp_path / "told.json", expected, while_loading=while_loading) == expected
