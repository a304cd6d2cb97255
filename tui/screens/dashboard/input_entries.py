"""Lines of the panels about the input: sessions, layers, what the tool says, issues, files, the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tui.analysis.expert.words import counted
from tui.analysis.issues import issues
from tui.analysis.layers import layer_totals
from tui.analysis.sessions import session_times
from tui.analysis.summaries import other_summaries
from tui.fmt import count, duration, metric
from tui.screens.dashboard.doors import Door, door_of_gpu_name, door_of_layers, door_of_reason, door_of_system
from tui.screens.dashboard.panels import Entry, fraction
from tui.widgets.bars import BarRow
from tui.widgets.details import Details, sections
from tui.widgets.needs import need_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tui.analysis.dashboard import Dashboard
    from tui.analysis.inputs.recording import Need
    from tui.model.profile import Profile
    from tui.widgets.details import Line

SESSION_ROWS: Final = 6
"""Sessions that the dashboard shows; the menu of sessions shows all."""
ISSUE_ROWS: Final = 3
"""Issues that the dashboard spells out; the view behind them shows all."""


def session_entries(whole: Profile, *, ascii_only: bool) -> list[Entry]:
    """The sessions with most GPU time, in order; the last line leads to all."""
    times = session_times(whole)
    most = times["gpu_ns"].max()
    largest = times.sort("gpu_ns", descending=True, nulls_last=True, maintain_order=True).head(SESSION_ROWS)
    entries = [
        Entry(
            BarRow(
                str(row["session"]),
                " ".join(part for part in (str(row["session"]), row["rank_words"] or "", row["short"]) if part),
                fraction(row["gpu_ns"], most),
                duration(row["gpu_ns"], ascii_only=ascii_only)
                if row["gpu_ns"] is not None
                else str(row["holds"]).partition(",")[0],
            ),
            Door(session=row["session"]),
            row,
        )
        for row in largest.sort("session").iter_rows(named=True)
    ]
    if times.height > len(entries):
        entries.append(Entry(BarRow("all", f"and {times.height - len(entries)} shorter ones", None, "S: all"), Door()))
    return entries


def layer_entries(profile: Profile, *, ascii_only: bool) -> list[Entry]:
    """The time of all layers by phase and executor; where any was predicted, `layers_note` says which is which."""
    totals = layer_totals(profile)
    most = max((value for value in totals["measured_ns"] if value is not None), default=None)
    told = ("measured_ns", "predicted_ns") if layers_note(profile) else ("measured_ns",)
    entries = []
    for row in totals.iter_rows(named=True):
        figures = "  ".join(duration(row[name], ascii_only=ascii_only) for name in told)
        label = f"{row['phase']}, {row['executor']}"
        entries.append(
            Entry(BarRow(label, label, fraction(row["measured_ns"], most), figures), door_of_layers(row), row)
        )
    return entries


def layers_note(profile: Profile) -> str:
    """What the two figures of a line of layers are; empty where there is one."""
    return "measured, predicted" if layer_totals(profile)["predicted_ns"].count() else ""


def tool_entries(board: Dashboard, *, ascii_only: bool) -> list[Entry]:
    """What the recording tool says itself: its figures, then its findings, apart from ours."""
    door = Door("tool-report")
    entries = []
    for row in board.tool_says.iter_rows(named=True):
        value = row["tool_value"]
        share = value / 100 if row["unit"] == "%" and value is not None else None
        figure = metric(value, row["unit"], ascii_only=ascii_only) if value is not None else ""
        entries.append(Entry(BarRow(str(row["number"]), row["tool_name"] or "", share, figure), door, row))
    if entries and board.tool_rows > len(entries):
        more = f"and {count(board.tool_rows - len(entries))} more"
        entries.append(Entry(BarRow("more", more, None, ""), door))
    return entries


def input_entries(board: Dashboard, profile: Profile) -> list[Entry]:
    """What else there is to look at: issues, metrics, other summaries, the log."""
    entries = []
    if board.left_out:
        entries.append(Entry(BarRow("left-out", "replayed kernels are left out", None, "see System"), Door("metrics")))
    found = [
        counted(number, severity, "info" if severity == "info" else "")
        for severity, number in board.issues.items()
        if number
    ]
    if found:
        entries.append(Entry(BarRow("issues", f"issues: {', '.join(found)}", None, ""), Door("issues")))
    # The gravest in words: where a log holds no times, they are what there is to know.
    for place, row in enumerate(issues(profile).head(ISSUE_ROWS).iter_rows(named=True)):
        line = f"line {count(row['line'])}" if row["line"] is not None else ""
        # The words of the input stand below the reason, as in the report: together they would be cut.
        words = [(row["reason"] or "", line), *([(f"| {row['text']}", "")] if row["text"] else [])]
        entries += [
            Entry(BarRow(f"issue {place} {number}", f"  {text}", None, value, sentence=True), Door("issues"), row)
            for number, (text, value) in enumerate(words)
        ]
    if metrics := profile["metrics"].height:
        entries.append(Entry(BarRow("metrics", "metrics and events", None, f"{count(metrics)} rows"), Door("metrics")))
    if others := other_summaries(profile).height:
        told = BarRow("summaries", "other summaries", None, f"{count(others)} rows")
        entries.append(Entry(told, Door("summaries")))
    for source, text in list(profile.texts.items())[:1]:
        told = BarRow("log", f"log: {source.rsplit('/', 1)[-1]}", None, f"{count(text.line_count)} lines")
        entries.append(Entry(told, Door("log")))
    return entries


def system_entries(board: Dashboard, *, ascii_only: bool) -> tuple[list[Entry], list[Details]]:
    """What the input says of the system, the GPUs first, and how each is written."""
    found: dict[Line, Entry] = {}

    def add(line: Line, door: Door, values: Mapping[str, Any]) -> None:
        label, value, _ = line
        found.setdefault(line, Entry(BarRow(f"{len(found)} {label}", f"{label} {value}", None, ""), door, values))

    for row in board.devices.iter_rows(named=True):
        facts = []
        if row["compute_capability"]:
            facts.append(f"cc {row['compute_capability']}")
        if row["sm_count"]:
            facts.append(f"{row['sm_count']} SMs")
        if row["facts_source"] == "table":
            facts.append("by its name")
        name = f"GPU {row['device'] if row['device'] is not None else '?'}"
        add((name, row["name"] or "unknown", ", ".join(facts)), door_of_gpu_name(row), row)
    for fact in board.system:
        add((fact.label, fact.written(ascii_only=ascii_only), ""), door_of_system(fact.name), {})
    if board.left_out:
        add(("Left out", board.left_out, ""), Door("metrics"), {})
    return list(found.values()), [Details((line,)) for line in sections([("", list(found))]).lines]


def need_entries(needs: Sequence[Need], reasons: Collection[str]) -> tuple[list[Entry], list[Details]]:
    """What the input does not hold, and how each is written.

    Args:
        needs: What is missing.
        reasons: Why rules could not be told, as far as that has been worked out.
    """
    entries = [
        Entry(
            BarRow(need.name, need.missing, None, ""),
            door_of_reason(need.missing) if need.missing in reasons else None,
        )
        for need in needs
    ]
    return entries, [need_text(need) for need in needs]
