"""The details pane: all facts about the row under the cursor, a kernel, an op or a launch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from tui.analysis.durations import SLOW
from tui.fmt import column_unit, count, duration, format_value, metric, percent, signed
from tui.keys import Scope, bindings_for
from tui.model.columns import COLUMNS, ColumnKind
from tui.query.facts import magnitude
from tui.text import plain, plural
from tui.text_width import cell_width
from tui.widgets.app_services import SHOW_BUSY_AFTER_S
from tui.widgets.table.view import FrameTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size
    from textual.screen import Screen
    from textual.timer import Timer

    from tui.analysis.durations import DurationSpread, SlowPart
    from tui.analysis.gpu_time.overlap import Saving
    from tui.analysis.launch_config import ProfilingCommand
    from tui.analysis.occupancy import OccupancyAdvice
    from tui.analysis.ops.op_instances import ArgumentValues, OpCalls
    from tui.model.table_spec import Column, TableSpec

_BREAK: Final = re.compile(r"::|[<,(/]")
"""A long name or path is wrapped after these."""
Line = tuple[str, str, str]
"""Label, value, and note (dim)."""
LABEL_GAP: Final = 2
"""Blanks between the longest label and the values."""
COLUMN_GAP: Final = 4
"""Blanks between columns of lines."""
MIN_LINES_IN_COLUMNS, MAX_COLUMNS = 8, 4
"""From this number on, short lines are in columns; the maximum number of columns."""
MIN_VALUE_CELLS: Final = 20
"""If fewer cells are left next to the labels, long values continue below them."""


@dataclass(frozen=True, slots=True)
class Details:
    """Lines of text, each with the indentation of its continuation lines in cells."""

    lines: tuple[tuple[int, Content], ...]

    def wrapped(self, width: int) -> list[Content]:
        """Return the lines, wrapped to a width.

        >>> sections([("", [("name", "a long value", "")])]).wrapped(26)[0].plain
        'name  a long value'
        >>> [line.plain for line in sections([("", [("name", "some words and more words", "")])]).wrapped(26)]
        ['name  some words and more', '      words']
        """
        wrapped: list[Content] = []
        for indent, line in self.lines:
            if width - indent < MIN_VALUE_CELLS:
                wrapped += wrap_names(line, max(1, width))
                continue
            first, *rest = wrap_names(line[indent:], width - indent)
            wrapped += [line[:indent] + first, *(part.pad_left(indent) for part in rest)]
        return wrapped

    def arranged(self, width: int) -> list[Content]:
        """Return the details with many consecutive short lines arranged in columns.

        >>> lines = [(f"{n}", "a value", "") for n in range(8)]
        >>> [line.plain for line in sections([("", lines)]).arranged(34)][:2]
        ['0  a value    4  a value', '1  a value    5  a value']
        """
        arranged: list[Content] = []
        column_width = (width - COLUMN_GAP) // 2
        for is_short, block in groupby(self.lines, lambda line: bool(line[0]) and line[1].cell_length <= column_width):
            part = Details(tuple(block))
            if not is_short or len(part.lines) < MIN_LINES_IN_COLUMNS:
                arranged += part.wrapped(width)
                continue
            lines = [line for _, line in part.lines]
            longest = max(line.cell_length for line in lines)
            columns = min(MAX_COLUMNS, (width + COLUMN_GAP) // (longest + COLUMN_GAP))
            rows = -(-len(lines) // columns)
            for row in range(rows):
                cells = lines[row::rows]
                padded = [cell.pad_right(longest + COLUMN_GAP - cell.cell_length) for cell in cells[:-1]]
                arranged.append(Content("").join([*padded, cells[-1]]))
        return arranged


def wrap_names(line: Content, width: int) -> list[Content]:
    """Wrap a line; names and paths that are longer break after a separator.

    >>> [part.plain for part in wrap_names(Content("void at::native::softmax<float, int>"), 20)]
    ['void at::native::', 'softmax<float, int>']
    """
    text = line.plain
    if cell_width(text) != len(text) or max(map(len, text.split()), default=0) <= width // 2:
        return line.wrap(width)
    parts, start = [], 0
    while len(text) - start > width:
        window = text[start : start + width + 1]
        blank = window.rfind(" ")
        end = (
            blank if blank > width // 2 else max((match.end() for match in _BREAK.finditer(window[:-1])), default=blank)
        )
        end = end if end > 0 else width
        parts.append(line[start : start + end])
        start += end
        start += len(text[start:]) - len(text[start:].lstrip(" "))
    return [*parts, line[start:]]


def sentence_case(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with labels that begin with a capital letter after their indentation.

    >>> sentence_case([("call took", "3 ms", ""), ("  by warps", "4", "")])
    [('Call took', '3 ms', ''), ('  By warps', '4', '')]
    """
    return [(re.sub("^ *[a-z]", lambda match: match[0].upper(), label), value, note) for label, value, note in lines]


