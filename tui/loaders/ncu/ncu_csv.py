"""Reads what Nsight Compute prints: the pages details, raw and summary as CSV (``ncu --csv``) and as text.

Program output and the tool's own lines (``==PROF==``) can precede it. Each profiled process is a session.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.ncu.ncu_launches import (
    ISOLATED_TIMES,
    LABELED_METRIC,
    TOOL,
    add_launches,
    add_summary,
    grids_in_blocks,
    with_base_units,
    with_grid_columns,
    with_plain_metrics,
)
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import (
    LINE_COLUMN,
    MAX_STRAY_LINES,
    TRAILING_COMMENT,
    TextFormat,
    split_cells,
    unique_names,
)
from tui.model.errors import ProftuiError
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tui.loaders.collector import Collector, Session, Value
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section

FORMAT: Final = Format(
    name="ncu-csv",
    title="Nsight Compute CSV or text",
    recognized_by="""the header '"ID","Process ID","Process Name","Host Name","Kernel Name",…' of ncu --csv, or """
    """'"ID",…,"Function Name",…' with units in brackets of ncu-ui, """
    "or lines 'kernel (1, 1, 1)x(256, 1, 1), Context 1, Stream 7' of its text",
    feeds=("sessions", "devices", "activities", "summary", "metrics", "tool_figures", "tool_findings", "issues"),
    record_with="ncu --set full --csv --page raw ./app > run.csv, or: ncu --import run.ncu-rep --csv --page details",
)

_MESSAGE: Final = re.compile(r"\s*==(?P<kind>PROF|WARNING|ERROR)== (?P<text>.*)")
_CONNECTED: Final = re.compile(r"Connected to process (?P<pid>[0-9]{1,10})(?: \((?P<command>.*)\))?\s*")
_FIRST_CELL: Final = re.compile(r"ID|Process ID|Kernel Name|Domain")
_ENDS: Final = re.compile(r"\s*(?:==\w+==|={8}|[IWEF][0-9]{4} [0-9][0-9]:)")


class _NcuSink:
    """Stores the rows of a page as text until all pages are read: the whole text decides the decimal separator."""

    def __init__(self, page: Page, collector: Collector) -> None:
        self._page = page
        self._collector = collector
        self._other_width = 0  # cells of a table within the page, such as that of NUMA affinities

    def add(self, cells: pl.DataFrame) -> None:
        self._page.rows.append(cells)

    def damaged(self, line: Line, reason: str) -> None:
        cells = split_cells(line.text, self._page.separator)
        if len(cells) > 1 and not any(cell[:1].isdecimal() or not cell for cell in cells):
            self._other_width = len(cells)
        if len(cells) != self._other_width:
            self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Do nothing: rows are converted at the end of the text."""


@dataclass(slots=True)
class _ProfiledProcess:
    """One profiled process."""

    session: Session
    kernels: dict[str, str] = field(default_factory=dict)
    """Names by launch id: the same id with another name belongs to another run."""
    parts: list[pl.DataFrame] = field(default_factory=list)
    """Rows in long form."""


