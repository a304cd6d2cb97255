"""Reads the reports that ``nsys stats`` prints or writes: CSV, TSV, JSON and text tables, of 2019 to 2025.

One text can hold many reports, of one or several runs. They are stored while the text is read and converted at the end
(`tui.loaders.nsys_stats.build_stats_frames`), since several reports cover the same time.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.nsys_stats.build_stats_frames import FIGURE_COLUMNS, build_frames, figures_frame
from tui.loaders.nsys_stats.stats_reports import (
    CUE,
    FIRST_CELL,
    FORMAT_NAME,
    TITLES,
    StatsHeader,
    StatsReport,
    StatsRun,
    StatsState,
    parse_header,
    read_rows,
    with_base_units,
)
from tui.loaders.text.block import Line, lines_as_strings
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import (
    LINE_COLUMN,
    MAX_STRAY_LINES,
    TRAILING_COMMENT,
    CellValues,
    TableSink,
    TextFormat,
    decimal_separator,
    markdown_cells,
)
from tui.model.errors import ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.loaders.collector import Collector
    from tui.loaders.text.block import Block
    from tui.loaders.text.section import Section


_RULE: Final = re.compile(r"[\s|+\u2500-\u257f-]*[-\u2500\u2501]{2,}[\s|+\u2500-\u257f-]*")
_DASHES: Final = re.compile(r"-+")
_GAP: Final = re.compile(r"\s{2,}")
_NUMBER: Final = re.compile(r"\s*+[|]?\s*+-?[0-9][0-9.,]*[%\u2026]?(?:\s|$|\|)")
_TRUNCATED: Final = r"^-?[0-9][0-9.,]*\x{2026}$"
"""A number of which nsys prints only the first digits, because a column has the width of its first hundred rows."""
_WHOLE_NUMBER_COLUMNS: Final = ("time", "totaltime", "start", "apistart", "total", "pid")
"""First columns that are numbers: a line without one is no row."""

_BLANK_CELL_COLUMNS: Final = frozenset({"gridxyz", "blockxyz"})
"""Columns whose cells contain blanks, which need column edges."""


_THOUSANDS: Final = r"['\x{2019}\x{202f} ]"
"""Thousands separators of locales, besides commas and points."""
_GROUPED: Final = rf"^[0-9]{{1,3}}(?:{_THOUSANDS}[0-9]{{3}})+(?:[.,][0-9]+)?$"


def _plain_numbers(cells: pl.DataFrame) -> pl.DataFrame:
    """Return cells with decimal points, and with no thousands separators but commas.

    nsys prints numbers in the user's locale.
    """
    texts = pl.col(cells.columns[:-1])  # not the names
    cells = cells.with_columns(pl.col("^time$").str.strip_suffix("%")).with_columns(
        pl.when(texts.str.contains(_GROUPED)).then(texts.str.replace_all(_THOUSANDS, "")).otherwise(texts)
    )
    numbers = pl.concat([column.rename("") for column in cells.get_columns()[:-1]]).drop_nulls().unique()
    if decimal_separator(numbers) != ",":
        return cells
    plain = texts.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return cells.with_columns(pl.when(texts.str.contains(r"^[0-9.,]+$")).then(plain).otherwise(texts))


class StatsTextTable:
    """A text table whose column edges are those of the dashes below its header."""

    def __init__(self, columns: Sequence[str], sink: TableSink, *, boxed: bool, end_pattern: re.Pattern[str]) -> None:
        """Read rows below a header.

        Args:
            columns: The names of the columns.
            sink: Gets the rows.
            boxed: Whether cells are separated by bars.
            end_pattern: Matches the beginning of a line that is not of this table.
        """
        self._columns = tuple(columns)
        self._sink = sink
        self._boxed = boxed
        self._end_pattern = end_pattern
        self._edges: list[tuple[int, int]] = []
        self._rows: list[list[str | None]] = []
        self._lines: list[int] = []
        self._stray = 0
        self._blank = False

    def take(self, line: Line) -> bool:
        """Read one line."""
        text = line.text
        if self._end_pattern.match(text):
            return False
        if not text.strip():
            self._blank = bool(self._rows)
            return True
        if _RULE.fullmatch(text):
            if not self._boxed and not self._rows:
                edges = [match.span() for match in _DASHES.finditer(text)]
                self._edges = edges if len(edges) == len(self._columns) else []
            return True
        cells = self._cells(text)
        if cells is not None:
            self._rows.append([cell.strip() or None for cell in cells])
            self._lines.append(line.number)
            self._stray, self._blank = 0, False
            return True
        if parse_header(text) is not None:
            return False
        if _NUMBER.match(text) and self._columns[0] in _WHOLE_NUMBER_COLUMNS:
            reason = f"expected {len(self._columns)} columns, but the cells are not aligned with them: row skipped"
            self._sink.damaged(line, reason)
            return True
        self._stray += 1
        return not self._blank and self._stray <= MAX_STRAY_LINES

    def _cells(self, text: str) -> list[str] | None:
        """Return the cells of a row; None if the line is no row."""
        width = len(self._columns)
        boxed = markdown_cells(text) if self._boxed else []
        if self._columns[0] in _WHOLE_NUMBER_COLUMNS and not _NUMBER.match(boxed[0] if boxed else text):
            return None
        if boxed:
            boxed[width - 1 :] = ["|".join(boxed[width - 1 :])] if len(boxed) >= width else []
            return boxed if len(boxed) == width else None
        if self._edges:
            split = self._split_by_edges(text)
            if split is not None:
                return split
        if _BLANK_CELL_COLUMNS & set(self._columns):
            return None
        cells = _GAP.split(text.strip(), width - 1)
        return cells if len(cells) == width else None

    def _split_by_edges(self, text: str) -> list[str] | None:
        name_start = self._edges[-1][0]
        if len(text) <= name_start or text[: self._edges[0][0]].strip():
            return None
        for (_, end), (begin, _) in zip(self._edges, self._edges[1:], strict=False):
            if text[end:begin].strip():
                return None
        name = text[name_start:]
        if len(text) > self._edges[-1][1]:
            name = TRAILING_COMMENT.sub("", name)
        return [*(text[begin:end] for begin, end in self._edges[:-1]), name]

    def _without_truncated(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Return cells without truncated numbers; without any start, where one is truncated: the others mislead."""
        is_truncated = cells[:, :-1].select(pl.all().str.contains(_TRUNCATED).fill_null(False))
        truncated = [column for column in is_truncated if column.any()]
        if not truncated:
            return cells
        first = min(int(column.arg_max() or 0) for column in truncated)
        has_no_starts = any(column.name.endswith("start") for column in truncated)
        count = sum(int(column.sum()) for column in truncated)
        unknown_starts = ", as are all start times" if has_no_starts else ""
        reason = (
            f"nsys truncated {plural(count, 'number')} of this table, here first: shown as unknown{unknown_starts}; "
            "print it as CSV: nsys stats --format csv"
        )
        text = next(cells[column.name][first] for column in truncated if column[first])
        self._sink.damaged(Line(text, self._lines[first]), reason)
        unknown = {column.name: cells[column.name].set(column, None) for column in truncated}
        if has_no_starts:
            starts = (name for name in cells.columns if name.endswith("start") or name == "end")
            unknown |= {name: cells[name].clear(cells.height) for name in starts}
        return cells.with_columns(**unknown)

    def close(self) -> None:
        """Do nothing: rows are converted when all reports are read."""
        if self._rows:
            cells = pl.DataFrame(self._rows, schema=dict.fromkeys(self._columns, pl.String), orient="row")
            cells = self._without_truncated(cells)
            self._sink.add(_plain_numbers(cells).with_columns(pl.Series(LINE_COLUMN, self._lines, pl.UInt32)))
        self._sink.close()


