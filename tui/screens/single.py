"""Views made of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on

from tui.analysis.inputs.replayed import replayed_sessions
from tui.screens.base import ViewScreen
from tui.widgets.table_pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    from textual.widget import Widget

    from tui.model.view import TableSpec


class TableScreen(ViewScreen):
    """One table; ``enter`` shows the details of a row."""

    SPEC: ClassVar[TableSpec]
    EMPTY: ClassVar[str] = ""
    """What to say where there are no rows: why, and what would record them."""

    def compose_body(self) -> Iterable[Widget]:
        """The table."""
        yield TablePane(self.SPEC, id="table")

    def rows(self) -> pl.DataFrame:
        """The rows to show."""
        raise NotImplementedError

    def empty(self) -> str:
        """What to say where there are no rows, if that depends on the input."""
        return self.EMPTY

    def populate(self) -> None:
        """Fill the table."""
        pane = self.query_one("#table", TablePane)
        rows = self.rows()
        pane.apart = replayed_sessions(self.profile)
        pane.show(rows, empty=self.empty() if rows.is_empty() else "")
        pane.focus_table()

    @on(TablePane.RowOpened)
    def _open_details(self, event: TablePane.RowOpened) -> None:
        event.pane.post_message(TablePane.DetailRequested(event.pane, event.row))
