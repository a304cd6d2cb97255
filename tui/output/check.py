"""The Expert System without a screen: findings as text, Markdown, JSON and SARIF, and whether they fail a build."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import polars as pl

from tui import __version__
from tui.analysis.expert.findings import OURS, findings
from tui.analysis.expert.model import Severity, State
from tui.analysis.expert.registry import RULES
from tui.analysis.expert.view import counts, expert_rows
from tui.fmt import duration
from tui.output.export import json_line, markdown_table
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile
    from tui.output.report import Style

FORMATS: Final = ("text", "json", "markdown", "sarif")
SEVERITIES: Final = tuple(reversed([severity.value for severity in Severity]))
"""What a build can fail on, the least first."""

_LEVELS: Final[Mapping[str | None, str]] = {"error": "error", "warning": "warning", "info": "note", None: "note"}
_JSON_COLUMNS: Final = ("numbers", "thresholds", "evidence")
SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
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
        self._found = self.findings.filter(pl.col("state") == State.FOUND.value)

    def reaches(self, severity: str) -> bool:
        """Whether anything was found that is as grave as this, or graver. Tools' findings without severity are not."""
        at_least = SEVERITIES[SEVERITIES.index(severity) :]
        return self._found.filter(pl.col("severity").is_in(at_least)).height > 0

    # --- for people --------------------------------------------------------------------------------------------------

    def as_text(self, style: Style) -> str:
        """Findings with what to do, then what could not be told and why, then the clean rules by their ids."""
        lines = [style.heading(f"Findings ({self._summary()})"), ""]
        several = self._profile["sessions"].height > 1
        for row in self._found.iter_rows(named=True):
            lines += self._finding_lines(row, style, several=several)
        rows = expert_rows(self.findings)
        untold = rows.filter(pl.col("state") == State.CANNOT_TELL.value)
        if untold.height:
            lines += [style.heading("Cannot tell"), ""]
            for row in untold.iter_rows(named=True):
                lines += style.wrapped(row["message"], first="  ", indent="  ")
                lines += style.wrapped(row["all_rules"], first=" " * INDENT, indent=" " * INDENT)
            lines.append("")
        clean = self.findings.filter(pl.col("state") == State.CLEAN.value)["rule"].unique(maintain_order=True)
        if clean.len():
            lines += [style.heading("Clean"), "", *style.wrapped(" ".join(clean), first="  ", indent="  "), ""]
        return "\n".join(lines[:-1] if lines[-1] == "" else lines) + "\n"

    def _finding_lines(self, row: dict[str, Any], style: Style, *, several: bool) -> list[str]:
        indent = " " * INDENT
        who = row["rule"] or row["tool"]
        where = f"session {row['session']}: " if several and row["session"] is not None else ""
        label = f"{row['severity'] or 'says':8} "
        lines = style.wrapped(f"{who}  {where}{row['problem']}", first=label, indent=indent)
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
        text = f"## Findings ({self._summary()})\n\n"
        headings = ["Severity", "Rule", "Session", "Problem", "Recommendation", "Cost"]
        text += markdown_table(headings, found, [False, False, True, False, False, True]) if found else "none\n"
        untold = expert_rows(self.findings).filter(pl.col("state") == State.CANNOT_TELL.value)
        if untold.height:
            rows = [[row["message"], row["all_rules"]] for row in untold.iter_rows(named=True)]
            text += "\n### Cannot tell\n\n" + markdown_table(["Why", "Rules"], rows, [False, False])
        clean = self.findings.filter(pl.col("state") == State.CLEAN.value)["rule"].unique(maintain_order=True)
        return text + (f"\n### Clean\n\n{' '.join(clean)}\n" if clean.len() else "")

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
            [*(parts or ["nothing found"]), f"{told['cannot tell']} cannot tell", f"{told['clean']} clean"]
        )

    # --- for programs ------------------------------------------------------------------------------------------------

    def as_json(self) -> str:
        """One object on a line: sources, counts, findings (every row; numbers, thresholds and evidence as objects)."""
        content: dict[str, Any] = {"view": "findings", "sources": list(self._profile.sources)}
        if self._profile.partial:
            content["partial"] = self._profile.partial
        content["counts"] = dict(counts(self.findings))
        content["findings"] = [
            {name: json.loads(value) if name in _JSON_COLUMNS and value else value for name, value in row.items()}
            for row in self.findings.iter_rows(named=True)
        ]
        return json_line(content)

    def as_sarif(self) -> str:
        """SARIF 2.1.0: findings are results, what could not be told are notifications of the run."""
        index = {rule.id: number for number, rule in enumerate(RULES)}
        driver = {
            "name": OURS,
            "version": __version__,
            "rules": [
                {
                    "id": rule.id,
                    "name": rule.name,
                    "shortDescription": {"text": rule.title},
                    "defaultConfiguration": {"level": _LEVELS[rule.severity.value]},
                    "properties": {"tags": [rule.family.value]},
                    **({"helpUri": rule.link} if rule.link else {}),
                }
                for rule in RULES
            ],
        }
        untold = self.findings.filter(pl.col("state") == State.CANNOT_TELL.value)
        run = {
            "tool": {"driver": driver},
            "results": [self._result(row, index) for row in self._found.iter_rows(named=True)],
            "invocations": [
                {
                    "executionSuccessful": True,
                    "toolExecutionNotifications": [
                        {
                            "descriptor": {"id": row["rule"]},
                            "level": "note",
                            "message": {"text": _sarif_text(f"{row['rule']} cannot tell: {row['reason']}")},
                        }
                        for row in untold.iter_rows(named=True)
                    ],
                }
            ],
        }
        return json_line({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})

    def _result(self, row: dict[str, Any], index: Mapping[str, int]) -> dict[str, Any]:
        # What a tool says itself has no rule of ours.
        rule = row["rule"] or f"{row['tool']}-finding"
        source, first_line = self._place(row["session"])
        text = " ".join(filter(None, (row["problem"], row["recommendation"])))
        properties = {"cost_ns": row["cost_ns"], "cost_basis": row["cost_basis"], "session": row["session"]}
        result: dict[str, Any] = {
            "ruleId": rule,
            "level": _LEVELS[row["severity"]],
            "message": {"text": _sarif_text(text)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(source)},
                        # Hosts want a line: where none is known, that of the session, else the first.
                        "region": {"startLine": max(1, row["line"] or first_line or 1)},
                    }
                }
            ],
            "partialFingerprints": {"proftui/v1": f"{rule}:{row['session']}:{row['filter'] or ''}"[:500]},
            "properties": {name: value for name, value in properties.items() if value is not None},
        }
        if row["numbers"]:
            result["properties"]["numbers"] = json.loads(row["numbers"])
        if rule in index:
            result["ruleIndex"] = index[rule]
        return result

    def _place(self, session: int | None) -> tuple[str, int | None]:
        """The file of a session and its first line there."""
        rows = self._profile["sessions"].filter(pl.col("session") == session) if session is not None else None
        if rows is None or rows.is_empty():
            return self._profile.sources[0], None
        return rows["source"][0] or self._profile.sources[0], rows["first_line"][0]


def _uri(source: str) -> str:
    """A path as SARIF has it: relative ones as they are, absolute ones with ``file://``."""
    if source == "-":
        return "stdin"
    path = PurePath(source)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _sarif_text(text: str) -> str:
    """Text in which nothing is a placeholder or a link, and nothing is a control character.

    >>> _sarif_text("{0} [a](b) [CUDA memcpy HtoD]")
    '{{0}} [a] (b) [CUDA memcpy HtoD]'
    """
    braces = plain(text).replace("{", "{{").replace("}", "}}")
    return re.sub(r"\]\(", "] (", braces)
