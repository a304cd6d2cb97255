"""Reads the tables that PyTorch's profiler prints: ``key_averages().table()``, pasted or logged.

A table is a line of dashes, a header, another line of dashes, rows, a third, and totals of CPU and GPU time. Headers
can be wider than their columns, so rows are split by the patterns of their cells. Lines can begin with the tag of a job
runner or a logger, and tables of several processes can alternate line by line.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.text.block import Line
from tui.loaders.text.line_tags import rank_in_tag
from tui.loaders.text.section import MAX_STRAY_LINES, TextFormat, markdown_cells
from tui.model.names import NO_NAME
from tui.model.schema import GPU_TOTAL, PRINTED_TOTALS
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.collector import Collector, Session, Value
    from tui.loaders.text.section import Section

FORMAT: Final = Format(
    name="torch-table",
    title="PyTorch profiler table",
    recognized_by="a header 'Name  Self CPU %  Self CPU ...' above a line of dashes",
    feeds=("sessions", "summary", "tool_figures", "issues"),
    record_with="print(prof.key_averages(group_by_input_shape=True).table(sort_by='self_cuda_time_total', "
    "row_limit=-1)), after with torch.profiler.profile() as prof: step()",
)

TOOL: Final = "PyTorch profiler"

_MAX_ROW_LENGTH: Final = 20_000
"""The longest row in characters, whatever the widths of its columns."""
_MAX_TABLES: Final = 64
"""The maximum number of tables of different processes that can alternate."""
_MAX_VALUE: Final = Decimal(1 << 62)
_MIN_TIMES: Final = 3
"""Columns of times below a header without a line of dashes; with fewer, a table is one typed by hand."""
_MIN_TABS: Final = 3
"""Tabs in the header of a table that was copied from a spreadsheet."""

_NS_PER_UNIT: Final = {"ns": 1, "us": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_BYTES_PER_UNIT: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_FLOPS_PER_UNIT: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}

_TIME: Final = r"-?[0-9]{1,18}(?:\.[0-9]{1,9})?(?:ns|us|μs|ms|s)"
_PERCENT: Final = r"-?(?:[0-9]{1,15}(?:[.,][0-9]{1,9})?|[Nn]a[Nn]|inf)%?"
"""With a decimal comma when a spreadsheet was in between; NaN of a total of 0."""
_SIZE: Final = r"-?[0-9]{1,15}(?:\.[0-9]{1,9})? ?[KMGTkmgt]?[Bb]"
_COUNT: Final = r"-?[0-9]{1,18}"
_FLOPS: Final = r"(?:[0-9]{1,18}(?:\.[0-9]{1,9})?(?:e\+?[0-9]{1,3})?|--)"

_FLOPS_AND_STACK: Final = re.compile(rf"(?P<flops>{_FLOPS}) {{2,}}(?P<stack>\S.*)")

_DEVICE: Final = r"(?!CPU\b)[A-Za-z][A-Za-z0-9_]{1,19}"
_TITLES: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = tuple(
    (re.compile(title), column, cell)
    for title, column, cell in (
        (r"Overload Name", "overload", ""),
        (r"Self CPU (?:total )?%", "cpu_self_pct", _PERCENT),
        (r"Self CPU(?: total)?", "cpu_self_ns", _TIME),
        (r"CPU total %", "cpu_total_pct", _PERCENT),
        (r"CPU total", "cpu_total_ns", _TIME),
        (r"CPU time(?: avg)?", "cpu_avg_ns", _TIME),
        (r"CPU Mem", "cpu_memory_bytes", _SIZE),
        (r"Self CPU Mem", "cpu_self_memory_bytes", _SIZE),
        (r"# of Calls|(?:Number of )?Calls", "calls", _COUNT),
        (r"Node ID", "node", _COUNT),
        (r"Input Shapes", "input_shapes", ""),
        (r"Source Location", "stack", ""),
        (r"Full Name", "full_name", ""),
        (r"Full Overload Name", "full_overload", ""),
        (r"Total (?P<unit>[KMGTP]?)FLOPs", "flops", _FLOPS),
        (rf"Self {_DEVICE} (?:total )?%", "gpu_self_pct", _PERCENT),
        (rf"Self {_DEVICE} Mem", "gpu_self_memory_bytes", _SIZE),
        (rf"Self {_DEVICE}(?: total)?", "gpu_self_ns", _TIME),
        (rf"{_DEVICE} total %", "gpu_total_pct", _PERCENT),
        (rf"{_DEVICE} total", "gpu_total_ns", _TIME),
        (rf"{_DEVICE} time(?: avg)?", "gpu_avg_ns", _TIME),
        (rf"{_DEVICE} Mem", "gpu_memory_bytes", _SIZE),
    )
)
"""Titles of columns, their names here, and the pattern of their cells (empty: any text)."""

_TEXT_COLUMNS: Final = frozenset({"overload", "input_shapes", "stack", "full_name", "full_overload"})
_NAME: Final = re.compile(r"(?<!\S)Name(?=\s{2,}\S|\t\S)")
_OLD_HEADER: Final = re.compile(r"\bCPU time\s{2,}CUDA time\b")
"""PyTorch 0.4 and 1.0: averages come first, and no line of dashes follows the rows."""
_DEVICE_HEADING: Final = re.compile(rf"Self ({_DEVICE})")
"""The heading that names the device: CUDA for GPUs of NVIDIA and AMD, XPU for Intel's, NPU for Huawei's, others."""
_TOTAL: Final = re.compile(rf"(?P<self>Self )?(?P<device>CPU|{_DEVICE}) time total: +(?P<time>{_TIME})\s*", re.ASCII)
_COLUMN_GAP: Final = re.compile(r"[ \t]{2,}|\t")
_VARYING: Final = re.compile(r"[0-9]+(?:[-:.,/T ][0-9]+){2,}Z?|[0-9]{9,}(?:\.[0-9]+)?")
"""A time within a tag, different in every line."""
_DIGITS: Final = re.compile(r"[0-9]+")
_PASTE: Final = "#>|*%/ \t"
"""Characters in front of the lines of a pasted table, not in every line equally."""
_LARGER_TIMES: Final = "time column reports approximately max("
"""In the line that torch.utils.bottleneck prints above times of CUDA events."""

_FOREIGN: Final = re.compile(r"[ \t]*(?:==[0-9]+==|={8} )")

_GPU_TIMES: Final = frozenset({"gpu_self_ns", "gpu_total_ns", "gpu_avg_ns"})
"""Columns of tables that end with a total of GPU time."""

_API: Final = re.compile(r"(?:(?:cuda|hip|hsa|musa|cu|ur|ze|acl)[A-Z]|aclrt\w)\w*(?:\.\.\.)?")
"""Names of API calls, which the table may truncate."""
_RANGE: Final = re.compile(
    r"ProfilerStep|Optimizer\.|nccl:|gloo:|mccl:|record_param_comms|## |Torch-Compiled Region|DistributedDataParallel"
    r"|enumerate\(DataLoader\)|FSDP::|aten::|autograd::"
)
"""Names of ranges and ops that PyTorch also lists for the GPU: their GPU time is that of their kernels."""
_KERNEL: Final = re.compile(r"void |Mem(?:cpy|set) |\w*(?:gemm|_kernel|xmma|cutlass|triton_|nccl\w*Kernel)|[^ ]*<")
"""Names of kernels, for tables without CPU time."""

_COMPILED: Final = re.compile(r"triton_[a-z]{2,9}_fused_")
"""Names of kernels of torch.compile, each launched in an op of the same name."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cell: str
    factor: int = 1


