"""The first line of a view (the path), the line of its tabs, and the last line (the most useful keys)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.keys import footer_keys
from tui.text import plain
from tui.text_width import cell_width, clip
from tui.widgets.app_services import services_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.binding import Binding
    from textual.screen import Screen


class Breadcrumbs(Widget):
    """The path to what is shown, and facts of the profile at the right.

    The name of the view and the last crumb are never cut; if there is little room, facts are dropped first.
    """

    DEFAULT_CSS = """
    Breadcrumbs { height: 1; dock: top; background: $panel; color: $foreground; padding: 0 1; }
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
        """Render the path and the facts on one line."""
        width = self.content_size.width
        path, facts = fit(self._path, self._facts, width)
        outer, last = path[:-1], path[-1:] or [""]
        left = Content.assemble((ARROW.join([*outer, ""]), "$text-muted"), (last[0], "bold"))
        right = " · ".join(facts)
        gap = max(0, width - left.cell_length - cell_len(right))
        return Content.assemble(left, " " * gap, (right, "$text-muted"))


ARROW: Final = " ▸ "
VIEW_CRUMB_INDEX: Final = 1
"""The position of the view's name in the path, after the file's."""
MIN_CRUMB_CELLS: Final = 6
"""Breadcrumbs are cut to this width before any is omitted."""


def fit(path: Sequence[str], facts: Sequence[str], width: int) -> tuple[list[str], list[str]]:
    """Shorten a path and drop facts until both fit into a line.

    Facts are dropped first, then the file, then crumbs between the view and the last crumb, the first of them first;
    the name of the view stays whole, and so does the last crumb if there is room for it.

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

    def excess_cells() -> int:
        return cell_len(ARROW.join(crumbs)) + (3 + cell_len(" · ".join(shown_facts)) if shown_facts else 0) - width

    while shown_facts and excess_cells() > 0:
        shown_facts.pop()
    for index in [index for index in range(len(crumbs) - 1) if index != VIEW_CRUMB_INDEX]:
        crumb_width = max(MIN_CRUMB_CELLS, cell_len(crumbs[index]) - max(0, excess_cells()))
        if crumb_width < cell_len(crumbs[index]):
            crumbs[index] = set_cell_size(crumbs[index], crumb_width - 1).rstrip() + "…"
    if excess_cells() > 0 and len(crumbs) > VIEW_CRUMB_INDEX + 2:
        crumbs[VIEW_CRUMB_INDEX + 1 : -1] = ["…"]
    if excess_cells() > 0 and len(crumbs) > VIEW_CRUMB_INDEX:
        crumbs.pop(0)
    if excess_cells() > 0:
        crumbs[-1] = clip(crumbs[-1], max(MIN_CRUMB_CELLS, cell_len(crumbs[-1]) - excess_cells()))
    return crumbs, shown_facts


KEY_GAP_CELLS: Final = 3
"""Blanks between a key and its label, and after the label, in the footer."""
LEAVE_ACTION: Final = "leave"
"""The action of the key that goes back."""


@dataclass(frozen=True, slots=True)
class _FooterKey:
    """A key of the footer."""

    binding: Binding
    display: str
    """The key as users write it."""
    is_enabled: bool
    tooltip: str

    @property
    def cells(self) -> int:
        """The number of cells, with the blanks after it."""
        return cell_width(self.display) + cell_width(self.binding.description) + KEY_GAP_CELLS


class KeyFooter(Widget):
    """The keys that work now and that `tui.keys.footer_keys` selects; `?` lists all.

    It is drawn as one line: Textual's footer has a widget for each key, and their layout takes longer than that of
    all other widgets of a view.

    Args:
        leaving_quits: Whether the key that goes back ends the program, as it does at the first view.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter { dock: bottom; height: 1; text-wrap: nowrap; background: $footer-background; }
    """

    def __init__(self, leaving_quits: Callable[[], bool]) -> None:
        super().__init__()
        self._leaving_quits = leaving_quits
        self._available: dict[str, _FooterKey] = {}
        """The keys that work, by action."""
        self._keys: list[_FooterKey] = []
        self._is_outdated = False
        self._hovered: _FooterKey | None = None
        """The key below the pointer."""

    def on_mount(self) -> None:
        """Subscribe to changes of the bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_resize(self) -> None:
        """Choose the keys again for the new width."""
        self._keys = self._fitting_keys()
        self._bindings_changed(self.screen)

    def _bindings_changed(self, screen: Screen[Any]) -> None:
        """Look up the keys again with the next refresh, because the bindings changed; keep them below a dialog."""
        if screen.app.app_focus and self.is_attached and screen is self.screen and screen.is_active:
            self._is_outdated = True
            self.refresh()

    def _look_up(self) -> dict[str, _FooterKey]:
        """Return the keys that work, by action."""
        available: dict[str, _FooterKey] = {}
        for node, binding, is_enabled, tooltip in self.screen.active_bindings.values():
            action = binding.action
            if binding.show and action not in getattr(node, "idle_actions", ()) and action not in available:
                shown_binding = (
                    replace(binding, description="quit")
                    if action == LEAVE_ACTION and self._leaving_quits()
                    else binding
                )
                available[action] = _FooterKey(shown_binding, self.app.get_key_display(binding), is_enabled, tooltip)
        return available

    def _fitting_keys(self) -> list[_FooterKey]:
        """Return the keys to show, in their order."""
        cells = {action: key.cells for action, key in self._available.items()}
        return [self._available[action] for action in footer_keys(list(self._available), self.app.size.width, cells)]

    def render(self) -> Content:
        """Render each key with its label."""
        if self._is_outdated:
            self._available, self._is_outdated = self._look_up(), False
            self._keys = self._fitting_keys()
        parts: list[tuple[str, str]] = []
        for key in self._keys:
            state_style = (
                f"{'' if key.is_enabled else ' dim'}{' on $block-hover-background' if key is self._hovered else ''}"
            )
            description = f" {key.binding.description}" if key.binding.description else ""
            parts.append((key.display, f"bold $footer-key-foreground{state_style}"))
            parts += [(description, f"$footer-description-foreground{state_style}"), ("  ", "")]
        return Content.assemble(*parts)

    # --- mouse -------------------------------------------------------------------------------------------------------

    def _key_at(self, x: int) -> _FooterKey | None:
        for key in self._keys:
            x -= key.cells
            if x < 0:
                return key
        return None

    def _set_hovered(self, key: _FooterKey | None) -> None:
        if key is not self._hovered:
            self._hovered = key
            self.tooltip = key.tooltip or None if key is not None else None
            self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the key below the pointer."""
        self._set_hovered(self._key_at(event.x))

    def on_leave(self) -> None:
        """Remove the highlight."""
        self._set_hovered(None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key below the pointer."""
        key = self._key_at(event.x)
        if key is not None and key.is_enabled:
            self.app.simulate_key(key.binding.key)
        elif key is not None:
            self.app.bell()


