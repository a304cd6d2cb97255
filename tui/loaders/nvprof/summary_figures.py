"""Rows of nvprof summaries: parsing, consistency checks, restoring wrapped kernel names, adding to the collector."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.numbers import parse_count, parse_percent, time_ns, time_step_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.loaders.nvprof.reader_state import NvprofState, Units
    from tui.loaders.text.block import Line


LABELS: Final = MappingProxyType(
    {
        "GPU activities": "gpu",
        "API calls": "api",
        "OpenACC (excl)": "openacc",
        "OpenACC (incl)": "openacc",
        "OpenMP (excl)": "openmp",
        "OpenMP (incl)": "openmp",
        "Range": "nvtx",
    }
)
"""The sections by the labels of the Type column."""

TIME: Final = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?(?:[num]?s)?"
PERCENT: Final = r"[0-9]{1,3}(?:\.[0-9]+)?%?"
LABEL: Final = "|".join(re.escape(label) for label in LABELS)

ROW: Final = re.compile(
    rf"(?:(?P<label>{LABEL})(?::\s*|\s+))?(?P<time_pct>{PERCENT})\s+(?P<total>{TIME})\s+(?P<calls>[0-9]+)\s+(?P<avg>{TIME})"
    rf"\s+(?P<min>{TIME})\s+(?P<max>{TIME})(?:\s+(?P<name>\S.*))?"
)
"""A whole row of a summary, without blanks around it."""

_API_NAME: Final = re.compile(r"cu(?:da)?[A-Z][A-Za-z0-9]*(?:_(?:v[0-9]+|ptsz|ptds))*")


@dataclass(slots=True)
class SummaryRow:
    """The cells of a row as printed; ``section`` is empty until it is known."""

    time_pct: str
    total: str
    calls: str
    avg: str
    min: str
    max: str
    name: str
    line: int
    section: str = ""
    repairs: list[str] = field(default_factory=list)
    """The repairs made, for the user."""

    def values(self, units: Units) -> dict[str, str | int | float | None]:
        """Return the row as columns of the ``summary`` frame.

        Raises:
            ValueError: A cell is invalid; the message names it.
        """
        values: dict[str, str | int | float | None] = {
            "section": self.section,
            "name": self.name or None,
            "line": self.line,
            "repaired": bool(self.repairs),
        }
        for column in ("total", "avg", "min", "max"):
            try:
                values[f"{column}_ns"] = time_ns(getattr(self, column), getattr(units, column))
            except ValueError as error:
                raise ValueError(f"in column {column.title()}, {error}") from error
        values["calls"] = parse_count(self.calls)
        values["time_pct"] = parse_percent(self.time_pct)
        return values

    def is_consistent(self, units: Units) -> bool:
        """Return whether the figures of a row are consistent.

        Calls times average has to give the total within the printed precision, and the average has to be between the
        shortest and the longest call. Figures are cut or rounded, so each is exact to one unit of its last digit.
        """
        try:
            step = {name: time_step_ns(getattr(self, name), getattr(units, name)) for name in _TIMES}
            value = {name: Decimal(time_ns(getattr(self, name), getattr(units, name))) for name in _TIMES}
            calls = parse_count(self.calls)
            share = parse_percent(self.time_pct)
        except ValueError:
            return False
        step = {name: max(size, Decimal(1)) for name, size in step.items()}
        return (
            calls > 0
            and share <= 100
            and abs(calls * value["avg"] - value["total"]) <= calls * step["avg"] + step["total"]
            and value["min"] <= value["avg"] + step["avg"] + step["min"]
            and value["avg"] <= value["max"] + step["avg"] + step["max"]
        )


_TIMES: Final = ("total", "avg", "min", "max")


def parse_row(match: re.Match[str], line: int) -> SummaryRow:
    """Return the row that `ROW` found."""
    time_pct, total, calls, avg, shortest, longest = match.group("time_pct", "total", "calls", "avg", "min", "max")
    return SummaryRow(time_pct, total, calls, avg, shortest, longest, match["name"] or "", line)


def is_api_name(name: str) -> bool:
    """Return whether a name is spelled like that of a CUDA API function.

    >>> is_api_name("cudaLaunchKernel"), is_api_name("cuInit"), is_api_name("cudaPy_prog"), is_api_name("cutlass")
    (True, True, False, False)
    """
    return _API_NAME.fullmatch(name) is not None


_SECTIONS_WITH_SHARES: Final = ("gpu", "api")
"""Sections whose shares add up to 100%."""
_STEP: Final = 0.01
"""The last digit of a share, in percent."""


def add_row(
    state: NvprofState,
    section: str,
    line: Line,
    name: str,
    *,
    calls: int | None = None,
    total_ns: int | None = None,
    time_pct: float | None = None,
    size_bytes: int | None = None,
) -> None:
    """Add a row with fewer figures than a summary row to the ``summary`` frame.

    Args:
        state: The state of the text.
        section: One of `tui.model.schema.SECTIONS`.
        line: Its line.
        name: The name of the function or operation.
        calls: The number of calls; None if not printed.
        total_ns: The total time; None if not printed.
        time_pct: Its share, 0 to 100, as printed.
        size_bytes: The size of all that it moved; None if not printed.
    """
    row = {"section": section, "name": name, "calls": calls, "total_ns": total_ns, "time_pct": time_pct}
    state.collector.add("summary", {**row, "size_bytes": size_bytes, "line": line.number, "repaired": False})


def add_rows(
    state: NvprofState, rows: Sequence[SummaryRow], units: Units, *, first_line: int, has_header: bool
) -> None:
    """Add the rows of one table, whose sections are known, to the ``summary`` frame.

    Rows in a range of an NVTX result get section ``nvtx`` and the name of the range; the row of the range itself has
    none, so that no time is counted twice.

    Args:
        state: What the table belongs to.
        rows: The rows, in the order of their lines.
        units: The units of cells without one.
        first_line: The line of the header.
        has_header: Whether the table has its header, not only further rows.
    """
    if not rows:
        return
    is_nvtx = state.heading == "nvtx"
    if has_header and not is_nvtx:
        session = state.begin_table(first_line, {row.section for row in rows})
    else:
        session = state.ensure_session(first_line)
    shares: dict[str, float] = {}
    for row in rows:
        try:
            values = row.values(units)
        except ValueError as error:
            state.collector.issue("warning", row.line, row.name, f"row skipped: {error}")
            continue
        # Old versions print no labels: there, the rows of a range are those with other names.
        if is_nvtx and (row.section != "nvtx" or state.range_name not in (None, row.name)):
            values["section"], values["range"] = "nvtx", state.range_name
        key = (
            session.number,
            values.get("range") if is_nvtx else None,
            row.name,
            row.calls,
            row.total,
            row.min,
            row.max,
        )
        first_seen_line = state.rows_seen.setdefault(key, row.line)
        if not has_header and first_seen_line != row.line:
            reason = f"this repeats the row of line {first_seen_line}: counted once"
            state.collector.issue("info", row.line, row.name, reason)
            continue
        state.collector.add("summary", values)
        shares[row.section] = shares.get(row.section, 0) + parse_percent(row.time_pct)
        if not is_nvtx and row.section in _SECTIONS_WITH_SHARES:
            state.shares.setdefault((session.number, row.section), []).append((row.line, parse_percent(row.time_pct)))
        state.identifiers |= identifiers(row.name)
        if row.repairs:
            state.collector.issue("info", row.line, row.name, f"row {'; '.join(row.repairs)}")
        elif not row.is_consistent(units):
            state.collector.issue(
                "warning",
                row.line,
                row.name,
                f"the values of this row contradict each other ({row.calls} calls, average {row.avg}, from "
                f"{row.min} to {row.max}, total {row.total}): used as printed",
            )
    for section, share in shares.items():
        if has_header and share > 100 + _STEP * len(rows):
            reason = (
                f"the shares of the {section} rows of this table add up to {share:.2f}%: it mixes rows of several "
                "processes or tables, perhaps in the wrong session"
            )
            state.collector.issue("warning", first_line, "", reason)


_COMPLETE_PCT: Final = 99.0
"""The percentage above which missing rows hardly change the totals."""


def report_missing_rows(state: NvprofState) -> None:
    """Report tables with missing rows: their shares do not add up to 100%."""
    for (session, section), shares in state.shares.items():
        total = sum(share for _, share in shares)
        if total >= 100 - _STEP * len(shares):
            continue
        reason = (
            f"the shares of the {section} rows here add up to {total:.2f}%: rows are missing, and totals and shares "
            "cover the rest"
        )
        severity = "warning" if total < _COMPLETE_PCT else "info"
        state.collector.resume_session(state.collector.sessions[session])
        state.collector.issue(severity, shares[0][0], "", reason)


_GAP: Final = re.compile(r"(?<=\w) +(?=\w)")
_WORD_BEFORE: Final = re.compile(r"\w+$")
_WORD_AFTER: Final = re.compile(r"\w+")
_CONTINUES: Final = re.compile(r"[\w\s<>(),:*&=\[\]~.\-+/{}'$@!|^?;]+")
_SINGLE_COLON: Final = re.compile(r"(?<=[^:]):(?=[^:])")
_PARAMETERS_GAP: Final = re.compile(r"(?<=>) +(?=\((?!\*))")
_ARROWS: Final = re.compile(r"->|operator\s*(?:<<=?|>>=?|<=|>=|<|>|\(\))|__operator\S*?__")

KEYWORDS: Final = frozenset(
    (
        *("void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "__int64"),
        *("wchar_t", "char16_t", "char32_t", "const", "volatile", "__restrict__", "auto", "typename"),
        *("struct", "class", "enum", "union", "operator", "new", "delete", "static", "inline", "template"),
    )
)
"""C++ keywords that can be next to another word within a type."""


def depth(name: str) -> int:
    """Return the number of open brackets of a C++ name; negative if more are closed than opened.

    >>> depth("f<int, g<float"), depth("f(int*)"), depth("operator->(a)")
    (2, 0, 0)
    """
    without_arrows = _ARROWS.sub("", name)
    opened = sum(without_arrows.count(bracket) for bracket in "(<[")
    return opened - sum(without_arrows.count(bracket) for bracket in ")>]")


def is_cut(name: str) -> bool:
    """Return whether a name is incomplete: a bracket is open, or a required part is missing.

    >>> is_cut("void"), is_cut("void f<int,"), is_cut("f(int)"), is_cut("matvec(matrix const &, ...")
    (True, True, False, False)
    """
    if name.endswith(("...", "…")):
        return False
    return name == "void" or name.endswith((",", "::")) or depth(name) > 0


def may_continue(text: str) -> bool:
    """Return whether a line can be a part of a C++ name, unlike prose with colons, dates and other marks."""
    text = text.strip()
    return bool(_CONTINUES.fullmatch(text)) and not _SINGLE_COLON.search(text)


def join_name(parts: Sequence[str], *, is_hard_wrapped: bool) -> str:
    """Join the lines of a name.

    A blank before the parameters comes from a line break: names that differ only in it are equal.

    Args:
        parts: The lines, in order.
        is_hard_wrapped: Whether they were cut at a fixed width, within words; otherwise between words.

    >>> join_name(["void f<float, thrust::t", "ransform<int> >(int)"], is_hard_wrapped=True)
    'void f<float, thrust::transform<int> >(int)'
    >>> join_name(["f(unsigned", "long)"], is_hard_wrapped=True)
    'f(unsigned long)'
    >>> join_name(["void", "f<int,", "float const", "*>(int)"], is_hard_wrapped=False)
    'void f<int, float const *>(int)'
    >>> join_name(["void f<int,", "g<int>> (int, float (*)(int))"], is_hard_wrapped=False)
    'void f<int, g<int>>(int, float (*)(int))'
    """
    name = ""
    for part in parts:
        if is_hard_wrapped:
            # Text cut at a width keeps its blanks, except often those at the end of a line.
            name += f" {part.lstrip()}" if name.endswith(",") or _are_two_words(name, part) else part
            continue
        part = part.strip()
        last, first = name[-1:], part[:1]
        joins_without_space = (
            not last or last in "<(:" or first in ">),:(" or (first in "*&<" and not name.endswith("const"))
        )
        name += part if joins_without_space else f" {part}"
    return (name if is_hard_wrapped else _PARAMETERS_GAP.sub("", name)).strip()


def _are_two_words(before: str, after: str) -> bool:
    """Return whether a line break separates two C++ words instead of splitting one."""
    last, first = _WORD_BEFORE.search(before), _WORD_AFTER.match(after)
    return last is not None and first is not None and last[0] in KEYWORDS and first[0] in KEYWORDS


def restore_underscores(name: str, known_identifiers: Sequence[str]) -> str:
    """Restore underscores that text extraction replaced with blanks, if that is certain.

    A blank between two words of a C++ name is either next to a keyword (``unsigned int``) or after the return type of
    a function. Any other blank was an underscore: within brackets, in a name without parameters, before a word that
    begins with a digit, or where one of the sorted ``known_identifiers`` spells the words with underscores.

    >>> restore_underscores("sgemm sm35 ldg tn 128x8x256x16x32", [])
    'sgemm_sm35_ldg_tn_128x8x256x16x32'
    >>> restore_underscores("void cudnn::detail::pooling fw 4d kernel<float, maxpooling func<unsigned int>>(int)", [])
    'void cudnn::detail::pooling_fw_4d_kernel<float, maxpooling_func<unsigned int>>(int)'
    >>> restore_underscores("my kernel<int>(int)", []), restore_underscores("my kernel<int>(int)", ["my_kernel"])
    ('my kernel<int>(int)', 'my_kernel<int>(int)')
    >>> restore_underscores("[CUDA memcpy HtoD]", [])
    '[CUDA memcpy HtoD]'
    """
    if name.startswith("[") or "(anonymous namespace)" in name or "[clone" in name:
        return name
    has_parameters = "(" in name
    restored: list[str] = []
    start, opened, return_type_seen = 0, 0, False
    for gap in _GAP.finditer(name):
        word_text = name[start : gap.start()]
        opened += depth(word_text)
        before, after = _WORD_BEFORE.search(word_text), _WORD_AFTER.match(name, gap.end())
        assert before is not None
        assert after is not None
        blank = before[0] in KEYWORDS or after[0] in KEYWORDS
        if not blank and opened <= 0 and has_parameters and not return_type_seen:
            # The only blank that may be one: between a return type and the function.
            spelled = f"{before[0]}_{after[0]}"
            blank = not after[0][0].isdecimal() and not (
                _has_prefix(known_identifiers, spelled, "") or _has_prefix(known_identifiers, spelled, "_")
            )
        if opened <= 0 and blank:
            return_type_seen = True
        restored += [word_text, gap[0] if blank else "_"]
        start = gap.end()
    return "".join(restored) + name[start:]


def _has_prefix(known_identifiers: Sequence[str], word: str, end: str) -> bool:
    """Return whether one of the sorted words is a word, or begins with it and ``end``."""
    position = bisect.bisect_left(known_identifiers, word + end)
    return position < len(known_identifiers) and (
        known_identifiers[position].startswith(word + end) if end else known_identifiers[position] == word
    )


def identifiers(name: str) -> set[str]:
    """Return the identifiers with an underscore in a name."""
    return {word for word in re.findall(r"\w+", name) if "_" in word}