class _NcuReader:
    """Reads the output of Nsight Compute in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._pages: list[Page] = []
        self._commands: dict[str, str] = {}
        self._text_page = _TextPage(self._pages, collector)
        self._section: Section | None = None
        """The last page, which continues below a warning."""
        self._first_message: Line | None = None
        self._failure = ""
        """Why no kernel was profiled: the first message that is an error, or says so."""

    def begin(self, line: Line) -> Section | bool:
        """Report a message of the tool, or open the page that a header begins."""
        if match := _MESSAGE.match(line.text):
            self._first_message = self._first_message or line
            is_failure = match["kind"] == "ERROR" or match["text"].startswith("No kernels were profiled")
            self._failure = self._failure or (match["text"].strip() if is_failure else "")
            if match["kind"] != "PROF":
                # A note is about the setup of the run: no data is lost.
                note = match["text"].startswith("Note: ")
                severity = "error" if match["kind"] == "ERROR" else "info" if note else "warning"
                self._collector.issue(severity, line.number, line.text.strip(), f"Nsight Compute: {match['text']}")
            elif connected := _CONNECTED.fullmatch(match["text"]):
                self._commands[connected["pid"]] = connected["command"] or ""
            self._section = self._section if match["kind"] == "WARNING" else None
            return self._section or True
        page = parse_page_header(line)
        if page is None:
            if not self._text_page.take(line):
                return False
            self._section = self._text_page
            return self._section
        if self._pages and not self._pages[-1].rows and self._pages[-1].kind == page.kind:
            # A header that is printed twice.
            self._pages.pop()
        self._pages.append(page)
        sink = _NcuSink(page, self._collector)
        self._section = CsvTable(
            page.columns,
            sink,
            separator=page.separator,
            header=_FIRST_CELL,
            end_pattern=_ENDS,
            widths=page.widths,
        )
        return self._section

    def finish(self) -> None:
        """Add all pages to the collector."""
        if not self._pages:
            self._report_console_output()
            return
        processes: list[_ProfiledProcess] = []
        is_text = all(page.is_text for page in self._pages)
        pages_of_launches = [page.frame for page in self._pages if page.kind != "summary" and page.rows]
        launched = {pid for rows in pages_of_launches if "Process ID" in rows for pid in rows["Process ID"].unique()}
        for page in self._pages:
            if not page.rows:
                self._report_empty(page)
            elif page.kind == "summary":
                self._add_summary(page, launched)
            else:
                self._take_launches(page, processes)
        for process in processes:
            self._collector.resume_session(process.session)
            rows = pl.concat(process.parts)
            if len(process.parts) > 1:  # a page can be there twice
                rows = rows.unique(pl.exclude(LINE_COLUMN), keep="first", maintain_order=True)
            first = int(rows["line"][0])
            rows = with_base_units(grids_in_blocks(rows), ("value",), self._collector, first, is_text=is_text)
            rows = with_grid_columns(rows)
            add_launches(rows, self._collector)
            self._collector.issue("info", first, "", ISOLATED_TIMES)

    def _report_console_output(self) -> None:
        """Report output of the tool without metrics: an error if the text has nothing else, otherwise an issue."""
        if self._first_message is None:
            return
        if not self._collector.sessions and self._failure:
            raise ProftuiError(
                f"{self._collector.source}: Nsight Compute profiled no kernel: {self._failure[:200]}",
                "profile again: ncu --target-processes all --set full --csv --page raw ./app > run.csv",
            )
        if not self._collector.sessions:
            raise ProftuiError(
                f"{self._collector.source}: output of Nsight Compute without a page of metrics",
                "print a page: ncu --import run.ncu-rep --csv --page raw",
            )
        reason = "output of Nsight Compute (ncu) without a page of metrics: not read"
        self._collector.issue("info", self._first_message.number, self._first_message.text.strip(), reason)

    def _open_session(self, line: int, pid: str | None, rows: pl.DataFrame) -> Session:
        """Open the session of a process, with the command and host in its rows."""
        number = int(pid) if pid and re.fullmatch(r"[0-9]{1,18}", pid) else None
        command = self._commands.get(pid or "") or rows["process"].drop_nulls().first()
        session = self._collector.open_session(
            FORMAT.name, line, pid=number, command=command if isinstance(command, str) else None
        )
        session.facts["tool"] = TOOL
        host = rows["host"].drop_nulls().first()
        if isinstance(host, str):
            session.facts["host"] = host
        return session

    def _report_empty(self, page: Page) -> None:
        if not self._collector.sessions:
            self._collector.open_session(FORMAT.name, page.line).facts["tool"] = TOOL
        reason = (
            f"the {page.kind} page has no rows: the report lacks its sections; use --page raw, or profile with ncu "
            "--set full"
        )
        self._collector.issue("warning", page.line, "", reason)

    def _take_launches(self, page: Page, processes: list[_ProfiledProcess]) -> None:
        """Add the rows of a page to the processes that they are of; pages of one run share its launch ids."""
        rows = long_form(page, self._collector)
        for (pid,), process_rows in rows.group_by(["pid"], maintain_order=True):
            kernels = dict(process_rows.select("id", "kernel").unique(maintain_order=True).drop_nulls().iter_rows())
            number = pid if isinstance(pid, str) else None
            process = next((known for known in processes if _is_same_process(known, number, kernels)), None)
            if process is None:
                process = _ProfiledProcess(self._open_session(page.line, number, process_rows))
                processes.append(process)
            process.kernels |= kernels
            process.parts.append(process_rows)

    def _add_summary(self, page: Page, launched: Collection[str | None]) -> None:
        """Add each process of a summary page as a session, except those whose launches are on other pages."""
        rows = summary_rows(page, self._collector)
        if rows.is_empty() and not self._collector.sessions:
            self._collector.open_session(FORMAT.name, page.line).facts["tool"] = TOOL
        for (pid,), process_rows in rows.group_by(["pid"], maintain_order=True):
            if pid in launched and process_rows["range"].null_count() == process_rows.height:
                reason = "the summary page repeats launches of another page: skipped, so that they count once"
                self._collector.issue("info", page.line, "", reason)
                continue
            self._open_session(page.line, pid if isinstance(pid, str) else None, process_rows)
            add_summary(
                with_grid_columns(with_base_units(process_rows, ("min", "max", "avg"), self._collector, page.line)),
                self._collector,
            )
            self._collector.issue("info", page.line, "", ISOLATED_TIMES)


def _is_same_process(process: _ProfiledProcess, pid: str | None, kernels: dict[str, str]) -> bool:
    """Return whether the launches of another page are of the same process."""
    shared = process.kernels.keys() & kernels.keys()
    same_pid = process.session.pid is None or pid is None or str(process.session.pid) == pid
    return same_pid and all(process.kernels[launch] == kernels[launch] for launch in shared)


NCU_CSV: Final = TextFormat(
    FORMAT,
    (
        rb'^[ \t]*==(?:PROF|WARNING|ERROR)== |^[ \t]*"?(?:ID|Process ID|Kernel Name|Domain)"?[,\t]'
        rb"|\([0-9]+, [0-9]+, [0-9]+\)x\([0-9]+, [0-9]+, [0-9]+\)|, Context [0-9]+, Stream [0-9]+"
        rb"|\[[0-9]+\] [^@]*@\S+[ \t]*$|, Block Size [0-9]+, Grid Size [0-9]+, |^[ \t/#>*|]*Section: \S"
    ),
    _NcuReader,
)
"""The format, for the list of text formats."""


LAUNCH: Final = MappingProxyType(
    {
        "ID": "id",
        "Process ID": "pid",
        "Process Name": "process",
        "Host Name": "host",
        "Kernel Name": "kernel",
        "Context": "context",
        "Stream": "stream",
        "Block Size": "block",
        "Grid Size": "grid",
        "Device": "device",
        "CC": "cc",
    }
)
"""Columns about the launch, which every page can have."""

_DETAILS: Final = MappingProxyType(
    {
        "Section Name": "section",
        "Body Item Label": "item",
        "Metric Name": "metric",
        "Metric Unit": "unit",
        "Metric Value": "value",
        "Rule Name": "rule",
        "Rule Type": "rule_type",
        "Rule Description": "rule_text",
        "Estimated Speedup Type": "speedup_type",
        "Estimated Speedup": "speedup",
    }
)
_SUMMARY: Final = MappingProxyType(
    {
        "Invocations": "invocations",
        "Section Name": "section",
        "Metric Name": "metric",
        "Metric Unit": "unit",
        "Minimum": "min",
        "Maximum": "max",
        "Average": "avg",
        "Domain": "domain",
        "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg": "range",
    }
)

_EXPORTED_TITLES: Final = MappingProxyType(
    {
        "Process": "Process Name",
        "Cycles": "Elapsed Cycles",
        "Compute Throughput": "Compute (SM) Throughput",
        "# Registers": "Registers Per Thread",
    }
)
"""Titles of tables that the graphical interface exports, by the names of the other pages."""
_EXPORTED_NAMES: Final = ("Demangled Name", "Function Name")
"""The titles of the kernels' names there; the first is used."""
_TITLE_UNIT: Final = re.compile(r"(?P<title>.*\S) \[(?P<unit>[^\[\]]*)\]")

