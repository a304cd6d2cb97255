"""Findings as SARIF 2.1.0, which code hosts and editors show."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import polars as pl

from tui import __version__
from tui.analysis.expert.findings import OURS
from tui.analysis.expert.model import State
from tui.analysis.expert.registry import RULES
from tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.profile import Profile

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS: Final[Mapping[str | None, str]] = {"error": "error", "warning": "warning", "info": "note", None: "note"}
_INDEX: Final = {rule.id: number for number, rule in enumerate(RULES)}
_FINGERPRINT_CHARACTERS: Final = 500


def sarif(profile: Profile, findings: pl.DataFrame) -> dict[str, Any]:
    """A log of one run: findings are its results, what could not be told are notifications.

    Args:
        profile: What was read.
        findings: `tui.analysis.expert.findings.findings`.
    """
    found = findings.filter(pl.col("state") == State.FOUND.value)
    untold = findings.filter(pl.col("state") == State.CANNOT_TELL.value)
    run = {
        "tool": {"driver": {"name": OURS, "version": __version__, "rules": _rules()}},
        "results": [_result(profile, row) for row in found.iter_rows(named=True)],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "descriptor": {"id": row["rule"], "index": _INDEX[row["rule"]]},
                        "level": "note",
                        "message": {"text": escaped(f"{row['rule']} not applicable: {row['reason']}")},
                    }
                    for row in untold.iter_rows(named=True)
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
    # What a tool says itself has no rule of ours.
    rule = row["rule"] or f"{row['tool']}-finding"
    source, first_line = _place(profile, row["session"])
    line = row["line"] or first_line
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(source)}}
    if line:
        place["region"] = {"startLine": line}
    text = " ".join(filter(None, (row["problem"], row["recommendation"])))
    properties = {"cost_ns": row["cost_ns"], "cost_basis": row["cost_basis"], "session": row["session"]}
    result: dict[str, Any] = {
        "ruleId": rule,
        "level": _LEVELS[row["severity"]],
        "message": {"text": escaped(text)},
        "locations": [{"physicalLocation": place}],
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


def _place(profile: Profile, session: int | None) -> tuple[str, int | None]:
    """The file of a session and its first line there, where it has lines."""
    rows = profile["sessions"].filter(pl.col("session") == session) if session is not None else None
    if rows is None or rows.is_empty():
        return profile.sources[0], None
    return rows["source"][0] or profile.sources[0], rows["first_line"][0]


def _uri(source: str) -> str:
    """A path as SARIF has it: relative ones as they are, absolute ones with ``file://``."""
    if source == "-":
        return "stdin"
    path = PurePath(source)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def escaped(text: str) -> str:
    """Text in which nothing is a placeholder or a link, and nothing is a control character.

    >>> escaped("{0} [a](b) [CUDA memcpy HtoD]")
    '{{0}} [a] (b) [CUDA memcpy HtoD]'
    """
    braces = plain(text).replace("{", "{{").replace("}", "}}")
    return re.sub(r"\]\(", "] (", braces)
