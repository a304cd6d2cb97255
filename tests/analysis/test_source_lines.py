"""The source of rows in inputs that are not text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.analysis.frames import kernel, make_profile
from tui.analysis.capabilities import views
from tui.analysis.issues import EVENTS, NO_LINE, TABLES, missing_text_reason, row_source

if TYPE_CHECKING:
    from tui.model.profile import Profile


class Log:
    line_count = 3

    def lines(self, first: int, count: int) -> list[str]:
        return ["x"] * count


def profile_from(source: str, line: int | None) -> Profile:
    return make_profile(sessions=[{"session": 0, "source": source}], activities=[kernel("k", 5, start_ns=0, line=line)])


def test_the_source_of_an_event_is_its_line_and_a_command() -> None:
    profile = profile_from("/data/run's.json.gz", 1234)
    assert row_source(profile, {"session": 0, "line": 1234, "activity": 0}) == (
        "line 1,234 of run's.json.gz; to see it: zcat 'run'\"'\"'s.json.gz' | sed -n 1234,+12p"
    )
    assert missing_text_reason(profile) == EVENTS == views(profile)["log"]


def test_the_source_of_a_database_row_is_its_number() -> None:
    profile = profile_from("run.sqlite", None)
    assert row_source(profile, {"session": 0, "activity": 7}) == (
        "run.sqlite has tables, not lines: GPU work 7, in input order"
    )
    assert row_source(profile, {"session": 0, "name": "k"}) == "run.sqlite has tables, not lines"
    assert missing_text_reason(profile) == TABLES == views(profile)["log"]


def test_lines_of_a_log_are_in_the_log_view() -> None:
    profile = replace(profile_from("run.log", 2), texts={"run.log": Log()})
    assert missing_text_reason(profile) == ""
    assert row_source(profile, {"session": 0, "line": 2}) == ""
    assert row_source(profile, {"session": 0, "line": None}) == NO_LINE
    assert views(profile)["log"] == "ok"