def _columns(header: str) -> list[_Column] | None:
    """Return the columns of a header, from its ``Name``; None if the line is no header."""
    name_match = _NAME.search(header)
    if name_match is None or len(header) > _MAX_ROW_LENGTH:
        return None
    columns = [_Column("name", "")]
    for title in _COLUMN_GAP.split(header[name_match.end() :].strip()):
        column = _column(title)
        if column.name in (known_column.name for known_column in columns):
            if not column.name.startswith("gpu_"):
                return None
            column = _Column(f"? {title}", column.cell)  # of a second kind of device
        columns.append(column)
    known_columns = {column.name for column in columns} - {"name", "overload", "calls", "node", "input_shapes"}
    return columns if any(not name.startswith("? ") for name in known_columns) else None


def _column(title: str) -> _Column:
    for pattern, name, cell in _TITLES:
        if match := pattern.fullmatch(title):
            return _Column(name, cell, _FLOPS_PER_UNIT[match["unit"]] if name == "flops" else 1)
    return _Column(f"? {title}", r"\S+")


def _rule(text: str) -> str | None:
    """Return the prefix of a line of dashes over several columns; None for any other line."""
    text = text.rstrip()
    if len(text) > _MAX_ROW_LENGTH or not text.endswith("--"):
        return None
    begin = len(text.rstrip("- \t"))
    begin = text.find("--", begin)
    runs = text[begin:].split()
    return text[:begin] if len(runs) > 1 and all(len(run) > 1 for run in runs) else None


