"""Lines of the panels about the input: sessions, layers, what the tool reports, issues, files, the system."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from textual.content import Content

from tui.analysis.allocator import allocations, allocators, memory_devices, memory_of, memory_peak
from tui.analysis.expert.words import counted, percent, size
from tui.analysis.issues import issues
from tui.analysis.layers import layer_totals
from tui.analysis.sessions import session_times
from tui.analysis.tool_report import other_summaries
from tui.fmt import brief_duration, count, metric
from tui.screens.dashboard.entries import (
    Entry,
    Link,
    fraction,
    link_of_gpu_name,
    link_of_layers,
    link_of_reason,
    link_of_system,
)
from tui.text import plain
from tui.widgets.charts.bars import BarRow
from tui.widgets.details import Details, sections

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tui.analysis.dashboard import Dashboard
    from tui.analysis.needs import Need
    from tui.model.profile import Profile
    from tui.widgets.details import Line


def need_text(need: Need) -> Details:
    """What is missing and what it would show, then how to record it."""
    gives = (f"  {plain(need.gives)}", "$text-muted")
    heading = Content.assemble((f"no {plain(need.name)}", "bold $warning"), gives)
    return Details(((4, heading), (4, Content(f"  {plain(need.record)}"))))


_OP_FRAME: Final = re.compile(r"at::_ops::(\w+)::call|wrapper_CUDA_(\w+)\(")
"""The frame of a C++ call stack that names the op."""
SESSION_ROWS: Final = 6
"""Sessions that the dashboard shows; the menu of sessions shows all."""
ISSUE_ROWS: Final = 3
"""Issues that the dashboard spells out; the view behind them shows all."""


def session_entries(whole: Profile) -> list[Entry]:
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
                brief_duration(row["gpu_ns"]) if row["gpu_ns"] is not None else str(row["holds"]).partition(",")[0],
            ),
            Link(session=row["session"]),
            row,
        )
        for row in largest.sort("session").iter_rows(named=True)
    ]
    if times.height > len(entries):
        entries.append(Entry(BarRow("all", f"and {times.height - len(entries)} shorter ones", None, "S: all"), Link()))
    return entries


def layer_entries(profile: Profile) -> list[Entry]:
    """The time of all layers by phase and executor; where any was predicted, `layers_note` explains which is which."""
    totals = layer_totals(profile)
    most = max((value for value in totals["measured_ns"] if value is not None), default=None)
    row_of = ("measured_ns", "predicted_ns") if layers_note(profile) else ("measured_ns",)
    entries = []
    for row in totals.iter_rows(named=True):
        figures = "  ".join(brief_duration(row[name]) for name in row_of)
        label = f"{row['phase']}, {row['executor']}"
        entries.append(
            Entry(BarRow(label, label, fraction(row["measured_ns"], most), figures), link_of_layers(row), row)
        )
    return entries


_STACKS: Final = 3
"""Stacks that the dashboard names; the view of memory shows all."""


def memory_entries(profile: Profile) -> list[Entry]:
    """Of memory snapshots: each GPU's peak and when, what is held at the end, the largest stacks, and failures."""
    if profile["memory_segments"].is_empty():
        return []
    link = Link("memory")
    entries = []
    peaks = allocators(profile).drop_nulls("peak_bytes")
    held = memory_devices(profile)
    several = held["session"].n_unique() > 1
    for row in peaks.iter_rows(named=True):
        gpu = _gpu_of(row, several=several)
        when = brief_duration(row["peak_at_ns"]) if row["peak_at_ns"] is not None else _event_at(profile, row)
        share = fraction(row["peak_bytes"], row["reserved_peak_bytes"])
        entries.append(Entry(BarRow(f"peak {gpu}", f"{gpu} peak ({when})", share, size(row["peak_bytes"])), link, row))
    for row in held.iter_rows(named=True):
        gpu = _gpu_of(row, several=several)
        used = f"{gpu} in use, of {size(row['reserved_bytes'])} reserved"
        share = fraction(row["allocated_bytes"], row["reserved_bytes"])
        entries.append(Entry(BarRow(f"held {gpu}", used, share, size(row["allocated_bytes"])), link, row))
        if row["free_bytes"] and (apart := row["fragmentation_pct"]) is not None:
            free = f"{gpu} free memory, fragmented"
            entries.append(Entry(BarRow(f"free {gpu}", free, apart / 100, percent(apart)), link, row))
    for number, row in enumerate(memory_peak(profile).head(_STACKS).iter_rows(named=True), 1):
        name = PurePath(row["call_site"]).name if row["call_site"] else _innermost_op(row["stack"])
        figure = f"{size(row['size_bytes'])}  {percent(row['peak_pct'])}"
        entries.append(Entry(BarRow(f"stack {number}", plain(name), row["peak_pct"] / 100, figure), link, row))
    failed = profile["memory_events"].filter(pl.col("action").cast(pl.String) == "oom").height
    if failed:
        entries.append(Entry(BarRow("oom", "Out of memory", None, counted(failed, "time")), link))
    return entries


def _innermost_op(stack: str | None) -> str:
    """What allocated memory without a line of Python, as the backward pass does.

    >>> _innermost_op("RegisterCUDA.cpp(?): at::(anonymous namespace)::wrapper_CUDA_bmm(at::Tensor const&)")
    'bmm (C++, no Python frame)'
    """
    if not stack:
        return "call stack not recorded"
    op = _OP_FRAME.search(stack)
    return f"{op[1] or op[2]} (C++, no Python frame)" if op else "no Python frame"


