"""Hands the rows of summaries over, and tells of those whose figures contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui.loaders.nvprof.names import identifiers
from tui.loaders.nvprof.numbers import percent

if TYPE_CHECKING:
    from tui.loaders.nvprof.figures import Row, Units
    from tui.loaders.nvprof.state import NvprofState
    from tui.loaders.text.section import Line

_SHARED: Final = ("gpu", "api")
"""Sections whose rows are 100% together."""
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
) -> None:
    """Add one row of a result that has fewer figures than a summary to the ``summary`` frame.

    Args:
        state: What the result belongs to.
        section: One of `tui.model.schema.SECTIONS`.
        line: The line that it stands on.
        name: What the figures are of.
        calls: How often; None where the result does not say.
        total_ns: How long altogether; None where the result does not say.
        time_pct: Its share, 0 to 100, as printed.
    """
    row = {"section": section, "name": name, "calls": calls, "total_ns": total_ns, "time_pct": time_pct}
    state.collector.add("summary", {**row, "line": line.number, "repaired": False})


def add_rows(state: NvprofState, rows: Sequence[Row], units: Units, *, first_line: int, has_header: bool) -> None:
    """Add the rows of one table, whose sections are known, to the ``summary`` frame.

    Rows in a range of an NVTX result get section ``nvtx`` and the name of the range; the row of the range itself has
    none, so that no figure is counted twice.

    Args:
        state: What the table belongs to.
        rows: The rows, in the order of their lines.
        units: The units of cells without one.
        first_line: The line of the header.
        has_header: It is a table, rather than rows that go on with one.
    """
    if not rows:
        return
    in_range = state.heading == "nvtx"
    if has_header and not in_range:
        session = state.begin_table(first_line, {row.section for row in rows})
    else:
        session = state.ensure_session(first_line)
    shares: dict[str, float] = {}
    for row in rows:
        try:
            values = row.values(units)
        except ValueError as error:
            state.collector.issue("warning", row.line, row.name, f"this row was left out: {error}")
            continue
        if in_range and row.section != "nvtx":
            values["section"], values["range"] = "nvtx", state.range_name
        key = (
            session.number,
            values.get("range") if in_range else None,
            row.name,
            row.calls,
            row.total,
            row.min,
            row.max,
        )
        first = state.rows_seen.setdefault(key, row.line)
        if not has_header and first != row.line:
            reason = (
                f"this repeats the row of line {first}, as a text that explains a table does: it is not counted again"
            )
            state.collector.issue("info", row.line, row.name, reason)
            continue
        state.collector.add("summary", values)
        shares[row.section] = shares.get(row.section, 0) + percent(row.time_pct)
        if not in_range and row.section in _SHARED:
            state.shares.setdefault((session.number, row.section), []).append((row.line, percent(row.time_pct)))
        state.identifiers |= identifiers(row.name)
        if row.repairs:
            state.collector.issue("info", row.line, row.name, f"row {'; '.join(row.repairs)}")
        elif not row.proven(units):
            state.collector.issue(
                "warning",
                row.line,
                row.name,
                f"the figures of this row contradict each other ({row.calls} calls, average {row.avg}, from {row.min} "
                f"to {row.max}, total {row.total}); they are kept as they stand",
            )
    for section, share in shares.items():
        if has_header and share > 100 + _STEP * len(rows):
            reason = (
                f"the shares of the {section} rows of this table add up to {share:.2f}%: rows of several processes, "
                "or of several tables, are mixed here, and may stand in the wrong session"
            )
            state.collector.issue("warning", first_line, "", reason)


def tell_of_missing_rows(state: NvprofState) -> None:
    """Tell of tables whose rows are not all of the time that they are shares of, when the text has ended."""
    for (session, section), shares in state.shares.items():
        total = sum(share for _, share in shares)
        if total >= 100 - _STEP * len(shares):
            continue
        reason = (
            f"the shares of the {section} rows here add up to {total:.2f}%: rows of the table are missing, and totals "
            "and shares are those of the rest"
        )
        state.collector.resume_session(state.collector.sessions[session])
        state.collector.issue("warning", shares[0][0], "", reason)