def _tags(prefix: str) -> list[re.Pattern[str]]:
    """Return patterns of the prefix of a table's lines: equal except for times or, less likely, all numbers."""
    if not prefix.strip(_PASTE):
        return [re.compile(rf"[{re.escape(_PASTE)}]{{0,{len(prefix)}}}")]
    tags = []
    for varying, shape in ((_VARYING, r"[0-9]+(?:[-:.,/T ][0-9]+)*Z?"), (_DIGITS, r"[0-9]+")):
        fixed = [re.escape(text) for text in varying.split(prefix.rstrip())]
        tags.append(re.compile(shape.join(fixed) + r"[ \t]?"))
    return tags


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value) < _MAX_VALUE else None


def _scaled_integer(value: Decimal | None, factor: int) -> int | None:
    return None if value is None or abs(value * factor) >= _MAX_VALUE else round(value * factor)


def _value(column: _Column, text: str) -> Value:
    """Return a cell in base units; None if it is not a number (``nan%``, ``--``)."""
    if column.cell == _TIME:
        digits = text.rstrip("nuμms")
        return _scaled_integer(_number(digits), _NS_PER_UNIT[text[len(digits) :]])
    if column.cell == _SIZE:
        digits = text.rstrip("KMGTkmgtBb ")
        unit = text[len(digits) :].strip().lower().removesuffix("b")
        return _scaled_integer(_number(digits), _BYTES_PER_UNIT[unit])
    if column.cell == _PERCENT:
        share = _number(text.rstrip("%").replace(",", "."))
        return None if share is None else float(share)
    return _scaled_integer(_number(text), column.factor)


def _step(text: str) -> int:
    """Return the step of a printed time in ns: ``0.001s`` is of a whole ms."""
    digits = text.rstrip("nuμms")
    step: int = _NS_PER_UNIT[text[len(digits) :]] // 10 ** len(digits.partition(".")[2])
    return max(step, 1)


def _without_bars(line: Line) -> Line:
    """Return a row of a Markdown table with a tab behind each cell; another line as it is."""
    text = line.text.strip().lstrip(_PASTE.replace("|", ""))
    if not text.startswith("|") or not text.endswith("|") or text.count("|") <= _MIN_TABS:
        return line
    return Line("".join(f"{cell}\t" for cell in markdown_cells(text)), line.number)


@dataclass(slots=True)
class _Row:
    line: int
    cells: dict[str, Value]
    name: str
    stack: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    """The steps of the self times, in ns."""