_JSON_CELL: Final = r'^"((?:[^"\\]|\\.)*)": ("(?:[^"\\]|\\.)*"|[^",\s]+),?$'
_JSON_LINE: Final = r'^(?:"|[{}],?$)'


class _JsonTable:
    """Rows as JSON, each cell on a line of its own (``nsys stats --format json``)."""

    def __init__(self, open_report: Callable[[StatsHeader, Line], _StatsSink], line: Line) -> None:
        self._open_report = open_report
        self._first_line = line
        self._first_row: list[tuple[str, str, int]] = []
        self._cells: list[pl.DataFrame] = []
        self._header: StatsHeader | None = None
        self._sink: _StatsSink | None = None
        self.take(line)

    def take(self, line: Line) -> bool:
        """Read a line of the first row, whose titles identify the report, or any other line."""
        text = line.text.strip()
        if self._sink is not None:
            return self._add(pl.Series([text]), line.number) == 1
        cell = re.fullmatch(_JSON_CELL, text)
        if cell is not None:
            self._first_row.append((cell[1], cell[2], line.number))
            return len(self._first_row) <= _MAX_COLUMNS
        if text not in ("}", "},"):
            return False
        self._header = parse_header(",".join(f'"{title}"' for title, _, _ in self._first_row))
        if self._header is None:
            return False
        self._sink = self._open_report(self._header, self._first_line)
        schema = {"title": pl.String, "value": pl.String, LINE_COLUMN: pl.UInt32}
        self._cells = [pl.DataFrame(self._first_row, schema, orient="row")]
        return True

    def take_block(self, block: Block, start: int) -> int:
        """Read all further lines."""
        if self._sink is None:
            return start
        return start + self._add(lines_as_strings(block, start, block.line_count), block.first_line + start)

    def _add(self, lines: pl.Series, first_number: int) -> int:
        """Keep the cells of the lines before the first that is not of a row; return how many lines these are."""
        lines = lines.str.strip_chars()
        is_other = ~lines.str.contains(_JSON_LINE)
        count = int(is_other.arg_max() or 0) if is_other.any() else len(lines)
        cells = (
            lines.head(count).str.extract_groups(_JSON_CELL).struct.rename_fields(["title", "value"]).struct.unnest()
        )
        numbers = pl.int_range(first_number, first_number + count, dtype=pl.UInt32, eager=True)
        self._cells.append(cells.with_columns(numbers.alias(LINE_COLUMN)).drop_nulls("title"))
        return count

    def close(self) -> None:
        """Read the rows that have all cells."""
        if self._sink is None or self._header is None:
            return
        titles = [title for title, _, _ in self._first_row]
        row = (pl.col("title") == titles[0]).cum_sum()
        cells = pl.concat(self._cells).with_columns(row=row).with_columns(column=pl.int_range(pl.len()).over("row"))
        expected = pl.col("column").replace_strict(dict(enumerate(titles)), default=None, return_dtype=pl.String)
        is_complete = ((pl.col("title") == expected).fill_null(False).all() & (pl.len() == len(titles))).over("row")
        cells = cells.with_columns(is_complete=is_complete)
        for number, text in (
            cells.filter(~pl.col("is_complete"))
            .unique("row", keep="first", maintain_order=True)
            .select(LINE_COLUMN, pl.format('"{}": {}', "title", "value"))
            .iter_rows()
        ):
            self._sink.damaged(Line(text, number), f"expected a row of {len(titles)} cells: row skipped")
        cells = cells.filter("is_complete")
        values = cells["value"]
        texts = values.filter(values.str.starts_with('"')).str.json_decode(pl.String)
        values = values.set(values == "null", None).scatter(values.str.starts_with('"').arg_true(), texts)
        values = values.set(values == "", None)
        if cells.height:
            columns = {name: values.gather_every(len(titles), at) for at, name in enumerate(self._header.columns)}
            self._sink.add(pl.DataFrame({**columns, LINE_COLUMN: cells[LINE_COLUMN].gather_every(len(titles))}))
        self._sink.close()


