"""Runs compared with a baseline, as text, Markdown or JSON: changes with their confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.compare.headline import DEFAULT_PCT
from tui.analysis.compare.run_times import (
    GPU,
    ITERATION,
    LEVEL,
    MIN_SHARE,
    RUN,
    Change,
    ConfidenceInterval,
    RunComparison,
)
from tui.fmt import brief_duration, brief_percent, count
from tui.output.export import markdown_cell, markdown_table
from tui.output.json_document import Bounds, JsonTable, document, schema_fields, source_facts
from tui.output.text_table import align_columns
from tui.text import plain, plural, short_list
from tui.text_width import shorten_symbol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.output.report import Style

ROWS: Final = 15
"""The number of rows of GPU work in text and Markdown; JSON has all."""
MAX_NAME: Final = 48
UNSURE: Final = 3
"""The most uncertain changes that are listed."""
HEADINGS: Final = ("", "Baseline", "Candidate", "Change", f"{LEVEL:.0%} interval", "")
_KEY: Final = ("what", "name")
NOISE: Final = "may be noise"
_KIND_LABELS: Final = {ITERATION: "Median iteration", RUN: "Whole run", GPU: "GPU work"}


class BaselineDiff:
    """A comparison with a baseline, and its output formats.

    Args:
        labels: The labels of baseline and candidate.
        comparison: From `tui.analysis.compare.run_times.compare_runs`.
        than_pct: It fails if something is slower by more than this percentage; None: the default limit is shown.
    """

    def __init__(self, labels: tuple[str, str], comparison: RunComparison, than_pct: float | None) -> None:
        self._labels, self._comparison = labels, comparison
        self._than_pct = DEFAULT_PCT if than_pct is None else than_pct
        self.slower = comparison.slower(self._than_pct)
        """What makes it fail."""

    def verdict(self) -> tuple[str, ...]:
        """Return PASS, FAIL or NO CHANGE with the reason, then the changes that make it fail."""
        outcome = self._comparison.outcome(self._than_pct)
        limit = f"{self._than_pct:g}%"
        if self.slower:
            first = f"{outcome}: slower by more than {limit} (the whole interval is above)"
            return (first, *(f"{_name(change)} {_change(change)}" for change in self.slower[:ROWS]))
        if any(not change.is_noise for change in (*self._comparison.totals, *self._comparison.work)):
            return (f"{outcome}: nothing is slower by more than {limit} beyond noise",)
        return (f"{outcome}: all differences may be noise",)

    def as_text(self, style: Style) -> str:
        """Return the verdict, the figures, and the GPU work that changed most."""
        lines = [style.heading(" > ".join(plain(label) for label in self._labels)), ""]
        lines += [line for sentence in (*self.verdict(), *self._notes()) for line in style.wrapped(f"{sentence}.")]
        lines += ["", *_aligned(self._comparison.totals)]
        if work := self._shown():
            lines += ["", style.heading(self._heading()), "", *_aligned(work)]
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """Return the same as Markdown, for a pull request."""
        baseline, candidate = map(markdown_cell, self._labels)
        right_aligned = [False, True, True, True, True, False]
        text = f"## {baseline} → {candidate}\n\n"
        text += "".join(f"- {markdown_cell(sentence)}.\n" for sentence in (*self.verdict(), *self._notes()))
        text += "\n" + markdown_table(
            list(HEADINGS), [list(_cells(total)) for total in self._comparison.totals], right_aligned
        )
        if work := self._shown():
            text += f"\n### {markdown_cell(self._heading())}\n\n"
            text += markdown_table(list(HEADINGS), [list(_cells(change)) for change in work], right_aligned)
        return text

    def as_json(self, files: Sequence[str] = (), bounds: Bounds | None = None) -> str:
        """Return everything as one JSON object on a line, in nanoseconds and percent.

        Args:
            files: The runs that were compared with the baseline.
            bounds: The maximum size.
        """
        comparison = self._comparison
        content: dict[str, Any] = {
            **schema_fields("baseline-diff"),
            "sources": [source_facts(file) for file in files],
            "baseline": self._labels[0],
            "candidate": self._labels[1],
            "runs": list(comparison.runs),
            "samples": list(comparison.samples),
            "per_iteration": comparison.per_iteration,
            "verdict": {
                "outcome": comparison.outcome(self._than_pct).value,
                "than_pct": self._than_pct,
                "slower": [_json(change) for change in self.slower],
                "undecided": [_json(change) for change in comparison.undecided(self._than_pct)],
            },
            "common_pct": comparison.common_pct,
            "removed": list(comparison.unmatched[0]),
            "new": list(comparison.unmatched[1]),
        }
        rows = {"totals": comparison.totals, "work": comparison.work}
        tables = {
            name: JsonTable(pl.DataFrame([_json(change) for change in changes]), _KEY) for name, changes in rows.items()
        }
        return document(content, tables, bounds)

    def _shown(self) -> tuple[Change, ...]:
        return self._comparison.work[:ROWS]

    def _heading(self) -> str:
        number = len(self._comparison.work)
        return (
            f"GPU work of at least {MIN_SHARE:.0%} (first {ROWS} of {count(number)})" if number > ROWS else "GPU work"
        )

    def _notes(self) -> list[str]:
        comparison = self._comparison
        noun = "iteration" if comparison.per_iteration else "run"
        sides = [
            f"{side_name} {plural(runs, 'run')}, {plural(samples, noun)}"
            for side_name, runs, samples in zip(
                ("baseline", "candidate"), comparison.runs, comparison.samples, strict=True
            )
        ]
        notes = [f"Times per {noun}, medians: {'; '.join(sides)}"]
        if unsure := comparison.undecided(self._than_pct):
            named = "; ".join(f"{_name(unsure_change)} {_change(unsure_change)}" for unsure_change in unsure[:UNSURE])
            omitted_note = f"; and {len(unsure) - UNSURE} more" if len(unsure) > UNSURE else ""
            notes.append(f"Possibly slower by more than {self._than_pct:g}% (more runs needed): {named}{omitted_note}")
        if min(comparison.runs) == 1:
            notes.append(
                "Intervals of a single run do not include variation between runs: use three or more runs on each side"
            )
        if comparison.common_pct is not None:
            change = _signed_percent(comparison.common_pct)
            notes.append(f"All GPU work changed by {change}; the rows below exclude this common change")
        for prefix, names in zip(("Only in the baseline", "Only in the candidate"), comparison.unmatched, strict=True):
            if names:
                notes.append(f"{prefix}: {short_list([shorten_symbol(plain(name), MAX_NAME) for name in names], 5)}")
        return notes


def _json(row: Change) -> dict[str, Any]:
    return {
        "what": row.kind,
        "name": row.name or None,
        "baseline_ns": _bounds(row.baseline),
        "candidate_ns": _bounds(row.candidate),
        "change_pct": _bounds(row.change_pct),
        "may_be_noise": row.is_noise,
    }


def _bounds(interval: ConfidenceInterval) -> dict[str, float | None]:
    values = {"median": interval.median, "low": interval.low, "high": interval.high}
    return {name: value if abs(value) < float("inf") else None for name, value in values.items()}


def _name(row: Change) -> str:
    return shorten_symbol(plain(row.name), MAX_NAME) if row.name else _KIND_LABELS[row.kind]


def _change(row: Change) -> str:
    change = row.change_pct
    return f"{_signed_percent(change.median)}, {_signed_percent(change.low)} to {_signed_percent(change.high)}"


def _signed_percent(value: float) -> str:
    if abs(value) == float("inf"):
        return "new" if value > 0 else "-∞"
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{brief_percent(abs(value))}"


def _aligned(changes: Sequence[Change]) -> list[str]:
    return align_columns([HEADINGS, *map(_cells, changes)], right=slice(1, -1))


def _cells(row: Change) -> tuple[str, ...]:
    low, high = _signed_percent(row.change_pct.low), _signed_percent(row.change_pct.high)
    return (
        _name(row),
        _time(row.baseline),
        _time(row.candidate),
        _signed_percent(row.change_pct.median),
        f"{low} to {high}",
        NOISE if row.is_noise else "",
    )


def _time(interval: ConfidenceInterval) -> str:
    low, high = brief_duration(max(0.0, interval.low)), brief_duration(interval.high)
    return f"{brief_duration(interval.median)} ({low} to {high})"
