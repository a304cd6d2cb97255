"""The last line: the keys that help most just now, no more than are taken in at a glance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from tui.keys import footer_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import Binding
    from textual.screen import Screen

LEAVE: Final = "leave"
"""The method of the key that goes back."""


class KeyFooter(Footer):
    """Of the keys that work now, those that `tui.keys.footer_keys` chooses; `?` lists all.

    Textual's own makes a widget for each of the sixty keys of a table, several times while a view comes up.

    Args:
        leaving_quits: Whether the key that goes back ends the program, as it does at the first view.
    """

    def __init__(self, leaving_quits: Callable[[], bool]) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._leaving_quits = leaving_quits
        self._shown: list[tuple[Binding, bool, str]] = []
        self._looks = False

    def compose(self) -> ComposeResult:
        """The chosen keys, in their order."""
        self._shown = self._chosen() if self._bindings_ready else []
        for binding, enabled, tooltip in self._shown:
            key = self.app.get_key_display(binding)
            yield FooterKey(
                binding.key,
                key,
                binding.description,
                binding.action,
                disabled=not enabled,
                tooltip=tooltip,
            ).data_bind(compact=Footer.compact)

    def _chosen(self) -> list[tuple[Binding, bool, str]]:
        """The keys to show, and whether each works."""
        offered: dict[str, tuple[Binding, bool, str]] = {}
        for node, binding, enabled, tooltip in self.screen.active_bindings.values():
            if binding.show and binding.action not in getattr(node, "idle_actions", ()):
                offered.setdefault(binding.action, (binding, enabled, tooltip))
        if LEAVE in offered and self._leaving_quits():
            back, enabled, tooltip = offered[LEAVE]
            offered[LEAVE] = replace(back, description="quit"), enabled, tooltip
        return [offered[method] for method in footer_keys(list(offered), self.app.size.width)]

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """Other keys may work now: look once all that has been asked for is done."""
        self._bindings_ready = True
        if screen.app.app_focus and self.is_attached and screen is self.screen and not self._looks:
            self._looks = True
            self.call_after_refresh(self._look)

    async def _look(self) -> None:
        self._looks = False
        if self.is_attached and self._chosen() != self._shown:
            await self.recompose()