_MAX_COLUMNS: Final = 64


FORMAT: Final = Format(
    name=FORMAT_NAME,
    title="nsys stats reports",
    recognized_by="the header of a report: 'Time (%),Total Time (ns),Instances,…', 'Start (ns),Duration (ns),CorrId', "
    "or 'Time  Total Time  Instances  …' as copied from nsys-ui",
    feeds=("sessions", "devices", "activities", "api_calls", "ops", "ranges", "summary", "tool_figures", "issues"),
    record_with="nsys stats --format csv --report cuda_gpu_trace --report cuda_api_trace --output - run.nsys-rep",
)

_HEADING: Final = re.compile(
    r"\s*(?:Processing|Running|Exporting) \[(?P<first>[^\]]*)\](?: with \[(?P<second>[^\]]*)\](?:\([^()]{0,40}\))?)?"
    r"(?: to .*?)?\s*\.\.\.(?P<rest>.*)"
)
"""The line above a report, which can have arguments: ``with [/opt/cuda_gpu_kern_sum.py](base)...``."""
_TITLE: Final = re.compile(r"\s*\*\* (?P<title>[^*].*) \((?P<report>[a-z][a-z0-9_]{2,60})(?::[^()]{0,40})?\):\s*")
_EXECUTING: Final = re.compile(
    r"\s*\[[0-9]+/[0-9]+\] Executing '(?P<report>[a-z][a-z0-9_]{2,60})' stats report(?P<rest>.*)"
)
_STATISTICS: Final = re.compile(
    r"\s*(?P<what>(?:CUDA|cuda) (?:API|Kernel|Memory Operation)|Operating System Runtime API|NVTX [A-Za-z /-]{1,40}|"
    r"OpenACC [A-Za-z ]{1,40}|OpenMP [A-Za-z ]{1,40}) Statistics(?: \([^()]{1,30}\))?:?\s*"
)
"""The titles of versions up to 2021."""
_SKIPPED: Final = re.compile(r"\s*SKIPPED: (?P<why>.*)")
_NO_DATA: Final = re.compile(r"\s*Report was successfully run, but no data was returned\.\s*")
_VERSION: Final = re.compile(r"(?i)nsight[- ]systems(?:-cli)?[-/ ]([0-9]{4}(?:\.[0-9]+){1,3})")
_END_OF_TABLE: Final = re.compile(
    r"\s*(?:(?:Processing|Running|Exporting) \[|\*\* .*\):|SKIPPED: |==[0-9]+==|={8}|[IWEF][0-9]{4} [0-9][0-9]:"
    r"|Generating |NOTICE: |\[[0-9]+/[0-9]+\] |[A-Zc][A-Za-z /-]{2,60} Statistics(?: \(|:|\s*$))"
)
_HEADER_LIKE: Final = re.compile(r".*\((?:ns|us|ms|s|sec|nsec|%|MB|MB/s)\).*")

