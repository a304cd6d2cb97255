"""Compare: two profiles, sessions or ranges of iterations side by side, and the dialog that chooses them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl
from textual import on, work
from textual.content import Content
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.analysis.compare.changes import (
    CHANGED_FINDINGS,
    CHANGED_KERNELS,
    CHANGED_OPS,
    MIN_SHARE_PCT,
    SIMILAR_NAMES_NOTE,
    CompareTable,
    LargestChanges,
    largest_changes,
    memory_sentence,
    ops_compared_separately,
)
from tui.analysis.compare.changes import COMPARE_TABLES as TABLES
from tui.analysis.compare.headline import (
    HEADLINE,
    busy_and_idle_sentence,
    headline,
    headline_rows,
    verdict_sentence,
)
from tui.analysis.sessions import session_times
from tui.fmt import NULL, brief_duration, brief_percent, signed
from tui.keys import Scope, bindings_for
from tui.labels import distinct_labels, distinct_symbols
from tui.options import expand_user_path
from tui.screens.base import ViewScreen
from tui.screens.table_screen import FullText
from tui.text import plain
from tui.text_width import cell_width, pad
from tui.widgets.dialogs.base import Dialog, MenuLines
from tui.widgets.header_footer import TabBar
from tui.widgets.input_bars import PlainLine
from tui.widgets.panel import HeadLines, sentence_lines
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size

    from tui.analysis.compare.sides import Sides
    from tui.model.history import Place
    from tui.model.profile import Profile


SYNTAX: Final = """\
type              baseline         candidate
FILE              that file        current view
iterations 3:5    current view     these iterations
iterations 3 5    iteration 3      iteration 5
sessions 0 1      session 0        session 1"""


class _Paths(Suggester):
    """Completes the path of a file."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        # A folder can be large, or on a slow network: list it in a thread.
        return await asyncio.to_thread(_completed_path, value)


def _completed_path(value: str) -> str | None:
    """Return the first path in its folder that starts with a text; None if there is none."""
    folder, slash, prefix = value.rpartition("/")
    if not prefix:
        return None
    try:
        paths = [path for path in expand_user_path(folder + slash or ".").iterdir() if path.name.startswith(prefix)]
        names = sorted(path.name + "/" * path.is_dir() for path in paths if path.name.isprintable())
    except (OSError, ValueError):
        return None
    return folder + slash + names[0] if names else None


TYPE_HINT: Final = "path of a profile, or iterations 3:5"


class _ComparedLine(PlainLine):
    # As in a shell.
    BINDINGS: ClassVar[list[BindingType]] = [("tab", "cursor_right", "complete")]