@dataclass(slots=True)
class _Table:
    """A table that is being read."""

    header: Line
    columns: Sequence[_Column]
    tag: re.Pattern[str]
    rows: list[_Row] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    """The totals of cpu and gpu below the rows, in ns."""
    steps: dict[str, int] = field(default_factory=dict)
    """The steps of the totals, in ns."""
    is_closed: bool = False
    """Whether the last line of dashes was read: totals follow."""
    pattern: re.Pattern[str] = field(init=False)
    flops_column: _Column | None = None
    """FLOPs, the column after the texts."""
    last_line: int = 0
    cell_columns: Sequence[_Column] = field(init=False)
    """The columns with figures, except FLOPs."""
    name_end: int = field(init=False)
    """Where the title of the names ends: the profilers of some devices leave names of kernels blank."""

    def __post_init__(self) -> None:
        columns = [column for column in self.columns if column.name != "name" and column.name not in _TEXT_COLUMNS]
        if columns and columns[-1].name == "flops":
            self.flops_column = columns.pop()
        # Unknown columns at the end may be empty.
        while columns and columns[-1].name.startswith("? "):
            columns.pop()
        self.cell_columns = columns
        tag_match, name_match = self.tag.match(self.header.text), _NAME.search(self.header.text)
        self.name_end = (name_match.end() if name_match else 0) - (tag_match.end() if tag_match else 0)
        cells = [column.cell for column in columns]
        # A share and a time cannot be the end of a name, which one space separates in tables that were edited by hand.
        before = r"(?<=[ \t])" if cells[:2] == [_PERCENT, _TIME] else r"(?:(?<=[ \t][ \t])|(?<=\t))"
        self.pattern = re.compile(before + r"[ \t]+".join(f"({cell})" for cell in cells) + r"(?=[ \t]|$)")

    @property
    def names(self) -> set[str]:
        return {column.name for column in self.columns}

    def take(self, text: str, number: int) -> bool:
        """Read a line without its prefix; False if it is no row."""
        self.last_line = number
        match = self.pattern.search(text) if self.cell_columns else None
        if match is not None and (text[: match.start()].strip(_PASTE) or match.start() >= self.name_end):
            text_before, text_after = text[: match.start()], text[match.end() :]
            cell_by_column = dict(zip(self.cell_columns, match.groups(), strict=True))
            cells = {column.name: _value(column, cell) for column, cell in cell_by_column.items()}
            self._add_row(text_before, text_after, cells, number)
            self.rows[-1].steps = {
                column.name: _step(cell)
                for column, cell in cell_by_column.items()
                if column.name in ("cpu_self_ns", "gpu_self_ns")
            }
            return True
        if "stack" not in self.names:
            return False
        if not self.cell_columns and text[:1] not in " \t":
            name, _, text_after = text.partition("  ")
            return self._add_row(name, text_after, {}, number)
        if self.rows and text.strip() and text.startswith("  "):
            self.rows[-1].stack.append(text.strip())
            return True
        return False

    def _add_row(self, text_before: str, text_after: str, cells: dict[str, Value], number: int) -> bool:
        text_after = text_after.strip()
        if self.flops_column is not None and (match := re.search(rf"(?:^|[ \t])({_FLOPS})$", text_after[-64:])):
            cells["flops"] = None if match[1] == "--" else _value(self.flops_column, match[1])
            text_after = text_after[: len(text_after) - len(match[0])].rstrip()
        row = _Row(number, cells, text_before.strip())
        if "overload" in self.names:
            row.name = self._name_with_overload(text_before)
        if "input_shapes" in self.names and text_after.startswith("["):
            shapes, _, text_after = text_after.partition("  ") if "stack" in self.names else (text_after, "", "")
            # PyTorch cuts shapes at the width of their column.
            cells["input_shapes"] = shapes if shapes.count("[") == shapes.count("]") else f"{shapes.rstrip()}..."
        if (
            self.flops_column is not None
            and "stack" in self.names
            and (match := _FLOPS_AND_STACK.match(text_after.lstrip()))
        ):
            # PyTorch prints FLOPs below the title of the stack, and the reverse.
            cells["flops"] = None if match["flops"] == "--" else _value(self.flops_column, match["flops"])
            text_after = match["stack"]
        if "full_name" in self.names and row.name.endswith("...") and text_after.strip():
            row.name = _COLUMN_GAP.split(text_after.strip())[-1]
        elif "stack" in self.names and text_after.strip():
            row.stack.append(text_after.strip())
        self.rows.append(row)
        return True

    def _name_with_overload(self, text: str) -> str:
        """Return the name of an op with its overload: names can have gaps, but end below the end of their title."""
        name, overload = text[: self.name_end].strip(), text[self.name_end :]
        if not name or overload[:2].strip():
            *names, overload = _COLUMN_GAP.split(text.strip())
            name = "  ".join(names)
        return ".".join(part for part in (name, overload.strip()) if part)


