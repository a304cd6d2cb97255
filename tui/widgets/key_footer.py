"""The last line: the keys that help most just now, no more than are taken in at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Footer

from tui.keys import footer_keys

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


class KeyFooter(Footer):
    """Of the keys that work now, those that `tui.keys.footer_keys` chooses; `?` lists all."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)

    def compose(self) -> ComposeResult:
        """The chosen keys, in their order."""
        offered: dict[str, Widget] = {key.action: key for key in super().compose()}  # type: ignore[attr-defined]
        for method in footer_keys(list(offered)):
            yield offered[method]
