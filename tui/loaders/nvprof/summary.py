"""Parses nvprof summaries, as text or CSV."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof import damaged_rows
from tui.loaders.nvprof.damaged_rows import RowFragment, fragments_of, rows_from
from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells
from tui.loaders.nvprof.reader_state import NvprofState, Units, is_lead, is_message
from tui.loaders.nvprof.summary_figures import (
    LABEL,
    LABELS,
    ROW,
    SummaryRow,
    add_rows,
    depth,
    identifiers,
    is_api_name,
    is_cut,
    join_name,
    may_continue,
    row_of,
    with_underscores,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.block import Line


_HEADER: Final = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_MISREAD: Final = MappingProxyType({"Ava": "Avg", "Avq": "Avg"})
"""Misreadings of a heading by text recognition."""

_HEADER_START: Final = re.compile(r"(?:Type[\s|]+)?Time\(%\)(?=\s|$|\|)")
_UNITS: Final = re.compile(r"(?:%\s+)?([num]?s)\s+([num]?s)\s+([num]?s)\s+([num]?s)")
_NEUTRAL: Final = re.compile(r"[\s|:+.\-]*|(?:```|~~~)\w*|\[\.\.\.\]|[ .]{0,8}<\s?snip\s?>[ .]{0,8}")
"""Lines without content within a table: blank lines, Markdown fences, rules, ellipses."""

_LABEL: Final = re.compile(rf"({LABEL}):\s*")
_SPLIT_NUMBER: Final = re.compile(r"\b([0-9]+) 0(\.[0-9]+[num]?s)\b")
"""A number split by copying: 142 0.36ms for 142.36ms."""

_SPLIT_BEFORE_POINT: Final = re.compile(r"(?<=[0-9])[ \t]+(?=\.[0-9]+[num]?s\b)")

_CUT: Final = re.compile(rf"(?:(?:{LABEL}):\s*)?[0-9]{{1,3}}\.(?:[0-9]?|[0-9][0-9]%?|[0-9][0-9]%\s+[0-9].*)")
"""The beginning of a truncated row."""

_NOTHING: Final = re.compile(r"\s*No (?:kernels|API activities|events/metrics) were profiled")
_SECOND_ROW: Final = re.compile(
    rf"(?:(?:{LABEL}):\s*+)?[0-9]{{1,3}}\.[0-9]+%\s++[0-9][0-9.]*[num]?s\s++[0-9]+(?:\s++[0-9][0-9.]*[num]?s){{3}}\s"
)
"""Another row after a name, because a newline is missing."""

_SECOND_BARE_ROW: Final = re.compile(
    r"(?<![0-9.])[0-9]{1,3}\.[0-9][0-9]\s++[0-9][0-9.e+-]*\s++[0-9]+(?:\s++[0-9][0-9.e+-]*){3}\s++(?=[A-Za-z_\[])"
)
"""The same for tables with a row of units."""

_NOTE: Final = re.compile(r"(?<!\s)\s{2,}(?://|<-|←|#|/\*).*")
"""A comment after a row."""

_MAX_NAME_LINES: Final = 60
_MAX_PIECES: Final = 4_000
"""The maximum number of fragments of a table; more are program output."""

_HARD_WIDTH: Final = 60
"""Shorter lines are not cut by the width of a terminal."""


def header_words(text: str) -> Sequence[str] | None:
    """Return the words of a summary's header that must follow on later lines; None if the line is no such header.

    >>> header_words("Time(%)      Time     Calls       Avg       Min       Max  Name")
    ()
    >>> header_words("Time(%) Time Calls"), header_words("Time(%)   Total Time   Instances")
    (('Avg', 'Min', 'Max', 'Name'), None)
    """
    words = text.replace("|", " ").split()
    if words[:1] == ["Type"]:
        words = words[1:]
    words = [_MISREAD.get(word, word) for word in words]
    return _HEADER[len(words) :] if words and words == list(_HEADER[: len(words)]) else None


def open_summary(line: Line, state: NvprofState) -> SummarySection | None:
    """Begin a table with its header, or with a row whose figures prove that it is one."""
    text = state.bare(line.text)
    header = _HEADER_START.search(text)
    if header is not None and is_lead(text[: header.start()]) and header_words(text[header.start() :]) is not None:
        state.note_lead(line.text, len(line.text) - len(text) + header.start())
        return SummarySection(line, state, header_words(text[header.start() :]))
    match = ROW.fullmatch(text.strip())
    whole = match is not None and row_of(match, line.number).is_consistent(state.units)
    if whole or any(piece.ends_a_row for piece in fragments_of(text, line.number)):
        section = SummarySection(line, state, None)
        section.take(line)
        return section
    return None


class SummarySection:
    """One table; its rows go to the ``summary`` frame when it ends.

    Rows that are split over several lines are stored as fragments and joined at the end of the table.
    """

    def __init__(self, line: Line, state: NvprofState, header: Sequence[str] | None) -> None:
        self._state = state
        self._first_line = self._last_line = line.number
        self.has_header = header is not None
        """Whether the table begins with its header."""
        self._header_left: Sequence[str] = header or ()
        self._misread = header is not None and any(word in _MISREAD for word in line.text.split())
        self._piped = line.text.count("|") > 2
        self._rows: list[SummaryRow] = []
        self._pieces: list[RowFragment] = []
        self._named: SummaryRow | RowFragment | None = None
        self._parts: list[Line] = []
        self._stray: Line | None = None
        self._warnings: list[tuple[int, str, str]] = []
        self._wraps: list[tuple[SummaryRow | RowFragment, list[Line]]] = []
        if self.has_header:
            state.label, state.units = "", Units()
        self._label = state.label
        self._labels = [(line.number, self._label)]

    def take(self, line: Line) -> bool:
        """Read a line of the table."""
        taken = self._take(line)
        if taken and line.text.strip():
            self._last_line = line.number
        return taken

    def _take(self, line: Line) -> bool:
        text = self._state.bare(line.text)
        if is_message(line.text) or _NOTHING.match(text):
            return False
        if self._piped:
            text = text.replace("|", " ")
        text = text.strip()
        if _NEUTRAL.fullmatch(text):
            self._end_name()
            return True
        if self._header_left and self._take_header(text.split()):
            return True
        if _HEADER_START.search(text) or (self._stray is not None and not ROW.fullmatch(text)):
            return False
        if self._take_units(text) or self._take_row(text, line) or self._take_name(line):
            return True
        return self._take_piece(text, line) or self._take_stray(text, line) or self._take_cut(text, line)

    def _take_header(self, words: Sequence[str]) -> bool:
        """Read more words of a header that is split over lines, in any order."""
        read = [_MISREAD.get(word, word) for word in words]
        if len(set(read)) < len(read) or not set(read) <= set(self._header_left):
            return False
        self._header_left = [word for word in self._header_left if word not in read]
        self._misread = True
        return True

    def _take_units(self, text: str) -> bool:
        match = _UNITS.fullmatch(text)
        if match is None or self._rows:
            return False
        self._state.units = Units(*match.groups())
        return True

    def _take_row(self, text: str, line: Line) -> bool:
        match = ROW.fullmatch(text)
        is_repaired = match is None
        if is_repaired:
            match = ROW.fullmatch(_SPLIT_BEFORE_POINT.sub("", _SPLIT_NUMBER.sub(r"\1\2", text)))
        if match is None:
            return False
        row = row_of(match, line.number)
        if is_repaired:
            row.repairs.append("spaces removed from the numbers")
            together = "".join(row.name.split())
            if together != row.name and is_api_name(together):
                row.name = together
                row.repairs.append("and from the name")
            if not row.is_consistent(self._state.units):
                return False
        if not row.time_pct.endswith("%") and not (self.has_header or row.is_consistent(self._state.units)):
            return False
        if self._stray is not None:
            words = f"this line is between two rows: the name above it, {self._rows[-1].name}, may be truncated"
            self._warnings.append((self._stray.number, self._stray.text.strip(), words))
            self._stray = None
        if match["label"]:
            self._begin_group(match["label"], line)
        row.section = self._label
        self._rows.append(row)
        note = _NOTE.search(row.name)
        if note is not None and _SECOND_ROW.search(row.name) is None:
            row.name = row.name[: note.start()]
            row.repairs.append(f"note after the name removed: {note[0].strip()}")
        second = (_SECOND_ROW if self._state.units.total is None else _SECOND_BARE_ROW).search(row.name)
        if second is None:
            self._begin_name(row, line)
            return True
        rest, row.name = row.name[second.start() :].strip(), row.name[: second.start()].strip()
        row.repairs.append("separated from another row on the same line")
        return self._take_row(rest, line)

    def _take_piece(self, text: str, line: Line) -> bool:
        label = _LABEL.match(text)
        if label is not None:
            self._begin_group(label[1], line)
            text = text[label.end() :]
            if not text:
                return True
        pieces = fragments_of(text, line.number) if len(self._pieces) < _MAX_PIECES else ()
        if not pieces or (pieces[0].kinds == "N" and not self._pieces):
            return False
        self._pieces.extend(pieces)
        if pieces[-1].name:
            self._begin_name(pieces[-1], line)
        return True

    def _begin_group(self, label: str, line: Line) -> None:
        self._label = label
        self._labels.append((line.number, label))

    def _take_stray(self, text: str, line: Line) -> bool:
        """Read a word below an API row; it is the rest of the row's name if another row follows."""
        above = self._rows[-1] if self._rows else None
        if above is None or above.line != line.number - 1 or not is_api_name(above.name) or not text.isalnum():
            return False
        self._stray = line
        return True

    def _take_cut(self, text: str, line: Line) -> bool:
        """Read the rest of a row directly below the header or another row."""
        if not (
            _CUT.fullmatch(text) or damaged_rows.like_summary_row(text, with_units=self._state.units.total is None)
        ):
            return False
        if self._last_line != line.number - 1:
            return False
        self._warnings.append((line.number, text, damaged_rows.SUMMARY))
        return True

    def _begin_name(self, named: SummaryRow | RowFragment, line: Line) -> None:
        self._end_name()
        if is_cut(named.name):
            self._named, self._parts = named, [line]

    def _take_name(self, line: Line) -> bool:
        """Read a line that continues the name of the row above, whose brackets are open."""
        named = self._named
        if named is None or fragments_of(line.text, line.number) or not may_continue(line.text):
            return False
        self._parts.append(line)
        joined = join_name([named.name, *(self._state.bare(part.text) for part in self._parts[1:])], hard=False)
        if depth(joined) < 0 or len(self._parts) > _MAX_NAME_LINES:
            self._parts.pop()
            self._end_name()
            return False
        if not is_cut(joined):
            self._end_name()
        return True

    def _end_name(self) -> None:
        """Store the lines of a complete name; lines after an unfinished name are not part of it."""
        if self._named is not None and len(self._parts) > 1:
            self._wraps.append((self._named, self._parts))
        self._named, self._parts = None, []

    def close(self) -> None:
        """Join the fragments, and add the rows to the collector."""
        self._end_name()
        self._join_names()
        repaired = rows_from(self._pieces)
        for row in repaired.rows:
            row.section = next((label for line, label in reversed(self._labels) if line <= row.line), "")
        rows = sorted([*self._rows, *repaired.rows], key=lambda row: row.line)
        if self._misread or repaired.rows or any(not self._is_hard(parts) for _, parts in self._wraps):
            self._restore_underscores(rows)
        self._name_sections(rows)
        add_rows(self._state, rows, self._state.units, first_line=self._first_line, has_header=self.has_header)
        self._report(repaired.left)
        self._state.label = self._label

    def _is_hard(self, parts: Sequence[Line]) -> bool:
        """Return whether the lines of a name were cut at the width of a terminal: all but the last are equally long."""
        widths = {len(part.text) for part in parts[:-1]}
        others = {len(part.text) for _, other in self._wraps for part in other[:-1]}
        return len(others) == 1 and widths == others and max(widths) >= _HARD_WIDTH

    def _join_names(self) -> None:
        for named, parts in self._wraps:
            texts = [self._state.bare(part.text) for part in parts[1:]]
            name = join_name([named.name, *texts], hard=self._is_hard(parts))
            if is_cut(name):
                words = "the name of this row is truncated, and the lines below do not complete it: used as printed"
                self._warnings.append((parts[0].number, parts[0].text.strip(), words))
                continue
            named.name = name
            if isinstance(named, SummaryRow):
                named.repairs.append(f"name joined from lines {parts[0].number} to {parts[-1].number}")

    def _restore_underscores(self, rows: Sequence[SummaryRow]) -> None:
        known = sorted(self._state.identifiers.union(*(identifiers(row.name) for row in rows)))
        for row in rows:
            name = with_underscores(row.name, known)
            if name != row.name and row.section != "Range":
                row.name = name
                row.repairs.append("underscores restored in the name, where C++ allows no space")

    def _name_sections(self, rows: Sequence[SummaryRow]) -> None:
        """Set the section of each row: by its label, the heading above the table, or the names."""
        state = self._state
        unlabelled = [row for row in rows if not row.section]
        by_name = not state.heading_known and all(is_api_name(row.name) for row in unlabelled)
        for row in rows:
            row.section = LABELS[row.section] if row.section else "api" if by_name else state.heading
            own_label = len(self._labels) > 1 and row.line >= self._labels[1][0]
            if row.section == "api" and not (self.has_header or own_label or is_api_name(row.name)):
                row.section = "gpu"  # quoted below the table: the label above is not its own

    def _report(self, left: Sequence[Sequence[RowFragment]]) -> None:
        """Report fragments that form no consistent row, and other doubtful lines."""
        for pieces in left:
            if all(piece.kinds in ("N", "T") and not piece.name for piece in pieces):
                continue
            first, last = pieces[0], pieces[-1]
            where = "this line" if first is last else f"lines {first.line} to {last.line}"
            words = (
                f"{where} seems to be part of a summary row, but its values do not form a whole row (calls x "
                "average = total): skipped"
                if first is last
                else (
                    f"{where} seem to be parts of summary rows, but their values do not form whole rows (calls x "
                    "average = total): skipped"
                )
            )
            self._warnings.append((first.line, " ".join(" ".join(piece.text.split()) for piece in pieces), words))
        for line, text, words in self._warnings:
            self._state.ensure_session(line)
            self._state.collector.issue("warning", line, text, words)


