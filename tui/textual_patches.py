"""Patches of Textual, each with its reason and its measured gain. Checked with Textual 8.2.8.

`ChangedLinesCompositor` draws only the changed, visible lines. Reason: Textual draws all lines of every widget that
overlaps the bounding box of all changes: the empty containers behind a table, and the whole table if a row and the
status line change. Gain: a row step in a view of three tables at 160x50 takes 3.5 ms of processor time with it and
5.1 ms without (medians of 200 and 300 steps); on the dashboard, 14 to 17 ms with it and 16 to 24 ms without.
It also reports every widget whose size differs from that in the last layout. Reason: Textual compares with a map that a
drawing between two layouts may have renewed, and then sends no event to a widget that is shown. Gain: details always
get the lines that the table above them leaves empty.

`dimmed_background` dims the view below a dialog on terminals with 16 colors or none. Reason: Textual blends the colors
of the view with that of the dialog. It blanks the view if the terminal's own colors are used, which cannot be blended.
Gain: the view below a dialog stays visible.

`EscapeParser` reads the escape key if another key follows at once. Reason: terminals send escape as the byte that also
begins the sequences of other keys. Textual reads escape and a key within 0.1 s as that key with alt, and drops the
escape: ``esc :`` only opened the command line, ``esc 1`` typed an inverted exclamation mark. No key of the explorer is
alt with a character: `tui.keys.rebinding` refuses them. Gain: both keys have their effect, in order, and the second one
does not wait 0.1 s.

`skip_small_layouts` lays out views and dialogs only if there is room. Reason: a container of a few cells can show and
hide its scroll bar in an endless loop, and an option list without room raises ValueError. Screens below the request for
a larger terminal are laid out although they are hidden. Gain: the explorer survives a terminal that is made 4 cells
wide and large again.

`draw_once` lays out and draws a screen once if Textual does so twice in a row. Reason: when a screen is shown, Textual
draws the changes of the layout, then draws everything. The screen also gets its size a second time, as an event, and is
laid out again. Finally, Textual sets the classes of the terminal size after the layout for this size. Gain: see
`use_single_layouts`.

`use_single_layouts` prevents a layout that follows another one. Reason: each layout sets the virtual sizes of widgets.
If one of them changes, Textual requests a layout of the whole screen, which changes nothing: scroll bars that appear or
disappear request their own. Gain of both, and of a footer that is one widget: the first display of Iterations draws
four frames in 81 ms of processor time, without them six frames in 131 ms (medians of seven runs in turns at 160x50).
"""

from __future__ import annotations

from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual._compositor import Compositor, ReflowResult
from textual._context import visible_screen_stack
from textual._xterm_parser import XTermParser
from textual.color import Color
from textual.content import Content
from textual.drivers import linux_driver
from textual.geometry import Region
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Resize
    from textual.geometry import Size
    from textual.screen import Screen
    from textual.strip import Strip


class ChangedLinesCompositor(Compositor):
    """Skips hidden widgets, and draws only the changed lines of the others.

    The first widget that draws a cell wins, so widgets wholly behind others are invisible.
    """

    _has_changed: Callable[[int], bool] | None = None
    """Returns whether a line of the screen is drawn; None: all lines are."""
    _sizes: Mapping[Widget, Size] = MappingProxyType({})
    """The size of each widget in the last layout."""

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay out the screen, and return what has changed since the last layout."""
        result = super().reflow(parent, size)
        previous, sizes = self._sizes, {widget: place.region.size for widget, place in self._full_map.items()}
        self._sizes = sizes
        changed = {widget for widget, new_size in sizes.items() if previous.get(widget) != new_size}
        return result._replace(shown=changed - previous.keys(), resized=changed & previous.keys())

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        self._has_changed = is_rendered_line
        try:
            return super()._render_chops(crop, is_rendered_line)
        finally:
            self._has_changed = None

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        for band in self._bands(self.size.region if crop is None else crop):
            covered = _Covered()
            for widget, (region, clip) in self.visible_widgets.items():
                visible = region.intersection(clip)
                top, bottom = max(visible.y, band.y), min(visible.bottom, band.bottom)
                lines = Region(visible.x, top, visible.width, max(bottom - top, 0))
                visible_in_band = lines.intersection(band)
                if not visible_in_band or covered.hides(visible_in_band):
                    continue
                strips = widget.render_lines(lines.translate((-region.x, -region.y)))
                covered.add(lines, strips)
                yield lines, lines, strips

    def _bands(self, crop: Region) -> Iterator[Region]:
        """Yield the parts of a rectangle that are drawn, with adjacent lines merged."""
        if self._has_changed is None:
            yield crop
            return
        for is_drawn, lines in groupby(crop.line_range, self._has_changed):
            if is_drawn:
                first, *further = lines
                yield Region(crop.x, first, crop.width, 1 + len(further))


class _Covered:
    """The cells that are already drawn: disjoint intervals for each line of the screen."""

    def __init__(self) -> None:
        self._intervals: dict[int, list[tuple[int, int]]] = {}

    def hides(self, region: Region) -> bool:
        """Return whether all cells of a region are already drawn."""
        first, last = region.column_span
        return all(
            any(begin <= first and last <= end for begin, end in self._intervals.get(line, ()))
            for line in region.line_range
        )

    def add(self, region: Region, strips: Iterable[Strip]) -> None:
        """Add the drawn lines of a region, as far as their strips reach; a growing widget may not fill it yet."""
        for line, strip in zip(region.line_range, strips, strict=False):
            start, end = region.x, region.x + min(region.width, strip.cell_length)
            disjoint = []
            for other_start, other_end in self._intervals.get(line, ()):
                if other_end < start or other_start > end:
                    disjoint.append((other_start, other_end))
                else:
                    start, end = min(other_start, start), max(other_end, end)
            self._intervals[line] = [*disjoint, (start, end)]


DIM = Style(dim=True)


class DimScreen(BackgroundScreen):
    """The screen below a dialog, dimmed and without click actions."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        """Dim each segment."""
        for segment in segments:
            text, style, control = segment
            yield segment if control else Segment(text, (style or Style()).clear_meta_and_links() + DIM)


def dimmed_background() -> RenderableType:
    """Return the background of the current dialog."""
    try:
        below = visible_screen_stack.get().pop()
    except LookupError:
        below = None
    color = Color(0, 0, 0, ansi=-1)
    return Text() if below is None else DimScreen(below, color)


ESCAPE: Final = "\x1b"
SEQUENCE_STARTERS: Final = frozenset("[OP]_^X\x1b")
"""The characters after an escape that begin a sequence: CSI, SS3, DCS, OSC, APC, PM and SOS."""


class EscapeParser(XTermParser):
    """Reads an escape before another key as a separate key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == ESCAPE and sequence[1] not in SEQUENCE_STARTERS:
            yield events.Key("escape", ESCAPE)
            yield from super()._sequence_to_key_events(sequence[1])
            return
        if alt:
            yield events.Key("escape", ESCAPE)
        yield from super()._sequence_to_key_events(sequence)