class CompareDialog(Dialog[str]):
    """A line to type, and the sessions to choose from.

    Args:
        profile: The shown profile.
        latest: The latest comparison, to return to.
        text: The initial text of the line.
        error: Why that text failed.
    """

    TITLE_TEXT: ClassVar[str] = "Compare with"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("down", "app.focus_next", "Down"),
        ("up", "app.focus_previous", "Up"),
    ]
    DEFAULT_CSS = """
    CompareDialog {
        & Input { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
        & Input:focus { border: none; background: $panel; }
        & Static { color: $text-muted; }
        & OptionList { height: auto; max-height: 12; border: none; margin-top: 1; padding: 0; }
    }
    """

    def __init__(self, profile: Profile, latest: Sides | None, text: str = "", error: str = "") -> None:
        super().__init__()
        self._profile = profile
        self._latest = latest
        self._text, self._error = text, error
        sessions = profile["sessions"]["session"].to_list()
        self._default = f"sessions {sessions[0]} {sessions[1]}" if len(sessions) == 2 and latest is None else ""
        """The comparison that enter starts if nothing is typed."""
        self._has_list = latest is not None or len(sessions) > 1

    @property
    def keys_line(self) -> str:
        """The line of keys."""
        return f"enter compare  {'down list  ' if self._has_list else ''}tab complete  esc cancel"

    def compose_body(self) -> ComposeResult:
        """Yield the input, its syntax, and the list."""
        hint = f"enter: {self._default}; or a path, or iterations 3:5" if self._default else TYPE_HINT
        yield _ComparedLine(self._text, placeholder=hint, compact=True, select_on_focus=False, suggester=_Paths())
        if self._error:
            lines = "\n".join(plain(line) for line in self._error.splitlines())
            yield Static(Content.styled(f"! {lines}", "bold $error"))
        yield Static(Content(SYNTAX))
        options = []
        if self._latest is not None:
            label = f"again: {plain(self._latest.a.label)} and {plain(self._latest.b.label)}"
            options.append(Option(Content(label), id="latest"))
        if self._profile["sessions"].height > 1:
            for row in session_times(self._profile).iter_rows(named=True):
                time = brief_duration(row["gpu_ns"]) if row["gpu_ns"] is not None else ""
                label = f"session {row['session']}  {time:>10}  {plain(row['short'])}  {row['rank_words'] or ''}"
                options.append(Option(Content(label.rstrip()), id=f"session {row['session']}"))
        if options:
            yield MenuLines(*options)

    def on_mount(self) -> None:
        """Focus the input."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        if request := event.value.strip() or self._default:
            self.dismiss(request)

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss("" if event.option_id == "latest" else event.option_id)


NOTHING: Final = "No comparison yet. Press d."
NO_ROWS: Final = "None on either side."
WORKING: Final = "comparing…"
UNKNOWN_HINT: Final = "Press i to see why a value is unknown, and how to record it."
_COLORS: Final = {"SLOWER": "bold $error", "FASTER": "bold $success"}
"""The color of a verdict, by its first word."""
_TOLERANT_SUFFIX: Final = " tolerantly"
"""The suffix of a part's name if names are matched tolerantly."""


PARTS: Final = (CompareTable(HEADLINE, lambda sides, _: headline_rows(sides)), *TABLES)


def _fitting_lines(texts: Iterable[str], width: int, gap: str) -> list[str]:
    """Return texts in one line if they fit, else in a line each."""
    present = [text for text in texts if text]
    line = gap.join(present)
    return [line] if cell_width(plain(line)) <= width else present


VALUE_CELLS, SHARE_CELLS, COLUMN_GAP = 9, 9, 3
"""The width of a change, of its share, and of the gap between increases and decreases."""
SHARE_NOTE: Final = "%: share of the baseline's GPU time"
NO_CHANGES: Final = f"No op type or kernel changed by {MIN_SHARE_PCT}% or more of the baseline's GPU time."
MIN_CHANGE_ROWS: Final = 2
"""The minimum number of rows of a table of changes below its heading."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of the change in total."""

    sentence: str
    """Busy and idle time; empty where unknown."""
    tables: tuple[LargestChanges, ...]

    def lines(self, width: int, max_lines: int) -> list[Content]:
        """Return the largest changes in at most ``max_lines``, increases beside decreases."""
        lines = [
            Content(),
            Content.assemble((f"{self.sentence}  ".lstrip(), "bold"), (SHARE_NOTE, "$text-muted")),
            Content(),
        ]
        tables = self.tables
        if not tables and self.sentence and max_lines > MIN_CHANGE_ROWS:
            return [Content(), Content.styled(self.sentence, "bold"), Content.styled(NO_CHANGES, "$text-muted")]
        while tables and (max_lines - len(lines) + 1) // len(tables) - 2 < MIN_CHANGE_ROWS:
            tables = tables[:-1]
        if not tables:
            return []
        for index, table in enumerate(tables):
            # A heading for each, and a blank line between them.
            share = (max_lines - len(lines) + (index == 0)) // (len(tables) - index) - 2
            lines += [*([Content()] if index else []), *_change_lines(table, width, share)]
        return lines


