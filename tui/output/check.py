"""The Expert System without a screen: findings as text, Markdown, JSON and SARIF, and whether they fail a build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.expert.findings import OURS, findings
from tui.analysis.expert.model import Severity, State
from tui.analysis.expert.view import TOLD_IN_PART, clean_rules, counts, expert_rows
from tui.analysis.iterations.aggregation import words
from tui.fmt import duration
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.sarif import sarif

if TYPE_CHECKING:
    from tui.model.profile import Profile
    from tui.output.report import Style

FORMATS: Final = ("text", "json", "markdown", "sarif")
SEVERITIES: Final = tuple(reversed([severity.value for severity in Severity]))
"""What a build can fail on, the least first."""

_JSON_COLUMNS: Final = ("numbers", "thresholds", "evidence")
INDENT: Final = 9


class Check:
    """The findings of a profile, and what is written of them.

    Args:
        profile: What was read.
        gpu: The name of the GPU, as the user gives it.
    """

    def __init__(self, profile: Profile, *, gpu: str | None = None) -> None:
        self._profile = profile
        self.findings = findings(profile, gpu=gpu)
        self._of = f" of {words(profile)}" if words(profile) else ""
        self._found = self.findings.filter(pl.col("state") == State.FOUND.value)

    def reaches(self, severity: str) -> bool:
        """Whether anything was found that is as grave as this, or graver. Tools' findings without severity are not."""
        at_least = SEVERITIES[SEVERITIES.index(severity) :]
        return self._found.filter(pl.col("severity").is_in(at_least)).height > 0

    # --- for people --------------------------------------------------------------------------------------------------

    def as_text(self, style: Style) -> str:
        """Findings with what to do, then what could not be told and why, then the clean rules by their ids."""
        lines = [style.heading(f"Findings{self._of} ({self._summary()})"), ""]
        for row in self._found.iter_rows(named=True):
            lines += self._finding_lines(row, style)
        rows = expert_rows(self.findings)
        untold = rows.filter(pl.col("state") == State.CANNOT_TELL.value)
        if untold.height:
            lines += [style.heading("Cannot tell"), ""]
            for row in untold.iter_rows(named=True):
                lines += style.wrapped(f"{self._where(row)}{row['message']}", first="  ", indent="  ")
                lines += style.wrapped(row["all_rules"], first=" " * INDENT, indent=" " * INDENT)
            lines.append("")
        if clean := clean_rules(self.findings):
            lines += [style.heading("Clean"), "", *style.wrapped(" ".join(clean), first="  ", indent="  "), ""]
        return "\n".join(lines[:-1] if lines[-1] == "" else lines) + "\n"

    def _where(self, row: dict[str, Any]) -> str:
        """Which session a row is of, where there are several and it is of one."""
        several = self._profile["sessions"].height > 1
        return f"session {row['session']}: " if several and row["session"] is not None else ""

    def _finding_lines(self, row: dict[str, Any], style: Style) -> list[str]:
        indent = " " * INDENT
        who = row["rule"] or row["tool"]
        label = f"{row['severity'] or 'says':8} "
        lines = style.wrapped(f"{who}  {self._where(row)}{row['problem']}", first=label, indent=indent)
        if row["recommendation"]:
            lines += style.wrapped(row["recommendation"], first=f"{indent}> ", indent=f"{indent}  ")
        if row["cost_ns"] is not None:
            cost = duration(row["cost_ns"], ascii_only=style.ascii_only)
            lines += style.wrapped(f"costs at most {cost}: {row['cost_basis']}", first=indent, indent=indent)
        return [*lines, ""]

    def as_markdown(self) -> str:
        """The same as tables."""
        found = [
            [
                row["severity"] or "says",
                row["rule"] or row["tool"],
                "" if row["session"] is None else str(row["session"]),
                row["problem"] or "",
                row["recommendation"] or "",
                duration(row["cost_ns"]) if row["cost_ns"] is not None else "",
            ]
            for row in self._found.iter_rows(named=True)
        ]
        text = f"## Findings{markdown_cell(self._of)} ({markdown_cell(self._summary())})\n\n"
        headings = ["Severity", "Rule", "Session", "Problem", "Recommendation", "Cost"]
        text += markdown_table(headings, found, [False, False, True, False, False, True]) if found else "none\n"
        untold = expert_rows(self.findings).filter(pl.col("state") == State.CANNOT_TELL.value)
        if untold.height:
            rows = [[f"{self._where(row)}{row['message']}", row["all_rules"]] for row in untold.iter_rows(named=True)]
            text += "\n### Cannot tell\n\n" + markdown_table(["Why", "Rules"], rows, [False, False])
        clean = clean_rules(self.findings)
        return text + (f"\n### Clean\n\n{' '.join(clean)}\n" if clean else "")

    def _summary(self) -> str:
        told = counts(self.findings)
        parts = [
            f"{number} {name}{'s' if number != 1 and name not in ('info',) else ''}"
            for name, number in told.items()
            if number and name in ("error", "warning", "info")
        ]
        of_tools = self._found.filter(pl.col("tool") != OURS)["tool"].unique().sort().to_list()
        parts += [f"{told['says']} of {', '.join(of_tools)}"] if told["says"] else []
        return ", ".join(
            [
                *(parts or ["nothing found"]),
                f"{told['cannot tell']} cannot tell",
                *([f"{told[TOLD_IN_PART]} {TOLD_IN_PART}"] if told[TOLD_IN_PART] else []),
                f"{told['clean']} clean",
            ]
        )

    # --- for programs ------------------------------------------------------------------------------------------------

    def as_json(self) -> str:
        """One object on a line: sources, counts, findings (every row; numbers, thresholds and evidence as objects)."""
        content: dict[str, Any] = {"view": "findings", "sources": list(self._profile.sources)}
        if self._profile.partial:
            content["partial"] = self._profile.partial
        if words(self._profile):
            content["aggregation"] = words(self._profile)
        content["counts"] = dict(counts(self.findings))
        content["findings"] = [
            {name: json.loads(value) if name in _JSON_COLUMNS and value else value for name, value in row.items()}
            for row in self.findings.iter_rows(named=True)
        ]
        return json_line(content)

    def as_sarif(self) -> str:
        """SARIF 2.1.0, for code hosts."""
        return json_line(sarif(self._profile, self.findings))
