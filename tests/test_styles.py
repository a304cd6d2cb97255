"""Texts of styles are parsed once for a theme."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from textual.css import stylesheet
from textual.css.stylesheet import Stylesheet

from tests import stylesheets
from tui.app.styles import KeptStylesheet

KINDS = 100


@pytest.mark.parametrize(("sheet", "parsed"), [(KeptStylesheet, [100, 101, 101, 202]), (Stylesheet, [100, 201])])
def test_each_text_is_parsed_once_for_a_theme(sheet: Any, parsed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    # Textual's own sheet shows what is gained: it parses all texts anew when there is one more.
    monkeypatch.setattr(Stylesheet, "_parse_rules", stylesheets._parse_rules)
    styles = sheet(variables={"ground": "#000000"})
    seen = []
    with patch.object(stylesheet, "parse", wraps=stylesheet.parse) as parse:
        for kind in range(KINDS):
            styles.add_source(f"Kind{kind} {{ background: $ground; }}")
        assert len(styles.rules) == KINDS
        seen.append(parse.call_count)
        styles.add_source("Another { background: $ground; }")
        assert len(styles.rules) == KINDS + 1
        seen.append(parse.call_count)
        styles.set_variables({"ground": "#000000"})
        styles.reparse()
        seen.append(parse.call_count)
        styles.set_variables({"ground": "#ffffff"})
        styles.reparse()
        seen.append(parse.call_count)
    assert seen[: len(parsed)] == parsed
    assert {rule.styles.background.hex for rule in styles.rules} == {"#FFFFFF"}
