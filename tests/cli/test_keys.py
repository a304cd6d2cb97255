"""Keys of the user: ``keys.toml``, presets, ``--keys``, footer and help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import run
from tui.keys import ACTIONS, DEFAULT_ACTIONS, use_keys
from tui.keys.rebinding import PRESETS, preset_keys, rebound
from tui.views import view

ROOT = Path(__file__).parents[2]


@pytest.fixture
def keys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "proftui").mkdir()
    yield tmp_path / "proftui" / "keys.toml"
    use_keys({})


def test_keys_prints_the_keys_of_the_user(keys_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    default_text = run(capfd, "--keys")[1]
    assert "  s              table.sort " in default_text
    assert "  f1             " not in default_text
    keys_file.write_text('preset = "plain"\ntable.sort = "o"\n"log.top" = ["G", "pgup"]\ntable.export = []\n')
    status, out, err = run(capfd, "--keys")
    assert (status, err) == (0, "")
    assert "  o              table.sort " in out
    assert "  down           table.down " in out
    assert "  G PgUp         log.top " in out
    assert "  f1 ?           app.help " in out
    assert "                 table.export " in out
    by_id = {action.id: action for action in ACTIONS}
    assert by_id["log.top"].keys == "G,pageup"
    assert by_id["log.bottom"].keys == "end", "a key that was chosen for one is taken from others"
    assert by_id["log.page-up"].keys == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('table.srot = "o"', "table.srot: no such action; did you mean table.sort?"),
        ('table.sort = "hyper+x"', "table.sort: hyper+x: not a key; examples: o, /, ctrl+f, pgdn, f3"),
        ('table.sort = "alt+s"', "table.sort: alt+s: terminals send esc and s, which are two keys here"),
        ('table.sort = "ctrl+alt+S"', "table.sort: ctrl+alt+S: terminals send esc and ctrl+s, which are two keys here"),
        ('table.sort = "alt+return"', "table.sort: alt+return: terminals send esc and enter, which are two keys here"),
        ('table.sort = "o"\ntable.mark = "o"', "o is a key of both table.sort and table.mark"),
        ("table.sort = 1", 'table.sort: expected a key such as "o", or a list of them'),
        ('preset = "emacs"', "unknown preset 'emacs'; choose one of vim, plain"),
        ('preset = ["vim"]', "unknown preset ['vim']; choose one of vim, plain"),
        ("table.sort = ", "not TOML: Invalid value (at end of document)"),
        (f"table.sort = {'[' * 5_000}", "not TOML: nested too deeply"),
        (
            f"table.sort = {'1' * 5_000}",
            "not TOML: Exceeds the limit (4300 digits) for integer string conversion: "
            "value has 5000 digits; use sys.set_int_max_str_digits() to increase the limit",
        ),
    ],
)
def test_an_invalid_keys_file_is_an_error(
    keys_file: Path, capfd: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    keys_file.write_text(text)
    status, out, err = run(capfd, "--keys")
    assert status == 2
    assert err.splitlines()[0] == f"proftui: {keys_file}: {message}"
    assert "table.sort" in out, "the names are listed all the same"


def test_views_have_keys_of_the_user_and_conflicts_are_reported(
    keys_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys_file.write_text('view.roofline = "f6"\nview.kernels = ["5", "f3"]\nview.flame = []\nview.memory = "s"\n')
    status, out, err = run(capfd, "--keys")
    assert status == 0
    assert "  f6             view.roofline " in out
    assert "  5 f3           view.kernels " in out
    assert "                 view.flame " in out
    assert err == "proftui: s is a key of view.memory, but in a table it is table.sort\n"
    assert (view("kernels").key, view("kernels").all_keys) == ("5", "5,f3")
    assert (view("kernels-by-iteration").all_keys, view("flame").all_keys) == ("", ""), "5 was taken from it"
    assert view("dashboard").all_keys == "1"
    keys_file.write_text('view.roofline = "f6"\nview.memory = "f6"\n')
    assert "f6 is a key of both view.roofline and view.memory" in run(capfd, "--keys")[2]
    keys_file.write_text('view.kernels = "q"\n')
    assert "q is a key of view.kernels" not in run(capfd, "--keys")[2]
    assert {action.id: action.keys for action in ACTIONS}["app.back"] == ""


def test_presets_name_existing_actions_and_keys() -> None:
    for name in PRESETS:
        actions = rebound(DEFAULT_ACTIONS, preset_keys(name, {}))
        assert [action.id for action in actions] == [action.id for action in DEFAULT_ACTIONS]
        assert all(action.keys for action in actions), name
    user_keys = preset_keys("vim", {"table.mark": ["ctrl+f"]})
    assert rebound(DEFAULT_ACTIONS, user_keys)[0].keys == "j,down"
    assert user_keys["table.page-down"] == ("pgdn",)
    assert rebound(DEFAULT_ACTIONS, {}) == DEFAULT_ACTIONS


@pytest.mark.slow
def test_bindings_and_help_use_the_keys_of_the_user(keys_file: Path) -> None:
    keys_file.write_text('table.sort = "o"\napp.views = "f2"\nview.issues = "f6"\n')
    code = """
import asyncio
from tui.cli.explore import _apply_user_keys
_apply_user_keys()
from tests.screens.explorer import open_explorer, press
from tui.screens.help import _keys
async def main():
    async with open_explorer("gpt_summary.nvprof.log") as pilot:
        await press(pilot, "K")
        bindings = {bound.binding.action: key for key, bound in pilot.app.screen.active_bindings.items()}
        print(bindings["sort_column"], bindings["views_menu"])
        await press(pilot, "f2")
        print(type(pilot.app.screen).__name__)
        await press(pilot, "escape", "f6")
        print(pilot.app.view_screen.VIEW if pilot.app.view_screen else "")
        await press(pilot, "q", "question_mark")
        print(type(pilot.app.screen).__name__)
        print([keys for keys, text in _keys(pilot.app.screen._local_actions, "Sort by")][:1])
asyncio.run(main())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["o f2", "MenuScreen", "issues", "HelpScreen", "['o']"]