LONG: Final = (*LAUNCH.values(), *(name for name in _DETAILS.values() if name != "item"), LINE_COLUMN)
"""Columns of a page of launches in long form, all text but the line."""

_MAX_HEADER: Final = 1 << 20


@dataclass(slots=True)
class Page:
    """One table."""

    kind: str
    """details, raw or summary."""
    columns: tuple[str, ...]
    """The columns of the header, made distinct."""
    line: int
    widths: tuple[int, ...] = ()
    """Other possible numbers of cells of a row."""
    units: Mapping[str, str | None] = field(default_factory=dict)
    """The units of a raw page, by column, if its titles have them instead of its first row."""
    separator: str = ","
    is_text: bool = False
    """Whether it is printed text, not CSV."""
    rows: list[pl.DataFrame] = field(default_factory=list)
    """Cells as text."""

    @property
    def frame(self) -> pl.DataFrame:
        """All rows as text."""
        schema = {**dict.fromkeys(self.columns, pl.String), LINE_COLUMN: pl.UInt32}
        return pl.concat(self.rows) if self.rows else pl.DataFrame(schema=schema)


def parse_page_header(line: Line) -> Page | None:
    """Return the page that begins with this header line; None for other lines."""
    text = line.text.strip()
    has_name = "Kernel Name" in text or "Function Name" in text
    if len(text) > _MAX_HEADER or not (has_name or ("Metric Name" in text and "Average" in text)):
        return None
    separator = "\t" if "\t" in text else ","
    cells = split_cells(text, separator)
    columns_present = set(cells)
    if _FIRST_CELL.fullmatch(cells[0]) is None or len(cells) != len(columns_present):
        return None
    if {"ID", "Function Name"} <= columns_present:
        return _exported_page(cells, line, separator)
    if separator == "\t":
        return None
    if {"Metric Name", "Metric Value"} <= columns_present:
        min_cells = cells.index("Metric Value") + 1
        return Page("details", tuple(unique_names(cells)), line.number, tuple(range(min_cells, len(cells) + 1)))
    if {"Metric Name", "Average"} <= columns_present:
        return Page("summary", tuple(unique_names(cells)), line.number)
    if "ID" in columns_present and any("__" in cell for cell in cells):
        return Page("raw", tuple(unique_names(cells)), line.number)
    return None


