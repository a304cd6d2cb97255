"""The Expert System without a screen: findings as text, Markdown, JSON and SARIF, and whether they fail a build."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import polars as pl

from tui import __version__
from tui.analysis.critical_path import missing_launches_note
from tui.analysis.critical_path_slack import critical_path, half_as_long
from tui.analysis.dashboard import guidance
from tui.analysis.expert.finding_text import float_or_zero
from tui.analysis.expert.finding_text import percent as sentence_percent
from tui.analysis.expert.findings import OURS, RULES, findings, names_in_evidence
from tui.analysis.expert.findings_table import (
    answers,
    clean_rules,
    counts,
    expert_rows,
    findings_summary,
    first_findings,
)
from tui.analysis.expert.rule import Severity, State
from tui.analysis.gpu_time.host_calls import SYNCHRONIZING
from tui.analysis.gpu_time.idle_gaps import busy_time
from tui.analysis.iterations.chosen_iterations import iterations_text
from tui.analysis.iterations.iteration_table import sources
from tui.analysis.iterations.segments import WHOLE_RUN
from tui.fmt import brief_duration, duration
from tui.labels import distinct_symbols
from tui.model.names import short_name
from tui.output.export import json_line, markdown_cell, markdown_table
from tui.output.json_document import Bounds, JsonTable, document, document_head
from tui.text import plain
from tui.text_width import clip_middle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile
    from tui.output.report import Style


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS: Final[Mapping[str | None, str]] = {"error": "error", "warning": "warning", "info": "note", None: "note"}
_INDEX: Final = {rule.id: number for number, rule in enumerate(RULES)}
_FINGERPRINT_CHARACTERS: Final = 500


def sarif(profile: Profile, findings: pl.DataFrame) -> dict[str, Any]:
    """Return a SARIF log of one run: findings are its results, inapplicable rules are notifications.

    Args:
        profile: The profile.
        findings: `tui.analysis.expert.findings.findings`.
    """
    found_rows = findings.filter(pl.col("state") == State.FOUND.value)
    inapplicable = findings.filter(pl.col("state") == State.NOT_APPLICABLE.value)
    run = {
        "tool": {"driver": {"name": OURS, "version": __version__, "rules": _rules()}},
        "results": [_result(profile, row) for row in found_rows.iter_rows(named=True)],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "descriptor": {"id": row["rule"], "index": _INDEX[row["rule"]]},
                        "level": "note",
                        "message": {"text": escape(f"{row['rule']} not applicable: {row['reason']}")},
                    }
                    for row in inapplicable.iter_rows(named=True)
                ],
            }
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules() -> list[dict[str, Any]]:
    return [
        {
            "id": rule.id,
            "name": rule.name,
            "shortDescription": {"text": rule.title},
            "defaultConfiguration": {"level": _LEVELS[rule.severity.value]},
            "properties": {"tags": [rule.family.value]},
            **({"helpUri": rule.link} if rule.link else {}),
        }
        for rule in RULES
    ]


def _result(profile: Profile, row: dict[str, Any]) -> dict[str, Any]:
    # Findings of other tools have no rule.
    rule = row["rule"] or f"{row['tool']}-finding"
    source, first_line = _first_source(profile, row["session"])
    line = row["line"] or first_line
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(source)}}
    if line:
        location["region"] = {"startLine": line}
    text = " ".join(filter(None, (row["problem"], row["recommendation"])))
    properties = {"cost_ns": row["cost_ns"], "cost_basis": row["cost_basis"], "session": row["session"]}
    result: dict[str, Any] = {
        "ruleId": rule,
        "level": _LEVELS[row["severity"]],
        "message": {"text": escape(text)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {
            "proftui/v1": f"{rule}:{row['session']}:{row['filter'] or ''}"[:_FINGERPRINT_CHARACTERS]
        },
        "properties": {name: value for name, value in properties.items() if value is not None},
    }
    if row["numbers"]:
        result["properties"]["numbers"] = json.loads(row["numbers"])
    if rule in _INDEX:
        result["ruleIndex"] = _INDEX[rule]
    return result


def _first_source(profile: Profile, session: int | None) -> tuple[str, int | None]:
    """Return the file of a session and its first line there, if it has lines."""
    rows = profile["sessions"].filter(pl.col("session") == session) if session is not None else None
    if rows is None or rows.is_empty():
        return profile.sources[0], None
    return rows["source"][0] or profile.sources[0], rows["first_line"][0]


def _uri(source: str) -> str:
    """Return a path as a SARIF URI: relative paths unchanged, absolute ones with ``file://``."""
    if source == "-":
        return "stdin"
    path = PurePath(source)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def escape(text: str) -> str:
    """Escape a text for SARIF: no placeholders, links or control characters.

    >>> escape("{0} [a](b) [CUDA memcpy HtoD]")
    '{{0}} [a] (b) [CUDA memcpy HtoD]'
    """
    braces = plain(text).replace("{", "{{").replace("}", "}}")
    return re.sub(r"\]\(", "] (", braces)


