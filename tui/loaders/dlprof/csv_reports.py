"""Reads the CSV reports of DLProf (``dlprof --reports=all --formats=csv``) and builds their frames.

The first line of a report is its title, the second its header; the summary alone has parts of its own instead. A report
is a session: several reports of one run have the same times in different groupings.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.loaders.base import Format
from tui.loaders.collector import with_short_names
from tui.loaders.dlprof.dlprof_activities import LAUNCH, TOOL, path_columns, stack_column
from tui.loaders.dlprof.dlprof_database import CONFIG, KERNELS, OPS
from tui.loaders.text.csv_table import CsvTable
from tui.loaders.text.section import LINE_COLUMN, CellValues, TextFormat, split_cells
from tui.model.schema import NAME
from tui.text import number_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.collector import Collector, Session, Value
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section


SUMMARY_PARTS: Final = ("System Config", "Summary Report", "Iterations", "All Ops", "All Kernels")
"""The titles of the parts of a summary report; it begins with the first."""
_TABLE_PARTS: Final = ("All Ops", "All Kernels")
"""Parts whose rows have several figures, below a header that names them."""
_GPU_NAMES: Final = "GPU Name(s)"
_ROW_NAMES: Final = {
    "System Config": (_GPU_NAMES, *(name for name, _ in CONFIG)),
    "Summary Report": (
        *("Wall Clock Time (ns)", "Tensor Core Kernel Utilization %", "GPU Utilization %"),
        *("Tensor Core Kernel Duration %", "Non-Tensor Core Kernel Duration %"),
        *(f"{activity} Duration %" for activity in ("Memory", "Dataloader", "IO", "CPU", "Other")),
    ),
    "Iterations": (
        *("Total Iterations", "Aggregated Iterations", "Start Iteration", "Stop Iteration"),
        *("Average Iteration Time (ns)", "Iteration Time Standard Deviation"),
    ),
}
"""The names of the rows of each part, which identify the part if its title is missing."""
_PART_BY_NAME: Final = {
    **{name: part for part, names in _ROW_NAMES.items() for name in names},
    **dict.fromkeys(("# Ops", *(name for name, _ in OPS)), "All Ops"),
    **dict.fromkeys(("# Kernels", "All kernels", *(name for name, _ in KERNELS)), "All Kernels"),
}
"""The part by the name of a row, or by the last title in the header of a table."""
_TABLE_HEADER: Final = r'(?:"")?,"?GPU Time \(ns\)"?,"?CPU Time \(ns\)"?,"?# (?:Ops|Kernels)'
DLPROF_LINE: Final = re.compile(
    rf'\s*(?:"?(?:DLProf Version|DLProf Build|Wall Clock Time \(ns\)|Aggregated Iterations)"?,|{_TABLE_HEADER})'
)
"""A line that no other tool writes."""
_SUMMARY_CUE: Final = "|".join(
    (
        rf'"?(?:{"|".join(SUMMARY_PARTS)})["\s,]*$',
        rf'"?(?:{"|".join(re.escape(name) for names in _ROW_NAMES.values() for name in names)})"?,'.replace(r"\ ", " "),
        _TABLE_HEADER,
    )
)
"""Matches titles, and rows that are identified by their names."""

_FACTS: Final = {
    "Framework": "framework",
    "CUDA Version": "cuda_version",
    "cuDNN Version": "cudnn_version",
    "GPU Driver Version": "driver_version",
    "DLProf Version": "tool_version",
}
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_UNIT: Final = re.compile(r"\s*(?:\((ns|%)\)|(%))$")


def name_and_unit(title: str) -> tuple[str, str | None]:
    """Return the name and the unit in the heading of a figure.

    >>> name_and_unit("Total GPU Time (ns)"), name_and_unit("CPU Duration %"), name_and_unit("# Ops")
    (('Total GPU Time', 'ns'), ('CPU Duration', '%'), ('# Ops', None))
    """
    match = _UNIT.search(title)
    return (title, None) if match is None else (title[: match.start()], match[1] or match[2])


def unquoted(text: str) -> str:
    """Return a title without the quotation marks and empty cells of a spreadsheet.

    >>> unquoted('"System Config",,')
    'System Config'
    """
    return text.strip(' ",')


def summary_part(text: str) -> str | None:
    """Return the part to which a title or row belongs; None for other lines.

    >>> summary_part("Iterations"), summary_part('"GPU Count","2"'), summary_part("GPU")
    ('Iterations', 'System Config', None)
    >>> summary_part(",GPU Time (ns),CPU Time (ns),# Ops")
    'All Ops'
    """
    if unquoted(text) in SUMMARY_PARTS:
        return unquoted(text)
    cells = split_cells(text)
    if len(cells) < 2:
        return None
    return _PART_BY_NAME.get(cells[0] or next((cell for cell in reversed(cells) if cell), ""))


def _without_filling(cells: list[str], *, min_cells: int = 0) -> list[str]:
    """Return cells without empty ones at the end; at least ``min_cells`` cells."""
    filled_count = max((position for position, cell in enumerate(cells, 1) if cell.strip()), default=0)
    return cells[: max(filled_count, min_cells)]


class DlprofSummary:
    """The lines of one summary report, as a `tui.loaders.text.section.Section`."""

    def __init__(self, collector: Collector, line: Line, *, has_title: bool = True) -> None:
        """Begin with the line of the first title, or, without it, in any part.

        Args:
            collector: Gets the figures.
            line: The first line.
            has_title: Whether the first line is the first title; it needs no `take` then.
        """
        self._collector = collector
        self._part = summary_part(line.text.strip()) or SUMMARY_PARTS[0]
        self._columns: list[str] = []
        self._is_below_blank = False
        self._unpaired_line: Line | None = None
        """The line above, if it is neither a title nor a name with a value."""
        self._session = collector.open_session(FORMAT.name, line.number)
        self._session.facts["tool"] = TOOL
        if not has_title:
            reason = f"expected the title {SUMMARY_PARTS[0]!r} above: the start of this report is missing"
            self._warn(line, reason)

    def take(self, line: Line) -> bool:
        """Read a title, the header of a table, or a line with a name and values."""
        text = line.text.strip()
        below_blank, self._is_below_blank = self._is_below_blank, not unquoted(text)
        if not unquoted(text):
            return True
        unpaired_above, self._unpaired_line = self._unpaired_line, None
        row_part = summary_part(text)
        if unquoted(text) == row_part:
            self._part, self._columns = row_part, []
            return row_part != SUMMARY_PARTS[0]
        if "," not in text.rstrip(","):
            return self._take_unpaired_line(line, unpaired_above, below_blank=below_blank)
        self._switch_part(row_part, line, unpaired_above if not below_blank else None)
        if self._part:
            self._take_pair(text, line)
        return True

    def _switch_part(self, part: str | None, line: Line, damaged_title: Line | None) -> None:
        """Switch to the part of a row by its name, if it is below another title or a damaged one."""
        if part is not None and part != self._part:
            reason = f"expected the title {part!r}: the rows below are assigned to it by their names"
            self._warn(damaged_title or line, reason)
            self._part, self._columns = part, []
        elif damaged_title is not None:
            reason = f"expected one of the titles {', '.join(SUMMARY_PARTS)}: the values below are skipped"
            self._warn(damaged_title, reason)
            self._part = ""

    def _take_pair(self, text: str, line: Line) -> None:
        """Read the header of a table, or a name with values."""
        name, *cells = split_cells(text)
        if not name:
            self._columns = [cell.strip() for cell in _without_filling(cells)]
        elif self._part in _TABLE_PARTS and not self._columns:
            self._warn(line, "the column header of this row is missing or damaged: row skipped")
        elif self._columns:
            self._add_row(name, _without_filling(cells, min_cells=len(self._columns)), line)
        else:
            # Names of GPUs are separated by commas outside of quotation marks.
            self._add(name, ",".join(_without_filling(cells)), line)

    def _take_unpaired_line(self, line: Line, unpaired_above: Line | None, *, below_blank: bool) -> bool:
        """Read a line without a comma: a damaged title or row, or text after the report."""
        if unpaired_above is not None or _END_OF_TABLE.match(line.text.strip()):
            return False
        if below_blank:
            # The next line decides whether it is a title.
            self._unpaired_line = line
        else:
            self._warn(line, "expected a name, a comma and a value: line skipped")
        return True

    def _warn(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._session)
        self._collector.issue("warning", line.number, line.text.strip(), reason)

    def close(self) -> None:
        """Do nothing: all figures are in the collector already."""

    def _add_row(self, name: str, cells: list[str], line: Line) -> None:
        if len(cells) != len(self._columns):
            reason = f"expected {len(self._columns)} values, found {len(cells)}: row skipped"
            self._warn(line, reason)
            return
        for column, cell in zip(self._columns, cells, strict=True):
            self._add(f"{name}: {column}", cell, line)

    def _add(self, title: str, cell: str, line: Line) -> None:
        """Add a figure; some of the system's are also facts of the session."""
        cell = cell.strip()
        if not cell:
            return
        if self._part == SUMMARY_PARTS[0] and title in _FACTS:
            self._session.facts[_FACTS[title]] = cell.removeprefix("v") if title == "DLProf Version" else cell
        if title == _GPU_NAMES:
            for device, name in enumerate(cell.split(",")):
                self._collector.add("devices", {"device": device, "name": name.strip()})
        name, unit = name_and_unit(title)
        row: dict[str, Value] = {"tool": TOOL, "section": self._part, "name": name, "line": line.number}
        if self._part != SUMMARY_PARTS[0] and _NUMBER.fullmatch(cell):
            self._collector.add("tool_figures", {**row, "value": float(cell), "unit": unit})
        else:
            self._collector.add("tool_figures", {**row, "text": cell})


