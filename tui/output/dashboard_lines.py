"""Facts, shares and needs of the dashboard as lines of text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui.analysis.dashboard import REST, Fact
from tui.analysis.definitions import definition
from tui.fitting import bar, cell_width, pad
from tui.fmt import duration, percent
from tui.model.columns import ColumnKind
from tui.output.export import markdown_table
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.analysis.inputs.recording import Need
    from tui.output.report import Style

BAR_WIDTH: Final = 30


def fact_lines(facts: Sequence[Fact], style: Style) -> list[str]:
    """Facts one below the other, numbers aligned; then what is unknown, by the reason."""
    known = [(fact, _value(fact, style.ascii_only)) for fact in facts if fact.value is not None]
    labels = max((cell_width(fact.label) for fact, _text in known), default=0)
    widest = max((cell_width(text) for fact, text in known if fact.kind is not ColumnKind.TEXT), default=0)
    lines: list[str] = []
    for fact, text in known:
        start = f"  {pad(fact.label, labels)}  "
        if fact.kind is ColumnKind.TEXT:
            lines += style.wrapped(text, first=start, indent=" " * len(start))
        else:
            lines.append(start + pad(text, widest, right=True))
    for reason, labels_of in _unknown(facts).items():
        lines += style.wrapped(f"unknown: {', '.join(labels_of)} ({reason})", first="  ", indent="    ")
    return lines


def split_lines(split: pl.DataFrame, style: Style) -> list[str]:
    """A bar for each kind of work, as long as its share."""
    names = [plain(str(name), ascii_only=style.ascii_only) for name in split["group"].to_list()]
    totals = [duration(value, ascii_only=style.ascii_only) for value in split["total_ns"].to_list()]
    shares = [percent(value, ascii_only=style.ascii_only) for value in split["time_pct"].to_list()]
    names = [
        f"{name} ({members} ops)" if name == REST else name
        for name, members in zip(names, split["members"].to_list(), strict=True)
    ]
    widths = [max(map(cell_width, texts)) for texts in (names, shares, totals)]
    return [
        f"  {pad(name, widths[0])}  {pad(share, widths[1], right=True)}  {pad(total, widths[2], right=True)}  "
        + bar((value or 0) / 100, BAR_WIDTH, ascii_only=style.ascii_only)
        for name, share, total, value in zip(names, shares, totals, split["time_pct"].to_list(), strict=True)
    ]


def need_lines(needs: Sequence[Need], style: Style) -> list[str]:
    """Each command, and below it what it would add."""
    by_command: dict[str, list[Need]] = {}
    for need in needs:
        by_command.setdefault(need.record, []).append(need)
    lines: list[str] = []
    for command, gained in by_command.items():
        lines += style.wrapped(command, indent="  ")
        for need in gained:
            lines += style.wrapped(f"{need.name}: {need.gives}", first="      ", indent="        ")
    return lines


def meaning_lines(facts: Sequence[Fact], style: Style) -> list[str]:
    """The formula of each known figure."""
    lines: list[str] = []
    for fact in facts:
        if fact.value is not None:
            lines += style.wrapped(f"{fact.label} = {definition(fact.name).formula}", first="  ", indent="      ")
    return lines


def fact_markdown(facts: Sequence[Fact]) -> str:
    """Facts as a table; then what is unknown, with the reason."""
    rows = [[fact.label, _value(fact, ascii_only=False)] for fact in facts if fact.value is not None]
    rows += [[label, f"unknown: {reason}"] for reason, labels in _unknown(facts).items() for label in labels]
    numbers = all(fact.kind is not ColumnKind.TEXT for fact in facts)
    return markdown_table(["What", "Value"], rows, [False, numbers])


def _unknown(facts: Sequence[Fact]) -> dict[str, list[str]]:
    """The labels of the facts that are not known, by the reason."""
    reasons: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            reasons.setdefault(fact.source, []).append(fact.label)
    return reasons


def _value(fact: Fact, ascii_only: bool) -> str:
    text = fact.written(ascii_only=ascii_only)
    return plain(text, ascii_only=ascii_only) if fact.kind is ColumnKind.TEXT else text