def sections(parts: Iterable[tuple[str, Sequence[Line]]]) -> Details:
    """Return headed blocks of lines, with all labels aligned."""
    blocks = [(heading, list(lines)) for heading, lines in parts if lines]
    width = max((len(label) for _, lines in blocks for label, _, _ in lines), default=0) + LABEL_GAP
    text: list[tuple[int, Content]] = []
    for number, (heading, lines) in enumerate(blocks):
        if heading:
            text += [(0, Content(""))] if number else []
            text.append((0, Content.styled(plain(heading), "bold $accent")))
        for label, value, note in lines:
            note_part = [(f"  {plain(note)}", "$text-muted")] if note else []
            text.append((width, Content.assemble((label.ljust(width), "$text-muted"), plain(value), *note_part)))
    return Details(tuple(text))


def below_note(text: str, origin: str, details: Details) -> Details:
    """Return details below the user's note.

    Args:
        text: The text of the note, of one line or more.
        origin: When it was written.
        details: The details.
    """
    first_line, *further_lines = text.splitlines() or [""]
    note = sections(
        [("", [("Note", first_line, ""), *(("", line, "") for line in further_lines), ("Written", origin, "")])]
    )
    return Details((*note.lines, (0, Content("")), *details.lines))


class DetailText(Widget):
    """Shows details; long values are wrapped within the column of values."""

    DEFAULT_CSS = """
    DetailText { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._details = Details(())
        self._wrapped: tuple[int, list[Content]] = (0, [])
        """A width in cells, and the lines for it."""

    def show(self, details: Details) -> None:
        """Show other details; if the number of lines is the same, nothing else is laid out again."""
        if details == self._details:
            return
        width, former_lines = self._wrapped
        self._details, self._wrapped = details, (0, [])
        # Before the first layout no width is known.
        self.refresh(layout=not width or len(self._lines(width)) != len(former_lines))

    def _lines(self, width: int) -> list[Content]:
        if self._wrapped[0] != width:
            self._wrapped = width, self._details.arranged(width)
        return self._wrapped[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._lines(width))

    def render(self) -> Content:
        """Render the lines."""
        return Content("\n").join(self._lines(self.content_size.width))


def full_value(kind: ColumnKind, value: object, *, largest: float | None = None) -> str:
    """Return a value as text, with all significant digits of its kind.

    Args:
        kind: The kind of the value.
        value: The value.
        largest: The largest absolute value of its column, which decides the unit of times; None: the value's own.
    """
    if largest is None and isinstance(value, int | float):
        largest = value
    return format_value(kind, value, unit=column_unit(kind, largest) if kind is ColumnKind.TIME else None)


def _column_value(column: Column, value: object, frame: pl.DataFrame | None = None) -> str:
    """Return a value of a column as text; times in the unit that they have in the table of a frame."""
    largest = magnitude(frame, column) if frame is not None and column.kind is ColumnKind.TIME else None
    text = full_value(column.kind, value, largest=largest)
    return text.removesuffix("×") if column.is_unit_in_title else text


def row_details(
    spec: TableSpec, row: Mapping[str, Any], *, frame: pl.DataFrame, extra_lines: Sequence[Line] = ()
) -> Details:
    """Return every value of a row, uncut: first the columns that the table shows, then the others.

    The columns without a value come last. Empty texts, and internal columns such as the number of a parent row, are
    omitted.

    Args:
        spec: The table.
        row: The row.
        frame: The rows of the table, with all columns.
        extra_lines: Further lines, right below its first value.
    """
    columns = {**COLUMNS, **{column.name: column for column in spec.columns}}
    shown = [column.name for column in spec.columns]
    hidden_columns = [name for name in frame.columns if name not in shown and name in columns]
    lines: list[Line] = []
    unknown: list[str] = []
    for name in [*shown, *hidden_columns]:
        column = columns[name]
        value = row.get(name)
        if value == "":
            continue
        if value is None and not (column.absent or name == spec.pinned):
            unknown += [column.title] if name in shown else []
            continue
        if value is None and column.absent:
            text = column.absent
        elif column.kind is ColumnKind.MEASURE:
            text = metric(value, row.get("unit"))
        else:
            text = _column_value(column, value, frame)
        if column.is_signed and isinstance(value, int | float):
            text = signed(text, value)
        lines.append((column.title, text, ""))
    unknown_lines = [("No value", ", ".join(unknown), "")] if unknown else []
    return sections([("", [*lines[:1], *extra_lines, *lines[1:], *unknown_lines])])


TALL_SCREEN_LINES: Final = 36
"""Screens of this height have room for details below a short table."""
MIN_BODY_LINES, MAX_BODY_SHARE = 6, 2 / 3
"""Lines that a table above details keeps, and the share of the lines that it has at most."""


ROW_ACTIONS: Final = ("show_in_timeline", "source_line")
"""Actions of a table on its row that also work while details cover the table."""


def _row_bindings() -> list[BindingType]:
    """Return the keys of these actions; the screen runs them."""
    bindings = [binding for binding in bindings_for(Scope.TABLE) if isinstance(binding, Binding)]
    return [
        replace(binding, action=f"screen.{binding.action}", show=False)
        for binding in bindings
        if binding.action in ROW_ACTIONS
    ]


class DetailPane(VerticalScroll):
    """The pane: to the right of the table on a wide screen, below it on a normal one, in its place on a narrow one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll_down", ""),
        ("k", "scroll_up", ""),
        ("g", "scroll_home", ""),
        ("G", "scroll_end", ""),
        ("i", "app.undo_smallest", "close"),
        *_row_bindings(),
    ]

    DEFAULT_CSS = """
    DetailPane { display: none; padding: 0 1; background: $surface; }
    DetailPane.-open { display: block; }
    """

    class Covered(Message):
        """The pane now covers the tables: there is no room beside it."""

    class Uncovered(Message):
        """The pane no longer covers the tables."""

    def compose(self) -> ComposeResult:
        """Yield one block of text."""
        yield DetailText(id="detail-text")

    def on_resize(self) -> None:
        """Move the focus to the pane while it covers the focused widget."""
        if self.is_open:
            # A hidden widget loses the focus only later.
            self.call_after_refresh(self._pass_focus)
            self.take_spare_lines()

    def _pass_focus(self) -> None:
        if self.screen.has_class("-narrow"):
            if self.screen.focused is None:
                self.focus()
            self.post_message(self.Covered())
        elif self.screen.focused in (None, self):
            self.post_message(self.Uncovered())

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def open(self, details: Details) -> None:
        """Show the pane."""
        self.show(details)
        self.add_class("-open")
        self._mark_screen(is_open=True)
        self.scroll_home(animate=False)
        if self.screen.has_class("-narrow"):
            self.focus()

    def show(self, details: Details) -> None:
        """Show another text."""
        self.query_one("#detail-text", DetailText).show(details)

    def close(self) -> None:
        """Hide the pane."""
        self.remove_class("-open")
        self._mark_screen(is_open=False)
        self.take_spare_lines()

    def take_spare_lines(self) -> None:
        """Use the lines that the rows of a single table above leave empty."""
        body, tables = self.screen.query_one("#body"), self.screen.query(FrameTable)
        is_below = self.screen.has_class("-normal") or self.screen.has_class("-wide", "-tall", "-below")
        if not (self.is_open and is_below and len(tables) == 1):
            body.styles.height = None
            return
        table = tables.first()
        needed_lines = body.size.height - table.size.height + len(table.model.rows) + 1
        max_lines = round((body.size.height + self.outer_size.height) * MAX_BODY_SHARE)
        body.styles.height = max(MIN_BODY_LINES, min(needed_lines, max_lines))

    def _mark_screen(self, *, is_open: bool) -> None:
        # Textual would update the styles of all widgets of the screen; only these change.
        self.screen.set_class(is_open, "-detail", update=False)
        self.app.stylesheet.update_nodes(self.screen.query("#work, #body, TablePane.linked"))