_SUMMARY: Final = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")

_FIGURE: Final = r"[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
_ROW: Final = re.compile(rf'(?:"[^"]*",)?{_FIGURE},{_FIGURE},[0-9]+,{_FIGURE},{_FIGURE},{_FIGURE},')
"""A line that looks like a row, with or without indentation."""

_CUT_ROW: Final = re.compile(rf'"[^"]*",{_FIGURE},{_FIGURE},[0-9]+(?:,{_FIGURE})*,?')
"""A row that ends before its name."""

_BETWEEN_ROWS: Final = re.compile(rf'(?<=")(?=(?:"[A-Z]\w+ [^"]*",)?{_FIGURE},{_FIGURE},[0-9]+,{_FIGURE},{_FIGURE},)')
_MIN_CELLS: Final = 4
"""The minimum number of cells of a damaged row; lines with fewer are program output."""


def open_summary_csv(line: Line, state: NvprofState) -> SummaryCsvSection | None:
    """Begin a table with its header, quoted as nvprof writes it or not."""
    text = state.bare(line.text)
    start = min((at for at in (text.find('"'), text.find("Time(%)"), text.find("Type,")) if at >= 0), default=-1)
    if start < 0 or "," not in text or not is_lead(text[:start]):
        return None
    columns = tuple(csv_cells(text[start:]))
    if columns not in (_SUMMARY, ("Type", *_SUMMARY)):
        return None
    state.note_lead(line.text, len(line.text) - len(text) + start)
    return SummaryCsvSection(line, state, columns)