FORMATS: Final = ("text", "json", "markdown", "sarif")
SEVERITIES: Final = tuple(reversed([severity.value for severity in Severity]))
"""The severities that can fail a build, the lowest first."""

FINDING_KEY: Final = ("rule", "tool", "session", "filter", "problem")
_JSON_COLUMNS: Final = ("numbers", "thresholds", "evidence", "what_if")
_SAVINGS_SHOWN: Final = 3
"""The number of names whose savings are listed."""
_MIN_SAVED_PCT: Final = 1
"""The least share of its time that work saves if it takes half as long."""
_BUSY_PCT: Final = 80
"""From this share of its span on, a GPU is busy enough to decide when an iteration ends."""
INDENT: Final = 9
NAME_SHOWN: Final = 60
"""The maximum length of a name in a sentence."""


class _FindingRows(JsonTable):
    """Findings, with their figures as objects."""

    def objects(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the first findings as objects."""
        return [
            {name: json.loads(value) if name in _JSON_COLUMNS and value else value for name, value in row.items()}
            for row in JsonTable.objects(self, limit)
        ]


def _on_path(halved: pl.DataFrame) -> pl.DataFrame:
    """Return the work on the critical path that would save most time, without what saves next to nothing."""
    saved, work = pl.col("half_saves_ns"), pl.col("work_ns")
    return halved.filter(pl.col("path_ns") > 0, saved > 0, 100 * saved >= _MIN_SAVED_PCT * work).head(_SAVINGS_SHOWN)


class IfFaster:
    """The time that an iteration would save if the work of a finding took half as long, by its critical path.

    Args:
        profile: The profile.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._has_launches = not missing_launches_note(profile)
        self._paths: dict[int | None, pl.DataFrame] = {}
        """The critical path of each session that was asked for."""

    def rows(self, finding: dict[str, Any]) -> pl.DataFrame | None:
        """Return a row for each name of work in the evidence; None if it is unknown."""
        # How long a call waits depends on what it waits for.
        names = {name for name in names_in_evidence(finding) if not re.search(SYNCHRONIZING, name)}
        if finding["tool"] != OURS or finding["cost_ns"] is None or not names or not self._has_launches:
            return None
        session = finding["session"]
        if session not in self._paths:
            self._paths[session] = critical_path(self._profile, session)
        savings = half_as_long(self._paths[session], names)
        return savings if savings.height else None

    def sentence(self, finding: dict[str, Any]) -> str:
        """Return a sentence about `rows`; empty if they are unknown."""
        savings = self.rows(finding)
        if savings is None:
            return ""
        session, iteration = savings.row(0)[:2]
        is_whole_run = sources(self._profile)[session] == WHOLE_RUN
        prefix = "Halving" if is_whole_run else f"In iteration {iteration}, halving"
        if not savings["path_ns"].sum():
            # A busy GPU waits for nothing else: the path misses a dependency that is not recorded.
            if self._busy_pct(session) >= _BUSY_PCT:
                return ""
            return f"{prefix} this work saves nothing: it is not on the critical path."
        rows = _on_path(savings)
        labels = _distinct_names(rows["name"].to_list())
        savings_texts = [
            f"`{labels[name]}` saves {brief_duration(saved)} of its {brief_duration(work)}"
            for name, saved, work in rows.select("name", "half_saves_ns", "work_ns").iter_rows()
        ]
        return f"{prefix} {'; '.join(savings_texts)}." if savings_texts else ""

    def _busy_pct(self, session: int) -> float:
        """Return how busy the busiest GPU of a session is, %."""
        return float_or_zero(busy_time(self._profile).filter(pl.col("session") == session)["busy_pct"].max())


def _distinct_names(names: list[str]) -> Mapping[str, str]:
    """Shorten names of work; instances of one template get the arguments in which they differ."""
    short_names = {name: short_name(name) for name in names}
    if len(set(short_names.values())) < len(names):
        return distinct_symbols(names, NAME_SHOWN)
    return {name: clip_middle(short, NAME_SHOWN) for name, short in short_names.items()}


class Check:
    """The findings of a profile, and their output formats.

    Args:
        profile: The profile.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.findings = findings(profile)
        self._of = f" of {iterations_text(profile)}" if iterations_text(profile) else ""
        self._found = self.findings.filter(pl.col("state") == State.FOUND.value)
        self._if_faster = IfFaster(profile)

    def reaches(self, severity: str) -> bool:
        """Return whether a finding is at least this severe; findings of tools without a severity are not."""
        severe_enough = SEVERITIES[SEVERITIES.index(severity) :]
        return self._found.filter(pl.col("severity").is_in(severe_enough)).height > 0

    # --- for people --------------------------------------------------------------------------------------------------

    def as_text(self, style: Style) -> str:
        """Return a finding per cause with advice, then inapplicable rules with reasons, then clean rules."""
        lines = [style.heading(f"Findings{self._of} ({findings_summary(self.findings)})"), ""]
        if not first_findings(self.findings).height:
            lines += [*style.wrapped(guidance(self.findings)), ""]
        for row in first_findings(self.findings).iter_rows(named=True):
            lines += self._finding_lines(row, style)
        for row in answers(self.findings).iter_rows(named=True):
            line = f"{self._where(row)}{row['message']} ({row['rule']})"
            lines += [*style.wrapped(line, first=f"{'clean':8} ", indent=" " * INDENT), ""]
        not_applicable = self._reasons()
        if not_applicable.height:
            lines += [style.heading("Not applicable"), ""]
            for row in not_applicable.iter_rows(named=True):
                lines += style.wrapped(f"{self._where(row)}{row['message']}", first="  ", indent="  ")
                lines += style.wrapped(row["all_rules"], first=" " * INDENT, indent=" " * INDENT)
            lines.append("")
        if clean := clean_rules(self.findings):
            lines += [style.heading("Clean"), "", *style.wrapped(" ".join(clean), first="  ", indent="  "), ""]
        return "\n".join(lines[:-1] if lines[-1] == "" else lines) + "\n"

    def _reasons(self) -> pl.DataFrame:
        """Return the reasons why rules do not apply, those of most rules first."""
        rows = expert_rows(self.findings, unfolded=True)
        return rows.filter(pl.col("state") == State.NOT_APPLICABLE.value)

    def _where(self, row: dict[str, Any]) -> str:
        """Return the session of a row, if there are several and it is of one."""
        several = self._profile["sessions"].height > 1
        return f"Session {row['session']}: " if several and row["session"] is not None else ""

    def _finding_lines(self, row: dict[str, Any], style: Style) -> list[str]:
        indent = " " * INDENT
        label = f"{row['severity'] or row['tool']:8} "
        lines = style.wrapped(f"{self._where(row)}{row['problem']}", first=label, indent=indent)
        if row["recommendation"]:
            lines += style.wrapped(row["recommendation"], first=f"{indent}> ", indent=f"{indent}  ")
        lines += style.wrapped(self._cost_and_rules(row, style), first=indent, indent=indent)
        if faster := self._if_faster.sentence(row):
            lines += style.wrapped(faster, first=indent, indent=indent)
        return [*lines, ""]

    def _cost_and_rules(self, row: dict[str, Any], style: Style) -> str:
        """Return the cost and the cause of a finding, and the rules that found it."""
        sentences = []
        if row["cost_ns"] is not None:
            cost = brief_duration(row["cost_ns"])
            share = f" ({sentence_percent(row['cost_pct'])} of {row['cost_of']})" if row["cost_pct"] is not None else ""
            sentences.append(f"Costs at most {cost}{share}: {row['cost_basis']}.")
        if row["cause"]:
            sentences.append(f"Cause: {row['cause']} ({row['all_rules'].replace(' ', ', ')}).")
        return " ".join(sentences)

    def as_markdown(self) -> str:
        """Return the same as Markdown tables."""
        found_rows = [
            [
                row["severity"] or row["tool"],
                "" if row["session"] is None else str(row["session"]),
                row["problem"] or "",
                row["recommendation"] or "",
                duration(row["cost_ns"]) if row["cost_ns"] is not None else "",
                sentence_percent(row["cost_pct"]) if row["cost_pct"] is not None else "",
                (row["all_rules"] or "").replace(" ", ", "),
                self._if_faster.sentence(row),
            ]
            for row in first_findings(self.findings).iter_rows(named=True)
        ]
        text = f"## Findings{markdown_cell(self._of)} ({markdown_cell(findings_summary(self.findings))})\n\n"
        headings = ["Severity", "Session", "Problem", "Recommendation", "Cost", "Cost%", "Rules", "If faster"]
        right_aligned = [False, True, False, False, True, True, False, False]
        if not any(row[-1] for row in found_rows):
            headings, right_aligned, found_rows = headings[:-1], right_aligned[:-1], [row[:-1] for row in found_rows]
        text += markdown_table(headings, found_rows, right_aligned) if found_rows else "none\n"
        sentences = [f"{self._where(row)}{row['message']}" for row in answers(self.findings).iter_rows(named=True)]
        text += "".join(f"\n{markdown_cell(sentence)}\n" for sentence in sentences)
        not_applicable = self._reasons()
        if not_applicable.height:
            rows = [
                [f"{self._where(row)}{row['message']}", row["all_rules"]]
                for row in not_applicable.iter_rows(named=True)
            ]
            text += "\n### Not applicable\n\n" + markdown_table(["Why", "Rules"], rows, [False, False])
        clean = clean_rules(self.findings)
        return text + (f"\n### Clean\n\n{' '.join(clean)}\n" if clean else "")

    # --- for programs ------------------------------------------------------------------------------------------------

    def as_json(self, bounds: Bounds | None = None) -> str:
        """Return one JSON object on a line: counts and all findings (numbers, thresholds and evidence as objects).

        ``savings`` is the time that an iteration would save if work in the evidence, on its critical path, took half as
        long; the largest saving first.
        """
        fields = {**document_head("check", self._profile, view="findings"), "counts": dict(counts(self.findings))}
        halves = (self._if_faster.rows(row) for row in self.findings.iter_rows(named=True))
        savings = [json.dumps(_on_path(on_path).to_dicts()) if on_path is not None else None for on_path in halves]
        rows = self.findings.with_columns(pl.Series("what_if", savings, dtype=pl.String))
        return document(fields, {"findings": _FindingRows(rows, FINDING_KEY)}, bounds)

    def as_sarif(self) -> str:
        """Return SARIF 2.1.0, for code hosts."""
        return json_line(sarif(self._profile, self.findings))
