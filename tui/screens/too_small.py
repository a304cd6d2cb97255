"""What is shown while the terminal is too small for anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.textual_patches.least_size import MIN_HEIGHT, MIN_WIDTH

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Resize


class TooSmallScreen(ModalScreen[None]):
    """Asks for a larger terminal, and says how to quit; it closes when there is room."""

    BINDINGS: ClassVar[list[BindingType]] = [("Q,ctrl+q", "app.quit", "Quit")]
    DEFAULT_CSS = """
    TooSmallScreen {
        align: center middle;
        background: $background;
        Static { width: auto; max-width: 100%; text-align: center; }
    }
    """

    def compose(self) -> ComposeResult:
        """What it says."""
        yield Static(self._words())

    def _words(self) -> Content:
        return Content(
            f"Terminal too small: {self.app.size.width}×{self.app.size.height} (need {MIN_WIDTH}×{MIN_HEIGHT})\nQ quits"
        )

    def on_resize(self, _event: Resize) -> None:
        """Keep the figures true."""
        self.query_one(Static).update(self._words())