def _exported_page(cells: Sequence[str], line: Line, separator: str) -> Page | None:
    """Return the page of a table exported or copied from the graphical interface, with units in the titles, or None."""
    matches = [_TITLE_UNIT.fullmatch(cell) for cell in cells]
    titles = [match["title"] if match else cell for match, cell in zip(matches, cells, strict=True)]
    renames = {**_EXPORTED_TITLES, next(name for name in _EXPORTED_NAMES if name in titles): "Kernel Name"}
    columns = unique_names([renames.get(title, title) for title in titles])
    units = {column: match["unit"] for column, match in zip(columns, matches, strict=True) if match}
    return Page("raw", tuple(columns), line.number, units=units, separator=separator) if units else None


def long_form(page: Page, collector: Collector) -> pl.DataFrame:
    """Return the rows of a details or raw page: one for each metric of each launch, columns of `LONG`."""
    frame = page.frame
    renames = LAUNCH | _DETAILS if page.kind == "details" else LAUNCH
    if page.kind == "raw":
        frame = _unpivot(frame, page)
        renames = dict(renames) | {"metric": "metric", "unit": "unit", "value": "value"}
    else:
        _report_other_metrics(page, renames, collector)
    rows = with_plain_metrics(_rename_columns(frame, renames, (*LONG, "item")))
    has_ids = rows.is_empty() or rows["id"].null_count() < rows.height
    return rows if has_ids else _with_inferred_ids(rows, page, collector)