def _change_lines(table: LargestChanges, width: int, rows: int) -> list[Content]:
    """Return a heading, then rows in two columns."""
    cells = (width - COLUMN_GAP) // 2
    columns = []
    sides = zip((table.longer, table.shorter), table.listed, (("more", "$error"), ("less", "$success")), strict=True)
    for changes, listed, (verb, style) in sides:
        total_ns = float(changes["delta_ns"].sum())
        total = f", {signed(brief_duration(total_ns), total_ns)}" if changes.height else ""
        heading = f"{table.title}: {changes.height:,} took {verb}{total}"
        column = [Content.styled(pad(heading, cells), "$text-muted")]
        rows_shown = listed.head(rows)
        distinct = distinct_symbols if table.title == CHANGED_KERNELS.title else distinct_labels
        labels = distinct([plain(name) for name in rows_shown["name"]], max(1, cells - VALUE_CELLS - SHARE_CELLS - 2))
        for name, _, delta, share in rows_shown.iter_rows():
            value = pad(signed(brief_duration(delta), delta), VALUE_CELLS, right=True)
            pct = "" if share is None else signed(brief_percent(share), share)
            figures = f"{pad(pct, SHARE_CELLS, right=True)}  {labels[plain(name)]}"
            column.append(Content.assemble((value, style), pad(figures, cells - VALUE_CELLS)))
        columns.append(column)
    height = max(len(column) for column in columns)
    empty = Content(" " * cells)
    longer, shorter = (column + [empty] * (height - len(column)) for column in columns)
    return [Content.assemble(left, " " * COLUMN_GAP, right) for left, right in zip(longer, shorter, strict=True)]