class _Tables:
    """Consecutive tables, or tables whose lines alternate."""

    def __init__(self, collector: Collector, header: Line, ended: list[_Table]) -> None:
        self._collector = collector
        self._ended = ended
        self._headers = [header]
        self._tables: list[_Table] = []
        self._stray = 0
        self._begin_pasted(header)

    def _begin_pasted(self, header: Line) -> None:
        """Begin a table whose cells a spreadsheet separates by tabs: its lines of dashes may be missing."""
        if header.text.count("\t") >= _MIN_TABS and (name_match := _NAME.search(header.text)):
            self._take_rule(header.text[: name_match.start()], header)

    def take(self, line: Line) -> bool:
        """Read a header, a line of dashes, a row, a total, or other output between them."""
        line = _without_bars(line)
        text = line.text
        if _columns(text) is not None:
            self._headers = [*self._headers, line][-_MAX_TABLES:]
            self._begin_pasted(line)
            return True
        if (rule := _rule(text)) is not None and self._take_rule(rule, line):
            return True
        table = next((open_table for open_table in self._tables if open_table.tag.match(text)), None)
        if (table is not None and self._take_line(table, line)) or self._begin_without_rule(line):
            self._stray = 0
            return True
        self._stray += 1
        if table is not None and not table.is_closed and text.strip(_PASTE):
            self._damaged(table, line)
        is_foreign = _FOREIGN.match(text) or _LARGER_TIMES in text
        return bool(self._tables or self._headers) and self._stray <= MAX_STRAY_LINES and not is_foreign

    def _take_rule(self, rule: str, line: Line) -> bool:
        candidates = (
            (tag, header) for tag in _tags(rule) for header in reversed(self._headers) if tag.match(header.text)
        )
        if (matching := next(candidates, None)) is not None:
            tag, header = matching
            columns = _columns(header.text)
            assert columns is not None, "stored only with columns"
            self._open(_Table(header, columns, tag))
            return True
        table = next((open_table for open_table in self._tables if open_table.tag.match(line.text)), None)
        if table is not None and not table.is_closed and table.rows:
            table.is_closed, table.last_line = True, line.number
            return True
        return False

    def _open(self, table: _Table) -> None:
        """Take a table as the one that is being read, instead of one with the same tag."""
        for replaced in [open_table for open_table in self._tables if open_table.tag.pattern == table.tag.pattern]:
            self._end(replaced)
        self._tables = sorted([*self._tables, table], key=lambda open_table: -len(open_table.tag.pattern))
        self._headers.remove(table.header)
        self._stray = 0
        if len(self._tables) > _MAX_TABLES:
            self._end(self._tables[0])

    def _begin_without_rule(self, line: Line) -> bool:
        """Open the table of the last header if the line is a row of it: the dashes between them are missing."""
        header = self._headers[-1] if self._headers else None
        columns = _columns(header.text) if header is not None and len(line.text) <= _MAX_ROW_LENGTH else None
        if header is None or columns is None or sum(column.cell == _TIME for column in columns) < _MIN_TIMES:
            return False
        name_match = _NAME.search(header.text)
        prefix = header.text[: name_match.start()].rstrip() if name_match else ""
        if prefix.strip(_PASTE):
            return False
        table = _Table(header, columns, _tags(prefix)[0])
        if not table.take(line.text, line.number):
            return False
        self._open(table)
        return True

    def _take_line(self, table: _Table, line: Line) -> bool:
        tag_match = table.tag.match(line.text)
        text = line.text[tag_match.end() :] if tag_match else line.text
        if len(text) > _MAX_ROW_LENGTH:
            return False
        if total := _TOTAL.fullmatch(text.strip(_PASTE)):
            device = "cpu" if total["device"] == "CPU" else "gpu"
            if device in table.totals:  # of a table whose header was lost
                self._end(table)
                return False
            value = _value(_Column("", _TIME), total["time"])
            if isinstance(value, int):
                table.totals[device], table.steps[device] = value, _step(total["time"])
            table.is_closed, table.last_line = True, line.number
            if device == "gpu" or table.names.isdisjoint(_GPU_TIMES):
                self._end(table)
            return True
        return not table.is_closed and table.take(text, line.number)

    def _damaged(self, table: _Table, line: Line) -> None:
        """Report a line that has some of the figures of a row."""
        kinds = [column.cell for column in table.columns if column.cell]
        cells = [cell for cell in line.text.split() if re.fullmatch(rf"{_TIME}|{_PERCENT}", cell)]
        if table.rows and len(cells) >= max(2, len(kinds) // 2):
            reason = "this looks like a row of the table, but its values do not match the columns: line skipped"
            self._collector.issue("warning", line.number, line.text, reason)

    def _end(self, table: _Table) -> None:
        self._tables.remove(table)
        if table.rows:
            _add_session(table, self._collector)
            self._ended.append(table)

    def close(self) -> None:
        """Finish the open tables."""
        for table in sorted(self._tables, key=lambda open_table: open_table.header.number):
            has_no_end = _OLD_HEADER.search(table.header.text) is not None or table.header.text.endswith("\t")
            if not table.is_closed and table.rows and not has_no_end:
                self._collector.issue(
                    "warning",
                    table.last_line,
                    table.header.text.strip(),
                    "the table ends without its closing line of dashes: rows may be missing",
                )
            self._end(table)


def _add_session(table: _Table, collector: Collector) -> None:
    """Add a table as a session."""
    session = collector.open_session(FORMAT.name, table.header.number)
    device_match = _DEVICE_HEADING.search(table.header.text)
    backend = f" ({device_match[1]})" if device_match and device_match[1] != "CUDA" else ""
    name_match = _NAME.search(table.header.text)
    tag = table.header.text[: name_match.start()] if name_match else ""
    session.facts.update(tool=TOOL, framework=f"PyTorch{backend}", rank=rank_in_tag(tag.encode()))
    session.last_line = table.last_line
    sections = _sections(table)
    _number_cut_names(table, sections, collector)
    for row, section in zip(table.rows, sections, strict=True):
        cells = row.cells
        on_gpu = section == "gpu"
        device_prefix = "gpu" if on_gpu else "cpu"
        collector.add(
            "summary",
            {
                "section": section,
                "name": row.name or NO_NAME,
                "calls": cells.get("calls"),
                "total_ns": cells.get(f"{device_prefix}_self_ns", cells.get("gpu_total_ns"))
                if on_gpu
                else cells.get("cpu_total_ns"),
                "avg_ns": cells.get(f"{device_prefix}_avg_ns"),
                # For a call this is the share of all CPU time, not of the time of calls.
                "time_pct": None if section == "api" else cells.get(f"{device_prefix}_self_pct"),
                **{name: None if on_gpu and name.startswith("cpu") else cells.get(name) for name in _COPIED_COLUMNS},
                "input_shapes": cells.get("input_shapes"),
                "stack": ";".join(row.stack) or None,
                "line": row.line,
            },
        )
    _check(table, sections, session, collector)


_COPIED_COLUMNS: Final = (
    "cpu_self_ns",
    "gpu_self_ns",
    "gpu_total_ns",
    "cpu_memory_bytes",
    "cpu_self_memory_bytes",
    "gpu_memory_bytes",
    "gpu_self_memory_bytes",
    "flops",
)


def _sections(table: _Table) -> list[str]:
    """Return the section of each row: gpu, api or op."""
    cpu = [name for name in ("cpu_self_ns", "cpu_total_ns") if name in table.names]
    on_cpu = {row.name for row in table.rows if any(row.cells.get(name) for name in cpu)}
    return [
        _section(row, bool(cpu), row.name in on_cpu and (_is_call(row) or not _COMPILED.match(row.name)))
        for row in table.rows
    ]


def _section(row: _Row, has_cpu_time: bool, is_on_cpu: bool) -> str:
    cells = row.cells
    time = cells.get("gpu_self_ns", cells.get("gpu_total_ns"))
    if _API.fullmatch(row.name) and (not has_cpu_time or not time or _is_call(row)):
        return "api"
    share = cells.get("gpu_self_pct")
    if not time or is_on_cpu or _RANGE.match(row.name) or (isinstance(share, float) and share > 100):
        return "op"
    if not has_cpu_time and not _KERNEL.match(row.name):
        return "op"
    return "gpu"


def _number_cut_names(table: _Table, sections: Sequence[str], collector: Collector) -> None:
    """Number kernels whose names are equal only because the table cuts names."""
    name_counts: Counter[str] = Counter()
    for row, section in zip(table.rows, sections, strict=True):
        if section == "gpu" and row.name.endswith("..."):
            name_counts[row.name] += 1
            if (count := name_counts[row.name]) > 1:
                row.name = f"{row.name} #{count}"
    if duplicates := sum(count > 1 for count in name_counts.values()):
        reason = (
            f"the table truncates names, and {plural(duplicates, 'name is', 'names are')} ambiguous: such kernels are "
            "numbered; print full names with table(max_name_column_width=None)"
        )
        collector.issue("info", table.header.number, "", reason)


def _check(table: _Table, sections: Sequence[str], session: Session, collector: Collector) -> None:
    """Compare percentages, and sums of rows, with the totals below the table."""
    for device, title in (("cpu", "CPU"), ("gpu", "GPU")):
        total = table.totals.get(device)
        column = f"{device}_self_ns"
        if column not in table.names and device == "gpu":
            continue
        if total is None:
            if column in table.names:
                reason = f"the total {title} time below the table is missing: the percentages are not verified"
                collector.issue("info", table.last_line, "", reason)
            continue
        for row in table.rows:
            time, share = row.cells.get(column), row.cells.get(f"{device}_self_pct")
            steps = row.steps.get(column, 1), table.steps[device]
            if isinstance(time, int) and isinstance(share, float) and not _fits(time, share, total, *steps):
                computed_pct = 100 * time / total if total else 0.0
                reason = f"{title} self time is printed as {share:g}% of the total below, but is {computed_pct:.2f}%"
                collector.issue("warning", row.line, row.name, reason)
        has_kernels = "gpu" in sections
        counted_rows = [
            row
            for row, section in zip(table.rows, sections, strict=True)
            if device == "cpu" or (section == "gpu" if has_kernels else _is_call(row))
        ]
        times = [time for row in counted_rows if isinstance(time := row.cells.get(column), int)]
        is_limited = bool(times) and sum(times) < 0.995 * total
        if is_limited:
            gpu_work = "GPU time of kernels" if has_kernels else "GPU time"
            reason = (
                f"the rows cover {100 * sum(times) / total:.1f}% of the "
                f"{'self CPU time' if device == 'cpu' else gpu_work}: the table was limited to its first "
                "rows; print all rows with row_limit=-1"
            )
            collector.issue("info", table.last_line, "", reason)
        if device == "gpu" and total and (is_limited or not has_kernels):
            figure: dict[str, Value] = {"tool": TOOL, "section": PRINTED_TOTALS, "name": GPU_TOTAL}
            collector.add("tool_figures", {**figure, "value": float(total), "unit": "ns", "line": table.last_line})


def _is_call(row: _Row) -> bool:
    """Return whether a row has CPU time: GPU rows of ranges have none, and repeat the time of kernels."""
    return any(row.cells.get(name) for name in ("cpu_self_ns", "cpu_total_ns"))


def _fits(time: int, share: float, total: int, time_step: int, total_step: int) -> bool:
    """Return whether a printed share agrees with a time, within the digits printed."""
    if not total:
        return share == 0 or total_step > 1
    # Totals of old versions can be negative.
    step = time_step + total_step * abs(time / total)
    return bool(abs(100 * time / total - share) <= 0.006 + 100 * step / abs(total))


class _TorchTableReader:
    """Reads PyTorch's tables in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._ended: list[_Table] = []
        self._larger_times: Line | None = None

    def begin(self, line: Line) -> Section | bool:
        """Begin tables if the line is a header."""
        if _LARGER_TIMES in line.text:
            self._larger_times = line
            return True
        line = _without_bars(line)
        return False if _columns(line.text) is None else _Tables(self._collector, line, self._ended)

    def finish(self) -> None:
        """Report GPU times that are larger than those of the GPU, and tables of one run, by their totals."""
        if self._larger_times is not None and self._ended:
            reason = (
                "GPU times are approximately the larger of GPU and CPU time, as this line says: for times of the GPU "
                "alone, record with torch.profiler"
            )
            self._collector.issue("warning", self._larger_times.number, self._larger_times.text, reason)
        for table in self._ended:
            if any(table.totals.values()):
                run = (FORMAT.name, table.tag.pattern, table.totals.get("cpu"), table.totals.get("gpu"))
                self._collector.report_repeated_run(run, table.header.number, "the totals equal those of the table")


TORCH_TABLE: Final = TextFormat(
    FORMAT,
    (
        rb"(?:^|[\s|])Name(?:\s\s+|\t|\s*\|\s*)(?:\S.*)?"
        rb"(?:Self [A-Za-z]|CPU total|CPU Mem|Source Location|[A-Z]+ total|[A-Z]+ time avg)"
        rb"|time column reports approximately max\("
    ),
    _TorchTableReader,
)
"""The format, for the list of text formats.

A session is a table. Rows of ``summary``: kernels and copies in section ``gpu`` (total is GPU self time), calls of the
API in ``api`` and all others in ``op`` (total is CPU total time), with the other figures in columns of their own.
"""
