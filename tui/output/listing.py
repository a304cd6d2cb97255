"""Lists for the command line and the README: formats, keys, and the text of ``inspect``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tui.analysis.capabilities import OK
from tui.analysis.issues import severity_counts
from tui.fmt import duration
from tui.keys import ACTIONS, VIEW_ACTIONS, Action
from tui.text import plain, plural
from tui.text_width import pad

if TYPE_CHECKING:
    from tui.loaders.base import Format


def formats_text(formats: Sequence[Format], *, width: int) -> str:
    """Return the formats that can be opened, as text."""
    paragraphs = []
    for described in formats:
        facts = {
            "recognized by": described.recognized_by,
            "feeds": ", ".join(described.feeds),
            "record with": described.record_with,
        }
        lines = [f"{described.name}  {described.title}"]
        for label, fact in facts.items():
            lines += textwrap.wrap(
                fact,
                max(width, 40),
                initial_indent=f"  {label:15}",
                subsequent_indent=" " * 17,
                break_long_words=False,
                break_on_hyphens=False,
            )
        paragraphs.append("\n".join(lines) + "\n")
    return "\n".join(paragraphs)


def formats_json(formats: Sequence[Format]) -> str:
    """Return the formats that can be opened, as JSON."""
    import polars as pl

    from tui.output.json_document import JsonTable, document, schema_fields

    names = ("name", "title", "recognized_by", "feeds", "record_with")
    rows = [
        {**{name: getattr(description, name) for name in names}, "feeds": list(description.feeds)}
        for description in formats
    ]
    return document(schema_fields("formats"), {"rows": JsonTable(pl.DataFrame(rows), ("name",))})


def formats_markdown(formats: Sequence[Format], samples: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the formats that can be opened, as the table of the README.

    Args:
        formats: The rows.
        samples: The path of a sample by the name of its format; the title of the format links to it.
    """
    titles = {
        supported.name: f"[{supported.title}]({samples[supported.name]})"
        if supported.name in samples
        else supported.title
        for supported in formats
    }
    lines = ["| Format | `--format-in` | Recognized by | Feeds | Record it with |", "| --- | --- | --- | --- | --- |"]
    for described in formats:
        feeds = ", ".join(described.feeds)
        cells = (titles[described.name], f"`{described.name}`", _cell(described.recognized_by), feeds)
        lines.append(f"| {' | '.join(cells)} | `{_cell(described.record_with)}` |")
    return "\n".join(lines) + "\n"


def keys_text(*, width: int) -> str:
    """Return all active keys as text, with the action names that ``keys.toml`` uses."""
    lines = []
    for group, actions in {**_groups(), "Views": VIEW_ACTIONS}.items():
        lines.append(group)
        for action in actions:
            lines += textwrap.wrap(
                action.help,
                max(width, 60),
                initial_indent=f"  {pad(shown_keys(action), 14)} {pad(action.id, 23)} ",
                subsequent_indent=" " * 41,
                break_on_hyphens=False,
            )
        lines.append("")
    return "\n".join(lines)


def keys_markdown() -> str:
    """Return every key, as the tables of the README."""
    lines = []
    for group, actions in _groups().items():
        lines += [f"### {group}", "", "| Key | Action | Where |", "| --- | --- | --- |"]
        lines += [
            f"| {' '.join(f'`{_cell(key)}`' for key in shown_keys(action).split(' '))} | {_cell(action.help)} "
            f"| {action.scope.value} |"
            for action in actions
        ]
        lines.append("")
    return "\n".join(lines)


def shown_keys(action: Action) -> str:
    """Return the keys of an action as text, separated by blanks.

    >>> shown_keys(next(action for action in ACTIONS if action.id == "table.find"))
    '/'
    """
    return action.shown_keys or action.keys.replace(",", " ")


def inspect_text(contents: Mapping[str, Any], *, width: int) -> str:
    """Return `tui.analysis.capabilities.inspect` of a file as text.

    Args:
        contents: Its answer, or ``source`` and ``error``.
        width: Cells of a line.
    """
    lines = [plain(str(contents["source"]))]
    if "error" in contents:
        return "\n".join([*lines, *_wrap("cannot be opened", plain(str(contents["error"])), width), ""]) + "\n"
    for session in contents["sessions"]:
        lines.append(f"  session {session['session']}: {_session_facts(session)}")
        if session.get("command"):
            lines += _wrap("command", plain(str(session["command"])), width, indent=4)
        facts = [fact for name, frame in session["frames"].items() for fact in _frame_facts(name, frame)]
        width_of_labels = max((len(label) for label, _ in facts), default=0) + 1
        lines += [f"    {label:{max(14, width_of_labels)}}{text}" for label, text in facts]
    lines.append(f"  issues: {severity_counts(contents['issues']) or 'none'}")
    views: Mapping[str, str] = contents["views"]
    fed = [name for name, state in views.items() if state == OK]
    lines += _wrap("views", ", ".join(fed) or "none", width)
    views_by_reason: dict[str, list[str]] = {}
    for name, reason in views.items():
        if reason != OK:
            views_by_reason.setdefault(reason, []).append(name)
    for reason, names in views_by_reason.items():
        lines += _wrap("not available", f"{', '.join(names)} ({plain(reason)})", width)
    return "\n".join([*lines, ""]) + "\n"


def _session_facts(session: Mapping[str, Any]) -> str:
    facts = [str(session["format"])]
    if session.get("pid") is not None:
        facts.append(f"process {session['pid']}")
    if session.get("first_line") is not None:
        facts.append(f"lines {session['first_line']} to {session['last_line']}")
    return plain(", ".join(facts))


def _frame_facts(name: str, frame: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return lines about one frame: label and text."""

    def rows_and_time(rows: int, total_ns: int | None, calls: int | None = None) -> str:
        known_calls = "" if calls is None else f", {plural(calls, 'call')}"
        time = "" if total_ns is None else f", {duration(total_ns)}"
        return f"{plural(rows, 'row')}{known_calls}{time}"

    if name == "summary":
        return [
            (f"{section} summary", rows_and_time(part["rows"], part["total_ns"], part["calls"]))
            for section, part in frame.items()
            if isinstance(part, dict) and part["rows"]
        ]
    source = f" ({plain(frame['source'])})" if frame.get("source") else ""
    lines = [(name, rows_and_time(frame["rows"], frame.get("duration_ns")) + source)] if frame["rows"] else []
    lines += [
        (f"  {kind}", rows_and_time(part["rows"], part["duration_ns"]))
        for kind, part in frame.get("by_kind", {}).items()
    ]
    return lines


def _wrap(label: str, text: str, width: int, *, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=f"{' ' * indent}{label}: ",
        subsequent_indent=" " * (indent + 4),
        break_on_hyphens=False,
    )


def _groups() -> dict[str, list[Action]]:
    """Return the actions by group, in the order of the key table."""
    groups: dict[str, list[Action]] = {}
    for action in ACTIONS:
        groups.setdefault(action.group, []).append(action)
    return groups


def _cell(text: str) -> str:
    """Return a text of the program as a cell of a Markdown table."""
    return text.replace("|", "\\|")
