from __future__ import annotations

from tests.analysis.frames import kernel, make_profile, summary_row
from tests.profiles import SAMPLES, load_one
from tui.analysis.capabilities import inspect
from tui.keys import ACTIONS
from tui.loaders.base import Format
from tui.loaders.registry import formats
from tui.output.listing import formats_markdown, formats_text, inspect_text, keys_markdown, keys_text, shown_keys
from tui.text_width import cell_width

FORMAT = Format("toy", "Toy traces", "the line 'a|b'", ("activities", "issues"), "toy record | tee run.log")


def test_formats_as_text_fit_the_width() -> None:
    text = formats_text([FORMAT, *formats()], width=60)
    assert text.startswith(
        "toy  Toy traces\n"
        "  recognized by  the line 'a|b'\n"
        "  feeds          activities, issues\n"
        "  record with    toy record | tee run.log\n"
    )
    longest_word = max(cell_width(word) for word in text.split())
    assert max(map(cell_width, text.splitlines())) <= max(60, 17 + longest_word)


def test_formats_for_the_readme_are_a_markdown_table() -> None:
    lines = formats_markdown([FORMAT]).splitlines()
    assert lines[2] == ("| Toy traces | `toy` | the line 'a\\|b' | activities, issues | `toy record \\| tee run.log` |")
    assert len(formats_markdown(formats()).splitlines()) == 2 + len(formats())


def test_keys_have_a_line_each() -> None:
    table = keys_markdown()
    assert sum(line.startswith("| `") for line in table.splitlines()) == len(ACTIONS)
    assert "| `/` | Find text: highlights matches as you type. | in a table |" in table
    assert "| `j` `down` | Move a row down. | in a table |" in table
    assert all(line.startswith(("  ", " " * 17)) or line == line.strip() for line in keys_text(width=70).splitlines())


def test_keys_without_a_label_have_their_textual_name() -> None:
    by_id = {action.id: action for action in ACTIONS}
    assert shown_keys(by_id["table.half-down"]) == "ctrl+d"
    assert shown_keys(by_id["app.up"]) == "backspace"


def test_inspect_replaces_control_characters() -> None:
    text = inspect_text({"source": "a\x1b[2J.log", "error": "no\x1bprofile found; looked for nvprof"}, width=80)
    assert text == "a·[2J.log\n  cannot be opened: no·profile found; looked for nvprof\n\n"


def test_contents_have_singulars_and_no_dashes_for_unknown_values() -> None:
    profile = make_profile(
        activities=[kernel("k", 5)],
        summary=[summary_row("cpu", "main", None, 7), summary_row("um", "faults", 1, None)],
        issues=[{"severity": "warning", "reason": "a"}, {"severity": "warning", "reason": "b"}],
    )
    lines = [line.strip() for line in inspect_text(inspect(profile), width=80).splitlines()]
    assert {"activities    1 row, 5 ns", "cpu summary   1 row, 7 ns", "um summary    1 row, 1 call"} <= set(lines)
    assert "issues: 2 warnings" in lines


def test_contents_are_aligned_beside_the_longest_name_and_name_what_marks_iterations() -> None:
    snapshot = inspect_text(inspect(load_one(str(SAMPLES / "formats/memory_snapshot.pickle"))), width=80).splitlines()
    assert snapshot[2:6] == [
        "    ranges          1 row",
        "    memory_events   9 rows",
        "    memory_segments 3 rows",
        "    memory_blocks   8 rows",
    ]
    caffe = inspect_text(inspect(load_one(str(SAMPLES / "caffe_conv1.nvprof.log"))), width=80).splitlines()
    assert "    iterations    1 row (whole run)" in caffe