_REPORTS_BY_TITLE: Final = (
    (re.compile(r"osrt|Operating System"), "os_sum"),
    (re.compile(r"(?i)openacc"), "openacc_sum"),
    (re.compile(r"(?i)openmp"), "openmp_sum"),
    (re.compile(r"vulkan|dx1[12]|khr|wddm|mpi_|ucx|syscall|network|nvvideo"), "other"),
)
"""Reports with the same header as another one, by nsys's name."""

_IN_FILE_NAME: Final = re.compile(
    r"(?:^|[_.-])(?P<report>(?:osrt|openacc|openmp|vulkan|dx1[12]|opengl_khr|khrdebug|wddm|mpi|ucx|syscall|nvvideo)"
    r"(?:_?(?:api|event|evt|gpu|markers?|pix|queue|range))*_?sum)(?=[._]|$)"
)
"""A report's name at the end of a file name, after the name of the recording."""


_COARSE_UNITS: Final = ("us", "usec", "ms", "msec", "s", "sec")
_MAY_BE_ZERO: Final = ("start", "end", "stddev")


class _StatsSink:
    """Parses the rows of one report as they are read, and stores them."""

    def __init__(self, state: StatsState, run: StatsRun, report: StatsReport) -> None:
        self._state = state
        self._run = run
        self._report = report
        self._header = report.header
        self._has_zeros = False

    def add(self, cells: pl.DataFrame) -> None:
        self._state.collector.resume_session(self._run.session)
        cells, self._report.header = with_base_units(cells, self._header)
        values = CellValues(self._without_zeros(cells), self._state.collector)
        read = figures_frame if self._report.kind in FIGURE_COLUMNS else read_rows
        self._report.rows.append(read(self._report.kind, self._report.header, values))
        self._run.session.last_line = max(self._run.session.last_line or 0, int(cells["line"][-1]))

    def _without_zeros(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Return cells without times that are rounded to 0, as in seconds with four decimals."""
        units = dict(zip(self._header.columns, self._header.units, strict=True))
        times = [name for name, unit in units.items() if unit in _COARSE_UNITS and not name.endswith(_MAY_BE_ZERO)]
        is_zero = cells.select(pl.col(times).cast(pl.String).str.contains(r"^0\.0*$").fill_null(False))
        if not any(column.any() for column in is_zero):
            return cells
        if not self._has_zeros:
            self._has_zeros = True
            reason = (
                f"{self._report.title} has rounded times ({units[times[0]]}): those printed as 0 are unknown; print "
                "nanoseconds: nsys stats --timeunit nsec"
            )
            self._state.collector.issue("warning", self._report.line, "", reason)
        return cells.with_columns(pl.when(~is_zero[name]).then(pl.col(name)).alias(name) for name in times)

    def damaged(self, line: Line, reason: str) -> None:
        self._state.collector.resume_session(self._run.session)
        self._state.collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Do nothing: a heading has no rows."""


def report_in_title(text: str) -> str | None:
    """Return the report that a title names.

    >>> report_in_title(" ** CUDA API Summary (cuda_api_sum):"), report_in_title("CUDA API Statistics (nanoseconds)")
    ('cuda_api_sum', 'CUDA API Statistics')
    """
    if match := _TITLE.fullmatch(text):
        return match["report"]
    match = _STATISTICS.fullmatch(text)
    return f"{match['what']} Statistics" if match else None


class _Heading:
    """The lines between the name of a report and its header."""

    def __init__(self, state: StatsState) -> None:
        self._state = state

    def take(self, line: Line) -> bool:
        text = line.text
        if match := _SKIPPED.match(text):
            report_skipped(self._state, line, match["why"])
            return True
        if title := report_in_title(text):
            self._state.title = title
            return True
        if _NO_DATA.fullmatch(text):
            self._state.skipped = self._state.skipped or "the recording has no data for it"
            return True
        if not text.strip():
            return True
        if parse_header(text) is None and _HEADER_LIKE.fullmatch(text) and not _HEADING.match(text):
            self._report_unknown(line)
            return True
        return False

    def _report_unknown(self, line: Line) -> None:
        state = self._state
        if state.current is not None:
            state.collector.resume_session(state.current.session)
        name = f"the report {state.title}" if state.title else "this report"
        state.collector.issue("info", line.number, line.text.strip(), f"{name} is not supported: see the log")
        state.title = None

    def close(self) -> None:
        """A heading has no rows."""


def report_skipped(state: StatsState, line: Line, reason: str) -> None:
    """Report that nsys skipped a report."""
    if state.current is not None:
        state.collector.resume_session(state.current.session)
    name = f"the report {state.title}" if state.title else "a report"
    explanation = re.sub(r"^.*? does not contain ", "the recording does not contain ", reason.strip())
    state.collector.issue("info", line.number, line.text.strip(), f"nsys skipped {name}: {explanation}")
    state.title, state.skipped = None, state.skipped or explanation


class _StatsReader:
    """Reads the output of nsys stats in one text."""

    def __init__(self, collector: Collector) -> None:
        self._state = StatsState(collector)
        name_match = _IN_FILE_NAME.search(PurePosixPath(collector.source).name)
        self._file_title = name_match["report"] if name_match else None

    def begin(self, line: Line) -> Section | bool:
        """Open a section at a line that names a report, or at a header."""
        if match := _HEADING.match(line.text):
            return self._heading(match, line)
        if match := _EXECUTING.fullmatch(line.text):
            self._state.title = match["report"]
            if skipped_match := _SKIPPED.match(match["rest"]):
                report_skipped(self._state, line, skipped_match["why"])
            return _Heading(self._state)
        if title := report_in_title(line.text):
            self._state.title = title
            return _Heading(self._state)
        if _JSON_CUE.match(line.text):
            return _JsonTable(self._report, line)
        header = parse_header(line.text)
        return False if header is None else self._table(header, line)

    def _heading(self, match: re.Match[str], line: Line) -> Section | bool:
        """Open a report: ``Processing [x.sqlite] with [.../report.py]`` or ``Exporting [.../report.py x.sqlite]``."""
        first, second = match["first"], match["second"]
        if second is None:
            script, _, database = first.partition(".py ")
            if not database:
                return False
        else:
            script, database = second, first
        state = self._state
        if version := _VERSION.search(script):
            state.tool_version = version[1]
        state.database = database.strip()
        state.title = PureWindowsPath(script.split(".py")[0]).name[:80]  # splits at / and \
        if skipped_match := _SKIPPED.match(match["rest"]):
            report_skipped(state, line, skipped_match["why"])
            return True
        return _Heading(state)

    def _report(self, header: StatsHeader, line: Line) -> _StatsSink:
        """Begin a report of the current run, or of a new one."""
        state = self._state
        title = state.title or self._file_title
        state.title = None
        kind = header.report
        if title and kind in ("api_sum", "count_sum", "nvtx_sum", "nvtx_pushpop_sum", "kern_sum"):
            kind = next((kind for pattern, kind in _REPORTS_BY_TITLE if pattern.search(title)), kind)
        run = state.run(line.number, kind, title)
        report = StatsReport(header, kind, title or TITLES.get(kind, kind), line.number)
        if run.reports and not run.reports[-1].rows:
            # For example a header that is printed twice.
            run.reports.pop()
        run.reports.append(report)
        return _StatsSink(state, run, report)

    def _table(self, header: StatsHeader, line: Line) -> Section:
        sink = self._report(header, line)
        if header.separator in (None, "|"):
            return StatsTextTable(header.columns, sink, boxed=header.separator == "|", end_pattern=_END_OF_TABLE)
        is_name_last = header.columns[-1] in ("name", "range", "operation", "kernelname")
        return CsvTable(
            header.columns,
            sink,
            separator=header.separator,
            header=FIRST_CELL,
            end_pattern=_END_OF_TABLE,
            last_is_text=is_name_last,
            integer_columns=header.integer_columns,
        )

    def finish(self) -> None:
        """Add the rows of all reports.

        Raises:
            ProftuiError: nsys printed no row of any report, and the text has nothing else.
        """
        collector = self._state.collector
        if self._state.skipped and not collector.sessions:
            problem = f"nsys stats printed no rows of a report: {self._state.skipped}"
            raise ProftuiError(f"{collector.source}: {problem}", "open the .sqlite export or the .nsys-rep itself")
        for run in self._state.runs:
            self._state.collector.resume_session(run.session)
            build_frames(run, self._state.collector)


_JSON_CUE: Final = re.compile(
    r'[ \t]*"(?:Time ?\(%\)|(?:API )?Start(?: Time)? ?\([a-z]+\)|Total \([KMG]?i?B\)|NVTX Range)": '
    r'|    "(?:Name|PID|Range|Total)": '
)
"""The first cell of the first row as JSON."""

NSYS_STATS: Final = TextFormat(
    FORMAT,
    (
        "^(?:"
        + CUE
        + f"|{_JSON_CUE.pattern}"
        + r"|[ \t]*(?:Processing|Running|Exporting) \[|[ \t]*\*\* .+ \([a-z][a-z0-9_]+(?::[^()]*)?\):"
        + r"|[ \t]*\[[0-9]+/[0-9]+\] Executing '|[ \t]*[A-Zc][A-Za-z /-]{2,60} Statistics(?: \(|:|[ \t]*$))"
    ).encode(),
    _StatsReader,
)
"""The format, for the list of text formats."""
