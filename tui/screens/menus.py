"""Menus: of views, sessions and iterations, and the command palette."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, Final

from rich.style import Style
from textual.command import CommandList, CommandPalette, SearchIcon
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.analysis.sessions import session_times
from tui.fmt import brief_duration
from tui.model.aggregation import Aggregation
from tui.text import begin_sentence, plain, plural
from tui.text_width import clip_middle
from tui.textual_patches import dimmed_background, skip_small_layouts
from tui.views import GROUPS, VIEWS, View
from tui.widgets.dialogs.base import Dialog, MenuLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Key
    from textual.geometry import Region
    from textual.strip import Strip

    from tui.model.aggregation import AggregationChoice
    from tui.model.profile import Profile


MAX_MENU_CELLS: Final = 100
"""The maximum width of a menu."""


def menu_width(screen: int) -> int:
    """Return the width of a menu on a screen.

    >>> menu_width(80), menu_width(200)
    (76, 100)
    """
    return min(MAX_MENU_CELLS, screen * 96 // 100)


class MenuScreen(Dialog[str]):
    """Choose one line with ``enter``, or leave with ``esc`` or ``q``.

    Args:
        title: The title.
        options: Id and text of every line.
        disabled: Ids that cannot be chosen.
        current: The initial id.
        starts_at_end: Whether the cursor starts at the end instead.
        keys: Keys that choose an entry immediately, shown at the start of its line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,m", "leave", "Leave"),
        ("j", "down", "Down"),
        ("k", "up", "Up"),
        ("g", "first", "First"),
        ("G", "last", "Last"),
    ]
    DEFAULT_CSS = """
    MenuScreen {
        align: center middle;
        background: $background 60%;
        #menu {
            width: 96%; max-width: 100; height: auto; max-height: 100%;
            background: $surface; border: round $primary;
        }
        #menu-title { dock: top; padding: 0 1; text-style: bold; color: $accent; }
        OptionList {
            height: auto; max-height: 100%; border: none; background: $surface; padding: 0;
            text-wrap: nowrap; text-overflow: ellipsis;
            &:focus { border: none; }
        }
    }
    """

    def __init__(
        self,
        title: str,
        options: Sequence[tuple[str, Content]],
        *,
        disabled: frozenset[str] = frozenset(),
        current: str = "",
        keys: Mapping[str, str] | None = None,
        starts_at_end: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._lines, self._dim, self._current = title, options, disabled, current
        self._keys = keys or {}
        self._starts_at_end = starts_at_end

    def compose(self) -> ComposeResult:
        """Yield a title and the lines."""
        with Vertical(id="menu") as menu:
            menu.border_subtitle = "enter choose  esc cancel"
            yield Static(Content(self._title), id="menu-title")
            yield MenuLines(*(Option(text, id=name, disabled=name in self._dim) for name, text in self._lines))

    def on_mount(self) -> None:
        """Start on the current line."""
        names = [name for name, _ in self._lines]
        if self._starts_at_end:
            self.action_last()
        elif self._current in names:
            self.query_one(OptionList).highlighted = names.index(self._current)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the selected line."""
        self.dismiss(event.option_id)

    def on_key(self, event: Key) -> None:
        """Choose a line by its key; a disabled line shows why it is unavailable."""
        if event.key in self._keys:
            event.stop()
            self.dismiss(self._keys[event.key])

    def action_down(self) -> None:
        """Move down a line."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """Move up a line."""
        self.query_one(OptionList).action_cursor_up()

    def action_first(self) -> None:
        """Go to the first line."""
        self.query_one(OptionList).action_first()

    def action_last(self) -> None:
        """Go to the last line, and scroll to disabled lines after it."""
        lines = self.query_one(OptionList)
        lines.action_last()
        lines.scroll_end(animate=False)


ALL: Final = "all"
"""The choice of the first line of a menu."""
ALL_ITERATIONS: Final = "all iterations"
KEY_CELLS: Final = 44


def aggregations_menu(choices: Sequence[AggregationChoice], current_aggregation: Aggregation) -> MenuScreen:
    """Return the menu; its result is ``all`` or the index of an aggregation as text."""
    lines = []
    entries: list[tuple[str, Aggregation, AggregationChoice | None]]
    entries = [(str(index), choice.chosen, choice) for index, choice in enumerate(choices)]
    if not any(chosen == Aggregation() for _, chosen, _ in entries):
        entries.insert(0, (ALL, Aggregation(), None))
    current = ""
    rows = []
    for name, chosen, choice in entries:
        is_current = chosen == current_aggregation
        current = name if is_current else current
        number = plural(choice.iterations, "iteration") if choice is not None else ""
        time = "" if choice is None else "as opened" if choice.at is None else f"made at {choice.at:%H:%M:%S}"
        key = f"ends with {clip_middle(plain(chosen.key), KEY_CELLS)}" if chosen.key else "as recorded or detected"
        rows.append((name, "*" if is_current else " ", chosen.text or ALL_ITERATIONS, number, time, key))
    label_width, number_width, time_width = (max(len(row[index]) for row in rows) for index in (2, 3, 4))
    for name, mark, label, number, time, key in rows:
        lines.append(
            (
                name,
                Content.assemble(
                    (f" {mark} {label:{label_width}}", "bold $accent"),
                    f"  {number:>{number_width}}",
                    (f"  {time:{time_width}}  {key}", "$text-muted"),
                ),
            )
        )
    return MenuScreen("Aggregations: iterations shown in every view (* current)", lines, current=current)


def sessions_menu(profile: Profile, current: int | None) -> MenuScreen:
    """Return the menu; its result is ``all`` or the number of a session as text."""
    lines = [(ALL, Content.assemble((" all ", "bold $accent"), f" {profile['sessions'].height} sessions together"))]
    for row in session_times(profile).iter_rows(named=True):
        time = brief_duration(row["gpu_ns"]) if row["gpu_ns"] is not None else ""
        content = row["holds"] if row["gpu_ns"] is None else ""
        # Distinguishing texts must not be cut off.
        is_pid_shown = row["short"].startswith("pid ") or row["label"] == f"process {row['pid']}"
        pid = f"pid {row['pid']}" if row["pid"] is not None and not is_pid_shown else ""
        rank = row["rank_words"] or ""
        host = f"on {plain(row['host'])}" if row["host"] else ""
        lines_text = f"lines {row['first_line']:,} to {row['last_line']:,}" if row["first_line"] is not None else ""
        lines.append(
            (
                str(row["session"]),
                Content.assemble(
                    (f" {row['session']:>3} ", "bold $accent"),
                    f" {time:>10}  {plain(row['short'])}",
                    ("  " + "  ".join(part for part in (content, rank, host, pid, lines_text) if part), "$text-muted"),
                ),
            )
        )
    return MenuScreen("Sessions", lines, current=ALL if current is None else str(current))


TITLE_CELLS: Final = 25
"""The width of the key and the title."""
BORDER_CELLS: Final = 6
"""The width of the border, the blanks beside a line and the scroll bar."""
SHOW_UNRECORDED: Final = "not recorded"
"""The choice that opens the menu again, with the views that have no data."""


def views_menu(availability: Mapping[str, str], current: str, *, width: int, is_unfolded: bool = False) -> MenuScreen:
    """Return the menu of views.

    Args:
        availability: For each view ``ok``, or why it has no data.
        current: The view that is shown.
        width: Cells of the screen.
        is_unfolded: Whether views without data are listed, each with its reason.
    """
    text_width = max(20, menu_width(width) - TITLE_CELLS - BORDER_CELLS)
    lines: list[tuple[str, Content]] = []
    headings = set()
    unavailable = [view for view in VIEWS if availability.get(view.name, "ok") != "ok"]
    for group in GROUPS:
        views = [view for view in VIEWS if view.group == group and view not in unavailable]
        if views:
            headings.add(group)
            lines.append((group, Content.styled(f" {group}", "$text-muted underline")))
            lines += [(view.name, _line(view, view.description)) for view in views]
    if unavailable and not is_unfolded:
        names = ", ".join(view.title for view in unavailable)
        text = _wrap(f"{len(unavailable)} views: {names}", text_width)
        lines.append((SHOW_UNRECORDED, Content.styled(f"    {'Not recorded':<{TITLE_CELLS - 4}}{text}", "$text-muted")))
    elif unavailable:
        headings.add(SHOW_UNRECORDED)
        lines.append((SHOW_UNRECORDED, Content.styled(" Not recorded in this profile", "$text-muted underline")))
        lines += [
            (view.name, _line(view, _wrap(begin_sentence(availability[view.name]), text_width), is_dim=True))
            for view in unavailable
        ]
    keys = {key: view.name for view in VIEWS for key in view.all_keys.split(",") if key}
    dim = frozenset(headings.union(view.name for view in unavailable))
    return MenuScreen("Views", lines, disabled=dim, current=current, keys=keys, starts_at_end=is_unfolded)


def _line(view: View, text: str, *, is_dim: bool = False) -> Content:
    return Content.assemble(
        (f" {view.key or ' '} ", "$text-muted" if is_dim else "bold $accent"),
        (f" {view.title:<{TITLE_CELLS - 4}}", "$text-muted" if is_dim else "bold"),
        (text, "$text-muted"),
    )


def _wrap(text: str, width: int) -> str:
    """Wrap a text: the end of a reason is the command that records what is missing."""
    return ("\n" + " " * TITLE_CELLS).join(textwrap.wrap(text, width, break_on_hyphens=False))


class ReversedLines(CommandList):
    """The commands, with the selected one in reverse video, which Textual's own lists do not support."""

    def render_line(self, y: int) -> Strip:
        """Render one line of the screen."""
        strip = super().render_line(y)
        style = next((segment.style for segment in strip if segment.style is not None), None)
        is_cursor = style is not None and self.highlighted is not None and style.meta.get("option") == self.highlighted
        return strip.apply_style(Style(reverse=True)) if is_cursor else strip


@skip_small_layouts
class Palette(CommandPalette):
    """Textual's command palette, without the magnifier emoji, which few terminals show well.

    Args:
        in_reverse: Whether the line under the cursor is in reverse video.
    """

    def __init__(self, *, in_reverse: bool) -> None:
        super().__init__(id="--command-palette")
        self._in_reverse = in_reverse

    def compose(self) -> ComposeResult:
        """Yield Textual's widgets with other lines and a cursor that does not blink, which would send bytes forever."""
        for widget in super().compose():
            if isinstance(widget, Input):
                widget.cursor_blink = False
            if isinstance(widget, CommandList) and self._in_reverse:
                yield ReversedLines()
            elif not isinstance(widget, SearchIcon):
                yield widget

    def render(self) -> RenderableType:
        """Render the dimmed view below, as below a dialog."""
        return dimmed_background() if self.app.native_ansi_color else super().render()


LETTERS: Final = "asdfghjklwertyuiopzxcvbnm"
"""The letters of panels, beginning with the middle row of the keyboard; q leaves."""


class JumpLabels(Dialog[int]):
    """A letter on every panel and table; typing it returns the index, any other key leaves.

    Args:
        regions: Their regions on the screen.
    """

    DEFAULT_CSS = """
    JumpLabels {
        align: left top;
        & > .jump--label {
            width: 3; height: 1; position: absolute;
            background: $accent; color: $background; text-style: bold;
        }
        &:ansi > .jump--label { background: ansi_default; color: $accent; text-style: bold reverse; }
    }
    """

    def __init__(self, regions: Sequence[Region]) -> None:
        super().__init__()
        self._regions = regions[: len(LETTERS)]

    def compose(self) -> ComposeResult:
        """Yield the letters at the corners of the panels."""
        for letter, region in zip(LETTERS, self._regions, strict=False):
            label = Static(Content(f" {letter} "), classes="jump--label")
            label.styles.offset = (region.x, region.y)
            yield label

    def on_key(self, event: Key) -> None:
        """Go to the panel of the letter."""
        event.stop()
        index = LETTERS.find(event.key) if len(event.key) == 1 else -1
        self.dismiss(index if 0 <= index < len(self._regions) else None)
