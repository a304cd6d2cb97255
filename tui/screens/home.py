"""The home screen: the profiles in a folder and below, those opened before, and the supported formats."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from tui.analysis.found_profiles import FORMATS as FORMATS_SPEC
from tui.analysis.found_profiles import (
    PREVIEWED,
    PROFILES,
    FoundProfile,
    FoundProfiles,
    complete_path,
    find_profiles,
    formats_frame,
    profile_preview,
    profiles_frame,
    with_figures,
)
from tui.keys import Scope, bindings_for
from tui.model.columns import Column, ColumnKind
from tui.model.errors import CommandError
from tui.options import expand_user_path, path_exists
from tui.text import plain, plural
from tui.text_width import clip_middle
from tui.textual_patches import skip_small_layouts
from tui.widgets.dialogs.base import open_dialog
from tui.widgets.dialogs.texts import CellDialog
from tui.widgets.header_footer import Breadcrumbs, KeyFooter, TabBar
from tui.widgets.input_bars import PlainLine
from tui.widgets.panel import NoteLine
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from textual.app import ComposeResult
    from textual.events import Resize

    from tui.screens.explorer import Explorer

REFRESH_EVERY_S: Final = 0.3
"""The shortest time between two updates of the list while files are examined."""
MIN_CELLS_FOR_PREVIEW: Final = 110
"""From this width on, the preview is beside the list."""
OPEN_FIRST: Final = "Open a profile first. Enter opens the profile under the cursor."
HELP: Final = (
    "Profiles in this folder and its subfolders, recognized by content, newest first; then recent profiles.",
    "Duration and GPU of a large file appear after you open it once.",
    "",
    "enter  Open the profile, or the marked profiles together.",
    "a      Open all profiles of its folder, as the ranks of a job.",
    "o      Type a path: tab completes it; a folder is listed.",
    ", .    Switch between profiles and supported formats.",
    "r      Search again.",
    "/ f s  Find, filter, sort.",
    "space  Mark.",
    "q      Quit.",
)


class _PathSuggester(Suggester):
    def __init__(self, folder: Callable[[], str]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._folder = folder

    async def get_suggestion(self, value: str) -> str | None:
        """Complete a path, in a thread, since a folder may be on a slow network."""
        return await asyncio.to_thread(complete_path, value, self._folder())


class PathLine(Horizontal):
    """A line to type a path in; hidden until it is opened."""

    DEFAULT_CSS = """
    PathLine {
        height: 1; display: none; background: $panel;
        &.-open { display: block; }
        Static { width: 7; color: $accent; text-style: bold; padding: 0 1; }
        Input { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
        Input:focus { border: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar = [
        Binding("escape", "close", "cancel", key_display="esc"),
        Binding("tab", "complete", "complete", priority=True),
    ]

    def __init__(self, folder: Callable[[], str]) -> None:
        super().__init__()
        self._folder = folder

    def compose(self) -> ComposeResult:
        """Yield a label and an input."""
        yield Static(Content("open"))
        yield PlainLine(
            placeholder="a profile or a folder; tab completes",
            suggester=_PathSuggester(self._folder),
            compact=True,
            select_on_focus=False,
        )

    @property
    def line(self) -> Input:
        """The input."""
        return self.query_one(Input)

    def open(self) -> None:
        """Show and focus the input."""
        self.add_class("-open")
        self.line.value = ""
        self.screen.set_focus(self.line)

    def action_close(self) -> None:
        """Hide it."""
        self.remove_class("-open")
        cast("HomeScreen", self.screen).focus_list()

    def action_complete(self) -> None:
        """Accept the suggestion."""
        self.line.action_cursor_right()


class _ListPane(TablePane):
    @property
    def idle_actions(self) -> Collection[str]:
        """Return the actions that the footer does not show before a profile is open."""
        return {*super().idle_actions, "show_in_timeline", "toggle_detail"}


@skip_small_layouts
class HomeScreen(Screen[None]):
    """Lists profiles and opens them.

    Args:
        folder: The folder that is listed first.
        note: A line above the list: why it is shown.
    """

    VIEW = "home"
    BINDINGS: ClassVar = [
        *bindings_for(Scope.HOME),
        *bindings_for(Scope.PARTS),
        Binding("question_mark,f1", "help", "help", key_display="?"),
        Binding("escape", "undo_smallest", "undo", show=False),
    ]
    DEFAULT_CSS = """
    HomeScreen {
        #lists { height: 1fr; }
        #preview { width: 42; height: 1fr; padding: 0 1; border-left: solid $panel; }
        #formats { display: none; }
        &.-formats #formats { display: block; }
        &.-formats #profiles, &.-formats #preview { display: none; }
        &.-stacked #lists { layout: vertical; }
        &.-stacked #preview { width: 100%; height: 9; border-left: none; border-top: solid $panel; }
        #state { height: 1; padding: 0 1; color: $text-muted; display: none; }
    }
    """

    def __init__(self, folder: str, note: str = "") -> None:
        super().__init__()
        self._folder, self._note = folder, note
        self._profiles_by_key: dict[str, FoundProfile] = {}
        """The profiles by key."""
        self._omitted_text = ""
        self._is_searching = True
        self._is_finding_figures = False
        self._searched: set[str] = set()
        """The profiles whose figures have been searched."""
        self._current = ""
        """The profile under the cursor, whose figures are searched first."""
        self._opening = ""

    @property
    def explorer(self) -> Explorer:
        """The application."""
        return cast("Explorer", self.app)

    def compose(self) -> ComposeResult:
        """Yield the two lists, the preview, the path input and the footer."""
        yield Breadcrumbs(id="crumbs")
        yield TabBar(["Profiles", "Supported formats"], hint=", .", id="tabs")
        yield NoteLine(id="note")
        with Horizontal(id="lists"):
            yield _ListPane(PROFILES, id="profiles")
            yield _ListPane(FORMATS_SPEC, id="formats")
            with Vertical(id="preview"):
                yield Static(id="first-figures")
        yield PathLine(lambda: self._folder)
        yield KeyFooter(lambda: True)

    def on_mount(self) -> None:
        """Start the search."""
        self.query_one("#note", NoteLine).show(self._note)
        self.query_one("#formats", TablePane).show(formats_frame())
        self._search()
        self.focus_list()

    def on_resize(self, event: Resize) -> None:
        """Place the preview if there is room for it."""
        self.set_class(event.size.width < MIN_CELLS_FOR_PREVIEW, "-stacked")
        self._show_preview()

    @property
    def profiles(self) -> TablePane:
        """The list of profiles."""
        return self.query_one("#profiles", TablePane)

    @property
    def shown_list(self) -> TablePane:
        """The list that is shown."""
        return self.query_one("#formats" if self.has_class("-formats") else "#profiles", TablePane)

    def focus_list(self) -> None:
        """Give the focus to the list that is shown."""
        self.shown_list.focus_table()

    # --- searching ---------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        self._is_searching = True
        self._searched.clear()
        self.profiles.show(profiles_frame([], self._folder), empty="searching…", is_loading=True)
        self._show_crumbs()
        self.run_worker(self._find, thread=True, exclusive=True, group="find")

    def _find(self) -> None:
        worker = get_current_worker()
        found = find_profiles(self._folder, lambda: not worker.is_cancelled)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_found, found)

    def _show_found(self, found: FoundProfiles) -> None:
        if not self.is_attached:
            return
        self._is_searching = False
        self._profiles_by_key = {profile.key: profile for profile in found.profiles}
        self._omitted_text = found.left_out
        self._show_list()
        self._start_finding_figures()

    def _start_finding_figures(self) -> None:
        if not self._is_finding_figures and self._next_without_figures() is not None:
            self._is_finding_figures = True
            self.run_worker(self._find_figures, thread=True, group="figures")

    def _find_figures(self) -> None:
        """Find the first figures of the profiles, starting with the one under the cursor."""
        worker = get_current_worker()
        shown_at = time.monotonic()
        while not worker.is_cancelled and (profile := self._next_without_figures()) is not None:
            updated = with_figures(profile, lambda: not worker.is_cancelled)
            self._searched.add(profile.key)
            if updated is None:
                self._profiles_by_key.pop(profile.key, None)
            elif profile.key in self._profiles_by_key:
                self._profiles_by_key[profile.key] = updated
            if profile.key == self._current or time.monotonic() - shown_at > REFRESH_EVERY_S:
                shown_at = time.monotonic()
                self.app.call_from_thread(self._show_list)
        self._is_finding_figures = False
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_list)

    def _next_without_figures(self) -> FoundProfile | None:
        for key in (self._current, *list(self._profiles_by_key)[:PREVIEWED]):
            profile = self._profiles_by_key.get(key)
            if profile is not None and profile.figures is None and key not in self._searched:
                return profile
        return None

    def _show_list(self) -> None:
        if not self.is_attached:
            return
        frame = profiles_frame(list(self._profiles_by_key.values()), self._folder)
        self.profiles.show(frame, empty=self._empty_text())
        self._show_crumbs()
        self._show_preview()

    def _empty_text(self) -> str:
        folder = self._folder or "the list"
        return (
            f"No profile in {plain(folder)} or its subfolders. o opens a path; . lists supported formats and how to "
            "record them."
        )

    def _show_crumbs(self) -> None:
        number = plural(len(self._profiles_by_key), "profile")
        facts = [self._opening, "searching…" if self._is_searching else number, self._omitted_text]
        folder = clip_middle(plain(os.path.abspath(self._folder)), self.app.size.width // 2)  # noqa: PTH100
        self.query_one(Breadcrumbs).show(["proftui", folder], facts)

    def show_opening(self, text: str) -> None:
        """Show the progress of reading a file; empty: none is being read."""
        self._opening = text
        if self.is_attached:
            self._show_crumbs()

    # --- the profile under the cursor --------------------------------------------------------------------------------

    @on(TablePane.RowHighlighted, "#profiles")
    def _row_highlighted(self, event: TablePane.RowHighlighted) -> None:
        path = "" if event.row is None else str(event.row["path"])
        if path == self._current:
            return
        self._current = path
        self._show_preview()
        self._start_finding_figures()

    def _show_preview(self) -> None:
        if not self.is_mounted:
            return
        preview = self.query_one("#preview")
        row = self.profiles.current_row
        profile = None if row is None else self._profiles_by_key.get(str(row["path"]))
        width = self.size.width - 2 if self.has_class("-stacked") else 39
        height = preview.size.height or 20
        lines = (
            [] if profile is None else profile_preview(profile, width, height, is_looked=profile.key in self._searched)
        )
        title, *further = lines or [""]
        content = Content("\n").join([Content(title).stylize("bold"), *map(Content, further)])
        self.query_one("#first-figures", Static).update(content)

    # --- opening -----------------------------------------------------------------------------------------------------

    @on(TablePane.RowOpened, "#profiles")
    def _row_opened(self, event: TablePane.RowOpened) -> None:
        event.stop()
        marked = event.pane.model.marked_rows(all_columns=True)
        keys = marked["path"].to_list() if marked.height else [str(event.row["path"])]
        profiles = [profile for key in keys if (profile := self._profiles_by_key.get(key)) is not None]
        if profiles:
            self._open([profile.path for profile in profiles])
        else:
            self.explorer.say("No profile here.")

    @on(TablePane.RowOpened, "#formats")
    @on(TablePane.DetailRequested, "#formats")
    def _format_opened(self, event: TablePane.RowOpened | TablePane.DetailRequested) -> None:
        event.stop()
        row = event.row
        text = f"{row['title']}\n\nRecord it with:\n{row['record_with']}\n\nRecognized by: {row['recognized_by']}"
        self._show_text("Format", text)

    @on(TablePane.DetailRequested, "#profiles")
    @on(TablePane.NoteRequested)
    @on(TablePane.SourceLineRequested)
    @on(TablePane.TimelineRequested)
    def _needs_profile(self, event: TablePane.DetailRequested) -> None:
        event.stop()
        self.explorer.say(OPEN_FIRST)

    def _open(self, paths: Sequence[str]) -> None:
        self.workers.cancel_group(self, "figures")
        try:
            self.explorer.open_files(tuple(paths))
        except CommandError as error:
            self.explorer.say(str(error), severity="error")

    def action_open_path(self) -> None:
        """Open the path input."""
        self.query_one(PathLine).open()

    @on(Input.Submitted, "PathLine Input")
    def _path_entered(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if not text:
            self.query_one(PathLine).action_close()
            return
        path = expand_user_path(text)
        path = path if path.is_absolute() or "://" in text else Path(self._folder) / path
        self.query_one(PathLine).action_close()
        if "://" in text:
            self._open([text])
        elif not path_exists(str(path)):
            self.explorer.say(f"No such file: {plain(text)}", severity="error")
        elif path.is_dir() and not self._is_profile_folder(path):
            self._folder = str(path)
            self._profiles_by_key = {}
            self._search()
        else:
            self._open([str(path)])

    @staticmethod
    def _is_profile_folder(path: Path) -> bool:
        from tui.analysis.found_profiles import is_profile_folder

        return is_profile_folder(str(path))

    def action_open_folder(self) -> None:
        """Open all profiles in the folder of the selected one together."""
        row = self.profiles.current_row
        # Another thread removes files that turn out to be no profiles.
        profile = self._profiles_by_key.get(str(row["path"])) if row is not None else None
        if profile is None:
            self.explorer.say("No profile here.")
            return
        self._open([str(Path(profile.path).parent)])

    def action_search_again(self) -> None:
        """Search the folder again."""
        self._search()

    def action_undo_smallest(self) -> None:
        """Stop reading a file, else clear marks, search or filter of the list."""
        if not (self.explorer.stop_opening() or self.shown_list.undo_smallest()):
            self.explorer.say("Nothing to undo. q quits.")

    # --- the second list, help ---------------------------------------------------------------------------------------

    def action_next_part(self) -> None:
        """Show the other list."""
        self.toggle_class("-formats")
        self.query_one(TabBar).show(int(self.has_class("-formats")), [True, True])
        self.focus_list()

    def action_previous_part(self) -> None:
        """Show the other list."""
        self.action_next_part()

    @on(TabBar.Chosen)
    def _tab_clicked(self, event: TabBar.Chosen) -> None:
        if (event.index == 1) != self.has_class("-formats"):
            self.action_next_part()

    def action_help(self) -> None:
        """Show what the screen contains, and its keys."""
        self._show_text("Home", "\n".join(HELP))

    def _show_text(self, title: str, text: str) -> None:
        open_dialog(self.app, CellDialog(Column("text", title, ColumnKind.TEXT, ""), text))

    def about(self, title: str) -> dict[str, Any]:
        """Return the description of a table for exports."""
        return {"of": "", "aggregation": "", "partial": self._omitted_text}
