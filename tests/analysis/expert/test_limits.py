"""Shipped thresholds, and thresholds of the user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tui.analysis.expert import rule as thresholds
from tui.analysis.expert.findings import RULES, findings
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path


from tests.analysis.expert.profiles import MIXED
from tests.analysis.expert.single_findings import row_of_rule


def test_every_threshold_has_a_meaning_and_a_source() -> None:
    shipped = thresholds.limits()
    assert set(shipped.limits) == {rule.id for rule in RULES}
    for limits in shipped.limits.values():
        for limit in limits.values():
            assert limit.meaning
            assert limit.source


def test_thresholds_of_the_user_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[T1]\ncopy_pct = 80\nkernel_per_copy = 0.1\n[T2]\nseverity = "info"\n[T3]\nseverity = "off"\n')
    monkeypatch.setattr(thresholds, "user_limits_path", lambda: path)
    rows = findings(MIXED)
    assert row_of_rule(rows, "T1")["state"] == "clean"
    assert row_of_rule(rows, "T2")["severity"] == "info"
    assert row_of_rule(rows, "T3")["reason"] == f"switched off in {path}"
    copy_pct = json.loads(row_of_rule(rows, "T1")["thresholds"])[0]
    assert (copy_pct["value"], copy_pct["source"]) == (80.0, f"set in {path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[U1", "not TOML"),
        ("[Z9]\nx = 1", "there is no rule Z9"),
        ("U1 = 3", "there is no rule U1"),
        ("[U1]\nbusy = 1", "U1 has no threshold busy"),
        ('[U1]\nbusy_pct = "much"', "U1: busy_pct must be 0 or more, not much"),
        ("[U1]\nbusy_pct = nan", "U1: busy_pct must be 0 or more, not nan"),
        ("[U1]\nbusy_pct = -1", "U1: busy_pct must be 0 or more, not -1"),
        ("[U1]\nbusy_pct = true", "U1: busy_pct must be 0 or more, not True"),
        ('[U1]\nseverity = "grave"', "U1: severity is one of error, warning, info, off, not grave"),
    ],
)
def test_an_invalid_file_of_thresholds_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ProftuiError, match=r"mine\.toml") as error:
        thresholds.with_users(thresholds.limits(), text, "mine.toml")
    assert message in error.value.message


def test_thresholds_of_the_user_do_not_change_the_shipped_ones() -> None:
    shipped = thresholds.limits()
    shipped_value = shipped("U1", "busy_pct")
    user_limits = thresholds.with_users(shipped, "[U1]\nbusy_pct = 7\n", "mine.toml")
    assert (user_limits("U1", "busy_pct"), shipped("U1", "busy_pct")) == (7, shipped_value)
    assert shipped_value != 7
