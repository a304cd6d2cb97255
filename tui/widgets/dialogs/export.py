"""The export dialog: rows, format and file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on, work
from textual.content import Content
from textual.widgets import Input, Static

from tui.fmt import count
from tui.model.errors import ProftuiError
from tui.options import expand_user_path, path_exists
from tui.output.documents import missing_package
from tui.output.export import FORMATS, for_clipboard, format_by_extension, formula_warning, write_frame
from tui.text import plain, plural
from tui.widgets.app_services import copy_text
from tui.widgets.dialogs.base import ChoiceLine, Dialog
from tui.widgets.input_bars import PlainLine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Key, Paste

    from tui.output.export import About

SUFFIXES: Final = {"markdown": "md"}
CLIPBOARD: Final = "clipboard"
"""The choice that copies the rows, as tab-separated values with a title, to the terminal's clipboard."""
MAX_CLIPBOARD_ROWS: Final = 5_000
"""No terminal accepts more."""
SHORT_NAMES: Final = {"xlsx": "excel", "markdown": "md"}
"""The labels of formats whose names are long or unusual."""
TARGET: Final = "Write to (full precision, base units)"
TARGETS: Final = {"pdf": "Write to (values with units, as on screen)"}
_INVALID_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_STEM_CHARACTERS: Final = 48


def file_name(profile: str, table: str) -> str:
    """Return the default name of an export, without a suffix: the open file and the table; never a path.

    >>> file_name("run 3/../x.nvprof.log", "kernels"), file_name("", "kernels")
    ('run-3-..-x.nvprof-kernels', 'kernels')
    """
    stem = _INVALID_CHARACTERS.sub("-", profile.rpartition(".")[0] or profile).strip(".-")[:_MAX_STEM_CHARACTERS]
    return f"{stem}-{table}" if stem else table


