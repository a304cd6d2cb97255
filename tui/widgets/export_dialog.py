"""What to export of a table, in which format, and where to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.content import Content
from textual.widgets import Input, Static

from tui.fmt import count
from tui.model.errors import ProftuiError
from tui.output.export import FORMATS, format_of, write
from tui.text import plain
from tui.widgets.dialog import ChoiceLine, Dialog

if TYPE_CHECKING:
    import polars as pl
    from textual.app import ComposeResult
    from textual.binding import BindingType

ENDINGS = {"markdown": "md"}


class ExportDialog(Dialog[str]):
    """Asks for format, rows, columns and path, writes the file, and returns what was written, in words.

    Args:
        name: The beginning of the file's name.
        scopes: For each choice of rows its value and its words, as ``("shown", "128 shown")``.
        frame_of: The rows of a scope, with all columns (True) or those shown.
    """

    TITLE_TEXT: ClassVar[str] = "Export"
    KEYS: ClassVar[str] = "← → choose  ↑ ↓ next line  enter write  esc leave"
    KEYS_IN_ASCII: ClassVar[str] = "h l choose  j k next line  enter write  esc leave"
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
        self, name: str, scopes: Sequence[tuple[str, str]], frame_of: Callable[[str, bool], pl.DataFrame]
    ) -> None:
        super().__init__()
        self._name = name
        self._frame_of = frame_of
        self._format = ChoiceLine("Format", [(key, key) for key in FORMATS], "csv", id="export-format")
        self._rows = ChoiceLine("Rows", scopes, scopes[0][0], id="export-rows")
        self._columns = ChoiceLine("Columns", [("shown", "shown"), ("all", "all")], "all", id="export-columns")
        self._path = Input(f"{name}.csv", compact=True, select_on_focus=False, id="export-path")
        self._path.cursor_blink = False
        self._answer = Static(id="export-answer")
        self._overwrites = ""
        """The path that the user has been asked about."""

    def compose_body(self) -> ComposeResult:
        """The choices and the path."""
        yield self._format
        yield self._rows
        yield self._columns
        yield Static(Content("Write to (full precision, base units)"), id="export-path-label")
        yield self._path
        yield self._answer

    def on_mount(self) -> None:
        """Begin with the format."""
        self._format.focus()

    def _say(self, words: str, *, wrong: bool = False) -> None:
        self._answer.set_class(wrong, "-wrong")
        self._answer.update(Content(plain(words)))

    @on(ChoiceLine.Chosen)
    def _chosen(self, event: ChoiceLine.Chosen) -> None:
        event.stop()
        self._overwrites = ""
        self._say("")
        path = Path(self._path.value)
        if event.line is self._format and format_of(path.name) is not None:
            self._path.value = str(path.with_suffix(f".{ENDINGS.get(self._format.value, self._format.value)}"))
            self._path.cursor_position = len(self._path.value)

    @on(Input.Changed)
    def _path_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._overwrites = ""
        self._say("")

    @on(Input.Submitted)
    def action_write(self) -> None:
        """Write the file; one that is there is only replaced when enter is pressed again."""
        text = self._path.value.strip()
        if not text:
            self._say("! name a file", wrong=True)
            return
        path = Path(text).expanduser()
        if path.exists() and not path.is_dir() and self._overwrites != text:
            self._overwrites = text
            self._say(f"! {path} is there: enter again replaces it", wrong=True)
            return
        self._say("writing…")
        frame = self._frame_of(self._rows.value, self._columns.value == "all")
        self._write(frame, path, self._format.value, overwrite=self._overwrites == text)

    @work(thread=True, exclusive=True, group="export")
    def _write(self, frame: pl.DataFrame, path: Path, format_name: str, *, overwrite: bool) -> None:
        try:
            write(frame, path, format_name, overwrite=overwrite)
        except ProftuiError as error:
            self.app.call_from_thread(self._say, f"! {error}", wrong=True)
            return
        rows = f"{count(frame.height)} row{'' if frame.height == 1 else 's'}"
        columns = f"{frame.width} column{'' if frame.width == 1 else 's'}"
        self.app.call_from_thread(self.dismiss, f"wrote {rows}, {columns} to {path}")