class DetailLoader:
    """Computes the details of a row, in a thread if that may take long; only those of the latest row are shown.

    Args:
        screen: Has the pane of the details, and runs the thread.
        working: The details to show meanwhile, if it takes a while.
    """

    def __init__(self, screen: Screen[Any], working: Details) -> None:
        self._screen, self._working = screen, working
        self._request = 0
        """The number of the latest row."""
        self._busy_timer: Timer | None = None

    def load(self, compute: Callable[[], Details], show: Callable[[Details], None], *, in_thread: bool) -> None:
        """Compute details and show them.

        Args:
            compute: Returns the details.
            show: Shows them.
            in_thread: Whether computing may take long.
        """
        self._request += 1
        if self._busy_timer is not None:
            self._busy_timer.stop()
        if not in_thread:
            show(compute())
            return
        # Details that are quick to compute replace the previous ones without a message.
        self._busy_timer = self._screen.set_timer(SHOW_BUSY_AFTER_S, partial(self._show_working, self._request))
        # After the frame of the move, which a working thread would delay.
        self._screen.call_after_refresh(self._start, self._request, compute, show)

    def _start(self, request: int, compute: Callable[[], Details], show: Callable[[Details], None]) -> None:
        # Skip rows that the cursor has already left.
        if request == self._request:
            job = partial(self._compute, request, compute, show)
            self._screen.run_worker(job, thread=True, exclusive=True, group="details", description="details")

    def _compute(self, request: int, compute: Callable[[], Details], show: Callable[[Details], None]) -> None:
        if get_current_worker().is_cancelled:
            return
        self._screen.app.call_from_thread(self._show, request, compute(), show)

    def _show_working(self, request: int) -> None:
        if request == self._request:
            self._screen.query_one(DetailPane).show(self._working)

    def _show(self, request: int, details: Details, show: Callable[[Details], None]) -> None:
        # The cursor may be on another row by now.
        if request == self._request and self._screen.is_attached:
            self._request += 1
            show(details)