def _with_inferred_ids(rows: pl.DataFrame, page: Page, collector: Collector) -> pl.DataFrame:
    """Return the rows of a page without launch ids, with inferred ones: a launch has each metric once."""
    keys = ["pid", "kernel", "metric", "section"]
    times_before = pl.when(pl.col("metric").is_not_null()).then(pl.int_range(pl.len()).over(keys))
    launch = pl.struct("pid", "kernel", times_before.forward_fill()).rank("dense") - 1
    reason = "the page has no launch IDs: inferred, each repeated metric of a kernel begins another launch"
    collector.issue("info", page.line, "", reason)
    return rows.with_columns(launch.cast(pl.String).alias("id"))


def summary_rows(page: Page, collector: Collector) -> pl.DataFrame:
    """Return the rows of a summary page as text."""
    renames = LAUNCH | _SUMMARY | {"Device Id": "device"}
    _report_other_metrics(page, renames, collector)
    rows = _rename_columns(page.frame, renames, (*LAUNCH.values(), *_SUMMARY.values(), LINE_COLUMN))
    rows = rows.with_columns(pl.coalesce(pl.col("metric").str.extract(LABELED_METRIC), "metric").alias("metric"))
    is_aligned = pl.all_horizontal(
        pl.col("pid", "invocations", "cc").str.contains(r"^[0-9][0-9.,]*$").fill_null(True),
        pl.col("cc").str.contains("[.,]").fill_null(True),
        pl.col("metric").str.contains(r"^[^0-9(%]").fill_null(False),
        pl.col("avg").is_not_null(),
    )
    # Nsight Compute 2019 prints the sections of a kernel again below each further one.
    rows = rows.unique(pl.exclude("section", LINE_COLUMN), keep="first", maintain_order=True)
    aligned, shifted = rows.filter(is_aligned), rows.filter(~is_aligned)
    if shifted.height:
        reason = (
            f"the cells of {plural(shifted.height, 'row')} are not below their titles: skipped; print the summaries of "
            "kernels instead: ncu --import run.ncu-rep --csv --page raw --print-summary per-kernel"
        )
        collector.issue("warning", int(shifted["line"][0]), "", reason)
    return aligned


def _report_other_metrics(page: Page, known_columns: Mapping[str, str], collector: Collector) -> None:
    # The time of a kernel is that of the clock, in whole seconds.
    if other_metrics := [name for name in page.columns if name not in known_columns and name != "Kernel Time"]:
        reason = "unknown columns, shown in the log only"
        collector.issue("info", page.line, ", ".join(other_metrics), reason)


def _rename_columns(
    frame: pl.DataFrame, renames: MappingProxyType[str, str] | dict[str, str], columns: Sequence[str]
) -> pl.DataFrame:
    frame = frame.select(
        pl.col(name).alias(renames.get(name, name)) for name in frame.columns if name in renames or name == LINE_COLUMN
    )
    return frame.select(
        pl.col(name) if name in frame.columns else pl.lit(None, pl.String).alias(name) for name in columns
    )


def _unpivot(frame: pl.DataFrame, page: Page) -> pl.DataFrame:
    """Convert a wide page to long form; its titles have the units, or its first row, without an id."""
    unit_row = frame.head(1).filter(pl.col("ID").is_null())
    units = {name: unit_row[name][0] for name in page.columns} if unit_row.height else page.units
    metrics = [name for name in page.columns if name not in LAUNCH and name not in _EXPORTED_NAMES]
    index = [name for name in page.columns if name in LAUNCH]
    long = (
        frame.filter(pl.col("ID").is_not_null())
        .with_row_index("row")
        .unpivot(metrics, index=["row", *index, LINE_COLUMN], variable_name="metric", value_name="value")
        .filter(pl.col("value").is_not_null())
        .sort("row", maintain_order=True)
        .drop("row")
    )
    if not units:
        return long.with_columns(pl.lit(None, pl.String).alias("unit"))
    unit = pl.col("metric").replace_strict(list(units), list(units.values()), default=None, return_dtype=pl.String)
    return long.with_columns(unit.alias("unit"))