def resume_summary_csv(line: Line, state: NvprofState) -> SummaryCsvSection | None:
    """Continue a table after program output; rows without a header are reported and omitted."""
    if state.collector.session is None or not _ROW.match(state.bare(line.text)):
        return None
    section = SummaryCsvSection(line, state, state.csv_columns, state.csv_units, has_header=False)
    section.take(line)
    return section


class SummaryCsvSection:
    """One summary table in CSV; the second line gives a unit for each column."""

    def __init__(
        self,
        line: Line,
        state: NvprofState,
        columns: Sequence[str],
        units: Units | None = None,
        *,
        has_header: bool = True,
    ) -> None:
        self._state = state
        self._first_line = line.number
        self._columns = columns
        self._units = units
        self._has_header = has_header
        self._rows: list[SummaryRow] = []
        self._damaged: list[Line] = []
        self._open_names: list[Line] = []
        state.csv_columns = columns

    def take(self, line: Line) -> bool:
        """Read a row, or two rows if a newline is missing."""
        text = self._state.bare(line.text).strip()
        if is_message(line.text):
            return False
        if not text:
            return True
        taken = [self._take_row(part, line) for part in _BETWEEN_ROWS.split(text)]
        return any(taken)

    def _take_row(self, text: str, line: Line) -> bool:
        cells = csv_cells(text)
        width = len(self._columns)
        if width and len(cells) > width:
            # Unquoted names are split at their commas; the name is the last column.
            cells[width - 1 :] = [",".join(text.split(",")[width - 1 :])]
        cell = dict(zip(self._columns, cells, strict=False)) if len(cells) == width else {}
        if cell and self._units is None and not self._rows and not cell["Name"] and cell["Time"] in NS_PER_UNIT:
            self._units = Units(cell["Time"], *(cell[column] or None for column in ("Avg", "Min", "Max")))
            self._state.csv_units = self._units
            return True
        if not cell or not (cell["Calls"].isdecimal() and cell["Time"][:1].isdecimal()):
            is_row = _ROW.match(text) or _CUT_ROW.fullmatch(text) or text.count(",") >= width - 1 > 0
            if len(cells) < _MIN_CELLS or not is_row:
                return False
            self._damaged.append(line)
            return True
        if text.count('"') % 2:
            self._open_names.append(line)
        label = LABELS.get(cell.get("Type", ""), "")
        self._rows.append(
            SummaryRow(
                cell["Time(%)"],
                cell["Time"],
                cell["Calls"],
                cell["Avg"],
                cell["Min"],
                cell["Max"],
                cell["Name"],
                line.number,
                label or self._state.heading,
            )
        )
        return True

    def close(self) -> None:
        """Add the rows to the collector."""
        units = self._units or Units()
        add_rows(self._state, self._rows, units, first_line=self._first_line, has_header=self._has_header)
        for line in self._open_names:
            reason = "the name of this row has no closing quotation mark and is truncated; its values are used"
            self._state.collector.issue("warning", line.number, line.text.strip(), reason)
        if self._damaged:
            first = self._damaged[0]
            self._state.ensure_session(first.number)
            rows = "this summary row" if len(self._damaged) == 1 else f"{len(self._damaged)} summary rows"
            reason = (
                f"{rows} in CSV skipped: a cell is damaged"
                if self._columns
                else f"{rows} in CSV skipped: the header is missing"
            )
            self._state.collector.issue("warning", first.number, first.text.strip(), reason)
