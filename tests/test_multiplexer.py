"""The program inside tmux and GNU screen: escape sequences of keys, and copying, through a real terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

LOG = Path(__file__).parents[1] / "sample_logs" / "caffe_conv1.nvprof.log"
PROGRAM = f"""
from tui.app import app
# A loaded machine may look only after a message would have gone.
app.MESSAGE_SECONDS = app.WARNING_SECONDS = {TIMEOUT_S}
from tui.cli.main import main
raise SystemExit(main())
"""


class Tmux:
    """A tmux server that runs proftui as over SSH, with tmux's own TERM.

    Args:
        directory: The folder of its socket and of proftui's state.
        clipboard: The value of `set-clipboard`.
        wrapper: A command that runs proftui inside tmux.
    """

    def __init__(self, directory: Path, clipboard: str, wrapper: Sequence[str] = ()) -> None:
        self._socket = str(directory / "tmux")
        (directory / "conf").write_text(
            f'set -g default-terminal "screen-256color"\nset -g set-clipboard {clipboard}\nset -sg escape-time 10\n'
        )
        program = shlex.join([*wrapper, sys.executable, "-c", PROGRAM, str(LOG)])
        folder = shlex.quote(str(directory))
        variables = f"env -u COLORTERM -u TMUX XDG_STATE_HOME={folder} SCREENDIR={folder} LC_ALL=C.UTF-8"
        variables = variables if wrapper else variables.replace(" -u TMUX", "")
        self("-f", str(directory / "conf"), "new-session", "-d", "-x", "100", "-y", "30", f"{variables} {program}")

    def __call__(self, *arguments: str) -> str:
        """Run a command of tmux."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "COLUMNS", "LINES"))
        }
        result = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        return result.stdout

    def screen(self) -> str:
        """Return the text on the screen."""
        return self("capture-pane", "-p")

    def press(self, key: str, condition: Callable[[str], bool]) -> str:
        """Press a key by tmux's name of it, wait for a text on the screen, and return the screen."""
        self("send-keys", key)
        return self.wait(condition, key)

    def wait(self, condition: Callable[[str], bool], description: str) -> str:
        """Wait for a text on the screen, and return the screen."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            screen = self.screen()
            if condition(screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{description}: never shown, but\n{self.screen()}")

    def wait_for_copy(self, text: str) -> None:
        """Wait until tmux has received a text."""
        end = time.monotonic() + TIMEOUT_S
        while (buffer := self("show-buffer")) != text:
            assert time.monotonic() < end, buffer
            time.sleep(0.05)


@pytest.fixture(params=["on", pytest.param("off", marks=pytest.mark.slow)])
def tmux(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path, request.param)
    try:
        server.wait(lambda screen: "? help" in screen, "the dashboard")
        yield server
    finally:
        server("kill-server")


def test_keys_and_copies_in_tmux(tmux: Tmux) -> None:
    tmux.press("4", lambda screen: "Ops and Kernels" in screen and ". group" in screen)
    tmux.press("Enter", lambda screen: "▸ convolution backward filter" in screen)
    tmux.press("BSpace", lambda screen: "▸ convolution backward filter" not in screen)
    for key in ("Down", "PageDown", "End"):
        tmux.press("Home", lambda screen: "wgrad_alg0_engine" in screen)
        tmux.press(key, lambda screen: "wgrad_alg0_engine" not in screen)
    tmux.press("Home", lambda screen: "wgrad_alg0_engine" in screen)
    tmux.press("F1", lambda screen: "Ops and Kernels: help" in screen)
    tmux.press("Escape", lambda screen: "Ops and Kernels: help" not in screen)
    tmux.press("Right", lambda screen: "Ops and Kernels" in screen)
    tmux.press("Left", lambda screen: "Ops and Kernels" in screen)
    screen_text = tmux.press("y", lambda screen: "Sent 27 characters to the terminal clipboard" in screen)
    assert "tmux set -g set-clipboard on" in " ".join(screen_text.split())
    # tmux accepts the text only if it is set to; otherwise the message above names the setting.
    if tmux("show", "-gv", "set-clipboard").strip() == "on":
        tmux.wait_for_copy("convolution backward filter")
    else:
        assert tmux("show-buffer") == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("screen") is None, reason="GNU screen is not installed")
def test_keys_and_copies_in_gnu_screen(tmp_path: Path) -> None:
    """tmux stands for the terminal and receives what screen passes on."""
    tmp_path.chmod(0o700)
    (tmp_path / "screenrc").write_text("startup_message off\nterm screen-256color\n")
    server = Tmux(tmp_path, "on", ("screen", "-c", str(tmp_path / "screenrc")))
    try:
        server.wait(lambda screen: "? help" in screen, "the dashboard")
        server.press("4", lambda screen: "Ops and Kernels" in screen and ". group" in screen)
        server.press("F1", lambda screen: "Ops and Kernels: help" in screen)
        # If proftui reported the mouse, screen would hold a single escape until another key follows.
        server.press("Escape", lambda screen: "Ops and Kernels: help" not in screen)
        server.press("PageDown", lambda screen: "Ops and Kernels" in screen)
        server.press("Home", lambda screen: "Ops and Kernels" in screen)
        server.press("y", lambda screen: "Sent 27 characters to the terminal clipboard" in screen)
        server.wait_for_copy("convolution backward filter")
    finally:
        server("kill-server")