FORMAT: Final = Format(
    name="dlprof-csv",
    title="DLProf CSV report",
    recognized_by="the header of a report below its title: 'Kernel Report', 'Iteration Report', 'System Config', ...",
    feeds=(
        "sessions",
        "devices",
        "activities",
        "api_calls",
        "ops",
        "summary",
        "tool_figures",
        "tool_findings",
        "issues",
    ),
    record_with="dlprof --mode=pytorch --reports=all --formats=csv python train.py",
)

_BOOLEANS: Final = {"yes": True, "no": False}

_ITERATION_COLUMNS: Final = (
    *("Kernel Name", "Device ID", "GPU Start Time (ns)", "GPU Duration (ns)", "API Call Start (ns)"),
    *("API Call Time (ns)", "Uses TC", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z"),
)
_KERNEL_COLUMNS: Final = tuple(
    f"{statistic} {processor} Time (ns)" for processor in ("GPU", "API") for statistic in ("Total", "Avg", "Min", "Max")
)
_OP_COLUMNS: Final = ("Total CPU Time (ns)", "TC Eligible")
"""Columns that the views need."""

_ROUNDING: Final = 0.05
"""The rounding error of a printed average."""


def iteration_report(rows: CellValues, collector: Collector) -> None:
    """Add every kernel, with its op and launching call; ops are listed by iteration, without times."""
    _report_missing_columns(rows, collector, _ITERATION_COLUMNS)
    launched = _op_columns(rows).with_columns(
        rows.integer("Iteration", pl.Int32()).alias("iteration"),
        rows.name("Input Shapes").alias("input_shapes"),
        pl.lit(True).alias("launched"),
    )
    # Without ids, the path identifies an op.
    key = ["iteration", "op_id", "group", "name"]
    ops = launched.drop("launched").unique(key, keep="first", maintain_order=True).with_row_index("op")
    op = launched.join(ops.select(*key, "op"), on=key, how="left", nulls_equal=True, maintain_order="left")["op"]
    uses_tc = rows.text("Uses TC").replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    correlation = pl.int_range(1, rows.cells.height + 1, eager=True)
    kernels = pl.DataFrame(
        {
            "kind": pl.Series(["kernel"], dtype=NAME).new_from_index(0, rows.cells.height),
            "name": rows.name("Long Kernel Name").zip_with(
                rows.text("Long Kernel Name").is_not_null(), rows.name("Kernel Name")
            ),
            "start_ns": rows.integer("GPU Start Time (ns)"),
            "duration_ns": rows.integer("GPU Duration (ns)"),
            "device": rows.integer("Device ID", pl.Int32()),
            **{
                f"{shape.lower()}_{axis.lower()}": rows.integer(f"{shape} {axis}", pl.Int32())
                for shape in ("Grid", "Block")
                for axis in "XYZ"
            },
            "correlation": correlation,
            "op": op.cast(pl.UInt32),
            "iteration": launched["iteration"],
            "uses_tensor_core": uses_tc,
            "line": rows.line,
        }
    )
    collector.add_frames(
        {
            "ops": ops,
            "activities": with_short_names(kernels).with_columns(
                pl.lit("recorded", NAME).alias("op_join"),
                pl.when(pl.col("uses_tensor_core").is_not_null())
                .then(pl.lit(TOOL))
                .cast(NAME)
                .alias("tensor_core_reason"),
                _arguments(rows),
            ),
            "api_calls": pl.DataFrame(
                {
                    "name": pl.Series([LAUNCH], dtype=NAME).new_from_index(0, rows.cells.height),
                    "start_ns": rows.integer("API Call Start (ns)"),
                    "duration_ns": rows.integer("API Call Time (ns)"),
                    "correlation": correlation,
                    "line": rows.line,
                }
            ),
        }
    )
    assert collector.session is not None
    collector.session.facts["iteration_source"] = "DLProf"
    reason = (
        "the report has no memcpys, and its op rows are totals per iteration: each is the sum of all calls of an op"
    )
    collector.issue("info", None, "", reason)


def kernel_report(rows: CellValues, collector: Collector) -> None:
    """Add kernels, summed by name and op."""
    _report_missing_columns(rows, collector, _KERNEL_COLUMNS)
    frames = [
        _summary(rows, section, name, processor)
        for section, name, processor in (("gpu", rows.name("Kernel Name"), "GPU"), ("api", None, "API"))
    ]
    collector.add_frame("summary", pl.concat(frames))


def _summary(rows: CellValues, section: str, name: pl.Series | None, processor: str) -> pl.DataFrame:
    """Return rows of ``summary``; the number of calls is inferred from total and average if unambiguous."""
    total, avg = rows.integer(f"Total {processor} Time (ns)"), rows.number(f"Avg {processor} Time (ns)")
    min_calls = (total / (avg + _ROUNDING)).ceil()
    max_calls = (total / (avg - _ROUNDING)).floor()
    is_unambiguous = (min_calls == max_calls) & (min_calls >= 1) & (avg > _ROUNDING) & (min_calls < 1e15)
    calls = min_calls.set(~is_unambiguous.fill_null(False), None).cast(pl.Int64)
    height = rows.cells.height
    return pl.DataFrame(
        {
            "section": pl.Series([section], dtype=NAME).new_from_index(0, height),
            "name": pl.Series([LAUNCH], dtype=NAME).new_from_index(0, height) if name is None else name,
            "calls": calls,
            "total_ns": total,
            "avg_ns": rows.scale(f"Avg {processor} Time (ns)", 1),
            "min_ns": rows.integer(f"Min {processor} Time (ns)"),
            "max_ns": rows.integer(f"Max {processor} Time (ns)"),
            "line": rows.line,
        }
    )


def detailed_report(rows: CellValues, collector: Collector) -> None:
    """Add ops, summed over calls: as figures, and as ops, with a time if there was only one call."""
    _report_missing_columns(rows, collector, _OP_COLUMNS)
    is_single_call = rows.integer("No. Calls") == 1
    eligible = rows.text("TC Eligible").replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    ops = _op_columns(rows).with_columns(
        rows.integer("Total CPU Time (ns)").set(~is_single_call.fill_null(False), None).alias("duration_ns"),
        eligible.alias("tc_eligible"),
        rows.cells.select(stack_column(pl.col("Stack Trace"))).to_series()
        if "Stack Trace" in rows
        else pl.lit(None, NAME).alias("stack"),
    )
    collector.add_frames({"ops": ops.with_row_index("op")})
    _figures(
        rows,
        collector,
        "Ops",
        key_column=rows.first_column("Op ID", "Op Name"),
        excluded=("Op Name", "Direction", "Op Type", "Data Type", "Stack Trace"),
    )
    if not is_single_call.all():
        reason = "the report sums all calls of an op: repeated calls have no separate times"
        collector.issue("info", None, "", reason)


def tensor_core_report(rows: CellValues, collector: Collector) -> None:
    """Add ops that can use tensor cores, and the share of their kernel time that did."""
    _figures(rows, collector, "Tensor Cores", key_column=rows.first_column("Op ID", "Op Name"))


def op_type_report(rows: CellValues, collector: Collector) -> None:
    """Add ops, summed by type."""
    _figures(rows, collector, "Op Types", key_column="Op Type")


def group_report(rows: CellValues, collector: Collector) -> None:
    """Add ops, summed by the modules that they ran in."""
    _figures(rows, collector, "Group Ops", key_column="Name")


def expert_systems_report(rows: CellValues, collector: Collector) -> None:
    """Add DLProf's advice."""
    findings = pl.DataFrame(
        {"problem": rows.text("Problem"), "recommendation": rows.text("Recommendation"), "line": rows.line}
    )
    collector.add_frame("tool_findings", findings.with_columns(pl.lit(TOOL).alias("tool")))


def _report_missing_columns(rows: CellValues, collector: Collector, columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in rows]
    if missing:
        reason = "columns of DLProf are missing from the report: their values are unknown"
        collector.issue("warning", None, ", ".join(missing), reason)


def _op_columns(rows: CellValues) -> pl.DataFrame:
    """Return the op of each row, with columns of ``ops``."""
    dtype = "Data Types" if "Data Types" in rows else "Data Type"
    texts = pl.DataFrame({"path": rows.text("Op Name")})
    return texts.select(
        rows.text("Op ID").alias("op_id"),
        *path_columns(pl.col("path")),
        rows.name("Op Type").alias("op_type"),
        rows.name("Direction").alias("direction"),
        rows.name(dtype).alias("dtype"),
        pl.lit("recorded", NAME).alias("op_source"),
        rows.line.alias("line"),
    )


def _arguments(rows: CellValues) -> pl.Expr:
    parts = [pl.format(f"{column}: {{}}", pl.lit(rows.text(column))) for column in ("Parameters", "Output Shapes")]
    text = pl.concat_str(parts, separator="; ", ignore_nulls=True)
    return pl.when(text != "").then(text).cast(NAME).alias("arguments")


def _figures(
    rows: CellValues, collector: Collector, section: str, *, key_column: str, excluded: Sequence[str] = ()
) -> None:
    """Add every cell of a report as a figure of DLProf's, named after its row and column."""
    columns = [column for column in rows.cells.columns if column not in (key_column, "line", *excluded)]
    names_and_units = [name_and_unit(column) for column in columns]
    titles = pl.DataFrame(
        {
            "column": columns,
            "title": [title for title, _ in names_and_units],
            "unit": [unit for _, unit in names_and_units],
        },
        schema={"column": pl.String, "title": pl.String, "unit": pl.String},
    )
    number = number_in(pl.col("cell"), r"^(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)$", dtype=pl.Float64)
    collector.add_frame(
        "tool_figures",
        rows.cells.with_row_index("row")
        .unpivot(on=columns, index=["row", key_column, "line"], variable_name="column", value_name="cell")
        .join(titles, on="column", how="left", maintain_order="left")
        .sort("row", maintain_order=True)
        .filter(pl.col("cell").is_not_null(), pl.col("cell") != "")
        .select(
            pl.lit(TOOL).alias("tool"),
            pl.lit(section).alias("section"),
            pl.format("{}: {}", pl.col(key_column).fill_null(""), "title").alias("name"),
            number.alias("value"),
            pl.when(number.is_not_null()).then("unit").alias("unit"),
            pl.when(number.is_null()).then("cell").alias("text"),
            "line",
        ),
    )


ReportReader = Callable[[CellValues, "Collector"], None]

_REPORTS: Final[Mapping[tuple[str, ...], ReportReader]] = {
    ("Iteration", "Op ID", "Op Name"): iteration_report,
    ("Kernel Name", "Op ID", "Op Name"): kernel_report,
    ("Op ID", "Op Name", "Direction", "Op Type", "No. Calls"): detailed_report,
    ("Op ID", "Op Name", "Op Type", "No. Calls"): detailed_report,
    ("Op ID", "Op Name", "Direction", "Op Type", "Uses TC"): tensor_core_report,
    ("Op ID", "Op Name", "Op Type", "Uses TC"): tensor_core_report,
    ("Iteration", "Op Name"): iteration_report,
    ("Kernel Name", "Op Name"): kernel_report,
    ("Op Name", "Op Type", "No. Calls"): detailed_report,
    ("Op Name", "Op Type", "Uses TC"): tensor_core_report,
    ("Op Type", "# Ops", "# Calls"): op_type_report,
    ("Name", "Num Calls Aggregated"): group_report,
    ("Problem", "Recommendation"): expert_systems_report,
}
"""The beginning of each report's header, and the function for its rows.

Only PyTorch has directions; the first versions have no ids of ops.
"""

_TITLES: Final = (
    r"(?:Iteration|Kernel|Op Type Summary|Group Op|Group Node|Tensor Core) Report|Expert Systems Feedback"
    r"|All Iterations|System Config"
)
_END_OF_TABLE: Final = re.compile(rf'"?(?:{_TITLES})["\s,]*$')
_FIRST_CELL: Final = re.compile("|".join((_TITLES, *sorted({re.escape(header[0]) for header in _REPORTS}))))
_TABLE_CUE: Final = "|".join(
    sorted(",".join(f'"?{re.escape(cell)}"?' for cell in header).replace(r"\ ", " ") for header in _REPORTS)
)
"""A tool that saves a report again may quote every cell and append empty cells."""

_MAX_LINES_BETWEEN: Final = 2
"""The maximum number of lines from one line of a summary to the next, including a blank one."""
_MAX_LINES: Final = 64
"""The maximum number of lines of a summary."""


_KERNEL_TIMES: Final[Mapping[ReportReader, str]] = {
    iteration_report: "GPU Duration (ns)",
    kernel_report: "Total GPU Time (ns)",
}
"""The columns of the kernels' times, by report."""


class _DlprofSink:
    """Stores the rows of one report, and converts them at its end."""

    def __init__(self, collector: Collector, session: Session, read_report: ReportReader) -> None:
        """Begin.

        Args:
            collector: Gets the rows.
            session: That of the report.
            read_report: Converts the rows.
        """
        self._collector = collector
        self._session = session
        self._read_report = read_report
        self._chunks: list[pl.DataFrame] = []

    def add(self, cells: pl.DataFrame) -> None:
        # A blank line of a spreadsheet is a row of empty cells.
        self._chunks.append(cells.filter(~pl.all_horizontal(pl.exclude(LINE_COLUMN).is_null())))

    def damaged(self, line: Line, reason: str) -> None:
        self._collector.resume_session(self._session)
        self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        self._collector.resume_session(self._session)
        if self._chunks:
            rows = CellValues(pl.concat(self._chunks), self._collector)
            self._read_report(rows, self._collector)
            time_column = _KERNEL_TIMES.get(self._read_report)
            if time_column is not None and (total_ns := int(rows.text(time_column).cast(pl.Int64, strict=False).sum())):
                run = (FORMAT.name, total_ns)
                equality = "the total kernel time equals that of the report"
                self._collector.report_repeated_run(run, self._session.first_line, equality)
        self._chunks = []


class _DlprofReader:
    """Reads DLProf's reports in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._headless: deque[Line] = deque(maxlen=_MAX_LINES)
        """Lines of a summary without its first title, until a line that only DLProf writes."""

    def begin(self, line: Line) -> Section | bool:
        """Begin a report if the line is its header, or the summary."""
        text = line.text.strip()
        if unquoted(text) == SUMMARY_PARTS[0]:
            return DlprofSummary(self._collector, line)
        if summary_part(text) is not None:
            return self._begin_headless(line)
        columns = [cell.strip() for cell in split_cells(text)]
        for header, read_report in _REPORTS.items():
            if tuple(columns[: len(header)]) == header:
                session = self._collector.open_session(FORMAT.name, line.number)
                session.facts["tool"] = TOOL
                sink = _DlprofSink(self._collector, session, read_report)
                return CsvTable(columns, sink, header=_FIRST_CELL, end_pattern=_END_OF_TABLE)
        return False

    def _begin_headless(self, line: Line) -> Section | bool:
        """Read a line of a summary without a title above: on its own it may be program output."""
        if self._headless and line.number - self._headless[-1].number > _MAX_LINES_BETWEEN:
            self._headless.clear()
        self._headless.append(line)
        if not DLPROF_LINE.match(line.text):
            return False
        lines = list(self._headless)
        self._headless.clear()
        summary = DlprofSummary(self._collector, lines[0], has_title=False)
        for pending_line in lines:
            summary.take(pending_line)
        return summary

    def finish(self) -> None:
        """Do nothing: all reports are converted already."""


DLPROF_CSV: Final = TextFormat(FORMAT, rf"^\s*(?:{_TABLE_CUE}|{_SUMMARY_CUE})".encode(), _DlprofReader)
"""The format, for the list of text formats."""
