"""Random keys, texts, pastes, clicks and sizes: the explorer never fails, and always returns to the dashboard."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from textual import events

from tests.screens.explorer import open_explorer, settle
from tui.keys import ACTIONS
from tui.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from textual.geometry import Size
    from textual.pilot import Pilot

    from tui.app import ProftuiApp

SAMPLES = ("caffe_conv1.nvprof.log", "ddp_ranks", "metrics_and_events.nvprof.log", "mlp_modules.pt.trace.json.gz")
QUITS = frozenset({"q", "Q", "ctrl+q", "ctrl+z", "ctrl+c"})
NAMES = {" ": "space", ":": "colon", "/": "slash", ".": "full_stop", "-": "minus", "*": "asterisk", ",": "comma"}
KEYS = sorted(
    {key for action in ACTIONS for key in action.keys.split(",")}.union(view.key for view in VIEWS if view.key) - QUITS
)
OPENING = ("d", "M", "e", "v", "c", "m", "S", "A", "K", "question_mark", "colon", "ctrl+p", "f", "slash", "enter")
"""Keys that open something: tried more often."""
SIZES = ((120, 40), (80, 24), (200, 50), (4, 300), (300, 4), (60, 15), (59, 14), (1, 1), (40, 200))
TEXTS = (
    "kernels",
    "iterations 3:5",
    "gemm & time>1ms",
    "(",
    "x" * 5_000,
    "~nobody/x",
    "a\0b",
    "é漢🙂",
    "sessions 0 1",
    "/",
)


class Explorer:
    """An explorer under test: its loop, and the context in which it runs."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._context = contextvars.copy_context()
        self._opened: AbstractAsyncContextManager[Pilot[None]] = open_explorer(name, size=(120, 40))
        self.pilot: Pilot[None] = self.run(self._opened.__aenter__())

    @property
    def app(self) -> ProftuiApp:
        """Return the application."""
        from tests.screens.explorer import app_of

        return app_of(self.pilot)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop of the application."""
        return self._loop.run_until_complete(self._loop.create_task(work, context=self._context))

    def close(self) -> None:
        """End the application."""
        try:
            self.run(self._opened.__aexit__(None, None, None))
        finally:
            self._loop.close()

    def press(self, keys: Iterable[str]) -> None:
        """Press keys without a pause between them, each letter by its character."""
        for key in keys:
            character = key if len(key) == 1 else next((c for c, name in NAMES.items() if name == key), None)
            self.app.post_message(events.Key(NAMES.get(key, key), character))
        self.run(asyncio.sleep(0))

    def resize(self, size: tuple[int, int]) -> None:
        """Change the size of the terminal."""
        self.run(self.pilot.resize_terminal(*size))

    def wait(self) -> None:
        """Wait until all messages are processed."""
        self.run(settle(self.pilot))

    def find_home(self) -> None:
        """Enlarge the terminal, close what is open, and go to the dashboard."""
        self.resize((120, 40))
        self.wait()
        for _ in range(6):
            self.press(["escape"])
            self.wait()
        self.press(["1"])
        self.wait()
        assert self.app.screen is self.app.view_screen, self.app.screen_stack
        assert self.app.view_screen is not None
        assert self.app.view_screen.VIEW == "dashboard"


class Keys(RuleBasedStateMachine):
    """What people, cats and scripts type into a terminal."""

    explorer: Explorer | None = None

    @initialize(name=st.sampled_from(SAMPLES))
    def open(self, name: str) -> None:
        self.explorer = Explorer(name)

    @property
    def _explorer(self) -> Explorer:
        assert self.explorer is not None
        return self.explorer

    @rule(keys=st.lists(st.sampled_from(KEYS) | st.sampled_from(OPENING), min_size=1, max_size=6))
    def press(self, keys: list[str]) -> None:
        self._explorer.press(keys)

    @rule(text=st.sampled_from(TEXTS) | st.text(max_size=12), is_entered=st.integers(0, 3))
    def type_text(self, text: str, is_entered: int) -> None:
        letters = [letter for letter in text[:300] if letter not in "qQ\0" and letter.isprintable()]
        self._explorer.press([*letters, *["enter"] * is_entered])

    @rule(text=st.sampled_from(TEXTS) | st.text(max_size=12))
    def paste(self, text: str) -> None:
        self._explorer.app.post_message(events.Paste(text.replace("\0", "")))

    @rule(size=st.sampled_from(SIZES))
    def resize(self, size: tuple[int, int]) -> None:
        self._explorer.resize(size)

    @rule(x=st.integers(0, 119), y=st.integers(0, 39), times=st.integers(1, 2))
    def click(self, x: int, y: int, times: int) -> None:
        size: Size = self._explorer.app.size
        if x < size.width and y < size.height:
            self._explorer.run(self._explorer.pilot.click(offset=(x, y), times=times))

    @rule()
    def wait_for_rest(self) -> None:
        self._explorer.wait()

    @invariant()
    def explorer_is_running(self) -> None:
        if self.explorer is not None:
            assert self.explorer.app.internal_error is None
            assert self.explorer.app.is_running

    def teardown(self) -> None:
        if self.explorer is not None:
            try:
                if self.explorer.app.internal_error is None:
                    self.explorer.wait()
                    self.explorer.find_home()
            finally:
                self.explorer.close()


@pytest.mark.slow
# Of an explorer that is closed while Textual still has a task to start.
@pytest.mark.filterwarnings("ignore:coroutine 'Screen._watch_selections' was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings(r"ignore:Exception ignored in. <coroutine object Screen\._watch_selections")
def test_no_sequence_of_keys_crashes_the_explorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Exports and copies are written here.
    monkeypatch.chdir(tmp_path)
    run_state_machine_as_test(
        Keys,
        settings=settings(
            # Of `make test-all`: thousands of steps.
            max_examples=max(20, settings().max_examples),
            stateful_step_count=60,
            deadline=None,
            # A shorter sequence is not looked for: each try opens the explorer again.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