# --- text -------------------------------------------------------------------------------------------------------------

_MAX_TEXT: Final = 20_000
"""The longest line of a text page in characters."""
_PASTED: Final = " \t/#>*|"
"""Characters in front of the lines of a page in a comment or a quote."""
_TITLES: Final = re.compile(r"Metric Name +Metric Unit +(?:Metric Value|Minimum +Maximum +Average)")
"""The titles of a table; of a raw page above its only line of dashes."""
_TABLE_NAME: Final = re.compile(r"Table Name : (?P<name>\S.*)")
_DEVICE: Final = re.compile(r"Device (?P<device>[0-9]{1,9})(?:, CC (?P<cc>[0-9]{1,3}\.[0-9]))?")
"""The line above the summaries of a GPU's kernels."""
_PROCESS: Final = re.compile(r"\[(?P<pid>[0-9]{1,18})\] (?P<process>[^@]*)@(?P<host>\S+)")
_SIZE: Final = r"\(([0-9]{1,10}, [0-9]{1,10}, [0-9]{1,10})\)"
_KERNEL: Final = re.compile(
    rf"(?P<kernel>.+?)(?P<shape> {_SIZE}x{_SIZE}|, Block Size [0-9]{{1,19}}, Grid Size [0-9]{{1,19}})?"
    r"(?:, [0-9]{4}-\w{3}-[0-9]{2} [0-9:]{8})?"
    r"(?:, Context (?P<context>[0-9]{1,9}))?(?:, Stream (?P<stream>[0-9]{1,18}))?(?:, Device (?P<device>[0-9]{1,9}))?"
    r"(?:, CC (?P<cc>[0-9]{1,3}\.[0-9]))?(?:, (?:Invocations )?(?P<invocations>[0-9.,]{1,20})(?: invocations)?)?"
)
"""The line above the metrics of a launch or, with a number of invocations, of all launches of a kernel.

Until 2021, summaries have numbers of threads and blocks instead of the shapes.
"""
_SECTION: Final = re.compile(r"Section: (?P<section>\S.*)")
_DASHES: Final = re.compile(r"-{2,}(?: -{2,})*")
_RULE: Final = re.compile(r"(?P<type>WRN|OPT|INF|ERR|OK) {2,}(?P<text>\S.*)")
_SPEEDUP: Final = re.compile(r"Est\. (?P<local>Local )?Speedup: (?P<speedup>[0-9.,]{1,12})%\s*")
_VALUES: Final = {"details": ("Metric Value",), "summary": ("Minimum", "Maximum", "Average")}
"""Titles of the columns of numbers, which follow those of the name and the unit."""
_MAX_RULE_LINES: Final = 50
"""The maximum number of lines of a finding; what follows is program output."""