class LargestChangesText(Widget):
    """The explanation below the figures, in the lines that they leave."""

    DEFAULT_CSS = """
    LargestChangesText { height: auto; padding: 0 1; }
    """

    _lines_above: Callable[[int], int]
    _explanation: Explanation | None = None

    def explain(self, explanation: Explanation | None, lines_above: Callable[[int], int]) -> None:
        """Show another explanation.

        Args:
            explanation: The explanation; None to hide it.
            lines_above: Returns the number of lines above it for a width.
        """
        self._explanation, self._lines_above = explanation, lines_above
        self.display = explanation is not None
        self.refresh(layout=True)

    def _lines(self, width: int, container: Size) -> list[Content]:
        if self._explanation is None:
            return []
        return self._explanation.lines(width, container.height - self._lines_above(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines that fit."""
        return len(self._lines(width, container))

    def render(self) -> Content:
        """Return the lines."""
        assert isinstance(self.parent, Widget), "it is mounted"
        return Content("\n").join(self._lines(self.content_size.width, self.parent.content_size))


class CompareScreen(ViewScreen):
    """Shows one table of the two sides at a time."""

    VIEW = "compare"
    HELP: ClassVar = (
        "Baseline and candidate. Where both have iterations, times and calls are per iteration.\nThe largest "
        "changes come first. Rows on one side only are new or removed. Differences add up.\n, and . switch tabs; o "
        "swaps baseline and candidate; a also matches kernels, ops and API calls whose names differ by version, "
        "library or GPU. Such rows are marked similar; enter shows the names of both sides."
    )
    BINDINGS: ClassVar = [*bindings_for(Scope.PARTS), *bindings_for(Scope.COMPARE)]

    def __init__(self) -> None:
        super().__init__()
        self._part_index = 0
        self._tolerant = False
        self._rows_by_part: dict[tuple[int, bool], pl.DataFrame] = {}
        self._sides: Sides | None = None
        self._sentence = ""
        """A sentence on what changed; empty until it is known."""
        self._has_limit = False
        """Whether the sentence names the limit of the candidate."""
        self._explanation: Explanation | None = None
        """The explanation of the summary; None until it is computed."""

    def compose_body(self) -> Iterable[Widget]:
        """Yield the parts, the sides, and the table."""
        yield TabBar([part.spec.title for part in PARTS], id="parts")
        yield HeadLines(id="head")
        for part in PARTS:
            yield TablePane(part.spec, id=part.spec.name)
        yield LargestChangesText(id="explanation")
        yield FullText()

    def populate(self) -> None:
        """Show the current comparison; if the profile has changed, request a new one."""
        self.explorer.comparison.renew()
        sides = self.explorer.comparison.sides
        if sides is not self._sides:
            self._sides = sides
            self._sentence, self._has_limit, self._explanation = "", False, None
            self._rows_by_part.clear()
        self._show_part()

    def _head(self, width: int) -> list[Content]:
        assert self._sides is not None
        a, b = self._sides.a, self._sides.b
        sentences = [(self._sentence, _COLORS.get(self._sentence.partition(" ")[0], "bold"))] if self._sentence else []
        names = (f"Baseline: {a.label}", f"Candidate: {b.label}")
        emphasis = "bold" if not self._sentence else ""
        sentences += [(text, emphasis) for text in _fitting_lines(names, width, "   ")]
        basis = f"{self._sides.basis[:1].upper()}{self._sides.basis[1:]}."
        if self._sides.partial_sentence:
            sentences.append((self._sides.partial_sentence, "$warning-ink on $warning-background"))
        sentences += [
            (text, "$text-muted") for text in _fitting_lines((basis, self._sides.left_out_sentence), width, " ")
        ]
        figures = (
            self._rows_by_part.get((self._part_index, self._tolerant))
            if PARTS[self._part_index].spec is HEADLINE
            else None
        )
        if (
            figures is not None
            and (figures.select("baseline", "candidate") == NULL).select(pl.any_horizontal("*").any()).item()
        ):
            sentences.append((UNKNOWN_HINT, "$text-muted"))
        if PARTS[self._part_index].spec is CHANGED_OPS and (separate_ops := ops_compared_separately(self._sides)):
            sentences.append((separate_ops, ""))
        if self._tolerant:
            sentences.append((SIMILAR_NAMES_NOTE, ""))
        return sentence_lines(sentences, width)

    def _show_part(self) -> None:
        part = PARTS[self._part_index]
        self.query_one(TabBar).show(
            self._part_index, [self._sides is None or part.can_have_rows(self._sides) for part in PARTS]
        )
        self.query_one(HeadLines).show(None if self._sides is None else self._head)
        for candidate in PARTS:
            self.query_one(f"#{candidate.spec.name}").display = candidate is part
        self.query_one(FullText).show()
        pane = self.query_one(f"#{part.spec.name}", TablePane)
        if part.spec is CHANGED_FINDINGS and pane.frame.is_empty():
            # The baseline's finding is before the candidate's.
            pane.state = replace(pane.state, name_last=True)
        rows = self._rows_by_part.get((self._part_index, self._tolerant))
        if self._sides is None or rows is None:
            pane.show(
                pl.DataFrame(), empty=NOTHING if self._sides is None else WORKING, is_loading=self._sides is not None
            )
        else:
            pane.show(rows, empty=NO_ROWS)
        explanation = self._explanation if part.spec is HEADLINE and rows is not None else None
        self.query_one(LargestChangesText).explain(
            explanation, lambda width: self._lines_above_explanation(pane, width)
        )
        if self._sides is not None and rows is None:
            self._compute_part(self._sides, self._part_index, self._tolerant)
        pane.focus_table()
        self.show_crumbs()

    def _lines_above_explanation(self, pane: TablePane, width: int) -> int:
        """Return the lines of the tabs, the head and the figures."""
        return 1 + len(self._head(width)) + (pane.lines_of_use or 0)

    @work(thread=True, exclusive=True, group="compare", description="compare")
    def _compute_part(self, sides: Sides, part_index: int, tolerant: bool) -> None:
        if not self._sentence:
            figures = headline(sides)
            sentence = memory_sentence(sides) or verdict_sentence(sides, figures, with_limit=False)
            self.app.call_from_thread(self._show_sentence, sides, sentence)
        rows = PARTS[part_index].rows(sides, tolerant)
        explanation = self._explanation
        if explanation is None and PARTS[part_index].spec is HEADLINE:
            explanation = Explanation(busy_and_idle_sentence(headline(sides)), largest_changes(sides))
        self.app.call_from_thread(self._show_result, sides, part_index, tolerant, rows, explanation)
        if not self._has_limit:
            # The findings of both sides take longer than all else.
            sentence = memory_sentence(sides) or verdict_sentence(sides, headline(sides))
            self.app.call_from_thread(self._show_sentence, sides, sentence, has_limit=True)

    def _show_sentence(self, sides: Sides, sentence: str, *, has_limit: bool = False) -> None:
        if self.is_attached and sides is self._sides and not self._has_limit:
            self._sentence, self._has_limit = sentence, has_limit
            self.query_one(HeadLines).show(self._head)
            self.query_one(LargestChangesText).refresh(layout=True)

    def _show_result(
        self, sides: Sides, part_index: int, tolerant: bool, rows: pl.DataFrame, explanation: Explanation | None
    ) -> None:
        if self.is_attached and sides is self._sides:
            self._explanation = explanation
            self._rows_by_part[part_index, tolerant] = rows
            if (part_index, tolerant) == (self._part_index, self._tolerant):
                self._show_part()

    @on(TablePane.RowHighlighted)
    def _show_full_finding(self, event: TablePane.RowHighlighted) -> None:
        row = event.row if event.row is not None and PARTS[self._part_index].spec is CHANGED_FINDINGS else {}
        sides = [f"{side.capitalize()}: {row[side]}" for side in ("baseline", "candidate") if row.get(side)]
        self.query_one(FullText).show(*sides)

    def opens_details(self, pane: TablePane) -> bool:
        """Return whether the rows are findings: details show their full text."""
        return pane.spec is CHANGED_FINDINGS

    @property
    def is_filling(self) -> bool:
        """Whether the sides, or the rows of the part, are still being computed."""
        return self.explorer.comparison.is_running or super().is_filling

    @property
    def compared_key(self) -> tuple[str, ...]:
        """The request of the comparison, and the labels of its sides in either order."""
        sides = self.explorer.comparison.sides
        return () if sides is None else (self.explorer.comparison.request, *sorted((sides.a.label, sides.b.label)))

    @property
    def is_tolerant(self) -> bool:
        """Whether names that differ by version, library or GPU are matched."""
        return self._tolerant

    def place(self) -> Place:
        """Return the part, the matching of names, and the comparison."""
        level = PARTS[self._part_index].spec.name + _TOLERANT_SUFFIX * self._tolerant
        return replace(super().place(), level=level, text=self.explorer.comparison.request)

    def restore(self, place: Place) -> None:
        """Repeat the comparison, and show the part."""
        self.explorer.comparison.recall(place.text)
        names = [part.spec.name for part in PARTS]
        level = place.level.removesuffix(_TOLERANT_SUFFIX)
        if level in names:
            if self._tolerant != (level != place.level):
                self.action_match_families()
            self._show_part_at(names.index(level))
        super().restore(place)

    def path(self) -> list[str]:
        """Return the part, unless it is the first."""
        return [PARTS[self._part_index].spec.title] if self._part_index else []

    def action_next_part(self) -> None:
        """Show the next part; after the last the first."""
        self._step(1)

    def action_previous_part(self) -> None:
        """Show the previous part; before the first the last."""
        self._step(-1)

    @on(TabBar.Chosen)
    def _part_chosen(self, event: TabBar.Chosen) -> None:
        self._show_part_at(event.index)

    def _step(self, step: int) -> None:
        """Go to the next part that the two sides can feed."""
        part_index = self._part_index + step
        while self._sides is not None and not PARTS[part_index % len(PARTS)].can_have_rows(self._sides):
            part_index += step
        self._show_part_at(part_index)

    def _show_part_at(self, part_index: int) -> None:
        self._part_index = part_index % len(PARTS)
        self._show_part()

    def action_match_families(self) -> None:
        """Also match similar names, or only equal names."""
        self._tolerant = not self._tolerant
        self.populate()

    def action_swap_sides(self) -> None:
        """Swap baseline and candidate."""
        self.explorer.comparison.swap()
