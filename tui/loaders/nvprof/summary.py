"""Parses nvprof summaries, as text or CSV."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof import damaged_rows
from tui.loaders.nvprof.damaged_rows import RowFragment, join_fragments, parse_fragments
from tui.loaders.nvprof.numbers import NS_PER_UNIT, csv_cells
from tui.loaders.nvprof.reader_state import NvprofState, Units, is_line_prefix, is_message
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
    parse_row,
    restore_underscores,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.text.block import Line


_HEADER: Final = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_MISREAD: Final = MappingProxyType({"Ava": "Avg", "Avq": "Avg"})
"""Misreadings of a heading by text recognition."""

_HEADER_START: Final = re.compile(r"(?:Type[\s|]+)?Time\(%\)(?=\s|$|\|)")
_UNITS: Final = re.compile(r"(?:%\s+)?([num]?s)\s+([num]?s)\s+([num]?s)\s+([num]?s)")
_BLANK_LINE: Final = re.compile(r"[\s|:+.\-]*|(?:```|~~~)\w*|\[\.\.\.\]|[ .]{0,8}<\s?snip\s?>[ .]{0,8}")
"""Lines without content within a table: blank lines, Markdown fences, rules, ellipses."""

_LABEL: Final = re.compile(rf"({LABEL}):\s*")
_SPLIT_NUMBER: Final = re.compile(r"\b([0-9]+) 0(\.[0-9]+[num]?s)\b")
"""A number split by copying: 142 0.36ms for 142.36ms."""

_SPLIT_BEFORE_POINT: Final = re.compile(r"(?<=[0-9])[ \t]+(?=\.[0-9]+[num]?s\b)")

_TRUNCATED_ROW: Final = re.compile(rf"(?:(?:{LABEL}):\s*)?[0-9]{{1,3}}\.(?:[0-9]?|[0-9][0-9]%?|[0-9][0-9]%\s+[0-9].*)")
"""The beginning of a truncated row."""

_NOTHING_PROFILED: Final = re.compile(r"\s*No (?:kernels|(?:API|OpenACC) activities|events/metrics) were profiled")
_SECOND_ROW: Final = re.compile(
    rf"(?:(?:{LABEL}):\s*+)?[0-9]{{1,3}}\.[0-9]+%\s++[0-9][0-9.]*[num]?s\s++[0-9]+(?:\s++[0-9][0-9.]*[num]?s){{3}}\s"
)
"""Another row after a name, because a newline is missing."""

_SECOND_UNITLESS_ROW: Final = re.compile(
    r"(?<![0-9.])[0-9]{1,3}\.[0-9][0-9]\s++[0-9][0-9.e+-]*\s++[0-9]+(?:\s++[0-9][0-9.e+-]*){3}\s++(?=[A-Za-z_\[])"
)
"""The same for tables with a row of units."""

_NOTE: Final = re.compile(r"(?<!\s)\s{2,}(?://|<-|←|#|/\*).*")
"""A comment after a row."""

_MAX_NAME_LINES: Final = 60
_MAX_FRAGMENTS: Final = 4_000
"""The maximum number of fragments of a table; more are program output."""

_MIN_HARD_WRAP_WIDTH: Final = 60
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
    text = state.without_prefix(line.text)
    header = _HEADER_START.search(text)
    if (
        header is not None
        and is_line_prefix(text[: header.start()])
        and header_words(text[header.start() :]) is not None
    ):
        state.note_prefix(line.text, len(line.text) - len(text) + header.start())
        return SummarySection(line, state, header_words(text[header.start() :]))
    match = ROW.fullmatch(text.strip())
    is_consistent = match is not None and parse_row(match, line.number).is_consistent(state.units)
    if is_consistent or any(fragment.is_row_end for fragment in parse_fragments(text, line.number)):
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
        self._missing_header_words: Sequence[str] = header or ()
        self._misread = header is not None and any(word in _MISREAD for word in line.text.split())
        self._has_pipes = line.text.count("|") > 2
        self._rows: list[SummaryRow] = []
        self._fragments: list[RowFragment] = []
        self._unfinished: SummaryRow | RowFragment | None = None
        self._name_lines: list[Line] = []
        self._stray: Line | None = None
        self._warnings: list[tuple[int, str, str]] = []
        self._wraps: list[tuple[SummaryRow | RowFragment, list[Line]]] = []
        if self.has_header:
            state.label, state.units = "", Units()
        self._label = state.label
        self._labels = [(line.number, self._label)]

    def take(self, line: Line) -> bool:
        """Read a line of the table."""
        is_read = self._take(line)
        if is_read and line.text.strip():
            self._last_line = line.number
        return is_read

    def _take(self, line: Line) -> bool:
        text = self._state.without_prefix(line.text)
        if is_message(line.text) or _NOTHING_PROFILED.match(text):
            return False
        if self._has_pipes:
            text = text.replace("|", " ")
        text = text.strip()
        if _BLANK_LINE.fullmatch(text):
            self._end_name()
            return True
        if self._missing_header_words and self._take_header(text.split()):
            return True
        if _HEADER_START.search(text) or (self._stray is not None and not ROW.fullmatch(text)):
            return False
        if self._take_units(text) or self._take_row(text, line) or self._take_name(line):
            return True
        return self._take_fragments(text, line) or self._take_stray(text, line) or self._take_truncated(text, line)

    def _take_header(self, words: Sequence[str]) -> bool:
        """Read more words of a header that is split over lines, in any order."""
        normalized = [_MISREAD.get(word, word) for word in words]
        if len(set(normalized)) < len(normalized) or not set(normalized) <= set(self._missing_header_words):
            return False
        self._missing_header_words = [word for word in self._missing_header_words if word not in normalized]
        self._misread = True
        return True

    def _take_units(self, text: str) -> bool:
        match = _UNITS.fullmatch(text)
        if match is None or self._rows:
            return False
        self._state.units = Units(*match.groups())
        return True

    def _take_row(self, text: str, line: Line) -> bool:
        """Read a whole row, and another one on the same line if a newline is missing."""
        match = ROW.fullmatch(text)
        is_repaired = match is None
        if is_repaired:
            match = ROW.fullmatch(_SPLIT_BEFORE_POINT.sub("", _SPLIT_NUMBER.sub(r"\1\2", text)))
        if match is None:
            return False
        row = parse_row(match, line.number)
        if is_repaired:
            row.repairs.append("spaces removed from the numbers")
            compact = "".join(row.name.split())
            if compact != row.name and is_api_name(compact):
                row.name = compact
                row.repairs.append("and from the name")
            if not row.is_consistent(self._state.units):
                return False
        if not row.time_pct.endswith("%") and not (self.has_header or row.is_consistent(self._state.units)):
            return False
        if self._stray is not None:
            reason = f"this line is between two rows: the name above it, {self._rows[-1].name}, may be truncated"
            self._warnings.append((self._stray.number, self._stray.text.strip(), reason))
            self._stray = None
        if match["label"]:
            self._begin_group(match["label"], line)
        row.section = self._label
        self._rows.append(row)
        note = _NOTE.search(row.name)
        if note is not None and _SECOND_ROW.search(row.name) is None:
            row.name = row.name[: note.start()]
            row.repairs.append(f"note after the name removed: {note[0].strip()}")
        second = (_SECOND_ROW if self._state.units.total is None else _SECOND_UNITLESS_ROW).search(row.name)
        if second is None:
            self._begin_name(row, line)
            return True
        second_text, row.name = row.name[second.start() :].strip(), row.name[: second.start()].strip()
        row.repairs.append("separated from another row on the same line")
        return self._take_row(second_text, line)

    def _take_fragments(self, text: str, line: Line) -> bool:
        label = _LABEL.match(text)
        if label is not None:
            self._begin_group(label[1], line)
            text = text[label.end() :]
            if not text:
                return True
        fragments = parse_fragments(text, line.number) if len(self._fragments) < _MAX_FRAGMENTS else ()
        if not fragments or (fragments[0].kinds == "N" and not self._fragments):
            return False
        self._fragments.extend(fragments)
        if fragments[-1].name:
            self._begin_name(fragments[-1], line)
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

    def _take_truncated(self, text: str, line: Line) -> bool:
        """Read the rest of a row directly below the header or another row."""
        if not (
            _TRUNCATED_ROW.fullmatch(text)
            or damaged_rows.looks_like_summary_row(text, has_units=self._state.units.total is None)
        ):
            return False
        if self._last_line != line.number - 1:
            return False
        self._warnings.append((line.number, text, damaged_rows.SUMMARY))
        return True

    def _begin_name(self, owner: SummaryRow | RowFragment, line: Line) -> None:
        self._end_name()
        if is_cut(owner.name):
            self._unfinished, self._name_lines = owner, [line]

    def _take_name(self, line: Line) -> bool:
        """Read a line that continues the name of the row above, whose brackets are open."""
        owner = self._unfinished
        if owner is None or parse_fragments(line.text, line.number) or not may_continue(line.text):
            return False
        self._name_lines.append(line)
        joined = join_name(
            [owner.name, *(self._state.without_prefix(name_line.text) for name_line in self._name_lines[1:])],
            is_hard_wrapped=False,
        )
        if depth(joined) < 0 or len(self._name_lines) > _MAX_NAME_LINES:
            self._name_lines.pop()
            self._end_name()
            return False
        if not is_cut(joined):
            self._end_name()
        return True

    def _end_name(self) -> None:
        """Store the lines of a complete name; lines after an unfinished name are not part of it."""
        if self._unfinished is not None and len(self._name_lines) > 1:
            self._wraps.append((self._unfinished, self._name_lines))
        self._unfinished, self._name_lines = None, []

    def close(self) -> None:
        """Join the fragments, and add the rows to the collector."""
        self._end_name()
        self._join_names()
        joined = join_fragments(self._fragments)
        for row in joined.rows:
            row.section = next((label for line, label in reversed(self._labels) if line <= row.line), "")
        rows = sorted([*self._rows, *joined.rows], key=lambda row: row.line)
        if self._misread or joined.rows or any(not self._is_hard_wrapped(name_lines) for _, name_lines in self._wraps):
            self._restore_underscores(rows)
        self._name_sections(rows)
        add_rows(self._state, rows, self._state.units, first_line=self._first_line, has_header=self.has_header)
        self._report(joined.unmatched)
        self._state.label = self._label

    def _is_hard_wrapped(self, name_lines: Sequence[Line]) -> bool:
        """Return whether the lines of a name were cut at the width of a terminal: all but the last are equally long."""
        widths = {len(name_line.text) for name_line in name_lines[:-1]}
        all_widths = {len(name_line.text) for _, other_lines in self._wraps for name_line in other_lines[:-1]}
        return len(all_widths) == 1 and widths == all_widths and max(widths) >= _MIN_HARD_WRAP_WIDTH

    def _join_names(self) -> None:
        for owner, name_lines in self._wraps:
            texts = [self._state.without_prefix(name_line.text) for name_line in name_lines[1:]]
            name = join_name([owner.name, *texts], is_hard_wrapped=self._is_hard_wrapped(name_lines))
            if is_cut(name):
                reason = "the name of this row is truncated, and the lines below do not complete it: used as printed"
                self._warnings.append((name_lines[0].number, name_lines[0].text.strip(), reason))
                continue
            owner.name = name
            if isinstance(owner, SummaryRow):
                owner.repairs.append(f"name joined from lines {name_lines[0].number} to {name_lines[-1].number}")

    def _restore_underscores(self, rows: Sequence[SummaryRow]) -> None:
        known_identifiers = sorted(self._state.identifiers.union(*(identifiers(row.name) for row in rows)))
        for row in rows:
            name = restore_underscores(row.name, known_identifiers)
            if name != row.name and row.section != "Range":
                row.name = name
                row.repairs.append("underscores restored in the name, where C++ allows no space")

    def _name_sections(self, rows: Sequence[SummaryRow]) -> None:
        """Set the section of each row: by its label, the heading above the table, or the names."""
        state = self._state
        unlabelled = [row for row in rows if not row.section]
        is_api_by_name = not state.is_heading_known and all(is_api_name(row.name) for row in unlabelled)
        for row in rows:
            row.section = LABELS[row.section] if row.section else "api" if is_api_by_name else state.heading
            has_label_below = len(self._labels) > 1 and row.line >= self._labels[1][0]
            if row.section == "api" and not (self.has_header or has_label_below or is_api_name(row.name)):
                row.section = "gpu"  # quoted below the table: the label above is not its own

    def _report(self, groups: Sequence[Sequence[RowFragment]]) -> None:
        """Report fragments that form no consistent row, and other doubtful lines."""
        for fragments in groups:
            if all(fragment.kinds in ("N", "T") and not fragment.name for fragment in fragments):
                continue
            first, last = fragments[0], fragments[-1]
            lines_text = "this line" if first is last else f"lines {first.line} to {last.line}"
            reason = (
                f"{lines_text} seems to be part of a summary row, but its values do not form a whole row (calls x "
                "average = total): skipped"
                if first is last
                else (
                    f"{lines_text} seem to be parts of summary rows, but their values do not form whole rows (calls x "
                    "average = total): skipped"
                )
            )
            self._warnings.append(
                (first.line, " ".join(" ".join(fragment.text.split()) for fragment in fragments), reason)
            )
        for line, text, reason in self._warnings:
            self._state.ensure_session(line)
            self._state.collector.issue("warning", line, text, reason)


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
    text = state.without_prefix(line.text)
    start = min(
        (position for position in (text.find('"'), text.find("Time(%)"), text.find("Type,")) if position >= 0),
        default=-1,
    )
    if start < 0 or "," not in text or not is_line_prefix(text[:start]):
        return None
    columns = tuple(csv_cells(text[start:]))
    if columns not in (_SUMMARY, ("Type", *_SUMMARY)):
        return None
    state.note_prefix(line.text, len(line.text) - len(text) + start)
    return SummaryCsvSection(line, state, columns)


def resume_summary_csv(line: Line, state: NvprofState) -> SummaryCsvSection | None:
    """Continue a table after program output; rows without a header are reported and omitted."""
    if state.collector.session is None or not _ROW.match(state.without_prefix(line.text)):
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
        text = self._state.without_prefix(line.text).strip()
        if is_message(line.text):
            return False
        if not text:
            return True
        are_read = [self._take_row(row_text, line) for row_text in _BETWEEN_ROWS.split(text)]
        return any(are_read)

    def _take_row(self, text: str, line: Line) -> bool:
        """Read a row, the units below the header, or a damaged row, which is counted."""
        cells = csv_cells(text)
        width = len(self._columns)
        if width and len(cells) > width:
            # Unquoted names are split at their commas; the name is the last column.
            cells[width - 1 :] = [",".join(text.split(",")[width - 1 :])]
        cells_by_column = dict(zip(self._columns, cells, strict=False)) if len(cells) == width else {}
        if (
            cells_by_column
            and self._units is None
            and not self._rows
            and not cells_by_column["Name"]
            and cells_by_column["Time"] in NS_PER_UNIT
        ):
            self._units = Units(
                cells_by_column["Time"], *(cells_by_column[column] or None for column in ("Avg", "Min", "Max"))
            )
            self._state.csv_units = self._units
            return True
        if not cells_by_column or not (
            cells_by_column["Calls"].isdecimal() and cells_by_column["Time"][:1].isdecimal()
        ):
            is_row = _ROW.match(text) or _CUT_ROW.fullmatch(text) or text.count(",") >= width - 1 > 0
            if len(cells) < _MIN_CELLS or not is_row:
                return False
            self._damaged.append(line)
            return True
        if text.count('"') % 2:
            self._open_names.append(line)
        label = LABELS.get(cells_by_column.get("Type", ""), "")
        self._rows.append(
            SummaryRow(
                cells_by_column["Time(%)"],
                cells_by_column["Time"],
                cells_by_column["Calls"],
                cells_by_column["Avg"],
                cells_by_column["Min"],
                cells_by_column["Max"],
                cells_by_column["Name"],
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
