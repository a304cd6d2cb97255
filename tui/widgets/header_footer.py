"""The first and the last line of every view: where the user is, and the keys that help most just now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from tui.fitting import clip
from tui.keys import footer_keys
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import Binding
    from textual.screen import Screen


class Crumbs(Widget):
    """The path to what is shown, and facts of the profile at the right.

    The names of the view and of what is looked at in it are never cut; where room is short, the facts give way first.
    """

    DEFAULT_CSS = """
    Crumbs { height: 1; dock: top; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._path: tuple[str, ...] = ()
        self._facts: tuple[str, ...] = ()

    def show(self, path: Sequence[str], facts: Sequence[str]) -> None:
        """Show a path (outermost first) and facts (the most important first)."""
        self._path = tuple(plain(crumb) for crumb in path)
        self._facts = tuple(plain(fact) for fact in facts if fact)
        self.refresh()

    def render(self) -> Content:
        """Fit both into the line."""
        width = self.content_size.width
        path, facts = fit(self._path, self._facts, width)
        before, last = path[:-1], path[-1:] or [""]
        left = Content.assemble((ARROW.join([*before, ""]), "$text-muted"), (last[0], "bold"))
        right = " · ".join(facts)
        gap = max(0, width - left.cell_length - cell_len(right))
        return Content.assemble(left, " " * gap, (right, "$text-muted"))


ARROW: Final = " ▸ "
VIEW_AT: Final = 1
"""Where in the path the name of the view is: behind that of the file."""
LEAST: Final = 6
"""Cells that a crumb is cut to, before any is left out."""


def fit(path: Sequence[str], facts: Sequence[str], width: int) -> tuple[list[str], list[str]]:
    """Shorten a path and drop facts until both fit into a line.

    Facts give way first, then the file, then what lies between the view and the last crumb, the oldest first; the
    name of the view stays whole, and so does the last crumb where it has the room beside it.

    >>> fit(["run.log", "Ops", "gemm"], ["A100", "4 sessions"], 28)
    (['run.log', 'Ops', 'gemm'], ['A100'])
    >>> fit(["a_very_long_name.log", "Ops", "gemm"], [], 20)
    (['a_very…', 'Ops', 'gemm'], [])
    >>> fit(["a_very_long_name.log", "Kernels by Iteration", "iteration 12", "launches"], [], 49)
    (['a_ver…', 'Kernels by Iteration', 'itera…', 'launches'], [])
    >>> fit(["a_very_long_name.log", "Kernels by Iteration", "iteration 12", "launches"], [], 36)
    (['Kernels by Iteration', '…', 'launches'], [])
    >>> fit(["run.log", "Iterations", "found: 923 launches repeat 5 times"], [], 36)
    (['Iterations', 'found: 923 launches re…'], [])
    """
    crumbs, shown_facts = list(path), list(facts)

    def over() -> int:
        return cell_len(ARROW.join(crumbs)) + (3 + cell_len(" · ".join(shown_facts)) if shown_facts else 0) - width

    while shown_facts and over() > 0:
        shown_facts.pop()
    for index in [index for index in range(len(crumbs) - 1) if index != VIEW_AT]:
        room = max(LEAST, cell_len(crumbs[index]) - max(0, over()))
        if room < cell_len(crumbs[index]):
            crumbs[index] = set_cell_size(crumbs[index], room - 1).rstrip() + "…"
    if over() > 0 and len(crumbs) > VIEW_AT + 2:
        crumbs[VIEW_AT + 1 : -1] = ["…"]
    if over() > 0 and len(crumbs) > VIEW_AT:
        crumbs.pop(0)
    if over() > 0:
        crumbs[-1] = clip(crumbs[-1], max(LEAST, cell_len(crumbs[-1]) - over()))
    return crumbs, shown_facts


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