PARTS_SHOWN: Final = 4
"""The number of iterations and streams with slow launches, and of GPUs with a gain."""
VARIANTS_SHOWN: Final = 5
MAX_SHAPE_CHARACTERS: Final = 80
"""Longer input shapes are cut."""


def with_blocks(details: Details, blocks: Sequence[tuple[str, Sequence[Line]]]) -> Details:
    """Return details with further blocks below them."""
    further = sections(blocks)
    return Details((*details.lines, (0, Content("")), *further.lines)) if further.lines else details


def with_note(note: tuple[str, str] | None, details: Details) -> Details:
    """Return the details of a row below the note on it, if there is one."""
    return details if note is None else below_note(*note, details)


def slow_lines(spread: DurationSpread | None) -> list[Line]:
    """Return the iterations and streams with slow launches; empty if there are none."""
    if spread is None or not spread.slow:
        return []
    lines: list[Line] = [
        (
            "slow",
            f"{count(spread.slow)} of {count(spread.launches)}",
            f"took more than {SLOW:g} times the median, {duration(spread.slow_ns)} above it in total",
        )
    ]
    if spread.slow_iterations:
        lines.append(("in iterations", _parts(spread.slow_iterations, "in none"), "slow ones of each"))
    if len(spread.slow_streams) > 1 or spread.slow_streams[0].launches < spread.launches:
        lines.append(("on streams", _parts(spread.slow_streams, "unknown stream"), "slow ones of each"))
    return lines


