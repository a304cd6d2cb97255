"""The pane that tells everything about the row under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from tui.widgets.details import DetailText

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.widgets.details import Details


class DetailPane(VerticalScroll):
    """Beside the table on a wide screen, below it on a normal one, instead of it on a narrow one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll_down", ""),
        ("k", "scroll_up", ""),
        ("g", "scroll_home", ""),
        ("G", "scroll_end", ""),
        ("i", "app.undo_smallest", "close"),
    ]

    DEFAULT_CSS = """
    DetailPane { display: none; padding: 0 1; background: $surface; }
    DetailPane.-open { display: block; }
    """

    def compose(self) -> ComposeResult:
        """One block of text."""
        yield DetailText(id="detail-text")

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def open(self, details: Details) -> None:
        """Show the pane."""
        self.show(details)
        self.add_class("-open")
        self._tell_screen(is_open=True)
        self.scroll_home(animate=False)
        if self.screen.has_class("-narrow"):
            self.focus()

    def show(self, details: Details) -> None:
        """Show another text."""
        self.query_one("#detail-text", DetailText).show(details)

    def close(self) -> None:
        """Hide the pane."""
        self.remove_class("-open")
        self._tell_screen(is_open=False)

    def _tell_screen(self, *, is_open: bool) -> None:
        # Textual would look up the styles of all widgets of the screen: only these have others beside details.
        self.screen.set_class(is_open, "-detail", update=False)
        self.app.stylesheet.update_nodes(self.screen.query("#body, TablePane.linked"))