class _TextPage:
    """Launches with the sections of their metrics, or a summary of the launches of each kernel."""

    def __init__(self, pages: list[Page], collector: Collector) -> None:
        self._pages = pages
        self._collector = collector
        self._launch_counts: Counter[str | None] = Counter()
        """The number of launches by process."""
        self._process: dict[str, str | None] = {}
        self._launches: list[dict[str, str | None]] = []
        """The cells of launches; the last one is the current one, also for sections after other output."""
        self._kind = "details"
        self._in_launch = False
        self._first_line = 0
        self._section: str | None = None
        self._lead = ""  # what precedes the title of the section
        self._table_name: str | None = None
        self._prefix = 0
        """The number of characters before the first column."""
        self._spans: list[tuple[int, int]] = []
        """Begin and end of the columns, by the lines of dashes; empty between tables."""
        self._table_rows = 0
        self._title_lines = 0  # since the last table
        self._rule: list[str] | None = None
        """The lines of the finding that may continue in the next line."""
        self._findings: list[tuple[dict[str, Value], list[str]]] = []
        """The rows of findings, and their lines."""
        self._metrics: dict[str, list[tuple[Value, ...]]] = {kind: [] for kind in _VALUES}
        """Index of the launch, line, section, table, name, unit and values, by kind of the page."""
        self._stray = 0

    def take(self, line: Line) -> bool:
        """Read the line of a process or a launch, a title, a line of dashes, a metric or a finding."""
        if len(line.text) > _MAX_TEXT or _MESSAGE.match(line.text):
            return False
        text = line.text.strip(_PASTED)
        if self._begin_launch(text) or (self._in_launch and self._take_metric(text, line)):
            self._first_line = self._first_line or line.number
            if text:
                self._stray = 0
            return True
        self._stray += 1
        return bool(self._spans) and self._stray <= MAX_STRAY_LINES

    def _begin_launch(self, text: str) -> bool:
        """Read the line of a process, or of a launch."""
        if process := _PROCESS.fullmatch(text):
            self._process = {
                "Process ID": process["pid"],
                "Process Name": process["process"].strip() or None,
                "Host Name": process["host"],
            }
            self._in_launch = False
        elif (device := _DEVICE.fullmatch(text)) and (device["cc"] or not self._in_launch or self._kind == "summary"):
            self._process |= {"Device": device["device"], "CC": device["cc"]}
            self._in_launch = False
        elif (
            (")x(" in text or ", Context " in text or ", Block Size " in text)
            and (match := _KERNEL.fullmatch(text))
            and (match["shape"] or (match["context"] and match["stream"]))
        ):
            self._kind = "summary" if match["invocations"] else "details"
            pid = self._process.get("Process ID")
            launch = {
                **self._process,
                "ID": None if match["invocations"] else str(self._launch_counts[pid]),
                "Kernel Name": match["kernel"],
                "Grid Size": match[3],
                "Block Size": match[4],
                "Context": match["context"],
                "Stream": match["stream"],
                "Device": match["device"] or self._process.get("Device"),
                "CC": match["cc"] or self._process.get("CC"),
                "Invocations": match["invocations"],
            }
            self._launches.append(launch)
            self._in_launch = True
            self._launch_counts[pid] += not match["invocations"]
            self._begin_section(None, "")
        else:
            return False
        return True

    def _begin_section(self, title: str | None, lead: str) -> None:
        self._section, self._lead, self._table_name = title, lead, None
        self._spans, self._table_rows, self._rule = [], 0, None

    def _take_metric(self, text: str, line: Line) -> bool:
        """Read a line below that of a launch."""
        if title := _SECTION.fullmatch(text):
            self._begin_section(title["section"], line.text[: line.text.index("Section")])
        elif name := _TABLE_NAME.fullmatch(text):
            self._table_name, self._spans, self._rule = name["name"], [], None
        elif _TITLES.fullmatch(text):
            pass
        elif _DASHES.fullmatch(text):
            self._take_dashes(text, line)
        elif rule := _RULE.fullmatch(text):
            self._begin_rule(rule, line)
        elif self._rule is not None and text and len(self._rule) < _MAX_RULE_LINES:
            self._rule.append(text)
        elif text and self._spans:
            return self._take_row(text, line)
        else:
            self._rule = None
            # The title of a chart or a table of the section.
            self._title_lines += 1
            rest = line.text.removeprefix(self._lead)
            is_title = rest != line.text and rest[:1].strip() != ""
            return not text or (is_title and self._title_lines <= MAX_STRAY_LINES)
        return True

    def _take_dashes(self, text: str, line: Line) -> None:
        """Begin or end a table."""
        self._rule = None
        is_end = self._table_rows > 0
        self._prefix = line.text.index("--")
        self._spans = [] if is_end else [match.span() for match in re.finditer("-+", text)]
        if len(self._spans) != 2 + len(_VALUES[self._kind]):
            self._spans = []
        self._table_rows = self._title_lines = 0

    def _begin_rule(self, rule: re.Match[str], line: Line) -> None:
        text = rule["text"]
        speedup = _SPEEDUP.match(text)
        row: dict[str, Value] = {
            "launch": len(self._launches) - 1,
            LINE_COLUMN: line.number,
            "Section Name": self._section,
            "Rule Name": self._section,
            "Rule Type": rule["type"],
            "Estimated Speedup": speedup["speedup"] if speedup else None,
            "Estimated Speedup Type": ("local" if speedup["local"] else "global") if speedup else None,
        }
        self._rule = [text[speedup.end() :] if speedup else text]
        self._findings.append((row, self._rule))

    def _take_row(self, text: str, line: Line) -> bool:
        """Read a metric, by the columns that the dashes show, or the titles of the columns; False if it is neither."""
        columns = line.text[self._prefix :].rstrip()
        if len(columns) > self._spans[-1][1]:
            columns = TRAILING_COMMENT.sub("", columns)
        ends = [end for _, end in self._spans[:-1]]
        cells = [columns[begin:end].strip() for begin, end in zip([0, *ends], [*ends, None], strict=True)]
        is_split = any(columns[end : end + 1].strip() for end in ends)
        name, *rest = text.split() or [""]
        if not cells[0]:
            return True  # the values of more instances, or of a metric without a name
        last = self._metrics[self._kind][-1] if self._table_rows else ()
        if last and not any(cells[1:]) and len(str(last[4])) % ends[0] == 0:
            # Until 2021, the end of a name that is wider than its column is in the next line.
            self._metrics[self._kind][-1] = (*last[:4], f"{last[4]}{cells[0]}", *last[5:])
            return True
        if not any((is_split, *cells[2:])) and "__" in name and not any(char.isdecimal() for char in "".join(rest)):
            return True  # a metric without a value
        if (is_split or not (cells[0] and cells[-1])) and "__" in text:
            # A name wider than its column; names of metrics have no spaces, units may be missing.
            cells, is_split = [name, *[""] * (len(self._spans) - 1 - len(rest)), *rest], False
        if is_split or len(cells) != len(self._spans) or not (cells[0] and cells[-1]):
            if text[-1].isdecimal():
                reason = "this looks like a metric, but its cells do not match the columns: line skipped"
                self._collector.issue("warning", line.number, line.text, reason)
            return False
        if cells[0] != "Metric Name":
            name, unit, *values = cells
            launch = len(self._launches) - 1
            titles = (self._section, self._table_name)
            self._metrics[self._kind].append((launch, line.number, *titles, name, unit or None, *values))
            self._table_rows += 1
        return True

    def close(self) -> None:
        """Add the rows as pages like those of a CSV."""
        launches = pl.DataFrame(self._launches, dict.fromkeys((*LAUNCH, "Invocations"), pl.String))
        numbers = {"launch": pl.UInt32, LINE_COLUMN: pl.UInt32}
        findings = [{**row, "Rule Description": " ".join(filter(None, lines))} for row, lines in self._findings]
        for kind, titles in (("details", _DETAILS), ("summary", _SUMMARY)):
            names = ("Section Name", "Body Item Label", "Metric Name", "Metric Unit", *_VALUES[kind])
            rows = pl.DataFrame(self._metrics[kind], numbers | dict.fromkeys(names, pl.String), orient="row")
            if kind == "details":
                finding_rows = pl.DataFrame(findings, numbers | dict.fromkeys(_DETAILS, pl.String))
                rows = pl.concat([rows, finding_rows], how="diagonal").sort(LINE_COLUMN)
            if rows.height:
                page = Page(kind, (*LAUNCH, *titles), self._first_line, is_text=True)
                cells = pl.concat([launches[rows["launch"]], rows], how="horizontal")
                columns = (
                    pl.col(name) if name in cells.columns else pl.lit(None, dtype).alias(name)
                    for name, dtype in page.frame.schema.items()
                )
                page.rows = [cells.select(columns)]
                self._pages.append(page)
        self._launches, self._findings = self._launches[-1:], []
        self._metrics = {kind: [] for kind in _VALUES}
        self._first_line, self._rule = 0, None