def _parts(parts: Sequence[SlowPart], unnumbered: str) -> str:
    shown = [
        f"{unnumbered if part.number is None else part.number}: {count(part.slow)} of {count(part.launches)}"
        for part in parts[:PARTS_SHOWN]
    ]
    omitted = len(parts) - len(shown)
    return ", ".join(shown) + (f", and {count(omitted)} more" if omitted else "")


def variant_lines(table: pl.DataFrame) -> list[Line]:
    """Return the variants with most time; empty if there is only one."""
    if table.height < 2:
        return []
    lines: list[Line] = []
    for row in table.head(VARIANTS_SHOWN).iter_rows(named=True):
        shape = f"{row['grid'] or 'unknown grid'} x {row['block'] or 'unknown block'}"
        calls = plural(row["calls"], "call")
        shapes = row["input_shapes"]
        short_shapes = (
            shapes if shapes is None or len(shapes) <= MAX_SHAPE_CHARACTERS else f"{shapes[:MAX_SHAPE_CHARACTERS]}…"
        )
        note = f"{calls}, median {duration(row['median_ns'])}, longest {duration(row['max_ns'])}"
        lines.append((duration(row["total_ns"]), shape, f"{note}; input {short_shapes}" if short_shapes else note))
    if table.height > VARIANTS_SHOWN:
        lines.append(("", f"and {count(table.height - VARIANTS_SHOWN)} more", ""))
    return lines


def gain_lines(gains: Sequence[Saving]) -> list[Line]:
    """Return the time that each GPU would save, and the assumptions; empty if no start times are known."""
    lines: list[Line] = []
    for gain in gains[:PARTS_SHOWN]:
        suffix = f" on GPU {gain.device if gain.device is not None else '?'}" if len(gains) > 1 else ""
        lines += [
            (
                f"removed{suffix}",
                duration(gain.alone_ns),
                _saving_note(gain, gain.alone_ns, gain.alone_per_iteration_ns),
            ),
            (
                f"2x faster{suffix}",
                duration(gain.half_ns),
                _saving_note(gain, gain.half_ns, gain.half_per_iteration_ns),
            ),
        ]
    if gains:
        hidden = sum(gain.time_ns - gain.alone_ns for gain in gains)
        note = f"{duration(hidden)} of it overlapped other work or itself" if hidden > 0 else ""
        lines.append(("basis", "time in which nothing else ran on the GPU; everything else unchanged", note))
    return lines


def _saving_note(gain: Saving, gained_ns: int, per_iteration_ns: float | None) -> str:
    """Return the saving per iteration, otherwise as a share of the busy time of the GPU."""
    if per_iteration_ns is not None and gain.iterations is not None and gain.iterations > 1:
        return f"{duration(round(per_iteration_ns))} in each of {count(gain.iterations)} iterations"
    return f"{percent(100 * gained_ns / gain.busy_ns)} of the busy time" if gain.busy_ns else ""


def next_lines(profiling: ProfilingCommand | None) -> list[Line]:
    """Return the command that profiles a launch, or why there is none."""
    if profiling is None:
        return []
    if profiling.command is None:
        return [("none", profiling.note, "")]
    return [("command", profiling.command, ""), ("", profiling.note, "")]


def advice_lines(advice: Sequence[OccupancyAdvice], waves: float | None = None) -> list[Line]:
    """Return changes that would raise the occupancy of a launch; empty if all of its blocks run at once."""
    if advice and waves is not None and waves <= 1:
        return [("", "only a larger grid helps: all blocks of this grid fit on the GPU at once", "")]
    lines: list[Line] = []
    for change in advice:
        parts = []
        if change.threads_per_block is not None:
            parts.append(f"{change.threads_per_block} threads per block")
        if change.registers is not None:
            parts.append(f"at most {change.registers} registers per thread")
        if change.shared_bytes is not None:
            parts.append(f"at most {count(change.shared_bytes)} B of shared memory per block")
        assumption = "registers and shared memory unchanged" if change.threads_per_block is not None else ""
        blocks = f"{plural(change.blocks_per_sm, 'block')} per SM"
        lines.append(
            (percent(change.occupancy_pct), " and ".join(parts), "; ".join(filter(None, (blocks, assumption))))
        )
    return lines