def use_escape_parser() -> None:
    """Make Textual's driver use `EscapeParser`."""
    linux_driver.XTermParser = EscapeParser  # type: ignore[attr-defined]


ScreenClass = TypeVar("ScreenClass", bound="type[Screen[Any]]")

MIN_WIDTH: Final = 60
MIN_HEIGHT: Final = 15
"""Below this size only a request for a larger terminal is drawn."""


def is_too_small(size: Size) -> bool:
    """Return whether a terminal is too small for views and dialogs."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


def skip_small_layouts(screen_class: ScreenClass) -> ScreenClass:
    """Decorate a screen class to lay out only if there is room."""
    textual_refresh_layout = screen_class._refresh_layout

    def _refresh_layout(self: Any, size: Size | None = None, scroll: bool = False) -> None:
        self.is_layout_missing = is_too_small(self.app.size)
        if not self.is_layout_missing:
            textual_refresh_layout(self, size, scroll)

    screen_class._refresh_layout = _refresh_layout  # type: ignore[method-assign]
    return screen_class


def set_size_classes(screen: Screen[Any], size: Size) -> None:
    """Set the classes of a size of the terminal."""
    app = screen.app
    for cells, breakpoints in zip(size, (app.HORIZONTAL_BREAKPOINTS, app.VERTICAL_BREAKPOINTS), strict=True):
        current = max((min_cells, name) for min_cells, name in breakpoints or () if min_cells <= cells)[1]
        screen.update_classes({name: name == current for _min_cells, name in breakpoints or ()}, animate=False)


def draw_once(screen_class: ScreenClass) -> ScreenClass:
    """Decorate a screen class to be laid out and drawn once if Textual does so twice.

    The decorator is written above `skip_small_layouts`, which sets `is_layout_missing`.
    """
    textual_update, textual_resized = screen_class._on_timer_update, screen_class._screen_resized

    def _on_timer_update(self: Screen[Any]) -> None:
        if self._layout_required and self._repaint_required:
            self._repaint_required = False
            self._dirty_widgets.add(self)
        textual_update(self)

    def _screen_resized(self: Any, size: Size) -> None:
        if size != self._compositor.size or self.is_layout_missing:
            set_size_classes(self, size)
            textual_resized(self, size)

    screen_class._on_timer_update = _on_timer_update  # type: ignore[method-assign]
    screen_class._screen_resized = _screen_resized  # type: ignore[method-assign]
    return screen_class


_textual_size_updated: Final = Widget._size_updated


def _size_updated(widget: Widget, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
    """Set the sizes that a layout computed; only scroll bars that appear or disappear request another layout."""
    del layout
    return _textual_size_updated(widget, size, virtual_size, container_size, layout=False)


def use_single_layouts() -> None:
    """Prevent a second layout after one that changed virtual sizes."""
    Widget._size_updated = _size_updated  # type: ignore[method-assign, assignment]


class TooSmallScreen(ModalScreen[None]):
    """Asks for a larger terminal, and shows how to quit; it closes when there is room."""

    BINDINGS: ClassVar[list[BindingType]] = [("Q,ctrl+q", "app.quit", "Quit")]
    DEFAULT_CSS = """
    TooSmallScreen {
        overflow: hidden;
        align: center middle;
        background: $background;
        Static { width: auto; max-width: 100%; text-align: center; }
    }
    """

    def compose(self) -> ComposeResult:
        """Yield the request."""
        yield Static(self._request_text())

    def _request_text(self) -> Content:
        return Content(
            f"Terminal too small: {self.app.size.width}×{self.app.size.height} (need {MIN_WIDTH}×{MIN_HEIGHT})\nQ quits"
        )

    def on_resize(self, _event: Resize) -> None:
        """Update the size in the text."""
        self.query_one(Static).update(self._request_text())