TAB_KEYS_HINT: Final = ", . tabs"
"""The keys that change the tab."""
MIN_TAB_CELLS: Final = 6
"""The minimum width of a title."""
OMITTED_COUNT_CELLS: Final = 5
"""The width of the number of tabs that are omitted."""


class TabBar(Widget):
    """The titles of tabs; those without data are dim, or in parentheses without colors.

    Args:
        titles: The titles of the tabs.
        hint: The keys that switch tabs.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    TabBar { height: 1; padding: 0 1; }
    """

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, titles: Sequence[str], *, hint: str = TAB_KEYS_HINT, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._hint = hint
        self._titles = tuple(titles)
        self._has_data: tuple[bool, ...] = tuple(True for _ in titles)
        self._current = 0

    def show(self, current: int, has_data: Sequence[bool]) -> None:
        """Show another tab as the current one.

        Args:
            current: Its index.
            has_data: For each tab whether it has data.
        """
        self._current, self._has_data = current, tuple(has_data)
        self.refresh()

    def _visible_hint(self) -> str:
        """Return the hint; the usual one is omitted if the titles need its width."""
        return (
            ""
            if self._hint == TAB_KEYS_HINT and self._titles_cells() > self._cells_for_titles(TAB_KEYS_HINT)
            else self._hint
        )

    def _titles_cells(self) -> int:
        return sum(cell_width(title) + 3 for title in self._titles)

    def _cells_for_titles(self, hint: str) -> int:
        return self.content_size.width - cell_width(hint) - 1

    def _fitting_tabs(self, width: int) -> list[int]:
        """Return the positions of the titles that fit; those without data are omitted first, furthest first."""
        shown = list(range(len(self._titles)))
        candidates = [index for index in shown if index != self._current]
        for index in sorted(candidates, key=lambda index: (self._has_data[index], -abs(index - self._current), -index)):
            if sum(cell_width(self._titles[tab]) + 3 for tab in shown) <= width - OMITTED_COUNT_CELLS:
                break
            shown.remove(index)
        return shown

    def _parts(self) -> list[tuple[int | None, str, str]]:
        """Return the position, text and style of each title, and the number of those omitted."""
        available = self._cells_for_titles(self._visible_hint())
        shown = list(range(len(self._titles))) if self._titles_cells() <= available else self._fitting_tabs(available)
        omitted = len(self._titles) - len(shown)
        available -= OMITTED_COUNT_CELLS if omitted else 0
        widths = [cell_width(self._titles[index]) for index in shown]
        max_cells = max(widths)
        # The longest titles are cut first.
        while max_cells > MIN_TAB_CELLS and sum(min(width, max_cells) + 3 for width in widths) > available:
            max_cells -= 1
        # Not dim in addition to muted: that is hard to read. 16 colors have no gray, and some terminals ignore dim.
        unfed_style = "dim" if self.app.native_ansi_color else "$text-muted"
        unfed_signs = "()" if services_of(self).color == "none" else "  "
        parts: list[tuple[int | None, str, str]] = []
        for index in shown:
            title = self._titles[index]
            if index == self._current:
                (left, right), style = "[]", "bold $accent"
            else:
                (left, right), style = ("  ", "") if self._has_data[index] else (unfed_signs, unfed_style)
            parts.append((index, f"{left}{clip(title, max_cells)}{right}", style))
        return [*parts, (None, f" +{omitted}", unfed_style)] if omitted else parts

    def render(self) -> Content:
        """Render the titles, with the keys on the right."""
        pieces: list[Content] = []
        used = 0
        for _, text, style in self._parts():
            pieces += [Content.styled(text, style), Content(" ")]
            used += cell_width(text) + 1
        hint = self._visible_hint()
        gap = max(1, self.content_size.width - used - cell_width(hint))
        return Content("").join([*pieces, Content.styled(" " * gap + hint, "$text-muted")])

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked tab."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        right_edge = 0
        for index, text, _style in self._parts():
            right_edge += cell_width(text) + 1
            if offset.x < right_edge:
                if index is not None:
                    self.post_message(self.Chosen(index))
                return