def _gpu_of(row: Mapping[str, Any], *, several: bool) -> str:
    gpu = f"GPU {row['device']}" if row["device"] is not None else "GPU"
    return f"session {row['session']} {gpu}" if several else gpu


def _event_at(profile: Profile, row: Mapping[str, Any]) -> str:
    """The event at which most was allocated, where events have no times."""
    rows = allocations(profile).filter(memory_of(row["session"], row["place"], row["device"]))
    place = rows["allocated_bytes"].arg_max()
    return f"event {count(rows['number'][place])} of {count(rows.height)}" if place is not None else "the end"


def layers_note(profile: Profile) -> str:
    """What the two figures of a line of layers are; empty where there is one."""
    return "measured, predicted" if layer_totals(profile)["predicted_ns"].count() else ""


def tool_entries(board: Dashboard) -> list[Entry]:
    """What the recording tool reports: its figures, then its findings."""
    link = Link("tool-report")
    entries = []
    for row in board.tool_headlines.iter_rows(named=True):
        value = row["tool_value"]
        share = value / 100 if row["unit"] == "%" and value is not None else None
        figure = metric(value, row["unit"]) if value is not None else ""
        entries.append(Entry(BarRow(str(row["number"]), row["tool_name"] or "", share, figure), link, row))
    if entries and board.tool_rows > len(entries):
        more = f"and {count(board.tool_rows - len(entries))} more"
        entries.append(Entry(BarRow("more", more, None, ""), link))
    return entries


def input_entries(board: Dashboard, profile: Profile) -> list[Entry]:
    """What else there is to look at: issues, metrics, other summaries, the log."""
    entries = []
    if board.left_out:
        entries.append(Entry(BarRow("left-out", "replayed kernels are left out", None, "see System"), Link("metrics")))
    found = [
        counted(number, severity, "info" if severity == "info" else "")
        for severity, number in board.issues.items()
        if number
    ]
    if found:
        entries.append(Entry(BarRow("issues", f"issues: {', '.join(found)}", None, ""), Link("issues")))
    # The gravest in words: where a log holds no times, they are what there is to know.
    for place, row in enumerate(issues(profile).head(ISSUE_ROWS).iter_rows(named=True)):
        line = f"line {count(row['line'])}" if row["line"] is not None else ""
        # The words of the input stand below the reason, as in the report: together they would be cut.
        words = [(row["reason"] or "", line), *([(f"| {row['text']}", "")] if row["text"] else [])]
        entries += [
            Entry(BarRow(f"issue {place} {number}", f"  {text}", None, value, sentence=True), Link("issues"), row)
            for number, (text, value) in enumerate(words)
        ]
    if metrics := profile["metrics"].height:
        entries.append(Entry(BarRow("metrics", "metrics and events", None, f"{count(metrics)} rows"), Link("metrics")))
    if others := other_summaries(profile).height:
        row_of = BarRow("summaries", "other summaries", None, f"{count(others)} rows")
        entries.append(Entry(row_of, Link("summaries")))
    for source, text in list(profile.texts.items())[:1]:
        row_of = BarRow("log", f"log: {source.rsplit('/', 1)[-1]}", None, f"{count(text.line_count)} lines")
        entries.append(Entry(row_of, Link("log")))
    return entries


def system_entries(board: Dashboard) -> tuple[list[Entry], list[Details]]:
    """What the input records of the system, the GPUs first, and how each is written."""
    found: dict[Line, Entry] = {}

    def add(line: Line, link: Link, values: Mapping[str, Any]) -> None:
        label, value, _ = line
        found.setdefault(line, Entry(BarRow(f"{len(found)} {label}", f"{label} {value}", None, ""), link, values))

    for row in board.devices.iter_rows(named=True):
        facts = []
        if row["compute_capability"]:
            facts.append(f"cc {row['compute_capability']}")
        if row["sm_count"]:
            facts.append(f"{row['sm_count']} SMs")
        if row["facts_source"] == "table":
            facts.append("by its name")
        name = f"GPU {row['device'] if row['device'] is not None else '?'}"
        add((name, row["name"] or "unknown", ", ".join(facts)), link_of_gpu_name(row), row)
    for fact in board.system:
        add((fact.label, fact.written(), ""), link_of_system(fact.name), {})
    if board.left_out:
        add(("Left out", board.left_out, ""), Link("metrics"), {})
    return list(found.values()), [Details((line,)) for line in sections([("", list(found))]).lines]


def need_entries(needs: Sequence[Need], reasons: Collection[str]) -> tuple[list[Entry], list[Details]]:
    """What the input does not hold, and how each is written.

    Args:
        needs: What is missing.
        reasons: Why rules do not apply, as far as that has been computed.
    """
    by_command: dict[str, list[Need]] = {}
    for need in needs:
        by_command.setdefault(need.record, []).append(need)
    entries, texts = [], []
    for same in by_command.values():
        links = [link_of_reason(need.missing) for need in same if need.missing in reasons]
        need = (
            same[0]
            if len(same) == 1
            else replace(same[0], name=", ".join(need.name for need in same), gives="", unknown="")
        )
        entries.append(Entry(BarRow(need.name, need.missing, None, ""), links[0] if links else None))
        texts.append(need_text(need))
    return entries, texts