MAX_VALUE_CHARACTERS: Final = 300
"""Longer values are cut: the shapes of an op on hundreds of tensors take thousands of characters."""

FRAMES_SHOWN: Final = 6
"""The number of source lines of a stack, innermost first; the module and file show the rest."""

_OP_SOURCES: Final = {
    "recorded": "recorded by the profiler",
    "nvtx": "a range or scope of the program",
    "inferred": "inferred from the names of kernels",
}


def op_details(spec: TableSpec, row: Mapping[str, Any], calls: OpCalls, *, kernels_ns: int | None) -> Details:
    """Return the cost of an op, its arguments, and the surrounding modules and stacks.

    Args:
        spec: The table of ops.
        row: The row of the op.
        calls: The arguments and context of its calls.
        kernels_ns: GPU time of the launches in it, each counted once.
    """
    costs = [
        (column.title, _column_value(column, row[column.name]), "")
        for column in spec.columns
        if row[column.name] is not None and column.name != "op_source"
    ]
    if kernels_ns is not None and row["gpu_total_ns"] is not None and kernels_ns != row["gpu_total_ns"]:
        note = "recursive: GPU total counts the time of inner calls twice"
        costs.insert(_index_after(costs, "gpu_total_ns"), ("  each once", duration(kernels_ns), note))
    source = [_OP_SOURCES.get(value.text, value.text) for value in calls.op_source.frequent]
    context: list[Line] = [("Op from", ", ".join(source), "")] if source else []
    context += _value_lines("Called by", calls.parent)
    context += _value_lines("Calls", calls.children)
    context += _value_lines("Forward op", calls.forward)
    context += _value_lines("Backward op", calls.backward)
    context += _value_lines("Direction", calls.direction)
    context += _value_lines("Thread", calls.thread)
    return sections(
        [
            ("", costs),
            ("Input shapes", _value_lines("", calls.input_shapes)),
            ("Data type", _value_lines("", calls.dtype)),
            ("Ran in", _value_lines("", calls.group)),
            ("Around it", context),
            ("Called from", _stacks(calls.stack)),
        ]
    )


def _index_after(lines: Sequence[Line], column: str) -> int:
    titles = [label for label, _value, _note in lines]
    return titles.index(COLUMNS[column].title) + 1


def _cut(text: str) -> str:
    """Return a long text cut, with the number of omitted characters."""
    omitted = len(text) - MAX_VALUE_CHARACTERS
    return text if omitted <= 0 else f"{text[:MAX_VALUE_CHARACTERS]}… and {count(omitted)} characters more"


def _calls(number: int) -> str:
    return plural(number, "call")


def _value_lines(label: str, values: ArgumentValues) -> list[Line]:
    """Return a line for each value, with its number of calls; the first line has the label."""
    lines = [
        (label if not index else "", _cut(value.text), _calls(value.calls))
        for index, value in enumerate(values.frequent)
    ]
    if values.others:
        lines.append(("", f"and {count(values.others)} more", ""))
    return lines


def _stacks(stacks: ArgumentValues) -> list[Line]:
    """Return the innermost source lines of each stack."""
    lines: list[Line] = []
    for value in stacks.frequent:
        frames = [frame.strip() for frame in value.text.split(";") if frame.strip()]
        shown = [_cut(frame) for frame in frames[:FRAMES_SHOWN]] or [""]
        lines += [(_calls(value.calls) if not index else "", frame, "") for index, frame in enumerate(shown)]
        if len(frames) > FRAMES_SHOWN:
            lines.append(("", f"and {len(frames) - FRAMES_SHOWN} further out", ""))
    if stacks.others:
        lines.append(("", f"and {count(stacks.others)} more stacks", ""))
    return lines