class ExportDialog(Dialog[str]):
    """Asks for format, rows, columns and path, writes the file, and returns a message about it.

    Args:
        name: The beginning of the file's name.
        scopes: For each choice of rows its value, its text and the number of rows: ``("shown", "128 shown", 128)``.
        get_frame: Returns the rows of a scope, with all columns (True) or those shown.
        describe: Returns the description of the rows of a scope, for the header of the export.
    """

    TITLE_TEXT: ClassVar[str] = "Export"
    KEYS: ClassVar[str] = "left right choose  up down next line  enter write  esc cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "write", "Write"),
        ("down", "app.focus_next", "Down"),
        ("up", "app.focus_previous", "Up"),
    ]
    DEFAULT_CSS = """
    ExportDialog {
        & Input { border: none; height: 1; padding: 0; margin: 0 2; width: 1fr; background: $panel; }
        & Input:focus { border: none; background: $panel; }
        & #export-path-label { color: $text-muted; height: 1; margin-top: 1; padding: 0 2; }
        & #export-answer { height: auto; min-height: 1; padding: 0 2; margin-top: 1; color: $text-muted; }
        & #export-answer.-wrong { color: $error; text-style: bold; }
    }
    """

    def __init__(
        self,
        name: str,
        scopes: Sequence[tuple[str, str, int]],
        get_frame: Callable[[str, bool], pl.DataFrame],
        describe: Callable[[str], About],
    ) -> None:
        super().__init__()
        self._name = name
        self._get_frame = get_frame
        self._describe = describe
        formats = [(key, SHORT_NAMES.get(key, key)) for key in (*FORMATS, CLIPBOARD)]
        self._format = ChoiceLine("Format", formats, "csv", id="export-format")
        self._heights = {scope: height for scope, _, height in scopes}
        self._rows = ChoiceLine("Rows", [(scope, label) for scope, label, _ in scopes], scopes[0][0], id="export-rows")
        self._columns = ChoiceLine("Columns", [("shown", "shown"), ("all", "all")], "all", id="export-columns")
        self._path = PlainLine(f"{name}.csv", compact=True, select_on_focus=False, id="export-path")
        self._suffix_format = self._format.value
        """The format that the suffix of the path is for."""
        self._answer = Static(id="export-answer")
        self._overwrites = ""
        """The path that the user was asked to overwrite."""

    def compose_body(self) -> ComposeResult:
        """Yield the choices and the path."""
        yield self._format
        yield self._rows
        yield self._columns
        yield Static(Content(TARGET), id="export-path-label")
        yield self._path
        yield self._answer

    def on_mount(self) -> None:
        """Begin with the format."""
        self._format.focus()

    def on_key(self, event: Key) -> None:
        """Begin a new path with a typed character."""
        if event.is_printable and event.key not in self.active_bindings:
            self._begin_path(event, event.character or "")

    def on_paste(self, event: Paste) -> None:
        """Begin a new path with a pasted text."""
        self._begin_path(event, event.text.partition("\n")[0].strip())

    def _begin_path(self, event: Key | Paste, text: str) -> None:
        if not (self._path.has_focus or self._path.disabled):
            event.stop()
            self._path.value = text
            self._path.cursor_position = len(text)
            self._path.focus()

    def _show_answer(self, text: str, *, is_error: bool = False) -> None:
        self._answer.set_class(is_error, "-wrong")
        self._answer.update(Content(plain(text)))

    def _show_missing_package(self) -> None:
        """Show what has to be installed for the format, if anything."""
        missing = missing_package(self._format.value)
        self._show_answer(f"! {missing}" if missing else "", is_error=bool(missing))

    @on(ChoiceLine.Chosen)
    def _chosen(self, event: ChoiceLine.Chosen) -> None:
        event.stop()
        format_name = self._format.value
        self._path.disabled = format_name == CLIPBOARD
        label = "To the terminal's clipboard" if format_name == CLIPBOARD else TARGETS.get(format_name, TARGET)
        self.query_one("#export-path-label", Static).update(Content(label))
        self._name_for_format()
        if format_name == CLIPBOARD or self._path.value.strip() != self._overwrites:
            self._overwrites = ""
            self._show_missing_package()

    def _name_for_format(self) -> None:
        """Give the path the suffix of the format, once after each choice of a format, so that a typed suffix stays."""
        format_name, path = self._format.value, Path(self._path.value)
        if format_name in (CLIPBOARD, self._suffix_format):
            return
        self._suffix_format = format_name
        if format_by_extension(path.name) is not None:
            self._path.value = str(path.with_suffix(f".{SUFFIXES.get(format_name, format_name)}"))
            self._path.cursor_position = len(self._path.value)

    @on(Input.Changed)
    def _path_changed(self, event: Input.Changed) -> None:
        event.stop()
        typed_format = format_by_extension(self._path.value)
        if self._path.has_focus and typed_format is not None:
            self._format.value = self._suffix_format = typed_format
        if self._path.value.strip() != self._overwrites:
            self._overwrites = ""
            self._show_missing_package()

    @on(Input.Submitted)
    def action_write(self) -> None:
        """Write the file once its path has been shown; overwrite an existing file if enter is pressed again."""
        rows, all_columns = self._rows.value, self._columns.value == "all"
        # Enter may be handled before the message about the format chosen by the previous key.
        self._name_for_format()
        if self._format.value == CLIPBOARD:
            if self._heights[rows] > MAX_CLIPBOARD_ROWS:
                self._show_answer(
                    f"! too many rows for the clipboard (limit {count(MAX_CLIPBOARD_ROWS)}): write a file",
                    is_error=True,
                )
                return
            self.dismiss(copy_text(self.app, for_clipboard(self._get_frame(rows, all_columns), self._describe(rows))))
            return
        text = self._path.value.strip()
        if not text:
            self._show_answer("! Name a file.", is_error=True)
            return
        path = expand_user_path(text)
        if path_exists(text) and not path.is_dir() and self._overwrites != text:
            self._overwrites = text
            self._path.focus()
            self._show_answer(f"! {path} exists. Press enter again to replace it.", is_error=True)
            return
        if self._overwrites != text and not self._path.has_focus:
            self._path.focus()
            self._show_answer(f"Press enter to write {path.absolute()}")
            return
        self._show_answer("writing…")
        self._write(rows, all_columns, path, self._format.value, overwrite=self._overwrites == text)

    @work(thread=True, exclusive=True, group="export", description="export")
    def _write(self, rows: str, all_columns: bool, path: Path, format_name: str, *, overwrite: bool) -> None:
        # Sorting millions of rows takes a while, too.
        frame = self._get_frame(rows, all_columns)
        try:
            write_frame(frame, path, format_name, overwrite=overwrite, about=self._describe(rows))
        except ProftuiError as error:
            self.app.call_from_thread(self._show_answer, f"! {error}", is_error=True)
            return
        written = plural(frame.height, "row")
        columns = plural(frame.width, "column")
        formulas = formula_warning(frame, format_name)
        message = f"Wrote {written}, {columns} to {path.absolute()}{f'; {formulas}' if formulas else ''}"
        self.app.call_from_thread(self.dismiss, message)
