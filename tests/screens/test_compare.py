"""The Compare view: selecting the other side, its tabs, and the same figures as ``proftui diff``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from textual.widgets import Input, OptionList

import tui.analysis.compare.headline
from tests.cli.test_diff import write_log
from tests.corpus import recording_file
from tests.screens.explorer import (
    FAST_VIEW,
    app_of,
    assert_at_sizes,
    open_explorer,
    press,
    sample_path,
    screen_of,
    settle,
    write_note,
)
from tests.snapshots import screen_text
from tests.waiting import WorkerGate, wait_until
from tui.analysis.compare.changes import CHANGED_LAYERS, CHANGED_MEMORY, CHANGED_OPS, LargestChanges
from tui.app.comparison import USAGE, check_form
from tui.cli.main import main
from tui.model.errors import CommandError
from tui.screens.compare import PARTS, CompareDialog, CompareScreen, Explanation
from tui.screens.help import HelpScreen
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

CAFFE = "caffe_conv1.nvprof.log"
TRACE, LOG = "resnet50_training.pt.trace.json.gz", "resnet50_training.nvprof.log"


async def wait_for_rows(pilot: Pilot[None]) -> CompareScreen:
    """Wait until the view has its rows, and return it."""

    def has_widgets() -> bool:
        screen = app_of(pilot).view_screen
        return isinstance(screen, CompareScreen) and screen.table is not None and not screen.table.frame.is_empty()

    await wait_until(pilot, has_widgets, "a comparison")
    await settle(pilot)
    return screen_of(pilot, CompareScreen)


def rows(screen: CompareScreen) -> TablePane:
    assert screen.table is not None
    return screen.table


async def test_another_file_becomes_the_baseline() -> None:
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        await press(pilot, "d")
        dialog = pilot.app.screen
        assert isinstance(dialog, CompareDialog)
        # There is nothing to choose from.
        assert dialog.keys_line == "enter compare  tab complete  esc cancel"
        dialog.query_one(Input).value = sample_path(LOG)
        await press(pilot, "enter")
        screen = await wait_for_rows(pilot)
        compared = app_of(pilot).comparison.sides
        assert compared is not None
        assert (compared.a.label, compared.b.label) == (LOG, TRACE)
        assert rows(screen).frame["figure"].to_list()[:2] == ["Average iteration", "Median iteration"]


async def test_enter_compares_the_first_with_the_second_of_two_sessions() -> None:
    async with open_explorer(TRACE, LOG) as pilot:
        await press(pilot, "d")
        dialog = pilot.app.screen
        assert isinstance(dialog, CompareDialog)
        assert dialog.keys_line == "enter compare  down list  tab complete  esc cancel"
        await press(pilot, "enter")
        await wait_for_rows(pilot)
        compared = app_of(pilot).comparison.sides
        assert compared is not None
        assert (compared.a.label, compared.b.label) == (TRACE, LOG)


async def test_the_largest_changes_are_shown_as_far_as_they_fit() -> None:
    sentence = "Average iteration +24.9 ms: GPU busy -8.61 µs, GPU idle +25 ms."
    for size, has_room in (((80, 24), False), ((120, 40), True)):
        async with open_explorer(TRACE, size=size, view=FAST_VIEW) as pilot:
            app_of(pilot).run_line(":compare iterations 3 7")
            await wait_for_rows(pilot)
            text = screen_text(pilot.app)
            assert (sentence in text) is has_room
            assert ("No op type or kernel changed by 0.1% or more of the baseline's GPU time." in text) is has_room
            assert "took more" not in text


def test_an_explanation_fits_its_lines() -> None:
    def rows(sign: int, count: int) -> pl.DataFrame:
        texts = [(f"{'more' if sign > 0 else 'less'} {place}", "", sign * 1e6, sign * 2.0) for place in range(count)]
        schema = {"name": pl.String, "change": pl.String, "delta_ns": pl.Float64, "share_pct": pl.Float64}
        return pl.DataFrame(texts, schema=schema, orient="row")

    tables = (LargestChanges("Op types", rows(1, 9), rows(-1, 1)), LargestChanges("Kernels", rows(1, 2), rows(-1, 0)))
    explained = Explanation("Span +8 ms.", tables)
    assert [line.plain.rstrip() for line in explained.lines(63, 13)] == [
        "",
        "Span +8 ms.  %: share of the baseline's GPU time",
        "",
        "Op types: 9 took more, +9 ms     Op types: 1 took less, -1 ms",
        "    +1 ms    +2.0%  more 0           -1 ms    -2.0%  less 0",
        "    +1 ms    +2.0%  more 1",
        "    +1 ms    +2.0%  more 2",
        "",
        "Kernels: 2 took more, +2 ms      Kernels: 0 took less",
        "    +1 ms    +2.0%  more 0",
        "    +1 ms    +2.0%  more 1",
    ]
    assert [len(explained.lines(63, room)) for room in (5, 6, 7, 11, 12, 40)] == [0, 6, 7, 10, 11, 17]


async def test_the_dialog_names_baseline_and_candidate() -> None:
    async with open_explorer(TRACE, size=(80, 24), view=FAST_VIEW) as pilot:
        await press(pilot, "d")
        cells = [" ".join(part.split()) for line in screen_text(pilot.app).splitlines() for part in line.split("│")]
        assert "type baseline candidate" in cells
        assert "iterations 3:5 current view these iterations" in cells
        assert "sessions 0 1 session 0 session 1" in cells


async def test_tab_completes_the_path_of_the_dialog(tmp_path: Path) -> None:
    (tmp_path / "before.log").write_bytes(Path(sample_path("caffe_conv1.nvprof.log")).read_bytes())
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        await press(pilot, "d")
        assert "enter compare  tab complete  esc cancel" in screen_text(pilot.app)
        line = pilot.app.screen.query_one(Input)
        line.value = f"{tmp_path}/bef"
        line.cursor_position = len(line.value)
        await wait_until(pilot, lambda: line._suggestion != "", "the suggestion")
        await press(pilot, "tab")
        assert line.value == f"{tmp_path}/before.log"
        assert line.has_focus


async def test_only_the_latest_comparison_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    held = WorkerGate()
    answers: list[object] = []
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        app = app_of(pilot)
        monkeypatch.setattr(app.comparison, "_show_comparison", answers.append)

        def slow() -> str:
            held.wait()
            return "first"

        app.comparison._make_comparison(slow)
        app.comparison._make_comparison(lambda: "second")
        await wait_until(pilot, lambda: bool(answers), "the second")
        held.set()
        await settle(pilot)
        assert answers == ["second"]


async def test_every_tab_has_the_rows_of_proftui_diff(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", sample_path(LOG), sample_path(TRACE), "--format", "json"]) == 0
    in_json = json.loads(capfd.readouterr().out)
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        app_of(pilot).run_line(f":compare {sample_path(LOG)}")
        screen = await wait_for_rows(pilot)
        for part in (one for one in PARTS[1:] if one.spec.name.removeprefix("changed_") in in_json):
            await press(pilot, "full_stop")
            screen = await wait_for_rows(pilot)
            expected = [dict(row) for row in in_json[part.spec.name.removeprefix("changed_")]]
            assert len({json.dumps(row.pop("key")) for row in expected}) == len(expected)
            assert rows(screen).frame.to_dicts() == expected
            assert ("those of the candidate are recorded" in screen_text(pilot.app)) is (part.spec is CHANGED_OPS)
        await press(pilot, "full_stop")
        assert rows(await wait_for_rows(pilot)).id == "headline"
        await press(pilot, "comma")
        assert rows(await wait_for_rows(pilot)).id == "changed_findings"


async def test_the_verdict_and_the_figures_do_not_wait_for_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = WorkerGate()

    def limit(_sides: object) -> str:
        found.wait()
        return ": now launch-bound"

    monkeypatch.setattr(tui.analysis.compare.headline, "_limit_clause", limit)
    before, now = (recording_file(f"resnet50_{name}.pt.trace.json.gz") for name in ("fp32", "amp"))
    async with open_explorer(now, view=FAST_VIEW, size=(160, 40)) as pilot:
        app_of(pilot).run_line(f":compare {before}")
        try:
            await wait_until(pilot, lambda: "to 26.4 ms)." in screen_text(pilot.app), "the verdict")
            await wait_until(pilot, lambda: "took more" in screen_text(pilot.app), "the explanation")
            assert "now launch-bound" not in screen_text(pilot.app)
        finally:
            found.set()
        await wait_until(pilot, lambda: "to 26.4 ms): now launch-bound." in screen_text(pilot.app), "the limit")


async def test_sides_can_be_swapped_and_families_matched() -> None:
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        app_of(pilot).run_line(f":compare {sample_path(LOG)}")
        await wait_for_rows(pilot)
        await press(pilot, "full_stop")
        screen = await wait_for_rows(pilot)
        by_name = rows(screen).frame
        await press(pilot, "a")
        screen = await wait_for_rows(pilot)
        assert rows(screen).frame.height <= by_name.height
        await press(pilot, "a", "o")
        screen = await wait_for_rows(pilot)
        compared = app_of(pilot).comparison.sides
        assert compared is not None
        assert compared.b.label == LOG
        assert rows(screen).frame["delta_ns"].sum() == pytest.approx(-by_name["delta_ns"].sum(), abs=1e-3)
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert {"a", "o"} <= {action.keys for action in pilot.app.screen._local_actions}


async def test_two_marked_iterations_are_compared() -> None:
    async with open_explorer(TRACE, view="iterations") as pilot:
        screen = screen_of(pilot)
        screen.focus_table()
        await press(pilot, "space", "space")
        chosen = screen.chosen_iterations()
        assert len(chosen) == 2
        await press(pilot, "d")
        await wait_for_rows(pilot)
        compared = app_of(pilot).comparison.sides
        assert compared is not None
        assert [compared.a.label, compared.b.label] == [f"iteration {number}" for number in chosen]


async def test_the_key_that_explains_unknown_values_is_named_as_it_is_typed() -> None:
    async with open_explorer("gpt_cudagraph.nsys.sqlite.gz", view=FAST_VIEW) as pilot:
        app_of(pilot).run_line(":compare iterations 1 4")
        await wait_for_rows(pilot)
        assert "Press i to see why a value is unknown, and how to record it." in screen_text(pilot.app)


async def test_ranks_can_be_selected_from_a_list() -> None:
    async with open_explorer("ddp_ranks", view=FAST_VIEW) as pilot:
        await press(pilot, "d", "down", "down", "enter")
        await wait_for_rows(pilot)
        compared = app_of(pilot).comparison.sides
        assert compared is not None
        assert (compared.a.label, compared.b.label) == ("session 0 (rank 0)", "session 1 (rank 1)")
        await press(pilot, "d")
        options = pilot.app.screen.query_one(OptionList)
        assert options.get_option_at_index(0).id == "latest"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "No comparison yet"),
        ("nowhere.log", "nowhere.log: no such file"),
        ("session 9", "there is no session 9"),
        ("iterations 900", "iteration 900 not found"),
        ("iterations x", "not a valid range of iterations"),
    ],
)
async def test_a_missing_side_is_reported(words: str, message: str) -> None:
    async with open_explorer(TRACE, notifications=True, view=FAST_VIEW) as pilot:
        app_of(pilot).run_line(f":compare {words}")
        await wait_until(
            pilot,
            lambda: any(message in notification.message for notification in pilot.app._notifications),
            f"the message {message}",
        )
        assert not isinstance(app_of(pilot).view_screen, CompareScreen)


@pytest.mark.parametrize(
    ("request_text", "error"),
    [
        ("/nowhere.log", "! /nowhere.log: no such file"),
        ("iterations 900", "! iteration 900 not found"),
        ("iterations x", "! iterations x: not a valid range of iterations"),
    ],
)
async def test_the_dialog_opens_again_with_a_request_that_failed(request_text: str, error: str) -> None:
    async with open_explorer(TRACE, notifications=True, view=FAST_VIEW) as pilot:
        await press(pilot, "d", *request_text, "enter")
        await wait_until(pilot, lambda: error in screen_text(pilot.app), error)
        assert isinstance(pilot.app.screen, CompareDialog)
        assert pilot.app.screen.query_one(Input).value == request_text
        # The text is corrected at its end.
        await press(pilot, *["backspace"] * len(request_text), *"iterations 3 7", "enter")
        await wait_for_rows(pilot)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("0 1", "File not found: 0 1. Did you mean :compare sessions 0 1 or :compare iterations 0 1?"),
        ("7", "File not found: 7. Did you mean :compare session 7 or :compare iteration 7?"),
        ("sessions 0 x", "Not a session number: 0 x. Use :compare session 1 or :compare sessions 0 1."),
        ("iterations 3 5 7", f"Not one or two numbers: iterations 3 5 7. {USAGE}"),
        ("sessions", f"Which sessions? {USAGE}"),
    ],
)
def test_a_syntax_error_is_answered_with_the_right_syntax(words: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        check_form(words)
    assert str(raised.value) == message


def test_a_file_can_have_the_name_of_a_keyword(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "7").touch()
    for words in ("7", "run.log", "session 1", "sessions 0 1", "iterations 3:5", "iterations 3 5"):
        check_form(words)


@pytest.mark.parametrize("part", ["summary", "kernels", "findings"])
async def test_screen(part: str, snapshot: SnapshotAssertion) -> None:
    async with open_explorer(TRACE, view=FAST_VIEW) as pilot:
        app_of(pilot).run_line(f":compare {sample_path(LOG)}")
        await wait_for_rows(pilot)
        fed = [one.spec.title.lower() for one in PARTS if one.spec not in (CHANGED_LAYERS, CHANGED_MEMORY)]
        for _ in range(fed.index(part)):
            await press(pilot, "full_stop")
            await wait_for_rows(pilot)
        await assert_at_sizes(pilot, snapshot)


async def test_a_comparison_is_updated_after_reload_and_selection(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(Path(sample_path("caffe_conv1.nvprof.log")).read_bytes())
    async with open_explorer(str(path), view=FAST_VIEW) as pilot:
        app = app_of(pilot)
        app.run_line(f":compare {sample_path(TRACE)}")
        await wait_for_rows(pilot)
        await press(pilot, "o")
        first = app.comparison.sides
        assert first is not None
        assert first.a.label == "run.log"
        path.write_bytes(Path(sample_path(LOG)).read_bytes())
        await press(pilot, "r")
        await wait_until(pilot, lambda: app.comparison.sides is not first, "a comparison with what was read again")
        await settle(pilot)
        updated = app.comparison.sides
        assert updated is not None
        assert updated.a.label == "run.log"
        assert (
            updated.a.full_profile["activities"].height
            == app.profile_session.profile["activities"].height
            > first.a.full_profile["activities"].height
        )
        app.run_line(":aggregate 2:3")
        await wait_until(pilot, lambda: app.comparison.sides is not updated, "a comparison of the iterations")
        await settle(pilot)
        chosen = app.comparison.sides
        assert chosen is not None
        assert (chosen.a.label, chosen.a.count) == ("run.log, iterations 2:3", 2)


async def test_a_path_can_begin_with_a_tilde_and_esc_cancels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "before.log").write_bytes(Path(sample_path("caffe_conv1.nvprof.log")).read_bytes())
    held = WorkerGate()
    async with open_explorer(TRACE, view=FAST_VIEW, notifications=True) as pilot:
        app = app_of(pilot)
        app.comparison._make_comparison(lambda: held.wait() and None)
        await wait_until(pilot, lambda: app.profile_session.progress != {}, "the work")
        await press(pilot, "escape")
        assert [note.message for note in app._notifications] == ["Comparison stopped."]
        assert not app.comparison.is_running
        held.set()
        await settle(pilot)
        assert not isinstance(app.view_screen, CompareScreen)
        app.run_line(":compare ~/before.log")
        await wait_for_rows(pilot)
        assert app.comparison.sides is not None
        assert app.comparison.sides.a.label == "before.log"


def rows_with_notes(screen: CompareScreen) -> list[str]:
    table = rows(screen)
    return [str(table.frame[table.spec.pinned][row]) for row in sorted(table.table.model.noted)]


async def test_a_note_belongs_to_a_row_of_one_comparison_and_links_to_it(state_directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(Path(sample_path(CAFFE)).read_bytes())
    async with open_explorer(CAFFE, view=FAST_VIEW) as pilot:
        app = app_of(pilot)
        app.run_line(f":compare {sample_path(CAFFE)}")
        await wait_for_rows(pilot)
        await press(pilot, "full_stop")
        await wait_for_rows(pilot)
        await press(pilot, "j", "j")
        await write_note(pilot, "look at this")
        screen = await wait_for_rows(pilot)
        name = str(rows(screen).frame["name"][2])
        assert rows_with_notes(screen) == [name]
        await press(pilot, "o")
        assert rows_with_notes(await wait_for_rows(pilot)) == [name]
        await press(pilot, "full_stop")
        assert rows_with_notes(await wait_for_rows(pilot)) == []
        first = app.comparison.sides
        app.run_line(f":compare {other}")
        await wait_until(pilot, lambda: app.comparison.sides is not first, "the other comparison")
        screen = await wait_for_rows(pilot)
        await press(pilot, "comma")
        screen = await wait_for_rows(pilot)
        assert (rows(screen).id, rows_with_notes(screen)) == ("changed_kernels", [])
        app.run_line("notes")
        await settle(pilot)
        assert app.view_screen is not None
        listed = app.view_screen.query_one("#table", TablePane).frame.select("view", "row", "note").rows()
        assert listed == [("Compare", f"{CAFFE} and {CAFFE} > {name}", "look at this")]
        await press(pilot, "enter")
        await wait_until(
            pilot,
            lambda: app.comparison.sides is not None and app.comparison.sides.a.label == CAFFE,
            "what was compared",
        )
        screen = await wait_for_rows(pilot)
        await wait_until(pilot, lambda: rows(screen).table.model.cursor_row == 2, "the row of the note")
        assert (rows(screen).id, rows_with_notes(screen)) == ("changed_kernels", [name])


async def test_a_row_of_similar_names_has_its_own_note_and_details(state_directory: Path, tmp_path: Path) -> None:
    before, now = (Path(write_log(tmp_path / name, 800, 100, 100)) for name in ("before.log", "now.log"))
    before.write_text(before.read_text().replace("slow(int*)", "volta_sgemm_nn"))
    now.write_text(now.read_text().replace("slow(int*)", "ampere_sgemm_nn"))
    async with open_explorer(str(now), size=(200, 50), view=FAST_VIEW) as pilot:
        app = app_of(pilot)
        app.run_line(f":compare {before}")
        await wait_for_rows(pilot)
        await press(pilot, "full_stop")
        await wait_for_rows(pilot)
        await press(pilot, "a")
        screen = await wait_for_rows(pilot)
        # Nothing took longer: the longest comes first.
        assert rows(screen).frame.select("name", "change").row(0) == ("*_sgemm_nn", "similar")
        await press(pilot, "g")
        await write_note(pilot, "new GPU")
        await press(pilot, "i")
        await settle(pilot)
        assert "volta_sgemm_nn" in screen_text(pilot.app)
        await press(pilot, "i", "a")
        screen = await wait_for_rows(pilot)
        assert rows_with_notes(screen) == []
        app.run_line("notes")
        await settle(pilot)
        await press(pilot, "enter")
        screen = await wait_for_rows(pilot)
        await wait_until(pilot, lambda: rows_with_notes(screen) == ["*_sgemm_nn"], "the row of the note")
